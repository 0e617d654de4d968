# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""One pass over two fields of any size, in memory or not.

Both are read in slabs along the first axis, of whole chunks where they have any, and so much is
kept of the slab before that every stencil, pair and window is seen once. Where a slab with what is
kept would take more memory than allowed, the field is cut into columns along the second and third
axis too, whose borders are read twice. Arrays that need no conversion are looked at where they are.
"""

from __future__ import annotations

import itertools
import math
import operator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from h5lossy._blocks import block_shape, blocks
from h5lossy._native import AssessState, Piece

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from h5lossy.assessment._absent import Absent
    from h5lossy.assessment._inputs import Input
    from h5lossy.missing import Missing

#: Values that one call takes from arrays in memory: enough for all threads, and a second or less.
_VALUES_AT_ONCE = 1 << 24

#: The same on a GPU, where a call takes some tens of microseconds however little it is for.
_VALUES_AT_ONCE_ON_DEVICE = 1 << 31

#: What is read from files at once, if the memory limit allows so much.
_BYTES_AT_ONCE = 16 << 20

#: So many slabs fit in the memory limit: one is assessed, one is being read, one is where what is
#: kept and what is new are put together, and one is for all else.
_PARTS = 4

#: To give the library a run of points takes about as long as to assess so many.
_CALL_POINTS = 4096

#: Where a field may be cut along its first axis, by its rank: at borders of cells, which have 7 or
#: 16 rows, so that sums come out the same wherever pieces end.
FIRST_CUT = {0: 1, 1: 4096, 2: 112, 3: 1, 4: 1}

#: And along the axes behind it, for columns, which change the order of cells in any case.
_OTHER_CUTS = {2: (256,), 3: (16, 16), 4: (1, 16)}


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The fields as they are walked: without axes of extent 1, if that leaves 1 to 4 of them.

    Attributes
    ----------
    full_shape : tuple of int
        As the user has it.
    axes : tuple of int
        The axes that are left; all of them where there are more than 4.
    """

    full_shape: tuple[int, ...]
    axes: tuple[int, ...]

    @classmethod
    def of(cls, shape: tuple[int, ...]) -> Layout:
        """Leave out axes of extent 1, but for the last one of those alone."""
        axes = tuple(axis for axis, n in enumerate(shape) if n != 1)
        return cls(full_shape=shape, axes=axes or tuple(range(len(shape)))[-1:])

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents along `axes`."""
        return tuple(self.full_shape[axis] for axis in self.axes)

    def selection(self, own: tuple[slice, ...]) -> tuple[slice, ...]:
        """Return a selection in the full shape for one along `axes`."""
        wanted = dict(zip(self.axes, own, strict=True))
        return tuple(wanted.get(axis, slice(0, 1)) for axis in range(len(self.full_shape)))

    def chunks(self, field: Input) -> tuple[int, ...] | None:
        """Return a field's chunk extents along `axes`."""
        return field.chunks and tuple(field.chunks[axis] for axis in self.axes)


@dataclass(frozen=True, kw_only=True)
class Fields:
    """What is walked through.

    Attributes
    ----------
    original, decoded : Input
    mask : array-like or None
        True where a point is left out; read like the fields.
    dtype : numpy.dtype
        What values are compared as.
    layout : Layout
    missing : Missing
        Which values are no data.
    device : int or None
        The GPU that all of this is on, and is assessed by.
    """

    original: Input
    decoded: Input
    mask: Input | None
    dtype: np.dtype[Any]
    layout: Layout
    missing: Missing
    device: int | None = None

    def marked(
        self, original: npt.NDArray[Any], mask: npt.NDArray[Any] | None
    ) -> npt.NDArray[Any] | None:
        """Mark missing and invalid values of a part of the original in its mask."""
        return self.missing.mark(original, mask) if self.missing.has_more else mask

    def blocks(self, most_bytes: int) -> Iterator[tuple[slice, ...]]:
        """Cut them along the layout's axes into parts that take so much as float64.

        Parts are of whole chunks, if these are small enough.
        """
        shape = self.layout.shape
        chunks = self.layout.chunks(self.original) or self.layout.chunks(self.decoded)
        if chunks and 8 * math.prod(chunks) > most_bytes:
            chunks = None
        yield from blocks(shape, block_shape(shape, chunks, 8, most_bytes=most_bytes))


@dataclass(frozen=True)
class _Column:
    """A part of the axes behind the first."""

    own: tuple[slice, ...]
    read: tuple[slice, ...]  # with what its stencils, pairs and windows reach

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of what it owns."""
        return tuple(s.stop - s.start for s in self.own)


@dataclass(frozen=True)
class _Slab:
    """Consecutive planes of one column: what is kept, and what is new."""

    column: _Column
    start: int  # of what is kept
    fresh: int  # the first plane that is new
    stop: int
    own: slice  # planes whose stencils, pairs and windows can be taken


class Walker:
    """Cuts two fields into slabs and gives them to a state.

    Parameters
    ----------
    fields : Fields
    reach : int
        How many points a stencil, pair or window reaches from its corner; 0 where there are none.
    memory_limit : int
        In bytes, for values that are not in memory already, or of another type there.
    """

    def __init__(self, fields: Fields, reach: int, memory_limit: int) -> None:
        self._fields = fields
        self._reach = reach
        self._shape = fields.layout.shape or (1,)
        self._on_device = fields.device is not None
        self._in_memory = self._on_device or (
            self._is_view(fields.original) and self._is_view(fields.decoded)
        )
        self._limit = memory_limit
        self._thickness, self._widths = self._choose_cuts()

    @property
    def amplification(self) -> float:
        """How often a value is read, on average."""
        return math.prod(
            _read_twice(n, width, self._reach)
            for n, width in zip(self._shape[1:], self._widths, strict=True)
        )

    def _is_view(self, source: Input) -> bool:
        """Whether parts of a field are looked at where they are."""
        return source.is_array and source.dtype == self._fields.dtype and source.is_contiguous

    def _point_bytes(self) -> int:
        has_mask = self._fields.mask is not None or self._fields.missing.has_more
        return 2 * self._fields.dtype.itemsize + has_mask

    def _choose_cuts(self) -> tuple[int, tuple[int, ...]]:
        """Choose how many planes are read at a time, and how wide columns are."""
        rank, whole = len(self._shape), self._shape[1:]
        plane = max(1, math.prod(whole))
        cut = FIRST_CUT.get(rank, 1)
        if self._in_memory:
            at_once = _VALUES_AT_ONCE_ON_DEVICE if self._on_device else _VALUES_AT_ONCE
            return max(1, at_once // plane // cut) * cut, whole
        chunks = [
            self._fields.layout.chunks(f) for f in (self._fields.original, self._fields.decoded)
        ]
        rows = [
            max(1, min(n, max((c[axis] for c in chunks if c), default=1)))
            for axis, n in enumerate(self._shape)
        ]
        budget = self._limit // _PARTS // self._point_bytes()
        kept = min(self._reach + cut, self._shape[0] - 1)
        thick, fits = rows[0], budget // plane - kept
        if fits >= thick:
            at_once = _BYTES_AT_ONCE // self._point_bytes() // plane
            return max(thick, min(fits, at_once) // thick * thick), whole
        if rank not in _OTHER_CUTS:
            return max(1, min(thick, fits)), whole
        while True:
            widths = self._choose_widths(budget // (thick + kept), rows[1:])
            if widths is not None:
                return thick, widths
            if thick == 1:
                return 1, self._narrowest()
            thick = -(-thick // 2)

    def _narrowest(self) -> tuple[int, ...]:
        cuts = _OTHER_CUTS[len(self._shape)]
        return (*map(min, cuts, self._shape[1:]), *self._shape[1 + len(cuts) :])

    def _choose_widths(self, most: int, chunks: Sequence[int]) -> tuple[int, ...] | None:
        """Choose the columns that take the least time, of at most so many points of a plane."""
        shape, reach = self._shape[1:], self._reach
        best: tuple[float, int, tuple[int, ...]] | None = None
        widths_of = [
            {min(unit << k, n) for unit in (cut, math.lcm(cut, chunk)) for k in range(64)}
            for n, cut, chunk in zip(shape, _OTHER_CUTS[len(self._shape)], chunks, strict=False)
        ]
        for some in itertools.product(*widths_of):
            widths = (*some, *shape[len(some) :])
            points = math.prod(min(w + reach, n) for w, n in zip(widths, shape, strict=True))
            if points > most:
                continue
            cost = math.prod(map(_read_twice, shape, widths, itertools.repeat(reach), chunks))
            cost *= 1 + _CALL_POINTS / self._run(widths)
            if best is None or (cost, -points) < best[:2]:
                best = (cost, -points, widths)
        return None if best is None else best[2]

    def _run(self, widths: tuple[int, ...]) -> int:
        """Return how many points of a column are adjacent."""
        shape = self._shape[1:]
        cut = max((k for k, w in enumerate(widths) if w < shape[k]), default=0)
        return math.prod((widths[cut], *shape[cut + 1 :]))

    def _columns(self) -> Iterator[_Column]:
        for own in blocks(self._shape[1:], self._widths):
            read = tuple(
                slice(s.start, min(s.stop + self._reach, n))
                for s, n in zip(own, self._shape[1:], strict=True)
            )
            yield _Column(own, read)

    def _slabs(self) -> Iterator[_Slab]:
        planes = self._shape[0]
        cut = FIRST_CUT.get(len(self._shape), 1)
        for column in self._columns():
            start = owned = fresh = 0
            while fresh < planes:
                stop = min(fresh + self._thickness, planes)
                end = planes if stop == planes else max(owned, (stop - self._reach) // cut * cut)
                yield _Slab(column, start, fresh, stop, slice(owned, end))
                start = owned = end
                fresh = stop

    def run(
        self,
        state: AssessState,
        *,
        boxes: tuple[tuple[int, ...], npt.NDArray[Any]] | None = None,
        has_points: bool = False,
        absent: Absent | None = None,
        progress: Callable[[int], None],
    ) -> AssessState:
        """Give everything to a state.

        Parameters
        ----------
        state : AssessState
        boxes : tuple, optional
            Extent of a box, and the boxes to add to.
        has_points : bool, optional
            The state has the reductions of all points already.
        absent : Absent, optional
            Receives all points as well.
        progress : function
            Called with the number of points after each slab.

        Returns
        -------
        AssessState
            The one that knows of stencils, pairs and windows: `state`, or one of its own where the
            field is cut into columns. Only a state that has been given a point knows whether it is
            valid, and columns reach into those that come later.
        """
        fields = state
        if self._reach and self._widths != self._shape[1:] and not has_points:
            fields = AssessState(state.params)
        if 0 in self._fields.original.shape:
            return fields
        if self._on_device:  # there is nothing to read meanwhile
            for slab in self._slabs():
                parts = self._read(slab, ())
                count = self._add(
                    state, fields, slab, parts, boxes, has_points=has_points, absent=None
                )
                progress(count)
            return fields
        # The calling thread reads, since it may hold h5py's lock; the other one calls the library.
        with ThreadPoolExecutor(1) as other:
            pending = None
            held: tuple[npt.NDArray[Any] | None, ...] = ()
            for slab in self._slabs():
                held = self._read(slab, held)
                if pending is not None:
                    progress(pending.result())
                original, decoded, mask = held
                assert original is not None
                pending = other.submit(
                    self._add,
                    state,
                    fields,
                    slab,
                    (original, decoded, self._fields.marked(original, mask)),
                    boxes,
                    has_points=has_points,
                    absent=absent,
                )
            if pending is not None:
                progress(pending.result())
        return fields

    def _read(
        self, slab: _Slab, held: tuple[npt.NDArray[Any] | None, ...]
    ) -> tuple[npt.NDArray[Any] | None, ...]:
        fields = self._fields
        parts: list[npt.NDArray[Any] | None] = []
        sources = (
            (fields.original, fields.dtype),
            (fields.decoded, fields.dtype),
            (fields.mask, np.dtype(np.uint8)),
        )
        for i, (source, dtype) in enumerate(sources):
            if source is None:
                parts.append(None)
                continue
            # Everything that is needed, where it takes no memory.
            if self._on_device or (source.is_array and self._in_memory):
                parts.append(self._part(source, dtype, slab, slab.start))
                continue
            new = self._part(source, dtype, slab, slab.fresh)
            before = held[i] if held and slab.start != slab.fresh else None
            if before is not None:
                kept = before[len(before) - (slab.fresh - slab.start) :]
                # Left to itself, NumPy gives it the machine's byte order, and at times another one
                # of axes.
                both = np.empty((len(kept) + len(new), *new.shape[1:]), dtype)
                new = np.concatenate([kept, new], out=both)
            parts.append(new)
        return tuple(parts)

    def _part(
        self, source: Input, dtype: np.dtype[Any], slab: _Slab, start: int
    ) -> npt.NDArray[Any]:
        own = (slice(start, slab.stop), *slab.column.read)
        layout = self._fields.layout
        read = source.read_on_device if self._on_device else source.read
        part: npt.NDArray[Any] = read(layout.selection(own) if layout.axes else (), dtype)
        shape = tuple(s.stop - s.start for s in own)
        is_whole = source.values is part and part.shape == shape
        # Of an axis of extent 1 the stride may be anything, and the library looks at it.
        return part if is_whole else part.reshape(-1).reshape(shape)

    def _add(
        self,
        state: AssessState,
        fields: AssessState,
        slab: _Slab,
        parts: tuple[npt.NDArray[Any] | None, ...],
        boxes: tuple[tuple[int, ...], npt.NDArray[Any]] | None,
        *,
        has_points: bool,
        absent: Absent | None,
    ) -> int:
        original, decoded, mask = parts
        assert original is not None
        assert decoded is not None
        if has_points:
            count = (slab.stop - slab.fresh) * math.prod(slab.column.shape)
        else:
            take = state.points if absent is None else _both(state.points, absent.add)
            count = self._add_points(take, slab, original, decoded, mask)
        if len(self._shape) > 4 or not (self._reach or boxes):
            return count
        column = slab.column
        piece = Piece(
            original=original,
            decoded=decoded,
            mask=mask,
            origin=(slab.start, *(s.start for s in column.read)),
            own_origin=(slab.own.start, *(s.start for s in column.own)),
            own_extent=(slab.own.stop - slab.own.start, *column.shape),
        )
        if self._reach:
            if fields is not state:
                new = (a if a is None else a[slab.fresh - slab.start :] for a in parts)
                x, y, m = (a if a is None else a.reshape(-1) for a in new)
                assert x is not None
                assert y is not None
                fields.points(0, x, y, m)
            fields.field(piece)
        if boxes is not None:
            state.boxes(piece, *boxes)
        return count

    def _add_points(
        self,
        take: Callable[..., None],
        slab: _Slab,
        original: npt.NDArray[Any],
        decoded: npt.NDArray[Any],
        mask: npt.NDArray[Any] | None,
    ) -> int:
        """Give the new planes' own points, in runs of adjacent ones."""
        skip = slab.fresh - slab.start
        shape, own = self._shape[1:], slab.column.shape
        parts = [a[skip:] if a is not None and skip else a for a in (original, decoded, mask)]
        # Axes of the column behind the last one that is cut are whole, and so are runs along it.
        cut = max((k for k, n in enumerate(shape, 1) if own[k - 1] < n), default=0)
        steps = (1, *shape[::-1])
        strides = list(itertools.accumulate(steps, operator.mul))[::-1]
        outer = (slab.stop - slab.fresh, *own)[:cut]
        origin = (slab.fresh, *(s.start for s in slab.column.own))
        first = sum(map(operator.mul, origin, strides))
        for at in itertools.product(*map(range, outer)):
            there: tuple[Any, ...] = (*at, slice(own[cut - 1])) if cut else ()
            x, y, m = (None if a is None else a[there].reshape(-1) for a in parts)
            assert x is not None
            assert y is not None
            take(first + sum(map(operator.mul, at, strides)), x, y, m)
        return (slab.stop - slab.fresh) * math.prod(own)


def _both(one: Callable[..., None], other: Callable[..., None]) -> Callable[..., None]:
    def take(*arguments: Any) -> None:
        one(*arguments)
        other(*arguments)

    return take


def _read_twice(n: int, width: int, reach: int, chunk: int = 1) -> float:
    """Return how often a value is read, on average, along an axis that is cut; by whole chunks."""
    if width >= n:
        return 1.0
    start = np.arange(0, n, width)
    stop = np.minimum(start + width + reach, n)
    read = np.minimum(-(-stop // chunk) * chunk, n) - start // chunk * chunk
    return float(read.sum() / n)


def position(number: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the coordinates of a point by its number in C order."""
    return tuple(int(i) for i in np.unravel_index(number, shape)) if shape else ()


def box_grid(shape: tuple[int, ...], chunks: tuple[int, ...], most: int) -> tuple[int, ...]:
    """Return boxes of whole chunks, so that there are at most `most`.

    Parameters
    ----------
    shape, chunks : tuple of int
    most : int

    Returns
    -------
    tuple of int
        Extents of a box.
    """
    box = list(chunks)

    def count() -> int:
        return math.prod(-(-n // b) for n, b in zip(shape, box, strict=True))

    while count() > most:
        axis = max(range(len(shape)), key=lambda a: shape[a] / box[a])
        box[axis] *= 2
    return tuple(box)

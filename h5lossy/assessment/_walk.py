# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""One pass over two fields of any size, in memory or not.

Both are read in slabs along the first axis, of whole chunks where they have any, and so much is
kept of the slab before that every stencil, pair and window is seen once. Where a slab with what is
kept would take more memory than allowed, the second axis is cut too, and its borders are read
twice.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from h5lossy._native import AssessState, Piece

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from h5lossy.assessment._inputs import Input

#: Values that one call takes from arrays in memory: enough for all threads, and a second or less.
_VALUES_AT_ONCE = 1 << 24

#: The same on a GPU, where a call takes some tens of microseconds however little it is for.
_VALUES_AT_ONCE_ON_DEVICE = 1 << 31

#: Where a field may be cut along its first axis, by its rank: at borders of cells, which have 7 or
#: 16 rows, so that sums come out the same wherever pieces end.
FIRST_CUT = {0: 1, 1: 4096, 2: 112, 3: 1, 4: 1}

#: And along its second axis, for strips, which change the order of cells in any case.
_SECOND_CUT = {2: 256, 3: 16, 4: 1}


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
    device : int or None
        The GPU that all of this is on, and is assessed by.
    """

    original: Input
    decoded: Input
    mask: Input | None
    dtype: np.dtype[Any]
    layout: Layout
    device: int | None = None


@dataclass(frozen=True)
class _Slab:
    """Consecutive planes of one strip: what is kept, and what is new."""

    strip: slice  # of the second axis, owned
    read_strip: slice
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
        In bytes, for values that are not in memory already.
    """

    def __init__(self, fields: Fields, reach: int, memory_limit: int) -> None:
        self._fields = fields
        self._reach = reach
        self._shape = fields.layout.shape or (1,)
        self._on_device = fields.device is not None
        self._in_memory = self._on_device or (fields.original.is_array and fields.decoded.is_array)
        self._limit = memory_limit
        self._thickness, self._strip = self._choose_cuts()

    @property
    def amplification(self) -> float:
        """How often a value is read, on average."""
        if len(self._shape) < 2 or self._strip >= self._shape[1]:
            return 1.0
        read = sum(s.read_strip.stop - s.read_strip.start for s in self._strips())
        return float(read / self._shape[1])

    def _plane_bytes(self) -> int:
        mask = self._fields.mask is not None
        return (2 * self._fields.dtype.itemsize + mask) * math.prod(self._shape[1:])

    def _choose_cuts(self) -> tuple[int, int]:
        """Choose how many planes are read at a time, and how wide strips are."""
        rank = len(self._shape)
        whole = self._shape[1] if rank > 1 else 1
        per_plane = max(1, self._plane_bytes())
        if self._in_memory:
            values = max(1, math.prod(self._shape[1:]))
            cut = FIRST_CUT.get(rank, 1)
            at_once = _VALUES_AT_ONCE_ON_DEVICE if self._on_device else _VALUES_AT_ONCE
            return max(1, at_once // values // cut) * cut, whole
        chunks = [
            self._fields.layout.chunks(f) for f in (self._fields.original, self._fields.decoded)
        ]
        thick = max((c[0] for c in chunks if c), default=1)
        # A third is assessed, one is being read, and one is where both are put together.
        budget = self._limit // 3
        kept = self._reach + FIRST_CUT.get(rank, 1)
        fits = budget // per_plane - kept
        if fits >= thick:
            return max(thick, min(fits, (16 << 20) // per_plane) // thick * thick), whole
        if rank < 2 or rank > 4 or whole < 2 * _SECOND_CUT[rank]:
            return max(1, min(thick, fits)), whole
        # Strips: as wide as fits, at borders of chunks and cells.
        cut = math.lcm(_SECOND_CUT[rank], max((c[1] for c in chunks if c), default=1))
        cut = cut if cut < whole else _SECOND_CUT[rank]
        per_column = max(1, per_plane // whole)
        while (
            thick > 1 and budget // (per_column * (thick + kept)) < _SECOND_CUT[rank] + self._reach
        ):
            thick = -(-thick // 2)
        columns = budget // (per_column * (thick + kept)) - self._reach
        step = cut if columns >= cut else _SECOND_CUT[rank]
        return thick, max(step, columns // step * step)

    def _strips(self) -> Iterator[_Slab]:
        whole = self._shape[1] if len(self._shape) > 1 else 1
        for first in range(0, whole, self._strip):
            stop = min(first + self._strip, whole)
            yield _Slab(
                slice(first, stop),
                slice(first, min(stop + self._reach, whole)),
                0,
                0,
                0,
                slice(0, 0),
            )

    def _slabs(self) -> Iterator[_Slab]:
        planes = self._shape[0]
        cut = FIRST_CUT.get(len(self._shape), 1)
        for strip in self._strips():
            start = owned = fresh = 0
            while fresh < planes:
                stop = min(fresh + self._thickness, planes)
                end = planes if stop == planes else max(owned, (stop - self._reach) // cut * cut)
                yield _Slab(strip.strip, strip.read_strip, start, fresh, stop, slice(owned, end))
                start = owned = end
                fresh = stop

    def run(
        self,
        state: AssessState,
        *,
        boxes: tuple[tuple[int, ...], npt.NDArray[Any]] | None = None,
        has_points: bool = False,
        progress: Callable[[int], None],
    ) -> None:
        """Give everything to a state.

        Parameters
        ----------
        state : AssessState
        boxes : tuple, optional
            Extent of a box, and the boxes to add to.
        has_points : bool, optional
            The state has the reductions of all points already.
        progress : function
            Called with the number of points after each slab.
        """
        if 0 in self._fields.original.shape:
            return
        if self._on_device:  # there is nothing to read meanwhile
            for slab in self._slabs():
                parts = self._read(slab, ())
                progress(self._add(state, slab, parts, boxes, has_points=has_points))
            return
        # The calling thread reads, since it may hold h5py's lock; the other one calls the library.
        with ThreadPoolExecutor(1) as other:
            pending = None
            held: tuple[npt.NDArray[Any] | None, ...] = ()
            for slab in self._slabs():
                held = self._read(slab, held)
                if pending is not None:
                    progress(pending.result())
                pending = other.submit(self._add, state, slab, held, boxes, has_points=has_points)
            if pending is not None:
                progress(pending.result())

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
            if (
                source.is_array or self._on_device
            ):  # a view of everything that is needed, if it needs no conversion
                parts.append(self._part(source, dtype, slab, slab.start))
                continue
            new = self._part(source, dtype, slab, slab.fresh)
            before = held[i] if held and slab.start != slab.fresh else None
            if before is not None:
                kept = before[len(before) - (slab.fresh - slab.start) :]
                new = np.concatenate([kept, new])
            parts.append(new)
        return tuple(parts)

    def _part(
        self, source: Input, dtype: np.dtype[Any], slab: _Slab, start: int
    ) -> npt.NDArray[Any]:
        own = [slice(0, n) for n in self._shape]
        own[0] = slice(start, slab.stop)
        if len(own) > 1:
            own[1] = slab.read_strip
        layout = self._fields.layout
        read = source.read_on_device if self._on_device else source.read
        part = read(layout.selection(tuple(own)) if layout.axes else (), dtype)
        shape = tuple(s.stop - s.start for s in own)
        return part if part.shape == shape else part.reshape(shape)

    def _add(
        self,
        state: AssessState,
        slab: _Slab,
        parts: tuple[npt.NDArray[Any] | None, ...],
        boxes: tuple[tuple[int, ...], npt.NDArray[Any]] | None,
        *,
        has_points: bool,
    ) -> int:
        original, decoded, mask = parts
        assert original is not None
        assert decoded is not None
        if has_points:
            width: int = slab.strip.stop - slab.strip.start
            count = (slab.stop - slab.fresh) * width * math.prod(self._shape[2:])
        else:
            count = self._add_points(state, slab, original, decoded, mask)
        if len(self._shape) > 4 or not (self._reach or boxes):
            return count
        zeros = (0,) * (len(self._shape) - 2)
        origin: tuple[int, ...] = (slab.start,)
        own_origin: tuple[int, ...] = (slab.own.start,)
        own_shape: tuple[int, ...] = (slab.own.stop - slab.own.start,)
        if len(self._shape) > 1:
            origin = (*origin, slab.read_strip.start, *zeros)
            own_origin = (*own_origin, slab.strip.start, *zeros)
            own_shape = (*own_shape, slab.strip.stop - slab.strip.start, *self._shape[2:])
        piece = Piece(
            original=original,
            decoded=decoded,
            mask=mask,
            origin=origin,
            own_origin=own_origin,
            own_shape=own_shape,
        )
        if self._reach:
            state.field(piece)
        if boxes is not None:
            state.boxes(piece, *boxes)
        return count

    def _add_points(
        self,
        state: AssessState,
        slab: _Slab,
        original: npt.NDArray[Any],
        decoded: npt.NDArray[Any],
        mask: npt.NDArray[Any] | None,
    ) -> int:
        """Give the new planes' own points, in runs of adjacent ones."""
        skip = slab.fresh - slab.start
        row = math.prod(self._shape[1:])
        parts = [a[skip:] if a is not None and skip else a for a in (original, decoded, mask)]
        if len(self._shape) < 2 or slab.strip == slice(0, self._shape[1]):
            x, y, m = (None if a is None else a.reshape(-1) for a in parts)
            assert x is not None
            assert y is not None
            state.points(slab.fresh * row, x, y, m)
            return int(x.size)
        width = slab.strip.stop - slab.strip.start
        inner = math.prod(self._shape[2:])
        for plane in range(slab.stop - slab.fresh):
            x, y, m = (None if a is None else a[plane, :width].reshape(-1) for a in parts)
            assert x is not None
            assert y is not None
            state.points((slab.fresh + plane) * row + slab.strip.start * inner, x, y, m)
        return int((slab.stop - slab.fresh) * width * inner)


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

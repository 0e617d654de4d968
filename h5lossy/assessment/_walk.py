# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""One pass over two fields of any size, in memory or not.

Both are read in slabs along the first axis, of whole chunks where there are chunks. Each slab
overlaps the one before by the halo of stencils, lags and windows, so each of them is computed
exactly once. Where a slab with its halo would take more memory than allowed, the field is cut into
columns along the second and third axis too, and the halos of these are read again. Arrays that need
no conversion are not copied.
"""

from __future__ import annotations

import itertools
import math
import operator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from h5lossy._blocks import blocks
from h5lossy._native import AssessState, Piece
from h5lossy.assessment._fields import MASK_DTYPE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from h5lossy.assessment._absent import Absent
    from h5lossy.assessment._fields import Fields
    from h5lossy.assessment._inputs import Input

    Values = npt.NDArray[Any]
    #: Original, decoded and mask of a slab.
    Parts = tuple[Values, Values, Values | None]

#: Values per call for arrays in memory: enough for all threads, and at most about a second.
_VALUES_AT_ONCE = 1 << 24

#: The same on a GPU, where even a small call takes tens of microseconds.
_VALUES_AT_ONCE_ON_DEVICE = 1 << 31

#: Bytes that are read from files at once, if the memory limit allows it.
_BYTES_AT_ONCE = 16 << 20

#: A slab takes at most this fraction of the memory limit: one is processed, one is being read, one
#: is where halo and new planes are joined, and one is for everything else.
_PARTS = 4

#: The overhead of one call with a run of points, in points that take the same time.
_CALL_POINTS = 4096

#: The first axis may be cut at multiples of this, by rank; 1 elsewhere. These are borders of the
#: cells that sums are made of (7 or 16 rows), so cuts do not change a sum.
_FIRST_CUT = {1: 4096, 2: 112}

#: The same for the axes behind it, which columns cut; columns change the order of cells.
_OTHER_CUTS = {2: (256,), 3: (16, 16), 4: (1, 16)}


def first_cut(rank: int) -> int:
    """Return what the first axis may be cut at multiples of, without a change of any sum."""
    return _FIRST_CUT.get(rank, 1)


@dataclass(frozen=True)
class _Column:
    """A part of the axes behind the first."""

    own: tuple[slice, ...]
    read: tuple[slice, ...]  # with its halo

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents without the halo."""
        return tuple(s.stop - s.start for s in self.own)


@dataclass(frozen=True)
class _Slab:
    """Consecutive planes of a column: those kept from the slab before, and new ones."""

    column: _Column
    start: int  # the first plane that is kept
    fresh: int  # the first new plane
    stop: int
    own: slice  # planes whose stencils, lags and windows are computed now

    @property
    def kept(self) -> int:
        """Number of planes of the slab before."""
        return self.fresh - self.start

    @property
    def fresh_shape(self) -> tuple[int, ...]:
        """Extents of the new planes, without the halo."""
        return (self.stop - self.fresh, *self.column.shape)


class Walker:
    """Cuts two fields into slabs and passes them to a state.

    The halo says how far stencils, lags and windows extend from their first point. The limit, in
    bytes, is for values that are not in memory yet, or have another type there.
    """

    def __init__(self, fields: Fields, halo: int, memory_limit: int) -> None:
        self._fields, self._halo, self._limit = fields, halo, memory_limit
        self._shape = fields.layout.shape or (1,)
        self._cut = first_cut(len(self._shape))
        self._on_device = fields.device is not None
        self._in_memory = self._on_device or all(
            f.is_contiguous and f.dtype == fields.dtype for f in (fields.original, fields.decoded)
        )
        self._thickness, self._widths = self._choose_cuts()

    @property
    def amplification(self) -> float:
        """How often a value is read, on average."""
        return math.prod(
            _times_read(n, width, self._halo)
            for n, width in zip(self._shape[1:], self._widths, strict=True)
        )

    def _choose_cuts(self) -> tuple[int, tuple[int, ...]]:
        """Choose how many planes are read at a time, and how wide columns are."""
        fields, rank, whole = self._fields, len(self._shape), self._shape[1:]
        plane = max(1, math.prod(whole))
        if self._in_memory:
            at_once = _VALUES_AT_ONCE_ON_DEVICE if self._on_device else _VALUES_AT_ONCE
            return max(1, at_once // plane // self._cut) * self._cut, whole
        chunks = [fields.layout.chunks(f) for f in (fields.original, fields.decoded)]
        rows = [
            max(1, min(n, max((c[axis] for c in chunks if c), default=1)))
            for axis, n in enumerate(self._shape)
        ]
        has_mask = fields.mask is not None or fields.missing.has_more
        point_bytes = 2 * fields.dtype.itemsize + has_mask
        budget = self._limit // _PARTS // point_bytes
        kept = min(self._halo + self._cut, self._shape[0] - 1)
        thick, fits = rows[0], budget // plane - kept
        if fits >= thick:
            at_once = _BYTES_AT_ONCE // point_bytes // plane
            return max(thick, min(fits, at_once) // thick * thick), whole
        cuts = _OTHER_CUTS.get(rank)
        if cuts is None:
            return max(1, min(thick, fits)), whole
        while True:
            widths = self._choose_widths(budget // (thick + kept), rows[1:], cuts)
            if widths is not None:
                return thick, widths
            if thick == 1:
                return 1, (*map(min, cuts, whole), *whole[len(cuts) :])
            thick = -(-thick // 2)

    def _choose_widths(
        self, most: int, chunks: Sequence[int], cuts: tuple[int, ...]
    ) -> tuple[int, ...] | None:
        """Choose the fastest columns of at most `most` points of a plane, if there are any."""
        shape, halo = self._shape[1:], self._halo
        best: tuple[float, int, tuple[int, ...]] | None = None
        widths_of = [
            {min(unit << k, n) for unit in (cut, math.lcm(cut, chunk)) for k in range(64)}
            for n, cut, chunk in zip(shape, cuts, chunks, strict=False)
        ]
        for some in itertools.product(*widths_of):
            widths = (*some, *shape[len(some) :])
            points = math.prod(min(w + halo, n) for w, n in zip(widths, shape, strict=True))
            if points > most:
                continue
            cost = math.prod(map(_times_read, shape, widths, itertools.repeat(halo), chunks))
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
                slice(s.start, min(s.stop + self._halo, n))
                for s, n in zip(own, self._shape[1:], strict=True)
            )
            yield _Column(own, read)

    def _slabs(self) -> Iterator[_Slab]:
        planes, cut = self._shape[0], self._cut
        for column in self._columns():
            start = owned = fresh = 0
            while fresh < planes:
                stop = min(fresh + self._thickness, planes)
                end = planes if stop == planes else max(owned, (stop - self._halo) // cut * cut)
                yield _Slab(column, start, fresh, stop, slice(owned, end))
                start = owned = end
                fresh = stop

    def run(
        self,
        state: AssessState,
        *,
        boxes: tuple[tuple[int, ...], Values] | None = None,
        has_points: bool = False,
        absent: Absent | None = None,
        progress: Callable[[int], None],
    ) -> AssessState:
        """Pass both fields to a state; return the one that has stencils, lags and windows.

        These are computed into a state of their own where the field is cut into columns: a state
        knows whether a point is valid only if it was given that point, and the halo of a column
        belongs to later ones. With `has_points`, the state has the reductions already.
        """
        fields = state
        if self._halo and self._widths != self._shape[1:] and not has_points:
            fields = AssessState(state.params)
        if 0 in self._fields.original.shape:
            return fields

        def add(slab: _Slab, parts: Parts) -> int:
            if not has_points:
                self._add_points(state, absent, slab, parts)
            if len(self._shape) <= 4 and (self._halo or boxes):
                self._add_piece(state, fields, slab, parts, boxes)
            return math.prod(slab.fresh_shape)

        if self._on_device:  # there is nothing to read
            for slab in self._slabs():
                progress(add(slab, self._read(slab, None)))
            return fields
        # This thread reads, since it may hold h5py's lock; the other one calls the library.
        with ThreadPoolExecutor(1) as other:
            pending = None
            held: Parts | None = None
            for slab in self._slabs():
                held = self._read(slab, held)
                if pending is not None:
                    progress(pending.result())
                original, decoded, mask = held
                mask = self._fields.marked(original, mask)
                pending = other.submit(add, slab, (original, decoded, mask))
            if pending is not None:
                progress(pending.result())
        return fields

    def _read(self, slab: _Slab, held: Parts | None) -> Parts:
        """Read a slab, given what was read for the one before."""
        fields, before = self._fields, held or (None, None, None)
        return (
            self._read_one(fields.original, fields.dtype, slab, before[0]),
            self._read_one(fields.decoded, fields.dtype, slab, before[1]),
            None
            if fields.mask is None
            else self._read_one(fields.mask, MASK_DTYPE, slab, before[2]),
        )

    def _read_one(
        self, source: Input, dtype: np.dtype[Any], slab: _Slab, before: Values | None
    ) -> Values:
        """Read one field's part of a slab; the planes that are kept are copied from before."""
        if self._on_device or (source.is_array and self._in_memory):
            return self._part(source, dtype, slab, slab.start)
        new = self._part(source, dtype, slab, slab.fresh)
        if before is None or not slab.kept:
            return new
        # Without `out`, NumPy may change the byte order or the order of axes.
        both = np.empty((slab.kept + len(new), *new.shape[1:]), dtype)
        return np.concatenate([before[len(before) - slab.kept :], new], out=both)

    def _part(self, source: Input, dtype: np.dtype[Any], slab: _Slab, start: int) -> Values:
        own = (slice(start, slab.stop), *slab.column.read)
        layout = self._fields.layout
        read = source.read_on_device if self._on_device else source.read
        part: Values = read(layout.selection(own) if layout.axes else (), dtype)
        shape = tuple(s.stop - s.start for s in own)
        is_whole = source.values is part and part.shape == shape
        # Along an axis of extent 1 NumPy allows any stride, but the library uses it.
        return part if is_whole else part.reshape(-1).reshape(shape)

    def _add_points(
        self, state: AssessState, absent: Absent | None, slab: _Slab, parts: Parts
    ) -> None:
        """Add the new points without the halo, in runs of adjacent ones."""
        shape, own = self._shape[1:], slab.column.shape
        x_new, y_new, mask_new = _behind(slab.kept, parts)
        # Axes behind the last one that is cut are whole, so runs extend along them.
        cut = max((k for k, n in enumerate(shape, 1) if own[k - 1] < n), default=0)
        strides = list(itertools.accumulate((1, *shape[::-1]), operator.mul))[::-1]
        origin = (slab.fresh, *(s.start for s in slab.column.own))
        first = sum(map(operator.mul, origin, strides))
        for at in itertools.product(*map(range, slab.fresh_shape[:cut])):
            run: tuple[Any, ...] = (*at, slice(own[cut - 1])) if cut else ()
            start = first + sum(map(operator.mul, at, strides))
            x, y = x_new[run].reshape(-1), y_new[run].reshape(-1)
            mask = None if mask_new is None else mask_new[run].reshape(-1)
            state.points(start, x, y, mask)
            if absent is not None:
                absent.add(start, x, y, mask)

    def _add_piece(
        self,
        state: AssessState,
        fields: AssessState,
        slab: _Slab,
        parts: Parts,
        boxes: tuple[tuple[int, ...], Values] | None,
    ) -> None:
        """Add stencils, lags and windows, and the sums of boxes."""
        original, decoded, mask = parts
        column = slab.column
        piece = Piece(
            original=original,
            decoded=decoded,
            mask=mask,
            origin=(slab.start, *(s.start for s in column.read)),
            own_origin=(slab.own.start, *(s.start for s in column.own)),
            own_extent=(slab.own.stop - slab.own.start, *column.shape),
        )
        if self._halo:
            if fields is not state:
                x, y, m = _behind(slab.kept, parts)
                fields.points(0, x.reshape(-1), y.reshape(-1), None if m is None else m.reshape(-1))
            fields.field(piece)
        if boxes is not None:
            state.boxes(piece, *boxes)


def _behind(kept: int, parts: Parts) -> Parts:
    """Return the new planes of a slab."""
    x, y, mask = parts
    return x[kept:], y[kept:], None if mask is None else mask[kept:]


def _times_read(n: int, width: int, halo: int, chunk: int = 1) -> float:
    """Return how often a value is read, on average, along an axis that is cut; by whole chunks."""
    if width >= n:
        return 1.0
    start = np.arange(0, n, width)
    stop = np.minimum(start + width + halo, n)
    read = np.minimum(-(-stop // chunk) * chunk, n) - start // chunk * chunk
    return float(read.sum() / n)


def box_grid(shape: tuple[int, ...], chunks: tuple[int, ...], most: int) -> tuple[int, ...]:
    """Return the extents of boxes of whole chunks, of which there are at most `most`."""
    box = list(chunks)
    while math.prod(-(-n // b) for n, b in zip(shape, box, strict=True)) > most:
        axis = max(range(len(shape)), key=lambda a: shape[a] / box[a])
        box[axis] *= 2
    return tuple(box)

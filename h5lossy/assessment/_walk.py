# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""One pass over two fields of any size, in memory or not.

Both are read in slabs along the first axis, of whole chunks if there are chunks. Each slab overlaps
the previous one by the halo of stencils, lags and windows, so that each of these is computed
exactly once. If a slab with its halo would take more memory than allowed, or be thin compared with
the halo, the field may also be cut into columns along the second and third axis, whose halos are
read again. Arrays that need no conversion are not copied.
"""

from __future__ import annotations

import itertools
import math
import operator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from h5lossy import _native
from h5lossy._batched.pipeline import overlap
from h5lossy._blocks import block_shape, blocks
from h5lossy._native import AssessState, Piece, new_state
from h5lossy.assessment._fields import MASK_DTYPE, Fields
from h5lossy.assessment._sparse import SPARSE_BYTES, add_times, grouped, times_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from h5lossy._safeguards import Sides
    from h5lossy.assessment._absent import Absent
    from h5lossy.assessment._inputs import Input

    Values = npt.NDArray[Any]
    #: Original, decoded and mask of a slab.
    Parts = tuple[Values, Values, Values | None]
    #: Counts points that the native library does not count.
    Counter = Absent | Sides
    #: Extents of a box, and all boxes.
    Boxes = tuple[tuple[int, ...], Values]

#: Values per call for arrays in memory: enough for all threads, and at most about a second.
_VALUES_AT_ONCE = 1 << 24

#: The same on a GPU, where even a small call takes tens of microseconds.
_VALUES_AT_ONCE_ON_DEVICE = 1 << 31

#: Bytes read from files at once, if the memory limit allows it.
_BYTES_AT_ONCE = 16 << 20

#: The fraction of the memory limit that a slab may take: one slab is assessed while the next one is
#: read, and the rest is for everything else.
_OF_LIMIT = 0.3

#: A slab has at most this many new planes for each plane kept from the previous slab: kept planes
#: have to be copied, and their windows start again.
_TIMES_KEPT = 4

#: The cost of stencils, lags and windows, relative to reading and reductions.
_WORK = 2.0

#: The overhead of a call for a run of points, as the number of points that take the same time.
_CALL_POINTS = 4096

#: Slabs of this size take twice as long as small ones: their memory is new, and in no cache.
_SLOW_BYTES = 1 << 30

#: The first axis may be cut at multiples of this, by rank; otherwise of 1. These are borders of the
#: cells in which sums are computed (7 or 16 rows), so cuts do not change a sum.
_FIRST_CUT = {1: 4096, 2: 112}

#: The same for the later axes, along which columns are cut; columns change the order of cells.
_OTHER_CUTS = {2: (256,), 3: (16, 16), 4: (1, 16)}

#: The number of a point beyond all others.
_FAR = 1 << 63


def first_cut(rank: int) -> int:
    """Return the multiples at which the first axis may be cut without changing any sum."""
    return _FIRST_CUT.get(rank, 1)


@dataclass(frozen=True)
class _Column:
    """A part of the axes after the first."""

    own: tuple[slice, ...]
    read: tuple[slice, ...]  # with its halo
    region: tuple[slice, ...]  # including equal columns, of which this is the first

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents without the halo."""
        return tuple(s.stop - s.start for s in self.own)


@dataclass(frozen=True)
class _Slab:
    """Consecutive planes of a column: those kept from the previous slab, and new ones."""

    column: _Column
    start: int  # the first plane that is kept
    fresh: int  # the first new plane
    stop: int
    own: slice  # planes whose stencils, lags and windows are computed from this slab
    times: int  # number of equal slabs of this column, of which this is the first

    @property
    def kept(self) -> int:
        """Number of planes kept from the previous slab."""
        return self.fresh - self.start

    @property
    def fresh_shape(self) -> tuple[int, ...]:
        """Extents of the new planes, without the halo."""
        return (self.stop - self.fresh, *self.column.shape)

    @property
    def all_times(self) -> int:
        """Number of equal slabs in all columns that this one stands for."""
        return self.times * times_in(self.column.own, self.column.region)

    @property
    def region(self) -> tuple[slice, ...]:
        """The points of this slab and of those equal to it."""
        start, stop = self.own.start, self.own.stop
        return slice(start, start + self.times * (stop - start)), *self.column.region


class Walker:
    """Cuts two fields into slabs and passes them to a state.

    The halo says how far stencils, lags and windows extend from their first point; windows are
    `step` apart. The limit, in bytes, is for values that are not in memory yet, or that have to be
    converted.
    """

    def __init__(self, fields: Fields, halo: int, memory_limit: int, step: int = 1) -> None:
        self._fields, self._halo, self._limit, self._step = fields, halo, memory_limit, step
        self._shape = fields.layout.shape or (1,)
        self._cut = first_cut(len(self._shape))
        self._on_device = fields.device is not None
        self._in_memory = self._on_device or all(
            f.is_contiguous and f.dtype == fields.dtype for f in (fields.original, fields.decoded)
        )
        self._has_mask = fields.mask is not None or fields.missing.has_more
        self._thickness, self._widths = self._choose_cuts()
        self._buffers: dict[tuple[int, int], Values] = {}

    @property
    def amplification(self) -> float:
        """How often a value is read, on average."""
        return math.prod(
            _times_read(n, width, self._halo)
            for n, width in zip(self._shape[1:], self._widths, strict=True)
        )

    def _choose_cuts(self) -> tuple[int, tuple[int, ...]]:
        """Choose the planes per slab and the width of columns for which reading is fastest."""
        fields, whole, halo = self._fields, self._shape[1:], self._halo
        if self._in_memory:
            at_once = _VALUES_AT_ONCE_ON_DEVICE if self._on_device else _VALUES_AT_ONCE
            return max(1, at_once // max(1, math.prod(whole)) // self._cut) * self._cut, whole
        chunks = [fields.layout.chunks(f) for f in (fields.original, fields.decoded)]
        rows, *others = (
            max(1, min(n, max((c[axis] for c in chunks if c), default=1)))
            for axis, n in enumerate(self._shape)
        )
        if fields.stored is not None:  # small, so that many slabs are equal
            rows = math.lcm(self._cut, self._step)
            self._limit = min(self._limit, 8 * SPARSE_BYTES)
        point_bytes = 2 * fields.dtype.itemsize + self._has_mask
        kept = min(halo + self._cut, self._shape[0] - 1) if halo else 0
        best: tuple[float, int, tuple[int, ...]] | None = None
        for widths in self._possible_widths(others):
            points = math.prod(min(w + halo, n) for w, n in zip(widths, whole, strict=True))
            wanted = max(_BYTES_AT_ONCE // point_bytes // max(1, points), _TIMES_KEPT * kept, rows)
            fits = int(self._limit * _OF_LIMIT) // point_bytes // max(1, points) - kept
            thick = min(wanted, fits)
            thick = thick // rows * rows or thick
            if thick < 1:
                continue
            if widths == whole and thick == wanted // rows * rows:
                return thick, whole
            read = math.prod(map(_times_read, whole, widths, itertools.repeat(halo), others))
            work = math.prod(map(_times_read, whole, widths, itertools.repeat(halo)))
            cost = read * max(1, rows / thick) + (_WORK * work * (1 + kept / thick) if halo else 0)
            cost *= 1 + _CALL_POINTS / self._run(widths)
            cost *= 1 + points * (thick + kept) * point_bytes / _SLOW_BYTES
            if best is None or (cost, -points) < best[:2]:
                best, thickness = (cost, -points, widths), thick
        if best is not None:
            return thickness, best[2]
        if len(self._shape) > _native.ASSESS_MAX_RANK:  # no neighbours: cut anywhere
            most = max(1, int(self._limit * _OF_LIMIT))
            return 1, block_shape(whole, tuple(others), point_bytes, most_bytes=most)
        cuts = _OTHER_CUTS.get(len(self._shape), ())
        return 1, (*map(min, cuts, whole), *whole[len(cuts) :])

    def _possible_widths(self, chunks: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """Yield the possible widths of columns, whole axes first."""
        whole, cuts = self._shape[1:], _OTHER_CUTS.get(len(self._shape), ())
        yield whole
        widths_of = [
            {min(unit << k, n) for unit in (cut, math.lcm(cut, chunk)) for k in range(64)}
            for n, cut, chunk in zip(whole, cuts, chunks, strict=False)
        ]
        for some in itertools.product(*widths_of):
            yield (*some, *whole[len(some) :])

    def _run(self, widths: tuple[int, ...]) -> int:
        """Return how many points of a column are contiguous."""
        shape = self._shape[1:]
        cut = max((k for k, w in enumerate(widths) if w < shape[k]), default=0)
        return math.prod((*widths[cut : cut + 1], *shape[cut + 1 :]))

    def _slabs(self) -> Iterator[_Slab]:
        (planes, *others), cut, thick = self._shape, self._cut, self._thickness
        stored = self._fields.stored
        kept = -(-self._halo // cut) * cut  # for slabs equal to the previous one
        blocks_of = partial(grouped, halo=self._halo, step=self._step, planes=(slice(0, planes),))
        for own, region in blocks_of(tuple(others), self._widths, stored):
            read = tuple(
                slice(s.start, min(s.stop + self._halo, n))
                for s, n in zip(own, others, strict=True)
            )
            column = _Column(own, read, region)
            start = owned = fresh = 0
            while fresh < planes:
                stop = min(fresh + thick, planes)
                end = planes if stop == planes else max(owned, (stop - self._halo) // cut * cut)
                times = 1
                if stored is not None and fresh - start == stop - end == kept:
                    gap = stored.gap_end((slice(start, stop), *read))
                    times = max(1, (min(gap, planes - 1) - stop) // thick + 1)
                yield _Slab(column, start, fresh, stop, slice(owned, end), times)
                start = owned = end + (times - 1) * thick
                fresh = stop + (times - 1) * thick

    def run(
        self,
        state: AssessState,
        *,
        boxes: Boxes | None = None,
        has_points: bool = False,
        counters: Sequence[Counter] = (),
        progress: Callable[[int], None],
    ) -> AssessState:
        """Pass both fields to a state; return the state that has stencils, lags and windows.

        These are computed in a state of their own if the field is cut into columns, or if slabs are
        counted several times: a state knows whether a point is valid only if it was given that
        point, and the halo of a column belongs to later columns. With `has_points`, the state
        already has the reductions.
        """
        fields = state
        apart = self._widths != self._shape[1:] or self._fields.stored is not None
        if self._halo and apart and not has_points:
            fields = new_state(state.params)
        if 0 in self._fields.original.shape:
            return fields

        def add(slab: _Slab, parts: Parts) -> int:
            if not has_points:
                self._add_points(state, counters, slab, parts)
            if len(self._shape) <= 4 and (self._halo or boxes):
                self._add_piece(state, fields, slab, parts, boxes)
            return math.prod(slab.fresh_shape) * slab.all_times

        if self._in_memory:  # no reading to overlap
            for slab in self._slabs():
                progress(add(slab, self._taken(slab)))
            return fields
        # This thread reads, since it may hold h5py's lock; the other thread calls the library.
        overlap(self._parts(), lambda part: add(*part), lambda _, points: progress(points))
        return fields

    def _parts(self) -> Iterator[tuple[_Slab, Parts]]:
        """Yield the slabs with their values, which stay until the one after the next is read."""
        held: Parts | None = None
        for number, slab in enumerate(self._slabs()):
            held = self._read(slab, held, number % 2)
            yield slab, held

    def _taken(self, slab: _Slab) -> Parts:
        """Return a slab of fields in memory, and its mask."""
        fields, layout = self._fields, self._fields.layout
        own = (slice(slab.start, slab.stop), *slab.column.read)
        selection = layout.selection(own) if layout.axes else ()
        shape = tuple(s.stop - s.start for s in own)

        def one(source: Input, dtype: np.dtype[Any]) -> Values:
            part: Values = (source.read_on_device if self._on_device else source.read)(
                selection, dtype
            )
            is_whole = source.values is part and part.shape == shape
            # NumPy allows any stride along an axis of extent 1, but the library uses it.
            return part if is_whole else part.reshape(-1).reshape(shape)

        x, y = one(fields.original, fields.dtype), one(fields.decoded, fields.dtype)
        mask = None if fields.mask is None else one(fields.mask, MASK_DTYPE)
        return x, y, fields.marked(x, mask)

    def _read(self, slab: _Slab, before: Parts | None, turn: int) -> Parts:
        """Read a slab into one of two buffers; kept planes are copied from the other one."""
        fields, kept = self._fields, slab.kept
        shape = tuple(s.stop - s.start for s in (slice(slab.start, slab.stop), *slab.column.read))
        types = (fields.dtype, fields.dtype, *((MASK_DTYPE,) if self._has_mask else ()))
        parts = [self._buffer((turn, i), shape, dtype) for i, dtype in enumerate(types)]
        for part, old in zip(parts, before or (), strict=False):
            if kept and old is not None:
                part[:kept] = old[len(old) - kept :]
        where = (slice(slab.fresh, slab.stop), *slab.column.read)
        fresh = [part[kept:] for part in parts]
        self._fill(fields.original, where, fresh[0])
        self._fill(fields.decoded, where, fresh[1])
        if not self._has_mask:
            return parts[0], parts[1], None
        if fields.mask is None:
            fresh[2][...] = 0
        else:
            self._fill(fields.mask, where, fresh[2])
        if fields.missing.has_more:
            fresh[2][...] = fields.missing.mark(fresh[0], fresh[2])
        return parts[0], parts[1], parts[2]

    def _buffer(self, key: tuple[int, int], shape: tuple[int, ...], dtype: np.dtype[Any]) -> Values:
        """Return memory for a part of a slab; if it fits, that of the slab before the last one."""
        size = math.prod(shape)
        if key not in self._buffers or self._buffers[key].size < size:
            self._buffers[key] = np.empty(size, dtype)
        return self._buffers[key][:size].reshape(shape)

    def _fill(self, source: Input, where: tuple[slice, ...], out: Values) -> None:
        """Read a part of a field into `out`, in small parts if it has to be converted."""
        layout = self._fields.layout
        if not layout.axes:
            out[...] = source.read((), out.dtype).reshape(out.shape)
            return
        whole = layout.selection(where)
        if source.read_into(whole, out.reshape([s.stop - s.start for s in whole])):
            return
        chunks = layout.chunks(source)
        unit = chunks and tuple(map(min, chunks, out.shape))
        most = max(1 << 16, min(_BYTES_AT_ONCE, self._limit // 16))
        for part in blocks(out.shape, block_shape(out.shape, unit, 8, most_bytes=most)):
            own = tuple(
                slice(w.start + p.start, w.start + p.stop) for w, p in zip(where, part, strict=True)
            )
            out[part] = source.read(layout.selection(own), out.dtype).reshape(out[part].shape)

    def _add_points(
        self, state: AssessState, counters: Sequence[Counter], slab: _Slab, parts: Parts
    ) -> None:
        """Add the new points of a slab, and of the slabs equal to it."""
        self._add_runs(state, counters, slab, parts)
        if slab.all_times > 1:  # places refer to the first one
            more, more_counters = new_state(state.params), [one.empty() for one in counters]
            self._add_runs(more, more_counters, slab, parts, far=_FAR)
            for one, other in zip((state, *counters), (more, *more_counters), strict=True):
                add_times(one, other, slab.all_times - 1)

    def _add_runs(
        self,
        state: AssessState,
        counters: Sequence[Counter],
        slab: _Slab,
        parts: Parts,
        far: int = 0,
    ) -> None:
        """Add the new points without the halo, in runs of contiguous ones."""
        shape, own = self._shape[1:], slab.column.shape
        x_new, y_new, mask_new = _behind(slab.kept, parts)
        # Axes after the last one that is cut are whole, so runs extend along them.
        cut = max((k for k, n in enumerate(shape, 1) if own[k - 1] < n), default=0)
        strides = list(itertools.accumulate((1, *shape[::-1]), operator.mul))[::-1]
        origin = (slab.fresh, *(s.start for s in slab.column.own))
        first = far or sum(map(operator.mul, origin, strides))
        for at in itertools.product(*map(range, slab.fresh_shape[:cut])):
            run: tuple[Any, ...] = (*at, slice(own[cut - 1])) if cut else ()
            start = first + sum(map(operator.mul, at, strides))
            x, y = x_new[run].reshape(-1), y_new[run].reshape(-1)
            mask = None if mask_new is None else mask_new[run].reshape(-1)
            state.points(start, x, y, mask)
            for counter in counters:
                counter.add(start, x, y, mask)

    def _add_piece(
        self,
        state: AssessState,
        fields: AssessState,
        slab: _Slab,
        parts: Parts,
        boxes: Boxes | None,
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
            to = fields if slab.all_times == 1 else new_state(fields.params)
            if to is not state:
                x, y, m = parts if to is not fields else _behind(slab.kept, parts)
                to.points(0, x.reshape(-1), y.reshape(-1), None if m is None else m.reshape(-1))
            to.field(piece)
            if to is not fields:
                add_times(fields, to, slab.all_times)
        if boxes is not None and slab.all_times == 1:
            state.boxes(piece, *boxes)
        elif boxes is not None:
            self._add_boxes(state, piece, slab, boxes)

    def _add_boxes(self, state: AssessState, piece: Piece, slab: _Slab, boxes: Boxes) -> None:
        """Add the points of equal slabs to the sums of boxes; the boxes are equal as well."""
        one = np.zeros(1, _native.BOX_DTYPE)
        state.boxes(piece, self._shape, one)
        points: Values = np.ones(())
        for n, length, own in zip(self._shape, boxes[0], slab.region, strict=True):
            starts = np.arange(-(-n // length)) * length
            inside = np.minimum(starts + length, own.stop) - np.maximum(starts, own.start)
            points = np.multiply.outer(points, np.maximum(inside, 0))
        points = points.reshape(-1)
        size = max(1, math.prod(piece.own_extent))
        for name in ("valid", "special_failures"):
            boxes[1][name] += (points * (one[name] / size)).astype(np.uint64)
        boxes[1]["error_squares"] += points * (one["error_squares"] / size)
        largest = np.where(points > 0, one["error_max_abs"], 0)
        np.maximum(boxes[1]["error_max_abs"], largest, out=boxes[1]["error_max_abs"])


def _behind(kept: int, parts: Parts) -> Parts:
    """Return the new planes of a slab."""
    x, y, mask = parts
    return x[kept:], y[kept:], None if mask is None else mask[kept:]


def _times_read(n: int, width: int, halo: int, chunk: int = 1) -> float:
    """Return how often a value is read, on average, along an axis that is cut; by whole chunks."""
    if width >= n:
        return 1.0
    n = min(n, width << 12)  # if there are very many parts, the first ones suffice
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

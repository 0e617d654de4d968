# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Parts of datasets that were never written, which a file may claim far more of than it has bytes.

HDF5 gives the fill value there. Of equal blocks without a stored chunk one is assessed, and counted
as often as there are.
"""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, Any, Self

import h5py
import numpy as np
from h5py import h5d

from h5lossy._blocks import Block, blocks, chunk_starts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from h5lossy.assessment._fields import Layout
    from h5lossy.assessment._inputs import Input

#: Smaller datasets are read as a whole, so that their sums are those of an array, bit for bit.
_LARGE = 1 << 24

#: What is computed in NumPy reads every value; of more than these it is refused if few are stored.
MOST_READ = 1 << 30


class Stored:
    """Where chunks are stored of any of several fields, along the axes of a layout.

    `starts` and `stops` are arrays of places, a row a chunk.
    """

    def __init__(self, shape: tuple[int, ...], starts: Any, stops: Any) -> None:
        self._shape = shape
        self._starts: npt.NDArray[np.int64] = starts
        self._stops: npt.NDArray[np.int64] = stops

    @classmethod
    def of(cls, fields: Sequence[Input], layout: Layout) -> Self | None:
        """Return where chunks are; None if all values are read, because most are stored."""
        size = math.prod(layout.shape)
        if size < _LARGE or any(field.dataset is None for field in fields):
            return None
        starts, stops = [], []
        for field in fields:
            found = _chunks_of(field.dataset)
            if found is None or len(found) * math.prod(field.chunks or ()) > size // 2:
                return None
            rows = np.array(found, np.int64).reshape(-1, len(layout.full_shape))[:, layout.axes]
            starts.append(rows)
            stops.append(rows + np.array(layout.chunks(field) or layout.shape, np.int64))
        return cls(layout.shape, np.concatenate(starts), np.concatenate(stops))

    def gap_end(self, box: Block, axis: int) -> int:
        """Return up to where a box without a chunk may grow along an axis; 0 if it has one."""
        others = [(a, part) for a, part in enumerate(box) if a != axis]
        near = np.ones(len(self._starts), bool)
        for a, part in others:
            near &= (self._starts[:, a] < part.stop) & (self._stops[:, a] > part.start)
        starts, stops = self._starts[near, axis], self._stops[near, axis]
        behind = starts[stops > box[axis].start]
        end = int(behind.min(initial=self._shape[axis]))
        return end if end >= box[axis].stop else 0


def _chunks_of(dataset: h5py.Dataset | None) -> list[tuple[int, ...]] | None:
    """Return where chunks begin; None for layouts that are not looked at."""
    assert dataset is not None
    creation = dataset.id.get_create_plist()
    layout = creation.get_layout()
    if layout == h5d.CHUNKED:
        return chunk_starts(dataset)
    is_empty = dataset.id.get_storage_size() == 0 and creation.get_external_count() == 0
    return [] if layout == h5d.CONTIGUOUS and is_empty else None


def grouped(
    shape: tuple[int, ...],
    block: tuple[int, ...],
    stored: Stored | None,
    *,
    halo: int = 0,
    step: int = 1,
    planes: tuple[slice, ...] = (),
) -> Iterator[tuple[Block, int, int]]:
    """Cut a shape into blocks; of equal ones in a row that hold no chunk, take only the first.

    Yields a block, the axis of the row and how many there are. `planes` are leading axes of the
    fields that all blocks have whole; blocks read a halo behind their last point, and are equal if
    they are multiples of `step`.
    """
    if stored is None:
        yield from ((own, 0, 1) for own in blocks(shape, block))
        return
    axis = max(range(len(shape)), key=lambda a: shape[a] // block[a], default=None)
    if axis is None:
        yield (), 0, 1
        return
    n, length = shape[axis], block[axis]

    for others in blocks(
        (*shape[:axis], 1, *shape[axis + 1 :]), (*block[:axis], 1, *block[axis + 1 :])
    ):
        start = 0
        while start < n:
            stop = min(start + length, n)
            own = (*others[:axis], slice(start, stop), *others[axis + 1 :])
            read = tuple(
                slice(s.start, min(s.stop + halo, m)) for s, m in zip(own, shape, strict=True)
            )
            end = stored.gap_end((*planes, *read), len(planes) + axis)
            # The last block and its halo may be shorter.
            times = 1 if length % step else max(1, (min(end, n) - stop - halo) // length + 1)
            yield own, axis, times
            start += times * length


def add_times(total: Any, part: Any, times: int) -> None:
    """Merge what `times` equal parts found, by doubling."""
    while times:
        if times & 1:
            total.merge(part)
        times >>= 1
        if times:
            part.merge(copy.deepcopy(part))

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Parts of datasets that were never written; there may be far more of them than the file has bytes.

HDF5 returns the fill value there. Of equal blocks without a stored chunk, only one is assessed, and
it counts as often as there are such blocks.
"""

from __future__ import annotations

import copy
import itertools
import math
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
from h5py import h5d

from h5lossy._blocks import Block, blocks, chunk_starts

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

#: Bytes read at once if most values were never written: few, so that many parts are equal.
SPARSE_BYTES = 4 << 20

#: NumPy code reads every value; it refuses more values than this if few of them are stored.
MOST_READ = 1 << 30


class Stored:
    """Where chunks of any of several fields are stored, along the axes of a layout.

    `starts` and `stops` are arrays of places, a row a chunk.
    """

    def __init__(self, shape: tuple[int, ...], starts: Any, stops: Any) -> None:
        self._shape = shape
        self._starts: npt.NDArray[np.int64] = starts
        self._stops: npt.NDArray[np.int64] = stops

    def gap_end(self, box: Block) -> int:
        """Return how far a box without a chunk may grow along axis 0; 0 if it contains one."""
        near = np.ones(len(self._starts), bool)
        for axis, part in enumerate(box[1:], 1):
            near &= (self._starts[:, axis] < part.stop) & (self._stops[:, axis] > part.start)
        behind = self._starts[near & (self._stops[:, 0] > box[0].start), 0]
        end = int(behind.min(initial=self._shape[0]))
        return end if end >= box[0].stop else 0


def chunks_of(dataset: h5py.Dataset, most: int) -> list[tuple[int, ...]] | None:
    """Return where chunks begin; None for more than `most` values, or for other layouts."""
    creation = dataset.id.get_create_plist()
    layout = creation.get_layout()
    if layout == h5d.CHUNKED:
        few = dataset.id.get_num_chunks() * math.prod(dataset.chunks) <= most
        return chunk_starts(dataset) if few else None
    is_empty = dataset.id.get_storage_size() == 0 and creation.get_external_count() == 0
    return [] if layout == h5d.CONTIGUOUS and is_empty else None


def grouped(
    shape: tuple[int, ...],
    block: tuple[int, ...],
    stored: Stored | None,
    *,
    halo: int = 0,
    step: int = 1,
    planes: Block = (),
) -> Iterator[tuple[Block, Block]]:
    """Cut a shape into blocks; of equal blocks without a chunk, yield the first, and where all are.

    `planes` are leading axes of the fields, which all blocks span. Blocks also read a halo after
    their last point, and blocks whose cuts are not at multiples of `step` are not equal.
    """
    if stored is None or not shape:
        yield from ((own, own) for own in blocks(shape, block))
        return
    waiting = [*itertools.product(*map(_equal_parts, shape, block, itertools.repeat(halo)))]
    while waiting:
        starts = waiting.pop()
        ends = (min(s[-1] + b, n) for s, b, n in zip(starts, block, shape, strict=True))
        region = tuple(slice(s[0], end) for s, end in zip(starts, ends, strict=True))
        read = (slice(s.start, min(s.stop + halo, n)) for s, n in zip(region, shape, strict=True))
        many = [axis for axis, s in enumerate(starts) if len(s) > 1]
        can_be = not any(block[axis] % step for axis in many)
        if not many or (can_be and stored.gap_end((*planes, *read))):
            ends = (min(s.start + b, s.stop) for s, b in zip(region, block, strict=True))
            yield tuple(slice(s.start, end) for s, end in zip(region, ends, strict=True)), region
            continue
        axis = max(many, key=lambda a: len(starts[a]))
        half = len(starts[axis]) // 2
        for part in (starts[axis][half:], starts[axis][:half]):
            waiting += [(*starts[:axis], part, *starts[axis + 1 :])]


def _equal_parts(extent: int, length: int, halo: int) -> list[range]:
    """Return where parts of an axis begin: those that are equal, and each of the last ones."""
    starts = range(0, extent, length)
    equal = starts[: max(0, (extent - halo) // length)]
    rest = (starts[i : i + 1] for i in range(len(equal), len(starts)))
    return [part for part in (equal, *rest) if part]


def times_in(own: Block, region: Block) -> int:
    """Return how many equal blocks are in a region."""
    return math.prod(
        (r.stop - r.start) // (o.stop - o.start) for o, r in zip(own, region, strict=True)
    )


def add_times(total: Any, part: Any, times: int) -> None:
    """Merge the results of `times` equal parts, by doubling."""
    while times:
        if times & 1:
            total.merge(part)
        times >>= 1
        if times:
            part.merge(copy.deepcopy(part))

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Cutting a dataset into blocks that fit in memory and never split a chunk."""

from __future__ import annotations

import functools
import itertools
import math
import sys
from typing import TYPE_CHECKING, NamedTuple

import h5py
import numpy as np

from h5lossy._errors import CorruptFrameError, H5LossyError
from h5lossy._libhdf5 import EXTENSIBLE_ARRAY, chunk_index, rows_of_chunks
from h5lossy._names import name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

Block = tuple[slice, ...]

#: Largest block in bytes, unless a single chunk is larger. A copy holds one block; a check holds
#: two and their difference.
BLOCK_BYTES = 32 << 20

#: Most chunks of a block: each costs about a kilobyte on top of its values, and several kilobytes
#: in HDF5.
MOST_CHUNKS = 4096

#: Up to this size, a dataset's chunk index may take more room than its values.
TINY_BYTES = 4096


def block_shape(
    shape: tuple[int, ...],
    unit: tuple[int, ...] | None,
    value_bytes: int,
    *,
    cover: tuple[int, ...] | None = None,
    most_bytes: int | None = None,
) -> tuple[int, ...]:
    """Choose the shape of the blocks that a dataset is copied in.

    Blocks are multiples of `unit`, the extents of a chunk; None where any cut will do. They take at
    most `most_bytes` (`BLOCK_BYTES` by default), unless one unit is larger, and less if chunks are
    small. A block grows to whole chunks of `cover` first, those of another dataset that is read
    along, since each would otherwise be decoded several times.
    """
    sizes = [math.prod(chunk) * value_bytes for chunk in (unit, cover) if chunk]
    most_bytes = min([most_bytes or BLOCK_BYTES, *(MOST_CHUNKS * size for size in sizes)])
    unit = unit or (1,) * len(shape)
    block = list(unit)

    def grow(axis: int, wanted: int) -> None:
        most = most_bytes // (value_bytes * math.prod(block) // block[axis])
        pieces = min(_pieces(wanted, unit[axis]), most // unit[axis])
        block[axis] = max(block[axis], pieces * unit[axis])

    for goal in (cover, shape):
        for axis in reversed(range(len(shape))):
            grow(axis, min(goal[axis], shape[axis]) if goal else 0)
    return tuple(block)


def batch_bytes(chunk_bytes: int, threads: int) -> int:
    """Return the size of a batch: at least two chunks for each thread, so that none waits long."""
    return max(min(BLOCK_BYTES, MOST_CHUNKS * chunk_bytes), 2 * threads * chunk_bytes)


def blocks(shape: tuple[int, ...], block: tuple[int, ...]) -> Iterator[Block]:
    """Cut a shape into blocks, in C order."""
    for start in itertools.product(*map(range, itertools.repeat(0), shape, block)):
        yield _block_at(start, shape, block)


def stored_blocks(
    dataset: h5py.Dataset, block: tuple[int, ...], piece: tuple[int, ...] | None = None
) -> Iterator[Block]:
    """Cut a dataset into blocks, and half-stored ones into pieces; leave out empty ones."""
    shape = dataset.shape
    if dataset.chunks is None:
        if dataset.id.get_storage_size() > 0:
            yield from blocks(shape, block)
        return
    # A chunk of 0 bytes, which no writer leaves, still exists: it has to be read, and refused.
    starts = chunk_starts(dataset)
    if len(starts) == math.prod(map(_pieces, shape, dataset.chunks)):
        yield from blocks(shape, block)
        return
    whole = tuple(slice(0, extent) for extent in shape)
    for own, inside in _with_chunks(whole, block, starts, dataset.chunks):
        touched = (
            _pieces(axis.stop, length) - axis.start // length
            for axis, length in zip(own, dataset.chunks, strict=True)
        )
        if piece is None or len(inside) == math.prod(touched):
            yield own
        else:
            for part, _ in _with_chunks(own, piece, inside, dataset.chunks):
                yield part


def _with_chunks(
    whole: Block, block: tuple[int, ...], starts: list[tuple[int, ...]], chunks: tuple[int, ...]
) -> Iterator[tuple[Block, list[tuple[int, ...]]]]:
    """Cut a block into smaller ones; yield those that reach into stored chunks, and these."""
    found: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for chunk_start in starts:
        reached = (
            range(
                axis.start + (max(first, axis.start) - axis.start) // step * step,
                min(first + length, axis.stop),
                step,
            )
            for first, length, axis, step in zip(chunk_start, chunks, whole, block, strict=True)
        )
        for start in itertools.product(*reached):
            found.setdefault(start, []).append(chunk_start)
    stop = tuple(axis.stop for axis in whole)
    for start in sorted(found):
        yield _block_at(start, stop, block), found[start]


def grid_of(dataset: h5py.Dataset) -> tuple[int, ...]:
    """Return the number of chunks along each axis."""
    return tuple(-(-n // c) for n, c in zip(dataset.shape, dataset.chunks, strict=True))


def chunk_starts(dataset: h5py.Dataset) -> list[tuple[int, ...]]:
    """List where the chunks in the file begin."""
    return list(map(tuple, listed_chunks(dataset).places.tolist()))


class ListedChunks(NamedTuple):
    """The chunks that are in a file; each array has a row per chunk."""

    places: npt.NDArray[np.int64]  # where each chunk begins
    masks: npt.NDArray[np.uint64]  # filters that were left out
    addresses: npt.NDArray[np.uint64]
    sizes: npt.NDArray[np.uint64]


def listed_chunks(dataset: h5py.Dataset, most: int = sys.maxsize) -> ListedChunks:
    """List the chunks in the file, at most so many."""
    rank = len(dataset.shape)
    try:
        rows = rows_of_chunks(dataset, most)
        places = _places_of_listed(dataset, rows[:, :rank].astype(np.int64))
        if (places < 0).any():
            raise CorruptFrameError("a chunk begins at 2**63 or beyond")
    except (H5LossyError, OSError, OverflowError, RuntimeError, ValueError) as error:
        raise CorruptFrameError(
            f"the chunks of {name_of(dataset)} in {dataset.file.filename} can't be listed: {error}"
        ) from error
    return ListedChunks(places, *rows[:, rank:].T)


def _places_of_listed(
    dataset: h5py.Dataset, listed: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return where the chunks are that HDF5 lists, maybe at wrong places.

    An extensible array, the index of datasets of the newer formats with one unlimited axis, numbers
    chunks as if that axis were the first. HDF5 (1.10 to 2.2) lists chunks by that number, but
    converts it to a place with the axes in their own order; so do h5py's `chunk_iter`,
    `get_chunk_info` and `get_chunk_info_by_coord`.
    """
    maxshape, chunks = dataset.maxshape, dataset.chunks
    if maxshape.count(None) != 1 or maxshape[0] is None:
        return listed
    if chunk_index(dataset.id.id) != EXTENSIBLE_ARRAY or not _hdf5_lists_wrong_places():
        return listed
    unlimited = maxshape.index(None)
    counts = [-(-(most or n) // n) for most, n in zip(maxshape, chunks, strict=True)]
    numbers = np.zeros(len(listed), np.int64)
    for axis in range(unlimited, len(chunks)):
        numbers = numbers * counts[axis] + listed[:, axis] // chunks[axis]
    places = np.empty_like(listed)
    for axis in reversed([axis for axis in range(len(chunks)) if axis != unlimited]):
        numbers, places[:, axis] = np.divmod(numbers, counts[axis])
    places[:, unlimited] = numbers
    places *= chunks
    return places


@functools.cache
def _hdf5_lists_wrong_places() -> bool:
    """Return whether HDF5 lists the two chunks of a dataset at wrong places."""
    with h5py.File("h5lossy", "w", driver="core", backing_store=False, libver="latest") as file:
        dataset = file.create_dataset("t", (2, 1), "u1", maxshape=(2, None), chunks=(1, 1))
        dataset[...] = 1
        file.flush()
        return bool(dataset.id.get_chunk_info(1).chunk_offset != (1, 0))


def _pieces(extent: int, length: int) -> int:
    return -(-extent // length)


def _block_at(start: tuple[int, ...], shape: tuple[int, ...], block: tuple[int, ...]) -> Block:
    return tuple(
        slice(first, min(first + length, extent))
        for first, length, extent in zip(start, block, shape, strict=True)
    )

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""What may be read from a damaged file, worked out from what HDF5 says is in it.

HDF5's own metadata has no checksums in files of the old format, and may lead anywhere; that is
HDF5's business. So the question is: of the chunks that HDF5 finds, in a dataset of the type and the
shape that it reports, which values do the bytes stand for? `expect` answers it chunk by chunk, with
`read_direct_chunk`, and `h5lossy.decode`. A chunk whose bytes stand for no values of this dataset
has to be an error to every reader.
"""

from __future__ import annotations

import itertools
import math
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
from h5py import h5d, h5t, h5z

import h5lossy
from fuzz.seeds import DONT_FILTER_PARTIAL_CHUNKS
from h5lossy import FILTER_ID, H5LossyError, _native
from h5lossy._libhdf5 import chunk_options, stored_size
from hdf5_helpers import filters

if TYPE_CHECKING:
    import numpy.typing as npt

#: Of a dataset with more than this, one corner is read.
MOST_BYTES = 16 << 20

_MOST_CHUNKS = 2048

_STANDARD_FLOATS = (h5t.IEEE_F32LE, h5t.IEEE_F32BE, h5t.IEEE_F64LE, h5t.IEEE_F64BE)


class _Broken(Exception):  # noqa: N818 -- what a chunk is
    """The bytes of a chunk stand for no values of its dataset."""


class _Unknown(Exception):  # noqa: N818
    """Nobody can say what the bytes stand for: another filter's, another type's."""


class _Unreadable(Exception):  # noqa: N818
    """HDF5 takes as much memory as the index says, and a filled heap has it all; or it crashes."""


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What a dataset's window holds."""

    values: npt.NDArray[Any] | None  # None where some chunk cannot be read, or nobody knows
    broken: str = ""  # why some chunk has to be an error; empty where none has to be
    # The damage is such that HDF5 does not show it to the filter, so that h5py alone may return
    # anything, or crash: a chunk that goes around the filter and is not as long as one.
    unseen: bool = False
    # What comes is HDF5's business: the dataset is not, or not only, h5lossy's, or a chunk has a
    # size that HDF5 itself cannot deal with.
    foreign: bool = False


def window(dataset: h5py.Dataset) -> tuple[slice, ...]:
    """Return which part of a dataset is read: all of it, or a corner."""
    if dataset.size * dataset.dtype.itemsize <= MOST_BYTES:
        return tuple(slice(0, n) for n in dataset.shape)
    most = int((MOST_BYTES / dataset.dtype.itemsize / 8) ** (1 / len(dataset.shape)))
    return tuple(slice(0, min(n, most)) for n in dataset.shape)


def expect(dataset: h5py.Dataset) -> Expected:
    """Work out what a dataset's window holds; call nothing of HDF5 that decodes."""
    known = {FILTER_ID, h5z.FILTER_DEFLATE, h5z.FILTER_FLETCHER32}
    numbers = {number for number, _, _, _ in filters(dataset)}
    foreign = FILTER_ID not in numbers or not numbers <= known
    if foreign:
        return Expected(values=None, unseen=True, foreign=True)
    try:
        return _expect(dataset)
    except _Unreadable:
        return Expected(values=None, unseen=True, foreign=True)
    except _Unknown:
        return Expected(values=None, unseen=True)


def _expect(dataset: h5py.Dataset) -> Expected:
    type_id, dtype, chunks = dataset.id.get_type(), dataset.dtype, dataset.chunks
    if not any(type_id == standard for standard in _STANDARD_FLOATS) or not chunks:
        raise _Unknown
    if (
        math.prod(chunks) * dtype.itemsize > MOST_BYTES
        or dataset.id.get_num_chunks() > _MOST_CHUNKS
    ):
        raise _Unknown
    wanted = window(dataset)
    values = np.full([s.stop for s in wanted], _fill(dataset), dtype)
    creation = dataset.id.get_create_plist()  # a name keeps it open
    unfiltered_edges = bool(chunk_options(creation.id) & DONT_FILTER_PARTIAL_CHUNKS)
    broken, unseen = "", False
    starts = []
    for number in range(dataset.id.get_num_chunks()):
        info = dataset.id.get_chunk_info(number)
        if info.byte_offset is None:  # listed, and nowhere
            continue
        if info.size > MOST_BYTES:
            raise _Unreadable
        starts.append(info.chunk_offset)
    if len(set(starts)) < len(starts):  # an index that lists a place twice
        raise _Unknown
    for start in [*starts, *_found_elsewhere(dataset, starts, wanted)]:
        inside = tuple(
            slice(s, min(s + c, w.stop)) for s, c, w in zip(start, chunks, wanted, strict=True)
        )
        if any(s.start >= s.stop for s in inside):
            continue
        try:
            mask, stored = dataset.id.read_direct_chunk(start)
        except OSError as error:
            broken = broken or f"chunk {start} cannot be fetched: {error}"
            continue
        try:
            is_partial = any(
                a + c > n for a, c, n in zip(start, chunks, dataset.shape, strict=True)
            )
            is_exempt = unfiltered_edges and is_partial
            chunk = _chunk_values(dataset, -1 if is_exempt else mask, bytes(stored))
        except _Broken as error:
            broken = broken or f"chunk {start}: {error}"
            unseen = unseen or bool(mask) or is_exempt
            continue
        corner = tuple(slice(0, s.stop - s.start) for s in inside)
        values[inside] = chunk.reshape(chunks)[corner]
    return Expected(values=None if broken else values, broken=broken, unseen=unseen)


def _found_elsewhere(
    dataset: h5py.Dataset, starts: list[tuple[int, ...]], wanted: tuple[slice, ...]
) -> list[tuple[int, ...]]:
    """Return the places for which HDF5 finds a chunk without listing it.

    The index of a single chunk holds no place: HDF5 returns the chunk for every one.
    """
    axes = (range(0, part.stop, c) for part, c in zip(wanted, dataset.chunks, strict=True))
    others = (place for place in itertools.product(*axes) if place not in starts)
    found = [*itertools.islice(others, _MOST_CHUNKS if len(starts) == 1 else 0)]
    if not found or stored_size(dataset.id.id, found[0]) is None:
        return []
    if next(others, None) is not None:
        raise _Unknown
    return found


def _fill(dataset: h5py.Dataset) -> Any:
    creation = dataset.id.get_create_plist()
    fill = np.zeros((), dataset.dtype)
    if (
        creation.get_fill_time() != h5d.FILL_TIME_NEVER
        and creation.fill_value_defined() != h5d.FILL_VALUE_UNDEFINED
    ):
        creation.get_fill_value(fill)
    return fill


def _chunk_values(dataset: h5py.Dataset, mask: int, stored: bytes) -> npt.NDArray[Any]:
    """Return what one chunk's bytes stand for."""
    pipeline = filters(dataset)
    dtype, size = dataset.dtype, math.prod(dataset.chunks) * dataset.dtype.itemsize
    for place in range(len(pipeline) - 1, -1, -1):
        if mask >> place & 1:
            continue
        number = pipeline[place][0]
        if number == h5z.FILTER_DEFLATE:
            try:
                stored = zlib.decompress(stored)
            except zlib.error as error:
                raise _Broken(f"gzip: {error}") from None
        elif number == h5z.FILTER_FLETCHER32:
            if len(stored) < 4:
                raise _Unreadable  # HDF5 2.0's own filter reads past its end
            stored = stored[:-4]  # HDF5 sees to it that the sum is right
        elif number == FILTER_ID:
            stored = _decoded(stored, dtype, size)
        else:
            raise _Unknown
    if len(stored) != size:
        raise _Broken(f"{len(stored)} bytes where a chunk has {size}")
    return np.frombuffer(stored, dtype)


def _decoded(frame: bytes, dtype: np.dtype[Any], size: int) -> bytes:
    try:
        info = _native.inspect(frame)
        if info.raw_bytes != size:
            raise _Broken(f"its frame is of {info.raw_bytes} bytes, a chunk has {size}")
        values = h5lossy.decode(frame)
    except H5LossyError as error:
        raise _Broken(f"its frame: {error}") from None
    if values.dtype not in (np.dtype(np.uint8), dtype):
        raise _Broken(f"its frame is of {values.dtype.str}, the dataset of {dtype.str}")
    return bytes(values.tobytes())


def same(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> bool:
    """Tell whether two arrays are alike bit for bit."""
    return (
        one.shape == other.shape and one.dtype == other.dtype and one.tobytes() == other.tobytes()
    )

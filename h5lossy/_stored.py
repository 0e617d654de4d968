# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The bytes that a file holds for a chunk, and the values that HDF5 reads from them.

HDF5 before 2.2 trusts the file: it reads a whole chunk from the output of a filter, or from the
stored bytes if no filter is applied, however few there are. Here the sizes are first compared with
those that the dataset's header implies.
"""

from __future__ import annotations

import dataclasses
import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import h5py
import numpy as np
from h5py import h5t, h5z
from h5py._objects import phil

from h5lossy import _native
from h5lossy._blocks import chunk_starts, listed_chunks
from h5lossy._errors import CorruptFrameError, H5LossyError
from h5lossy._libhdf5 import chunk_options, filters_in, is_parallel, stored_size
from h5lossy._per_dataset import once_per_dataset
from h5lossy._values import as_bits, as_reals, unwritten_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

Place = tuple[int, ...]

#: Type classes whose size in the file may differ from that in memory.
_REFERRING = {h5t.VLEN, h5t.REFERENCE, h5t.COMPOUND, h5t.ARRAY, h5t.STRING}

#: HDF5 2's own complex numbers, which h5py reads as its compounds.
_COMPLEX = getattr(h5t, "COMPLEX", None)

#: Filters may make a chunk larger: ours by a header, Deflate by a thousandth, and all others by
#: less than the chunk itself plus this. HDF5 allocates whatever size the file states.
_ROOM_BYTES = 64 << 10


class ReadChunk(NamedTuple):
    """What `StoredChunks.read` returns."""

    values: npt.NDArray[Any]  # of the part that lies inside the dataset
    frame: bytes | None  # if the file holds one that was decoded here
    is_filtered: bool  # whether h5lossy's filter was applied


class StoredChunks:
    """The chunks of one dataset that has our filter, alone or among others.

    Chunks are named by where they begin. A chunk that HDF5 cannot read, or would misread, raises
    `CorruptFrameError`.
    """

    def __init__(self, dataset: h5py.Dataset) -> None:
        layout = _layout_of(dataset)
        assert layout is not None
        self._dataset = dataset
        self._layout: _Layout = layout
        #: Decodes the chunks outside of HDF5; None if HDF5 has to do it.
        self.decoding = layout.decoding

    def values(self, start: Place) -> npt.NDArray[Any]:
        """Return what HDF5 reads for the part of a stored chunk that lies inside the dataset."""
        with self._named(start):
            return self.read(start).values

    def frame(self, start: Place) -> bytes | None:
        """Return a chunk's bytes as stored; None if h5lossy's filter was not applied."""
        with self._named(start):
            mask, stored = self._fetch(start)
            return bytes(stored) if self._layout.ours in self._active(start, mask) else None

    def frame_if_whole(self, start: Place, buffer: npt.NDArray[np.uint8]) -> Any:
        """Return a chunk's bytes, maybe in `buffer`; None if a filter was skipped, or fails."""
        chunk = self._dataset.id
        try:
            with phil:
                try:
                    mask, stored = chunk.read_direct_chunk(start, out=buffer)
                except TypeError:  # old h5py has no `out`
                    if (stored_size(chunk.id, start) or 0) > len(buffer):
                        return None
                    mask, stored = chunk.read_direct_chunk(start)
        except (OSError, RuntimeError, ValueError, KeyError):
            return None
        return None if mask or not len(stored) else stored

    def read(self, start: Place) -> ReadChunk:
        """Return the values of a stored chunk, and its frame; errors do not name the chunk."""
        dataset = self._dataset
        inside = tuple(
            slice(at, min(at + length, extent))
            for at, length, extent in zip(start, dataset.chunks, dataset.shape, strict=True)
        )
        mask, stored = self._fetch(start)
        self._check_length(start, mask, len(stored))
        active = self._active(start, mask)
        is_filtered = self._layout.ours in active
        if not self._layout.is_plain or active not in ([], [self._layout.ours]):
            return ReadChunk(np.asarray(dataset[inside]), None, is_filtered)
        if is_filtered:
            whole = np.empty(dataset.chunks, dataset.dtype)
            self._check_frame(_native.inspect(stored))
            _native.decode(stored, whole)
        else:
            whole = np.frombuffer(stored, dataset.dtype).reshape(dataset.chunks)
        corner = whole[tuple(slice(0, axis.stop - axis.start) for axis in inside)]
        return ReadChunk(corner, stored if is_filtered else None, is_filtered)

    @contextmanager
    def read_by_hdf5(self, places: Iterable[Place] | None = None) -> Iterator[None]:
        """Check lengths before the block lets HDF5 read chunks; name the broken one on failure."""
        self.check_lengths(places)
        try:
            yield
        except OSError:
            for start in chunk_starts(self._dataset):
                self.values(start)
            raise

    def check_lengths(self, places: Iterable[Place] | None = None) -> None:
        """Check the lengths of some chunks; by default of all that are stored."""
        if places is None:
            listed = listed_chunks(self._dataset)
            numbers = (listed.places, listed.masks, listed.sizes)
            for start, mask, size in zip(*(each.tolist() for each in numbers), strict=True):
                with self._named(tuple(start)):
                    self._check_length(tuple(start), mask, size)
            return
        for place in places:
            if stored_size(self._dataset.id.id, place) is not None:
                with self._named(place):
                    # Without the bytes, only a search through all chunks can find the mask.
                    mask, stored = self._fetch(place)
                    self._check_length(place, mask, len(stored))

    def _fetch(self, start: Place) -> tuple[int, bytes]:
        """Return a chunk's filter mask, and its bytes, if their number is plausible."""
        self._check_size(stored_size(self._dataset.id.id, start) or 0)
        with phil:
            mask, stored = self._dataset.id.read_direct_chunk(start)
        return mask, stored

    def _check_size(self, length: int) -> None:
        """Raise for more bytes than any filter makes of a chunk."""
        if length > self._layout.most_bytes:
            raise CorruptFrameError(
                f"the file says that the chunk has {length} bytes, which is more bytes than the "
                f"{self._layout.most_bytes} that any filters would make of it"
            )

    def _check_length(self, start: Place, mask: int, length: int) -> None:
        """Raise for a length with which HDF5 would misread the chunk."""
        self._check_size(length)
        active = self._active(start, mask)
        if active and self._layout.filters[active[-1]][0] == h5z.FILTER_FLETCHER32 and length < 4:
            # HDF5's filter removes the 4 bytes of the checksum without checking the length.
            raise CorruptFrameError(f"the chunk has {length} bytes, and its checksum alone takes 4")
        if self._layout.ours in active:
            return  # the filter checks its input
        if active:
            raise CorruptFrameError(
                f"filter mask {mask} leaves h5lossy's filter out and not the others, "
                "which no writer does"
            )
        if self._layout.chunk_bytes not in {None, length}:
            raise CorruptFrameError(
                f"the chunk is stored without filters as {length} bytes, "
                f"and has {self._layout.chunk_bytes}"
            )

    def _active(self, start: Place, mask: int) -> list[int]:
        """Return the positions in the pipeline of the filters that were applied to a chunk."""
        ends = map(sum, zip(start, self._dataset.chunks, strict=True))
        if self._layout.leaves_edges and any(
            e > n for e, n in zip(ends, self._dataset.shape, strict=True)
        ):
            return []  # H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS
        return [i for i in range(len(self._layout.filters)) if not mask >> i & 1]

    def _check_frame(self, frame: _native.FrameFields) -> None:
        """Check, as the plugin does, that a frame matches the dataset's header and cd_values."""
        dtype, wanted = self._dataset.dtype, self._layout.chunk_bytes
        if frame.raw_bytes != wanted:
            raise CorruptFrameError(
                f"the frame holds {frame.raw_bytes} bytes, and a chunk has {wanted}"
            )
        if not frame.is_typed:  # the encoder did not know the type
            return
        if frame.dtype != dtype or not _is_number(self._dataset):
            raise CorruptFrameError(f"the frame's type is not the dataset's, {dtype.str}")
        if self._layout.described not in {None, (frame.raw_bytes, frame.dtype.str)}:
            raise CorruptFrameError("the cd_values are of another type or chunk than the dataset")

    @property
    def encoding(self) -> _native.Params | None:
        """Encodes chunks outside of HDF5 as the filter does; None if HDF5 has to do it."""
        if is_parallel(self._dataset):
            return None  # the processes have to agree on the place of each chunk
        return self._layout.encoding

    @contextmanager
    def _named(self, start: Place) -> Iterator[None]:
        """Name chunk, dataset and file in what the block raises."""
        try:
            yield
        except (OSError, RuntimeError, ValueError) as error:
            kind = type(error) if isinstance(error, H5LossyError) else CorruptFrameError
            dataset, place = self._dataset, tuple(map(int, start))
            raise kind(
                f"chunk {place} of {dataset.name} in {dataset.file.filename}: {error}"
            ) from error


@dataclasses.dataclass(frozen=True)
class _Layout:
    """How the chunks of a dataset that has our filter are stored."""

    filters: list[tuple[int, int, tuple[int, ...], bytes]]
    ours: int  # index of our filter
    leaves_edges: bool  # whether filters are not applied to chunks at the edge
    is_plain: bool  # whether the type in the file is that of NumPy's
    #: Bytes that HDF5 reads for a chunk; None if the type's size in the file may differ.
    chunk_bytes: int | None
    most_bytes: int  # the most bytes that filters make of a chunk
    #: The chunk's bytes and type according to the cd_values; None if they lack these.
    described: tuple[int, str] | None
    #: Decodes and encodes chunks outside of HDF5; None if HDF5 has to do it.
    decoding: _native.Params | None
    encoding: _native.Params | None


@once_per_dataset
def _layout_of(dataset: h5py.Dataset) -> _Layout | None:
    """Find out how chunks are stored; None if the dataset does not have our filter."""
    creation = dataset.id.get_create_plist()
    filters = filters_in(creation)
    numbers = [number for number, *_ in filters]
    if _native.FILTER_ID not in numbers:
        return None
    ours = numbers.index(_native.FILTER_ID)
    leaves_edges = bool(chunk_options(creation.id))
    dtype, type_id = dataset.dtype, dataset.id.get_type()
    # Frames of h5py's bool hold unsigned integers, like those of all enums.
    is_plain = not dtype.hasobject and dtype.kind != "b" and bool(type_id == h5t.py_create(dtype))
    is_plain |= dtype.kind == "c" and type_id.get_class() == _COMPLEX
    nbytes = math.prod(dataset.chunks) * type_id.get_size()
    chunk_bytes = None if type_id.get_class() in _REFERRING and not is_plain else nbytes
    params = _complete_params(*filters[ours][1:3])
    described = None
    if params is not None:
        described = params.value_bytes * math.prod(params.shape), params.dtype.str
    decoding = encoding = None
    if (
        len(filters) == 1
        and not leaves_edges
        and is_plain
        and _is_number(dataset)
        # Components are one more axis for the library.
        and (dtype.kind != "c" or dataset.ndim < _native.MAX_PART_RANK)
        and described in {None, (chunk_bytes, dtype.str)}
    ):
        decoding = _native.Params(**_native.type_fields(dtype))
        # Padding, too, is one component for the library.
        parts = as_bits(as_reals(unwritten_value(dataset))) if dtype.kind == "c" else [0, 0]
        if parts[0] == parts[1]:
            # The filter cannot distinguish padding from data.
            encoding = params and dataclasses.replace(params, maybe_padded=True)
    return _Layout(
        filters=filters,
        ours=ours,
        leaves_edges=leaves_edges,
        is_plain=is_plain,
        chunk_bytes=chunk_bytes,
        most_bytes=2 * nbytes + _ROOM_BYTES,
        described=described,
        decoding=decoding,
        encoding=encoding,
    )


def _is_number(dataset: h5py.Dataset) -> bool:
    """Return whether values are numbers, and not bits, enums or anything else."""
    return dataset.dtype.kind == "c" or dataset.id.get_type().get_class() in {
        h5t.FLOAT,
        h5t.INTEGER,
    }


def _complete_params(flags: int, words: tuple[int, ...]) -> _native.Params | None:
    """Unpack the cd_values; None if they do not describe a chunk."""
    if flags & h5z.FLAG_OPTIONAL:
        return None  # the filter does not know the type, and encodes nothing
    try:
        params = _native.unpack_cd_values([word & 0xFFFFFFFF for word in words])
    except H5LossyError:
        return None
    return params if params.value_bytes else None


def stored_chunks(dataset: h5py.Dataset) -> StoredChunks | None:
    """Return the chunks of a dataset; None if it does not have our filter."""
    return None if _layout_of(dataset) is None else StoredChunks(dataset)

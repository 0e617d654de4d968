# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The bytes that a file holds for a chunk, and the values that HDF5 reads from them.

HDF5 before 2.2 trusts the file: it reads a whole chunk from the output of a filter, or from the
stored bytes if no filter is applied, however few they are. Here the sizes are first compared with
those in the dataset's header.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import h5py
import numpy as np
from h5py import h5t, h5z
from h5py._objects import phil

from h5lossy import _native
from h5lossy._blocks import chunk_starts, for_each_chunk
from h5lossy._libhdf5 import chunk_options, stored_size
from h5lossy._values import is_big_endian
from h5lossy.errors import CorruptFrameError, H5LossyError

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

Place = tuple[int, ...]

#: Classes of types whose size in the file may differ from that in memory.
_REFERRING = {h5t.VLEN, h5t.REFERENCE, h5t.COMPOUND, h5t.ARRAY, h5t.STRING}


#: Filters may make a chunk larger: ours by a header, Deflate by a thousandth, and the worst of
#: others by less than the chunk itself and this. HDF5 takes memory for whatever the file says.
_ROOM_BYTES = 64 << 10


class ReadChunk(NamedTuple):
    """What `StoredChunks.read` returns.

    Attributes
    ----------
    values : numpy.ndarray
        The part of the chunk that lies inside the dataset.
    frame : bytes or None
        Its frame, if the file holds one that was decoded here.
    is_filtered : bool
        Whether h5lossy's filter was applied.
    """

    values: npt.NDArray[Any]
    frame: bytes | None
    is_filtered: bool


class StoredChunks:
    """The chunks of one dataset.

    Parameters
    ----------
    dataset : h5py.Dataset
        With chunks and our filter, among others or alone.
    """

    def __init__(self, dataset: h5py.Dataset) -> None:
        creation = dataset.id.get_create_plist()
        self._dataset = dataset
        self._filters = [creation.get_filter(i) for i in range(creation.get_nfilters())]
        numbers = [number for number, *_ in self._filters]
        self._ours = numbers.index(_native.FILTER_ID)
        self._leaves_edges = bool(chunk_options(creation.id))
        type_id = dataset.id.get_type()
        self._is_plain = not dataset.dtype.hasobject and bool(
            type_id == h5t.py_create(dataset.dtype)
        )
        value_bytes = math.prod(dataset.chunks) * type_id.get_size()
        self._most_bytes = 2 * value_bytes + _ROOM_BYTES
        #: Bytes that HDF5 reads for a chunk; None if the type's size in the file may differ.
        self.chunk_bytes: int | None = (
            None if type_id.get_class() in _REFERRING and not self._is_plain else value_bytes
        )

    @property
    def are_ours_alone(self) -> bool:
        """Whether there is no other filter, and frames are decoded to floats as h5py gives them."""
        said = self._said()
        dtype = self._dataset.dtype
        is_right = said is None or said == (self.chunk_bytes, dtype.itemsize, is_big_endian(dtype))
        is_alone = len(self._filters) == 1 and not self._leaves_edges
        return is_alone and self._is_plain and dtype.kind == "f" and is_right

    def values(self, start: Place) -> npt.NDArray[Any]:
        """Return what HDF5 reads for the part of a chunk that lies inside the dataset.

        Parameters
        ----------
        start : tuple of int
            Where the chunk begins. It must be in the file.

        Raises
        ------
        CorruptFrameError
            If HDF5 can't read it, or would misread it. The message names the chunk, the dataset
            and the file.
        """
        try:
            return self.read(start).values
        except (OSError, RuntimeError, ValueError) as error:
            raise self._with_place(start, error) from error

    def frame(self, start: Place) -> bytes | None:
        """Return a chunk's bytes as stored; None if h5lossy's filter was not applied."""
        mask, stored = self._fetch(start)
        return bytes(stored) if self._is_filtered(start, mask) else None

    def read(self, start: Place) -> ReadChunk:
        """Return the values of a chunk, and its frame.

        Parameters
        ----------
        start : tuple of int
            Where the chunk begins. It must be in the file.

        Raises
        ------
        CorruptFrameError, OSError, RuntimeError, ValueError
            As `values`, but the message names no chunk.
        """
        dataset = self._dataset
        inside = tuple(
            slice(at, min(at + length, extent))
            for at, length, extent in zip(start, dataset.chunks, dataset.shape, strict=True)
        )
        mask, stored = self._fetch(start)
        is_filtered = self._is_filtered(start, mask)
        if not self._decodes(start, mask):
            self.check_length(start, mask, len(stored))
            return ReadChunk(np.asarray(dataset[inside]), None, is_filtered)
        whole = self.decode(start, mask, stored)
        corner = whole[tuple(slice(0, axis.stop - axis.start) for axis in inside)]
        return ReadChunk(corner, stored if is_filtered else None, is_filtered)

    def _fetch(self, start: Place) -> tuple[int, bytes]:
        """Return a chunk's filter mask, and its bytes, if there can be so many."""
        self._check_size(stored_size(self._dataset.id.id, start) or 0)
        with phil:
            mask, stored = self._dataset.id.read_direct_chunk(start)
        return mask, stored

    def decode(self, start: Place, mask: int, stored: Any) -> npt.NDArray[Any]:
        """Return the values of a whole chunk, decoded from its stored bytes.

        Parameters
        ----------
        start : tuple of int
            Where the chunk begins.
        mask : int
            Its filter mask.
        stored : bytes-like
            Its bytes.

        Raises
        ------
        CorruptFrameError
            As `values`, but the message names no chunk.
        """
        dtype, chunks = self._dataset.dtype, self._dataset.chunks
        self.check_length(start, mask, len(stored))
        if self._is_filtered(start, mask):
            out = np.empty(chunks, dtype)
            self._check_frame(_native.inspect(stored))
            _native.decode(stored, out)
            return out
        return np.frombuffer(stored, dtype).reshape(chunks)

    def check_length(self, start: Place, mask: int, length: int) -> None:
        """Raise `CorruptFrameError` for a length with which HDF5 would misread the chunk."""
        self._check_size(length)
        active = self._active(start, mask)
        if active and self._filters[active[-1]][0] == h5z.FILTER_FLETCHER32 and length < 4:
            # HDF5's filter takes the checksum's 4 bytes off without a look.
            raise CorruptFrameError(f"the chunk has {length} bytes, and its checksum alone takes 4")
        if self._is_filtered(start, mask):
            return  # the filter checks its input
        if active:
            raise CorruptFrameError(
                f"filter mask {mask} leaves h5lossy's filter out and not the others, "
                "which no writer does"
            )
        if self.chunk_bytes not in {None, length}:
            raise CorruptFrameError(
                f"the chunk is stored without filters as {length} bytes, and has {self.chunk_bytes}"
            )

    def check_lengths(self, places: Iterable[Place] | None = None) -> None:
        """Check the lengths of chunks, before HDF5 reads any of them.

        Parameters
        ----------
        places : iterable of tuple of int, optional
            Where the chunks begin. Default: all stored chunks, which is slow if there are very
            many.

        Raises
        ------
        CorruptFrameError
            As `values`.
        """

        def check(place: Place, found: tuple[int, int] | None = None) -> None:
            try:
                mask, length = found or self._fetched_length(place)
                self.check_length(place, mask, length)
            except CorruptFrameError as error:
                raise self._with_place(place, error) from error

        if places is None:
            for_each_chunk(
                self._dataset,
                lambda chunk: check(chunk.chunk_offset, (chunk.filter_mask, chunk.size)),
            )
            return
        for place in places:
            if stored_size(self._dataset.id.id, place) is not None:
                check(place)

    def raise_for_broken(self) -> None:
        """Read one chunk after another, and raise `CorruptFrameError` for the first broken one."""
        for start in chunk_starts(self._dataset):
            self.values(start)

    def _fetched_length(self, start: Place) -> tuple[int, int]:
        """Return filter mask and length of one chunk; what only tells them goes through all."""
        mask, stored = self._fetch(start)
        return mask, len(stored)

    def _check_size(self, length: int) -> None:
        if length > self._most_bytes:
            raise CorruptFrameError(
                f"the file says that the chunk has {length} bytes, which is more bytes than the "
                f"{self._most_bytes} that any filters would make of it"
            )

    def _decodes(self, start: Place, mask: int) -> bool:
        """Whether the chunk can be decoded here: no other filter, no type conversion."""
        active = self._active(start, mask)
        return self._is_plain and (not active or active == [self._ours])

    def _is_filtered(self, start: Place, mask: int) -> bool:
        return self._ours in self._active(start, mask)

    def _active(self, start: Place, mask: int) -> list[int]:
        """Return the positions in the pipeline of the filters that were applied to a chunk."""
        ends = map(sum, zip(start, self._dataset.chunks, strict=True))
        if self._leaves_edges and any(
            e > n for e, n in zip(ends, self._dataset.shape, strict=True)
        ):
            return []  # H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS
        return [i for i in range(len(self._filters)) if not mask >> i & 1]

    def _check_frame(self, frame: _native.FrameFields) -> None:
        """Check, as the plugin does, that a frame matches the dataset's header and cd_values."""
        dtype = self._dataset.dtype
        if frame.raw_bytes != self.chunk_bytes:
            raise CorruptFrameError(
                f"the frame holds {frame.raw_bytes} bytes, and a chunk has {self.chunk_bytes}"
            )
        if frame.value_bytes == 1:  # the encoder did not know the type
            return
        found = frame.value_bytes, frame.big_endian
        if found != (dtype.itemsize, is_big_endian(dtype)) or dtype.kind != "f":
            raise CorruptFrameError(f"the frame's type is not the dataset's, {dtype.str}")
        said = self._said()
        if said is not None and said != (frame.raw_bytes, *found):
            raise CorruptFrameError("the cd_values are of another type or chunk than the dataset")

    def _said(self) -> tuple[int, int, bool] | None:
        """Return the chunk's bytes and type by the cd_values; None if these do not give them."""
        _, flags, words, _ = self._filters[self._ours]
        if flags & h5z.FLAG_OPTIONAL:
            return None
        try:
            params = _native.unpack_cd_values([word & 0xFFFFFFFF for word in words])
        except H5LossyError:
            return None
        if params.value_bytes == 0:
            return None
        size = params.value_bytes * math.prod(params.shape)
        return size, params.value_bytes, params.big_endian

    def _with_place(self, start: Place, error: Exception) -> H5LossyError:
        kind = type(error) if isinstance(error, H5LossyError) else CorruptFrameError
        place = tuple(map(int, start))
        dataset = self._dataset
        return kind(f"chunk {place} of {dataset.name} in {dataset.file.filename}: {error}")


def stored_chunks(dataset: h5py.Dataset) -> StoredChunks | None:
    """Return the chunks of a dataset; None if it does not have our filter."""
    creation = dataset.id.get_create_plist()
    numbers = [creation.get_filter(i)[0] for i in range(creation.get_nfilters())]
    return StoredChunks(dataset) if _native.FILTER_ID in numbers else None

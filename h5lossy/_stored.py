# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Chunks as they stand in the file, and what HDF5 makes of them.

HDF5 trusts a filter: whatever it gives back for a chunk is read as a whole chunk of the dataset's
type. So each chunk is looked at here before it is decoded, by the dataset's own type and chunks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from h5py import h5z
from h5py._objects import phil

from h5lossy import _native
from h5lossy._libhdf5 import chunk_options
from h5lossy._values import is_big_endian
from h5lossy.errors import CorruptFrameError
from h5lossy.frames import FrameInfo, decode, inspect

if TYPE_CHECKING:
    import h5py
    import numpy.typing as npt

#: H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS
_PARTIAL_CHUNKS_ARE_PLAIN = 2


@dataclass(frozen=True)
class StoredChunk:
    """One chunk of the file, decoded.

    Attributes
    ----------
    values : numpy.ndarray
        The part that is inside of the dataset.
    frame : FrameInfo or None
        What its frame says; None where h5lossy did not encode it, or other filters changed it.
    has_checksum : bool
        Whether damage would have been seen.
    """

    values: npt.NDArray[Any]
    frame: FrameInfo | None
    has_checksum: bool


class ChunkReader:
    """Reads chunks past HDF5's cache, unless filters of others stand between it and their frames.

    Parameters
    ----------
    dataset : h5py.Dataset
        Compressed by h5lossy.
    """

    def __init__(self, dataset: h5py.Dataset) -> None:
        self._dataset = dataset
        self._shape, self._chunks = dataset.shape, dataset.chunks
        creation = dataset.id.get_create_plist()
        filters = [creation.get_filter(i) for i in range(creation.get_nfilters())]
        index = [number for number, *_ in filters].index(_native.FILTER_ID)
        _, flags, words, _ = filters[index]
        self._all = (1 << len(filters)) - 1
        # Where others stand before it, the values are not what it encoded.
        self._ours = 1 << index if index == 0 else 0
        self._partial_are_plain = bool(chunk_options(creation.id) & _PARTIAL_CHUNKS_ARE_PLAIN)
        params = _native.unpack_cd_values([word & 0xFFFFFFFF for word in words])
        # An optional filter has not been told the type.
        self._params = None if flags & h5z.FLAG_OPTIONAL or not params.value_bytes else params
        self._has_checksum = not params.no_checksum
        dtype = dataset.dtype
        self._is_float = dtype.kind == "f" and dtype.itemsize in {4, 8}
        # Of other types h5lossy keeps the bytes.
        size = dataset.id.get_type().get_size()
        self._dtype: np.dtype[Any] = dtype if self._is_float else np.dtype(f"V{size}")
        self._chunk_bytes = math.prod(self._chunks) * self._dtype.itemsize

    def read(self, start: tuple[int, ...]) -> StoredChunk:
        """Return one chunk that is in the file.

        Raises
        ------
        CorruptFrameError
            If HDF5 could not read it, or would read it as something else than was written.
        """
        selection = tuple(
            slice(s, min(s + c, n))
            for s, c, n in zip(start, self._chunks, self._shape, strict=True)
        )
        inside = tuple(slice(0, s.stop - s.start) for s in selection)
        try:
            with phil:
                mask, stored = self._dataset.id.read_direct_chunk(start)
        except (OSError, RuntimeError, ValueError, KeyError) as error:
            raise CorruptFrameError(f"HDF5 can't read it: {error}") from error
        is_partial = any(s.stop - s.start < c for s, c in zip(selection, self._chunks, strict=True))
        skipped = mask & self._all
        if skipped == self._all or (self._partial_are_plain and is_partial):
            return StoredChunk(self._plain(stored)[inside], None, has_checksum=False)
        if self._ours and skipped == self._all - self._ours:
            frame = self._checked(stored)
            return StoredChunk(self._decoded(stored)[inside], frame, frame.checksum)
        if skipped & self._ours:
            raise CorruptFrameError(
                f"its filter mask {mask:#x} skips h5lossy and not the filters behind it, so that "
                "nobody can tell what HDF5 reads"
            )
        try:
            values = np.asarray(self._dataset[selection], self._dtype)
        except (OSError, RuntimeError) as error:
            raise CorruptFrameError(f"HDF5 can't read it: {error}") from error
        return StoredChunk(values, None, self._has_checksum)

    def _plain(self, stored: bytes) -> npt.NDArray[Any]:
        if len(stored) != self._chunk_bytes:
            raise CorruptFrameError(
                f"it is stored without filters in {len(stored)} bytes, and the dataset's chunks "
                f"have {self._chunk_bytes}"
            )
        return np.frombuffer(stored, self._dtype).reshape(self._chunks)

    def _checked(self, stored: bytes) -> FrameInfo:
        """Inspect a frame that the filter would decode; what it would not is refused."""
        frame = inspect(stored)
        dtype = self._dtype
        if self._params is not None:
            told = self._params
            if (told.value_bytes, told.big_endian) != (dtype.itemsize, is_big_endian(dtype)):
                raise CorruptFrameError("cd_values describe another type than the dataset has")
            if told.value_bytes * math.prod(told.shape) != self._chunk_bytes:
                raise CorruptFrameError("cd_values describe other chunks than the dataset has")
        if frame.raw_bytes != self._chunk_bytes:
            raise CorruptFrameError(
                f"its frame holds {frame.raw_bytes} bytes of values, and the dataset's chunks have "
                f"{self._chunk_bytes}"
            )
        is_known = frame.dtype.itemsize > 1  # or the encoder was not told
        if is_known and frame.dtype != dtype:
            raise CorruptFrameError(
                f"its frame holds {frame.dtype.str}, and the dataset {dtype.str}"
            )
        return frame

    def _decoded(self, stored: bytes) -> npt.NDArray[Any]:
        values: npt.NDArray[Any] = decode(stored)
        return values.view(self._dtype).reshape(self._chunks)

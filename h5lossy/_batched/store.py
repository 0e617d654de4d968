# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Writing chunks to a file so that a full disk or a killed process costs at most one of them.

HDF5 writes its index of the chunks late. If the disk is full by then, the whole file is lost. So
space for a chunk and its index entry is reserved before the chunk is written.

Reserved space is never released: truncating the file to its earlier size would destroy what other
threads have written meanwhile. Unused space at the end of a file is small and harmless.

When a chunk is replaced, HDF5 reuses its space for the next one. Before that, the index in the file
must no longer refer to it, so the dataset is flushed.

A file that is shorter than its superblock states cannot be opened. When HDF5 flushes a file whose
last chunk was freed, it first truncates the file, and then writes the superblock. So before such a
flush, the shorter length is written to the superblock here.
"""

from __future__ import annotations

import errno
import math
import os
import shutil
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from h5py import h5f, h5i
from h5py._objects import phil

from h5lossy import _native
from h5lossy._blocks import grid_of
from h5lossy._libhdf5 import (
    EXTENSIBLE_ARRAY,
    FIXED_ARRAY,
    allocated_end,
    chunk_index,
    end_after_flush,
    has_no_chunks,
    hdf5,
    put_into_file,
    stored_size,
)
from h5lossy._per_dataset import once_per_dataset
from h5lossy._superblock import read_superblock
from h5lossy._warnings import warn

if TYPE_CHECKING:
    import h5py
    import numpy.typing as npt

    from h5lossy._batched.boxes import Box, Place

#: What HDF5 may add to the file for one chunk: nodes of its index (at most 20 KiB in tests with up
#: to 8 dimensions), and blocks that it allocates from.
_INDEX_BYTES = 64 << 10

#: The most pieces that HDF5 allocates for one chunk: the chunk itself, and nodes of the index (at
#: most 5 in all were seen, in tests with up to 8 dimensions).
_PIECES = 8

#: How many of these may be larger than `_INDEX_BYTES`: the chunk, and two nodes of the index, where
#: there are very many chunks.
_LARGE_PIECES = 3

#: An extensible array grows by blocks of this many bytes times the root of the chunk's number.
_GROWTH_BYTES = 128

#: Several small chunks get their space together, of this many bytes: a reservation takes as long as
#: one of them. What is reserved and not needed stays with the file.
_AHEAD_BYTES = 1 << 20

#: An entry of an index that has its full size from the start.
_ENTRY_BYTES = 24

#: If more than this was allocated since the last flush, a flush is faster than reserving it.
_UNFLUSHED_BYTES = 4 << 20

#: Beyond the end of any file.
_EVERYTHING = (1 << 64) - 1

_KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE


class ChunkStore:
    """Writes the chunks of one dataset; reserves space if the file is on a disk in one piece."""

    def __init__(self, dataset: h5py.Dataset) -> None:
        self._dataset = dataset
        self._file = h5i.get_file_id(dataset.id)
        driver, self._index, self._gaps = _storage_of(dataset)
        self._is_on_disk = driver == "sec2"
        #: Space for the index once it exists; 0 if it is known to exist.
        self._first_bytes = 0
        if self._index == FIXED_ARRAY:
            self._first_bytes = math.prod(grid_of(dataset)) * _ENTRY_BYTES
        #: The length that the superblock in the file states. A file in memory is not flushed: that
        #: may copy all of it to the disk.
        self._stated = _EVERYTHING if driver == "core" else 0
        #: Disk space is reserved up to here.
        self._end = 0 if self._is_on_disk else _EVERYTHING
        #: Chunks that were written.
        self.done = 0
        if self._is_on_disk:
            with phil:
                self._begin()

    def put(self, places: npt.NDArray[np.int64], frames: _native.Frames) -> None:
        """Write the frames of the chunks that begin at `places`."""
        if not len(frames):
            return
        last = tuple(places.max(axis=0).tolist())
        index_bytes = self._index_bytes(last)
        ends = np.cumsum(frames.sizes, dtype=np.int64)
        first = 0
        while first < len(frames):
            # In one go as far as space is reserved, or until some is freed.
            with phil:
                size, ahead = int(frames.sizes[first]), int(ends[-1] - ends[first])
                more = self._reserve(size, last, index_bytes, ahead)
                written, needs_flush, failure = hdf5().write_chunks(
                    self._file.id,
                    self._dataset.id.id,
                    places[first:],
                    frames[first:],
                    _native.Space(reserved=self._end, index_bytes=more, stated=self._stated),
                )
                first += written
                self.done += written
                if failure is not None:
                    raise failure
                if needs_flush:
                    self.flush()

    def put_part(self, place: Place, box: Box, values: npt.NDArray[Any]) -> None:
        """Write a part of a chunk, which HDF5 decodes and encodes again."""
        chunk_bytes = math.prod(self._dataset.chunks) * self._dataset.dtype.itemsize
        size = _native.max_encoded_size(chunk_bytes)
        with phil:
            self._reserve(size, place, self._index_bytes(place))
            old = stored_size(self._dataset.id.id, place)
            self._dataset[box.slices] = values
            # Makes HDF5 write the chunk now: space has been reserved for this one only.
            put_into_file(self._dataset.id, place)
            self.done += 1
            if old is None or self._stated == _EVERYTHING:
                return
            if allocated_end(self._file) > self._stated:
                self.flush()  # data beyond the stated end cannot be read after a kill
            else:
                self._dataset.id.flush()

    def flush(self) -> None:
        """Make HDF5 write its caches, for which space has been reserved.

        A file in memory is left alone.
        """
        if self._stated == _EVERYTHING:
            return
        with phil:
            if not self._is_on_disk:
                h5f.flush(self._file)
                return
            least = end_after_flush(self._file, self._stated)
            if least < self._stated:
                fd = self._file.get_vfd_handle()
                found = read_superblock(fd)
                if found is not None and found.end > least:
                    found.with_end(least).write(fd)
            length = self._file.get_filesize()
            h5f.flush(self._file)
            self._stated = allocated_end(self._file)
            if self._stated < length:  # truncating releases what was reserved
                self._end = min(self._end, self._stated)

    def _begin(self) -> None:
        """Find where the reserved space ends for what HDF5's caches hold, which has an address."""
        found = read_superblock(self._file.get_vfd_handle())
        self._stated = found.end if found else 0
        if allocated_end(self._file) - self._stated > _UNFLUSHED_BYTES:
            self.flush()
        self._end = self._stated

    def _reserve(self, size: int, place: Place, index_bytes: int, ahead: int = 0) -> int:
        """Reserve space for a chunk of at most `size` bytes and its index, or raise OSError.

        Return what of it is for the index. Of `ahead` bytes that the next chunks will take, some
        are reserved, too, if there is room.
        """
        if not self._is_on_disk:
            return 0
        if self._first_bytes and not has_no_chunks(self._dataset.id.id, place):
            self._first_bytes = 0
        index_bytes += self._first_bytes
        end = allocated_end(self._file) + size + index_bytes
        if end > self._end:
            fd = self._file.get_vfd_handle()
            further = end + max(0, min(ahead, _AHEAD_BYTES - size))
            code = self._allocate(fd, further) and self._allocate(fd, end)
            if code:
                raise OSError(
                    code, f"{os.strerror(code)} for the next chunk", self._dataset.file.filename
                )
        self._first_bytes = 0
        return index_bytes

    def _index_bytes(self, place: Place) -> int:
        """Return the most that an index takes for one more chunk, up to that at `place`."""
        least = _INDEX_BYTES + self._gaps
        if self._index != EXTENSIBLE_ARRAY:
            return least
        # Chunks are counted along the unlimited axis last. How far it reaches does not matter: a
        # dataset may have room for far more chunks than the disk.
        extents = [
            s + 1 if m is None else m for s, m in zip(place, self._dataset.maxshape, strict=True)
        ]
        counts = (-(-n // c) for n, c in zip(extents, self._dataset.chunks, strict=True))
        return least + _GROWTH_BYTES * math.isqrt(math.prod(counts))

    def _allocate(self, fd: int, end: int) -> int:
        """Reserve space up to `end`; return 0 or the errno."""
        if end > _largest_file():
            return errno.EFBIG
        size = end - self._end
        code = _fallocate(fd, self._end, size)
        if code not in {0, errno.ENOSPC, errno.EDQUOT}:  # this file system has no fallocate
            where = self._dataset.file.filename if sys.platform == "win32" else fd
            size = end - max(self._end, self._stated)  # what was flushed is on the disk
            code = errno.ENOSPC if shutil.disk_usage(where).free < size else 0
        if not code:
            self._end = end
        return code


@once_per_dataset
def _storage_of(dataset: h5py.Dataset) -> tuple[str, int, int]:
    """Return the file's driver, the kind of the chunk index, and `_gaps_in`."""
    file = dataset.file
    return str(file.driver), chunk_index(dataset.id.id), _gaps_in(file)


def _gaps_in(file: h5py.File) -> int:
    """Return the most bytes that HDF5 leaves unused between a chunk and the nodes of its index.

    Warn if the file is open with a page buffer, with any driver.
    """
    creation, access = file.id.get_create_plist(), file.id.get_access_plist()
    if creation.get_file_space_strategy()[0] != h5f.FSPACE_STRATEGY_PAGE:
        threshold, interval = access.get_alignment()
        pieces = _PIECES if threshold <= _INDEX_BYTES else _LARGE_PIECES
        return pieces * (int(interval) - 1)
    if access.get_page_buffer_size()[0]:
        warn(
            f"{file.filename} is open with a page buffer (page_buf_size), with which HDF5 (1.12.2 "
            "to 2.0.0 at least) loses chunks that are replaced; open it without one"
        )
    return _PIECES * int(creation.get_file_space_page_size())


def _fallocate(fd: int, begin: int, size: int) -> int:
    """Return 0 or the errno. Not posix_fallocate, which may fall back to writing zeros."""
    code = errno.EOPNOTSUPP
    if sys.platform == "linux":
        from h5lossy._loader_posix import ffi, process  # noqa: PLC0415  # not on Windows

        code = int(ffi.errno) if process.fallocate(fd, _KEEP_SIZE, begin, size) else 0
    return code


def _largest_file() -> int:
    """Return the limit of this process for the size of a file."""
    if sys.platform == "win32":
        return sys.maxsize
    import resource  # noqa: PLC0415  # not on Windows

    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit

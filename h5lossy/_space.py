# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Room in the file system for what is about to be written.

HDF5 writes its index of the chunks late. On a full disk there is then no room for it, and all of
the file is lost. So room for chunks and index is set aside before the chunks are written.
"""

from __future__ import annotations

import errno
import math
import os
import resource
import sys
from typing import TYPE_CHECKING, Any

import cffi

if TYPE_CHECKING:
    from collections.abc import Sequence

    import h5py

#: What HDF5 may add to the file for one chunk: nodes of its index, and blocks that it hands out
#: little by little.
_INDEX_BYTES = 256 << 10

#: What each of many chunks needs in there: nodes of the oldest index, half full, of any rank.
_NODE_BYTES_OF_CHUNK = 1024

#: An entry of an index that has its full size from the first chunk on.
_ENTRY_BYTES = 24

#: How far ahead room is set aside, where there is so much.
_STEP_BYTES = 1 << 20

_KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE

_ffi: Any = cffi.FFI()
_ffi.cdef("int fallocate(int file, int mode, int64_t offset, int64_t size);")
_libc: Any = _ffi.dlopen(None)


class Space:
    """Sets room aside behind the end of a dataset's file.

    Files that are not on a disk in one piece (in memory, split, written by MPI) are left alone.

    Parameters
    ----------
    dataset : h5py.Dataset
        Of the file.
    """

    def __init__(self, dataset: h5py.Dataset) -> None:
        self._file = dataset.file
        self._fd: int | None = None
        if self._file.driver == "sec2":
            self._fd = self._file.id.get_vfd_handle()
        # What is in HDF5's caches has its places in the file already, but no room yet.
        self._file.flush()
        self._end = self._file.id.get_filesize()
        chunks = math.prod(-(-n // c) for n, c in zip(dataset.shape, dataset.chunks, strict=True))
        self._index_bytes = _INDEX_BYTES + (
            0 if dataset.id.get_storage_size() else chunks * _ENTRY_BYTES
        )

    def reserve(self, size: int) -> None:
        """Set aside room for a chunk of at most `size` bytes and its index, or raise OSError."""
        if self._fd is None:
            return
        end = self._file.id.get_filesize() + size + self._index_bytes
        if end <= self._end:
            return
        if self._allocate(self._fd, end + _STEP_BYTES):
            code = self._allocate(self._fd, end)
            if code:
                raise OSError(code, f"{os.strerror(code)} for the next chunk", self._file.filename)
        self._index_bytes = _INDEX_BYTES

    def try_to_reserve(self, frames: Sequence[Any]) -> bool:
        """Set aside room for some chunks at once; return whether there is so much."""
        entries = (len(frames) - 1) * _NODE_BYTES_OF_CHUNK
        try:
            self.reserve(sum(map(len, frames)) + entries)
        except OSError:
            return False
        return True

    def release(self) -> None:
        """Have HDF5 write what it holds, and give back what it did not need."""
        self._file.flush()
        if self._fd is not None:
            os.ftruncate(self._fd, os.fstat(self._fd).st_size)

    def _allocate(self, fd: int, end: int) -> int:
        """Set room aside up to `end`; return 0 or the errno."""
        if end > _largest_file():
            return errno.EFBIG
        size = end - self._end
        code = _fallocate(fd, self._end, size)
        if code not in {0, errno.ENOSPC, errno.EDQUOT}:  # this file system can't; so ask it
            state = os.fstatvfs(fd)
            code = errno.ENOSPC if state.f_bavail * state.f_frsize < size else 0
        if not code:
            self._end = end
        return code


def _fallocate(fd: int, begin: int, size: int) -> int:
    """Return 0 or the errno. posix_fallocate writes zeros where there is no other way."""
    if sys.platform != "linux":
        return errno.EOPNOTSUPP
    return int(_ffi.errno) if _libc.fallocate(fd, _KEEP_SIZE, begin, size) else 0


def _largest_file() -> int:
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit

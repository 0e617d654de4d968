# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Room in the file system for what is about to be written.

HDF5 writes its index of the chunks late. On a full disk there is then no room for it, and all of
the file is lost. So room for chunks and index is set aside before the chunks are written.

No space is ever released: truncating a file to its earlier size would destroy what other threads
have written meanwhile. Unused space behind the end of a file is small, and does no harm.
"""

from __future__ import annotations

import errno
import math
import os
import resource
import sys
from typing import TYPE_CHECKING, Any

import cffi

from h5lossy._blocks import grid_of
from h5lossy._libhdf5 import has_fixed_array

if TYPE_CHECKING:
    import h5py

#: What HDF5 may add to the file for one chunk: nodes of its index (at most 20 KiB in tests with up
#: to 8 dimensions), and blocks that it allocates from.
_INDEX_BYTES = 64 << 10

#: An extensible array grows by blocks of this many bytes times the root of the number of chunks.
_GROWTH_BYTES = 128

#: Set aside beyond what the next chunk needs, as each call takes as long as a small chunk does.
_AHEAD_BYTES = 32 << 10

#: An entry of an index that has its full size from the first chunk on.
_ENTRY_BYTES = 24

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
        self._is_on_disk = self._file.driver == "sec2"
        # What is in HDF5's caches has its places in the file already, but no room yet.
        self._file.flush()
        self._end = self._file.id.get_filesize()
        chunks = math.prod(grid_of(dataset))
        self._index_bytes = _INDEX_BYTES + _GROWTH_BYTES * math.isqrt(chunks)
        self._first_bytes = 0
        if not dataset.id.get_storage_size() and has_fixed_array(dataset.id.id):
            self._first_bytes = chunks * _ENTRY_BYTES

    def reserve(self, size: int) -> None:
        """Set aside room for a chunk of at most `size` bytes and its index, or raise OSError.

        The caller holds `phil` until the chunk is written, since other threads may write to the
        file as well.
        """
        if not self._is_on_disk:
            return
        end = self._file.id.get_filesize() + size + self._index_bytes + self._first_bytes
        if end <= self._end:
            return
        fd = self._file.id.get_vfd_handle()
        code = self._allocate(fd, end + _AHEAD_BYTES) and self._allocate(fd, end)
        if code:
            raise OSError(code, f"{os.strerror(code)} for the next chunk", self._file.filename)
        self._first_bytes = 0

    def flush(self) -> None:
        """Have HDF5 write its caches, for which space has been reserved."""
        self._file.flush()

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

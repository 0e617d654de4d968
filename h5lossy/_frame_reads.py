# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Reading frames directly from the file: many per system call; HDF5 needs a call for each chunk."""

from __future__ import annotations

import itertools
import os
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from h5py._objects import phil

from h5lossy._libhdf5 import is_parallel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import ThreadPoolExecutor

    import h5py
    import numpy.typing as npt

#: Gaps of up to this many bytes between two frames are read along, which beats a second call.
_MOST_BETWEEN = 4096

#: Most buffers per call: a third of Linux's limit, since a gap may need a buffer, too.
_MOST_FRAMES = 340

#: Frames in different stretches of the file, of this many bytes, are read by different calls.
_CALL_BYTES = 1 << 20

#: More threads do not read faster from the page cache of the system.
_MOST_THREADS = 4


class FrameFile:
    """A file descriptor, from which several threads read."""

    def __init__(self, descriptor: int, threads: int) -> None:
        self._descriptor = descriptor
        self._threads = min(threads, _MOST_THREADS)
        self._pool: ThreadPoolExecutor | None = None

    def close(self) -> None:
        """Close the file descriptor, and end the threads."""
        try:
            self._end_threads()
        finally:
            os.close(self._descriptor)

    def _end_threads(self) -> None:
        """Wait for what has been started; nothing else starts."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(cancel_futures=True)

    def read(
        self,
        offsets: npt.NDArray[np.int64],
        sizes: npt.NDArray[np.int64],
        rows: Sequence[npt.NDArray[np.uint8]],
    ) -> npt.NDArray[np.bool_]:
        """Read frames to the beginnings of rows; return which were read to their ends."""
        is_read = np.zeros(len(rows), np.bool_)
        if sys.platform == "win32":  # has no preadv
            return is_read
        between = np.empty(_MOST_BETWEEN, np.uint8)

        def read(numbers: list[int]) -> None:
            begin = end = int(offsets[numbers[0]])
            buffers: list[Any] = []
            for i in numbers:
                offset, size = int(offsets[i]), int(sizes[i])
                if offset > end:
                    buffers.append(between[: offset - end])
                buffers.append(rows[i][:size])
                end = offset + size
            try:
                stop = begin + os.preadv(self._descriptor, buffers, begin)
            except OSError:
                return
            is_read[numbers] = sizes[numbers] <= stop - offsets[numbers]

        self._for_each(read, _calls(offsets, sizes))
        return is_read

    def _for_each(self, work: Callable[[list[int]], None], calls: list[list[int]]) -> None:
        """Do the work of all calls, on several threads if there are any."""
        if self._threads > 1 and len(calls) > 1:
            try:
                from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  # fails at exit

                self._pool = self._pool or ThreadPoolExecutor(
                    self._threads, thread_name_prefix="h5lossy"
                )
                [*self._pool.map(work, calls)]
            except RuntimeError:  # Python exits, or the system's limit of threads is reached
                self._end_threads()  # none may read into these rows later
                self._threads = 1
            else:
                return
        for call in calls:
            work(call)


def _calls(offsets: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]) -> list[list[int]]:
    """Return the numbers of the frames that each call reads."""
    order = np.argsort(offsets, kind="stable")
    begins, ends = offsets[order], (offsets + sizes)[order]
    gaps = begins[1:] - ends[:-1]
    stretches = begins // _CALL_BYTES
    is_cut = (gaps < 0) | (gaps > _MOST_BETWEEN) | (stretches[1:] != stretches[:-1])
    cuts = [0, *(np.flatnonzero(is_cut) + 1).tolist(), len(order)]
    return [
        order[first : min(first + _MOST_FRAMES, end)].tolist()
        for begin, end in itertools.pairwise(cuts)
        for first in range(begin, end, _MOST_FRAMES)
    ]


def opened_for_frames(dataset: h5py.Dataset, threads: int) -> FrameFile | None:
    """Return the dataset's file, to be closed; None if HDF5 has to read it.

    If the file is open for writing, HDF5 may hold chunks that are not in the file yet; if another
    process writes to it, HDF5 may read another state of the index.
    """
    if sys.platform == "win32" or not hasattr(os, "preadv"):
        return None
    if is_parallel(dataset):  # to ask HDF5 for the driver would wait for the other ranks
        return None
    with phil:
        file = dataset.file
        is_plain = file.driver == "sec2" and file.mode == "r" and not file.swmr_mode
        if not is_plain or file.userblock_size:
            return None
        # Another thread may close the file, and the next file to be opened gets the same number.
        try:
            return FrameFile(os.dup(file.id.get_vfd_handle()), threads)
        except OSError:  # no descriptors left
            return None

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Reading frames directly from the file: many per system call; HDF5 needs a call for each chunk."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from h5py._objects import phil

if TYPE_CHECKING:
    from collections.abc import Iterable

    import h5py
    import numpy.typing as npt

#: Gaps of up to this many bytes between two frames are read along, which beats a second call.
_MOST_BETWEEN = 4096

#: Most buffers per call: a third of Linux's limit, since a gap may need a buffer, too.
_MOST_FRAMES = 340


def opened_for_frames(dataset: h5py.Dataset) -> int | None:
    """Return a file descriptor of the dataset's file, to be closed; None if HDF5 has to read it.

    If the file is open for writing, HDF5 may hold chunks that are not in the file yet; if another
    process writes to it, HDF5 may read another state of the index.
    """
    if sys.platform == "win32" or not hasattr(os, "preadv"):
        return None
    with phil:
        file = dataset.file
        is_plain = file.driver == "sec2" and file.mode == "r" and not file.swmr_mode
        if not is_plain or file.userblock_size:
            return None
        # Another thread may close the file, and the next file to be opened gets the same number.
        try:
            return os.dup(file.id.get_vfd_handle())
        except OSError:  # no descriptors left
            return None


def read_frames(file: int, frames: Iterable[tuple[int, npt.NDArray[np.uint8]]]) -> list[bool]:
    """Fill each row with the bytes from its offset on; return which were filled to their end."""
    wanted = [*frames]
    is_read = [False] * len(wanted)
    between = np.empty(_MOST_BETWEEN, np.uint8)
    begin = end = 0
    numbers: list[int] = []
    buffers: list[Any] = []

    def read() -> None:
        if not numbers or sys.platform == "win32":
            return
        try:
            stop = begin + os.preadv(file, buffers, begin)
        except OSError:
            return
        for i in numbers:
            offset, row = wanted[i]
            is_read[i] = offset + len(row) <= stop

    for i in sorted(range(len(wanted)), key=lambda i: wanted[i][0]):
        offset, row = wanted[i]
        if not 0 <= offset - end <= _MOST_BETWEEN or len(numbers) == _MOST_FRAMES:
            read()
            begin = end = offset
            numbers.clear()
            buffers.clear()
        if offset > end:
            buffers.append(between[: offset - end])
        buffers.append(row)
        numbers.append(i)
        end = offset + len(row)
    read()
    return is_read

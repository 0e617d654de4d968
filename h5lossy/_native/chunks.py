# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Many chunks of an HDF5 dataset per call. ``h5lossy_chunks.h`` explains every argument."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from h5lossy._native.library import Struct, call, ffi, lib, text

if TYPE_CHECKING:
    import numpy.typing as npt

    from h5lossy._native.frames import Frames

#: HDF5's functions that `HDF5` needs, by their names in ``h5l_hdf5``.
HDF5_FUNCTIONS = {
    "write_chunk": "H5Dwrite_chunk",
    "get_chunk_storage_size": "H5Dget_chunk_storage_size",
    "flush_dataset": "H5Dflush",
    "get_eoa": "H5Fget_eoa",
    "walk_errors": "H5Ewalk2",
    "iterate_chunks": "H5Dchunk_iter",
}

_SPACE = ffi.typeof("h5l_space *")


@dataclass(frozen=True, kw_only=True)
class Space(Struct):
    """``h5l_space``: what HDF5 allocates in a file, as far as the caller knows."""

    reserved: int
    index_bytes: int
    stated: int


#: Chunks that are listed at the first attempt.
_FIRST_ROWS = 1 << 16


class HDF5:
    """The functions of one HDF5 library: their addresses, in the order of `HDF5_FUNCTIONS`."""

    def __init__(self, addresses: list[int]) -> None:
        self._functions = ffi.new("h5l_hdf5 *")
        types = dict(ffi.typeof("h5l_hdf5").fields)
        for name, address in zip(HDF5_FUNCTIONS, addresses, strict=True):
            setattr(self._functions, name, ffi.cast(types[name].type, address))

    def write_chunks(
        self,
        file: int,
        dataset: int,
        places: npt.NDArray[np.int64],
        frames: Frames,
        space: Space,
    ) -> tuple[int, bool, BaseException | None]:
        """Write chunks from the first one on, until the caller has to do something.

        Return how many were written, whether the file has to be flushed before the next one, and
        what the caller has to raise.
        """
        written, message = ffi.new("size_t *"), ffi.new("h5l_message *")
        places = np.ascontiguousarray(places)
        failure: BaseException | None = None
        end = lib.H5L_WRITE_FAILED
        try:
            end = lib.h5l_write_chunks(
                self._functions,
                file,
                dataset,
                places.shape[1],
                len(frames),
                # Several times as fast as the address in `ctypes`.
                ffi.from_buffer("uint64_t[]", places),
                ffi.from_buffer("void *[]", frames.addresses),
                ffi.from_buffer("size_t[]", frames.sizes),
                space.to_c(_SPACE),
                written,
                message,
            )
        except BaseException as error:  # noqa: BLE001  # KeyboardInterrupt: some were written
            failure = of_callback(error)
        else:
            if end == lib.H5L_WRITE_FAILED:
                failure = _failure(text(message.text))
        return int(written[0]), end == lib.H5L_WRITE_NEEDS_FLUSH, failure

    def list_chunks(self, dataset: int, rank: int, most: int) -> npt.NDArray[np.uint64]:
        """Return a row for each chunk in the file, at most so many."""
        capacity = min(most, _FIRST_ROWS)
        while True:
            rows, count = np.empty((capacity, rank + 3), np.uint64), ffi.new("size_t *")
            try:
                call("list_chunks", self._functions, dataset, rank, capacity, rows, count)
            except SystemError as error:
                raise of_callback(error) from None
            if count[0] < capacity or capacity == most:
                return rows[: count[0]]
            capacity = min(most, 8 * capacity)


def of_callback(error: BaseException) -> BaseException:
    """Return what Python code raised that HDF5 called, such as a method of a file-like object.

    C returns nevertheless, and then Python makes this the cause of a SystemError.
    """
    while isinstance(error, SystemError) and error.__cause__ is not None:
        error = error.__cause__
    return error


def _failure(why: str) -> OSError:
    """Return the error for what HDF5 says, with the number that the system gave."""
    found = re.search(r"errno = (\d+)", why)
    return OSError(int(found[1]), why) if found else OSError(why)

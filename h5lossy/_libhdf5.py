# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""HDF5 functions that h5py does not wrap, or wraps only for one thing at a time."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
from h5py._objects import phil

from h5lossy import _native
from h5lossy._libraries import ffi, functions_in

if TYPE_CHECKING:
    import numpy.typing as npt

#: Kinds of chunk indexes, H5D_chunk_index_t.
FIXED_ARRAY, EXTENSIBLE_ARRAY = 3, 4

_NO_SIZE = (1 << 64) - 1
_HAS_MPI: bool = h5py.get_config().mpi


def filters_in(creation: h5py.h5p.PropDCID) -> list[tuple[int, int, tuple[int, ...], bytes]]:
    """Return number, flags, values and name of the filters of a dataset."""
    return [_filter_at(creation, i) for i in range(creation.get_nfilters())]


def _filter_at(creation: h5py.h5p.PropDCID, i: int) -> tuple[int, int, tuple[int, ...], bytes]:
    # h5py 3.8 has room for 16 values, and returns what is in memory behind them for the others.
    get = _function(
        "H5Pget_filter2",
        "int (*)(int64_t, unsigned, unsigned *, size_t *, unsigned *, size_t, char *, unsigned *)",
    )
    flags, count, name = ffi.new("unsigned *"), ffi.new("size_t *"), ffi.new("char [257]")
    more = ffi.new("unsigned *")
    with phil:
        get(creation.id, i, flags, count, ffi.NULL, 0, ffi.NULL, more)
        values = ffi.new("unsigned []", count[0])
        number = get(creation.id, i, flags, count, values, 256, name, more)
    _require_success(number, "a filter of a dataset")
    return number, flags[0], tuple(values), ffi.string(name)


def chunk_options(creation_list: int) -> int:
    """Return the ``H5Pget_chunk_opts`` of a creation list; 0 in versions without these options."""
    return _number_of("H5Pget_chunk_opts", creation_list)


def chunk_index(dataset: int) -> int:
    """Return the kind of a dataset's chunk index; 0, a B-tree, in versions that have no others."""
    return _number_of("H5Dget_chunk_index_type", dataset)


def stored_size(dataset: int, place: tuple[int, ...]) -> int | None:
    """Return how many bytes a chunk takes in the file; None if HDF5 finds none, or fails."""
    status, size = _storage_size(dataset, place)
    return None if status < 0 or size == _NO_SIZE else size


def has_no_chunks(dataset: int, place: tuple[int, ...]) -> bool:
    """Return whether no chunk of a dataset is in the file yet; `place` is that of any chunk."""
    status, size = _storage_size(dataset, place)
    return status >= 0 and size == _NO_SIZE


def rows_of_chunks(dataset: h5py.Dataset, most: int) -> npt.NDArray[np.uint64]:
    """Return place, filter mask, address and size of each chunk in the file, at most so many."""
    identifier, rank = dataset.id, len(dataset.shape)
    with phil:
        if hasattr(identifier, "chunk_iter"):
            return hdf5().list_chunks(identifier.id, rank, most)
        return rows_looked_up(identifier, rank, most)


def rows_looked_up(dataset: h5py.h5d.DatasetID, rank: int, most: int) -> npt.NDArray[np.uint64]:
    """Do the same with HDF5 before 1.12.3, one by one, which is slow where there are many."""
    found = map(dataset.get_chunk_info, range(dataset.get_num_chunks()))
    in_file = (one for one in found if one.byte_offset is not None)
    rows = [
        (*one.chunk_offset, one.filter_mask, one.byte_offset, one.size)
        for one in itertools.islice(in_file, most)
    ]
    return np.array(rows, np.uint64).reshape(-1, rank + 3)


def allocated_end(file: h5py.h5f.FileID) -> int:
    """Return the end of HDF5's allocations in a file; the file may be longer or shorter."""
    get = _function("H5Fget_eoa", "int (*)(int64_t, uint64_t *)")
    end = ffi.new("uint64_t *")
    with phil:
        if get and get(file.id, end) >= 0:
            return int(end[0])
        return int(file.get_filesize())


def end_after_flush(file: h5py.h5f.FileID, enough: int) -> int:
    """Return where HDF5's allocations will end after a flush, or less if that is `enough`."""
    # A flush frees what is left of the blocks from which HDF5 takes small pieces. That space is
    # free, but is in none of the free-space sections.
    end, left = allocated_end(file), file.get_freespace()
    if not left or end - left >= enough:
        return end - int(left)
    get = _function("H5Fget_free_sections", "int64_t (*)(int64_t, int, size_t, uint64_t *)")
    with phil:
        count = max(0, get(file.id, 0, 0, ffi.NULL))
        sections = ffi.new("uint64_t []", 2 * count)  # an address and a size each
        get(file.id, 0, count, sections)
    return int(end - left + sum(list(sections)[1::2]))


def is_parallel(given: h5py.Dataset | h5py.File) -> bool:
    """Return whether several processes have opened a file, or that of a dataset, together."""
    if not _HAS_MPI:
        return False
    # Not by its driver: asking HDF5 for that duplicates the communicator, and a process that asks
    # alone would wait for the others.
    try:
        given.file.id.get_mpi_atomicity()
    except ValueError:
        return False
    return True


def put_into_file(dataset: h5py.h5d.DatasetID, place: tuple[int, ...]) -> None:
    """Make HDF5 write a chunk that it holds in memory to the file; raise OSError if it can't."""
    status, size = _storage_size(dataset.id, place)
    if status < 0:
        raise OSError(f"HDF5 could not write chunk {place}")
    if size == _NO_SIZE:  # it is the first one
        dataset.get_chunk_info_by_coord(place)


def fill_bytes(creation_list: h5py.h5p.PropDCID, type_id: h5py.h5t.TypeID) -> bytes:
    """Return the fill value of a dataset, of whatever type, even one that NumPy does not have."""
    get = _function("H5Pget_fill_value", "int (*)(int64_t, int64_t, void *)")
    value = ffi.new("char []", type_id.get_size())
    with phil:
        status = get(creation_list.id, type_id.id, value)
    _require_success(status, "the fill value of a dataset")
    return bytes(ffi.buffer(value))


#: Properties of a group's creation list that h5py does not wrap: when links are stored in a heap,
#: and the estimates of their number and of the length of their names.
_LINK_STORAGE = ("link_phase_change", "est_link_info")


def link_storage(creation_list: int) -> list[int]:
    """Return the four numbers of one of h5py's group creation lists that h5py does not wrap."""
    numbers = ffi.new("unsigned [4]")
    for i, name in enumerate(_LINK_STORAGE):
        get = _function(f"H5Pget_{name}", "int (*)(int64_t, unsigned *, unsigned *)")
        with phil:
            status = get(creation_list, numbers + 2 * i, numbers + 2 * i + 1)
        _require_success(status, f"{name} of a group")
    return list(numbers)


def set_link_storage(creation_list: int, numbers: list[int]) -> None:
    """Set what `link_storage` returns."""
    for i, name in enumerate(_LINK_STORAGE):
        put = _function(f"H5Pset_{name}", "int (*)(int64_t, unsigned, unsigned)")
        with phil:
            status = put(creation_list, *numbers[2 * i : 2 * i + 2])
        _require_success(status, f"{name} of a group")


def _require_success(status: int, name: str) -> None:
    if status < 0:
        raise OSError(f"HDF5 could not read or set {name}")


def _storage_size(dataset: int, place: tuple[int, ...]) -> tuple[int, int]:
    """Return the status of ``H5Dget_chunk_storage_size``, and the size."""
    # H5Dget_chunk_info_by_coord and H5Dget_storage_size go through all chunks; this function uses
    # the index. Unless no chunk at all is stored yet, it first writes the chunk to the file if HDF5
    # holds it in memory.
    get = _function("H5Dget_chunk_storage_size", "int (*)(int64_t, const uint64_t *, uint64_t *)")
    size = ffi.new("uint64_t *", _NO_SIZE)  # unchanged if no chunk at all is stored
    offset = ffi.new("uint64_t []", place)
    with phil:
        try:
            status = get(dataset, offset, size)
        except SystemError as error:
            raise _native.of_callback(error) from None
    return int(status), int(size[0])


def _number_of(function: str, identifier: int) -> int:
    """Call a function that returns a number; 0 where HDF5 does not have it."""
    get = _function(function, "int (*)(int64_t, unsigned *)")
    number = ffi.new("unsigned *")
    if get is not None:
        with phil:
            get(identifier, number)
    return int(number[0])


@functools.cache
def hdf5() -> _native.HDF5:
    """Return what writes and lists many chunks per call."""
    functions = (_function(name, "void (*)(void)") for name in _native.HDF5_FUNCTIONS.values())
    return _native.HDF5([int(ffi.cast("uintptr_t", each or ffi.NULL)) for each in functions])


@functools.cache
def _function(name: str, signature: str) -> Any:
    """Return a function; None if this HDF5 does not have it."""
    found = functions_in(h5py.h5z.__file__, {name: signature})
    return found[name] if found else None

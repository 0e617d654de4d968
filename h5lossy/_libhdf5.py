# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The HDF5 libraries that are loaded in this process: finding them, and calling them.

Each of the wheels of h5py, netCDF4, PyTables and others has an HDF5 library of its own, and each
library has its own list of filters. What counts as one is any loaded file, or the program itself,
that defines all functions of `_FUNCTIONS`. Names don't decide: a static HDF5 may be in any file,
and plugins of hdf5plugin define some of the functions as stand-ins. VTK puts a prefix before the
names of all functions of its HDF5.
"""

from __future__ import annotations

import functools
import itertools
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cffi
import h5py
from h5py._objects import phil

from h5lossy._errors import NativeError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

_ffi: Any = cffi.FFI()
# dlopen and its kin are called directly: cffi's own dlopen crashes where RTLD_NOLOAD finds nothing,
# since then there is no error message.
_ffi.cdef("""
    void *dlopen(const char *path, int flags);
    void *dlsym(void *handle, const char *name);
    int dlclose(void *handle);
    typedef struct {
        const char *dli_fname;
        void *dli_fbase;
        const char *dli_sname;
        void *dli_saddr;
    } Dl_info;
    int dladdr(const void *address, Dl_info *info);
""")
if sys.platform == "darwin":
    _ffi.cdef("""
        uint32_t _dyld_image_count(void);
        const char *_dyld_get_image_name(uint32_t i);
    """)
_process: Any = _ffi.dlopen(None)

# Never loads anything, and changes nothing about how it is loaded.
_FLAGS: int = os.RTLD_LAZY | os.RTLD_LOCAL | os.RTLD_NOLOAD

# hid_t is int64_t since HDF5 1.10.
_FUNCTIONS = {
    "H5get_libversion": "int (*)(unsigned *, unsigned *, unsigned *)",
    "H5Zregister": "int (*)(const void *)",
    "H5Zget_filter_info": "int (*)(int, unsigned *)",
    "H5Eget_auto2": "int (*)(int64_t, void **, void **)",
    "H5Eset_auto2": "int (*)(int64_t, void *, void *)",
}
#: What may come before the names of functions.
_PREFIXES = ("", "vtkhdf5_")

_DEFAULT_ERROR_STACK = 0
_FIXED_ARRAY = 3  # H5D_CHUNK_IDX_FARRAY
_NO_SIZE = (1 << 64) - 1
_HAS_MPI: bool = h5py.get_config().mpi


class LoadedHDF5:
    """One HDF5 library of this process.

    Attributes
    ----------
    address : int
        Address of its ``H5Zregister``, which identifies the library, even where two copies of one
        file are loaded.
    path : str
        The file that holds it.
    """

    def __init__(self, functions: dict[str, Any], lock: AbstractContextManager[Any]) -> None:
        self._functions = functions
        self._lock = lock
        register = functions["H5Zregister"]
        self.address = int(_ffi.cast("uintptr_t", register))
        where = _ffi.new("Dl_info *")
        _process.dladdr(register, where)
        self.path = os.path.normpath(os.fsdecode(_ffi.string(where.dli_fname)))

    @property
    def version(self) -> tuple[int, int, int]:
        """Major, minor, release."""
        numbers = _ffi.new("unsigned [3]")
        with self._lock:
            self._functions["H5get_libversion"](numbers, numbers + 1, numbers + 2)
        return numbers[0], numbers[1], numbers[2]

    def has_filter(self, filter_id: int) -> bool:
        """Return whether a filter is registered, without searching for a plugin of it."""
        call = self._functions
        handler, data = _ffi.new("void **"), _ffi.new("void **")
        # "Not there" is an error to HDF5, which it would print.
        with self._lock:
            silenced = call["H5Eget_auto2"](_DEFAULT_ERROR_STACK, handler, data) >= 0
            if silenced:
                call["H5Eset_auto2"](_DEFAULT_ERROR_STACK, _ffi.NULL, _ffi.NULL)
            found = bool(call["H5Zget_filter_info"](filter_id, _ffi.NULL) >= 0)
            if silenced:
                call["H5Eset_auto2"](_DEFAULT_ERROR_STACK, handler[0], data[0])
        return found

    @property
    def has_ours(self) -> bool:
        """Whether `register_filter` was called for this library, in this process."""
        return self.address in _registered

    def register_filter(self, plugin_info: int) -> None:
        """Register a filter, in place of one with the same number; NativeError if HDF5 refuses."""
        with self._lock:
            status = self._functions["H5Zregister"](_ffi.cast("void *", plugin_info))
        if status < 0:
            raise NativeError(
                f"HDF5 {'.'.join(map(str, self.version))} ({self.path}) refused the filter"
            )
        _registered.add(self.address)


# h5py guards its library, which need not be thread-safe, by phil. The other packages have no such
# lock. Neither is held for longer than a call into HDF5, and nothing is waited for meanwhile.
_others_lock = threading.Lock()

#: Addresses of the libraries that have our filter.
_registered: set[int] = set()


def loaded_libraries() -> list[LoadedHDF5]:
    """Return the HDF5 libraries of this process, h5py's first."""
    found: dict[int, LoadedHDF5] = {}
    files = (h5py.h5z.__file__, None, *_loaded_files())
    for path, prefix in itertools.product(files, _PREFIXES):
        functions = functions_in(path, _FUNCTIONS, prefix)
        if functions is not None:
            library = LoadedHDF5(functions, _others_lock if found else phil)
            found.setdefault(library.address, library)
    return list(found.values())


def chunk_options(creation_list: int) -> int:
    """Return the ``H5Pget_chunk_opts`` of one of h5py's creation lists, which h5py does not wrap.

    0 where there is no such function: versions without it do not have the options either.
    """
    return _number_of("H5Pget_chunk_opts", creation_list)


def has_fixed_array(dataset: int) -> bool:
    """Return whether an h5py dataset has a fixed array as its index, which is allocated as a whole.

    False in versions of HDF5 without the function: they do not have the index either.
    """
    return _number_of("H5Dget_chunk_index_type", dataset) == _FIXED_ARRAY


def stored_size(dataset: int, place: tuple[int, ...]) -> int | None:
    """Return how many bytes a chunk takes in the file; None where HDF5 finds none.

    H5Dget_chunk_info_by_coord goes through all chunks to find one, and this goes by the index. What
    HDF5 holds of the chunk in memory goes to the file first, unless no chunk at all is stored yet;
    None also where that fails. `dataset` is an h5py identifier, `place` where the chunk begins.
    """
    status, size = _storage_size(dataset, place)
    return None if status < 0 or size == _NO_SIZE else size


def has_no_chunks(dataset: int, place: tuple[int, ...]) -> bool:
    """Return whether no chunk of a dataset is in the file yet; `place` is that of any chunk.

    H5Dget_storage_size answers that, too, but goes through all chunks.
    """
    status, size = _storage_size(dataset, place)
    return status >= 0 and size == _NO_SIZE


def allocated_end(file: h5py.h5f.FileID) -> int:
    """Return where what HDF5 has allocated in a file ends; the file may be longer or shorter."""
    get = _of_h5py("H5Fget_eoa", "int (*)(int64_t, uint64_t *)")
    end = _ffi.new("uint64_t *")
    with phil:
        if get and get(file.id, end) >= 0:
            return int(end[0])
        return int(file.get_filesize())


def end_after_flush(file: h5py.h5f.FileID, enough: int) -> int:
    """Return where what HDF5 has allocated will end after a flush, or less if that is `enough`.

    A flush gives back what is left of the blocks that HDF5 takes small pieces from. That is free
    space, but in none of the free sections.
    """
    end, left = allocated_end(file), file.get_freespace()
    if not left or end - left >= enough:
        return end - int(left)
    get = _of_h5py("H5Fget_free_sections", "int64_t (*)(int64_t, int, size_t, uint64_t *)")
    with phil:
        count = max(0, get(file.id, 0, 0, _ffi.NULL))
        sections = _ffi.new("uint64_t []", 2 * count)  # an address and a size each
        get(file.id, 0, count, sections)
    return int(end - left + sum(list(sections)[1::2]))


def is_parallel(given: h5py.Dataset | h5py.File) -> bool:
    """Return whether several processes have opened a file, or that of a dataset, together.

    Not by its driver: HDF5 duplicates the communicator when it is asked for that, and a process
    that asks alone waits for the others.
    """
    if not _HAS_MPI:
        return False
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


#: What h5py does not wrap of a group's creation list: when links are stored in a heap, and the
#: estimates of their number and of the length of their names.
_LINK_STORAGE = ("link_phase_change", "est_link_info")


def link_storage(creation_list: int) -> list[int]:
    """Return the four numbers of one of h5py's group creation lists that h5py does not wrap."""
    numbers = _ffi.new("unsigned [4]")
    for i, name in enumerate(_LINK_STORAGE):
        get = _of_h5py(f"H5Pget_{name}", "int (*)(int64_t, unsigned *, unsigned *)")
        with phil:
            status = get(creation_list, numbers + 2 * i, numbers + 2 * i + 1)
        _require_success(status, name)
    return list(numbers)


def set_link_storage(creation_list: int, numbers: list[int]) -> None:
    """Set what `link_storage` returns."""
    for i, name in enumerate(_LINK_STORAGE):
        put = _of_h5py(f"H5Pset_{name}", "int (*)(int64_t, unsigned, unsigned)")
        with phil:
            status = put(creation_list, *numbers[2 * i : 2 * i + 2])
        _require_success(status, name)


def _require_success(status: int, name: str) -> None:
    if status < 0:
        raise OSError(f"HDF5 could not read or set {name} of a group")


def _storage_size(dataset: int, place: tuple[int, ...]) -> tuple[int, int]:
    """Return the status of ``H5Dget_chunk_storage_size``, and the size."""
    get = _of_h5py("H5Dget_chunk_storage_size", "int (*)(int64_t, const uint64_t *, uint64_t *)")
    size = _ffi.new("uint64_t *", _NO_SIZE)  # left as it is where no chunk is stored at all
    offset = _ffi.new("uint64_t []", place)
    with phil:
        status = get(dataset, offset, size)
    return int(status), int(size[0])


def _number_of(function: str, identifier: int) -> int:
    """Call a function of h5py's HDF5 that returns a number; 0 if HDF5 does not have it."""
    get = _of_h5py(function, "int (*)(int64_t, unsigned *)")
    number = _ffi.new("unsigned *")
    if get:
        with phil:
            get(identifier, number)
    return int(number[0])


@functools.cache
def _of_h5py(function: str, signature: str) -> Any:
    """Return a function of the HDF5 that h5py has; NULL where it has no such function."""
    handle = _process.dlopen(os.fsencode(h5py.h5z.__file__), _FLAGS)
    return _ffi.cast(signature, _process.dlsym(handle, function.encode()))


def functions_in(
    path: str | None, signatures: dict[str, str], prefix: str = ""
) -> dict[str, Any] | None:
    """Return the functions that a loaded file (None: the program) holds or links to, if all are."""
    handle = _process.dlopen(_ffi.NULL if path is None else os.fsencode(path), _FLAGS)
    if handle == _ffi.NULL:
        return None
    functions = {}
    for name, signature in signatures.items():
        address = _process.dlsym(handle, f"{prefix}{name}".encode())
        if address == _ffi.NULL:
            _process.dlclose(handle)
            return None
        functions[name] = _ffi.cast(signature, address)
    return functions  # the handle stays open, so that the library stays where it is


def _loaded_files() -> Iterator[str]:
    """Yield the paths of the program and of all libraries that are loaded."""
    if sys.platform == "darwin":
        for i in range(_process._dyld_image_count()):  # noqa: SLF001  # Apple's name
            name = _process._dyld_get_image_name(i)  # noqa: SLF001
            if name != _ffi.NULL:
                yield os.fsdecode(_ffi.string(name))
        return
    # Not dl_iterate_phdr: it calls back while it holds the loader's lock, and a callback in Python
    # may have to wait for a thread that holds the GIL and waits for that lock.
    maps = Path("/proc/self/maps").read_bytes()
    paths: dict[str, None] = {}
    for line in maps.splitlines():
        # address permissions offset device inode path
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and b"x" in fields[1] and fields[5].startswith(b"/"):
            paths[os.fsdecode(fields[5].removesuffix(b" (deleted)"))] = None
    yield from paths

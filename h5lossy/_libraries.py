# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The HDF5 libraries that are loaded in this process: finding them, and registering a filter.

Each of the wheels of h5py, netCDF4, PyTables and others has an HDF5 library of its own, and each
library has its own list of filters. What counts as one is any loaded file, or the program itself,
that defines all functions of `_FUNCTIONS`. Names don't decide: a static HDF5 may be in any file,
and plugins of hdf5plugin define some of the functions as stand-ins. VTK puts a prefix before the
names of all functions of its HDF5.

Importing h5lossy runs this, so it imports neither h5py nor NumPy.
"""

from __future__ import annotations

import importlib
import itertools
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from h5lossy._declarations import ffi_of
from h5lossy._errors import NativeError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

# dlopen and its kin are called directly: cffi's own dlopen crashes where RTLD_NOLOAD finds nothing,
# since then there is no error message.
ffi: Any = ffi_of("process")
process: Any = ffi.dlopen(None)

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

# h5py guards its library, which need not be thread-safe, by phil. The other packages have no such
# lock. Neither is held for longer than a call into HDF5, and nothing is waited for meanwhile.
_others_lock = threading.Lock()

#: Addresses of the libraries that have our filter.
_registered: set[int] = set()


class LoadedHDF5:
    """One HDF5 library of this process, in the file `path`."""

    def __init__(self, functions: dict[str, Any], lock: AbstractContextManager[Any]) -> None:
        self._functions = functions
        self._lock = lock
        register = functions["H5Zregister"]
        # Identifies the library, even where two copies of one file are loaded.
        self.address = int(ffi.cast("uintptr_t", register))
        where = ffi.new("Dl_info *")
        process.dladdr(register, where)
        self.path = os.path.normpath(os.fsdecode(ffi.string(where.dli_fname)))

    @property
    def version(self) -> tuple[int, int, int]:
        """Major, minor, release."""
        numbers = ffi.new("unsigned [3]")
        with self._lock:
            self._functions["H5get_libversion"](numbers, numbers + 1, numbers + 2)
        return numbers[0], numbers[1], numbers[2]

    def has_filter(self, filter_id: int) -> bool:
        """Return whether a filter is registered, without searching for a plugin of it."""
        call = self._functions
        handler, data = ffi.new("void **"), ffi.new("void **")
        # "Not there" is an error to HDF5, which it would print.
        with self._lock:
            silenced = call["H5Eget_auto2"](_DEFAULT_ERROR_STACK, handler, data) >= 0
            if silenced:
                call["H5Eset_auto2"](_DEFAULT_ERROR_STACK, ffi.NULL, ffi.NULL)
            found = bool(call["H5Zget_filter_info"](filter_id, ffi.NULL) >= 0)
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
            status = self._functions["H5Zregister"](ffi.cast("void *", plugin_info))
        if status < 0:
            raise NativeError(
                f"HDF5 {'.'.join(map(str, self.version))} ({self.path}) refused the filter"
            )
        _registered.add(self.address)


def loaded_libraries() -> list[LoadedHDF5]:
    """Return the HDF5 libraries of this process, that of h5py first if h5py is imported."""
    of_h5py = []
    lock: AbstractContextManager[Any] = _others_lock
    if "h5py" in sys.modules:  # imported, or just being so in another thread, which this awaits
        importlib.import_module("h5py")  # the package, as its modules don't wait for each other
        of_h5py = [importlib.import_module("h5py.h5z").__file__]
        lock = importlib.import_module("h5py._objects").phil
    found: dict[int, LoadedHDF5] = {}
    for path, prefix in itertools.product((*of_h5py, None, *_loaded_files()), _PREFIXES):
        functions = functions_in(path, _FUNCTIONS, prefix)
        if functions is not None:
            library = LoadedHDF5(functions, lock)
            found.setdefault(library.address, library)
            lock = _others_lock
    return list(found.values())


def functions_in(
    path: str | None, signatures: dict[str, str], prefix: str = ""
) -> dict[str, Any] | None:
    """Return the functions that a loaded file (None: the program) holds or links to, if all are."""
    handle = process.dlopen(ffi.NULL if path is None else os.fsencode(path), _FLAGS)
    if handle == ffi.NULL:
        return None
    functions = {}
    for name, signature in signatures.items():
        address = process.dlsym(handle, f"{prefix}{name}".encode())
        if address == ffi.NULL:
            process.dlclose(handle)
            return None
        functions[name] = ffi.cast(signature, address)
    return functions  # the handle stays open, so that the library stays where it is


def _loaded_files() -> Iterator[str]:
    """Yield the paths of the program and of all libraries that are loaded."""
    if sys.platform == "darwin":
        for i in range(process._dyld_image_count()):  # noqa: SLF001  # Apple's name
            name = process._dyld_get_image_name(i)  # noqa: SLF001
            if name != ffi.NULL:
                yield os.fsdecode(ffi.string(name))
        return
    # Not dl_iterate_phdr: it calls back while it holds the loader's lock, and a callback in Python
    # may have to wait for a thread that holds the GIL and waits for that lock.
    with open("/proc/self/maps", "rb") as maps:  # noqa: PTH123  # pathlib takes time to import
        lines = maps.read().splitlines()
    paths: dict[str, None] = {}
    for line in lines:
        # address permissions offset device inode path
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and b"x" in fields[1] and fields[5].startswith(b"/"):
            paths[os.fsdecode(fields[5].removesuffix(b" (deleted)"))] = None
    yield from paths

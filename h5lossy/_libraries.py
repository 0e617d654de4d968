# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The HDF5 libraries that are loaded in this process: finding them, and registering a filter.

Each of the wheels of h5py, netCDF4, PyTables and others contains its own HDF5 library, and each
library has its own list of filters. Any loaded file, or the program itself, counts as one if it
defines all functions of `_FUNCTIONS`. File names don't matter: a static HDF5 may be in any file,
and plugins of hdf5plugin define some of the functions as stubs. VTK prefixes the names of all
functions of its HDF5.

Importing h5lossy runs this, so it imports neither h5py nor NumPy.
"""

from __future__ import annotations

import importlib
import itertools
import sys
import threading
from typing import TYPE_CHECKING, Any

from h5lossy._errors import NativeError

if sys.platform == "win32":
    from h5lossy import _loader_windows as loader
else:
    from h5lossy import _loader_posix as loader

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

ffi: Any = loader.ffi

# hid_t is int64_t since HDF5 1.10.
_FUNCTIONS = {
    "H5get_libversion": "int (*)(unsigned *, unsigned *, unsigned *)",
    "H5Zregister": "int (*)(const void *)",
    "H5Zget_filter_info": "int (*)(int, unsigned *)",
    "H5Eget_auto2": "int (*)(int64_t, void **, void **)",
    "H5Eset_auto2": "int (*)(int64_t, void *, void *)",
}
#: Prefixes of function names.
_PREFIXES = ("", "vtkhdf5_")

_DEFAULT_ERROR_STACK = 0

# phil guards h5py's library, which need not be thread-safe. The other packages have no such lock.
# No lock is held for longer than a call into HDF5, and nothing is waited for meanwhile.
_others_lock = threading.Lock()

#: Addresses of the libraries that have our filter.
_registered: set[int] = set()


class LoadedHDF5:
    """One HDF5 library of this process, in the file `path`."""

    def __init__(self, functions: dict[str, Any], lock: AbstractContextManager[Any]) -> None:
        self._functions = functions
        self._lock = lock
        register = functions["H5Zregister"]
        # Identifies the library, even if two copies of one file are loaded.
        self.address = int(ffi.cast("uintptr_t", register))
        self.path = loader.file_of(register)

    @property
    def version(self) -> tuple[int, int, int]:
        """Major, minor, release."""
        numbers = ffi.new("unsigned [3]")
        with self._lock:
            self._functions["H5get_libversion"](numbers, numbers + 1, numbers + 2)
        return numbers[0], numbers[1], numbers[2]

    def has_filter(self, filter_id: int) -> bool:
        """Return whether a filter is registered, without searching for a plugin."""
        call = self._functions
        handler, data = ffi.new("void **"), ffi.new("void **")
        # HDF5 treats "not there" as an error, and would print it.
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
    if "h5py" in sys.modules:  # imported, or being imported in another thread, for which this waits
        importlib.import_module("h5py")  # the package: its modules don't wait for each other
        of_h5py = [importlib.import_module("h5py.h5z").__file__]
        lock = importlib.import_module("h5py._objects").phil
    found: dict[int, LoadedHDF5] = {}
    for path, prefix in itertools.product((*of_h5py, None, *loader.loaded_files()), _PREFIXES):
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
    addresses = loader.addresses_in(path, [f"{prefix}{name}" for name in signatures])
    if addresses is None:
        return None
    pairs = zip(signatures.items(), addresses, strict=True)
    return {name: ffi.cast(signature, address) for (name, signature), address in pairs}

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The libraries of this process, on Linux and macOS."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from h5lossy._declarations import ffi_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

assert sys.platform != "win32"

# dlopen and its relatives are called directly: cffi's own dlopen crashes if RTLD_NOLOAD finds
# nothing, since there is no error message then.
ffi: Any = ffi_of("process")
process: Any = ffi.dlopen(None)

# Never loads anything, and does not change how anything is loaded.
_FLAGS: int = os.RTLD_LAZY | os.RTLD_LOCAL | os.RTLD_NOLOAD


def addresses_in(path: str | None, names: Sequence[str]) -> list[Any] | None:
    """Return where the functions are that a loaded file (None: the program) holds or links to."""
    handle = process.dlopen(ffi.NULL if path is None else os.fsencode(path), _FLAGS)
    if handle == ffi.NULL:
        return None
    addresses = [process.dlsym(handle, name.encode()) for name in names]
    if ffi.NULL in addresses:
        process.dlclose(handle)
        return None
    return addresses  # the handle stays open, so that the library stays where it is


def file_of(function: Any) -> str:
    """Return the path of the library that a function is in."""
    where = ffi.new("Dl_info *")
    process.dladdr(function, where)
    return os.path.normpath(os.fsdecode(ffi.string(where.dli_fname)))


def loaded_files() -> Iterator[str]:
    """Yield the paths of the program and of all libraries that are loaded."""
    if sys.platform == "darwin":
        for i in range(process._dyld_image_count()):  # noqa: SLF001  # Apple's name
            name = process._dyld_get_image_name(i)  # noqa: SLF001
            if name != ffi.NULL:
                yield os.fsdecode(ffi.string(name))
        return
    # Not dl_iterate_phdr: it calls back while it holds the loader's lock, and a Python callback may
    # have to wait for a thread that holds the GIL and waits for that lock.
    with open("/proc/self/maps", "rb") as maps:  # noqa: PTH123  # pathlib takes time to import
        lines = maps.read().splitlines()
    paths: dict[str, None] = {}
    for line in lines:
        # address permissions offset device inode path
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and b"x" in fields[1] and fields[5].startswith(b"/"):
            paths[os.fsdecode(fields[5].removesuffix(b" (deleted)"))] = None
    yield from paths

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The libraries of this process on Windows, the counterpart of `_loader_posix`."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

from h5lossy._declarations import ffi_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ffi: Any = ffi_of("process")

#: Flags of GetModuleHandleExW: the library is never unloaded, or its reference is not counted; and
#: an address is given instead of a name.
_PIN, _UNCOUNTED, _BY_ADDRESS = 1, 2, 4

#: The longest path that Windows has.
_MOST_CHARACTERS = 1 << 15


@functools.cache
def kernel() -> Any:
    """Return the library of Windows that has its loader's functions."""
    return ffi.dlopen("kernel32.dll")


def addresses_in(path: str | None, names: Sequence[str]) -> list[Any] | None:
    """Return where the functions are that a loaded file (None: the program) holds or links to."""
    own = _handle(path)
    if own == ffi.NULL:
        return None
    for handle in (own, *map(_handle, _imported(own))):
        if handle == ffi.NULL:
            continue
        addresses = [kernel().GetProcAddress(handle, name.encode()) for name in names]
        if ffi.NULL not in addresses:
            _pin(_BY_ADDRESS, addresses[0])
            return addresses
    return None


def file_of(function: Any) -> str:
    """Return the path of the library that a function is in."""
    found = ffi.new("void **")
    kernel().GetModuleHandleExW(_BY_ADDRESS | _UNCOUNTED, function, found)
    return os.path.normpath(_path(found[0]))


def loaded_files() -> Iterator[str]:
    """Yield the paths of the program and of all libraries that are loaded."""
    process, needed = kernel().GetCurrentProcess(), ffi.new("uint32_t *")
    count, handle_bytes = 256, ffi.sizeof("void *")
    while True:
        handles = ffi.new("void *[]", count)
        size = count * handle_bytes
        if not kernel().K32EnumProcessModules(process, handles, size, needed):
            return
        if needed[0] <= size:
            break
        count = needed[0] // handle_bytes + 16  # another thread may load some meanwhile
    for i in range(needed[0] // handle_bytes):
        if path := _path(handles[i]):  # otherwise it was unloaded meanwhile
            yield path


def _handle(name: str | None) -> Any:
    """Return the handle of what is loaded from a path, or under a file's name; NULL if nothing."""
    return kernel().GetModuleHandleW(ffi.NULL if name is None else name)


def _path(handle: Any) -> str:
    text = ffi.new("wchar_t[]", _MOST_CHARACTERS)
    length = kernel().GetModuleFileNameW(handle, text, _MOST_CHARACTERS)
    return str(ffi.string(text, length))


def keep_loaded(path: str) -> None:
    """Keep a library that is loaded until the process ends."""
    _pin(0, ffi.new("wchar_t[]", path))


def _pin(flag: int, library: Any) -> None:
    kernel().GetModuleHandleExW(flag | _PIN, library, ffi.new("void **"))


def _imported(handle: Any) -> Iterator[str]:
    """Yield the names of the libraries that a loaded one, of 64 bits, is linked to.

    A handle is the address of a file's image, whose headers say where in it they are.
    """
    base = int(ffi.cast("uintptr_t", handle))

    def number(at: int) -> int:
        return int(ffi.cast("uint32_t *", base + at)[0])

    # The second of the data directories, which are 112 bytes behind the optional header's begin.
    entry = number(number(0x3C) + 24 + 112 + 8)
    while entry and (name := number(entry + 12)):
        yield ffi.string(ffi.cast("char *", base + name)).decode("ascii")
        entry += 20

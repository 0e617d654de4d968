# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""libh5lossy itself: opened by cffi, called by name, its statuses raised as exceptions.

cffi reads the declarations from the C headers, so there is no second list of functions and no
compiled Python module. It has no type information: `Any` ends at the functions of this package.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import cffi
import numpy as np

from h5lossy.errors import (
    CorruptFrameError,
    DeviceError,
    InvalidArgumentError,
    NativeError,
    TruncatedFrameError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_PACKAGE = Path(__file__).resolve().parents[1]

LIBRARY_PATH = _PACKAGE / "plugins" / "libh5lossy.so"

#: Where the header may be: in the installed package, and in the source tree.
HEADER_FOLDERS = (_PACKAGE / "include", _PACKAGE.parent / "native" / "include")


def _declarations(name: str) -> str:
    """Return what cffi reads of a header."""
    for path in (folder / name for folder in HEADER_FOLDERS):
        if path.is_file():
            header = path.read_text(encoding="utf-8")
            return header.partition("/* cffi: begin */")[2].partition("/* cffi: end */")[0]
    raise ImportError(
        f"h5lossy is not installed completely: there is no {name} "
        f"(looked in {' and '.join(map(str, HEADER_FOLDERS))}). Install it with: pip install ."
    )


def _open_library() -> Any:
    """Load libh5lossy."""
    if sys.platform == "win32":
        raise ImportError("h5lossy does not run on Windows: its library is for Linux and macOS")
    if not LIBRARY_PATH.is_file():
        raise ImportError(
            f"h5lossy is not installed completely: there is no {LIBRARY_PATH}. "
            "To build it, in the source tree: pip install ."
        )
    # NODELETE: HDF5 closes files, and so calls the filter, as late as at exit, when Python has
    # dropped its modules.
    flags = ffi.RTLD_NOW | ffi.RTLD_LOCAL | ffi.RTLD_NODELETE
    try:
        return ffi.dlopen(str(LIBRARY_PATH), flags)
    except OSError as error:
        raise ImportError(
            f"h5lossy can't load its library: {error}. Build it for this machine: pip install ."
        ) from error


ffi: Any = cffi.FFI()
for _header in ("h5lossy.h", "h5lossy_device.h", "h5lossy_assess.h"):
    ffi.cdef(_declarations(_header))
ffi.cdef("const void *H5PLget_plugin_info(void);")
lib: Any = _open_library()

# A shortage of memory is MemoryError, which is what Python's own allocations on the way raise.
_EXCEPTIONS: dict[int, type[Exception]] = {
    lib.H5L_INVALID_ARGUMENT: InvalidArgumentError,
    lib.H5L_UNSUPPORTED: UnsupportedError,
    lib.H5L_TRUNCATED: TruncatedFrameError,
    lib.H5L_CORRUPT: CorruptFrameError,
    lib.H5L_OUT_OF_MEMORY: MemoryError,
    lib.H5L_DEVICE_ERROR: DeviceError,
}

#: What is raised for a frame that cannot be decoded.
FRAME_ERRORS = (CorruptFrameError, TruncatedFrameError, UnsupportedError)


def call(name: str, *arguments: Any) -> None:
    """Call ``h5l_<name>``, whose last argument is a message, and raise if it fails."""
    error = attempt(name, *arguments)
    if error is not None:
        raise error


def result(name: str, *arguments: Any) -> Any:
    """Call a function as `call` does whose last argument but one is a result; return a pointer."""
    found = ffi.new(_parameters(name)[len(arguments)])
    call(name, *arguments, found)
    return found


def attempt(name: str, *arguments: Any) -> Exception | None:
    """Call a function as `call` does; return the exception for its status, None for OK."""
    message = ffi.new("h5l_message *")
    given = map(_to_c, _parameters(name), arguments)
    status = getattr(lib, f"h5l_{name}")(*given, message)
    return None if status == lib.H5L_OK else exception(status, message)


def exception(status: int, message: Any) -> Exception:
    """Return the exception for a status other than OK."""
    reason = text(message.text) or text(lib.h5l_status_name(status))
    return _EXCEPTIONS.get(status, NativeError)(reason)


@functools.cache
def _parameters(name: str) -> tuple[Any, ...]:
    """Return the types of a function's parameters."""
    return tuple(ffi.typeof(getattr(lib, f"h5l_{name}")).args)


def text(c_string: Any) -> str:
    """Return a C string as a Python string."""
    return str(ffi.string(c_string).decode("utf-8", "replace"))


def optional_text(c_string: Any) -> str | None:
    """Return a C string as a Python string, NULL as None."""
    return None if c_string == ffi.NULL else text(c_string)


def readable(buffer: Any) -> Any:
    """Return a contiguous bytes-like object as C's array of bytes."""
    return ffi.from_buffer(memoryview(buffer))


def writable(array: Any) -> Any:
    """Return a C-contiguous NumPy array as C's array of bytes, to write to."""
    return ffi.from_buffer(array, require_writable=True)


class Struct:
    """Base of dataclasses for C structs: fields of one name have one value."""

    def _derived(self) -> dict[str, Any]:
        """Return what the C struct has besides the dataclass's own fields."""
        return {}

    def to_c(self, ctype: Any) -> Any:
        """Return a new C struct; what is None stays 0."""
        struct, derived = ffi.new(ctype), self._derived()
        for name, field in ctype.item.fields:
            value = derived[name] if name in derived else getattr(self, name)
            if value is not None:
                setattr(struct, name, _to_c(field.type, value))
        return struct

    @classmethod
    def from_c(cls, struct: Any, **others: Any) -> Self:
        """Return the values of a C struct, but for `others`.

        Integers become bool, and arrays tuples or NumPy arrays, as the class declares.
        """
        for field in dataclasses.fields(cls):  # type: ignore[arg-type]  # of a subclass
            if field.name not in others:
                convert = _CONVERSIONS[str(field.type).partition("[")[0]]
                others[field.name] = convert(getattr(struct, field.name))
        return cls(**others)


def _to_c(ctype: Any, value: Any) -> Any:
    """Return what C takes for a value of Python's.

    Where it takes a pointer, that is a new struct for a `Struct`, NULL for None, and the address of
    an array of NumPy's or CuPy's, which is not kept alive; a number is an address already.
    """
    if ctype.kind != "pointer" or isinstance(value, ffi.CData):
        return value
    if value is None:
        return ffi.NULL
    if isinstance(value, Struct):
        return value.to_c(ctype)
    if isinstance(value, np.ndarray):
        value = value.ctypes.data
    elif not isinstance(value, int):
        value = value.data.ptr
    return ffi.cast(ctype, value)


def _numpy_array(c_array: Any) -> Any:
    """Copy a C array of numbers, of one dimension or more."""
    shape, ctype = [], ffi.typeof(c_array)
    while ctype.kind == "array":
        shape.append(ctype.length)
        ctype = ctype.item
    dtype = np.dtype(ctype.cname.removesuffix("_t"))
    return np.frombuffer(ffi.buffer(c_array), dtype).reshape(shape).copy()


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "bool": bool,
    "int": int,
    "float": float,
    "tuple": tuple,
    "npt.NDArray": _numpy_array,
}

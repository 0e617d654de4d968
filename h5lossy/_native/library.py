# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""libh5lossy itself: opened by cffi, called by name, its statuses raised as exceptions.

cffi reads the declarations from the C headers, so there is no second list of functions and no
compiled Python module. It has no type information: `Any` ends at the functions of this package.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import cffi
import numpy as np

from h5lossy._errors import (
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
ASSESS_PATH = _PACKAGE / "lib" / "libh5lossy_assess.so"

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


def _open_library(path: Path) -> Any:
    """Load libh5lossy or libh5lossy_assess."""
    if sys.platform == "win32":
        raise ImportError("h5lossy does not run on Windows: its library is for Linux and macOS")
    if not path.is_file():
        raise ImportError(
            f"h5lossy is not installed completely: there is no {path}. "
            "To build it, in the source tree: pip install ."
        )
    # NODELETE: HDF5 closes files, and so calls the filter, as late as at exit, when Python has
    # dropped its modules.
    flags = ffi.RTLD_NOW | ffi.RTLD_LOCAL | ffi.RTLD_NODELETE
    try:
        return ffi.dlopen(str(path), flags)
    except OSError as error:
        raise ImportError(
            f"h5lossy can't load its library: {error}. Build it for this machine: pip install ."
        ) from error


ffi: Any = cffi.FFI()
for _header in ("h5lossy.h", "h5lossy_device.h", "h5lossy_assess.h"):
    ffi.cdef(_declarations(_header))
ffi.cdef("const void *H5PLget_plugin_info(void);")
lib: Any = _open_library(LIBRARY_PATH)


@functools.cache
def assess_lib() -> Any:
    """Load libh5lossy_assess, which a program that assesses nothing does not need."""
    return _open_library(ASSESS_PATH)


# A shortage of memory is MemoryError, which is what Python's own allocations on the way raise.
_OK = lib.H5L_OK
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
    found = ffi.new(_function(name)[1][len(arguments)])
    error = attempt(name, *arguments, found)
    if error is not None:
        raise error
    return found


def attempt(name: str, *arguments: Any) -> Exception | None:
    """Call a function as `call` does; return the exception for its status, None for OK."""
    function, types = _function(name)
    message = ffi.new(types[-1])
    status = function(*map(_to_c, types, arguments), message)
    return None if status == _OK else exception(status, message)


def exception(status: int, message: Any) -> Exception:
    """Return the exception for a status other than OK."""
    reason = text(message.text) or text(lib.h5l_status_name(status))
    return _EXCEPTIONS.get(status, NativeError)(reason)


@functools.cache
def _function(name: str) -> tuple[Any, tuple[Any, ...]]:
    """Return ``h5l_<name>``, and the type of each parameter that is a pointer, else None."""
    owner = assess_lib() if name.startswith("assess_") else lib
    function = getattr(owner, f"h5l_{name}")
    return function, tuple(map(_pointer, ffi.typeof(function).args))


@functools.cache
def _members(ctype: Any) -> tuple[Callable[[Any], Any], list[tuple[str, Any]]]:
    """Return what gets a C struct's fields from a dict, and the names and types of pointers."""
    types = {name: field.type for name, field in ctype.item.fields}
    pointers = [(name, kind) for name, kind in types.items() if _pointer(kind)]
    return operator.itemgetter(*types), pointers


def _pointer(ctype: Any) -> Any:
    """Return a type if it is a pointer, else None."""
    return ctype if ctype.kind == "pointer" else None


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
        """Return what the C struct has besides the dataclass's own fields, or instead of them."""
        return {}

    def to_c(self, ctype: Any) -> Any:
        """Return a new C struct."""
        get, pointers = _members(ctype)
        values = vars(self) | self._derived()
        for name, pointer in pointers:
            values[name] = _to_c(pointer, values[name])
        return ffi.new(ctype, get(values))

    @classmethod
    def from_c(cls, struct: Any, **others: Any) -> Self:
        """Return the values of a C struct, but for `others`.

        Integers become bool, and arrays tuples or NumPy arrays, as the class declares.
        """
        names, get, conversions = _fields(cls)  # type: ignore[arg-type]  # a class
        made = object.__new__(cls)
        values = vars(made)  # several times as fast as __init__ of a frozen dataclass
        values.update(zip(names, get(struct), strict=True))
        for name, convert in conversions:
            if name not in others:
                values[name] = convert(values[name])
        values.update(others)
        return made


def _to_c(pointer: Any, value: Any) -> Any:
    """Return what C takes for a value of Python's.

    Where it takes a pointer, of the type `pointer`, that is a new struct for a `Struct`, NULL for
    None, and the address of an array of NumPy's or CuPy's, which is not kept alive; a number is an
    address already.
    """
    if pointer is None or isinstance(value, ffi.CData):
        return value
    if value is None:
        return ffi.NULL
    if isinstance(value, Struct):
        return value.to_c(pointer)
    if isinstance(value, np.ndarray):
        value = value.ctypes.data
    elif not isinstance(value, int):
        value = value.data.ptr
    return ffi.cast(pointer, value)


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
    "tuple": tuple,
    "npt.NDArray": _numpy_array,
}


@functools.cache
def _fields(cls: Any) -> tuple[list[str], Callable[[Any], Any], list[tuple[str, Any]]]:
    """Return the names of a dataclass's fields, what gets them from C, and some conversions."""
    kinds = {own.name: str(own.type).partition("[")[0] for own in dataclasses.fields(cls)}
    conversions = [(n, _CONVERSIONS[kind]) for n, kind in kinds.items() if kind in _CONVERSIONS]
    return list(kinds), operator.attrgetter(*kinds), conversions

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""libh5lossy itself: opened by cffi, called by name, its statuses raised as exceptions.

The build generates the declarations from the C headers, so there is no second list of functions and
no compiled Python module. They have no type information: `Any` ends at the functions of this
package.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from h5lossy._declarations import ffi_of
from h5lossy._errors import (
    CorruptFrameError,
    DeviceError,
    InvalidArgumentError,
    NativeError,
    TruncatedFrameError,
    UnsupportedError,
)
from h5lossy._public import PLUGIN_PATH

if sys.platform == "win32":
    from h5lossy._loader_windows import keep_loaded

if TYPE_CHECKING:
    from collections.abc import Callable


def file_name(library: str) -> str:
    """Return what the build calls a library here."""
    return f"{library}.dll" if sys.platform == "win32" else f"lib{library}.so"


LIBRARY_PATH = Path(PLUGIN_PATH, file_name("h5lossy"))


class Library:
    """A shared library of functions ``h5l_<name>``, whose last argument is a message."""

    def __init__(self, path: Path, declarations: str) -> None:
        self.ffi = ffi_of(declarations)
        self.lib = _opened(self.ffi, path)
        self._functions: dict[str, tuple[Any, tuple[Any, ...]]] = {}

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function, and raise if it fails."""
        error = self.attempt(name, *arguments)
        if error is not None:
            raise error

    def result(self, name: str, *arguments: Any) -> Any:
        """Call a function whose last argument but one is a result; return a pointer to that."""
        found = self.ffi.new(self._function(name)[1][len(arguments)])
        error = self.attempt(name, *arguments, found)
        if error is not None:
            raise error
        return found

    def attempt(self, name: str, *arguments: Any) -> Exception | None:
        """Call a function; return the exception for its status, None for OK."""
        function, types = self._function(name)
        message = self.ffi.new(types[-1])
        status = function(*map(_to_c, types, arguments), message)
        return None if status == _OK else exception(status, message)

    def _function(self, name: str) -> tuple[Any, tuple[Any, ...]]:
        """Return a function, and the type of each parameter that is a pointer, else None."""
        found = self._functions.get(name)
        if found is None:
            function = getattr(self.lib, f"h5l_{name}")
            found = function, tuple(map(_pointer, self.ffi.typeof(function).args))
            self._functions[name] = found
        return found


def _opened(ffi: Any, path: Path) -> Any:
    """Load a library."""
    if not path.is_file():
        raise ImportError(
            f"h5lossy is not installed completely: there is no {path}. "
            "To build it, in the source tree: pip install ."
        )
    # HDF5 closes files, and so calls the filter, as late as at exit, when Python has dropped its
    # modules. The library must still be loaded then.
    try:
        if sys.platform == "win32":
            opened = ffi.dlopen(str(path))
            keep_loaded(str(path))
            return opened
        return ffi.dlopen(str(path), ffi.RTLD_NOW | ffi.RTLD_LOCAL | ffi.RTLD_NODELETE)
    except OSError as error:
        raise ImportError(
            f"h5lossy can't load its library: {error}. Build it for this machine: pip install ."
        ) from error


_library = Library(LIBRARY_PATH, "library")
ffi, lib = _library.ffi, _library.lib
call, result, attempt = _library.call, _library.result, _library.attempt

# Out of memory is MemoryError, as for Python's own allocations on the way.
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
FRAME_ERRORS = (CorruptFrameError, UnsupportedError)


def exception(status: int, message: Any) -> Exception:
    """Return the exception for a status other than OK."""
    reason = text(message.text) or text(lib.h5l_status_name(status))
    return _EXCEPTIONS.get(status, NativeError)(reason)


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
    return ffi.from_buffer(memoryview(_shared(buffer)))


def writable(array: Any) -> Any:
    """Return a C-contiguous NumPy array as C's array of bytes, to write to."""
    return ffi.from_buffer(_shared(array), require_writable=True)


def _shared(buffer: Any) -> Any:
    """Return bfloat16 as bytes: Python's buffer protocol has no such type."""
    kind = getattr(getattr(buffer, "dtype", None), "kind", "")
    return buffer.reshape(-1).view("u1") if kind == "V" else buffer


class Struct:
    """Base of dataclasses for C structs: fields of one name have one value."""

    def _derived(self) -> dict[str, Any]:
        """Return the C struct's fields that add to, or replace, the dataclass's own."""
        return {}

    def replaced(self, **fields: Any) -> Self:
        """Return the same with other values of some fields."""
        assert fields.keys() <= vars(self).keys(), fields
        made = object.__new__(type(self))
        vars(made).update(vars(self) | fields)  # several times as fast as __init__, as in from_c
        return made

    def to_c(self, ctype: Any) -> Any:
        """Return a new C struct."""
        get, pointers = _members(ctype)
        values = vars(self) | self._derived()
        for name, pointer in pointers:
            values[name] = _to_c(pointer, values[name])
        return ffi.new(ctype, get(values))

    @classmethod
    def from_c(cls, struct: Any, **others: Any) -> Self:
        """Return the values of a C struct, and `others`, which it need not have.

        Integers become bool, and arrays tuples or NumPy arrays, as the class declares.
        """
        names, get, conversions = _fields(cls, *others)  # type: ignore[arg-type]  # a class
        made = object.__new__(cls)
        values = vars(made)  # several times as fast as __init__ of a frozen dataclass
        values.update(zip(names, get(struct), strict=True))
        for name, convert in conversions:
            values[name] = convert(values[name])
        values.update(others)
        return made


def _to_c(pointer: Any, value: Any) -> Any:
    """Return the C argument for a Python value.

    For a pointer parameter, of type `pointer`, this is a new struct for a `Struct`, NULL for None,
    and the address of a NumPy or CuPy array, which is not kept alive; a number already is an
    address.
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
def _fields(
    cls: Any, *others: str
) -> tuple[list[str], Callable[[Any], Any], list[tuple[str, Any]]]:
    """Return the names of a dataclass's other fields, what gets them from C, and conversions."""
    fields = [own for own in dataclasses.fields(cls) if own.name not in others]
    kinds = {own.name: str(own.type).partition("[")[0] for own in fields}
    conversions = [(n, _CONVERSIONS[kind]) for n, kind in kinds.items() if kind in _CONVERSIONS]
    return list(kinds), operator.attrgetter(*kinds), conversions

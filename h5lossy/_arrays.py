# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Arrays on a GPU: CuPy's, PyTorch's, and all that have ``__cuda_array_interface__`` or DLPack.

No other module knows these libraries. A library is only imported once an array of it is passed; new
arrays come from the library of the given array, or from CuPy.

An array may be passed while its library still works on it. All work here waits for that work, on
the current stream of PyTorch (`device_memory` of its tensors) or of CuPy (all other arrays).
"""

from __future__ import annotations

import importlib
import math
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from h5lossy import _native
from h5lossy._errors import InvalidArgumentError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Kinds of devices, as DLPack numbers them: a CUDA GPU's own memory, and memory that it manages.
_DLPACK_CUDA = {2, 13}
_ANY_DIRECTION = 4  # cudaMemcpyDefault

#: Values whose range is found at once; this takes several times their memory.
_RANGE_VALUES = 1 << 26


def is_device_array(array: Any) -> bool:
    """Return whether an object's values are in the memory of a CUDA GPU."""
    if isinstance(array, np.ndarray | bytes | bytearray | memoryview):
        return False
    if _is_of("cupy", "ndarray", array):
        return True
    if not hasattr(array, "__dlpack_device__"):
        return _cuda_interface(array) is not None
    # DLPack first: the other interface may be a property that raises, as it does for tensors that
    # require gradients, and may not name the stream to wait for.
    try:
        kind = int(array.__dlpack_device__()[0])
    except (BufferError, RuntimeError, TypeError, ValueError):
        return False  # such as arrays on several devices: NumPy copies them, or raises
    return kind in _DLPACK_CUDA


def as_shown(array: Any) -> Any:
    """Return a PyTorch tensor without gradient and negative bit; anything else unchanged."""
    return array.detach().resolve_neg() if _is_of("torch", "Tensor", array) else array


def _is_of(library: str, name: str, array: Any) -> bool:
    """Return whether an array is of a library's type, without importing the library."""
    kind = getattr(sys.modules.get(library), name, None)
    return kind is not None and isinstance(array, kind)


def _cuda_interface(array: Any) -> dict[str, Any] | None:
    with _taking(array):
        interface: dict[str, Any] | None = getattr(array, "__cuda_array_interface__", None)
    return interface


@contextmanager
def _taking(array: Any) -> Iterator[None]:
    """Name the type of an array that its library or CuPy refuses to share."""
    try:
        yield
    except (BufferError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
        kind = type(array)
        raise UnsupportedError(
            f"the values of this {kind.__module__}.{kind.__qualname__} can't be taken: {error}"
        ) from error


@dataclass(frozen=True)
class DeviceMemory:
    """An array on a GPU, whatever its library; `strides` are in bytes."""

    owner: Any  # the library's own array, which keeps the memory
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]
    library: Any  # _CuPy or _Torch

    @property
    def size(self) -> int:
        """Number of values."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the values."""
        return self.size * self.dtype.itemsize

    @property
    def is_contiguous(self) -> bool:
        """Whether the values are contiguous in C order."""
        expected = self.dtype.itemsize
        for extent, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if extent != 1 and stride != expected:
                return False
            expected *= extent
        return True


class _CuPy:
    """Operations on arrays, done by CuPy."""

    def __init__(self) -> None:
        try:
            self._cupy: Any = importlib.import_module("cupy")
        except ImportError as error:
            raise UnsupportedError(
                "arrays on a GPU need CuPy: pip install h5lossy[cuda13], or [cuda12]; "
                "without it only encode and decode work, and on PyTorch's tensors"
            ) from error

    def wrap(self, array: Any) -> DeviceMemory:
        if not isinstance(array, self._cupy.ndarray):
            array = self._seen(array)
        return DeviceMemory(
            array,
            int(array.data.ptr),
            tuple(array.shape),
            tuple(array.strides),
            np.dtype(array.dtype),
            self,
        )

    def _seen(self, array: Any) -> Any:
        """Return a CuPy array that shares another library's memory; its stream waits."""
        if _is_of("torch", "Tensor", array):
            # PyTorch's DLPack supports only the current GPU, and not every stream.
            tensor = _library("torch").wrap(array)
            tensor.library.wait(device_of(tensor))
            return self._seen_by_interface(tensor.owner)
        if hasattr(array, "__dlpack_device__"):
            device = int(array.__dlpack_device__()[1])
            with _taking(array), self._cupy.cuda.Device(device):
                return self._cupy.from_dlpack(array)  # names the stream that has to wait
        interface = array.__cuda_array_interface__
        stream = interface.get("stream")
        with self._cupy.cuda.Device(_device_at(interface["data"][0])) as on:
            if stream is None:  # only version 3 names streams, and some libraries do not name one
                on.synchronize()
            else:
                self._cupy.cuda.runtime.streamSynchronize(stream)
        return self._seen_by_interface(array)

    def _seen_by_interface(self, array: Any) -> Any:
        # CuPy would copy an array on a GPU that is not the current one.
        device = _device_at(array.__cuda_array_interface__["data"][0])
        with _taking(array), self._cupy.cuda.Device(device):
            return self._cupy.asarray(array)

    def current_stream(self, device: int) -> int:
        """Return the handle of the stream that the caller's work is on."""
        with self._cupy.cuda.Device(device):
            return int(self._cupy.cuda.get_current_stream().ptr)

    def empty(self, shape: tuple[int, ...], dtype: Any, device: int | None = None) -> DeviceMemory:
        """Make a new array in C order, on the current GPU by default."""
        with self._cupy.cuda.Device(device):
            return self.wrap(self._cupy.empty(shape, dtype))

    def contiguous(self, memory: DeviceMemory) -> DeviceMemory:
        """Return the same values in C order."""
        with memory.owner.device:
            return self.wrap(self._cupy.ascontiguousarray(memory.owner))

    def to_host(self, memory: DeviceMemory) -> np.ndarray[Any, Any]:
        """Copy to the host, and wait for that."""
        with memory.owner.device:
            try:
                host: np.ndarray[Any, Any] = self._cupy.asnumpy(memory.owner)
            except MemoryError:  # arrays not in C order are copied first
                host = np.empty(memory.shape, memory.dtype)
                for part, to in zip(memory.owner, host, strict=True):
                    to[...] = self.to_host(self.wrap(part))
        return host

    def copied(self, memory: DeviceMemory, count: int) -> Any:
        """Return the first values of a one-dimensional array, in memory of their own."""
        with memory.owner.device:
            values = self._cupy.empty((count,), memory.dtype)
            # CuPy's copy() is a kernel, and slow where values are bytes.
            values.data.copy_from_device_async(memory.owner.data, values.nbytes)
        return values

    def upload(self, values: np.ndarray[Any, Any], device: int) -> DeviceMemory:
        """Copy to a GPU."""
        with self._cupy.cuda.Device(device):
            return self.wrap(self._cupy.asarray(values))

    def assign(self, memory: DeviceMemory, values: np.ndarray[Any, Any]) -> None:
        """Copy values of the same shape from the host into an array, and wait for that."""
        array = memory.owner
        with array.device:
            if array.flags.c_contiguous:  # takes no memory
                array.reshape(-1).set(np.ascontiguousarray(values).reshape(-1))
            else:
                try:
                    array[...] = self._cupy.asarray(values)
                except MemoryError:
                    for part, of_host in zip(array, values, strict=True):
                        self.assign(self.wrap(part), np.asarray(of_host))
            self._cupy.cuda.get_current_stream().synchronize()

    def value_range(
        self, memory: DeviceMemory, fill_bits: int | None, missing: tuple[Any, ...] = ()
    ) -> tuple[float, float] | None:
        """Return (min, max) of finite values that are neither fill value nor missing, or None."""
        cupy = self._cupy
        with memory.owner.device:
            array = cupy.atleast_1d(memory.owner)
            infinity = memory.dtype.type(np.inf)
            smallest, largest = cupy.asarray(infinity), cupy.asarray(-infinity)
            rows = max(1, _RANGE_VALUES * len(array) // max(1, memory.size))
            for first in range(0, len(array) if memory.size else 0, rows):
                values = array[first : first + rows]
                valid = cupy.isfinite(values)
                if fill_bits is not None:
                    bits = values.view(f"u{memory.dtype.itemsize}")
                    valid &= bits != bits.dtype.type(fill_bits)
                for value in missing:
                    valid &= values != value
                smallest = cupy.minimum(smallest, cupy.where(valid, values, infinity).min())
                largest = cupy.maximum(largest, cupy.where(valid, values, -infinity).max())
            found = float(smallest), float(largest)
        return found if found[0] <= found[1] else None

    def count_equal(self, memory: DeviceMemory, value: Any) -> int:
        """Count the elements equal to a value."""
        with memory.owner.device:
            return int(self._cupy.count_nonzero(memory.owner == value))

    def device(self, device: int) -> Any:
        """Return a context in which new arrays are on a GPU."""
        return self._cupy.cuda.Device(device)

    def wait(self, device: int) -> None:
        """Wait for all work of the caller's stream."""
        with self._cupy.cuda.Device(device):
            self._cupy.cuda.get_current_stream().synchronize()

    def pinned(self, size: int) -> np.ndarray[Any, Any]:
        """Return pinned host bytes, which the GPU copies by itself, if there are any."""
        try:
            return np.frombuffer(self._cupy.cuda.alloc_pinned_memory(size), np.uint8, size)
        except (MemoryError, self._cupy.cuda.runtime.CUDARuntimeError):
            return np.empty(size, np.uint8)

    def stream(self, device: int) -> Any:
        """Return a new stream; `copy` and `mark` take it, and None for the caller's own."""
        with self._cupy.cuda.Device(device):
            return self._cupy.cuda.Stream(non_blocking=True)

    def copy(self, device: int, to: int, source: int, size: int, stream: Any = None) -> None:
        """Start to copy bytes between the host and a GPU."""
        with self._cupy.cuda.Device(device):
            stream = stream or self._cupy.cuda.get_current_stream()
            self._cupy.cuda.runtime.memcpyAsync(to, source, size, _ANY_DIRECTION, stream.ptr)

    def copy_rows(
        self, device: int, to: int, source: int, pitch: int, shape: tuple[int, int]
    ) -> None:
        """Start to copy rows, `pitch` bytes apart, and of each some bytes, to a GPU."""
        rows, size = shape
        with self._cupy.cuda.Device(device):
            stream = self._cupy.cuda.get_current_stream()
            self._cupy.cuda.runtime.memcpy2DAsync(
                to, pitch, source, pitch, size, rows, _ANY_DIRECTION, stream.ptr
            )

    def mark(self, device: int, stream: Any = None) -> Any:
        """Return an event, whose `synchronize` waits for all that the stream has been given."""
        with self._cupy.cuda.Device(device):
            event = self._cupy.cuda.Event(block=False, disable_timing=True)
            event.record(stream or self._cupy.cuda.get_current_stream())
        return event


class _Torch:
    """The operations that PyTorch does with its own tensors, for `encode` and `decode`."""

    def __init__(self) -> None:
        self._torch: Any = importlib.import_module("torch")

    def wrap(self, tensor: Any) -> DeviceMemory:
        if tensor.layout is not self._torch.strided:
            raise UnsupportedError(
                f"h5lossy takes dense tensors, not {tensor.layout}; convert it with to_dense first"
            )
        tensor = as_shown(tensor)
        name = str(tensor.dtype).removeprefix("torch.")
        # NumPy has no bfloat16, for example, and even if a package adds it, PyTorch does not copy
        # it.
        if name == "bfloat16" or name not in np.sctypeDict:
            raise UnsupportedError(
                f"h5lossy takes no tensors of {tensor.dtype}; convert it with float first"
            )
        dtype = np.dtype(name)
        return DeviceMemory(
            tensor,
            int(tensor.data_ptr()),
            tuple(tensor.shape),
            tuple(dtype.itemsize * stride for stride in tensor.stride()),
            dtype,
            self,
        )

    def current_stream(self, device: int) -> int:
        return int(self._torch.cuda.current_stream(device).cuda_stream)

    def empty(self, shape: tuple[int, ...], dtype: Any, device: int) -> DeviceMemory:
        name = np.dtype(dtype).name
        # Older versions have no unsigned types except uint8.
        kind = getattr(self._torch, name, None) or getattr(self._torch, name.removeprefix("u"))
        return self.wrap(self._torch.empty(shape, dtype=kind, device=f"cuda:{device}"))

    def wait(self, device: int) -> None:
        self._torch.cuda.current_stream(device).synchronize()

    def contiguous(self, memory: DeviceMemory) -> DeviceMemory:
        return self.wrap(memory.owner.contiguous())

    def to_host(self, memory: DeviceMemory) -> np.ndarray[Any, Any]:
        host: np.ndarray[Any, Any] = memory.owner.cpu().numpy()
        return host

    def copied(self, memory: DeviceMemory, count: int) -> Any:
        return memory.owner[:count].clone()

    def upload(self, values: np.ndarray[Any, Any], device: int) -> DeviceMemory:
        tensor = self._torch.from_numpy(np.ascontiguousarray(values))
        return self.wrap(tensor.to(f"cuda:{device}"))

    def assign(self, memory: DeviceMemory, values: np.ndarray[Any, Any]) -> None:
        memory.owner.copy_(self._torch.from_numpy(np.ascontiguousarray(values)))


_libraries: dict[str, Any] = {}


def _library(name: str) -> Any:
    if name not in _libraries:
        _libraries[name] = _Torch() if name == "torch" else _CuPy()
    return _libraries[name]


def device_memory(array: Any) -> DeviceMemory:
    """Describe an array for which `is_device_array` is true."""
    library = _library("torch" if _is_of("torch", "Tensor", array) else "cupy")
    memory: DeviceMemory = library.wrap(array)
    return memory


def cupy_memory(array: Any) -> DeviceMemory:
    """Describe any array on a GPU as a CuPy array."""
    memory: DeviceMemory = _library("cupy").wrap(array)
    return memory


def cupy_memory_to_fill(array: Any) -> DeviceMemory:
    """Describe an array that is written to as a CuPy array; raise if it is not writable."""
    if _is_of("jax", "Array", array):
        raise InvalidArgumentError(
            'arrays of JAX can\'t be written to; give out="cupy", and the result to '
            "jax.dlpack.from_dlpack"
        )
    if _is_of("torch", "Tensor", array) and array.is_neg():
        raise InvalidArgumentError(
            "out is a view that shows the negative of its memory; give it a tensor of its own"
        )
    interface = _cuda_interface(as_shown(array))
    if interface is not None and interface["data"][1]:
        raise InvalidArgumentError(f"out must be writable, got a read-only {type(array).__name__}")
    return cupy_memory(array)


def new_cupy_memory(shape: tuple[int, ...], dtype: np.dtype[Any]) -> DeviceMemory:
    """Make a CuPy array on CuPy's current GPU."""
    memory: DeviceMemory = _library("cupy").empty(shape, dtype)
    return memory


def device_of(memory: DeviceMemory) -> int:
    """Return the number of the GPU that an array is on."""
    return _device_at(memory.address)


def _device_at(address: int) -> int:
    return max(0, _native.device_of(address))  # -1 if there are no values

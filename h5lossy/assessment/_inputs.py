# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""What can be assessed: arrays, datasets and paths in files, read part by part."""

from __future__ import annotations

import dataclasses
import math
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from h5lossy._arrays import as_shown, cupy_memory, device_of, is_device_array
from h5lossy._batched import read
from h5lossy._bounds import require_comparable
from h5lossy._dims import COMPONENT, Axis, axes_of, broadcast, text_of
from h5lossy._errors import InvalidArgumentError, NotComparableError, UnsupportedError
from h5lossy._names import dataset_at, name_of, split_place
from h5lossy._packing import Packing
from h5lossy._values import as_reals, is_half, loaded, no_number, real_dtype, unmasked
from h5lossy._variables import as_stored, require_open
from h5lossy.missing import Missing, no_data

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from h5lossy._bounds import ErrorBound


class Input:
    """One of the two fields; the name is for messages and reports."""

    def __init__(self, values: Any, name: str) -> None:
        require_open(values, name)
        values = as_shown(values)
        if is_device_array(values):
            values = cupy_memory(values).owner
        elif not _has_numpy_type(values):
            values = _as_numpy(values, name)
        missing = no_data(values)
        #: The points that a masked array leaves out.
        self.mask: Any = None
        if isinstance(values, np.ma.MaskedArray):
            self.mask, values = np.ma.getmaskarray(values), values.data
        elif isinstance(getattr(values, "_meta", None), np.ma.MaskedArray):  # a dask array
            self.mask = values.map_blocks(np.ma.getmaskarray, dtype=np.bool_)
            values = values.map_blocks(np.ma.getdata, dtype=values.dtype)
        if values.shape is None:
            raise NotComparableError(f"{name} has no dataspace to hold values")
        self.name = name
        #: The type as given; complex numbers are read as components, along one more axis.
        self.given: np.dtype[Any] = np.dtype(values.dtype)
        self.dtype = real_dtype(self.given) if self.is_complex else self.given
        self.packing = None if self.is_complex else Packing.of(values, self.dtype)
        self.missing = missing.of_reals()
        self.units = text_of(values, "units") or None
        self.long_name = text_of(values, "long_name") or text_of(values, "standard_name") or None
        #: Coordinates of its axes; empty if these have no names.
        self.axes = axes_of(values)
        parts = (2,) if self.is_complex else ()
        if self.is_complex:
            self.axes = (*(self.axes or (Axis(),) * len(values.shape)), COMPONENT)
        if self.is_complex and self.mask is not None:
            self.mask = self.mask[..., np.newaxis].repeat(2, axis=-1)
        self.shape: tuple[int, ...] = (*(int(n) for n in values.shape), *parts)
        chunks = getattr(values, "chunks", None)
        # dask's chunks are tuples of tuples; those of HDF5 and Zarr are extents.
        if not (isinstance(chunks, tuple) and all(isinstance(n, int) for n in chunks)):
            chunks = None
        self.chunks: tuple[int, ...] | None = None if chunks is None else (*chunks, *parts)
        #: Whether the last axis of `shape` is missing in `values`.
        self._lacks_axis = self.is_complex and not isinstance(values, np.ndarray)
        if self.is_complex and not self._lacks_axis:
            values = as_reals(values)
        self.values = values
        self.is_array = isinstance(values, np.ndarray)
        self.is_contiguous = self.is_array and bool(values.flags.c_contiguous)
        #: The GPU whose memory holds the values.
        self.device: int | None = int(values.device.id) if is_device_array(values) else None
        #: The largest number of threads for decoding.
        self.threads: int | None = None
        self.dataset: h5py.Dataset | None = values if isinstance(values, h5py.Dataset) else None

    @property
    def is_complex(self) -> bool:
        """Whether values are complex numbers."""
        return self.given.kind == "c"

    @property
    def size(self) -> int:
        """Number of values."""
        return math.prod(self.shape)

    def read(self, selection: tuple[slice, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """Read a part as a C-contiguous array of `dtype`, without a copy if it already is one."""
        along = selection[:-1] if self._lacks_axis else selection
        if self.dataset is not None:
            # Read with all threads if ours is the only filter. This returns what is in the file,
            # even if HDF5's cache still has a chunk that it has just written.
            part = read(self.dataset, along, threads=self.threads)
        else:
            with as_stored(self.values):
                part = self.values[along] if along else self.values[()]
        if self.device is not None:  # CuPy: copied to the host a part at a time
            part = part.get()
        part = unmasked(part, no_number(part.dtype if self._lacks_axis else dtype))
        if self._lacks_axis:
            part = self._with_axis(part)[..., selection[-1]]
        if self.packing is not None:
            part = self.packing.unpacked(part, self.missing)
        return np.ascontiguousarray(self._typed(part, dtype)).reshape(
            [s.stop - s.start for s in selection] if self.shape else ()
        )

    def read_into(self, selection: tuple[slice, ...], out: npt.NDArray[Any]) -> bool:
        """Read a part of a dataset into `out`, unless it has to be converted."""
        if self.dataset is None or self.packing is not None or self.given != out.dtype:
            return False
        read(self.dataset, selection, out=out, threads=self.threads)
        return True

    def read_on_device(self, selection: tuple[slice, ...], dtype: np.dtype[Any]) -> Any:
        """Return a part as a C-contiguous CuPy array, without a copy if it already is one."""
        whole = tuple(slice(0, n) for n in self.shape)
        part = self.values if selection in ((), whole) else self.values[selection]
        memory = cupy_memory(self._typed(part, dtype))
        if not memory.is_contiguous:
            memory = memory.library.contiguous(memory)
        if memory.owner is not self.values:
            memory.library.wait(device_of(memory))
        return memory.owner

    def _with_axis(self, part: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the components of complex numbers, along one more axis."""
        return as_reals(part)

    def _typed(self, part: Any, dtype: np.dtype[Any]) -> Any:
        """Convert values of NumPy or CuPy to a type that holds them exactly."""
        if isinstance(part, np.ndarray):
            part = as_reals(part)  # half-precision components
        with np.errstate(invalid="ignore"):  # signalling NaNs
            return part.astype(dtype, copy=False)


class Mask(Input):
    """A mask of the fields' shape; points are left out where it is not 0.

    A mask with fewer axes, or with extent 1 along some, is broadcast.
    """

    def __init__(self, values: Any, original: Input, axes: Sequence[Axis] = ()) -> None:
        super().__init__(values, "mask")
        self.packing = None
        if self.dtype.kind not in {"b", "u", "i"}:
            raise InvalidArgumentError(f"mask must be of bool or integers, got {self.dtype}")
        shape = original.shape
        if self.shape == shape:
            return
        if original.is_complex and self.shape == shape[:-1]:  # of both components
            self._lacks_axis, self.shape = True, shape
            return
        whole = self.read(tuple(slice(0, n) for n in self.shape), np.dtype(np.uint8))
        super().__init__(broadcast("mask", whole, self.axes, shape, axes), "mask")

    def _with_axis(self, part: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.repeat(part[..., np.newaxis], 2, axis=-1)

    def _typed(self, part: Any, dtype: np.dtype[Any]) -> Any:
        return (part if part.dtype.kind == "b" else part != 0).view(dtype)


def combined_mask(mask: Any, original: Input, axes: Sequence[Axis] = ()) -> Mask | None:
    """Combine the caller's mask with that of a masked array; `axes` are those of the fields."""
    given = None if mask is None else Mask(mask, original, axes)
    if original.mask is None:
        return given
    both = original.mask
    if given is not None:
        everything = tuple(slice(0, n) for n in original.shape)
        both = both | (given.read(everything, np.dtype(np.uint8)) != 0)
    return Mask(both, original)


def _has_numpy_type(values: Any) -> bool:
    """Return whether values have a shape, and a type that NumPy knows."""
    try:
        np.dtype(values.dtype)
    except (AttributeError, TypeError):
        return False
    return hasattr(values, "shape")


def _as_numpy(values: Any, name: str) -> npt.NDArray[Any]:
    """Return numbers, lists, or an array of another library in host memory as a NumPy array."""
    if not hasattr(values, "__dlpack__"):
        numbers: npt.NDArray[Any] = loaded(values)
        return numbers
    try:
        return np.from_dlpack(values)
    except (BufferError, RuntimeError, TypeError) as error:
        raise UnsupportedError(f"{name} can't be taken through DLPack: {error}") from error


@contextmanager
def opened(original: Any, decoded: Any) -> Iterator[tuple[Input, Input]]:
    """Open what ``"file.h5:/path"`` names, for as long as the block runs."""
    with ExitStack() as stack:
        yield _open(original, "original", stack), _open(decoded, "decoded", stack)


def _open(values: Any, name: str, stack: ExitStack) -> Input:
    if not isinstance(values, str | Path):
        require_open(values, name)
        own = name_of(values) if isinstance(values, h5py.Dataset) else getattr(values, "name", None)
        return Input(values, own or name)
    file, path = split_place(str(values))
    if path is None:
        raise InvalidArgumentError(
            f'{name} must name a dataset in a file, as "file.h5:/path" does, got {str(values)!r}'
        )
    if not Path(file).exists():
        raise FileNotFoundError(f"{file} does not exist")
    found = dataset_at(stack.enter_context(h5py.File(file, "r")), path)
    if found is None:
        raise InvalidArgumentError(f"there is no dataset {path} in {file}")
    return Input(found, str(values))


def common_dtype(original: Input, decoded: Input) -> np.dtype[Any]:
    """Return the type that both are compared in, and that holds both exactly.

    That is float32, float64, or a type of 64-bit integers.
    """
    fields = original, decoded
    if original.is_complex != decoded.is_complex:
        raise NotComparableError(
            f"{original.name} ({original.given}) and {decoded.name} ({decoded.given}) can't be "
            "compared: one has complex numbers, the other has not"
        )
    if original.shape != decoded.shape:
        raise NotComparableError(
            f"original and decoded must have one shape, got {original.shape} and {decoded.shape}"
        )
    kinds = [_exact_dtype(field) for field in fields]
    # The library swaps bytes if both are of the same type.
    if kinds[0] == kinds[1]:
        return kinds[0]
    if all(kind.kind == "f" for kind in kinds):
        return np.dtype(np.float64 if 8 in {kind.itemsize for kind in kinds} else np.float32)
    given = [field.dtype if field.packing is None else np.dtype(np.float64) for field in fields]
    both = np.result_type(*given)
    if both.kind == "f":
        raise NotComparableError(
            f"{original.name} ({given[0]}) and {decoded.name} ({given[1]}) have no type that holds "
            "both exactly: integers of 64 bits are compared with integers of a type that fits"
        )
    return both


def _exact_dtype(field: Input) -> np.dtype[Any]:
    dtype = field.dtype if field.packing is None else np.dtype(np.float64)
    if dtype.kind == "f" and dtype.itemsize in {4, 8}:
        return dtype
    if is_half(dtype):
        return np.dtype(np.float32)
    if dtype.kind in "biu":
        return dtype if dtype.itemsize == 8 else np.dtype(np.float64)
    raise NotComparableError(
        f"{field.name} must hold floats of 16, 32 or 64 bits, complex numbers of two such, or "
        f"integers, not {dtype}"
    )


def agree_on_packing(original: Input, decoded: Input, *, as_stored: bool) -> None:
    """Make both fields return unpacked values, or both return stored numbers."""
    fields = (original, decoded)
    if as_stored and original.packing == decoded.packing:
        original.packing = decoded.packing = None
        return
    for field, other in (fields, fields[::-1]):
        if field.packing is None or other.packing is not None:
            continue
        if other.dtype.kind != "f" or field.dtype.kind == "f":
            raise NotComparableError(
                f"{field.name} is packed ({field.packing}), and {other.name} ({other.dtype}) does "
                "not say whether it is; give both as stored, as arrays without attributes, or both "
                "unpacked"
            )
        # So that missing values are NaN in both.
        other.packing = Packing(1.0, 0.0)


def require_bound(original: Input, decoded: Input, bound: ErrorBound | None) -> None:
    """Raise if the fields are not of a type that has such a bound."""
    for field in (original, decoded):
        require_comparable(bound, field.given if field.packing is None else np.dtype(np.float64))


def missing_in(
    original: Input,
    decoded: Input,
    dtype: np.dtype[Any],
    fill_value: Any,
    missing_value: Any,
    *,
    lossless: bool = False,
) -> Missing:
    """Return which values are no data, by the original, or else by the decoded field."""
    if isinstance(fill_value, Missing):
        return fill_value.of_reals().as_type(dtype)
    found = Missing(dtype)
    # What stands for points that only the decoded field masks is no number of the original.
    declaring = (original,) if decoded.mask is not None else (original, decoded)
    for field in declaring:
        if found.is_empty and field.packing is None:
            found = field.missing.as_type(dtype)
    if fill_value is None:
        found = Missing(dtype)
    elif not isinstance(fill_value, str):
        # Of the original's own type, if that is a number and not packed.
        is_own = original.packing is None and original.given.kind != "b"
        given = np.empty(0, original.given if is_own else dtype)
        fill = no_data(given, fill_value, lossless=lossless).of_reals().as_type(dtype).fill
        found = dataclasses.replace(found, fill=None).with_fill(fill)
    elif fill_value != "auto":
        raise InvalidArgumentError(
            f'fill_value must be a number, None or "auto", got {fill_value!r}'
        )
    more = no_data(np.empty(0, dtype), None, missing_value)
    return dataclasses.replace(found, values=(*found.values, *more.values)).with_fill(found.fill)

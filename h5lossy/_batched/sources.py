# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Sources of the values for `write`: arrays, anything that takes an index of slices, and blocks."""

from __future__ import annotations

import itertools
import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, TypeAlias

import h5py
import numpy as np
from h5py import h5t

from h5lossy._arrays import DeviceMemory, as_shown, cupy_memory, is_device_array
from h5lossy._errors import InvalidArgumentError
from h5lossy._values import has_masks, loaded, own_fill_value, unmasked
from h5lossy._variables import require_open
from h5lossy._warnings import raised

if TYPE_CHECKING:
    import numpy.typing as npt


#: Number of values; more would not be faster, and take more memory.
_CONVERTED_AT_ONCE = 1 << 14

#: Iterables that are one array.
_ARRAY_LIKES = (list, tuple, str, bytes, bytearray, memoryview, range, array)

#: Numbers of Python, and what may hold them.
_PYTHONS = (list, tuple, range, int, float)


def make_source(
    values: Any, shape: tuple[int, ...], dataset: h5py.Dataset, read: Callable[..., Any]
) -> Source:
    """Make a source of the values for a selection, or raise if they do not fit its shape."""
    # As in h5py, HDF5 converts arrays to the dataset's type, and NumPy everything else.
    values, dtype, fill = as_shown(values), dataset.dtype, own_fill_value(dataset)
    _check_type(getattr(values, "dtype", None), dtype)
    if is_device_array(values):
        memory = cupy_memory(values)
        if memory.shape == shape:
            to_host = memory.library.to_host
            return _Array(lambda index: to_host(cupy_memory(memory.owner[index])), memory)
        values = memory.library.to_host(memory)
    if isinstance(values, np.ndarray):
        return _Array(_fitted(unmasked(values, fill), shape).__getitem__)
    if _takes_slices(values):
        if tuple(values.shape) != shape:
            raise _does_not_fit(tuple(values.shape), shape)
        if isinstance(values, h5py.Dataset):
            return _Array(lambda index: _in_type(read(values, index), dtype))
        return _Array(
            lambda index: _in_type(unmasked(values[index], fill), dtype),
            cuts=_edges_of_blocks(values),
        )
    if _gives_blocks(values):
        return _Blocks((_opened(block, dtype, fill) for block in values), shape, dtype)
    return _Array(_fitted(_as_array(values, dtype, fill), shape).__getitem__)


def all_at_once(values: Any, dataset: h5py.Dataset) -> Any:
    """Return values that h5py can write; raise `InvalidArgumentError` for blocks."""
    values = as_shown(values)
    _check_type(getattr(values, "dtype", None), dataset.dtype)
    if is_device_array(values):
        memory = cupy_memory(values)
        return memory.library.to_host(memory)
    if _gives_blocks(values) and not _takes_slices(values):
        raise InvalidArgumentError(
            "blocks can be written to a selection of numbers and slices without steps only; "
            "give an array for this one"
        )
    if _takes_slices(values):
        values = loaded(values[...])
    fill = own_fill_value(dataset)
    if isinstance(values, _PYTHONS):
        return _as_array(values, dataset.dtype, fill)
    return unmasked(values, fill) if has_masks(values) else values


def as_stored(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Convert values to the type of a dataset as HDF5 does when it writes them."""
    if values.dtype == dtype:
        return values
    if values.dtype.newbyteorder("=") == dtype.newbyteorder("="):
        return values.astype(dtype)
    # NumPy rounds in the same way, but treats numbers beyond the largest float differently.
    given, wanted = h5t.py_create(values.dtype, logical=True), h5t.py_create(dtype)
    # HDF5 converts in place, so each value needs the space of the wider type.
    room = np.empty(_CONVERTED_AT_ONCE * max(values.itemsize, dtype.itemsize), np.uint8)
    stored = np.empty(values.size, dtype)
    done = 0
    pieces: Any = np.nditer(
        values,
        ["external_loop", "buffered", "zerosize_ok"],
        order="C",
        buffersize=_CONVERTED_AT_ONCE,
    )
    for piece in pieces:
        room[: piece.nbytes] = np.ascontiguousarray(piece).view(np.uint8)
        h5t.convert(given, wanted, piece.size, room)
        stored[done : done + piece.size] = room[: piece.size * dtype.itemsize].view(dtype)
        done += piece.size
    return stored.reshape(values.shape)


class _Array:
    """Values of which any part can be read.

    `memory` is their array on a GPU, if they are in one; `cuts` is where dask's blocks begin and
    end along each axis, if it computes them.
    """

    def __init__(
        self,
        take: Callable[[Any], Any],
        memory: DeviceMemory | None = None,
        cuts: tuple[tuple[int, ...], ...] | None = None,
    ) -> None:
        self._take = take
        self.memory = memory
        self.cuts = cuts

    def read(self, index: tuple[slice, ...]) -> npt.NDArray[Any]:
        # An empty index would give a scalar, whose byte order is the machine's.
        return np.asarray(self._take(index or ...))

    def held(self) -> int:
        return 0

    def finish(self) -> None:
        pass


class _Blocks:
    """Consecutive blocks along axis 0; keeps only the rows that will still be read."""

    memory: DeviceMemory | None = None
    cuts: tuple[tuple[int, ...], ...] | None = None

    def __init__(self, blocks: Iterator[Any], shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        if not shape:
            raise InvalidArgumentError("one value can't be written from blocks; give the value")
        self._blocks = blocks
        self._shape = shape
        self._dtype = dtype
        self._first = 0
        self._rows: npt.NDArray[Any] = np.empty((0, *shape[1:]))

    def read(self, index: tuple[slice, ...]) -> npt.NDArray[Any]:
        rows, *others = index
        left = self._rows[rows.start - self._first :]
        # An empty view would still hold all of the memory.
        self._rows = left if len(left) else left.copy()
        parts = [self._rows]
        del left
        self._first = rows.start
        count = len(parts[0])
        try:
            while count < rows.stop - rows.start:
                parts.append(self._next(rows.start + count))
                count += len(parts[-1])
        finally:
            parts = [part for part in parts if len(part)] or parts[:1]
            self._rows = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return self._rows[(slice(0, rows.stop - rows.start), *others)]

    def held(self) -> int:
        """Return the number of rows of axis 0 that exist, after `read` has failed."""
        return self._first + len(self._rows)

    def finish(self) -> None:
        """Raise if values are left over."""
        if self.held() > self._shape[0] or any(map(len, self._blocks)):
            raise InvalidArgumentError(
                f"the blocks have more than the {self._shape[0]} rows along axis 0 of the selection"
            )

    def _next(self, at: int) -> npt.NDArray[Any]:
        """Return the next block, which begins at row `at`, or raise."""
        try:
            block = np.asarray(next(self._blocks))
        except StopIteration:
            raise InvalidArgumentError(
                f"the blocks end after {at} of {self._shape[0]} rows along axis 0"
            ) from None
        if block.ndim != len(self._shape) or block.shape[1:] != self._shape[1:]:
            raise InvalidArgumentError(
                f"a block must have the shape (any, {', '.join(map(str, self._shape[1:]))}), "
                f"got {block.shape} for row {at}"
            )
        _check_type(block.dtype, self._dtype)
        return block


#: Values to be written; their parts are read in C order.
Source: TypeAlias = _Array | _Blocks


def _takes_slices(values: Any) -> bool:
    """Return whether an object takes an index of slices, as an array does."""
    if isinstance(values, h5py.Dataset):
        return values.shape is not None
    return (
        isinstance(getattr(values, "shape", None), tuple)
        and hasattr(values, "__getitem__")
        and not isinstance(values, np.generic | memoryview)
        and not hasattr(values, "iloc")  # pandas indexes columns
    )


def _edges_of_blocks(values: Any) -> tuple[tuple[int, ...], ...] | None:
    """Return where dask's blocks begin and end along each axis; None for other arrays."""
    chunks = getattr(values, "chunks", None)
    # dask's chunks are tuples of tuples; HDF5's and Zarr's are extents.
    if not isinstance(chunks, tuple) or not all(isinstance(axis, tuple) for axis in chunks):
        return None
    return tuple(tuple(itertools.accumulate(axis, initial=0)) for axis in chunks)


def _gives_blocks(values: Any) -> bool:
    """Return whether an object is an iterable of blocks."""
    return isinstance(values, Iterable) and not (
        hasattr(values, "__array__") or isinstance(values, (*_ARRAY_LIKES, Mapping, AbstractSet))
    )


def _opened(block: Any, dtype: np.dtype[Any], fill: Any) -> Any:
    require_open(block, "the block")
    block = as_shown(block)
    return _as_array(block, dtype, fill) if isinstance(block, _PYTHONS) else unmasked(block, fill)


def _in_type(part: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Convert a part of an array to the type of a dataset."""
    part = np.asarray(part)
    # Beyond the limits of an integer type NumPy wraps around, and HDF5 takes the limit.
    if dtype.kind in "iu" and part.dtype.kind in "iuf":
        return as_stored(part, dtype)
    return np.asarray(part, dtype=dtype)


def _as_array(values: Any, dtype: np.dtype[Any], fill: Any) -> npt.NDArray[Any]:
    """Convert anything that is not an array, or raise `InvalidArgumentError`."""
    try:
        # NumPy would drop the imaginary part with only a warning.
        given = unmasked(values, fill)
        if given.dtype.kind == "c":
            converted = given
        elif isinstance(values, _PYTHONS) and not isinstance(values, np.generic):
            # Not from `given`, which is float64 if there is an integer above the limit of int64.
            listed = given if has_masks(values) else values
            with raised(DeprecationWarning), np.errstate(invalid="ignore"):
                converted = np.asarray(listed, dtype=dtype)
            _check_limits(given, converted)
        else:
            converted = _in_type(given, dtype)
    except (DeprecationWarning, OverflowError, TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"values of type {type(values).__name__} can't be written as {dtype}: {error}"
        ) from error
    _check_type(converted.dtype, dtype)
    return converted


def _check_limits(given: npt.NDArray[Any], converted: npt.NDArray[Any]) -> None:
    """Raise if numbers were beyond the limits of the integer type that they became.

    NumPy itself refuses only Python's integers (before 2.0 it warns of them).
    """
    if converted.dtype.kind not in "iu" or given.dtype.kind not in "iuf":
        return
    whole = np.trunc(given) if given.dtype.kind == "f" else given
    is_beyond = converted != whole
    if is_beyond.any():
        raise OverflowError(f"{given[is_beyond][0]} is beyond the limits of {converted.dtype}")


def _check_type(given: Any, dtype: np.dtype[Any]) -> None:
    """Raise for values that are no real numbers. Those without a NumPy type are converted later."""
    if isinstance(given, np.dtype) and dtype.kind in "fiu" and given.kind not in "biuf":
        advice = "; give their real and imaginary parts" if given.kind == "c" else ""
        raise InvalidArgumentError(f"values of type {given} can't be written as {dtype}{advice}")


def _fitted(values: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Broadcast values to a shape. As in h5py, extents of 1 need not match."""
    if values.shape == shape:
        return values
    without = tuple(n for n in values.shape if n != 1)
    if without == tuple(n for n in shape if n != 1):
        return values.reshape(shape)
    try:
        return np.broadcast_to(values, shape)
    except ValueError:
        raise _does_not_fit(values.shape, shape) from None


def _does_not_fit(given: tuple[int, ...], shape: tuple[int, ...]) -> InvalidArgumentError:
    advice = (
        "; dask's compute_chunk_sizes() finds out what is unknown"
        if any(map(math.isnan, given))
        else ""
    )
    return InvalidArgumentError(
        f"values of shape {given} do not fit a selection of shape {shape}{advice}"
    )

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""What `h5lossy.write` takes its values from: arrays, what can be cut like one, and blocks."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

import h5py
import numpy as np
from h5py import h5t

from h5lossy._arrays import as_shown
from h5lossy.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt


#: Values; more would not be faster, and take more memory.
_CONVERTED_AT_ONCE = 1 << 14

#: Iterables that are one array.
_ARRAY_LIKES = (list, tuple, str, bytes, bytearray, memoryview, range, array)


class Source(Protocol):
    """Values to be written."""

    def read(self, index: tuple[slice, ...]) -> npt.NDArray[Any]:
        """Return a part. Parts are asked for in C order."""

    def held(self) -> int:
        """Return up to which row of axis 0 the values are there, after `read` has failed."""

    def finish(self) -> None:
        """Check that nothing is left over."""


def make_source(values: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Source:
    """Make a source of the values for a selection.

    Parameters
    ----------
    values : object
        What the user gave.
    shape : tuple of int
        Extents of the selection.
    dtype : numpy.dtype
        Type of the dataset. As in h5py, HDF5 converts arrays to it, and NumPy all else.

    Returns
    -------
    Source

    Raises
    ------
    InvalidArgumentError
        If the values do not fit the selection.
    """
    if isinstance(values, np.ndarray):
        return _Array(_fitted(np.asarray(values), shape), None)
    if _can_be_cut(values):
        if tuple(values.shape) != shape:
            raise _does_not_fit(tuple(values.shape), shape)
        return _Array(values, dtype)
    if _gives_blocks(values):
        return _Blocks(iter(values), shape)
    return _Array(_fitted(np.asarray(values, dtype=dtype), shape), None)


def check_at_once(values: Any) -> None:
    """Raise `InvalidArgumentError` for blocks, where all values are needed at once."""
    if _gives_blocks(values) and not _can_be_cut(values):
        raise InvalidArgumentError(
            "blocks can be written to a selection of numbers and slices without steps only; "
            "give an array for this one"
        )


def as_stored(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Convert values to the type of a dataset as HDF5 does when it writes them.

    NumPy would round alike, but not treat numbers beyond the largest float alike.
    """
    if values.dtype == dtype:
        return values
    if values.dtype.newbyteorder("=") == dtype.newbyteorder("="):
        return values.astype(dtype)
    given, wanted = h5t.py_create(values.dtype, logical=True), h5t.py_create(dtype)
    # HDF5 converts in place, so that each value has to have the room of the wider type.
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
    def __init__(self, values: Any, dtype: np.dtype[Any] | None) -> None:
        self._values = values
        self._dtype = dtype

    def read(self, index: tuple[slice, ...]) -> npt.NDArray[Any]:
        # An index of nothing would give a scalar, whose byte order is the machine's.
        return np.asarray(self._values[index or ...], dtype=self._dtype)

    def held(self) -> int:
        return 0

    def finish(self) -> None:
        pass


class _Blocks:
    """Blocks that follow each other along axis 0; holds the rows that are still asked for."""

    def __init__(self, blocks: Iterator[Any], shape: tuple[int, ...]) -> None:
        if not shape:
            raise InvalidArgumentError("one value can't be written from blocks; give the value")
        self._blocks = blocks
        self._shape = shape
        self._first = 0
        self._rows: npt.NDArray[Any] = np.empty((0, *shape[1:]))

    def read(self, index: tuple[slice, ...]) -> npt.NDArray[Any]:
        rows, *others = index
        left = self._rows[rows.start - self._first :]
        # A view of nothing would still hold all of the memory.
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
        return self._first + len(self._rows)

    def finish(self) -> None:
        if self.held() > self._shape[0]:
            raise self._too_many()
        for block in self._blocks:
            if len(block):
                raise self._too_many()

    def _next(self, at: int) -> npt.NDArray[Any]:
        try:
            block = np.asarray(as_shown(next(self._blocks)))
        except StopIteration:
            raise InvalidArgumentError(
                f"the blocks end after {at} of {self._shape[0]} rows along axis 0"
            ) from None
        if block.ndim != len(self._shape) or block.shape[1:] != self._shape[1:]:
            raise InvalidArgumentError(
                f"a block must have the shape (any, {', '.join(map(str, self._shape[1:]))}), "
                f"got {block.shape} for row {at}"
            )
        return block

    def _too_many(self) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"the blocks have more than the {self._shape[0]} rows along axis 0 of the selection"
        )


def _can_be_cut(values: Any) -> bool:
    """Whether an object takes an index of slices, as an array does."""
    if isinstance(values, h5py.Dataset):
        return values.shape is not None
    return (
        isinstance(getattr(values, "shape", None), tuple)
        and hasattr(values, "__getitem__")
        and not isinstance(values, np.generic | memoryview)
        and not hasattr(values, "iloc")  # pandas means columns
    )


def _gives_blocks(values: Any) -> bool:
    return isinstance(values, Iterable) and not (
        hasattr(values, "__array__") or isinstance(values, _ARRAY_LIKES)
    )


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
    return InvalidArgumentError(f"values of shape {given} do not fit a selection of shape {shape}")

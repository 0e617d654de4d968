# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The range of a field, which a range-relative bound is a fraction of."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

import h5py
import numpy as np

from h5lossy import _native
from h5lossy._arrays import as_shown, cupy_memory, is_device_array
from h5lossy._errors import InvalidArgumentError
from h5lossy._stored import stored_chunks
from h5lossy._values import Data, as_reals, blocks, checked_dtype, loaded, unmasked
from h5lossy._variables import require_open
from h5lossy.missing import Missing, no_data

if TYPE_CHECKING:
    from h5lossy._bounds import ErrorBound

#: Returns the blocks of an array or dataset.
ReadBlocks: TypeAlias = Callable[[Data], Iterable[np.ndarray[Any, Any]]]

#: A range is refused if, without an extreme that occurs several times, it is smaller by this
#: factor.
LONE = 1e-6

#: Number of values that are sampled from each block.
_SAMPLE = 64

#: With fewer bytes, several threads take longer to start than one takes for the work.
_FOR_ONE_THREAD = 1 << 20


class Extent:
    """The range of values that are added block by block; values in `missing` are left out.

    At most `threads` look for it; 0: the number of threads of `h5lossy.write`.
    """

    def __init__(self, missing: Missing, threads: int = 0) -> None:
        self.missing, self._threads = missing.of_reals(), threads
        #: Integers if the values are integers.
        self.ends: tuple[float, float] | None = None
        self._params = _native.Params(
            **_native.type_fields(self.missing.dtype), fill_bits=self.missing.fill_bits
        )
        #: Some values other than the extremes, from all blocks.
        self._sample: list[np.ndarray[Any, Any]] = []

    @classmethod
    def of(cls, data: Data, missing: Missing, read_blocks: ReadBlocks = blocks) -> Extent:
        """Return the range of an array, on the host or a GPU, or of a dataset."""
        extent = cls(missing)
        if is_device_array(data):
            memory = cupy_memory(data)
            extent.ends = memory.library.value_range(memory, missing.fill_bits, missing.values)
        else:
            for block in read_blocks(data):
                extent.add(block)
        return extent

    def add(self, block: np.ndarray[Any, Any], mask: np.ndarray[Any, Any] | None = None) -> None:
        """Add a block, in C order and of the type given, without the points of a mask."""
        block = as_reals(block)
        found = self._ends_of(block, mask)
        if found is None:
            return
        self.ends = _joined(self.ends, found)
        some = block.reshape(-1)[:: max(1, block.size // _SAMPLE)]
        self._sample.append(some[self.missing.mark(some) == 0])

    def _ends_of(
        self, block: np.ndarray[Any, Any], mask: np.ndarray[Any, Any] | None
    ) -> tuple[float, float] | None:
        """Return the smallest and the largest valid value of a block, if there is one."""
        if block.dtype.kind == "f":
            if mask is not None:
                block = np.where(mask != 0, block.dtype.type(np.nan), block).astype(block.dtype)
            values = self.missing.blanked(block)
            threads = self._threads if values.nbytes > _FOR_ONE_THREAD else 1
            return _native.value_range(self._params, values, threads)
        valid = block[self.missing.is_data(block, mask)]
        return (int(valid.min()), int(valid.max())) if valid.size else None

    @property
    def may_be_lone(self) -> bool:
        """Whether an extreme may be far from all others; a sample of values rules out most data."""
        if self.ends is None or self.ends[0] == self.ends[1]:
            return False
        if not self._sample:
            return True
        with np.errstate(invalid="ignore"):  # signalling NaNs
            some = np.concatenate(self._sample).astype(np.float64)
        low, high = self.ends
        inner = some[(some > low) & (some < high)]
        inner = inner[inner != (np.nan if self.missing.fill is None else float(self.missing.fill))]
        if not inner.size:
            return True
        spread = float(inner.max()) / 2 - float(inner.min()) / 2
        return not spread >= LONE * (high / 2 - low / 2)


def confirmed_range(
    data: Data,
    missing: Missing,
    bound: ErrorBound,
    *,
    confirmed: bool,
    read_blocks: ReadBlocks = blocks,
) -> tuple[float, float] | None:
    """Return the range that a range-relative bound refers to; None without a valid value."""
    # Real data hardly ever have an extreme that is repeated and far from all other values.
    # Undeclared missing values do: 1e20, -1e34, or both.
    extent = Extent.of(data, missing, read_blocks)
    if extent.ends is None or confirmed or not extent.may_be_lone:
        return extent.ends
    reals = extent.missing
    marks = [reals.dtype.type(end) for end in extent.ends]
    without_marks = dataclasses.replace(reals, values=(*reals.values, *marks))
    if is_device_array(data):
        memory = cupy_memory(data)
        inner = Extent.of(data, without_marks)
        counts = [memory.library.count_equal(memory, mark) for mark in marks]
    else:
        inner, counts = Extent(without_marks), [0, 0]
        for block in map(as_reals, read_blocks(data)):
            inner.add(block)
            counts = [n + int((block == m).sum()) for n, m in zip(counts, marks, strict=True)]
    _check_extremes(bound, extent.ends, inner.ends, marks, counts)
    return extent.ends


def _check_extremes(
    bound: ErrorBound,
    ends: tuple[float, float],
    inner: tuple[float, float] | None,
    marks: list[Any],
    counts: list[int],
) -> None:
    """Raise if the range is tiny without one or both extremes, which occur this often."""
    low, high = ends
    without = {(1,): _joined(inner, (low, low)), (0,): _joined(inner, (high, high)), (0, 1): inner}
    for which, rest in without.items():
        if rest is None or min(counts[i] for i in which) < 2:
            continue
        whole, left = Fraction(high) - Fraction(low), Fraction(rest[1]) - Fraction(rest[0])
        # If all other values are equal, they would be lost; 0 stays 0 under any bound.
        left = left or abs(Fraction(rest[0]))
        if 0 < left < Fraction(LONE) * whole:
            names = [str(marks[i]) for i in which]
            values = " and ".join(f"{marks[i]!s} ({counts[i]} times)" for i in which)
            arguments = " ".join(f"--missing-value {name}" for name in names)
            raise InvalidArgumentError(
                f"{bound} of the range would lose all data: the range is {float(whole):.6g}, but "
                f"without {values} all values are from {rest[0]!r} to {rest[1]!r}. If this marks "
                "missing values, say so: missing_value="
                f"{names[0] if len(names) == 1 else '(' + ', '.join(names) + ')'} ({arguments} on "
                "the command line), or with the attribute missing_value. If it is data, give "
                "confirm_range=True (--confirm-range)"
            )


def _joined(one: tuple[float, float] | None, other: tuple[float, float]) -> tuple[float, float]:
    """Return the range that covers two ranges."""
    return other if one is None else (min(one[0], other[0]), max(one[1], other[1]))


def _exactly(given: Any) -> Any:
    """Return what has no type of NumPy as an array; raise if this would change integers."""
    array = loaded(given)
    if isinstance(given, list | tuple) and array.dtype.kind == "f":
        is_large = np.abs(np.ma.getdata(array)) >= 2**53
        # NumPy makes floats of lists with an integer above the limit of int64 and another one.
        if is_large.any() and (np.asarray(given, object)[is_large] != array[is_large]).any():
            raise InvalidArgumentError(
                "the list has integers that float64 does not hold; give an array of integers"
            )
    return array


def prepared(
    data: Data, fill_value: Any, missing_value: Any = (), *, lossless: bool = False
) -> tuple[Data, Missing]:
    """Return the data with a shape and a checked dtype, and which of its values are missing."""
    require_open(data)
    if is_device_array(data):
        declaring: Any = np.empty(0, checked_dtype(cupy_memory(data).dtype, on_device=True))
    else:
        if not isinstance(getattr(data, "dtype", None), np.dtype):
            data = _exactly(as_shown(data))
            if data.dtype.kind not in "iu":  # which have no NaN, and stay masked
                data = unmasked(data, np.nan)
        checked_dtype(data.dtype)
        chunks = stored_chunks(data) if isinstance(data, h5py.Dataset) else None
        if chunks is not None:
            chunks.check_lengths()
        declaring = data
    return data, no_data(declaring, fill_value, missing_value, lossless=lossless)

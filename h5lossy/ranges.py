# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The range of a field: what a range-relative bound is a part of."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from h5lossy import _native
from h5lossy._arrays import as_shown, cupy_memory, is_device_array
from h5lossy._stored import stored_chunks
from h5lossy._values import Data, blocks, checked_dtype, is_big_endian
from h5lossy.errors import InvalidArgumentError
from h5lossy.missing import Missing, missing_of

if TYPE_CHECKING:
    from h5lossy.bounds import ErrorBound


def value_range(
    data: Data, fill_value: Any = "auto", missing_value: Any = ()
) -> tuple[float, float] | None:
    """Find the smallest and the largest valid value.

    Parameters
    ----------
    data : array-like or h5py.Dataset
        float32 or float64, any shape. A dataset is read in blocks of whole chunks, about 32 MiB at
        a time. An array on a GPU stays there.
    fill_value : float, "auto" or None, optional
        Left out of the range. "auto": a dataset's own; none for an array. None: all finite values
        are valid, whatever a dataset and its attributes declare.
    missing_value : float or sequence of float, optional
        Also left out, like values that a dataset's attributes declare missing or invalid.

    Returns
    -------
    tuple of float, or None
        (min, max); None if there is no valid value.

    Raises
    ------
    UnsupportedError
        If the data has another type.

    Examples
    --------
    >>> value_range(np.array([1.0, np.nan, 3.0, -999.0]), fill_value=-999.0)
    (1.0, 3.0)
    """
    data, missing = prepared(data, fill_value, missing_value)
    return Extent.of(data, missing).ends


class Extent:
    """The range of values that are added block by block.

    Parameters
    ----------
    missing : Missing
        What is left out.
    """

    def __init__(self, missing: Missing) -> None:
        self.missing = missing
        self._params = _native.Params(
            value_bytes=missing.dtype.itemsize,
            big_endian=is_big_endian(missing.dtype),
            fill_bits=missing.fill_bits,
        )
        self.ends: tuple[float, float] | None = None
        #: Some inner values, from all blocks.
        self._sample: list[np.ndarray[Any, Any]] = []

    @classmethod
    def of(cls, data: Data, missing: Missing) -> Extent:
        """Return the range of an array, on the host or a GPU, or of a dataset."""
        extent = cls(missing)
        if is_device_array(data):
            memory = cupy_memory(data)
            library: Any = memory.library
            extent.ends = library.value_range(memory, missing.fill_bits, missing.values)
        else:
            for block in blocks(data):
                extent.add(block)
        return extent

    def add(self, block: np.ndarray[Any, Any]) -> None:
        """Add a block, in C order and of the type of `missing`."""
        found = _native.value_range(self._params, self.missing.blanked(block))
        if found is None:
            return
        self.ends = _joined(self.ends, found)
        some = block.reshape(-1)[:: max(1, block.size // _SAMPLE)]
        self._sample.append(some[self.missing.mark(some) == 0])

    @property
    def may_be_lone(self) -> bool:
        """Whether `LoneExtremes` might find anything; a sample of values rules out most data."""
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


#: A range is refused if the range without an extreme that occurs several times is smaller than this
#: part of it.
LONE = 1e-6

#: Number of values that are sampled from each block.
_SAMPLE = 64


class LoneExtremes:
    """Finds out whether the largest or the smallest value is far from all others, and repeated.

    Real data are hardly ever like that. Undeclared missing values are: 1e20, -1e34, or both.

    Parameters
    ----------
    missing : Missing
        Left out anyway.
    ends : tuple of float
        The smallest and the largest valid value.
    """

    def __init__(self, missing: Missing, ends: tuple[float, float]) -> None:
        self._ends = ends
        self._count = [0, 0]
        marks = tuple(missing.dtype.type(end) for end in ends)
        self._inner = Extent(dataclasses.replace(missing, values=(*missing.values, *marks)))
        self._marks = marks

    def add(self, block: np.ndarray[Any, Any]) -> None:
        """Add a block."""
        self._inner.add(block)
        for i, mark in enumerate(self._marks):
            self._count[i] += int(np.count_nonzero(block == mark))

    def add_all(self, data: Data) -> None:
        """Add an array, on the host or a GPU, or a dataset."""
        if is_device_array(data):
            memory = cupy_memory(data)
            library: Any = memory.library
            self._inner = Extent.of(data, self._inner.missing)
            self._count = [library.count_equal(memory, mark) for mark in self._marks]
            return
        for block in blocks(data):
            self.add(block)

    def check(self, bound: ErrorBound) -> None:
        """Raise `InvalidArgumentError` if there is such a value."""
        low, high = self._ends
        inner = self._inner.ends
        without = {
            (1,): _joined(inner, (low, low)),
            (0,): _joined(inner, (high, high)),
            (0, 1): inner,
        }
        for which, rest in without.items():
            if rest is None or min(self._count[i] for i in which) < 2:
                continue
            whole, left = Fraction(high) - Fraction(low), Fraction(rest[1]) - Fraction(rest[0])
            # If all others are one value, that value would be lost; 0 stays 0 under any bound.
            left = left or abs(Fraction(rest[0]))
            if 0 < left < Fraction(LONE) * whole:
                names = [str(self._marks[i]) for i in which]
                values = " and ".join(
                    f"{name} ({self._count[i]} times)" for name, i in zip(names, which, strict=True)
                )
                arguments = " ".join(f"--missing-value {name}" for name in names)
                raise InvalidArgumentError(
                    f"{bound} of the range would lose all data: the range is "
                    f"{float(whole):.6g}, but without {values} all values are from {rest[0]!r} to "
                    f"{rest[1]!r}. If this marks missing values, say so: "
                    f"missing_value={names[0] if len(names) == 1 else '(' + ', '.join(names) + ')'}"
                    f" ({arguments} on the command line), or with the attribute missing_value. If "
                    "it is data, give confirm_range=True (--confirm-range)"
                )


def confirmed_range(
    data: Data, missing: Missing, bound: ErrorBound, *, confirmed: bool
) -> tuple[float, float] | None:
    """Return the range that a range-relative bound refers to.

    Parameters
    ----------
    data : array-like or h5py.Dataset
    missing : Missing
        Left out of the range.
    bound : ErrorBound
        For the message.
    confirmed : bool
        Accept any range.

    Returns
    -------
    tuple of float, or None

    Raises
    ------
    InvalidArgumentError
        If a repeated extreme dominates the range.
    """
    extent = Extent.of(data, missing)
    if extent.ends is not None and extent.may_be_lone and not confirmed:
        lone = LoneExtremes(missing, extent.ends)
        lone.add_all(data)
        lone.check(bound)
    return extent.ends


def _joined(one: tuple[float, float] | None, other: tuple[float, float]) -> tuple[float, float]:
    return other if one is None else (min(one[0], other[0]), max(one[1], other[1]))


def prepared(data: Data, fill_value: Any, missing_value: Any = ()) -> tuple[Data, Missing]:
    """Return the data with a shape and a checked dtype, and which of its values are no data."""
    if is_device_array(data):
        memory = cupy_memory(data)
        declaring: Any = np.empty(0, checked_dtype(memory.dtype))
    else:
        if not isinstance(getattr(data, "dtype", None), np.dtype):
            data = np.asarray(as_shown(data))
        checked_dtype(data.dtype)
        chunks = stored_chunks(data) if isinstance(data, h5py.Dataset) else None
        if chunks is not None:
            chunks.check_lengths()
        declaring = data
    return data, missing_of(declaring, fill_value, missing_value)

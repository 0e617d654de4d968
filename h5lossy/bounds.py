# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Error bounds: what they limit, which ones are allowed, and whether given data holds one.

The words are those of the glossary: a *valid* value is finite, and neither the fill value nor
missing (`h5lossy.missing`); the *range* is the difference of the largest and the smallest valid
value.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any

import h5py
import numpy as np

from h5lossy import _native
from h5lossy._arrays import as_shown, cupy_memory, is_device_array
from h5lossy._stored import stored_chunks
from h5lossy._values import (
    Data,
    block_selections,
    blocks,
    checked_dtype,
    is_big_endian,
    read_block,
)
from h5lossy.errors import BoundError, InvalidArgumentError
from h5lossy.missing import Missing, missing_of


class BoundKind(StrEnum):
    """What a bound limits. The values are the names of the arguments that take one."""

    ABSOLUTE = "absolute"
    """``|x - x'| <= bound``, in the data's own unit."""

    POINTWISE_RELATIVE = "pointwise_relative"
    """``|x - x'| <= bound * |x|``, and the sign is kept."""

    RANGE_RELATIVE = "range_relative"
    """``|x - x'| <= bound * (max - min)`` over the valid values."""

    LOSSLESS = "lossless"
    """Every bit is kept."""

    @property
    def number(self) -> int:
        """The kind's number in cd_values and in frames."""
        return _NUMBERS[self]

    @classmethod
    def from_number(cls, number: int) -> BoundKind:
        """Return the kind that has this number in cd_values and in frames."""
        return _KINDS[number]


_NUMBERS = {
    BoundKind.ABSOLUTE: _native.BOUND_ABSOLUTE,
    BoundKind.POINTWISE_RELATIVE: _native.BOUND_POINTWISE_RELATIVE,
    BoundKind.RANGE_RELATIVE: _native.BOUND_RANGE_RELATIVE,
    BoundKind.LOSSLESS: _native.BOUND_LOSSLESS,
}
_KINDS = {number: kind for kind, number in _NUMBERS.items()}


@dataclass(frozen=True)
class ErrorBound:
    """A bound and what it limits.

    Parameters
    ----------
    kind : BoundKind or str
        What the bound limits.
    value : float, optional
        Greater than 0 and finite; below 1 where pointwise-relative; 0 where lossless. Kept as the
        float64 that was given. What float64 can't hold (a fraction, a long double) is rounded down,
        never to a looser bound.

    Raises
    ------
    BoundError
        If the value is not allowed.
    TypeError
        If the value is not a real number.

    Examples
    --------
    >>> str(ErrorBound("absolute", 1e-3))
    'absolute 0.001'
    """

    kind: BoundKind
    value: float = 0.0

    def __post_init__(self) -> None:
        try:
            kind = BoundKind(self.kind)
        except ValueError:
            raise BoundError(
                f"kind must be one of {', '.join(BoundKind)}, got {self.kind!r}"
            ) from None
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "value", _checked_bound(kind, self.value))

    def __str__(self) -> str:
        return str(self.kind) if self.kind is BoundKind.LOSSLESS else f"{self.kind} {self.value!r}"


@dataclass(frozen=True, kw_only=True)
class ErrorSummary:
    """How far decoded data is off, and whether it keeps what was promised (`largest_error`).

    Attributes
    ----------
    bound : ErrorBound
        What was promised.
    count : int
        Number of valid values; the errors are theirs.
    max_error : float
        Largest error in the bound's own measure: for an absolute bound (and lossless) in the data's
        unit, for a pointwise-relative one as a fraction of the value, for a range-relative one as a
        fraction of the range. Infinite where a finite value became NaN or infinite. Rounded to
        nearest, but never across the bound.
    violations : int
        Number of valid values that are off by more than the bound; where lossless, of those that
        changed a bit.
    special_changed : int
        Number of values that are NaN, infinite, the fill value or missing and changed a bit, that
        became the fill value or missing, or that became valid or invalid.
    """

    bound: ErrorBound
    count: int
    max_error: float
    violations: int
    special_changed: int

    @property
    def fraction(self) -> float:
        """Largest error as a fraction of the bound; where lossless, 0 or infinite."""
        if self.bound.kind is BoundKind.LOSSLESS:
            return math.inf if self.violations else 0.0
        return self.max_error / self.bound.value

    @property
    def holds(self) -> bool:
        """Whether every promise was kept."""
        return not self.violations and not self.special_changed


def value_range(
    data: Data, fill_value: Any = None, missing_value: Any = ()
) -> tuple[float, float] | None:
    """Find the smallest and the largest valid value.

    Parameters
    ----------
    data : array-like or h5py.Dataset
        float32 or float64, any shape. A dataset is read in blocks of whole chunks, about 32 MiB at
        a time. An array on a GPU stays there.
    fill_value : float, optional
        Left out of the range. Default: a dataset's own; none for an array.
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


def largest_error(
    original: Data,
    decoded: Data,
    bound: ErrorBound,
    fill_value: Any = None,
    missing_value: Any = (),
) -> ErrorSummary:
    """Judge decoded data against a bound.

    The verdict is that of exact arithmetic: no tolerance is added, and no rounding can hide a
    violation or invent one. To judge what a file holds, open it anew: what was just written, HDF5
    gives back from its chunk cache as it was before encoding.

    Parameters
    ----------
    original, decoded : array-like or h5py.Dataset
        float32 or float64, of one shape and one type; the byte order may differ. Datasets are read
        in blocks.
    bound : ErrorBound
        What was promised. A range-relative one is taken over all of `original`.
    fill_value : float, optional
        Has to be restored bit for bit, and no other value may become it. Default: that of the
        original, if it is a dataset; none for an array. If it is +0.0, other values may become it,
        as the format allows.
    missing_value : float or sequence of float, optional
        Likewise, like values that the original's attributes declare missing. Values that they
        declare invalid have to keep the bound, and to stay invalid.

    Returns
    -------
    ErrorSummary

    Raises
    ------
    InvalidArgumentError
        If shapes or types differ.
    UnsupportedError
        If the data has another type than float32 or float64.

    Notes
    -----
    ``x - x'`` is computed without error as the sum of two float64 numbers (Knuth, The Art of
    Computer Programming, volume 2, 4.2.2, theorem B). The first is the difference correctly
    rounded, so comparing it with the bound, correctly rounded too, gives the exact answer unless
    both are equal; then the second number decides, or rational arithmetic does.

    Examples
    --------
    >>> summary = largest_error([1.0, 2.0], [1.0, 2.25], ErrorBound("absolute", 0.25))
    >>> summary.max_error, summary.fraction, summary.holds
    (0.25, 1.0, True)
    """
    original, missing = prepared(original, fill_value, missing_value)
    decoded, _ = prepared(decoded, None)
    if original.shape != decoded.shape or original.dtype.itemsize != decoded.dtype.itemsize:
        raise InvalidArgumentError(
            "original and decoded must have one shape and one type, "
            f"got {original.shape} {original.dtype} and {decoded.shape} {decoded.dtype}"
        )
    return judged(original, decoded, bound, missing)


def judged(original: Data, decoded: Data, bound: ErrorBound, missing: Missing) -> ErrorSummary:
    """Do what `largest_error` does, for fields that are known to have the same shape and type.

    Parameters
    ----------
    original, decoded : array or h5py.Dataset
    bound : ErrorBound
    missing : Missing
        Of the original.

    Returns
    -------
    ErrorSummary
    """
    extent = Fraction(0)
    if bound.kind is BoundKind.RANGE_RELATIVE:
        smallest, largest = Extent.of(original, missing).ends or (0.0, 0.0)
        extent = Fraction(largest) - Fraction(smallest)
    kind, limit, half_limit = exact_limits(bound, extent)
    state = _native.AssessState(
        _native.AssessParams(
            value_bytes=original.dtype.itemsize,
            original_big_endian=is_big_endian(original.dtype),
            decoded_big_endian=is_big_endian(decoded.dtype),
            fill_bits=missing.fill_bits,
            bound_kind=kind,
            limit=limit,
            half_limit=half_limit,
        )
    )
    seen = missing_changed = 0
    for selection in block_selections(original):
        x, y = read_block(original, selection), read_block(decoded, selection)
        mask = None
        if missing.has_more:
            mask = missing.missing(x).reshape(-1).view(np.uint8)
            missing_changed += sum(int(np.count_nonzero(c)) for c in missing.changes(x, y))
        state.points(seen, x.reshape(-1), y.reshape(-1), mask)
        seen += x.size
    points = state.points_result()
    special = points.special
    lost = special["nan_introduced"] + special["inf_introduced"]
    kept = {"nan_kept", "inf_kept", "fill_kept", "nan_introduced", "inf_introduced"}
    violations = points.violations + lost
    max_error = math.inf if lost else _in_bound_units(points, bound.kind, extent)
    if not violations and bound.kind is not BoundKind.LOSSLESS:
        max_error = min(max_error, bound.value)
    return ErrorSummary(
        bound=bound,
        count=points.valid + lost,
        max_error=max_error,
        violations=violations,
        special_changed=missing_changed + sum(n for name, n in special.items() if name not in kept),
    )


def _in_bound_units(points: _native.PointsResult, kind: BoundKind, extent: Fraction) -> float:
    """Return the largest error in the bound's own measure."""
    if not points.valid:
        return 0.0
    if kind is BoundKind.POINTWISE_RELATIVE:
        return math.inf if points.zeros_changed else points.pointwise_max
    largest = max(-points.error_min, points.error_max)
    if kind is not BoundKind.RANGE_RELATIVE or largest == 0 or math.isinf(largest):
        return largest
    if not extent:
        return math.inf
    try:
        return float(Fraction(largest) / extent)
    except OverflowError:  # so many ranges that no float can say it
        return math.inf


def exact_limits(
    bound: ErrorBound | None, extent: Fraction
) -> tuple[int, tuple[float, float], tuple[float, float]]:
    """Return a bound as the library's assessment takes it.

    Parameters
    ----------
    bound : ErrorBound or None
    extent : Fraction
        What a range-relative one is a part of.

    Returns
    -------
    tuple
        The kind's number, the limit as an exact sum of two float64, and half of the limit.
    """
    zero = (0.0, 0.0)
    if bound is None:
        return _native.BOUND_NONE, zero, zero
    if bound.kind in {BoundKind.LOSSLESS, BoundKind.POINTWISE_RELATIVE}:
        return bound.kind.number, (bound.value, 0.0), zero
    limit = Fraction(bound.value) * (extent if bound.kind is BoundKind.RANGE_RELATIVE else 1)
    return _native.BOUND_ABSOLUTE, _as_float_sum(limit), _as_float_sum(limit / 2)


def _checked_bound(kind: BoundKind, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{kind} must be a number, got {value!r}")
    try:
        bound = float(value)
    except OverflowError:  # an integer beyond float64
        bound = math.inf
    if kind is BoundKind.LOSSLESS:
        if bound != 0:
            raise BoundError(f"a lossless bound has the value 0, got {value!r}")
        return 0.0
    if bound > value:
        bound = math.nextafter(bound, 0.0)
    if kind is BoundKind.POINTWISE_RELATIVE:
        allowed, limit = "greater than 0 and less than 1", 1.0
    else:
        allowed, limit = "greater than 0 and finite", math.inf
    if not 0 < bound < limit:  # also refuses NaN
        raise BoundError(f"{kind} must be {allowed}, got {value!r}")
    return bound


def prepared(data: Data, fill_value: Any, missing_value: Any = ()) -> tuple[Data, Missing]:
    """Return the data with a shape and a checked dtype, and which of its values are no data.

    Parameters
    ----------
    data : array-like or h5py.Dataset
    fill_value : number or None
        None: that of the data.
    missing_value : number or sequence of numbers

    Returns
    -------
    tuple
    """
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
    fill = "auto" if fill_value is None else fill_value
    return data, missing_of(declaring, fill, missing_value)


def _as_float_sum(limit: Fraction) -> tuple[float, float]:
    """Return the float64 nearest to `limit`, and the largest float64 not above what that lacks."""
    try:
        high = float(limit)
    except OverflowError:
        return math.inf, 0.0
    rest = limit - Fraction(high)
    low = float(rest)
    return high, low if Fraction(low) <= rest else math.nextafter(low, -math.inf)

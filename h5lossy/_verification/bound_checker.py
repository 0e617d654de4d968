# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Whether decoded values keep a bound: the one comparison that all functions use."""

from __future__ import annotations

import bisect
import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from h5lossy import _native
from h5lossy._bounds import (
    BoundKind,
    ErrorBound,
    ErrorSummary,
    exact_limits,
    require_comparable,
)
from h5lossy._errors import InvalidArgumentError
from h5lossy._public import name_publicly
from h5lossy._ranges import Extent, prepared
from h5lossy._safeguards import NO_SAFEGUARDS, Safeguards, Sides
from h5lossy._values import Data, as_reals, block_selections, read_block

if TYPE_CHECKING:
    import numpy.typing as npt

    from h5lossy.missing import Missing

Place = tuple[int, ...]


class MissingChange(NamedTuple):
    """A value that is missing or invalid in only one of two fields, or has other bits there."""

    at: Place
    original: Any
    decoded: Any
    is_lost: bool


class BoundChecker:
    """Compares decoded values with the originals, block by block, in exact arithmetic.

    A range-relative bound refers to `value_range`, the (min, max), or else to that of each block.
    """

    def __init__(
        self,
        bound: ErrorBound,
        missing: Missing,
        value_range: tuple[float, float] | None = None,
        threads: int | None = None,
        safeguards: Safeguards = NO_SAFEGUARDS,
    ) -> None:
        require_comparable(bound, missing.dtype)
        self.bound = bound
        #: The first missing value, other than the fill value, that changed.
        self.missing_change: MissingChange | None = None
        self._sides = Sides(safeguards)
        self._is_complex = missing.dtype.kind == "c"
        self._given = missing.dtype
        # The type in which values are compared: float64 holds integers of up to 32 bits.
        self._number = int if missing.dtype.kind in "iu" else float
        is_small = self._number is int and missing.dtype.itemsize < 8
        self._missing = missing.as_type(np.dtype(np.float64)) if is_small else missing.of_reals()
        self._threads = threads or 0
        is_of_blocks = bound.kind is BoundKind.RANGE_RELATIVE and value_range is None
        self._extent = None if is_of_blocks else _extent_of(value_range)
        self._state = _native.new_state(self._params(self._extent or Fraction(0)))
        self._missing_changed = 0
        self._max_of_blocks = 0.0
        self._count = 0
        #: The first point of each block: points are numbered in the order of adding them.
        self._firsts: list[int] = []
        self._blocks: list[tuple[Place, Place]] = []

    def add(
        self,
        start: Place,
        original: npt.NDArray[Any],
        decoded: npt.NDArray[Any],
        masks: tuple[npt.NDArray[np.bool_] | None, npt.NDArray[np.bool_] | None] = (None, None),
    ) -> None:
        """Compare one block, which begins at `start` in the field.

        Points that the original masks do not count; those that only the decoded field masks became
        missing.
        """
        reals = (as_reals(np.asarray(v, self._given)) for v in (original, decoded))
        x, y = (np.asarray(v, self._missing.dtype, order="C") for v in reals)
        first = self._count
        self._firsts.append(first)
        self._blocks.append((start, x.shape))
        self._count += x.size
        mask = None
        if self._missing.has_more or any(m is not None for m in masks):
            both = (np.zeros(original.shape, np.bool_) if m is None else m for m in masks)
            if self._is_complex:  # of both components
                both = (np.broadcast_to(m[..., np.newaxis], x.shape) for m in both)
            left_out, lost = both
            if masks[0] is not None:
                y = np.where(left_out, x, y)
            self._compare_missing(start, x, y, lost & ~left_out)
            left_out = left_out | self._missing.missing(x)
            mask = left_out.reshape(-1).view(np.uint8)
        points = first, x.reshape(-1), y.reshape(-1), mask
        if self._sides.safeguards != NO_SAFEGUARDS:
            self._sides.add(*points[:3])
        if self._extent is not None:
            self._state.points(*points)
            return
        extent = _extent_of(Extent.of(x, self._missing).ends)
        own = _native.new_state(self._params(extent))
        own.points(*points)
        own_max = _in_bound_units(own.points_result(), self.bound, extent)
        self._max_of_blocks = max(self._max_of_blocks, own_max)
        self._state.merge(own)

    def points(self) -> _native.PointsResult:
        """Return the counts, sums and extrema of all points so far."""
        return self._state.points_result()

    def place(self, number: int) -> Place:
        """Return the coordinates of a point of `points`; of a component, those of its number."""
        i = bisect.bisect_right(self._firsts, number) - 1
        start, shape = self._blocks[i]
        inside = np.unravel_index(number - self._firsts[i], shape)
        return tuple(int(s + o) for s, o in zip(start, inside, strict=False))

    def summary(self) -> ErrorSummary:
        """Return the results so far."""
        points, bound = self.points(), self.bound
        special = points.special
        lost = special["nan_introduced"] + special["inf_introduced"]
        kept = {"nan_kept", "inf_kept", "fill_kept", "nan_introduced", "inf_introduced"}
        violations = points.violations + lost + self._sides.broken
        max_error = self._max_of_blocks
        if self._extent is not None:
            max_error = _in_bound_units(points, bound, self._extent)
        if lost:
            max_error = math.inf
        elif not violations and bound.kind is not BoundKind.LOSSLESS:
            max_error = min(max_error, bound.value)
        others = sum(count for kind, count in special.items() if kind not in kept)
        return ErrorSummary(
            bound=bound,
            count=points.valid + lost,
            max_error=max_error,
            violations=violations,
            special_changed=self._missing_changed + others,
            problems=tuple(self._problems(points)),
        )

    def _problems(self, points: _native.PointsResult) -> list[str]:
        """Return a problem of each kind, with its first place."""
        found = []
        if self.missing_change is not None:
            found.append(
                f"{self._missing_changed} missing values changed, or valid values became missing, "
                f"the first at {self.missing_change.at}"
            )
        if points.violations:
            first = points.listed[0]
            is_exact = self.bound.kind is BoundKind.LOSSLESS
            what = "changed" if is_exact else f"are off by more than {self.bound}"
            which, part = f"{points.violations} of {points.valid} values", ""
            if self._is_complex:
                which = which.replace("values", "components")
                part = f", {'imaginary' if first.at % 2 else 'real'} part"
            found.append(
                f"{which} {what}, the first at {self.place(first.at)}{part}: "
                f"{self._number(first.original)} became {self._number(first.decoded)}"
            )
        if (wrong := self._sides.first) is not None:
            found.append(
                f"{self._sides.problem()}, the first at {self.place(wrong.at)}: "
                f"{self._number(wrong.original)} became {self._number(wrong.decoded)}"
            )
        for kind, count in points.special.items():
            if count and not kind.endswith("_kept"):
                at = self.place(points.special_first[kind])
                found.append(f"{kind.replace('_', ' ')}: {count}, the first at {at}")
        return found

    def _compare_missing(
        self, start: Place, x: npt.NDArray[Any], y: npt.NDArray[Any], masked: npt.NDArray[np.bool_]
    ) -> None:
        """Count missing values that changed, and points that became masked."""
        is_lossless = self.bound.kind is BoundKind.LOSSLESS
        changes = self._missing.changes(x, y, lossless=is_lossless)
        changed = changes.lost | changes.introduced | masked
        count = int(np.count_nonzero(changed))
        if count and self.missing_change is None:
            at = tuple(np.argwhere(changed)[0].tolist())
            place = tuple(s + i for s, i in zip(start, at, strict=False))  # without the component
            before, after = (int(v[at]) if self._number is int else v[at] for v in (x, y))
            self.missing_change = MissingChange(place, before, after, bool(changes.lost[at]))
        self._missing_changed += count

    def _params(self, extent: Fraction) -> _native.AssessParams:
        """Return the native parameters for a range of this size."""
        missing = self._missing
        return _native.AssessParams(
            **_native.compared(missing.dtype, missing.fill_bits, is_complex=self._is_complex),
            **exact_limits(self.bound, extent),
            threads=self._threads,
        )


def _extent_of(ends: tuple[float, float] | None) -> Fraction:
    """Return the size of a range; 0 if there is none."""
    return Fraction(ends[1]) - Fraction(ends[0]) if ends else Fraction(0)


def _in_bound_units(points: _native.PointsResult, bound: ErrorBound, extent: Fraction) -> float:
    """Return the largest error in the bound's own measure."""
    if not points.valid:
        return 0.0
    if bound.kind is BoundKind.POINTWISE_RELATIVE:
        return math.inf if points.zeros_changed else points.pointwise_max
    largest = max(points.error_max, -points.error_min)
    if points.share is not None:
        largest = points.share * bound.value
    if bound.kind is not BoundKind.RANGE_RELATIVE or largest == 0 or math.isinf(largest):
        return largest
    if not extent:
        return math.inf
    try:
        return float(Fraction(largest) / extent)
    except OverflowError:  # more ranges than float64 can hold
        return math.inf


def largest_error(
    original: Data,
    decoded: Data,
    bound: ErrorBound,
    fill_value: Any = "auto",
    missing_value: Any = (),
) -> ErrorSummary:
    """Compare decoded data with the original, and with a bound.

    The result is that of exact arithmetic: no tolerance is added, and no rounding can hide a
    violation or invent one. To check what a file holds, open it anew: what was just written, HDF5
    returns from its chunk cache as it was before encoding.

    Parameters
    ----------
    original, decoded : array_like or h5py.Dataset
        Of one shape and one type, any that `encode` takes; the byte order may differ. Datasets are
        read in blocks.
    bound : ErrorBound
        A range-relative one is taken over all of `original`. Of complex numbers, real and imaginary
        part are compared, each for itself, but for a bound of moduli.
    fill_value : float, "auto" or None, optional
        Has to be restored bit for bit, and no other value may become it. "auto": that of the
        original, if it declares one. None: no fill value, whatever the dataset and its attributes
        declare. If it is +0.0, other values may become it, as the format allows. Masked points of
        the original do not count; where only `decoded` has some, they became missing.
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
        If the data has another type.

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
    if not isinstance(bound, ErrorBound):
        raise TypeError(
            "bound must be an ErrorBound, such as ErrorBound('absolute', 1e-3) or that of a codec, "
            f"PFPL(absolute=1e-3).bound, got {bound!r}"
        )
    is_exact = bound.kind is BoundKind.LOSSLESS
    original, missing = prepared(original, fill_value, missing_value, lossless=is_exact)
    decoded, _ = prepared(decoded, None)
    types = [data.dtype.newbyteorder("=") for data in (original, decoded)]
    if original.shape != decoded.shape or types[0] != types[1]:
        raise InvalidArgumentError(
            "original and decoded must have one shape and one type, "
            f"got {original.shape} {original.dtype} and {decoded.shape} {decoded.dtype}"
        )
    ends = None
    if bound.kind is BoundKind.RANGE_RELATIVE:
        ends = Extent.of(original, missing).ends or (0.0, 0.0)
    checker = BoundChecker(bound, missing, ends)
    for block in block_selections(original):
        start = tuple(axis.start for axis in block)
        (x, mask), (y, lost) = (read_block(data, block) for data in (original, decoded))
        checker.add(start, x, y, (mask, lost))
    return checker.summary()


name_publicly(__name__)

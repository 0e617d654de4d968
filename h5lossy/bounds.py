# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Error bounds: what they limit, and which ones are allowed.

The words are those of the glossary: a *valid* value is finite, and neither the fill value nor
missing (`h5lossy.missing`); the *range* is the difference of the largest and the smallest valid
value.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any

from h5lossy import _native
from h5lossy.errors import BoundError


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


def _as_float_sum(limit: Fraction) -> tuple[float, float]:
    """Return the float64 nearest to `limit`, and the largest float64 not above what that lacks."""
    try:
        high = float(limit)
    except OverflowError:
        return math.inf, 0.0
    rest = limit - Fraction(high)
    low = float(rest)
    return high, low if Fraction(low) <= rest else math.nextafter(low, -math.inf)

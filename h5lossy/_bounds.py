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
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from h5lossy import _native
from h5lossy._errors import BoundError, InvalidArgumentError, UnsupportedError
from h5lossy._public import name_publicly
from h5lossy._values import as_scalar, is_integer, is_number

if TYPE_CHECKING:
    import numpy.typing as npt


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

    NOISE = "noise"
    """``|x - x'| <= bound * sqrt(|x|)``, rounded down to counts, for integers."""

    MODULUS = "modulus"
    """``|x - x'| <= bound`` of complex numbers. Only comparisons use it: codecs get an absolute
    bound of components that implies it (`h5lossy.Codec`)."""

    @property
    def number(self) -> int:
        """The kind's number in cd_values and in frames, which have none for `MODULUS`."""
        return _NUMBERS[self]

    @classmethod
    def from_number(cls, number: int) -> BoundKind:
        """Return the kind that has this number in cd_values and in frames."""
        return _KINDS[number]


#: The bounds of floats that take a value.
FLOAT_BOUNDS = (BoundKind.ABSOLUTE, BoundKind.POINTWISE_RELATIVE, BoundKind.RANGE_RELATIVE)

_NUMBERS: dict[BoundKind, int] = {
    kind: getattr(_native, f"BOUND_{kind.name}")
    for kind in BoundKind
    if kind is not BoundKind.MODULUS
}
_KINDS = {number: kind for kind, number in _NUMBERS.items()}

#: The bounds that frames can have.
STORED_BOUNDS = tuple(_NUMBERS)

#: The limits of a noise bound in the library.
_LARGEST_FLOOR = 1 << 15


@dataclass(frozen=True)
class ErrorBound:
    """A bound and what it limits.

    Parameters
    ----------
    kind : BoundKind or str
        What the bound limits.
    value : float, optional
        Greater than 0 and finite; below 1 where pointwise-relative; 0 where lossless: all others
        raise `BoundError`. Kept as the float64 that was given. What float64 can't hold (a fraction,
        a long double) is rounded down, never to a looser bound.
    floor : int, optional
        Of noise: the bound is never less than this, in counts. At most 32768.

    Examples
    --------
    >>> str(ErrorBound("absolute", 1e-3))
    'absolute 0.001'
    >>> str(ErrorBound("noise", 0.5, floor=2))
    'noise 0.5, at least 2'
    """

    kind: BoundKind
    value: float = 0.0
    floor: int = 0

    def __post_init__(self) -> None:
        try:
            kind = BoundKind(self.kind)
        except ValueError:
            raise BoundError(
                f"kind must be one of {', '.join(BoundKind)}, got {self.kind!r}"
            ) from None
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "value", _checked_bound(kind, self.value))
        object.__setattr__(self, "floor", _checked_floor(kind, self.floor))

    def __str__(self) -> str:
        if self.kind is BoundKind.LOSSLESS:
            return str(self.kind)
        return f"{self.kind} {self.value!r}{f', at least {self.floor}' if self.floor else ''}"

    @classmethod
    def for_stencil(cls, weights: npt.ArrayLike, bound: float) -> ErrorBound:
        """Return the bound on values that keeps a weighted sum of them within another bound.

        Derivatives, means and sums are weighted sums of neighbours: if each value is off by at most
        b, the sum is off by at most b times the sum of the weights' magnitudes. Rounding in the sum
        itself comes on top.

        Parameters
        ----------
        weights : array_like
            The weights, of any shape, with what they are divided by: ``[-0.5, 0, 0.5]`` is a
            centred difference. Finite, and not all 0.
        bound : float
            Largest error of the weighted sum. Greater than 0, and finite.

        Returns
        -------
        ErrorBound
            An absolute one, rounded down.

        Raises
        ------
        BoundError, InvalidArgumentError
            If the bound or the weights are not allowed.

        Examples
        --------
        >>> ErrorBound.for_stencil([-0.5, 0, 0.5], 1e-3)
        ErrorBound(kind=<BoundKind.ABSOLUTE: 'absolute'>, value=0.001, floor=0)
        """
        try:
            total = sum(_exact_magnitude(weight) for weight in np.asanyarray(weights).flat)
        except (OverflowError, TypeError, ValueError):  # infinite, no number, NaN or ragged
            total = Fraction(0)
        if not total:
            raise InvalidArgumentError(
                f"the weights of a stencil are finite numbers, and not all 0, got {weights!r}"
            )
        shared = Fraction(_checked_bound(BoundKind.ABSOLUTE, bound)) / total
        return cls(BoundKind.ABSOLUTE, shared)  # type: ignore[arg-type]  # rounds it down

    def plain(self) -> dict[str, Any]:
        """Return it in a form that JSON can hold."""
        floor = {"floor": self.floor} if self.kind is BoundKind.NOISE else {}
        return {"kind": str(self.kind), "value": self.value, **floor}


@dataclass(frozen=True, kw_only=True)
class ErrorSummary:
    """How far decoded data is off, and whether it keeps its bound (`h5lossy.largest_error`).

    Attributes
    ----------
    count : int
        Number of valid values; the errors are theirs. Of complex numbers, all are of components.
    max_error : float
        Largest error in the bound's own measure: for an absolute bound (and lossless) in the data's
        unit, for a pointwise-relative one as a fraction of the value, for a range-relative one as a
        fraction of the range, for one of noise as a multiple of ``sqrt(|x|)``, or of what the floor
        is at its value. Infinite where a finite value became NaN or infinite. Rounded to
        nearest, but never across the bound.
    violations : int
        Number of valid values that are off by more than the bound; where lossless, of those that
        changed a bit.
    special_changed : int
        Number of values that are NaN, infinite, the fill value or missing and changed a bit, that
        became the fill value or missing, or that became valid or invalid.
    problems : tuple of str
        A sentence for each kind of violation, with the place of the first one.
    """

    bound: ErrorBound
    count: int
    max_error: float
    violations: int
    special_changed: int
    problems: tuple[str, ...] = field(default=(), compare=False)

    @property
    def fraction(self) -> float:
        """Largest error as a fraction of the bound; where lossless, 0 or infinite."""
        if self.bound.kind is BoundKind.LOSSLESS:
            return math.inf if self.violations else 0.0
        return self.max_error / self.bound.value

    @property
    def holds(self) -> bool:
        """Whether the bound holds and no special value changed."""
        return not self.violations and not self.special_changed


#: float64 keeps at most this many significant decimal digits of every number.
_MOST_DIGITS = 15


def bound_of_digits(significant_digits: Any) -> float:
    """Return the largest pointwise-relative bound that keeps so many decimal digits of any value.

    A value from 10**k up to, but not including, 10**(k + 1) may be off by half a unit of its last
    digit, which is 10**(k - significant_digits + 1). As a fraction of the value, this is smallest
    towards the upper end: 0.5 * 10**-significant_digits, here rounded down to float64.

    >>> bound_of_digits(6)
    5e-07
    """
    given = as_scalar(significant_digits)
    if not is_number(given, numbers.Integral):
        raise TypeError(f"significant_digits must be a whole number, got {significant_digits!r}")
    if not 1 <= int(given) <= _MOST_DIGITS:
        raise BoundError(
            f"significant_digits must be from 1 to {_MOST_DIGITS}, got {significant_digits}; for "
            "all bits, take lossless"
        )
    digits = Fraction(1, 2 * 10 ** int(given))
    return _checked_bound(BoundKind.POINTWISE_RELATIVE, digits)


def bound_of_modulus(modulus: Any) -> float:
    """Return the largest bound of two components that keeps the modulus of both within a bound.

    >>> bound_of_modulus(1)
    0.7071067811865475
    """
    whole = Fraction(_checked_bound(BoundKind.MODULUS, modulus))
    limit = whole**2 / 2
    bound = float(whole * Fraction(math.sqrt(0.5)))
    while bound and Fraction(bound) ** 2 > limit:
        bound = math.nextafter(bound, 0.0)
    while Fraction(above := math.nextafter(bound, math.inf)) ** 2 <= limit:
        bound = above
    return _checked_bound(BoundKind.ABSOLUTE, bound)


def exact_limits(bound: ErrorBound | None, extent: Fraction) -> dict[str, Any]:
    """Return the fields of `AssessParams` that hold a bound: its limit as a sum of two floats."""
    if bound is None:
        return {}
    if bound.kind is BoundKind.NOISE:
        return {"noise": (bound.value, bound.floor)}
    if bound.kind is BoundKind.MODULUS:
        return {"modulus": bound.value}
    if bound.kind in {BoundKind.LOSSLESS, BoundKind.POINTWISE_RELATIVE}:
        return {"bound_kind": bound.kind.number, "limit": (bound.value, 0.0)}
    limit = Fraction(bound.value) * (extent if bound.kind is BoundKind.RANGE_RELATIVE else 1)
    halves = {"limit": _as_float_sum(limit), "half_limit": _as_float_sum(limit / 2)}
    return {"bound_kind": _native.BOUND_ABSOLUTE, **halves}


def require_comparable(bound: ErrorBound | None, dtype: np.dtype[Any]) -> None:
    """Raise if values of a type have no such bound."""
    if bound is None:
        return
    is_counted = is_integer(dtype) and dtype.itemsize <= 4
    if bound.kind is BoundKind.NOISE and not is_counted:
        raise UnsupportedError(
            f"noise is a bound of integers of up to 32 bits, not of {dtype}; give absolute"
        )
    if bound.kind is BoundKind.MODULUS and dtype.kind != "c":
        raise UnsupportedError(
            f"modulus is a bound of complex numbers, not of {dtype}; give absolute"
        )


def _exact_magnitude(number: Any) -> Fraction:
    if not is_number(number):
        raise TypeError(f"{number!r} is no number")
    plain = int(number) if isinstance(number, numbers.Integral) else number
    return abs(Fraction(*plain.as_integer_ratio()))


def _checked_floor(kind: BoundKind, value: Any) -> int:
    """Return the floor of a noise bound: an absolute bound, rounded down to counts."""
    if is_number(as_scalar(value)) and value == 0:
        return 0
    if kind is not BoundKind.NOISE:
        raise BoundError(f"only noise has a floor, got {value!r} for {kind}")
    floor = math.floor(_checked_bound(BoundKind.ABSOLUTE, value))
    if floor > _LARGEST_FLOOR:
        raise BoundError(f"absolute beside noise must be at most {_LARGEST_FLOOR}, got {value!r}")
    return floor


def _checked_bound(kind: BoundKind, value: Any) -> float:
    """Return a bound as float64, never looser than given; raise if it is not allowed."""
    value = as_scalar(value)
    if not is_number(value):
        raise TypeError(f"{kind} must be a number, got {value!r}")
    if isinstance(value, numbers.Integral):
        value = int(value)  # NumPy would compare as float64
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
    if kind is BoundKind.NOISE:
        if not 1 / 16 <= bound <= 256:
            raise BoundError(f"{kind} must be from 1/16 to 256, got {value!r}")
        return bound
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


name_publicly(__name__)

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Numbers outside the range of float64, and why others are undefined."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

#: Up to this exponent, of either sign, squares fit in float64, with room for sums of many, for
#: squares 2^106 times smaller than the largest, and for the units of slopes.
FITS = 400

OVERFLOW = "beyond the range of float64"


class Wide:
    """A float64 with an exponent of its own, which neither over- nor underflows.

    Operations round as those of float64 do.
    """

    __slots__ = ("_exponent", "_mantissa")

    def __init__(self, value: float, exponent: int = 0) -> None:
        self._mantissa, own = math.frexp(value)
        self._exponent = own + exponent if self._mantissa else 0

    def __float__(self) -> float:
        return scaled(self._mantissa, self._exponent)

    def __bool__(self) -> bool:
        return self._mantissa != 0

    def __neg__(self) -> Wide:
        return Wide(-self._mantissa, self._exponent)

    def __add__(self, other: Wide) -> Wide:
        high, low = (self, other) if self._exponent >= other._exponent else (other, self)
        if not high:
            return low
        rest = math.ldexp(low._mantissa, low._exponent - high._exponent)
        return Wide(high._mantissa + rest, high._exponent)

    def __sub__(self, other: Wide) -> Wide:
        return self + -other

    def __mul__(self, other: Wide) -> Wide:
        return Wide(self._mantissa * other._mantissa, self._exponent + other._exponent)

    def __truediv__(self, other: Wide) -> Wide:
        return Wide(self._mantissa / other._mantissa, self._exponent - other._exponent)

    def __gt__(self, other: Wide) -> bool:
        return (self - other)._mantissa > 0

    def sqrt(self) -> Wide:
        """Return the square root; 0 for a number that rounding made negative."""
        odd = self._exponent % 2
        return Wide(math.sqrt(max(self._mantissa, 0.0) * (1 + odd)), self._exponent // 2)

    def log2(self) -> float:
        """Return the logarithm of a positive number."""
        return self._logarithm(math.log2)

    def log10(self) -> float:
        """Return the logarithm of a positive number."""
        return self._logarithm(math.log10)

    def _logarithm(self, function: Callable[[float], float]) -> float:
        if -1022 < self._exponent < 1024:
            return function(float(self))
        return function(self._mantissa) + self._exponent * function(2)

    @property
    def is_finite(self) -> bool:
        """Whether it is neither infinite nor NaN, whatever its exponent."""
        return math.isfinite(self._mantissa)


def scaled(value: float, exponent: int) -> float:
    """Multiply by a power of two; the result may be infinite."""
    try:
        return math.ldexp(value, exponent)
    except OverflowError:
        return math.copysign(math.inf, value)


def exponent_of(value: float) -> int | None:
    """Return the exponent of a number; None for 0, infinities and NaN."""
    return math.frexp(value)[1] if value and math.isfinite(value) else None


def fits(exponent: int | None) -> bool:
    """Return whether squares of numbers with at most this exponent fit in float64."""
    return exponent is None or abs(exponent) <= FITS


def known(value: float | Wide) -> float | None:
    """Return a number as float64; None if it is NaN, overflows or underflows to 0."""
    number = float(value)
    is_lost = not number and bool(value)
    return number if math.isfinite(number) and not is_lost else None


def misfit(largest: float) -> int:
    """Return the exponent to scale numbers down by if their squares do not fit, or else 0."""
    exponent = exponent_of(float(largest))
    return 0 if exponent is None or fits(exponent) else exponent


class Undefined(dict[str, str]):
    """Reasons why numbers are None, by their names."""

    def checked(self, name: str, value: float | Wide, *, infinite: bool = False) -> float | None:
        """Return a number, or None for what is not one; infinities only where they have a sense."""
        number = value if infinite and value in (math.inf, -math.inf) else known(value)
        if number is None:
            self[name] = OVERFLOW
        return number

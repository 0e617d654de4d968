# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Safeguards: what a codec promises about a value besides the bound on its error."""

from __future__ import annotations

import math
import numbers
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from h5lossy import _native
from h5lossy._errors import InvalidArgumentError
from h5lossy._values import as_list, has_words, is_finite, is_number

if TYPE_CHECKING:
    import numpy.typing as npt

#: The values of `keep`: a threshold of 0 keeps both.
_KEPT = ("sign", "zero")


class Safeguards(NamedTuple):
    """Numbers whose sides values keep, and the range that valid values do not leave."""

    thresholds: tuple[float, ...] = ()
    valid_range: tuple[float, float] | None = None

    @classmethod
    def read(cls, thresholds: Any, valid_range: Any, keep: Any) -> Safeguards:
        """Return what the arguments of a codec mean."""
        found = _numbers("thresholds", thresholds)
        if keep is not None:
            if not isinstance(keep, str) or keep not in _KEPT:
                raise InvalidArgumentError(f"keep must be {' or '.join(_KEPT)}, got {keep!r}")
            found.append(0.0)
        # If float64 cannot hold a number, the nearest one will do: no value lies between the two.
        unique = tuple(sorted({float(number) + 0.0 for number in found}))  # no -0.0
        if len(unique) > _native.MAX_THRESHOLDS:
            raise InvalidArgumentError(
                f"at most {_native.MAX_THRESHOLDS} thresholds are allowed, with the 0 that keep= "
                f"stands for, got {len(unique)}; leave some out"
            )
        if valid_range is None:
            return cls(unique)
        ends = _numbers("valid_range", valid_range)
        if len(ends) != 2 or ends[0] > ends[1]:
            raise InvalidArgumentError(
                f"valid_range takes two numbers, the smaller one first, got {valid_range!r}"
            )
        low, high = map(float, ends)
        # If float64 cannot hold an end, it is rounded inward: the same values are in the range.
        low = low if low >= ends[0] else math.nextafter(low, math.inf)
        high = high if high <= ends[1] else math.nextafter(high, -math.inf)
        if low > high:
            raise InvalidArgumentError(f"valid_range {valid_range!r} has no number of float64")
        return cls(unique, (low, high))

    def problem_of(self, dtype: np.dtype[Any]) -> str:
        """Say why values of a type cannot have these safeguards; nothing if they can."""
        if dtype.kind == "c" and self != NO_SAFEGUARDS:
            return "complex numbers have no thresholds and no valid range"
        if has_words(dtype) and (self.valid_range or any(self.thresholds)):
            return "integers and halves have no threshold but 0, and no valid range"
        return ""

    def include(self, others: Safeguards) -> bool:
        """Return whether these safeguards promise everything that others promise."""
        is_same_range = others.valid_range in {None, self.valid_range}
        return is_same_range and {*others.thresholds} <= {*self.thresholds}

    def broken(self, original: npt.NDArray[Any], decoded: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return where decoded values have changed sides, or left the valid range."""
        is_broken = np.zeros(original.shape, bool)
        if original.dtype.kind == "f":  # before NumPy 2, float32 would be compared in float32
            with np.errstate(invalid="ignore"):  # signalling NaNs
                original, decoded = (np.asarray(v, np.float64) for v in (original, decoded))
        for number in map(np.float64, self.thresholds):
            is_broken |= (original < number) != (decoded < number)
            is_broken |= (original > number) != (decoded > number)
        if self.valid_range:
            low, high = map(np.float64, self.valid_range)
            is_broken |= (original >= low) != (decoded >= low)
            is_broken |= (original <= high) != (decoded <= high)
        return is_broken

    def __str__(self) -> str:
        parts = [f"threshold {number:g}" for number in self.thresholds]
        if self.valid_range:
            parts.append("in [{:g}, {:g}]".format(*self.valid_range))
        return ", ".join(parts)


NO_SAFEGUARDS = Safeguards()


class Broken(NamedTuple):
    """The first value that breaks a safeguard: its number, what it was, and what it became."""

    at: int
    original: Any
    decoded: Any


class Sides:
    """Counts the values that break safeguards, or became or left an exact value."""

    def __init__(self, safeguards: Safeguards, exact: tuple[int, ...] = ()) -> None:
        self.safeguards, self.exact = safeguards, exact
        self.broken = 0
        self.first: Broken | None = None

    def empty(self) -> Sides:
        """Return an empty counter of the same kind."""
        return Sides(self.safeguards, self.exact)

    def add(
        self,
        start: int,
        original: npt.NDArray[Any],
        decoded: npt.NDArray[Any],
        mask: npt.NDArray[np.uint8] | None = None,
    ) -> None:
        """Add points from number `start` on, except those where the mask is 1."""
        broken = self.safeguards.broken(original, decoded)
        for value in self.exact:
            broken |= (original == value) != (decoded == value)
        if mask is not None:
            broken &= mask != 1
        count = int(np.count_nonzero(broken))
        if count:
            i = int(broken.argmax())
            self._count(count, Broken(start + i, original[i].item(), decoded[i].item()))

    def merge(self, other: Sides) -> None:
        """Add the results for other points of the same fields."""
        if other.first is not None:
            self._count(other.broken, other.first)

    def _count(self, count: int, first: Broken) -> None:
        self.broken += count
        if self.first is None or first.at < self.first.at:
            self.first = first

    def problem(self) -> str:
        """Say how many values are wrong."""
        exact = ", or left or became an exact value" if self.exact else ""
        return (
            f"{self.broken} values changed sides of a threshold, or left or entered the valid range"
            f"{exact}"
        )

    def __str__(self) -> str:
        return promises(self.safeguards, self.exact)


def promises(safeguards: Safeguards, exact: tuple[int, ...]) -> str:
    """Return safeguards and exact values as text."""
    return ", ".join(filter(None, [str(safeguards), *(f"exact {value}" for value in exact)]))


def _numbers(name: str, given: Any) -> list[Any]:
    """Return the numbers of an argument, which are finite as float64."""
    values = as_list(given)
    if not all(map(is_number, values)):
        raise TypeError(f"{name} takes numbers, or a tuple, list or array of them, got {given!r}")
    if not all(map(is_finite, values)):
        raise InvalidArgumentError(f"{name} takes finite numbers, got {given!r}")
    # NumPy would compare its own integers as float64.
    return [int(v) if isinstance(v, numbers.Integral) else v for v in values]

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The promise, judged in exact arithmetic.

Nothing here uses h5lossy: a mistake in `h5lossy.largest_error` must not hide one in a codec.

A value is judged in float64 if that is certain, and otherwise with rational numbers. The difference
of two numbers, and the limit with which it is compared, are each off by less than one or two ulps
in float64, so the comparison is certain unless they are within `_MARGIN` ulps of each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_MARGIN = 8.0


def bits_of(values: Array) -> Array:
    """Return the patterns of floats as integers in the machine's byte order, in one dimension."""
    flat = np.ascontiguousarray(values).reshape(-1)
    unsigned = np.dtype(f"u{flat.dtype.itemsize}")
    return flat.view(unsigned.newbyteorder(flat.dtype.byteorder)).astype(unsigned)


def floats_of(bits: Array, dtype: Any) -> Array:
    """Return the floats that have these patterns; the inverse of `bits_of`."""
    dtype = np.dtype(dtype)
    unsigned = np.dtype(f"u{dtype.itemsize}").newbyteorder(dtype.byteorder)
    return bits.astype(unsigned).view(dtype)


def pattern(value: Any, dtype: Any) -> int:
    """Return the pattern of one number in a type, which must hold it, or to which it is rounded."""
    return int(bits_of(np.array([value], np.dtype(dtype)))[0])


@dataclass(frozen=True)
class Breach:
    """A value that breaks the promise."""

    index: int
    why: str
    original: float
    original_bits: int
    decoded: float
    decoded_bits: int

    def __str__(self) -> str:
        return (
            f"value {self.index} {self.why}: {self.original!r} (0x{self.original_bits:x}) became "
            f"{self.decoded!r} (0x{self.decoded_bits:x})"
        )


def breaches(
    original: Array,
    decoded: Array,
    bound: dict[str, Any],
    fill_value: Any = None,
    *,
    maybe_padded: bool = False,
) -> list[Breach]:
    """Judge every value: give at most one of each kind of violation, none if the promise is kept.

    `bound` is one bound of one kind, as a codec takes it: ``{"absolute": 1e-3}``. Other values may
    become +0.0 even if that is the fill value; NaN counts as no fill value, since it comes back bit
    for bit anyway. In a chunk that is `maybe_padded`, zeros may be padding, so the range of a
    range-relative bound is taken without them.
    """
    assert decoded.size == original.size
    assert decoded.dtype.newbyteorder("=") == original.dtype.newbyteorder("=")
    if original.dtype.kind in "iu":
        return _breaches_of_integers(original, decoded, bound, fill_value)
    if original.dtype.kind == "c":  # by component, as the codecs take them
        original, decoded = (
            v.reshape(-1).view(f"{v.dtype.byteorder}f{v.itemsize // 2}")
            for v in (original, decoded)
        )
        fill_value = None if fill_value is None else fill_value.real
    x_bits, y_bits = bits_of(original), bits_of(decoded)
    x, y = floats_of(x_bits, _native_type(original)), floats_of(y_bits, _native_type(decoded))
    finite = np.isfinite(x)
    is_fill = np.zeros(x.shape, bool)
    became_fill = is_fill
    if fill_value is not None and not np.isnan(fill_value):
        fill_bits = pattern(fill_value, x.dtype)
        is_fill = x_bits == fill_bits
        if fill_bits != 0:
            became_fill = y_bits == fill_bits
    valid = finite & ~is_fill

    [(kind, value)] = bound.items()
    broken = np.zeros(x.shape, bool)
    if kind == "lossless":
        broken[valid] = x_bits[valid] != y_bits[valid]
    else:
        limit = Fraction(float(value))
        if kind == "range_relative":
            # Padding does not widen the range, but is judged like any other value.
            counted = x[valid]
            limit *= _extent(counted[counted != 0] if maybe_padded else counted)
        broken[valid] = _exceeds(x[valid], y[valid], limit, pointwise=kind == "pointwise_relative")

    found = {
        "is off by more than the bound": broken,
        "is a NaN or infinite, and changed a bit": ~finite & (x_bits != y_bits),
        "is the fill value, and changed a bit": is_fill & (x_bits != y_bits),
        "turned into the fill value": became_fill & ~is_fill,
    }
    result = []
    for why, where in found.items():
        for i in np.flatnonzero(where)[:1]:
            count = int(np.count_nonzero(where))
            more = f"{why} ({count} do)" if count > 1 else why
            result.append(
                Breach(int(i), more, float(x[i]), int(x_bits[i]), float(y[i]), int(y_bits[i]))
            )
    return result


def _breaches_of_integers(
    original: Array, decoded: Array, bound: dict[str, Any], fill_value: Any
) -> list[Breach]:
    """Judge integers: zero stays zero, and is no fill value that other values must not become."""
    least = Fraction(float(bound.get("absolute", 0.0)))
    noise = math.floor(256 * bound.get("noise", 0))
    fill = None if fill_value is None else int(fill_value)
    for i, (x, y) in enumerate(
        zip(original.ravel().tolist(), decoded.ravel().tolist(), strict=True)
    ):
        limit = max(least, math.isqrt(noise**2 * abs(x)) // 256)
        why = {
            "is off by more than the bound": abs(x - y) > limit,
            "is zero, and changed": x == 0 != y,
            "is the fill value, and changed": x == fill != y,
            "turned into the fill value": y == fill != x and fill != 0,
        }
        for name, is_so in why.items():
            if is_so:
                return [Breach(i, name, x, x, y, y)]
    return []


def assert_kept(
    original: Array,
    decoded: Array,
    bound: dict[str, Any],
    fill_value: Any = None,
    *,
    maybe_padded: bool = False,
) -> None:
    """Fail unless every value keeps the promise (`breaches`)."""
    found = breaches(original, decoded, bound, fill_value, maybe_padded=maybe_padded)
    assert not found, f"{bound}: " + "; ".join(map(str, found))


def assert_same_bits(actual: Array, expected: Array) -> None:
    """Fail unless two arrays hold the same patterns; NaNs count by their bits."""
    assert actual.dtype == expected.dtype
    assert actual.size == expected.size
    actual_bits, expected_bits = bits_of(actual), bits_of(expected)
    differ = np.flatnonzero(actual_bits != expected_bits)
    assert differ.size == 0, (
        f"{differ.size} values differ, the first at {differ[0]}: "
        f"0x{int(actual_bits[differ[0]]):x}, not 0x{int(expected_bits[differ[0]]):x}"
    )


def _native_type(values: Array) -> np.dtype[Any]:
    return values.dtype.newbyteorder("=")


def _extent(values: Array) -> Fraction:
    if values.size == 0:
        return Fraction(0)
    return Fraction(float(values.max())) - Fraction(float(values.min()))


def _exceeds(x: Array, y: Array, limit: Fraction, *, pointwise: bool) -> npt.NDArray[np.bool_]:
    """Return which of |x - y| exceed the limit, or the limit times |x|. x is finite."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        x, y = x.astype(np.float64), y.astype(np.float64)
        lost = ~np.isfinite(y)
        distance = np.where(lost, 0.0, np.abs(x - y))
        threshold = np.full(x.shape, _to_float(limit))
        if pointwise:
            threshold *= np.abs(x)
        exceeds = distance > threshold
        # An infinite distance has overflowed: it may still be below the limit, if that did too.
        unsure = np.abs(distance - threshold) <= _MARGIN * np.spacing(threshold)
        unsure |= np.isinf(distance)
    # Equal values are never off, and zeros are many.
    unsure &= (x != y) & ~lost
    if unsure.any():
        exceeds[unsure] = _exceeds_exactly(x[unsure], y[unsure], limit, pointwise=pointwise)
    return exceeds | lost


def _exceeds_exactly(
    x: Array, y: Array, limit: Fraction, *, pointwise: bool
) -> npt.NDArray[np.bool_]:
    pairs, which = np.unique(np.stack([x, y], axis=1), axis=0, return_inverse=True)
    verdicts = [
        abs(Fraction(a) - Fraction(b)) > limit * (abs(Fraction(a)) if pointwise else 1)
        for a, b in pairs.tolist()
    ]
    return np.array(verdicts, np.bool_)[which.reshape(-1)]


def _to_float(limit: Fraction) -> float:
    try:
        return float(limit)
    except OverflowError:
        return np.finfo(np.float64).max

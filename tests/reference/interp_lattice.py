# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Interp's lattice, and what a value is on it, as docs/format/interp.md has it."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING

import numpy as np

from . import blocks
from .common import Array, FloatType, Kind, Quantizer, bits_to_float, float_to_bits

if TYPE_CHECKING:
    from .interp_prediction import Shape

STEP_FACTOR = 4057 / 4096
"""c."""

UNIT = 16
"""Fine points to a step."""

MOST_GRADE = 3
"""Far from zero only multiples of 2^grade are fine points that an encoder uses."""


def own_quantizer(quantizer: Quantizer, float_type: FloatType) -> Quantizer:
    """Give this codec's quantizer, with a smaller step and B, from PFPL's.

    It is lossless where B is too small.
    """
    if quantizer.kind in {Kind.POINTWISE_RELATIVE, Kind.LOSSLESS}:
        return quantizer
    bound = bits_to_float(quantizer.step) / 2.0
    if bound < 2.0 ** (6 - float_type.bias):
        return Quantizer(Kind.LOSSLESS, 0)
    half = float_type.number(bound) * float_type.number(STEP_FACTOR)
    return Quantizer(quantizer.kind, float_to_bits(2.0 * float(half)), bound)


def fine_limit(float_type: FloatType) -> int:
    """Give G: fine points that an encoder uses are numbered -G to G."""
    return 2**18 - 1 if float_type.size == 4 else 2**20


def grade_of(position: Array, float_type: FloatType) -> Array:
    """Give the grades of positions, which are in 64ths of the distance of fine points."""
    grades = np.zeros(position.shape, "<i8")
    if float_type.size == 4:
        for grade in range(MOST_GRADE):
            grades += np.abs(position) >= 1 << (21 + grade)
    return grades


def nearest_point(position: Array, grade: Array | int) -> Array:
    """Give the nearest fine points of a grade, which are multiples of 2^grade."""
    points: Array = (position + (32 << grade)) >> 6 & -(1 << grade)
    return points


def are_used(numbers: Array, float_type: FloatType) -> Array:
    """Say which numbers, in floating point, are of fine points that an encoder uses."""
    near = np.abs(numbers) <= fine_limit(float_type)
    positions = 64 * np.where(near, numbers, 0).astype("<i8")
    is_point = 64 * nearest_point(positions, grade_of(positions, float_type)) == positions
    used: Array = near & is_point
    return used


def lattice_values(
    q: Array, float_type: FloatType, quantizer: Quantizer | None, *, is_fine: bool
) -> Array:
    """Give the patterns of lattice points; the lowest W bits of their numbers count.

    Without a quantizer these are words, which are their own numbers.
    """
    if quantizer is None:
        words: Array = q.astype(f"<i{float_type.size}").view(float_type.word_dtype)
        return words
    if not is_fine:
        return blocks.dequantize(q, float_type, quantizer)
    step = float_type.number(bits_to_float(quantizer.step))
    with np.errstate(all="ignore"):
        fine = step * float_type.number(1 / UNIT)
        values = q.astype(f"<i{float_type.size}").astype(float_type.float_dtype) * fine
    patterns: Array = values.view(float_type.word_dtype)
    return patterns


def own_values(q: Array, float_type: FloatType, d: float, c: float) -> Array:
    """Give the patterns of points of an own lattice from D and c."""
    number = float_type.number
    with np.errstate(all="ignore"):
        if d > 0:
            values = (q.astype("<f8") / d + c).astype(float_type.float_dtype)
        else:
            values = q.astype(float_type.float_dtype) * number(-d) + number(c)
        values = values + number(0.0)
    patterns: Array = values.view(float_type.word_dtype)
    return patterns


@dataclasses.dataclass(frozen=True)
class Values:
    """What the values of a tile are."""

    bits: Array  # their patterns
    shape: Shape  # extents of the tile
    float_type: FloatType  # their type
    quantizer: Quantizer | None  # bound kind, step and B; None of words
    fill_bits: int | None  # the fill value's pattern, if it counts
    k: Array  # number of the bin; this and the next two as int64, 0 where there is none
    g: Array  # number of the fine point
    parts: Array  # X, in 64ths of the distance of fine points
    has_bin: Array
    has_fine: Array
    is_kept: Array

    @property
    def are_bins(self) -> bool:
        """Whether there are no fine points."""
        return self.quantizer is None or self.quantizer.kind == Kind.POINTWISE_RELATIVE

    @property
    def is_exception(self) -> Array:
        """Of each value, whether it is an exception in every form."""
        result: Array = ~self.has_bin & ~self.has_fine
        return result

    @property
    def is_off_bins(self) -> Array:
        """Of each value, whether it is kept, and no bin."""
        result: Array = self.is_kept & (self.g != UNIT * self.k)
        return result


def _is_good(
    bits: Array,
    q: Array,
    float_type: FloatType,
    quantizer: Quantizer,
    fill_bits: int | None,
    *,
    is_fine: bool,
) -> Array:
    """Say of lattice points whether they are good for values."""
    points = lattice_values(q, float_type, quantizer, is_fine=is_fine)
    with np.errstate(all="ignore"):
        error = bits.view(float_type.float_dtype) - points.view(float_type.float_dtype)
    good: Array = np.abs(error) < float_type.number(quantizer.bound)
    return good if fill_bits is None else good & (points != fill_bits)


def fill_position(fill_bits: int, float_type: FloatType, quantizer: Quantizer) -> int:
    """Give the position of the fill value; far from all others where it has none."""
    number = float_type.number
    [fill] = np.array([fill_bits], float_type.word_dtype).view(float_type.float_dtype)
    with np.errstate(all="ignore"):
        t = fill * (number(1.0) / number(bits_to_float(quantizer.step)) * number(UNIT))
        if not np.abs(t) < number(fine_limit(float_type) + 16):
            return 1 << 30
    return int(np.rint(t * number(64)))


def values_of(
    bits: Array,
    shape: Shape,
    float_type: FloatType,
    quantizer: Quantizer | None,
    fill_bits: int | None = None,
) -> Values:
    """Find bins and fine points of a tile's values; without a quantizer these are words."""
    if quantizer is None:
        words = bits.view(f"<i{float_type.size}").astype("<i8")
        nothing, none = np.zeros(bits.size, "<i8"), np.zeros(bits.size, bool)
        has_bin = np.abs(words - words[0]) < 1 << 50
        if fill_bits is not None:
            has_bin &= bits != fill_bits
        return Values(
            bits, shape, float_type, None, fill_bits, words, nothing, nothing, has_bin, none, none
        )
    if quantizer.kind == Kind.POINTWISE_RELATIVE:
        q, is_exception = blocks.quantize(bits, float_type, quantizer, fill_bits)
        nothing, none = np.zeros(bits.size, "<i8"), np.zeros(bits.size, bool)
        return Values(
            bits, shape, float_type, quantizer, fill_bits,
            q.astype("<i8"), nothing, nothing, ~is_exception, none, none,
        )  # fmt: skip
    is_good = functools.partial(
        _is_good, float_type=float_type, quantizer=quantizer, fill_bits=fill_bits
    )
    x = bits.view(float_type.float_dtype)
    step = float_type.number(bits_to_float(quantizer.step))
    inverse = float_type.number(1.0) / step
    zero = float_type.number(0.0)
    limit, bin_limit = fine_limit(float_type), 1 << (float_type.mantissa_bits - 2)
    with np.errstate(all="ignore"):
        can_be = np.isfinite(x)
        if fill_bits is not None:
            can_be &= bits != fill_bits
        t = x * (inverse * float_type.number(UNIT))
        has_fine = can_be & (np.abs(t) < float_type.number(limit + 1))
        position = np.rint(np.where(has_fine, t, zero) * float_type.number(64)).astype("<i8")
        g = nearest_point(position, grade_of(position, float_type))
        has_fine &= (np.abs(g) <= limit) & is_good(bits, g, is_fine=True)
        points = lattice_values(g, float_type, quantizer, is_fine=True)
        points = points.view(float_type.float_dtype)
        is_kept = has_fine & (x == points)
        # A closed form may take any fine point that is at most eight away.
        is_at_end = np.abs(g) > limit - 8
        is_at_end |= np.abs(points) > np.finfo(float_type.float_dtype).max - step
        if fill_bits is not None:
            is_at_end |= np.abs(position - fill_position(fill_bits, float_type, quantizer)) <= 576
        has_fine &= is_kept | ~is_at_end
        g = np.where(has_fine, g, 0)
        parts = np.where(has_fine, np.where(is_kept, 64 * g, position | 1), 0)
        s = x * inverse
        in_reach = can_be & (has_fine | (np.abs(s) < float_type.number(bin_limit)))
        k = np.rint(np.where(in_reach & ~has_fine, s, zero)).astype("<i8")
        k = np.where(has_fine, (parts + 512) >> 10, k)
        nearest = lattice_values(k, float_type, quantizer, is_fine=False)
        other = k + np.where(x < nearest.view(float_type.float_dtype), -1, 1)
        k = np.where(has_fine | is_good(bits, k, is_fine=False), k, other)
        has_bin = in_reach & (has_fine | (np.abs(k) < bin_limit)) & is_good(bits, k, is_fine=False)
    k = np.where(has_bin | has_fine, k, 0)
    return Values(
        bits, shape, float_type, quantizer, fill_bits, k, g, parts, has_bin, has_fine, is_kept
    )


def are_beyond(values: Values, grade: int) -> Array:
    """Say which values a closed form of a grade cannot have, if it is below the largest one."""
    is_far: Array = np.abs(values.parts) + 512 >= 1 << (21 + grade)
    return is_far & values.has_fine & (values.float_type.size == 4)


def closed_grade(values: Values) -> int:
    """Give the grade of closed forms of a tile."""
    grades = range(MOST_GRADE)
    few = [g for g in grades if np.count_nonzero(are_beyond(values, g)) <= values.bits.size // 128]
    return min(few, default=MOST_GRADE)


def nearest_bins(values: Values) -> tuple[Array, Array]:
    """Find bins for exceptions of forms on bins: the nearest ones, and whether there is one."""
    if values.quantizer is None or values.are_bins:
        return np.zeros(values.bits.size, "<i8"), np.zeros(values.bits.size, bool)
    number = values.float_type.number
    x = values.bits.view(values.float_type.float_dtype)
    with np.errstate(all="ignore"):
        s = x * (number(1.0) / number(bits_to_float(values.quantizer.step)))
        has_nearest = np.abs(s) < number(1 << (values.float_type.mantissa_bits - 2))
    if values.fill_bits is not None:
        has_nearest &= values.bits != values.fill_bits
    return np.rint(np.where(has_nearest, s, number(0.0))).astype("<i8"), has_nearest

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Hypothesis strategies for hostile data: bit patterns, placed where codecs can go wrong.

A field is drawn as a few *pieces* (a run, a ramp, noise, values near the borders of bins), so that
a failing field shrinks to the relevant piece, and still a field of several tiles is drawn fast.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import hypothesis
import numpy as np
from hypothesis import strategies as st

from checks import Array, bits_of, floats_of, pattern

KINDS = ["absolute", "pointwise_relative", "range_relative", "lossless"]

in_every_mode = hypothesis.settings(max_examples=hypothesis.settings().max_examples // 4)
"""For tests of every mode of every codec: fewer examples of each, but more in total."""

MANTISSA_BITS = {4: 23, 8: 52}
BIASES = {4: 127, 8: 1023}


def special_patterns(size: int) -> dict[str, int]:
    """Return the special patterns of a float type of `size` bytes, by name."""
    m = MANTISSA_BITS[size]
    sign = 1 << (8 * size - 1)
    infinity = sign - (1 << m)
    quiet = 1 << (m - 1)
    return {
        "zero": 0,
        "negative_zero": sign,
        "smallest_subnormal": 1,
        "negative_smallest_subnormal": sign | 1,
        "largest_subnormal": (1 << m) - 1,
        "smallest_normal": 1 << m,
        "negative_smallest_normal": sign | 1 << m,
        "largest": infinity - 1,
        "negative_largest": sign | (infinity - 1),
        "infinity": infinity,
        "negative_infinity": sign | infinity,
        "nan": infinity | quiet,
        "negative_nan": sign | infinity | quiet,
        "nan_with_payload": infinity | quiet | 0x1234,
        "negative_nan_with_payload": sign | infinity | quiet | 0x1234,
        "signalling_nan": infinity | 1,
        "negative_signalling_nan": sign | infinity | 1,
        "nan_all_ones": sign - 1,
        "negative_nan_all_ones": 2 * sign - 1,
        "one": BIASES[size] << m,
        "negative_one": sign | BIASES[size] << m,
    }


# Around groups of 32 and 64 values, tiles of 2048 and 4096, and the bytes that a bitmap covers.
COUNTS = [0, 1, 2, 3, 7, 8, 31, 32, 33, 63, 64, 65, 95, 127, 128, 129, 255, 1000]
TILE_COUNTS = [2047, 2048, 2049, 2080, 4095, 4096, 4097, 4129, 8191, 8192, 8193, 10000]


def bound_values(kind: str) -> st.SearchStrategy[float]:
    """Draw the value of a bound: of any magnitude, and near roundings of float32 and float64."""
    edges = [
        5e-324,
        2.0**-1074 * 3,
        np.nextafter(2.0**-1022, 0.0),
        2.0**-1022,
        2.0**-149,
        np.nextafter(2.0**-126, 0.0),
        2.0**-126,
        np.nextafter(2.0**-126, 1.0),
        2.0**-53,
        2.0**-52,
        2.0**-23,
        np.nextafter(2.0**-23, 0.0),
        2.0**-22,
        1e-7,
        1e-3,
        0.1,
        0.25,
        0.5,
        np.nextafter(1.0, 0.0),
    ]
    beyond_one = [
        1.0,
        1.5,
        3.0,
        2.0**22,
        1e35,
        2.0**124,
        np.nextafter(2.0**124, np.inf),
        2.0**127,
        float(np.finfo(np.float32).max),
        2.0**128,
        2.0**1020,
        np.nextafter(2.0**1020, np.inf),
        2.0**1023,
        float(np.finfo(np.float64).max),
    ]
    largest = np.nextafter(1.0, 0.0) if kind == "pointwise_relative" else 1e300
    exponents = st.integers(-60, -1) if kind == "pointwise_relative" else st.integers(-160, 160)
    powers = st.builds(
        lambda exponent, ulps: float(2.0**exponent * (1 + ulps * 2.0**-52)),
        exponents,
        st.integers(-4, 4),
    )
    float32s = st.floats(2.0**-20, 0.875, width=32)
    return (
        st.sampled_from(edges if kind == "pointwise_relative" else edges + beyond_one).map(float)
        | powers
        | float32s.map(float)
        | st.floats(1e-12, 0.5)
        | st.floats(5e-324, largest)
    ).filter(lambda value: 0 < value <= (largest if kind == "pointwise_relative" else np.inf))


def bounds(kinds: list[str] = KINDS) -> st.SearchStrategy[dict[str, Any]]:
    """Draw a bound as arguments of a codec."""

    def of_kind(kind: str) -> st.SearchStrategy[dict[str, Any]]:
        if kind == "lossless":
            return st.just({"lossless": True})
        return bound_values(kind).map(lambda value: {kind: value})

    return st.sampled_from(kinds).flatmap(of_kind)


def border_values(size: int, bound: dict[str, Any], bins: Array) -> Array:
    """Return patterns of values halfway between bins: `bins` counts halves of a bin's width.

    Values beyond the type's range are infinite. Even numbers of halves are reconstructions.
    """
    float_type, m = np.dtype(f"f{size}"), MANTISSA_BITS[size]
    [(kind, value)] = bound.items()
    if kind == "pointwise_relative":
        reach = max(int(min(value, 0.5) * 2.0**m), 1)
        near = (BIASES[size] << m) + bins.astype(object) * (2 * reach + 1) // 2
        top = 1 << (8 * size - 1)
        positive = np.array([min(max(int(n), 1), top - 1) for n in near], f"u{size}")
        negative = bins % 3 == 0
        return np.where(negative, positive | positive.dtype.type(top), positive)
    largest = 2.0 ** (BIASES[size] - 3)
    half_width = np.array(min(value, largest) if kind != "lossless" else 1.0)
    with np.errstate(over="ignore", under="ignore"):
        narrow = half_width.astype(float_type)
        if narrow > half_width:  # the codec rounds toward zero
            narrow = np.nextafter(narrow, float_type.type(0))
        return bits_of(bins.astype(float_type) * narrow)


Piece = Callable[[int, "dict[str, Any]"], Array]
"""Makes patterns for a type of a given number of bytes, and a bound."""


def _run(word: int, count: int) -> Piece:
    return lambda size, _: np.full(count, word % (1 << 8 * size), f"u{size}")


def _special(name: str, count: int, offset: int) -> Piece:
    return lambda size, _: np.full(
        count, (special_patterns(size)[name] + offset) % (1 << 8 * size), f"u{size}"
    )


def _ramp(start: int, delta: int, count: int) -> Piece:
    def make(size: int, _: dict[str, Any]) -> Array:
        words = np.arange(count, dtype=np.uint64) * np.uint64(delta % 2**64) + np.uint64(start)
        return words.astype(f"u{size}")

    return make


def _noise(seed: int, count: int) -> Piece:
    return lambda size, _: np.frombuffer(
        np.random.default_rng(seed).bytes(count * size), f"u{size}"
    ).copy()


def _walk(seed: int, exponent: int, count: int) -> Piece:
    def make(size: int, _: dict[str, Any]) -> Array:
        steps = np.random.default_rng(seed).standard_normal(count)
        with np.errstate(over="ignore", under="ignore"):
            return bits_of((steps.cumsum() * 2.0**exponent).astype(f"f{size}"))

    return make


def _borders(seed: int, magnitude: int, ulps: int, count: int) -> Piece:
    """Make values up to `ulps` away from the borders of bins, up to bin 2**magnitude."""

    def make(size: int, bound: dict[str, Any]) -> Array:
        rng = np.random.default_rng(seed)
        top = 2 ** min(magnitude, MANTISSA_BITS[size] + 2)
        bins = rng.integers(-top, top + 1, count)
        edge = rng.integers(0, 4, count) == 0  # where reach ends, and where binades do
        bins[edge] = top + bins[edge] % 9 - 4
        offsets = rng.integers(-ulps, ulps + 1, count).astype(f"i{size}").view(f"u{size}")
        return border_values(size, bound, bins) + offsets

    return make


def _counts(limit: int) -> st.SearchStrategy[int]:
    return st.sampled_from([n for n in COUNTS + TILE_COUNTS if n <= limit])


def pieces(limit: int) -> st.SearchStrategy[Piece]:
    """Draw a piece of a field of at most `limit` values."""
    words = st.integers(0, 2**64 - 1)
    seeds = st.integers(0, 2**32 - 1)
    few = st.integers(1, 5)
    counts = _counts(limit)
    special = st.sampled_from(sorted(special_patterns(4)))
    return st.one_of(
        st.builds(_special, special, few, st.integers(-2, 2)),
        st.builds(_run, words, few),
        st.builds(_special, special, counts, st.just(0)),
        st.builds(_run, words, counts),
        st.builds(_ramp, words, st.integers(-(2**33), 2**33), counts),
        st.builds(_noise, seeds, counts),
        st.builds(_walk, seeds, st.integers(-130, 110), counts),
        st.builds(_borders, seeds, st.integers(0, 54), st.integers(0, 3), counts),
        st.builds(_borders, seeds, st.integers(0, 54), st.integers(0, 3), counts),
    )


@dataclass(frozen=True)
class Chunk:
    """Values and the settings with which they are encoded."""

    values: Array
    bound: dict[str, Any]
    fill_value: Any

    @property
    def fill_bits(self) -> int | None:
        """The fill value's pattern."""
        return None if self.fill_value is None else pattern(self.fill_value, self.values.dtype)

    def __repr__(self) -> str:
        head = ", ".join(f"0x{word:x}" for word in bits_of(self.values)[:20].tolist())
        dtype = self.values.dtype
        fill = "none" if self.fill_value is None else hex(pattern(self.fill_value, dtype))
        shape = " x ".join(map(str, self.values.shape))
        return f"Chunk({shape} x {dtype.str}: {head} ...; {self.bound}; fill {fill})"


FILL_VALUES = [-999.0, 1e35, 9.96921e36, -0.0, 0.0, 1e-40, np.inf, 1.0, -1.0]


@st.composite
def chunks(
    draw: st.DrawFn,
    dtype: Any,
    kinds: list[str] = KINDS,
    *,
    max_count: int = 10000,
    with_fill: bool | None = None,
) -> Chunk:
    """Draw values of a type with a bound, and with a fill value, without one, or either.

    The fill value is a usual one, a value of the data, or a number to which values may decode.
    """
    dtype = np.dtype(dtype)
    size = dtype.itemsize
    bound = draw(bounds(kinds))
    words = np.concatenate(
        [
            np.zeros(0, f"u{size}"),
            *(
                make(size, bound)
                for make in draw(st.lists(pieces(max_count), min_size=0, max_size=5))
            ),
        ]
    )[:max_count]
    fill_value = None
    if draw(st.booleans()) if with_fill is None else with_fill:
        where = draw(st.sampled_from(["usual", "data", "bin"]))
        if where == "usual" or (where == "data" and not words.size):
            fill_value = dtype.type(draw(st.sampled_from(FILL_VALUES)))
        elif where == "data":
            index = draw(st.integers(0, words.size - 1))
            fill_value = floats_of(words[index : index + 1], f"f{size}")[0]
        else:
            bins = np.array([2 * draw(st.integers(-100, 100))])
            fill_value = floats_of(border_values(size, bound, bins), f"f{size}")[0]
            # Values about the fill value, which would turn into it.
            offsets = np.arange(-2, 3).astype(f"i{size}").view(f"u{size}")
            fill_word = bits_of(np.array([fill_value]))
            words = np.concatenate([fill_word + offsets, words])
    # A run of one value beside them, so that frame and tile shrink and are not stored.
    ease = np.full(draw(st.sampled_from([0, 40, 500, 3000])), words[-1] if words.size else 0)
    words = np.concatenate([words, ease.astype(words.dtype)])
    return Chunk(floats_of(words, dtype), bound, fill_value)


# About the extents of blocks of 8 x 8 and 4 x 4 x 4 values, and of tiles of 64 such blocks.
EXTENTS = [1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100]


@st.composite
def shaped_chunks(
    draw: st.DrawFn,
    dtype: Any,
    kinds: list[str] = KINDS,
    *,
    max_count: int = 10000,
    with_fill: bool | None = None,
) -> Chunk:
    """Draw values in one to four dimensions (`chunks`); those that do not fit are dropped."""
    chunk = draw(chunks(dtype, kinds, max_count=max_count, with_fill=with_fill))
    inner: list[int] = []
    for extent in draw(st.lists(st.sampled_from(EXTENTS), max_size=3)):
        if math.prod(inner) * extent <= chunk.values.size:
            inner.append(extent)
    shape = (chunk.values.size // math.prod(inner), *inner)
    values = chunk.values[: math.prod(shape)].reshape(shape)
    return dataclasses.replace(chunk, values=values)

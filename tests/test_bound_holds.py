# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The promise: no value is off by more than the bound, in exact arithmetic, whatever the data."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import h5lossy
from checks import Array, assert_kept, assert_same_bits, bits_of, floats_of
from h5lossy import PFPL, _native
from matrix import DTYPES, SMALLEST_BOUNDS
from strategies import (
    BIASES,
    COUNTS,
    KINDS,
    MANTISSA_BITS,
    TILE_COUNTS,
    border_values,
    in_every_mode,
    shaped_chunks,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from h5lossy._codecs import Codec

    Setting = Callable[..., Codec]


def round_trip(values: Array, codec: Codec, fill_value: Any = None) -> Array:
    return h5lossy.decode(h5lossy.encode(values, codec, fill_value=fill_value), shape=values.shape)


def neighbours(values: Array, ulps: int) -> Array:
    """Return the values and those up to `ulps` patterns away, of both signs."""
    size = values.dtype.itemsize
    words = bits_of(values)
    words = np.concatenate(
        [words + np.array(k).astype(words.dtype) for k in range(-ulps, ulps + 1)]
    )
    sign = words.dtype.type(1 << (8 * size - 1))
    return floats_of(np.concatenate([words, words ^ sign]), values.dtype)


# ------------------------------------------------------------------------------------------------
# Any data, any bound
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@in_every_mode
@hypothesis.given(dtype=st.sampled_from(DTYPES), data=st.data())
def test_no_value_leaves_the_bound(
    setting: Setting, kind: str, dtype: str, data: st.DataObject
) -> None:
    chunk = data.draw(shaped_chunks(dtype, [kind]))
    decoded = round_trip(chunk.values, setting(**chunk.bound), chunk.fill_value)
    assert_kept(chunk.values, decoded, chunk.bound, chunk.fill_value)


@hypothesis.given(data=st.data())
def test_no_value_of_a_padded_chunk_leaves_the_bound(setting: Setting, data: st.DataObject) -> None:
    chunk = data.draw(shaped_chunks("<f4"))
    params = dataclasses.replace(
        setting(**chunk.bound).params(),
        value_bytes=4,
        fill_bits=chunk.fill_bits,
        maybe_padded=True,
        shape=tuple(n for n in chunk.values.shape if n > 1),
    )
    decoded = h5lossy.decode(_native.encode(params, chunk.values))
    assert_kept(chunk.values, decoded, chunk.bound, chunk.fill_value, maybe_padded=True)


@hypothesis.given(dtype=st.sampled_from(DTYPES), data=st.data())
def test_no_frame_takes_more_than_its_values_and_a_header(
    setting: Setting, dtype: str, data: st.DataObject
) -> None:
    chunk = data.draw(shaped_chunks(dtype))
    frame = h5lossy.encode(chunk.values, setting(**chunk.bound), fill_value=chunk.fill_value)
    assert len(frame) <= chunk.values.nbytes + 40 == h5lossy.max_encoded_size(chunk.values.nbytes)


# ------------------------------------------------------------------------------------------------
# Values placed where a quantizer can go wrong
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["absolute", "pointwise_relative"])
def test_values_on_the_borders_of_bins_are_within_the_bound(
    setting: Setting, dtype: np.dtype[Any], kind: str
) -> None:
    size = dtype.itemsize
    m = MANTISSA_BITS[size]
    powers = [2**k + j for k in range(m + 3) for j in range(-3, 4)]
    spread = np.random.default_rng(1).integers(0, 2 ** (m + 1), 4000)
    bins = np.concatenate([np.arange(500), powers, spread])
    for value in (0.5, 0.25, 1e-1, 1e-3, 3e-5, 1.2e-7, 1e-9, 1e-14):
        bound = {kind: value}
        values = neighbours(floats_of(border_values(size, bound, bins), dtype), 3)
        assert_kept(values, round_trip(values, setting(**bound)), bound)


def test_the_value_below_half_a_bin_of_a_power_of_two_is_not_rounded_up(
    setting: Setting, dtype: np.dtype[Any]
) -> None:
    # With trunc(s + 0.5) it would be, and the float32 check would not see it.
    for value in (2.0**-30, 0.5, 1.0, 1024.0):
        values = np.full(100, np.nextafter(dtype.type(value), dtype.type(0)))
        codec = setting(absolute=value)
        decoded = round_trip(values, codec)
        assert_kept(values, decoded, {"absolute": value})
        if codec.step_share == 1:
            assert not decoded.any()


@pytest.mark.parametrize("value", [1e-3, 0.1, 0.3, 1e-6])
def test_a_bound_that_float32_cannot_hold_is_not_widened(setting: Setting, value: float) -> None:
    # float32(1e-3) is above 1e-3; so is the error of float32(1e-3) if it is taken for a bound.
    start = np.float32(value)
    values = neighbours(np.arange(1, 2000, dtype=np.float32) * start, 2)
    assert_kept(values, round_trip(values, setting(absolute=value)), {"absolute": value})


def test_values_about_the_largest_bin_are_within_the_bound(
    setting: Setting, dtype: np.dtype[Any]
) -> None:
    limit = 2 ** (MANTISSA_BITS[dtype.itemsize] - 1)
    halves = np.arange(2 * limit - 40, 2 * limit + 41)
    for bound in ({"absolute": 1.0}, {"absolute": 1e-3}, {"absolute": 2.0**-20}):
        values = neighbours(floats_of(border_values(dtype.itemsize, bound, halves), dtype), 3)
        assert_kept(values, round_trip(values, setting(**bound)), bound)


@pytest.mark.parametrize("kind", ["absolute", "range_relative"])
@pytest.mark.parametrize("scale", [1e-3, 1.0])
def test_the_whole_range_of_a_type_fits_a_bound(
    setting: Setting, dtype: np.dtype[Any], kind: str, scale: float
) -> None:
    # max - min overflows, and so may twice the bound.
    largest = np.finfo(dtype).max
    values = np.linspace(-0.5, 0.5, 5001).astype(dtype) * dtype.type(2 * scale)
    values = values * largest
    values[:2] = largest, -largest
    bound = {kind: scale * (float(largest) if kind == "absolute" else 1.0)}
    decoded = round_trip(values, setting(**bound))
    assert np.isfinite(decoded).all()
    assert_kept(values, decoded, bound)


def test_bounds_about_the_smallest_normal_number_keep_subnormal_values(
    setting: Setting, dtype: np.dtype[Any]
) -> None:
    tiny = floats_of(np.arange(5000), dtype)
    values = neighbours(np.concatenate([tiny, tiny * 1000, np.ldexp(tiny, 20)]), 1)
    for factor in (0.5, 0.999, 1.0, 1.001, 2.0, 1e10):
        bound = {"absolute": factor * float(np.finfo(dtype).smallest_normal)}
        assert_kept(values, round_trip(values, setting(**bound)), bound)


def test_every_binade_keeps_a_pointwise_relative_bound(
    setting: Setting, dtype: np.dtype[Any]
) -> None:
    size = dtype.itemsize
    m = MANTISSA_BITS[size]
    binades = np.arange(0, 2 * BIASES[size] + 2, 1 if size == 4 else 5, dtype=f"u{size}")
    mantissas = np.array([0, 1, 2, 3, (1 << m) // 3, (1 << m) - 2, (1 << m) - 1], f"u{size}")
    words = (binades[:, None] << binades.dtype.type(m) | mantissas).reshape(-1)
    values = neighbours(floats_of(words, dtype), 0)
    finite = np.isfinite(values)
    for value in (0.999, 0.5, 1e-3, 3.1e-5, 3e-6, 2.0**-23, 2.0**-40, 2.0**-52):
        decoded = round_trip(values, setting(pointwise_relative=value))
        assert_kept(values, decoded, {"pointwise_relative": value})
        assert (np.sign(values[finite]) == np.sign(decoded[finite])).all()


@pytest.mark.parametrize(
    "bound",
    [
        {"absolute": 1e-3},
        {"absolute": 2.0**-22},
        {"absolute": float(np.nextafter(np.float32(2.0**-21), np.float32(0)))},
        {"pointwise_relative": 1e-3},
        {"pointwise_relative": 1.3e-7},
        {"range_relative": 1e-6},
    ],
    ids=lambda bound: "-".join(f"{kind}-{value:.3g}" for kind, value in bound.items()),
)
def test_float32s_from_1_to_2_are_within_the_bound(setting: Setting, bound: dict[str, Any]) -> None:
    # All of them: test_exhaustive.py.
    values = np.arange(0x3F800000, 0x40000001, 61, dtype="<u4").view("<f4")
    assert_kept(values, round_trip(values, setting(**bound)), bound)


# ------------------------------------------------------------------------------------------------
# What a bound may be
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "bound"),
    [
        ("<f4", {"absolute": np.nextafter(2.0**-126, 0.0)}),
        ("<f4", {"absolute": 5e-324}),
        ("<f4", {"pointwise_relative": np.nextafter(2.0**-23, 0.0)}),
        ("<f4", {"range_relative": 1e-45}),
        ("<f8", {"absolute": np.nextafter(2.0**-1022, 0.0)}),
        ("<f8", {"pointwise_relative": np.nextafter(2.0**-52, 0.0)}),
        ("<f8", {"range_relative": 5e-324}),
    ],
)
def test_a_bound_too_small_for_bins_keeps_every_bit(
    setting: Setting, dtype: str, bound: dict[str, Any]
) -> None:
    values = neighbours(np.linspace(-3, 5, 1001).astype(dtype), 1)
    values[:3] = 0.0, -0.0, np.finfo(dtype).smallest_subnormal
    frame = h5lossy.encode(np.concatenate([values, np.zeros(3000, dtype)]), setting(**bound))
    info = h5lossy.inspect(frame)
    assert str(info.bound) == "lossless"
    assert info.requested_bound == next(iter(bound.values()))
    assert_same_bits(h5lossy.decode(frame, 0, values.size), values)


@pytest.mark.parametrize(
    ("dtype", "bound", "step"),
    [
        ("<f4", {"absolute": 2.0**-126}, 2.0**-125),
        ("<f4", {"absolute": 2.0**124}, 2.0**125),
        ("<f4", {"absolute": 1e300}, 2.0**125),
        ("<f8", {"absolute": 2.0**-1022}, 2.0**-1021),
        ("<f8", {"absolute": np.finfo(np.float64).max}, 2.0**1021),
        # The nearest float32 is above 0.1, and would be a looser bound.
        ("<f4", {"absolute": 0.1}, 2 * float(np.nextafter(np.float32(0.1), np.float32(0)))),
    ],
)
def test_the_limits_of_an_absolute_bound_still_make_bins(
    setting: Setting, dtype: str, bound: dict[str, Any], step: float
) -> None:
    absolute = bound["absolute"]
    codec = setting(absolute=absolute)
    if step < 1e-30:
        factor = SMALLEST_BOUNDS.get(codec.codec_name, 1.0)
        codec, absolute, step = (
            setting(absolute=factor * absolute),
            factor * absolute,
            factor * step,
        )
    info = h5lossy.inspect(h5lossy.encode(np.zeros(100, dtype), codec))
    assert info.bound == h5lossy.ErrorBound("absolute", absolute)
    number = np.dtype(dtype).type
    assert info.step == 2 * float(number(step / 2) * number(codec.step_share))


def test_a_range_relative_bound_without_a_range_keeps_every_bit(
    setting: Setting, dtype: np.dtype[Any]
) -> None:
    for values in ([], [7.0] * 50, [np.nan, np.inf, -np.inf] * 20, [0.0, -0.0] * 9):
        original = np.array(values, dtype)
        assert_same_bits(round_trip(original, setting(range_relative=0.1)), original)


def test_a_range_relative_bound_leaves_the_fill_value_out_of_the_range(setting: Setting) -> None:
    values = np.linspace(0, 1, 5000, dtype="<f4")
    values[100:200] = 1e35
    codec = setting(range_relative=1e-3)
    step = h5lossy.inspect(h5lossy.encode(values, codec, fill_value=np.float32(1e35))).step
    assert 1.99e-3 < step / codec.step_share < 2e-3


def test_a_range_relative_bound_leaves_what_is_not_finite_out_of_the_range(
    setting: Setting,
) -> None:
    for edge, place in itertools.product((np.nan, np.inf, -np.inf), (0, 2500, 4999)):
        values = np.linspace(2, 3, 5000, dtype="<f8")
        values[place] = edge
        codec = setting(range_relative=1e-3)
        info = h5lossy.inspect(h5lossy.encode(values, codec))
        assert 1.99e-3 < info.step / codec.step_share < 2e-3, (edge, place)


def test_padding_does_not_widen_a_range_relative_bound(setting: Setting) -> None:
    values = np.concatenate([np.linspace(1000, 1001, 5000), np.zeros(500), -np.zeros(500)])
    codec = setting(range_relative=1e-3)
    params = dataclasses.replace(codec.params(), value_bytes=8)
    padded = dataclasses.replace(params, maybe_padded=True)
    with_range, with_zeros = (
        h5lossy.inspect(_native.encode(one, values)).step / codec.step_share
        for one in (padded, params)
    )
    assert 1.99e-3 < with_range < 2e-3
    assert 1.99 < with_zeros < 2.003


# ------------------------------------------------------------------------------------------------
# Sizes and shapes
# ------------------------------------------------------------------------------------------------


def test_any_number_of_values_is_kept(
    setting: Setting, dtype: np.dtype[Any], bound: dict[str, Any]
) -> None:
    codec = setting(**bound)
    for count in [*COUNTS, *TILE_COUNTS, 12288, 32769]:
        values = (np.sin(np.arange(count) / 50) * 20).astype(dtype)
        frame = h5lossy.encode(values, codec)
        decoded = h5lossy.decode(frame)
        assert decoded.dtype == dtype
        assert h5lossy.inspect(frame).count == count
        assert_kept(values, decoded, bound)


RANKS: list[tuple[int, ...]] = [
    (),
    (1,),
    (5, 0, 7),
    (3, 1, 5),
    (40, 50),
    (7, 11, 13),
    (2,) * 12,
    (1,) * 20 + (300,),
]


def test_any_rank_is_kept(setting: Setting, bound: dict[str, Any]) -> None:
    for shape in RANKS:
        values = np.random.default_rng(3).standard_normal(shape).astype("<f4")
        decoded = round_trip(values, setting(**bound))
        assert decoded.shape == values.shape
        assert_kept(values, decoded, bound)


# Blocks of 8 x 8 and 4 x 4 x 4 values, 64 of them in a tile: whole ones, and such that have a part
# of their values inside of the data, along each axis.
SHAPES = [
    (8, 8),
    (7, 8),
    (8, 7),
    (9, 9),
    (1, 64),
    (2, 1000),
    (1000, 2),
    (64, 64),
    (64, 65),
    (65, 64),
    (72, 72),
    (4, 4, 4),
    (3, 4, 4),
    (4, 3, 4),
    (4, 4, 3),
    (5, 5, 5),
    (16, 16, 16),
    (17, 16, 16),
    (16, 15, 17),
    (2, 3, 900),
    (900, 3, 2),
    (3, 1, 40, 1, 50),
    (3, 4, 5, 6, 7),
]


def test_any_extents_are_kept(
    setting: Setting, bound: dict[str, Any], dtype: np.dtype[Any]
) -> None:
    codec = setting(**bound)
    for shape in SHAPES:
        # A slope along each axis: a value in the place of another is off by much.
        slopes = (1.5 * (i + 1) * np.sqrt(axis) for i, axis in enumerate(np.indices(shape)))
        values = np.asarray(sum(slopes)).astype(dtype)
        frame = h5lossy.encode(values, codec)
        assert_kept(values, h5lossy.decode(frame, shape=shape), bound)
        info = h5lossy.inspect(frame)
        if info.dims:
            extents = [n for n in shape if n > 1]
            assert info.dims[-2:] == tuple([1, *extents][-2:])
            assert np.prod(info.dims) == values.size
            if "dimensions" in info.settings:
                assert 2 <= info.settings["dimensions"] <= len(extents)
        # Each part, as from the whole.
        whole = h5lossy.decode(frame)
        for start in range(0, values.size, values.size // 3 + 1):
            stop = min(values.size, start + 77)
            assert_same_bits(h5lossy.decode(frame, start, stop), whole[start:stop])


PLAIN_FIELDS: list[Array] = [
    np.zeros(10000),
    np.full(10000, 273.15),
    np.tile([3e38, -3e38], 5000),
    np.arange(10000.0),
    np.repeat([1.0, 1e-30, 1e30, np.nan], 2500),
]


def test_plain_fields_are_kept(
    setting: Setting, dtype: np.dtype[Any], bound: dict[str, Any]
) -> None:
    codec = setting(**bound)
    for field in PLAIN_FIELDS:
        values = field.astype(dtype).reshape(20, 20, 25)
        frame = h5lossy.encode(values, codec)
        assert_kept(values, h5lossy.decode(frame), bound)
        # The others keep differences in as many bits as the largest of a block needs.
        if isinstance(codec, PFPL) or (values == values.flat[0]).all():
            assert len(frame) < values.nbytes / 4


@pytest.mark.parametrize("bound", [{"absolute": 1e-3}, {"lossless": True}], ids=str)
def test_noise_keeps_every_bit_where_it_is_stored(
    setting: Setting, dtype: np.dtype[Any], bound: dict[str, Any]
) -> None:
    codec = setting(**bound)
    words = np.frombuffer(np.random.default_rng(7).bytes(40000), f"u{dtype.itemsize}")
    values = floats_of(words, dtype)
    frame = h5lossy.encode(values, codec)
    decoded = h5lossy.decode(frame)
    assert_kept(values, decoded, bound)
    if h5lossy.inspect(frame).codec == "stored":
        assert_same_bits(decoded, values)
    else:  # half of the values are nearer to 0 than the bound, and a bit is enough to say so
        assert "absolute" in bound
        assert not isinstance(codec, PFPL)


def test_bytes_that_are_no_whole_values_come_back_as_they_were(
    codec: type[Codec], bound: dict[str, Any]
) -> None:
    for raw_bytes, value_bytes in itertools.product((1, 3, 5, 4095, 4097, 16385), (0, 4, 8)):
        raw = np.frombuffer(np.random.default_rng(9).bytes(raw_bytes), np.uint8)
        params = dataclasses.replace(codec(**bound).params(), value_bytes=value_bytes)
        frame = _native.encode(params, raw)
        info = h5lossy.inspect(frame)
        assert info.dtype == np.dtype(np.uint8)
        assert (info.raw_bytes, len(frame)) == (raw_bytes, raw_bytes + 40)
        assert h5lossy.decode(frame).tobytes() == raw.tobytes()


# ------------------------------------------------------------------------------------------------
# The judge itself
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bound", "x", "y", "broken"),
    [
        ({"absolute": 0.5}, 1.0, 1.5, False),
        ({"absolute": 0.5}, 1.0, np.nextafter(1.5, 2), True),
        # The float64 difference is 1.0 exactly; the true one is above it.
        ({"absolute": 1.0}, 1.0, -(2.0**-60), True),
        ({"absolute": 1.0}, 1.0, 2.0**-60, False),
        ({"absolute": 1e-3}, 0.0, float(np.float32(1e-3)), True),
        ({"absolute": 1e308}, 1.7e308, -1.7e308, True),
        ({"absolute": 1.0}, 1.0, np.nan, True),
        ({"absolute": 1.0}, 1.0, np.inf, True),
        ({"absolute": 1.0}, np.nan, 1.0, True),
        ({"absolute": 1.0}, -0.0, 0.0, False),
        ({"pointwise_relative": 0.25}, 4.0, 5.0, False),
        ({"pointwise_relative": 0.25}, 4.0, np.nextafter(5.0, 6), True),
        ({"pointwise_relative": 0.25}, 0.0, 5e-324, True),
        ({"pointwise_relative": 0.25}, 5e-324, 0.0, True),
        ({"range_relative": 0.125}, 1.0, 1.375, False),
        ({"range_relative": 0.125}, 1.0, np.nextafter(1.375, 2), True),
        ({"lossless": True}, 0.0, -0.0, True),
        ({"lossless": True}, 1.0, 1.0, False),
    ],
)
def test_the_judge_is_exact(bound: dict[str, Any], x: float, y: float, broken: bool) -> None:
    # Beside the pair, 0 and 3 give the range-relative bound a range.
    original, decoded = np.array([x, 0.0, 3.0]), np.array([y, 0.0, 3.0])
    if broken:
        with pytest.raises(AssertionError, match="value 0 "):
            assert_kept(original, decoded, bound)
    else:
        assert_kept(original, decoded, bound)


@pytest.mark.parametrize(("x", "y"), [(-999.0, -998.5), (-998.5, -999.0)])
def test_the_judge_looks_after_the_fill_value(x: float, y: float) -> None:
    with pytest.raises(AssertionError, match="fill value"):
        assert_kept(np.array([x]), np.array([y]), {"absolute": 1.0}, np.float64(-999.0))

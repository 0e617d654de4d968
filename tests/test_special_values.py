# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""NaNs, infinities, zeros, subnormals and fill values come back bit for bit where they must."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import h5lossy
from checks import Array, assert_kept, assert_same_bits, bits_of, floats_of, pattern
from h5lossy import PFPL, Interp
from matrix import DTYPES
from strategies import shaped_chunks, special_patterns

if TYPE_CHECKING:
    from collections.abc import Callable

    from h5lossy._codecs import Codec

NANS = [name for name in special_patterns(4) if "nan" in name]
NEGATIVE_NANS = [name for name in NANS if name.startswith("negative")]


def background(dtype: Any, count: int = 6000) -> Array:
    """Return a smooth field that can be compressed, with values near 0."""
    return (np.sin(np.arange(count) / 300) * 40).astype(dtype)


def on_bins(setting: Callable[..., Codec]) -> Callable[..., Codec]:
    """Return a setting with which each value is decoded independently of its neighbours."""
    if isinstance(setting(absolute=1.0), Interp):
        return functools.partial(setting, rewritable=True)
    return setting


def with_pattern(values: Array, word: Any, where: Any) -> Array:
    """Return a copy that holds a pattern (or several) in places, set without a float operation."""
    words = bits_of(values)
    words[where] = word
    return floats_of(words, values.dtype)


def round_trip(values: Array, codec: Codec, fill_value: Any = None) -> Array:
    return h5lossy.decode(h5lossy.encode(values, codec, fill_value=fill_value))


# ------------------------------------------------------------------------------------------------
# Special values
# ------------------------------------------------------------------------------------------------


def test_what_is_not_finite_comes_back_bit_for_bit(
    setting: Callable[..., Codec], dtype: np.dtype[Any], bound: dict[str, Any]
) -> None:
    for name in (*NANS, "infinity", "negative_infinity"):
        word = special_patterns(dtype.itemsize)[name]
        for where in ([0], [5999], [31, 32, 64], slice(5, 6000, 7), slice(None)):
            values = with_pattern(background(dtype), word, where)
            decoded = round_trip(values, setting(**bound))
            assert (bits_of(decoded)[where] == word).all(), (name, where)
            assert_kept(values, decoded, bound)


# Exceptions are kept by bits for groups, blocks and values, and apart from those where a whole
# block consists of them, or all of its are the same.
PLACES: dict[str, Any] = {
    "first": [0],
    "last": [5999],
    "first of blocks": slice(0, 6000, 32),
    "one block": slice(64, 96),
    "but one of a block": slice(65, 96),
    "one group": slice(1024, 2048),
    "a tile": slice(0, 4096),
    "but one of all": slice(1, 6000),
    "all": slice(None),
    "every other": slice(0, 6000, 2),
    "here and there": np.random.default_rng(4).integers(0, 6000, 200),
    "nearly all": np.random.default_rng(5).integers(0, 6000, 20000),
}


@pytest.mark.parametrize("shape", [(6000,), (75, 80), (15, 20, 20)], ids=str)
def test_exceptions_in_any_places_come_back_bit_for_bit(
    setting: Callable[..., Codec], dtype: np.dtype[Any], shape: tuple[int, ...]
) -> None:
    special = special_patterns(dtype.itemsize)
    one, two = [special["nan"]], [special["nan"], special["infinity"]]
    many = special["nan"] + np.arange(1000)
    bound = {"absolute": 1e-3}
    for words, where in itertools.product((one, two, many), PLACES.values()):
        count = np.arange(6000)[where].size
        values = with_pattern(background(dtype), np.resize(words, count), where)
        decoded = round_trip(values.reshape(shape), setting(**bound))
        assert_kept(values, decoded, bound)


def test_nans_of_any_payload_come_back_beside_each_other(
    setting: Callable[..., Codec], dtype: np.dtype[Any], bound: dict[str, Any]
) -> None:
    values = background(dtype)
    size = values.dtype.itemsize
    words = bits_of(values)
    special = special_patterns(size)
    payloads = np.random.default_rng(2).integers(1, special["smallest_normal"], 1000, np.uint64)
    infinities = np.array([special["infinity"], special["negative_infinity"]], words.dtype)
    words[3000:4000] = payloads.astype(words.dtype) | np.resize(infinities, 1000)
    values = floats_of(words, dtype)
    decoded = round_trip(values, setting(**bound))
    assert_same_bits(decoded[3000:4000], values[3000:4000])
    assert_kept(values, decoded, bound)


def test_the_usual_negative_nan_does_not_make_pfpl_store_a_tile(dtype: np.dtype[Any]) -> None:
    # 0/0 gives it on x86, so whole masks consist of it.
    word = special_patterns(dtype.itemsize)["negative_nan"]
    values = with_pattern(background(dtype), word, slice(5, 6000, 3))
    frame = h5lossy.encode(values, PFPL(pointwise_relative=1e-3))
    assert h5lossy.inspect(frame).stored_tiles == 0
    assert_kept(values, h5lossy.decode(frame), {"pointwise_relative": 1e-3})


@pytest.mark.parametrize("name", [name for name in NEGATIVE_NANS if name != "negative_nan"])
def test_another_negative_nan_makes_pfpl_store_its_tile_only(
    dtype: np.dtype[Any], name: str
) -> None:
    values = background(dtype, 3 * 16384 // dtype.itemsize)
    middle = values.size // 2
    values = with_pattern(values, special_patterns(dtype.itemsize)[name], [middle])
    info = h5lossy.inspect(h5lossy.encode(values, PFPL(pointwise_relative=1e-3)))
    assert (info.tiles, info.stored_tiles) == (3, 1)


def test_an_infinity_or_a_nan_costs_no_other_value_its_bin(
    setting: Callable[..., Codec], dtype: np.dtype[Any]
) -> None:
    setting = on_bins(setting)
    values = background(dtype)
    plain = round_trip(values, setting(absolute=0.25))
    others = np.r_[0:100, 200:6000]
    for name in ("infinity", "negative_infinity", "nan", "signalling_nan"):
        masked = with_pattern(values, special_patterns(dtype.itemsize)[name], slice(100, 200))
        decoded = round_trip(masked, setting(absolute=0.25))
        assert_same_bits(decoded[others], plain[others])


def test_zeros_come_back_as_positive_zero_where_they_are_quantized(
    setting: Callable[..., Codec], dtype: np.dtype[Any]
) -> None:
    values = background(dtype)
    values[10:3000:3], values[11:3000:3] = 0.0, -0.0
    for bound in ({"absolute": 1e-3}, {"pointwise_relative": 1e-3}):
        decoded = round_trip(values, setting(**bound))
        assert not bits_of(decoded[10:3000:3]).any()
        assert not bits_of(decoded[11:3000:3]).any()


def test_lossless_keeps_the_sign_of_zero(
    setting: Callable[..., Codec], dtype: np.dtype[Any]
) -> None:
    values = np.tile(np.array([0.0, -0.0, -0.0, 1.0], dtype), 2000)
    assert_same_bits(round_trip(values, setting(lossless=True)), values)


def test_subnormal_values_keep_a_pointwise_relative_bound(
    setting: Callable[..., Codec], dtype: np.dtype[Any]
) -> None:
    # They have no bins, so they are kept as they are.
    subnormal = floats_of(np.arange(1, 5001), dtype)
    values = np.concatenate([subnormal, -subnormal, background(dtype)])
    decoded = round_trip(values, setting(pointwise_relative=0.5))
    assert_same_bits(decoded[:10000], values[:10000])


def test_values_far_below_an_absolute_bound_become_zero(
    setting: Callable[..., Codec], dtype: np.dtype[Any]
) -> None:
    setting = on_bins(setting)
    for name in ("smallest_subnormal", "largest_subnormal", "smallest_normal"):
        word = special_patterns(dtype.itemsize)[name]
        values = with_pattern(background(dtype), word, slice(0, 6000, 2))
        decoded = round_trip(values, setting(absolute=1e-3))
        assert not bits_of(decoded)[::2].any(), name


# ------------------------------------------------------------------------------------------------
# Fill values
# ------------------------------------------------------------------------------------------------

# What datasets really have, and what is hard for a codec.
FILLS = {
    "-999": lambda size: pattern(-999.0, f"f{size}"),
    "negative_zero": lambda size: special_patterns(size)["negative_zero"],
    "subnormal": lambda _: 0x1234,
    "smallest_subnormal": lambda _: 1,
    "negative_subnormal": lambda size: special_patterns(size)["negative_smallest_subnormal"],
    "largest_subnormal": lambda size: special_patterns(size)["largest_subnormal"],
    "1e35": lambda size: pattern(1e35, f"f{size}"),
    "9.97e36": lambda size: pattern(9.969209968386869e36, f"f{size}"),
    "1e20": lambda size: pattern(1e20, f"f{size}"),
    "one": lambda size: special_patterns(size)["one"],
    "infinity": lambda size: special_patterns(size)["infinity"],
    "negative_infinity": lambda size: special_patterns(size)["negative_infinity"],
    "negative_nan": lambda size: special_patterns(size)["negative_nan"],
    "negative_nan_with_payload": lambda size: special_patterns(size)["negative_nan_with_payload"],
    "nan": lambda size: special_patterns(size)["nan"],
    "zero": lambda _: 0,
}


def test_a_fill_value_comes_back_bit_for_bit(
    setting: Callable[..., Codec], dtype: np.dtype[Any], bound: dict[str, Any]
) -> None:
    for name, fill in FILLS.items():
        word = fill(dtype.itemsize)
        fill_value = floats_of(np.array([word]), dtype)[0]
        for where in ([0], [40, 4100], slice(5, 6000, 2), slice(None)):
            values = with_pattern(background(dtype), word, where)
            decoded = round_trip(values, setting(**bound), fill_value)
            assert (bits_of(decoded)[where] == word).all(), (name, where)
            assert_kept(values, decoded, bound, fill_value)


@pytest.mark.parametrize("value", [0.5, 0.25, 1e-3, 3.0])
@pytest.mark.parametrize("kind", ["absolute", "pointwise_relative"])
def test_no_value_near_the_fill_value_turns_into_it(
    setting: Callable[..., Codec], dtype: np.dtype[Any], kind: str, value: float
) -> None:
    # The bound is such that the fill value is a reconstruction (or next to one), and values lie
    # closely about it, and at some bins' distance.
    for fill in np.array([-999.0, 1e35, 9.969209968386869e36, 1.0, 273.15], dtype):
        width = min(value, 0.999)
        if kind == "absolute":
            width = float(fill) * value / 2**14 if fill > 1e6 else value
        reach = width if kind == "absolute" else width * abs(float(fill))
        near = np.linspace(float(fill) - 3 * reach, float(fill) + 3 * reach, 3001).astype(dtype)
        word = bits_of(np.array([fill]))
        ulps = floats_of(word + np.arange(-50, 51).astype(word.dtype), dtype)
        values = np.concatenate([near, ulps, np.full(100, fill), np.full(3000, 2 * fill)])
        decoded = round_trip(values, setting(**{kind: width}), fill)
        assert_kept(values, decoded, {kind: width}, fill)


@pytest.mark.parametrize("kind", ["absolute", "pointwise_relative", "range_relative"])
@pytest.mark.parametrize("value", [0.4, 0.03, 1e-3])
def test_no_value_turns_into_a_fill_value_that_is_a_reconstruction(
    setting: Callable[..., Codec], dtype: np.dtype[Any], kind: str, value: float
) -> None:
    values = background(dtype)
    plain = round_trip(values, setting(**{kind: value}))
    candidates = np.flatnonzero((bits_of(plain) != bits_of(values)) & (plain != 0))
    assert candidates.size > 1000
    for fill in plain[candidates[:: candidates.size // 20]]:
        decoded = round_trip(values, setting(**{kind: value}), fill)
        was_fill = bits_of(values) == pattern(fill, fill.dtype)
        is_fill = bits_of(decoded) == pattern(fill, fill.dtype)
        assert (is_fill == was_fill).all()
        assert_kept(values, decoded, {kind: value}, fill)


@hypothesis.given(dtype=st.sampled_from(DTYPES), data=st.data())
def test_no_value_of_any_data_turns_into_the_fill_value(
    setting: Callable[..., Codec], dtype: str, data: st.DataObject
) -> None:
    chunk = data.draw(shaped_chunks(dtype, with_fill=True, max_count=200))
    decoded = round_trip(chunk.values, setting(**chunk.bound), chunk.fill_value)
    assert_kept(chunk.values, decoded, chunk.bound, chunk.fill_value)


def test_a_subnormal_fill_value_makes_pfpl_store_its_tile_only() -> None:
    values = background("<f4", 3 * 4096)
    values = with_pattern(values, 0x1234, [5000])
    fill_value = floats_of(np.array([0x1234]), "<f4")[0]
    frame = h5lossy.encode(values, PFPL(absolute=1e-3), fill_value=fill_value)
    info = h5lossy.inspect(frame)
    assert (info.tiles, info.stored_tiles) == (3, 1)
    decoded = h5lossy.decode(frame)
    assert_same_bits(decoded[4096:8192], values[4096:8192])


def test_other_subnormals_beside_a_subnormal_fill_value_are_quantized() -> None:
    values = with_pattern(background("<f4"), 0x1235, slice(0, 6000, 2))
    fill_value = floats_of(np.array([0x1234]), "<f4")[0]
    frame = h5lossy.encode(values, PFPL(absolute=1e-3), fill_value=fill_value)
    assert h5lossy.inspect(frame).stored_tiles == 0
    assert not bits_of(h5lossy.decode(frame))[::2].any()


def test_negative_zero_as_fill_value_keeps_the_signs_of_zeros_apart(
    setting: Callable[..., Codec], dtype: np.dtype[Any], bound: dict[str, Any]
) -> None:
    values = background(dtype)
    values[0:3000:2], values[1:3000:2] = -0.0, 0.0
    decoded = round_trip(values, setting(**bound), np.float32(-0.0))
    assert_same_bits(decoded[:3000], values[:3000])


@pytest.mark.parametrize("value", [0.5, 1e-3, 3.0])
def test_negative_zero_as_fill_value_takes_no_bin_from_values_about_zero(
    setting: Callable[..., Codec], dtype: np.dtype[Any], value: float
) -> None:
    # Bin 0 is +0.0. An encoder that rebuilds it as -0.0 for values below zero takes it for the
    # fill value, and its second chance may be out of the bound.
    largest = np.array(value, f"f{dtype.itemsize}")
    largest = np.nextafter(largest, largest.dtype.type(0))
    values = np.linspace(-largest, largest, 3000).astype(dtype)
    values = np.concatenate([values, np.full(50, -largest), np.full(50, largest)]).astype(dtype)
    codec = setting(absolute=value)
    decoded = round_trip(values, codec, np.float32(-0.0))
    assert_kept(values, decoded, {"absolute": value}, np.float32(-0.0))
    if codec.step_share == 1:
        assert not bits_of(decoded)[np.abs(values) < 0.999 * value].any()
        assert (bits_of(decoded) == bits_of(round_trip(values, setting(absolute=value)))).all()


#: A fill value that no value has, and no bin hits.
UNSEEN = np.float32(1e20)


def test_fill_values_that_need_no_care_change_nothing(
    setting: Callable[..., Codec], dtype: np.dtype[Any], bound: dict[str, Any]
) -> None:
    for fill_value in (0.0, np.nan, -np.nan, UNSEEN):
        values = background(dtype)
        if fill_value is not UNSEEN:
            values[::5] = fill_value
        frame = h5lossy.encode(values, setting(**bound), fill_value=fill_value)
        assert frame == h5lossy.encode(values, setting(**bound))

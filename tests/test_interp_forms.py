# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Interp's tiles in every form, at the limits of its integers, and of every shape.

Each test makes values that lead to a certain form, checks in the payload whether they did, and has
the reference decode it too.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import h5lossy
from checks import Array, assert_kept, assert_same_bits
from h5lossy import Interp
from hdf5_helpers import field
from matrix import slow_but
from reference import frame as reference

BOUND: dict[str, Any] = {"absolute": 0.75}
STEP = 2 * 0.75 * Interp.step_share  # exact in both types
NARROW = 2**22


@dataclass(frozen=True)
class Head:
    """The first bytes of a payload (docs/format/interp.md, "A tile's payload")."""

    is_lorenzo: bool
    is_fine: bool
    is_closed: bool
    lanes: int
    has_exceptions: bool
    is_narrow: bool
    escape_bytes: int
    raw_planes: int
    patch_entries: int


def heads_of(frame: bytes) -> list[Head]:
    """Return the heads of all tiles that have one."""
    parsed = reference.parse(frame)
    found = []
    for payload in parsed.tiles:
        if len(payload) <= parsed.dtype.itemsize:
            continue  # empty, or constant
        first, second, third, _ = payload[:4]
        base = 2 if third & 8 else parsed.dtype.itemsize
        numbers = [*struct.unpack_from("<2H", payload, 4 + base)]
        planes, entries = (numbers.pop(0) if second & bit else 0 for bit in (64, 128))
        found.append(
            Head(
                is_lorenzo=first & 3 == 3,
                is_fine=bool(first & 4),
                is_closed=bool(first & 8),
                lanes=[1, 4, 16, 32][first >> 4 & 3],
                has_exceptions=bool(first & 64),
                is_narrow=bool(first & 128),
                escape_bytes=2 << (second >> 4 & 3),
                raw_planes=planes,
                patch_entries=entries,
            )
        )
    return found


def encoded(values: Array, fill_value: Any = None, **choice: Any) -> tuple[list[Head], Array]:
    """Encode; check the decoded values, here and in the reference; return heads and values."""
    codec = Interp(**BOUND, **choice)
    frame = h5lossy.encode(values, codec, fill_value=fill_value)
    info = h5lossy.inspect(frame)
    assert (info.codec, info.stored_tiles) == ("interp", 0)
    decoded = h5lossy.decode(frame, shape=values.shape)
    assert_kept(values, decoded, BOUND, fill_value)
    assert_same_bits(decoded, reference.decode(frame))
    again = h5lossy.encode(decoded, codec, fill_value=fill_value)
    assert_same_bits(h5lossy.decode(again), decoded)
    return heads_of(frame), decoded


def on_bins(bins: Array, dtype: np.dtype[Any]) -> Array:
    """Return the values of bins; all are exact."""
    values: Array = (bins * STEP).astype(dtype)
    return values


def rough(count: int, reach: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).integers(-reach, reach + 1, count)


# ------------------------------------------------------------------------------------------------
# Integers
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rewritable", [False, True])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("distance", [NARROW - 1, NARROW, NARROW + 1])
def test_narrow_ends_below_2_to_the_22(
    distance: int, sign: int, rewritable: bool, dtype: np.dtype[Any]
) -> None:
    bins = rough(4000, 3)
    bins[0] = -sign * (NARROW // 2 - 1)
    bins[1000:1100] = bins[0] + sign * distance
    [head], _ = encoded(on_bins(bins, dtype), axes=-1, rewritable=rewritable)
    # float32 has bins below 2^21 only, so its tiles of bins are all narrow.
    is_exception = abs(bins[1000]) >= NARROW // 2 and dtype.itemsize == 4
    assert head.has_exceptions == is_exception
    assert head.is_narrow == (distance < NARROW or is_exception)
    assert head.is_lorenzo or head.is_narrow or dtype.itemsize == 8


@pytest.mark.parametrize(("height", "size"), [(1000, 2), (32767, 2), (1_000_000, 4), (2**40, 8)])
def test_escapes_have_2_4_or_8_bytes(height: int, size: int, dtype: np.dtype[Any]) -> None:
    if dtype.itemsize == 4 and size == 8:
        pytest.skip("float32 has no such bins")
    bins = rough(3000, 1)
    bins[1234], bins[2345] = height, -height
    [head], decoded = encoded(on_bins(bins, dtype), axes=-1, rewritable=True)
    assert head.escape_bytes == size or (height, head.escape_bytes) == (32767, 4)
    assert_same_bits(decoded, on_bins(bins, dtype) + dtype.type(0))


@pytest.mark.parametrize("exponent", [0, 10, 14, 17, 19, 30, 40, 45])
def test_noise_has_raw_planes(exponent: int, dtype: np.dtype[Any]) -> None:
    if dtype.itemsize == 4 and exponent > 20:
        pytest.skip("float32 has no such bins")
    bins = rough(8000, 2**exponent, exponent)
    for rewritable in (False, True):
        [head], _ = encoded(on_bins(bins, dtype), axes=-1, rewritable=rewritable)
        assert (head.raw_planes > 0) == (exponent >= 14)
        assert head.raw_planes >= exponent - 13


def test_lanes_grow_with_the_payload(dtype: np.dtype[Any]) -> None:
    found = set()
    for count in (40, 400, 1000, 3000, 9000, 30000):
        [head], _ = encoded(on_bins(rough(count, 20), dtype) + 0.1, axes=-1)
        found.add(head.lanes)
    assert found == {1, 4, 16, 32}


# ------------------------------------------------------------------------------------------------
# Patches
# ------------------------------------------------------------------------------------------------

PLACES: dict[str, list[int]] = {
    "none": [],
    "first": [0],
    "last": [19999],
    "gaps": [4094, 4094 + 4095, 4094 + 4095 + 4096, 4094 + 4095 + 2 * 4096],
    "one skip": [4095],
    "skips": [5, 5 + 2 * 4095, 5 + 2 * 4095 + 1, 19998],
    "many": list(range(0, 5000, 2)),
}


@pytest.mark.parametrize("places", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("rewritable", [False, True])
def test_patches(places: list[int], rewritable: bool, dtype: np.dtype[Any]) -> None:
    at = np.arange(20000)
    # No value of the wave is a fine point by accident.
    values = (40 * STEP * np.sin(at / 700)).astype(dtype)
    values += dtype.type(STEP / 16) * (np.abs(values * 16 / STEP % 1) < 1e-2) / 2
    fine = np.rint(values[places] * 16 / STEP)
    if rewritable:  # all δ that a bin can have: from -8 to 7
        fine = 16 * np.rint(fine / 16) + np.arange(fine.size) % 16 - 8
        fine += fine % 16 == 0
    else:  # not where predictions lead, which are made from such values too
        fine += np.random.default_rng(3).choice([-7, -5, -3, 3, 5, 7], fine.size)
    values[places] = fine * (STEP / 16)
    [head], decoded = encoded(values, axes=-1, rewritable=rewritable)
    assert_same_bits(decoded[places], values[places])
    if rewritable and len(places) > 100:  # the form without patches is smaller
        assert head.is_fine
        assert head.patch_entries == 0
    elif rewritable:
        ends = np.diff([-1, *places]) - 1
        assert head.patch_entries == len(places) + int((ends // 4095).sum())
        assert not head.is_fine
    else:
        assert head.is_closed
        assert head.patch_entries >= 0.8 * len(places) - (0 in places)  # base is as the first value


def test_decoded_values_among_others_are_coded_one_by_one(dtype: np.dtype[Any]) -> None:
    decoded = h5lossy.decode(
        h5lossy.encode(field((20000,), dtype) * 5, Interp(**BOUND, axes=(-1,)))
    )
    shuffled = np.random.default_rng(2).permutation(decoded)
    [head], again = encoded(shuffled, axes=-1)
    assert head.is_fine
    assert not head.is_closed
    assert head.patch_entries == 0
    assert_same_bits(again, shuffled)


# ------------------------------------------------------------------------------------------------
# Masks and shapes
# ------------------------------------------------------------------------------------------------

FILL = -999.0


@pytest.mark.parametrize("rewritable", [False, True])
@pytest.mark.parametrize("axes", ["auto", (-1,), (-3, -2, -1)], ids=str)
def test_masked_values_come_back(axes: Any, rewritable: bool, dtype: np.dtype[Any]) -> None:
    data = field((12, 30, 40), dtype)
    for number in range(6):
        values = data.copy()
        if number == 0:
            values[:, :15] = FILL  # half of it, everywhere
        elif number == 1:
            values[6:] = np.nan
        elif number == 2:
            values[np.random.default_rng(3).random(values.shape) < 0.5] = FILL
        elif number == 3:
            values[:, ::2] = FILL
            values[:, 1::4] = np.nan  # two kinds
        elif number == 4:
            values.reshape(-1)[:-1] = FILL
        else:
            values[0] = np.inf
            values.reshape(-1)[0] = -0.0
        [head], _ = encoded(values, dtype.type(FILL), axes=axes, rewritable=rewritable)
        assert head.has_exceptions


@pytest.mark.parametrize("padded_rows", [20, 64, 100])
def test_two_kinds_of_nan_cost_a_mask_each(padded_rows: int, dtype: np.dtype[Any]) -> None:
    """NaN of 0/0 on x86 in the data, and NumPy's NaN as padding: their signs differ."""
    values = np.cumsum(np.cumsum(rough(128 * 128, 3))).reshape(128, 128).astype(dtype) / 64
    in_data = np.random.default_rng(2).random((128, 128)) < 0.1
    values[in_data] = -np.nan
    one_kind = values.copy()
    values[-padded_rows:] = np.nan
    one_kind[-padded_rows:] = -np.nan
    frames = [h5lossy.encode(array, Interp(**BOUND)) for array in (one_kind, values)]
    for array, frame in zip((one_kind, values), frames, strict=True):
        missing = np.isnan(array)
        assert_same_bits(h5lossy.decode(frame, shape=array.shape)[missing], array[missing])
    # Half a bit for each value, and one of the other kind.
    assert len(frames[1]) <= len(frames[0]) + 128 * 128 // 16 + dtype.itemsize


@pytest.mark.parametrize("rewritable", [False, True])
@pytest.mark.parametrize("land", [0.0, -0.0, 1234.5, FILL])
def test_numbers_that_mask_cost_a_mask(land: float, rewritable: bool, dtype: np.dtype[Any]) -> None:
    """A model may write 0 on land, and define no fill value."""
    y, x = np.mgrid[0:60, 0:80] / 10
    is_land = np.hypot(y - 3, x - 4) + np.sin(3 * x) / 3 < 2
    sea = (90 + 30 * np.sin(x) * np.cos(y) + rough(4800, 2).reshape(60, 80)).astype(dtype)
    frames = []
    for value in (np.nan, land):
        values = np.where(is_land, dtype.type(value), sea)
        [head], decoded = encoded(values, axes=(-2, -1), rewritable=rewritable)
        assert head.has_exceptions
        assert np.unique(decoded[is_land].view(f"u{dtype.itemsize}")).size == 1
        frames.append(h5lossy.encode(values, Interp(**BOUND, axes=(-2, -1), rewritable=rewritable)))
    assert len(frames[1]) <= len(frames[0])


def test_little_data_among_fill_values_is_not_kept_as_it_is(dtype: np.dtype[Any]) -> None:
    """Few values always fit some lattice, and those that do not would become exceptions."""
    bound, size = {"absolute": 0.01}, (13, 13, 13)
    for seed in range(12):
        random = np.random.default_rng(seed)
        values = np.full((64, 64, 64), FILL, dtype)
        box = tuple(slice(n, n + 13) for n in random.integers(0, 50, 3))
        values[box] = 300 + random.normal(size=size).cumsum(0) + random.normal(size=size).cumsum(2)
        frame = h5lossy.encode(values, Interp(**bound), fill_value=FILL)
        assert_kept(values, h5lossy.decode(frame, shape=values.shape), bound, FILL)
        assert len(frame) < 3.5 * 13**3, seed  # 4.1 of float32 if they were exceptions


def test_zeros_that_are_data_are_a_mask_only_where_that_is_smaller(dtype: np.dtype[Any]) -> None:
    y, x = np.mgrid[0:60, 0:80] / 10
    rain = np.maximum(9 * np.sin(2 * x) * np.cos(2 * y), 0).astype(dtype)
    assert (rain == 0).mean() > 0.4
    for scale, expected in ((1, True), (8, False)):
        [head], _ = encoded(rain * dtype.type(scale), axes=(-2, -1))
        assert head.has_exceptions == expected


@pytest.mark.parametrize("value", [0.0, -0.0, 273.15, FILL, np.nan, np.inf, -1e30, 1e-40])
def test_constant_chunks_are_small(value: float, dtype: np.dtype[Any]) -> None:
    for shape in ((1,), (2,), (1, 1, 1), (40, 50), (3, 50, 60, 70), (1, 2, 3, 4, 5, 6)):
        values = np.full(shape, value, dtype)
        for fill_value in (None, dtype.type(FILL)):
            codec = Interp(**BOUND)
            frame = h5lossy.encode(values, codec, fill_value=fill_value)
            info = h5lossy.inspect(frame)
            assert len(frame) <= 56 + 12 * info.tiles or values.size == 1
            assert_kept(values, h5lossy.decode(frame, shape=shape), BOUND, fill_value)


SHAPES = [
    (1, 1),
    (1, 2, 1),
    (3,),
    (2, 2, 2, 2),
    (5, 3, 16, 20),  # an ensemble
    (4, 2, 2, 9, 8),
    (2, 3, 1, 2, 3, 1, 2, 3),
    (1, 1, 1, 1, 1, 900),
    (32769,),
    (2, 32767),
    (3, 7, 1, 1, 2000),
    (40000, 1, 2),
    (182, 181),
    (33, 33, 33),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(
    "axes",
    slow_but(["auto", (-4,), (-1,), (-4, -3, -2), (-3, -2, -1)], ["auto", (-4, -3, -2)]),
    ids=str,
)
def test_chunks_of_every_shape(shape: tuple[int, ...], axes: Any, dtype: np.dtype[Any]) -> None:
    values = field(shape, dtype)
    for rewritable in (False, True):
        codec = Interp(**BOUND, axes=axes, rewritable=rewritable)
        frame = h5lossy.encode(values, codec)
        decoded = h5lossy.decode(frame, shape=shape)
        assert_kept(values, decoded, BOUND)
        assert_same_bits(decoded, reference.decode(frame))
        first = values.size // 3
        part = h5lossy.decode(frame, first, values.size)
        assert_same_bits(part, decoded.reshape(-1)[first:])


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("rewritable", [False, True])
def test_the_bound_holds_at_the_ends_of_the_lattice(
    sign: int, rewritable: bool, dtype: np.dtype[Any]
) -> None:
    largest = 2**18 - 1 if dtype.itemsize == 4 else 2**20
    ramp = np.linspace(largest - 20, largest + 20, 4096) * (sign * STEP / 16)
    encoded(ramp.reshape(64, 64).astype(dtype), rewritable=rewritable)

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Overlapping bins of integers: each value decodes to one of two, depending on its neighbours."""

from __future__ import annotations

import dataclasses
import json
import random
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

import h5lossy
from h5lossy import (
    PFPL,
    Auto,
    Codec,
    Interp,
    InvalidArgumentError,
    _native,
    from_filter_options,
)
from hdf5_helpers import h5lossy_command
from reference import frame as reference
from reference_frames import frame_of_reference
from test_decoder import decoded_alike
from test_integers import each_type, images, numbers, type_of

if TYPE_CHECKING:
    from pathlib import Path

    from checks import Array

CODECS: list[type[Codec]] = [PFPL, Interp, Auto]


def check(
    values: Array, codec: Codec, counts: int, fill: int | None = None, decoder: Any = None
) -> Array:
    """Encode values, judge each decoded one in exact integers, and encode again."""
    frame = h5lossy.encode(values, codec, fill_value=fill)
    decoded = h5lossy.decode(frame, shape=values.shape)
    exact = {*codec.exact, *([fill] if fill else [])}
    enough = np.int64 if values.itemsize < 8 else object
    assert (np.abs(values.astype(enough) - decoded.astype(enough)) <= counts).all()
    for x in exact:
        np.testing.assert_array_equal(decoded == x, values == x)
    assert (decoded[values == 0] == 0).all()
    again = h5lossy.decode(h5lossy.encode(decoded, codec, fill_value=fill), shape=values.shape)
    np.testing.assert_array_equal(again, decoded)
    if values.size < 1000:
        np.testing.assert_array_equal(reference.decode(frame).reshape(values.shape), decoded)
    if decoder is not None:
        decoded_alike(decoder, frame)
    return decoded


def noisy(dtype: str, seed: int, noise: int, shape: tuple[int, ...] = (64, 128)) -> Array:
    """Return a slope of about one count per column, plus noise of up to this many counts."""
    rng = np.random.default_rng(seed)
    made = 100 + np.arange(shape[-1]) // 4 + rng.integers(-noise, noise + 1, shape)
    return made.astype(dtype)


# ------------------------------------------------------------------------------------------------
# The promise
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["u1", "i1"])
def test_all_values_of_8_bits_keep_all_bounds(dtype: str) -> None:
    info = np.iinfo(dtype)
    every = np.arange(info.min, info.max + 1)
    for bound in (*range(1, 17), 31, 32, 42, 63, 64, 85, 100, 125, 126, 127):
        rng = np.random.default_rng(bound)
        # Every value once in order, and once among others, so that all are predicted in many ways.
        values = np.stack([every, rng.permutation(every), every[::-1]]).astype(dtype)
        fill = int(rng.choice(every)) if bound % 2 else None
        decoded = [check(values, codec(absolute=bound, wide=True), bound, fill) for codec in CODECS]
        np.testing.assert_array_equal(decoded[0], decoded[1])
        np.testing.assert_array_equal(decoded[0], decoded[2])


@pytest.mark.parametrize("dtype", ["u1", "i1"])
def test_pairs_of_exact_values_of_8_bits_come_back(dtype: str) -> None:
    info = np.iinfo(dtype)
    every = np.arange(info.min, info.max + 1)
    for bound in (1, 2, 3, 6, 63, 126, 127):
        step, picked = min(bound + 1, 127), random.Random(bound)
        near = {k * step + d for k in (-2, -1, 0, 1, 2) for d in (-1, 0, 1)} | {info.min, info.max}
        ends = sorted(x for x in near if info.min <= x <= info.max)
        values = np.tile(every, (3, 1)).astype(dtype)
        np.random.default_rng(bound).shuffle(values[1])
        for _ in range(25):
            pair = picked.sample(ends, 2)
            check(values, PFPL(absolute=bound, wide=True, exact=pair), bound)


@pytest.mark.parametrize("dtype", ["<u2", ">i2"])
def test_all_values_of_16_bits_keep_their_bound(dtype: str) -> None:
    info = np.iinfo(dtype)
    every = np.arange(info.min, info.max + 1)
    mixed = np.random.default_rng(1).permutation(every)
    for bound in (1, 2, 3, 100, 32766, 32767):
        for values in (every.reshape(256, 256), mixed.reshape(4, 128, 128)):
            check(values.astype(dtype), PFPL(absolute=bound, wide=True), bound, int(info.max))


@pytest.mark.slow
@each_type
def test_library_and_reference_write_the_same_frames(dtype: str, decoder: Any) -> None:
    most = type_of(dtype).high if np.dtype(dtype).kind == "i" else type_of(dtype).high // 2
    for seed in range(24):
        values, picked = images(dtype, seed), random.Random(seed)
        bound = float(picked.choice([1, 2, 3.9, 7, 50, 127, 32767, 2**31 - 1, 2**31, 2**63]))
        exact = picked.sample([*{*numbers(values)}], 1) if seed % 3 else []
        made = PFPL(absolute=bound, wide=True, exact=exact)
        assert h5lossy.encode(values, made) == frame_of_reference(values, made), made
        decoded = check(values, made, min(int(bound), most), decoder=decoder)
        small = check(values, Interp(**made.get_config()), min(int(bound), most))
        np.testing.assert_array_equal(small, decoded)


def test_a_range_relative_bound_is_that_of_the_values_before_they_move() -> None:
    values = noisy("u2", 3, 20)
    values[0, :2] = 0, 1003
    codec = PFPL(range_relative=0.01, wide=True)
    decoded = h5lossy.decode(h5lossy.encode(values, codec), shape=values.shape)
    assert {*np.unique(decoded % 11)} == {0}
    assert np.abs(decoded.astype(int) - values).max() <= 10


# ------------------------------------------------------------------------------------------------
# What it is for
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
def test_noise_below_the_bound_disappears(codec: type[Codec]) -> None:
    values = noisy("<u2", 1, 12)
    sizes = [len(h5lossy.encode(values, codec(absolute=16, wide=wide))) for wide in (False, True)]
    assert 3 * sizes[1] < 2 * sizes[0]
    slices = noisy("<u2", 2, 12, (4, 32, 64))
    decoded = h5lossy.decode(h5lossy.encode(slices, codec(absolute=16, wide=True)))
    same = np.diff(decoded.reshape(slices.shape).astype(int), axis=0) == 0
    assert same.mean() > 0.7


def test_what_was_written_stays_when_a_part_of_a_chunk_is_written_again(tmp_path: Path) -> None:
    values = noisy("<i4", 5, 12)
    with h5py.File(tmp_path / "f.h5", "w") as f:
        codec = Interp(absolute=9, wide=True)
        f.create_dataset("x", data=values, chunks=(32, 64), compression=codec)
    with h5py.File(tmp_path / "f.h5") as f:
        before = f["x"][...]
    assert np.abs(before - values).max() == 9
    for i in range(5):
        with h5py.File(tmp_path / "f.h5", "r+") as f:
            f["x"][10:20, 20:40] = values[10:20, 20:40] + 30 * i
    with h5py.File(tmp_path / "f.h5") as f:
        after = f["x"][...]
    after[10:20, 20:40] = before[10:20, 20:40]
    np.testing.assert_array_equal(after, before)


# ------------------------------------------------------------------------------------------------
# How it is asked for
# ------------------------------------------------------------------------------------------------


def test_cd_values_say_it(tmp_path: Path) -> None:
    codec = Interp(absolute=16, wide=True, exact=7)
    assert repr(codec) == "Interp(absolute=16.0, exact=(7,), wide=True)"
    assert codec.filter_options[4] == 1 << 12 | 1 << 10
    assert repr(from_filter_options("h5lossy", codec.filter_options)) == repr(codec)
    assert repr(codec.with_bound(lossless=True)) == "Interp(lossless=True)"
    done = h5lossy_command("cd-values", "--codec", "interp", "--absolute", "16", "--wide", "--json")
    assert json.loads(done.stdout)["cd_values"] == [4, 0, 0, 1076887552, 4096]
    with h5py.File(tmp_path / "f.h5", "w") as f:
        f.create_dataset("x", (9, 9), "u2", chunks=(9, 9), compression=codec)
    with h5py.File(tmp_path / "f.h5") as f:
        stored = f["x"].id.get_create_plist().get_filter(0)[2]
        assert repr(from_filter_options("h5lossy", stored)) == repr(codec)


def test_what_has_no_wide_bins_is_said() -> None:
    with pytest.raises(TypeError, match="wide must be True or False, got 1"):
        PFPL(absolute=3, wide=1)
    for kind, value in (("noise", 1.0), ("pointwise_relative", 0.1)):
        bound: Any = {kind: value}
        with pytest.raises(
            InvalidArgumentError, match=f"wide goes with absolute .*not with {kind}"
        ):
            PFPL(wide=True, **bound)
        params = dataclasses.replace(PFPL(**bound).params(), wide=True)
        with pytest.raises(InvalidArgumentError, match="wide bins go with an absolute or a range"):
            _native.pack_cd_values(params)
    assert PFPL(absolute=3, wide=np.True_).wide is True


def test_values_between_two_exact_ones_stay_where_they_came_to(tmp_path: Path) -> None:
    values = np.random.default_rng(5).integers(0, 2**32, (20, 20), dtype="u4") // 6 * 6
    values[0] = np.arange(3, 23)
    codec = PFPL(absolute=5, wide=True, exact=(6, 12))
    with h5py.File(tmp_path / "f.h5", "w") as f:
        f.create_dataset("x", data=values, chunks=(20, 20), compression=codec)
    read = []
    for below in (None, 0):
        with h5py.File(tmp_path / "f.h5", "r+") as f:
            if below is not None:
                f["x"][1:] = below
        with h5py.File(tmp_path / "f.h5") as f:
            read.append(f["x"][0])
    np.testing.assert_array_equal(read[0], read[1])
    assert np.abs(read[0].astype(int) - np.arange(3, 23)).max() <= 5


def test_info_says_it(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as f:
        f.create_dataset("x", (9, 9), "u2", chunks=(9, 9), compression=PFPL(absolute=3, wide=True))
    done = h5lossy_command("info", "--json", tmp_path / "f.h5")
    assert '"wide": true' in done.stdout


def test_verification_knows_them(tmp_path: Path) -> None:
    values = noisy("<u2", 6, 12)
    with h5py.File(tmp_path / "f.h5", "w") as f:
        codec = Interp(absolute=16, wide=True)
        dataset = f.create_dataset("x", (64, 128), "u2", chunks=(32, 64), compression=codec)
        h5lossy.write(dataset, values, verify=True)
        assert h5lossy.verify(dataset, against=values).ok

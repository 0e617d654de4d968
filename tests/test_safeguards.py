# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Thresholds that no value crosses, and valid ranges, with all codecs, types and tools."""

from __future__ import annotations

import dataclasses
import io
import json
import pickle
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

import h5lossy
from h5lossy import (
    AATROX,
    PFPL,
    Auto,
    BoundViolationError,
    Codec,
    CuSZp2,
    ErrorBound,
    Interp,
    InvalidArgumentError,
    UnsupportedError,
    from_filter_options,
)
from h5lossy._verification.recorder import Recorder
from hdf5_helpers import h5lossy_command
from reference import frame as reference
from test_halves import all_values
from test_integers import type_of

if TYPE_CHECKING:
    from pathlib import Path

    from checks import Array

CODECS: list[tuple[type[Codec], dict[str, Any]]] = [
    (PFPL, {}),
    (CuSZp2, {"dimensions": 2}),
    (AATROX, {}),
    (Interp, {}),
    (Interp, {"rewritable": True}),
    (Auto, {}),
    (Auto, {"prefer": "size"}),
]
each_codec = pytest.mark.parametrize(("cls", "settings"), CODECS)

SAFEGUARDS: list[dict[str, Any]] = [
    {"keep": "sign"},
    {"thresholds": (0, 0.5, 1 / 3, -0.25)},  # 1/3 is no float32
    {"valid_range": (0, 1)},
    {"valid_range": (-0.5, 1 / 3), "thresholds": 1e-40},
    {"thresholds": (0.1, np.nextafter(0.1, 1), np.nextafter(0.1, 0))},
]


def sides(values: Array, codec: Codec) -> Array:
    """Return on which sides values are, in exact arithmetic: a row for each threshold or end."""
    exact = values.astype(np.float64)
    thresholds, valid_range = codec.safeguards
    rows = [np.sign(np.subtract(exact > t, exact < t, dtype=int)) for t in thresholds]
    if valid_range:
        rows.append((exact >= valid_range[0]) & (exact <= valid_range[1]))
    return np.array(rows)


def field(dtype: Any, seed: int) -> Array:
    """Return a smooth field around 0 with noise, zeros, ones, and values that are no numbers."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:40, 0:96]
    values = 1.3 * np.sin(x / 17 + y / 11) + 0.01 * rng.standard_normal(x.shape)
    values = np.where(rng.random(x.shape) < 0.1, rng.choice([0.0, -0.0, 1, 0.1], x.shape), values)
    values[rng.random(x.shape) < 0.02] *= 1e-6
    values[rng.random(x.shape) < 0.02] *= 1e-41
    values[:10] = np.clip(values[:10], 0, 1)
    values.flat[rng.integers(0, values.size, 9)] = rng.choice([np.nan, np.inf, -np.inf, -999], 9)
    return values.astype(dtype)


def stored(values: Array, codec: Codec, fill: float | None = None) -> tuple[Array, h5py.Dataset]:
    """Return the values read from a dataset of a reopened file, and the dataset."""
    written = io.BytesIO()
    with h5py.File(written, "w") as file:
        file.create_dataset("x", data=values, chunks=(32, 48), fillvalue=fill, compression=codec)
    dataset = h5py.File(written, "r+")["x"]
    return dataset[...], dataset


@each_codec
@pytest.mark.parametrize("dtype", ["<f4", ">f8"])
def test_no_value_changes_sides(cls: type[Codec], settings: dict[str, Any], dtype: str) -> None:
    bounds: list[dict[str, float]] = [
        {"absolute": 0.3},
        {"absolute": 1e-3},
        {"pointwise_relative": 0.4},
        {"range_relative": 1e-4},
    ]
    for seed, bound in enumerate(bounds):
        values = field(dtype, seed)
        for own in SAFEGUARDS:
            codec = cls(**bound, **settings, **own)
            decoded, dataset = stored(values, codec, fill=-999.0 if seed % 2 else 0.5)
            np.testing.assert_array_equal(sides(decoded, codec), sides(values, codec), str(codec))
            assert h5lossy.describe(dataset).config == codec
            if "range_relative" not in bound:
                np.testing.assert_array_equal(stored(decoded, codec, dataset.fillvalue)[0], decoded)
                kind, value = next(iter(bound.items()))
                assert not h5lossy.largest_error(values, decoded, ErrorBound(kind, value)).problems
            assert not np.array_equal(  # the bound alone would not do
                sides(stored(values, cls(**bound, **settings))[0], codec), sides(values, codec)
            ) or (bound, own) != ({"absolute": 0.3}, SAFEGUARDS[0])


def test_auto_picks_a_codec_by_what_is_encoded() -> None:
    values = np.linspace(1, 2, 1000)  # all are near to the threshold, and become one exception
    codec = Auto(absolute=10, thresholds=0.5)
    frame = h5lossy.encode(values, codec)
    assert len(frame) < len(h5lossy.encode(values, PFPL(absolute=10, thresholds=0.5)))
    assert h5lossy.encode(h5lossy.decode(frame), codec) == frame


@each_codec
def test_overwriting_parts_moves_nothing_else(cls: type[Codec], settings: dict[str, Any]) -> None:
    codec = cls(absolute=0.05, keep="sign", valid_range=(-1, 1), **settings)
    decoded, dataset = stored(field("f4", 1), codec)
    file = dataset.file
    for seed in range(5):
        rows = slice(8 * seed, 8 * seed + 5)
        dataset[rows] = field("f4", 100 + seed)[rows]
        dataset.id.close()
        decoded[rows] = file["x"][rows]
        dataset = file["x"]
        np.testing.assert_array_equal(dataset[...], decoded)


@each_codec
def test_bounds_near_the_precision_of_the_type_move_nothing_twice(
    cls: type[Codec], settings: dict[str, Any]
) -> None:
    # With Interp's step of 1.99284, a value beside the threshold has the nearest multiple 8389077;
    # but 8389077 divided by the step, and rounded, is as near to the next one, 8389078.
    values = np.random.default_rng(0).integers(2**23, 2**24, 4096).astype("f4")
    values[::2] = 8389076
    codec = cls(absolute=1.006, thresholds=8389075, **settings)
    decoded = h5lossy.decode(h5lossy.encode(values, codec))
    again = h5lossy.decode(h5lossy.encode(decoded, codec))
    np.testing.assert_array_equal(again, decoded)
    assert np.abs(again - values).max() <= 1


def test_a_plain_decoder_reads_the_frames() -> None:
    for cls, settings in CODECS[:4]:
        values = field("f4", 3)
        frame = h5lossy.encode(values, cls(absolute=0.1, keep="zero", **settings))
        decoded = reference.decode(frame).reshape(values.shape)
        np.testing.assert_array_equal(decoded == 0, values == 0)


@pytest.mark.parametrize("dtype", ["i1", "u2", ">i4", "u8"])
def test_integers_keep_their_sign(dtype: str) -> None:
    of = type_of(dtype)
    near = [x for x in (*range(-200, 200), of.low, of.high) if of.low <= x <= of.high]
    values = np.array(near, dtype)
    for codec in (PFPL(absolute=50, keep="sign"), Interp(absolute=7, thresholds=0, wide=True)):
        decoded = h5lossy.decode(h5lossy.encode(values, codec), shape=values.shape)
        np.testing.assert_array_equal(np.sign(decoded), np.sign(values))


def test_halves_keep_their_sign() -> None:
    values = all_values(np.dtype(np.float16))
    for bound in (0.1, 3.0):
        decoded = h5lossy.decode(h5lossy.encode(values, PFPL(absolute=bound, keep="sign")))
        is_number = ~np.isnan(values)
        np.testing.assert_array_equal(np.sign(decoded[is_number]), np.sign(values[is_number]))


@pytest.mark.parametrize("dtype", ["u2", "i4", "f2"])
def test_the_range_of_a_dataset_leaves_out_an_exact_zero(dtype: str) -> None:
    values = np.array([0, *range(1000, 1101)] * 8, dtype)
    codec = PFPL(range_relative=0.1, thresholds=0)
    resolved = codec.resolve(values)
    assert resolved.absolute == pytest.approx(10, rel=1e-9)
    decoded = [h5lossy.decode(h5lossy.encode(values, each)) for each in (codec, resolved)]
    np.testing.assert_array_equal(*decoded)


@pytest.mark.parametrize("dtype", ["<i8", ">u8"])
@pytest.mark.parametrize("make", [PFPL, Interp, Auto])
def test_integers_of_64_bits_have_one_exact_value(make: type[Codec], dtype: str) -> None:
    """A threshold of 0 counts as one, so a frame has no room for a fill value in addition."""
    codec = make(absolute=9, keep="sign")
    values = np.arange(3840).reshape(48, 80).astype(dtype)
    for fill in (None, 0):
        decoded = stored(values, codec, fill)[0]
        np.testing.assert_array_equal(decoded == 0, values == 0)
    with pytest.raises(UnsupportedError, match=r"at most 1 can be exact.* the threshold's 0"):
        h5lossy.encode(values, codec, fill_value=7)
    with (
        h5py.File(io.BytesIO(), "w") as file,
        pytest.raises((ValueError, NotImplementedError), match="the threshold's 0"),
    ):
        file.create_dataset("x", (9,), dtype, chunks=(9,), fillvalue=7, compression=codec)


# ------------------------------------------------------------------------------------------------
# The setting
# ------------------------------------------------------------------------------------------------


def test_codecs_carry_them() -> None:
    codec = PFPL(
        absolute=1e-3, keep="sign", thresholds=[273.15, -0.0], valid_range=np.array([0, 1])
    )
    assert codec.thresholds == (0.0, 273.15)
    assert repr(codec) == "PFPL(absolute=0.001, thresholds=(0.0, 273.15), valid_range=(0.0, 1.0))"
    for same in (
        from_filter_options("h5lossy", codec.filter_options),
        pickle.loads(pickle.dumps(codec)),
        dataclasses.replace(codec, checksum=True),
        PFPL(**json.loads(json.dumps(codec.get_config()))),
    ):
        assert same == codec
        assert same.safeguards == codec.safeguards
    assert PFPL(lossless=True, keep="sign") == PFPL(lossless=True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"thresholds": np.nan}, "finite"),
        ({"thresholds": (1, 2, 3, 4, 5)}, "at most 4"),
        ({"thresholds": (1, 2, 3, 4), "keep": "sign"}, "at most 4"),
        ({"valid_range": (1, 0)}, "smaller one first"),
        ({"valid_range": 3}, "two numbers"),
        ({"keep": "order"}, "sign or zero"),
        ({"thresholds": 10**400}, "finite"),
        ({"valid_range": (np.int64(2**53 + 1), np.int64(2**53 + 1))}, "no number of float64"),
    ],
)
def test_what_is_no_safeguard_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        PFPL(absolute=1, **given)
    with pytest.raises(TypeError, match="takes numbers"):
        PFPL(absolute=1, thresholds="0")


def test_numbers_beyond_float64_mean_what_they_say() -> None:
    low, high = np.int64(2**53 + 1), 2**54 + 1
    assert PFPL(absolute=1, valid_range=(low, high)).valid_range == (2**53 + 2, 2**54)
    third = Fraction(1, 3)
    codec = PFPL(absolute=0.1, valid_range=(third, 1 - third), thresholds=third)
    values = np.array([1 / 3, np.nextafter(1 / 3, 1), 2 / 3, np.nextafter(2 / 3, 1)] * 99)
    decoded = h5lossy.decode(h5lossy.encode(values, codec)).tolist()
    for x, y in zip(values.tolist(), decoded, strict=True):
        assert (third <= x <= 1 - third) == (third <= y <= 1 - third)
        assert (x < third) == (y < third)


# ------------------------------------------------------------------------------------------------
# Tools
# ------------------------------------------------------------------------------------------------


def test_they_are_judged_without_rounding_them_to_float32() -> None:
    values = np.full((64, 48), 1 / 3, "f4")  # above the thresholds
    values[::2] = np.nextafter(values[0], np.float32(0))
    for own in ({"thresholds": 1 / 3}, {"valid_range": (1 / 3, 1)}):
        codec = PFPL(absolute=0.01, **own)
        _, dataset = stored(np.zeros_like(values), codec)
        h5lossy.write(dataset, values, verify=True)
        broken = codec.safeguards.broken(values, np.full_like(values, 0.34))
        np.testing.assert_array_equal(broken, values < np.float64(1 / 3))


def test_writing_with_verify_judges_them() -> None:
    codec = Interp(absolute=0.1, keep="sign")
    values = field("f8", 5)
    _, dataset = stored(np.zeros_like(values), codec)
    h5lossy.write(dataset, values, verify=True)
    recorder = Recorder(dataset)
    moved = values.copy()
    moved[3, 4], moved[5, 6] = -1e-9, 0.0
    values[3, 4], values[5, 6] = 1e-9, 2e-9
    recorder.add((0, 0), values[:32, :48], moved[:32, :48])
    with pytest.raises(BoundViolationError, match=r"2 values changed sides.*first at \(3, 4\)"):
        recorder.check()


@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", ">i8"])
def test_assess_judges_them(dtype: str) -> None:
    values = np.arange(-35, 37, dtype=dtype).reshape(8, 9)
    codec = PFPL(absolute=2, thresholds=0)
    written = io.BytesIO()
    with h5py.File(written, "w") as file:
        file.create_dataset("x", data=values, chunks=(4, 3), compression=codec)
    dataset = h5py.File(written)["x"]
    other = values.copy()
    other[3, 8] = -1  # of what is 0 in the file
    for bound in ({}, {"absolute": 4}):
        assert h5lossy.assess(values, dataset, **bound).ok
        found = h5lossy.assess(other, dataset, **bound)
        assert (found.safeguards.thresholds, found.safeguards.broken) == ((0,), 1)
        assert [(one.check, one.where) for one in found.failures] == [("safeguards", (3, 8))]
        assert found.safeguards.first == (3, 8)
        assert type(found).from_json(found.to_json()) == found
        assert "threshold 0" in found.to_text()
        assert "1 of 72" in found.to_text()
        assert h5lossy.assess(other, dataset, mask=other == -1, **bound).ok
    assert h5lossy.verify(dataset, against=other).is_damaged
    assert h5lossy.assess(values, other).safeguards is None


@pytest.mark.parametrize("dtype", ["u2", ">i8", "f2"])
def test_exact_values_are_judged_and_shown(tmp_path: Path, dtype: str) -> None:
    values = np.arange(72).astype(dtype).reshape(8, 9)
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        codec = PFPL(absolute=2, exact=7)
        file.create_dataset("x", data=values, chunks=(4, 3), compression=codec)
    dataset = h5py.File(path)["x"]
    assert h5lossy.assess(values, dataset).ok
    assert "absolute 2.0, exact 7 " in h5lossy_command("verify", path).stdout
    (said,) = json.loads(h5lossy_command("verify", "--json", path).stdout)["datasets"]
    assert said["exact"] == [7]
    other = values.copy()
    other[0, 7], other[7, 0] = 8, 7  # what is 7 in the file, and what is not
    found = h5lossy.assess(other, dataset, absolute=60)
    assert (found.safeguards.exact, found.safeguards.broken) == ((7,), 2)
    assert [(one.check, one.where) for one in found.failures] == [("safeguards", (0, 7))]
    assert type(found).from_json(found.to_json()) == found
    assert "exact 7" in found.to_text()
    assert h5lossy.verify(dataset, against=other).is_damaged


def test_assess_judges_valid_ranges_beside_nan_and_missing_values() -> None:
    original = np.linspace(-1, 2, 3000).astype("f4").reshape(50, 60)
    original[7, 7], original[8, 8], original[9, 9] = np.nan, -999, 1.00001
    codec = PFPL(absolute=0.01, valid_range=(0, 1))
    with h5py.File(io.BytesIO(), "w") as file:
        dataset = file.create_dataset("x", original.shape, "f4", chunks=(16, 16), compression=codec)
        h5lossy.write(dataset, original, verify=True)
        dataset.attrs["missing_value"] = np.float32(-999)
        assert json.loads(dataset.attrs["h5lossy_report"])["dataset"]["safeguards"] == "in [0, 1]"
        assert h5lossy.assess(original, dataset, memory_limit="1 MiB").ok
        original[9, 9] = 0.99999  # what came back is above 1
        found = h5lossy.assess(original, dataset)
        assert [(one.check, one.where) for one in found.failures] == [("safeguards", (9, 9))]
        assert found.safeguards.valid_range == (0, 1)


def test_commands_take_and_show_them(tmp_path: Path) -> None:
    source, packed = tmp_path / "a.h5", tmp_path / "b.h5"
    with h5py.File(source, "w") as file:
        file["t"], file["u"] = field("f4", 7), field("f4", 8)
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\ndataset = "/u"\nvalid_range = [0, 1]\nthreshold = [0, 0.5]\n')
    h5lossy_command(
        "repack", source, packed, "--absolute", "0.1", "--rules", rules,
        "--dataset", "/t:codec=interp,threshold=0,threshold=0.5,valid-range=-1..1",
    )  # fmt: skip
    with h5py.File(packed) as file:
        assert h5lossy.describe(file["t"]).config == Interp(
            absolute=0.1, thresholds=(0, 0.5), valid_range=(-1, 1)
        )
        assert h5lossy.describe(file["u"]).config == PFPL(
            absolute=0.1, thresholds=(0, 0.5), valid_range=(0, 1)
        )
        said = file["u"].attrs["lossy_compression"].decode()
        assert "at most 0.1, threshold 0.0 kept, threshold 0.5 kept, valid range 0.0 to 1.0" in said
    shown = h5lossy_command("info", packed).stdout
    assert "threshold 0, threshold 0.5, in [-1, 1]" in shown
    assert "absolute 0.1, threshold 0, threshold 0.5, in [-1, 1]   1 chunk" in (
        h5lossy_command("verify", packed).stdout
    )
    compared = h5lossy_command("verify", packed, "--against", source, "--json").stdout
    told = json.loads(compared)["datasets"][0]
    assert (told["thresholds"], told["valid_range"]) == ([0, 0.5], [-1, 1])
    assert told["report"]["safeguards"]["broken"] == 0
    with h5py.File(source, "r+") as file:
        values = file["t"][...]
        values[0, 0] = -0.001 if values[0, 0] >= 0 else 0.001
        file["t"][...] = values
    for command in (("assess", source, packed), ("verify", packed, "--against", source)):
        said = h5lossy_command(*command, status=1).stdout
        assert "safeguards" in said
        assert "1 values changed sides" in said

    printed = h5lossy_command(
        "cd-values", "--absolute", "0.1", "--threshold", "0", "--valid-range", "-1", "1", "--json"
    )
    words = json.loads(printed.stdout)["cd_values"]
    assert from_filter_options("h5lossy", words) == PFPL(
        absolute=0.1, keep="sign", valid_range=(-1, 1)
    )


def test_stencils_bound_their_values() -> None:
    weights = [1, -8, 0, 8, -1]  # of a derivative of fourth order, times 12
    bound = ErrorBound.for_stencil([w / 12 for w in weights], 1e-3)
    rng = np.random.default_rng(9)
    values = np.cumsum(rng.standard_normal(5000)).astype("f8")
    decoded = h5lossy.decode(h5lossy.encode(values, PFPL(absolute=bound.value)))
    errors = np.convolve(values - decoded, np.array(weights) / 12, "valid")
    assert 2e-4 < np.abs(errors).max() <= 1e-3
    assert ErrorBound.for_stencil([[0, 1, 0], [1, -4, 1], [0, 1, 0]], 1).value == 1 / 8
    assert ErrorBound.for_stencil([0.1, 0.2], 0.3).value <= 1
    with pytest.raises(InvalidArgumentError, match="weights"):
        ErrorBound.for_stencil([0, 0], 1)
    thirds = ErrorBound.for_stencil([Fraction(1, 3), np.longdouble(1), -10], 1).value
    assert Fraction(thirds) <= Fraction(3, 34)
    huge = ErrorBound.for_stencil([10**400, 1], Fraction(10) ** 300).value
    assert 0.99e-100 < huge <= 1e-100
    for wrong in (
        "2",
        None,
        [1, "2"],
        [True, False],
        [1, [2, 3]],
        np.ma.array([1, 2], mask=[1, 0]),
    ):
        with pytest.raises(InvalidArgumentError, match="finite numbers, and not all 0, got "):
            ErrorBound.for_stencil(wrong, 1)


def rising(dtype: Any, seed: int) -> list[Array]:
    """Return sequences that do not fall, some longer than tiles by a few values."""
    rng = np.random.default_rng(seed)
    found = []
    for n in (1, 40, 1025, 4097, 8200):
        found += [
            np.full(n, rng.normal()),
            np.cumsum(rng.exponential(10.0 ** rng.integers(-4, 0), n)),
            np.sort(rng.choice([-1, 1], n) * 10 ** rng.uniform(-44, 3, n)),
            np.sort(rng.integers(-30, 30, n) * 0.5),
        ]
    return [one.astype(dtype) for one in found]


BOUNDS: list[dict[str, float]] = [
    {"absolute": 0.01},
    {"absolute": 1e-6},
    {"pointwise_relative": 0.01},
    {"range_relative": 1e-3},
]


@pytest.mark.parametrize("bound", BOUNDS, ids=str)
@each_codec
def test_the_running_maximum_of_what_rose_is_within_the_bound(
    cls: Any, settings: dict[str, Any], bound: dict[str, float], dtype: np.dtype[Any]
) -> None:
    codec = cls(**bound, **settings)
    for x in rising(dtype, 5):
        came = h5lossy.decode(h5lossy.encode(x, codec))
        for one, wanted in ((came, x), (-came[::-1], -x[::-1])):
            risen = np.maximum.accumulate(one)
            assert h5lossy.largest_error(wanted, risen, codec.bound).violations == 0
            assert not (np.diff(risen) < 0).any()


@pytest.mark.parametrize("bound", BOUNDS, ids=str)
@pytest.mark.parametrize("cls", [PFPL, CuSZp2, AATROX, Auto])
def test_what_rose_falls_beside_exact_values_only(
    cls: Any, bound: dict[str, float], dtype: np.dtype[Any]
) -> None:
    for x in rising(dtype, 6):
        came = h5lossy.decode(h5lossy.encode(x, cls(**bound)))
        exact = came == x
        falls = came[1:] < came[:-1]
        assert not (falls & ~exact[1:] & ~exact[:-1]).any()


def test_what_rose_may_fall() -> None:
    """The counterexamples of docs/howto/safeguards.md."""
    x = np.full(4097, 0.613, "f4")
    came = h5lossy.decode(h5lossy.encode(x, PFPL(absolute=0.01)))
    assert came[-1] == x[-1] < came[0]
    x = np.sort(np.random.default_rng(3).normal(size=200))
    came = h5lossy.decode(h5lossy.encode(x, Interp(absolute=0.01)))
    assert (np.diff(came) < 0).any()

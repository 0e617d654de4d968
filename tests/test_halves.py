# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""float16 and bfloat16: bounds of every value, the bytes of docs/format/integers.md, files."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import h5py
import ml_dtypes
import numpy as np
import pytest

import h5lossy
from checks import Array, assert_kept
from h5lossy import AATROX, PFPL, Auto, UnsupportedError
from hdf5_helpers import h5lossy_command
from reference import integers
from reference.common import Kind, float_to_bits

CLASSES = {"float16": 3, "bfloat16": 4}
HALVES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
each_type = pytest.mark.parametrize("name", HALVES)

KINDS = {
    "absolute": Kind.ABSOLUTE,
    "pointwise_relative": Kind.POINTWISE_RELATIVE,
    "range_relative": Kind.RANGE_RELATIVE,
    "lossless": Kind.LOSSLESS,
}

#: Absolute bounds: below the smallest value, in units of it, at steps between values, beyond all.
ABSOLUTE = [1e-45, 2.0**-133, 3.1 * 2.0**-24, 1e-3, 0.5, 2049, 7e4, 1e38]
#: Adjacent values of float16 are 2^-11 to 2^-10 of their magnitude apart, those of bfloat16 2^-8 to
#: 2^-7.
RELATIVE = [2.0**-11, 5e-4, 2.0**-8, 0.0039, 0.1, 0.5, 1 - 2**-53]


def all_values(dtype: np.dtype[Any]) -> Array:
    """Return every value of a type."""
    return np.arange(65536, dtype="u2").view(dtype)


def numbers(values: Array) -> list[Fraction]:
    """Return finite values as exact numbers."""
    return [Fraction(x) for x in values.astype(np.float64).tolist()]


def finite(values: Array) -> Array:
    """Return which values are finite."""
    of = integers.HALVES[CLASSES[values.dtype.name]]
    return np.asarray((bits(values) & 0x7FFF) < of.infinity)


def bits(values: Array) -> Array:
    """Return patterns, as integers in this machine's byte order."""
    return values.view(np.dtype("u2").newbyteorder(values.dtype.byteorder)).astype("u2")


def coded(values: Array, codec: Any, fill: Any = None) -> tuple[Array, Any]:
    """Return the decoded values and their frame's header; no tile is stored."""
    frame = h5lossy.encode(np.repeat(values, 32), codec, fill_value=fill)
    info = h5lossy.inspect(frame)
    assert info.stored_tiles == 0
    assert info.codec == "pfpl"
    return h5lossy.decode(frame)[::32], info


# ------------------------------------------------------------------------------------------------
# Bounds
# ------------------------------------------------------------------------------------------------


@each_type
def test_every_bit_is_kept_without_loss(name: str) -> None:
    values = all_values(HALVES[name])
    decoded, info = coded(values, PFPL(lossless=True))
    assert info.bound.kind is h5lossy.BoundKind.LOSSLESS
    np.testing.assert_array_equal(bits(decoded), bits(values))


def check_all_values(name: str, bound: dict[str, float]) -> None:
    """Check that no finite value is off by more than its bound, and that nothing moves again."""
    values, codec = all_values(HALVES[name]), PFPL(**bound)
    is_finite = finite(values)
    decoded, _ = coded(values, codec)
    assert_kept(values[is_finite].astype("f8"), decoded[is_finite].astype("f8"), bound)
    np.testing.assert_array_equal(bits(decoded[~is_finite]), bits(values[~is_finite]))
    again, _ = coded(decoded, codec)
    np.testing.assert_array_equal(bits(again), bits(decoded))


@each_type
@pytest.mark.parametrize("bound", ABSOLUTE)
def test_all_values_keep_their_absolute_bound(name: str, bound: float) -> None:
    check_all_values(name, {"absolute": bound})


@each_type
@pytest.mark.parametrize("bound", RELATIVE)
def test_all_values_keep_their_relative_bound(name: str, bound: float) -> None:
    check_all_values(name, {"pointwise_relative": bound})


@each_type
@pytest.mark.parametrize("bound", [1e-4, 0.01, 0.3, 2.0])
def test_the_range_is_that_of_valid_values(name: str, bound: float) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(3, 5, 3000).astype(HALVES[name])
    values[::50], values[7::50], values[9] = np.nan, -999, np.inf
    is_finite = finite(values) & (values != -999)
    valid = numbers(values[is_finite])
    codec = PFPL(range_relative=bound)
    decoded = h5lossy.decode(h5lossy.encode(values, codec, fill_value=-999))
    pairs = zip(valid, numbers(decoded[is_finite]), strict=True)
    worst = max(abs(x - y) for x, y in pairs)
    assert worst <= Fraction(bound) * (max(valid) - min(valid))
    assert bound < 0.01 or worst > 0
    np.testing.assert_array_equal(bits(decoded[~is_finite]), bits(values[~is_finite]))
    same = np.full(5000, 2.5, HALVES[name])
    frame = h5lossy.encode(same, codec)
    assert h5lossy.inspect(frame).bound.kind is h5lossy.BoundKind.LOSSLESS


def exact_values(name: str, bound: float, kind: Kind) -> list[int]:
    """Return patterns at the ends and in the middle of bins, of both signs."""
    of = integers.HALVES[CLASSES[name]]
    of_bins, middles = integers.half_bins(of, kind, bound)
    picked = [middles[k] for k in (1, 2, len(middles) // 3)]
    ends = [int(np.searchsorted(of_bins, of_bins[middle])) for middle in picked]
    near = {o + d for o in (*picked, *ends, of.infinity - 1) for d in (-1, 0, 1)}
    magnitudes = {o for o in near if 0 < o < of.infinity}
    return sorted({o | sign for o in magnitudes for sign in (0, 0x8000)} | {0x8000})


@each_type
@pytest.mark.parametrize("kind", ["absolute", "pointwise_relative"])
def test_the_fill_value_is_kept_and_nothing_becomes_it(name: str, kind: str) -> None:
    values = all_values(HALVES[name])
    is_finite = finite(values)
    exact = values[is_finite].astype(np.float64)
    for bound in (0.0171, 0.3):
        codec = PFPL(**{kind: bound})
        for fill_bits in exact_values(name, bound, KINDS[kind]):
            fill = values[fill_bits]
            decoded, _ = coded(values, codec, fill)
            np.testing.assert_array_equal(bits(decoded) == fill_bits, np.arange(65536) == fill_bits)
            error = np.abs(exact - decoded[is_finite].astype(np.float64))
            # Both bounds have enough bits behind those that bins end at.
            assert (error <= bound * (1 if kind == "absolute" else np.abs(exact))).all()
            again, _ = coded(decoded, codec, fill)
            np.testing.assert_array_equal(bits(again), bits(decoded))


# ------------------------------------------------------------------------------------------------
# The bytes
# ------------------------------------------------------------------------------------------------


def images(dtype: np.dtype[Any], seed: int) -> Array:
    """Return one of several kinds of values, in one of several shapes."""
    rng = np.random.default_rng(seed)
    shape = [(1,), (300,), (16, 30), (3, 9, 20), (70, 140), (9000,)][seed % 6]
    waves = np.add.outer(np.sin(np.arange(np.prod(shape[:-1], dtype=int))), np.arange(shape[-1]))
    made: Any = [
        rng.integers(0, 65536, shape).astype("u2").view(dtype),
        waves.reshape(shape) / 9 - 3,
        rng.normal(0, 1e-3, shape),
        np.where(rng.random(shape) < 0.1, -999, waves.reshape(shape)),
        np.where(rng.random(shape) < 0.05, np.nan, waves.reshape(shape) * 100),
    ][seed % 5]
    with np.errstate(over="ignore"):
        return np.asarray(made).astype(dtype)


def jobs(dtype: np.dtype[Any], seeds: range) -> list[tuple[Array, Any, Any]]:
    """Return values, codecs and fill values."""
    found = []
    for seed in seeds:
        values, picked = images(dtype, seed), random.Random(seed)
        kind = picked.choice([*KINDS])
        bound = True if kind == "lossless" else picked.choice([1e-5, 0.004, 0.02, 0.5])
        ordinary = values.reshape(-1)[finite(values).reshape(-1)]
        fill = ordinary[picked.randrange(ordinary.size)] if seed % 3 and ordinary.size else None
        found.append((values, PFPL(**{kind: bound}), fill))
    return found


@each_type
def test_both_byte_orders_have_the_same_frames_but_for_a_bit(name: str) -> None:
    for values, codec, fill in jobs(HALVES[name], range(40, 52)):
        swapped = bits(values).astype(">u2").view(values.dtype.newbyteorder(">"))
        ours = bytearray(h5lossy.encode(values, codec, fill_value=fill))
        others = bytearray(h5lossy.encode(swapped, codec, fill_value=fill))
        assert ours[7] | 0x80 == others[7]
        others[7] = ours[7]
        assert ours[20:] == others[20:]
        frame = h5lossy.encode(swapped, codec, fill_value=fill)
        back = h5lossy.decode(frame)
        assert back.dtype == swapped.dtype
        expected = h5lossy.decode(h5lossy.encode(values, codec, fill_value=fill))
        np.testing.assert_array_equal(bits(back), bits(expected))


def test_the_page_has_an_example_that_comes_out() -> None:
    page = (Path(__file__).parents[1] / "docs" / "format" / "integers.md").read_text()
    example = page.split("## Worked examples")[1].split("### Halves")[1]
    rows = {line[:5].strip(): line[5:].replace("|", " ") for line in example.split("\n")}
    patterns = [int(word, 16) for word in rows["bits"].split()]
    values = np.array(patterns, "u2").view("f2")
    np.testing.assert_array_equal(values, np.array(rows["value"].split(), "f2"))
    of = integers.HALVES[3]
    lattice = integers.HalfLattice(of, Kind.ABSOLUTE, float_to_bits(0.25))
    words = [lattice.word(x) for x in of.numbers(bits(values))]
    assert [*map(int, rows["k"].split())] == words
    n = [int(word, 16) for word in rows["n"].split("(")[0].split()]
    assert integers.to_residuals(words, 8, 2, of) == n
    payload = integers.encode_tile(bits(values), of, lattice, 8)
    assert payload.hex(" ") in example.replace("| ", "")
    numbers_of_bins, middles = integers.half_bins(of, Kind.ABSOLUTE, 0.25)
    ends = [f"{int(np.searchsorted(numbers_of_bins, k)):x}" for k in range(1, 8)]
    assert f"(magnitudes 0, {', '.join(ends)})" in example
    assert f"(0, {', '.join(f'{r:x}' for r in middles[1:8])})" in example
    assert f"up to K = {len(middles) - 1}." in example


# ------------------------------------------------------------------------------------------------
# What is refused, and files
# ------------------------------------------------------------------------------------------------


@each_type
def test_what_halves_do_not_take_is_said(name: str) -> None:
    values = np.zeros((10, 10), HALVES[name])
    with pytest.raises(UnsupportedError, match=r"halves are encoded by PFPL and Interp"):
        h5lossy.encode(values, AATROX(absolute=3))


def hdf5_type(name: str, order: str) -> Any:
    """Return an HDF5 type; bfloat16 as HDF5 2 defines it, which h5py reads as float32."""
    if name == "float16":
        return h5py.h5t.py_create(np.dtype(f"{order}f2"))
    made = (h5py.h5t.IEEE_F32LE if order == "<" else h5py.h5t.IEEE_F32BE).copy()
    made.set_fields(15, 7, 8, 0, 7)
    made.set_size(2)
    made.set_ebias(127)
    return made


@each_type
@pytest.mark.parametrize("order", "<>")
def test_datasets_are_written_and_read(tmp_path: Path, name: str, order: str) -> None:
    rng = np.random.default_rng(0)
    values = np.add.outer(np.sin(np.arange(90) / 9), rng.normal(0, 0.01, 70)).astype(HALVES[name])
    values[3, :5] = -1000
    for number, codec in enumerate([PFPL(lossless=True), PFPL(absolute=0.03), Auto(absolute=0.03)]):
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            plist.set_chunk((32, 32))
            plist.set_filter(h5lossy.FILTER_ID, h5py.h5z.FLAG_MANDATORY, codec.filter_options)
            plist.set_fill_value(np.array(-1000, np.float32))
            kind = hdf5_type(name, order)
            space = h5py.h5s.create_simple(values.shape)
            made = h5py.h5d.create(file.id, b"x", kind, space, plist)
            h5py.Dataset(made)[...] = values.astype(np.float32)
            other = h5py.h5d.create(file.id, b"y", kind, space, plist)
            h5lossy.write(h5py.Dataset(other), values.astype(np.float32))
        with h5py.File(tmp_path / f"{number}.h5") as file:
            dataset = file["x"]
            made = dataset.id
            decoded = dataset[...]
            np.testing.assert_array_equal(file["y"][...], decoded)
            np.testing.assert_array_equal(h5lossy.read(dataset), decoded)
            assert h5lossy.verify(dataset).ok
            assert h5lossy.describe(dataset).ratio > 1
            _, chunk = made.read_direct_chunk((0, 0))
        info = h5lossy.inspect(chunk)
        assert info.dtype == HALVES[name].newbyteorder(order)
        error = np.abs(values.astype(np.float32) - decoded.astype(np.float32))
        assert error.max() == 0 if codec.lossless else 0 < error.max() <= 0.03
        np.testing.assert_array_equal(decoded == -1000, values == -1000)
        said = h5lossy_command("info", str(tmp_path / f"{number}.h5")).stdout
        assert str(codec.bound) in said


def test_without_ml_dtypes_bfloat16_is_two_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.arange(300).astype(HALVES["bfloat16"])
    frame = h5lossy.encode(values, PFPL(lossless=True))
    monkeypatch.setitem(__import__("sys").modules, "ml_dtypes", None)
    decoded = h5lossy.decode(frame)
    assert decoded.dtype == np.dtype("V2")
    assert decoded.tobytes() == values.tobytes()

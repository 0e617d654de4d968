# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Noise bounds of integers: every value in exact arithmetic, the bytes of the page, files."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import h5lossy
from h5lossy import (
    PFPL,
    Auto,
    BoundError,
    InvalidArgumentError,
)
from matrix import slow_but
from reference import integers
from reference.common import Kind
from test_integers import images, numbers

if TYPE_CHECKING:
    from checks import Array

TYPES = ["u1", "i1", "<u2", ">i2", ">u4", "<i4"]
each_type = pytest.mark.parametrize("dtype", slow_but(TYPES, {"i1", "<u2", ">u4"}))

BOUNDS = [(1 / 16, 0), (1 / 16, 1), (0.5, 0), (1.0, 2), (1.999, 0), (40.5, 3), (256.0, 1000)]


def allowed(noise: float, floor: int, x: int) -> int:
    """Return the bound of a value."""
    c = math.floor(256 * noise)
    return max(floor, math.isqrt(c * c * abs(x)) // 256)


def decoded_of(values: Array, codec: Any, fill: int | None = None) -> tuple[Array, Any]:
    """Return the decoded values and their frame's header."""
    frame = h5lossy.encode(np.repeat(values, 32), codec, fill_value=fill)
    return h5lossy.decode(frame)[::32], h5lossy.inspect(frame)


def check_values(values: Array, noise: float, floor: int, fill: int | None) -> None:
    """Encode values, and judge each in exact integers."""
    codec = PFPL(noise=noise, absolute=floor) if floor else PFPL(noise=noise)
    decoded, info = decoded_of(values, codec, fill)
    given, found = numbers(values), numbers(decoded)
    for x, y in zip(given, found, strict=True):
        assert abs(x - y) <= allowed(noise, floor, x), (x, y)
        assert x * y >= 0
    assert all(y == 0 for x, y in zip(given, found, strict=True) if x == 0)
    if fill is not None:
        np.testing.assert_array_equal(decoded == fill, values == fill)
    assert info.bound.kind in {h5lossy.BoundKind.NOISE, h5lossy.BoundKind.LOSSLESS}
    again, _ = decoded_of(decoded, codec, fill)
    np.testing.assert_array_equal(again, decoded)


@pytest.mark.parametrize(("noise", "floor"), BOUNDS)
@pytest.mark.parametrize("dtype", ["u1", "i1", "<u2", "<i2"])
def test_all_values_keep_their_bound(dtype: str, noise: float, floor: int) -> None:
    info = np.iinfo(dtype)
    values = np.arange(info.min, info.max + 1).astype(dtype)
    fills = [None, info.max] if values.itemsize == 2 else [None, info.max, info.min, 7, 100]
    for fill in fills:
        check_values(values, noise, floor, None if fill == 0 else fill)


@pytest.mark.parametrize("fill", [1, 5, 999, 1000, 1001, 65534, -1, -999, -32768])
def test_a_fill_value_anywhere_is_kept(fill: int) -> None:
    dtype = "u2" if fill > 32767 else "i2"
    info = np.iinfo(dtype)
    near = [x for x in range(fill - 300, fill + 300) if info.min <= x <= info.max]
    check_values(np.array(near, dtype), 1.0, 3, fill)


@pytest.mark.parametrize("dtype", ["<u4", "<i4"])
@pytest.mark.parametrize(("noise", "floor"), [(1 / 16, 1), (1.0, 0), (3.3, 100), (256.0, 0)])
def test_values_of_32_bits_keep_their_bound(dtype: str, noise: float, floor: int) -> None:
    info, picked = np.iinfo(dtype), random.Random(dtype)
    edges = [0, info.min, info.max, *(2**n for n in range(31))]
    edges += [picked.randrange(2 ** picked.randrange(1, 32)) for _ in range(300)]
    near = [x + d for x in edges for d in range(-2, 3)]
    values = [s * x for x in near for s in (1, -1) if info.min <= s * x <= info.max]
    array = np.array(values, dtype)
    for fill in (None, info.max, int(array[7])):
        check_values(array, noise, floor, fill or None)
    lattice = integers.NoiseLattice(
        integers.IntegerType(4, dtype == "<i4"), Kind.NOISE, floor,
        noise=math.floor(256 * noise),
    )  # fmt: skip
    decoded, _ = decoded_of(array, PFPL(noise=noise, absolute=floor or 0.5))
    few = slice(None, None, 7)
    expected = [lattice.value(lattice.word(x)) for x in values[few] if abs(x) < 1 << 24]
    got = [y for x, y in zip(values[few], numbers(decoded[few]), strict=True) if abs(x) < 1 << 24]
    assert got == expected


def test_bins_are_as_wide_as_they_may_be() -> None:
    # With a bound of a standard deviation, bin k begins at k squared, nearly: 256 of them.
    values = np.arange(65536, dtype="u2")
    decoded, info = decoded_of(values, PFPL(noise=1.0))
    assert len(np.unique(decoded)) == 256
    assert info.step == 1.0
    assert decoded_of(values, PFPL(noise=1.0, absolute=10))[1].step == 21.0


def jobs(dtype: str, seeds: range) -> list[tuple[Array, Any, int | None]]:
    """Return values, codecs and fill values."""
    found = []
    for seed in seeds:
        values, picked = images(dtype, seed), random.Random(seed)
        bounds = BOUNDS
        if values.itemsize == 4:  # of larger values and narrower bins, the reference has too many
            values, bounds = (values // 2**13).astype(dtype), BOUNDS[2:]
        noise, floor = picked.choice(bounds)
        codec = PFPL(noise=noise, absolute=floor) if floor else PFPL(noise=noise)
        fill = int(picked.choice(values.reshape(-1))) if seed % 3 else None
        found.append((values, codec, fill))
    return found


def test_the_page_has_an_example_that_comes_out() -> None:
    page = (Path(__file__).parents[1] / "docs" / "format" / "integers.md").read_text()
    example = page.split("## Worked examples")[1].split("### Noise")[1].split("### ")[0]
    rows = {line[:5].strip(): line[5:].replace("|", " ") for line in example.split("\n")}
    x, k, back = ([*map(int, rows[name].split())] for name in ("x", "k", "x'"))
    of = integers.IntegerType(2, is_signed=False)
    lattice = integers.NoiseLattice(of, Kind.NOISE, 1, noise=256)
    assert [lattice.word(value) for value in x] == k
    assert [lattice.value(word) for word in k] == back
    n = [int(word, 16) for word in rows["n"].split("(")[0].split()]
    assert integers.to_residuals(k, 16, 1, of) == n
    payload = integers.encode_tile(np.array(x, "<u2"), of, lattice, 16)
    assert payload.hex(" ") in example.replace("| ", "")
    bins = lattice._bins
    assert f"begin at {', '.join(map(str, bins.first[:10]))}, …, {bins.first[16]}," in example
    middles = ", ".join(map(str, bins.middles[:10]))
    assert f"come back as {middles}, …, {bins.middles[16]}; K = {lattice.last}." in example


def test_settings_survive_cd_values_and_say_what_they_are() -> None:
    codec = PFPL(noise=0.5, absolute=2.7)
    assert codec.filter_options == (1, 4, 0, 0x3FE00000, 2 << 16)
    again = h5lossy.from_filter_options(h5lossy.FILTER_ID, codec.filter_options)
    assert repr(again) == repr(codec) == "PFPL(absolute=2, noise=0.5)"
    assert str(codec.bound) == "noise 0.5, at least 2"
    assert Auto(noise=1.0).filter_options == (0, 4, 0, 0x3FF00000)
    for noise in (1 / 17, 257.0, -1, math.nan):
        with pytest.raises(BoundError, match="noise must be from 1/16 to 256"):
            PFPL(noise=noise)
    with pytest.raises(BoundError, match="absolute beside noise must be at most 32768"):
        PFPL(noise=1.0, absolute=32769)
    with pytest.raises(TypeError, match="exactly one bound"):
        PFPL(noise=1.0, range_relative=0.1)


def test_the_library_checks_the_floor() -> None:
    params = h5lossy._native.Params(bound=1.0, value_class=1, value_bytes=2, noise_floor=3)
    with pytest.raises(InvalidArgumentError, match="other bounds have none, got 3"):
        h5lossy._native.encode(params, np.zeros(48, "u2"))

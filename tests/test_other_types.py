# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Comparing, writing and checking halves, complex numbers and bounds of noise."""

from __future__ import annotations

import copy
import json
import math
import pickle
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

import h5lossy
from h5lossy import (
    PFPL,
    Assessor,
    BoundError,
    Codec,
    ErrorBound,
    Interp,
    InvalidArgumentError,
    NotComparableError,
    UnsupportedError,
    assess,
    largest_error,
)
from h5lossy._native.assess import noise_limits
from hdf5_helpers import h5lossy_command
from test_halves import HALVES
from test_integer_tools import counts

if TYPE_CHECKING:
    from pathlib import Path

    from checks import Array


def field(dtype: Any, shape: tuple[int, ...] = (60, 50), seed: int = 0) -> Array:
    """Return a field of numbers of a type; integers are counts."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        return rng.poisson(90 * rng.random(shape) ** 3).astype(dtype)
    values = rng.normal(size=shape).cumsum(axis=0)
    return (values + 1j * rng.normal(size=shape) if dtype.kind == "c" else values).astype(dtype)


def allowed(noise: float, floor: int, x: int) -> int:
    """Return the largest difference that a bound of noise allows."""
    above, below = float(noise).as_integer_ratio()
    return max(floor, math.isqrt(above**2 * abs(x) // below**2))


# ------------------------------------------------------------------------------------------------
# Noise
# ------------------------------------------------------------------------------------------------

NOISES = [(1.0, 0), (0.5, 2), (1 / 16, 0), (0.1, 1), (256.0, 9), (2**0.5, 0), (3.3, 32768)]


@pytest.mark.parametrize(("noise", "floor"), NOISES)
def test_limits_of_noise_are_those_of_exact_integers(noise: float, floor: int) -> None:
    squares = np.arange(65536, dtype=np.float64) ** 2
    sizes = np.concatenate([np.arange(65536.0), squares[1:] - 1, squares, squares + 1])
    sizes = np.concatenate([sizes, np.random.default_rng(0).integers(0, 2**32, 9999)])
    expected = [allowed(noise, floor, int(x)) for x in sizes]
    np.testing.assert_array_equal(noise_limits(noise, floor, sizes), expected)


@pytest.mark.parametrize("dtype", ["u1", "i1", "<u2", ">i2", "u4", ">i4"])
@pytest.mark.parametrize(("noise", "floor"), [(1.0, 0), (0.3, 2)])
def test_one_count_beyond_the_noise_is_found(dtype: str, noise: float, floor: int) -> None:
    bound, info = ErrorBound("noise", noise, floor), np.iinfo(dtype)
    x = np.array(sorted({0, 1, 4, 9, 25, 99, info.max // 2, info.min // 2}), dtype)
    limits = [allowed(noise, floor, int(v)) for v in x]
    signs = [-1 if v - n - 1 >= info.min else 1 for v, n in zip(x.tolist(), limits, strict=True)]
    within = np.array([v + s * n for v, s, n in zip(x.tolist(), signs, limits, strict=True)])
    at = len(x) - 1
    beyond = within.copy()
    beyond[at] -= 1
    for y, wrong in ((within.astype(dtype), 0), (beyond.astype(dtype), 1)):
        summary = largest_error(x, y, bound)
        report = assess(x, y, noise=noise, **({"absolute": floor} if floor else {}))
        assert (summary.violations, report.bound.violations) == (wrong, wrong)
        assert (summary.holds, report.ok) == (not wrong, not wrong)
        shares = [
            abs(int(a) - int(b)) / max(floor, noise * math.sqrt(abs(int(a))))
            for a, b in zip(x, y, strict=True)
            if a != b
        ]
        assert summary.fraction == pytest.approx(max(shares))
        assert report.bound.share == pytest.approx(max(shares))
        assert (summary.fraction <= 1) == (not wrong)
    assert summary.problems[0].endswith(f"the first at ({at},): {x[at]} became {beyond[at]}")
    assert report.bound.listed[0].at == (at,)
    assert f"|e| <= {f'max({floor}, ' if floor else ''}{noise:g} sqrt(|x|)" in report.to_text()
    assert h5lossy.Report.from_json(report.to_json()) == report


def test_a_zero_that_changed_and_the_fill_value_are_no_matter_of_noise() -> None:
    bound = ErrorBound("noise", 1)
    x, y = np.array([0, 9, 7], "u2"), np.array([1, 9, 7], "u2")
    summary = largest_error(x, y, bound)
    assert (summary.violations, summary.max_error) == (1, math.inf)
    filled = largest_error(x[1:], np.array([9, 6], "u2"), bound, fill_value=7)
    assert (filled.violations, filled.special_changed) == (0, 1)
    assert not assess(x, y, bound=bound).ok
    assert assess(x, y, bound=bound, mask=[1, 0, 0]).ok


def test_only_counts_have_a_noise_bound() -> None:
    for dtype in ("f4", "f2", "u8", "i8", "c8"):
        x = np.zeros(9, dtype)
        for compare in (largest_error, lambda x, y, bound: assess(x, y, bound=bound)):
            with pytest.raises(UnsupportedError, match=f"32 bits, not of {x.dtype}; give absolute"):
                compare(x, x, ErrorBound("noise", 1))
    with pytest.raises(BoundError, match="only noise has a floor"):
        ErrorBound("absolute", 1, 3)
    with pytest.raises(InvalidArgumentError, match="give one bound"):
        assess(np.zeros(3, "u2"), np.zeros(3, "u2"), noise=1, range_relative=1)


# ------------------------------------------------------------------------------------------------
# Halves
# ------------------------------------------------------------------------------------------------


def every_half(name: str) -> Array:
    """Return all values of a type."""
    return np.arange(65536, dtype="u2").view(HALVES[name])


@pytest.mark.parametrize("name", HALVES)
def test_errors_of_halves_are_exact(name: str) -> None:
    every = every_half(name)
    every = every[np.isfinite(every.astype(np.float32))]
    x = np.random.default_rng(0).choice(every, 4000)
    y = np.random.default_rng(1).choice(every, 4000)
    errors = [abs(Fraction(float(a)) - Fraction(float(b))) for a, b in zip(x, y, strict=True)]
    for limit in sorted(errors)[::800]:
        exact = float(limit)
        exact = exact if Fraction(exact) >= limit else math.nextafter(exact, math.inf)
        for bound in (exact, math.nextafter(exact, 0)):
            violations = sum(error > Fraction(bound) for error in errors)
            assert largest_error(x, y, ErrorBound("absolute", bound)).violations == violations
            assert assess(x, y, absolute=bound).bound.violations == violations


@pytest.mark.parametrize("name", HALVES)
def test_payloads_of_halves_are_compared(name: str) -> None:
    lossless = ErrorBound("lossless")
    every = every_half(name)
    assert largest_error(every, every, lossless).holds
    assert assess(every, every, bound=lossless).ok
    nan = np.flatnonzero(np.isnan(every.astype(np.float32)))
    for at in (nan[0], nan[-1], nan[len(nan) // 4]):
        bits = every.view("u2").copy()
        bits[at] ^= 1 << 3
        changed = bits.view(every.dtype)
        found = largest_error(every, changed, lossless)
        assert (found.violations, found.special_changed) == (0, 1)
        assert assess(every, changed, bound=lossless).special.nan_changed == 1


@pytest.mark.parametrize("name", HALVES)
def test_a_range_of_halves_is_resolved(name: str) -> None:
    x = field(HALVES[name])
    x[3] = -999
    codec = PFPL(range_relative=1e-2).resolve(x, fill_value=-999)
    inside = np.delete(x, 3, axis=0)
    extent = Fraction(float(inside.max())) - Fraction(float(inside.min()))
    assert codec.absolute == pytest.approx(float(extent / 100))
    assert Fraction(codec.absolute) <= Fraction(1e-2) * extent
    y = h5lossy.decode(h5lossy.encode(x, codec, fill_value=-999), shape=x.shape)
    assert largest_error(x, y, ErrorBound("range_relative", 1e-2), fill_value=-999).holds


# ------------------------------------------------------------------------------------------------
# Complex numbers
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["<c8", ">c8", "<c16", ">c16"])
def test_complex_numbers_are_compared_by_components(dtype: str) -> None:
    x = field(dtype)
    y = h5lossy.decode(h5lossy.encode(x, Interp(absolute=0.01)), shape=x.shape)
    y[7, 8] += 0.5j
    parts = [np.stack([v.real, v.imag], axis=-1) for v in (x, y)]
    for bound in ("absolute", "pointwise_relative", "range_relative", "lossless"):
        wanted = ErrorBound(bound, 0 if bound == "lossless" else 0.01)
        found, real = largest_error(x, y, wanted), largest_error(*parts, wanted)
        assert (found.count, found.max_error) == (2 * x.size, real.max_error)
        assert found.violations == real.violations > 0
    assert (
        "the first at (7, 8), imaginary part: "
        in largest_error(x, y, ErrorBound("absolute", 0.01)).problems[0]
    )
    report, real_report = (
        assess(x, y, absolute=0.01),
        assess(*parts, absolute=0.01, metrics="bound"),
    )
    assert (report.shape, report.dtype) == ((60, 50, 2), x.dtype.name)
    assert report.error.max_modulus == pytest.approx(np.abs(y - x).max())
    assert report.error.max_at == (7, 8, 1)
    assert real_report.error.rmse == report.error.rmse
    assert report.undefined["ssim"] == "of complex numbers only errors are measured"
    assert (report.ssim, report.derivatives) == (None, None)
    assert "largest modulus" in report.to_text()
    assert h5lossy.Report.from_json(report.to_json()) == report
    assert assess(x[::2, ::3], y[::2, ::3], absolute=0.01).points == 2 * x[::2, ::3].size


@pytest.mark.parametrize("dtype", ["<c8", ">c16"])
def test_moduli_are_exact(dtype: str) -> None:
    rng = np.random.default_rng(0)
    x, y = np.zeros(900, dtype), (rng.integers(-9, 10, 900) + 1j * rng.integers(-9, 10, 900))
    y = y.astype(dtype)
    for modulus in (5.0, math.nextafter(5.0, 0), 13**0.5, math.nextafter(13**0.5, 9), 0.1, 99):
        limit = Fraction(modulus) ** 2
        pairs = [(int(v.real), int(v.imag)) for v in y]
        off = [pair for pair in pairs if pair[0] ** 2 + pair[1] ** 2 > limit]
        expected = sum((real != 0) + (imaginary != 0) for real, imaginary in off)
        summary = largest_error(x, y, ErrorBound("modulus", modulus))
        report = assess(x, y, modulus=modulus)
        assert summary.violations == report.bound.violations == expected
        assert (summary.holds, report.ok) == (not off, not off)
        assert summary.max_error == pytest.approx(np.abs(y).max())
    assert f"|e| <= {modulus:g} (modulus)" in report.to_text()


def test_moduli_of_the_smallest_and_largest_numbers_are_exact() -> None:
    tiny = 5e-324
    x, y = np.zeros(1, "c16"), np.array([complex(3 * tiny, 4 * tiny)])
    assert largest_error(x, y, ErrorBound("modulus", 5 * tiny)).holds
    assert not largest_error(x, y, ErrorBound("modulus", 4 * tiny)).holds
    x, y = np.array([1.7e308 + 0j]), np.array([-1.7e308 + 0j])
    assert not largest_error(x, y, ErrorBound("modulus", 1.7e308)).holds


def test_a_component_that_is_no_number_leaves_the_other_to_count() -> None:
    nan = math.nan
    x, y = np.array([complex(nan, 1), 2, 3]), np.array([complex(nan, 1.5), 2, 3])
    assert largest_error(x, y, ErrorBound("modulus", 0.5)).holds
    assert largest_error(x, y, ErrorBound("modulus", 0.4)).violations == 1
    y[1] = nan
    found = largest_error(x, y, ErrorBound("absolute", 0.5))
    assert (found.count, found.violations) == (5, 1)


def test_masks_and_fill_values_of_complex_numbers() -> None:
    x = field("c16")
    y = x.copy()
    y[3, 4] = 99
    mask = np.zeros(x.shape, np.bool_)
    mask[3, 4] = True
    for report in (
        assess(x, y, absolute=0.5, mask=mask),
        assess(np.ma.array(x, mask=mask), y, absolute=0.5),
    ):
        assert (report.ok, report.masked, report.valid) == (True, 2, 2 * x.size - 2)
    assert not assess(x, np.ma.array(x, mask=mask), absolute=0.5).ok
    assert largest_error(np.ma.array(x, mask=mask), y, ErrorBound("absolute", 0.5)).holds
    x[3, 4] = -1 - 1j
    found = largest_error(x, y, ErrorBound("absolute", 500), fill_value=-1 - 1j)
    assert (found.violations, found.special_changed) == (0, 2)
    assert assess(x, y, absolute=500, fill_value=-1 - 1j).special.fill_lost == 2
    for compare in (
        lambda **fill: largest_error(x, y, ErrorBound("absolute", 1), **fill),
        lambda **fill: assess(x, y, absolute=1, **fill),
    ):
        with pytest.raises(InvalidArgumentError, match="equal real and imaginary parts"):
            compare(fill_value=1 + 2j)


def test_a_range_of_complex_numbers_is_that_of_components() -> None:
    x = field("c8")
    codec = PFPL(range_relative=0.01).resolve(x)
    parts = x.view("f4")
    assert codec == PFPL(range_relative=0.01).resolve(parts)
    assert codec.absolute is not None


def test_what_cannot_be_compared_is_said() -> None:
    x = field("c8")
    with pytest.raises(NotComparableError, match="one has complex numbers, the other has not"):
        assess(x, x.real)
    with pytest.raises(UnsupportedError, match="modulus is a bound of complex numbers, not of f"):
        assess(x.real, x.real, modulus=1)
    with pytest.raises(UnsupportedError, match="modulus is a bound of complex numbers, not of f"):
        largest_error(x.real, x.real, ErrorBound("modulus", 1))
    with pytest.raises(InvalidArgumentError, match="the fill value and NaN mark what is missing"):
        largest_error(x, x, ErrorBound("modulus", 1), missing_value=3)
    [failure] = assess(x, x, require="ssim>=0.9").failures
    assert (failure.check, failure.got) == ("ssim", "not defined")


# ------------------------------------------------------------------------------------------------
# Datasets
# ------------------------------------------------------------------------------------------------

WRITTEN: list[tuple[str, Codec]] = [
    *((dtype, PFPL(absolute=0.01)) for dtype in ("<f2", ">f2", "<c8", ">c8", "<c16", ">c16")),
    *((dtype, PFPL(pointwise_relative=0.01)) for dtype in ("<f2", ">c8")),
    *((dtype, PFPL(range_relative=0.01)) for dtype in ("<f2", "<c16")),
    *((dtype, PFPL(lossless=True)) for dtype in ("<f2", "<c8")),
    *(("<c8", codec) for codec in (Interp(modulus=0.01), h5lossy.Auto(absolute=0.01))),
    *((dtype, PFPL(noise=1)) for dtype in ("u1", ">u2", "<i4")),
    ("<u2", PFPL(noise=0.5, absolute=2)),
]


@pytest.mark.parametrize(("dtype", "codec"), WRITTEN, ids=map(repr, WRITTEN))
def test_what_is_written_is_verified(tmp_path: Path, dtype: str, codec: Codec) -> None:
    x = field(dtype)
    fill = np.array(7 if x.dtype.kind in "iu" else math.nan).astype(dtype)
    if x.dtype.kind == "c":
        fill = np.array(complex(math.nan, math.nan), dtype)
    options = {"chunks": (32, 32), "compression": codec, "fillvalue": fill[()]}
    with h5py.File(tmp_path / "a.h5", "w") as file:
        h5lossy.write(file.create_dataset("x", x.shape, dtype, **options), x, verify=True)
        h5lossy.write(file.create_dataset("plain", x.shape, dtype, **options), x)
        file.create_dataset("by_filter", data=x, dtype=dtype, **options)
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        dataset = file["x"]
        for other in ("plain", "by_filter"):
            for place in ((0, 0), (32, 32)):
                frames = (file[name].id.read_direct_chunk(place)[1] for name in ("x", other))
                assert len(set(frames)) == 1
        y = h5lossy.read(dataset)
        np.testing.assert_array_equal(y, dataset[...])
        np.testing.assert_array_equal(h5lossy.read(dataset, np.s_[7:50:1, 3]), y[7:50, 3])
        assert h5lossy.describe(dataset).bound == codec.bound
        found = h5lossy.verify(dataset, against=x)
        assert (found.ok, found.chunks, found.recorded) == (True, 4, 4)
        assert found.record["bound"] == codec.bound.plain()
        assert largest_error(x, dataset, codec.bound).holds
        if not codec.lossless and codec.range_relative is None:
            assert found.report.bound.violations == 0
            y[3, 4] += 40 + abs(x).max()
            assert not assess(y, dataset).ok
        if codec.lossless:
            return
        h5lossy.write(dataset, y[:32, :32], np.s_[:32, :32])
        assert h5lossy.verify(dataset).outdated


def test_a_looser_noise_bound_in_a_frame_is_found(tmp_path: Path) -> None:
    x = field("u2", (32, 32))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        codec = PFPL(noise=0.5, absolute=2)
        dataset = file.create_dataset("x", data=x, chunks=(32, 32), compression=codec)
        file.flush()
        for other in (PFPL(noise=0.5, absolute=3), PFPL(noise=0.6, absolute=2), PFPL(absolute=2)):
            frame = h5lossy.encode(x, other)
            dataset.id.write_direct_chunk((0, 0), frame)
            file.flush()
            assert str(codec.bound) in h5lossy.verify(dataset).problems[0].why


# ------------------------------------------------------------------------------------------------
# Parts of fields
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "bound"),
    [("c8", {"absolute": 0.1}), ("c16", {"modulus": 0.1}), ("u2", {"noise": 1, "absolute": 1})],
)
def test_assessors_are_merged_and_pickled(dtype: str, bound: dict[str, float]) -> None:
    x = field(dtype)
    y = h5lossy.decode(h5lossy.encode(x, PFPL(**bound)), shape=x.shape)
    y[40, 7] += 9
    whole = assess(x, y, **bound, metrics="bound")
    parts = [
        Assessor(x.shape, dtype, planes=p, metrics="bound", **bound) for p in ((0, 25), (25, 60))
    ]
    for assessor, rows in zip(parts, (slice(0, 25), slice(25, 60)), strict=True):
        assessor.update(x[rows], y[rows])
    both = pickle.loads(pickle.dumps(parts[1]))
    both.merge(copy.deepcopy(parts[0]))
    report = both.result()
    assert report.bound == whole.bound
    assert report.error.max_modulus == whole.error.max_modulus
    assert report.error.max_at == whole.error.max_at
    assert not report.ok


@pytest.mark.parametrize(
    ("x", "bound"),
    [
        (field("c8"), {"modulus": 0.1}),
        (field("f2"), {"range_relative": 0.01}),
        (field("u2"), {"noise": 1}),
        *((counts(dtype), {"absolute": 3}) for dtype in ("u2", ">i4", "i8")),
    ],
    ids=lambda given: given.dtype.str if isinstance(given, np.ndarray) else str(given),
)
def test_dask_arrays_are_written_and_assessed(
    tmp_path: Path, x: Array, bound: dict[str, float]
) -> None:
    da = pytest.importorskip("dask.array")
    from h5lossy.dask import assess as assess_dask  # noqa: PLC0415

    lazy = da.from_array(x, chunks=(20, 50))
    codec = PFPL(**bound).resolve(lazy)
    assert codec == PFPL(**bound).resolve(x)
    assert PFPL(range_relative=0.05).resolve(lazy) == PFPL(range_relative=0.05).resolve(x)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        chunks = h5lossy.chunks_for(x.shape, x.dtype, blocks=lazy.chunks)
        dataset = file.create_dataset("x", x.shape, x.dtype, chunks=chunks, compression=codec)
        h5lossy.write(dataset, lazy, verify=True)
        y = h5lossy.read(dataset)
    decoded = da.from_array(y, chunks=(20, 50))
    for asked in (bound, {"range_relative": 0.01}):
        report = assess_dask(lazy, decoded, **asked)
        whole = assess(x, y, **asked)
        assert report.bound == whole.bound
        assert report.error.max_abs == whole.error.max_abs
        assert report.error.max_modulus == whole.error.max_modulus
        assert report.error.rmse == pytest.approx(whole.error.rmse)
    assert assess_dask(lazy, decoded, **bound).ok


# ------------------------------------------------------------------------------------------------
# Commands
# ------------------------------------------------------------------------------------------------


def command(*arguments: Any, code: int = 0) -> str:
    return str(h5lossy_command(*arguments, status=code).output)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return a file with datasets of all types, none compressed."""
    with h5py.File(tmp_path / "source.h5", "w") as file:
        for name, dtype in (("half", "<f2"), ("complex", ">c8"), ("counts", "<u2"), ("real", "f4")):
            file.create_dataset(name, data=field(dtype, (120, 100)), chunks=(60, 100))
        odd = {"fillvalue": np.complex64(1 + 2j), "chunks": (60, 100)}
        file.create_dataset("odd", data=field("c8", (120, 100)), **odd)
        packed = file.create_dataset("packed", data=field("<i2", (120, 100)), chunks=(60, 100))
        packed.attrs["scale_factor"] = 0.1
    return tmp_path / "source.h5"


@pytest.mark.parametrize(
    ("setting", "left", "packed", "half"),
    [
        (("--threshold", 0), {"complex", "odd"}, False, {"thresholds": 0}),
        (("--threshold", 0, "--packed-units"), {"complex", "odd"}, True, {"thresholds": 0}),
        (("--valid-range", -9, 9), {"complex", "odd", "half"}, False, None),
        (("--threshold", 0.5), {"complex", "odd", "half"}, False, None),
    ],
)
def test_repack_leaves_out_what_has_no_such_safeguard(
    source: Path, tmp_path: Path, *, setting: Any, left: set[str], packed: bool, half: Any
) -> None:
    with h5py.File(source, "r+") as file:
        file["packed"].attrs["add_offset"] = 300.0  # where the values change their sign
        filled = {"fillvalue": -9, "chunks": (60, 100)}
        file.create_dataset("wide", data=field("<i8", (120, 100)), **filled)
    target = tmp_path / "small.h5"
    rule = "wide:absolute=2"
    said = command("repack", "--absolute", 1, *setting, "-d", rule, source, target)
    assert "complex numbers have no thresholds and no valid range" in said
    with h5py.File(source) as old, h5py.File(target) as new:
        described = {name: h5lossy.describe(new[name]) for name in new}
        configs = {name: found and found.config for name, found in described.items()}
        assert {name for name, codec in configs.items() if codec is None} == left
        assert configs["packed"].lossless is not packed
        assert configs["wide"] == PFPL(lossless=True)
        if half:
            assert configs["half"] == PFPL(absolute=1, **half)
        assert not configs["real"].lossless
        np.testing.assert_array_equal(new["wide"], old["wide"])
    assert "kept losslessly (integers" in said
    assert packed or "kept losslessly" in said
    name, *numbers = (str(word) for word in setting if word != "--packed-units")
    text = f"complex:absolute=1,{name[2:]}={'..'.join(numbers)}"
    refused = command("repack", "-d", text, source, tmp_path / "none.h5", code=1)
    assert "names nothing that is compressed (/complex: complex numbers have no" in refused


def test_repack_keeps_complex_numbers_losslessly_whatever_their_fill_value(
    source: Path, tmp_path: Path
) -> None:
    command("repack", "--lossless", source, tmp_path / "same.h5")
    with h5py.File(source) as old, h5py.File(tmp_path / "same.h5") as new:
        assert h5lossy.describe(new["odd"]).config == PFPL(lossless=True)
        np.testing.assert_array_equal(new["odd"], old["odd"])
        assert new["odd"].fillvalue == 1 + 2j
        assert h5lossy.verify(new["odd"]).recorded == 2


def test_repack_takes_all_types(source: Path, tmp_path: Path) -> None:
    rule = "counts:noise=0.5,absolute=2"
    target = tmp_path / "small.h5"
    said = command("repack", "--modulus", 0.1, "--codec", "interp", "-d", rule, source, target)
    assert "parts of its fill value differ" in said
    assert "±max(2, 0.5·√x) counts" in said
    part = PFPL(modulus=0.1).absolute
    bounds = {
        "half": Interp(absolute=part),
        "complex": Interp(absolute=part),
        "counts": Interp(noise=0.5, absolute=2),
        "real": Interp(absolute=part),
        "odd": None,
    }
    with h5py.File(source) as old, h5py.File(target) as new:
        for name, codec in bounds.items():
            described = h5lossy.describe(new[name])
            assert (described and described.config) == codec
            if codec is not None:
                found = h5lossy.verify(new[name], against=old[name][...])
                assert (found.ok, found.recorded) == (True, 2)
                assert largest_error(old[name], new[name], codec.bound).fraction <= 1
        assert largest_error(old["complex"], new["complex"], ErrorBound("modulus", 0.1)).holds
        assert "at most 0.5 sqrt(|x|), or 2" in new["counts"].attrs["lossy_compression"].decode()
    assert "±max(2, 0.5·√x) counts" in command("info", target)
    assert '"floor": 2' in command("info", "--json", target)
    command("verify", "--against", source, target)
    command("assess", "-d", "complex", "--modulus", 0.1, source, target)
    command("assess", "-d", "complex", "--modulus", 0.05, source, target, code=1)
    command("assess", "-d", "counts", "--noise", 0.5, "--absolute", 2, source, target)
    assert "largest share of the bound" in command("assess", "-d", "counts", source, target)
    again = command("repack", "--modulus", 0.1, "--codec", "interp", "-d", rule, source, target)
    assert "done before" in again


def test_a_noise_bound_is_of_counts_that_are_named(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "small.h5"
    rules = ("-d", "counts:noise=1", "-d", "packed:noise=1")
    said = command("repack", "--noise", 1, *rules, source, target)
    assert "copied unchanged (a noise bound is of integers), 4" in said
    assert "a noise bound is of counts, and these stand for other values" in said
    with h5py.File(target) as file:
        for name, codec in (("counts", PFPL(noise=1)), ("packed", PFPL(lossless=True))):
            assert h5lossy.describe(file[name]).config == codec
    assert "±1·√x counts" in command("info", target)
    why = "noise is a bound of integers of up to 32 bits, not of float32"
    assert why in command("assess", "-d", "real", "--noise", 1, source, source, code=2)
    assert why in command("sweep", f"{source}:/real", "--kind", "noise", "--bounds", 1, code=2)


@pytest.mark.parametrize(
    ("name", "kind", "bounds"),
    [
        ("half", "absolute", "0.1,0.01"),
        ("complex", "modulus", "0.1,0.01"),
        ("counts", "noise", "1"),
    ],
)
def test_sweep_takes_all_types(source: Path, name: str, kind: str, bounds: str) -> None:
    found = command("sweep", f"{source}:/{name}", "--kind", kind, "--bounds", bounds, "--json")
    settings = json.loads(found)["settings"]
    assert {one["bound"] for one in settings} == {*map(float, bounds.split(","))}
    assert {one["codec"] for one in settings} >= {"pfpl"}
    assert all(one["ratio"] > 1 for one in settings)


@pytest.mark.parametrize("name", ["half", "complex"])
def test_tune_writes_rules_that_repack_follows(source: Path, tmp_path: Path, name: str) -> None:
    rules, target = tmp_path / "rules.toml", tmp_path / "tuned.h5"
    arguments = ("--require", "psnr>=50", "--codecs", "pfpl,interp", "--rules", rules)
    command("tune", f"{source}:/{name}", *arguments)
    command("repack", "--rules", rules, source, target)
    with h5py.File(source) as old, h5py.File(target) as new:
        assert 50 <= assess(old[name], new[name]).error.psnr < 60
    if name == "complex":
        said = command("tune", f"{source}:/{name}", "--require", "ssim>=0.9", code=2)
        assert "of complex numbers only errors are measured" in said


def test_netcdf4_takes_complex_numbers_and_noise(tmp_path: Path) -> None:
    netcdf = pytest.importorskip("netCDF4")
    from h5lossy.netcdf4 import def_var_filter  # noqa: PLC0415

    with netcdf.Dataset(tmp_path / "a.nc", "w", auto_complex=True) as file:
        for axis, length in (("y", 60), ("x", 50)):
            file.createDimension(axis, length)
        for name, dtype, codec in (
            ("k", np.complex64, Interp(modulus=0.1)),
            ("n", np.uint16, PFPL(noise=1)),
        ):
            variable = file.createVariable(name, dtype, ("y", "x"), chunksizes=(30, 50))
            def_var_filter(variable, codec)
            variable[...] = field(dtype)
    with h5py.File(tmp_path / "a.nc") as file:
        assert largest_error(field("c8"), file["k"], ErrorBound("modulus", 0.1)).holds
        assert largest_error(field("u2"), file["n"], ErrorBound("noise", 1)).holds
        for name in ("k", "n"):
            assert h5lossy.verify(file[name]).ok


@pytest.mark.parametrize("dtype", ["float16", ">c16"])
def test_cd_values_are_those_that_a_dataset_stores(dtype: str) -> None:
    typed = ("--absolute", 0.5, "--dtype", dtype, "--chunks", "9x20", "--json")
    words = json.loads(command("cd-values", *typed))["cd_values"]
    with h5py.File("none", "w", driver="core", backing_store=False) as file:
        options = {"chunks": (9, 20), "compression": PFPL(absolute=0.5)}
        dataset = file.create_dataset("x", (9, 20), dtype, **options)
        assert [*dataset.id.get_create_plist().get_filter(0)[2]] == words

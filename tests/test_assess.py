# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""What `h5lossy.assess` measures: golden numbers, exact cases, other libraries, injected faults."""

from __future__ import annotations

import inspect
import itertools
import json
import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import h5py
import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given, settings

import h5lossy
from h5lossy import InvalidArgumentError, NotComparableError, UnsupportedError, _native, assess
from h5lossy.assessment import AssessOptions
from hdf5_helpers import environment, run_python
from matrix import slow_but
from reference import assess as reference
from reports import assert_same, numbers_of

GOLDEN = json.loads((Path(__file__).parent / "reference" / "assess_golden.json").read_text())

_generator: dict[str, Any] = {}
exec(GOLDEN["generator_py"], _generator)

NAMES = {
    "n_valid": "valid",
    "min": "original.min",
    "max": "original.max",
    "value_range": "original.range",
    "mean": "original.mean",
    "std": "original.std",
    "dec_min": "decoded.min",
    "dec_max": "decoded.max",
    "dec_mean": "decoded.mean",
    "dec_std": "decoded.std",
    "min_err": "error.min",
    "max_err": "error.max",
    "mean_err": "error.mean",
    "std_err": "error.std",
    "min_abs_err": "error.min_abs",
    "max_abs_err": "error.max_abs",
    "mean_abs_err": "error.mean_abs",
    "mse": "error.mse",
    "rmse": "error.rmse",
    "max_rel_err": "error.max_relative",
    "mean_rel_err": "error.mean_relative",
    "nrmse": "error.nrmse",
    "psnr": "error.psnr",
    "snr": "error.snr",
    "val_err_corr": "correlation.with_error",
    "pearson": "correlation.pearson",
    "one_minus_pearson": "correlation.one_minus_pearson",
    "n_zero": "error.pointwise.zeros",
    "n_zero_changed": "error.pointwise.zeros_changed",
    "min_pwr_err": "error.pointwise.min",
    "max_pwr_err": "error.pointwise.max",
    "mean_pwr_err": "error.pointwise.mean",
}


def fields(name: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Make the fields of a golden case, and check their hashes."""
    case = GOLDEN["cases"][name]
    known = {**_generator, "full": np.full, "float32": np.float32, "nan": np.nan}
    first, *more = case["original"].split(";")
    known["x"] = eval(first, known)
    for statement in more:
        exec(statement.strip(), known)
    x = known["x"]
    y = eval(case["decoded"], known)
    assert _generator["sha"](x) == case["sha256_original"]
    assert _generator["sha"](y) == case["sha256_decoded"]
    return x, y


def number(report: Any, name: str) -> Any:
    for part in name.split("."):
        report = getattr(report, part)
    return report


def wanted(value: Any) -> Any:
    """Read a golden number; "inf" and "nan" are text there."""
    if isinstance(value, str):
        value = float(value)
    return None if isinstance(value, float) and math.isnan(value) else value


def assert_close(got: Any, want: Any, tolerance: float, what: str) -> None:
    if want is None or got is None:
        assert got is want, f"{what}: {got} instead of {want}"
        return
    assert got == want or abs(got - want) <= tolerance * abs(want), f"{what}: {got} != {want}"


def noisy(
    shape: tuple[int, ...], dtype: Any = np.float32, *, size: float = 0.01, seed: int = 0
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    x = (rng.normal(size=shape).cumsum(axis=-1) + 100).astype(dtype)
    return x, (x + rng.uniform(-size, size, size=shape)).astype(dtype)


# ------------------------------------------------------------------------------------------------
# Golden numbers
# ------------------------------------------------------------------------------------------------


def cases_with(key: str) -> pytest.MarkDecorator:
    cases = GOLDEN["cases"].items()
    return pytest.mark.parametrize("name", [n for n, c in cases if key in c["reference_float64"]])


@pytest.mark.parametrize("name", GOLDEN["cases"])
def test_golden_reductions_come_out(name: str) -> None:
    x, y = fields(name)
    golden = GOLDEN["cases"][name]["reference_float64"]["pointwise"]
    report = assess(x, y)
    for theirs, ours in NAMES.items():
        tolerance = 1e-10 if theirs == "val_err_corr" else 1e-11
        # Nothing but rounding is left of a correlation that is 0.
        if theirs in {"mean_err", "val_err_corr"}:
            want = wanted(golden[theirs])
            close = None if want is None else pytest.approx(want, rel=1e-10, abs=1e-15)
            assert number(report, ours) == close
        else:
            assert_close(number(report, ours), wanted(golden[theirs]), tolerance, theirs)
    at = np.unravel_index(golden["argmax_abs_err"], x.shape)
    assert report.error.max_at == tuple(map(int, at))
    for kind in ("nan_kept", "nan_lost", "nan_introduced", "inf_kept", "inf_changed"):
        assert getattr(report.special, kind) == golden[kind]


@cases_with("autocorr")
def test_golden_autocorrelation_comes_out(name: str) -> None:
    golden = GOLDEN["cases"][name]["reference_float64"]["autocorr"]
    found = assess(*fields(name)).autocorrelation
    for row in found:
        key = "paper_eq2" if row.axis is None else f"axis{row.axis}"
        for got, want in zip(row.values, golden[key], strict=True):
            assert got == (None if want is None else pytest.approx(want, abs=1e-12))


@cases_with("derivatives")
def test_golden_derivatives_come_out(name: str) -> None:
    golden = GOLDEN["cases"][name]["reference_float64"]["derivatives"]
    found = assess(*fields(name)).derivatives
    for order, each in (("d", found.slopes), ("dd", found.curvatures)):
        assert [one.axis for one in each] == [*range(len(each))]
        for one, (theirs, ours) in itertools.product(
            each, (("max", "max"), ("max_err", "max_error"), ("rmse", "rmse"))
        ):
            assert_close(getattr(one, ours), golden[f"{order}{one.axis}"][theirs], 1e-11, theirs)
    magnitude, laplacian = golden["gradmag"], golden["laplacian"]
    for got, want in (
        (found.gradient_max, magnitude["max"]),
        (found.gradient_range, magnitude["range"]),
        (found.gradient_max_error, magnitude["max_err"]),
        (found.gradient_rmse, magnitude["rmse"]),
        (found.gradient_psnr, math.inf if magnitude["psnr"] is None else magnitude["psnr"]),
        (found.laplacian_rms, laplacian["rms"]),
        (found.laplacian_max_error, laplacian["max_err"]),
        (found.laplacian_rmse, laplacian["rmse"]),
        (found.points, laplacian["n"]),
        (found.h1_error, golden["sobolev_h1_err"]),
    ):
        assert_close(got, want, 1e-11, "derivatives")


@cases_with("ssim_win7_step1_globalrange")
def test_golden_ssim_comes_out(name: str) -> None:
    golden = GOLDEN["cases"][name]["reference_float64"]["ssim_win7_step1_globalrange"]
    found = assess(*fields(name)).ssim
    assert found.windows == golden["windows"]
    assert found.mean == pytest.approx(golden["mean"], abs=1e-12)
    assert found.min == pytest.approx(golden["min"], abs=1e-12)
    assert_close(found.one_minus_mean, golden["one_minus_mean"], 1e-9, "1 - SSIM")


@cases_with("dssim_ldcpy")
def test_golden_data_ssim_comes_out(name: str) -> None:
    golden = GOLDEN["cases"][name]["reference_float64"]
    found = assess(*fields(name), metrics="climate").climate
    assert found.dssim_min == pytest.approx(golden["dssim_ldcpy"], abs=1e-12)
    assert found.dssim_min == pytest.approx(golden["dssim_ldcpy_astropy"], abs=1e-12)


def test_integers_of_64_bits_that_became_the_fill_value_count_as_what_they_are() -> None:
    x = np.arange(2000, dtype="i8").reshape(40, 50)
    y = x.copy()
    y[3, 4], y[30, 2], y[0, 5] = 7, 7, 8  # 7 is the fill value, and at its place
    wide = assess(x, y, fill_value=7, absolute=1500)
    floats = assess(x.astype("f8"), y.astype("f8"), fill_value=7, absolute=1500)
    assert wide.special == floats.special
    assert (wide.special.fill_introduced, wide.special.first["fill_introduced"]) == (2, (3, 4))
    for part in ("original", "decoded", "error", "correlation", "ssim", "derivatives"):
        assert getattr(wide, part) == getattr(floats, part), part
    halves = [
        h5lossy.Assessor(x.shape, "i8", fill_value=7, absolute=1500, planes=planes, metrics="bound")
        for planes in ((20, 40), (0, 20))
    ]
    for half, rows in zip(halves, (slice(20, 40), slice(0, 20)), strict=True):
        half.update(x[rows], y[rows])
    halves[0].merge(halves[1])
    assert halves[0].result().special == wide.special


@pytest.mark.parametrize("dtype", ["f4", ">f8", "f2", "i2", ">i8"])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [((11, 11), None), ((12, 250), None), ((3, 145, 33), None), ((90, 2, 40), (0, 2))],
)
def test_the_data_ssim_is_that_of_the_reference(
    shape: tuple[int, ...], axes: tuple[int, ...] | None, dtype: str
) -> None:
    x, y = noisy(shape, np.float64, size=0.3)
    x, y = (np.rint(field * 20) if dtype[-2] == "i" else field for field in (x, y))
    x, y = x.astype(dtype), y.astype(dtype)
    fill, mask = x.flat[7], np.zeros(shape, bool)
    for holes in (False, True):
        if holes:
            mask.flat[20:][:9] = True
            y.flat[37] = fill  # counts
            if x.dtype.kind == "f":
                x.flat[3::41] = np.nan
        options = {"axes": axes, "metrics": ["climate"]} | (
            {"fill_value": fill, "mask": mask} if holes else {}
        )
        found = [assess(x, y, threads=threads, **options).climate for threads in (1, 2)]
        assert found[0] == found[1]
        valid = np.isfinite(x) & ~((x == fill) & holes) & ~mask
        along = np.argsort([a in (axes or range(x.ndim - 2, x.ndim)) for a in range(x.ndim)])
        turned = (
            f.transpose(along).reshape(-1, *f.transpose(along).shape[-2:]) for f in (x, y, valid)
        )
        scores = [reference.dssim(*one) for one in zip(*turned, strict=True)]
        assert found[0].slices == len(scores)
        assert found[0].dssim_mean == pytest.approx(np.mean(scores), abs=1e-12)
        assert found[0].dssim_min == pytest.approx(min(scores), abs=1e-12)


@cases_with("power_ratio")
def test_golden_power_ratio_comes_out(name: str) -> None:
    golden = GOLDEN["cases"][name]["reference_float64"]["power_ratio"]
    assert assess(*fields(name), metrics="full").spectrum.ratio == pytest.approx(golden, rel=1e-11)


@pytest.mark.parametrize("name", ["syn3d_f32_quant", "syn2d_f32_noise", "syn3d_f64_noise"])
def test_z_checker_agrees_where_it_is_right(name: str) -> None:
    theirs, report = GOLDEN["cases"][name]["z_checker"], assess(*fields(name))
    assert report.error.psnr == pytest.approx(theirs["psnr"], rel=1e-11)
    x = report.original
    about_middle = x.std**2 + (x.mean - (x.min + x.max) / 2) ** 2
    snr = 10 * math.log10(about_middle / report.error.mse)  # as docs/assess.md says
    assert snr == pytest.approx(theirs["snr_midrange"], rel=1e-11)
    assert report.error.mean_abs == pytest.approx(theirs["avg_abs_err"], rel=1e-7)
    assert report.correlation.pearson == pytest.approx(theirs["pearson"], rel=1e-11)


# ------------------------------------------------------------------------------------------------
# Exact cases
# ------------------------------------------------------------------------------------------------


def test_four_points_by_hand() -> None:
    report = assess([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 2.0, 4.0])
    assert (report.error.max_abs, report.error.mean_abs, report.error.mse) == (1, 0.25, 0.25)
    assert report.error.nrmse == 1 / 6
    assert report.error.psnr == pytest.approx(20 * math.log10(6), rel=1e-15)
    assert report.error.pointwise.max == 1 / 3
    assert report.error.pointwise.mean == pytest.approx(1 / 9, rel=1e-15)
    assert (report.error.pointwise.zeros, report.error.pointwise.zeros_changed) == (1, 0)
    assert report.correlation.pearson == pytest.approx(13 / (5 * math.sqrt(7)), rel=1e-15)
    assert 1 - report.correlation.pearson**2 == pytest.approx(6 / 175, rel=1e-13)


def test_alternating_error() -> None:
    x = np.linspace(0, 1, 1000)
    y = x + 2.0**-10 * (-1.0) ** np.arange(1000)
    report = assess(x, y)
    assert report.error.rmse == pytest.approx(2.0**-10, rel=1e-12)
    assert report.autocorrelation[0].values[:2] == pytest.approx((-1, 1), abs=1e-9)


def test_correlation_of_a_mirrored_field_is_minus_1() -> None:
    x = np.array([1.0, 2.0, 3.0])
    found = assess(x, -x).correlation
    assert (found.pearson, found.one_minus_pearson) == (-1, 2)


def test_a_constant_shift_leaves_gradients_and_has_no_autocorrelation() -> None:
    x = _generator["field"]((12, 14, 16))
    report = assess(x, x + 0.25)
    assert (report.error.max_abs, report.error.rmse, report.error.std) == (0.25, 0.25, 0)
    assert report.correlation.pearson == 1
    assert report.correlation.one_minus_pearson == 0
    assert report.derivatives.gradient_max_error == 0
    assert report.derivatives.laplacian_max_error == 0
    assert {v for row in report.autocorrelation for v in row.values} == {None}
    assert "same everywhere" in report.undefined["autocorrelation"]


def test_constant_windows_have_a_similarity_where_a_range_is_given() -> None:
    x = np.full((9, 9, 9), 3.5)
    assert assess(x, x + 0.25, data_range=1.0).ssim.mean == pytest.approx(
        0.9976247121151084, abs=1e-15
    )
    undefined = assess(x, x + 0.25)
    assert undefined.ssim.mean is None
    assert "constant" in undefined.undefined["ssim"]


def test_a_ramp_and_a_parabola() -> None:
    i = np.indices((12, 12, 12))[0].astype(float)
    ramp = assess(i, 2 * i).derivatives
    assert [slope.max_error for slope in ramp.slopes] == [1, 0, 0]
    assert (ramp.gradient_max_error, ramp.laplacian_max_error) == (1, 0)
    assert [one.max_error for one in ramp.curvatures] == [0, 0, 0]
    parabola = assess(i * i, 0 * i).derivatives
    assert (parabola.laplacian_max_error, parabola.laplacian_rmse) == (2, 2)
    told = [(one.max, one.max_error, one.rmse) for one in parabola.curvatures]
    assert told == [(2, 2, 2), (0, 0, 0), (0, 0, 0)]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("width", [5, 27, 31, 33, 61, 255, 257, 259])
def test_only_points_of_the_field_have_derivatives(width: int, dtype: str) -> None:
    """If rows end within a vector; with tests/native/fill_malloc.c, they are followed by NaN."""
    rng = np.random.default_rng(width)
    for shape in ((width,), (5, width), (3, 5, width)):
        x = rng.standard_normal(shape).astype(dtype)
        x.ravel()[x.size // 2 :: 7] = np.nan
        inside = (slice(1, -1),) * x.ndim
        valid = np.isfinite(x)
        counts = valid[inside].copy()
        for axis in range(x.ndim):
            for by in (-1, 1):
                counts &= np.roll(valid, by, axis)[inside]
        found = assess(x, x + np.ones((), dtype), metrics=["derivatives"]).derivatives
        assert found.points == counts.sum()
        if found.points:
            assert found.laplacian_rms is not None
            assert found.gradient_rmse == pytest.approx(0, abs=1e-5)


def test_spacing_is_that_of_the_user() -> None:
    i, j = np.indices((9, 10)).astype(float)
    for one in (2, np.float32(2), [2, 2.0], np.array([2, 2])):
        assert assess(i, 0 * i, spacing=one).derivatives.spacing == (2.0, 2.0)
    found = assess(i * i + j, 0 * i, spacing=(0.5, 4.0)).derivatives
    assert found.slopes[1].max == 0.25
    assert found.laplacian_max_error == 8  # d2(i^2) / 0.5^2
    assert [one.max_error for one in found.curvatures] == [8, 0]
    found = assess(i, i + j * j, spacing=(0.5, 4.0)).derivatives
    assert [one.max_error for one in found.curvatures] == [0, 0.125]


@pytest.mark.parametrize(
    ("x", "y", "bound", "over"),
    [
        (0.0, 0.25, {"absolute": 0.25}, 0),
        (0.0, 0.25000000000000006, {"absolute": 0.25}, 1),
        (116.322559, 116.322549, {"absolute": 1e-5}, 1),  # SZ2 issue 102: over by 3.2e-15
        (0.0, 0.00100000002, {"absolute": 1e-3}, 1),  # within float32(1e-3)
        (1.0, 1.0 + 2.0**-52, {"absolute": 2.0**-53}, 1),
        (1e16, 1e16 + 2, {"absolute": 2.0}, 0),
        (1e300, -1e300, {"absolute": 1.9e300}, 1),
        (1.7e308, -1.7e308, {"absolute": 1.7e308}, 1),  # the difference overflows
        (2.0, 2.0020001, {"pointwise_relative": 1e-3}, 1),
        (2.0, 2.001, {"pointwise_relative": 1e-3}, 0),
        (0.0, 1e-30, {"pointwise_relative": 1e-3}, 1),
        (0.0, -0.0, {"pointwise_relative": 1e-3}, 0),
        (5e-324, 0.0, {"pointwise_relative": 0.9}, 1),
        (1.0, 1.0, {"lossless": True}, 0),
        (0.0, -0.0, {"lossless": True}, 1),
    ],
)
def test_a_bound_is_judged_exactly(x: float, y: float, bound: dict[str, Any], over: int) -> None:
    report = assess([x], [y], **bound)
    assert report.bound.violations == over
    assert report.ok == (over == 0)


@given(
    st.lists(st.tuples(st.floats(width=64), st.floats(width=64)), min_size=1, max_size=40),
    st.sampled_from(["absolute", "pointwise_relative", "range_relative", "lossless"]),
    st.floats(5e-324, 0.99, exclude_max=True),
)
@example([(1.0, 1.5), (2.0, 2.0)], "range_relative", 0.5)
@example([(1.5, 1.125)], "pointwise_relative", 0.25)
def test_violations_are_those_of_rational_arithmetic(
    pairs: list[tuple[float, float]], kind: str, bound: float
) -> None:
    x, y = np.array(pairs).T
    value = 0.0 if kind == "lossless" else bound
    report = assess(x, y, bound=h5lossy.ErrorBound(kind, value), metrics="bound")
    valid = reference.valid_points(x, y)
    if kind == "range_relative":  # its range is the original's own
        own = [Fraction(v) for v in x[np.isfinite(x)].tolist()]
        extent = max(own) - min(own) if own else Fraction(0)
        expected = [
            (i,)
            for i in np.flatnonzero(valid)
            if abs(Fraction(x[i]) - Fraction(y[i])) > Fraction(value) * extent
        ]
    else:
        expected = reference.violations(x, y, kind, value, valid)
    assert report.bound.violations == len(expected)
    assert [v.at for v in report.bound.listed] == expected[:16]


@given(
    st.integers(-(2**52), 2**52), st.integers(-60, 60), st.floats(0.01, 0.99), st.integers(-2, 2)
)
def test_pointwise_ties_are_decided_exactly(m: int, exponent: int, bound: float, ulps: int) -> None:
    x = math.ldexp(m, exponent)
    y = x * (1 + bound)
    for _ in range(abs(ulps)):
        y = math.nextafter(y, math.copysign(math.inf, ulps))
    over = abs(Fraction(y) - Fraction(x)) > Fraction(bound) * abs(Fraction(x))
    assert assess([x], [y], pointwise_relative=bound).bound.violations == over


@pytest.mark.parametrize(
    ("x", "y", "kind"),
    [
        (0.0, math.nan, "nan_introduced"),
        (math.nan, 0.0, "nan_lost"),
        (math.nan, math.inf, "nan_lost"),
        (math.inf, -math.inf, "inf_changed"),
        (math.inf, 1.0, "inf_changed"),
        (1.0, math.inf, "inf_introduced"),
        (-999.0, 5.0, "fill_lost"),
        (5.0, -999.0, "fill_introduced"),
    ],
)
def test_special_values_are_accounted_for(x: float, y: float, kind: str) -> None:
    report = assess([1.0, x], [1.0, y], fill_value=-999.0)
    assert report.special.failed == {kind: 1}
    assert report.special.first[kind] == (1,)
    assert not report.ok
    assert kind in {failure.check for failure in report.failures}


def test_special_values_that_are_kept_are_no_failure(dtype: np.dtype[Any]) -> None:
    x = np.array([1, np.nan, np.inf, -np.inf, -999, 2], dtype)
    report = assess(x, x.copy(), absolute=0.5, fill_value=-999)
    assert report.ok
    assert (report.valid, report.special.nan_kept, report.special.inf_kept) == (2, 1, 2)
    assert report.special.fill_kept == 1


def test_a_nan_with_other_bits_is_changed() -> None:
    x = np.array([0x7FC00001, 0x3F800000], np.uint32).view(np.float32)
    y = np.array([0x7FC00002, 0x3F800000], np.uint32).view(np.float32)
    assert assess(x, y).special.failed == {"nan_changed": 1}


def test_a_nan_hides_no_error() -> None:
    x, y = noisy((40, 50))
    y[3, 4], y[20, 30] = np.nan, x[20, 30] + 5
    report = assess(x, y, absolute=0.02)
    assert report.error.max_at == (20, 30)
    assert report.bound.violations == 1
    assert report.special.nan_introduced == 1
    assert report.ssim.windows < (40 - 6) * (50 - 6)


def test_crossings_and_the_pointwise_threshold_are_counted() -> None:
    x = np.array([0.0, 0.5, 1.0, 2.0])
    y = np.array([0.2, 0.5, 0.9, 2.1])
    report = assess(x, y, threshold_crossings={"wet": 0.1, "one": 1.0})
    assert {crossing.name: crossing.count for crossing in report.threshold_crossings} == {
        "wet": 1,
        "one": 1,
    }
    assert report.error.pointwise.over_threshold == 3  # the changed zero is one of them


# ------------------------------------------------------------------------------------------------
# Other implementations
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(900,), (40, 61), (17, 19, 23), (8, 9, 10, 11)], ids=len)
@pytest.mark.parametrize("masked", [False, True])
def test_everything_is_as_the_reference_has_it(
    shape: tuple[int, ...], masked: bool, dtype: np.dtype[Any]
) -> None:
    x, y = noisy(shape, dtype)
    mask = None
    if masked:
        rng = np.random.default_rng(1)
        x[rng.random(shape) < 0.002] = np.nan
        y[rng.random(shape) < 0.001] = np.inf
        mask = rng.random(shape) < 0.002
        y[np.isnan(x)] = np.nan
    report = assess(x, y, mask=mask, axes=range(x.ndim))
    valid = reference.valid_points(x, y, None, mask)
    points = reference.points(x, y, valid)
    for theirs, ours in NAMES.items():
        if theirs in points:
            want = points[theirs]
            assert number(report, ours) == pytest.approx(want, rel=1e-11, abs=1e-14), theirs
    for kind, count in reference.special(x, y, None, mask).items():
        assert getattr(report if kind == "masked" else report.special, kind) == count
    own = reference.derivatives(x, y, valid)
    if own is not None:
        assert report.derivatives.gradient_psnr == pytest.approx(own["gradmag"]["psnr"], rel=1e-12)
        assert report.derivatives.h1_error == pytest.approx(own["sobolev_h1_err"], rel=1e-12)
    e = np.where(valid, y.astype(float) - x.astype(float), 0)
    correlations = reference.autocorrelation(e, valid)
    for row in report.autocorrelation:
        want = correlations["paper_eq2" if row.axis is None else f"axis{row.axis}"]
        assert row.values == pytest.approx(want, abs=1e-12)
    # The range is the original's own, also where the decoded field has lost the extreme.
    own_values = x[np.isfinite(x) & (True if mask is None else ~mask)].astype(float)
    similarity = reference.ssim(
        x, y, valid, value_range=float(own_values.max()) - float(own_values.min())
    )
    if similarity is None:
        assert report.ssim.mean is None
    else:
        assert report.ssim.windows == similarity["windows"]
        assert report.ssim.one_minus_mean == pytest.approx(similarity["one_minus_mean"], rel=1e-9)
        assert report.ssim.one_minus_min == pytest.approx(similarity["one_minus_min"], rel=1e-9)
        assert report.ssim.min_at == similarity["argmin"]


@pytest.mark.parametrize("window", [2, 3, 7, 8, 11, 16, (2, 9), (16, 7), (3, 7, 5), (2, 5, 4, 7)])
@pytest.mark.parametrize("step", [1, 2, 5])
def test_windows_of_any_side_and_step(window: int | tuple[int, ...], step: int) -> None:
    shapes = {3: (5, 12, 13), 4: (3, 6, 7, 9)}
    shape = shapes.get(len(window), (21, 33)) if isinstance(window, tuple) else (21, 33)
    x, y = noisy(shape, size=0.5)
    every = range(len(shape))
    found = assess(x, y, axes=every, ssim={"window": window, "step": step}).ssim
    valid = np.ones(x.shape, bool)
    extent = float(x.max()) - float(x.min())
    want = reference.ssim(x, y, valid, window=window, step=step, value_range=extent)
    assert found.windows == want["windows"]
    assert found.one_minus_mean == pytest.approx(want["one_minus_mean"], rel=1e-10)
    assert found.min_at == want["argmin"]


@pytest.mark.parametrize("shape", [(64, 70), (20, 24, 30)], ids=len)
def test_scikit_image_agrees(shape: tuple[int, ...]) -> None:
    metrics = pytest.importorskip("skimage.metrics", reason="scikit-image is not installed")
    x, y = noisy(shape, np.float64, size=2.0)
    theirs = metrics.structural_similarity(
        x, y, win_size=7, data_range=x.max() - x.min(), use_sample_covariance=False
    )
    assert assess(x, y).ssim.mean == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize("garbage", [1e100, -1.7e308])
def test_an_error_beyond_measure_is_no_likeness_at_all(garbage: float) -> None:
    x, y = noisy((20, 30), np.float64)
    y[10, 12] = garbage
    found = assess(x, y).ssim
    assert found.one_minus_min == 1
    assert found.one_minus_mean == pytest.approx(49 / (14 * 24), rel=1e-3)


def test_scipy_and_numpy_agree() -> None:
    stats = pytest.importorskip("scipy.stats", reason="SciPy is not installed")
    x, y = noisy((300, 400))
    report = assess(x, y)
    assert report.correlation.pearson == pytest.approx(
        stats.pearsonr(x.ravel().astype(float), y.ravel().astype(float)).statistic, abs=1e-12
    )
    sizes = np.abs(y.astype(float) - x.astype(float))
    for q, got in ((50, "p50"), (90, "p90"), (99, "p99"), (99.9, "p99_9")):
        want = np.percentile(sizes, q)
        assert getattr(report.error.quantiles, got) == pytest.approx(want, rel=1 / 15)


def test_the_divergence_of_a_vector_field() -> None:
    rng = np.random.default_rng(0)
    x = [rng.normal(size=(8, 9, 10)) for _ in range(3)]
    y = [c + rng.normal(size=c.shape) * 0.1 for c in x]
    found = h5lossy.assess_divergence(x, y, spacing=(1.0, 2.0, 0.5), memory_limit="1 MiB")
    inside = (slice(1, -1),) * 3

    def divergence(v: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
        return sum(
            np.gradient(c, h, axis=axis)[inside]
            for axis, (c, h) in enumerate(zip(v, (1.0, 2.0, 0.5), strict=True))
        )

    off = divergence(y) - divergence(x)
    assert found.points == off.size
    assert found.rmse == pytest.approx(math.sqrt((off**2).mean()), rel=1e-12)
    assert found.max_error == pytest.approx(np.abs(off).max(), rel=1e-12)
    assert found.rms == pytest.approx(math.sqrt((divergence(x) ** 2).mean()), rel=1e-12)
    masked = [np.ma.array(c, mask=np.arange(c.size).reshape(c.shape) == 444) for c in x]
    masked[0].data[masked[0].mask] = 1e9
    without = h5lossy.assess_divergence(x, y, mask=masked[0].mask)
    assert without.points < found.points
    assert h5lossy.assess_divergence(masked, y) == without
    assert h5lossy.assess_divergence(np.stack(x), np.stack(y), spacing=(1.0, 2.0, 0.5)) == found
    with pytest.raises(InvalidArgumentError, match="one component an axis"):
        h5lossy.assess_divergence([], [])


# ------------------------------------------------------------------------------------------------
# Nothing depends on how the data is cut
# ------------------------------------------------------------------------------------------------


def stored(
    file: h5py.File, name: str, values: np.ndarray[Any, Any], chunks: tuple[int, ...] | None
) -> h5py.Dataset:
    return file.create_dataset(name, data=values, chunks=chunks)


shapes = st.one_of(
    st.tuples(st.integers(1, 9000)),
    st.tuples(st.integers(1, 300), st.integers(1, 60)),
    st.tuples(st.integers(1, 20), st.integers(1, 40), st.integers(1, 20)),
    st.tuples(*[st.integers(1, 9)] * 4),
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.data(), shapes, st.sampled_from(["f4", "f8", ">f4"]), st.integers(0, 2**32 - 1))
def test_no_chunking_and_no_number_of_threads_changes_a_bit(
    data: st.DataObject, shape: tuple[int, ...], kind: str, seed: int
) -> None:
    x, y = noisy(shape, kind, seed=seed)
    if data.draw(st.booleans()):
        rng = np.random.default_rng(seed)
        x[rng.random(shape) < 0.01] = np.nan
        y[np.isnan(x)] = np.nan
    whole = numbers_of(assess(x, y, threads=1))
    chunks = [
        data.draw(st.none() | st.tuples(*(st.integers(1, n) for n in shape))) for _ in range(2)
    ]
    with (
        h5py.File("a.h5", "w", driver="core", backing_store=False) as file,
        pytest.MonkeyPatch.context() as patch,
    ):
        # Slabs are as thick as chunks are, and not the whole field.
        patch.setattr("h5lossy.assessment._walk._BYTES_AT_ONCE", 1)
        patch.setattr("h5lossy.assessment._walk._TIMES_KEPT", 0)
        a, b = stored(file, "x", x, chunks[0]), stored(file, "y", y, chunks[1])
        in_chunks = assess(a, b, threads=data.draw(st.integers(1, 4)))
    assert numbers_of(in_chunks) == whole


@pytest.mark.parametrize(
    "shape",
    slow_but([(6, 200, 700), (3, 40, 30, 70), (40, 9000), (5, 40, 60, 30)], [(3, 40, 30, 70)]),
    ids=str,
)
def test_columns_of_a_slab_that_is_too_large_give_the_same(shape: tuple[int, ...]) -> None:
    x, y = noisy(shape)
    some = np.random.default_rng(1).random(shape)
    y[some < 0.001], x[some > 0.999] = np.nan, np.inf
    y[..., -3] += 1
    with h5py.File("a.h5", "w", driver="core", backing_store=False) as file:
        a = stored(file, "x", x, (1, *(min(16, n) for n in shape[1:])))
        b = stored(file, "y", y, (2, *(min(23, n) for n in shape[1:])))
        options: dict[str, Any] = {"absolute": 0.02, "data_range": 9.0, "axes": range(x.ndim)}
        whole = assess(a, b, **options)
        columns = assess(a, b, **options, memory_limit="1 MiB")
    assert columns.provenance.amplification > whole.provenance.amplification == 1
    assert columns.bound == whole.bound
    assert len(whole.bound.listed) == 16
    assert columns.per_chunk.max_abs == whole.per_chunk.max_abs
    assert columns.per_chunk.special == whole.per_chunk.special
    assert columns.ssim.min_at == whole.ssim.min_at
    assert_same(columns, whole)


def test_columns_know_of_what_is_not_valid_in_those_to_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, y = noisy((9, 40, 60))
    y[4, 17, 20] = np.nan  # the first column reaches it, and owns nothing but valid points
    whole = assess(x, y)
    with h5py.File("a.h5", "w", driver="core", backing_store=False) as file:
        a, b = stored(file, "x", x, None), stored(file, "y", y, None)
        monkeypatch.setattr("h5lossy.assessment._walk._OF_LIMIT", 2**-12)
        columns = assess(a, b)
    assert columns.provenance.amplification > 1
    assert columns.derivatives.points == 7 * 38 * 58 - 7
    assert_same(columns, whole)


def test_axes_permute() -> None:
    x, y = noisy((20, 24, 28), np.float64)
    report, turned = assess(x, y), assess(x.transpose(2, 0, 1), y.transpose(2, 0, 1))
    assert turned.ssim.one_minus_mean == pytest.approx(report.ssim.one_minus_mean, rel=1e-11)
    axes = {row.axis: row.values for row in report.autocorrelation}
    for row in turned.autocorrelation:
        before = row.axis if row.axis is None else (2, 0, 1)[row.axis]
        assert row.values == pytest.approx(axes[before], abs=1e-12)


_IN_LITTLE_MEMORY = """
import sys
import numpy as np, h5lossy

class Field:
    # Waves and steps, that nobody has to hold.
    shape, dtype = {shape}, np.dtype({dtype!r})
    def __init__(self, step):
        self.step = step
    def __getitem__(self, selection):
        *others, last = (np.arange(s.start, s.stop, dtype=np.float32) for s in selection)
        rest = sum(n.reshape(-1, *[1] * (i + 1)) for i, n in enumerate(reversed(others)))
        values = np.sin(last / 99) * 99 + rest % 17
        return (np.rint(values / self.step) * self.step).astype({dtype!r})

def peak(reset=False):
    if reset:
        open("/proc/self/clear_refs", "w").write("5")
    words = open("/proc/self/status").read().split()
    return int(words[words.index("VmHWM:" if not reset else "VmRSS:") + 1]) / 1024

x, y = Field(0.25), Field(2)
if {in_memory}:
    everything = tuple(slice(0, n) for n in Field.shape)
    x, y = (np.asfortranarray(field[everything]) for field in (x, y))
h5lossy.assess([1.0, 2.0], [1.0, 2.0], metrics="full")
before = peak(reset=True)
report = h5lossy.assess(x, y, absolute=1.0, metrics={metrics!r}, slices=True)
assert report.ok and report.points == np.prod(Field.shape)
print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize(
    ("shape", "dtype", "in_memory", "metrics"),
    [
        ((2, 4000, 4000), "f4", False, "bound"),
        ((2, 4000, 4000), "f2", True, "standard"),
        ((2, 3000, 3000), "f4", False, ["climate", "pointwise"]),
        ((30_000_000,), "i2", True, "bound"),
        ((3, 40, 1000, 400), "f4", False, "standard"),
    ],
    ids=str,
)
def test_no_field_takes_more_memory_than_said(
    shape: tuple[int, ...], dtype: str, in_memory: bool, metrics: Any
) -> None:
    code = _IN_LITTLE_MEMORY.format(shape=shape, dtype=dtype, in_memory=in_memory, metrics=metrics)
    assert float(run_python(code).stdout) < 256


def test_slices_may_be_looked_at_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = noisy((2, 400, 333))
    x[:, 100:110, 50:90] = np.nan
    y[1, 399, 332] += 1
    options: dict[str, Any] = {"metrics": ["climate", "pointwise"], "slices": True}
    whole = assess(x, y, **options)
    monkeypatch.setattr("h5lossy.assessment._climate._OF_LIMIT", 1e-9)
    monkeypatch.setattr("h5lossy.assessment._slices._PART_BYTES", 3000)
    monkeypatch.setattr("h5lossy.assessment.metrics._VALUES_OF_BLOCK", 2000)
    parts = assess(x, y, **options)
    assert parts.relative_histogram == whole.relative_histogram
    assert parts.climate == whole.climate
    for mine, theirs in zip(parts.slices, whole.slices, strict=True):
        for name in ("original", "decoded", "error"):
            assert np.array_equal(getattr(mine, name), getattr(theirs, name), equal_nan=True)
    # Every second point, and of the errors the largest of each two by two.
    assert theirs.original.shape == (200, 167)
    assert np.array_equal(theirs.original, x[1, ::2, ::2], equal_nan=True)
    assert theirs.error[-1, -1] == y[1, 399, 332].astype(float) - x[1, 399, 332]


def test_histograms_count_what_the_reference_counts() -> None:
    x, y = noisy((100, 100), np.float64, size=3.0)
    y[0, :5] = x[0, :5]
    y[1, 0] += 1000
    e = y - x
    params = _native.AssessParams(value_bytes=8)
    state = _native.AssessState(params)
    state.points(0, x.reshape(-1), y.reshape(-1), None)
    found = state.points_result()
    counts = {(i >> 11, i & 2047): int(c) for i, c in enumerate(found.log_bins) if c}
    assert counts == reference.log_histogram(e)
    assert found.linear_bins.tolist() == reference.linear_histogram(e, found.grid_exponent)
    report = assess(x, y, absolute=3.0)
    histogram = report.histogram
    assert sum(histogram.counts) + histogram.above + histogram.below == x.size
    assert histogram.above == 1
    assert 64 * histogram.bin_width <= 3.0 < 128 * histogram.bin_width


_ON_A_BACKEND = """
import numpy as np, h5lossy
rng = np.random.default_rng(0)
for shape in ((9000,), (50, 70), (20, 30, 40), (8, 9, 10, 11)):
    for dtype in ("f4", "f8"):
        x = (rng.normal(size=shape).cumsum(axis=-1) + 100).astype(dtype)
        y = (x + rng.uniform(-0.1, 0.1, shape)).astype(dtype)
        print(h5lossy.assess(x, y, absolute=0.05, metrics="climate").to_json(indent=None))
        x[rng.random(shape) < 0.02] = np.nan
        print(h5lossy.assess(x, y, pointwise_relative=1e-3, metrics="climate").to_json(indent=None))
"""


@pytest.mark.slow
def test_every_backend_gives_the_same_bits() -> None:
    said = {
        name: run_python(_ON_A_BACKEND, env=environment(H5LOSSY_BACKEND=name)).stdout
        for name, usable in _native.backends().items()
        if usable
    }
    assert len(said["scalar"].splitlines()) == 16
    for name, text in said.items():
        assert text == said["scalar"], name


# ------------------------------------------------------------------------------------------------
# Injected faults
# ------------------------------------------------------------------------------------------------


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path, np.ndarray[Any, Any]]:
    x, y = noisy((24, 30, 36), size=0.01)
    original, decoded = tmp_path / "x.h5", tmp_path / "y.h5"
    with h5py.File(original, "w") as file:
        stored(file, "t", x, (8, 10, 12))
    with h5py.File(decoded, "w") as file:
        stored(file, "t", y, (8, 10, 12))
    return original, decoded, x


def judged(pair: tuple[Path, Path, Any], **options: Any) -> h5lossy.Report:
    original, decoded, _ = pair
    return assess(f"{original}:/t", f"{decoded}:/t", absolute=0.02, **options)


def test_a_sound_pair_passes(pair: Any) -> None:
    report = judged(pair)
    assert report.ok
    assert report.provenance.passes == 2
    assert judged(pair, data_range=1.0).provenance.passes == 1


def test_one_point_beyond_the_bound_is_found(pair: Any) -> None:
    with h5py.File(pair[1], "r+") as file:
        file["t"][17, 5, 30] = pair[2][17, 5, 30] + 0.5
    report = judged(pair)
    [violation] = report.bound.listed
    assert violation.at == (17, 5, 30)
    assert violation.chunk == (2, 0, 2)
    assert report.error.max_at == (17, 5, 30)
    worst = np.argmax(report.per_chunk.max_abs)
    assert np.unravel_index(worst, report.per_chunk.grid) == (2, 0, 2)


def test_one_nan_is_found(pair: Any) -> None:
    with h5py.File(pair[1], "r+") as file:
        file["t"][9, 29, 0] = np.nan
    report = judged(pair)
    assert report.special.first["nan_introduced"] == (9, 29, 0)
    assert np.flatnonzero(report.per_chunk.special).tolist() == [1 * 9 + 2 * 3 + 0]


def test_two_chunks_in_each_others_place_are_found(pair: Any) -> None:
    with h5py.File(pair[1], "r+") as file:
        t = file["t"]
        t[:8, :10, :12], t[16:, 20:, 24:] = t[16:, 20:, 24:], t[:8, :10, :12]
    over = np.flatnonzero(np.array(judged(pair).per_chunk.max_abs) > 0.02)
    assert over.tolist() == [0, 26]


def spiked() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Make a ramp, and another with one error, right behind a border of slabs of eight planes."""
    x = np.zeros((64, 40, 40))
    x[:, 0, 0] = np.arange(64)
    y = x.copy()
    y[32, 20, 20] += 1
    return x, y


def in_slabs(
    x: np.ndarray[Any, Any], y: np.ndarray[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> h5lossy.Report:
    monkeypatch.setattr("h5lossy.assessment._walk._BYTES_AT_ONCE", 1)
    with h5py.File("a.h5", "w", driver="core", backing_store=False) as file:
        return assess(stored(file, "x", x, (8, 40, 40)), stored(file, "y", y, (8, 40, 40)))


@pytest.mark.parametrize("kind", ["<f8", ">f8", ">f4"])
def test_what_crosses_the_border_of_slabs_is_counted(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = in_slabs(*(field.astype(kind) for field in spiked()), monkeypatch)
    lags = report.autocorrelation[0]
    assert report.derivatives.slopes[0].max_error == 0.5
    assert report.derivatives.laplacian_max_error == 6
    pairs = (64 - 1) * 40 * 40
    assert lags.band[0] == pytest.approx(1.96 / math.sqrt(pairs), rel=1e-15)
    corners = np.argwhere(np.ones((7, 7, 7))) + np.array([26, 14, 14])
    assert report.ssim.min_at in {tuple(map(int, c)) for c in corners}
    assert report.ssim.windows == 58 * 34 * 34
    assert report.derivatives.points == 62 * 38 * 38
    wanted = numbers_of(assess(*spiked())) | {"dtype": f"float{8 * int(kind[2])}"}
    assert numbers_of(report) == wanted


# ------------------------------------------------------------------------------------------------
# Inputs
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (np.arange(12, dtype=np.float16), np.arange(12, dtype=np.float16) + np.float16(0.5)),
        (np.arange(12, dtype=np.int16), np.arange(12, dtype=np.int32)),
        (np.arange(12, dtype=">f8"), np.arange(12, dtype="<f4")),
        (np.arange(24.0)[::2], np.arange(24.0)[::2] + 1),
        (np.float64(3), np.float64(4)),
        (np.zeros((0, 5)), np.zeros((0, 5))),
        (np.zeros((1, 1, 5)), np.ones((1, 1, 5))),
        (np.zeros((2,) * 6), np.ones((2,) * 6)),
    ],
    ids=["float16", "integers", "mixed", "strided", "scalar", "empty", "unit axes", "rank 6"],
)
def test_inputs_of_all_kinds(x: Any, y: Any) -> None:
    report = assess(x, y, metrics="full")
    assert report.points == np.size(x)
    if np.size(x):
        error = np.abs(np.asarray(y, float) - np.asarray(x, float))
        assert report.error.max_abs == error.max()
    assert h5lossy.Report.from_json(report.to_json()) == report


class _Tensor:
    """Has a shape, a dtype that NumPy does not know, and DLPack, like PyTorch's tensors."""

    dtype = "torch.float32"

    def __init__(self, values: np.ndarray[Any, Any], refuse: bool = False) -> None:
        self._values, self._refuse, self.shape = values, refuse, values.shape

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._values.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        if self._refuse:
            raise BufferError("use tensor.detach() first")
        return self._values.__dlpack__(**options)


def test_arrays_of_other_libraries_are_taken_through_dlpack() -> None:
    x, y = noisy((20, 30))
    mask = x > 100
    found = assess(_Tensor(x), _Tensor(y), mask=_Tensor(mask.view(np.uint8)))
    assert numbers_of(found) == numbers_of(assess(x, y, mask=mask))
    with pytest.raises(UnsupportedError, match=r"decoded .* DLPack: use tensor\.detach"):
        assess(x, _Tensor(y, refuse=True))


@pytest.mark.parametrize("kind", ["bool", "u1", "i4", ">i2"])
@pytest.mark.parametrize("in_file", [False, True])
def test_masks_are_what_is_not_0(kind: str, in_file: bool, tmp_path: Path) -> None:
    x, y = noisy((20, 30))
    mask = np.zeros(x.shape, kind)
    mask[3] = True if kind == "bool" else 256 if np.dtype(kind).itemsize > 1 else 2
    y[3] += 7
    with h5py.File(tmp_path / "m.h5", "w") as file:
        given = stored(file, "m", mask, (4, 30)) if in_file else mask
        report = assess(x, y, mask=given, absolute=0.02, metrics="full", slices=True)
    assert report.ok
    assert report.masked == 30
    assert report.ssim.value_range == float(np.delete(x, 3, 0).max()) - np.delete(x, 3, 0).min()


@pytest.mark.parametrize("declared", [np.float64(1e20), np.float32(1e20), [1e20]], ids=repr)
def test_a_fill_value_that_an_attribute_declares_is_left_out(declared: Any) -> None:
    x, y = noisy((20, 30))
    x[2], y[2] = 1e20, 1e20
    with h5py.File("a.h5", "w", driver="core", backing_store=False) as file:
        a = stored(file, "x", x, None)
        a.attrs["_FillValue"] = declared
        assert assess(a, y).special.fill_kept == 30
        a.attrs["_FillValue"] = "nothing"
        with pytest.warns(RuntimeWarning, match="/x: attribute _FillValue is ignored"):
            assert assess(a, y).fill_value is None


def test_zeros_of_either_sign_are_different_fill_values() -> None:
    x, y = noisy((4, 24, 30))
    x[:, 3], y[:, 3], x[:, 4], y[:, 4] = 0.0, 0.0, -0.0, -0.0
    report = assess(x, y, fill_value=0.0, metrics=["pointwise"])
    assert report.valid == x.size - 4 * 30
    histogram = report.relative_histogram
    assert histogram.exact + sum(histogram.counts) + report.error.pointwise.zeros == report.valid


def test_axes_of_extent_one_are_left_out() -> None:
    x, y = noisy((20, 30))
    flat, thick = assess(x, y), assess(x[:, None, :, None], y[:, None, :, None])
    assert thick.ssim.mean == flat.ssim.mean
    assert [row.axis for row in thick.autocorrelation] == [0, 2, None]
    assert thick.error.max_at == (flat.error.max_at[0], 0, flat.error.max_at[1], 0)


def test_memmaps_and_what_can_only_be_cut(tmp_path: Path) -> None:
    x, y = noisy((40, 50, 20))
    x.tofile(tmp_path / "x")
    on_disk = np.memmap(tmp_path / "x", np.float32, "r", shape=x.shape)

    class Cut:
        shape, dtype = y.shape, y.dtype

        def __getitem__(self, selection: Any) -> Any:
            assert np.prod([s.stop - s.start for s in selection]) <= y.size
            return y[selection]

    assert numbers_of(assess(on_disk, Cut())) == numbers_of(assess(x, y))


def test_other_libraries_variables_are_read(tmp_path: Path) -> None:
    netcdf = pytest.importorskip("netCDF4", reason="netCDF4 is not installed")
    xarray = pytest.importorskip("xarray", reason="xarray is not installed")
    x, y = noisy((20, 30))
    assert numbers_of(assess(xarray.DataArray(x), y)) == numbers_of(assess(x, y))
    with netcdf.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("a", 20)
        file.createDimension("b", 30)
        variable = file.createVariable("t", "f4", ("a", "b"), fill_value=1e20)
        variable[...] = y
        wanted = numbers_of(assess(x, y, fill_value=1e20))
        assert numbers_of(assess(x, variable)) == wanted
        variable[3, 4] = 1e20  # a masked array is what it gives, with 1e20 below
        report = assess(x, variable)
        assert report.special.failed == {"fill_introduced": 1}
        assert variable.mask
        assert variable.scale
        y[3, 4] = 1e20
        wanted = numbers_of(assess(x, y, fill_value=1e20))
        assert numbers_of(report) == wanted
        file.set_auto_maskandscale(False)
        assert numbers_of(assess(x, variable)) == wanted


def test_the_bound_is_taken_from_the_file(tmp_path: Path) -> None:
    x, _ = noisy((40, 50))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        packed = file.create_dataset(
            "t", data=x, chunks=(20, 25), compression=h5lossy.PFPL(absolute=0.25)
        )
        # HDF5's cache has chunks that were just written as they were before their compression.
        report = assess(x, packed)
        file.flush()
        assert assess(x, packed).size.ratio > 1
    bound = report.bound
    assert (bound.kind, bound.value, bound.source) == ("absolute", 0.25, "file")
    assert report.ok
    assert report.error.max_abs > 0.1


def _undefined_fields() -> dict[str, tuple[Any, Any]]:
    x, y = noisy((12, 13, 14), np.float64)
    holes = np.where(np.random.default_rng(0).random(x.shape) < 0.3, np.nan, x)
    one = np.where(np.arange(x.size).reshape(x.shape) == 5, 1.0, np.nan)
    return {
        "sound": (x, y),
        "identical": (x, x),
        "constant": (x * 0 + 1, x * 0 + 1),
        "constant, shifted": (x * 0 + 1, x * 0 + 2),
        "zeros": (x * 0, x * 0),
        "zeros, changed": (x * 0, y),
        "NaN": (x * np.nan, x * np.nan),
        "holes": (holes, holes + 0.1 * y),
        "one valid point": (one, one),
        "empty": (x[:0], y[:0]),
        "scalar": (np.float64(1), np.float64(2)),
        "one point": (x[:1, :1, :1], y[:1, :1, :1]),
        "three planes": (x[:3], y[:3]),
        "one axis": (x[0, 0], y[0, 0]),
        "six axes": (x.reshape(2, 2, 3, 13, 7, 2), y.reshape(2, 2, 3, 13, 7, 2)),
        "decoded is constant": (x, x * 0),
        "constant error": (np.rint(x), np.rint(x) + 1),
        "beyond float64": (x * 1e306, -x * 1e306),
        "denormal": (x * 1e-310, y * 1e-310),
    }


@pytest.mark.parametrize("name", _undefined_fields())
def test_whatever_is_undefined_has_its_reason(name: str) -> None:
    x, y = _undefined_fields()[name]
    with h5py.File("a.h5", "w", driver="core", backing_store=False) as file:
        chunks = tuple(-(-n // 2) for n in y.shape) if np.size(y) and y.shape else None
        decoded = stored(file, "y", y, chunks)
        report = assess(x, decoded, range_relative=0.1, metrics="full")

    def nulls(value: Any, name: str = "") -> set[str]:
        if isinstance(value, dict):
            pairs = [(key, item) for key, item in value.items() if key != "undefined"]
            return set().union(*(nulls(v, f"{name}.{k}" if name else k) for k, v in pairs))
        if isinstance(value, list):
            return set().union(*(nulls(item, name) for item in value))
        return {name} if value is None else set()

    # Not given, of other types, or no number at all: the row of all axes, what has no chunks.
    declared = {"fill_value", "valid_min", "valid_max", "provenance.units", "provenance.long_name"}
    declared |= {"bound.share", "error.max_modulus"}
    parts = {"per_chunk", "per_slice", "safeguards", "weighted"}
    others = declared | parts | {"autocorrelation.axis", "bound.listed.chunk"}
    reasons = {re.sub(r"^autocorrelation\..*", "autocorrelation", key) for key in report.undefined}
    unexplained = {
        null
        for null in nulls(report.to_dict()) - others
        if not any(null == key or null.startswith(f"{key}.") for key in reasons)
    }
    assert not unexplained
    assert all(reason for reason in report.undefined.values())


def test_the_reason_is_the_right_one() -> None:
    x = np.full((9, 9), np.nan)
    report = assess(x, x)
    assert report.undefined["ssim"] == "the original has no valid value"
    assert "histogram -" in re.sub(" +", " ", report.to_text())
    assert "0 of 81 valid" in report.to_text()


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (([1.0], [1.0, 2.0]), NotComparableError, "one shape"),
        ((["a"], ["a"]), NotComparableError, "floats"),
        ((np.ones(1, "i8"), np.ones(1, "u8")), NotComparableError, "no type that holds both"),
        ((np.ones(1, "i8"), np.ones(1)), NotComparableError, "no type that holds both exactly"),
        (("a.h5", [1.0]), InvalidArgumentError, "file.h5:/path"),
    ],
)
def test_what_cannot_be_compared_is_refused(arguments: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        assess(*arguments)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"absolute": 1.0, "lossless": True}, "one bound"),
        ({"metrics": "nice"}, "metrics must be"),
        ({"require": "psnr<=3"}, "is >="),
        ({"require": "beauty>=3"}, "can be set for"),
        ({"require": "psnr"}, "reads like"),
        ({"ssim": {"window": 1}}, "2 to 16"),
        ({"ssim": {"size": 7}}, "window and step"),
        ({"ssim": 7}, "window and step"),
        ({"ssim": {"window": 7.5}}, "window must be 2 to 16, got 7.5"),
        ({"ssim": {"window": (7, 7)}}, "one for each of 1 axes"),
        ({"ssim": {"window": (7, 17)}}, "window must be 2 to 16, got 17"),
        ({"ssim": {"step": 0}}, "step must be 1 to"),
        ({"ssim": {"step": 2**64}}, "step must be 1 to"),
        ({"ssim": {"window": np.ma.masked}}, "window"),
        ({"lags": 17}, "0 to 16"),
        ({"lags": 2.5}, "lags must be 0 to 16, got 2.5"),
        ({"lags": "3"}, "lags must be"),
        ({"threads": 1.5}, "threads must be"),
        ({"metrics": None}, "metrics takes"),
        ({"require": ["psnr>=3"]}, "thresholds are text"),
        ({"data_range": "3"}, "data_range must be"),
        ({"relative_threshold": "3"}, "relative_threshold must be"),
        ({"spacing": "abc"}, "spacing must be"),
        ({"threshold_crossings": [1]}, "threshold_crossings takes"),
        ({"spacing": (1.0, 2.0)}, "spacing"),
        ({"spacing": -1.0}, "spacing"),
        ({"data_range": 0.0}, "data_range"),
        ({"mask": np.zeros(3, bool)}, "shape"),
        ({"mask": np.zeros(8)}, "bool"),
        ({"threshold_crossings": {"a": math.nan}}, "threshold_crossings"),
        ({"threads": 0}, "threads"),
        ({"memory_limit": "12 parsecs"}, "memory_limit"),
        ({"memory_limit": 10}, "1 MiB"),
        ({"fill_value": "none"}, "fill_value"),
    ],
)
def test_arguments_that_are_not_allowed_are_named(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        assess(np.arange(8.0), np.arange(8.0), **options)


@pytest.mark.parametrize("function", [assess, h5lossy.Assessor])
def test_help_shows_all_options(function: Any) -> None:
    options = inspect.signature(AssessOptions).parameters
    assert options.keys() <= inspect.signature(function).parameters.keys()
    message = rf"^{function.__name__}.*\(\) has no option 'absolute_error'; .* absolute,"
    with pytest.raises(TypeError, match=message):
        function((9, 9), "f4", absolute_error=1.0)


def test_thresholds_are_part_of_the_verdict() -> None:
    x, y = noisy((30, 30))
    assert assess(x, y, require="psnr>=20, ssim>=0.5, nines>=1").ok
    report = assess(x, y, require="psnr>=200", metrics="bound")
    assert [failure.check for failure in report.failures] == ["psnr"]
    # What is not defined does not meet a threshold.
    assert not assess(x * 0, x * 0, require="ssim>=0.1").ok


@pytest.mark.parametrize(
    ("shape", "metrics", "times"),
    [  # range, walk, data SSIM, relative errors, distributions
        ((50, 60), "full", 5),
        ((900,), "climate", 3),
        ((9, 9), "climate", 3),
    ],
    ids=str,
)
def test_progress_counts_the_bytes_of_the_original(
    shape: tuple[int, ...], metrics: str, times: int
) -> None:
    x, y = noisy(shape)
    told: list[tuple[int, int]] = []
    assess(x, y, metrics=metrics, progress=lambda done, total: told.append((done, total)))
    assert told == sorted(told)
    assert {total for _, total in told} == {times * x.nbytes}
    assert told[-1][0] == times * x.nbytes


@pytest.mark.parametrize("axes", [2, 3])
def test_errors_of_slopes_beyond_float64_are_not_lost(axes: int) -> None:
    x = np.random.default_rng(1).normal(size=(12, 14, 15)[:axes])
    y = x.copy()
    y[(4,) * axes] = 1e160
    found = assess(x, y, metrics=["derivatives"], require="gradient_psnr>=20")
    assert found.derivatives.gradient_max_error is None
    assert found.derivatives.gradient_rmse is None
    assert not found.ok


def test_progress_may_be_a_bar(capfd: pytest.CaptureFixture[str]) -> None:
    assess([1.0, 2.0], [1.0, 2.0], progress=True)
    assert "assessing decoded" in capfd.readouterr().err


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(
    hnp.arrays(np.float32, hnp.array_shapes(max_dims=4, max_side=12), elements=st.floats(width=32)),
    st.data(),
)
def test_any_bits_give_a_whole_report(x: np.ndarray[Any, Any], data: st.DataObject) -> None:
    y = data.draw(hnp.arrays(np.float32, x.shape, elements=st.floats(width=32)))
    report = assess(x, y, absolute=1.0, metrics="full", fill_value=1.0)
    assert h5lossy.Report.from_json(report.to_json()) == report
    counts = {
        k: getattr(report.special, k) for k in _native.SPECIAL_KINDS if k != "fill_introduced"
    }
    assert report.valid + sum(counts.values()) == x.size
    assert report.to_text()

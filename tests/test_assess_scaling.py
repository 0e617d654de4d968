# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The unit changes no number of `h5lossy.assess` if squares fit; beyond, they are undefined."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

import h5py
import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given, settings

from h5lossy import assess
from h5lossy.assessment import assess_divergence
from reports import numbers_of

Field = np.ndarray[Any, np.dtype[np.float64]]

EXPONENTS = st.integers(-1000, 1000)

#: Contents of a report that are not numbers.
TEXT = re.compile("provenance|undefined")

#: Numbers that need squares.
NEEDS_SQUARES = re.compile(
    r"(original|decoded)\.std|error\.(std|mse|rmse|nrmse|psnr|snr|quantiles)|correlation|spectrum"
    r"|derivatives\.((slopes|curvatures)\.\d+\.rmse|gradient|laplacian_(rms|rmse|snr)|h1)|autocorrelation|climate"
)

#: Numbers in the unit of the field, by their path in a report. mse has its square, all others none.
HAS_UNIT = re.compile(
    r"(original|decoded)\.|error\.(min|max|mean|std|min_abs|max_abs|max_original|max_decoded"
    r"|mean_abs|rmse)$|error\.quantiles|histogram\.bin_width|ssim\.value_range"
    r"|derivatives\.((slopes|curvatures)\.\d+\.(max|max_error|rmse)|(gradient|laplacian)_(max|range|rms)"
    r"|(gradient|laplacian)_(max_error|rmse)|h1_error)$|distribution\.wasserstein$"
    r"|per_slice\.(max_abs|rmse|mean|gradient_rmse|laplacian_rmse)\.(worst$|mean|values)"
)


def power_of(path: str) -> int:
    """Return the power of the unit that a number has."""
    return 2 if path == "error.mse" else 1 if HAS_UNIT.match(path) else 0


def field_and_error(seed: int, shape: tuple[int, ...]) -> tuple[Field, Field]:
    """Make numbers that are still exact when multiplied by 2^-1000."""
    rng = np.random.default_rng(seed)
    x = np.rint(rng.standard_normal(shape) * 2**20) / 2**20
    return x, np.rint(rng.standard_normal(shape) * 2**10) / 2**30


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from([(50,), (12, 15), (8, 9, 10), (7, 7, 7, 8)]),
    st.integers(0, 99),
    st.integers(-370, 390),
)
@example((12, 15), 0, -370)
@example((8, 9, 10), 0, 390)
def test_the_unit_changes_no_number(shape: tuple[int, ...], seed: int, exponent: int) -> None:
    x, e = field_and_error(seed, shape)
    mask = np.zeros(shape, bool)
    if seed % 2:
        x.ravel()[3], mask.ravel()[5] = np.nan, True
    wanted = assess(x, x + e, metrics="full", mask=mask)
    unit = np.ldexp(1.0, exponent)
    found = assess(unit * x, unit * (x + e), metrics="full", mask=mask)
    there = numbers_of(found, TEXT)
    for path, value in numbers_of(wanted, TEXT).items():
        if path.startswith(("error.quantiles", "histogram")) and not -75 < exponent < 140:
            continue  # where the histogram's bins end
        if isinstance(value, float):
            scaled = math.ldexp(value, power_of(path) * exponent)
            assert there[path] == pytest.approx(scaled, rel=1e-13, abs=1e-323), path
        else:
            assert there[path] == value, path


@settings(max_examples=20, deadline=None)
@given(st.sampled_from([(50,), (12, 15), (8, 9, 10)]), EXPONENTS.filter(lambda e: abs(e) > 430))
@example((12, 15), 1000)
@example((12, 15), -1000)
def test_beyond_squares_numbers_are_right_or_have_a_reason(
    shape: tuple[int, ...], exponent: int
) -> None:
    x, e = field_and_error(0, shape)
    wanted = assess(x, x + e, metrics="full")
    unit = np.ldexp(1.0, exponent)
    found = assess(unit * x, unit * (x + e), metrics="full", require="psnr>=1")
    assert not found.ok
    there = numbers_of(found, TEXT)
    for path, value in numbers_of(wanted, TEXT).items():
        if path.startswith("histogram"):
            continue
        if there.get(path) is None and value is not None:
            assert NEEDS_SQUARES.match(path), path
            assert any(path.startswith(reason) for reason in found.undefined), path
        elif isinstance(value, float):
            scaled = math.ldexp(value, power_of(path) * exponent)
            assert there[path] == pytest.approx(
                scaled, rel=1e-13, abs=1e-13 if not power_of(path) else 1e-323
            ), path


def test_chunks_have_no_psnr_where_squares_do_not_fit() -> None:
    x, e = field_and_error(0, (30, 40))
    with h5py.File("units", "w", driver="core", backing_store=False) as file:
        for unit in (1.0, 2.0**600):
            pair = [
                file.create_dataset(f"{name}{unit}", data=unit * values, chunks=(9, 30))
                for name, values in (("x", x), ("y", x + e))
            ]
            found = assess(*pair).per_chunk
            assert (None in found.psnr) == (unit > 1)
            assert max(found.max_abs) == unit * np.abs(e).max()


def exact_log10(value: Fraction) -> float:
    """Return the logarithm of a number of any size."""
    top, bottom = value.numerator, value.denominator
    shift = max(0, top.bit_length() - 900), max(0, bottom.bit_length() - 900)
    quotient = Fraction(top >> shift[0], bottom >> shift[1])
    return math.log10(float(quotient)) + (shift[0] - shift[1]) * math.log10(2)


def near(value: float | None, square: Fraction) -> bool:
    """Return whether the square of a number is as expected."""
    return abs(Fraction(value) ** 2 - square) <= square * Fraction(1, 10**12) + Fraction(1, 10**640)


FITTING = st.integers(-370, 370)


@settings(max_examples=40, deadline=None)
@given(hnp.arrays(np.int64, 24, elements=st.integers(-(2**20), 2**20)), FITTING, FITTING)
@example(np.arange(24) ** 2, 360, -360)
@example(np.arange(24) ** 2, -360, 0)
@example(np.arange(24) ** 2, -360, 350)
def test_rational_arithmetic_agrees(whole: Field, original: int, error: int) -> None:
    """Original and error have different units."""
    rng = np.random.default_rng(int(whole.sum()) % 1000)
    x = np.ldexp(whole.astype(np.float64), original - 20)
    y = x + np.ldexp(rng.permutation(24) - 7.0, error - 6)
    report = assess(x, y, metrics="bound")
    exact_x = [Fraction(v) for v in x.tolist()]
    exact_e = [Fraction(b) - Fraction(a) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    mean_x, mean_e = sum(exact_x) / 24, sum(exact_e) / 24
    mse = sum(v * v for v in exact_e) / 24
    variance = sum((v - mean_x) ** 2 for v in exact_x) / 24
    assert near(report.error.rmse, mse)
    assert near(report.error.std, sum((v - mean_e) ** 2 for v in exact_e) / 24)
    assert near(report.original.std, variance)
    if report.original.mean is not None:
        worst = max(map(abs, exact_x))
        assert abs(Fraction(report.original.mean) - mean_x) <= worst * Fraction(1, 10**15)
    extent = max(exact_x) - min(exact_x)
    if mse and extent:
        psnr = 10 * exact_log10(extent**2 / mse)
        assert report.error.psnr == pytest.approx(psnr, rel=1e-12, abs=1e-9)
    correlation = report.correlation.with_error
    spread = sum((v - mean_e) ** 2 for v in exact_e)
    if correlation is not None and variance and spread:
        both = sum((a - mean_x) * (b - mean_e) for a, b in zip(exact_x, exact_e, strict=True))
        square = both * both / (24 * variance * spread)
        assert correlation**2 == pytest.approx(float(square), rel=1e-9, abs=1e-12)


def test_a_change_of_gradients_whose_square_is_0_is_not_taken_for_none() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 20))
    x[::2] *= 1e-90
    y = x.copy()
    y[::2] *= 1 + 1e-15 * rng.normal(size=(10, 20))
    found = assess(x, y, require="gradient_psnr>=100")
    assert 0 < found.derivatives.gradient_max_error < 1e-150
    assert found.derivatives.gradient_psnr is None
    assert not found.ok


@pytest.mark.parametrize("exponent", [-300, 300, 1000])
def test_divergence_has_a_unit(exponent: int) -> None:
    rng = np.random.default_rng(0)
    original = [rng.normal(size=(9, 10)) for _ in range(2)]
    decoded = [x + 1e-3 * rng.normal(size=x.shape) for x in original]
    want = assess_divergence(original, decoded)
    unit = np.ldexp(1.0, exponent)
    found = assess_divergence([unit * x for x in original], [unit * y for y in decoded])
    if exponent == 1000:
        assert found.rms is None
    else:
        assert found.rms == pytest.approx(math.ldexp(want.rms, exponent), rel=1e-14)
    assert found.max == math.ldexp(want.max, exponent)

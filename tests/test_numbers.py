# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""largest_error agrees with rational arithmetic, value by value."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import h5py
import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import h5lossy
from checks import Array, bits_of, breaches, floats_of, pattern
from h5lossy import ErrorBound, InvalidArgumentError, UnsupportedError, _blocks, largest_error
from matrix import DTYPES
from strategies import KINDS, bounds, chunks, in_every_mode

if TYPE_CHECKING:
    from pathlib import Path


def by_fractions(
    x: Array, y: Array, bound: ErrorBound, fill_value: Any
) -> tuple[int, Fraction | float, int, int]:
    """Return count, largest error, violations and special values changed, one value at a time."""
    x_bits, y_bits = bits_of(x).tolist(), bits_of(y).tolist()
    fill_bits = None
    if fill_value is not None and not np.isnan(fill_value):
        fill_bits = pattern(fill_value, x.dtype)
    valid = [
        math.isfinite(a) and a_bits != fill_bits
        for a, a_bits in zip(x.tolist(), x_bits, strict=True)
    ]
    special_changed = sum(
        (not is_valid and a != b) or (b == fill_bits and a != b and fill_bits != 0)
        for is_valid, a, b in zip(valid, x_bits, y_bits, strict=True)
    )
    limit, unit = Fraction(bound.value), Fraction(1)
    if bound.kind == "range_relative":
        numbers = [a for a, is_valid in zip(x.tolist(), valid, strict=True) if is_valid] or [0.0]
        unit = Fraction(max(numbers)) - Fraction(min(numbers))
    largest: Fraction | float = Fraction(0)
    violations = 0
    for a, b, a_bits, b_bits, is_valid in zip(
        x.tolist(), y.tolist(), x_bits, y_bits, valid, strict=True
    ):
        if not is_valid:
            continue
        scale = abs(Fraction(a)) if bound.kind == "pointwise_relative" else unit
        if not math.isfinite(b):
            measure: Fraction | float = math.inf
        elif a == b:
            measure = Fraction(0)
        else:
            distance = abs(Fraction(a) - Fraction(b))
            measure = distance / scale if scale else math.inf
        largest = max(largest, measure)
        violations += a_bits != b_bits if bound.kind == "lossless" else measure > limit
    return sum(valid), largest, violations, special_changed


def assert_judged(x: Array, y: Array, bound: ErrorBound, fill_value: Any) -> None:
    """Fail unless largest_error agrees with `by_fractions`."""
    count, largest, violations, special_changed = by_fractions(x, y, bound, fill_value)
    summary = largest_error(x, y, bound, fill_value)
    assert summary.count == count
    assert summary.violations == violations
    assert summary.special_changed == special_changed
    assert summary.holds == (violations == special_changed == 0)
    try:
        expected = float(largest)
    except OverflowError:
        expected = math.inf
    assert summary.max_error == pytest.approx(expected, rel=1e-15, abs=5e-324)
    if bound.kind == "lossless":
        assert summary.fraction == (math.inf if violations else 0.0)
    else:
        assert (summary.fraction > 1) <= (violations > 0)
        assert violations == 0 or summary.fraction >= 1


@pytest.mark.parametrize("kind", KINDS)
@in_every_mode
@hypothesis.given(dtype=st.sampled_from(DTYPES), data=st.data())
def test_decoded_data_is_judged_as_by_fractions(kind: str, dtype: str, data: st.DataObject) -> None:
    # Decoded with one bound, judged by it and by others of all kinds.
    chunk = data.draw(chunks(dtype, [kind], max_count=60))
    setting = h5lossy.PFPL(**chunk.bound)
    decoded = h5lossy.decode(h5lossy.encode(chunk.values, setting, fill_value=chunk.fill_value))
    assert largest_error(chunk.values, decoded, setting.bound, chunk.fill_value).holds
    assert_judged(chunk.values, decoded, setting.bound, chunk.fill_value)
    for bound in data.draw(st.lists(bounds(), min_size=1, max_size=3)):
        assert_judged(chunk.values, decoded, h5lossy.PFPL(**bound).bound, chunk.fill_value)


def test_an_error_of_more_ranges_than_a_float_can_say_is_infinite() -> None:
    x, y = np.array([0.0, 5e-324]), np.array([1e300, 0.0])
    bound = h5lossy.PFPL(range_relative=1e-3).bound
    assert_judged(x, y, bound, None)
    assert largest_error(x, y, bound).max_error == np.inf


@pytest.mark.parametrize("size", [4, 8])
@hypothesis.given(data=st.data())
def test_any_two_arrays_are_judged_as_by_fractions(size: int, data: st.DataObject) -> None:
    words = st.integers(0, 2 ** (8 * size) - 1)
    pairs = data.draw(
        st.lists(
            st.tuples(words, words)
            # Close to each other, so that differences matter and not only magnitudes.
            | st.tuples(words, st.integers(-3, 3)).map(lambda p: (p[0], max(0, p[0] + p[1]))),
            min_size=1,
            max_size=6,
        )
    )
    mask = 2 ** (8 * size) - 1
    x, y = (
        floats_of(np.array([pair[i] & mask for pair in pairs], f"u{size}"), f"f{size}")
        for i in range(2)
    )
    fill_value = data.draw(st.none() | st.sampled_from([*x, *y, x.dtype.type(0)]))
    bound = h5lossy.PFPL(**data.draw(bounds())).bound
    assert_judged(x, y, bound, fill_value)
    if fill_value is None:
        # The tests' own judge comes to the same verdict.
        value = True if bound.kind == "lossless" else bound.value
        found = breaches(x, y, {str(bound.kind): value})
        assert (not found) == largest_error(x, y, bound).holds


@hypothesis.given(
    x=st.floats(1e-300, 1e300),
    value=st.floats(1e-12, 0.9),
    ulps=st.integers(-3, 3),
    kind=st.sampled_from(["absolute", "pointwise_relative"]),
)
def test_errors_next_to_the_bound_are_told_apart(
    x: float, value: float, ulps: int, kind: str
) -> None:
    # In float64 the error and the bound are often the same number, and in truth are not.
    limit = value if kind == "absolute" else value * x
    y = x + limit
    for _ in range(abs(ulps)):
        y = math.nextafter(y, math.inf if ulps > 0 else -math.inf)
    bound = ErrorBound(kind, value)
    assert_judged(np.array([x, x, 0.0]), np.array([y, x, 0.0]), bound, None)


@pytest.mark.parametrize(
    ("kind", "x", "y", "bound", "violations"),
    [
        ("absolute", 1.0, -(2.0**-60), 1.0, 1),
        ("absolute", 1.0, 2.0**-60, 1.0, 0),
        ("absolute", 1.7e308, -1.7e308, 1.7e308, 1),
        ("absolute", 8e307, -8e307, 1.6e308, 0),
        ("absolute", 5e-324, 0.0, 5e-324, 0),
        ("absolute", 5e-324, -5e-324, 5e-324, 1),
        ("absolute", 1.0, math.nan, 1e300, 1),
        ("absolute", 1.0, math.inf, 1e300, 1),
        # 0.1 is above a tenth, and 0.3 below three.
        ("pointwise_relative", 45.0, 49.5, 0.1, 0),
        ("pointwise_relative", 65.0, 84.5, 0.3, 1),
        ("pointwise_relative", 5e-324, 1e-323, 0.75, 1),
        ("pointwise_relative", -1.0, -0.5, 0.5, 0),
        ("pointwise_relative", 0.0, 5e-324, 0.999, 1),
    ],
)
def test_one_value_is_judged_exactly(
    kind: str, x: float, y: float, bound: float, violations: int
) -> None:
    summary = largest_error(np.array([x]), np.array([y]), ErrorBound(kind, bound))
    assert (summary.violations, summary.special_changed) == (violations, 0)


def test_changed_special_values_are_counted_apart() -> None:
    x = np.array([np.nan, np.inf, -np.inf, -999.0, -998.0, -999.0, 1.0])
    y = np.array([np.inf, 1.0, -np.inf, -998.0, -999.0, -999.0, 9.0])
    summary = largest_error(x, y, ErrorBound("absolute", 2.0), -999.0)
    assert summary.count == 2
    assert summary.special_changed == 4
    assert summary.violations == 1
    assert not summary.holds
    # Where +0.0 is the fill value, others may turn into it.
    zeros = largest_error(np.array([0.0, 0.1, 0.0]), np.zeros(3), ErrorBound("absolute", 1.0), 0.0)
    assert (zeros.count, zeros.special_changed, zeros.holds) == (1, 0, True)


def test_a_range_relative_error_is_a_fraction_of_the_range() -> None:
    x, y = np.array([0.0, 10.0, 1e30]), np.array([1.0, 10.0, 1e30])
    summary = largest_error(x, y, ErrorBound("range_relative", 0.2), fill_value=1e30)
    assert (summary.max_error, summary.fraction, summary.holds) == (0.1, 0.5, True)
    constant = largest_error(x[:1], y[:1], ErrorBound("range_relative", 0.2))
    assert (constant.max_error, constant.violations) == (math.inf, 1)


def test_byte_orders_may_differ_and_types_and_shapes_may_not() -> None:
    x = np.arange(6.0).reshape(2, 3)
    bound = ErrorBound("lossless")
    assert largest_error(x, x.astype(">f8"), bound).holds
    assert not largest_error(x, (x + 1).astype(">f8"), bound).holds
    with pytest.raises(InvalidArgumentError, match=r"one shape .* got \(2, 3\) .* and \(6,\)"):
        largest_error(x, x.reshape(-1), bound)
    with pytest.raises(InvalidArgumentError, match=r"one type, got .* float64 and .* float32"):
        largest_error(x, x.astype("f4"), bound)
    with pytest.raises(UnsupportedError, match="not complex256"):
        largest_error(x.astype("G"), x.astype("G"), bound)


@pytest.mark.parametrize("values", [[], [np.nan, np.inf]])
def test_without_a_valid_value_every_bound_holds(values: list[float]) -> None:
    x = np.array(values)
    for bound in ("absolute", "pointwise_relative", "range_relative"):
        summary = largest_error(x, x.copy(), ErrorBound(bound, 0.1))
        assert (summary.count, summary.max_error, summary.holds) == (0, 0.0, True)


def test_datasets_are_judged_block_by_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_blocks, "BLOCK_BYTES", 1000)
    x = np.random.default_rng(1).standard_normal((30, 50)).astype("f4")
    y = x.copy()
    y[29, 49] += 1
    x[3, 3] = y[3, 3] = 1e35
    y[4, 4] = 1e35
    with h5py.File(tmp_path / "a.h5", "w") as file:
        original = file.create_dataset("x", data=x, chunks=(7, 11), fillvalue=1e35)
        decoded = file.create_dataset("y", data=y, chunks=(4, 50))
        bound = ErrorBound("absolute", 0.5)
        summary = largest_error(original, decoded, bound)
        assert summary == largest_error(x, y, bound, np.float32(1e35))
        assert (summary.violations, summary.special_changed, summary.count) == (2, 1, 1499)

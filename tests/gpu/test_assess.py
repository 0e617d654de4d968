# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Arrays on a GPU are assessed there, and the report is the CPU's, digit for digit."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

import gpu_data as data
import h5lossy
from test_assess import GOLDEN, fields

SHAPES: list[tuple[int, ...]] = [
    (1,),
    (4096,),
    (4097,),
    (300_001,),
    (3, 10),
    (129, 257),
    (5, 6, 7),
    (33, 34, 35),
    (24, 50, 512),
    (1, 40, 1, 50),
    (9, 10, 11, 12),
    (1100, 14, 60),
]

BOUNDS: list[dict[str, Any]] = [
    {"absolute": 0.01},
    {"absolute": 0.0099},
    {"pointwise_relative": 0.01},
    {"range_relative": 1e-4},
    {"lossless": True},
    {},
]


def numbers(report: Any) -> Any:
    """Return what a report says, but for where it comes from."""
    told = json.loads(report.to_json())
    told.pop("provenance")
    return told


def with_errors(x: np.ndarray[Any, Any], size: float) -> np.ndarray[Any, Any]:
    """Return a field that is off by at most `size`, where it is finite."""
    rng = np.random.default_rng(x.size)
    with np.errstate(over="ignore", invalid="ignore"):
        y = (x + rng.uniform(-size, size, x.shape)).astype(x.dtype)
    return np.where(np.isfinite(x) & (x != data.FILL) & (x != 0), y, x)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("kind", data.KINDS)
def test_reports_are_the_same(kind: str, dtype: str) -> None:
    cupy = pytest.importorskip("cupy")
    rng = np.random.default_rng(7)
    for number, shape in enumerate(SHAPES):
        x = data.make(kind, shape, dtype)
        y = with_errors(x, 0.01)
        if kind == "special":
            y[rng.random(shape) < 0.01] = np.nan
        options: dict[str, Any] = {
            **BOUNDS[number % len(BOUNDS)],
            "fill_value": data.FILL if kind == "masked" else None,
            "mask": rng.random(shape) < 0.1 if number % 3 == 2 else None,
            "threshold_crossings": {"one": 1.0} if number % 2 else None,
            "spacing": 0.5 if number % 4 == 1 else 1.0,
            "ssim": {"window": 3 + 4 * (number % 2), "step": 1 + number % 3 // 2},
        }
        expected = h5lossy.assess(x, y, **options)
        found = h5lossy.assess(cupy.asarray(x), cupy.asarray(y), **options)
        assert numbers(found) == numbers(expected), (shape, options)


@pytest.mark.parametrize("name", GOLDEN["cases"])
def test_golden_cases(name: str) -> None:
    cupy = pytest.importorskip("cupy")
    x, y = fields(name)
    expected = h5lossy.assess(x, y, absolute=1e-3)
    found = h5lossy.assess(cupy.asarray(x), cupy.asarray(y), absolute=1e-3)
    assert numbers(found) == numbers(expected)


def test_any_array_of_a_gpu() -> None:
    cupy = pytest.importorskip("cupy")
    x = data.make("smooth", (64, 66, 68), "f4")
    y = with_errors(x, 0.01)
    expected = numbers(h5lossy.assess(x, y, absolute=0.01))
    a, b = cupy.asarray(x), cupy.asarray(y)
    turned = cupy.asarray(np.ascontiguousarray(x.transpose(2, 0, 1))).transpose(1, 2, 0)
    assert not turned.flags.c_contiguous
    assert numbers(h5lossy.assess(turned, b, absolute=0.01)) == expected
    # One on the host, one on the device.
    assert numbers(h5lossy.assess(x, b, absolute=0.01)) == expected
    mask = np.zeros(x.shape, bool)
    mask[:, 3] = True
    masked = numbers(h5lossy.assess(x, y, absolute=0.01, mask=mask))
    assert numbers(h5lossy.assess(a, b, absolute=0.01, mask=mask)) == masked
    assert numbers(h5lossy.assess(a, b, absolute=0.01, mask=cupy.asarray(mask))) == masked


def test_other_libraries() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("cupy")
    x = data.make("rough", (40, 41, 42), "f8")
    y = with_errors(x, 0.01)
    found = h5lossy.assess(torch.from_numpy(x).cuda(), torch.from_numpy(y).cuda(), absolute=0.01)
    assert numbers(found) == numbers(h5lossy.assess(x, y, absolute=0.01))


def test_the_range_is_that_of_all_values_of_the_original() -> None:
    """Also of those that became NaN, which no reduction has."""
    cupy = pytest.importorskip("cupy")
    x = data.make("smooth", (20, 30, 40), "f4")
    y = with_errors(x, 0.01)
    x[3, 4, 5], y[3, 4, 5] = 1000, np.nan
    done: list[tuple[int, int]] = []
    found = h5lossy.assess(
        cupy.asarray(x), cupy.asarray(y), progress=lambda n, total: done.append((n, total))
    )
    assert found.original.max < 1000 < found.ssim.value_range
    assert numbers(found) == numbers(h5lossy.assess(x, y))
    assert all(n <= total for n, total in done)
    assert done[-1][0] == done[-1][1]


def test_errors_far_above_those_of_a_sample() -> None:
    """The grid of the histogram is right although most errors are tiny."""
    cupy = pytest.importorskip("cupy")
    x = data.make("smooth", (3_000_000,), "f4")
    y = with_errors(x, 1e-6)
    y[2_345_678] += 100
    expected = h5lossy.assess(x, y)
    found = h5lossy.assess(cupy.asarray(x), cupy.asarray(y))
    assert numbers(found) == numbers(expected)
    assert math.isclose(found.error.max_abs, 100, rel_tol=1e-3)

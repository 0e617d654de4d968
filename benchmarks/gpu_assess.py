# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""
How fast a GPU assesses arrays in its memory, compared with a copy on the device.

    python benchmarks/gpu_assess.py [--size N] [--json FILE]

GB/s are of original float32 data, wall clock from the call until its results are on the host, on
N x 512 x 512 values like turbulence with uniform errors.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cupy
import numpy as np

import h5lossy
from h5lossy import _native

if TYPE_CHECKING:
    from collections.abc import Callable

BOUND = 0.01


def make_pair(planes: int) -> tuple[Any, Any]:
    """Make a rough field, and one with uniform errors within the bound."""
    cupy.random.seed(1)
    x = cupy.random.standard_normal((planes, 512, 512), dtype=cupy.float32)
    for axis in range(3):
        x = cupy.cumsum(x, axis=axis, dtype=cupy.float32)
        x -= x.mean(axis=axis, keepdims=True)
    x /= cupy.abs(x).max() / 100
    y = x + cupy.random.uniform(-0.99 * BOUND, 0.99 * BOUND, x.shape, dtype=cupy.float32)
    return x, y


def speed(size: int, run: Callable[[], object], runs: int = 9) -> dict[str, float]:
    """Return GB/s: median and range."""
    seconds = []
    for i in range(runs + 2):
        cupy.cuda.Device().synchronize()
        begin = time.perf_counter()
        run()
        cupy.cuda.get_current_stream().synchronize()
        if i >= 2:
            seconds.append(time.perf_counter() - begin)
    return {
        "gb_per_s": size / 1e9 / statistics.median(seconds),
        "gb_per_s_min": size / 1e9 / max(seconds),
        "gb_per_s_max": size / 1e9 / min(seconds),
    }


def main() -> None:
    """Measure, print a table, and write the numbers as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=512, help="planes of the field")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", default="", help="of the measurements, those with this in them")
    arguments = parser.parse_args()
    x, y = make_pair(arguments.size)
    base: dict[str, Any] = {
        "value_bytes": 4,
        "shape": x.shape,
        "spacing": (1.0,) * x.ndim,
        "value_range": float(x.max()) - float(x.min()),
        "on_device": True,
    }
    piece = _native.Piece(
        original=x,
        decoded=y,
        mask=None,
        origin=(0,) * x.ndim,
        own_origin=(0,) * x.ndim,
        own_extent=x.shape,
    )

    def points(**options: Any) -> None:
        params = _native.AssessParams(**base, pointwise_threshold=1e-4, **options)
        _native.AssessState(params).points(0, x.reshape(-1), y.reshape(-1), None)

    def field(**options: Any) -> None:
        state = _native.AssessState(_native.AssessParams(**base, **options))
        state.points(0, x.reshape(-1)[:4096], y.reshape(-1)[:4096], None)
        state.field(piece)

    bound = {"bound_kind": 0, "limit": (BOUND, 0.0), "histogram_limit": BOUND}
    other = cupy.empty_like(x)
    runs: dict[str, Callable[[], object]] = {
        "device copy": lambda: cupy.copyto(other, x),
        "pattern I: reductions": lambda: points(**bound),
        "pattern I: reductions, no bound": points,
        "pattern II: derivatives": lambda: field(stencils=True),
        "pattern II: autocorrelation, 10 lags": lambda: field(lags=10),
        "pattern II: both": lambda: field(stencils=True, lags=10),
        "pattern III: SSIM, 7 x 7 x 7, step 1": lambda: field(window=(7,) * x.ndim),
        "all of standard": lambda: h5lossy.assess(x, y, absolute=BOUND),
    }
    found = {}
    for name, run in runs.items():
        if arguments.only not in name:
            continue
        found[name] = speed(x.nbytes, run)
        one = found[name]
        told = f"{one['gb_per_s']:8.1f}  ({one['gb_per_s_min']:.1f} to {one['gb_per_s_max']:.1f})"
        print(f"{name:40s} {told}", flush=True)
    device = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    results = {
        "device": device,
        "shape": x.shape,
        "dtype": "float32",
        "numpy": np.__version__,
        "speeds": found,
    }
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())

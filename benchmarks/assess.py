# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""
How fast the assessment is on one core, beside a copy, a plain read and scikit-image; its memory.

    python benchmarks/assess.py [--gib N]

GB/s are of original float32 data, CPU time of the thread, on 256 x 384 x 384 values with uniform
errors. The plain read is NumPy's maximum of the bytes of both fields. scikit-image gets the first
64 planes, in float64 as it needs to be right. With --gib a pair of HDF5 datasets of N GiB each is
written (chunked, not compressed) and assessed in a process of its own, whose peak memory is shown.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from _common import STREAMING_BYTES, cpu_time, memcpy_speed, save
from readme import show

import h5lossy
from h5lossy import _native

SHAPE = (256, 384, 384)
PLANES_OF_PEERS = 64

_IN_A_PROCESS = """
import json, sys, time
import h5lossy
def peak():
    [line] = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
    return int(line.split()[1])
before = peak()
began = time.perf_counter()
report = h5lossy.assess(sys.argv[1] + ":/x", sys.argv[1] + ":/y", absolute=0.01)
seconds = time.perf_counter() - began
after = peak()
assert report.ok
print(json.dumps({"seconds": seconds, "before_mib": before / 1024, "peak_mib": after / 1024,
                  "passes": report.provenance.passes}))
"""


def make_pair(shape: tuple[int, ...], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Make a field and one with uniform errors of at most 0.01."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape, np.float32).cumsum(axis=-1, dtype=np.float32)
    # Of the errors a little is lost to rounding; none is beyond.
    return x, (x + rng.uniform(-0.0099, 0.0099, shape)).astype(np.float32)


def kernels(x: np.ndarray, y: np.ndarray) -> dict[str, dict[str, float]]:
    """Time each pattern on one thread."""
    base: dict[str, Any] = {
        "value_bytes": 4,
        "shape": x.shape,
        "spacing": (1.0,) * x.ndim,
        "threads": 1,
        "value_range": float(x.max()) - float(x.min()),
    }
    piece = _native.Piece(
        original=x,
        decoded=y,
        mask=None,
        origin=(0,) * x.ndim,
        own_origin=(0,) * x.ndim,
        own_extent=x.shape,
    )

    def points() -> None:
        limit = (0.01, 0.0)
        params = _native.AssessParams(**base, bound_kind=0, limit=limit, histogram_limit=0.01)
        _native.AssessState(params).points(0, x.reshape(-1), y.reshape(-1), None)

    def field(**options: Any) -> None:
        state = _native.AssessState(_native.AssessParams(**base, **options))
        state.points(0, x.reshape(-1)[:1], y.reshape(-1)[:1], None)
        state.field(piece)

    def data_ssim() -> None:
        state = _native.AssessState(_native.AssessParams(**base))
        slices = np.zeros(len(x), _native.SLICE_DTYPE)
        slices["low"], slices["high"] = np.inf, -np.inf
        state.ranges(piece, slices)
        state.dssim(piece, slices)

    runs = {
        "plain read of both": lambda: (x.view(np.uint8).max(), y.view(np.uint8).max()),
        "pattern I: reductions": points,
        "pattern II: derivatives": lambda: field(stencils=True),
        "pattern II: autocorrelation, 10 lags": lambda: field(lags=10),
        "pattern III: SSIM, 7 x 7 x 7, step 1": lambda: field(window=(7,) * x.ndim),
        "data SSIM of slices": data_ssim,
    }
    found = {name: cpu_time(run, runs=9).as_speed(x.nbytes) for name, run in runs.items()}
    # It reads in one thread and computes in another: the time of both counts.
    begin = time.process_time()
    h5lossy.assess(x, y, absolute=0.01, threads=1)
    speed = x.nbytes / 1e9 / (time.process_time() - begin)
    found["all of standard, once"] = dict.fromkeys(
        ("gb_per_s", "gb_per_s_min", "gb_per_s_max"), speed
    )
    return found


def scikit_image(x: np.ndarray, y: np.ndarray) -> dict[str, float] | None:
    """Time its SSIM with the same definition; None where it is not installed."""
    try:
        from skimage.metrics import structural_similarity  # noqa: PLC0415
    except ImportError:
        return None
    a, b = (f[:PLANES_OF_PEERS].astype(np.float64) for f in (x, y))
    extent = float(a.max() - a.min())
    timing = cpu_time(
        lambda: structural_similarity(
            a, b, win_size=7, data_range=extent, use_sample_covariance=False
        ),
        runs=3,
    )
    return timing.as_speed(4 * a.size)


def assess_files(gib: float) -> dict[str, float]:
    """Write a pair of datasets slab by slab, and assess it in a process of its own."""
    planes = max(8, int(gib * 2**30 / (4 * 1024 * 1024)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pair.h5"
        with h5py.File(path, "w") as file:
            shape, chunks = (planes, 1024, 1024), (8, 128, 128)
            datasets = [file.create_dataset(n, shape, "f4", chunks=chunks) for n in ("x", "y")]
            for start in range(0, planes, 32):
                stop = min(start + 32, planes)
                pair = make_pair((stop - start, 1024, 1024), start)
                for dataset, values in zip(datasets, pair, strict=True):
                    dataset[start:stop] = values
        said = subprocess.run(
            [sys.executable, "-c", _IN_A_PROCESS, str(path)],
            check=True,
            capture_output=True,
            text=True,
        )
        found: dict[str, float] = json.loads(said.stdout)
        return {"gib_each": planes * 4 / 1024, "cores": os.cpu_count() or 1, **found}


def main() -> None:
    """Measure, print a table, write results/assess.json."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--gib", type=float, default=0, help="size of each dataset of a pair")
    arguments = parser.parse_args()
    x, y = make_pair(SHAPE, 0)
    speeds = {"memcpy": memcpy_speed(STREAMING_BYTES), **kernels(x, y)}
    if (peer := scikit_image(x, y)) is not None:
        speeds["scikit-image SSIM"] = peer
    results: dict[str, Any] = {"shape": SHAPE, "dtype": "float32", "speeds": speeds}
    if arguments.gib:
        results["files"] = assess_files(arguments.gib)
    show("assess", results)
    save("assess", results)


if __name__ == "__main__":
    main()

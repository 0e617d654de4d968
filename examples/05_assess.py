# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Measure what was lost, prove that the bound holds, and check it again later.

    python 05_assess.py [FOLDER]

Without FOLDER the files go to a temporary one. With it, report.html stays there to be looked at.
"""

import sys
import tempfile
from pathlib import Path

import h5py
import numpy as np

import h5lossy


def temperature() -> np.ndarray:
    """A smooth field with waves on it, and a hole of NaN."""
    time, y, x = np.meshgrid(
        np.linspace(0, 3, 24), np.linspace(0, 2, 60), np.linspace(0, 4, 90), indexing="ij"
    )
    t = 280 + 15 * np.sin(3 * x + time) * np.cos(5 * y) + np.sin(40 * x * y)
    t[:, 20:25, 30:40] = np.nan
    return t.astype(np.float32)


def write_and_verify(path: Path, t: np.ndarray) -> None:
    """Each chunk is decoded and checked before it is written to the file."""
    with h5py.File(path, "w") as f:
        dataset = f.create_dataset(
            "t", t.shape, "f4", chunks=(8, 30, 45), compression=h5lossy.PFPL(absolute=0.01)
        )
        h5lossy.write(dataset, t, verify=True)


def measure(path: Path, t: np.ndarray, page: Path) -> None:
    """The bound is the one recorded in the file."""
    report = h5lossy.assess(
        t, f"{path}:/t", require="psnr>=60", threshold_crossings={"warm": 280.0}, slices=True
    )
    assert report.ok
    assert report.special.nan_kept == np.isnan(t).sum()
    print(f"largest error {report.error.max_abs:.6f} at {report.error.max_at}, of 0.01 allowed")
    print(f"PSNR {report.error.psnr:.2f} dB, 1 - SSIM {report.ssim.one_minus_mean:.2e}")
    [crossed] = report.threshold_crossings
    print(f"{crossed.count} points crossed 280 K; {report.size.ratio:.1f} times smaller")
    report.to_html(page)
    assert h5lossy.Report.from_json(report.to_json()) == report


def check_later(path: Path) -> None:
    """Only the file is needed."""
    with h5py.File(path) as f:
        found = h5lossy.verify(f["t"])
    assert found.ok
    print(f"{found.recorded} of {found.chunks} chunks decode to what was verified when written")

    with h5py.File(path, "r+") as f:  # change one value
        f["t"][3, 4, 5] = 0
    with h5py.File(path) as f:
        [changed] = h5lossy.verify(f["t"]).outdated
    print(f"after a change: chunk {changed.chunk} {changed.why}")


def main(folder: Path) -> None:
    t = temperature()
    write_and_verify(folder / "packed.h5", t)
    measure(folder / "packed.h5", t, folder / "report.html")
    check_later(folder / "packed.h5")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))

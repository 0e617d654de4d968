# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The metrics of ClimateBenchPress on the climate fields of the corpus.

    H5LOSSY_CORPUS=... python benchmarks/climate.py

Each field with latitudes and longitudes is written as in `rate_distortion`, with the absolute
bounds that ClimateBenchPress gives variables of unknown spread: 1e-4, 1e-3 and 1e-2 of the range.
`h5lossy.assess` compares what is read back: the largest and the mean absolute error, PSNR, data
SSIM and spectra. Spectra are not compared in the unit of ClimateBenchPress's Spectral Error, the
square of a power, but by the largest deviation of their ratio from 1 below wavenumber 10, which is
comparable between fields of different units.
"""

from __future__ import annotations

import os
import sys
from typing import Any

os.environ["H5LOSSY_NUM_THREADS"] = "1"  # before the library is loaded

import _sz3
import numpy as np
from _common import SZ3_FILTER, machine, save
from rate_distortion import Field, fields, store, unfit
from rich.console import Console

import h5lossy

SCALES = (1e-4, 1e-3, 1e-2)
CODECS = ("Interp", "PFPL", SZ3_FILTER, *_sz3.ALGORITHMS, "SPERR", "ZFP")
METRICS = ("climate", "spectrum")


def measure(name: str, field: Field, bound: float) -> dict[str, Any]:
    """Compress a field, and assess what came back."""
    if reason := unfit(name, field):
        return {"failed": reason}
    stored = store(name, field, bound)
    mask = ~field.valid if not field.valid.all() else None
    report = h5lossy.assess(
        field.values, stored.values, metrics=METRICS, mask=mask, axes=(-2, -1), fill_value=None
    )
    errors = np.abs(field.values[field.valid].astype(float) - stored.values[field.valid])
    return {
        "ratio": field.values.nbytes / stored.bytes,
        "max_error": report.error.max_abs / bound,
        "mean_error": float(errors.mean()) / bound,
        "psnr": report.error.psnr,
        "dssim": report.climate and report.climate.dssim_mean,
        "spectrum": report.spectrum and report.spectrum.max_deviation,
    }


def main() -> None:
    """Measure, print and save."""
    rows = []
    console = Console(width=160)
    for field in fields():
        if not field.name.startswith("climate/") or field.values.ndim < 2:
            continue
        for scale in SCALES:
            codecs = {name: measure(name, field, scale * field.extent) for name in CODECS}
            rows.append({"name": field.name, "scale": scale, "codecs": codecs})
            console.print(field.name, scale)
            for name, found in codecs.items():
                console.print("  ", name, found)
    save("climate", {"machine": machine(), "scales": SCALES, "rows": rows})


if __name__ == "__main__":
    sys.exit(main())

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Compression ratio and largest error on real fields, every value judged.

    H5LOSSY_CORPUS=... python benchmarks/fields.py

Each field is compressed in chunks of 1 MiB, in storage order, with an absolute bound of 1e-2, 1e-3
and 1e-4 of the range of its valid values. The geometric means are over the fields with the
attribute core=1. gzip is level 4 behind a byte shuffle, on the same chunks, lossless.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from _common import real_fields, save
from rich.console import Console
from rich.table import Table

import h5lossy

CHUNK_BYTES = 1 << 20
SCALES = (1e-2, 1e-3, 1e-4)


def chunks(data: np.ndarray) -> list[np.ndarray]:
    """Cut a field into pieces of 1 MiB."""
    flat = data.ravel()
    return np.split(
        flat, range(CHUNK_BYTES // data.itemsize, flat.size, CHUNK_BYTES // data.itemsize)
    )


def gzip_ratio(data: np.ndarray) -> float:
    """Ratio of HDF5's own way: byte shuffle, then deflate."""
    size = 0
    for chunk in chunks(data):
        shuffled = chunk.view(np.uint8).reshape(-1, data.itemsize).T.copy()
        size += len(zlib.compress(shuffled, 4))
    return data.nbytes / size


def measure(data: np.ndarray, fill_value: Any, scale: float) -> dict[str, Any]:
    """Compress a field; judge every value."""
    codec = h5lossy.PFPL(range_relative=scale).resolve(data, fill_value)
    frames = [h5lossy.encode(chunk, codec, fill_value=fill_value) for chunk in chunks(data)]
    decoded = np.concatenate([h5lossy.decode(frame) for frame in frames])
    summary = h5lossy.largest_error(data.ravel(), decoded, codec.bound, fill_value)
    if not summary.holds:
        raise SystemExit(f"{codec} broke its promise: {summary}")
    return {
        "scale": scale,
        "ratio": data.nbytes / sum(map(len, frames)),
        "error_fraction": summary.fraction,
    }


def geometric_mean(ratios: list[float]) -> float:
    """Mean of ratios that does not depend on which way they are taken."""
    return float(np.exp(np.mean(np.log(ratios))))


def main() -> None:
    """Measure, print a table, write results/fields.json."""
    core = {name for name, _, _ in real_fields(core_only=True)}
    rows = []
    for name, data, fill_value in real_fields():
        bounds = [measure(data, fill_value, scale) for scale in SCALES]
        row = {"field": name, "core": name in core, "dtype": str(data.dtype), "values": data.size}
        rows.append({**row, "gzip_ratio": gzip_ratio(data), "pfpl": bounds})

    means = {
        f"{scale:g}": geometric_mean([r["pfpl"][i]["ratio"] for r in rows if r["core"]])
        for i, scale in enumerate(SCALES)
    }
    gzip_mean = geometric_mean([r["gzip_ratio"] for r in rows if r["core"]])
    table = Table(title="PFPL: ratio, and largest error as a fraction of the bound")
    table.add_column("field")
    for heading in ("gzip", *(f"{scale:g} of the range" for scale in SCALES)):
        table.add_column(heading, justify="right")
    for row in rows:
        cells = [f"{b['ratio']:.2f}  ({b['error_fraction']:.6f})" for b in row["pfpl"]]
        table.add_row(row["field"] + " *" * row["core"], f"{row['gzip_ratio']:.2f}", *cells)
    table.add_section()
    table.add_row("geometric mean of *", f"{gzip_mean:.2f}", *(f"{m:.2f}" for m in means.values()))
    Console(width=140).print(table)
    save("fields", {"geometric_mean": means, "gzip_geometric_mean": gzip_mean, "rows": rows})


if __name__ == "__main__":
    main()

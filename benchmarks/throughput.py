# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Speed of the bare codecs on one thread, beside memcpy in the same process.

    H5LOSSY_CORPUS=... python benchmarks/throughput.py

The field is the turbulence vorticity of the corpus, repeated to the chunk's size.
GB/s counts the original bytes; x is the ratio to a streaming copy of 256 MiB.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _common import STREAMING_BYTES, cpu_time, memcpy_speed, real_fields, save
from rich.console import Console
from rich.table import Table

import h5lossy

FIELD = "turbulence/vorticity"
CHUNK_BYTES = 1 << 20
ROWS = 128
"""Rows, of the field's own length, of a slice of the chunk."""


def settings(extent: float, codec: type[h5lossy.codecs.Codec], **fields: Any) -> list[Any]:
    """Give a codec with each bound that is measured."""
    bounds: list[dict[str, Any]] = [
        {"absolute": scale * extent} for scale in (1e-1, 1e-2, 1e-3, 1e-4)
    ]
    bounds.append({"pointwise_relative": 1e-3})
    if codec is h5lossy.PFPL:
        bounds.append({"lossless": True})
    return [codec(**bound, **fields) for bound in bounds]


def measure(data: np.ndarray, codec: h5lossy.codecs.Codec) -> dict[str, Any]:
    """Encode and decode one chunk; judge the error, and time both."""
    frame = h5lossy.encode(data, codec)
    decoded = h5lossy.decode(frame, shape=data.shape)
    summary = h5lossy.largest_error(data, decoded, codec.bound)
    if not summary.holds:
        raise SystemExit(f"{codec} broke its bound: {summary}")
    return {
        "codec": type(codec).__name__,
        "setting": repr(codec),
        "frame_codec": h5lossy.inspect(frame).codec,
        "bound": str(codec.bound),
        "dtype": str(data.dtype),
        "chunk_bytes": data.nbytes,
        "ratio": data.nbytes / len(frame),
        "error_fraction": summary.fraction,
        "compress": cpu_time(lambda: h5lossy.encode(data, codec)).as_speed(data.nbytes),
        "decompress": cpu_time(lambda: h5lossy.decode(frame)).as_speed(data.nbytes),
    }


def main() -> None:
    """Measure, print a table, write results/throughput.json."""
    field = next((x for name, x, _ in real_fields() if name == FIELD), None)
    if field is None:
        raise SystemExit(f"the corpus has no {FIELD}")
    extent = float(field.max()) - float(field.min())
    streaming = memcpy_speed(STREAMING_BYTES)
    same_size = memcpy_speed(CHUNK_BYTES)
    rows = []
    for dtype in (np.float32, np.float64):
        count = CHUNK_BYTES // np.dtype(dtype).itemsize
        data = np.resize(field.astype(dtype), count).reshape(-1, ROWS, field.shape[-1])
        codecs = [
            *settings(extent, h5lossy.PFPL),
            *settings(extent, h5lossy.CuSZp2, mode="plain"),
            *settings(extent, h5lossy.CuSZp2),
            *settings(extent, h5lossy.CuSZp2, dimensions=3),
            *settings(extent, h5lossy.Aatrox),
            *settings(extent, h5lossy.Auto),
        ]
        rows += [measure(data, codec) for codec in codecs]

    table = Table(title=f"{FIELD}, 1 MiB chunk, one thread, CPU time, median of 15")
    for heading in ("dtype", "codec", "ratio", "error / bound", "compress", "x", "decompress", "x"):
        table.add_column(heading, justify="right")
    for row in rows:
        speeds = []
        for direction in ("compress", "decompress"):
            speed = row[direction]["gb_per_s"]
            speeds += [f"{speed:.2f} GB/s", f"{speed / streaming['gb_per_s']:.3f}"]
        error = f"{row['error_fraction']:.6f}"
        table.add_row(row["dtype"], row["setting"], f"{row['ratio']:.2f}", error, *speeds)
    console = Console(width=140)
    console.print(table)
    console.print(
        f"memcpy: streaming (256 MiB) {streaming['gb_per_s']:.1f} GB/s, "
        f"same size (1 MiB) {same_size['gb_per_s']:.1f} GB/s"
    )
    save(
        "throughput", {"field": FIELD, "memcpy": streaming, "memcpy_1mib": same_size, "rows": rows}
    )


if __name__ == "__main__":
    main()

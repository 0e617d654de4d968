# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Compression ratio and largest error on real fields, with every value checked; ZFP and SZ3 too.

    H5LOSSY_CORPUS=... python benchmarks/fields.py [--only Interp PFPL]

Each field is written through HDF5 (in memory) in chunks of about 1 MiB, with an absolute bound of
1e-2, 1e-3 and 1e-4 of the range of its valid values, and read back. A chunk is as many whole
trailing slices as fit, so values stay in order. The ratio is that of the
stored chunks, including the padding of edge chunks, for all codecs alike. The geometric means are
over the fields with the attribute core=1. gzip is level 4 after HDF5's byte shuffle, lossless.

ZFP (fixed accuracy) and SZ3 (absolute bound) are hdf5plugin's; newer SZ3s are those of pysz (see
_sz3.py), in memory. They run in a separate process, since some fields crash them; values outside of
the bound are counted. The best SZ3 is the smallest for each field and bound.

--only measures some codecs, and keeps the others' results in results/fields.json.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any

import _sz3
import hdf5plugin
from _common import (
    SZ3_FILTER,
    add_best_sz3,
    geometric_mean,
    is_peer,
    load_if_there,
    real_fields,
    save,
    through_hdf5,
)
from readme import show

import h5lossy

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

CHUNK_BYTES = 1 << 20
SCALES = (1e-2, 1e-3, 1e-4)

CODECS: dict[str, Callable[[float], Any]] = {
    "PFPL": lambda bound: h5lossy.PFPL(absolute=bound),
    "cuSZp2-P": lambda bound: h5lossy.CuSZp2(absolute=bound, mode="plain"),
    "cuSZp2-O": lambda bound: h5lossy.CuSZp2(absolute=bound),
    "cuSZp2-O 2-D": lambda bound: h5lossy.CuSZp2(absolute=bound, dimensions=2),
    "cuSZp2-O 3-D": lambda bound: h5lossy.CuSZp2(absolute=bound, dimensions=3),
    "AATROX": lambda bound: h5lossy.AATROX(absolute=bound),
    "Interp": lambda bound: h5lossy.Interp(absolute=bound),
    "auto": lambda bound: h5lossy.Auto(absolute=bound),
}
FILTERS: dict[str, Callable[[float], Any]] = {
    "ZFP": lambda bound: hdf5plugin.Zfp(accuracy=bound),
    SZ3_FILTER: lambda bound: hdf5plugin.SZ3(absolute=bound),
}
NAMES = (*CODECS, *FILTERS, *_sz3.ALGORITHMS)


def chunk_shape(data: np.ndarray) -> tuple[int, ...]:
    """Give the chunk of about 1 MiB that holds whole trailing slices."""
    values = CHUNK_BYTES // data.itemsize
    shape = list(data.shape)
    for axis, extent in enumerate(shape):
        slice_values = math.prod(shape[axis + 1 :])
        shape[axis] = max(1, min(extent, values // slice_values))
        if slice_values <= values:
            break
    return tuple(shape)


def measure(
    name: str, data: np.ndarray, fill_value: Any, bound: float
) -> dict[str, float | int | None]:
    """Compress a field with one codec or peer; check every value."""
    chunks = chunk_shape(data)
    if name in _sz3.ALGORITHMS:
        padding = 0 if fill_value is None else fill_value
        stored = _sz3.store(data, chunks, bound, name, padding=padding)
    else:
        make = CODECS.get(name) or FILTERS[name]
        stored = through_hdf5(data, chunks, fill_value, {"compression": make(bound)})
    summary = h5lossy.largest_error(
        data, stored.values, h5lossy.ErrorBound("absolute", bound), fill_value
    )
    return {
        "ratio": data.nbytes / stored.bytes,
        "error_fraction": summary.fraction if math.isfinite(summary.fraction) else None,
        "broken": summary.violations + summary.special_changed,
    }


def measure_peer(name: str, data: np.ndarray, fill_value: Any, bound: float) -> dict[str, Any]:
    """Measure a peer in a process whose crash does no harm."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        try:
            return pool.submit(measure, name, data, fill_value, bound).result(timeout=600)
        except (BrokenProcessPool, OSError, RuntimeError, ValueError) as error:
            return {"ratio": None, "failed": f"{type(error).__name__}: {error}"}


def main() -> None:
    """Measure, print tables, write results/fields.json."""
    parser = argparse.ArgumentParser(description=__doc__.strip().partition("\n\n")[0])
    parser.add_argument("--only", nargs="*", choices=NAMES, default=list(NAMES))
    only = parser.parse_args().only
    before = load_if_there("fields")
    known = {row["field"]: row for row in before["rows"]} if before else {}
    core = {name for name, _, _ in real_fields(core=1)}
    rows: list[dict[str, Any]] = []
    for name, data, fill_value in real_fields():
        gzip = through_hdf5(
            data, chunk_shape(data), fill_value, {"compression": 4, "shuffle": True}
        )
        bounds = []
        for i, scale in enumerate(SCALES):
            resolved = h5lossy.PFPL(range_relative=scale).resolve(data, fill_value)
            bound = resolved.bound.value
            results = dict(known[name]["bounds"][i]["codecs"]) if known else {}
            for codec in only:
                run = measure_peer if is_peer(codec) else measure
                results[codec] = run(codec, data, fill_value, bound)
                if not is_peer(codec) and results[codec]["broken"]:
                    raise SystemExit(f"{codec} violated its bound on {name}: {results[codec]}")
            add_best_sz3(results)
            bounds.append({"scale": scale, "bound": bound, "codecs": results})
        rows.append(
            {
                "field": name,
                "core": name in core,
                "dtype": str(data.dtype),
                "shape": data.shape,
                "chunks": chunk_shape(data),
                "gzip_ratio": data.nbytes / gzip.bytes,
                "bounds": bounds,
            }
        )

    names = list(rows[0]["bounds"][0]["codecs"])
    means: dict[str, dict[str, float]] = {}
    for i, scale in enumerate(SCALES):
        columns = {
            name: [row["bounds"][i]["codecs"][name]["ratio"] for row in rows if row["core"]]
            for name in names
        }
        means[f"{scale:g}"] = {
            name: geometric_mean(ratios) for name, ratios in columns.items() if None not in ratios
        }
    gzip_mean = geometric_mean([row["gzip_ratio"] for row in rows if row["core"]])
    results = {"geometric_mean": means, "gzip_geometric_mean": gzip_mean, "rows": rows}
    show("fields", results)
    save("fields", results)


if __name__ == "__main__":
    main()

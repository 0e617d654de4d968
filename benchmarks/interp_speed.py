# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Speed of Interp against SZ3 and PFPL through HDF5's pipeline, with every backend of this machine.

    H5LOSSY_CORPUS=... python benchmarks/interp_speed.py [--size MIB] [--runs N] [--backends avx2]

The field is the turbulence vorticity of the corpus, repeated to the size; float32, chunks of 64 x
64 x 64 (1 MiB), an absolute bound of 1e-3 of the range. A dataset is written to a file on tmpfs,
with open and close, and read back: CPU time of the whole process, medians; *codec* is the time
of encoding and decoding the same chunks in memory, without HDF5. The cases take turns. A backend
has a process of its own, with a memcpy of 256 MiB in it; SZ3 does not depend on it, and its times
there show how much the machine varies. Only ratios within one process mean something.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import hdf5plugin
import numpy as np
from _common import FIELD, SPEED_SCALE, STREAMING_BYTES, field_for_speed, memcpy_speed, save
from hdf5 import CHUNK_BYTES, MIB, create, judge, speed, take_turns, tiled

import h5lossy
from h5lossy import _native

if TYPE_CHECKING:
    from collections.abc import Callable

BASE = "SZ3"


def codecs(bound: float) -> dict[str, Any]:
    """Give what is compared."""
    return {
        "no filter": None,
        "PFPL": h5lossy.PFPL(absolute=bound),
        "Interp": h5lossy.Interp(absolute=bound),
        "Interp rewritable": h5lossy.Interp(absolute=bound, rewritable=True),
        BASE: hdf5plugin.SZ3(absolute=bound),
    }


def in_memory(data: np.ndarray, codec: h5lossy.Codec, runs: int) -> dict[str, Any]:
    """Encode and decode the chunks of a dataset without HDF5."""
    parts = [
        np.ascontiguousarray(part)
        for layers in np.split(data, data.shape[0] // 64, axis=0)
        for rows in np.split(layers, data.shape[1] // 64, axis=1)
        for part in np.split(rows, data.shape[2] // 64, axis=2)
    ]
    frames = [h5lossy.encode(part, codec) for part in parts]
    out = np.empty_like(parts[0])

    def encode() -> None:
        for part in parts:
            h5lossy.encode(part, codec)

    def decode() -> None:
        for frame in frames:
            _native.decode(frame, out)

    times = take_turns({"write": encode, "read": decode}, runs)
    return {way: speed(seconds["cpu"], data.nbytes) for way, seconds in times.items()}


def measure(size: int, runs: int, folder: Path) -> list[dict[str, Any]]:
    """Measure with the backend of this process."""
    field = field_for_speed()
    bound = SPEED_SCALE * (float(field.max()) - float(field.min()))
    data = tiled(field, size)
    out = np.empty_like(data)
    all_codecs = codecs(bound)

    def path(name: str) -> Path:
        return folder / f"{name.replace(' ', '-')}.h5"

    def write(name: str) -> Callable[[], None]:
        def run() -> None:
            with h5py.File(path(name), "w") as file:
                create(file, data, all_codecs[name])[...] = data

        return run

    def read(name: str) -> Callable[[], None]:
        def run() -> None:
            with h5py.File(path(name)) as file:
                file["x"].read_direct(out)

        return run

    writes = take_turns({name: write(name) for name in all_codecs}, runs)
    reads = take_turns({name: read(name) for name in all_codecs}, runs)
    rows: list[dict[str, Any]] = []
    for name, codec in all_codecs.items():
        read(name)()
        with h5py.File(path(name)) as file:
            ratio = data.nbytes / file["x"].id.get_storage_size()
        row = {
            "name": name,
            "bytes": data.nbytes,
            "ratio": ratio,
            "error_fraction": judge(data, out, bound) if codec is not None else None,
        }
        for way, times in (("write", writes), ("read", reads)):
            base = statistics.median(times[BASE]["cpu"])
            row[way] = speed(times[name]["cpu"], data.nbytes) | {
                "of_sz3": base / statistics.median(times[name]["cpu"])
            }
        if isinstance(codec, h5lossy.Codec):
            row["codec"] = in_memory(data, codec, runs)
        rows.append(row)
    return rows


def work(size: int, runs: int) -> None:
    """Write results of this process as JSON to the standard output."""
    memcpy = memcpy_speed(STREAMING_BYTES)
    tmpfs = "/dev/shm"  # noqa: S108  # a folder of its own is made there
    with tempfile.TemporaryDirectory(dir=tmpfs) as folder:
        rows = measure(size, runs, Path(folder))
    json.dump({"memcpy": memcpy, "rows": rows}, sys.stdout)


def main() -> None:
    """Measure, print, write results/interp_speed.json if every backend was measured."""
    there = [name for name, is_usable in _native.backends().items() if is_usable]
    parser = argparse.ArgumentParser(description=__doc__.strip().partition("\n\n")[0])
    parser.add_argument("--size", type=int, default=64, help="MiB")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--backends", nargs="+", choices=there, default=there)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.size * MIB, options.runs)
        return
    results: dict[str, Any] = {}
    for backend in options.backends:
        size, runs = str(options.size), str(options.runs)
        done = subprocess.run(
            [sys.executable, "-P", __file__, "--size", size, "--runs", runs, "--worker"],
            env=os.environ | {"H5LOSSY_BACKEND": backend, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            check=True,
        )
        results[backend] = found = json.loads(done.stdout)
        print(f"{backend}: memcpy {found['memcpy']['gb_per_s']:.1f} GB/s")
        for row in found["rows"]:
            cells = [f"{row['name']:18}", f"ratio {row['ratio']:6.2f}"]
            for way in ("write", "read"):
                cells.append(f"{way} {row[way]['gb_per_s']:.3f} GB/s ({row[way]['of_sz3']:.2f} x)")
                if "codec" in row:
                    cells.append(f"codec {row['codec'][way]['gb_per_s']:.3f}")
            print("  " + "  ".join(cells))
    if options.backends == there:
        save(
            "interp_speed",
            {
                "field": FIELD,
                "chunk_bytes": CHUNK_BYTES,
                "scale": SPEED_SCALE,
                "runs": options.runs,
                "hdf5plugin": hdf5plugin.version,
                "backends": results,
            },
        )


if __name__ == "__main__":
    main()

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Speed of Interp against SZ3: in memory, and through HDF5's pipeline with every backend.

    H5LOSSY_CORPUS=... python benchmarks/interp_speed.py [--size MIB] [--runs N] [--backends avx2]
        [--pysz FOLDER]

in memory
    Interp's native calls beside both predictors of pysz's SZ3 (see _sz3.py): the chunks of every
    field of the corpus, as rate_distortion.py cuts them, with the best backend. --pysz names
    folders with other versions of pysz, each of which gets a process of its own, with Interp
    again.
through HDF5
    The turbulence vorticity of the corpus, repeated to the size; float32, chunks of 64 x 64 x 64
    (1 MiB). A dataset is written to a file on tmpfs, with open and close, and read back; *codec*
    is encoding and decoding the same chunks in memory, without HDF5. A backend has a process of
    its own; SZ3 does not depend on it, and its times there show how much the machine varies.

Everything uses an absolute bound of 1e-3 of the range; medians of the CPU time of the whole
process, in which all cases take turns, along with a memcpy of 256 MiB. Only ratios within one
process are meaningful.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import _sz3
import h5py
import hdf5plugin
import numpy as np
from _common import (
    FIELD,
    SPEED_SCALE,
    STREAMING_BYTES,
    SZ3_FILTER,
    field_for_speed,
    geometric_mean,
    memcpy_speed,
    save,
)
from hdf5 import CHUNK, CHUNK_BYTES, MIB, judge, read_file, speed, take_turns, tiled, write_file
from rate_distortion import fields
from readme import show

import h5lossy
from h5lossy import _native

if TYPE_CHECKING:
    from collections.abc import Callable


class InMemory(NamedTuple):
    """How a codec encodes and decodes a chunk in memory."""

    encode: Callable[[np.ndarray], Any]
    decode: Callable[[Any, np.ndarray], np.ndarray]
    """Decode to an array like another one, which it may reuse."""


def codecs(bound: float) -> dict[str, Any]:
    """Give the codecs to compare."""
    return {
        "no filter": None,
        "PFPL": h5lossy.PFPL(absolute=bound),
        "Interp": h5lossy.Interp(absolute=bound),
        "Interp rewritable": h5lossy.Interp(absolute=bound, rewritable=True),
        SZ3_FILTER: hdf5plugin.SZ3(absolute=bound),
    }


def of_ours(codec: h5lossy.Codec, fill_value: Any = None) -> InMemory:
    """Call the library without HDF5."""

    def decode(frame: Any, out: np.ndarray) -> np.ndarray:
        _native.decode(frame, out)
        return out

    return InMemory(lambda part: h5lossy.encode(part, codec, fill_value=fill_value), decode)


def of_pysz(bound: float) -> dict[str, InMemory]:
    """Call SZ3 with each of its predictors."""

    def make(algorithm: str) -> InMemory:
        settings = _sz3.config(bound, algorithm)
        return InMemory(lambda part: _sz3.encode(part, settings), _sz3.decode)

    return {name: make(algorithm) for name, algorithm in _sz3.ALGORITHMS.items()}


def cut(data: np.ndarray, chunk: tuple[int, ...]) -> list[np.ndarray]:
    """Cut an array into whole chunks."""
    return [
        np.ascontiguousarray(
            data[tuple(slice(at, at + c) for at, c in zip(corner, chunk, strict=True))]
        )
        for corner in product(*(range(0, n, c) for n, c in zip(data.shape, chunk, strict=True)))
    ]


def in_memory(
    codecs: dict[str, tuple[list[np.ndarray], InMemory]], bound: float, runs: int
) -> dict[str, dict[str, Any]]:
    """Encode and decode chunks with several codecs in turn; each has its own chunks."""
    frames = {name: [codec.encode(x) for x in parts] for name, (parts, codec) in codecs.items()}
    room = {name: np.empty_like(parts[0]) for name, (parts, _) in codecs.items()}

    def encode(name: str) -> Callable[[], None]:
        parts, codec = codecs[name]

        def run() -> None:
            for part in parts:
                codec.encode(part)

        return run

    def decode(name: str) -> Callable[[], None]:
        codec = codecs[name][1]

        def run() -> None:
            for frame in frames[name]:
                codec.decode(frame, room[name])

        return run

    writes = take_turns({name: encode(name) for name in codecs}, runs)
    reads = take_turns({name: decode(name) for name in codecs}, runs)
    found = {}
    for name, (parts, codec) in codecs.items():
        size = sum(part.nbytes for part in parts)
        largest = max(
            judge(part, codec.decode(frame, room[name]), bound)
            for part, frame in zip(parts, frames[name], strict=True)
        )
        found[name] = {
            "ratio": size / sum(memoryview(frame).nbytes for frame in frames[name]),
            "error_fraction": largest,
            "write": speed(writes[name]["cpu"], size),
            "read": speed(reads[name]["cpu"], size),
        }
    return found


def measure_in_memory(runs: int) -> dict[str, Any]:
    """Measure Interp beside the SZ3 of this process, on all fields."""
    rows = []
    for field in fields():
        bound = SPEED_SCALE * field.extent
        interp = of_ours(h5lossy.Interp(absolute=bound), field.fill_value)
        found: dict[str, tuple[list[np.ndarray], InMemory]] = {
            "Interp": (cut(field.values, field.chunks), interp)
        }
        parts = cut(field.without_mask(), field.chunks)
        found |= {name: (parts, codec) for name, codec in of_pysz(bound).items()}
        codecs = in_memory(found, bound, runs)
        rows.append({"field": field.name, "bytes": field.values.nbytes, "codecs": codecs})
    means: dict[str, dict[str, float]] = {}
    for name in rows[0]["codecs"]:
        means[name] = {}
        for way in ("write", "read"):
            speeds = {
                codec: [row["codecs"][codec][way]["gb_per_s"] for row in rows]
                for codec in ("Interp", name)
            }
            means[name][f"{way}_gb_per_s"] = geometric_mean(speeds[name])
            means[name][f"{way}_of_interp"] = geometric_mean(
                a / b for a, b in zip(speeds["Interp"], speeds[name], strict=True)
            )
        means[name]["ratio"] = geometric_mean(row["codecs"][name]["ratio"] for row in rows)
        means[name]["error_fraction"] = max(row["codecs"][name]["error_fraction"] for row in rows)
    return {"backend": h5lossy.get_config().backend, "means": means, "rows": rows}


def measure(size: int, runs: int, folder: Path) -> list[dict[str, Any]]:
    """Measure with the backend of this process."""
    field = field_for_speed()
    bound = SPEED_SCALE * (float(field.max()) - float(field.min()))
    data = tiled(field, size)
    out = np.empty_like(data)
    all_codecs = codecs(bound)

    def path(name: str) -> Path:
        return folder / f"{name.replace(' ', '-')}.h5"

    writes = take_turns(
        {name: partial(write_file, path(name), data, one) for name, one in all_codecs.items()}, runs
    )
    reads = take_turns({name: partial(read_file, path(name), out) for name in all_codecs}, runs)
    parts = cut(data, CHUNK)
    own = {
        name: of_ours(codec)
        for name, codec in all_codecs.items()
        if isinstance(codec, h5lossy.Codec)
    }
    alone = in_memory(
        {name: (parts, codec) for name, codec in (own | of_pysz(bound)).items()}, bound, runs
    )
    rows: list[dict[str, Any]] = []
    for name, codec in all_codecs.items():
        read_file(path(name), out)
        with h5py.File(path(name)) as file:
            ratio = data.nbytes / file["x"].id.get_storage_size()
        row = {
            "name": name,
            "bytes": data.nbytes,
            "ratio": ratio,
            "error_fraction": judge(data, out, bound) if codec is not None else None,
        }
        for way, times in (("write", writes), ("read", reads)):
            base = statistics.median(times[SZ3_FILTER]["cpu"])
            row[way] = speed(times[name]["cpu"], data.nbytes) | {
                "of_sz3": base / statistics.median(times[name]["cpu"])
            }
        if name in alone:
            row["codec"] = alone[name]
        rows.append(row)
    rows += [
        {
            "name": name,
            "bytes": data.nbytes,
            "ratio": alone[name]["ratio"],
            "error_fraction": alone[name]["error_fraction"],
            "codec": alone[name],
        }
        for name in _sz3.ALGORITHMS
    ]
    return rows


def work(part: str, size: int, runs: int) -> None:
    """Write results of this process as JSON to the standard output."""
    results: dict[str, Any] = {"load": os.getloadavg(), "memcpy": memcpy_speed(STREAMING_BYTES)}
    if part == "memory":
        results |= measure_in_memory(runs)
    else:
        tmpfs = "/dev/shm"  # noqa: S108  # a folder of its own is made there
        with tempfile.TemporaryDirectory(dir=tmpfs) as folder:
            results["rows"] = measure(size, runs, Path(folder))
    json.dump(results, sys.stdout)


def start(options: argparse.Namespace, part: str, folders: list[str], **settings: str) -> Any:
    """Measure in a process of its own, which imports from `folders` first."""
    command = [sys.executable, "-P", __file__, "--size", str(options.size)]
    command += ["--runs", str(options.runs), "--worker", part]
    path = os.pathsep.join([*folders, *sys.path])
    done = subprocess.run(
        command,
        env=os.environ | settings | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(done.stdout)


def main() -> None:
    """Measure, print, write results/interp_speed.json if every backend was measured."""
    there = [name for name, is_usable in _native.backends().items() if is_usable]
    parser = argparse.ArgumentParser(description=__doc__.strip().partition("\n\n")[0])
    parser.add_argument("--size", type=int, default=64, help="MiB")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--backends", nargs="+", choices=there, default=there)
    parser.add_argument("--pysz", nargs="+", default=[], help="folders with other versions of it")
    parser.add_argument("--worker", choices=("memory", "hdf5"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker, options.size * MIB, options.runs)
        return
    results = {
        "field": FIELD,
        "chunk_bytes": CHUNK_BYTES,
        "scale": SPEED_SCALE,
        "runs": options.runs,
        "hdf5plugin": hdf5plugin.version,
        "memory": [
            start(options, "memory", folders, H5LOSSY_BACKEND=options.backends[0])
            for folders in ([], *([folder] for folder in options.pysz))
        ],
        "backends": {
            backend: start(options, "hdf5", [], H5LOSSY_BACKEND=backend)
            for backend in options.backends
        },
    }
    show("interp_speed", results)
    if options.backends == there:
        save("interp_speed", results)


if __name__ == "__main__":
    main()

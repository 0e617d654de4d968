# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The shared parts of the benchmarks: timing, a description of the machine, and result files."""

from __future__ import annotations

import io
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import h5py
import numpy as np

import h5lossy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

RESULTS = Path(__file__).parent / "results"
DOCS = Path(__file__).parent.parent / "docs" / "benchmarks"
"""The folder for the figures of plots.py."""

STREAMING_BYTES = 256 << 20
"""Size of the copy that every speed is compared with: far larger than any cache."""

FIELD = "turbulence/vorticity"
"""The field of the corpus that speeds are measured on: real, and hard to compress."""

SZ3_FILTER = "SZ3 (hdf5plugin)"
"""The SZ3 that is an HDF5 filter. Those of pysz are newer, and named by their version."""

BEST_SZ3 = "best SZ3"
"""The smallest of all SZ3s, for each field and bound."""

PEERS = ("ZFP", SZ3_FILTER, "SPERR", "Blosc2", "EBCC", BEST_SZ3)
"""Names of other projects' codecs in results, besides the SZ3s of pysz."""

SPEED_SCALE = 1e-3
"""The bound of speeds that are given for one bound only, as a fraction of the range."""


def is_sz3(name: str) -> bool:
    """Say whether a name in results is one version and setting of SZ3."""
    return name.startswith("SZ3 ")


def is_peer(name: str) -> bool:
    """Say whether a name in results is another project's codec."""
    return name in PEERS or is_sz3(name)


def add_best_sz3(codecs: dict[str, dict[str, Any]]) -> None:
    """
    Add the smallest SZ3 of one field and bound to its results, by name.

    Whether it kept the bound does not matter, which favours SZ3.
    """
    codecs.pop(BEST_SZ3, None)
    found = {name: codecs[name] for name in codecs if is_sz3(name) and codecs[name]["ratio"]}
    if found:
        best = max(found, key=lambda name: found[name]["ratio"])
        codecs[BEST_SZ3] = {"of": best} | found[best]


class FilterRow(TypedDict):
    """
    A row of results/hdf5.json: `FIELD` of float32, written and read in one way.

    `way` is "pipeline" where HDF5 calls the filter, "batched" for h5lossy.write and read, "file"
    for the compressed bytes in a plain file, "memory" for frames in memory, "copy" for values in
    memory. The name of no filter at all is "no filter". Speeds are what `Timing.as_speed` gives, by
    the section's clock: "cpu" of the process, or "wall".
    """

    section: str
    clock: str
    name: str
    is_peer: bool
    way: str
    threads: int
    scale: float | None
    bytes: int
    ratio: float | None
    error_fraction: float | None
    write: dict[str, float]
    read: dict[str, float]


class Stored(NamedTuple):
    """The result of writing data through HDF5 and reading it back."""

    bytes: int
    """For all chunks, padding included."""
    values: np.ndarray
    write_s: float
    read_s: float


class Timing(NamedTuple):
    """CPU seconds of one thread: median and range over the counted runs."""

    median: float
    fastest: float
    slowest: float

    def as_speed(self, size: int) -> dict[str, float]:
        """Give GB/s (10^9 bytes) for `size` bytes a run."""
        return {
            "gb_per_s": size / 1e9 / self.median,
            "gb_per_s_min": size / 1e9 / self.slowest,
            "gb_per_s_max": size / 1e9 / self.fastest,
        }


def cpu_time(run: Callable[[], object], *, runs: int = 15) -> Timing:
    """
    Time a call after a warm-up, by the CPU time of this thread.

    The machines that run this are shared: wall-clock time would show how busy they were.
    """
    run()
    seconds = []
    for _ in range(runs):
        begin = time.thread_time_ns()
        run()
        seconds.append((time.thread_time_ns() - begin) / 1e9)
    return Timing(statistics.median(seconds), min(seconds), max(seconds))


def through_hdf5(
    data: np.ndarray, chunks: tuple[int, ...], fill_value: Any, filters: dict[str, Any]
) -> Stored:
    """Write to a file in memory, and read; CPU seconds of the process."""
    begin = time.process_time_ns()
    with h5py.File("fields", "w", driver="core", backing_store=False) as file:
        dataset = file.create_dataset(
            "x", data=data, chunks=chunks, fillvalue=fill_value, **filters
        )
        file.flush()
        written = time.process_time_ns()
        size = dataset.id.get_storage_size()
        image = file.id.get_file_image()
    # Read its image, since the open file would return what is in the chunk cache.
    begin_read = time.process_time_ns()
    with h5py.File(io.BytesIO(image)) as file:
        values = file["x"][...]
    end = time.process_time_ns()
    return Stored(size, values, (written - begin) / 1e9, (end - begin_read) / 1e9)


def chunk_by_chunk(
    values: np.ndarray,
    chunks: tuple[int, ...],
    encode: Callable[[np.ndarray], np.ndarray],
    decode: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> Stored:
    """Encode and decode whole chunks in memory; `decode` gets an array like the result."""
    decoded, size, write_s, read_s = np.empty_like(values), 0, 0.0, 0.0
    for corner in product(*(range(0, n, c) for n, c in zip(values.shape, chunks, strict=True))):
        place = tuple(slice(at, at + c) for at, c in zip(corner, chunks, strict=True))
        part = np.ascontiguousarray(values[place])
        begin = time.process_time_ns()
        frame = encode(part)
        written = time.process_time_ns()
        decoded[place] = decode(frame, part)
        read_s += (time.process_time_ns() - written) / 1e9
        write_s += (written - begin) / 1e9
        size += frame.nbytes
    return Stored(size, decoded, write_s, read_s)


def geometric_mean(ratios: Iterable[float]) -> float:
    """Mean of ratios that is the same for the inverse ratios."""
    return math.exp(statistics.fmean(map(math.log, ratios)))


def memcpy_speed(size: int) -> dict[str, float]:
    """Speed of copying `size` bytes, source and target in memory already."""
    source, target = np.ones(size, np.uint8), np.zeros(size, np.uint8)
    copies = max(1, (4 << 20) // size)  # a small copy is too short for the clock

    def run() -> None:
        for _ in range(copies):
            np.copyto(target, source)

    return cpu_time(run, runs=9).as_speed(size * copies)


def real_fields(**attributes: Any) -> Iterator[tuple[str, np.ndarray, float | None]]:
    """
    Yield name, values and fill value of the real fields in the folder H5LOSSY_CORPUS.

    Every dataset of its HDF5 files counts; `attributes` keeps those that have them: core=1.
    """
    folder = os.environ.get("H5LOSSY_CORPUS")
    if not folder:
        raise SystemExit("set H5LOSSY_CORPUS to the folder with the fields (*.h5)")
    for path in sorted(Path(folder).glob("*.h5")):
        with h5py.File(path) as file:
            for name, dataset in file.items():
                if any(dataset.attrs.get(key) != value for key, value in attributes.items()):
                    continue
                values = dataset[...]
                if dataset.id.get_type().get_size() < values.itemsize:  # h5py widens bfloat16
                    values = values.astype("bfloat16")
                yield f"{path.stem}/{name}", values, dataset.attrs.get("fill_value")


def field_for_speed() -> np.ndarray:
    """Read `FIELD`."""
    for name, values, _ in real_fields():
        if name == FIELD:
            return values
    raise SystemExit(f"the corpus has no {FIELD}")


def machine() -> dict[str, Any]:
    """Describe the machine, the build and the commit."""
    cpu = platform.processor()
    if (info := Path("/proc/cpuinfo")).exists():
        models = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        cpu = models[0].partition(":")[2].strip() if models else cpu
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude=*"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cpu": cpu,
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "h5lossy": h5lossy.__version__,
        "backend": h5lossy.get_config().backend,
        "build": h5lossy.get_config().build,
        "commit": commit or "unknown",
    }


def save(name: str, results: dict[str, Any]) -> None:
    """Write results and what they were measured on to results/NAME.json."""
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps({"machine": machine(), **results}, indent=2)
    (RESULTS / f"{name}.json").write_text(text + "\n")


def load(name: str) -> dict[str, Any]:
    """Read results/NAME.json."""
    return json.loads((RESULTS / f"{name}.json").read_text())


def scale_of(bound: str) -> float | None:
    """Give the fraction of the range that a bound of throughput.json is; None for other kinds."""
    try:
        return float(bound)
    except ValueError:
        return None


def load_if_there(name: str) -> dict[str, Any] | None:
    """Read results/NAME.json; None where that benchmark has not been run."""
    return load(name) if (RESULTS / f"{name}.json").exists() else None


def run_backend(script: str, name: str, options: list[str]) -> dict[str, Any]:
    """Return what a --worker script prints with one backend, which a process chooses only once."""
    done = subprocess.run(
        [sys.executable, script, *options, "--worker"],
        env=os.environ | {"H5LOSSY_BACKEND": name},
        stdout=subprocess.PIPE,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"the run with the {name} backend failed")
    return json.loads(done.stdout)

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Weak scaling of parallel HDF5: the same size per rank, with 1, 2 and 4 ranks.

    python benchmarks/mpi_scaling.py     # with an h5py that is built for MPI

All ranks write one file together, or each writes its own file; each reads what its neighbour wrote.
A copy in memory by all ranks at once shows how many of them have a core.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
from _common import save

import h5lossy

if TYPE_CHECKING:
    from collections.abc import Callable

RANKS = (1, 2, 4)
SHAPE, CHUNKS = (64, 512, 512), (4, 256, 256)  # of each rank: 64 MiB, in chunks of 1 MiB
RUNS = 9
BOUND = 1e-3


def field(rank: int) -> np.ndarray:
    """Smooth waves with some noise, different on each rank."""
    t, y, x = (np.linspace(0, 6, n, dtype=np.float32) for n in SHAPE)
    waves = np.sin(t[:, None, None] + rank + y[:, None]) * np.cos(3 * x)
    noise = np.random.default_rng(rank).normal(0, 0.002, SHAPE)
    return waves + noise.astype(np.float32)


def in_ranks(folder: Path) -> None:
    """Measure, in all ranks, and print rank 0's results as JSON."""
    from mpi4py import MPI  # noqa: PLC0415  # the process that starts the ranks needs none

    comm = MPI.COMM_WORLD
    values, out = field(comm.rank), np.empty(SHAPE, np.float32)
    codec = h5lossy.PFPL(absolute=BOUND)
    shape = (comm.size * SHAPE[0], *SHAPE[1:])

    def planes(rank: int) -> slice:
        return slice(rank * SHAPE[0], (rank + 1) * SHAPE[0])

    def collective() -> None:
        with h5py.File(folder / "one.h5", "w", driver="mpio", comm=comm) as file:
            data = file.create_dataset("t", shape, "f4", chunks=CHUNKS, compression=codec)
            h5lossy.write(data, values, planes(comm.rank), collective=True)

    def apart() -> None:
        with h5py.File(folder / f"{comm.rank}.h5", "w") as file:
            data = file.create_dataset("t", SHAPE, "f4", chunks=CHUNKS, compression=codec)
            h5lossy.write(data, values, threads=1)

    def read() -> None:
        with h5py.File(folder / "one.h5", driver="mpio", comm=comm) as file:
            h5lossy.read(file["t"], planes((comm.rank + 1) % comm.size), out=out, threads=1)

    ways: dict[str, Callable[[], object]] = {
        "memcpy": lambda: np.copyto(out, values),
        "one file, written together": collective,
        "a file for each rank": apart,
        "one file, read": read,
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(RUNS + 1):  # the first is to warm up
        for name, way in ways.items():
            comm.Barrier()
            begin = time.perf_counter()
            way()
            seconds[name].append(comm.allreduce(time.perf_counter() - begin, MPI.MAX))
    error = float(np.abs(out.astype(np.float64) - field((comm.rank + 1) % comm.size)).max())
    error = comm.allreduce(error, MPI.MAX)
    if comm.rank == 0:
        with h5py.File(folder / "one.h5") as file:
            ratio = h5lossy.describe(file["t"]).ratio
        nbytes = values.nbytes * comm.size
        speeds = {
            name: {
                "gb_per_s": nbytes / 1e9 / statistics.median(found[1:]),
                "gb_per_s_min": nbytes / 1e9 / max(found[1:]),
                "gb_per_s_max": nbytes / 1e9 / min(found[1:]),
            }
            for name, found in seconds.items()
        }
        found = {"ranks": comm.size, "speeds": speeds, "ratio": ratio, "error": error / BOUND}
        print(json.dumps(found))


def main() -> None:
    """Start the ranks, print what they found, write results/mpi_scaling.json."""
    if len(sys.argv) > 1:
        in_ranks(Path(sys.argv[1]))
        return
    rows: list[dict[str, Any]] = []
    for ranks in RANKS:
        with tempfile.TemporaryDirectory() as folder:
            command = ["mpiexec", "-n", str(ranks), sys.executable, *sys.argv, folder]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
        rows.append(json.loads(done.stdout))
        print(rows[-1])
    hdf5 = h5py.version.hdf5_version
    save("mpi_scaling", {"mib_each": 64, "chunk_mib": 1, "hdf5": hdf5, "rows": rows})


if __name__ == "__main__":
    main()

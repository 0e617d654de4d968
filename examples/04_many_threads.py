# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Write and read with many threads, from a program that makes its data step by step.

    python 04_many_threads.py [FOLDER]

Without FOLDER the file goes to a temporary one. H5LOSSY_NUM_THREADS says how many threads.
"""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np

import h5lossy

STEPS, SHAPE, CHUNKS = 60, (200, 300), (4, 100, 100)


def simulate(steps: int) -> Iterator[np.ndarray]:
    """A wave that is driven at one point; yields a block of one step at a time."""
    now, before = np.zeros((2, *SHAPE), np.float32)
    for step in range(steps):
        around = sum(np.roll(now, shift, axis) for shift in (1, -1) for axis in (0, 1))
        now, before = now + 0.99 * (now - before) + 0.2 * (around - 4 * now), now
        now[70, 90] = np.sin(step / 3)
        yield now[None].copy()


def write_as_it_runs(path: Path) -> None:
    with h5py.File(path, "w") as f:
        density = f.create_dataset(
            "density",
            (STEPS, *SHAPE),
            "f4",
            chunks=CHUNKS,
            maxshape=(None, *SHAPE),
            compression=h5lossy.PFPL(absolute=1e-4),
        )
        # Blocks along the first axis, as long as they come. True instead of a function shows a bar.
        said = []
        h5lossy.write(density, simulate(STEPS), progress=lambda *bytes_: said.append(bytes_))
        done, total = said[-1]
        assert done == total == density.size * 4
        print(f"{STEPS} steps written, {total / density.id.get_storage_size():.1f} times smaller")


def read_parts(path: Path) -> None:
    exact = np.concatenate(list(simulate(STEPS)))
    with h5py.File(path) as f:
        density = f["density"]
        whole = h5lossy.read(density)
        error = np.abs(whole.astype(np.float64) - exact).max()
        assert error <= 1e-4
        print(f"largest error {error:.9f}")

        # Any box; only the chunks that it touches are read. `out` saves making a new array.
        series = h5lossy.read(density, np.s_[:, 70, 90])
        frame = np.empty(SHAPE, np.float32)
        h5lossy.read(density, np.s_[-1], out=frame)
        assert np.array_equal(series, whole[:, 70, 90])
        assert np.array_equal(frame, whole[-1])

        # The filter gives the same, a chunk at a time.
        assert np.array_equal(whole, density[...])


def survive_a_crash(path: Path) -> None:
    """What was written before something went wrong is in the file."""

    def blocks() -> Iterator[np.ndarray]:
        yield from simulate(18)
        raise RuntimeError("the simulation has diverged")

    with h5py.File(path, "r+") as f:
        density = f["density"]
        codec = h5lossy.describe(density).config
        again = f.create_dataset("again", density.shape, "f4", chunks=CHUNKS, compression=codec)
        try:
            h5lossy.write(again, blocks())
        except h5lossy.IncompleteWriteError as error:
            print(error)
        # Of 18 steps, 16 are whole chunks.
        assert np.array_equal(again[:16], density[:16])
        assert not again[16:].any()


def main(folder: Path) -> None:
    path = folder / "simulation.h5"
    write_as_it_runs(path)
    read_parts(path)
    survive_a_crash(path)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))

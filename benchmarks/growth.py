# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""How costs grow with chunks, datasets and calls: ratios of CPU times, each next to its target.

    python benchmarks/growth.py [--only WORD] [--json]

Each row compares two costs in one process, in turns, so that a loaded machine hardly matters. A
cost is the lower quartile of CPU times, including those of threads and child processes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import TYPE_CHECKING, Any, NamedTuple

import h5py
import numpy as np

import h5lossy

if TYPE_CHECKING:
    from collections.abc import Callable

    Work = Callable[[], object]

CODEC = h5lossy.PFPL(absolute=1e-3)

#: Values of a chunk.
LENGTH = 8

#: The file options and maximal extents that give a dataset each of HDF5's chunk indexes.
INDEXES: dict[str, tuple[str, Any]] = {
    "B-tree 1": ("earliest", None),
    "fixed array": ("v110", None),
    "extensible array": ("v110", (None, LENGTH)),
    "B-tree 2": ("v110", (None, None)),
}


class Row(NamedTuple):
    """Two pieces of work, and the largest allowed ratio of the first one's cost to the second's."""

    name: str
    aim: float
    works: Callable[[], tuple[Work, Work]]
    repeats: int


ROWS: list[Row] = []


def row(name: str, aim: float, repeats: int = 40) -> Callable[[Any], Any]:
    """Add a row; the function prepares the two pieces of work."""

    def add(works: Callable[[], tuple[Work, Work]]) -> Any:
        ROWS.append(Row(name, aim, works, repeats))
        return works

    return add


def seconds(work: Work) -> float:
    """Return the CPU time of some work, in all threads and child processes."""
    before = used()
    work()
    return used() - before


def used() -> float:
    """Return the CPU time so far."""
    both = map(getrusage, (RUSAGE_SELF, RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in both)


def measured(one: Row) -> tuple[float, float]:
    """Return the costs of both pieces of work."""
    works = one.works()
    for work in works:  # the first call of anything costs more
        work()
    times = [[seconds(work) for work in works] for _ in range(one.repeats)]
    first, second = (sorted(each)[one.repeats // 4] for each in zip(*times, strict=True))
    return first, second


# ------------------------------------------------------------------------------------------------
# Chunks
# ------------------------------------------------------------------------------------------------


def write_into(index: str, chunks: int) -> Work:
    """Write one chunk of a dataset that has so many."""
    libver, most = INDEXES[index]
    file = h5py.File(f"{index}-{chunks}.h5", "w", libver=libver)
    shape = (chunks, LENGTH)
    data = file.create_dataset(
        "x", shape, "f4", chunks=(1, LENGTH), maxshape=most, compression=CODEC
    )
    frame = h5lossy.encode(np.zeros((1, LENGTH), "f4"), CODEC)
    for i in range(chunks):
        data.id.write_direct_chunk((i, 0), frame)
    file.flush()
    numbers = itertools.count(1)

    def work() -> None:
        i = next(numbers)
        h5lossy.write(data, np.full((1, LENGTH), i, "f4"), np.s_[i * 7919 % chunks, :])

    return work


for _index in INDEXES:
    row(f"write a chunk of 100,000, of 1,000: {_index}", 2)(
        lambda index=_index: (write_into(index, 100_000), write_into(index, 1000))
    )


# ------------------------------------------------------------------------------------------------
# Calls
# ------------------------------------------------------------------------------------------------


def small(name: str) -> tuple[h5py.Dataset, np.ndarray[Any, Any]]:
    """Return a dataset of one small chunk, and its values."""
    values = np.cumsum(np.random.default_rng(0).normal(size=(32, 32)), axis=1).astype("f4")
    file = h5py.File(name, "w")
    return file.create_dataset("x", data=values, chunks=values.shape, compression=CODEC), values


def smooth(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return values that compress well."""
    return np.cumsum(np.random.default_rng(0).normal(size=shape), axis=-1).astype("f4")


def large(name: str, shape: tuple[int, ...], chunks: tuple[int, ...]) -> h5py.Dataset:
    """Return a dataset with smooth values."""
    file = h5py.File(name, "w")
    return file.create_dataset("x", data=smooth(shape), chunks=chunks, compression=CODEC)


def many(work: Work, count: int = 50) -> Work:
    """Repeat work that takes less than the clock resolves."""

    def repeated() -> None:
        for _ in range(count):
            work()

    return repeated


@row("write one small chunk, h5py and flush", 5)
def small_write() -> tuple[Work, Work]:
    """Write and read where there is little to do."""
    data, values = small("written.h5")

    def by_h5py() -> None:
        data[...] = values
        data.file.flush()

    return many(lambda: h5lossy.write(data, values)), many(by_h5py)


@row("read one small chunk, h5py", 30)
def small_read() -> tuple[Work, Work]:
    """Write and read where there is little to do."""
    data, _ = small("read.h5")
    return many(lambda: h5lossy.read(data)), many(lambda: data[...])


@row("write 64 MiB on one thread, h5py", 1, repeats=8)
def large_write() -> tuple[Work, Work]:
    """Take chunks of 1 MiB."""
    values = np.cumsum(np.random.default_rng(0).normal(size=(64, 512, 512)), axis=2).astype("f4")
    file = h5py.File("large.h5", "w")
    data = file.create_dataset("x", values.shape, "f4", chunks=(1, 512, 512), compression=CODEC)
    return (
        lambda: h5lossy.write(data, values, threads=1),
        lambda: (data.__setitem__(..., values), file.flush()),
    )


@row("read 64 MiB on one thread, h5py", 1, repeats=8)
def large_read() -> tuple[Work, Work]:
    """Take chunks of 1 MiB."""
    data = large("large-read.h5", (64, 512, 512), (1, 512, 512))
    return lambda: h5lossy.read(data, threads=1), lambda: data[...]


@row("verify 64 MiB in chunks of 64 KiB, read it", 1.5, repeats=8)
def verification() -> tuple[Work, Work]:
    """Compare a hash of each chunk."""
    data = large("verified.h5", (64, 512, 512), (1, 128, 128))
    h5lossy.write(data, data[...], verify=True)
    return lambda: h5lossy.verify(data), lambda: h5lossy.read(data)


@row("read a box of 64 x 64 x 64, all of its chunks", 0.2, repeats=8)
def box() -> tuple[Work, Work]:
    """Read 6 % of the tiles."""
    data = large("box.h5", (64, 1024, 1024), (16, 1024, 1024))
    chosen = np.s_[:, 480:544, 480:544]
    return lambda: h5lossy.read(data, chosen), lambda: h5lossy.read(data)


@row("decode 256 MiB, into memory that is there", 1.25, repeats=8)
def decoding() -> tuple[Work, Work]:
    """Touch the result's pages for the first time in both."""
    frame = h5lossy.encode(smooth((256, 512, 512)), CODEC)
    size = h5lossy.decode(frame).shape

    def into_new_memory() -> None:
        new = np.empty(size, "f4")
        new[:: 4096 // new.itemsize] = 0
        h5lossy.decode(frame, out=new)

    return lambda: h5lossy.decode(frame), into_new_memory


@row("create a dataset, with gzip", 2)
def creation() -> tuple[Work, Work]:
    """In memory, so that no disk matters."""
    file = h5py.File("created.h5", "w", driver="core", backing_store=False)
    numbers = itertools.count()

    def create(**options: Any) -> Work:
        return many(lambda: file.create_dataset(str(next(numbers)), (64,), "f4", **options))

    return create(compression=CODEC), create(compression="gzip")


def append_to(name: str, steps: int, *, verify: bool) -> Work:
    """Append to a dataset that has so many steps already."""
    file = h5py.File(name, "w", libver="v110")
    data = file.create_dataset(
        "x", (0, 64, 64), "f4", maxshape=(None, 64, 64), chunks=(1, 64, 64), compression=CODEC
    )

    def work() -> None:
        data.resize(len(data) + 1, axis=0)
        h5lossy.write(data, np.ones((1, 64, 64), "f4"), np.s_[-1:], verify=verify)

    for _ in range(steps):
        work()
    return work


for _verify in (False, True):
    row(f"append after 1,000 steps, after 10{', verified' if _verify else ''}", 1.5)(
        lambda verify=_verify: (
            append_to(f"long-{verify}.h5", 1000, verify=verify),
            append_to(f"short-{verify}.h5", 10, verify=verify),
        )
    )


# ------------------------------------------------------------------------------------------------
# Datasets, commands
# ------------------------------------------------------------------------------------------------


def command(*arguments: str) -> Work:
    """Run a program."""
    return lambda: subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL)


def of_many(name: str, *options: str) -> tuple[Work, Work]:
    """Run a command for a file of 1,000 datasets, and ten times for one of 100."""
    works = []
    for count in (1000, 100):
        path = f"{count}-datasets.h5"
        if not Path(path).exists():
            with h5py.File(path, "w") as file:
                for i in range(count):
                    values = np.full((64, 64), i, "f4")
                    file.create_dataset(f"{i:05}", data=values, chunks=(64, 64), compression=CODEC)
        run = command("h5lossy", name, path, *(option.format(count) for option in options))
        works.append(many(run, 1000 // count))
    return works[0], works[1]


row("info of 1,000 datasets, 10 times 100", 1, repeats=3)(lambda: of_many("info"))
row("verify 1,000 datasets, 10 times 100", 1, repeats=3)(lambda: of_many("verify"))
row("repack 1,000 datasets, 10 times 100", 1, repeats=3)(
    lambda: of_many("repack", "{}-copy.h5", "--force", "--absolute", "1e-2")
)
row("h5lossy plugin-path, python -c pass", 3, repeats=5)(
    lambda: (command("h5lossy", "plugin-path"), command(sys.executable, "-c", "pass"))
)
row("import h5lossy with h5py and NumPy, these alone", 1.25, repeats=5)(
    lambda: (
        command(sys.executable, "-c", "import h5py, h5lossy"),
        command(sys.executable, "-c", "import h5py"),
    )
)


def main() -> None:
    """Print a line for each row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="rows whose name has this in it")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each row")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for one in ROWS:
            if options.only not in one.name:
                continue
            first, second = measured(one)
            ratio = first / second
            if options.json:
                print(json.dumps({"name": one.name, "cost": first, "ratio": ratio}), flush=True)
                continue
            verdict = "" if ratio <= one.aim else "  MISSED"
            print(
                f"{one.name:58} {first * 1e3:9.3f} ms {second * 1e3:9.3f} ms "
                f"{ratio:6.2f} of {one.aim:g}{verdict}",
                flush=True,
            )


if __name__ == "__main__":
    main()

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Files that several threads or processes share: only what is written changes."""

from __future__ import annotations

import subprocess
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

import h5lossy
from h5lossy import PFPL, _blocks
from h5lossy._batched import chunk_readers
from h5lossy._blocks import ListedChunks, listed_chunks
from h5lossy._verification.records import HASH_ATTRIBUTE
from hdf5_helpers import PROCESS_SECONDS, PYTHON, environment, field, run, tool, with_plugin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

CODEC = PFPL(absolute=1e-2)
THREADS = 8
ROUNDS = 30


@pytest.fixture(autouse=True)
def _change_threads_often(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Switch threads between any two steps, and make several batches even of small data."""
    monkeypatch.setattr(_blocks, "BLOCK_BYTES", 4 << 10)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def in_threads(*work: Callable[[], None]) -> None:
    """Start all functions at once; raise the first error of any of them."""
    failures: list[BaseException] = []
    gate = threading.Barrier(len(work))

    def attempt(task: Callable[[], None]) -> None:
        try:
            gate.wait()
            task()
        except BaseException as error:  # noqa: BLE001  # for the main thread
            failures.append(error)

    threads = [threading.Thread(target=attempt, args=(task,)) for task in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def assert_close(found: Any, values: Any) -> None:
    assert (np.abs(found.astype("f8") - values) <= 1e-2).all()


@pytest.mark.slow
@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("writers", [THREADS, THREADS // 2], ids=["ours", "and h5py's"])
def test_threads_that_write_to_one_file(tmp_path: Path, libver: str, writers: int) -> None:
    path = tmp_path / "x.h5"
    values = [field((16, 96), seed=number) for number in range(THREADS)]

    def write(file: h5py.File, number: int) -> None:
        dataset = file[f"x{number}"]
        if number < writers:
            h5lossy.write(dataset, values[number])
            h5lossy.write(dataset, values[number][3:9, :50], np.s_[3:9, :50])
        else:
            for row in range(0, 16, 4):
                dataset[row : row + 4] = values[number][row : row + 4]
                dataset.flush()

    for _ in range(ROUNDS):
        with h5py.File(path, "w", libver=libver) as file:
            for number in range(THREADS):
                file.create_dataset(f"x{number}", (16, 96), "f4", chunks=(4, 32), compression=CODEC)
            in_threads(*(partial(write, file, number) for number in range(THREADS)))
            for number in range(THREADS):
                assert_close(h5lossy.read(file[f"x{number}"]), values[number])
        with h5py.File(path) as file:
            for number in range(THREADS):
                assert file[f"x{number}"].id.get_num_chunks() == 12
                assert_close(file[f"x{number}"][...], values[number])
    if libver == "earliest":  # which the system's HDF5 understands, whatever its age
        said = run(tool("h5dump"), "-d", "/x7", path, env=with_plugin())
        assert "DATASET" in said.stdout
        assert "error" not in said.stdout + said.stderr


@pytest.mark.slow
@pytest.mark.parametrize("verify", [False, True])
def test_threads_that_write_to_one_dataset(tmp_path: Path, verify: bool) -> None:
    """If nothing is recorded, the parts of two threads may lie in one chunk."""
    path = tmp_path / "x.h5"
    values = field((64, 50))
    rows = [slice(row, row + 8) for row in range(0, 64, 8)]

    def write(dataset: h5py.Dataset, part: slice) -> None:
        h5lossy.write(dataset, values[part], part, verify=verify)

    for _ in range(15):
        with h5py.File(path, "w") as file:
            chunks = (8, 25) if verify else (12, 20)
            x = file.create_dataset("x", values.shape, "f4", chunks=chunks, compression=CODEC)
            in_threads(*(partial(write, x, part) for part in rows))
        with h5py.File(path) as file:
            assert_close(file["x"][...], values)
            if verify:
                assert h5lossy.verify(file["x"]).ok
                assert file["x"].attrs[HASH_ATTRIBUTE].all()


@pytest.mark.slow
def test_who_reads_beside_a_writer_finds_whole_chunks(tmp_path: Path) -> None:
    levels = np.arange(1, 41, dtype="f4")
    done = threading.Event()
    with h5py.File(tmp_path / "x.h5", "w") as file:
        x = file.create_dataset("x", (40, 40), "f4", chunks=(10, 10), compression=CODEC)
        y = file.create_dataset("y", (40, 40), "f4", chunks=(10, 10), compression=CODEC)

        def write() -> None:
            try:
                for level in levels:
                    h5lossy.write(x, np.full((40, 40), level))
                    y[...] = level
            finally:
                done.set()

        def read() -> None:
            last = np.zeros((2, 4, 4))
            while not done.is_set():
                for number, dataset in enumerate((x, y)):
                    found = h5lossy.read(dataset).reshape(4, 10, 4, 10).transpose(0, 2, 1, 3)
                    assert np.ptp(found, axis=(2, 3)).max() == 0
                    levels_found = np.rint(found[:, :, 0, 0])
                    assert (np.abs(found[:, :, 0, 0] - levels_found) <= 1e-2).all()
                    assert (levels_found >= last[number]).all()
                    last[number] = levels_found

        in_threads(write, read, read)
        assert_close(x[...], np.full((40, 40), 40))


def growing(file: h5py.File, values: Any) -> h5py.Dataset:
    """Return a dataset that holds 4 rows, and may get more."""
    options = {"chunks": (4, 10), "maxshape": (None, 10), "compression": CODEC}
    return file.create_dataset("x", data=values, **options)


def test_who_reads_a_dataset_that_grows_finds_what_was_there(tmp_path: Path) -> None:
    values = field((400, 10))
    done = threading.Event()
    with h5py.File(tmp_path / "x.h5", "w") as file:
        x = growing(file, values[:4])

        def append() -> None:
            try:
                for row in range(4, 400, 4):
                    x.resize(row + 4, axis=0)
                    h5lossy.write(x, values[row : row + 4], np.s_[row : row + 4])
            finally:
                done.set()

        def read() -> None:
            while not done.is_set():
                found = h5lossy.read(x)
                # The last rows may be there already, and their values not yet.
                assert_close(found[:-4], values[: len(found) - 4])

        in_threads(append, read, read)
        assert_close(h5lossy.read(x), values)


def test_a_dataset_that_grows_while_its_chunks_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = field((8, 10))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        x = growing(file, values[:4])

        def grow_first(dataset: h5py.Dataset) -> ListedChunks:
            x.resize(8, axis=0)
            x[4:] = values[4:]
            return listed_chunks(dataset)

        monkeypatch.setattr(chunk_readers, "_FEW_CHUNKS", 0)  # else none are listed
        monkeypatch.setattr(chunk_readers, "listed_chunks", grow_first)
        assert_close(h5lossy.read(x), values[:4])
        assert_close(h5lossy.read(x), values)


READER = """
import sys
import h5py, numpy as np
import h5lossy
with h5py.File(sys.argv[1], swmr=True) as file:
    x = file["x"]
    print("open", flush=True)
    rows = reads = 0
    while rows < 200:
        x.refresh()
        assert len(x) >= rows
        rows, reads = len(x), reads + 1
        found = h5lossy.read(x)
        # Row r holds r + 1, and what is not written yet the fill value.
        for start in range(0, rows, 4):
            chunk = found[start : start + 4]
            expected = np.arange(start, start + 4)[:, None] + 1
            new = (abs(chunk - expected) <= 1e-2).all()
            assert new or (not chunk.any() and start == rows - 4), (start, rows, chunk)
    print(reads)
"""


def test_another_process_reads_while_this_one_writes(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    with h5py.File(path, "w", libver="latest") as file:
        x = file.create_dataset(
            "x", (0, 10), "f4", chunks=(4, 10), maxshape=(None, 10), compression=CODEC
        )
        file.swmr_mode = True
        reader = subprocess.Popen(
            [*PYTHON, "-c", READER, path], env=environment(), stdout=subprocess.PIPE, text=True
        )
        assert reader.stdout.readline() == "open\n"
        for row in range(0, 200, 4):
            x.resize(row + 4, axis=0)
            h5lossy.write(x, np.arange(row, row + 4)[:, None] + 1.0, np.s_[row : row + 4])
        said, _ = reader.communicate(timeout=PROCESS_SECONDS)
    assert reader.returncode == 0
    assert int(said) > 0


WRITER = """
import sys, time
import h5py, numpy as np
import h5lossy
path, name = sys.argv[1:]
for row in range(0, 40, 4):
    while True:
        try:
            file = h5py.File(path, "r+")
            break
        except OSError as error:
            assert "lock" in str(error), error
            time.sleep(0.001)
    with file:
        h5lossy.write(file[name], np.full((4, 10), row + 1.0), np.s_[row : row + 4])
"""


def test_processes_that_take_turns(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        for name in "ab":
            file.create_dataset(name, (40, 10), "f4", chunks=(4, 10), compression=CODEC)
    writers = [
        subprocess.Popen(
            [*PYTHON, "-c", WRITER, path, name],
            env=environment(HDF5_USE_FILE_LOCKING="TRUE"),
        )
        for name in "ab"
    ]
    assert [writer.wait(PROCESS_SECONDS) for writer in writers] == [0, 0]
    expected = np.repeat(np.arange(0, 40, 4) + 1.0, 4)[:, None] * np.ones(10)
    with h5py.File(path) as file:
        for name in "ab":
            assert_close(file[name][...], expected)

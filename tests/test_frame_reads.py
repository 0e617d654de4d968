# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Frames that are near each other in a file are read by one call, where that is safe."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import h5lossy
from h5lossy._batched import chunk_readers
from h5lossy._frame_reads import FrameFile

pytestmark = pytest.mark.skipif(not hasattr(os, "preadv"), reason="the system has no preadv")

CHUNKS = 100  # more than are looked up one by one


@pytest.fixture
def data() -> np.ndarray[Any, np.dtype[np.float32]]:
    rng = np.random.default_rng(7)
    return rng.standard_normal((CHUNKS, 500)).astype(np.float32)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """List the buffers that each call of preadv gets."""
    counts: list[int] = []
    preadv = os.preadv

    def counted(fd: int, buffers: Any, offset: int) -> int:
        counts.append(len(buffers))
        return preadv(fd, buffers, offset)

    monkeypatch.setattr(os, "preadv", counted)
    return counts


@pytest.fixture
def plain_file(tmp_path: Path) -> Path:
    path = tmp_path / "plain"
    path.write_bytes(bytes(range(250)) * 100)
    return path


def read_frames(
    path: Path, frames: list[tuple[int, int]], threads: int = 1
) -> tuple[list[np.ndarray[Any, Any]], list[bool]]:
    """Read frames, given by offset and size, to rows that are longer by a byte."""
    offsets, sizes = np.array(frames).T
    rows = [np.full(size + 1, 251, np.uint8) for size in sizes]
    file = FrameFile(os.open(path, os.O_RDONLY), threads)
    is_read = file.read(offsets, sizes, rows)
    file.close()
    return rows, is_read.tolist()


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        ([(0, 10), (10, 20), (40, 5)], 1),  # next to each other, and near
        ([(40, 5), (0, 10), (10, 20)], 1),  # in any order
        ([(0, 10), (4106, 10)], 1),
        ([(0, 10), (4107, 10)], 2),  # a call is faster than what is between
        ([(0, 10), (5, 10), (0, 10)], 3),  # as a broken index may have them
        ([(i * 20, 10) for i in range(341)], 2),
    ],
)
@pytest.mark.parametrize("threads", [1, 3])
def test_rows_are_filled(
    plain_file: Path, calls: list[int], frames: list[tuple[int, int]], expected: int, threads: int
) -> None:
    rows, is_read = read_frames(plain_file, frames, threads)
    assert all(is_read)
    for (offset, size), row in zip(frames, rows, strict=True):
        np.testing.assert_array_equal(row, [*(np.arange(offset, offset + size) % 250), 251])
    assert len(calls) == expected
    assert max(calls) <= 1024  # IOV_MAX


@pytest.mark.parametrize("threads", [1, 3])
def test_a_row_beyond_the_end_is_said_to_be_missing(plain_file: Path, threads: int) -> None:
    offsets = [24980, 24990, 24991, 2**63 - 20]
    _, is_read = read_frames(plain_file, [(offset, 10) for offset in offsets], threads)
    assert is_read == [True, True, False, False]


@pytest.mark.parametrize("threads", [1, 2, 20])
def test_far_frames_are_read_by_several_threads(tmp_path: Path, threads: int) -> None:
    size = 300_000
    data = np.random.default_rng(1).integers(0, 256, 40 * size, np.uint8)
    data.tofile(tmp_path / "a")
    frames = [(i * size, size) for i in np.random.default_rng(2).permutation(40).tolist()]
    rows, is_read = read_frames(tmp_path / "a", frames, threads)
    assert all(is_read)
    for (offset, _), row in zip(frames, rows, strict=True):
        np.testing.assert_array_equal(row[:-1], data[offset : offset + size])


def test_frames_are_read_without_threads_where_there_are_none_left(
    plain_file: Path, calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    offsets, sizes = np.array([0, 20_000]), np.array([10, 10])
    rows = [np.zeros(10, np.uint8) for _ in offsets]
    file = FrameFile(os.open(plain_file, os.O_RDONLY), 4)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        assert file.read(offsets, sizes, rows).all()
    np.testing.assert_array_equal(rows[1], np.arange(10))
    # What was queued for a thread is not read later, to rows that hold other frames by then.
    assert file.read(offsets + 50, sizes, rows).all()
    file.close()
    assert len(calls) == 4
    np.testing.assert_array_equal(rows[0], np.arange(50, 60))


def write(path: Path, data: Any, **options: Any) -> None:
    with h5py.File(path, "w", libver="latest", **options) as f:
        codec = h5lossy.PFPL(absolute=0.01)
        dataset = f.create_dataset(
            "x", shape=data.shape, dtype="f4", chunks=(1, data.shape[1]), compression=codec
        )
        order = np.random.default_rng(3).permutation(len(data))
        for i in order[:-7]:  # some are not stored
            dataset[i] = data[i]


def test_frames_are_read_together_from_a_file_that_nobody_writes(
    tmp_path: Path, data: Any, calls: list[int]
) -> None:
    write(tmp_path / "a.h5", data)
    with h5py.File(tmp_path / "a.h5") as f:
        expected = f["x"][...]
        own = Path("/proc/self/fd")
        descriptors = len([*own.iterdir()]) if own.is_dir() else 0
        np.testing.assert_array_equal(h5lossy.read(f["x"]), expected)
        assert calls
        assert sum(calls) >= CHUNKS - 7
        np.testing.assert_array_equal(h5lossy.read(f["x"], np.s_[3:90, 7:]), expected[3:90, 7:])
        assert not descriptors or len([*own.iterdir()]) == descriptors


@pytest.mark.parametrize(
    ("writing", "reading"),
    [
        ({}, {"mode": "r+"}),
        ({}, {"mode": "r", "swmr": True}),
        ({}, {"mode": "r", "driver": "core"}),
        ({"userblock_size": 1024}, {"mode": "r"}),
    ],
)
def test_hdf5_reads_where_the_file_may_not_hold_what_it_gives(
    tmp_path: Path, data: Any, calls: list[int], writing: Any, reading: Any
) -> None:
    write(tmp_path / "a.h5", data, **writing)
    with h5py.File(tmp_path / "a.h5", **reading) as f:
        np.testing.assert_array_equal(h5lossy.read(f["x"]), f["x"][...])
    assert not calls


def test_a_chunk_that_went_around_the_filter_is_read_by_hdf5(tmp_path: Path, data: Any) -> None:
    write(tmp_path / "a.h5", data)
    with h5py.File(tmp_path / "a.h5", "r+") as f:
        f["x"].id.write_direct_chunk((5, 0), data[6].tobytes(), filter_mask=1)
    with h5py.File(tmp_path / "a.h5") as f:
        np.testing.assert_array_equal(h5lossy.read(f["x"])[5], data[6])


@pytest.mark.parametrize("size", [2**32 - 1, 2**63 + 9, 2**64 - 1])
def test_a_chunk_with_an_absurd_size_is_not_taken_for_one_that_is_not_stored(
    tmp_path: Path, data: Any, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    write(tmp_path / "a.h5", data)
    right = chunk_readers.listed_chunks

    def damaged(dataset: Any) -> Any:
        found = right(dataset)
        return found._replace(sizes=np.full_like(found.sizes, size))

    monkeypatch.setattr(chunk_readers, "listed_chunks", damaged)
    with h5py.File(tmp_path / "a.h5") as f:  # HDF5 itself knows the sizes
        np.testing.assert_array_equal(h5lossy.read(f["x"]), f["x"][...])


def test_a_file_that_has_lost_its_end_is_an_error(tmp_path: Path, data: Any) -> None:
    write(tmp_path / "a.h5", data)
    with h5py.File(tmp_path / "a.h5") as f:
        os.truncate(tmp_path / "a.h5", (tmp_path / "a.h5").stat().st_size // 2)
        with pytest.raises(h5lossy.CorruptFrameError, match="chunk"):
            h5lossy.read(f["x"])


def test_a_file_that_is_open_for_writing_too_is_read_by_hdf5(
    tmp_path: Path, data: Any, calls: list[int]
) -> None:
    write(tmp_path / "a.h5", data)
    with h5py.File(tmp_path / "a.h5", "r+") as writer, h5py.File(tmp_path / "a.h5") as reader:
        writer["x"][5] = data[6]  # it is in HDF5's cache
        np.testing.assert_array_equal(h5lossy.read(reader["x"])[5], writer["x"][5])
    assert not calls


def test_hdf5_reads_where_no_descriptor_is_left(
    tmp_path: Path, data: Any, calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "a.h5", data)

    def fail(_fd: int) -> int:
        raise OSError(24, "Too many open files")

    with h5py.File(tmp_path / "a.h5") as f:
        monkeypatch.setattr(os, "dup", fail)
        np.testing.assert_array_equal(h5lossy.read(f["x"]), f["x"][...])
    assert not calls

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Dask: arrays that are written as they are computed, workers with the filter, assessment."""

from __future__ import annotations

import contextlib
import re
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

import h5lossy
from h5lossy import InvalidArgumentError, NotComparableError, UnsupportedError, _blocks
from hdf5_helpers import environment, field, run_python

if TYPE_CHECKING:
    from pathlib import Path

da = pytest.importorskip("dask.array")
# ruff: noqa: E402  # what follows needs dask
import h5lossy.dask
from reports import assert_same
from test_assessor import OPTIONS, pair

CODEC = h5lossy.PFPL(absolute=0.01)

#: What may differ between reports: the bound has to be the same here.
SOURCE = re.compile(r"provenance|per_chunk|size|undefined\.(size|per_chunk)")


class Computed:
    """Values that dask computes block by block; records how often, and how many at a time."""

    def __init__(self, chunks: tuple[tuple[int, ...], ...]) -> None:
        self.values = field(tuple(map(sum, chunks)))
        self.counts: Counter[Any] = Counter()
        self.most = self._now = 0
        self._lock = threading.Lock()
        self._both = threading.Barrier(2)
        self.array = da.map_blocks(self._block, chunks=chunks, meta=np.empty((0,) * 3, "f4"))

    def _block(self, block_info: Any) -> Any:
        where = block_info[None]["array-location"]
        with self._lock:
            self.counts[tuple(where)] += 1
            self._now += 1
            self.most = max(self.most, self._now)
        if not self._both.broken:  # until a block is computed alone
            with contextlib.suppress(threading.BrokenBarrierError):
                self._both.wait(1)
        with self._lock:
            self._now -= 1
        return self.values[tuple(slice(*ends) for ends in where)]


@pytest.mark.parametrize(
    ("blocks", "chunks", "most_often"),
    [
        (((8, 8, 8, 8), (60,), (50,)), (4, 20, 25), 1),
        (((8, 8, 8, 8), (40, 20), (25, 25)), (4, 20, 25), 1),
        (((3, 1, 4, 20, 4), (20, 20, 20), (50,)), (4, 20, 25), 1),
        (((1,) * 32, (60,), (50,)), (4, 20, 25), 1),
        (((9, 9, 9, 5), (60,), (50,)), (4, 20, 25), 2),  # blocks that end inside of chunks
    ],
    ids=str,
)
def test_a_block_is_computed_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    blocks: Any,
    chunks: Any,
    most_often: int,
) -> None:
    monkeypatch.setattr(_blocks, "BLOCK_BYTES", 10_000)  # less than a row of chunks
    made = Computed(blocks)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        data = file.create_dataset("t", (40, 60, 50), "f4", chunks=chunks, compression=CODEC)
        h5lossy.write(data, made.array, np.s_[4:36], threads=2)
        assert abs(data[4:36].astype("f8") - made.values).max() <= 0.01
        assert not data[:4].any()
        assert not data[36:].any()
    assert set(made.counts.values()) <= set(range(1, most_often + 1))
    assert len(made.counts) == np.prod([len(axis) for axis in blocks])
    assert made.most >= 2  # on all cores


def test_part_of_an_array_goes_to_numbered_places(tmp_path: Path) -> None:
    values = field((6, 60, 50))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        data = file.create_dataset("t", (3, 6, 60, 50), "f4", chunks=(1, 4, 20, 25))
        ours = file.create_dataset_like("ours", data, compression=CODEC)
        for dataset in (data, ours):
            h5lossy.write(dataset, da.from_array(values[:, 7], chunks=(5, 9)), np.s_[1, :, 7])
        assert np.array_equal(data[1, :, 7], values[:, 7])
        assert abs(ours[1, :, 7] - values[:, 7]).max() <= 0.01001
        assert np.count_nonzero(data) == values[:, 7].size


def test_a_block_that_cannot_be_computed_ends_the_write(tmp_path: Path) -> None:
    def block(block_info: Any) -> Any:
        first = block_info[None]["array-location"][0][0]
        if first == 20:
            raise ZeroDivisionError("no such block")
        return np.full((10, 50), first, "f4")

    array = da.map_blocks(block, chunks=((10,) * 4, (50,)), meta=np.empty((0, 0), "f4"))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        data = file.create_dataset("t", array.shape, "f4", chunks=(10, 50), compression=CODEC)
        with pytest.raises(h5lossy.IncompleteWriteError, match="no such block"):
            h5lossy.write(data, array, threads=1)
        assert not data[20:].any()


def test_arrays_that_cannot_be_written_as_they_are(tmp_path: Path) -> None:
    x = da.arange(100.0, chunks=30)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = file.create_dataset("x", (100,), "f4", chunks=(20,), compression=CODEC)
        with pytest.raises(InvalidArgumentError, match=r"\(nan,\) .* compute_chunk_sizes\(\)"):
            h5lossy.write(dataset, x[x >= 0])
        with pytest.raises(
            h5lossy.IncompleteWriteError, match=r"3 values are masked, .* fillvalue="
        ):
            h5lossy.write(dataset, da.ma.masked_less(x, 3))


@pytest.mark.slow
def test_memory_is_bounded(tmp_path: Path) -> None:
    """An array that is four times as large as the memory that the process may use for it."""
    code = """
import sys
import dask, dask.array as da, h5py, numpy as np
import h5lossy, h5lossy._blocks

def peak():
    words = open("/proc/self/status").read().split()
    return int(words[words.index("VmHWM:") + 1]) << 10

h5lossy._blocks.BLOCK_BYTES = 2 << 20
dask.config.set(num_workers=2)  # each computes a block
limit = 32 << 20

def block(block_info):
    (first, stop), _, _ = block_info[None]["array-location"]
    return np.arange(first, stop, dtype="f4")[:, None, None] + np.zeros((1, 512, 512), "f4")

def write(name, planes):
    array = da.map_blocks(
        block, chunks=((2,) * (planes // 2), (512,), (512,)), meta=np.empty((0,) * 3, "f4")
    )
    with h5py.File(sys.argv[1], "a") as file:
        codec = h5lossy.PFPL(absolute=0.1)
        data = file.create_dataset(name, array.shape, "f4", chunks=(2, 256, 256), compression=codec)
        h5lossy.write(data, array, threads=2)
        assert abs(data[-1] - (planes - 1)).max() <= 0.1
        return data.nbytes

write("warm up", 8)
before = peak()
nbytes = write("t", 128)
assert nbytes == 4 * limit, nbytes
assert peak() - before < limit, (peak() - before) >> 20
"""
    run_python(code, tmp_path / "x.h5", cwd=tmp_path)


# ------------------------------------------------------------------------------------------------
# Assessment
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(40,), (33, 30), (24, 12, 13)], ids=str)
@pytest.mark.parametrize("kind", ["f4", ">f8"])
def test_dask_finds_what_assess_finds(shape: tuple[int, ...], kind: str) -> None:
    x, y = pair(shape, kind)
    x[3] = y[3] = 1e20
    x[5], y[6] = np.nan, np.inf
    options = {**OPTIONS, "data_range": None, "fill_value": 1e20}
    blocks = [da.from_array(v, chunks=n) for v, n in ((x, 7), (y, 9))]

    for more in ({}, {"absolute": None, "range_relative": 1e-3}, {"metrics": "bound"}):
        assert_same(
            h5lossy.dask.assess(*blocks, **{**options, **more}),
            h5lossy.assess(
                x, y, **{"metrics": ["ssim", "derivatives", "autocorrelation"], **options, **more}
            ),
            SOURCE,
        )


def test_attributes_of_xarray_say_what_is_missing() -> None:
    xarray = pytest.importorskip("xarray")
    x, y = pair((24, 12, 13))
    x[5, 5], y[5, 5] = -99, -98
    fields = [
        xarray.DataArray(values, dims=("t", "y", "x"), attrs={"missing_value": np.float32(-99)})
        for values in (x, y)
    ]

    found = h5lossy.dask.assess(*(values.chunk(t=5) for values in fields), absolute=0.01)

    assert_same(found, h5lossy.assess(*fields, absolute=0.01), SOURCE)
    assert not found.ok  # a missing value that is none any more


def test_a_constant_field_has_no_similarity() -> None:
    x = da.ones((9, 9), chunks=3)
    found = h5lossy.dask.assess(x, x, absolute=1.0)
    assert found.ok
    assert found.ssim is None


def test_what_dask_does_not_compute_is_refused() -> None:
    x = np.ones((9, 9))
    with pytest.raises(TypeError, match=r"decoded must be a dask array, .* got ndarray"):
        h5lossy.dask.assess(da.ones((9, 9)), x)
    unknown = da.ones(9)
    for values in (unknown[unknown > 0], da.ones(()), da.ones((0, 3))):
        with pytest.raises(InvalidArgumentError, match="original must have axes of known extents"):
            h5lossy.dask.assess(values, values)
    with pytest.raises(NotComparableError):
        h5lossy.dask.assess(da.ones((9, 9)), da.ones((9, 8)))


def test_packed_values_are_refused() -> None:
    xarray = pytest.importorskip("xarray")
    x = xarray.DataArray(np.ones((4, 4), "i2"), attrs={"scale_factor": 0.5}).chunk()
    with pytest.raises(UnsupportedError, match=r"scale_factor 0\.5"):
        h5lossy.dask.assess(x, x)


# ------------------------------------------------------------------------------------------------
# A cluster
# ------------------------------------------------------------------------------------------------

_ON_A_CLUSTER = """
import os, subprocess, sys
import dask.array as da, h5py, numpy as np
from distributed import Client, LocalCluster
import h5lossy, h5lossy.dask

start, path = sys.argv[1:]

def read():  # by HDF5
    import os, h5py
    with h5py.File(path) as file:
        return os.getpid(), float(file["t"][5, 5])

def write():
    import os, h5py
    options = {"compression": 46412, "compression_opts": (1, 0, 0, 0x3FE00000)}  # PFPL, 0.5
    with h5py.File(f"{path}.{os.getpid()}", "w") as file:
        data = file.create_dataset("t", (9, 9), "f4", chunks=(9, 9), **options)
        data[...] = 1.25
        return file.filename

def save(name):
    with h5py.File(path, "a") as file:
        codec = h5lossy.PFPL(absolute=0.01)
        data = file.create_dataset(name, x.shape, "f4", chunks=(8, 50), compression=codec)
        h5lossy.write(data, x)
        return h5lossy.read(data)

x = da.random.default_rng(1).normal(size=(64, 50), chunks=(8, 50))
saved = save("t")
workers = 2 if start == "plugin" else 0
with LocalCluster(
    n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None
) as cluster, Client(cluster) as client:
    if start == "plugin":
        found = client.run(read, on_error="return")
        assert len(found) == 2 and all(isinstance(e, OSError) for e in found.values()), found
        client.register_plugin(h5lossy.dask.FilterPlugin())
    else:
        command = [sys.executable, "-P", "-m", "dask", "worker", cluster.scheduler_address]
        command += ["--nworkers", "2", "--nthreads", "1", "--no-dashboard"]
        started = subprocess.Popen([*command, "--preload", "h5lossy.dask"])
        client.wait_for_workers(2, timeout=60)
    assert (save("computed by the workers") == saved).all()
    values = x.compute()
    found = client.run(read)
    assert len({pid for pid, _ in found.values()} - {os.getpid()}) == 2, found
    assert all(value == saved[5, 5] for _, value in found.values()), found
    for name in client.run(write).values():
        with h5py.File(name) as file:
            assert str(h5lossy.describe(file["t"]).bound) == "absolute 0.5"
            assert abs(file["t"][...] - 1.25).max() <= 0.5
    report = h5lossy.dask.assess(x, x.round(2), absolute=0.00501)
    assert report.ok and report.points == x.size
    whole = h5lossy.assess(values, values.round(2), absolute=0.00501)
    assert report.special == whole.special
    assert (report.error.max_abs, report.error.max_at) == (whole.error.max_abs, whole.error.max_at)
    if start != "plugin":
        started.terminate()
        started.wait()
"""


@pytest.mark.slow
@pytest.mark.parametrize("start", ["plugin", "preload"])
def test_workers_have_the_filter(tmp_path: Path, start: str) -> None:
    pytest.importorskip("distributed")
    env = environment(DASK_TEMPORARY_DIRECTORY=str(tmp_path))
    run_python(_ON_A_CLUSTER, start, tmp_path / "x.h5", cwd=tmp_path, env=env)

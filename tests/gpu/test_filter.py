# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The HDF5 filter on a GPU: the same files, and the CPU where the GPU cannot be used."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_PATH = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}

_WRITE = """
import sys, h5py, numpy as np, h5lossy
from h5lossy import _native
import gpu_data as data
from matrix import SETTINGS
path = sys.argv[1]
with h5py.File(path, "w") as f:
    for name, cls in SETTINGS.items():
        for dtype in ("<f4", ">f8"):
            values = data.make("masked", (3, 100, 130), dtype)
            f.create_dataset(name + dtype[1:], data=values, chunks=(2, 64, 64),
                             compression=cls(absolute=1e-3), fillvalue=data.FILL)
            f.create_dataset(name + dtype[1:] + "r", data=values, chunks=(2, 64, 64),
                             compression=cls(range_relative=1e-3))
with h5py.File(path) as f:
    total = 0.0
    for name in f:
        total += float(np.nansum(np.abs(f[name][...].astype("f8"))))
c = _native.counts()
print(total, c.gpu_encoded > 0, c.gpu_decoded > 0)
"""


def run(path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-c", _WRITE, str(path)],
        env={**os.environ, **_PATH, **environment},
        check=True,
        capture_output=True,
        text=True,
    )


def test_files_are_the_same(tmp_path: Path) -> None:
    on_cpu = run(tmp_path / "cpu.h5", H5LOSSY_DEVICE="cpu")
    on_gpu = run(tmp_path / "gpu.h5", H5LOSSY_DEVICE="gpu")
    assert on_cpu.stdout.split()[1:] == ["False", "False"]
    assert on_gpu.stdout.split()[1:] == ["True", "True"]
    assert on_gpu.stdout.split()[0] == on_cpu.stdout.split()[0]
    # What it says while it compiles kernels aside.
    others = [line for line in on_gpu.stderr.splitlines() if "compiling GPU kernels" not in line]
    assert others == []
    assert (tmp_path / "cpu.h5").read_bytes() == (tmp_path / "gpu.h5").read_bytes()


def test_hidden_gpu(tmp_path: Path) -> None:
    hidden = run(tmp_path / "hidden.h5", H5LOSSY_DEVICE="gpu", CUDA_VISIBLE_DEVICES="")
    on_cpu = run(tmp_path / "cpu.h5", H5LOSSY_DEVICE="cpu")
    assert hidden.stdout == on_cpu.stdout
    assert hidden.stderr.count("h5lossy:") == 1
    assert (tmp_path / "cpu.h5").read_bytes() == (tmp_path / "hidden.h5").read_bytes()


_FORK = """
import os, numpy as np, h5lossy
from h5lossy import _native
values = np.sin(np.arange(100000) / 50).astype("f4")
codec = h5lossy.PFPL(absolute=1e-3)
before = h5lossy.encode(values, codec)
assert _native.counts().gpu_encoded == 1
pid = os.fork()
if pid == 0:
    ok = h5lossy.encode(values, codec) == before and _native.counts().gpu_encoded == 1
    os._exit(0 if ok else 1)
_, status = os.waitpid(pid, 0)
assert status == 0, status
assert h5lossy.encode(values, codec) == before
assert _native.counts().gpu_encoded == 2
"""


def test_fork() -> None:
    subprocess.run(
        [sys.executable, "-P", "-c", _FORK],
        env={**os.environ, **_PATH, "H5LOSSY_DEVICE": "gpu"},
        check=True,
    )


_THREADS = """
import numpy as np, h5lossy
from concurrent.futures import ThreadPoolExecutor
from h5lossy import _native
codec = h5lossy.CuSZp2(absolute=1e-3)
arrays = [np.sin(np.arange(200000 + i) / 50).astype("f4") for i in range(64)]
with ThreadPoolExecutor(16) as pool:
    frames = list(pool.map(lambda a: h5lossy.encode(a, codec), arrays))
    decoded = list(pool.map(h5lossy.decode, frames))
assert _native.counts().gpu_encoded == 64 and _native.counts().gpu_decoded == 64
assert all(np.abs(a - b).max() <= 1e-3 for a, b in zip(arrays, decoded))
"""


def test_many_threads() -> None:
    subprocess.run(
        [sys.executable, "-P", "-c", _THREADS],
        env={**os.environ, **_PATH, "H5LOSSY_DEVICE": "gpu"},
        check=True,
    )

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Several GPUs: the one that an array is on does the work, whichever is the current one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

import gpu_data as data
import h5lossy
from h5lossy._arrays import device_memory, device_of
from hdf5_helpers import PYTHON, frames
from matrix import SETTINGS

if TYPE_CHECKING:
    from pathlib import Path

cupy: Any = pytest.importorskip("cupy")


def _count() -> int:
    try:
        return int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError:
        return 0


pytestmark = pytest.mark.skipif(_count() < 2, reason="there are not two GPUs")

VALUES = data.make("masked", (50, 70, 33), "f4")
CHUNKS = (16, 16, 10)


def values_of(array: Any) -> np.ndarray[Any, Any]:
    memory = device_memory(array)
    return memory.library.to_host(memory)


def there_and_back(path: Path, device: int, array: Any, target: Any) -> None:
    """Frames and a dataset of an array on one GPU are the CPU's."""
    with h5py.File(path, "w") as file:
        for i, setting in enumerate(SETTINGS.values()):
            codec = setting(range_relative=1e-3)
            frame = h5lossy.encode(array, codec)
            decoded = h5lossy.decode(frame)
            assert device_of(device_memory(frame)) == device
            assert device_of(device_memory(decoded)) == device
            assert values_of(frame).tobytes() == h5lossy.encode(VALUES, codec)
            options = {"chunks": CHUNKS, "compression": codec}
            dataset = file.create_dataset(f"gpu{i}", VALUES.shape, "f4", **options)
            h5lossy.write(dataset, array)
            expected = file.create_dataset(f"cpu{i}", data=VALUES, **options)
            file.flush()
            assert frames(dataset) == frames(expected)
            h5lossy.read(dataset, np.s_[3:, 5:, 7:], out=target[3:, 5:, 7:])
            part = values_of(target[3:, 5:, 7:])
            assert part.tobytes() == expected[3:, 5:, 7:].tobytes()
            h5lossy.read(dataset, out=target)
            assert values_of(target).tobytes() == expected[...].tobytes()


def test_a_gpu_that_is_not_the_current_one(tmp_path: Path) -> None:
    with cupy.cuda.Device(1):
        array = cupy.asarray(VALUES)
        target = cupy.zeros_like(array)
    with cupy.cuda.Device(0):
        there_and_back(tmp_path / "a.h5", 1, array, target)
        assert cupy.cuda.runtime.getDevice() == 0


def test_tensors_on_another_gpu(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.from_numpy(VALUES).to("cuda:1")
    there_and_back(tmp_path / "a.h5", 1, tensor, torch.zeros_like(tensor))
    assert torch.cuda.current_device() == 0


def test_all_gpus_at_once(tmp_path: Path) -> None:
    def work(i: int) -> None:
        device = i % _count()
        with cupy.cuda.Device(device), cupy.cuda.Stream(non_blocking=True):
            array = cupy.asarray(VALUES)
            codec = list(SETTINGS.values())[i % len(SETTINGS)](absolute=1e-3)
            expected = h5lossy.encode(VALUES, codec)
            for _ in range(20):
                frame = h5lossy.encode(array, codec)
                assert frame.device.id == device
                assert frame.get().tobytes() == expected
                assert h5lossy.decode(frame).get().tobytes() == h5lossy.decode(expected).tobytes()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(16)))


def test_an_assessment_on_another_gpu() -> None:
    decoded = VALUES + np.float32(1e-4)

    def numbers(x: Any, y: Any) -> Any:
        told = json.loads(h5lossy.assess(x, y, absolute=1e-3, fill_value=data.FILL).to_json())
        told.pop("provenance")
        return told

    with cupy.cuda.Device(1):
        on_other = cupy.asarray(VALUES), cupy.asarray(decoded)
    with cupy.cuda.Device(0):
        on_first = cupy.asarray(VALUES)
        expected = numbers(VALUES, decoded)
        assert numbers(*on_other) == expected
        assert numbers(on_first, on_other[1]) == expected  # one on each


_FILTER = """
import ctypes, h5py, h5lossy, gpu_data as data
from h5lossy import _native
values = data.make("masked", (50, 70, 33), "f4")
with h5py.File("a", "w", driver="core", backing_store=False) as file:
    dataset = file.create_dataset(
        "a", data=values, chunks=(16, 16, 10), compression=h5lossy.PFPL(absolute=1e-3)
    )
    file.flush()
    chunk = dataset.id.read_direct_chunk((0, 0, 0))[1]
counts = _native.counts()
used = []
driver = ctypes.CDLL("libcuda.so.1")
driver.cuInit(0)
for i in range(2):
    flags, is_active = ctypes.c_uint(), ctypes.c_int()
    assert driver.cuDevicePrimaryCtxGetState(i, ctypes.byref(flags), ctypes.byref(is_active)) == 0
    used.append(is_active.value)
print(counts.gpu_encoded > 0, counts.cpu_encoded > 0, used, chunk.hex(), sep="|")
"""


def test_the_filter_uses_the_gpu_it_is_told() -> None:
    def run(device: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*PYTHON, "-c", _FILTER],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                "H5LOSSY_DEVICE": device,
            },
            check=True,
            capture_output=True,
            text=True,
        )

    chunk = "|" + run("cpu").stdout.split("|")[-1]
    assert run("gpu").stdout == "True|False|[1, 0]" + chunk
    assert run("gpu:1").stdout == "True|False|[0, 1]" + chunk
    missing = run(f"gpu:{_count()}")
    assert missing.stdout == "False|True|[0, 0]" + chunk
    assert f"there is no GPU {_count()}; there are {_count()}" in missing.stderr

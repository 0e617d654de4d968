# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Processes that share a GPU (CUDA's Multi-Process Service): the GPU works, with the same bytes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from hdf5_helpers import PROCESS_SECONDS, PYTHON

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONTROL = "nvidia-cuda-mps-control"

_COUNT = "import cupy; print(cupy.cuda.Device(0).attributes['MultiProcessorCount'])"

_WORK = (
    """
import cupy, h5lossy, gpu_data as data
from h5lossy import _native
from matrix import KERNEL_SETTINGS
for setting in KERNEL_SETTINGS.values():
    for kind, shape in (("rough", (1 << 20,)), ("masked", (300, 400))):
        values = data.make(kind, shape, "f4")
        codec = setting(absolute=1e-3)
        frame = h5lossy.encode(cupy.asarray(values), codec)
        assert frame.get().tobytes() == h5lossy.encode(values, codec)
        assert h5lossy.decode(frame).get().tobytes() == h5lossy.decode(frame.get()).tobytes()
counts = _native.counts()
assert counts.gpu_encoded > 0 and counts.gpu_decoded > 0, counts
assert counts.cpu_encoded == 0 and counts.cpu_decoded == 0, counts
"""
    + _COUNT
)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of processes that share the GPU through a service of their own."""
    if shutil.which(CONTROL) is None:
        pytest.skip(f"{CONTROL} is not installed")
    environment = {
        **os.environ,
        "CUDA_MPS_PIPE_DIRECTORY": str(tmp_path / "pipe"),
        "CUDA_MPS_LOG_DIRECTORY": str(tmp_path / "log"),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "H5LOSSY_DEVICE": "gpu",
    }
    (tmp_path / "pipe").mkdir()
    (tmp_path / "log").mkdir()
    started = subprocess.run(
        [CONTROL, "-d"], env=environment, capture_output=True, text=True, check=False
    )
    if started.returncode != 0:
        pytest.skip(f"{CONTROL} does not start here: {started.stderr.strip()}")
    try:
        yield environment
    finally:
        subprocess.run(
            [CONTROL], input="quit\n", env=environment, text=True, check=False, timeout=60
        )
        time.sleep(0.1)  # the server writes its log into the folder until it ends


def test_processes_with_a_share_of_the_gpu(service: dict[str, str]) -> None:
    whole = subprocess.run(
        [*PYTHON, "-c", _COUNT],
        env={**service, "CUDA_MPS_PIPE_DIRECTORY": "none"},
        check=True,
        capture_output=True,
        text=True,
    )
    for percent in (25, 5):
        environment = {**service, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(percent)}
        processes = [
            subprocess.Popen([*PYTHON, "-c", _WORK], env=environment, stdout=subprocess.PIPE)
            for _ in range(2)
        ]
        for process in processes:
            said, _ = process.communicate(timeout=PROCESS_SECONDS)
            assert process.returncode == 0
            assert 0 < int(said) < int(whole.stdout) / 2  # the share is one, so the service is used

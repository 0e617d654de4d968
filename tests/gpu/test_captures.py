# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""A first call in a CUDA graph's capture, which may not load kernels there, does no lasting harm.

In a process of its own: others have loaded their kernels.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_SCRIPT = """
import sys
import cupy, h5lossy, numpy as np
import gpu_data as data
from device_batches import Batch
codec = h5lossy.Interp(lossless=True) if sys.argv[1] == "u2" else h5lossy.PFPL(absolute=1e-3)
chunks = np.stack([data.make("rough", (70_001,), "f4", i) for i in range(5)])
if sys.argv[1] == "u2":
    chunks = np.rint(chunks * 10 + 20_000)
chunks = chunks.astype(sys.argv[1])
stream = cupy.cuda.Stream(non_blocking=True)
with stream:
    batch = Batch(codec, 5, 70_001, chunks.dtype, stream.ptr)
    batch.raw.set(chunks)
    stream.synchronize()
    stream.begin_capture(0)
    try:
        batch.encode()
    except h5lossy.DeviceError as error:
        print(error)
    try:
        stream.end_capture()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        print(error)
    batch.encode()
    stream.synchronize()
    batch.check(chunks)
print("done")
"""


@pytest.mark.parametrize("dtype", ["f4", "u2"])
def test_a_first_call_in_a_capture(dtype: str) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", _SCRIPT, dtype],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("done\n"), done.stdout

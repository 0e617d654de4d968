# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""A first call in a CUDA graph's capture, which may not load kernels there, does no lasting harm.

In a process of its own: others have loaded their kernels.
"""

from __future__ import annotations

import os
import subprocess
import sys

_SCRIPT = """
import cupy, h5lossy, numpy as np
import gpu_data as data
from device_batches import Batch
chunks = np.stack([data.make("rough", (70_001,), "f4", i) for i in range(5)])
stream = cupy.cuda.Stream(non_blocking=True)
with stream:
    batch = Batch(h5lossy.PFPL(absolute=1e-3), 5, 70_001, "f4", stream.ptr)
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


def test_a_first_call_in_a_capture() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", _SCRIPT],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("done\n"), done.stdout

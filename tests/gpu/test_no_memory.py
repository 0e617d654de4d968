# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""A GPU without memory left: the CPU does the work, with the same bytes.

These tests take all memory of the GPU, so nothing else may use it meanwhile: run them alone.
"""

from __future__ import annotations

import os
import subprocess
import sys

_SCRIPT = """
import sys, cupy, h5py, numpy as np, h5lossy
from h5lossy import _native
import gpu_data as data
values = data.make("rough", (1 << 22,), "f4")
small = data.make("rough", (5000,), "f4")
codec = h5lossy.CuSZp2(absolute=1e-3)
field = cupy.asarray(values.reshape(64, 256, 256))
h5lossy.encode(small, codec)  # opens the GPU
assert _native.counts().gpu_encoded == 1

size, taken = 1 << 34, []
while size >= 1 << 20:
    try:
        taken.append(cupy.cuda.runtime.malloc(size))
    except cupy.cuda.runtime.CUDARuntimeError:
        size //= 2

frame = h5lossy.encode(values, codec)
c = _native.counts()
assert (c.gpu_encoded, c.cpu_encoded) == (1, 1), c
with h5py.File("gpu", "w", driver="core", backing_store=False) as file:
    options = {"chunks": (8, 128, 128), "compression": codec}
    a = file.create_dataset("a", field.shape, "f4", **options)
    h5lossy.write(a, field)
    target = field
    target.fill(0)
    h5lossy.read(a, out=target)
    assert np.abs(target.get() - values.reshape(target.shape)).max() <= 1e-3
    b = file.create_dataset("b", data=values.reshape(field.shape), **options)
    for i in range(a.id.get_num_chunks()):
        at = a.id.get_chunk_info(i).chunk_offset
        assert a.id.read_direct_chunk(at)[1] == b.id.read_direct_chunk(at)[1]
for pointer in taken:
    cupy.cuda.runtime.free(pointer)
again = h5lossy.encode(values, codec)
assert again == frame
assert _native.counts().gpu_encoded == 2, _native.counts()
print("done")
"""


def test_all_memory_is_taken() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "H5LOSSY_DEVICE": "gpu",
        },
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"
    assert done.stderr.count("the CPU does the work") == 1, done.stderr

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
wide = cupy.zeros((64, 256, 300), "f4")  # of which parts do not stand in C order
h5lossy.encode(small, codec)  # opens the GPU
assert _native.counts().gpu_encoded == 1

size, taken = 1 << 34, []
while size >= 1 << 20:
    try:
        taken.append(cupy.cuda.runtime.malloc(size))
    except cupy.cuda.runtime.CUDARuntimeError:
        size //= 2

frame = h5lossy.encode(values, codec)
counts = _native.counts()
assert (counts.gpu_encoded, counts.cpu_encoded) == (1, 1), counts
with h5py.File("gpu", "w", driver="core", backing_store=False) as file:
    options = {"chunks": (8, 128, 128), "compression": codec}
    a = file.create_dataset("a", field.shape, "f4", **options)
    h5lossy.write(a, field)
    target = field
    target.fill(0)
    h5lossy.read(a, out=target)
    assert np.abs(target.get() - values.reshape(target.shape)).max() <= 1e-3
    h5lossy.read(a, out=wide[:, :, 9:265])
    decoded = wide.get()
    assert np.array_equal(decoded[:, :, 9:265], target.get())
    assert not decoded[:, :, :9].any() and not decoded[:, :, 265:].any()
    c = file.create_dataset("c", field.shape, "f4", **options)
    h5lossy.write(c, wide[:, :, 9:265])
    assert np.array_equal(c[...], a[...])
    b = file.create_dataset("b", data=values.reshape(field.shape), **options)
    for i in range(a.id.get_num_chunks()):
        at = a.id.get_chunk_info(i).chunk_offset
        assert a.id.read_direct_chunk(at)[1] == b.id.read_direct_chunk(at)[1]
for pointer in taken:
    cupy.cuda.runtime.free(pointer)
before = _native.counts()
assert h5lossy.encode(values, codec) == frame
after = _native.counts()
assert (after.gpu_encoded, after.cpu_encoded) == (before.gpu_encoded + 1, before.cpu_encoded), after
print("done")
"""

_ASSESS = """
import json, warnings, cupy, h5lossy
import gpu_data as data
x = data.make("rough", (64, 256, 256), "f4")
y = x + x.dtype.type(1e-3)
a, b = cupy.asarray(x), cupy.asarray(y)

def numbers():
    told = json.loads(h5lossy.assess(a, b, absolute=1e-2).to_json())
    told.pop("provenance")
    return told

size, taken = 1 << 34, []
while size >= 1 << 12:
    try:
        taken.append(cupy.cuda.runtime.malloc(size))
    except cupy.cuda.runtime.CUDARuntimeError:
        size //= 2
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    found = numbers()
assert ["the CPU does the work" in str(one.message) for one in told] == [True], told
for pointer in taken:
    cupy.cuda.runtime.free(pointer)
with warnings.catch_warnings():
    warnings.simplefilter("error")
    assert numbers() == found
print("done")
"""


def run(script: str) -> subprocess.CompletedProcess[str]:
    """Run a program, for the GPU where it has a choice."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", script],
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
    return done


def test_all_memory_is_taken() -> None:
    assert run(_SCRIPT).stderr.count("the CPU does the work") == 1


def test_an_assessment_without_memory() -> None:
    run(_ASSESS)

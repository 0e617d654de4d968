# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Kernels that give wrong results on this GPU are found before they are used.

The sources of the kernels are text in the library, so a copy of the package whose library has
another operator or number in that text stands for a compiler's error.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import pytest

import gpu_data as data
import h5lossy
from hdf5_helpers import FILTER_ID, frames, tool
from hdf5_helpers import run as run_tool

#: What a compiler makes of a line: the encoder of PFPL, its decoder, and Interp's weights of axes.
ERRORS = {
    "encoder": (b"(word ^ (word >> distance)) & mask", b"(word | (word >> distance)) & mask"),
    "decoder": (b"high[r], 0x5140) ^ bias", b"high[r], 0x5104) ^ bias"),
    "weights": (b"return 16u >> code;", b"return 17u >> code;"),
}


def break_package(folder: Path, error: str) -> dict[str, str]:
    """Copy the package, with an error in its kernels; return the environment that uses it."""
    if h5lossy.get_config().devices[0].kernels == "built in":
        pytest.skip("the kernels are built in")
    package = folder / "h5lossy"
    shutil.copytree(Path(h5lossy.__file__).parent, package)
    plugin = package / Path(h5lossy.PLUGIN_PATH).name
    [library] = [path for path in plugin.iterdir() if path.name.startswith("libh5lossy.")]
    before, after = ERRORS[error]
    content = library.read_bytes()
    assert content.count(before) == 1
    library.write_bytes(content.replace(before, after))
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(folder), *sys.path])),
        "HDF5_PLUGIN_PATH": str(plugin),
        "H5LOSSY_CACHE_DIR": str(folder / "cache"),
        "H5LOSSY_DEVICE": "gpu",
    }


def run(script: str, environment: dict[str, str]) -> str:
    """Run a program; return what it printed on standard error."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", script],
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"
    return done.stderr


def kept(environment: dict[str, str]) -> list[str]:
    """Return the files in the cache."""
    return sorted(path.name for path in Path(environment["H5LOSSY_CACHE_DIR"]).glob("*"))


# Each codec encodes and decodes; frames and values are those of another process on the CPU.
_HOST = """
import pickle, sys, h5lossy
from pathlib import Path
from h5lossy import _native
import gpu_data as data
made = {}
for name in CODECS:
    codec = getattr(h5lossy, name)(absolute=1e-3)
    for kind in ("smooth", "masked"):
        values = data.make(kind, (40, 50, 60), DTYPE)
        frame = h5lossy.encode(values, codec)
        again = h5lossy.decode(frame, shape=values.shape)
        made[name, kind] = frame, again.tobytes(), h5lossy.encode(again, codec)
path = Path(PATH)
if path.exists():
    assert pickle.loads(path.read_bytes()) == made
else:
    path.write_bytes(pickle.dumps(made))
counts = _native.counts()
assert [counts.gpu_encoded > 0, counts.cpu_encoded > 0] == ENCODED, counts
assert [counts.gpu_decoded > 0, counts.cpu_decoded > 0] == DECODED, counts
print("done")
"""


def host(path: Path, codecs: list[str], encoded: list[bool], decoded: list[bool]) -> str:
    """Return the program above; the lists say whether the GPU, and the CPU, did anything."""
    named = {"CODECS": codecs, "DTYPE": "f4", "PATH": str(path), "ENCODED": encoded}
    lines = [f"{name} = {value!r}" for name, value in {**named, "DECODED": decoded}.items()]
    return "\n".join([*lines, _HOST])


def test_the_host_takes_over(tmp_path: Path) -> None:
    environment = break_package(tmp_path, "encoder")
    path = tmp_path / "made"
    by_cpu = host(path, ["PFPL"], [False, True], [False, True])
    run(by_cpu, {**environment, "H5LOSSY_DEVICE": "cpu"})
    for _ in range(2):  # the next process finds it out again
        told = run(host(path, ["PFPL"], [False, True], [True, False]), environment)
        assert told.count("give wrong results") == 1, told
        assert told.count("pfpl_encode_f32_absolute") == 1
        assert "please report" in told
        assert not any(name.startswith("pfpl_encode_f32") for name in kept(environment))
        assert any(name.startswith("pfpl_decode_f32") for name in kept(environment))


def test_other_codecs_stay_on_the_gpu(tmp_path: Path) -> None:
    environment = break_package(tmp_path, "decoder")
    path = tmp_path / "made"
    codecs = ["PFPL", "CuSZp2", "AATROX"]
    by_cpu = host(path, codecs, [False, True], [False, True])
    run(by_cpu, {**environment, "H5LOSSY_DEVICE": "cpu"})
    told = run(host(path, codecs, [True, False], [True, True]), environment)
    assert told.count("give wrong results") >= 1, told
    assert any(name.startswith("cuszp2_encode_f32") for name in kept(environment))


def test_interp(tmp_path: Path) -> None:
    environment = break_package(tmp_path, "weights")
    path = tmp_path / "made"
    by_cpu = host(path, ["Interp"], [False, True], [False, True])
    run(by_cpu, {**environment, "H5LOSSY_DEVICE": "cpu"})
    told = run(host(path, ["Interp"], [False, True], [False, True]), environment)
    assert told.count("give wrong results") == 2, told
    assert not any(name.startswith("interp_") for name in kept(environment))


def test_h5repack(tmp_path: Path) -> None:
    environment = break_package(tmp_path, "encoder")
    source = tmp_path / "source.h5"
    with h5py.File(source, "w") as file:
        file.create_dataset("x", data=data.make("masked", (70, 260), "f4"), chunks=(64, 130))
    words = h5lossy.PFPL(absolute=1e-3).filter_options
    ud = f"UD={FILTER_ID},0,{len(words)},{','.join(map(str, words))}"
    made = {}
    for device in ("cpu", "gpu"):
        target = tmp_path / f"{device}.h5"
        own = {**environment, "H5LOSSY_DEVICE": device, "H5LOSSY_COUNTS": "1"}
        done = run_tool(tool("h5repack"), "-f", ud, source, target, env=own)
        assert done.stderr.count("give wrong results") == (device == "gpu"), done.stderr
        assert "encoded: GPU 0, CPU 4" in done.stderr
        with h5py.File(target) as file:
            made[device] = frames(file["x"])
    assert made["gpu"] == made["cpu"]


_ARRAYS = """
import cupy, h5py, numpy as np, h5lossy
import gpu_data as data
values = data.make("masked", (40, 50, 60), "f4")
field = cupy.asarray(values)
codec = h5lossy.CODEC(absolute=1e-3)
frame = h5lossy.encode(field, codec)
expected = h5lossy.encode(values, codec)
assert frame.get().tobytes() == expected
decoded = h5lossy.decode(frame)
assert decoded.get().tobytes() == h5lossy.decode(expected).tobytes()
with h5py.File("x", "w", driver="core", backing_store=False) as file:
    options = {"chunks": (20, 25, 30), "compression": codec, "fillvalue": data.FILL}
    a = file.create_dataset("a", values.shape, "f4", **options)
    b = file.create_dataset("b", values.shape, "f4", **options)
    h5lossy.write(a, field)
    h5lossy.write(b, values)
    for i in range(a.id.get_num_chunks()):
        at = a.id.get_chunk_info(i).chunk_offset
        assert a.id.read_direct_chunk(at)[1] == b.id.read_direct_chunk(at)[1]
    found = h5lossy.read(a, out="cupy")
    assert found.get().tobytes() == h5lossy.read(b).tobytes()
print("done")
"""


@pytest.mark.parametrize(
    ("error", "codec"), [("encoder", "PFPL"), ("decoder", "PFPL"), ("weights", "Interp")]
)
def test_arrays_on_the_gpu(tmp_path: Path, error: str, codec: str) -> None:
    environment = {**break_package(tmp_path, error), "H5LOSSY_DEVICE": "cpu"}
    told = run(_ARRAYS.replace("CODEC", codec), environment)
    assert told.count("give wrong results") >= 1, told


def test_right_kernels_are_kept(tmp_path: Path) -> None:
    if h5lossy.get_config().devices[0].kernels == "built in":
        pytest.skip("the kernels are built in")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "H5LOSSY_CACHE_DIR": str(tmp_path / "cache"),
        "H5LOSSY_DEVICE": "gpu",
    }
    # Interp first: its check meets frames of other codecs, whose kernels are not there yet.
    codecs = ["Interp", "PFPL", "CuSZp2", "AATROX", "Auto"]
    script = host(tmp_path / "made", codecs, [True, False], [True, False])
    told = run(script, environment)
    assert told.count("h5lossy:") == told.count("compiling GPU kernels") == 1, told
    assert len(kept(environment)) > 20
    assert run(script, environment) == ""  # nothing to compile

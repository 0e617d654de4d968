# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""HDF5's own programs, with no Python in the process, use the GPU through the filter."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

import gpu_data as data
import h5lossy
from hdf5_helpers import FILTER_ID, frames, run, tool, with_plugin

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from h5lossy._codecs import Codec

CODECS: dict[str, Codec] = {
    "pfpl": h5lossy.PFPL(absolute=1e-3),
    "cuszp2": h5lossy.CuSZp2(absolute=1e-3),
    "aatrox": h5lossy.AATROX(pointwise_relative=1e-3),
    "auto": h5lossy.Auto(range_relative=1e-3),
}

NAMES = {"f4": "<f4", "f8": "<f8", "big": ">f4"}

CHUNKS = 3 * 4  # of three datasets


def plain(path: Path) -> None:
    """Write datasets without a filter."""
    with h5py.File(path, "w") as file:
        for name, dtype in NAMES.items():
            values = data.make("masked", (70, 260), dtype)
            file.create_dataset(name, data=values, chunks=(64, 130), fillvalue=data.FILL)


def program(name: str, *arguments: Any, **environment: str) -> subprocess.CompletedProcess[str]:
    return run(tool(name), *arguments, env={**with_plugin(), "H5LOSSY_COUNTS": "1", **environment})


def counts(done: subprocess.CompletedProcess[str]) -> list[int]:
    """Return chunks encoded by GPU and CPU, decoded by GPU and CPU: as the library says at exit."""
    line = r"h5lossy: chunks encoded: GPU (\d+), CPU (\d+); decoded: GPU (\d+), CPU (\d+)"
    [found] = re.findall(line, done.stderr)
    return [int(number) for number in found]


def ud(codec: Codec) -> str:
    words = codec.filter_options
    return f"UD={FILTER_ID},0,{len(words)},{','.join(map(str, words))}"


def all_frames(path: Path) -> dict[str, dict[tuple[int, ...], bytes]]:
    with h5py.File(path) as file:
        return {name: frames(file[name]) for name in NAMES}


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_h5repack_encodes_on_the_gpu(tmp_path: Path, codec: Codec) -> None:
    source, by_gpu, by_cpu = (tmp_path / name for name in ("a.h5", "gpu.h5", "cpu.h5"))
    plain(source)
    on_gpu = program("h5repack", "-f", ud(codec), source, by_gpu, H5LOSSY_DEVICE="gpu")
    on_cpu = program("h5repack", "-f", ud(codec), source, by_cpu, H5LOSSY_DEVICE="cpu")
    assert counts(on_gpu)[:2] == [CHUNKS, 0]
    assert counts(on_cpu)[:2] == [0, CHUNKS]
    assert all_frames(by_gpu) == all_frames(by_cpu)


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_h5repack_and_h5dump_decode_on_the_gpu(tmp_path: Path, codec: Codec) -> None:
    source, packed, by_gpu, by_cpu = (
        tmp_path / name for name in ("a.h5", "packed.h5", "gpu.h5", "cpu.h5")
    )
    plain(source)
    program("h5repack", "-f", ud(codec), source, packed, H5LOSSY_DEVICE="cpu")
    on_gpu = program("h5repack", "-f", "NONE", packed, by_gpu, H5LOSSY_DEVICE="gpu")
    on_cpu = program("h5repack", "-f", "NONE", packed, by_cpu, H5LOSSY_DEVICE="cpu")
    assert counts(on_gpu)[2:] == [CHUNKS, 0]
    assert counts(on_cpu)[2:] == [0, CHUNKS]
    with h5py.File(by_gpu) as left, h5py.File(by_cpu) as right:
        for name in NAMES:
            assert left[name].compression is None
            assert left[name][...].tobytes() == right[name][...].tobytes()
    dump = tmp_path / "f4.bin"
    dumped = program("h5dump", "-d", "f4", "-b", "LE", "-o", dump, packed, H5LOSSY_DEVICE="gpu")
    assert counts(dumped) == [0, 0, CHUNKS // len(NAMES), 0]
    with h5py.File(by_cpu) as file:
        assert dump.read_bytes() == file["f4"][...].tobytes()


def test_h5repack_where_the_gpu_is_hidden(tmp_path: Path) -> None:
    source, target = tmp_path / "a.h5", tmp_path / "b.h5"
    plain(source)
    codec = CODECS["pfpl"]
    hidden = program(
        "h5repack", "-f", ud(codec), source, target, H5LOSSY_DEVICE="gpu", CUDA_VISIBLE_DEVICES=""
    )
    assert counts(hidden)[:2] == [0, CHUNKS]
    assert hidden.stderr.count("the CPU does the work") == 1
    with h5py.File(target) as file:
        values = data.make("masked", (70, 260), "<f4")
        error = np.abs(file["f4"][...] - values)
        assert np.nanmax(error) <= 1e-3

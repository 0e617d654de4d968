# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Interp's frames of integers and of lossless halves, decoded on a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

import gpu_data as data
import h5lossy
from h5lossy import Interp, _native
from reference import frame as reference
from reference.interp_labels import IS_LABELS

if TYPE_CHECKING:
    from pathlib import Path

Array = np.ndarray[Any, Any]

TYPES = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"]

SHAPES: list[tuple[int, ...]] = [
    (1,),
    (33,),
    (40_000,),
    (129, 257),
    (700, 300),
    (33, 34, 35),
    (64, 64, 64),
    (3, 147, 147),
    (6, 10, 41, 43),
]

KINDS = ["slopes", "missing", "rare", "two", "steep", "noise"]

BOUNDS: list[dict[str, Any]] = [
    {"lossless": True},
    {"absolute": 1},
    {"absolute": 40},
    {"range_relative": 1e-2},
    {"exact": (7,), "absolute": 3},
    {"wide": True, "absolute": 3},
]


def make(kind: str, shape: tuple[int, ...], dtype: str, seed: int = 0) -> Array:
    """Return waves with noise, and places without a value."""
    info = np.iinfo(dtype)
    rng = np.random.default_rng([seed, KINDS.index(kind), *shape])
    if kind == "noise":
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    axes = np.ogrid[tuple(slice(n) for n in shape)]
    wave = np.asarray(sum(np.sin(axis / (9.0 + 4 * i)) for i, axis in enumerate(axes)))
    wave = np.broadcast_to(wave, shape) / len(shape)
    size = min(float(info.max) / 4, 2.0**19) if kind == "steep" else 25
    level = min(info.max / 4, 2.0**40)  # below 2**53, where all integers are floats, too
    values = (level + size * wave + rng.normal(0, 1, shape)).astype(dtype)
    if kind in {"missing", "two"}:
        values[wave > 0.2] = info.max
    if kind == "two":
        values[wave < -0.3] = info.min
    if kind == "rare":
        values[rng.random(shape) < 0.01] = info.max
    return values


def may_be_left(frame: bytes) -> bool:
    """Return whether the host may have to decode a frame: tiles of labels, odd addresses."""
    place = 0
    for tile in reference.parse(frame).tiles:
        if place % 2 or (len(tile) > 8 and tile[2] & IS_LABELS):
            return True
        place += len(tile)
    return False


def same_bits(left: Array, right: Array) -> bool:
    return left.dtype == right.dtype and left.tobytes() == right.tobytes()


@pytest.mark.parametrize("bound", BOUNDS, ids=lambda bound: next(iter(bound)))
@pytest.mark.parametrize("dtype", TYPES)
def test_values_are_those_of_the_host(dtype: str, bound: dict[str, Any]) -> None:
    cupy = pytest.importorskip("cupy")
    codec = Interp(**bound)
    decoded_here = 0
    for shape in SHAPES:
        for kind in KINDS:
            fill = 7 if "exact" in bound else np.iinfo(dtype).max
            values = make(kind, shape, dtype)
            frame = h5lossy.encode(values, codec, fill_value=fill)
            expected = h5lossy.decode(frame)
            on_gpu = cupy.asarray(np.frombuffer(frame, np.uint8))
            before = _native.counts()
            decoded = h5lossy.decode(on_gpu)
            if not may_be_left(frame):
                assert _native.counts() == before, (shape, kind)
                decoded_here += 1
            assert same_bits(decoded.get(), expected), (shape, kind)
            first, end = values.size // 3, values.size // 3 + max(1, values.size // 4)
            part = h5lossy.decode(on_gpu, first, end).get()
            assert same_bits(part, expected[first:end]), (shape, kind)
    assert decoded_here > len(SHAPES) * len(KINDS) // 2


@pytest.mark.parametrize("axes", [(-1,), (-2, -1), (-3, -2), (-3, -2, -1)])
@pytest.mark.parametrize("dtype", ["u1", "i2", "u4", "i8"])
def test_all_modes(dtype: str, axes: tuple[int, ...]) -> None:
    cupy = pytest.importorskip("cupy")
    for kind in KINDS:
        values = make(kind, (20, 60, 70), dtype)
        frame = h5lossy.encode(values, Interp(lossless=True, axes=axes))
        on_gpu = cupy.asarray(np.frombuffer(frame, np.uint8))
        assert same_bits(h5lossy.decode(on_gpu, shape=values.shape).get(), values), kind


def test_halves() -> None:
    cupy = pytest.importorskip("cupy")
    values = make("steep", (60, 70, 20), "i4")
    values = ((values - values.mean()) / 2e4).astype("f2")
    values[3, :, 5:] = np.nan
    frame = h5lossy.encode(values, Interp(lossless=True))
    before = _native.counts()
    decoded = h5lossy.decode(cupy.asarray(np.frombuffer(frame, np.uint8)), shape=values.shape)
    assert _native.counts() == before
    assert same_bits(decoded.get(), values)


def test_the_host_decodes_labels() -> None:
    cupy = pytest.importorskip("cupy")
    values = np.random.default_rng(1).choice([0, 7, 300, 41], (30, 40)).astype("u2")
    values = np.kron(values, np.ones((9, 9), "u2"))
    frame = h5lossy.encode(values, Interp(lossless=True))
    assert may_be_left(frame)
    decoded = h5lossy.decode(cupy.asarray(np.frombuffer(frame, np.uint8)), shape=values.shape)
    assert same_bits(decoded.get(), values)


@pytest.mark.parametrize("bound", [{"lossless": True}, {"absolute": 2}], ids=["lossless", "2"])
@pytest.mark.parametrize("dtype", ["u1", "i2", "u2", "u4", "i8"])
def test_datasets(tmp_path: Path, dtype: str, bound: dict[str, Any]) -> None:
    """Chunks of several modes, and stored ones, in one batch."""
    pytest.importorskip("cupy")
    values = make("rare", (64, 80, 96), dtype)
    values[:32, :40, :48] = make("noise", (32, 40, 48), dtype)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = file.create_dataset(
            "a", values.shape, dtype, chunks=(32, 40, 48), compression=Interp(**bound)
        )
        dataset[...] = values
        other = make("slopes", (32, 40, 48), dtype)
        frame = h5lossy.encode(other, Interp(**bound, axes=(-3,)))
        dataset.id.write_direct_chunk((0, 40, 0), frame)
    with h5py.File(tmp_path / "a.h5") as file:
        data.check_read(file["a"])


@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("dtype", ["u1", "u2", "i4", "u8"])
def test_damage(dtype: str, checksum: bool) -> None:
    rng = np.random.default_rng(5)
    for kind in KINDS:
        values = make(kind, (20, 50, 60), dtype)
        frame = h5lossy.encode(values, Interp(absolute=1, checksum=checksum))
        data.check_damage(frame, rng)


_READ = """
import sys, h5py, h5lossy
from h5lossy import _native
with h5py.File(sys.argv[1]) as f:
    sys.stdout.write(f["a"][...].tobytes().hex())
sys.stderr.write(f"{_native.counts().gpu_decoded} {_native.counts().cpu_decoded}")
"""


@pytest.mark.parametrize("dtype", ["<u2", ">i4"])
def test_the_filter(tmp_path: Path, dtype: str) -> None:
    values = make("missing", (40, 60, 50), dtype[1:]).astype(dtype)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset(
            "a", data=values, chunks=(20, 60, 50), compression=Interp(lossless=True)
        )
    done = subprocess.run(
        [sys.executable, "-P", "-c", _READ, str(tmp_path / "a.h5")],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "H5LOSSY_DEVICE": "gpu",
        },
        check=True,
        capture_output=True,
        text=True,
    )
    assert bytes.fromhex(done.stdout) == values.tobytes()
    assert done.stderr.split()[-2:] == ["2", "0"]

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""`write` from and `read` to a GPU: the file is the one that the filter writes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

import gpu_data as data
import h5lossy
from h5lossy import _native
from matrix import BOUNDS, KERNEL_SETTINGS, SETTINGS

if TYPE_CHECKING:
    from pathlib import Path

SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((100_003,), (4096,)),
    ((130, 257), (64, 64)),
    ((70, 64, 64), (16, 64, 64)),
    ((9, 33, 35, 17), (2, 16, 16, 16)),
]


def chunks_of(dataset: h5py.Dataset) -> list[Any]:
    places: list[Any] = []
    dataset.id.chunk_iter(places.append)
    return [(p.chunk_offset, dataset.id.read_direct_chunk(p.chunk_offset)[1]) for p in places]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_the_file_is_the_filters(tmp_path: Path, setting: str, bound: str, dtype: str) -> None:
    cupy = pytest.importorskip("cupy")
    codec = SETTINGS[setting](**BOUNDS[bound])
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for i, (shape, chunks) in enumerate(SHAPES):
            values = data.make("masked", shape, dtype)
            options = {"chunks": chunks, "compression": codec, "fillvalue": data.FILL}
            by_filter = file.create_dataset(f"filter{i}", data=values, **options)
            by_gpu = file.create_dataset(f"gpu{i}", shape, dtype, **options)
            on_gpu = cupy.asarray(values)
            h5lossy.write(by_gpu, on_gpu if i % 2 else cupy.asfortranarray(on_gpu))
            file.flush()
            assert chunks_of(by_gpu) == chunks_of(by_filter)
            expected = by_filter[...]
            found = h5lossy.read(by_gpu, out="cupy")
            assert isinstance(found, cupy.ndarray)
            assert found.get().tobytes() == expected.tobytes()
            target = cupy.zeros(shape[::-1], dtype).T
            assert h5lossy.read(by_gpu, out=target) is target
            assert target.get().tobytes() == expected.tobytes()


@pytest.mark.parametrize("bound", [{"lossless": True}, {"absolute": 2}], ids=["lossless", "2"])
@pytest.mark.parametrize("dtype", ["u1", "i2", "u2", "u4", "i8", "c8", "c16"])
def test_other_types(tmp_path: Path, dtype: str, bound: dict[str, Any]) -> None:
    cupy = pytest.importorskip("cupy")
    random = np.random.default_rng(46412)
    codec = h5lossy.PFPL(**bound)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for i, (shape, chunks) in enumerate(SHAPES):
            values = random.poisson(50, shape).astype(dtype)
            fill = None if values.dtype.kind == "c" else 7
            options = {"chunks": chunks, "compression": codec, "fillvalue": fill}
            by_filter = file.create_dataset(f"filter{i}", data=values, **options)
            by_gpu = file.create_dataset(f"gpu{i}", shape, dtype, **options)
            file.flush()
            before = _native.counts()
            h5lossy.write(by_gpu, cupy.asarray(values))
            assert _native.counts() == before, "some were encoded on the host"
            file.flush()
            assert chunks_of(by_gpu) == chunks_of(by_filter)
            expected = by_filter[...]
            before = _native.counts()
            found = h5lossy.read(by_gpu, out="cupy")
            assert _native.counts() == before, "some were decoded on the host"
            assert found.get().tobytes() == expected.tobytes()
            selection = tuple(slice(extent // 3, extent // 3 + 1) for extent in shape)
            part = h5lossy.read(by_gpu, selection, out="cupy")
            assert part.get().tobytes() == expected[selection].tobytes()


@pytest.mark.parametrize(
    "bound",
    [{"lossless": True}, {"absolute": 2}, {"range_relative": 1e-2}],
    ids=lambda b: next(iter(b)),
)
@pytest.mark.parametrize("dtype", ["u1", "i2", "u2", "u4", "i8"])
def test_interp_on_integers(tmp_path: Path, dtype: str, bound: dict[str, Any]) -> None:
    cupy = pytest.importorskip("cupy")
    random = np.random.default_rng(46412)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for i, (shape, chunks) in enumerate(SHAPES):
            values = random.poisson(50, shape).astype(dtype)
            values[random.random(shape) < 0.02 * i] = 7
            options = {"chunks": chunks, "compression": h5lossy.Interp(**bound), "fillvalue": 7}
            by_filter = file.create_dataset(f"filter{i}", data=values, **options)
            by_gpu = file.create_dataset(f"gpu{i}", shape, dtype, **options)
            file.flush()
            before = _native.counts().cpu_encoded
            h5lossy.write(by_gpu, cupy.asarray(values))
            # What pads a chunk at the edge may be labels, which the host encodes.
            inside = math.prod(n // c for n, c in zip(shape, chunks, strict=True))
            at_edge = by_filter.id.get_num_chunks() - inside
            assert _native.counts().cpu_encoded - before <= at_edge
            file.flush()
            assert chunks_of(by_gpu) == chunks_of(by_filter)
            found = h5lossy.read(by_gpu, out="cupy")
            assert found.get().tobytes() == by_filter[...].tobytes()


SELECTIONS: dict[str, Any] = {
    "whole chunks": np.s_[16:32, 32:64, :],
    "to the edge": np.s_[32:, 16:, 30:],
    "one chunk": np.s_[16:32, 16:32, 0:10],
    "in the middle": np.s_[5:45, 9:60, 3:29],
    "inside of a chunk": np.s_[17:20, 18:30, 1:9],
    "a plane": np.s_[20, :, :],
    "a line": np.s_[:, 33, 12],
    "a value": np.s_[49, 69, 32],
}


@pytest.mark.parametrize("selection", SELECTIONS.values(), ids=SELECTIONS)
@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8"])
@pytest.mark.parametrize("codec", [h5lossy.PFPL(absolute=1e-3), h5lossy.Auto(range_relative=1e-3)])
def test_parts_are_written_and_read_as_by_h5py(
    tmp_path: Path, codec: Any, dtype: str, selection: Any
) -> None:
    cupy = pytest.importorskip("cupy")
    shape = (50, 70, 33)
    before, after = (data.make("masked", shape, dtype, seed) for seed in (1, 2))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        options = {"chunks": (16, 16, 10), "compression": codec, "fillvalue": data.FILL}
        expected = file.create_dataset("expected", shape, dtype, **options)
        on_gpu = file.create_dataset("gpu", shape, dtype, **options)
        for dataset in (expected, on_gpu):
            h5lossy.write(dataset, before)
    native = np.dtype(dtype).newbyteorder("=")
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        h5lossy.write(file["expected"], after[selection], selection)
        part = cupy.asarray(np.ascontiguousarray(after[selection]).astype(native))
        h5lossy.write(file["gpu"], part.reshape(after[selection].shape), selection)
    with h5py.File(tmp_path / "a.h5") as file:
        assert sorted(chunks_of(file["gpu"])) == sorted(chunks_of(file["expected"]))
        values = file["expected"][...]
        for name, index in SELECTIONS.items():
            found = h5lossy.read(file["gpu"], index, out="cupy").get()
            wanted = np.asarray(values[index]).astype(native)
            assert found.shape == wanted.shape, name
            assert found.tobytes() == wanted.tobytes(), name


def test_a_write_that_converts(tmp_path: Path) -> None:
    cupy = pytest.importorskip("cupy")
    values = data.make("rough", (100, 100), "f4")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        options: dict[str, Any] = {"chunks": (32, 32), "compression": h5lossy.PFPL(absolute=1e-3)}
        dataset = file.create_dataset("f8", (100, 100), "f8", **options)
        h5lossy.write(dataset, cupy.asarray(values[10:60]), np.s_[10:60])
        assert np.abs(dataset[10:60] - values[10:60]).max() <= 1e-3


def test_chunks_of_many_codecs_are_decoded_on_the_gpu(tmp_path: Path) -> None:
    pytest.importorskip("cupy")
    values = data.make("masked", (20, 4096), "f4")
    values[3] = data.make("random_bits", (4096,), "f4")  # stored
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = file.create_dataset(
            "a", values.shape, "f4", chunks=(1, 4096), compression=h5lossy.Auto(absolute=1e-3)
        )
        # Interp has so many modes that a batch would have more kinds than are decoded at once.
        names = [one for one in KERNEL_SETTINGS if not one.startswith("interp-")] + ["interp-321"]
        codecs = [KERNEL_SETTINGS[one](absolute=1e-3) for one in names]
        codecs += [h5lossy.PFPL(lossless=True), h5lossy.Auto(range_relative=1e-3)]
        for i, row in enumerate(values):
            frame = h5lossy.encode(row.reshape(1, -1), codecs[i % len(codecs)])
            dataset.id.write_direct_chunk((i, 0), frame)
    with h5py.File(tmp_path / "a.h5") as file:
        before = _native.counts()
        found = h5lossy.read(file["a"], out="cupy")
        assert _native.counts() == before, "some were decoded on the host"
        assert found.get().tobytes() == file["a"][...].tobytes()


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("setting", ["interp-321", "interp-321-rewritable", "auto-size"])
def test_chunks_of_one_mode_are_decoded_on_the_gpu(
    tmp_path: Path, setting: str, dtype: str
) -> None:
    cupy = pytest.importorskip("cupy")
    values = data.make("smooth", (50, 70, 90), dtype)
    values[10:20, :, 30:] = np.nan
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = file.create_dataset(
            "a",
            values.shape,
            dtype,
            chunks=(32, 40, 48),
            compression=SETTINGS[setting](absolute=1e-3),
        )
        h5lossy.write(dataset, cupy.asarray(values))
        data.check_read(dataset)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("kind", data.KINDS)
def test_the_range_of_an_array_is_the_hosts(kind: str, dtype: str) -> None:
    cupy = pytest.importorskip("cupy")
    codec = h5lossy.PFPL(range_relative=1e-3)
    for shape in ((1,), (7, 300), (3, 40, 50)):
        values = data.make(kind, shape, dtype)
        for array, expected in (
            (cupy.asarray(values), values),
            (cupy.asarray(values).T, values),
            (cupy.asarray(values)[..., ::2], values[..., ::2]),
        ):
            for fill in (None, data.FILL):
                assert codec.resolve(array, fill, confirm_range=True) == codec.resolve(
                    expected, fill, confirm_range=True
                )


def test_chunks_that_are_not_there_or_broken(tmp_path: Path) -> None:
    cupy = pytest.importorskip("cupy")
    values = data.make("rough", (64, 64), "f4")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        codec = h5lossy.CuSZp2(absolute=1e-3)
        dataset = file.create_dataset(
            "a", (64, 64), "f4", chunks=(16, 16), compression=codec, fillvalue=7.0
        )
        assert (h5lossy.read(dataset, out="cupy") == 7).all()
        dataset[:20, :20] = values[:20, :20]
    with h5py.File(tmp_path / "a.h5", "r+") as file:  # HDF5's cache has the values as they were
        dataset = file["a"]
        expected = dataset[...]
        assert h5lossy.read(dataset, out="cupy").get().tobytes() == expected.tobytes()
        frame = bytearray(dataset.id.read_direct_chunk((0, 0))[1])
        frame[-1] ^= 0x40
        dataset.id.write_direct_chunk((16, 32), bytes(frame))
        with pytest.raises(h5lossy.H5LossyError):
            h5lossy.read(dataset, out=cupy.empty((64, 64), "f4"))

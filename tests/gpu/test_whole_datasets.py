# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""`write` from and `read` to a GPU: the file is the one that the filter writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

import gpu_data as data
import h5lossy
from matrix import BOUNDS, SETTINGS

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


def test_parts_and_other_types(tmp_path: Path) -> None:
    cupy = pytest.importorskip("cupy")
    values = data.make("rough", (100, 100), "f4")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        options: dict[str, Any] = {"chunks": (32, 32), "compression": h5lossy.PFPL(absolute=1e-3)}
        for dtype in ("<f4", ">f4", "f8"):
            dataset = file.create_dataset(dtype, (100, 100), dtype, **options)
            h5lossy.write(dataset, cupy.asarray(values[10:60]), np.s_[10:60])
            assert np.abs(dataset[10:60] - values[10:60]).max() <= 1e-3
            part = h5lossy.read(dataset, np.s_[20:30, 40], out="cupy")
            assert part.get().tobytes() == dataset[20:30, 40].astype(part.dtype).tobytes()


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

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Zarr's GPU mode: values stay on the GPU, frames and values are those of the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import gpu_data as data
import h5lossy
from h5lossy import _native

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

cupy: Any = pytest.importorskip("cupy")
zarr = pytest.importorskip("zarr", minversion="3.1.6", reason="zarr 3.1.6 is not installed")

from h5lossy.zarr import Serializer  # noqa: E402 - needs zarr

# Of Zarr, which appends the checksum of a shard's index on the host.
pytestmark = pytest.mark.filterwarnings("ignore:Creating a zarr.buffer.gpu")

SHAPE, CHUNKS = (50, 70, 33), (16, 32, 33)

PARTS: list[Any] = [
    np.s_[...],
    np.s_[17:49, :5, 3],
    np.s_[::7, 31:33],
    np.s_[49, 69, 32],
    np.s_[3:3],
]


HOST_MODE = {"buffer": "zarr.buffer.cpu.Buffer", "ndbuffer": "zarr.buffer.cpu.NDBuffer"}


@pytest.fixture(params=[1, 8])
def gpu_mode(request: pytest.FixtureRequest) -> Iterator[None]:
    size = {"codec_pipeline.batch_size": request.param}
    with zarr.config.enable_gpu(), zarr.config.set(size):
        yield


def stored(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def write(folder: Path, codec: Any, values: Any, **options: Any) -> Any:
    """Write an array, all but the chunks of its last rows."""
    array = zarr.create_array(
        folder, shape=SHAPE, chunks=CHUNKS, dtype=values.dtype, serializer=Serializer(codec),
        compressors=None, **options,
    )  # fmt: skip
    array[:48] = values[:48]
    return array


@pytest.mark.parametrize("options", [{}, {"shards": (48, 64, 33)}], ids=str)
@pytest.mark.parametrize(
    ("codec", "dtype"),
    [
        (h5lossy.PFPL(absolute=1e-3), "f4"),
        (h5lossy.Interp(absolute=1e-3), "f4"),
        (h5lossy.AATROX(pointwise_relative=1e-3), "f4"),
        (h5lossy.CuSZp2(range_relative=1e-3), "f8"),
        (h5lossy.Interp(absolute=2), "u2"),
        (h5lossy.PFPL(lossless=True), "i4"),
        (h5lossy.PFPL(absolute=1e-2), "c8"),
        (h5lossy.Interp(noise=1), "u2"),  # has no kernels
    ],
    ids=str,
)
@pytest.mark.usefixtures("gpu_mode")
def test_frames_and_values_are_those_of_the_host(
    tmp_path: Path, codec: Any, dtype: str, options: dict[str, Any]
) -> None:
    plain = np.dtype(dtype)
    if plain.kind == "f":
        values = data.make("special", SHAPE, plain)
    else:
        walk = data.make("rough", SHAPE, "f8")
        values = (walk + 1j * walk[::-1] if plain.kind == "c" else np.abs(walk)).astype(plain)
    fill_value = 0 if plain.kind == "c" else 3
    with zarr.config.set(HOST_MODE):
        host = write(tmp_path / "host", codec, values, fill_value=fill_value, **options)
        expected = [host[part] for part in PARTS]
        picked = host.oindex[[3, 40, 5], :, [1, 30]]
    uploaded = cupy.asarray(values)
    on_gpu = write(tmp_path / "gpu", codec, uploaded, fill_value=fill_value, **options)
    assert stored(tmp_path / "gpu") == stored(tmp_path / "host")
    for part, wanted in zip(PARTS, expected, strict=True):
        found = on_gpu[part]
        assert isinstance(found, cupy.ndarray)
        assert found.get().tobytes() == np.asarray(wanted).tobytes(), part
    found = on_gpu.oindex[[3, 40, 5], :, [1, 30]]
    assert found.get().tobytes() == picked.tobytes()


@pytest.mark.usefixtures("gpu_mode")
@pytest.mark.parametrize("options", [{}, {"shards": (48, 64, 33)}], ids=str)
def test_the_host_encodes_and_decodes_nothing(tmp_path: Path, options: dict[str, Any]) -> None:
    values = data.make("rough", SHAPE, "f4")
    uploaded = cupy.asarray(values)
    before = _native.counts()
    array = write(tmp_path / "a", h5lossy.Interp(absolute=1e-2), uploaded, **options)
    array[5:40, 3:] = uploaded[5:40, 3:]
    found = array[...]
    assert _native.counts() == before
    assert np.abs(found.get()[:48] - values[:48]).max() <= 1e-2


@pytest.mark.usefixtures("gpu_mode")
def test_parts_of_chunks_are_written_as_on_the_host(tmp_path: Path) -> None:
    values = data.make("rough", SHAPE, "f4")
    other = cupy.asarray(-values)
    codec = h5lossy.AATROX(absolute=1e-2)
    on_gpu = write(tmp_path / "gpu", codec, cupy.asarray(values))
    with zarr.config.set(HOST_MODE):
        host = write(tmp_path / "host", codec, values)
    for part in (np.s_[5:45, 3:], np.s_[::9, :, 7], np.s_[49:]):
        on_gpu[part] = other[part]
        with zarr.config.set(HOST_MODE):
            host[part] = -values[part]
    assert stored(tmp_path / "gpu") == stored(tmp_path / "host")


@pytest.mark.usefixtures("gpu_mode")
def test_other_codecs_may_stand_beside(tmp_path: Path) -> None:
    values = data.make("rough", SHAPE, "f4")
    options: dict[str, Any] = {
        "shape": SHAPE, "chunks": CHUNKS, "dtype": "f4",
        "filters": [zarr.codecs.TransposeCodec(order=(2, 0, 1))],
        "serializer": Serializer(h5lossy.PFPL(absolute=1e-2)),
        "compressors": [zarr.codecs.Crc32cCodec()],
    }  # fmt: skip
    with zarr.config.set(HOST_MODE):
        host = zarr.create_array(tmp_path / "host", **options)
        host[...] = values
        expected = host[...]
    before = _native.counts()
    array = zarr.create_array(tmp_path / "gpu", **options)
    array[...] = cupy.asarray(values)
    assert array[...].get().tobytes() == expected.tobytes()
    assert _native.counts() == before
    assert stored(tmp_path / "gpu") == stored(tmp_path / "host")


@pytest.mark.usefixtures("gpu_mode")
def test_big_endian_chunks_are_read(tmp_path: Path) -> None:
    values = data.make("rough", SHAPE, "f4")
    with zarr.config.set(HOST_MODE):
        expected = write(tmp_path / "a", h5lossy.PFPL(absolute=1e-2), values.astype(">f4"))[...]
    found = zarr.open_array(tmp_path / "a")[...].get()
    assert found.dtype == "f4"
    assert found.tobytes() == expected.astype("f4").tobytes()


@pytest.mark.usefixtures("gpu_mode")
@pytest.mark.parametrize("shape", [(), (3, 1, 2, 1, 3, 2, 1, 2, 2)], ids=str)
def test_chunks_may_have_any_number_of_axes(shape: tuple[int, ...]) -> None:
    serializer = Serializer(h5lossy.PFPL(absolute=1e-2))
    array = zarr.create_array(
        {}, shape=shape, chunks=shape, dtype="f4", serializer=serializer, compressors=None,
        config={"write_empty_chunks": True},  # else Zarr compares chunks, which fails without axes
    )  # fmt: skip
    values = data.make("rough", (*shape, 1), "f4")[..., 0]
    array[...] = cupy.asarray(values)
    assert np.abs(cupy.asnumpy(array[...]) - values).max() <= 1e-2


@pytest.mark.usefixtures("gpu_mode")
def test_a_broken_chunk_is_named(tmp_path: Path) -> None:
    values = cupy.asarray(data.make("rough", SHAPE, "f4"))
    array = write(tmp_path / "a", h5lossy.PFPL(absolute=1e-2), values)
    path = tmp_path / "a" / "c" / "1" / "2" / "0"
    frame = bytearray(path.read_bytes())
    frame[-1] ^= 1
    path.write_bytes(frame)
    with pytest.raises(h5lossy.CorruptFrameError, match=r"c/1/2/0"):
        array[...]
    assert array[:16].shape == (16, 70, 33)
    path.write_bytes(h5lossy.encode(np.zeros(5, "f4"), h5lossy.PFPL(absolute=1e-2)))
    with pytest.raises(h5lossy.CorruptFrameError, match=r"c/1/2/0.*20 bytes"):
        array[...]

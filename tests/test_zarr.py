# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Zarr arrays of both formats: frames are those of the filter, and all kinds of reads agree."""

from __future__ import annotations

import gzip
import importlib.metadata
import itertools
import json
import math
import pickle
import re
import runpy
import sys
import tracemalloc
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

import h5lossy
from checks import assert_kept, assert_same_bits
from h5lossy import PFPL, Auto, CuSZp2, Interp
from h5lossy._codecs import CODECS
from hdf5_helpers import bound_of, cd_values, environment, field, frames, run_python
from matrix import BOUNDS, DTYPES, SETTINGS

zarr = pytest.importorskip("zarr", minversion="3.1.6", reason="zarr 3.1.6 is not installed")

import numcodecs  # noqa: E402 - zarr needs it
from zarr.core.array_spec import ArraySpec  # noqa: E402
from zarr.core.buffer import default_buffer_prototype  # noqa: E402
from zarr.core.sync import sync  # noqa: E402

import h5lossy.zarr  # noqa: E402
from h5lossy.zarr import Compressor, FrameReader, Serializer, codec_from_filter  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

    from h5lossy._codecs import Codec

FORMATS = [3, 2]

#: Chunks that divide no extent, up to more dimensions than a frame has dims.
SHAPES = {
    (): (),
    (1,): (1,),
    (1000,): (300,),
    (70, 90): (32, 40),
    (9, 1, 40): (4, 1, 17),
    (5, 6, 20, 9): (2, 4, 16, 9),
    (2, 3, 4, 5, 6, 7): (2, 2, 3, 2, 4, 5),
    (1, 2, 1, 2, 3, 1, 2, 3, 2, 4): (1, 2, 1, 1, 2, 1, 2, 3, 2, 3),
}


def new_array(
    codec: Codec, values: np.ndarray[Any, Any], chunks: tuple[int, ...], **options: Any
) -> tuple[zarr.Array, dict[str, Any]]:
    """Make an array with a codec, and write values; return it and its store."""
    store: dict[str, Any] = {}
    options = {"zarr_format": 3, "fill_value": 0} | options
    ours: dict[str, Any] = {"serializer": Serializer(codec), "compressors": None}
    if options["zarr_format"] == 2:
        ours = {"compressors": Compressor(codec, fill_value=options["fill_value"])}
    array = zarr.create_array(
        store, shape=values.shape, chunks=chunks or "auto", dtype=values.dtype, **ours | options
    )
    array[...] = values
    return zarr.open_array(store), store


def stored_frames(array: zarr.Array, store: dict[str, Any]) -> dict[tuple[int, ...], bytes]:
    """Return the bytes of each chunk by its place."""
    found = {}
    for name, buffer in store.items():
        numbers = re.findall(r"\d+", name)
        if "zarr" not in name and (numbers or name == "c"):
            place = tuple(int(n) * c for n, c in zip(numbers, array.chunks, strict=False))
            found[place if array.ndim else ()] = buffer.to_bytes()
    return found


def frames_in_hdf5(
    codec: Codec, values: np.ndarray[Any, Any], chunks: tuple[int, ...], fill_value: Any
) -> dict[tuple[int, ...], bytes]:
    with h5py.File("x.h5", "w", driver="core", backing_store=False) as file:
        dataset = file.create_dataset(
            "x", data=values, chunks=chunks, compression=codec, fillvalue=fill_value
        )
        return frames(dataset)


def hostile_field(shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """Make data with NaN, infinities and a missing value."""
    values = field(shape, dtype)
    flat = values.reshape(-1)
    flat[3::50], flat[5::70], flat[7::31] = np.nan, -np.inf, -999
    return values


# ------------------------------------------------------------------------------------------------
# What is written
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("zarr_format", FORMATS)
@pytest.mark.parametrize("fill_value", [0, -999])
def test_frames_are_those_of_the_filter(
    codec: type[Codec], bound: dict[str, Any], fill_value: int, zarr_format: int
) -> None:
    values = hostile_field((70, 90), "f4")
    setting = codec(**bound)

    array, store = new_array(
        setting, values, (32, 40), fill_value=fill_value, zarr_format=zarr_format
    )

    expected = frames_in_hdf5(setting, values, (32, 40), fill_value)
    assert len(expected) == 9
    assert stored_frames(array, store) == expected


@pytest.mark.parametrize("zarr_format", FORMATS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_shape_and_type_keeps_the_bound(
    shape: tuple[int, ...], dtype: str, zarr_format: int
) -> None:
    values = field(shape, dtype)
    for codec in (PFPL(absolute=1e-3), CuSZp2(absolute=1e-3, dimensions=3), Interp(absolute=1e-3)):
        array, store = new_array(codec, values, SHAPES[shape], zarr_format=zarr_format)

        back = np.asarray(array[...])

        assert back.shape == shape
        assert_kept(values, back.astype(values.dtype), {"absolute": 1e-3})
        assert all(frame.startswith(b"H5LY") for frame in stored_frames(array, store).values())


def test_every_codec_and_bound_comes_back_within_it(
    codec: type[Codec], bound: dict[str, Any], dtype: np.dtype[Any]
) -> None:
    values = hostile_field((64, 80), dtype)
    setting = codec(**bound)

    array, _ = new_array(setting, values, (32, 40), fill_value=-999)

    for rows in (slice(0, 32), slice(32, 64)):
        for columns in (slice(0, 40), slice(40, 80)):  # a range is that of a chunk
            x, y = values[rows, columns], np.asarray(array[rows, columns])
            assert_kept(x, y, bound_of(setting), -999, maybe_padded=True)


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_the_fill_value_is_kept_and_no_other_value_becomes_it(zarr_format: int) -> None:
    values = field((50,))
    values[::7], values[1::7] = -999, -999.4

    array, _ = new_array(PFPL(absolute=1), values, (20,), fill_value=-999, zarr_format=zarr_format)

    assert ((array[...] == -999) == (values == -999)).all()


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_what_was_never_written_is_the_fill_value(zarr_format: int) -> None:
    array, _ = new_array(
        PFPL(absolute=1e-3), field((30, 4)), (16, 4), fill_value=7.5, zarr_format=zarr_format
    )
    array.resize((60, 4))

    assert (array[48:] == 7.5).all()
    assert (array[30:48] == 7.5).all()  # partly in a chunk that was written


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_a_partial_write_leaves_all_other_values_as_they_were(
    codec: type[Codec], zarr_format: int
) -> None:
    array, _ = new_array(codec(absolute=1e-2), field((40, 50)), (16, 32), zarr_format=zarr_format)
    for part in (np.s_[3:20, 7:40], np.s_[39], np.s_[:, 2], np.s_[0, 0]):
        before = np.asarray(array[...])

        array[part] = field((40, 50), seed=1)[part]

        others = np.ones((40, 50), bool)
        others[part] = False
        assert_same_bits(np.asarray(array[...])[others], before[others])
        assert_kept(
            np.atleast_1d(field((40, 50), seed=1)[part]),
            np.atleast_1d(array[part]),
            {"absolute": 1e-2},
        )


@pytest.mark.parametrize("zarr_format", FORMATS)
@pytest.mark.parametrize("dtype", ["?", "M8[ns]"])
def test_other_types_are_refused(dtype: str, zarr_format: int) -> None:
    values = np.ones((4, 4), "i8").astype(dtype)
    message = f"complex128 and integers, of either byte order, not {values.dtype}"

    with pytest.raises(h5lossy.UnsupportedError, match=re.escape(message)):
        new_array(PFPL(absolute=1), values, (4, 4), zarr_format=zarr_format)


def test_a_bare_buffer_is_refused_for_it_has_no_type() -> None:
    with pytest.raises(h5lossy.UnsupportedError, match="may hold bytes of anything"):
        Compressor(PFPL(absolute=1)).encode(memoryview(bytes(64)))
    assert Compressor(PFPL(lossless=True)).encode(memoryview(bytes(64)))
    assert Compressor(PFPL(absolute=1), dtype="u1", chunks=(64,)).encode(memoryview(bytes(64)))


OTHER_TYPES: list[tuple[str, dict[str, Any]]] = [
    *(
        (dtype, bound)
        for dtype in ("<i2", ">u2", "i1", "<i4", "<u8")
        for bound in ({"lossless": True}, {"absolute": 3})
    ),
    ("<f2", {"absolute": 1}),
    (">c8", {"modulus": 1}),
    ("<c16", {"absolute": 1}),
    ("<u2", {"noise": 1}),
]


@pytest.mark.parametrize("zarr_format", FORMATS)
@pytest.mark.parametrize(("dtype", "bound"), OTHER_TYPES)
def test_other_types_have_the_frames_that_they_have_in_hdf5(
    dtype: str, bound: dict[str, Any], zarr_format: int
) -> None:
    values = np.random.default_rng(1).integers(0, 90, (40, 50)).astype(dtype)
    if values.dtype.kind == "c":
        values += (1j * values.T.reshape(values.shape)).astype(dtype)
    for codec in (PFPL(**bound), Auto(**bound)):
        array, store = new_array(codec, values, (16, 32), zarr_format=zarr_format)
        back = np.asarray(array[...])
        kind, value = next(iter(bound.items()))
        wanted = h5lossy.ErrorBound(kind, 0 if codec.lossless else value)
        found = h5lossy.largest_error(values, back, wanted)
        assert found.holds
        assert (found.max_error > 0) != codec.lossless
        np.testing.assert_array_equal(np.asarray(array[3:30:2, 7]), back[3:30:2, 7])
        fill = np.zeros((), dtype)[()]
        assert stored_frames(array, store) == frames_in_hdf5(codec, values, (16, 32), fill)


def test_a_compressor_of_complex_numbers_survives_its_configuration() -> None:
    values = np.array([1 + 2j, -9 - 9j, 3], "c8")
    made = Compressor(PFPL(absolute=1), fill_value=-9 - 9j, dtype="<c8", chunks=(3,))
    config = json.loads(json.dumps(made.get_config()))
    again = numcodecs.get_codec(config)
    assert again.get_config() == made.get_config()
    words = h5lossy._frames.complete_filter_options(
        PFPL(absolute=1), values.dtype, (3,), np.complex64(-9 - 9j)
    )
    for compressor in (again, Compressor.from_config({"cd_values": words})):
        back = compressor.decode(compressor.encode(values))
        assert (back.dtype, back[1]) == (values.dtype, -9 - 9j)
    with pytest.raises(h5lossy.InvalidArgumentError, match="equal real and imaginary parts"):
        Compressor(PFPL(absolute=1), fill_value=1j, dtype="<c8", chunks=(3,))
    with pytest.raises(h5lossy.InvalidArgumentError, match="one real number"):
        Compressor(PFPL(lossless=True), fill_value=1j, dtype="<f4", chunks=(3,))


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_lossless_arrays_have_any_fill_value(zarr_format: int) -> None:
    values = np.array([[1 + 2j, 3 + 4j, np.inf]], "c8")
    for fill in (3 + 4j, complex(np.inf, 0), 1.5):
        codec = PFPL(lossless=True)
        array, _ = new_array(codec, values, (1, 2), zarr_format=zarr_format, fill_value=fill)
        assert_same_bits(np.asarray(array[...]), values)
        with pytest.raises(h5lossy.InvalidArgumentError, match="equal real and imaginary parts"):
            new_array(PFPL(absolute=1), values, (1, 2), zarr_format=zarr_format, fill_value=fill)


@pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr")
def test_a_filter_that_changes_the_type_unsaid_is_refused() -> None:
    array = zarr.create_array(
        {},
        shape=(4,),
        dtype="f4",
        filters=zarr.codecs.numcodecs.BitRound(keepbits=3),
        serializer=Serializer(PFPL(lossless=True)),
        compressors=None,
    )
    with pytest.raises(h5lossy.UnsupportedError, match="turned float32 into int32"):
        array[...] = np.arange(4, dtype="f4")


def test_a_fill_value_that_the_type_lacks_is_refused() -> None:
    with pytest.raises(h5lossy.InvalidArgumentError, match="fill_value must be a float32 value"):
        Compressor(PFPL(absolute=1), fill_value=1e300).encode(np.ones(4, np.float32))


def test_memory_in_fortran_order_is_encoded_as_it_is() -> None:
    values = np.asfortranarray(field((40, 30)))
    array, store = new_array(PFPL(absolute=1e-3), values, (40, 30), zarr_format=2, order="F")

    assert_kept(values, array[...], {"absolute": 1e-3})
    [frame] = stored_frames(array, store).values()
    assert frame == h5lossy.encode(values.T, PFPL(absolute=1e-3))


def test_strided_memory_is_encoded_in_c_order() -> None:
    values = field((40, 30))[::2, ::3]

    frame = Compressor(PFPL(absolute=1e-3)).encode(values)

    assert frame == h5lossy.encode(values, PFPL(absolute=1e-3))


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_xarray_writes_with_it(zarr_format: int, tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray", reason="xarray is not installed")
    values = field((30, 40))
    values[3:5, 7:9] = np.nan
    dataset = xarray.Dataset(
        {"t": (("y", "x"), values)}, {"x": np.arange(40.0), "y": np.arange(30)}
    )
    codec = PFPL(absolute=1e-3)
    ours: dict[str, Any] = {"serializer": Serializer(codec), "compressors": None}
    if zarr_format == 2:
        ours = {"compressors": Compressor(codec)}

    path = tmp_path / "a.zarr"
    encoding = {"t": {"chunks": (16, 16)} | ours}
    dataset.to_zarr(path, zarr_format=zarr_format, encoding=encoding, consolidated=False)

    with xarray.open_zarr(path, consolidated=False, chunks=None) as opened:
        assert_kept(values, opened["t"].values, {"absolute": 1e-3})
        assert_same_bits(opened["x"].values, np.arange(40.0))
    chunk = path / "t" / ("c/0/0" if zarr_format == 3 else "0.0")
    assert h5lossy.inspect(chunk.read_bytes()).count == 256


# ------------------------------------------------------------------------------------------------
# What is read
# ------------------------------------------------------------------------------------------------

SELECTIONS: dict[str, Callable[[Any], Any]] = {
    "value": lambda a: a[17, 3, 40],
    "row": lambda a: a[17, 3],
    "plane": lambda a: a[:, 5, :],
    "box": lambda a: a[5:9, 2:7, 33:35],
    "steps": lambda a: a[1:30:7, ::3, 4:64:5],
    "one": lambda a: a[4:5, 4:5, 4:5],
    "none": lambda a: a[4:4],
    "all": lambda a: a[...],
}

#: From an array of Zarr, and the same from one of NumPy.
FANCY_SELECTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "orthogonal": (
        lambda a: a.oindex[[1, 4, 29], 2:9, [0, 5, 63]],
        lambda x: x[np.ix_([1, 4, 29], range(2, 9), [0, 5, 63])],
    ),
    "mask": (
        lambda a: a.oindex[np.arange(30) % 7 == 3, :, 8],
        lambda x: x[np.arange(30) % 7 == 3, :, 8],
    ),
    "points": (
        lambda a: a.vindex[[1, 29, 4, 4], [2, 9, 9, 2], [63, 0, 1, 2]],
        lambda x: x[[1, 29, 4, 4], [2, 9, 9, 2], [63, 0, 1, 2]],
    ),
}


@pytest.mark.parametrize("shards", [None, (16, 10, 64)], ids=["chunks", "shards"])
def test_all_selections_agree_with_the_whole(
    codec: type[Codec], shards: tuple[int, ...] | None
) -> None:
    array, _ = new_array(codec(absolute=1e-2), field((30, 10, 64)), (8, 5, 32), shards=shards)
    whole = np.asarray(array[...])
    assert_kept(field((30, 10, 64)), whole, {"absolute": 1e-2})

    selections = {name: (select, select) for name, select in SELECTIONS.items()}
    for name, (select, select_in_numpy) in (selections | FANCY_SELECTIONS).items():
        expected, found = np.asarray(select_in_numpy(whole)), np.asarray(select(array))
        assert found.shape == expected.shape, name
        assert_same_bits(found, expected)


def test_all_selections_agree_for_big_endian_chunks() -> None:
    array, _ = new_array(PFPL(absolute=1e-2), field((30, 10, 64), ">f8"), (8, 5, 32))
    whole = np.asarray(array[...])

    for select in SELECTIONS.values():
        assert_same_bits(np.asarray(select(array)), np.asarray(select(whole)))


def test_of_a_part_only_its_tiles_are_decoded() -> None:
    values = field((64, 1024), seed=3)  # 4 KiB a row: several tiles
    array, store = new_array(PFPL(absolute=1e-3, checksum=False), values, values.shape)
    whole = np.asarray(array[...])
    [(name, buffer)] = [(name, b) for name, b in store.items() if name.startswith("c/")]
    damaged = bytearray(buffer.to_bytes())
    damaged[-3000:] = b"\xff" * 3000
    store[name] = default_buffer_prototype().buffer.from_bytes(bytes(damaged))

    assert_same_bits(np.asarray(array[:4]), whole[:4])
    assert_same_bits(np.asarray(array[1:20:3, 5]), whole[1:20:3, 5])
    with pytest.raises(h5lossy.CorruptFrameError):
        array[...]


def test_a_checksum_is_checked_also_where_a_part_is_read() -> None:
    array, store = new_array(PFPL(absolute=1e-3), field((64, 1024)), (64, 1024))
    [(name, buffer)] = [(name, b) for name, b in store.items() if name.startswith("c/")]
    damaged = bytearray(buffer.to_bytes())
    damaged[-3000] ^= 1
    store[name] = default_buffer_prototype().buffer.from_bytes(bytes(damaged))

    with pytest.raises(h5lossy.CorruptFrameError, match=r"c/0/0: .*checksum"):
        array[0, 0]


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_many_threads_read_and_write_the_same_as_one(zarr_format: int) -> None:
    values = field((64, 64, 16))
    codec = Auto(absolute=1e-3, prefer="size")
    array, _ = new_array(codec, values, (8, 16, 16), zarr_format=zarr_format)
    whole = np.asarray(array[...])

    def reread(i: int) -> np.ndarray[Any, Any]:
        if i % 4 == 0:  # one chunk a writer: the same values again, which change nothing
            row = i // 4 * 8
            array[row : row + 8] = whole[row : row + 8]
        return np.asarray(array[i : i + 20, 3:30, ::2])

    with ThreadPoolExecutor(8) as pool:
        for i, part in enumerate(pool.map(reread, range(32))):
            assert_same_bits(part, np.ascontiguousarray(whole[i : i + 20, 3:30, ::2]))
    assert_same_bits(np.asarray(array[...]), whole)


def test_compressors_may_follow(codec: type[Codec]) -> None:
    values = field((40, 50))
    array, store = new_array(codec(absolute=1e-2), values, (16, 32))
    again, stored_again = new_array(
        codec(absolute=1e-2), values, (16, 32), compressors=zarr.codecs.GzipCodec()
    )

    assert_same_bits(np.asarray(again[3:30, 7]), np.asarray(array[3:30, 7]))
    for name in (name for name in store if name.startswith("c/")):
        packed, frame = stored_again[name].to_bytes(), store[name].to_bytes()
        assert gzip.decompress(packed) == frame


def test_a_shard_holds_frames_and_its_chunks_are_written_one_by_one() -> None:
    values = field((60, 100))
    array, store = new_array(PFPL(absolute=1e-3), values, (8, 25), shards=(32, 50))
    shards = [buffer.to_bytes() for name, buffer in store.items() if name.startswith("c/")]

    assert len(shards) == 4
    expected = frames_in_hdf5(PFPL(absolute=1e-3), values, (8, 25), 0)
    assert all(any(frame in shard for shard in shards) for frame in expected.values())
    before = np.asarray(array[...])
    array[30, 60] = 1
    after = before.copy()
    after[30, 60] = 1
    np.testing.assert_allclose(array[30, 60], 1, atol=1e-3)
    after[30, 60] = array[30, 60]
    assert_same_bits(np.asarray(array[...]), after)


def test_it_decodes_into_a_buffer_that_is_given() -> None:
    values = field((6, 7), ">f8")
    compressor = Compressor(PFPL(absolute=1e-3))
    frame = compressor.encode(values)
    out = np.empty((6, 7), ">f8")

    assert compressor.decode(frame, out) is out
    assert_same_bits(out, compressor.decode(bytearray(frame)))
    with pytest.raises(h5lossy.CorruptFrameError, match=r"holds 336 bytes of values, .* has 8"):
        compressor.decode(frame, np.empty(1))


# ------------------------------------------------------------------------------------------------
# Configurations
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("kind", BOUNDS)
def test_a_configuration_comes_back_from_json(name: str, kind: str) -> None:
    for checksum in (True, False):
        codec = SETTINGS[name](**BOUNDS[kind], checksum=checksum)

        serializer = Serializer(codec)
        again = Serializer.from_dict(json.loads(json.dumps(serializer.to_dict())))
        assert (again, again.codec) == (serializer, codec)

        for fill_value in (None, -999.5):
            chunk = {"dtype": ">f8", "chunks": [3, 4]} if checksum else {}
            compressor = Compressor(codec, fill_value=fill_value, **chunk)
            config = json.loads(json.dumps(compressor.get_config()))
            assert numcodecs.get_codec(config) == compressor
            assert numcodecs.get_codec(config).get_config() == config
            reader = FrameReader.from_dict(
                {"name": FrameReader.codec_name, "configuration": config}
            )
            assert reader.codec_config == config


def test_words_are_as_documented() -> None:
    array, store = new_array(Interp(absolute=1e-3, axes=(-2, -1)), field((4, 4)), (4, 4))

    metadata = json.loads(store["zarr.json"].to_bytes())
    assert metadata["codecs"] == [
        {
            "name": "h5lossy",
            "configuration": {"codec": "Interp", "absolute": 0.001, "axes": [-2, -1]},
        }
    ]
    assert Serializer(codec="interp", absolute=1e-3, axes=[-1, -2]) in array.metadata.codecs


@pytest.mark.parametrize("fill_value", [None, -999, math.nan])
def test_the_cd_values_of_a_dataset_make_the_codec(fill_value: float | None, dtype: Any) -> None:
    values = field((8, 9), dtype)
    for make in SETTINGS.values():
        codec = make(absolute=1e-3)
        with h5py.File("x.h5", "w", driver="core", backing_store=False) as file:
            dataset = file.create_dataset(
                "x", data=values, chunks=(8, 9), compression=codec, fillvalue=fill_value
            )
            words, [frame] = cd_values(dataset), frames(dataset).values()

        made = codec_from_filter(h5lossy.FILTER_ID, words)

        chunk = {"dtype": values.dtype, "chunks": values.shape}
        assert made == Compressor(codec, fill_value=fill_value, **chunk)
        assert made == numcodecs.get_codec({"id": "h5lossy", "cd_values": list(words)})
        assert made.encode(values) == frame


VALUES = np.linspace(270, 310, 256).astype("<f4").reshape(16, 16)


@pytest.mark.parametrize(
    "other",
    [
        VALUES.astype(">f4"),
        VALUES[:8].astype("<f8"),
        VALUES[:8],
        np.zeros((1 << 14, 1 << 10), "<f4"),
    ],
    ids=["byte order", "type", "too small", "too large"],
)
def test_a_frame_of_another_chunk_is_refused(other: np.ndarray[Any, Any]) -> None:
    codec = PFPL(absolute=1e-3)
    frame = h5lossy.encode(other, codec)
    with h5py.File("x.h5", "w", driver="core", backing_store=False) as file:
        dataset = file.create_dataset("x", data=VALUES, chunks=(16, 16), compression=codec)
        config = {"cd_values": list(cd_values(dataset))}
    of_array = Compressor(codec, dtype="f4", chunks=(16, 16))
    array, store = new_array(codec, VALUES, (16, 16))
    array2 = zarr.create_array(
        store, name="v2", shape=(16, 16), chunks=(16, 16), dtype="f4", zarr_format=2,
        fill_value=0, compressors=of_array,
    )  # fmt: skip
    array2[...] = VALUES
    assert_kept(VALUES, array2[...], bound_of(codec))

    buffer = default_buffer_prototype().buffer.from_bytes(frame)
    spec = ArraySpec(
        (16, 16), array.metadata.data_type, 0, array.config, default_buffer_prototype()
    )
    tracemalloc.start()
    for made in (of_array, numcodecs.get_codec({"id": "h5lossy"} | config)):
        with pytest.raises(h5lossy.CorruptFrameError, match="the frame holds"):
            made.decode(frame)
    with pytest.raises(h5lossy.CorruptFrameError, match="the frame holds"):
        sync(FrameReader(**config).decode([(buffer, spec)]))
    store["v2/0.0"] = buffer
    with pytest.raises(h5lossy.CorruptFrameError, match="the frame holds"):
        array2[...]
    if other.shape != VALUES.shape:  # values of a byte order are swapped in format 3
        store["c/0/0"] = buffer
        with pytest.raises(h5lossy.CorruptFrameError, match="the frame holds"):
            array[...]
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_other_chunks_are_not_encoded() -> None:
    compressor = Compressor(PFPL(absolute=1e-3), dtype="<f4", chunks=(16, 16))
    for other in (VALUES.astype("<f8"), VALUES.astype(">f4"), VALUES[1:]):
        with pytest.raises(h5lossy.InvalidArgumentError, match="the chunk holds"):
            compressor.encode(other)
    with pytest.raises(h5lossy.InvalidArgumentError, match="both of dtype and chunks"):
        Compressor(PFPL(absolute=1e-3), dtype="<f4")
    with pytest.raises(h5lossy.InvalidArgumentError, match=r"extents such as \(64, 64\), got \(0,"):
        Compressor(PFPL(absolute=1e-3), dtype="<f4", chunks=(0, 2))
    with pytest.raises(h5lossy.UnsupportedError, match="not bool"):
        Compressor(PFPL(absolute=1e-3), dtype="?", chunks=(16, 16))


@pytest.mark.parametrize(
    ("config", "error", "message"),
    [
        ({}, ValueError, r'a configuration is like \{"codec": "PFPL"'),
        ({"absolute": 1.0}, ValueError, "a configuration is like"),
        ({"codec": "zlib", "level": 1}, ValueError, r"name of one \(PFPL, .*got 'zlib'"),
        ({"codec": 1, "absolute": 1.0}, ValueError, "got 1"),
        ({"codec": "PFPL"}, TypeError, "exactly one bound .* got none"),
        ({"codec": "PFPL", "absolute": 1.0, "lossless": True}, TypeError, "exactly one bound"),
        ({"codec": "PFPL", "absolute": -1.0}, h5lossy.BoundError, "greater than 0"),
        ({"codec": "PFPL", "absolute": "1"}, TypeError, "absolute must be a number"),
        ({"codec": "PFPL", "bound": 1.0}, ValueError, "no setting 'bound'; it takes absolute"),
        ({"codec": "PFPL", "relative": 1.0}, ValueError, "relative"),
        ({"codec": "PFPL", "significant_digits": 0}, h5lossy.BoundError, "from 1 to 15, got 0"),
        ({"codec": "Interp", "absolute": 1.0, "axes": [7]}, ValueError, "axes must be"),
        ({"codec": "CuSZp2", "absolute": 1.0, "mode": "x"}, ValueError, "mode must be"),
        ({"codec": "PFPL", "absolute": 1.0, "fill_value": "x"}, ValueError, "one real number"),
        ({"cd_values": [1, 0, 0, 0], "codec": "PFPL"}, ValueError, "say everything"),
        ({"cd_values": [99, 3, 0, 0]}, NotImplementedError, "99"),
        ({"cd_values": [1, 0]}, ValueError, "cd_values"),
        ({"cd_values": [1, 0.5, 0, 0]}, ValueError, r"whole numbers .* got \[1, 0.5, 0, 0\]"),
        ({"cd_values": "1,0,0,0"}, ValueError, "whole numbers .* got '1,0,0,0'"),
    ],
)
def test_a_bad_configuration_is_refused(
    config: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        numcodecs.get_codec({"id": "h5lossy"} | config)
    if not {"cd_values", "fill_value"} & set(config):
        message = "the configuration of the codec h5lossy" if "like" in message else message
        with pytest.raises(error, match=message):
            Serializer.from_dict({"name": "h5lossy", "configuration": config})


@pytest.mark.parametrize("data", ["h5lossy", {"name": "h5lossy"}, {"configuration": [1]}])
def test_a_name_alone_is_refused(data: Any) -> None:
    for cls in (Serializer, FrameReader):
        with pytest.raises(h5lossy.InvalidArgumentError, match="the configuration of the codec"):
            cls.from_dict(data)


@pytest.mark.parametrize(
    "settings", [{"significant_digits": 3}, {"modulus": 1}, {"absolute": 1, "keep": "sign"}]
)
def test_all_arguments_of_a_codec_may_be_given_with_its_name(settings: dict[str, Any]) -> None:
    by_name = Serializer("PFPL", **settings)
    assert by_name.codec == PFPL(**settings)
    assert Serializer.from_dict(by_name.to_dict()) == by_name


def test_a_codec_with_settings_takes_no_others() -> None:
    with pytest.raises(TypeError, match=r"PFPL\(absolute=1.0\) has its settings, but absolute"):
        Serializer(PFPL(absolute=1), absolute=2)
    with pytest.raises(h5lossy.InvalidArgumentError, match="must be 46412 or 'h5lossy', got 32001"):
        codec_from_filter(32001, (1, 0, 0, 0))


@pytest.mark.parametrize("dtype", ["i1", "<u2", ">i4", "<u8"])
def test_the_filters_numbers_say_what_integers_a_chunk_has(dtype: str) -> None:
    fill = np.iinfo(dtype).max
    with h5py.File("a.h5", "w", driver="core", backing_store=False) as f:
        codec = h5lossy.PFPL(absolute=3)
        dataset = f.create_dataset(
            "x", (4, 50), dtype, chunks=(4, 50), compression=codec, fillvalue=fill
        )
        dataset[:2] = 40
        _, _, words, _ = dataset.id.get_create_plist().get_filter(0)
        _, frame = dataset.id.read_direct_chunk((0, 0))
        values = dataset[...]
    found = codec_from_filter(h5lossy.FILTER_ID, [word & 0xFFFFFFFF for word in words])
    assert found == Compressor(codec, dtype=dtype, chunks=(4, 50), fill_value=int(fill))
    assert numcodecs.get_codec(found.get_config()) == found
    np.testing.assert_array_equal(found.decode(frame).reshape(4, 50), values)
    assert found.encode(values) == frame


def test_it_survives_pickling() -> None:
    array, _ = new_array(PFPL(absolute=1e-3), field((4, 4)), (4, 4))
    reader = FrameReader(codec="PFPL", absolute=1e-3)

    assert pickle.loads(pickle.dumps(array.metadata)) == array.metadata
    assert pickle.loads(pickle.dumps(reader)) == reader
    assert repr(pickle.loads(pickle.dumps(reader))) == "FrameReader(codec='PFPL', absolute=0.001)"
    compressor = Compressor(PFPL(absolute=1e-3), fill_value=-1)
    assert pickle.loads(pickle.dumps(compressor)) == compressor


@pytest.mark.parametrize("fill_value", [0, math.nan, math.inf, None])
def test_fill_values_that_are_kept_anyway_are_not_written_down(fill_value: float | None) -> None:
    assert "fill_value" not in Compressor("PFPL", absolute=1, fill_value=fill_value).get_config()


def test_every_codec_has_a_name_for_configurations() -> None:
    for cls in CODECS.values():
        assert Serializer(cls.__name__, lossless=True).codec == cls(lossless=True)
        assert Serializer(cls.codec_name, lossless=True).codec == cls(lossless=True)


def test_zarr_and_numcodecs_find_the_codecs_by_themselves() -> None:
    if not importlib.metadata.packages_distributions().get("h5lossy"):
        pytest.skip("h5lossy runs from its source tree, and is not installed")
    code = """
import sys, numcodecs, zarr.registry
print(numcodecs.get_codec({"id": "h5lossy", "codec": "PFPL", "absolute": 1.0}))
assert zarr.registry.get_codec_class("h5lossy").__name__ == "Serializer"
assert zarr.registry.get_codec_class("numcodecs.h5lossy").__name__ == "FrameReader"
"""
    said = run_python(code, env=environment())

    assert said.stdout == "Compressor(codec='PFPL', absolute=1.0)\n"


# ------------------------------------------------------------------------------------------------
# Hostile bytes
# ------------------------------------------------------------------------------------------------


def read_with(frame: bytes, way: str) -> Any:
    """Read a chunk of 32 x 32 float32 that consists of these bytes."""
    codec = PFPL(absolute=1e-3)
    options: dict[str, Any] = {"zarr_format": 2 if way == "format 2" else 3}
    values = field((32, 32))
    array, store = new_array(codec, values, (32, 32), **options)
    if way == "bytes":
        store.clear()
        array = zarr.create_array(
            store,
            shape=(32, 32),
            chunks=(32, 32),
            dtype="f4",
            compressors=FrameReader(codec="PFPL", absolute=1e-3),
        )
    name = "0.0" if way == "format 2" else "c/0/0"
    store[name] = default_buffer_prototype().buffer.from_bytes(frame)
    return array[3, 4:9] if way == "part" else array[...]


READING = ["whole", "part", "bytes", "format 2"]


@pytest.mark.parametrize("way", READING)
def test_hostile_bytes_are_errors(way: str) -> None:
    good = h5lossy.encode(field((32, 32)), PFPL(absolute=1e-3))
    assert np.abs(read_with(good, way)).max() > 0
    rng = np.random.default_rng(1)
    flips = []
    for place in rng.integers(0, len(good), 40):
        flipped = bytearray(good)
        flipped[place] ^= 1 << int(rng.integers(0, 8))
        flips.append(bytes(flipped))
    lies = [good[:n] for n in (0, 1, 3, 39, 40, 60, len(good) - 1)]
    noise = [rng.bytes(n) for n in (1, 40, 500)] + [b"H5LY" + rng.bytes(200)]

    for frame in [*flips, *lies, *noise, good + b"x"]:
        with pytest.raises((h5lossy.CorruptFrameError, h5lossy.UnsupportedError)):
            read_with(frame, way)


@pytest.mark.parametrize("way", READING)
@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros((32, 31), "f4"), "3968"),
        (np.zeros(2**26, "f4"), "268435456"),  # a small frame that means much memory
        (np.zeros((16, 32), "f8"), "float64"),
    ],
    ids=["short", "long", "type"],
)
def test_a_frame_of_another_chunk_is_an_error(
    values: np.ndarray[Any, Any], message: str, way: str
) -> None:
    frame = h5lossy.encode(values, PFPL(absolute=1e-3))
    if way == "format 2":  # the codec is not told what to expect, and Zarr finds the difference
        if values.dtype == "f4":
            with pytest.raises(ValueError, match="reshape"):
                read_with(frame, way)
        return
    with pytest.raises(h5lossy.CorruptFrameError, match=message):
        read_with(frame, way)


@pytest.mark.parametrize("way", READING)
def test_a_chunk_whose_type_was_not_told_is_read(way: str) -> None:
    values = field((32, 32))
    params = h5lossy._native.Params(bound_kind=3)

    frame = h5lossy._native.encode(params, values)

    expected = values[3, 4:9] if way == "part" else values
    assert_same_bits(np.asarray(read_with(frame, way)), np.ascontiguousarray(expected))


def test_bytes_are_only_read() -> None:
    array = zarr.create_array(
        {}, shape=(4,), dtype="f4", compressors=FrameReader(codec="PFPL", absolute=1.0)
    )
    with pytest.raises(h5lossy.UnsupportedError, match="only reads; to write, make an array with"):
        array[...] = 1


def test_a_chunk_that_no_frame_can_hold_is_refused() -> None:
    spec = zarr.core.array_spec.ArraySpec(
        (2**30,),
        zarr.dtype.parse_dtype("f4", zarr_format=3),
        np.float32(0),
        zarr.core.array_spec.ArrayConfig.from_dict({}),
        default_buffer_prototype(),
    )
    values = np.broadcast_to(np.float32(0), 2**30)
    buffer = spec.prototype.nd_buffer.from_numpy_array(values)

    with pytest.raises(h5lossy.InvalidArgumentError, match="less than 4 GiB"):
        sync(Serializer(PFPL(absolute=1))._encode_single(buffer, spec))


def test_the_class_for_climatebenchpress(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = types.ModuleType("climatebenchpress.compressor.compressors.abc")
    theirs.Compressor = type("Compressor", (), {})  # which may not be installed
    for name in itertools.accumulate(theirs.__name__.split("."), "{}.{}".format):
        monkeypatch.setitem(sys.modules, name, theirs)
    path = Path(__file__).parents[1] / "contrib/climatebenchpress.py"
    made = runpy.run_path(str(path))["H5lossy"]
    x = field((20, 30, 40))
    x.flat[::7] = np.nan
    for bound, make in ((1e-2, made.abs_bound_codec), (1e-3, made.rel_bound_codec)):
        codec = make(bound, dtype=x.dtype, data_abs_min=0.0)
        y = np.asarray(codec.decode(codec.encode(x), np.empty_like(x)))
        limit = bound if make is made.abs_bound_codec else bound * np.abs(x.astype(float))
        assert np.array_equal(np.isnan(x), np.isnan(y))
        assert np.all((np.abs(y.astype(float) - x) <= limit)[~np.isnan(x)])


def test_the_schema_for_the_registry_takes_what_is_stored() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    path = Path(__file__).parents[1] / "contrib" / "zarr-extension" / "schema.json"
    schema = json.loads(path.read_text("utf-8"))
    guarded = PFPL(absolute=1e-3, thresholds=(0, 1.5), valid_range=(-1, 300))
    for codec in (guarded, *(make(absolute=1e-3) for make in SETTINGS.values())):
        jsonschema.validate(Serializer(codec).to_dict(), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"name": "h5lossy", "configuration": {"codec": "PFPL"}}, schema)


def test_what_is_written_need_not_be_an_array_of_numpy(tmp_path: Path) -> None:
    netcdf = pytest.importorskip("netCDF4", reason="netCDF4 is not installed")
    with netcdf.Dataset(tmp_path / "a.nc", "w") as f:
        f.createDimension("x", 100)
        variable = f.createVariable("x", "f4", ("x",))
        variable[:] = np.arange(100)
        array = zarr.create_array(
            {}, shape=(100,), chunks=(100,), dtype="f4", serializer=Serializer(PFPL(absolute=0.1)),
            compressors=None, config={"write_empty_chunks": True},
        )  # fmt: skip
        array[...] = variable
    assert np.abs(array[...] - np.arange(100)).max() <= 0.1

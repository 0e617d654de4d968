# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The HDF5 filter, through h5py as users see it, and its C functions where h5py hides something.

Every file is closed and opened again before it is read, since HDF5's chunk cache holds values that
have not passed the filter.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import os
import platform
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest
from h5py import h5d, h5t, h5z

import h5lossy
from checks import assert_kept, assert_same_bits, bits_of, floats_of
from h5lossy import FILTER_ID, PFPL, Auto, CuSZp2
from hdf5_helpers import (
    BYTES_TYPE_CODE,
    FILL_NEVER,
    MAGIC,
    call_filter,
    cd_values,
    create,
    creation_list,
    edit_cd_values,
    environment,
    field,
    filter_class,
    filters,
    frames,
    leave_partial_chunks_unfiltered,
    padded,
    run_python,
    stored_chunks,
    with_plugin,
)
from matrix import BOUNDS, CODEC_NAMES, SETTINGS

if TYPE_CHECKING:
    from h5lossy._codecs import Codec

ABSOLUTE = PFPL(absolute=1e-3)

#: What h5py says: the message of HDF5, or, with HDF5 1.12, that of the filter.
FILTER_FAILS = "filter returned failure|h5lossy: "


def write(path: Path, data: np.ndarray[Any, Any], codec: Any, **options: Any) -> None:
    """Write one dataset, "x", in chunks that do not divide it unless told otherwise."""
    options.setdefault("chunks", tuple(max(1, n * 2 // 3) for n in data.shape))
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset(
            "x", data.shape, data.dtype, compression=codec, track_times=False, **options
        )
        if data.size:
            dataset[...] = data


def read(path: Path) -> np.ndarray[Any, Any]:
    with h5py.File(path) as file:
        return np.asarray(file["x"][...])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.h5"


# ------------------------------------------------------------------------------------------------
# Asking for it
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        {"compression": ABSOLUTE},
        {**ABSOLUTE},
        {"compression": FILTER_ID, "compression_opts": ABSOLUTE.filter_options},
        {"compression": FILTER_ID, "compression_opts": (1, 0, 3539053052, 1062232653)},
    ],
    ids=["class", "keywords", "number and options", "number and words"],
)
def test_every_spelling_makes_the_same_dataset(path: Path, arguments: dict[str, Any]) -> None:
    data = field((20, 30))

    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=data, chunks=(8, 16), **arguments)

    with h5py.File(path) as file:
        words = (1, 0, 3539053052, 1062232653, 0, 0x02000401, 8, 16, *[0] * 8)
        assert cd_values(file["x"]) == words
        assert len(frames(file["x"])) == 6
        assert_kept(data, file["x"][...], {"absolute": 1e-3})


def test_auto_picks_a_codec_for_each_chunk(path: Path) -> None:
    # One chunk of a plane, one of steps about a wave, one of noise that hardly exceeds the bound.
    plane = np.add.outer(np.arange(64), np.arange(64)).astype("f4") * 1000
    noise = np.random.default_rng(0).uniform(-0.01, 0.01, (64, 64)).astype("f4")
    data = np.concatenate([plane, field((64, 64)), noise])

    write(path, data, Auto(absolute=1e-3), chunks=(64, 64))

    with h5py.File(path) as file:
        assert cd_values(file["x"])[0] == 0
        stored = frames(file["x"])
        assert_kept(data, file["x"][...], {"absolute": 1e-3})
    infos = [h5lossy.inspect(frame) for frame in stored.values()]
    assert {info.codec for info in infos} <= set(CODEC_NAMES.values())
    assert len({(info.codec, info.mode) for info in infos}) > 1


@pytest.mark.parametrize(
    ("chunks", "dims"),
    [
        ((30,), ()),
        ((1, 1, 30), ()),
        ((10, 30), (1, 10, 30)),
        ((10, 1, 30), (1, 10, 30)),
        ((5, 10, 30), (5, 10, 30)),
        ((2, 5, 4, 6), (10, 4, 6)),
        ((2, 1, 5, 2, 4, 6), (20, 4, 6)),
    ],
    ids=str,
)
def test_blocks_have_the_dimensions_of_the_chunk(
    path: Path, chunks: tuple[int, ...], dims: tuple[int, ...]
) -> None:
    data = field(tuple(2 * n if n > 1 else 1 for n in chunks))
    for make in SETTINGS.values():
        codec = make(absolute=1e-2)

        write(path, data, codec, chunks=chunks)

        with h5py.File(path) as file:
            stored = frames(file["x"])
            assert_kept(data, file["x"][...], {"absolute": 1e-2})
        for place, frame in stored.items():
            part = data[tuple(slice(i, i + n) for i, n in zip(place, chunks, strict=True))]
            assert frame == h5lossy.encode(part, codec)
            info = h5lossy.inspect(frame)
            asked = codec.params().mode >> 4
            if info.codec == "cuszp2" and isinstance(codec, CuSZp2):
                extents = sum(n > 1 for n in chunks)
                assert info.settings["dimensions"] == min(max(1, asked), max(1, extents))
                assert info.dims == (dims if asked > 1 else ())


def test_two_words_are_enough_for_lossless(path: Path) -> None:
    data = field((20, 30))

    write(path, data, FILTER_ID, compression_opts=(1, 3))

    assert_same_bits(read(path), data)


def test_the_filter_is_stored_as_mandatory_although_h5py_says_optional(path: Path) -> None:
    write(path, field((20, 30)), ABSOLUTE)

    with h5py.File(path) as file:
        [(number, flags, _, _)] = filters(file["x"])
    assert (number, flags) == (FILTER_ID, h5z.FLAG_MANDATORY)


def test_the_name_in_the_file_says_what_to_install(path: Path) -> None:
    write(path, field((20, 30)), ABSOLUTE)

    with h5py.File(path) as file:
        [(_, _, _, name)] = filters(file["x"])
    assert name.startswith(b"h5lossy ")
    assert b"pip install h5lossy" in name
    assert len(name) <= 256  # what h5dump and h5ls have room for


def test_chunks_hold_frames_that_are_smaller_than_the_data(path: Path) -> None:
    data = field((64, 64))

    write(path, data, ABSOLUTE, chunks=(32, 32))

    with h5py.File(path) as file:
        stored = frames(file["x"])
    assert len(stored) == 4
    assert all(frame.startswith(MAGIC) for frame in stored.values())
    assert sum(map(len, stored.values())) < data.nbytes * 2 / 3


# ------------------------------------------------------------------------------------------------
# The promise, through a file
# ------------------------------------------------------------------------------------------------


def test_the_bound_holds_in_every_chunk(
    path: Path, codec: type[Codec], bound: dict[str, Any], dtype: np.dtype[Any]
) -> None:
    data = field((50, 70), dtype)

    write(path, data, codec(**bound), chunks=(32, 32))

    decoded = read(path)
    assert decoded.dtype == dtype
    assert_kept(data, decoded, bound)


def test_nan_and_infinity_come_back_bit_for_bit(
    path: Path, codec: type[Codec], bound: dict[str, Any], dtype: np.dtype[Any]
) -> None:
    data = field((50, 70), dtype)
    exponent = bits_of(np.array([np.inf], dtype))[0]
    sign = bits_of(np.array([-0.0], dtype))[0]
    quiet = bits_of(np.array([np.nan], dtype))[0]
    one, some = quiet.dtype.type(1), quiet.dtype.type(12345)
    special = [exponent, exponent | sign, quiet, quiet | sign, quiet | some, quiet | sign | one]
    data.flat[::11] = floats_of(np.resize(special, data.flat[::11].size), dtype)

    write(path, data, codec(**bound), chunks=(32, 32))

    assert_kept(data, read(path), bound)


@pytest.mark.parametrize("rank", range(1, 33))
def test_every_rank_that_hdf5_has_works(path: Path, rank: int) -> None:
    # Three extents that the chunks do not divide, among extents of 1, spread over the rank.
    shape, chunks = [1] * rank, [1] * rank
    for axis, extent in zip(sorted({0, rank // 2, rank - 1}), (5, 7, 9), strict=False):
        shape[axis], chunks[axis] = extent, 4
    data = field(tuple(shape))

    write(path, data, ABSOLUTE, chunks=tuple(chunks))

    assert_kept(data, read(path), {"absolute": 1e-3})
    with h5py.File(path) as file:
        words = cd_values(file["x"])
        assert words[5] >> 24 == np.count_nonzero(np.array(chunks) > 1)


@pytest.mark.parametrize("rank", [8, 9, 12, 32])
def test_leading_extents_of_more_than_8_become_one(path: Path, rank: int) -> None:
    # Not more than 12 of them above 1, so that the chunk stays small.
    chunks = (1,) * (rank - 12) + tuple(2 + i % 2 for i in range(min(rank, 12)))
    data = field(chunks)

    write(path, data, ABSOLUTE, chunks=chunks)

    with h5py.File(path) as file:
        words = cd_values(file["x"])
    extents = [n for n in chunks if n > 1]
    assert words[5] >> 24 == 8
    assert words[6:14] == (math.prod(extents[:-7]), *extents[-7:])
    assert_kept(data, read(path), {"absolute": 1e-3})


@pytest.mark.parametrize(
    ("shape", "chunks"),
    [
        ((7, 1, 9), (4, 1, 4)),
        ((1, 1, 1), (1, 1, 1)),
        ((1, 40), (1, 16)),
        ((40, 1), (16, 1)),
        ((5,), (1,)),
        ((3, 4), (1, 1)),
        ((5, 5), (5, 5)),
        ((16384,), (4097,)),
        ((5, 6000), (5, 6000)),
    ],
)
def test_any_shape_of_chunks_works(
    path: Path,
    codec: type[Codec],
    shape: tuple[int, ...],
    chunks: tuple[int, ...],
) -> None:
    data = field(shape)
    for bound in BOUNDS.values():
        write(path, data, codec(**bound), chunks=chunks)

        assert_kept(data, read(path), bound)


def test_a_chunk_may_reach_beyond_a_resizable_dataset(path: Path) -> None:
    data = field((3, 5))

    write(path, data, ABSOLUTE, chunks=(64, 64), maxshape=(None, None), fillvalue=-999.0)

    assert_kept(data, read(path), {"absolute": 1e-3}, np.float32(-999))


@pytest.mark.parametrize("shape", [(0,), (0, 5), (3, 0, 2)])
def test_an_empty_dataset_can_be_made_and_read(path: Path, shape: tuple[int, ...]) -> None:
    maxshape = (None,) * len(shape)

    write(path, np.zeros(shape, "f4"), ABSOLUTE, chunks=(2,) * len(shape), maxshape=maxshape)

    decoded = read(path)
    assert (decoded.shape, decoded.dtype) == (shape, np.float32)


@pytest.mark.parametrize("value", [0.0, -0.0, 273.15, np.nan, np.inf, 1e-42])
def test_a_constant_field_comes_back_exactly_where_the_range_is_0(
    path: Path, value: float, dtype: np.dtype[Any]
) -> None:
    data = np.full((40, 40), value, dtype)

    write(path, data, PFPL(range_relative=1e-3), chunks=(16, 16))

    decoded = read(path)
    assert_kept(data, decoded, {"range_relative": 1e-3})
    assert_same_bits(decoded, data)


def test_incompressible_data_takes_40_bytes_more_a_chunk(path: Path) -> None:
    rng = np.random.default_rng(0)
    data = rng.integers(0, 2**32, (64, 64), np.uint32).view(np.float32)

    write(path, data, PFPL(lossless=True), chunks=(64, 64))

    with h5py.File(path) as file:
        [frame] = frames(file["x"]).values()
    assert len(frame) == data.nbytes + 40
    assert_same_bits(read(path), data)


def test_conversion_by_hdf5_happens_in_front_of_the_filter(path: Path) -> None:
    # The file has big-endian float32, memory has little-endian float64, for writing and reading.
    data = field((30, 30), "<f8")

    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("x", data.shape, ">f4", chunks=(16, 16), compression=ABSOLUTE)
        dataset[...] = data

    with h5py.File(path) as file:
        decoded = file["x"].astype("<f8")[...]
    assert_kept(data.astype("f4"), decoded.astype("f4"), {"absolute": 1e-3})


def test_reading_a_part_gives_the_same_values_as_reading_all(path: Path) -> None:
    data = field((50, 70))
    write(path, data, ABSOLUTE, chunks=(32, 32))

    with h5py.File(path) as file:
        part = file["x"][30:34, 60:]

    assert_same_bits(part, read(path)[30:34, 60:])


# ------------------------------------------------------------------------------------------------
# Writing again
# ------------------------------------------------------------------------------------------------

#: The kinds whose stored bound does not depend on the chunk's values.
STABLE = {
    "absolute": {"absolute": 1e-2},
    "pointwise_relative": {"pointwise_relative": 1e-4},
    "lossless": {"lossless": True},
}


@pytest.mark.parametrize("fill", [None, -999.0], ids=["no fill value", "fill value"])
@pytest.mark.parametrize("stable_bound", STABLE.values(), ids=STABLE)
def test_appending_row_by_row_keeps_the_bound_and_the_rows_before(
    path: Path,
    codec: type[Codec],
    stable_bound: dict[str, Any],
    dtype: np.dtype[Any],
    fill: float | None,
) -> None:
    # Each row goes into a chunk that holds decoded rows already.
    data = field((10, 40), dtype)
    with h5py.File(path, "w") as file:
        file.create_dataset(
            "x",
            (0, 40),
            dtype,
            maxshape=(None, 40),
            chunks=(6, 16),
            fillvalue=fill,
            compression=codec(**stable_bound),
        )

    first = None
    for row in range(len(data)):
        with h5py.File(path, "r+") as file:
            file["x"].resize(row + 1, axis=0)
            file["x"][row] = data[row]
        first = read(path)[0] if first is None else first
        assert_same_bits(read(path)[0], first)

    assert_kept(data, read(path), stable_bound, None if fill is None else dtype.type(fill))


@pytest.mark.parametrize("stable_bound", STABLE.values(), ids=STABLE)
def test_changing_a_part_leaves_the_rest_of_the_chunk_alone(
    path: Path, codec: type[Codec], stable_bound: dict[str, Any], dtype: np.dtype[Any]
) -> None:
    data = field((50, 50), dtype)
    write(path, data, codec(**stable_bound), chunks=(32, 32), fillvalue=-999.0)
    before = read(path)
    data[10:40, 20] = -5.0

    with h5py.File(path, "r+") as file:
        file["x"][10:40, 20] = data[10:40, 20]

    after = read(path)
    untouched = np.ones(data.shape, bool)
    untouched[10:40, 20] = False
    assert_same_bits(after[untouched], before[untouched])
    assert_kept(data, after, stable_bound, dtype.type(-999))


@pytest.mark.parametrize("stable_bound", STABLE.values(), ids=STABLE)
def test_writing_what_was_read_gives_the_same_values(
    path: Path, codec: type[Codec], stable_bound: dict[str, Any], dtype: np.dtype[Any]
) -> None:
    write(path, field((50, 50), dtype), codec(**stable_bound), chunks=(32, 32))
    once = read(path)

    with h5py.File(path, "r+") as file:
        file["x"][...] = once

    assert_same_bits(read(path), once)


@pytest.mark.parametrize("stable_bound", STABLE.values(), ids=STABLE)
def test_the_bound_survives_writing_values_one_by_one_without_a_cache(
    path: Path, codec: type[Codec], stable_bound: dict[str, Any], dtype: np.dtype[Any]
) -> None:
    # Each write decodes a chunk and encodes it again.
    data = field((12, 12), dtype)
    with h5py.File(path, "w", rdcc_nbytes=0) as file:
        dataset = file.create_dataset(
            "x", data.shape, dtype, chunks=(8, 8), compression=codec(**stable_bound)
        )
        for i in np.random.default_rng(0).permutation(data.size):
            at = np.unravel_index(i, data.shape)
            dataset[at] = data[at]

    assert_kept(data, read(path), stable_bound)


def test_a_reader_sees_what_a_writer_appends(path: Path) -> None:
    data = field((12, 40))
    with h5py.File(path, "w", libver="latest") as writer:
        dataset = writer.create_dataset(
            "x", (0, 40), "f4", maxshape=(None, 40), chunks=(5, 16), compression=ABSOLUTE
        )
        writer.swmr_mode = True
        with h5py.File(path, "r", libver="latest", swmr=True) as reader:
            for row in range(len(data)):
                dataset.resize(row + 1, axis=0)
                dataset[row] = data[row]
                dataset.flush()
                reader["x"].refresh()
                assert_kept(data[: row + 1], reader["x"][...], {"absolute": 1e-3})


def test_a_resolved_range_relative_bound_survives_appending(path: Path) -> None:
    data = field((12, 40))
    codec = PFPL(range_relative=1e-3).resolve(data)
    with h5py.File(path, "w") as file:
        file.create_dataset(
            "x", (0, 40), "f4", maxshape=(None, 40), chunks=(5, 40), compression=codec
        )

    for row in range(len(data)):
        with h5py.File(path, "r+") as file:
            file["x"].resize(row + 1, axis=0)
            file["x"][row] = data[row]

    assert_kept(data, read(path), {"range_relative": 1e-3})


def test_shrinking_and_growing_again_shows_the_fill_value(path: Path) -> None:
    # HDF5 writes the fill value over what was cut off, inside chunks that it keeps.
    data = field((20, 20))
    options = {"chunks": (16, 16), "maxshape": (None, None), "fillvalue": -999.0}
    write(path, data, ABSOLUTE, **options)

    with h5py.File(path, "r+") as file:
        file["x"].resize((10, 10))
    with h5py.File(path, "r+") as file:
        file["x"].resize((20, 20))

    data[10:] = data[:, 10:] = -999
    assert_kept(data, read(path), {"absolute": 1e-3}, np.float32(-999))


def test_what_was_never_written_is_not_stored_and_reads_as_the_fill_value(path: Path) -> None:
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset(
            "x", (64, 64), "f4", chunks=(16, 16), fillvalue=-999.0, compression=ABSOLUTE
        )
        dataset[20:24, 20:24] = 7.5

    with h5py.File(path) as file:
        assert list(frames(file["x"])) == [(16, 16)]
        decoded = file["x"][...]
    expected = np.full((64, 64), -999, "f4")
    expected[20:24, 20:24] = 7.5
    assert_kept(expected, decoded, {"absolute": 1e-3}, np.float32(-999))


def test_chunks_that_hdf5_fills_itself_go_through_the_filter(path: Path) -> None:
    creation = creation_list((16, 16), ABSOLUTE.filter_options, fill=np.array(-999, "f4"))
    creation.set_alloc_time(h5d.ALLOC_TIME_EARLY)

    with h5py.File(path, "w") as file:
        create(file, "x", (40, 40), "f4", creation)

    with h5py.File(path) as file:
        assert len(frames(file["x"])) == 9
    assert_same_bits(read(path), np.full((40, 40), -999, "f4"))


# ------------------------------------------------------------------------------------------------
# Fill values and padding
# ------------------------------------------------------------------------------------------------

FILL_VALUES = {
    "minus 999": -999.0,
    "not in the middle of a bin": -998.7654,
    "zero": 0.0,
    "minus zero": -0.0,
    "1e20": 1e20,
    "netCDF's": 9.969209968386869e36,
    "infinity": np.inf,
    "minus infinity": -np.inf,
    "NaN": np.nan,
    "negative NaN": -np.nan,
    "smallest denormal": "denormal",
    "inside of the data": 300.0,
}


def fill_value(name: str, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return the fill value as an array of one element, which keeps its bits."""
    given = FILL_VALUES[name]
    if given == "denormal":
        return floats_of(np.array([1]), dtype)
    fill = np.array([given], dtype)
    if name == "negative NaN":
        fill = floats_of(bits_of(fill) | bits_of(np.array([-0.0], dtype)), dtype)
    return fill


@pytest.mark.parametrize("name", FILL_VALUES)
def test_fill_values_come_back_exactly_and_nothing_else_becomes_one(
    path: Path, name: str, dtype: np.dtype[Any]
) -> None:
    fill = fill_value(name, dtype)
    only_padding = field((50, 50), dtype)  # HDF5 fills the chunks at the edges up
    data = only_padding.copy()
    # Values beside the fill value are the ones that could turn into it.
    beside = [np.nextafter(fill, 1), np.nextafter(fill, -1), fill * 1.0001, fill + 2**-11]
    data[3, :4] = np.concatenate(beside)
    data[:, ::7] = fill
    for bound, values in itertools.product(BOUNDS.values(), (data, only_padding)):
        with h5py.File(path, "w") as file:
            creation = creation_list((32, 32), PFPL(**bound).filter_options, fill=fill)
            create(file, "x", values.shape, dtype, creation)[...] = values

        assert_kept(values, read(path), bound, fill[0])


@pytest.mark.parametrize("name", FILL_VALUES)
def test_cd_values_hold_the_fill_value_where_it_needs_care(
    path: Path, name: str, dtype: np.dtype[Any]
) -> None:
    fill = fill_value(name, dtype)

    with h5py.File(path, "w") as file:
        creation = creation_list((32, 32), ABSOLUTE.filter_options, fill=fill)
        create(file, "x", (50, 50), dtype, creation)

    with h5py.File(path) as file:
        words = cd_values(file["x"])
    bits = int(bits_of(fill)[0])
    needs_care = bits != 0 and not np.isnan(fill[0])
    assert bool(words[4] & 1 << 8) == needs_care
    assert words[14] | words[15] << 32 == (bits if needs_care else 0)


@pytest.mark.parametrize("fill", [None, -999.0, 1e20], ids=["no fill value", "-999", "1e20"])
def test_zeros_that_nobody_wrote_do_not_loosen_a_range_relative_bound(
    path: Path, dtype: np.dtype[Any], fill: float | None
) -> None:
    # The range is 2. A chunk's range with its padding is 1001, where HDF5 writes no fill value.
    data = (1000 + np.random.default_rng(0).uniform(-1, 1, (50, 50))).astype(dtype)
    options = {"chunks": (32, 32), "fillvalue": fill} | FILL_NEVER

    write(path, data, PFPL(range_relative=1e-2), **options)

    assert_kept(data, read(path), {"range_relative": 1e-2})


def test_a_range_relative_bound_holds_where_chunks_are_written_row_by_row(path: Path) -> None:
    data = (1000 + np.random.default_rng(0).uniform(-1, 1, (50, 50))).astype("f4")

    with h5py.File(path, "w") as file:
        dataset = file.create_dataset(
            "x",
            (50, 50),
            "f4",
            chunks=(32, 32),
            compression=PFPL(range_relative=1e-2),
            **FILL_NEVER,
        )
        for row in range(50):
            dataset[row] = data[row]

    assert_kept(data, read(path), {"range_relative": 1e-2})


def test_the_filter_takes_a_range_relative_bound_over_each_chunk(path: Path) -> None:
    # The second chunk is flat against the first: its own range makes its bound 1000 times smaller.
    data = np.concatenate([np.linspace(1, 1001, 512), np.linspace(1, 2, 512)])

    write(path, data, PFPL(range_relative=1e-2), chunks=(512,))

    decoded = read(path)
    assert_kept(data[:512], decoded[:512], {"range_relative": 1e-2})
    assert_kept(data[512:], decoded[512:], {"range_relative": 1e-2})
    assert np.abs(decoded - data)[:512].max() > 1  # 10 are allowed


# ------------------------------------------------------------------------------------------------
# With other filters
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "name"),
    [({"shuffle": True}, "shuffle"), ({"scaleoffset": 3}, "scaleoffset")],
    ids=["shuffle", "scaleoffset"],
)
def test_a_filter_in_front_is_refused(path: Path, options: dict[str, Any], name: str) -> None:
    with (
        h5py.File(path, "w") as file,
        pytest.raises(ValueError, match=rf"h5lossy: filter \d+ \({name}\) comes before h5lossy"),
    ):
        file.create_dataset("x", (64,), "f4", chunks=(32,), compression=ABSOLUTE, **options)


def test_gzip_in_front_is_refused_and_behind_works(path: Path) -> None:
    data = field((64, 64))
    behind = creation_list((32, 32), ABSOLUTE.filter_options)
    behind.set_deflate(4)
    in_front = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    in_front.set_chunk((32, 32))
    in_front.set_deflate(4)
    in_front.set_filter(FILTER_ID, h5z.FLAG_OPTIONAL, ABSOLUTE.filter_options)

    with h5py.File(path, "w") as file:
        create(file, "x", data.shape, "f4", behind)[...] = data
        with pytest.raises(ValueError, match=r"h5lossy: filter 1 \(deflate\) comes before h5lossy"):
            create(file, "y", data.shape, "f4", in_front)

    with h5py.File(path) as file:
        assert [number for number, *_ in filters(file["x"])] == [FILTER_ID, h5z.FILTER_DEFLATE]
    assert_kept(data, read(path), {"absolute": 1e-3})


@pytest.mark.parametrize(
    ("behind", "name"),
    [((h5z.FILTER_NBIT, ()), "nbit"), ((h5z.FILTER_SCALEOFFSET, (0, 2)), "scaleoffset")],
    ids=["nbit", "scaleoffset"],
)
def test_a_filter_behind_that_would_take_frames_for_numbers_is_refused(
    path: Path, behind: tuple[int, tuple[int, ...]], name: str
) -> None:
    creation = creation_list((32, 32), ABSOLUTE.filter_options)
    number, words = behind
    creation.set_filter(number, h5z.FLAG_OPTIONAL, words)
    with (
        h5py.File(path, "w") as file,
        pytest.raises(ValueError, match=rf"h5lossy: filter {number} \({name}\) after h5lossy"),
    ):
        create(file, "x", (64, 64), "f4", creation)


def test_shuffle_may_stand_behind(path: Path) -> None:
    data = field((64, 64))
    creation = creation_list((32, 32), ABSOLUTE.filter_options)
    creation.set_shuffle()
    creation.set_deflate(1)
    with h5py.File(path, "w") as file:
        create(file, "x", data.shape, "f4", creation)[...] = data
    assert_kept(data, read(path), {"absolute": 1e-3})


def test_fletcher32_goes_behind_and_finds_damage(path: Path) -> None:
    # Values that are stored as they are, without a checksum of ours: all depends on Fletcher's.
    data = np.random.default_rng(0).integers(0, 2**32, (64, 64), np.uint32).view(np.float32)
    codec = PFPL(lossless=True, checksum=False)
    write(path, data, codec, chunks=(64, 64), fletcher32=True)
    assert_same_bits(read(path), data)

    with h5py.File(path) as file:
        assert [number for number, *_ in filters(file["x"])] == [FILTER_ID, h5z.FILTER_FLETCHER32]
        [chunk] = stored_chunks(file["x"])
    damage(path, chunk.byte_offset + chunk.size // 2)

    with h5py.File(path) as file, pytest.raises(OSError, match=r"Can't .*read data"):
        file["x"][...]


# ------------------------------------------------------------------------------------------------
# What is refused when a dataset is made
# ------------------------------------------------------------------------------------------------

OTHER_TYPES: dict[str, Any] = {
    "long double": np.longdouble,
    "compound": [("a", "f4"), ("b", "f4")],
    "compound of one float": [("a", "f4")],
    "array": (np.float32, (4,)),
    "fixed string": "S4",
    "opaque": "V4",
    "object reference": h5py.ref_dtype,
}


@pytest.mark.parametrize("other_type", OTHER_TYPES.values(), ids=OTHER_TYPES)
def test_other_types_are_refused(path: Path, other_type: Any) -> None:
    with h5py.File(path, "w") as file:
        with pytest.raises(ValueError, match="float64 and integers of 8, 16, 32 and 64 bits"):
            file.create_dataset("x", (8,), np.dtype(other_type), chunks=(4,), compression=ABSOLUTE)
        assert "x" not in file
        file.create_dataset("x", (8,), "f4", chunks=(4,), compression=ABSOLUTE)


def float_type(base: Any, *changes: tuple[str, tuple[Any, ...]]) -> h5t.TypeFloatID:
    """Return a float type that is nearly IEEE's."""
    type_id = base.copy()
    for name, arguments in changes:
        getattr(type_id, name)(*arguments)
    return type_id


NEARLY_IEEE = {
    "bfloat16 in 4 bytes": [("set_fields", (31, 23, 8, 16, 7))],
    "7 bits of exponent": [("set_fields", (31, 24, 7, 0, 24))],
    "sign at the bottom": [("set_fields", (0, 24, 8, 1, 23))],
    "exponent bias of 126": [("set_ebias", (126,))],
    "mantissa with its leading bit": [("set_norm", (h5t.NORM_MSBSET,))],
    "mantissa without a leading bit": [("set_norm", (h5t.NORM_NONE,))],
    "VAX order": [("set_order", (h5t.ORDER_VAX,))],
    "31 bits": [("set_fields", (30, 22, 8, 0, 22)), ("set_precision", (31,))],
    "float32 in 8 bytes": [("set_size", (8,))],
}


@pytest.mark.parametrize("changes", NEARLY_IEEE.values(), ids=NEARLY_IEEE)
def test_floats_that_are_not_ieee_are_refused(path: Path, changes: Any) -> None:
    # 4 bytes or 8, class float, and yet other numbers than NumPy would see.
    with h5py.File(path, "w") as file:
        creation = creation_list((4,), ABSOLUTE.filter_options)
        with pytest.raises(ValueError, match="h5lossy: only float32, float64 and integers"):
            create(file, "x", (8,), float_type(h5t.IEEE_F32LE, *changes), creation)


@pytest.mark.parametrize("type_id", [h5t.IEEE_F64LE, h5t.IEEE_F64BE], ids=["little", "big"])
def test_float64_with_another_exponent_bias_is_refused(path: Path, type_id: Any) -> None:
    with h5py.File(path, "w") as file:
        creation = creation_list((4,), ABSOLUTE.filter_options)
        with pytest.raises(ValueError, match="h5lossy: only float32, float64 and integers"):
            create(file, "x", (8,), float_type(type_id, ("set_ebias", (1022,))), creation)


VARIABLE_LENGTH = {
    "floats": (h5py.vlen_dtype("f4"), [np.arange(i, dtype="f4") for i in range(8)]),
    "strings": (h5py.string_dtype(), [b"a" * i for i in range(8)]),
}


@pytest.mark.parametrize(("dtype", "values"), VARIABLE_LENGTH.values(), ids=VARIABLE_LENGTH)
def test_variable_length_data_is_left_alone_where_hdf5_does_not_ask(
    path: Path, dtype: Any, values: list[Any]
) -> None:
    with h5py.File(path, "w") as file:
        floats = file.create_dataset("floats", (32,), "f4", chunks=(32,), compression=ABSOLUTE)
        of_floats = {"compression": FILTER_ID, "compression_opts": cd_values(floats)}
        # HDF5 asks nothing of an optional filter here (h5py's are), and runs it all the same.
        x = file.create_dataset("x", (8,), dtype, chunks=(3,), compression=ABSOLUTE)
        # 8 references of 16 bytes into the heap are as many bytes as 32 values of float32.
        y = file.create_dataset("y", (8,), dtype, chunks=(8,), **of_floats)
        for i, value in enumerate(values):
            x[i] = y[i] = value

    with h5py.File(path) as file:
        for frame in frames(file["x"]).values():
            assert h5lossy.inspect(frame).codec == "stored"
        for name in ("x", "y"):
            for written, was_read in zip(values, file[name][...], strict=True):
                np.testing.assert_array_equal(written, was_read)


@pytest.mark.parametrize(("dtype", "values"), VARIABLE_LENGTH.values(), ids=VARIABLE_LENGTH)
def test_variable_length_data_can_be_appended_and_copied_later(
    path: Path, dtype: Any, values: list[Any]
) -> None:
    # Of a dataset that was opened again, HDF5 asks before the first write. A copy to another file
    # runs the filter both ways.
    with h5py.File(path, "w") as file:
        options = {"maxshape": (None,), "chunks": (3,), "compression": ABSOLUTE}
        file.create_dataset("x", (4,), dtype, **options)[...] = values[:4]
    with h5py.File(path, "a") as file:
        file["x"].resize((8,))
        file["x"][4:] = values[4:]
    copy = path.with_name("copy.h5")
    with h5py.File(path) as file, h5py.File(copy, "w") as target:
        file.copy("x", target)

    for one in (path, copy):
        with h5py.File(one) as file:
            for written, was_read in zip(values, file["x"][...], strict=True):
                np.testing.assert_array_equal(written, was_read)


@pytest.mark.parametrize(("dtype", "values"), VARIABLE_LENGTH.values(), ids=VARIABLE_LENGTH)
def test_variable_length_data_is_refused_where_the_filter_is_mandatory(
    path: Path, dtype: Any, values: list[Any]
) -> None:
    creation = creation_list((3,), ABSOLUTE.filter_options, flags=h5z.FLAG_MANDATORY)
    with h5py.File(path, "w") as file, pytest.raises(ValueError, match="not suitable for filters"):
        create(file, "x", (8,), dtype, creation)


@pytest.mark.parametrize(
    ("dtype", "values"),
    [("f4", 2**30), ("f4", 2**30 - 10), ("f8", 2**29), ("f8", 2**29 - 5)],
    ids=str,
)
def test_chunks_of_nearly_4_gib_and_more_are_refused(path: Path, dtype: str, values: int) -> None:
    # HDF5 before 2.0 refuses the ones of 4 GiB itself.
    ours = "h5lossy: chunk is too large: at most 4294967255 bytes"
    expected = ours if h5py.version.hdf5_version_tuple >= (2, 0) else "4GB|4 GiB"
    with h5py.File(path, "w") as file, pytest.raises(ValueError, match=expected):
        file.create_dataset("x", (2**31,), dtype, chunks=(values,), compression=ABSOLUTE)


@pytest.mark.parametrize("chunks", [(2**16, 2**16, 1), (2**11, 2**11, 2**11)])
def test_the_size_of_a_chunk_is_that_of_all_its_extents(path: Path, chunks: Any) -> None:
    if h5py.version.hdf5_version_tuple < (2, 0):
        pytest.skip("HDF5 before 2.0 has no chunks of 4 GiB")
    with (
        h5py.File(path, "w") as file,
        pytest.raises(ValueError, match="chunk is too large: at most"),
    ):
        file.create_dataset("x", (2**20,) * 3, "f4", chunks=chunks, compression=ABSOLUTE)


@pytest.mark.parametrize(("dtype", "values"), [("f4", 2**30 - 11), ("f8", 2**29 - 6)])
def test_the_largest_chunk_is_accepted(path: Path, dtype: str, values: int) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (2**31,), dtype, chunks=(values,), compression=ABSOLUTE)

    with h5py.File(path) as file:
        assert cd_values(file["x"])[6] == values


ONE = (0, 0x3FF00000)


def test_a_backend_that_does_not_exist_is_refused_with_its_name() -> None:
    code = """
import h5py, h5lossy
with h5py.File("a", "w", driver="core", backing_store=False) as file:
    try:
        file.create_dataset("x", (8,), "f4", chunks=(4,), **h5lossy.PFPL(absolute=1))
    except ValueError as error:
        print(error)
"""
    said = run_python(code, env=environment(H5LOSSY_BACKEND="turbo")).stdout
    assert 'H5LOSSY_BACKEND is "turbo"' in said
    assert "h5lossy doctor" in said


# ------------------------------------------------------------------------------------------------
# cd_values that are used again, or are not complete
# ------------------------------------------------------------------------------------------------


def test_stored_cd_values_may_be_requested_for_other_data(path: Path) -> None:
    # As h5repack, nccopy and copied creation lists do: all words of the local part change.
    fill = np.array(1e20, ">f8")
    creation = creation_list((3, 4, 5), ABSOLUTE.filter_options, fill=fill)
    with h5py.File(path, "w") as file:
        stored = cd_values(create(file, "x", (9, 9, 9), ">f8", creation))
        fresh = file.create_dataset("y", (64, 64), "f4", chunks=(16, 1), compression=ABSOLUTE)
        again = file.create_dataset(
            "z", (64, 64), "f4", chunks=(16, 1), compression=FILTER_ID, compression_opts=stored
        )
        assert len(stored) == 16
        assert cd_values(again) == cd_values(fresh) != stored


def test_a_creation_list_may_be_used_twice(path: Path) -> None:
    data = field((30, 30))
    with h5py.File(path, "w") as file:
        first = file.create_dataset(
            "y", (50,), ">f8", chunks=(7,), fillvalue=-1.0, compression=ABSOLUTE
        )
        creation = first.id.get_create_plist()
        creation.set_chunk((16, 16))
        second = create(file, "x", (30, 30), "f4", creation)
        second[...] = data
        assert cd_values(second)[4:8] == (1 << 8, 0x02000401, 16, 16)

    assert_kept(data, read(path), {"absolute": 1e-3}, np.float32(-1))


def test_words_past_the_16th_are_left_out(path: Path) -> None:
    with h5py.File(path, "w") as file:
        plain = file.create_dataset("x", (64,), "f4", chunks=(16,), compression=ABSOLUTE)
        words = (*cd_values(plain), 1, 2, 3)
        longer = file.create_dataset(
            "y", (64,), "f4", chunks=(16,), compression=FILTER_ID, compression_opts=words
        )
        assert cd_values(longer) == cd_values(plain)


@pytest.mark.skipif(not hasattr(h5z, "register_filter"), reason="h5py before 3.9")
def test_without_set_local_chunks_are_stored_and_can_be_read(path: Path) -> None:
    # A filter class with only the filter function: what HDF5 has where set_local can do nothing.
    code = """
import ctypes, sys
import h5py, numpy as np
from hdf5_helpers import FilterClass, filter_class, _ASK
whole = filter_class()
bare = FilterClass(whole.version, whole.id, 1, 1, whole.name, _ASK(), _ASK(), whole.filter)
h5py.h5z.register_filter(ctypes.addressof(bare))
data = np.load(sys.argv[2])
with h5py.File(sys.argv[1], "w") as file:
    file.create_dataset("x", data=data, chunks=(16, 16), compression=46412,
                        compression_opts=(1, 0, 0, 0x3ff00000))
"""
    data = field((40, 40), ">f8")
    np.save(path.with_suffix(".npy"), data)

    tests = str(Path(__file__).parent)
    env = environment()
    # An empty part would be the current folder, which may be the source tree.
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [tests, env.get("PYTHONPATH")]))
    said = run_python(code, path, path.with_suffix(".npy"), env=env).stderr

    assert said.count("\n") == 1
    assert said.startswith("h5lossy: the type of a dataset is unknown, so its")

    with h5py.File(path) as file:
        assert cd_values(file["x"]) == (1, 0, 0, 0x3FF00000)
        for frame in frames(file["x"]).values():
            assert h5lossy.inspect(frame).codec == "stored"
            assert len(frame) == 16 * 16 * 8 + 40
    assert_same_bits(read(path), data)


def test_chunks_smaller_than_a_header_are_warned_of_once(tmp_path: Path) -> None:
    code = """
import sys
import h5py, h5lossy
with h5py.File(sys.argv[1], "w") as file:
    for number, chunks in enumerate(eval(sys.argv[2])):
        codec = h5lossy.PFPL(absolute=1e-3)
        file.create_dataset(f"{number}", (4000,), "f8", chunks=chunks, compression=codec)[:99] = 1
"""
    said = run_python(code, tmp_path / "a.h5", "[(1,), (1,), (5,)]", env=environment()).stderr
    assert said.startswith(
        "h5lossy: a dataset has chunks of 8 bytes, and each takes a header of 40"
    )
    assert said.count("\n") == 1
    assert run_python(code, tmp_path / "a.h5", "[(6,), (1000,)]", env=environment()).stderr == ""


def test_set_local_leaves_the_users_words_where_hdf5_is_out_of_reach() -> None:
    # libffi is the caller here, and knows no H5 function.
    ours = filter_class()

    assert ours.can_apply(1, 1, 1) > 0
    assert ours.set_local(1, 1, 1) == 0


def test_groups_heaps_are_refused() -> None:
    # HDF5 asks with these numbers where a group's heap, not a dataset, is to be filtered.
    ours = filter_class()

    assert ours.can_apply(-1, -1, -1) < 0
    assert ours.set_local(-1, -1, -1) < 0


@pytest.mark.parametrize(
    "words",
    [(), (1,), (1, 0), (1, 0, *ONE), (1, 0, *ONE, 0), (77, 0, *ONE), (1, 0, 0, 0), (1, 3, *ONE)],
    ids=str,
)
def test_the_filter_function_stores_what_it_was_told_too_little_about(words: Any) -> None:
    raw = field((333,)).tobytes() + b"odd"

    frame = call_filter(words, raw)

    assert frame is not None
    info = h5lossy.inspect(frame)
    assert (info.codec, info.dtype.itemsize) == ("stored", BYTES_TYPE_CODE)
    assert call_filter(words, frame, reverse=True) == raw
    assert call_filter((), frame, reverse=True) == raw


def test_the_filter_function_refuses_a_chunk_of_another_size_than_it_was_told() -> None:
    # It could not be read again: a frame of that size is not one of the dataset.
    words = (1, 0, *ONE, 0, 0x01000401, 100, *[0] * 9)
    raw = field((120,)).tobytes()

    assert call_filter(words, raw) is None
    frame = call_filter((), raw)
    assert frame is not None
    assert call_filter(words, frame, reverse=True) is None


def test_the_local_part_may_be_typed_by_hand() -> None:
    # As docs/format/cd_values.md says it, for a program in which set_local can do nothing.
    words = (1, 0, *ONE, 0, 0x01000401, 1000, *[0] * 9)
    data = field((1000,))

    frame = call_filter(words, data.tobytes())

    assert frame == h5lossy.encode(data, PFPL(absolute=1.0))


@pytest.mark.parametrize("size", [4, 5])
def test_a_dataset_whose_cd_values_were_cut_off_can_be_read_and_written(
    path: Path, size: int
) -> None:
    data = field((40, 40))
    write(path, data, ABSOLUTE, chunks=(16, 16), fillvalue=-999.0)
    before = read(path)
    edit_cd_values(path, count=size)

    with h5py.File(path, "r+") as file:
        assert len(cd_values(file["x"])) == size
        assert_same_bits(file["x"][...], before)
        file["x"][:10] = 1.2345

    decoded = read(path)
    assert_same_bits(decoded[10:], before[10:])
    assert_same_bits(decoded[:10], np.full((10, 40), 1.2345, "f4"))


@pytest.mark.parametrize(
    ("index", "word"),
    [(5, 0x02000801), (5, 0x02010401), (6, 17), (7, 8), (5, 0x01000401)],
    ids=["float64", "big-endian", "longer chunk", "smaller chunk", "rank 1"],
)
def test_frames_that_the_cd_values_contradict_are_not_decoded(
    path: Path, index: int, word: int
) -> None:
    write(path, field((40, 40)), ABSOLUTE, chunks=(16, 16))
    edit_cd_values(path, {index: word})

    with h5py.File(path) as file:
        assert cd_values(file["x"])[index] == word
        with pytest.raises(OSError, match=FILTER_FAILS):
            file["x"][...]


def test_cd_values_of_a_later_layout_do_not_keep_frames_from_being_read(path: Path) -> None:
    # A later version may put other things there. A frame needs none of it.
    write(path, field((40, 40)), ABSOLUTE, chunks=(16, 16))
    before = read(path)
    edit_cd_values(path, {5: 0x02000402})

    assert_same_bits(read(path), before)


# ------------------------------------------------------------------------------------------------
# Frames in files
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fill", "checksum"), [(np.nan, True), (-999.0, False)], ids=["NaN", "-999, no checksum"]
)
def test_a_chunk_is_what_encode_makes_of_its_padded_values(
    path: Path,
    codec: type[Codec],
    bound: dict[str, Any],
    dtype: np.dtype[Any],
    *,
    fill: float,
    checksum: bool,
) -> None:
    data = field((5, 40, 50), dtype)
    data[::2, ::3] = fill
    setting = codec(**bound, checksum=checksum)
    chunks = (2, 32, 32)

    write(path, data, setting, chunks=chunks, fillvalue=fill)

    with h5py.File(path) as file:
        stored = frames(file["x"])
        fill = file["x"].fillvalue  # HDF5 and NumPy make other NaNs of a float64 NaN
    assert len(stored) == 3 * 2 * 2
    for place, frame in stored.items():
        part = data[tuple(slice(i, i + n) for i, n in zip(place, chunks, strict=True))]
        assert frame == h5lossy.encode(padded(part, chunks, fill), setting, fill_value=fill)
        assert h5lossy.inspect(frame).checksum is checksum


def test_a_chunk_may_be_written_directly(path: Path, dtype: np.dtype[Any]) -> None:
    data = field((32, 32), dtype)
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("x", (64, 32), dtype, chunks=(32, 32), compression=ABSOLUTE)
        dataset.id.write_direct_chunk((0, 0), h5lossy.encode(data, ABSOLUTE))
        dataset.id.write_direct_chunk((32, 0), data.tobytes(), filter_mask=1)  # around the filter

    assert_kept(data, read(path)[:32], {"absolute": 1e-3})
    assert_same_bits(read(path)[32:], data)


def test_edge_chunks_may_go_around_the_filters(path: Path) -> None:
    data = field((20, 20))
    creation = creation_list((16, 16), ABSOLUTE.filter_options)
    leave_partial_chunks_unfiltered(creation)

    with h5py.File(path, "w", libver="latest") as file:
        create(file, "x", data.shape, "f4", creation)[...] = data

    with h5py.File(path) as file:
        _, frame = file["x"].id.read_direct_chunk((0, 0))
        _, raw = file["x"].id.read_direct_chunk((16, 16))
    assert bytes(frame).startswith(MAGIC)
    assert len(raw) == 16 * 16 * 4
    decoded = read(path)
    assert_kept(data, decoded, {"absolute": 1e-3})
    assert_same_bits(decoded[16:], data[16:])


# ------------------------------------------------------------------------------------------------
# Damage
# ------------------------------------------------------------------------------------------------


def damage(path: Path, place: int, mask: int = 0x10) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= mask
    path.write_bytes(content)


@pytest.mark.parametrize("where", [0.0, 0.1, 0.5, 1.0], ids=["magic", "header", "middle", "end"])
def test_a_damaged_chunk_is_an_oserror_and_the_others_can_be_read(path: Path, where: float) -> None:
    data = field((32, 64))
    write(path, data, ABSOLUTE, chunks=(32, 32))
    with h5py.File(path) as file:
        chunk = stored_chunks(file["x"])[0]
    place = {0.0: 0, 0.1: 17, 0.5: chunk.size // 2, 1.0: chunk.size - 1}[where]

    damage(path, chunk.byte_offset + place)

    with h5py.File(path) as file:
        with pytest.raises(OSError, match=FILTER_FAILS):
            file["x"][:, :32]
        assert_kept(data[:, 32:], file["x"][:, 32:], {"absolute": 1e-3})


FRAME = h5lossy.encode(field((32, 32)), ABSOLUTE)
NO_FRAMES = {
    **{f"{n} bytes of a frame": FRAME[:n] for n in (1, 39, 40, 41, -1)},
    "smaller chunk": h5lossy.encode(field((16, 32)), ABSOLUTE),
    "larger chunk": h5lossy.encode(field((64, 32)), ABSOLUTE),
    "other type of that size": h5lossy.encode(field((16, 32), "f8"), ABSOLUTE),
    "other byte order": h5lossy.encode(field((32, 32), ">f4"), ABSOLUTE),
    # HDF5 reads a whole chunk whatever a filter returns: it must not read other heap memory.
    "four values": call_filter((), np.ones(4, "f4").tobytes()),
    "no frame": field((32, 32)).tobytes(),
    "magic only": MAGIC,
    "one byte": b"\0",
}


@pytest.mark.parametrize("content", NO_FRAMES.values(), ids=NO_FRAMES)
def test_what_is_no_frame_of_this_dataset_is_an_oserror(path: Path, content: bytes) -> None:
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("x", (32, 32), "f4", chunks=(32, 32), compression=ABSOLUTE)
        dataset.id.write_direct_chunk((0, 0), content)

    with h5py.File(path) as file, pytest.raises(OSError, match=FILTER_FAILS):
        file["x"][...]


def test_without_a_checksum_damage_gives_an_error_or_other_values_but_no_crash(path: Path) -> None:
    write(path, field((32, 32)), PFPL(absolute=1e-3, checksum=False), chunks=(32, 32))
    with h5py.File(path) as file:
        [frame] = frames(file["x"]).values()
    undamaged = read(path)

    outcomes = set()
    with h5py.File(path, "r+") as file:
        for place in range(0, len(frame), 7):
            damaged = bytearray(frame)
            damaged[place] ^= 0x55
            file["x"].id.write_direct_chunk((0, 0), bytes(damaged))
            try:
                same = np.array_equal(file["x"][...], undamaged)
            except OSError:
                outcomes.add("error")
            else:
                outcomes.add("same values" if same else "other values")

    # Bits that nothing depends on are possible, but the header has none.
    assert {"error", "other values"} <= outcomes


# ------------------------------------------------------------------------------------------------
# Threads and processes
# ------------------------------------------------------------------------------------------------


def test_threads_can_use_the_filter_at_once(tmp_path: Path) -> None:
    arrays = [field((64, 64), seed=i) for i in range(8)]

    def there_and_back(i: int) -> np.ndarray[Any, Any]:
        write(tmp_path / f"{i}.h5", arrays[i], ABSOLUTE, chunks=(16, 16))
        return read(tmp_path / f"{i}.h5")

    with ThreadPoolExecutor(4) as pool:
        for data, decoded in zip(arrays, pool.map(there_and_back, range(8)), strict=True):
            assert_kept(data, decoded, {"absolute": 1e-3})


def test_the_filter_function_is_re_entrant() -> None:
    # h5py's lock would keep threads apart; HDF5 itself need not, in the future.
    words = (*PFPL(absolute=1e-3).filter_options, 0, 0x01000401, 50_000, *[0] * 9)
    chunks = [field((50_000,), seed=i).tobytes() for i in range(6)]
    expected = [call_filter(words, chunk) for chunk in chunks]

    def often(i: int) -> bool:
        frame = expected[i % 6]
        assert frame is not None
        return (
            call_filter(words, chunks[i % 6]) == frame
            and call_filter(words, frame, reverse=True) is not None
        )

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(often, range(48)))


def test_another_process_reads_the_file_with_nothing_but_the_plugin_path(path: Path) -> None:
    data = field((40, 40))
    write(path, data, ABSOLUTE)
    code = """
import sys, h5py, numpy as np
np.save(sys.argv[2], h5py.File(sys.argv[1])["x"][...])
assert "h5lossy" not in sys.modules
"""
    run_python(code, path, path.with_suffix(".npy"), env=with_plugin())

    assert_same_bits(np.load(path.with_suffix(".npy")), read(path))


def test_a_file_of_another_process_can_be_read(path: Path) -> None:
    data = field((40, 40), ">f8")
    np.save(path.with_suffix(".npy"), data)
    code = """
import sys, h5py, numpy as np
with h5py.File(sys.argv[1], "w") as file:
    file.create_dataset("x", data=np.load(sys.argv[2]), chunks=(16, 16), compression=46412,
                        compression_opts=(1, 0, 3539053052, 1062232653))
assert "h5lossy" not in sys.modules
"""
    run_python(code, path, path.with_suffix(".npy"), env=with_plugin())

    assert_kept(data, read(path), {"absolute": 1e-3})


def test_without_the_plugin_reading_is_an_oserror(path: Path) -> None:
    write(path, field((40, 40)), ABSOLUTE)
    code = """
import sys, h5py
try:
    h5py.File(sys.argv[1])["x"][...]
except OSError as error:
    print("OSError")
"""
    assert run_python(code, path, env=environment()).stdout == "OSError\n"


# ------------------------------------------------------------------------------------------------
# The processor's arithmetic
# ------------------------------------------------------------------------------------------------

_libm = ctypes.CDLL("libm.so.6" if platform.system() == "Linux" else None)


def with_rounding_and_flushing(call: Any) -> Any:
    """Call with upward rounding, and with denormal inputs and results flushed to zero."""
    environment = (ctypes.c_ubyte * 64)()
    assert _libm.fegetenv(environment) == 0
    before = bytes(environment)
    mxcsr = int.from_bytes(before[28:32], "little")
    changed = mxcsr | 0x8000 | 0x40 | 2 << 13  # flush to zero, denormals are zero, up
    environment[28:32] = changed.to_bytes(4, "little")
    _libm.fesetenv(environment)
    try:
        result = call()
        after = (ctypes.c_ubyte * 64)()
        _libm.fegetenv(after)
    finally:
        environment[:] = before
        _libm.fesetenv(environment)
    status_flags = 0x3F
    assert int.from_bytes(bytes(after[28:32]), "little") | status_flags == changed | status_flags
    return result


@pytest.mark.skipif(platform.machine() not in {"x86_64", "AMD64"}, reason="sets x86-64's MXCSR")
@pytest.mark.parametrize("size", [4, 8], ids=["float32", "float64"])
@pytest.mark.parametrize("kind", [0, 1, 2, 3], ids=list(h5lossy.BoundKind)[:4])
def test_the_callers_rounding_and_flushing_change_nothing_and_stay(kind: int, size: int) -> None:
    # All that a caller may have set; a library that was built with -ffast-math does.
    bound = () if kind == 3 else PFPL(absolute=1e-3).filter_options[2:]
    words = (1, kind, *(bound or (0, 0)), 0, 0x01000001 | size << 8, 1000, *[0] * 9)
    data = field((1000,), f"f{size}")
    data[::3] = floats_of(np.arange(data[::3].size), f"f{size}")  # denormals
    raw = data.tobytes()
    frame = call_filter(words, raw)
    assert frame is not None

    assert with_rounding_and_flushing(lambda: call_filter(words, raw)) == frame
    decoded = with_rounding_and_flushing(lambda: call_filter(words, frame, reverse=True))
    assert decoded == call_filter(words, frame, reverse=True)

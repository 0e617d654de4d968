# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Integers: the bound in exact arithmetic, the bytes of docs/format/integers.md, the filter."""

from __future__ import annotations

import dataclasses
import math
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import h5lossy
from checks import Array, pattern
from h5lossy import (
    PFPL,
    Auto,
    CorruptFrameError,
    Interp,
    InvalidArgumentError,
    UnsupportedError,
    _native,
)
from hdf5_helpers import environment, h5lossy_command, run, tool
from matrix import slow_but
from reference import frame as reference
from reference import integers
from reference.common import Kind
from reference_frames import frame_of_reference
from test_decoder import decoded_alike, sealed

TYPES = ["u1", "i1", "<u2", ">i2", ">u4", "<i4", "<u8", ">i8"]
# Of each size, both signs and both byte orders: the others are slow tests.
each_type = pytest.mark.parametrize("dtype", slow_but(TYPES, {"i1", "<u2", ">u4", ">i8"}))


def type_of(dtype: str) -> integers.IntegerType:
    """Return the reference's type."""
    return integers.IntegerType(np.dtype(dtype).itemsize, np.dtype(dtype).kind == "i")


def numbers(values: Array) -> list[int]:
    """Return values as Python integers."""
    return [int(x) for x in np.ravel(values)]


def images(dtype: str, seed: int) -> Array:
    """Return values of one of several kinds, most of which shrink, in one of several shapes."""
    rng, info = np.random.default_rng(seed), np.iinfo(dtype)
    shapes = [(1,), (7,), (300,), (16, 30), (3, 9, 20), (20, 3, 5), (2, 3, 13, 7), (70, 140)]
    shape = [*shapes, (9000,), (1, 2000, 1)][seed % 10]
    ramp = np.add.outer(np.arange(np.prod(shape[:-1], dtype=int)), np.arange(shape[-1]))
    few = rng.integers(0, 6, shape).astype(object)
    made: Any = [
        rng.integers(info.min, info.max, shape, np.dtype(dtype).newbyteorder("="), endpoint=True),
        info.max - few,
        info.min + few,
        (3 * ramp.reshape(shape) // 7) % 100 + few,
        int(rng.integers(0, 11)) + int(rng.integers(2, 12)) * few + max(info.min, -40),
        np.where(rng.random(shape) < 0.1, int(info.max), few),
    ][rng.integers(6)]
    return np.asarray(made).astype(np.dtype(dtype).newbyteorder("=")).astype(dtype)


# ------------------------------------------------------------------------------------------------
# The bound
# ------------------------------------------------------------------------------------------------


def exact_values(dtype: str, bound: int) -> list[int | None]:
    """Return fill values at the ends of the type and of bins."""
    of, step = type_of(dtype), 2 * bound + 1
    last = (of.high + bound) // step
    near = (of.low, of.low + 1, of.high, of.high - 1, step, step + bound, last * step, 1)
    return [None, *sorted({of.number(fill) for fill in near} - {0})]


def check_all_values(values: Array, bound: int, fill: int | None) -> None:
    """Encode an array with every value of the type, and judge each in exact integers."""
    frame = h5lossy.encode(values, PFPL(absolute=bound), fill_value=fill)
    info = h5lossy.inspect(frame)
    assert (info.codec, info.stored_tiles, info.step) == ("pfpl", 0, 2 * bound + 1)
    decoded = h5lossy.decode(frame, shape=values.shape)
    error = np.abs(values.astype(np.int64) - decoded.astype(np.int64))
    assert error.max() <= bound
    assert (decoded[values == 0] == 0).all()
    if fill is not None:
        np.testing.assert_array_equal(decoded == fill, values == fill)
    again = h5lossy.encode(decoded, PFPL(absolute=bound), fill_value=fill)
    np.testing.assert_array_equal(h5lossy.decode(again, shape=values.shape), decoded)


@pytest.mark.parametrize("dtype", ["u1", "i1"])
def test_all_values_of_8_bits_keep_all_bounds(dtype: str) -> None:
    info = np.iinfo(dtype)
    values = np.tile(np.arange(info.min, info.max + 1).astype(dtype), (16, 1))
    for bound in range(1, 128):
        for fill in exact_values(dtype, bound):
            check_all_values(values, bound, fill)


@pytest.mark.parametrize("dtype", ["<u2", "<i2"])
def test_all_values_of_16_bits_keep_their_bound(dtype: str) -> None:
    info = np.iinfo(dtype)
    values = np.arange(info.min, info.max + 1).astype(dtype).reshape(256, 256)
    for bound in (1, 2, 3, 5, 7, 64, 127, 128, 1000, 10922, 10923, 16383, 16384, 32766, 32767):
        for fill in exact_values(dtype, bound):
            check_all_values(values, bound, fill)


@pytest.mark.parametrize("dtype", ["<u4", "<i4", "<u8", "<i8"])
def test_values_of_32_and_64_bits_keep_their_bound(dtype: str) -> None:
    of, picked = type_of(dtype), random.Random(dtype)
    most = 2 ** (of.word_bits - 1) - 1
    bounds = [1, 2, 3, 1000, 2**23, 2**23 + 1, 2**24 - 1, most // 3, most - 1, most]
    # A float64 has no odd number above 2^53.
    bounds = [bound for bound in bounds if int(float(bound)) == bound] + [2**52 + 1, 2**31 - 1]
    for bound in sorted({bound for bound in bounds if bound <= most}):
        step = 2 * bound + 1
        ends = [of.low, of.high, 0, *(of.number(picked.getrandbits(64)) for _ in range(8))]
        near = [x // step * step + d for x in ends for d in (0, -bound, bound, bound + 1, step)]
        near += [x + d for x in ends for d in range(-3, 4)]
        values = [x for x in near if of.low <= x <= of.high]
        for fill in exact_values(dtype, bound)[:6]:
            lattice = integers.Lattice(
                of, Kind.ABSOLUTE, step, () if fill is None else (pattern(fill, dtype),)
            )
            expected = [lattice.value(lattice.word(x)) for x in values]
            # Repeated, so that no tile is stored.
            array = np.repeat(np.array(values, dtype), 64)
            frame = h5lossy.encode(array, PFPL(absolute=bound), fill_value=fill)
            assert h5lossy.inspect(frame).stored_tiles == 0
            decoded = numbers(h5lossy.decode(frame)[::64])
            assert decoded == expected
            assert all(abs(x - y) <= bound for x, y in zip(values, decoded, strict=True))
            if fill is not None:
                assert [y == fill for y in decoded] == [x == fill for x in values]


@each_type
def test_a_bound_is_rounded_down_to_counts(dtype: str) -> None:
    values = np.tile(np.arange(100), 50).astype(dtype)
    exact = h5lossy.inspect(h5lossy.encode(values, PFPL(absolute=0.99)))
    assert exact.bound.kind is h5lossy.BoundKind.LOSSLESS
    assert exact.requested_bound == 0.99
    assert h5lossy.inspect(h5lossy.encode(values, PFPL(absolute=3.99))).step == 7
    largest = h5lossy.inspect(h5lossy.encode(values, PFPL(absolute=1e30)))
    assert largest.step == float(2 ** (8 * values.itemsize) - 1)
    assert h5lossy.inspect(h5lossy.encode(values, PFPL(absolute=3))).dtype == np.dtype(dtype)


def test_a_type_of_more_bits_gives_the_same_values() -> None:
    values = np.random.default_rng(0).integers(0, 256, (64, 64))
    few = h5lossy.decode(h5lossy.encode(values.astype("u1"), PFPL(absolute=20)))
    for dtype in ("u2", "i4", "u8"):
        more = h5lossy.decode(h5lossy.encode(values.astype(dtype), PFPL(absolute=20)))
        np.testing.assert_array_equal(np.minimum(more, 255), few)


@each_type
def test_multiples_of_a_number_are_stored_as_its_multiples(dtype: str) -> None:
    multiples = np.random.default_rng(0).integers(0, 10, 30000)
    wide = np.dtype(dtype).itemsize == 8
    offset = 0 if wide else -3 if np.dtype(dtype).kind == "i" else 5
    values = (offset + 12 * multiples).astype(dtype)
    frame = h5lossy.encode(values, PFPL(lossless=True))
    np.testing.assert_array_equal(h5lossy.decode(frame), values)
    same = h5lossy.encode(multiples.astype(dtype), PFPL(lossless=True))
    assert len(frame) == len(same)
    values[-1] += 1  # one value that is not, behind those that are looked at first
    frame = h5lossy.encode(values, PFPL(lossless=True))
    np.testing.assert_array_equal(h5lossy.decode(frame), values)
    assert len(frame) > len(same)


# ------------------------------------------------------------------------------------------------
# The bytes
# ------------------------------------------------------------------------------------------------


@each_type
def test_rows_of_a_few_values_come_back_with_each_predictor(dtype: str) -> None:
    """The colours of a pixel, say: such rows are shorter than any vector."""
    rng, count = np.random.default_rng(0), 1000
    seen = set()
    for length in range(2, 10):
        shape = (count, length)
        down, across = rng.integers(0, 60, (count, 1)), rng.integers(0, 60, length)
        slow = 30 * np.sin(np.arange(count)[:, np.newaxis] / 40)
        kinds = [
            rng.integers(0, 4, shape),
            np.cumsum(rng.integers(-1, 2, shape)).reshape(shape) % 100,
            across + np.cumsum(rng.random(shape) < 0.01, axis=0),
            60 + slow + rng.normal(0, 3, shape),
            down + across,
        ]
        for kind in kinds:
            values = np.asarray(kind).astype(dtype)
            frame = h5lossy.encode(values, PFPL(lossless=True))
            np.testing.assert_array_equal(h5lossy.decode(frame, shape=shape), values)
            seen |= {tile[-1] for tile in reference.parse(frame).tiles}
    assert seen >= set(range(5))


def random_jobs(dtype: str, seeds: range) -> list[tuple[Array, Any, int | None]]:
    """Return values, codecs and fill values."""
    jobs = []
    for seed in seeds:
        values, picked = images(dtype, seed), random.Random(seed)
        bound = picked.choice([0.5, 1, 2, 3.9, 7, 50, 127, 128, 1000, 32767, 2**31, 1e19])
        codec = PFPL(lossless=True) if seed % 4 == 0 else PFPL(absolute=bound)
        fill = int(picked.choice(values.reshape(-1))) if seed % 3 else None
        jobs.append((values, codec, fill))
    return jobs


@each_type
def test_boxes_that_floats_have_are_boxes_of_integers_too(dtype: str) -> None:
    for shape in [(8, 8), (4, 4, 4), (5, 8, 8), (4, 8, 8), (3, 4, 4)]:
        values = np.arange(np.prod(shape)).reshape(shape).astype(dtype) // 2
        for part in (values, np.zeros_like(values)):
            frame = h5lossy.encode(part, PFPL(absolute=1, checksum=False))
            lattice = integers.Lattice(type_of(dtype), Kind.ABSOLUTE, 3)
            of = type_of(dtype)
            bits = part.reshape(-1).astype(of.word_dtype)
            payload = integers.encode_tile(bits, of, lattice, shape[-1])
            # Also of chunks that are so small that an encoder would store them.
            built = reference.build(
                dataclasses.replace(
                    reference.parse(frame),
                    codec=1,
                    kind=Kind.ABSOLUTE,
                    step=3,
                    tiles=(payload,),
                    dims=(*[1] * (3 - len(shape)), *shape),
                    later_fields=integers.fields(lattice),
                )
            )
            np.testing.assert_array_equal(h5lossy.decode(built), reference.decode(built))
    large = np.tile(np.arange(64, dtype=np.dtype(dtype)).reshape(1, 8, 8), (300, 1, 1))
    whole = h5lossy.encode(large, PFPL(absolute=1))
    np.testing.assert_array_equal(h5lossy.decode(whole), reference.decode(whole))


def test_auto_is_pfpl() -> None:
    values = images("<u2", 6)
    assert h5lossy.encode(values, Auto(absolute=3)) == h5lossy.encode(values, PFPL(absolute=3))


def test_the_page_has_an_example_that_comes_out() -> None:
    page = (Path(__file__).parents[1] / "docs" / "format" / "integers.md").read_text()
    example = page.split("## Worked examples")[1].split("### ")[1]
    rows = {line[:2].strip(): line[2:] for line in example.split("\n")}
    x, k, back, d = (
        [int(word) for word in rows[name].replace("|", " ").split()]
        for name in ("x", "k", "x'", "d")
    )
    n = [int(word, 16) for word in rows["n"].split("(")[0].replace("|", " ").split()]
    of = integers.IntegerType(2, is_signed=False)
    lattice = integers.Lattice(of, Kind.ABSOLUTE, 5)
    assert [lattice.word(value) for value in x] == k
    assert [lattice.value(word) for word in k] == back
    assert [words - integers.predicted(k, i, 8, 2, of) for i, words in enumerate(k)] == d
    assert integers.to_residuals(k, 8, 2, of) == n
    payload = integers.encode_tile(np.array(x, "<u2"), of, lattice, 8)
    assert payload.hex(" ") in page.replace("| ", "")
    costs = [integers.cost(integers.to_residuals(k, 8, p, of)) for p in range(5)]
    assert f"leaves {', '.join(map(str, costs[:-1]))} and {costs[-1]} bytes" in page
    frame = reference.Frame(
        codec=1,
        value_bytes=2,
        big_endian=False,
        kind=Kind.ABSOLUTE,
        raw_bytes=64,
        bound=2.0,
        step=5,
        tiles=(payload,),
        dims=(1, 4, 8),
        later_fields=integers.fields(lattice),
        value_class=1,
    )
    assert h5lossy.decode(reference.build(frame)).tolist() == back


def require_damage_is_decoded_alike(
    decoder: Any, frame: bytes, picked: random.Random, places: list[int]
) -> None:
    """Change bits at some places, and truncate: library, decoder and reference must agree."""
    for _ in range(8):
        changed = bytearray(frame)
        changed[picked.choice(places)] ^= 1 << picked.randrange(8)
        for one in (sealed(decoder, bytes(changed)), bytes(changed[: picked.randrange(140)])):
            expected = decoded_alike(decoder, one)
            assert expected is None or reference.decode(one).tobytes() == expected


# ------------------------------------------------------------------------------------------------
# What is refused
# ------------------------------------------------------------------------------------------------


@each_type
def test_a_range_relative_bound_is_that_of_the_chunk(dtype: str) -> None:
    info = np.iinfo(dtype)
    span = int(info.max) - int(info.min)
    picked = random.Random(dtype)
    ends = [(0, 100), (info.min, info.max), (5, 5), (7, 6 + span // 3), (1, 2)]
    for low, high in ends:
        data = [low, high, *(picked.randint(low, max(low, high)) for _ in range(40))]
        values = np.array(data * 32, dtype)
        for bound in (1e-9, 0.003, 0.1, 1 / 3, 0.5, 3.0):
            codec = PFPL(range_relative=bound)
            frame = h5lossy.encode(values, codec)
            exact = math.floor(Fraction(bound) * (max(data) - min(data)))
            most = min(exact, 2 ** (8 * values.itemsize - 1) - 1)
            found = h5lossy.inspect(frame)
            if found.codec == "pfpl":
                assert found.step == (float(2 * most + 1) if most else 0)
            decoded = numbers(h5lossy.decode(frame))
            assert max(abs(x - y) for x, y in zip(data, decoded, strict=False)) <= most
            assert frame == frame_of_reference(values, codec)


def test_the_range_leaves_out_the_fill_value_and_padding(tmp_path: Path) -> None:
    values = np.tile(np.arange(1000, 1101, dtype="u2"), 30)
    values[::97] = 65535
    frame = h5lossy.encode(values, PFPL(range_relative=0.1), fill_value=65535)
    assert h5lossy.inspect(frame).step == 21.0
    params = _native.Params(
        codec=1, bound_kind=2, bound=0.1, value_class=1, value_bytes=2, fill_bits=65535,
        maybe_padded=True,
    )  # fmt: skip
    padded = _native.encode(params, np.append(values, np.zeros(100, "u2")))
    assert h5lossy.inspect(padded).step == 21.0
    with h5py.File(tmp_path / "a.h5", "w") as file:
        options = {"chunks": (500,), "compression": PFPL(range_relative=0.1), "fillvalue": 65535}
        file.create_dataset("x", data=values, **options)
    with h5py.File(tmp_path / "a.h5") as file:
        dataset = file["x"]
        error = np.abs(values.astype(int) - dataset[...].astype(int))
        assert 0 < error.max() <= 10
        assert h5lossy.verify(dataset).ok


BITS = {
    "bool": np.tile([True, False, True, True], 1000),
    "enum": np.tile(np.arange(3, dtype=">i2"), 1000).astype(
        h5py.enum_dtype({"a": 0, "b": 1, "c": 2}, ">i2")
    ),
}


@pytest.mark.parametrize("name", BITS)
def test_enums_are_kept_without_loss(tmp_path: Path, name: str) -> None:
    values = BITS[name]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        codec = PFPL(lossless=True)
        file.create_dataset("x", data=values, chunks=(500,), compression=codec)
        y = file.create_dataset("y", data=values, chunks=(500,), compression=codec)
        with pytest.raises(UnsupportedError, match=r"verify=True compares numbers, which /y does"):
            h5lossy.write(y, values, verify=True)
        h5lossy.write(y, 1)
        with pytest.raises(ValueError, match=r"bit field .* take no error bound; give lossless"):
            file.create_dataset("z", data=values, chunks=(500,), compression=PFPL(absolute=1))
    with h5py.File(tmp_path / "a.h5") as file:
        dataset = file["x"]
        np.testing.assert_array_equal(dataset[...], values)
        assert dataset.dtype == values.dtype
        assert (file["y"][...] == 1).all()
        np.testing.assert_array_equal(h5lossy.read(dataset), values)
        assert h5lossy.verify(dataset).ok
        assert h5lossy.describe(dataset).ratio > 3
        frame = dataset.id.read_direct_chunk((0,))[1]
    assert h5lossy.inspect(frame).dtype == np.dtype(">u2" if name == "enum" else "u1")
    assert "lossless" in h5lossy_command("info", "--frames", str(tmp_path / "a.h5")).stdout


def test_bit_fields_and_short_integers_are_kept_without_loss(tmp_path: Path) -> None:
    short = h5py.h5t.STD_I32LE.copy()
    short.set_precision(24)
    codec = PFPL(lossless=True)
    values = np.tile(np.arange(100), 20)
    for number, kind in enumerate([h5py.h5t.STD_B16BE, h5py.h5t.STD_B64LE, short]):
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((500,))
        plist.set_filter(h5lossy.FILTER_ID, h5py.h5z.FLAG_MANDATORY, codec.filter_options)
        path = str(tmp_path / f"{number}.h5")
        size = kind.get_size()
        memory = np.ascontiguousarray(values.astype(f"<u{size}"))
        of_memory = kind if number == 2 else getattr(h5py.h5t, f"STD_B{8 * size}LE")
        with h5py.File(path, "w") as file:
            space = h5py.h5s.create_simple(values.shape)
            made = h5py.h5d.create(file.id, b"x", kind, space, plist)
            made.write(h5py.h5s.ALL, h5py.h5s.ALL, memory, of_memory)
        with h5py.File(path) as file:
            made = h5py.h5d.open(file.id, b"x")
            back = np.zeros_like(memory)
            made.read(h5py.h5s.ALL, h5py.h5s.ALL, back, of_memory)
            np.testing.assert_array_equal(back, memory)
            info = h5lossy.inspect(made.read_direct_chunk((0,))[1])
            assert (info.codec, info.dtype.kind, info.dtype.itemsize) == ("pfpl", "u", size)


# ------------------------------------------------------------------------------------------------
# Datasets
# ------------------------------------------------------------------------------------------------


@each_type
def test_datasets_are_written_and_read(tmp_path: Path, dtype: str) -> None:
    rng = np.random.default_rng(0)
    ramp = np.add.outer(np.arange(90), np.arange(70)) // 3 % 100
    values = (ramp + rng.integers(0, 3, ramp.shape)).astype(dtype)
    for number, codec in enumerate(
        [
            *(PFPL(lossless=True), PFPL(absolute=3), Auto(absolute=0.5)),
            *(Interp(lossless=True), Interp(absolute=3, axes=-1)),
        ]
    ):
        path = tmp_path / f"{number}.h5"
        with h5py.File(path, "w") as file:
            options = {"chunks": (32, 32), "compression": codec, "fillvalue": 7}
            file.create_dataset("by_h5py", data=values, **options)
            h5lossy.write(file.create_dataset("by_us", values.shape, dtype, **options), values)
        with h5py.File(path) as file:
            decoded = file["by_h5py"][...]
            assert decoded.dtype == np.dtype(dtype)
            np.testing.assert_array_equal(file["by_us"][...], decoded)
            for name in file:
                np.testing.assert_array_equal(h5lossy.read(file[name]), decoded)
                part = np.s_[3:40, 5:69]
                np.testing.assert_array_equal(h5lossy.read(file[name], part), decoded[part])
                assert h5lossy.verify(file[name]).ok
                assert h5lossy.describe(file[name]).config == codec
            frame = file["by_us"].id.read_direct_chunk((32, 32))[1]
        assert h5lossy.inspect(frame).codec == ("interp" if isinstance(codec, Interp) else "pfpl")
        bound = 3 if codec.absolute == 3 else 0
        errors = zip(numbers(values), numbers(decoded), strict=True)
        assert max(abs(x - y) for x, y in errors) == bound
        np.testing.assert_array_equal(decoded == 7, values == 7)


def test_info_says_counts(tmp_path: Path) -> None:
    values = np.arange(100, dtype="i2")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, bound in (("a", 3.5), ("b", 1), ("c", 0.5)):
            codec = PFPL(absolute=bound)
            file.create_dataset(name, data=values, chunks=(50,), compression=codec, fillvalue=-7)
    said = h5lossy_command("info", str(tmp_path / "a.h5")).stdout
    assert "±3 counts" in said
    assert "±1 count " in said
    assert "lossless" in said


def test_h5repack_compresses_integers(tmp_path: Path) -> None:
    h5repack = tool("h5repack")
    folder = h5lossy_command("plugin-path").stdout.removesuffix("\n")
    values = {dtype: np.tile(np.arange(100), 80).astype(dtype) for dtype in TYPES}
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, data in values.items():
            file.create_dataset(name, data=data, chunks=(4000,))
    words = PFPL(absolute=3).filter_options
    option = f"UD={h5lossy.FILTER_ID},1,{len(words)},{','.join(map(str, words))}"
    paths = (tmp_path / "a.h5", tmp_path / "b.h5")
    run(h5repack, "-f", option, *paths, env=environment(HDF5_PLUGIN_PATH=folder))
    with h5py.File(paths[1]) as file:
        for name, data in values.items():
            assert h5lossy.describe(file[name]).ratio > 2
            expected = h5lossy.decode(h5lossy.encode(data, PFPL(absolute=3)))
            np.testing.assert_array_equal(file[name][...], expected)


def test_a_frame_of_another_type_is_refused(tmp_path: Path) -> None:
    values = np.arange(100, dtype="<u4")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = file.create_dataset(
            "x", (100,), "<u4", chunks=(100,), compression=PFPL(absolute=3)
        )
        for other in ("<i4", "<f4", ">u4"):
            frame = h5lossy.encode(np.repeat(values, 9)[:100].astype(other), PFPL(absolute=3))
            dataset.id.write_direct_chunk((0,), frame)
            with pytest.raises(CorruptFrameError, match="the frame's type is not the dataset's"):
                h5lossy.read(dataset)
            with pytest.raises(OSError, match=r"filter returned failure|the frame's type differs"):
                dataset[...]


def test_the_library_refuses_types_that_there_are_not() -> None:
    for value_class, value_bytes in ((1, 3), (2, 16), (3, 4), (4, 1), (6, 2), (1, 0)):
        params = _native.Params(bound_kind=3, value_class=value_class, value_bytes=value_bytes)
        with pytest.raises(InvalidArgumentError, match=r"must be 0 \(floats\), 1"):
            _native.encode(params, np.zeros(48, "u1"))
    params = _native.Params(bound_kind=3, value_class=1, value_bytes=1, big_endian=True)
    with pytest.raises(InvalidArgumentError, match="no byte order"):
        _native.encode(params, np.zeros(48, "u1"))


@pytest.mark.parametrize(("dtype", "fits"), [("u1", False), ("i2", False), ("i4", True)])
def test_numpys_own_fill_value_has_to_fit(dtype: str, fits: bool) -> None:
    masked = np.ma.masked_array(np.array([10, 200 % 128, 63], dtype), [True, False, False])
    codec = h5lossy.PFPL(lossless=True)
    da = pytest.importorskip("dask.array")
    for data in (masked, da.from_array(masked, chunks=2)):
        assert h5lossy.PFPL(range_relative=0.5).resolve(data) == h5lossy.PFPL(absolute=4)
    if fits:
        assert h5lossy.decode(h5lossy.encode(masked, codec)).tolist() == [999999, 72, 63]
        return
    with pytest.raises(h5lossy.InvalidArgumentError, match=r"1 value is masked, .* a fill_value="):
        h5lossy.encode(masked, codec)
    masked.fill_value = 7
    assert h5lossy.decode(h5lossy.encode(masked, codec)).tolist() == [7, 72, 63]

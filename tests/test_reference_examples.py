# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The reference codec against the documents, and against exact arithmetic.

Bytes and numbers of the worked examples were taken from docs/format by hand. Nothing here uses
the native library.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import struct
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import aatrox, blocks, cuszp2, frame, pfpl
from reference.common import FLOAT_TYPES, Array, Corrupt, FloatType, Kind, Quantiser, Unsupported

F32, F64 = FLOAT_TYPES[4], FLOAT_TYPES[8]
both_types = pytest.mark.parametrize("float_type", [F32, F64], ids=["float32", "float64"])


def patterns(values: Any, float_type: FloatType) -> Array:
    """Give the patterns of values."""
    return np.array(values, float_type.float_dtype).view(float_type.word_dtype)


def pattern(value: float, float_type: FloatType) -> int:
    """Give the pattern of one value."""
    return int(patterns([value], float_type)[0])


def absolute(step: float) -> Quantiser:
    """Give the quantiser of an absolute bound, by its step."""
    return Quantiser(Kind.ABSOLUTE, pfpl.float_to_bits(step))


# ------------------------------------------------------------------------------------------------
# The documents' examples, literally
# ------------------------------------------------------------------------------------------------

# fmt: off
EXAMPLE_X = np.array(
    [
        0, 0.02, 0.04, 0.06, 0.08, 0.10, 0.10, 0.10,
        -0.02, -0.04, -0.05, -0.06, 0.50, 0.52, 0.54, 0.56,
        *([1.0] * 8),
        0.5, 0.4, 0.3, 0.2, 0.1, 0, 0, 0,
    ],
    "<f4",
)
EXAMPLE_Q = np.array(
    [
        0, 1, 2, 3, 4, 5, 5, 5,
        -1, -2, -3, -3, 25, 26, 27, 28,
        *([50] * 8),
        25, 20, 15, 10, 5, 0, 0, 0,
    ],
)
EXAMPLE_W = np.array(
    [
        0, 2, 4, 6, 8, 10, 10, 10,
        1, 3, 5, 5, 50, 52, 54, 56,
        *([100] * 8),
        50, 40, 30, 20, 10, 0, 0, 0,
    ],
    "<u4",
)
EXAMPLE_D = np.array(
    [
        0, 2, 2, 2, 2, 2, 0, 0,
        -9, 2, 2, 0, 45, 2, 2, 2,
        44, 0, 0, 0, 0, 0, 0, 0,
        -50, -10, -10, -10, -10, -10, 0, 0,
    ],
)
EXAMPLE_N = np.array(
    [
        0, 6, 6, 6, 6, 6, 0, 0,
        11, 6, 6, 0, 125, 6, 6, 6,
        124, 0, 0, 0, 0, 0, 0, 0,
        210, 10, 10, 10, 10, 10, 0, 0,
    ],
    "<u4",
)
# fmt: on
EXAMPLE_PLANES = {
    24: 0x00000080,
    25: 0x00088080,
    26: 0x00088000,
    27: 0x00088080,
    28: 0x0088807C,
    29: 0x7C6F8000,
    30: 0x7CE700FC,
    31: 0x00880000,
}
EXAMPLE_PAYLOAD = bytes.fromhex(
    "80 80 80 08 80 08 80 80 08 7c 80 88 80 6f 7c fc e7 7c 88"
    "71 76 e7 4d 00   f0 01 00   0e 00   03 00 00 00"
)
EXAMPLE_FRAME = bytes.fromhex(
    "48 35 4c 59 01 0a 01 04 00 00 01 00 80 00 00 00"
    "35 09 cb 5d 9a a9 f0 1f 7b 14 ae 47 e1 7a 84 3f"
    "00 00 00 40 e1 7a 94 3f 21 00 00 00"
    "80 80 80 08 80 08 80 80 08 7c 80 88 80 6f 7c fc"
    "e7 7c 88 71 76 e7 4d 00 f0 01 00 0e 00 03 00 00"
    "00"
)
STORED_FRAME = bytes.fromhex(
    "48 35 4c 59 01 0a 00 04 00 00 01 00 04 00 00 00"
    "02 f5 7b 51 17 b8 78 fe 7b 14 ae 47 e1 7a 84 3f"
    "00 00 00 00 00 00 00 00 00 00 c0 3f"
)
EXAMPLE_STEP = 0.019999999552965164


def test_example_frame() -> None:
    assert frame.encode(EXAMPLE_X, Kind.ABSOLUTE, 0.01) == EXAMPLE_FRAME
    decoded = frame.decode(EXAMPLE_FRAME)
    assert decoded.dtype == np.dtype("<f4")
    expected = EXAMPLE_Q.astype("<f4") * np.float32(EXAMPLE_STEP)
    assert decoded.tobytes() == expected.tobytes()


def test_example_fields() -> None:
    fields = frame.parse(EXAMPLE_FRAME)
    assert fields == frame.Frame(
        codec=1,
        value_bytes=4,
        big_endian=False,
        kind=Kind.ABSOLUTE,
        raw_bytes=128,
        bound=0.01,
        step=pfpl.float_to_bits(EXAMPLE_STEP),
        tiles=(EXAMPLE_PAYLOAD,),
    )
    assert frame.build(fields) == EXAMPLE_FRAME


def test_example_stages() -> None:
    assert pattern(pfpl.narrowed_bound(0.01, F32), F32) == 0x3C23D70A
    assert pfpl.make_quantiser(EXAMPLE_X, F32, Kind.ABSOLUTE, 0.01) == absolute(EXAMPLE_STEP)
    assert pfpl.zigzag(EXAMPLE_Q).tolist() == EXAMPLE_W.tolist()
    assert pfpl.unzigzag(EXAMPLE_W.astype("<u8")).tolist() == EXAMPLE_Q.tolist()
    words = pfpl.quantise(EXAMPLE_X.view("<u4"), F32, absolute(EXAMPLE_STEP))
    assert words is not None
    assert words.tolist() == EXAMPLE_W.tolist()
    assert np.diff(EXAMPLE_W.astype(int), prepend=0).tolist() == EXAMPLE_D.tolist()
    differences = pfpl.to_differences(words)
    assert differences.tolist() == EXAMPLE_N.tolist()
    assert pfpl.from_differences(differences).tolist() == EXAMPLE_W.tolist()
    planes = pfpl.to_planes(differences)
    assert [*struct.unpack("<32I", planes)] == [EXAMPLE_PLANES.get(j, 0) for j in range(32)]
    assert pfpl.from_planes(planes, F32.word_dtype).tolist() == EXAMPLE_N.tolist()
    assert pfpl.pack_planes(planes) == EXAMPLE_PAYLOAD
    assert pfpl.unpack_planes(EXAMPLE_PAYLOAD, 128) == planes


def test_example_stored() -> None:
    array = np.array([1.5], "<f4")
    assert frame.encode(array, Kind.ABSOLUTE, 0.01) == STORED_FRAME
    assert frame.decode(STORED_FRAME).tobytes() == array.tobytes()
    payload = pfpl.encode_tile(array.view("<u4"), F32, absolute(EXAMPLE_STEP))
    assert payload == bytes.fromhex("ea 01   03 00   03 00   03 00   03 00 00 00")


# ------------------------------------------------------------------------------------------------
# Checksum
# ------------------------------------------------------------------------------------------------


def plain_checksum(tiles: list[bytes]) -> int:
    """Compute the checksum word by word, as the document writes it."""
    total = 0
    for t, tile in enumerate(tiles):
        padded = tile + bytes(-len(tile) % 4)
        for i, (word,) in enumerate(struct.iter_unpack("<I", padded)):
            h = (word + (i + 1) * 0x9E3779B9 + t * 0x85EBCA77) % 2**32
            h ^= h >> 16
            h = h * 0x85EBCA6B % 2**32
            h ^= h >> 13
            h = h * 0xC2B2AE35 % 2**32
            total += h ^ h >> 16
    return total % 2**32


def test_checksums_of_the_examples() -> None:
    assert frame.checksum([EXAMPLE_PAYLOAD]) == 0x1FF0A99A
    assert frame.checksum([EXAMPLE_FRAME[:16] + EXAMPLE_FRAME[20:44]]) == 0x5DCB0935
    assert frame.checksum([STORED_FRAME[40:]]) == 0xFE78B817
    assert frame.checksum([STORED_FRAME[:16] + STORED_FRAME[20:40]]) == 0x517BF502


def test_checksum_of_nothing() -> None:
    assert frame.checksum([]) == 0
    assert frame.checksum([b"", b""]) == 0


@given(st.lists(st.binary(max_size=40), max_size=5))
def test_checksum_word_by_word(tiles: list[bytes]) -> None:
    assert frame.checksum(tiles) == plain_checksum(tiles)


@pytest.mark.parametrize("data", [EXAMPLE_FRAME, STORED_FRAME], ids=["pfpl", "stored"])
def test_every_changed_byte_is_refused(data: bytes) -> None:
    for offset in range(len(data)):
        for change in (0x01, 0x80, 0xFF):
            broken = bytearray(data)
            broken[offset] ^= change
            with pytest.raises(frame.Refused):
                frame.decode(bytes(broken))


@pytest.mark.parametrize("data", [EXAMPLE_FRAME, STORED_FRAME], ids=["pfpl", "stored"])
def test_every_other_length_is_refused(data: bytes) -> None:
    for length in range(len(data)):
        with pytest.raises(Corrupt):
            frame.decode(data[:length])
    with pytest.raises(Corrupt):
        frame.decode(data + b"\0")


def test_without_payload_sum() -> None:
    data = frame.encode(EXAMPLE_X, Kind.ABSOLUTE, 0.01, checksum=False)
    assert len(data) == len(EXAMPLE_FRAME)
    assert data[10:12] == b"\0\0"
    assert data[20:24] == bytes(4)
    assert data[44:] == EXAMPLE_PAYLOAD
    assert frame.decode(data).tobytes() == frame.decode(EXAMPLE_FRAME).tobytes()


# ------------------------------------------------------------------------------------------------
# Fields
# ------------------------------------------------------------------------------------------------

EXAMPLE = frame.parse(EXAMPLE_FRAME)
STORED = frame.parse(STORED_FRAME)
GRID = (100 + np.arange(10) - 2 * np.arange(3)[:, None]).astype("<f4")


def changed(fields: frame.Frame, **changes: Any) -> bytes:
    """Build a frame with other fields, whose sums are right."""
    return frame.build(dataclasses.replace(fields, **changes))


def test_version_is_looked_at_first() -> None:
    with pytest.raises(Unsupported, match="version 2"):
        frame.decode(EXAMPLE_FRAME[:4] + b"\x02")


@pytest.mark.parametrize(
    "changes",
    [
        {"codec": 2},
        {"codec": 3, "mode": 1},
        {"codec": 4},
        {"codec": 255},
        {"mode": 1},
        {"flags": 0x0101},
        {"flags": 0x8001},
    ],
    ids=str,
)
def test_unsupported(changes: dict[str, Any]) -> None:
    data = changed(EXAMPLE, **changes)
    with pytest.raises(Unsupported):
        frame.decode(data)
    with pytest.raises(Unsupported):
        frame.decode_range(data, 0, 1)


@pytest.mark.parametrize(
    "changes",
    [
        {"value_bytes": 0},
        {"value_bytes": 1},
        {"value_bytes": 2},
        {"value_bytes": 16},
        {"kind": 4},
        {"raw_bytes": 126},
        {"bound": -0.01},
        {"bound": math.nan},
        {"step": 0},
        {"step": pfpl.float_to_bits(0.02)},
        {"step": pfpl.float_to_bits(-EXAMPLE_STEP)},
        {"step": pfpl.float_to_bits(math.inf)},
        {"step": pfpl.float_to_bits(math.nan)},
        {"step": pfpl.float_to_bits(2.0**126)},
        {"step": pfpl.float_to_bits(2.0**-126)},
        {"kind": 1},
        {"kind": 1, "step": 1},
        {"kind": 1, "step": 4},
        {"kind": 1, "step": 2**23 + 3},
        {"kind": 3},
        {"tiles": ()},
        {"raw_bytes": 0, "tiles": ()},
        {"tiles": (bytes(129),)},
        {"tiles": (EXAMPLE_PAYLOAD, b"")},
        {"raw_bytes": 16388},
        {"raw_bytes": 16388, "tiles": (EXAMPLE_PAYLOAD, bytes(5))},
    ],
    ids=str,
)
def test_corrupt(changes: dict[str, Any]) -> None:
    data = changed(EXAMPLE, **changes)
    if changes == {"raw_bytes": 0, "tiles": ()}:
        data += b"\0"
    with pytest.raises(Corrupt):
        frame.decode(data)
    with pytest.raises(Corrupt):
        frame.decode_range(data, 0, 1)


def test_tile_table_that_decreases() -> None:
    half = dataclasses.replace(EXAMPLE, raw_bytes=16384 + 128, tiles=(EXAMPLE_PAYLOAD, b""))
    assert frame.decode(frame.build(half)).size == 4128
    data = bytearray(frame.build(half))
    data[40:48] = struct.pack("<2I", 34, 33)
    data[16:20] = struct.pack("<I", plain_checksum([bytes(data[:16] + data[20:48])]))
    with pytest.raises(Corrupt, match="before it begins"):
        frame.decode(bytes(data))


@pytest.mark.parametrize(
    "changes",
    [
        {"step": 1},
        {"mode": 1},
        {"value_bytes": 1, "big_endian": True},
        {"raw_bytes": 8},
        {"raw_bytes": 0},
    ],
    ids=str,
)
def test_bad_stored_frame(changes: dict[str, Any]) -> None:
    with pytest.raises(frame.Refused):
        frame.decode(changed(STORED, **changes))


def test_small_header() -> None:
    data = bytearray(STORED_FRAME)
    data[5] = 9
    data[16:20] = struct.pack("<I", plain_checksum([bytes(data[:16] + data[20:36])]))
    with pytest.raises(Corrupt, match="header of 36 bytes"):
        frame.decode(bytes(data))


def test_dims() -> None:
    data = frame.encode(GRID, Kind.ABSOLUTE, 0.5, codec=2, mode=0x21, shape=GRID.shape)
    fields = frame.parse(data)
    assert fields.dims == (1, 3, 10)
    for later_fields in (b"", bytes(8)):
        longer = changed(fields, later_fields=later_fields)
        assert longer[5] == 13 + len(later_fields) // 4
        assert longer[40:52] == struct.pack("<3I", 1, 3, 10)
        assert frame.decode(longer).tobytes() == GRID.tobytes()
    for bad in (
        {"dims": None},
        {"dims": None, "later_fields": bytes(8)},
        {"dims": (1, 3, 11)},
        {"dims": (0, 3, 10)},
        {"dims": (2**16, 2**16, 30)},
    ):
        with pytest.raises(Corrupt):
            frame.decode(changed(fields, **bad))
    for mode in (0, 0x01, 0x13, 0x15, 0x31 + 0x40, 0xA1, 0x41):
        with pytest.raises(Unsupported, match="mode"):
            frame.decode(changed(fields, mode=mode))


def test_block_codecs_have_no_lossless_frames() -> None:
    for codec, mode in ((2, 0x11), (3, 0)):
        fields = dataclasses.replace(EXAMPLE, codec=codec, mode=mode, tiles=(b"",))
        assert frame.decode(frame.build(fields)).tolist() == [0.0] * 32
        with pytest.raises(Corrupt, match="bound kind 3"):
            frame.decode(changed(fields, kind=3, step=0))
        # Asked for, or not to be had: the encoder writes a PFPL frame.
        for kind, bound in ((3, 0.0), (0, 0.0), (0, 1e-46), (1, 1e-9), (2, 0.0)):
            for number in (codec, frame.AUTO):
                expected = frame.encode(EXAMPLE_X, kind, bound)
                assert frame.encode(EXAMPLE_X, kind, bound, codec=number) == expected
                assert frame.parse(expected).codec == pfpl.NUMBER


@pytest.mark.parametrize("bound", [-0.5, math.nan, -math.inf])
def test_bounds_that_are_none(bound: float) -> None:
    with pytest.raises(ValueError, match="not negative"):
        frame.encode(EXAMPLE_X, Kind.ABSOLUTE, bound)


def test_lossless_has_no_bound() -> None:
    assert frame.encode(EXAMPLE_X, Kind.LOSSLESS, 0.5) == frame.encode(EXAMPLE_X, Kind.LOSSLESS, 0)


@pytest.mark.parametrize("fields", [EXAMPLE, STORED], ids=["pfpl", "stored"])
@pytest.mark.parametrize("size", [4, 12, 980])
def test_later_fields_are_skipped(fields: frame.Frame, size: int) -> None:
    data = changed(fields, later_fields=bytes(range(1, 5)) * (size // 4))
    assert data[5] == 10 + size // 4
    expected = frame.decode(frame.build(fields))
    assert frame.decode(data).tobytes() == expected.tobytes()
    assert frame.decode_range(data, 0, 1).tobytes() == expected[:1].tobytes()


def test_low_flags_are_ignored() -> None:
    data = changed(EXAMPLE, flags=0x00FF)
    assert frame.decode(data).tobytes() == frame.decode(EXAMPLE_FRAME).tobytes()


def test_big_endian_example() -> None:
    data = frame.encode(EXAMPLE_X.astype(">f4"), Kind.ABSOLUTE, 0.01)
    assert data[7] == 0x84
    assert data[44:] == EXAMPLE_PAYLOAD
    decoded = frame.decode(data)
    assert decoded.dtype == np.dtype(">f4")
    assert decoded.tobytes() == frame.decode(EXAMPLE_FRAME).byteswap().tobytes()


# ------------------------------------------------------------------------------------------------
# Stored frames and tiles
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", ">f8"])
def test_empty_array(dtype: str) -> None:
    data = frame.encode(np.zeros(0, dtype), Kind.RANGE_RELATIVE, 0.5)
    assert len(data) == 40
    assert data[6:9] == bytes([0, np.dtype(dtype).itemsize | (0x80 if dtype[0] == ">" else 0), 2])
    assert data[20:24] == bytes(4)
    assert frame.decode(data).dtype == np.dtype(dtype)
    assert frame.decode(data).size == 0


def test_codec_frame_without_tiles() -> None:
    """No encoder writes it, and nothing forbids it."""
    assert frame.decode(changed(EXAMPLE, raw_bytes=0, tiles=())).size == 0


def test_big_endian_stored() -> None:
    data = frame.encode(np.array([1.5], ">f4"), Kind.ABSOLUTE, 0.01)
    assert data[7] == 0x84
    assert data[40:] == STORED_FRAME[40:]
    assert frame.decode(data).tobytes() == bytes.fromhex("3f c0 00 00")


@pytest.mark.parametrize(
    "array", [b"abcdefg", np.arange(7, dtype=">i2"), np.ones(3, "<f2"), np.ones(2, "<c8")], ids=str
)
def test_unknown_type(array: Array | bytes) -> None:
    raw = array if isinstance(array, bytes) else array.tobytes()
    data = frame.encode(array, Kind.POINTWISE_RELATIVE, 0.25)
    assert data[6:9] == b"\x00\x01\x01"
    assert data[40:] == raw
    assert frame.decode(data).dtype == np.uint8
    assert frame.decode(data).tobytes() == raw
    assert frame.decode_range(data, 1, 3).tobytes() == raw[1:4]


def test_stored_frame_keeps_the_kind_asked_for() -> None:
    array = np.array([1.5], "<f4")
    for kind, bound in [(0, 0.0), (0, 1e-46), (1, 1e-9), (2, 0.5), (3, 0.0)]:
        fields = frame.parse(frame.encode(array, kind, bound))
        assert (fields.codec, fields.kind, fields.bound, fields.step) == (0, kind, bound, 0)


@both_types
def test_noise_is_stored(float_type: FloatType) -> None:
    raw = np.random.default_rng(5).integers(0, 256, 40000, "u1")
    array = raw.view(float_type.float_dtype)
    data = frame.encode(array, Kind.LOSSLESS, 0.0)
    assert len(data) == 40040
    assert frame.decode(data).tobytes() == raw.tobytes()


@both_types
def test_three_kinds_of_tiles(float_type: FloatType) -> None:
    per_tile = 16384 // float_type.size
    noise = np.random.default_rng(6).integers(0, 256, 16384, "u1").view(float_type.word_dtype)
    parts = [
        patterns(np.arange(per_tile) * 0.5, float_type),
        patterns([0.0] * per_tile, float_type),
    ]
    bits = np.concatenate([*parts, noise, patterns([0.0] * 99, float_type)])
    data = frame.encode(bits.view(float_type.float_dtype), Kind.LOSSLESS, 0.0)
    sizes = [len(tile) for tile in frame.parse(data).tiles]
    assert 0 < sizes[0] < 16384
    assert sizes[1:] == [0, 16384, 0]
    assert frame.decode(data).tobytes() == bits.tobytes()


def test_range_reads_only_its_tiles() -> None:
    array = np.cumsum(np.random.default_rng(7).normal(size=3 * 4096 + 77)).astype(">f4")
    data = bytearray(frame.encode(array, Kind.ABSOLUTE, 0.125))
    decoded = frame.decode(bytes(data))
    ranges = [(0, 0), (0, 1), (4095, 2), (4096, 4096), (5000, 7000), (12300, 65), (0, array.size)]
    for first, count in ranges:
        values = frame.decode_range(bytes(data), first, count)
        assert values.dtype == array.dtype
        assert values.tobytes() == decoded[first : first + count].tobytes()
    for first, count in [(-1, 2), (array.size, 1), (0, array.size + 1), (5, -1)]:
        with pytest.raises(IndexError):
            frame.decode_range(bytes(data), first, count)
    data[-1] ^= 0xFF
    assert frame.decode_range(bytes(data), 0, 4096).tobytes() == decoded[:4096].tobytes()
    with pytest.raises(Corrupt):
        frame.decode(bytes(data))


def test_sizes_around_groups_and_tiles() -> None:
    values = np.cumsum(np.random.default_rng(8).normal(size=4200))
    for float_type, counts in [
        (F32, [1, 31, 32, 33, 95, 4095, 4096, 4097, 4128, 4200]),
        (F64, [1, 63, 64, 65, 191, 2047, 2048, 2049, 2112, 4200]),
    ]:
        array = values.astype(float_type.float_dtype)
        for count in counts:
            for kind, bound in [(0, 0.25), (1, 0.01), (2, 0.001), (3, 0.0)]:
                data = frame.encode(array[:count], kind, bound)
                assert len(data) <= 40 + array[:count].nbytes
                decoded = frame.decode(data)
                check(array[:count], decoded, Kind(kind), bound)


# ------------------------------------------------------------------------------------------------
# Bitmaps
# ------------------------------------------------------------------------------------------------


def test_bitmaps_of_single_bytes() -> None:
    # Byte 0 set: every bitmap changes at its bytes 0 and 1.
    payload = bytes.fromhex("05   01 00   03 00   03 00   03 00 00 00")
    assert pfpl.pack_planes(b"\x05" + bytes(16383)) == payload
    # Byte 9 set: B0 is 00 02 00, B1 is 06 00, B2 is 03 00, B3 is 03.
    payload = bytes.fromhex("05   02 00   06 00   03 00   03 00 00 00")
    assert pfpl.pack_planes(bytes(9) + b"\x05" + bytes(16374)) == payload
    # The last byte set: no byte behind it changes back.
    payload = bytes.fromhex("05   80   80   80   00 00 00 80")
    assert pfpl.pack_planes(bytes(16383) + b"\x05") == payload
    # All bytes set: one change in each bitmap.
    payload = b"\x05" * 16384 + bytes.fromhex("ff   01 00   03 00   03 00 00 00")
    assert pfpl.pack_planes(b"\x05" * 16384) == payload


@given(
    st.integers(1, 16384),
    st.lists(st.tuples(st.integers(0, 16383), st.integers(1, 2000), st.integers(1, 255))),
)
@settings(deadline=None, max_examples=60)
def test_bitmaps_round_trip(size: int, runs: list[tuple[int, int, int]]) -> None:
    planes = np.zeros(size, np.uint8)
    for begin, length, value in runs:
        planes[begin : begin + length] = value
    payload = pfpl.pack_planes(planes.tobytes())
    if planes.any():
        assert pfpl.unpack_planes(payload, size) == planes.tobytes()
    else:
        assert payload == b""


def test_bitmaps_that_no_encoder_writes() -> None:
    assert pfpl.unpack_planes(bytes(4), 128) == bytes(128)
    # A byte that is kept may equal the one before it, and a byte of the planes may be zero.
    payload = bytes.fromhex("00 07   03 03 00   07 00   03 00   03 00 00 00")
    with pytest.raises(Corrupt):
        pfpl.unpack_planes(payload, 128)
    payload = bytes.fromhex("00 07 00 08   03 03 00   07 00   03 00   03 00 00 00")
    assert pfpl.unpack_planes(payload, 128) == bytes.fromhex("00 07 00 00 00 00 00 00 00 08").ljust(
        128, b"\0"
    )


@pytest.mark.parametrize(
    ("payload", "size"),
    [
        ("", 128),
        ("00 00 00", 128),
        ("03 00 00 00", 128),
        ("00 03 00 00 00", 128),
        ("03 00 03 00 00 00", 128),
        ("03 00 03 00 03 00 00 00", 128),
        ("01 00 03 00 03 00 03 00 00 00", 128),
        ("05 05 01 00 03 00 03 00 03 00 00 00", 128),
        ("05 80 80 80 00 00 00 80", 16380),
        ("05 02 00 06 00 03 00 03 00 00 00", 9),
        ("00 00 00 00 00", 128),
        ("ff ff ff ff", 128),
    ],
)
def test_refused_payloads(payload: str, size: int) -> None:
    with pytest.raises(Corrupt):
        pfpl.unpack_planes(bytes.fromhex(payload), size)


@given(st.binary(min_size=1, max_size=127))
@settings(max_examples=200)
def test_any_payload_is_decoded_or_refused(payload: bytes) -> None:
    for kind, step in [(0, EXAMPLE.step), (1, 3), (2, EXAMPLE.step), (3, 0)]:
        data = changed(EXAMPLE, kind=kind, step=step, tiles=(payload,))
        try:
            assert frame.decode(data).size == 32
        except Corrupt:
            continue


@both_types
def test_planes_bit_by_bit(float_type: FloatType) -> None:
    width = float_type.word_bits
    words = np.random.default_rng(9).integers(0, 2**width, 3 * width + 5, float_type.word_dtype)
    planes = np.frombuffer(pfpl.to_planes(words), float_type.word_dtype)
    for j in range(0, width, 7):
        for g in range(3):
            group = [int(word) for word in words[g * width : (g + 1) * width]]
            bits = [group[v] >> (width - 1 - j) & 1 for v in range(width)]
            assert int(planes[j * 3 + g]) == sum(b << (width - 1 - v) for v, b in enumerate(bits))
    assert planes[3 * width :].tolist() == words[3 * width :].tolist()
    assert pfpl.from_planes(planes.tobytes(), words.dtype).tolist() == words.tolist()


# ------------------------------------------------------------------------------------------------
# Bounds
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("float_type", "bound", "narrowed"),
    [
        (F32, 0.0, 0.0),
        (F32, 1e-46, 0.0),
        (F32, math.nextafter(2.0**-126, 0.0), 0.0),
        (F32, 2.0**-126, 2.0**-126),
        (F32, math.nextafter(1.0, 0.0), 1.0 - 2.0**-24),
        (F32, math.nextafter(1.0, 2.0), 1.0),
        (F32, 0.1, 0.09999999403953552),
        (F32, 2.0**124, 2.0**124),
        (F32, 1e38, 2.0**124),
        (F32, 1e300, 2.0**124),
        (F32, math.inf, 2.0**124),
        (F64, 1e-46, 1e-46),
        (F64, 2.0**-1022, 2.0**-1022),
        (F64, 2.0**-1023, 0.0),
        (F64, 0.1, 0.1),
        (F64, 1e308, 2.0**1020),
        (F64, math.inf, 2.0**1020),
    ],
)
def test_narrowed_bound(float_type: FloatType, bound: float, narrowed: float) -> None:
    assert pfpl.narrowed_bound(bound, float_type) == narrowed


@pytest.mark.parametrize(
    ("float_type", "bound", "width"),
    [
        (F32, 2.0**-10, 2 * 2**13 + 1),
        (F32, 2.0**-23, 3),
        (F32, 1.999 * 2.0**-23, 3),
        (F32, 0.5, 2**23 + 1),
        (F32, 0.75, 2**23 + 1),
        (F32, 1e300, 2**23 + 1),
        (F32, math.inf, 2**23 + 1),
        (F64, 2.0**-52, 3),
        (F64, 0.1, 2 * math.floor(Fraction(0.1) * 2**52) + 1),
        (F64, 1e300, 2**52 + 1),
    ],
)
def test_pointwise_width(float_type: FloatType, bound: float, width: int) -> None:
    quantiser = pfpl.make_quantiser(
        np.zeros(0, float_type.word_dtype), float_type, Kind.POINTWISE_RELATIVE, bound
    )
    assert quantiser == Quantiser(Kind.POINTWISE_RELATIVE, width)


@pytest.mark.parametrize(
    ("float_type", "kind", "bound"),
    [
        (F32, 0, 0.0),
        (F32, 0, 1e-46),
        (F32, 1, math.nextafter(2.0**-23, 0.0)),
        (F64, 1, math.nextafter(2.0**-52, 0.0)),
        (F32, 2, 1e-40),
        (F64, 2, 5e-324),
        (F64, 0, 2.0**-1023),
        (F64, 2, 0.0),
        (F32, 3, 0.0),
    ],
)
def test_bounds_too_small_for_bins(float_type: FloatType, kind: int, bound: float) -> None:
    array = (np.arange(200) // 9 * 0.1).astype(float_type.float_dtype)
    data = frame.encode(array, kind, bound)
    fields = frame.parse(data)
    assert (fields.codec, fields.kind, fields.bound, fields.step) == (1, 3, bound, 0)
    assert frame.decode(data).tobytes() == array.tobytes()


@both_types
def test_range_bound(float_type: FloatType) -> None:
    def resolve(values: list[float], bound: float = 0.125, **options: Any) -> float:
        bits = patterns(values, float_type)
        return pfpl.resolved_range_bound(bits, float_type, bound, **options)

    def below(value: float) -> float:
        return math.nextafter(math.nextafter(value, 0.0), 0.0)

    nan, inf = math.nan, math.inf
    assert resolve([1.0, 5.0, 3.0]) == below(0.5)
    assert resolve([1.0, nan, inf, -inf, 5.0]) == below(0.5)
    assert resolve([1.0, -999.0, 5.0], fill_bits=pattern(-999.0, float_type)) == below(0.5)
    assert resolve([1.0, 0.0, -0.0, 5.0]) == below(0.625)
    assert resolve([1.0, 0.0, -0.0, 5.0], maybe_padded=True) == below(0.5)
    assert resolve([1.0, 0.0, 5.0], fill_bits=0) == below(0.5)
    # Only the fill value's own bits are the fill value.
    assert resolve([1.0, -0.0, 5.0], fill_bits=0) == below(0.625)
    for nothing in ([], [nan], [inf, -inf], [2.0, 2.0], [0.0, -0.0], [2.0, nan, 2.0]):
        assert resolve(nothing) == 0.0
    assert resolve([0.0, 0.0, 2.0], maybe_padded=True) == 0.0
    assert resolve([1.0, 5.0], 0.0) == 0.0
    assert resolve([1.0, 5.0], math.inf) >= 2.0**1023


def test_range_bound_that_overflows() -> None:
    largest = float(np.finfo("<f8").max)
    bits = patterns([-largest, largest], F64)
    expected = math.nextafter(math.nextafter(2.0 * (0.25 * largest), 0.0), 0.0)
    assert pfpl.resolved_range_bound(bits, F64, 0.25) == expected
    assert pfpl.resolved_range_bound(bits, F64, 4.0) >= 2.0**1023
    assert pfpl.narrowed_bound(expected, F64) == 2.0**1020


# ------------------------------------------------------------------------------------------------
# Words
# ------------------------------------------------------------------------------------------------


@both_types
def test_rounding_is_to_nearest_ties_away(float_type: FloatType) -> None:
    """With a step of 1, every number in reach has a good first candidate, the nearest integer."""
    limit = 1 << (float_type.mantissa_bits - 1)
    random = np.random.default_rng(10)
    x = np.concatenate(
        [
            random.integers(-limit, limit, 5000) + random.choice([0.0, 0.25, 0.5, 0.75], 5000),
            random.normal(scale=3.0, size=5000),
            random.integers(-50, 50, 1000) + 0.5,
            np.nextafter(np.arange(-9.5, 10).astype(float_type.float_dtype), np.inf),
            np.nextafter(np.arange(-9.5, 10).astype(float_type.float_dtype), -np.inf),
        ]
    ).astype(float_type.float_dtype)
    whole = np.trunc(x)
    nearest = (whole + np.where(np.abs(x - whole) >= 0.5, np.sign(x), 0.0)).astype("<i8")
    words = pfpl.quantise(x.view(float_type.word_dtype), float_type, absolute(1.0))
    assert words is not None
    inside = np.abs(nearest) < limit
    assert inside.sum() > x.size - 100
    assert words[inside].tolist() == pfpl.zigzag(nearest[inside]).tolist()


@both_types
def test_reach_of_absolute_bins(float_type: FloatType) -> None:
    limit = 1 << (float_type.mantissa_bits - 1)
    x = patterns([limit - 1, limit - 0.5, limit, limit + 1, -limit, 1 - limit], float_type)
    words = pfpl.quantise(x, float_type, absolute(1.0))
    assert words is not None
    # limit - 0.5 rounds to limit, which is out of reach; the second candidate is limit - 1.
    assert words.tolist() == [
        2 * limit - 2,
        2 * limit - 2,
        int(x[2]),
        int(x[3]),
        int(x[4]),
        2 * limit - 3,
    ]


def test_second_chance() -> None:
    """Numbers in the middle between two bins, where roundings decide which of them is good."""
    step = np.float32(0.2)
    middles = (np.random.default_rng(13).integers(1, 100000, 1000) + 0.5) * float(step)
    x = np.concatenate([middles, -middles]).astype("<f4")
    words = pfpl.quantise(x.view("<u4"), F32, absolute(float(step)))
    assert words is not None
    s = x * (np.float32(1) / step)
    first = np.trunc(s + np.copysign(np.float32(0.49999997), s)).astype("<i8")
    chosen = pfpl.unzigzag(words.astype("<u8"))
    counts = {"first": 0, "second": 0, "exception": 0}
    for value, word, candidate, q in zip(x, words, first.tolist(), chosen.tolist(), strict=True):
        errors = {
            n: Fraction(float(value)) - Fraction(float(np.float32(n) * step))
            for n in (candidate - 1, candidate, candidate + 1)
        }
        good = {n for n, error in errors.items() if abs(error) <= Fraction(float(step)) / 2}
        second = candidate - 1 if errors[candidate] < 0 else candidate + 1
        if candidate in good:
            assert q == candidate
            counts["first"] += 1
        elif second in good:
            assert q == second
            counts["second"] += 1
        else:
            assert word == value.view("<u4")
            counts["exception"] += 1
    assert min(counts.values()) > 100


def test_pointwise_words() -> None:
    """Computed by hand from the document, with S = 16385."""
    quantiser = Quantiser(Kind.POINTWISE_RELATIVE, 16385)
    bits_and_words = [
        (0x00000000, 0x00000000),
        (0x80000000, 0x00000000),
        (0x3F800000, 0x00000001),
        (0xBF800000, 0x00000002),
        (0x3F800000 + 8192, 0x00000001),
        (0x3F800000 + 8193, 0x00000005),
        (0x3F800000 - 8192, 0x00000001),
        (0x3F800000 - 8193, 0x00000003),
        (0x40000000, 2049),
        (0x3F000000, 2047),
        (0x7FC00000, 0x803FFFFF),
        (0xFFC00000, 0xFF7FFFFF),
        (0x7F800000, 0x7FFFFFFF),
        (0xFF800000, 0xFFFFFFFF),
        (0x00000001, 0xFF800000),
        (0x80000001, 0x7F800000),
    ]
    bits = np.array([pair[0] for pair in bits_and_words], "<u4")
    words = pfpl.quantise(bits, F32, quantiser)
    assert words is not None
    assert [f"{word:08x}" for word in words] == [f"{pair[1]:08x}" for pair in bits_and_words]
    decoded = pfpl.dequantise(words, F32, quantiser)
    assert decoded[:10].tolist() == [
        0,
        0,
        0x3F800000,
        0xBF800000,
        0x3F800000,
        0x3F800000 + 16385,
        0x3F800000,
        0x3F800000 - 16385,
        0x40000200,
        0x3F800000 - 512 * 16385,
    ]
    assert decoded[10:].tolist() == bits[10:].tolist()


def test_pointwise_reach() -> None:
    quantiser = Quantiser(Kind.POINTWISE_RELATIVE, 3)
    largest = 2**21 - 2
    bits = 0x3F800000 + 3 * np.array([largest, largest + 1, -largest, -largest - 1])
    words = pfpl.quantise(bits.astype("<u4"), F32, quantiser)
    assert words is not None
    assert words[0] == ((2 * largest + 1) << 1) - 1
    assert words[2] == ((2 * largest) << 1) - 1
    for i in (1, 3):
        assert words[i] == (int(bits[i]) ^ 0xFF800000) - 1


@both_types
def test_pointwise_stays_normal_and_finite(float_type: FloatType) -> None:
    smallest = 1 << float_type.mantissa_bits
    bits = np.array([smallest, smallest + 1, float_type.infinity - 1], float_type.word_dtype)
    for bound in (0.5, 0.3, 0.01):
        quantiser = pfpl.make_quantiser(bits, float_type, Kind.POINTWISE_RELATIVE, bound)
        words = pfpl.quantise(bits, float_type, quantiser)
        assert words is not None
        decoded = pfpl.dequantise(words, float_type, quantiser)
        assert np.all((decoded >= smallest) & (decoded < float_type.infinity))


@both_types
def test_negative_nans_store_a_pointwise_tile(float_type: FloatType) -> None:
    per_tile = 16384 // float_type.size
    for nan in (float_type.default_negative_nan + 1, float_type.head_mask + 1):
        bits = patterns([1.0] * (per_tile + 64), float_type)
        bits[70] = nan
        data = frame.encode(bits.view(float_type.float_dtype), Kind.POINTWISE_RELATIVE, 0.1)
        sizes = [len(tile) for tile in frame.parse(data).tiles]
        assert sizes[0] == 16384
        assert 0 < sizes[1] < 64 * float_type.size
        assert frame.decode(data).tobytes() == bits.tobytes()


@both_types
def test_subnormal_fill_value_stores_an_absolute_tile(float_type: FloatType) -> None:
    per_tile = 16384 // float_type.size
    for fill in (1, (1 << float_type.mantissa_bits) - 1):
        bits = patterns([1.0] * (per_tile + 64), float_type)
        bits[70] = fill
        array = bits.view(float_type.float_dtype)
        stored = frame.parse(frame.encode(array, Kind.ABSOLUTE, 0.1, fill_bits=fill))
        assert stored.tiles[0] == bits[:per_tile].tobytes()
        assert 0 < len(stored.tiles[1]) < 64 * float_type.size
        # Without that fill value, the number is one of bin 0.
        coded = frame.decode(frame.encode(array, Kind.ABSOLUTE, 0.1))
        assert coded[70] == 0.0


@both_types
def test_subnormals_beside_the_fill_value_zero(float_type: FloatType) -> None:
    """A fill value of +0.0 does not count: what is within the bound of it may become it."""
    bits = patterns([1.0] * 640, float_type)
    bits[70] = 5
    data = frame.encode(bits.view(float_type.float_dtype), Kind.ABSOLUTE, 0.125, fill_bits=0)
    assert frame.decode(data).view(float_type.word_dtype)[70] == 0
    assert data == frame.encode(bits.view(float_type.float_dtype), Kind.ABSOLUTE, 0.125)


# ------------------------------------------------------------------------------------------------
# Block codecs: the documents' examples
# ------------------------------------------------------------------------------------------------

# fmt: off
BLOCK_Q = np.array(
    [
        100, 101, 101, 102, 103, 103, 102, 101, 100, 100, 99, 99, 98, 98, 98, 97,
        96, 96, 97, 98, 99, 100, 101, 102, 103, 103, 103, 103, 102, 102, 101, 100,
    ],
)
# fmt: on
BLOCK_BITS = patterns(BLOCK_Q, F32)
EXCEPTION_BITS = patterns([*BLOCK_Q, *([-999.0] * 32)], F32)
EXCEPTION_BITS[[3, 20]] = pattern(-999.0, F32), 0x7FC00000
BLOCK_PLANES = "03a9800b 5ba9bf8b"
EXCEPTION_PLANES = "03a9800b 43a9b38b 08000400"
EXCEPTIONS = "01000000 00c079c4 03000000 02000000 02000000 08001000 00c079c4 0000c07f"


def encoded(bits: Array, codec: int, mode: int = 0, fill: int | None = None, n: int = 4) -> bytes:
    """Encode one tile with step 1."""
    payload = frame.CODECS[codec].encode_tile(bits, FLOAT_TYPES[n], absolute(1.0), fill, mode=mode)
    assert isinstance(payload, bytes)
    return payload


def decoded(payload: str | bytes, count: int, codec: int, mode: int = 0, n: int = 4) -> Array:
    """Decode one tile with step 1."""
    data = bytes.fromhex(payload) if isinstance(payload, str) else payload
    values: Array = frame.CODECS[codec].decode_tile(
        data, count, FLOAT_TYPES[n], absolute(1.0), mode=mode
    )
    return values


@pytest.mark.parametrize(
    ("codec", "mode", "payload"),
    [
        (2, 0x10, f"07000000 {BLOCK_PLANES} 00000000 80000000 {'00000000' * 2} {'80000000' * 2}"),
        (2, 0x11, f"81000000 {BLOCK_PLANES} 64000000"),
        (3, 0, f"01000000 01000000 64000000 {BLOCK_PLANES}"),
    ],
)
def test_example_block(codec: int, mode: int, payload: str) -> None:
    assert encoded(BLOCK_BITS, codec, mode) == bytes.fromhex(payload)
    assert decoded(payload, 32, codec, mode).tolist() == BLOCK_BITS.tolist()


@pytest.mark.parametrize(
    ("codec", "mode", "payload"),
    [
        (2, 0x11, f"82000000 {EXCEPTION_PLANES} {EXCEPTIONS} 64000000"),
        (3, 0, f"01000000 02000000 64000000 {EXCEPTION_PLANES} {EXCEPTIONS}"),
    ],
)
def test_example_exceptions(codec: int, mode: int, payload: str) -> None:
    fill = pattern(-999.0, F32)
    assert encoded(EXCEPTION_BITS, codec, mode, fill) == bytes.fromhex(payload)
    assert decoded(payload, 64, codec, mode).tolist() == EXCEPTION_BITS.tolist()


# ------------------------------------------------------------------------------------------------
# Block codecs: from values to integers
# ------------------------------------------------------------------------------------------------


def test_pointwise_integers() -> None:
    """Computed by hand: S = 16385, so K = floor(126 * 2^23 / 16385) = 64508."""
    quantiser = Quantiser(Kind.POINTWISE_RELATIVE, 16385)
    assert blocks.largest_bin(F32, 16385) == 64508
    assert blocks.largest_bin(F32, 3) == 2**21 - 2
    bits_and_integers = [
        (0x00000000, 0),
        (0x80000000, 0),
        (0x3F800000, 64509),
        (0xBF800000, -64509),
        (0x3F800000 + 8192, 64509),
        (0x3F800000 + 8193, 64510),
        (0x3F800000 - 8193, 64508),
        (0x40000000, 64509 + 512),
        (0xBF000000, -64509 + 512),
    ]
    raw = [0x7FC00000, 0xFFC00000, 0xFFC00001, 0x7F800000, 0xFF800000, 0x00000001, 0x80000001]
    bits = np.array([pair[0] for pair in bits_and_integers] + raw, "<u4")
    q, is_exception = blocks.quantise(bits, F32, quantiser)
    assert q[:9].tolist() == [pair[1] for pair in bits_and_integers]
    assert is_exception.tolist() == [False] * 9 + [True] * 7
    assert blocks.dequantise(q[:9], F32, quantiser).tolist() == [
        *(0, 0, 0x3F800000, 0xBF800000, 0x3F800000),
        *(0x3F800000 + 16385, 0x3F800000 - 16385, 0x40000200, 0xBF800000 - 512 * 16385),
    ]
    # A fill value of -0.0 is no zero.
    _, is_exception = blocks.quantise(bits, F32, quantiser, 0x80000000)
    assert is_exception[:9].tolist() == [False, True] + [False] * 7


@both_types
def test_pointwise_integers_that_no_encoder_writes(float_type: FloatType) -> None:
    """In whole numbers, as the document writes it."""
    bits = float_type.word_bits
    random = np.random.default_rng(21)
    numbers = random.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), 50).tolist()
    numbers += [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, 1, -1, 0]
    for width in (3, 16385, 2**float_type.mantissa_bits + 1):
        k = blocks.largest_bin(float_type, width)
        expected = [
            (q < 0) << (bits - 1) | (float_type.one + (abs(q) - k - 1) * width) % 2 ** (bits - 1)
            if q
            else 0
            for q in numbers
        ]
        quantiser = Quantiser(Kind.POINTWISE_RELATIVE, width)
        integers = np.array(numbers, blocks.signed_dtype(float_type))
        assert blocks.dequantise(integers, float_type, quantiser).tolist() == expected


@both_types
@pytest.mark.parametrize("kind", [Kind.ABSOLUTE, Kind.POINTWISE_RELATIVE])
def test_integers_are_those_of_pfpl(float_type: FloatType, kind: Kind) -> None:
    """The same values are exceptions, and the others decode to the same."""
    random = np.random.default_rng(22)
    bits = patterns(random.normal(size=4000) * 10.0 ** random.integers(-9, 9, 4000), float_type)
    specials = special_bits(float_type)
    negative_nans = [word for word in specials if word > float_type.head_mask]
    harmless = [word for word in specials if word not in negative_nans]
    bits[: len(harmless)] = harmless
    for bound, fill in itertools.product((1e-6, 0.1, 1.0), fills(float_type).values()):
        quantiser = pfpl.make_quantiser(bits, float_type, kind, bound)
        counting = frame._counting(fill, float_type)
        words = pfpl.quantise(bits, float_type, quantiser, counting)
        if words is None:
            continue
        q, is_exception = blocks.quantise(bits, float_type, quantiser, counting)
        values = np.where(is_exception, bits, blocks.dequantise(q, float_type, quantiser))
        assert values.tolist() == pfpl.dequantise(words, float_type, quantiser).tolist()
        assert np.abs(q).max() < 2 ** (float_type.mantissa_bits - 1)


def test_exceptions_follow_the_value_before() -> None:
    for q, exceptions, expected in [
        ([0, 0, 7, 0, 0, 8], [0, 1, 3, 4], [7, 7, 7, 7, 7, 8]),
        ([3, 0, 5, 0], [1, 3], [3, 3, 5, 5]),
        ([0, 0, 0], [0, 1, 2], [0, 0, 0]),
        ([4, 5], [], [4, 5]),
    ]:
        mask = np.isin(np.arange(len(q)), exceptions)
        assert blocks.fill_run(np.array(q), mask).tolist() == expected


@both_types
def test_any_pattern_may_be_an_exception(float_type: FloatType) -> None:
    """What makes PFPL store a whole tile is nothing special to the block codecs."""
    bits = patterns([1.0] * 200, float_type)
    bits[70] = 3
    bits[71] = float_type.head_mask | 5
    array = bits.view(float_type.float_dtype)
    for codec, kind in itertools.product((2, 3), (0, 1)):
        data = frame.encode(array, kind, 0.25, fill_bits=3, codec=codec)
        assert 0 < len(frame.parse(data).tiles[0]) < array.nbytes // 4
        assert frame.parse(data).codec == codec
        assert frame.decode(data).tobytes() == array.tobytes()


# ------------------------------------------------------------------------------------------------
# Block codecs: bits, codes, tiles
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [32, 64])
def test_planes_of_a_block(size: int) -> None:
    differences = np.zeros(size, int)
    differences[[0, 7, 8, size - 1]] = -1, 2, 5, -6
    packed = blocks.pack_block(differences, 3)
    tail = "00" * (size // 8 - 3)
    assert packed == bytes.fromhex(
        f"80 00 {tail} 01   80 80 {tail} 00   01 00 {tail} 01   00 80 {tail} 01"
    )
    negative, magnitudes = blocks.unpack_block(packed, size, F64)
    assert np.where(negative, -magnitudes, magnitudes).tolist() == differences.tolist()


@pytest.mark.parametrize(
    ("q", "n", "code", "size"),
    [
        ([0] * 32, 4, "00", 0),
        ([5] * 32, 4, "80", 4 + 1),
        ([-256] * 32, 4, "a0", 4 + 2),
        ([2**16, *([2**16 - 1] * 31)], 4, "c1", 8 + 3),
        ([1, 2, 1, 0] * 8, 4, "01", 8),
        ([2**40, *([2**40 + 1] * 31)], 8, "4103", 8 + 6),
        ([5, *([4] * 31)], 8, "0102", 8 + 1),
        # The plane of d_0's highest bit has as many bytes as a_0 would have: plain.
        ([2**24, *([2**23] * 31)], 8, "1900", 26 * 4),
        ([2**24, *([2**23 + 1] * 31)], 8, "d702", 24 * 4 + 4),
    ],
)
def test_codes_of_cuszp2(q: list[int], n: int, code: str, size: int) -> None:
    float_type = FLOAT_TYPES[n]
    differences = cuszp2.to_differences(np.array([q]), 0x11, np.ones((1, 32), bool))[0]
    chosen = cuszp2.choose_code(differences, 0x11)
    assert cuszp2.pack_code(chosen, float_type) == bytes.fromhex(code)
    assert chosen.size(32) == size
    assert list(cuszp2.unpack_codes(bytes.fromhex(code), 0x11, float_type)) == [chosen]
    # Another block behind it, so that the tile is not constant.
    bits = patterns([*q, *([0, 1] * 16)], float_type)
    payload = encoded(bits, 2, 0x11, n=n)
    assert payload[: len(code) // 2] == bytes.fromhex(code)
    assert decoded(payload, 64, 2, 0x11, n).tolist() == bits.tolist()


def test_differences_of_cuszp2() -> None:
    inside = np.ones((1, 64), bool)
    z, y, x = np.unravel_index(np.arange(64), (4, 4, 4))
    q = (100 * z + 10 * y + x)[None, :]
    expected = np.where(x > 0, 1, np.where(y > 0, 10, np.where(z > 0, 100, 0)))
    assert cuszp2.to_differences(q, 0x31, inside)[0].tolist() == expected.tolist()
    y, x = np.divmod(np.arange(64), 8)
    q = (7 + 10 * y + x)[None, :]
    inside[0, 8:] = False
    expected = np.where(x > 0, 1, np.where(y > 0, 0, 7)) * inside[0]
    assert cuszp2.to_differences(q, 0x20, inside)[0].tolist() == expected.tolist()
    assert cuszp2.to_differences(q, 0x22, inside)[0].tolist() == (q * inside)[0].tolist()


def test_exceptions_of_a_two_dimensional_block() -> None:
    """A 3 x 3 chunk: numbers of positions are those of an 8 x 8 block."""
    bits = patterns([1, 2, 3, 4, 5, 6, 7, 8, 9], F32)
    bits[[3, 5]] = 0x7FC00000, 0x7F800000
    tiling = cuszp2.tiling(9, F32, 0x22, (1, 3, 3))
    inside = tiling.inside(0)
    assert inside is not None
    payload = cuszp2.encode_tile(bits, F32, absolute(1.0), mode=0x22, inside=inside)
    # Value 3 takes the q of value 2, and value 5 that of value 4: 1 2 3 | 3 5 5 | 7 8 9.
    assert payload == bytes.fromhex(
        "04000000 0000000000000000"
        "a0e0a00000000000 6080800000000000 0060800000000000 0000600000000000"
        "01000000 0000c07f 01000000 00000000 00000000 0005000000000000 0000c07f 0000807f"
    )
    values = cuszp2.decode_tile(payload, 9, F32, absolute(1.0), mode=0x22, inside=inside)
    assert values.tolist() == bits.tolist()


def test_exceptions_in_several_groups() -> None:
    """Blocks 0 (some), 33 (all, others than the first one) and 40 (all as the first one)."""
    bits = patterns([1.0] * 1312, F32)
    bits[1] = 0x7FC00000
    bits[33 * 32 : 34 * 32] = np.arange(32) + 0x7FC00001
    bits[40 * 32 :] = 0x7FC00000
    payload = encoded(bits, 3)
    assert (
        payload
        == bytes.fromhex(
            "00000000 01000000 03000000 0000c07f"
            "01000000 00000000 01000000  02010000 02010000 00010000  02000000"
        )
        + np.arange(0x7FC00001, 0x7FC00021).astype("<u4").tobytes()
    )
    assert decoded(payload, 1312, 3).tolist() == bits.tolist()


def test_layers_of_aatrox() -> None:
    """Blocks 31 and 32 * 3 + 1 of a tile of 98 blocks; layers 1 and 2 have no codes."""
    values = np.zeros(98 * 32 - 5)
    values[31 * 32 + 4 :] = -3
    values[97 * 32 :] = 6
    bits = patterns(values, F32)
    planes = "08000000 08000000 08000000" + "00000000 80000000 00000000 00000000 80000000"
    codes = "00" * 31 + "02" + "00 04"
    payload = bytes.fromhex("09000000" + codes + "0000" + "00000000" + planes)
    assert encoded(bits, 3) == payload
    assert decoded(payload, bits.size, 3).tolist() == bits.tolist()


@both_types
def test_forms_of_a_tile(float_type: FloatType) -> None:
    size = float_type.size
    nan = float_type.infinity | 5
    mixed = patterns([2.0, 2.0, 2.0, math.nan], float_type)
    for codec in (2, 3):
        for values, length in [
            ([0.0] * 100, 0),
            ([0.25, -0.25, 0.0], 0),
            ([2.25, 1.75, 2.0], size),
        ]:
            payload = encoded(patterns(values, float_type), codec, 0x11, n=size)
            assert len(payload) == length
            if length:
                assert payload == patterns([2.0], float_type).tobytes()
                values_back = decoded(payload, len(values), codec, 0x11, size)
                assert values_back.tolist() == [pattern(2.0, float_type)] * len(values)
        nans = np.full(40, nan, float_type.word_dtype)
        assert encoded(nans, codec, 0x11, n=size) == nans[:1].tobytes()
        # Four values are stored rather than written in full.
        payload = encoded(mixed, codec, 0x11, n=size)
        assert len(payload) > mixed.nbytes
        # One value is stored as it came.
        for value in (2.25, 0.25):
            array = np.array([*([0.0] * 32768), value], float_type.float_dtype)
            fields = frame.parse(frame.encode(array, 0, 0.5, codec=codec))
            assert fields.codec == codec
            assert fields.tiles[-1] == (array[-1:].tobytes() if value > 1 else b"")


def test_wrapping_residuals() -> None:
    """What no encoder writes: sums that leave 32 bits."""
    # 31 times 2^23 - 1 on top of 2^31 - 1.
    planes = "00000000" + "7fffffff" * 23
    payload = f"01000000 17000000 ffffff7f {planes}"
    expected = [(2**31 - 1 + i * (2**23 - 1) + 2**31) % 2**32 - 2**31 for i in range(32)]
    assert decoded(payload, 32, 3).tolist() == patterns(expected, F32).tolist()


def test_bits_without_meaning() -> None:
    """Signs of zeros, positions behind the end, and the first residual's place in the planes."""
    # Two values: 5, 5. The planes have all bits set, and the residual is negative.
    payload = "81000000 ffffffff ffffffff 05000000"
    assert decoded(payload, 2, 2, 0x11).tolist() == patterns([-5, -6], F32).tolist()
    payload = "81000000 ffffffff 00000000 0000ff00"
    with pytest.raises(Corrupt, match="padding"):
        decoded(payload, 2, 2, 0x11)
    payload = "c0000000 00000000 ffffff00"
    assert decoded(payload, 3, 2, 0x11).tolist() == patterns([2**24 - 1] * 3, F32).tolist()
    payload = "01000000 01000000 64000000 00000000 ffffffff"
    assert decoded(payload, 3, 3).tolist() == patterns([101, 102, 103], F32).tolist()


@pytest.mark.parametrize("dims", [(1, 9, 17), (3, 9, 17), (5, 1, 4), (1, 2, 200), (33, 33, 5)])
@pytest.mark.parametrize("dimensions", [2, 3])
def test_blocks_hold_each_value_once(dims: tuple[int, int, int], dimensions: int) -> None:
    tiling = cuszp2.tiling(math.prod(dims), F32, dimensions << 4, dims)
    shape = {2: (1, 8, 8), 3: (4, 4, 4)}[dimensions]
    expected = []
    grid = [range(-(-extent // block)) for extent, block in zip(dims, shape, strict=True)]
    for bz, by, bx in itertools.product(*grid):
        for z, y, x in itertools.product(*map(range, shape)):
            zz, yy, xx = bz * shape[0] + z, by * shape[1] + y, bx * shape[2] + x
            if zz < dims[0] and yy < dims[1] and xx < dims[2]:
                expected.append((zz * dims[1] + yy) * dims[2] + xx)
    tiles = [tiling.places(tile).tolist() for tile in range(tiling.tile_count)]
    assert list(itertools.chain.from_iterable(tiles)) == expected
    assert sorted(expected) == list(range(math.prod(dims)))
    assert tiling.tile_count == -(-math.prod(map(len, grid)) // 64)


@pytest.mark.parametrize(
    ("shape", "asked", "mode", "dims"),
    [
        (None, 0, 0x11, None),
        ((600,), 0x32, 0x12, None),
        ((20, 30), 0, 0x11, None),
        ((20, 30), 0x31, 0x21, (1, 20, 30)),
        ((20, 31), 0x31, 0x11, None),
        ((1, 20, 1, 30, 1), 0x30, 0x20, (1, 20, 30)),
        ((2, 10, 30), 0x21, 0x21, (2, 10, 30)),
        ((2, 5, 2, 1, 30), 0x32, 0x32, (10, 2, 30)),
        ((1, 600), 0x21, 0x11, None),
    ],
)
def test_modes_and_shapes(
    shape: tuple[int, ...] | None, asked: int, mode: int, dims: tuple[int, int, int] | None
) -> None:
    array = np.sin(np.arange(600) / 50).astype("<f4")
    fields = frame.parse(frame.encode(array, 0, 0.01, codec=2, mode=asked, shape=shape))
    assert (fields.codec, fields.mode, fields.dims) == (2, mode, dims)


@pytest.mark.parametrize(("codec", "mode"), [(0, 1), (1, 1), (2, 1), (2, 0x13), (2, 0x51), (3, 1)])
def test_modes_that_there_are_not(codec: int, mode: int) -> None:
    with pytest.raises(ValueError, match="mode"):
        frame.encode(GRID, 0, 0.5, codec=codec, mode=mode)


# What is wrong with each of these is one thing.
BROKEN_CUSZP2 = {
    "no multiple of 4": ("8100", 0x11),
    "planes and residual cut": ("81000000 00000000", 0x11),
    "a pad behind the codes": ("81000100" + BLOCK_PLANES + "64000000", 0x11),
    "a pad behind the residuals": ("81000000" + BLOCK_PLANES + "64000001", 0x11),
    "no residual": ("81000000" + BLOCK_PLANES, 0x11),
    "planes cut": ("07000000" + BLOCK_PLANES, 0x10),
    "more than there is": ("81000000" + BLOCK_PLANES + "64000000 00000000", 0x11),
    "an outlier block in mode plain": ("81000000" + BLOCK_PLANES + "64000000", 0x10),
    "an outlier block in mode fixed": ("81000000" + BLOCK_PLANES + "64000000", 0x12),
    "a residual of 4 bytes": ("e1000000" + BLOCK_PLANES + "64000000", 0x11),
    "bits of a plain code": ("21000000" + BLOCK_PLANES, 0x11),
    "width 24": ("18000000" + "00000000" * 25, 0x10),
    "outlier width 24": ("98000000" + "00000000" * 25 + "01000000", 0x11),
    "fixed width 23": ("17000000" + "00000000" * 24, 0x12),
}
BROKEN_CUSZP2_DOUBLE = {
    "a residual of 8 bytes": ("c1030000" + BLOCK_PLANES + "64000000 00000000", 0x11),
    "bits of a plain code": ("41000000" + BLOCK_PLANES, 0x11),
    "a high bit of a plain code": ("01800000" + BLOCK_PLANES, 0x11),
    "a high bit of an outlier code": ("01060000" + BLOCK_PLANES + "64000000", 0x11),
    "width 53": ("35000000" + "00000000" * 54, 0x11),
    "fixed width 52": ("34000000" + "00000000" * 53, 0x12),
    "an outlier block in mode plain": ("01020000" + BLOCK_PLANES + "64000000", 0x10),
}
BROKEN_AATROX = {
    "no multiple of 4": "010000000100000064000000" + BLOCK_PLANES + "00",
    "a layer without values": "03000000 01000000 64000000" + BLOCK_PLANES,
    "a layer with codes of 0": "01000000 00000000 64000000",
    "a pad": "01000000 01000100 64000000" + BLOCK_PLANES,
    "width 24": "01000000 18000000 64000000" + "00000000" * 25,
    "no initial q": "01000000 01000000",
    "planes cut": "01000000 01000000 64000000 03a9800b",
    "more than there is": "01000000 01000000 64000000" + BLOCK_PLANES + "00000000",
}


def test_what_is_not_broken() -> None:
    """The neighbours of broken payloads are read."""
    for payload, mode, n in [
        ("17000000" + "00000000" * 24, 0x10, 4),
        ("97000000" + "00000000" * 24 + "01000000", 0x11, 4),
        ("16000000" + "00000000" * 23, 0x12, 4),
        ("34000000" + "00000000" * 53, 0x10, 8),
        ("b4030000" + "00000000" * 53 + "01000000 00000000", 0x11, 8),
        ("33000000" + "00000000" * 52, 0x12, 8),
        ("01020000" + BLOCK_PLANES + "64000000", 0x11, 8),
    ]:
        assert decoded(payload, 32, 2, mode, n).size == 32


@pytest.mark.parametrize("broken", BROKEN_CUSZP2)
def test_broken_cuszp2(broken: str) -> None:
    payload, mode = BROKEN_CUSZP2[broken]
    with pytest.raises(Corrupt):
        decoded(payload, 32, 2, mode)


@pytest.mark.parametrize("broken", BROKEN_CUSZP2_DOUBLE)
def test_broken_cuszp2_of_float64(broken: str) -> None:
    payload, mode = BROKEN_CUSZP2_DOUBLE[broken]
    with pytest.raises(Corrupt):
        decoded(payload, 32, 2, mode, 8)


@pytest.mark.parametrize("broken", BROKEN_AATROX)
def test_broken_aatrox(broken: str) -> None:
    with pytest.raises(Corrupt):
        decoded(BROKEN_AATROX[broken], 32, 3)


WHOLE_SECTION = "01000000 ad0bffff 03000000 02000000 02000000 08001000 04000000 05000000"


@pytest.mark.parametrize(
    "section",
    [
        "00000000" + WHOLE_SECTION[8:],
        "03000000" + WHOLE_SECTION[8:] + "01000000 00000000 00000000",
        "02000000" + WHOLE_SECTION[8:],
        "01000000 ad0bffff 00000000 00000000 00000000",
        "01000000 ad0bffff 05000000 04000000 04000000 08001000 04000000 05000000",
        "01000000 ad0bffff 01000000 02000000 00000000 08001000 04000000 05000000",
        "01000000 ad0bffff 01000000 00000000 02000000 08001000 04000000 05000000",
        "01000000 ad0bffff 03000000 02000000 02000000 00000000",
        "01000000 ad0bffff 03000000 00000000 03000000 08001000 00000080",
        "01000000 ad0bffff 03000000 00000000 03000000 08001000 ffffff00",
        "01000000 ad0bffff 03000000 02000000 03000000 ffffffff",
        "01000000",
        "01000000 ad0bffff 03000000 02000000",
        WHOLE_SECTION[:-9],
        WHOLE_SECTION + "06000000",
    ],
)
def test_broken_exceptions(section: str) -> None:
    """Two blocks, the last one of 24 values."""
    inside = blocks.consecutive_inside(56)
    is_exception, bits = blocks.unpack_exceptions(bytes.fromhex(WHOLE_SECTION), inside, F32)
    assert np.flatnonzero(is_exception).tolist() == [3, 20, *range(32, 56)]
    assert bits[is_exception].tolist() == [4, 5] + [0xFFFF0BAD] * 24
    with pytest.raises(Corrupt):
        blocks.unpack_exceptions(bytes.fromhex(section), inside, F32)
    # The same behind codes and q.
    for front, codec in (("00000000", 2), ("00000000 64000000", 3)):
        values = decoded(front + WHOLE_SECTION, 56, codec, 0x11)
        assert values[is_exception.reshape(-1)[:56]].tolist() == bits[is_exception].tolist()
        with pytest.raises(Corrupt):
            decoded(front + section, 56, codec, 0x11)


# ------------------------------------------------------------------------------------------------
# Auto
# ------------------------------------------------------------------------------------------------


def field(shape: tuple[int, ...], seed: int = 31) -> Array:
    """Give numbers that are smooth along all axes, and jump here and there."""
    random = np.random.default_rng(seed)
    waves = [np.sin(np.arange(extent) / (5 + 3 * axis)) for axis, extent in enumerate(shape)]
    values = sum(np.ix_(*waves)) + 0.01 * random.normal(size=shape)
    return (values + (random.random(shape) < 0.001)).astype("<f4")


@pytest.mark.parametrize(
    ("shape", "dims", "piece", "numbers"),
    [
        # The rule by hand: units of 32, 8x and 4yx values; k = max(1, (P + 2) / 4).
        ((5000,), [5000], 5000, [0]),
        ((90000,), [8192], 8192, [1, 4, 8]),
        ((300, 100), [88, 100], 8800, [1]),
        ((1, 200, 300), [32, 300], 9600, [1, 4]),
        ((40, 30, 25), [12, 30, 25], 9000, [1]),
        ((2, 20, 30, 25), [12, 30, 25], 9000, [1]),
        ((3, 40, 50), [3, 40, 50], 6000, [0]),
    ],
)
def test_auto_looks_at_its_sample(
    shape: tuple[int, ...], dims: list[int], piece: int, numbers: list[int]
) -> None:
    for seed, bound in itertools.product((1, 2), (1e-2, 1e-4)):
        array = field(shape, seed).reshape(-1)
        modes = [(1, 0), *((2, d << 4 | 1) for d in range(1, 1 + len(dims))), (3, 0)]
        sizes = dict.fromkeys(modes, 0)
        for (c, m), n in itertools.product(modes, numbers):
            values = array[n * piece : (n + 1) * piece]
            sizes[c, m] += len(frame.encode(values, 0, bound, codec=c, mode=m, shape=dims))
        codec, mode = min(modes, key=sizes.__getitem__)
        picked = frame.encode(array, 0, bound, codec=frame.AUTO, shape=shape)
        assert picked == frame.encode(array, 0, bound, codec=codec, mode=mode, shape=shape)


def test_auto_does_not_look_elsewhere() -> None:
    """Of 11 pieces, 1, 5 and 9 are in the sample; these are constant here, the others are not."""
    array = np.zeros(90112, "<f4")
    array += field((90112,))
    for number in (1, 5, 9):
        array[number * 8192 : (number + 1) * 8192] = 0
    # All candidates need nothing but a header and a tile table: AATROX's has one tile for each.
    assert frame.parse(frame.encode(array, 0, 1e-3, codec=frame.AUTO)).codec == aatrox.NUMBER


def test_auto_of_equals_takes_the_first() -> None:
    for shape in ((64, 64), (16, 16, 16)):
        data = frame.encode(np.zeros(shape, "<f4"), 0, 0.5, codec=frame.AUTO, shape=shape)
        assert frame.parse(data).codec == pfpl.NUMBER


# ------------------------------------------------------------------------------------------------
# Every promise, in exact arithmetic
# ------------------------------------------------------------------------------------------------


def special_bits(float_type: FloatType) -> list[int]:
    """Give patterns that are not numbers, or on the edge of being some."""
    sign, m = 1 << (float_type.word_bits - 1), float_type.mantissa_bits
    infinity = float_type.infinity
    positive = [
        *(0, 1, 2, 1 << (m - 1), (1 << m) - 1, 1 << m, (1 << m) + 1),
        *(float_type.one - 1, float_type.one, float_type.one + 1),
        *(infinity - 1, infinity, infinity + 1, infinity | 1 << (m - 1), sign - 1),
    ]
    return positive + [sign | bits for bits in positive]


def check(
    array: Array,
    decoded: Array,
    kind: Kind,
    bound: float,
    *,
    fill_bits: int | None = None,
    maybe_padded: bool = False,
    where: Any = slice(None),
) -> None:
    """Assert all that the user was promised, with fractions; values outside `where` go unseen."""
    assert decoded.dtype == array.dtype
    float_type = FLOAT_TYPES[array.dtype.itemsize]
    word = array.dtype.str.replace("f", "u")
    original = array.view(word)
    limit = Fraction(min(bound, sys.float_info.max))
    if kind == Kind.RANGE_RELATIVE:
        valid = np.isfinite(array) & ((array != 0) | (not maybe_padded))
        if fill_bits is not None:
            valid &= original != fill_bits
        lowest, highest = min(array[valid], default=0), max(array[valid], default=0)
        limit *= Fraction(float(highest)) - Fraction(float(lowest))
    original, result = original[where], decoded.view(word)[where]
    changed = original != result
    if kind == Kind.LOSSLESS:
        assert not changed.any()
        return
    assert not (changed & (original & float_type.infinity == float_type.infinity)).any()
    if fill_bits is not None:
        # What is within the bound of +0.0 may become it, fill value or not.
        turned = (result == fill_bits) & (fill_bits != 0)
        assert not (changed & ((original == fill_bits) | turned)).any()
    values, results = array[where][changed].tolist(), decoded[where][changed].tolist()
    for value, number in zip(values, results, strict=True):
        allowed = limit * abs(Fraction(value)) if kind == Kind.POINTWISE_RELATIVE else limit
        assert abs(Fraction(value) - Fraction(number)) <= allowed, f"{value!r} to {number!r}"


BOUNDS = [1e-46, 1e-30, 2.0**-23, 1e-3, 0.3, 0.5, 1.0, 1e38]


def fills(float_type: FloatType) -> dict[str, int | None]:
    """Give fill values of all sorts."""
    return {
        "none": None,
        "negative zero": pattern(-0.0, float_type),
        "subnormal": 3,
        "negative subnormal": pattern(-0.0, float_type) | 3,
        "default negative NaN": float_type.default_negative_nan,
        "other negative NaN": float_type.head_mask | 5,
        "NaN": pattern(math.nan, float_type),
        "signalling NaN": float_type.infinity | 5,
        "infinity": float_type.infinity,
        "-999": pattern(-999.0, float_type),
        "one": pattern(1.0, float_type),
    }


@both_types
@pytest.mark.parametrize("kind", list(Kind), ids=lambda kind: kind.name.lower())
@pytest.mark.parametrize("order", "<>")
def test_special_values(float_type: FloatType, kind: Kind, order: str) -> None:
    """Two tiles: negative NaNs store the first one, so it is the second that shows the words."""
    random = np.random.default_rng(11)
    specials = special_bits(float_type)
    negative_nans = [bits for bits in specials if bits > float_type.head_mask]
    harmless = [bits for bits in specials if bits not in negative_nans]
    bits = patterns(random.normal(scale=2.0, size=20000 // float_type.size), float_type)
    bits[200:300] = bits[0]
    bits[100 : 100 + len(specials)] = specials
    bits[-len(harmless) :] = harmless
    bits[-len(harmless) - 1] = float_type.default_negative_nan
    for fill_bits in fills(float_type).values():
        if fill_bits is not None:
            bits[-100] = bits[50] = fill_bits
        swapped = bits.astype(f"{order}u{float_type.size}").view(f"{order}f{float_type.size}")
        for bound in BOUNDS if kind != Kind.LOSSLESS else [0.0]:
            for maybe_padded in (False, True) if kind == Kind.RANGE_RELATIVE else (False,):
                data = frame.encode(
                    swapped, kind, bound, fill_bits=fill_bits, maybe_padded=maybe_padded
                )
                assert len(data) <= swapped.nbytes + 40
                check(
                    swapped,
                    frame.decode(data),
                    kind,
                    bound,
                    fill_bits=fill_bits,
                    maybe_padded=maybe_padded,
                    where=np.r_[45:55, 95:145, -120:0],
                )


@both_types
@pytest.mark.parametrize("kind", [0, 2])
def test_fill_value_zero(float_type: FloatType, kind: int) -> None:
    bits = patterns(np.linspace(-2.0, 2.0, 401), float_type)
    bits[[7, 9]] = pattern(-0.0, float_type), 0
    array = bits.view(float_type.float_dtype)
    for bound in (0.01, 0.3, 1.0):
        decoded = frame.decode(frame.encode(array, kind, bound, fill_bits=0))
        check(array, decoded, Kind(kind), bound, fill_bits=0)
        assert decoded.view(float_type.word_dtype)[9] == 0


@both_types
def test_fill_value_zero_pointwise(float_type: FloatType) -> None:
    bits = patterns([1.0] * 640, float_type)
    bits[[7, 9]] = pattern(-0.0, float_type), 0
    array = bits.view(float_type.float_dtype)
    decoded = frame.decode(frame.encode(array, Kind.POINTWISE_RELATIVE, 0.01, fill_bits=0))
    check(array, decoded, Kind.POINTWISE_RELATIVE, 0.01)
    assert decoded.view(float_type.word_dtype)[9] == 0


@both_types
def test_fill_value_zero_before_the_bound(float_type: FloatType) -> None:
    bits = patterns([1.0] * 640, float_type)
    bits[7] = pattern(0.5, float_type) - 1
    array = bits.view(float_type.float_dtype)
    decoded = frame.decode(frame.encode(array, Kind.ABSOLUTE, 0.5, fill_bits=0))
    check(array, decoded, Kind.ABSOLUTE, 0.5)


@both_types
def test_limits_of_bounds(float_type: FloatType) -> None:
    """Numbers at the edge of bins, from the smallest bin to the largest."""
    smallest, largest = 1 - float_type.bias, float_type.bias - 3
    random = np.random.default_rng(12)
    number = float_type.number
    for exponent in (smallest, smallest + 1, -40, -1, 0, 17, largest - 1, largest):
        for mantissa in (1.0, 1.1, 1.75):
            bound = mantissa * 2.0**exponent
            edges = np.concatenate([np.arange(8), random.integers(8, 5000, 60)]) + 0.5
            with np.errstate(over="ignore"):
                x = (edges * 2.0).astype(float_type.float_dtype) * number(bound)
                x = np.concatenate(
                    [x, np.nextafter(x, number(0)), np.nextafter(x, number(math.inf))]
                )
            x = np.concatenate([x, -x])
            # Enough of one value for the codec to be worth its while.
            x = np.concatenate([x, np.zeros(1000, x.dtype)])
            data = frame.encode(x, Kind.ABSOLUTE, bound)
            assert frame.parse(data).kind == Kind.ABSOLUTE
            assert frame.parse(data).codec == 1
            check(x, frame.decode(data), Kind.ABSOLUTE, bound, where=slice(0, -1000))


@st.composite
def chunks(draw: st.DrawFn) -> tuple[FloatType, Array, Kind, float, int | None, bool]:
    """Draw values that lie about the edges of bins, among values of all sorts."""
    float_type = draw(st.sampled_from([F32, F64]))
    kind = draw(st.sampled_from(list(Kind)))
    width = 32 if float_type is F32 else 64
    numbers = st.floats(width=width)  # type: ignore[arg-type]
    bound = 0.0 if kind == Kind.LOSSLESS else draw(st.floats(0.0, 1e3) | st.sampled_from(BOUNDS))
    step = 2.0 * pfpl.narrowed_bound(bound, float_type)
    drawn = draw(st.lists(numbers | st.integers(-5000, 5000), min_size=1, max_size=24))
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = [x * step / 2 if isinstance(x, int) else x for x in drawn]
        bits = patterns(scaled, float_type)
    offsets = draw(st.lists(st.integers(-2, 2), min_size=bits.size, max_size=bits.size))
    bits += np.array(offsets, "<i8").astype(float_type.word_dtype)
    fill_values = st.none() | st.integers(1, 2**width - 1) | st.sampled_from(bits.tolist())
    fill_bits = draw(fill_values.filter(lambda bits: bits != 0))  # 0 does not count
    repeats = draw(st.sampled_from([1, 20]))
    return float_type, np.repeat(bits, repeats), kind, bound, fill_bits, draw(st.booleans())


@given(chunks())
@settings(deadline=None, max_examples=300)
def test_any_chunk(chunk: tuple[FloatType, Array, Kind, float, int | None, bool]) -> None:
    float_type, bits, kind, bound, fill_bits, maybe_padded = chunk
    array = bits.view(float_type.float_dtype)
    data = frame.encode(array, kind, bound, fill_bits=fill_bits, maybe_padded=maybe_padded)
    assert len(data) <= 40 + array.nbytes
    assert frame.build(frame.parse(data)) == data
    decoded = frame.decode(data)
    check(array, decoded, kind, bound, fill_bits=fill_bits, maybe_padded=maybe_padded)
    half = array.size // 2
    assert frame.decode_range(data, half, array.size - half).tobytes() == decoded[half:].tobytes()


def extents_of(count: int) -> st.SearchStrategy[tuple[int, ...] | None]:
    """Give shapes of as many values, or none."""
    pairs = [(a, count // a) for a in range(1, count + 1) if count % a == 0]
    triples = [(a, b, c // b) for a, c in pairs for b in range(1, c + 1) if c % b == 0]
    return st.none() | st.sampled_from([*pairs, *triples])


@given(
    chunks(), st.sampled_from([*itertools.product([2], cuszp2.MODES), (3, 0), (0, 0)]), st.data()
)
@settings(deadline=None, max_examples=300)
def test_any_chunk_in_blocks(
    chunk: tuple[FloatType, Array, Kind, float, int | None, bool],
    codec: tuple[int, int],
    data: st.DataObject,
) -> None:
    float_type, bits, kind, bound, fill_bits, maybe_padded = chunk
    array = bits.view(float_type.float_dtype)
    shape = data.draw(extents_of(array.size))

    def encode(values: Array) -> bytes:
        return frame.encode(
            values,
            kind,
            bound,
            fill_bits=fill_bits,
            maybe_padded=maybe_padded,
            codec=codec[0],
            mode=codec[1],
            shape=shape,
        )

    encoded = encode(array)
    assert len(encoded) <= 40 + array.nbytes
    assert frame.build(frame.parse(encoded)) == encoded
    decoded = frame.decode(encoded)
    check(array, decoded, kind, bound, fill_bits=fill_bits, maybe_padded=maybe_padded)
    if kind != Kind.RANGE_RELATIVE:
        assert encode(decoded) == encoded
    first = data.draw(st.integers(0, array.size))
    count = data.draw(st.integers(0, array.size - first))
    part = frame.decode_range(encoded, first, count)
    assert part.tobytes() == decoded[first : first + count].tobytes()

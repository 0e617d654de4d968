# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The reference codec against the documents, and against exact arithmetic.

Bytes and numbers of the worked examples were taken from docs/format by hand. Nothing here uses
the native library.
"""

from __future__ import annotations

import dataclasses
import math
import struct
import sys
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import frame, pfpl
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


def changed(fields: frame.Frame, **changes: Any) -> bytes:
    """Build a frame with other fields, whose sums are right."""
    return frame.build(dataclasses.replace(fields, **changes))


def test_version_is_looked_at_first() -> None:
    with pytest.raises(Unsupported, match="version 2"):
        frame.decode(EXAMPLE_FRAME[:4] + b"\x02")


@pytest.mark.parametrize(
    "changes",
    [{"codec": 2}, {"codec": 4}, {"codec": 255}, {"mode": 1}, {"flags": 0x0101}, {"flags": 0x8001}],
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


def test_dims(monkeypatch: pytest.MonkeyPatch) -> None:
    """No codec has dims yet, so one is made up that has them."""
    codec = SimpleNamespace(TILE_BYTES=16384, MODES={3: True}, decode_tile=pfpl.decode_tile)
    monkeypatch.setitem(frame.CODECS, 9, codec)
    fields = dataclasses.replace(EXAMPLE, codec=9, mode=3, dims=(2, 4, 4))
    for later_fields in (b"", bytes(8)):
        data = changed(fields, later_fields=later_fields)
        assert data[5] == 13 + len(later_fields) // 4
        assert data[40:52] == struct.pack("<3I", 2, 4, 4)
        assert frame.parse(data).dims == (2, 4, 4)
        assert frame.decode(data).tobytes() == frame.decode(EXAMPLE_FRAME).tobytes()
    for bad in ({"dims": None}, {"dims": None, "later_fields": bytes(8)}, {"dims": (2, 4, 5)}):
        with pytest.raises(Corrupt):
            frame.decode(changed(fields, **bad))
    with pytest.raises(Unsupported, match="mode 0"):
        frame.decode(changed(fields, mode=0))


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

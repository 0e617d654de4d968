# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The reference codec compared with numbers that were worked out by hand from docs/format.

Only what the library's agreement (test_reference_agrees.py, test_corrupt_frames.py) and the worked
examples (test_worked_examples.py) cannot show: where both might read a page in the same wrong way,
and payloads that no encoder writes. Nothing here uses the native library.
"""

from __future__ import annotations

import itertools
import math
import types
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference import aatrox, blocks, cuszp2, frame, pfpl
from reference.common import FLOAT_TYPES, Array, Corrupt, FloatType, Kind, Quantizer

F32, F64 = FLOAT_TYPES[4], FLOAT_TYPES[8]
both_types = pytest.mark.parametrize("float_type", [F32, F64], ids=["float32", "float64"])


def patterns(values: Any, float_type: FloatType) -> Array:
    """Give the patterns of values."""
    return np.array(values, float_type.float_dtype).view(float_type.word_dtype)


def pattern(value: float, float_type: FloatType) -> int:
    """Give the pattern of one value."""
    return int(patterns([value], float_type)[0])


def absolute(step: float) -> Quantizer:
    """Give the quantizer of an absolute bound, by its step."""
    return Quantizer(Kind.ABSOLUTE, pfpl.float_to_bits(step))


# ------------------------------------------------------------------------------------------------
# Checksum
# ------------------------------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=40), max_size=5))
def test_checksum_word_by_word(decoder: Any, tiles: list[bytes]) -> None:
    assert frame.checksum(tiles) == decoder.checksum(tiles)


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
    quantizer = pfpl.make_quantizer(
        np.zeros(0, float_type.word_dtype), float_type, Kind.POINTWISE_RELATIVE, bound
    )
    assert quantizer == Quantizer(Kind.POINTWISE_RELATIVE, width)


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
    words = pfpl.quantize(x.view(float_type.word_dtype), float_type, absolute(1.0))
    inside = np.abs(nearest) < limit
    assert inside.sum() > x.size - 100
    assert words[inside].tolist() == pfpl.zigzag(nearest[inside]).tolist()


@both_types
def test_reach_of_absolute_bins(float_type: FloatType) -> None:
    limit = 1 << (float_type.mantissa_bits - 1)
    x = patterns([limit - 1, limit - 0.5, limit, limit + 1, -limit, 1 - limit], float_type)
    words = pfpl.quantize(x, float_type, absolute(1.0))
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
    words = pfpl.quantize(x.view("<u4"), F32, absolute(float(step)))
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
    quantizer = Quantizer(Kind.POINTWISE_RELATIVE, 16385)
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
    words = pfpl.quantize(bits, F32, quantizer)
    assert [f"{word:08x}" for word in words] == [f"{pair[1]:08x}" for pair in bits_and_words]
    decoded = pfpl.dequantize(words, F32, quantizer)
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
    quantizer = Quantizer(Kind.POINTWISE_RELATIVE, 3)
    largest = 2**21 - 2
    bits = 0x3F800000 + 3 * np.array([largest, largest + 1, -largest, -largest - 1])
    words = pfpl.quantize(bits.astype("<u4"), F32, quantizer)
    assert words[0] == ((2 * largest + 1) << 1) - 1
    assert words[2] == ((2 * largest) << 1) - 1
    for i in (1, 3):
        assert words[i] == (int(bits[i]) ^ 0xFF800000) - 1


# ------------------------------------------------------------------------------------------------
# Block codecs: the documents' examples
# ------------------------------------------------------------------------------------------------

BLOCK_PLANES = "03a9800b 5ba9bf8b"


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


# ------------------------------------------------------------------------------------------------
# Block codecs: from values to integers
# ------------------------------------------------------------------------------------------------


def test_pointwise_integers() -> None:
    """Computed by hand: S = 16385, so K = floor(126 * 2^23 / 16385) = 64508."""
    quantizer = Quantizer(Kind.POINTWISE_RELATIVE, 16385)
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
    q, is_exception = blocks.quantize(bits, F32, quantizer)
    assert q[:9].tolist() == [pair[1] for pair in bits_and_integers]
    assert is_exception.tolist() == [False] * 9 + [True] * 7
    assert blocks.dequantize(q[:9], F32, quantizer).tolist() == [
        *(0, 0, 0x3F800000, 0xBF800000, 0x3F800000),
        *(0x3F800000 + 16385, 0x3F800000 - 16385, 0x40000200, 0xBF800000 - 512 * 16385),
    ]
    # A fill value of -0.0 is no zero.
    _, is_exception = blocks.quantize(bits, F32, quantizer, 0x80000000)
    assert is_exception[:9].tolist() == [False, True] + [False] * 7


@both_types
def test_pointwise_integers_that_no_encoder_writes(decoder: Any, float_type: FloatType) -> None:
    bits = float_type.word_bits
    random = np.random.default_rng(21)
    numbers = random.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), 50).tolist()
    numbers += [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, 1, -1, 0]
    of = decoder.FLOAT32 if float_type is F32 else decoder.FLOAT64
    for width in (3, 16385, 2**float_type.mantissa_bits + 1):
        as_decoded = types.SimpleNamespace(float_type=of, kind=Kind.POINTWISE_RELATIVE, step=width)
        expected = [decoder.value_of(as_decoded, q) for q in numbers]
        quantizer = Quantizer(Kind.POINTWISE_RELATIVE, width)
        integers = np.array(numbers, blocks.signed_dtype(float_type))
        assert blocks.dequantize(integers, float_type, quantizer).tolist() == expected


def test_exceptions_follow_the_value_before() -> None:
    for q, exceptions, expected in [
        ([0, 0, 7, 0, 0, 8], [0, 1, 3, 4], [7, 7, 7, 7, 7, 8]),
        ([3, 0, 5, 0], [1, 3], [3, 3, 5, 5]),
        ([0, 0, 0], [0, 1, 2], [0, 0, 0]),
        ([4, 5], [], [4, 5]),
    ]:
        mask = np.isin(np.arange(len(q)), exceptions)
        assert blocks.fill_run(np.array(q), mask).tolist() == expected


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
    """Blocks 0 (some), 33 (all, unlike the first exception) and 40 (all like the first one)."""
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


def test_wrapping_residuals() -> None:
    """A payload that no encoder writes: sums that exceed 32 bits."""
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
def test_blocks_hold_each_value_once(
    decoder: Any, dims: tuple[int, int, int], dimensions: int
) -> None:
    mode, count = dimensions << 4, math.prod(dims)
    tiling = cuszp2.tiling(count, F32, mode, dims)
    as_decoded = types.SimpleNamespace(dims=dims, mode=mode, count=count)
    tiles = [tiling.places(tile).tolist() for tile in range(tiling.tile_count)]
    assert tiles == [decoder.cuszp2_tile(as_decoded, tile).places for tile in range(len(tiles))]
    assert sorted(itertools.chain(*tiles)) == list(range(count))
    assert len(tiles) == decoder.count_tiles(2, mode, decoder.FLOAT32, count, dims)


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


# What is wrong with each of these is one thing.
BROKEN = {
    "cuszp2: no multiple of 4": ("8100", 2, 0x11, 4),
    "cuszp2: planes and residual cut": ("81000000 00000000", 2, 0x11, 4),
    "cuszp2: a pad behind the codes": ("81000100" + BLOCK_PLANES + "64000000", 2, 0x11, 4),
    "cuszp2: a pad behind the residuals": ("81000000" + BLOCK_PLANES + "64000001", 2, 0x11, 4),
    "cuszp2: no residual": ("81000000" + BLOCK_PLANES, 2, 0x11, 4),
    "cuszp2: planes cut": ("07000000" + BLOCK_PLANES, 2, 0x10, 4),
    "cuszp2: more than there is": ("81000000" + BLOCK_PLANES + "64000000 00000000", 2, 0x11, 4),
    "cuszp2: an outlier block in mode plain": ("81000000" + BLOCK_PLANES + "64000000", 2, 0x10, 4),
    "cuszp2: an outlier block in mode fixed": ("81000000" + BLOCK_PLANES + "64000000", 2, 0x12, 4),
    "cuszp2: a residual of 4 bytes": ("e1000000" + BLOCK_PLANES + "64000000", 2, 0x11, 4),
    "cuszp2: bits of a plain code": ("21000000" + BLOCK_PLANES, 2, 0x11, 4),
    "cuszp2: width 24": ("18000000" + "00000000" * 25, 2, 0x10, 4),
    "cuszp2: outlier width 24": ("98000000" + "00000000" * 25 + "01000000", 2, 0x11, 4),
    "cuszp2: fixed width 23": ("17000000" + "00000000" * 24, 2, 0x12, 4),
    "cuszp2, float64: a residual of 8 bytes": (
        "c1030000" + BLOCK_PLANES + "64000000 00000000",
        2,
        0x11,
        8,
    ),
    "cuszp2, float64: bits of a plain code": ("41000000" + BLOCK_PLANES, 2, 0x11, 8),
    "cuszp2, float64: a high bit of a plain code": ("01800000" + BLOCK_PLANES, 2, 0x11, 8),
    "cuszp2, float64: a high bit of an outlier code": (
        "01060000" + BLOCK_PLANES + "64000000",
        2,
        0x11,
        8,
    ),
    "cuszp2, float64: width 53": ("35000000" + "00000000" * 54, 2, 0x11, 8),
    "cuszp2, float64: fixed width 52": ("34000000" + "00000000" * 53, 2, 0x12, 8),
    "cuszp2, float64: an outlier block in mode plain": (
        "01020000" + BLOCK_PLANES + "64000000",
        2,
        0x10,
        8,
    ),
    "aatrox: no multiple of 4": ("010000000100000064000000" + BLOCK_PLANES + "00", 3, 0, 4),
    "aatrox: a layer without values": ("03000000 01000000 64000000" + BLOCK_PLANES, 3, 0, 4),
    "aatrox: a layer with codes of 0": ("01000000 00000000 64000000", 3, 0, 4),
    "aatrox: a pad": ("01000000 01000100 64000000" + BLOCK_PLANES, 3, 0, 4),
    "aatrox: width 24": ("01000000 18000000 64000000" + "00000000" * 25, 3, 0, 4),
    "aatrox: no initial q": ("01000000 01000000", 3, 0, 4),
    "aatrox: planes cut": ("01000000 01000000 64000000 03a9800b", 3, 0, 4),
    "aatrox: more than there is": (
        "01000000 01000000 64000000" + BLOCK_PLANES + "00000000",
        3,
        0,
        4,
    ),
}


def test_what_is_not_broken() -> None:
    """Payloads that differ slightly from the broken ones are decoded."""
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


@pytest.mark.parametrize(("payload", "codec", "mode", "n"), BROKEN.values(), ids=BROKEN)
def test_broken_payloads(payload: str, codec: int, mode: int, n: int) -> None:
    with pytest.raises(Corrupt):
        decoded(payload, 32, codec, mode, n)


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


@pytest.mark.slow
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

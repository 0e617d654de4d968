# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Frames that are damaged, truncated, or made by an attacker.

A checksum detects accidents; it does not stop anyone who can compute it. So broken frames are tried
here with wrong, right and missing checksums. A crash ends the whole test run, which is failure
enough: no other process catches it.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import struct
import tracemalloc
from typing import TYPE_CHECKING

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import h5lossy
from checks import assert_same_bits, bits_of
from file_attacks import patched, resealed
from h5lossy import (
    PFPL,
    CorruptFrameError,
    H5LossyError,
    TruncatedFrameError,
    UnsupportedError,
    _native,
)
from h5lossy._codecs import CODECS
from matrix import BOUNDS, CODEC_NAMES
from reference import frame as reference
from reference import pfpl
from reference.common import FLOAT_TYPES
from strategies import shaped_chunks

if TYPE_CHECKING:
    from collections.abc import Callable

    from h5lossy._codecs import Codec

HEADER_BYTES = 40


@functools.cache
def frame_of_4_kib(
    codec: type[Codec], kind: str, float_type: str = "<f4", *, checksum: bool = True
) -> bytes:
    """Return a frame just below 4 KiB, with a bound of this kind, usually of several tiles."""
    smooth = np.sin(np.arange(20000) / 3000) * 40
    setting = codec(**BOUNDS[kind], checksum=checksum)
    for rougher in (1, 10):
        rng = np.random.default_rng(23)
        width = rougher * (0.3 if kind == "range_relative" else 0.004)  # some bins
        noisy = (smooth + rng.normal(0, width, smooth.size) * (smooth > 30)).astype(float_type)
        for count in range(0, noisy.size, 8):
            frame = h5lossy.encode(noisy[:count], setting)
            if 4000 < len(frame) <= 4096:
                return frame
    raise AssertionError("no such frame")


def stored_frame(*, checksum: bool = True) -> bytes:
    noise = np.frombuffer(np.random.default_rng(29).bytes(4096 - HEADER_BYTES), "<f4")
    return h5lossy.encode(noise, PFPL(lossless=True, checksum=checksum))


def refusal(call: Callable[[], object]) -> H5LossyError | None:
    """Return the h5lossy error that a call raises; None if it raises nothing."""
    try:
        call()
    except H5LossyError as error:
        return error
    return None


def changed(frame: bytes, at: int, value: int) -> bytes:
    return frame[:at] + bytes([value]) + frame[at + 1 :]


# ------------------------------------------------------------------------------------------------
# Accidents
# ------------------------------------------------------------------------------------------------

#: The codecs that frames can have, with the kinds of bound that they are used for.
USES = {
    f"{cls.codec_name}-{kind}": (cls, kind)
    for number, cls in CODECS.items()
    for kind in BOUNDS
    if number in CODEC_NAMES and (cls is PFPL or kind != "lossless")
}
each_codec_and_kind = pytest.mark.parametrize(("codec", "kind"), USES.values(), ids=USES)
each_codec = pytest.mark.parametrize("codec", dict.fromkeys(cls for cls, _ in USES.values()))


@each_codec_and_kind
def test_every_truncation_is_reported_as_such(codec: type[Codec], kind: str) -> None:
    frame = frame_of_4_kib(codec, kind)
    for length in range(len(frame)):
        cut = frame[:length]
        for read in (h5lossy.decode, h5lossy.inspect, lambda f: h5lossy.decode(f, 1, 2)):
            assert type(refusal(functools.partial(read, cut))) is TruncatedFrameError, length


def test_every_truncation_of_a_stored_frame_is_reported_as_such() -> None:
    frame = stored_frame()
    for length in range(len(frame)):
        error = refusal(functools.partial(h5lossy.decode, frame[:length]))
        assert type(error) is TruncatedFrameError


@each_codec
def test_a_truncated_frame_says_what_is_missing(codec: type[Codec]) -> None:
    frame = frame_of_4_kib(codec, "absolute")
    with pytest.raises(TruncatedFrameError, match="at least 40 bytes, got 39"):
        h5lossy.decode(frame[:39])
    with pytest.raises(TruncatedFrameError, match=r"ends inside its table of \d+ tiles"):
        h5lossy.decode(frame[: 4 * frame[5] + 2])
    with pytest.raises(TruncatedFrameError, match=r"payload of \d+ bytes, but only \d+ follow"):
        h5lossy.decode(frame[:-1])


@pytest.mark.parametrize("more", [b"\0", b"\0" * 4, b"H5LY"])
@each_codec_and_kind
def test_bytes_behind_a_frame_are_reported(codec: type[Codec], kind: str, more: bytes) -> None:
    with pytest.raises(CorruptFrameError, match=r"payload of \d+ bytes, but \d+ follow"):
        h5lossy.decode(frame_of_4_kib(codec, kind) + more)


@pytest.mark.parametrize("name", ["stored", *dict.fromkeys(CODEC_NAMES.values())])
def test_every_change_of_a_byte_is_reported(name: str) -> None:
    coded = {cls.codec_name: cls for cls in CODECS.values()}
    frame = bytearray(
        stored_frame() if name == "stored" else frame_of_4_kib(coded[name], "absolute")
    )
    out = np.empty(h5lossy.inspect(frame).raw_bytes, np.uint8)
    missed = []
    # Every bit alone is below, and every difference in tests/native/every_damage_is_seen.cpp.
    for at, difference in itertools.product(range(len(frame)), range(1, 256, 37)):
        frame[at] ^= difference
        try:
            _native.decode(frame, out)
        except H5LossyError:
            pass
        else:
            missed.append((at, difference))
        frame[at] ^= difference
    assert not missed


@pytest.mark.slow
@each_codec_and_kind
@pytest.mark.parametrize("float_type", ["<f4", ">f8"])
def test_flipped_bits_are_reported(codec: type[Codec], kind: str, float_type: str) -> None:
    frame = frame_of_4_kib(codec, kind, float_type)
    # native/every_damage_is_seen.cpp flips all of them.
    for at, bit in [*itertools.product(range(len(frame)), range(8))][::5]:
        broken = changed(frame, at, frame[at] ^ 1 << bit)
        assert refusal(functools.partial(h5lossy.decode, broken)) is not None, (at, bit)


@each_codec_and_kind
@pytest.mark.parametrize("checksum", [True, False])
def test_every_flipped_bit_in_front_of_the_payload_is_reported(
    codec: type[Codec], kind: str, *, checksum: bool
) -> None:
    frame = frame_of_4_kib(codec, kind, checksum=checksum)
    info = h5lossy.inspect(frame)
    front = info.header_bytes + 4 * info.tiles
    payload_sum = range(20, 24)  # it is in the header sum, so it is seen as well
    assert set(payload_sum) < set(range(front))
    for at, bit in itertools.product(range(front), range(8)):
        broken = changed(frame, at, frame[at] ^ 1 << bit)
        assert refusal(functools.partial(h5lossy.decode, broken)) is not None, (at, bit)
        if checksum:  # also where little or nothing is decoded
            assert refusal(functools.partial(h5lossy.inspect, broken)) is not None, (at, bit)
            assert refusal(functools.partial(h5lossy.decode, broken, 3, 5)) is not None, (at, bit)


@each_codec
def test_a_damaged_payload_is_named(codec: type[Codec]) -> None:
    frame = frame_of_4_kib(codec, "absolute")
    with pytest.raises(
        CorruptFrameError, match=r"payload checksum is .* the frame says .* damaged"
    ):
        h5lossy.decode(changed(frame, 2000, frame[2000] ^ 1))
    with pytest.raises(CorruptFrameError, match=r"header checksum is .* the frame says .* damaged"):
        h5lossy.decode(changed(frame, 24, frame[24] ^ 1))


# ------------------------------------------------------------------------------------------------
# Without a payload checksum
# ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@each_codec_and_kind
@pytest.mark.parametrize("float_type", ["<f4", "<f8"])
def test_without_a_checksum_a_changed_payload_is_an_error_or_gives_other_values(
    codec: type[Codec], kind: str, float_type: str
) -> None:
    frame = frame_of_4_kib(codec, kind, float_type, checksum=False)
    info = h5lossy.inspect(frame)
    assert not info.checksum
    front = info.header_bytes + 4 * info.tiles
    expected = bits_of(h5lossy.decode(frame))
    errors = others = tried = 0
    every = 9 if float_type == "<f4" else 15
    for at, bit in [*itertools.product(range(front, len(frame)), range(8))][::every]:
        tried += 1
        broken = changed(frame, at, frame[at] ^ 1 << bit)
        try:
            decoded = h5lossy.decode(broken)
        except CorruptFrameError as error:
            assert "contradicts itself" in str(error)  # noqa: PT017 -- a million of them
            errors += 1
        else:
            assert decoded.size == expected.size
            others += bool((bits_of(decoded) != expected).any())
    assert errors > 0
    if codec is PFPL:
        assert errors + others == tried
    else:  # the sign of a difference of 0 means nothing
        assert errors + others > tried / 2


def test_without_a_checksum_a_changed_stored_frame_gives_the_changed_value() -> None:
    frame = stored_frame(checksum=False)
    expected = bits_of(h5lossy.decode(frame))
    decoded = bits_of(h5lossy.decode(changed(frame, HEADER_BYTES + 400, frame[440] ^ 1)))
    assert np.flatnonzero(decoded != expected).tolist() == [100]


@each_codec
@hypothesis.given(data=st.data())
def test_broken_tiles_are_refused_or_read_just_as_by_the_reference(
    codec: type[Codec], data: st.DataObject
) -> None:
    float_type = data.draw(st.sampled_from(["<f4", "<f8"]))
    chunk = data.draw(shaped_chunks(float_type, max_count=5000))
    own = {own.name: st.sampled_from(own.metadata["choices"]) for own in codec.choices()}
    chosen = data.draw(st.fixed_dictionaries(own))
    setting = codec(**chunk.bound, **chosen, checksum=False)
    parsed = reference.parse(h5lossy.encode(chunk.values, setting, fill_value=chunk.fill_value))
    hypothesis.assume(parsed.codec != reference.STORED and any(parsed.tiles))
    tiles = [bytearray(tile) for tile in parsed.tiles]
    for _ in range(data.draw(st.integers(1, 3))):
        tile = data.draw(st.sampled_from([tile for tile in tiles if tile] or [bytearray(1)]))
        how = data.draw(st.sampled_from(["flip", "begin", "end", "cut", "grow"]))
        if how == "begin":  # where codes are
            tile[data.draw(st.integers(0, min(8, len(tile)) - 1))] = data.draw(st.integers(0, 255))
        elif how == "flip":
            tile[data.draw(st.integers(0, len(tile) - 1))] ^= data.draw(st.integers(1, 255))
        elif how == "end":  # where the bitmaps are, or exceptions and first residuals
            tile[-data.draw(st.integers(1, min(40, len(tile))))] ^= data.draw(st.integers(1, 255))
        elif how == "cut":
            del tile[: data.draw(st.integers(1, len(tile)))]
        else:
            tile[:0] = data.draw(st.binary(min_size=1, max_size=9))
    broken = reference.build(dataclasses.replace(parsed, tiles=tuple(map(bytes, tiles))))
    assert_same_verdict(broken)


@pytest.mark.parametrize("size", [4, 8])
@hypothesis.given(data=st.data())
def test_any_words_are_read_just_as_by_the_reference(size: int, data: st.DataObject) -> None:
    # Whole payloads that no encoder writes: bins beyond the limits, codes out of range, any step.
    count = data.draw(st.sampled_from([1, 5, 32, 64, 100, 2048, 16384 // size]))
    seed = data.draw(st.integers(0, 2**32 - 1))
    sparse = data.draw(st.sampled_from([0.02, 0.3, 0.95]))
    rng = np.random.default_rng(seed)
    planes = rng.integers(0, 256, count * size, np.uint8) * (rng.random(count * size) < sparse)
    kind = data.draw(st.sampled_from([0, 1, 2, 3]))
    m, bias = (23, 127) if size == 4 else (52, 1023)
    if kind == 1:
        step = 2 * data.draw(st.integers(1, 2 ** (m - 1))) + 1
    elif kind == 3:
        step = 0
    else:
        exponents = st.integers(2 - bias, bias - 2)
        mantissas = st.integers(0, 2**m - 1).map(lambda mantissa: mantissa << (52 - m))
        step = (data.draw(exponents) + 1023) << 52
        step |= 0 if step == (bias - 2 + 1023) << 52 else data.draw(mantissas)
    frame = reference.Frame(
        codec=1,
        value_bytes=size,
        big_endian=data.draw(st.booleans()),
        kind=reference.Kind(kind),
        raw_bytes=count * size,
        bound=1.0,
        step=step,
        tiles=(pfpl.pack_planes(planes.astype(np.uint8).tobytes()),),
    )
    hypothesis.assume(len(frame.tiles[0]) <= count * size)
    built = reference.build(frame)
    assert_same_bits(h5lossy.decode(built), reference.decode(built))


@pytest.mark.parametrize(
    ("number", "mode", "tile_values"),
    [(1, 0, 4096), (2, 0x10, 4096), (2, 0x11, 4096), (2, 0x12, 4096), (3, 0, 32768)],
)
@hypothesis.given(
    flags=st.sampled_from([0, 1]), rest=st.binary(max_size=200), raw=st.integers(0, 40000)
)
def test_any_bytes_behind_a_header_are_refused_or_read_just_as_by_the_reference(
    number: int, mode: int, tile_values: int, *, flags: int, rest: bytes, raw: int
) -> None:
    fields = (1, 10, number, 4, 0, mode, flags, 4 * raw, 0, 1.0, 2.0)
    front = struct.pack("<4s6BHI4xIdd", b"H5LY", *fields)
    tiles = -(-raw // tile_values)
    frame = front + rest
    if len(rest) >= 4 * tiles:
        frame = resealed(frame, tiles)
    assert_same_verdict(frame)


def assert_same_verdict(frame: bytes) -> None:
    """Fail unless library and reference both refuse a frame, or read the same values."""
    try:
        expected = reference.decode(frame)
    except reference.Refused:
        assert isinstance(refusal(lambda: h5lossy.decode(frame)), CorruptFrameError)
    else:
        assert_same_bits(h5lossy.decode(frame), expected)


# ------------------------------------------------------------------------------------------------
# Headers that lie, with sums that are right
# ------------------------------------------------------------------------------------------------

VALUES = np.sin(np.arange(10000, dtype="<f4") / 100)
CODED = h5lossy.encode(VALUES, PFPL(absolute=1e-3))
STORED = h5lossy.encode(np.array([1.5, 2.5], "<f4"), PFPL(absolute=1e-3))
FRAMES = {
    "absolute": CODED,
    "absolute_f8": h5lossy.encode(VALUES.astype("<f8"), PFPL(absolute=1e-3)),
    "pointwise": h5lossy.encode(VALUES, PFPL(pointwise_relative=1e-3)),
    "pointwise_f8": h5lossy.encode(VALUES.astype("<f8"), PFPL(pointwise_relative=1e-3)),
    "lossless": h5lossy.encode(np.round(VALUES), PFPL(lossless=True)),
    "stored": STORED,
}


def u8(number: int) -> bytes:
    return struct.pack("<B", number)


def u16(number: int) -> bytes:
    return struct.pack("<H", number)


def u32(number: int) -> bytes:
    return struct.pack("<I", number)


def u64(number: int) -> bytes:
    return struct.pack("<Q", number)


def f64(number: float) -> bytes:
    return struct.pack("<d", number)


STEP = r"step must be a float{} from .* to .*, got "
ODD = r"step of a pointwise-relative frame must be odd, from 3 to {}"
SIZES = r"values of {} are not among those allowed: 4, 8{}$"

corrupt, unsupported, truncated = CorruptFrameError, UnsupportedError, TruncatedFrameError

# fmt: off
LIES = [
    ("absolute", 0, b"\x89HDF", corrupt, 'begins with 89 48 44 46, not with "H5LY"'),
    ("absolute", 4, u8(0), unsupported, "format version 0: this h5lossy reads version 1"),
    ("absolute", 4, u8(2), unsupported, "format version 2: .* a newer one may read it"),
    ("absolute", 5, u8(0), corrupt, "header of 0 bytes; at least 40"),
    ("absolute", 5, u8(9), corrupt, "header of 36 bytes; at least 40"),
    ("stored", 5, u8(255), truncated, "header of 1020 bytes in a frame of 48"),
    ("absolute", 6, u8(max(CODECS) + 1), unsupported, r"codec \d is not in this version"),
    ("absolute", 6, u8(2), unsupported, "mode 0 of cuszp2 is not in this version"),
    ("absolute", 6, u8(255), unsupported, "codec 255 is not in this version"),
    ("absolute", 7, u8(0), corrupt, SIZES.format("0 bytes", "")),
    ("absolute", 7, u8(1), corrupt, SIZES.format("1 bytes", "")),
    ("absolute", 7, u8(0x13), corrupt, "integers of 3 bytes are not among those allowed"),
    ("absolute", 7, u8(0x91), corrupt, "integers of 1 bytes, big-endian, are not among"),
    ("absolute", 7, u8(0x12), corrupt, "header of 40 bytes has no room for the fields of"),
    ("absolute", 7, u8(0x32), corrupt, "header of 40 bytes has no room for the fields of"),
    ("absolute", 7, u8(0x62), unsupported, "type 0x62 is not in this version .* newer one may"),
    ("absolute", 7, u8(0x52), corrupt, "values of 2 bytes are not among those allowed"),
    ("absolute", 7, u8(0xF8), unsupported, "type 0x78 is not in this version"),
    ("stored", 7, u8(0x40), corrupt, "halves of 0 bytes are not among those allowed: 2"),
    ("stored", 7, u8(0x60), unsupported, "type 0x60 is not in this version"),
    ("absolute", 7, u8(0x80), corrupt, SIZES.format("0 bytes, big-endian,", "")),
    ("stored", 7, u8(0x81), corrupt, SIZES.format("1 bytes, big-endian,", ", 1")),
    ("stored", 7, u8(5), corrupt, SIZES.format("5 bytes", ", 1")),
    ("absolute", 8, u8(4), corrupt, "bound kind 4 is not one of 0 to 3"),
    ("stored", 8, u8(255), corrupt, "bound kind 255 is not one of 0 to 3"),
    ("absolute", 9, u8(1), unsupported, "mode 1 of pfpl is not in this version"),
    ("stored", 9, u8(7), unsupported, "mode 7 of a stored frame is not in this version"),
    ("absolute", 10, u16(0x0101), unsupported, "flags 0x0101 need a newer"),
    ("stored", 10, u16(0x8000), unsupported, "flags 0x8000 need a newer"),
    ("absolute", 12, u32(39999), corrupt, "39999 raw bytes are not a multiple of .* 4"),
    ("absolute_f8", 12, u32(79996), corrupt, "79996 raw bytes are not a multiple of .* 8"),
    ("stored", 12, u32(12), truncated, "payload of 12 bytes, but only 8 follow the header"),
    ("stored", 12, u32(4), corrupt, "payload of 4 bytes, but 8 follow"),
    ("absolute", 24, f64(-1.0), corrupt, "bound -1 is negative"),
    ("stored", 24, f64(-1.0), corrupt, "bound -1 is negative"),
    ("absolute", 24, f64(-0.0), corrupt, "bound -0 is negative"),
    ("absolute", 24, f64(math.nan), corrupt, "bound nan is .*not finite"),
    ("absolute", 24, f64(math.inf), corrupt, "bound inf is .*not finite"),
    ("absolute", 32, f64(0.0), corrupt, STEP.format(32) + "0$"),
    ("absolute", 32, f64(-0.002), corrupt, STEP.format(32) + "-0.002"),
    ("absolute", 32, f64(math.nan), corrupt, STEP.format(32) + "-?nan"),
    ("absolute", 32, f64(math.inf), corrupt, STEP.format(32) + "inf"),
    ("absolute", 32, f64(0.1), corrupt, STEP.format(32) + "0.1"),
    ("absolute", 32, f64(2.0**-126), corrupt, STEP.format(32) + r"1.17\d*e-38"),
    ("absolute", 32, f64(2.0**126), corrupt, STEP.format(32) + r"8.5\d*e\+37"),
    ("absolute_f8", 32, f64(2.0**-1022), corrupt, STEP.format(64) + r"2.2\d*e-308"),
    ("absolute_f8", 32, f64(2.0**1022), corrupt, STEP.format(64) + r"4.4\d*e\+307"),
    ("pointwise", 32, u64(1), corrupt, ODD.format(8388609)),
    ("pointwise", 32, u64(4), corrupt, ODD.format(8388609)),
    ("pointwise", 32, u64(2**23 + 3), corrupt, ODD.format(8388609)),
    ("pointwise", 32, u64(2**64 - 1), corrupt, ODD.format(8388609)),
    ("pointwise_f8", 32, u64(2**52 + 3), corrupt, ODD.format(4503599627370497)),
    ("lossless", 32, u64(1), corrupt, "step must be 0 in a stored or lossless frame"),
    ("lossless", 32, f64(-0.0), corrupt, "step must be 0 in a stored or lossless frame"),
    ("stored", 32, f64(0.002), corrupt, "step must be 0 in a stored or lossless frame"),
    ("absolute", 44, u32(0), corrupt, "tile 1 ends at byte 0, before the end of the previous tile"),
    ("absolute", 40, u32(2**32 - 1), corrupt, "tile 1 ends at .* tile, 4294967295"),
    ("absolute", 48, u32(2**32 - 1), truncated, "payload of 4294967295 bytes, but only"),
]
# fmt: on


@pytest.mark.parametrize(
    ("name", "at", "field", "error", "message"),
    LIES,
    ids=[f"{name}-{at}-{field.hex()}" for name, at, field, *_ in LIES],
)
def test_a_field_that_is_out_of_range_is_named(
    name: str, at: int, field: bytes, error: type[H5LossyError], message: str
) -> None:
    broken = patched(FRAMES[name], at, field)
    for read in (h5lossy.decode, h5lossy.inspect, lambda f: h5lossy.decode(f, 0, 1)):
        with pytest.raises(error, match=message) as raised:
            read(broken)
        assert raised.type is error
    with pytest.raises(reference.Refused):
        reference.decode(broken)


def test_a_sum_where_there_should_be_none_is_refused() -> None:
    frame = h5lossy.encode(VALUES, PFPL(absolute=1e-3, checksum=False))
    with pytest.raises(CorruptFrameError, match="payload checksum is not 0, but the flags say"):
        h5lossy.decode(patched(frame, 20, u32(1)))


@pytest.mark.parametrize("field", [u32(0), u32(1), u32(2**32 - 1)])
def test_a_wrong_payload_sum_is_refused(field: bytes) -> None:
    broken = patched(CODED, 20, field)
    with pytest.raises(CorruptFrameError, match="payload checksum"):
        h5lossy.decode(broken)
    # Nothing can be said about some of the values, so they are read.
    assert_same_bits(h5lossy.decode(broken, 5, 10), h5lossy.decode(CODED, 5, 10))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_tile_that_is_longer_than_its_values_is_refused(count: int) -> None:
    # It would decode well. But an encoder stores such a tile, and sizes are what buffers rely on.
    float_type = FLOAT_TYPES[4]
    bits = np.full(count, 0x3FC12345, "<u4") + np.arange(count, dtype="<u4") * 0x01010101
    quantizer = pfpl.make_quantizer(bits, float_type, reference.Kind.LOSSLESS, 0.0)
    payload = pfpl.encode_tile(bits, float_type, quantizer)
    assert len(payload) > bits.nbytes
    assert pfpl.decode_tile(payload, count, float_type, quantizer).tolist() == bits.tolist()
    broken = reference.Frame(
        codec=1,
        value_bytes=4,
        big_endian=False,
        kind=reference.Kind.LOSSLESS,
        raw_bytes=bits.nbytes,
        bound=0.0,
        step=0,
        tiles=(payload,),
    )
    with pytest.raises(CorruptFrameError, match="tile 0 contradicts itself"):
        h5lossy.decode(reference.build(broken))


@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_tile_that_contradicts_itself_is_named(number: int) -> None:
    parsed = reference.parse(CODED)
    tiles = list(parsed.tiles)
    tiles[number] = tiles[number][1:]
    with pytest.raises(CorruptFrameError, match=f"tile {number} contradicts itself"):
        h5lossy.decode(reference.build(dataclasses.replace(parsed, tiles=tuple(tiles))))


# ------------------------------------------------------------------------------------------------
# Sizes that lie
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raw_bytes", [2**32 - 8, 2**31, 10 * 2**20, 4 * 10000 + 16384, 3 * 16384 + 4, 2 * 16384, 0, 4]
)
@pytest.mark.parametrize("codec_number", [0, 1])
def test_a_frame_that_claims_another_size_is_refused_before_anything_is_allocated(
    raw_bytes: int, codec_number: int
) -> None:
    frame = CODED if codec_number else STORED
    tiles = -(-raw_bytes // 16384) if codec_number else 0
    broken = resealed(frame[:12] + u32(raw_bytes) + frame[16:], tiles)
    tracemalloc.start()
    try:
        error = refusal(lambda: h5lossy.decode(broken))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(error, CorruptFrameError)
    assert peak < 100_000


@pytest.mark.parametrize("count", [8193, 9000, 9999, 10001, 12288])
def test_a_size_that_lies_within_the_last_tile_gives_an_error_or_so_many_values(count: int) -> None:
    broken = patched(CODED, 12, u32(4 * count))
    assert_same_verdict(broken)
    if refusal(lambda: h5lossy.decode(broken)) is None:
        assert h5lossy.decode(broken).size == count


def test_a_buffer_of_another_size_than_the_frame_says_is_refused() -> None:
    for size in (0, 9999, 10001):
        with pytest.raises(
            h5lossy.InvalidArgumentError, match="the frame holds 40000 bytes, but raw"
        ):
            _native.decode(CODED, np.empty(size, "<f4"))
    with pytest.raises(h5lossy.InvalidArgumentError, match="the frame holds 10000"):
        _native.decode_range(CODED, 9999, np.empty(2, "<f4"))


def test_a_range_far_beyond_the_values_is_refused() -> None:
    for first in (10001, 2**63, 2**64 - 1):
        with pytest.raises(h5lossy.InvalidArgumentError, match="the frame holds 10000"):
            _native.decode_range(CODED, first, np.empty(2, "<f4"))

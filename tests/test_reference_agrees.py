# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The library against the reference, which was written from docs/format alone: the same bytes.

Each decodes what the other has encoded, too; and both come to the same verdict on broken payloads
(test_corrupt_frames.py).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import h5lossy
from checks import Array, assert_same_bits, floats_of
from h5lossy import PFPL, _native
from reference import frame as reference
from reference import pfpl
from reference.common import FLOAT_TYPES, Quantiser
from strategies import KINDS, MANTISSA_BITS, Chunk, border_values, chunks, special_patterns

if TYPE_CHECKING:
    from h5lossy.codecs import Codec


def encoded_by_both(
    codec: type[Codec], chunk: Chunk, *, maybe_padded: bool = False, checksum: bool = True
) -> tuple[bytes, bytes]:
    """Encode a chunk with the library and with the reference."""
    [(kind, value)] = chunk.bound.items()
    number = h5lossy.BoundKind(kind).number
    value = 0.0 if kind == "lossless" else float(value)
    dtype = chunk.values.dtype
    params = _native.Params(
        codec=codec.codec_number,
        bound_kind=number,
        bound=value,
        no_checksum=not checksum,
        value_bytes=dtype.itemsize,
        big_endian=dtype.str[0] == ">",
        fill_bits=chunk.fill_bits,
        maybe_padded=maybe_padded,
    )
    return _native.encode(params, chunk.values), reference.encode(
        chunk.values,
        number,
        value,
        fill_bits=chunk.fill_bits,
        maybe_padded=maybe_padded,
        checksum=checksum,
        codec=codec.codec_number,
    )


def assert_agreed(codec: type[Codec], chunk: Chunk, **options: bool) -> bytes:
    """Fail unless library and reference write the same frame, and read it as the same values."""
    ours, theirs = encoded_by_both(codec, chunk, **options)
    assert ours == theirs
    decoded = h5lossy.decode(ours)
    assert_same_bits(decoded, reference.decode(ours))
    return ours


@pytest.mark.parametrize("kind", KINDS)
@hypothesis.given(data=st.data())
def test_any_frame_equals_that_of_the_reference(
    codec: type[Codec], dtype: np.dtype[Any], kind: str, data: st.DataObject
) -> None:
    chunk = data.draw(chunks(dtype, [kind]))
    options = {name: data.draw(st.booleans()) for name in ("maybe_padded", "checksum")}
    frame = assert_agreed(codec, chunk, **options)
    start = data.draw(st.integers(0, chunk.values.size))
    stop = data.draw(st.integers(start, chunk.values.size))
    assert_same_bits(
        h5lossy.decode(frame, start, stop), reference.decode_range(frame, start, stop - start)
    )


BOUNDS = [
    {"absolute": 1e-3},
    {"absolute": 0.5},
    {"absolute": 7e-38},
    {"absolute": 1e30},
    {"pointwise_relative": 1e-2},
    {"pointwise_relative": 0.75},
    {"pointwise_relative": 1.3e-7},
    {"range_relative": 1e-4},
    {"range_relative": 1e-38},
    {"lossless": True},
]


@pytest.mark.parametrize("bound", BOUNDS, ids=str)
def test_frames_of_values_on_the_borders_of_bins_are_equal(
    codec: type[Codec], dtype: np.dtype[Any], bound: dict[str, Any]
) -> None:
    size = dtype.itemsize
    rng = np.random.default_rng(17)
    pieces: list[Array] = []
    for magnitude in range(0, 8 * size - 6, 2):
        bins = rng.integers(-(2**magnitude), 2**magnitude + 1, 600)
        words = border_values(size, bound, bins)
        pieces.append(words + rng.integers(-2, 3, words.size).astype(f"i{size}").view(words.dtype))
        pieces.append(np.zeros(1500, words.dtype))
    chunk = Chunk(floats_of(np.concatenate(pieces), dtype), bound, None)
    info = h5lossy.inspect(assert_agreed(codec, chunk))
    assert info.stored_tiles < info.tiles


@pytest.mark.parametrize(
    ("size", "bound"),
    [
        (4, {"absolute": 0.75}),
        (4, {"absolute": 1e-30}),
        (4, {"pointwise_relative": 2.0**-23}),
        (4, {"pointwise_relative": 3e-6}),
        (8, {"absolute": 0.75}),
        (8, {"absolute": 1e-300}),
        (8, {"pointwise_relative": 2.0**-52}),
        (8, {"pointwise_relative": 1e-14}),
    ],
    ids=str,
)
def test_frames_of_values_about_the_largest_bin_are_equal(
    codec: type[Codec], size: int, bound: dict[str, Any]
) -> None:
    m = MANTISSA_BITS[size]
    limit = 2 ** (m - 2) if "pointwise_relative" in bound else 2 ** (m - 1)
    halves = np.arange(-24, 25)
    words = border_values(size, bound, np.concatenate([2 * limit + halves, -2 * limit + halves]))
    near = [words + words.dtype.type(k) for k in (0, 1, 2)] + [words - words.dtype.type(1)]
    ease = np.full(4000, words[0])
    values = floats_of(np.concatenate([*near, ease]), f"<f{size}")
    assert np.isfinite(values).all()
    frame = assert_agreed(codec, Chunk(values, bound, None))
    assert h5lossy.inspect(frame).stored_tiles < h5lossy.inspect(frame).tiles


@pytest.mark.parametrize("size", [4, 8])
def test_every_bit_of_a_residual_finds_its_place(size: int) -> None:
    width = 8 * size
    for bit in range(width):
        for place in (0, 1, width - 1, width, 3 * width - 1, 3 * width):
            residuals = np.zeros(3 * width + 5, f"<u{size}")
            residuals[place] = 1 << bit
            bits = pfpl.from_differences(residuals)
            values = floats_of(bits, f"<f{size}")
            frame = assert_agreed(PFPL, Chunk(values, {"lossless": True}, None))
            assert h5lossy.inspect(frame).codec == "pfpl"
            assert_same_bits(h5lossy.decode(frame), values)


@pytest.mark.parametrize("bound", BOUNDS, ids=str)
@pytest.mark.parametrize("count", [1, 33, 65, 2049, 4095, 4097, 9999])
def test_frames_that_end_in_a_part_of_a_group_are_equal(
    codec: type[Codec], dtype: np.dtype[Any], bound: dict[str, Any], count: int
) -> None:
    values = (np.sin(np.arange(count) / 30) * 3).astype(dtype)
    assert_agreed(codec, Chunk(values, bound, None))


@functools.cache
def bits_of_payload_size(surplus: int) -> bytes:
    """Return 64 patterns whose lossless payload has so many bytes more than they do themselves."""
    float_type = FLOAT_TYPES[4]
    lossless = Quantiser(reference.Kind.LOSSLESS, 0)
    rng = np.random.default_rng(31)
    for attempt in range(100_000):
        bits = rng.integers(0, 2 ** int(rng.integers(20, 33)), 64, np.uint64).astype("<u4")
        bits[: 6 * (attempt % 10)] = 0
        payload = pfpl.encode_tile(bits, float_type, lossless)
        assert payload is not None
        if len(payload) == bits.nbytes + surplus:
            return bits.tobytes()
    raise AssertionError("no such payload")


@pytest.mark.parametrize("surplus", [-1, 0, 1])
def test_a_tile_that_would_not_be_shorter_is_stored(surplus: int) -> None:
    last = np.frombuffer(bits_of_payload_size(surplus), "<f4")
    values = np.concatenate([np.zeros(4096, "<f4"), last])
    info = h5lossy.inspect(assert_agreed(PFPL, Chunk(values, {"lossless": True}, None)))
    assert (info.codec, info.stored_tiles) == ("pfpl", int(surplus >= 0))


@pytest.mark.parametrize("surplus", [-6, -5, -4, -3])
def test_a_frame_that_would_not_be_shorter_is_stored(surplus: int) -> None:
    # Four bytes are those of the tile table, which a stored frame has not.
    values = np.frombuffer(bits_of_payload_size(surplus), "<f4")
    info = h5lossy.inspect(assert_agreed(PFPL, Chunk(values, {"lossless": True}, None)))
    assert info.codec == ("stored" if surplus >= -4 else "pfpl")


@pytest.mark.parametrize("bound", BOUNDS, ids=str)
def test_frames_of_special_values_are_equal(
    codec: type[Codec], dtype: np.dtype[Any], bound: dict[str, Any]
) -> None:
    words = np.array([*special_patterns(dtype.itemsize).values()], f"u{dtype.itemsize}")
    smooth = (np.sin(np.arange(3000) / 30) * 3).astype(dtype)
    for word in words:
        special = floats_of(np.full(40, word), dtype)
        for fill_value in (None, special[0].astype(f"f{dtype.itemsize}")):
            values = np.concatenate([smooth, special, smooth])
            assert_agreed(codec, Chunk(values, bound, fill_value))


@pytest.mark.parametrize("raw_bytes", [0, 1, 7, 4099])
def test_frames_of_bytes_are_equal(raw_bytes: int) -> None:
    raw = np.frombuffer(np.random.default_rng(1).bytes(raw_bytes), np.uint8)
    params = _native.Params(bound_kind=_native.BOUND_ABSOLUTE, bound=0.5)
    assert _native.encode(params, raw) == reference.encode(raw.tobytes(), 0, 0.5)

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Codec 1, PFPL, as docs/format/pfpl.md has it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from .common import (
    Array,
    Consecutive,
    Corrupt,
    FloatType,
    Kind,
    Quantizer,
    Tiling,
    bits_to_float,
    float_to_bits,
    zigzag,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

TILE_BYTES = 16384

NUMBER = 1

MODES = {0: 0}
"""Modes the codec knows, and how many dims a frame of that mode has."""

HAS_LOSSLESS = True

AUTO_MODES = [0]
"""Modes that codec auto compares."""


def chosen_mode(mode: int, extents: Sequence[int]) -> int:
    """Give the mode of a chunk, of which there is one."""
    return 0


BITMAP_BYTES = (2048, 256, 32, 4)
"""Sizes of B0, B1, B2 and B3."""


def tiling(
    count: int, float_type: FloatType, mode: int = 0, dims: tuple[int, ...] | None = None
) -> Tiling:
    """Say how a chunk is cut into tiles."""
    return Consecutive(count, TILE_BYTES // float_type.size)


# ------------------------------------------------------------------------------------------------
# From the user's bound to the frame's
# ------------------------------------------------------------------------------------------------


def narrowed_bound(bound: float, float_type: FloatType) -> float:
    """Give B, the largest number of the type not above an absolute bound, capped.

    0 where that is too small for bins.
    """
    narrowed = float_type.number(bound)
    if float(narrowed) > bound:
        narrowed = np.nextafter(narrowed, float_type.number(0.0))
    result = min(float(narrowed), float_type.largest_bound)
    return result if result >= float_type.smallest_normal else 0.0


def resolved_range_bound(
    bits: Array,
    float_type: FloatType,
    bound: float,
    *,
    fill_bits: int | None = None,
    maybe_padded: bool = False,
) -> float:
    """Turn a range-relative bound into an absolute one.

    0 where there is none, and the chunk is to be kept as it is. In a chunk that is `maybe_padded`,
    zeros are no sure values.
    """
    values = bits.view(float_type.float_dtype)
    with np.errstate(invalid="ignore"):
        valid = np.isfinite(values)
        if maybe_padded:
            valid &= values != 0
    if fill_bits is not None:
        valid &= bits != fill_bits
    values = values[valid]
    if values.size == 0:
        return 0.0
    low, high = float(values.min()), float(values.max())
    if high == low:
        return 0.0
    if math.isinf(high - low):
        absolute = 2.0 * (bound * (high / 2.0 - low / 2.0))
    else:
        absolute = bound * (high - low)
    # From infinity, the first step down already leads to the largest finite number.
    for _ in range(2):
        absolute = math.nextafter(absolute, -math.inf)
    return max(absolute, 0.0)


def make_quantizer(
    bits: Array,
    float_type: FloatType,
    kind: Kind,
    bound: float,
    *,
    fill_bits: int | None = None,
    maybe_padded: bool = False,
) -> Quantizer:
    """Set the quantizer up for a chunk; lossless where the bound is too small."""
    lossless = Quantizer(Kind.LOSSLESS, 0)
    if kind == Kind.LOSSLESS:
        return lossless
    if kind == Kind.POINTWISE_RELATIVE:
        # The cap is applied first, as bound * 2**m may overflow.
        reach = math.floor(min(bound, 0.5) * 2.0**float_type.mantissa_bits)
        return Quantizer(kind, 2 * reach + 1) if reach else lossless
    if kind == Kind.RANGE_RELATIVE:
        bound = resolved_range_bound(
            bits, float_type, bound, fill_bits=fill_bits, maybe_padded=maybe_padded
        )
    narrowed = narrowed_bound(bound, float_type)
    return Quantizer(kind, float_to_bits(2.0 * narrowed)) if narrowed else lossless


# ------------------------------------------------------------------------------------------------
# Quantizers: patterns to words, and back
# ------------------------------------------------------------------------------------------------


def unzigzag(folded: Array) -> Array:
    """Undo `zigzag`."""
    one = np.uint64(1)
    numbers: Array = ((folded >> one) ^ (np.uint64(0) - (folded & one))).astype("<i8")
    return numbers


def absolute_bins(
    bits: Array, float_type: FloatType, step_bits: int, fill_bits: int | None = None
) -> tuple[Array, Array]:
    """Quantize with bins of one width: give them as int64, and which values are no exceptions."""
    x = bits.view(float_type.float_dtype)
    step = float_type.number(bits_to_float(step_bits))
    bound = step * float_type.number(0.5)
    inverse = float_type.number(1.0) / step
    half = np.nextafter(float_type.number(0.5), float_type.number(0.0))
    limit = 1 << (float_type.mantissa_bits - 1)

    def check(q: Array) -> tuple[Array, Array]:
        """Say of each candidate whether it is good, and give its rounded error."""
        r = q.astype(float_type.float_dtype) * step
        error = x - r
        good = (np.abs(q) < limit) & (np.abs(error) <= bound)
        if fill_bits is not None:
            good &= r.view(float_type.word_dtype) != fill_bits
        return good, error

    with np.errstate(all="ignore"):
        s = x * inverse
        t = s + np.copysign(half, s)
        in_reach = np.abs(t) < float_type.number(limit + 1)
        first = np.where(in_reach, t, float_type.number(0.0)).astype("<i8")
        first_good, error = check(first)
        second = np.where(error < 0, first - 1, first + 1)
        second_good, _ = check(second)
    coded = in_reach & (first_good | second_good)
    if fill_bits is not None:
        coded &= bits != fill_bits
    return np.where(first_good, first, second), coded


def _absolute_words(
    bits: Array, float_type: FloatType, step_bits: int, fill_bits: int | None
) -> Array | None:
    """Give the words of bins of one width; None where the tile has to be stored."""
    q, coded = absolute_bins(bits, float_type, step_bits, fill_bits)
    looks_coded = (bits != 0) & (bits < (1 << float_type.mantissa_bits))
    if np.any(~coded & looks_coded):
        return None
    words: Array = np.where(coded, zigzag(q).astype(float_type.word_dtype), bits)
    return words


def _absolute_bits(words: Array, float_type: FloatType, step_bits: int) -> Array:
    """Undo `_absolute_words`."""
    coded = words < (1 << float_type.mantissa_bits)
    q = unzigzag(np.where(coded, words, 0).astype("<u8"))
    with np.errstate(over="ignore"):
        values = q.astype(float_type.float_dtype) * float_type.number(bits_to_float(step_bits))
    bits: Array = np.where(coded, values.view(float_type.word_dtype), words)
    return bits


def relative_bins(
    bits: Array, float_type: FloatType, width: int, fill_bits: int | None = None
) -> tuple[Array, Array]:
    """Quantize patterns, so that bins are wider where values are larger; `width` is the frame's S.

    Give the bins of the magnitudes, as int64, and which values are neither zeros nor exceptions.
    """
    m = float_type.mantissa_bits
    sign_mask = 1 << (float_type.word_bits - 1)
    u = (bits & (sign_mask - 1)).astype("<i8")
    # S is odd: |d - q*S| <= (S - 1) / 2 holds for exactly one q.
    q = (u - float_type.one + width // 2) // width
    near = float_type.one + q * width
    coded = (u >= (1 << m)) & (u < float_type.infinity)
    coded &= (near >= (1 << m)) & (near < float_type.infinity)
    coded &= np.abs(q) <= (1 << (m - 2)) - 2
    if fill_bits is not None:
        decoded = near.astype(float_type.word_dtype) | (bits & sign_mask)
        coded &= (bits != fill_bits) & (decoded != fill_bits)
    return q, coded


def coded_zeros(bits: Array, float_type: FloatType, fill_bits: int | None = None) -> Array:
    """Find the zeros, of either sign, that a pointwise-relative bound does not make exceptions."""
    zero: Array = (bits & ((1 << (float_type.word_bits - 1)) - 1)) == 0
    return zero if fill_bits is None else zero & (bits != fill_bits)


def _relative_words(
    bits: Array, float_type: FloatType, width: int, fill_bits: int | None
) -> Array | None:
    """Give the words of bins of patterns; None where the tile has to be stored."""
    head = float_type.head_mask
    if np.any((bits > head) & (bits != float_type.default_negative_nan)):
        return None
    q, coded = relative_bins(bits, float_type, width, fill_bits)
    zero = coded_zeros(bits, float_type, fill_bits)
    negative = bits >= 1 << (float_type.word_bits - 1)
    codes = ((zigzag(q) + np.uint64(1)) << np.uint64(1)) | negative
    codes = np.where(zero, np.uint64(1), codes).astype(float_type.word_dtype)
    raw = np.where(bits == float_type.default_negative_nan, 0, bits).astype(float_type.word_dtype)
    v = np.where(coded | zero, codes | head, raw)
    words: Array = (v ^ head) - 1
    return words


def _relative_bits(words: Array, float_type: FloatType, width: int) -> Array:
    """Undo `_relative_words`."""
    m, head = float_type.mantissa_bits, float_type.head_mask
    sign_shift = np.uint64(float_type.word_bits - 1)
    one = np.uint64(1)
    v = (words + 1) ^ head
    p = (v & ((1 << m) - 1)).astype("<u8")
    coded = ((v & head) == head) & (p != 0)
    # uint64 arithmetic wraps modulo 2**64, of which 2**(W-1) is a divisor.
    q = unzigzag((p >> one) - one).astype("<u8")
    near = (np.uint64(float_type.one) + q * np.uint64(width)) & ((one << sign_shift) - one)
    decoded = np.where(p == one, np.uint64(0), (p & one) << sign_shift | near)
    raw = np.where(v == 0, float_type.default_negative_nan, v).astype(float_type.word_dtype)
    bits: Array = np.where(coded, decoded.astype(float_type.word_dtype), raw)
    return bits


def quantize(
    bits: Array, float_type: FloatType, quantizer: Quantizer, fill_bits: int | None = None
) -> Array | None:
    """Give the words of a tile; None where some value has none, and the tile has to be stored."""
    if quantizer.kind == Kind.LOSSLESS:
        return bits
    if quantizer.kind == Kind.POINTWISE_RELATIVE:
        return _relative_words(bits, float_type, quantizer.step, fill_bits)
    return _absolute_words(bits, float_type, quantizer.step, fill_bits)


def dequantize(words: Array, float_type: FloatType, quantizer: Quantizer) -> Array:
    """Give the patterns of a tile's values."""
    if quantizer.kind == Kind.LOSSLESS:
        return words
    if quantizer.kind == Kind.POINTWISE_RELATIVE:
        return _relative_bits(words, float_type, quantizer.step)
    return _absolute_bits(words, float_type, quantizer.step)


# ------------------------------------------------------------------------------------------------
# Differences, planes, bitmaps
# ------------------------------------------------------------------------------------------------


def _negabinary_mask(dtype: np.dtype[Any]) -> Any:
    """Give the word 0xAA...AA."""
    return np.frombuffer(b"\xaa" * dtype.itemsize, dtype)[0]


def to_differences(words: Array) -> Array:
    """Take differences of neighbours, in negabinary."""
    mask = _negabinary_mask(words.dtype)
    differences = words.copy()
    differences[1:] -= words[:-1]
    result: Array = (differences + mask) ^ mask
    return result


def from_differences(differences: Array) -> Array:
    """Undo `to_differences`."""
    mask = _negabinary_mask(differences.dtype)
    words: Array = np.cumsum((differences ^ mask) - mask, dtype=differences.dtype)
    return words


def _transpose(groups: Array) -> Array:
    """Transpose square bit matrices, the first bit of a word being its most significant.

    Words of W bits in the shape (G, W) become words in the shape (W, G): plane j of each group.
    """
    count, width = groups.shape
    big_endian = groups.dtype.newbyteorder(">")
    octets = groups.astype(big_endian).view(np.uint8).reshape(count, width, width // 8)
    bits = np.unpackbits(octets, axis=2)
    planes = np.packbits(np.ascontiguousarray(bits.transpose(2, 0, 1)), axis=2)
    return planes.reshape(-1).view(big_endian).reshape(width, count).astype(groups.dtype)


def to_planes(words: Array) -> bytes:
    """Gather the bits of equal weight of each whole group, in as many bytes as the words have."""
    width = 8 * words.dtype.itemsize
    grouped = words.size // width * width
    planes = _transpose(words[:grouped].reshape(-1, width))
    return planes.tobytes() + words[grouped:].tobytes()


def from_planes(planes: bytes, dtype: np.dtype[Any]) -> Array:
    """Undo `to_planes`."""
    width = 8 * dtype.itemsize
    words = np.frombuffer(planes, dtype).copy()
    grouped = words.size // width * width
    # Plane words lie as (W, G). The transposition is its own inverse, for each group alone.
    columns = words[:grouped].reshape(width, -1).T
    words[:grouped] = _transpose(np.ascontiguousarray(columns)).T.reshape(-1)
    return words


def pack_planes(planes: bytes) -> bytes:
    """Drop zero bytes, and say with four bitmaps where they were; nothing is left of zeros only."""
    octets = np.frombuffer(planes, np.uint8)
    used = octets != 0
    if not used.any():
        return b""
    parts = [octets[used]]
    bitmap = np.zeros(BITMAP_BYTES[0], np.uint8)
    packed = np.packbits(used, bitorder="little")
    bitmap[: packed.size] = packed
    for _ in BITMAP_BYTES[1:]:
        kept = np.diff(bitmap, prepend=np.uint8(0)) != 0
        parts.append(bitmap[kept])
        bitmap = np.packbits(kept, bitorder="little")
    parts.append(bitmap)
    return np.concatenate(parts).tobytes()


def unpack_planes(payload: bytes, size: int) -> bytes:
    """Undo `pack_planes` for a tile of `size` bytes."""
    octets = np.frombuffer(payload, np.uint8)
    end = octets.size - BITMAP_BYTES[3]
    if end < 0:
        raise Corrupt(f"a payload of {len(payload)} bytes does not hold bitmap B3")
    bitmap = octets[end:]
    for level in (2, 1, 0):
        kept = np.unpackbits(bitmap, bitorder="little")
        begin = end - int(kept.sum())
        if begin < 0:
            raise Corrupt(f"a payload of {len(payload)} bytes does not hold bitmap B{level}")
        # Bytes that were dropped equal the last one kept; 0 stands before the first.
        bitmap = np.concatenate([np.zeros(1, np.uint8), octets[begin:end]])[np.cumsum(kept)]
        end = begin
    used = np.unpackbits(bitmap, bitorder="little").astype(bool)
    if int(used.sum()) != end:
        raise Corrupt(f"bitmap B0 has {int(used.sum())} bits set, but {end} bytes are there")
    if used[size:].any():
        raise Corrupt(f"bitmap B0 has bits behind the tile's {size} bytes")
    planes = np.zeros(size, np.uint8)
    planes[used[:size]] = octets[:end]
    return planes.tobytes()


# ------------------------------------------------------------------------------------------------
# Tiles
# ------------------------------------------------------------------------------------------------


def encode_tile(
    bits: Array,
    float_type: FloatType,
    quantizer: Quantizer,
    fill_bits: int | None = None,
    *,
    mode: int = 0,
    inside: Array | None = None,
) -> bytes | None:
    """Encode one tile."""
    words = quantize(bits, float_type, quantizer, fill_bits)
    return None if words is None else pack_planes(to_planes(to_differences(words)))


def decode_tile(
    payload: bytes,
    count: int,
    float_type: FloatType,
    quantizer: Quantizer,
    *,
    mode: int = 0,
    inside: Array | None = None,
) -> Array:
    """Decode one tile that is neither empty nor stored."""
    planes = unpack_planes(payload, count * float_type.size)
    words = from_differences(from_planes(planes, float_type.word_dtype))
    return dequantize(words, float_type, quantizer)

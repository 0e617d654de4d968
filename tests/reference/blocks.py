# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""What the block codecs share, as docs/format/block-codecs.md has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from . import pfpl
from .common import Array, Corrupt, FloatType, Kind, Quantizer, bits_to_float

if TYPE_CHECKING:
    from collections.abc import Callable

GROUP = 32
"""Blocks of a group, in the section of exceptions."""


# ------------------------------------------------------------------------------------------------
# From values to integers, and back
# ------------------------------------------------------------------------------------------------


def signed_dtype(float_type: FloatType) -> np.dtype[Any]:
    """Give the type of integers that wrap modulo 2^W."""
    return np.dtype(f"<i{float_type.size}")


def largest_bin(float_type: FloatType, width: int) -> int:
    """Give K, the largest magnitude of a negative bin of a pointwise-relative bound.

    `width` is the frame's S.
    """
    m = float_type.mantissa_bits
    return min((float_type.one - (1 << m)) // width, (1 << (m - 2)) - 2)


def quantize(
    bits: Array, float_type: FloatType, quantizer: Quantizer, fill_bits: int | None = None
) -> tuple[Array, Array]:
    """Give the integers of a tile as int64, 0 for exceptions, and which values are exceptions."""
    if quantizer.kind == Kind.POINTWISE_RELATIVE:
        bins, coded = pfpl.relative_bins(bits, float_type, quantizer.step, fill_bits)
        k = bins + largest_bin(float_type, quantizer.step) + 1
        q = np.where(bits >> (float_type.word_bits - 1) == 1, -k, k)
        is_exception = ~coded & ~pfpl.coded_zeros(bits, float_type, fill_bits)
    else:
        q, coded = pfpl.absolute_bins(bits, float_type, quantizer.step, fill_bits)
        is_exception = ~coded
    return np.where(coded, q, 0), is_exception


def dequantize(q: Array, float_type: FloatType, quantizer: Quantizer) -> Array:
    """Give the patterns of values from integers of W bits or more."""
    q = q.astype(signed_dtype(float_type))
    if quantizer.kind != Kind.POINTWISE_RELATIVE:
        with np.errstate(over="ignore"):
            step = float_type.number(bits_to_float(quantizer.step))
            values = q.astype(float_type.float_dtype) * step
        patterns: Array = values.view(float_type.word_dtype)
        return patterns
    # uint64 arithmetic wraps modulo 2^64, of which 2^(W-1) is a divisor.
    magnitude = np.abs(q.astype("<i8")).astype("<u8")
    bins = magnitude - np.uint64(largest_bin(float_type, quantizer.step) + 1)
    sign_bit = np.uint64(1 << (float_type.word_bits - 1))
    bits = np.uint64(float_type.one) + bins * np.uint64(quantizer.step)
    bits &= sign_bit - np.uint64(1)
    bits |= np.where(q < 0, sign_bit, np.uint64(0))
    return np.where(q == 0, np.uint64(0), bits).astype(float_type.word_dtype)


def fill_run(q: Array, is_exception: Array) -> Array:
    """Give exceptions the integer of the value before them, which makes differences small."""
    kept = np.flatnonzero(~is_exception)
    if kept.size == 0:
        return np.zeros_like(q)
    # The last value kept at or before each one; at the start of the run, the first that is kept.
    last = np.searchsorted(kept, np.arange(q.size), side="right") - 1
    filled: Array = q[kept[np.maximum(last, 0)]]
    return filled


# ------------------------------------------------------------------------------------------------
# Bits of a block
# ------------------------------------------------------------------------------------------------


def bit_width(magnitudes: Array) -> int:
    """Give the number of bits of the largest of some magnitudes; 0 where there are none."""
    return int(magnitudes.max(initial=0)).bit_length()


def pack_block(differences: Array, width: int) -> bytes:
    """Write the planes of a block: signs, then bits from the lowest to the highest."""
    magnitudes = np.abs(differences)
    planes = [differences < 0, *((magnitudes >> bit) & 1 != 0 for bit in range(width))]
    return np.packbits(np.array(planes), axis=1).tobytes()


def unpack_block(planes: bytes, block: int, float_type: FloatType) -> tuple[Array, Array]:
    """Undo `pack_block`: give signs and magnitudes."""
    rows = np.unpackbits(np.frombuffer(planes, np.uint8).reshape(-1, block // 8), axis=1)
    magnitudes = np.zeros(block, signed_dtype(float_type))
    for bit, row in enumerate(rows[1:]):
        magnitudes |= row.astype(magnitudes.dtype) << bit
    return rows[0] == 1, magnitudes


# ------------------------------------------------------------------------------------------------
# Exceptions
# ------------------------------------------------------------------------------------------------


class Reader:
    """Bytes that are taken from the front."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def left(self) -> int:
        """Say how much is left."""
        return len(self._data) - self._at

    def take(self, size: int) -> bytes:
        """Take some bytes."""
        if size > self.left():
            raise Corrupt(f"{size} bytes are asked for, {self.left()} are left")
        self._at += size
        return self._data[self._at - size : self._at]

    def take_flags(self, size: int) -> Array:
        """Take the bits of a word, lowest first."""
        word = np.frombuffer(self.take(size), np.uint8)
        return np.unpackbits(word, bitorder="little").astype(bool)

    def take_padding(self, size: int) -> None:
        """Take bytes that must be zero."""
        if any(self.take(size)):
            raise Corrupt("padding that is not zero")


def pack_flags(flags: Array, bits: int) -> bytes:
    """Write booleans as the bits of a word of a multiple of 8 bits, lowest first."""
    return np.packbits(flags, bitorder="little").tobytes().ljust(bits // 8, b"\0")


def pack_exceptions(bits: Array, is_exception: Array, inside: Array) -> bytes:
    """Write the section of exceptions, empty without any, from arrays by block and position."""
    if not is_exception.any():
        return b""
    block = inside.shape[1]
    common = bits[is_exception][:1]
    present: Array = np.any(is_exception, axis=1)
    full = present & np.all(is_exception == inside, axis=1)
    uniform = present & np.all((bits == common) | ~is_exception, axis=1)
    starts = range(0, present.size, GROUP)
    groups = np.array([present[start : start + GROUP].any() for start in starts])
    section = pack_flags(groups, 32) + common.tobytes()
    for start, used in zip(starts, groups, strict=True):
        if used:
            for flags in (present, full, uniform):
                section += pack_flags(flags[start : start + GROUP], 32)
    for number in np.flatnonzero(present & ~full):
        section += pack_flags(is_exception[number], block)
    for number in np.flatnonzero(present & ~uniform):
        section += bits[number][is_exception[number]].tobytes()
    return section


def _take_block_flags(reader: Reader, first: int, blocks: int) -> Array:
    """Take a word whose bits are blocks of one group: a boolean for each block of the tile."""
    bits = np.flatnonzero(reader.take_flags(4)) + first
    if np.any(bits >= blocks):
        raise Corrupt("exceptions in a block that is not in the tile")
    flags = np.zeros(blocks, bool)
    flags[bits] = True
    return flags


def unpack_exceptions(section: bytes, inside: Array, float_type: FloatType) -> tuple[Array, Array]:
    """Undo `pack_exceptions`: give which values are exceptions, and their patterns, 0 elsewhere."""
    reader = Reader(section)
    blocks, block = inside.shape
    groups = np.flatnonzero(reader.take_flags(4))
    if groups.size == 0:
        raise Corrupt("a section of exceptions without groups")
    if groups[-1] * GROUP >= blocks:
        raise Corrupt("exceptions in a group that is not in the tile")
    common = np.frombuffer(reader.take(float_type.size), float_type.word_dtype)[0]
    present, full, uniform = (np.zeros(blocks, bool) for _ in range(3))
    for group in groups.tolist():
        here, here_full, here_uniform = (
            _take_block_flags(reader, group * GROUP, blocks) for _ in range(3)
        )
        if not here.any():
            raise Corrupt("a group of exceptions without blocks")
        if np.any((here_full | here_uniform) & ~here):
            raise Corrupt("a block that is full or uniform, but has no exceptions")
        present, full, uniform = present | here, full | here_full, uniform | here_uniform
    is_exception = inside & full[:, None]
    for number in np.flatnonzero(present & ~full):
        mask = reader.take_flags(block // 8)
        if not mask.any() or np.any(mask & ~inside[number]) or np.all(mask == inside[number]):
            raise Corrupt("a mask of exceptions that has none, all, or some outside of the data")
        is_exception[number] = mask
    bits = np.where(is_exception, common, 0).astype(float_type.word_dtype)
    for number in np.flatnonzero(present & ~uniform):
        mask = is_exception[number]
        values = reader.take(int(mask.sum()) * float_type.size)
        bits[number][mask] = np.frombuffer(values, float_type.word_dtype)
    if reader.left():
        raise Corrupt(f"{reader.left()} bytes are left of the section of exceptions")
    return is_exception, bits


# ------------------------------------------------------------------------------------------------
# Tiles
# ------------------------------------------------------------------------------------------------


def consecutive_inside(count: int, block: int = 32) -> Array:
    """Lay values that follow each other out in blocks: give `inside`."""
    blocks = -(-count // block)
    return np.arange(blocks * block).reshape(blocks, block) < count


def encode_tile(
    bits: Array,
    inside: Array,
    float_type: FloatType,
    quantizer: Quantizer,
    fill_bits: int | None,
    *,
    encode_full: Callable[[Array, Array, Array], bytes],
) -> bytes | None:
    """Encode one tile.

    `encode_full` writes the full form of a tile from its integers, from which of them are
    exceptions, and from the patterns, all by block and position.
    """
    q, is_exception = quantize(bits, float_type, quantizer, fill_bits)
    if not is_exception.any() and np.all(q == q[0]):
        return dequantize(q[:1], float_type, quantizer).tobytes() if q[0] else b""
    if is_exception.all() and np.all(bits == bits[0]):
        return bits[:1].tobytes()
    q_blocks = np.zeros(inside.shape, "<i8")
    q_blocks[inside] = q
    exception_blocks = np.zeros(inside.shape, bool)
    exception_blocks[inside] = is_exception
    bits_blocks = np.zeros(inside.shape, float_type.word_dtype)
    bits_blocks[inside] = bits
    payload = encode_full(q_blocks, exception_blocks, bits_blocks)
    return payload if len(payload) != float_type.size else None


def decode_tile(
    payload: bytes,
    inside: Array,
    float_type: FloatType,
    quantizer: Quantizer,
    *,
    decode_full: Callable[[bytes], tuple[Array, bytes]],
) -> Array:
    """Decode one tile that is neither empty nor stored.

    `decode_full` reads the full form, and gives the integers by block and position, and the section
    of exceptions.
    """
    if len(payload) % 4:
        raise Corrupt(f"a payload of {len(payload)} bytes, no multiple of 4")
    if len(payload) == float_type.size:
        return np.frombuffer(payload * int(inside.sum()), float_type.word_dtype)
    q, section = decode_full(payload)
    bits = dequantize(q, float_type, quantizer)
    if section:
        is_exception, exceptions = unpack_exceptions(section, inside, float_type)
        bits = np.where(is_exception, exceptions, bits)
    values: Array = bits[inside]
    return values

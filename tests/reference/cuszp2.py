# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Codec 2, cuSZp2, as docs/format/cuszp2.md has it."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from . import blocks
from .common import Array, Consecutive, Corrupt, FloatType, Quantizer, Tiling

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PLAIN, OUTLIER, FIXED = range(3)
"""Bits 0 and 1 of a mode."""

NUMBER = 2

MODES = {
    dimensions << 4 | kind: 3 if dimensions > 1 else 0
    for dimensions in (1, 2, 3)
    for kind in (PLAIN, OUTLIER, FIXED)
}
"""Modes the codec knows, and how many dims a frame of that mode has."""

HAS_LOSSLESS = False

DEFAULT_MODE = 0x11

AUTO_MODES = [0x11, 0x21, 0x31]
"""Modes that codec auto compares, as far as the chunk has dimensions."""

SHAPES = {1: (1, 1, 32), 2: (1, 8, 8), 3: (4, 4, 4)}
"""Extents z, y, x of a block, by its dimensions."""

PER_TILE = 4096
"""Values of a full tile of one dimension."""

BLOCKS_PER_TILE = 64
"""Blocks of a full tile of two or three dimensions."""


# ------------------------------------------------------------------------------------------------
# Modes, tiles, blocks
# ------------------------------------------------------------------------------------------------


def chosen_mode(mode: int, extents: Sequence[int]) -> int:
    """Give the mode that an encoder takes for a chunk, with not more dimensions than it has."""
    mode = mode or DEFAULT_MODE
    return min(mode >> 4, max(1, len(extents))) << 4 | mode & 3


@dataclasses.dataclass(frozen=True)
class InBlocks:
    """Tiles of blocks of two or three dimensions."""

    dims: tuple[int, ...]  # the chunk's z, y, x
    shape: tuple[int, int, int]  # a block's

    @property
    def grid(self) -> tuple[int, ...]:
        """Number of blocks along z, y, x."""
        return tuple(
            -(-extent // block) for extent, block in zip(self.dims, self.shape, strict=True)
        )

    @property
    def tile_count(self) -> int:
        """Number of tiles."""
        return -(-math.prod(self.grid) // BLOCKS_PER_TILE)

    def _positions(self, tile: int) -> list[Array]:
        """Give z, y, x of each block and position of a tile."""
        first = tile * BLOCKS_PER_TILE
        numbers = np.arange(first, min(first + BLOCKS_PER_TILE, math.prod(self.grid)))
        corners = np.unravel_index(numbers, self.grid)
        offsets = np.unravel_index(np.arange(math.prod(self.shape)), self.shape)
        return [
            corner[:, None] * block + offset
            for corner, block, offset in zip(corners, self.shape, offsets, strict=True)
        ]

    def inside(self, tile: int) -> Array:
        """Say which positions of a tile's blocks hold a value."""
        z, y, x = self._positions(tile)
        within: Array = (z < self.dims[0]) & (y < self.dims[1]) & (x < self.dims[2])
        return within

    def places(self, tile: int) -> Array:
        """Give the numbers of a tile's values in the chunk, block by block."""
        z, y, x = self._positions(tile)
        numbers: Array = (z * self.dims[1] + y) * self.dims[2] + x
        return numbers[self.inside(tile)]


def tiling(
    count: int,
    float_type: FloatType,
    mode: int = DEFAULT_MODE,
    dims: tuple[int, ...] | None = None,
) -> Tiling:
    """Say how a chunk is cut into tiles."""
    if dims is None:
        return Consecutive(count, PER_TILE)
    return InBlocks(dims, SHAPES[mode >> 4])


def places_before(dimensions: int) -> list[int]:
    """Give, of each position of a block but the first, the one that its value is predicted from."""
    _, extent_y, extent_x = SHAPES[dimensions]
    before = []
    for position in range(1, math.prod(SHAPES[dimensions])):
        rest, x = divmod(position, extent_x)
        y = rest % extent_y
        if x > 0:
            before.append(position - 1)
        elif y > 0:
            before.append(position - extent_x)
        else:
            before.append(position - extent_y * extent_x)
    return before


# ------------------------------------------------------------------------------------------------
# Differences
# ------------------------------------------------------------------------------------------------


def to_differences(q: Array, mode: int, inside: Array) -> Array:
    """Take the differences of a tile, by block and position; 0 outside of the data."""
    differences = q.copy()
    if mode & 3 != FIXED:
        differences[:, 1:] -= q[:, places_before(mode >> 4)]
    differences[~inside] = 0
    return differences


def from_differences(differences: Array, mode: int) -> Array:
    """Undo `to_differences`."""
    q = differences.copy()
    if mode & 3 != FIXED:
        for position, before in enumerate(places_before(mode >> 4), 1):
            q[:, position] += q[:, before]
    return q


# ------------------------------------------------------------------------------------------------
# Codes
# ------------------------------------------------------------------------------------------------


class Code(NamedTuple):
    """What a block's code says."""

    width: int  # F of a plain block, G of an outlier block
    residual_bytes: int  # bytes of the first residual, o; 0 of a plain block

    @property
    def planes(self) -> int:
        """Number of planes."""
        return self.width + 1 if self.width or self.residual_bytes else 0

    def size(self, block: int) -> int:
        """Give the bytes of planes and first residual."""
        return self.planes * block // 8 + self.residual_bytes


def choose_code(differences: Array, mode: int) -> Code:
    """Choose how to write a block."""
    magnitudes = np.abs(differences)
    plain = Code(blocks.bit_width(magnitudes), 0)
    if mode & 3 != OUTLIER:
        return plain
    first = -(-blocks.bit_width(magnitudes[:1]) // 8)
    outlier = Code(blocks.bit_width(magnitudes[1:]), max(1, first))
    return min(plain, outlier, key=lambda code: code.size(differences.size))


def pack_code(code: Code, float_type: FloatType) -> bytes:
    """Write a code, of one byte or two."""
    width_bits, size = (5, 1) if float_type.size == 4 else (6, 2)
    outlier_bit = 7 if float_type.size == 4 else 9
    word = code.width
    if code.residual_bytes:
        word |= code.residual_bytes - 1 << width_bits | 1 << outlier_bit
    return word.to_bytes(size, "little")


def unpack_codes(codes: bytes, mode: int, float_type: FloatType) -> Iterator[Code]:
    """Read the codes of a tile, without the pad."""
    width_bits, size = (5, 1) if float_type.size == 4 else (6, 2)
    outlier_bit = 7 if float_type.size == 4 else 9
    largest = float_type.mantissa_bits - (1 if mode & 3 == FIXED else 0)
    for word in np.frombuffer(codes, f"<u{size}").tolist():
        width, rest = word % (1 << width_bits), word >> width_bits
        residual_bytes = 0
        if word >> outlier_bit & 1:
            if mode & 3 != OUTLIER:
                raise Corrupt(f"an outlier block in mode {mode:#x}")
            rest -= 1 << (outlier_bit - width_bits)
            residual_bytes = rest + 1
            if residual_bytes > float_type.size - 1:
                raise Corrupt(f"code {word:#x}: first residual, or bits that must be zero")
        elif rest:
            raise Corrupt(f"code {word:#x}: bits that must be zero")
        if width > largest:
            raise Corrupt(f"a block of width {width}")
        yield Code(width, residual_bytes)


# ------------------------------------------------------------------------------------------------
# Tiles
# ------------------------------------------------------------------------------------------------


def _encode_full(
    q: Array,
    is_exception: Array,
    bits: Array,
    *,
    inside: Array,
    float_type: FloatType,
    mode: int,
) -> bytes:
    """Write the full form of a tile from arrays by block and position."""
    filled = q.copy()
    for number, within in enumerate(inside):
        run = blocks.fill_run(q[number, within], is_exception[number, within])
        filled[number, within] = run
    codes, planes, residuals = b"", b"", b""
    for differences in to_differences(filled, mode, inside):
        code = choose_code(differences, mode)
        codes += pack_code(code, float_type)
        if code.residual_bytes:
            residuals += int(abs(differences[0])).to_bytes(code.residual_bytes, "little")
            # A sign is kept without its magnitude, which is no difference any more.
            shown = np.where(np.arange(differences.size) == 0, 0, differences)
            signs = blocks.pack_block(differences, 0)
            planes += signs + blocks.pack_block(shown, code.width)[len(signs) :]
        elif code.width:
            planes += blocks.pack_block(differences, code.width)
    codes += bytes(-len(codes) % 4)
    residuals += bytes(-len(residuals) % 4)
    return codes + planes + blocks.pack_exceptions(bits, is_exception, inside) + residuals


def _decode_full(
    payload: bytes, *, inside: Array, float_type: FloatType, mode: int
) -> tuple[Array, bytes]:
    """Read the full form of a tile: integers by block and position, and exceptions' section."""
    block = inside.shape[1]
    reader = blocks.Reader(payload)
    code_bytes = len(inside) * (1 if float_type.size == 4 else 2)
    codes = list(unpack_codes(reader.take(code_bytes), mode, float_type))
    reader.take_padding(-code_bytes % 4)
    planes = [reader.take(code.planes * block // 8) for code in codes]
    residual_bytes = sum(code.residual_bytes for code in codes)
    pad = -residual_bytes % 4
    section_bytes = reader.left() - residual_bytes - pad
    if section_bytes < 0:
        raise Corrupt(f"{reader.left()} bytes do not hold {residual_bytes} of first residuals")
    section = reader.take(section_bytes)
    differences = np.zeros(inside.shape, blocks.signed_dtype(float_type))
    for number, code in enumerate(codes):
        if code.planes:
            negative, magnitudes = blocks.unpack_block(planes[number], block, float_type)
            if code.residual_bytes:
                first = int.from_bytes(reader.take(code.residual_bytes), "little")
                magnitudes[0] = first
            differences[number] = np.where(negative, -magnitudes, magnitudes)
    reader.take_padding(pad)
    return from_differences(differences, mode), section


def encode_tile(
    bits: Array,
    float_type: FloatType,
    quantizer: Quantizer,
    fill_bits: int | None = None,
    *,
    mode: int = DEFAULT_MODE,
    inside: Array | None = None,
) -> bytes | None:
    """Encode one tile; `inside` is left out where blocks have one dimension."""
    if inside is None:
        inside = blocks.consecutive_inside(bits.size)
    encode_full = functools.partial(_encode_full, inside=inside, float_type=float_type, mode=mode)
    return blocks.encode_tile(
        bits, inside, float_type, quantizer, fill_bits, encode_full=encode_full
    )


def decode_tile(
    payload: bytes,
    count: int,
    float_type: FloatType,
    quantizer: Quantizer,
    *,
    mode: int = DEFAULT_MODE,
    inside: Array | None = None,
) -> Array:
    """Decode one tile that is neither empty nor stored; `inside` as for `encode_tile`."""
    if inside is None:
        inside = blocks.consecutive_inside(count)
    decode_full = functools.partial(_decode_full, inside=inside, float_type=float_type, mode=mode)
    return blocks.decode_tile(payload, inside, float_type, quantizer, decode_full=decode_full)

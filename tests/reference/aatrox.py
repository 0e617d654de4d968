# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Codec 3, AATROX, as docs/format/aatrox.md has it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from . import blocks
from .common import Array, Consecutive, Corrupt, FloatType, Quantizer, Tiling

if TYPE_CHECKING:
    from collections.abc import Sequence

NUMBER = 3

MODES = {0: 0}
"""Modes the codec knows, and how many dims a frame of that mode has."""

HAS_LOSSLESS = False

AUTO_MODES = [0]
"""Modes that codec auto compares."""


def chosen_mode(mode: int, extents: Sequence[int]) -> int:
    """Give the mode of a chunk, of which there is one."""
    return 0


PER_TILE = 32768
"""Values of a full tile."""

BLOCK = 32
"""Values of a block."""

BLOCKS_PER_LAYER = 32
"""Blocks of an iteration layer."""


def tiling(
    count: int, float_type: FloatType, mode: int = 0, dims: tuple[int, ...] | None = None
) -> Tiling:
    """Say how a chunk is cut into tiles."""
    return Consecutive(count, PER_TILE)


def pack_codes(widths: list[int]) -> bytes:
    """Write the codes of a tile: the bits of the layers, and the widths in those that have some."""
    layers, codes = 0, b""
    for number, first in enumerate(range(0, len(widths), BLOCKS_PER_LAYER)):
        layer = widths[first : first + BLOCKS_PER_LAYER]
        if any(layer):
            layers |= 1 << number
            codes += bytes(layer)
    return layers.to_bytes(4, "little") + codes


def take_codes(reader: blocks.Reader, count: int, float_type: FloatType) -> list[int]:
    """Read the codes of a tile and their pad: the width of each block."""
    widths = [0] * count
    code_bytes = 0
    for number in np.flatnonzero(reader.take_flags(4)).tolist():
        first = number * BLOCKS_PER_LAYER
        if first >= count:
            raise Corrupt(f"layer {number} of a tile of {count} blocks")
        layer = list(reader.take(min(BLOCKS_PER_LAYER, count - first)))
        if not any(layer):
            raise Corrupt(f"layer {number} has codes, and all are 0")
        if max(layer) > float_type.mantissa_bits:
            raise Corrupt(f"a block of width {max(layer)}")
        widths[first : first + len(layer)] = layer
        code_bytes += len(layer)
    reader.take_padding(-code_bytes % 4)
    return widths


def _encode_full(
    q: Array, is_exception: Array, bits: Array, *, inside: Array, float_type: FloatType
) -> bytes:
    """Write the full form of a tile from arrays by block and position."""
    run = blocks.fill_run(q[inside], is_exception[inside])
    differences = np.zeros(inside.shape, "<i8")
    differences[inside] = np.diff(run, prepend=run[0])
    widths, planes = [], b""
    for block in differences:
        width = blocks.bit_width(np.abs(block))
        widths.append(width)
        planes += blocks.pack_block(block, width) if width else b""
    codes = pack_codes(widths)
    codes += bytes(-len(codes) % 4)
    initial = run[:1].astype(blocks.signed_dtype(float_type)).tobytes()
    return codes + initial + planes + blocks.pack_exceptions(bits, is_exception, inside)


def _decode_full(payload: bytes, *, inside: Array, float_type: FloatType) -> tuple[Array, bytes]:
    """Read the full form of a tile: integers by block and position, and exceptions' section."""
    reader = blocks.Reader(payload)
    widths = take_codes(reader, len(inside), float_type)
    initial = np.frombuffer(reader.take(float_type.size), blocks.signed_dtype(float_type))
    differences = np.zeros(inside.shape, initial.dtype)
    for number, width in enumerate(widths):
        if width:
            planes = reader.take((width + 1) * BLOCK // 8)
            negative, magnitudes = blocks.unpack_block(planes, BLOCK, float_type)
            differences[number] = np.where(negative, -magnitudes, magnitudes)
    q = initial + np.cumsum(differences, dtype=initial.dtype)
    return q.reshape(inside.shape), reader.take(reader.left())


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
    inside = blocks.consecutive_inside(bits.size)
    encode_full = functools.partial(_encode_full, inside=inside, float_type=float_type)
    return blocks.encode_tile(
        bits, inside, float_type, quantizer, fill_bits, encode_full=encode_full
    )


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
    inside = blocks.consecutive_inside(count)
    decode_full = functools.partial(_decode_full, inside=inside, float_type=float_type)
    return blocks.decode_tile(payload, inside, float_type, quantizer, decode_full=decode_full)

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Interp's exceptions and patches, as docs/format/interp.md has them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from .common import Array, Corrupt, FloatType
from .interp_masks import pack_mask, take_mask

if TYPE_CHECKING:
    from collections.abc import Iterable

    from . import blocks
    from .interp_prediction import Shape

SKIP = 0xFFFF
"""The entry of patches that only moves on."""


def pack_exceptions(bits: Array, stored: Array, is_exception: Array, shape: Shape) -> bytes:
    """Write the exceptions of a tile, of which there is one at least.

    `stored` are the patterns that are written instead of `bits`, from which they follow.
    """
    patterns = bits[is_exception]
    candidates = patterns[[patterns.size * i // 8 for i in range(8)]]
    candidates = [*candidates, *patterns[~np.isin(patterns, candidates)][:1]]
    common = max(candidates, key=lambda candidate: int(np.sum(patterns == candidate)))
    is_other = is_exception & (bits != common)
    others, values = bits[is_other], stored[is_other]
    are_alike = others.size and bool(np.all(others == others[0]))
    section: bytes = (
        stored[is_exception][patterns == common][0].tobytes()
        + (bool(others.size) | are_alike << 1).to_bytes(2, "little")
        + pack_mask(is_exception, shape)
    )
    if others.size:
        section += pack_mask(is_other, shape) + (values[:1] if are_alike else values).tobytes()
    return section


def take_exceptions(
    reader: blocks.Reader, shape: Shape, float_type: FloatType
) -> tuple[Array, Array]:
    """Undo `pack_exceptions`: give which values are exceptions, and the patterns of these."""
    count = math.prod(shape)
    common = np.frombuffer(reader.take(float_type.size), float_type.word_dtype)
    flags = int.from_bytes(reader.take(2), "little")
    has_others, are_alike = flags & 1, flags >> 1 & 1
    if flags > 3 or are_alike > has_others:
        raise Corrupt(f"flags {flags:#x} of exceptions")
    is_exception = take_mask(reader, shape)
    bits = np.full(count, common)
    if has_others:
        is_other = take_mask(reader, shape)
        if np.any(is_other & ~is_exception):
            raise Corrupt("a value that has bits of its own and is no exception")
        patterns = reader.take((1 if are_alike else int(is_other.sum())) * float_type.size)
        bits[is_other] = np.frombuffer(patterns, float_type.word_dtype)
    return is_exception, bits


def pack_patches(patches: Array) -> list[int]:
    """Write the patches of a tile as a list of entries.

    `patches` says how far each value is from the fine point of its integer; in closed forms, by how
    much each residual is off.
    """
    entries: list[int] = []
    at = -1
    for place in np.flatnonzero(patches).tolist():
        while place - at > 4095:
            entries.append(SKIP)
            at += 4095
        delta = int(patches[place])
        entries.append((place - at - 1) << 4 | (delta + 8 if delta < 0 else delta + 7))
        at = place
    return entries


def unpack_patches(entries: Iterable[int], count: int) -> Array:
    """Undo `pack_patches`: give δ of each place, as int64; 0 where there is no patch."""
    patches = np.zeros(count, "<i8")
    at = -1
    for entry in entries:
        if entry == SKIP:
            at += 4095
            continue
        at += 1 + (entry >> 4)
        if at >= count:
            raise Corrupt(f"a patch of value {at}, in a tile of {count}")
        patches[at] = (entry & 15) - (8 if entry & 8 == 0 else 7)
    return patches

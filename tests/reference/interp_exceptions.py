# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Interp's exceptions and patches, as docs/format/interp.md has them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from . import blocks
from .common import Array, Corrupt, FloatType
from .interp_prediction import Shape, strides_of

if TYPE_CHECKING:
    from collections.abc import Iterable

SKIP = 0xFFFF
"""The entry of patches that only moves on."""


def pack_bitmap(flags: Array) -> bytes:
    """
    Write a bitmap.

    Parameters
    ----------
    flags : numpy.ndarray
        A boolean for each value of the tile.

    Returns
    -------
    bytes
        The words that say which of its words are not 0, and these.
    """
    words = np.frombuffer(blocks.pack_flags(flags, 32 * -(-flags.size // 32)), "<u4")
    starts = range(0, words.size, 32)
    used = [words[start : start + 32] != 0 for start in starts]
    packed: bytes = blocks.pack_flags(np.array([group.any() for group in used]), 32)
    packed += b"".join(blocks.pack_flags(group, 32) for group in used if group.any())
    packed += words[words != 0].tobytes()
    return packed


def take_bitmap(reader: blocks.Reader, count: int) -> Array:
    """
    Undo `pack_bitmap`.

    Parameters
    ----------
    reader : blocks.Reader
        The payload; the bitmap is taken from it.
    count : int
        Number of values of the tile.

    Returns
    -------
    numpy.ndarray
        A boolean for each value.

    Raises
    ------
    Corrupt
        The bitmap contradicts itself.
    """
    used: list[int] = []
    for group in np.flatnonzero(reader.take_flags(4)).tolist():
        here = np.flatnonzero(reader.take_flags(4)) + 32 * group
        if here.size == 0:
            raise Corrupt("a group of a bitmap that has no words")
        used += here.tolist()
    words = np.zeros((-(-count // 32), 32), bool)
    if used and used[-1] >= len(words):
        raise Corrupt("a bitmap with more words than the tile has")
    for number in used:
        words[number] = reader.take_flags(4)
        if not words[number].any():
            raise Corrupt("a word of a bitmap that is 0 is said not to be")
    flags = words.ravel()
    if flags[count:].any():
        raise Corrupt("a bitmap with a bit for a value that the tile does not have")
    return flags[:count]


def pack_exceptions(bits: Array, stored: Array, is_exception: Array, shape: Shape) -> bytes:
    """
    Write the exceptions of a tile.

    Parameters
    ----------
    bits : numpy.ndarray
        Patterns of the tile's values.
    stored : numpy.ndarray
        Patterns that are written instead of them, which follow from them.
    is_exception : numpy.ndarray
        Of each of these, whether it is an exception; one is.
    shape : tuple of int
        Extents of the tile.

    Returns
    -------
    bytes
        The exceptions.
    """
    patterns = bits[is_exception]
    candidates = patterns[[patterns.size * i // 8 for i in range(8)]]
    candidates = [*candidates, *patterns[~np.isin(patterns, candidates)][:1]]
    common = max(candidates, key=lambda candidate: int(np.sum(patterns == candidate)))
    is_other = is_exception & (bits != common)
    best, stride = pack_bitmap(is_exception), 0
    strides = strides_of(shape)
    for number, t in enumerate(strides, 1):
        if t >= bits.size or (number > 1 and t == strides[number - 2]):
            continue
        changed = is_exception.copy()
        changed[t:] ^= is_exception[:-t]
        packed = pack_bitmap(changed)
        if len(packed) < len(best):
            best, stride = packed, number
    others, values = bits[is_other], stored[is_other]
    are_alike = others.size and bool(np.all(others == others[0]))
    section: bytes = (
        stored[is_exception][patterns == common][0].tobytes()
        + (stride | bool(others.size) << 3 | are_alike << 4).to_bytes(4, "little")
        + best
    )
    if others.size:
        section += pack_bitmap(is_other) + (values[:1] if are_alike else values).tobytes()
    return section


def take_exceptions(
    reader: blocks.Reader, shape: Shape, float_type: FloatType
) -> tuple[Array, Array]:
    """
    Undo `pack_exceptions`.

    Parameters
    ----------
    reader : blocks.Reader
        The payload; the exceptions are taken from it.
    shape : tuple of int
        Extents of the tile.
    float_type : FloatType
        Type of the values.

    Returns
    -------
    is_exception : numpy.ndarray
        Of each value, whether it is an exception.
    bits : numpy.ndarray
        Patterns of these.

    Raises
    ------
    Corrupt
        The exceptions contradict themselves.
    """
    count = math.prod(shape)
    common = np.frombuffer(reader.take(float_type.size), float_type.word_dtype)
    flags = int.from_bytes(reader.take(4), "little")
    number = flags & 7
    has_others, are_alike = flags >> 3 & 1, flags >> 4 & 1
    if flags > 31 or number > 4 or are_alike > has_others:
        raise Corrupt(f"flags {flags:#x} of exceptions")
    stride = strides_of(shape)[number - 1] if number else 0
    if stride >= count:
        raise Corrupt(f"a bitmap of {count} values that repeats after {stride}")
    is_exception = take_bitmap(reader, count)
    if stride:
        lines = np.zeros((-(-count // stride), stride), bool)
        lines.ravel()[:count] = is_exception
        is_exception = np.logical_xor.accumulate(lines, axis=0).ravel()[:count]
    bits = np.full(count, common)
    if has_others:
        is_other = take_bitmap(reader, count)
        if np.any(is_other & ~is_exception):
            raise Corrupt("a value that has bits of its own and is no exception")
        patterns = reader.take((1 if are_alike else int(is_other.sum())) * float_type.size)
        bits[is_other] = np.frombuffer(patterns, float_type.word_dtype)
    return is_exception, bits


def pack_patches(patches: Array) -> list[int]:
    """
    Write the patches of a tile.

    Parameters
    ----------
    patches : numpy.ndarray
        Of each value, how far it is from the fine point of its integer; in closed forms of each
        residual, by how much it is off.

    Returns
    -------
    list of int
        The entries.
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
    """
    Undo `pack_patches`.

    Parameters
    ----------
    entries : iterable of int
        The entries.
    count : int
        Number of values of the tile.

    Returns
    -------
    numpy.ndarray
        δ of each place, as int64; 0 where there is no patch.

    Raises
    ------
    Corrupt
        A patch of a value that the tile does not have.
    """
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

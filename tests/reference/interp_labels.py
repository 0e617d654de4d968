# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Interp's labels, as docs/format/interp.md, "Labels", has them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from .common import Array, Corrupt, FloatType
from .interp_masks import Taker, Writer, neighbours_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from . import blocks
    from .interp_prediction import Shape

IS_LABELS = 128
"""Bit 7 of byte 2 of a head."""

IS_SHORT = 8
"""Bit 3 of byte 2: base has two bytes."""

RECENT = 4
"""Words that are kept besides those of neighbours."""


def walk(
    shape: Shape,
    base: int,
    known: list[int] | None,
    decide: Callable[[int, bool], bool],
    literal: Callable[[int], int],
) -> list[int]:
    """Go through the words of a tile, and give them; `base` is what is before the first word.

    `decide` is called with a context, and `literal` for a word that no decision gives. Both get the
    answer, too, if the words are known, and return it.
    """
    distances = (neighbours_of(shape)[0] + [0] * 4)[:8]
    front, count = 2 * max(distances) + 32, math.prod(shape)
    words, recent = [base] * front, list[int]()
    coming = words + (known or [base - 1] * count)

    def find(i: int) -> int:
        near = [words[i - d] if d else base for d in distances]
        for word in dict.fromkeys(near):
            context = sum((other == word) << k for k, other in enumerate(near))
            if decide(context, coming[i] == word):
                return word
        found = None
        for word in recent:
            if word not in near and decide(0, coming[i] == word):
                found = word
                break
        found = literal(coming[i]) if found is None else found
        recent[:] = [found, *(word for word in recent if word != found)][:RECENT]
        return found

    def unit(end: int, size: int) -> None:
        begin = len(words)
        alike = [words[-1]] * size
        if all(words[begin - d : begin - d + size] == alike for d in distances if d >= size):
            is_broken = coming[begin:end] != alike[: end - begin]
            if not decide(256 if size == 32 else 258, is_broken):
                words.extend(alike[: end - begin])
                return
        while len(words) < end:
            if size == 32:
                unit(min(len(words) + 8, end), 8)
            else:
                words.append(find(len(words)))

    while len(words) < front + count:
        unit(min(len(words) + 32, front + count), 32)
    return words[front:]


def pack_labels(words: Array, shape: Shape, float_type: FloatType) -> bytes:
    """Write a tile's words as labels."""
    known = words.view(f"<i{float_type.size}").ravel().tolist()
    base = min(known)
    power = next(n for n in range(4) if max(known) - base < 1 << (8 << n))
    is_short = -(1 << 15) <= base < 1 << 15
    literals: list[int] = []

    def literal(word: int) -> int:
        literals.append(word)
        return word

    writer = Writer(shape)
    walk(shape, base, known, writer.decide, literal)
    data = bytes([0, 0, IS_LABELS | is_short * IS_SHORT | power, 0])
    data += base.to_bytes(2 if is_short else float_type.size, "little", signed=True)
    data += len(literals).to_bytes(2, "little")
    data += b"".join((word - base).to_bytes(1 << power, "little") for word in literals)
    return data + bytes(len(data) % 2) + writer.data()


def take_labels(payload: blocks.Reader, shape: Shape, float_type: FloatType) -> Array:
    """Undo `pack_labels`."""
    first, second, third, fourth = payload.take(4)
    size = 1 << (third & 3)
    if first or second or fourth or third & 0x74 or size > float_type.size:
        raise Corrupt("a head of labels that is out of range")
    taken = payload.take(2 if third & IS_SHORT else float_type.size)
    base = int.from_bytes(taken, "little", signed=True)
    wraps = 1 << 8 * float_type.size
    count = int.from_bytes(payload.take(2), "little")
    numbers = [int.from_bytes(payload.take(size), "little") for _ in range(count)]
    if count * size % 2 and payload.take(1) != b"\0":
        raise Corrupt("a byte behind the literals that is not 0")
    literals = iter([(base + number) % wraps for number in numbers])
    taker = Taker(payload, shape)

    def literal(_: int) -> int:
        word = next(literals, None)
        if word is None:
            raise Corrupt("literals that are too few")
        return word

    words = walk(shape, base % wraps, None, taker.decide, literal)
    taker.finish()
    if payload.left() or next(literals, None) is not None:
        raise Corrupt("what is behind the last word")
    return np.array(words, float_type.word_dtype)

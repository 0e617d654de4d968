# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Masks of Interp's exceptions, as docs/format/interp.md, "Masks", has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .common import Array, Corrupt
from .interp_prediction import Shape, strides_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from . import blocks

    Decide = Callable[[int, bool], bool]

STATE = 1 << 16
"""The state that an encoder begins with, and a decoder ends with."""


def neighbours_of(shape: Shape) -> tuple[list[int], list[int]]:
    """Give how far back each neighbour of a bit is (0: none), and what it adds to p at first."""
    pairs = zip(strides_of(shape), shape, strict=True)
    long = [stride for stride, extent in pairs if extent > 1][::-1]
    if len(long) < 2:
        distances, bold = [1, 2, 3, 4], 1
    elif len(long) == 2:
        r = long[1]
        distances, bold = [1, r, r - 1, r + 1, 2, 2 * r, r - 2, r + 2], 2
    else:
        r, s = long[1:3]
        distances, bold = [1, r, s, r - 1, s + 1, s - 1, s + r, s - r], 3
    weights = [0 if not d else 6144 if k < bold else 2048 for k, d in enumerate(distances)]
    return distances, weights


class Model:
    """The probabilities of decisions, at first by the weights of the neighbours."""

    def __init__(self, weights: list[int]) -> None:
        signs = 2 * (np.arange(256)[:, None] >> np.arange(len(weights)) & 1) - 1
        self._p = [*(32768 + signs @ weights).tolist(), 1024, 1024, 1024, 1024]

    def frequency(self, context: int) -> int:
        """Give the frequency of 1 in a context, of 2048."""
        return min(max(self._p[context] >> 5, 8), 2040)

    def learn(self, context: int, bit: bool) -> None:
        """Take a decision into account."""
        p = self._p[context]
        self._p[context] += (65535 - p) >> 4 if bit else -(p >> 4)


def walk(shape: Shape, mask: Array, is_known: bool, decide: Decide) -> None:
    """Go through the decisions of a mask, which are set in it unless it is known.

    `decide` is called with a context and, if the mask is known, the decision, and returns it.
    """
    distances = neighbours_of(shape)[0]
    front = 2 * max(distances) + 32  # zeros before the first bit
    bits = bytearray(front) + (mask.astype(np.uint8).tobytes() if is_known else bytes(mask.size))
    pairs = [(k, d) for k, d in enumerate(distances) if d]

    def unit(begin: int, end: int, size: int) -> None:
        before = bits[begin - 1]
        alike = bytes([before]) * size
        if all(bits[begin - d : begin - d + size] == alike for d in distances if d >= size):
            is_broken = bits[begin:end] != alike[: end - begin]
            if not decide(256 + 2 * (size == 8) + before, is_broken):
                bits[begin:end] = alike[: end - begin]
                return
        if size == 32:
            for first in range(begin, end, 8):
                unit(first, min(first + 8, end), 8)
            return
        for i in range(begin, end):
            context = 0
            for k, d in pairs:
                context |= bits[i - d] << k
            bits[i] = decide(context, bool(bits[i]))

    for first in range(front, len(bits), 32):
        unit(first, min(first + 32, len(bits)), 32)
    mask[:] = np.frombuffer(bits, bool)[front:]


class Writer:
    """Writes decisions."""

    def __init__(self, shape: Shape) -> None:
        self._model = Model(neighbours_of(shape)[1])
        self._symbols: list[tuple[int, int]] = []  # the frequency of each, and what is before it

    def decide(self, context: int, bit: bool) -> bool:
        """Take the next decision, and return it."""
        f = self._model.frequency(context)
        self._symbols.append((f, 2048 - f) if bit else (2048 - f, 0))
        self._model.learn(context, bit)
        return bit

    def data(self) -> bytes:
        """Give the number of words, state, and words."""
        state, words = STATE, list[int]()
        for f, before in reversed(self._symbols):
            if state >= f << 21:
                words.append(state & 0xFFFF)
                state >>= 16
            state = (state // f << 11) + state % f + before
        return (
            np.array([len(words)], "<u2").tobytes()
            + np.array([state], "<u4").tobytes()
            + np.array(words[::-1], "<u2").tobytes()
        )


class Taker:
    """Undoes `Writer`; the decisions are taken from a payload."""

    def __init__(self, reader: blocks.Reader, shape: Shape) -> None:
        count = int.from_bytes(reader.take(2), "little")
        self._state = int.from_bytes(reader.take(4), "little")
        self._words = iter(np.frombuffer(reader.take(2 * count), "<u2").tolist())
        self._model = Model(neighbours_of(shape)[1])

    def decide(self, context: int, _: bool) -> bool:
        """Return the next decision; raise Corrupt where there is none."""
        f = self._model.frequency(context)
        slot = self._state & 2047
        bit = slot >= 2048 - f
        state = (f if bit else 2048 - f) * (self._state >> 11) + slot - (2048 - f if bit else 0)
        if state < STATE:
            word = next(self._words, None)
            if word is None:
                raise Corrupt("the words of decisions are too few")
            state = state << 16 | word
        self._state = state
        self._model.learn(context, bit)
        return bit

    def finish(self) -> None:
        """Raise Corrupt if the words are too many, or the last state is wrong."""
        if self._state != STATE or next(self._words, None) is not None:
            raise Corrupt("decisions that do not end with their words")


def pack_mask(mask: Array, shape: Shape) -> bytes:
    """Write a mask: number of words, state, and words."""
    writer = Writer(shape)
    walk(shape, mask.copy(), True, writer.decide)
    return writer.data()


def take_mask(reader: blocks.Reader, shape: Shape) -> Array:
    """Undo `pack_mask`."""
    taker = Taker(reader, shape)
    mask = np.zeros(int(np.prod(shape)), bool)
    walk(shape, mask, False, taker.decide)
    taker.finish()
    return mask

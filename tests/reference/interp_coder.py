# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Interp's coder of residuals, as docs/format/interp.md has it."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import interp_tables
from .common import Array, Corrupt, zigzag

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

BLOCK = 32
"""Residuals of a block."""

LANES = (1, 4, 16, 32)

ESCAPE_BYTES = (2, 4, 8)

ESCAPE = 15
"""The symbol of an escape."""

LARGEST_RAW = {4: 20, 8: 48}
"""Raw planes that every block can have, by the bytes of V bits."""


def raw_planes_of(classes: Array, of_all: int) -> Array:
    """Give the number of raw planes of blocks, from their classes and from R."""
    words: Array = of_all + np.maximum(0, classes - 4)
    return words


def borrowed_halves(raw_planes: Array, lanes: int) -> int:
    """Give the number of halves of raw planes that are in the states."""
    return min(2 * int(raw_planes.sum()), lanes)


def table_of(symbol_class: int) -> int:
    """Give the number of the table that has the symbols of a class that is not 0."""
    return min(symbol_class, 5) - 1


def class_order(count: int, lanes: int) -> Iterator[tuple[int, int, bool]]:
    """Go through the blocks of a tile in the order of their classes.

    Yield the lane that codes a class, the block, and whether it is the lane's first.
    """
    each = -(-count // lanes)
    for j, lane in itertools.product(range(each), range(lanes)):
        block = lane * each + j
        if block < count:
            yield lane, block, j == 0


def context_of(classes: Sequence[int], block: int, is_first: bool) -> int:
    """Give the context of a block's class."""
    return 16 if is_first else classes[block - 1]


def _sums_before(frequencies: Sequence[int]) -> list[int]:
    """Give C: for each symbol, the sum of the frequencies before its own."""
    return [0, *itertools.accumulate(frequencies)][:-1]


@functools.cache
def _slots(frequencies: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """Give the symbol of each slot, and C."""
    symbols = [symbol for symbol, f in enumerate(frequencies) for _ in range(f)]
    return symbols, _sums_before(frequencies)


class Decoder:
    """The lanes of a payload, from the states on."""

    def __init__(self, data: bytes, lanes: int) -> None:
        if len(data) < 4 * lanes:
            raise Corrupt(f"{len(data)} bytes for {lanes} states")
        self._states = np.frombuffer(data, "<u4", lanes).tolist()
        self._words = np.frombuffer(data[4 * lanes :], "<u2").tolist()
        self._at = 0
        self._begin = 4 * lanes

    @property
    def end(self) -> int:
        """Where the words end that were taken."""
        return self._begin + 2 * self._at

    def borrowed(self, halves: int) -> bytes:
        """Give what the states hold at the end: a half of a raw plane in each of some lanes."""
        low = [state - (1 << 16) for state in self._states]
        if not all(0 <= x < 1 << 16 for x in low) or any(low[halves:]):
            raise Corrupt("states that no encoder begins with")
        return np.array(low[:halves], "<u2").tobytes()

    def symbol(self, lane: int, frequencies: tuple[int, ...]) -> int:
        """Decode a symbol."""
        symbols, before = _slots(frequencies)
        state = self._states[lane]
        slot = state & 2047
        symbol: int = symbols[slot]
        state = frequencies[symbol] * (state >> 11) + slot - before[symbol]
        if state < 1 << 16:
            if self._at == len(self._words):
                raise Corrupt("words run into the end of the payload")
            state = state << 16 | self._words[self._at]
            self._at += 1
        self._states[lane] = state
        return symbol


class Encoder:
    """The lanes of a payload that is being made, from its last symbol to its first.

    The first states hold `borrowed`, halves of raw planes.
    """

    def __init__(self, lanes: int, borrowed: bytes) -> None:
        self._states = [1 << 16 | half for half in np.frombuffer(borrowed, "<u2").tolist()]
        self._states += [1 << 16] * (lanes - len(self._states))
        self._words: list[int] = []

    def put(self, lane: int, symbol: int, frequencies: tuple[int, ...]) -> None:
        """Encode a symbol."""
        frequency, before = frequencies[symbol], _slots(frequencies)[1][symbol]
        state = self._states[lane]
        if state >= frequency << 21:
            self._words.append(state & 0xFFFF)
            state >>= 16
        self._states[lane] = (state // frequency << 11) + state % frequency + before

    def result(self) -> bytes:
        """Give what a decoder begins with: states and words."""
        words = np.array(self._words[::-1], "<u2")
        return np.array(self._states, "<u4").tobytes() + words.tobytes()


@dataclasses.dataclass(frozen=True)
class CoderHead:
    """What the head says of the coder."""

    lanes: int  # L
    model: int  # model of the classes
    escape_bytes: int  # bytes of an escape's item
    raw: int  # R
    table_set: int  # set of symbol tables
    own_table: tuple[int, ...] = ()  # frequencies of symbols, if there are no classes

    def tables(self) -> Sequence[tuple[int, ...]]:
        """Give the symbol tables."""
        return (self.own_table,) if self.own_table else interp_tables.SYMBOLS[self.table_set]


def decode_residuals(
    data: bytes, head: CoderHead, count: int, *, units: Array, dtype: np.dtype[Any]
) -> Array:
    """Read the residuals of a tile, from the states on.

    Give what is added to the prediction of each value, in coding order.
    """
    block_count = -(-count // BLOCK)
    decoder = Decoder(data, head.lanes)
    classes = [1 if head.own_table else 0] * block_count
    coded = () if head.own_table else class_order(block_count, head.lanes)
    for lane, block, is_first in coded:
        context = context_of(classes, block, is_first)
        classes[block] = decoder.symbol(lane, interp_tables.CLASSES[head.model][context])
    symbols = np.zeros((block_count, BLOCK), "<u8")
    for block, symbol_class in enumerate(classes):
        if symbol_class:
            frequencies = head.tables()[table_of(symbol_class)]
            symbols[block] = [decoder.symbol(i % head.lanes, frequencies) for i in range(BLOCK)]
    raw_planes = raw_planes_of(np.array(classes), head.raw)
    is_escape = symbols == ESCAPE
    halves = borrowed_halves(raw_planes, head.lanes)
    raw_begin = len(data) - 4 * int(raw_planes.sum()) + 2 * halves
    items_begin = raw_begin - head.escape_bytes * int(is_escape.sum())
    if decoder.end != items_begin:
        raise Corrupt("words, items and raw planes do not fit the payload")
    z = symbols << raw_planes.astype("<u8")[:, None]
    z |= unpack_raw(data[raw_begin:] + decoder.borrowed(halves), raw_planes)
    items = np.frombuffer(data[items_begin:raw_begin], f"<u{head.escape_bytes}")
    z[is_escape] = items[::-1]
    unsigned = z.astype(f"<u{dtype.itemsize}")
    one, zero = unsigned.dtype.type(1), unsigned.dtype.type(0)
    residuals = ((unsigned >> one) ^ (zero - (unsigned & one))).view(dtype)
    filled = np.pad(units, (0, residuals.size - count), constant_values=units[-1])
    changes: Array = residuals.ravel() * filled.astype(dtype)
    if changes[count:].any():
        raise Corrupt("residuals behind the values of the tile")
    return changes[:count]


def unpack_raw(data: bytes, raw_planes: Array) -> Array:
    """Read raw planes: the number that is made of the raw bits of each residual."""
    words = np.frombuffer(data, np.uint8).reshape(-1, 4)
    bits = np.unpackbits(words, axis=1, bitorder="little").astype("<u8")
    starts = np.cumsum(raw_planes) - raw_planes
    numbers = np.zeros((raw_planes.size, BLOCK), "<u8")
    for p in range(int(raw_planes.max(initial=0))):
        here = raw_planes > p
        numbers[here] |= bits[starts[here] + p] << np.uint64(p)
    return numbers


def pack_raw(numbers: Array, raw_planes: Array) -> bytes:
    """Undo `unpack_raw`."""
    bits = np.zeros((int(raw_planes.sum()), BLOCK), np.uint8)
    starts = np.cumsum(raw_planes) - raw_planes
    for p in range(int(raw_planes.max(initial=0))):
        here = raw_planes > p
        bits[starts[here] + p] = numbers[here] >> np.uint64(p) & np.uint64(1)
    return np.packbits(bits, axis=1, bitorder="little").tobytes()


def cost_of(frequency: int) -> int:
    """Give the cost of a symbol or class in 16ths of a bit.

    It is the integer nearest to 16 log2(2048 / frequency), found without a logarithm.
    """
    # c - 1/2 <= 16 log2(2048 / f) is 2^(2c - 1) <= (2048 / f)^32.
    cost = 0
    while frequency**32 << (2 * cost + 1) <= 2048**32:
        cost += 1
    return cost


SYMBOL_COSTS = np.array([[[cost_of(f) for f in row] for row in s] for s in interp_tables.SYMBOLS])

CLASS_COSTS = np.array([[[cost_of(f) for f in row] for row in m] for m in interp_tables.CLASSES])


def guessed_classes(z: Array) -> Array:
    """Guess the class of each block.

    `z` are folded residuals without the bits that are raw in every block, by block; uint64.
    """
    h = ((z + np.uint64(1)) >> np.uint64(1)).sum(axis=1)
    thresholds = np.array([4525 << j for j in range(12)], "<u8")
    j = (np.uint64(1000) * h[:, None] >= thresholds).sum(axis=1)
    guessed: Array = np.where(h == 0, 0, j + 1)
    return guessed


def cheapest_path(z: Array, guessed: Array, table_set: int, model: int) -> Array:
    """Choose the classes of blocks that cost the least together, near those that are `guessed`."""
    in_class = np.zeros((16, len(z)), int)
    for symbol_class in range(1, 16):
        raw = max(0, symbol_class - 4)
        symbols = np.minimum(z >> np.uint64(raw), ESCAPE).astype(int)
        cost = SYMBOL_COSTS[table_set][table_of(symbol_class)][symbols] + 256 * (symbols == ESCAPE)
        in_class[symbol_class] = 512 * raw + cost.sum(axis=1)
    candidates = (guessed - (guessed > 1))[:, None] + np.arange(4)
    costs = np.take_along_axis(in_class.T, candidates, axis=1)
    total = costs[0] + CLASS_COSTS[model][16, candidates[0]]
    sources = np.zeros_like(candidates)
    for block in range(1, len(z)):
        before, here = candidates[block - 1], candidates[block]
        paths = total[:, None] + CLASS_COSTS[model][before[:, None], here]
        sources[block] = paths.argmin(axis=0)
        total = paths.min(axis=0) + costs[block]
    chosen = [int(total.argmin())]
    for source in sources[:0:-1]:
        chosen.append(int(source[chosen[-1]]))
    classes: Array = candidates[np.arange(len(z)), chosen[::-1]]
    return classes


class Plan(NamedTuple):
    """Classes of blocks, and what follows from them."""

    classes: Array
    head: CoderHead
    symbols: Array
    items: Array
    cost: int


def plan_of(residuals: Array, folded: Array, raw: int, classes: Array) -> Plan:
    """Find what follows from the class of each block; `raw` is R."""
    raw_planes = raw_planes_of(classes, raw)
    symbols = np.minimum(folded >> raw_planes.astype("<u8")[:, None], ESCAPE).astype(int)
    symbols[classes == 0] = 0
    is_escape = (symbols == ESCAPE).ravel()[: residuals.size]
    items = zigzag(residuals[is_escape])
    largest = int(items.max(initial=0))
    escape_bytes = next(size for size in ESCAPE_BYTES if largest < 1 << 8 * size)
    contexts = np.concatenate([[16], classes[:-1]])
    class_costs = [int(costs[contexts, classes].sum()) for costs in CLASS_COSTS]
    model = class_costs.index(min(class_costs))
    used = np.flatnonzero(classes)
    tables = np.minimum(classes, 5) - 1
    symbol_costs = [int(costs[tables[used, None], symbols[used]].sum()) for costs in SYMBOL_COSTS]
    table_set = symbol_costs.index(min(symbol_costs))
    coded = class_costs[model] + symbol_costs[table_set]
    lanes = max(number for number in LANES if number == 1 or 16384 * number <= coded)
    head = CoderHead(lanes, model, escape_bytes, raw, table_set)
    cost = coded + 512 * int(raw_planes.sum()) + 128 * escape_bytes * items.size + 384 * lanes
    cost -= 256 * borrowed_halves(raw_planes, lanes)
    return Plan(classes, head, symbols, items, cost)


def own_table(folded: Array, raw: int, most: int) -> tuple[int, int, list[int]] | None:
    """Find the best table for blocks with `raw` to `most` raw planes.

    Give its cost with raw planes and escapes, the raw planes of every block, and the frequencies.
    """
    total = sum((folded >> np.uint64(raw)).ravel().tolist())
    more = 0
    while total >> more > 3 * folded.size:
        more += 1
    largest = int(folded.max())
    escape_bytes = next(size for size in ESCAPE_BYTES if largest < 1 << 8 * size)
    found = []
    least = raw + max(more - 1, 0)
    for planes in range(least, min(least + 3, most + 1)):
        symbols = np.minimum(folded >> np.uint64(planes), ESCAPE).astype(int)
        counts = np.bincount(symbols.ravel(), minlength=16).tolist()
        frequencies = [max(1, (2 * n * 2048 + folded.size) // (2 * folded.size)) for n in counts]
        frequencies[frequencies.index(max(frequencies))] += 2048 - sum(frequencies)
        cost = sum(n * cost_of(f) for n, f in zip(counts, frequencies, strict=True))
        cost += 512 * planes * len(folded) + 128 * escape_bytes * counts[ESCAPE]
        found.append((cost, planes, frequencies))
    return min(found, key=lambda one: one[0], default=None)


def with_own_table(folded: Array, raw: int, most: int, plan: Plan) -> Plan:
    """Give a plan with a table of the tile's own, where that is better."""
    if plan.head.lanes < 16:
        return plan
    some = own_table(folded[::8], raw, most)
    if some is None or 8 * some[0] > plan.cost + plan.cost // 32:
        return plan
    all_of_it = own_table(folded, raw, most)
    if all_of_it is None:
        return plan
    cost, raw, frequencies = all_of_it
    symbols = np.minimum(folded >> np.uint64(raw), ESCAPE).astype(int)
    items = folded[symbols == ESCAPE]
    largest = int(items.max(initial=0))
    escape_bytes = next(size for size in ESCAPE_BYTES if largest < 1 << 8 * size)
    coded = cost - 512 * raw * len(folded) - 128 * escape_bytes * items.size
    lanes = max(number for number in LANES if number == 1 or 16384 * number <= coded)
    classes = np.ones(len(folded), int)
    cost += 128 * 22 + 384 * lanes
    cost -= 256 * borrowed_halves(raw_planes_of(classes, raw), lanes)
    if lanes < 16 or cost + cost // 256 >= plan.cost:
        return plan
    head = CoderHead(lanes, 0, escape_bytes, raw, 0, tuple(frequencies))
    return Plan(classes, head, symbols, items, cost)


class Coded(NamedTuple):
    """Coded residuals: what the head says of them, their bytes, and the cost that forms compare."""

    head: CoderHead
    data: bytes
    cost: int


def encode_residuals(residuals: Array, value_bits: int = 64) -> Coded:
    """Write the residuals of a tile, d of each value in coding order."""
    count = residuals.size
    folded = np.zeros((-(-count // BLOCK), BLOCK), "<u8")
    folded.ravel()[:count] = zigzag(residuals)
    total, raw = sum(folded.ravel().tolist()), 0
    while total > 5000 * count << raw:
        raw += 1
    z = folded >> np.uint64(raw)
    guess = plan_of(residuals, folded, raw, guessed_classes(z))
    path = cheapest_path(z, guess.classes, guess.head.table_set, guess.head.model)
    plans = [guess, plan_of(residuals, folded, raw, path)]
    most = 20 if value_bits == 32 else 48
    plan = with_own_table(folded, raw, most, min(plans, key=lambda plan: plan.cost))
    classes, head, symbols, items, _ = plan
    raw = head.raw
    lanes, is_escape = head.lanes, symbols == ESCAPE

    raw_planes = raw_planes_of(classes, raw)
    packed = pack_raw(np.where(is_escape, 0, folded), raw_planes)
    kept = len(packed) - 2 * borrowed_halves(raw_planes, lanes)
    encoder = Encoder(lanes, packed[kept:])
    listed = classes.tolist()
    for block in np.flatnonzero(classes)[::-1].tolist():
        frequencies = head.tables()[table_of(listed[block])]
        for i, symbol in reversed([*enumerate(symbols[block].tolist())]):
            encoder.put(i % lanes, symbol, frequencies)
    coded = [] if head.own_table else [*class_order(len(listed), lanes)]
    for lane, block, is_first in reversed(coded):
        context = context_of(listed, block, is_first)
        encoder.put(lane, listed[block], interp_tables.CLASSES[head.model][context])
    words = encoder.result()
    tail = items[::-1].astype(f"<u{head.escape_bytes}").tobytes()
    return Coded(head, words + tail + packed[:kept], guess.cost)

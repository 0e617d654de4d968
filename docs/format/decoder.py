# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""A decoder of h5lossy's frames in plain Python, to be read beside the pages of this folder.

    python decoder.py FRAME > values

Each part names the page and section that it follows, and uses their words and letters. It decodes
whatever they allow, and refuses what they refuse, but takes seconds for a million values.
Numbers are Python's: where a page has words of W bits, they are integers from 0 to 2**W - 1, and
values are such patterns, too, until the very end.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import math
import re
import struct
import sys
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

ABSOLUTE, POINTWISE_RELATIVE, RANGE_RELATIVE, LOSSLESS, NOISE = range(5)
STORED, PFPL, CUSZP2, AATROX, INTERP = range(5)


class Refused(ValueError):  # noqa: N818  # the pages' word
    """A frame that is not decoded."""


class Unsupported(Refused):
    """It may be right, and this decoder too old."""


class Truncated(Refused):
    """Bytes are missing at its end."""


class Corrupt(Refused):
    """It breaks a rule."""


def require(condition: object, rule: str) -> None:
    """Refuse the frame unless it keeps a rule."""
    if not condition:
        raise Corrupt(rule)


# ------------------------------------------------------------------------------------------------
# Numbers
# ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FloatType:
    """The type of a value, with the letters of pfpl.md, "Words used"."""

    size: int
    code: str  # struct's
    word_code: str
    m: int
    bias: int

    @property
    def W(self) -> int:
        return 8 * self.size

    @property
    def mask(self) -> int:
        return (1 << self.W) - 1

    def fl(self, number: float) -> float:
        """Round to the type: to nearest, ties to even."""
        try:
            return float(struct.unpack("<" + self.code, struct.pack("<" + self.code, number))[0])
        except OverflowError:
            return math.copysign(math.inf, number)

    def bits(self, number: float) -> int:
        """Return the pattern of a number of the type."""
        return int.from_bytes(struct.pack("<" + self.code, number), "little")

    def multiple(self, q: int, step: float) -> int:
        """Return bits(fl(float(q)·step)); a product of two float32 is exact in Python's float."""
        return self.bits(self.fl(self.fl(float(q)) * step))


@dataclass(frozen=True)
class IntegerType(FloatType):
    """A type of integers, with the letters of integers.md, "Words used"."""

    lo: int = 0

    @property
    def hi(self) -> int:
        return self.lo + self.mask

    def number(self, word: int) -> int:
        """Return the number that a word stands for."""
        return ((word - self.lo) & self.mask) + self.lo


BYTE = FloatType(1, "", "B", 0, 0)  # of a type that was not known: stored only
FLOAT32 = FloatType(4, "f", "I", 23, 127)
FLOAT64 = FloatType(8, "d", "Q", 52, 1023)
INTEGERS = {
    16 * (1 + is_signed) + size: IntegerType(
        size, "", code, 0, 0, -(1 << (8 * size - 1)) if is_signed else 0
    )
    for size, code in {1: "B", 2: "H", 4: "I", 8: "Q"}.items()
    for is_signed in (0, 1)
}


INTEGERS[0x32] = IntegerType(2, "", "H", 10, 15, -(1 << 15))  # float16
INTEGERS[0x42] = IntegerType(2, "", "H", 7, 127, -(1 << 15))  # bfloat16


def ceil_div(i: int, j: int) -> int:
    return -(-i // j)


def signed(word: int, width: int) -> int:
    """Read a number of so many bits, the lowest ones, in two's complement."""
    word &= (1 << width) - 1
    return word - (1 << width) if word >> (width - 1) else word


def unzigzag(word: int) -> int:
    return (word >> 1) ^ -(word & 1)


def set_bits(word: int) -> Iterator[int]:
    """Yield the places of the bits that are set, lowest first."""
    return (i for i in range(word.bit_length()) if word >> i & 1)


class Reader:
    """Takes the parts of a payload one after the other."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, size: int) -> bytes:
        require(0 <= size <= len(self.data) - self.at, "a payload is too short")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def pad(self) -> None:
        """Skip what is missing to a multiple of 4 bytes."""
        require(not any(self.take(-self.at % 4)), "a pad is not zero")


# ------------------------------------------------------------------------------------------------
# frame.md
# ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Frame:
    """The fields of a frame, and where its tiles are."""

    codec: int
    float_type: FloatType
    big_endian: bool
    kind: int
    mode: int
    raw_bytes: int
    bound: float
    step: float  # kind 1: the number S
    dims: tuple[int, ...]
    ends: tuple[int, ...]
    payload: bytes
    exact: tuple[int, ...] = ()  # of integers, as the next two
    base: int = 0
    stride: int = 1
    noise: int = 0  # C

    @property
    def count(self) -> int:
        return self.raw_bytes // self.float_type.size


def checksum(strings: Iterable[bytes]) -> int:
    """frame.md, "Checksum"."""
    total = 0
    for t, string in enumerate(strings):
        padded = string + bytes(-len(string) % 4)
        for i, (w,) in enumerate(struct.iter_unpack("<I", padded)):
            h = (w + (i + 1) * 0x9E3779B9 + t * 0x85EBCA77) % 2**32
            h = (h ^ h >> 16) * 0x85EBCA6B % 2**32
            h = (h ^ h >> 13) * 0xC2B2AE35 % 2**32
            total += h ^ h >> 16
    return total % 2**32


def read_frame(data: bytes) -> Frame:
    """frame.md, "Fields", in the "Order of checks"."""
    if len(data) < 4:
        raise Truncated("the frame ends in its header")
    require(data[:4] == b"H5LY", "there is no magic")
    if len(data) < 40:
        raise Truncated("the frame ends in its header")
    if data[4] != 1:
        raise Unsupported(f"version {data[4]}")
    words, codec, type_byte, kind, mode, flags, raw_bytes, header_sum, payload_sum, bound = (
        struct.unpack_from("<5BH3Id", data, 5)
    )
    require(words >= 10, "there are too few header words")
    if len(data) < 4 * words:
        raise Truncated("the frame ends in its header")
    is_complex = type_byte & 0x70 == 0x50
    is_integer = not is_complex and type_byte & 0x70 != 0
    is_type = not is_integer or (type_byte & 0x70 <= 0x40 and codec in {STORED, PFPL, INTERP})
    if flags >> 8 or codec > INTERP or not is_mode(codec, mode) or not is_type:
        raise Unsupported(f"flags {flags:#x}, codec {codec}, mode {mode:#x}, type {type_byte:#x}")
    dim_count = 4 if codec == INTERP else 3 if codec == CUSZP2 and mode >> 4 > 1 else 0
    has_lattice = is_integer and codec != STORED
    if has_lattice and codec == PFPL:
        dim_count = 3
    float_type = type_of(type_byte, codec)
    require(not is_complex or raw_bytes % (2 * float_type.size) == 0, "half a complex number")
    require(raw_bytes % float_type.size == 0, "raw_bytes is not a multiple of the value's size")
    require(words >= (20 if has_lattice else 10 + dim_count), "there are too few header words")
    dims = struct.unpack_from(f"<{dim_count}I", data, 40)
    count = raw_bytes // float_type.size
    require(not dims or math.prod(dims) == count, "the dims are not those of the values")
    tiles = 0 if codec == STORED else count_tiles(codec, mode, float_type, count, dims)
    front = 4 * (words + tiles)
    if len(data) < front:
        raise Truncated("the frame ends in its tile table")
    ends = struct.unpack_from(f"<{tiles}I", data, 4 * words)
    require(checksum([data[:16] + data[20:front]]) == header_sum, "header_sum")

    payload = data[front:]
    lattice = read_lattice(data, codec, kind, float_type) if has_lattice else (0, (), 0, 1, 0)
    may_be_noise = type_byte & 0x70 in {0x10, 0x20} or float_type is BYTE
    require(kind <= (NOISE if may_be_noise else LOSSLESS), "there is no such bound kind")
    require(math.isfinite(bound) and math.copysign(1, bound) > 0, "the bound is not allowed")
    step = lattice[0] if has_lattice else read_step(data[32:40], codec, kind, float_type)
    require(flags & 1 or payload_sum == 0, "there is a payload_sum that no flag announces")
    require([*ends] == sorted(ends), "the tile table decreases")
    size = raw_bytes if codec == STORED else ends[-1] if ends else 0
    if len(payload) < size:
        raise Truncated("the frame ends in its payload")
    require(len(payload) == size, "there are bytes behind the payload")
    if flags & 1:
        tile_strings = [payload] if codec == STORED else cut(payload, ends)
        require(checksum(tile_strings) == payload_sum, "payload_sum")
    return Frame(
        codec, float_type, bool(type_byte & 128), kind, mode, raw_bytes, bound, step, dims, ends,
        payload, *lattice[1:],
    )  # fmt: skip


def type_of(type_byte: int, codec: int) -> FloatType:
    """frame.md, "Types"; of complex numbers, that of the components."""
    types = {4: FLOAT32, 8: FLOAT64} | ({1: BYTE} if codec == STORED else {}) | INTEGERS
    is_complex = type_byte & 0x70 == 0x50
    code = type_byte & 15 if is_complex else type_byte & 127
    require(code in types and not (is_complex and code == 1), "the type is not allowed")
    require(types[code].size > 1 or type_byte < 128, "a byte has no order")
    return types[code]


def read_step(field: bytes, codec: int, kind: int, float_type: FloatType) -> float:
    """Read the step, or the number S."""
    number, word = struct.unpack("<d", field)[0], int.from_bytes(field, "little")
    if codec == STORED or kind == LOSSLESS:
        require(word == 0, "the step is not 0")
        require(codec in {STORED, PFPL}, "only PFPL has a lossless form")
        return 0
    if kind == POINTWISE_RELATIVE:
        require(word % 2 == 1 and 3 <= word <= 2**float_type.m + 1, "S is not allowed")
        return word
    least = 2.0 ** (2 - float_type.bias)
    require(least <= number <= 2.0 ** (float_type.bias - 2), "the step is not allowed")
    require(float_type.fl(number) == number, "the step is not of the value's type")
    return float(number)


def read_lattice(
    data: bytes, codec: int, kind: int, float_type: FloatType
) -> tuple[float, tuple[int, ...], int, int, int]:
    """integers.md, "Header": the step, the exact values' bits, base and stride, C."""
    is_half = float_type.m > 0
    step, *_, first, noise, count, exact, both = struct.unpack_from("<Q6I2Q", data, 32)
    if kind > NOISE or (kind == NOISE and (is_half or float_type.size == 8)):
        raise Unsupported(f"bound kind {kind} of integers")
    require(is_half or kind != POINTWISE_RELATIVE, "integers have no such bound kind")
    most = 1 if float_type.size == 8 else 2
    if (first and codec == PFPL) or (noise and kind != NOISE) or count > most:
        raise Unsupported(f"fields {first}, {noise}, and {count} exact values")
    if kind == LOSSLESS:
        base, stride = (0, both) if float_type.size == 8 else (both % 2**32, both >> 32)
        require(step == count == exact == 0, "a field of bounds in a lossless frame")
        is_one = 2 <= stride <= float_type.mask and base < stride
        require(both == 0 or (is_one and not is_half), "base and stride are not allowed")
        return 0, (), base, max(stride, 1), 0
    require(both == 0, "base and stride are for lossless frames")
    values = (exact,) if most == 1 else (exact % 2**32, exact >> 32)
    require(max(values) <= float_type.mask and not any(values[count:]), "the exact values")
    require(count < 2 or values[0] < values[1], "the order of the exact values")
    values = values[:count]
    if is_half:
        limit: float = struct.unpack("<d", data[32:40])[0]
        require(0 < limit < (1 if kind == POINTWISE_RELATIVE else math.inf), "the step")
        is_finite = all(value & 0x7FFF < infinity(float_type) for value in values)
        require(is_finite, "the exact values are not finite")
        return limit, values, 0, 1, 0
    if kind == NOISE:
        require(step <= 1 << 15 and 16 <= noise <= 1 << 16, "floor and C are not allowed")
    else:
        require(2 <= step <= float_type.mask, "the step is not allowed")
    return step, values, 0, 1, noise


def is_mode(codec: int, mode: int) -> bool:
    """Whether a codec has a mode: cuszp2.md, "Mode"; interp.md, "Dims and mode"."""
    if codec == CUSZP2:
        return mode & 3 != 3 and mode >> 4 in {1, 2, 3} and mode & 12 == 0
    if codec == INTERP:
        return 1 <= (mode & 15).bit_count() <= 3 and mode >> 6 == 0
    return mode == 0


def cut(payload: bytes, ends: Sequence[int]) -> list[bytes]:
    """Return the payload of each tile."""
    return [payload[start:end] for start, end in itertools.pairwise((0, *ends))]


def count_tiles(
    codec: int, mode: int, float_type: FloatType, count: int, dims: tuple[int, ...]
) -> int:
    """Return how many tiles a frame has."""
    if codec == INTERP:
        return math.prod(map(ceil_div, dims, tile_extents(dims, mode))) if count else 0
    if isinstance(float_type, IntegerType):
        return math.prod(map(ceil_div, dims, integer_box(dims, float_type))) if count else 0
    if dims:
        return ceil_div(math.prod(blocks_along(dims, mode)), 64)
    full = {PFPL: 16384 // float_type.size, CUSZP2: 4096, AATROX: 32768}[codec]
    return ceil_div(count, full)


def decode(data: bytes) -> bytes:
    """Return the raw bytes of a frame's chunk."""
    frame = read_frame(data)
    words = [0] * frame.count
    code = frame.float_type.word_code
    if frame.codec == STORED:
        words = [*struct.unpack(f"<{frame.count}{code}", frame.payload)]
    for number, payload in enumerate(cut(frame.payload, frame.ends)):
        for place, word in decode_tile(frame, number, payload):
            words[place] = word
    return struct.pack(f"{'>' if frame.big_endian else '<'}{frame.count}{code}", *words)


def decode_tile(frame: Frame, number: int, payload: bytes) -> Iterable[tuple[int, int]]:
    """frame.md, "Tiles": each value's place in the chunk, and its pattern."""
    of_integers = isinstance(frame.float_type, IntegerType) and frame.codec == PFPL
    tile = (integer_tile if of_integers else TILES[frame.codec])(frame, number)
    size, count = frame.float_type.size, len(tile.places)
    require(len(payload) <= size * count, "a tile's payload is longer than its values")
    words: Sequence[int]
    if len(payload) == size * count:
        words = struct.unpack(f"<{count}{frame.float_type.word_code}", payload)
    else:
        words = tile.decode(payload) if payload else [frame.base] * count
    return zip(tile.places, words, strict=True)


class Tile(NamedTuple):
    """What a codec has for a tile."""

    places: Sequence[int]  # of its values in the chunk, in the order that a stored tile has
    decode: Callable[[bytes], Sequence[int]]  # makes their patterns of its payload


# ------------------------------------------------------------------------------------------------
# pfpl.md
# ------------------------------------------------------------------------------------------------


def pfpl_tile(frame: Frame, number: int) -> Tile:
    full = 16384 // frame.float_type.size
    places = range(number * full, min((number + 1) * full, frame.count))
    return Tile(places, lambda payload: decode_pfpl(frame, len(places), payload))


def restore_planes(payload: bytes, raw_size: int) -> bytes:
    """pfpl.md, "Decoding a tile", steps 1 and 2."""
    # 1. Bitmaps, from the payload's end.
    require(len(payload) >= 4, "a payload is too short")
    bitmap, end = payload[-4:], len(payload) - 4
    for size in (32, 256, 2048):
        start = end - int.from_bytes(bitmap, "little").bit_count()
        require(start >= 0, "a payload is too short")
        kept, byte = iter(payload[start:end]), 0
        bitmap = bytes(byte := next(kept) if is_kept else byte for is_kept in rebuilt(bitmap, size))
        end = start
    is_set = rebuilt(bitmap, 8 * len(bitmap))
    require(sum(is_set) == end, "the payload has another size than its bitmaps say")
    require(not any(is_set[raw_size:]), "a bit is set behind the tile's values")
    # 2. Planes.
    non_zero = iter(payload[:end])
    return bytes(next(non_zero) if is_there else 0 for is_there in is_set[:raw_size])


def decode_pfpl(frame: Frame, count: int, payload: bytes) -> list[int]:
    """pfpl.md, "Decoding a tile"."""
    t = frame.float_type
    planes = restore_planes(payload, t.size * count)
    # 3. Residuals.
    words = struct.unpack(f"<{count}{t.word_code}", planes)
    groups = count // t.W
    residuals = [
        sum((words[j * groups + g] >> (t.W - 1 - v) & 1) << (t.W - 1 - j) for j in range(t.W))
        for g in range(groups)
        for v in range(t.W)
    ]
    residuals += words[groups * t.W :]
    # 4. Differences.
    alternating = t.mask // 3 * 2  # 0xAA...AA
    differences = ((n ^ alternating) - alternating for n in residuals)
    # 5. Values.
    return [pfpl_value(frame, w & t.mask) for w in itertools.accumulate(differences)]


def rebuilt(bitmap: bytes, count: int) -> list[bool]:
    """Return the first bits of a bitmap, each of which says something of a byte of the next."""
    return [bool(bitmap[i >> 3] >> (i & 7) & 1) for i in range(count)]


def pfpl_value(frame: Frame, w: int) -> int:
    t = frame.float_type
    if frame.kind == LOSSLESS:
        return w
    if frame.kind != POINTWISE_RELATIVE:
        return t.multiple(unzigzag(w), frame.step) if w < 1 << t.m else w
    sign_and_exponent = t.mask >> t.m << t.m  # M
    v = (w + 1 & t.mask) ^ sign_and_exponent
    p = v & ((1 << t.m) - 1)
    if v >= sign_and_exponent and p != 0:
        return 0 if p == 1 else power(frame, unzigzag((p >> 1) - 1), negative=p & 1)
    return v if v != 0 else t.mask >> (t.m - 1) << (t.m - 1)  # the default negative NaN


def power(frame: Frame, q: int, *, negative: int) -> int:
    """Return sign·2^(W−1) | ((A1 + q·S) mod 2^(W−1))."""
    t = frame.float_type
    return negative << (t.W - 1) | ((t.bias << t.m) + q * int(frame.step)) % (1 << (t.W - 1))


# ------------------------------------------------------------------------------------------------
# integers.md
# ------------------------------------------------------------------------------------------------


def integer_box(dims: Sequence[int], t: FloatType) -> tuple[int, int, int]:
    """integers.md, "Boxes"."""
    z, y, x = dims
    most = 16384 // t.size
    if 2 * y * x <= most:
        return ceil_div(z, ceil_div(z, most // (y * x))), y, x
    p, parts = [y, x], [1, 1]
    while p[0] * p[1] > most:
        longer = 0 if p[0] >= p[1] else 1
        parts[longer] *= 2
        p[longer] = ceil_div((y, x)[longer], parts[longer])
    return 1, p[0], p[1]


def integer_tile(frame: Frame, number: int) -> Tile:
    box = integer_box(frame.dims, frame.float_type)
    counts = [*map(ceil_div, frame.dims, box)]
    at = number // counts[2] // counts[1], number // counts[2] % counts[1], number % counts[2]
    z, y, x = (
        range(i * p, min((i + 1) * p, n)) for i, p, n in zip(at, box, frame.dims, strict=True)
    )
    places = [(i * frame.dims[1] + j) * frame.dims[2] + k for i in z for j in y for k in x]
    return Tile(places, lambda payload: decode_integers(frame, len(places), len(x), payload))


def decode_integers(frame: Frame, count: int, row: int, payload: bytes) -> list[int]:
    """integers.md, "Decoding a tile"."""
    t = frame.float_type
    assert isinstance(t, IntegerType)
    predictor = payload[-1]
    require(predictor <= 4, "there is no such predictor")
    planes = restore_planes(payload[:-1], t.size * count)
    groups = count // 8
    residuals = [
        sum((planes[j * groups + g] >> (7 - v) & 1) << (t.W - 1 - j) for j in range(t.W))
        for g in range(groups)
        for v in range(8)
    ]
    residuals += struct.unpack_from(f"<{count % 8}{t.word_code}", planes, groups * t.W)
    alternating = t.mask // 3 * 2  # 0xAA...AA
    words: list[int] = []  # as the numbers that they stand for
    for n in residuals:
        p = predict(words, row, predictor)
        words.append(t.number(p + (n ^ alternating) - alternating))
    return [integer_value(frame, t, k) & t.mask for k in words]


def predict(words: Sequence[int], row: int, predictor: int) -> int:
    """Return p of the word that comes after these."""
    y, x = divmod(len(words), row)
    if predictor == 0:
        return 0
    if y == 0:
        return words[-1] if x else 0
    above = words[(y - 1) * row : y * row]
    if predictor == 3:
        sides = above[max(x - 1, 0)] + above[min(x + 1, row - 1)]
        return (above[x] + ((sides + 1) >> 1) + 1) >> 1
    if predictor == 2 or x == 0:
        return above[x]
    return words[-1] if predictor == 1 else above[x] + words[-1] - above[x - 1]


def integer_value(frame: Frame, t: IntegerType, k: int) -> int:
    """integers.md, "Lattice"."""
    if frame.kind == LOSSLESS:
        return frame.base + k * frame.stride
    if t.m:
        return half_of_word(frame, t, k)
    if frame.kind == NOISE:
        return noisy_value(frame, t, k)
    step = int(frame.step)
    b = step // 2

    def bin_of(x: int) -> int:
        return (x + b) // step

    def from_bin(k: int) -> int:
        is_bin = bin_of(t.lo) <= k <= bin_of(t.hi)
        return min(max(k * step, t.lo), t.hi) if is_bin else k * step

    values = exact_words(frame, t, bin_of, from_bin, t.number)
    return values.get(k, from_bin(k))


def exact_words(
    frame: Frame,
    t: IntegerType,
    bin_of: Callable[[int], int],
    from_bin: Callable[[int], int],
    place_of: Callable[[int], int],
) -> dict[int, int]:
    """integers.md, "Lattice": what the words of exact values, and beside them, come back as.

    Values are given by their places in the order of values.
    """
    pairs = [(bits, place_of(bits)) for bits in frame.exact]
    places = [place for bits, place in pairs if place or not bits]  # -0.0 is at the place of 0
    n, words = len(pairs), {}
    for i, (bits, place) in enumerate(pairs, start=1):
        own, above = (t.number(bin_of(t.hi) + j) for j in (i, n + i))
        k = bin_of(place)
        if from_bin(k) == place and (place or not bits):
            for way, word in ((-1, own if place == 0 else k), (1, above)):
                x = place
                while x in places and (t.m or t.lo <= x + way <= t.hi):
                    x += way
                if x not in places:
                    words[word] = x
        words[k if bits == 0 else own] = place
    return words


@functools.lru_cache
def noise_bins(floor: int, noise: int, top: int) -> tuple[list[int], list[int]]:
    """integers.md, "Bins that grow" and "Noise": where each begins, and what it comes back as."""

    def bound(o: int) -> int:
        return max(floor, math.isqrt(noise**2 * o) // 256)

    first, middle, o = [], [], 0
    while o <= top:
        first.append(o)
        r = min(o + bound(o), top) if o else 0
        middle.append(r)
        o = r + 1
        while o <= top and o - r <= bound(o):
            o = r + bound(o) + 1  # those in front of it are near enough, as the bound never falls
    return first, middle


def noisy_value(frame: Frame, t: IntegerType, k: int) -> int:
    """integers.md, "Noise"."""
    first, middle = noise_bins(int(frame.step), frame.noise, max(t.hi, -t.lo))

    def bin_of(x: int) -> int:
        return (bisect.bisect(first, abs(x)) - 1) * (1 if x >= 0 else -1)

    def from_bin(k: int) -> int:
        r = middle[min(abs(k), len(middle) - 1)]
        return min(r, t.hi) if k >= 0 else -r

    values = exact_words(frame, t, bin_of, from_bin, t.number)
    return values.get(k, from_bin(k))


def infinity(t: FloatType) -> int:
    """Return the pattern of infinity."""
    return 0x7FFF >> t.m << t.m


@functools.lru_cache
def half_bins(t: FloatType, kind: int, limit: float) -> tuple[list[int], list[int]]:
    """integers.md, "Bins": where each begins, and what it comes back as."""
    fields = [(o >> t.m, o & ((1 << t.m) - 1)) for o in range(infinity(t))]
    v = [f if e == 0 else (f | 1 << t.m) << (e - 1) for e, f in fields]  # in units
    share = Fraction(limit) if kind == POINTWISE_RELATIVE else 0
    in_units = Fraction(limit) * 2 ** (t.m + t.bias - 1)
    bounds = [math.floor(share * x if share else in_units) for x in v]
    first, middle, o = [], [], 0
    while o < 0x8000:
        first.append(o)
        r = o
        while o > 0 and r + 1 < len(v) and v[r + 1] - v[o] <= bounds[o]:
            r += 1
        middle.append(r)
        o = r + 1
        while o < len(v) and v[o] - v[r] <= bounds[o]:
            o += 1
    return first, middle


def half_of_word(frame: Frame, t: IntegerType, k: int) -> int:
    """integers.md, "Halves"."""
    first, middle = half_bins(t, frame.kind, frame.step)
    last = len(first) - 1

    def pattern(o: int) -> int:
        return o if o >= 0 else -o | 0x8000

    def bin_of(o: int) -> int:
        return (bisect.bisect(first, abs(o)) - 1) * (1 if o >= 0 else -1)

    def from_bin(k: int) -> int:
        o = middle[min(abs(k), last)]
        return o if k >= 0 else -o

    def place_of(bits: int) -> int:
        return bits if bits < 0x8000 else -(bits & 0x7FFF)

    values = exact_words(frame, t, bin_of, from_bin, place_of)
    negative_zero = [t.number(last + 1 + i) for i, x in enumerate(frame.exact) if x == 0x8000]
    return 0x8000 if k in negative_zero else pattern(values.get(k, from_bin(k)))


# ------------------------------------------------------------------------------------------------
# block-codecs.md
# ------------------------------------------------------------------------------------------------


def value_of(frame: Frame, q: int) -> int:
    """block-codecs.md, "From values to integers"."""
    t = frame.float_type
    q = signed(q, t.W)
    if frame.kind != POINTWISE_RELATIVE:
        return t.multiple(q, frame.step)
    largest = min(((t.bias << t.m) - (1 << t.m)) // int(frame.step), (1 << (t.m - 2)) - 2)  # K
    return power(frame, abs(q) - largest - 1, negative=q < 0) if q else 0


#: The places of a block's values in the chunk; None for positions beyond the end of the data.
Block = list["int | None"]


def decode_blocks(frame: Frame, blocks: list[Block], payload: bytes) -> list[int]:
    """block-codecs.md, "A tile's payload"."""
    t = frame.float_type
    require(len(payload) % 4 == 0, "a payload is no multiple of 4")
    inside = [[place is not None for place in block] for block in blocks]
    if len(payload) == t.size:
        return [int.from_bytes(payload, "little")] * sum(map(sum, inside))
    is_aatrox = frame.codec == AATROX
    reader = Reader(payload)
    codes = (aatrox_codes if is_aatrox else cuszp2_codes)(frame, reader, blocks)
    reader.pad()
    initial = reader.number(t.size) if is_aatrox else 0
    planes = [read_planes(reader, code.planes, len(inside[0])) for code in codes]
    firsts = sum(code.first_bytes for code in codes)
    exceptions = reader.take(len(payload) - reader.at - ceil_div(firsts, 4) * 4)
    for code, (_, magnitudes) in zip(codes, planes, strict=True):
        if code.first_bytes:
            magnitudes[0] = reader.number(code.first_bytes)
    reader.pad()
    differences = [
        [-a if signs >> e & 1 else a for e, a in enumerate(magnitudes)]
        for signs, magnitudes in planes
    ]
    if is_aatrox:
        flat = itertools.accumulate(itertools.chain(*differences), initial=initial)
        next(flat)
        q = [[next(flat) for _ in block] for block in blocks]
    else:
        q = [undo_differences(frame, d) for d in differences]
    bits = read_exceptions(t, exceptions, inside) if exceptions else {}
    return [
        bits[b, e] if (b, e) in bits else value_of(frame, q[b][e])
        for b, block in enumerate(inside)
        for e, is_inside in enumerate(block)
        if is_inside
    ]


@dataclass(frozen=True)
class Code:
    """What the code of a block says: how many planes, and the bytes of a first residual."""

    planes: int
    first_bytes: int = 0


def read_planes(reader: Reader, count: int, n: int) -> tuple[int, list[int]]:
    """block-codecs.md, "Bits of a block": the plane of signs, and the magnitudes."""
    # Bit 7 - (e & 7) of byte e >> 3 becomes bit e.
    planes = [
        int("".join(f"{byte:08b}" for byte in reader.take(n // 8))[::-1], 2) for _ in range(count)
    ]
    magnitudes = [sum((bits >> e & 1) << i for i, bits in enumerate(planes[1:])) for e in range(n)]
    return planes[0] if planes else 0, magnitudes


def read_exceptions(
    t: FloatType, section: bytes, inside: list[list[bool]]
) -> dict[tuple[int, int], int]:
    """block-codecs.md, "Exceptions": the bits of each, by block and position."""
    reader = Reader(section)
    groups, common = reader.number(4), reader.number(t.size)
    require(groups, "groups is 0")
    present, full, uniform = set[int](), set[int](), set[int]()
    for g in set_bits(groups):
        masks = [reader.number(4) for _ in range(3)]
        require(masks[0] and not (masks[1] | masks[2]) & ~masks[0], "present, full or uniform")
        for blocks, mask in zip((present, full, uniform), masks, strict=True):
            blocks.update(32 * g + b for b in set_bits(mask))
    require(max(present) < len(inside), "an exception is in no block")
    places = {b: [e for e, is_inside in enumerate(inside[b]) if is_inside] for b in present}
    for b in sorted(present - full):
        exceptional = [*set_bits(reader.number(len(inside[b]) // 8))]
        require(exceptional and {*exceptional} < {*places[b]}, "a mask is not allowed")
        places[b] = exceptional
    bits = {
        (b, e): common if b in uniform else reader.number(t.size)
        for b in sorted(present)
        for e in places[b]
    }
    require(reader.at == len(section), "the section of exceptions has another length")
    return bits


# ------------------------------------------------------------------------------------------------
# cuszp2.md
# ------------------------------------------------------------------------------------------------


def cuszp2_tile(frame: Frame, number: int) -> Tile:
    """cuszp2.md, "Blocks and tiles"."""
    if not frame.dims:
        return of_blocks(frame, consecutive(frame, number * 4096, (number + 1) * 4096))
    extents = block_extents(frame.mode)
    starts = [range(0, n, extent) for n, extent in zip(frame.dims, extents, strict=True)]
    corners = [*itertools.product(*starts)][64 * number : 64 * (number + 1)]
    return of_blocks(frame, [block_at(frame.dims, corner, extents) for corner in corners])


def block_at(dims: Sequence[int], corner: Sequence[int], extents: Sequence[int]) -> Block:
    """Return the places of a block's positions, in raster order."""
    sides = [range(c, c + extent) for c, extent in zip(corner, extents, strict=True)]
    return [
        (z * dims[1] + y) * dims[2] + x if z < dims[0] and y < dims[1] and x < dims[2] else None
        for z, y, x in itertools.product(*sides)
    ]


def block_extents(mode: int) -> tuple[int, int, int]:
    return (1, 8, 8) if mode >> 4 == 2 else (4, 4, 4)


def blocks_along(dims: Sequence[int], mode: int) -> list[int]:
    return [*map(ceil_div, dims, block_extents(mode))]


def consecutive(frame: Frame, start: int, stop: int) -> list[Block]:
    """Return blocks of 32 consecutive values."""
    stop = min(stop, frame.count)
    return [
        [i if i < stop else None for i in range(first, first + 32)]
        for first in range(start, stop, 32)
    ]


def of_blocks(frame: Frame, blocks: list[Block]) -> Tile:
    places = [place for block in blocks for place in block if place is not None]
    return Tile(places, lambda payload: decode_blocks(frame, blocks, payload))


def cuszp2_codes(frame: Frame, reader: Reader, blocks: list[Block]) -> list[Code]:
    """cuszp2.md, "Codes"."""
    t, fixed, outlier = frame.float_type, frame.mode & 3 == 2, frame.mode & 3 == 1
    narrow = t is FLOAT32
    width_bits, first_bits = (5, 2) if narrow else (6, 3)
    codes = []
    for _ in blocks:
        code = reader.number(1 if narrow else 2)
        width = code & ((1 << width_bits) - 1)
        first = code >> width_bits & ((1 << first_bits) - 1)
        is_outlier = code >> (width_bits + first_bits)
        require(is_outlier <= 1, "a code has bits that must be zero")
        require(width <= (23 if narrow else 52) - fixed, "a width is too large")
        if is_outlier:
            require(outlier and first + 1 <= (3 if narrow else 7), "an outlier block")
            codes.append(Code(width + 1, first + 1))
        else:
            require(first == 0, "a code has bits that must be zero")
            codes.append(Code(width + 1 if width else 0))
    return codes


def undo_differences(frame: Frame, d: list[int]) -> list[int]:
    """cuszp2.md, "Differences"."""
    if frame.mode & 3 == 2:
        return d
    q: list[int] = []
    side = {1: 32, 2: 8, 3: 4}[frame.mode >> 4]
    for i, difference in enumerate(d):
        # The position before is one back along x, at x = 0 along y, and at y = 0 along z.
        back = 1 if i % side else side if i // side % side else side * side
        q.append(difference + (q[i - back] if i else 0))
    return q


# ------------------------------------------------------------------------------------------------
# aatrox.md
# ------------------------------------------------------------------------------------------------


def aatrox_tile(frame: Frame, number: int) -> Tile:
    return of_blocks(frame, consecutive(frame, number * 32768, (number + 1) * 32768))


def aatrox_codes(frame: Frame, reader: Reader, blocks: list[Block]) -> list[Code]:
    """aatrox.md, "Codes"."""
    layers = reader.number(4)
    require(layers < 1 << ceil_div(len(blocks), 32), "a layer has no values")
    widths = [0] * len(blocks)
    for layer in set_bits(layers):
        of_layer = reader.take(min(32, len(blocks) - 32 * layer))
        require(any(of_layer), "a layer has widths of 0 only")
        require(max(of_layer) <= (23 if frame.float_type is FLOAT32 else 52), "a width")
        widths[32 * layer : 32 * layer + len(of_layer)] = of_layer
    return [Code(width + 1 if width else 0) for width in widths]


# ------------------------------------------------------------------------------------------------
# interp.md
# ------------------------------------------------------------------------------------------------


def axes_of(bits: int) -> list[int]:
    """Return the axes, 0 to 3 for w, z, y, x, that are set in the bits of a mode."""
    return [axis for axis in range(4) if bits >> (3 - axis) & 1]


def tile_extents(dims: Sequence[int], mode: int) -> list[int]:
    """interp.md, "Tiles": the extents of a full tile."""
    p, parts = [*dims], [1] * 4
    while math.prod(p) > 32768:
        others = [axis for axis in range(4) if axis not in axes_of(mode) and p[axis] > 1]
        axis = max(others or axes_of(mode), key=lambda axis: p[axis])
        parts[axis] *= 2
        p[axis] = ceil_div(dims[axis], parts[axis])
    return p


def interp_tile(frame: Frame, number: int) -> Tile:
    """interp.md, "Tiles"."""
    full = tile_extents(frame.dims, frame.mode)
    along = [range(0, n, p) for n, p in zip(frame.dims, full, strict=True)]
    corner = next(itertools.islice(itertools.product(*along), number, None))
    sides = [range(c, min(c + p, n)) for c, p, n in zip(corner, full, frame.dims, strict=True)]
    strides = strides_of(frame.dims)
    places = [
        sum(i * stride for i, stride in zip(at, strides, strict=True))
        for at in itertools.product(*sides)
    ]
    extents = [*map(len, sides)]
    t = frame.float_type
    if not isinstance(t, IntegerType):
        return Tile(places, lambda payload: decode_interp(frame, t, extents, payload))

    def decode_words(payload: bytes) -> list[int]:
        """interp.md, "Integers"."""
        words = decode_interp(frame, FLOAT32 if t.size <= 2 else FLOAT64, extents, payload)
        return [integer_value(frame, t, t.number(word)) & t.mask for word in words]

    return Tile(places, decode_words)


def strides_of(extents: Sequence[int]) -> list[int]:
    return [math.prod(extents[axis + 1 :]) for axis in range(4)]


@dataclass(frozen=True)
class Head:
    """interp.md, "A tile's payload": the head and the base."""

    interpolates: bool
    fine: bool
    closed: bool
    lanes: int
    has_exceptions: bool
    narrow: bool
    model: int
    table_set: int
    item_bytes: int
    R: int
    weights: list[int]  # of the active axes
    axes: list[int]  # of Lorenzo prediction
    patches: int
    own_table: list[int]  # empty if there are classes
    units: int
    grade: int
    base: int
    V: int
    own_lattice: tuple[float, float] | None

    def unit(self, level: int) -> int:
        """interp.md, "Units"."""
        halves = (99, 3, 3, 2)[self.units]
        quarters = (99, 99, 5, 4)[self.units]
        if not self.closed:
            return 1
        return max(16 >> (level >= halves) + (level >= quarters), 1 << self.grade)


def read_head(t: FloatType, active: list[int], reader: Reader, *, has_fine_points: bool) -> Head:
    first, second, third, of_predictor = reader.take(4)
    base_bytes = 2 if third >> 3 & 1 else t.size
    base = signed(reader.number(base_bytes), 8 * base_bytes)
    numbers = [reader.number(2) if second >> bit & 1 else None for bit in (6, 7)]
    require(0 not in numbers, "a number that is there is not 0")
    raw_planes, patches = (number or 0 for number in numbers)
    item_bytes = 2 << (second >> 4 & 3)
    own_table = []
    if first & 1 == 0:
        table = reader.number(22)
        own_table = [(table >> 11 * s & 2047) + 1 for s in range(16)]
        require(sum(own_table) == 2048, "the sum of the frequencies")
        require(first >> 4 & 3 > 1 and second & 15 == third & 7 == 0, "a head without classes")
    interpolates, fine, closed, narrow = not first & 2, first >> 2 & 1, first >> 3 & 1, first >> 7
    own_lattice = read_own_lattice(t, reader) if not closed and third >> 6 & 1 else None
    wide = not narrow and t is FLOAT64
    units = third >> 4 & 3
    require(closed or (third >> 7 == 0 and units == 0), "units")
    may_be_own = has_fine_points and not fine and not patches
    require(own_lattice is None or may_be_own, "an own lattice")
    require(not closed or (fine and interpolates), "closed")
    require(narrow or not interpolates or t is FLOAT64, "interpolation of float32 is narrow")
    require(item_bytes <= (8 if wide else 4), "the bytes of an escape")
    require(raw_planes <= (48 if wide else 20), "R")
    require(has_fine_points or not fine, "there are no fine points")
    require(not patches or (has_fine_points and (closed or not fine)), "patches")
    codes = [of_predictor // 6**i % 6 for i in range(len(active))]
    if interpolates:
        require(of_predictor < 6 ** len(active), "weight codes")
    else:
        require(of_predictor < 16, "the axes of the head")
    return Head(
        interpolates=interpolates,
        fine=bool(fine),
        closed=bool(closed),
        lanes=(1, 4, 16, 32)[first >> 4 & 3],
        has_exceptions=bool(first >> 6 & 1),
        narrow=bool(narrow),
        model=second & 15,
        table_set=third & 7,
        item_bytes=item_bytes,
        R=raw_planes,
        weights=[(16, 8, 4, 2, 1, 0)[code] for code in codes] if interpolates else [],
        axes=axes_of(of_predictor),
        patches=patches,
        own_table=own_table,
        units=units,
        grade=third >> 6 if closed else 0,
        base=base,
        V=64 if wide else 32,
        own_lattice=own_lattice,
    )


def read_own_lattice(t: FloatType, reader: Reader) -> tuple[float, float]:
    """interp.md, "Own lattice": D and c."""
    d, c = struct.unpack("<2d", reader.take(16))
    require(math.isfinite(d) and d != 0 and math.isfinite(c), "D or c is not allowed")
    require(d > 0 or (t.fl(d) == d and t.fl(c) == c), "D or c is no number of the type")
    return d, c


def own_value(t: FloatType, k: int, d: float, c: float) -> float:
    """interp.md, "Own lattice": the value of an integer."""
    return t.fl(float(k) / d + c) if d > 0 else t.fl(t.fl(t.fl(float(k)) * -d) + c)


def decode_interp(frame: Frame, t: FloatType, extents: list[int], payload: bytes) -> list[int]:
    """interp.md, from "A tile's payload" to "Integers and residuals"."""
    count = math.prod(extents)
    are_words = t is not frame.float_type
    require(len(payload) % 2 == 0, "a payload has an odd number of bytes")
    if len(payload) == t.size:
        return [int.from_bytes(payload, "little")] * count
    active = [axis for axis in axes_of(frame.mode) if extents[axis] > 1]
    reader = Reader(payload)
    if are_words and len(payload) > 2 and payload[2] >> 7:
        return read_labels(t, extents, reader)
    has_fine_points = not are_words and frame.kind != POINTWISE_RELATIVE
    head = read_head(t, active, reader, has_fine_points=has_fine_points)
    exceptions = read_interp_exceptions(t, extents, reader) if head.has_exceptions else {}
    patches = read_patches(head, count, reader)
    left_out = {*exceptions} - {0} if are_words and 32 * len(exceptions) > count else set()
    residuals = iter(read_residuals(head, count - len(left_out), reader))

    predict = interpolation if head.interpolates else lorenzo
    numbers: list[int] = [0] * count  # relative to base
    for n, (place, prediction, level) in enumerate(predict(head, extents, active, numbers)):
        residual = 0 if place in left_out else next(residuals)
        if n > 0:  # the first is 0
            patch = patches.get(n, 0) if head.closed else 0
            step = head.unit(level) * residual + patch
            numbers[place] = signed(rounded(prediction, head.grade) + step, head.V)

    def pattern(place: int) -> int:
        q = signed(head.base + numbers[place], t.W)
        if place in exceptions:
            return exceptions[place]
        if are_words:
            return q & t.mask
        if place in patches and not head.closed:
            return t.multiple(signed(16 * q + patches[place], t.W), frame.step / 16)
        if head.own_lattice:
            return t.bits(own_value(t, q, *head.own_lattice) + 0.0)
        return t.multiple(q, frame.step / 16) if head.fine else value_of(frame, q)

    return [pattern(place) for place in range(count)]


def rounded(prediction: int, grade: int) -> int:
    """interp.md, "Integers and residuals": a prediction, as a multiple of 2^grade."""
    return (prediction + ((1 << grade) >> 1)) & -(1 << grade)


def read_interp_exceptions(t: FloatType, extents: list[int], reader: Reader) -> dict[int, int]:
    """interp.md, "Exceptions": the bits of each, by its number in raster order."""
    count = math.prod(extents)
    common, flags = reader.number(t.size), reader.number(2)
    has_others, are_alike = flags & 1, flags >> 1 & 1
    require(flags <= 3 and are_alike <= has_others, "flags")
    exceptional = read_mask(extents, reader)  # E
    bits = {i: common for i in range(count) if exceptional[i]}
    if has_others:
        others = [i for i, bit in enumerate(read_mask(extents, reader)) if bit]  # O
        require(all(i in bits for i in others), "O is no subset of E")
        numbers = [reader.number(t.size) for _ in range(1 if are_alike else len(others))]
        bits.update(zip(others, numbers * len(others) if are_alike else numbers, strict=False))
    return bits


class Decisions:
    """interp.md, "Masks": decisions, and the neighbours whose bits or words are their contexts."""

    def __init__(self, extents: list[int], reader: Reader) -> None:
        self.words, self.state, self.reader = reader.number(2), reader.number(4), reader
        strides = zip(strides_of(extents), extents, strict=True)
        _, r, s, *_ = [t for t, n in strides if n > 1][::-1] + [0] * 3
        if s:
            self.distances, bold = [1, r, s, r - 1, s + 1, s - 1, s + r, s - r], 3
        elif r:
            self.distances, bold = [1, r, r - 1, r + 1, 2, 2 * r, r - 2, r + 2], 2
        else:
            self.distances, bold = [1, 2, 3, 4, 0, 0, 0, 0], 1
        weights = [
            0 if d == 0 else 3 * 2048 if k < bold else 2048 for k, d in enumerate(self.distances)
        ]
        self.p = [
            32768 + sum(w if context >> k & 1 else -w for k, w in enumerate(weights))
            for context in range(256)
        ] + [1024] * 4

    def decide(self, context: int) -> int:
        p, state = self.p[context], self.state
        f = min(max(p >> 5, 8), 2040)
        slot = state & 2047
        bit = int(slot >= 2048 - f)
        state = f * (state >> 11) + slot - (2048 - f) if bit else (2048 - f) * (state >> 11) + slot
        if state < 1 << 16:
            require(self.words > 0, "the words of decisions are too few")
            self.words -= 1
            state = state << 16 | self.reader.number(2)
        self.p[context] += (65535 - p) >> 4 if bit else -(p >> 4)
        self.state = state
        return bit

    def finish(self) -> None:
        require(self.words == 0 and self.state == 1 << 16, "decisions do not end with their words")

    def visit(
        self, count: int, outside: int, context: Callable[[int], int], find: Callable[[], int]
    ) -> list[int]:
        """Decode bits or words in units; `context` is that of units of 32, `find` decodes one."""
        self.found, self.outside = list[int](), outside

        def unit(size: int, end: int) -> None:
            """Decode a unit, which ends with number `end` - 1."""
            around = {self.before(1)}
            for d in self.distances:
                if d >= size:
                    around |= {self.before(d - i) for i in range(size)}
            if len(around) == 1 and not self.decide(
                context(self.before(1)) + (0 if size == 32 else 2)
            ):
                self.found.extend([self.before(1)] * (end - len(self.found)))
            elif size == 32:
                while len(self.found) < end:
                    unit(8, min(len(self.found) + 8, end))
            else:
                while len(self.found) < end:
                    self.found.append(find())

        while len(self.found) < count:
            unit(32, min(len(self.found) + 32, count))
        self.finish()
        return self.found

    def before(self, d: int) -> int:
        return self.found[-d] if 0 < d <= len(self.found) else self.outside


def read_mask(extents: list[int], reader: Reader) -> list[int]:
    """interp.md, "Masks"."""
    mask = Decisions(extents, reader)

    def find() -> int:
        return mask.decide(sum(mask.before(d) << k for k, d in enumerate(mask.distances)))

    return mask.visit(math.prod(extents), 0, lambda bit: 256 + bit, find)


def read_labels(t: FloatType, extents: list[int], reader: Reader) -> list[int]:
    """interp.md, "Labels"."""
    first, second, third, fourth = reader.take(4)
    require(first == second == fourth == 0 and third & 0x74 == 0, "the head of labels")
    base_bytes, size = 2 if third >> 3 & 1 else t.size, 1 << (third & 3)
    require(size <= t.size, "the size of a literal")
    base = signed(reader.number(base_bytes), 8 * base_bytes) & t.mask
    count = reader.number(2)
    literals = [base + reader.number(size) & t.mask for _ in range(count)]
    require(count * size % 2 == 0 or reader.number(1) == 0, "the byte behind the literals is 0")
    literals.reverse()
    decisions, recent = Decisions(extents, reader), list[int]()

    def find() -> int:
        near = [decisions.before(d) for d in decisions.distances]
        for word in dict.fromkeys(near):
            if decisions.decide(sum((other == word) << k for k, other in enumerate(near))):
                return word
        for word in recent:
            if word not in near and decisions.decide(0):
                break
        else:
            require(literals, "the literals are too few")
            word = literals.pop()
        recent[:] = [word, *(other for other in recent if other != word)][:4]
        return word

    words = decisions.visit(math.prod(extents), base, lambda _: 256, find)
    require(not literals and reader.at == len(reader.data), "what is behind the last word")
    return words


def read_patches(head: Head, count: int, reader: Reader) -> dict[int, int]:
    """interp.md, "Patches"."""
    patches, place = {}, -1
    for _ in range(head.patches):
        entry = reader.number(2)
        if entry == 0xFFFF:
            place += 4095
        else:
            place += 1 + (entry >> 4)
            require(place < count, "a patch is behind the tile's values")
            code = entry & 15
            patches[place] = code - 8 if code < 8 else code - 7
    return patches


# What a residual is predicted from.


def bricks(lists: Sequence[Sequence[int]]) -> Iterator[tuple[int, ...]]:
    """interp.md, "Bricks": the places of a grid, in the order in which they are visited."""
    _, c_z, c_y, _ = map(len, lists)
    brick = (1, 2, 4, 4) if c_z > 1 else (1, 1, 1, 32) if c_y == 1 else (1, 1, 4, 8)
    pieces = [
        [some[i : i + extent] for i in range(0, len(some), extent)]
        for some, extent in zip(lists, brick, strict=True)
    ]
    for piece in itertools.product(*pieces):
        yield from itertools.product(*piece)


def interpolation(
    head: Head, extents: list[int], active: list[int], numbers: list[int]
) -> Iterator[tuple[int, int, int]]:
    """interp.md, "Prediction by interpolation": place, prediction and level, in coding order."""
    strides = strides_of(extents)

    def place_of(at: Sequence[int]) -> int:
        return sum(i * stride for i, stride in zip(at, strides, strict=True))

    before, top = 0, max([1, *((extents[axis] - 2).bit_length() for axis in active)])
    for at in bricks([[0] if axis in active else range(n) for axis, n in enumerate(extents)]):
        yield place_of(at), numbers[before], top
        before = place_of(at)
    subsets = sorted(range(1, 1 << len(active)), key=lambda number: (number.bit_count(), number))
    for level in range(top, -1, -1):
        for number in subsets if active else ():
            odd = [a for i, a in enumerate(active) if number >> (len(active) - 1 - i) & 1]
            weights = axis_weights([head.weights[active.index(axis)] for axis in odd])
            lists = [
                coordinates(n, level, top, is_odd=axis in odd) if axis in active else range(n)
                for axis, n in enumerate(extents)
            ]
            rows = {
                (axis, i): row(i, extents[axis], level, top) for axis in odd for i in lists[axis]
            }
            for at in bricks(lists):
                place, total = place_of(at), 128
                for axis, weight in zip(odd, weights, strict=True):
                    for offset, factor in rows[axis, at[axis]]:
                        total += weight * factor * numbers[place + offset * strides[axis]]
                yield place, signed(total, head.V) >> 8, level


def coordinates(n: int, level: int, top: int, *, is_odd: bool) -> Sequence[int]:
    """Return the coordinates along an active axis in a pass."""
    if level == top:
        return [n - 1] if is_odd else [0]
    s = 1 << level
    if is_odd:
        return range(s, n - 1, 2 * s)
    even = [*range(0, n, 2 * s)]
    return even if even[-1] == n - 1 else [*even, n - 1]


def row(i: int, n: int, level: int, top: int) -> list[tuple[int, int]]:  # noqa: PLR0911
    """interp.md, "Rows": offsets and weights in 16ths."""
    s, last = 1 << level, n - 1
    d = last - i
    if level == top:
        return [(-i, 16)]
    if i + s > last and i - 3 * s < 0:
        A = (16 * d + (s + d) // 2) // (s + d)
        return [(-s, A), (d, 16 - A)]
    if i + s > last:
        A = (3 * s - 15 * d) // (2 * (3 * s + d))
        B = (49 * d + s) // (2 * (s + d))
        return [(-3 * s, A), (-s, B), (d, 16 - A - B)]
    if i - 3 * s < 0 and i + 3 * s > last:
        return [(-s, 8), (s, 8)]
    if i - 3 * s >= 0 and i + 3 * s <= last:
        return [(-3 * s, -1), (-s, 9), (s, 9), (3 * s, -1)]
    if i - 3 * s >= 0:
        return [(-3 * s, -2), (-s, 12), (s, 6)]
    return [(-s, 6), (s, 12), (3 * s, -2)]


def axis_weights(weights: list[int]) -> list[int]:
    """interp.md, "Weights of axes": the W of the odd axes."""
    if not any(weights):
        weights = [1] * len(weights)
    total = sum(weights)
    shares = [(16 * weight + total // 2) // total for weight in weights]
    shares[weights.index(max(weights))] += 16 - sum(shares)
    return shares


def lorenzo(
    head: Head, extents: list[int], _active: list[int], numbers: list[int]
) -> Iterator[tuple[int, int, int]]:
    """interp.md, "Lorenzo prediction": place, prediction and level 0, in coding order."""
    strides = strides_of(extents)
    for at in bricks([range(n) for n in extents]):
        place = sum(i * stride for i, stride in zip(at, strides, strict=True))
        T = [axis for axis in head.axes if at[axis]]
        subsets = (U for size in range(1, len(T) + 1) for U in itertools.combinations(T, size))
        if T:
            prediction = sum(
                (-1) ** (len(U) + 1) * numbers[place - sum(strides[axis] for axis in U)]
                for U in subsets
            )
        else:
            back = [strides[axis] for axis in range(4) if at[axis]]
            prediction = numbers[place - back[-1]] if back else 0
        yield place, prediction, 0


# interp.md, "Coder".


def read_tables() -> tuple[list[list[list[int]]], list[list[list[int]]]]:
    """Read interp.md, "Tables": of symbols, by set; of classes, by model and context."""
    page = Path(__file__).with_name("interp.md").read_text(encoding="utf-8")
    found = re.findall(r"```\n([\d\s]+)```", page.partition("\n## Tables\n")[2])
    tables = [[[*map(int, line.split())] for line in table.splitlines()] for table in found]
    return tables[:8], tables[8:]


SYMBOLS, CLASSES = read_tables()


class Lanes:
    """The lanes of rANS, and the words that all of them take."""

    def __init__(self, count: int, reader: Reader) -> None:
        self.reader = reader
        self.states = [reader.number(4) for _ in range(count)]

    def symbol(self, lane: int, frequencies: list[int]) -> int:
        """Decode a symbol."""
        x = self.states[lane]
        slot, y = x & 2047, 0
        while slot >= frequencies[y]:
            slot -= frequencies[y]
            y += 1
        x = frequencies[y] * (x >> 11) + slot
        self.states[lane] = x << 16 | self.reader.number(2) if x < 1 << 16 else x
        return y


def read_residuals(head: Head, count: int, reader: Reader) -> list[int]:
    """Return d of each residual."""
    nb, lanes = ceil_div(count, 32), Lanes(head.lanes, reader)
    # 1. Classes.
    classes = [1 if head.own_table else 0] * nb
    per_lane = ceil_div(nb, head.lanes)  # M
    for j, i in itertools.product(range(per_lane), range(head.lanes)):
        b = i * per_lane + j
        if b < nb and not head.own_table:
            context = classes[b - 1] if j else 16
            classes[b] = lanes.symbol(i, CLASSES[head.model][context])
    # 2. Symbols.
    tables = [head.own_table] if head.own_table else SYMBOLS[head.table_set]
    symbols = [
        [lanes.symbol(i % head.lanes, tables[min(c, 5) - 1]) for i in range(32)] if c else [0] * 32
        for c in classes
    ]
    # 3. Raw planes.
    depths = [head.R + max(0, c - 4) for c in classes]  # r
    in_states = min(2 * sum(depths), head.lanes)
    ends = [state - (1 << 16) for state in lanes.states]
    require(all(0 <= x < 1 << 16 for x in ends), "a lane ends with another state")
    require(not any(ends[in_states:]), "a lane ends with another state")
    in_payload = 2 * sum(depths) - in_states
    words_end, end = reader.at, len(reader.data) - 2 * in_payload
    require(words_end <= end, "parts run into each other")
    reader.at = end
    halves = [reader.number(2) for _ in range(in_payload)] + ends[:in_states]
    words = iter([low | high << 16 for low, high in zip(halves[::2], halves[1::2], strict=True)])
    planes = [[*itertools.islice(words, r)] for r in depths]
    # 4. Residuals, and 5. items.
    residuals = []
    for of_block, block_planes in zip(symbols, planes, strict=True):
        for i, s in enumerate(of_block):
            if s < 15:
                raw = sum((plane >> i & 1) << p for p, plane in enumerate(block_planes))
                word = (s << len(block_planes)) + raw
            else:
                end -= head.item_bytes
                require(words_end <= end, "parts run into each other")
                word = int.from_bytes(reader.data[end : end + head.item_bytes], "little")
            d = unzigzag(word & ((1 << head.V) - 1))
            residuals.append(d)
    require(end == words_end, "something between words and items")
    behind = [signed(head.unit(0) * d, head.V) for d in residuals[count:]]
    require(not any(behind), "a residual behind the values")
    return residuals


TILES: dict[int, Callable[[Frame, int], Tile]] = {
    PFPL: pfpl_tile,
    CUSZP2: cuszp2_tile,
    AATROX: aatrox_tile,
    INTERP: interp_tile,
}

if __name__ == "__main__":
    sys.stdout.buffer.write(decode(Path(sys.argv[1]).read_bytes()))

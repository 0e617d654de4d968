# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Codec 1 on integers, as docs/format/integers.md has it, in Python's integers."""

from __future__ import annotations

import bisect
import dataclasses
import functools
import math
import struct
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from .common import (
    FLOAT_TYPES,
    Array,
    Boxes,
    Corrupt,
    Kind,
    Unsupported,
    ValueType,
    bits_to_float,
    float_to_bits,
)
from .pfpl import TILE_BYTES, pack_planes, resolved_range_bound, unpack_planes

if TYPE_CHECKING:
    from collections.abc import Sequence

MODES = {0: 3}
"""Modes the codec knows, and how many dims a frame of that mode has."""

FIELDS = struct.Struct("<IIIQQ")
"""The fields behind the dims: a reserved one, C, number of exact values, these, base and stride."""

MOST_EXACT = 2


NONE, X, Y, N3, XY = PREDICTORS = range(5)


@dataclasses.dataclass(frozen=True)
class IntegerType(ValueType):
    """One of the types of integers."""

    is_signed: bool  # whether values are in two's complement

    @property
    def low(self) -> int:
        """The least value."""
        return -(1 << (self.word_bits - 1)) if self.is_signed else 0

    @property
    def high(self) -> int:
        """The largest value."""
        return self.low + (1 << self.word_bits) - 1

    def number(self, word: int) -> int:
        """Give the number of a word, modulo 2^W."""
        return (word - self.low) % (1 << self.word_bits) + self.low

    def numbers(self, bits: Array) -> list[int]:
        """Give the values of patterns."""
        return [self.number(int(word)) for word in bits]


@dataclasses.dataclass(frozen=True)
class Lattice:
    """What values become."""

    of: IntegerType  # their type
    kind: Kind  # bound kind
    step: int = 0  # s, or 0 of lossless
    exact: tuple[int, ...] = ()  # patterns of the exact values, in order
    base: int = 0  # of lossless
    stride: int = 0  # of lossless; 0 is none

    def place(self, pattern: int) -> int:
        """Give the place of a pattern in the order of the values."""
        return self.of.number(pattern)

    def pattern(self, place: int) -> int:
        """Give the pattern at a place."""
        return place % (1 << self.of.word_bits)

    @property
    def ends(self) -> tuple[float, float]:
        """The first and the last place."""
        return self.of.low, self.of.high

    def bin(self, place: int) -> int:
        """Give k, without regard to exact values."""
        return (place + self.step // 2) // self.step

    def middle(self, k: int) -> int:
        """Give the place of what a bin comes back as, likewise."""
        return min(max(k * self.step, self.of.low), self.of.high)

    @property
    def last(self) -> int:
        """K."""
        return self.bin(self.of.high)

    def _beside(self, place: int, way: int) -> int | None:
        """Give the next place in a direction that is not one of an exact value."""
        while self.pattern(place) in self.exact:
            if place in self.ends and place == self.ends[way > 0]:
                return None
            place += way
        return place

    @functools.cached_property
    def _taken(self) -> list[tuple[int, int, int, int, int, int]]:
        """Of each exact value: pattern, place, word, bin, and the words on its sides in the bin."""
        taken = []
        for i, exact in enumerate(self.exact):
            place = self.place(exact)
            k = self.bin(place)
            own, above = self.last + 1 + i, self.last + 1 + len(self.exact) + i
            word, below = (k, own) if exact == 0 else (own, k)
            if self.pattern(self.middle(k)) != exact:
                below = above = k
            taken.append((exact, place, word, k, below, above))
        return taken

    @functools.cached_property
    def _special(self) -> dict[int, int]:
        """Places of the words that exact values make special."""
        special: dict[int, int] = {}
        for _, place, word, k, below, above in self._taken:
            if above != k:
                for side, way in ((below, -1), (above, 1)):
                    beside = self._beside(place, way)
                    if beside is not None:
                        special[self.of.number(side)] = beside
            special[self.of.number(word)] = place
        return special

    def word(self, x: int) -> int:
        """Give the word of a value, as a number."""
        if self.kind == Kind.LOSSLESS:
            return (x - self.base) // (self.stride or 1)
        pattern = x % (1 << self.of.word_bits)
        if pattern in self.exact:
            return self._taken[self.exact.index(pattern)][2]
        place = self.place(pattern)
        k = self.bin(place)
        for _, at, _, own, below, above in self._taken:
            if k == own and place != at and above != own:
                return above if place > at else below
        return k

    def value(self, word: int) -> int:
        """Give the value of a word, as a number, or of halves as a pattern; any word."""
        if self.kind == Kind.LOSSLESS:
            return self.of.number(self.base + word * (self.stride or 1))
        pattern = self.pattern(self._special.get(word, self._other(word)))
        for exact, at, own, *_ in self._taken:  # -0.0 is at the place of +0.0
            if word == self.of.number(own) and self._special[word] == at:
                pattern = exact
        return self._given(pattern)

    def _given(self, pattern: int) -> int:
        """Give a pattern as values are given."""
        return self.of.number(pattern)

    def _other(self, word: int) -> int:
        """Give the place of a word that no exact value makes special."""
        return self.middle(word) if self.bin(self.of.low) <= word <= self.last else word * self.step


class NoiseBins:
    """Bins of a noise bound, made as far as they are asked for, up to the magnitude `top`."""

    def __init__(self, floor: int, noise: int, top: int) -> None:
        self.floor, self.noise, self.top = floor, noise, top
        self.first: list[int] = []
        self.middles: list[int] = []
        self.end = 0
        self._add(0)

    def bound(self, o: int) -> int:
        """Give the bound of a magnitude."""
        return max(self.floor, math.isqrt(self.noise**2 * o) >> 8)

    def _add(self, middle: int) -> None:
        self.first.append(self.end)
        self.middles.append(middle)
        end = middle + 1
        while end <= self.top and end - middle <= self.bound(end):
            # The bound never falls, so what it allows here is near enough in between, too.
            end = middle + self.bound(end) + 1
        self.end = min(end, self.top + 1)

    def _more(self) -> bool:
        """Add a bin; say whether there was one."""
        if self.end > self.top:
            return False
        self._add(min(self.end + self.bound(self.end), self.top))
        return True

    def number(self, o: int) -> int:
        """Give the bin of a magnitude."""
        while self.end <= o:
            self._more()
        return bisect.bisect_right(self.first, o) - 1

    def middle(self, number: int) -> int:
        """Give what a bin comes back as."""
        while number >= len(self.middles) and self._more():
            pass
        return self.middles[min(number, len(self.middles) - 1)]


noise_bins = functools.lru_cache(16)(NoiseBins)


@dataclasses.dataclass(frozen=True)
class NoiseLattice(Lattice):
    """What integers become within a noise bound; `step` is the floor."""

    noise: int = 0  # C

    @property
    def _bins(self) -> NoiseBins:
        return noise_bins(self.step, self.noise, max(self.of.high, -self.of.low))

    def bin(self, place: int) -> int:
        """Give k, without regard to exact values."""
        return self._bins.number(place) if place >= 0 else -self._bins.number(-place)

    def middle(self, k: int) -> int:
        """Give the place of what a bin comes back as, likewise."""
        return min(self._bins.middle(k), self.of.high) if k >= 0 else -self._bins.middle(-k)

    def _other(self, word: int) -> int:
        return self.middle(word)


@dataclasses.dataclass(frozen=True)
class HalfType(IntegerType):
    """float16 or bfloat16: patterns, of which the words are signed."""

    mantissa_bits: int  # m
    bias: int  # of the exponent

    @property
    def infinity(self) -> int:
        """The pattern of infinity."""
        return (0x7FFF >> self.mantissa_bits) << self.mantissa_bits

    @property
    def unit(self) -> Fraction:
        """The smallest number above 0, of which all finite ones are multiples."""
        return Fraction(2) ** (1 - self.bias - self.mantissa_bits)

    def magnitude(self, o: int) -> int:
        """Give the number of a finite pattern without sign, in units."""
        exponent, fraction = divmod(o, 1 << self.mantissa_bits)
        if exponent == 0:
            return fraction
        return (fraction + (1 << self.mantissa_bits)) << (exponent - 1)


HALVES = {3: HalfType(2, True, 10, 15), 4: HalfType(2, True, 7, 127)}
"""The halves by class."""


@functools.cache
def half_bins(of: HalfType, kind: Kind, limit: float) -> tuple[Array, list[int]]:
    """Give the bin of each magnitude, and what each bin comes back as."""
    values = [of.magnitude(o) for o in range(of.infinity)]
    # Of integers, the bound counts rounded down.
    if kind == Kind.POINTWISE_RELATIVE:
        above, below = limit.as_integer_ratio()
        bounds = [value * above // below for value in values]
    else:
        bounds = [math.floor(Fraction(limit) / of.unit)] * len(values)
    numbers, middles = np.zeros(0x8000, int), []
    begin = 0
    while begin < 0x8000:
        middle = begin
        if 0 < begin < of.infinity:
            # `values` rise, so this is the last one that is near enough.
            middle = bisect.bisect_right(values, values[begin] + bounds[begin]) - 1
        end = middle + 1
        while end < of.infinity and values[end] - bounds[end] <= values[middle]:
            end += 1
        numbers[begin:end] = len(middles)
        middles.append(middle)
        begin = end
    return numbers, middles


@dataclasses.dataclass(frozen=True)
class HalfLattice(Lattice):
    """What halves become within a bound; `step` is that of the header, the bits of a float64."""

    def _bins(self) -> tuple[Array, list[int]]:
        assert isinstance(self.of, HalfType)
        return half_bins(self.of, self.kind, bits_to_float(self.step))

    @property
    def last(self) -> int:
        """K."""
        return len(self._bins()[1]) - 1

    @property
    def ends(self) -> tuple[float, float]:
        """No place: infinities are behind the exact values."""
        return -math.inf, math.inf

    def place(self, pattern: int) -> int:
        """Give the magnitude, negated if the sign bit is set."""
        return -(pattern & 0x7FFF) if pattern >> 15 else pattern

    def pattern(self, place: int) -> int:
        """Give the pattern at a place; both zeros are +0."""
        return place if place >= 0 else 0x8000 - place

    def bin(self, place: int) -> int:
        """Give k, without regard to exact values."""
        k = int(self._bins()[0][abs(place)])
        return k if place >= 0 else -k

    def middle(self, k: int) -> int:
        """Give the place of what a bin comes back as, likewise."""
        middle = self._bins()[1][min(abs(k), self.last)]
        return middle if k >= 0 else -middle

    def _other(self, word: int) -> int:
        return self.middle(word)

    def _given(self, pattern: int) -> int:
        return pattern


def exact_values(of: IntegerType, fill_bits: int | None, exact: Sequence[int]) -> tuple[int, ...]:
    """Give the patterns of the exact values of a request."""
    patterns = {*exact}
    if fill_bits and not (isinstance(of, HalfType) and fill_bits & 0x7FFF >= of.infinity):
        patterns.add(fill_bits)
    return tuple(sorted(patterns))


def make_half_lattice(
    bits: Array,
    of: HalfType,
    kind: Kind,
    bound: float,
    fill_bits: int | None,
    *,
    maybe_padded: bool,
    exact: Sequence[int] = (),
) -> Lattice:
    """Give the lattice of a chunk of halves."""
    exact_lattice = Lattice(of, Kind.LOSSLESS)
    if kind == Kind.LOSSLESS:
        return exact_lattice
    limit = bound
    if kind == Kind.RANGE_RELATIVE:
        valid = (bits & 0x7FFF) < of.infinity
        valid &= ~np.isin(bits, [*exact, -1 if fill_bits is None else fill_bits])
        if maybe_padded:
            valid &= (bits & 0x7FFF) != 0
        numbers = [
            float(of.magnitude(b & 0x7FFF) * of.unit) * (-1 if b >> 15 else 1)
            for b in bits[valid].tolist()
        ]
        float64 = np.array(numbers, "<f8").view("<u8")
        limit = resolved_range_bound(float64, FLOAT_TYPES[8], bound)
        if limit == 0:
            return exact_lattice
    patterns = exact_values(of, fill_bits, exact)
    lattice = HalfLattice(of, kind, float_to_bits(limit), patterns)
    return lattice if lattice.last + 2 * max(len(patterns), 1) < 0x8000 else exact_lattice


def find_stride(numbers: Sequence[int], of: IntegerType) -> tuple[int, int]:
    """Give base and stride of values; 0, 0 where there is none."""
    stride = math.gcd(*(x - numbers[0] for x in numbers))
    if stride < 2 or (of.size == 8 and numbers[0] % stride):
        return 0, 0
    return numbers[0] % stride, stride


def make_lattice(
    bits: Array,
    of: IntegerType,
    kind: Kind,
    bound: float,
    fill_bits: int | None,
    *,
    maybe_padded: bool = False,
    floor: int = 0,
    exact: Sequence[int] = (),
    wide: bool = False,
) -> Lattice:
    """Give the lattice of a chunk; `exact` are patterns of exact values, besides the fill value."""
    if isinstance(of, HalfType):
        return make_half_lattice(
            bits, of, kind, bound, fill_bits, maybe_padded=maybe_padded, exact=exact
        )
    patterns = exact_values(of, fill_bits, exact)
    if kind == Kind.NOISE:
        noise = NoiseLattice(of, kind, floor, patterns, noise=math.floor(256 * bound))
        if noise.last + 2 * max(len(patterns), 1) <= of.high:
            return noise
    counts = Fraction(bound) if kind == Kind.ABSOLUTE else Fraction(0)
    if kind == Kind.RANGE_RELATIVE:
        left_out = {fill_bits, 0 if maybe_padded else None, *exact}
        valid = [of.number(word) for word in bits.tolist() if word not in left_out]
        counts = Fraction(bound) * (max(valid) - min(valid)) if valid else counts
    most = 2 ** (of.word_bits - 1) - 1
    b = min(math.floor(counts), most)
    if b == 0:
        base, stride = find_stride(of.numbers(bits), of)
        return Lattice(of, Kind.LOSSLESS, base=base, stride=stride)
    return Lattice(of, kind, min(b + 1, most) if wide else 2 * b + 1, patterns)


def in_wide_bins(bits: Array, lattice: Lattice, extents: Sequence[int]) -> Array:
    """Give patterns of what values come back as, "Wide bins"."""
    of, exact = lattice.of, {lattice.of.number(pattern) for pattern in lattice.exact}
    first = lattice.bin(of.low)
    length = extents[-1] if extents else 1
    slice_ = length * (extents[-2] if len(extents) > 1 else 1)
    numbers: list[int] = []
    moved = []
    for i, x in enumerate(of.numbers(bits)):
        left, above = i % length > 0, i % slice_ >= length
        if i >= slice_:
            p = numbers[i - slice_]
        elif left and above:
            a, b, c = numbers[i - 1], numbers[i - length], numbers[i - length - 1]
            p = sorted((a, b, a + b - c))[1]
        else:
            p = numbers[i - 1] if left else numbers[i - length] if above else 0
        back = {k: lattice.middle(k) for k in (x // lattice.step, x // lattice.step + 1)}
        allowed = [k for k in back if first <= k <= lattice.last and back[k] not in exact]
        same = [k for k in allowed if back[k] == x]
        if x in exact:
            k, y = p, x
        elif not allowed:
            k, y = p, lattice.value(lattice.word(x))
        else:
            k = min(same or allowed, key=lambda k: abs(k - p))
            y = back[k]
        numbers.append(k)
        moved.append(y % (1 << of.word_bits))
    return np.array(moved, of.word_dtype)


def fields(lattice: Lattice, dims: int = 3) -> bytes:
    """Give the header's fields behind the dims; a fourth one is where the reserved field is."""
    wide = lattice.of.size == 8
    stride = lattice.stride if wide else lattice.base | lattice.stride << 32
    exact = sum(pattern << 32 * i for i, pattern in enumerate(lattice.exact))
    noise = lattice.noise if isinstance(lattice, NoiseLattice) else 0
    return FIELDS.pack(0, noise, len(lattice.exact), exact, stride)[4 * (dims - 3) :]


def lattice_of(of: IntegerType, kind: int, step: int, later: bytes, dims: int = 3) -> Lattice:
    """Read and check the fields of a frame; raise `Refused` for what no encoder writes."""
    first, noise, exact_count, exact, stride = FIELDS.unpack_from(bytes(4 * (dims - 3)) + later)
    is_half = isinstance(of, HalfType)
    most = (1 << of.word_bits) - 1
    is_noise = kind == Kind.NOISE
    if kind > Kind.NOISE or (is_noise and (is_half or of.size == 8)):
        raise Unsupported(f"bound kind {kind} of integers")
    if kind == Kind.POINTWISE_RELATIVE and not is_half:
        raise Corrupt("integers have no pointwise-relative bound")
    if first or (noise and not is_noise) or exact_count > (1 if of.size == 8 else MOST_EXACT):
        raise Unsupported(f"fields {first} and {noise}, {exact_count} exact values")
    if kind == Kind.LOSSLESS:
        base, stride = (0, stride) if of.size == 8 else (stride & 0xFFFFFFFF, stride >> 32)
        if step or exact_count or exact:
            raise Corrupt(f"step {step}, exact value {exact} of a lossless frame")
        if (base or stride) and (is_half or not (2 <= stride <= most and base < stride)):
            raise Corrupt(f"base {base}, stride {stride}")
        return Lattice(of, Kind.LOSSLESS, base=base, stride=stride)
    patterns = (exact,) if of.size == 8 else (exact & 0xFFFFFFFF, exact >> 32)
    allowed = not any(patterns[exact_count:]) and max(patterns) <= most
    if exact_count == MOST_EXACT:
        allowed = allowed and patterns[0] < patterns[1]
    patterns = patterns[:exact_count]
    if isinstance(of, HalfType):
        allowed = allowed and all(pattern & 0x7FFF < of.infinity for pattern in patterns)
    if stride or not allowed:
        raise Corrupt(f"exact values {exact:#x}, base and stride {stride}")
    if isinstance(of, HalfType):
        limit = bits_to_float(step)
        if not 0 < limit < (1 if kind == Kind.POINTWISE_RELATIVE else math.inf):
            raise Corrupt(f"step {limit}")
        return HalfLattice(of, Kind(kind), step, patterns)
    if is_noise and not (step <= 1 << 15 and 16 <= noise <= 1 << 16):
        raise Corrupt(f"floor {step}, C {noise}")
    if not is_noise and not 2 <= step <= most:
        raise Corrupt(f"step {step}")
    if is_noise:
        return NoiseLattice(of, Kind(kind), step, patterns, noise=noise)
    return Lattice(of, Kind(kind), step, patterns)


# ------------------------------------------------------------------------------------------------
# Tiles
# ------------------------------------------------------------------------------------------------


def tiling(
    count: int, of: IntegerType, mode: int = 0, dims: tuple[int, ...] | None = None
) -> Boxes:
    """Say how a chunk is cut into tiles: some slices, or a part of one."""
    assert dims is not None
    z, y, x = dims
    most = TILE_BYTES // of.size
    if y * x and 2 * y * x <= most:
        layers = -(-z // (most // (y * x)))
        return Boxes(dims, (max(-(-z // max(layers, 1)), 1), y, x))
    parts = [1, 1]
    while math.prod(part := [-(-n // p) for n, p in zip((y, x), parts, strict=True)]) > most:
        parts[0 if part[0] >= part[1] else 1] *= 2
    return Boxes(dims, (1, max(part[0], 1), max(part[1], 1)))


def _average(a: int, b: int, of: IntegerType) -> int:
    """Average words in the order of the values, rounded up; modulo 2^W."""
    return (of.number(a) + of.number(b) + 1) >> 1


def predicted(words: Sequence[int], at: int, nx: int, predictor: int, of: IntegerType) -> int:
    """Give the prediction of word `at` from those before it in raster order."""
    y, x = divmod(at, nx)
    if predictor == NONE:
        return 0
    if y == 0:
        return words[x - 1] if x else 0
    above = words[(y - 1) * nx : y * nx]
    if predictor == Y:
        return above[x]
    if predictor == N3:
        sides = _average(above[max(x - 1, 0)], above[min(x + 1, nx - 1)], of)
        return _average(above[x], sides, of)
    if x == 0:
        return above[0]
    left = words[y * nx + x - 1]
    return left if predictor == X else above[x] + left - above[x - 1]


def to_residuals(words: Sequence[int], nx: int, predictor: int, of: IntegerType) -> list[int]:
    """Give residuals in negabinary."""
    mask = (1 << of.word_bits) - 1
    alternating = mask // 3 * 2
    residuals = []
    for i, word in enumerate(words):
        d = word - predicted(words, i, nx, predictor, of)
        residuals.append(((d + alternating) & mask) ^ alternating)
    return residuals


def from_residuals(residuals: Sequence[int], nx: int, predictor: int, of: IntegerType) -> list[int]:
    """Undo `to_residuals`; words are numbers of the type."""
    alternating = ((1 << of.word_bits) - 1) // 3 * 2
    words: list[int] = []
    for i, n in enumerate(residuals):
        d = (n ^ alternating) - alternating
        words.append(of.number(d + predicted(words, i, nx, predictor, of)))
    return words


def _to_bits(octets: Array) -> Array:
    """Give a plane's bits: eight values in each byte, the first one highest."""
    return np.unpackbits(octets, axis=-1)


def to_planes(residuals: Sequence[int], of: IntegerType) -> bytes:
    """Give the planes of groups of eight, and what is left over as it is."""
    words = np.array(residuals, of.word_dtype)
    grouped = words[: words.size // 8 * 8]
    most_significant_first = grouped.astype(f">u{of.size}").view(np.uint8).reshape(-1, of.size)
    planes = np.packbits(np.unpackbits(most_significant_first, axis=1).T, axis=1)
    return planes.tobytes() + words[grouped.size :].tobytes()


def from_planes(planes: bytes, of: IntegerType) -> list[int]:
    """Undo `to_planes`."""
    octets = np.frombuffer(planes, np.uint8)
    groups = octets.size // of.size // 8
    grouped = octets[: groups * 8 * of.size].reshape(of.word_bits, groups)
    bits = np.packbits(np.unpackbits(grouped, axis=1).T, axis=1)
    words = bits.reshape(-1).view(f">u{of.size}")
    return [*words.tolist(), *octets[grouped.size :].view(of.word_dtype).tolist()]


def cost(residuals: Sequence[int]) -> int:
    """Count the bytes of planes that are not zero."""
    groups = [residuals[i : i + 8] for i in range(0, len(residuals), 8)]
    return sum(int(np.bitwise_or.reduce(np.array(g, np.uint64))).bit_count() for g in groups)


def samples(ny: int, nx: int) -> list[int]:
    """Give the places of the words that the encoder's choice looks at."""
    band = min(ny, -(-64 // nx))
    bands = [range(y * nx, (y + band) * nx) for y in range(0, ny - band + 1, band)]
    some = bands[6::13] or bands[-1:]
    left_out = max(0, band * nx - 1024)
    return [i for part in some for i in part[left_out // 2 :][: 1024 if left_out else None]]


def choose(words: Sequence[int], ny: int, nx: int, of: IntegerType) -> int:
    """Give the encoder's predictor of a tile."""
    some = samples(ny, nx)
    costs = []
    for predictor in PREDICTORS:
        residuals = to_residuals(words, nx, predictor, of)
        costs.append(cost([residuals[i] for i in some]))
    return costs.index(min(costs))


def encode_tile(
    bits: Array, of: IntegerType, lattice: Lattice, nx: int, predictor: int | None = None
) -> bytes:
    """Encode one tile, by the encoder's own choice of a predictor or another."""
    words = [of.number(lattice.word(x)) for x in of.numbers(bits)]
    if predictor is None:
        predictor = choose(words, len(words) // nx, nx, of)
    payload = pack_planes(to_planes(to_residuals(words, nx, predictor, of), of))
    return payload + bytes([predictor]) if payload else b""


def decode_tile(payload: bytes, count: int, of: IntegerType, lattice: Lattice, nx: int) -> Array:
    """Decode one tile that is neither empty nor stored; raise `Corrupt` if it is inconsistent."""
    if payload[-1] not in PREDICTORS:
        raise Corrupt(f"predictor {payload[-1]}")
    residuals = from_planes(unpack_planes(payload[:-1], count * of.size), of)
    return values_of(from_residuals(residuals, nx, payload[-1], of), of, lattice)


def values_of(words: Sequence[int], of: IntegerType, lattice: Lattice) -> Array:
    """Give patterns of the values of words."""
    mask = (1 << of.word_bits) - 1
    return np.array([lattice.value(word) & mask for word in words], of.word_dtype)

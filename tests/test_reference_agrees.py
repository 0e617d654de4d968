# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The library and the reference, which was written from docs/format alone, write the same bytes.

Each also decodes what the other has encoded, and both come to the same verdict on broken payloads
(test_corrupt_frames.py).
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import h5lossy
from checks import Array, assert_same_bits, bits_of, floats_of
from fuzz import frames as fuzzed
from h5lossy import PFPL, _native
from matrix import DTYPES, SETTINGS, frames_may_change
from reference import aatrox, blocks, cuszp2, pfpl
from reference import frame as reference
from reference.common import FLOAT_TYPES, FloatType, Quantizer
from reference_frames import frame_of_reference
from strategies import (
    EXTENTS,
    KINDS,
    MANTISSA_BITS,
    Chunk,
    border_values,
    bounds,
    in_every_mode,
    shaped_chunks,
    special_patterns,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from h5lossy._codecs import Codec

    Setting = Callable[..., Codec]


def encoded_by_both(
    setting: Setting,
    chunk: Chunk,
    *,
    shape: tuple[int, ...] | None = None,
    maybe_padded: bool = False,
    checksum: bool = True,
) -> tuple[bytes, bytes]:
    """Encode a chunk with library and reference, with its own or another shape."""
    codec = setting(**chunk.bound)
    dtype = chunk.values.dtype
    shape = chunk.values.shape if shape is None else shape
    params = dataclasses.replace(
        codec.params(),
        no_checksum=not checksum,
        value_bytes=dtype.itemsize,
        big_endian=dtype.str[0] == ">",
        fill_bits=chunk.fill_bits,
        maybe_padded=maybe_padded,
        shape=() if 0 in shape else tuple(extent for extent in shape if extent != 1),
    )
    theirs = frame_of_reference(
        chunk.values,
        codec,
        chunk.fill_value,
        maybe_padded=maybe_padded,
        checksum=checksum,
        shape=shape,
    )
    return _native.encode(params, chunk.values), theirs


def assert_written_alike(codec: Codec, ours: bytes, theirs: bytes) -> None:
    """Fail unless two frames are the same, and read as the same values by both.

    Of a codec whose encoder chooses among forms, the reference takes any form.
    """
    assert ours == theirs or frames_may_change(codec)
    for frame in {ours, theirs}:
        assert_same_bits(h5lossy.decode(frame), reference.decode(frame))


def assert_agreed(setting: Setting, chunk: Chunk, **options: Any) -> bytes:
    """Fail unless library and reference write the same frame, and read it as the same values."""
    ours, theirs = encoded_by_both(setting, chunk, **options)
    assert_written_alike(setting(lossless=True), ours, theirs)
    return ours


# ------------------------------------------------------------------------------------------------
# Any data, any bound, any shape
# ------------------------------------------------------------------------------------------------

# Nothing else compares a codec with what docs/format says of it, so all modes are here.
in_every_setting = pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)


def shared(setting: Setting, cases: Iterable[Any]) -> list[Any]:
    """Return the cases that a setting tries: where a codec has many modes, a third for each."""
    [name] = [name for name, other in SETTINGS.items() if other is setting]
    modes = [other for other in SETTINGS if other.split("-")[0] == name.split("-")[0]]
    return list(cases)[modes.index(name) % 3 :: 3] if len(modes) > 6 else list(cases)


@in_every_setting
@hypothesis.given(dtype=st.sampled_from(DTYPES), data=st.data())
def test_any_frame_equals_that_of_the_reference(
    setting: Setting, dtype: str, data: st.DataObject
) -> None:
    chunk = data.draw(shaped_chunks(dtype))
    options: dict[str, Any] = {
        name: data.draw(st.booleans()) for name in ("maybe_padded", "checksum")
    }
    if data.draw(st.integers(0, 7)) == 0:  # a shape that does not fit, most often
        extents = st.lists(st.sampled_from(EXTENTS), max_size=4)
        options["shape"] = tuple(data.draw(extents))
    frame = assert_agreed(setting, chunk, **options)
    start = data.draw(st.integers(0, chunk.values.size))
    stop = data.draw(st.integers(start, chunk.values.size))
    assert_same_bits(
        h5lossy.decode(frame, start, stop), reference.decode_range(frame, start, stop - start)
    )


BOUNDS = [
    {"absolute": 1e-3},
    {"absolute": 0.5},
    {"absolute": 7e-38},
    {"absolute": 1e30},
    {"pointwise_relative": 1e-2},
    {"pointwise_relative": 0.75},
    {"pointwise_relative": 1.3e-7},
    {"range_relative": 1e-4},
    {"range_relative": 1e-38},
    {"lossless": True},
]


def own_bounds(dtype: np.dtype[Any]) -> list[dict[str, Any]]:
    """Return three bounds, different ones for each size, since modes treat all tiles alike."""
    return BOUNDS[dtype.itemsize // 4 % 2 :: 4]


@pytest.mark.slow
@in_every_setting
def test_frames_of_values_on_the_borders_of_bins_are_equal(
    setting: Setting, dtype: np.dtype[Any]
) -> None:
    size = dtype.itemsize
    rng = np.random.default_rng(17)
    for bound in shared(setting, own_bounds(dtype)):
        pieces: list[Array] = []
        for magnitude in range(0, 8 * size - 6, 4):
            bins = rng.integers(-(2**magnitude), 2**magnitude + 1, 600)
            words = border_values(size, bound, bins)
            ulps = rng.integers(-2, 3, words.size).astype(f"i{size}").view(words.dtype)
            pieces += [words + ulps, np.zeros(1500, words.dtype)]
        values = floats_of(np.concatenate(pieces), dtype).reshape(-1, 30, 70)
        info = h5lossy.inspect(assert_agreed(setting, Chunk(values, bound, None)))
        assert info.stored_tiles < info.tiles


@pytest.mark.slow
@in_every_setting
@pytest.mark.parametrize(
    ("size", "bounds_of_size"),
    [
        (4, [("absolute", 0.75), ("absolute", 1e-30)]),
        (4, [("pointwise_relative", 2.0**-23), ("pointwise_relative", 3e-6)]),
        (8, [("absolute", 0.75), ("absolute", 1e-300)]),
        (8, [("pointwise_relative", 2.0**-52), ("pointwise_relative", 1e-14)]),
    ],
    ids=str,
)
def test_frames_of_values_about_the_largest_bin_are_equal(
    setting: Setting, size: int, bounds_of_size: list[tuple[str, float]]
) -> None:
    m = MANTISSA_BITS[size]
    halves = np.arange(-24, 25)
    for kind, value in bounds_of_size:
        bound = {kind: value}
        limit = 2 ** (m - 2) if kind == "pointwise_relative" else 2 ** (m - 1)
        ends = np.concatenate([2 * limit + halves, -2 * limit + halves])
        words = border_values(size, bound, ends)
        near = [words + words.dtype.type(k) for k in (0, 1, 2)] + [words - words.dtype.type(1)]
        ease = np.full(6000, words[0])
        values = floats_of(np.concatenate([*near, ease])[:6000], f"<f{size}")
        assert np.isfinite(values).all()
        frame = assert_agreed(setting, Chunk(values.reshape(20, 20, 15), bound, None))
        assert h5lossy.inspect(frame).stored_tiles < h5lossy.inspect(frame).tiles


@pytest.mark.parametrize("size", [4, 8])
def test_every_bit_of_a_residual_finds_its_place(size: int) -> None:
    width = 8 * size
    for bit in range(width):
        for place in (0, 1, width - 1, width, 3 * width - 1, 3 * width):
            residuals = np.zeros(3 * width + 5, f"<u{size}")
            residuals[place] = 1 << bit
            bits = pfpl.from_differences(residuals)
            values = floats_of(bits, f"<f{size}")
            frame = assert_agreed(PFPL, Chunk(values, {"lossless": True}, None))
            assert h5lossy.inspect(frame).codec == "pfpl"
            assert_same_bits(h5lossy.decode(frame), values)


@pytest.mark.slow
@in_every_setting
def test_frames_that_end_in_a_part_of_a_group_are_equal(
    setting: Setting, dtype: np.dtype[Any]
) -> None:
    waves = np.sin(np.arange(9999) / 30) * 3
    pairs = itertools.product(own_bounds(dtype), (1, 33, 65, 2049, 4095, 4097, 9999))
    for bound, count in shared(setting, pairs):
        assert_agreed(setting, Chunk(waves[:count].astype(dtype), bound, None))


# Whole blocks and parts of them along each axis; a tile that ends with a block or in a row of them;
# more extents than a frame has dims; more than cd_values have.
SHAPES = [
    (8, 8),
    (9, 7),
    (1, 64),
    (64, 1),
    (2, 700),
    (700, 2),
    (64, 64),
    (65, 72),
    (4, 4, 4),
    (5, 3, 4),
    (3, 5, 5),
    (4, 9, 7),
    (16, 16, 16),
    (15, 17, 18),
    (2, 3, 500),
    (500, 3, 2),
    (3, 1, 20, 1, 30),
    (3, 4, 5, 6, 7),
    (2, 2, 1, 2, 2, 2, 2, 2, 3, 3, 5),
]


@pytest.mark.slow
@in_every_setting
def test_frames_of_any_shape_are_equal(setting: Setting) -> None:
    codec = setting(absolute=1e-2)
    # The types in turn: shapes know nothing of them.
    for shape, dtype in zip(SHAPES, itertools.cycle(("f4", "f8")), strict=False):
        slopes = sum(0.3 * (i + 1) * np.sqrt(axis) for i, axis in enumerate(np.indices(shape)))
        values = np.asarray(slopes).astype(dtype)
        ours = h5lossy.encode(values, codec)
        assert_written_alike(codec, ours, frame_of_reference(values, codec))


@in_every_setting
def test_a_shape_of_another_number_of_values_is_one_dimension(setting: Setting) -> None:
    chunk = Chunk(np.sqrt(np.arange(1000, dtype="<f4")), {"absolute": 1e-2}, None)
    expected = assert_agreed(setting, chunk)
    for shape in ((), (10,), (10, 20), (30, 40), (7, 1, 11, 13), (2**31, 2**31)):
        frame = assert_agreed(setting, chunk, shape=shape)
        assert frame == expected
        assert h5lossy.inspect(frame).dims in {(), (1, 1, 1, 1000)}


@functools.cache
def bits_of_payload_size(surplus: int) -> bytes:
    """Return 64 patterns whose lossless payload is larger than themselves by this many bytes."""
    float_type = FLOAT_TYPES[4]
    lossless = Quantizer(reference.Kind.LOSSLESS, 0)
    rng = np.random.default_rng(31)
    for attempt in range(100_000):
        bits = rng.integers(0, 2 ** int(rng.integers(20, 33)), 64, np.uint64).astype("<u4")
        bits[: 6 * (attempt % 10)] = 0
        payload = pfpl.encode_tile(bits, float_type, lossless)
        if len(payload) == bits.nbytes + surplus:
            return bits.tobytes()
    raise AssertionError("no such payload")


@pytest.mark.parametrize("surplus", [-1, 0, 1])
def test_a_tile_that_would_not_be_shorter_is_stored(surplus: int) -> None:
    last = np.frombuffer(bits_of_payload_size(surplus), "<f4")
    values = np.concatenate([np.zeros(4096, "<f4"), last])
    info = h5lossy.inspect(assert_agreed(PFPL, Chunk(values, {"lossless": True}, None)))
    assert (info.codec, info.stored_tiles) == ("pfpl", int(surplus >= 0))


@pytest.mark.parametrize("surplus", [-6, -5, -4, -3])
def test_a_frame_that_would_not_be_shorter_is_stored(surplus: int) -> None:
    # Four bytes are those of the tile table, which a stored frame has not.
    values = np.frombuffer(bits_of_payload_size(surplus), "<f4")
    info = h5lossy.inspect(assert_agreed(PFPL, Chunk(values, {"lossless": True}, None)))
    assert info.codec == ("stored" if surplus >= -4 else "pfpl")


@pytest.mark.slow
@in_every_setting
def test_frames_of_special_values_are_equal(setting: Setting, dtype: np.dtype[Any]) -> None:
    smooth = (np.sin(np.arange(300) / 30) * 3).astype(dtype)
    words = np.array([*special_patterns(dtype.itemsize).values()], f"u{dtype.itemsize}")
    pairs = itertools.product(enumerate(own_bounds(dtype)), enumerate(words))
    for (i, bound), (j, word) in shared(setting, pairs):
        special = floats_of(np.full(40, word), dtype)
        values = np.concatenate([smooth, special, smooth]).reshape(4, 10, 16)
        assert_agreed(setting, Chunk(values, bound, special[0] if (i + j) % 2 else None))


# ------------------------------------------------------------------------------------------------
# What block codecs have: exceptions, first residuals, layers, tiles of one value
# ------------------------------------------------------------------------------------------------

IN_BLOCKS = [name for name in SETTINGS if name.startswith(("cuszp2", "aatrox"))]
FILL = -999.0

#: Shapes with a tile that holds one value only, or few; and with blocks of all kinds of parts.
FIELD_SHAPES: dict[int, list[tuple[int, ...]]] = {
    1: [(4097,), (8192,), (3000,), (33,), (5003,)],
    2: [(33, 97), (64, 64), (2, 41, 50), (9, 9), (100, 31)],
    3: [(17, 25, 41), (8, 16, 64), (11, 13, 17), (5, 5, 5), (3, 30, 31)],
}
LONG_SHAPES: list[tuple[int, ...]] = [(32769,), (40000,), (65536 + 3100,)]
TWO_TILES: dict[int, tuple[int, ...]] = {1: (8192,), 2: (2, 64, 64), 3: (8, 16, 64)}


@dataclass(frozen=True)
class Places:
    """Numbers for the places of a field's values, from which exceptions are chosen."""

    shape: tuple[int, ...]
    rng: np.random.Generator

    @property
    def number(self) -> Array:
        """Number of each value."""
        return np.arange(math.prod(self.shape)).reshape(self.shape)

    @property
    def random(self) -> Array:
        """A random number from 0 to 1 for each value."""
        return self.rng.random(self.shape)

    @property
    def somewhere(self) -> int:
        """Number of one of the values."""
        return int(self.rng.integers(math.prod(self.shape)))

    @property
    def coast(self) -> Array:
        """Something smooth."""
        return np.asarray(sum(np.sin(n / 9 + i) for i, n in enumerate(np.indices(self.shape))))

    @property
    def block(self) -> Array:
        """Number of the block of each value, the same for all settings."""
        edges = {1: [32], 2: [8, 8], 3: [4, 8, 8]}[len(self.shape)]
        counts = [-(-extent // edge) for extent, edge in zip(self.shape, edges, strict=True)]
        numbers = np.zeros(self.shape, int)
        for axis, edge, count in zip(np.indices(self.shape), edges, counts, strict=True):
            numbers = numbers * count + axis // edge
        return numbers


PLACEMENTS: dict[str, Callable[[Places], Any]] = {
    "nowhere": lambda places: places.number < 0,
    "once": lambda places: places.number == places.somewhere,
    "first": lambda places: places.number == 0,
    "last": lambda places: places.number == math.prod(places.shape) - 1,
    "few": lambda places: places.random < 0.003,
    "some": lambda places: places.random < 0.05,
    "half": lambda places: places.random < 0.5,
    "most": lambda places: places.random < 0.97,
    "all but one": lambda places: places.number != places.somewhere,
    "everywhere": lambda places: places.number >= 0,
    "alternating": lambda places: places.number % 2 == 1,
    "in every 33rd": lambda places: places.number % 33 == 0,
    "runs": lambda places: (places.random < 0.02).cumsum().reshape(places.shape) % 2 == 0,
    "blocks": lambda places: places.block % 3 == 1,
    "few blocks": lambda places: places.block % 41 == 1,
    "second half": lambda places: places.number >= math.prod(places.shape) // 2,
    "all from somewhere on": lambda places: places.number >= places.somewhere,
    "coast": lambda places: places.coast > 0.4,
}
"""Which values of a field become exceptions."""


def fill_only(rng: np.random.Generator, count: int, size: int) -> Array:
    return bits_of(np.full(count, FILL, f"f{size}"))


def nan_only(rng: np.random.Generator, count: int, size: int) -> Array:
    return np.full(count, special_patterns(size)["nan_with_payload"], f"u{size}")


def nan_payloads(rng: np.random.Generator, count: int, size: int) -> Array:
    words = np.frombuffer(rng.bytes(count * size), f"u{size}")
    return np.asarray(words | words.dtype.type(special_patterns(size)["signalling_nan"]))


def infinities(rng: np.random.Generator, count: int, size: int) -> Array:
    return bits_of(rng.choice([-np.inf, np.inf], count).astype(f"f{size}"))


def out_of_reach(rng: np.random.Generator, count: int, size: int) -> Array:
    return bits_of((rng.standard_normal(count) * 1e30).astype(f"f{size}"))


def fill_and_nans(rng: np.random.Generator, count: int, size: int) -> Array:
    rare = rng.random(count) < 0.02
    return np.where(rare, nan_payloads(rng, count, size), fill_only(rng, count, size))


def anything(rng: np.random.Generator, count: int, size: int) -> Array:
    return rng.choice(np.array([*special_patterns(size).values()], f"u{size}"), count)


EXCEPTIONS = [
    fill_only,
    nan_only,
    nan_payloads,
    infinities,
    out_of_reach,
    fill_and_nans,
    anything,
]

OFFSETS = {4: [0, 3, 6, 12, 20], 8: [0, 6, 12, 20, 28, 36, 44, 49]}
"""Bits of the integers that fields are about, so that first residuals have all lengths."""


@dataclass(frozen=True)
class Field:
    """A field of integers, some of them replaced."""

    shape: tuple[int, ...]
    offset: int
    roughness: int
    placement: str
    exceptions: Callable[[np.random.Generator, int, int], Array]
    seed: int
    bound: dict[str, Any]

    def chunk(self, dtype: np.dtype[Any]) -> Chunk:
        """Return the values, whose fill value is `FILL`, or without one."""
        rng = np.random.default_rng(self.seed)
        places = Places(self.shape, rng)
        # A walk along each axis: neighbours differ by a step. Roughness 0 is a constant.
        steps = [rng.integers(-self.roughness, self.roughness + 1, n).cumsum() for n in self.shape]
        q = sum(
            np.asarray(walk)[axis] for walk, axis in zip(steps, np.indices(self.shape), strict=True)
        )
        if self.seed % 3 == 0:  # flat in places, along the last axis or the only one
            q = np.where(places.number // 1024 % 3 == 1, q, 0)
        values = (q + (2**self.offset - 1)).astype(f"f{dtype.itemsize}")
        words = bits_of(values).reshape(self.shape)
        where = np.asarray(PLACEMENTS[self.placement](places))
        words[where] = self.exceptions(rng, int(where.sum()), dtype.itemsize)
        fill_value = dtype.newbyteorder("=").type(FILL) if self.seed % 4 else None
        return Chunk(floats_of(words, dtype).reshape(self.shape), self.bound, fill_value)


def fields(dimensions: int, size: int, *, long: bool) -> Iterator[Field]:
    """Yield every placement, kind of exception, offset and shape, but not all combinations."""
    shapes = [*FIELD_SHAPES[dimensions], *(LONG_SHAPES if long else [])]
    bounds = [{"absolute": 0.5}, {"absolute": 0.5}, {"pointwise_relative": 1e-3}]
    pairs = itertools.product(PLACEMENTS, EXCEPTIONS)
    for seed, (placement, exceptions) in enumerate(pairs):
        yield Field(
            shape=shapes[seed % len(shapes)],
            offset=OFFSETS[size][seed % len(OFFSETS[size])],
            roughness=(0, 1, 2, 30)[seed // 3 % 4],
            placement=placement,
            exceptions=exceptions,
            seed=seed,
            bound=bounds[seed % 3],
        )
    shape = (65536,) if long else TWO_TILES[dimensions]
    m = MANTISSA_BITS[size]
    for seed, exceptions in enumerate(EXCEPTIONS):  # a tile of them only, and wide blocks
        yield Field(shape, m - 3, 2 ** (m - 3), "second half", exceptions, seed, bounds[0])


def in_tile(payload: bytes, inside: Array, frame: reference.Frame) -> Iterator[str]:
    """Return what a tile's payload contains."""
    float_type = frame.float_type
    one = " of one value" if inside.sum() == 1 else ""
    if len(payload) == inside.sum() * float_type.size:
        yield f"stored tile{one}"
        return
    if len(payload) in {0, float_type.size}:
        yield f"{'constant' if payload else 'empty'} tile{one}"
        if payload and np.frombuffer(payload, float_type.float_dtype)[0] in {FILL, np.inf}:
            yield "tile of one exception"
        return
    if not inside.all():
        yield "edge blocks"
    reader = blocks.Reader(payload)
    if frame.codec == cuszp2.NUMBER:
        section = yield from in_blocks(reader, inside, frame)
    else:
        section = yield from in_layers(reader, inside, float_type)
    if section:
        yield from in_section(section, inside, float_type)
    else:
        yield "no exceptions"


def in_blocks(
    reader: blocks.Reader, inside: Array, frame: reference.Frame
) -> Generator[str, None, bytes]:
    """Return which cuSZp2 codes there are, and the section of exceptions."""
    code_bytes = len(inside) * frame.value_bytes // 4
    codes = [*cuszp2.unpack_codes(reader.take(code_bytes), frame.mode, frame.float_type)]
    reader.take_padding(-code_bytes % 4)
    for code in codes:
        if code.residual_bytes:
            yield f"first residual of {code.residual_bytes}"
        if code.width == 0:
            yield "outlier block of width 0" if code.residual_bytes else "plain block of width 0"
        elif not code.residual_bytes:
            yield "plain block"
        if code.width >= frame.float_type.mantissa_bits - 2:
            yield "wide block"
    reader.take(sum(code.planes for code in codes) * inside.shape[1] // 8)
    residual_bytes = sum(code.residual_bytes for code in codes)
    return reader.take(reader.left() - residual_bytes - -residual_bytes % 4)


def in_layers(
    reader: blocks.Reader, inside: Array, float_type: FloatType
) -> Generator[str, None, bytes]:
    """Return which AATROX layers there are, and the section of exceptions."""
    widths = np.array(aatrox.take_codes(reader, len(inside), float_type))
    starts = range(0, widths.size, aatrox.BLOCKS_PER_LAYER)
    used = [bool(widths[start : start + aatrox.BLOCKS_PER_LAYER].any()) for start in starts]
    yield "layers" if any(used) else "no layers"
    if any(used[i] and not all(used[:i]) for i in range(len(used))):
        yield "layer left out"
    if (widths == 0).any():
        yield "plain block of width 0"
    if widths.max() >= float_type.mantissa_bits - 2:
        yield "wide block"
    reader.take(float_type.size + int((widths + (widths > 0)).sum()) * aatrox.BLOCK // 8)
    return reader.take(reader.left())


def in_section(section: bytes, inside: Array, float_type: FloatType) -> Iterator[str]:
    """Return what kinds of exceptions there are."""
    is_exception, bits = blocks.unpack_exceptions(section, inside, float_type)
    common = np.frombuffer(section[4 : 4 + float_type.size], float_type.word_dtype)[0]
    present = np.asarray(np.any(is_exception, axis=1))
    full = present & np.all(is_exception == inside, axis=1)
    uniform = present & np.all((bits == common) | ~is_exception, axis=1)
    partial = ~np.all(inside, axis=1)
    kinds = {
        "full, common": full & uniform,
        "full, others": full & ~uniform,
        "mask, common": present & ~full & uniform,
        "mask, others": present & ~full & ~uniform,
        "without exceptions": ~present,
        "full edge": full & partial,
        "edge with a mask": present & ~full & partial,
    }
    yield from (f"block: {kind}" for kind, where in kinds.items() if where.any())
    groups = [present[i : i + blocks.GROUP].any() for i in range(0, present.size, blocks.GROUP)]
    if sum(groups) > 1:
        yield "several groups"
    if not all(groups):
        yield "group left out"


def reached(frame: bytes) -> collections.Counter[str]:
    """Count what a frame's tiles contain, if its codec is one with blocks."""
    counts: collections.Counter[str] = collections.Counter()
    parsed = reference.parse(frame)
    if parsed.codec in {cuszp2.NUMBER, aatrox.NUMBER}:
        for number, payload in enumerate(parsed.tiles):
            inside = parsed.tiling.inside(number)
            if inside is None:
                inside = blocks.consecutive_inside(parsed.tiling.places(number).size)
            counts.update(set(in_tile(payload, inside, parsed)))
    return counts


def to_be_reached(name: str, size: int) -> set[str]:
    """Return everything that `reached` knows and that frames of a setting can contain."""
    found = {
        "stored tile",
        "stored tile of one value",
        "constant tile",
        "empty tile",
        "empty tile of one value",
        "tile of one exception",
        "edge blocks",
        "no exceptions",
        "plain block of width 0",
        "wide block",
        "block: full, common",
        "block: full, others",
        "block: mask, common",
        "block: mask, others",
        "block: without exceptions",
        "block: full edge",
        "block: edge with a mask",
        "several groups",
        "group left out",
    }
    if name == "aatrox":
        return found | {"layers", "no layers", "layer left out"}
    if "outlier" in name:
        found |= {f"first residual of {n}" for n in range(1, size)} | {"outlier block of width 0"}
    return found | {"plain block"}


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_BLOCKS)
def test_frames_with_exceptions_are_equal_and_of_every_form(
    name: str, dtype: np.dtype[Any]
) -> None:
    size, dimensions = dtype.itemsize, int(name[-1]) if name[-1].isdigit() else 1
    counts: collections.Counter[str] = collections.Counter()
    for field in fields(dimensions, size, long=name == "aatrox"):
        frame = assert_agreed(SETTINGS[name], field.chunk(dtype))
        counts += reached(frame)
    assert to_be_reached(name, size) <= counts.keys()


@pytest.mark.parametrize("name", [*IN_BLOCKS, "auto-speed", "auto-size"])
@in_every_mode
@hypothesis.given(data=st.data())
def test_any_exceptions_are_equal(name: str, data: st.DataObject) -> None:
    dtype = np.dtype(data.draw(st.sampled_from(DTYPES)))
    dimensions = int(name[-1]) if name[-1].isdigit() else 1
    extents = st.lists(st.integers(1, 40 if dimensions > 1 else 3000), min_size=dimensions)
    shape = data.draw(extents.map(lambda extents: tuple(extents[:dimensions])))
    field = Field(
        shape=shape if np.prod(shape) < 9000 else shape[-1:],
        offset=data.draw(st.integers(0, MANTISSA_BITS[dtype.itemsize] - 2)),
        roughness=data.draw(st.sampled_from([0, 1, 3, 100, 10000])),
        placement=data.draw(st.sampled_from(sorted(PLACEMENTS))),
        exceptions=data.draw(st.sampled_from(EXCEPTIONS)),
        seed=data.draw(st.integers(0, 2**32 - 1)),
        bound=data.draw(bounds(KINDS[:3])),
    )
    assert_agreed(SETTINGS[name], field.chunk(dtype))


@pytest.mark.parametrize("raw_bytes", [0, 1, 7, 4099])
def test_frames_of_bytes_are_equal(raw_bytes: int) -> None:
    raw = np.frombuffer(np.random.default_rng(1).bytes(raw_bytes), np.uint8)
    params = _native.Params(bound_kind=_native.BOUND_ABSOLUTE, bound=0.5)
    assert _native.encode(params, raw) == reference.encode(raw.tobytes(), 0, 0.5)


# ------------------------------------------------------------------------------------------------
# tests/fuzz/frames.py
# ------------------------------------------------------------------------------------------------


def test_random_and_damaged_frames_are_decoded_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [fuzzed.case(46412, number, [*reference.CODECS]) for number in range(100)]
    assert not any(map(fuzzed.difference, cases))
    accepted = [frame for frame in cases if len(frame) > 40 and is_accepted(frame)]
    assert 20 < len(accepted) < 90

    def off_by_one_bit(frame: bytes) -> Array:
        values = reference_decode(frame).copy()
        values.view("u1")[-1:] ^= 1
        return values

    reference_decode = reference.decode
    monkeypatch.setattr(reference, "decode", off_by_one_bit)
    assert all(map(fuzzed.difference, accepted))


def is_accepted(frame: bytes) -> bool:
    try:
        return bool(h5lossy.decode(frame).size)
    except h5lossy.H5LossyError:
        return False

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The frame, as docs/format/frame.md has it."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import math
import pkgutil
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import integers, pfpl
from .common import (
    FLOAT_TYPES,
    Array,
    Corrupt,
    FloatType,
    Kind,
    Quantizer,
    Refused,
    Tiling,
    Unsupported,
    bits_to_float,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import ModuleType

__all__ = [
    "AUTO",
    "CODECS",
    "STORED",
    "Corrupt",
    "Frame",
    "Kind",
    "Refused",
    "Unsupported",
    "build",
    "checksum",
    "decode",
    "decode_range",
    "encode",
    "parse",
]

MAGIC = b"H5LY"
VERSION = 1
STORED = 0

AUTO = 0
"""The codec that an encoder is asked for where it may choose; no frame names it."""

FOR_SPEED, FOR_SIZE = 0, 1
"""Modes of codec auto."""


def _find_codecs() -> dict[int, ModuleType]:
    """Find the modules beside this one that are codecs: those that have a number."""
    found = pkgutil.iter_modules([str(Path(__file__).parent)], f"{__package__}.")
    modules = [importlib.import_module(name) for _, name, _ in found if name != __name__]
    codecs = {module.NUMBER: module for module in modules if hasattr(module, "NUMBER")}
    return dict(sorted(codecs.items()))


CODECS = _find_codecs()
"""Codecs by number. A module has `NUMBER`, `MODES` (and how many dims their frames have),
`HAS_LOSSLESS`, `AUTO_MODES`, `chosen_mode`, `tiling`, `encode_tile` and `decode_tile`; one that can
be asked for modes that no frame has, `REQUESTS`; one with a step of its own, `own_quantizer`."""

LOSSLESS = next(number for number, codec in CODECS.items() if codec.HAS_LOSSLESS)
"""The codec of chunks without a step."""

SMALLEST = next(number for number, codec in CODECS.items() if not codec.AUTO_MODES)
"""The codec that auto tries for size only."""

HAS_PAYLOAD_SUM = 0x0001
MUST_UNDERSTAND = 0xFF00

_HEADER = struct.Struct("<4s6BH3IdQ")
_HEADER_BYTES = _HEADER.size
_BIG_ENDIAN = 0x80

FLOATS, UNSIGNED, SIGNED, HALF, BFLOAT, COMPLEX = range(6)
"""Classes of types."""


INTEGER_HEADER_BYTES = 80
"""Header bytes of frames of integers and halves, at least."""


def word_type(size: int) -> FloatType:
    """Give the type whose tiles hold words of so many bytes, where a codec has none for them."""
    return FLOAT_TYPES[4 if size <= 2 else 8]


def class_of(dtype: np.dtype[Any]) -> int:
    """Give the class of a type."""
    if dtype.name == "bfloat16":
        return BFLOAT
    if dtype.kind == "c":
        return COMPLEX
    if dtype.kind == "f":
        return HALF if dtype.itemsize == 2 else FLOATS
    return {"u": UNSIGNED, "i": SIGNED}.get(dtype.kind, FLOATS)


def takes_words(codec: int) -> bool:
    """Say whether a codec has frames of integers and halves."""
    return codec in {STORED, pfpl.NUMBER} or hasattr(CODECS[codec], "TAKES_WORDS")


def has_words(value_class: int) -> bool:
    """Say whether values of a class become words of integers; complex numbers are floats."""
    return value_class not in {FLOATS, COMPLEX}


@dataclasses.dataclass(frozen=True)
class Frame:
    """A frame's fields, but for those that follow from the others (sizes, sums, tile table)."""

    codec: int  # number of the codec
    value_bytes: int  # bytes of a value; 1 also where the type is not known
    big_endian: bool  # the raw bytes were big-endian
    kind: Kind  # bound kind
    raw_bytes: int  # raw bytes of the chunk
    bound: float  # the bound as the user gave it
    step: int  # the step field as an integer of 64 bits
    tiles: tuple[bytes, ...]  # payloads of the tiles; of codec 0, the whole payload
    mode: int = 0  # the codec's mode
    flags: int = HAS_PAYLOAD_SUM  # all 16 flags
    dims: tuple[int, ...] | None = None  # (w,) z, y, x, where the codec's mode has dims
    # Header fields behind the dims: of integers, and of a later minor version.
    later_fields: bytes = b""
    # Class of the type: 0 floats, 1 unsigned, 2 signed integers, 3 float16, 4 bfloat16, 5 complex
    # numbers.
    value_class: int = 0

    @property
    def count(self) -> int:
        """Number of values."""
        return self.raw_bytes // self.value_bytes

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Type and byte order of the raw bytes."""
        if self.value_bytes == 1 and not self.value_class:
            return np.dtype(np.uint8)
        if self.value_class == BFLOAT:
            bfloat16 = np.dtype(importlib.import_module("ml_dtypes").bfloat16)
            return bfloat16.newbyteorder(">" if self.big_endian else "<")
        if self.value_class == COMPLEX:
            return np.dtype(f"{'>' if self.big_endian else '<'}c{2 * self.value_bytes}")
        letter = "fuif"[self.value_class]
        return np.dtype(f"{'>' if self.big_endian else '<'}{letter}{self.value_bytes}")

    @property
    def float_type(self) -> FloatType:
        """Type of the values, where it is one of floats."""
        return FLOAT_TYPES[self.value_bytes]

    @property
    def integer_type(self) -> integers.IntegerType:
        """Type of the values, where it is one of integers."""
        if self.value_class > SIGNED:
            return integers.HALVES[self.value_class]
        return integers.IntegerType(self.value_bytes, self.value_class == SIGNED)

    @property
    def lattice(self) -> integers.Lattice:
        """What integers became."""
        return integers.lattice_of(
            self.integer_type, self.kind, self.step, self.later_fields, len(self.dims or ())
        )

    @property
    def tiling(self) -> Tiling:
        """How the values lie in tiles; not of codec 0."""
        of_words = has_words(self.value_class)
        if of_words and self.codec == pfpl.NUMBER:
            return integers.tiling(self.count, self.integer_type, self.mode, self.dims)
        float_type = word_type(self.value_bytes) if of_words else self.float_type
        tiling: Tiling = CODECS[self.codec].tiling(self.count, float_type, self.mode, self.dims)
        return tiling


# ------------------------------------------------------------------------------------------------
# Checksum
# ------------------------------------------------------------------------------------------------


def checksum(tiles: Iterable[bytes]) -> int:
    """Sum a list of byte strings."""
    total = 0
    for number, tile in enumerate(tiles):
        words = np.frombuffer(tile + bytes(-len(tile) % 4), "<u4")
        h = words + np.arange(1, words.size + 1, dtype="<u4") * np.uint32(0x9E3779B9)
        h += np.uint32(number * 0x85EBCA77 & 0xFFFFFFFF)
        h ^= h >> np.uint32(16)
        h *= np.uint32(0x85EBCA6B)
        h ^= h >> np.uint32(13)
        h *= np.uint32(0xC2B2AE35)
        h ^= h >> np.uint32(16)
        total += int(h.sum(dtype="<u8"))
    return total & 0xFFFFFFFF


# ------------------------------------------------------------------------------------------------
# Fields
# ------------------------------------------------------------------------------------------------


def build(frame: Frame) -> bytes:
    """Write a frame from its fields.

    Nothing is checked: tests build bad frames, too, whose sums are right.
    """
    ends = np.cumsum([len(tile) for tile in frame.tiles], dtype="<u4")
    table = b"" if frame.codec == STORED else ends.tobytes()
    dims = frame.dims or ()
    later = struct.pack(f"<{len(dims)}I", *dims) + frame.later_fields
    front = struct.pack(
        "<4s6BHI",
        MAGIC,
        VERSION,
        (_HEADER_BYTES + len(later)) // 4,
        frame.codec,
        frame.value_class << 4 | frame.value_bytes | (_BIG_ENDIAN if frame.big_endian else 0),
        frame.kind,
        frame.mode,
        frame.flags,
        frame.raw_bytes,
    )
    payload_sum = checksum(frame.tiles) if frame.flags & HAS_PAYLOAD_SUM else 0
    back = struct.pack("<IdQ", payload_sum, frame.bound, frame.step) + later
    header_sum = checksum([front + back + table])
    return front + struct.pack("<I", header_sum) + back + table + b"".join(frame.tiles)


class _Header(NamedTuple):
    """The first 40 bytes, as they stand."""

    magic: bytes
    version: int
    words: int
    codec: int
    type: int
    kind: int
    mode: int
    flags: int
    raw_bytes: int
    header_sum: int
    payload_sum: int
    bound: float
    step: int

    @property
    def value_bytes(self) -> int:
        """Bytes of a value."""
        return self.type & 0x0F

    @property
    def value_class(self) -> int:
        """Class of the type."""
        return (self.type & ~_BIG_ENDIAN) >> 4

    @property
    def modes(self) -> Mapping[int, int]:
        """Modes that the codec has, and how many dims they have."""
        if self.codec == STORED:
            return {0: 0}
        of_words = has_words(self.value_class) and self.codec == pfpl.NUMBER
        codec = integers if of_words else CODECS[self.codec]
        modes: Mapping[int, int] = codec.MODES
        return modes


def parse(data: bytes, *, check_payload: bool = True) -> Frame:
    """Read and check a frame's fields.

    What makes a frame unsupported is looked at first: of a frame that needs a later release, the
    length of the tile table, so the header's sum, may not be known.
    """
    header = _read_header(data)
    dims = struct.Struct(f"<{header.modes[header.mode]}I")
    fields_end = _HEADER_BYTES + dims.size
    header_bytes = 4 * header.words
    has_lattice = has_words(header.value_class) and header.codec != STORED
    least_bytes = INTEGER_HEADER_BYTES if has_lattice else fields_end
    if not least_bytes <= header_bytes <= len(data):
        raise Corrupt(f"a header of {header_bytes} bytes in a frame of {len(data)}")
    _check_size(header)
    frame = Frame(
        codec=header.codec,
        value_bytes=header.value_bytes,
        big_endian=bool(header.type & _BIG_ENDIAN),
        kind=Kind.LOSSLESS,
        raw_bytes=header.raw_bytes,
        bound=header.bound,
        step=header.step,
        tiles=(),
        mode=header.mode,
        flags=header.flags,
        dims=dims.unpack_from(data, _HEADER_BYTES) or None,
        later_fields=data[fields_end:header_bytes],
        value_class=header.value_class,
    )
    if frame.dims is not None and math.prod(frame.dims) != frame.count:
        raise Corrupt(f"dims {frame.dims} of {frame.count} values")
    tiling = None if frame.codec == STORED else frame.tiling
    tiles = _cut_payload(data, header, None if tiling is None else tiling.tile_count)
    if has_lattice:
        _ = dataclasses.replace(frame, kind=header.kind).lattice
    _check_values(header)
    frame = dataclasses.replace(frame, kind=Kind(header.kind), tiles=tiles)
    for number, tile in enumerate(tiles if tiling is not None else ()):
        raw_size = frame.value_bytes * frame.tiling.places(number).size
        if len(tile) > raw_size:
            raise Corrupt(f"tile {number}: {len(tile)} bytes for {raw_size} raw ones")
    if check_payload and frame.flags & HAS_PAYLOAD_SUM:
        found = checksum(frame.tiles)
        if found != header.payload_sum:
            raise Corrupt(f"the payload's sum is {found:#010x}, not {header.payload_sum:#010x}")
    return frame


def _read_header(data: bytes) -> _Header:
    """Read the fixed fields, and check that this release knows such frames."""
    if data[:4] != MAGIC:
        raise Corrupt(f"a frame begins with {MAGIC!r}, not with {data[:4]!r}")
    if len(data) > 4 and data[4] != VERSION:
        raise Unsupported(f"version {data[4]}; {VERSION} is known")
    if len(data) < _HEADER_BYTES:
        raise Corrupt(f"a frame has at least {_HEADER_BYTES} bytes, not {len(data)}")
    header = _Header(*_HEADER.unpack_from(data))
    if header.flags & MUST_UNDERSTAND:
        raise Unsupported(f"flags {header.flags:#06x}: bits 8 to 15 are not known")
    if header.codec != STORED and header.codec not in CODECS:
        raise Unsupported(f"codec {header.codec}; {[STORED, *CODECS]} are known")
    if header.mode not in header.modes:
        raise Unsupported(
            f"mode {header.mode} of codec {header.codec}; {list(header.modes)} are known"
        )
    if header.value_class > COMPLEX:
        raise Unsupported(f"type {header.type:#04x}: a class that is not known")
    if has_words(header.value_class) and not takes_words(header.codec):
        raise Unsupported(f"codec {header.codec} of type {header.type:#04x}")
    return header


def _check_size(header: _Header) -> None:
    """Check the fields that the number of tiles follows from."""
    if has_words(header.value_class):
        is_one = header.value_bytes == 1
        sizes = {1, 2, 4, 8} if header.value_class <= SIGNED else {2}
        if header.value_bytes not in sizes or (is_one and header.type & _BIG_ENDIAN):
            raise Corrupt(f"type {header.type:#04x} is none of integers and halves")
    elif header.value_class == COMPLEX and header.value_bytes not in FLOAT_TYPES:
        raise Corrupt(f"complex numbers of {header.value_bytes} bytes for a component")
    elif header.value_bytes not in (1, *FLOAT_TYPES):
        raise Corrupt(f"values of {header.value_bytes} bytes; 1, 4 and 8 are allowed")
    elif header.value_bytes == 1 and (header.codec != STORED or header.type & _BIG_ENDIAN):
        raise Corrupt("bytes of a type that is not known can only be stored, and have no order")
    if header.raw_bytes % (header.value_bytes * (2 if header.value_class == COMPLEX else 1)):
        raise Corrupt(f"{header.raw_bytes} raw bytes are no multiple of {header.value_bytes}")


def _cut_payload(data: bytes, header: _Header, tile_count: int | None) -> tuple[bytes, ...]:
    """Check the header's sum and the tile table, and cut the payload into tiles.

    Codec 0 has no tile table, and the whole payload is one.
    """
    table_begin = 4 * header.words
    payload_begin = table_begin + 4 * (tile_count or 0)
    if payload_begin > len(data):
        raise Corrupt(f"{tile_count} tiles do not fit in a frame of {len(data)} bytes")
    found = checksum([data[:16] + data[20:payload_begin]])
    if found != header.header_sum:
        raise Corrupt(f"the header's sum is {found:#010x}, not {header.header_sum:#010x}")
    if tile_count is None:
        ends = [header.raw_bytes]
    else:
        ends = np.frombuffer(data, "<u4", tile_count, table_begin).tolist()
    payload = data[payload_begin:]
    begins = [0, *ends]
    if begins[-1] != len(payload):
        raise Corrupt(f"tiles end at {begins[-1]}, the payload at {len(payload)}")
    spans = list(itertools.pairwise(begins))
    if any(begin > end for begin, end in spans):
        raise Corrupt("a tile ends before it begins")
    return tuple(payload[begin:end] for begin, end in spans)


def _check_values(header: _Header) -> None:
    """Check the fixed fields of a frame that is known, and whole."""
    is_integer = header.value_class in {UNSIGNED, SIGNED}
    if header.kind not in list(Kind) or (header.kind == Kind.NOISE and not is_integer):
        raise Corrupt(f"bound kind {header.kind}; {[int(kind) for kind in Kind]} are allowed")
    if (
        header.kind == Kind.LOSSLESS
        and header.codec != STORED
        and not has_words(header.value_class)
        and not CODECS[header.codec].HAS_LOSSLESS
    ):
        raise Corrupt(f"bound kind {header.kind} of codec {header.codec}, which has no such form")
    if not math.isfinite(header.bound) or math.copysign(1.0, header.bound) < 0:
        raise Corrupt(f"bound {header.bound}; it is finite, and its sign bit is clear")
    # A stored frame has no step, whatever its bound kind.
    kind = Kind.LOSSLESS if header.codec == STORED else Kind(header.kind)
    if has_words(header.value_class) and header.codec != STORED:
        return  # the lattice has been checked
    _check_step(header.step, kind, FLOAT_TYPES.get(header.value_bytes))


def _check_step(step: int, kind: Kind, float_type: FloatType | None) -> None:
    """Check the step field; the kind of codec 0 counts as lossless, as there is no step either."""
    if kind == Kind.LOSSLESS or float_type is None:
        allowed = step == 0
    elif kind == Kind.POINTWISE_RELATIVE:
        allowed = step % 2 == 1 and 3 <= step <= (1 << float_type.mantissa_bits) + 1
    else:
        width = bits_to_float(step)
        low, high = 2.0 * float_type.smallest_normal, 2.0 * float_type.largest_bound
        allowed = low <= width <= high and float(float_type.number(width)) == width
    if not allowed:
        raise Corrupt(f"step {step:#018x} of bound kind {kind:d}")


# ------------------------------------------------------------------------------------------------
# Values
# ------------------------------------------------------------------------------------------------


def _decode_tile(frame: Frame, number: int) -> Array:
    """Decode one tile, by the rules that stand before every codec's own."""
    payload, word = frame.tiles[number], np.dtype(f"<u{frame.value_bytes}")
    count = frame.tiling.places(number).size
    if len(payload) == count * frame.value_bytes:
        return np.frombuffer(payload, word)
    if has_words(frame.value_class):
        of = frame.integer_type
        if not payload:
            return integers.values_of([0] * count, of, frame.lattice)
        if frame.codec != pfpl.NUMBER:
            float_type, inside = word_type(of.size), frame.tiling.inside(number)
            words = CODECS[frame.codec].decode_tile(
                payload, count, float_type, None, mode=frame.mode, inside=inside
            )
            numbers = [of.number(word) for word in words.tolist()]
            return integers.values_of(numbers, of, frame.lattice)
        inside = frame.tiling.inside(number)
        assert inside is not None
        return integers.decode_tile(payload, count, of, frame.lattice, inside.shape[-1])
    if not payload:
        return np.zeros(count, word)
    result: Array = CODECS[frame.codec].decode_tile(
        payload,
        count,
        frame.float_type,
        Quantizer(frame.kind, frame.step),
        mode=frame.mode,
        inside=frame.tiling.inside(number),
    )
    return result


def _values(frame: Frame, first: int, count: int) -> Array:
    """Decode some values, with the tiles that hold them."""
    word = np.dtype(f"<u{frame.value_bytes}")
    if frame.codec == STORED:
        bits = np.frombuffer(frame.tiles[0], word)[first : first + count]
    else:
        bits = np.zeros(count, word)
        for number in range(len(frame.tiles)):
            places = frame.tiling.places(number)
            wanted = (places >= first) & (places < first + count)
            if wanted.any():
                bits[places[wanted] - first] = _decode_tile(frame, number)[wanted]
    # Patterns are swapped as integers: a conversion of floats could change signalling NaNs.
    order = ">" if frame.big_endian else "<"
    return bits.astype(np.dtype(f"{order}u{frame.value_bytes}")).view(frame.dtype)


def decode(data: bytes) -> Array:
    """Decode a frame: all values, in the byte order of the raw bytes, or as uint8."""
    frame = parse(data)
    return _values(frame, 0, frame.count)


def decode_range(data: bytes, first: int, count: int) -> Array:
    """Decode some values of a frame, reading only the tiles that hold them.

    The payload's sum is not checked.
    """
    frame = parse(data, check_payload=False)
    if first < 0 or count < 0 or first + count > frame.count:
        raise IndexError(f"values {first} to {first + count} of {frame.count}")
    return _values(frame, first, count)


# ------------------------------------------------------------------------------------------------
# Encoding
# ------------------------------------------------------------------------------------------------


def encode(
    array: Array | bytes,
    bound_kind: Kind | int,
    bound: float,
    *,
    fill_bits: int | None = None,
    maybe_padded: bool = False,
    checksum: bool = True,
    codec: int = LOSSLESS,
    mode: int = 0,
    shape: Sequence[int] | None = None,
    floor: int = 0,
    exact: Sequence[int] = (),
    wide: bool = False,
) -> bytes:
    """Encode values of either byte order; what is of no known type is stored as bytes.

    The chunk may hold padding if it is `maybe_padded`; only a range-relative bound asks for it.
    Codec `AUTO` picks one, and mode 0 is the default one. Without the chunk's extents, or where
    they do not fit the number of values, it has one dimension; `array`'s own shape is not looked
    at. A noise bound has a `floor`; `exact` are patterns of exact values besides the fill value, of
    integers and halves; `wide` bins are those of integers with an absolute or range-relative bound.
    """
    kind = Kind(bound_kind)
    if not math.isfinite(bound) or bound < 0:
        raise ValueError(f"bound {bound}; a finite number that is not negative is allowed")
    for_size = codec == AUTO and mode == FOR_SIZE
    module = CODECS.get(SMALLEST if for_size else codec)
    modes = {FOR_SPEED, FOR_SIZE} if codec == AUTO else {0, *CODECS[codec].MODES}
    if mode not in getattr(CODECS.get(codec), "REQUESTS", modes):
        raise ValueError(f"mode {mode:#x} of codec {codec}")
    flat = np.frombuffer(array, np.uint8) if isinstance(array, bytes) else np.ravel(array)
    is_integer = not isinstance(array, bytes) and (
        flat.dtype.kind in "iu" or flat.dtype.name in {"float16", "bfloat16"}
    )
    value_class = FLOATS if isinstance(array, bytes) else class_of(flat.dtype)
    if value_class == COMPLEX:  # their components, as one more axis
        flat = flat.view(f"{flat.dtype.str[0]}f{flat.dtype.itemsize // 2}")
        shape = None if shape is None else (*shape, 2)
    known = is_integer or (flat.dtype.kind == "f" and flat.dtype.itemsize in FLOAT_TYPES)
    size = flat.dtype.itemsize if known else 1
    big_endian = known and size > 1 and flat.dtype == flat.dtype.newbyteorder(">")
    raw = flat.view(f"{'>' if big_endian else '<'}u{size}").astype(f"<u{size}")
    stored = Frame(
        codec=STORED,
        value_bytes=size,
        big_endian=big_endian,
        kind=kind,
        raw_bytes=raw.nbytes,
        bound=0.0 if kind == Kind.LOSSLESS else abs(float(bound)),
        step=0,
        tiles=(raw.tobytes(),),
        flags=HAS_PAYLOAD_SUM if checksum else 0,
        value_class=value_class if known else FLOATS,
    )
    if not known or raw.size == 0:
        return build(stored)
    if shape is None or math.prod(shape) != raw.size:
        shape = [raw.size]
    extents = [extent for extent in shape if extent != 1]
    if is_integer:
        lattice = integers.make_lattice(
            raw,
            stored.integer_type,
            stored.kind,
            stored.bound,
            fill_bits,
            maybe_padded=maybe_padded,
            floor=floor,
            exact=exact,
            wide=wide,
        )
        if wide and lattice.kind != Kind.LOSSLESS:
            raw = integers.in_wide_bins(raw, lattice, extents)
            stored = dataclasses.replace(stored, tiles=(raw.tobytes(),))
        chosen = [(codec, mode)] if codec != AUTO and takes_words(codec) else [(pfpl.NUMBER, 0)]
        if for_size:
            chosen = [(SMALLEST, 0), *chosen]
        frames = [_integer_frame(stored, raw, lattice, extents, one) for one in chosen]
        return min(build(stored), *map(build, frames), key=len)
    quantizer = pfpl.make_quantizer(
        raw, FLOAT_TYPES[size], kind, stored.bound, fill_bits=fill_bits, maybe_padded=maybe_padded
    )
    if module is not None and hasattr(module, "own_quantizer"):
        quantizer = module.own_quantizer(quantizer, FLOAT_TYPES[size])
    counting = _counting(fill_bits, FLOAT_TYPES[size])
    plan = dataclasses.replace(stored, kind=quantizer.kind, step=quantizer.step, tiles=())
    if quantizer.kind == Kind.LOSSLESS:
        plan = _planned(plan, LOSSLESS, 0, extents)
    elif for_size:
        frame = _smallest(plan, raw, counting, extents, quantizer)
        return min(build(stored), build(frame), key=len)
    elif codec == AUTO:
        plan = _picked(plan, raw, counting, extents)
    else:
        plan = _planned(plan, codec, mode, extents)
    return min(build(stored), build(_with_tiles(plan, raw, counting, quantizer)), key=len)


def _integer_frame(
    plan: Frame,
    bits: Array,
    lattice: integers.Lattice,
    extents: Sequence[int],
    chosen: tuple[int, int],
) -> Frame:
    """Encode integers or halves, with a codec and mode; `plan` has their type and the bound."""
    codec, mode = chosen
    of, is_pfpl = plan.integer_type, codec == pfpl.NUMBER
    mode = mode if is_pfpl else CODECS[codec].chosen_mode(mode, extents)
    dims = (integers.MODES if is_pfpl else CODECS[codec].MODES)[mode]
    plan = dataclasses.replace(
        plan,
        codec=codec,
        mode=mode,
        kind=lattice.kind,
        step=lattice.step,
        dims=_dims_of(extents, dims),
        later_fields=integers.fields(lattice, dims),
        tiles=(),
    )
    tiles = []
    for number in range(plan.tiling.tile_count):
        tile, inside = bits[plan.tiling.places(number)], plan.tiling.inside(number)
        assert inside is not None
        if is_pfpl:
            payload: bytes | None = integers.encode_tile(tile, of, lattice, inside.shape[-1])
        else:
            float_type = word_type(of.size)
            mask = (1 << float_type.word_bits) - 1
            words = [of.number(lattice.word(x)) & mask for x in of.numbers(tile)]
            # One of them is an exception, and others are numbers; no frame needs more.
            exact = next((one for one in lattice.exact if one != 0), None)
            if exact is not None:
                exact = of.number(lattice.word(of.number(exact))) & mask
            payload = CODECS[codec].encode_tile(
                np.array(words, float_type.word_dtype),
                float_type,
                None,
                exact,
                mode=mode,
                inside=inside,
            )
        keep = payload is not None and len(payload) < tile.nbytes
        tiles.append(payload if keep else tile.tobytes())
    return dataclasses.replace(plan, tiles=tuple(tiles))


def _counting(fill_bits: int | None, float_type: FloatType) -> int | None:
    """Give the fill value where it counts for the checks of values.

    +0.0 and NaN do not: they come back bit for bit without any help (and count for the range all
    the same).
    """
    if fill_bits is None or fill_bits == 0:
        return None
    magnitude = fill_bits & ~(1 << (float_type.word_bits - 1))
    return None if magnitude > float_type.infinity else fill_bits


def _planned(plan: Frame, codec: int, mode: int, extents: Sequence[int]) -> Frame:
    """Give a frame without tiles its codec, mode and dims; extents are those other than 1."""
    mode = CODECS[codec].chosen_mode(mode, extents)
    count = CODECS[codec].MODES[mode]
    dims = _dims_of(extents, count) if count else None
    return dataclasses.replace(plan, codec=codec, mode=mode, dims=dims)


def _dims_of(extents: Sequence[int], count: int) -> tuple[int, ...]:
    """Give the last extents as dims: those in front are multiplied into one, or are 1."""
    padded = [*[1] * count, *extents]
    return math.prod(padded[: -count + 1]), *padded[-count + 1 :]


def _with_tiles(
    plan: Frame, bits: Array, fill_bits: int | None, quantizer: Quantizer | None = None
) -> Frame:
    """Encode the tiles of a frame; without a quantizer, with what the frame says of the bound."""
    tiles = []
    for number in range(plan.tiling.tile_count):
        tile = bits[plan.tiling.places(number)]
        payload = CODECS[plan.codec].encode_tile(
            tile,
            plan.float_type,
            quantizer or Quantizer(plan.kind, plan.step),
            fill_bits,
            mode=plan.mode,
            inside=plan.tiling.inside(number),
        )
        keep = payload is not None and len(payload) < tile.nbytes
        tiles.append(payload if keep else tile.tobytes())
    return dataclasses.replace(plan, tiles=tuple(tiles))


def _candidates(plan: Frame, extents: Sequence[int]) -> list[Frame]:
    """Give the frames that codec auto compares."""
    chosen = [(n, c.chosen_mode(mode, extents)) for n, c in CODECS.items() for mode in c.AUTO_MODES]
    return [_planned(plan, number, mode, extents) for number, mode in dict.fromkeys(chosen)]


def _smallest(
    plan: Frame,
    bits: Array,
    fill_bits: int | None,
    extents: Sequence[int],
    quantizer: Quantizer,
) -> Frame:
    """Give the smallest frame of all codecs, as docs/format/auto.md has it.

    `quantizer` is that of the codec which is tried for size only.
    """
    frames = [_with_tiles(_planned(plan, SMALLEST, 0, extents), bits, fill_bits, quantizer)]
    if plan.kind == Kind.POINTWISE_RELATIVE or not _has_fine_points(plan, bits, fill_bits):
        frames += [_with_tiles(one, bits, fill_bits) for one in _candidates(plan, extents)]
    return min(frames, key=lambda frame: len(build(frame)))


def _has_fine_points(plan: Frame, bits: Array, fill_bits: int | None) -> bool:
    """Say whether one of the values is a multiple of a 16th of the step, and not of the step."""
    fine = plan.float_type.number(bits_to_float(plan.step) / 16)
    values = bits.view(plan.dtype.newbyteorder("<"))
    with np.errstate(all="ignore"):
        near = np.rint(values / fine)
        near[~CODECS[SMALLEST].are_used(near, plan.float_type)] = 0
        is_one = (near % 16 != 0) & (near * fine == values)
    return bool((is_one & (bits != (0 if fill_bits is None else fill_bits))).any())


def _picked(plan: Frame, bits: Array, fill_bits: int | None, extents: Sequence[int]) -> Frame:
    """Pick a codec, as docs/format/auto.md has it."""
    candidates = _candidates(plan, extents)
    z, y, x = _dims_of(extents, 3)
    chunk = bits.reshape(z, y, x)
    if z == 1:  # what is said of slices and rows, then, is about rows and columns
        chunk = chunk.reshape(y, x, 1) if y > 1 else chunk.reshape(x, 1, 1)
    block, block_across = (4, 8) if z > 1 else (8, 32) if y > 1 else (32, 1)
    deep, wide, line = chunk.shape

    rows_of_piece = -(-8192 // (block * wide * line))
    size = min(rows_of_piece * block, deep)
    parts = [chunk[size * i :][:size] for i in _sampled(deep // size)]
    strips: list[Array] = []
    weight, weight_of_strips = 1, 0
    rows, left = divmod(deep, block)
    if left and size < deep and y > 1:
        width = min(-(-2048 // (left * block_across * line)) * block_across, wide)
        edge = chunk[rows * block :]
        strips = [edge[:, width * i :][:, :width] for i in _sampled(wide // width)]
        weight = rows * len(strips) * width
        weight_of_strips = len(parts) * rows_of_piece * wide

    def frame_bytes(candidate: Frame, part: Array) -> int:
        """Give the bytes of the frame that a part of the chunk would have."""
        part_plan = dataclasses.replace(
            candidate,
            raw_bytes=part.size * candidate.value_bytes,
            dims=candidate.dims and (part.shape if z > 1 else (1, *part.shape[:2])),
        )
        frame = build(_with_tiles(part_plan, part.reshape(-1), fill_bits))
        return min(len(frame), _HEADER_BYTES + part_plan.raw_bytes)

    def estimate(candidate: Frame) -> int:
        """Give a number that is the larger, the larger the chunk's frame would be."""
        of_parts = sum(frame_bytes(candidate, part) for part in parts)
        of_strips = sum(frame_bytes(candidate, strip) for strip in strips)
        return weight * of_parts + weight_of_strips * of_strips

    return min(candidates, key=estimate)


def _sampled(count: int) -> list[int]:
    """Choose those of a chunk's pieces, or of its edge's strips, that are in the sample."""
    size = max(1, (count + 2) // 4)
    return [((2 * j + 1) * count - 1) // (2 * size) for j in range(size)]

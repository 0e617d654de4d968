# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""What the frame and every codec share: refusals, bound kinds, the two float types.

Names mean the same in all modules: `bits` are patterns of values, `float_type` is their type,
`quantizer` has bound kind and step, and `fill_bits` is the fill value's pattern. `inside` says of
each block and position whether it is inside of the data, and `is_exception` of each value whether
it is an exception. What reads bytes raises `Corrupt` if they contradict themselves.

A codec is a module with its NUMBER and MODES, and four functions. `chosen_mode` gives the mode that
an encoder takes for a chunk, by the mode that was asked for (0 is the default one) and the chunk's
extents other than 1. `tiling` says how a chunk is cut into tiles. `encode_tile` gives a tile's
payload, of any length, or None where the tile has to be stored. `decode_tile` gives the patterns of
a tile that is neither empty nor stored. They ignore arguments that their modes do not have.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import struct
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Refused(ValueError):  # noqa: N818 -- the document's word
    """A decoder refuses the frame."""


class Unsupported(Refused):
    """The frame may be whole, but it needs a later version, codec, mode or flag."""


class Corrupt(Refused):
    """The frame's bytes contradict the format or their checksum."""


class Kind(enum.IntEnum):
    """Bound kinds, with their numbers in the frame."""

    ABSOLUTE = 0
    POINTWISE_RELATIVE = 1
    RANGE_RELATIVE = 2
    LOSSLESS = 3
    NOISE = 4


@dataclasses.dataclass(frozen=True)
class ValueType:
    """A type of values that a frame can hold."""

    size: int  # bytes of a value

    @property
    def word_bits(self) -> int:
        """Bits of a word, W."""
        return 8 * self.size

    @property
    def word_dtype(self) -> np.dtype[Any]:
        """The unsigned integer that holds a value's pattern."""
        return np.dtype(f"<u{self.size}")


@dataclasses.dataclass(frozen=True)
class FloatType(ValueType):
    """One of the two IEEE 754 types a frame can hold.

    Values travel through the reference as arrays of `word_dtype` (their bit patterns), and are only
    viewed as floats where a number is needed. So no pattern, a signalling NaN's included, is ever
    changed by a conversion.
    """

    mantissa_bits: int  # bits of the mantissa that are stored
    bias: int  # exponent bias

    @property
    def float_dtype(self) -> np.dtype[Any]:
        """The type itself."""
        return np.dtype(f"<f{self.size}")

    @property
    def head_mask(self) -> int:
        """The word with sign and exponent set, M; also the pattern of negative infinity."""
        return (1 << self.word_bits) - (1 << self.mantissa_bits)

    @property
    def infinity(self) -> int:
        """The pattern of infinity."""
        return self.head_mask & ~(1 << (self.word_bits - 1))

    @property
    def one(self) -> int:
        """The pattern of 1.0."""
        return self.bias << self.mantissa_bits

    @property
    def default_negative_nan(self) -> int:
        """The pattern of the negative NaN that x86 processors make."""
        return self.head_mask | 1 << (self.mantissa_bits - 1)

    @property
    def smallest_normal(self) -> float:
        """The smallest normal number."""
        return 2.0 ** (1 - self.bias)

    @property
    def largest_bound(self) -> float:
        """The largest bound that quantizing works with."""
        return 2.0 ** (self.bias - 3)

    def number(self, value: float) -> Any:
        """Give a number as a NumPy scalar, rounded to nearest.

        Arithmetic of it with an array of this type stays in this type.
        """
        with np.errstate(over="ignore"):
            return self.float_dtype.type(value)


FLOAT_TYPES = {4: FloatType(4, 23, 127), 8: FloatType(8, 52, 1023)}


def float_to_bits(value: float) -> int:
    """Give a float64's pattern."""
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])


def bits_to_float(bits: int) -> float:
    """Give the float64 of a pattern."""
    return float(struct.unpack("<d", struct.pack("<Q", bits))[0])


def zigzag(numbers: Array) -> Array:
    """Fold signed numbers into unsigned ones: 0, -1, 1, -2 become 0, 1, 2, 3."""
    folded: Array = ((numbers << 1) ^ (numbers >> 63)).astype("<u8")
    return folded


@dataclasses.dataclass(frozen=True)
class Quantizer:
    """What a frame says of its bound to the codec."""

    kind: Kind  # bound kind of the frame
    # The eight bytes of the frame's step field as an integer: the bits of a float64, the odd number
    # S, or 0, as the kind has it.
    step: int
    bound: float = 0.0  # B, where an encoder cannot tell it from the step; no frame has it


class Tiling(Protocol):
    """How the values of a chunk lie in tiles."""

    @property
    def tile_count(self) -> int:
        """Number of tiles."""

    def places(self, tile: int) -> Array:
        """Give the numbers of a tile's values in the chunk, in the tile's order."""

    def inside(self, tile: int) -> Array | None:
        """Say which positions of a tile's blocks hold a value; None if values are consecutive."""


@dataclasses.dataclass(frozen=True)
class Consecutive:
    """Tiles of values that follow each other in the chunk; the last one may be shorter."""

    count: int  # number of values of the chunk
    per_tile: int  # number of values of a full tile

    @property
    def tile_count(self) -> int:
        """Number of tiles."""
        return -(-self.count // self.per_tile)

    def places(self, tile: int) -> Array:
        """Give the numbers of a tile's values in the chunk."""
        first = tile * self.per_tile
        return np.arange(first, min(first + self.per_tile, self.count))

    def inside(self, tile: int) -> None:
        """Say that the values follow each other."""


@dataclasses.dataclass(frozen=True)
class Boxes:
    """Tiles that are boxes."""

    dims: tuple[int, ...]  # extents of the chunk
    piece: tuple[int, ...]  # of a full tile

    @property
    def grid(self) -> tuple[int, ...]:
        """Number of tiles along each axis."""
        return tuple(-(-n // p) for n, p in zip(self.dims, self.piece, strict=True))

    @property
    def tile_count(self) -> int:
        """Number of tiles."""
        return math.prod(self.grid)

    def box(self, tile: int) -> tuple[slice, ...]:
        """Give the coordinates of a tile along each axis."""
        corner = np.unravel_index(tile, self.grid)
        return tuple(
            slice(int(at) * p, min((int(at) + 1) * p, n))
            for at, p, n in zip(corner, self.piece, self.dims, strict=True)
        )

    def places(self, tile: int) -> Array:
        """Give the numbers of a tile's values in the chunk."""
        ranges = np.ix_(*(np.arange(s.start, s.stop) for s in self.box(tile)))
        return np.ravel_multi_index(np.broadcast_arrays(*ranges), self.dims).ravel()

    def inside(self, tile: int) -> Array:
        """Say which positions of a tile's box hold a value: all of them."""
        return np.ones([s.stop - s.start for s in self.box(tile)], bool)

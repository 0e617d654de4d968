# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Frames that are kept for ever: what a release wrote, every later one reads, and writes again.

``v1/NAME.frame`` is a frame of format version 1, and ``v1/NAME.json`` says what it holds and how
its values are made. ``python -m tests.golden add NAME`` makes the frame from a recipe in the JSON
file, once; nothing changes them later. The name begins with the codec's.

Values are made of `PIECES` by integer arithmetic and single roundings, so that every machine and
every NumPy makes the same ones. Pieces may be added; a piece that a frame was made with is as
fixed as the frame. HDF5 files that are kept like this are in `golden.files`.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

import h5lossy
from h5lossy import _native
from h5lossy._codecs import CODECS
from h5lossy._frames import chunk_params
from h5lossy._native.library import ffi

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Array = npt.NDArray[Any]

FOLDER = Path(__file__).parent / "v1"

CLASSES = {cls.codec_name: cls for cls in CODECS.values()}


# ------------------------------------------------------------------------------------------------
# Values
# ------------------------------------------------------------------------------------------------


def _numbers(seed: int) -> Iterator[int]:
    """Generate numbers of 53 bits: Knuth's MMIX generator, without its low bits."""
    state = seed
    while True:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        yield state >> 11


def _take(seed: int, count: int) -> Array:
    numbers = _numbers(seed)
    return np.array([next(numbers) for _ in range(count)], np.uint64)


def _words(values: Array, size: int) -> Array:
    # float64 to float32 is one rounding.
    return values.astype(f"f{size}").view(f"u{size}")


def _walk(size: int, *, count: int, seed: int, bits: int, exponent: int) -> Array:
    """Return a walk of steps below 2**bits, times 2**exponent."""
    steps = (_take(seed, count) % np.uint64(2 ** (bits + 1))).astype(np.int64) - 2**bits
    return _words(steps.cumsum() * 2.0**exponent, size)


def _ramp(size: int, *, count: int, start: int, step: int, exponent: int) -> Array:
    """Return start, start + step, and so on, times 2**exponent."""
    return _words((start + step * np.arange(count)) * 2.0**exponent, size)


def _noise(size: int, *, count: int, seed: int) -> Array:
    """Return patterns of which nothing can be said; NaNs and infinities are among them."""
    numbers = [_take(seed + i, count) >> np.uint64(21) for i in range(2)]
    return (numbers[0] << np.uint64(32) | numbers[1]).astype(f"u{size}")


def _patterns(size: int, *, words: list[str], repeat: int = 1) -> Array:
    """Return the patterns, each so often."""
    return np.repeat(np.array([int(word, 16) for word in words], f"u{size}"), repeat)


def _borders(size: int, *, count: int, seed: int, half_width: str, bits: int) -> Array:
    """Return values within two ulps of a multiple below 2**bits of half a bin's width."""
    numbers = _take(seed, count)
    halves = (numbers % np.uint64(2**bits)).astype(np.int64)
    halves[numbers & np.uint64(2**40) != 0] *= -1
    half = np.array(float.fromhex(half_width), f"f{size}")
    ulps = ((numbers >> np.uint64(45)) % np.uint64(5)).astype(f"i{size}") - 2
    words = (halves.astype(f"f{size}") * half).view(f"u{size}")
    return np.asarray(words + ulps.astype(words.dtype))


def _slopes(
    size: int,
    *,
    shape: list[int],
    steps: list[int],
    exponent: int,
    start: int = 0,
    seed: int = 1,
    bits: int = 0,
    word: str = "0",
    beyond: int | None = None,
) -> Array:
    """Return numbers that rise by a step along each axis, with noise below 2**bits.

    They are times 2**exponent. Those of which the indices have a sum above `beyond` are replaced by
    a pattern.
    """
    at = np.indices(shape)
    noise = (_take(seed, at[0].size) % np.uint64(2**bits)).astype(np.int64)
    rising = np.asarray(sum(step * axis for step, axis in zip(steps, at, strict=True)))
    numbers = start + rising.reshape(-1) + noise
    words = _words(numbers * 2.0**exponent, size)
    if beyond is not None:
        words[at.sum(axis=0).reshape(-1) > beyond] = int(word, 16)
    return words


def _hills(
    size: int,
    *,
    shape: list[int],
    steps: list[int],
    exponent: int,
    start: int = 0,
    times: int = 1,
    seed: int = 1,
    bits: int = 0,
    word: str = "0",
    beyond: int | None = None,
) -> Array:
    """Return sums of parabolas along each axis, t (256 - t), with noise below 2**bits.

    t is the index times a step, modulo 256. Numbers are times `times` and 2**exponent. Those of
    which the indices along the last two axes have a sum above `beyond` are replaced by a pattern.
    """
    at = np.indices(shape)
    along = [step * axis % 256 for step, axis in zip(steps, at, strict=True)]
    hills = np.asarray(sum(t * (256 - t) for t in along)).reshape(-1)
    noise = (_take(seed, hills.size) % np.uint64(2**bits)).astype(np.int64)
    words = _words((start + hills + noise) * times * 2.0**exponent, size)
    if beyond is not None:
        words[at[-2:].sum(axis=0).reshape(-1) > beyond] = int(word, 16)
    return words


def _spoilt(
    size: int, *, count: int, seed: int, bits: int, exponent: int, words: list[str], one_in: int
) -> Array:
    """Return a walk in which about one value in so many is one of the patterns."""
    walk = _walk(size, count=count, seed=seed, bits=bits, exponent=exponent)
    numbers = _take(seed + 1, count) >> np.uint64(13)
    others = np.array([int(word, 16) for word in words], walk.dtype)[
        (numbers >> np.uint64(13)) % np.uint64(len(words))
    ]
    return np.where(numbers % np.uint64(one_in) == 0, others, walk)


def _counts(
    size: int,
    *,
    shape: list[int],
    steps: list[int],
    start: int,
    times: int = 1,
    seed: int = 1,
    bits: int = 0,
    word: str = "0",
    one_in: int = 0,
) -> Array:
    """Return integers that rise by a step along each axis, with noise below 2**bits.

    They are times `times`, from `start` on. About one in `one_in` is replaced by a pattern.
    """
    at = np.indices(shape)
    numbers = _take(seed, at[0].size)
    noise = (numbers % np.uint64(2**bits)).astype(np.int64)
    rising = np.asarray(sum(step * axis for step, axis in zip(steps, at, strict=True)))
    first = np.uint64(start % 2**64)
    counts = first + ((rising.reshape(-1) + noise) * times).astype(np.uint64)
    words = counts.astype(f"u{size}")
    if one_in:
        words[(numbers >> np.uint64(20)) % np.uint64(one_in) == 0] = int(word, 16)
    return words


def _cells(
    size: int, *, shape: list[int], sides: list[int], words: list[str], one_in: int = 0
) -> Array:
    """Return boxes of these sides, each of one pattern; one value in `one_in` is another one."""
    patterns = np.array([int(word, 16) for word in words], f"u{size}")
    at = np.indices(shape)
    boxes = sum(
        (axis // side) * (3 + i) for i, (axis, side) in enumerate(zip(at, sides, strict=True))
    )
    numbers = _take(1, at[0].size) >> np.uint64(13)
    chosen = np.asarray(boxes).reshape(-1).astype(np.uint64)
    if one_in:
        chosen += np.where(numbers % np.uint64(one_in) == 0, numbers >> np.uint64(20), np.uint64(0))
    return np.asarray(patterns[chosen % np.uint64(patterns.size)])


PIECES: dict[str, Callable[..., Array]] = {
    "walk": _walk,
    "ramp": _ramp,
    "noise": _noise,
    "patterns": _patterns,
    "borders": _borders,
    "slopes": _slopes,
    "hills": _hills,
    "spoilt": _spoilt,
    "counts": _counts,
    "cells": _cells,
}


def named(dtype: str) -> np.dtype[Any]:
    """Return the type of a recipe; NumPy itself has no bfloat16."""
    return np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def make_values(pieces: list[dict[str, Any]], dtype: str) -> Array:
    """Return the values that a list of pieces stands for."""
    values_type = named(dtype)
    size = values_type.itemsize // (2 if values_type.kind == "c" else 1)  # of components
    words = [np.zeros(0, f"u{size}")]
    for piece in pieces:
        arguments = dict(piece)
        words.append(PIECES[arguments.pop("piece")](size, **arguments))
    unsigned = np.dtype(f"u{size}").newbyteorder(values_type.byteorder)
    return np.concatenate(words).astype(unsigned).view(values_type)


# ------------------------------------------------------------------------------------------------
# Frames
# ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recipe:
    """What a frame is made of. The bound and the settings are arguments of the codec's class.

    A chunk without a shape has one dimension. A type of ``u1`` stands for bytes of which the
    encoder is told nothing, and ``uint8`` for those that it knows. The HDF5 filter takes every
    chunk as maybe padded.
    """

    description: str
    codec: str
    dtype: str
    bound: dict[str, Any]
    values: list[dict[str, Any]]
    fill_bits: str | None = None
    checksum: bool = True
    maybe_padded: bool = False
    settings: dict[str, Any] = field(default_factory=dict)
    shape: list[int] | None = None

    def make_values(self) -> Array:
        """Return the values."""
        return make_values(self.values, self.dtype)

    def fill_value(self) -> Any:
        """Return the fill value, or None."""
        if self.fill_bits is None:
            return None
        words = [self.fill_bits] * (2 if named(self.dtype).kind == "c" else 1)
        return make_values([{"piece": "patterns", "words": words}], self.dtype)[0]

    def params(self) -> _native.Params:
        """Return what the library is asked for."""
        codec = CLASSES[self.codec](**self.bound, **self.settings, checksum=self.checksum)
        if self.dtype == "u1":
            return codec.params()
        dtype = named(self.dtype)
        shape = tuple(self.shape or [self.make_values().size])
        params = chunk_params(codec, dtype, shape, self.fill_value())
        return replace(params, maybe_padded=self.maybe_padded)

    def encode(self) -> bytes:
        """Return the frame, made as a user would where there is a function for it."""
        values = self.make_values()
        if self.dtype == "u1" or self.maybe_padded:
            return _native.encode(self.params(), values)
        if self.shape is not None:
            values = values.reshape(self.shape)
        codec = CLASSES[self.codec](**self.bound, **self.settings, checksum=self.checksum)
        return h5lossy.encode(values, codec, fill_value=self.fill_value())

    def case(self) -> bytes:
        """Return what tests/native/golden_frames_come_out.cpp reads."""
        values, frame = self.make_values(), self.encode()
        params = bytes(ffi.buffer(self.params().to_c(ffi.typeof("h5l_params *"))))
        parts = (
            params,
            struct.pack("<Q", values.nbytes),
            values.tobytes(),
            h5lossy.decode(frame).tobytes(),
            frame,
        )
        return b"".join(parts)


@dataclass(frozen=True)
class Golden:
    """A frame of the past, and what is known about it."""

    name: str
    frame: bytes
    recipe: Recipe
    holds: dict[str, Any]

    def __str__(self) -> str:
        return self.name


def contents(frame: bytes) -> dict[str, Any]:
    """Say what a frame holds."""
    info = h5lossy.inspect(frame)
    settings = json.loads(json.dumps(info.settings))  # lists for tuples, as in the files
    own = {"settings": settings, "dims": list(info.dims)}
    return {
        "codec": info.codec,
        **{name: value for name, value in own.items() if value},
        "bound": str(replace(info.bound, floor=0)),
        "dtype": info.dtype.str,
        "count": info.count,
        "tiles": info.tiles,
        "stored_tiles": info.stored_tiles,
        "decoded_sha256": digest(h5lossy.decode(frame)),
    }


def digest(values: Array) -> str:
    """Return the SHA-256 of an array's bytes."""
    return hashlib.sha256(values.tobytes()).hexdigest()


def load(folder: Path = FOLDER) -> list[Golden]:
    """Return all frames of the past."""
    found = []
    for path in sorted(folder.glob("*.json")):
        kept = json.loads(path.read_text(encoding="utf-8"))
        frame = path.with_suffix(".frame").read_bytes()
        found.append(Golden(path.stem, frame, Recipe(**kept["made_of"]), kept["holds"]))
    return found

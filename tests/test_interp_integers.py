# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Interp on integers and halves: the same decoded values as PFPL's, in other, smaller frames."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import h5lossy
from h5lossy import PFPL, Auto, CorruptFrameError, Interp
from reference import frame as reference
from reference import integers, interp
from reference.common import FLOAT_TYPES, Kind
from reference_frames import frame_of_reference
from test_halves import HALVES, all_values
from test_integers import (
    TYPES,
    each_type,
    exact_values,
    images,
    random_jobs,
)
from test_reference_interp import COUNTS, OF_COUNTS, bytes_of, numbers_of

if TYPE_CHECKING:
    from checks import Array


def as_with_pfpl(
    values: Array, decoded: Array, *, is_exact: bool, fill: Any, **bound: Any
) -> Array:
    """Return the values that PFPL decodes to, which Interp's equal."""
    flat = values.reshape(-1)
    # Repeated, so that no tile is stored.
    frame = h5lossy.encode(np.repeat(flat, 32), PFPL(**bound), fill_value=fill)
    assert h5lossy.inspect(frame).stored_tiles == 0
    expected = h5lossy.decode(frame)[::32]
    words = f"u{values.itemsize}"
    same = decoded.view(words) == expected.view(words)
    assert (same | (decoded.view(words) == flat.view(words)) if is_exact else same).all()
    return expected


def has_exact_tiles(frame: bytes) -> bool:
    """Return whether a frame, or a tile of it, is stored."""
    info = h5lossy.inspect(frame)
    return info.stored_tiles > 0 or info.codec == "stored"


def require_values_of_pfpl(values: Array, fill: Any = None, **bound: Any) -> bytes:
    """Return Interp's frame of values that decode as with PFPL, or exactly in stored tiles."""
    frame = h5lossy.encode(values, Interp(**bound), fill_value=fill)
    is_exact = has_exact_tiles(frame)
    expected = as_with_pfpl(values, h5lossy.decode(frame), is_exact=is_exact, fill=fill, **bound)
    again = h5lossy.encode(expected.reshape(values.shape), Interp(**bound), fill_value=fill)
    assert bound.get("range_relative") or h5lossy.decode(again).tobytes() == expected.tobytes()
    return frame


# ------------------------------------------------------------------------------------------------
# Values
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["u1", "i1"])
def test_all_values_of_8_bits_come_back_as_with_pfpl(dtype: str) -> None:
    info = np.iinfo(dtype)
    values = np.tile(np.arange(info.min, info.max + 1).astype(dtype), (16, 1))
    for bound in range(1, 128):
        for fill in exact_values(dtype, bound)[:: 1 if bound < 4 else 3]:
            frame = require_values_of_pfpl(values, fill, absolute=bound)
            info_of_frame = h5lossy.inspect(frame)
            assert (info_of_frame.codec, info_of_frame.stored_tiles) == ("interp", 0)
            assert info_of_frame.step == 2 * bound + 1


@pytest.mark.parametrize("dtype", ["<u2", "<i2"])
def test_all_values_of_16_bits_come_back_as_with_pfpl(dtype: str) -> None:
    info = np.iinfo(dtype)
    ordered = np.arange(info.min, info.max + 1).astype(dtype).reshape(256, 256)
    mixed = np.random.default_rng(0).permutation(ordered.reshape(-1)).reshape(256, 256)
    for bound in (1, 2, 7, 64, 128, 1000, 10923, 16384, 32767):
        for fill in exact_values(dtype, bound)[::3]:
            require_values_of_pfpl(ordered, fill, absolute=bound)
            require_values_of_pfpl(mixed, fill, absolute=bound)
    for noise in (1 / 16, 1.0, 40.5):
        require_values_of_pfpl(ordered, 1000, noise=noise, absolute=2)
    require_values_of_pfpl(mixed, lossless=True)


@pytest.mark.parametrize("name", HALVES)
def test_all_halves_come_back_as_with_pfpl(name: str) -> None:
    values = all_values(HALVES[name])
    for bound in (1e-45, 3.1 * 2.0**-24, 1e-3, 0.5, 7e4):
        for fill in (None, 0.5, -2.0):
            require_values_of_pfpl(values, fill, absolute=bound)
    for bound in (2.0**-8, 0.1, 1 - 2**-53):
        require_values_of_pfpl(values, pointwise_relative=bound)
    require_values_of_pfpl(values, range_relative=0.01)
    require_values_of_pfpl(values, lossless=True)


def jobs(dtype: str, seeds: range) -> list[tuple[Array, Any, int | None]]:
    """Return values, Interp with one of several bounds and axes, and fill values."""
    found = []
    for values, codec, fill in random_jobs(dtype, seeds):
        picked = random.Random(len(found))
        bound: dict[str, Any] = (
            {"lossless": True} if codec.lossless else {"absolute": codec.absolute}
        )
        if not codec.lossless and picked.random() < 0.3:
            bound = {"range_relative": picked.choice([1e-3, 0.1])}
        elif values.itemsize <= 4 and picked.random() < 0.3:
            bound = {"noise": picked.choice([0.5, 3.0])}
        axes = picked.choice(["auto", "auto", -1, (-2, -1), (-4, -3, -1)])
        found.append((values, Interp(**bound, axes=axes), fill))
    return found


@each_type
def test_values_of_every_type_come_back_as_with_pfpl(dtype: str) -> None:
    for values, codec, fill in jobs(dtype, range(60)):
        bound = {kind: v for kind, v in codec.get_config().items() if kind != "axes"}
        require_values_of_pfpl(values, fill, **bound)


@pytest.mark.parametrize("dtype", ["<u8", "<i8", "<u4", "<i4"])
def test_numbers_that_no_float_has_come_back(dtype: str) -> None:
    info = np.iinfo(dtype)
    rng = np.random.default_rng(1)
    for start in (info.min, info.max - 99_999, info.max // 3):
        times = np.array([int(start) + int(x) for x in rng.integers(0, 99_999, 5000)], dtype)
        frame = require_values_of_pfpl(np.sort(times), lossless=True)
        assert len(frame) < times.nbytes / 2
        require_values_of_pfpl(times, int(times[9]), absolute=10)
    ends = np.array([info.min, info.max, 0, 1] * 500, dtype)
    require_values_of_pfpl(rng.permutation(ends), lossless=True)
    require_values_of_pfpl(ends, int(info.max), absolute=3)
    require_values_of_pfpl(rng.integers(info.min, info.max, 3000, dtype), absolute=2**20)


# ------------------------------------------------------------------------------------------------
# Sizes
# ------------------------------------------------------------------------------------------------


def image(dtype: str, sides: int = 256) -> Array:
    """Return an image that is smooth, with some noise."""
    at = np.arange(sides) / sides
    smooth = 100 * np.sin(5 * at)[:, None] * np.cos(7 * at) + 110
    return (smooth + np.random.default_rng(0).normal(0, 1, smooth.shape)).astype(dtype)


@each_type
def test_frames_are_smaller_than_those_of_pfpl(dtype: str) -> None:
    values = image(dtype) if np.dtype(dtype).kind == "u" else image("f8").__sub__(110).astype(dtype)
    for bound in ({"lossless": True}, {"absolute": 2}):
        assert len(require_values_of_pfpl(values, **bound)) < 0.85 * len(
            h5lossy.encode(values, PFPL(**bound))
        )


@pytest.mark.parametrize("bound", [{"absolute": 2}, {"lossless": True}], ids=str)
def test_a_value_that_stands_for_nothing_costs_a_mask(bound: dict[str, Any]) -> None:
    values = image("u2", 512)
    few = values[np.add.outer(np.arange(512), np.arange(512)) < 700]
    without = len(h5lossy.encode(few, Interp(**bound))) / few.size
    values[np.add.outer(np.arange(512), np.arange(512)) >= 700] = 65535
    for fill in (None, 65535):
        frame = require_values_of_pfpl(values, fill, **bound)
        assert len(frame) < 1.1 * without * few.size


def test_constants_take_a_few_bytes() -> None:
    for dtype in TYPES:
        for value in (0, 1, np.iinfo(dtype).max):
            frame = require_values_of_pfpl(np.full((70, 500), value, dtype), absolute=0.5)
            assert len(frame) <= 80 + 4 * 2 + 8 * 2


def test_auto_for_size_takes_the_smaller_frame() -> None:
    picked = set()
    for dtype in TYPES:
        for values, codec, fill in random_jobs(dtype, range(20)):
            bound = {"lossless": True} if codec.lossless else {"absolute": codec.absolute}
            frame = h5lossy.encode(values, Auto(**bound, prefer="size"), fill_value=fill)
            of_each = [
                h5lossy.encode(values, one(**bound), fill_value=fill) for one in (Interp, PFPL)
            ]
            assert frame == min(of_each, key=len)
            picked.add(h5lossy.inspect(frame).codec)
    assert picked >= {"interp", "pfpl"}


# ------------------------------------------------------------------------------------------------
# Bytes
# ------------------------------------------------------------------------------------------------


@each_type
def test_the_library_reads_the_frames_of_the_reference(dtype: str) -> None:
    codecs = set()
    for seed in range(10):
        values, picked = images(dtype, seed), random.Random(seed)
        bound = picked.choice([{"lossless": True}, {"absolute": 3.0}, {"absolute": 1000.0}])
        fill = int(picked.choice(values.reshape(-1))) if seed % 3 else None
        # With forms of a tile that the library may not choose.
        mode = picked.choice([1, 3, 7, 2, 19])
        frame = frame_of_reference(values, Interp(**bound), fill, mode=mode)
        decoded, is_exact = h5lossy.decode(frame), has_exact_tiles(frame)
        as_with_pfpl(values, decoded, is_exact=is_exact, fill=fill, **bound)
        np.testing.assert_array_equal(decoded, reference.decode(frame))
        codecs.add(h5lossy.inspect(frame).codec)
    assert "interp" in codecs


def with_payload(frame: bytes, payload: bytes) -> bytes:
    """Return a frame of one tile with another payload, and right sums."""
    parsed = reference.parse(frame)
    assert len(parsed.tiles) == 1
    return reference.build(reference.dataclasses.replace(parsed, tiles=(payload,)))


@pytest.mark.parametrize("dtype", ["u1", "<i2", "<u4", "<i8"])
@pytest.mark.parametrize(("byte", "bits"), [(0, 4), (0, 12), (2, 0x40), (2, 0x80)])
def test_what_integers_do_not_have_is_refused(dtype: str, byte: int, bits: int) -> None:
    values = image("u1", 64).astype(dtype)
    frame = h5lossy.encode(values, Interp(absolute=2, axes=(-2, -1)))
    [payload] = reference.parse(frame).tiles
    head = bytearray(payload)
    assert head[byte] & bits == 0
    head[byte] |= bits
    for broken in (bytes(head), bytes(head[:8]) + np.array([1.0, 0.0]).tobytes() + bytes(head[8:])):
        with pytest.raises(CorruptFrameError):
            h5lossy.decode(with_payload(frame, broken))


def test_words_beyond_the_type_are_taken_modulo_its_width() -> None:
    values = np.tile(np.arange(40, dtype="u1"), (40, 1))
    frame = h5lossy.encode(values, Interp(lossless=True, axes=-1))
    words = np.arange(250, 330, dtype="<u4").repeat(20)
    payload = interp.encode_tile(
        words, FLOAT_TYPES[4], None, mode=1, inside=np.ones((1, 1, 40, 40))
    )
    broken = with_payload(frame, payload)
    decoded = h5lossy.decode(broken)
    np.testing.assert_array_equal(decoded, words.astype("u1"))
    np.testing.assert_array_equal(decoded, reference.decode(broken))


def test_the_page_has_an_example_that_comes_out() -> None:
    values, payload = numbers_of(COUNTS).astype("<u2"), bytes_of(OF_COUNTS)
    frame = h5lossy.encode(values, Interp(absolute=2, axes=(-2, -1)), fill_value=65535)
    assert reference.parse(frame).tiles == (payload,)
    lattice = integers.Lattice(integers.IntegerType(2, is_signed=False), Kind.ABSOLUTE, 5, (65535,))
    decoded = [lattice.value(lattice.word(int(x))) for x in values.reshape(-1)]
    assert h5lossy.decode(frame).tolist() == decoded

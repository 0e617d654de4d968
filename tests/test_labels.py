# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Interp on labels, and on integers with many exceptions."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import h5lossy
from h5lossy import PFPL, CorruptFrameError, Interp, _native
from reference import frame as reference
from reference import interp
from reference.blocks import Reader
from reference.common import FLOAT_TYPES
from reference.interp_labels import IS_LABELS, IS_SHORT, pack_labels, take_labels, walk
from reference.interp_masks import Writer
from test_integers import each_type, require_damage_is_decoded_alike
from test_interp_integers import with_payload
from test_reference_interp import LABELS, OF_LABELS, bytes_of, numbers_of

if TYPE_CHECKING:
    from checks import Array

SHAPES = [(9000,), (60, 70), (130, 300), (12, 20, 31), (2, 5, 30, 21)]


def cells(dtype: str, shape: tuple[int, ...], seed: int = 0) -> Array:
    """Return cells with unrelated labels, and one value in 500."""
    info, rng = np.iinfo(dtype), np.random.default_rng(seed)
    # Not all numbers are near each other.
    palette = rng.integers(info.min, info.max, 31, np.dtype(dtype).newbyteorder("="), endpoint=True)
    at = np.indices(shape).astype("f8")
    nearest, label = np.full(shape, 900.0), np.zeros(shape, int)
    for number in range(1, 31):
        centre = rng.uniform(0, shape)
        distance = sum(2.0 * (a - c) ** 2 for a, c in zip(at, centre, strict=True))
        label = np.where(distance < nearest, number, label)
        nearest = np.minimum(distance, nearest)
    spots = rng.random(shape) < 1 / 500
    return palette[np.where(spots, rng.integers(0, 31, shape), label)].astype(dtype)


def gaps(dtype: str, shape: tuple[int, ...], share: float, seed: int = 0) -> Array:
    """Return a rough surface that has the type's largest value where there is no data."""
    info, rng = np.iinfo(dtype), np.random.default_rng(seed)
    slopes = [np.sin(5 * axis / n) for axis, n in zip(np.indices(shape), shape, strict=True)]
    values = 60 + 10 * np.sum(slopes, axis=0) + rng.normal(0, 6, shape)
    there = rng.random(shape) >= share
    return np.where(there, values.astype(int).astype(dtype), np.array(info.max, dtype))


def are_labels(frame: bytes) -> list[bool]:
    """Return which tiles of a frame are labels."""
    return [len(tile) > 8 and bool(tile[2] & IS_LABELS) for tile in reference.parse(frame).tiles]


def encode(values: Array, **bound: Any) -> bytes:
    """Return the frame of values, after checking that they come back."""
    frame = h5lossy.encode(values, Interp(**(bound or {"lossless": True})))
    decoded = h5lossy.decode(frame, shape=values.shape)
    if not bound:
        np.testing.assert_array_equal(decoded, values)
    return frame


@each_type
def test_labels_come_back_and_take_few_bytes(dtype: str) -> None:
    for shape in SHAPES:
        frame = encode(cells(dtype, shape))
        assert all(are_labels(frame))
        assert len(frame) < 0.4 * len(h5lossy.encode(cells(dtype, shape), PFPL(lossless=True)))


@each_type
def test_labels_come_back_within_a_bound(dtype: str) -> None:
    values = cells(dtype, (60, 70))
    frame = encode(values, absolute=3)
    assert all(are_labels(frame))
    decoded = h5lossy.decode(frame, shape=values.shape)
    assert (np.abs(decoded.astype(object) - values.astype(object)) <= 3).all()
    again = h5lossy.decode(encode(decoded, absolute=3), shape=values.shape)
    np.testing.assert_array_equal(again, decoded)


def test_tiles_may_have_more_decisions_than_words() -> None:
    """Records of a code and three zeros: each word takes several decisions, which cost little."""
    rng = np.random.default_rng(0)
    values = np.zeros((300, 24, 4), "i1")
    changes = np.cumsum(rng.random((300, 24)) < 0.15).reshape(300, 24)
    values[..., 0] = rng.choice([0, 45, 51, 61, 71, 80, 95], changes.max() + 1)[changes]
    frame = encode(values)
    assert all(are_labels(frame))
    assert len(frame) < values.size / 20


def test_smooth_data_are_no_labels() -> None:
    at = np.arange(256) / 40
    values = (100 + 40 * np.sin(at)[:, None] * np.cos(at)).astype("u1")
    assert not any(are_labels(encode(values)))


@pytest.mark.parametrize("share", [0.02, 0.05, 0.4, 0.8])
@each_type
def test_values_among_gaps_cost_what_they_cost_alone(dtype: str, share: float) -> None:
    values, top = gaps(dtype, (120, 250), share), np.iinfo(dtype).max
    frame = h5lossy.encode(values, Interp(absolute=1), fill_value=top)
    decoded = h5lossy.decode(frame, shape=values.shape)
    np.testing.assert_array_equal(decoded == top, values == top)
    alone = len(encode(values[values != top], absolute=1))
    mask = len(encode((values == top).astype("u1")))
    assert len(frame) < 1.1 * (alone + mask)


@each_type
def test_tiles_of_two_marks_have_no_other_values(dtype: str) -> None:
    info, rng = np.iinfo(dtype), np.random.default_rng(0)
    values = np.array([info.min, info.max], dtype)[rng.integers(0, 2, (70, 90))]
    for codec, fill in (
        (Interp(lossless=True), None),
        (Interp(absolute=2, exact=int(info.min)), info.max),
        (Interp(lossless=True), info.min),
    ):
        if values.itemsize == 8 and codec.exact:
            continue  # which have one exact value
        frame = h5lossy.encode(values, codec, fill_value=fill)
        np.testing.assert_array_equal(h5lossy.decode(frame, shape=values.shape), values)


def jobs(dtype: str) -> list[tuple[Array, Any, int | None]]:
    """Return labels, and values among gaps, with codecs and fill values."""
    axes = [-1, (-2, -1), "auto", (-3, -1), (-4, -1)]
    found: list[tuple[Array, Any, int | None]] = []
    for seed, shape in enumerate(SHAPES):
        codec = Interp(lossless=True, axes=axes[seed])
        found.append((cells(dtype, shape, seed), codec, None))
        for bound in ({"lossless": True}, {"absolute": 2}):
            values = gaps(dtype, shape, [0.05, 0.3][seed % 2], seed)
            fill = int(np.iinfo(dtype).max) if seed % 3 else None
            found.append((values, Interp(**bound, axes=axes[seed]), fill))
    return found


@each_type
def test_damaged_frames_are_refused_or_decoded_alike(decoder: Any, dtype: str) -> None:
    picked = random.Random(dtype)
    for seed, shape in enumerate([(900,), (15, 40), (5, 11, 12)]):
        for values in (cells(dtype, shape, seed), gaps(dtype, shape, 0.3, seed)):
            frame = encode(values)
            if frame[6] != interp.NUMBER:
                continue
            places = [*range(4, 12), *range(20, len(frame))]
            require_damage_is_decoded_alike(decoder, frame, picked, places)


def example() -> tuple[Array, bytes, bytes]:
    """Return the values of the page's example, their frame, and its payload."""
    values, payload = numbers_of(LABELS).astype("<u2"), bytes_of(OF_LABELS)
    frame = h5lossy.encode(values, Interp(lossless=True, axes=(-2, -1)))
    assert reference.parse(frame).tiles == (payload,)
    return values, frame, payload


def test_the_page_has_an_example_that_comes_out() -> None:
    values, frame, payload = example()
    shape, words = (1, 1, *values.shape), values.astype("<u4").reshape(-1)
    np.testing.assert_array_equal(h5lossy.decode(frame, shape=values.shape), values)
    assert pack_labels(words, shape, FLOAT_TYPES[4]) == payload
    np.testing.assert_array_equal(take_labels(Reader(payload), shape, FLOAT_TYPES[4]), words)


@pytest.mark.parametrize(
    ("at", "bits"),
    [(0, 1), (1, 16), (3, 1), (2, 4), (2, 16), (2, 64), (2, 2), (6, 1), (6, 2), (7, 64)],
)
def test_a_payload_that_no_encoder_writes_is_refused(decoder: Any, at: int, bits: int) -> None:
    _, frame, payload = example()
    broken = bytearray(payload)
    broken[at] ^= bits
    damaged = with_payload(frame, bytes(broken))
    with pytest.raises(CorruptFrameError):
        h5lossy.decode(damaged)
    with pytest.raises(decoder.Corrupt):
        decoder.decode(damaged)


def test_what_is_behind_or_missing_is_refused() -> None:
    _, frame, payload = example()
    for broken in (
        payload + b"\0\0",
        payload[:-2],
        payload[:8] + payload[10:],
        payload[:8] + b"\0\0" + payload[8:],
        *(payload[:size] for size in range(6, 24, 2)),
    ):
        with pytest.raises(CorruptFrameError):
            h5lossy.decode(with_payload(frame, broken))


def test_literals_of_an_odd_number_of_bytes_have_a_zero_behind_them() -> None:
    cells = np.array([[0, 9, 0, 0], [0, 0, 200, 0], [0, 0, 0, 77]], "u1")
    frame = encode(np.kron(cells, np.ones((9, 9), "u1")))
    [payload] = reference.parse(frame).tiles
    assert payload[2] & IS_LABELS
    assert payload[6] % 2 == 1
    place = 8 + payload[6]
    assert payload[place] == 0
    with pytest.raises(CorruptFrameError):
        h5lossy.decode(with_payload(frame, payload[:place] + b"\1" + payload[place + 1 :]))


def any_labels(shape: tuple[int, ...], picked: random.Random) -> tuple[bytes, list[int]]:
    """Return labels by decisions and literals that no encoder writes, as payload and as words."""
    writer, literals = Writer(shape), list[int]()

    def decide(context: int, _: bool) -> bool:
        return writer.decide(context, picked.random() < (0.9 if context >= 256 else 0.15))

    def literal(_: int) -> int:
        literals.append(picked.randrange(3, 9))
        return literals[-1]

    words = walk(shape, 0, None, decide, literal)
    data = bytes([0, 0, IS_LABELS | IS_SHORT, 0, 0, 0]) + len(literals).to_bytes(2, "little")
    data += bytes(literals) + bytes(len(literals) % 2)
    return data + writer.data(), words


@pytest.mark.parametrize("shape", [(1, 1, 1, 900), (1, 1, 21, 40), (1, 1, 450, 2), (1, 7, 2, 60)])
def test_literals_may_be_words_that_are_near_or_recent(
    decoder: Any, shape: tuple[int, ...]
) -> None:
    frame = h5lossy.encode(cells("<u2", shape), Interp(lossless=True))
    for seed in range(4):
        payload, words = any_labels(shape, random.Random(seed))
        assert len(payload) != 2 * len(words)
        given = with_payload(frame, payload)
        assert h5lossy.decode(given).tolist() == words
        assert reference.decode(given).tolist() == words
        assert decoder.decode(given) == np.array(words, "<u2").tobytes()


@each_type
def test_there_are_kernels_for_such_frames(dtype: str) -> None:
    batch = _native.DeviceBatch(count=1, raw_bytes=4200 * np.dtype(dtype).itemsize)
    for values in (cells(dtype, (60, 70)), gaps(dtype, (60, 70), 0.3)):
        frame = encode(values, absolute=2)
        assert frame[6] == interp.NUMBER
        info = _native.inspect(frame)
        assert _native.has_kernels(info, decode=True) == 2  # also for frames of several modes
        assert _native.device_decode_workspace(info, batch) > batch.raw_bytes

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Frames of integers and halves: those of the reference, read alike, also damaged ones."""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import h5lossy
import test_exact_values
import test_halves
import test_integers
import test_interp_integers
import test_labels
import test_noise
from h5lossy import PFPL, CorruptFrameError, Interp, UnsupportedError
from reference import frame as reference
from reference_frames import frame_of_reference
from test_decoder import sealed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from checks import Array

    Job = tuple[Array, Any, Any]  # values, codec, fill value

KINDS: dict[str, tuple[Iterable[Any], Callable[[Any], list[Job]]]] = {
    "integers": (test_integers.TYPES, lambda of: test_integers.random_jobs(of, range(20))),
    "noise": (test_noise.TYPES, lambda of: test_noise.jobs(of, range(25))),
    "exact values": (test_integers.TYPES, test_exact_values.jobs),
    "halves": (test_halves.HALVES.values(), lambda of: test_halves.jobs(of, range(15))),
}
"""Types, and what is encoded of each."""


def require_read_alike(decoder: Any, frame: bytes, values: Array, *, most: int) -> None:
    """Have library, reference and, up to so many values, decoder read a frame."""
    decoded = h5lossy.decode(frame)
    assert decoded.dtype == values.dtype
    assert reference.decode(frame).tobytes() == decoded.tobytes()
    if values.size < most:
        assert decoder.decode(frame) == decoded.tobytes()
    middle = values.size // 2
    assert h5lossy.decode(frame, middle).tobytes() == decoded[middle:].tobytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "of"), [(kind, of) for kind, (types, _) in KINDS.items() for of in types], ids=str
)
def test_library_and_reference_write_the_same_frames(decoder: Any, kind: str, of: Any) -> None:
    for values, codec, fill in KINDS[kind][1](of):
        frame = h5lossy.encode(values, codec, fill_value=fill)
        assert frame == frame_of_reference(values, codec, fill), codec
        # The decoder makes all bins of a type.
        most = 0 if kind == "noise" and values.itemsize == 4 else 1 << 20
        require_read_alike(decoder, frame, values, most=most)


@test_integers.each_type
def test_frames_of_interp_are_read_alike(decoder: Any, dtype: str) -> None:
    jobs = [*test_interp_integers.jobs(dtype, range(12)), *test_labels.jobs(dtype)]
    for values, codec, fill in jobs:
        frame = h5lossy.encode(values, codec, fill_value=fill)
        require_read_alike(decoder, frame, values, most=9000)


# ------------------------------------------------------------------------------------------------
# Damage
# ------------------------------------------------------------------------------------------------

DAMAGED: dict[str, tuple[Iterable[Any], Callable[[Any], list[Job]]]] = {
    "integers": (test_integers.TYPES, lambda of: test_integers.random_jobs(of, range(10))),
    "halves": KINDS["halves"],
    "interp": (test_integers.TYPES, lambda of: test_interp_integers.jobs(of, range(12))),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "of"), [(kind, of) for kind, (types, _) in DAMAGED.items() for of in types], ids=str
)
def test_damaged_frames_are_refused_or_decoded_alike(decoder: Any, kind: str, of: Any) -> None:
    picked = random.Random(str(of))
    frames = [h5lossy.encode(v, c, fill_value=f) for v, c, f in DAMAGED[kind][1](of)]
    if kind == "interp":
        frames = [frame for frame in frames if frame[6] == decoder.INTERP]
    frames = [frame for frame in frames if len(frame) < (1200 if kind == "interp" else 1500)]
    assert len(frames) > 3
    for frame in frames:
        # The chunk's size stays as it is: what is tested is the rest. A change of the low bytes of
        # a step of halves only makes the reference compute other bins.
        step = 38 if kind == "halves" else 32
        places = [*range(4, 12), *range(20, 32), *range(step, len(frame))]
        test_integers.require_damage_is_decoded_alike(decoder, frame, picked, places)


FEW, MANY = np.tile(np.arange(200), 20), np.tile(np.arange(99, dtype="u2"), 99)
FRAMES: dict[str, Job] = {
    "integers": (MANY, PFPL(absolute=3), 7),
    "lossless": (MANY, PFPL(lossless=True), None),
    "interp": (MANY, Interp(absolute=3), 7),
    "noise": (MANY, PFPL(noise=1.0), None),
    "halves": (MANY.astype("f2"), PFPL(absolute=3), None),
    "exact u2": (FEW.astype("u2"), PFPL(absolute=2, exact=7), 9),
    "exact u8": (FEW.astype("u8"), PFPL(absolute=2, exact=7), None),
    "exact f2": (FEW.astype("f2"), PFPL(absolute=2, exact=7), 9),
}
FIELDS: dict[str, list[tuple[int, str, Any, type[Exception], str]]] = {
    "integers": [
        (8, "<B", 1, CorruptFrameError, "no pointwise-relative frames"),
        (8, "<B", 4, CorruptFrameError, "a noise bound of 0 / 256 and at least 7 is not allowed"),
        (8, "<B", 5, UnsupportedError, "bound kind 5 of type 0x12 needs a newer"),
        (32, "<Q", 1, CorruptFrameError, "step must be from 2 to 65535, got 1"),
        (32, "<Q", 65537, CorruptFrameError, "step must be from 2 to 65535"),
        (52, "<I", 1, UnsupportedError, "field at byte 52 needs a newer"),
        (56, "<I", 1, UnsupportedError, "field at byte 56 needs a newer"),
        (60, "<I", 3, UnsupportedError, "3 exact values need a newer"),
        (60, "<I", 2, CorruptFrameError, "exact values 0x7 are not those of a frame with 2"),
        (60, "<I", 0, CorruptFrameError, "exact values 0x7 are not those of a frame with 0"),
        (64, "<Q", 65536, CorruptFrameError, "0x10000 are not those of a frame with 1"),
        (72, "<Q", 5 << 32, CorruptFrameError, "a frame with a bound has no base and stride"),
    ],
    "lossless": [
        (32, "<Q", 3, CorruptFrameError, "step must be 0"),
        (64, "<Q", 3, CorruptFrameError, "a lossless frame has no exact values"),
        (72, "<Q", 1 << 32, CorruptFrameError, "base 0 and stride 1 are not those"),
        (72, "<Q", 5 << 32 | 5, CorruptFrameError, "base 5 and stride 5 are not those"),
        (72, "<Q", 65536 << 32, CorruptFrameError, "base 0 and stride 65536 are not those"),
    ],
    "interp": [
        (8, "<B", 1, CorruptFrameError, "no pointwise-relative frames"),
        (9, "<B", 0, UnsupportedError, "mode 0 of interp"),
        (9, "<B", 64, UnsupportedError, "mode 64 of interp"),
        (32, "<Q", 1, CorruptFrameError, "step must be from 2 to 65535, got 1"),
        (52, "<I", 100, CorruptFrameError, "do not hold 9801 values"),
        (56, "<I", 1, UnsupportedError, "field at byte 56 needs a newer"),
        (60, "<I", 3, UnsupportedError, "3 exact values need a newer"),
        (72, "<Q", 5 << 32, CorruptFrameError, "a frame with a bound has no base and stride"),
    ],
    "noise": [
        (32, "<Q", 32769, CorruptFrameError, "a noise bound of 256 / 256 and at least 32769"),
        (56, "<I", 15, CorruptFrameError, "a noise bound of 15 / 256"),
        (56, "<I", 65537, CorruptFrameError, "a noise bound of 65537 / 256"),
        (52, "<I", 1, UnsupportedError, "field at byte 52 needs a newer"),
        (8, "<B", 5, UnsupportedError, "bound kind 5 of type 0x12 needs a newer"),
        (8, "<B", 0, UnsupportedError, "field at byte 56 needs a newer"),
        (72, "<Q", 5 << 32, CorruptFrameError, "a frame with a bound has no base and stride"),
    ],
    "halves": [
        (32, "<d", 0.0, CorruptFrameError, "greater than 0 and finite, got 0"),
        (32, "<d", -1.0, CorruptFrameError, "greater than 0 and finite, got -1"),
        (32, "<d", float("inf"), CorruptFrameError, "greater than 0 and finite, got inf"),
        (32, "<d", float("nan"), CorruptFrameError, "greater than 0 and finite, got nan"),
        (60, "<I", 2, CorruptFrameError, "exact values 0x0 are not those of a frame with 2"),
        (64, "<Q", 7, CorruptFrameError, "exact values 0x7 are not those of a frame with 0"),
        (72, "<Q", 5 << 32, CorruptFrameError, "a frame with a bound has no base and stride"),
        (7, "<B", 0x31, CorruptFrameError, "halves of 1 bytes are not among those allowed: 2"),
        (7, "<B", 0x48, CorruptFrameError, "halves of 8 bytes"),
    ],
    "exact u2": [
        (60, "<I", 3, UnsupportedError, "3 exact values need a newer"),
        (60, "<I", 1, CorruptFrameError, "not those of a frame with 1 of them"),
        (64, "<2I", (9, 7), CorruptFrameError, "with 2 of them"),
        (64, "<2I", (7, 7), CorruptFrameError, "with 2 of them"),
        (64, "<2I", (7, 65536), CorruptFrameError, "with 2 of them"),
    ],
    "exact u8": [(60, "<I", 2, UnsupportedError, "2 exact values need a newer")],
    "exact f2": [(64, "<2I", (7, 0x7C00), CorruptFrameError, "with 2 of them")],
}


@pytest.mark.parametrize(
    ("kind", "at", "form", "value", "error", "message"),
    [(kind, *row) for kind, rows in FIELDS.items() for row in rows],
)
def test_a_field_that_is_out_of_range_is_named(
    decoder: Any, *, kind: str, at: int, form: str, value: Any, error: Any, message: str
) -> None:
    values, codec, fill = FRAMES[kind]
    frame = bytearray(h5lossy.encode(values, codec, fill_value=fill))
    struct.pack_into(form, frame, at, *np.ravel(value).tolist())
    broken = sealed(decoder, bytes(frame))
    with pytest.raises(error, match=message):
        h5lossy.decode(broken)
    with pytest.raises(decoder.Refused):
        decoder.decode(broken)

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Frames of integers and halves are those of the reference; both decoders read them alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import h5lossy
import test_exact_values
import test_halves
import test_integers
import test_interp_integers
import test_labels
import test_noise
from reference import frame as reference
from reference_frames import frame_of_reference

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from checks import Array

    Job = tuple[Array, Any, Any]  # values, codec, fill value

KINDS: dict[str, tuple[Iterable[Any], Callable[[Any], list[Job]]]] = {
    "integers": (test_integers.TYPES, lambda of: test_integers.random_jobs(of, range(20))),
    "noise": (test_noise.TYPES, lambda of: test_noise.jobs(of, range(25))),
    "exact values": (test_integers.TYPES, test_exact_values.jobs),
    "halves": (test_halves.DTYPES.values(), lambda of: test_halves.jobs(of, range(15))),
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

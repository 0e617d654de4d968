# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Frames of big-endian values are those of little-endian ones, except for the bit that tells.

So everything that other tests show for little-endian values is true for big-endian ones.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import h5py
import hypothesis
import numpy as np
from hypothesis import strategies as st

import h5lossy
from checks import assert_same_bits, bits_of, floats_of
from hdf5_helpers import field, frames
from reference import frame as reference
from strategies import in_every_mode, shaped_chunks, special_patterns

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from h5lossy._codecs import Codec


def as_little_endian(frame: bytes) -> bytes:
    """Return a frame of big-endian values as one of little-endian values."""
    parsed = reference.parse(frame)
    assert parsed.big_endian
    return reference.build(dataclasses.replace(parsed, big_endian=False))


@in_every_mode
@hypothesis.given(data=st.data())
def test_frames_differ_in_one_bit(
    setting: Callable[..., Codec], dtype: np.dtype[Any], data: st.DataObject
) -> None:
    chunk = data.draw(shaped_chunks(dtype))
    swapped = floats_of(bits_of(chunk.values), dtype.newbyteorder(">")).reshape(chunk.values.shape)
    codec = setting(**chunk.bound)

    frame = h5lossy.encode(swapped, codec, fill_value=chunk.fill_value)

    little = h5lossy.encode(chunk.values, codec, fill_value=chunk.fill_value)
    assert as_little_endian(frame) == little
    decoded = h5lossy.decode(frame)
    assert decoded.dtype == swapped.dtype
    assert_same_bits(decoded, floats_of(bits_of(h5lossy.decode(little)), swapped.dtype))


def test_a_big_endian_dataset_holds_the_values_of_a_little_endian_one(
    codec: type[Codec], dtype: np.dtype[Any], bound: dict[str, Any], tmp_path: Path
) -> None:
    data = field((50, 70), dtype)
    data[::7] = -999.0
    special = np.array([*special_patterns(dtype.itemsize).values()], f"u{dtype.itemsize}")
    data[3, :20] = floats_of(special[:20], dtype)
    swapped = dtype.newbyteorder(">")
    options = {"chunks": (32, 32), "fillvalue": -999.0, "compression": codec(**bound)}

    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("little", data=data, **options)
        file.create_dataset(
            "big", data=floats_of(bits_of(data), swapped).reshape(50, 70), **options
        )

    with h5py.File(tmp_path / "a.h5") as file:
        little, big = file["little"], file["big"]
        assert big.dtype == swapped
        assert_same_bits(big[...], floats_of(bits_of(little[...]), swapped).reshape(50, 70))
        for place, frame in frames(big).items():
            assert as_little_endian(frame) == frames(little)[place]

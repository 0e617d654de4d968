# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Decoded values do not change again, however often a chunk is read and rewritten."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import h5lossy
from checks import assert_same_bits, bits_of, floats_of
from matrix import DTYPES, FEWER_BINS, assert_stays
from strategies import BIASES, MANTISSA_BITS, in_every_mode, shaped_chunks

if TYPE_CHECKING:
    from collections.abc import Callable

    from h5lossy._codecs import Codec

# A range-relative bound is not here: the range of what was decoded is another one. Resolved, it is
# an absolute bound.
KINDS = ["absolute", "pointwise_relative", "lossless"]


@hypothesis.given(dtype=st.sampled_from(DTYPES), data=st.data())
def test_decoded_values_encode_to_the_same_frame(
    setting: Callable[..., Codec], dtype: str, data: st.DataObject
) -> None:
    chunk = data.draw(shaped_chunks(dtype, KINDS))
    codec = setting(**chunk.bound)
    frame = h5lossy.encode(chunk.values, codec, fill_value=chunk.fill_value)
    assert_stays(frame, codec, chunk.values.shape, chunk.fill_value)


@in_every_mode
@hypothesis.given(dtype=st.sampled_from(DTYPES), data=st.data())
def test_a_resolved_range_relative_bound_is_idempotent(
    setting: Callable[..., Codec], dtype: str, data: st.DataObject
) -> None:
    chunk = data.draw(shaped_chunks(dtype, ["range_relative"]))
    codec = setting(**chunk.bound).resolve(
        chunk.values, fill_value=chunk.fill_value, confirm_range=True
    )
    frame = h5lossy.encode(chunk.values, codec, fill_value=chunk.fill_value)
    assert_stays(frame, codec, chunk.values.shape, chunk.fill_value)


def steps(size: int) -> list[float]:
    """Return bin widths with mantissas near a power of two, and others."""
    ulp = 2.0 ** -MANTISSA_BITS[size]
    near = [1 + k * ulp for k in (0, 1, 2, 3, 5)] + [2 - k * ulp for k in (1, 2, 3, 5)]
    return [*near, 4 / 3, 1.1, 1.7320508, 1.9]


@pytest.mark.slow
@pytest.mark.parametrize("exponent", [0, -40, 90])
def test_every_reconstruction_of_an_absolute_bound_keeps_its_bin(
    codec: type[Codec], dtype: np.dtype[Any], exponent: int
) -> None:
    # Rounding of q * step and back to a bin is at its worst just below the largest bin.
    size = dtype.itemsize
    limit = 2 ** (MANTISSA_BITS[size] - (2 if codec.codec_name in FEWER_BINS else 1))
    rng = np.random.default_rng(5)
    bins = np.concatenate(
        [np.arange(2000), np.arange(limit - 20000, limit), rng.integers(0, limit, 40000)]
    )
    bins[::2] *= -1
    for step in steps(size):
        half = dtype.type(np.ldexp(step, exponent - 1))
        values = bins.astype(dtype) * (2 * (half * dtype.type(codec.step_share)))
        decoded = h5lossy.decode(h5lossy.encode(values, codec(absolute=float(half))))
        assert_same_bits(decoded, values)


@pytest.mark.parametrize("value", [0.5, 1e-2, 1e-3, 3.1e-5, 1.3e-7])
def test_every_reconstruction_of_a_pointwise_relative_bound_keeps_its_bin(
    codec: type[Codec], dtype: np.dtype[Any], value: float
) -> None:
    size = dtype.itemsize
    m = MANTISSA_BITS[size]
    one = BIASES[size] << m
    width = 2 * int(value * 2.0**m) + 1
    reach = min(one // width, 2 ** (m - 2) - 2)
    bins = np.unique(np.linspace(-reach, reach, 50001).astype(np.int64))
    words = (one + bins * width).astype(np.uint64).astype(f"u{size}")
    words = words[words >= 1 << m]
    values = floats_of(words, dtype)
    values = np.concatenate([values, -values])
    decoded = h5lossy.decode(h5lossy.encode(values, codec(pointwise_relative=value)))
    assert_same_bits(decoded, values)


def test_a_thousandth_rewrite_changes_nothing(codec: type[Codec], dtype: np.dtype[Any]) -> None:
    values = (np.sin(np.arange(3000) / 30) * 300).astype(dtype)
    setting = codec(absolute=1e-2)
    first = h5lossy.decode(h5lossy.encode(values, setting))
    decoded = first
    for start in range(1000):
        # What an application changes is one value; all others are read and written again.
        decoded = h5lossy.decode(h5lossy.encode(decoded, setting))
        decoded[start] = first[start]
    assert (bits_of(decoded) == bits_of(first)).all()

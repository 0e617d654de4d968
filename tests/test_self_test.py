# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The sum of the library's self test equals the reference's, and exposes wrong arithmetic.

``native/runtime/self_test.cpp`` encodes values on which rounding, fusing and flushing would show,
and compares one number. Here the same values go through the reference.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from h5lossy import _native
from reference import pfpl
from reference.common import FLOAT_TYPES, FloatType, Kind
from reference.frame import checksum

if TYPE_CHECKING:
    from collections.abc import Iterator

    from checks import Array

SOURCE = Path(__file__).parents[1] / "native" / "runtime" / "self_test.cpp"

COUNT = 1041


def numbers() -> Iterator[int]:
    state = 46412
    while True:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        yield state >> 11


def fractions(source: Iterator[int], float_type: FloatType) -> Array:
    """Return patterns of values from 512 to 2048."""
    m = float_type.mantissa_bits
    low, two_binades = (float_type.bias + 9) << m, (2 << m) - 1
    words = [low + (next(source) & two_binades) for _ in range(COUNT)]
    return np.array(words, float_type.word_dtype)


def halves(source: Iterator[int], float_type: FloatType) -> Array:
    """Return patterns of halves and their neighbours, and of some subnormals."""
    words = []
    for _ in range(COUNT):
        number = next(source)
        half = np.array([(number % 4096 + 1) / 2], float_type.float_dtype)
        word = int(half.view(float_type.word_dtype)[0]) + (number >> 12) % 3 - 1
        if (number >> 16) % 64 == 0:
            word = (number >> 22) % 4096
        if (number >> 15) % 2 == 1:
            word |= 1 << (float_type.word_bits - 1)
        words.append(word)
    number = float_type.number
    border = -np.nextafter(number(0.5), number(0.0))
    words[-1] = int(border.view(float_type.word_dtype))
    return np.array(words, float_type.word_dtype)


def sum_of(
    bits: Array, float_type: FloatType, kind: Kind, bound: float, fill_bits: int | None = None
) -> int:
    """Return the sum over the payload and the decoded values of one tile."""
    quantizer = pfpl.make_quantizer(bits, float_type, kind, bound)
    payload = pfpl.encode_tile(bits, float_type, quantizer, fill_bits)
    assert 0 < len(payload) < bits.nbytes, "the tile would be stored, and test nothing"
    decoded = pfpl.decode_tile(payload, COUNT, float_type, quantizer)
    return checksum([payload, decoded.tobytes()])


def expected_sum() -> int:
    """Return the sum that the self test must find."""
    total = 0
    for float_type, weight in ((FLOAT_TYPES[4], 1), (FLOAT_TYPES[8], 7)):
        source = numbers()
        tile = fractions(source, float_type)
        total += weight * sum_of(tile, float_type, Kind.ABSOLUTE, 1e-3)
        total += weight * 3 * sum_of(tile, float_type, Kind.POINTWISE_RELATIVE, 1e-3)
        tile = halves(source, float_type)
        total += weight * 5 * sum_of(tile, float_type, Kind.ABSOLUTE, 0.5)
        negative_zero = 1 << (float_type.word_bits - 1)
        total += weight * 11 * sum_of(tile, float_type, Kind.ABSOLUTE, 0.5, negative_zero)
    return total % 2**32


def test_the_sum_in_the_source_is_that_of_the_reference() -> None:
    [stated] = re.findall(r"kExpectedSum = (0x[0-9A-F]{8});", SOURCE.read_text(encoding="utf-8"))
    assert int(stated, 16) == expected_sum()


def test_the_library_passes_its_self_test() -> None:
    _native.self_test()
    assert _native.backend_name() is not None


def test_the_values_tell_a_fused_multiply_add() -> None:
    # Whether a value is within its bound, with the product rounded and without. In float64 the
    # product of two float32s is exact.
    x = fractions(numbers(), FLOAT_TYPES[4]).view("<f4")
    step = np.float32(2 * pfpl.narrowed_bound(1e-3, FLOAT_TYPES[4]))
    q = np.rint(x * (1 / step))
    rounded = np.abs(x - q * step) <= step / 2
    fused = np.abs((x.astype("f8") - q.astype("f8") * float(step)).astype("f4")) <= step / 2
    assert np.count_nonzero(rounded != fused) > 5


@pytest.mark.parametrize("float_type", FLOAT_TYPES.values(), ids=["float32", "float64"])
def test_the_values_tell_other_ties_and_flushed_subnormals(float_type: FloatType) -> None:
    source = numbers()
    fractions(source, float_type)
    x = halves(source, float_type).view(float_type.float_dtype)
    ties = np.abs(x) % 1 == 0.5
    assert np.count_nonzero(ties & (np.trunc(x) % 2 == 0)) > 50, "even ones: ties to even differ"
    subnormal = (x != 0) & (np.abs(x) < float_type.smallest_normal)
    assert np.count_nonzero(subnormal) > 5

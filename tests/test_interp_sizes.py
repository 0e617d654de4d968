# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Interp's frames of real fields keep their sizes, so that a change of its rules is noticed.

``python tests/test_interp_sizes.py`` writes the current sizes for the fields in ``H5LOSSY_CORPUS``.
A change that is meant to make frames smaller should come with new sizes.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import h5lossy
from h5lossy import Interp
from matrix import Field, corpus_fields

if TYPE_CHECKING:
    from checks import Array

RECORD = Path(__file__).parent / "interp_sizes.json"

BOUNDS = {"1e-2": 1e-2, "1e-3": 1e-3, "1e-4": 1e-4, "1e-5": 1e-5}
"""Bounds as fractions of the range."""

CHUNK_VALUES = 300_000

TOLERANCE = 0.005

pytestmark = pytest.mark.corpus


def chunk_of(values: Array) -> Array:
    """Return the middle of a field: the longest extent is halved until it is a chunk."""
    while values.size > CHUNK_VALUES:
        axis = int(np.argmax(values.shape))
        n = values.shape[axis]
        values = np.take(values, range(n // 4, n // 4 + (n + 1) // 2), axis)
    return np.ascontiguousarray(values)


def sizes_of(one: Field) -> dict[str, int]:
    """Return the size of a frame for each bound, and without fine points."""
    values, fill_value = one.read()
    chunk = chunk_of(values)
    valid = np.isfinite(chunk)
    if fill_value is not None:
        valid &= chunk != fill_value
    if not valid.any() or chunk.size < 1000:
        return {}
    extent = float(chunk[valid].max()) - float(chunk[valid].min())
    if not extent > 0:
        return {}
    found = {}
    for name, share in BOUNDS.items():
        for rewritable in (False, True):
            codec = Interp(absolute=extent * share, rewritable=rewritable)
            frame = h5lossy.encode(chunk, codec, fill_value=fill_value)
            found[f"{name} rewritable" if rewritable else name] = len(frame)
    return found


def test_sizes_are_as_they_were(corpus_field: Field) -> None:
    record: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
    expected = record.get(str(corpus_field))
    if expected is None:
        pytest.skip("this field is not in the record")
    found = sizes_of(corpus_field)
    assert found.keys() == expected.keys()
    other = {
        name: (size, expected[name])
        for name, size in found.items()
        if abs(size - expected[name]) > TOLERANCE * expected[name]
    }
    assert not other, f"(bytes now, before): {other}"


if __name__ == "__main__":
    fields = corpus_fields(Path(os.environ["H5LOSSY_CORPUS"]))
    text = json.dumps({str(one): sizes for one in fields if (sizes := sizes_of(one))}, indent=1)
    RECORD.write_text(text + "\n", encoding="utf-8")

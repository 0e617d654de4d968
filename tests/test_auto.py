# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Codec auto picks what is small, also where blocks are partly outside of the chunk."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import h5lossy
from matrix import DTYPES
from reference import frame as reference
from strategies import KINDS, shaped_chunks

if TYPE_CHECKING:
    from h5lossy._codecs import Codec
    from matrix import Field

Array = np.ndarray[Any, Any]

# Slices or rows behind the last whole row of blocks: each number of them that there can be.
EDGES = [(5, 48, 48), (6, 48, 48), (7, 48, 48), (13, 48, 48), *((n, 1024) for n in range(9, 16))]

BOUND = 0.1

IN_BLOCKS = [functools.partial(h5lossy.CuSZp2, dimensions=n) for n in (1, 2, 3)]


def candidates(rank: int, bound: float) -> list[Codec]:
    """Return what auto tries for chunks of so many extents other than 1, in its order."""
    in_blocks = [make(absolute=bound) for make in IN_BLOCKS[: max(rank, 1)]]
    return [h5lossy.PFPL(absolute=bound), *in_blocks, h5lossy.AATROX(absolute=bound)]


def make_field(shape: tuple[int, ...], dtype: Any = "<f4") -> Array:
    """Return waves along all axes, and noise."""
    noise = np.random.default_rng(1).standard_normal(shape)
    waves = (50 * np.sin((i + 1.3) * at / (17 + 3 * i)) for i, at in enumerate(np.indices(shape)))
    return np.asarray(sum(waves, 0.2 * noise)).astype(dtype)


def sizes(values: Array) -> list[int]:
    """Return the size of each candidate's frame."""
    return [len(h5lossy.encode(values, codec)) for codec in candidates(values.ndim, BOUND)]


@pytest.mark.parametrize("kind", KINDS)
@hypothesis.given(dtype=st.sampled_from(DTYPES), data=st.data())
def test_a_frame_of_auto_is_one_of_another_codec(
    kind: str, dtype: str, data: st.DataObject
) -> None:
    # So all that is promised of the others is promised of auto.
    chunk = data.draw(shaped_chunks(dtype, [kind]))
    frame, *others = (
        h5lossy.encode(chunk.values, make(**chunk.bound), fill_value=chunk.fill_value)
        for make in (h5lossy.Auto, h5lossy.PFPL, *IN_BLOCKS, h5lossy.AATROX)
    )
    assert frame in others


@pytest.mark.parametrize("dtype", ["<f4", ">f8"])
@pytest.mark.parametrize("shape", EDGES, ids=str)
def test_the_edge_counts(shape: tuple[int, ...], dtype: str) -> None:
    values, codec = make_field(shape, dtype), h5lossy.Auto(absolute=BOUND)
    frame = h5lossy.encode(values, codec)
    found = sizes(values)
    assert len(frame) == min(found)
    # Where only a part of the blocks at the edge is inside, it is what decides: another codec is
    # the best for the whole ones, and here far from it.
    block = 4 if len(shape) == 3 else 8
    if dtype == "<f4" and shape[0] % block < block // 2:
        without_edge = sizes(values[: shape[0] // block * block])
        assert found[int(np.argmin(without_edge))] > 1.15 * min(found)
    decoded = h5lossy.decode(frame, shape=shape)
    assert h5lossy.encode(decoded, codec) == frame


@pytest.mark.parametrize("shape", [(5, 48, 48), (3, 3, 32, 32), (9, 1024), (17, 512)], ids=str)
def test_the_edge_counts_for_the_reference_too(shape: tuple[int, ...]) -> None:
    values = make_field(shape)
    theirs = reference.encode(
        values, h5lossy.BoundKind("absolute").number, BOUND, codec=reference.AUTO, shape=shape
    )
    assert h5lossy.encode(values, h5lossy.Auto(absolute=BOUND)) == theirs


@pytest.mark.corpus
def test_real_fields_cut_anywhere_get_nearly_the_smallest_frame(corpus_field: Field) -> None:
    field, fill_value = corpus_field.read()
    logs = []
    for slices in (1, 2, 3, 5, 6, 7, 9, 11, 14, 17, 21, 30, 39):
        values = field[:slices]
        bound = h5lossy.PFPL(range_relative=1e-3).resolve(field, fill_value).bound.value
        rank = sum(extent != 1 for extent in values.shape)
        best = min(
            len(h5lossy.encode(values, codec, fill_value=fill_value))
            for codec in candidates(rank, bound)
        )
        picked = h5lossy.encode(values, h5lossy.Auto(absolute=bound), fill_value=fill_value)
        logs.append(math.log(len(picked) / best))
    assert math.exp(np.mean(logs)) < 1.03

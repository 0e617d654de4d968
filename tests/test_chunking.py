# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Automatic chunks."""

from __future__ import annotations

import math
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import h5lossy

MIB = 1 << 20
PATTERNS = ["maps", "series", "balanced"]


@pytest.mark.parametrize(
    ("shape", "maps", "series", "balanced"),
    [
        ((365, 721, 1440), (1, 181, 1440), (365, 26, 26), (61, 61, 63)),
        ((512, 512, 512), (1, 512, 512), (512, 22, 22), (64, 64, 64)),
        ((1000, 20, 30), (334, 20, 30), (1000, 10, 15), (334, 20, 30)),
        ((10**7,), (256411,), (256411,), (256411,)),
        ((10**12, 10**12), (1, 262144), (262144, 1), (512, 512)),
        ((0, 721, 1440), (1, 181, 1440), (1024, 16, 16), (64, 61, 63)),
        ((20, 30), (20, 30), (20, 30), (20, 30)),
    ],
)
def test_each_access_pattern_has_its_chunks(
    shape: tuple[int, ...], maps: Any, series: Any, balanced: Any
) -> None:
    found = [h5lossy.chunks_for(shape, "f4", access) for access in PATTERNS]

    assert found == [maps, series, balanced]
    assert h5lossy.chunks_for(shape, np.float32) == maps


@given(
    shape=st.lists(st.integers(0, 10**6), min_size=1, max_size=6).map(tuple),
    itemsize=st.sampled_from([1, 4, 8, 100]),
    access=st.sampled_from(PATTERNS),
    parts=st.integers(1, 1000),
)
def test_chunks_fit_and_fill_a_mebibyte(
    shape: tuple[int, ...], itemsize: int, access: str, parts: int
) -> None:
    dtype = np.dtype(f"V{itemsize}")
    lengths = [n or 1024 for n in shape]
    blocks = [-(-n // parts) for n in shape]

    for found in (
        h5lossy.chunks_for(shape, dtype, access),
        h5lossy.chunks_for(shape, dtype, access, blocks=blocks),
    ):
        assert all(1 <= chunk <= n for chunk, n in zip(found, lengths, strict=True))
        assert math.prod(found) * itemsize <= MIB
    found = h5lossy.chunks_for(shape, dtype, access, blocks=[blocks[0], *lengths[1:]])
    evenly = blocks[0] % found[0] == 0 if shape[0] and blocks[0] < shape[0] else True
    assert evenly or math.prod(h5lossy.chunks_for(shape, dtype, access)) == math.prod(found)


def test_h5py_takes_the_chunks_of_a_dataset_that_grows() -> None:
    shape, most = (0, 5, 0), (None, 5, 3)
    with h5py.File("a", "w", driver="core", backing_store=False) as file:
        for access in PATTERNS:
            chunks = h5lossy.chunks_for(shape, "f8", access, maxshape=most)
            assert chunks == (1024, 5, 3)
            file.create_dataset(access, shape, "f8", maxshape=most, chunks=chunks)
        chunks = h5lossy.chunks_for(0, "f8", maxshape=500)
        assert file.create_dataset("t", 0, "f8", maxshape=500, chunks=chunks).chunks == (500,)


def test_blocks_are_lengths_or_what_dask_has() -> None:
    shape = (100, 128, 256)

    assert h5lossy.chunks_for(shape, "f4", blocks=(10, 128, 256)) == (5, 128, 256)
    assert h5lossy.chunks_for(shape, "f4", blocks=((10,) * 10, (128,), (256,))) == (5, 128, 256)
    assert h5lossy.chunks_for(shape, "f4", blocks=((4, 6, 90), (128,), (256,))) == (2, 128, 256)
    tiny = h5lossy.chunks_for(shape, "f4", blocks=(1, 16, 16))
    assert tiny == h5lossy.chunks_for(shape, "f4")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"shape": ()}, r"at least one axis .* got \(\)"),
        ({"shape": (3, -1)}, r"no negative extent, got \(3, -1\)"),
        (
            {"access": "columns"},
            "access must be one of 'maps', 'series', 'balanced', got",
        ),
        ({"maxshape": (None,)}, r"maxshape must have as many axes as the shape \(3, 4\)"),
        ({"blocks": (1, 2, 3)}, "blocks must have as many axes"),
    ],
)
def test_what_is_wrong_is_said(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(h5lossy.InvalidArgumentError, match=message):
        h5lossy.chunks_for(**{"shape": (3, 4), "dtype": "f4"} | arguments)


def test_extents_are_one_for_each_axis() -> None:
    assert h5lossy.chunks_for(9, "f4", maxshape=np.int8(9)) == h5lossy.chunks_for((9,), "f4")
    for name in ("maxshape", "blocks"):
        for wrong in (3, 2.5, np.array(2), True, [2], (2, 2, 2)):
            with pytest.raises(h5lossy.InvalidArgumentError, match=f"^{name} must have as many "):
                h5lossy.chunks_for((4, 4), "f4", **{name: wrong})


@pytest.mark.parametrize("shape", [2.5, (2, "x"), None])
def test_a_shape_is_of_whole_numbers(shape: Any) -> None:
    with pytest.raises(TypeError, match="shape must be an int or a tuple of ints"):
        h5lossy.chunks_for(shape, "f4")

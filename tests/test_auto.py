# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Codec auto picks small frames, also if blocks are partly outside of the chunk.

For size, it picks the smallest frame of all, unless that would move a value a second time.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import h5py
import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import h5lossy
from matrix import DTYPES
from reference_frames import frame_of_reference
from strategies import KINDS, shaped_chunks

if TYPE_CHECKING:
    from pathlib import Path

    from checks import Array
    from h5lossy._codecs import Codec
    from matrix import Field

# Slices or rows behind the last whole row of blocks: each number of them that there can be.
EDGES = [(5, 48, 48), (6, 48, 48), (7, 48, 48), (13, 48, 48), *((n, 1024) for n in range(9, 16))]

BOUND = 0.1

IN_BLOCKS = [functools.partial(h5lossy.CuSZp2, dimensions=n) for n in (1, 2, 3)]


def candidates(rank: int, bound: float) -> list[Codec]:
    """Return what auto tries, in order, for chunks with this many extents other than 1."""
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
    codec = h5lossy.Auto(absolute=BOUND)
    assert h5lossy.encode(values, codec) == frame_of_reference(values, codec)


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


# ------------------------------------------------------------------------------------------------
# For size
# ------------------------------------------------------------------------------------------------

SIZE_BOUND = 0.125

STEP = 2 * SIZE_BOUND * h5lossy.Interp.step_share
"""All bounds of frames for size; exact in both types."""

FOR_SIZE = h5lossy.Auto(absolute=SIZE_BOUND, prefer="size")


def others_of(values: Array, codec: Codec, fill_value: Any = None) -> list[bytes]:
    """Return the frames that auto for size compares, Interp's first."""
    rank = sum(extent != 1 for extent in values.shape)
    compared = [h5lossy.Interp(absolute=codec.bound.value), *candidates(rank, STEP / 2)]
    return [h5lossy.encode(values, one, fill_value=fill_value) for one in compared]


def far_noise(shape: tuple[int, ...], dtype: Any, seed: int = 2) -> Array:
    """Return values in bins beyond Interp's, so that other codecs have smaller frames."""
    m = 23 if np.dtype(dtype).itemsize == 4 else 52
    noise = np.random.default_rng(seed).standard_normal(shape).cumsum(-1)
    return (2.0 ** (m - 2) * STEP * 1.2 + noise).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(20000,), (1, 30, 500), (9, 40, 50)], ids=str)
def test_for_size_the_frame_is_the_smallest(shape: tuple[int, ...], dtype: str) -> None:
    smooth, noise = make_field(shape, dtype), far_noise(shape, dtype)
    sparse = np.where(np.random.default_rng(3).random(shape) < 0.002, smooth, 0)
    seen = set()
    for values in (smooth, noise, sparse):
        picked = h5lossy.encode(values, FOR_SIZE)
        first, *others = others_of(values, FOR_SIZE)
        info, of_first = h5lossy.inspect(picked), h5lossy.inspect(first)
        if info.codec == of_first.codec:
            assert picked == first
            near_zero = np.abs(values) < 2.0**20 * STEP
            assert near_zero.any() or len(first) <= min(map(len, others))
        else:
            assert len(picked) == min(map(len, others)) < len(first)
            same = others[[len(other) for other in others].index(len(picked))]
            assert h5lossy.inspect(same).codec == info.codec
            assert h5lossy.decode(picked).tobytes() == h5lossy.decode(same).tobytes()
        # Few values beside zeros may have a lattice of their own, and come back as they are.
        is_exact = h5lossy.decode(picked, shape=shape).tobytes() == values.tobytes()
        assert info.bound.value == SIZE_BOUND
        assert is_exact or info.step == STEP
        seen.add(info.codec)
    assert len(seen) > 1


def test_for_size_a_value_that_another_codec_would_move_keeps_interp(
    dtype: np.dtype[Any],
) -> None:
    values = far_noise((40, 500), dtype)
    assert h5lossy.inspect(h5lossy.encode(values, FOR_SIZE)).codec != "interp"
    fine = [1, 15, -7, 2**15 - 1, 2**15 + 2, 4 - 2**16, 2**16 - 2, 2**16 + 4, 2**17 + 8, 2**18 - 8]
    bins_and_others = [16, -160, 0, 2**18 + 8, 2**20 + 1, 2**22 + 1]
    # Further from zero, float32 has fewer fine points.
    odd = [2**15 + 1, -(2**15) - 1, 2**16 - 1, 2**16 + 2, 2**17 - 2, 2**17 + 4, 4 - 2**18]
    for number in (*fine, *bins_and_others, *odd):
        changed = values.copy()
        changed[3, 99] = point = dtype.type(number * STEP / 16)
        is_interp = h5lossy.inspect(h5lossy.encode(changed, FOR_SIZE)).codec == "interp"
        assert is_interp == (
            number in fine or (dtype.itemsize == 8 and number in (*odd, 2**18 + 8))
        )
        # The fill value stays in any case.
        frame = h5lossy.encode(changed, FOR_SIZE, fill_value=point)
        assert h5lossy.inspect(frame).codec != "interp"
        assert h5lossy.decode(frame, shape=changed.shape)[3, 99] == point


@pytest.mark.parametrize("dtype", DTYPES)
def test_interp_takes_a_smaller_frame_where_its_own_saves_little(dtype: str) -> None:
    codec, shape = h5lossy.Interp(absolute=FOR_SIZE.bound.value), (40, 500)
    noise, smooth = far_noise(shape, dtype), make_field(shape, dtype)
    frame = h5lossy.encode(noise, codec)
    assert frame == h5lossy.encode(noise, FOR_SIZE)
    assert h5lossy.inspect(frame).codec != "interp"
    assert len(frame) < 0.7 * noise.nbytes
    decoded = h5lossy.decode(frame, shape=shape)
    assert not h5lossy.largest_error(noise, decoded, codec.bound).problems
    again = h5lossy.encode(decoded, codec)
    assert h5lossy.decode(again, shape=shape).tobytes() == decoded.tobytes()
    assert h5lossy.inspect(h5lossy.encode(smooth, codec)).codec == "interp"
    # A value that only Interp keeps.
    noise[7, 11] = STEP / 16
    assert h5lossy.inspect(h5lossy.encode(noise, codec)).codec in {"interp", "stored"}
    # Less than 1024 bytes.
    tiny = far_noise((100,), dtype)
    assert len(h5lossy.encode(tiny, FOR_SIZE)) < len(h5lossy.encode(tiny, codec))


@pytest.mark.parametrize("seed", range(6))
def test_for_size_nothing_moves_where_the_codec_changes(dtype: np.dtype[Any], seed: int) -> None:
    rng, shape = np.random.default_rng(seed), (12, 30, 40)
    smooth, noise = make_field(shape, dtype), far_noise(shape, dtype, seed)
    now = smooth if seed % 2 else noise
    kept = np.zeros(shape, bool)
    seen = []
    for turn in range(8):
        frame = h5lossy.encode(now, FOR_SIZE)
        decoded = h5lossy.decode(frame, shape=shape)
        seen.append(h5lossy.inspect(frame).codec)
        again = h5lossy.decode(h5lossy.encode(decoded, FOR_SIZE), shape=shape)
        assert again.tobytes() == decoded.tobytes()
        assert decoded[kept].tobytes() == now[kept].tobytes()
        # Mostly overwritten: with what another codec is better for, or with all that is kept.
        now, kept = decoded.copy(), np.zeros(shape, bool)
        kept[rng.integers(12), :, rng.integers(40)] = True
        new = (noise, smooth)[turn % 2]
        now[~kept] = new[~kept]
    assert "interp" in seen


@pytest.mark.parametrize("bound", [{"pointwise_relative": 1e-3}, {"range_relative": 1e-3}])
def test_for_size_other_bounds_have_the_smallest_frame_too(
    bound: dict[str, float], dtype: np.dtype[Any]
) -> None:
    values = make_field((6, 60, 70), dtype) + 300
    codec = h5lossy.Auto(**bound, prefer="size")
    found = len(h5lossy.encode(values, codec))
    compared = [
        make(**bound) for make in (h5lossy.Interp, h5lossy.PFPL, *IN_BLOCKS, h5lossy.AATROX)
    ]
    smallest = min(len(h5lossy.encode(values, one)) for one in compared)
    assert found <= (smallest if "pointwise_relative" in bound else 1.01 * smallest)


def test_for_size_the_filter_writes_the_same_frames(tmp_path: Path) -> None:
    values = np.concatenate([make_field((8, 30, 40)), far_noise((8, 30, 40), "<f4")])
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = file.create_dataset("x", data=values, chunks=(8, 30, 40), **FOR_SIZE)
        assert h5lossy.describe(dataset).config == FOR_SIZE
        frames = [bytes(dataset.id.read_direct_chunk((at, 0, 0))[1]) for at in (0, 8)]
        h5lossy.write(dataset, values)
        assert [bytes(dataset.id.read_direct_chunk((at, 0, 0))[1]) for at in (0, 8)] == frames
    assert frames == [h5lossy.encode(part, FOR_SIZE) for part in (values[:8], values[8:])]
    assert len({h5lossy.inspect(frame).codec for frame in frames}) == 2


@pytest.mark.corpus
def test_for_size_real_fields_get_the_smallest_frame(corpus_field: Field) -> None:
    field, fill_value = corpus_field.read()
    for scale in (1e-2, 1e-3, 1e-4, 1e-5):
        bound = h5lossy.PFPL(range_relative=scale).resolve(field, fill_value).bound.value
        values = field[: max(1, 200000 // max(1, field[0].size))]
        rank = sum(extent != 1 for extent in values.shape)
        compared = [h5lossy.Interp(absolute=bound), *candidates(rank, bound)]
        codec = h5lossy.Auto(absolute=bound, prefer="size")
        picked, *others = (
            len(h5lossy.encode(values, one, fill_value=fill_value)) for one in (codec, *compared)
        )
        assert picked <= 1.01 * min(others)

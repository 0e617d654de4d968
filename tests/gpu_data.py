# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""For the tests on a GPU: fields, values that are hard for codecs, and checks that tests share."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import h5lossy
from h5lossy import _native

FILL = -999.0

SLOW = r"""
extern "C" __global__ void slow(long long cycles) {
  const long long begin = clock64();
  while (clock64() - begin < cycles) {}
}
"""
"""A kernel for `cupy.RawKernel` that takes so many cycles."""

KINDS = ["smooth", "rough", "sparse", "special", "masked", "random_bits", "constant", "offset"]


def make(kind: str, shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray[Any, Any]:
    """Return values of one kind."""
    rng = np.random.default_rng([seed, KINDS.index(kind), *shape])
    count = math.prod(shape)
    dtype = np.dtype(dtype)
    walk = np.cumsum(rng.standard_normal(count)) * 1e-2
    if kind == "smooth":
        values = np.sin(np.arange(count) / 97.0) + walk * 0.01
    elif kind == "rough":
        values = walk * 30
    elif kind == "sparse":
        values = np.where(rng.random(count) < 0.02, rng.standard_normal(count) * 10, 0.0)
    elif kind == "constant":
        values = np.full(count, 2.5)
    elif kind == "offset":
        values = 3e4 + walk
    else:
        values = walk.copy()
    with np.errstate(over="ignore"):
        result = values.astype(dtype)
    tiny = np.finfo(dtype).smallest_subnormal
    specials = np.array(
        [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, tiny, -tiny, np.finfo(dtype).max, 1e30], dtype
    )
    if kind == "special":
        at = rng.random(count) < 0.1
        result[at] = rng.choice(specials, int(at.sum()))
    elif kind == "masked":
        mask = np.sin(np.arange(count) / 700.0) > 0.2
        result[mask] = FILL
        result[rng.random(count) < 0.001] = np.nan
    elif kind == "random_bits":
        result = rng.integers(0, 256, count * dtype.itemsize, np.uint8).view(dtype)
    return result.reshape(shape)


def graded(grade: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """Return a smooth field whose closed tiles have this grade, 0 to 3, with a bound of 0.5."""
    rng = np.random.default_rng([grade, *shape])
    wave = np.ones(shape)
    for axis, extent in enumerate(shape):
        along = np.sin(np.arange(extent) / (9 + 2 * axis))
        wave *= along.reshape([-1 if a == axis else 1 for a in range(len(shape))])
    return (0.6 * 2 ** (11 + grade) + 40 * wave + rng.random(shape)).astype(dtype)


def check_damage(frame: bytes, rng: np.random.Generator) -> None:
    """Check that a GPU decodes 60 damaged copies of a frame, or raises, as the host does."""
    cupy = pytest.importorskip("cupy")
    for i in range(60):
        broken = np.frombuffer(frame, np.uint8).copy()
        first = 0 if i % 3 == 0 else h5lossy.inspect(frame).header_bytes
        for _ in range(1 + i % 3):
            broken[rng.integers(first, len(broken))] ^= np.uint8(1 << rng.integers(8))
        if i % 5 == 4:
            broken = broken[: rng.integers(len(broken))]
        on_gpu = cupy.asarray(broken)
        try:
            expected = h5lossy.decode(broken.tobytes())
        except h5lossy.H5LossyError as error:
            with pytest.raises(type(error)):
                h5lossy.decode(on_gpu)
        else:
            assert h5lossy.decode(on_gpu).get().tobytes() == expected.tobytes()


def check_read(dataset: Any) -> None:
    """Check that a GPU decodes a dataset, and a part of it, without the host."""
    expected = dataset[...]
    part = np.s_[5:40, 33:35, 7:77]
    before = _native.counts()
    found = h5lossy.read(dataset, out="cupy"), h5lossy.read(dataset, part, out="cupy")
    assert _native.counts() == before, "some were decoded on the host"
    assert found[0].get().tobytes() == expected.tobytes()
    assert found[1].get().tobytes() == expected[part].tobytes()

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Values for the tests on a GPU: fields, and values that are hard for codecs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

FILL = -999.0

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

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""A little of everything on the GPU, small enough for compute-sanitizer."""

from __future__ import annotations

import contextlib
import itertools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cupy
import h5py
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import gpu_data as data
import h5lossy
from matrix import SETTINGS

if TYPE_CHECKING:
    from h5lossy.codecs import Codec

SHAPES: list[tuple[int, ...]] = [(5,), (9001,), (40, 50), (9, 21, 33)]


BOUNDS: list[dict[str, float]] = [
    {"absolute": 1e-3},
    {"pointwise_relative": 1e-3},
    {"range_relative": 1e-3},
]
KINDS = ["rough", "special", "masked", "random_bits"]

QUICK_STEP = 11  # has no factor in common with the numbers above


def frames(codec: Codec, values: np.ndarray[Any, Any], rng: np.random.Generator) -> None:
    """Encode, decode a part, and decode damage."""
    frame = h5lossy.encode(cupy.asarray(values), codec)
    assert frame.get().tobytes() == h5lossy.encode(values, codec)
    h5lossy.decode(frame, values.size // 3)
    broken = frame.copy()
    broken[int(rng.integers(len(broken)))] ^= 0x10
    with contextlib.suppress(h5lossy.H5LossyError):
        h5lossy.decode(broken)


def datasets(codec: Codec, values: np.ndarray[Any, Any]) -> None:
    """Write and read a dataset, and a part of it."""
    with h5py.File("sanitize", "w", driver="core", backing_store=False) as file:
        chunks = tuple(-(-extent // 3) for extent in values.shape)
        dataset = file.create_dataset(
            "a", values.shape, values.dtype, chunks=chunks, compression=codec
        )
        h5lossy.write(dataset, cupy.asarray(values))
        decoded = h5lossy.read(dataset, out="cupy").get()
        assert decoded.tobytes() == dataset[...].tobytes()
        part = h5lossy.read(dataset, np.s_[1:], out="cupy").get()
        assert part.tobytes() == decoded[1:].tobytes()


def main() -> None:
    """Go through every mode, or through some cases of every mode."""
    quick = sys.argv[1:] == ["--quick"]
    rng = np.random.default_rng(0)
    cases = itertools.product(SETTINGS.values(), BOUNDS, ("f4", "f8"), SHAPES, KINDS)
    for i, (cls, bound, dtype, shape, kind) in enumerate(cases):
        if quick and i % QUICK_STEP:
            continue
        values = data.make(kind, shape, dtype)
        frames(cls(**bound), values, rng)
        if kind == "masked":
            datasets(cls(**bound), values)
    print("done")


if __name__ == "__main__":
    main()

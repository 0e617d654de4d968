# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""A little of everything on the GPU, small enough for compute-sanitizer."""

from __future__ import annotations

import sys
from pathlib import Path

import cupy
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import gpu_data as data
import h5lossy
from matrix import SETTINGS

SHAPES: list[tuple[int, ...]] = [(5,), (9001,), (40, 50), (9, 21, 33)]


def main() -> None:
    """Encode, decode, decode a part, and decode damage, in every mode."""
    rng = np.random.default_rng(0)
    for cls in SETTINGS.values():
        for bound in ({"absolute": 1e-3}, {"pointwise_relative": 1e-3}, {"range_relative": 1e-3}):
            for dtype in ("f4", "f8"):
                for shape in SHAPES:
                    for kind in ("rough", "special", "masked", "random_bits"):
                        values = data.make(kind, shape, dtype)
                        frame = h5lossy.encode(cupy.asarray(values), cls(**bound))
                        assert frame.get().tobytes() == h5lossy.encode(values, cls(**bound))
                        h5lossy.decode(frame, values.size // 3)
                        broken = frame.copy()
                        broken[int(rng.integers(len(broken)))] ^= 0x10
                        try:
                            h5lossy.decode(broken)
                        except h5lossy.H5LossyError:
                            continue
    print("done")


if __name__ == "__main__":
    main()

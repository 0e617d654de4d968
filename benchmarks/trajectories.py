# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Compress a trajectory with several orders of its axes, and several numbers of frames per chunk.

    H5LOSSY_CORPUS=... python benchmarks/trajectories.py

Every codec gets the same chunks; best SZ3 is the smallest of hdf5plugin's and of pysz's, for each
bound and layout. Results go to results/trajectories.json.
"""

from __future__ import annotations

from typing import Any

import _sz3
import numpy as np
from _common import BEST_SZ3, SZ3_FILTER, add_best_sz3, real_fields, save
from demonstrations import largest_error, store

NAME = "molecular/freud_positions"
SCALES = (1e-2, 1e-3, 1e-4, 1e-5)
FRAMES = (1, 10, 100, 500)
LAYOUTS = {"frame, particle, xyz": (0, 1, 2), "particle, xyz, frame": (1, 2, 0)}
NAMES = ("Interp", "PFPL", SZ3_FILTER, *_sz3.ALGORITHMS)


def main() -> None:
    """Measure all, write results/trajectories.json."""
    [values] = [values for name, values, _ in real_fields() if name == NAME]
    rows: list[dict[str, Any]] = []
    for layout, axes in LAYOUTS.items():
        data = np.ascontiguousarray(values.transpose(axes))
        for frames in FRAMES:
            chunk = tuple(frames if axis == 0 else values.shape[axis] for axis in axes)
            for scale in SCALES:
                bound = scale * float(np.ptp(data))
                codecs: dict[str, dict[str, Any]] = {}
                for name in NAMES:
                    stored = store(name, data, chunk, bound)
                    error = largest_error(data, stored.values, bound)
                    codecs[name] = {"ratio": data.nbytes / stored.bytes, "error": error}
                add_best_sz3(codecs)
                rows.append({"layout": layout, "frames": frames, "scale": scale, "codecs": codecs})
                print(layout, frames, scale, *(f"{n} {c['ratio']:.2f}" for n, c in codecs.items()))
    save("trajectories", {"field": NAME, "shape": values.shape, "best": BEST_SZ3, "rows": rows})


if __name__ == "__main__":
    main()

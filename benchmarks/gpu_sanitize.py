# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Some cases of everything on the GPU, small enough for compute-sanitizer.

For initcheck: ``gpu_sanitize.py --uploaded``. initcheck only knows memory that was written by a
copy or by a kernel that it watches, and it watches ours; so everything that our kernels read is
then copied from the host, into memory that has not been used before.
"""

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
    from h5lossy._codecs import Codec

SHAPES: list[tuple[int, ...]] = [(5,), (9001,), (40, 50), (9, 21, 33)]


BOUNDS: list[dict[str, float]] = [
    {"absolute": 1e-3},
    {"pointwise_relative": 1e-3},
    {"range_relative": 1e-3},
]
KINDS = ["rough", "special", "masked", "random_bits"]

QUICK_STEP = 11  # coprime to the numbers above


def uploaded_frames(codec: Codec, values: np.ndarray[Any, Any]) -> None:
    """Encode, and decode the whole and a part of what the host encoded."""
    frame = h5lossy.encode(values, codec)
    assert h5lossy.encode(cupy.asarray(values), codec).get().tobytes() == frame
    there = cupy.asarray(np.frombuffer(frame, np.uint8))
    decoded = h5lossy.decode(there).get()
    assert decoded.tobytes() == h5lossy.decode(frame).tobytes()
    h5lossy.decode(there, values.size // 3)


def assessment(values: np.ndarray[Any, Any], rng: np.random.Generator, *, masked: bool) -> None:
    """Assess, with all that a GPU computes."""
    with np.errstate(all="ignore"):
        decoded = values + np.asarray(1e-3 * rng.standard_normal(values.shape), values.dtype)
    mask = rng.random(values.shape) < 0.1 if masked else None
    reports = [
        h5lossy.assess(x, y, absolute=1e-3, mask=mask, fill_value=data.FILL).to_dict()
        for x, y in ((values, decoded), (cupy.asarray(values), cupy.asarray(decoded)))
    ]
    for report in reports:
        del report["provenance"]
    assert repr(reports[0]) == repr(reports[1])


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
    uploaded = "--uploaded" in sys.argv[1:]
    quick = uploaded or "--quick" in sys.argv[1:]
    rng = np.random.default_rng(0)
    if uploaded:
        cupy.cuda.set_allocator(None)
    for dtype, shape, kind in itertools.product(("f4", "f8"), SHAPES, KINDS[:3]):
        assessment(data.make(kind, shape, dtype), rng, masked=kind == "masked")
    cases = itertools.product(SETTINGS.values(), BOUNDS, ("f4", "f8"), SHAPES, KINDS)
    for i, (cls, bound, dtype, shape, kind) in enumerate(cases):
        if quick and i % QUICK_STEP:
            continue
        values = data.make(kind, shape, dtype)
        if uploaded:
            uploaded_frames(cls(**bound), values)
            continue
        frames(cls(**bound), values, rng)
        if kind == "masked":
            datasets(cls(**bound), values)
    print("done")


if __name__ == "__main__":
    main()

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""
How close auto for size comes to the smallest frames of all codecs, and how long it takes.

    H5LOSSY_CORPUS=... python benchmarks/auto_size.py

Sizes: of each real field, as float32 and as float64, up to four chunks each of about 64 KiB and 256
KiB, and two of 1 MiB (whole slices). A case is the sum over a field's chunks of one size with one
bound; it is compared with the smallest such sum of any codec in any mode, including auto for speed.
Times: for a chunk of 1 MiB of each field, CPU time of one thread.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from _common import cpu_time, geometric_mean, real_fields
from auto import pieces
from rich.console import Console
from rich.table import Table

import h5lossy

CHUNKS = {64 << 10: 4, 256 << 10: 4, 1 << 20: 2}
BOUNDS = [
    *(("absolute", 10.0**-n) for n in range(2, 8)),
    *(("pointwise_relative", 10.0**-n) for n in range(2, 7)),
    ("range_relative", 1e-3),
    ("range_relative", 1e-5),
]
CODECS = {
    "PFPL": h5lossy.PFPL,
    "AATROX": h5lossy.AATROX,
    "Interp": h5lossy.Interp,
    "auto": h5lossy.Auto,
    **{
        f"cuSZp2-{mode} {n}-D": partial(h5lossy.CuSZp2, mode=mode, dimensions=n)
        for mode in ("plain", "outlier", "fixed")
        for n in (1, 2, 3)
    },
}
FOR_SIZE = partial(h5lossy.Auto, prefer="size")


def main() -> None:
    """Measure and print."""
    excess: dict[tuple[str, float], list[tuple[float, str]]] = {one: [] for one in BOUNDS}
    speeds: list[float] = []
    for name, original, fill_value in real_fields():
        for dtype in ("f4", "f8"):
            field = original.astype(dtype)
            fill = None if fill_value is None else field.dtype.type(fill_value)
            for size, most in CHUNKS.items():
                cut = list(pieces(field, size))
                chunks = [cut[int((i + 0.5) * len(cut) / most)] for i in range(most)]
                for kind, value in BOUNDS:
                    bound = {kind: value}
                    if kind == "absolute":
                        bound = {kind: _absolute(field, value, fill)}
                    ours, *theirs = (
                        sum(len(h5lossy.encode(c, make(**bound), fill_value=fill)) for c in chunks)
                        for make in (FOR_SIZE, *CODECS.values())
                    )
                    case = f"{name} {dtype} {size >> 10} KiB {list(CODECS)[int(np.argmin(theirs))]}"
                    excess[kind, value].append((ours / min(theirs), case))
        chunk, bound = chunks[0], {"absolute": _absolute(field, 1e-3, fill)}
        alone, together = (
            cpu_time(partial(h5lossy.encode, chunk, make(**bound), fill_value=fill), runs=9).median
            for make in (h5lossy.Interp, FOR_SIZE)
        )
        speeds.append(alone / together)

    console = Console(width=120)
    table = Table("bound", "cases", "worst", "above 1.01", title="auto for size / smallest")
    for (kind, value), found in excess.items():
        above = sum(one > 1.01 for one, _ in found)
        table.add_row(f"{kind} {value:g}", str(len(found)), f"{max(found)[0]:.4f}", str(above))
    console.print(table)
    every = [(*one, *bound) for bound, found in excess.items() for one in found]
    for one in sorted(every, reverse=True)[:12]:
        console.print(*one)
    console.print(
        f"speed, Interp 1: {geometric_mean(speeds):.3f}, {min(speeds):.3f} to {max(speeds):.3f}"
    )


def _absolute(field: np.ndarray, share: float, fill_value: float | None) -> float:
    return h5lossy.PFPL(range_relative=share).resolve(field, fill_value).bound.value


if __name__ == "__main__":
    main()

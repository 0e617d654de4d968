# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""
How close auto comes to the smallest frame of all of its candidates.

    H5LOSSY_CORPUS=... python benchmarks/auto.py

Each real field is cut to 1 to 40 slices of its slowest axis (in one dimension: to parts of it),
from its beginning and from its middle. Each cut is one chunk, and is also cut into chunks of about
1 MiB, of 256 KiB and of 64 KiB (whole slices, as in benchmarks/fields.py). The bounds are absolute:
1e-2 to 1e-5 of the range of the field's valid values. 1 is the best possible result.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from _common import real_fields
from rich.console import Console
from rich.table import Table

import h5lossy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h5lossy._codecs import Codec

SLICES = (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 13, 15, 17, 20, 22, 25, 27, 30, 33, 37, 40)
SCALES = (1e-2, 1e-3, 1e-4, 1e-5)
CHUNK_BYTES = (1 << 62, 1 << 20, 1 << 18, 1 << 16)


class Result(NamedTuple):
    """The size of auto's frames for a chunk, as a fraction of the smallest frames."""

    ratio: float
    field: str
    scale: float
    shape: tuple[int, ...]
    chunk_bytes: int


def candidates(rank: int, bound: float) -> list[Codec]:
    """Give auto's candidates for chunks with this many extents other than 1."""
    in_blocks = [
        h5lossy.CuSZp2(absolute=bound, dimensions=n) for n in range(1, min(3, max(rank, 1)) + 1)
    ]
    return [h5lossy.PFPL(absolute=bound), *in_blocks, h5lossy.AATROX(absolute=bound)]


def cuts(field: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the field's beginning and its middle, of several lengths."""
    slices = 1 if field.ndim > 1 else field.size // 41
    middle = len(field) // 2
    for count in SLICES:
        if count * slices <= len(field):
            yield field[: count * slices]
        if count * slices <= len(field) - middle:
            yield field[middle : middle + count * slices]


def pieces(cut: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Yield chunks of whole slices of the slowest axes; the last one may have fewer."""
    while cut.ndim > 1 and cut[0].nbytes > size:
        cut = cut.reshape(-1, *cut.shape[2:])
    step = max(1, size // cut[0].nbytes)
    for start in range(0, len(cut), step):
        yield cut[start : start + step]


def measure(chunk: np.ndarray, bound: float, fill_value: float | None) -> float:
    """Compare auto's frame with the smallest one."""
    rank = sum(extent != 1 for extent in chunk.shape)
    auto, *others = (
        len(h5lossy.encode(chunk, codec, fill_value=fill_value))
        for codec in [h5lossy.Auto(absolute=bound), *candidates(rank, bound)]
    )
    return auto / min(others)


def main() -> None:
    """Measure, and print how far off auto is, how often, and where most."""
    found: list[Result] = []
    for name, field, fill_value in real_fields():
        for scale in SCALES:
            bound = h5lossy.PFPL(range_relative=scale).resolve(field, fill_value).bound.value
            for size in CHUNK_BYTES:
                seen = set()
                for cut in cuts(field):
                    if size < 1 << 62 and cut.nbytes <= size:
                        continue  # was already one chunk
                    for chunk in pieces(cut, size):
                        place = chunk.__array_interface__["data"][0], chunk.shape
                        if place not in seen:
                            seen.add(place)
                            ratio = measure(chunk, bound, fill_value)
                            found.append(Result(ratio, name, scale, chunk.shape, size))

    console = Console(width=120)
    table = Table("chunks", "of them", "geometric mean", "worst", "above 1.03", title="auto / best")
    for size in CHUNK_BYTES:
        ratios = [result.ratio for result in found if result.chunk_bytes == size]
        table.add_row(
            "one each" if size == 1 << 62 else f"{size >> 10} KiB",
            str(len(ratios)),
            f"{math.exp(np.mean(np.log(ratios))):.5f}",
            f"{max(ratios):.3f}",
            str(sum(ratio > 1.03 for ratio in ratios)),
        )
    console.print(table)
    for result in sorted(found, reverse=True)[:20]:
        console.print(f"{result.ratio:.3f} {result.field} {result.scale:g} {result.shape}")


if __name__ == "__main__":
    main()

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Time to decode a range of values from the middle of a frame, against the length of the range.

    H5LOSSY_CORPUS=... python benchmarks/random_access.py

The field is the turbulence vorticity of the corpus, repeated to 16 MiB of float32 in one frame,
1e-3 of its range. Only tiles that hold a requested value are decoded, so short ranges cost one
tile: 4096 values for PFPL and cuSZp2, 32768 for AATROX; blocks of three dimensions scatter the
values of a tile, so all tiles that a range crosses are decoded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _common import FIELD, cpu_time, field_for_speed, save
from rich.console import Console
from rich.table import Table

import h5lossy

FRAME_VALUES = 1 << 22
LENGTHS = [1 << n for n in range(0, 23, 2)]


def main() -> None:
    """Measure, print a table, write results/random_access.json."""
    field = field_for_speed()
    bound = 1e-3 * (float(field.max()) - float(field.min()))
    data = np.resize(field, FRAME_VALUES).reshape(-1, *field.shape[-2:])
    codecs = [
        h5lossy.PFPL(absolute=bound),
        h5lossy.CuSZp2(absolute=bound),
        h5lossy.CuSZp2(absolute=bound, dimensions=3),
        h5lossy.AATROX(absolute=bound),
    ]
    rows: list[dict[str, Any]] = []
    for codec in codecs:
        frame = h5lossy.encode(data, codec)
        whole = h5lossy.decode(frame)
        for length in LENGTHS:
            start = (FRAME_VALUES - length) // 2
            stop = start + length
            if not np.array_equal(h5lossy.decode(frame, start, stop), whole[start:stop]):
                raise SystemExit(f"{codec}: a range is not the slice of the whole")
            timing = cpu_time(
                lambda frame=frame, start=start, stop=stop: h5lossy.decode(frame, start, stop)
            )
            rows.append(
                {"codec": repr(codec), "values": length, "microseconds": 1e6 * timing.median}
            )

    table = Table(title=f"{FIELD}, frame of 16 MiB, microseconds of CPU time, median of 15")
    table.add_column("values", justify="right")
    for codec in codecs:
        table.add_column(repr(codec).replace("absolute=" + repr(bound), "…"), justify="right")
    for i, length in enumerate(LENGTHS):
        table.add_row(
            str(length), *(f"{row['microseconds']:.1f}" for row in rows[i :: len(LENGTHS)])
        )
    Console(width=120).print(table)
    save("random_access", {"field": FIELD, "frame_values": FRAME_VALUES, "rows": rows})


if __name__ == "__main__":
    main()

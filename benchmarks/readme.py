# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Write README's table of results from results/*.json, so that no number in it is typed.

    python benchmarks/readme.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from _common import load

README = Path(__file__).parent.parent / "README.md"
BEGIN, END = "<!-- results: written by benchmarks/readme.py -->", "<!-- results end -->"

SPEEDS = {
    "PFPL": "PFPL(absolute={bound})",
    "cuSZp2-P": "CuSZp2(absolute={bound}, mode='plain')",
    "cuSZp2-O": "CuSZp2(absolute={bound})",
    "cuSZp2-O 3-D": "CuSZp2(absolute={bound}, dimensions=3)",
    "AATROX": "Aatrox(absolute={bound})",
    "auto": "Auto(absolute={bound})",
}
"""The setting in throughput.json whose speed stands beside a codec of fields.json."""

SPEED_BOUND = 2
"""Which of the absolute bounds of throughput.json: the third, 1e-3 of the range."""


def speed_cells(name: str, speed: dict[str, Any]) -> list[str]:
    """Give both speeds of a codec, float32."""
    if name not in SPEEDS:
        return ["", ""]
    rows = [row for row in speed["rows"] if row["dtype"] == "float32"]
    bound = rows[SPEED_BOUND]["bound"].removeprefix("absolute ")
    [row] = [row for row in rows if row["setting"] == SPEEDS[name].format(bound=bound)]
    copy = speed["memcpy"]["gb_per_s"]
    return [
        f"{row[way]['gb_per_s']:.2f} GB/s ({row[way]['gb_per_s'] / copy:.2f} ×)"
        for way in ("compress", "decompress")
    ]


def results() -> str:
    """Give the table and the conditions under it."""
    fields, speed = load("fields"), load("throughput")
    means = fields["geometric_mean"]
    scales = list(means)
    names = list(fields["rows"][0]["bounds"][0]["codecs"])
    lines = [
        (
            f"| | ratio at {scales[0]} of the range | {' | '.join(scales[1:])} | "
            "compress, one thread | decompress |"
        ),
        "|" + "---|" * (len(scales) + 3),
    ]
    for name in names:
        ratios = [f"{means[scale][name]:.2f}" if name in means[scale] else "—" for scale in scales]
        lines.append(f"| {' | '.join([name, *ratios, *speed_cells(name, speed)])} |")

    ours = [name for name in names if name in SPEEDS or name == "cuSZp2-O 2-D"]
    worst = max(
        bound["codecs"][name]["error_fraction"]
        for row in fields["rows"]
        for bound in row["bounds"]
        for name in ours
    )
    count, core = len(fields["rows"]), sum(row["core"] for row in fields["rows"])
    broken = {
        name: sum(
            bool(bound["codecs"][name].get("broken") or bound["codecs"][name].get("failed"))
            for row in fields["rows"]
            for bound in row["bounds"]
        )
        for name in names
        if name not in ours
    }
    machine = speed["machine"]
    conditions = (
        f"Ratio: geometric mean over {core} core fields of a corpus of {count} real ones, absolute "
        "bound, chunks of about 1 MiB, through HDF5; every value of every field judged. Largest "
        f"error of any h5lossy codec: {worst:.6f} of the bound. Of {count * len(scales)} cases, "
        + ", ".join(
            f"{name} broke the bound, lost NaNs or failed in {n}" for name, n in broken.items()
        )
        + f" (—: no mean). gzip behind a shuffle, lossless: {fields['gzip_geometric_mean']:.2f} "
        "(`benchmarks/results/fields.json`). "
        f"Speed: {speed['field']}, float32, 1e-3 of the range, 1 MiB chunk, CPU time, median of "
        f"15; × is the ratio to a streaming memcpy ({speed['memcpy']['gb_per_s']:.1f} GB/s in the "
        f"same run); {machine['backend']} backend, {machine['build']}, {machine['cpu']}, shared "
        "(`benchmarks/results/throughput.json`, with float64 and other bounds)."
    )
    return "\n".join([*lines, "", conditions])


def main() -> None:
    """Replace what stands between the marks."""
    text = README.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    if not rest or not after:
        raise SystemExit(f"README.md has no {BEGIN!r} and {END!r}")
    README.write_text(f"{before}{BEGIN}\n{results()}\n{END}{after}")


if __name__ == "__main__":
    main()

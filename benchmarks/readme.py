# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Write README's table of results from results/*.json, so that no number in it is typed.

    python benchmarks/readme.py
"""

from __future__ import annotations

from pathlib import Path

from _common import load

README = Path(__file__).parent.parent / "README.md"
BEGIN, END = "<!-- results: written by benchmarks/readme.py -->", "<!-- results end -->"


def results() -> str:
    """Give the table and the conditions under it."""
    fields, speed = load("fields"), load("throughput")
    rows = [row for row in speed["rows"] if row["bound"].startswith("absolute")]
    copy = speed["memcpy"]["gb_per_s"]
    lines = [
        "| PFPL, absolute bound | 1e-2 of the range | 1e-3 | 1e-4 |",
        "|---|---|---|---|",
        "| ratio, geometric mean over the core fields | "
        + " | ".join(f"{mean:.2f}" for mean in fields["geometric_mean"].values())
        + " |",
    ]
    worst = [
        max(row["pfpl"][i]["error_fraction"] for row in fields["rows"])
        for i in range(len(fields["geometric_mean"]))
    ]
    lines.append(
        "| largest error of any value, as a fraction of the bound | "
        + " | ".join(f"{error:.6f}" for error in worst)
        + " |"
    )
    for dtype in ("float32", "float64"):
        for direction in ("compress", "decompress"):
            speeds = [row[direction]["gb_per_s"] for row in rows if row["dtype"] == dtype][1:]
            cells = " | ".join(f"{s:.2f} GB/s ({s / copy:.2f} ×)" for s in speeds)
            lines.append(f"| {direction}, {dtype}, one thread | {cells} |")
    count, core = len(fields["rows"]), sum(row["core"] for row in fields["rows"])
    machine = speed["machine"]
    conditions = (
        f"Ratio and error: {count} real fields ({core} of them core), chunks of 1 MiB, every value "
        f"judged; gzip behind a shuffle gives {fields['gzip_geometric_mean']:.2f} on the core "
        "fields, lossless (`benchmarks/results/fields.json`). "
        f"Speed: {speed['field']}, 1 MiB chunk, CPU time, median of 15; × is the ratio to a "
        f"streaming memcpy ({copy:.1f} GB/s in the same run); {machine['backend']} backend, "
        f"{machine['build']}, {machine['cpu']}, shared (`benchmarks/results/throughput.json`)."
    )
    lines += ["", conditions]
    return "\n".join(lines)


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

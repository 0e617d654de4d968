# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""What became slower from one commit to another: the rows of growth.py, in turns.

    python benchmarks/compare.py COMMIT_A COMMIT_B [--only WORD] [--rounds N]

Both commits are built, each in a folder of its own; the benchmark is that of this working tree.
Exits with 1 if a row is more than 5 % slower in COMMIT_B.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

GROWTH = Path(__file__).with_name("growth.py")
SOURCE = GROWTH.parent.parent

#: A row is reported above this.
SLOWER = 1.05


def build(commit: str, folder: Path) -> Path:
    """Install a commit, and return where it is."""
    tree, target = folder / "source", folder / "installed"
    subprocess.run(["git", "worktree", "add", "--detach", tree, commit], cwd=SOURCE, check=True)
    try:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        subprocess.run([*pip, "--target", target, tree], check=True)
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=SOURCE, check=True)
    return target


def costs(installed: Path, only: str) -> dict[str, float]:
    """Measure once, and return the cost of each row."""
    found = subprocess.run(
        [sys.executable, "-P", GROWTH, "--json", "--only", only],
        env=os.environ
        | {
            "PYTHONPATH": str(installed),
            "PATH": f"{installed / 'bin'}:{os.environ['PATH']}",
        },
        check=True,
        capture_output=True,
        text=True,
    )
    rows = map(json.loads, found.stdout.splitlines())
    return {row["name"]: row["cost"] for row in rows}


def main() -> None:
    """Measure both commits in turns, and print a line for each row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commits", nargs=2, metavar="COMMIT")
    parser.add_argument("--only", default="", help="rows whose name has this in it")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        installed = [build(c, Path(folder) / str(i)) for i, c in enumerate(options.commits)]
        best: list[dict[str, float]] = [{}, {}]
        for _ in range(options.rounds):
            for lowest, where in zip(best, installed, strict=True):
                for name, cost in costs(where, options.only).items():
                    lowest[name] = min(cost, lowest.get(name, cost))
    slower = 0
    for name, before in best[0].items():
        ratio = best[1][name] / before
        slower += ratio > SLOWER
        print(f"{name:58} {before * 1e3:9.3f} ms {ratio:5.2f}{'  SLOWER' * (ratio > SLOWER)}")
    sys.exit(bool(slower))


if __name__ == "__main__":
    main()

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Whether GCC vectorizes the loops that are marked so.

    python .ci/check_loops.py BUILD

BUILD was configured for Ninja and GCC; it need not have been built. A loop is marked by a comment
at the end of its first line, `// vectorized`: it is where time goes, and a condition that is
written differently is enough to make it several times slower, with the same results. The sources
in the folders of marked loops are compiled once more, with the widest vectors; in each function
that such a loop becomes a part of, it has to be vectorized.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

NATIVE = Path(__file__).resolve().parents[1] / "native"
TOLD = re.compile(
    r"^(\S+):(\d+):\d+: (?:optimized: loop (vectorized)|missed: couldn't vectorize loop)"
)

Loop = tuple[str, int]


def main() -> None:
    """Compile, and name each marked loop that is not vectorized everywhere."""
    parser = argparse.ArgumentParser(description=__doc__.strip().partition("\n")[0])
    parser.add_argument("build", type=Path)
    build = parser.parse_args().build
    marked: dict[Loop, str] = {}
    for path in sorted(NATIVE.rglob("*.[hc]*")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if line.endswith("// vectorized"):
                marked[str(path), number] = line.strip()
    folders = {Path(path).parent for path, _ in marked}
    ninja = shutil.which("ninja") or sys.exit("ninja is not installed")
    listed = subprocess.run(
        [ninja, "-C", build, "-t", "compdb"], check=True, capture_output=True, text=True
    )
    chosen: dict[str, dict[str, str]] = {}
    for entry in json.loads(listed.stdout):
        path, command = Path(entry["file"]), entry["command"]
        if path.parent in folders and "H5L_TARGET=avx512" in command:
            chosen[str(path)] = entry
    if not chosen:
        sys.exit(f"{build} has no source with a marked loop")

    def compile_once_more(entry: dict[str, str]) -> list[str]:
        command = shlex.split(entry["command"])
        command[command.index("-o") + 1] = os.devnull
        command += ["-fopt-info-vec-optimized-missed", "-Wno-error"]
        done = subprocess.run(
            command, cwd=entry["directory"], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            sys.exit(done.stderr)
        return done.stderr.splitlines()

    vectorized: collections.Counter[Loop] = collections.Counter()
    missed: collections.Counter[Loop] = collections.Counter()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        said = itertools.chain.from_iterable(pool.map(compile_once_more, chosen.values()))
        for told in filter(None, map(TOLD.match, said)):
            loop = str(Path(told[1]).resolve()), int(told[2])
            (vectorized if told[3] else missed)[loop] += 1
    failed = [loop for loop in marked if missed[loop] or not vectorized[loop]]
    print(f"{len(marked)} loops are marked, {len(failed)} of them are not vectorized everywhere")
    for loop in failed:
        print(f"{loop[0]}:{loop[1]}: missed {missed[loop]} times: {marked[loop]}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

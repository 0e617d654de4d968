# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Run clang-tidy and cppcheck on each source of the library, once.

    python .ci/analyse.py BUILD

BUILD has a compile_commands.json by clang (-DCMAKE_EXPORT_COMPILE_COMMANDS=ON); it need not have
been built. Of a source that is compiled for several backends, the one with the most vector code is
taken. The checks are those of .clang-tidy; of cppcheck, each one left out has its reason here.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

NATIVE = Path(__file__).resolve().parents[1] / "native"

CPPCHECK = [
    "cppcheck",
    "--quiet",
    "--error-exitcode=1",
    "--inline-suppr",
    "--std=c++20",
    "--enable=warning,performance,portability",
    # C++20 that it cannot parse: variable templates beside <, and template parameters of lambdas.
    "--suppress=internalAstError",
    "--suppress=syntaxError",
    # Parameters that are captured by reference, and used in the next call.
    "--suppress=uselessAssignmentPtrArg",
    # It takes the masks that comparisons of vectors give for booleans.
    "--suppress=compareBoolExpressionWithInt",
    # Members that several statements compute, or the first call sets.
    "--suppress=useInitializationList",
    "--suppress=uninitMemberVar",
    # Compilers know their target; a float_environment.h for no processor is an error.
    *(f"-D__{name}__=1" for name in (platform.machine(), "SSE2")),
]


def main() -> None:
    """Analyse all sources, on all processors; exit with what was found."""
    parser = argparse.ArgumentParser(description=__doc__.strip().partition("\n")[0])
    parser.add_argument("build", type=Path)
    build = parser.parse_args().build
    chosen: dict[str, dict[str, str]] = {}
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        path = Path(entry["file"])
        if NATIVE in path.parents and (
            str(path) not in chosen or "H5L_TARGET=avx512" in entry["command"]
        ):
            chosen[str(path)] = entry
    if len(chosen) < 40:
        sys.exit(f"{build} has only {len(chosen)} sources of {NATIVE}")
    folder = build / "each_source_once"
    folder.mkdir(exist_ok=True)
    once = folder / "compile_commands.json"
    once.write_text(json.dumps(list(chosen.values())), encoding="utf-8")
    processors = os.cpu_count() or 1
    commands = [["clang-tidy", "--quiet", "-p", str(folder), path] for path in sorted(chosen)]
    commands.append([*CPPCHECK, f"-j{processors}", f"--project={once}"])

    def run(command: list[str]) -> bool:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(done.stdout, done.stderr, sep="\n", flush=True)
        return done.returncode == 0

    with ThreadPoolExecutor(processors) as pool:
        passed = list(pool.map(run, commands))
    sys.exit(f"{passed.count(False)} of {len(passed)} have findings" if not all(passed) else 0)


if __name__ == "__main__":
    main()

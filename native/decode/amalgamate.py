# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Write the decode library as two files that other projects can take over.

``amalgamate.py VERSION FOLDER SOURCE...``: h5lossy_decode.h and h5lossy_decode.cpp, in FOLDER.
"""

import re
import sys
from pathlib import Path

NATIVE = Path(__file__).resolve().parents[1]
HEADER = "h5lossy_decode.h"
INCLUDE = re.compile(r'#include "(.+)"')
SPDX = re.compile(r"// SPDX-.*\n")

INTRODUCTION = """\
// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The decode library of h5lossy {version} in one file, made by native/decode/amalgamate.py.
// Compile it with
//
//   -std=c++20 -O2 -ffp-contract=off -fno-exceptions -fno-rtti
//
// -ffp-contract=off is a part of the format: without it, values may be others where the processor
// has a fused multiply-add. With the last two, the object can be linked by a C compiler.

#define H5L_DECODE_ONLY
#define H5L_VERSION "{version}"
"""


def expanded(path: Path, done: set[Path]) -> str:
    """Return a file with what it includes in its place: headers once, lists each time."""
    if path in done:
        return ""
    if path.suffix == ".h":
        done.add(path)
    lines = []
    for line in SPDX.sub("", path.read_text(encoding="utf-8")).splitlines(keepends=True):
        included = INCLUDE.match(line)
        if included is None:
            lines.append("" if line == "#pragma once\n" else line)
        elif included[1] == HEADER:
            lines.append(line)
        else:
            found = [NATIVE / included[1], NATIVE / "include" / included[1]]
            lines.append(expanded(next(file for file in found if file.exists()), done))
    return "".join(lines)


version, folder, *sources = sys.argv[1:]
done: set[Path] = set()
text = INTRODUCTION.format(version=version)
for source in sources:
    path = Path(source).resolve()
    text += f"\n// {path.relative_to(NATIVE)}\n{expanded(path, done)}"
Path(folder).mkdir(parents=True, exist_ok=True)
Path(folder, "h5lossy_decode.cpp").write_text(text, encoding="utf-8")
Path(folder, HEADER).write_bytes((NATIVE / "include" / HEADER).read_bytes())

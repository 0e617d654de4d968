# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""
What the compiler made of the library, instruction by instruction.

    python .ci/check_instructions.py LIBRARY [--objdump PROGRAM]

LIBRARY must have its symbols. Three things may not be in it:

- a multiplication and an addition with one rounding, which give other bits than two and break
  bounds (docs/design/bound.md), but in sums of the assessment and an exact product, which ask for
  it everywhere;
- an instruction that only a backend's processors have, outside of that backend: the linker merges
  functions of one name, and a processor without it would die of it (docs/design/backends.md);
- in a library for Windows, a move of a vector that dies if its address is not aligned to the
  vector: GCC keeps vectors on a stack that Windows aligns to 16 bytes (GCC bug 54412).
"""

from __future__ import annotations

import argparse
import collections
import re
import subprocess
import sys

FUSED = re.compile(
    r"v?f?n?m(add|sub)(add|sub)?\d{0,3}[ps][sdh]"  # x86: FMA3, FMA4
    r"|v4fn?madd[ps]s|vfc?maddc[ps]h|vdpbf16ps"
    r"|fn?m(add|sub|la|ls|ad|sb)(l2?|l[bt])?"  # AArch64: scalar, NEON, SVE
    r"|fcmla|fmmla|bfmmla|bfml(al|sl)?[bt]|bfdot"
)

ASKS_FOR_FUSED = re.compile(
    r"\bh5lossy::\w+::"
    r"(\(anonymous namespace\)::"
    r"(Sweep(<|::)|sweep<|add_up(_\w+)?<|add_valid<|add_(part_of_)?(plain_)?block<|"
    r"(\S+ )?add_errors<|add_scores<|set_levels\()"
    r"|stencils\(|dssim\(|add_(columns|stencils)<|fused_multiply_add\()"
)

# x86: all of AVX and AVX-512 begins with a v, and of the rest the backends may use these. tzcnt is
# not among them: a processor without it takes it for bsf, and compilers know that.
BEYOND_BASELINE = re.compile(
    r"v(?!er[rw])[a-z0-9]+|k(mov|or|and|andn|xor|xnor|not|test|ortest|add|unpck|shift)[a-z]*[bwdq]"
    r"|andn|bextr|bls(i|r|msk)|bzhi|mulx|pdep|pext|rorx|sarx|shlx|shrx|popcnt|lzcnt|movbe|gf2p8.*"
)

ALIGNED_MOVE = re.compile(r"vmov(ap[sd]|dqa(32|64)?)")

FUNCTION = re.compile(r"[0-9a-f]+ <(.*)>:")
BACKEND = re.compile(r"\bh5lossy::(scalar|avx2|avx512|neon)::")
X86_BACKENDS = ("avx2", "avx512")
#: A build for Windows leaves the other one out.
WINDOWS_BACKENDS = ("avx2",)


def main() -> None:
    """Disassemble, count for each backend, and name what may not be there."""
    parser = argparse.ArgumentParser(description=__doc__.strip().partition("\n")[0])
    parser.add_argument("library")
    parser.add_argument("--objdump", default="objdump")
    given = parser.parse_args()
    command = [given.objdump, "-dC", "--no-show-raw-insn", given.library]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    is_windows = "file format pei-x86-64" in listing
    is_x86 = is_windows or "file format elf64-x86-64" in listing
    counts: collections.Counter[str] = collections.Counter()
    beyond: collections.Counter[str] = collections.Counter()
    faults: list[str] = []
    function = backend = ""
    for line in listing.splitlines():
        if found := FUNCTION.fullmatch(line):
            function = found[1]
            named = BACKEND.search(function)
            backend = named[1] if named else "(others)"
            continue
        words = line.partition(":\t")[2].split()
        while words and words[0] in {"lock", "rep", "repz", "repnz", "notrack", "data16", "bnd"}:
            del words[0]
        if not words:
            continue
        mnemonic = words[0].partition(".")[0]
        counts[backend] += 1
        if FUSED.fullmatch(mnemonic) and not ASKS_FOR_FUSED.search(function):
            faults.append(f"fused multiply-add: {' '.join(words)}, in {function}")
        if is_windows and ALIGNED_MOVE.fullmatch(mnemonic) and "(" in "".join(words[1:]):
            faults.append(f"needs an aligned address: {' '.join(words)}, in {function}")
        if is_x86 and BEYOND_BASELINE.fullmatch(mnemonic):
            beyond[backend] += 1
            if backend not in X86_BACKENDS:
                faults.append(f"not for every processor: {' '.join(words)}, in {function}")

    vectors = WINDOWS_BACKENDS if is_windows else X86_BACKENDS if is_x86 else ("neon",)
    expected = {"scalar", *vectors}
    for name in sorted(expected | set(counts)):
        print(f"{name:10} {counts[name]:8} instructions, {beyond[name]:8} beyond the baseline")
        # Otherwise the listing was not understood, and finding no faults says nothing.
        if name in expected and counts[name] < 1000:
            faults.append(f"no code of the {name} backend was seen: has the library its symbols?")
        if is_x86 and name in vectors and beyond[name] < 1000:
            faults.append(f"no vector code of the {name} backend was seen")
    if faults:
        sys.exit("\n".join([*faults[:20], f"{len(faults)} faults in {given.library}"]))


if __name__ == "__main__":
    main()

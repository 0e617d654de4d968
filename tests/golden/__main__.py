# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Makes golden frames, each once, in the project's folder: ``python -m tests.golden add NAME``."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5lossy

# As pytest does, which finds this package and the reference there.
sys.path.insert(0, str(Path(__file__).parents[1]))

from golden import FOLDER, Recipe, contents, digest
from reference import frame as reference

if TYPE_CHECKING:
    from collections.abc import Sequence

SPECIAL = {
    4: "0 80000000 1 80000001 7fffff 800000 7f7fffff ff7fffff 7f800000 ff800000 7fc00000 7f800001",
    8: "0 8000000000000000 1 8000000000000001 fffffffffffff 10000000000000 7fefffffffffffff "
    "ffefffffffffffff 7ff0000000000000 fff0000000000000 7ff8000000000000 7ff0000000000001",
}
DEFAULT_NAN = {4: "ffc00000", 8: "fff8000000000000"}
OTHER_NANS = {4: "ffc00001 ff800001 ffffffff", 8: "fff8000000000001 fff0000000000001"}


def walk(count: int, seed: int = 1, bits: int = 6, exponent: int = -10) -> dict[str, Any]:
    return {"piece": "walk", "count": count, "seed": seed, "bits": bits, "exponent": exponent}


def patterns(words: str, repeat: int = 1) -> dict[str, Any]:
    return {"piece": "patterns", "words": words.split(), "repeat": repeat}


def recipes() -> dict[str, Recipe]:
    """Return what can be made: PFPL, whatever a decoder has a branch for."""
    found: dict[str, Recipe] = {}
    for size in (4, 8):
        dtype, tile = f"<f{size}", 16384 // size

        def add(
            name: str, description: str, dtype: str, bound: Any, *values: Any, **more: Any
        ) -> None:
            found[f"pfpl-{name}-f{dtype[-1]}"] = Recipe(
                description, "pfpl", dtype, bound, list(values), **more
            )

        smooth = walk(2 * tile + 700)
        add(
            "absolute",
            "absolute bound, two full tiles and a part",
            dtype,
            {"absolute": 1e-2},
            smooth,
        )
        add(
            "pointwise",
            "pointwise-relative bound, both signs, many binades",
            dtype,
            {"pointwise_relative": 1e-3},
            walk(tile, 2, 6, -10),
            walk(tile // 2, 3, 20, -60),
            walk(tile // 2 + 77, 4, 10, 40),
        )
        m, one = (23, 0x3F800000) if size == 4 else (52, 0x3FF << 52)
        largest_bin = 2 ** (m - 2) - 2
        limits = [one + sign * 5 * (largest_bin + k) for sign in (1, -1) for k in range(-2, 3)]
        add(
            "fine",
            "pointwise-relative bound of two units in the last place, and the largest bins of all",
            dtype,
            {"pointwise_relative": 2.0 ** (1 - m)},
            patterns(" ".join(f"{word:x}" for word in limits), 3),
            patterns(" ".join(f"{word + 2:x} {word - 2:x}" for word in limits), 1),
            {"piece": "ramp", "count": 300, "start": -150, "step": 1, "exponent": -3},
            patterns("0", 500),
        )
        add(
            "range",
            "range-relative bound, taken over the chunk",
            dtype,
            {"range_relative": 1e-4},
            walk(tile + 65, 5),
        )
        add("lossless", "every bit kept", dtype, {"lossless": True}, walk(tile + 500, 6, 3, -4))
        add(
            "second-chance",
            "values within two ulps of the borders of bins, up to the largest bin",
            dtype,
            {"absolute": 0.375},
            *(
                {
                    "piece": "borders",
                    "count": 160,
                    "seed": 7,
                    "half_width": "0x1.8p-2",
                    "bits": bits,
                }
                for bits in ((8, 16, 22, 23, 24) if size == 4 else (8, 30, 51, 52, 53))
            ),
            patterns("0", 1500),
        )
        below = {4: "3e7fffff be7fffff", 8: "3fcfffffffffffff bfcfffffffffffff"}[size]
        above = {4: "3e800000 3e800001 be800000", 8: "3fd0000000000000 3fd0000000000001"}[size]
        add(
            "half-bin",
            "values next to half a bin, whose width is a power of two",
            dtype,
            {"absolute": 0.25},
            patterns(below, 40),
            patterns(above, 40),
            patterns(below, 1),
            patterns("0", 600),
        )
        for kind, bound in (("absolute", 1e-2), ("pointwise_relative", 1e-2)):
            add(
                f"special-{kind.partition('_')[0]}",
                "zeros, subnormals, infinities, NaNs; the second tile holds negative NaNs",
                dtype,
                {kind: bound},
                walk(tile - 300, 8),
                patterns(SPECIAL[size], 5),
                patterns(DEFAULT_NAN[size], 240),
                walk(tile - 300, 9),
                patterns(OTHER_NANS[size], 20),
            )
        fill = {4: "c479c000", 8: "c08f380000000000"}[size]
        add(
            "fill",
            "fill value -999, and values about it that must not turn into it",
            dtype,
            {"absolute": 0.5},
            {"piece": "ramp", "count": 400, "start": -(1005 << 5), "step": 1, "exponent": -5},
            patterns(fill, 300),
            walk(tile - 200, 10),
            fill_bits=fill,
        )
        add(
            "fill-pointwise",
            "fill value -0.0 beside zeros of both signs",
            dtype,
            {"pointwise_relative": 0.25},
            patterns({4: "80000000 0", 8: "8000000000000000 0"}[size], 300),
            walk(500, 11),
            fill_bits={4: "80000000", 8: "8000000000000000"}[size],
        )
        one = {4: "3f800000", 8: "3ff0000000000000"}[size]
        add(
            "fill-one",
            "fill value 1.0, which is a reconstruction of any pointwise-relative bound",
            dtype,
            {"pointwise_relative": 0.125},
            {"piece": "ramp", "count": 600, "start": 700, "step": 1, "exponent": -10},
            patterns(one, 100),
            fill_bits=one,
        )
        add(
            "padded",
            "range-relative bound of a chunk whose zeros may be padding",
            dtype,
            {"range_relative": 1e-2},
            {"piece": "ramp", "count": 900, "start": 1000 << 9, "step": 1, "exponent": -9},
            patterns({4: "0 80000000", 8: "0 8000000000000000"}[size], 100),
            maybe_padded=True,
        )
        below_half = {4: "beffffff befffffe", 8: "bfdfffffffffffff bfdffffffffffffe"}[size]
        add(
            "fill-zero",
            "fill value -0.0, and values that bin 0, which is +0.0, stands for",
            dtype,
            {"absolute": 0.5},
            patterns(below_half, 20),
            {"piece": "ramp", "count": 700, "start": -350, "step": 1, "exponent": -10},
            patterns({4: "80000000 0", 8: "8000000000000000 0"}[size], 50),
            {"piece": "borders", "count": 200, "seed": 23, "half_width": "0x1p-1", "bits": 3},
            fill_bits={4: "80000000", 8: "8000000000000000"}[size],
        )
        add(
            "fill-subnormal",
            "a subnormal fill value: the tile that holds it is stored",
            dtype,
            {"absolute": 1e-2},
            walk(100, 12),
            patterns("1234 1235", 20),
            walk(tile, 13),
            fill_bits="1234",
        )
        add("big-endian", "big-endian data", f">f{size}", {"absolute": 1e-2}, walk(tile + 33, 14))
        add("stored", "noise: the frame is stored", dtype, {"absolute": 1e-2},
            {"piece": "noise", "count": 700, "seed": 15})  # fmt: skip
        add(
            "tiles",
            "a stored tile between two that are not, the last one empty",
            dtype,
            {"absolute": 1e-2},
            walk(tile, 16),
            {"piece": "noise", "count": tile // 2, "seed": 17},
            {"piece": "noise", "count": tile // 2, "seed": 18},
            patterns("0", tile),
        )
        add("empty", "no values", dtype, {"absolute": 1e-2})
        add(
            "part", "less than one group of values", dtype, {"absolute": 10.0}, walk(29, 19, 12, -6)
        )
        add("no-checksum", "without a payload checksum", dtype, {"absolute": 1e-2},
            walk(tile + 100, 20), checksum=False)  # fmt: skip
        tiny = {4: 1e-40, 8: 1e-310}[size]
        add("tiny-bound", "a bound too small for bins: lossless", dtype, {"absolute": tiny},
            walk(600, 21, 3, -4))  # fmt: skip
        huge = {4: 1e300, 8: 1.5e308}[size]
        add("huge-bound", "a bound that is cut down to the largest one", dtype, {"absolute": huge},
            patterns(SPECIAL[size], 40))  # fmt: skip
    found["pfpl-big-endian-stored-f4"] = Recipe(
        "big-endian noise", "pfpl", ">f4", {"lossless": True},
        [{"piece": "noise", "count": 300, "seed": 22}])  # fmt: skip
    found["pfpl-bytes"] = Recipe(
        "bytes of which the encoder knows no type", "pfpl", "u1", {"absolute": 1.0},
        [patterns("0 1 7f 80 ff", 13)])  # fmt: skip
    return found


def add(name: str, folder: Path = FOLDER) -> None:
    """Make one frame, unless there is one of this name."""
    available = recipes()
    if name not in available:
        raise SystemExit(f"there is no recipe {name}; there are {', '.join(available)}")
    recipe = available[name]
    paths = folder / f"{name}.frame", folder / f"{name}.json"
    for path in paths:
        if path.exists():
            raise SystemExit(f"{path} exists, and golden frames are never changed")
    frame = recipe.encode()
    if digest(reference.decode(frame)) != digest(h5lossy.decode(frame)):
        raise SystemExit(f"{name}: library and reference do not agree")
    holds = {"input_sha256": digest(recipe.make_values())} | contents(frame)
    fields = {"made_of": dataclasses.asdict(recipe), "holds": holds}
    paths[0].write_bytes(frame)
    paths[1].write_text(json.dumps(fields, indent=1) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    commands = parser.add_subparsers(required=True)
    adding = commands.add_parser("add", help="make frames, unless they exist")
    adding.add_argument("names", nargs="+", metavar="NAME")
    for name in parser.parse_args(arguments).names:
        add(name)


if __name__ == "__main__":
    main()

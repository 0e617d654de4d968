# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Makes golden frames, each once, in the project's folder: ``python -m tests.golden add NAME``.

``python -m tests.golden add-file NAME`` makes golden files.
``python -m tests.golden export FOLDER`` writes what a machine without Python needs to make and read
them all again.
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

import h5lossy

# As pytest does, which finds this package and the reference there.
sys.path.insert(0, str(Path(__file__).parents[1]))

from golden import FOLDER, Recipe, contents, digest, files, load
from golden.files import FileRecipe
from reference import frame as reference

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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


def spoilt(count: int, words: str, one_in: int, seed: int = 1) -> dict[str, Any]:
    walked = walk(count, seed, 2, -3)
    return walked | {"piece": "spoilt", "words": words.split(), "one_in": one_in}


def slopes(
    shape: list[int], steps: list[int], bits: int = 2, exponent: int = -3, **more: Any
) -> dict[str, Any]:
    """Return a piece for a chunk of two or three dimensions."""
    return {
        "piece": "slopes",
        "shape": shape,
        "steps": steps,
        "exponent": exponent,
        "seed": 1,
        "bits": bits,
        **more,
    }


def hills(shape: list[int], steps: list[int], exponent: int = -3, **more: Any) -> dict[str, Any]:
    return {"piece": "hills", "shape": shape, "steps": steps, "exponent": exponent, **more}


def points(count: int, size: int, per_unit: float, offset: float) -> dict[str, Any]:
    """Return a piece of numbers that are so many to a unit, as they are rounded from doubles."""
    numbers = [abs(i * i % 307 - 150) // 8 + i // 5 for i in range(count)]
    kind = "<" + {4: "f", 8: "d"}[size]
    words = [struct.pack(kind, n / per_unit + offset)[::-1].hex() for n in numbers]
    return patterns(" ".join(words))


def products(count: int, dtype: str, scale: float, offset: float) -> dict[str, Any]:
    """Return a piece of numbers whose product and sum are rounded to their type."""
    hills = [abs(i * i % 307 - 150) // 8 + i // 5 for i in range(count)]
    counts = np.array([50 * hill + i * i % 11 - 9000 for i, hill in enumerate(hills)], dtype)
    values = counts * counts.dtype.type(scale) + counts.dtype.type(offset)
    words = [value.tobytes()[::-1].hex() for value in values]
    return patterns(" ".join(words))


def recipes() -> dict[str, Recipe]:
    """Return what can be made, by name."""
    return {
        **pfpl_recipes(),
        **integer_recipes(),
        **half_recipes(),
        **interp_integer_recipes(),
        **complex_recipes(),
        **block_recipes("cuszp2", 4096),
        **block_recipes("aatrox", 32768),
        **cuszp2_recipes(),
        **aatrox_recipes(),
        **interp_recipes(),
        **auto_recipes(),
    }


def adder(found: dict[str, Recipe], codec: str) -> Callable[..., None]:
    """Return what adds recipes, named after codec, what they show, and size of the type."""

    def add(name: str, description: str, dtype: str, bound: Any, *values: Any, **more: Any) -> None:
        recipe = Recipe(description, codec, dtype, bound, list(values), **more)
        found[f"{codec}-{name}-f{dtype[-1]}"] = recipe

    return add


def pfpl_recipes() -> dict[str, Recipe]:
    """Return those of PFPL: whatever a decoder has a branch for."""
    found: dict[str, Recipe] = {}
    add = adder(found, "pfpl")
    for size in (4, 8):
        dtype, tile = f"<f{size}", 16384 // size

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
        one_word = {4: "3f800000", 8: "3ff0000000000000"}[size]
        add(
            "fill-one",
            "fill value 1.0, which is a reconstruction of any pointwise-relative bound",
            dtype,
            {"pointwise_relative": 0.125},
            {"piece": "ramp", "count": 600, "start": 700, "step": 1, "exponent": -10},
            patterns(one_word, 100),
            fill_bits=one_word,
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


def counts(shape: list[int], steps: list[int], start: int, **more: Any) -> dict[str, Any]:
    """Return a piece of integers."""
    return {"piece": "counts", "shape": shape, "steps": steps, "start": start, **more}


def integer_recipes() -> dict[str, Recipe]:
    """Return those of integers: types, words, predictors and forms of a tile."""
    found: dict[str, Recipe] = {}

    def add(name: str, description: str, dtype: str, bound: Any, piece: Any, **more: Any) -> None:
        recipe = Recipe(description, "pfpl", dtype, bound, [piece], **more)
        found[f"pfpl-integers-{name}"] = recipe

    exact, few = {"lossless": True}, {"absolute": 3.5}
    for size in (1, 2, 4, 8):
        for letter, start in (("u", 100), ("i", -20)):
            dtype = "uint8" if (letter, size) == ("u", 1) else f"<{letter}{size}"
            shape = [2, 40, 30]
            of = f"{letter}{8 * size}"
            image = counts(shape, [5, 1, 0], start, bits=1, seed=size)
            add(f"{of}-lossless", "lossless", dtype, exact, image, shape=shape)
            add(f"{of}-absolute", "absolute bound, of 3 counts", dtype, few, image, shape=shape)
            top = (1 << 8 * size - (letter == "i")) - 1
            ends = counts([600], [0], top - 7, bits=4, seed=9, word=f"{top:x}", one_in=9)
            add(f"{of}-fill", "values at the ends of the type, and the largest one as fill value",
                dtype, few, ends, fill_bits=f"{top:x}")  # fmt: skip
    big = counts([60, 50], [3, 1], 1000, bits=3, word="ffff", one_in=40)
    add("fill-is-a-middle", "a fill value that its bin would come back as", "<u2", {"absolute": 2},
        counts([60, 50], [0, 0], 990, bits=5, word="3e8", one_in=20), fill_bits="3e8",
        shape=[60, 50])  # fmt: skip
    add("exact-neighbours", "two exact values, the middle of a bin and its neighbour", "<u2",
        {"absolute": 2, "exact": [1000, 1001]},
        counts([60, 50], [0, 0], 990, bits=5, word="3e8", one_in=20), shape=[60, 50])  # fmt: skip
    add("wide", "bins that overlap, of an even step, and an exact value", ">i2",
        {"absolute": 3, "wide": True, "exact": [8]},
        counts([3, 40, 30], [2, 0, 0], -6, bits=4), shape=[3, 40, 30])  # fmt: skip
    add("big-endian", "big-endian, with a fill value", ">u2", few, big, fill_bits="ffff",
        shape=[60, 50])  # fmt: skip
    add("stride", "multiples of 12, and 5 more", "<u2", exact, counts([50, 60], [1, 1], 5, times=12,
        bits=2), shape=[50, 60])  # fmt: skip
    add("stride-negative", "multiples of 10, and 3 less", "<i4", exact,
        counts([50, 60], [1, -2], -33, times=10, bits=2), shape=[50, 60])  # fmt: skip
    for name, steps, bits in (("x", [0, 3], 0), ("y", [7, 0], 0), ("xy", [9, 11], 1),
                              ("three", [0, 0], 4), ("none", [0, 0], 1)):  # fmt: skip
        add(f"predictor-{name}", f"what predictor {name} is good for", "<u2", exact,
            counts([32, 40], steps, 10, bits=bits), shape=[32, 40])  # fmt: skip
    add("tiles", "tiles in three directions", "<u2", exact, counts([2, 100, 90], [5, 1, 0], 9),
        shape=[2, 100, 90])  # fmt: skip
    add("slices", "small slices, several in a tile", "<i2", exact,
        counts([30, 20, 24], [9, 1, 2], 0), shape=[30, 20, 24])  # fmt: skip
    add("four-axes", "four axes, the first two as one", "<u2", few,
        counts([2, 3, 20, 30], [50, 9, 1, 2], 0, bits=2), shape=[2, 3, 20, 30])  # fmt: skip
    add("one-row", "one dimension", "<u4", exact, counts([9001], [3], 0))
    add("empty-tiles", "nothing but zeros within the bound", "<u2", {"absolute": 4},
        counts([9000], [0], 0, bits=2))  # fmt: skip
    add("stored", "noise, which is stored", "<u2", few | {"absolute": 1},
        {"piece": "noise", "count": 300, "seed": 5})  # fmt: skip
    add("half-a-count", "a bound of less than a count: lossless", "<i2", {"absolute": 0.5},
        counts([50, 60], [1, 1], -50, bits=2), shape=[50, 60], checksum=False)  # fmt: skip
    return found


def half_recipes() -> dict[str, Recipe]:
    """Return those of float16 and bfloat16, and of noise bounds."""
    found: dict[str, Recipe] = {}
    bounds: dict[str, tuple[str, dict[str, Any]]] = {
        "lossless": ("lossless", {"lossless": True}),
        "absolute": ("absolute bound", {"absolute": 0.04}),
        "pointwise": ("pointwise-relative bound", {"pointwise_relative": 0.02}),
        "range": ("range-relative bound", {"range_relative": 0.01}),
    }
    for dtype, one, special in (("<f2", 0x3C00, "7c00 fe01 8000 1"),
                                ("bfloat16", 0x3F80, "7f80 ffc1 8000 1")):  # fmt: skip
        of = "f16" if dtype == "<f2" else "bf16"
        image = counts([2, 40, 30], [9, 3, 1], one, bits=4)
        signs = counts([1200], [1], one, bits=6, word=f"{one + 0x8000:x}", one_in=5)
        for name, (text, bound) in bounds.items():
            found[f"pfpl-halves-{of}-{name}"] = Recipe(
                text, "pfpl", dtype, bound, [image], shape=[2, 40, 30])  # fmt: skip
        found[f"pfpl-halves-{of}-special"] = Recipe(
            "both signs, infinities, NaN with payloads, subnormals, and a fill value", "pfpl",
            dtype, {"absolute": 0.3}, [signs, patterns(special, 30)],
            fill_bits=f"{one:x}", checksum=False)  # fmt: skip
    for dtype, of, start in (("uint8", "u8", 0), ("<u2", "u16", 100), ("<i2", "i16", -300),
                             ("<u4", "u32", 70000)):  # fmt: skip
        found[f"pfpl-noise-{of}"] = Recipe(
            "noise bound with a floor, and a fill value", "pfpl", dtype,
            {"noise": 0.75, "absolute": 2}, [counts([40, 60], [3, 2], start, bits=4)],
            shape=[40, 60], fill_bits="7f")  # fmt: skip
    found["pfpl-halves-f16-big-endian"] = Recipe(
        "big-endian", "pfpl", ">f2", {"absolute": 0.04}, [counts([900], [3], 0x3800, bits=3)]
    )
    return found


def interp_integer_recipes() -> dict[str, Recipe]:
    """Return those of integers and halves with Interp: types, bounds, exceptions and lanes."""
    found: dict[str, Recipe] = {}

    def add(name: str, description: str, dtype: str, bound: Any, piece: Any, **more: Any) -> None:
        found[f"interp-{name}"] = Recipe(description, "interp", dtype, bound, [piece], **more)

    exact, few = {"lossless": True}, {"absolute": 3.5}
    for size in (1, 2, 4, 8):
        for letter, start in (("u", 100), ("i", -20)):
            dtype = "uint8" if (letter, size) == ("u", 1) else f"<{letter}{size}"
            of, shape = f"integers-{letter}{8 * size}", [2, 40, 30]
            image = counts(shape, [5, 1, 0], start, bits=3, seed=size)
            add(f"{of}-lossless", "lossless", dtype, exact, image, shape=shape)
            top = (1 << 8 * size - (letter == "i")) - 1
            ends = counts([20, 30], [0, 0], top - 15, bits=4, seed=9, word=f"{top:x}", one_in=9)
            add(f"{of}-fill", "values at the ends of the type, and the largest one as fill value",
                dtype, few, ends, fill_bits=f"{top:x}", shape=[20, 30])  # fmt: skip
    image = counts([60, 50], [3, 1], 1000, bits=3, word="ffff", one_in=40)
    add("integers-fill-is-a-middle", "a fill value that its bin would come back as", "<u2",
        {"absolute": 2}, counts([60, 50], [0, 0], 990, bits=5, word="3e8", one_in=20),
        fill_bits="3e8", shape=[60, 50])  # fmt: skip
    add("integers-exact-zero", "two exact values, of which one is 0 and one the fill value", "<i2",
        {"absolute": 2, "exact": [0]},
        counts([60, 50], [0, 0], -9, bits=5, word="7fff", one_in=20),
        fill_bits="7fff", shape=[60, 50])  # fmt: skip
    add("integers-mask", "a number that is a mask", "<u2", few, image, shape=[60, 50])
    add("integers-big-endian", "big-endian, with a fill value", ">u4", few, image,
        fill_bits="ffff", shape=[60, 50], checksum=False)  # fmt: skip
    add("integers-wide", "bins that overlap, and noise below the bound", "<u2",
        {"absolute": 16, "wide": True}, counts([60, 70], [3, 1], 500, bits=5, seed=4),
        shape=[60, 70])  # fmt: skip
    add("integers-stride", "multiples of 12, and 5 more", "<i4", exact,
        counts([50, 60], [1, 1], 5, times=12, bits=2), shape=[50, 60])  # fmt: skip
    add("integers-far", "numbers that no float64 has", "<u8", exact,
        counts([9000], [3], 2**64 - 40000, bits=2))  # fmt: skip
    add("integers-axes", "four axes, the last but one alone", "<u2", few,
        counts([2, 3, 20, 30], [50, 9, 1, 2], 0, bits=2), shape=[2, 3, 20, 30],
        settings={"axes": -2})  # fmt: skip
    add("integers-tiles", "several tiles with tables of their own", "<u2", exact,
        counts([3, 120, 110], [90, 1, 2], 9, bits=6), shape=[3, 120, 110],
        settings={"axes": [-2, -1], "rewritable": True})  # fmt: skip
    for name, dtype, sides, words, one_in in (
        ("line", "<u2", [40], "0 9 ffff 103 27 0 5", 200),
        ("plane", "uint8", [9, 13], "0 1 9 0 80", 90),
        ("volume", "<i4", [3, 7, 9], "0 ffffff00 7d0 ffff0000 5 0 77", 0),
        ("far", ">u8", [11, 17], "0 ffffffffffffffff 100000000 9 abc", 0),
    ):  # fmt: skip
        shape = {1: [9000], 2: [60, 80], 3: [20, 30, 30]}[len(sides)]
        add(f"integers-labels-{name}", "labels", dtype, exact, shape=shape, piece={
            "piece": "cells", "shape": shape, "sides": sides, "words": words.split(),
            "one_in": one_in})  # fmt: skip
    add("integers-constant", "nothing but zeros within the bound", "<u2", {"absolute": 4},
        counts([9000], [0], 0, bits=2))  # fmt: skip
    add("integers-stored", "noise, which is stored", "<i4", few,
        {"piece": "noise", "count": 300, "seed": 5})  # fmt: skip
    for dtype, of, start in (("uint8", "u8", 0), ("<i2", "i16", -300), ("<u4", "u32", 70000)):
        add(f"integers-noise-{of}", "noise bound with a floor, and a fill value", dtype,
            {"noise": 0.75, "absolute": 2}, counts([40, 60], [3, 2], start, bits=4),
            shape=[40, 60], fill_bits="7f")  # fmt: skip
    for dtype, of, one in (("<f2", "f16", 0x3C00), ("bfloat16", "bf16", 0x3F80)):
        smooth = counts([40, 30], [3, 1], one, bits=4, word="7e00", one_in=30)
        for kind, bound in (("absolute", {"absolute": 0.04}), ("lossless", exact),
                            ("pointwise", {"pointwise_relative": 0.02})):  # fmt: skip
            add(f"halves-{of}-{kind}", f"{kind}, with NaN", dtype, bound, smooth, shape=[40, 30],
                fill_bits=f"{one:x}")  # fmt: skip
    return found


def complex_recipes() -> dict[str, Recipe]:
    """Return those of complex numbers, whose components are one more axis."""
    found: dict[str, Recipe] = {}
    for dtype, size, of in (("<c8", 4, "c8"), ("<c16", 8, "c16")):
        field = slopes([20, 30, 2], [3, 1, 40])
        for codec in ("pfpl", "cuszp2", "aatrox", "interp", "auto"):
            found[f"{codec}-complex-{of}-absolute"] = Recipe(
                "absolute bound", codec, dtype, {"absolute": 0.05}, [field],
                shape=[20, 30])  # fmt: skip
        found[f"interp-complex-{of}-pointwise"] = Recipe(
            "pointwise-relative bound", "interp", dtype, {"pointwise_relative": 0.01},
            [hills([20, 30, 2], [5, 9, 70])], shape=[20, 30])  # fmt: skip
        found[f"pfpl-complex-{of}-special"] = Recipe(
            "both zeros, infinities and NaN with payloads in one component or both, a fill value",
            "pfpl", dtype, {"absolute": 0.3},
            [spoilt(900, f"{SPECIAL[size]} {FILL[size]}", 7), patterns(FILL[size], 8)],
            fill_bits=FILL[size], checksum=False)  # fmt: skip
    found["pfpl-complex-c8-lossless"] = Recipe(
        "lossless", "pfpl", "<c8", {"lossless": True}, [walk(900)])  # fmt: skip
    found["pfpl-complex-c8-big-endian"] = Recipe(
        "big-endian, range-relative bound", "pfpl", ">c8", {"range_relative": 0.01},
        [walk(900)])  # fmt: skip
    found["interp-complex-c16-big-endian"] = Recipe(
        "big-endian", "interp", ">c16", {"absolute": 0.05}, [slopes([9, 50, 2], [3, 1, 40])],
        shape=[9, 50])  # fmt: skip
    return found


FILL = {4: "c479c000", 8: "c08f380000000000"}
NANS = {4: "7fc00000 7fc01234 7f800001 ffc00001", 8: "7ff8000000000000 fff0000000000001"}


def block_recipes(codec: str, tile: int) -> dict[str, Recipe]:
    """Return those of what block codecs share: quantizers, exceptions, forms of a tile."""
    found: dict[str, Recipe] = {}
    add = adder(found, codec)

    for size in (4, 8):
        dtype, fill = f"<f{size}", FILL[size]
        add(
            "absolute",
            "absolute bound, and a part of a block",
            dtype,
            {"absolute": 1e-2},
            walk(150),
        )
        add(
            "pointwise",
            "pointwise-relative bound, both signs, many binades, zeros",
            dtype,
            {"pointwise_relative": 1e-3},
            walk(70, 2, 6, -10),
            walk(40, 3, 20, -60),
            patterns("0"),
            walk(40, 4, 10, 40),
        )
        m, one = (23, 0x3F800000) if size == 4 else (52, 0x3FF << 52)
        largest_bin = 2 ** (m - 2) - 2
        limits = [one + sign * 5 * (largest_bin + k) for sign in (1, -1) for k in (-1, 0, 1)]
        add(
            "fine",
            "pointwise-relative bound of two units in the last place, and the largest bins of all",
            dtype,
            {"pointwise_relative": 2.0 ** (1 - m)},
            patterns(" ".join(f"{word:x} {word + 2:x} {word - 2:x}" for word in limits)),
            {"piece": "ramp", "count": 30, "start": -15, "step": 1, "exponent": -3},
            patterns("0", 50),
        )
        add("range", "range-relative bound", dtype, {"range_relative": 1e-3}, walk(100, 5))
        add("lossless", "every bit kept: a frame of PFPL", dtype, {"lossless": True},
            walk(90, 6, 3, -4))  # fmt: skip
        add(
            "second-chance",
            "values within two ulps of the borders of bins, up to the largest bin",
            dtype,
            {"absolute": 0.375},
            *(
                {"piece": "borders", "count": 20, "seed": 7, "half_width": "0x1.8p-2", "bits": bits}
                for bits in ((8, 16, 22, 23, 24) if size == 4 else (8, 30, 51, 52, 53))
            ),
            patterns("0", 60),
        )
        for kind in ("absolute", "pointwise_relative"):
            add(
                f"special-{kind.partition('_')[0]}",
                "zeros, subnormals, infinities, NaNs of both signs",
                dtype,
                {kind: 1e-2},
                walk(70, 8),
                patterns(SPECIAL[size]),
                patterns(OTHER_NANS[size]),
                patterns("0", 100),
            )
        add(
            "fill",
            "fill value -999, and values about it that must not turn into it",
            dtype,
            {"absolute": 0.5},
            {"piece": "ramp", "count": 160, "start": -(1002 << 5), "step": 1, "exponent": -5},
            patterns(fill, 50),
            fill_bits=fill,
        )
        add(
            "exceptions",
            "masks and whole blocks, of the fill value and of NaNs; groups without; blocks without",
            dtype,
            {"absolute": 0.25},
            spoilt(64, fill, 5),
            patterns(fill, 48),
            spoilt(64, f"{fill} {NANS[size]}", 3),
            patterns(NANS[size], 16),
            patterns(fill, 64),
            spoilt(32, f"{fill}", 2, 4),
            patterns("0", 1100),
            walk(40, 9, 2, -1),
            patterns(NANS[size].split()[1]),
            patterns("0", 2100),
            walk(33, 10, 2, -1),
            patterns(NANS[size]),
            fill_bits=fill,
        )
        add(
            "tiles",
            "constant, of bins and of the fill value; empty; in full; the last one stored",
            dtype,
            {"absolute": 1e-2},
            patterns({4: "40490fdb", 8: "400921fb54442d18"}[size], tile),
            patterns("0", tile),
            patterns(fill, tile),
            walk(100, 16),
            patterns("0", tile - 100),
            patterns(NANS[size]),
            fill_bits=fill,
        )
        add("big-endian", "big-endian data", f">f{size}", {"absolute": 1e-2},
            spoilt(77, NANS[size], 19))  # fmt: skip
    add(
        "fill-zero",
        "fill value -0.0 beside zeros of both signs, pointwise-relative bound",
        "<f4",
        {"pointwise_relative": 0.25},
        patterns("80000000 0", 40),
        walk(40, 11),
        fill_bits="80000000",
    )
    add(
        "fill-one",
        "fill value 1.0, which is a reconstruction of any pointwise-relative bound",
        "<f8",
        {"pointwise_relative": 0.125},
        {"piece": "ramp", "count": 120, "start": 600, "step": 8, "exponent": -10},
        patterns("3ff0000000000000", 20),
        fill_bits="3ff0000000000000",
    )
    add(
        "fill-subnormal",
        "a subnormal fill value, an exception like any other",
        "<f4",
        {"absolute": 1e-2},
        walk(50, 12),
        patterns("1234 1235", 20),
        fill_bits="1234",
    )
    add(
        "last-value",
        "a tile of one value, which is stored",
        "<f4",
        {"absolute": 0.5},
        patterns("0", tile),
        patterns("40490fdb"),
    )
    add("part", "less than one block", "<f4", {"absolute": 10.0}, walk(29, 19, 12, -6))
    add("tiny-bound", "a bound too small for bins: a frame of PFPL", "<f8", {"absolute": 1e-310},
        walk(90, 21, 3, -4))  # fmt: skip
    # The quantizers are the same code and have frames of cuSZp2 in both types.
    spared = "fine-f8 second-chance-f4 special-absolute-f8 special-pointwise-f4 fill-f4 fill-one-f8"
    if codec == "aatrox":
        for name in [*spared.split(), "fill-subnormal-f4", "part-f4", "tiny-bound-f8"]:
            del found[f"aatrox-{name}"]
    return found


def cuszp2_recipes() -> dict[str, Recipe]:
    """Return those of what only cuSZp2 has: modes, dimensions, first residuals."""
    found: dict[str, Recipe] = {}
    add = adder(found, "cuszp2")

    fields = {1: ([110], [3]), 2: ([10, 19], [2, -3]), 3: ([2, 5, 1, 6, 9], [40, 2, 5, 0, -1])}
    for dimensions, (shape, steps) in fields.items():
        for mode in ("plain", "outlier", "fixed"):
            settings = {"mode": mode, "dimensions": dimensions}
            for size in (
                (4, 8) if (mode, dimensions) == ("outlier", 2) else (4,) if dimensions < 3 else (8,)
            ):
                add(
                    f"{mode}-{dimensions}",
                    f"mode {mode}, dimensions {dimensions}, parts of blocks at the far edges",
                    f"<f{size}",
                    {"absolute": 0.25},
                    slopes(shape, steps, exponent=-1),
                    settings=settings,
                    shape=shape,
                )
    for size in (4, 8):
        dtype, fill = f"<f{size}", FILL[size]
        ramp = {"piece": "ramp", "count": 32, "step": 1, "exponent": 0}
        lengths = range(1, 4) if size == 4 else range(1, 8)
        add(
            "residuals",
            "first residuals of every length",
            dtype,
            {"absolute": 0.5},
            *(ramp | {"start": sign * 2 ** (8 * n - 6)} for n in lengths for sign in (1, -1)),
            *(patterns({4: "47000000", 8: "40e0000000000000"}[size], 40),),
        )
        add(
            "exceptions-2",
            "a coast through blocks of 8 x 8, and blocks at the edges that are all exceptions",
            dtype,
            {"absolute": 0.25},
            slopes([22, 23], [2, 3], word=fill, beyond=29),
            patterns(fill, 23),
            patterns(NANS[size].split()[0], 23),
            fill_bits=fill,
            settings={"dimensions": 2},
            shape=[24, 23],
        )
        add(
            "exceptions-3",
            "a coast through blocks of 4 x 4 x 4, and blocks at the edges that are all exceptions",
            dtype,
            {"absolute": 0.25},
            slopes([6, 7, 9], [5, 2, 3], word=NANS[size].split()[1], beyond=11),
            spoilt(63, f"{fill} {NANS[size]}", 4),
            fill_bits=fill,
            settings={"mode": "plain", "dimensions": 3},
            shape=[7, 7, 9],
        )
    add(
        "tiles-2",
        "constant, empty, in full, of one value; slices of two dimensions",
        "<f4",
        {"absolute": 1e-2},
        patterns("40490fdb", 4096),
        patterns("0", 4096),
        slopes([4, 64], [3, 1]),
        patterns("0", 3840),
        settings={"mode": "outlier", "dimensions": 2},
        shape=[3, 64, 64],
    )
    add(
        "last-value-2",
        "a tile that holds one value of a block of 8 x 8",
        "<f8",
        {"absolute": 0.5},
        patterns("400921fb54442d18", 33 * 97),
        settings={"mode": "fixed", "dimensions": 2},
        shape=[33, 97],
    )
    add(
        "tiles-3",
        "in full, empty, and one of an exception only, in parts of blocks",
        "<f4",
        {"absolute": 1e-2},
        patterns("40490fdb", 3900),
        walk(196, 3, 4, -4),
        patterns("0", 4096),
        patterns("7fc01234", 2048),
        settings={"mode": "outlier", "dimensions": 3},
        shape=[10, 16, 64],
    )
    add("pointwise-3", "pointwise-relative bound in blocks of 4 x 4 x 4", "<f4",
        {"pointwise_relative": 1e-2}, slopes([5, 6, 9], [9, 2, 3], start=7),
        settings={"dimensions": 3}, shape=[5, 6, 9])  # fmt: skip
    add("range-2", "range-relative bound in blocks of 8 x 8, big-endian", ">f8",
        {"range_relative": 1e-2}, slopes([10, 17], [2, 3]),
        settings={"mode": "fixed", "dimensions": 2}, shape=[10, 17])  # fmt: skip
    add("lossless-2", "every bit kept: a frame of PFPL, without dims", "<f4", {"lossless": True},
        slopes([10, 17], [2, 3]), settings={"dimensions": 2}, shape=[10, 17])  # fmt: skip
    add("no-extents-3", "a chunk of one extent, of which three were asked for", "<f4",
        {"absolute": 0.25}, walk(70, 2, 3, -3), settings={"mode": "plain", "dimensions": 3},
        shape=[1, 70, 1])  # fmt: skip
    add("padded-2", "range-relative bound of a chunk whose zeros may be padding", "<f4",
        {"range_relative": 1e-2}, slopes([8, 20], [7, 1], start=8000), patterns("0 80000000", 40),
        maybe_padded=True, settings={"dimensions": 2}, shape=[12, 20])  # fmt: skip
    add("no-checksum", "without a payload checksum", "<f4", {"absolute": 1e-2},
        walk(110, 20), checksum=False)  # fmt: skip
    add("stored-3", "noise: the frame is stored", "<f8", {"absolute": 1e-2},
        {"piece": "noise", "count": 24, "seed": 15}, settings={"dimensions": 3},
        shape=[2, 3, 4])  # fmt: skip
    return found


def aatrox_recipes() -> dict[str, Recipe]:
    """Return those of what only AATROX has: layers."""
    found: dict[str, Recipe] = {}
    for size in (4, 8):
        found[f"aatrox-layers-f{size}"] = Recipe(
            "layers without codes between others, and differences across the borders of tiles",
            "aatrox",
            f"<f{size}",
            {"absolute": 0.25},
            [
                patterns({4: "447a0000", 8: "408f400000000000"}[size], 3000),
                walk(60, 2, 3, -1),
                patterns("0", 5000),
                patterns({4: "c47a0000", 8: "c08f400000000000"}[size], 32768 - 8060),
                {"piece": "ramp", "count": 90, "start": -2000, "step": 3, "exponent": -1},
            ],
        )
    found["aatrox-no-layers-f4"] = Recipe(
        "a tile with exceptions, and no differences",
        "aatrox",
        "<f4",
        {"absolute": 0.25},
        [patterns("447a0000", 70), patterns("7fc00000"), patterns("447a0000", 40)],
    )
    return found


def interp_recipes() -> dict[str, Recipe]:
    """Return those of Interp: forms, weights, lanes, exceptions, and what a coder can meet."""
    found: dict[str, Recipe] = {}
    add = adder(found, "interp")
    x, yz, zyx, wx = [-1], [-3, -2], [-3, -2, -1], [-4, -1]

    for size in (4, 8):
        dtype, fill = f"<f{size}", FILL[size]
        add("closed", "interpolation in the closed form, along three axes", dtype,
            {"absolute": 8.0}, hills([9, 14, 19], [11, 7, 5], bits=5),
            settings={"axes": zyx}, shape=[9, 14, 19])  # fmt: skip
        add("range", "range-relative bound", dtype, {"range_relative": 1e-3},
            hills([30, 35], [7, 5]), settings={"axes": "auto"}, shape=[30, 35])  # fmt: skip
        add("pointwise", "pointwise-relative bound, NaNs and zeros", dtype,
            {"pointwise_relative": 1e-2}, hills([3, 12, 17], [3, 7, 6], start=1000),
            patterns(f"{NANS[size].split()[0]} 0", 102), settings={"axes": yz},
            shape=[4, 12, 17])  # fmt: skip
        add("lossless", "every bit kept: a frame of PFPL, without dims", dtype, {"lossless": True},
            hills([5, 9], [7, 5]), settings={"axes": yz}, shape=[1, 5, 9])  # fmt: skip
        add("exceptions", "a coast that repeats, and other exceptions", dtype, {"absolute": 4.0},
            hills([6, 12, 13], [11, 7, 5], word=fill, beyond=17), spoilt(156, NANS[size], 5),
            fill_bits=fill, settings={"axes": zyx}, shape=[7, 12, 13])  # fmt: skip
        add("closed-exceptions", "exceptions in a closed form, the first value is one of them",
            dtype, {"absolute": 8.0}, patterns(NANS[size].split()[0]),
            hills([9, 14, 19], [11, 7, 5], bits=5, word=fill, beyond=29), patterns(fill, 265),
            fill_bits=fill, settings={"axes": zyx}, shape=[10, 14, 19])  # fmt: skip
        for name, steps in (("nearest-bins", [11, 7]), ("lorenzo-nearest-bins", [31, 41])):
            add(name, "bins are rounded too far; such exceptions have their nearest bins", dtype,
                {"absolute": 2.9}, patterns(NANS[size].split()[0], 3),
                hills([19, 31], steps, 0, start=2**23 if size == 4 else 2**52),
                settings={"axes": [-2, -1]}, shape=[16, 37])  # fmt: skip
        add("bins", "interpolation on bins", dtype, {"absolute": 8.0},
            hills([9, 14, 19], [11, 7, 5], bits=5), settings={"axes": zyx, "rewritable": True},
            shape=[9, 14, 19])  # fmt: skip
        add("lorenzo", "Lorenzo prediction", dtype, {"absolute": 8.0},
            hills([20, 30], [31, 41]), settings={"axes": [-2, -1]}, shape=[20, 30])  # fmt: skip
        add("bin-patches", "values between bins that are kept: patches", dtype, {"absolute": 0.5},
            walk(900, 3, 5, -2), hills([60], [3], -16, times=4057), walk(5000, 4, 5, -2),
            hills([9], [3], -16, times=4057), settings={"axes": x, "rewritable": True})  # fmt: skip
        add("closed-patches", "a few kept values in a closed form", dtype, {"absolute": 8.0},
            hills([10, 20, 20], [3, 2, 4], bits=6), patterns("0", 3), hills([1, 397], [5, 3]),
            settings={"axes": zyx}, shape=[11, 20, 20])  # fmt: skip
        add("fine", "fine points one by one", dtype, {"absolute": 0.5},
            hills([20, 30], [9, 7], -16, times=4057, bits=4),
            settings={"axes": [-2, -1]}, shape=[20, 30])  # fmt: skip
        add("recognised", "fine points that are predicted to whole steps", dtype, {"absolute": 0.5},
            {"piece": "ramp", "count": 129, "start": 4057, "step": 8114, "exponent": -16},
            settings={"axes": x})  # fmt: skip
        add("decimals", "an own lattice of decimals, and exceptions beside it", dtype,
            {"absolute": 2.0**-9}, points(300, size, 100, 0), patterns(NANS[size].split()[0], 9),
            walk(1, 7, 2, -12), points(150, size, 100, 0), settings={"axes": x})  # fmt: skip
        add("unpacked", "an own lattice of values that were rounded twice, exceptions beside it",
            dtype, {"absolute": 2.0**-12}, products(300, dtype, 0.0137, 131.7),
            patterns(NANS[size].split()[0], 9), walk(1, 7, 2, -12),
            products(150, dtype, 0.0137, 131.7), settings={"axes": x})  # fmt: skip
        add("own-table", "residuals that are all as likely: a table of the tile's own", dtype,
            {"absolute": 0.5}, walk(9000, 5, 3, 0), settings={"axes": x})  # fmt: skip
        shape, steps, bound = (
            ([33, 33, 30], [1, 2, 1], 64.0) if size == 4 else ([129, 129], [3, 2], 128.0)
        )
        add("finer-units", "finer units on the coarse levels of a closed form", dtype,
            {"absolute": bound}, hills(shape, steps), settings={"axes": zyx[-len(shape):]},
            shape=shape)  # fmt: skip
        for lanes, values in (
            (4, [walk(2500, 5, 2, -1)]),
            (16, [walk(3700, 5, 2, -1), walk(3800, 6, 5, -1)]),
            (32, [walk(8000, 5, 2, -1), walk(8500, 6, 4, -1)]),
        ):
            if (size, lanes) in {(4, 4), (8, 16), (4, 32)}:
                add(f"lanes-{lanes}", f"enough for {lanes} lanes", dtype, {"absolute": 0.5},
                    *values, settings={"axes": x})  # fmt: skip
    add("mask-value", "numbers on land, far from those beside them: exceptions", "<f4",
        {"absolute": 8.0}, hills([9, 14, 19], [11, 7, 5], bits=5, word="0", beyond=20),
        settings={"axes": zyx}, shape=[9, 14, 19])  # fmt: skip
    add("packed", "an own lattice with an offset, of packed values", "<f4", {"absolute": 2.0**-10},
        points(480, 4, 137.25, 273.15), settings={"axes": [-2, -1]}, shape=[20, 24])  # fmt: skip
    add("four-axes", "the first and the last of four axes", "<f4", {"absolute": 8.0},
        hills([5, 3, 4, 11], [11, 40, 30, 6]), settings={"axes": wx},
        shape=[5, 3, 4, 11])  # fmt: skip
    add("four-axes-bins", "Lorenzo prediction, five extents that become four", "<f4",
        {"absolute": 8.0}, hills([2, 3, 3, 4, 9], [50, 21, 40, 30, 6]),
        settings={"axes": wx, "rewritable": True}, shape=[2, 3, 3, 4, 9])  # fmt: skip
    add("inner-axes", "axes without the last one, big-endian", ">f4", {"absolute": 8.0},
        hills([9, 14, 7], [11, 7, 90], bits=3), settings={"axes": yz},
        shape=[9, 14, 7])  # fmt: skip
    add("inner-axes-bins", "axes without the last one, on bins, big-endian", ">f8",
        {"absolute": 8.0}, hills([9, 14, 7], [11, 7, 90], bits=3),
        settings={"axes": yz, "rewritable": True}, shape=[9, 14, 7])  # fmt: skip
    add("line-bins", "a line, on bins", "<f4", {"absolute": 8.0}, hills([200], [3]),
        settings={"axes": x, "rewritable": True})  # fmt: skip
    add("auto-axes", "the axes were picked: the first one has nothing to give", "<f4",
        {"absolute": 8.0}, hills([6, 15, 16], [101, 5, 6], bits=2), shape=[6, 15, 16])  # fmt: skip
    add("wide", "Lorenzo prediction of integers that are not narrow, escapes of eight bytes", "<f8",
        {"absolute": 2.0**-11}, walk(200, 3, 3, -11),
        patterns("41e0000000000000 c1e0000000000000", 4), walk(150, 4, 3, -11),
        settings={"axes": x})  # fmt: skip
    add("wide-line", "a ramp of more than 32 bits, raw planes in all blocks", "<f8",
        {"absolute": 2.0**-11},
        {"piece": "ramp", "count": 90, "start": -(2**33), "step": 2**28 + 12345, "exponent": 0},
        walk(90, 3, 40, -4), settings={"axes": x})  # fmt: skip
    add("tiles", "constant, empty, one of a form, and one of an exception only", "<f4",
        {"absolute": 8.0}, patterns("42c90fdb", 24576), patterns("0", 24576),
        hills([192, 128], [1, 2]), patterns("7fc01234", 24576), settings={"axes": x},
        shape=[768, 128])  # fmt: skip
    add("stored", "noise: the frame is stored", "<f8", {"absolute": 1e-2},
        {"piece": "noise", "count": 24, "seed": 15}, settings={"axes": x})  # fmt: skip
    add("padded", "range-relative bound of a chunk whose zeros may be padding", "<f4",
        {"range_relative": 1e-2}, hills([8, 20], [9, 7], start=4000), patterns("0 80000000", 40),
        maybe_padded=True, settings={"axes": [-2, -1]}, shape=[12, 20])  # fmt: skip
    add("no-checksum", "without a payload checksum", "<f4", {"absolute": 8.0},
        hills([110], [3]), checksum=False, settings={"axes": x})  # fmt: skip
    return found


def auto_recipes() -> dict[str, Recipe]:
    """Return those of codec 0, in which the library picks the codec."""
    found: dict[str, Recipe] = {}
    add = adder(found, "auto")

    for size in (4, 8):
        dtype, fill = f"<f{size}", FILL[size]
        picked = {
            "cuszp2-1": ([16, 16], [0, 0], size // 4),
            "cuszp2-2": ([16, 16], [0, 1], 0),
            "cuszp2-3": ([8, 8, 8], [0, 0, 1], 2),
        }
        for name, (shape, steps, bits) in picked.items():
            add(
                name,
                "cuSZp2 is picked, with blocks of as many dimensions as the name says",
                dtype,
                {"absolute": 0.25},
                slopes(shape, steps, bits, -1),
                shape=shape,
            )
        add("aatrox", "AATROX is picked", dtype, {"absolute": 1e-2}, walk(300, 2, 5, -4))
        add("lossless", "every bit kept: a frame of PFPL", dtype, {"lossless": True},
            walk(90, 6, 3, -4))  # fmt: skip
        add(
            "exceptions",
            "the fill value and NaNs, big-endian, pointwise-relative bound",
            f">f{size}",
            {"pointwise_relative": 1e-2},
            spoilt(64, f"{fill} {NANS[size]}", 6),
            patterns(fill, 70),
            fill_bits=fill,
        )
    add(
        "pfpl",
        "PFPL is picked, after two pieces of one dimension",
        "<f4",
        {"range_relative": 1e-3},
        walk(70, 2, 2, -5),
        patterns("0", 8000),
        walk(200, 3, 2, -5),
        patterns("0", 8200),
    )
    add(
        "pieces-2",
        "PFPL is picked, after one of four pieces of two dimensions",
        "<f4",
        {"absolute": 0.25},
        patterns("0", 9216),
        slopes([5, 256], [0, 1], 0, -1),
        patterns("0", 144 * 256 - 10696),
        walk(200, 3, 9, -1),
        shape=[144, 256],
    )
    for dimensions, shape, steps, bits in (
        (2, [33, 256], [3, 3], 0),
        (3, [9, 32, 32], [1, 0, 0], 3),
    ):
        add(
            f"edge-{dimensions}",
            "not the codec that the whole rows of blocks would get, as the edge counts too",
            "<f4",
            {"absolute": 0.25},
            slopes(shape, steps, bits, -1),
            shape=shape,
        )
    return found


def file_recipes() -> dict[str, FileRecipe]:
    """Return the files that can be made, by name: each codec with each mode, and what HDF5 has."""
    found: dict[str, FileRecipe] = {}
    absolute, pointwise = {"absolute": 1e-2}, {"pointwise_relative": 1e-2}
    found["pfpl"] = FileRecipe(
        "NaNs and the fill value, an unwritten chunk row, B-tree of the oldest format",
        "pfpl",
        "<f4",
        absolute,
        [spoilt(30 * 40, f"{FILL[4]} 7fc00000 7fc01234 7f800000 ffc00001", 9)],
        [30, 40],
        [8, 16],
        fill_bits=FILL[4],
        written=16,
    )
    found["pfpl-lossless"] = FileRecipe(
        "every pattern, big-endian, a fill value that is NaN, fixed array of chunks",
        "pfpl",
        ">f8",
        {"lossless": True},
        [{"piece": "noise", "count": 400, "seed": 3}, walk(11 * 40)],
        [21, 40],
        [8, 16],
        fill_bits="7ff8000000000000",
        libver="v110",
    )
    found["pfpl-pointwise"] = FileRecipe(
        "an extensible array of chunks, one of them unfiltered, no checksums",
        "pfpl",
        "<f8",
        pointwise,
        [walk(300, 5, 7, -2)],
        [300],
        [64],
        checksum=False,
        libver="v110",
        maxshape=[None],
        unfiltered=[128],
    )
    found["pfpl-range"] = FileRecipe(
        "ranges of chunks, fill value -0.0, a B-tree of version 2, HDF5's checksums as well",
        "pfpl",
        ">f4",
        {"range_relative": 1e-3},
        [walk(17 * 23, 2, 6, -3)],
        [17, 23],
        [8, 8],
        fill_bits="80000000",
        libver="v110",
        maxshape=[None, None],
        fletcher32=True,
    )
    for name, dtype, bound in (
        ("u2", "<u2", {"absolute": 2.5}),
        ("i4-big", ">i4", {"lossless": True}),
    ):
        found[f"pfpl-integers-{name}"] = FileRecipe(
            "integers with a fill value, a chunk that is stored without the filter",
            "pfpl",
            dtype,
            bound,
            [counts([30, 40], [2, 1], 3, bits=2, word="7f", one_in=15)],
            [30, 40],
            [8, 16],
            fill_bits="7f",
            written=20,
            unfiltered=[8, 16],
        )
    found["pfpl-noise-u2"] = FileRecipe(
        "counts within their noise, with a floor", "pfpl", "<u2", {"noise": 1.0, "absolute": 2},
        [counts([30, 40], [9, 5], 100, bits=4)], [30, 40], [8, 16])  # fmt: skip
    for i, mode in enumerate(("plain", "outlier", "fixed")):
        for dimensions in (1, 2, 3):
            size = 4 if (i + dimensions) % 2 else 8
            found[f"cuszp2-{mode}-{dimensions}"] = FileRecipe(
                "chunks that the dataset ends in"
                + (", one of them unfiltered" if dimensions == 2 else ""),
                "cuszp2",
                f"{'<' if i != dimensions - 1 else '>'}f{size}",
                pointwise if mode == "plain" and dimensions == 2 else absolute,
                [slopes([7, 13, 18], [4, 2, 1], 3)],
                [7, 13, 18],
                [4, 8, 16] if dimensions > 1 else [2, 13, 10],
                settings={"mode": mode, "dimensions": dimensions},
                fill_bits=FILL[size] if dimensions == 3 else None,
                libver="v110" if i != 1 else "earliest",
                unfiltered=[0, 0, 0] if dimensions == 2 else None,
            )
    found["aatrox"] = FileRecipe(
        "one chunk, which is larger than the dataset has values",
        "aatrox",
        "<f4",
        {"range_relative": 1e-3},
        [slopes([18, 50], [3, 1], 4), patterns(FILL[4], 100)],
        [20, 50],
        [32, 64],
        fill_bits=FILL[4],
        libver="v110",
        maxshape=[32, 64],
    )
    found["aatrox-pointwise"] = FileRecipe(
        "four dimensions, big-endian, special values",
        "aatrox",
        ">f8",
        pointwise,
        [spoilt(3 * 4 * 5 * 12, f"{FILL[8]} {NANS[8]}", 7)],
        [3, 4, 5, 12],
        [2, 3, 5, 8],
        fill_bits=FILL[8],
    )
    sets: dict[str, Any] = {
        "auto": "auto",
        "x": [-1],
        "zy": [-3, -2],
        "zyx": [-3, -2, -1],
        "wx": [-4, -1],
    }
    for name, axes in sets.items():
        for size, rewritable in ((4, False), (8, True)):
            found[f"interp-{name}{'-bins' * rewritable}"] = FileRecipe(
                "chunks that the dataset ends in, and a coast",
                "interp",
                f"{'>' if name == 'zyx' else '<'}f{size}",
                {"absolute": 8.0},
                [hills([2, 12, 13, 15], [50, 9, 5, 6], word=FILL[size], beyond=21)],
                [2, 12, 13, 15],
                [2, 8, 9, 10],
                settings={"axes": axes, "rewritable": rewritable},
                fill_bits=FILL[size],
            )
    for prefer in ("speed", "size"):
        found["auto" + "-size" * (prefer == "size")] = FileRecipe(
            "chunks of several codecs",
            "auto",
            "<f4",
            {"absolute": 0.25},
            [
                slopes([16, 16], [0, 0], 1, -1),
                slopes([16, 16], [0, 1], 0, -1),
                walk(256, 2, 5, -4),
                patterns("0", 256),
                walk(64, 4, 9, -1),
            ],
            [68, 16],
            [16, 16],
            settings={"prefer": "size"} if prefer == "size" else {},
        )
    return found


def refuse_to_change(what: str, *paths: Path) -> None:
    """End the program if one of the paths exists."""
    for path in paths:
        if path.exists():
            raise SystemExit(f"{path} exists, and golden {what} are never changed")


def find(name: str, available: dict[str, Any]) -> Any:
    """Return the recipe of a name, or end the program."""
    if name not in available:
        raise SystemExit(f"there is no recipe {name}; there are {', '.join(available)}")
    return available[name]


def add_file(name: str, folder: Path = files.FOLDER) -> None:
    """Make one file, unless there is one of this name."""
    recipe = find(name, file_recipes())
    paths = folder / f"{name}.h5", folder / f"{name}.json"
    refuse_to_change("files", *paths)
    folder.mkdir(parents=True, exist_ok=True)
    recipe.write(paths[0])
    kept = {
        "made_of": recipe.to_json(),
        "written_by": {"h5lossy": h5lossy.__version__, "hdf5": h5py.version.hdf5_version},
        "holds": {"input_sha256": digest(recipe.make_values())} | files.contents(paths[0]),
    }
    paths[1].write_text(json.dumps(kept) + "\n", encoding="utf-8")


def add(name: str, folder: Path = FOLDER) -> None:
    """Make one frame, unless there is one of this name."""
    recipe = find(name, recipes())
    paths = folder / f"{name}.frame", folder / f"{name}.json"
    refuse_to_change("frames", *paths)
    frame = recipe.encode()
    if digest(reference.decode(frame)) != digest(h5lossy.decode(frame)):
        raise SystemExit(f"{name}: library and reference do not agree")
    holds = {"input_sha256": digest(recipe.make_values())} | contents(frame)
    fields = {"made_of": recipe.to_json(), "holds": holds}
    paths[0].write_bytes(frame)
    paths[1].write_text(json.dumps(fields) + "\n", encoding="utf-8")


def export(folder: Path) -> None:
    """Write all golden frames with their values, for tests/native/golden_frames_come_out.cpp."""
    folder.mkdir(parents=True, exist_ok=True)
    for frame in load():
        if frame.recipe.encode() != frame.frame:
            raise SystemExit(f"{frame.name} is written in another way than it was")
        (folder / f"{frame.name}.case").write_bytes(frame.recipe.case())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    commands = parser.add_subparsers(required=True)
    adding = commands.add_parser("add", help="make frames, unless they exist")
    adding.add_argument("names", nargs="+", metavar="NAME")
    adding.set_defaults(run=lambda given: [add(name) for name in given.names])
    adding = commands.add_parser("add-file", help="make files, unless they exist")
    adding.add_argument("names", nargs="+", metavar="NAME")
    adding.set_defaults(run=lambda given: [add_file(name) for name in given.names])
    exporting = commands.add_parser("export", help="write the cases of golden_frames_come_out")
    exporting.add_argument("folder", type=Path)
    exporting.set_defaults(run=lambda given: export(given.folder))
    given = parser.parse_args(arguments)
    given.run(given)


if __name__ == "__main__":
    main()

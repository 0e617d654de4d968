# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Interp's closed tiles of float32 far from zero, where not all fine points are used.

Such a tile has a grade s: its predictions are multiples of 2^s (docs/format/interp.md). Its values
are those that the reference finds by the rules of docs/design/interp-encoder.md, and its frames are
decoded by the library, by the reference, and by the decoder of the format page.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest

import h5lossy
from checks import Array, assert_kept, assert_same_bits, bits_of, floats_of, pattern
from h5lossy import Interp
from reference import blocks, interp, interp_prediction, pfpl
from reference import frame as reference
from reference.common import FLOAT_TYPES, Kind, Quantizer
from reference.interp_prediction import INTERPOLATION, Form

FLOAT32 = FLOAT_TYPES[4]
BOUND = 0.75
UNIT = 2 * BOUND * Interp.step_share / 16  # exact
LARGEST = float(np.finfo("f4").max)
BORDERS = {1: 2**15, 2: 2**16, 3: 2**17}
"""From where on fine points are of this grade: multiples of 2, 4, 8."""
END = 2**18

each_grade = pytest.mark.parametrize("grade", BORDERS)
both_signs = pytest.mark.parametrize("sign", [1, -1])


def points(numbers: Any, unit: float = UNIT) -> Array:
    """Return fine points."""
    return np.asarray(numbers, "f4") * np.float32(unit)


def smooth(shape: tuple[int, ...], low: float, high: float, unit: float = UNIT) -> Array:
    """Return smooth values of so many fine points; nearly all lie between them."""
    at = np.indices(shape)
    angle = sum((axis + 3) / (9 + 4 * i) for i, axis in enumerate(at)) + 0.7 * np.sin(at[-1] / 40)
    values: Array = (low + (high - low) * (0.5 + 0.5 * np.sin(angle / 4))) * unit
    return values.astype("f4")


def head_of(payload: bytes, shape: tuple[int, ...], mode: int) -> interp.Head:
    """Return the head of a payload of float32 values."""
    active = len(interp_prediction.active_axes(shape, mode))
    return interp.take_head(blocks.Reader(payload), active, FLOAT32, are_bins=False)


def in_the_reference(values: Array, bound: float, fill_value: Any, frame: bytes) -> interp.Head:
    """Encode the only tile of a frame in the same form with the reference; return its head.

    All that is checked of the frame's tile follows from the values and the form.
    """
    parsed = reference.parse(frame)
    [payload] = parsed.tiles
    inside = parsed.tiling.inside(0)
    head = head_of(payload, inside.shape, parsed.mode)
    if not head.form.is_closed:
        return head
    step = pfpl.float_to_bits(2.0 * pfpl.narrowed_bound(bound, FLOAT32))
    quantizer = interp.own_quantizer(Quantizer(Kind.ABSOLUTE, step), FLOAT32)
    fill_bits = None if fill_value is None else pattern(fill_value, "f4")
    fill_bits = reference._counting(fill_bits, FLOAT32)
    form = dataclasses.replace(head.form, grade=0)  # it finds out
    found = interp.encode_tile(
        bits_of(values),
        FLOAT32,
        quantizer,
        fill_bits,
        mode=parsed.mode,
        inside=inside,
        forms=[form],
    )
    assert found is not None, "this form fails"
    again = head_of(found, inside.shape, parsed.mode)
    assert (again.form, again.base, again.entries) == (head.form, head.base, head.entries)
    other = reference.build(dataclasses.replace(parsed, tiles=(found,)))
    assert_same_bits(h5lossy.decode(other), h5lossy.decode(frame))
    return head


def encoded(
    values: Array, decoder: Any, bound: float = BOUND, fill_value: Any = None, **choice: Any
) -> tuple[interp.Head, Array]:
    """Encode values of one tile and check all that is decoded; return the head, and the values."""
    codec = Interp(absolute=bound, **choice)
    frame = h5lossy.encode(values, codec, fill_value=fill_value)
    decoded = h5lossy.decode(frame, shape=values.shape)
    assert_kept(values, decoded, {"absolute": bound}, fill_value)
    assert_same_bits(decoded, reference.decode(frame))
    assert decoder.decode(frame) == decoded.tobytes()
    again = h5lossy.encode(decoded, codec, fill_value=fill_value)
    assert_same_bits(h5lossy.decode(again), decoded)
    return in_the_reference(values, bound, fill_value, frame), decoded


# ------------------------------------------------------------------------------------------------
# Grades of tiles
# ------------------------------------------------------------------------------------------------


@each_grade
@both_signs
@pytest.mark.parametrize("shape", [(1000,), (24, 50), (9, 10, 17)], ids=str)
def test_smooth_values_far_from_zero_have_a_grade(
    decoder: Any, grade: int, sign: int, shape: tuple[int, ...]
) -> None:
    border = BORDERS[grade]
    values = smooth(shape, sign * 1.2 * border, sign * 1.6 * border)
    axes = tuple(range(-len(shape), 0))
    head, decoded = encoded(values, decoder, axes=axes)
    assert (head.form.is_closed, head.form.grade) == (True, grade)
    numbers = np.rint(decoded.astype("f8") / UNIT)
    assert_same_bits(points(numbers), decoded)
    assert not (numbers[decoded != values] % 2**grade).any() or head.entries
    assert (numbers % (2 * 2**grade)).any()
    # Bins are what such values had before there were grades.
    frames = [
        h5lossy.encode(values, Interp(absolute=BOUND, axes=axes, rewritable=rewritable))
        for rewritable in (False, True)
    ]
    assert len(frames[0]) < len(frames[1])


@each_grade
@both_signs
def test_a_grade_begins_eight_points_before_its_border(decoder: Any, grade: int, sign: int) -> None:
    border = BORDERS[grade]
    for sixty_fourths, expected in ((-520, grade - 1), (-504, grade), (0, grade), (40, grade)):
        values = smooth((700,), border - 9000, border - 100)
        # Six values, which are more than 700 / 128.
        values[100::100] = (border + sixty_fourths / 64) * UNIT
        head, _ = encoded(values * np.float32(sign), decoder, axes=-1)
        assert (head.form.is_closed, head.form.grade) == (True, expected)


@each_grade
@both_signs
def test_tiles_may_be_of_all_grades_below(decoder: Any, grade: int, sign: int) -> None:
    values = smooth((40, 50), 0, sign * 1.9 * BORDERS[grade])
    head, _ = encoded(values, decoder, axes=(-2, -1))
    assert (head.form.is_closed, head.form.grade) == (True, grade)


@each_grade
@both_signs
@pytest.mark.parametrize("first", [0, 100])
def test_a_few_values_beyond_a_grade_are_exceptions(
    decoder: Any, grade: int, sign: int, first: int
) -> None:
    """One in 128 at most; more of them give the tile a higher grade."""
    low = (300, *BORDERS.values())[grade - 1] * 1.1
    values = smooth((40, 60), low, 0.95 * BORDERS[grade]) * np.float32(sign)
    values = values.reshape(-1)
    beyond = 100 + np.arange(19) * 120
    beyond[0] = first
    far = sign * np.resize([1.3, 1.1, 1.7], 19) * BORDERS[grade]
    for count, is_kept in itertools.product((1, 18, 19), (False, True)):
        changed = values.copy()
        numbers = np.rint(far[:count] / 8) * 8 + (0 if is_kept else 3.3)
        changed[beyond[:count]] = points(numbers)
        head, decoded = encoded(changed.reshape(40, 60), decoder, axes=(-2, -1))
        decoded = decoded.reshape(-1)[beyond[:count]]
        assert head.form.is_closed
        assert head.form.grade == (grade - 1 if count < 19 else grade)
        assert head.has_exceptions == (count < 19)
        if first == 0 and count < 19:
            assert head.base % 256 == 0
        if is_kept:
            assert_same_bits(decoded, points(numbers))
        elif count < 19:  # they are not what they were, so that they can be in any form
            assert_same_bits(decoded, points(np.rint(numbers / 16) * 16))


def test_units_are_not_below_the_grade(decoder: Any) -> None:
    found = set()
    for low, high in ((30000, 32000), (40000, 45000), (70000, 80000), (140000, 150000)):
        values = smooth((30, 30, 33), low, high)[:, ::2, ::3]
        for flat in (1, 4, 30):
            part = ((values - values.mean()) / flat + values.mean()).astype("f4")
            head, _ = encoded(part, decoder, axes=(-3, -2, -1))
            if head.form.is_closed:
                found.add((head.form.grade, head.form.units > 0))
    assert found >= set(itertools.product(range(4), [True]))


# ------------------------------------------------------------------------------------------------
# Values that are kept
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("border", [*BORDERS.values(), END])
@both_signs
@pytest.mark.parametrize("rewritable", [False, True])
def test_the_points_around_a_border_come_back(
    decoder: Any, border: int, sign: int, rewritable: bool
) -> None:
    numbers = border + np.arange(-64, 65)
    distances = 2 ** np.searchsorted([*BORDERS.values()], numbers, side="right")
    is_used = (numbers % distances == 0) & (numbers < END)
    rng = np.random.default_rng(border)
    for every, order in itertools.product((1, 3, 20), (numbers, rng.permutation(numbers))):
        used = is_used[order - numbers[0]]
        values = smooth((every * order.size + 1,), border - 50, border + 20)
        places = np.arange(order.size) * every + 1
        values[places] = points(order)
        _, decoded = encoded(values * np.float32(sign), decoder, axes=-1, rewritable=rewritable)
        assert_same_bits(decoded[places[used]], points(sign * order[used]))


@each_grade
@both_signs
def test_points_of_lower_grades_are_patched(decoder: Any, grade: int, sign: int) -> None:
    values = smooth((1500,), 20000, 1.3 * BORDERS[grade])
    near = np.flatnonzero(np.abs(values / UNIT) < 2**15)[5::90]
    assert near.size >= 3
    values[near] = points(np.rint(values[near] / UNIT).astype(int) | 1)
    head, decoded = encoded(values * np.float32(sign), decoder, axes=-1)
    assert (head.form.is_closed, head.form.grade) == (True, grade)
    assert head.entries >= near.size
    assert_same_bits(decoded[near], values[near] * np.float32(sign))


@each_grade
@both_signs
def test_a_first_value_that_is_kept_may_be_no_multiple(decoder: Any, grade: int, sign: int) -> None:
    values = smooth((900,), 0.8 * BORDERS[grade], 1.2 * BORDERS[grade]) * np.float32(sign)
    for lower in range(grade + 1):
        values[0] = points(sign * (20000 + 2**lower))
        head, decoded = encoded(values, decoder, axes=-1)
        assert decoded[0] == values[0]
        assert (head.form.is_closed, head.form.grade) == (True, grade)
        # Otherwise it would be the base, from which all integers count.
        assert head.has_exceptions == (lower < grade)
        values[0] = np.nan
        head, _ = encoded(values, decoder, axes=-1)
        assert (head.form.is_closed, head.form.grade, head.base % 256) == (True, grade, 0)


@each_grade
def test_decoded_tiles_are_recognised(decoder: Any, grade: int) -> None:
    for shape in ((2000,), (50, 60), (12, 14, 16)):
        values = smooth(shape, 0.3 * BORDERS[grade], 1.7 * BORDERS[grade])
        axes = tuple(range(-len(shape), 0))
        first, decoded = encoded(values, decoder, axes=axes)
        second, _ = encoded(decoded, decoder, axes=axes)
        assert first.form.grade == grade
        if first.form.units == 0:  # which is what recognised weights are tried with
            assert (second.form, second.entries) == (first.form, first.entries)
        assert (second.form.is_closed, second.form.grade) == (True, grade)


@each_grade
@both_signs
def test_parts_are_overwritten(grade: int, sign: int) -> None:
    border = BORDERS[grade]
    rng = np.random.default_rng(grade)
    given = smooth((40, 60), 0.9 * border, 1.1 * border) * np.float32(sign)
    now, has_moved = given.copy(), np.zeros(given.shape, bool)
    for turn in range(12):
        codec = Interp(
            absolute=BOUND,
            axes=[(-2, -1), (-1,), (-2,), "auto"][turn % 4],
            rewritable=turn % 5 == 4,
        )
        read = h5lossy.decode(h5lossy.encode(now, codec), shape=now.shape)
        assert_kept(given, read, {"absolute": BOUND})
        moved = read != now
        assert moved.any() == (not has_moved.all())
        assert not (moved & has_moved).any()
        has_moved |= moved
        now = read
        y, x = rng.integers(0, 30, 2)
        box = np.s_[y : y + 9, x : x + 20]
        now[box] = given[box] = given[box] + (rng.normal(0, 3, (9, 20)) * UNIT).astype("f4")
        has_moved[box] = False


# ------------------------------------------------------------------------------------------------
# Exceptions, fill values and large bounds
# ------------------------------------------------------------------------------------------------


@each_grade
def test_exceptions_in_graded_tiles(decoder: Any, grade: int) -> None:
    values = smooth((30, 40), 1.2 * BORDERS[grade], 1.5 * BORDERS[grade])
    values[3:9, 10:20] = np.nan
    values[20, 5] = np.inf
    values[21, 6] = -3e38
    head, decoded = encoded(values, decoder, axes=(-2, -1))
    assert head.has_exceptions
    assert (head.form.is_closed, head.form.grade) == (True, grade)
    assert_same_bits(decoded[21, 6], values[21, 6])


@each_grade
@both_signs
def test_fill_values_near_points_are_not_met(decoder: Any, grade: int, sign: int) -> None:
    border, distance = BORDERS[grade], 2**grade
    rng = np.random.default_rng(grade)
    for center in (border, border + 40 * distance, border + 40 * distance + 1):
        for number in (0, 0.5, -1, distance / 2):
            fill_value = points(sign * (center + number))[()]
            values = smooth((600,), center - 30, center + 30) * np.float32(sign)
            values[::7] = points(sign * (center + rng.integers(-20, 21, values[::7].size)))
            values[rng.random(600) < 0.05] = fill_value
            encoded(values, decoder, fill_value=fill_value, axes=-1)
            values[300:] = smooth((300,), center - 30, center + 30) * np.float32(sign)
            encoded(values, decoder, fill_value=fill_value, axes=-1)


@each_grade
@both_signs
@pytest.mark.parametrize("share", [0.5, 0.99, 1.0, 1.01])
def test_the_bound_holds_next_to_the_largest_number(
    decoder: Any, grade: int, sign: int, share: float
) -> None:
    """The last fine points of a grade, or those around its border, are about the largest number."""
    for number in (BORDERS[grade], 2 * BORDERS[grade] - 8, 1.5 * BORDERS[grade]):
        bound = share * LARGEST / number * 8
        unit = (
            h5lossy.inspect(h5lossy.encode(np.zeros(100, "f4"), Interp(absolute=bound))).step / 16
        )
        ramp = np.linspace(number - 150, number + 30, 900) * unit
        wave = smooth((900,), number - 200, number, unit=1.0).astype("f8") * unit
        for values in (ramp, wave):
            cut = (sign * np.minimum(values, LARGEST)).astype("f4")
            encoded(cut, decoder, bound=bound, axes=-1)
            cut[100:110] = -sign * LARGEST
            cut[200:210] = sign * LARGEST
            encoded(cut, decoder, bound=bound, axes=-1)


# ------------------------------------------------------------------------------------------------
# All forms
# ------------------------------------------------------------------------------------------------


def mixed(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Return smooth values of any grades, some of them on or next to fine points, or exceptions."""
    low, high = rng.choice([-1, 1]) * rng.choice([0, 1, *BORDERS.values(), 250000], 2)
    values = smooth(shape, float(low), float(high) + rng.uniform(-500, 500)).reshape(-1)
    chosen = np.flatnonzero(rng.random(values.size) < rng.choice([0, 0.01, 0.2]))
    numbers = np.rint(values[chosen] / UNIT) + rng.integers(-9, 10, chosen.size)
    numbers = np.where(rng.integers(0, 2, chosen.size), numbers, numbers // 8 * 8)
    values[chosen] = points(numbers)
    ulps = rng.choice([-1, 0, 0, 1], chosen.size).astype("i4").view("u4")
    values[chosen] = floats_of(bits_of(values[chosen]) + ulps, "f4")
    if rng.integers(0, 2):
        gone = rng.integers(0, values.size, 1 + values.size // 150)
        values[gone] = rng.choice([np.nan, np.inf, -1e30, 0.0, -0.0], gone.size)
    return values.reshape(shape)


@pytest.mark.parametrize("seed", range(40))
def test_mixed_values_in_the_form_that_is_chosen(decoder: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape, axes = [((700,), (-1,)), ((20, 30), (-2, -1)), ((6, 9, 11), (-3, -1))][seed % 3]
    values = mixed(rng, shape)
    fill_value = values.reshape(-1)[5] if seed % 4 == 0 else None
    encoded(values, decoder, fill_value=fill_value, axes=axes)


@pytest.mark.parametrize("seed", range(12))
def test_the_reference_writes_any_closed_form(decoder: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape, axes, mode = [
        ((700,), (-1,), 1),
        ((20, 30), (-2, -1), 3),
        ((6, 9, 11), (-3, -2, -1), 7),
        ((6, 9, 11), (-1,), 1),  # pass 0 has many values
    ][seed % 4]
    values = mixed(rng, shape)
    parsed = reference.parse(h5lossy.encode(values, Interp(absolute=BOUND, axes=axes)))
    assert parsed.mode & 15 == mode
    step = pfpl.float_to_bits(2.0 * pfpl.narrowed_bound(BOUND, FLOAT32))
    quantizer = interp.own_quantizer(Quantizer(Kind.ABSOLUTE, step), FLOAT32)
    once = None
    for units in range(4):
        codes = tuple(rng.integers(0, 6, mode.bit_count()).tolist())
        form = Form(INTERPOLATION, codes, is_fine=True, is_closed=True, units=units)
        for source in [values] if once is None else [values, once]:
            payload = interp.encode_tile(
                bits_of(source), FLOAT32, quantizer,
                mode=mode, inside=parsed.tiling.inside(0), forms=[form],
            )  # fmt: skip
            if payload is None:
                continue
            frame = reference.build(
                dataclasses.replace(parsed, mode=mode, step=quantizer.step, tiles=(payload,))
            )
            decoded = h5lossy.decode(frame, shape=shape)
            assert_same_bits(decoded, reference.decode(frame))
            assert decoder.decode(frame) == decoded.tobytes()
            assert_kept(values, decoded, {"absolute": BOUND})
            if source is not values:  # what has moved once does not move again
                has_moved = once != values
                assert_same_bits(decoded[has_moved], once[has_moved])
            once = decoded if once is None else once


@pytest.mark.parametrize("dtype", ["<f4", "<f8"])
@pytest.mark.parametrize("is_narrow", [True, False])
def test_a_tile_of_any_type_may_have_any_grade(decoder: Any, dtype: str, is_narrow: bool) -> None:
    """A decoder does not ask whether an encoder would have written it."""
    values = smooth((20, 30, 8), -9000, 9000).astype(dtype)
    found = set()
    for axes in ((-3, -2, -1), (-2,)):
        parsed = reference.parse(h5lossy.encode(values, Interp(absolute=BOUND, axes=axes)))
        [payload] = parsed.tiles
        assert payload[0] & 8
        for grade, units in itertools.product(range(4), range(4)):
            changed = bytearray(payload)
            changed[0] = changed[0] & 127 | is_narrow << 7
            changed[2] = changed[2] & 15 | units << 4 | grade << 6
            frame = reference.build(dataclasses.replace(parsed, tiles=(bytes(changed),)))
            if dtype == "<f4" and not is_narrow:
                with pytest.raises(h5lossy.CorruptFrameError):
                    h5lossy.decode(frame)
                continue
            decoded = h5lossy.decode(frame)
            assert_same_bits(decoded, reference.decode(frame))
            assert decoder.decode(frame) == decoded.tobytes()
            found.add(decoded.tobytes())
    assert len(found) >= 16 or not found


@pytest.mark.parametrize("bit", [6, 7])
def test_only_closed_tiles_have_a_grade(decoder: Any, bit: int) -> None:
    values = smooth((20, 30), -9000, 9000)
    codec = Interp(absolute=BOUND, axes=(-2, -1), rewritable=True)
    parsed = reference.parse(h5lossy.encode(values, codec))
    [payload] = parsed.tiles
    assert not payload[0] & 8
    changed = bytearray(payload)
    changed[2] |= 1 << bit
    frame = reference.build(dataclasses.replace(parsed, tiles=(bytes(changed),)))
    for decode, error in (
        (h5lossy.decode, h5lossy.CorruptFrameError),
        (reference.decode, reference.Corrupt),
        (decoder.decode, decoder.Corrupt),
    ):
        with pytest.raises(error):
            decode(frame)

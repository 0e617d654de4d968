# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Interp's order of values and its predictions, as docs/format/interp.md has them."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .interp_lattice import UNIT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .common import Array

Shape = tuple[int, ...]
"""Extents of a box along w, z, y, x."""

AXES = range(4)
"""w, z, y, x."""

INTERPOLATION, LORENZO = 0, 1
"""Predictors."""

FINER_UNITS = ((), (3,), (3, 5), (2, 4))
"""Levels from which on the unit is halved, by the number of the units."""

WEIGHTS = (16, 8, 4, 2, 1, 0)
"""By weight code."""


def has_axis(axes: int, axis: int) -> bool:
    """Say whether an axis is in a set of axes, which has bit 3 for w and bit 0 for x."""
    return bool(axes >> (3 - axis) & 1)


def strides_of(shape: Shape) -> list[int]:
    """Give the distance in a tile of values that are neighbours along each axis."""
    return [math.prod(shape[axis + 1 :]) for axis in AXES]


def brick_order(counts: Sequence[int]) -> Array:
    """Give the order in which the places of a grid are visited, as numbers in raster order."""
    _, c_z, c_y, _ = counts
    brick = (1, 2, 4, 4) if c_z > 1 else (1, 1, 1, 32) if c_y == 1 else (1, 1, 4, 8)
    at = np.unravel_index(np.arange(math.prod(counts)), counts)
    keys = [a // b for a, b in zip(at, brick, strict=True)]
    keys += [a % b for a, b in zip(at, brick, strict=True)]
    return np.lexsort(keys[::-1])  # the last key counts most


def places_of(lists: Sequence[Sequence[int]], shape: Shape) -> Array:
    """Give the numbers of a tile's values that a grid has, in the order of its bricks."""
    grid = np.broadcast_arrays(*np.ix_(*map(np.asarray, lists)))
    raster = np.ravel_multi_index(grid, shape).ravel()
    return raster[brick_order([len(coordinates) for coordinates in lists])]


class Row(NamedTuple):
    """How a value is predicted along an axis: offsets, and weights in 16ths."""

    offsets: tuple[int, ...]
    weights: tuple[int, ...]


def row_of(i: int, n: int, s: int) -> Row:
    """Give the row of a coordinate on a level that is not the top one.

    `n` is the tile's extent along the axis, and `s` the half step of the level.
    """
    last = n - 1
    d = last - i
    before, after = i - 3 * s >= 0, i + 3 * s <= last
    if i + s > last:
        if not before:
            a = (16 * d + (s + d) // 2) // (s + d)
            return Row((-s, d), (a, 16 - a))
        a = (3 * s + d - 16 * d) // (2 * (3 * s + d))
        b = (48 * d + s + d) // (2 * (s + d))
        return Row((-3 * s, -s, d), (a, b, 16 - a - b))
    if not (before or after):
        return Row((-s, s), (8, 8))
    if before and after:
        return Row((-3 * s, -s, s, 3 * s), (-1, 9, 9, -1))
    if before:
        return Row((-3 * s, -s, s), (-2, 12, 6))
    return Row((-s, s, 3 * s), (6, 12, -2))


def blend_of(weight_codes: Sequence[int], odd: Sequence[int]) -> list[int]:
    """Give W of each odd axis of a pass; the sum is 16."""
    weights = [WEIGHTS[weight_codes[i]] for i in odd]
    heaviest = weights.index(max(weights))
    if not any(weights):
        weights = [1] * len(odd)
    total = sum(weights)
    blend = [(16 * weight + total // 2) // total for weight in weights]
    blend[heaviest] += 16 - sum(blend)
    return blend


class Pass(NamedTuple):
    """One pass of interpolation: its level, its odd axes of the active ones, and its values."""

    level: int
    is_top: bool
    odd: tuple[int, ...]
    places: Array


def active_axes(shape: Shape, axes: int) -> list[int]:
    """Give the axes that a tile is interpolated along."""
    return [axis for axis in AXES if has_axis(axes, axis) and shape[axis] > 1]


def _lists_of(
    shape: Shape, active: list[int], odd: tuple[int, ...], level: int, top: int
) -> list[Sequence[int]]:
    """Give the coordinates along each axis that a pass visits."""
    s = 1 << level
    lists: list[Sequence[int]] = []
    for axis, n in enumerate(shape):
        if axis not in active:
            lists.append(range(n))
        elif active.index(axis) in odd:
            lists.append([n - 1] if level == top else range(s, n - 1, 2 * s))
        elif level == top:
            lists.append([0])
        else:
            lists.append(sorted({*range(0, n, 2 * s), n - 1}))
    return lists


@functools.lru_cache(maxsize=64)
def passes_of(shape: Shape, axes: int) -> tuple[Array, list[Pass]]:
    """Give the values of pass 0 of interpolation, and the other passes."""
    active = active_axes(shape, axes)
    first = places_of([[0] if axis in active else range(shape[axis]) for axis in AXES], shape)
    longest = max((shape[axis] for axis in active), default=1)
    top = max(1, (longest - 2).bit_length())
    numbers = range(len(active))
    sets = [odd for size in (1, 2, 3) for odd in itertools.combinations(numbers, size)]
    sets.sort(key=lambda odd: (len(odd), sum(1 << (len(active) - 1 - i) for i in odd)))
    passes = []
    for level, odd in itertools.product(range(top, -1, -1), sets):
        lists = _lists_of(shape, active, odd, level, top)
        if all(len(coordinates) for coordinates in lists):
            passes.append(Pass(level, level == top, odd, places_of(lists, shape)))
    return first, passes


def coding_order(form: Form, shape: Shape, axes: int) -> Array:
    """Give the order in which the values of a tile are coded, as numbers in raster order."""
    if form.predictor == LORENZO:
        return places_of([range(n) for n in shape], shape)
    first, passes = passes_of(shape, axes)
    return np.concatenate([first, *(step.places for step in passes)])


@dataclasses.dataclass(frozen=True)
class Form:
    """How a tile is coded."""

    predictor: int  # 0: interpolation; 1: Lorenzo
    weight_codes: tuple[int, ...] = ()  # interpolation: weight code of each active axis
    axes: int = 0  # Lorenzo: its axes
    is_fine: bool = False  # integers are fine points, otherwise bins
    is_closed: bool = False  # the closed form
    units: int = 0  # which units it has
    grade: int = 0  # closed: predictions are rounded to multiples of 2^grade

    def unit(self, level: int) -> int:
        """Say what residuals of a level count."""
        if not self.is_closed:
            return 1
        unit = UNIT >> sum(level >= first for first in FINER_UNITS[self.units])
        return max(unit, 1 << self.grade)

    def rounded(self, predictions: Array) -> Array:
        """Round predictions to multiples of 2^grade."""
        half, multiples = predictions.dtype.type((1 << self.grade) >> 1), -(1 << self.grade)
        result: Array = (predictions + half) & predictions.dtype.type(multiples)
        return result


def units_of(form: Form, shape: Shape, axes: int) -> Array:
    """Give the unit of each residual, in coding order."""
    if not form.is_closed:
        return np.ones(math.prod(shape), "<i8")
    first, passes = passes_of(shape, axes)
    top = passes[0].level if passes else 1
    units = [form.unit(top), *(form.unit(step.level) for step in passes)]
    return np.repeat(units, [first.size, *(step.places.size for step in passes)])


def predict(q: Array, form: Form, shape: Shape, active: list[int], step: Pass) -> Array:
    """Predict the values of a pass from the integers of earlier ones, in the type of these."""
    coordinates = np.unravel_index(step.places, shape)
    total = np.zeros(step.places.size, q.dtype)
    for number, weight in zip(step.odd, blend_of(form.weight_codes, step.odd), strict=True):
        axis = active[number]
        n, s, stride = shape[axis], 1 << step.level, strides_of(shape)[axis]
        part = np.zeros_like(total)
        alike: dict[Row, list[int]] = {}
        for i in np.unique(coordinates[axis]).tolist():
            row = Row((-i,), (16,)) if step.is_top else row_of(i, n, s)
            alike.setdefault(row, []).append(i)
        for row, group in alike.items():
            here = np.flatnonzero(np.isin(coordinates[axis], group))
            for offset, weight_of_row in zip(row.offsets, row.weights, strict=True):
                at = step.places[here] + offset * stride
                part[here] += q.dtype.type(weight_of_row) * q[at]
        total += q.dtype.type(weight) * part
    return form.rounded((total + 128) >> 8)


def interpolate(changes: Array, form: Form, shape: Shape, axes: int) -> Array:
    """Give the integers of a tile, in raster order, from their differences to their predictions.

    The differences are in coding order, and the first is the first integer. Their type is that of
    all sums.
    """
    first, passes = passes_of(shape, axes)
    active = active_axes(shape, axes)
    q = np.zeros_like(changes)
    q[first[:1]] = changes[:1]
    for i in range(1, first.size):
        q[first[i : i + 1]] = form.rounded(q[first[i - 1 : i]]) + changes[i : i + 1]
    done = first.size
    for step in passes:
        here = changes[done : done + step.places.size]
        q[step.places] = predict(q, form, shape, active, step) + here
        done += here.size
    return q


def undo_lorenzo(changes: Array, axes: int, shape: Shape) -> Array:
    """Give the integers of a tile, in raster order, from differences to Lorenzo's predictions.

    The differences are in coding order, and the first is the first integer.
    """
    box = np.zeros(changes.size, changes.dtype)
    box[places_of([range(n) for n in shape], shape)] = changes
    box = box.reshape(shape)
    # Where no axis of Lorenzo's counts, each value is predicted by one neighbour.
    edge = box[tuple(slice(0, 1) if has_axis(axes, axis) else slice(None) for axis in AXES)]
    for axis in AXES:
        start = _starting(edge, axis)
        start[...] = np.cumsum(start, axis=axis, dtype=box.dtype)
    # Everywhere else the difference is one along all axes of Lorenzo's that count.
    for axis in AXES:
        if has_axis(axes, axis):
            box = np.cumsum(box, axis=axis, dtype=box.dtype)
    return box.ravel()


def _starting(box: Array, axis: int) -> Array:
    """Give the values whose coordinates behind an axis are all 0."""
    part: Array = box[(*[slice(None)] * (axis + 1), *[slice(0, 1)] * (3 - axis))]
    return part


def lorenzo(q: Array, axes: int, shape: Shape) -> Array:
    """Undo `undo_lorenzo`."""
    box = q.reshape(shape)
    for axis in AXES:
        if has_axis(axes, axis):
            box = np.diff(box, axis=axis, prepend=np.zeros_like(_first(box, axis)))
    edge_at = tuple(slice(0, 1) if has_axis(axes, axis) else slice(None) for axis in AXES)
    edge = q.reshape(shape)[edge_at]
    box = box.copy()
    for axis in AXES:
        start = _starting(edge, axis)
        _behind(_starting(box[edge_at], axis), axis)[...] = np.diff(start, axis=axis)
    return box.ravel()[places_of([range(n) for n in shape], shape)]


def _first(box: Array, axis: int) -> Array:
    """Give the values whose coordinate along an axis is 0."""
    part: Array = box[(*[slice(None)] * axis, slice(0, 1))]
    return part


def _behind(box: Array, axis: int) -> Array:
    """Give the values whose coordinate along an axis is not 0."""
    part: Array = box[(*[slice(None)] * axis, slice(1, None))]
    return part


def fill_exceptions(q: Array, is_free: Array, base: int, shape: Shape) -> Array:
    """Give exceptions the integers of values before them, which Lorenzo prediction has for them.

    A free value, an exception that has no integer yet, gets that of the value one back along x, or
    else y, z, w, and the tile's base before the first.
    """
    filled = np.where(is_free, 0, q)
    filled[0] = base
    known = ~is_free
    known[0] = True
    filled, known = filled.reshape(shape), known.reshape(shape)
    for axis in AXES:
        part, is_known = _starting(filled, axis), _starting(known, axis)
        index = np.arange(shape[axis]).reshape([-1 if a == axis else 1 for a in AXES])
        last = np.maximum.accumulate(np.where(is_known, index, 0), axis=axis)
        part[...] = np.take_along_axis(part, last, axis=axis)
        is_known[...] = True
    return filled.ravel()


def predict_exceptions(q: Array, is_free: Array, base: int, axes: int, shape: Shape) -> Array:
    """Give exceptions the integers that Lorenzo prediction has for them."""
    filled = q.copy()
    strides = strides_of(shape)
    for place in np.flatnonzero(is_free).tolist():
        at = np.unravel_index(place, shape)
        back = [axis for axis in AXES if at[axis]]
        along = [strides[axis] for axis in back if has_axis(axes, axis)] or [
            strides[axis] for axis in back[-1:]
        ]
        filled[place] = base if not back else 0
        for size in range(1, len(along) + 1):
            for some in itertools.combinations(along, size):
                filled[place] -= (-1) ** size * filled[place - sum(some)]
    return filled

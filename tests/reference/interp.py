# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Codec 4, Interp, as docs/format/interp.md has it."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import blocks, interp_tables, pfpl
from .common import Array, Corrupt, FloatType, Kind, Quantiser, Tiling

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    Shape = tuple[int, ...]
    """Extents of a box along w, z, y, x."""

NUMBER = 4

REWRITABLE = 16
"""Bit 4 of a mode."""

MODES = {
    rewritable | axes: 4
    for rewritable in (0, REWRITABLE)
    for axes in range(1, 16)
    if axes.bit_count() <= 3
}
"""Modes the codec knows, and how many dims a frame of that mode has."""

REQUESTS = {0, REWRITABLE, *MODES}
"""Modes that an encoder can be asked for: without axes, it picks them."""

HAS_LOSSLESS = False

AUTO_MODES: list[int] = []
"""Modes that codec auto compares."""

AXES = range(4)
"""w, z, y, x."""

PER_TILE = 32768
"""Values that a tile can have."""

BLOCK = 32
"""Residuals of a block."""

STEP_FACTOR = 4057 / 4096
"""c."""

UNIT = 16
"""Fine points to a step."""

LORENZO = 3
"""The predictor that is no interpolation."""

LANES = (1, 4, 16, 32)

ESCAPE_BYTES = (2, 4, 8)

ESCAPE = 15
"""The symbol of an escape."""

WEIGHTS = (16, 8, 4, 2, 1, 0)
"""By weight code."""

MODELS = len(interp_tables.CLASSES)

LARGEST_RAW = 48
"""Raw words that every block can have."""

SKIP = 0xFFFF
"""The entry of patches that only moves on."""


def has_axis(axes: int, axis: int) -> bool:
    """Say whether an axis is in a set of axes, which has bit 3 for w and bit 0 for x."""
    return bool(axes >> (3 - axis) & 1)


def strides_of(shape: Shape) -> list[int]:
    """Give the distance in a tile of values that are neighbours along each axis."""
    return [math.prod(shape[axis + 1 :]) for axis in AXES]


# ------------------------------------------------------------------------------------------------
# Modes and tiles
# ------------------------------------------------------------------------------------------------


def chosen_mode(mode: int, extents: Sequence[int]) -> int:
    """
    Give the mode that an encoder takes for a chunk.

    Parameters
    ----------
    mode : int
        The mode that was asked for; without axes, the encoder picks them.
    extents : sequence of int
        The chunk's extents other than 1.

    Returns
    -------
    int
        The mode, with at least one axis.
    """
    if mode & ~REWRITABLE:
        return mode
    return mode | (1 << min(3, max(1, len(extents)))) - 1


@dataclasses.dataclass(frozen=True)
class Boxes:
    """
    Tiles that are boxes.

    Parameters
    ----------
    dims : tuple of int
        The chunk's w, z, y, x.
    piece : tuple of int
        A full tile's.
    """

    dims: Shape
    piece: Shape

    @property
    def grid(self) -> Shape:
        """Number of tiles along each axis."""
        return tuple(-(-n // p) for n, p in zip(self.dims, self.piece, strict=True))

    @property
    def tile_count(self) -> int:
        """Number of tiles."""
        return math.prod(self.grid)

    def box(self, tile: int) -> tuple[slice, ...]:
        """
        Say where a tile lies.

        Parameters
        ----------
        tile : int
            Number of the tile.

        Returns
        -------
        tuple of slice
            Its coordinates along each axis.
        """
        corner = np.unravel_index(tile, self.grid)
        return tuple(
            slice(int(at) * p, min((int(at) + 1) * p, n))
            for at, p, n in zip(corner, self.piece, self.dims, strict=True)
        )

    def places(self, tile: int) -> Array:
        """
        Say which values a tile holds.

        Parameters
        ----------
        tile : int
            Number of the tile.

        Returns
        -------
        numpy.ndarray
            Numbers of its values in the chunk.
        """
        ranges = np.ix_(*(np.arange(s.start, s.stop) for s in self.box(tile)))
        return np.ravel_multi_index(np.broadcast_arrays(*ranges), self.dims).ravel()

    def inside(self, tile: int) -> Array:
        """
        Say which positions of a tile's box hold a value: all of them.

        Parameters
        ----------
        tile : int
            Number of the tile.

        Returns
        -------
        numpy.ndarray
            An array of the shape of the box.
        """
        return np.ones([s.stop - s.start for s in self.box(tile)], bool)


def tiling(
    count: int, float_type: FloatType, mode: int = 0, dims: tuple[int, ...] | None = None
) -> Tiling:
    """
    Say how a chunk is cut into tiles.

    Parameters
    ----------
    count : int
        Number of values; only looked at without dims.
    float_type : FloatType
        Not looked at: both types have as many values in a tile.
    mode : int
        The frame's mode.
    dims : tuple of int, optional
        The frame's dims.

    Returns
    -------
    Tiling
        The tiles.
    """
    dims = dims or (1, 1, 1, count)
    pieces, parts = list(dims), [1] * 4
    while math.prod(pieces) > PER_TILE:
        long = [axis for axis in AXES if pieces[axis] > 1]
        candidates = [axis for axis in long if not has_axis(mode, axis)] or long
        axis = max(candidates, key=lambda axis: pieces[axis])
        parts[axis] *= 2
        pieces[axis] = -(-dims[axis] // parts[axis])
    return Boxes(tuple(dims), tuple(pieces))


# ------------------------------------------------------------------------------------------------
# The lattice
# ------------------------------------------------------------------------------------------------


def own_quantiser(quantiser: Quantiser, float_type: FloatType) -> Quantiser:
    """
    Give the quantiser that goes with a bound.

    Parameters
    ----------
    quantiser : Quantiser
        PFPL's.
    float_type : FloatType
        Type of the values.

    Returns
    -------
    Quantiser
        This codec's, with its smaller step and B; lossless where B is too small.
    """
    if quantiser.kind in {Kind.POINTWISE_RELATIVE, Kind.LOSSLESS}:
        return quantiser
    bound = pfpl.bits_to_float(quantiser.step) / 2.0
    if bound < 2.0 ** (6 - float_type.bias):
        return Quantiser(Kind.LOSSLESS, 0)
    half = float_type.number(bound) * float_type.number(STEP_FACTOR)
    return Quantiser(quantiser.kind, pfpl.float_to_bits(2.0 * float(half)), bound)


def fine_limit(float_type: FloatType) -> int:
    """Give G, the largest number of a fine point that an encoder uses."""
    return 2**15 - 1 if float_type.size == 4 else 2**20


def lattice_values(
    q: Array, float_type: FloatType, quantiser: Quantiser, *, is_fine: bool
) -> Array:
    """
    Give the patterns of lattice points.

    Parameters
    ----------
    q : numpy.ndarray
        Their numbers, as signed integers of any size; the lowest W bits count.
    float_type : FloatType
        Type of the values.
    quantiser : Quantiser
        Bound kind and step.
    is_fine : bool
        They are fine points, otherwise bins.

    Returns
    -------
    numpy.ndarray
        The patterns.
    """
    if not is_fine:
        return blocks.dequantise(q, float_type, quantiser)
    step = float_type.number(pfpl.bits_to_float(quantiser.step))
    with np.errstate(all="ignore"):
        fine = step * float_type.number(1 / UNIT)
        values = q.astype(f"<i{float_type.size}").astype(float_type.float_dtype) * fine
    patterns: Array = values.view(float_type.word_dtype)
    return patterns


@dataclasses.dataclass(frozen=True)
class Values:
    """
    What the values of a tile are.

    Parameters
    ----------
    bits : numpy.ndarray
        Their patterns.
    shape : tuple of int
        Extents of the tile.
    float_type : FloatType
        Their type.
    quantiser : Quantiser
        Bound kind, step and B.
    fill_bits : int or None
        The fill value's pattern, if it counts.
    k, g, parts : numpy.ndarray
        Number of the bin, of the fine point, and the place in 64ths of the distance of fine points
        (X), as int64; 0 where there is none.
    has_bin, has_fine, is_kept : numpy.ndarray
        Of each value, whether it has them, and whether it is kept.
    """

    bits: Array
    shape: Shape
    float_type: FloatType
    quantiser: Quantiser
    fill_bits: int | None
    k: Array
    g: Array
    parts: Array
    has_bin: Array
    has_fine: Array
    is_kept: Array

    def is_good(self, q: Array, *, is_fine: bool) -> Array:
        """
        Say of lattice points whether they are good for the values.

        Parameters
        ----------
        q : numpy.ndarray
            Number of a lattice point for each value.
        is_fine : bool
            They are fine points, otherwise bins.

        Returns
        -------
        numpy.ndarray
            A boolean for each value.
        """
        return _is_good(
            self.bits, q, self.float_type, self.quantiser, self.fill_bits, is_fine=is_fine
        )

    @property
    def is_exception(self) -> Array:
        """Of each value, whether it is an exception in every form."""
        result: Array = ~self.has_bin & ~self.has_fine
        return result

    @property
    def is_off_bins(self) -> Array:
        """Of each value, whether it is kept, and no bin."""
        result: Array = self.is_kept & (self.g != UNIT * self.k)
        return result


def _is_good(
    bits: Array,
    q: Array,
    float_type: FloatType,
    quantiser: Quantiser,
    fill_bits: int | None,
    *,
    is_fine: bool,
) -> Array:
    """
    Say of lattice points whether they are good for values.

    Parameters
    ----------
    bits : numpy.ndarray
        Patterns of the values.
    q : numpy.ndarray
        Number of a lattice point for each value.
    float_type : FloatType
        Type of the values.
    quantiser : Quantiser
        Bound kind, step and B.
    fill_bits : int or None
        The fill value's pattern, if it counts.
    is_fine : bool
        They are fine points, otherwise bins.

    Returns
    -------
    numpy.ndarray
        A boolean for each value.
    """
    points = lattice_values(q, float_type, quantiser, is_fine=is_fine)
    with np.errstate(all="ignore"):
        error = bits.view(float_type.float_dtype) - points.view(float_type.float_dtype)
    good: Array = np.abs(error) < float_type.number(quantiser.bound)
    return good if fill_bits is None else good & (points != fill_bits)


def values_of(
    bits: Array,
    shape: Shape,
    float_type: FloatType,
    quantiser: Quantiser,
    fill_bits: int | None = None,
) -> Values:
    """
    Find bins and fine points of a tile's values.

    Parameters
    ----------
    bits : numpy.ndarray
        Patterns of the values.
    shape : tuple of int
        Extents of the tile.
    float_type : FloatType
        Type of the values.
    quantiser : Quantiser
        Bound kind, step and B.
    fill_bits : int, optional
        The fill value's pattern.

    Returns
    -------
    Values
        What they are.
    """
    if quantiser.kind == Kind.POINTWISE_RELATIVE:
        q, is_exception = blocks.quantise(bits, float_type, quantiser, fill_bits)
        nothing, none = np.zeros(bits.size, "<i8"), np.zeros(bits.size, bool)
        return Values(
            bits, shape, float_type, quantiser, fill_bits,
            q.astype("<i8"), nothing, nothing, ~is_exception, none, none,
        )  # fmt: skip
    is_good = functools.partial(
        _is_good, float_type=float_type, quantiser=quantiser, fill_bits=fill_bits
    )
    x = bits.view(float_type.float_dtype)
    step = float_type.number(pfpl.bits_to_float(quantiser.step))
    inverse = float_type.number(1.0) / step
    zero = float_type.number(0.0)
    limit, bin_limit = fine_limit(float_type), 1 << (float_type.mantissa_bits - 2)
    with np.errstate(all="ignore"):
        can_be = np.isfinite(x)
        if fill_bits is not None:
            can_be &= bits != fill_bits
        t = x * (inverse * float_type.number(UNIT))
        has_fine = can_be & (np.abs(t) < float_type.number(limit + 1))
        parts = np.rint(np.where(has_fine, t, zero) * float_type.number(64)).astype("<i8")
        g = (parts + 32) >> 6
        has_fine &= (np.abs(g) <= limit) & is_good(bits, g, is_fine=True)
        parts, g = np.where(has_fine, parts, 0), np.where(has_fine, g, 0)
        points = lattice_values(g, float_type, quantiser, is_fine=True)
        is_kept = has_fine & (x == points.view(float_type.float_dtype))
        s = x * inverse
        has_bin = can_be & (has_fine | (np.abs(s) < float_type.number(bin_limit)))
        k = np.rint(np.where(has_bin & ~has_fine, s, zero)).astype("<i8")
        k = np.where(has_fine, (parts + 512) >> 10, k)
        has_bin &= is_good(bits, k, is_fine=False)
    k = np.where(has_bin | has_fine, k, 0)
    return Values(
        bits, shape, float_type, quantiser, fill_bits, k, g, parts, has_bin, has_fine, is_kept
    )


# ------------------------------------------------------------------------------------------------
# Order and prediction
# ------------------------------------------------------------------------------------------------


def brick_order(counts: Sequence[int]) -> Array:
    """
    Say in which order the places of a grid are visited.

    Parameters
    ----------
    counts : sequence of int
        Number of coordinates along each axis.

    Returns
    -------
    numpy.ndarray
        Numbers of the places in raster order.
    """
    _, c_z, c_y, _ = counts
    brick = (1, 2, 4, 4) if c_z > 1 else (1, 1, 1, 32) if c_y == 1 else (1, 1, 4, 8)
    at = np.unravel_index(np.arange(math.prod(counts)), counts)
    keys = [a // b for a, b in zip(at, brick, strict=True)]
    keys += [a % b for a, b in zip(at, brick, strict=True)]
    return np.lexsort(keys[::-1])  # the last key counts most


def places_of(lists: Sequence[Sequence[int]], shape: Shape) -> Array:
    """
    Say which values of a tile a grid has, in the order of its bricks.

    Parameters
    ----------
    lists : sequence
        Coordinates along each axis.
    shape : tuple of int
        Extents of the tile.

    Returns
    -------
    numpy.ndarray
        Numbers of the values.
    """
    grid = np.broadcast_arrays(*np.ix_(*map(np.asarray, lists)))
    raster = np.ravel_multi_index(grid, shape).ravel()
    return raster[brick_order([len(coordinates) for coordinates in lists])]


class Row(NamedTuple):
    """How a value is predicted along an axis: offsets, and weights in 16ths or 256ths."""

    offsets: tuple[int, ...]
    weights: tuple[int, ...]

    @property
    def is_in_256ths(self) -> bool:
        """The weights are in 256ths."""
        return len(self.offsets) == 6


def row_of(i: int, n: int, s: int, points: int) -> Row:
    """
    Give the row of a coordinate on a level that is not the top one.

    Parameters
    ----------
    i : int
        The coordinate.
    n : int
        Extent of the tile along the axis.
    s : int
        Half step of the level.
    points : int
        K, the number of points that the predictor has: 2, 4 or 6.

    Returns
    -------
    Row
        The row.
    """
    last = n - 1
    d = last - i
    before, after = i - 3 * s >= 0, i + 3 * s <= last
    if i + s > last:
        if points == 2 or not before:
            a = (16 * d + (s + d) // 2) // (s + d)
            return Row((-s, d), (a, 16 - a))
        a = (3 * s + d - 16 * d) // (2 * (3 * s + d))
        b = (48 * d + s + d) // (2 * (s + d))
        return Row((-3 * s, -s, d), (a, b, 16 - a - b))
    if points == 2 or not (before or after):
        return Row((-s, s), (8, 8))
    if points == 6 and i - 5 * s >= 0 and i + 5 * s <= last:
        return Row((-5 * s, -3 * s, -s, s, 3 * s, 5 * s), (3, -25, 150, 150, -25, 3))
    if before and after:
        return Row((-3 * s, -s, s, 3 * s), (-1, 9, 9, -1))
    if before:
        return Row((-3 * s, -s, s), (-2, 12, 6))
    return Row((-s, s, 3 * s), (6, 12, -2))


def blend_of(weight_codes: Sequence[int], odd: Sequence[int]) -> list[int]:
    """
    Give the weights of the odd axes of a pass.

    Parameters
    ----------
    weight_codes : sequence of int
        Weight code of each active axis.
    odd : sequence of int
        Numbers of the odd ones.

    Returns
    -------
    list of int
        W of each odd axis; the sum is 16.
    """
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


def _lists_of(shape: Shape, active: list[int], odd: tuple[int, ...], level: int, top: int) -> Any:
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
    """
    Say which values the passes of interpolation have.

    Parameters
    ----------
    shape : tuple of int
        Extents of the tile.
    axes : int
        Axes of the mode.

    Returns
    -------
    places : numpy.ndarray
        Values of pass 0.
    passes : list of Pass
        The other passes.
    """
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


@dataclasses.dataclass(frozen=True)
class Form:
    """
    How a tile is coded.

    Parameters
    ----------
    predictor : int
        0, 1 or 2: interpolation with 2, 4, or 6 points; 3: Lorenzo.
    weight_codes : tuple of int
        Interpolation: weight code of each active axis.
    axes : int
        Lorenzo: its axes.
    is_fine : bool
        Integers are fine points, otherwise bins.
    is_closed : bool
        The closed form.
    """

    predictor: int
    weight_codes: tuple[int, ...] = ()
    axes: int = 0
    is_fine: bool = False
    is_closed: bool = False

    @property
    def points(self) -> int:
        """K."""
        return 2 * self.predictor + 2

    @property
    def unit(self) -> int:
        """What residuals count."""
        return UNIT if self.is_closed else 1


def predict(q: Array, form: Form, shape: Shape, active: list[int], step: Pass) -> Array:
    """
    Predict the values of a pass.

    Parameters
    ----------
    q : numpy.ndarray
        Integers of the tile, those of earlier passes being known; their type is that of the sums.
    form : Form
        Predictor and weights.
    shape : tuple of int
        Extents of the tile.
    active : list of int
        The active axes.
    step : Pass
        The pass.

    Returns
    -------
    numpy.ndarray
        The predictions.
    """
    coordinates = np.unravel_index(step.places, shape)
    total = np.zeros(step.places.size, q.dtype)
    for number, weight in zip(step.odd, blend_of(form.weight_codes, step.odd), strict=True):
        axis = active[number]
        n, s, stride = shape[axis], 1 << step.level, strides_of(shape)[axis]
        part = np.zeros_like(total)
        alike: dict[Row, list[int]] = {}
        for i in np.unique(coordinates[axis]).tolist():
            row = Row((-i,), (16,)) if step.is_top else row_of(i, n, s, form.points)
            alike.setdefault(row, []).append(i)
        for row, group in alike.items():
            here = np.flatnonzero(np.isin(coordinates[axis], group))
            sums = np.zeros(here.size, q.dtype)
            for offset, weight_of_row in zip(row.offsets, row.weights, strict=True):
                at = step.places[here] + offset * stride
                sums += q.dtype.type(weight_of_row) * q[at]
            part[here] = (sums + 8) >> 4 if row.is_in_256ths else sums
        total += q.dtype.type(weight) * part
    return (total + 128) >> 8


def interpolate(changes: Array, form: Form, shape: Shape, axes: int) -> Array:
    """
    Give the integers of a tile from their differences to their predictions.

    Parameters
    ----------
    changes : numpy.ndarray
        The differences, in coding order; the first is the first integer. Their type is that of all
        sums.
    form : Form
        Predictor and weights.
    shape : tuple of int
        Extents of the tile.
    axes : int
        Axes of the mode.

    Returns
    -------
    numpy.ndarray
        The integers, in raster order.
    """
    first, passes = passes_of(shape, axes)
    active = active_axes(shape, axes)
    q = np.zeros_like(changes)
    q[first] = np.cumsum(changes[: first.size], dtype=q.dtype)
    done = first.size
    for step in passes:
        here = changes[done : done + step.places.size]
        q[step.places] = predict(q, form, shape, active, step) + here
        done += here.size
    return q


def undo_lorenzo(changes: Array, axes: int, shape: Shape) -> Array:
    """
    Give the integers of a tile from their differences to Lorenzo's predictions.

    Parameters
    ----------
    changes : numpy.ndarray
        The differences, in coding order; the first is the first integer.
    axes : int
        Lorenzo's axes.
    shape : tuple of int
        Extents of the tile.

    Returns
    -------
    numpy.ndarray
        The integers, in raster order.
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
    """
    Undo `undo_lorenzo`.

    Parameters
    ----------
    q : numpy.ndarray
        Integers, in raster order.
    axes : int
        Lorenzo's axes.
    shape : tuple of int
        Extents of the tile.

    Returns
    -------
    numpy.ndarray
        Their differences to their predictions, in coding order.
    """
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


def fill_exceptions(q: Array, is_exception: Array, base: int, shape: Shape) -> Array:
    """
    Give exceptions the integers that Lorenzo prediction has for them.

    Parameters
    ----------
    q : numpy.ndarray
        Integers of the tile, of no meaning for exceptions.
    is_exception : numpy.ndarray
        Of each value, whether it is an exception.
    base : int
        The tile's base.
    shape : tuple of int
        Extents of the tile.

    Returns
    -------
    numpy.ndarray
        The integers; of an exception, that of the value one back along x, or else y, z, w.
    """
    filled = np.where(is_exception, 0, q)
    filled[0] = base
    known = ~is_exception
    known[0] = True
    filled, known = filled.reshape(shape), known.reshape(shape)
    for axis in AXES:
        part, is_known = _starting(filled, axis), _starting(known, axis)
        index = np.arange(shape[axis]).reshape([-1 if a == axis else 1 for a in AXES])
        last = np.maximum.accumulate(np.where(is_known, index, 0), axis=axis)
        part[...] = np.take_along_axis(part, last, axis=axis)
        is_known[...] = True
    return filled.ravel()


# ------------------------------------------------------------------------------------------------
# Exceptions and patches
# ------------------------------------------------------------------------------------------------


def pack_bitmap(flags: Array) -> bytes:
    """
    Write a bitmap.

    Parameters
    ----------
    flags : numpy.ndarray
        A boolean for each value of the tile.

    Returns
    -------
    bytes
        The words that say which of its words are not 0, and these.
    """
    words = np.frombuffer(blocks.pack_flags(flags, 32 * -(-flags.size // 32)), "<u4")
    starts = range(0, words.size, 32)
    groups = [blocks.pack_flags(words[start : start + 32] != 0, 32) for start in starts]
    used = [any(group) for group in groups]
    packed = blocks.pack_flags(np.array(used), 32)
    return packed + b"".join(filter(any, groups)) + words[words != 0].tobytes()


def take_bitmap(reader: blocks.Reader, count: int) -> Array:
    """
    Undo `pack_bitmap`.

    Parameters
    ----------
    reader : blocks.Reader
        The payload; the bitmap is taken from it.
    count : int
        Number of values of the tile.

    Returns
    -------
    numpy.ndarray
        A boolean for each value.

    Raises
    ------
    Corrupt
        The bitmap contradicts itself.
    """
    used: list[int] = []
    for group in np.flatnonzero(reader.take_flags(4)).tolist():
        here = np.flatnonzero(reader.take_flags(4)) + 32 * group
        if here.size == 0:
            raise Corrupt("a group of a bitmap that has no words")
        used += here.tolist()
    words = np.zeros((-(-count // 32), 32), bool)
    if used and used[-1] >= len(words):
        raise Corrupt("a bitmap with more words than the tile has")
    for number in used:
        words[number] = reader.take_flags(4)
        if not words[number].any():
            raise Corrupt("a word of a bitmap that is 0 is said not to be")
    flags = words.ravel()
    if flags[count:].any():
        raise Corrupt("a bitmap with a bit for a value that the tile does not have")
    return flags[:count]


def pack_exceptions(bits: Array, is_exception: Array, shape: Shape) -> bytes:
    """
    Write the exceptions of a tile.

    Parameters
    ----------
    bits : numpy.ndarray
        Patterns of the tile's values.
    is_exception : numpy.ndarray
        Of each of these, whether it is an exception; one is.
    shape : tuple of int
        Extents of the tile.

    Returns
    -------
    bytes
        The exceptions.
    """
    patterns = bits[is_exception]
    first, middle = patterns[0], patterns[patterns.size // 2]
    common = middle if np.sum(patterns == middle) > np.sum(patterns == first) else first
    is_other = is_exception & (bits != common)
    best, stride = pack_bitmap(is_exception), 0
    strides = strides_of(shape)
    for number, t in enumerate(strides, 1):
        if t >= bits.size or (number > 1 and t == strides[number - 2]):
            continue
        changed = is_exception.copy()
        changed[t:] ^= is_exception[:-t]
        packed = pack_bitmap(changed)
        if len(packed) < len(best):
            best, stride = packed, number
    has_others = bool(is_other.any())
    section = common.tobytes() + (stride | has_others << 3).to_bytes(4, "little") + best
    if has_others:
        section += pack_bitmap(is_other) + bits[is_other].tobytes()
    return section


def take_exceptions(
    reader: blocks.Reader, shape: Shape, float_type: FloatType
) -> tuple[Array, Array]:
    """
    Undo `pack_exceptions`.

    Parameters
    ----------
    reader : blocks.Reader
        The payload; the exceptions are taken from it.
    shape : tuple of int
        Extents of the tile.
    float_type : FloatType
        Type of the values.

    Returns
    -------
    is_exception : numpy.ndarray
        Of each value, whether it is an exception.
    bits : numpy.ndarray
        Patterns of these.

    Raises
    ------
    Corrupt
        The exceptions contradict themselves.
    """
    count = math.prod(shape)
    common = np.frombuffer(reader.take(float_type.size), float_type.word_dtype)
    flags = int.from_bytes(reader.take(4), "little")
    number = flags & 7
    if flags > 15 or number > 4:
        raise Corrupt(f"flags {flags:#x} of exceptions")
    stride = strides_of(shape)[number - 1] if number else 0
    if stride >= count:
        raise Corrupt(f"a bitmap of {count} values that repeats after {stride}")
    is_exception = take_bitmap(reader, count)
    if stride:
        lines = np.zeros((-(-count // stride), stride), bool)
        lines.ravel()[:count] = is_exception
        is_exception = np.logical_xor.accumulate(lines, axis=0).ravel()[:count]
    bits = np.full(count, common)
    if flags & 8:
        is_other = take_bitmap(reader, count)
        if np.any(is_other & ~is_exception):
            raise Corrupt("a value that has bits of its own and is no exception")
        patterns = reader.take(int(is_other.sum()) * float_type.size)
        bits[is_other] = np.frombuffer(patterns, float_type.word_dtype)
    return is_exception, bits


def pack_patches(patches: Array) -> list[int]:
    """
    Write the patches of a tile.

    Parameters
    ----------
    patches : numpy.ndarray
        Of each value, how far it is from the fine point of its integer.

    Returns
    -------
    list of int
        The entries.
    """
    entries: list[int] = []
    at = -1
    for place in np.flatnonzero(patches).tolist():
        while place - at > 4095:
            entries.append(SKIP)
            at += 4095
        delta = int(patches[place])
        entries.append((place - at - 1) << 4 | (delta + 8 if delta < 0 else delta + 7))
        at = place
    return entries


def unpack_patches(entries: Iterable[int], count: int) -> Array:
    """
    Undo `pack_patches`.

    Parameters
    ----------
    entries : iterable of int
        The entries.
    count : int
        Number of values of the tile.

    Returns
    -------
    numpy.ndarray
        Of each value, how far it is from the fine point of its integer, as int64.

    Raises
    ------
    Corrupt
        A patch of a value that the tile does not have.
    """
    patches = np.zeros(count, "<i8")
    at = -1
    for entry in entries:
        if entry == SKIP:
            at += 4095
            continue
        at += 1 + (entry >> 4)
        if at >= count:
            raise Corrupt(f"a patch of value {at}, in a tile of {count}")
        patches[at] = (entry & 15) - (8 if entry & 8 == 0 else 7)
    return patches


# ------------------------------------------------------------------------------------------------
# The coder
# ------------------------------------------------------------------------------------------------


def raw_words_of(classes: Array, of_all: int) -> Array:
    """Give the number of raw words of blocks, from their classes and from R."""
    words: Array = of_all + np.maximum(0, classes - 4)
    return words


def table_of(symbol_class: int) -> int:
    """Give the number of the table that has the symbols of a class that is not 0."""
    return min(symbol_class, 5) - 1


def class_order(count: int, lanes: int) -> Iterator[tuple[int, int, bool]]:
    """
    Go through the blocks of a tile in the order of their classes.

    Parameters
    ----------
    count : int
        Number of blocks.
    lanes : int
        Number of lanes.

    Yields
    ------
    lane : int
        The lane that codes a class.
    block : int
        Number of its block.
    is_first : bool
        It is the lane's first.
    """
    each = -(-count // lanes)
    for j, lane in itertools.product(range(each), range(lanes)):
        block = lane * each + j
        if block < count:
            yield lane, block, j == 0


def context_of(classes: Sequence[int], block: int, is_first: bool) -> int:
    """Give the context of a block's class."""
    return 16 if is_first else classes[block - 1]


def _sums_before(frequencies: Sequence[int]) -> list[int]:
    """Give C: for each symbol, the sum of the frequencies before its own."""
    return [0, *itertools.accumulate(frequencies)][:-1]


@functools.cache
def _slots(frequencies: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """Give the symbol of each slot, and C."""
    symbols = [symbol for symbol, f in enumerate(frequencies) for _ in range(f)]
    return symbols, _sums_before(frequencies)


class Decoder:
    """
    The lanes of a payload.

    Parameters
    ----------
    data : bytes
        The payload from the states on.
    lanes : int
        Number of lanes.

    Raises
    ------
    Corrupt
        The states do not fit.
    """

    def __init__(self, data: bytes, lanes: int) -> None:
        if len(data) < 4 * lanes:
            raise Corrupt(f"{len(data)} bytes for {lanes} states")
        self._states = np.frombuffer(data, "<u4", lanes).tolist()
        self._words = np.frombuffer(data[4 * lanes :], "<u2").tolist()
        self._at = 0
        self._begin = 4 * lanes

    @property
    def end(self) -> int:
        """Where the words end that were taken."""
        return self._begin + 2 * self._at

    @property
    def is_at_rest(self) -> bool:
        """All states are what they were before the encoder's first symbol."""
        return all(state == 1 << 16 for state in self._states)

    def symbol(self, lane: int, frequencies: tuple[int, ...]) -> int:
        """
        Decode a symbol.

        Parameters
        ----------
        lane : int
            Number of the lane.
        frequencies : tuple of int
            Those of the symbols.

        Returns
        -------
        int
            The symbol.

        Raises
        ------
        Corrupt
            There are no more words.
        """
        symbols, before = _slots(frequencies)
        state = self._states[lane]
        slot = state & 2047
        symbol = symbols[slot]
        state = frequencies[symbol] * (state >> 11) + slot - before[symbol]
        if state < 1 << 16:
            if self._at == len(self._words):
                raise Corrupt("words run into the end of the payload")
            state = state << 16 | self._words[self._at]
            self._at += 1
        self._states[lane] = state
        return symbol


class Encoder:
    """
    The lanes of a payload that is being made, from its last symbol to its first.

    Parameters
    ----------
    lanes : int
        Number of lanes.
    """

    def __init__(self, lanes: int) -> None:
        self._states = [1 << 16] * lanes
        self._words: list[int] = []

    def put(self, lane: int, symbol: int, frequencies: tuple[int, ...]) -> None:
        """
        Encode a symbol.

        Parameters
        ----------
        lane : int
            Number of the lane.
        symbol : int
            The symbol.
        frequencies : tuple of int
            Those of the symbols.
        """
        frequency, before = frequencies[symbol], _slots(frequencies)[1][symbol]
        state = self._states[lane]
        if state >= frequency << 21:
            self._words.append(state & 0xFFFF)
            state >>= 16
        self._states[lane] = (state // frequency << 11) + state % frequency + before

    def result(self) -> bytes:
        """
        Give what a decoder begins with.

        Returns
        -------
        bytes
            States and words.
        """
        words = np.array(self._words[::-1], "<u2")
        return np.array(self._states, "<u4").tobytes() + words.tobytes()


@dataclasses.dataclass(frozen=True)
class CoderHead:
    """
    What the head says of the coder.

    Parameters
    ----------
    lanes : int
        L.
    model : int
        Model of the classes.
    escape_bytes : int
        Bytes of an escape's item.
    raw : int
        R.
    """

    lanes: int
    model: int
    escape_bytes: int
    raw: int


def decode_residuals(
    data: bytes, head: CoderHead, count: int, dtype: np.dtype[Any]
) -> tuple[Array, Array]:
    """
    Read the residuals of a tile.

    Parameters
    ----------
    data : bytes
        The payload from the states on.
    head : CoderHead
        What the head says of them.
    count : int
        Number of values of the tile.
    dtype : numpy.dtype
        Signed type of V bits.

    Returns
    -------
    residuals : numpy.ndarray
        d or e of each value, in coding order.
    is_escape : numpy.ndarray
        Of each, whether it is e.

    Raises
    ------
    Corrupt
        The bytes contradict themselves.
    """
    block_count = -(-count // BLOCK)
    decoder = Decoder(data, head.lanes)
    classes = [0] * block_count
    for lane, block, is_first in class_order(block_count, head.lanes):
        context = context_of(classes, block, is_first)
        classes[block] = decoder.symbol(lane, interp_tables.CLASSES[head.model][context])
    symbols = np.zeros((block_count, BLOCK), "<u8")
    for block, symbol_class in enumerate(classes):
        if symbol_class:
            frequencies = interp_tables.SYMBOLS[table_of(symbol_class)]
            symbols[block] = [decoder.symbol(i % head.lanes, frequencies) for i in range(BLOCK)]
    raw_words = raw_words_of(np.array(classes), head.raw)
    is_escape = symbols == ESCAPE
    raw_begin = len(data) - 4 * int(raw_words.sum())
    items_begin = raw_begin - head.escape_bytes * int(is_escape.sum())
    if not decoder.end <= items_begin < decoder.end + 4 or any(data[decoder.end : items_begin]):
        raise Corrupt("words, items and raw words do not fit the payload")
    if not decoder.is_at_rest:
        raise Corrupt("states that are not 2^16 at the end")
    z = symbols << raw_words.astype("<u8")[:, None]
    z |= unpack_raw(data[raw_begin:], raw_words)
    items = np.frombuffer(data[items_begin:raw_begin], f"<u{head.escape_bytes}")
    z[is_escape] = items[::-1]
    unsigned = z.astype(f"<u{dtype.itemsize}")
    one, zero = unsigned.dtype.type(1), unsigned.dtype.type(0)
    residuals = ((unsigned >> one) ^ (zero - (unsigned & one))).view(dtype).ravel()
    is_escape = is_escape.ravel()
    if residuals[count:].any() or is_escape[count:].any():
        raise Corrupt("residuals behind the values of the tile")
    return residuals[:count], is_escape[:count]


def unpack_raw(data: bytes, raw_words: Array) -> Array:
    """
    Read raw words.

    Parameters
    ----------
    data : bytes
        The words.
    raw_words : numpy.ndarray
        Number of them of each block.

    Returns
    -------
    numpy.ndarray
        The number that is made of the raw bits of each residual.
    """
    words = np.frombuffer(data, np.uint8).reshape(-1, 4)
    bits = np.unpackbits(words, axis=1, bitorder="little").astype("<u8")
    starts = np.cumsum(raw_words) - raw_words
    numbers = np.zeros((raw_words.size, BLOCK), "<u8")
    for p in range(int(raw_words.max(initial=0))):
        here = raw_words > p
        numbers[here] |= bits[starts[here] + p] << np.uint64(p)
    return numbers


def pack_raw(numbers: Array, raw_words: Array) -> bytes:
    """
    Undo `unpack_raw`.

    Parameters
    ----------
    numbers : numpy.ndarray
        Numbers of which raw words have the lowest bits, by block.
    raw_words : numpy.ndarray
        Number of raw words of each block.

    Returns
    -------
    bytes
        The words.
    """
    bits = np.zeros((int(raw_words.sum()), BLOCK), np.uint8)
    starts = np.cumsum(raw_words) - raw_words
    for p in range(int(raw_words.max(initial=0))):
        here = raw_words > p
        bits[starts[here] + p] = numbers[here] >> np.uint64(p) & np.uint64(1)
    return np.packbits(bits, axis=1, bitorder="little").tobytes()


def cost_of(frequency: int) -> int:
    """
    Give the cost of a symbol or class in 16ths of a bit.

    Parameters
    ----------
    frequency : int
        Its frequency, of 2048.

    Returns
    -------
    int
        The integer nearest to 16 log2(2048 / frequency), found without a logarithm.
    """
    # c - 1/2 <= 16 log2(2048 / f) is 2^(2c - 1) <= (2048 / f)^32; the two are never equal but for 0.
    cost = 0
    while frequency**32 << (2 * cost + 1) <= 2048**32:
        cost += 1
    return cost


SYMBOL_COSTS = np.array([[cost_of(f) for f in row] for row in interp_tables.SYMBOLS])

CLASS_COSTS = np.array([[[cost_of(f) for f in row] for row in m] for m in interp_tables.CLASSES])


def classes_of(z: Array) -> Array:
    """
    Choose the classes of blocks.

    Parameters
    ----------
    z : numpy.ndarray
        Folded residuals without the bits that are raw in every block, by block; uint64.

    Returns
    -------
    numpy.ndarray
        The class of each block.
    """
    mean = ((z + np.uint64(1)) >> np.uint64(1)).sum(axis=1)
    thresholds = np.array([4525 << j for j in range(14)], "<u8")
    k = (np.uint64(1000) * mean[:, None] >= thresholds).sum(axis=1)
    costs = np.full((3, len(z)), np.iinfo("<i8").max)
    candidates = np.array([np.maximum(1, k), k + 1, np.minimum(15, k + 2)])
    for symbol_class in range(1, 16):
        raw = max(0, symbol_class - 4)
        symbols = np.minimum(z >> np.uint64(raw), ESCAPE).astype(int)
        cost = SYMBOL_COSTS[table_of(symbol_class)][symbols] + 256 * (symbols == ESCAPE)
        total = 512 * raw + cost.sum(axis=1)
        costs = np.where(candidates == symbol_class, total, costs)
    best = np.take_along_axis(candidates, costs.argmin(axis=0)[None], axis=0)[0]
    chosen: Array = np.where(z.any(axis=1), best, 0)
    return chosen


class Coded(NamedTuple):
    """Coded residuals: what the head says of them, their bytes, and their cost in 16ths of a bit."""

    head: CoderHead
    data: bytes
    cost: int


def encode_residuals(residuals: Array, unit: int) -> Coded:
    """
    Write the residuals of a tile.

    Parameters
    ----------
    residuals : numpy.ndarray
        d of each value, in coding order, as int64.
    unit : int
        What they count.

    Returns
    -------
    Coded
        The payload from the states on.
    """
    count = residuals.size
    folded = np.zeros((-(-count // BLOCK), BLOCK), "<u8")
    folded.ravel()[:count] = pfpl.zigzag(residuals)
    total, raw = sum(folded.ravel().tolist()), 0
    while total > 30000 * count << raw:
        raw += 1
    classes = classes_of(folded >> np.uint64(raw))
    raw_words = raw_words_of(classes, raw)
    symbols = np.minimum(folded >> raw_words.astype("<u8")[:, None], ESCAPE).astype(int)
    symbols[classes == 0] = 0
    is_escape = symbols == ESCAPE
    changes = (residuals * unit)[is_escape.ravel()[:count]]
    items = pfpl.zigzag(changes)
    largest = int(items.max(initial=0))
    escape_bytes = next(size for size in ESCAPE_BYTES if largest < 1 << 8 * size)
    contexts = np.concatenate([[16], classes[:-1]])
    class_costs = [int(costs[contexts, classes].sum()) for costs in CLASS_COSTS]
    model = class_costs.index(min(class_costs))
    used = np.flatnonzero(classes)
    tables = np.minimum(classes, 5) - 1
    coded = class_costs[model] + int(SYMBOL_COSTS[tables[used, None], symbols[used]].sum())
    lanes = max(number for number in LANES if number == 1 or 16384 * number <= coded)
    head = CoderHead(lanes, model, escape_bytes, raw)
    cost = coded + 512 * int(raw_words.sum()) + 128 * escape_bytes * items.size + 384 * lanes

    encoder = Encoder(lanes)
    listed = classes.tolist()
    for block in used[::-1].tolist():
        frequencies = interp_tables.SYMBOLS[table_of(listed[block])]
        for i, symbol in reversed([*enumerate(symbols[block].tolist())]):
            encoder.put(i % lanes, symbol, frequencies)
    for lane, block, is_first in reversed([*class_order(len(listed), lanes)]):
        context = context_of(listed, block, is_first)
        encoder.put(lane, listed[block], interp_tables.CLASSES[model][context])
    words = encoder.result()
    tail = items[::-1].astype(f"<u{escape_bytes}").tobytes()
    pad = bytes(-(len(words) + len(tail)) % 4)
    return Coded(
        head, words + pad + tail + pack_raw(np.where(is_escape, 0, folded), raw_words), cost
    )


# ------------------------------------------------------------------------------------------------
# The head
# ------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Head:
    """
    A payload's head and base.

    Parameters
    ----------
    form : Form
        How the tile is coded.
    coder : CoderHead
        What is said of the coder.
    has_exceptions, is_narrow : bool
        The flags.
    entries : int
        Number of entries of the patches.
    base : int
        Base.
    """

    form: Form
    coder: CoderHead
    has_exceptions: bool
    is_narrow: bool
    entries: int
    base: int

    def pack(self, float_type: FloatType) -> bytes:
        """
        Write head and base.

        Parameters
        ----------
        float_type : FloatType
            Type of the values.

        Returns
        -------
        bytes
            The bytes.
        """
        form, coder = self.form, self.coder
        flags = form.predictor | form.is_fine << 2 | form.is_closed << 3
        flags |= LANES.index(coder.lanes) << 4 | self.has_exceptions << 6 | self.is_narrow << 7
        sizes = coder.model | ESCAPE_BYTES.index(coder.escape_bytes) << 4
        rule = form.axes | sum(code << 3 * i for i, code in enumerate(form.weight_codes))
        head = bytes([flags, sizes, coder.raw, 0])
        head += rule.to_bytes(2, "little") + self.entries.to_bytes(2, "little")
        return head + self.base.to_bytes(float_type.size, "little", signed=True)


def take_head(reader: blocks.Reader, active: int, float_type: FloatType, kind: Kind) -> Head:
    """
    Read head and base.

    Parameters
    ----------
    reader : blocks.Reader
        The payload; head and base are taken from it.
    active : int
        Number of active axes.
    float_type : FloatType
        Type of the values.
    kind : Kind
        Bound kind.

    Returns
    -------
    Head
        The head.

    Raises
    ------
    Corrupt
        No encoder writes such a head.
    """
    flags, sizes, raw, zero = reader.take(4)
    rule = int.from_bytes(reader.take(2), "little")
    entries = int.from_bytes(reader.take(2), "little")
    base = int.from_bytes(reader.take(float_type.size), "little", signed=True)
    is_fine, is_closed, is_narrow = (bool(flags >> bit & 1) for bit in (2, 3, 7))
    is_lorenzo = flags & 3 == LORENZO
    weight_codes = tuple(rule >> 3 * i & 7 for i in range(active))
    model, escape = sizes & 15, sizes >> 4
    if zero or model >= MODELS or escape >= len(ESCAPE_BYTES) or raw > LARGEST_RAW:
        raise Corrupt("a head that is out of range")
    if is_lorenzo and rule > 15:
        raise Corrupt(f"axes {rule:#x}")
    if not is_lorenzo:
        if rule >> 3 * active or max(weight_codes, default=0) >= len(WEIGHTS):
            raise Corrupt(f"weight codes {rule:#o} of {active} axes")
        if float_type.size == 4 and not is_narrow:
            raise Corrupt("interpolation of float32 that is not narrow")
    if is_closed and (is_lorenzo or not is_fine):
        raise Corrupt("a closed form without interpolation on fine points")
    if entries and is_fine and not is_closed:
        raise Corrupt("patches on fine points that are not closed")
    if kind == Kind.POINTWISE_RELATIVE and (is_fine or entries):
        raise Corrupt("fine points with a pointwise-relative bound")
    form = Form(
        predictor=flags & 3,
        weight_codes=() if is_lorenzo else weight_codes,
        axes=rule if is_lorenzo else 0,
        is_fine=is_fine,
        is_closed=is_closed,
    )
    coder = CoderHead(LANES[flags >> 4 & 3], model, ESCAPE_BYTES[escape], raw)
    return Head(form, coder, bool(flags >> 6 & 1), is_narrow, entries, base)


# ------------------------------------------------------------------------------------------------
# Decoding tiles
# ------------------------------------------------------------------------------------------------


def decode_tile(
    payload: bytes,
    count: int,
    float_type: FloatType,
    quantiser: Quantiser,
    *,
    mode: int = 0,
    inside: Array | None = None,
) -> Array:
    """
    Decode one tile that is neither empty nor stored.

    Parameters
    ----------
    payload : bytes
        The tile's payload.
    count : int
        Number of its values.
    float_type : FloatType
        Type of the values.
    quantiser : Quantiser
        Bound kind and step.
    mode : int
        The frame's mode.
    inside : numpy.ndarray, optional
        An array of the tile's shape; without it, the tile is a line.

    Returns
    -------
    numpy.ndarray
        Patterns of the values.

    Raises
    ------
    Corrupt
        The payload contradicts itself.
    """
    shape: Shape = (1, 1, 1, count) if inside is None else inside.shape
    if len(payload) % 4:
        raise Corrupt(f"a payload of {len(payload)} bytes, no multiple of 4")
    if len(payload) == float_type.size:
        return np.frombuffer(payload * count, float_type.word_dtype)
    reader = blocks.Reader(payload)
    head = take_head(reader, len(active_axes(shape, mode)), float_type, quantiser.kind)
    form = head.form
    is_exception, bits = np.zeros(count, bool), np.zeros(count, float_type.word_dtype)
    if head.has_exceptions:
        is_exception, bits = take_exceptions(reader, shape, float_type)
    entries = np.frombuffer(reader.take(2 * head.entries), "<u2").tolist()
    reader.take_padding(2 * (head.entries % 2))
    patches = unpack_patches(entries, count)
    dtype = np.dtype("<i4" if head.is_narrow else f"<i{float_type.size}")
    residuals, is_escape = decode_residuals(reader.take(reader.left()), head.coder, count, dtype)
    is_from_base = head.is_narrow and not form.is_closed
    changes = np.where(is_escape, residuals, residuals * dtype.type(form.unit))
    changes[0] = 0 if is_from_base else _wrapped(head.base, dtype)
    if form.predictor == LORENZO:
        q = undo_lorenzo(changes, form.axes, shape)
    else:
        q = interpolate(changes, form, shape, mode)
    q = q.astype(f"<i{float_type.size}")
    if is_from_base:
        q += _wrapped(head.base, q.dtype)
    values = lattice_values(q, float_type, quantiser, is_fine=form.is_fine)
    if patches.any():
        near = q * q.dtype.type(1 if form.is_fine else UNIT) + patches.astype(q.dtype)
        patched = lattice_values(near, float_type, quantiser, is_fine=True)
        values = np.where(patches != 0, patched, values)
    return np.where(is_exception, bits, values)


def _wrapped(number: int, dtype: np.dtype[Any]) -> Any:
    """Give the lowest bits of a number as a signed one."""
    return np.array([number & (1 << 8 * dtype.itemsize) - 1], "<u8").astype(dtype)[0]


# ------------------------------------------------------------------------------------------------
# Encoding tiles
# ------------------------------------------------------------------------------------------------


class InForm(NamedTuple):
    """A tile in a form: its integers, exceptions, patches and residuals."""

    base: int
    q: Array
    is_exception: Array
    patches: Array
    residuals: Array


def apply_form(values: Values, form: Form, mode: int) -> InForm | None:
    """
    Predict the values of a tile in a form.

    Parameters
    ----------
    values : Values
        What the values are.
    form : Form
        The form.
    mode : int
        The mode.

    Returns
    -------
    InForm or None
        The tile; None where the form fails.
    """
    shape, limit = values.shape, fine_limit(values.float_type)
    is_exception = ~(values.has_fine if form.is_fine else values.has_bin)
    q = np.where(is_exception, 0, values.g if form.is_fine else values.k)
    patches = np.zeros_like(q)
    if not form.is_fine:
        off_bins = values.is_off_bins & ~is_exception
        patches[off_bins] = (values.g - UNIT * values.k)[off_bins]
    kept = np.flatnonzero(~is_exception)
    base = int(q[kept[0]]) if kept.size else 0
    if form.predictor == LORENZO:
        q = fill_exceptions(q, is_exception, base, shape)
        residuals = lorenzo(q, form.axes, shape)
        residuals[0] = 0
    else:
        q, residuals = _interpolated(values, form, mode, q, is_exception, base)
    if form.is_closed:
        if np.any(np.abs(q[is_exception]) > limit):
            return None
        right = (np.abs(q) <= limit) & values.is_good(q, is_fine=True)
        right &= ~values.is_kept | (q == values.g)
        patches = np.where(right | is_exception, 0, values.g - q)
    is_narrow = bool(np.all(np.abs(q - base) < 1 << 22))
    if form.predictor != LORENZO and values.float_type.size == 4 and not is_narrow:
        return None
    return InForm(base, q, is_exception, patches, residuals)


def _interpolated(
    values: Values, form: Form, mode: int, wanted: Array, is_exception: Array, base: int
) -> tuple[Array, Array]:
    """
    Interpolate the values of a tile.

    Parameters
    ----------
    values : Values
        What the values are.
    form : Form
        The form.
    mode : int
        The mode.
    wanted : numpy.ndarray
        Their integers, where the form is not closed.
    is_exception : numpy.ndarray
        Of each value, whether it is an exception of the form.
    base : int
        Base.

    Returns
    -------
    q : numpy.ndarray
        The integers, in raster order.
    residuals : numpy.ndarray
        d, in coding order.
    """
    first, passes = passes_of(values.shape, mode)
    active = active_axes(values.shape, mode)
    q = np.zeros_like(wanted)

    def residuals_at(places: Array, predictions: Array) -> Array:
        """Give d, and set the integers."""
        if form.is_closed:
            d = (values.parts[places] - 64 * predictions + 512) >> 10
        else:
            d = wanted[places] - predictions
        d = np.where(is_exception[places], 0, d)
        q[places] = predictions + form.unit * d
        return d

    q[first[0]] = base
    residuals = [np.zeros(1, "<i8")]
    residuals += [residuals_at(first[i : i + 1], q[first[i - 1 : i]]) for i in range(1, first.size)]
    for step in passes:
        residuals.append(residuals_at(step.places, predict(q, form, values.shape, active, step)))
    return q, np.concatenate(residuals)


class Payload(NamedTuple):
    """A tile's payload, and the cost of its form in 16ths of a bit."""

    data: bytes
    cost: int


def encode_form(values: Values, form: Form, mode: int) -> Payload | None:
    """
    Encode a tile in a form.

    Parameters
    ----------
    values : Values
        What the values are.
    form : Form
        The form.
    mode : int
        The mode.

    Returns
    -------
    Payload or None
        The payload; None where the form fails.
    """
    tile = apply_form(values, form, mode)
    if tile is None:
        return None
    entries = pack_patches(tile.patches)
    if len(entries) > 65535:
        return None
    coded = encode_residuals(tile.residuals, form.unit)
    has_exceptions = bool(tile.is_exception.any())
    sections = b""
    if has_exceptions:
        sections += pack_exceptions(values.bits, tile.is_exception, values.shape)
    sections += np.array(entries, "<u2").tobytes() + bytes(2 * (len(entries) % 2))
    head = Head(
        form=form,
        coder=coded.head,
        has_exceptions=has_exceptions,
        is_narrow=bool(np.all(np.abs(tile.q - tile.base) < 1 << 22)),
        entries=len(entries),
        base=tile.base,
    )
    data = head.pack(values.float_type) + sections + coded.data
    return Payload(data, coded.cost + 128 * len(sections))


def forms_of(values: Values, mode: int) -> list[Form]:
    """
    Say which forms are tried.

    Parameters
    ----------
    values : Values
        What the values of the tile are.
    mode : int
        The mode.

    Returns
    -------
    list of Form
        The forms.
    """
    axes = sum(8 >> axis for axis in AXES if values.shape[axis] > 1)
    codes = (0,) * len(active_axes(values.shape, mode))
    can_close = bool(np.all(values.has_fine | values.is_exception)) and not mode & REWRITABLE
    return [
        *(Form(p, codes, is_fine=can_close, is_closed=can_close) for p in range(3)),
        Form(LORENZO, axes=axes or 1),
    ]


def encode_tile(
    bits: Array,
    float_type: FloatType,
    quantiser: Quantiser,
    fill_bits: int | None = None,
    *,
    mode: int = 0,
    inside: Array | None = None,
    forms: Iterable[Form] | None = None,
) -> bytes | None:
    """
    Encode one tile.

    Parameters
    ----------
    bits : numpy.ndarray
        Patterns of the tile's values.
    float_type : FloatType
        Type of the values.
    quantiser : Quantiser
        Bound kind, step and B.
    fill_bits : int, optional
        The fill value's pattern.
    mode : int
        The frame's mode.
    inside : numpy.ndarray, optional
        An array of the tile's shape; without it, the tile is a line.
    forms : iterable of Form, optional
        Forms to try instead of those that the encoder would choose.

    Returns
    -------
    bytes or None
        The payload, of any length; None where the tile has to be stored.
    """
    shape: Shape = (1, 1, 1, bits.size) if inside is None else inside.shape
    if fill_bits is None and not bits.any():
        return b""
    values = values_of(bits, shape, float_type, quantiser, fill_bits)
    if bits.size > 1:
        if values.is_exception.all() and np.all(bits == bits[0]):
            return bits[:1].tobytes()
        if values.has_bin.all() and np.all(values.k == values.k[0]):
            if values.k[0] == 0 and not values.is_off_bins.any():
                return b""
            if not values.is_off_bins.any():
                return lattice_values(values.k[:1], float_type, quantiser, is_fine=False).tobytes()
    tried = forms_of(values, mode) if forms is None else forms
    payloads = [encode_form(values, form, mode) for form in tried]
    return (
        min(filter(None, payloads), key=lambda payload: payload.cost, default=Payload(b"", 0)).data
        or None
    )

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""What Interp's encoder chooses from, as docs/format/interp.md has it: groups, costs, old axes."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from . import blocks
from .common import Array, FloatType, Kind, Quantiser, bits_to_float
from .interp_coder import SYMBOL_COSTS, table_of
from .interp_lattice import UNIT, Values, fine_limit
from .interp_prediction import AXES, active_axes, blend_of, has_axis, row_of, strides_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from .interp_prediction import Row, Shape

    Positions = Callable[[Sequence[int]], tuple[Array, Array]]

SPREAD = (3679390609, 3152041523, 2700274806, 2313257605)
"""M of each axis."""

BIT = 8192
"""Costs are in 8192ths of a bit."""

FARTHEST = 1 << 25
"""Positions do not go beyond this."""

NEVER = (1 << 56) - 1
"""The cost of what cannot be."""

AXIS_SETS = range(16)


def spread(n: Array | int, axis: int) -> Array:
    """Give `n M mod 2^32`, as uint64."""
    return np.asarray(n).astype("<u8") * np.uint64(SPREAD[axis]) & np.uint64(0xFFFFFFFF)


def scaled(numbers: Array, extent: int) -> Array:
    """Give the place in an extent that a fraction of 2^32 stands for."""
    return ((numbers * np.uint64(extent)) >> np.uint64(32)).astype("<i8")


def axes_of(axis_set: int) -> list[int]:
    """Give the axes of a set."""
    return [axis for axis in AXES if has_axis(axis_set, axis)]


def long_axes(extents: Shape) -> int:
    """Give the set of the axes that have more than one value."""
    return sum(8 >> axis for axis in AXES if extents[axis] > 1)


# ------------------------------------------------------------------------------------------------
# Groups
# ------------------------------------------------------------------------------------------------


class Groups:
    """
    Groups of values of a box.

    Parameters
    ----------
    extents : tuple of int
        Extents of the box.
    count : int
        Number of groups.
    """

    def __init__(self, extents: Shape, count: int) -> None:
        _, n_z, n_y, _ = extents
        shape = (1, 2, 4, 4) if n_z > 1 else (1, 1, 4, 8) if n_y > 1 else (1, 1, 1, 32)
        shape = tuple(min(edge, n) for edge, n in zip(shape, extents, strict=True))
        steps = np.unravel_index(np.arange(math.prod(shape)), shape)
        numbers = np.arange(1, count + 1)
        self.extents = extents
        self.coordinates = []
        for axis in AXES:
            fraction = (spread(numbers, axis) + np.uint64(0x9E3779B9)) & np.uint64(0xFFFFFFFF)
            origins = scaled(fraction, extents[axis] - shape[axis] + 1)
            self.coordinates.append(origins[:, None] + steps[axis][None, :])

    def moved(self, distances: Sequence[int]) -> tuple[Array, Array]:
        """
        Say which values lie at distances from those of the groups.

        Parameters
        ----------
        distances : sequence of int
            Distance along each axis.

        Returns
        -------
        places : numpy.ndarray
            Their numbers, by group; 0 of those that are outside.
        is_inside : numpy.ndarray
            Whether they are in the box.
        """
        at = [c + d for c, d in zip(self.coordinates, distances, strict=True)]
        is_inside = np.ones(at[0].shape, bool)
        places = np.zeros(at[0].shape, "<i8")
        for c, n, stride in zip(at, self.extents, strides_of(self.extents), strict=True):
            is_inside &= (c >= 0) & (c < n)
            places += c * stride
        return np.where(is_inside, places, 0), is_inside


def positions_of(
    bits: Array,
    groups: Groups,
    float_type: FloatType,
    quantiser: Quantiser,
    fill_bits: int | None,
    *,
    may_close: bool,
) -> Positions:
    """
    Find where values lie, about those of groups.

    Parameters
    ----------
    bits : numpy.ndarray
        Patterns of all values of the box.
    groups : Groups
        The groups.
    float_type : FloatType
        Type of the values.
    quantiser : Quantiser
        Bound kind and step.
    fill_bits : int or None
        The fill value's pattern, if it counts.
    may_close : bool
        Closed forms are possible.

    Returns
    -------
    callable
        Gives, for a distance along each axis, the positions of the values at that distance from
        those of the groups, and which of them are usable.
    """
    here, _ = groups.moved((0, 0, 0, 0))
    if quantiser.kind == Kind.POINTWISE_RELATIVE:
        q, is_exception = blocks.quantise(bits, float_type, quantiser, fill_bits)
        q, is_ordinary = q.astype("<i8"), ~is_exception

        def at(places: Array, reference: Array) -> Array:
            limit = FARTHEST // 1024
            return np.clip(q[places] - q[reference], -limit, limit) * 1024

    else:
        x = bits.view(float_type.float_dtype)
        is_ordinary = np.isfinite(x)
        if fill_bits is not None:
            is_ordinary &= bits != fill_bits
        number = float_type.number
        step = number(bits_to_float(quantiser.step))
        with np.errstate(all="ignore"):
            scale = number(1.0) / step * number(UNIT) * number(64.0)
            farthest = step * number(1 / UNIT) * number(fine_limit(float_type))
            is_far = is_ordinary[here] & ~(np.abs(x[here]) <= farthest)
        on_bins = np.any(is_far, axis=1) | (not may_close)
        limit = number(FARTHEST)

        def at(places: Array, reference: Array) -> Array:
            with np.errstate(all="ignore"):
                t = (x[places] - x[reference]) * scale
                t = np.where(t > limit, limit, t)
                t = np.where(t > -limit, t, -limit)
            parts = t.astype("<i8")
            return np.where(on_bins[:, None], (parts + 512) & -1024, parts)

    first = np.argmax(is_ordinary[here], axis=1)
    reference = np.take_along_axis(here, first[:, None], axis=1)

    def positions(distances: Sequence[int]) -> tuple[Array, Array]:
        places, is_inside = groups.moved(distances)
        return at(places, reference), is_inside & is_ordinary[places]

    return positions


# ------------------------------------------------------------------------------------------------
# Costs of groups
# ------------------------------------------------------------------------------------------------


class Line(NamedTuple):
    """What a block of a class costs, by the sum of its residuals' magnitudes; slope in 256ths."""

    cost: int
    slope: int


def _line_of(symbol_class: int) -> Line:
    """Give the line of a class that is not 0."""
    table, raw = table_of(symbol_class), max(0, symbol_class - 4)
    symbol = (1, 1, 3, 5, 8)[table]
    zero, typical = SYMBOL_COSTS[table][0].item(), SYMBOL_COSTS[table][symbol].item()
    slope = 256 * (typical - zero) // ((symbol + 1) // 2) >> raw
    return Line(32 * zero + 512 * raw + 20, slope)


LINES = [_line_of(symbol_class) for symbol_class in range(1, 16)]


def group_cost(total: int) -> int:
    """Give the cost of 32 residuals whose magnitudes have this sum, in 16ths of a bit."""
    return min(line.cost + (line.slope * total >> 8) for line in LINES) if total else 12


def mean_cost(residuals: Array, is_usable: Array, ordinary: Array) -> int | None:
    """
    Give the mean cost of a value, in 8192ths of a bit.

    Parameters
    ----------
    residuals, is_usable : numpy.ndarray
        Residuals of the values of groups, and which of them are known.
    ordinary : numpy.ndarray
        Number of the ordinary values of each group.

    Returns
    -------
    int or None
        The cost; None where no residual is known.
    """
    cost = values = 0
    totals = np.where(is_usable, np.abs(residuals), 0).sum(axis=1).tolist()
    counts = is_usable.sum(axis=1).tolist()
    for total, count, weight in zip(totals, counts, ordinary.tolist(), strict=True):
        if count:
            cost += group_cost(total * weight // count) * weight
            values += weight
    return cost * 16 // values if values else None


def weight_code(error: int, least: int) -> int:
    """Give the weight code of an axis with this mean error, 0 if unknown, by the least one."""
    if error == 0:
        return 0 if least == 0 else 1
    ratio = 1024 * least // error
    return sum(ratio < limit for limit in (939, 790, 664, 558, 395))


def weights_of(errors: Sequence[int], axis_set: int) -> tuple[int, ...]:
    """
    Give the weight codes of axes.

    Parameters
    ----------
    errors : sequence of int
        Mean error along each axis.
    axis_set : int
        The axes.

    Returns
    -------
    tuple of int
        Weight code of each axis in the set.
    """
    chosen = [errors[axis] for axis in axes_of(axis_set)]
    least = min((error for error in chosen if error), default=0)
    return tuple(weight_code(error, least) for error in chosen)


# ------------------------------------------------------------------------------------------------
# The survey
# ------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Survey:
    """
    What is known of a box from its groups.

    Parameters
    ----------
    errors : list of int
        Mean error of interpolation along each axis; 0 if it is not known.
    interpolation : dict of list of int
        Costs of values by the set of their odd axes, and level.
    lorenzo : dict of int
        Costs of values by the axes of the difference.
    exceptions : int
        Share of exceptions, in 8192ths.
    changes : list of int
        Share of values that are exceptions where the one before is not, or the other way round.
    """

    errors: list[int]
    interpolation: dict[int, list[int]]
    lorenzo: dict[int, int]
    exceptions: int
    changes: list[int]


def errors_along(
    axis: int, s: int, groups: Groups, positions: Positions
) -> tuple[Array, Array, Array]:
    """
    Interpolate the values of groups along an axis.

    Parameters
    ----------
    axis : int
        The axis.
    s : int
        The half step, 1 or 2.
    groups : Groups
        The groups.
    positions : callable
        Their positions.

    Returns
    -------
    errors, is_known, is_typical : numpy.ndarray
        The errors; which of them are known, and which count for the mean.
    """
    here, is_here = positions((0, 0, 0, 0))
    moved = [positions([d * s * (a == axis) for a in AXES]) for d in (-3, -1, 1, 3)]
    (a, is_a), (b, is_b), (c, is_c), (d, is_d) = moved
    n, at = groups.extents[axis], groups.coordinates[axis]
    has_two = is_here & is_b & is_c
    has_four = has_two & is_a & is_d
    is_inner = (n >= 7) & (at - 3 * s >= 0) & (at + 3 * s < n)
    linear = has_two & ~is_inner
    before, after = (n == 2) & is_here & is_b, (n == 2) & is_here & is_c
    cases = [has_four, linear, before, after]
    predictions = [(9 * (b + c) - a - d) >> 4, (b + c) >> 1, b, c]
    is_typical = has_four | ((n < 7) & has_two)
    return here - np.select(cases, predictions, 0), np.any(cases, axis=0), is_typical


def survey(groups: Groups, positions: Positions) -> Survey:
    """
    Look at groups of values.

    Parameters
    ----------
    groups : Groups
        The groups.
    positions : callable
        Their positions.

    Returns
    -------
    Survey
        What they say.
    """
    all_axes = long_axes(groups.extents)
    _, is_here = positions((0, 0, 0, 0))
    ordinary = is_here.sum(axis=1)
    exceptions = int(is_here.size - ordinary.sum()) * BIT // is_here.size
    errors = [0] * 4
    known: dict[tuple[int, int], tuple[Array, Array]] = {}
    for axis, level in itertools.product(axes_of(all_axes), range(2)):
        found, is_known, is_typical = errors_along(axis, 1 << level, groups, positions)
        known[axis, level] = found, is_known
        if level == 0 and is_typical.any():
            total = int(np.abs(found[is_typical]).sum())
            errors[axis] = max(1, 16 * (total + 8) // int(is_typical.sum()))

    # Differences along sets of axes: sums over the corners of a box, with alternating signs.
    corners = {
        subset: positions([-has_axis(subset, axis) for axis in AXES])
        for subset in AXIS_SETS
        if not subset & ~all_axes
    }
    changes, lorenzo = [BIT] * 4, dict.fromkeys(AXIS_SETS, 0)
    for axis in axes_of(all_axes):
        # Groups without ordinary values are not looked at any further.
        counts = (groups.coordinates[axis] > 0) | (ordinary == 0)[:, None]
        differs = (is_here != corners[8 >> axis][1]) & counts & (ordinary > 0)[:, None]
        if counts.any():
            changes[axis] = int(differs.sum()) * BIT // int(counts.sum())
    for subset in corners:
        parts = [part for part in corners if not part & ~subset]
        bins = sum((-1) ** part.bit_count() * ((corners[part][0] + 512) >> 10) for part in parts)
        is_usable = np.all([corners[part][1] for part in parts], axis=0)
        lorenzo[subset] = mean_cost(np.asarray(bins), is_usable, ordinary) or 0

    interpolation = {subset: [0, 0] for subset in AXIS_SETS}
    for subset in corners:
        if 1 <= subset.bit_count() <= 3:
            interpolation[subset] = _interpolation_costs(subset, errors, known, ordinary)
    return Survey(errors, interpolation, lorenzo, exceptions, changes)


def _interpolation_costs(
    subset: int,
    errors: Sequence[int],
    known: dict[tuple[int, int], tuple[Array, Array]],
    ordinary: Array,
) -> list[int]:
    """
    Give the costs of values that are odd along some axes.

    Parameters
    ----------
    subset : int
        The axes.
    errors : sequence of int
        Mean error along each axis.
    known : dict
        Errors and which of them are known, by axis and level.
    ordinary : numpy.ndarray
        Number of the ordinary values of each group.

    Returns
    -------
    list of int
        The cost at each level.
    """
    codes = weights_of(errors, subset)
    blend = blend_of(codes, range(len(codes)))
    costs: list[int] = []
    for level in range(2):
        used = [(w, *known[axis, level]) for w, axis in zip(blend, axes_of(subset), strict=True)]
        used = [each for each in used if each[0]]
        is_usable = np.all([is_known for _, _, is_known in used], axis=0)
        is_usable &= (ordinary > 0)[:, None]
        blended = (sum(w * found for w, found, _ in used) + 8) >> 4
        cost = mean_cost((blended + 512) >> 10, is_usable, ordinary)
        costs.append((costs[0] if costs else 0) if cost is None else cost)
    return costs


# ------------------------------------------------------------------------------------------------
# Costs of tiles
# ------------------------------------------------------------------------------------------------


def interpolation_cost(found: Survey, extents: Shape, axes: int) -> int:
    """
    Estimate what interpolation of a tile costs.

    Parameters
    ----------
    found : Survey
        What is known.
    extents : tuple of int
        Extents of the tile.
    axes : int
        Axes of the mode.

    Returns
    -------
    int
        The cost.
    """
    active = active_axes(extents, axes)
    if not active:
        return NEVER
    others = math.prod(n for axis, n in enumerate(extents) if axis not in active)
    top = max(1, (max(extents[axis] for axis in active) - 2).bit_length())
    cost = others * found.interpolation[8 >> active[-1]][1]
    for level, size in itertools.product(range(top + 1), range(1, len(active) + 1)):
        s = 1 << level
        for odd in itertools.combinations(active, size):
            values = others
            for axis in active if level < top else ():
                n = extents[axis]
                is_odd = axis in odd
                values *= len(range(s, n - 1, 2 * s) if is_odd else {*range(0, n, 2 * s), n - 1})
            first, second = found.interpolation[sum(8 >> axis for axis in odd)]
            growth = max(0, second - first)
            cost += values * (first if level == 0 else second + (level - 1) * growth)
    return cost


def lorenzo_cost(found: Survey, extents: Shape, but: int = 0) -> tuple[int, int]:
    """
    Estimate what Lorenzo prediction of a tile costs along the best axes.

    Parameters
    ----------
    found : Survey
        What is known.
    extents : tuple of int
        Extents of the tile.
    but : int
        Axes that are not considered.

    Returns
    -------
    cost, axes : int
        The cost, and the axes.
    """
    all_axes = long_axes(extents)
    last = all_axes & -all_axes
    best = NEVER, last
    for axes in range(1, 16):
        if axes & ~all_axes or axes == but:
            continue
        others = math.prod(n for axis, n in enumerate(extents) if not has_axis(axes, axis))
        cost = others * found.lorenzo[last]
        for part in range(1, 16):
            if not part & ~axes:
                inner = math.prod(extents[axis] - 1 for axis in axes_of(part))
                cost += others * inner * found.lorenzo[part]
        best = min(best, (cost, axes))
    return best


def bitmap_cost(found: Survey, extents: Shape) -> int:
    """
    Estimate what the bitmap of a tile's exceptions costs.

    Parameters
    ----------
    found : Survey
        What is known.
    extents : tuple of int
        Extents of the tile.

    Returns
    -------
    int
        The cost.
    """
    along = (
        min(BIT, 32 * found.changes[axis]) + found.exceptions // extents[axis]
        for axis in axes_of(long_axes(extents))
    )
    return min([found.exceptions, *along]) * math.prod(extents)


# ------------------------------------------------------------------------------------------------
# Data that was decoded before
# ------------------------------------------------------------------------------------------------


def _prediction(row: Row, fine: Sequence[int]) -> int:
    """Predict a value along one axis."""
    return (16 * sum(w * g for w, g in zip(row.weights, fine, strict=True)) + 128) >> 8


class FinePoints(NamedTuple):
    """The values of a chunk that are fine points: their numbers, and which they are."""

    g: Array
    is_fine: Array


def fine_points_of(bits: Array, float_type: FloatType, quantiser: Quantiser) -> FinePoints:
    """
    Find the values that are fine points.

    Parameters
    ----------
    bits : numpy.ndarray
        Patterns of the values.
    float_type : FloatType
        Type of the values.
    quantiser : Quantiser
        The step.

    Returns
    -------
    FinePoints
        The numbers of the fine points.
    """
    number, limit = float_type.number, fine_limit(float_type)
    step = number(bits_to_float(quantiser.step))
    x = bits.view(float_type.float_dtype)
    with np.errstate(all="ignore"):
        t = x * (number(1.0) / step * number(UNIT))
        is_fine = np.abs(t) < number(limit + 1)
        t = np.where(is_fine, t, number(0.0))
        g = (t + np.where(t < 0, number(-0.5), number(0.5))).astype("<i8")
        is_fine &= g.astype(float_type.float_dtype) * (step * number(1 / UNIT)) == x
    return FinePoints(g, is_fine)


def share_of_old(points: FinePoints, dims: Shape, extents: Shape, axes: int) -> int:
    """
    Say how much a chunk looks as if it had been interpolated along some axes.

    Parameters
    ----------
    points : FinePoints
        The values.
    dims : tuple of int
        The chunk's dims.
    extents : tuple of int
        Extents of its tiles with these axes.
    axes : int
        The axes.

    Returns
    -------
    int
        256ths of a sample that are whole steps away from their predictions.
    """
    active, strides = axes_of(axes), strides_of(dims)
    samples = matches = 0
    for n in range(512):
        if samples == 64:
            break
        odd = active[n % len(active)]
        at = [int(scaled(spread(n + 1, axis), dims[axis])) for axis in AXES]
        local = [c % e for c, e in zip(at, extents, strict=True)]
        begin = [c - i for c, i in zip(at, local, strict=True)]
        for axis in active:
            local[axis] &= ~1
        local[odd] += 1
        extent = min(extents[odd], dims[odd] - begin[odd])
        if local[odd] + 1 >= extent:
            continue
        place = sum((b + i) * t for b, i, t in zip(begin, local, strides, strict=True))
        row = row_of(local[odd], extent, 1)
        places = [place, *(place + offset * strides[odd] for offset in row.offsets)]
        value, *near = points.g[places].tolist()
        if not points.is_fine[places].all():
            samples += 1
        elif any(g % UNIT for g in [value, *near]):
            samples += 1
            matches += (value - _prediction(row, near)) % UNIT == 0
    return 256 * matches // samples if samples >= 16 else 0


def recognised_axes(
    points: FinePoints, dims: Shape, tiles: Iterable[tuple[int, Shape]]
) -> list[int]:
    """
    Say along which axes a chunk was interpolated, if it is decoded data.

    Parameters
    ----------
    points : FinePoints
        The values.
    dims : tuple of int
        The chunk's dims.
    tiles : iterable
        Sets of axes, each with the extents of its tiles.

    Returns
    -------
    list of int
        The sets that it may be.
    """
    shares = {axes: share_of_old(points, dims, extents, axes) for axes, extents in tiles}
    most = max(shares.values())
    return [axes for axes, share in shares.items() if most < 128 or share + 32 >= most]


def recognised_weights(values: Values, mode: int) -> tuple[int, ...]:
    """
    Give the weights that a tile of decoded data was interpolated with.

    Parameters
    ----------
    values : Values
        What the values of the tile are.
    mode : int
        The mode.

    Returns
    -------
    tuple of int
        Weight code of each active axis.
    """
    active = active_axes(values.shape, mode)
    # The first weight code is the one that counts fastest.
    candidates = [codes[::-1] for codes in itertools.product(range(6), repeat=len(active))]
    if len(active) < 2:
        candidates = [(0,) * len(active)]
    matches = np.zeros(len(candidates), int)
    for size in range(2, len(active) + 1):
        for odd in itertools.combinations(range(len(active)), size):
            blends = np.array([blend_of(codes, odd) for codes in candidates])
            for g, sums in _samples(values, active, odd):
                predictions = (blends @ np.array(sums) + 128) >> 8
                matches += (g - predictions) % UNIT == 0
    best = 0
    for number, codes in enumerate(candidates):
        if 0 in codes and matches[number] > matches[best]:
            best = number
    return candidates[best]


def _samples(
    values: Values, active: list[int], odd: tuple[int, ...]
) -> Iterable[tuple[int, list[int]]]:
    """
    Give samples of a tile's values at the finest level.

    Parameters
    ----------
    values : Values
        What the values of the tile are.
    active : list of int
        The active axes.
    odd : tuple of int
        Numbers of the odd ones.

    Returns
    -------
    list of tuple
        Fine point of each sample, and its sums along the odd axes, in 16ths.
    """
    shape, strides = values.shape, strides_of(values.shape)
    by_spread: list[list[tuple[int, list[int]]]] = [[], [], []]
    for n in range(1, 4097):
        at = [int(scaled(spread(n, axis), shape[axis])) for axis in AXES]
        for number, axis in enumerate(active):
            at[axis] = (at[axis] & ~1) + (number in odd)
        if any(at[axis] + 1 >= shape[axis] for axis in active):
            continue
        place = sum(c * t for c, t in zip(at, strides, strict=True))
        if not values.has_fine[place]:
            continue
        sums = []
        for axis in (active[number] for number in odd):
            row = row_of(at[axis], shape[axis], 1)
            near = [place + offset * strides[axis] for offset in row.offsets]
            if not values.has_fine[near].all():
                break
            pairs = zip(row.weights, values.g[near].tolist(), strict=True)
            sums.append(sum(w * g for w, g in pairs))
        else:
            difference = max(sums) - min(sums)
            if difference:
                number = 0 if difference >= 1024 else 1 if difference >= 64 else 2
                by_spread[number].append((int(values.g[place]), sums))
    return [*by_spread[0], *by_spread[1], *by_spread[2]][:128]

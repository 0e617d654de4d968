# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Means in which points are weighted, for instance by the areas that they represent."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from h5lossy._blocks import BLOCK_BYTES
from h5lossy._dims import broadcast
from h5lossy._errors import InvalidArgumentError
from h5lossy.assessment._inputs import Input
from h5lossy.assessment._numbers import CONSTANT, NO_POINTS, pearson
from h5lossy.assessment._undefined import OVERFLOW, Undefined, fits
from h5lossy.assessment.schema import Weighted, nothing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from h5lossy._dims import Axis
    from h5lossy.assessment._fields import Fields

_FLOAT64 = np.dtype(np.float64)


def weights_for(given: Any, axes: Sequence[Axis], shape: tuple[int, ...]) -> Input | None:
    """Return the caller's weights, or those of latitudes, for the whole fields."""
    if given is None:
        return None
    if isinstance(given, str):
        return Input(_of_latitudes(given, axes, shape), "weights")
    weights = Input(given, "weights")
    if weights.dtype.kind not in "fiu":
        raise InvalidArgumentError(f"weights must be floats or integers, got {weights.dtype}")
    if weights.shape == shape:
        return weights
    whole = weights.read(tuple(slice(0, n) for n in weights.shape), _FLOAT64)
    return Input(broadcast("weights", whole, weights.axes, shape, axes), "weights")


def _of_latitudes(given: str, axes: Sequence[Axis], shape: tuple[int, ...]) -> Any:
    """Return the cosine of the latitudes along the axis that has them."""
    if given != "latitude":
        raise InvalidArgumentError(f'weights must be an array or "latitude", got {given!r}')
    found = [i for i, axis in enumerate(axes) if axis.is_latitude]
    if len(found) != 1:
        raise InvalidArgumentError(
            'weights="latitude" needs one axis with a coordinate whose units are degrees_north; '
            f"{len(found)} axes have one. Give an array of weights"
        )
    degrees = np.asarray(axes[found[0]].coordinate[...], np.float64)
    if not (np.abs(degrees) <= 90.001).all():
        raise InvalidArgumentError("latitudes must be within -90 and 90 degrees")
    cosines = np.maximum(np.cos(np.deg2rad(degrees)), 0)
    extents = [-1 if axis == found[0] else 1 for axis in range(len(shape))]
    return np.broadcast_to(cosines.reshape(extents), shape)


def weighted(
    fields: Fields,
    weights: Input,
    pivot: float,
    undefined: Undefined,
    progress: Callable[[int], None],
) -> Weighted:
    """Return weighted means over the valid points; values are summed less `pivot`."""
    why = fields.why_not_read
    if why:
        progress(fields.original.size)
        sums = np.zeros(7)
    else:
        why, parts, largest = NO_POINTS, [np.zeros(7)], 0.0
        for own, _ in replace(fields, stored=None).blocks(BLOCK_BYTES):
            w = weights.read(fields.layout.selection(own), _FLOAT64)
            if not (np.isfinite(w) & (w >= 0)).all():
                raise InvalidArgumentError("weights must be finite, and 0 or more")
            x, y, valid = fields.part(own)
            w, e, x = w.reshape(valid.shape)[valid], (y - x)[valid], x[valid] - pivot
            largest = max(largest, *(float(np.abs(v).max(initial=0)) for v in (w, x, e)))
            with np.errstate(over="ignore", invalid="ignore"):
                each = (w, w * x, w * e, w * np.abs(e), w * e * e, w * x * x, w * x * e)
                parts.append(np.array([np.sum(one) for one in each]))
            progress(valid.size)
        sums = np.sum(parts, axis=0)
        if not fits(largest):
            why, sums = f"squares are {OVERFLOW}", np.zeros(7)
    if not sums[0]:
        undefined["weighted"] = why
        return nothing(Weighted)
    of_x, of_e, size, e_e, x_x, x_e = (sums[1:] / sums[0]).tolist()
    vx, ve, c = x_x - of_x * of_x, e_e - of_e * of_e, x_e - of_x * of_e
    one_minus = None
    if vx > 0 and vx + 2 * c + ve > 0:
        one_minus = float(pearson(vx, ve, c)[1])
    else:
        undefined["weighted.one_minus_pearson"] = CONSTANT
    return Weighted(
        original_mean=pivot + of_x,
        decoded_mean=pivot + of_x + of_e,
        mean=of_e,
        mean_abs=size,
        rmse=math.sqrt(e_e),
        one_minus_pearson=one_minus,
    )

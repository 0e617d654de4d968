# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Which numbers are undefined, and why: float64, or a sum in float64, can't hold them."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from h5lossy._native import FieldResult, PointsResult

#: If no exponent exceeds this in magnitude, squares fit in float64, with room for sums of many, for
#: squares 2^106 times smaller than the largest, and for the units of slopes.
_FITS = 400

OVERFLOW = "beyond the range of float64"


def fits(*values: float) -> bool:
    """Return whether squares of numbers up to this magnitude fit in float64, and their sums."""
    return all(not v or (math.isfinite(v) and abs(math.frexp(v)[1]) <= _FITS) for v in values)


def fit(values: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Return the same for each number of an array."""
    is_near = np.abs(np.frexp(values)[1]) <= _FITS
    return np.asarray((values == 0) | (np.isfinite(values) & is_near))


def known(value: float) -> float | None:
    """Return a number; None for infinities and NaN."""
    return value if math.isfinite(value) else None


def quotient(part: float, whole: float) -> float:
    """Divide by a number other than 0; NaN if float64 can't hold the result."""
    found = part / whole
    return found if math.isfinite(found) and (found or not part) else math.nan


class Undefined(dict[str, str]):
    """Reasons why numbers are None, by their names."""

    def checked(self, name: str, value: float, *, infinite: bool = False) -> float | None:
        """Return a number, or None if it is NaN or infinite; `infinite` allows infinities."""
        number = value if infinite and math.isinf(value) else known(value)
        if number is None:
            self[name] = OVERFLOW
        return number


def without_lost_sums(points: PointsResult, field: FieldResult) -> tuple[PointsResult, FieldResult]:
    """Make sums NaN if squares do not fit in float64, as the (exact) extrema show."""
    if not points.valid:
        return points, field
    nan = math.nan
    of_x = fits(points.original_min, points.original_max)
    of_e = fits(points.error_min, points.error_max)
    if not of_x:
        points = dataclasses.replace(points, squares_original=nan, products=nan)
        field = dataclasses.replace(
            field, gradient_min=nan, gradient_max=nan, laplacian_squares=nan
        )
    if not of_e:
        points = dataclasses.replace(points, squares_error=nan, products=nan)
        field = dataclasses.replace(
            field,
            slope_error_squares=(nan,) * len(field.slope_error_squares),
            curvature_error_squares=(nan,) * len(field.curvature_error_squares),
            laplacian_error_squares=nan,
            error_squares=nan,
        )
    if not (of_x and of_e):
        field = dataclasses.replace(field, gradient_error_max=nan, gradient_error_squares=nan)
    return points, field

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Sums for fields whose squares do not fit in float64: the fields are scaled by powers of two.

Sums of squares and products are float64. With values or errors beyond 2^400 or below 2^-400 they
may overflow or underflow, and a report would be silently wrong. Extrema and counts are always
exact; they show where that is possible, and the sums are then computed again, of fields multiplied
by powers of two as they are read. Without overflow and underflow that changes only the exponent of
a sum, which `Wide` keeps separately until the report is made.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from h5lossy.assessment._inputs import Input
from h5lossy.assessment._wide import Wide, exponent_of, fits
from h5lossy.missing import Missing

if TYPE_CHECKING:
    import numpy.typing as npt

    from h5lossy._native import FieldResult, PointsResult
    from h5lossy.assessment._fields import Fields

#: Exponents that the largest error and value are brought to. The histogram's bins reach 2^227 down
#: from that of errors; the other one is low enough that a value plus an error is the error.
_ERROR = 100
_FAR_ORIGINAL = -200

#: The histogram needs no scaling if the exponent of the largest error is between these.
_BINS = range(-100, 129)


def _exponents(points: PointsResult) -> tuple[int | None, int | None]:
    """Return the exponents of the original's largest value and of the largest error."""
    x = exponent_of(max(abs(points.original_min), abs(points.original_max)))
    worst = max(points.error_max, -points.error_min)
    if math.isfinite(worst):
        return x, exponent_of(worst)
    # The difference of two float64 values overflowed.
    y = exponent_of(max(abs(points.decoded_min), abs(points.decoded_max)))
    return x, 1 + max(x or 0, y or 0)


@dataclasses.dataclass(frozen=True)
class Scale:
    """Exponents of the powers of two that a field and its errors are multiplied by."""

    original: int = 0
    error: int = 0

    @classmethod
    def of(cls, points: PointsResult) -> Scale | None:
        """Return a scale that makes squares fit, and bins if possible; None if none is needed."""
        if not points.valid:
            return None
        x, e = _exponents(points)
        if fits(x) and (e is None or e in _BINS):
            return None
        if e is None:
            return cls(-(x or 0), -(x or 0))
        error = _ERROR - e
        if x is None or fits(x + error):
            return cls(error, error)
        # Better bins alone do not justify losing the numbers that need both in one unit.
        return None if fits(x) and fits(e) else cls(_FAR_ORIGINAL - x, error)

    @property
    def is_common(self) -> bool:
        """Whether original and error have the same unit, as their sum requires."""
        return self.original == self.error

    def of_original(self, value: float, power: int = 1) -> Wide:
        """Return a number of the original, given that of the scaled one."""
        return Wide(value, -power * self.original)

    def of_error(self, value: float, power: int = 1) -> Wide:
        """Return a number of the error, given that of the scaled one."""
        return Wide(value, -power * self.error)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sums:
    """Sums of scaled fields."""

    scale: Scale
    points: PointsResult  # moments and bins
    field: FieldResult  # stencils and lags

    @classmethod
    def streamed(cls, points: PointsResult, field: FieldResult) -> Sums:
        """Take sums that were not scaled; squares that may not have fitted become NaN."""
        if not points.valid or all(map(fits, _exponents(points))):
            return cls(scale=Scale(), points=points, field=field)
        nan = math.nan
        points = dataclasses.replace(points, squares_original=nan, squares_error=nan, products=nan)
        field = dataclasses.replace(
            field,
            slope_error_squares=(nan,) * len(field.slope_error_squares),
            gradient_min=nan,
            gradient_max=nan,
            gradient_error_max=nan,
            gradient_error_squares=nan,
            laplacian_squares=nan,
            laplacian_error_squares=nan,
            error_squares=nan,
        )
        return cls(scale=Scale(), points=points, field=field)

    @property
    def mean_original(self) -> Wide:
        return self.scale.of_original(self.points.mean_original)

    @property
    def mean_error(self) -> Wide:
        return self.scale.of_error(self.points.mean_error)

    @property
    def sum_abs_error(self) -> Wide:
        return self.scale.of_error(self.points.sum_abs_error)

    @property
    def squares_original(self) -> Wide:
        return self.scale.of_original(self.points.squares_original, 2)

    @property
    def squares_error(self) -> Wide:
        return self.scale.of_error(self.points.squares_error, 2)

    @property
    def products(self) -> Wide:
        return Wide(self.points.products, -self.scale.original - self.scale.error)


class _Scaled:
    """Scaled parts of both fields, and a mask of the points that do not count."""

    def __init__(self, fields: Fields, scale: Scale) -> None:
        self._fields, self._scale = fields, scale
        self._selection: tuple[slice, ...] | None = None
        self._parts: tuple[npt.NDArray[Any], ...] = ()

    def part(self, which: int, selection: tuple[slice, ...]) -> npt.NDArray[Any]:
        """Return original, decoded or mask; a pass reads all three in turn."""
        if selection != self._selection:
            x, y, valid = self._fields.read(selection)
            scale = self._scale
            new_x = np.ldexp(x, scale.original)
            if scale.is_common:
                new_y = np.ldexp(y, scale.error)
            else:
                new_y = new_x + np.ldexp(y - x, scale.error)
            parts = (new_x, new_y, (~valid).view(np.uint8))
            self._parts, self._selection = tuple(map(np.ascontiguousarray, parts)), selection
        return self._parts[which]


class _Part(Input):
    """A field like another one, of float64, whose parts are computed."""

    def __init__(self, source: Input, which: int, scaled: _Scaled) -> None:
        vars(self).update(vars(source))
        self.values = None
        self.dtype = np.dtype(np.float64)
        self.is_array = self.is_contiguous = False
        self.device = None
        self._which, self._scaled = which, scaled

    def read(self, selection: tuple[slice, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """Compute a part."""
        return self._scaled.part(self._which, selection).astype(dtype, copy=False)


def multiplied(fields: Fields, scale: Scale) -> Fields:
    """Return fields that the CPU scales as it reads them, with a mask of excluded points."""
    scaled = _Scaled(fields, scale)
    return dataclasses.replace(
        fields,
        original=_Part(fields.original, 0, scaled),
        decoded=_Part(fields.decoded, 1, scaled),
        mask=_Part(fields.original, 2, scaled),
        dtype=np.dtype(np.float64),
        missing=Missing(np.dtype(np.float64)),
        device=None,
    )

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""What is computed for a pair of fields, as the native library takes it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from h5lossy import _native
from h5lossy._bounds import exact_limits
from h5lossy._values import is_big_endian
from h5lossy.assessment._absent import Absent

if TYPE_CHECKING:
    from fractions import Fraction

    from h5lossy._bounds import ErrorBound
    from h5lossy.assessment._fields import Fields
    from h5lossy.assessment._options import AssessOptions


@dataclass(frozen=True, kw_only=True)
class Task:
    """One assessment: the fields, the options, and what follows from both."""

    fields: Fields
    options: AssessOptions
    bound: ErrorBound | None
    bound_source: str  # "given", or "file" where the decoded dataset states it
    groups: frozenset[str]
    spacing: tuple[float, ...]  # along all axes

    @property
    def has_neighbours(self) -> bool:
        """Whether the rank is one that stencils, lags, windows and boxes are computed for."""
        return 0 < len(self.fields.layout.shape) <= _native.ASSESS_MAX_RANK

    def params(self, extent: Fraction, value_range: float | None) -> _native.AssessParams:
        """Return the parameters for a state.

        A range-relative bound is relative to `extent`; SSIM takes its constants from `value_range`.
        """
        options, fields, groups = self.options, self.fields, self.groups
        kind, limit, half = exact_limits(self.bound, extent)
        params = _native.AssessParams(
            value_bytes=fields.dtype.itemsize,
            original_big_endian=is_big_endian(fields.dtype),
            decoded_big_endian=is_big_endian(fields.dtype),
            fill_bits=fields.missing.fill_bits,
            bound_kind=kind,
            limit=limit,
            half_limit=half,
            histogram_limit=grid_limit(limit[0]) if kind == _native.BOUND_ABSOLUTE else 0.0,
            pointwise_threshold=float(options.relative_threshold),
            thresholds=tuple(value for _, value in options.thresholds),
            threads=int(options.threads or 0),
            step=options.step,
            on_device=fields.device is not None,
        )
        if not self.has_neighbours:
            return params
        has_windows = "ssim" in groups
        return replace(
            params,
            lags=int(options.lags) if "autocorrelation" in groups else 0,
            stencils="derivatives" in groups,
            window=options.window if has_windows else 0,
            shape=fields.layout.shape,
            spacing=tuple(self.spacing[axis] for axis in fields.layout.axes),
            value_range=value_range if has_windows and value_range else 0.0,
        )

    def absent(self, params: _native.AssessParams) -> Absent | None:
        """Return a counter of missing points that the native library does not handle, if any."""
        fields = self.fields
        if not fields.missing.has_more and fields.decoded.mask is None:
            return None
        return Absent(fields.missing, params, fields.decoded.mask)


def grid_limit(limit: float) -> float:
    """Return the limit that the histogram's grid is made for; 0: it adapts to the errors."""
    return limit if 1e-300 <= limit < math.inf else 0.0


def halo_of(params: _native.AssessParams) -> int:
    """Return how far stencils, lags and windows extend from their first point, in points."""
    return max(params.lags, params.window - 1, 2 if params.stencils else 0)

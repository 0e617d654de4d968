# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""What is computed for two fields, and the passes over them that compute it."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from h5lossy import _native
from h5lossy._blocks import BLOCK_BYTES
from h5lossy._bounds import BoundKind, ErrorBound, exact_limits
from h5lossy._errors import InvalidArgumentError
from h5lossy._ranges import Extent
from h5lossy._safeguards import NO_SAFEGUARDS, Safeguards, Sides
from h5lossy.assessment._absent import Absent
from h5lossy.assessment._climate import Power, climate, powers
from h5lossy.assessment._distribution import distribution
from h5lossy.assessment._undefined import Undefined
from h5lossy.assessment._walk import Walker, box_grid
from h5lossy.assessment._weights import weighted
from h5lossy.assessment.metrics import relative_histogram, run_metrics

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from h5lossy.assessment._fields import Fields
    from h5lossy.assessment._inputs import Input
    from h5lossy.assessment._options import AssessOptions
    from h5lossy.assessment.metrics import Metric
    from h5lossy.assessment.schema import Climate, Distribution, RelativeHistogram, Weighted

    #: Extents of a box, and all boxes.
    Boxes = tuple[tuple[int, ...], npt.NDArray[Any]]

#: What is computed for complex numbers: nothing that needs neighbours, since components are none.
_OF_COMPLEX = frozenset({"per_chunk", "pointwise"})

#: Maximum number of boxes in the map of errors; if there are more chunks, a box has several.
_MOST_BOXES = 4096


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """One assessment: the fields, the options, and what follows from both."""

    fields: Fields
    options: AssessOptions
    bound: ErrorBound | None
    bound_source: str  # "given", or "file" if the decoded dataset states it
    safeguards: Safeguards = NO_SAFEGUARDS  # of the file
    exact: tuple[int, ...] = ()  # values of the file
    groups: frozenset[str]
    spacing: tuple[float, ...]  # along all axes
    own_metrics: tuple[Metric, ...] = ()
    weights: Input | None = None

    @property
    def has_neighbours(self) -> bool:
        """Whether stencils, lags, windows and boxes can be computed for this rank."""
        return 0 < len(self.fields.layout.shape) <= _native.ASSESS_MAX_RANK

    def params(self, extent: Fraction, value_range: float | None) -> _native.AssessParams:
        """Return the parameters for a state.

        A range-relative bound is relative to `extent`; SSIM takes its constants from `value_range`.
        """
        options, fields, groups = self.options, self.fields, self.groups
        limits = exact_limits(self.bound, extent)
        is_absolute = limits.get("bound_kind") == _native.BOUND_ABSOLUTE
        fill_bits = fields.missing.fill_bits
        params = _native.AssessParams(
            **_native.compared(fields.dtype, fill_bits, is_complex=fields.is_complex),
            **limits,
            histogram_limit=grid_limit(limits["limit"][0]) if is_absolute else 0.0,
            pointwise_threshold=float(options.relative_threshold),
            thresholds=tuple(value for _, value in options.thresholds),
            threads=int(options.threads or 0),
            step=options.step,
            on_device=fields.device is not None,
        )
        if not self.has_neighbours:
            return params
        has_windows = "ssim" in groups
        return dataclasses.replace(
            params,
            lags=int(options.lags) if "autocorrelation" in groups else 0,
            stencils="derivatives" in groups,
            window=windows_along(options.window, fields.axes) if has_windows else (),
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


def groups_for(original: Input, options: AssessOptions) -> frozenset[str]:
    """Return the groups of metrics that are computed for a field."""
    return options.groups & _OF_COMPLEX if original.is_complex else options.groups


@dataclasses.dataclass(frozen=True, kw_only=True)
class Results:
    """What the passes found."""

    params: _native.AssessParams
    points: _native.PointsResult
    field: _native.FieldResult
    value_range: float | None  # for SSIM
    undefined: Undefined
    absent: Absent | None
    sides: Sides | None = None
    state: _native.AssessState | None = None  # the one to which `field` belongs
    boxes: Boxes | None = None
    climate: Climate | None = None
    distribution: Distribution | None = None
    weighted: Weighted | None = None
    power: Power | str | None = None  # for the spectrum, or why there is none
    relative_histogram: RelativeHistogram | None = None
    passes: int = 1  # how often the original was read
    amplification: float = 1.0  # how often a value was read in the last pass, on average


class Passes:
    """Reads the fields of a task as often as its metrics require."""

    def __init__(
        self, task: Task, memory_limit: int, progress: Callable[[int, int], object]
    ) -> None:
        self._task, self._limit, self._progress = task, memory_limit, progress
        options = task.options
        self._is_relative = task.bound is not None and task.bound.kind is BoundKind.RANGE_RELATIVE
        needs_range = "ssim" in task.groups and options.data_range is None
        self._passes = 2 if needs_range or self._is_relative else 1
        more = len({"climate", "distribution", "pointwise"} & task.groups) + bool(task.own_metrics)
        more += task.weights is not None
        self._done, self._total = 0, task.fields.nbytes * (self._passes + more)

    def _advance(self, points: int) -> None:
        self._done += points * self._task.fields.dtype.itemsize
        self._progress(self._done, self._total)

    def run(self) -> Results:
        """Read the fields, and return all results."""
        task, fields = self._task, self._task.fields
        state: _native.AssessState | None = None
        points: _native.PointsResult | None = None
        ends: tuple[float, float] | None = None
        if self._passes == 2 and fields.device is not None and not self._is_relative:
            # Everything is in memory, so the reductions can run first, and find the range.
            state = _native.AssessState(task.params(Fraction(0), None))
            Walker(fields, 0, 0).run(state, progress=self._advance)
            points = state.points_result()
            ends = _original_ends(points)
            if ends is None:
                self._total += fields.nbytes
        if self._passes == 2 and ends is None:
            ends = self._value_range()
        value_range, extent = self._ranges(ends)
        if state is None:
            state = _native.new_state(task.params(extent, value_range))
        elif state.params.window:
            state.params = dataclasses.replace(state.params, value_range=value_range or 0.0)
        walker = Walker(fields, halo_of(state.params), self._limit, state.params.step)
        boxes = self._new_boxes()
        absent = task.absent(state.params)
        has_promises = task.safeguards != NO_SAFEGUARDS or task.exact
        sides = Sides(task.safeguards, task.exact) if has_promises else None
        field_state = walker.run(
            state,
            boxes=boxes,
            has_points=points is not None,
            counters=[one for one in (absent, sides) if one is not None],
            progress=self._advance,
        )
        points = points or state.points_result()
        run_metrics(task.own_metrics, fields, self._advance)
        undefined, groups = Undefined(), task.groups
        return Results(
            params=state.params,
            points=points,
            field=field_state.field_result(),
            value_range=value_range,
            undefined=undefined,
            absent=absent,
            sides=sides,
            state=field_state,
            boxes=boxes,
            climate=(
                climate(fields, self._params_of_slices(), self._limit, undefined, self._advance)
                if "climate" in groups
                else None
            ),
            distribution=(
                distribution(fields, self._limit, undefined, self._advance)
                if "distribution" in groups
                else None
            ),
            weighted=self._weighted(points, undefined),
            power=powers(fields, self._limit) if "spectrum" in groups else None,
            relative_histogram=(
                relative_histogram(fields, undefined, self._advance)
                if "pointwise" in groups
                else None
            ),
            passes=self._passes,
            amplification=walker.amplification,
        )

    def _params_of_slices(self) -> _native.AssessParams:
        """Return the parameters for the data SSIM, which the host computes."""
        fields = self._task.fields
        return _native.AssessParams(
            **_native.compared(fields.dtype, fields.missing.fill_bits),
            threads=int(self._task.options.threads or 0),
        )

    def _weighted(self, points: _native.PointsResult, undefined: Undefined) -> Weighted | None:
        """Return weighted means, if there are weights."""
        weights = self._task.weights
        if weights is None:
            return None
        pivot = points.mean_original if math.isfinite(points.mean_original) else 0.0
        return weighted(self._task.fields, weights, pivot, undefined, self._advance)

    def _ranges(self, ends: tuple[float, float] | None) -> tuple[float | None, Fraction]:
        """Return the range for SSIM, and the range for a range-relative bound."""
        extent = Fraction(0) if ends is None else Fraction(ends[1]) - Fraction(ends[0])
        given = self._task.options.data_range
        if given is not None:
            return float(given), extent
        if ends is None:
            return None, extent
        return float(extent) if math.isfinite(ends[1] - ends[0]) else math.inf, extent

    def _value_range(self) -> tuple[float, float] | None:
        """Return the smallest and the largest valid value of the original."""
        fields = self._task.fields
        dtype = fields.dtype
        if fields.device is not None:  # from reductions of the original with itself
            state = _native.AssessState(
                _native.AssessParams(
                    value_bytes=dtype.itemsize, fill_bits=fields.missing.fill_bits, on_device=True
                )
            )
            both = dataclasses.replace(fields, decoded=fields.original)
            Walker(both, 0, 0).run(state, progress=self._advance)
            return _original_ends(state.points_result())
        extent = Extent(fields.missing, int(self._task.options.threads or 0))
        for own, times in fields.blocks(min(BLOCK_BYTES, self._limit // 4)):
            block, mask = fields.read_original(fields.layout.selection(own))
            extent.add(block, mask)
            self._advance(block.size * times)
        return extent.ends

    def _new_boxes(self) -> Boxes | None:
        """Return boxes of whole chunks in which errors are summed; None if not requested."""
        task, layout = self._task, self._task.fields.layout
        chunks = layout.chunks(task.fields.decoded) or layout.chunks(task.fields.original)
        wanted = "per_chunk" in task.groups and task.has_neighbours and 0 not in layout.shape
        if not wanted or not chunks:
            return None
        box = box_grid(layout.shape, chunks, _MOST_BOXES)
        count = math.prod(-(-n // b) for n, b in zip(layout.shape, box, strict=True))
        return box, np.zeros(count, _native.BOX_DTYPE)


def _original_ends(points: _native.PointsResult) -> tuple[float, float] | None:
    """Return the smallest and the largest value of the original, if the reductions have them.

    They do not if a value became NaN or infinite, since the reductions leave such points out.
    """
    lost = points.special["nan_introduced"] + points.special["inf_introduced"]
    return (points.original_min, points.original_max) if points.valid and not lost else None


def grid_limit(limit: float) -> float:
    """Return the limit for the grid of the histogram; 0 if the grid adapts to the errors."""
    return limit if 1e-300 <= limit < math.inf else 0.0


def windows_along(window: int | tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the sides of windows along `axes`."""
    sides = (window,) * len(axes) if isinstance(window, int) else window
    if len(sides) != len(axes):
        raise InvalidArgumentError(
            f"ssim's window takes one side, or one for each of {len(axes)} axes, got {window}"
        )
    return sides


def halo_of(params: _native.AssessParams) -> int:
    """Return how far stencils, lags and windows extend from their first point, in points."""
    return max(params.lags, *(side - 1 for side in params.window), 2 if params.stencils else 0)

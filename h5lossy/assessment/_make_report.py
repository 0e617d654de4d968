# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Makes a report from the results of the passes."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from h5lossy import _native
from h5lossy.assessment import _numbers as numbers
from h5lossy.assessment._fields import Layout, position
from h5lossy.assessment._passes import windows_along
from h5lossy.assessment._undefined import OVERFLOW, Undefined, fits, without_lost_sums
from h5lossy.assessment.report import Report
from h5lossy.assessment.schema import (
    BoundCheck,
    Errors,
    Failure,
    PerChunk,
    Provenance,
    SafeguardCheck,
    Size,
    ThresholdCrossing,
    Values,
    Violation,
)

if TYPE_CHECKING:
    import h5py

    from h5lossy._safeguards import Sides
    from h5lossy.assessment._passes import Results, Task
    from h5lossy.assessment._sliced import SliceSums


def make_report(task: Task, found: Results, slices: SliceSums | None) -> Report:
    """Return the report on a task, from the results of the passes over its fields and slices."""
    options, fields, groups = task.options, task.fields, task.groups
    layout, missing, absent = fields.layout, fields.missing, found.absent
    undefined, params = found.undefined, found.params
    # Metrics of neighbours: from the whole field, or from each of its slices.
    near, power = (layout, found.power) if slices is None else (slices.worst_slice, slices.power)
    value_range = found.value_range if slices is None else slices.value_range
    spacing = params.spacing if slices is None else slices.params.spacing
    sides = windows_along(options.window, fields.axes)
    sums, field = without_lost_sums(found.points, found.field if slices is None else slices.field)
    points = sums if absent is None else absent.added_to(sums)
    original = numbers.values(points, "original", undefined)
    decoded = numbers.values(points, "decoded", undefined)
    error = numbers.errors(points, layout, params.pointwise_threshold, undefined)
    if fields.is_complex:
        for group in sorted(options.groups - groups):
            undefined[group] = "of complex numbers only errors are measured"
    report = Report(
        shape=layout.full_shape,
        dtype=(fields.original.given if fields.is_complex else fields.dtype).name,
        dims=tuple(one.name for one in fields.coordinates),
        coordinates=fields.coordinates,
        axes=fields.axes,
        points=points.count,
        valid=points.valid,
        masked=points.masked,
        fill_value=None if missing.fill is None else float(missing.fill),
        missing_values=tuple(map(float, missing.values)),
        valid_min=None if missing.low is None else float(missing.low),
        valid_max=None if missing.high is None else float(missing.high),
        outside=0 if absent is None else absent.outside_points,
        requirements=tuple(map(str, options.requirements)),
        failures=(),
        special=numbers.special(points, absent, layout.full_shape),
        original=original,
        decoded=decoded,
        error=error,
        bound=_bound_check(task, points, params),
        safeguards=_safeguard_check(found, layout),
        correlation=numbers.correlation(points, undefined),
        histogram=numbers.histogram(points, undefined),
        relative_histogram=found.relative_histogram,
        ssim=(
            numbers.similarity(
                field, near, sides, undefined, step=options.step, value_range=value_range
            )
            if "ssim" in groups
            else None
        ),
        derivatives=(
            numbers.derivatives(field, near, spacing, undefined)
            if "derivatives" in groups
            else None
        ),
        autocorrelation=(
            numbers.autocorrelation(points, field, near, options.lags, undefined)
            if "autocorrelation" in groups and options.lags
            else None
        ),
        climate=found.climate,
        spectrum=numbers.spectrum(power, undefined) if "spectrum" in groups else None,
        threshold_crossings=tuple(
            ThresholdCrossing(name=name, threshold=threshold, count=count)
            for (name, threshold), count in zip(
                options.thresholds, points.threshold_crossings, strict=False
            )
        ),
        distribution=found.distribution,
        weighted=found.weighted,
        per_slice=None if slices is None else slices.result(undefined),
        size=_size(fields.decoded.dataset, original, error, undefined),
        per_chunk=_per_chunk(found, layout, original),
        provenance=Provenance(
            original=fields.original.name,
            decoded=fields.decoded.name,
            h5lossy=_native.version(),
            passes=found.passes,
            units=fields.original.units,
            long_name=fields.original.long_name,
            amplification=found.amplification,
            unpacked=tuple(
                f"{which}: {field.packing}"
                for which, field in (("original", fields.original), ("decoded", fields.decoded))
                if field.packing is not None and not field.packing.is_plain
            ),
        ),
        metrics={metric.name: metric.result() for metric in task.own_metrics},
        undefined=dict(undefined),
    )
    failures = [*_failures(report, found.sides), *(r.failure(report) for r in options.requirements)]
    return dataclasses.replace(report, failures=tuple(filter(None, failures)))


def _bound_check(
    task: Task, points: _native.PointsResult, params: _native.AssessParams
) -> BoundCheck | None:
    """Return whether the bound is kept, with the first violations; None if there is no bound."""
    bound = task.bound
    if bound is None:
        return None
    shape, chunks = task.fields.layout.full_shape, task.fields.decoded.chunks
    listed = []
    for point in points.listed:
        at = position(point.at, shape)
        chunk = chunks and tuple(i // n for i, n in zip(at, chunks, strict=True))
        listed.append(Violation(at=at, original=point.original, decoded=point.decoded, chunk=chunk))
    return BoundCheck(
        kind=str(bound.kind),
        value=bound.value,
        floor=bound.floor,
        limit=params.limit[0] if params.bound_kind == _native.BOUND_ABSOLUTE else None,
        share=points.share,
        source=task.bound_source,
        violations=points.violations,
        listed=tuple(listed),
    )


def _safeguard_check(found: Results, layout: Layout) -> SafeguardCheck | None:
    """Return whether safeguards and exact values hold; None if there are none."""
    sides = found.sides
    if sides is None:
        return None
    first = None if sides.first is None else position(sides.first.at, layout.full_shape)
    return SafeguardCheck(
        **sides.safeguards._asdict(), exact=sides.exact, broken=sides.broken, first=first
    )


def _size(
    dataset: h5py.Dataset | None, original: Values, error: Errors, undefined: Undefined
) -> Size | None:
    """Return the size of the decoded field in its file; None if it is in no file."""
    if dataset is None:
        return None
    raw, stored = int(dataset.size * dataset.dtype.itemsize), int(dataset.id.get_storage_size())
    found = numbers.size(raw, stored, dataset.size, original, error)
    if found.accuracy_gain is None:
        undefined["size.accuracy_gain"] = (
            "there is no error, nothing varies, or squares are beyond float64"
        )
    if found.bits_per_value is None:
        undefined["size.bits_per_value"] = "there are no values"
    if found.ratio is None:
        undefined["size.ratio"] = "nothing is stored"
    return found


def _per_chunk(found: Results, layout: Layout, original: Values) -> PerChunk | None:
    """Return the errors of each chunk; None if there are no sums of boxes."""
    if found.boxes is None:
        return None
    box, boxes = found.boxes
    full_box = layout.full(box, 1)
    extent = original.range if fits(*boxes["error_max_abs"].tolist()) else None
    if extent is None or not boxes["valid"].all():
        found.undefined["per_chunk.psnr"] = f"a chunk has no valid point, or squares are {OVERFLOW}"
    return PerChunk(
        box=full_box,
        grid=tuple(-(-n // b) for n, b in zip(layout.full_shape, full_box, strict=True)),
        max_abs=tuple(boxes["error_max_abs"].tolist()),
        psnr=tuple(
            None
            if extent is None or not count
            else numbers.decibel(extent, math.sqrt(squares / count))
            for count, squares in zip(
                boxes["valid"].tolist(), boxes["error_squares"].tolist(), strict=True
            )
        ),
        special=tuple(boxes["special_failures"].tolist()),
    )


def _failures(report: Report, sides: Sides | None) -> list[Failure | None]:
    """Return the failures of the bound, of safeguards and of special values."""
    found: list[Failure | None] = []
    bound = report.bound
    if bound is not None and bound.violations:
        first = bound.listed[0]
        found.append(
            Failure(
                check="bound",
                wanted=str(bound),
                got=f"{bound.violations} of {report.valid} points over, "
                f"first {first.original!r} became {first.decoded!r}",
                where=first.at,
            )
        )
    if sides is not None and sides.first is not None:
        _, before, after = sides.first
        found.append(
            Failure(
                check="safeguards",
                wanted=str(sides),
                got=f"{sides.problem()}, first {before!r} became {after!r}",
                where=position(sides.first.at, report.shape),
            )
        )
    for name, count in report.special.failed.items():
        first_place = report.special.first.get(name)
        found.append(Failure(check=name, wanted="0", got=str(count), where=first_place))
    return found

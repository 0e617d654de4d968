# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Sums and extrema into the numbers of a report: every definition that is not in the library."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from h5lossy.assessment._fields import position
from h5lossy.assessment._wide import OVERFLOW, Undefined, Wide, exponent_of, fits, scaled
from h5lossy.assessment.schema import (
    AxisCorrelation,
    Correlation,
    Derivatives,
    Errors,
    Histogram,
    Number,
    Pointwise,
    Quantiles,
    Similarity,
    Slope,
    Special,
    Values,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from h5lossy._native import FieldResult, PointsResult
    from h5lossy.assessment._absent import Absent
    from h5lossy.assessment._fields import Layout
    from h5lossy.assessment._scaling import Sums

NO_POINTS = "there is no valid point"
NO_ORIGINAL = "the original has no valid value"
CONSTANT = "the original or the decoded field is constant"
CONSTANT_ERROR = "the error is the same everywhere"

_LOG_BINS = 2048  # of one sign
_NORMAL_95 = 1.96  # what 95 % of a normal distribution stays within, in standard deviations


def special(points: PointsResult, absent: Absent | None, shape: tuple[int, ...]) -> Special:
    """Return the counts of special values, with the place of the first of each kind."""
    first = {
        kind: position(points.special_first[kind], shape)
        for kind, count in points.special.items()
        if count
    }
    if absent is None:
        return Special(**points.special, first=first)
    first |= {kind: position(number, shape) for kind, number in absent.first.items()}
    return Special(**points.special, **absent.counts, first=first)


def values(points: PointsResult, sums: Sums, which: str, undefined: Undefined) -> Values:
    """Return extent and moments of "original" or "decoded"."""
    if not points.valid:
        undefined[which] = NO_POINTS
        return Values(min=None, max=None, range=None, mean=None, std=None)
    low, high = getattr(points, f"{which}_min"), getattr(points, f"{which}_max")
    mean, squares = sums.mean_original, sums.squares_original
    if which == "decoded":
        mean += sums.mean_error
        squares += Wide(2) * sums.products + sums.squares_error
    if low == high:
        mean, squares = Wide(low), Wide(0)
    return Values(
        min=low,
        max=high,
        range=undefined.checked(f"{which}.range", high - low),
        mean=undefined.checked(f"{which}.mean", mean),
        std=undefined.checked(f"{which}.std", (squares / Wide(points.valid)).sqrt()),
    )


def mean_square(points: PointsResult, sums: Sums) -> Wide:
    """Return the mean square error."""
    return sums.squares_error / Wide(points.valid) + sums.mean_error * sums.mean_error


def decibel(peak: Wide, rmse: Wide) -> float:
    """Return 20 log10(peak / rmse): infinite without an error, minus infinite without a peak."""
    if not rmse:
        return math.inf
    quotient = peak / rmse
    return 20 * quotient.log10() if quotient else -math.inf


def _ratio(part: Wide, whole: Wide) -> Wide | float:
    """Divide as relative errors are meant: 0 of 0 is 0, anything else of 0 is infinite."""
    if not whole:
        return math.inf if part else 0.0
    return part / whole


def quantiles(points: PointsResult, sums: Sums) -> Quantiles:
    """Return sizes of error from the logarithmic histogram, each within its bin."""
    counts = sums.points.log_bins[:_LOG_BINS] + sums.points.log_bins[_LOG_BINS:]
    most = max(points.error_max, -points.error_min)
    wanted = [math.ceil(part * points.valid) for part in (0.5, 0.9, 0.99, 0.999)]
    bins = np.searchsorted(np.cumsum(counts, dtype=np.int64), np.array(wanted, np.int64))

    def size(i: int) -> float:
        octave, eighth = divmod(i, 8)
        middle = 2.0 ** (octave - 127) * (1 + (eighth + 0.5) / 8) if i else 0.0
        return min(max(scaled(middle, -sums.scale.error), points.error_min_abs), most)

    p50, p90, p99, p99_9 = map(size, bins.tolist())
    return Quantiles(p50=p50, p90=p90, p99=p99, p99_9=p99_9)


def errors(
    points: PointsResult, sums: Sums, layout: Layout, threshold: Number, undefined: Undefined
) -> Errors:
    """Return the reductions of the error."""
    pointwise = _pointwise(points, threshold, undefined)
    if not points.valid:
        undefined["error"] = NO_POINTS
        parts = {"max_at", "quantiles", "pointwise"}
        names = [name for name in Errors.__annotations__ if name not in parts]
        nothing = Quantiles(p50=None, p90=None, p99=None, p99_9=None)
        return Errors(
            **dict.fromkeys(names, None), max_at=None, quantiles=nothing, pointwise=pointwise
        )
    n = Wide(points.valid)
    low, high = Wide(points.original_min), Wide(points.original_max)
    extent = high - low
    mse = mean_square(points, sums)
    rmse = mse.sqrt()
    if points.error_min == points.error_max:  # without a rounding
        rmse = Wide(abs(points.error_min))
        mse = rmse * rmse
    variance = sums.squares_original / n
    worst = max(points.error_max, -points.error_min)
    mean_abs = sums.sum_abs_error / n
    plain: dict[str, float | Wide] = {
        "min": points.error_min,
        "max": points.error_max,
        "mean": sums.mean_error,
        "std": (sums.squares_error / n).sqrt(),
        "min_abs": points.error_min_abs,
        "max_abs": worst,
        "max_original": points.worst.original,
        "max_decoded": points.worst.decoded,
        "mean_abs": mean_abs,
        "mse": mse,
        "rmse": rmse,
    }
    relative: dict[str, float | Wide] = {
        "max_relative": _ratio(Wide(worst), extent),
        "mean_relative": _ratio(mean_abs, extent),
        "nrmse": _ratio(rmse, extent),
        "psnr": decibel(extent, rmse),
        "snr": decibel(variance.sqrt(), rmse),
    }
    return Errors(
        **{name: undefined.checked(f"error.{name}", value) for name, value in plain.items()},
        **{
            name: undefined.checked(f"error.{name}", value, infinite=True)
            for name, value in relative.items()
        },
        max_at=position(points.worst.at, layout.full_shape),
        quantiles=quantiles(points, sums),
        pointwise=pointwise,
    )


def _pointwise(points: PointsResult, threshold: Number, undefined: Undefined) -> Pointwise:
    nonzero = points.valid - points.zeros
    low: Number = None
    high: Number = None
    mean: Number = None
    if nonzero:
        low = points.pointwise_min
        high = undefined.checked("error.pointwise.max", points.pointwise_max)
        mean = undefined.checked("error.pointwise.mean", points.sum_pointwise / nonzero)
    else:
        undefined["error.pointwise"] = "there is no valid point other than 0"
    return Pointwise(
        min=low,
        max=high,
        mean=mean,
        zeros=points.zeros,
        zeros_changed=points.zeros_changed,
        threshold=threshold,
        over_threshold=None if threshold is None else points.over_threshold,
    )


def correlation(points: PointsResult, sums: Sums, undefined: Undefined) -> Correlation:
    """Return Pearson's correlations from moments of original and error.

    1 - r^2 = (Vx Ve - C^2) / (Vx Vy) has no cancellation, so the nines are right beyond 1e-16.
    """
    why = NO_POINTS if not points.valid else ""
    flat_x = points.original_min == points.original_max
    if flat_x or points.decoded_min == points.decoded_max:
        why = why or CONSTANT
    vx, ve, c = sums.squares_original, sums.squares_error, sums.products
    vy = vx + Wide(2) * c + ve
    both = vx * vy
    if not why and not (both.is_finite and both > Wide(0)):
        why = OVERFLOW
    if why:
        undefined["correlation"] = why
        return Correlation(pearson=None, one_minus_pearson=None, nines=None, with_error=None)
    left = float((vx * ve - c * c) / both)
    lost = max(0.0, left)
    r = math.copysign(math.sqrt(max(0.0, 1.0 - lost)), float((vx + c) / vx))
    one_minus = lost / (1 + r) if r > 0 else 1 - r
    with_error: Number = None
    if points.error_min == points.error_max or not ve > Wide(0):
        undefined["correlation.with_error"] = CONSTANT_ERROR
    else:
        with_error = min(1.0, max(-1.0, float(c / vx.sqrt() / ve.sqrt())))
    return Correlation(
        pearson=r,
        one_minus_pearson=one_minus,
        nines=math.inf if one_minus == 0 else -math.log10(one_minus),
        with_error=with_error,
    )


def histogram(points: PointsResult, sums: Sums, undefined: Undefined) -> Histogram:
    """Return the linear histogram, from the lowest bin to the highest."""
    found = sums.points
    bins = found.linear_bins.tolist()
    width: Number = None
    if found.grid_exponent > -1100:
        width = undefined.checked(
            "histogram.bin_width", sums.scale.of_error(math.ldexp(1.0, found.grid_exponent))
        )
    else:
        undefined["histogram.bin_width"] = "every error is 0" if points.valid else NO_POINTS
    return Histogram(
        bin_width=width,
        counts=tuple(bins[255:127:-1] + bins[:128]),
        below=bins[257],
        above=bins[256],
    )


def similarity(
    field: FieldResult,
    layout: Layout,
    *,
    window: int,
    step: int,
    value_range: Number,
    undefined: Undefined,
) -> Similarity:
    """Return SSIM, or why there is none."""
    shape = layout.shape
    why = ""
    if len(shape) > 4:
        why = f"of {len(shape)} axes longer than 1 at most 4 can be taken"
    elif any(n < window for n in shape):
        why = f"an axis is shorter than the window of {window}"
    elif value_range is None:
        why = NO_ORIGINAL
    elif not value_range:
        why = "the original is constant: it has no range"
    elif math.isinf(value_range):
        why = OVERFLOW
    elif not field.windows:
        why = "every window holds a point that is not valid"
    lost: Number = None
    worst: Number = None
    if why:
        undefined["ssim"] = why
    else:
        lost = undefined.checked("ssim.one_minus_mean", field.window_sum / field.windows)
        worst = undefined.checked("ssim.one_minus_min", field.window_worst)
    return Similarity(
        window=window,
        step=step,
        value_range=value_range,
        windows=0 if why else field.windows,
        mean=None if lost is None else 1 - lost,
        one_minus_mean=lost,
        min=None if worst is None else 1 - worst,
        one_minus_min=worst,
        min_at=None if worst is None else _place(field.window_at, layout),
    )


def _place(at: Sequence[int], layout: Layout) -> tuple[int, ...]:
    """Return coordinates with the axes of extent 1."""
    whole = [0] * len(layout.full_shape)
    for axis, i in zip(layout.axes, at, strict=False):
        whole[axis] = i
    return tuple(whole)


def derivatives(
    sums: Sums,
    layout: Layout,
    spacing: tuple[float, ...],
    undefined: Undefined,
) -> Derivatives:
    """Return what became of gradient and Laplacian."""
    field, scale = sums.field, sums.scale
    n = field.interior
    if not n:
        undefined["derivatives"] = "no point has two valid neighbours along every axis"
        names = [name for name in Derivatives.__annotations__ if "_" in name]
        return Derivatives(points=0, spacing=spacing, slopes=(), **dict.fromkeys(names, None))
    check, of_x, of_e = undefined.checked, scale.of_original, scale.of_error

    def root(squares: Wide, largest: float = 1.0) -> Wide:
        """Return a root mean square; NaN where the square of the largest may not have fitted."""
        return (squares / Wide(n)).sqrt() if fits(exponent_of(largest)) else Wide(math.nan)

    slopes = tuple(
        Slope(
            axis=axis,
            max=check("derivatives.slopes", of_x(field.slope_max[i])),
            max_error=check("derivatives.slopes", of_e(field.slope_error_max[i])),
            rmse=check(
                "derivatives.slopes",
                root(of_e(field.slope_error_squares[i], 2), field.slope_error_max[i]),
            ),
        )
        for i, axis in enumerate(layout.axes)
    )
    extent = of_x(field.gradient_max) - of_x(field.gradient_min)
    # The change of a gradient's length takes both fields in the same units.
    common = 1.0 if scale.is_common else math.nan
    max_change = of_e(common * field.gradient_error_max)
    change = root(of_e(common * field.gradient_error_squares, 2), field.gradient_error_max)
    all_squares = field.error_squares + sum(field.slope_error_squares)
    return Derivatives(
        points=n,
        spacing=spacing,
        slopes=slopes,
        gradient_max=check("derivatives.gradient_max", of_x(field.gradient_max)),
        gradient_range=check("derivatives.gradient_range", extent),
        gradient_max_error=check("derivatives.gradient_max_error", max_change),
        gradient_rmse=check("derivatives.gradient_rmse", change),
        gradient_psnr=check("derivatives.gradient_psnr", decibel(extent, change), infinite=True),
        laplacian_rms=check("derivatives.laplacian_rms", root(of_x(field.laplacian_squares, 2))),
        laplacian_max_error=check(
            "derivatives.laplacian_max_error", of_e(field.laplacian_error_max)
        ),
        laplacian_rmse=check(
            "derivatives.laplacian_rmse",
            root(of_e(field.laplacian_error_squares, 2), field.laplacian_error_max),
        ),
        h1_error=check("derivatives.h1_error", root(of_e(all_squares, 2))),
    )


def autocorrelation(
    points: PointsResult,
    sums: Sums,
    layout: Layout,
    lags: int,
    undefined: Undefined,
) -> tuple[AxisCorrelation, ...]:
    """Return the autocorrelation of the error along each axis, and of the paper's mean."""
    field = sums.field
    why = ""
    if not points.valid:
        why = NO_POINTS
    elif points.error_min == points.error_max:
        why = CONSTANT_ERROR
    elif len(layout.shape) > 4:
        why = f"of {len(layout.shape)} axes longer than 1 at most 4 can be taken"
    variance = sums.points.squares_error / points.valid if points.valid else 0.0
    if not why and not (0 < variance < math.inf):
        why = OVERFLOW
    if why:
        undefined["autocorrelation"] = why
    mean = sums.points.mean_error - field.pivot_error
    rows = zip(
        field.lag_pairs.tolist(), field.lag_products.tolist(), field.lag_sums.tolist(), strict=True
    )
    per_lag = [list(zip(*row, strict=True))[:lags] for row in rows]

    def one(row: int, axis: int | None) -> AxisCorrelation:
        found: list[Number] = []
        band: list[Number] = []
        for pairs, products, both in per_lag[row]:
            if why or not pairs:
                found.append(None)
                band.append(None)
                continue
            found.append(((products - mean * both) / pairs + mean * mean) / variance)
            band.append(_NORMAL_95 / math.sqrt(pairs))
        if not why and None in found:
            undefined[f"autocorrelation.{'mean' if axis is None else axis}"] = (
                "no pair of valid points is so far apart"
            )
        return AxisCorrelation(axis=axis, values=tuple(found), band=tuple(band))

    axes = layout.axes if len(layout.axes) <= 4 else ()
    return (*(one(i, axis) for i, axis in enumerate(axes)), one(4, None))

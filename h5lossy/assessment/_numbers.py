# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The numbers of a report, from sums and extrema: every definition that is not in the library."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from h5lossy.assessment._fields import Layout, position
from h5lossy.assessment._undefined import OVERFLOW, Undefined, fits, quotient
from h5lossy.assessment.schema import (
    AxisCorrelation,
    AxisDerivative,
    Correlation,
    Derivatives,
    Errors,
    Histogram,
    Number,
    Pointwise,
    Quantiles,
    Similarity,
    Size,
    Special,
    Spectrum,
    Values,
    nothing,
)

if TYPE_CHECKING:
    from h5lossy._native import FieldResult, PointsResult
    from h5lossy.assessment._absent import Absent
    from h5lossy.assessment._climate import Power

NO_POINTS = "there is no valid point"
NO_ORIGINAL = "the original has no valid value"
CONSTANT = "the original or the decoded field is constant"
CONSTANT_ORIGINAL = "the original is constant: it has no range"
NO_WINDOW = "every window holds a point that is not valid"
NO_NEIGHBOURS = "no point has two valid neighbours along every axis"
CONSTANT_ERROR = "the error is the same everywhere"

_LOG_BINS = 2048  # of one sign
_SMALLEST, _LARGEST = 2.0**-100, 2.0**129  # of the largest error, for bins to resolve it
_K_MAX = 10  # cosmologists require a ratio of power near 1 below this wavenumber
_NORMAL_95 = 1.96  # 95 % of a normal distribution is within this many standard deviations


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


def values(points: PointsResult, which: str, undefined: Undefined) -> Values:
    """Return extent and moments of "original" or "decoded"."""
    if not points.valid:
        undefined[which] = NO_POINTS
        return nothing(Values)
    low, high = getattr(points, f"{which}_min"), getattr(points, f"{which}_max")
    mean, squares = points.mean_original, points.squares_original
    if which == "decoded":
        mean += points.mean_error
        squares += 2 * points.products + points.squares_error
    if low == high:
        mean, squares = low, 0.0
    return Values(
        min=low,
        max=high,
        range=undefined.checked(f"{which}.range", high - low),
        mean=undefined.checked(f"{which}.mean", mean),
        std=undefined.checked(f"{which}.std", _root(squares / points.valid)),
    )


def _root(square: float) -> float:
    """Return the square root; 0 for a number made negative by rounding."""
    return math.sqrt(square) if not square < 0 else 0.0


def mean_square(points: PointsResult) -> float:
    """Return the mean square error."""
    if points.error_min == points.error_max:  # exact, without rounding
        return points.error_min * points.error_min if fits(points.error_min) else math.nan
    return points.squares_error / points.valid + points.mean_error * points.mean_error


def decibel(peak: float, rmse: float) -> float:
    """Return 20 log10(peak / rmse): infinite without an error, minus infinite without a peak."""
    if rmse == 0:
        return math.inf
    if peak == 0:
        return -math.inf
    if not (math.isfinite(peak) and math.isfinite(rmse)):
        return math.nan
    ratio = quotient(peak, rmse)
    if math.isfinite(ratio):
        return 20 * math.log10(ratio)
    return 20 * (math.log10(peak) - math.log10(rmse))


def _ratio(part: float, whole: float) -> float:
    """Divide for a relative error: 0 / 0 is 0, anything else / 0 is infinite."""
    return quotient(part, whole) if whole else math.inf if part else 0.0


def quantiles(points: PointsResult, undefined: Undefined) -> Quantiles:
    """Return quantiles of |error| from the logarithmic histogram, each accurate to its bin."""
    most = max(points.error_max, -points.error_min)
    if most and not _SMALLEST <= most < _LARGEST:
        undefined["error.quantiles"] = f"the histogram has no bins for errors of {most:.3g}"
        return nothing(Quantiles)
    counts = points.log_bins[:_LOG_BINS] + points.log_bins[_LOG_BINS:]
    wanted = [math.ceil(part * points.valid) for part in (0.5, 0.9, 0.99, 0.999)]
    bins = np.searchsorted(np.cumsum(counts, dtype=np.int64), np.array(wanted, np.int64))

    def size_of(i: int) -> float:
        octave, eighth = divmod(i, 8)
        middle = 2.0 ** (octave - 127) * (1 + (eighth + 0.5) / 8) if i else 0.0
        return min(max(middle, points.error_min_abs), most)

    p50, p90, p99, p99_9 = map(size_of, bins.tolist())
    return Quantiles(p50=p50, p90=p90, p99=p99, p99_9=p99_9)


def errors(points: PointsResult, layout: Layout, threshold: Number, undefined: Undefined) -> Errors:
    """Return the reductions of the error."""
    pointwise = _pointwise(points, threshold, undefined)
    if not points.valid:
        undefined["error"] = NO_POINTS
        return nothing(Errors, quantiles=nothing(Quantiles), pointwise=pointwise)
    n, extent = points.valid, points.original_max - points.original_min
    mse = mean_square(points)
    rmse = abs(points.error_min) if points.error_min == points.error_max else _root(mse)
    worst = max(points.error_max, -points.error_min)
    mean_abs = points.sum_abs_error / n
    plain = {
        "min": points.error_min,
        "max": points.error_max,
        "mean": points.mean_error,
        "std": _root(points.squares_error / n),
        "min_abs": points.error_min_abs,
        "max_abs": worst,
        "max_original": points.worst.original,
        "max_decoded": points.worst.decoded,
        "mean_abs": mean_abs,
        "mse": mse,
        "rmse": rmse,
    }
    relative = {
        "max_relative": _ratio(worst, extent),
        "mean_relative": _ratio(mean_abs, extent),
        "nrmse": _ratio(rmse, extent),
        "psnr": decibel(extent, rmse),
        "snr": decibel(_root(points.squares_original / n), rmse),
    }
    return Errors(
        **{name: undefined.checked(f"error.{name}", value) for name, value in plain.items()},
        **{
            name: undefined.checked(f"error.{name}", value, infinite=True)
            for name, value in relative.items()
        },
        max_at=position(points.worst.at, layout.full_shape),
        max_modulus=(
            None
            if points.modulus_max is None
            else undefined.checked("error.max_modulus", points.modulus_max)
        ),
        quantiles=quantiles(points, undefined),
        pointwise=pointwise,
    )


def _pointwise(points: PointsResult, threshold: Number, undefined: Undefined) -> Pointwise:
    low: Number = None
    high: Number = None
    mean: Number = None
    if nonzero := points.valid - points.zeros:
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


def size(raw_bytes: int, stored_bytes: int, count: int, original: Values, error: Errors) -> Size:
    """Return the size of `count` values, and what follows from it and their error."""
    bits, gain = 8 * stored_bytes / count if count else None, None
    if bits is not None and original.std and error.rmse:
        gain = math.log2(original.std / error.rmse) - bits
    return Size(
        raw_bytes=raw_bytes,
        stored_bytes=stored_bytes,
        ratio=raw_bytes / stored_bytes if stored_bytes else None,
        bits_per_value=bits,
        accuracy_gain=gain,
    )


def pearson(vx: Any, ve: Any, c: Any) -> tuple[Any, Any]:
    """Return Pearson's r and 1 - r from the moments of original and error, numbers or arrays.

    1 - r^2 = (Vx Ve - C^2) / (Vx Vy) has no cancellation, so even more than 16 nines are right.
    """
    vy = vx + 2 * c + ve
    lost = np.fmax(0.0, ve / vy - (c / vx) * (c / vy))
    r = np.copysign(np.sqrt(np.maximum(0.0, 1.0 - lost)), (vx + c) / vx)
    return r, np.where(r > 0, lost / (1 + np.maximum(r, 0.0)), 1 - r)


def correlation(points: PointsResult, undefined: Undefined) -> Correlation:
    """Return Pearson's correlations of original and decoded, and of original and error."""
    why = NO_POINTS if not points.valid else ""
    flat_x = points.original_min == points.original_max
    if flat_x or points.decoded_min == points.decoded_max:
        why = why or CONSTANT
    vx, ve, c = points.squares_original, points.squares_error, points.products
    vy = vx + 2 * c + ve
    if not why and not (vx > 0 and vy > 0):  # also if NaN
        why = OVERFLOW
    if why:
        undefined["correlation"] = why
        return nothing(Correlation)
    r, one_minus = map(float, pearson(vx, ve, c))
    with_error: Number = None
    if points.error_min == points.error_max or not ve > 0:
        undefined["correlation.with_error"] = CONSTANT_ERROR
    else:
        with_error = min(1.0, max(-1.0, c / math.sqrt(vx) / math.sqrt(ve)))
    return Correlation(
        pearson=r,
        one_minus_pearson=one_minus,
        nines=math.inf if one_minus == 0 else -math.log10(one_minus),
        with_error=with_error,
    )


def histogram(points: PointsResult, undefined: Undefined) -> Histogram:
    """Return the linear histogram, from the lowest bin to the highest."""
    bins = points.linear_bins.tolist()
    width: Number = None
    if points.grid_exponent > -1100:
        width = undefined.checked("histogram.bin_width", 2.0**points.grid_exponent)
    else:
        undefined["histogram.bin_width"] = "every error is 0" if points.valid else NO_POINTS
    return Histogram(
        bin_width=width,
        counts=tuple(bins[255:127:-1] + bins[:128]),
        below=bins[257],
        above=bins[256],
    )


def too_short(shape: tuple[int, ...], sides: tuple[int, ...]) -> str:
    """Return why no window fits, or nothing."""
    short = [side for n, side in zip(shape, sides, strict=True) if n < side]
    return f"an axis is shorter than the window of {short[0]}" if short else ""


def similarity(
    field: FieldResult,
    layout: Layout,
    sides: tuple[int, ...],
    undefined: Undefined,
    *,
    step: int,
    value_range: Number,
) -> Similarity:
    """Return SSIM, or why there is none."""
    shape = layout.shape
    why = ""
    if len(shape) > 4:
        why = f"of {len(shape)} axes longer than 1 at most 4 can be taken"
    elif short := too_short(shape, sides):
        why = short
    elif value_range is None:
        why = NO_ORIGINAL
    elif not value_range:
        why = CONSTANT_ORIGINAL
    elif math.isinf(value_range):
        why = OVERFLOW
    elif not field.windows:
        why = NO_WINDOW
    lost: Number = None
    worst: Number = None
    if why:
        undefined["ssim"] = why
    else:
        lost = undefined.checked("ssim.one_minus_mean", field.window_sum / field.windows)
        worst = undefined.checked("ssim.one_minus_min", field.window_worst)
    return Similarity(
        window=max(sides, default=0),
        sides=sides,
        step=step,
        value_range=value_range,
        windows=0 if why else field.windows,
        mean=None if lost is None else 1 - lost,
        one_minus_mean=lost,
        min=None if worst is None else 1 - worst,
        one_minus_min=worst,
        min_at=None if worst is None else layout.place(field.window_at),
    )


def derivatives(
    field: FieldResult, layout: Layout, spacing: tuple[float, ...], undefined: Undefined
) -> Derivatives:
    """Return how well slopes, curvatures, gradient and Laplacian were kept."""
    n = field.interior
    if not n:
        undefined["derivatives"] = NO_NEIGHBOURS
        return nothing(Derivatives, points=0, spacing=spacing, slopes=(), curvatures=())

    def root(squares: float, largest: float = 1.0) -> float:
        """Return a root mean square; NaN if the largest square may have overflowed."""
        return _root(squares / n) if fits(largest) else math.nan

    def along_axes(which: str) -> tuple[AxisDerivative, ...]:
        names = (f"{which}_max", f"{which}_error_max", f"{which}_error_squares")
        check = partial(undefined.checked, f"derivatives.{which}s")
        return tuple(
            AxisDerivative(
                axis=axis, max=check(most), max_error=check(error), rmse=check(root(squares, error))
            )
            for axis, most, error, squares in zip(
                layout.axes, *(getattr(field, name) for name in names), strict=False
            )
        )

    extent = field.gradient_max - field.gradient_min
    change = root(field.gradient_error_squares, field.gradient_error_max)
    found = {
        "gradient_max": field.gradient_max,
        "gradient_range": extent,
        "gradient_max_error": field.gradient_error_max,
        "gradient_rmse": change,
        "laplacian_rms": root(field.laplacian_squares),
        "laplacian_max_error": field.laplacian_error_max,
        "laplacian_rmse": root(field.laplacian_error_squares, field.laplacian_error_max),
        "h1_error": root(field.error_squares + sum(field.slope_error_squares)),
    }
    check = undefined.checked
    return Derivatives(
        points=n,
        spacing=spacing,
        slopes=along_axes("slope"),
        curvatures=along_axes("curvature"),
        gradient_psnr=check("derivatives.gradient_psnr", decibel(extent, change), infinite=True),
        laplacian_snr=check(
            "derivatives.laplacian_snr",
            decibel(found["laplacian_rms"], found["laplacian_rmse"]),
            infinite=True,
        ),
        **{name: check(f"derivatives.{name}", value) for name, value in found.items()},
    )


def autocorrelation(
    points: PointsResult, field: FieldResult, layout: Layout, lags: int, undefined: Undefined
) -> tuple[AxisCorrelation, ...]:
    """Return the autocorrelation of the error along each axis, and of the paper's mean."""
    why = ""
    if not points.valid:
        why = NO_POINTS
    elif points.error_min == points.error_max:
        why = CONSTANT_ERROR
    elif len(layout.shape) > 4:
        why = f"of {len(layout.shape)} axes longer than 1 at most 4 can be taken"
    variance = points.squares_error / points.valid if points.valid else 0.0
    if not why and not (0 < variance < math.inf):
        why = OVERFLOW
    if why:
        undefined["autocorrelation"] = why
    mean = points.mean_error - field.pivot_error

    def one(row: int, axis: int | None) -> AxisCorrelation:
        found: list[Number] = [None] * lags
        band: list[Number] = [None] * lags
        each = (field.lag_pairs, field.lag_products, field.lag_sums)
        sums = (one_of[row, :lags].tolist() for one_of in each)
        for i, (pairs, products, both) in enumerate(zip(*sums, strict=True)):
            if pairs and not why:
                found[i] = ((products - mean * both) / pairs + mean * mean) / variance
                band[i] = _NORMAL_95 / math.sqrt(pairs)
        if not why and None in found:
            undefined[f"autocorrelation.{'mean' if axis is None else axis}"] = (
                "no pair of valid points is so far apart"
            )
        return AxisCorrelation(axis=axis, values=tuple(found), band=tuple(band))

    axes = layout.axes if len(layout.axes) <= 4 else ()
    return (*(one(i, axis) for i, axis in enumerate(axes)), one(4, None))


def spectrum(power: Power | str | None, undefined: Undefined) -> Spectrum:
    """Return decoded over original power in shells of wavenumber."""
    if power is None or isinstance(power, str):
        undefined["spectrum"] = power or "not computed"
        return Spectrum(ratio=(), k_max=_K_MAX, max_deviation=None)
    both = zip(power.original[1:].tolist(), power.decoded[1:].tolist(), strict=True)
    ratios = tuple(decoded / original if original else None for original, decoded in both)
    if None in ratios:
        undefined["spectrum.ratio"] = "the original has no power in a shell"
    below = [abs(r - 1) for r in ratios[: _K_MAX - 1] if r is not None]
    if not below:
        undefined["spectrum.max_deviation"] = "the original has no power there"
    return Spectrum(ratio=ratios, k_max=_K_MAX, max_deviation=max(below, default=None))

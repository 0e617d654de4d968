# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""What every number of `h5lossy.assess` means, evaluated the slow and clear way.

Written from ``docs/assess.md`` alone: whole arrays in float64, one expression a definition, sums
rounded once (`math.fsum`), bounds judged in rational arithmetic. It is the oracle of the tests, and
is itself held against the golden numbers and against scikit-image and SciPy.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Field = npt.NDArray[Any]

#: Bins of the logarithmic histogram for one octave of error.
LOG_BINS_PER_OCTAVE = 8


def total(values: Field) -> float:
    """Return the sum, rounded once."""
    return math.fsum(np.ravel(values).tolist())


def mean(values: Field) -> float | None:
    """Return the mean; None of nothing."""
    return total(values) / values.size if values.size else None


def bits(values: Field) -> Field:
    """Return the bit patterns as unsigned integers."""
    return values.view(f"u{values.dtype.itemsize}")


def special(x: Field, y: Field, fill: Any = None, mask: Field | None = None) -> dict[str, int]:
    """Count what became of NaN, infinities and the fill value; each point by what it was in `x`."""
    seen = np.ones(x.shape, bool) if mask is None else ~mask
    same = bits(x) == bits(y)
    is_fill = np.zeros(x.shape, bool) if fill is None else bits(x) == bits(x.dtype.type(fill))
    became_fill = np.zeros(x.shape, bool) if fill is None else bits(y) == bits(x.dtype.type(fill))
    if fill is not None and bits(x.dtype.type(fill)) == 0:
        became_fill[...] = False  # as the format has it, other values may turn into +0.0
    was_nan, was_inf = np.isnan(x) & ~is_fill, np.isinf(x) & ~is_fill
    finite = np.isfinite(x) & ~is_fill
    counts = {
        "masked": ~seen,
        "nan_kept": seen & was_nan & np.isnan(y) & same,
        "nan_changed": seen & was_nan & np.isnan(y) & ~same,
        "nan_lost": seen & was_nan & ~np.isnan(y),
        "nan_introduced": seen & finite & np.isnan(y),
        "inf_kept": seen & was_inf & same,
        "inf_changed": seen & was_inf & ~same,
        "inf_introduced": seen & finite & np.isinf(y),
        "fill_kept": seen & is_fill & same,
        "fill_lost": seen & is_fill & ~same,
        "fill_introduced": seen & finite & became_fill,
    }
    return {name: int(np.count_nonzero(where)) for name, where in counts.items()}


def valid_points(x: Field, y: Field, fill: Any = None, mask: Field | None = None) -> Field:
    """Return which points count: finite in both fields, not the fill value, and not masked."""
    valid = np.isfinite(x) & np.isfinite(y)
    if fill is not None:
        valid &= bits(x) != bits(x.dtype.type(fill))
    return valid if mask is None else valid & ~mask


def violations(x: Field, y: Field, kind: str, bound: float, valid: Field) -> list[tuple[int, ...]]:
    """Return where a bound is broken, judged in rational arithmetic; a point at a time."""
    exact_x = [Fraction(v) for v in x[valid].tolist()]
    extent = max(exact_x) - min(exact_x) if exact_x else Fraction(0)
    broken = []
    for where in zip(*np.nonzero(valid), strict=True):
        a, b = x[where], y[where]
        if kind == "lossless":
            over = bits(np.asarray(a)) != bits(np.asarray(b))
        else:
            limit = Fraction(bound)
            limit *= {
                "absolute": 1,
                "pointwise_relative": abs(Fraction(float(a))),
                "range_relative": extent,
            }[kind]
            over = abs(Fraction(float(a)) - Fraction(float(b))) > limit
        if over:
            broken.append(tuple(map(int, where)))
    return broken


def ratio(part: float, whole: float) -> float:
    """Divide as a relative error is meant: 0 of 0 is 0, anything else of 0 is infinite."""
    return part / whole if whole else (0.0 if part == 0 else math.inf)


def decibel(peak: float, rmse: float) -> float:
    """Return 20 log10(peak / rmse); infinite without error, minus infinite without a peak."""
    if rmse == 0:
        return math.inf
    return 20 * math.log10(peak / rmse) if peak else -math.inf


def points(x: Field, y: Field, valid: Field) -> dict[str, Any]:
    """Return the global reductions over the valid points."""
    flat_index = np.flatnonzero(valid.reshape(-1))
    if not flat_index.size:
        return {"n_valid": 0}
    a, b = x[valid].astype(np.float64), y[valid].astype(np.float64)
    e, n = b - a, a.size
    mean_x, mean_y, mean_e = total(a) / n, total(b) / n, total(e) / n
    var_x = total((a - mean_x) ** 2) / n
    var_y = total((b - mean_y) ** 2) / n
    var_e = total((e - mean_e) ** 2) / n
    covariance = total((a - mean_x) * (e - mean_e)) / n
    mse = total(e * e) / n
    rmse, value_range = math.sqrt(mse), float(a.max()) - float(a.min())
    nonzero = a != 0
    pointwise = np.abs(e[nonzero] / a[nonzero])
    # 1 - r^2 without cancellation: both variances are those of x and of the error.
    unexplained = var_x * var_e - covariance**2
    constant = a.min() == a.max() or b.min() == b.max()
    if constant:
        pearson = one_minus = None
    else:
        squared = max(0.0, unexplained) / (var_x * var_y)
        sign = 1.0 if var_x + covariance >= 0 else -1.0
        r = sign * math.sqrt(max(0.0, 1.0 - squared))
        pearson, one_minus = r, (squared / (1 + r) if r >= 0 else 1 - r)
    return {
        "n_valid": n,
        "min": float(a.min()),
        "max": float(a.max()),
        "value_range": value_range,
        "mean": mean_x,
        "std": math.sqrt(var_x),
        "dec_min": float(b.min()),
        "dec_max": float(b.max()),
        "dec_mean": mean_y,
        "dec_std": math.sqrt(var_y),
        "min_err": float(e.min()),
        "max_err": float(e.max()),
        "mean_err": mean_e,
        "std_err": math.sqrt(var_e),
        "min_abs_err": float(np.abs(e).min()),
        "max_abs_err": float(np.abs(e).max()),
        "argmax_abs_err": int(flat_index[np.abs(e).argmax()]),
        "mean_abs_err": total(np.abs(e)) / n,
        "mse": mse,
        "rmse": rmse,
        "max_rel_err": ratio(float(np.abs(e).max()), value_range),
        "mean_rel_err": ratio(total(np.abs(e)) / n, value_range),
        "nrmse": ratio(rmse, value_range),
        "psnr": decibel(value_range, rmse),
        "snr": decibel(math.sqrt(var_x), rmse),
        "val_err_corr": (
            None if constant or e.min() == e.max() else covariance / math.sqrt(var_x * var_e)
        ),
        "pearson": pearson,
        "one_minus_pearson": one_minus,
        "n_zero": int(np.count_nonzero(~nonzero)),
        "n_zero_changed": int(np.count_nonzero(e[~nonzero])),
        "min_pwr_err": float(pointwise.min()) if pointwise.size else None,
        "max_pwr_err": float(pointwise.max()) if pointwise.size else None,
        "mean_pwr_err": mean(pointwise),
    }


def log_histogram(e: Field) -> dict[tuple[int, int], int]:
    """Count errors by sign (1 is below 0) and eighth of an octave, from 2^-127 to 2^128."""
    size = np.abs(np.ravel(e))
    mantissa, exponent = np.frexp(size)  # size = mantissa 2^exponent, 0.5 <= mantissa < 1
    eighth = (np.floor((2 * mantissa - 1) * LOG_BINS_PER_OCTAVE)).astype(int)
    bins = np.clip((exponent - 1 + 127) * LOG_BINS_PER_OCTAVE + eighth, 0, 2047)
    bins[size == 0] = 0
    keys, counts = np.unique(
        np.stack([np.ravel(e) < 0, bins], axis=1).astype(int), axis=0, return_counts=True
    )
    return {(int(s), int(b)): int(c) for (s, b), c in zip(keys, counts, strict=True)}


def linear_histogram(e: Field, exponent: int) -> list[int]:
    """Count errors in bins 2^exponent wide: 128 from 0 up, 128 from 0 down, above, below."""
    size, below = np.abs(np.ravel(e)), np.ravel(e) < 0
    bins = np.floor(size / 2.0**exponent)
    index = np.where(bins < 128, bins + 128 * below, 256 + below).astype(int)
    return [int(c) for c in np.bincount(index, minlength=258)]


def _shifted(field: Field, axis: int, start: int, stop: int | None) -> Field:
    cut = [slice(None)] * field.ndim
    cut[axis] = slice(start, stop)
    return field[tuple(cut)]


def autocorrelation(e: Field, valid: Field, lags: int = 10) -> dict[str, list[float | None]]:
    """Return the autocorrelation of the error along each axis, and the paper's mean over axes."""
    n = int(np.count_nonzero(valid))
    values = e[valid]
    if n == 0 or values.min() == values.max():
        return {f"axis{a}": [None] * lags for a in range(e.ndim)} | {"paper_eq2": [None] * lags}
    mu = total(values) / n
    variance = total((values - mu) ** 2) / n
    centred = np.where(valid, e - mu, 0.0)
    out: dict[str, list[float | None]] = {}
    for axis in range(e.ndim):
        out[f"axis{axis}"] = []
        for lag in range(1, lags + 1):
            head, tail = _shifted(centred, axis, 0, -lag), _shifted(centred, axis, lag, None)
            both = _shifted(valid, axis, 0, -lag) & _shifted(valid, axis, lag, None)
            pairs = int(np.count_nonzero(both))
            out[f"axis{axis}"].append(total(head * tail) / pairs / variance if pairs else None)
    out["paper_eq2"] = []
    for lag in range(1, lags + 1):
        corner = tuple(slice(0, max(0, extent - lag)) for extent in e.shape)
        ok, neighbours = valid[corner].copy(), np.zeros(centred[corner].shape)
        for axis in range(e.ndim):
            moved = list(corner)
            moved[axis] = slice(lag, None)
            neighbours += centred[tuple(moved)]
            ok &= valid[tuple(moved)]
        products = (centred[corner] * (neighbours / e.ndim))[ok]
        out["paper_eq2"].append(
            total(products) / products.size / variance if products.size else None
        )
    return out


def derivatives(
    x: Field, y: Field, valid: Field, spacing: tuple[float, ...] | None = None
) -> dict[str, Any] | None:
    """Return what became of derivatives, gradient and Laplacian; None without an interior point.

    Central differences at points that have both neighbours along every axis, all of them valid.
    """
    spacing = spacing or (1.0,) * x.ndim
    if min(x.shape) < 3:
        return None
    inside = tuple(slice(1, -1) for _ in x.shape)
    a, b = (np.where(valid, f, 0.0).astype(np.float64) for f in (x, y))
    ok = valid[inside].copy()
    slopes, curvatures = [], []
    for axis, h in enumerate(spacing):
        before, after = list(inside), list(inside)
        before[axis], after[axis] = slice(0, -2), slice(2, None)
        before_, after_ = tuple(before), tuple(after)
        ok &= valid[before_] & valid[after_]
        slopes.append([(f[after_] - f[before_]) / (2 * h) for f in (a, b)])
        curvatures.append([(f[after_] - 2 * f[inside] + f[before_]) / (h * h) for f in (a, b)])
    n = int(np.count_nonzero(ok))
    if n == 0:
        return None
    out: dict[str, Any] = {"n": n}
    for name, (of_x, of_y) in [
        *((f"d{axis}", both) for axis, both in enumerate(slopes)),
        *((f"dd{axis}", both) for axis, both in enumerate(curvatures)),
    ]:
        off = (of_y - of_x)[ok]
        out[name] = {
            "max": float(np.abs(of_x[ok]).max()),
            "max_err": float(np.abs(off).max()),
            "rmse": math.sqrt(total(off * off) / n),
        }
    length_x, length_y = (
        np.sqrt(sum(slope[which][ok] ** 2 for slope in slopes)) for which in (0, 1)
    )
    off = length_y - length_x
    rmse = math.sqrt(total(off * off) / n)
    spread = float(length_x.max() - length_x.min())
    out["gradmag"] = {
        "max": float(length_x.max()),
        "range": spread,
        "max_err": float(np.abs(off).max()),
        "rmse": rmse,
        "psnr": decibel(spread, rmse) if rmse else None,
    }
    of_x, of_y = (sum(each)[ok] for each in zip(*curvatures, strict=True))
    off = of_y - of_x
    out["laplacian"] = {
        "rms": math.sqrt(total(of_x * of_x) / n),
        "max_err": float(np.abs(off).max()),
        "rmse": math.sqrt(total(off * off) / n),
        "n": n,
    }
    e = (b - a)[inside][ok]
    squares = e * e + sum(((of_y - of_x)[ok]) ** 2 for of_x, of_y in slopes)
    out["sobolev_h1_err"] = math.sqrt(total(squares) / n)
    return out


def window_similarity(x: Field, y: Field, value_range: float) -> float:
    """Return 1 - SSIM of two windows: population moments, C1 = (0.01 R)^2, C2 = (0.03 R)^2."""
    mean_x, mean_y = x.mean(), y.mean()
    var_x, var_y = ((x - mean_x) ** 2).mean(), ((y - mean_y) ** 2).mean()
    d = (y - x) - (mean_y - mean_x)
    c1, c2 = (0.01 * value_range) ** 2, (0.03 * value_range) ** 2
    # 1 - l and 1 - cs, each without cancellation.
    a = (mean_x - mean_y) ** 2 / (mean_x**2 + mean_y**2 + c1)
    b = (d * d).mean() / (var_x + var_y + c2)
    return float(a + b - a * b)


def ssim(
    x: Field,
    y: Field,
    valid: Field,
    *,
    window: int | tuple[int, ...] = 7,
    step: int = 1,
    value_range: float,
) -> dict[str, Any] | None:
    """Return structural similarity over all whole windows with valid points only."""
    sides = (window,) * x.ndim if isinstance(window, int) else window
    if any(n < side for n, side in zip(x.shape, sides, strict=True)):
        return None
    a, b = x.astype(np.float64), y.astype(np.float64)
    lost: list[float] = []
    where: list[tuple[int, ...]] = []
    starts = (range(0, n - side + 1, step) for n, side in zip(x.shape, sides, strict=True))
    for corner in itertools.product(*starts):
        cut = tuple(slice(i, i + side) for i, side in zip(corner, sides, strict=True))
        if not valid[cut].all():
            continue
        lost.append(window_similarity(a[cut], b[cut], value_range))
        where.append(corner)
    if not lost:
        return None
    one_minus = total(np.array(lost)) / len(lost)
    worst = int(np.argmax(lost))
    return {
        "mean": 1 - one_minus,
        "one_minus_mean": one_minus,
        "min": 1 - lost[worst],
        "one_minus_min": lost[worst],
        "argmin": where[worst],
        "windows": len(lost),
    }


def dssim(x: Field, y: Field, valid: Field) -> float | None:
    """Return the data SSIM of one 2-D slice (Baker, Pinard, Hammerling 2024), as ldcpy has it.

    Means leave out points that are not valid.
    """
    a, b = (np.where(valid, f, 0).astype(np.float64) for f in (x, y))
    both = np.stack([a[valid], b[valid]])
    if not both.size or both.min() == both.max():
        return None
    low, high = both.min(), both.max()
    a, b = (np.where(valid, np.round((f - low) / (high - low) * 255) / 255, 0) for f in (a, b))
    taps = np.exp(-(np.arange(-5, 6) ** 2) / (2 * 1.5**2))
    kernel = np.outer(taps, taps) / np.outer(taps, taps).sum()

    def smooth(f: Field) -> Field:
        rows, columns = f.shape[0] - 10, f.shape[1] - 10
        out = np.zeros((rows, columns))
        for i, j in itertools.product(range(11), range(11)):
            out += kernel[i, j] * f[i : i + rows, j : j + columns]
        return out

    weight = smooth(valid)
    mean_a, mean_b, of_aa, of_bb, of_ab = (smooth(f) / weight for f in (a, b, a * a, b * b, a * b))
    var_a, var_b, covariance = of_aa - mean_a**2, of_bb - mean_b**2, of_ab - mean_a * mean_b
    c = 1e-8
    top = (2 * mean_a * mean_b + c) * (2 * covariance + c)
    scores = top / ((mean_a**2 + mean_b**2 + c) * (var_a + var_b + c))
    return float(scores[valid[5:-5, 5:-5]].mean())


def power_ratio(x: Field, y: Field) -> list[float]:
    """Return decoded over original power in shells of wavenumber 1, 2, ... of the shortest axis."""
    waves = np.meshgrid(*(np.fft.fftfreq(n) * n for n in x.shape), indexing="ij")
    shell = np.rint(np.sqrt(sum(k * k for k in waves))).astype(int)
    powers = [np.abs(np.fft.fftn(f.astype(np.float64))) ** 2 for f in (x, y)]
    of_x, of_y = (np.bincount(shell.reshape(-1), p.reshape(-1)) for p in powers)
    top = min(x.shape) // 2
    return [float(of_y[k] / of_x[k]) for k in range(1, top + 1)]

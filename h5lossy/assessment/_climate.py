# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Metrics of slices or the whole field: data SSIM, power spectra."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from h5lossy._printable import bytes_text
from h5lossy.assessment._fields import Layout
from h5lossy.assessment._sparse import MOST_READ
from h5lossy.assessment._undefined import OVERFLOW, Undefined, fits
from h5lossy.assessment.schema import Climate

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from h5lossy.assessment._fields import Fields, Part

    Slice = npt.NDArray[np.float64]

_LEVELS = 255  # data SSIM rounds values to this many steps from the smallest to the largest
_HALO = 5  # of its Gaussian, with a standard deviation of 1.5
_TAPS = np.exp(-(np.arange(-_HALO, _HALO + 1) ** 2) / (2 * 1.5**2))
_TAPS /= _TAPS.sum()
_C = 1e-8

#: Values of a slice that are processed together; each takes some hundred bytes.
_VALUES_AT_ONCE = 1 << 19


def _smooth(values: Slice) -> Slice:
    """Convolve with the Gaussian along both axes, without the border."""
    for axis in (0, 1):
        length = values.shape[axis] - 2 * _HALO
        out = np.zeros_like(values[:length] if axis == 0 else values[:, :length])
        for k, tap in enumerate(_TAPS):
            out += tap * (values[k : k + length] if axis == 0 else values[:, k : k + length])
        values = out
    return values


def dssim(read: Callable[[int, int], Part], shape: tuple[int, ...]) -> float | None:
    """Return the data SSIM of two slices; None if a side is too short, or both are one constant.

    Baker, Pinard, Hammerling 2024 (doi 10.1109/TVCG.2023.3332843), with the settings of ldcpy:
    11 x 11 Gaussian with standard deviation 1.5, 256 levels, a border of 5 left out. Means around
    a point leave out what is not valid. `read` returns rows, given the first and the last + 1.
    """
    if min(shape) <= 2 * _HALO:
        return None
    rows = max(1, _VALUES_AT_ONCE // shape[1])
    low, high = math.inf, -math.inf
    for start in range(0, shape[0], rows):
        part = read(start, min(start + rows, shape[0]))
        x, y, valid = part
        if valid.any():
            low = min(low, float(x[valid].min()), float(y[valid].min()))
            high = max(high, float(x[valid].max()), float(y[valid].max()))
    if not high > low or not math.isfinite(high - low):
        return None
    sums, count = [], 0
    for start in range(_HALO, shape[0] - _HALO, rows):
        if rows < shape[0]:
            part = read(start - _HALO, min(start + rows, shape[0] - _HALO) + _HALO)
        scores = _scores(part, low, high)
        sums.append(float(scores.sum()))
        count += scores.size
    return math.fsum(sums) / count if count else None


def _scores(part: Part, low: float, high: float) -> Slice:
    """Return the data SSIM at each valid point that is not at the border."""
    x, y, valid = part
    a, b = (
        np.where(valid, np.round((f - low) / (high - low) * _LEVELS) / _LEVELS, 0) for f in (x, y)
    )
    if valid.all():
        mean_a, mean_b, aa, bb, ab = map(_smooth, (a, b, a * a, b * b, a * b))
    else:
        with np.errstate(invalid="ignore", divide="ignore"):
            weight = _smooth(valid.astype(np.float64))
            mean_a, mean_b, aa, bb, ab = (_smooth(f) / weight for f in (a, b, a * a, b * b, a * b))
    top = (2 * mean_a * mean_b + _C) * (2 * (ab - mean_a * mean_b) + _C)
    bottom = (mean_a**2 + mean_b**2 + _C) * ((aa - mean_a**2) + (bb - mean_b**2) + _C)
    return np.asarray((top / bottom)[valid[_HALO:-_HALO, _HALO:-_HALO]])


def climate(fields: Fields, undefined: Undefined, progress: Callable[[int], None]) -> Climate:
    """Return the data SSIM of all slices along the last two of the axes of neighbours."""
    layout = Layout(full_shape=fields.layout.full_shape, axes=fields.axes[-2:])
    why = ""
    found: dict[tuple[int, ...], float] = {}
    if len(layout.axes) < 2:
        why = "it needs two axes"
    elif min(layout.shape) <= 2 * _HALO:
        why = f"an axis of a slice is shorter than {2 * _HALO + 1}"
    elif fields.stored is not None and fields.original.size > MOST_READ:
        why = f"most of {fields.original.size} values were never written, and it reads all of them"
    if why:
        progress(fields.original.size)
    else:
        for one in layout.each():
            score = dssim(partial(_rows, replace(fields, layout=one)), layout.shape)
            if score is not None:
                found[one.index] = score
            progress(math.prod(layout.shape))
    if not found:
        undefined["climate"] = why or (
            "every slice is constant, or without valid points, or its range is beyond float64"
        )
        return Climate(dssim_mean=None, dssim_min=None, dssim_min_at=None, slices=0)
    worst = min(found, key=found.__getitem__)
    return Climate(
        dssim_mean=math.fsum(found.values()) / len(found),
        dssim_min=found[worst],
        dssim_min_at=worst,
        slices=len(found),
    )


def _rows(fields: Fields, first: int, stop: int) -> Part:
    """Return some rows of a slice."""
    return fields.part((slice(first, stop), slice(0, fields.layout.shape[1])))


@dataclass(frozen=True)
class Power:
    """Power of both fields in shells of wavenumber 0, 1, ... up to half of the shortest axis."""

    original: Slice
    decoded: Slice

    def __add__(self, other: Power) -> Power:
        return Power(self.original + other.original, self.decoded + other.decoded)


def powers(fields: Fields, memory_limit: int) -> Power | str:
    """Return the power spectra, if the field fits in memory, or why there are none.

    Where a point is not valid, both fields have the mean of the original's valid points.
    """
    shape = fields.layout.shape
    size = math.prod(shape)
    if size == 0 or min(shape, default=0) < 2:
        return "the field has no waves"
    if size * 48 > memory_limit:  # two transforms and the fields
        return f"it needs {bytes_text(size * 48, 2)} of memory, more than memory_limit"
    x, y, valid = fields.part(tuple(slice(0, n) for n in shape))
    if not valid.any():
        return "there is no valid point"
    if not fits(*(float(np.abs(field).max()) for field in (x, y))):
        return f"squares are {OVERFLOW}"
    if not valid.all():
        x[~valid] = y[~valid] = x[valid].mean()
    waves = np.meshgrid(
        *(np.fft.fftfreq(n) * n for n in shape[:-1]),
        np.fft.rfftfreq(shape[-1]) * shape[-1],
        indexing="ij",
        sparse=True,
    )
    shell = np.rint(np.sqrt(sum(k * k for k in waves))).astype(np.int64).reshape(-1)
    # Half of the waves of a real field are stored; the others mirror them.
    last = np.arange(shape[-1] // 2 + 1)
    twice = np.where((last == 0) | (2 * last == shape[-1]), 1.0, 2.0)

    def one(field: npt.NDArray[np.float64]) -> Slice:
        power = np.abs(np.fft.rfftn(field)) ** 2 * twice
        return np.bincount(shell, power.reshape(-1))[: min(shape) // 2 + 1].astype(np.float64)

    return Power(one(x), one(y))

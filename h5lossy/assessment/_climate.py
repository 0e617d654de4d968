# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Metrics of slices or the whole field: data SSIM, power spectra."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from h5lossy import _native
from h5lossy._blocks import blocks
from h5lossy._native import default_threads
from h5lossy._printable import bytes_text
from h5lossy.assessment._fields import Layout
from h5lossy.assessment._undefined import OVERFLOW, Undefined, fits
from h5lossy.assessment.schema import Climate, nothing

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from h5lossy.assessment._fields import Fields

    Slice = npt.NDArray[np.float64]

#: The data SSIM at a point uses this many points on each side of it.
_HALO = 5

#: Rows of a slice are cut at multiples of this.
_ROWS = 64

#: The fraction of the memory limit that is read at once.
_OF_LIMIT = 0.2


def climate(
    fields: Fields,
    params: _native.AssessParams,
    memory_limit: int,
    undefined: Undefined,
    progress: Callable[[int], None],
) -> Climate:
    """Return the data SSIM of all slices along the last two of the axes of neighbours."""
    layout = Layout(full_shape=fields.layout.full_shape, axes=fields.axes[-2:])
    why = ""
    scores: Slice = np.zeros(0)
    if len(layout.axes) < 2:
        why = "it needs two axes"
    elif min(layout.shape) <= 2 * _HALO:
        why = f"an axis of a slice is shorter than {2 * _HALO + 1}"
    else:
        why = fields.why_not_read
    if why:
        progress(fields.original.size)
    else:
        scores = _scores(fields, layout, params, int(memory_limit * _OF_LIMIT), progress)
    found = scores[np.isfinite(scores)]
    if not found.size:
        undefined["climate"] = why or (
            "every slice is constant, or without valid points, or its range is beyond float64"
        )
        return nothing(Climate, slices=0)
    worst = np.unravel_index(np.nanargmin(scores), scores.shape)
    return Climate(
        dssim_mean=math.fsum(found) / found.size,
        dssim_min=float(scores[worst]),
        dssim_min_at=tuple(map(int, worst)),
        slices=found.size,
    )


def _scores(
    fields: Fields,
    layout: Layout,
    params: _native.AssessParams,
    most_bytes: int,
    progress: Callable[[int], None],
) -> Slice:
    """Return the data SSIM of each slice; NaN where one has none."""
    rows, columns = layout.shape
    at_once = fields.slices_at_once(layout, most_bytes)
    row_bytes = math.prod(at_once) * fields.slice_bytes(layout) // rows
    step = rows
    if rows * row_bytes > most_bytes:
        step = max(1, most_bytes // (row_bytes * _ROWS)) * _ROWS
    scores = np.full(tuple(layout.full_shape[axis] for axis in layout.others), np.nan)
    for part in blocks(scores.shape, at_once):
        found = np.zeros(scores[part].size, _native.SLICE_DTYPE)
        found["low"], found["high"] = math.inf, -math.inf
        shape = (found.size, rows, columns)
        state = _native.new_state(replace(params, shape=shape, spacing=(1.0,) * 3))
        pieces = (
            _piece(fields, layout, part, slice(start, min(start + step, rows)))
            for start in range(0, rows, step)
        )
        for piece in pieces:
            state.ranges(piece, found)
        for start in range(0, rows, step):
            if step < rows:
                piece = _piece(fields, layout, part, slice(start, min(start + step, rows)))
            state.dssim(piece, found)
        progress(math.prod(shape))
        sums, points = found["sum"].reshape(scores[part].shape), found["points"]
        with np.errstate(invalid="ignore"):
            scores[part] = sums / points.reshape(sums.shape)
    return scores


def _piece(fields: Fields, layout: Layout, part: tuple[slice, ...], own: slice) -> _native.Piece:
    """Read some rows of some slices, one after the other, with the rows that their means need."""
    rows, columns = layout.shape
    read = slice(own.start, min(own.stop + 2 * _HALO, rows))
    original, decoded, mask = fields.read_slices(layout, part, (read, slice(0, columns)))
    return _native.Piece(
        original=original,
        decoded=decoded,
        mask=mask,
        origin=(0, own.start, 0),
        own_origin=(0, own.start, 0),
        own_extent=(len(original), own.stop - own.start, columns),
    )


@dataclass(frozen=True)
class Power:
    """Power of both fields in shells of wavenumber 0, 1, ... up to half of the shortest axis."""

    original: Slice
    decoded: Slice

    def __add__(self, other: Power) -> Power:
        return Power(self.original + other.original, self.decoded + other.decoded)


def powers(fields: Fields, memory_limit: int) -> Power | str:
    """Return the power spectra, or a reason if the field does not fit in memory.

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
        waves = np.fft.rfftn(field)
        power = (waves.real**2 + waves.imag**2) * twice
        return np.bincount(shell, power.reshape(-1))[: min(shape) // 2 + 1].astype(np.float64)

    with ThreadPoolExecutor(min(2, default_threads())) as pool:  # NumPy's FFT runs on one thread
        return Power(*pool.map(one, (x, y)))

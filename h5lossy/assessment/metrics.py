# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Metrics that a caller brings along, and those of ours that are made the same way."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from h5lossy.assessment._climate import slices
from h5lossy.assessment._wide import FITS, misfit, scaled
from h5lossy.assessment.schema import LocalSimilarity, RelativeHistogram

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from h5lossy.assessment._walk import Fields

    Values = npt.NDArray[np.float64]

#: Values of one field that a block holds, at most, unless a plane and its halo hold more.
_VALUES_OF_BLOCK = 1 << 21


@dataclass(frozen=True, kw_only=True)
class Block:
    """Consecutive planes of both fields along the first axis; axes of extent 1 are left out.

    Attributes
    ----------
    original, decoded : numpy.ndarray
        float64; 0 where a point is not valid.
    valid : numpy.ndarray of bool
        Points that are finite in both fields, not the fill value and not masked.
    own : slice
        The planes that belong to this block: every plane of the fields belongs to one. Those around
        them are there to be looked at, as many as the metric's `Metric.halo` asks for.
    start : int
        The first own plane's number in the fields.
    """

    original: Values
    decoded: Values
    valid: npt.NDArray[np.bool_]
    own: slice
    start: int


@runtime_checkable
class Metric(Protocol):
    """What `assess` takes in `metrics` beside names. An object serves for one assessment.

    Attributes
    ----------
    name : str
        Under which `Report.metrics` has the result.
    halo : int
        Planes before and behind its own ones that a block should hold, as far as there are any.
    """

    name: str
    halo: int

    def update(self, block: Block) -> None:
        """Take the next block; they come in order."""

    def result(self) -> Any:
        """Give numbers, text, None, or lists and dicts of them."""


def run_metrics(
    metrics: Sequence[Metric],
    fields: Fields,
    count_valid: Callable[..., npt.NDArray[np.bool_]],
    progress: Callable[[int], None],
) -> None:
    """Read both fields once more and give every metric its blocks.

    Parameters
    ----------
    metrics : sequence of Metric
    fields : Fields
    count_valid : function
    progress : function
        Called with the number of points after each block.
    """
    shape = fields.layout.shape
    if not metrics or 0 in shape:
        return
    if not shape:
        fields_of_one = [np.reshape(part, 1) for part in slices(fields, (), count_valid)]
        for metric in metrics:
            metric.update(_block(fields_of_one, 0, 0, 1))
        progress(1)
        return
    halo = max(0, *(metric.halo for metric in metrics))
    for start, stop in _cuts(shape):
        low, high = max(0, start - halo), min(shape[0], stop + halo)
        own = (slice(low, high), *(slice(0, n) for n in shape[1:]))
        there = (high - low, *shape[1:])
        parts = [part.reshape(there) for part in slices(fields, own, count_valid)]
        for metric in metrics:
            first, last = max(0, start - metric.halo), min(shape[0], stop + metric.halo)
            cut = [part[first - low : last - low] for part in parts]
            metric.update(_block(cut, start, start - first, stop - first))
        progress((stop - start) * math.prod(shape[1:]))


def _cuts(shape: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    thick = max(1, _VALUES_OF_BLOCK // max(1, math.prod(shape[1:])))
    for start in range(0, shape[0], thick):
        yield start, min(start + thick, shape[0])


def _block(parts: Sequence[npt.NDArray[Any]], start: int, first: int, last: int) -> Block:
    return Block(
        original=parts[0], decoded=parts[1], valid=parts[2], own=slice(first, last), start=start
    )


def relative_histogram(
    fields: Fields,
    count_valid: Callable[..., npt.NDArray[np.bool_]],
    progress: Callable[[int], None],
) -> RelativeHistogram:
    """Count the sizes of error relative to the value, with eight bins an octave.

    Parameters
    ----------
    fields : Fields
    count_valid : function
    progress : function
        Called with the number of points after each part.

    Returns
    -------
    RelativeHistogram
    """
    counts: Counter[int] = Counter()
    exact = 0
    for own in fields.blocks(8 * _VALUES_OF_BLOCK):
        x, y, valid = slices(fields, own, count_valid)
        counted = valid & (x != 0)
        with np.errstate(all="ignore"):
            relative = np.abs(y[counted] - x[counted]) / np.abs(x[counted])
        wrong = relative[relative > 0]
        exact += int(relative.size - wrong.size)
        # Exponent and three bits of the mantissa.
        bins, found = np.unique(wrong.view(np.int64) >> 49, return_counts=True)
        counts.update(dict(zip(bins.tolist(), found.tolist(), strict=True)))
        progress(x.size)
    if not counts:
        return RelativeHistogram(exact=exact, first_octave=None, counts=())
    first = min(counts) // 8 * 8
    return RelativeHistogram(
        exact=exact,
        first_octave=first // 8 - 1023,
        counts=tuple(counts[i] for i in range(first, max(counts) + 1)),
    )


class LocalRangeSimilarity:
    """SSIM with the range of each window of the original, as Z-checker and QCAT have it."""

    name = "ssim_zchecker"

    def __init__(self, window: int, step: int) -> None:
        self.halo = window - 1
        self._window, self._step = window, step
        self._sums: list[float] = []
        self._worst = math.inf
        self._windows = 0

    @np.errstate(all="ignore")  # what overflows is not finite in the end, and so undefined
    def update(self, block: Block) -> None:
        """Take the next block: it has the windows whose lowest corner is in its own planes."""
        w, step = self._window, self._step
        first = block.own.start or 0
        from_own = slice(first, min(block.own.stop + w - 1, len(block.original)))
        x, y = block.original[from_own], block.decoded[from_own]
        valid = block.valid[from_own]
        exponent = misfit(np.abs(x).max(initial=0), power=4)
        # SSIM does not depend on the unit, except for the range given to constant windows.
        x, y, one = (
            np.ldexp(x, -exponent),
            np.ldexp(y, -exponent),
            scaled(1.0, min(-exponent, FITS)),
        )
        if min(x.shape) < w:
            return
        n = w**x.ndim
        whole = _in_windows(valid.astype(np.float64), w, np.add) == n
        low, high = _in_windows(x, w, np.minimum), _in_windows(x, w, np.maximum)
        extent = high - low
        extent[extent == 0] = one
        c1, c2 = (0.01 * extent) ** 2, (0.03 * extent) ** 2
        # About a value of each block, for the sake of digits.
        pivot = x.reshape(-1)[0]
        a, b = x - pivot, y - pivot
        mean_a, mean_b, aa, bb, ab = (
            _in_windows(f, w, np.add) / n for f in (a, b, a * a, b * b, a * b)
        )
        var_a = np.maximum(aa - mean_a * mean_a, 0)
        var_b = np.maximum(bb - mean_b * mean_b, 0)
        covariance = ab - mean_a * mean_b
        mean_a += pivot
        mean_b += pivot
        top = (2 * mean_a * mean_b + c1) * (2 * covariance + c2)
        score = top / ((mean_a**2 + mean_b**2 + c1) * (var_a + var_b + c2))
        cut = (slice(-block.start % step, None, step), *[slice(None, None, step)] * (x.ndim - 1))
        found = score[cut][whole[cut]]
        if found.size:
            self._sums.append(float(found.sum()))
            self._worst = min(self._worst, float(found.min()))
            self._windows += found.size

    def result(self) -> LocalSimilarity:
        """Give mean and minimum."""
        n = self._windows
        mean = sum(self._sums) / n if n else None
        ok = mean is not None and math.isfinite(mean)
        return LocalSimilarity(
            window=self._window,
            step=self._step,
            windows=n,
            mean=mean if ok else None,
            min=self._worst if ok else None,
        )


def _in_windows(values: Values, w: int, combine: np.ufunc) -> Values:
    """Combine what is in each window, axis by axis."""
    for axis in range(values.ndim):
        length = values.shape[axis] - w + 1
        rows = np.moveaxis(values, axis, 0)
        out = rows[:length].copy()
        for k in range(1, w):
            combine(out, rows[k : k + length], out=out)
        values = np.moveaxis(out, 0, axis)
    return values

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Metrics of the caller, and the histogram of relative errors."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from h5lossy.assessment.schema import RelativeHistogram

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from h5lossy.assessment._fields import Fields
    from h5lossy.assessment._undefined import Undefined

    Values = npt.NDArray[np.float64]

#: The most values of one field in a block, unless a plane with its halo has more.
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
        The planes that belong to this block: every plane of the fields belongs to one. The others
        are its halo (`Metric.halo`).
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
    """A metric of your own, for `metrics` of `h5lossy.assess`. An object is for one assessment.

    Attributes
    ----------
    name : str
        Key of the result in `Report.metrics`.
    halo : int
        Number of planes that a block holds before and after its own, up to the edges.
    """

    name: str
    halo: int

    def update(self, block: Block) -> None:
        """Take the next block; they come in order."""

    def result(self) -> Any:
        """Return numbers, text, None, or lists and dicts of them."""


def run_metrics(metrics: Sequence[Metric], fields: Fields, progress: Callable[[int], None]) -> None:
    """Read both fields once more and give every metric its blocks."""
    shape = fields.layout.shape or (1,)
    if not metrics or 0 in shape:
        return
    halo = max(0, *(metric.halo for metric in metrics))
    thick = max(1, _VALUES_OF_BLOCK // max(1, math.prod(shape[1:])))
    for start in range(0, shape[0], thick):
        stop = min(start + thick, shape[0])
        low, high = max(0, start - halo), min(shape[0], stop + halo)
        own = (slice(low, high), *(slice(0, n) for n in shape[1:]))
        found: tuple[npt.NDArray[Any], ...] = fields.part(own if fields.layout.shape else ())
        parts = [np.atleast_1d(part) for part in found]
        for metric in metrics:
            first, last = max(0, start - metric.halo), min(shape[0], stop + metric.halo)
            x, y, valid = (part[first - low : last - low] for part in parts)
            own_planes = slice(start - first, stop - first)
            metric.update(Block(original=x, decoded=y, valid=valid, own=own_planes, start=start))
        progress((stop - start) * math.prod(shape[1:]))


def relative_histogram(
    fields: Fields, undefined: Undefined, progress: Callable[[int], None]
) -> RelativeHistogram:
    """Count |error / value|, with eight bins per octave."""
    counts: Counter[int] = Counter()
    opposite: Counter[int] = Counter()
    exact = 0
    for own, times in fields.blocks(8 * _VALUES_OF_BLOCK):
        x, y, valid = fields.part(own)
        counted = valid & (x != 0)
        with np.errstate(all="ignore"):
            relative = (y[counted] - x[counted]) / x[counted]
        exact += times * int(np.count_nonzero(~(np.abs(relative) > 0)))
        for add, to in ((relative > 0, (counts,)), (relative < 0, (counts, opposite))):
            # Exponent and three bits of the mantissa.
            all_bins = np.abs(relative[add]).view(np.int64) >> 49
            bins, found = np.unique(all_bins, return_counts=True)
            for one in to:
                one.update(dict(zip(bins.tolist(), (times * found).tolist(), strict=True)))
        progress(times * x.size)
    if not counts:
        undefined["relative_histogram.first_octave"] = "no valid point other than 0 has an error"
        return RelativeHistogram(exact=exact, first_octave=None, counts=())
    first, last = min(counts) // 8 * 8, max(counts)
    return RelativeHistogram(
        exact=exact,
        first_octave=first // 8 - 1023,
        counts=tuple(counts[i] for i in range(first, last + 1)),
        opposite=tuple(opposite[i] for i in range(first, last + 1)),
    )

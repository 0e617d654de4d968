# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""What became of points that are no data: missing and invalid values.

The native library handles one fill value and a mask. Other missing values and invalid ones are
added to that mask, with marks of their own (`h5lossy.missing.MISSING`, `OUTSIDE`), and are counted
here.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from h5lossy import _native
from h5lossy.missing import MISSING, OUTSIDE, Missing

if TYPE_CHECKING:
    import numpy.typing as npt


#: What is counted, as `Special` names it.
KINDS = ("missing_kept", "missing_lost", "missing_introduced")


class Absent:
    """Counts missing and invalid points, and checks the bound of invalid ones.

    `params` are those of the assessment that leaves these points out; `decoded_mask` has the points
    that the decoded field leaves out, if it is a masked array.
    """

    def __init__(
        self,
        missing: Missing,
        params: _native.AssessParams,
        decoded_mask: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        self._missing, self._params = missing, params
        # A dask array: computed here.
        self._decoded_mask = None if decoded_mask is None else np.asarray(decoded_mask).reshape(-1)
        self.outside = _native.new_state(params)
        self.missing_points = self.outside_points = 0
        self.counts = dict.fromkeys(KINDS, 0)
        self.first: dict[str, int] = {}

    def empty(self) -> Absent:
        """Return a counter of the same kind that has counted nothing."""
        return Absent(self._missing, self._params)

    def add(
        self,
        start: int,
        original: npt.NDArray[Any],
        decoded: npt.NDArray[Any],
        marks: npt.NDArray[np.uint8] | None,
    ) -> None:
        """Take a run of adjacent points and their marks in the mask."""
        free = np.ones(original.shape, np.bool_) if marks is None else marks != 1
        is_lossless = self._params.bound_kind == _native.BOUND_LOSSLESS
        changes = self._missing.changes(original, decoded, lossless=is_lossless)
        made = changes.introduced
        if self._decoded_mask is not None:
            masked = self._decoded_mask[start : start + original.size]
            made = made | (masked & (True if marks is None else marks == 0) & np.isfinite(original))
        found = {"missing_lost": changes.lost & free, "missing_introduced": made & free}
        if marks is not None:
            missing, outside = marks == MISSING, marks == OUTSIDE
            found["missing_kept"] = (missing | outside) & ~changes.lost & ~changes.introduced
            self.missing_points += int(np.count_nonzero(missing))
            count = int(np.count_nonzero(outside))
            self.outside_points += count
            if count:
                self.outside.points(start, original, decoded, (~outside).view(np.uint8))
        for kind, points in found.items():
            self._count(kind, int(np.count_nonzero(points)), start + int(points.argmax()))

    def _count(self, kind: str, count: int, first: int) -> None:
        if count:
            self.counts[kind] += count
            self.first[kind] = min(self.first.get(kind, first), first)

    def merge(self, other: Absent) -> None:
        """Add what was found for other points of the same fields."""
        self.missing_points += other.missing_points
        self.outside_points += other.outside_points
        self.outside.merge(other.outside)
        for kind, count in other.counts.items():
            self._count(kind, count, other.first.get(kind, 0))

    def added_to(self, points: _native.PointsResult) -> _native.PointsResult:
        """Add violations and special values to the results for points that are data."""
        points = dataclasses.replace(
            points, masked=points.masked - self.missing_points - self.outside_points
        )
        if not self.outside_points:
            return points
        more = self.outside.points_result()
        first = dict(points.special_first)
        for kind, count in more.special.items():
            if count:
                at = more.special_first[kind]
                first[kind] = min(first[kind], at) if points.special[kind] else at
        return dataclasses.replace(
            points,
            violations=points.violations + more.violations,
            listed=tuple(
                sorted((*points.listed, *more.listed), key=attrgetter("at"))[
                    : _native.ASSESS_LISTED
                ]
            ),
            special={kind: n + more.special[kind] for kind, n in points.special.items()},
            special_first=first,
        )

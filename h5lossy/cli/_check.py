# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Judging decoded data piece by piece, so that a progress bar can move in between."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from h5lossy.bounds import ErrorBound, ErrorSummary, judged

if TYPE_CHECKING:
    import numpy as np

    from h5lossy.missing import Missing


class Tally:
    """Adds up what `h5lossy.largest_error` finds in the pieces of a dataset.

    Parameters
    ----------
    bound : ErrorBound
        What was promised. Not range-relative: that needs the whole dataset at once.
    missing : Missing
        Which values of the dataset are no data.
    """

    def __init__(self, bound: ErrorBound, missing: Missing) -> None:
        self._missing = missing
        self.summary = ErrorSummary(
            bound=bound, count=0, max_error=0.0, violations=0, special_changed=0
        )

    def add(self, original: np.ndarray[Any, Any], decoded: np.ndarray[Any, Any]) -> None:
        """Judge one piece.

        Parameters
        ----------
        original, decoded : numpy.ndarray
            Of one shape and type.
        """
        whole = self.summary
        piece = judged(original, decoded, whole.bound, self._missing)
        self.summary = ErrorSummary(
            bound=whole.bound,
            count=whole.count + piece.count,
            max_error=max(whole.max_error, piece.max_error),
            violations=whole.violations + piece.violations,
            special_changed=whole.special_changed + piece.special_changed,
        )


def error_text(summary: ErrorSummary | None) -> str:
    """Write the largest error as a fraction of the bound.

    Parameters
    ----------
    summary : ErrorSummary or None

    Returns
    -------
    str
        ``0.9987``; ``0 (exact)`` where every bit is kept; ``-`` where nothing was checked.
    """
    if summary is None:
        return "-"
    if summary.max_error == 0 and summary.holds:
        return "0 (exact)"
    if summary.holds:  # never rounded up to the bound itself
        return f"{math.floor(summary.fraction * 1e4) / 1e4:.4f}"
    return f"{summary.fraction:.4g}"


def verdict(summary: ErrorSummary) -> str:
    """Say what is wrong with a dataset that violates its bound.

    Parameters
    ----------
    summary : ErrorSummary

    Returns
    -------
    str
    """
    return (
        f"{summary.violations} of {summary.count} values are off by more than {summary.bound} "
        f"(largest error {summary.max_error:.6g}), and {summary.special_changed} NaN, infinite or "
        "fill values changed"
    )

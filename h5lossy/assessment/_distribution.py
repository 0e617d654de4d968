# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""How far the values of both fields differ as distributions, regardless of their places."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from h5lossy._printable import bytes_text
from h5lossy.assessment.schema import Distribution, nothing

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from h5lossy.assessment._fields import Fields
    from h5lossy.assessment._undefined import Undefined

#: Bytes per point: both values, and the copies made by sorting and searching.
_POINT_BYTES = 64


def distribution(
    fields: Fields, memory_limit: int, undefined: Undefined, progress: Callable[[int], None]
) -> Distribution:
    """Return distances of the distributions of valid values, if all of them fit in memory."""
    size = fields.original.size
    why = fields.why_not_read
    if not why and size * _POINT_BYTES > memory_limit:
        why = f"it needs {bytes_text(size * _POINT_BYTES, 2)} of memory, more than memory_limit"
    progress(size)
    if not why:
        x, y, valid = fields.part(tuple(slice(0, n) for n in fields.layout.shape))
        x, y = np.sort(x[valid]), np.sort(y[valid])
        why = "" if x.size else "there is no valid point"
    if why:
        undefined["distribution"] = why
        return nothing(Distribution)
    with np.errstate(over="ignore"):
        wasserstein = float(np.mean(np.abs(y - x)))
    return Distribution(
        ks_distance=max(_step(x, y, x), _step(x, y, y)),
        wasserstein=undefined.checked("distribution.wasserstein", wasserstein),
        entropy_original=_entropy(x),
        entropy_decoded=_entropy(y),
    )


def _step(
    x: npt.NDArray[np.float64], y: npt.NDArray[np.float64], at: npt.NDArray[np.float64]
) -> float:
    """Return the largest distance of two distribution functions at some places."""
    below = (np.searchsorted(one, at, side="right") for one in (x, y))
    return int(np.abs(next(below) - next(below)).max()) / x.size


def _entropy(values: npt.NDArray[np.float64]) -> float:
    """Return the Shannon entropy of sorted values, in bits."""
    first = np.flatnonzero(np.diff(values)) + 1
    counts = np.diff(np.concatenate([[0], first, [values.size]]))
    parts = counts / values.size
    return abs(float(np.sum(parts * np.log2(parts))))

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""`assess_divergence`: the only metric of several fields at once.

It stays in NumPy: natively, it would need a kernel for each instruction set and for CUDA, and a C
function that takes a pair of fields for each axis.
"""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from h5lossy._blocks import block_shape, blocks
from h5lossy._errors import InvalidArgumentError
from h5lossy.assessment._fields import Fields
from h5lossy.assessment._inputs import agree_on_packing, opened
from h5lossy.assessment._options import checked_spacing, memory_bytes
from h5lossy.assessment._undefined import fits, known

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

#: A part of the arrays, with everything computed from it, fits in a cache.
_CACHED_BYTES = 8 << 20


@dataclass(frozen=True, kw_only=True)
class DivergenceReport:
    """How well the divergence of a vector field was kept (`assess_divergence`).

    Attributes
    ----------
    points : int
        Points with two valid neighbours along every axis.
    max : float or None
        Largest magnitude in the original.
    rms : float or None
        Root mean square in the original.
    max_error, rmse : float or None
        None if there is no such point, or float64 does not hold the number or its square.
    """

    points: int
    max: float | None
    rms: float | None
    max_error: float | None
    rmse: float | None

    def __str__(self) -> str:
        found = (
            "-" if one is None else f"{one:.6g}" for one in (self.max_error, self.rmse, self.rms)
        )
        largest, rmse, rms = found
        return f"largest error {largest}, RMSE {rmse}, RMS of the original {rms}"


def assess_divergence(
    original: Sequence[Any],
    decoded: Sequence[Any],
    *,
    axes: int | str | Sequence[int | str] | None = None,
    spacing: float | Sequence[float] = 1.0,
    mask: Any = None,
    memory_limit: int | str = "256 MiB",
) -> DivergenceReport:
    """Measure how well the divergence of a vector field was kept.

    The divergence is the sum of the central differences of component a along axis a, at points that
    have both neighbours along every axis.

    Parameters
    ----------
    original, decoded : sequence
        One field for each of `axes`, slowest first, each as `assess` takes it: northward and
        eastward winds, say.
    axes : int, str or sequence of these, optional
        The axes along which the components point, as for `assess`. Default: as there.
    spacing : float or sequence of float, optional
        Distance of points along each axis. Default 1.
    mask : array_like of bool, optional
        True where a point is left out.
    memory_limit : int or str, optional
        As for `assess`.

    Returns
    -------
    DivergenceReport

    Raises
    ------
    InvalidArgumentError
        If the number of components is not that of the axes, or a mask or an axis does not fit.

    Examples
    --------
    >>> import numpy as np
    >>> y, x = np.mgrid[0:9, 0:9].astype(float)
    >>> found = assess_divergence([y, -x], [2 * y, -x])
    >>> found.max, found.rmse
    (0.0, 1.0)
    """
    if len(original) != len(decoded) or len(original) == 0:
        raise InvalidArgumentError(
            f"a vector field has one component an axis, got {len(original)} and {len(decoded)}"
        )
    limit = memory_bytes(memory_limit)
    count = 0
    of_original, of_error = [], []
    with ExitStack() as stack:
        components = []
        for pair in zip(original, decoded, strict=True):
            x, y = stack.enter_context(opened(*pair))
            agree_on_packing(x, y, as_stored=False)
            components.append(Fields.of(x, y, mask, axes=axes))
        shapes = [field.layout.full_shape for field in components]
        along = components[0].axes
        if set(shapes) != {shapes[0]} or len(shapes) != len(along):
            raise InvalidArgumentError(
                f"a vector field has one component an axis, all of one shape; got "
                f"{len(shapes)} of shapes {shapes}, for axes {along}; axes= chooses others"
            )
        every = checked_spacing(spacing, len(shapes[0]))
        reach = [2 if axis in along else 0 for axis in range(len(shapes[0]))]
        inside = tuple(max(0, n - more) for n, more in zip(shapes[0], reach, strict=True))
        in_memory = all(one.original.is_array and one.decoded.is_array for one in components)
        most_bytes = min(limit, _CACHED_BYTES) if in_memory else limit
        most_bytes //= 6 * len(shapes)  # all components, and what is computed from them
        for block in blocks(inside, block_shape(inside, None, 8, most_bytes=most_bytes)):
            halo = tuple(
                slice(s.start, s.stop + more) for s, more in zip(block, reach, strict=True)
            )
            parts = [field.read(halo) for field in components]
            divergence, error = _divergences(parts, along, every)
            count += divergence.size
            of_original.append(_norms(divergence))
            of_error.append(_norms(error))
    largest, rms = _max_and_rms(of_original, count)
    max_error, rmse = _max_and_rms(of_error, count)
    return DivergenceReport(points=count, max=largest, rms=rms, max_error=max_error, rmse=rmse)


def _divergences(
    parts: Sequence[tuple[npt.NDArray[Any], ...]], axes: Sequence[int], spacing: Sequence[float]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the divergence of the original and of the error, where all neighbours are valid."""
    of_x: Any = 0.0
    of_e: Any = 0.0
    counts: Any = True
    with np.errstate(over="ignore", invalid="ignore"):
        for axis, (x, y, valid) in zip(axes, parts, strict=True):
            inside = [slice(1, -1) if i in axes else slice(None) for i in range(x.ndim)]
            before = (*inside[:axis], slice(0, -2), *inside[axis + 1 :])
            after = (*inside[:axis], slice(2, None), *inside[axis + 1 :])
            e, two_steps = y - x, 2 * spacing[axis]
            of_x = of_x + (x[after] - x[before]) / two_steps
            of_e = of_e + (e[after] - e[before]) / two_steps
            counts = counts & valid[before] & valid[after]
    return of_x[counts], of_e[counts]


def _norms(values: npt.NDArray[Any]) -> tuple[float, float]:
    """Return the largest magnitude and the sum of the squares; NaN propagates."""
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.abs(values).max(initial=0)), float((values * values).sum())


def _max_and_rms(
    norms: Sequence[tuple[float, float]], count: int
) -> tuple[float | None, float | None]:
    """Return largest magnitude and root mean square of all parts; None if undefined."""
    if not count:
        return None, None
    sizes, squares = zip(*norms, strict=True)
    largest = float(np.max(sizes))
    return known(largest), math.sqrt(sum(squares) / count) if fits(largest) else None

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Dask: workers that have the filter, and an assessment that runs on them.

`h5lossy.write` takes dask arrays without this module, which is needed for a cluster of processes:

    client.register_plugin(h5lossy.dask.FilterPlugin())     # all workers, also later ones

or, where the workers are started by hand:

    dask worker SCHEDULER --preload h5lossy.dask
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import dask.array
import numpy as np
from dask.delayed import delayed

from h5lossy._dims import chosen_axes
from h5lossy._errors import InvalidArgumentError, UnsupportedError
from h5lossy._plugins import register
from h5lossy._ranges import Extent
from h5lossy._values import as_reals, loaded
from h5lossy.assessment import Assessor, Report
from h5lossy.assessment._fields import Layout
from h5lossy.assessment._inputs import Input, common_dtype, missing_in

try:
    from distributed import WorkerPlugin
except ImportError:  # dask's own threads need no plugin
    WorkerPlugin = object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy.typing as npt

    from h5lossy.missing import Missing

__all__ = ["FilterPlugin", "assess"]


class FilterPlugin(WorkerPlugin):  # type: ignore[misc]
    """Has every worker of a cluster import h5lossy, so that it can read and write with the filter.

    client.register_plugin(FilterPlugin())
    """

    name = "h5lossy"

    def setup(self, worker: Any) -> None:  # noqa: ARG002  # dask's name
        """Register the filter in all HDF5 libraries that the worker has loaded by now."""
        register(force=False)


def assess(
    original: Any,
    decoded: Any,
    *,
    metrics: str | Iterable[str] = ("ssim", "derivatives", "autocorrelation"),
    fill_value: float | str | Missing | None = "auto",
    **options: Any,
) -> Report:
    """Measure what was lost, like `h5lossy.assess`, where dask computes: on a cluster's workers.

    The numbers of the report equal those of `h5lossy.assess`, except for the last few of 16 digits,
    and do not depend on the workers. Exceptions are those of `h5lossy.assess`.

    Parameters
    ----------
    original, decoded : dask.array.Array or xarray.DataArray
        Of one shape, computed by dask, and not packed. Each task takes the planes along the first
        axis that a block of `original` has, and up to 16 more: they have to fit into the memory of
        a worker.
    metrics : str or iterable of str, optional
        Of "ssim", "derivatives" and "autocorrelation". All other metrics that need more than sums
        over all points need the whole fields.
    fill_value : float, "auto" or None, optional
        As for `h5lossy.assess`.
    **options
        As documented for `h5lossy.assessment.AssessOptions`. Without `data_range`, SSIM of the
        whole field and a range-relative bound have the original computed twice, and SSIM of slices
        takes this range, too, if there is one. `threads` is 1 by default, for
        each task.

    Examples
    --------
    >>> import dask.array as da
    >>> x = da.random.default_rng(1).normal(size=(40, 30), chunks=(10, 30))
    >>> report = assess(x, x.round(2), absolute=0.005)
    >>> report.ok, report.points
    (True, 1200)
    """
    values = _computed_by_dask(original, "original"), _computed_by_dask(decoded, "decoded")
    x, y = Input(original, "original"), Input(decoded, "decoded")
    dtype = real = common_dtype(x, y).newbyteorder("=")
    for field in (x, y):
        if field.packing is not None:
            raise UnsupportedError(
                f"{field.name} is packed ({field.packing}); give unpacked values, as xarray opens "
                "them by default"
            )
    types = [field.given.newbyteorder("=") for field in (x, y)]
    if x.is_complex or types[0] == types[1]:  # complex and mixed types have their own checks
        dtype = np.result_type(*types)
    missing = missing_in(x, y, real, fill_value, options.pop("missing_value", ()))
    groups = {metrics} if isinstance(metrics, str) else set(metrics)
    long = Layout.of(x.shape).axes
    named = x.axes or y.axes
    axes = chosen_axes(options.get("axes"), named, x.shape, long)
    options = {"threads": 1, **options, "fill_value": missing, "axes": axes}
    edges = list(itertools.accumulate(values[0].chunks[0], initial=0))
    bands = [(a, b) for a, b in itertools.pairwise(edges) if a < b]
    needs_range = options.get("range_relative") is not None or ("ssim" in groups and axes == long)
    if needs_range and options.get("data_range") is None:
        ends = delayed(_joined)([delayed(_ends)(values[0][a:b], missing) for a, b in bands])
        options["data_range"] = ends.compute()
        if options["data_range"] is None:
            groups.discard("ssim")
    found = []
    for band in bands:
        assessor = Assessor(values[0].shape, dtype, planes=band, metrics=groups, **options)
        own = slice(*assessor.wanted)
        found.append(delayed(_after)(Assessor.update, assessor, *(part[own] for part in values)))
    while len(found) > 1:  # merge pairs of neighbours, whichever worker finishes first
        found = [
            delayed(_after)(Assessor.merge, *pair) if len(pair) == 2 else pair[0]
            for pair in (found[i : i + 2] for i in range(0, len(found), 2))
        ]
    report: Report = found[0].compute().result()
    return dataclasses.replace(report, dims=tuple(axis.name for axis in named))


def _computed_by_dask(values: Any, name: str) -> dask.array.Array:
    """Return the dask array of a field."""
    array = values if isinstance(values, dask.array.Array) else getattr(values, "data", None)
    if not isinstance(array, dask.array.Array):
        raise TypeError(
            f"{name} must be a dask array, or an xarray variable of one (chunk()), got "
            f"{type(values).__name__}; h5lossy.assess takes other arrays"
        )
    if not array.shape or not all(n > 0 for n in array.shape):  # unknown extents are NaN
        raise InvalidArgumentError(
            f"{name} must have axes of known extents above 0, got {array.shape}; "
            "compute_chunk_sizes() finds out what is unknown"
        )
    return array


def _after(change: Callable[..., None], assessor: Assessor, *given: Any) -> Assessor:
    # A task must not change its arguments: it may run again.
    mine = copy.deepcopy(assessor)
    change(mine, *given)
    return mine


def _ends(x: npt.NDArray[Any], missing: Missing) -> tuple[float, float] | None:
    """Return the smallest and the largest valid value."""
    extent = Extent(missing, threads=1)  # Dask's threads run tasks side by side
    x = loaded(x)
    mask = np.ma.getmaskarray(x) if isinstance(x, np.ma.MaskedArray) else None
    if mask is not None and x.dtype.kind == "c":
        mask = mask[..., np.newaxis].repeat(2, axis=-1)
    reals = as_reals(np.asarray(np.ma.getdata(x)))
    extent.add(np.asarray(reals, missing.dtype, order="C"), mask)
    return extent.ends


def _joined(ends: list[tuple[float, float] | None]) -> float | None:
    """Return the range of all bands; None where it is 0."""
    lows, highs = zip(*filter(None, ends), strict=True) if any(ends) else ((0,), (0,))
    return float(Fraction(max(highs)) - Fraction(min(lows))) or None

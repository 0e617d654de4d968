# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""`assess`: from two fields to a report."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from h5lossy._arrays import cupy_memory
from h5lossy._bounds import BoundKind
from h5lossy._datasets import codec_of
from h5lossy._errors import DeviceError, InvalidArgumentError
from h5lossy._progress import Progress, reporting
from h5lossy._safeguards import NO_SAFEGUARDS
from h5lossy._warnings import warn
from h5lossy.assessment._fields import MASK_DTYPE, Fields, stored_parts
from h5lossy.assessment._inputs import Input, agree_on_packing, opened, require_bound
from h5lossy.assessment._make_report import make_report
from h5lossy.assessment._options import (
    AssessOptions,
    checked_spacing,
    memory_bytes,
    takes_options,
)
from h5lossy.assessment._passes import Task, groups_for
from h5lossy.assessment._sliced import find
from h5lossy.assessment._slices import take_slices
from h5lossy.assessment._weights import weights_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h5lossy.assessment.report import Report


@takes_options
def assess(
    original: Any,
    decoded: Any,
    *,
    mask: Any = None,
    weights: Any = None,
    slices: bool = False,
    memory_limit: int | str = "256 MiB",
    progress: Progress = False,
    **options: Any,
) -> Report:
    """Measure what was lost, and check the error bound.

    Both fields are read once, part by part, whatever their size. A range is needed beforehand by
    SSIM and by a range-relative bound: without `data_range` the original is read twice. The result
    does not depend on chunks, the memory limit, the number of threads and the machine, except for
    the last few of 16 digits where a slab of planes is larger than the memory limit.

    Parameters
    ----------
    original, decoded : array_like, h5py.Dataset, or "file.h5:/path"
        Of the same shape. Floats of 16, 32 and 64 bits, complex numbers or integers; of either byte
        order. If one holds 64-bit integers, the other must hold integers too, and one of the two
        types must hold all values of both. Complex numbers are compared by their components, which
        become one more axis in the report, the last one; metrics that need neighbours are left out.
        NumPy arrays, ``numpy.memmap``, everything that supports DLPack (PyTorch, JAX), and anything
        else with a shape, a dtype and ``[]``, such as Zarr arrays and variables of netCDF4,
        h5netcdf and xarray. Two arrays on one GPU are assessed there; if only one is on a GPU, it
        is copied to the host a part at a time. Values packed with ``scale_factor`` and
        ``add_offset`` are unpacked, unless the bound is the file's own, which applies to the stored
        numbers.
    mask : array_like of bool or integers, optional
        Not 0 where a point is left out, as in NumPy's masked arrays. It has the fields' shape, or
        that of some of their axes, such as a mask of land for all times: the last ones, or those
        with the names of the mask's axes. If `original` is a masked array, its mask is added; a
        point that only `decoded` masks is a failure.
    weights : array_like or "latitude", optional
        How much points count for `Report.weighted`: areas of cells, say. Any shape that `mask` may
        have; finite, and 0 or more. "latitude": the cosine of the latitudes in the coordinate of an
        axis, in degrees_north.
    slices : bool, optional
        Keep two slices for `Report.to_html`: the middle one, and the one with the largest error.
        With a pointwise-relative bound, the group "pointwise" is computed too, to show the bound in
        it.
    memory_limit : int or str, optional
        Limit for data read from files, and for arrays that need a conversion; in bytes, or text
        such as "256 MiB".
    progress : function or bool, optional
        Called as ``progress(bytes_done, bytes_in_all)`` while the original is read; if it has to be
        read several times, each time counts. True shows a bar on standard error.
    **options
        What to compute and to check: the error bound (``absolute=``, ...), ``require=``,
        ``metrics=``, ``fill_value=`` and more, as documented for
        `h5lossy.assessment.AssessOptions`.

    Returns
    -------
    Report
        `Report.ok` is the verdict.

    Raises
    ------
    NotComparableError
        If the shapes differ, or a type can't be compared.
    InvalidArgumentError
        If an argument is not allowed.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(0, 1, 1000)
    >>> report = assess(x, np.round(x, 2), absolute=0.005)
    >>> report.ok, round(report.error.psnr, 1)
    (True, 50.8)
    >>> assess(x, np.round(x, 2), absolute=0.001).failures[0].check
    'bound'
    """
    checked = AssessOptions(**options)
    limit = memory_bytes(memory_limit)
    with opened(original, decoded) as (x, y):
        task = _task(x, y, mask, checked, slices=slices)
        own_axes = x.axes or y.axes
        task = replace(task, weights=weights_for(weights, own_axes, x.shape))
        with (
            _on_device(task) as placed,
            reporting(progress, f"assessing {y.name}") as advance,
        ):
            try:
                report = make_report(placed, *find(placed, limit, advance))
            except DeviceError as failure:
                if placed is task:
                    raise
                # As in the filter, the CPU takes over.
                warn(f"{failure}: the CPU does the work")
                report = make_report(task, *find(task, limit, advance))
        if slices and report.valid and not task.fields.is_complex:
            report = replace(report, slices=take_slices(task.fields, report.error.max_at))
        return report


@contextmanager
def _on_device(task: Task) -> Iterator[Task]:
    """Have a GPU assess the fields and their mask if both are in its memory.

    Otherwise, and if ``H5LOSSY_DEVICE`` is "cpu", values are copied to the host part by part.
    """
    fields = task.fields
    device = fields.original.device
    wanted = os.environ.get("H5LOSSY_DEVICE", "auto") != "cpu"
    # Only the host looks for missing values other than the fill value.
    is_real = fields.dtype.kind == "f" and not fields.is_complex
    is_possible = wanted and not fields.missing.has_more and is_real
    if device is None or fields.decoded.device != device or not is_possible:
        yield task
        return
    library = cupy_memory(fields.original.values).library
    with library.device(device):
        mask = fields.mask
        if mask is not None and mask.device is None:
            whole = tuple(slice(0, n) for n in mask.shape)
            mask = Input(library.upload(mask.read(whole, MASK_DTYPE), device).owner, "mask")
        library.wait(device)
        yield replace(task, fields=replace(fields, mask=mask, device=device))


def _task(x: Input, y: Input, mask: Any, options: AssessOptions, *, slices: bool) -> Task:
    """Decide how two fields are compared, and by which bound."""
    bound, source = options.given_bound, "given"
    codec = None if y.dataset is None else codec_of(y.dataset)
    if bound is None and codec is not None:
        bound, source = codec.bound, "file"
    groups = groups_for(x, options)
    if slices and bound is not None and bound.kind is BoundKind.POINTWISE_RELATIVE:
        groups |= {"pointwise"}
    x.threads = y.threads = options.threads
    agree_on_packing(x, y, as_stored=source == "file")
    require_bound(x, y, bound)
    safeguards = NO_SAFEGUARDS
    exact: tuple[int, ...] = ()
    if codec is not None and (y.packing is None or y.packing.is_plain):  # is for stored values
        safeguards, exact = codec.safeguards, codec.params().exact
    fields = Fields.of(
        x,
        y,
        mask,
        fill=options.fill_value,
        missing=options.missing_value,
        axes=options.axes,
        lossless=bound is not None and bound.kind is BoundKind.LOSSLESS,
    )
    stored = stored_parts([x, y, *filter(None, [fields.mask])], fields.layout)
    fields = replace(fields, stored=stored)
    if options.own_metrics and fields.why_not_read:
        raise InvalidArgumentError(
            f"metrics of your own read every value, and {fields.why_not_read}; assess a part of it"
        )
    return Task(
        fields=fields,
        options=options,
        bound=bound,
        bound_source=source,
        safeguards=safeguards,
        exact=exact,
        groups=groups,
        spacing=checked_spacing(options.spacing, len(x.shape)),
        own_metrics=options.own_metrics,
    )

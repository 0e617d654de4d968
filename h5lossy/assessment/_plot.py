# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""A report as a figure of matplotlib, which is asked for only here."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from h5lossy.assessment import _text

if TYPE_CHECKING:
    from collections.abc import Callable

    from h5lossy.assessment._slices import FieldSlice
    from h5lossy.assessment.report import Report


def figure(report: Report) -> Any:
    """Draw what `h5lossy.assessment._html` draws."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(
            "Report.plot needs matplotlib: pip install h5lossy[plot]; Report.to_html needs nothing"
        ) from error
    drawings: list[Callable[[Any], None]] = [lambda axes: _histogram(axes, report)]
    if any(v is not None for a in report.autocorrelation or () for v in a.values):
        drawings.append(lambda axes: _autocorrelation(axes, report))
    if report.relative_histogram is not None and report.relative_histogram.counts:
        drawings.append(lambda axes: _relative(axes, report))
    if report.per_chunk is not None:
        drawings.append(lambda axes: _chunks(axes, report))
    if report.spectrum is not None and report.spectrum.ratio:
        drawings.append(lambda axes: _spectrum(axes, report))
    slices = report.slices or ()
    rows = -(-len(drawings) // 2) + len(slices)
    drawn = Figure(figsize=(11, 3.4 * rows), layout="constrained")
    parts = drawn.subfigures(rows, 1, squeeze=False)[:, 0]
    title = f"{_text.verdict(report)}: {report.provenance.decoded}"
    if report.bound is not None:
        title += f"   {report.bound}"
    drawn.suptitle(title)
    for i in range(0, len(drawings), 2):
        pair = drawings[i : i + 2]
        for axes, draw in zip(
            parts[i // 2].subplots(1, len(pair), squeeze=False)[0], pair, strict=True
        ):
            draw(axes)
    for part, shown in zip(parts[-(-len(drawings) // 2) :], slices, strict=True):
        _slices(part, shown, report)
    return drawn


def _limit(report: Report) -> float | None:
    return None if report.bound is None else report.bound.limit


def _histogram(axes: Any, report: Report) -> None:
    histogram, limit = report.histogram, _limit(report)
    axes.set_title("errors")
    axes.set_ylabel("points")
    if histogram.bin_width is None or not any(histogram.counts):
        why = "every error is 0" if histogram.bin_width is None else "every error is further out"
        axes.text(0.5, 0.5, why, ha="center", transform=axes.transAxes)
        return
    counts = np.array(histogram.counts)
    edges = (np.arange(len(counts) + 1) - len(counts) // 2) * histogram.bin_width
    axes.stairs(counts, edges, fill=True)
    axes.set_yscale("log", nonpositive="clip")
    axes.set_ylim(bottom=0.5)
    used = np.flatnonzero(counts)
    reach = max(abs(edges[used[0]]), abs(edges[used[-1] + 1]), limit or 0.0) if used.size else 1.0
    end = min(1.05 * float(reach), np.finfo(np.float64).max / 4)
    axes.set_xlim(-end, end)
    if limit:
        for sign in (-1, 1):
            axes.axvline(sign * limit, color="tab:red", linestyle="--")


def _autocorrelation(axes: Any, report: Report) -> None:
    axes.set_title("autocorrelation of the error")
    axes.set_xlabel("lag")
    rows = [a for a in report.autocorrelation or () if a.axis is not None]
    for row in rows:
        values = [math.nan if v is None else v for v in row.values]
        axes.plot(range(1, len(values) + 1), values, marker="o", label=f"axis {row.axis}")
    bands = [band for row in rows for band in row.band if band is not None]
    if bands:
        axes.axhspan(-max(bands), max(bands), alpha=0.2, label="95 % of white noise")
    axes.axhline(0, color="0.5", linewidth=0.8)
    axes.legend()


def _relative(axes: Any, report: Report) -> None:
    histogram = report.relative_histogram
    assert histogram is not None
    assert histogram.first_octave is not None
    bins = np.arange(len(histogram.counts) + 1)
    with np.errstate(over="ignore"):
        edges = np.ldexp(1 + bins % 8 / 8, histogram.first_octave + bins // 8)
    edges = np.minimum(edges, np.finfo(np.float64).max)
    axes.set_title("errors relative to the value")
    axes.stairs(np.array(histogram.counts), edges, fill=True)
    if report.bound is not None and report.bound.kind == "pointwise_relative":
        axes.axvline(report.bound.value, color="tab:red", linestyle="--")
    axes.set_xscale("log")
    axes.set_yscale("log", nonpositive="clip")
    axes.set_ylim(bottom=0.5)


def _chunks(axes: Any, report: Report) -> None:
    from h5lossy.assessment._html import chunk_grid  # noqa: PLC0415

    grid, _, along = chunk_grid(report)
    axes.set_title("largest error of each chunk")
    axes.set_xlabel(f"by {along}")
    top = float(grid.max()) or _limit(report) or 1.0
    axes.figure.colorbar(axes.imshow(grid, cmap="inferno", vmin=0, vmax=top), ax=axes)


def _spectrum(axes: Any, report: Report) -> None:
    assert report.spectrum is not None
    ratios = [math.nan if r is None else r for r in report.spectrum.ratio]
    axes.set_title("power spectrum, decoded over original")
    axes.set_xlabel("wavenumber")
    axes.axhspan(0.99, 1.01, alpha=0.2)
    axes.plot(range(1, len(ratios) + 1), ratios)


def _slices(part: Any, shown: FieldSlice, report: Report) -> None:
    part.suptitle(shown.title)
    limit = _limit(report)
    unit, what = (limit, "error over the bound") if limit else (1.0, "error")
    panels = part.subplots(1, 3)
    if shown.original.ndim == 1:
        for axes, values, name in zip(
            panels,
            (shown.original, shown.decoded, shown.error / unit),
            ("original", "decoded", what),
            strict=True,
        ):
            axes.plot(values)
            axes.set_title(name)
        return
    there = shown.original[np.isfinite(shown.original)]
    ends = {"vmin": there.min(), "vmax": there.max()} if there.size else {}
    error = shown.error / unit
    sizes = np.abs(error[np.isfinite(error)])
    reach = max(float(sizes.max(initial=0.0)), 1.0 if limit else 0.0) or 1.0
    for axes, values, name, options in zip(
        panels,
        (shown.original, shown.decoded, error),
        ("original", "decoded", what),
        (ends, ends, {"vmin": -reach, "vmax": reach, "cmap": "RdBu_r"}),
        strict=True,
    ):
        part.colorbar(axes.imshow(values, **options), ax=axes, shrink=0.8)
        axes.set_title(name)

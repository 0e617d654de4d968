# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Figures, drawn with matplotlib, which is imported only here and only when a figure is drawn."""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from h5lossy._printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from h5lossy.assessment.schema import FieldSlice, ReportData

_STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": "medium",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}
_BOUND: Any = {"color": "tab:red", "linestyle": "--", "linewidth": 1}
_MISSING = "0.8"  # grey

#: Inches.
_WIDTH, _ROW_HEIGHT = 11.0, 3.2

#: Matplotlib draws sizes within these; others are scaled first.
_SMALLEST, _LARGEST = 1e-100, 1e100


def new_figure(width: float, height: float) -> Figure:
    """Make an empty figure, of a size in inches.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as error:
        raise ImportError("figures need matplotlib: pip install h5lossy[plot]") from error
    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Figure, file: Any, format: str) -> None:  # noqa: A002  # as in matplotlib
    """Write a figure in a format that matplotlib has; SVG is the same every time."""
    from matplotlib import rc_context  # noqa: PLC0415

    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type")) if format == "svg" else None
    with rc_context({"svg.hashsalt": "h5lossy", "svg.fonttype": "path"}):
        figure.savefig(file, format=format, metadata=nothing)


def svg(figure: Figure) -> str:
    """Return a figure as an SVG element."""
    out = io.StringIO()
    save(figure, out, "svg")
    return out.getvalue()[out.getvalue().index("<svg") :]


def figure(report: ReportData) -> Figure:
    """Draw the panels of a report: two or three in a row, then a row for each slice."""
    panels: list[Callable[[Axes, ReportData], None]] = [_errors]
    if any(v is not None for a in report.autocorrelation or () for v in a.values):
        panels.append(_autocorrelation)
    if report.relative_histogram is not None and report.relative_histogram.counts:
        panels.append(_relative_errors)
    if report.per_chunk is not None and len(report.per_chunk.max_abs) > 1:
        panels.append(_chunks)
    if report.spectrum is not None and report.spectrum.ratio:
        panels.append(_spectrum)
    slices = report.slices or ()
    columns = 3 if len(panels) % 2 else 2
    bands = [panels[i : i + columns] for i in range(0, len(panels), columns)]
    heights = [_ROW_HEIGHT] * len(bands) + [_height(one) for one in slices]
    drawn = new_figure(_WIDTH, sum(heights))
    from matplotlib import rc_context  # noqa: PLC0415

    with rc_context(_STYLE):
        rows = drawn.subfigures(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
        for row, band in zip(rows, bands, strict=False):
            for axes, draw in zip(row.subplots(1, columns), band, strict=False):
                draw(axes, report)
            for axes in row.axes[len(band) : columns]:
                axes.set_axis_off()
        for row, one in zip(rows[len(bands) :], slices, strict=True):
            row.suptitle(one.title, fontsize="medium")
            draw_slice = _curves if one.original.ndim == 1 else _images
            draw_slice(row, one, report)
    return drawn


def _height(one: FieldSlice) -> float:
    """Return the height of a slice's row, in inches."""
    if len(one.extent) == 1 or _aspect(one.original) == "auto":
        return _ROW_HEIGHT
    return 1.1 + min(_WIDTH / 4 * one.extent[0] / one.extent[1], _WIDTH / 3)


def _limit(report: ReportData) -> float | None:
    """Return the largest error that the bound allows, if that is one number other than 0."""
    return (report.bound.limit or None) if report.bound is not None else None


def _scale(largest: float) -> float:
    """Return what to divide numbers of this size by: 1, or a power of two if they are extreme."""
    if largest == 0 or _SMALLEST < largest < _LARGEST:
        return 1.0
    return math.ldexp(1.0, min(math.frexp(largest)[1], 1023))


def _label(name: str, report: ReportData, scale: float = 1.0) -> str:
    """Write a quantity with its unit."""
    unit = printable(report.provenance.units or "")
    factor = "" if scale == 1 else f"{scale:.3g}"
    return f"{name} ({' '.join(filter(None, (factor, unit)))})" if factor or unit else name


def _axis(report: ReportData, axis: int | None) -> str:
    """Name an axis."""
    name = report.dims[axis] if report.dims and axis is not None else ""
    return printable(name) or f"axis {axis}"


def _no_panel(axes: Axes, why: str) -> None:
    """Say why there is nothing to draw."""
    axes.text(0.5, 0.5, why, ha="center", transform=axes.transAxes)
    axes.set_axis_off()


def _errors(axes: Axes, report: ReportData) -> None:
    """Draw the histogram of signed errors."""
    histogram, limit = report.histogram, _limit(report)
    counts = np.array(histogram.counts)
    used = np.flatnonzero(counts)
    axes.set_title("Errors")
    if histogram.bin_width is None or not used.size:
        beyond = histogram.below + histogram.above
        exact = "every error is 0" if report.valid else "there is no valid point"
        _no_panel(axes, f"all {beyond} errors are far beyond the bound" if beyond else exact)
        return
    scale = _scale(max(histogram.bin_width, limit or 0.0))
    edges = (np.arange(len(counts) + 1) - len(counts) // 2) * (histogram.bin_width / scale)
    end = max(abs(edges[used[0]]), abs(edges[used[-1] + 1]))
    axes.stairs(counts, edges, fill=True)
    if limit is not None:
        end = max(end, limit / scale)
        axes.axvline(-limit / scale, **_BOUND)
        axes.axvline(limit / scale, **_BOUND, label=f"bound, ±{limit:.4g}")
        _legend(axes)
    axes.set_xlim(-1.05 * end, 1.05 * end)
    _count_axis(axes)
    axes.set_xlabel(_label("error", report, scale), parse_math=False)


def _relative_errors(axes: Axes, report: ReportData) -> None:
    """Draw the histogram of errors over the values."""
    histogram = report.relative_histogram
    assert histogram is not None
    assert histogram.first_octave is not None
    bins = np.arange(len(histogram.counts) + 1)
    # Logarithms, since the edges may be beyond float64.
    edges = (histogram.first_octave + bins // 8 + np.log2(1 + bins % 8 / 8)) * math.log10(2)
    axes.set_title("Errors relative to the value")
    axes.stairs(np.array(histogram.counts), edges, fill=True)
    if report.bound is not None and report.bound.kind == "pointwise_relative":
        value = report.bound.value
        axes.axvline(math.log10(value), **_BOUND, label=f"bound, {value:.4g}")
        _legend(axes)
    _count_axis(axes)
    axes.set_xlabel("log10 |error / value|")


def _legend(axes: Axes) -> None:
    """Put the legend below the axes, where it hides nothing."""
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3)


def _count_axis(axes: Axes) -> None:
    """Have counts of points along y, logarithmic."""
    axes.set_yscale("log", nonpositive="clip")
    axes.set(ylim=(0.5, None), ylabel="points")


def _autocorrelation(axes: Axes, report: ReportData) -> None:
    """Draw the autocorrelation of the error along each axis."""
    rows = [row for row in report.autocorrelation or () if row.axis is not None]
    for row in rows:
        values = [math.nan if v is None else v for v in row.values]
        lags = range(1, len(values) + 1)
        axes.plot(lags, values, marker="o", markersize=4, label=_axis(report, row.axis))
    bands = [band for row in rows for band in row.band if band is not None]
    if bands:
        axes.axhspan(-max(bands), max(bands), color="0.9", label="95 % of white noise")
    axes.axhline(0, color="0.5", linewidth=0.8)
    axes.locator_params(axis="x", integer=True)
    _legend(axes)
    axes.set(title="Autocorrelation of the error", xlabel="lag (points)", ylabel="correlation")


def _spectrum(axes: Axes, report: ReportData) -> None:
    """Draw the power of the decoded field over that of the original."""
    assert report.spectrum is not None
    ratios = [math.nan if ratio is None else ratio for ratio in report.spectrum.ratio]
    axes.axhspan(0.99, 1.01, color="0.9", label="within 1 %")
    axes.plot(range(1, len(ratios) + 1), ratios, marker="o" if len(ratios) < 20 else None)
    axes.locator_params(axis="x", integer=True)
    _legend(axes)
    axes.set(title="Power spectrum", xlabel="wavenumber", ylabel="decoded / original")


def _chunks(axes: Axes, report: ReportData) -> None:
    """Draw the largest error of each chunk, over the last two axes that have several."""
    chunks, limit = report.per_chunk, _limit(report)
    assert chunks is not None
    grid = np.array(chunks.max_abs).reshape(chunks.grid)
    failed = np.array(chunks.special).reshape(chunks.grid) > 0
    if limit is not None:
        failed |= grid > limit
    long = [axis for axis, n in enumerate(chunks.grid) if n > 1]
    others = tuple(axis for axis in range(grid.ndim) if axis not in long[-2:])
    grid = np.atleast_2d(grid.max(axis=others))
    failed = np.atleast_2d(failed.any(axis=others))
    scale = _scale(float(grid.max()))
    image = axes.imshow(
        grid / scale,
        cmap="viridis",
        vmin=0,
        vmax=float(grid.max()) / scale or 1.0,
        interpolation="none",
        aspect=_aspect(grid),
    )
    _colorbar(axes.figure, image, [axes], _label("largest error", report, scale))
    y, x = np.nonzero(failed)
    if len(x):
        axes.scatter(x, y, marker="x", color="tab:red", label="a value failed")
        _legend(axes)
    box = " × ".join(map(str, chunks.box)) or "1"
    axes.set_title(f"Chunks of {box} points")
    axes.locator_params(integer=True)
    for axis, number in zip((axes.xaxis, axes.yaxis), reversed(long[-2:]), strict=False):
        axis.set_label_text(f"chunk along {_axis(report, number)}", parse_math=False)
    for axis, n in ((axes.xaxis, grid.shape[1]), (axes.yaxis, grid.shape[0])):
        axis.set_visible(n > 1)


def _images(row: SubFigure, one: FieldSlice, report: ReportData) -> None:
    """Draw a slice: original and decoded with one colour scale, and the error."""
    limit = _limit(report)
    values = np.stack([one.original, one.decoded])
    scale = _scale(float(np.nanmax(np.abs(values), initial=0)))
    ends = {"vmin": np.nanmin(values) / scale, "vmax": np.nanmax(values) / scale}
    worst = float(np.nanmax(np.abs(one.error), initial=0))
    in_bounds = limit is not None and worst / limit < _LARGEST
    unit = limit if limit is not None and in_bounds else _scale(worst)
    reach = max(worst / unit, 1.0 if in_bounds else 0.0) or 1.0
    colours = {"vmin": -reach, "vmax": reach, "cmap": _with_missing("RdBu_r")}
    panels = row.subplots(1, 3, sharex=True, sharey=True)
    for axes, name, data, options in (
        (panels[0], "original", one.original / scale, ends | {"cmap": _with_missing("viridis")}),
        (panels[1], "decoded", one.decoded / scale, ends | {"cmap": _with_missing("viridis")}),
        (panels[2], "error", one.error / unit, colours),
    ):
        image = axes.imshow(
            data,
            **options,
            interpolation="none",
            aspect=_aspect(one.original),
            extent=(-0.5, one.extent[1] - 0.5, one.extent[0] - 0.5, -0.5),
        )
        axes.set_title(name)
        axes.set_xlabel(_axis(report, one.axes[1]), parse_math=False)
        if name == "decoded":
            _colorbar(row, image, panels[:2], _label("value", report, scale))
    _colorbar(
        row, image, panels[2:], "error / bound" if in_bounds else _label("error", report, unit)
    )
    panels[0].set_ylabel(_axis(report, one.axes[0]), parse_math=False)


def _curves(row: SubFigure, one: FieldSlice, report: ReportData) -> None:
    """Draw a field with one axis: both fields, and the error."""
    limit = _limit(report)
    points = np.linspace(0, max(one.extent[0] - 1, 0), len(one.original))
    scale = _scale(float(np.nanmax(np.abs([one.original, one.decoded]), initial=0)))
    unit = _scale(float(np.nanmax(np.abs(one.error), initial=limit or 0)))
    left, right = row.subplots(1, 2, sharex=True)
    # The marker also shows points without neighbours.
    style: Any = {"marker": ".", "markersize": 2, "linewidth": 0.8}
    left.plot(points, one.original / scale, **style, label="original")
    left.plot(points, one.decoded / scale, **style, label="decoded")
    left.set_ylabel(_label("value", report, scale), parse_math=False)
    right.plot(points, one.error / unit, **style, color="tab:purple", label="error")
    if limit is not None:
        right.axhline(-limit / unit, **_BOUND)
        right.axhline(limit / unit, **_BOUND, label="bound")
    right.set_ylabel(_label("error", report, unit), parse_math=False)
    for axes in (left, right):
        axes.set_xlabel(_axis(report, one.axes[0]), parse_math=False)
        _legend(axes)


def _with_missing(name: str) -> Any:
    """Return a colour map that shows NaN in grey."""
    from matplotlib import colormaps  # noqa: PLC0415

    return colormaps[name].with_extremes(bad=_MISSING)


def _aspect(values: npt.NDArray[np.float64]) -> Literal["equal", "auto"]:
    """Have square points, unless the image would be a mere line."""
    rows, columns = values.shape
    return "equal" if 1 / 3 <= rows / columns <= 3 else "auto"


def _colorbar(figure: Any, image: Any, axes: Any, label: str) -> None:
    """Put a colour bar beside axes."""
    figure.colorbar(image, ax=axes, shrink=0.9).set_label(label, parse_math=False)

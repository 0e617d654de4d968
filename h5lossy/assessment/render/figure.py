# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Figures, drawn with matplotlib, which is imported only here and only when a figure is drawn."""

from __future__ import annotations

import io
import math
import textwrap
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from h5lossy._printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from h5lossy.assessment.schema import FieldSlice, ReportData

_STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": "medium",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}
_BOUND: Any = {"color": "tab:red", "linestyle": "--", "linewidth": 1}
_BAND: Any = {"color": "0.5", "alpha": 0.2, "linewidth": 0}
_MISSING = "0.7"  # grey

#: Size of a panel in inches, and the number of panels in a row.
_WIDTH, _HEIGHT = 3.7, 3.0
_COLUMNS = 3

#: Longer legends have one entry per line.
_LEGEND_LETTERS = 36

#: A longer name of the values is broken into several lines.
_LABEL_LETTERS = 28

#: The least range around 1 that the axis of a spectrum shows.
_LEAST_REACH = 0.02

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


class Panel(NamedTuple):
    """One picture: a third of a row in a figure, or on its own on a page."""

    draw: Callable[[Axes], None]
    height: float = _HEIGHT  # in inches


def panels(report: ReportData) -> dict[str, list[Panel]]:
    """Return the pictures of a report, by the titles of their groups."""
    whole = [_errors]
    if any(v is not None for a in report.autocorrelation or () for v in a.values):
        whole.append(_autocorrelation)
    if report.relative_histogram is not None and report.relative_histogram.counts:
        whole.append(_relative_errors)
    if report.spectrum is not None and any(ratio is not None for ratio in report.spectrum.ratio):
        whole.append(_spectrum)
    found = {"": [Panel(partial(draw, report=report)) for draw in whole]}
    if report.per_chunk is not None and len(report.per_chunk.max_abs) > 1:
        found[""].append(_chunks(report))
    for one in report.slices or ():
        found[one.title] = _curves(one, report) if one.original.ndim == 1 else _maps(one, report)
    return found


def figure(report: ReportData) -> Figure:
    """Draw all pictures, three in a row."""
    rows = [
        (title if i == 0 else "", group[i : i + _COLUMNS])
        for title, group in panels(report).items()
        for i in range(0, len(group), _COLUMNS)
    ]
    heights = [max(p.height for p in row) + (0.3 if title else 0) for title, row in rows]
    drawn = new_figure(_COLUMNS * _WIDTH, sum(heights))
    with _style():
        parts = drawn.subfigures(len(rows), 1, squeeze=False, height_ratios=heights)[:, 0]
        for part, (title, row) in zip(parts, rows, strict=True):
            part.suptitle(title, fontsize="medium", parse_math=False)
            columns = part.subfigures(1, _COLUMNS, squeeze=False)[0]
            for column, panel in zip(columns, row, strict=False):
                panel.draw(column.subplots())
    return drawn


def drawings(report: ReportData) -> Iterator[tuple[str, list[str]]]:
    """Yield the titles of groups, and their pictures as SVG elements in the colours of a page."""
    with _style():
        for title, group in panels(report).items():
            pictures = []
            for panel in group:
                drawn = new_figure(_WIDTH, panel.height)
                drawn.patch.set_alpha(0)
                panel.draw(drawn.subplots())
                for axes in drawn.axes:
                    axes.patch.set_alpha(0)
                pictures.append(svg(drawn).replace("#000000", "currentColor"))
            yield title, pictures


def _style() -> Any:
    from matplotlib import rc_context  # noqa: PLC0415

    return rc_context(_STYLE)


def _limit(report: ReportData) -> float | None:
    """Return the largest error that the bound allows, if that is one number other than 0."""
    return (report.bound.limit or None) if report.bound is not None else None


def _scale(largest: float) -> float:
    """Return the divisor for numbers of this magnitude: 1, or a power of two if it is extreme."""
    if largest == 0 or _SMALLEST < largest < _LARGEST:
        return 1.0
    return math.ldexp(1.0, min(math.frexp(largest)[1], 1023))


def _label(name: str, report: ReportData, scale: float = 1.0) -> str:
    """Write a quantity with its unit."""
    unit = printable(report.provenance.units or "")
    factor = "" if scale == 1 else f"{scale:.3g}"
    return f"{name} ({' '.join(filter(None, (factor, unit)))})" if factor or unit else name


def _axis(report: ReportData, axis: int | None, *, unit: bool = True) -> str:
    """Name an axis, with the unit of its coordinate."""
    if axis is None or axis >= len(report.coordinates):
        return f"axis {axis}"
    one = report.coordinates[axis]
    name = printable(one.long_name or one.name) or f"axis {axis}"
    return f"{name} ({printable(one.units)})" if unit and one.units else name


def _edges(report: ReportData, axis: int, starts: npt.NDArray[np.int64]) -> Any:
    """Return where points begin along an axis, and where the last one ends, in its coordinate."""
    values = report.coordinates[axis].values if axis < len(report.coordinates) else None
    if values is None:
        return starts - 0.5
    values = _as_numbers(values)
    middle = (values[:-1] + values[1:]) / 2
    if len(values) == 1:
        first, last = values[0] - 0.5, values[0] + 0.5
    else:
        first, last = 2 * values[0] - middle[0], 2 * values[-1] - middle[-1]
    return np.concatenate([[first], middle, [last]])[starts]


def _as_numbers(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return a coordinate as numbers; dates as days since 1970, as matplotlib counts them."""
    if values.dtype.kind == "M":
        return np.asarray(values.astype("datetime64[s]").astype(np.int64) / 86400)
    return values


def _name_axis(report: ReportData, drawn: Any, axis: int) -> None:
    """Give an axis of a picture its name, unit and ticks."""
    drawn.set_label_text(_axis(report, axis), parse_math=False)
    one = report.coordinates[axis] if axis < len(report.coordinates) else None
    if one is None or one.values is None:
        drawn.get_major_locator().set_params(integer=True, nbins=5)
    elif one.values.dtype.kind == "M":
        drawn.axis_date()
    else:
        steps = [1, 1.5, 3, 4.5, 6, 9, 10] if one.units.startswith("degrees") else None
        drawn.get_major_locator().set_params(nbins=5, **({"steps": steps} if steps else {}))


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
    axes.locator_params(axis="x", nbins=5)
    _count_axis(axes)
    axes.set_xlabel(_label("error", report, scale), parse_math=False)


def _relative_errors(axes: Axes, report: ReportData) -> None:
    """Draw the histogram of errors divided by values."""
    histogram = report.relative_histogram
    assert histogram is not None
    assert histogram.first_octave is not None
    bins = np.arange(len(histogram.counts) + 1)
    # Logarithms, since the edges may exceed float64.
    edges = (histogram.first_octave + bins // 8 + np.log2(1 + bins % 8 / 8)) * math.log10(2)
    axes.set_title("Errors relative to the value")
    axes.stairs(np.array(histogram.counts), edges, fill=True)
    if histogram.opposite:
        axes.stairs(np.array(histogram.opposite), edges, color="tab:orange", label="towards 0")
    if report.bound is not None and report.bound.kind == "pointwise_relative":
        value = report.bound.value
        axes.axvline(math.log10(value), **_BOUND, label=f"bound, {value:.4g}")
    _legend(axes)
    _count_axis(axes)
    axes.set_xlabel("log10 |error / value|")


def _legend(axes: Axes) -> None:
    """Put the legend below the axes, where it hides nothing."""
    labels = axes.get_legend_handles_labels()[1]
    columns = 3 if sum(map(len, labels)) < _LEGEND_LETTERS else 1
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=columns)


def _count_axis(axes: Axes) -> None:
    """Make y a logarithmic axis for counts of points."""
    axes.set_yscale("log", nonpositive="clip")
    axes.set(ylim=(0.5, None), ylabel="points")
    axes.minorticks_off()


def _autocorrelation(axes: Axes, report: ReportData) -> None:
    """Draw the autocorrelation of the error along each axis."""
    rows = [row for row in report.autocorrelation or () if row.axis is not None]
    for row in rows:
        values = [math.nan if v is None else v for v in row.values]
        lags = range(1, len(values) + 1)
        name = _axis(report, row.axis, unit=False)
        axes.plot(lags, values, marker="o", markersize=4, label=f"along {name}")
    bands = [band for row in rows for band in row.band if band is not None]
    if bands:
        axes.axhspan(-max(bands), max(bands), **_BAND, label="95 % of white noise")
    axes.axhline(0, color="0.5", linewidth=0.8)
    axes.locator_params(axis="x", integer=True)
    _legend(axes)
    axes.set(title="Autocorrelation of the error", xlabel="lag (points)", ylabel="correlation")


def _spectrum(axes: Axes, report: ReportData) -> None:
    """Draw the power of the decoded field divided by that of the original, near 1."""
    assert report.spectrum is not None
    ratios = np.array([np.nan if ratio is None else ratio for ratio in report.spectrum.ratio])
    reach = min(max(1.1 * float(np.nanmax(np.abs(ratios - 1))), _LEAST_REACH), 1.0)
    beyond = int((np.abs(ratios - 1) > reach).sum())
    axes.axhspan(0.99, 1.01, **_BAND, label="within 1 %")
    shown = np.clip(ratios, 1 - reach, 1 + reach)
    axes.plot(range(1, len(ratios) + 1), shown, marker="o" if len(ratios) < 20 else None)
    if beyond:
        axes.plot([], [], " ", label=f"{beyond} above 2, up to {np.nanmax(ratios):.3g}")
    axes.set_ylim(1 - 1.05 * reach, 1 + 1.05 * reach)
    axes.locator_params(axis="x", integer=True)
    _legend(axes)
    axes.set(title="Power spectrum", xlabel="wavenumber", ylabel="decoded / original")


def _chunks(report: ReportData) -> Panel:
    """Return the map of chunks over the last two axes with several chunks, by the RMSE in each.

    Nearly every chunk has an error as large as the bound, which tells nothing; the RMSE does.
    """
    chunks, limit = report.per_chunk, _limit(report)
    assert chunks is not None
    largest = np.array(chunks.max_abs).reshape(chunks.grid)
    extent = report.original.range
    psnr = [np.nan if one is None else one for one in chunks.psnr]
    has_rmse = bool(extent) and not np.isnan(psnr).all()
    rmse = (extent or 0.0) * 10.0 ** (-np.array(psnr) / 20)
    grid = rmse.reshape(chunks.grid) if has_rmse else largest
    failed = np.array(chunks.special).reshape(chunks.grid) > 0
    if limit is not None:
        failed |= largest > limit
    long = [axis for axis, n in enumerate(chunks.grid) if n > 1][-2:]
    others = tuple(axis for axis in range(grid.ndim) if axis not in long)
    grid = np.atleast_2d(np.fmax.reduce(grid, axis=others) if others else grid)
    failed = np.atleast_2d(failed.any(axis=others))
    starts = [
        np.minimum(np.arange(chunks.grid[axis] + 1) * chunks.box[axis], report.shape[axis])
        for axis in long
    ]
    what = "RMSE" if has_rmse else "largest error"
    if any(chunks.grid[axis] > 1 for axis in others):
        what += ", largest along the other axes"
    scale = _scale(float(np.nanmax(grid)))

    def draw(axes: Axes) -> None:
        ends = {"vmin": np.nanmin(grid) / scale, "vmax": np.nanmax(grid) / scale}
        image = _image(axes, report, long, starts, grid / scale, cmap="viridis", **ends)
        axes.set_title(f"Chunks of {' × '.join(map(str, chunks.box)) or '1'} points")
        _colorbar(image, axes, _label(what, report, scale))
        rows, columns = np.nonzero(failed)
        if len(rows):
            middles = [(edges[:-1] + edges[1:]) / 2 for edges in _both_edges(report, long, starts)]
            at = middles[1][columns], middles[0][rows]
            axes.scatter(*at, marker="x", color="tab:red", label="a value failed")
            _legend(axes)

    return Panel(draw, _height_of(report, long, starts))


def _both_edges(
    report: ReportData, axes: Sequence[int], starts: Sequence[npt.NDArray[np.int64]]
) -> list[npt.NDArray[np.float64]]:
    """Return the edges along y and x; a single step along y if there is only one axis."""
    found = [_edges(report, axis, at) for axis, at in zip(axes, starts, strict=True)]
    return [np.array([0.0, 1.0]), *found][-2:]


def _aspect(
    report: ReportData, axes: Sequence[int], starts: Sequence[npt.NDArray[np.int64]]
) -> float | None:
    """Return height over width of an image whose axes have the same unit; None if they differ.

    It is also None if the image would be a mere line.
    """
    known = [report.coordinates[axis] for axis in axes if report.coordinates]
    units = {one.units.partition("_")[0] for one in known if one.values is not None}
    placed = sum(one.values is not None for one in known)
    if len(axes) < 2 or placed == 1 or (placed == 2 and (len(units) > 1 or "" in units)):
        return None
    tall, wide = (abs(e[-1] - e[0]) for e in _both_edges(report, axes, starts))
    return float(tall / wide) if 1 / 3 <= tall / wide <= 3 else None


def _height_of(
    report: ReportData, axes: Sequence[int], starts: Sequence[npt.NDArray[np.int64]]
) -> float:
    """Return the height of a panel with an image, in inches."""
    aspect = _aspect(report, axes, starts)
    return _HEIGHT + 0.3 if aspect is None else 1.4 + (_WIDTH - 0.9) * min(aspect, 1.5)


def _image(
    axes: Axes,
    report: ReportData,
    along: Sequence[int],
    starts: Sequence[npt.NDArray[np.int64]],
    data: npt.NDArray[np.float64],
    *,
    cmap: str,
    **options: Any,
) -> Any:
    """Draw an image over coordinates: north up, depth and pressure down, arrays row by row."""
    rows, columns = _both_edges(report, along, starts)
    if columns[0] > columns[-1]:
        columns, data = columns[::-1], data[:, ::-1]
    if rows[0] > rows[-1]:
        rows, data = rows[::-1], data[::-1]
    image = axes.pcolorfast(columns, rows, data, cmap=_with_missing(cmap), **options)
    if hasattr(image, "set_interpolation"):
        image.set_interpolation("none")
    axes.set(xlim=columns[[0, -1]], ylim=rows[[0, -1]])
    axes.set_aspect("auto" if _aspect(report, along, starts) is None else "equal")
    _name_axis(report, axes.xaxis, along[-1])
    if len(along) < 2:
        axes.yaxis.set_visible(False)
        return image
    _name_axis(report, axes.yaxis, along[0])
    if not (report.coordinates and report.coordinates[along[0]].rises):
        axes.invert_yaxis()
    return image


def _maps(one: FieldSlice, report: ReportData) -> list[Panel]:
    """Return the panels of a slice: original and decoded with one colour scale, and the error."""
    limit = _limit(report)
    values = np.stack([one.original, one.decoded])
    scale = _scale(float(np.nanmax(np.abs(values), initial=0)))
    ends = {"vmin": np.nanmin(values) / scale, "vmax": np.nanmax(values) / scale, "cmap": "viridis"}
    worst = float(np.nanmax(np.abs(one.error), initial=0))
    in_bounds = limit is not None and worst / limit < _LARGEST
    unit = limit if limit is not None and in_bounds else _scale(worst)
    reach = max(worst / unit, 1.0 if in_bounds else 0.0) or 1.0
    of_error = {"vmin": -reach, "vmax": reach, "cmap": "RdBu_r"}
    steps = [-(-n // len_) for n, len_ in zip(one.extent, one.original.shape, strict=True)]
    starts = [
        np.minimum(np.arange(count + 1) * step, n)
        for count, step, n in zip(one.original.shape, steps, one.extent, strict=True)
    ]
    height = _height_of(report, one.axes, starts)

    def panel(name: str, data: npt.NDArray[np.float64], label: str, options: Any) -> Panel:
        def draw(axes: Axes) -> None:
            image = _image(axes, report, one.axes, starts, data, **options)
            axes.set_title(name)
            _colorbar(image, axes, label)

        return Panel(draw, height)

    value = _label(_quantity(report), report, scale)
    error = "error / bound" if in_bounds else _label("error", report, unit)
    return [
        panel("original", one.original / scale, value, ends),
        panel("decoded", one.decoded / scale, value, ends),
        panel("error", one.error / unit, error, of_error),
    ]


def _quantity(report: ReportData) -> str:
    """Name the quantity that the values are."""
    name = printable(report.provenance.long_name or "value")
    return textwrap.fill(name, _LABEL_LETTERS, break_long_words=False)


def _curves(one: FieldSlice, report: ReportData) -> list[Panel]:
    """Return the panels of a field with one axis: both fields, and the error."""
    limit = _limit(report)
    [axis], [extent] = one.axes, one.extent
    edges = _edges(report, axis, np.arange(extent + 1))
    points = ((edges[:-1] + edges[1:]) / 2)[:: -(-extent // len(one.original))]
    scale = _scale(float(np.nanmax(np.abs([one.original, one.decoded]), initial=0)))
    unit = _scale(float(np.nanmax(np.abs(one.error), initial=limit or 0)))
    # Markers also show points without neighbours.
    style: Any = {"marker": ".", "markersize": 2, "linewidth": 0.8}

    def fields(axes: Axes) -> None:
        axes.plot(points, one.original / scale, **style, label="original")
        axes.plot(points, one.decoded / scale, **style, label="decoded")
        axes.set_ylabel(_label(_quantity(report), report, scale), parse_math=False)
        _name_axis(report, axes.xaxis, axis)
        _legend(axes)

    def errors(axes: Axes) -> None:
        axes.plot(points, one.error / unit, **style, color="tab:purple", label="error")
        if limit is not None:
            axes.axhline(-limit / unit, **_BOUND)
            axes.axhline(limit / unit, **_BOUND, label="bound")
        axes.set_ylabel(_label("error", report, unit), parse_math=False)
        _name_axis(report, axes.xaxis, axis)
        _legend(axes)

    return [Panel(fields), Panel(errors)]


def _with_missing(name: str) -> Any:
    """Return a colour map that shows NaN in grey."""
    from matplotlib import colormaps  # noqa: PLC0415

    return colormaps[name].with_extremes(bad=_MISSING)


def _colorbar(image: Any, axes: Axes, label: str) -> None:
    """Put a colour bar below axes."""
    bar = axes.figure.colorbar(image, ax=axes, location="bottom", shrink=0.9, aspect=30)
    bar.set_label(label, parse_math=False)
    bar.ax.locator_params(nbins=5)

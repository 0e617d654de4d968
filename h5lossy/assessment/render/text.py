# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""A report as text, Markdown and HTML, and the one table that they show."""

from __future__ import annotations

import html
import itertools
import math
import re
from functools import partial
from operator import attrgetter
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, NamedTuple

from h5lossy._printable import bytes_text, printable
from h5lossy._safeguards import Safeguards
from h5lossy.assessment.render.figure import drawings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from h5lossy.assessment.schema import AxisCorrelation, AxisDerivative, Histogram, ReportData

_DOCUMENT, _PAGE, _STYLE = (
    Path(__file__).with_name(name) for name in ("document.html", "page.html", "style.css")
)

_BAR = " .:-=+*#%@"
_COLUMNS = 40

#: Of similarities near 1; of nearer ones only the distance is told.
_MOST_DIGITS = 12


class Row(NamedTuple):
    """One line of the table."""

    group: str
    name: str
    value: str
    meaning: str = ""  # how it is defined
    is_headline: bool = False  # also shown large, at the top of the page


def number(value: float | None, digits: int = 6) -> str:
    """Write a number; "-" if it is not defined."""
    return "-" if value is None else f"{value:.{digits}g}"


def place(at: tuple[int, ...] | None) -> str:
    """Write indices."""
    return "" if at is None else f"({', '.join(map(str, at))})"


def point(report: ReportData, at: tuple[int, ...] | None, axes: Iterable[int] = ()) -> str:
    """Write a place in the field, or along some of its axes, with coordinates if it has any."""
    along = [*axes] or [*range(len(report.shape))]
    if at is None or not any(one.name for one in report.coordinates):
        return place(at)
    return ", ".join(printable(report.coordinates[a].at(i)) for a, i in zip(along, at, strict=True))


def verdict(report: ReportData) -> str:
    """Return PASS or FAIL; "measured" if there was neither a bound nor a threshold."""
    if not report.ok:
        return "FAIL"
    return "PASS" if report.bound is not None or report.requirements else "measured"


def definitions(report: ReportData) -> str:
    """Return in one line how the numbers are defined."""
    parts = [f"definitions: {report.schema}"]
    if report.ssim is not None:
        side = "x".join(map(str, report.ssim.sides or (report.ssim.window,)))
        of = "the original" if report.per_slice is None else "each slice of the original"
        parts.append(f"SSIM {side} uniform, step {report.ssim.step}, range of {of}")
    return "; ".join(parts)


def axis_names(report: ReportData, axes: Iterable[int]) -> str:
    """Name axes, or number those without a name."""
    names = report.dims or ("",) * len(report.shape)
    return ", ".join(printable(names[axis]) or f"axis {axis}" for axis in axes)


def findings(report: ReportData) -> Iterator[str]:
    """Write each check that failed, and the first points beyond the bound."""
    for failure in report.failures:
        where = f", first at {point(report, failure.where)}" if failure.where is not None else ""
        name = failure.check.replace("_", " ")
        yield f"{name}: wanted {failure.wanted}, got {failure.got}{where}"
    for one in report.bound.listed if report.bound is not None else ():
        chunk = f", chunk {place(one.chunk)}" if one.chunk is not None else ""
        yield (
            f"at {point(report, one.at)}{chunk}: original {one.original!r}, "
            f"decoded {one.decoded!r}, error {one.error:.9g}"
        )


def rows(report: ReportData) -> Iterator[Row]:
    """Give the table that text, Markdown and HTML show."""
    others: dict[str, Iterable[Row]] = {
        "data": _data(report),
        "whiteness": _whiteness(report.autocorrelation),
        "slices": _slices(report),
        "thresholds": (
            Row("thresholds", f"{one.name} ({one.threshold:g})", f"{one.count} points cross it")
            for one in report.threshold_crossings
        ),
        "metrics": (Row("metrics", name, _short(value)) for name, value in report.metrics.items()),
        "undefined": (Row("undefined", name, why) for name, why in report.undefined.items()),
    }
    for group, numbers in _TABLE.items():
        for shown in numbers:
            yield from shown.row(group, report)
        yield from others.get(group, ())


def _data(report: ReportData) -> Iterator[Row]:
    """Give points, special values and the bound."""
    special = report.special
    yield Row("data", "points", f"{report.valid} of {report.points} valid")
    yield Row("data", "range of the original", number(report.original.range))
    for name, count, always in (
        ("NaN", special.nan_kept + special.nan_changed + special.nan_lost, True),
        ("infinities", special.inf_kept + special.inf_changed, True),
        ("fill values", special.fill_kept + special.fill_lost, True),
        (
            "missing values",
            special.missing_kept + special.missing_lost - report.outside,
            bool(report.missing_values),
        ),
        ("outside the valid range", report.outside, False),
        ("masked", report.masked, False),
    ):
        if count or always:
            yield Row("data", name, str(count))
    for which in report.provenance.unpacked:
        yield Row("data", "unpacked", which)
    if report.bound is not None:
        meaning = "checked in exact arithmetic against the number as it was typed"
        yield Row("data", "bound", str(report.bound), meaning)
        over = f"{report.bound.violations} of {report.valid}"
        yield Row("data", "points over it", over, is_headline=True)
        if report.bound.share is not None:
            yield Row("data", "largest share of it", number(report.bound.share, 4))
    if (sides := report.safeguards) is not None:
        yield Row("data", "safeguards", str(Safeguards(sides.thresholds, sides.valid_range)))
        yield Row("data", "points that break them", f"{sides.broken} of {report.points}")


def _whiteness(axes: tuple[AxisCorrelation, ...] | None) -> Iterator[Row]:
    """Give the autocorrelation at lag 1, and how many lags are within the band of white noise."""
    if axes is None:
        return
    along = [axis for axis in axes if axis.axis is not None]
    bands = [axis.band[0] for axis in along if axis.band[0] is not None]
    inside = [
        abs(value) <= band
        for axis in along
        for value, band in zip(axis.values, axis.band, strict=True)
        if value is not None and band is not None
    ]
    if not inside or not bands:
        yield Row("whiteness", "autocorrelation of the error", "not defined")
        return
    first = " ".join("-" if a.values[0] is None else f"{a.values[0]:+.4f}" for a in along)
    yield Row("whiteness", "autocorrelation at lag 1, along each axis", first)
    meaning = (
        "of the error along each axis, over all pairs at that distance; 95 % of the values of "
        "white noise are within 1.96 / root(pairs)"
    )
    yield Row(
        "whiteness",
        f"lags in the 95 % band (+-{max(bands):.2g})",
        f"{sum(inside)} of {len(inside)}",
        meaning,
    )


def _slices(report: ReportData) -> Iterator[Row]:
    """Give the worst slices."""
    each = report.per_slice
    if each is None:
        return
    count = " x ".join(map(str, each.shape))
    meaning = "each assessed as a field of its own; worst: the largest RMSE, the smallest SSIM"
    yield Row("slices", "slices", f"{count} along {axis_names(report, each.axes)}", meaning)
    yield Row("slices", "each along", axis_names(report, report.axes))
    for name, one, write in (
        ("RMSE", each.rmse, partial(number, digits=4)),
        ("SSIM", each.one_minus_ssim, near_1),
        ("RMSE of the gradient", each.gradient_rmse, partial(number, digits=4)),
        ("power ratio, distance from 1", each.spectrum_deviation, partial(number, digits=3)),
    ):
        if one is not None:
            yield Row(
                "slices", f"{name}, worst slice / mean", f"{write(one.worst)} / {write(one.mean)}"
            )
            if one.worst_at is not None:
                yield Row("slices", "worst slice", point(report, one.worst_at, each.axes))


def decibel(value: float | None) -> str:
    """Write a ratio in dB."""
    return "-" if value is None else f"{value:.2f} dB"


def near_1(one_minus: float | None) -> str:
    """Write a similarity near 1 so that its digits are seen."""
    if not one_minus:
        return "-" if one_minus is None else "1"
    digits = max(3, math.ceil(-math.log10(abs(one_minus))) + 2)
    return f"{1 - one_minus:.{digits}f}" if digits <= _MOST_DIGITS else f"1 - {one_minus:.3g}"


def _short(value: object) -> str:
    """Write the result of a caller's metric in one line."""
    text = number(value) if isinstance(value, float) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _along_axes(each: Iterable[AxisDerivative]) -> str:
    """Write the RMSE of a derivative along each axis."""
    return " ".join(number(one.rmse, 4) for one in each) or "-"


class Shown(NamedTuple):
    """What a row of the table shows of a report."""

    name: str
    paths: str  # of the numbers, with spaces between them
    write: Callable[[Any], str]
    meaning: str = ""
    is_headline: bool = False
    is_optional: bool = False  # left out where there is none, or 0

    def row(self, group: str, report: ReportData) -> Iterator[Row]:
        """Give the row, if the part of the report that has the numbers is there."""
        paths = self.paths.split()
        if getattr(report, paths[0].partition(".")[0]) is None:
            return
        values = [attrgetter(path)(report) for path in paths]
        if values[0] or not self.is_optional:
            of_place = self.write is place and point(report, values[0])
            written = of_place or " / ".join(map(self.write, values))
            yield Row(group, self.name, written, self.meaning, self.is_headline)


_PERCENTILES = "error.quantiles.p50 error.quantiles.p99 error.quantiles.p99_9"
_2, _3, _4, _9 = (partial(number, digits=digits) for digits in (2, 3, 4, 9))
_HEADLINE: dict[str, Any] = {"is_headline": True}
_OPTIONAL: dict[str, Any] = {"is_optional": True}

#: The table: of each group what is a number. The rest is made by functions, and comes behind these.
_TABLE: dict[str, tuple[Shown, ...]] = {
    "data": (),
    "error": (
        Shown(
            "largest error", "error.max_abs", _9, "e is decoded less original, in float64, at "
            "valid points: finite in both fields, not the fill value, not masked", **_HEADLINE,
        ),
        Shown("its place", "error.max_at", place, **_OPTIONAL),
        Shown("largest modulus", "error.max_modulus", _9, **_OPTIONAL),
        Shown("RMSE", "error.rmse", _9),
        Shown("mean absolute error (MAE)", "error.mean_abs", _9),
        Shown("mean (bias)", "error.mean", _3),
        Shown("P50 / P99 / P99.9", _PERCENTILES, _2),
        Shown(
            "PSNR (range)", "error.psnr", decibel, "20 log10(range of the original / RMSE)",
            **_HEADLINE,
        ),
        Shown("SNR (variance)", "error.snr", decibel, "10 log10(variance of the original / MSE)"),
        Shown("largest / range", "error.max_relative", _4),
        Shown(
            "relative to the value, mean / max", "error.pointwise.mean error.pointwise.max", _3,
            "|e| / |x|, where x is not 0",
        ),
        Shown("beyond the histogram", "histogram.beyond", "{} points".format, **_OPTIONAL),
    ),
    "similarity": (
        Shown(
            "Pearson", "correlation.one_minus_pearson", near_1,
            "correlation r of both fields; its nines are -log10(1 - r)",
        ),
        Shown("nines of Pearson", "correlation.nines", _3, **_HEADLINE),
        Shown(
            "SSIM, mean", "ssim.one_minus_mean", near_1, "over uniform windows of valid points, "
            "population moments, C1 = (0.01 R)^2, C2 = (0.03 R)^2, R the range of the original",
            **_HEADLINE,
        ),
        Shown("SSIM, worst window", "ssim.one_minus_min", near_1),
        Shown("its lowest corner", "ssim.min_at", place, **_OPTIONAL),
    ),
    "derivatives": (
        Shown(
            "PSNR of the gradient", "derivatives.gradient_psnr", decibel, "of its length: central "
            "differences at points that have both neighbours along every axis, as for slopes, "
            "curvatures (second differences) and the Laplacian (their sum)", **_HEADLINE,
        ),
        Shown("largest gradient error", "derivatives.gradient_max_error", _4),
        Shown("RMSE of slopes, along each axis", "derivatives.slopes", _along_axes),
        Shown("RMSE of curvatures, along each axis", "derivatives.curvatures", _along_axes),
        Shown("RMSE of the Laplacian", "derivatives.laplacian_rmse", _4),
        Shown("SNR of the Laplacian", "derivatives.laplacian_snr", decibel),
        Shown(
            "H1 error", "derivatives.h1_error", _4,
            "root of the mean of e^2 and the squares of its slopes",
        ),
    ),
    "whiteness": (),
    "distribution": (
        Shown(
            "Kolmogorov-Smirnov distance", "distribution.ks_distance", _4,
            "largest distance of the distribution functions of the values",
        ),
        Shown(
            "Wasserstein distance", "distribution.wasserstein", _4,
            "mean distance of values of the same rank",
        ),
        Shown(
            "entropy in bits, original / decoded",
            "distribution.entropy_original distribution.entropy_decoded", _4,
            "Shannon's, of the distinct values",
        ),
    ),
    "slices": (),
    "weighted": (
        Shown("mean, original / decoded", "weighted.original_mean weighted.decoded_mean", _9),
        Shown("mean error (bias)", "weighted.mean", _3),
        Shown("RMSE", "weighted.rmse", _9),
        Shown("Pearson", "weighted.one_minus_pearson", near_1),
    ),
    "climate": (
        Shown(
            "DSSIM, worst / mean slice", "climate.dssim_min climate.dssim_mean", number,
            "data SSIM of Baker, Pinard and Hammerling (2024), slices along the last two axes",
        ),
        Shown("power ratio, distance from 1 (k < 10)", "spectrum.max_deviation", _3),
    ),
    "thresholds": (),
    "metrics": (),
    "size": (
        Shown("raw / stored", "size.raw_bytes size.stored_bytes", partial(bytes_text, digits=2)),
        Shown("ratio", "size.ratio", _4, **_HEADLINE),
        Shown("bits per value", "size.bits_per_value", _4),
        Shown(
            "accuracy gain, bits", "size.accuracy_gain", _4,
            "log2(standard deviation / RMSE) less the bits per value",
        ),
    ),
    "undefined": (),
}  # fmt: skip


def _sketch(histogram: Histogram) -> str:
    """Draw the histogram of errors in one line of characters."""
    used = [i for i, count in enumerate(histogram.counts) if count]
    if histogram.bin_width is None or not used:
        return "-"
    reach = max(128 - used[0], used[-1] - 127)
    counts = histogram.counts[128 - reach : 128 + reach]
    columns = min(_COLUMNS, len(counts))
    edges = [round(i * len(counts) / columns) for i in range(columns + 1)]
    heights = [sum(counts[a:b]) / max(1, b - a) for a, b in itertools.pairwise(edges)]
    most = max(heights)
    drawn = "".join(_BAR[math.ceil(h / most * (len(_BAR) - 1))] for h in heights)
    end = reach * histogram.bin_width
    return f"{-end:.3g} |{drawn}| {end:+.3g}"


def text(report: ReportData) -> str:
    """Write a report for a terminal."""
    lines = [f"{report.provenance.decoded}  {report.dtype} {report.shape}  {verdict(report)}"]
    lines += [f"  FAIL  {finding}" for finding in findings(report)]
    previous = ""
    for row in rows(report):
        group = row.group if row.group != previous else ""
        lines.append(f"  {group:<12} {row.name:<42} {row.value}")
        previous = row.group
    sketch = "every error is 0" if report.error.max_abs == 0 else _sketch(report.histogram)
    lines += [f"  {'histogram':<12} {sketch}", definitions(report)]
    return "\n".join(lines)


def _in_markdown(text: str) -> str:
    """Escape text for Markdown, on one line: names may hold anything."""
    return re.sub(r"([\\`*_\[\]|~])", r"\\\1", html.escape(printable(text), quote=False))


def markdown(report: ReportData) -> str:
    """Write a report as Markdown."""
    shape = " x ".join(map(str, report.shape)) or "scalar"
    found = [f"- {_in_markdown(finding)}" for finding in findings(report)]
    lines = [
        f"# {verdict(report)}: {_in_markdown(report.provenance.decoded)}",
        "",
        f"Compared with {_in_markdown(report.provenance.original)}: {report.dtype}, {shape}.",
        "",
        *([*found, ""] if found else []),
        "| | | |",
        "|---|---|---|",
        *(
            f"| {row.group} | {_in_markdown(row.name)} | {_in_markdown(row.value)} |"
            for row in rows(report)
        ),
        "",
        f"{definitions(report)}. h5lossy {report.provenance.h5lossy}.",
        "",
    ]
    return "\n".join(lines)


def page(report: ReportData, up: str = "") -> str:
    """Write a report as one HTML page that needs nothing else; without matplotlib, no figures.

    `up` is the page of all variables.
    """
    try:
        drawn = "\n".join(
            (f"<h2>{_in_html(title)}</h2>\n" if title else "")
            + f'<div class="figures">{"".join(f"<figure>{one}</figure>" for one in pictures)}</div>'
            for title, pictures in drawings(report)
        )
    except ImportError:
        drawn = "<p>There are no figures without matplotlib: pip install h5lossy[plot]</p>"
    table = [*rows(report)]
    original = _in_html(report.provenance.original)
    data = f"{report.dtype} {' × '.join(map(str, report.shape)) or 'scalar'}"
    promise = html.escape(_promise(report))
    body = Template(_PAGE.read_text(encoding="utf-8")).substitute(
        headlines="\n".join(
            f'<div class="headline"><b>{_in_html(row.value)}</b>{html.escape(row.name)}</div>'
            for row in table
            if row.is_headline
        ),
        findings="\n".join(f"<li>{_in_html(finding)}</li>" for finding in findings(report)),
        figures=drawn,
        rows=_html_rows(table),
        meanings="\n".join(
            f"<dt>{html.escape(row.name)}</dt>\n<dd>{html.escape(row.meaning)}</dd>"
            for row in table
            if row.meaning
        ),
        definitions=html.escape(definitions(report)),
        version=html.escape(report.provenance.h5lossy),
    )
    name = _in_html(report.provenance.long_name or "")
    links = f'<p><a href="{html.escape(up)}">all variables</a></p>\n' if up else ""
    about = " · ".join(filter(None, (name, f"compared with {original}", data, promise)))
    title = _in_html(report.provenance.decoded)
    return document(verdict(report), title, body, f"<p>{about}</p>\n{links}")


def document(passed: str, title: str, body: str, about: str = "") -> str:
    """Write a whole page, of parts that are HTML."""
    return Template(_DOCUMENT.read_text(encoding="utf-8")).substitute(
        style=_STYLE.read_text(encoding="utf-8"),
        verdict=passed,
        verdict_class=passed.lower(),
        title=title,
        about=about,
        body=body,
    )


def table_html(report: ReportData) -> str:
    """Write verdict, findings and the table as HTML for a page of another's, a notebook say."""
    found = "".join(f"<li>{_in_html(finding)}</li>" for finding in findings(report))
    head = f"<p><b>{verdict(report)}</b> {_in_html(report.provenance.decoded)}</p>"
    return f"{head}<ul>{found}</ul><table>\n{_html_rows(rows(report))}\n</table>"


def _html_rows(table: Iterable[Row]) -> str:
    return "\n".join(
        f"<tr><th>{group if i == 0 else ''}</th><td>{_in_html(row.name)}</td>"
        f"<td>{_in_html(row.value)}</td></tr>"
        for group, of_group in itertools.groupby(table, lambda row: row.group)
        for i, row in enumerate(of_group)
    )


def _promise(report: ReportData) -> str:
    """Say which bound was checked."""
    if report.bound is None:
        return "no bound was given"
    return f"bound {report.bound}" + (", as the file says" if report.bound.source == "file" else "")


def _in_html(value: str) -> str:
    """Escape a name, which may hold anything."""
    return html.escape(printable(value))

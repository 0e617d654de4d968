# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""A report as text, Markdown and HTML, and the one table that they show."""

from __future__ import annotations

import dataclasses
import html
import itertools
import math
import re
from functools import partial
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, NamedTuple

from h5lossy._printable import bytes_text, printable
from h5lossy._safeguards import Safeguards, promises
from h5lossy.assessment.render.figure import drawings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from h5lossy.assessment.schema import AxisCorrelation, Histogram, ReportData

_DOCUMENT, _PAGE, _STYLE = (
    Path(__file__).with_name(name) for name in ("document.html", "page.html", "style.css")
)

_BAR = " .:-=+*#%@"
_COLUMNS = 40

#: For similarities near 1; if they are even nearer, only the distance is written.
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
    """Write each check that failed, and the first points that violate the bound."""
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
    """Return the table that text, Markdown and HTML show."""
    yield from _data(report)
    yield from _numbers(report, "error", report.error)
    if beyond := report.histogram.beyond:
        yield Row("error", "beyond the histogram", f"{beyond} points")
    yield from _numbers(report, "similarity", report.correlation, report.ssim)
    yield from _numbers(report, "derivatives", report.derivatives)
    yield from _whiteness(report.autocorrelation)
    yield from _numbers(report, "distribution", report.distribution)
    yield from _slices(report)
    yield from _numbers(report, "weighted", report.weighted)
    yield from _numbers(report, "climate", report.climate, report.spectrum)
    for one in report.threshold_crossings:
        crossing = f"{one.name} ({one.threshold:g})"
        yield Row("thresholds", crossing, f"{one.count} points cross it")
    for name, value in report.metrics.items():
        yield Row("metrics", name, _short(value))
    yield from _numbers(report, "size", report.size)
    for name, why in report.undefined.items():
        yield Row("undefined", name, why)


def _numbers(report: ReportData, group: str, *parts: Any) -> Iterator[Row]:
    """Return the rows of those parts of a report that exist: of the fields that are `shown`."""
    for part in filter(None, parts):
        for one in dataclasses.fields(part):
            value, how = getattr(part, one.name), one.metadata.get("shown")
            if dataclasses.is_dataclass(value):
                yield from _numbers(report, group, value)
            if how is None or (how.is_optional and not value):
                continue
            values = [value, *(getattr(part, name) for name in how.beside)]
            written = " / ".join(_written(report, how.form, value) for value in values)
            yield Row(group, how.name, written, how.meaning, how.is_headline)


def _written(report: ReportData, form: str, value: Any) -> str:
    if form == "place":
        return point(report, value)
    if form in _FORMS:
        return _FORMS[form](value)
    return "-" if value is None else format(value, form)


def _data(report: ReportData) -> Iterator[Row]:
    """Return the rows for points, special values and the bound."""
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
        meaning = "Checked in exact arithmetic against the number as it was typed."
        yield Row("data", "bound", str(report.bound), meaning)
        over = f"{report.bound.violations} of {report.valid}"
        yield Row("data", "points over the bound", over, is_headline=True)
        if report.bound.share is not None:
            yield Row("data", "largest share of the bound", number(report.bound.share, 4))
    if (sides := report.safeguards) is not None:
        safeguards = Safeguards(sides.thresholds, sides.valid_range)
        yield Row("data", "safeguards", promises(safeguards, sides.exact))
        yield Row("data", "points that break them", f"{sides.broken} of {report.points}")


def _whiteness(axes: tuple[AxisCorrelation, ...] | None) -> Iterator[Row]:
    """Return the autocorrelation at lag 1, and how many lags are within the band of white noise."""
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
        "Of the error along each axis, over all pairs at that distance; 95 % of the values of "
        "white noise are within 1.96 / root(pairs)."
    )
    yield Row(
        "whiteness",
        f"lags in the 95 % band (+-{max(bands):.2g})",
        f"{sum(inside)} of {len(inside)}",
        meaning,
    )


def _slices(report: ReportData) -> Iterator[Row]:
    """Return the rows for the worst slices."""
    each = report.per_slice
    if each is None:
        return
    count = " x ".join(map(str, each.shape))
    meaning = "Each assessed as a field of its own; worst: the largest RMSE, the smallest SSIM."
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
    """Write a similarity near 1 such that its digits can be seen."""
    if not one_minus:
        return "-" if one_minus is None else "1"
    digits = max(3, math.ceil(-math.log10(abs(one_minus))) + 2)
    return f"{1 - one_minus:.{digits}f}" if digits <= _MOST_DIGITS else f"1 - {one_minus:.3g}"


def _short(value: object) -> str:
    """Write the result of a custom metric in one line."""
    text = number(value) if isinstance(value, float) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


#: How numbers are written whose format is not one of Python's.
_FORMS: dict[str, Callable[[Any], str]] = {
    "dB": decibel,
    "near 1": near_1,
    "bytes": partial(bytes_text, digits=2),
    "along axes": lambda each: " ".join(number(one.rmse, 4) for one in each) or "-",
}


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
    """Escape text for Markdown, on one line: names may contain anything."""
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
    """Write a report as one self-contained HTML page; without matplotlib, there are no figures.

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
    """Write a whole page from parts that are HTML."""
    return Template(_DOCUMENT.read_text(encoding="utf-8")).substitute(
        style=_STYLE.read_text(encoding="utf-8"),
        verdict=passed,
        verdict_class=passed.lower(),
        title=title,
        about=about,
        body=body,
    )


def table_html(report: ReportData) -> str:
    """Write verdict, findings and the table as HTML for embedding, as in a notebook."""
    found = "".join(f"<li>{_in_html(finding)}</li>" for finding in findings(report))
    head = f"<p><b>{verdict(report)}</b> {_in_html(report.provenance.decoded)}</p>"
    return f"{head}<ul>{found}</ul><table>\n{_html_rows(rows(report))}\n</table>"


def _html_rows(table: Iterable[Row]) -> str:
    return "\n".join(
        f'<tr><th colspan="2">{group}</th></tr>\n'
        + "\n".join(
            f"<tr><td>{_in_html(row.name)}</td><td>{_in_html(row.value)}</td></tr>" for row in rows
        )
        for group, rows in itertools.groupby(table, lambda row: row.group)
    )


def _promise(report: ReportData) -> str:
    """Say which bound was checked."""
    if report.bound is None:
        return "no bound was given"
    return f"bound {report.bound}" + (", as the file says" if report.bound.source == "file" else "")


def _in_html(value: str) -> str:
    """Escape a name, which may contain anything."""
    return html.escape(printable(value))

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Reports of several variables as one table, worst first, and its page."""

from __future__ import annotations

import html
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from h5lossy._printable import naming, printable
from h5lossy.assessment.render.text import decibel, document, findings, near_1, number, verdict
from h5lossy.assessment.render.text import page as report_page

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from h5lossy.assessment.schema import ReportData

HEADINGS = (
    "variable",
    "verdict",
    "largest error",
    "PSNR",
    "nines",
    "SSIM",
    "ratio",
    "first finding",
)


def worst_first(reports: Mapping[str, ReportData]) -> list[str]:
    """Sort names: those that failed first, by the number of failures; then the lowest PSNR."""

    def key(name: str) -> tuple[int, float]:
        psnr = reports[name].error.psnr
        return -len(reports[name].failures), math.inf if psnr is None else psnr

    return sorted(reports, key=key)


def table(reports: Mapping[str, ReportData], failed: Mapping[str, str]) -> list[tuple[str, ...]]:
    """Return headings and a line for each variable; first those that can't be compared."""
    lines = [(name, "ERROR", *[""] * 5, why) for name, why in failed.items()]
    lines += [_line(name, reports[name]) for name in worst_first(reports)]
    columns = None if any(line[-1] for line in lines) else -1  # of findings, if there are any
    return [tuple(map(printable, line[:columns])) for line in (HEADINGS, *lines)]


def _line(name: str, report: ReportData) -> tuple[str, ...]:
    limit = report.bound.limit if report.bound is not None else None
    largest = number(report.error.max_abs, 4)
    return (
        name,
        verdict(report),
        largest if limit is None else f"{largest} of {limit:.4g}",
        decibel(report.error.psnr),
        number(report.correlation.nines, 3),
        "-" if report.ssim is None else near_1(report.ssim.one_minus_mean),
        "-" if report.size is None else number(report.size.ratio, 4),
        next(findings(report), ""),
    )


def result(reports: Mapping[str, ReportData], failed: Mapping[str, str]) -> str:
    """Say in one line how many failed."""
    wrong = sum(not report.ok for report in reports.values())
    count = len(reports) + len(failed)
    parts = [f"{wrong} of {count} failed" if wrong else ""]
    parts += [f"{len(failed)} of {count} can't be compared" if failed else ""]
    return ", ".join(filter(None, parts)) or f"{count} of {count} without a failure"


def of_coordinates(unchanged: Sequence[str]) -> str:
    """Say in one line which coordinates are unchanged."""
    return f"unchanged coordinates: {_in_their_file(unchanged)}" if unchanged else ""


def _in_their_file(names: Sequence[str]) -> str:
    """Return all names, without the file that they share."""
    file = file_of(names)
    return ", ".join(name.removeprefix(file) for name in names)


def file_of(names: Iterable[str]) -> str:
    """Return the common prefix of all names, a file and a colon; nothing if there are several."""
    files = {name.rpartition(":/")[0] for name in names}  # names themselves may have colons
    return f"{files.pop()}:" if len(files) == 1 and all(files) else ""


def text(reports: Mapping[str, ReportData], failed: Mapping[str, str]) -> str:
    """Write the table for a terminal."""
    lines = table(reports, failed)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    written = [
        "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines
    ]
    return "\n".join([*written, result(reports, failed)])


def table_html(
    reports: Mapping[str, ReportData], failed: Mapping[str, str], links: Mapping[str, str]
) -> str:
    """Write the table as HTML; `links` are the pages of variables."""
    file = file_of([*reports, *failed])

    def variable(name: str) -> str:
        shown = html.escape(printable(name.removeprefix(file)))
        if name in links:
            shown = f'<a href="{html.escape(links[name])}">{shown}</a>'
        if name in reports:
            of = reports[name].provenance
            about = " · ".join(filter(None, (of.long_name, of.units)))
            shown += f"<div><small>{html.escape(printable(about))}</small></div>" if about else ""
        return shown

    def cell(i: int, name: str, line: tuple[str, ...]) -> str:
        shown = html.escape(line[i]) if i else variable(name)
        kind = {1: f"{line[1].lower()}-word", len(HEADINGS) - 1: "finding"}.get(i)
        return f'<td class="{kind}">{shown}</td>' if kind else f"<td>{shown}</td>"

    headings, *lines = table(reports, failed)
    names = [*failed, *worst_first(reports)]  # different ones may look the same in `lines`
    rows = "\n".join(
        f"<tr>{''.join(cell(i, name, line) for i in range(len(line)))}</tr>"
        for name, line in zip(names, lines, strict=True)
    )
    heads = "".join(f"<th>{heading}</th>" for heading in headings)
    return f'<div class="wide"><table>\n<tr>{heads}</tr>\n{rows}\n</table></div>'


def page(
    reports: Mapping[str, ReportData],
    failed: Mapping[str, str],
    links: Mapping[str, str],
    unchanged: Sequence[str] = (),
) -> str:
    """Write the page of all variables."""
    is_wrong = failed or not all(report.ok for report in reports.values())
    passed = "FAIL" if is_wrong else "PASS"
    if not is_wrong and any(verdict(report) == "measured" for report in reports.values()):
        passed = "measured"
    body = table_html(reports, failed, links)
    if unchanged:
        body += (
            f"\n<details><summary>{len(unchanged)} unchanged coordinates</summary>"
            f"<p>{html.escape(printable(_in_their_file(unchanged)))}</p></details>\n"
        )
    sources = [report.provenance for report in reports.values()]
    files = [file_of([getattr(one, of) for one in sources])[:-1] for of in ("decoded", "original")]
    about = f"<p>{html.escape(printable(' compared with '.join(files)))}</p>\n"
    return document(passed, html.escape(result(reports, failed)), body, about if all(files) else "")


class Pages:
    """The page of one variable; or a page with a line for each of several, and their pages.

    The pages of variables are in a folder next to it, with the same name without the ending, plus
    ``_pages``.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._folder = path.with_name(f"{path.stem}_pages")
        self._first: ReportData | None = None
        self._links: dict[str, str] = {}

    def add(self, name: str, report: ReportData) -> None:
        """Write the page of a variable; the first one is held back until there is a second."""
        slug = re.sub("[^A-Za-z0-9]+", "-", "/" + name.rpartition(":")[2])[:60]
        file = f"{len(self._links) + 1:03}{slug}.html"  # numbered, so that names differ
        self._links[name] = f"{quote(self._folder.name)}/{file}"
        if len(self._links) == 1:
            self._first = report
            return
        self._write_first()
        self._write_page(file, report)

    def _write_first(self) -> None:
        if self._first is not None:
            self._folder.mkdir(exist_ok=True)
            self._write_page(Path(next(iter(self._links.values()))).name, self._first)
            self._first = None

    def _write_page(self, file: str, report: ReportData) -> None:
        page = report_page(report, f"../{quote(self._path.name)}")
        _write(self._folder / file, page)

    def write(
        self,
        reports: Mapping[str, ReportData],
        failed: Mapping[str, str],
        unchanged: Sequence[str],
    ) -> None:
        """Write the page of all variables."""
        if self._first is not None and not failed:
            written = report_page(self._first)
        else:
            self._write_first()
            written = page(reports, failed, self._links, unchanged)
        _write(self._path, written)


def _write(path: Path, page: str) -> None:
    with naming(path):
        path.write_text(page, encoding="utf-8")

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""A report as one HTML page that needs nothing else: no scripts, no fonts, no network."""

from __future__ import annotations

from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from h5lossy._printable import printable
from h5lossy.assessment.render import text
from h5lossy.assessment.render.figure import figure, svg

if TYPE_CHECKING:
    from collections.abc import Iterable

    from h5lossy.assessment.schema import ReportData

_TEMPLATE = Path(__file__).with_name("page.html")

#: Rows of the table that are also shown large, at the top of the page.
_HEADLINES = {
    "largest error",
    "points over it",
    "PSNR (range)",
    "SSIM, mean",
    "nines of Pearson",
    "PSNR of the gradient",
    "ratio",
}


def page(report: ReportData) -> str:
    """Write a report as one HTML page; without matplotlib it has no figure."""
    try:
        drawn = f'<figure role="img" aria-label="figures">{svg(figure(report))}</figure>'
    except ImportError:
        drawn = "<p>There are no figures without matplotlib: pip install h5lossy[plot]</p>"
    rows = [*text.rows(report)]
    verdict = text.verdict(report)
    return Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(
        verdict=verdict,
        verdict_class=verdict.lower(),
        decoded=_escaped(report.provenance.decoded),
        original=_escaped(report.provenance.original),
        data=f"{report.dtype} {' × '.join(map(str, report.shape)) or 'scalar'}",
        promise=escape(_promise(report)),
        headlines=_joined(
            f'<div class="headline"><b>{_escaped(row.value)}</b>{escape(row.name)}</div>'
            for row in rows
            if row.name in _HEADLINES
        ),
        findings=_joined(f"<li>{_escaped(finding)}</li>" for finding in text.findings(report)),
        figure=drawn,
        rows=_joined(
            f"<tr><th>{row.group}</th><td>{_escaped(row.name)}</td><td>{_escaped(row.value)}</td></tr>"
            for row in rows
        ),
        definitions=escape(text.definitions(report)),
        version=escape(report.provenance.h5lossy),
    )


def _promise(report: ReportData) -> str:
    """Say which bound was checked."""
    if report.bound is None:
        return "no bound was given"
    return f"bound {report.bound}" + (", as the file says" if report.bound.source == "file" else "")


def _escaped(value: str) -> str:
    """Escape a name, which may hold anything."""
    return escape(printable(value))


def _joined(lines: Iterable[str]) -> str:
    return "\n".join(lines)

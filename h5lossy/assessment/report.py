# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""`Report`: the numbers of an assessment (`ReportData`), and the ways to show them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from h5lossy._printable import printable
from h5lossy.assessment.render.figure import figure
from h5lossy.assessment.render.text import markdown, page, table_html, text, verdict
from h5lossy.assessment.schema import ReportData

if TYPE_CHECKING:
    from os import PathLike


class Report(ReportData):
    """Everything that an assessment found. Made by `h5lossy.assess`.

    ``docs/reference/report.md`` lists the attributes.
    """

    def to_text(self) -> str:
        """Return the report as text for a terminal."""
        return text(self)

    def to_markdown(self) -> str:
        """Return the report as Markdown."""
        return markdown(self)

    def to_html(self, path: str | PathLike[str] | None = None) -> str:
        """Return the report as one self-contained HTML page; write it if `path` is given.

        Parameters
        ----------
        path : path-like, optional

        Returns
        -------
        str
            With the figure of `plot` if matplotlib is installed (``pip install h5lossy[plot]``).
        """
        html = page(self)
        if path is not None:
            Path(path).write_text(html, encoding="utf-8")
        return html

    def _repr_html_(self) -> str:
        """Show the table in a notebook."""
        return table_html(self)

    def plot(self) -> Any:
        """Draw errors, their autocorrelation, chunks and slices with matplotlib.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        ImportError
            If matplotlib is not installed (``pip install h5lossy[plot]``).
        """
        drawn = figure(self)
        title = f"{verdict(self)}: {printable(self.provenance.decoded)}"
        if self.bound is not None:
            title += f"   {self.bound}"
        drawn.suptitle(title, parse_math=False)
        return drawn

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""`Reports`: the reports of several variables, and one verdict."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from h5lossy._printable import printable
from h5lossy.assessment.render import summary

if TYPE_CHECKING:
    from os import PathLike

    from h5lossy.assessment._divergence import DivergenceReport
    from h5lossy.assessment.report import Report


class Reports(Mapping[str, "Report"]):
    """Reports by the names of variables. Made by `h5lossy.assess_all`.

    Attributes
    ----------
    failed : dict of str
        The variables that can't be compared, and why.
    divergences : dict of DivergenceReport
        Those of vector fields, by the names of their components.
    unchanged : tuple of str
        Coordinates that equal those of the original.
    """

    def __init__(
        self,
        reports: Mapping[str, Report],
        failed: Mapping[str, str],
        divergences: Mapping[str, DivergenceReport] | None = None,
        unchanged: Iterable[str] = (),
    ) -> None:
        self._reports, self.failed = dict(reports), dict(failed)
        self.divergences, self.unchanged = dict(divergences or {}), tuple(unchanged)

    def __getitem__(self, name: str) -> Report:
        return self._reports[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._reports)

    def __len__(self) -> int:
        return len(self._reports)

    def __repr__(self) -> str:
        return f"<h5lossy.Reports: {summary.result(self, self.failed)}>"

    @property
    def ok(self) -> bool:
        """Whether no check failed, and every variable was compared."""
        return not self.failed and all(report.ok for report in self.values())

    @property
    def worst_first(self) -> list[str]:
        """The names: those that failed first, then the lowest PSNR."""
        return summary.worst_first(self)

    def to_text(self) -> str:
        """Return a line for each variable, worst first, as text for a terminal."""
        more = [f"divergence of {name}: {one}" for name, one in self.divergences.items()]
        if self.unchanged:
            more.append(summary.of_coordinates(self.unchanged))
        return "\n".join([summary.text(self, self.failed), *map(printable, more)])

    def to_dict(self) -> dict[str, Any]:
        """Return the reports as `Report.to_dict` does, in a list under "reports"."""
        return {
            "ok": self.ok,
            "reports": [report.to_dict() for report in self.values()],
            "failed": [{"name": name, "why": why} for name, why in self.failed.items()],
            "unchanged": [*self.unchanged],
            "divergences": [
                {"name": name, **asdict(one)} for name, one in self.divergences.items()
            ],
        }

    def to_json(self, *, indent: int | None = 2) -> str:
        """Return `to_dict` as JSON."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def to_html(self, path: str | PathLike[str]) -> None:
        """Write a page with a line for each variable, and their pages; or just one variable's page.

        Parameters
        ----------
        path : path-like
            File of the page. The pages of the variables are in a folder next to it, with the same
            name without the ending, plus ``_pages``.
        """
        pages = summary.Pages(Path(path))
        for name, report in self.items():
            pages.add(name, report)
        pages.write(self, self.failed, self.unchanged)

    def _repr_html_(self) -> str:
        return summary.table_html(self, self.failed, {})

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Thresholds that a report has to meet: ``psnr>=70, ssim>=0.9999``."""

from __future__ import annotations

import difflib
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from h5lossy._errors import InvalidArgumentError
from h5lossy.assessment.schema import Failure

if TYPE_CHECKING:
    from h5lossy.assessment.report import Report


@dataclass(frozen=True)
class Measure:
    """A number that a threshold can be set for.

    Attributes
    ----------
    path : str
        Where it is in a report.
    high_is_good : bool
    follows_bound : bool
        Whether it can only get worse with a looser bound, so that a search may halve intervals.
    """

    path: str
    high_is_good: bool = True
    follows_bound: bool = False

    @property
    def group(self) -> str:
        """The group of metrics that has it (`h5lossy.assess`), "" if always there."""
        part = self.path.partition(".")[0]
        return part if part in {"ssim", "derivatives", "climate", "spectrum"} else ""

    def get(self, report: Report) -> float | None:
        """Take its size from a report; None where it is not defined."""
        value: Any = report
        for name in self.path.split("."):
            value = None if value is None else getattr(value, name)
        if value is None:
            return None
        return float(value) if self.high_is_good else abs(float(value))

    def why_undefined(self, report: Report) -> str:
        """Return why a report does not have it."""
        parts = self.path.split(".")
        names = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
        return next((report.undefined[n] for n in names if n in report.undefined), "not computed")


MEASURES: dict[str, Measure] = {
    "psnr": Measure("error.psnr", follows_bound=True),
    "snr": Measure("error.snr", follows_bound=True),
    "max_error": Measure("error.max_abs", high_is_good=False, follows_bound=True),
    "max_relative": Measure("error.max_relative", high_is_good=False, follows_bound=True),
    "rmse": Measure("error.rmse", high_is_good=False, follows_bound=True),
    "nrmse": Measure("error.nrmse", high_is_good=False, follows_bound=True),
    "mean_error": Measure("error.mean", high_is_good=False),
    "pearson": Measure("correlation.pearson"),
    "nines": Measure("correlation.nines"),
    "ssim": Measure("ssim.mean"),
    "ssim_min": Measure("ssim.min"),
    "gradient_psnr": Measure("derivatives.gradient_psnr"),
    "dssim": Measure("climate.dssim_min"),
    "spectrum": Measure("spectrum.max_deviation", high_is_good=False),
    "ratio": Measure("size.ratio"),
    "bits_per_value": Measure("size.bits_per_value", high_is_good=False),
}

_ONE = re.compile(r"\s*(\w+)\s*(>=|<=)\s*(\S+)\s*")


@dataclass(frozen=True)
class Requirement:
    """One threshold.

    Attributes
    ----------
    name : str
        Of `MEASURES`.
    relation : str
        ">=" or "<=".
    value : float
    """

    name: str
    relation: str
    value: float

    @property
    def measure(self) -> Measure:
        """What is measured."""
        return MEASURES[self.name]

    def got(self, report: Report) -> float | None:
        """Return the number from a report."""
        return self.measure.get(report)

    def holds(self, report: Report) -> bool:
        """Return whether a report meets it; a number that is not defined does not."""
        got = self.got(report)
        if got is None:
            return False
        return got >= self.value if self.relation == ">=" else got <= self.value

    def failure(self, report: Report) -> Failure | None:
        """Return what is wrong with a report, if anything is."""
        if self.holds(report):
            return None
        got = self.got(report)
        text = "not defined" if got is None else f"{got:.9g}"
        return Failure(check=self.name, wanted=f"{self.relation} {self.value:.9g}", got=text)

    def __str__(self) -> str:
        return f"{self.name}{self.relation}{self.value:g}"


def parse_requirements(text: str) -> tuple[Requirement, ...]:
    """Read thresholds, separated by commas.

    Parameters
    ----------
    text : str
        Such as ``psnr>=70, ssim>=0.9999, max_error<=0.1``.

    Returns
    -------
    tuple of Requirement

    Raises
    ------
    InvalidArgumentError
        If it can't be read, names no known measure, or limits one on the wrong side.

    Examples
    --------
    >>> [str(one) for one in parse_requirements("psnr>=70, max_error <= 0.5")]
    ['psnr>=70', 'max_error<=0.5']
    """
    if not isinstance(text, str):
        raise InvalidArgumentError(f'thresholds are text such as "psnr>=70", got {text!r}')
    requirements = []
    for part in filter(None, (p.strip() for p in text.split(","))):
        found = _ONE.fullmatch(part)
        try:
            value = float(found[3]) if found else None
        except ValueError:
            value = None
        if not found or value is None or math.isnan(value):
            raise InvalidArgumentError(
                f'a threshold reads like "psnr>=70" or "max_error<=0.1", got {part!r}'
            )
        if found[1] not in MEASURES:
            near = difflib.get_close_matches(found[1].lower(), MEASURES, 1)
            guess = f", did you mean {near[0]}?" if near else ""
            raise InvalidArgumentError(
                f"a threshold can be set for {', '.join(MEASURES)}; got {found[1]!r}{guess}"
            )
        if MEASURES[found[1]].high_is_good != (found[2] == ">="):
            good = ">=" if MEASURES[found[1]].high_is_good else "<="
            raise InvalidArgumentError(f"a threshold for {found[1]} is {good}, got {part!r}")
        requirements.append(Requirement(found[1], found[2], value))
    if not requirements:
        raise InvalidArgumentError(f'no threshold in {text!r}; one reads like "psnr>=70"')
    return tuple(requirements)

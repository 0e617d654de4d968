# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Thresholds that a report has to meet: ``psnr>=70, ssim>=0.9999``."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from h5lossy._errors import InvalidArgumentError
from h5lossy.assessment.schema import Failure

if TYPE_CHECKING:
    from collections.abc import Callable

    from h5lossy.assessment.report import Report


@dataclass(frozen=True)
class Measure:
    """A number that a threshold can be set for.

    Attributes
    ----------
    get : function
        Takes it from a report; None where it is not defined.
    high_is_good : bool
    group : str
        The group of metrics that has it (`h5lossy.assess`), "" if always there.
    follows_bound : bool
        Whether it can only get worse with a looser bound, so that a search may halve intervals.
    """

    get: Callable[[Report], float | None]
    high_is_good: bool
    group: str = ""
    follows_bound: bool = False


MEASURES: dict[str, Measure] = {
    "psnr": Measure(lambda r: r.error.psnr, high_is_good=True, follows_bound=True),
    "snr": Measure(lambda r: r.error.snr, high_is_good=True, follows_bound=True),
    "max_error": Measure(lambda r: r.error.max_abs, high_is_good=False, follows_bound=True),
    "max_relative": Measure(lambda r: r.error.max_relative, high_is_good=False, follows_bound=True),
    "rmse": Measure(lambda r: r.error.rmse, high_is_good=False, follows_bound=True),
    "nrmse": Measure(lambda r: r.error.nrmse, high_is_good=False, follows_bound=True),
    "mean_error": Measure(
        lambda r: None if r.error.mean is None else abs(r.error.mean), high_is_good=False
    ),
    "pearson": Measure(lambda r: r.correlation.pearson, high_is_good=True),
    "nines": Measure(lambda r: r.correlation.nines, high_is_good=True),
    "ssim": Measure(lambda r: r.ssim.mean if r.ssim else None, high_is_good=True, group="ssim"),
    "ssim_min": Measure(lambda r: r.ssim.min if r.ssim else None, high_is_good=True, group="ssim"),
    "gradient_psnr": Measure(
        lambda r: r.derivatives.gradient_psnr if r.derivatives else None,
        high_is_good=True,
        group="derivatives",
    ),
    "dssim": Measure(
        lambda r: r.climate.dssim_min if r.climate else None, high_is_good=True, group="climate"
    ),
    "spectrum": Measure(
        lambda r: r.spectrum.max_deviation if r.spectrum else None,
        high_is_good=False,
        group="spectrum",
    ),
    "ratio": Measure(lambda r: r.size.ratio if r.size else None, high_is_good=True),
    "bits_per_value": Measure(
        lambda r: r.size.bits_per_value if r.size else None, high_is_good=False
    ),
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
            raise InvalidArgumentError(
                f"a threshold can be set for {', '.join(MEASURES)}; got {found[1]!r}"
            )
        if MEASURES[found[1]].high_is_good != (found[2] == ">="):
            good = ">=" if MEASURES[found[1]].high_is_good else "<="
            raise InvalidArgumentError(f"a threshold for {found[1]} is {good}, got {part!r}")
        requirements.append(Requirement(found[1], found[2], value))
    if not requirements:
        raise InvalidArgumentError(f'no threshold in {text!r}; one reads like "psnr>=70"')
    return tuple(requirements)

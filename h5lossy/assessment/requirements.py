# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Thresholds that a report must meet: ``psnr>=70, ssim>=0.9999``."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import math
import re
import types
import typing
from collections import Counter
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

from h5lossy._errors import InvalidArgumentError
from h5lossy.assessment.schema import FOR_PICTURES, GROUPS, Failure, ReportData

if TYPE_CHECKING:
    from h5lossy.assessment.report import Report


@dataclass(frozen=True)
class Measure:
    """A number that a threshold can be set for.

    Attributes
    ----------
    path : str
        Its place in a report.
    high_is_good : bool or None
        None if either may be.
    follows_bound : bool
        Whether it can only get worse with a looser bound, so that a search may use bisection.
    """

    path: str
    high_is_good: bool | None = True
    follows_bound: bool = False

    @property
    def group(self) -> str:
        """The group of metrics that computes it (`h5lossy.assess`); "" if it is always computed."""
        parts = self.path.split(".")
        if parts[0] == "per_slice":
            return _OF_SLICES.get(parts[1], "")
        return _GROUPS.get(parts[0], "")

    def get(self, report: Report) -> float | None:
        """Return it from a report; None if it is not defined."""
        value: Any = report
        for name in self.path.split("."):
            value = None if value is None else _part(value, name)
        return float(value) if isinstance(value, Real) else None

    def why_undefined(self, report: Report) -> str:
        """Return why it is undefined in a report."""
        parts = self.path.split(".")
        names = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
        return next((report.undefined[n] for n in names if n in report.undefined), "not computed")


#: The groups that compute parts of a report, if the names differ or the part is optional.
_GROUPS = {name: name for name in GROUPS} | {"relative_histogram": "pointwise"}
_OF_SLICES = {
    "one_minus_ssim": "ssim",
    "gradient_rmse": "derivatives",
    "laplacian_rmse": "derivatives",
    "spectrum_deviation": "spectrum",
}

#: Short names. Any other number of a report has its path, or the last part of it if that is unique.
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


def _part(value: Any, name: str) -> Any:
    """Return a part of a report; the entry of a tuple by its number or its name."""
    if isinstance(value, dict):
        return value.get(name)
    if not isinstance(value, tuple):
        return getattr(value, name)
    if name.isdigit():
        return value[int(name)] if int(name) < len(value) else None
    return next((one.count for one in value if one.name == name), None)


@functools.cache
def _numbers() -> dict[str, str]:
    """Return the paths of all numbers of a report, by path and by unique last part."""
    found: list[str] = []

    def walk(kind: Any, path: str) -> None:
        arguments = [a for a in typing.get_args(kind) if a is not types.NoneType]
        if typing.get_origin(kind) in {types.UnionType, typing.Union}:
            walk(arguments[0], path)
        elif kind in {float, int}:
            found.append(path)
        elif typing.get_origin(kind) is tuple:
            walk(arguments[0], f"{path}.#")
        elif dataclasses.is_dataclass(kind):
            for name, one in _hints(kind).items():
                walk(one, f"{path}.{name}" if path else name)

    walk(ReportData, "")
    last = Counter(path.rpartition(".")[2] for path in found)
    return {path: path for path in found} | {
        name: path for path in found if last[name := path.rpartition(".")[2]] == 1 and name != "#"
    }


def _hints(kind: Any) -> dict[str, Any]:
    """Return the types of a dataclass's fields, except arrays, which thresholds can't use."""
    return {
        name: hint
        for name, hint in typing.get_type_hints(kind).items()
        if kind is not ReportData or name not in FOR_PICTURES
    }


def measure_of(name: str) -> Measure | None:
    """Return what a name stands for in thresholds; None if there is no such number."""
    if name in MEASURES:
        return MEASURES[name]
    of_user = re.match(r"(metrics|threshold_crossings)\.[^.]", name)
    numbered = re.sub(r"(?<=\.)\d+(?=\.|$)", "#", name)
    path = name if of_user or numbered != name else _numbers().get(name)
    if path is None or "#" in name or not (of_user or {path, numbered} & {*_numbers()}):
        return None
    known = next((one for one in MEASURES.values() if one.path == path), None)
    return known or Measure(path, high_is_good=None)


_ONE = re.compile(r"\s*([^\s<>=]+)\s*(>=|<=)\s*(\S+)\s*")


@dataclass(frozen=True)
class Requirement:
    """One threshold.

    Attributes
    ----------
    name : str
        One of `MEASURES`, or the path of another number in a report.
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
        found = measure_of(self.name)
        assert found is not None
        return found

    def got(self, report: Report) -> float | None:
        """Return the number from a report; its magnitude if the threshold is an upper limit."""
        value = self.measure.get(report)
        return value if value is None or self.relation == ">=" else abs(value)

    def holds(self, report: Report) -> bool:
        """Return whether a report meets it; an undefined number does not."""
        got = self.got(report)
        if got is None:
            return False
        return got >= self.value if self.relation == ">=" else got <= self.value

    def failure(self, report: Report) -> Failure | None:
        """Return the failure of a report, if it does not meet this."""
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
        Such as ``psnr>=70, ssim>=0.9999, max_error<=0.1``. Besides the names in `MEASURES`, the
        paths of all numbers in a report are allowed: ``error.quantiles.p99``,
        ``per_slice.rmse.worst``, ``threshold_crossings.rain``, ``derivatives.slopes.0.rmse``; the
        last part alone suffices if it is unique (``p99``). ``<=`` limits the magnitude.

    Returns
    -------
    tuple of Requirement

    Raises
    ------
    InvalidArgumentError
        If it can't be parsed, names no known measure, or limits one on the wrong side.

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
        measure = measure_of(found[1])
        if measure is None:
            near = difflib.get_close_matches(found[1].lower(), {**MEASURES, **_numbers()}, 1)
            guess = f", did you mean {near[0]}?" if near else ""
            raise InvalidArgumentError(
                f"a threshold can be set for {', '.join(MEASURES)}, and any other number of a "
                f"report, such as error.quantiles.p99; got {found[1]!r}{guess}"
            )
        if measure.high_is_good not in {None, found[2] == ">="}:
            good = ">=" if measure.high_is_good else "<="
            raise InvalidArgumentError(f"a threshold for {found[1]} is {good}, got {part!r}")
        requirements.append(Requirement(found[1], found[2], value))
    if not requirements:
        raise InvalidArgumentError(f'no threshold in {text!r}; one reads like "psnr>=70"')
    return tuple(requirements)

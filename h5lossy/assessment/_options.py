# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The options that `assess` and `Assessor` share."""

from __future__ import annotations

import functools
import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from h5lossy import _native
from h5lossy._batched.reader import checked_threads
from h5lossy._bounds import BoundKind, ErrorBound
from h5lossy._errors import InvalidArgumentError
from h5lossy._values import as_list, as_scalar, is_finite, is_number
from h5lossy.assessment.metrics import Metric
from h5lossy.assessment.requirements import Requirement, parse_requirements
from h5lossy.assessment.schema import GROUPS
from h5lossy.missing import Missing, no_data

if TYPE_CHECKING:
    Function = TypeVar("Function", bound=Callable[..., Any])

#: What each profile computes besides the reductions, which are always computed.
PROFILES: dict[str, frozenset[str]] = {
    "bound": frozenset(),
    "standard": frozenset({"ssim", "derivatives", "autocorrelation", "per_chunk"}),
    "climate": frozenset({"ssim", "derivatives", "autocorrelation", "per_chunk", "climate"}),
    "full": GROUPS,
}

#: The library has 32 bits for it.
_LARGEST_STEP = 2**32 - 1

_SIZE = re.compile(r"(\d+\.?\d*(?:e\+?\d+)?)\s*(?:([kmgt])(i?)b)?")


@dataclass(frozen=True, kw_only=True)
class AssessOptions:
    """What `h5lossy.assess` and `h5lossy.Assessor` compute and check.

    Both take these as keyword arguments: ``assess(x, y, absolute=0.01, lags=5)``.

    Parameters
    ----------
    absolute, pointwise_relative, range_relative, noise, modulus, lossless, bound : optional
        The error bound to check: at most one, except that absolute may be combined with noise.
        Default of `assess`: the one that the file states, if `decoded` is a dataset that h5lossy
        compressed; otherwise none.
    require : str, optional
        Further thresholds to meet: "psnr>=70, ssim>=0.9999".
    metrics : str or iterable of str and Metric, optional
        A profile, "bound", "standard", "climate" or "full"; or any of the groups "ssim",
        "derivatives", "autocorrelation", "per_chunk", "climate", "spectrum", "pointwise" and
        "distribution", and of your own metrics (`h5lossy.assessment.Metric`). The reductions over
        all points are always computed.
    data_range : float, optional
        Range for the constants of SSIM. Default: max - min of the original's valid values.
    fill_value : float, "auto", None or Missing, optional
        Points whose original has the bits of the fill value are left out, and must come back bit
        for bit. "auto": the original's own, or its attribute ``_FillValue``; if the original
        declares nothing missing, that of `decoded`; of arrays, only a masked original declares one.
        A number replaces the fill value, but not the attributes ``missing_value``, ``valid_min``,
        ``valid_max`` and ``valid_range``; an `h5lossy.missing.Missing` replaces all of them. None:
        all finite values are data, whatever the attributes say.
    missing_value : float or sequence of float, optional
        Further missing values: they are left out, and must come back bit for bit.
    axes : int, str or sequence of these, optional
        The axes along which windows (SSIM), derivatives, lags and spectra extend, by number or
        name. Each slice along them is assessed on its own; the report has the sums over all slices,
        and each slice in `PerSlice`. Default: the horizontal axes by the CF attributes of dimension
        scales or of xarray coordinates; without these, the last two, at most, of those that are not
        time, level or member. For fields without such information: all axes longer than 1 if there
        are up to three, and the last two if there are more.
    spacing : float or sequence of float, optional
        Distance of points along each axis of the fields, for derivatives. Default 1.
    ssim : dict, optional
        "window", the side of windows from 2 to 16 (default 7), or one for each of `axes`, slowest
        first; and "step" between them (default 1).
    lags : int, optional
        Largest lag of the autocorrelation, 0 to 16.
    threshold_crossings : dict, optional
        Thresholds by name, up to 8; points that change sides are counted: ``{"rain": 1e-4}``.
    relative_threshold : float, optional
        Counts points whose error exceeds this fraction of their value. Default 1e-4, of which Baker
        et al. (2017) allow 5 %.
    threads : int, optional
        Largest number of threads. Default: ``H5LOSSY_NUM_THREADS``, or all CPUs of the process.

    Raises
    ------
    InvalidArgumentError
        If an option is not allowed.
    """

    absolute: float | None = None
    pointwise_relative: float | None = None
    range_relative: float | None = None
    noise: float | None = None
    modulus: float | None = None
    lossless: bool = False
    bound: ErrorBound | None = None
    require: str | None = None
    metrics: str | Iterable[str | Metric] = "standard"
    data_range: float | None = None
    fill_value: Any = "auto"
    missing_value: float | Sequence[float] = ()
    axes: int | str | Sequence[int | str] | None = None
    spacing: float | Sequence[float] = 1.0
    ssim: Mapping[str, Any] | None = None
    lags: int = 10
    threshold_crossings: Mapping[str, float] | None = None
    relative_threshold: float = 1e-4
    threads: int | None = None

    # Derived from these.
    given_bound: ErrorBound | None = field(init=False, repr=False, compare=False)
    requirements: tuple[Requirement, ...] = field(init=False, repr=False, compare=False)
    groups: frozenset[str] = field(init=False, repr=False, compare=False)
    own_metrics: tuple[Metric, ...] = field(init=False, repr=False, compare=False)
    window: int | tuple[int, ...] = field(init=False, repr=False, compare=False)
    step: int = field(init=False, repr=False, compare=False)
    thresholds: tuple[tuple[str, float], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in (own.name for own in fields(self) if own.init):
            object.__setattr__(self, name, as_scalar(getattr(self, name)))
        requirements = () if self.require is None else parse_requirements(self.require)
        groups, own_metrics = _groups_and_metrics(self.metrics)
        window, step = _window_and_step(self.ssim)
        found = {
            "given_bound": self._one_bound(),
            "requirements": requirements,
            "groups": groups.union(r.measure.group for r in requirements) - {""},
            "own_metrics": own_metrics,
            "window": window,
            "step": step,
            "thresholds": _thresholds(self.threshold_crossings),
        }
        for name, value in found.items():
            object.__setattr__(self, name, value)
        if self.data_range is not None:
            _check_positive("data_range", self.data_range)
        _check_positive("relative_threshold", self.relative_threshold)
        _check_integer("lags", self.lags, 0, _native.ASSESS_MAX_LAGS)
        if self.threads is not None:
            object.__setattr__(self, "threads", checked_threads(self.threads))
        self._check_what_depends_on_fields()

    def _check_what_depends_on_fields(self) -> None:
        """Refuse what is wrong for any field."""
        checked_spacing(self.spacing, len(as_list(self.spacing)))
        if not isinstance(self.fill_value, Missing):
            no_data(np.empty(0, np.complex128), self.fill_value, lossless=True)
        no_data(np.empty(0), None, self.missing_value)
        axes = () if self.axes is None else as_list(self.axes)
        if not all(isinstance(one, str) or is_number(one, Integral) for one in axes):
            raise InvalidArgumentError(f"axes takes numbers or names of axes, got {self.axes!r}")

    def _one_bound(self) -> ErrorBound | None:
        """Return the bound, if one is given."""
        if not isinstance(self.bound, ErrorBound | None):
            raise InvalidArgumentError(
                "bound must be an ErrorBound, such as that of a codec, PFPL(absolute=1e-3).bound, "
                f"got {self.bound!r}"
            )
        if not isinstance(self.lossless, bool | np.bool_):
            raise InvalidArgumentError(f"lossless must be True or False, got {self.lossless!r}")
        given = [] if self.bound is None else [self.bound]
        kinds = [kind for kind in BoundKind if kind is not BoundKind.LOSSLESS]
        values = {kind: v for kind in kinds if (v := getattr(self, kind)) is not None}
        floor = values.pop(BoundKind.ABSOLUTE, 0) if BoundKind.NOISE in values else 0
        given += [
            ErrorBound(kind, value, floor if kind is BoundKind.NOISE else 0)
            for kind, value in values.items()
        ]
        if self.lossless:
            given.append(ErrorBound(BoundKind.LOSSLESS, 0.0))
        if len(given) > 1:
            raise InvalidArgumentError(f"give one bound, got {', '.join(map(str, given))}")
        return given[0] if given else None


def takes_options(function: Function) -> Function:
    """Put the fields of `AssessOptions` into the signature of a function with ``**options``.

    So `help` shows them, and an unknown option is an error of that function.
    """
    shown = inspect.signature(function)
    own = {n: p for n, p in shown.parameters.items() if p.kind is not p.VAR_KEYWORD}
    options = inspect.signature(AssessOptions).parameters
    parameters = own | {name: p for name, p in options.items() if name not in own}

    @functools.wraps(function)
    def checked(*arguments: Any, **options: Any) -> Any:
        unknown = ", ".join(repr(name) for name in options if name not in parameters)
        if unknown:
            raise TypeError(
                f"{function.__qualname__}() has no option {unknown}; it takes "
                f"{', '.join(name for name in parameters if name != 'self')}"
            )
        return function(*arguments, **options)

    checked.__signature__ = shown.replace(  # type: ignore[attr-defined]
        parameters=list(parameters.values())
    )
    return cast("Function", checked)


def checked_spacing(spacing: float | Sequence[float], rank: int) -> tuple[float, ...]:
    """Return the distance of points along each of `rank` axes."""
    plain = as_scalar(spacing)
    each = as_list(plain) if isinstance(plain, Iterable) else [plain] * rank
    if len(each) != rank or not all(map(_is_positive, each)):
        raise InvalidArgumentError(
            f"spacing must be one number above 0, or one for each of {rank} axes, got {spacing!r}"
        )
    return tuple(map(float, each))


def memory_bytes(limit: int | str) -> int:
    """Read a memory limit.

    Examples
    --------
    >>> memory_bytes("256 MiB")
    268435456
    """
    amount = number_of_bytes("memory_limit", limit)
    if amount < 1 << 20:
        raise InvalidArgumentError(f"memory_limit must be 1 MiB or more, got {limit!r}")
    return amount


def number_of_bytes(name: str, given: int | str) -> int:
    """Read a number of bytes, which may be text with a unit.

    Examples
    --------
    >>> number_of_bytes("--size", "1.5 KiB"), number_of_bytes("--size", "2 MB")
    (1536, 2000000)
    """
    found = _SIZE.fullmatch(str(given).strip().lower())
    count = 0.0
    if found:
        power = " kmgt".index(found[2] or " ")
        count = float(found[1]) * (1024 if found[3] else 1000) ** power
    if not 1 <= count < math.inf:
        raise InvalidArgumentError(
            f'{name} must be a number of bytes, at least 1, or like "256 MiB" or "2 GB", '
            f"got {given!r}"
        )
    return int(count)


def _groups_and_metrics(metrics: Any) -> tuple[set[str], tuple[Metric, ...]]:
    """Separate names of groups from the caller's own metrics."""
    if not isinstance(metrics, Iterable):
        raise InvalidArgumentError(
            f"metrics takes a profile, or names and metrics of your own, got {metrics!r}"
        )
    named: set[str] = set()
    own: list[Metric] = []
    for metric in [metrics] if isinstance(metrics, str) else metrics:
        if isinstance(metric, str):
            named |= PROFILES.get(metric, {metric})
        elif isinstance(metric, Metric):
            own.append(metric)
        else:
            raise InvalidArgumentError(
                f"a metric is a name, or has name, halo, update and result; got {metric!r}"
            )
    unknown = named - GROUPS
    if unknown:
        raise InvalidArgumentError(
            f"metrics must be one of {', '.join(PROFILES)}, or some of "
            f"{', '.join(sorted(GROUPS))}; got {', '.join(sorted(unknown))}"
        )
    names = [metric.name for metric in own]
    if len(set(names)) < len(names):
        raise InvalidArgumentError(f"metrics need names of their own, got {', '.join(names)}")
    if any(metric.halo < 0 for metric in own):
        raise InvalidArgumentError("a metric's halo is 0 or more planes")
    return named, tuple(own)


def _window_and_step(ssim: Any) -> tuple[int | tuple[int, ...], int]:
    given = {} if ssim is None else ssim
    if not isinstance(given, Mapping) or set(given) - {"window", "step"}:
        raise InvalidArgumentError(f"ssim takes a dict of window and step, got {ssim!r}")
    window, step = as_scalar(given.get("window", 7)), as_scalar(given.get("step", 1))
    sides = as_list(window)
    for side in sides:
        _check_integer("ssim's window", side, 2, _native.ASSESS_MAX_WINDOW)
    _check_integer("ssim's step", step, 1, _LARGEST_STEP)
    return (tuple(map(int, sides)) if isinstance(window, Iterable) else int(window)), int(step)


def _thresholds(crossings: Any) -> tuple[tuple[str, float], ...]:
    given, most = {} if crossings is None else crossings, _native.ASSESS_MAX_THRESHOLDS
    if (
        not isinstance(given, Mapping)
        or len(given) > most
        or not all(is_number(v) and is_finite(v) for v in given.values())
    ):
        raise InvalidArgumentError(
            f"threshold_crossings takes a dict of up to {most} finite thresholds, got {given!r}"
        )
    return tuple((str(name), float(value)) for name, value in given.items())


def _is_positive(value: Any) -> bool:
    return is_number(value) and value > 0 and is_finite(value)


def _check_positive(name: str, value: Any) -> None:
    if not _is_positive(value):
        raise InvalidArgumentError(f"{name} must be greater than 0 and finite, got {value!r}")


def _check_integer(name: str, value: Any, least: int, most: float = math.inf) -> None:
    if not is_number(value, Integral) or not least <= int(value) <= most:
        allowed = f"{least} or more" if most == math.inf else f"{least} to {most}"
        raise InvalidArgumentError(f"{name} must be {allowed}, got {value!r}")

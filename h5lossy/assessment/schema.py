# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""What a report contains: every number of an assessment; the schema's name fixes the definitions.

``docs/assess.md`` defines each of them. A number that is undefined for the given data is None, and
`Report.undefined` says why; it is never replaced by 0 or 1.
"""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from h5lossy._errors import InvalidArgumentError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

#: Name of the definitions and of the JSON form. It changes if either does.
SCHEMA = "h5lossy.report/3"

#: A number, or None where it is not defined.
Number = float | None

#: Groups of metrics, which may be requested one by one; most are parts of a report.
GROUPS: frozenset[str] = frozenset(
    {
        "ssim",
        "derivatives",
        "autocorrelation",
        "per_chunk",
        "climate",
        "spectrum",
        "pointwise",
        "distribution",
    }
)

#: Attributes of a report that are not in JSON, and are not numbers.
FOR_PICTURES = frozenset({"slices", "coordinates"})

T = TypeVar("T")

_INFINITE = {"inf": math.inf, "-inf": -math.inf}


class Shown(NamedTuple):
    """The row of a field in the table that text, Markdown and HTML show (`render.text`)."""

    name: str
    form: str  # as `format` takes it, or one of the forms in `render.text`
    meaning: str = ""  # a sentence, also used in the documentation
    beside: tuple[str, ...] = ()  # other fields of the same part that share the row
    is_headline: bool = False  # also shown large, at the top of the page
    is_optional: bool = False  # left out if it is None or 0


def shown(*row: Any, default: Any = dataclasses.MISSING, **more: Any) -> Any:
    """Declare a field with a row, whose arguments are those of `Shown`."""
    return field(default=default, metadata={"shown": Shown(*row, **more)})


@typing.dataclass_transform(
    frozen_default=True, kw_only_default=True, field_specifiers=(shown, field)
)
def part(cls: type[T]) -> type[T]:
    """Make a class a part of the report."""
    return dataclass(frozen=True, kw_only=True)(cls)


def nothing(kind: type[T], **known: Any) -> T:
    """Return a part whose fields are None, except those given."""
    return kind(**dict.fromkeys(kind.__annotations__) | known)


@part
class Failure:
    """One check that failed."""

    check: str  #: What was checked: "bound", "nan_introduced", "psnr" and so on.
    wanted: str  #: The requirement, in words.
    got: str  #: What was found.
    where: tuple[int, ...] | None = None  #: Coordinates of the first point, where there is one.


@part
class Special:
    """What became of NaN, infinities, the fill value and missing values, point by point.

    Each point is counted by what it was in the original: *kept* with every bit, *changed* to
    another value of its kind, *lost* to something else, or *introduced* in place of a finite value.
    """

    nan_kept: int
    nan_changed: int
    nan_lost: int
    nan_introduced: int  #: From `nan_kept` on: points.
    inf_kept: int
    inf_changed: int
    inf_introduced: int  #: From `inf_kept` on: points; a lost infinity counts as changed.
    fill_kept: int
    fill_lost: int
    fill_introduced: int  #: From `fill_kept` on: points.
    missing_kept: int = 0
    missing_lost: int = 0
    #: From `missing_kept` on: points that hold a missing value other than the fill value, or an
    #: invalid value. Invalid points count as kept if they are still invalid; the bound is also
    #: checked for them.
    missing_introduced: int = 0
    #: Coordinates of the first point of each kind that occurs: ``nan_kept`` and so on.
    first: dict[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def failed(self) -> dict[str, int]:
        """The counts that should be 0 and are not."""
        counts = {
            f.name: getattr(self, f.name)
            for f in dataclasses.fields(self)
            if f.name != "first" and not f.name.endswith("_kept")
        }
        return {name: count for name, count in counts.items() if count}


@part
class Values:
    """Range and moments of one field, over the valid points, in the data's unit."""

    min: Number
    max: Number
    range: Number  #: max - min.
    mean: Number
    std: Number  #: Standard deviation, with n in the denominator.


@part
class Quantiles:
    """Percentiles of |error|, accurate to one sixteenth."""

    p50: Number = shown("P50 / P99 / P99.9", ".2g", beside=("p99", "p99_9"))
    p90: Number
    p99: Number
    p99_9: Number  #: From `p50` on: in the data's unit.


@part
class Pointwise:
    """|error| / |original value|, where the value is not 0."""

    min: Number
    max: Number
    mean: Number = shown(
        "relative to the value, mean / max",
        ".3g",
        "|e| / |x|, where x is not 0; a part, not percent.",
        beside=("max",),
    )
    zeros: int  #: Original values that are 0.
    zeros_changed: int  #: Those of them that are no longer 0.
    threshold: Number = None  #: As the user set it.
    #: Points whose error exceeds `threshold` times the value, including changed zeros.
    over_threshold: int | None = None


@part
class Errors:
    """The error, decoded minus original, over the valid points, in the data's unit."""

    max_abs: Number = shown(
        "largest error",
        ".9g",
        "Largest size. The error e is decoded less original, in float64, at valid points: finite "
        "in both fields, not the fill value, not masked.",
        is_headline=True,
    )
    #: Coordinates of the first point with the largest error.
    max_at: tuple[int, ...] | None = shown("its place", "place", is_optional=True)
    max_original: Number  #: The original value there.
    max_decoded: Number  #: The decoded value there.
    #: For complex numbers: the largest modulus of an error.
    max_modulus: Number = shown("largest modulus", ".9g", is_optional=True, default=None)
    rmse: Number = shown("RMSE", ".9g")  #: Root of `mse`.
    mse: Number  #: Mean of the squares, in the unit's square.
    mean_abs: Number = shown("mean absolute error (MAE)", ".9g")  #: Mean of |error|.
    min_abs: Number  #: Smallest |error|.
    mean: Number = shown("mean (bias)", ".3g")
    std: Number
    min: Number
    max: Number  #: From `mean` on: of the signed error.
    psnr: Number = shown(
        "PSNR (range)", "dB", "20 log10(range of the original / RMSE), in dB.", is_headline=True
    )
    snr: Number = shown("SNR (variance)", "dB", "10 log10(variance of the original / MSE), in dB.")
    #: `max_abs` divided by the range of the original; a fraction, not in percent.
    max_relative: Number = shown("largest / range", ".4g")
    mean_relative: Number  #: `mean_abs` divided by the range of the original.
    nrmse: Number  #: `rmse` divided by the range of the original.
    quantiles: Quantiles
    pointwise: Pointwise


@part
class Violation:
    """One point that violates the bound."""

    at: tuple[int, ...]  #: Its coordinates.
    original: float
    decoded: float
    #: Place in the grid of the decoded dataset's chunks, if it has any.
    chunk: tuple[int, ...] | None = None

    @property
    def error(self) -> float:
        """Decoded minus original."""
        return self.decoded - self.original


@part
class BoundCheck:
    """Whether the bound holds, in exact arithmetic."""

    #: "absolute", "pointwise_relative", "range_relative", "lossless", "noise" or "modulus".
    kind: str
    value: float  #: As the user typed it.
    limit: Number  #: The largest error that it allows, if that is a single number.
    source: str  #: "given", or "file" if the decoded dataset states it.
    violations: int  #: Points that violate it; for moduli, components that are off.
    floor: int = 0  #: For noise: the smallest error that it allows, in counts.
    #: For noise and moduli: the largest error as a fraction of what is allowed for its value.
    share: Number = None
    listed: tuple[Violation, ...] = ()  #: The first ones, 16 at most.

    def __str__(self) -> str:
        return {
            "absolute": f"|e| <= {self.value:.9g} (absolute)",
            "pointwise_relative": f"|e| <= {self.value:.9g} |x| (pointwise-relative)",
            "range_relative": f"|e| <= {self.value:.9g} range (range-relative)",
            "lossless": "every bit (lossless)",
            "noise": f"|e| <= {f'max({self.floor}, ' if self.floor else ''}"
            f"{self.value:.9g} sqrt(|x|){')' if self.floor else ''} (noise)",
            "modulus": f"|e| <= {self.value:.9g} (modulus)",
        }[self.kind]


@part
class SafeguardCheck:
    """Whether values respect the safeguards and the exact values of the decoded dataset."""

    thresholds: tuple[float, ...]  #: Values must stay on the same side of these.
    valid_range: tuple[float, float] | None  #: The range that values must neither leave nor enter.
    exact: tuple[int, ...]  #: Values that come back unchanged, and that no other value becomes.
    broken: int  #: Points that break one, including those that became NaN.
    first: tuple[int, ...] | None  #: The first of them.


@part
class Correlation:
    """Pearson's correlations."""

    pearson: Number  #: Between original and decoded.
    one_minus_pearson: Number = shown(
        "Pearson", "near 1", "1 - r, with all digits; r is the correlation of both fields."
    )
    nines: Number = shown("nines of Pearson", ".3g", "-log10(1 - r).", is_headline=True)
    with_error: Number  #: Between original and error.


@part
class Histogram:
    """Counts of signed errors in bins of equal width."""

    bin_width: Number  #: A power of two. None if every error is 0.
    #: From -128 widths to 128 widths. The bin left of 0 excludes 0; the bin right of 0 includes it.
    counts: tuple[int, ...]
    below: int
    #: From `below` on: errors beyond the bins, which occur only if a bound is broken.
    above: int

    @property
    def beyond(self) -> int:
        """Number of errors beyond the bins."""
        return self.below + self.above


@part
class Similarity:
    """Structural similarity in windows (SSIM)."""

    window: int  #: Largest side, in points.
    sides: tuple[int, ...] = ()  #: Along each of `ReportData.axes`.
    step: int  #: Distance, in points.
    #: The range for its constants: that of the original. Slices have a range each, and this is the
    #: largest.
    value_range: Number
    windows: int  #: Windows without an invalid point.
    mean: Number
    one_minus_mean: Number = shown(
        "SSIM, mean",
        "near 1",
        "1 - the mean over windows of valid points, with all digits; uniform weights, population "
        "moments, C1 = (0.01 R)^2, C2 = (0.03 R)^2, R the range of the original.",
        is_headline=True,
    )
    min: Number  #: Of the worst window.
    #: 1 - `min`, with all digits.
    one_minus_min: Number = shown("SSIM, worst window", "near 1")
    #: Lowest corner of the worst window.
    min_at: tuple[int, ...] | None = shown("its lowest corner", "place", is_optional=True)


@part
class RelativeHistogram:
    """Counts of |error / value|, where the value is not 0."""

    exact: int  #: Points without an error.
    #: The first bin begins at 2 to this power. None if every error is 0.
    first_octave: int | None
    counts: tuple[int, ...]  #: Eight bins per octave, each 2^octave / 8 wide.
    #: Those of `counts` whose error has the opposite sign of the value: decoded values are nearer
    #: to 0.
    opposite: tuple[int, ...] = ()


@part
class AxisDerivative:
    """First or second central differences along one axis.

    In the data's unit divided by that of `Derivatives.spacing`, or by its square.
    """

    axis: int
    max: Number  #: Largest magnitude in the original.
    max_error: Number  #: Largest error.
    rmse: Number


@part
class Derivatives:
    """How well slopes and curvature were kept, at points with all neighbours."""

    points: int  #: Valid points with two valid neighbours along each of `ReportData.axes`.
    #: Distance between points along each of them, in the user's unit.
    spacing: tuple[float, ...]
    #: First derivatives.
    slopes: tuple[AxisDerivative, ...] = shown("RMSE of slopes, along each axis", "along axes")
    #: Second derivatives.
    curvatures: tuple[AxisDerivative, ...] = shown(
        "RMSE of curvatures, along each axis", "along axes", default=()
    )
    gradient_max: Number  #: Largest magnitude of the original's gradient.
    gradient_range: Number  #: Largest minus smallest magnitude.
    gradient_max_error: Number = shown("largest gradient error", ".4g")
    gradient_rmse: Number  #: From `gradient_max_error` on: error of the magnitude.
    gradient_psnr: Number = shown(
        "PSNR of the gradient",
        "dB",
        "20 log10(gradient_range / gradient_rmse), in dB, of its length: central differences at "
        "points that have both neighbours along every axis, as for slopes, curvatures (second "
        "differences) and the Laplacian (their sum).",
        is_headline=True,
    )
    laplacian_rms: Number  #: Root mean square in the original.
    laplacian_max_error: Number
    #: From `laplacian_max_error` on: of the Laplacian.
    laplacian_rmse: Number = shown("RMSE of the Laplacian", ".4g")
    laplacian_snr: Number = shown(
        "SNR of the Laplacian", "dB", "20 log10(laplacian_rms / laplacian_rmse).", default=None
    )
    h1_error: Number = shown(
        "H1 error", ".4g", "Root of the mean of e^2 and the squares of its slopes."
    )


@part
class AxisCorrelation:
    """Autocorrelation of the error along one axis, or of the mean over axes."""

    #: None: between each point and the mean of its neighbours along all axes (cuZ-Checker's
    #: equation 2).
    axis: int | None
    values: tuple[Number, ...]  #: For lags 1, 2, ..., in points.
    #: The band that contains 95 % of white noise: 1.96 / root of the number of pairs.
    band: tuple[Number, ...]


@part
class Climate:
    """Metrics of climate science."""

    dssim_mean: Number  #: Mean over all slices.
    #: The value of the worst slice.
    dssim_min: Number = shown(
        "DSSIM, worst / mean slice",
        ".6g",
        "Data SSIM (Baker, Pinard, Hammerling 2024) of slices along the last two axes.",
        beside=("dssim_mean",),
    )
    #: The worst slice, by its place along the other axes longer than 1.
    dssim_min_at: tuple[int, ...] | None
    slices: int  #: Slices that have one.


@part
class Spectrum:
    """Power of decoded divided by power of original, in shells of wavenumber 1, 2, ...

    Along `ReportData.axes`; where a point is invalid, both fields are set to the original's mean.
    """

    ratio: tuple[Number, ...]  #: For wavenumbers 1, 2, ... up to half of the shortest axis.
    k_max: int  #: Wavenumbers below this count for `max_deviation`.
    #: Largest distance of a ratio from 1.
    max_deviation: Number = shown("power ratio, distance from 1 (k < 10)", ".3g")


@part
class ThresholdCrossing:
    """Points that changed from one side of a threshold to the other."""

    name: str  #: As the user named it.
    threshold: float  #: In the data's unit.
    count: int  #: Points that crossed it.


@part
class Size:
    """Size of the decoded dataset in its file."""

    #: Values times their size.
    raw_bytes: int = shown("raw / stored", "bytes", beside=("stored_bytes",))
    stored_bytes: int  #: Of the chunks in the file, as HDF5 counts them.
    ratio: Number = shown("ratio", ".4g", is_headline=True)  #: raw_bytes / stored_bytes.
    bits_per_value: Number = shown("bits per value", ".4g")  #: Of stored bytes.
    accuracy_gain: Number = shown(
        "accuracy gain, bits",
        ".4g",
        "log2(standard deviation / RMSE) less the bits per value: higher is better, at any rate.",
    )


@part
class PerChunk:
    """Error in each chunk, or in boxes of chunks where there are very many."""

    box: tuple[int, ...]  #: Extents of a box; those of a chunk, or multiples of them.
    grid: tuple[int, ...]  #: Number of boxes along each axis.
    max_abs: tuple[float, ...]  #: Largest error in each box, in C order, in the data's unit.
    psnr: tuple[Number, ...]  #: In dB, relative to the range of the whole dataset.
    #: NaN, infinite and fill values that were changed, lost or introduced.
    special: tuple[int, ...]


@part
class Distribution:
    """The values of both fields compared as distributions, regardless of their places."""

    ks_distance: Number = shown(
        "Kolmogorov-Smirnov distance",
        ".4g",
        "Largest distance of the distribution functions of the values.",
    )
    wasserstein: Number = shown(
        "Wasserstein distance", ".4g", "Mean distance of values of the same rank, in their unit."
    )
    entropy_original: Number = shown(
        "entropy in bits, original / decoded",
        ".4g",
        "Shannon's, of the distinct values.",
        beside=("entropy_decoded",),
    )
    entropy_decoded: Number


@part
class Weighted:
    """Means in which each valid point counts by its weight, in the data's unit."""

    original_mean: Number = shown("mean, original / decoded", ".9g", beside=("decoded_mean",))
    decoded_mean: Number
    mean: Number = shown("mean error (bias)", ".3g")  #: Mean of the signed error.
    mean_abs: Number  #: Mean of |error|.
    rmse: Number = shown("RMSE", ".9g")
    one_minus_pearson: Number = shown("Pearson", "near 1")  #: As in `Correlation`.


@part
class SliceNumbers:
    """One number of every slice."""

    worst: Number  #: The one with the largest magnitude.
    worst_at: tuple[int, ...] | None  #: Its slice, by the place along `PerSlice.axes`.
    mean: Number  #: Mean over the slices that have one.
    values: tuple[Number, ...]  #: Of each slice, in C order; empty for more than 4096.


@part
class PerSlice:
    """Each slice along `ReportData.axes`, assessed as a field of its own.

    Numbers that were not requested are None.
    """

    axes: tuple[int, ...]  #: The other axes longer than 1.
    shape: tuple[int, ...]  #: Number of slices along each of them.
    max_abs: SliceNumbers | None = None
    rmse: SliceNumbers | None = None
    mean: SliceNumbers | None = None  #: From `max_abs` on: as in `Errors`.
    one_minus_pearson: SliceNumbers | None = None  #: As in `Correlation`.
    one_minus_ssim: SliceNumbers | None = None  #: 1 - mean, as in `Similarity`.
    gradient_rmse: SliceNumbers | None = None
    laplacian_rmse: SliceNumbers | None = None  #: From `gradient_rmse` on: as in `Derivatives`.
    spectrum_deviation: SliceNumbers | None = None  #: `Spectrum.max_deviation`.


@part
class Provenance:
    """Where the numbers come from."""

    original: str
    decoded: str  #: From `original` on: names, as ``file.h5:/path`` or whatever else is known.
    h5lossy: str  #: The version that made the report.
    passes: int  #: How often the original was read.
    amplification: float  #: How often a value was read in the last pass, on average.
    #: Which fields were unpacked, and by which attributes; missing values are NaN then.
    unpacked: tuple[str, ...] = ()
    units: str | None = None  #: The original's attribute ``units``.
    long_name: str | None = None  #: Its attribute ``long_name``, or else ``standard_name``.


@part
class Coordinate:
    """What is known of the places along an axis."""

    name: str = ""  #: Name of the axis, if it has one.
    long_name: str = ""  #: The coordinate's attribute ``long_name``.
    units: str = ""  #: Its attribute ``units``; empty for dates.
    #: Whether it increases upwards in pictures, as latitudes do, and depths do not.
    rises: bool = False
    #: One for each place, rising or falling: numbers, or dates of NumPy. None: not known.
    values: npt.NDArray[Any] | None = None

    def at(self, index: int) -> str:
        """Describe a place along the axis: ``lat 12 (-3.5 degrees_north)``."""
        name = self.name or "axis"
        if self.values is None:
            return f"{name} {index}"
        value = self.values[index]
        text = str(value) if self.values.dtype.kind == "M" else f"{value:.6g}"
        text = text.removesuffix("T00:00:00")
        return f"{name} {index} ({f'{text} {self.units}'.rstrip()})"


@part
class FieldSlice:
    """A part of both fields: two dimensions, or a line of a 1-D field. NaN where invalid."""

    title: str
    axes: tuple[int, ...]  #: Of the field.
    extent: tuple[int, ...]  #: Number of points along these axes.
    original: npt.NDArray[np.float64]
    decoded: npt.NDArray[np.float64]  #: From `original` on: every n-th point.
    error: npt.NDArray[np.float64]  #: Of n points, the error with the largest magnitude.


@part
class ReportData:
    """Everything that an assessment found; `Report` without the methods that show it."""

    shape: tuple[int, ...]
    dtype: str  #: Type in which values were compared.
    #: Names of the axes; empty where they have none.
    dims: tuple[str, ...] = ()
    #: The axes along which windows, derivatives, lags and spectra extend.
    axes: tuple[int, ...] = ()
    points: int  #: All of them.
    #: Points that are finite in both fields, and neither the fill value, missing, invalid nor
    #: masked.
    valid: int
    masked: int  #: Points that the mask leaves out.
    fill_value: Number  #: The fill value, which is left out.
    missing_values: tuple[float, ...] = ()  #: Missing values other than the fill value.
    valid_min: Number = None
    valid_max: Number = None  #: From `valid_min` on: values below or above these are invalid.
    outside: int = 0  #: Points that are invalid.
    requirements: tuple[str, ...] = ()  #: The thresholds to be met.
    failures: tuple[Failure, ...]  #: Every check that failed.
    special: Special
    original: Values
    decoded: Values
    error: Errors
    bound: BoundCheck | None
    safeguards: SafeguardCheck | None = None
    correlation: Correlation
    histogram: Histogram
    relative_histogram: RelativeHistogram | None
    ssim: Similarity | None
    derivatives: Derivatives | None
    autocorrelation: tuple[AxisCorrelation, ...] | None
    climate: Climate | None
    spectrum: Spectrum | None
    threshold_crossings: tuple[ThresholdCrossing, ...]
    distribution: Distribution | None = None
    weighted: Weighted | None = None
    per_slice: PerSlice | None = None
    size: Size | None
    per_chunk: PerChunk | None
    provenance: Provenance  #: Parts, each documented by its class; None if it was not requested.
    metrics: dict[str, Any]  #: Results of custom metrics, by their names.
    undefined: dict[str, str]  #: Why a number is None, by its name.
    schema: str = SCHEMA  #: Name of the definitions.
    #: Parts of both fields, for pictures. Not in JSON, and not compared.
    slices: tuple[FieldSlice, ...] | None = field(default=None, compare=False, repr=False)
    #: Coordinates of each axis, for pictures and messages. Not in JSON, and not compared.
    coordinates: tuple[Coordinate, ...] = field(default=(), compare=False, repr=False)

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return not self.failures

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain dicts, lists, numbers and text; infinities are text."""
        return {"schema": self.schema, "ok": self.ok} | {
            f.name: _plain(getattr(self, f.name))
            for f in dataclasses.fields(self)
            if f.name not in {"schema", *FOR_PICTURES}
        }

    def to_json(self, *, indent: int | None = 2) -> str:
        """Return the report as JSON (``docs/reference/report.md``).

        Parameters
        ----------
        indent : int, optional

        Returns
        -------
        str
            Floats as the shortest decimals that read back as the same number; infinities as "inf"
            and "-inf".
        """
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read what `to_json` wrote.

        Parameters
        ----------
        text : str or bytes

        Returns
        -------
        Report

        Raises
        ------
        InvalidArgumentError
            If it is not a report, or has another schema.
        """
        try:
            data = json.loads(text)
        except ValueError as error:
            raise InvalidArgumentError(f"not a report: {error}") from error
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            found = data.get("schema") if isinstance(data, dict) else None
            raise InvalidArgumentError(f"a report has the schema {SCHEMA!r}, got {found!r}")
        data.pop("ok", None)
        try:
            return typing.cast("Self", _read(cls, data))
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidArgumentError(f"not a whole report: {error!r}") from error


def _plain(value: Any) -> Any:
    """Turn dataclasses into dicts, tuples into lists and infinities into text."""
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value


def _read(kind: Any, value: Any) -> Any:
    """Turn plain data back into what a field's type says."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in {types.UnionType, typing.Union}:
        if value is None:
            return None
        return _read(next(a for a in arguments if a is not types.NoneType), value)
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return kind(  # type: ignore[operator]
            **{
                f.name: _read(hints[f.name], value[f.name])
                for f in dataclasses.fields(kind)
                if f.name in value
            }
        )
    if origin is tuple:
        value = tuple(_read(arguments[0], item) for item in value)
    elif origin is dict:
        value = {key: _read(arguments[1], item) for key, item in value.items()}
    elif kind is float:
        value = _INFINITE[value] if isinstance(value, str) else float(value)
    return value

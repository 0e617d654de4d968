# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""`assess`: from two fields to a report."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np

from h5lossy import _native
from h5lossy._blocks import BLOCK_BYTES, block_shape, blocks
from h5lossy._progress import reporting
from h5lossy._values import as_bits, is_big_endian
from h5lossy.assessment import _numbers as numbers
from h5lossy.assessment._absent import Absent
from h5lossy.assessment._climate import central_slope, climate, slices, spectrum
from h5lossy.assessment._device import on_device
from h5lossy.assessment._inputs import (
    Input,
    Mask,
    agree_on_packing,
    common_dtype,
    missing_in,
    opened,
)
from h5lossy.assessment._scaling import Scale, Sums, multiplied
from h5lossy.assessment._walk import FIRST_CUT, Fields, Layout, Walker, box_grid, position
from h5lossy.assessment._wide import Wide, known, misfit
from h5lossy.assessment.metrics import (
    LocalRangeSimilarity,
    Metric,
    relative_histogram,
    run_metrics,
)
from h5lossy.assessment.needs import Need, parse_needs
from h5lossy.assessment.report import (
    BoundCheck,
    Failure,
    Flip,
    PerChunk,
    Provenance,
    RelativeHistogram,
    Report,
    Size,
    Violation,
)
from h5lossy.bounds import BoundKind, ErrorBound, exact_limits
from h5lossy.datasets import describe
from h5lossy.errors import DeviceError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

#: What each profile computes besides the reductions, which are always there.
PROFILES: dict[str, frozenset[str]] = {
    "bound": frozenset(),
    "standard": frozenset({"ssim", "derivatives", "autocorrelation", "per_chunk"}),
    "climate": frozenset({"ssim", "derivatives", "autocorrelation", "per_chunk", "climate"}),
    "full": frozenset(
        {"ssim", "derivatives", "autocorrelation", "per_chunk", "climate", "spectrum", "pointwise"}
    ),
}

#: What may be named on its own.
GROUPS: frozenset[str] = PROFILES["full"] | {"ssim_zchecker"}

#: Boxes of the map of errors; more chunks are put together.
_MOST_BOXES = 4096

_UNITS = {"": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """The arguments of `assess` that say what to compute, checked."""

    groups: frozenset[str]
    bound: ErrorBound | None
    bound_source: str
    needs: tuple[Need, ...]
    data_range: float | None
    spacing: tuple[float, ...]
    window: int
    step: int
    lags: int
    flips: tuple[tuple[str, float], ...]
    relative_threshold: float
    metrics: tuple[Metric, ...]
    threads: int
    memory_limit: int


def assess(
    original: Any,
    decoded: Any,
    *,
    absolute: float | None = None,
    pointwise_relative: float | None = None,
    range_relative: float | None = None,
    lossless: bool = False,
    bound: ErrorBound | None = None,
    need: str | None = None,
    metrics: str | Iterable[str | Metric] = "standard",
    data_range: float | None = None,
    mask: Any = None,
    fill_value: Any = "auto",
    missing_value: Any = (),
    spacing: float | Sequence[float] | None = None,
    ssim: Mapping[str, int] | None = None,
    lags: int = 10,
    flips: Mapping[str, float] | None = None,
    relative_threshold: float = 1e-4,
    pictures: bool = False,
    threads: int | None = None,
    memory_limit: int | str = "256 MiB",
    progress: Callable[[int, int], None] | bool | None = None,
) -> Report:
    """Measure what was lost, and judge whether the promise was kept.

    Both fields are read once, part by part, whatever their size. A range is needed beforehand by
    SSIM and by a range-relative bound: without `data_range` the original is read twice. What comes
    out does not depend on chunks, the memory limit, the number of threads and the machine, but for
    the last few of 16 digits where a slab of planes is larger than the memory limit.

    Parameters
    ----------
    original, decoded : array-like, h5py.Dataset, or "file.h5:/path"
        Of one shape. Floats of 16, 32 and 64 bits, or integers up to 32; of either byte order.
        NumPy arrays, ``numpy.memmap``, all that speaks DLPack (PyTorch, JAX), and anything else
        with a shape, a dtype and ``[]``, such as Zarr arrays and variables of netCDF4, h5netcdf and
        xarray. Two arrays on one GPU are assessed there; if only one is on a GPU, it comes to the
        host a part at a time. Values packed with ``scale_factor`` and ``add_offset`` are unpacked,
        unless the bound is the file's own, which applies to the stored numbers.
    absolute, pointwise_relative, range_relative, lossless, bound : optional
        The promise to check, at most one. Default: what the file says, if `decoded` is a dataset
        that h5lossy compressed; otherwise none.
    need : str, optional
        Further thresholds to meet: "psnr>=70, ssim>=0.9999".
    metrics : str or iterable of str and Metric, optional
        A profile, "bound", "standard", "climate" or "full", or any of these, of the groups "ssim",
        "derivatives", "autocorrelation", "per_chunk", "climate", "spectrum", "pointwise" and
        "ssim_zchecker", and of your own metrics (`h5lossy.assessment.Metric`). The reductions over
        all points are always computed.
    data_range : float, optional
        Range that SSIM takes its constants of. Default: max - min of the original's valid values.
    mask : array-like of bool or integers, optional
        Not 0 where a point is left out, as in NumPy's masked arrays. Of the fields' shape. If
        `original` is a masked array, its mask is added; a point that only `decoded` masks is a
        failure.
    fill_value : float or Missing, optional
        Points whose original has these bits are left out, and have to come back bit for bit.
        Default "auto": the original's own, or its attribute ``_FillValue``; if the original
        declares nothing missing, that of `decoded`. A number replaces the fill value, but not the
        attributes ``missing_value``, ``valid_min``, ``valid_max`` and ``valid_range``; an
        `h5lossy.missing.Missing` replaces all of them. None: all finite values are data, whatever
        the attributes say.
    missing_value : float or sequence of float, optional
        Further missing values: left out, and to be restored bit for bit.
    spacing : float or sequence of float, optional
        Distance of points along each axis, for derivatives. Default 1.
    ssim : dict, optional
        "window", the side of windows from 2 to 16 (7), and "step" between them (1).
    lags : int, optional
        Largest lag of the autocorrelation, 0 to 16.
    flips : dict, optional
        Thresholds by name, up to 8; points that change sides are counted: ``{"rain": 1e-4}``.
    relative_threshold : float, optional
        Points whose error is above so much of their value are counted. Default 1e-4, of which
        Baker et al. (2017) allow 5 %.
    pictures : bool, optional
        Keep slices for `Report.to_html`: the middle one, and the one with the largest error. With a
        pointwise-relative bound, the group "pointwise" too, which it is marked in.
    threads : int, optional
        At most so many. Default: ``H5LOSSY_NUM_THREADS``, or all CPUs of the process.
    memory_limit : int or str, optional
        For what is read from files, and arrays that need a conversion; in bytes or as "256 MiB".
    progress : function or bool, optional
        Called as ``progress(bytes_done, bytes_in_all)``, of the original; each time that it has to
        be read counts. True shows a bar on standard error.

    Returns
    -------
    Report
        `Report.ok` is the verdict.

    Raises
    ------
    NotComparableError
        If the shapes differ, or a type can't be compared.
    InvalidArgumentError
        If an argument is not allowed.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(0, 1, 1000)
    >>> report = assess(x, np.round(x, 2), absolute=0.005)
    >>> report.ok, round(report.error.psnr, 1)
    (True, 50.8)
    >>> assess(x, np.round(x, 2), absolute=0.001).failures[0].check
    'bound'
    """
    with opened(original, decoded) as (x, y):
        given = bound_of(bound, absolute, pointwise_relative, range_relative, lossless=lossless)
        promise, source = _promise(y, given)
        settings = make_settings(
            len(x.shape),
            promise,
            source,
            need=need,
            metrics=metrics,
            data_range=data_range,
            spacing=spacing,
            ssim=ssim,
            lags=lags,
            flips=flips,
            relative_threshold=relative_threshold,
            threads=threads,
            memory_limit=memory_limit,
        )
        if pictures and promise is not None and promise.kind is BoundKind.POINTWISE_RELATIVE:
            # Its histogram is the one that this bound can be marked in.
            settings = dataclasses.replace(settings, groups=settings.groups | {"pointwise"})
        x.threads = y.threads = threads
        agree_on_packing(x, y, as_stored=source == "file")
        dtype = common_dtype(x, y)
        fields = Fields(
            original=x,
            decoded=y,
            mask=_mask(mask, x),
            dtype=dtype,
            layout=Layout.of(x.shape),
            missing=missing_in(x, y, dtype, fill_value, missing_value),
        )
        what = f"assessing {y.name}"
        with on_device(fields) as placed, reporting(progress, what) as told:
            try:
                report = Assessment(placed, settings, told).run()
            except DeviceError as failure:
                if placed.device is None:
                    raise
                # As the filter does: what the GPU cannot do, the CPU does.
                warnings.warn(f"{failure}: the CPU does the work", RuntimeWarning, stacklevel=2)
                report = Assessment(fields, settings, told).run()
        if pictures and report.valid:
            from h5lossy.assessment._pictures import take_pictures  # noqa: PLC0415

            report = dataclasses.replace(
                report, pictures=take_pictures(fields, fields.missing.fill, report)
            )
        return report


def _mask(mask: Any, original: Input) -> Mask | None:
    """Combine the caller's mask with that of a masked array."""
    given = None if mask is None else Mask(mask, original.shape)
    if original.mask is None:
        return given
    both = original.mask
    if given is not None:
        everything = tuple(slice(0, n) for n in original.shape)
        both = both | (given.read(everything, np.dtype(np.uint8)) != 0)
    return Mask(both, original.shape)


def make_settings(
    rank: int,
    bound: ErrorBound | None,
    source: str,
    *,
    need: str | None,
    metrics: str | Iterable[str | Metric],
    data_range: float | None,
    spacing: float | Sequence[float] | None,
    ssim: Mapping[str, int] | None,
    lags: int,
    flips: Mapping[str, float] | None,
    relative_threshold: float,
    threads: int | None,
    memory_limit: int | str,
) -> Settings:
    """Check the arguments of `assess` for fields with so many axes."""
    groups, own = _groups(metrics, need)
    window = _window(ssim)
    if "ssim_zchecker" in groups:
        own = (LocalRangeSimilarity(**window), *own)
    return Settings(
        groups=groups,
        bound=bound,
        bound_source=source,
        needs=parse_needs(need) if need else (),
        data_range=None if data_range is None else _positive("data_range", data_range),
        spacing=_spacing(spacing, rank),
        **window,
        lags=_integer("lags", lags, 0, _native.ASSESS_MAX_LAGS),
        flips=_flips(flips),
        relative_threshold=_positive("relative_threshold", relative_threshold),
        metrics=own,
        threads=0 if threads is None else _integer("threads", threads, 1),
        memory_limit=memory_bytes(memory_limit),
    )


class Assessment:
    """One run of `assess`, or of an `Assessor`."""

    def __init__(
        self,
        fields: Fields,
        settings: Settings,
        told: Callable[[int, int], object],
    ) -> None:
        self._fields = fields
        self._fill = fields.missing.fill
        self._fill_bits = fields.missing.fill_bits
        self._settings = settings
        self._undefined = numbers.Undefined()
        self._told = told
        self._done = 0
        self._has_field = len(fields.layout.shape) <= _native.ASSESS_MAX_RANK and bool(
            fields.layout.shape
        )
        needs_range = "ssim" in settings.groups and settings.data_range is None
        self._is_relative = settings.bound is not None and (
            settings.bound.kind is BoundKind.RANGE_RELATIVE
        )
        self._passes = 2 if needs_range or self._is_relative else 1
        more = len({"climate", "pointwise"} & settings.groups) + bool(settings.metrics)
        self._total = fields.original.size * fields.dtype.itemsize * (self._passes + more)

    def _advance(self, points: int) -> None:
        self._done += points * self._fields.dtype.itemsize
        self._told(self._done, self._total)

    def run(self) -> Report:
        fields = self._fields
        state: _native.AssessState | None = None
        points: _native.PointsResult | None = None
        ends: tuple[float, float] | None = None
        if self._passes == 2 and fields.device is not None and not self._is_relative:
            # All values are there at once, so the reductions come first and tell the range.
            state = _native.AssessState(self.params(Fraction(0), None))
            Walker(fields, 0, 0).run(state, progress=self._advance)
            points = state.points_result()
            ends = _original_ends(points)
            if ends is None:
                self._total += fields.original.size * fields.dtype.itemsize
        if self._passes == 2 and ends is None:
            ends = self._value_range()
        value_range, extent = self._ranges(ends)
        if state is None:
            state = _native.AssessState(self.params(extent, value_range))
        elif state.params.window:
            state.params = dataclasses.replace(state.params, value_range=value_range or 0.0)
        walker = Walker(fields, reach(state.params), self._settings.memory_limit)
        boxes = self._boxes()
        absent = self.absent(state.params)
        field_state = walker.run(
            state,
            boxes=boxes,
            has_points=points is not None,
            absent=absent,
            progress=self._advance,
        )
        points = points or state.points_result()
        run_metrics(self._settings.metrics, fields, self.count_valid, self._advance)
        return self.report(
            state,
            field_state,
            value_range,
            points=points,
            absent=absent,
            sums=self._scaled_sums(points, state.params, boxes),
            boxes=boxes,
            amplification=walker.amplification,
        )

    def absent(self, params: _native.AssessParams) -> Absent | None:
        """Return a counter of missing points that the native library does not handle, if any."""
        fields = self._fields
        if not fields.missing.has_more and fields.decoded.mask is None:
            return None
        return Absent(fields.missing, params, fields.decoded.mask)

    def _scaled_sums(
        self,
        points: _native.PointsResult,
        params: _native.AssessParams,
        boxes: tuple[tuple[int, ...], npt.NDArray[Any]] | None,
    ) -> Sums | None:
        """Compute sums again if squares do not fit in float64; updates the sums of `boxes`."""
        scale = Scale.of(points)
        if scale is None or self._fields.dtype.itemsize == 4:  # of float32, all squares fit
            return None
        self._passes += 1
        self._total += self._fields.original.size * self._fields.dtype.itemsize
        is_absolute = params.bound_kind == _native.BOUND_ABSOLUTE
        limit = float(Wide(params.limit[0] if is_absolute else 0.0, scale.error))
        state = _native.AssessState(
            _native.AssessParams(
                value_bytes=8,
                histogram_limit=_grid_limit(limit),
                threads=params.threads,
                lags=params.lags,
                stencils=params.stencils,
                shape=params.shape,
                spacing=params.spacing,
            )
        )
        fields = multiplied(self._fields, scale, self.count_valid)
        again = None if boxes is None else (boxes[0], np.zeros_like(boxes[1]))
        walker = Walker(fields, reach(state.params), self._settings.memory_limit)
        field_state = walker.run(state, boxes=again, progress=self._advance)
        if boxes is not None and again is not None:
            boxes[1]["error_squares"] = again[1]["error_squares"]
        return Sums(scale=scale, points=state.points_result(), field=field_state.field_result())

    def _ranges(self, ends: tuple[float, float] | None) -> tuple[float | None, Fraction]:
        """Return SSIM's range, and the extent that a range-relative bound is a part of."""
        extent = Fraction(0) if ends is None else Fraction(ends[1]) - Fraction(ends[0])
        if self._settings.data_range is not None:
            return self._settings.data_range, extent
        if ends is None:
            return None, extent
        return float(extent) if math.isfinite(ends[1] - ends[0]) else math.inf, extent

    @property
    def first_cut(self) -> int:
        """Where the first axis may be cut: at multiples of this."""
        return FIRST_CUT.get(len(self._fields.layout.shape), 1)

    def params(self, extent: Fraction, value_range: float | None) -> _native.AssessParams:
        settings, fields = self._settings, self._fields
        layout = fields.layout
        fits = self._has_field
        kind, limit, half = exact_limits(settings.bound, extent)
        has_windows = fits and "ssim" in settings.groups
        return _native.AssessParams(
            value_bytes=fields.dtype.itemsize,
            original_big_endian=is_big_endian(fields.dtype),
            decoded_big_endian=is_big_endian(fields.dtype),
            fill_bits=self._fill_bits,
            bound_kind=kind,
            limit=limit,
            half_limit=half,
            histogram_limit=_grid_limit(limit[0]) if kind == _native.BOUND_ABSOLUTE else 0.0,
            pointwise_threshold=settings.relative_threshold,
            flips=tuple(threshold for _, threshold in settings.flips),
            threads=settings.threads,
            lags=settings.lags if fits and "autocorrelation" in settings.groups else 0,
            stencils=fits and "derivatives" in settings.groups,
            window=settings.window if has_windows else 0,
            step=settings.step,
            shape=layout.shape if fits else (),
            spacing=tuple(settings.spacing[axis] for axis in layout.axes) if fits else (),
            value_range=value_range if has_windows and value_range else 0.0,
            on_device=fields.device is not None,
        )

    def _value_range(self) -> tuple[float, float] | None:
        """Return the smallest and the largest valid value of the original."""
        fields = self._fields
        field, dtype = fields.original, fields.dtype
        if fields.device is not None:
            return self._value_range_on_device()
        params = _native.Params(
            value_bytes=dtype.itemsize, big_endian=is_big_endian(dtype), fill_bits=self._fill_bits
        )
        found = []
        for own in fields.blocks(min(BLOCK_BYTES, self._settings.memory_limit // 4)):
            selection = fields.layout.selection(own)
            block = field.read(selection, dtype)
            mask = None
            if fields.mask is not None:
                mask = fields.mask.read(selection, np.dtype(np.uint8))
            mask = fields.marked(block, mask)
            if mask is not None:
                block = np.where(mask != 0, dtype.type(np.nan), block).astype(dtype)
            ends = _native.value_range(params, block)
            if ends is not None:
                found.append(ends)
            self._advance(block.size)
        if not found:
            return None
        return min(low for low, _ in found), max(high for _, high in found)

    def _value_range_on_device(self) -> tuple[float, float] | None:
        """Take the range from the reductions of the original with itself."""
        fields = self._fields
        params = _native.AssessParams(
            value_bytes=fields.dtype.itemsize, fill_bits=self._fill_bits, on_device=True
        )
        state = _native.AssessState(params)
        both = dataclasses.replace(fields, decoded=fields.original)
        Walker(both, 0, 0).run(state, progress=self._advance)
        return _original_ends(state.points_result())

    def _boxes(self) -> tuple[tuple[int, ...], npt.NDArray[Any]] | None:
        fields = self._fields
        chunks = fields.layout.chunks(fields.decoded) or fields.layout.chunks(fields.original)
        if "per_chunk" not in self._settings.groups or not chunks or not self._has_field:
            return None
        shape = fields.layout.shape
        if 0 in shape:
            return None
        box = box_grid(shape, chunks, _MOST_BOXES)
        count = math.prod(-(-n // b) for n, b in zip(shape, box, strict=True))
        return box, np.zeros(count, _native.BOX_DTYPE)

    def count_valid(
        self, x: npt.NDArray[Any], y: npt.NDArray[Any], mask: npt.NDArray[Any] | None
    ) -> npt.NDArray[np.bool_]:
        """Return which points count."""
        return count_valid(x, y, mask, self._fill)

    def report(
        self,
        state: _native.AssessState,
        field_state: _native.AssessState,
        value_range: float | None,
        *,
        points: _native.PointsResult | None = None,
        absent: Absent | None = None,
        sums: Sums | None = None,
        boxes: tuple[tuple[int, ...], npt.NDArray[Any]] | None = None,
        amplification: float = 1.0,
    ) -> Report:
        """Make a report of what a state knows of points, and one of pairs, stencils and windows.

        `sums` default to those of the states, as far as squares fit in float64.
        """
        params = state.params
        settings, fields, undefined = self._settings, self._fields, self._undefined
        layout, groups = fields.layout, settings.groups
        points, field = points or state.points_result(), field_state.field_result()
        if absent is not None:
            points = absent.added_to(points)
        missing = fields.missing
        sums = sums or Sums.streamed(points, field)
        undefined.clear()
        own = {metric.name: metric.result() for metric in settings.metrics}
        if "ssim_zchecker" in own and own["ssim_zchecker"].mean is None:
            undefined.none("ssim_zchecker", "there is no window of finite numbers")
        errors = numbers.errors(points, sums, layout, params.pointwise_threshold, undefined)
        original = numbers.values(points, sums, "original", undefined)
        report = Report(
            shape=layout.full_shape,
            dtype=fields.dtype.name,
            points=points.count,
            valid=points.valid,
            masked=points.masked,
            fill_value=None if self._fill is None else float(self._fill),
            missing_values=tuple(map(float, missing.values)),
            valid_min=None if missing.low is None else float(missing.low),
            valid_max=None if missing.high is None else float(missing.high),
            outside=0 if absent is None else absent.outside_points,
            needs=tuple(map(str, settings.needs)),
            failures=(),
            special=numbers.special(points, absent, layout.full_shape),
            original=original,
            decoded=numbers.values(points, sums, "decoded", undefined),
            error=errors,
            bound=self._bound_check(points, params),
            correlation=numbers.correlation(points, sums, undefined),
            histogram=numbers.histogram(points, sums, undefined),
            relative_histogram=self._relative_histogram() if "pointwise" in groups else None,
            ssim=(
                numbers.similarity(
                    field,
                    layout,
                    window=settings.window,
                    step=settings.step,
                    value_range=value_range,
                    undefined=undefined,
                )
                if "ssim" in groups
                else None
            ),
            ssim_zchecker=own.pop("ssim_zchecker", None),
            derivatives=(
                numbers.derivatives(sums, layout, params.spacing, undefined)
                if "derivatives" in groups
                else None
            ),
            autocorrelation=(
                numbers.autocorrelation(points, sums, layout, settings.lags, undefined)
                if "autocorrelation" in groups and settings.lags
                else None
            ),
            climate=(
                climate(fields, self.count_valid, undefined, self._advance)
                if "climate" in groups
                else None
            ),
            spectrum=(
                spectrum(fields, self.count_valid, settings.memory_limit, undefined)
                if "spectrum" in groups
                else None
            ),
            flips=tuple(
                Flip(name=name, threshold=threshold, count=count)
                for (name, threshold), count in zip(settings.flips, points.flipped, strict=False)
            ),
            size=self._size(points, sums),
            per_chunk=(
                None if boxes is None else self._per_chunk(*boxes, original.range, sums.scale)
            ),
            provenance=Provenance(
                original=fields.original.name,
                decoded=fields.decoded.name,
                h5lossy=_native.version(),
                passes=self._passes,
                amplification=amplification,
                unpacked=tuple(
                    f"{which}: {field.packing}"
                    for which, field in (("original", fields.original), ("decoded", fields.decoded))
                    if field.packing is not None and not field.packing.is_plain
                ),
            ),
            metrics=own,
            undefined={},
        )
        failures = [*_failures(report), *(need.failure(report) for need in settings.needs)]
        return dataclasses.replace(
            report,
            failures=tuple(failure for failure in failures if failure),
            undefined=dict(undefined),
        )

    def _bound_check(
        self, points: _native.PointsResult, params: _native.AssessParams
    ) -> BoundCheck | None:
        bound = self._settings.bound
        if bound is None:
            return None
        shape = self._fields.layout.full_shape
        chunks = self._fields.decoded.chunks
        listed = []
        for point in points.listed:
            at = position(point.at, shape)
            chunk = chunks and tuple(i // n for i, n in zip(at, chunks, strict=True))
            listed.append(
                Violation(at=at, original=point.original, decoded=point.decoded, chunk=chunk)
            )
        return BoundCheck(
            kind=str(bound.kind),
            value=bound.value,
            limit=params.limit[0] if params.bound_kind == _native.BOUND_ABSOLUTE else None,
            source=self._settings.bound_source,
            violations=points.violations,
            listed=tuple(listed),
        )

    def _relative_histogram(self) -> RelativeHistogram:
        found = relative_histogram(self._fields, self.count_valid, self._advance)
        if not found.counts:
            self._undefined.none(
                "relative_histogram.first_octave", "no valid point other than 0 has an error"
            )
        return found

    def _size(self, points: _native.PointsResult, sums: Sums) -> Size | None:
        dataset = self._fields.decoded.dataset
        if dataset is None:
            return None
        raw, stored = int(dataset.size * dataset.dtype.itemsize), int(dataset.id.get_storage_size())
        bits = 8 * stored / dataset.size if dataset.size else None
        gain = None
        if points.valid and bits is not None:
            mse = numbers.mean_square(points, sums)
            variance = sums.squares_original / Wide(points.valid)
            if variance and mse and variance.is_finite and mse.is_finite:
                gain = 0.5 * (variance / mse).log2() - bits
        if gain is None:
            self._undefined.none("size.accuracy_gain", "there is no error, or nothing varies")
        if not dataset.size:
            self._undefined.none("size.bits_per_value", "there are no values")
        if not stored:
            self._undefined.none("size.ratio", "nothing is stored")
        return Size(
            raw_bytes=raw,
            stored_bytes=stored,
            ratio=raw / stored if stored else None,
            bits_per_value=bits,
            accuracy_gain=gain,
        )

    def _per_chunk(
        self,
        box: tuple[int, ...],
        boxes: npt.NDArray[Any],
        value_range: float | None,
        scale: Scale,
    ) -> PerChunk:
        layout = self._fields.layout
        whole = dict(zip(layout.axes, box, strict=True))
        full_box = tuple(whole.get(axis, 1) for axis in range(len(layout.full_shape)))
        if value_range is None or not boxes["valid"].all():
            self._undefined.none(
                "per_chunk.psnr", "a chunk has no valid point, or the range is beyond float64"
            )
        return PerChunk(
            box=full_box,
            grid=tuple(-(-n // b) for n, b in zip(layout.full_shape, full_box, strict=True)),
            max_abs=tuple(boxes["error_max_abs"].tolist()),
            psnr=numbers.chunk_psnr(boxes, value_range, scale),
            special=tuple(boxes["special_failures"].tolist()),
        )


def _grid_limit(limit: float) -> float:
    """Return the limit that the histogram's grid is made for; 0: it adapts to the errors."""
    return limit if 1e-300 <= limit < math.inf else 0.0


def _original_ends(points: _native.PointsResult) -> tuple[float, float] | None:
    """Return the smallest and the largest value of the original, finite or not in the other field.

    None where the reductions do not tell: values that became NaN or infinite do not count there.
    """
    made = points.special["nan_made"] + points.special["inf_made"]
    return (points.original_min, points.original_max) if points.valid and not made else None


def reach(params: _native.AssessParams) -> int:
    """Return how many points a stencil, pair or window reaches from its corner."""
    return max(params.lags, params.window - 1, 2 if params.stencils else 0, 0)


def count_valid(
    x: npt.NDArray[Any], y: npt.NDArray[Any], mask: npt.NDArray[Any] | None, fill: Any
) -> npt.NDArray[np.bool_]:
    """Return which points are finite in both, not the fill value, and not masked."""
    valid = np.isfinite(x) & np.isfinite(y)
    if fill is not None:
        valid &= as_bits(x) != as_bits(np.asarray(fill, x.dtype))
    return np.asarray(valid if mask is None else valid & (mask == 0))


def _failures(report: Report) -> list[Failure]:
    found = []
    bound = report.bound
    if bound is not None and bound.violations:
        first = bound.listed[0]
        found.append(
            Failure(
                check="bound",
                wanted=str(bound),
                got=f"{bound.violations} of {report.valid} points over, "
                f"first {first.original!r} became {first.decoded!r}",
                where=first.at,
            )
        )
    found += [
        Failure(
            check=name,
            wanted="0",
            got=str(count),
            where=report.special.first.get(name),
        )
        for name, count in report.special.failed.items()
    ]
    return found


def bound_of(
    bound: ErrorBound | None,
    absolute: float | None,
    pointwise_relative: float | None,
    range_relative: float | None,
    *,
    lossless: bool,
) -> ErrorBound | None:
    """Return the one bound that is given, if one is."""
    given = [] if bound is None else [bound]
    for kind, value in (
        (BoundKind.ABSOLUTE, absolute),
        (BoundKind.POINTWISE_RELATIVE, pointwise_relative),
        (BoundKind.RANGE_RELATIVE, range_relative),
        (BoundKind.LOSSLESS, 0.0 if lossless else None),
    ):
        if value is not None:
            given.append(ErrorBound(kind, value))
    if len(given) > 1:
        raise InvalidArgumentError(f"give one bound, got {', '.join(map(str, given))}")
    return given[0] if given else None


def _promise(decoded: Input, given: ErrorBound | None) -> tuple[ErrorBound | None, str]:
    if given is None and decoded.dataset is not None:
        described = describe(decoded.dataset)
        if described is not None:
            return described.bound, "file"
    return given, "given"


def _groups(metrics: Any, need: str | None) -> tuple[frozenset[str], tuple[Metric, ...]]:
    """Tell groups from the caller's own metrics."""
    named: set[str] = set()
    own: list[Metric] = []
    if not isinstance(metrics, Iterable):
        raise InvalidArgumentError(
            f"metrics takes a profile, or names and metrics of your own, got {metrics!r}"
        )
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
            f"{', '.join(sorted(GROUPS))}; got {', '.join(sorted(map(str, unknown)))}"
        )
    names = [metric.name for metric in own]
    if len(set(names)) < len(names) or "ssim_zchecker" in names:
        raise InvalidArgumentError(f"metrics need names of their own, got {', '.join(names)}")
    if any(metric.halo < 0 for metric in own):
        raise InvalidArgumentError("a metric's halo is 0 or more planes")
    wanted = {n.measure.group for n in parse_needs(need)} if need else set()
    return frozenset(named | (wanted - {""})), tuple(own)


def _is_positive(value: Any) -> bool:
    return isinstance(value, Real) and 0 < float(value) < math.inf


def _positive(name: str, value: Any) -> float:
    if not _is_positive(value):
        raise InvalidArgumentError(f"{name} must be greater than 0 and finite, got {value!r}")
    return float(value)


def _integer(name: str, value: Any, least: int, most: int | None = None) -> int:
    found = int(value) if isinstance(value, Integral) else least - 1
    if found < least or (most is not None and found > most):
        allowed = f"{least} or more" if most is None else f"{least} to {most}"
        raise InvalidArgumentError(f"{name} must be {allowed}, got {value!r}")
    return found


def _spacing(spacing: Any, rank: int) -> tuple[float, ...]:
    if spacing is None:
        return (1.0,) * rank
    each = [spacing] * rank if isinstance(spacing, Real) else list(spacing)
    if len(each) != rank or not all(map(_is_positive, each)):
        raise InvalidArgumentError(
            f"spacing must be one number above 0, or one for each of {rank} axes, got {spacing!r}"
        )
    return tuple(map(float, each))


def _window(ssim: Any) -> dict[str, int]:
    if not isinstance(ssim, Mapping | None) or set(ssim or {}) - {"window", "step"}:
        raise InvalidArgumentError(f"ssim takes a dict of window and step, got {ssim!r}")
    given = ssim or {}
    return {
        "window": _integer("ssim's window", given.get("window", 7), 2, _native.ASSESS_MAX_WINDOW),
        "step": _integer("ssim's step", given.get("step", 1), 1),
    }


def _flips(flips: Any) -> tuple[tuple[str, float], ...]:
    most = _native.ASSESS_MAX_FLIPS
    if (
        not isinstance(flips, Mapping | None)
        or len(flips or {}) > most
        or not all(isinstance(v, Real) and math.isfinite(v) for v in (flips or {}).values())
    ):
        raise InvalidArgumentError(
            f"flips takes a dict of up to {most} finite thresholds, got {flips!r}"
        )
    return tuple((str(name), float(value)) for name, value in (flips or {}).items())


def memory_bytes(limit: int | str) -> int:
    """Read a memory limit.

    Examples
    --------
    >>> memory_bytes("256 MiB")
    268435456
    """
    text = str(limit).strip().lower()
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = text[len(digits) :].strip()
    try:
        amount = (
            float(digits) * _UNITS[unit.removesuffix("b") + ("b" if unit else "")]
            if unit
            else float(digits)
        )
    except (ValueError, KeyError):
        raise InvalidArgumentError(
            f'memory_limit must be a number of bytes or like "256 MiB", got {limit!r}'
        ) from None
    if not amount >= 1 << 20:
        raise InvalidArgumentError(f"memory_limit must be 1 MiB or more, got {limit!r}")
    return int(amount)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DivergenceReport:
    """What became of the divergence of a vector field (`assess_divergence`).

    Attributes
    ----------
    points : int
        Points with two valid neighbours along every axis.
    max : float or None
        Largest size in the original.
    rms : float or None
        In the original.
    max_error, rmse : float or None
        None where there is no such point, or a number beyond float64.
    """

    points: int
    max: float | None
    rms: float | None
    max_error: float | None
    rmse: float | None


def assess_divergence(
    original: Sequence[Any],
    decoded: Sequence[Any],
    *,
    spacing: float | Sequence[float] | None = None,
    mask: Any = None,
    memory_limit: int | str = "256 MiB",
) -> DivergenceReport:
    """Measure what became of the divergence of a vector field.

    The divergence is the sum of the central differences of component a along axis a, at points that
    have both neighbours along every axis.

    Parameters
    ----------
    original, decoded : sequence
        One field for each axis, slowest first, each as `assess` takes it.
    spacing : float or sequence of float, optional
        Distance of points along each axis. Default 1.
    mask : array-like of bool, optional
        True where a point is left out.
    memory_limit : int or str, optional

    Returns
    -------
    DivergenceReport

    Raises
    ------
    InvalidArgumentError
        If there are not as many components as axes.

    Examples
    --------
    >>> import numpy as np
    >>> y, x = np.mgrid[0:9, 0:9].astype(float)
    >>> found = assess_divergence([y, -x], [2 * y, -x])
    >>> found.max, found.rmse
    (0.0, 1.0)
    """
    if len(original) != len(decoded) or len(original) == 0:
        raise InvalidArgumentError(
            f"a vector field has one component an axis, got {len(original)} and {len(decoded)}"
        )
    largest = largest_error = 0.0
    squares = error_squares = Wide(0)
    count = 0
    limit = memory_bytes(memory_limit)
    with np.errstate(over="ignore", invalid="ignore"), _all_opened(original, decoded) as components:
        shape = components[0][0].shape
        if len(components) != len(shape) or any(
            c.shape != shape for pair in components for c in pair
        ):
            raise InvalidArgumentError(
                f"a vector field has one component an axis, all of one shape; got "
                f"{len(components)} of shapes {[c.shape for pair in components for c in pair]}"
            )
        steps = _spacing(spacing, len(shape))
        masked = None if mask is None else Mask(mask, shape)
        for pair in components:
            agree_on_packing(*pair, as_stored=False)
        dtypes = [common_dtype(*pair) for pair in components]
        missing = [
            missing_in(*pair, dtype, "auto", ())
            for pair, dtype in zip(components, dtypes, strict=True)
        ]
        inside = tuple(max(0, n - 2) for n in shape)
        most_bytes = limit // (6 * len(shape))  # all components, and what is made of them
        for block in blocks(inside, block_shape(inside, None, 8, most_bytes=most_bytes)):
            own = tuple(slice(s.start, s.stop + 2) for s in block)
            ok: Any = True
            of_x: Any = 0.0
            of_e: Any = 0.0
            for axis, (pair, dtype, none) in enumerate(
                zip(components, dtypes, missing, strict=True)
            ):
                part = Fields(
                    original=pair[0],
                    decoded=pair[1],
                    mask=masked,
                    dtype=dtype,
                    layout=Layout(full_shape=shape, axes=tuple(range(len(shape)))),
                    missing=none,
                )
                x, y, valid = slices(
                    part, own, lambda a, b, m, f=none.fill: count_valid(a, b, m, f)
                )
                of_x = of_x + central_slope(x, axis, steps[axis])
                of_e = of_e + central_slope(y - x, axis, steps[axis])
                around = [slice(1, -1)] * len(shape)
                for shift in (slice(0, -2), slice(2, None)):
                    there = list(around)
                    there[axis] = shift
                    ok = ok & valid[tuple(there)]
            of_x, of_e = of_x[ok], of_e[ok]
            if not of_x.size:
                continue
            count += of_x.size
            # NumPy's maximum: NaN stays.
            largest = float(np.maximum(largest, np.abs(of_x).max()))
            largest_error = float(np.maximum(largest_error, np.abs(of_e).max()))
            squares += _sum_of_squares(of_x)
            error_squares += _sum_of_squares(of_e)
    if not count:
        return DivergenceReport(points=0, max=None, rms=None, max_error=None, rmse=None)

    return DivergenceReport(
        points=count,
        max=known(largest),
        rms=known((squares / Wide(count)).sqrt()),
        max_error=known(largest_error),
        rmse=known((error_squares / Wide(count)).sqrt()),
    )


def _sum_of_squares(values: npt.NDArray[Any]) -> Wide:
    exponent = misfit(np.abs(values).max())
    fitting = np.ldexp(values, -exponent)
    return Wide(float((fitting * fitting).sum()), 2 * exponent)


@contextmanager
def _all_opened(
    original: Sequence[Any], decoded: Sequence[Any]
) -> Iterator[list[tuple[Input, Input]]]:
    with ExitStack() as stack:
        yield [stack.enter_context(opened(x, y)) for x, y in zip(original, decoded, strict=True)]

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""How decoded data differs: ``h5l_assess_*``. ``h5lossy_assess.h`` explains every field."""

from __future__ import annotations

import dataclasses
import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from h5lossy._errors import InvalidArgumentError
from h5lossy._native.frames import BOUND_ABSOLUTE, BOUND_LOSSLESS
from h5lossy._native.library import Library, Struct, file_name
from h5lossy._public import PLUGIN_PATH

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Mask = npt.NDArray[np.uint8] | None

# Not next to the plugin: HDF5 opens every library in that folder.
ASSESS_PATH = Path(PLUGIN_PATH).parent / "lib" / file_name("h5lossy_assess")

_library = Library(ASSESS_PATH, "assess")
ffi, lib = _library.ffi, _library.lib
call, result = _library.call, _library.result

BOUND_NONE: int = lib.H5L_BOUND_NONE
ASSESS_MAX_RANK: int = lib.H5L_ASSESS_MAX_RANK
ASSESS_MAX_LAGS: int = lib.H5L_ASSESS_MAX_LAGS
ASSESS_MAX_WINDOW: int = lib.H5L_ASSESS_MAX_WINDOW
ASSESS_MAX_THRESHOLDS: int = lib.H5L_ASSESS_MAX_THRESHOLDS
ASSESS_LISTED: int = lib.H5L_ASSESS_LISTED


@dataclass(frozen=True, kw_only=True)
class AssessParams(Struct):
    """``h5l_assess_params``: what to assess."""

    value_bytes: int
    original_big_endian: bool = False
    decoded_big_endian: bool = False
    fill_bits: int | None = None
    bound_kind: int = BOUND_NONE
    limit: tuple[float, float] = (0.0, 0.0)
    half_limit: tuple[float, float] = (0.0, 0.0)
    histogram_limit: float = 0.0
    pointwise_threshold: float = 0.0
    thresholds: tuple[float, ...] = ()
    threads: int = 0
    lags: int = 0
    stencils: bool = False
    window: tuple[int, ...] = ()
    step: int = 1
    shape: tuple[int, ...] = ()
    spacing: tuple[float, ...] = ()
    value_range: float = 0.0
    on_device: bool = False
    #: The arrays are 64-bit integers, which the library does not support: see `WideState`.
    is_wide: bool = False
    #: The arrays are of the components of complex numbers: see `ComplexState`.
    is_complex: bool = False
    #: Bounds that the library does not support: noise with its floor, and moduli.
    noise: tuple[float, int] | None = None
    modulus: float | None = None

    def _derived(self) -> dict[str, Any]:
        return {
            "has_fill": self.fill_bits is not None,
            "fill_bits": self.fill_bits or 0,
            "threshold_count": len(self.thresholds),
            "rank": len(self.shape),
        }


@dataclass(frozen=True, kw_only=True)
class Piece(Struct):
    """``h5l_assess_piece``: a part of a field; its values are adjacent along the last axis."""

    original: npt.NDArray[Any]
    decoded: npt.NDArray[Any]
    mask: npt.NDArray[np.uint8] | None
    origin: tuple[int, ...]
    own_origin: tuple[int, ...]
    own_extent: tuple[int, ...]

    def _derived(self) -> dict[str, Any]:
        return {
            "original_strides": self.original.strides,
            "decoded_strides": self.decoded.strides,
            "mask_strides": () if self.mask is None else self.mask.strides,
            "extent": self.original.shape,
        }


@dataclass(frozen=True, kw_only=True)
class Point(Struct):
    """``h5l_assess_point``: a point's number in C order, and its values."""

    at: int
    original: float
    decoded: float


@dataclass(frozen=True, kw_only=True)
class PointsResult(Struct):
    """``h5l_assess_points_result``."""

    count: int
    valid: int
    masked: int
    special: dict[str, int]
    special_first: dict[str, int]
    original_min: float
    original_max: float
    decoded_min: float
    decoded_max: float
    error_min: float
    error_max: float
    error_min_abs: float
    worst: Point
    pointwise_min: float
    pointwise_max: float
    mean_original: float
    mean_error: float
    squares_original: float
    squares_error: float
    products: float
    sum_abs_error: float
    sum_pointwise: float
    zeros: int
    zeros_changed: int
    over_threshold: int
    threshold_crossings: tuple[int, ...]
    violations: int
    listed: tuple[Point, ...]
    grid_exponent: int
    log_bins: npt.NDArray[np.uint64]
    linear_bins: npt.NDArray[np.uint64]
    #: Largest error as a fraction of the bound at its value, for noise and moduli.
    share: float | None
    modulus_max: float | None  # the largest error of a complex number


@dataclass(frozen=True, kw_only=True)
class FieldResult(Struct):
    """``h5l_assess_field_result``."""

    interior: int
    slope_max: tuple[float, ...]
    slope_error_max: tuple[float, ...]
    slope_error_squares: tuple[float, ...]
    curvature_max: tuple[float, ...]
    curvature_error_max: tuple[float, ...]
    curvature_error_squares: tuple[float, ...]
    gradient_min: float
    gradient_max: float
    gradient_error_max: float
    gradient_error_squares: float
    laplacian_squares: float
    laplacian_error_max: float
    laplacian_error_squares: float
    error_squares: float
    pivot_error: float
    lag_pairs: npt.NDArray[np.float64]
    lag_products: npt.NDArray[np.float64]
    lag_sums: npt.NDArray[np.float64]
    windows: int
    window_sum: float
    window_worst: float
    window_at: tuple[int, ...]


#: What became of a special value, in the order of ``H5L_SPECIAL_*``.
SPECIAL_KINDS = (
    "nan_kept",
    "nan_changed",
    "nan_lost",
    "nan_introduced",
    "inf_kept",
    "inf_changed",
    "inf_introduced",
    "fill_kept",
    "fill_lost",
    "fill_introduced",
)


def _record(ctype: str) -> np.dtype[Any]:
    """Return the type of an array of C structs."""
    types = {name: field.type for name, field in ffi.typeof(ctype).fields}
    lengths = {name: (of.length,) if of.kind == "array" else () for name, of in types.items()}
    words = {"uint64_t": "u8", "double": "f8"}
    return np.dtype([(n, words[of.cname.partition("[")[0]], lengths[n]) for n, of in types.items()])


#: One box of `AssessState.boxes`, one slice of `AssessState.dssim`, and of `AssessState.slices`.
BOX_DTYPE = _record("h5l_assess_box")
SLICE_DTYPE = _record("h5l_assess_slice")
SLICE_RESULT_DTYPE = _record("h5l_assess_slice_result")


def compared(
    dtype: np.dtype[Any], fill_bits: int | None, *, is_complex: bool = False
) -> dict[str, Any]:
    """Return the fields of `AssessParams` for two fields of one type; complex: of components."""
    is_big_endian = dtype.newbyteorder("<") != dtype
    return {
        "value_bytes": dtype.itemsize,
        "original_big_endian": is_big_endian,
        "decoded_big_endian": is_big_endian,
        "fill_bits": fill_bits,
        "is_wide": dtype.kind != "f",
        "is_complex": is_complex,
    }


class AssessState:
    """The sums of an assessment so far: ``h5l_assess_begin`` and the calls that follow it.

    Parameters
    ----------
    params : AssessParams
        The same for all calls; a copy with another ``value_range`` may take its place.
    state : bytes, optional
        What another state's `to_bytes` gave.
    """

    def __init__(self, params: AssessParams, state: bytes | None = None) -> None:
        self.params = params
        size = int(lib.h5l_assess_state_bytes())
        self._words = np.zeros(-(-size // 8), np.uint64)
        if state is None:
            call("assess_begin", self._words)
        elif len(state) == self._words.nbytes:
            self._words[:] = np.frombuffer(state, np.uint64)
        else:
            raise InvalidArgumentError(
                f"a state has {self._words.nbytes} bytes in this version, got {len(state)}"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        # An array that was pickled out of band may come back at any address, and read-only.
        return AssessState, (self.params, self.to_bytes())

    @property
    def _params(self) -> AssessParams:
        """The parameters as the library takes them."""
        return self.params

    def to_bytes(self) -> bytes:
        """Return the state as bytes, for a machine of the same byte order."""
        return self._words.tobytes()

    def points(
        self,
        first: int,
        original: npt.NDArray[Any],
        decoded: npt.NDArray[Any],
        mask: npt.NDArray[np.uint8] | None,
    ) -> None:
        """Add points in C order from number `first` on; all arrays are C-contiguous."""
        arrays = (original, decoded, mask)
        call("assess_points", self._params, self._words, first, original.size, *arrays)

    def field(self, piece: Piece) -> None:
        """Add stencils, lags and windows of a piece."""
        call("assess_field", self._params, self._words, piece)

    def boxes(self, piece: Piece, extent: tuple[int, ...], boxes: npt.NDArray[Any]) -> None:
        """Add a piece to boxes of `BOX_DTYPE`."""
        extents = np.ones(ASSESS_MAX_RANK, np.uint64)
        extents[: len(extent)] = extent
        call("assess_boxes", self._params, piece, extents, boxes, boxes.size)

    def ranges(self, piece: Piece, slices: npt.NDArray[Any]) -> None:
        """Widen the ranges of slices, of `SLICE_DTYPE`, by a piece of them."""
        call("assess_ranges", self._params, piece, slices, slices.size)

    def dssim(self, piece: Piece, slices: npt.NDArray[Any]) -> None:
        """Add the data SSIM of a piece to its slices, whose ranges are complete."""
        call("assess_dssim", self._params, piece, slices, slices.size)

    def slices(
        self,
        original: npt.NDArray[Any],
        decoded: npt.NDArray[Any],
        mask: Mask,
        found: npt.NDArray[Any],
    ) -> None:
        """Assess slices along the first axis of C-contiguous arrays, into a `SLICE_RESULT_DTYPE`.

        Their stencils, lags and windows are added to the state. A ``value_range`` of NaN stands for
        that of the original's valid values.
        """
        arrays = (original, decoded, mask)
        call("assess_slices", self._params, self._words, *arrays, found, found.size)

    def merge(self, other: AssessState) -> None:
        """Add the sums of another state, of other points."""
        call("assess_merge", other._params, self._words, other._words)

    def points_result(self) -> PointsResult:
        """Return the results for all points so far."""
        c = ffi.new("h5l_assess_points_result *")
        call("assess_result", self._params, self._words, c, None)
        return PointsResult.from_c(
            c,
            special=dict(zip(SPECIAL_KINDS, c.special, strict=True)),
            special_first=dict(zip(SPECIAL_KINDS, c.special_first, strict=True)),
            worst=Point.from_c(c.worst),
            listed=tuple(Point.from_c(c.violation[i]) for i in range(c.listed)),
            share=None,
            modulus_max=None,
        )

    def field_result(self) -> FieldResult:
        """Return the results for stencils, lags and windows so far."""
        return FieldResult.from_c(result("assess_result", self._params, self._words, None))


#: Replaces the fill value among values in float64: no 64-bit integer is so large.
_FILL = 2.0**65

#: Results that are taken from the errors; all others are taken from the values.
_OF_ERRORS = (
    "error_min",
    "error_max",
    "error_min_abs",
    "mean_error",
    "squares_error",
    "sum_abs_error",
    "grid_exponent",
    "log_bins",
    "linear_bins",
)


def new_state(params: AssessParams) -> AssessState:
    """Return an empty state."""
    if params.is_wide:
        return WideState(params)
    if params.is_complex:
        return ComplexState(params)
    return (AssessState if params.noise is None else NoiseState)(params)


class _JudgingState(AssessState):
    """An `AssessState` that finds violations itself, of bounds that the library does not have."""

    def __init__(self, params: AssessParams, state: bytes | None = None) -> None:
        super().__init__(params, state)
        self.violations = 0
        self.listed: tuple[Point, ...] = ()
        self.share = 0.0

    def __reduce__(self) -> tuple[Any, ...]:
        others = {name: value for name, value in vars(self).items() if name != "_words"}
        return type(self), (self.params, self.to_bytes()), others

    @property
    def _is_judging(self) -> bool:
        """Whether the bound is one of these."""
        return True

    def merge(self, other: AssessState) -> None:
        """Add the sums of another state, of other points."""
        assert isinstance(other, _JudgingState)
        super().merge(other)
        self.violations += other.violations
        self.share = max(self.share, other.share)
        self._list(other.listed)

    def points_result(self) -> PointsResult:
        """Return the results for all points so far."""
        found = super().points_result()
        if not self._is_judging:
            return found
        # After rounding, the fraction may be above 1 even if the bound is kept.
        share = self.share if self.violations else min(self.share, 1.0)
        return dataclasses.replace(
            found, violations=self.violations, listed=self.listed, share=share
        )

    def _take(
        self,
        first: int,
        original: npt.NDArray[Any],
        decoded: npt.NDArray[Any],
        wrong: npt.NDArray[np.intp],
    ) -> None:
        """Count violations, at these places of points from number `first` on; keep the first."""
        self.violations += len(wrong)
        self._list(_point(first, original, decoded, i) for i in wrong[:ASSESS_LISTED].tolist())

    def _list(self, points: Any) -> None:
        """Keep the first violations."""
        self.listed = tuple(sorted((*self.listed, *points), key=attrgetter("at"))[:ASSESS_LISTED])

    def _left_out(self, original: npt.NDArray[Any], mask: Mask) -> Mask:
        """Return the mask with the fill value in it."""
        if self.params.fill_bits is None:
            return mask
        is_fill = _bits(original) == self.params.fill_bits
        return np.asarray(is_fill if mask is None else is_fill | (mask != 0)).view(np.uint8)

    def _errors(
        self, original: npt.NDArray[Any], decoded: npt.NDArray[Any], mask: Mask
    ) -> tuple[Floats, Floats]:
        """Return floats as float64, and their errors, each rounded once; 0 at excluded points."""
        x, y = original.astype(np.float64), decoded.astype(np.float64)
        with np.errstate(all="ignore"):
            errors = y - x
        left_out = self._left_out(original, mask)
        is_counted = np.isfinite(x) & np.isfinite(y)
        if left_out is not None:
            is_counted &= left_out == 0
        return x, np.where(is_counted, errors, 0.0)


class NoiseState(_JudgingState):
    """An `AssessState` for noise bounds, of integers of up to 32 bits in float64."""

    def points(
        self, first: int, original: npt.NDArray[Any], decoded: npt.NDArray[Any], mask: Mask
    ) -> None:
        """Add points in C order from number `first` on."""
        super().points(first, original, decoded, mask)
        assert self.params.noise is not None
        x, errors = self._errors(original, decoded, mask)
        noise, floor = self.params.noise
        sizes, roots = np.abs(errors), np.sqrt(np.abs(x))
        with np.errstate(all="ignore"):
            shares = sizes / np.maximum(noise * roots, floor)
        self.share = max(self.share, float(np.max(shares, initial=0.0, where=sizes != 0)))
        wrong = np.flatnonzero(sizes > noise_limits(noise, floor, np.abs(x)))
        self._take(first, original, decoded, wrong)


def noise_limits(noise: float, floor: int, sizes: Floats) -> Floats:
    """Return ``max(floor, noise * sqrt(size))`` of integers, rounded down, exactly."""
    with np.errstate(invalid="ignore"):  # of NaN
        roots = noise * np.sqrt(sizes)
    limits = np.floor(roots)
    # Together, the two operations are off by at most one unit in the last place.
    is_near = np.flatnonzero(np.floor(roots * (1 - 2**-51)) != np.floor(roots * (1 + 2**-51)))
    if is_near.size:
        own, at = np.unique(sizes[is_near], return_inverse=True)
        square = Fraction(noise) ** 2
        limits[is_near] = np.array([math.isqrt(int(square * int(x))) for x in own], float)[at]
    return np.maximum(limits, floor)


class ComplexState(_JudgingState):
    """An `AssessState` for complex numbers: consecutive components, in pairs.

    The library checks bounds of components. A bound of moduli is checked here: if a number violates
    it, each of its components that is off counts as a violation.
    """

    def __init__(self, params: AssessParams, state: bytes | None = None) -> None:
        super().__init__(params, state)
        self.modulus_max = 0.0

    @property
    def _is_judging(self) -> bool:
        return self.params.modulus is not None

    def points(
        self, first: int, original: npt.NDArray[Any], decoded: npt.NDArray[Any], mask: Mask
    ) -> None:
        """Add points in C order from number `first` on, which is even."""
        super().points(first, original, decoded, mask)
        _, errors = self._errors(original, decoded, mask)
        pairs = errors.reshape(-1, 2)
        moduli = np.hypot(pairs[:, 0], pairs[:, 1])
        self.modulus_max = max(self.modulus_max, float(moduli.max(initial=0.0)))
        limit = self.params.modulus
        if limit is None:
            return
        self.share = self.modulus_max / limit
        slack = limit * 2**-50 + 2**-1070  # three roundings are off by less
        wrong = moduli > limit + slack
        for i in np.flatnonzero((moduli >= limit - slack) & ~wrong).tolist():
            pair = slice(2 * i, 2 * i + 2)
            wrong[i] = self._is_over(original[pair], decoded[pair], pairs[i])
        places = np.flatnonzero((wrong[:, np.newaxis] & (pairs != 0)).reshape(-1))
        self._take(first, original, decoded, places)

    def _is_over(self, original: Any, decoded: Any, errors: Floats) -> bool:
        """Return whether the modulus of an error is above the bound, in exact arithmetic."""
        square = sum(
            (Fraction(float(y)) - Fraction(float(x))) ** 2
            for x, y, error in zip(original, decoded, errors, strict=True)
            if error
        )
        assert self.params.modulus is not None
        return square > Fraction(self.params.modulus) ** 2

    def merge(self, other: AssessState) -> None:
        """Add the sums of another state, of other points."""
        assert isinstance(other, ComplexState)
        super().merge(other)
        self.modulus_max = max(self.modulus_max, other.modulus_max)

    def points_result(self) -> PointsResult:
        """Return the results for all points so far."""
        return dataclasses.replace(super().points_result(), modulus_max=self.modulus_max)


class WideState(_JudgingState):
    """An `AssessState` for integers of 64 bits, signed or not, of either byte order.

    The library computes in float64, which holds integers only up to 2**53 exactly. It gets the
    rounded values, and in a second state the exact differences, each rounded once. Violations of an
    absolute bound are decided here, in integers. Neighbours are compared as rounded values.
    """

    def __init__(self, params: AssessParams, state: bytes | None = None) -> None:
        super().__init__(params, state)
        own = dataclasses.replace(self._params, fill_bits=None, bound_kind=BOUND_NONE)
        self.errors = AssessState(own)
        self.worst: tuple[int, Point] | None = None
        self.became_fill = 0  # values that became the fill value, and count as values
        self.first_became_fill: int | None = None

    @property
    def _is_judging(self) -> bool:
        return self.params.bound_kind in {BOUND_ABSOLUTE, BOUND_LOSSLESS}

    @property
    def _params(self) -> AssessParams:
        """The parameters for the values in float64."""
        params = self.params
        return dataclasses.replace(
            params,
            original_big_endian=False,
            decoded_big_endian=False,
            fill_bits=params.fill_bits and int(np.array(_FILL).view(np.uint64)),
            bound_kind=BOUND_NONE if self._is_judging else params.bound_kind,
        )

    @functools.cached_property
    def _limit(self) -> int | None:
        """The largest difference that the bound allows."""
        if self.params.bound_kind == BOUND_LOSSLESS:
            return 0
        is_absolute = self.params.bound_kind == BOUND_ABSOLUTE
        return math.floor(sum(map(Fraction, self.params.limit))) if is_absolute else None

    def points(
        self, first: int, original: npt.NDArray[Any], decoded: npt.NDArray[Any], mask: Mask
    ) -> None:
        """Add points in C order from number `first` on."""
        x, y = self._floats(original), self._floats(decoded)
        became = np.flatnonzero((y == _FILL) & (x != _FILL) & (True if mask is None else mask == 0))
        if became.size:
            y[became] = decoded[became]
            self._take_became_fill(became.size, first + int(became[0]))
        super().points(first, x, y, mask)
        errors, sizes = _differences(original, decoded)
        left_out = self._left_out(original, mask)
        self.errors.points(first, np.zeros_like(errors), errors, left_out)
        if left_out is not None:
            sizes[left_out != 0] = 0
        if sizes.size:
            i = int(sizes.argmax())
            if left_out is None or not left_out[i]:
                self._take_worst((int(sizes[i]), _point(first, original, decoded, i)))
        if self._limit is not None and self._limit < 1 << 64:
            wrong = np.flatnonzero(sizes > np.uint64(self._limit))
            self._take(first, original, decoded, wrong)

    def field(self, piece: Piece) -> None:
        """Add stencils, lags and windows of a piece."""
        super().field(self._as_numbers(piece))

    def ranges(self, piece: Piece, slices: npt.NDArray[Any]) -> None:
        """Widen the ranges of slices."""
        super().ranges(self._as_numbers(piece), slices)

    def dssim(self, piece: Piece, slices: npt.NDArray[Any]) -> None:
        """Add the data SSIM of a piece to its slices."""
        super().dssim(self._as_numbers(piece), slices)

    def slices(
        self,
        original: npt.NDArray[Any],
        decoded: npt.NDArray[Any],
        mask: Mask,
        found: npt.NDArray[Any],
    ) -> None:
        """Assess slices along the first axis, whose ranges are given."""
        super().slices(self._floats(original), decoded.astype(np.float64), mask, found)
        errors, _ = _differences(original, decoded)
        of_errors = np.zeros(found.shape, SLICE_RESULT_DTYPE)
        points = dataclasses.replace(self.errors.params, lags=0, stencils=False, window=())
        state = AssessState(points)
        state.slices(np.zeros_like(errors), errors, self._left_out(original, mask), of_errors)
        for name in set(_OF_ERRORS) & set(SLICE_RESULT_DTYPE.names or ()):
            found[name] = of_errors[name]

    def boxes(self, piece: Piece, extent: tuple[int, ...], boxes: npt.NDArray[Any]) -> None:
        """Add a piece to boxes of `BOX_DTYPE`."""
        of_values, of_errors = (np.zeros(boxes.size, BOX_DTYPE) for _ in range(2))
        super().boxes(self._rounded(piece), extent, of_values)
        errors, _ = _differences(piece.original, piece.decoded)
        left_out = self._left_out(piece.original, piece.mask)
        exact = dataclasses.replace(
            piece, original=np.zeros_like(errors), decoded=errors, mask=left_out
        )
        self.errors.boxes(exact, extent, of_errors)
        for name in ("valid", "special_failures"):
            boxes[name] += of_values[name]
        boxes["error_squares"] += of_errors["error_squares"]
        np.maximum(boxes["error_max_abs"], of_errors["error_max_abs"], out=boxes["error_max_abs"])

    def merge(self, other: AssessState) -> None:
        """Add the sums of another state, of other points."""
        assert isinstance(other, WideState)
        super().merge(other)
        self.errors.merge(other.errors)
        if other.worst is not None:
            self._take_worst(other.worst)
        if other.first_became_fill is not None:
            self._take_became_fill(other.became_fill, other.first_became_fill)

    def points_result(self) -> PointsResult:
        """Return the results for all points so far."""
        found, errors = super().points_result(), self.errors.points_result()
        own: dict[str, Any] = {name: getattr(errors, name) for name in _OF_ERRORS}
        if self.worst is not None:
            own["worst"] = self.worst[1]
        if self.first_became_fill is not None:
            own["special"] = found.special | {"fill_introduced": self.became_fill}
            own["special_first"] = found.special_first | {"fill_introduced": self.first_became_fill}
        return dataclasses.replace(found, **own, share=None)

    def _floats(self, values: npt.NDArray[Any]) -> Floats:
        """Return values as the library takes them."""
        rounded = values.astype(np.float64)
        if self.params.fill_bits:  # 0 is exact in float64, too
            rounded[_bits(values) == self.params.fill_bits] = _FILL
        return rounded

    def _rounded(self, piece: Piece) -> Piece:
        both = self._floats(piece.original), self._floats(piece.decoded)
        return dataclasses.replace(piece, original=both[0], decoded=both[1])

    def _as_numbers(self, piece: Piece) -> Piece:
        """Do the same; a decoded value that became the fill value counts as a value."""
        return dataclasses.replace(self._rounded(piece), decoded=piece.decoded.astype(np.float64))

    def _take_became_fill(self, count: int, first: int) -> None:
        """Count values that became the fill value; keep the first place."""
        before = self.first_became_fill
        self.became_fill += count
        self.first_became_fill = first if before is None else min(before, first)

    def _take_worst(self, found: tuple[int, Point]) -> None:
        """Keep the largest difference, the first of equal ones."""
        before = self.worst
        if before is None or (found[0], -found[1].at) > (before[0], -before[1].at):
            self.worst = found


def _point(first: int, original: npt.NDArray[Any], decoded: npt.NDArray[Any], i: int) -> Point:
    """Return a point whose integers stay integers, since float64 may not hold them."""
    return Point(at=first + i, original=original[i].item(), decoded=decoded[i].item())


def _bits(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the bits of values as numbers."""
    words = values.view(np.dtype(f"u{values.itemsize}").newbyteorder(values.dtype.byteorder))
    return words.astype(words.dtype.newbyteorder("="), copy=False)


def _differences(
    original: npt.NDArray[Any], decoded: npt.NDArray[Any]
) -> tuple[Floats, npt.NDArray[np.uint64]]:
    """Return the errors, rounded, and their sizes."""
    is_less = decoded < original
    difference = _bits(decoded) - _bits(original)  # modulo 2**64
    sizes = np.where(is_less, -difference, difference)
    errors = sizes.astype(np.float64)
    return np.where(is_less, -errors, errors), sizes

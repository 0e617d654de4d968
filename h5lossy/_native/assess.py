# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""What decoded data differs by: ``h5l_assess_*``. ``h5lossy_assess.h`` explains every field."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from h5lossy._errors import InvalidArgumentError
from h5lossy._native.library import Library, Struct
from h5lossy._public import PLUGIN_PATH

if TYPE_CHECKING:
    import numpy.typing as npt

# Not beside the plugin: HDF5 opens every library in that folder.
ASSESS_PATH = Path(PLUGIN_PATH).parent / "lib" / "libh5lossy_assess.so"

_library = Library(ASSESS_PATH, "assess")
ffi, lib = _library.ffi, _library.lib
call, result = _library.call, _library.result

BOUND_NONE: int = lib.H5L_BOUND_NONE
ASSESS_MAX_RANK: int = lib.H5L_ASSESS_MAX_RANK
ASSESS_MAX_LAGS: int = lib.H5L_ASSESS_MAX_LAGS
ASSESS_MAX_WINDOW: int = lib.H5L_ASSESS_MAX_WINDOW
ASSESS_MAX_THRESHOLDS: int = lib.H5L_ASSESS_MAX_THRESHOLDS


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
    window: int = 0
    step: int = 1
    shape: tuple[int, ...] = ()
    spacing: tuple[float, ...] = ()
    value_range: float = 0.0
    on_device: bool = False

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


@dataclass(frozen=True, kw_only=True)
class FieldResult(Struct):
    """``h5l_assess_field_result``."""

    interior: int
    slope_max: tuple[float, ...]
    slope_error_max: tuple[float, ...]
    slope_error_squares: tuple[float, ...]
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

#: One box of `AssessState.boxes`.
BOX_DTYPE = np.dtype(
    [
        ("valid", np.uint64),
        ("special_failures", np.uint64),
        ("error_max_abs", np.float64),
        ("error_squares", np.float64),
    ]
)


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

    def __reduce__(self) -> tuple[type[AssessState], tuple[AssessParams, bytes]]:
        # An array that is pickled out of band may come back at any address, and read-only.
        return AssessState, (self.params, self.to_bytes())

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
        """Take points in C order from number `first` on; all arrays are C-contiguous."""
        arrays = (original, decoded, mask)
        call("assess_points", self.params, self._words, first, original.size, *arrays)

    def field(self, piece: Piece) -> None:
        """Take stencils, lags and windows of a piece."""
        call("assess_field", self.params, self._words, piece)

    def boxes(self, piece: Piece, extent: tuple[int, ...], boxes: npt.NDArray[Any]) -> None:
        """Add a piece to boxes of `BOX_DTYPE`."""
        extents = np.ones(ASSESS_MAX_RANK, np.uint64)
        extents[: len(extent)] = extent
        call("assess_boxes", self.params, piece, extents, boxes, boxes.size)

    def merge(self, other: AssessState) -> None:
        """Add the sums of another state, of other points."""
        call("assess_merge", other.params, self._words, other._words)

    def points_result(self) -> PointsResult:
        """Return the results for all points so far."""
        c = ffi.new("h5l_assess_points_result *")
        call("assess_result", self.params, self._words, c, None)
        return PointsResult.from_c(
            c,
            special=dict(zip(SPECIAL_KINDS, c.special, strict=True)),
            special_first=dict(zip(SPECIAL_KINDS, c.special_first, strict=True)),
            worst=Point.from_c(c.worst),
            listed=tuple(Point.from_c(c.violation[i]) for i in range(c.listed)),
        )

    def field_result(self) -> FieldResult:
        """Return the results for stencils, lags and windows so far."""
        return FieldResult.from_c(result("assess_result", self.params, self._words, None))

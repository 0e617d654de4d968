# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Which values of a field are no data, for all functions that take a range, compress or compare.

There are three sources: the fill value of an HDF5 dataset, the attributes of the netCDF and CF
conventions (``_FillValue``, ``missing_value``, ``valid_min``, ``valid_max``, ``valid_range``), and
the caller's arguments. A *missing* value has to be restored bit for bit; a value *outside* of the
valid interval keeps the bound; neither counts in a range or a metric.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from h5lossy._attributes import attribute_of
from h5lossy._blocks import chunk_starts, grid_of
from h5lossy._errors import InvalidArgumentError, UnsupportedError
from h5lossy._values import as_bits, checked_fill_value, fill_bits, own_fill_value

if TYPE_CHECKING:
    import h5py
    import numpy.typing as npt

#: What `Missing.mark` writes; the points that the mask itself leaves out are 1.
MISSING, OUTSIDE = 2, 3


class Changes(NamedTuple):
    """Points of two fields that are data in only one of them, or whose missing value changed."""

    #: Missing in the original, and other bits in the other field; or invalid only in the original.
    lost: npt.NDArray[np.bool_]
    #: Data in the original, and missing or invalid in the other field.
    introduced: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Missing:
    """Which finite values of one type are no data. NaN and infinities never are.

    Attributes
    ----------
    dtype : numpy.dtype
    fill : numpy scalar or None
        The fill value, compared bit for bit; never NaN.
    values : tuple of numpy scalars
        Further missing values, compared with ``==``.
    low, high : numpy scalar or None
        Values below or above these are invalid.
    """

    dtype: np.dtype[Any]
    fill: Any = None
    values: tuple[Any, ...] = ()
    low: Any = None
    high: Any = None

    @property
    def fill_bits(self) -> int | None:
        """The fill value as the library takes it."""
        return fill_bits(self.fill, self.dtype)

    @property
    def has_more(self) -> bool:
        """Whether there is more than the fill value, all that the native library handles."""
        return bool(self.values) or self.low is not None or self.high is not None

    @property
    def says_nothing(self) -> bool:
        """Whether every finite value is data."""
        return self.fill is None and not self.has_more

    def as_type(self, dtype: np.dtype[Any]) -> Missing:
        """Return the same values in another type, which holds them exactly."""

        def typed(value: Any) -> Any:
            return None if value is None else np.asarray(value).astype(dtype)[()]

        return Missing(
            dtype,
            typed(self.fill),
            tuple(map(typed, self.values)),
            typed(self.low),
            typed(self.high),
        )

    def with_fill(self, fill_value: Any) -> Missing:
        """Return the same with another fill value; the previous one becomes a missing value.

        A missing value of 0 remains one even if it is also the fill value: the filter keeps the
        bits of 0, but lets other values become 0.
        """
        fill = _as_fill(fill_value, self.dtype)
        before = () if self.fill is None or self.fill == fill else (self.fill,)
        values = [v for v in (*before, *self.values) if fill is None or v != fill or v == 0]
        return dataclasses.replace(self, fill=fill, values=tuple(dict.fromkeys(values)))

    def missing(self, values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Return which values are missing, other than the fill value."""
        found = np.zeros(values.shape, np.bool_)
        for value in self.values:
            found |= values == value
        return found

    def outside(self, values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Return which finite values are invalid, and neither missing nor the fill value."""
        found = np.zeros(values.shape, np.bool_)
        if self.low is None and self.high is None:
            return found
        if self.low is not None:
            found |= values < self.low
        if self.high is not None:
            found |= values > self.high
        return np.asarray(found & ~self._is_special(values) & ~self.missing(values))

    def mark(
        self, values: npt.NDArray[Any], mask: npt.NDArray[Any] | None = None
    ) -> npt.NDArray[np.uint8]:
        """Add `MISSING` and `OUTSIDE` to a mask where it is 0."""
        marks = np.zeros(values.shape, np.uint8) if mask is None else mask.astype(np.uint8)
        free = marks == 0
        marks[free & self.missing(values)] = MISSING
        marks[free & self.outside(values)] = OUTSIDE
        return marks

    def blanked(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return values with NaN for everything that is no data, except the fill value."""
        if not self.has_more:
            return values
        blanked = np.array(values, order="C")
        blanked[self.missing(values) | self.outside(values)] = np.nan
        return blanked

    def changes(self, original: npt.NDArray[Any], decoded: npt.NDArray[Any]) -> Changes:
        """Compare two arrays of `dtype`; the native library compares the fill value itself."""
        was, now = self.missing(original), self.missing(decoded)
        out, still_out = self.outside(original), self.outside(decoded)
        data = ~was & ~self._is_special(original)
        back = out & ~still_out & ~now & ~self._is_special(decoded)
        return Changes(
            lost=(was & (_native_bits(original) != _native_bits(decoded))) | back,
            introduced=data & (now | (still_out & ~out)),
        )

    def _is_special(self, values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Return which values are NaN, infinite or the fill value."""
        special = ~np.isfinite(values)
        if self.fill is not None:
            special |= values == self.fill
        return np.asarray(special)


def _native_bits(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return values such that unequal bits are unequal."""
    return as_bits(np.ascontiguousarray(values)) if values.dtype.kind == "f" else values


def missing_of(data: Any, fill_value: Any = "auto", missing_value: Any = ()) -> Missing:
    """Return which values of a field are no data.

    Parameters
    ----------
    data : array_like
        With a dtype. The attributes of `h5py.Dataset`, variables of netCDF4 and h5netcdf, and
        xarray's arrays are used; xarray removes those that it has applied.
    fill_value : number, "auto" or None
        Replaces the field's own, HDF5's or that of ``_FillValue``. None: all finite values are
        data, whatever the attributes say.
    missing_value : number or sequence of numbers
        Missing in addition to what the attributes say.

    Returns
    -------
    Missing

    Raises
    ------
    InvalidArgumentError
        If an argument is not allowed.

    Warns
    -----
    RuntimeWarning
        If an attribute is invalid, and so ignored: text, a wrong size, an empty interval.
    """
    dtype = np.dtype(data.dtype)
    if isinstance(fill_value, str) and fill_value != "auto":
        raise InvalidArgumentError(
            f'fill_value must be a number, None or "auto", got {fill_value!r}'
        )
    if dtype.kind not in "fiu":
        return Missing(dtype)
    given = _given(missing_value, dtype)
    if fill_value is None:
        return Missing(dtype, values=given).with_fill(None)
    attributes = _Attributes(data, dtype)
    low, high = attributes.interval()
    declared = attributes.numbers("_FillValue", 1, 1)
    values = _finite(attributes.numbers("missing_value"))
    if isinstance(fill_value, str):
        values = (*_finite(declared), *values)
        own = own_fill_value(data)
        fill_value = declared[0] if own is None and len(declared) else own
    return Missing(dtype, values=(*values, *given), low=low, high=high).with_fill(fill_value)


def missing_when_stored(dataset: h5py.Dataset, missing_value: Any = ()) -> Missing:
    """Return which values of a dataset are no data; `fill` is what its copy gets as fill value.

    The filter keeps only HDF5's fill value bit for bit. A dataset without a fill value of its own
    gets its first missing value, if that makes no difference to readers: all chunks are stored and
    the dataset can't grow, so that the fill value is never read from unwritten space.
    """
    own = own_fill_value(dataset)
    found = missing_of(dataset, missing_value=missing_value).with_fill(own)
    others = [value for value in found.values if value != 0]
    if own is not None or not others or dataset.maxshape != dataset.shape:
        return found
    if dataset.chunks:
        is_whole = len(set(chunk_starts(dataset))) == math.prod(grid_of(dataset))
    else:
        is_whole = dataset.id.get_storage_size() >= dataset.nbytes
    return found.with_fill(others[0]) if is_whole else found


@dataclass(frozen=True)
class _Attributes:
    """The attributes of a field, as numbers of the field's type."""

    data: Any
    dtype: np.dtype[Any]

    def numbers(self, name: str, least: int = 1, most: int | None = None) -> npt.NDArray[Any]:
        """Return an attribute's numbers; none, with a warning, if they are invalid."""
        nothing = np.empty(0, self.dtype)
        try:
            value = attribute_of(self.data, name)
        except UnsupportedError as error:
            self._warn(name, f"is ignored, since it can't be read: {error.__cause__}")
            return nothing
        if value is None:
            return nothing
        given = np.ravel(np.asarray(value))
        if given.dtype.kind not in "fiu":
            self._warn(name, f"is ignored, since it is not a number, but {value!r}")
            return nothing
        if len(given) < least or (most is not None and len(given) > most):
            wanted = f"{least} or more" if most is None else str(least)
            self._warn(name, f"is ignored, since it has {len(given)} numbers instead of {wanted}")
            return nothing
        # An attribute set by hand is often float64: 1e20 then means the nearest float32. A number
        # that the type does not have is no value of the field.
        with np.errstate(all="ignore"):
            typed = given.astype(self.dtype)
            there = np.isfinite(typed) if self.dtype.kind == "f" else typed == given
        return typed if least == most else typed[there | np.isnan(typed)]

    def interval(self) -> tuple[Any, Any]:
        """Return the smallest and the largest valid value, each None if there is no limit."""
        ends = self.numbers("valid_range", 2, 2)
        single = [self.numbers(name, 1, 1) for name in ("valid_min", "valid_max")]
        if len(ends) and any(map(len, single)):
            self._warn("valid_range", "is used, and valid_min and valid_max are ignored")
        name = "valid_range" if len(ends) else "valid_min or valid_max"
        low, high = ends if len(ends) else (end[0] if len(end) else None for end in single)
        given = [end for end in (low, high) if end is not None]
        if any(np.isnan(end) for end in given) or (len(given) == 2 and not given[0] <= given[1]):
            ends_text = " to ".join(map(str, given))
            self._warn(name, f"is ignored, since no value would be valid: {ends_text}")
            return None, None
        return low, high

    def _warn(self, name: str, why: str) -> None:
        """Warn of an attribute."""
        where = getattr(self.data, "name", None) or "the field"
        warnings.warn(f"{where}: attribute {name} {why}", RuntimeWarning, stacklevel=2)


def _finite(values: npt.NDArray[Any]) -> tuple[Any, ...]:
    """Return the finite numbers: NaN and infinities are never data."""
    return tuple(value for value in values if np.isfinite(value))


def _given(missing_value: Any, dtype: np.dtype[Any]) -> tuple[Any, ...]:
    """Return the missing values that a caller gives, in the given type."""
    given = np.asarray(missing_value)
    if given.size and given.dtype.kind not in "fiu":
        raise InvalidArgumentError(
            f"missing_value must be a number, or several of them, got {missing_value!r}"
        )
    with np.errstate(all="ignore"):
        typed = np.ravel(given).astype(dtype)
    if dtype.kind != "f":
        typed = typed[typed == np.ravel(given)]
    return _finite(typed)


def _as_fill(fill_value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a fill value in the given type; None if there is none, or if it is NaN."""
    if fill_value is None:
        return None
    fill = checked_fill_value(fill_value, dtype)
    return None if np.isnan(fill) else fill[()]

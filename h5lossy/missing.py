# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Which values of a field are no data, for all functions that need a range, compress or compare.

`no_data` defines this by value: the fill value of an HDF5 dataset or of a masked array, the
attributes of the netCDF and CF conventions (``_FillValue``, ``missing_value``, ``valid_min``,
``valid_max``, ``valid_range``) and the caller's arguments. A *missing* value has to be restored bit
for bit; a value *outside* of the valid interval keeps the bound; neither counts in a range or a
metric.

A mask defines it by place. Masked points do not count either, and are stored as the fill value
(`h5lossy._values.unmasked`).
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from h5lossy import _native
from h5lossy._blocks import chunk_starts, grid_of
from h5lossy._bounds import BoundKind
from h5lossy._errors import InvalidArgumentError, UnsupportedError
from h5lossy._values import (
    as_bits,
    as_list,
    as_real,
    checked_fill_value,
    complex_fill_value,
    fill_bits,
    has_equal_components,
    has_words,
    is_float,
    is_half,
    own_fill_value,
    real_dtype,
)
from h5lossy._variables import attribute_of, require_open
from h5lossy._warnings import warn

if TYPE_CHECKING:
    from collections.abc import Mapping

    import h5py
    import numpy.typing as npt


#: The marks that `Missing.mark` writes; points that the mask itself excludes are 1.
MISSING, OUTSIDE = 2, 3


class Changes(NamedTuple):
    """Points of two fields that are data in only one of them, or whose missing value changed."""

    #: Missing in the original, with other bits in the other field; or invalid only in the original.
    lost: npt.NDArray[np.bool_]
    #: Data in the original, and missing or invalid in the other field.
    introduced: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Missing:
    """Which finite values of one type are no data. NaN and infinities never are.

    Attributes
    ----------
    fill : numpy scalar or None
        The fill value, compared bit for bit; never NaN. For complex numbers that of components,
        each of which counts separately.
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
        """Whether there is more than the fill value, the only one the native library handles."""
        return bool(self.values) or self.low is not None or self.high is not None

    @property
    def is_empty(self) -> bool:
        """Whether every finite value is data."""
        return self.fill is None and not self.has_more

    def as_type(self, dtype: np.dtype[Any]) -> Missing:
        """Return the same for another type, with the nearest values that it can hold."""

        def typed(value: Any) -> Any:
            with np.errstate(over="ignore"):
                return None if value is None else np.asarray(value).astype(dtype)[()]

        values = tuple(value for value in map(typed, self.values) if np.isfinite(value))
        return Missing(dtype, typed(self.fill), values, typed(self.low), typed(self.high))

    def of_reals(self) -> Missing:
        """Return the same for what `h5lossy._values.as_reals` makes of values."""
        fill = self.fill.real if self.dtype.kind == "c" and self.fill is not None else self.fill
        return dataclasses.replace(self, fill=fill).as_type(real_dtype(self.dtype))

    def with_fill(self, fill_value: Any) -> Missing:
        """Return the same with another fill value; the previous one becomes a missing value."""
        if fill_value is None and self.is_empty:
            return self
        fill = None if fill_value is None else checked_fill_value(fill_value, self.dtype)[()]
        if fill is not None and np.isnan(fill):
            fill = None
        before = () if self.fill is None or self.fill == fill else (self.fill,)
        # 0 remains a missing value, since the filter lets other values become 0.
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

    def is_data(
        self, values: npt.NDArray[Any], mask: npt.NDArray[Any] | None = None
    ) -> npt.NDArray[np.bool_]:
        """Return which values are valid, and not in the mask."""
        return np.asarray((self.mark(values, mask) == 0) & ~self._is_special(values))

    def blanked(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return floats with NaN for everything that is no data, except the fill value."""
        if not self.has_more:
            return values
        blanked = np.array(values, order="C")
        blanked[self.missing(values) | self.outside(values)] = np.nan
        return blanked

    def changes(
        self, original: npt.NDArray[Any], decoded: npt.NDArray[Any], *, lossless: bool
    ) -> Changes:
        """Compare two arrays of `dtype`; the native library compares the fill value itself.

        Unless the bound is `lossless`, a zero may lose its sign, even if 0 is a missing value.
        """
        was, now = self.missing(original), self.missing(decoded)
        out, still_out = self.outside(original), self.outside(decoded)
        data = ~was & ~self._is_special(original)
        back = out & ~still_out & ~now & ~self._is_special(decoded)
        differ = _native_bits(original) != _native_bits(decoded)
        if not lossless:
            differ &= (original != 0) | (decoded != 0)
        return Changes(
            lost=(was & differ) | back,
            introduced=data & (now | (still_out & ~out)),
        )

    def _is_special(self, values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Return which values are NaN, infinite or the fill value."""
        special = ~np.isfinite(values)
        if self.fill is not None:
            special |= values == self.fill
        return np.asarray(special)


def _native_bits(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return values such that values with different bits are unequal."""
    return as_bits(np.ascontiguousarray(values)) if is_float(values.dtype) else values


def no_data(
    data: Any, fill_value: Any = "auto", missing_value: Any = (), *, lossless: bool = False
) -> Missing:
    """Return which values of a field are no data.

    Parameters
    ----------
    data : array_like
        With a dtype: a NumPy array, masked or not; an `h5py.Dataset`, or a variable of netCDF4 or
        h5netcdf, with its attributes; an array of xarray, with its attributes, and what xarray has
        moved to its encoding. What attributes declare is of the data's own type: the nearest value.
        An attribute that is invalid (text, a wrong size, an empty interval) is ignored with a
        RuntimeWarning.
    fill_value : number, "auto" or None
        Replaces the field's own: HDF5's, that of ``_FillValue``, or of an array with masked points.
        None: all finite values are data, whatever the field declares.
    missing_value : number or sequence of numbers
        Missing in addition to what the field declares.
    lossless : bool
        Whether all values are kept. Then complex numbers may have any fill value; if its components
        differ, it is a number like others.
    """
    require_open(data)
    dtype = np.dtype(data.dtype)
    is_own = isinstance(fill_value, str)
    if is_own and fill_value != "auto":
        raise InvalidArgumentError(
            f'fill_value must be a number, None or "auto", got {fill_value!r}'
        )
    if dtype.kind == "c":
        return _no_complex_data(data, fill_value, missing_value, lossless=lossless)
    if not (is_float(dtype) or dtype.kind in "iu"):
        return Missing(dtype)
    given = _given(missing_value, dtype)
    if fill_value is None or isinstance(data, np.ndarray):  # which has no attributes
        fill = own_fill_value(data) if is_own else fill_value
        return Missing(dtype, values=given).with_fill(fill)
    attributes = _Attributes(data, dtype)
    low, high = attributes.interval()
    declared = attributes.numbers("_FillValue", 1)
    values = _finite(attributes.numbers("missing_value"))
    if is_own:
        values = (*_finite(declared), *values)
        own = own_fill_value(data)
        fill_value = declared[0] if own is None and len(declared) else own
    return Missing(dtype, values=(*values, *given), low=low, high=high).with_fill(fill_value)


def _no_complex_data(data: Any, fill_value: Any, missing_value: Any, *, lossless: bool) -> Missing:
    """Return which complex numbers are no data: those that hold the fill value in a component."""
    if as_list(missing_value):
        raise InvalidArgumentError(
            "missing_value is for real numbers; of complex ones, the fill value and NaN mark what "
            f"is missing, not {missing_value!r}"
        )
    found = Missing(np.dtype(data.dtype))
    is_own = isinstance(fill_value, str)
    given = own_fill_value(data) if is_own else fill_value
    if given is not None and (is_own or lossless):
        given = complex_fill_value(given, found.dtype)
        given = given if has_equal_components(given) else None
    return found.with_fill(given)


def missing_when_stored(dataset: h5py.Dataset, missing_value: Any = ()) -> Missing:
    """Return which values of a dataset are no data; `fill` is what its copy gets as fill value.

    The filter keeps only HDF5's fill value bit for bit. A dataset without a fill value of its own
    gets its first missing value, if that makes no difference to readers: all chunks are stored and
    the dataset can't grow, so that the fill value is never read from unwritten space.
    """
    if dataset.dtype.kind == "c":  # what a whole file's missing values are, no component is
        return no_data(dataset)
    own = own_fill_value(dataset)
    found = no_data(dataset, missing_value=missing_value).with_fill(own)
    others = [value for value in found.values if value != 0]
    if own is not None or not others or dataset.maxshape != dataset.shape:
        return found
    if dataset.chunks:
        is_whole = len(set(chunk_starts(dataset))) == math.prod(grid_of(dataset))
    else:
        is_whole = dataset.id.get_storage_size() >= dataset.nbytes
    return found.with_fill(others[0]) if is_whole else found


def warn_of_zero(name: Any, fill_value: Any, codec: Any) -> None:
    """Warn of a fill value of 0 or -0 where other values become 0 under the bound."""
    is_exact = 0 in codec.params().exact or 0 in codec.safeguards.thresholds
    kinds = {BoundKind.ABSOLUTE, BoundKind.RANGE_RELATIVE}
    if fill_value == 0 and codec.bound.kind in kinds and not is_exact:
        warn(
            f"{name}: its fill value is {fill_value}, and values closer to 0 than the bound become "
            "0, which readers take for missing; choose another fill value, such as NaN, or give "
            "the codec thresholds=0"
        )


#: A bound is reduced by at most 1 / _FINEST to keep missing values exact.
_FINEST = 16

#: For more missing values than this, no bound is searched: hardly any keeps them all, and the time
#: grows with the square of their number.
_MOST_MISSING = 16


def keeping_missing(codec: Any, missing: Missing) -> Any:
    """Return a codec that keeps the missing values exact, if there is one.

    For integers and halves the missing values become `exact`, if there are not too many. Otherwise
    the filter keeps only HDF5's fill value: another value, such as -999, stays exact only if it is
    a multiple of the bin width, which is twice the bound, or somewhat less (`Codec.step_share`);
    for integers, twice the bound plus 1. The codec is unchanged if it keeps them anyway, or if no
    slightly smaller absolute bound does.
    """
    if not 0 < len(missing.values) <= _MOST_MISSING:
        return codec
    exact = with_exact(codec, missing)
    if exact is not None:
        return exact
    # Use enough values that the frame is not a stored one.
    values = np.repeat(np.array(missing.values, missing.dtype), 4096)
    if codec.bound.kind is not BoundKind.ABSOLUTE or _keeps(codec, values):
        return codec
    has_fractions = is_float(missing.dtype)
    for value in map(abs, map(float if has_fractions else int, missing.values)):
        if has_fractions:
            bins = math.ceil(value / (2 * codec.step_share) / codec.absolute)
        else:
            bins = -(-value // (2 * math.floor(codec.absolute) + 1))
        # The centre of a bin is rounded to the type: about every second number of bins is exact.
        for count in range(bins, bins + min(64, bins // _FINEST + 1)) if bins >= _FINEST else ():
            smaller = (value // count) // 2
            if has_fractions:
                smaller = value / count / (2 * codec.step_share)
            if 0 < smaller <= codec.absolute:
                tried = dataclasses.replace(codec, absolute=smaller)
                if _keeps(tried, values):
                    return tried
    return codec


def with_zero_threshold(missing: Missing, codec: Any) -> Missing:
    """Return the same with 0, if the codec keeps it exact since it is a threshold of integers.

    So it does for halves. The filter leaves exact values out of the range.
    """
    is_kept = codec.thresholds and has_words(missing.dtype)
    if not is_kept or 0 in missing.values:
        return missing
    return dataclasses.replace(missing, values=(*missing.values, missing.dtype.type(0)))


def with_exact(codec: Any, missing: Missing) -> Any:
    """Return a codec whose `exact` values are the missing values; None if that is not possible."""
    dtype = missing.dtype
    if codec.lossless or not has_words(dtype) or not all(v == np.floor(v) for v in missing.values):
        return None
    exact = {*codec.exact, *map(int, missing.values)}
    others = {0} if codec.thresholds else set()  # a threshold counts as one of them
    if missing.fill is not None and missing.fill != 0:
        others.add(missing.fill)
    if len(exact | others) > (1 if dtype.itemsize == 8 else _native.MAX_EXACT):
        return None
    return dataclasses.replace(codec, exact=sorted(exact))


def _keeps(codec: Any, values: npt.NDArray[Any]) -> bool:
    """Return whether a codec keeps all values bit for bit, whatever is encoded with them."""
    params = dataclasses.replace(
        codec.params(), **_native.type_fields(values.dtype), shape=values.shape
    )
    frame = _native.encode(params, values)
    if is_float(values.dtype) and not is_half(values.dtype):
        # Interp would keep these values as a lattice of their own, which a real chunk does not
        # have. PFPL never does, and its bins of the same width return unchanged from all codecs.
        step = _native.inspect(_native.encode(params, np.zeros_like(values))).step
        if not step:  # lossless
            return True
        frame = _native.encode(
            dataclasses.replace(params, codec=_native.CODEC_PFPL, mode=0, bound=step / 2), values
        )
    decoded = np.empty_like(values)
    _native.decode(frame, decoded)
    return bool((as_bits(decoded) == as_bits(values)).all())


def _declared(data: Any, name: str) -> Any:
    """Return an attribute, even if xarray has moved it, but not if xarray has unpacked the data."""
    value = attribute_of(data, name)
    encoding: Mapping[str, Any] | None = getattr(data, "encoding", None)
    if value is None and encoding and not {"scale_factor", "add_offset"} & encoding.keys():
        value = encoding.get(name)
    return value


@dataclass(frozen=True)
class _Attributes:
    """The attributes of a field, as numbers of the field's type."""

    data: Any
    dtype: np.dtype[Any]

    def numbers(self, name: str, count: int | None = None) -> npt.NDArray[Any]:
        """Return an attribute's numbers; none, with a warning, if they are invalid."""
        nothing = np.empty(0, self.dtype)
        try:
            value = _declared(self.data, name)
        except UnsupportedError as error:
            self._ignore(name, f"since it can't be read: {error.__cause__}")
            return nothing
        if value is None:
            return nothing
        given = np.ravel(np.asarray(value))
        if given.dtype.kind not in "fiu":
            self._ignore(name, f"since it is not a number, but {value!r}")
            return nothing
        if len(given) != count and (count or not len(given)):
            wanted = count or "1 or more"
            self._ignore(name, f"since it has {len(given)} numbers instead of {wanted}")
            return nothing
        return _of_type(given, self.dtype, keep_all=count is not None)

    def interval(self) -> tuple[Any, Any]:
        """Return the smallest and the largest valid value, each None if there is no limit."""
        ends = self.numbers("valid_range", 2)
        single = [self.numbers(name, 1) for name in ("valid_min", "valid_max")]
        if len(ends) and any(map(len, single)):
            self._ignore("valid_min or valid_max", "since there is valid_range")
        name = "valid_range" if len(ends) else "valid_min or valid_max"
        low, high = ends if len(ends) else (end[0] if len(end) else None for end in single)
        given = [end for end in (low, high) if end is not None]
        if any(np.isnan(end) for end in given) or (len(given) == 2 and not given[0] <= given[1]):
            self._ignore(name, f"since no value would be valid: {' to '.join(map(str, given))}")
            return None, None
        return low, high

    def _ignore(self, name: str, why: str) -> None:
        where = getattr(self.data, "name", None) or "the field"
        warn(f"{where}: attribute {name} is ignored, {why}")


def _of_type(
    given: npt.NDArray[Any], dtype: np.dtype[Any], *, keep_all: bool = False
) -> npt.NDArray[Any]:
    """Return the nearest numbers of a type, leaving out integers that it cannot hold."""
    with np.errstate(all="ignore"):
        typed = given.astype(dtype)
        return typed if keep_all or is_float(dtype) else typed[typed == given]


def _finite(values: npt.NDArray[Any]) -> tuple[Any, ...]:
    """Return the finite numbers: NaN and infinities are never data."""
    return tuple(value for value in values if np.isfinite(value))


def _given(missing_value: Any, dtype: np.dtype[Any]) -> tuple[Any, ...]:
    """Return the missing values that a caller gives, in the given type."""
    found: list[Any] = []
    for one in as_list(missing_value):
        given = as_real(one)
        if given is None:
            raise InvalidArgumentError(
                f"missing_value must be a number, or a tuple, list or array of them, got {one!r}"
            )
        found += _finite(_of_type(given.reshape(1), dtype))
    return tuple(found)

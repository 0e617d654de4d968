# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The values that h5lossy supports: types, fill values, and data that may not fit in memory."""

from __future__ import annotations

import math
import numbers
from typing import TYPE_CHECKING, Any, TypeAlias

import h5py
import numpy as np

from h5lossy import _native
from h5lossy._blocks import block_shape
from h5lossy._blocks import blocks as cut
from h5lossy._errors import InvalidArgumentError, UnsupportedError
from h5lossy._per_dataset import once_per_dataset
from h5lossy._variables import (
    as_stored,
    has_lists_of_regions,
    is_h5netcdf_variable,
    is_netcdf4_variable,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

#: A NumPy array or an `h5py.Dataset` (h5py has no type information).
Data: TypeAlias = Any


def is_integer(dtype: np.dtype[Any]) -> bool:
    """Return whether a type is an integer; h5py's enums are not, although NumPy says so."""
    return dtype.kind in "iu" and h5py.check_enum_dtype(dtype) is None


def dtype_of(holder: Any) -> np.dtype[Any] | None:
    """Return NumPy's type for a dataset or an attribute of HDF5.

    None where NumPy has none, or h5py can't read the values.
    """
    type_id = holder.id.get_type() if isinstance(holder, h5py.Dataset) else holder.get_type()
    if has_lists_of_regions(type_id):
        return None
    try:
        dtype: np.dtype[Any] = holder.dtype
    # ValueError: names of fields that are not UTF-8, or fields that overlap.
    except (TypeError, ValueError):
        return None
    return dtype


def has_numbers(dataset: h5py.Dataset) -> bool:
    """Return whether a dataset's values can be compared; False for types that NumPy lacks."""
    dtype = None if dataset.shape is None else dtype_of(dataset)
    return dtype is not None and (dtype.kind == "f" or is_integer(dtype) or is_complex(dtype))


def is_half(dtype: np.dtype[Any]) -> bool:
    """Return whether a type is float16 or bfloat16, which frames store as integers."""
    return (dtype.kind == "f" and dtype.itemsize == 2) or _native.is_bfloat16(dtype)


def has_words(dtype: np.dtype[Any]) -> bool:
    """Return whether frames store the values as integers, of which some may be exact."""
    return is_integer(dtype) or is_half(dtype)


def is_float(dtype: np.dtype[Any]) -> bool:
    """Return whether a type has NaN: NumPy does not call bfloat16 a float."""
    return dtype.kind == "f" or _native.is_bfloat16(dtype)


def is_complex(dtype: np.dtype[Any]) -> bool:
    """Return whether a type is complex64 or complex128."""
    return dtype.kind == "c" and dtype.itemsize in {8, 16}


def checked_dtype(dtype: np.dtype[Any], *, on_device: bool = False) -> np.dtype[Any]:
    """Return `dtype` if its values can be encoded, else raise `UnsupportedError`."""
    if dtype.kind == "f" and dtype.itemsize in {4, 8}:
        return dtype
    is_other = has_words(dtype) or is_complex(dtype)
    if is_other and not on_device:
        return dtype
    taken = "float32 and float64 on a GPU"
    if not on_device:
        taken = "float16, bfloat16, float32, float64, complex64, complex128 and integers"
    advice = "copy the data to the host" if is_other else "convert the data with astype"
    raise UnsupportedError(
        f"h5lossy takes {taken}, of either byte order, not {dtype}; {advice} first"
    )


def real_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of `as_reals`: for complex numbers that of components, for halves float32."""
    if dtype.kind == "c":
        return np.dtype(f"{dtype.str[0]}f{dtype.itemsize // 2}")
    return np.dtype(np.float32) if is_half(dtype) else dtype


def as_scalar(given: Any) -> Any:
    """Return what an array without axes holds, of whatever library, and others as they are."""
    if hasattr(given, "__array__") and not isinstance(given, np.generic | type):
        given = np.asanyarray(given)  # np.ma.masked stays what it is
    return given[()] if isinstance(given, np.ndarray) and given.ndim == 0 else given


def is_number(given: Any, kind: type = numbers.Real) -> bool:
    """Return whether an argument is a real number: True and NumPy's durations are none."""
    return isinstance(given, kind) and not isinstance(given, bool | np.timedelta64)


def is_finite(number: Any) -> bool:
    """Return whether a number is finite as float64."""
    try:
        return math.isfinite(float(number))
    except OverflowError:  # an integer beyond float64
        return False


def as_list(given: Any) -> list[Any]:
    """Return an argument that is one object, or a tuple, list or array of them, as a list."""
    plain = as_scalar(given)
    is_several = isinstance(plain, list | tuple | range) or (
        isinstance(plain, np.ndarray) and plain.ndim > 0
    )
    return list(map(as_scalar, plain)) if is_several else [plain]


def as_real(given: Any) -> npt.NDArray[Any] | None:
    """Return a real number as a 0-d array, and None for anything else."""
    plain = as_scalar(given)
    if isinstance(plain, np.generic) and is_float(plain.dtype):  # also bfloat16
        return np.asarray(plain)
    if not is_number(plain):
        return None
    array = np.asarray(plain)
    if array.dtype.kind == "O":  # a fraction, or an integer of more than 64 bits
        try:
            array = np.asarray(float(plain))
        except OverflowError:
            return None
    return array


def as_reals(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return values in the type in which the library compares them, with the payloads of NaN.

    Complex numbers get one more axis, the last one, for their two components.
    """
    if values.dtype.kind == "c":
        return values[..., np.newaxis].view(real_dtype(values.dtype))
    if not is_half(values.dtype):
        return values
    bits = as_bits(values).astype(np.uint32)
    if _native.is_bfloat16(values.dtype):
        return np.asarray(bits << 16).view(np.float32)
    # Processors change signalling NaNs when they convert them.
    is_number = bits & 0x7C00 != 0x7C00
    widened = np.where(is_number, values, 0).astype(np.float32)
    others = (bits & 0x8000) << 16 | 0x7F800000 | (bits & 0x3FF) << 13
    return np.where(is_number, widened.view(np.uint32), others).view(np.float32)


def as_bits(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return floats as integers in the same memory: copies of these keep the payload of a NaN."""
    return values.view(np.dtype(f"u{values.dtype.itemsize}").newbyteorder(values.dtype.byteorder))


def checked_fill_value(fill_value: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return a fill value as a 0-d array of `dtype`: a Python number rounded, others exact."""
    if dtype.kind == "c":
        fill = complex_fill_value(fill_value, dtype)
        if not has_equal_components(fill):
            raise InvalidArgumentError(
                "a complex fill_value must have equal real and imaginary parts, as 0 or NaN in "
                f"both, got {fill_value!r}; give another one, or lossless"
            )
        return fill
    given = as_real(fill_value)
    if given is None:
        raise InvalidArgumentError(f"fill_value must be one real number, got {fill_value!r}")
    if given.dtype == dtype:
        return given
    with np.errstate(all="ignore"):
        fill = given.astype(dtype)
    exact = bool(fill == given) or (is_float(dtype) and bool(np.isnan(given)))
    rounded = (
        is_float(dtype)
        and isinstance(fill_value, numbers.Real)
        and np.isfinite(fill)
        and bool(fill != 0)
    )
    # np.float64 is a subclass of float, but has a type of its own.
    if not exact and (not rounded or isinstance(fill_value, np.generic)):
        raise InvalidArgumentError(f"fill_value must be a {dtype} value, got {fill_value!r}")
    return fill


def complex_fill_value(fill_value: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return a complex fill value as a 0-d array of `dtype`, whatever its components."""
    plain = as_scalar(fill_value)
    given = np.asarray(plain) if isinstance(plain, complex | np.complexfloating) else as_real(plain)
    if given is None:
        raise InvalidArgumentError(f"fill_value must be one number, got {fill_value!r}")
    return given.astype(dtype)


def has_equal_components(fill: np.ndarray[Any, Any]) -> bool:
    """Return whether a complex fill value is kept under any bound; others only losslessly."""
    real, imaginary = as_reals(fill)
    return fill_bits(real, real.dtype) == fill_bits(imaginary, real.dtype)


def fill_bits(fill_value: Any, dtype: np.dtype[Any], *, lossless: bool = False) -> int | None:
    """Return the bits of a fill value, or of its components; None where there is none, or a NaN."""
    if fill_value is None:
        return None
    if dtype.kind == "c" and lossless:  # kept like all values, even if its components differ
        complex_fill_value(fill_value, dtype)
        return None
    fill = checked_fill_value(fill_value, dtype)
    if dtype.kind == "c":
        return fill_bits(as_reals(fill)[0], real_dtype(dtype))
    bits = int(as_bits(fill))
    return None if np.isnan(fill) else bits


def own_fill_value(data: Data) -> Any:
    """Return the fill value that was given to a dataset, variable or masked array; else None."""
    if np.ma.is_masked(data):  # np.ma.masked has no fill value of its own
        with np.errstate(over="ignore"):  # 1e20, NumPy's default, is infinite as float16
            fill = data.dtype.type(np.ma.array(data).fill_value)
        # NumPy's default for integers, 999999, is another number where it does not fit.
        default = np.asarray(np.ma.default_fill_value(data.dtype))
        is_wrapped = data.dtype.kind in "iu" and default > np.iinfo(data.dtype).max
        return None if is_wrapped and fill == default.astype(data.dtype) else fill
    if is_netcdf4_variable(data):
        fill = data.get_fill_value()
        # netCDF-C's default has the machine's byte order, whatever the type says.
        return fill.view(fill.dtype.newbyteorder("=")) if isinstance(fill, np.ndarray) else fill
    dataset = data._h5ds if is_h5netcdf_variable(data) else data  # noqa: SLF001 - no public name
    if not isinstance(dataset, h5py.Dataset):
        return None
    creation = dataset.id.get_create_plist()
    if creation.fill_value_defined() != h5py.h5d.FILL_VALUE_USER_DEFINED:
        return None
    return dataset.fillvalue


@once_per_dataset
def unwritten_value(dataset: h5py.Dataset) -> npt.NDArray[Any]:
    """Return the value that a dataset reads where nothing was written: a read-only 0-d array."""
    fill = np.zeros((), dataset.dtype)
    creation = dataset.id.get_create_plist()
    # Without a fill value, HDF5 leaves h5py's buffer as it is: zeros.
    is_used = creation.get_fill_time() != h5py.h5d.FILL_TIME_NEVER
    if is_used and creation.fill_value_defined() == h5py.h5d.FILL_VALUE_USER_DEFINED:
        creation.get_fill_value(fill)
    fill.flags.writeable = False
    return fill


def blocks(data: Data) -> Iterator[npt.NDArray[Any]]:
    """Read an array or dataset in blocks of about 32 MiB, none of which splits a chunk.

    Masked points are left out, and what remains of their block has one dimension.
    """
    for selection in block_selections(data):
        values, mask = read_block(data, selection)
        yield values if mask is None else values[~mask]


def block_selections(data: Data) -> Iterator[tuple[slice, ...]]:
    """Yield the selections that `blocks` reads."""
    if data.shape is None:  # an HDF5 dataset without a dataspace to put values in
        return
    chunks = getattr(data, "chunks", None)
    if chunks and isinstance(chunks[0], tuple):  # Dask has the length of each block
        chunks = tuple(map(max, chunks))
    yield from cut(data.shape, block_shape(data.shape, chunks, data.dtype.itemsize))


def read_block(
    data: Data, selection: tuple[slice, ...]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_] | None]:
    """Read one selection in C order, in the data's own type, and which points are masked."""
    with as_stored(data):
        values = loaded(data[selection])
    mask = np.ma.getmaskarray(values) if np.ma.is_masked(values) else None
    return np.asarray(np.ma.getdata(values), dtype=data.dtype, order="C"), mask


def loaded(values: Any) -> Any:
    """Return any library's array as a NumPy array on the host, masked if it has masked points."""
    if type(values) is np.ndarray:
        return values
    if isinstance(values, list | tuple) and has_masks(values):
        return np.ma.stack(list(map(loaded, values)))
    if hasattr(values, "compute"):  # of dask, or of xarray with dask's blocks
        values = values.compute()
    if hasattr(values, "as_numpy"):  # of xarray
        values = values.data
    nullable = getattr(getattr(values, "dtype", None), "numpy_dtype", None)
    if nullable is not None and nullable.kind == "f":  # of pandas, with NA
        values = values.to_numpy(dtype=nullable, na_value=np.nan)
    elif nullable is not None and nullable.kind in "iu":  # pandas would make floats of them
        numbers = values.to_numpy(dtype=nullable, na_value=0)
        values = np.ma.array(numbers, mask=np.asarray(values.isna()))
    return np.asanyarray(values) if np.ma.is_masked(values) else np.asarray(values)


def no_number(dtype: np.dtype[Any]) -> Any:
    """Return what represents a masked point in a type; None if nothing can."""
    if dtype.kind == "c":
        return complex(np.nan, np.nan)
    return np.nan if is_float(dtype) else None


def has_masks(values: Any) -> bool:
    """Return whether this is a masked array, or a list or tuple with one somewhere."""
    if not isinstance(values, list | tuple):
        return isinstance(values, np.ma.MaskedArray)
    return any(
        has_masks(part) for part in values if isinstance(part, np.ma.MaskedArray | list | tuple)
    )


def unmasked(values: Any, fill: Any) -> npt.NDArray[Any]:
    """Return a plain array, with `fill` at masked points; None: refuse masked points."""
    values = loaded(values)
    if not isinstance(values, np.ma.MaskedArray):
        return np.asarray(values)
    mask = np.ma.getmaskarray(values)
    if fill is None:
        count = np.count_nonzero(mask)
        raise InvalidArgumentError(
            f"{f'{count} values are' if count != 1 else '1 value is'} masked, and there is no fill "
            "value to store there: make the dataset with fillvalue=..., give encode a "
            "fill_value=..., or replace them by values.filled(...)"
        )
    # NumPy 1 would look at the value of a fill value, and round 1e20 to float32.
    filled = np.array(values.data, np.result_type(values.dtype, getattr(fill, "dtype", fill)))
    np.copyto(filled, fill, where=mask)
    return filled

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The filter for variables of netCDF4, the Python package, which cannot set it by itself.

>>> import h5lossy.netcdf4, netCDF4, numpy as np
>>> with netCDF4.Dataset("a.nc", "w", memory=1) as nc:
...     _ = nc.createDimension("x", 1000)
...     t = nc.createVariable("t", "f4", ("x",), chunksizes=(1000,))
...     h5lossy.netcdf4.def_var_filter(t, h5lossy.PFPL(absolute=1e-3))
...     t[:] = np.linspace(0, 1, 1000)
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from h5lossy._chunking import small_chunks_text
from h5lossy._codecs import FILTER_ID, Codec, checked_codec
from h5lossy._errors import InvalidArgumentError, NativeError, UnsupportedError
from h5lossy._frames import checked_for
from h5lossy._libraries import ffi, functions_in
from h5lossy._values import own_fill_value
from h5lossy._variables import is_h5netcdf_variable, is_netcdf4_variable, netcdf4_file
from h5lossy._warnings import warn
from h5lossy.missing import warn_of_zero

if TYPE_CHECKING:
    import netCDF4

_FUNCTIONS = {
    "nc_def_var_filter": "int (*)(int, int, unsigned, size_t, const unsigned *)",
    "nc_strerror": "const char *(*)(int)",
}

#: NC_EPERM, the file is open for reading only; NC_EINDEFINE and NC_ELATEDEF, the variable is
#: in the file already.
_READ_ONLY, _TOO_LATE = -37, (-39, -123)


def def_var_filter(variable: netCDF4.Variable[Any], codec: Codec) -> None:
    """Make h5lossy compress a new netCDF4 variable, like netCDF-C's ``nc_def_var_filter``.

    Call it right after ``createVariable``, before any data is written or read. Pass `chunksizes` to
    ``createVariable``, preferably of about 1 MiB: netCDF's own choice may be a single step, or all
    of the data. Leave out `compression` and `fletcher32`, since netCDF would apply them first.
    Everything else works as usual, including `fill_value` and `endian`. The last call counts.

    This calls the netCDF-C library that the package netCDF4 itself uses. The process then has two
    HDF5 libraries, netCDF4's and h5py's; both have the filter.

    Parameters
    ----------
    variable : netCDF4.Variable
        float32, float64, integers, or complex numbers in a file that was opened with
        ``auto_complex=True`` (netCDF has no halves). With at least one dimension, in a file of
        format NETCDF4 that is open for writing.
    codec : Codec
        The codec and bound, such as ``PFPL(absolute=1e-3)``. A range-relative bound is taken of
        each chunk: `Codec.resolve` turns it into that of the whole data. The bound of integers is
        in counts, as they are stored, whatever their ``scale_factor``.

    Raises
    ------
    UnsupportedError
        If `variable` is another one. In files of format NETCDF4_CLASSIC, netCDF4 ends the
        definition of a variable at once, so that a filter is always too late: write them without,
        and compress them with ``h5lossy repack``, which keeps the model.
    InvalidArgumentError
        If it is too late for a filter, another one would come first, or the file is closed or open
        for reading only.
    NativeError
        If netCDF-C refuses for another reason.

    Warns
    -----
    RuntimeWarning
        If the chunks are so small that frames are larger than the data, or the fill value is 0.
    """
    words = checked_codec(codec).filter_options
    _check_variable(variable, codec)
    # The netCDF-C library that netCDF4's extension module is linked to.
    call = functions_in(sys.modules[type(variable).__module__].__file__, _FUNCTIONS)
    if call is None:
        raise UnsupportedError(
            "the netCDF-C library of netCDF4 has no nc_def_var_filter; install a newer netCDF4"
        )
    # The package itself has no public names for these numbers.
    group, number = variable._grpid, variable._varid  # noqa: SLF001
    status = call["nc_def_var_filter"](
        group, number, FILTER_ID, len(words), ffi.new("unsigned[]", words)
    )
    if status:
        _raise(status, ffi.string(call["nc_strerror"](status)).decode(), variable.name)
    # An unlimited dimension grows.
    shape = tuple(math.inf if d.isunlimited() else d.size for d in variable.get_dims())
    itemsize = _dtype_of(variable).itemsize
    small = small_chunks_text(shape, tuple(map(int, variable.chunking())), itemsize)
    if small:
        warn(
            f"{variable.name} has {small}; give createVariable larger chunksizes, best of about "
            "1 MiB"
        )
    warn_of_zero(variable.name, own_fill_value(variable), codec)


def _dtype_of(variable: Any) -> Any:
    """Return NumPy's type of a variable's values, or netCDF4's if it is one of the file's own."""
    # `datatype` of complex numbers is the compound that the file has for them.
    own, stored = variable.dtype, variable.datatype
    if isinstance(own, np.dtype) and own.kind == "c":
        return own
    return stored.dtype if _is_enum(variable) else stored


def _is_enum(variable: Any) -> bool:
    return hasattr(variable.datatype, "enum_dict")


def _check_variable(variable: Any, codec: Codec) -> None:
    """Raise if a variable can't have the filter: netCDF-C says so too late, or not why."""
    if is_h5netcdf_variable(variable):
        raise TypeError(
            "h5netcdf takes the codec when a variable is created: "
            "create_variable(..., compression=codec)"
        )
    if not is_netcdf4_variable(variable):
        raise TypeError(f"variable must be a netCDF4.Variable, got {type(variable).__name__}")
    path, name = netcdf4_file(variable), variable.name
    if variable.group().data_model != "NETCDF4":
        raise UnsupportedError(
            f"{path} is of format NETCDF4_CLASSIC, in which netCDF4 puts a variable into the file "
            "as soon as it is created, so that it is too late for a filter; write the file without "
            "one, and compress it with h5lossy repack, which keeps the format"
        )
    dtype = _dtype_of(variable)
    if not isinstance(dtype, np.dtype):
        raise UnsupportedError(
            f"{name} is of text, or of a type that the file defines; h5lossy encodes floats, "
            "integers and enums, and complex numbers of files opened with auto_complex=True"
        )
    if _is_enum(variable) and not codec.lossless:
        raise UnsupportedError(f"{name} is of an enum, which takes no error bound; give lossless")
    checked_for(codec, dtype, own_fill_value(variable))
    if not variable.dimensions:
        raise UnsupportedError(
            f"{name} has no dimensions, and so no chunks, which filters need; leave it as it is"
        )
    first = [on for on, used in (variable.filters() or {}).items() if used and on != "complevel"]
    if first:
        raise InvalidArgumentError(
            f"{name} has {' and '.join(first)}, which netCDF would apply before h5lossy; create it "
            "without compression and fletcher32 (h5lossy has a checksum of its own)"
        )


def _raise(status: int, text: str, name: str) -> None:
    """Raise the error for a status of netCDF-C."""
    if status == _READ_ONLY:
        raise InvalidArgumentError(f"the file of {name} is open for reading only")
    if status in _TOO_LATE:
        raise InvalidArgumentError(
            f"{name} is in the file already, which is too late for a filter: call def_var_filter "
            "right after createVariable, before data is written or read and before sync(); what is "
            "in a file can be compressed with h5lossy repack"
        )
    raise NativeError(f"netCDF-C refuses the filter for {name}: {text} ({status})")

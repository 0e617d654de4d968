# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""h5lossy: an HDF5 filter that compresses floats within an error bound.

>>> import h5py, h5lossy, numpy as np
>>> t = np.linspace(270, 310, 10_000, dtype=np.float32).reshape(100, 100)
>>> with h5py.File("a.h5", "w", driver="core", backing_store=False) as f:
...     dset = f.create_dataset("t", data=t, compression=h5lossy.PFPL(absolute=1e-3))
...     print(h5lossy.describe(dset).bound)
absolute 0.001

Importing h5lossy registers the filter in every HDF5 library that the process has loaded. It also
puts a finder at the front of `sys.meta_path`, which registers the filter again right after netCDF4,
PyTables, GDAL or rasterio is imported, since each of them loads an HDF5 library of its own
(`h5lossy.register`). It changes nothing else, the environment included.
"""

from __future__ import annotations

from h5lossy import _native
from h5lossy._batched import read, write
from h5lossy._bounds import BoundKind, ErrorBound, ErrorSummary
from h5lossy._chunking import chunks_for
from h5lossy._codecs import (
    AATROX,
    FILTER_ID,
    PFPL,
    Aatrox,
    Auto,
    Codec,
    CuSZp2,
    Interp,
    from_filter_options,
)
from h5lossy._datasets import DatasetInfo, describe
from h5lossy._errors import (
    BoundError,
    BoundViolationError,
    CorruptFrameError,
    DeviceError,
    H5LossyError,
    IncompleteWriteError,
    InvalidArgumentError,
    NativeError,
    NotComparableError,
    TruncatedFrameError,
    UnsupportedError,
)
from h5lossy._frames import FrameInfo, decode, encode, inspect, max_encoded_size
from h5lossy._plugins import PLUGIN_PATH, Config, Device, LibHDF5, get_config, install, register
from h5lossy._verification.bound_checker import largest_error
from h5lossy._verify import Problem, Verification, verify
from h5lossy.assessment import Assessor, DivergenceReport, Report, assess, assess_divergence

__version__ = _native.version()

__all__ = [
    "AATROX",
    "FILTER_ID",
    "PFPL",
    "PLUGIN_PATH",
    "Aatrox",
    "Assessor",
    "Auto",
    "BoundError",
    "BoundKind",
    "BoundViolationError",
    "Codec",
    "Config",
    "CorruptFrameError",
    "CuSZp2",
    "DatasetInfo",
    "Device",
    "DeviceError",
    "DivergenceReport",
    "ErrorBound",
    "ErrorSummary",
    "FrameInfo",
    "H5LossyError",
    "IncompleteWriteError",
    "Interp",
    "InvalidArgumentError",
    "LibHDF5",
    "NativeError",
    "NotComparableError",
    "Problem",
    "Report",
    "TruncatedFrameError",
    "UnsupportedError",
    "Verification",
    "__version__",
    "assess",
    "assess_divergence",
    "chunks_for",
    "decode",
    "describe",
    "encode",
    "from_filter_options",
    "get_config",
    "inspect",
    "largest_error",
    "max_encoded_size",
    "read",
    "register",
    "verify",
    "write",
]

# The public name of each, in messages and tracebacks too: the modules that define them are private.
for _object in map(globals().get, __all__):
    if hasattr(_object, "__module__"):
        _object.__module__ = __name__

install()

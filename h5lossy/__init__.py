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
puts a finder at the front of `sys.meta_path`, which registers the filter again right after h5py,
netCDF4, PyTables, GDAL or rasterio is imported, since each of these loads its own HDF5 library
(`h5lossy.register`). It changes nothing else, not even the environment. Modules are imported when
one of their names is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from h5lossy._plugins import install
from h5lossy._public import NAMES

if TYPE_CHECKING:
    from h5lossy._batched import read as read
    from h5lossy._batched import write as write
    from h5lossy._bounds import BoundKind as BoundKind
    from h5lossy._bounds import ErrorBound as ErrorBound
    from h5lossy._bounds import ErrorSummary as ErrorSummary
    from h5lossy._chunking import chunks_for as chunks_for
    from h5lossy._codecs import AATROX as AATROX
    from h5lossy._codecs import FILTER_ID as FILTER_ID
    from h5lossy._codecs import FILTERS as FILTERS
    from h5lossy._codecs import PFPL as PFPL
    from h5lossy._codecs import Auto as Auto
    from h5lossy._codecs import Codec as Codec
    from h5lossy._codecs import CuSZp2 as CuSZp2
    from h5lossy._codecs import Interp as Interp
    from h5lossy._codecs import from_filter_options as from_filter_options
    from h5lossy._codecs import get_filters as get_filters
    from h5lossy._config import Config as Config
    from h5lossy._config import Device as Device
    from h5lossy._config import LibHDF5 as LibHDF5
    from h5lossy._config import get_config as get_config
    from h5lossy._datasets import DatasetInfo as DatasetInfo
    from h5lossy._datasets import describe as describe
    from h5lossy._errors import BoundError as BoundError
    from h5lossy._errors import BoundViolationError as BoundViolationError
    from h5lossy._errors import CorruptFrameError as CorruptFrameError
    from h5lossy._errors import DeviceError as DeviceError
    from h5lossy._errors import H5LossyError as H5LossyError
    from h5lossy._errors import IncompleteWriteError as IncompleteWriteError
    from h5lossy._errors import InvalidArgumentError as InvalidArgumentError
    from h5lossy._errors import NativeError as NativeError
    from h5lossy._errors import NotComparableError as NotComparableError
    from h5lossy._errors import TruncatedFrameError as TruncatedFrameError
    from h5lossy._errors import UnsupportedError as UnsupportedError
    from h5lossy._frames import FrameInfo as FrameInfo
    from h5lossy._frames import decode as decode
    from h5lossy._frames import encode as encode
    from h5lossy._frames import inspect as inspect
    from h5lossy._frames import max_encoded_size as max_encoded_size
    from h5lossy._plugins import register as register
    from h5lossy._public import PLUGIN_PATH as PLUGIN_PATH
    from h5lossy._verification.bound_checker import largest_error as largest_error
    from h5lossy._verify import Problem as Problem
    from h5lossy._verify import Verification as Verification
    from h5lossy._verify import verify as verify
    from h5lossy.assessment import Assessor as Assessor
    from h5lossy.assessment import DivergenceReport as DivergenceReport
    from h5lossy.assessment import Report as Report
    from h5lossy.assessment import Reports as Reports
    from h5lossy.assessment import assess as assess
    from h5lossy.assessment import assess_all as assess_all
    from h5lossy.assessment import assess_divergence as assess_divergence

    __version__: str

#: Submodules that are imported on first use, and those that need other packages.
_SUBMODULES = ("assessment", "missing")
_OF_OTHER_PACKAGES = ("dask", "netcdf4", "xarray", "zarr")

_HOMES = {name: home for home, names in NAMES.items() for name in names}

__all__ = [*_HOMES, "__version__"]  # noqa: PLE0604


if not TYPE_CHECKING:  # where any name would do

    def __getattr__(name: str) -> Any:
        """Import the object behind a public name."""
        if name in _HOMES:
            value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
        elif name == "__version__":
            value = importlib.import_module("h5lossy._native").version()
        elif name in _SUBMODULES:
            return importlib.import_module(f"{__name__}.{name}")
        else:
            advice = f" yet: import {__name__}.{name}" if name in _OF_OTHER_PACKAGES else ""
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}{advice}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """List the names, including those that were not used yet."""
    return sorted({*globals(), *__all__})


install()

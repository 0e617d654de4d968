# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""A plugin for pytest that makes h5lossy the default of another package: ``--in-place=PACKAGE``.

It is lossless, so that the package's own tests can compare values. The report has the number of
arrays that got it.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import pytest

import h5lossy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np

CODEC = h5lossy.PFPL(lossless=True)

#: One entry for each array that got the codec.
in_use: list[object] = []


def is_taken(dtype: np.dtype[Any]) -> bool:
    """Return whether h5lossy encodes arrays of a type."""
    return dtype.kind in "iu" or (dtype.kind, dtype.itemsize) in {
        ("f", 2), ("f", 4), ("f", 8), ("c", 8), ("c", 16)
    }  # fmt: skip


def in_zarr() -> None:
    """Have Zarr serialize numbers of format 3 by h5lossy."""
    import zarr.core.array  # noqa: PLC0415

    from h5lossy.zarr import Serializer  # noqa: PLC0415

    original = zarr.core.array.default_serializer_v3

    def serializer(dtype: Any) -> Any:
        if not is_taken(dtype.to_native_dtype()):
            return original(dtype)
        in_use.append(dtype)
        return Serializer(CODEC)

    zarr.core.array.default_serializer_v3 = serializer


def in_netcdf4() -> None:
    """Have netCDF4 compress variables of root groups that ask for no compression."""
    import netCDF4  # noqa: PLC0415
    import numpy as np  # noqa: PLC0415

    from h5lossy.netcdf4 import def_var_filter  # noqa: PLC0415

    class Dataset(netCDF4.Dataset):
        __slots__ = ()  # no dictionary beside that of attributes in the file

        def createVariable(self, *arguments: Any, **named: Any) -> Any:  # noqa: N802
            variable = super().createVariable(*arguments, **named)
            is_plain = (
                self.data_model == "NETCDF4"
                and variable.dimensions
                and isinstance(variable.datatype, np.dtype)
                and is_taken(variable.datatype)
                and not any(variable.filters().values())
                and not named.get("contiguous")
            )
            if is_plain:
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", ".* costs a header", RuntimeWarning)
                    def_var_filter(variable, CODEC)
                in_use.append(variable.name)
            return variable

    netCDF4.Dataset = Dataset


def in_kerchunk() -> None:
    """Have kerchunk translate the filter, and h5py apply it to what asks for no compression."""
    import h5py  # noqa: PLC0415
    import numpy as np  # noqa: PLC0415

    from h5lossy.zarr import register_kerchunk  # noqa: PLC0415

    register_kerchunk()
    original: Callable[..., Any] = h5py.Group.create_dataset

    def create_dataset(
        group: Any, name: Any, shape: Any = None, dtype: Any = None, data: Any = None, **named: Any
    ) -> Any:
        kind = np.asarray(data).dtype if dtype is None else dtype
        extents = np.shape(data) if shape is None else shape
        is_plain = isinstance(kind, np.dtype) and is_taken(kind) and np.size(extents)
        if is_plain and np.prod(extents) and not named.get("compression"):
            in_use.append(name)
            named |= {"compression": CODEC, "chunks": named.get("chunks") or True}
        return original(group, name, shape, dtype, data, **named)

    h5py.Group.create_dataset = create_dataset


PLACES = {"zarr": in_zarr, "netCDF4": in_netcdf4, "kerchunk": in_kerchunk}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--in-place", choices=[*PLACES])


def pytest_configure(config: pytest.Config) -> None:
    """Put h5lossy into the package, before any test has imported names from it."""
    PLACES[config.getoption("--in-place")]()


@pytest.fixture(scope="session", autouse=True)
def number_in_use(record_testsuite_property: Callable[[str, object], None]) -> Iterator[None]:
    """Record how many arrays got h5lossy."""
    yield
    record_testsuite_property("in use", len(in_use))

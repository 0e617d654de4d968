# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The messages of docs/errors.md are those of programs that read without the plugin."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import h5py
import numpy as np
import pytest

import h5lossy
from hdf5_helpers import PYTHON, environment, message_without_plugin, run, tool

if TYPE_CHECKING:
    from pathlib import Path

#: By the name in the page, how a program reads x of a file.
READERS: dict[str, tuple[str, ...]] = {
    "h5py": ("import h5py; h5py.File('a.nc')['x'][...]",),
    "h5netcdf": ("import h5netcdf; f = h5netcdf.File('a.nc'); f['x'][...]",),
    "xarray (engine h5netcdf)": (
        "import xarray as xr; xr.open_dataset('a.nc', engine='h5netcdf')['x'].values",
    ),
    "netCDF4": ("import netCDF4; netCDF4.Dataset('a.nc')['x'][...]",),
    "xarray (engine netcdf4)": (
        "import xarray as xr; xr.open_dataset('a.nc', engine='netcdf4')['x'].values",
    ),
    "PyTables": ("import tables; tables.open_file('b.h5').root.x[...]",),
    "ncdump": ("ncdump", "a.nc"),
    "nccopy": ("nccopy", "a.nc", "out.nc"),
    "CDO": ("cdo", "-s", "infon", "a.nc"),
    "NCO": ("ncks", "-O", "-v", "x", "a.nc", "out.nc"),
    "h5dump": ("h5dump", "-d", "x", "a.nc"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a netCDF file, and a file that PyTables understands."""
    path = tmp_path_factory.mktemp("unreadable")
    for name, with_scales in (("a.nc", True), ("b.h5", False)):
        with h5py.File(path / name, "w") as file:
            codec = h5lossy.PFPL(absolute=1e-3)
            x = file.create_dataset("x", data=np.ones((40, 40)), chunks=(20, 20), compression=codec)
            for axis, dimension in enumerate(("lat", "lon") if with_scales else ()):
                file[dimension] = np.arange(40.0)
                file[dimension].make_scale(dimension)
                x.dims[axis].attach_scale(file[dimension])
    return path


@pytest.mark.slow
@pytest.mark.parametrize(("name", "command"), READERS.items(), ids=READERS)
def test_the_message_is_that_of_the_page(folder: Path, name: str, command: tuple[str, ...]) -> None:
    is_python = len(command) == 1
    program = [*PYTHON, "-c", *command] if is_python else [tool(command[0]), *command[1:]]
    if is_python:
        for package in re.findall(r"import (\w+)", command[0]):
            pytest.importorskip(package)
    said = run(*program, cwd=folder, env=environment(), status=None)
    assert message_without_plugin(name) in said.stderr + said.stdout
    fixed = {"HDF5_PLUGIN_PATH": h5lossy.PLUGIN_PATH}
    said = run(*program, cwd=folder, env=environment(**fixed), status=None)
    assert message_without_plugin(name) not in said.stderr + said.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "code", [command for command, *more in READERS.values() if not more], ids=str
)
def test_the_import_is_what_python_needs(folder: Path, code: str) -> None:
    for package in re.findall(r"import (\w+)", code):
        pytest.importorskip(package)
    run(*PYTHON, "-c", f"import h5lossy; {code}", cwd=folder)

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Write a netCDF file with xarray, and read it with netCDF4 and xarray.

    python 03_netcdf_xarray.py [FOLDER]

Without FOLDER the file goes to a temporary one. Needs xarray, h5netcdf and netCDF4.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import h5lossy

try:
    import h5netcdf  # noqa: F401 - the engine that xarray writes with
    import netCDF4
    import xarray as xr
except ImportError as missing:
    print(f"{missing}; this example needs: pip install xarray h5netcdf netCDF4")
    sys.exit(0)


def write(path: Path) -> np.ndarray:
    lat, lon = np.linspace(-89.5, 89.5, 180), np.arange(0.5, 360)
    wave = np.cos(np.radians(lat))[:, None] * np.sin(np.radians(3 * lon))
    sst = (15 + 10 * np.stack([wave * (1 + 0.01 * day) for day in range(10)])).astype(np.float32)
    sst[:, 60:90, 100:150] = np.nan  # land
    dataset = xr.Dataset(
        {"sst": (("time", "lat", "lon"), sst, {"units": "degC"})},
        coords={"time": np.arange(10), "lat": lat, "lon": lon},
    )
    # The engine h5netcdf passes filters to h5py. Variables that are not in `encoding`, such as
    # coordinates, stay exact.
    dataset.to_netcdf(
        path,
        engine="h5netcdf",
        encoding={"sst": {"compression": h5lossy.PFPL(absolute=1e-3), "chunksizes": (1, 180, 360)}},
    )
    return sst


def check(name: str, back: np.ndarray, sst: np.ndarray) -> None:
    assert np.array_equal(np.isnan(back), np.isnan(sst))
    error = np.nanmax(np.abs(back.astype(np.float64) - sst))
    assert error <= 1e-3
    print(f"{name}: largest error {error:.9f}, land in place")


def read_with_netcdf4(path: Path) -> np.ndarray:
    # netCDF4 contains its own HDF5 library; h5lossy has registered its filter there, too.
    with netCDF4.Dataset(path) as nc:
        return np.ma.filled(nc["sst"][...], np.nan)


def read_with_xarray(path: Path, engine: str) -> np.ndarray:
    with xr.open_dataset(path, engine=engine) as dataset:
        return dataset["sst"].values


def main(folder: Path) -> None:
    path = folder / "sst.nc"
    sst = write(path)
    print(f"raw {sst.nbytes / 1e6:.1f} MB, file {path.stat().st_size / 1e6:.1f} MB")
    check("netCDF4", read_with_netcdf4(path), sst)
    for engine in ("netcdf4", "h5netcdf"):
        check(f"xarray, engine {engine}", read_with_xarray(path, engine), sst)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))

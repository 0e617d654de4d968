# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Save a dataset of xarray with compression; open it, and save a part with the same bound.

    python 09_xarray.py [FOLDER]

Without FOLDER the files go to a temporary one. Needs xarray and h5netcdf: h5lossy[xarray].
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import h5lossy

try:
    import h5netcdf  # noqa: F401 - the engine that xarray writes with
    import xarray as xr
except ImportError as missing:
    print(f"{missing}; this example needs: pip install xarray h5netcdf")
    sys.exit(0)

import h5lossy.xarray


def climate() -> xr.Dataset:
    lat, lon = np.linspace(-89.5, 89.5, 180), np.arange(0.5, 360)
    days = xr.date_range("2000-01-01", periods=30)
    rng = np.random.default_rng(0)
    warm = 30 * np.cos(np.radians(lat))[:, None] + 3 * np.sin(np.radians(4 * lon))
    tas = 260 + warm + rng.normal(0, 0.05, (30, 180, 360))
    pr = np.maximum(0, rng.normal(0, 1e-5, (30, 180, 360)))
    axes = ("time", "lat", "lon")
    return xr.Dataset(
        {
            "tas": (axes, tas.astype(np.float32), {"units": "K"}),
            "pr": (axes, pr.astype(np.float32), {"units": "kg m-2 s-1"}),
            "lat_bnds": (("lat", "bnds"), np.stack([lat - 0.5, lat + 0.5], axis=1)),
        },
        coords={"time": days, "lat": ("lat", lat, {"bounds": "lat_bnds"}), "lon": lon},
    )


def main(folder: Path) -> None:
    original = climate()

    # 0.01 K, and 1 % of each precipitation rate. Coordinates and their bounds stay exact.
    encoding = h5lossy.xarray.encoding(
        original, {"pr": {"pointwise_relative": 0.01}}, absolute=0.01
    )
    print(encoding)
    original.to_netcdf(folder / "run.nc", engine="h5netcdf", encoding=encoding)
    print(f"raw {original.nbytes / 1e6:.1f} MB, file {size(folder / 'run.nc'):.1f} MB")

    # The engine h5lossy keeps the codecs, so they need not be given again.
    with xr.open_dataset(folder / "run.nc", engine="h5lossy") as ds:
        check(ds, original)
        ds.sel(lat=slice(30, 60)).to_netcdf(folder / "north.nc", engine="h5netcdf")
        # Results of computations have no encoding; they get that of what they were made from.
        mean = ds.mean("time")
        codecs = h5lossy.xarray.codecs_of(ds)
        mean.to_netcdf(
            folder / "mean.nc",
            engine="h5netcdf",
            encoding=h5lossy.xarray.encoding(mean, codecs),
        )
    with xr.open_dataset(folder / "north.nc", engine="h5lossy") as north:
        check(north, original.sel(lat=slice(30, 60)))
    with xr.open_dataset(folder / "mean.nc", engine="h5lossy") as mean:
        print(f"mean.nc: {mean['tas'].encoding['compression']}")


def check(ds: xr.Dataset, original: xr.Dataset) -> None:
    error = np.abs(ds["tas"].values.astype(np.float64) - original["tas"].values).max()
    assert error <= 0.01
    assert np.array_equal(ds["lat_bnds"], original["lat_bnds"])
    codec = ds["tas"].encoding["compression"]
    print(f"{Path(ds.encoding['source']).name}: {codec}, largest error {error:.6f} K")


def size(path: Path) -> float:
    return path.stat().st_size / 1e6


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Write a netCDF file with netCDF4, step by step, and read it on all cores.

    python 03_netcdf4.py [FOLDER]

Without FOLDER the file goes to a temporary one. Needs netCDF4.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import h5lossy
import h5lossy.netcdf4

try:
    import netCDF4
except ImportError as missing:
    print(f"{missing}; this example needs: pip install netCDF4")
    sys.exit(0)

CODEC = h5lossy.PFPL(significant_digits=4)
FILL = np.float32(1e20)


def step(time: int) -> np.ndarray:
    """Return the precipitation of one step; there is none over land."""
    lat, lon = np.mgrid[-89.5:90, 0.5:360]
    rain = np.exp(3 * np.cos(np.radians(lat)) + np.sin(np.radians(4 * lon + 5 * time)))
    rain[60:90, 100:150] = FILL
    return rain.astype(np.float32)


def write(path: Path, steps: int) -> None:
    with netCDF4.Dataset(path, "w") as nc:
        for name, size in (("time", None), ("lat", 180), ("lon", 360)):
            nc.createDimension(name, size)
        pr = nc.createVariable(
            "pr", "f4", ("time", "lat", "lon"), fill_value=FILL, chunksizes=(1, 180, 360)
        )
        # After createVariable, and before any data.
        h5lossy.netcdf4.def_var_filter(pr, CODEC)
        pr.units = "mm d-1"
        for time in range(steps):
            pr[time] = step(time)


def main(folder: Path) -> None:
    path, steps = folder / "pr.nc", 10
    write(path, steps)
    original = np.stack([step(time) for time in range(steps)]).astype(np.float64)
    with netCDF4.Dataset(path) as nc:
        info = h5lossy.describe(nc["pr"])
        print(f"{info.codec}, {info.bound}: ratio {info.ratio:.1f}")
        masked = nc["pr"][...]  # as always; one core decodes
        stored = h5lossy.read(nc["pr"])  # all cores decode; fill values are not masked
        assert np.array_equal(masked.mask, original == FILL)
        assert np.array_equal(masked.data, stored)
    # Half a unit of the fourth digit.
    error, unit = np.abs(stored - original), 10.0 ** (np.floor(np.log10(original)) - 3)
    assert (error <= unit / 2).all()
    print(f"largest error {(error / unit).max():.3f} units of the fourth digit")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))

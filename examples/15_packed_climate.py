# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Repack a variable of packed integers, with a bound in the units of its values.

    python 15_packed_climate.py [FOLDER]

Without FOLDER the files go to a temporary one. Needs netCDF4.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import h5py
import numpy as np

import h5lossy

try:
    import netCDF4
except ImportError:
    sys.exit("netCDF4 is missing: pip install netCDF4")

SCALE, OFFSET, MISSING = 0.01, 273.15, -32768
BOUND = 0.055  # K


def temperature() -> np.ma.MaskedArray:
    """Return degrees of 31 days on a grid; the sea has none."""
    day, lat, lon = np.ogrid[:31, -90:90:91j, 0:360:180j]
    noise = np.random.default_rng(1).normal(0, 0.3, (31, 91, 180))
    values = 288 - 40 * np.sin(np.deg2rad(lat)) ** 2 + 3 * np.sin(day / 5 + np.deg2rad(lon)) + noise
    sea = np.sin(np.deg2rad(3 * lon)) * np.cos(np.deg2rad(2 * lat)) > 0.3
    return np.ma.masked_array(values, np.broadcast_to(sea, values.shape))


def write_packed(path: Path) -> None:
    with netCDF4.Dataset(path, "w") as file:
        for name, size in (("day", 31), ("lat", 91), ("lon", 180)):
            file.createDimension(name, size)
        t2m = file.createVariable("t2m", "i2", ("day", "lat", "lon"), fill_value=MISSING, zlib=True)
        t2m.scale_factor, t2m.add_offset, t2m.units = SCALE, OFFSET, "K"
        t2m[:] = temperature()


def main(folder: Path) -> None:
    packed, small = folder / "era.nc", folder / "small.nc"
    write_packed(packed)
    small.unlink(missing_ok=True)
    command = [Path(sys.executable).with_name("h5lossy"), "repack", "--absolute", BOUND]
    words = [*map(str, [*command, packed, small])]
    said = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
    print(said.stdout + said.stderr)
    said.check_returncode()
    with netCDF4.Dataset(packed) as before, netCDF4.Dataset(small) as after:
        x, y = before["t2m"][:], after["t2m"][:]
        np.testing.assert_array_equal(x.mask, y.mask)
        error = np.abs(x - y).max()
    # In counts there is nothing that readers round.
    with h5py.File(packed) as before, h5py.File(small) as after:
        counts = np.abs(before["t2m"][...].astype(int) - after["t2m"][...]).max()
        info = h5lossy.describe(after["t2m"])
    sizes = packed.stat().st_size, small.stat().st_size
    print(
        f"{sizes[0]} bytes with zlib, {sizes[1]} now; ratio {info.ratio:.2f}, largest error "
        f"{counts} counts, {error:.3f} K; what was missing is missing"
    )
    assert counts == 5
    assert error <= BOUND


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))

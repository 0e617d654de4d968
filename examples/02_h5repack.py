# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Compress an existing file with h5repack: HDF5's own tool, with no Python in the process.

    python 02_h5repack.py [FOLDER]

Without FOLDER the files go to a temporary one. h5repack comes with HDF5 (Debian: hdf5-tools).
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import h5py
import numpy as np

import h5lossy


def write_plain(path: Path) -> np.ndarray:
    """A file written without h5lossy."""
    y, x = np.mgrid[:600, :800]
    height = 1000 * np.sin(x / 90) * np.cos(y / 70) + 30 * np.sin(x * y / 5000)
    with h5py.File(path, "w") as f:
        f["height"] = height
        f["height"].attrs["units"] = "m"
        f["station"] = np.arange(50)
    return height


def run_h5repack(h5repack: str, source: Path, target: Path) -> None:
    # `h5lossy cd-values --absolute 0.05 --var height` prints this. The 1 says optional, as h5py
    # does for every filter; h5lossy makes itself mandatory.
    options = h5lossy.PFPL(absolute=0.05).filter_options
    words = [h5lossy.FILTER_ID, 1, len(options), *options]
    user_defined = f"height:UD={','.join(map(str, words))}"
    # h5repack makes one chunk of a dataset that has none, unless -l says otherwise.
    command = [h5repack, "-f", user_defined, "-l", "height:CHUNK=200x400", str(source), str(target)]
    print("HDF5_PLUGIN_PATH=$(h5lossy plugin-path)", *command)
    environment = os.environ | {"HDF5_PLUGIN_PATH": h5lossy.PLUGIN_PATH}
    subprocess.run(command, env=environment, check=True)  # noqa: S603 - our own arguments


def main(folder: Path) -> None:
    h5repack = shutil.which("h5repack")
    if h5repack is None:
        print("h5repack is not installed here (Debian: apt install hdf5-tools); nothing was done")
        return
    plain, packed = folder / "plain.h5", folder / "packed.h5"
    height = write_plain(plain)
    packed.unlink(missing_ok=True)
    run_h5repack(h5repack, plain, packed)

    with h5py.File(packed) as f:
        error = np.abs(f["height"][...] - height).max()
        info = h5lossy.describe(f["height"])
        assert f["height"].attrs["units"] == "m"
        assert np.array_equal(f["station"][...], np.arange(50))
    assert error <= 0.05
    print(f"{info.codec}, {info.bound}: ratio {info.ratio:.1f}, largest error {error:.9f}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))

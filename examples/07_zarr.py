# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Write Zarr arrays, and read an HDF5 file as Zarr through kerchunk.

    python 07_zarr.py [FOLDER]

Without FOLDER the files go to a temporary one. Needs zarr and kerchunk.
"""

import sys
import tempfile
from pathlib import Path

import h5py
import numpy as np

import h5lossy

try:
    import zarr
    from kerchunk.hdf import SingleHdf5ToZarr

    import h5lossy.zarr
except ImportError as missing:
    print(f"{missing}; this example needs: pip install 'h5lossy[zarr]' kerchunk")
    sys.exit(0)

CODEC = h5lossy.PFPL(absolute=1e-3)


def pressure() -> np.ndarray:
    y, x = np.mgrid[0:400, 0:500].astype(np.float32)
    return 1000 + 20 * np.sin(x / 60) * np.cos(y / 45) + np.hypot(x - 200, y - 150) / 50


def check(name: str, back: np.ndarray, p: np.ndarray) -> None:
    error = np.abs(back.astype(np.float64) - p).max()
    assert error <= 1e-3
    print(f"{name}: largest error {error:.9f}")


def write_format_3(folder: Path, p: np.ndarray) -> None:
    # Two files, of four chunks each: of a part, only the chunks that it touches are read.
    array = zarr.create_array(
        folder / "p3.zarr",
        shape=p.shape,
        dtype=p.dtype,
        chunks=(100, 250),
        shards=(400, 250),
        serializer=h5lossy.zarr.Serializer(CODEC),
        compressors=None,
    )
    array[...] = p
    # Reading needs no more than this, wherever h5lossy is installed.
    array = zarr.open_array(folder / "p3.zarr", mode="r")
    check("format 3", array[...], p)
    check("a part of it", array[17, 40:300], p[17, 40:300])


def write_format_2(folder: Path, p: np.ndarray) -> None:
    array = zarr.create_array(
        folder / "p2.zarr",
        shape=p.shape,
        dtype=p.dtype,
        chunks=(100, 250),
        zarr_format=2,
        compressors=h5lossy.zarr.Compressor(CODEC),
    )
    array[...] = p
    check("format 2", array[...], p)


def read_hdf5_as_zarr(folder: Path, p: np.ndarray) -> None:
    path = folder / "pressure.h5"
    with h5py.File(path, "w") as f:
        f.create_dataset("p", data=p, chunks=(100, 250), compression=CODEC)

    h5lossy.zarr.register_kerchunk()
    with path.open("rb") as file:
        references = SingleHdf5ToZarr(file, str(path)).translate()
    group = zarr.open_group("reference://", storage_options={"fo": references}, mode="r")
    check("HDF5 through kerchunk", group["p"][...], p)
    with h5py.File(path) as f:
        assert np.array_equal(group["p"][...], f["p"][...])  # the same bits


def main(folder: Path) -> None:
    p = pressure()
    write_format_3(folder, p)
    write_format_2(folder, p)
    read_hdf5_as_zarr(folder, p)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))

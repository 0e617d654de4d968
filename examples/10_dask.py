# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Write with several processes: a file for each worker of dask's, and a virtual dataset on top.

    python 10_dask.py [FOLDER]

Without FOLDER the files go to a temporary one. With it, field.h5 shows the files beside it as one
dataset, to any HDF5 program.
"""

import sys
import tempfile
from pathlib import Path

import dask
import dask.array as da
import h5py
import numpy as np
from distributed import Client, LocalCluster, Lock, get_worker

import h5lossy
import h5lossy.dask

SHAPE, BLOCK, CHUNKS = (48, 120, 200), 6, (3, 60, 100)
BOUND = 1e-3


def computed() -> da.Array:
    """A field that is larger than memory, or would be."""
    t, y, x = (
        da.linspace(0, 1, n, chunks=BLOCK if axis == 0 else n) for axis, n in enumerate(SHAPE)
    )
    waves = da.sin(9 * x[None, None, :] + 5 * t[:, None, None]) * da.cos(7 * y[None, :, None])
    return waves.astype("f4")


def write_block(values: np.ndarray, first: int, folder: Path) -> tuple[int, str]:
    """Write a block into the file of the worker that has it; a dataset for each block."""
    name = f"part-{get_worker().id.rsplit('-', 1)[-1]}.h5"
    with Lock(name), h5py.File(folder / name, "a") as f:  # of the threads of the worker
        part = f.create_dataset(
            str(first), values.shape, "f4", chunks=CHUNKS, compression=h5lossy.PFPL(absolute=BOUND)
        )
        h5lossy.write(part, values, threads=1)  # the workers are the parallelism
    return first, name


def write(field: da.Array, folder: Path) -> None:
    firsts = np.cumsum([0, *field.chunks[0][:-1]]).tolist()
    tasks = [
        dask.delayed(write_block)(field[first : first + BLOCK], first, folder) for first in firsts
    ]
    layout = h5py.VirtualLayout(SHAPE, "f4")
    for first, name in dask.compute(*tasks):
        shape = (min(BLOCK, SHAPE[0] - first), *SHAPE[1:])
        layout[first : first + BLOCK] = h5py.VirtualSource(name, str(first), shape)
    with h5py.File(folder / "field.h5", "w") as f:
        f.create_virtual_dataset("field", layout)


def read_block(path: Path, block_info: dict) -> np.ndarray:
    where = block_info[None]["array-location"]
    with h5py.File(path) as f:
        return h5lossy.read(f["field"], tuple(slice(*ends) for ends in where), threads=1)


def read(path: Path) -> da.Array:
    """The blocks of what is in the file, which the workers read when they need them."""
    with h5py.File(path) as f:
        shape = f["field"].shape
    chunks = da.core.normalize_chunks((BLOCK, -1, -1), shape, dtype="f4")
    return da.map_blocks(
        read_block, path, chunks=chunks, dtype="f4", meta=np.empty((0, 0, 0), "f4")
    )


def main(folder: Path) -> None:
    with (
        dask.config.set(temporary_directory=folder),
        LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        client.register_plugin(h5lossy.dask.FilterPlugin())
        field = computed()
        write(field, folder)
        parts = sorted(folder.glob("part-*.h5"))
        size = sum(path.stat().st_size for path in parts)
        print(f"{len(parts)} files, {field.nbytes / size:.1f} times smaller")

        stored = read(folder / "field.h5")
        report = h5lossy.dask.assess(field, stored, absolute=BOUND)
        assert report.ok
        print(f"largest error {report.error.max_abs:.9f}, PSNR {report.error.psnr:.2f} dB")

        # One process may also write, block by block, what the others compute.
        with h5py.File(folder / "one.h5", "w") as f:
            one = f.create_dataset(
                "field", SHAPE, "f4", chunks=CHUNKS, compression=h5lossy.PFPL(absolute=BOUND)
            )
            h5lossy.write(one, field)
        with h5py.File(folder / "one.h5") as f:
            assert np.array_equal(h5lossy.read(f["field"]), stored.compute())


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))

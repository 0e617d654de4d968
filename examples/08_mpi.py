# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Write one file from all ranks of an MPI program (parallel HDF5), and read it again.

    mpiexec -n 4 python -m mpi4py 08_mpi.py [FOLDER]

Without FOLDER the file goes to a temporary one. With `-m mpi4py`, an error in one rank ends all.
"""

import sys
import tempfile
from pathlib import Path

import h5py
import numpy as np

import h5lossy

#: Of each rank; the chunks divide it.
SHAPE, CHUNKS = (16, 100, 150), (4, 50, 75)
BOUND = 1e-3


def computed(rank: int) -> np.ndarray:
    """What a rank has: its planes of a field."""
    t, y, x = (np.linspace(0, 1, n, dtype=np.float32) for n in SHAPE)
    return np.sin(9 * x + 5 * (t[:, None, None] + rank)) * np.cos(7 * y[:, None])


def planes_of(rank: int) -> slice:
    return slice(rank * SHAPE[0], (rank + 1) * SHAPE[0])


def main(folder: Path | None) -> None:
    from mpi4py import MPI  # noqa: PLC0415  # what says that it is missing comes first

    comm = MPI.COMM_WORLD
    temporary = tempfile.TemporaryDirectory() if comm.rank == 0 and folder is None else None
    folder = comm.bcast(Path(temporary.name) if temporary else folder)
    mine = computed(comm.rank)

    # Every rank does all of this: parallel HDF5 creates, extends and writes together.
    with h5py.File(folder / "pressure.h5", "w", driver="mpio", comm=comm) as f:
        p = f.create_dataset(
            "p",
            (comm.size * SHAPE[0], *SHAPE[1:]),
            "f4",
            chunks=CHUNKS,
            compression=h5lossy.PFPL(absolute=BOUND),
        )
        h5lossy.write(p, mine, planes_of(comm.rank), collective=True)

    # Each rank reads for itself what it wants.
    with h5py.File(folder / "pressure.h5", driver="mpio", comm=comm) as f:
        neighbour = (comm.rank + 1) % comm.size
        theirs = h5lossy.read(f["p"], planes_of(neighbour), threads=1)
    error = np.abs(theirs.astype(np.float64) - computed(neighbour)).max()
    error = comm.allreduce(error, MPI.MAX)
    assert error <= BOUND

    if comm.rank == 0:  # an ordinary file
        with h5py.File(folder / "pressure.h5") as f:
            ratio = h5lossy.describe(f["p"]).ratio
        print(f"{comm.size} ranks, {ratio:.1f} times smaller, largest error {error:.9f}")
        if temporary:
            temporary.cleanup()


if __name__ == "__main__":
    if h5py.get_config().mpi:
        main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
    else:
        print("h5py is not built for MPI here; docs/howto/mpi.md says how to build it")

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Parallel HDF5: what `mpi_program.py` finds with one, two and four ranks."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import pytest

import h5lossy
from hdf5_helpers import environment
from mpi_program import CASES, NEED_TWO_RANKS

PROGRAM = Path(__file__).with_name("mpi_program.py")
#: For all cases; a rank that waits for another one for good is a finding.
SECONDS = 120

pytestmark = [
    pytest.mark.skipif(not h5py.get_config().mpi, reason="h5py was not built with MPI"),
    pytest.mark.skipif(shutil.which("mpiexec") is None, reason="mpiexec is not installed"),
]


def run_ranks(ranks: int, folder: Path, *command: str | Path, **variables: str) -> str:
    """Run so many processes of a program, until they end or hang; return what they said."""
    env = environment(
        OMPI_ALLOW_RUN_AS_ROOT="1",
        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
        OMPI_MCA_rmaps_base_oversubscribe="1",
        **variables,
    )
    mpiexec = ["mpiexec", "-n", str(ranks), *map(str, command)]
    with (folder / "said").open("w") as said:
        process = subprocess.Popen(mpiexec, env=env, cwd=folder, stdout=said, stderr=said)
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.terminate()  # mpiexec ends its ranks; kill() would leave them
            process.wait()
    return (folder / "said").read_text()


@pytest.fixture(scope="module", params=[1, 2, 4], ids="{}_ranks".format)
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict:
    """Run all cases; return the number of ranks, and what went wrong in each case."""
    folder = tmp_path_factory.mktemp("mpi")
    said = run_ranks(request.param, folder, sys.executable, "-P", PROGRAM, folder)
    results = folder / "found.json"
    assert results.exists(), said
    return {"ranks": request.param, **json.loads(results.read_text())}


@pytest.mark.parametrize("name", CASES)
def test_case(found: dict, name: str) -> None:
    if found["ranks"] == 1 and name in NEED_TWO_RANKS:
        assert name not in found
        return
    assert found.get(name, "an earlier case did not come to an end") == ""


@pytest.mark.parametrize("ranks", [1, 4])
def test_the_example(tmp_path: Path, ranks: int) -> None:
    example = Path(__file__).parents[1] / "examples" / "08_mpi.py"
    said = run_ranks(ranks, tmp_path, sys.executable, "-m", "mpi4py", example, tmp_path)
    assert f"{ranks} ranks, " in said, said
    with h5py.File(tmp_path / "pressure.h5") as file:
        assert h5lossy.describe(file["p"]).chunks_filtered == 16 * ranks

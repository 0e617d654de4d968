# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The examples run, each as a separate program, and check what they show."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from importlib.metadata import entry_points
from pathlib import Path

import h5py
import pytest

import h5lossy
from hdf5_helpers import environment, run

FOLDER = Path(__file__).parents[1] / "examples"

#: What each needs, the file that it writes, and the dataset in that which is compressed.
EXAMPLES = {
    "01_h5py.py": ((), "temperature.h5", "t"),
    "02_h5repack.py": (("h5repack",), "packed.h5", "height"),
    "03_netcdf4.py": (("netCDF4",), "pr.nc", "pr"),
    "04_many_threads.py": ((), "simulation.h5", "density"),
    "05_assess.py": ((), "packed.h5", "t"),
    "06_gpu.py": (("GPU",), "pressure.h5", "p"),
    "07_zarr.py": (("zarr", "kerchunk"), "pressure.h5", "p"),
    "08_mpi.py": (("MPI",), "pressure.h5", "p"),
    "09_xarray.py": (("xarray", "h5netcdf", "engine"), "north.nc", "tas"),
    "10_dask.py": (("dask", "distributed"), "one.h5", "field"),
    "11_detector.py": ((), "detector.nxs", "entry/data"),
    "12_kspace.py": ((), "kspace.h5", "kspace"),
    "13_electrophysiology.py": ((), "recording.h5", "raw"),
    "14_microscope.py": ((), "volume.h5", "volume"),
    "15_packed_climate.py": (("netCDF4", "h5lossy"), "small.nc", "t2m"),
}


def has_gpu() -> bool:
    has_cupy = importlib.util.find_spec("cupy") is not None
    return has_cupy and any(not device.problem for device in h5lossy.get_config().devices)


def require_engine(name: str) -> None:
    """Skip an example that needs xarray's engine "h5lossy", which an installation declares."""
    installed = entry_points(group="xarray.backends", name="h5lossy")
    if "engine" in EXAMPLES[name][0] and not installed:
        pytest.skip("h5lossy is not installed, only on the path")


def skip_without(packages: set[str]) -> None:
    for package in packages:
        if importlib.util.find_spec(package) is None and shutil.which(package) is None:
            pytest.skip(f"{package} is not installed")


def test_every_example_is_tested() -> None:
    assert sorted(path.name for path in FOLDER.glob("*.py")) == sorted(EXAMPLES)


QUICK = {"01_h5py.py", "02_h5repack.py", "06_gpu.py", "08_mpi.py"}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in EXAMPLES]
)
def test_example(name: str, tmp_path: Path) -> None:
    needed, file_name, dataset = EXAMPLES[name]
    if "GPU" in needed and not has_gpu():
        pytest.skip("no GPU that CuPy can use")
    if "MPI" in needed and not h5py.get_config().mpi:
        pytest.skip("h5py was not built with MPI")
    require_engine(name)
    skip_without(set(needed) - {"GPU", "MPI", "engine"})

    folder, temporary = tmp_path / "files", tmp_path / "temporary"
    folder.mkdir()
    temporary.mkdir()
    env = environment(TMPDIR=str(temporary))
    # Warnings of other packages are theirs.
    said = run(sys.executable, FOLDER / name, folder, cwd=folder, env=env)

    assert "largest error" in said.stdout
    with h5py.File(folder / file_name) as file:
        assert h5lossy.describe(file[dataset]) is not None
    assert list(temporary.iterdir()) == []


# The others end in the same lines as the first; those of GPUs and MPI may say what is missing.
@pytest.mark.parametrize("name", ["01_h5py.py", "06_gpu.py", "08_mpi.py"])
def test_examples_leave_nothing_behind_without_a_folder(name: str, tmp_path: Path) -> None:
    run(sys.executable, FOLDER / name, cwd=tmp_path, env=environment(TMPDIR=str(tmp_path)))

    assert list(tmp_path.iterdir()) == []


def test_the_h5repack_example_says_what_is_missing(tmp_path: Path) -> None:
    env = environment(PATH=str(tmp_path))

    said = run(sys.executable, FOLDER / "02_h5repack.py", cwd=tmp_path, env=env)

    assert said.stdout.startswith("h5repack is not installed here (Debian: apt install hdf5-tools)")


def test_the_gpu_example_says_what_is_missing(tmp_path: Path) -> None:
    env = environment(CUDA_VISIBLE_DEVICES="")

    said = run(sys.executable, FOLDER / "06_gpu.py", cwd=tmp_path, env=env)

    assert said.stdout.startswith(("CuPy is not installed here: pip", "there is no GPU here ("))


def test_the_mpi_example_says_what_is_missing(tmp_path: Path) -> None:
    if h5py.get_config().mpi:
        pytest.skip("h5py was built with MPI")

    said = run(sys.executable, FOLDER / "08_mpi.py", cwd=tmp_path, env=environment())

    assert said.stdout.startswith("h5py is not built for MPI here")

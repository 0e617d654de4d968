# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The examples run, each as a program of its own, and check what they show."""

from __future__ import annotations

import importlib.util
import shutil
import sys
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
    "03_netcdf_xarray.py": (("xarray", "h5netcdf", "netCDF4"), "sst.nc", "sst"),
    "04_many_threads.py": ((), "simulation.h5", "density"),
}


def test_every_example_is_tested() -> None:
    assert sorted(path.name for path in FOLDER.glob("*.py")) == sorted(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name: str, tmp_path: Path) -> None:
    needed, file_name, dataset = EXAMPLES[name]
    for package in needed:
        if importlib.util.find_spec(package) is None and shutil.which(package) is None:
            pytest.skip(f"{package} is not installed")

    # Warnings of other packages are theirs.
    said = run(sys.executable, FOLDER / name, tmp_path, cwd=tmp_path, env=environment())

    assert "largest error" in said.stdout
    with h5py.File(tmp_path / file_name) as file:
        assert h5lossy.describe(file[dataset]) is not None


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_leave_nothing_behind_without_a_folder(name: str, tmp_path: Path) -> None:
    run(sys.executable, FOLDER / name, cwd=tmp_path, env=environment(TMPDIR=str(tmp_path)))

    assert list(tmp_path.iterdir()) == []


def test_the_h5repack_example_says_what_is_missing(tmp_path: Path) -> None:
    env = environment(PATH=str(tmp_path))

    said = run(sys.executable, FOLDER / "02_h5repack.py", cwd=tmp_path, env=env)

    assert said.stdout.startswith("h5repack is not installed here (Debian: apt install hdf5-tools)")

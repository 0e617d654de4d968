# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Programs with HDF5 linked into them, whose functions the plugin cannot reach."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest
from h5py import h5z

import h5lossy
from hdf5_helpers import h5lossy_command, run, tool, with_plugin

CODEC = h5lossy.PFPL(absolute=1e-3)
VALUES = (np.arange(64 * 256) % 1000).astype("f4") * np.float32(0.37)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("program") / "static_hdf5"
    run(tool("h5cc"), "-O1", "-o", path, Path(__file__).parent / "static_hdf5.c", cwd=path.parent)
    linked = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
    if "libhdf5" in linked:
        pytest.skip("h5cc links the shared library here")
    return path


def all_words() -> list[str]:
    """Return what the command line prints for this type and these chunks."""
    options = ("--absolute", "1e-3", "--dtype", "f4", "--chunks", "16x64")
    said = h5lossy_command("cd-values", *options).stdout
    return re.findall(r"\d+", said.partition("UD=46412,0,16,")[2])[:16]


@pytest.mark.parametrize("flag", [h5z.FLAG_MANDATORY, h5z.FLAG_OPTIONAL])
def test_without_the_type_chunks_are_stored_and_it_is_said(
    program: Path, tmp_path: Path, flag: int
) -> None:
    path = tmp_path / "x.h5"
    said = run(program, path, str(flag), *map(str, CODEC.filter_options), env=with_plugin())
    error, stored = said.stdout.split()
    assert float(error) == 0
    assert int(stored) >= VALUES.nbytes
    assert said.stderr.count("chunks are stored without compression") == 1
    assert "give all 16 cd_values (shown once)" in said.stderr
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["x"][...].reshape(-1), VALUES)
        np.testing.assert_array_equal(h5lossy.read(file["x"]).reshape(-1), VALUES)


def test_with_all_words_it_compresses(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    said = run(program, path, str(h5z.FLAG_MANDATORY), *all_words(), env=with_plugin())
    error, stored = said.stdout.split()
    assert 0 < float(error) <= 1e-3
    assert int(stored) < VALUES.nbytes
    assert said.stderr == ""
    with h5py.File(path) as file:
        for values in (file["x"][...], h5lossy.read(file["x"])):
            errors = np.abs(values.reshape(-1).astype("f8") - VALUES)
            assert errors.max() <= 1e-3

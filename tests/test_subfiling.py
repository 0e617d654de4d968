# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Parallel HDF5 with subfiling: what `subfiling.c` writes, fused to one file, and read by h5py."""

from __future__ import annotations

import os
from pathlib import Path

import h5py
import numpy as np
import pytest

import h5lossy
from hdf5_helpers import run
from test_mpi import run_ranks

#: The folder of a parallel HDF5, from 1.14 on, that was built with HDF5_ENABLE_SUBFILING_VFD.
HDF5 = os.environ.get("HDF5_WITH_SUBFILING", "")

pytestmark = pytest.mark.skipif(
    not HDF5, reason="HDF5_WITH_SUBFILING does not name a parallel HDF5 that has subfiling"
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("program") / "subfiling"
    source = Path(__file__).parent / "subfiling.c"
    linked = (f"-L{HDF5}/lib", f"-Wl,-rpath,{HDF5}/lib", "-lhdf5", "-lm")
    run("mpicc", f"-I{HDF5}/include", "-o", path, source, *linked)
    return path


@pytest.mark.parametrize("codec", [h5lossy.PFPL(absolute=1e-3), h5lossy.Interp(absolute=1e-3)])
@pytest.mark.parametrize("ranks", [1, 3, 4])
def test_the_bound_holds(program: Path, tmp_path: Path, ranks: int, codec: h5lossy.Codec) -> None:
    path = tmp_path / "x.h5"
    options = map(str, codec.filter_options)
    variables = {
        "HDF5_PLUGIN_PATH": h5lossy.PLUGIN_PATH,
        "H5FD_SUBFILING_IOC_PER_NODE": "2",
        "H5FD_SUBFILING_STRIPE_SIZE": "4096",
    }
    said = run_ranks(ranks, tmp_path, program, path, *options, **variables)
    assert said == ""
    assert len(list(tmp_path.glob("*.subfile_*_of_*"))) == min(ranks, 2)
    (configuration,) = tmp_path.glob("*.config")
    run("bash", f"{HDF5}/bin/h5fuse", "-f", configuration, cwd=tmp_path)
    with h5py.File(path) as file:
        given, lossy = file["given"], file["lossy"]
        assert h5lossy.describe(lossy).chunks_filtered == lossy.id.get_num_chunks()
        assert lossy.id.get_storage_size() < given.id.get_storage_size() / 2
        errors = np.abs(given[...].astype("f8") - lossy[...])
        assert 0 < errors.max() <= 1e-3

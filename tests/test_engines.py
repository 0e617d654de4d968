# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Engines for large Zarr data. Each test is a process, which may start workers of its own.

Their packages are not among the extra "test": a weekly workflow installs and runs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from checks import assert_kept, assert_same_bits
from h5lossy import PFPL
from hdf5_helpers import PYTHON, bound_of, field, run
from test_libraries import require

if TYPE_CHECKING:
    from pathlib import Path

BEGIN = """
import warnings
warnings.simplefilter("ignore")
import h5lossy.zarr, numpy as np, xarray as xr, zarr
from pathlib import Path
codec = {"serializer": h5lossy.zarr.Serializer(h5lossy.PFPL(absolute=1e-3)), "compressors": None}
x = np.load("x.npy")

def make(store, **options):
    array = zarr.create_array(
        store, shape=x.shape, chunks=(16, 32), dtype="f4", dimension_names="yx", **codec, **options
    )
    array[...] = x
    return array

if __name__ == "__main__":
"""
CUBED = """
    import cubed
    from cubed.runtime.executors.local import ProcessesExecutor
    source, target = make("in.zarr"), make("out.zarr")
    spec = cubed.Spec(work_dir="work", allowed_mem="200MB")
    array = cubed.from_zarr("in.zarr", spec=spec)
    cubed.store([-array], [target], executor=ProcessesExecutor())
    assert (target[...] == -source[...]).all()
    np.save("y.npy", -target[...])
"""
XARRAY_BEAM = """
    import apache_beam, xarray_beam
    make(zarr.create_group("in.zarr").store, name="t")
    zarr.consolidate_metadata("in.zarr")
    dataset, chunks = xarray_beam.open_zarr("in.zarr")
    parts = {}
    def keep(key, part):
        np.save(f"part-{key.offsets['y']}-{key.offsets['x']}.npy", part["t"].values)
    with apache_beam.Pipeline("DirectRunner") as pipeline:
        pipeline | xarray_beam.DatasetToChunks(dataset, chunks) | apache_beam.MapTuple(keep)
    y = np.empty_like(x)
    for path in Path().glob("part-*.npy"):
        part = np.load(path)
        at = [int(n) for n in path.stem.split("-")[1:]]
        y[at[0] : at[0] + part.shape[0], at[1] : at[1] + part.shape[1]] = part
    np.save("y.npy", y)
"""
ICECHUNK = """
    import icechunk
    repo = icechunk.Repository.create(icechunk.local_filesystem_storage("repo"))
    session = repo.writable_session("main")
    make(session.store, name="t")
    session.commit("t")
    np.save("y.npy", zarr.open_group(repo.readonly_session("main").store, mode="r")["t"][...])
"""
VIRTUAL = """
    import h5py, icechunk, virtualizarr
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import LocalStore
    with h5py.File("a.nc", "w") as file:
        codec = h5lossy.PFPL(absolute=1e-3)
        t = file.create_dataset("t", data=x, chunks=(16, 32), compression=codec)
        for axis, n in enumerate(x.shape):
            file["yx"[axis]] = np.arange(n)
            file["yx"[axis]].make_scale("yx"[axis])
            t.dims[axis].attach_scale(file["yx"[axis]])
    h5lossy.zarr.register_virtualizarr()
    dataset = virtualizarr.open_virtual_dataset(
        Path("a.nc").absolute().as_uri(),
        registry=ObjectStoreRegistry({"file://": LocalStore()}),
        parser=virtualizarr.parsers.HDFParser(),
    )
    here = Path().absolute()
    config = icechunk.RepositoryConfig.default()
    local = icechunk.local_filesystem_store(str(here))
    container = icechunk.VirtualChunkContainer(f"{here.as_uri()}/", local)
    config.set_virtual_chunk_container(container)
    repo = icechunk.Repository.create(
        icechunk.local_filesystem_storage("repo"),
        config=config,
        authorize_virtual_chunk_access={f"{here.as_uri()}/": None},
    )
    session = repo.writable_session("main")
    dataset.vz.to_icechunk(session.store)
    session.commit("t")
    np.save("y.npy", zarr.open_group(repo.readonly_session("main").store, mode="r")["t"][...])
    with h5py.File("a.nc") as file:
        np.save("read.npy", file["t"][...])
"""


@pytest.mark.parametrize(
    ("packages", "code"),
    [
        (("cubed",), CUBED),
        (("xarray_beam",), XARRAY_BEAM),
        (("icechunk",), ICECHUNK),
        (("icechunk", "virtualizarr"), VIRTUAL),
    ],
    ids=["cubed", "xarray-beam", "icechunk", "VirtualiZarr to icechunk"],
)
def test_an_engine_keeps_the_bound(tmp_path: Path, packages: tuple[str, ...], code: str) -> None:
    require(*packages)
    data = field((40, 50))
    np.save(tmp_path / "x.npy", data)
    (tmp_path / "program.py").write_text(BEGIN + code)

    run(*PYTHON, "program.py", cwd=tmp_path)

    decoded = np.load(tmp_path / "y.npy")
    assert_kept(data, decoded, bound_of(PFPL(absolute=1e-3)))
    if (tmp_path / "read.npy").exists():
        assert_same_bits(decoded, np.load(tmp_path / "read.npy"))

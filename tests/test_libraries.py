# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Several HDF5 libraries in one process: the wheels of h5py, netCDF4 and PyTables bring one each.

Each test is a process of its own, for what is loaded, and in which order, is what is tested.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

import h5lossy
from checks import assert_kept, assert_same_bits
from h5lossy import PFPL
from hdf5_helpers import (
    bound_of,
    cd_values,
    field,
    frames,
    message_without_plugin,
    run,
    run_python,
    tool,
    with_plugin,
)

if TYPE_CHECKING:
    import subprocess

ABSOLUTE = PFPL(absolute=1e-3)

#: What the snippets share: nothing but these imports, and functions that import what they need.
PRELUDE = """
import ctypes, os, sys
import numpy as np

def libnetcdf():
    "The netCDF-C of the netCDF4 wheel, which is loaded already."
    with open("/proc/self/maps") as maps:
        return ctypes.CDLL(next(line.split()[-1] for line in maps if "libnetcdf" in line))

def write_with_netcdf4(path, values, words):
    "netCDF4 has no call for a filter of any number; netCDF-C has."
    import netCDF4
    with netCDF4.Dataset(path, "w") as nc:
        for name, n in zip("yx", values.shape):
            nc.createDimension(name, n)
        endian = "big" if values.dtype.newbyteorder("<") != values.dtype else "little"
        options = {"chunksizes": (32, 32), "fill_value": -999, "endian": endian}
        t = nc.createVariable("t", values.dtype, ("y", "x"), **options)
        count, array = ctypes.c_size_t(len(words)), (ctypes.c_uint * len(words))(*words)
        status = libnetcdf().nc_def_var_filter(nc._grpid, t._varid, 46412, count, array)
        assert status == 0, status
        t[...] = values
"""


def snippet(code: str, *arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    return run_python(PRELUDE + code, *arguments, **options)


def require(*packages: str) -> None:
    """Skip where a package is missing, without importing it here."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")


@pytest.fixture
def compressed(tmp_path: Path) -> Path:
    """Give a netCDF-4 file, made by h5py, with one compressed variable."""
    path = tmp_path / "a.nc"
    with h5py.File(path, "w") as file:
        for name, n in zip("yx", (50, 70), strict=True):
            file[name] = np.arange(n, dtype="f8")
            file[name].make_scale(name)
        options = {"chunks": (32, 32), "fillvalue": -999.0, "compression": ABSOLUTE}
        t = file.create_dataset("t", data=field((50, 70)), **options)
        t.attrs["_FillValue"] = np.array([-999], "f4")
        for axis, name in enumerate("yx"):
            t.dims[axis].attach_scale(file[name])
    return path


def values_of(path: Path, name: str = "t") -> np.ndarray[Any, Any]:
    with h5py.File(path) as file:
        return np.asarray(file[name][...])


TYPES = ["<f4", ">f4", "<f8", ">f8"]
IMPORTS = {
    "h5lossy first": "import h5lossy, h5py, {}",
    "h5lossy last": "import {}, h5py, h5lossy",
    "h5lossy between": "import h5py, h5lossy, {}",
    "package first": "import {}, h5lossy, h5py",
}


# ------------------------------------------------------------------------------------------------
# netCDF4
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("imports", IMPORTS.values(), ids=IMPORTS)
def test_netcdf4_reads_what_h5py_wrote(compressed: Path, imports: str) -> None:
    require("netCDF4")
    code = """
nc = netCDF4.Dataset(sys.argv[1])
np.save(sys.argv[2], nc["t"][...].filled())
"""
    snippet(imports.format("netCDF4") + code, compressed, compressed.with_suffix(".npy"))

    assert_same_bits(np.load(compressed.with_suffix(".npy")), values_of(compressed))


@pytest.mark.parametrize("imports", IMPORTS.values(), ids=IMPORTS)
def test_netcdf4_writes_and_h5py_reads(tmp_path: Path, imports: str) -> None:
    require("netCDF4")
    given = {f"{tmp_path}/{dtype}.nc": field((50, 70), dtype) for dtype in TYPES}
    for path, data in given.items():
        data[::4] = -999
        np.save(f"{path}.npy", data)

    code = f"""
for path in sys.argv[1:]:
    write_with_netcdf4(path, np.load(path + ".npy"), {ABSOLUTE.filter_options})
"""
    snippet(imports.format("netCDF4") + code, *given)

    for path, data in given.items():
        with h5py.File(path) as file:
            assert cd_values(file["t"])[:5] == (*ABSOLUTE.filter_options, 256)
            codecs = {h5lossy.inspect(frame).codec for frame in frames(file["t"]).values()}
            assert codecs == {"pfpl"}
            assert file["t"].dtype == data.dtype
            decoded = file["t"][...]
        assert_kept(data, decoded, bound_of(ABSOLUTE), data.dtype.type(-999))


def test_netcdf4_writes_with_nothing_but_the_plugin_path(tmp_path: Path) -> None:
    # No h5lossy in Python: HDF5 finds the plugin, which finds the functions of that HDF5.
    require("netCDF4")
    path = tmp_path / "a.nc"
    data = field((50, 70))
    np.save(tmp_path / "t.npy", data)
    code = f"""
write_with_netcdf4(sys.argv[1], np.load(sys.argv[2]), {ABSOLUTE.filter_options})
assert "h5lossy" not in sys.modules
"""
    snippet(code, path, tmp_path / "t.npy", env=with_plugin())

    with h5py.File(path) as file:
        assert len(cd_values(file["t"])) == 16
        assert_kept(data, file["t"][...], bound_of(ABSOLUTE))


def test_netcdf4_says_what_is_refused(tmp_path: Path) -> None:
    require("netCDF4")
    options = h5lossy.AATROX(absolute=3).filter_options
    code = f"""
import h5lossy, netCDF4
try:
    write_with_netcdf4(sys.argv[1], np.zeros((50, 70), "i4"), {options})
except (AssertionError, RuntimeError) as error:
    print("refused:", error)
"""
    assert "refused: NetCDF: " in snippet(code, tmp_path / "a.nc").stdout


def test_two_hdf5s_write_in_turns(tmp_path: Path) -> None:
    # Each call has to go to the library that is calling.
    require("netCDF4")
    code = f"""
import h5py, h5lossy, netCDF4
values = np.load(sys.argv[1])
paths = {{config.path for config in h5lossy.get_config().libhdf5s}}
assert len(paths) >= 2, paths
for i in range(3):
    write_with_netcdf4(f"{{sys.argv[2]}}/n{{i}}.nc", values, {ABSOLUTE.filter_options})
    with h5py.File(f"{{sys.argv[2]}}/h{{i}}.nc", "w") as file:
        file.create_dataset("t", data=values, chunks=(32, 32), fillvalue=-999.0,
                            **h5lossy.PFPL(absolute=1e-3))
"""
    data = field((50, 70))
    np.save(tmp_path / "t.npy", data)
    snippet(code, tmp_path / "t.npy", tmp_path)

    for i in range(3):
        with h5py.File(tmp_path / f"n{i}.nc") as n, h5py.File(tmp_path / f"h{i}.nc") as h:
            assert cd_values(n["t"]) == cd_values(h["t"])
            assert frames(n["t"]) == frames(h["t"])


def test_netcdf4s_own_compression_still_works(tmp_path: Path) -> None:
    # It looks for its plugins in HDF5_PLUGIN_PATH, and sets that only where nobody else has.
    require("netCDF4")
    code = """
import h5lossy, netCDF4
with netCDF4.Dataset(sys.argv[1], "w") as nc:
    if not nc.has_zstd_filter():
        print("no zstd here")
        sys.exit()
    nc.createDimension("x", 1000)
    nc.createVariable("t", "f4", ("x",), compression="zstd")[...] = np.arange(1000)
print(netCDF4.Dataset(sys.argv[1])["t"][...].sum(), netCDF4.Dataset(sys.argv[1])["t"].filters())
"""
    said = snippet(code, tmp_path / "a.nc").stdout
    if said.startswith("no zstd"):
        pytest.skip("this netCDF4 has no zstd plugin")
    assert said.startswith("499500.0")
    assert "'zstd': True" in said


# ------------------------------------------------------------------------------------------------
# PyTables, h5netcdf, xarray, hdf5plugin
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("imports", IMPORTS.values(), ids=IMPORTS)
def test_pytables_reads_what_h5py_wrote(tmp_path: Path, imports: str) -> None:
    require("tables")
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("t", data=field((50, 70)), chunks=(32, 32), **ABSOLUTE)
    code = """
with tables.open_file(sys.argv[1]) as file:
    np.save(sys.argv[2], file.root.t[...])
"""
    snippet(imports.format("tables") + code, path, tmp_path / "t.npy")

    assert_same_bits(np.load(tmp_path / "t.npy"), values_of(path))


@pytest.fixture
def vtkhdf(tmp_path: Path) -> Path:
    """Give a file of VTK's format of its own."""
    path = tmp_path / "a.vtkhdf"
    with h5py.File(path, "w") as file:
        group = file.create_group("VTKHDF")
        extent = np.array([0, 69, 0, 49, 0, 19])
        group.attrs.update(
            Version=np.array([2, 0]),
            Type=np.bytes_("ImageData"),
            WholeExtent=extent,
            Origin=np.zeros(3),
            Spacing=np.ones(3),
            Direction=np.eye(3).ravel(),
        )
        data = field((20, 50, 70))
        group.create_dataset("PointData/t", data=data, chunks=(8, 32, 32), **ABSOLUTE)
    return path


READ_WITH_VTK = """
import vtkmodules.vtkIOHDF
from vtkmodules.util.numpy_support import vtk_to_numpy
reader = vtkmodules.vtkIOHDF.vtkHDFReader()
reader.SetFileName(sys.argv[1])
reader.Update()
np.save(sys.argv[2], vtk_to_numpy(reader.GetOutput().GetPointData().GetArray("t")))
"""


def assert_vtk_has_read(vtkhdf: Path, array: Path) -> None:
    expected = values_of(vtkhdf, "VTKHDF/PointData/t")
    assert_same_bits(np.load(array).reshape(expected.shape), expected)


@pytest.mark.parametrize("imports", IMPORTS.values(), ids=IMPORTS)
def test_vtk_reads_what_h5py_wrote(vtkhdf: Path, tmp_path: Path, imports: str) -> None:
    # The names of its HDF5's functions have a prefix.
    require("vtkmodules")
    registered = "print(*(library.registered_by for library in h5lossy.get_config().libhdf5s))"
    code = f"{imports.format('vtkmodules.vtkIOHDF')}{READ_WITH_VTK}{registered}"
    said = snippet(code, vtkhdf, tmp_path / "t.npy").stdout
    assert said.split() == ["h5lossy", "h5lossy"]
    assert_vtk_has_read(vtkhdf, tmp_path / "t.npy")


def test_vtk_finds_the_plugin_by_its_path(vtkhdf: Path, tmp_path: Path) -> None:
    require("vtkmodules")
    message = message_without_plugin("VTK (VTKHDF files)")
    assert message in snippet(READ_WITH_VTK, vtkhdf, tmp_path / "t.npy", status=None).stderr
    snippet(READ_WITH_VTK, vtkhdf, tmp_path / "t.npy", env=with_plugin())
    assert_vtk_has_read(vtkhdf, tmp_path / "t.npy")


@pytest.mark.parametrize("order", ["netCDF4, tables, h5py", "tables, h5py, netCDF4"])
def test_all_libraries_at_once_read_the_same(compressed: Path, tmp_path: Path, order: str) -> None:
    require("netCDF4", "tables")
    plain = tmp_path / "b.h5"
    with h5py.File(plain, "w") as file:
        file.create_dataset("t", data=field((50, 70)), chunks=(32, 32), **ABSOLUTE)
    code = f"""
import h5lossy
import {order}
files = [netCDF4.Dataset(sys.argv[1]), tables.open_file(sys.argv[2]), h5py.File(sys.argv[1])]
t = [files[0]["t"][...].filled(), files[1].root.t[...], files[2]["t"][...]]
assert (t[0] == t[1]).all() and (t[1] == t[2]).all()
print(*(library.registered_by for library in h5lossy.get_config().libhdf5s))
"""
    said = snippet(code, compressed, plain).stdout.split()
    # PyTables may share h5py's HDF5; the wheels do not.
    assert len(said) >= 2
    assert set(said) == {"h5lossy"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "spelling",
    ["{'compression': codec, 'chunksizes': (32, 32)}", "dict(codec, chunksizes=(32, 32))"],
    ids=["compression", "keywords"],
)
def test_xarray_writes_and_reads_with_h5netcdf(tmp_path: Path, spelling: str) -> None:
    require("xarray", "h5netcdf")
    data = field((50, 70))
    data[3, 4] = np.nan
    np.save(tmp_path / "t.npy", data)
    code = f"""
import h5lossy, xarray as xr
codec = h5lossy.PFPL(absolute=1e-3)
ds = xr.Dataset({{"t": (("y", "x"), np.load(sys.argv[2]))}})
ds.to_netcdf(sys.argv[1], engine="h5netcdf", encoding={{"t": {spelling}}})
np.save(sys.argv[3], xr.open_dataset(sys.argv[1], engine="h5netcdf")["t"].values)
"""
    path = tmp_path / "a.nc"
    snippet(code, path, tmp_path / "t.npy", tmp_path / "decoded.npy")

    with h5py.File(path) as file:
        assert file["t"].chunks == (32, 32)
        assert cd_values(file["t"])[:4] == ABSOLUTE.filter_options
        frames(file["t"])
    assert_same_bits(np.load(tmp_path / "decoded.npy"), values_of(path))
    assert_kept(data, values_of(path), bound_of(ABSOLUTE))


def test_xarray_appends_with_h5netcdf(tmp_path: Path) -> None:
    # It opens the file again, and writes into chunks that are there.
    require("xarray", "h5netcdf")
    data = field((50, 70))
    np.save(tmp_path / "t.npy", data)
    code = """
import h5lossy, h5netcdf
t = np.load(sys.argv[2])
with h5netcdf.File(sys.argv[1], "w") as file:
    file.dimensions = {"y": None, "x": 70}
    file.create_variable("t", ("y", "x"), "f4", chunks=(32, 32), fillvalue=-999.0,
                         **h5lossy.PFPL(absolute=1e-3))
for i in range(0, 50, 10):
    with h5netcdf.File(sys.argv[1], "a") as file:
        file.resize_dimension("y", i + 10)
        file["t"][i:i + 10] = t[i:i + 10]
"""
    snippet(code, tmp_path / "a.nc", tmp_path / "t.npy")

    assert_kept(data, values_of(tmp_path / "a.nc"), bound_of(ABSOLUTE), np.float32(-999))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["netcdf4", "h5netcdf"])
def test_xarray_reads_with_every_engine(compressed: Path, engine: str) -> None:
    require("xarray", {"netcdf4": "netCDF4"}.get(engine, engine))
    code = f"""
import h5lossy, xarray as xr
ds = xr.open_dataset(sys.argv[1], engine={engine!r})
np.save(sys.argv[2], ds["t"].values)
"""
    snippet(code, compressed, compressed.with_suffix(".npy"))

    assert_same_bits(np.load(compressed.with_suffix(".npy")), values_of(compressed))


@pytest.mark.parametrize("order", ["hdf5plugin, h5lossy", "h5lossy, hdf5plugin"])
def test_hdf5plugin_and_h5lossy_work_beside_each_other(tmp_path: Path, order: str) -> None:
    require("hdf5plugin")
    code = f"""
import {order}, h5py
data = np.load(sys.argv[2])
with h5py.File(sys.argv[1], "w") as file:
    file.create_dataset("t", data=data, chunks=(32, 32), **h5lossy.PFPL(absolute=1e-3))
    file.create_dataset("blosc", data=data, chunks=(32, 32), compression=hdf5plugin.Blosc2())
    file.create_dataset("zstd", data=data, chunks=(32, 32), compression=hdf5plugin.Zstd())
with h5py.File(sys.argv[1]) as file:
    assert (file["blosc"][...] == data).all() and (file["zstd"][...] == data).all()
    assert h5lossy.describe(file["blosc"]) is None
"""
    data = field((50, 70))
    np.save(tmp_path / "t.npy", data)
    snippet(code, tmp_path / "a.h5", tmp_path / "t.npy")

    assert_kept(data, values_of(tmp_path / "a.h5"), bound_of(ABSOLUTE))


# ------------------------------------------------------------------------------------------------
# Registering
# ------------------------------------------------------------------------------------------------


def test_registering_again_changes_nothing(compressed: Path) -> None:
    require("netCDF4")
    code = """
import h5lossy, netCDF4, h5py
first = h5lossy.get_config()
for _ in range(3):
    paths = h5lossy.register()
assert h5lossy.register(force=False) == paths
assert h5lossy.get_config() == first
assert paths == tuple(library.path for library in first.libhdf5s)
assert len(set(paths)) == len(paths) >= 2
print(h5py.File(sys.argv[1])["t"][0, 0] == netCDF4.Dataset(sys.argv[1])["t"][0, 0])
"""
    assert snippet(code, compressed).stdout == "True\n"


def test_register_with_force_replaces_a_filter_of_someone_else(compressed: Path) -> None:
    # With the plugin path HDF5 has loaded the plugin itself by the time that we come.
    code = """
import h5py
values = h5py.File(sys.argv[1])["t"][...]
import h5lossy
print(h5lossy.get_config().libhdf5s[0].registered_by)
h5lossy.register(force=False)
print(h5lossy.get_config().libhdf5s[0].registered_by)
h5lossy.register()
print(h5lossy.get_config().libhdf5s[0].registered_by)
assert (h5py.File(sys.argv[1])["t"][...] == values).all()
"""
    said = snippet(code, compressed, env=with_plugin()).stdout
    assert said.split() == ["other", "other", "h5lossy"]


def test_get_config_names_every_library_with_its_version() -> None:
    require("netCDF4")
    code = """
import h5lossy, netCDF4, h5py
ours, theirs = h5lossy.get_config().libhdf5s[:2]
print(ours.version == h5py.version.hdf5_version, theirs.version == netCDF4.__hdf5libversion__)
print(os.path.isfile(ours.path) and os.path.isfile(theirs.path) and ours.path != theirs.path)
"""
    assert snippet(code).stdout.split() == ["True"] * 3


@pytest.mark.slow
@pytest.mark.parametrize("package", ["netCDF4", "tables", "hdf5plugin", "xarray"])
def test_nothing_is_written_to_the_environment(package: str) -> None:
    require(package)
    alone = f"import {package}, os; print(sorted(os.environ.items()))"
    together = f"import h5lossy, {package}, os; print(sorted(os.environ.items()))"

    # netCDF4 itself sets HDF5_PLUGIN_PATH: what counts is that we do not.
    assert run_python(together).stdout == run_python(alone).stdout


@pytest.mark.parametrize("package", ["h5py", "netCDF4", "tables"])
def test_a_process_may_end_with_files_open(tmp_path: Path, package: str) -> None:
    # HDF5 closes them at exit, which calls the filter when Python has dropped its modules.
    require(package)
    path = tmp_path / "a.h5"
    data = field((50, 70))
    np.save(tmp_path / "t.npy", data)
    code = f"""
import h5lossy, h5py, {package}
file = h5py.File(sys.argv[1], "w", rdcc_nbytes=2**24)
t = file.create_dataset("t", data=np.load(sys.argv[2]), chunks=(32, 32),
                        compression=h5lossy.PFPL(absolute=1e-3))
sys.modules.clear()
"""
    snippet(code, path, tmp_path / "t.npy")

    assert_kept(data, values_of(path), bound_of(ABSOLUTE))


def test_the_filter_stays_where_all_of_its_python_is_gone(tmp_path: Path) -> None:
    # As at exit, where HDF5 may come last.
    path = tmp_path / "a.h5"
    data = field((50, 70))
    np.save(tmp_path / "t.npy", data)
    code = """
import gc
import h5py, h5lossy
file = h5py.File(sys.argv[1], "w")
t = file.create_dataset("t", (50, 70), "f4", chunks=(32, 32), **h5lossy.PFPL(absolute=1e-3))
sys.meta_path[:] = [f for f in sys.meta_path if not type(f).__module__.startswith("h5lossy")]
for name in [name for name in sys.modules if name.partition(".")[0] == "h5lossy"]:
    vars(sys.modules.pop(name)).clear()
del h5lossy
gc.collect()
t[...] = np.load(sys.argv[2])
file.close()
"""
    snippet(code, path, tmp_path / "t.npy")

    assert_kept(data, values_of(path), bound_of(ABSOLUTE))


def test_the_plugin_asks_for_no_symbol_of_hdf5() -> None:
    # An undefined one would kill the process in every wheel: their HDF5s are private.
    said = run(tool("nm"), "-D", "--undefined-only", f"{h5lossy.PLUGIN_PATH}/libh5lossy.so").stdout

    assert "malloc" in said
    assert not re.search(r" H5", said)


def test_the_plugins_folder_holds_nothing_else() -> None:
    # HDF5 opens every file in it.
    assert [path.name for path in Path(h5lossy.PLUGIN_PATH).iterdir()] == ["libh5lossy.so"]

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""xarray: which settings a dataset is saved with, and that codec and bound survive saving again."""

from __future__ import annotations

import importlib.metadata
import io
import pickle
import re
import tomllib
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

import h5lossy
from checks import assert_kept, assert_same_bits
from h5lossy import Interp, InvalidArgumentError, UnsupportedError
from hdf5_helpers import edit_cd_values, environment, field, h5lossy_command, run_python

for package in ("dask", "h5netcdf", "netCDF4", "xarray"):
    pytest.importorskip(package, reason=f"{package} is not installed")

import dask.array  # noqa: E402
import netCDF4  # noqa: E402
import xarray as xr  # noqa: E402

from h5lossy.xarray import (  # noqa: E402
    H5LossyBackendEntrypoint,
    codecs_of,
    encoding,
    restore_encoding,
)

if TYPE_CHECKING:
    from collections.abc import Callable

BOUND = {"absolute": 0.01}
CODEC = h5lossy.PFPL(**BOUND)
SHAPE = (20, 32, 48)


def climate(*, steps: int = SHAPE[0]) -> xr.Dataset:
    """Make a dataset as models write them, with most of what must not be compressed."""
    tas = field((steps, *SHAPE[1:]))
    tas[:, 3:5, 7] = np.nan
    lat = np.linspace(-89.5, 89.5, SHAPE[1])
    return xr.Dataset(
        {
            "tas": (("time", "lat", "lon"), tas, {"units": "K"}),
            "pr": (("time", "lat", "lon"), field((steps, *SHAPE[1:]), "f8", seed=1)),
            "count": (("time", "lat", "lon"), np.arange(tas.size).reshape(tas.shape)),
            "lat_bnds": (("lat", "bounds"), np.stack([lat - 0.5, lat + 0.5], 1)),
            "height": ((), 2.0),
            "when": ("time", np.datetime64("2001-01-01", "ns") + np.arange(steps)),
        },
        coords={
            "time": np.datetime64("2000-01-01", "ns") + 86_400_000_000_000 * np.arange(steps),
            "lat": ("lat", lat, {"bounds": "lat_bnds"}),
            "lon": np.linspace(0.5, 359.5, SHAPE[2]),
            "area": (("lat", "lon"), field(SHAPE[1:], seed=2)),
        },
        attrs={"title": "a run"},
    )


def open_with_codecs(path: Any, **options: Any) -> xr.Dataset:
    """Open a file with the engine, which has its name only if the package is installed."""
    return xr.open_dataset(path, engine=H5LossyBackendEntrypoint, **options)


def save(ds: xr.Dataset, path: Path, **options: Any) -> None:
    ds.to_netcdf(path, engine="h5netcdf", **options)


def stored(path: Path, name: str = "tas") -> Any:
    """Return the settings of a dataset in a file; None if h5lossy did not compress it."""
    with h5py.File(path) as file:
        return h5lossy.describe(file[name])


def values(path: Path, name: str = "tas") -> Any:
    with h5py.File(path) as file:
        return file[name][...]


@pytest.fixture(scope="module")
def original() -> xr.Dataset:
    return climate()


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory, original: xr.Dataset) -> Path:
    """Write a dataset with two codecs."""
    path = tmp_path_factory.mktemp("xarray") / "saved.nc"
    save(original, path, encoding=encoding(original, {"pr": Interp(absolute=0.5)}, **BOUND))
    return path


# ------------------------------------------------------------------------------------------------
# What a dataset is saved with
# ------------------------------------------------------------------------------------------------


def test_floats_get_the_bound_and_integers_are_exact(original: xr.Dataset) -> None:
    found = encoding(original, **BOUND)

    codecs = {"tas": CODEC, "pr": CODEC, "count": h5lossy.PFPL(lossless=True)}
    assert found == {
        name: {"compression": codec, "chunksizes": SHAPE} for name, codec in codecs.items()
    }
    with pytest.raises(UnsupportedError, match=r"'tas' can't be .* so: wide bins are"):
        encoding(original, codec=Interp(absolute=3, wide=True))
    named = encoding(original, {"count": {"absolute": 3}}, codec=Interp(lossless=True))
    assert named["count"]["compression"] == Interp(absolute=3)


def test_the_file_has_the_bound_and_the_rest_is_exact(original: xr.Dataset, saved: Path) -> None:
    assert stored(saved).config == CODEC
    assert stored(saved, "pr").config == Interp(absolute=0.5)
    assert stored(saved, "count").config == h5lossy.PFPL(lossless=True)
    for name in ("lat", "lon", "lat_bnds", "area", "time"):
        assert stored(saved, name) is None, name
    for engine in ("netcdf4", "h5netcdf", H5LossyBackendEntrypoint):
        with xr.open_dataset(saved, engine=engine) as ds:
            assert_kept(original["tas"].values, ds["tas"].values, BOUND)
            assert_kept(original["pr"].values, ds["pr"].values, {"absolute": 0.5})
            changed = ["tas", "pr"]
            xr.testing.assert_identical(
                ds.drop_vars(changed).set_coords("area"), original.drop_vars(changed)
            )


def test_opened_datasets_are_verified_in_their_files(original: xr.Dataset, saved: Path) -> None:
    wrong = original.assign(pr=original["pr"] + 2)
    for engine in ("netcdf4", H5LossyBackendEntrypoint):
        with xr.open_dataset(saved, engine=engine) as ds:
            found = h5lossy.xarray.verify(ds, against=wrong)
            assert {name: one.ok for name, one in found.items()} == {
                "tas": True,
                "pr": False,
                "count": True,
            }
            assert h5lossy.xarray.verify(ds)["pr"].ok
            with pytest.raises(InvalidArgumentError, match="verify datasets of one file"):
                h5lossy.xarray.verify(ds.isel(time=[0]))
            with pytest.raises(InvalidArgumentError, match="the original has no variable"):
                h5lossy.xarray.verify(ds, against=original.drop_vars("tas"))
    with pytest.raises(InvalidArgumentError, match="no variable is from a file"):
        h5lossy.xarray.verify(original)
    with xr.open_dataset(saved) as ds, pytest.raises(InvalidArgumentError, match="has no group g"):
        h5lossy.xarray.verify(ds, group="g")
    classic = saved.with_name("classic.nc")
    original[["tas"]].to_netcdf(classic, engine="netcdf4", format="NETCDF3_64BIT")
    with (
        xr.open_dataset(classic) as ds,
        pytest.raises(InvalidArgumentError, match=r"classic\.nc is not an HDF5 file"),
    ):
        h5lossy.xarray.verify(ds)


def test_chunks_are_those_of_chunks_for() -> None:
    array = dask.array.zeros((100, 128, 256), dtype="f4", chunks=(10, 64, 64))
    ds = xr.Dataset({"v": (tuple("abc"), array)})

    assert encoding(ds, **BOUND)["v"]["chunksizes"] == (10, 64, 64)
    ds["v"].encoding["dtype"] = "f8"
    found = encoding(ds.chunk(-1), **BOUND)["v"]["chunksizes"]
    assert found == h5lossy.chunks_for((100, 128, 256), "f8")


def test_a_block_of_dask_is_not_encoded_twice(tmp_path: Path) -> None:
    # A chunk that is written in two parts is decoded and encoded again. With range_relative, its
    # second range would be that of decoded values.
    ds = xr.Dataset({"v": (("a", "b"), field((1000, 1000)))})
    bound = {"range_relative": 1e-3}
    for name, data in {"whole.nc": ds, "blocks.nc": ds.chunk(a=100, b=300)}.items():
        save(data, tmp_path / name, encoding=encoding(ds.chunk(a=100, b=300), **bound))

    assert_same_bits(values(tmp_path / "blocks.nc", "v"), values(tmp_path / "whole.nc", "v"))
    assert stored(tmp_path / "blocks.nc", "v").chunks == (100, 300)


def test_errors_that_add_up_in_chunks_of_several_blocks_are_a_warning(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    ds = xr.Dataset({"v": (("a", "b"), field((60, 60)).astype("f8"))})
    bound = {"range_relative": 1e-3}
    large = xr.Dataset({"v": (("a", "b"), field((1000, 1000)))}).chunk(a=100, b=300)
    for whole in (ds, ds.chunk(a=60, b=60), large):
        encoding(whole, **bound)
    small = ds.chunk(a=4, b=51)
    encoding(small, absolute=1.0)
    assert not recwarn.list
    with pytest.warns(
        RuntimeWarning, match=r"v: several blocks .* \(codec\.resolve\(ds\['v'\]\)\)"
    ):
        encoding(small, **bound)

    codec = h5lossy.PFPL(**bound).resolve(small["v"])
    save(small, tmp_path / "small.nc", encoding=encoding(small, codec=codec))
    error = np.abs(values(tmp_path / "small.nc", "v") - ds["v"].values).max()
    assert error <= 1e-3 * np.ptp(ds["v"].values)


def test_single_variables_come_before_the_default(original: xr.Dataset) -> None:
    chosen: dict[str, Any] = {"tas": {"absolute": 1.0}, "pr": None, "count": None}
    chosen["area"] = h5lossy.PFPL(lossless=True)
    found = encoding(original, chosen, codec=Interp(absolute=0.5))

    assert {name: one["compression"] for name, one in found.items()} == {
        "tas": Interp(absolute=1.0),
        "area": h5lossy.PFPL(lossless=True),
    }
    assert list(encoding(original, {"pr": BOUND})) == ["pr"]


def test_variables_that_others_refer_to_are_left_alone() -> None:
    # As a model on hybrid levels has it; p0 and b are not data, although they are floats.
    n = 1200
    ds = xr.Dataset(
        {
            "ta": ("lev", field((n,)), {"cell_measures": "area: areacella"}),
            "b": ("lev", field((n,))),
            "ps": ("x", field((n,))),
            "areacella": ("x", field((n,))),
            "crs": ("x", field((n,))),
        },
        coords={"lev": ("lev", np.arange(n), {"formula_terms": "b: b ps: ps"})},
    )
    ds["ta"].encoding["grid_mapping"] = "crs: x"

    ds["tiny"] = ("y", field((500,)))

    assert list(encoding(ds, **BOUND)) == ["ta"]
    assert list(encoding(ds, {"tiny": BOUND}, **BOUND)) == ["ta", "tiny"]
    assert list(encoding(ds, {"ps": {"absolute": 1.0}}, **BOUND)) == ["ta", "ps"]


PACKING = {"dtype": "i2", "scale_factor": 0.01, "add_offset": 300.0, "_FillValue": -32768}


def test_the_bound_of_packed_integers_is_that_of_their_values(tmp_path: Path) -> None:
    ds = climate()
    ds["tas"].encoding = PACKING
    save(ds, tmp_path / "plain.nc")
    with xr.open_dataset(tmp_path / "plain.nc", engine="h5netcdf") as plain:
        found = encoding(plain, absolute=0.055)
        assert found["tas"]["compression"] == h5lossy.PFPL(absolute=5)
        assert found["tas"]["dtype"] == np.int16
        save(plain, tmp_path / "a.nc", encoding=found)
    counts = values(tmp_path / "plain.nc").astype(int)
    assert np.abs(values(tmp_path / "a.nc") - counts).max() == 5
    assert ((values(tmp_path / "a.nc") == -32768) == (counts == -32768)).all()
    with open_with_codecs(tmp_path / "a.nc") as back:
        np.testing.assert_allclose(back["tas"], ds["tas"], atol=0.055 + 1e-6)
        # Whatever the way, the same counts.
        assert encoding(back)["tas"]["compression"] == h5lossy.PFPL(absolute=5)
        kept = codecs_of(back)["tas"]
        assert 0.05 <= kept.absolute < 0.0501
        assert encoding(back, {"tas": kept}) == encoding(back)
        save(back, tmp_path / "b.nc", encoding=encoding(back))
    assert_same_bits(values(tmp_path / "b.nc"), values(tmp_path / "a.nc"))


def test_what_packed_integers_do_not_take_is_lossless_or_refused() -> None:
    ds = climate()
    ds["tas"].encoding = PACKING
    lossless = h5lossy.PFPL(lossless=True)
    assert encoding(ds, absolute=0.001)["tas"]["compression"] == lossless
    bound, why = {"pointwise_relative": 0.1}, "integers have no pointwise-relative bound"
    with pytest.warns(RuntimeWarning, match=f"tas will be saved losslessly: {why}"):
        assert encoding(ds, **bound)["tas"]["compression"] == lossless
    with pytest.raises(UnsupportedError, match=f"'tas' can't be compressed with .*{why}"):
        encoding(ds, {"tas": bound})
    for given, why in (({"keep": "sign"}, "add_offset"), ({"valid_range": (0, 400)}, "no valid")):
        with pytest.warns(RuntimeWarning, match=f"tas will be saved losslessly: .*{why}"):
            assert encoding(ds, absolute=0.1, **given)["tas"]["compression"] == lossless
        with pytest.raises(UnsupportedError, match=f"'tas' can't be compressed with .*{why}"):
            encoding(ds, {"tas": {"absolute": 0.1} | given})
    ds["tas"].encoding = {**PACKING, "add_offset": 0.0}
    found = encoding(ds, absolute=0.1, keep="sign")["tas"]["compression"]
    assert found == h5lossy.PFPL(absolute=10, keep="sign")
    ds["tas"].encoding = {**PACKING, "add_offset": 0.0, "dtype": "i8"}
    with pytest.warns(RuntimeWarning, match="tas will be saved losslessly: .*fill value other"):
        assert encoding(ds, absolute=0.1, keep="sign")["tas"]["compression"] == lossless
    ds["tas"].encoding = PACKING
    with pytest.warns(RuntimeWarning, match="a noise bound is of counts"):
        assert encoding(ds, noise=1, absolute=3)["tas"]["compression"] == lossless
    ds["tas"].encoding = {**PACKING, "_Unsigned": "true"}
    with pytest.warns(RuntimeWarning, match="tas will be saved losslessly: _Unsigned"):
        found = encoding(ds, absolute=0.1)["tas"]
    assert (found["compression"], found["_Unsigned"]) == (lossless, "true")


def test_a_range_of_packed_integers_is_that_of_each_chunk(tmp_path: Path) -> None:
    ds = climate()
    ds["tas"].encoding = PACKING
    codec = h5lossy.PFPL(range_relative=0.01)
    found = encoding(ds, range_relative=0.01)
    assert found["tas"]["compression"] == codec
    save(ds, tmp_path / "packed.nc", encoding={"tas": PACKING})
    save(ds, tmp_path / "a.nc", encoding=found)
    with h5py.File(tmp_path / "packed.nc") as before, h5py.File(tmp_path / "a.nc") as after:
        x, y = before["tas"][...].astype(int), after["tas"][...].astype(int)
        assert 0 < np.abs(x - y).max() <= 0.01 * np.ptp(x[x != PACKING["_FillValue"]])


def test_the_bound_of_scaled_floats_is_that_of_their_values(tmp_path: Path) -> None:
    ds = climate()
    ds["tas"].encoding = {"dtype": "f4", "scale_factor": 1000.0, "_FillValue": 0.25}
    save(ds, tmp_path / "a.nc", encoding=encoding(ds, **BOUND))

    with open_with_codecs(tmp_path / "a.nc") as back:
        assert "scale_factor" not in back["tas"].encoding
        assert_kept(ds["tas"].values, back["tas"].values, BOUND)


def test_halves_complex_numbers_and_noise_are_saved(tmp_path: Path) -> None:
    ds = climate()
    half = ds["tas"].astype("f2")
    whole = xr.Dataset(
        {"half": half, "complex": ds["tas"] * (1 + 2j), "counts": abs(half.fillna(0)).astype("u2")}
    )
    codecs = {
        "half": h5lossy.PFPL(absolute=0.5),
        "complex": h5lossy.Interp(modulus=0.5),
        "counts": h5lossy.PFPL(noise=0.5),
    }
    for variable in whole.values():
        variable.encoding = {}
    save(whole, tmp_path / "a.nc", encoding=encoding(whole, codecs))
    with h5py.File(tmp_path / "a.nc") as file:
        for name, codec in codecs.items():
            x = whole[name].values
            assert h5lossy.largest_error(x, file[name], codec.bound).holds
            assert h5lossy.describe(file[name]).config == codec
    with open_with_codecs(tmp_path / "a.nc") as back:
        assert codecs_of(back) == codecs
    found = encoding(whole, codec=h5lossy.AATROX(absolute=0.5))
    assert found["half"]["compression"] == h5lossy.PFPL(absolute=0.5)
    with pytest.raises(UnsupportedError, match="a noise bound is of integers, and it is saved as"):
        encoding(whole, {"half": {"noise": 1}})
    assert [*encoding(whole, {"counts": {"noise": 1}}, noise=1)] == ["counts"]
    with pytest.warns(RuntimeWarning, match="complex will be saved without"):
        assert [*encoding(whole, absolute=0.5, keep="sign")] == ["half", "counts"]
    with pytest.warns(RuntimeWarning, match="(half|complex) will be saved without"):
        assert [*encoding(whole, absolute=0.5, valid_range=(0, 9))] == ["counts"]
    with pytest.raises(UnsupportedError, match="complex numbers have no thresholds"):
        encoding(whole, {"complex": {"absolute": 0.5, "keep": "sign"}})


def test_the_type_on_disk_is_kept(tmp_path: Path) -> None:
    ds = climate()
    ds["pr"].encoding["dtype"] = ">f4"
    ds["tas"].encoding["dtype"] = np.dtype("f2")
    save(ds, tmp_path / "a.nc", encoding=encoding(ds, **BOUND))

    with open_with_codecs(tmp_path / "a.nc") as back:
        as_saved = ds["pr"].values.astype("f4")
        assert back["pr"].encoding["dtype"] == np.dtype(">f4")
        assert_kept(as_saved, back["pr"].values.astype("f4"), BOUND)
    assert stored(tmp_path / "a.nc") is None


@pytest.mark.parametrize("place", ["attrs", "encoding"])
@pytest.mark.parametrize("engine", ["netcdf4", "h5netcdf", H5LossyBackendEntrypoint])
def test_a_missing_value_stays_exact(tmp_path: Path, place: str, engine: Any) -> None:
    # -3 is no multiple of any step of these bounds: as data, it would move.
    ds = climate()
    getattr(ds["tas"], place)["missing_value"] = np.float32(-3.003)
    bound = {"absolute": 0.07}
    paths = [tmp_path / f"{i}.nc" for i in range(3)]
    save(ds, paths[0], encoding=encoding(ds, **bound))
    with restore_encoding(xr.open_dataset(paths[0], engine=engine)) as back:
        save(back, paths[1])
    with xr.open_dataset(paths[0], engine=engine, mask_and_scale=False) as back:
        save(restore_encoding(back), paths[2])

    where = np.isnan(ds["tas"].values)
    for path in paths:
        assert np.array_equal(values(path) == np.float32(-3.003), where)
        assert stored(path).fill_value == np.float32(-3.003)
        with xr.open_dataset(path, engine="netcdf4") as back:
            assert_kept(ds["tas"].values, back["tas"].values, bound)


def test_other_missing_values_are_a_warning() -> None:
    ds = xr.Dataset({"v": ("x", field((2000,)), {"missing_value": np.array([1e20, -9], "f4")})})
    ds["v"].encoding["_FillValue"] = 1e20
    with pytest.warns(RuntimeWarning, match=r"v: its missing values -9\.0 may change by"):
        encoding(ds, **BOUND)
    with pytest.warns(RuntimeWarning, match=r"v: attribute missing_value is ignored"):
        encoding(ds.assign(v=ds["v"].assign_attrs(missing_value="none")), **BOUND)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoding(ds, lossless=True)
        ds["v"].attrs["missing_value"] = 1e20
        encoding(ds, **BOUND)


def test_a_repacked_file_keeps_its_missing_value(tmp_path: Path) -> None:
    # `repack` makes the missing value HDF5's fill value, with no attribute that says so.
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 2000)
        v = file.createVariable("v", "f4", ("x",), fill_value=False)
        v.missing_value = np.float32(-3.003)
        data = field((2000,))
        data[100:200] = -3.003
        v[:] = data
    h5lossy_command("repack", tmp_path / "a.nc", tmp_path / "b.nc", "--absolute", "0.07")
    for mask in (True, False):
        with open_with_codecs(tmp_path / "b.nc", mask_and_scale=mask) as ds:
            save(ds, tmp_path / "c.nc")
        assert_kept(data, values(tmp_path / "c.nc", "v"), {"absolute": 0.07}, np.float32(-3.003))


def test_resizable_axes(tmp_path: Path) -> None:
    ds = climate(steps=0)
    ds.encoding["unlimited_dims"] = {"time"}
    found = encoding(ds, **BOUND)
    save(ds, tmp_path / "a.nc", encoding=found)
    with netCDF4.Dataset(tmp_path / "a.nc", "a") as file:
        file["tas"][:] = climate()["tas"].values

    assert found["tas"]["chunksizes"] == (147, 32, 48)
    assert stored(tmp_path / "a.nc").config == CODEC
    assert_kept(climate()["tas"].values, values(tmp_path / "a.nc"), BOUND)
    with open_with_codecs(tmp_path / "a.nc") as back:
        save(back, tmp_path / "b.nc")
    assert stored(tmp_path / "b.nc").config == CODEC
    ds.encoding.clear()
    with pytest.warns(RuntimeWarning, match="nothing will be compressed"):
        assert encoding(ds, **BOUND) == {}


def test_names_in_attributes_are_also_looked_for_in_groups_around(original: xr.Dataset) -> None:
    tas = original["tas"].variable
    above = xr.Dataset({"cells": tas, "mass": tas, "own": tas})
    below = xr.Dataset({"tas": tas, "own": tas}).copy()
    below["tas"].attrs["cell_measures"] = "area: cells volume: own"
    tree = xr.DataTree.from_dict({"/": above, "/a/b": below})
    found = encoding(tree, **BOUND)
    assert {path: list(group) for path, group in found.items()} == {
        "/": ["mass", "own"],
        "/a": [],
        "/a/b": ["tas"],
    }


@pytest.mark.slow
def test_trees(tmp_path: Path, original: xr.Dataset) -> None:
    coarse = original.isel(lat=slice(16), lon=slice(16)).drop_vars("pr")
    tree = xr.DataTree.from_dict(
        {"/": original[["height"]], "/fine": original, "/coarse/1": coarse}
    )
    found = encoding(tree, {"pr": None}, **BOUND)
    tree.to_netcdf(tmp_path / "a.nc", engine="h5netcdf", encoding=found)
    with xr.open_datatree(tmp_path / "a.nc", engine=H5LossyBackendEntrypoint) as back:
        assert back["fine/tas"].encoding["compression"] == CODEC
        assert encoding(back)["/fine"]["tas"]["compression"] == CODEC
        back.to_netcdf(tmp_path / "b.nc", engine="h5netcdf")

    assert {path: list(group) for path, group in found.items()} == {
        "/": [],
        "/fine": ["tas", "count"],
        "/coarse": [],
        "/coarse/1": ["tas", "count"],
    }
    for path in (tmp_path / "a.nc", tmp_path / "b.nc"):
        assert stored(path, "fine/pr") is None
        assert stored(path, "coarse/1/tas").config == CODEC
        assert_kept(original["tas"].values, values(path, "fine/tas"), BOUND)
    for group in (None, "fine", "/coarse"):
        ours, theirs = (
            xr.open_groups(tmp_path / "a.nc", engine=engine, group=group)
            for engine in (H5LossyBackendEntrypoint, "h5netcdf")
        )
        assert ours.keys() == theirs.keys()
        for path, ds in ours.items():
            xr.testing.assert_identical(ds, theirs[path])
            ds.close()
            theirs[path].close()
    with xr.open_dataset(tmp_path / "a.nc", group="fine", engine="netcdf4") as ds:
        restored = restore_encoding(ds, group="fine")
        assert restored["tas"].encoding["compression"] == CODEC
        with pytest.warns(RuntimeWarning, match="codec of tas is not known.*another group"):
            restore_encoding(ds[["tas"]])
        with pytest.warns(RuntimeWarning, match="not known"):
            restore_encoding(ds[["tas"]], group="none")


def test_appending_to_a_file(tmp_path: Path, original: xr.Dataset) -> None:
    path = tmp_path / "a.nc"
    save(original[["tas"]], path, encoding=encoding(original[["tas"]], **BOUND))
    changed = original[["tas"]] + 1
    save(changed, path, mode="a", encoding=encoding(changed, absolute=1.0))  # what is there stays
    save(original[["pr"]], path, mode="a", encoding=encoding(original[["pr"]], absolute=0.1))
    save(original, path, mode="a", group="more", encoding=encoding(original, absolute=0.2))

    assert stored(path).config == CODEC
    assert_kept(changed["tas"].values, values(path), BOUND)
    assert stored(path, "pr").config == h5lossy.PFPL(absolute=0.1)
    assert stored(path, "more/tas").config == h5lossy.PFPL(absolute=0.2)


@pytest.mark.parametrize("engine", ["h5netcdf", "netcdf4"])
def test_the_classic_model(tmp_path: Path, original: xr.Dataset, engine: Any) -> None:
    ds = original.drop_vars("count")  # 64-bit integers
    path, again = tmp_path / "a.nc", tmp_path / "b.nc"
    form = "NETCDF4_CLASSIC"
    try:
        save(ds, path, encoding=encoding(ds, **BOUND), format=form)
    except ValueError as error:
        if "invalid format for h5netcdf" not in str(error):
            raise
        pytest.skip("this xarray can't write the classic model with h5netcdf")
    with restore_encoding(xr.open_dataset(path, engine=engine)) as back:
        save(back, again, format=form)

    with netCDF4.Dataset(again) as file:
        assert file.data_model == form
    assert stored(again).config == CODEC
    assert_same_bits(values(again), values(path))


def test_errors_say_what_to_do(original: xr.Dataset) -> None:
    with pytest.raises(InvalidArgumentError, match=r"no variable 'tos', only 'area', 'count'"):
        encoding(original, {"tos": BOUND})
    with pytest.raises(InvalidArgumentError, match=r"needs a bound, such as absolute=1e-3, or a"):
        encoding(original)
    with pytest.raises(UnsupportedError, match=r"'when' can't be compressed: .* datetime64"):
        encoding(original, {"when": BOUND})
    with pytest.raises(UnsupportedError, match=r"'height' .* its shape is \(\)"):
        encoding(original, {"height": BOUND})
    with pytest.raises(h5lossy.BoundError):
        encoding(original, absolute=-1)
    with pytest.raises(h5lossy.BoundError, match="'tas': absolute must be greater than 0"):
        encoding(original, {"tas": {"absolute": -1}})
    for given, message in [
        (((original["tas"],), BOUND), r"got DataArray; convert it with to_dataset"),
        (((original, {"tas": 1e-3}), {}), r"'tas' must get a codec, its arguments .* got 0.001"),
        (((original, {"tas": {"absolute": True}}), {}), r"'tas': absolute must be .* got True"),
        (((original,), {"codec": 1e-3}), r"codec must be a codec .* got 0.001"),
        (((original, CODEC), {}), r"as codec=PFPL\(absolute=0.01\)"),
        (((original, "tas"), BOUND), r"variables must be a mapping .* got 'tas'"),
        (((original, ["tas", "pr"]), BOUND), r"variables must be a mapping .* got \['tas', 'pr'\]"),
        (((original,), {"codec": CODEC, "absolute": 1}), r"either codec or a bound, .* absolute"),
        (((original,), {"relative": 1}), r"relative has two meanings"),
    ]:
        with pytest.raises(TypeError, match=message):
            encoding(*given[0], **given[1])
    with pytest.raises(TypeError, match=r"got DataTree; open trees with engine"):
        restore_encoding(xr.DataTree(original))
    with pytest.raises(TypeError, match=r"got DataTree; of a tree, give the dataset of each group"):
        codecs_of(xr.DataTree(original))
    with pytest.raises(TypeError, match=r"codecs_of takes an xarray.Dataset, got DataArray$"):
        codecs_of(original["tas"])
    with pytest.warns(RuntimeWarning, match="nothing will be compressed"):
        assert encoding(original[["height"]], **BOUND) == {}


def test_the_engine_netcdf4_does_not_save_without_a_word(
    saved: Path, tmp_path: Path, original: xr.Dataset
) -> None:
    with pytest.raises(ValueError, match="Unsupported value for compression kwarg"):
        original.to_netcdf(
            tmp_path / "a.nc", engine="netcdf4", encoding=encoding(original, **BOUND)
        )
    with (
        restore_encoding(xr.open_dataset(saved, engine="netcdf4")) as ds,
        pytest.raises(ValueError, match="Unsupported value for compression kwarg"),
    ):
        ds.to_netcdf(tmp_path / "a.nc", engine="netcdf4")


# ------------------------------------------------------------------------------------------------
# Opening, and saving again
# ------------------------------------------------------------------------------------------------


def with_engine(path: Path) -> xr.Dataset:
    return open_with_codecs(path)


def with_netcdf4(path: Path) -> xr.Dataset:
    return restore_encoding(xr.open_dataset(path, engine="netcdf4"))


def with_h5netcdf(path: Path) -> xr.Dataset:
    return restore_encoding(xr.open_dataset(path, engine="h5netcdf"))


WAYS = (with_engine, with_netcdf4, with_h5netcdf)


@pytest.mark.parametrize("opened", WAYS)
def test_codec_and_values_are_kept(
    saved: Path, tmp_path: Path, opened: Callable[[Path], xr.Dataset]
) -> None:
    with opened(saved) as ds:
        save(ds, tmp_path / "a.nc")

    for name in ("tas", "pr"):
        assert stored(tmp_path / "a.nc", name).config == stored(saved, name).config
        assert stored(tmp_path / "a.nc", name).chunks == SHAPE
        assert_same_bits(values(tmp_path / "a.nc", name), values(saved, name))


def test_safeguards_are_not_left_out_in_silence(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(40, 60))
    ds = xr.Dataset({kind: (("y", "x"), values.astype(kind)) for kind in ("f4", "f2", "c8")})
    with pytest.warns(RuntimeWarning, match="saved without compression") as caught:
        found = encoding(ds, absolute=1e-2, thresholds=0.5)
    assert [str(one.message).split()[0] for one in caught] == ["f2", "c8"]
    assert list(found) == ["f4"]
    ds[["f4"]].to_netcdf(tmp_path / "a.nc", engine="h5netcdf", encoding=found)
    with xr.open_dataset(tmp_path / "a.nc", engine=H5LossyBackendEntrypoint) as opened:
        for arguments in ({"absolute": 0.1}, {"absolute": 0.1, "thresholds": 0}):
            with pytest.warns(RuntimeWarning, match=r"f4: safeguards .* \(threshold 0\.5\)"):
                encoding(opened, **arguments)
        assert encoding(opened)["f4"]["compression"].thresholds == (0.5,)
        encoding(opened, absolute=0.1, thresholds=(0, 0.5))  # warnings are errors


def test_results_of_computations_can_have_the_same_codecs(saved: Path, tmp_path: Path) -> None:
    with open_with_codecs(saved) as ds:
        result = ds[["tas", "pr"]] * 2
        codecs = codecs_of(ds.drop_vars("count"))
        save(result, tmp_path / "a.nc", encoding=encoding(result, codecs))

    for name in ("tas", "pr"):
        assert stored(tmp_path / "a.nc", name).config == stored(saved, name).config
        assert_kept(result[name].values, values(tmp_path / "a.nc", name), {"absolute": 0.5})


@pytest.mark.parametrize("blocks", [{}, {"time": 7, "lat": 10}])
def test_a_bound_can_be_resolved_for_a_variable(original: xr.Dataset, blocks: Any) -> None:
    tas = original["tas"].values
    extent = float(np.nanmax(tas)) - float(np.nanmin(tas))
    codec = h5lossy.PFPL(range_relative=1e-3).resolve(original["tas"].chunk(blocks))
    assert codec.absolute == pytest.approx(1e-3 * extent, rel=1e-12)


#: What is done with an opened dataset; the encoding of xarray's variables survives all of it.
PARTS: dict[str, Callable[[xr.Dataset], xr.Dataset]] = {
    "steps": lambda ds: ds.isel(time=slice(3, 7)),
    "one step": lambda ds: ds.isel(time=3),
    "row": lambda ds: ds.isel(time=3, lat=5),
    "point": lambda ds: ds.isel(time=3, lat=5, lon=6),
    "nothing": lambda ds: ds.isel(time=slice(0, 0)),
    "every other": lambda ds: ds.isel(lat=slice(None, None, -2), lon=[5, 1, 30]),
    "transposed": lambda ds: ds.transpose("lon", ..., "time"),
    "loaded": lambda ds: ds.load(),
    "blocks": lambda ds: ds.chunk(time=7, lon=11),
    "copied": lambda ds: ds.copy(deep=True),
    "renamed": lambda ds: ds.rename(tas="t", time="step"),
    "squeezed": lambda ds: ds.isel(lat=[4]).squeeze("lat"),
}


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("is_explicit", [False, True], ids=["own encoding", "encoding(ds)"])
def test_parts_are_saved_with_chunks_that_fit(
    saved: Path, tmp_path: Path, part: str, is_explicit: bool
) -> None:
    with open_with_codecs(saved) as whole:
        ds = PARTS[part](whole)
        name = "t" if part == "renamed" else "tas"
        path = tmp_path / "a.nc"
        found = {}
        if is_explicit and part in {"point", "nothing"}:
            with pytest.warns(RuntimeWarning, match="nothing will be compressed"):
                assert encoding(ds) == {}
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                # As it was asked for.
                assert encoding(ds, dict.fromkeys([name, "pr", "count"])) == {}
        elif is_explicit:
            found = encoding(ds)
        save(ds, path, encoding=found)
        with open_with_codecs(path) as back:
            xr.testing.assert_identical(back, ds)
    if part == "point":
        return
    info = stored(path, name)
    assert info.config == CODEC
    if part != "nothing":
        assert all(c <= n for c, n in zip(info.chunks, info.shape, strict=True))


@pytest.fixture(scope="module")
def paths(original: xr.Dataset, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return files with the hours of one dataset."""
    folder = tmp_path_factory.mktemp("parts")
    for n in range(0, 20, 4):
        part = original.isel(time=slice(n, n + 4))
        save(part, folder / f"{n:02}.nc", encoding=encoding(part, **BOUND))
    return sorted(folder.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("way", ["engine", "netcdf4", "h5netcdf"])
@pytest.mark.parametrize("parallel", [False, True])
def test_many_files(
    tmp_path: Path,
    original: xr.Dataset,
    paths: list[Path],
    *,
    way: str,
    parallel: bool,
    recwarn: Any,
) -> None:
    options: dict[str, Any] = {"engine": way, "preprocess": restore_encoding}
    if way == "engine":
        options = {"engine": H5LossyBackendEntrypoint}
    with xr.open_mfdataset(
        paths,
        parallel=parallel,
        data_vars="minimal",
        coords="minimal",
        compat="override",
        **options,
    ) as ds:
        save(ds, tmp_path / "all.nc")
        save(ds, tmp_path / "chosen.nc", encoding=encoding(ds))

    for path in (tmp_path / "all.nc", tmp_path / "chosen.nc"):
        assert stored(path).config == CODEC
        assert_kept(original["tas"].values, values(path), BOUND)
    assert stored(tmp_path / "chosen.nc", "pr").chunks == (4, 32, 48)
    assert not [w for w in recwarn if "codec" in str(w.message)]


def test_the_source_of_a_combined_dataset_is_its_first_file(
    tmp_path: Path, original: xr.Dataset
) -> None:
    for number, bound in enumerate((0.01, 0.5)):
        part = original[["tas"]].isel(time=slice(10 * number, 10 * number + 10))
        save(part, tmp_path / f"{number}.nc", encoding=encoding(part, absolute=bound))
    with xr.open_mfdataset([tmp_path / "0.nc", tmp_path / "1.nc"], engine="netcdf4") as ds:
        assert restore_encoding(ds)["tas"].encoding["compression"] == CODEC


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [None, {}], ids=["lazy", "dask"])
def test_a_process_that_gets_an_array_has_the_filter(
    saved: Path, tmp_path: Path, blocks: Any
) -> None:
    # As workers of Dask get it; what it refers to is all that they import.
    with open_with_codecs(saved, chunks=blocks) as ds:
        (tmp_path / "array").write_bytes(pickle.dumps(ds["tas"]))
        mean = float(ds["tas"].mean())
    code = """
import pickle, sys
with open(sys.argv[1], "rb") as file:
    print(float(pickle.load(file).mean()))
"""
    said = run_python(code, tmp_path / "array", env=environment())
    assert float(said.stdout) == pytest.approx(mean, rel=1e-6)


@pytest.mark.parametrize("form", ["memoryview", "file", "str", "relative"])
def test_what_can_be_opened(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.chdir(saved.parent)
    content = saved.read_bytes()
    given: Any = {
        "memoryview": memoryview(content),
        "file": io.BytesIO(content),
        "str": str(saved),
        "relative": Path(saved.name),
    }[form]
    with open_with_codecs(given, drop_variables=["pr"], decode_times=False, chunks={}) as ds:
        monkeypatch.chdir(tmp_path)
        assert "pr" not in ds
        assert ds["time"].dtype.kind != "M"
        assert ds["tas"].chunks == ((20,), (32,), (48,))
        save(ds, tmp_path / "a.nc")
    assert stored(tmp_path / "a.nc").config == CODEC


def test_the_engine_passes_options_and_errors_on(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="no_such_option"):
        open_with_codecs(saved, no_such_option=1)
    with pytest.raises(FileNotFoundError):
        open_with_codecs(tmp_path / "none.nc")
    (tmp_path / "text.nc").write_text("no HDF5 file")
    with pytest.raises(OSError, match="signature"):
        open_with_codecs(tmp_path / "text.nc")
    with pytest.raises(OSError, match="group not found"):
        open_with_codecs(saved, group="none")
    saved.rename(saved.with_suffix(".moved"))  # nothing has it open
    saved.with_suffix(".moved").rename(saved)


def test_a_plain_hdf5_file_needs_no_options(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("v", data=field((50, 60)), compression=CODEC)
    with open_with_codecs(tmp_path / "a.h5") as ds:
        assert ds["v"].encoding["compression"] == CODEC


def test_a_variable_that_is_no_coordinate_of_its_dimension(tmp_path: Path) -> None:
    # netCDF stores it by another name.
    with netCDF4.Dataset(tmp_path / "plain.nc", "w") as file:
        for name in ("x", "v"):
            file.createDimension(name, 2000)
        file.createVariable("x", "f4", ("v",))[:] = field((2000,))
    h5lossy_command("repack", tmp_path / "plain.nc", tmp_path / "a.nc", "--absolute", "0.01")
    for opened in WAYS:
        with opened(tmp_path / "a.nc") as ds:
            assert ds["x"].encoding["compression"] == CODEC


def test_what_is_stored_behind_the_codec_does_not_stop_saving(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_chunk((50,))
        creation.set_filter(CODEC.filter_id, 0, CODEC.filter_options)
        creation.set_shuffle()
        creation.set_deflate(4)
        creation.set_fletcher32()
        space = h5py.h5s.create_simple((200,))
        dataset = h5py.h5d.create(file.id, b"v", h5py.h5t.IEEE_F32LE, space, creation)
        h5py.Dataset(dataset)[...] = field((200,))
    for engine in (H5LossyBackendEntrypoint, "h5netcdf"):
        with xr.open_dataset(tmp_path / "a.h5", engine=engine, phony_dims="sort") as ds:
            save(restore_encoding(ds), tmp_path / "b.nc")
        assert stored(tmp_path / "b.nc", "v").config == CODEC
        assert stored(tmp_path / "b.nc", "v").other_filters == ("fletcher32",)
        assert_same_bits(values(tmp_path / "b.nc", "v"), values(tmp_path / "a.h5", "v"))


def test_another_type_on_disk_is_an_error_and_not_a_loss(saved: Path, tmp_path: Path) -> None:
    with open_with_codecs(saved) as ds:
        of_floats = {"compression": h5lossy.AATROX(absolute=0.5)}
        ds["pr"].encoding |= {"dtype": "i4", "_FillValue": -1, **of_floats}
        with pytest.raises(ValueError, match="integers are encoded by PFPL and Interp"):
            save(ds, tmp_path / "a.nc")


# ------------------------------------------------------------------------------------------------
# What would be lost
# ------------------------------------------------------------------------------------------------


def test_unknown_cd_values_are_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver="earliest") as file:
        file.create_dataset("x", data=field((100,)), chunks=(50,), compression=CODEC)
        file.create_dataset("y", data=field((100,)), chunks=(50,))
    edit_cd_values(path, {0: 99})
    with pytest.warns(RuntimeWarning, match="saved without compression") as caught:
        ds = open_with_codecs(path, phony_dims="sort")
    with ds:
        assert "compression" not in ds["x"].encoding
        assert ds["y"].values.size == 100
    assert "/x has filter 46412, but" in str(caught[0].message)


def test_a_source_that_is_gone_is_a_warning(saved: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.nc"
    copy.write_bytes(saved.read_bytes())
    with xr.open_dataset(copy, engine="netcdf4") as ds:
        ds.load()
    copy.unlink()
    with pytest.warns(RuntimeWarning, match=r"the codecs of .*tas.* are not known: .*copy\.nc"):
        restore_encoding(ds)


def test_datasets_without_hdf5_are_left_alone(tmp_path: Path, original: xr.Dataset) -> None:
    ds = original.drop_vars("count")
    ds.to_netcdf(tmp_path / "a.nc", engine="netcdf4", format="NETCDF3_64BIT")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        xr.testing.assert_identical(restore_encoding(ds), ds)
        with xr.open_dataset(tmp_path / "a.nc", engine="netcdf4") as back:
            assert "compression" not in restore_encoding(back)["tas"].encoding


def test_for_netcdf3_there_is_an_engine_that_ignores_the_codec(saved: Path, tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    with open_with_codecs(saved) as opened:
        ds = opened[["tas"]]
        with pytest.raises(ValueError, match="Unsupported value for compression kwarg"):
            ds.to_netcdf(tmp_path / "a.nc", engine="netcdf4", format="NETCDF3_64BIT")
        ds.to_netcdf(tmp_path / "b.nc", engine="scipy", format="NETCDF3_64BIT")
        with xr.open_dataset(tmp_path / "b.nc", engine="scipy") as back:
            assert_same_bits(back["tas"].values.astype("=f4"), ds["tas"].values)


def test_restoring_leaves_its_argument_alone(saved: Path) -> None:
    with xr.open_dataset(saved, engine="netcdf4") as opened:
        ds = opened.copy()
        before = {name: dict(v.encoding) for name, v in ds.variables.items()}
        closed = []
        ds.set_close(lambda: closed.append(True))
        with restore_encoding(ds):
            assert not closed
        assert closed == [True]
        assert {name: dict(v.encoding) for name, v in ds.variables.items()} == before


def test_a_missing_value_that_the_type_cannot_hold_makes_no_other_value_missing(
    tmp_path: Path,
) -> None:
    values = np.zeros((64, 128), "f4")
    values[0, :3] = np.inf
    ds = xr.Dataset({"t": (("y", "x"), values, {"missing_value": np.float64(1e300)})})

    save(ds, tmp_path / "a.nc", encoding=encoding(ds, **BOUND))

    with open_with_codecs(tmp_path / "a.nc") as again:
        np.testing.assert_array_equal(again["t"].values, values)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("mask", [True, False])
def test_a_missing_value_of_another_type_is_the_nearest_of_the_data(
    tmp_path: Path, mask: bool
) -> None:
    # xarray compares in float64, and takes none of these for missing.
    values = field((2000,))
    values[::9] = 1e20
    ds = xr.Dataset({"t": ("x", values, {"missing_value": np.float64(1e20)})})
    save(ds, tmp_path / "a.nc", encoding={"t": {"_FillValue": None}})
    with xr.open_dataset(tmp_path / "a.nc", engine="netcdf4", mask_and_scale=mask) as opened:
        save(opened, tmp_path / "b.nc", encoding=encoding(opened, pointwise_relative=1e-2))

    with h5py.File(tmp_path / "b.nc") as file:
        assert (file["t"][::9] == np.float32(1e20)).all()
        assert_kept(values, file["t"][...], {"pointwise_relative": 1e-2}, np.float32(1e20))


@pytest.mark.parametrize("place", ["attrs", "encoding"])
@pytest.mark.parametrize("fill", [0.0, -0.0])
def test_a_fill_value_of_zero_is_warned_of(place: str, fill: float) -> None:
    ds = xr.Dataset({"v": ("x", field((2000,)))})
    getattr(ds["v"], place)["_FillValue"] = np.float32(fill)
    with pytest.warns(RuntimeWarning, match="v: its fill value is .*0.0, .* become 0") as caught:
        encoding(ds, **BOUND)
    assert [w.filename for w in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoding(ds, pointwise_relative=1e-2)
        encoding(ds, lossless=True)


def test_a_codec_that_is_given_means_the_same_whatever_object_it_is(tmp_path: Path) -> None:
    own = {"scale_factor": 100.0, "dtype": "f4", "compression": CODEC, "chunksizes": (2000,)}
    ds = xr.Dataset({"t": ("x", field((2000,)))})
    save(ds, tmp_path / "a.nc", encoding={"t": own})
    with open_with_codecs(tmp_path / "a.nc") as ds:
        codec = ds["t"].encoding["compression"]
        given = [encoding(ds, {"t": one}) for one in (codec, h5lossy.PFPL(**BOUND), BOUND)]
        assert given[0] == given[1] == given[2] == encoding(ds, codec=codec)
        assert "scale_factor" not in given[0]["t"]  # the bound is that of the values
        assert encoding(ds)["t"]["scale_factor"] == 100  # of what is stored, as in the file


def test_scaled_floats_keep_scale_and_bound(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(64, 128)).astype("f4")
    own = {"scale_factor": 0.01, "add_offset": 1.0, "dtype": "f4", "chunksizes": (64, 64)}
    stored = {"t": {**own, "compression": h5lossy.PFPL(absolute=0.1)}}
    save(xr.Dataset({"t": (("y", "x"), values)}), tmp_path / "a.nc", encoding=stored)

    with open_with_codecs(tmp_path / "a.nc") as ds:
        assert codecs_of(ds)["t"].absolute == pytest.approx(0.001)
        kept = encoding(ds)["t"]
        assert (kept["scale_factor"], kept["compression"]) == (0.01, h5lossy.PFPL(absolute=0.1))
        save(ds, tmp_path / "b.nc", encoding={"t": kept})
        for again in (encoding(ds, codecs_of(ds)), encoding(ds, absolute=0.001)):
            assert "scale_factor" not in again["t"]
            assert again["t"]["compression"].absolute == pytest.approx(0.001)
        first = ds["t"].values
    with open_with_codecs(tmp_path / "b.nc") as ds:
        np.testing.assert_array_equal(ds["t"].values, first)


# ------------------------------------------------------------------------------------------------
# Records
# ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def repacked(tmp_path_factory: pytest.TempPathFactory, original: xr.Dataset) -> Path:
    folder = tmp_path_factory.mktemp("records")
    save(original[["tas"]], folder / "plain.nc")
    h5lossy_command("repack", folder / "plain.nc", folder / "a.nc", "--absolute", "0.01")
    return folder / "a.nc"


RECORDS = {"h5lossy", "h5lossy_report", "h5lossy_hashes", "lossy_compression"}


@pytest.mark.parametrize("opened", WAYS)
def test_records_do_not_travel(
    repacked: Path, tmp_path: Path, opened: Callable[[Path], xr.Dataset]
) -> None:
    with opened(repacked) as ds:
        assert set(ds["tas"].attrs) == {"units"}
        assert '"absolute": 0.01' in ds["tas"].encoding["h5lossy"]
        assert ds["tas"].encoding.keys() >= RECORDS
        save(ds.isel(time=slice(5)), tmp_path / "a.nc")

    with h5py.File(repacked) as file, h5py.File(tmp_path / "a.nc") as again:
        assert set(file["tas"].attrs) >= RECORDS
        assert h5lossy.verify(file["tas"]).ok
        assert not RECORDS & set(again["tas"].attrs)
        found = h5lossy.verify(again["tas"])
        assert (found.ok, found.record) == (True, None)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("opened", WAYS)
def test_what_was_lost_before_is_said_or_left_out_but_never_false(
    repacked: Path, tmp_path: Path, opened: Callable[[Path], xr.Dataset]
) -> None:
    def saved(ds: xr.Dataset, chosen: Any) -> str | None:
        save(ds, tmp_path / "a.nc", encoding=chosen)
        with h5py.File(tmp_path / "a.nc") as file:
            said: str | None = file["tas"].attrs.get("lossy_compression")
        return said

    with opened(repacked) as ds:
        first = ds["tas"].encoding["lossy_compression"]
        assert first.startswith("absolute error at most 0.01: h5lossy version ")
        for chosen in (encoding(ds), {"tas": {"compression": h5lossy.PFPL(absolute=1.0)}}):
            assert saved(ds, chosen) is None
        for bound in ({"absolute": 0.1}, {"lossless": True}):
            with pytest.warns(
                RuntimeWarning, match=r"^tas: .* errors add up; .* ds\['tas'\]"
            ) as said:
                encoding(ds, **bound)
            assert said[0].filename == __file__
            exec(str(said[0].message).split("file, ")[1])  # as it says
            found = saved(ds, encoding(ds, **bound))
            assert found == ds["tas"].attrs.pop("lossy_compression")
            assert found.startswith(first)
            assert ("; absolute error at most 0.1: " in found) == ("absolute" in bound)


@pytest.mark.filterwarnings("error")
def test_a_statement_that_another_engine_left_is_not_the_whole_truth(repacked: Path) -> None:
    with xr.open_dataset(repacked, engine="netcdf4") as ds:
        encoding(ds, absolute=0.01)
        with pytest.warns(RuntimeWarning, match=r"^tas: .* errors add up") as said:
            encoding(ds, absolute=0.1)
        number = "lossy_compression_maximum_absolute_error"
        assert ds["tas"].attrs[number] == 0.01
        exec(str(said[0].message).split("file, ")[1])  # as it says
        assert number not in ds["tas"].attrs


def test_a_statement_about_packed_numbers_says_so() -> None:
    attribute = "lossy_compression"
    ds = xr.Dataset({"t": (("x",), np.zeros(5000, "f4"), {attribute: "absolute error at most 1"})})
    ds["t"].encoding = {"dtype": "f4", "scale_factor": 10.0}
    for bound in ({"lossless": True}, {"absolute": 0.1}):
        with pytest.warns(
            RuntimeWarning, match="1, of numbers packed with scale_factor 10"
        ) as said:
            encoding(ds, **bound)
        exec(str(said[0].message).split("file, ")[1])  # as it says
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            encoding(ds, **bound)
        assert ds["t"].attrs[attribute].count("packed") == 1


def test_records_that_another_engine_copied_are_outdated(repacked: Path, tmp_path: Path) -> None:
    with xr.open_dataset(repacked, engine="netcdf4") as ds:
        part = ds.isel(time=slice(5))
        save(part, tmp_path / "a.nc", encoding=encoding(part, **BOUND))

    with h5py.File(tmp_path / "a.nc") as file:
        found = h5lossy.verify(file["tas"])
    assert found.outdated
    assert not found.is_damaged


# ------------------------------------------------------------------------------------------------
# The package
# ------------------------------------------------------------------------------------------------


def test_the_engine_is_an_entry_point() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    [(name, value)] = project["entry-points"]["xarray.backends"].items()
    entry = importlib.metadata.EntryPoint(name, value, "xarray.backends")
    assert (name, entry.load()) == ("h5lossy", H5LossyBackendEntrypoint)


OPENERS = """
import sys
{first}
import xarray as xr

def opened(engine):
    options = {{"engine": engine}} if engine else {{}}
    for way in (
        lambda path: xr.open_dataset(path, **options)["tas"],
        lambda path: xr.open_mfdataset([path], **options)["tas"],
        lambda path: xr.open_datatree(path, **options)["tas"],
    ):
        try:
            yield "values" if bool(way(sys.argv[1]).notnull().any()) else "none"
        except (OSError, RuntimeError) as error:
            yield str(error)

for engine in {engines}:
    print(*opened(engine), sep="\\n")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "engines"),
    [
        ("import h5lossy", ["netcdf4", "h5netcdf", "h5lossy", None]),
        ("", [None]),  # xarray looks at the entry points of all engines
        ("", ["h5lossy"]),
    ],
    ids=["imported first", "no engine", "h5lossy"],
)
def test_files_can_be_read_in_a_new_process(saved: Path, first: str, engines: list[Any]) -> None:
    if not importlib.metadata.entry_points(group="xarray.backends", name="h5lossy"):
        pytest.skip("h5lossy is not installed, only on the path")
    code = OPENERS.format(first=first, engines=engines)
    assert run_python(code, saved, env=environment()).stdout == "values\n" * 3 * len(engines)


@pytest.mark.slow
def test_a_named_engine_of_xarrays_does_not_bring_the_filter(saved: Path) -> None:
    """As docs/howto/xarray.md and docs/errors.md say; a better xarray may bring it."""
    env = environment()
    env.pop("HDF5_PLUGIN_PATH", None)
    code = OPENERS.format(first="", engines=["netcdf4", "h5netcdf"])
    for line in run_python(code, saved, env=env).stdout.splitlines():
        assert re.search("^values$|undefined filter|can't open directory|can't find plugin", line)


def test_without_xarray_the_error_says_what_to_install() -> None:
    code = """
import sys
sys.modules["xarray"] = None
try:
    import h5lossy.xarray
except ImportError as error:
    print(error)
"""
    assert "pip install 'h5lossy[xarray]'" in run_python(code, env=environment()).stdout

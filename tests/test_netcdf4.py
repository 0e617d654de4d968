# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Variables of netCDF4 and h5netcdf: compressed by `def_var_filter`, and read like datasets."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

import h5lossy
import h5lossy.netcdf4
from checks import assert_kept, assert_same_bits
from h5lossy.netcdf4 import def_var_filter
from hdf5_helpers import bound_of, cd_values, field, frames, run, run_python, tool, with_plugin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

netCDF4 = pytest.importorskip("netCDF4")  # noqa: N816 - its name
h5netcdf = pytest.importorskip("h5netcdf")

CODEC = h5lossy.PFPL(absolute=1e-3)
FILL = np.float32(-999)


def new_variable(file: Any, dtype: Any = "f4", shape: Any = (50, 70), **options: Any) -> Any:
    for name, extent in zip("yx", shape, strict=False):
        file.createDimension(name, extent)
    options = {"chunksizes": (32, 32)[: len(shape)]} | options
    return file.createVariable("t", dtype, ("y", "x")[: len(shape)], **options)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Give a file with one compressed variable, which has a group, a fill value and units."""
    values = field((50, 70))
    values[::4] = FILL
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        t = new_variable(file.createGroup("ocean/deep"), fill_value=FILL)
        def_var_filter(t, CODEC)
        t.units = "K"
        t[...] = values
    return tmp_path / "a.nc"


# ------------------------------------------------------------------------------------------------
# def_var_filter
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", ">f8"])
@pytest.mark.parametrize(
    "make",
    [h5lossy.PFPL, h5lossy.CuSZp2, h5lossy.AATROX, h5lossy.Interp, h5lossy.Auto],
    ids=lambda cls: cls.codec_name,
)
def test_variables_keep_their_bound_and_fill_value(
    tmp_path: Path, make: type[h5lossy.Codec], dtype: str
) -> None:
    codec, values = make(pointwise_relative=1e-3, checksum=False), field((50, 70), dtype)
    values[::4] = FILL
    values[1, 2] = np.nan
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        endian = "big" if dtype[0] == ">" else "little"
        t = new_variable(file, dtype, fill_value=FILL, endian=endian)
        def_var_filter(t, codec)
        t[...] = values
    with h5py.File(tmp_path / "a.nc") as file:
        assert file["t"].dtype == dtype
        assert cd_values(file["t"])[4] == codec.filter_options[4] | 256
        assert h5lossy.describe(file["t"]).config == codec
        assert len(frames(file["t"])) == 6
        assert_kept(values, file["t"][...], bound_of(codec), np.dtype(dtype).type(FILL))
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert (file["t"][...].mask == (values == FILL)).all()


def test_unlimited_dimensions_grow(tmp_path: Path) -> None:
    values = field((50, 70))
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        t = new_variable(file, shape=(None, 70))
        def_var_filter(t, CODEC)
        t[:20] = values[:20]
    with netCDF4.Dataset(tmp_path / "a.nc", "a") as file:
        file["t"][20:] = values[20:]
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert_kept(values, h5lossy.read(file["t"]), bound_of(CODEC))
        assert h5lossy.describe(file["t"]).chunks_unfiltered == 0


def test_the_last_call_counts_and_makes_a_contiguous_variable_chunked(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        t = new_variable(file, contiguous=True, chunksizes=None)
        def_var_filter(t, h5lossy.PFPL(absolute=7))
        def_var_filter(t, CODEC)
        t[...] = field((50, 70))
        assert t.chunking() == [50, 70]
    with h5py.File(tmp_path / "a.nc") as file:
        assert h5lossy.describe(file["t"]).config == CODEC


def test_other_variables_are_left_alone(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        def_var_filter(new_variable(file), CODEC)
        file.createVariable("u", "f4", ("y", "x"), zlib=True)[...] = 1
        file["t"][...] = 2
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert h5lossy.describe(file["u"]) is None
        assert file["u"].filters()["zlib"]
        assert (file["u"][...] == 1).all()


def test_tools_read_what_netcdf4_wrote(path: Path, tmp_path: Path) -> None:
    said = run(tool("ncdump"), "-hs", path, env=with_plugin()).stdout
    assert "_Filter" in said
    assert "46412,1,0," in said
    copy = tmp_path / "copy.nc"
    run(tool("nccopy"), "-F", "none", path, copy, env=with_plugin())
    with h5py.File(path) as one, h5py.File(copy) as other:
        assert_same_bits(one["ocean/deep/t"][...], other["ocean/deep/t"][...])


@pytest.mark.parametrize("order", ["netCDF4, h5lossy.netcdf4", "h5lossy.netcdf4, netCDF4"])
def test_the_order_of_imports_does_not_matter(tmp_path: Path, order: str) -> None:
    code = f"""
import {order}
import sys
with netCDF4.Dataset(sys.argv[1], "w") as nc:
    nc.createDimension("x", 4000)
    t = nc.createVariable("t", "f4", ("x",))
    h5lossy.netcdf4.def_var_filter(t, h5lossy.PFPL(absolute=1e-3))
    t[:] = range(4000)
with netCDF4.Dataset(sys.argv[1]) as nc:
    print(h5lossy.describe(nc["t"]).config)
"""
    assert run_python(code, tmp_path / "a.nc").stdout == "PFPL(absolute=0.001)\n"


def test_importing_h5lossy_imports_no_netcdf4() -> None:
    code = "import h5lossy.netcdf4, sys; print({'netCDF4', 'h5netcdf'} & {*sys.modules})"
    assert run_python(code).stdout == "set()\n"


REFUSED: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "text": ({"dtype": str}, h5lossy.UnsupportedError, "encodes floats, integers and enums"),
    "scalar": ({"shape": ()}, h5lossy.UnsupportedError, "t has no dimensions"),
    "zlib": ({"zlib": True}, h5lossy.InvalidArgumentError, "t has zlib and shuffle, which"),
    "fletcher32": ({"fletcher32": True}, h5lossy.InvalidArgumentError, "t has fletcher32, which"),
}


@pytest.mark.parametrize(("options", "error", "text"), REFUSED.values(), ids=REFUSED)
def test_a_refusal_says_why_and_harms_nothing(
    tmp_path: Path, options: dict[str, Any], error: type[Exception], text: str
) -> None:
    shape = options.pop("shape", (50, 70))
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        chunks = {} if options.get("dtype") is str or not shape else {"chunksizes": (32, 32)}
        t = new_variable(file, shape=shape, **{"chunksizes": None} | options | chunks)
        with pytest.raises(error, match=text):
            def_var_filter(t, CODEC)
        if t.dtype is not str:
            t[...] = 3
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert file["t"].dtype is str or (file["t"][...] == 3).all()


@pytest.mark.parametrize("kind", ["u1", "i4"])
def test_enums_are_kept(tmp_path: Path, kind: str) -> None:
    states = np.arange(5000) % 3
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        enum = file.createEnumType(np.dtype(kind), "state_t", {"dry": 0, "wet": 1, "ice": 2})
        file.createDimension("n", states.size)
        state = file.createVariable("state", enum, ("n",), fill_value=2)
        with pytest.raises(h5lossy.UnsupportedError, match="state is of an enum"):
            def_var_filter(state, h5lossy.PFPL(absolute=1))
        def_var_filter(state, h5lossy.Interp(lossless=True))
        state[...] = states
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        file.set_auto_mask(False)
        np.testing.assert_array_equal(file["state"][...], states)
        np.testing.assert_array_equal(h5lossy.read(file["state"]), states)
        assert h5lossy.describe(file["state"]).config == h5lossy.Interp(lossless=True)
    xarray, of_xarray = (pytest.importorskip(name) for name in ("xarray", "h5lossy.xarray"))
    with xarray.open_dataset(tmp_path / "a.nc", engine="netcdf4") as ds:
        ds["t"] = ("n", np.linspace(0, 1, states.size))
        encoding = of_xarray.encoding(ds, absolute=1e-3)
        assert [*encoding] == ["t"]  # h5netcdf writes enums without filters
        ds.to_netcdf(tmp_path / "b.nc", engine="h5netcdf", encoding=encoding)
        with pytest.raises(h5lossy.UnsupportedError, match="of an enum, which h5netcdf saves"):
            of_xarray.encoding(ds, {"state": h5lossy.PFPL(lossless=True)})
    with xarray.open_dataset(tmp_path / "b.nc", engine="netcdf4", mask_and_scale=False) as ds:
        np.testing.assert_array_equal(ds["state"], states)


@pytest.mark.parametrize("given", [{"exact": 7}, {"keep": "sign"}])
def test_a_refusal_counts_the_fill_value(tmp_path: Path, given: dict[str, Any]) -> None:
    """netCDF-C would refuse when the variable is written, with "HDF error" alone."""
    codec = h5lossy.PFPL(absolute=3, **given)
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        t = new_variable(file, "i8")
        with pytest.raises(h5lossy.UnsupportedError, match="the fill value among them"):
            def_var_filter(t, codec)
        alone = file.createVariable("alone", "i8", t.dimensions, fill_value=False)
        def_var_filter(alone, codec)
        alone[...] = 7


@pytest.mark.parametrize("is_late", [lambda t: t.__setitem__(..., 1), lambda t: t[0, 0]])
def test_after_data_it_is_too_late(tmp_path: Path, is_late: Callable[[Any], Any]) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        t = new_variable(file)
        is_late(t)
        with pytest.raises(h5lossy.InvalidArgumentError, match="t is in the file already, which"):
            def_var_filter(t, CODEC)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("NETCDF4_CLASSIC", "format NETCDF4_CLASSIC, in which .* with h5lossy repack"),
        ("NETCDF3_CLASSIC", "NETCDF3_CLASSIC, which has no filters; convert it"),
        ("NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_OFFSET, which has no filters; convert it"),
    ],
)
def test_classic_files_are_refused(tmp_path: Path, form: str, text: str) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w", format=form) as file:
        t = new_variable(file, chunksizes=None)
        with pytest.raises(h5lossy.UnsupportedError, match=text):
            def_var_filter(t, CODEC)
        t[...] = 3


def test_a_variable_is_added_to_a_file(path: Path) -> None:
    with netCDF4.Dataset(path, "a") as file:
        group = file["ocean/deep"]
        def_var_filter(group.createVariable("\u00fc v", "f8", ("y", "x")), CODEC)
        group["\u00fc v"][...] = field((50, 70), "f8")
        group.renameVariable("t", "renamed")
    with netCDF4.Dataset(path) as file:
        for name in ("\u00fc v", "renamed"):
            assert h5lossy.describe(file["ocean/deep"][name]).path == f"/ocean/deep/{name}"
            assert h5lossy.verify(file["ocean/deep"][name]).ok


def test_files_that_cannot_be_written_are_refused(path: Path) -> None:
    with netCDF4.Dataset(path) as file:
        t = file["ocean/deep/t"]
        with pytest.raises(h5lossy.InvalidArgumentError, match=r"file already|reading only"):
            def_var_filter(t, CODEC)
    with pytest.raises(h5lossy.InvalidArgumentError, match="file is closed"):
        def_var_filter(t, CODEC)


def test_what_is_no_variable_or_codec_is_refused(path: Path) -> None:
    with netCDF4.Dataset(path) as file:
        with pytest.raises(TypeError, match=r"codec must be a codec such as .*, got 46412"):
            def_var_filter(file["ocean/deep/t"], 46412)
        with pytest.raises(TypeError, match=r"must be a netCDF4\.Variable, got Dimension"):
            def_var_filter(file["ocean/deep"].dimensions["x"], CODEC)
    with (
        h5netcdf.File(path) as file,
        pytest.raises(TypeError, match=r"create_variable\(\.\.\., compression=codec\)"),
    ):
        def_var_filter(file["ocean/deep/t"], CODEC)


def test_small_chunks_are_warned_of(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("time", None)
        t = file.createVariable("t", "f4", ("time",), chunksizes=(1,))
        with pytest.warns(RuntimeWarning, match="t has chunks of 4 bytes .* chunksizes") as found:
            def_var_filter(t, CODEC)
        assert found[0].filename == __file__
    with h5py.File(tmp_path / "b.h5", "w") as file:
        t = file.create_dataset("t", (1000,), "f4", chunks=(1,), compression=CODEC)
        with pytest.warns(RuntimeWarning, match="t has chunks of 4 bytes") as found:
            h5lossy.write(t, np.arange(1000))
        assert found[0].filename == __file__
        assert t.id.get_storage_size() > 40_000


@pytest.mark.filterwarnings("error")
def test_a_fill_value_of_zero_is_warned_of(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        t = new_variable(file, fill_value=-0.0)
        with pytest.warns(
            RuntimeWarning, match=r"t: its fill value is -0\.0, .* become 0"
        ) as found:
            def_var_filter(t, CODEC)
        assert found[0].filename == __file__
        def_var_filter(t, h5lossy.PFPL(pointwise_relative=1e-3))


def test_a_few_small_chunks_are_not_warned_of(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "b.h5", "w") as file:
        t = file.create_dataset("t", (10,), "f4", chunks=(1,), compression=CODEC)
        h5lossy.write(t, np.arange(10))


@pytest.mark.parametrize("digits", [1, 3, 5])
def test_digits_mean_what_they_mean_to_netcdf(tmp_path: Path, digits: int) -> None:
    """As docs/howto/netcdf.md compares them."""
    values = (10 ** np.random.default_rng(0).uniform(-5, 5, 50_000)).astype("f4")
    found = {}
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", values.size)
        for mode in ("BitGroom", "GranularBitRound"):
            options = {"significant_digits": digits, "quantize_mode": mode, "zlib": True}
            file.createVariable(mode, "f4", ("x",), **options)[:] = values
        t = file.createVariable("h5lossy", "f4", ("x",))
        def_var_filter(t, h5lossy.PFPL(significant_digits=digits))
        t[:] = values
    exact = values.astype("f8")
    unit = 10.0 ** (np.floor(np.log10(exact)) - digits + 1)
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        for name in ("BitGroom", "GranularBitRound", "h5lossy"):
            error = np.abs(file[name][:].astype("f8") - exact)
            assert (error / unit).max() <= 0.5 + 1e-6
            found[name] = (error / exact).max() * 10**digits
    assert found["BitGroom"] <= 0.5
    assert found["h5lossy"] <= 0.5
    assert found["GranularBitRound"] > 2.5


# ------------------------------------------------------------------------------------------------
# describe, read, verify, write
# ------------------------------------------------------------------------------------------------


@pytest.fixture(params=[netCDF4.Dataset, h5netcdf.File], ids=["netCDF4", "h5netcdf"])
def variable(request: pytest.FixtureRequest, path: Path) -> Iterator[Any]:
    with request.param(path) as file:
        yield file["ocean/deep/t"]


def test_variables_are_described_as_datasets_are(variable: Any, path: Path) -> None:
    with h5py.File(path) as file:
        assert h5lossy.describe(variable) == h5lossy.describe(file["ocean/deep/t"])


def test_variables_are_read_as_they_are_stored(variable: Any, path: Path) -> None:
    with h5py.File(path) as file:
        stored = file["ocean/deep/t"][...]
    assert_same_bits(h5lossy.read(variable), stored)
    assert_same_bits(h5lossy.read(variable, np.s_[3:40:2, 5]), stored[3:40:2, 5])
    out = np.empty((10, 70), "f4")
    assert h5lossy.read(variable, np.s_[:10], out=out, threads=1) is out
    assert_same_bits(out, stored[:10])


def test_variables_are_verified(variable: Any) -> None:
    found = h5lossy.verify(variable, against=h5lossy.read(variable))
    assert found.ok
    assert (found.path, found.chunks) == ("/ocean/deep/t", 6)
    assert found.report is not None


@pytest.mark.parametrize("open_file", [netCDF4.Dataset, h5netcdf.File])
def test_variables_of_closed_files_are_refused(path: Path, open_file: Callable[..., Any]) -> None:
    with open_file(path) as file:
        variable = file["ocean/deep/t"]
    for function in (h5lossy.describe, h5lossy.read, h5lossy.verify):
        with pytest.raises(h5lossy.InvalidArgumentError, match="file is closed"):
            function(variable)


def test_a_variable_does_not_keep_the_file_of_h5netcdf_open(path: Path) -> None:
    variable = h5netcdf.File(path)["ocean/deep/t"]
    gc.collect()
    with pytest.raises(h5lossy.InvalidArgumentError, match="file is closed"):
        h5lossy.read(variable)


def test_write_takes_variables_of_h5netcdf(path: Path) -> None:
    values = field((50, 70), seed=1)
    with h5netcdf.File(path, "a") as file:
        h5lossy.write(file["ocean/deep/t"], values, verify=True)
        assert h5lossy.verify(file["ocean/deep/t"]).recorded == 6
    with netCDF4.Dataset(path) as file:
        assert_kept(values, h5lossy.read(file["ocean/deep/t"]), bound_of(CODEC))


def test_variables_of_h5netcdfs_legacy_api_are_taken(tmp_path: Path) -> None:
    legacy = pytest.importorskip("h5netcdf.legacyapi")
    with h5netcdf.File(tmp_path / "a.nc", "w") as file:
        file.dimensions = {"x": 100}
        file.create_variable("t", ("x",), "f4", chunks=(100,), compression=CODEC)[...] = 7
    with legacy.Dataset(tmp_path / "a.nc", "a") as file:
        h5lossy.write(file["t"], 8)
        assert_kept(np.full(100, 8, "f4"), h5lossy.read(file["t"]), bound_of(CODEC))
        assert h5lossy.describe(file["t"]).config == CODEC


def test_netcdf4_files_that_are_open_for_writing_are_refused(path: Path) -> None:
    with netCDF4.Dataset(path, "a") as file:
        t = file["ocean/deep/t"]
        for function in (h5lossy.describe, h5lossy.read, h5lossy.verify):
            with pytest.raises(h5lossy.UnsupportedError, match="is open for writing in netCDF4"):
                function(t)
        with pytest.raises(h5lossy.UnsupportedError, match=r"t\[\.\.\.\] = values is compressed"):
            h5lossy.write(t, 1.0)
        t[0, 0] = 300


def test_netcdf4_files_in_memory_are_refused(path: Path) -> None:
    with netCDF4.Dataset("memory.nc", "w", diskless=True) as file:
        t = new_variable(file)
        def_var_filter(t, CODEC)
        t[...] = 3
        with pytest.raises(h5lossy.UnsupportedError, match=r"from its file, memory\.nc.* saved"):
            h5lossy.read(t)
    with (
        netCDF4.Dataset(path, memory=path.read_bytes()) as file,
        pytest.raises(h5lossy.UnsupportedError, match="is not the file that the variable t"),
    ):
        h5lossy.read(file["ocean/deep/t"])


def test_a_file_that_was_replaced_is_not_taken_for_that_of_the_variable(path: Path) -> None:
    with netCDF4.Dataset(path) as file:
        path.rename(path.with_suffix(".old"))
        path.with_suffix(".nc").write_bytes(path.with_suffix(".old").read_bytes())
        with pytest.raises(h5lossy.UnsupportedError, match="is not the file that the variable t"):
            h5lossy.describe(file["ocean/deep/t"])


def test_many_threads_read_variables_of_one_file(path: Path) -> None:
    with netCDF4.Dataset(path) as file, ThreadPoolExecutor(8) as pool:
        t = file["ocean/deep/t"]
        expected = h5lossy.read(t)
        for found in pool.map(lambda _: h5lossy.read(t), range(32)):
            assert_same_bits(found, expected)


def test_ranges_and_errors_are_of_what_is_stored(tmp_path: Path) -> None:
    """A bound of what netCDF4 unpacks would be twice as large as that of the stored numbers."""
    values = np.linspace(0, 10, 1000, dtype="f4")
    values[3] = FILL
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        t = new_variable(file, shape=(1000,), fill_value=FILL)
        t.scale_factor, t.add_offset = 2.0, 100.0
        t.set_auto_maskandscale(False)
        t[:] = values
    codec = h5lossy.PFPL(range_relative=1e-3)
    with (
        h5py.File(tmp_path / "a.nc") as plain,
        netCDF4.Dataset(tmp_path / "a.nc") as one,
        h5netcdf.File(tmp_path / "a.nc") as other,
    ):
        for variable in (one["t"], other["t"]):
            assert codec.resolve(variable) == codec.resolve(plain["t"])
            found = h5lossy.largest_error(values, variable, h5lossy.ErrorBound("absolute", 1e-9))
            assert found.holds
            assert (found.max_error, found.count) == (0, 1000)
        assert one["t"].scale
        assert np.ma.is_masked(one["t"][3])


def test_a_variable_with_the_name_of_a_dimension_is_found(tmp_path: Path) -> None:
    """netCDF-C gives it another name in the file, where the name is that of the dimension."""
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        for name in ("t", "x"):
            file.createDimension(name, 100)
        t = file.createVariable("t", "f4", ("x",), chunksizes=(100,))
        def_var_filter(t, CODEC)
        t[...] = np.arange(100)
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert h5lossy.describe(file["t"]).shape == (100,)
        assert_kept(np.arange(100, dtype="f4"), h5lossy.read(file["t"]), bound_of(CODEC))

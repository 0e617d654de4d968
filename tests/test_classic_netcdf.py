# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Files in netCDF's classic model remain valid, and every program can read them.

That model has no variable-length strings and no unsigned or 64-bit integers, so attributes must not
be of these types either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import h5py
import netCDF4
import numpy as np
import pytest

import h5lossy
from hdf5_helpers import h5lossy_command, run, tool, with_plugin

if TYPE_CHECKING:
    from pathlib import Path

RECORDS = {"h5lossy", "h5lossy_report", "h5lossy_hashes"}


@pytest.fixture(scope="module")
def classic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a file as climate models do, and repack it."""
    folder = tmp_path_factory.mktemp("classic")
    with netCDF4.Dataset(folder / "a.nc", "w", format="NETCDF4_CLASSIC") as file:
        for name, size, units in (
            ("time", None, "days since 2000-01-01"),
            ("lat", 40, "degrees_north"),
            ("lon", 60, "degrees_east"),
        ):
            file.createDimension(name, size)
            axis = file.createVariable(name, "f8", (name,))
            axis[:] = np.linspace(0, 80, size or 12)
            axis.units = units
        tas = file.createVariable("tas", "f4", ("time", "lat", "lon"), fill_value=1e20, zlib=True)
        tas.units = "K"
        tas.valid_range = np.array([0, 1e4], "f4")
        values = 280 + 20 * np.sin(np.arange(12 * 40 * 60) / 100).reshape(12, 40, 60)
        values[:, 3, 4] = 1e20
        tas[:] = values
        file.createVariable("pr", "i2", ("time", "lat", "lon"))[:] = 5
        file.title = "a run"
    h5lossy_command("repack", folder / "a.nc", folder / "b.nc", "--absolute", 0.01)
    return folder / "b.nc"


def values_of(path: Path, name: str = "tas") -> Any:
    with netCDF4.Dataset(path) as file:
        file.set_auto_mask(False)
        return file[name][...]


@pytest.mark.parametrize(
    "command",
    [
        ("ncdump", "-h", "IN"),
        ("ncdump", "IN"),
        ("nccopy", "-k", "classic", "IN", "OUT"),
        ("nccopy", "-k", "64-bit offset", "IN", "OUT"),
        ("nccopy", "-k", "netCDF-4 classic model", "IN", "OUT"),
        ("ncks", "-m", "IN"),
        ("ncks", "-L", "0", "-v", "tas", "IN", "OUT"),
        ("ncra", "-L", "0", "IN", "OUT"),
        ("cdo", "-s", "infon", "IN"),
        ("cdo", "-s", "copy", "IN", "OUT"),
        ("cdo", "-s", "timmean", "IN", "OUT"),
    ],
    ids=" ".join,
)
def test_programs_take_it(classic: Path, tmp_path: Path, command: tuple[str, ...]) -> None:
    places = {"IN": str(classic), "OUT": str(tmp_path / "out.nc")}
    program, *arguments = (places.get(word, word) for word in command)
    said = run(tool(program), *arguments, env=with_plugin())
    assert "rror" not in said.stderr
    if "OUT" not in command:
        assert "tas" in said.stdout
    elif program in {"ncra", "cdo"} and "copy" not in command:
        assert values_of(tmp_path / "out.nc").shape == (1, 40, 60)
    else:
        assert np.array_equal(values_of(tmp_path / "out.nc"), values_of(classic))


@pytest.mark.parametrize("format", ["NETCDF3_CLASSIC", "NETCDF3_64BIT_DATA"])
def test_files_that_are_not_hdf5_are_converted_first(tmp_path: Path, format: Any) -> None:  # noqa: A002
    source, converted = tmp_path / "a.nc", tmp_path / "b.nc"
    with netCDF4.Dataset(source, "w", format=format) as file:
        file.createDimension("x", 5000)
        file.createVariable("t", "f8", ("x",))[:] = np.linspace(0, 1, 5000)
    options = (tmp_path / "c.nc", "--absolute", 1e-3)

    said = h5lossy_command("repack", source, *options, status=2).stderr

    assert "convert it with nccopy -k nc4 (or -k nc7" in said
    for kind, model in (("nc4", "NETCDF4"), ("nc7", "NETCDF4_CLASSIC")):
        run(tool("nccopy"), "-k", kind, source, converted)
        h5lossy_command("repack", converted, *options, "--force")
        with netCDF4.Dataset(tmp_path / "c.nc") as file:
            assert file.data_model == model


def test_ncks_keeps_the_compression(classic: Path, tmp_path: Path) -> None:
    # It defines the filter twice, the first time with the first of its cd_values alone.
    program = [tool("ncks"), "-v", "tas"]
    run(*program, classic, tmp_path / "a.nc", env=with_plugin())
    with h5py.File(classic) as old, h5py.File(tmp_path / "a.nc") as new:
        assert h5lossy.describe(new["tas"]).config == h5lossy.describe(old["tas"]).config
    assert np.array_equal(values_of(tmp_path / "a.nc"), values_of(classic))


@pytest.mark.parametrize("command", [("ncks", "-v", "tas"), ("ncra",)], ids=" ".join)
def test_nco_takes_another_compression(
    classic: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    program = [tool(command[0]), *command[1:]]
    for level in ("0", "1"):
        run(*program, "-O", "-L", level, classic, tmp_path / "a.nc", env=with_plugin())
        with h5py.File(tmp_path / "a.nc") as file:
            assert h5lossy.describe(file["tas"]) is None


@pytest.mark.parametrize("codec", ["pfpl", "aatrox"])
def test_ncra_keeps_the_integers_that_it_gives_the_filter_to(
    classic: Path, tmp_path: Path, codec: str
) -> None:
    options = ("--absolute", 10, "--codec", codec)
    h5lossy_command("repack", classic.with_name("a.nc"), tmp_path / "b.nc", *options)
    run(tool("ncra"), tmp_path / "b.nc", tmp_path / "c.nc", env=with_plugin())
    with h5py.File(tmp_path / "c.nc") as file:
        assert str(h5lossy.describe(file["pr"]).bound) == "lossless"
    assert (values_of(tmp_path / "c.nc", "pr") == 5).all()


def test_a_copy_by_nccopy_is_verified_by_its_record(classic: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.nc"
    run(tool("nccopy"), "-k", "netCDF-4 classic model", classic, copy, env=with_plugin())
    with h5py.File(copy) as file:
        found = h5lossy.verify(file["tas"])
    assert found.ok, found
    assert found.recorded == found.chunks == 12


@pytest.mark.parametrize("form", ["NETCDF4_CLASSIC", "NETCDF3_64BIT", "NETCDF4"])
def test_xarray_saves_it_again(classic: Path, tmp_path: Path, form: Any) -> None:
    xarray = pytest.importorskip("xarray")
    with xarray.open_dataset(classic, engine="netcdf4") as opened:
        opened["tas"].encoding.clear()
        opened.to_netcdf(tmp_path / "again.nc", format=form, engine="netcdf4")
    assert np.isnan(values_of(tmp_path / "again.nc")[0, 3, 4])
    if form == "NETCDF3_64BIT":
        return
    said = h5lossy_command("verify", tmp_path / "again.nc", status=4)
    assert "h5lossy did not compress this one" in said.stdout


def test_records_of_another_bound_are_outdated(classic: Path, tmp_path: Path) -> None:
    """As xarray saves a file again: all attributes, other settings, some of the steps."""
    xarray = pytest.importorskip("xarray")
    with xarray.open_dataset(classic, engine="h5netcdf") as opened:
        for name in opened.variables:
            opened[name].encoding.clear()
        encoding = {"tas": {"compression": h5lossy.PFPL(absolute=0.1)}}
        part = opened.isel(time=slice(0, 5))
        part.to_netcdf(tmp_path / "part.nc", engine="h5netcdf", encoding=encoding)
    said = h5lossy_command("verify", tmp_path / "part.nc", status=4)
    assert "the record is of other data: shape [12, 40, 60], now [5, 40, 60]" in said.stdout
    assert "bound absolute 0.01, now absolute 0.1" in said.stdout


def test_attributes_are_of_types_that_the_classic_model_has(classic: Path) -> None:
    with h5py.File(classic) as file:
        for name in RECORDS | {"lossy_compression"}:
            type_id = file["tas"].attrs.get_id(name).get_type()
            assert isinstance(type_id, h5py.h5t.TypeStringID)
            assert not type_id.is_variable_str()


def test_readers_are_told_of_the_loss_in_words(classic: Path) -> None:
    said = run(tool("ncdump"), "-h", classic).stdout
    version = h5lossy.get_config().version
    text = f"absolute error at most 0.01: h5lossy version {version} (codec pfpl)"
    assert f'tas:lossy_compression = "{text}" ;' in said
    assert "tas:lossy_compression_maximum_absolute_error = 0.01 ;" in said
    # CF's attributes are for algorithms that are not h5lossy's.
    assert "quantization" not in said


@pytest.mark.parametrize(
    ("earlier", "options", "expected"),
    [
        (None, ("--digits", 3), "pointwise-relative error at most 0.0004999999999999999: NEW"),
        ("none", ("--absolute", 1), "none; absolute error at most 1.0: NEW"),
        (np.bytes_("none"), ("--absolute", 1), "none; absolute error at most 1.0: NEW"),
        ("none", ("--lossless",), "none"),
        (None, ("--lossless",), None),
        ("\u00e9", ("--absolute", 1), "\u00e9"),
        (np.int16(7), ("--absolute", 1), 7),
        (None, ("--absolute", 1, "--no-attributes"), None),
    ],
)
def test_what_was_said_of_the_loss_before_stays(
    tmp_path: Path, earlier: Any, options: Any, expected: Any
) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.linspace(1, 9, 5000)
        if earlier is not None:
            file["x"].attrs["lossy_compression"] = earlier
    new = f"h5lossy version {h5lossy.get_config().version} (codec pfpl)"
    wanted = expected.replace("NEW", new) if isinstance(expected, str) else expected
    for target in ("b.h5", "c.h5"):  # the same bound once more loses nothing
        h5lossy_command("repack", path, tmp_path / target, *options)
        path = tmp_path / target
        with h5py.File(path) as file:
            found = file["x"].attrs.get("lossy_compression")
            assert (found.decode() if isinstance(found, bytes) else found) == wanted


def test_no_attributes_leaves_what_was_there(classic: Path, tmp_path: Path) -> None:
    for source in (classic.parent / "a.nc", classic):  # without and with earlier records
        target = tmp_path / source.name
        options = ("--absolute", 0.01, "--no-attributes")
        h5lossy_command("repack", source, target, *options)
        with h5py.File(source) as old, h5py.File(target) as new:
            assert set(new["tas"].attrs) == set(old["tas"].attrs) - RECORDS
            assert h5lossy.verify(new["tas"]).ok

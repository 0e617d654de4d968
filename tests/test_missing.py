# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Missing values, by attributes and arguments, count in no range and in no metric.

They come back bit for bit, and nothing else becomes missing without a report.
"""

from __future__ import annotations

import io
import json
import pickle
import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest
from click.testing import CliRunner

import h5lossy
from h5lossy import (
    PFPL,
    Assessor,
    ErrorBound,
    Interp,
    NotComparableError,
    Report,
    _native,
    assess,
)
from h5lossy._cli import main
from h5lossy._errors import InvalidArgumentError
from h5lossy._ranges import Extent
from h5lossy._values import read_block
from h5lossy.missing import Missing, keeping_missing, missing_when_stored, no_data
from hdf5_helpers import h5lossy_command
from matrix import CODEC_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    import numpy.typing as npt


def field(missing: float = 1e20, dtype: npt.DTypeLike = "f4") -> npt.NDArray[Any]:
    """Return normal numbers; the first five rows are missing."""
    values = np.random.default_rng(0).normal(size=(50, 60)).astype(dtype)
    values[:5] = missing
    return values


@pytest.fixture
def file() -> Iterator[h5py.File]:
    with h5py.File("a.h5", "w", driver="core", backing_store=False) as file:
        yield file


def write(path: Path, values: npt.NDArray[Any], *, extend: bool = False, **attributes: Any) -> None:
    with h5py.File(path, "w") as file:
        shape = (None, *values.shape[1:]) if extend else None
        made = file.create_dataset("t", data=values, chunks=(10, 20), maxshape=shape)
        made.attrs.update(attributes)


# ------------------------------------------------------------------------------------------------
# What is missing
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "declared", [1e20, np.float32(1e20), [1e20], np.array([-1.0, 1e20]), 10**20], ids=repr
)
def test_missing_value_is_compared_in_the_datas_own_type(file: h5py.File, declared: Any) -> None:
    made = file.create_dataset("t", data=field())
    if isinstance(declared, int):
        declared = np.float64(declared)
    made.attrs["missing_value"] = declared
    assert no_data(made).missing(field()).sum() == 300
    low, high = Extent.of(made, no_data(made)).ends
    assert -10 < low < high < 10


def test_fill_value_and_attributes_add_up(file: h5py.File) -> None:
    made = file.create_dataset("t", (4,), "f4", fillvalue=-5)
    made.attrs.update({"_FillValue": np.float32(-6), "missing_value": [-7.0, -5.0, np.nan]})
    found = no_data(made)
    assert (found.fill, sorted(found.values)) == (-5, [-7, -6])
    assert sorted(no_data(made, missing_value=[-8, -7]).values) == [-8, -7, -6]
    assert no_data(made, fill_value=3.0).fill == 3
    assert no_data(made, fill_value=None).is_empty
    assert no_data(made, None, [-8]).values == (-8,)


def test_the_interval_is_inclusive_and_of_either_kind(file: h5py.File) -> None:
    values = np.array([0, 1, 2, 3, np.nan, np.inf], "f4")
    made = file.create_dataset("t", data=values)
    made.attrs["valid_range"] = [1.0, 2.0]
    assert no_data(made).outside(values).tolist() == [True, False, False, True, False, False]
    del made.attrs["valid_range"]
    made.attrs["valid_min"] = 1
    assert no_data(made).outside(values).tolist() == [True] + [False] * 5
    made.attrs["valid_max"] = np.float32(2)
    assert no_data(made).outside(values).sum() == 2
    assert Extent.of(made, no_data(made)).ends == (1.0, 2.0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("missing_value", "1e20"),
        ("missing_value", h5py.Empty("f4")),
        ("valid_range", [1.0, 2.0, 3.0]),
        ("valid_range", [2.0, 1.0]),
        ("valid_min", [1.0, 2.0]),
        ("valid_max", np.nan),
        ("_FillValue", [1.0, 2.0]),
    ],
    ids=repr,
)
def test_invalid_attributes_are_ignored_with_a_warning(
    file: h5py.File, name: str, value: Any
) -> None:
    made = file.create_dataset("t", data=field(2.0))
    made.attrs[name] = value
    with pytest.warns(RuntimeWarning, match=f"/t: attribute .*{name}.* is ignored") as caught:
        assert no_data(made).is_empty
    assert caught[0].filename == __file__
    with pytest.warns(RuntimeWarning) as caught:
        PFPL(range_relative=1e-3).resolve(made)
    assert caught[0].filename == __file__


def test_variables_of_all_libraries_say_the_same(tmp_path: Path) -> None:
    netcdf, h5netcdf = pytest.importorskip("netCDF4"), pytest.importorskip("h5netcdf")
    xarray = pytest.importorskip("xarray")
    path = tmp_path / "a.nc"
    with netcdf.Dataset(path, "w") as file:
        file.createDimension("x", 3)
        made = file.createVariable("t", "f4", ("x",), fill_value=-5)
        made.missing_value, made.valid_max = np.array([1e20, -6], "f4"), np.float32(7)
        made[:] = [1, 2, 3]
    with h5py.File(path) as file:
        wanted = no_data(file["t"])
    assert (wanted.fill, wanted.high, len(wanted.values)) == (-5, 7, 2)
    with netcdf.Dataset(path) as file:
        assert no_data(file["t"]) == wanted
    with h5netcdf.File(path) as file:
        assert no_data(file["t"]) == wanted
    with xarray.open_dataset(path, mask_and_scale=False) as file:
        assert no_data(file["t"]) == wanted


@pytest.mark.parametrize("order", ["big", "little"])
def test_the_fill_value_that_netcdf_gives_has_either_byte_order(tmp_path: Path, order: str) -> None:
    netcdf = pytest.importorskip("netCDF4")
    dtype = np.dtype("f4").newbyteorder(order)
    with netcdf.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 3)
        made = file.createVariable("t", dtype, ("x",), endian=order)
        made[:] = np.ma.masked_equal(np.array([1, 2, 3], dtype), 3)
        assert no_data(made).fill == np.float32(netcdf.default_fillvals["f4"])


@pytest.mark.parametrize("dtype", ["f4", "i2", "f2", "c8"])
def test_arguments_that_are_no_numbers_are_refused(dtype: str) -> None:
    for value in (
        "1e20", True, np.bool_(1), np.ma.masked, np.ma.array([1, 2], mask=[1, 0]), None, "", {},
        [True, 2], [1, [2]], [[1], [2, 3]], (n for n in (1, 2)), np.timedelta64(3), [1, "2"], 1j,
    ):  # fmt: skip
        with pytest.raises(
            InvalidArgumentError, match=r"^missing_value (must be a|is for) .*number"
        ):
            no_data(np.zeros(3, dtype), missing_value=value)
        if not isinstance(value, complex | None):
            with pytest.raises(InvalidArgumentError, match=r"^fill_value must be .*number"):
                no_data(np.zeros(3, dtype), value)


@pytest.mark.parametrize("dtype", ["f4", ">f8", "f2", "c8"])
def test_several_threads_find_the_same_range(
    dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    reals = rng.normal(size=(64, 64, 512))
    reals[rng.random(reals.shape) < 0.1] = np.nan
    unit = 1 + 1j if dtype == "c8" else 1
    data = (reals * unit).astype(dtype)
    fill = np.array(9 * unit, dtype)
    data[0, 0, 0], data[-1, -1, -1], data[31] = 6 * unit, -7 * unit, fill
    for threads in (0, 1, 2, 5):
        extent = Extent(no_data(data, fill), threads)
        extent.add(data)
        assert extent.ends == (-7, 6)

    asked: list[int] = []
    found = _native.value_range

    def recorded(params: Any, values: Any, threads: int) -> Any:
        asked.append(threads)
        return found(params, values, threads)

    monkeypatch.setattr(_native, "value_range", recorded)
    assert PFPL(range_relative=0.1).resolve(data, fill).absolute == pytest.approx(1.3)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=data, chunks=(32, 64, 512), fillvalue=fill)
    h5lossy_command("repack", tmp_path / "a.h5", tmp_path / "b.h5", "--range-relative", "0.1")
    assert len(asked) >= 2
    assert set(asked) == {0}  # as many as there are
    PFPL(range_relative=0.1).resolve(data[0, 0])
    assert asked[-1] == 1


def test_numbers_are_the_same_in_every_form() -> None:
    data = np.arange(9, dtype="f4")
    for fill in (0.5, np.float64(0.5), np.float16(0.5), np.array(0.5), Fraction(1, 2)):
        assert no_data(data, fill).fill == np.float32(0.5)
        for several in (
            fill,
            [fill],
            (fill, fill, 3),
            np.array([float(fill), 3, 0.5]),
            [fill, np.nan],
        ):
            found = no_data(data, missing_value=several)
            assert found.values[0] == np.float32(0.5)
            assert set(found.values) <= {0.5, 3}
            given = PFPL(range_relative=0.5).resolve(data, missing_value=several)
            assert given == PFPL(range_relative=0.5).resolve(data)
    assert no_data(data, 10**30).fill == np.float32(1e30)
    integers = np.arange(9, dtype="u8")
    assert no_data(integers, 2**64 - 1, 2**63 + 1).values == (np.uint64(2**63 + 1),)
    assert no_data(integers, missing_value=[-1, 2**64, 0.5, np.inf, 10**30]).values == ()
    for wrong in (-1, 2**64, 0.5, Fraction(1, 2), np.nan):
        with pytest.raises(InvalidArgumentError, match="fill_value must be a uint64 value, got "):
            no_data(integers, wrong)


# ------------------------------------------------------------------------------------------------
# Sources and functions: every function finds the same in every source
# ------------------------------------------------------------------------------------------------

MARK = 1e20
OPEN: list[Any] = []  # what a variable is in: not every library keeps it open
CODEC = PFPL(range_relative=1e-3)


def marked() -> npt.NDArray[Any]:
    return field(MARK).reshape(-1)


def masked() -> Any:
    """Return an array in which only the mask tells what is no data."""
    values = np.ma.masked_array(marked(), marked() == np.float32(MARK))
    values.data[values.mask] = 7e5
    return values


def netcdf_file(path: Path, *, declared: str = "_FillValue") -> Path:
    """Make a file whose missing value is declared in another type unless it is the fill value."""
    netcdf = pytest.importorskip("netCDF4")
    with netcdf.Dataset(path, "w") as file:
        file.createDimension("x", 3000)
        fill = MARK if declared == "_FillValue" else False
        made = file.createVariable("t", "f4", ("x",), fill_value=fill, chunksizes=(3000,))
        if not fill:
            made.setncattr(declared, np.float64(MARK))
        made.set_auto_maskandscale(False)
        made[:] = marked()
    return path


def of_hdf5(path: Path, **options: Any) -> Any:
    attributes = options.pop("attributes", {})
    with h5py.File(path, "w") as file:
        file.create_dataset("t", data=marked(), **options).attrs.update(attributes)
    return h5py.File(path)["t"]


def opened_by(library: str, path: Path, **options: Any) -> Any:
    module = pytest.importorskip(library)
    opener = {"netCDF4": "Dataset", "h5netcdf": "File", "xarray": "open_dataset"}[library]
    file = getattr(module, opener)(path, **options)
    OPEN.append(file)
    return file["t"]


def of_dask(values: Any, **options: Any) -> Any:
    return pytest.importorskip("dask.array").from_array(values, chunks=700, **options)


def masked_by_its_blocks(_: Path) -> Any:
    """Return an array whose blocks have masks of which dask does not know."""
    values = masked()
    numbers = of_dask(np.arange(3000))
    return numbers.map_blocks(lambda part: values[part], dtype="f4", meta=np.empty(0, "f4"))


SOURCES: dict[str, Callable[[Path], Any]] = {
    "masked array": lambda _: masked(),
    "masked array, NaN": lambda _: np.ma.masked_array(masked(), fill_value=np.nan),
    "NaN": lambda _: masked().filled(np.nan),
    "list": lambda _: masked().filled(np.nan).tolist(),
    "pandas": lambda _: pytest.importorskip("pandas").Series(masked().filled(np.nan)),
    "pandas with NA": lambda _: (
        pytest.importorskip("pandas").Series(masked().filled(np.nan)).astype("Float32")
    ),
    "h5py": lambda path: of_hdf5(path, fillvalue=MARK),
    "h5py, missing_value": lambda path: of_hdf5(path, attributes={"missing_value": MARK}),
    "h5py, _FillValue": lambda path: of_hdf5(path, attributes={"_FillValue": MARK}),
    "h5netcdf, HDF5's": lambda path: (
        of_hdf5(path, fillvalue=MARK).file.close(),
        opened_by("h5netcdf", path, phony_dims="sort"),
    )[1],
    "netCDF4, HDF5's": lambda path: (
        of_hdf5(path, fillvalue=MARK).file.close(),
        opened_by("netCDF4", path),
    )[1],
    **{
        f"{library}, {name}": lambda path, library=library, name=name: opened_by(
            library, netcdf_file(path, declared=name)
        )
        for library in ("netCDF4", "h5netcdf", "xarray")
        for name in ("_FillValue", "missing_value")
    },
    "netCDF4, read": lambda path: opened_by("netCDF4", netcdf_file(path))[:],
    "xarray, as stored": lambda path: opened_by(
        "xarray", netcdf_file(path, declared="missing_value"), mask_and_scale=False
    ),
    "xarray of dask": lambda path: opened_by("xarray", netcdf_file(path), chunks={"x": 700}),
    "xarray of masked blocks": lambda path: pytest.importorskip("xarray").DataArray(
        masked_by_its_blocks(path), dims="x"
    ),
    "dask": lambda _: of_dask(masked().filled(np.nan)),
    "dask, masked": lambda _: of_dask(masked()),
    "dask, masked blocks": masked_by_its_blocks,
}


def by_resolve(data: Any, _: Path) -> float:
    return float(CODEC.resolve(data).absolute)


def by_encode(data: Any, _: Path) -> float:
    return h5lossy.inspect(h5lossy.encode(data, CODEC)).step / 2


def by_write(data: Any, path: Path) -> float:
    """Write it with the filter, which takes the range of the chunk."""
    with h5py.File(path.with_suffix(".h5"), "w") as file:
        made = file.create_dataset(
            "w", (3000,), "f4", fillvalue=MARK, chunks=(3000,), compression=CODEC
        )
        h5lossy.write(made, data)
        return h5lossy.inspect(made.id.read_direct_chunk((0,))[1]).step / 2


def by_assess(data: Any, _: Path) -> float:
    report = assess(data, data, lossless=True)
    assert (report.ok, report.valid) == (True, 2700)
    return 1e-3 * report.original.range


def by_dask(data: Any, _: Path) -> float:
    from h5lossy.dask import assess  # noqa: PLC0415  # needs dask

    return float(assess(data, data, range_relative=1e-3).bound.limit)


def by_largest_error(data: Any, _: Path) -> float:
    """Find the range by which a known error is divided."""
    if not isinstance(getattr(data, "dtype", None), np.dtype):  # lists and pandas' types
        data = np.asarray(data, "f4")
    decoded, _ = read_block(data, np.s_[:3000,])
    decoded = np.array(decoded)
    decoded[-1] += 0.5
    found = h5lossy.largest_error(data, decoded, ErrorBound("range_relative", 1))
    assert (found.count, found.special_changed) == (2700, 0)
    return 1e-3 * abs(float(decoded[-1]) - float(marked()[-1])) / found.max_error


def by_repack(_: Any, path: Path) -> float:
    h5lossy_command("repack", path.with_name("a.nc"), path, "--range-relative", 1e-3)
    with h5py.File(path) as file:
        return float(h5lossy.describe(file["t"]).bound.value)


OF_DASK = {"xarray of dask", "dask", "dask, masked", "dask, masked blocks"}
IN_FILES = {name for name in SOURCES if name.startswith(("h5py", "h5netcdf", "netCDF4", "xarray,"))}
FUNCTIONS: dict[Callable[[Any, Path], float], Collection[str]] = {
    by_resolve: SOURCES,
    by_encode: SOURCES,
    by_write: SOURCES,
    by_assess: SOURCES,
    by_largest_error: SOURCES,
    by_dask: OF_DASK,
    by_repack: IN_FILES,
}


@pytest.mark.filterwarnings("ignore:The specified chunks separate the stored:UserWarning")
@pytest.mark.filterwarnings("ignore:WARNING. missing_value not used:UserWarning")  # of netCDF4
@pytest.mark.parametrize(
    ("function", "source"),
    [(function, source) for function, sources in FUNCTIONS.items() for source in sorted(sources)],
)
def test_every_function_finds_the_same_in_every_source(
    tmp_path: Path, source: str, function: Callable[[Any, Path], float]
) -> None:
    wanted = 1e-3 * np.ptp(field()[5:].astype("f8"))
    try:
        found = function(SOURCES[source](tmp_path / "a.nc"), tmp_path / "b.nc")
    finally:
        while OPEN:
            OPEN.pop().close()
    assert found == pytest.approx(wanted, rel=1e-6)


# ------------------------------------------------------------------------------------------------
# Ranges
# ------------------------------------------------------------------------------------------------


def test_missing_values_can_be_given_and_have_to_stay(file: h5py.File) -> None:
    wanted = PFPL(range_relative=1e-4).resolve(field()[5:])
    assert PFPL(range_relative=1e-4).resolve(field(), missing_value=1e20) == wanted
    made = file.create_dataset("t", data=field())
    made.attrs["missing_value"] = 1e20
    assert not h5lossy.largest_error(made, field(2e20), wanted.bound).holds


@pytest.mark.parametrize("marks", [(1e20,), (-1e34,), (1e30, -1e30), (-9.9e9,)], ids=repr)
def test_a_range_of_marks_is_refused_until_confirmed(file: h5py.File, marks: Any) -> None:
    values = field()
    values[:5] = np.resize(np.array(marks, "f4"), (5, 60))
    codec = PFPL(range_relative=1e-4)
    for data in (values, file.create_dataset("t", data=values, chunks=(7, 9))):
        with pytest.raises(InvalidArgumentError, match=r"300 times|150 times") as raised:
            codec.resolve(data)
        for mark in marks:
            assert f"--missing-value {np.float32(mark)!s}" in str(raised.value)
        assert codec.resolve(data, confirm_range=True).absolute > 1e-6 * 1e9
        assert codec.resolve(data, missing_value=marks).absolute < 1e-2


@pytest.mark.parametrize(
    "values",
    [
        [0.0, 1.0, 1.0, 0.0],  # a mask of land
        [0.0, 0.0, 1.0, 1e20],  # not repeated
        [0.0, 0.0, 1e20, 1e20],  # 0 stays 0 under any bound
        [1.0, 1e5, 1e6, 1e6],
        [5.0, 5.0],
    ],
    ids=repr,
)
def test_other_ranges_are_believed(values: list[float]) -> None:
    assert PFPL(range_relative=0.5).resolve(np.array(values)).bound


def test_ranges_of_chunks_are_warned_of(file: h5py.File) -> None:
    made = file.create_dataset(
        "t", (50, 60), "f4", chunks=(10, 20), compression=PFPL(range_relative=1e-3)
    )
    h5lossy.write(made, field())
    made.attrs["missing_value"] = 1e20
    with pytest.warns(RuntimeWarning, match=r"/t .* when it takes the range of a chunk"):
        h5lossy.write(made, field())


# ------------------------------------------------------------------------------------------------
# repack, tune, sweep
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [1e20, -999.0, -9999.0])
@pytest.mark.parametrize("extend", [False, True])
def test_repack_keeps_missing_values_and_the_bound_of_all_others(
    tmp_path: Path, missing: float, *, extend: bool
) -> None:
    source, target = tmp_path / "a.h5", tmp_path / "b.h5"
    write(source, field(missing), extend=extend, missing_value=missing)
    h5lossy_command("repack", source, target, "--range-relative", 1e-4)
    with h5py.File(target) as file:
        decoded = file["t"][...]
        assert (decoded[:5] == np.float32(missing)).all()
        bound = json.loads(file["t"].attrs["h5lossy"])["stored"]["absolute"]
        error = np.abs(decoded[5:].astype("f8") - field(missing)[5:].astype("f8"))
        assert error.max() <= bound <= 1e-4 * np.ptp(field(missing)[5:].astype("f8"))
        assert json.loads(file["t"].attrs["h5lossy_report"])["found"]["valid"] == 45 * 60
    assert assess(f"{source}:/t", f"{target}:/t").ok
    h5lossy_command("verify", target, "--against", source)


@pytest.mark.parametrize("make", [PFPL, Interp])
@pytest.mark.parametrize("dtype", ["f2", "f4"])
def test_zeros_that_are_missing_may_lose_their_sign(make: type[h5lossy.Codec], dtype: str) -> None:
    values = np.linspace(1, 3, 4000).astype(dtype)
    values[::9], values[1::9] = 0, -0.0
    exact = 0 if dtype == "f2" else ()
    with h5py.File(io.BytesIO(), "w") as file:
        for name, codec in (
            ("lossy", make(absolute=0.1, exact=exact)),
            ("lossless", make(lossless=True)),
        ):
            dataset = file.create_dataset(name, values.shape, dtype, chunks=(1000,), **codec)
            dataset.attrs["missing_value"] = values[0]
            h5lossy.write(dataset, values, verify=True)
            assert assess(values, dataset).ok
        assert not np.signbit(file["lossy"][1])
        assert assess(values, file["lossy"][...], absolute=0.1, missing_value=0).ok
        assert not assess(values, file["lossy"][...], lossless=True, missing_value=0).ok


@pytest.mark.parametrize(("count", "found"), [(16, 0.5), (17, 0.51), (5000, 0.51)])
def test_a_smaller_bound_is_looked_for_only_for_few_missing_values(
    count: int, found: float
) -> None:
    missing = Missing(np.dtype("f4"), values=tuple(np.arange(17, 17 + count, dtype="f4")))
    assert keeping_missing(PFPL(absolute=0.51), missing) == PFPL(absolute=found)


@pytest.mark.slow
def test_repack_asks_about_a_range_of_marks(tmp_path: Path) -> None:
    source, target = tmp_path / "a.h5", tmp_path / "b.h5"
    write(source, field(-1e34))
    settings = ("repack", source, target, "--range-relative", 1e-4)
    assert "--missing-value -1e+34" in h5lossy_command(*settings, status=1).output
    assert not target.exists()
    h5lossy_command(*settings, "--missing-value", "-1e34")
    assert assess(f"{source}:/t", f"{target}:/t", missing_value=-1e34).error.max_abs < 1e-3
    h5lossy_command(*settings, "--force", "--confirm-range")
    for command, *options, status in (
        ("sweep", "--bounds", "1e-2", 1),
        ("tune", "--require", "psnr>=40", 2),
    ):
        said = h5lossy_command(command, source, *options, status=status)
        assert "--missing-value -1e+34" in said.output
        said = h5lossy_command(command, source, *options, "--missing-value", "-1e34", "--json")
        assert json.loads(said.stdout)


def test_repack_writes_nothing_where_valid_values_would_not_be_valid(tmp_path: Path) -> None:
    source, target = tmp_path / "a.h5", tmp_path / "b.h5"
    values = field()[5:]
    write(source, values, valid_range=[values.min(), values.max()])
    settings = ("repack", source, target, "--dataset")
    said = h5lossy_command(*settings, "t:absolute=0.3", status=1)
    assert "is data, but would become missing or invalid" in said.output
    assert not target.exists()
    h5lossy_command(*settings, "t:lossless")


@pytest.mark.parametrize(
    ("limits", "setting"),
    [
        ({"valid_range": [-0.1, 0.6]}, "valid-range"),
        ({"valid_min": 0.1}, "threshold"),
        ({"valid_max": 0.7}, "threshold"),
    ],
)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_repack_names_the_rule_that_keeps_values_valid(
    tmp_path: Path, dtype: str, limits: dict[str, Any], setting: str
) -> None:
    source, target = tmp_path / "a.h5", tmp_path / "b.h5"
    with h5py.File(source, "w") as file:
        file["t"] = np.sin(np.arange(4000)).astype(dtype)
        for name, value in limits.items():
            file["t"].attrs[name] = np.array(value, dtype)
    settings = ("repack", source, target, "--dataset", "t:absolute=0.3")
    said = h5lossy_command(*settings, status=1).stderr
    found = re.search(r"a safeguard \(--dataset '(.*?)'\)", said)
    assert found[1].startswith(f"/t:{setting}=")
    h5lossy_command(*settings, "--dataset", found[1])
    outside = []
    for path in (source, target):
        with h5py.File(path) as file:
            outside.append(no_data(file["t"]).outside(file["t"][...]))
    np.testing.assert_array_equal(*outside)
    assert 0 < outside[0].sum() < 4000


def test_a_copy_has_a_missing_value_as_fill_value_only_where_nobody_reads_it(
    tmp_path: Path, file: h5py.File
) -> None:
    whole = file.create_dataset("whole", data=field(), chunks=(10, 20))
    plain = file.create_dataset("plain", data=field())
    grows = file.create_dataset("grows", data=field(), maxshape=(None, 60))
    filled = file.create_dataset("filled", data=field(), fillvalue=-1)
    sparse = file.create_dataset("sparse", (50, 60), "f4", chunks=(10, 20))
    sparse[:9] = field()[:9]
    for made in (whole, plain, grows, filled, sparse):
        made.attrs["missing_value"] = [0.0, 1e20]
    kept = [missing_when_stored(made).fill for made in (whole, plain, grows, filled, sparse)]
    assert kept == [np.float32(1e20), np.float32(1e20), None, -1, None]


@pytest.mark.slow
def test_repack_holds_whatever_is_missing(tmp_path: Path) -> None:
    """Masks and missing values of both files agree as netCDF4 reads them; the bound holds."""
    netcdf = pytest.importorskip("netCDF4")
    source, target = tmp_path / "a.nc", tmp_path / "b.nc"
    done = 0
    for case in range(40):
        rng = np.random.default_rng([13, case])
        dtype = np.dtype(rng.choice(["<f4", ">f4", "<f8", ">f8"]))
        shape = tuple(map(int, rng.integers(3, 20, size=rng.integers(1, 4))))
        chosen = rng.choice([1e20, -999.0, -1e34, 0.0, np.nan], rng.integers(0, 3), replace=False)
        values = (280 + rng.normal(size=shape)).astype(dtype)
        for missing in chosen:
            values[rng.random(shape) < 0.1] = missing
        values[rng.random(shape) < 0.05] = 400
        with netcdf.Dataset(source, "w") as file:
            for axis, n in enumerate(shape):
                file.createDimension(f"{axis}", None if axis == 0 and rng.random() < 0.5 else n)
            made = file.createVariable(
                "t",
                dtype,
                [f"{axis}" for axis in range(len(shape))],
                fill_value=rng.choice([None, False, -5.0]),
                endian="big" if dtype.str[0] == ">" else "little",
            )
            made.set_auto_maskandscale(False)
            if len(chosen):
                made.missing_value = chosen.astype(dtype)
            if rng.random() < 0.5:
                made.valid_range = np.array([200, 300], dtype)
            made[...] = values
        bound = float(10 ** rng.uniform(-4, -1))
        kind = str(rng.choice(["absolute", "range_relative"]))
        rule = f"t:{kind.replace('_', '-')}={bound!r},codec={rng.choice([*CODEC_NAMES.values()])}"
        said = CliRunner().invoke(
            main, ["repack", "--force", str(source), str(target), "--dataset", rule]
        )
        if said.exit_code:
            assert "does not keep" in said.output
            continue
        done += 1
        with netcdf.Dataset(source) as before, netcdf.Dataset(target) as after:
            x, y = before["t"][...], after["t"][...]
            np.testing.assert_array_equal(np.ma.getmaskarray(x), np.ma.getmaskarray(y))
            valid = np.isfinite(x.data) & ~np.ma.getmaskarray(x)
            before.set_auto_maskandscale(False)
            after.set_auto_maskandscale(False)
            raw, decoded = before["t"][...], after["t"][...]
        for missing in chosen:
            there = raw == dtype.type(missing) if np.isfinite(missing) else np.isnan(raw)
            assert raw[there].tobytes() == decoded[there].tobytes()
        if valid.any():
            ends = Fraction(float(raw[valid].max())) - Fraction(float(raw[valid].min()))
            limit = Fraction(bound) * (ends if kind == "range_relative" else 1)
            assert all(
                abs(Fraction(float(a)) - Fraction(float(b))) <= limit
                for a, b in zip(raw[valid], decoded[valid], strict=True)
            )
    assert done > 25


# ------------------------------------------------------------------------------------------------
# assess
# ------------------------------------------------------------------------------------------------


def test_missing_values_count_in_no_metric(file: h5py.File) -> None:
    x, y = (file.create_dataset(name, data=field()) for name in "xy")
    y[5:] += np.float32(0.5)
    x.attrs["missing_value"] = 1e20
    report = assess(x, y, require="psnr>=100, ssim>=0.9999", metrics="full")
    wanted = assess(x[5:], y[5:])
    assert not report.ok
    assert report.valid == wanted.valid == 2700
    assert report.error.psnr == pytest.approx(wanted.error.psnr)
    assert report.original.range == wanted.original.range
    assert (report.special.missing_kept, report.masked) == (300, 0)
    assert report.missing_values == (float(np.float32(1e20)),)
    assert re.search(r"missing values +300\n", report.to_text())
    assert Report.from_json(report.to_json()) == report


def test_missing_values_that_change_and_values_that_become_missing_are_failures() -> None:
    x, y = field(), field()
    y[1, 2], y[30, 3], y[40, 4] = 2e20, 1e20, 1e20
    report = assess(x, y, missing_value=1e20, absolute=0.1)
    assert report.special.failed == {"missing_lost": 1, "missing_introduced": 2}
    assert report.special.first["missing_introduced"] == (30, 3)
    assert {f.check: f.where for f in report.failures}["missing_lost"] == (1, 2)


def test_what_is_not_valid_keeps_the_bound_and_counts_in_no_metric(file: h5py.File) -> None:
    x = file.create_dataset("x", data=field(50.0))
    x.attrs["valid_range"] = np.array([-20, 20], "f4")
    y = field(50.0)
    y[2, 2] += 0.05
    report = assess(x, y, absolute=0.1)
    assert (report.ok, report.outside, report.valid) == (True, 300, 2700)
    assert report.error.max_abs == 0
    y[3, 3] += 0.2
    report = assess(x, y, absolute=0.1)
    assert [violation.at for violation in report.bound.listed] == [(3, 3)]
    y[3, 3] = 1.0
    assert assess(x, y).special.failed == {"missing_lost": 1}
    y[3, 3], y[9, 9] = 50, 50
    assert assess(x, y).special.failed == {"missing_introduced": 1}


def test_an_assessor_finds_the_same(file: h5py.File) -> None:
    x, y = field(), field() + np.float32(0.25)
    y[2, 3], y[31, 7] = 1, 1e20
    wanted = assess(x, y, absolute=0.3, missing_value=1e20)
    parts = [
        Assessor(x.shape, x.dtype, planes=planes, absolute=0.3, missing_value=1e20)
        for planes in ((0, 20), (20, 50))
    ]
    for part in parts:
        begin, end = part.wanted
        part.update(x[begin:end], y[begin:end])
    whole = pickle.loads(pickle.dumps(parts[0]))
    whole.merge(parts[1])
    found = whole.result()
    assert found.special == wanted.special
    assert found.failures == wanted.failures
    assert (found.valid, found.masked) == (wanted.valid, wanted.masked)
    with pytest.raises(InvalidArgumentError, match="same arguments"):
        parts[1].merge(Assessor(x.shape, x.dtype, planes=(0, 20), absolute=0.3))
    narrow = Missing(np.dtype("f4"), low=np.float32(-1))
    limited = Assessor(x.shape, x.dtype, fill_value=narrow)
    limited.update(x, x)
    assert limited.result().outside == (x < -1).sum()


def test_masks_of_masked_arrays_count() -> None:
    x = np.ma.masked_greater(field(), 1e19)
    report = assess(x, field(7.0))
    assert (report.ok, report.masked, report.valid, report.error.max_abs) == (True, 300, 2700, 0)
    both = assess(x, field(), mask=np.arange(50)[:, None] * np.ones(60, int) > 40)
    assert both.masked == 300 + 9 * 60
    less = x.copy()
    less[20, 20] = np.ma.masked
    report = assess(x, less)
    assert (report.special.failed, report.failures[0].where) == (
        {"missing_introduced": 1},
        (20, 20),
    )


def test_an_assessor_leaves_masked_points_out() -> None:
    x = np.ma.masked_greater(field(), 1e19)
    for y, ok in ((field(7.0), True), (np.ma.masked_inside(field(7.0), 0.5, 0.6), False)):
        found = Assessor(x.shape, x.dtype, absolute=0.1)
        found.update(x, y)
        report = found.result()
        assert (report.ok, report.masked) == (ok, 300)


def test_what_the_caller_says_comes_first(file: h5py.File) -> None:
    x = file.create_dataset("x", data=field(), fillvalue=-1)
    x.attrs["missing_value"] = 1e20
    assert assess(x, field()).valid == 2700
    assert assess(x, field(), fill_value=5.0).valid == 2700
    assert assess(x, field(), fill_value=None).valid == 3000
    assert assess(x, field(), fill_value=None, missing_value=[1e20]).valid == 2700


def test_met_thresholds_pass() -> None:
    report = assess(field(), field(), require="psnr>=10")
    assert (report.ok, report.requirements) == (True, ("psnr>=10",))
    assert report.to_text().splitlines()[0].endswith("PASS")
    assert assess(field(), field()).to_text().splitlines()[0].endswith("measured")


# ------------------------------------------------------------------------------------------------
# Packed values
# ------------------------------------------------------------------------------------------------


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """Give a file with `f` as floats and `p` packed to hundredths; some of both is missing."""
    netcdf = pytest.importorskip("netCDF4")
    path = tmp_path / "packed.nc"
    with netcdf.Dataset(path, "w") as file:
        file.createDimension("y", 50)
        file.createDimension("x", 60)
        made = file.createVariable("p", "i2", ("y", "x"), fill_value=-9999)
        made.scale_factor, made.add_offset = 0.01, 280.0
        values = np.ma.masked_greater(field(), 1e19)
        values.data[:5] = 0
        made[:] = values + 280
        made = file.createVariable("f", "f4", ("y", "x"), fill_value=1e20)
        made[:] = values + 280
    return path


def test_packed_values_are_unpacked(packed: Path) -> None:
    netcdf, xarray = pytest.importorskip("netCDF4"), pytest.importorskip("xarray")
    report = assess(f"{packed}:/f", f"{packed}:/p", absolute=0.0051)
    assert (report.failures, report.valid) == ((), 2700)
    assert 0.004 < report.error.max_abs < 0.0051
    assert report.provenance.unpacked == ("decoded: scale_factor 0.01, add_offset 280.0",)
    assert "scale_factor 0.01" in report.to_text()
    counts = assess(f"{packed}:/p", f"{packed}:/p")
    assert 270 < counts.original.min < counts.original.max < 290
    with netcdf.Dataset(packed) as file, xarray.open_dataset(packed) as opened:
        for one in (file["p"], opened["p"]):
            assert assess(f"{packed}:/f", one, absolute=0.0051).valid == 2700
        file.set_auto_maskandscale(False)
        assert assess(file["p"], f"{packed}:/p").ok


def test_a_packed_scalar_is_unpacked(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "scalar.h5", "w") as file:
        original, decoded = (file.create_dataset(f"{n}", data=np.int16(n)) for n in (500, 501))
        for one in (original, decoded):
            one.attrs["scale_factor"] = 0.01
            one.attrs["_FillValue"] = np.int16(-1)
        assert assess(original, decoded).error.max_abs == pytest.approx(0.01)
        missing = file.create_dataset("missing", data=np.int16(-1))
        missing.attrs["scale_factor"], missing.attrs["_FillValue"] = 0.01, np.int16(-1)
        assert assess(missing, missing).valid == 0


def test_packed_values_are_not_compared_with_what_may_be_packed(packed: Path) -> None:
    with h5py.File(packed) as file, pytest.raises(NotComparableError, match=r"packed .*unpacked"):
        assess(file["p"], file["p"][...])


def test_the_files_own_bound_is_about_what_is_stored(file: h5py.File) -> None:
    x = file.create_dataset("x", data=field()[5:])
    codec = PFPL(absolute=0.25)
    y = file.create_dataset("y", data=field()[5:], chunks=(9, 20), compression=codec)
    for made in (x, y):
        made.attrs["scale_factor"] = 100.0
    file.flush()
    assert assess(x, y).ok
    assert h5lossy.verify(y, against=x).ok
    assert not assess(x, y, absolute=0.25).ok
    assert assess(x, y, absolute=25.0).ok


@pytest.mark.parametrize("bound", [h5lossy.PFPL(absolute=1), 0.5, None])
def test_largest_error_takes_a_bound_and_nothing_else(bound: Any) -> None:
    with pytest.raises(TypeError, match=r"bound must be an ErrorBound, .*\.bound, got "):
        h5lossy.largest_error([1.0], [1.0], bound)

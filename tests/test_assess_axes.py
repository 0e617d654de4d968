# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""`h5lossy.assess` of fields with meaningful axes: slices, masks with fewer axes, weights."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

from h5lossy import Assessor, InvalidArgumentError, assess
from h5lossy._dims import Axis, spatial
from reports import numbers_of

if TYPE_CHECKING:
    from pathlib import Path

SHAPE = (3, 2, 19, 24)
DIMS = ("member", "month", "lat", "lon")
LATITUDES = np.linspace(-88, 88, 19)


def ensemble(shape: tuple[int, ...] = SHAPE) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(4)
    x = rng.normal(size=shape).cumsum(axis=-1).astype(np.float32)
    size = rng.uniform(0.001, 0.1, size=(*shape[:2], 1, 1))  # slices differ
    return x, (x + rng.uniform(-1, 1, size=shape) * size).astype(np.float32)


def with_scales(file: h5py.File, name: str, values: Any, dims: Any = DIMS, **options: Any) -> Any:
    """Write a field with the dimension scales that netCDF writes."""
    dataset = file.create_dataset(name, data=values, **options)
    attributes = {"lat": {"units": "degrees_north"}, "lon": {"standard_name": "longitude"}}
    for i, dim in enumerate(dims):
        if dim not in file:
            extent = values.shape[i]
            scale = file.create_dataset(
                dim, data=LATITUDES if dim == "lat" else np.arange(extent, dtype="f8")
            )
            scale.make_scale(dim)
            scale.attrs.update(attributes.get(dim, {}))
        dataset.dims[i].attach_scale(file[dim])
    return dataset


@pytest.mark.parametrize("dtype", ["f4", ">f8", "i8", "u8", "f2"])
def test_each_slice_is_assessed_as_a_field_of_its_own(dtype: str) -> None:
    x, y = ensemble()
    if dtype in {"i8", "u8"}:
        x, y = (2**60 + np.rint(1000 * f.astype(float)).astype(dtype) for f in (x, y))
    x, y = x.astype(dtype), y.astype(dtype)
    x[1, 1, 4, 5] = y[1, 1, 4, 5] = np.nan if x.dtype.kind == "f" else 0
    report = assess(x, y, metrics="full", fill_value=None if x.dtype.kind == "f" else 0)
    assert (report.axes, report.per_slice.axes, report.per_slice.shape) == ((2, 3), (0, 1), (3, 2))
    for i, at in enumerate(np.ndindex(3, 2)):
        one = assess(x[at], y[at], metrics="full", fill_value=None if x.dtype.kind == "f" else 0)
        for name, want in {
            "max_abs": one.error.max_abs,
            "rmse": one.error.rmse,
            "mean": one.error.mean,
            "one_minus_pearson": one.correlation.one_minus_pearson,
            "one_minus_ssim": one.ssim.one_minus_mean,
            "gradient_rmse": one.derivatives.gradient_rmse,
            "laplacian_rmse": one.derivatives.laplacian_rmse,
            "spectrum_deviation": one.spectrum.max_deviation,
        }.items():
            assert getattr(report.per_slice, name).values[i] == want, name
    found = report.per_slice.one_minus_ssim
    assert found.worst == max(found.values)
    assert found.worst_at == np.unravel_index(np.argmax(found.values), (3, 2))
    assert found.mean == pytest.approx(np.mean(found.values), rel=1e-14)


def test_the_report_sums_the_slices_up() -> None:
    x, y = ensemble()
    report = assess(x, y, metrics="full")
    every = [assess(x[at], y[at], metrics="full") for at in np.ndindex(3, 2)]
    assert report.ssim.windows == sum(one.ssim.windows for one in every)
    mean = np.average(
        [one.ssim.one_minus_mean for one in every], weights=[one.ssim.windows for one in every]
    )
    assert report.ssim.one_minus_mean == pytest.approx(mean, rel=1e-12)
    worst = max(every, key=lambda one: one.ssim.one_minus_min)
    assert report.ssim.one_minus_min == worst.ssim.one_minus_min
    assert report.ssim.min_at[2:] == worst.ssim.min_at
    assert report.ssim.min_at[:2] == [*np.ndindex(3, 2)][every.index(worst)]
    assert report.ssim.value_range == max(one.ssim.value_range for one in every)
    squares = np.mean([one.derivatives.gradient_rmse**2 for one in every])
    assert report.derivatives.gradient_rmse == pytest.approx(math.sqrt(squares), rel=1e-12)
    assert [slope.axis for slope in report.derivatives.slopes] == [2, 3]
    assert [row.axis for row in report.autocorrelation] == [2, 3, None]
    # Along the axes of a slice, pairs of points are those of the whole field.
    whole = assess(x, y, axes=range(4))
    for row in report.autocorrelation[:2]:
        assert row.values == pytest.approx(whole.autocorrelation[row.axis].values, abs=1e-12)
    power = [np.abs(np.fft.fft2(f.astype(float), axes=(-2, -1))) ** 2 for f in (x, y)]
    waves = np.hypot(*np.meshgrid(np.fft.fftfreq(19) * 19, np.fft.fftfreq(24) * 24, indexing="ij"))
    first = np.rint(waves) == 1
    assert report.spectrum.ratio[0] == pytest.approx(
        power[1][..., first].sum() / power[0][..., first].sum(), rel=1e-11
    )


@pytest.mark.parametrize("axes", [(2, 3), (0, 2), (1,), (3, 0, 2), (0, 1, 2, 3)], ids=str)
@pytest.mark.parametrize("chunks", [None, (1, 1, 19, 24), (2, 2, 7, 9)], ids=str)
def test_any_axes_and_chunks(axes: tuple[int, ...], chunks: Any) -> None:
    x, y = ensemble((9, 3, 10, 11) if len(axes) > 1 else (3, 9, 4, 5))
    mask = np.random.default_rng(0).random(x.shape) < 0.001
    wanted = numbers_of(assess(x, y, axes=axes, mask=mask, metrics="full"))
    with h5py.File("a.h5", "w", driver="core", backing_store=False) as file:
        a, b = (
            file.create_dataset(n, data=f, chunks=chunks and tuple(map(min, chunks, f.shape)))
            for n, f in (("x", x), ("y", y))
        )
        for limit in ("256 MiB", "1 MiB"):
            found = assess(a, b, axes=axes, mask=mask, metrics="full", memory_limit=limit)
            assert numbers_of(found) == wanted


def test_slices_that_memory_does_not_hold_together(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = ensemble()
    wanted = numbers_of(assess(x, y))
    monkeypatch.setattr("h5lossy.assessment._sliced._OF_LIMIT", 1e-6)
    with h5py.File("a.h5", "w", driver="core", backing_store=False) as file:
        a, b = (
            file.create_dataset(n, data=f, chunks=(2, 2, 8, 8)) for n, f in (("x", x), ("y", y))
        )
        assert numbers_of(assess(a, b)) == wanted


@pytest.mark.parametrize(
    ("kinds", "wanted"),
    [
        ("", ()),
        ("?", (0,)),
        ("??", (0, 1)),
        ("???", (0, 1, 2)),
        ("????", (2, 3)),
        ("??????", (4, 5)),
        ("TZYX", (2, 3)),
        ("ETZYX", (3, 4)),
        ("XYT", (0, 1)),
        ("?TYX", (2, 3)),
        ("T??", (1, 2)),
        ("T???", (2, 3)),
        ("TZ?", (2,)),
        ("T", (0,)),
        ("TZ", (0, 1)),
        ("TY", (1,)),
    ],
)
def test_neighbours_are_horizontal_by_default(kinds: str, wanted: tuple[int, ...]) -> None:
    axes = [Axis(f"d{i}", kind.replace("?", "")) for i, kind in enumerate(kinds)]
    assert spatial(axes, tuple(range(len(axes)))) == wanted


def test_dimension_scales_say_what_axes_are(tmp_path: Path) -> None:
    x, y = ensemble()
    turned = [f.transpose(2, 0, 3, 1) for f in (x, y)]
    dims = ("lat", "member", "lon", "month")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        a = with_scales(file, "x", turned[0], dims)
        report = assess(a, turned[1])
        assert (report.dims, report.axes) == (dims, (0, 2))
        assert (report.per_slice.axes, report.per_slice.shape) == ((1, 3), (3, 2))
        plain = assess(x, y)
        # Slices come in the same order, since member is before month in both.
        assert report.per_slice == type(plain.per_slice)(
            **{**vars(plain.per_slice), "axes": (1, 3)}
        )
        assert assess(a, turned[1], axes=["lon", "lat"]).ssim == report.ssim
        assert assess(a, turned[1], axes="lon").axes == (2,)
        with pytest.raises(InvalidArgumentError, match="named lat, member, lon, month; got 'x'"):
            assess(a, turned[1], axes=["x"])
        text = report.to_text()
        assert "3 x 2 along member, month" in text
        assert "each along" in text


@pytest.mark.parametrize("engine", ["xarray", "netCDF4", "h5netcdf"])
def test_variables_of_other_libraries_say_what_axes_are(engine: str, tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    library = pytest.importorskip(engine)
    x, y = ensemble()
    coords = {
        "lat": ("lat", LATITUDES, {"units": "degrees_north"}),
        "lon": ("lon", np.arange(24.0), {"axis": "X"}),
        "month": ("month", np.array(["2000-01-01", "2000-02-01"], "M8[ns]")),
    }
    field = xarray.DataArray(x, dims=DIMS, coords=coords, name="t")
    if engine == "xarray":
        report = assess(field, y, weights="latitude")
    else:
        field.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
        opened = library.Dataset if engine == "netCDF4" else library.File
        with opened(tmp_path / "a.nc", "r") as file:
            report = assess(file.variables["t"], y, weights="latitude")
    assert (report.dims, report.axes) == (DIMS, (2, 3))
    assert report.ssim == assess(x, y).ssim
    assert report.weighted is not None


def test_a_mask_is_repeated_along_the_axes_that_it_does_not_have(tmp_path: Path) -> None:
    x, y = ensemble()
    land = np.random.default_rng(1).random(SHAPE[2:]) < 0.1
    wanted = numbers_of(assess(x, y, mask=np.broadcast_to(land, SHAPE)))
    assert numbers_of(assess(x, y, mask=land)) == wanted
    assert numbers_of(assess(x, y, mask=land[None, None].astype("u1"))) == wanted
    with h5py.File(tmp_path / "a.h5", "w") as file:
        a = with_scales(file, "x", x)
        turned = with_scales(file, "land", land.T.astype("i1"), ("lon", "lat"))
        by_name = assess(a, y, mask=turned)
    assert by_name.masked == assess(x, y, mask=land).masked
    assert by_name.ssim == assess(x, y, mask=land).ssim
    with pytest.raises(InvalidArgumentError, match="or the last axes of it, got"):
        assess(x, y, mask=land.T)


@pytest.mark.parametrize("offset", [0.0, 5e4])
def test_weights_are_those_of_numpy(offset: float) -> None:
    x, y = (f.astype(float) + offset for f in ensemble())
    y[0, 1, 3, 3] = np.nan
    weights = np.cos(np.deg2rad(LATITUDES))[:, None]
    valid = np.isfinite(y)
    w = np.broadcast_to(weights, SHAPE)[valid]
    a, b = x[valid], y[valid]
    found = assess(x, y, weights=weights).weighted
    assert found.original_mean == pytest.approx(np.average(a, weights=w), rel=1e-13)
    assert found.decoded_mean == pytest.approx(np.average(b, weights=w), rel=1e-13)
    assert found.mean == pytest.approx(np.average(b - a, weights=w), rel=1e-9)
    assert found.mean_abs == pytest.approx(np.average(abs(b - a), weights=w), rel=1e-12)
    assert found.rmse == pytest.approx(math.sqrt(np.average((b - a) ** 2, weights=w)), rel=1e-12)
    covariance = np.cov(a, b, aweights=w, ddof=0)
    r = covariance[0, 1] / math.sqrt(covariance[0, 0] * covariance[1, 1])
    assert found.one_minus_pearson == pytest.approx(1 - r, rel=1e-6)
    # Equal weights weigh nothing.
    equal, plain = assess(x, y, weights=np.ones(SHAPE)), assess(x, y)
    assert equal.weighted.rmse == pytest.approx(plain.error.rmse, rel=1e-12)


def test_weights_of_latitudes(tmp_path: Path) -> None:
    x, y = ensemble()
    with h5py.File(tmp_path / "a.h5", "w") as file:
        found = assess(with_scales(file, "x", x), y, weights="latitude")
    wanted = assess(x, y, weights=np.cos(np.deg2rad(LATITUDES))[:, None])
    assert found.weighted == wanted.weighted
    assert "mean, original / decoded" in found.to_text()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"weights": "area"}, 'an array or "latitude"'),
        ({"weights": "latitude"}, "0 axes have one"),
        ({"weights": -np.ones(8)}, "0 or more"),
        ({"weights": np.full(8, np.nan)}, "finite"),
        ({"weights": np.ones(3)}, "weights must have the fields' shape"),
        ({"weights": np.ones(8, bool)}, "floats or integers"),
        ({"axes": 1}, "some of the 1 axes of the field, which have no names; got 1"),
        ({"axes": "lat"}, "got 'lat'"),
        ({"axes": ()}, "1 to 4 axes"),
        ({"axes": 1.5}, "numbers or names"),
    ],
)
def test_arguments_that_are_not_allowed_are_named(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        assess(np.arange(8.0), np.arange(8.0), **options)


def test_weights_that_are_all_0_and_values_that_do_not_vary() -> None:
    x, y = ensemble()
    nothing = assess(x, y, weights=np.zeros(SHAPE[2:]))
    assert nothing.weighted.rmse is None
    assert nothing.undefined["weighted"]
    constant = assess(np.ones(9), np.ones(9), weights=np.ones(9))
    assert (constant.weighted.rmse, constant.weighted.one_minus_pearson) == (0, None)
    assert "constant" in constant.undefined["weighted.one_minus_pearson"]


def test_constant_slices_have_no_similarity_and_the_report_says_so() -> None:
    x, y = ensemble()
    x[2, 1] = 7
    report = assess(x, y)
    assert report.per_slice.one_minus_ssim.values[5] is None
    assert (
        "1 of 6 slices have none: the original is constant"
        in (report.undefined["per_slice.one_minus_ssim"])
    )
    assert report.ssim.mean is not None
    assert type(report).from_json(report.to_json()) == report


@pytest.mark.parametrize("shape", [(3, 0, 5), (0, 5, 5)])
def test_empty_slices_have_no_numbers_and_the_report_says_so(shape: tuple[int, ...]) -> None:
    report = assess(np.zeros(shape), np.zeros(shape), axes=(1, 2), metrics="full")
    assert report.per_slice.rmse is None
    assert "no valid point" in report.undefined["per_slice"]
    assert report.ssim.mean is None


def test_of_equal_windows_the_worst_is_that_of_the_first_slice() -> None:
    x = np.zeros((2, 20, 20))
    x[:, 0, 0] = 1
    y = x.copy()
    y[0, 15, 15] = y[1, 8, 8] = 0.5
    report = assess(x, y, axes=(1, 2), data_range=1.0)
    alone = [assess(*pair, data_range=1.0).ssim for pair in zip(x, y, strict=True)]
    assert alone[0].one_minus_min == alone[1].one_minus_min
    assert alone[0].min_at > alone[1].min_at
    assert report.ssim.min_at == (0, *alone[0].min_at)


def test_a_slice_without_a_valid_point_says_so() -> None:
    x, y = ensemble()
    x[0, 1] = np.nan
    report = assess(x, y)
    for name in ("max_abs", "rmse", "mean", "one_minus_pearson"):
        assert getattr(report.per_slice, name).values[1] is None
        assert report.undefined[f"per_slice.{name}"].endswith("there is no valid point")
    assert "two valid neighbours" in report.undefined["per_slice.gradient_rmse"]


def test_gaps_of_a_spectrum_are_filled_with_the_mean() -> None:
    x, y = ensemble()
    x[0, 0, 3:6, 4] = y[0, 0, 3:6, 4] = np.nan
    found = assess(x[0, 0], y[0, 0], metrics=["spectrum"]).spectrum
    mean = np.nanmean(x[0, 0].astype(float))
    filled = [np.where(np.isnan(f), mean, f) for f in (x[0, 0], y[0, 0])]
    wanted = assess(*filled, metrics=["spectrum"]).spectrum
    assert found.ratio == pytest.approx(wanted.ratio, rel=1e-12)


def test_without_neighbours_there_are_no_slices() -> None:
    x = np.random.default_rng(4).normal(size=(2, 3, 8, 9))
    report = assess(x, x, absolute=1.0, metrics="bound")
    assert report.axes == (2, 3)
    assert report.per_slice is None
    assert report.undefined.keys().isdisjoint({"per_slice"})
    assessor = Assessor(x.shape, x.dtype, absolute=1.0, metrics="bound")
    assessor.update(x, x)
    assert assessor.result().per_slice is None


def test_too_many_slices_are_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("h5lossy.assessment._sliced._MOST_SLICES", 5)
    report = assess(*ensemble())
    assert report.ssim.mean is None
    assert "of 6 slices at most 5" in report.undefined["per_slice"]
    monkeypatch.setattr("h5lossy.assessment._sliced._MOST_LISTED", 5)
    monkeypatch.setattr("h5lossy.assessment._sliced._MOST_SLICES", 6)
    report = assess(*ensemble())
    assert report.per_slice.rmse.values == ()
    assert report.per_slice.rmse.worst is not None


@pytest.mark.parametrize("cuts", [(3,), (1, 2, 3)])
def test_an_assessor_takes_the_slices_of_its_planes(cuts: tuple[int, ...]) -> None:
    x, y = ensemble()
    whole = assess(x, y, metrics=["ssim", "derivatives", "autocorrelation"])
    assessor = Assessor(SHAPE, "f4", metrics=["ssim", "derivatives", "autocorrelation"])
    assert assessor.halo == 0
    for a, b in itertools.pairwise((0, *cuts)):
        assessor.update(x[a:b], y[a:b])
    assert numbers_of(assessor.result()) == numbers_of(whole)
    mine, other = (
        Assessor(SHAPE, "f4", metrics=["ssim"], planes=planes) for planes in ((0, 2), (2, 3))
    )
    mine.update(x[:2], y[:2])
    other.update(x[2:], y[2:])
    other.merge(mine)
    assert other.result().per_slice.one_minus_ssim == whole.per_slice.one_minus_ssim
    assert other.result().ssim.min_at == whole.ssim.min_at
    with pytest.raises(InvalidArgumentError, match="same arguments"):
        other.merge(Assessor(SHAPE, "f4", metrics=["ssim"], ssim={"window": 5}))
    with pytest.raises(InvalidArgumentError, match="without axis 0"):
        Assessor(SHAPE, "f4", axes=(0, 1))


@pytest.mark.slow
def test_pictures_and_data_ssim_are_of_slices(tmp_path: Path) -> None:
    x, y = ensemble()
    turned = [f.transpose(2, 0, 3, 1) for f in (x, y)]
    plain = assess(x, y, metrics=["climate"], slices=True)
    report = assess(*turned, metrics=["climate"], slices=True, axes=(0, 2))
    assert report.climate == plain.climate
    assert report.slices[0].title == "middle slice [:, 1, :, 1]"
    assert np.array_equal(report.slices[0].original, x[1, 1])
    report.to_html(tmp_path / "a.html")


def test_labels_may_be_of_fixed_length(tmp_path: Path) -> None:
    """As programs write them that have no strings of variable length."""
    x, _ = ensemble()
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = x
        file["x"].attrs["DIMENSION_LABELS"] = np.array(["member", "", "größe".encode(), "x"], "S9")
        report = assess(file["x"], file["x"])
    assert report.dims == ("member", "", "größe", "x")

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Bounds from a file of recommendations: who gets which, in which unit, and why some get none."""

from __future__ import annotations

import importlib.util
import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

import h5lossy
from h5lossy._units import ratio_of
from hdf5_helpers import h5lossy_command

if TYPE_CHECKING:
    from pathlib import Path

netCDF4 = pytest.importorskip("netCDF4")  # noqa: N816
pytest.importorskip("yaml")

ABSOLUTE = "max-pointwise-absolute-error-bound"
MEAN = "mean-absolute-error-bound"
RELATIVE = "max-pointwise-relative-error-bound"
OF_RANGE = "max-pointwise-range-relative-error-bound"


def entry(name: str, level: str, *requirements: Any) -> dict[str, Any]:
    """Write an entry as the package compiles it: nested filters and requirements."""
    names = [{"kind": "cf-standard-name", "value": name}, {"kind": "cf-short-name", "value": "q"}]
    settings = [{"kind": k, "value": v} if not isinstance(v, dict) else v for k, v in requirements]
    return {
        "filters": [
            {"kind": "any", "filters": [{"kind": "any", "filters": names}]},
            {"kind": "level-kind", "value": level},
        ],
        "requirements": [{"kind": "all", "requirements": [one]} for one in settings],
    }


LIMITS = ("", {"kind": "data-limits", "minimum": 0.0})
ENTRIES = [
    entry("air_temperature", "pressure", (ABSOLUTE, 0.01), (OF_RANGE, 0.01)),
    entry("geopotential", "single", (ABSOLUTE, 10.0)),
    entry("geopotential", "pressure", (MEAN, 5.0), (ABSOLUTE, 10.0)),
    entry("air_pressure_at_mean_sea_level", "single", (ABSOLUTE, 1.0)),
    entry("toa_outgoing_longwave_flux", "single", (MEAN, 3600.0)),
    entry("lwe_thickness_of_snowfall_amount", "single", (MEAN, "1e-05"), LIMITS),
    entry("specific_humidity", "pressure", (RELATIVE, 0.01), LIMITS),
    entry("lagrangian_tendency_of_air_pressure", "pressure", (ABSOLUTE, 0.01), (RELATIVE, 0.05)),
    entry("land_binary_mask", "single", ("", {"kind": "lossless"}), LIMITS),
    entry("surface_temperature", "single", ("mystery", 1)),
    entry("cloud_area_fraction", "single", LIMITS),
]

#: Name, standard_name, units, whether it is on pressure levels, and the bound (None: none).
VARIABLES = [
    ("t", "air_temperature", "degC", True, "absolute"),
    ("zs", "geopotential", "m**2 s**-2", False, "absolute 10.0"),
    ("z", "geopotential", "m2 s-2", True, "absolute 5.0"),
    ("msl", "air_pressure_at_mean_sea_level", "hPa", False, "absolute 0.01"),
    ("olr", "toa_outgoing_longwave_flux", "W m-2", False, None),
    ("sf", "lwe_thickness_of_snowfall_amount", "mm", False, "absolute 0.01"),
    ("hus", "specific_humidity", "g kg-1", True, "pointwise_relative 0.01"),
    ("w", "lagrangian_tendency_of_air_pressure", "Pa s-1", True, "pointwise_relative"),
    ("lsm", "land_binary_mask", "1", False, "lossless"),
    ("ts", "surface_temperature", "K", False, None),
    ("clt", "cloud_area_fraction", "1", False, None),
    ("tas", "air_temperature", "K", False, None),
    ("other", "", "K", False, None),
]


@pytest.fixture(scope="module")
def advice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("advice") / "own.yaml"
    path.write_text(  # JSON is YAML
        json.dumps({"recommendations": ENTRIES, "version": "1.2.3", "metadata": {}})
    )
    return path


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "run.nc"
    random = np.random.default_rng(3)
    with netCDF4.Dataset(path, "w") as nc:
        for name, size, units, standard in (
            ("plev", 2, "Pa", "air_pressure"),
            ("lat", 30, "degrees_north", "latitude"),
            ("lon", 60, "degrees_east", "longitude"),
        ):
            nc.createDimension(name, size)
            axis = nc.createVariable(name, "f8", (name,))
            axis.units, axis.standard_name = units, standard
            axis[:] = np.linspace(1, 50, size)
        for name, standard, units, on_levels, _ in VARIABLES:
            dims = ("plev", "lat", "lon") if on_levels else ("lat", "lon")
            variable = nc.createVariable(name, "f4", dims)
            variable.units = units
            if standard:
                variable.standard_name = standard
            values = random.normal(20, 5, variable.shape)
            variable[:] = values - 20 if name == "w" else values / 1000 if name == "t" else values
    return path


def repack(*arguments: object, status: int = 0) -> str:
    return str(h5lossy_command("repack", *arguments, status=status).output)


def test_each_variable_gets_what_is_recommended_in_its_own_unit(
    source: Path, advice: Path, tmp_path: Path
) -> None:
    said = " ".join(repack(source, tmp_path / "b.nc", "--recommendations", advice).split())
    with h5py.File(source) as old, h5py.File(tmp_path / "b.nc") as new:
        bounds = {}
        for name, *_, wanted in VARIABLES:
            info = h5lossy.describe(new[name])
            bounds[name] = None if info is None else info.bound
            assert (info is None) == (wanted is None)
            assert info is None or str(info.bound).startswith(wanted.split()[0])
            if wanted and " " in wanted:
                value = float(wanted.split()[1])
                assert value * (1 - 1e-15) <= info.bound.value <= value
            if wanted and wanted != "lossless":
                assert "by own.yaml 1.2.3" in new[name].attrs["lossy_compression"].decode()
                assert ": ".join((f"/{name}", str(info.bound.kind))) in said
                assert "recommended" in json.loads(new[name].attrs["h5lossy"])
        t, w = (old[name][()].astype("f8") for name in "tw")
        # Two requirements become one bound that implies both.
        assert 0.009 < bounds["t"].value / (t.max() - t.min()) <= 0.01
        assert 0.999 < bounds["w"].value * abs(w).max() / 0.01 <= 1
    assert "its bound is in J m-2, and the variable's units are 'W m-2', which can't be" in said
    assert "own.yaml 1.2.3 has none for air_temperature of single levels): /tas" in said
    assert "it has no standard_name): /other" in said
    assert "no bound that implies mystery 1" in said
    assert "not promised: data-limits minimum 0.0" in said
    assert said.count("not promised") == 1  # a relative bound keeps the sign


def test_rules_go_first_and_the_bound_for_all_last(
    source: Path, advice: Path, tmp_path: Path
) -> None:
    options = ("--dataset", "zs:absolute=0.5", "--skip", "msl", "--absolute", 0.25)
    options += ("--codec", "interp")
    repack(source, tmp_path / "b.nc", "--recommendations", advice, *options)
    with h5py.File(tmp_path / "b.nc") as new:
        found = {name: h5lossy.describe(new[name]) for name in ("zs", "msl", "tas", "z", "lsm")}
    assert found.pop("msl") is None
    assert found.pop("lsm").codec == "pfpl"  # Interp is not lossless
    assert {info.codec for info in found.values()} == {"interp"}
    assert {name: info and info.bound.value for name, info in found.items()} == {
        "zs": 0.5,
        "tas": 0.25,
        "z": 5.0,
    }


def test_xarray_takes_the_same_bounds_and_says_them(source: Path, advice: Path) -> None:
    xr = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    from h5lossy.xarray import encoding, recommended  # noqa: PLC0415

    with xr.open_dataset(source, engine="netcdf4") as ds:
        with pytest.warns(RuntimeWarning, match=r"^no bound is recommended for olr \(.*other \("):
            chosen = encoding(ds, {"zs": {"absolute": 0.5}}, recommendations=advice)
        with pytest.warns(RuntimeWarning, match=r"^no bound is recommended"):
            with_all = encoding(ds, codec=h5lossy.Interp(absolute=0.25), recommendations=advice)
        assert with_all["olr"]["compression"] == h5lossy.Interp(absolute=0.25)
        assert with_all["z"]["compression"] == h5lossy.Interp(absolute=5.0)
        assert with_all["lsm"]["compression"] == h5lossy.PFPL(lossless=True)
        said = recommended(ds, advice)
        bounds = {name: one["compression"].bound for name, one in chosen.items()}
        assert {*bounds} == {name for name, *_, wanted in VARIABLES if wanted}
        assert str(bounds.pop("zs")) == "absolute 0.5"
        for name, bound in bounds.items():
            assert bound == said[name].bound
        assert str(said["z"]) == (
            "absolute 5.0, recommended for geopotential of pressure levels by own.yaml 1.2.3: "
            f"{MEAN} 5.0, {ABSOLUTE} 10.0"
        )
        assert str(said["other"]) == "none: it has no standard_name"


@pytest.mark.parametrize(
    "text",
    [
        "[",
        "a: 1",
        "recommendations: [1]",
        "recommendations: [{}]",
        *(
            f"recommendations: [{{filters: [{one}], requirements: [{other}]}}]"
            for one, other in [
                ("{value: x}", "{kind: lossless}"),
                ("{kind: tag}", "{kind: lossless}"),
                ("{kind: all, filters: [{}]}", "{kind: lossless}"),
                ("&a {kind: not, filter: *a}", "{kind: lossless}"),
                ("{kind: tag, value: x}", "{}"),
                ("{kind: tag, value: x}", "lossless"),
                ("{kind: tag, value: x}", "{kind: max-pointwise-absolute-error-bound}"),
                *(
                    (
                        "{kind: tag, value: x}",
                        f"{{kind: max-pointwise-absolute-error-bound, value: {value}}}",
                    )
                    for value in ("true", "-1", ".nan", f"1{'0' * 400}", "[1]", "x", "2020-01-01")
                ),
            ]
        ),
        "{recommendations: [], metadata: [1]}",
        "{recommendations: [], metadata: {units: 1}}",
        "{recommendations: [], metadata: {units: {air_temperature: 1}}}",
    ],
)
def test_other_files_are_refused(source: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    said = repack(source, tmp_path / "b", "--recommendations", tmp_path / "bad.yaml", status=2)
    assert "is no file of recommendations" in said


def test_the_file_of_the_package_is_read_where_it_is_installed(
    source: Path, tmp_path: Path
) -> None:
    there = importlib.util.find_spec("compression_recommendations") is not None
    target = tmp_path / "b.nc"
    said = repack(source, target, "--recommendations", "community", status=0 if there else 2)
    if not there:
        assert "are not installed" in said
        return
    with h5py.File(target) as file:
        info = h5lossy.describe(file["msl"])
    assert 0.0099 < info.bound.value <= 0.01
    assert "geopotential of single levels by compression-recommendations" in " ".join(said.split())


@pytest.mark.parametrize(
    ("one", "other", "ratio"),
    [
        ("m s**-1", "m/s", 1),
        ("kg m-2 s-1", "kg m**-2 s**-1", 1),
        ("mm/day", "m s-1", Fraction(1, 86_400_000)),
        ("m of water equivalent", "m", 1),
        ("degC", "K", 1),
        ("%", "1", Fraction(1, 100)),
        ("(0 - 1)", "1", 1),
        ("N m**-2 s", "Pa s", 1),
        ("millibars", "Pa", 100),
        ("W m-2", "J m-2", None),
        ("furlong", "m", None),
        ("furlong", "furlong", 1),
        ("m", "kg m-2", None),
    ],
)
def test_units_are_compared_by_meaning(one: str, other: str, ratio: Fraction | None) -> None:
    assert ratio_of(one, other) == ratio

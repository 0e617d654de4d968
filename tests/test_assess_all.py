# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""`assess_all` and thresholds: many variables, one verdict, and any number of a report."""

from __future__ import annotations

import datetime
import inspect
import json
import math
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import h5py
import numpy as np
import pytest

import h5lossy
from h5lossy import InvalidArgumentError, assess, assess_all
from h5lossy.assessment import parse_requirements
from h5lossy.assessment._options import AssessOptions
from h5lossy.assessment._rules import Rules
from h5lossy.assessment.requirements import measure_of
from hdf5_helpers import h5lossy_command

if TYPE_CHECKING:
    from pathlib import Path


def two() -> tuple[dict[str, Any], dict[str, Any]]:
    rng = np.random.default_rng(2)
    x = {name: rng.normal(size=(20, 30)).cumsum(axis=1) for name in ("good", "bad")}
    y = {"good": np.round(x["good"], 3), "bad": np.round(x["bad"], 1)}
    return x, y


def written(folder: Path, name: str, fields: dict[str, Any]) -> Path:
    folder.mkdir(exist_ok=True)
    with h5py.File(folder / name, "w") as file:
        for key, values in fields.items():
            file[f"g/{key}"] = values
        file["text"] = "no numbers"
    return folder / name


def test_a_mapping_has_one_verdict() -> None:
    x, y = two()
    found = assess_all(x, y, absolute=0.01)
    assert not found.ok
    assert found.worst_first == ["bad", "good"]
    assert [*found] == ["good", "bad"]
    assert found["bad"].error == assess(x["bad"], y["bad"]).error
    lines = found.to_text().splitlines()
    assert lines[1].split()[:2] == ["bad", "FAIL"]
    assert "of 600 points over" in lines[1]
    assert lines[2].split()[:2] == ["good", "PASS"]
    assert lines[-1] == "1 of 2 failed"
    assert repr(found) == "<h5lossy.Reports: 1 of 2 failed>"
    content = json.loads(found.to_json())
    assert (content["ok"], len(content["reports"]), content["failed"]) == (False, 2, [])
    assert "<td>bad</td>" in found._repr_html_()


@pytest.mark.parametrize("kind", ["files", "h5py", "folders"])
def test_files_and_folders(kind: str, tmp_path: Path) -> None:
    x, y = two()
    a = written(tmp_path / "x", "a.h5", x)
    b = written(tmp_path / "y", "a.h5", {**y, "more": np.ones(3)})
    prefix = "a.h5:" if kind == "folders" else ""
    with h5py.File(a) as file_x, h5py.File(b) as file_y:
        pairs = {"files": (a, b), "h5py": (file_x, file_y), "folders": (a.parent, b.parent)}
        found = assess_all(*pairs[kind], absolute=0.1)
    assert {*found} == {f"{prefix}/g/good", f"{prefix}/g/bad"}
    assert found.failed == {f"{prefix}/g/more": "the original has no such variable"}
    assert not found.ok
    assert "can't be compared" in found.to_text()
    only = assess_all(a.parent, b, variables="good", absolute=0.1)
    assert [*only] == ["/g/good"]
    assert only.ok


def test_a_file_that_cannot_be_read_does_not_stop_the_others(tmp_path: Path) -> None:
    x, y = two()
    written(tmp_path / "x", "a.h5", x)
    written(tmp_path / "y", "a.h5", y)
    written(tmp_path / "y", "b.h5", y)
    found = assess_all(tmp_path / "x", tmp_path / "y")
    assert len(found) == 2
    assert [*found.failed] == ["b.h5"]
    for arguments in ((tmp_path / "x/a.h5", tmp_path / "y"), (tmp_path / "no", tmp_path / "y")):
        with pytest.raises((InvalidArgumentError, FileNotFoundError)):
            assess_all(*arguments)


def test_datasets_of_xarray() -> None:
    xarray = pytest.importorskip("xarray")
    x, y = two()
    dims = ("lat", "lon")
    coords = {"lat": ("lat", np.linspace(-80, 80, 20), {"units": "degrees_north"})}
    a, b = (
        xarray.Dataset({name: (dims, values) for name, values in fields.items()}, coords=coords)
        for fields in (x, y)
    )
    found = assess_all(a, b, weights="latitude", rules={"b*": {"require": "weighted.rmse<=1e-6"}})
    assert (found["good"].ok, found["bad"].ok) == (True, False)
    assert found["good"].dims == dims


@pytest.mark.parametrize("kind", ["files", "xarray"])
def test_coordinates_have_to_be_unchanged(kind: str, tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    days = np.array(["2000-01-01", "2000-01-02", "2000-01-03"], "datetime64[ns]")
    pair = []
    for name, shift in (("x.nc", 0.0), ("y.nc", 0.5)):
        coords = {"t": days, "lat": np.arange(4.0), "lon": np.arange(5.0) + shift}
        field = (("t", "lat", "lon", "n"), np.arange(180.0).reshape(3, 4, 5, 3))
        pair.append(
            xarray.Dataset({"field": field, "lat_bnds": ("lat", np.ones(4))}, coords=coords)
        )
        pair[-1]["lat"].attrs["bounds"] = "lat_bnds"
        pair[-1].to_netcdf(tmp_path / name, engine="h5netcdf")
    if kind == "files":
        pair = [tmp_path / "x.nc", tmp_path / "y.nc"]
    root = "/" if kind == "files" else ""
    found = assess_all(*pair, absolute=1.0, require="rmse<=0")
    assert (found.ok, {*found}) == (False, {f"{root}field", f"{root}lon"})
    assert [f.check for f in found[f"{root}lon"].failures] == ["bound"]
    assert {*found.unchanged} == {f"{root}t", f"{root}lat", f"{root}lat_bnds"}
    assert f"unchanged coordinates: {root}" in found.to_text()
    assert found.to_dict()["unchanged"] == [*found.unchanged]
    named = assess_all(*pair, rules={"/lon": {"absolute": 0.5}})
    assert named.ok
    assert named[f"{root}lon"].bound.kind == "absolute"
    found.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    in_files = f"<p>{pair[1]} compared with {pair[0]}</p>"
    assert (in_files in page, "compared with" in page) == (kind == "files",) * 2
    assert "first finding" in found.to_text()
    assert "first finding" not in named.to_text()
    if kind == "files":
        said = h5lossy_command("assess", *pair, "--html", tmp_path / "page.html", status=1)
        page = (tmp_path / "page.html").read_text(encoding="utf-8")
        assert in_files in page
        assert "<summary>3 unchanged coordinates</summary><p>/lat_bnds, /t, /lat</p>" in page
        assert ">/field</a>" in page
        assert "unchanged coordinates: /lat_bnds, /t, /lat\n" in said.output


def test_colons_in_names_are_not_taken_for_files(tmp_path: Path) -> None:
    x = np.arange(2000.0).reshape(20, 100)
    arrays = {"T:mean": x, "T:max": x}
    assess_all(arrays, arrays).to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert ">T:mean</a>" in page
    assert "compared with" not in page
    for name in ("a.h5", "b.h5"):
        with h5py.File(tmp_path / name, "w") as file:
            file["p:a"] = file["p:b"] = x
    pair = tmp_path / "a.h5", tmp_path / "b.h5"
    assess_all(*pair).to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert ">/p:a</a>" in page
    assert f"<p>{pair[1]} compared with {pair[0]}</p>" in page


def test_names_that_are_shown_alike_have_pages_of_their_own(tmp_path: Path) -> None:
    x = np.arange(2000.0).reshape(20, 100)
    names = ["a\nb", r"a\nb"]  # a line feed, and what it is shown as
    for file, step in (("a.h5", 0.0), ("b.h5", 0.25)):
        with h5py.File(tmp_path / file, "w") as opened:
            for i, name in enumerate(names):
                opened[name] = x + step * (i + 1)
                opened[name].attrs["units"] = f"unit {i}"
    found = assess_all(tmp_path / "a.h5", tmp_path / "b.h5")
    assert len(found) == 2
    found.to_html(tmp_path / "run #1 50%.html")
    page = (tmp_path / "run #1 50%.html").read_text(encoding="utf-8")
    rows = re.findall(r'<a href="(.*?)">.*?unit (\d).*?<td>(.*?)</td>', page)
    assert len({link for link, _, _ in rows}) == 2
    for link, unit, error in rows:
        assert float(error) == 0.25 * (int(unit) + 1)
        path = unquote(urlsplit(link).path)
        of_variable = (tmp_path / path).read_text(encoding="utf-8")
        assert f"unit {unit}" in of_variable
        assert error in of_variable


#: What is wrong in rules, for all options but those named.
WRONG_IN_RULES: tuple[tuple[Any, set[str]], ...] = (
    (True, {"lossless", "skip"}),
    (datetime.date(2020, 1, 1), set()),
    ({"a": 1}, {"threshold_crossings", "metrics"}),
    ([[1]], set()),
    ([True, 1], set()),
    (math.nan, {"fill_value", "missing_value"}),
    (math.inf, {"fill_value", "missing_value"}),
    (-0.5, {"fill_value", "missing_value"}),
    (10**400, {"absolute", "range_relative", "modulus", "threads", "axes"}),
    ("Nonsense", {"axes"}),
)


@pytest.mark.parametrize("option", [*inspect.signature(AssessOptions).parameters, "skip"])
def test_wrong_values_in_rules_are_named(option: str) -> None:
    for value, allowed_in in WRONG_IN_RULES:
        if option not in allowed_in:
            with pytest.raises(InvalidArgumentError, match=r"^rules: rule for 'x': ") as raised:
                Rules({"x": {option: value}})
            said = str(raised.value)
            names = {"require": "threshold", "metrics": "metric", "ssim": "ssim"}
            assert names.get(option, option) in said
            parts = [value, *value] if isinstance(value, list) else [value]
            assert any(said.endswith((f"got {one!r}", f"got {one}")) for one in parts), said


def test_rules_say_what_each_variable_has_to_meet() -> None:
    x, y = two()
    rules: dict[str, dict[str, Any]] = {"*": {"absolute": 0.001}, "bad": {"range_relative": 0.5}}
    found = assess_all(x, y, rules=rules, absolute=1e-9)
    assert found.ok
    assert found["bad"].bound.kind == "range_relative"
    assert [*assess_all(x, y, rules={"bad": {"skip": True}})] == ["good"]
    for wrong, text in (
        ({"*": {"beauty": 1}}, "has beauty; there are skip, absolute"),
        ({"*": {"data-range": 1.0, "data_range": 2.0}}, "an option is given twice"),
        ({"*": 3}, "a rule for '\\*' is a dict of options, got 3"),
        ({"*": {"absolute": 1.0, "lossless": True}}, "one bound"),
        ({"nothing": {"absolute": 1.0}}, "name no variable here: nothing"),
    ):
        with pytest.raises(InvalidArgumentError, match=text):
            assess_all(x, y, rules=wrong)
    with pytest.raises(InvalidArgumentError, match="no variable to compare"):
        assess_all(x, y, variables="nothing")


@pytest.mark.parametrize(
    ("require", "ok"),
    [
        ("error.quantiles.p99<=0.1", True),
        ("p99<=0.001", False),
        ("laplacian_max_error<=10", True),
        ("derivatives.slopes.1.rmse<=1", True),
        ("derivatives.slopes.7.rmse<=1", False),  # there are two
        ("autocorrelation.0.values.0<=0.5", True),
        ("spectrum.ratio.0>=0.9", True),
        ("threshold_crossings.zero<=600", True),
        ("threshold_crossings.one<=600", False),
        ("over_threshold<=600", True),
        ("special.nan_kept<=0", True),
        ("error.min<=0.001", False),  # its size: the smallest error is -0.05
        ("error.min>=-0.06", True),
        ("original.max>=1", True),
        ("metrics.count<=600", True),
        ("per_slice.rmse.worst<=1", False),  # one slice
    ],
)
def test_thresholds_take_every_number_of_a_report(require: str, ok: bool) -> None:
    class Count:
        name = "count"
        halo = 0

        def __init__(self) -> None:
            self.points = 0

        def update(self, block: Any) -> None:
            self.points += block.valid[block.own].size

        def result(self) -> int:
            return self.points

    x, y = two()
    report = assess(
        x["bad"],
        y["bad"],
        metrics=["bound", Count()],
        threshold_crossings={"zero": 0.0},
        require=require,
    )
    assert report.ok == ok
    assert report.requirements == (require,)


def test_every_number_can_be_named() -> None:
    def paths(value: Any, path: str = "") -> set[str]:
        if isinstance(value, dict):
            return set().union(*(paths(v, f"{path}.{k}".lstrip(".")) for k, v in value.items()))
        if isinstance(value, list):
            return set().union(*(paths(v, f"{path}.{i}") for i, v in enumerate(value)))
        return {path} if isinstance(value, int | float) and not isinstance(value, bool) else set()

    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 2, 20, 24))
    report = assess(x, x + 0.01 * rng.normal(size=x.shape), metrics="full", weights=np.ones(24))
    found = paths(report.to_dict())
    assert len(found) > 200
    assert not {path for path in found if measure_of(path) is None}
    for path in found:
        measure = measure_of(path)
        assert measure.get(report) is not None


@pytest.mark.parametrize(
    "wrong", ["error", "error.beauty", "mean", "values", "spectrum.ratio", "#"]
)
def test_names_that_are_no_number_are_refused(wrong: str) -> None:
    with pytest.raises(InvalidArgumentError, match="any other number of a report"):
        parse_requirements(f"{wrong}>=1")
    with pytest.raises(InvalidArgumentError, match=r"did you mean error\.quantiles\.p99"):
        parse_requirements("error.quantile.p99>=1")


def test_reports_are_public() -> None:
    assert h5lossy.Reports.__module__ == h5lossy.assess_all.__module__ == "h5lossy"


@pytest.mark.parametrize("chunks", [None, (2, 3, 5)])
def test_the_divergence_of_winds_is_that_of_each_time(tmp_path: Path, chunks: Any) -> None:
    rng = np.random.default_rng(3)
    x = {name: rng.normal(size=(4, 12, 15)) for name in "vu"}
    y = {name: values + 0.1 * rng.normal(size=values.shape) for name, values in x.items()}

    def divergence(f: dict[str, Any]) -> Any:
        v, u = f["v"], f["u"]
        along_y = (v[:, 2:, 1:-1] - v[:, :-2, 1:-1]) / 4
        return along_y + (u[:, 1:-1, 2:] - u[:, 1:-1, :-2]) / 1

    for name, fields in (("x.h5", x), ("y.h5", y)):
        with h5py.File(tmp_path / name, "w") as file:
            for key, values in fields.items():
                file.create_dataset(key, data=values, chunks=chunks)
    pair = tmp_path / "x.h5", tmp_path / "y.h5"
    options: dict[str, Any] = {"axes": (1, 2), "spacing": (1.0, 2.0, 0.5)}
    found = assess_all(*pair, divergence=["v", "u"], **options)
    [one] = found.divergences.values()
    error = divergence(y) - divergence(x)
    assert one.points == error.size
    assert one.rmse == pytest.approx(np.sqrt((error**2).mean()), rel=1e-12)
    assert one.max_error == pytest.approx(np.abs(error).max(), rel=1e-12)
    assert one.rms == pytest.approx(np.sqrt((divergence(x) ** 2).mean()), rel=1e-12)
    assert one == h5lossy.assess_divergence([x["v"], x["u"]], [y["v"], y["u"]], **options)
    assert assess_all(x, y, divergence=["v", "u"], **options).divergences == {"v, u": one}
    assert f"RMSE {one.rmse:.6g}" in found.to_text()
    assert json.loads(found.to_json())["divergences"][0]["points"] == one.points
    with pytest.raises(InvalidArgumentError, match="not all components"):
        assess_all(*pair, divergence=["v", "w"])
    with pytest.raises(InvalidArgumentError, match="for axes"):
        assess_all(*pair, divergence=["v", "u"])
    words = ["--divergence", "v,u", "--axes", "1,2", "--spacing", "1,2,0.5"]
    out = h5lossy_command("assess", *pair, *words, status=None).output
    assert f"v, u: largest error {one.max_error:.6g}" in out


def test_a_notebook_shows_the_table() -> None:
    x, y = two()
    shown = assess(x["bad"], y["bad"], absolute=0.01)._repr_html_()
    assert "<b>FAIL</b>" in shown
    assert "<td>PSNR (range)</td>" in shown
    assert "<html" not in shown

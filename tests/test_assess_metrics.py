# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Metrics supplied by callers, our own that are computed in the same way, and the figure."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

import h5lossy
from h5lossy import InvalidArgumentError, Report, assess
from h5lossy.assessment import Block, Metric, metrics
from hdf5_helpers import run_python

if TYPE_CHECKING:
    from pathlib import Path


def noisy(shape: tuple[int, ...], *, size: float = 0.01) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=shape).cumsum(axis=-1).astype(np.float32)
    return x, (x + rng.uniform(-size, size, size=shape)).astype(np.float32)


class Curvature:
    """The largest error of the second difference along the first axis."""

    name = "curvature"
    halo = 1

    def __init__(self) -> None:
        self.largest = 0.0
        self.planes: list[int] = []

    def update(self, block: Block) -> None:
        e = np.where(block.valid, block.decoded - block.original, np.nan)
        first = block.own.start
        for plane in range(first, block.own.stop):
            self.planes.append(block.start + plane - first)
            if 0 < plane < len(e) - 1:
                bend = np.abs(e[plane - 1] - 2 * e[plane] + e[plane + 1])
                self.largest = max(self.largest, float(np.nanmax(bend, initial=0)))

    def result(self) -> Any:
        return {"largest": self.largest, "planes": len(self.planes)}


@pytest.mark.parametrize("values", [1 << 30, 1, 700])
def test_a_metric_of_the_callers_sees_every_plane_once(
    values: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(metrics, "_VALUES_OF_BLOCK", values)
    x, y = noisy((9, 1, 20, 30))
    x[3, 0, 4, 5] = np.nan
    with h5py.File(tmp_path / "a.h5", "w") as file:
        a = file.create_dataset("x", data=x, chunks=(4, 1, 7, 30))
        metric = Curvature()
        assert isinstance(metric, Metric)
        report = assess(a, y, metrics=["ssim", metric])
    e = y.astype(float) - x
    bend = np.abs(e[:-2] - 2 * e[1:-1] + e[2:])
    assert metric.planes == list(range(9))
    assert report.metrics == {"curvature": {"largest": np.nanmax(bend), "planes": 9}}
    assert report.ssim is not None
    assert Report.from_json(report.to_json()) == report
    assert "curvature" in report.to_text()
    assert "curvature" in report.to_markdown()
    assert "curvature" in report.to_html()


@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (5,)], ids=str)
def test_a_metric_sees_fields_of_any_shape(shape: tuple[int, ...]) -> None:
    x = np.ones(shape)
    found = assess(x, x + 1, metrics=[Curvature()]).metrics["curvature"]
    assert found["planes"] == (shape[0] if shape else 1)


def test_metrics_are_checked() -> None:
    x = np.arange(8.0)
    with pytest.raises(InvalidArgumentError, match="name, halo, update and result"):
        assess(x, x, metrics=[3])
    with pytest.raises(InvalidArgumentError, match="names of their own"):
        assess(x, x, metrics=[Curvature(), Curvature()])
    wide = Curvature()
    wide.halo = -1
    with pytest.raises(InvalidArgumentError, match="halo"):
        assess(x, x, metrics=[wide])


def test_progress_counts_metrics_too() -> None:
    x, y = noisy((30, 40))
    told: list[tuple[int, int]] = []
    assess(x, y, metrics=["climate", Curvature()], progress=lambda *done: told.append(done))
    assert told[-1][0] == told[-1][1]


def test_relative_errors_are_counted_in_octaves() -> None:
    x = np.array([1.0, 2.0, 4.0, 0.0, 8.0, np.nan, 1.0])
    y = np.array([1.5, 2.0, 4.5, 1.0, 7.5, np.nan, 1.5625])
    found = assess(x, y, metrics="full").relative_histogram
    assert (found.exact, found.first_octave) == (1, -4)
    # 0.5 and 0.5625 stand an eighth of an octave apart, the others at the beginning of theirs.
    assert [i for i, n in enumerate(found.counts) if n] == [0, 8, 24, 25]
    assert [i for i, n in enumerate(found.opposite) if n] == [0]
    assert assess(
        x, x, metrics=["pointwise"]
    ).relative_histogram == h5lossy.assessment.schema.RelativeHistogram(
        exact=5, first_octave=None, counts=()
    )


def test_the_threshold_of_relative_errors_is_the_callers() -> None:
    x = np.full(10, 2.0)
    y = x + np.arange(10) / 100
    assert assess(x, y, relative_threshold=0.0201).error.pointwise.over_threshold == 5
    assert assess(x, y).error.pointwise.over_threshold == 9
    with pytest.raises(InvalidArgumentError, match="relative_threshold"):
        assess(x, y, relative_threshold=0.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "shape", [(), (0, 3), (1,), (500,), (12, 14), (6, 20, 30), (2, 3, 14, 15), (2,) * 6], ids=str
)
def test_a_report_is_drawn(shape: tuple[int, ...], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    x, y = noisy(shape) if shape and 0 not in shape else (np.ones(shape), np.ones(shape))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        decoded = file.create_dataset(
            "y", data=y, chunks=None if 0 in shape else tuple(max(1, n // 2) for n in shape) or None
        )
        report = assess(x, decoded, absolute=0.02, metrics="full", slices=True)
    figure = report.plot()
    figure.savefig(tmp_path / "r.png", dpi=40)
    assert (tmp_path / "r.png").read_bytes()[:4] == b"\x89PNG"
    titles = {axes.get_title() for axes in figure.axes}
    assert "Errors" in titles
    assert f"<td>points</td><td>{report.points} of" in report.to_html()
    if len(shape) > 1 and 0 not in shape:
        assert {"original", "decoded", "error"} <= titles
        has_map = any(title.startswith("Chunks of ") for title in titles)
        assert has_map == (len(shape) <= 4)


def test_axes_have_the_unit_of_the_original(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        original = file.create_dataset("x", data=np.arange(300.0).reshape(15, 20))
        original.attrs["units"] = np.bytes_("m s$^{-1}")
        report = assess(original, original[()] + 0.5, slices=True)
    assert report.provenance.units == "m s$^{-1}"
    figure = report.plot()
    labels = {axes.get_xlabel() for axes in figure.axes} | {a.get_ylabel() for a in figure.axes}
    assert {"error (m s$^{-1})", "value (m s$^{-1})"} <= labels
    figure.savefig(tmp_path / "r.png", dpi=40)


@pytest.mark.parametrize("falling", [False, True])
@pytest.mark.parametrize(
    ("units", "up"), [("degrees_north", True), ("hPa", False), ("m", True)], ids=str
)
def test_maps_are_north_up_over_coordinates(
    units: str, up: bool, falling: bool, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    x = np.arange(20.0)[:, None] + np.zeros((1, 30))
    places = np.linspace(-47.5, 47.5, 20)[:: -1 if falling else 1]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        field = file.create_dataset("x", data=x[None], chunks=(1, 5, 10))
        for axis, (name, values, unit) in enumerate(
            [
                ("t", [1975.0], "a"),
                ("y", places, units),
                ("x0", np.arange(0.0, 90, 3), "degrees_east"),
            ]
        ):
            file[name] = values
            file[name].attrs.update({"units": unit, "long_name": f"long {name}"})
            file[name].make_scale(name)
            field.dims[axis].attach_scale(file[name])
        report = assess(field, field, axes=("y", "x0"), slices=True)
    assert report.coordinates[1].at(0) == f"y 0 ({places[0]:.6g} {units})"
    maps = [a for a in report.plot().axes if a.images]
    assert len(maps) == 4  # chunks, original, decoded and error
    for axes in maps:
        assert axes.get_xlabel() == "long x0 (degrees_east)"
        assert axes.get_ylabel() == f"long y ({units})"
        assert axes.get_ylim() == pytest.approx((-50, 50) if up else (50, -50))
        assert axes.get_aspect() == (1 if units.startswith("degrees") else "auto")
    drawn = maps[1].images[0]
    assert drawn.get_extent() == pytest.approx((-1.5, 88.5, -50, 50))
    rows = drawn.get_array()[:, 0]  # from the least coordinate on
    assert np.array_equal(rows, x[::-1, 0] if falling else x[:, 0])


@pytest.mark.parametrize(
    ("units", "calendar", "shown"),
    [
        ("days since 2011-5-16 00:00:00", "", "2011-06-16"),
        ("hours since 2000-02-28 12:30", "standard", "2000-02-29T19:30:00"),
        ("days since 1583-01-01", "noleap", "31 days since 1583-01-01"),
        ("days since 1582-10-14", "gregorian", "31 days since 1582-10-14"),
        ("days since 2011-02-30", "", "31 days since 2011-02-30"),
        ("months since 2011-02-01", "", "31 months since 2011-02-01"),
        ("seconds since 2011-02-01", "", "2011-02-01T00:00:31"),
    ],
)
def test_times_are_dates_in_the_common_calendar(
    units: str, calendar: str, shown: str, tmp_path: Path
) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        field = file.create_dataset("x", data=np.arange(10.0).reshape(2, 5))
        file["t"] = [31.0, 59.0]
        file["t"].attrs.update(
            {"units": units, "calendar": calendar} if calendar else {"units": units}
        )
        file["t"].make_scale("t")
        field.dims[0].attach_scale(file["t"])
        report = assess(field, field)
        file["t"][...] = [0.125, 0.25]
        early = assess(field, field).coordinates[0]
    assert report.coordinates[0].at(0) == f"t 0 ({shown})"
    assert (early.at(0) == f"t 0 (0.125 {units})") == (units[:7] == "seconds" or "since" in shown)


def test_without_matplotlib_there_are_tables(tmp_path: Path) -> None:
    (tmp_path / "matplotlib.py").write_text("raise ImportError('none here')")
    said = run_python(
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import h5lossy\n"
        "report = h5lossy.assess([1.0], [1.0])\n"
        "try:\n    report.plot()\n"
        "except ImportError as error:\n    print(error)\n"
        "print(report.to_html())",
    ).stdout
    assert said.count("pip install h5lossy[plot]") == 2
    assert "<td>points</td><td>1 of 1 valid</td>" in said


@pytest.mark.slow
def test_numbers_beyond_float64_are_undefined_everywhere() -> None:
    rng = np.random.default_rng(0)
    for scale in (1e300, 1e160, 1e-300):
        x = rng.normal(size=(5, 14, 16)) * scale
        report = assess(x, x * (1 + 1e-3), metrics="full", slices=True)
        assert Report.from_json(report.to_json()) == report
        json.loads(report.to_json(), parse_constant=pytest.fail)
        assert report.to_html()
    large = np.array([1.7e308, -1.7e308, 1e308])[:, None] * np.ones(3)
    found = h5lossy.assess_divergence([large, large], [-large, large])
    assert (found.points, found.rmse) == (1, None)
    assert math.isfinite(found.max)


@pytest.mark.parametrize("dtype", ["f4", "i2"])
def test_distances_of_distributions_are_those_of_scipy(dtype: str) -> None:
    stats = pytest.importorskip("scipy.stats", reason="SciPy is not installed")
    rng = np.random.default_rng(5)
    x = np.round(rng.normal(size=(40, 50)) * 100).astype(dtype)
    y = (np.round(x / 7) * 7).astype(dtype)
    mask = rng.random(x.shape) < 0.1
    report = h5lossy.assess(x, y, metrics="distribution", mask=mask)
    found = report.distribution
    a, b = x[~mask].astype(float), y[~mask].astype(float)
    assert found.ks_distance == pytest.approx(stats.ks_2samp(a, b).statistic, rel=1e-12)
    assert found.wasserstein == pytest.approx(stats.wasserstein_distance(a, b), rel=1e-12)
    for values, got in ((a, found.entropy_original), (b, found.entropy_decoded)):
        counts = np.unique(values, return_counts=True)[1]
        assert got == pytest.approx(stats.entropy(counts, base=2), rel=1e-12)
    assert "Wasserstein distance" in report.to_text()
    same = h5lossy.assess(x, x, metrics="distribution").distribution
    assert (same.ks_distance, same.wasserstein) == (0, 0)
    assert h5lossy.assess(x * 0, x * 0, metrics="distribution").distribution.entropy_original == 0


def test_distributions_that_memory_does_not_hold_have_the_reason() -> None:
    x = np.zeros(100_000)
    report = h5lossy.assess(x, x, metrics="distribution", memory_limit="1 MiB")
    assert report.distribution.ks_distance is None
    assert report.undefined["distribution"] == (
        "it needs 6.40 MB of memory, more than memory_limit"
    )

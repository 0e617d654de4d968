# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Reports as JSON, text, Markdown and HTML; the page is opened in a real browser."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import shutil
import subprocess
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import h5py
import numpy as np
import pytest

import h5lossy
from h5lossy import InvalidArgumentError, Report, assess
from h5lossy.assessment import SCHEMA, schema
from h5lossy.assessment.render.text import rows

if TYPE_CHECKING:
    from pathlib import Path

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


@pytest.fixture(scope="module")
def good() -> Report:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 40, 60)).cumsum(axis=2).astype(np.float32)
    y = (x + rng.uniform(-0.1, 0.1, x.shape)).astype(np.float32)
    return assess(
        x, y, absolute=0.125, metrics="full", slices=True, threshold_crossings={"zero": 0.0}
    )


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Report:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 40, 60)).cumsum(axis=2).astype(np.float32)
    y = (x + rng.uniform(-0.1, 0.1, x.shape)).astype(np.float32)
    y[3, 4, 5], y[7, 8, 9] = np.nan, 1000
    with h5py.File(tmp_path_factory.mktemp("bad") / "<b>&.h5", "w") as file:
        decoded = file.create_dataset("<i>&", data=y, chunks=(5, 10, 20))
        return assess(x, decoded, absolute=0.125, require="psnr>=90", slices=True)


@pytest.fixture(params=["good", "bad"])
def report(request: pytest.FixtureRequest) -> Report:
    found: Report = request.getfixturevalue(request.param)
    return found


def test_json_gives_the_report_back(report: Report) -> None:
    assert Report.from_json(report.to_json()) == report
    assert Report.from_json(report.to_json(indent=None)).to_json() == report.to_json()


def test_json_is_strict_and_names_its_schema(report: Report) -> None:
    plain = json.loads(report.to_json(), parse_constant=pytest.fail)
    assert plain["schema"] == SCHEMA
    assert plain["ok"] == report.ok


def test_infinities_are_text_in_json() -> None:
    same = assess([1.0, 2.0], [1.0, 2.0])
    assert json.loads(same.to_json())["error"]["psnr"] == "inf"
    assert Report.from_json(same.to_json()).error.psnr == math.inf


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": "h5lossy.report/0"}', "null"])
def test_what_is_no_report_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="report"):
        Report.from_json(text)


def test_half_a_report_is_refused(good: Report) -> None:
    plain = good.to_dict()
    del plain["error"]
    with pytest.raises(InvalidArgumentError, match="not a whole report"):
        Report.from_json(json.dumps(plain))


def test_the_text_says_what_matters(good: Report, bad: Report) -> None:
    text = good.to_text()
    assert "PASS" in text.splitlines()[0]
    assert re.search(rf"PSNR \(range\) +{good.error.psnr:.2f} dB", text)
    assert re.search(rf"points over the bound +0 of {good.valid}\n", text)
    assert f" {good.error.max_abs:.9g}\n" in text, "enough digits to compare with the bound"
    assert f"mean absolute error (MAE)  {good.error.mean_abs:.9g}" in re.sub(" {3,}", "  ", text)
    assert text.isascii(), "standard output may have no other characters"
    text = bad.to_text()
    assert "FAIL" in text.splitlines()[0]
    assert "nan introduced: wanted 0, got 1, first at (3, 4, 5)" in text
    assert "at (7, 8, 9), chunk (1, 0, 0): original" in text
    assert "psnr: wanted >= 90" in text


def test_what_the_histogram_leaves_out_is_told() -> None:
    x = np.linspace(1, 2, 400)
    y = x + 0.1
    y[:30] += 5
    report = assess(x, y, absolute=0.2)
    for text in (report.to_text(), report.to_markdown()):
        assert re.search(r"beyond the histogram[ |]+30 points", text)
    assert "<td>beyond the histogram</td><td>30 points</td>" in report.to_html()


def test_every_row_of_the_schema_is_in_the_table(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 20, 24))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        decoded = file.create_dataset("y", data=x + rng.uniform(-0.1, 0.1, x.shape))
        report = assess(x, decoded, axes=(1, 2), metrics="full", weights=np.ones(x.shape))
    parts = filter(dataclasses.is_dataclass, vars(schema).values())
    shown = [f.metadata.get("shown") for part in parts for f in dataclasses.fields(part)]
    names = {one.name for one in shown if one is not None and not one.is_optional}
    assert len(names) > 25
    assert names <= {row.name for row in rows(report)}


def test_the_shape_stands_as_python_writes_it() -> None:
    assert "float64 (3,)  measured" in assess(np.arange(3.0), np.arange(3.0)).to_text()


def test_markdown_is_a_table(report: Report) -> None:
    text = report.to_markdown()
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) > 15
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 4 for row in rows)
    assert "\n\n\n" not in text


class _Page(HTMLParser):
    _VOID = frozenset({"meta"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in self._VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag != "script"
        self.addresses += [v or "" for k, v in attrs if k in {"src", "href", "xlink:href"}]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.slow
def test_the_page_is_whole_and_fetches_nothing(report: Report) -> None:
    page = _Page()
    html = report.to_html()
    page.feed(html)
    page.close()
    assert page.open == []
    assert page.addresses
    assert all(address.startswith(("#", "data:image/png;base64,")) for address in page.addresses)
    names = r'xmlns(?::\w+)?="[^"]*"'
    assert not re.search(r"https?://|url\((?!#)|@import", re.sub(names, "", html))
    assert len(html) < 2_000_000


@pytest.mark.slow
def test_names_do_no_harm_to_the_page(bad: Report) -> None:
    html = bad.to_html()
    assert "<i>" not in html
    assert "&lt;i&gt;&amp;" in html


@pytest.mark.slow
def test_the_page_is_written_and_the_same_every_time(good: Report, tmp_path: Path) -> None:
    good.to_html(tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text(encoding="utf-8") == good.to_html()
    assert f"h5lossy {h5lossy.__version__}" in (tmp_path / "r.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
def test_a_browser_shows_the_page(report: Report, tmp_path: Path) -> None:
    assert CHROMIUM is not None
    image = pytest.importorskip("matplotlib.image")
    page, picture = tmp_path / "r.html", tmp_path / "r.png"
    report.to_html(page)
    run = subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--force-device-scale-factor=1",
            f"--user-data-dir={tmp_path / 'profile'}",
            "--enable-logging=stderr",
            "--window-size=1100,900",
            f"--screenshot={picture}",
            page.as_uri(),
        ],
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert picture.is_file(), run.stderr.decode(errors="replace")
    assert b"CONSOLE" not in run.stderr  # no complaint of the page
    shown = np.rint(255 * image.imread(picture)[..., :3]).astype(np.uint8)
    assert shown.shape[:2] == (900, 1100)
    # The verdict stands at the top, in green or red; there are bars, and images in many colours.
    top = shown[:110, 700:].reshape(-1, 3)
    wanted = (10, 125, 79) if report.ok else (192, 49, 43)
    assert (top == wanted).all(axis=1).sum() > 500
    assert len(np.unique(shown.reshape(-1, 3), axis=0)) > 200


@pytest.mark.parametrize(
    ("bound", "offset"), [(0.25, 1.0), (0.3, 1.0), (0.25, 0.01), (0.01, 1.0)], ids=str
)
def test_every_bound_is_marked_in_a_histogram(bound: float, offset: float) -> None:
    x = np.linspace(1, 2, 500)
    y = x * (1 + bound * offset * np.cos(np.arange(500)))
    for kind, title, count in (
        ("absolute", "Errors", 2),
        ("range_relative", "Errors", 2),
        ("pointwise_relative", "Errors relative to the value", 1),
    ):
        figure = assess(x, y, slices=True, **{kind: bound}).plot()
        [axes] = [axes for axes in figure.axes if axes.get_title() == title]
        marks = [line.get_xdata()[0] for line in axes.lines]
        expected = math.log10(bound) if kind == "pointwise_relative" else bound
        assert [mark if count == 1 else abs(mark) for mark in marks] == pytest.approx(
            count * [expected]
        )
        low, high = axes.get_xlim()
        assert all(low < mark < high for mark in marks)


def test_lines_break_where_points_are_not_valid() -> None:
    x = np.sin(np.arange(300.0))
    x[50:60], x[100], x[102] = np.nan, np.nan, np.nan
    figure = assess(x, x + 0.25 * np.cos(x), absolute=0.25, slices=True).plot()
    lines = {line.get_label(): line for axes in figure.axes for line in axes.lines}
    for name in ("original", "decoded", "error"):
        np.testing.assert_array_equal(np.isnan(lines[name].get_ydata()), np.isnan(x))

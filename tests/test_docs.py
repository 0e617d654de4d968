# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""What pages of the documentation show works, and the tests that they name exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import h5lossy

TESTS = Path(__file__).parent
ROOT = TESTS.parent
PAGES = ROOT / "docs"


def test_the_tutorial_can_be_pasted_block_by_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert len(blocks) == text.count("```python") >= 8
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "tutorial.md", "exec"), names)
    said = capsys.readouterr().out.split("\n")
    assert float(said[0]) <= 1e-3
    assert any(line.startswith("PFPL(absolute=") for line in said)
    assert names["mask"].sum() == 64 * 50 * 256


def test_codecs_that_pages_show_can_be_made() -> None:
    shown = [
        (page.name, expression)
        for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
        for expression in re.findall(
            r"h5lossy\.((?:PFPL|CuSZp2|AATROX|Interp|Auto)\([^()]*\))",
            page.read_text(encoding="utf-8"),
        )
        if "..." not in expression and "…" not in expression
    ]
    assert len(shown) > 30
    for page, expression in shown:
        codec = eval(expression, {name: getattr(h5lossy, name) for name in h5lossy.__all__})
        assert isinstance(codec, h5lossy.Codec), (page, expression)


@pytest.mark.parametrize("page", ["design/ecosystem.md", "design/reliability.md", "readers.md"])
def test_tests_that_a_page_names_exist(page: str) -> None:
    text = (PAGES / page).read_text(encoding="utf-8")
    named = re.findall(r"`((?:gpu/|native/|js/test/)?[\w.]+\.(?:py|cpp|c|js))(?:::(\w+))?`", text)
    assert len(named) >= 20
    missing = [
        f"{file}::{test}"
        for file, test in named
        if not ((ROOT if file.startswith("js/") else TESTS) / file).is_file()
        or (test and f"\ndef {test}(" not in (TESTS / file).read_text(encoding="utf-8"))
    ]
    assert not missing


def test_the_documentation_shows_the_comments_of_fields() -> None:
    griffe = pytest.importorskip("griffe", reason="griffe, which reads the source, is not there")
    extensions = griffe.load_extensions("dataclasses", str(ROOT / "docs" / "griffe_extension.py"))
    package = griffe.GriffeLoader(search_paths=[ROOT], extensions=extensions).load("h5lossy")
    schema = package["assessment.schema"]
    for field, text in (
        ("Errors.mse", "Mean of the squares, in the unit's square."),  # behind the field
        ("Errors.psnr", "20 log10(range of the original / RMSE), in dB."),  # of its row
        (
            "Climate.dssim_min_at",
            "The worst slice, by its place along the other axes longer than 1.",
        ),
        ("Special.missing_introduced", "From `missing_kept` on: points that hold a missing value"),
    ):
        assert schema[field].docstring.value.startswith(text)
    assert schema["Values.min"].docstring is None

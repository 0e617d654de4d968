# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The tests that pages of the documentation name exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PAGES = TESTS.parent / "docs" / "design"


@pytest.mark.parametrize("page", ["ecosystem.md", "reliability.md"])
def test_tests_that_a_page_names_exist(page: str) -> None:
    text = (PAGES / page).read_text(encoding="utf-8")
    named = re.findall(r"`((?:gpu/|native/)?\w+\.(?:py|cpp))(?:::(\w+))?`", text)
    assert len(named) >= 20
    missing = [
        f"{file}::{test}"
        for file, test in named
        if not (TESTS / file).is_file()
        or (test and f"\ndef {test}(" not in (TESTS / file).read_text(encoding="utf-8"))
    ]
    assert not missing

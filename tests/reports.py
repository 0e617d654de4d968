# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Compares reports of `h5lossy.assess` number by number."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h5lossy import Report

#: What may differ if the same values are read from another source.
SOURCE = re.compile(r"dims|provenance|per_chunk|size|bound|undefined\.(size|per_chunk)")


def numbers_of(report: Report, leave_out: re.Pattern[str] = SOURCE) -> dict[str, Any]:
    """Return all contents of a report by path, except paths that begin with a pattern."""

    def walk(value: Any, path: str) -> Iterator[tuple[str, Any]]:
        if leave_out.match(path):
            return
        if isinstance(value, dict | list):
            for key, item in value.items() if isinstance(value, dict) else enumerate(value):
                yield from walk(item, f"{path}.{key}" if path else str(key))
        else:
            yield path, value

    return dict(walk(report.to_dict(), ""))


def assert_same(
    mine: Report, theirs: Report, leave_out: re.Pattern[str] = SOURCE, near: float = 1e-14
) -> None:
    """Compare two reports: sums, whose order may differ, to 11 digits, everything else exactly."""
    found, wanted = numbers_of(mine, leave_out), numbers_of(theirs, leave_out)
    assert found.keys() == wanted.keys()
    for path, want in wanted.items():
        if isinstance(want, float) and math.isfinite(want):
            close = 1e-11 if path.startswith("autocorrelation") else near
            assert found[path] == pytest.approx(want, rel=1e-11, abs=close), path
        else:
            assert found[path] == want, path

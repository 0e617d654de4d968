# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Interp's frequencies, of 2048, as docs/format/interp.md has them."""

from __future__ import annotations

import re
from pathlib import Path

_PAGE = Path(__file__).parents[2] / "docs" / "format" / "interp.md"

_SETS = 8


def _read() -> tuple[tuple[tuple[int, ...], ...], ...]:
    """Read the tables of the page, in its order."""
    section = _PAGE.read_text(encoding="utf-8").partition("\n## Tables\n")[2]
    return tuple(
        tuple(tuple(map(int, line.split())) for line in table.splitlines())
        for table in re.findall(r"^```\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    )


SYMBOLS = _read()[:_SETS]
"""Of symbols 0 to 15, by set, in tables 0 to 4."""

CLASSES = _read()[_SETS:]
"""Of classes 0 to 15, by model and context; the last context is that of a lane's first block."""

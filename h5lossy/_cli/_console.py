# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""How the commands print: the same text on a terminal and, without colours, in a pipe."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table

from h5lossy._printable import one_line, printable, printable_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from h5lossy import ErrorSummary

__all__ = [
    "bytes_text",
    "error_text",
    "one_line",
    "print_table",
    "printable",
    "printable_lines",
    "ratio_text",
    "say",
    "shape_text",
    "stdout",
]

#: Columns of a line that is not for a terminal: more than any table has.
_WIDTH = 10_000


def stdout() -> Console:
    """Make a console for standard output as it is now: as wide as the terminal, if it is one."""
    width = None if sys.stdout.isatty() else _WIDTH
    return Console(width=width, markup=False, highlight=False, emoji=False)


def say(text: str) -> None:
    """Print lines of text on standard output, never wrapped."""
    stdout().print(printable_lines(text), soft_wrap=True)


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, optional: Sequence[str] = ()
) -> None:
    """Print a table; columns whose cells begin with a digit, or are empty, are set flush right.

    Where a terminal is too narrow, `optional` columns are left out, the first ones first, and then
    cells are folded. Nothing is cut.
    """
    console = stdout()
    widest = [max((row[i] for row in rows), key=len, default="") for i in range(len(columns))]

    def fits(left_out: Sequence[str]) -> bool:
        table = _table(columns, [widest], left_out)
        return Console(width=_WIDTH).measure(table).maximum <= console.width

    left_out: list[str] = []
    for heading in optional:
        if not fits(left_out):
            left_out.append(heading)
    for heading in left_out[::-1]:  # what was left out before a wider one may have room after all
        others = [one for one in left_out if one != heading]
        if fits(others):
            left_out = others
    console.print(_table(columns, rows, left_out))
    if left_out:
        console.print(
            f"Left out: {', '.join(left_out)}. A wider terminal has room for more; a pipe has all."
        )


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], left_out: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    shown = [i for i, heading in enumerate(columns) if heading not in left_out]
    for i in shown:
        numeric = all(row[i][:1].isdigit() or row[i] in {"", "-"} for row in rows)
        table.add_column(columns[i], justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(printable(row[i]) for i in shown))
    return table


def shape_text(shape: tuple[int, ...] | None) -> str:
    """Write a shape as h5lossy reads it: ``100x200``."""
    return "x".join(map(str, shape)) if shape else "-"


def bytes_text(n: int) -> str:
    """Write a number of bytes for people, in powers of 1000.

    Examples
    --------
    >>> bytes_text(67108864)
    '67.1 MB'
    """
    if n < 1000:
        return f"{n} B"
    power = min((len(str(n)) - 1) // 3, 4)
    return f"{n / 1000**power:.1f} {' kMGT'[power]}B"


def ratio_text(raw_bytes: int, stored_bytes: int) -> str:
    """Write raw over stored bytes."""
    return f"{raw_bytes / stored_bytes:.2f}" if stored_bytes else "-"


def error_text(summary: ErrorSummary | None) -> str:
    """Write the largest error as a fraction of the bound; ``-`` where nothing was checked."""
    if summary is None:
        return "-"
    if summary.max_error == 0 and summary.holds:
        return "0 (exact)"
    if summary.holds:  # never rounded up to the bound itself
        return f"{math.floor(summary.fraction * 1e4) / 1e4:.4f}"
    return f"{summary.fraction:.4g}"

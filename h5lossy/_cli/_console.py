# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""How the commands print: the same text on a terminal and, without colours, in a pipe."""

from __future__ import annotations

import json
import math
import sys
from typing import TYPE_CHECKING, Any

import click
from rich import box
from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.table import Table

from h5lossy._names import path_text
from h5lossy._printable import printable, printable_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from h5lossy import ErrorSummary

#: Most names in a message or a note.
_MOST_NAMES = 4


def say(text: str) -> None:
    """Print lines of text on standard output, never wrapped."""
    click.echo(printable_lines(text))


def say_json(content: Any) -> None:
    """Print JSON on standard output; bytes are names that are not UTF-8."""
    json.dump(content, sys.stdout, indent=2, default=path_text)
    click.echo()


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, optional: Sequence[str] = ()
) -> None:
    """Print a table; a narrow terminal drops `optional` columns, the first ones first."""
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(columns, *rows, strict=True)]
    # Columns of numbers are right-aligned.
    justify: list[JustifyMethod] = [
        "right" if all(cell[:1].isdigit() or cell in {"", "-"} for cell in cells) else "left"
        for cells in zip(*rows, strict=True)
    ] or ["left"] * len(columns)
    if not sys.stdout.isatty():  # rich takes several milliseconds for a table
        lines = [
            "   ".join(map(_justified, line, widths, justify)).rstrip() for line in (columns, *rows)
        ]
        dash = "─" if (sys.stdout.encoding or "").lower().startswith("utf") else "-"
        rule = dash * (sum(widths) + 3 * len(widths) - 1)
        click.echo("\n".join(["", f"  {lines[0]}", f" {rule}", *(f"  {x}" for x in lines[1:]), ""]))
        return
    console = Console(markup=False, highlight=False, emoji=False)

    def width(left_out: Sequence[str]) -> int:
        shown = [w for w, name in zip(widths, columns, strict=True) if name not in left_out]
        return sum(shown) + 3 * len(shown) + 1

    left_out: list[str] = []
    for heading in optional:
        if width(left_out) > console.width:
            left_out.append(heading)
    for heading in left_out[::-1]:  # dropping a wider column may leave room for an earlier one
        others = [one for one in left_out if one != heading]
        if width(others) <= console.width:
            left_out = others
    shown = [i for i, heading in enumerate(columns) if heading not in left_out]
    table = Table(box=box.SIMPLE_HEAD)
    for i in shown:
        table.add_column(columns[i], justify=justify[i], overflow="fold")
    for row in rows:
        table.add_row(*(row[i] for i in shown))
    console.print(table)
    if left_out:
        console.print(
            f"Left out: {', '.join(left_out)}. A wider terminal has room for more; a pipe has all."
        )


def _justified(text: str, width: int, how: str) -> str:
    space = " " * (width - cell_len(text))
    return space + text if how == "right" else text + space


def some_names(names: Sequence[str]) -> str:
    """List the first of some names."""
    shown = ", ".join(map(printable, names[:_MOST_NAMES]))
    return f"{shown}, ..." if len(names) > _MOST_NAMES else shown


def shape_text(shape: tuple[int, ...] | None) -> str:
    """Write a shape as h5lossy reads it: ``100x200``."""
    return "x".join(map(str, shape)) if shape else "-"


def ratio_text(raw_bytes: int, stored_bytes: int) -> str:
    """Return the ratio of raw to stored bytes as text."""
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

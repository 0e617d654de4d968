# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""One progress bar, counted in bytes, on standard error; shown only where that is a terminal."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from h5lossy.cli._console import printable
from h5lossy.cli._interrupts import raise_if_interrupted

if TYPE_CHECKING:
    from collections.abc import Iterator


class Advance(Protocol):
    """What `progress_bar` gives: a function to call after each piece of work."""

    def __call__(
        self, done_bytes: int, doing: str | None = None, total_bytes: int | None = None
    ) -> None:
        """Count `done_bytes` more, and say what is being done. Ends `interruptible` work."""


@contextmanager
def progress_bar(total_bytes: int | None) -> Iterator[Advance]:
    """Show a progress bar while the block runs.

    Parameters
    ----------
    total_bytes : int or None
        What the calls of the yielded function add up to, if that is known before one of them says
        so.

    Yields
    ------
    Advance
    """
    console = Console(stderr=True, markup=False, highlight=False, emoji=False)
    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    ) as progress:
        task = progress.add_task("", total=total_bytes)

        def advance(
            done_bytes: int, doing: str | None = None, total_bytes: int | None = None
        ) -> None:
            raise_if_interrupted()
            text = None if doing is None else printable(doing)
            progress.update(task, advance=done_bytes, description=text, total=total_bytes)

        yield advance

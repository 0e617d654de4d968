# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The progress of a call: the ``progress`` argument, and the bar on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from h5lossy._errors import InvalidArgumentError

#: Takes the number of bytes done, and the total.
Report: TypeAlias = Callable[[int, int], object]

#: What a caller may give: a function, True for a bar, False for nothing.
Progress: TypeAlias = Report | bool


@contextmanager
def reporting(progress: Progress | None, what: str) -> Iterator[Report]:
    """Yield the function to report to: the caller's, that of a bar labelled `what`, or a no-op."""
    if callable(progress):
        yield progress
    elif not isinstance(progress, bool | None):
        raise InvalidArgumentError(
            f"progress must be a function of two numbers, True or False, got {progress!r}"
        )
    elif not progress:
        yield lambda _done, _total: None
    else:
        with bar() as shown:
            task = shown.add_task(what, total=None)
            yield lambda done, total: shown.update(task, completed=done, total=total)


def bar(*, only_on_terminal: bool = False) -> Any:
    """Return a `rich.progress.Progress` on standard error that counts bytes."""
    # Few programs show a bar, and this import takes longer than all others together.
    from rich import progress as bars  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Column  # noqa: PLC0415

    console = Console(stderr=True, markup=False, highlight=False, emoji=False)
    numbers = (bars.DownloadColumn, bars.TransferSpeedColumn, bars.TimeRemainingColumn)
    return bars.Progress(
        bars.TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True)),
        bars.BarColumn(bar_width=console.width // 5),
        *(column(table_column=Column(no_wrap=True)) for column in numbers),
        console=console,
        disable=only_on_terminal and not console.is_terminal,
        transient=only_on_terminal,
    )

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""How `h5lossy.write` and `h5lossy.read` say how far they are."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from h5lossy.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Takes the bytes that are done, and all there are.
Report: TypeAlias = Callable[[int, int], None]


@contextmanager
def reporting(progress: Any, what: str) -> Iterator[Report]:
    """Give the function to report to: the caller's own, that of a bar, or one that does nothing.

    Parameters
    ----------
    progress : function or bool, optional
        True shows a bar on standard error while the block runs.
    what : str
        Stands in front of the bar.

    Yields
    ------
    Report
    """
    if callable(progress):
        yield progress
    elif not isinstance(progress, bool | None):
        raise InvalidArgumentError(
            f"progress must be a function of two numbers, True, False or None, got {progress!r}"
        )
    elif not progress:
        yield lambda _done, _total: None
    else:
        # Few programs want a bar, and the import takes longer than all others.
        from rich import progress as bars  # noqa: PLC0415
        from rich.console import Console  # noqa: PLC0415

        columns = (
            bars.TextColumn("{task.description}", markup=False),
            bars.BarColumn(),
            bars.DownloadColumn(),
            bars.TransferSpeedColumn(),
            bars.TimeRemainingColumn(),
        )
        with bars.Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task(what, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)

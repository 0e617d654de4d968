# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The progress bar of the commands, which also ends `interruptible` work."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from h5lossy._cli._interrupts import raise_if_interrupted
from h5lossy._printable import printable
from h5lossy._progress import bar

if TYPE_CHECKING:
    from collections.abc import Iterator


#: Width of "1000.0/1000.0 MB 1000.0 MB/s 0:00:00", and the spaces between and before these.
_NUMBERS_WIDTH = 16 + 11 + 7 + 4


def shortened(text: str, width: int) -> str:
    """Shorten a verb and a name, of which the end matters, to the room left in a terminal's line.

    Examples
    --------
    >>> shortened("compressing /a/group/surface_temperature", 80)
    'compressing …e_temperature'
    """
    room = max(width - width // 5 - _NUMBERS_WIDTH, 16)
    if len(text) <= room:
        return text
    verb, _, name = text.partition(" ")
    return f"{verb} …{name[-max(room - len(verb) - 2, 1) :]}"


class Advance(Protocol):
    """The function that `progress_bar` yields, to be called after each step of the work."""

    def __call__(
        self, done_bytes: int, doing: str | None = None, total_bytes: int | None = None
    ) -> None:
        """Count `done_bytes` more, and show the current step. Ends `interruptible` work."""


@contextmanager
def progress_bar(total_bytes: int | None) -> Iterator[Advance]:
    """Show a progress bar on a terminal; None if a call of the yielded function gives the total."""
    with bar(only_on_terminal=True) as shown:
        task = shown.add_task("", total=total_bytes)

        def advance(
            done_bytes: int, doing: str | None = None, total_bytes: int | None = None
        ) -> None:
            raise_if_interrupted()
            text = None if doing is None else shortened(printable(doing), shown.console.width)
            shown.update(task, advance=done_bytes, description=text, total=total_bytes)

        yield advance

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Names of objects in HDF5 files, messages with names, and sizes, as text for a terminal.

The command line needs it before any command is loaded, so it imports no HDF5.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def printable(name: str | bytes) -> str:
    r"""Escape what a terminal would obey in a name, and bytes that are not UTF-8.

    >>> printable("/a\x1b[31m")
    '/a\\x1b[31m'
    """
    text = name.decode(errors="surrogateescape") if isinstance(name, bytes) else name
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


def printable_lines(text: str) -> str:
    """Escape lines of text for a terminal (`printable`)."""
    return "\n".join(map(printable, text.split("\n")))


def one_line(error: BaseException) -> str:
    """Return the message of an exception as one line."""
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return " ".join(text.split()) or type(error).__name__


def bytes_text(n: int, digits: int = 1) -> str:
    """Write a number of bytes for people, in powers of 1000.

    >>> bytes_text(67108864)
    '67.1 MB'
    """
    if n < 1000:
        return f"{n} B"
    power = min((len(str(n)) - 1) // 3, 4)
    return f"{n / 1000**power:.{digits}f} {' kMGT'[power]}B"


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name the file in an error of the block that names none, as where the disk is full."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise

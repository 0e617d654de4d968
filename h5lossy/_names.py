# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Names of objects in HDF5 files, and messages with such names, as text for a terminal.

A name is bytes without NUL and "/", most often UTF-8. Here names are text; bytes that are not UTF-8
stand in it as lone surrogates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import h5py


def path_text(path: bytes) -> str:
    """Return a path as text."""
    return path.decode(errors="surrogateescape")


def path_bytes(path: str) -> bytes:
    """Return a path as the file has it, for h5py, which refuses lone surrogates."""
    return path.encode(errors="surrogateescape")


def name_of(obj: h5py.Dataset | h5py.Group) -> str:
    """Return the path of an object as text; h5py's `name` is bytes if it is not UTF-8."""
    name = obj.name
    return path_text(name) if isinstance(name, bytes) else str(name)


def printable(name: str | bytes) -> str:
    r"""Escape what a terminal would obey in a name, and bytes that are not UTF-8.

    Examples
    --------
    >>> printable("/a\x1b[31m")
    '/a\\x1b[31m'
    """
    text = path_text(name) if isinstance(name, bytes) else name
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

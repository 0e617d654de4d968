# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Names and messages that may hold anything, as text for a terminal."""

from __future__ import annotations


def printable(name: str | bytes) -> str:
    r"""Escape a name from a file for a terminal.

    Parameters
    ----------
    name : str or bytes
        May hold control characters, or bytes that are not UTF-8 (in a str, as lone surrogates).

    Returns
    -------
    str
        The name, with unprintable characters as escapes such as ``\x1b``.

    Examples
    --------
    >>> printable("/a\x1b[31m")
    '/a\\x1b[31m'
    """
    text = name.decode(errors="surrogateescape") if isinstance(name, bytes) else name
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

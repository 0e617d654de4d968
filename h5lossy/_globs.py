# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Globs that name datasets by their paths."""

from __future__ import annotations

import functools
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


def matches(path: str, pattern: str) -> bool:
    """Return whether a pattern names a dataset.

    Examples
    --------
    >>> matches("/ocean/salt", "s*"), matches("/ocean/salt", "/s*"), matches("/ocean/salt", "/**")
    (True, False, True)
    """
    if _is_path(pattern):
        return path == pattern
    wanted = pattern.split("/")[1:] if pattern.startswith("/") else ["**", *pattern.split("/")]
    return _names_match(path.split("/")[1:], wanted)


def names_one(paths: Iterable[str], pattern: str) -> bool:
    """Return whether a pattern names a dataset by one of its paths."""
    return any(matches(path, pattern) for path in paths)


def matching(paths: Collection[str], pattern: str) -> list[str]:
    """Return the paths that a pattern names."""
    if _is_path(pattern):
        return [pattern] if pattern in paths else []
    return [path for path in paths if matches(path, pattern)]


@functools.cache  # a file of `tune --all` has as many of these as there are datasets
def _is_path(pattern: str) -> bool:
    """Return whether a pattern is the whole path of one dataset."""
    return pattern.startswith("/") and not has_wildcards(pattern)


def has_wildcards(pattern: str) -> bool:
    """Return whether a pattern may name more than one dataset of a group."""
    return bool(set("*?[") & set(pattern))


def _names_match(names: list[str], wanted: list[str]) -> bool:
    """Match from the left; where it fails, let the last ``**`` take one name more."""
    at = taken = 0
    stars = None
    while at < len(names):
        if taken < len(wanted) and wanted[taken] == "**":
            stars = at, taken
            taken += 1
        elif taken < len(wanted) and fnmatchcase(names[at], wanted[taken]):
            at, taken = at + 1, taken + 1
        elif stars is not None:
            stars = stars[0] + 1, stars[1]
            at, taken = stars[0], stars[1] + 1
        else:
            return False
    return all(one == "**" for one in wanted[taken:])

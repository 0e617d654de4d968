# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""What ``assess`` and ``verify`` share: their exit codes, and which datasets they look at."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import click
import h5py

from h5lossy import H5LossyError, NotComparableError
from h5lossy.cli._patterns import matches, require_match

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: A check failed; a check could not be made; the fields can't be compared.
FAILED, NO_VERDICT, NOT_COMPARABLE = 1, 2, 3


@contextmanager
def no_verdict() -> Iterator[None]:
    """Turn what keeps a check from being made into its exit codes.

    Yields
    ------
    None
    """
    try:
        yield
    except NotComparableError as error:
        raise _Ended(str(error), NOT_COMPARABLE) from error
    except click.ClickException as error:
        raise _Ended(error.format_message(), NO_VERDICT) from error
    except (H5LossyError, OSError, MemoryError, RuntimeError, ValueError, KeyError) as error:
        raise _Ended(str(error), NO_VERDICT) from error


class _Ended(click.ClickException):
    """Ends the command with an exit code of its own."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(" ".join(text.split()))
        self._code = code

    @property
    def exit_code(self) -> int:  # type: ignore[override]
        """What click ends the process with."""
        return self._code


def datasets_in(file: h5py.File, patterns: Sequence[str]) -> dict[str, h5py.Dataset]:
    """Return the datasets of a file that globs name; all where there are none.

    Parameters
    ----------
    file : h5py.File
    patterns : sequence of str

    Returns
    -------
    dict
        By their paths, in the order of the file.

    Raises
    ------
    click.ClickException
        If a glob names nothing.
    """
    found: dict[str, h5py.Dataset] = {}

    def take(name: str, obj: object) -> None:
        if isinstance(obj, h5py.Dataset):
            found[f"/{name}"] = obj

    file.visititems(take)
    for pattern in patterns:
        require_match("--dataset", pattern, found)
    if not patterns:
        return found
    return {
        name: dataset
        for name, dataset in found.items()
        if any(matches(name, pattern) for pattern in patterns)
    }


def split_place(text: str) -> tuple[str, str | None]:
    """Split ``file.h5:/path`` into both; without a path the second is None.

    Parameters
    ----------
    text : str

    Returns
    -------
    tuple

    Examples
    --------
    >>> split_place("a.h5:/ocean/salt"), split_place("a.h5")
    (('a.h5', '/ocean/salt'), ('a.h5', None))
    """
    file, separator, path = text.rpartition(":/")
    return (file, f"/{path}") if separator else (text, None)

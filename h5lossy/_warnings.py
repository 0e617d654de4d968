# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Warnings that point to a line of the user's code."""

from __future__ import annotations

import sys
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Packages that may be on the call stack between h5lossy and the user's code.
_PASSED_OVER = {"contextlib", "h5lossy", "importlib", "xarray"}


def warn(message: str) -> None:
    """Warn at the innermost line outside of h5lossy and what calls it for the user."""
    frame, level = sys._getframe(1), 2  # noqa: SLF001  # the documented way to the caller
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in _PASSED_OVER:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, RuntimeWarning, stacklevel=level)


@contextmanager
def muted() -> Iterator[None]:
    """Show no warnings while the block runs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def raised(category: type[Warning]) -> Iterator[None]:
    """Raise warnings of this kind while the block runs."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", category)
        yield

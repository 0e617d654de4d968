# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""A file that appears under its name when it is complete, or not at all."""

from __future__ import annotations

import os
import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from h5lossy.cli._interrupts import interruptible, raise_if_interrupted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def complete_or_absent(path: Path, *, replace: bool) -> Iterator[Path]:
    """Give a temporary name beside `path`, and rename to `path` at the end of the block.

    Parameters
    ----------
    path : Path
        The final name.
    replace : bool
        Whether a file of that name may be replaced.

    Yields
    ------
    Path
        No file yet. Whatever is there when the block ends with an exception is deleted.

    Raises
    ------
    click.ClickException
        If the folder does not exist, or if there is a file at `path`, before the block or after it,
        and it may not be replaced.
    """
    if not path.parent.is_dir():
        raise click.ClickException(f"there is no folder {path.parent}")
    _require_absent(path, replace=replace)
    temporary = path.with_name(f".h5lossy-{secrets.token_hex(8)}.tmp")
    with interruptible():
        try:
            yield temporary
            _write_through(temporary, os.O_RDWR)
            _require_absent(path, replace=replace)
            raise_if_interrupted()
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    _write_through(path.parent, os.O_RDONLY)


def _require_absent(path: Path, *, replace: bool) -> None:
    if not replace and path.exists():
        raise click.ClickException(f"{path} exists; give another name, or --force to replace it")


def _write_through(path: Path, flags: int) -> None:
    """Have the system put a file, or the names in a folder, on the disk."""
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

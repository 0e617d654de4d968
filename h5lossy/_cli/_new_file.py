# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""A file that gets its name when it is complete, or does not appear at all."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from h5lossy._cli._interrupts import interruptible, raise_if_interrupted
from h5lossy._cli._system import PRIVATE, is_own, lock, take_after, write_through

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def complete_or_absent(path: Path, *, replace: bool, like: Path) -> Iterator[Path]:
    """Yield a temporary name, and rename to `path` at the end of the block.

    The temporary file is in a folder next to `path` that only this user can open. Folders left
    there by killed processes of this machine are deleted. A new file gets the owner, group and
    permissions of `like`; one that replaces another file gets those of that file.
    """
    if not path.parent.is_dir():
        raise click.ClickException(f"there is no folder {path.parent}")
    _require_replaceable(path, replace=replace)
    _delete_abandoned(path.parent)
    with interruptible(), _private_folder(path.parent) as folder:
        temporary = folder / _FILE
        yield temporary
        _require_replaceable(path, replace=replace)
        take_after(path if path.exists() else like, temporary)
        write_through(temporary)
        raise_if_interrupted()
        temporary.replace(path)
    with contextlib.suppress(OSError):  # not all file systems can, and the file is complete
        write_through(path.parent)


def _require_replaceable(path: Path, *, replace: bool) -> None:
    if not path.exists():
        return
    if not path.is_file():
        raise click.ClickException(
            f"{path} is not a regular file, so it is never replaced; give another name"
        )
    if not replace:
        raise click.ClickException(f"{path} exists; give another name, or --force to replace it")


# ------------------------------------------------------------------------------------------------
# The folder of the temporary file
# ------------------------------------------------------------------------------------------------

_FILE = "file"

#: The folder is in use as long as a process locks this file. The temporary file itself cannot be
#: used for that, since HDF5 locks it.
_LOCK = "lock"

#: Locks are only reliable on one machine, so its name is part of the folder's name.
_PREFIX = f".h5lossy-{re.sub('[^A-Za-z0-9.-]', '_', platform.node())}-"
_NAME = re.compile(re.escape(_PREFIX) + r"[0-9a-f]{16}\.tmp")


@contextmanager
def _private_folder(parent: Path) -> Iterator[Path]:
    folder, locked = _make_folder(parent)
    try:
        yield folder
    finally:
        _delete(folder, locked)


def _make_folder(parent: Path) -> tuple[Path, int | None]:
    """Return a new folder and its lock; None if the file system does not support locks."""
    while True:
        folder = parent / f"{_PREFIX}{secrets.token_hex(8)}.tmp"
        folder.mkdir(mode=PRIVATE)
        try:
            return folder, _lock(folder)
        except (FileNotFoundError, BlockingIOError):  # another process is deleting it
            continue
        except OSError:  # then no other process can lock and delete it either
            return folder, None


def _delete_abandoned(parent: Path) -> None:
    """Delete this user's folders that no process has locked."""
    for folder in parent.iterdir():
        if not _NAME.fullmatch(folder.name):
            continue
        with contextlib.suppress(OSError):  # it is in use, inaccessible or already deleted
            if is_own(folder) and not folder.is_symlink():
                _delete(folder, _lock(folder))


def _lock(folder: Path) -> int:
    """Lock a folder and return the file descriptor that holds the lock, or raise OSError."""
    # Windows has neither flag: only administrators can make links there, and Python does not pass
    # files to child processes.
    flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    fd = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | flags, 0o600)
    try:
        lock(fd)
        if not os.fstat(fd).st_nlink:  # deleted by the process that held the lock
            raise FileNotFoundError(folder)
    except OSError:
        os.close(fd)
        raise
    return fd


def _delete(folder: Path, locked: int | None) -> None:
    try:
        (folder / _FILE).unlink(missing_ok=True)
        with contextlib.suppress(PermissionError):  # Windows does not delete open files
            (folder / _LOCK).unlink(missing_ok=True)
    finally:
        if locked is not None:
            os.close(locked)  # on NFS, a folder with an open file cannot be removed
    with contextlib.suppress(OSError):  # another process considers it abandoned
        (folder / _LOCK).unlink(missing_ok=True)
        folder.rmdir()

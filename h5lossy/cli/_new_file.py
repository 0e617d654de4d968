# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""A file that appears under its name when it is complete, or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import re
import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from h5lossy.cli._interrupts import interruptible, raise_if_interrupted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import h5py

#: Where Linux keeps an access control list.
_ACCESS_LIST = "system.posix_acl_access"


@contextmanager
def complete_or_absent(path: Path, *, replace: bool, like: Path) -> Iterator[Path]:
    """Give a temporary name, and rename to `path` at the end of the block.

    The temporary file is in a folder beside `path` that nobody else can enter. Folders that killed
    processes of this machine have left there are deleted.

    Parameters
    ----------
    path : Path
        The final name.
    replace : bool
        Whether a file of that name may be replaced.
    like : Path
        The file that a new one has its owner, group and permissions from. One that replaces another
        has those of the other.

    Yields
    ------
    Path
        No file yet. Whatever is there when the block ends with an exception is deleted.

    Raises
    ------
    click.ClickException
        If the folder does not exist, or if there is something at `path`, before the block or after
        it, that may not be replaced.
    """
    if not path.parent.is_dir():
        raise click.ClickException(f"there is no folder {path.parent}")
    _require_replaceable(path, replace=replace)
    _delete_abandoned(path.parent)
    with interruptible(), _private_folder(path.parent) as folder:
        temporary = folder / _FILE
        yield temporary
        _require_replaceable(path, replace=replace)
        _take_after(path if path.exists() else like, temporary)
        _write_through(temporary, os.O_RDWR)
        raise_if_interrupted()
        temporary.replace(path)
    _write_through(path.parent, os.O_RDONLY)


@contextmanager
def discarded_on_failure(file: h5py.File) -> Iterator[h5py.File]:
    """Close an HDF5 file at the end of the block; where that fails, without the disk.

    A file that HDF5 cannot close, as on a full disk, crashes the process at its end. One that is
    not wanted any more may as well be written to memory.

    Parameters
    ----------
    file : h5py.File
        Open for writing.

    Yields
    ------
    h5py.File
        The file.
    """
    try:
        yield file
        file.flush()
    except BaseException:
        if file.driver == "sec2" and hasattr(os, "memfd_create"):
            memory = os.memfd_create("h5lossy")
            os.dup2(memory, file.id.get_vfd_handle(), inheritable=False)
            os.close(memory)
        raise
    finally:
        file.close()


def _require_replaceable(path: Path, *, replace: bool) -> None:
    if not path.exists():
        return
    if not path.is_file():
        raise click.ClickException(
            f"{path} is no regular file, and is never replaced; give another name"
        )
    if not replace:
        raise click.ClickException(f"{path} exists; give another name, or --force to replace it")


# ------------------------------------------------------------------------------------------------
# The folder that the temporary file is in
# ------------------------------------------------------------------------------------------------

_FILE = "file"

#: As long as a process holds the lock on this file, the folder is in use. The file itself cannot be
#: locked: HDF5 does.
_LOCK = "lock"

#: Locks are known on one machine for sure, so its name is a part of the folder's.
_PREFIX = f".h5lossy-{re.sub('[^A-Za-z0-9.-]', '_', platform.node())}-"
_NAME = re.compile(re.escape(_PREFIX) + r"[0-9a-f]{16}\.tmp")


@contextmanager
def _private_folder(parent: Path) -> Iterator[Path]:
    folder, lock = _make_folder(parent)
    try:
        yield folder
    finally:
        _delete(folder, lock)


def _make_folder(parent: Path) -> tuple[Path, int | None]:
    """Return a new folder and its lock, if there is such a thing on this file system."""
    while True:
        folder = parent / f"{_PREFIX}{secrets.token_hex(8)}.tmp"
        folder.mkdir(mode=0o700)
        try:
            return folder, _lock(folder)
        except (FileNotFoundError, BlockingIOError):  # a process found it before it was locked
            continue
        except OSError:  # then nobody else can lock it either, and delete it
            return folder, None


def _delete_abandoned(parent: Path) -> None:
    """Delete folders of our user that nobody holds."""
    for folder in parent.iterdir():
        if not _NAME.fullmatch(folder.name):
            continue
        with contextlib.suppress(OSError):  # it is in use, or somebody else's, or gone by now
            if folder.lstat().st_uid == os.geteuid() and not folder.is_symlink():
                _delete(folder, _lock(folder))


def _lock(folder: Path) -> int:
    """Lock a folder until what is returned is closed, or raise OSError."""
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.fstat(lock).st_nlink:  # who held it has deleted it
            raise FileNotFoundError(folder)
    except OSError:
        os.close(lock)
        raise
    return lock


def _delete(folder: Path, lock: int | None) -> None:
    try:
        for name in (_FILE, _LOCK):
            (folder / name).unlink(missing_ok=True)
    finally:
        if lock is not None:
            os.close(lock)  # on NFS, a file that is open keeps its folder
    with contextlib.suppress(OSError):  # a process took it for abandoned just now, and deletes it
        folder.rmdir()


# ------------------------------------------------------------------------------------------------
# What a file has beside its content
# ------------------------------------------------------------------------------------------------


def _take_after(model: Path, path: Path) -> None:
    """Give a file the owner, group and permissions of another one, or narrower permissions.

    As other programs that make one file of another do: who may not give a file to the group gives
    the group no more than all others have.
    """
    wanted = model.stat()
    with contextlib.suppress(OSError):
        os.chown(path, wanted.st_uid, -1)
    mode = wanted.st_mode & 0o777
    try:
        os.chown(path, -1, wanted.st_gid)
        _copy_access_list(model, path)
    except OSError:
        mode &= 0o707 | (mode & 0o007) << 3
    path.chmod(mode)


def _copy_access_list(model: Path, path: Path) -> None:
    """Copy what stands beside the permissions, where there is such a thing."""
    if not hasattr(os, "getxattr"):
        return
    try:
        content = os.getxattr(model, _ACCESS_LIST)
    except OSError:  # none, or the file system knows no such thing
        return
    os.setxattr(path, _ACCESS_LIST, content)


def _write_through(path: Path, flags: int) -> None:
    """Have the system put a file, or the names in a folder, on the disk."""
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

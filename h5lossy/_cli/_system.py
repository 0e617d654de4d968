# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Differences between operating systems for commands that replace and repair files."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

if TYPE_CHECKING:
    from pathlib import Path

#: For `os.open`: no conversion of line ends.
BINARY: int = getattr(os, "O_BINARY", 0)

#: For `os.mkdir`. On Windows, folders and files have the access list of the folder that they are
#: made in, and keep it when they are moved.
PRIVATE = 0o777 if sys.platform == "win32" else 0o700

#: The command that makes HDF5's programs find the plugin.
SET_PLUGIN_PATH = (
    "$env:HDF5_PLUGIN_PATH = h5lossy plugin-path"
    if sys.platform == "win32"
    else "export HDF5_PLUGIN_PATH=$(h5lossy plugin-path)"
)

#: The attribute in which Linux keeps an access control list.
_ACCESS_LIST = "system.posix_acl_access"

#: Windows lets nobody else read locked bytes, so the lock is beyond the end of any file.
_BEYOND = 1 << 62


def lock(fd: int) -> None:
    """Lock an open file; raise BlockingIOError if it is locked, or OSError if that is impossible.

    HDF5 locks files in the same way, but not on Windows.
    """
    if sys.platform == "win32":
        os.lseek(fd, _BEYOND, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except PermissionError as error:
            raise BlockingIOError(error.errno, error.strerror) from error
        finally:
            os.lseek(fd, 0, os.SEEK_SET)
    else:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_own(path: Path) -> bool:
    """Return whether this user made the file at a path; on Windows, access lists decide."""
    return sys.platform == "win32" or path.lstat().st_uid == os.geteuid()


def take_after(model: Path, path: Path) -> None:
    """Give a file the owner, group and permissions of another one, or narrower permissions."""
    wanted = model.stat()
    mode = wanted.st_mode & 0o777
    if sys.platform != "win32":
        with contextlib.suppress(OSError):
            os.chown(path, wanted.st_uid, -1)
        try:
            os.chown(path, -1, wanted.st_gid)
            _copy_access_list(model, path)
        except OSError:  # the group gets no more than all others have
            mode &= 0o707 | (mode & 0o007) << 3
    path.chmod(mode)


def _copy_access_list(model: Path, path: Path) -> None:
    """Copy the access control list, if there is one."""
    if sys.platform != "linux":
        return
    try:
        content = os.getxattr(model, _ACCESS_LIST)
    except OSError:  # none, or not supported by the file system
        return
    os.setxattr(path, _ACCESS_LIST, content)


def write_through(path: Path) -> None:
    """Flush a file, or the names in a folder, to the disk."""
    if sys.platform == "win32" and path.is_dir():  # cannot be opened; NTFS journals names
        return
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR | BINARY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

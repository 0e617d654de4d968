# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Names of HDF5 files in folders, and of objects in these files.

A name is bytes without NUL and "/", usually UTF-8. Here names are text; bytes that are not UTF-8
are represented by lone surrogates.
"""

from __future__ import annotations

from pathlib import Path

import h5py
from h5py import h5d, h5o

from h5lossy._errors import InvalidArgumentError


def path_text(path: bytes) -> str:
    """Return a path as text."""
    return path.decode(errors="surrogateescape")


def path_bytes(path: str) -> bytes:
    """Return a path as the bytes in the file."""
    return path.encode(errors="surrogateescape")


def dataset_at(file: h5py.File, path: str) -> h5py.Dataset | None:
    """Return a dataset of a file; None if there is none."""
    # h5py itself does not take a path with a group whose name is not UTF-8.
    try:
        found = h5o.open(file.id, path_bytes(path))
    except (KeyError, ValueError):
        return None
    return h5py.Dataset(found) if isinstance(found, h5d.DatasetID) else None


def hdf5_files_in(folder: Path) -> list[Path]:
    """Return the HDF5 files of a folder, and of the folders in it."""
    found = sorted(path for path in folder.rglob("*") if path.is_file() and h5py.is_hdf5(path))
    if not found:
        raise InvalidArgumentError(f"{folder} has no HDF5 file")
    return found


def paired_files(original: Path, decoded: Path) -> dict[Path, Path]:
    """Return the files to compare: the decoded ones, and the original of each by its name."""
    if not decoded.is_dir():
        return {decoded: original / decoded.name if original.is_dir() else original}
    if not original.is_dir():
        raise InvalidArgumentError(f"{decoded} is a folder, and {original} is none")
    return {path: original / path.relative_to(decoded) for path in hdf5_files_in(decoded)}


def split_place(text: str) -> tuple[str, str | None]:
    """Split ``file.h5:/path`` at the first place that follows a file's name; without a path: None.

    >>> split_place("a.h5:/ocean/salt"), split_place("a.h5")
    (('a.h5', '/ocean/salt'), ('a.h5', None))
    """
    parts = text.split(":/")
    ways = [(":/".join(parts[:i]), "/" + ":/".join(parts[i:])) for i in range(1, len(parts))]
    if not ways:
        return text, None
    return next((way for way in ways if Path(way[0]).exists()), ways[-1])


def name_of(obj: h5py.Dataset | h5py.Group) -> str:
    """Return the path of an object as text; h5py's `name` is bytes if it is not UTF-8."""
    name = obj.name
    return path_text(name) if isinstance(name, bytes) else str(name)

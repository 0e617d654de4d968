# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Repairing what a killed writer leaves of an HDF5 file: its length, and the mark that it is open.

Only the superblock, and zeros after the end of the file, are written. If the file is not intact
afterwards, both are undone.
"""

from __future__ import annotations

import mmap
import operator
import os
import shutil
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NoReturn

import h5py
from h5py import h5a, h5o

from h5lossy._blocks import listed_chunks
from h5lossy._cli._console import some_names
from h5lossy._cli._files import FAILED, NO_VERDICT, UNREADABLE, Ended
from h5lossy._cli._system import BINARY, lock
from h5lossy._names import path_text
from h5lossy._printable import one_line
from h5lossy._repacking.objects import attribute_names, has_variable_length, walk
from h5lossy._repacking.values import blocks_of
from h5lossy._superblock import Superblock, read_superblock
from h5lossy._values import dtype_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def repair(path: Path) -> list[str]:
    """Repair a file, and return what was changed; if it can't, raise `Ended` and change nothing."""
    with _alone_with(path) as fd:
        found = read_superblock(fd)
        length = os.fstat(fd).st_size
        if found is None:
            raise _refused(
                path, "it has no superblock of HDF5 that is whole, of a version from 0 to 3"
            )
        if found.is_part:
            raise _refused(path, "it is one of several files that HDF5 uses as one")
        if found.end - length > shutil.disk_usage(path).free:
            raise _refused(
                path, f"it states a length of {found.end} bytes, for which the disk has no room"
            )
        mended = found.closed()
        if found.end < length:
            mended = mended.with_end(length)
        try:
            if mended != found:
                mended.write(fd)
            if found.end > length:
                os.truncate(fd, found.end)
            _refuse_cut_heap(path, fd, length)
            reached, unreadable = _contents(path)
            if found.end > length and (reached > length or unreadable):
                _refuse_cut(path, found.end - length, unreadable)
            if reached <= found.end < length:
                mended = _shortest(path, fd, [found.closed(), mended], len(unreadable))
        except BaseException:
            if mended != found:
                found.write(fd)
            if found.end > length:
                os.truncate(fd, length)
            raise
        os.fsync(fd)
    if unreadable:
        lost = some_names(unreadable)
        raise Ended(f"{path} can be opened now, but not {lost}, whose metadata are damaged", FAILED)
    return _changes(found, mended, length)


def _refuse_cut(path: Path, missing: int, unreadable: list[str]) -> NoReturn:
    lost = some_names(unreadable) or "some values"
    raise _refused(
        path,
        f"its last {missing} bytes are missing, and with them {lost}; get it again from where it "
        "is complete",
    )


def _shortest(path: Path, fd: int, tried: list[Superblock], unreadable: int) -> Superblock:
    """Write and return the first superblock with which nothing more is unreadable than that."""
    # Data after the end may not be HDF5's, or may be attributes of the root group, for example.
    for superblock in tried:
        superblock.write(fd)
        with suppress(Ended):
            if len(_contents(path)[1]) <= unreadable:
                break
    return superblock


def _refuse_cut_heap(path: Path, fd: int, length: int) -> None:
    """Raise if the file's end cuts a heap of strings: HDF5 2.0 would search its zeros forever."""
    missing = os.fstat(fd).st_size - length
    with mmap.mmap(fd, length, access=mmap.ACCESS_READ) as content:
        at = content.find(_HEAP)
        while missing and at >= 0:
            size = int.from_bytes(content[at + 8 : at + 16], "little")
            if at + size > length and size <= _LARGEST_HEAP:
                _refuse_cut(path, missing, ["values of variable length"])
            at = content.find(_HEAP, at + 1)


def _changes(found: Superblock, mended: Superblock, length: int) -> list[str]:
    """Say what was changed."""
    said = []
    if found.end > length:
        said.append(f"extended by {found.end - length} bytes of free space")
    if mended.end > found.end:
        said.append(f"its stated length was raised by {mended.end - found.end} bytes")
    if found.is_open:
        said.append("no longer marked as open for writing")
    return said


#: The first bytes of a global heap collection ("HDF5 File Format Specification", III.E), and the
#: largest size of one.
_HEAP, _LARGEST_HEAP = b"GCOL\1\0\0\0", 1 << 32


@contextmanager
def _alone_with(path: Path) -> Iterator[int]:
    """Open a file that no other program has open in HDF5, which locks it in the same way."""
    try:
        fd = os.open(path, os.O_RDWR | BINARY)
    except OSError as error:
        raise Ended(f"{path} can't be opened for writing: {error.strerror}", NO_VERDICT) from error
    try:
        try:
            lock(fd)
        except BlockingIOError as error:
            raise _refused(path, "another program has it open; close it there first") from error
        except OSError as error:
            why = f"it can't be locked ({error.strerror}), so another program may have it open"
            raise _refused(path, f"{why}; copy it to a disk of this machine first") from error
        yield fd
    finally:
        os.close(fd)


def _contents(path: Path) -> tuple[int, list[str]]:
    """Return where the last stored object or value ends, and what can't be read."""
    reached, unreadable = 0, []
    try:
        file = h5py.File(path, "r", locking=False)
    except OSError as error:
        raise _refused(path, one_line(error)) from error
    with file:
        try:
            for name, obj in walk(file):
                try:
                    reached = max(reached, h5o.get_info(obj).addr, _end_of(obj))
                    _read_heaps(obj)
                except UNREADABLE:
                    unreadable.append(path_text(name))
        except UNREADABLE:
            unreadable.append("some of its groups")
    return reached, unreadable


def _read_heaps(obj: h5py.h5g.GroupID | h5py.h5d.DatasetID | h5py.h5t.TypeID) -> None:
    """Read strings and other data of variable length, which `_end_of` does not cover."""
    if isinstance(obj, h5py.h5t.TypeID):
        return
    owner = h5py.Group(obj) if isinstance(obj, h5py.h5g.GroupID) else h5py.Dataset(obj)
    if isinstance(owner, h5py.Dataset) and _can_be_in_a_heap(owner.id):
        for block in blocks_of(owner):
            owner[block]
    for name in attribute_names(obj):
        if _can_be_in_a_heap(h5a.open(obj, name)):
            owner.attrs[name]


def _can_be_in_a_heap(holder: h5py.h5a.AttrID | h5py.h5d.DatasetID) -> bool:
    """Return whether values have parts of variable length, and a type that NumPy has."""
    return has_variable_length(holder.get_type()) and dtype_of(holder) is not None


def _end_of(obj: h5py.h5g.GroupID | h5py.h5d.DatasetID | h5py.h5t.TypeID) -> int:
    """Return where the values of a dataset end in the file; 0 if there are none."""
    if not isinstance(obj, h5py.h5d.DatasetID):
        return 0
    dataset, ends = h5py.Dataset(obj), [0]
    if dataset.chunks is not None:
        listed = listed_chunks(dataset)
        ends += map(operator.add, listed.addresses.tolist(), listed.sizes.tolist())
    elif obj.get_offset() is not None:
        ends.append(obj.get_offset() + obj.get_storage_size())
    return max(ends)


def _refused(path: Path, why: str) -> Ended:
    return Ended(f"{path} can't be repaired, and was not changed: {why}", NO_VERDICT)

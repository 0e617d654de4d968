# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The copy of a whole file: written, checked and compared with its source, or found to exist."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import h5py

from h5lossy._errors import H5LossyError
from h5lossy._printable import one_line
from h5lossy._repacking.comparison import difference
from h5lossy._repacking.copier import FileCopier, copy_user_block, create_like
from h5lossy._repacking.objects import external_files, walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from h5lossy._repacking.compressing import Advance, CompressedCopy
    from h5lossy._repacking.planning import Plan


@dataclass(frozen=True, kw_only=True)
class Repacking:
    """The plan for one file, and whether its values are checked and records are written."""

    source: h5py.File
    plans: Sequence[Plan]
    copies: Sequence[CompressedCopy]
    verify: bool
    attributes: bool

    @property
    def work_bytes(self) -> int:
        """How many bytes `write` counts: each pass over the values of a dataset."""
        passes = (1 + self.verify + copy.needs_range for copy in self.copies)
        compressed = sum(copy.plan.nbytes * n for copy, n in zip(self.copies, passes, strict=True))
        return compressed + sum(plan.nbytes for plan in self.plans if plan.kept)

    def write(self, path: Path, advance: Advance) -> int:
        """Write the new file, check it, and return the number of dangling references."""
        source, remade = self.source, {copy.plan.key: copy.create for copy in self.copies}
        for copy in self.copies:
            copy.resolve(advance)
        with discarded_on_failure(create_like(source, path)) as new:
            copier = FileCopier(
                source, new, remake=remade, copied=lambda done: advance(done, "copying")
            )
            copier.copy()
            for copy in self.copies:
                copy.write(new, advance, attributes=self.attributes)
        copy_user_block(Path(source.filename), path, source.userblock_size)
        with discarded_on_failure(h5py.File(path, "r+")) as new:
            if self.verify:
                for copy in self.copies:
                    copy.check(new, advance, attributes=self.attributes)
            differs = difference(source, new, remade)
            if differs:
                raise H5LossyError(
                    f"nothing was written, since the copy differs from SRC: {differs}. This is a "
                    "fault of h5lossy or HDF5; please report it"
                )
        return copier.dangling

    def why_not_done(self, path: Path, advance: Advance, *, values: bool) -> str:
        """Return why a file differs from what would be written, or nothing. `values`: read all."""
        if path.stat().st_mtime_ns < Path(self.source.filename).stat().st_mtime_ns:
            return "is older than SRC"
        if not h5py.is_hdf5(path):
            return "is not an HDF5 file"
        try:
            with h5py.File(path) as new:
                differs = difference(self.source, new, {copy.plan.key for copy in self.copies})
                if differs:
                    return f"differs from SRC: {differs}"
                for copy in self.copies:
                    why = copy.why_not_done(
                        new,
                        advance,
                        verify=self.verify,
                        attributes=self.attributes,
                        values=values,
                    )
                    if why:
                        return f"is not this copy of SRC: {why}"
        except (OSError, RuntimeError, KeyError, ValueError) as error:
            return f"can't be compared with SRC: {one_line(error)}"
        return ""


def names_of_other_files(file: h5py.File) -> list[str]:
    """Return the names of the other files that a file refers to."""
    return sorted({name for _, obj in walk(file) for name in external_files(obj)})


@contextmanager
def discarded_on_failure(file: h5py.File) -> Iterator[h5py.File]:
    """Close an HDF5 file at the end of the block; after an exception, without using the disk."""
    try:
        yield file
        file.flush()
    except BaseException:
        # If HDF5 can't close a file, as on a full disk, it crashes the process at exit.
        if file.driver == "sec2" and hasattr(os, "memfd_create"):
            memory = os.memfd_create("h5lossy")
            os.dup2(memory, file.id.get_vfd_handle(), inheritable=False)
            os.close(memory)
        raise
    finally:
        file.close()

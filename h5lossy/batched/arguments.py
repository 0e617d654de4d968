# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The arguments that `read` and `write` share."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from h5lossy import _native
from h5lossy.batched.boxes import Box, Grid
from h5lossy.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h5lossy._progress import Report
    from h5lossy.batched.boxes import Place

#: The library starts no more.
_MOST_THREADS = 1024


def checked_threads(threads: Any) -> int:
    """Return the number of threads to use, or raise `InvalidArgumentError`."""
    if threads is None:
        return _native.default_threads()
    if isinstance(threads, bool) or not isinstance(threads, int | np.integer) or threads < 1:
        raise InvalidArgumentError(f"threads must be a number from 1 up, got {threads!r}")
    return int(min(threads, _MOST_THREADS))


def check_open(dataset: Any) -> None:
    """Raise if this is no dataset of an open file."""
    if not isinstance(dataset, h5py.Dataset):
        raise TypeError(f"dataset must be an h5py.Dataset, got {type(dataset).__name__}")
    if not dataset:
        raise InvalidArgumentError("the dataset's file is closed")


@dataclass(frozen=True)
class Selection:
    """A box of a dataset, and which of its axes remain axes of the result."""

    box: Box
    kept: tuple[bool, ...]

    @property
    def shape(self) -> Place:
        """Extents of the result."""
        return tuple(n for n, kept in zip(self.box.shape, self.kept, strict=True) if kept)

    def of_kept(self, box: Box) -> tuple[slice, ...]:
        """Return a part of the box as an index of the result."""
        index = box.within(self.box).slices
        return tuple(one for one, kept in zip(index, self.kept, strict=True) if kept)

    @property
    def with_all_axes(self) -> tuple[slice | None, ...]:
        """The index that gives the result all axes again."""
        return tuple(slice(None) if kept else None for kept in self.kept)

    def parts(self, dataset: h5py.Dataset, report: Report) -> Iterator[Box]:
        """Yield parts that take little memory and split no chunk; report each when it is done."""
        done, total = 0, math.prod(self.box.shape)
        for box in Grid.of(dataset, self.box).boxes():
            yield box
            done += math.prod(box.shape)
            report(done * dataset.dtype.itemsize, total * dataset.dtype.itemsize)


def as_selection(index: Any, shape: Place | None) -> Selection | None:
    """Return the box that an index means; None for all that is not a box of at least one value.

    That is so for steps, lists, masks, names of fields, and whatever is wrong: h5py reads and
    writes these, or raises. It is also so for datasets without axes.
    """
    if not shape:
        return None
    parts = list(index) if isinstance(index, tuple) else [index]
    ellipses = [i for i, part in enumerate(parts) if part is Ellipsis]
    if len(ellipses) > 1:
        return None
    at = ellipses[0] if ellipses else len(parts)
    parts[at : at + 1] = [slice(None)] * (len(shape) - len(parts) + len(ellipses))
    if len(parts) != len(shape):
        return None
    start, stop, kept = [], [], []
    for part, extent in zip(parts, shape, strict=True):
        ends = _ends(part, extent)
        if ends is None:
            return None
        start.append(ends[0])
        stop.append(ends[1])
        kept.append(isinstance(part, slice))
    return Selection(Box(tuple(start), tuple(stop)), tuple(kept))


def _ends(part: Any, extent: int) -> tuple[int, int] | None:
    """Return where a number or slice begins and ends along its axis; None if it is neither."""
    try:
        if isinstance(part, slice):
            first, end, step = part.indices(extent)
            return (first, end) if step == 1 and first < end else None
        if isinstance(part, bool | np.bool_):
            return None
        first = operator.index(part)
    except (TypeError, ValueError):
        return None
    first += extent if first < 0 else 0
    return (first, first + 1) if 0 <= first < extent else None

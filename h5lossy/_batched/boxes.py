# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Selections that are boxes of a dataset, and the parts of chunks that lie in them."""

from __future__ import annotations

import itertools
import math
import operator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from h5lossy import _native
from h5lossy._blocks import Block, batch_bytes, block_shape, blocks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import h5py
    import numpy.typing as npt

    from h5lossy._progress import Report

Place = tuple[int, ...]

#: Listing all chunks of a dataset costs about as much as looking up one eighth of them.
_LISTING_FACTOR = 8


@dataclass(frozen=True)
class Box:
    """Values from `start` to before `stop` along each axis."""

    start: Place
    stop: Place

    @property
    def shape(self) -> Place:
        """Extents."""
        return tuple(map(operator.sub, self.stop, self.start))

    @property
    def slices(self) -> tuple[slice, ...]:
        """The box as an index."""
        return tuple(map(slice, self.start, self.stop))

    def intersection(self, other: Box) -> Box:
        """Return the values that are in both boxes; there must be some."""
        return Box(tuple(map(max, self.start, other.start)), tuple(map(min, self.stop, other.stop)))

    def places(self, chunks: Place) -> Iterator[Place]:
        """Yield where each chunk begins that intersects the box, in C order."""
        return map(tuple, self.place_rows(chunks).tolist())

    def place_rows(self, chunks: Place) -> npt.NDArray[np.int64]:
        """Return the same as the rows of an array."""
        axes = (
            np.arange(first - first % length, end, length)
            for first, end, length in zip(self.start, self.stop, chunks, strict=True)
        )
        return np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(chunks))

    def within(self, outer: Box) -> Box:
        """Return the same values in coordinates relative to the start of another box."""
        return Box(
            tuple(map(operator.sub, self.start, outer.start)),
            tuple(map(operator.sub, self.stop, outer.start)),
        )

    def __str__(self) -> str:
        """Return the box in index notation."""
        ends = zip(self.start, self.stop, strict=True)
        return f"[{', '.join(f'{start}:{stop}' for start, stop in ends)}]"


def chunk_box(place: Place, chunks: Place) -> Box:
    """Return the box of a chunk, which may extend beyond the dataset's edge."""
    return Box(place, tuple(map(operator.add, place, chunks)))


@dataclass(frozen=True)
class Pieces:
    """The parts of some chunks that lie in a box; each array has a row per chunk."""

    places: npt.NDArray[np.int64]  # where each chunk begins
    start: npt.NDArray[np.int64]  # first value of each chunk in the box
    stop: npt.NDArray[np.int64]  # end of its values in the box
    whole: npt.NDArray[np.bool_]  # whether the box has all of its values in the dataset

    def __len__(self) -> int:
        return len(self.places)

    @property
    def bounds(self) -> Box:
        """The box that encloses all pieces."""
        return Box(_place(self.start[0]), _place(self.stop[-1]))

    def __getitem__(self, which: Any) -> Pieces:
        """Return some of the pieces, by a NumPy index."""
        return Pieces(self.places[which], self.start[which], self.stop[which], self.whole[which])

    def place(self, i: int) -> Place:
        """Return where chunk i begins."""
        return _place(self.places[i])

    def box(self, i: int) -> Box:
        """Return piece i."""
        return Box(_place(self.start[i]), _place(self.stop[i]))

    def in_array(self, array: Any, start: Any, chunk: Place, padding: Any) -> _native.Parts:
        """Return the pieces as parts of an array that begins at `start` of the dataset."""
        return _native.Parts(
            array=array,
            chunk=chunk,
            corners=self.start - start,
            first=self.start - self.places,
            extents=self.stop - self.start,
            padding=padding,
        )


@dataclass(frozen=True)
class Selection:
    """A box of a dataset, which of its axes the result keeps, and the chunks that it touches."""

    box: Box
    kept: tuple[bool, ...]  # whether each axis of the dataset is also an axis of the result
    extents: Place
    chunks: Place  # extents of a chunk; 1 along all axes if the dataset is not chunked
    value_bytes: int
    #: Where batches may begin and end along each axis, in numbers of chunks, from the first chunk
    #: to the end of the last. Default: between any two chunks.
    cuts: tuple[Place, ...] | None = None

    @property
    def shape(self) -> Place:
        """Extents of the result."""
        return tuple(itertools.compress(self.box.shape, self.kept))

    def of_kept(self, box: Box) -> tuple[slice, ...]:
        """Return a part of the box as an index of the result."""
        return tuple(itertools.compress(box.within(self.box).slices, self.kept))

    @property
    def with_all_axes(self) -> tuple[slice | None, ...]:
        """The index that restores all axes of the dataset in the result."""
        return tuple(slice(None) if kept else None for kept in self.kept)

    def cut_near(self, cuts: tuple[Place, ...] | None) -> Selection:
        """Cut batches at the chunk edges that are closest to these places in the result."""
        if cuts is None:
            return self
        left, edges = iter(cuts), []
        for start, kept, first, count, length in zip(
            self.box.start, self.kept, self.first, self.counts, self.chunks, strict=True
        ):
            near = {round((start + at) / length) for at in (next(left) if kept else ())}
            inside = sorted(at for at in near if first < at < first + count)
            edges.append((first, *inside, first + count))
        return replace(self, cuts=tuple(edges))

    @property
    def chunk_bytes(self) -> int:
        """Bytes of the values of a chunk."""
        return math.prod(self.chunks) * self.value_bytes

    @property
    def nbytes(self) -> int:
        """Bytes of the values of the box."""
        return math.prod(self.box.shape) * self.value_bytes

    @cached_property
    def counts(self) -> Place:
        """Number of chunks along each axis."""
        return tuple(
            -(-stop // length) - first
            for stop, length, first in zip(self.box.stop, self.chunks, self.first, strict=True)
        )

    @cached_property
    def first(self) -> Place:
        """Number of the first chunk along each axis."""
        return tuple(map(operator.floordiv, self.box.start, self.chunks))

    def __len__(self) -> int:
        return math.prod(self.counts)

    @property
    def has_few_chunks(self) -> bool:
        """Whether looking up these chunks is faster than listing all of the dataset."""
        axes = zip(self.extents, self.chunks, strict=True)
        return len(self) * _LISTING_FACTOR < math.prod(-(-n // chunk) for n, chunk in axes)

    @property
    def whole(self) -> Box | None:
        """The part of the box that consists of whole chunks; None if there is none."""
        start = tuple(-(-at // c) * c for at, c in zip(self.box.start, self.chunks, strict=True))
        stop = tuple(
            at if at == extent else at // c * c
            for at, extent, c in zip(self.box.stop, self.extents, self.chunks, strict=True)
        )
        is_empty = any(map(operator.ge, start, stop))
        return None if is_empty else Box(start, stop)

    @property
    def is_whole(self) -> bool:
        """Whether the box consists of whole chunks."""
        return self.whole == self.box

    def boxes(self, report: Report | None = None) -> Iterator[Box]:
        """Cut the box into parts of `BLOCK_BYTES` that split no chunk; report each when done."""
        done = 0
        for block in self._blocks(None):
            chunks = zip(block, self.chunks, strict=True)
            start, stop = zip(*((b.start * c, b.stop * c) for b, c in chunks), strict=True)
            box = Box(start, stop).intersection(self.box)
            yield box
            done += math.prod(box.shape) * self.value_bytes
            if report is not None:
                report(done, self.nbytes)

    def batches(self, threads: int) -> Iterator[Pieces]:
        """Yield the chunks a batch at a time, in C order."""
        most_bytes = batch_bytes(self.chunk_bytes, threads)
        if self.cuts is not None:  # as many parts as threads, which may compute their values
            most_bytes = max(most_bytes, threads * self._largest_part * self.chunk_bytes)
        start, stop, chunks = map(np.array, (self.box.start, self.box.stop, self.chunks))
        for block in self._blocks(most_bytes):
            numbers = np.indices([axis.stop - axis.start for axis in block])
            places = numbers.reshape(len(block), -1).T + [axis.start for axis in block]
            places *= chunks
            ends = np.minimum(places + chunks, self.extents)
            inside = np.maximum(places, start), np.minimum(ends, stop)
            whole = ((inside[0] == places) & (inside[1] == ends)).all(axis=1)
            yield Pieces(places, *inside, whole)

    @property
    def _largest_part(self) -> int:
        """Number of chunks between neighbouring cuts, at most."""
        if self.cuts is None:
            return 1
        return math.prod(max(b - a for a, b in itertools.pairwise(axis)) for axis in self.cuts)

    def _blocks(self, most_bytes: int | None) -> Iterator[Block]:
        """Yield slices of the dataset's grid of chunks."""
        cuts: tuple[Sequence[int], ...] = self.cuts or tuple(
            range(first, first + count + 1)
            for first, count in zip(self.first, self.counts, strict=True)
        )
        parts = tuple(len(axis) - 1 for axis in cuts)
        part_bytes = self._largest_part * self.chunk_bytes
        for block in blocks(parts, block_shape(parts, None, part_bytes, most_bytes=most_bytes)):
            yield tuple(
                slice(axis[one.start], axis[one.stop])
                for axis, one in zip(cuts, block, strict=True)
            )


def as_selection(
    index: Any, dataset: h5py.Dataset, *, may_be_empty: bool = False
) -> Selection | None:
    """Return the box that an index means; None if it is not a box of at least one value."""
    # h5py handles everything else (steps, lists, masks, field names), and raises for invalid
    # indices.
    shape = dataset.shape
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
        if ends is None or not (may_be_empty or ends[0] < ends[1]):
            return None
        start.append(ends[0])
        stop.append(ends[1])
        kept.append(isinstance(part, slice))
    return Selection(
        Box(tuple(start), tuple(stop)),
        tuple(kept),
        shape,
        dataset.chunks or (1,) * len(shape),
        dataset.dtype.itemsize,
    )


def _ends(part: Any, extent: int) -> tuple[int, int] | None:
    """Return where a number or slice begins and ends along its axis; None for anything else."""
    try:
        if isinstance(part, slice):
            first, end, step = part.indices(extent)
            return (first, max(first, end)) if step == 1 else None
        if isinstance(part, bool | np.bool_):
            return None
        first = operator.index(part)
    except (TypeError, ValueError):
        return None
    first += extent if first < 0 else 0
    return (first, first + 1) if 0 <= first < extent else None


def _place(row: npt.NDArray[np.int64]) -> Place:
    return tuple(row.tolist())

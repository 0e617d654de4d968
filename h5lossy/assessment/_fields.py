# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Two fields that are compared, and which of their points count."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from h5lossy._blocks import block_shape
from h5lossy._dims import chosen_axes
from h5lossy._values import as_bits
from h5lossy.assessment._coordinates import coordinates
from h5lossy.assessment._inputs import Input, combined_mask, common_dtype, missing_in
from h5lossy.assessment._sparse import MOST_READ, SPARSE_BYTES, Stored, chunks_of, grouped, times_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

    from h5lossy.assessment.schema import Coordinate
    from h5lossy.missing import Missing

    Part = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.bool_]]

T = TypeVar("T")

MASK_DTYPE = np.dtype(np.uint8)

#: Smaller datasets are read as a whole, so that their sums equal those of an array, bit for bit.
_LARGE = 1 << 24


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The axes along which fields are walked, and the place along the others: 0 by default."""

    full_shape: tuple[int, ...]
    axes: tuple[int, ...]
    at: tuple[int, ...] = ()  # along all axes

    @classmethod
    def of(cls, shape: tuple[int, ...]) -> Layout:
        """Leave out axes of extent 1, or all of them but the last."""
        axes = tuple(axis for axis, n in enumerate(shape) if n != 1)
        return cls(full_shape=shape, axes=axes or tuple(range(len(shape)))[-1:])

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents along `axes`."""
        return tuple(self.full_shape[axis] for axis in self.axes)

    @property
    def others(self) -> tuple[int, ...]:
        """The axes longer than 1 that are not in `axes`."""
        return tuple(a for a, n in enumerate(self.full_shape) if n != 1 and a not in self.axes)

    def at_index(self, index: Sequence[int]) -> Layout:
        """Return the layout at a place along `others`."""
        return replace(self, at=replace(self, axes=self.others).full(index, 0))

    def selection(self, own: tuple[slice, ...]) -> tuple[slice, ...]:
        """Return a selection in the full shape from one along `axes`."""
        given = dict(zip(self.axes, own, strict=False))
        at = self.at or (0,) * len(self.full_shape)
        return tuple(given.get(axis, slice(i, i + 1)) for axis, i in enumerate(at))

    def place(self, along: Iterable[int]) -> tuple[int, ...]:
        """Return the coordinates of a point, for those along `axes`."""
        return tuple(s.start for s in self.selection(tuple(slice(i, i + 1) for i in along)))

    def full(self, along: Iterable[T], other: T) -> tuple[T, ...]:
        """Return an item for every axis: those of `along` for `axes`, and `other` for the rest."""
        given = dict(zip(self.axes, along, strict=False))
        return tuple(given.get(axis, other) for axis in range(len(self.full_shape)))

    def stacked(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return an array's slices along `axes` one after the other, C-contiguous."""
        last = np.moveaxis(values, self.axes, range(-len(self.axes), 0))
        count = math.prod(last.shape[: -len(self.axes)])
        return np.ascontiguousarray(last.reshape(count, *last.shape[-len(self.axes) :]))

    def chunks(self, field: Input) -> tuple[int, ...] | None:
        """Return a field's chunk extents along `axes`."""
        return field.chunks and tuple(field.chunks[axis] for axis in self.axes)


@dataclass(frozen=True, kw_only=True)
class Fields:
    """Two fields, and how they are compared."""

    original: Input
    decoded: Input
    mask: Input | None  # not 0 where a point is left out
    dtype: np.dtype[Any]  # the type in which values are compared
    layout: Layout
    missing: Missing
    axes: tuple[int, ...]  # along which windows, derivatives, lags and spectra extend
    coordinates: tuple[Coordinate, ...] = ()  # of all axes, if they have names
    stored: Stored | None = None  # where chunks are, if most values were never written
    device: int | None = None  # the GPU that holds everything and computes

    @classmethod
    def of(
        cls,
        x: Input,
        y: Input,
        mask: Any,
        *,
        fill: Any = "auto",
        missing: Any = (),
        axes: Any = None,
        lossless: bool = False,
    ) -> Fields:
        """Decide in which type two fields are compared, and which points are left out."""
        dtype = common_dtype(x, y)
        own, layout = x.axes or y.axes, Layout.of(x.shape)
        return cls(
            original=x,
            decoded=y,
            mask=combined_mask(mask, x, own),
            dtype=dtype,
            layout=layout,
            missing=missing_in(x, y, dtype, fill, missing, lossless=lossless),
            # Metrics that need neighbours are not computed for complex numbers.
            axes=layout.axes if x.is_complex else chosen_axes(axes, own, x.shape, layout.axes),
            coordinates=coordinates(own, x.shape),
        )

    @property
    def is_complex(self) -> bool:
        """Whether values are components of complex numbers."""
        return self.original.is_complex

    @property
    def slices(self) -> Layout | None:
        """The slices that are compared one by one; None if the whole field is one slice."""
        layout = Layout(full_shape=self.layout.full_shape, axes=self.axes)
        return layout if layout.others else None

    @property
    def why_not_read(self) -> str:
        """Why metrics that read all values are left out, if they are."""
        size = self.original.size
        few = self.stored is not None and size > MOST_READ
        return f"most of {size} values were never written" if few else ""

    @property
    def nbytes(self) -> int:
        """Size of the original, in the type of comparison."""
        return self.original.size * self.dtype.itemsize

    def slice_bytes(self, layout: Layout) -> int:
        """Return the size of both values of all points of a slice, and their masks."""
        return math.prod(layout.shape) * (2 * self.dtype.itemsize + 1)

    def slices_at_once(self, layout: Layout, most_bytes: int) -> tuple[int, ...]:
        """Return how many slices are read together along each of `layout.others`.

        As many as fill whole chunks, or one if these take more than `most_bytes`.
        """
        inputs = [self.original, self.decoded, *filter(None, [self.mask])]
        others = tuple(layout.full_shape[axis] for axis in layout.others)
        chunks = [[f.chunks[axis] for axis in layout.others] for f in inputs if f.chunks]
        unit = tuple(map(min, others, map(max, zip(*chunks, strict=True)))) if chunks else None
        slice_bytes = self.slice_bytes(layout)
        most = max(most_bytes, slice_bytes)
        block = block_shape(others, unit, slice_bytes, most_bytes=most)
        is_large = math.prod(block) * slice_bytes > most_bytes
        return (1,) * len(others) if is_large else block

    def marked(
        self, original: npt.NDArray[Any], mask: npt.NDArray[Any] | None
    ) -> npt.NDArray[Any] | None:
        """Mark missing and invalid values of a part of the original in its mask."""
        return self.missing.mark(original, mask) if self.missing.has_more else mask

    def read_original(
        self, selection: tuple[slice, ...]
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None]:
        """Read a part of the original, and its mask with all values marked that are no data."""
        x = self.original.read(selection, self.dtype)
        mask = None if self.mask is None else self.mask.read(selection, MASK_DTYPE)
        return x, self.marked(x, mask)

    def read_slices(
        self, layout: Layout, block: tuple[slice, ...], own: tuple[slice, ...] | None = None
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any] | None]:
        """Read some slices, or a part of each, one after the other: both fields and the mask."""
        own = own or tuple(slice(0, n) for n in layout.shape)
        given = dict(zip((*layout.others, *layout.axes), (*block, *own), strict=True))
        selection = tuple(given.get(axis, slice(0, 1)) for axis in range(len(layout.full_shape)))
        x, mask = self.read_original(selection)
        y = self.decoded.read(selection, self.dtype)
        return (
            layout.stacked(x),
            layout.stacked(y),
            None if mask is None else layout.stacked(mask),
        )

    def read(self, selection: tuple[slice, ...]) -> Part:
        """Read a part of both fields as float64, 0 where a point is invalid, and its validity."""
        x, mask = self.read_original(selection)
        y = self.decoded.read(selection, self.dtype)
        valid = np.isfinite(x) & np.isfinite(y)
        fill = self.missing.fill
        if fill is not None:
            valid &= as_bits(x) != as_bits(np.asarray(fill, x.dtype))
        if mask is not None:
            valid &= mask == 0
        x, y = (np.where(valid, f, 0).astype(np.float64) for f in (x, y))
        return x, y, np.asarray(valid)

    def part(self, own: tuple[slice, ...]) -> Part:
        """Do the same for a selection along the layout's axes; the parts keep these axes."""
        shape = [s.stop - s.start for s in own]
        x, y, valid = self.read(self.layout.selection(own))
        return x.reshape(shape), y.reshape(shape), valid.reshape(shape)

    def blocks(self, most_bytes: int) -> Iterator[tuple[tuple[slice, ...], int]]:
        """Cut the layout's axes into parts of at most `most_bytes` as float64.

        Parts consist of whole chunks, unless a chunk is larger than that. Of equal parts that were
        never written, only the first is yielded, with their number.
        """
        shape = self.layout.shape
        chunks = self.layout.chunks(self.original) or self.layout.chunks(self.decoded)
        if chunks and 8 * math.prod(chunks) > most_bytes:
            chunks = None
        if self.stored is not None:  # many parts are equal
            most_bytes = min(most_bytes, SPARSE_BYTES)
        block = block_shape(shape, chunks, 8, most_bytes=most_bytes)
        for own, region in grouped(shape, block, self.stored):
            yield own, times_in(own, region)


def stored_parts(fields: Sequence[Input], layout: Layout) -> Stored | None:
    """Return where chunks are stored; None if most are, and so all values are read."""
    size = math.prod(layout.shape)
    if size < _LARGE:
        return None
    starts, stops = [], []
    for field in fields:
        found = None if field.dataset is None else chunks_of(field.dataset, size // 2)
        if found is None:
            return None
        rows = np.array(found, np.int64).reshape(-1, len(layout.full_shape))[:, layout.axes]
        starts.append(rows)
        stops.append(rows + np.array(layout.chunks(field) or layout.shape, np.int64))
    return Stored(layout.shape, np.concatenate(starts), np.concatenate(stops))


def position(number: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the coordinates of a point by its number in C order."""
    return tuple(int(i) for i in np.unravel_index(number, shape)) if shape else ()

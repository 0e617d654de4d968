# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Regions of a dataset whose chunks are written with a smaller bound than the others."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from h5lossy._batched.boxes import Box, Pieces, as_selection
from h5lossy._bounds import BoundKind, ErrorBound
from h5lossy._codecs import codec_from_params
from h5lossy._errors import InvalidArgumentError
from h5lossy._variables import require_open

if TYPE_CHECKING:
    from collections.abc import Iterator

    import h5py

    from h5lossy import _native
    from h5lossy._codecs import Codec

#: The fields of `Params` that describe the data, not the setting.
_OF_DATA = ("value_class", "value_bytes", "big_endian", "fill_bits", "maybe_padded", "shape")


@dataclasses.dataclass(frozen=True)
class Region:
    """A box or a mask, the bound of the chunks that it touches, and how they are encoded."""

    where: Box | npt.NDArray[np.bool_]
    bound: ErrorBound
    params: _native.Params

    def touches(self, pieces: Pieces) -> npt.NDArray[np.bool_]:
        """Return which of the pieces have a point of the region."""
        if isinstance(self.where, Box):
            shared = np.minimum(pieces.stop, self.where.stop)
            return np.asarray((np.maximum(pieces.start, self.where.start) < shared).all(axis=1))
        found = (self.where[pieces.box(i).slices].any() for i in range(len(pieces)))
        return np.array([*found], bool)


def read_index(text: str) -> Any:
    """Return the index that a text such as ``[:, 10:20]`` means."""
    found = re.fullmatch(r"\s*\[(.*)\]\s*", text, re.DOTALL)
    try:
        parts = [part.strip() for part in found[1].split(",")]  # type: ignore[index]  # caught
        return tuple(... if part == "..." else _axis(part) for part in parts)
    except (TypeError, ValueError):
        raise InvalidArgumentError(
            f"a place is an index such as [:, 10:20], or the path of a mask, got {text!r}"
        ) from None


def _axis(text: str) -> int | slice:
    ends = [int(part) if part.strip() else None for part in text.split(":")]
    if len(ends) == 1 and ends[0] is not None:
        return ends[0]
    return slice(*ends) if len(ends) == 2 else int(text)


def read_regions(given: Any, dataset: h5py.Dataset, params: _native.Params) -> list[Region]:
    """Return what the argument of `write` means, the smallest bound last."""
    codec = codec_from_params(params)
    try:
        pairs = [(where, bound) for where, bound in given]
    except (TypeError, ValueError):
        raise InvalidArgumentError(
            "regions takes pairs of a place and a bound, as [(np.s_[:, 10:20], 1e-5)], "
            f"got {given!r}"
        ) from None
    found = [_region(where, bound, dataset, codec, params) for where, bound in pairs]
    return sorted(found, key=lambda region: -region.bound.value)


#: The pieces of a batch by the region whose bound they get; None: the dataset's bound.
Groups: TypeAlias = list[tuple[Region | None, npt.NDArray[np.intp]]]


def groups(regions: list[Region], pieces: Pieces) -> Groups:
    """Return each region with the numbers of the pieces that take its bound."""
    last = np.zeros(len(pieces), np.intp)
    for i, region in enumerate(regions, 1):
        last[region.touches(pieces)] = i
    found = ((one, np.flatnonzero(last == i)) for i, one in enumerate((None, *regions)))
    return [(one, which) for one, which in found if len(which)]


def bounded_parts(grouped: Groups, pieces: Pieces) -> Iterator[tuple[ErrorBound, Box]]:
    """Yield the boxes of the pieces that take a region's bound, each with that bound."""
    for region, which in grouped:
        if region is not None:
            yield from ((region.bound, pieces.box(i)) for i in which.tolist())


def _region(
    where: Any, value: Any, dataset: h5py.Dataset, codec: Codec, params: _native.Params
) -> Region:
    smaller = with_smaller_bound(codec, value)
    of_data = {name: getattr(params, name) for name in _OF_DATA}
    settings = dataclasses.replace(smaller.params(), **of_data)
    return Region(_place(where, dataset), smaller.bound, settings)


def with_smaller_bound(codec: Codec, value: Any) -> Codec:
    """Return a codec with a smaller bound of the same kind; 0 is lossless."""
    kind = codec.bound.kind
    if not isinstance(value, bool) and np.isscalar(value) and value == 0:
        return codec.with_bound(lossless=True)
    bound = codec.bound
    if kind is not BoundKind.LOSSLESS:
        try:
            bound = ErrorBound(kind, value, codec.bound.floor)  # raises for what is no bound
        except TypeError:
            raise TypeError(
                "the bound of a region is a number, of the kind that the dataset has "
                f"({kind}; of an ErrorBound, its value), got {value!r}"
            ) from None
    if kind is BoundKind.LOSSLESS or bound.value > codec.bound.value:
        raise InvalidArgumentError(
            f"the bound of a region is a smaller one than that of the dataset, {codec.bound}, "
            f"or 0 for lossless, got {value!r}"
        )
    floor = {str(BoundKind.ABSOLUTE): bound.floor} if bound.floor else {}
    return codec.with_bound(**{str(kind): bound.value}, **floor)


def _place(where: Any, dataset: h5py.Dataset) -> Box | npt.NDArray[np.bool_]:
    """Return the box that an index means, or a mask of the dataset's shape."""
    require_open(where, "the region")
    if getattr(getattr(where, "dtype", None), "kind", "") == "b":
        try:
            return np.broadcast_to(np.asarray(where), dataset.shape)
        except ValueError:
            raise InvalidArgumentError(
                f"the mask of a region must broadcast to {dataset.shape}, the shape of "
                f"{dataset.name}, got {where.shape}"
            ) from None
    chosen = as_selection(where, dataset, may_be_empty=True)
    if chosen is None:
        raise InvalidArgumentError(
            "the place of a region is an index of numbers and slices without steps, as "
            f"np.s_[:, 10:20], or a boolean array, within {dataset.shape}, the shape of "
            f"{dataset.name}, got {where!r}"
        )
    return chosen.box

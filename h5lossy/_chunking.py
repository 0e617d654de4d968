# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Chunk shapes: the policy for automatic ones, and what is wrong with small ones."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, SupportsIndex

import numpy as np

from h5lossy._errors import InvalidArgumentError
from h5lossy._public import name_publicly
from h5lossy._values import as_list

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

#: Size of an automatic chunk. Ratio and overhead hardly improve beyond it, while reading a single
#: value costs a whole chunk.
CHUNK_BYTES = 1 << 20

#: Chunks that evenly divide given blocks are not made smaller than this.
_SMALLEST_CHUNK_BYTES = CHUNK_BYTES // 32

#: Below this size ratios suffer: at 16 KiB by 5 to 25 % with PFPL, and by 10 to 50 % with Interp.
SMALL_CHUNK_BYTES = 16 << 10

#: Below this size a header takes a considerable part of a frame.
_TINY_CHUNK_BYTES = 1 << 10

#: With fewer chunks than this, small chunks do not matter.
_MANY_CHUNKS = 64

#: The assumed length of an empty resizable axis when chunks are chosen.
_LENGTH_OF_EMPTY = 1024


class Access(StrEnum):
    """How values are read and written most often; see `chunks_for`."""

    MAPS = "maps"
    SERIES = "series"
    BALANCED = "balanced"


def chunks_for(
    shape: SupportsIndex | Iterable[SupportsIndex],
    dtype: DTypeLike,
    access: str = Access.MAPS,
    *,
    maxshape: int | Sequence[int | None] | None = None,
    blocks: Sequence[int | Sequence[int]] | None = None,
) -> tuple[int, ...]:
    """Choose the chunk shape of a dataset: chunks of at most 1 MiB, cut as evenly as possible.

    `repack`, `h5lossy.xarray.encoding` and the other commands choose theirs with it.

    Parameters
    ----------
    shape : int or iterable of int
        Of the dataset.
    dtype : dtype
        Of the dataset.
    access : {"maps", "series", "balanced"}
        What is read and written most often:

        - "maps": whole trailing axes, such as one (lat, lon) map of (time, lat, lon) or one slice
          of a volume. A chunk holds as many trailing axes as fit.
        - "series": all values along the first axis, such as the time series of one place. A chunk
          holds all of the first axis if it fits, and is about equally long along the others.
        - "balanced": boxes, or slices across any axis. A chunk is about equally long along all.
    maxshape : int or sequence of (int or None), optional
        As `h5py.Group.create_dataset` takes it. A resizable axis that is empty counts as 1024.
    blocks : sequence of (int or sequence of int), optional
        For each axis, the length of the blocks in which values are written, or all these lengths,
        as ``chunks`` of a Dask array has them. Each block then consists of whole chunks, unless
        these would be smaller than 32 KiB.

    Returns
    -------
    tuple of int
        The ``chunks=`` of `h5py.Group.create_dataset`, or the ``chunksizes`` of netCDF.

    Examples
    --------
    >>> shape = (365, 721, 1440)
    >>> chunks_for(shape, "f4"), chunks_for(shape, "f4", "series")
    ((1, 181, 1440), (365, 26, 26))
    """
    extents = _extents(shape)
    most = extents if maxshape is None else as_list(maxshape)
    written = extents if blocks is None else as_list(blocks)
    for name, given in (("maxshape", most), ("blocks", written)):
        if len(given) != len(extents):
            raise InvalidArgumentError(
                f"{name} must have as many axes as the shape {extents}, got {given!r}"
            )
    if access not in (*Access,):
        raise InvalidArgumentError(
            f"access must be one of {', '.join(map(repr, map(str, Access)))}, got {access!r}"
        )
    lengths = tuple(
        n or min(_LENGTH_OF_EMPTY, m or _LENGTH_OF_EMPTY)
        for n, m in zip(extents, most, strict=True)
    )
    most_values = CHUNK_BYTES // max(np.dtype(dtype).itemsize, 1)
    pieces = tuple(map(_piece, lengths, written))
    chunks = _cut(pieces, lengths, access, most_values)
    least_values = most_values * _SMALLEST_CHUNK_BYTES // CHUNK_BYTES
    if math.prod(chunks) < min(least_values, math.prod(lengths)):
        return _cut(lengths, lengths, access, most_values)
    return chunks


def access_of(text: str) -> Access:
    """Read "auto", or the access pattern in "auto:series"; raise ValueError for any other text."""
    word, colon, name = text.partition(":")
    if word != "auto":
        raise ValueError(f"not a kind of automatic chunks: {text!r}")
    return Access(name) if colon else Access.MAPS


def is_small(shape: tuple[int, ...], chunks: tuple[int, ...], value_bytes: int) -> bool:
    """Return whether chunks are so small that larger ones would compress better."""
    size = math.prod(chunks) * value_bytes
    count = math.prod(-(-n // chunk) for n, chunk in zip(shape, chunks, strict=True))
    return size < SMALL_CHUNK_BYTES and count >= _MANY_CHUNKS // 4


def _extents(shape: SupportsIndex | Iterable[SupportsIndex]) -> tuple[int, ...]:
    """Return a shape as a tuple."""
    try:
        given = tuple(shape) if isinstance(shape, Iterable) else (shape,)
        extents = tuple(map(operator.index, given))
    except TypeError as error:
        raise TypeError(f"shape must be an int or a tuple of ints, got {shape!r}") from error
    if not extents or min(extents) < 0:
        raise InvalidArgumentError(
            f"shape must have at least one axis and no negative extent, got {extents}"
        )
    return extents


def _piece(length: int, block: int | Sequence[int]) -> int:
    """Return the longest piece of an axis that no end of a block cuts, wherever it is."""
    if isinstance(block, Sequence):  # the last one may have any length
        return math.gcd(*block[:-1]) or length if len(block) > 1 else length
    return min(block or length, length)


def _cut(
    pieces: tuple[int, ...], lengths: tuple[int, ...], access: str, most_values: int
) -> tuple[int, ...]:
    """Cut pieces evenly, and pieces shorter than their axis without a remainder."""
    rank = len(pieces)
    first, *others = range(rank)
    groups = {
        Access.MAPS: [[axis] for axis in reversed(range(rank))],
        Access.SERIES: [[first], others],
        Access.BALANCED: [[*range(rank)]],
    }[Access(access)]
    chunks = [1] * rank
    for axes in groups:
        room = most_values // math.prod(chunks)
        limit = _even_length([pieces[axis] for axis in axes], room)
        for axis in axes:
            piece = pieces[axis]
            parts = -(-piece // limit)
            while piece < lengths[axis] and piece % parts:
                parts += 1
            chunks[axis] = -(-piece // parts)
    return tuple(chunks)


def _even_length(extents: list[int], room: int) -> int:
    """Return the longest edge for which a box within some extents has at most `room` values."""
    low, high = 1, max(extents, default=1) + 1
    while high - low > 1:
        middle = (low + high) // 2
        fits = math.prod(min(n, middle) for n in extents) <= room
        low, high = (middle, high) if fits else (low, middle)
    return low


def small_chunks_text(shape: tuple[float, ...], chunks: tuple[int, ...], value_bytes: int) -> str:
    """Say what is wrong with many chunks that are hardly larger than a header; else nothing.

    >>> small_chunks_text((2000,), (1,), 4)[:47]
    'chunks of 4 bytes (1,), each of which costs a h'
    >>> small_chunks_text((2000,), (1000,), 4)
    ''
    """
    size = math.prod(chunks) * value_bytes
    count = math.prod(-(-n // chunk) for n, chunk in zip(shape, chunks, strict=True))
    if size >= _TINY_CHUNK_BYTES or count < _MANY_CHUNKS:
        return ""
    return (
        f"chunks of {size} bytes {chunks}, each of which costs a header of 40 bytes or more and an "
        "entry in HDF5's index"
    )


name_publicly(__name__)

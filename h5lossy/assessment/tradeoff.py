# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Size and error of codecs and bounds for given data."""

from __future__ import annotations

import dataclasses
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import h5py

from h5lossy._batched import read, write
from h5lossy._blocks import listed_chunks
from h5lossy._bounds import BoundKind
from h5lossy._ranges import confirmed_range
from h5lossy._warnings import muted
from h5lossy.assessment import _numbers as numbers
from h5lossy.assessment._assess import assess
from h5lossy.missing import Missing, keeping_missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from h5lossy._codecs import Codec
    from h5lossy.assessment.report import Report
    from h5lossy.assessment.schema import Size

#: With fewer bytes, several threads take longer to start than one takes for the work.
_FOR_ONE_THREAD = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Field:
    """Data to encode in order to measure the result.

    Attributes
    ----------
    values : array_like
        Anything with a shape, a dtype and slicing; read part by part.
    chunks : tuple of int
    missing : Missing
    axes : tuple of int, optional
        The axes along which values have neighbours, as for `assess`.
    confirm_range : bool
        As for `Codec.resolve`.
    data_range : float, optional
        As for `assess`.
    """

    values: Any
    chunks: tuple[int, ...]
    missing: Missing
    axes: tuple[int, ...] | None = None
    confirm_range: bool = False
    data_range: float | None = None

    @property
    def nbytes(self) -> int:
        """Size of the values."""
        return int(math.prod(self.values.shape) * self.values.dtype.itemsize)


@dataclass(frozen=True, kw_only=True)
class Tradeoff:
    """Size and error of one codec with one bound."""

    codec: Codec
    report: Report  # with sizes
    encode_seconds: float = 0.0  # on one thread, for orientation; 0 if not requested
    decode_seconds: float = 0.0
    #: The stored bytes of each chunk, and where it begins.
    chunks: tuple[tuple[int, tuple[int, ...]], ...] = dataclasses.field(default=(), repr=False)

    @property
    def size(self) -> Size:
        """Raw and stored bytes."""
        assert self.report.size is not None
        return self.report.size


def measure(
    field: Field, codec: Codec, *, metrics: str | Iterable[str] = ("ssim",), timed: bool = False
) -> Tradeoff:
    """Write a field with a codec to a file in memory, and assess what a reader gets."""
    values, missing = field.values, field.missing
    if codec.bound.kind is BoundKind.RANGE_RELATIVE:
        ends = confirmed_range(values, missing, codec.bound, confirmed=field.confirm_range)
        codec = codec.resolved_for(ends)
    codec = keeping_missing(codec, missing)
    threads = 1 if timed or field.nbytes < _FOR_ONE_THREAD else None
    with (
        h5py.File(f"{id(field)}.h5", "w", driver="core", backing_store=False) as file,
        muted(),  # warnings are for whoever really writes the file
    ):
        # HDF5 allows chunks that are larger than the dataset only where it can grow.
        pairs = zip(values.shape, field.chunks, strict=True)
        most = tuple(max(n, chunk) for n, chunk in pairs)

        def encode(name: str) -> h5py.Dataset:
            stored = file.create_dataset(
                name,
                values.shape,
                values.dtype,
                maxshape=most,
                chunks=field.chunks,
                compression=codec,
                fillvalue=missing.fill,
            )
            write(stored, values, threads=threads)
            return stored

        if timed:  # the first run has to allocate memory and load code
            read(encode("first"), threads=1)
        began = time.perf_counter()
        stored = encode("x")
        encoded = time.perf_counter()
        if timed:
            read(stored, threads=1)
        decoded = time.perf_counter()
        report = assess(
            values,
            stored,
            bound=codec.bound,
            metrics=metrics,
            fill_value=missing,
            axes=field.axes,
            data_range=field.data_range,
            threads=threads,
        )
        size = numbers.size(
            field.nbytes,
            stored.id.get_storage_size(),
            max(1, math.prod(values.shape)),
            report.original,
            report.error,
        )
        listed = listed_chunks(stored)
        chunks = zip(listed.sizes.tolist(), map(tuple, listed.places.tolist()), strict=True)
    return Tradeoff(
        codec=codec,
        report=dataclasses.replace(report, size=size),
        encode_seconds=encoded - began if timed else 0.0,
        decode_seconds=decoded - encoded if timed else 0.0,
        chunks=tuple(chunks),
    )


def front(tradeoffs: Sequence[Tradeoff]) -> list[bool]:
    """Return for each whether no other has fewer bytes and a smaller RMSE (the Pareto front)."""
    points = [(t.size.stored_bytes, t.report.error.rmse or 0.0) for t in tradeoffs]
    return [
        not any((a <= bits and b <= rmse) and (a < bits or b < rmse) for a, b in points)
        for bits, rmse in points
    ]

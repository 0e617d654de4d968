# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Checks chunks as they are written, and records what was found (`records`)."""

from __future__ import annotations

import itertools
import json
import math
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from h5lossy import _native
from h5lossy._blocks import chunk_starts, grid_of
from h5lossy._bounds import BoundKind, ErrorBound
from h5lossy._datasets import describe
from h5lossy._errors import BoundViolationError, InvalidArgumentError, UnsupportedError
from h5lossy._values import own_fill_value, unwritten_value
from h5lossy._verification.bound_checker import BoundChecker
from h5lossy._verification.records import (
    HASH_ATTRIBUTE,
    REPORT_ATTRIBUTE,
    SCHEMA,
    Hashes,
    Place,
    description,
    digest,
    hash_text,
    hash_unless,
    number_of,
    place_of,
    read_record,
    write_text,
)
from h5lossy.missing import no_data

if TYPE_CHECKING:
    import h5py
    import numpy.typing as npt

    from h5lossy.missing import Missing

#: Squares of errors between these, and sums of many, fit in float64 without loss.
_SMALLEST_ERROR, _LARGEST_ERROR = 2.0**-400, 2.0**400


class Recorder:
    """Checks chunks with a `BoundChecker`, and hashes their decoded values.

    Parameters
    ----------
    dataset : h5py.Dataset
        Compressed by h5lossy.
    bound : ErrorBound, optional
        What to check. Default: what the dataset says. A range-relative one is taken of each chunk's
        own range, which is never looser.
    threads : int, optional
    missing : Missing, optional
        Which values are no data. Default: what the dataset says.

    Attributes
    ----------
    checker : BoundChecker
    """

    def __init__(
        self,
        dataset: h5py.Dataset,
        bound: ErrorBound | None = None,
        threads: int | None = None,
        missing: Missing | None = None,
    ) -> None:
        described = describe(dataset)
        if described is None:
            raise InvalidArgumentError(
                f"{dataset.name} is not compressed by h5lossy, so there is nothing to verify"
            )
        self._dataset = dataset
        self._described = described
        # The filter keeps this fill value; missing values are compared here.
        missing = (missing or no_data(dataset)).with_fill(own_fill_value(dataset))
        self.checker = BoundChecker(bound or described.bound, missing, threads=threads)
        self._unwritten = unwritten_value(dataset)
        self._hashes: dict[Place, int | None] = {}
        self._threads = threads or _native.default_threads()

    def add(self, start: Place, original: npt.NDArray[Any], decoded: npt.NDArray[Any]) -> None:
        """Check a block of whole chunks.

        Parameters
        ----------
        start : tuple of int
            Where the block begins in the dataset: at the corner of a chunk.
        original, decoded : numpy.ndarray
            Of the dataset's type; chunks at the edge have no padding.
        """
        is_of_chunks = self.checker.bound.kind is BoundKind.RANGE_RELATIVE
        if not is_of_chunks:
            self.checker.add(start, original, decoded)
        chunks = self._described.chunks
        corners = (range(0, n, c) for n, c in zip(original.shape, chunks, strict=True))
        places, parts = [], []
        for corner in itertools.product(*corners):
            inside = tuple(slice(i, i + c) for i, c in zip(corner, chunks, strict=True))
            first = tuple(s + i for s, i in zip(start, corner, strict=True))
            if is_of_chunks:
                self.checker.add(first, original[inside], decoded[inside])
            places.append(_place_at(first, chunks))
            parts.append(decoded[inside])
        self._hashes |= zip(places, self._hashes_of(parts), strict=True)

    def _hashes_of(self, chunks: list[npt.NDArray[Any]]) -> list[int | None]:
        """Hash the values of chunks, on all threads."""

        def hashes(some: list[npt.NDArray[Any]]) -> list[int | None]:
            return [hash_unless(values, self._unwritten) for values in some]

        # To start a thread takes about as long as to hash 100 KiB.
        threads = min(self._threads, 1 + sum(values.nbytes for values in chunks) // (1 << 20))
        if threads == 1:
            return hashes(chunks)
        count = -(-len(chunks) // threads)
        parts = [chunks[i : i + count] for i in range(0, len(chunks), count)]
        with ThreadPoolExecutor(threads) as pool:
            try:
                found = pool.map(hashes, parts)
            except RuntimeError:  # no thread can be started, since Python exits or the limit is met
                found = map(hashes, parts)
            return [*itertools.chain.from_iterable(found)]

    def check(self) -> None:
        """Raise `BoundViolationError` if anything that was added so far violates the bound."""
        problems = self.checker.summary().problems
        if problems:
            raise BoundViolationError(
                f"{self._dataset.name} violates its bound: {'; '.join(problems)}"
            )

    def finish(self) -> dict[str, Any]:
        """Check once more, write the record, and return it.

        A part of the chunks may have been added; hashes of the others stay, and what was found for
        the whole dataset does not.
        """
        self.check()
        dataset, bound = self._dataset, self.checker.bound
        grid = grid_of(dataset)
        stored = [_place_at(start, dataset.chunks) for start in chunk_starts(dataset)]
        whole = all(place in self._hashes for place in stored)
        earlier, complete = ({}, True) if whole else self._earlier(stored)
        numbered = {
            number_of(place, grid): value
            for place, value in (earlier | self._hashes).items()
            if value is not None
        }
        hashes = Hashes.of(numbered)
        if not whole and hashes.chunks_per_hash > 1:
            raise InvalidArgumentError(
                f"{dataset.name} has {len(numbered)} chunks with values, too many for a hash each "
                "in one attribute; write all of them in one call to have them verified"
            )
        record: dict[str, Any] = {
            "schema": SCHEMA,
            "h5lossy": _native.version(),
            "bound": {"kind": str(bound.kind), "value": bound.value},
            "dataset": description(self._described, self._unwritten),
            "written": len(numbered),
            "complete": complete,
            "chunks_per_hash": hashes.chunks_per_hash,
            "found": self._found() if whole else None,
        }
        text = hash_text(hashes.by_group)
        record["digest"] = digest(record, text)
        write_text(dataset, REPORT_ATTRIBUTE, json.dumps(record))
        write_text(dataset, HASH_ATTRIBUTE, text)
        return record

    def _earlier(self, stored: list[Place]) -> tuple[dict[Place, int | None], bool]:
        """Return the hashes that stay valid, and whether then every stored chunk has one."""
        try:
            found = read_record(self._dataset)
        except (InvalidArgumentError, UnsupportedError):
            found = None
        if found is None or found[1].chunks_per_hash != 1:
            return {}, False
        record, hashes = found
        then, now = record["dataset"], description(self._described, self._unwritten)
        if then | {"shape": None} != now | {"shape": None}:
            return {}, False
        chunks, before, after = now["chunks"], then["shape"], now["shape"]

        def is_same(place: Place) -> bool:
            """Return whether a chunk had the same extents then."""
            return all(
                min((p + 1) * c, b) == min((p + 1) * c, a) and p * c < b
                for p, c, b, a in zip(place, chunks, before, after, strict=True)
            )

        grid = tuple(-(-n // c) for n, c in zip(before, chunks, strict=True))
        places = {place_of(number, grid): value for number, value in hashes.by_group.items()}
        kept: dict[Place, int | None] = {p: value for p, value in places.items() if is_same(p)}
        complete = record["complete"] and all(p in self._hashes or is_same(p) for p in stored)
        return kept, complete

    def _found(self) -> dict[str, Any]:
        """Return the sums and extrema for the record; None for what float64 can't hold."""
        points = self.checker.points()
        max_abs = max_at = rmse = mean = psnr = None
        if points.valid:
            max_abs, mean = max(points.error_max, -points.error_min), points.mean_error
            max_at = list(self.checker.place(points.worst.at))
            if not max_abs or _SMALLEST_ERROR <= max_abs <= _LARGEST_ERROR:
                rmse = math.sqrt(points.squares_error / points.valid + mean * mean)
                psnr = _psnr(points.original_max - points.original_min, rmse)
        return {
            "points": points.count,
            "valid": points.valid,
            "special": {kind: n for kind, n in points.special.items() if n},
            "violations": points.violations,
            "max_abs": _finite(max_abs),
            "max_at": max_at,
            "rmse": _finite(rmse),
            "mean": _finite(mean),
            "psnr": str(psnr) if psnr in (math.inf, -math.inf) else psnr,
            "max_pointwise": _finite(points.pointwise_max) if points.valid > points.zeros else None,
        }


def _psnr(extent: float, rmse: float) -> float | None:
    """Return 20 log10(extent / rmse): infinite without an error, minus infinite without a range."""
    if not math.isfinite(extent):
        return None
    if not rmse:
        return math.inf
    return 20 * (math.log10(extent) - math.log10(rmse)) if extent else -math.inf


def _finite(value: float | None) -> float | None:
    """Return a number that JSON can hold, or None."""
    return value if value is not None and math.isfinite(value) else None


def _place_at(start: Place, chunks: Place) -> Place:
    """Return the place of a chunk in the grid of chunks."""
    return tuple(s // c for s, c in zip(start, chunks, strict=True))

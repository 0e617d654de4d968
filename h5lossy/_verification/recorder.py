# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Checks chunks as they are written, and records the results (`records`)."""

from __future__ import annotations

import itertools
import math
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from h5lossy import _native
from h5lossy._blocks import grid_of, listed_chunks
from h5lossy._bounds import BoundKind, ErrorBound
from h5lossy._datasets import codec_of
from h5lossy._errors import (
    BoundViolationError,
    H5LossyError,
    InvalidArgumentError,
    UnsupportedError,
)
from h5lossy._libhdf5 import stored_size
from h5lossy._names import name_of
from h5lossy._stored import StoredChunks
from h5lossy._values import own_fill_value, unwritten_value
from h5lossy._verification.bound_checker import BoundChecker
from h5lossy._verification.hashes import Hashes, hash_chunks
from h5lossy._verification.records import (
    MOST_HASH_BYTES,
    SCHEMA,
    Place,
    Record,
    description,
    read_record,
    strides_of,
)
from h5lossy.missing import no_data

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import h5py
    import numpy.typing as npt

    from h5lossy.missing import Missing

#: Squares of errors between these, and sums of many, fit in float64 without loss.
_SMALLEST_ERROR, _LARGEST_ERROR = 2.0**-400, 2.0**400


class Recorder:
    """Checks chunks with a `BoundChecker`, and hashes their decoded values.

    Bound and missing values are by default those of the dataset. A range-relative bound uses each
    chunk's own range, which is never looser. `target` are the whole chunks that are going to be
    written; without it, all chunks are, and no part of an earlier record stays valid.
    """

    def __init__(
        self,
        dataset: h5py.Dataset,
        bound: ErrorBound | None = None,
        threads: int | None = None,
        missing: Missing | None = None,
        target: tuple[slice, ...] = (),
    ) -> None:
        codec = codec_of(dataset)
        if codec is None:
            raise InvalidArgumentError(
                f"{name_of(dataset)} is not compressed by h5lossy, so there is nothing to verify"
            )
        self._dataset = dataset
        # The filter keeps this fill value; missing and exact values are compared here.
        missing = missing or no_data(dataset, missing_value=codec.params().exact)
        if dataset.dtype.kind != "c":  # unequal components are possible, which only lossless keeps
            missing = missing.with_fill(own_fill_value(dataset))
        self._checker_of = partial(
            BoundChecker, missing=missing, threads=threads, safeguards=codec.safeguards
        )
        self.checker = self._checker_of(bound or codec.bound)
        self._unwritten = unwritten_value(dataset)
        self._of = description(dataset, codec, self._unwritten)
        self._strides = strides_of(dataset)
        self._chunks: Place = dataset.chunks
        self._hashes: dict[Place, int] = {}
        self._is_checked = True
        self._threads = threads or _native.default_threads()
        #: Hashes of the chunks that are going to be replaced, if a hash covers several chunks.
        self._replaced = dict(self._recorded_in(target)) if target else {}

    def add(self, start: Place, original: npt.NDArray[Any], decoded: npt.NDArray[Any]) -> None:
        """Check a block of whole chunks, those at the dataset's edge without padding."""
        self._is_checked = False
        is_of_chunks = self.checker.bound.kind is BoundKind.RANGE_RELATIVE
        if not is_of_chunks:
            self.checker.add(start, original, decoded)
        chunks = self._chunks
        corners = [range(0, n, c) for n, c in zip(original.shape, chunks, strict=True)]
        places = []
        rows = np.empty((math.prod(map(len, corners)), *chunks), decoded.dtype)
        for row, corner in zip(rows, itertools.product(*corners), strict=True):
            inside = tuple(slice(i, i + c) for i, c in zip(corner, chunks, strict=True))
            first = tuple(s + i for s, i in zip(start, corner, strict=True))
            part = decoded[inside]
            if is_of_chunks:
                self.checker.add(first, original[inside], part)
            if part.shape != chunks:
                row[...] = self._unwritten
            row[tuple(map(slice, part.shape))] = part
            places.append(tuple(s // c for s, c in zip(first, chunks, strict=True)))
        self._hashes |= zip(places, self._hash(rows, places), strict=True)

    def _hash(self, rows: npt.NDArray[Any], places: list[Place]) -> list[int]:
        at = np.array(places, np.uint64).reshape(len(places), len(self._chunks))
        flat = rows.reshape(len(places), -1)
        return [*map(int, hash_chunks(flat, at, self._unwritten, self._threads))]

    def check(self) -> None:
        """Raise `BoundViolationError` if anything added so far violates the bound."""
        self._is_checked = True
        self._require_kept(self.checker)

    def check_part(
        self,
        bound: ErrorBound,
        start: Place,
        original: npt.NDArray[Any],
        decoded: npt.NDArray[Any],
    ) -> None:
        """Do the same for a part of what was added, with a smaller bound."""
        checker = self._checker_of(bound)
        checker.add(start, original, decoded)
        self._require_kept(checker)

    def _require_kept(self, checker: BoundChecker) -> None:
        problems = checker.summary().problems
        if problems:
            raise BoundViolationError(
                f"{name_of(self._dataset)} violates its bound: {'; '.join(problems)}"
            )

    def finish(self) -> dict[str, Any]:
        """Check what was added last, write the record, and return its report."""
        if not self._is_checked:
            self.check()
        # Hashes of chunks that were not added stay; results for the whole dataset do not.
        is_whole = not self._are_others_stored(())
        record = None if is_whole else self._earlier()
        if record is None:
            size = 1 << (17 * len(self._hashes) // MOST_HASH_BYTES).bit_length()
            report = {"written": 0, "complete": is_whole, "strides": self._strides}
            record = Record(report, Hashes(size))
            self._replaced = dict.fromkeys(self._hashes, 0)
        else:
            self._drop_resized(record)
        self._add_to(record)
        hashes = record.hashes.cut(MOST_HASH_BYTES)
        bound = self.checker.bound
        report = {
            "schema": SCHEMA,
            "h5lossy": _native.version(),
            "bound": bound.plain(),
            "dataset": self._of,
            "strides": self._strides,
            "written": record.report["written"],
            "complete": record.report["complete"],
            "chunks_per_hash": hashes.size,
            "found": self._found() if is_whole else None,
        }
        Record(report, hashes).write(self._dataset)
        return report

    def _earlier(self) -> Record | None:
        """Return the record in the file, if it is of this dataset, of whatever shape."""
        try:
            found = read_record(self._dataset)
        except (InvalidArgumentError, UnsupportedError):
            return None
        if found is None or found.report["strides"] != self._strides:
            return None
        return found if found.of | {"shape": None} == self._of | {"shape": None} else None

    def _are_others_stored(self, same: Sequence[int]) -> bool:
        """Return whether the file has chunks that were not added, except the first `same` ones."""
        known = math.prod(same) if same else 0
        listed = listed_chunks(self._dataset, len(self._hashes) + known + 1)
        places = listed.places // self._chunks
        if same:
            places = places[(places >= same).any(axis=1)]
        return not self._hashes.keys() >= set(map(tuple, places.tolist()))

    def _drop_resized(self, record: Record) -> None:
        """Remove hashes of resized chunks that were not added; return whether some have none."""
        axes = [*zip(record.of["shape"], self._of["shape"], self._chunks, strict=True)]
        # The first chunks along each axis, up to this number, are unchanged.
        same = [-(-b // c) if b == a else min(b, a) // c for b, a, c in axes]
        for place in self._resized(record, same, [-(-b // c) for b, _, c in axes]):
            self._drop(record, place)
        new = next(self._others(same, grid_of(self._dataset)), None)
        if new is not None and self._are_others_stored(same):
            record.report["complete"] = False

    def _resized(self, record: Record, same: Sequence[int], grid: Sequence[int]) -> Iterator[Place]:
        """Yield the places that `_others` yields, or those of them that have a hash."""
        count = math.prod(grid) - math.prod(map(min, same, grid))
        if count <= record.hashes.count or record.hashes.size > 1:
            yield from self._others(same, grid)
            return
        # A dataset may have had far more places than chunks.
        for place in [record.place(number) for number, _ in record.hashes.items()]:
            is_same = all(map(int.__lt__, place, same))
            if not is_same and place not in self._hashes:
                yield place

    def _others(self, same: Sequence[int], grid: Sequence[int]) -> Iterator[Place]:
        """Yield the places that were not added, except the first `same` ones along each axis."""
        for axis in range(len(grid)):
            ranges = [*map(range, same[:axis]), range(same[axis], grid[axis])]
            ranges += map(range, grid[axis + 1 :])
            for place in _places(ranges) if all(ranges) else ():
                if place not in self._hashes:
                    yield place

    def _add_to(self, record: Record) -> None:
        """Put the hashes of added chunks into a record, in place of those of the same chunks."""
        report, hashes, unknown = record.report, record.hashes, set()
        for place in sorted(self._hashes):
            number, value = record.number(place), self._hashes[place]
            old = hashes.get(number) if hashes.size == 1 else self._replaced.get(place)
            if old is None:
                # It could not be decoded, or another thread has made the groups larger meanwhile.
                self._drop(record, place)
                unknown.add(number // hashes.size)
                report["complete"] = False
            elif number // hashes.size not in unknown:
                hashes.add(number, value - old)
                report["written"] += bool(value) - bool(old)

    def _drop(self, record: Record, place: Place) -> None:
        """Remove the hash of a chunk's group from a record."""
        number, hashes = record.number(place), record.hashes
        value = hashes.get(number)
        if value:
            hashes.add(number, -value)
            record.report["written"] = max(0, record.report["written"] - hashes.size)

    def _recorded_in(self, target: tuple[slice, ...]) -> Iterator[tuple[Place, int]]:
        """Decode a part of the dataset, and yield the hashes that groups hold of its chunks."""
        axes = (
            range(axis.start // c, -(-axis.stop // c))
            for axis, c in zip(target, self._chunks, strict=True)
        )
        stored: list[tuple[Place, Place]] = []
        for place in itertools.product(*axes):
            start = tuple(p * c for p, c in zip(place, self._chunks, strict=True))
            if stored_size(self._dataset.id.id, start) is None:
                yield place, 0
            else:
                stored.append((place, start))
        record = self._earlier() if stored else None
        if record is None or record.hashes.size == 1:  # then each chunk has its own hash
            return
        chunks = StoredChunks(self._dataset)
        for place, start in stored:
            row = np.full((1, *self._chunks), self._unwritten)
            with suppress(H5LossyError, OSError, RuntimeError, ValueError):  # it is left out
                if record.hashes.get(record.number(place)):
                    # As large as it was when it was recorded.
                    inside = [
                        slice(max(0, n - s)) for n, s in zip(record.of["shape"], start, strict=True)
                    ]
                    values = chunks.values(start)[tuple(inside)]
                    row[0][tuple(map(slice, values.shape))] = values
                yield place, self._hash(row, [place])[0]

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


def _places(axes: Sequence[range]) -> Iterator[Place]:
    """Yield the same as `itertools.product`, without a tuple of each whole axis."""
    if not axes:
        yield ()
        return
    for first in axes[0]:
        for others in _places(axes[1:]):
            yield (first, *others)


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

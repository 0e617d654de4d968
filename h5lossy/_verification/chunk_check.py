# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Whether the chunks of a dataset can be decoded, and are those that its record is about."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from h5lossy._blocks import chunk_starts, grid_of
from h5lossy._bounds import BoundKind, ErrorBound
from h5lossy._errors import H5LossyError, InvalidArgumentError, UnsupportedError
from h5lossy._frames import inspect
from h5lossy._public import name_publicly
from h5lossy._stored import StoredChunks
from h5lossy._values import unwritten_value
from h5lossy._verification.records import (
    Hashes,
    Place,
    description,
    group_hash,
    hash_unless,
    number_of,
    place_of,
    read_record,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import h5py
    import numpy.typing as npt

    from h5lossy._datasets import DatasetInfo
    from h5lossy._frames import FrameInfo


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What is wrong with one chunk, or a group of chunks that share a hash.

    Attributes
    ----------
    chunk : tuple of int or None
        Place of the chunk in the grid of chunks; of the first one, in a group. None: the dataset.
    why : str
    """

    chunk: Place | None
    why: str


class _Chunk(NamedTuple):
    """What was found of one chunk: its number in the grid, and the hash of its values, if any."""

    number: int
    value_hash: int | None
    has_checksum: bool
    is_damaged: bool


class ChunkCheck:
    """Decodes the chunks of a dataset, and compares them with its record.

    Attributes
    ----------
    chunks, recorded : int
        Number of decoded chunks, and of those that match the record.
    is_readable : bool
        Whether all chunks can be decoded, and none is lost.
    problems, outdated : list of Problem
    record : dict or None
    """

    def __init__(self, dataset: h5py.Dataset, described: DatasetInfo) -> None:
        self._dataset = dataset
        self._described = described
        self._grid = grid_of(dataset)
        self.chunks = self.recorded = self._done = 0
        self.is_readable = True
        self.problems: list[Problem] = []
        self.outdated: list[Problem] = []
        self.record: dict[str, Any] | None = None
        self._hashes: Hashes | None = None
        self._unwritten = np.zeros(())
        try:
            self._read_record()
        except InvalidArgumentError as error:
            self.problem(None, str(error))
        except UnsupportedError as error:
            self._note(self.outdated, None, str(error))

    def problem(self, chunk: Place | None, why: str) -> None:
        """Note what is wrong."""
        self._note(self.problems, chunk, why)

    @staticmethod
    def _note(where: list[Problem], chunk: Place | None, why: str) -> None:
        """Add a problem, its reason in one line."""
        where.append(Problem(chunk=chunk, why=" ".join(why.split())))

    def _read_record(self) -> None:
        """Read the record, and compare what it says of its dataset."""
        found = read_record(self._dataset)
        if found is None:
            return
        self.record, hashes = found
        dataset, described = self._dataset, self._described
        then, now = self.record["dataset"], description(described, unwritten_value(dataset))
        if described.chunks_stored == math.prod(self._grid):
            now["unwritten"] = then["unwritten"]  # not used; some programs drop the fill value
        if then == now:
            self._hashes = hashes
            little = dataset.dtype.newbyteorder("<")
            nothing = np.frombuffer(bytes.fromhex(then["unwritten"]), little)[0]
            self._unwritten = np.array(nothing, dataset.dtype)
            return
        others = [
            f"{name} {then.get(name)}, now {value}"
            for name, value in now.items()
            if then.get(name) != value
        ]
        self._note(self.outdated, None, f"the record is of other data: {'; '.join(others)}")

    def run(self, report_bytes: Callable[[int], object]) -> None:
        """Decode all stored chunks, and compare them; `report_bytes` takes those done."""
        stored = StoredChunks(self._dataset)
        size = self._hashes.chunks_per_hash if self._hashes else 1
        seen = set()
        starts = sorted(chunk_starts(self._dataset))
        found = (self._chunk(stored, start, report_bytes) for start in starts)
        for group, members in itertools.groupby(found, lambda chunk: chunk.number // size):
            seen.add(group)
            self._group(group, list(members))
        self._look_for_lost(seen, size, len(starts))

    def _chunk(
        self, stored: StoredChunks, start: Place, report_bytes: Callable[[int], object]
    ) -> _Chunk:
        """Decode a chunk, and note what is wrong with it."""
        self.chunks += 1
        place = tuple(s // c for s, c in zip(start, self._described.chunks, strict=True))
        number = number_of(place, self._grid)
        try:
            values, bytes_of_frame, is_filtered = stored.read(start)
            frame = inspect(bytes_of_frame) if bytes_of_frame is not None else None
        except (H5LossyError, OSError, RuntimeError, ValueError) as error:
            self.is_readable = False
            self.problem(place, str(error))
            return _Chunk(number, None, has_checksum=True, is_damaged=True)
        self._done += values.nbytes
        report_bytes(self._done)
        violation = _violation(frame, values, self._described.bound) if frame else ""
        if violation:
            self.problem(place, violation)
        has_checksum = frame.checksum if frame else is_filtered and self._described.checksum
        value_hash = None if self._hashes is None else hash_unless(values, self._unwritten)
        return _Chunk(number, value_hash, has_checksum, is_damaged=bool(violation))

    def _group(self, group: int, members: list[_Chunk]) -> None:
        """Compare the hash of a group of chunks with the recorded one."""
        if self._hashes is None or self.record is None:
            return
        if any(chunk.is_damaged for chunk in members):
            return
        size = self._hashes.chunks_per_hash
        written = [(c.number, c.value_hash) for c in members if c.value_hash is not None]
        found = group_hash(written, size) if written else None
        wanted = self._hashes.by_group.get(group)
        if wanted is None and not self.record["complete"]:
            return  # they were written without verify=True
        if found == wanted:
            self.recorded += len(members)
            return
        first, others = place_of(members[0].number, self._grid), len(members) - 1
        which = f"or one of the {others} after it differs" if others else "differs"
        if all(chunk.has_checksum for chunk in members):
            self._note(
                self.outdated,
                first,
                f"{which} from the record, and is intact: changed after the record was made",
            )
        else:
            self.problem(first, f"{which} from the record, and has no checksum: damaged or changed")

    def _look_for_lost(self, seen: set[int], size: int, stored: int) -> None:
        """Note groups of `size` chunks that have a hash and are not among those `seen`."""
        if self._hashes is None or self.record is None:
            return
        lost = sorted(self._hashes.by_group.keys() - seen)
        for group in lost:
            which = "" if size == 1 else f"and the {size - 1} after it "
            self.problem(place_of(group * size, self._grid), f"{which}lost: not in the file")
        fewer = self.record["written"] - stored
        if fewer > 0 and not lost:
            self.problem(None, f"chunks are lost: at least {fewer} of {self.record['written']}")
        self.is_readable &= not lost and fewer <= 0


def _violation(frame: FrameInfo, values: npt.NDArray[Any], bound_of_dataset: ErrorBound) -> str:
    """Return why a frame violates the dataset's bound; an empty string if it does not."""
    if frame.codec == "stored":  # exact, and without a bound if it has no type
        return ""
    kind, bound = frame.bound.kind, frame.requested_bound
    if kind not in {bound_of_dataset.kind, BoundKind.LOSSLESS} or bound > bound_of_dataset.value:
        return f"its frame was made with {kind} {bound!r}, and the dataset says {bound_of_dataset}"
    largest = math.inf
    if kind is BoundKind.ABSOLUTE:
        largest = 2 * bound
    elif kind is BoundKind.POINTWISE_RELATIVE:  # bins are an odd number of units in the last place
        largest = 2 * bound + float(np.finfo(frame.dtype).eps)
    elif kind is BoundKind.RANGE_RELATIVE:
        finite = values[np.isfinite(values)]
        # The range of the original may be larger by one error at each end.
        extent = float(finite.max()) - float(finite.min()) if finite.size else 0.0
        largest = 2 * bound * (extent + frame.step) * (1 + 1e-9)
    if frame.step > largest:
        return f"its bins are {frame.step!r} wide, which its own bound of {bound!r} does not allow"
    return ""


name_publicly(__name__)

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Proof that a dataset still holds what was written, and that this was within its bound.

When a dataset is written with ``verify="write"``, each chunk is decoded again while its original
is at hand, and judged. What is found stands in two attributes of the dataset: `REPORT_ATTRIBUTE`,
JSON with the largest error and other sums, and `HASH_ATTRIBUTE`, a hash of the decoded values of
each chunk. As every decoder gives the same bits on every machine, `verify` can tell later that what
was judged is still what is read, without the original.
"""

from __future__ import annotations

import bisect
import hashlib
import itertools
import json
import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from h5lossy import _native
from h5lossy._blocks import chunk_starts
from h5lossy._values import fill_bits, is_big_endian, own_fill_value
from h5lossy.bounds import BoundKind, ErrorBound, exact_limits
from h5lossy.datasets import describe
from h5lossy.errors import BrokenPromiseError, H5LossyError, InvalidArgumentError
from h5lossy.frames import decode, inspect
from h5lossy.missing import missing_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import h5py
    import numpy.typing as npt

    from h5lossy.assessment.report import Report
    from h5lossy.datasets import DatasetInfo
    from h5lossy.missing import Changes, Missing

#: What was found when the dataset was written: JSON.
REPORT_ATTRIBUTE = "h5lossy_report"

#: Hashes of the decoded values, in the order of the chunks.
HASH_ATTRIBUTE = "h5lossy_hashes"

SCHEMA = "h5lossy.verification/1"

#: More chunks share a hash, so that the attribute stays below HDF5's 64 KiB for old files.
MOST_HASHES = 4096

#: A chunk that has no hash: nobody has verified it.
_NO_HASH = 0

Place = tuple[int, ...]


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


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What `verify` found for one dataset.

    Attributes
    ----------
    path : str
    codec : str or None
        None if h5lossy did not compress it; then nothing was checked.
    bound : ErrorBound or None
    chunks : int
        Chunks that were decoded.
    recorded : int
        Chunks whose decoded values have the hash that was recorded.
    problems : tuple of Problem
    record : dict or None
        What was found when the dataset was written, if that was verified.
    report : Report or None
        Of the comparison with the original, where there is one.
    """

    path: str
    codec: str | None = None
    bound: ErrorBound | None = None
    chunks: int = 0
    recorded: int = 0
    problems: tuple[Problem, ...] = ()
    record: dict[str, Any] | None = None
    report: Report | None = field(default=None, repr=False)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems and (self.report is None or self.report.ok)


def hash_values(values: npt.NDArray[Any]) -> int:
    """Return a 64-bit hash of values, the same on every machine; never 0.

    Parameters
    ----------
    values : numpy.ndarray
        float32 or float64, of any byte order.

    Returns
    -------
    int
        BLAKE2b of the little-endian bytes in C order, cut to 8 bytes.
    """
    little = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    digest = hashlib.blake2b(little.view(np.uint8).data, digest_size=8).digest()
    return int.from_bytes(digest, "little") or 1


class Recorder:
    """Judges chunks as they are written, and records what it found.

    Parameters
    ----------
    dataset : h5py.Dataset
        Compressed by h5lossy.
    bound : ErrorBound, optional
        What to judge by. Default: what the dataset says. A range-relative one is taken of each
        chunk's own range, which is never looser.
    threads : int, optional
    missing : Missing, optional
        Which values are no data. Default: what the dataset says.
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
        self._bound = bound or described.bound
        self._dtype = described.dtype
        # The fill value that the filter knows; all others are compared here.
        fill_value = own_fill_value(dataset)
        self._missing = (missing or missing_of(dataset)).with_fill(fill_value)
        self._missing_changed = _MissingChanged()
        self._fill = fill_bits(fill_value, described.dtype)
        self._threads = threads or 0
        self._state = _native.AssessState(self._limited(None))
        self._hashes: dict[Place, int] = {}
        self._starts: list[int] = []
        self._boxes: list[tuple[Place, tuple[int, ...]]] = []
        self._next = 0

    def add(self, start: Place, original: npt.NDArray[Any], decoded: npt.NDArray[Any]) -> None:
        """Judge one chunk.

        Parameters
        ----------
        start : tuple of int
            Where the chunk begins in the dataset.
        original, decoded : numpy.ndarray
            Of the dataset's type; the part of the chunk that is inside of the dataset.

        Raises
        ------
        BrokenPromiseError
            If a value breaks the bound, or a special value changed.
        """
        original = np.ascontiguousarray(original, self._dtype)
        decoded = np.ascontiguousarray(decoded, self._dtype)
        self._starts.append(self._next)
        self._boxes.append((start, original.shape))
        state = self._state
        if self._bound.kind is BoundKind.RANGE_RELATIVE:  # each chunk has a limit of its own
            state = _native.AssessState(self._limited(original))
        mask = None
        if self._missing.has_more:
            mask = self._missing.missing(original).reshape(-1).view(np.uint8)
            self._missing_changed.add(self._next, self._missing.changes(original, decoded))
        state.points(self._next, original.reshape(-1), decoded.reshape(-1), mask)
        if state is not self._state:
            self._state.merge(state)
        self._next += original.size
        place = tuple(s // c for s, c in zip(start, self._described.chunks, strict=True))
        self._hashes[place] = hash_values(decoded)

    def add_block(
        self,
        block: tuple[slice, ...],
        original: npt.NDArray[Any],
        decoded: npt.NDArray[Any],
    ) -> None:
        """Judge the chunks of a block.

        Parameters
        ----------
        block : tuple of slice
            Whole chunks of the dataset.
        original, decoded : numpy.ndarray
            Its values.

        Raises
        ------
        BrokenPromiseError
            If a value breaks the bound, or a special value changed.
        """
        chunks = self._described.chunks
        steps = (range(b.start, b.stop, c) for b, c in zip(block, chunks, strict=True))
        for start in itertools.product(*steps):
            inside = tuple(
                slice(s - b.start, min(s + c, b.stop) - b.start)
                for s, b, c in zip(start, block, chunks, strict=True)
            )
            self.add(start, original[inside], decoded[inside])

    def _limited(self, original: npt.NDArray[Any] | None) -> _native.AssessParams:
        """Return the parameters; a range-relative bound is taken of a chunk's own range."""
        extent = Fraction(0)
        if original is not None:
            params = _native.Params(
                value_bytes=self._dtype.itemsize,
                big_endian=is_big_endian(self._dtype),
                fill_bits=self._fill,
            )
            data = self._missing.blanked(original)
            low, high = _native.value_range(params, data) or (0.0, 0.0)
            extent = Fraction(high) - Fraction(low)
        kind, limit, half_limit = exact_limits(self._bound, extent)
        return _native.AssessParams(
            value_bytes=self._dtype.itemsize,
            original_big_endian=is_big_endian(self._dtype),
            decoded_big_endian=is_big_endian(self._dtype),
            fill_bits=self._fill,
            bound_kind=kind,
            limit=limit,
            half_limit=half_limit,
            threads=self._threads,
        )

    def _place(self, number: int) -> tuple[int, ...]:
        """Return the coordinates of a point by the number that it was given as."""
        i = bisect.bisect_right(self._starts, number) - 1
        start, shape = self._boxes[i]
        inside = np.unravel_index(number - self._starts[i], shape)
        return tuple(int(s + o) for s, o in zip(start, inside, strict=True))

    def check(self) -> None:
        """Raise if anything that was added so far breaks a promise.

        Raises
        ------
        BrokenPromiseError
        """
        points = self._state.points_result()
        changed = {
            kind: count
            for kind, count in points.special.items()
            if count and not kind.endswith("_kept")
        }
        missing = self._missing_changed
        if not points.violations and not changed and not missing.count:
            return
        what = []
        if missing.count:
            what.append(
                f"missing or not valid before or after, but not both alike: {missing.count}, the "
                f"first at {self._place(missing.first)}"
            )
        if points.violations:
            first = points.listed[0]
            what.append(
                f"{points.violations} of {points.valid} values are off by more than {self._bound}, "
                f"the first at {self._place(first.at)}: {first.original!r} became {first.decoded!r}"
            )
        for kind, count in changed.items():
            at = self._place(points.special_first[kind])
            what.append(f"{kind.replace('_', ' ')}: {count}, the first at {at}")
        raise BrokenPromiseError(f"{self._dataset.name} breaks its promise: {'; '.join(what)}")

    def finish(self) -> dict[str, Any]:
        """Check once more, and write the record.

        A part of the chunks may have been added; hashes of the others stay, and what was found for
        the whole dataset does not.

        Returns
        -------
        dict
            The record.
        """
        self.check()
        dataset = self._dataset
        grid = grid_of(dataset)
        stored = {
            tuple(s // c for s, c in zip(start, dataset.chunks, strict=True))
            for start in chunk_starts(dataset)
        }
        whole = stored <= self._hashes.keys()
        group = max(1, -(-math.prod(grid) // MOST_HASHES))
        if not whole and group > 1:
            raise InvalidArgumentError(
                f"{dataset.name} has {math.prod(grid)} chunks: of more than {MOST_HASHES} all have "
                "to be written in one call to be verified"
            )
        hashes = np.zeros(grid, np.uint64) if whole else _earlier_hashes(dataset, grid)
        for place, value in self._hashes.items():
            hashes[place] = value
        grouped = group_hashes(hashes.reshape(-1), group)
        record: dict[str, Any] = {
            "schema": SCHEMA,
            "h5lossy": _native.version(),
            "bound": {"kind": str(self._bound.kind), "value": self._bound.value},
            "grid": list(grid),
            "shape": list(dataset.shape),
            "chunks_per_hash": group,
            "hash": "blake2b-64 of the decoded values of a chunk, little-endian",
            "found": self._summary() if whole else None,
        }
        attributes: dict[str, Any] = {REPORT_ATTRIBUTE: json.dumps(record), HASH_ATTRIBUTE: grouped}
        for name, content in attributes.items():
            if name in dataset.attrs:
                del dataset.attrs[name]
            dataset.attrs[name] = content
        return record

    def _summary(self) -> dict[str, Any]:
        from h5lossy.assessment import _numbers as numbers  # noqa: PLC0415
        from h5lossy.assessment._walk import Layout  # noqa: PLC0415

        points = self._state.points_result()
        undefined = numbers.Undefined()
        layout = Layout.of((max(1, points.count),))
        errors = numbers.errors(points, layout, None, undefined)

        def plain(value: float | None) -> float | str | None:
            return str(value) if value is not None and math.isinf(value) else value

        return {
            "points": points.count,
            "valid": points.valid,
            "special": {kind: n for kind, n in points.special.items() if n},
            "violations": points.violations,
            "max_abs": errors.max_abs,
            "max_at": list(self._place(points.worst.at)) if points.valid else None,
            "rmse": errors.rmse,
            "mean": errors.mean,
            "psnr": plain(errors.psnr),
            "max_pointwise": plain(errors.pointwise.max),
        }


@dataclass
class _MissingChanged:
    """Points that were missing, or became so: how many, and the first one's number."""

    count: int = 0
    first: int = 0

    def add(self, start: int, changes: Changes) -> None:
        changed = (changes.lost | changes.made).reshape(-1)
        count = int(np.count_nonzero(changed))
        if count and not self.count:
            self.first = start + int(changed.argmax())
        self.count += count


def record(
    dataset: h5py.Dataset,
    original: Any,
    *,
    bound: ErrorBound | None = None,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Decode a dataset that has just been written, judge it by its original, and record that.

    Parameters
    ----------
    dataset : h5py.Dataset
        Compressed by h5lossy, open for writing.
    original : array-like
        What was written: anything with the dataset's shape that can be cut like an array.
    bound : ErrorBound, optional
        What to judge by. Default: what the dataset says.
    progress : function, optional
        Called with the number of bytes after each chunk.

    Returns
    -------
    dict
        The record, as it stands in the dataset's attribute.

    Raises
    ------
    BrokenPromiseError
        If a value breaks the bound, or a special value changed.
    """
    dataset.flush()
    recorder = Recorder(dataset, bound)
    for chunk in chunks_of(dataset):
        values = chunk.values()
        recorder.add(chunk.start, np.asarray(original[chunk.selection], dataset.dtype), values)
        if progress is not None:
            progress(values.nbytes)
    return recorder.finish()


@dataclass(frozen=True)
class Chunk:
    """One chunk of a dataset; read as it is in the file, past HDF5's cache, where that can be."""

    dataset: h5py.Dataset
    start: Place
    is_stored: bool
    is_plain: bool  # h5lossy's filter alone made it

    @property
    def place(self) -> Place:
        """Where it stands in the grid of chunks."""
        return tuple(s // c for s, c in zip(self.start, self.dataset.chunks, strict=True))

    @property
    def selection(self) -> tuple[slice, ...]:
        """Its part of the dataset."""
        return tuple(
            slice(s, min(s + c, n))
            for s, c, n in zip(self.start, self.dataset.chunks, self.dataset.shape, strict=True)
        )

    def frame(self) -> bytes | None:
        """Read its frame; None where there is none, or other filters stand before it."""
        if not (self.is_stored and self.is_plain):
            return None
        mask, frame = self.dataset.id.read_direct_chunk(self.start)
        return None if mask else frame

    def values(self, frame: bytes | None = None) -> npt.NDArray[Any]:
        """Decode it."""
        frame = self.frame() if frame is None else frame
        if frame is None:
            return np.asarray(self.dataset[self.selection])
        decoded = decode(frame)
        if decoded.dtype.itemsize == 1:  # the encoder was not told the type
            decoded = decoded.view(self.dataset.dtype)
        whole: npt.NDArray[Any] = decoded.reshape(self.dataset.chunks)
        inside: npt.NDArray[Any] = whole[tuple(slice(0, s.stop - s.start) for s in self.selection)]
        return inside


def chunks_of(dataset: h5py.Dataset) -> Iterator[Chunk]:
    """Go through all chunks of a dataset, those that are not in the file too, in C order."""
    stored = set(chunk_starts(dataset))
    is_plain = dataset.id.get_create_plist().get_nfilters() == 1
    ranges = (range(0, n, c) for n, c in zip(dataset.shape, dataset.chunks, strict=True))
    for start in itertools.product(*ranges):
        yield Chunk(dataset, start, start in stored, is_plain)


def grid_of(dataset: h5py.Dataset) -> tuple[int, ...]:
    """Return the number of chunks along each axis."""
    return tuple(-(-n // c) for n, c in zip(dataset.shape, dataset.chunks, strict=True))


def group_hashes(hashes: npt.NDArray[np.uint64], group: int) -> npt.NDArray[np.uint64]:
    """Return one hash for each `group` of chunks, in their order; 0 where one of them has none."""
    if group == 1:
        return hashes.copy()
    out = []
    for first in range(0, len(hashes), group):
        part = hashes[first : first + group]
        digest = hashlib.blake2b(part.astype("<u8").tobytes(), digest_size=8).digest()
        out.append((int.from_bytes(digest, "little") or 1) if part.all() else _NO_HASH)
    return np.array(out, np.uint64)


def _earlier_hashes(dataset: h5py.Dataset, grid: tuple[int, ...]) -> npt.NDArray[np.uint64]:
    """Return the hashes that are recorded, for a dataset that may have grown since."""
    hashes = np.zeros(grid, np.uint64)
    found = read_record(dataset)
    if found is None:
        return hashes
    earlier, values = found
    if earlier["chunks_per_hash"] != 1 or len(earlier["grid"]) != len(grid):
        return hashes
    old = values.reshape(earlier["grid"])
    common = tuple(slice(0, min(a, b)) for a, b in zip(old.shape, grid, strict=True))
    hashes[common] = old[common]
    # Chunks at the edge of then have more values now.
    for axis, (then, now) in enumerate(zip(earlier["shape"], dataset.shape, strict=True)):
        if then != now and old.shape[axis] and min(then, now) % dataset.chunks[axis]:
            edge = [slice(None)] * len(grid)
            last = min(then, now) // dataset.chunks[axis]
            edge[axis] = slice(last, last + 1)
            hashes[tuple(edge)] = _NO_HASH
    return hashes


def read_record(dataset: h5py.Dataset) -> tuple[dict[str, Any], npt.NDArray[np.uint64]] | None:
    """Read what was recorded when a dataset was written.

    Parameters
    ----------
    dataset : h5py.Dataset

    Returns
    -------
    tuple, or None
        The record and the hashes; None where there is none.

    Raises
    ------
    InvalidArgumentError
        If it makes no sense, or a later version wrote it.
    """
    if REPORT_ATTRIBUTE not in dataset.attrs or HASH_ATTRIBUTE not in dataset.attrs:
        return None
    try:
        found = json.loads(dataset.attrs[REPORT_ATTRIBUTE])
        hashes = np.asarray(dataset.attrs[HASH_ATTRIBUTE], np.uint64).reshape(-1)
        count = -(-math.prod(found["grid"]) // found["chunks_per_hash"])
        sound = found["schema"] == SCHEMA and len(hashes) == count
    except (ValueError, TypeError, KeyError, ArithmeticError) as error:
        raise InvalidArgumentError(
            f"the record of {dataset.name} can't be read: {error!r}"
        ) from error
    if not sound:
        raise InvalidArgumentError(
            f"the record of {dataset.name} is not one of {SCHEMA!r}, or has lost hashes"
        )
    return found, hashes


def verify(
    dataset: h5py.Dataset,
    *,
    against: Any = None,
    progress: Callable[[int], None] | None = None,
) -> Verification:
    """Check that a dataset can be decoded and still holds what was verified when it was written.

    Every frame is decoded after its checksum has been checked, its bound is compared with the
    dataset's, and the decoded values with the recorded hash, if there is one. No original is
    needed.

    Parameters
    ----------
    dataset : h5py.Dataset
        Any dataset; if h5lossy did not compress it, nothing is checked.
    against : optional
        The original, as `assess` takes it: it is compared value by value, too, with the bound that
        the file says, if all of the dataset can be decoded.
    progress : function, optional
        Called with the number of bytes after each chunk; and, with `against`, with as many again
        while they are compared.

    Returns
    -------
    Verification

    Examples
    --------
    >>> import h5py, h5lossy, numpy as np
    >>> codec = h5lossy.PFPL(absolute=0.5)
    >>> with h5py.File("a.h5", "w", driver="core", backing_store=False) as f:
    ...     t = f.create_dataset("t", (100,), "f4", chunks=(64,), compression=codec)
    ...     h5lossy.write(t, np.arange(100.0), verify="write")
    ...     found = h5lossy.verify(t)
    >>> found.ok, found.chunks, found.recorded
    (True, 2, 2)
    """
    described = describe(dataset)
    if described is None:
        return Verification(path=dataset.name)
    check = _Check(dataset, described)
    check.run(progress)
    report = None
    if against is not None and not check.is_readable:
        check.problem(None, "not compared with the original: not all of it can be decoded")
    elif against is not None:
        from h5lossy.assessment import assess  # noqa: PLC0415

        compared = 0

        def tell(done: int, total: int) -> None:
            nonlocal compared
            if progress is not None and total:
                now = dataset.nbytes * done // total
                progress(now - compared)
                compared = now

        report = assess(against, dataset, progress=tell)
    return Verification(
        path=dataset.name,
        codec=described.codec,
        bound=described.bound,
        chunks=check.chunks,
        recorded=check.recorded,
        problems=tuple(check.problems),
        record=check.record,
        report=report,
    )


class _Check:
    """Goes through the chunks of a dataset and compares them with its record."""

    def __init__(self, dataset: h5py.Dataset, described: DatasetInfo) -> None:
        self._dataset = dataset
        self._described = described
        self.chunks = self.recorded = 0
        self.is_readable = True
        self.problems: list[Problem] = []
        self.record: dict[str, Any] | None = None
        self._hashes: npt.NDArray[np.uint64] | None = None
        self._group: list[int] = []
        self._first: Place = ()
        try:
            self._read_record()
        except InvalidArgumentError as error:
            self.problem(None, str(error))

    def problem(self, chunk: Place | None, why: str) -> None:
        """Note what is wrong."""
        self.problems.append(Problem(chunk=chunk, why=" ".join(why.split())))

    def _read_record(self) -> None:
        found = read_record(self._dataset)
        if found is None:
            return
        self.record, self._hashes = found
        if tuple(self.record["shape"]) == self._dataset.shape:
            return
        self._hashes = _earlier_hashes(self._dataset, grid_of(self._dataset)).reshape(-1)
        if self.record["chunks_per_hash"] != 1:
            self.problem(None, "the dataset was resized after its record was made")
            self._hashes = None

    def run(self, progress: Callable[[int], None] | None) -> None:
        """Decode and compare all chunks."""
        for chunk in chunks_of(self._dataset):
            self.chunks += 1
            value = _NO_HASH
            try:
                values = _checked_values(chunk, self._described)
                value = hash_values(values)
                if progress is not None:
                    progress(values.nbytes)
            except (H5LossyError, OSError, ValueError) as error:
                # Of a frame with another bound the values are there to be compared.
                self.is_readable &= isinstance(error, InvalidArgumentError)
                self.problem(chunk.place, str(error))
            self._compare(chunk, value)

    def _compare(self, chunk: Chunk, value: int) -> None:
        if self._hashes is None or self.record is None:
            return
        size = self.record["chunks_per_hash"]
        group = self._group
        if not group:
            self._first = chunk.place
        group.append(value)
        is_last = self.chunks == math.prod(grid_of(self._dataset))
        if len(group) < size and not is_last:
            return
        wanted = int(self._hashes[(self.chunks - 1) // size])
        if wanted != _NO_HASH and _NO_HASH not in group:
            if int(group_hashes(np.array(group, np.uint64), size)[0]) == wanted:
                self.recorded += len(group)
            else:
                others = len(group) - 1
                which = "differs" if size == 1 else f"or one of the {others} after it differs"
                self.problem(self._first, f"{which} from the record")
        group.clear()


def _checked_values(chunk: Chunk, described: DatasetInfo) -> npt.NDArray[Any]:
    """Decode a chunk after a look at what its frame says."""
    frame = chunk.frame()
    if frame is not None:
        info = inspect(frame)
        promised = described.bound
        kinds = {promised.kind, BoundKind.LOSSLESS}
        value = info.requested_bound
        # An encoder that was not told the type stores the bytes, and writes no bound.
        known = info.codec != "stored"
        if known and (info.bound.kind not in kinds or value > promised.value):
            raise InvalidArgumentError(
                f"its frame was made with {info.bound.kind} {value!r}, "
                f"and the dataset says {promised}"
            )
    return chunk.values(frame)

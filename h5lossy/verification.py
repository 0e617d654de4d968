# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Proof that a dataset still holds what was written, and that this was within its bound.

When a dataset is written with ``verify=True``, each chunk is decoded again while its original
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
import re
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from h5lossy import _native
from h5lossy._blocks import chunk_starts, grid_of
from h5lossy._stored import StoredChunks
from h5lossy._values import as_bits, fill_bits, is_big_endian, own_fill_value, unwritten_value
from h5lossy.bounds import BoundKind, ErrorBound, exact_limits
from h5lossy.datasets import describe
from h5lossy.errors import (
    BrokenPromiseError,
    H5LossyError,
    InvalidArgumentError,
    UnsupportedError,
)
from h5lossy.frames import inspect
from h5lossy.missing import missing_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import h5py
    import numpy.typing as npt

    from h5lossy.assessment.report import Report
    from h5lossy.datasets import DatasetInfo
    from h5lossy.frames import FrameInfo
    from h5lossy.missing import Changes, Missing

#: What was found when the dataset was written, and of what dataset: JSON.
REPORT_ATTRIBUTE = "h5lossy_report"

#: Hashes of the decoded values: text, see `_Hashes`.
HASH_ATTRIBUTE = "h5lossy_hashes"

SCHEMA = "h5lossy.verification/2"

#: The text of the hashes stays below 64 KiB, the limit of an attribute in old HDF5 files.
MOST_HASH_BYTES = 60_000

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
        None if h5lossy did not compress it; then no values were checked.
    bound : ErrorBound or None
    chunks : int
        Number of stored chunks that were decoded.
    recorded : int
        Number of those whose decoded values match the record.
    problems : tuple of Problem
        Damage: chunks that HDF5 can't read or would misread, broken bounds, lost chunks, and a
        record that was tampered with.
    outdated : tuple of Problem
        Why the record no longer matches, although the data is intact: values were changed, or the
        dataset was resized, compressed again or replaced, after the record was made.
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
    outdated: tuple[Problem, ...] = ()
    record: dict[str, Any] | None = None
    report: Report | None = field(default=None, repr=False)

    @property
    def is_damaged(self) -> bool:
        """Whether the data, or the record itself, is damaged."""
        return bool(self.problems) or (self.report is not None and not self.report.ok)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong, and the record, if there is one, is of these values."""
        return not self.is_damaged and not self.outdated


def hash_values(values: npt.NDArray[Any]) -> int:
    """Return a 64-bit hash of values, the same on every machine.

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
    return _blake2b(little.reshape(-1).view(np.uint8).data)


def _blake2b(data: Any) -> int:
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


@dataclass(frozen=True, kw_only=True)
class _Hashes:
    """Hashes of the chunks that hold anything but the fill value, in groups.

    A group has `chunks_per_hash` places of the grid of chunks, in C order: a power of two, and 1 as
    long as all hashes fit in an attribute. Chunks that hold only the fill value have no hash, since
    they read as if they were not stored.

    Attributes
    ----------
    chunks_per_hash : int
    by_group : dict
        The hash of a chunk, or of the text of hashes of a group's chunks.
    """

    chunks_per_hash: int
    by_group: dict[int, int]

    @classmethod
    def of(cls, chunks: dict[int, int]) -> _Hashes:
        """Group the hashes of chunks, by their number in the grid."""
        size = 1
        while len(chunks) * _BYTES_PER_HASH > size * MOST_HASH_BYTES:
            size *= 2
        while len(_hash_text(dict.fromkeys((n // size for n in chunks), 0))) > MOST_HASH_BYTES:
            size *= 2
        members: dict[int, list[tuple[int, int]]] = {}
        for number in sorted(chunks):
            members.setdefault(number // size, []).append((number, chunks[number]))
        return cls(
            chunks_per_hash=size,
            by_group={group: group_hash(found, size) for group, found in members.items()},
        )


_BYTES_PER_HASH = 17

_HASH_NAME = "blake2b-64"

_HASH_PART = re.compile(r"(?:([0-9a-f]{1,32}):)?([0-9a-f]{16})")


def group_hash(chunks: list[tuple[int, int]], size: int) -> int:
    """Return the hash of a group, from its chunks' numbers and hashes; of one chunk, its own."""
    if size == 1:
        return chunks[0][1]
    return _blake2b("".join(f"{number:x}:{value:016x};" for number, value in chunks).encode())


def _hash_text(by_group: dict[int, int]) -> str:
    """Write hashes as text; a group that does not follow the previous one has its number first."""
    parts, following = [_HASH_NAME], 0
    for group in sorted(by_group):
        number = "" if group == following else f"{group:x}:"
        parts.append(f"{number}{by_group[group]:016x}")
        following = group + 1
    return " ".join(parts)


def _hashes_in(text: str) -> dict[int, int]:
    name, *parts = text.split(" ")
    if name != _HASH_NAME:
        raise ValueError(f"unknown kind of hashes: {name[:20]!r}")
    by_group: dict[int, int] = {}
    following = 0
    for part in parts:
        match = _HASH_PART.fullmatch(part)
        if match is None:
            raise ValueError(f"not a hash: {part[:60]!r}")
        group = following if match[1] is None else int(match[1], 16)
        by_group[group] = int(match[2], 16)
        following = group + 1
    return by_group


def _number_of(place: Place, grid: tuple[int, ...]) -> int:
    """Return the number of a chunk in C order; NumPy's own stops at 2**63."""
    number = 0
    for position, extent in zip(place, grid, strict=True):
        number = number * extent + position
    return number


def _place_of(number: int, grid: tuple[int, ...]) -> Place:
    place: list[int] = []
    for extent in reversed(grid):
        number, position = divmod(number, extent)
        place.insert(0, position)
    return tuple(place)


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
        # The filter keeps this fill value; missing values are compared here.
        fill_value = own_fill_value(dataset)
        self._missing = (missing or missing_of(dataset)).with_fill(fill_value)
        self._missing_changed = _MissingChanged()
        self._fill = fill_bits(fill_value, described.dtype)
        self._threads = threads or 0
        self._unwritten = unwritten_value(dataset)
        self._state = _native.AssessState(self._limited(None))
        self._hashes: dict[Place, int | None] = {}
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
        self._hashes[place] = _hash_unless(decoded, self._unwritten)

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
        stored = [_place_in(dataset, start) for start in chunk_starts(dataset)]
        whole = all(place in self._hashes for place in stored)
        earlier, complete = ({}, True) if whole else self._earlier(stored)
        grid = grid_of(dataset)
        numbered = {
            _number_of(place, grid): value
            for place, value in (earlier | self._hashes).items()
            if value is not None
        }
        hashes = _Hashes.of(numbered)
        if not whole and hashes.chunks_per_hash > 1:
            raise InvalidArgumentError(
                f"{dataset.name} has {len(numbered)} chunks with values, too many for a hash each "
                "in one attribute; write all of them in one call to have them verified"
            )
        record: dict[str, Any] = {
            "schema": SCHEMA,
            "h5lossy": _native.version(),
            "bound": {"kind": str(self._bound.kind), "value": self._bound.value},
            "dataset": _description(self._described, self._unwritten),
            "written": len(numbered),
            "complete": complete,
            "chunks_per_hash": hashes.chunks_per_hash,
            "found": self._summary() if whole else None,
        }
        text = _hash_text(hashes.by_group)
        record["digest"] = _digest(record, text)
        attributes = {REPORT_ATTRIBUTE: json.dumps(record), HASH_ATTRIBUTE: text}
        for name, content in attributes.items():
            write_text(dataset, name, content)
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
        then, now = record["dataset"], _description(self._described, self._unwritten)
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
        places = {_place_of(number, grid): value for number, value in hashes.by_group.items()}
        kept: dict[Place, int | None] = {p: value for p, value in places.items() if is_same(p)}
        complete = record["complete"] and all(p in self._hashes or is_same(p) for p in stored)
        return kept, complete

    def _summary(self) -> dict[str, Any]:
        from h5lossy.assessment import _numbers as numbers  # noqa: PLC0415
        from h5lossy.assessment._scaling import Sums  # noqa: PLC0415
        from h5lossy.assessment._walk import Layout  # noqa: PLC0415

        points = self._state.points_result()
        undefined = numbers.Undefined()
        layout = Layout.of((max(1, points.count),))
        errors = numbers.errors(points, Sums.streamed(points), layout, None, undefined)

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
    stored = StoredChunks(dataset)
    for start in sorted(chunk_starts(dataset)):
        values = stored.values(start)
        inside = tuple(slice(s, s + n) for s, n in zip(start, values.shape, strict=True))
        recorder.add(start, np.asarray(original[inside], dataset.dtype), values)
        if progress is not None:
            progress(values.nbytes)
    return recorder.finish()


def _place_in(dataset: h5py.Dataset, start: Place) -> Place:
    return tuple(s // c for s, c in zip(start, dataset.chunks, strict=True))


def _hash_unless(values: npt.NDArray[Any], unwritten: npt.NDArray[Any]) -> int | None:
    """Return the hash of a chunk; None if it reads as if it were not stored."""
    if not values.size or (as_bits(values) == as_bits(unwritten)).all():
        return None
    return hash_values(values)


def _description(described: DatasetInfo, unwritten: npt.NDArray[Any]) -> dict[str, Any]:
    """Return what a record says of its dataset: all that changes its values, or their bound.

    The other cd_values are left out, since programs that copy a dataset do not keep all of them.
    """
    little = described.dtype.newbyteorder("<")
    return {
        "type": described.dtype.str,
        "shape": list(described.shape),
        "chunks": list(described.chunks),
        "bound": str(described.bound),
        "unwritten": unwritten.astype(little).tobytes().hex(),
    }


def _digest(record: dict[str, Any], hashes: str) -> str:
    """Return a digest of the whole record, so that a change of any part of it is noticed."""
    rest = {name: value for name, value in record.items() if name != "digest"}
    text = json.dumps(rest, sort_keys=True) + hashes
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def write_text(dataset: h5py.Dataset, name: str, text: str) -> None:
    """Write an attribute of fixed-length ASCII, which every netCDF model supports.

    Parameters
    ----------
    dataset : h5py.Dataset
    name : str
    text : str
        ASCII.
    """
    if name in dataset.attrs:
        del dataset.attrs[name]
    dataset.attrs[name] = np.bytes_(text.encode("ascii"))


def _read_text(dataset: h5py.Dataset, name: str) -> str:
    """Read text that another library may have rewritten as another type of string."""
    content = dataset.attrs[name]
    if isinstance(content, np.ndarray) and content.size == 1:
        content = content.item()
    if isinstance(content, bytes):
        content = content.decode("ascii")
    if not isinstance(content, str):
        raise TypeError(f"{name} is not text")
    return content


def read_record(dataset: h5py.Dataset) -> tuple[dict[str, Any], _Hashes] | None:
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
        If a part of it is missing, invalid, or was changed.
    UnsupportedError
        If another version wrote it.
    """
    there = [name for name in (REPORT_ATTRIBUTE, HASH_ATTRIBUTE) if name in dataset.attrs]
    if not there:
        return None
    if len(there) == 1:
        raise InvalidArgumentError(f"the record is incomplete: the dataset has only {there[0]}")
    try:
        found = json.loads(_read_text(dataset, REPORT_ATTRIBUTE))
        schema = found["schema"]
        if schema != SCHEMA and str(schema).startswith(SCHEMA.partition("/")[0]):
            raise UnsupportedError(
                f"the record has the schema {schema!r} of another version of h5lossy, and this one "
                f"reads {SCHEMA!r}; write or repack the data again for a new record"
            )
        text = _read_text(dataset, HASH_ATTRIBUTE)
        is_sound = schema == SCHEMA and found["digest"] == _digest(found, text)
        if is_sound:
            _check_types(found)
        hashes = _Hashes(
            chunks_per_hash=found["chunks_per_hash"],
            by_group=_hashes_in(text) if is_sound else {},
        )
    except (ValueError, TypeError, KeyError, OSError, RecursionError) as error:
        raise InvalidArgumentError(f"the record can't be read: {error!r}") from error
    if not is_sound:
        raise InvalidArgumentError(
            "the record was changed after it was made: its digest does not match"
        )
    return found, hashes


def _check_types(record: dict[str, Any]) -> None:
    """Raise if a record lacks what `verify` uses: a right digest is no proof of its origin."""
    dataset, found, size = record["dataset"], record["found"], record["chunks_per_hash"]
    unwritten = bytes.fromhex(dataset["unwritten"])
    types = (
        isinstance(size, int) and size > 0,
        isinstance(record["written"], int),
        isinstance(record["complete"], bool),
        len(unwritten) == np.dtype(dataset["type"]).itemsize,
        found is None or isinstance(found["max_abs"], int | float | None),
    )
    if not all(types):
        raise TypeError("fields of the wrong type")


def verify(
    dataset: h5py.Dataset,
    *,
    against: Any = None,
    progress: Callable[[int], None] | None = None,
) -> Verification:
    """Check that a dataset can be decoded and still holds what was verified when it was written.

    Every stored chunk is decoded as HDF5 would read it. Its checksum, filter mask, length, type and
    byte order are checked, and its bound is compared with that of the dataset. The decoded values
    are compared with the recorded hash, if there is one. No original is needed. Time and memory
    depend on the number of stored chunks.

    Parameters
    ----------
    dataset : h5py.Dataset
        Any dataset; if h5lossy did not compress it, no values are checked.
    against : optional
        The original, as `assess` takes it: it is compared value by value, too, with the bound that
        the file says, if all of the dataset can be decoded.
    progress : function, optional
        Called with the number of bytes after each chunk; and, with `against`, with as many again
        while they are compared.

    Returns
    -------
    Verification

    Notes
    -----
    A record reveals accidents, not forgery: whoever can write the file can write the record, too,
    or remove it.

    Examples
    --------
    >>> import h5py, h5lossy, numpy as np
    >>> codec = h5lossy.PFPL(absolute=0.5)
    >>> with h5py.File("a.h5", "w", driver="core", backing_store=False) as f:
    ...     t = f.create_dataset("t", (100,), "f4", chunks=(64,), compression=codec)
    ...     h5lossy.write(t, np.arange(100.0), verify=True)
    ...     found = h5lossy.verify(t)
    >>> found.ok, found.chunks, found.recorded
    (True, 2, 2)
    """
    described = describe(dataset)
    if described is None:
        return Verification(path=dataset.name, outdated=_of_a_dataset_before(dataset))
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
        outdated=tuple(check.outdated),
        record=check.record,
        report=report,
    )


def _of_a_dataset_before(dataset: h5py.Dataset) -> tuple[Problem, ...]:
    """Look for the record of a dataset that was replaced by one without our filter."""
    if not any(name in dataset.attrs for name in (REPORT_ATTRIBUTE, HASH_ATTRIBUTE)):
        return ()
    why = "the record is of another dataset: h5lossy did not compress this one"
    return (Problem(chunk=None, why=why),)


class _Check:
    """Goes through the chunks of a dataset and compares them with its record."""

    def __init__(self, dataset: h5py.Dataset, described: DatasetInfo) -> None:
        self._dataset = dataset
        self._described = described
        self._grid = grid_of(dataset)
        self.chunks = self.recorded = 0
        self.is_readable = True
        self.problems: list[Problem] = []
        self.outdated: list[Problem] = []
        self.record: dict[str, Any] | None = None
        self._hashes: _Hashes | None = None
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
        where.append(Problem(chunk=chunk, why=" ".join(why.split())))

    def _read_record(self) -> None:
        found = read_record(self._dataset)
        if found is None:
            return
        self.record, hashes = found
        dataset, described = self._dataset, self._described
        then, now = self.record["dataset"], _description(described, unwritten_value(dataset))
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

    def run(self, progress: Callable[[int], None] | None) -> None:
        """Decode all stored chunks, and compare them."""
        stored = StoredChunks(self._dataset)
        size = self._hashes.chunks_per_hash if self._hashes else 1
        seen = set()
        starts = sorted(chunk_starts(self._dataset))
        numbered = ((_number_of(_place_in(self._dataset, s), self._grid), s) for s in starts)
        for group, members in itertools.groupby(numbered, lambda member: member[0] // size):
            seen.add(group)
            self._group(group, [(n, *self._chunk(stored, s, progress)) for n, s in members])
        self._look_for_lost(seen, size, len(starts))

    def _chunk(
        self, stored: StoredChunks, start: Place, progress: Callable[[int], None] | None
    ) -> tuple[int | None, bool, bool]:
        """Return a chunk's hash, whether it has a checksum, and whether it is damaged."""
        self.chunks += 1
        place = _place_in(self._dataset, start)
        try:
            values, bytes_of_frame, is_filtered = stored.read(start)
            frame = inspect(bytes_of_frame) if bytes_of_frame is not None else None
        except (H5LossyError, OSError, RuntimeError, ValueError) as error:
            self.is_readable = False
            self.problem(place, str(error))
            return None, True, True
        if progress is not None:
            progress(values.nbytes)
        broken = _broken_promise(frame, values, self._described.bound) if frame else ""
        if broken:
            self.problem(place, broken)
        has_checksum = frame.checksum if frame else is_filtered and self._described.checksum
        value = None if self._hashes is None else _hash_unless(values, self._unwritten)
        return value, has_checksum, bool(broken)

    def _group(self, group: int, members: list[tuple[int, int | None, bool, bool]]) -> None:
        """Compare the hash of a group of chunks with the recorded one."""
        if self._hashes is None or self.record is None:
            return
        if any(is_damaged for *_, is_damaged in members):
            return
        size = self._hashes.chunks_per_hash
        written = [(number, value) for number, value, *_ in members if value is not None]
        found = group_hash(written, size) if written else None
        wanted = self._hashes.by_group.get(group)
        if wanted is None and not self.record["complete"]:
            return  # they were written without verify=True
        if found == wanted:
            self.recorded += len(members)
            return
        first, others = _place_of(members[0][0], self._grid), len(members) - 1
        which = f"or one of the {others} after it differs" if others else "differs"
        if all(has_checksum for _, _, has_checksum, _ in members):
            self._note(
                self.outdated,
                first,
                f"{which} from the record, and is intact: changed after the record was made",
            )
        else:
            self.problem(first, f"{which} from the record, and has no checksum: damaged or changed")

    def _look_for_lost(self, seen: set[int], size: int, stored: int) -> None:
        if self._hashes is None or self.record is None:
            return
        lost = sorted(self._hashes.by_group.keys() - seen)
        for group in lost:
            which = "" if size == 1 else f"and the {size - 1} after it "
            self.problem(_place_of(group * size, self._grid), f"{which}lost: not in the file")
        fewer = self.record["written"] - stored
        if fewer > 0 and not lost:
            self.problem(None, f"chunks are lost: at least {fewer} of {self.record['written']}")
        self.is_readable &= not lost and fewer <= 0


def _broken_promise(frame: FrameInfo, values: npt.NDArray[Any], promised: ErrorBound) -> str:
    """Return why a frame breaks the dataset's bound; an empty string if it does not."""
    if frame.codec == "stored":  # exact, and without a bound if it has no type
        return ""
    kind, bound = frame.bound.kind, frame.requested_bound
    if kind not in {promised.kind, BoundKind.LOSSLESS} or bound > promised.value:
        return f"its frame was made with {kind} {bound!r}, and the dataset says {promised}"
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

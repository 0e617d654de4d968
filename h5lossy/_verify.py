# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that a dataset still holds what was written, and that this was within its bound.

When a dataset is written with ``verify=True``, each chunk is decoded again and compared with its
original; two attributes hold the result (`records`). Every decoder gives the same bits on every
machine, so `verify` can check later, without the original, that the values that are read are those
that were compared.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from h5lossy import _native
from h5lossy._batched.pipeline import FrameBuffers, overlap
from h5lossy._blocks import batch_bytes, grid_of, listed_chunks
from h5lossy._bounds import BoundKind, ErrorBound
from h5lossy._datasets import codec_of
from h5lossy._errors import H5LossyError, InvalidArgumentError, UnsupportedError
from h5lossy._frames import inspect
from h5lossy._names import name_of
from h5lossy._progress import reporting
from h5lossy._public import name_publicly
from h5lossy._safeguards import NO_SAFEGUARDS, Safeguards
from h5lossy._stored import StoredChunks
from h5lossy._values import is_half, is_integer, unwritten_value
from h5lossy._variables import takes_variables
from h5lossy._verification.hashes import hash_chunks
from h5lossy._verification.records import (
    ERROR_ATTRIBUTES,
    HASH_ATTRIBUTE,
    REPORT_ATTRIBUTE,
    Place,
    Record,
    description,
    largest_errors,
    read_record,
    stated_errors,
)
from h5lossy.assessment import assess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import h5py
    import numpy.typing as npt

    from h5lossy._codecs import Codec
    from h5lossy._frames import FrameInfo
    from h5lossy._progress import Progress
    from h5lossy.assessment.report import Report


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
    codec : str or None
        None if h5lossy did not compress it; then no values were checked.
    safeguards : Safeguards
        Thresholds and the valid range that the dataset promises to keep.
    exact : tuple of int
        Values that come back unchanged, and that no other value becomes.
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
    safeguards: Safeguards = NO_SAFEGUARDS
    exact: tuple[int, ...] = ()
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


@takes_variables
def verify(
    dataset: h5py.Dataset, *, against: Any = None, progress: Progress = False
) -> Verification:
    """Check that a dataset can be decoded and still holds what was verified when it was written.

    Every stored chunk is decoded as HDF5 would read it. Its checksum, filter mask, length, type and
    byte order are checked, and its bound is compared with that of the dataset. The decoded values
    are compared with the recorded hash, if there is one. No original is needed. Time and memory
    depend on the number of stored chunks.

    A record reveals accidents, not forgery: whoever can write the file can write the record, too,
    or remove it.

    Parameters
    ----------
    dataset : h5py.Dataset, or variable of h5netcdf or netCDF4
        Any dataset; if h5lossy did not compress it, no values are checked. With netCDF4, of a file
        that is open for reading.
    against : optional
        The original, as `assess` takes it: it is compared value by value, too, with the bound that
        the file says, if all of the dataset can be decoded.
    progress : function or bool, optional
        Called as ``progress(bytes_done, bytes_in_all)`` after each chunk; with `against`, the bytes
        are counted twice: decoded, and compared. True shows a bar on standard error.

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
    codec = codec_of(dataset)
    if codec is None:
        why = "the record is of another dataset: h5lossy did not compress this one"
        is_replaced = any(name in dataset.attrs for name in (REPORT_ATTRIBUTE, HASH_ATTRIBUTE))
        outdated = (Problem(chunk=None, why=why),) if is_replaced else ()
        return Verification(path=name_of(dataset), outdated=outdated)
    check = _ChunkCheck(dataset, codec)
    size, report = check.nbytes, None
    total = size if against is None else 2 * size
    with reporting(progress, f"verifying {name_of(dataset)}") as report_bytes:
        check.run(lambda done: report_bytes(done, total))
        if against is not None and not check.is_readable:
            check.problem(None, "not compared with the original: not all of it can be decoded")
        elif against is not None:

            def compared(done: int, whole: int) -> None:
                report_bytes(size + size * done // max(1, whole), total)

            report = assess(against, dataset, progress=compared)
    return Verification(
        path=name_of(dataset),
        codec=codec.codec_name,
        bound=codec.bound,
        safeguards=codec.safeguards,
        exact=codec.params().exact,
        chunks=check.chunks,
        recorded=check.recorded,
        problems=tuple(check.problems),
        outdated=(*check.outdated, *_too_small(dataset, codec)),
        record=None if check.record is None else check.record.report,
        report=report,
    )


def _too_small(dataset: h5py.Dataset, codec: Codec) -> list[Problem]:
    """Return attributes that promise more than the bound: they are copies of another dataset's."""
    stated, least = stated_errors(dataset), largest_errors(dataset, codec.bound)
    return [
        Problem(
            chunk=None,
            why=f"{ERROR_ATTRIBUTES[kind]} is {stated[kind]!r}, but the bound is {least[kind]!r}",
        )
        for kind in stated.keys() & least.keys()
        if stated[kind] < least[kind]
    ]


class _Found(NamedTuple):
    """The result for a chunk: the hash of its values, and what is wrong with its bound."""

    value_hash: int
    has_checksum: bool
    violation: str = ""


class _Batch(NamedTuple):
    starts: npt.NDArray[np.uint64]
    extents: npt.NDArray[np.uint64]
    frames: dict[int, Any]


@dataclass
class _Group:
    """The result for the chunks that share a hash."""

    first: Place
    total: int = 0
    chunks: int = 0
    has_checksums: bool = True
    is_damaged: bool = False


class _ChunkCheck:
    """Decodes the chunks of a dataset, and compares them with its record."""

    def __init__(self, dataset: h5py.Dataset, codec: Codec) -> None:
        self._dataset = dataset
        self._codec = codec
        self._chunks: Place = dataset.chunks
        self._threads = _native.default_threads()
        self._stored = StoredChunks(dataset)
        starts = listed_chunks(dataset).places.astype(np.uint64)
        self._starts = starts[np.lexsort(starts.T[::-1])]
        self._extents = np.minimum(
            np.array(self._chunks, np.uint64), np.array(dataset.shape, np.uint64) - self._starts
        )
        self._chunk_bytes = math.prod(self._chunks) * dataset.dtype.itemsize
        self._step = batch_bytes(self._chunk_bytes, self._threads) // self._chunk_bytes
        self.chunks = len(starts)
        self.nbytes = int(self._extents.prod(axis=1).sum()) * dataset.dtype.itemsize
        self.recorded = self._done = 0
        self.is_readable = True
        self.problems: list[Problem] = []
        self.outdated: list[Problem] = []
        self.record: Record | None = None
        self._is_of_this = False
        self._unwritten = unwritten_value(dataset)
        self._room = np.empty((0, *self._chunks), dataset.dtype)
        self._groups: dict[int, _Group] = {}
        self._allowed: set[tuple[int, int, float, float]] = set()
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
        self.record = read_record(self._dataset)
        if self.record is None:
            return
        then, now = self.record.of, description(self._dataset, self._codec, self._unwritten)
        if self.chunks == math.prod(grid_of(self._dataset)):
            now["unwritten"] = then["unwritten"]  # not used; some programs drop the fill value
        if then == now:
            self._is_of_this = True
            little = self._dataset.dtype.newbyteorder("<")
            nothing = np.frombuffer(bytes.fromhex(then["unwritten"]), little)[0]
            self._unwritten = np.array(nothing, self._dataset.dtype)
            return
        others = [
            f"{name} {then.get(name)}, now {now.get(name)}"
            for name in {**now, **then}
            if then.get(name) != now.get(name)
        ]
        self._note(self.outdated, None, f"the record is of other data: {'; '.join(others)}")

    def run(self, report_bytes: Callable[[int], object]) -> None:
        """Decode all stored chunks, and compare them; `report_bytes` takes those done."""

        def finish(batch: _Batch, found: dict[int, _Found]) -> None:
            self._finish(batch, found)
            self._done += int(batch.extents.prod(axis=1).sum()) * self._unwritten.itemsize
            report_bytes(self._done)

        if self.chunks <= self._step:  # starting a thread takes as long as decoding 100 KiB
            for batch in self._fetch():
                finish(batch, self._decode(batch))
        else:
            overlap(self._fetch(), self._decode, finish)
        self._compare()

    def _fetch(self) -> Iterator[_Batch]:
        """Yield the chunks, and the frames of those that are decoded many at a time."""
        buffers, most = FrameBuffers(), _native.max_encoded_size(self._chunk_bytes)
        for i in range(0, self.chunks, self._step):
            starts = self._starts[i : i + self._step]
            frames = {}
            if self._stored.decoding is not None:
                buffer = buffers.next(len(starts), most)
                for k, start in enumerate(starts.tolist()):
                    frame = self._stored.frame_if_whole(tuple(start), buffer[k])
                    if frame is not None:
                        frames[k] = frame
            yield _Batch(starts, self._extents[i : i + self._step], frames)

    def _decode(self, batch: _Batch) -> dict[int, _Found]:
        """Decode the frames of a batch, in the helper thread; leave out those that are broken."""
        frames = [*batch.frames.values()]
        if not frames:
            return {}
        numbers = np.array([*batch.frames])
        extents = batch.extents[numbers]
        if len(self._room) < len(frames):  # which is used again for the next batch
            self._room = np.empty((len(frames), *self._chunks), self._unwritten.dtype)
        rows = self._room[: len(frames)]
        rows[(extents < self._chunks).any(axis=1)] = self._unwritten
        corners = np.zeros(extents.shape, np.int64)
        corners[:, 0] = np.arange(len(frames)) * self._chunks[0]
        parts = _native.Parts(
            array=rows.reshape(-1, *self._chunks[1:]),
            chunk=self._chunks,
            corners=corners,
            first=np.zeros_like(corners),
            extents=extents.astype(np.int64),
            padding=self._unwritten,
        )
        assert self._stored.decoding is not None
        failures = _native.decode_parts(self._stored.decoding, parts, frames, self._threads)
        hashes = self._hashes(rows, batch.starts[numbers])
        found = {}
        for k, (number, frame) in enumerate(batch.frames.items()):
            if k not in failures:
                inside = tuple(map(slice, extents[k]))
                # If this fails, `_read` reports why.
                with suppress(H5LossyError):
                    found[number] = self._judged(frame, rows[k][inside], hashes[k])
        return found

    def _hashes(self, rows: npt.NDArray[Any], starts: npt.NDArray[np.uint64]) -> list[int]:
        if not self._is_of_this:
            return [0] * len(rows)
        places = starts // np.array(self._chunks, np.uint64)
        flat = rows.reshape(len(rows), -1)
        hashes: list[int] = hash_chunks(flat, places, self._unwritten, self._threads).tolist()
        return hashes

    def _judged(self, frame: Any, values: npt.NDArray[Any], value_hash: int) -> _Found:
        """Return what was found of a frame."""
        fields, violation = _native.inspect(frame), ""
        bound = fields.codec, fields.bound_kind, fields.bound, fields.step
        if bound not in self._allowed:
            info = inspect(frame)
            violation = _violation(info, values, self._codec.bound)
            # A range-relative bound depends on the values.
            if not violation and info.bound.kind is not BoundKind.RANGE_RELATIVE:
                self._allowed.add(bound)
        return _Found(value_hash, fields.has_checksum, violation)

    def _read(self, start: npt.NDArray[np.uint64]) -> _Found:
        """Read a chunk that was not decoded with others; raise if it is broken."""
        values, frame, is_filtered = self._stored.read(tuple(start.tolist()))
        row = np.full((1, *self._chunks), self._unwritten)
        row[0][tuple(map(slice, values.shape))] = values
        [value_hash] = self._hashes(row, start[None])
        if frame is not None:
            return self._judged(frame, values, value_hash)
        return _Found(value_hash, is_filtered and self._codec.checksum)

    def _finish(self, batch: _Batch, found: dict[int, _Found]) -> None:
        """Note what was found of a batch."""
        for number, start in enumerate(batch.starts):
            place = tuple(int(s) // c for s, c in zip(start, self._chunks, strict=True))
            one = found.get(number)
            try:
                one = one or self._read(start)
            except (H5LossyError, OSError, RuntimeError, ValueError) as error:
                self.is_readable = False
                self.problem(place, str(error))
            if one is not None and one.violation:
                self.problem(place, one.violation)
            if self._is_of_this and self.record is not None:
                number_in_all = self.record.number(place)
                group = self._groups.setdefault(
                    number_in_all // self.record.hashes.size, _Group(place)
                )
                group.chunks += 1
                group.is_damaged |= one is None or bool(one.violation)
                if one is not None:
                    group.total += one.value_hash
                    group.has_checksums &= one.has_checksum

    def _compare(self) -> None:
        """Compare the hashes of groups with the recorded ones, and look for lost chunks."""
        if self.record is None or not self._is_of_this:
            return
        report, hashes = self.record.report, dict(self.record.hashes.items())
        for number, group in sorted(self._groups.items()):
            wanted = hashes.pop(number, 0)
            if group.is_damaged or not (wanted or report["complete"]):
                continue  # if it has no hash, it was written without verify=True
            if group.total % (1 << 64) == wanted:
                self.recorded += group.chunks
                continue
            others = group.chunks - 1
            which = f"or one of the {others} after it differs" if others else "differs"
            if group.has_checksums:
                why = f"{which} from the record, and is intact: changed after the record was made"
                self._note(self.outdated, group.first, why)
            else:
                why = f"{which} from the record, and has no checksum: damaged or changed"
                self.problem(group.first, why)
        size = self.record.hashes.size
        for number in hashes:
            which = "" if size == 1 else f"and the {size - 1} after it "
            self.problem(self.record.place(number * size), f"{which}lost: not in the file")
        fewer = report["written"] - self.chunks
        if fewer > 0 and not hashes:
            self.problem(None, f"chunks are lost: at least {fewer} of {report['written']}")
        self.is_readable &= not hashes and fewer <= 0


def _violation(frame: FrameInfo, values: npt.NDArray[Any], bound_of_dataset: ErrorBound) -> str:
    """Return why a frame violates the dataset's bound; an empty string if it does not."""
    if frame.codec == "stored":  # exact, and without a bound if it has no type
        return ""
    kind, bound = frame.bound.kind, frame.requested_bound
    is_looser = bound > bound_of_dataset.value or frame.bound.floor > bound_of_dataset.floor
    if kind not in {bound_of_dataset.kind, BoundKind.LOSSLESS} or is_looser:
        return f"its frame was made with {kind} {bound!r}, and the dataset says {bound_of_dataset}"
    largest = math.inf
    if is_half(frame.dtype) and kind is BoundKind.POINTWISE_RELATIVE:
        largest = 2 * bound
    elif is_integer(frame.dtype) and kind is BoundKind.ABSOLUTE:
        largest = 2.0 * math.floor(bound) + 1
    elif kind is BoundKind.ABSOLUTE:
        largest = 2 * bound
    elif kind is BoundKind.POINTWISE_RELATIVE:  # bins are an odd number of units in the last place
        largest = 2 * bound + float(np.finfo(frame.dtype).eps)
    elif kind is BoundKind.RANGE_RELATIVE:
        if values.dtype.kind == "c":
            values = np.stack([values.real, values.imag])
        finite = values[np.isfinite(values)]
        # The range of the original may be larger by one error at each end.
        extent = float(finite.max()) - float(finite.min()) if finite.size else 0.0
        largest = 2 * bound * (extent + frame.step) * (1 + 1e-9) + is_integer(frame.dtype)
    if frame.step > largest and not frame.is_exact:
        return f"its bins are {frame.step!r} wide, which its own bound of {bound!r} does not allow"
    return ""


name_publicly(__name__)

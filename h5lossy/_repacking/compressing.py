# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The compressed copy of one dataset: its bound, its values, and the check of what was written."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import h5py
import numpy as np
from h5py import h5d, h5o, h5z

from h5lossy import _native
from h5lossy._attributes import attribute_of, text_attribute
from h5lossy._batched import read, write
from h5lossy._blocks import block_shape, stored_blocks
from h5lossy._bounds import BoundKind, ErrorSummary
from h5lossy._codecs import FILTER_ID
from h5lossy._datasets import describe
from h5lossy._errors import (
    BoundViolationError,
    H5LossyError,
    IncompleteWriteError,
    InvalidArgumentError,
    UnsupportedError,
)
from h5lossy._names import path_text
from h5lossy._ranges import confirmed_range
from h5lossy._values import own_fill_value
from h5lossy._verification.bound_checker import BoundChecker
from h5lossy._verification.recorder import Recorder
from h5lossy._verification.records import (
    ATTRIBUTES,
    PROVENANCE_ATTRIBUTE,
    SETTINGS_ATTRIBUTE,
    loss_text,
    write_text,
)
from h5lossy.missing import keeping_missing, missing_when_stored

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from h5py import h5f, h5t

    from h5lossy._codecs import Codec
    from h5lossy._verification.bound_checker import MissingChange

#: Takes the bytes that were done since its last call, and what is being done.
Advance: TypeAlias = Callable[[int, str], object]

#: Attributes of old HDF5 files are smaller than 64 KiB.
_MOST_TEXT = 1 << 15

#: A fixed array, the index of datasets whose extents are limited, takes about 24 bytes for each.
_MOST_CHUNKS = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What becomes of one dataset.

    Attributes
    ----------
    file : h5py.File
        The source.
    name : bytes
        Its first path there.
    kept : str
        Why it is copied as it is; empty where it is compressed.
    codec : Codec or None
        The requested codec and bound, where it is compressed.
    chunks : tuple of int
        Its chunks in the target, where it is compressed.
    """

    file: h5py.File
    name: bytes
    kept: str = ""
    codec: Codec | None = None
    chunks: tuple[int, ...] = ()

    @property
    def path(self) -> str:
        """The first path as text; what is not UTF-8 stands as lone surrogates."""
        return path_text(self.name)

    @property
    def dataset(self) -> h5py.Dataset:
        """The dataset, opened anew: an open one keeps HDF5's cache for its chunks."""
        return h5py.Dataset(h5o.open(self.file.id, self.name))


class CompressedCopy:
    """The compressed copy of one dataset.

    Parameters
    ----------
    plan : Plan
    missing_value : sequence of float
        Missing values, in addition to those that the dataset declares.
    confirm_range : bool
        Accept a range that is dominated by a repeated extreme.

    Attributes
    ----------
    codec : Codec
        The requested one; from `resolve` on the one with which the values are stored.
    raw_bytes, stored_bytes : int
        Of the stored chunks, from `write` on.
    summary : ErrorSummary or None
        From `check` on.
    """

    def __init__(self, plan: Plan, missing_value: Sequence[float], *, confirm_range: bool) -> None:
        assert plan.codec is not None
        self.plan = plan
        self.requested = self.codec = plan.codec
        self.raw_bytes = self.stored_bytes = 0
        self.summary: ErrorSummary | None = None
        self._missing = missing_when_stored(plan.dataset, missing_value)
        self._confirm_range = confirm_range

    @property
    def needs_range(self) -> bool:
        """Whether `resolve` reads all values, as a range-relative bound was requested."""
        return self.requested.bound.kind is BoundKind.RANGE_RELATIVE

    def resolve(self, advance: Advance) -> None:
        """Resolve a range-relative bound, and adjust the bound so that missing values are kept."""
        if self.needs_range:
            try:
                ends = confirmed_range(
                    self.plan.dataset,
                    self._missing,
                    self.requested.bound,
                    confirmed=self._confirm_range,
                    read_blocks=lambda _: (v for _, v in self._values("range of", advance)),
                )
            except InvalidArgumentError as error:
                raise InvalidArgumentError(f"{self.plan.path}: {error}") from error
            self.codec = self.requested.resolved_for(ends)
        self.codec = keeping_missing(self.codec, self._missing)

    def create(self, file: h5f.FileID, old: h5d.DatasetID, type_id: h5t.TypeID) -> h5d.DatasetID:
        """Make the new dataset, as `FileCopier` needs it."""
        most = self.plan.dataset.maxshape
        if None not in most:
            chunks = math.prod(-(-m // c) for m, c in zip(most, self.plan.chunks, strict=True))
            if chunks > _MOST_CHUNKS:
                raise H5LossyError(
                    f"its maximal extents {most} hold {chunks} chunks of {self.plan.chunks}, and "
                    f"at most {_MOST_CHUNKS} are possible, as HDF5 makes an index for all of them: "
                    "give larger --chunks, or make an extent unlimited"
                )
        creation = old.get_create_plist()
        creation.remove_filter(h5z.FILTER_ALL)
        creation.set_chunk(self.plan.chunks)
        creation.set_alloc_time(h5d.ALLOC_TIME_INCR)
        if self._missing.fill is not None and own_fill_value(self.plan.dataset) is None:
            creation.set_fill_value(np.asarray(self._missing.fill))
        creation.set_filter(FILTER_ID, h5z.FLAG_MANDATORY, self.codec.filter_options)
        return h5d.create(file, None, type_id, old.get_space(), creation)

    def write(self, file: h5py.File, advance: Advance, *, attributes: bool) -> None:
        """Compress the values."""
        new = dataclasses.replace(self.plan, file=file).dataset
        for block, values in self._values("compressing", advance):
            try:
                write(new, values, block)
            except IncompleteWriteError as error:
                raise H5LossyError(f"{self.plan.path}: {error.__cause__}") from error
        for stale in ATTRIBUTES:  # of the source
            if stale in new.attrs:
                del new.attrs[stale]
        if attributes:
            write_text(new, SETTINGS_ATTRIBUTE, json.dumps(self._settings()))
            provenance = provenance_text(new, self.codec)
            if provenance is not None:
                write_text(new, PROVENANCE_ATTRIBUTE, provenance)
        new.flush()
        result = describe(new)
        assert result is not None
        self.raw_bytes, self.stored_bytes = result.raw_bytes, result.stored_bytes

    def check(self, file: h5py.File, advance: Advance, *, attributes: bool) -> None:
        """Read the values back, compare every one, and record what was found for `verify`.

        Raises
        ------
        H5LossyError
            If the bound does not hold, or a missing value would change.
        """
        new = dataclasses.replace(self.plan, file=file).dataset
        recorder = Recorder(new, self.codec.bound, missing=self._missing) if attributes else None
        checker = recorder.checker if recorder else BoundChecker(self.codec.bound, self._missing)
        add = recorder.add if recorder else checker.add
        for block, values in self._values("checking", advance):
            add(tuple(axis.start for axis in block), values, read(new, block))
            if checker.missing_change is not None:
                raise self._missing_error(checker.missing_change)
        self.summary = checker.summary()
        if not self.summary.holds:
            raise BoundViolationError(
                f"nothing was written, since {self.plan.path} violates its bound: "
                f"{'; '.join(self.summary.problems)}. This is a fault of h5lossy or of this "
                "machine; please report it"
            )
        if recorder is not None:
            recorder.finish()

    def _missing_error(self, change: MissingChange) -> H5LossyError:
        """Return the error for a change of which points a reader takes for missing.

        The filter keeps only HDF5's fill value.
        """
        path = self.plan.path
        what = (
            "would not be left out as missing or not valid any more, or not with the same bits"
            if change.is_lost
            else "is data, and would be taken for missing or not valid"
        )
        return H5LossyError(
            f"nothing was written: {path} has values that mean missing, or limits of "
            f"what is valid, and its bound does not keep them. The value {change.original!s} at "
            f"{change.at} {what}: it would become {change.decoded!s}. Give this dataset another "
            f"bound (--dataset '{path}:lossless' always holds), leave it as it is (--skip), or "
            "make its missing value the fill value that HDF5 knows"
        )

    def _values(
        self, doing: str, advance: Advance
    ) -> Iterator[tuple[tuple[slice, ...], np.ndarray[Any, Any]]]:
        """Read the original in blocks of whole chunks of the target, and count each when done."""
        dataset, unit, size = self.plan.dataset, self.plan.chunks, self.plan.dataset.dtype.itemsize
        doing = f"{doing} {self.plan.path}"
        left = dataset.nbytes
        block = block_shape(dataset.shape, unit, size, cover=dataset.chunks)
        # Chunks of the target that no chunk of the source reaches into are not written, either.
        piece = block_shape(dataset.chunks or dataset.shape, unit, size)
        advance(0, doing)
        for part in stored_blocks(dataset, block, piece):
            values = read(dataset, part)
            yield part, values
            advance(values.nbytes, doing)
            left -= values.nbytes
        advance(left, doing)

    def _settings(self) -> dict[str, Any]:
        """Return what the dataset's attribute says; an earlier one is kept within it."""
        settings: dict[str, Any] = {
            "codec": self.codec.codec_name,
            "requested": self.requested.get_config(),
            "stored": self.codec.get_config(),
            "h5lossy": _native.version(),
        }
        try:
            earlier = text_attribute(self.plan.dataset, SETTINGS_ATTRIBUTE)
        except UnsupportedError as error:  # of a type that cannot be ours
            earlier = str(error)
        if earlier is not None:
            try:
                settings["earlier"] = json.loads(earlier)
            except ValueError:  # not ours, but not to be lost either
                settings["earlier"] = earlier
        return settings


def provenance_text(dataset: h5py.Dataset, codec: Codec) -> str | None:
    """Return what `PROVENANCE_ATTRIBUTE` has to say now; None if it stays as it is.

    Earlier compression remains stated, as its errors remain.
    """
    if codec.bound.kind is BoundKind.LOSSLESS:
        return None
    text = loss_text(codec)
    try:
        if attribute_of(dataset, PROVENANCE_ATTRIBUTE) is None:
            return text
        earlier = text_attribute(dataset, PROVENANCE_ATTRIBUTE)
    except UnsupportedError:
        return None
    if earlier is None or not earlier.isascii() or len(earlier) > _MOST_TEXT:
        return None  # it is not ours
    return None if earlier.endswith(text) else f"{earlier}; {text}"

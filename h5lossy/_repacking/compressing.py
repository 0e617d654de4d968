# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The compressed copy of one dataset: its bound, its values, and the check of what was written."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

import h5py
import numpy as np
from h5py import h5a, h5d, h5z

from h5lossy import _native
from h5lossy._batched import read, write
from h5lossy._batched.boxes import as_selection
from h5lossy._batched.regions import (
    bounded_parts,
    groups,
    read_index,
    read_regions,
    with_smaller_bound,
)
from h5lossy._blocks import block_shape, listed_chunks, stored_blocks
from h5lossy._bounds import BoundKind, ErrorSummary
from h5lossy._codecs import FILTER_ID
from h5lossy._datasets import codec_of
from h5lossy._errors import (
    BoundViolationError,
    H5LossyError,
    IncompleteWriteError,
    InvalidArgumentError,
    UnsupportedError,
)
from h5lossy._frames import inspect
from h5lossy._libhdf5 import filters_in
from h5lossy._ranges import confirmed_range
from h5lossy._repacking.objects import name_in_read_errors
from h5lossy._repacking.planning import require_possible_index
from h5lossy._safeguards import NO_SAFEGUARDS
from h5lossy._stored import StoredChunks
from h5lossy._values import is_half, is_integer, own_fill_value
from h5lossy._variables import text_attribute
from h5lossy._verification.bound_checker import BoundChecker
from h5lossy._verification.recorder import Recorder
from h5lossy._verification.records import (
    ERROR_ATTRIBUTES,
    HASH_ATTRIBUTE,
    PROVENANCE_ATTRIBUTE,
    REPORT_ATTRIBUTE,
    SETTINGS_ATTRIBUTE,
    largest_errors,
    loss_text,
    rounded_up,
    stated_errors,
    write_text,
)
from h5lossy.missing import keeping_missing, missing_when_stored, with_zero_threshold

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from h5py import h5f, h5t

    from h5lossy._batched.regions import Region
    from h5lossy._codecs import Codec
    from h5lossy._repacking.planning import Plan
    from h5lossy._verification.bound_checker import MissingChange

#: Takes the bytes done since its last call, and the current step.
Advance: TypeAlias = Callable[[int, str], object]

#: Attributes of old HDF5 files are smaller than 64 KiB.
_MOST_TEXT = 1 << 15


class CompressedCopy:
    """The compressed copy of one dataset."""

    def __init__(self, plan: Plan, missing_value: Sequence[float], *, confirm_range: bool) -> None:
        assert plan.codec is not None
        self.plan = plan
        #: `codec` is the requested one until `resolve` replaces it by the stored one.
        self.requested = plan.codec
        self.codec = plan.stored_codec or plan.codec
        self.raw_bytes = self.stored_bytes = 0  # set by `write`
        self.summary: ErrorSummary | None = None  # set by `check`
        #: How often the largest integer of the type, which often marks missing data, was moved.
        self.moved_marks = 0
        #: The setting of an earlier compression.
        self.earlier: Codec | None = None
        dataset = plan.open()
        if FILTER_ID in (number for number, *_ in filters_in(dataset.id.get_create_plist())):
            with suppress(H5LossyError):  # cd_values of a later version: reading does not need them
                self.earlier = codec_of(dataset)
        exact = () if self.earlier is None else self.earlier.params().exact  # they stay exact
        self._earlier_settings = _earlier_settings(dataset)
        self._missing = missing_when_stored(dataset, (*missing_value, *exact))
        self._ends: tuple[float, float] | None = None  # extremes, once a range is resolved
        self._confirm_range = confirm_range
        recommended = plan.recommended
        has_bound = recommended is not None and recommended.bound is not None
        self._recommended = recommended if has_bound else None

    @property
    def needs_range(self) -> bool:
        """Whether `resolve` reads all values, because a range-relative bound was requested."""
        return self.requested.bound.kind is BoundKind.RANGE_RELATIVE

    @property
    def adds_error(self) -> bool:
        """Whether the values were moved to other bins before, so that the errors add up."""
        before, codec = self.earlier, self.codec
        if before is None:
            return False
        is_absolute = before.bound.kind in {BoundKind.ABSOLUTE, BoundKind.RANGE_RELATIVE}
        is_same_step = before.step_share == codec.step_share or not is_absolute
        is_same_lattice = is_same_step and before.wide == codec.wide
        # Safeguards move values to special places, which only the same safeguards keep.
        is_same_lattice &= before.safeguards in {NO_SAFEGUARDS, codec.safeguards}
        return before.bound != codec.bound or not is_same_lattice or self._had_regions

    @functools.cached_property
    def _had_regions(self) -> bool:
        """Whether a chunk of SRC has another bound than the dataset, and values that were moved."""
        dataset = self.plan.open()
        filters = filters_in(dataset.id.get_create_plist())
        if self.earlier is None or len(filters) != 1:  # regions require h5lossy's filter alone
            return False
        stored = StoredChunks(dataset)
        for place in listed_chunks(dataset).places.tolist():
            with suppress(H5LossyError):  # reading reports the error
                frame = stored.frame(tuple(place))
                info = None if frame is None else inspect(frame)
                if info is None or info.bound.kind is BoundKind.LOSSLESS:
                    continue
                if info.requested_bound != self.earlier.bound.value:
                    return True
        return False

    def resolve(self, advance: Advance) -> None:
        """Resolve a range-relative bound, and adjust the bound so that missing values are kept."""
        if self.needs_range:
            try:
                self._ends = confirmed_range(
                    self.plan.open(),
                    with_zero_threshold(self._missing, self.requested),
                    self.requested.bound,
                    confirmed=self._confirm_range,
                    read_blocks=lambda _: (v for _, v in self._values("range of", advance)),
                )
            except InvalidArgumentError as error:
                raise InvalidArgumentError(f"{self.plan.path}: {error}") from error
        self.codec = self._as_stored(self.requested)

    def _as_stored(self, requested: Codec) -> Codec:
        """Return the effective codec for a requested one."""
        codec = self.plan.of_stored(requested)
        if codec.bound.kind is BoundKind.RANGE_RELATIVE:
            codec = codec.resolved_for(self._ends)
        kept: Codec = keeping_missing(codec, self._missing)
        return kept

    def _regions(self) -> list[tuple[Any, float]]:
        """Return the regions as `write` takes them."""
        found = []
        for place, requested in () if self.codec.lossless else self.plan.regions:
            try:
                codec = self._as_stored(with_smaller_bound(self.requested, requested))
                bound = min(codec.bound.value, self.codec.bound.value)
                found.append((self._place(place), bound))
            except H5LossyError as error:
                raise type(error)(f"--region of {self.plan.path}: {error}") from error
        return found

    def _place(self, text: str) -> Any:
        """Return an index, or the mask that a path names: where it is neither 0 nor NaN."""
        if not text.startswith("/"):
            return read_index(text)
        mask = self.plan.file.get(text)
        if not isinstance(mask, h5py.Dataset) or mask.dtype.kind not in "biuf":
            raise InvalidArgumentError(f"SRC has no dataset of numbers {text}")
        values = mask[...]
        return (values != 0) & (values == values)  # noqa: PLR0124  # NaN

    def create(self, file: h5f.FileID, old: h5d.DatasetID, type_id: h5t.TypeID) -> h5d.DatasetID:
        """Make the new dataset for `FileCopier`."""
        dataset = h5py.Dataset(old)
        require_possible_index(self.plan, dataset.maxshape)
        creation = old.get_create_plist()
        creation.remove_filter(h5z.FILTER_ALL)
        creation.set_chunk(self.plan.chunks)
        creation.set_alloc_time(h5d.ALLOC_TIME_INCR)
        if self._missing.fill is not None and own_fill_value(dataset) is None:
            creation.set_fill_value(np.asarray(self._missing.fill))
        creation.set_filter(FILTER_ID, h5z.FLAG_MANDATORY, self.codec.filter_options)
        return h5d.create(file, None, type_id, old.get_space(), creation)

    def write(self, file: h5py.File, advance: Advance, *, attributes: bool) -> None:
        """Compress the values."""
        new, regions = self.plan.open(file), self._regions()
        for block, values in self._values("compressing", advance):
            try:
                write(new, values, block, regions=regions)
            except IncompleteWriteError as error:
                raise H5LossyError(f"{self.plan.path}: {error.__cause__}") from error
            self.raw_bytes += values.nbytes
        self.stored_bytes = new.id.get_storage_size()
        if attributes:
            write_text(new, SETTINGS_ATTRIBUTE, json.dumps(self._settings()))
        self._write_loss(new, attributes=attributes)

    def _write_loss(self, new: h5py.Dataset, *, attributes: bool) -> None:
        """State what was lost in words, and as a number if there is one; earlier losses remain.

        Without attributes, a number that is now too small is removed.
        """
        if self.codec.lossless:
            return
        scale = None if self.plan.packing is None else self.plan.packing.scale
        reason = "" if self._recommended is None else f", {self._recommended.source}"
        text = loss_text(self.codec, scale, reason)
        is_first = not h5a.exists(new.id, PROVENANCE_ATTRIBUTE.encode())
        earlier = None
        with suppress(UnsupportedError):
            earlier = text_attribute(new, PROVENANCE_ATTRIBUTE)
        if earlier is not None and earlier.endswith(text) and not self.adds_error:
            return
        errors = self._errors(new, is_first=is_first) if attributes else {}
        if is_first and attributes:
            write_text(new, PROVENANCE_ATTRIBUTE, text)
        elif (
            attributes and earlier is not None and earlier.isascii() and len(earlier) <= _MOST_TEXT
        ):  # it is ours
            write_text(new, PROVENANCE_ATTRIBUTE, f"{earlier}; {text}")
        for kind, name in ERROR_ATTRIBUTES.items():
            if kind in errors:
                new.attrs[name] = errors[kind]
            elif name in new.attrs:
                del new.attrs[name]

    def _errors(self, new: h5py.Dataset, *, is_first: bool) -> dict[BoundKind, float]:
        """Return the largest total error of values; nothing if one number cannot express it."""
        errors = largest_errors(new, self.codec.bound)
        before = stated_errors(new)
        if is_first:
            if self.earlier is None or self.earlier.lossless:
                return errors
            before = largest_errors(new, self.earlier.bound)
        if self.earlier is not None and not self.adds_error:
            return before
        total = {}
        for kind in errors.keys() & before.keys():
            first, second = Fraction(before[kind]), Fraction(errors[kind])
            is_relative = kind is BoundKind.POINTWISE_RELATIVE  # to what the first left
            total[kind] = rounded_up(first + second + (first * second if is_relative else 0))
        return total

    def check(self, file: h5py.File, advance: Advance, *, attributes: bool) -> None:
        """Compare every value, and record the result for `verify`; raise if one is wrong."""
        new = self.plan.open(file)
        recorder = Recorder(new, self.codec.bound, missing=self._missing) if attributes else None
        checker, of_regions = self._compared(new, advance, recorder)
        if checker.missing_change is not None:
            raise self._missing_error(checker.missing_change)
        self.summary = checker.summary()
        problems = [*self.summary.problems, *of_regions]
        if problems:
            raise BoundViolationError(
                f"nothing was written, since {self.plan.path} violates its bound: "
                f"{'; '.join(problems)}. This is a fault of h5lossy or of this machine; please "
                "report it"
            )
        if recorder is not None:
            recorder.finish()

    def why_not_done(
        self, file: h5py.File, advance: Advance, *, verify: bool, attributes: bool, values: bool
    ) -> str:
        """Return why a dataset of an earlier copy is not what would be written; else nothing."""
        new = self.plan.open(file)
        path, codec = self.plan.path, codec_of(new)
        if codec is None or new.chunks != self.plan.chunks:
            return f"{path} is not compressed, or in other chunks"
        recorded = None
        with suppress(KeyError, OSError, RecursionError, TypeError, ValueError):
            recorded = json.loads(new.attrs[SETTINGS_ATTRIBUTE])["requested"]
        if values or not self.needs_range:
            self.resolve(advance)
        elif recorded is None:
            return f"{path} has no record of the bound that was requested"
        wanted = json.loads(json.dumps(self._requested_settings()))
        if (recorded not in (None, wanted)) or (self.codec != codec and not self.needs_range):
            return f"{path} has another bound or codec: {codec}"
        if verify and attributes and not {REPORT_ATTRIBUTE, HASH_ATTRIBUTE} <= {*new.attrs}:
            return f"{path} was not checked when it was written"
        if values:
            checker, of_regions = self._compared(new, advance)
            if of_regions or not checker.summary().holds:
                return f"{path} does not hold the values of SRC within the bound"
        return ""

    def _compared(
        self, new: h5py.Dataset, advance: Advance, recorder: Recorder | None = None
    ) -> tuple[BoundChecker, list[str]]:
        """Compare every value with the original, but stop at a missing value that changed.

        Also returns what is wrong with the smaller bounds of regions.
        """
        checker = (
            recorder.checker
            if recorder
            else BoundChecker(self.codec.bound, self._missing, safeguards=self.codec.safeguards)
        )
        add = recorder.add if recorder else checker.add
        params = self.codec.params() if self.plan.regions else None
        regions = [] if params is None else read_regions(self._regions(), new, params)
        of_regions: list[str] = []
        for block, values in self._values("checking", advance):
            decoded = read(new, block)
            add(tuple(axis.start for axis in block), values, decoded)
            if regions:
                of_regions += self._problems_of_regions(new, regions, block, values, decoded)
            if is_integer(new.dtype):
                is_mark = values == np.iinfo(new.dtype).max
                self.moved_marks += int(np.count_nonzero(is_mark & (decoded != values)))
            if checker.missing_change is not None:
                break
        return checker, of_regions

    def _problems_of_regions(
        self,
        new: h5py.Dataset,
        regions: list[Region],
        block: tuple[slice, ...],
        values: np.ndarray[Any, Any],
        decoded: np.ndarray[Any, Any],
    ) -> Iterator[str]:
        """Compare the chunks of regions in a block, and yield what is wrong."""
        chosen = as_selection(block, new)
        assert chosen is not None
        for pieces in chosen.batches(1):
            for bound, box in bounded_parts(groups(regions, pieces), pieces):
                part = box.within(chosen.box).slices
                checker = BoundChecker(bound, self._missing, safeguards=self.codec.safeguards)
                checker.add(box.start, values[part], decoded[part])
                yield from checker.summary().problems

    def _missing_error(self, change: MissingChange) -> H5LossyError:
        """Return the error for points that readers now take for missing, or no longer do."""
        path = self.plan.path
        what = (
            "would no longer be missing or invalid, or not with the same bits"
            if change.is_lost
            else "is data, but would become missing or invalid"
        )
        return H5LossyError(
            f"nothing was written: attributes of {path} declare missing values or limits of valid "
            f"ones, which its bound does not keep apart. The value {change.original!s} at "
            f"{change.at} {what}: it would become {change.decoded!s}. Give this dataset "
            f"{self._safeguard_text(change)}another bound (--dataset '{path}:lossless' always "
            "holds), copy it unchanged (--skip), or make its missing value HDF5's fill value"
        )

    def _safeguard_text(self, change: MissingChange) -> str:
        """Return the rule that keeps values in or outside the valid range, if they leave it."""
        values = np.array([change.original, change.decoded], self._missing.dtype)
        limits = [float(x) for x in (self._missing.low, self._missing.high) if x is not None]
        if (
            len(set(self._missing.outside(values))) == 1
            or is_integer(values.dtype)
            or is_half(values.dtype)
        ):
            return ""
        name = "valid-range" if len(limits) == 2 else "threshold"
        setting = f"{name}={'..'.join(map(repr, limits))}"
        return f"a safeguard (--dataset '{self.plan.path}:{setting}'), "

    def _values(
        self, doing: str, advance: Advance
    ) -> Iterator[tuple[tuple[slice, ...], np.ndarray[Any, Any]]]:
        """Read the original in blocks of whole chunks of the target, and count each when done."""
        dataset, unit = self.plan.open(), self.plan.chunks
        shape, chunks, size = dataset.shape, dataset.chunks, dataset.dtype.itemsize
        doing = f"{doing} {self.plan.path}"
        left = self.plan.nbytes
        block = block_shape(shape, unit, size, cover=chunks)
        # Chunks of the target that no stored chunk of the source reaches into are not written,
        # either.
        piece = block_shape(chunks or shape, unit, size)
        advance(0, doing)
        for part in stored_blocks(dataset, block, piece):
            with name_in_read_errors(self.plan.path):
                values = read(dataset, part)
            yield part, values
            advance(values.nbytes, doing)
            left -= values.nbytes
        advance(left, doing)

    def _requested_settings(self) -> dict[str, Any]:
        regions = {"regions": self.plan.regions} if self.plan.regions else {}
        return {**self.requested.get_config(), **regions}

    def _settings(self) -> dict[str, Any]:
        """Return the dataset's attribute; an earlier one is kept in it."""
        settings: dict[str, Any] = {
            "codec": self.codec.codec_name,
            "requested": self._requested_settings(),
            "stored": self.codec.get_config(),
            "h5lossy": _native.version(),
        }
        if self._recommended is not None:
            settings["recommended"] = str(self._recommended)
        if self._earlier_settings is not None:
            settings["earlier"] = self._earlier_settings
        return settings


def _earlier_settings(dataset: h5py.Dataset) -> Any:
    """Return the settings of an earlier compression; as text, if they are not ours."""
    try:
        earlier = text_attribute(dataset, SETTINGS_ATTRIBUTE)
    except UnsupportedError as error:  # of a type that cannot be ours
        return str(error)
    try:
        return None if earlier is None else json.loads(earlier)
    except (ValueError, RecursionError):
        return earlier

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Attributes of a dataset that record the check that was made when it was written.

`REPORT_ATTRIBUTE` holds JSON: the dataset, the largest error and other sums. `HASH_ATTRIBUTE` holds
`Hashes`. docs/howto/verify.md describes both.
"""

from __future__ import annotations

import hashlib
import json
import math
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from h5py import h5a, h5t

from h5lossy import _native
from h5lossy._bounds import BoundKind
from h5lossy._errors import H5LossyError, InvalidArgumentError, UnsupportedError
from h5lossy._packing import Packing
from h5lossy._variables import attribute_of, text_attribute
from h5lossy._verification.hashes import Hashes

if TYPE_CHECKING:
    import h5py
    import numpy.typing as npt

    from h5lossy._bounds import ErrorBound
    from h5lossy._codecs import Codec

#: The results of the check, and which dataset they are about: JSON.
REPORT_ATTRIBUTE = "h5lossy_report"

#: Hashes of the decoded values: text, see `Hashes`.
HASH_ATTRIBUTE = "h5lossy_hashes"

#: The settings that `repack` was given, and those that it used: JSON.
SETTINGS_ATTRIBUTE = "h5lossy"

#: What was lost, in words. CF's section 8.4, "Lossy Compression via Quantization", has attributes
#: for four algorithms only, none of which is ours; it allows attributes of other names.
PROVENANCE_ATTRIBUTE = "lossy_compression"

#: The same as a number, for the values that packed numbers represent: the largest error after
#: everything that `PROVENANCE_ATTRIBUTE` lists. The names follow
#: ``quantization_maximum_relative_error``, which NCO and others write next to CF's attributes.
ERROR_ATTRIBUTES = {
    BoundKind.ABSOLUTE: "lossy_compression_maximum_absolute_error",
    BoundKind.POINTWISE_RELATIVE: "lossy_compression_maximum_relative_error",
}

#: All attributes that are true only of the dataset for which they were written.
ATTRIBUTES = (SETTINGS_ATTRIBUTE, REPORT_ATTRIBUTE, HASH_ATTRIBUTE)

#: Those that stay true of its values until more is lost.
LOSS_ATTRIBUTES = (PROVENANCE_ATTRIBUTE, *ERROR_ATTRIBUTES.values())

SCHEMA = "h5lossy.verification/3"

#: With room to grow, hashes stay below 64 KiB, the limit of an attribute in old HDF5 files.
MOST_HASH_BYTES = 40_000

Place = tuple[int, ...]


@dataclass(frozen=True)
class Record:
    """A record in a file: the JSON object, and the hashes."""

    report: dict[str, Any]
    hashes: Hashes

    @property
    def of(self) -> dict[str, Any]:
        """What it says about its dataset (`description`)."""
        found: dict[str, Any] = self.report["dataset"]
        return found

    def number(self, place: Place) -> int:
        """Return the number of a chunk."""
        return sum(p * stride for p, stride in zip(place, self.report["strides"], strict=True))

    def place(self, number: int) -> Place:
        """Return the place of the chunk with this number."""
        strides = self.report["strides"]
        place = [0] * len(strides)
        for axis in sorted(range(len(strides)), key=strides.__getitem__, reverse=True):
            place[axis], number = divmod(number, strides[axis])
        return tuple(place)

    def write(self, dataset: h5py.Dataset) -> None:
        """Write the attributes."""
        text = self.hashes.text()
        self.report["digest"] = digest(self.report, text)
        _overwrite_text(dataset, REPORT_ATTRIBUTE, json.dumps(self.report))
        _overwrite_text(dataset, HASH_ATTRIBUTE, text)


def description(dataset: h5py.Dataset, codec: Codec, unwritten: npt.NDArray[Any]) -> dict[str, Any]:
    """Return a record's description of its dataset: all that affects its values or bounds."""
    safeguards = str(codec.safeguards)
    # Programs that copy a dataset may drop some of the other cd_values.
    return {
        "type": dataset.dtype.str,
        "shape": list(dataset.shape),
        "chunks": list(dataset.chunks),
        "bound": str(codec.bound),
        **({"safeguards": safeguards} if safeguards else {}),
        "unwritten": unwritten.astype(dataset.dtype.newbyteorder("<")).tobytes().hex(),
    }


def strides_of(dataset: h5py.Dataset) -> list[int]:
    """Return how much a chunk's number grows along each axis, whatever the extents."""
    # Most along an unlimited axis, so that appended chunks have consecutive numbers.
    most = dataset.maxshape
    counts = [
        1 << 64 if n is None else max(1, -(-n // c))
        for n, c in zip(most, dataset.chunks, strict=True)
    ]
    axes = sorted(range(len(most)), key=lambda axis: most[axis] is not None)
    return [math.prod(counts[i] for i in axes[axes.index(axis) + 1 :]) for axis in range(len(most))]


def digest(report: dict[str, Any], hashes: str) -> str:
    """Return a digest of the whole record, so that a change of any part of it is noticed."""
    rest = {name: value for name, value in report.items() if name != "digest"}
    text = json.dumps(rest, sort_keys=True) + hashes
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def loss_text(codec: Codec, scale: float | None = None, reason: str = "") -> str:
    """Describe the loss by a codec, with the scale of packed data, for `PROVENANCE_ATTRIBUTE`."""
    bound = codec.bound
    kind = str(bound.kind).replace("_", "-")
    of_numbers = "" if scale is None else f" of the numbers packed with scale_factor {scale!r}"
    error = f"{kind} error at most {bound.value!r}"
    if bound.kind is BoundKind.NOISE:
        error = f"error of counts x at most {bound.value!r} sqrt(|x|)"
        error += f", or {bound.floor}" if bound.floor else ""
    thresholds, valid_range = codec.safeguards
    error += "".join(f", threshold {number!r} kept" for number in thresholds)
    error += ", valid range {!r} to {!r} kept".format(*valid_range) if valid_range else ""
    error += of_numbers + reason.encode("ascii", "replace").decode()
    return f"{error}: h5lossy version {_native.version()} (codec {codec.codec_name})"


def largest_errors(dataset: h5py.Dataset, bound: ErrorBound) -> dict[BoundKind, float]:
    """Return the largest error of a dataset's values under a bound on what is stored.

    Nothing if no single number expresses it: for bounds that depend on other values, and for packed
    numbers whose relative error is not that of the values.
    """
    if bound.kind not in ERROR_ATTRIBUTES:
        return {}
    try:
        packing = Packing.of(dataset, dataset.dtype) or Packing(1.0, 0.0)
    except H5LossyError:
        return {}
    if bound.kind is BoundKind.ABSOLUTE:
        return {bound.kind: rounded_up(Fraction(bound.value) * abs(Fraction(packing.scale)))}
    return {} if packing.offset else {bound.kind: bound.value}


def stated_errors(dataset: h5py.Dataset) -> dict[BoundKind, float]:
    """Return what `ERROR_ATTRIBUTES` say."""
    found = {}
    for kind, name in ERROR_ATTRIBUTES.items():
        value: Any = None
        with suppress(UnsupportedError):
            value = np.asarray(attribute_of(dataset, name))
        if value is not None and value.dtype.kind in "fiu" and value.size == 1:
            found[kind] = float(value.item())
    return {kind: value for kind, value in found.items() if 0 <= value < math.inf}


def rounded_up(value: Fraction) -> float:
    """Return the smallest float64 that is not below a number."""
    nearest = float(value)
    return nearest if nearest >= value else math.nextafter(nearest, math.inf)


def write_text(dataset: h5py.Dataset, name: str, text: str) -> None:
    """Write an attribute of fixed-length ASCII, which every netCDF model supports."""
    if name in dataset.attrs:
        del dataset.attrs[name]
    dataset.attrs[name] = np.bytes_(text.encode("ascii"))


def _overwrite_text(dataset: h5py.Dataset, name: str, text: str) -> None:
    """Write text in place if it fits. If not, spaces behind it make room for more."""
    size = len(text)
    if name in dataset.attrs:
        attribute = h5a.open(dataset.id, name.encode())
        kind = attribute.get_type()
        is_ours = isinstance(kind, h5t.TypeStringID) and not kind.is_variable_str()
        if is_ours and attribute.shape == () and size <= kind.get_size():
            attribute.write(np.array(text.ljust(kind.get_size()), f"S{kind.get_size()}"))
            return
        size += size // 2  # HDF5 does not reuse the space of a deleted attribute
    write_text(dataset, name, text.ljust(size))


def read_record(dataset: h5py.Dataset) -> Record | None:
    """Read the record of a dataset, if it has one, or raise."""
    there = [name for name in (REPORT_ATTRIBUTE, HASH_ATTRIBUTE) if name in dataset.attrs]
    if not there:
        return None
    if len(there) == 1:
        raise InvalidArgumentError(f"the record is incomplete: the dataset has only {there[0]}")
    try:
        text, hashes = ((text_attribute(dataset, name) or "").rstrip(" ") for name in there)
        report = json.loads(text)
        schema = report["schema"]
        is_sound = schema == SCHEMA and report["digest"] == digest(report, hashes)
        if is_sound:
            _check_types(report)
            return Record(report, Hashes.read(hashes, report["chunks_per_hash"]))
    except (
        UnsupportedError,
        ValueError,
        TypeError,
        KeyError,
        OverflowError,
        RecursionError,
    ) as error:
        raise InvalidArgumentError(f"the record can't be read: {error!r}") from error
    if schema != SCHEMA and str(schema).startswith(SCHEMA.partition("/")[0]):
        raise UnsupportedError(
            f"the record has the schema {schema!r} of another version of h5lossy, and this one "
            f"reads {SCHEMA!r}; write or repack the data again for a new record"
        )
    raise InvalidArgumentError(
        "the record was changed after it was made: its digest does not match"
    )


def _check_types(report: dict[str, Any]) -> None:
    """Raise if a record lacks what `verify` uses: a correct digest does not prove its origin."""
    dataset, found, size = report["dataset"], report["found"], report["chunks_per_hash"]
    strides, rank = report["strides"], len(dataset["shape"])
    unwritten = bytes.fromhex(dataset["unwritten"])
    types = (
        isinstance(size, int) and size > 0,
        isinstance(report["written"], int),
        isinstance(report["complete"], bool),
        len(unwritten) == np.dtype(dataset["type"]).itemsize,
        found is None or isinstance(found["max_abs"], int | float | None),
        len(strides) == len(dataset["chunks"]) == rank,
        all(isinstance(extent, int) and extent >= 0 for extent in dataset["shape"]),
        all(isinstance(stride, int) and stride > 0 for stride in strides),
    )
    if not all(types):
        raise TypeError("fields of the wrong type")

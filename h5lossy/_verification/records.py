# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""What a dataset's attributes say of the check that was made when it was written.

`REPORT_ATTRIBUTE` holds JSON: the dataset, the largest error and other sums. `HASH_ATTRIBUTE` holds
hashes of the decoded values, one for each chunk or for a group of chunks.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from h5lossy import _native
from h5lossy._errors import InvalidArgumentError, UnsupportedError
from h5lossy._values import as_bits

if TYPE_CHECKING:
    import h5py
    import numpy.typing as npt

    from h5lossy._codecs import Codec
    from h5lossy._datasets import DatasetInfo

#: What was found when the dataset was written, and of what dataset: JSON.
REPORT_ATTRIBUTE = "h5lossy_report"

#: Hashes of the decoded values: text, see `Hashes`.
HASH_ATTRIBUTE = "h5lossy_hashes"

#: What `repack` was asked for, and what it used: JSON.
SETTINGS_ATTRIBUTE = "h5lossy"

#: What was lost, in words. CF's section 8.4, "Lossy Compression via Quantization", has attributes
#: for four algorithms, of which none is ours, and no others; it allows attributes of other names.
PROVENANCE_ATTRIBUTE = "lossy_compression"

#: All attributes that are only true of the dataset for which they were written.
ATTRIBUTES = (SETTINGS_ATTRIBUTE, REPORT_ATTRIBUTE, HASH_ATTRIBUTE)

SCHEMA = "h5lossy.verification/2"

#: The text of the hashes stays below 64 KiB, the limit of an attribute in old HDF5 files.
MOST_HASH_BYTES = 60_000

Place = tuple[int, ...]


def hash_values(values: npt.NDArray[Any]) -> int:
    """Return a 64-bit hash of values: BLAKE2b of their little-endian bytes in C order."""
    little = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    return _blake2b(little.reshape(-1).view(np.uint8).data)


def _blake2b(data: Any) -> int:
    """Return the first 8 bytes of a hash as a number."""
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


@dataclass(frozen=True, kw_only=True)
class Hashes:
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
    def of(cls, chunks: dict[int, int]) -> Hashes:
        """Group the hashes of chunks, by their number in the grid."""
        size = 1
        while len(chunks) * _BYTES_PER_HASH > size * MOST_HASH_BYTES:
            size *= 2
        while len(hash_text(dict.fromkeys((n // size for n in chunks), 0))) > MOST_HASH_BYTES:
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


def hash_text(by_group: dict[int, int]) -> str:
    """Write hashes as text; a group that does not follow the previous one has its number first."""
    parts, following = [_HASH_NAME], 0
    for group in sorted(by_group):
        number = "" if group == following else f"{group:x}:"
        parts.append(f"{number}{by_group[group]:016x}")
        following = group + 1
    return " ".join(parts)


def _hashes_in(text: str) -> dict[int, int]:
    """Read what `hash_text` wrote."""
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


def number_of(place: Place, grid: tuple[int, ...]) -> int:
    """Return the number of a chunk in C order; NumPy's own stops at 2**63."""
    number = 0
    for position, extent in zip(place, grid, strict=True):
        number = number * extent + position
    return number


def place_of(number: int, grid: tuple[int, ...]) -> Place:
    """Return the place of the chunk with this number."""
    place: list[int] = []
    for extent in reversed(grid):
        number, position = divmod(number, extent)
        place.insert(0, position)
    return tuple(place)


def hash_unless(values: npt.NDArray[Any], unwritten: npt.NDArray[Any]) -> int | None:
    """Return the hash of a chunk; None if it reads as if it were not stored."""
    if not values.size or (as_bits(values) == as_bits(unwritten)).all():
        return None
    return hash_values(values)


def description(described: DatasetInfo, unwritten: npt.NDArray[Any]) -> dict[str, Any]:
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


def digest(record: dict[str, Any], hashes: str) -> str:
    """Return a digest of the whole record, so that a change of any part of it is noticed."""
    rest = {name: value for name, value in record.items() if name != "digest"}
    text = json.dumps(rest, sort_keys=True) + hashes
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def loss_text(codec: Codec) -> str:
    """Say what a codec loses, for `PROVENANCE_ATTRIBUTE`."""
    kind = str(codec.bound.kind).replace("_", "-")
    return (
        f"{kind} error at most {codec.bound.value!r}: "
        f"h5lossy version {_native.version()} (codec {codec.codec_name})"
    )


def write_text(dataset: h5py.Dataset, name: str, text: str) -> None:
    """Write an attribute of fixed-length ASCII, which every netCDF model supports."""
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


def read_record(dataset: h5py.Dataset) -> tuple[dict[str, Any], Hashes] | None:
    """Read the record of a dataset, and its hashes; None where there is none.

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
        is_sound = schema == SCHEMA and found["digest"] == digest(found, text)
        if is_sound:
            _check_types(found)
        hashes = Hashes(
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

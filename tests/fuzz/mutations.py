# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Ways to damage an HDF5 file of `seeds` so that the damage gets as far as our own code.

There are two kinds. Some go through HDF5 (`write_direct_chunk`, attributes): the file is in order
but for what stands in it. Others change bytes; all of HDF5's checksums are then made right again,
unless noticing is what is asked for.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import re
import struct
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
from h5py import h5o

import h5lossy
from fuzz.seeds import LIBHDF5, NAME
from h5lossy import FILTER_ID
from h5lossy._verification.records import HASH_ATTRIBUTE, REPORT_ATTRIBUTE
from hdf5_helpers import cd_values, filters, stored_chunks
from reference import frame as reference
from reference.common import FLOAT_TYPES

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

    from fuzz.seeds import Seed

_GZIP, _FLETCHER32 = h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_FLETCHER32

#: Numbers at which something changes.
_EDGES = (0, 1, 2, 3, 4, 7, 8, 9, 16, 32, 127, 128, 255, 256, 0x7FFF, 0xFFFF, 0x10000, 1 << 20)
_EDGES_32 = (*_EDGES, 0x7FFFFFFF, 0x80000000, 0xFFFFFFD7, 0xFFFFFFD8, 0xFFFFFFFE, 0xFFFFFFFF)
_EDGES_64 = (*_EDGES_32, 1 << 32, 1 << 38, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
_DOUBLES = (0.0, -0.0, 1e-3, -1e-3, 1.0, 5e-324, 1e-320, 1e308, 2.0**-125, 2.0**125, 2.0**-1021)
_SPECIAL_DOUBLES = (*_DOUBLES, float("inf"), float("-inf"), float("nan"))


@dataclass
class Patient:
    """A file that is being damaged, and what has been done to it."""

    seed: Seed
    path: Path  # the file
    rng: random.Random  # where all choices come from
    notes: list[str] = field(default_factory=list)  # what was done, for the reader of a report
    # Whether a checksum says that other values than the seed's are an error.
    must_be_noticed: bool = False


#: The ways by their names. Each returns what it did.
_THROUGH_HDF5: dict[str, Callable[[Patient, h5py.Dataset], str]] = {}
_IN_BYTES: dict[str, Callable[[Patient, Image], str]] = {}


def damage(patient: Patient, names: tuple[str, ...] | None = None) -> None:
    """Damage a file in one to three ways, chosen at random without `names`.

    Its `notes` and `must_be_noticed` say how.
    """
    rng = patient.rng
    if names is None:
        count = rng.choices((1, 2, 3), (6, 3, 1))[0]
        names = tuple(rng.choices([*_THROUGH_HDF5, *_IN_BYTES], k=count))
    # First those for which HDF5 has to understand the file.
    for name in names:
        if name in _THROUGH_HDF5:
            with h5py.File(patient.path, "r+") as file:
                said = _THROUGH_HDF5[name](patient, file[NAME])
            patient.notes.append(f"{name}: {said}")
    if any(name in _IN_BYTES for name in names):
        image = Image(patient.path)
        for name in names:
            if name in _IN_BYTES:
                patient.notes.append(f"{name}: {_IN_BYTES[name](patient, image)}")
        image.save()
    patient.must_be_noticed = set(names) <= {"flip_frame"} and patient.seed.checksum


def _through_hdf5(
    function: Callable[[Patient, h5py.Dataset], str],
) -> Callable[[Patient, h5py.Dataset], str]:
    _THROUGH_HDF5[function.__name__] = function
    return function


def _in_bytes(function: Callable[[Patient, Image], str]) -> Callable[[Patient, Image], str]:
    _IN_BYTES[function.__name__] = function
    return function


# ------------------------------------------------------------------------------------------------
# HDF5's own checksums
# ------------------------------------------------------------------------------------------------

#: What has a checksum behind it; the superblock of versions 2 and 3 among them.
_SIGNATURES = re.compile(
    rb"\x89HDF\r\n\x1a\n[\x02\x03]|OHDR|OCHK|BTHD|BTLF|BTIN|FAHD|FADB|EAHD|EAIB|EASB|EADB|FRHP|FHIB"
)
_LONGEST = 8192

_lookup3 = LIBHDF5.H5_checksum_lookup3
_lookup3.restype = ctypes.c_uint32
_lookup3.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32)

_fletcher32 = LIBHDF5.H5_checksum_fletcher32
_fletcher32.restype = ctypes.c_uint32
_fletcher32.argtypes = (ctypes.c_char_p, ctypes.c_size_t)


def find_sums(content: bytes) -> list[tuple[int, int]]:
    """Find what HDF5's checksums are of: from where, to where each of them stands."""
    sums = []
    memory = ctypes.create_string_buffer(content, len(content))
    address = ctypes.addressof(memory)
    for match in _SIGNATURES.finditer(content):
        begin = match.start()
        for end in range(begin + 8, min(begin + _LONGEST, len(content) - 3)):
            if _lookup3(address + begin, end - begin, 0) == _u32(content, end):
                sums.append((begin, end))
                break
    return sums


class Image:
    """A file's bytes, where things stand in them, and HDF5's checksums."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.bytes = bytearray(path.read_bytes())
        self._sums = find_sums(bytes(self.bytes))
        with h5py.File(path) as file:
            dataset = file[NAME]
            self.shape, self.chunk_shape, self.dtype = dataset.shape, dataset.chunks, dataset.dtype
            self.type_message = _type_message(dataset.id.get_type())
            self.chunks = stored_chunks(dataset)
            self.header = int(h5o.get_info(dataset.id).addr)
            words = np.array(cd_values(dataset), "<u4").tobytes()
        # Our filter's entry of the pipeline message, and its cd_values.
        self.words = self.bytes.index(words)
        self.pipeline = self.bytes.rindex(struct.pack("<H", FILTER_ID), 0, self.words)

    def save(self) -> None:
        """Write the file, with checksums that are right."""
        # A header's checksum is behind what it is of, and nothing is in two of them.
        for begin, end in self._sums:
            if end + 4 <= len(self.bytes):
                part = bytes(self.bytes[begin:end])
                self.bytes[end : end + 4] = struct.pack("<I", _lookup3(part, len(part), 0))
        self._path.write_bytes(self.bytes)

    def in_frame(self, at: int) -> bool:
        """Whether a place is inside of a chunk."""
        return any(c.byte_offset <= at < c.byte_offset + c.size for c in self.chunks)

    def set(self, at: int, new: bytes) -> str:
        """Overwrite bytes; return what changed."""
        at = min(at, len(self.bytes) - 1)
        new = new[: max(0, len(self.bytes) - at)]
        old = bytes(self.bytes[at : at + len(new)])
        self.bytes[at : at + len(new)] = new
        return f"at {at}: {old.hex()} became {new.hex()}"


def _u32(content: bytes, at: int) -> int:
    return int.from_bytes(content[at : at + 4], "little")


def _edit(rng: random.Random, image: Image, at: int) -> str:
    """Change one to eight bytes."""
    at = min(at, len(image.bytes) - 1)
    how = rng.randrange(4)
    if how == 0:
        return image.set(at, bytes([image.bytes[at] ^ 1 << rng.randrange(8)]))
    if how == 1:
        return image.set(at, bytes([rng.randrange(256)]))
    if how == 2:
        return image.set(at, struct.pack("<I", rng.choice(_EDGES_32)))
    return image.set(at, struct.pack("<Q", rng.choice(_EDGES_64)))


# ------------------------------------------------------------------------------------------------
# Frames
# ------------------------------------------------------------------------------------------------


def seal(frame: bytes) -> bytes:
    """Make a frame's checksums right, as far as its layout makes sense."""
    header_bytes = 4 * frame[5] if len(frame) >= 40 else 0
    if header_bytes < 40 or header_bytes > len(frame):
        return frame
    tiles = _tile_count(frame)
    front = header_bytes + 4 * tiles
    payload = frame[front:]
    ends = [_u32(frame, at) for at in range(header_bytes, min(front, len(frame) - 3), 4)]
    if frame[6] == reference.STORED:
        ends = [len(payload)]
    bounds = list(itertools.pairwise([0, *ends]))
    total = 0
    if frame[10] & reference.HAS_PAYLOAD_SUM and all(b <= e <= len(payload) for b, e in bounds):
        total = reference.checksum(payload[b:e] for b, e in bounds)
    sealed = frame[:20] + struct.pack("<I", total) + frame[24:]
    header = reference.checksum([sealed[:16] + sealed[20:front]])
    return sealed[:16] + struct.pack("<I", header) + sealed[20:]


def _tile_count(frame: bytes) -> int:
    """Return how many entries the tile table has; 0 where nobody can tell."""
    codec = reference.CODECS.get(frame[6])
    value_bytes, raw_bytes, mode = frame[7] & 0x7F, _u32(frame, 12), frame[9]
    if codec is None or mode not in codec.MODES or value_bytes not in FLOAT_TYPES:
        return 0
    count = codec.MODES[mode]
    if frame[5] < 10 + count:
        return 0
    dims = struct.unpack_from(f"<{count}I", frame, 40) or None
    if dims is not None and 0 in dims:
        return 0
    tiling = codec.tiling(raw_bytes // value_bytes, FLOAT_TYPES[value_bytes], mode, dims)
    return min(int(tiling.tile_count), len(frame) // 4)


def stored_frame(raw: bytes, value_bytes: int = 1, *, claims: int | None = None) -> bytes:
    """Make a frame of codec 0; `claims`: of how many raw bytes it says it is."""
    size = len(raw) if claims is None else claims
    front = b"H5LY" + bytes([1, 10, 0, value_bytes, 3, 0, 1, 0]) + struct.pack("<I", size)
    return seal(front + bytes(24) + raw)


def empty_tiles(raw_bytes: int, value_bytes: int) -> bytes:
    """Make a small frame of AATROX that says it is of many zeros."""
    front = b"H5LY" + bytes([1, 10, 3, value_bytes, 0, 0, 1, 0]) + struct.pack("<I", raw_bytes)
    step = 2e-3 if value_bytes == 8 else float(np.float32(2e-3))
    front += bytes(8) + struct.pack("<2d", 1e-3, step)
    tiles = -(-raw_bytes // value_bytes // 32768)
    return seal(front + bytes(4 * tiles))


def _other_frame(rng: random.Random, dataset: h5py.Dataset, frame: bytes) -> tuple[str, bytes]:
    """Return a well-formed frame that is not this chunk's, or none at all."""
    dtype, count = dataset.dtype, int(np.prod(dataset.chunks))
    how = rng.choice(
        ["size", "type", "bytes", "huge", "looser", "cut", "noise", "longer", "claims"]
    )
    codec = h5lossy.PFPL(absolute=1e-3)
    if how == "size":
        sizes = (1, 2, count // 2, count - 1, count + 1, 2 * count)
        frame = h5lossy.encode(np.ones(rng.choice(sizes), dtype), codec)
    elif how == "type":
        other = rng.choice(["<f4", ">f4", "<f8", ">f8"])
        size = rng.choice((count, count * dtype.itemsize // int(other[2])))
        frame = h5lossy.encode(np.linspace(0, 1, size).astype(other), codec)
    elif how == "bytes":
        sizes = (1, 4, 8, count * dtype.itemsize - 1, count * dtype.itemsize, count * 16)
        frame = stored_frame(bytes(rng.choice(sizes)), rng.choice((1, 4, 8)))
    elif how == "huge":
        frame = empty_tiles(rng.choice((1 << 24, 1 << 28, 0xFFFFFFD0)), dtype.itemsize)
    elif how == "looser":
        values = np.linspace(0, 1, count).astype(dtype)
        frame = h5lossy.encode(values, h5lossy.AATROX(absolute=0.1))
    elif how == "cut":
        frame = frame[: rng.randrange(1, max(2, len(frame)))]
    elif how == "noise":
        frame = rng.randbytes(rng.choice((1, 4, 39, 40, 41, 200, len(frame))))
    elif how == "longer":
        frame += rng.randbytes(rng.choice((1, 4, 100)))
    else:
        frame = stored_frame(bytes(8), dtype.itemsize, claims=rng.choice(_EDGES_32))
    return how, frame


#: Fields of a header: where, and how many bytes.
_FIELDS = ((4, 1), (5, 1), (6, 1), (7, 1), (8, 1), (9, 1), (10, 2), (12, 4), (24, 8), (32, 8))
_DIMS = ((40, 4), (44, 4), (48, 4))


def _edited_frame(rng: random.Random, frame: bytes) -> tuple[str, bytes]:
    """Change a field of the header or a byte behind it, and make the checksums right."""
    if len(frame) <= 56 or rng.random() < 0.5:
        at, size = rng.choice(_FIELDS if frame[5] == 10 else _FIELDS + _DIMS)
        if size == 8 and rng.random() < 0.7:
            new = struct.pack("<d", rng.choice(_SPECIAL_DOUBLES))
        else:
            new = struct.pack("<Q", rng.choice(_EDGES_64))[:size]
    else:
        at = rng.randrange(40, len(frame))
        new = bytes([frame[at] ^ 1 << rng.randrange(8)])
    return f"byte {at}: {new.hex()}", seal(frame[:at] + new + frame[at + len(new) :])


def unwrapped(dataset: h5py.Dataset, stored: bytes) -> bytes:
    """Undo the filters behind ours."""
    for number, _, _, _ in reversed(filters(dataset)):
        if number == _GZIP:
            stored = zlib.decompress(stored)
        elif number == _FLETCHER32:
            stored = stored[:-4]
    return stored


def _wrapped(dataset: h5py.Dataset, frame: bytes) -> bytes:
    for number, _, _, _ in filters(dataset):
        if number == _GZIP:
            frame = zlib.compress(frame, 1)
        elif number == _FLETCHER32:
            frame += struct.pack("<I", _fletcher32(frame, len(frame)))
    return frame


def _frame_of(patient: Patient, dataset: h5py.Dataset) -> tuple[Any, bytes]:
    chunk = patient.rng.choice(stored_chunks(dataset))
    _, stored = dataset.id.read_direct_chunk(chunk.chunk_offset)
    try:
        return chunk, unwrapped(dataset, bytes(stored))
    except zlib.error:  # damaged before
        return chunk, bytes(stored)


def _store(dataset: h5py.Dataset, chunk: Any, stored: bytes, mask: int = 0) -> None:
    dataset.id.write_direct_chunk(chunk.chunk_offset, stored, mask)


@_through_hdf5
def replace_frame(patient: Patient, dataset: h5py.Dataset) -> str:
    chunk, frame = _frame_of(patient, dataset)
    how, frame = _other_frame(patient.rng, dataset, frame)
    _store(dataset, chunk, _wrapped(dataset, frame))
    return f"{how}, chunk {chunk.chunk_offset}"


@_through_hdf5
def edit_frame(patient: Patient, dataset: h5py.Dataset) -> str:
    chunk, frame = _frame_of(patient, dataset)
    if len(frame) < 40:
        return "nothing"
    said, frame = _edited_frame(patient.rng, frame)
    _store(dataset, chunk, _wrapped(dataset, frame))
    return f"{said}, chunk {chunk.chunk_offset}"


@_through_hdf5
def swap_frames(patient: Patient, dataset: h5py.Dataset) -> str:
    (one, frame), (other, others) = _frame_of(patient, dataset), _frame_of(patient, dataset)
    _store(dataset, one, _wrapped(dataset, others))
    _store(dataset, other, _wrapped(dataset, frame))
    return f"chunks {one.chunk_offset}, {other.chunk_offset}"


@_through_hdf5
def mask_filters(patient: Patient, dataset: h5py.Dataset) -> str:
    """Say that filters were left out, over a frame or over values as they are."""
    rng = patient.rng
    chunk, frame = _frame_of(patient, dataset)
    size = int(np.prod(dataset.chunks)) * dataset.dtype.itemsize
    mask = rng.choice((1, 2, 3, 0x80000000, 0xFFFFFFFF))
    stored = rng.choice(
        (frame, _wrapped(dataset, frame), bytes(size), bytes(size // 2), bytes(1), bytes(2 * size))
    )
    _store(dataset, chunk, stored, mask)
    return f"mask {mask:#x} over {len(stored)} bytes, chunk {chunk.chunk_offset}"


@_through_hdf5
def edit_record(patient: Patient, dataset: h5py.Dataset) -> str:
    rng, attributes = patient.rng, dataset.attrs
    report = _report_of(attributes)
    if report is None:
        attributes[REPORT_ATTRIBUTE] = rng.choice(_REPORTS)
        attributes[HASH_ATTRIBUTE] = rng.choice(_HASHES)
        return "made up"
    how = rng.randrange(4)
    if how == 0:
        del attributes[rng.choice((REPORT_ATTRIBUTE, HASH_ATTRIBUTE))]
        return "one is gone"
    if how == 1:
        attributes[REPORT_ATTRIBUTE] = new = rng.choice(_REPORTS)
        return f"report: {new!r}"
    if how == 2:
        return _edit_hashes(rng, attributes)
    key = rng.choice(list(report))
    report[key] = rng.choice(_JSON)
    attributes[REPORT_ATTRIBUTE] = json.dumps(report)
    return f"{key}: {report[key]!r}"


def _report_of(attributes: Any) -> dict[str, Any] | None:
    """Return the record as it was written; None where there is none, or it has been changed."""
    if REPORT_ATTRIBUTE not in attributes or HASH_ATTRIBUTE not in attributes:
        return None
    try:
        report = json.loads(attributes[REPORT_ATTRIBUTE])
    except (TypeError, ValueError, RecursionError):
        return None
    return report if isinstance(report, dict) and report else None


def _edit_hashes(rng: random.Random, attributes: Any) -> str:
    """Change hashes as they stand there, text or numbers, or put something else in their place."""
    hashes = np.asarray(attributes[HASH_ATTRIBUTE])
    if hashes.size and rng.random() < 0.6:
        raw = bytearray(hashes.tobytes())
        for _ in range(rng.choice((1, 1, 8))):
            raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
        attributes[HASH_ATTRIBUTE] = np.frombuffer(bytes(raw), hashes.dtype).reshape(hashes.shape)
        return "hashes: other bits"
    attributes[HASH_ATTRIBUTE] = new = rng.choice((hashes[:0] if hashes.ndim else "", *_HASHES))
    return f"hashes: {new!r}"


_JSON: tuple[Any, ...] = (None, 0, 1, -1, 1 << 70, 0.5, 1e400, "", "x", [], [1], [5, 3], {}, True)
_HASHES: tuple[Any, ...] = (
    np.arange(15, dtype="u8"),
    np.zeros(15, "u8"),
    np.zeros(1, "f8"),
    np.zeros(0, "i1"),
    "",
    "abc",
    "sum64",
    "sum64 0:0123456789abcdef",
    "sum64 0:" + 15 * "0000000000000000",
    b"\xff\xfe",
    h5py.Empty("f4"),
)
_REPORTS: tuple[Any, ...] = (
    "",
    "{",
    "[]",
    "{}",
    "null",
    "[" * 5000,
    '{"schema": "h5lossy.verification/3"}',
    '{"schema": "h5lossy.verification/1", "shape": [37, 50], "chunks_per_hash": 0}',
    b"\xff\xfe",
    7,
    np.zeros(3),
    h5py.Empty("f4"),
)


# ------------------------------------------------------------------------------------------------
# Bytes of the file
# ------------------------------------------------------------------------------------------------


@_in_bytes
def flip_frame(patient: Patient, image: Image) -> str:
    """Flip one bit of a frame, and leave its checksums to notice."""
    rng = patient.rng
    chunk = rng.choice(image.chunks)
    at = min(chunk.byte_offset + rng.randrange(chunk.size), len(image.bytes) - 1)
    return image.set(at, bytes([image.bytes[at] ^ 1 << rng.randrange(8)]))


@_in_bytes
def edit_cd_values(patient: Patient, image: Image) -> str:
    rng = patient.rng
    words = image.words
    if rng.random() < 0.3:
        return image.set(words + 8, struct.pack("<d", rng.choice(_SPECIAL_DOUBLES)))
    at = words + 4 * rng.choice((0, 1, 2, 3, 4, 5, 5, 5, 6, 7, 8, 14, 15))
    old = _u32(image.bytes, at)
    edges = (0, rng.choice(_EDGES_32), old ^ 1 << rng.randrange(32), rng.randrange(1 << 32))
    return image.set(at, struct.pack("<I", rng.choice(edges)))


@_in_bytes
def edit_pipeline(patient: Patient, image: Image) -> str:
    """Change the filter's number, flags, number of cd_values, or the length of its name."""
    rng = patient.rng
    begin, words = image.pipeline, image.words
    how = rng.choice(("flags", "flags", "flags", "count", "number", "name", "any"))
    if how == "flags":
        return image.set(begin + 4, struct.pack("<H", rng.choice((0, 1, 1, 1, 2, 0x100, 0xFFFF))))
    if how == "count":
        return image.set(begin + 6, struct.pack("<H", rng.choice((0, 1, 2, 4, 5, 6, 15, 17, 99))))
    if how == "number":
        return image.set(begin, struct.pack("<H", rng.choice((0, 1, 2, 3, 4, 5, 6, FILTER_ID + 1))))
    if how == "name":
        return image.set(begin + 2, struct.pack("<H", rng.choice((0, 1, 8, 64, 0xFFFF))))
    return _edit(rng, image, rng.randrange(begin - 8, words + 64))


@_in_bytes
def edit_header(patient: Patient, image: Image) -> str:
    """Change the dataset's object header: type, shape, layout, fill value, pipeline, attributes."""
    rng = patient.rng
    return _edit(rng, image, image.header + rng.randrange(600))


@_in_bytes
def edit_type(patient: Patient, image: Image) -> str:
    """Give the dataset a type of another byte order, size or class."""
    rng = patient.rng
    message = image.type_message
    at = image.bytes.find(message, image.header)
    if at < 0:
        return "nothing"
    kinds = (h5py.h5t.IEEE_F32LE, h5py.h5t.IEEE_F32BE, h5py.h5t.IEEE_F64LE, h5py.h5t.IEEE_F64BE)
    if rng.random() < 0.5:
        return image.set(at, _type_message(rng.choice(kinds)))
    return _edit(rng, image, at + rng.randrange(len(message)))


def _type_message(type_id: Any) -> bytes:
    """Return a type as a file holds it: what H5Tencode says, without its own two bytes in front."""
    return bytes(type_id.encode()[2:22])


@_in_bytes
def edit_extents(patient: Patient, image: Image) -> str:
    """Change the dataset's extents, or its chunks'."""
    rng = patient.rng
    shape, chunks, dtype = image.shape, image.chunk_shape, image.dtype
    wanted = [
        (struct.pack(f"<{len(shape)}Q", *shape), 8),
        (struct.pack(f"<{len(chunks) + 1}I", *chunks, dtype.itemsize), 4),
        (bytes([*(n & 0xFF for n in chunks), dtype.itemsize]), 1),
    ]
    places = [(image.bytes.find(old, image.header), len(old), size) for old, size in wanted]
    places = [place for place in places if place[0] >= 0]
    if not places:
        return "nothing"
    at, length, size = rng.choice(places)
    at += size * rng.randrange(length // size)
    old = int.from_bytes(image.bytes[at : at + size], "little")
    new = rng.choice((*_EDGES_64, old + 1, old - 1, 2 * old, 3 * old, old // 2)) % (1 << 8 * size)
    return image.set(at, new.to_bytes(size, "little"))


@_in_bytes
def edit_index(patient: Patient, image: Image) -> str:
    """Change what stands beside a chunk's address, or the address, where HDF5 finds its chunks."""
    rng = patient.rng
    chunk = rng.choice(image.chunks)
    pattern = re.escape(struct.pack("<Q", chunk.byte_offset))
    places = [match.start() for match in re.finditer(pattern, bytes(image.bytes))]
    places = [at for at in places if not image.in_frame(at)]
    if not places:
        return "nothing"
    at = rng.choice(places)
    how = rng.randrange(3)
    if how == 0:
        others = [c.byte_offset + rng.choice((0, 0, 1, 40, -4)) for c in image.chunks]
        new = rng.choice((*others, *_EDGES_64, len(image.bytes) - 1)) % (1 << 64)
        return image.set(at, struct.pack("<Q", new))
    if how == 1:  # sizes and masks: before the address in a v1 B-tree, behind it elsewhere
        sizes = (0, 1, 39, 40, chunk.size - 1, chunk.size + 1, 2 * chunk.size, 1 << 20, 1 << 31)
        value = struct.pack("<I", rng.choice(sizes) % (1 << 32))
        size = struct.pack("<I", chunk.size)
        near = bytes(image.bytes[max(0, at - 40) : at + 12])
        found = near.rfind(size)
        if found >= 0:
            return image.set(max(0, at - 40) + found, value)
    return _edit(rng, image, max(0, at + rng.randrange(-40, 24)))


@_in_bytes
def edit_anywhere(patient: Patient, image: Image) -> str:
    """Change something outside of the chunks."""
    rng = patient.rng
    for _ in range(20):
        at = rng.randrange(len(image.bytes))
        if not image.in_frame(at) and (image.bytes[at] or rng.random() < 0.05):
            break
    return _edit(rng, image, at)


@_in_bytes
def cut_file(patient: Patient, image: Image) -> str:
    size = patient.rng.randrange(len(image.bytes) // 2, len(image.bytes))
    del image.bytes[size:]
    return f"{size} bytes left"

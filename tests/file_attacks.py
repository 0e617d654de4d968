# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Small files, and changes to them such as accidents and other programs make."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

import h5lossy
from hdf5_helpers import edit_cd_values, field
from reference import frame as reference

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from h5lossy._codecs import Codec

SHAPE, CHUNKS = (40, 50), (16, 16)
STARTS = [(i, j) for i in range(0, 40, 16) for j in range(0, 50, 16)]
RECORD = ("h5lossy_report", "h5lossy_hashes")

#: The codecs and bounds of the files.
CODECS: dict[str, Codec] = {
    "pfpl": h5lossy.PFPL(absolute=0.01),
    "cuszp2-pointwise": h5lossy.CuSZp2(pointwise_relative=1e-3),
    "aatrox-range": h5lossy.AATROX(range_relative=1e-3),
    "interp": h5lossy.Interp(absolute=0.01),
    "auto": h5lossy.Auto(absolute=0.01),
    "lossless": h5lossy.PFPL(lossless=True),
}


def write_file(path: Path, codec: Codec) -> None:
    """Write the dataset "x" with its record, in the oldest format, which has no checksums."""
    with h5py.File(path, "w", libver=("earliest", "v108")) as file:
        x = file.create_dataset("x", SHAPE, "f4", chunks=CHUNKS, compression=codec, fillvalue=-999)
        h5lossy.write(x, field(SHAPE), verify=True)


def resealed(frame: bytes, tiles: int) -> bytes:
    """Return the frame with a header sum that is right for this many tiles."""
    front = frame[: 4 * frame[5] + 4 * tiles]
    total = reference.checksum([front[:16] + front[20:]])
    return frame[:16] + struct.pack("<I", total) + frame[20:]


def patched(frame: bytes, at: int, fields: bytes) -> bytes:
    """Return the frame with changed bytes in its header or tile table, and a right sum."""
    tiles = 0 if frame[6] == reference.STORED else len(reference.parse(frame).tiles)
    return resealed(frame[:at] + fields + frame[at + len(fields) :], tiles)


def _with_chunks(change: Callable[[Any, np.random.Generator], None]) -> Any:
    """Make an attack from a function that changes the dataset's chunks."""

    def attack(path: Path, rng: np.random.Generator) -> None:
        with h5py.File(path, "r+") as file:
            change(file["x"], rng)

    return attack


def _start(rng: np.random.Generator) -> tuple[int, ...]:
    return STARTS[rng.integers(len(STARTS))]


def _replace(change: Callable[[bytes, np.random.Generator], tuple[int, bytes]]) -> Any:
    """Make an attack from a function that replaces one chunk by a filter mask and bytes."""

    def replace(x: h5py.Dataset, rng: np.random.Generator) -> None:
        start = _start(rng)
        mask, frame = x.id.read_direct_chunk(start)
        mask, content = change(frame, rng)
        x.id.write_direct_chunk(start, content, mask)

    return _with_chunks(replace)


def _new_frame(**how: Any) -> Any:
    """Replace a frame by another encoding of the same values."""

    def change(frame: bytes, rng: np.random.Generator) -> tuple[int, bytes]:
        values = h5lossy.decode(frame)
        values = how.get("change", lambda v: v)(values)
        codec = how.get("codec", h5lossy.PFPL(absolute=0.01))
        return 0, bytes(h5lossy.encode(values, codec))

    return _replace(change)


def _plain(change: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]], mask: int = 1) -> Any:
    """Replace a frame by its values, as they are in memory."""
    return _replace(lambda frame, _: (mask, change(h5lossy.decode(frame)).tobytes()))


def flipped(content: bytes, rng: np.random.Generator, bits: int = 1) -> bytes:
    """Flip bits."""
    out = bytearray(content)
    for _ in range(bits):
        out[rng.integers(len(out))] ^= 1 << int(rng.integers(8))
    return bytes(out)


def _flip_in_file(path: Path, rng: np.random.Generator) -> None:
    path.write_bytes(flipped(path.read_bytes(), rng))


def _header_byte(frame: bytes, rng: np.random.Generator) -> tuple[int, bytes]:
    at = int(rng.choice([*range(4, 16), *range(24, 40)]))
    return 0, patched(frame, at, rng.bytes(1))


def _wider_bins(frame: bytes, _: np.random.Generator) -> tuple[int, bytes]:
    at, is_pointwise = 32, frame[8] == 1
    form = "<Q" if is_pointwise else "<d"
    [step] = struct.unpack_from(form, frame, at)
    return 0, patched(frame, at, struct.pack(form, 2 * step + is_pointwise))


def _swap(x: h5py.Dataset, rng: np.random.Generator) -> None:
    one, other = rng.permutation(len(STARTS))[:2]
    frames = [x.id.read_direct_chunk(STARTS[i])[1] for i in (one, other)]
    x.id.write_direct_chunk(STARTS[one], frames[1])
    x.id.write_direct_chunk(STARTS[other], frames[0])


def _lose_a_chunk(x: h5py.Dataset, rng: np.random.Generator) -> None:
    lose_chunk(x, _start(rng))


def lose_chunk(dataset: h5py.Dataset, lost: tuple[int, ...]) -> None:
    """Create a dataset again without one of its chunks."""
    id_ = dataset.id
    infos = [id_.get_chunk_info(i) for i in range(id_.get_num_chunks())]
    starts = [info.chunk_offset for info in infos if info.chunk_offset != lost]
    kept = {start: id_.read_direct_chunk(start) for start in starts}
    file, name, attributes = dataset.file, dataset.name.encode(), dict(dataset.attrs)
    creation, type_id, space = id_.get_create_plist(), id_.get_type(), id_.get_space()
    del file[name]
    new = h5py.Dataset(h5py.h5d.create(file.id, name, type_id, space, creation))
    for start, (mask, frame) in kept.items():
        new.id.write_direct_chunk(start, frame, mask)
    new.attrs.update(attributes)


def _replaced_by_gzip(path: Path, _: np.random.Generator) -> None:
    with h5py.File(path, "r+") as file:
        attributes, values = dict(file["x"].attrs), file["x"][...] + 1
        del file["x"]
        new = file.create_dataset("x", data=values, chunks=CHUNKS, compression="gzip")
        for key, value in attributes.items():
            new.attrs[key] = value


def _cd_word(path: Path, rng: np.random.Generator) -> None:
    edit_cd_values(path, {int(rng.integers(16)): int(rng.integers(2**32))})


def _cd_bound(factor: float) -> Any:
    def attack(path: Path, _: np.random.Generator) -> None:
        with h5py.File(path) as file:
            bound = h5lossy.describe(file["x"]).bound.value
        low, high = struct.unpack("<2I", struct.pack("<d", factor * bound or 0.5))
        edit_cd_values(path, {2: low, 3: high})

    return attack


def _cd_untyped(path: Path, _: np.random.Generator) -> None:
    edit_cd_values(path, {5: 0})


def _record_letter(path: Path, rng: np.random.Generator) -> None:
    with h5py.File(path, "r+") as file:
        attributes = file["x"].attrs
        name = RECORD[rng.integers(2)]
        text = bytearray(attributes[name])
        text[rng.integers(len(text))] ^= 1
        attributes[name] = np.bytes_(bytes(text))


def _record_part(path: Path, rng: np.random.Generator) -> None:
    with h5py.File(path, "r+") as file:
        del file["x"].attrs[RECORD[rng.integers(2)]]


def _plus_one(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return values + np.float32(1)


def _write_a_value(x: h5py.Dataset, rng: np.random.Generator) -> None:
    x[rng.integers(40), rng.integers(50)] += 3


ATTACKS: dict[str, Any] = {
    "bit of the file": _flip_in_file,
    "bit of a frame": _replace(lambda frame, rng: (0, flipped(frame, rng))),
    "bits of a frame": _replace(lambda frame, rng: (0, flipped(frame, rng, 8))),
    "frame cut": _replace(lambda frame, rng: (0, frame[: rng.integers(len(frame))])),
    "frame longer": _replace(lambda frame, rng: (0, frame + rng.bytes(rng.integers(1, 9)))),
    "header byte, sealed": _replace(_header_byte),
    "wider bins, sealed": _replace(_wider_bins),
    "chunks swapped": _with_chunks(_swap),
    "chunk lost": _with_chunks(_lose_a_chunk),
    "looser frame": _new_frame(codec=h5lossy.PFPL(absolute=7.0)),
    "frame of other kind": _new_frame(codec=h5lossy.PFPL(pointwise_relative=0.5)),
    "big-endian frame": _new_frame(change=lambda v: v.astype(">f4")),
    "big-endian lossless frame": _new_frame(
        change=lambda v: v.astype(">f4"), codec=h5lossy.PFPL(lossless=True)
    ),
    "float64 frame": _new_frame(change=lambda v: v.astype("f8")),
    "float64 frame of the same size": _new_frame(change=lambda v: v[:128].astype("f8")),
    "short frame": _new_frame(change=lambda v: v[:200]),
    "long frame": _new_frame(change=lambda v: np.tile(v, 2)),
    "frame plus one": _new_frame(change=_plus_one),
    "frame under a mask": _replace(lambda frame, _: (1, frame)),
    "plain chunk, short": _plain(lambda v: v[:99]),
    "plain chunk, long": _plain(lambda v: np.tile(v, 2)),
    "plain chunk plus one": _plain(_plus_one),
    "plain chunk, not masked": _plain(lambda v: v, mask=0),
    "plain chunk, same values": _plain(lambda v: v),
    "far bit of the mask": _replace(lambda frame, _: (1 << 9, frame)),
    "value written": _with_chunks(_write_a_value),
    "dataset replaced": _replaced_by_gzip,
    "word of cd_values": _cd_word,
    "bound raised": _cd_bound(8.0),
    "bound lowered": _cd_bound(0.125),
    "cd_values without a type": _cd_untyped,
    "letter of the record": _record_letter,
    "part of the record": _record_part,
}

#: Attacks that change no value, but the description of values.
TAMPERING = {
    "bound raised",
    "bound lowered",
    "dataset replaced",
    "letter of the record",
    "part of the record",
}

#: Attacks that change neither what HDF5 reads nor the promise.
HARMLESS = {"plain chunk, same values", "far bit of the mask"}


def what_hdf5_reads(path: Path) -> bytes | None:
    """Return the values of "x" as HDF5 reads them; None if it can't."""
    try:
        with h5py.File(path, "r") as file:
            return bytes(file["x"][...].tobytes())
    except (OSError, RuntimeError, ValueError, KeyError, TypeError):
        return None


def is_verified(path: Path) -> bool | None:
    """Return the result of `verify` for "x"; None if it raises."""
    try:
        with h5py.File(path, "r") as file:
            return bool(h5lossy.verify(file["x"]).ok)
    except (h5lossy.H5LossyError, OSError, RuntimeError, ValueError, KeyError, TypeError):
        return None

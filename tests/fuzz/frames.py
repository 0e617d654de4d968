# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Compares the library's decoders with the reference, on frames of any form that are then damaged.

``python -P tests/fuzz/frames.py --seconds 60`` takes the package that is installed, and the backend
that H5LOSSY_BACKEND names. The reference encodes random values in random forms, most of which the
library's encoder would not choose. Of some frames, payloads of tiles are damaged before the
checksums are computed. Both decoders have to accept or refuse a frame alike, and to return the same
bits, of the whole frame and of any range.

A case is a number: what it is follows from ``--seed`` and the number alone. A process of its own
runs the cases, so that a crash is a finding, too. Each finding is printed with the command that
repeats it, and its frame goes to the folder ``--findings``. The exit code is 1 if there is one.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import os
import struct
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

TESTS = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path.insert(0, str(TESTS))

import h5lossy  # noqa: E402
from h5lossy import _native  # noqa: E402
from reference import frame as reference  # noqa: E402
from reference import interp  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

    Array = np.ndarray[Any, np.dtype[Any]]

#: Cases that one process runs.
CASES = 200


def random_values(rng: np.random.Generator) -> Array:
    """Return an array of one to four axes, smooth to some degree, with values of all kinds."""
    rank = int(rng.integers(1, 5))
    most = (5000, 90, 24, 9)[rank - 1]
    shape = rng.choice([1, 2, 3, 5, 8, 9, most // 2, most], rank) + rng.integers(0, 2, rank)
    places = np.indices(shape)
    waves = [np.sin(axis * rng.uniform(0, 1) + rng.uniform(0, 6)) for axis in places]
    values = 10 ** rng.uniform(-2, 4) * np.sum(waves, axis=0)
    if rng.integers(3) == 0:
        values = np.round(values)
    values += rng.choice([0, 0.001, 1, 1000]) * rng.standard_normal(shape)
    values = values.astype(rng.choice(["<f4", "<f8", ">f4", ">f8"]))
    special = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, -999.0, 1e30, 5e-324, 1e-45]
    for _ in range(int(rng.integers(0, 4))):
        flat = values.reshape(-1)
        start = int(rng.integers(flat.size))
        flat[start : start + int(rng.choice([1, 3, 100]))] = rng.choice(special)
    return values


def random_codec(rng: np.random.Generator) -> dict[str, int]:
    """Return a codec and a mode for integers and halves."""
    number = int(rng.choice([n for n in reference.CODECS if reference.takes_words(n)]))
    mode = int(rng.choice([0, 1, 3, 7, 10])) if number == interp.NUMBER else 0
    return {"codec": number, "mode": mode}


def random_integers(rng: np.random.Generator) -> bytes:
    """Return a frame of integers as the reference writes it."""
    dtype = np.dtype(rng.choice(["u1", "i1", "<u2", ">i2", "<u4", "<i4", ">u8", "<i8"]))
    info = np.iinfo(dtype)
    smooth = np.floor(random_values(rng).astype("f8") * 10.0 ** rng.integers(-2, 2))
    whole = np.clip(np.nan_to_num(smooth), -(2**62), 2**62).astype("i8")
    times = int(rng.choice([1, 1, 1, 7, 12]))
    values = np.clip(whole.astype(object) * times + int(rng.integers(20)), info.min, info.max)
    if rng.integers(4) == 0:  # at the ends of the type
        values = info.max - (values - values.min()) % (info.max - info.min)
    typed = np.asarray(values).astype(dtype.newbyteorder("=")).astype(dtype)
    fill = int(
        rng.choice(typed.reshape(-1).astype("u8") & np.uint64(2 ** (8 * dtype.itemsize) - 1))
    )
    bounds = {
        reference.Kind.LOSSLESS: 0.0,
        reference.Kind.ABSOLUTE: float(10 ** rng.uniform(-0.2, rng.choice([1.5, 5, 19]))),
        reference.Kind.RANGE_RELATIVE: float(10 ** rng.uniform(-6, 0)),
    }
    if dtype.itemsize <= 4:
        bounds[reference.Kind.NOISE] = float(2 ** rng.uniform(-4, 8))
    kind = [*bounds][int(rng.integers(len(bounds)))]
    floor = int(rng.choice([0, 2, 1000])) if kind is reference.Kind.NOISE else 0
    return reference.encode(
        typed,
        kind,
        bounds[kind],
        floor=floor,
        fill_bits=fill if rng.integers(2) else None,
        checksum=bool(rng.integers(4)),
        shape=typed.shape,
        **random_codec(rng),
    )


def random_halves(rng: np.random.Generator) -> bytes:
    """Return a frame of float16 or bfloat16 as the reference writes it."""
    dtype = np.dtype(np.float16 if rng.integers(2) else ml_dtypes.bfloat16)
    with np.errstate(over="ignore"):
        values = random_values(rng).astype(dtype)
    kinds = [kind for kind in reference.Kind if kind is not reference.Kind.NOISE]
    kind = kinds[int(rng.integers(len(kinds)))]
    bound = float(10 ** rng.uniform(-6, -0.1 if kind is reference.Kind.POINTWISE_RELATIVE else 2))
    fill = np.asarray(-999.0).astype(dtype).view("u2")
    return reference.encode(
        values,
        kind,
        0.0 if kind is reference.Kind.LOSSLESS else bound,
        fill_bits=int(fill) if rng.integers(2) else None,
        checksum=bool(rng.integers(4)),
        shape=values.shape,
        **random_codec(rng),
    )


def random_frame(rng: np.random.Generator, numbers: list[int]) -> bytes:
    """Return a frame as the reference writes it."""
    if reference.LOSSLESS in numbers and rng.integers(4) == 0:
        return random_integers(rng) if rng.integers(3) else random_halves(rng)
    values = random_values(rng)
    number = int(rng.choice(numbers))
    codec = reference.CODECS[number]
    modes = sorted(getattr(codec, "REQUESTS", codec.MODES))
    kinds = [
        reference.Kind.ABSOLUTE,
        reference.Kind.POINTWISE_RELATIVE,
        reference.Kind.RANGE_RELATIVE,
    ]
    bound = float(10 ** rng.uniform(-6, 2))
    kind = kinds[int(rng.integers(len(kinds)))]
    if kind != reference.Kind.ABSOLUTE:
        bound = min(bound / 100, 0.9)
    fill = np.asarray(-999.0, values.dtype.newbyteorder("<"))
    return reference.encode(
        values,
        kind,
        bound,
        fill_bits=int(fill.view(f"<u{fill.itemsize}")) if rng.integers(2) else None,
        maybe_padded=bool(rng.integers(2)),
        checksum=bool(rng.integers(4)),
        codec=number,
        mode=int(rng.choice(modes)),
        shape=values.shape,
    )


def damaged(payload: bytes, rng: np.random.Generator) -> bytes:
    """Return a payload with some bytes changed, most often near its start, or cut or extended."""
    changed = bytearray(payload)
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(min(len(changed), int(rng.choice([4, 8, 16, 64, 1 << 20])))))
        what = int(rng.integers(4))
        if what == 0:
            changed[at] ^= 1 << int(rng.integers(8))
        elif what == 1:
            changed[at] = int(rng.choice([0, 1, 127, 128, 255]))
        else:
            size = int(rng.choice([1, 2, 4]))
            word = int(rng.integers(1 << 8 * size))
            changed[at : at + size] = word.to_bytes(size, "little")[: len(changed) - at]
    if rng.integers(8) == 0:
        del changed[int(rng.integers(len(changed))) :]
    if rng.integers(8) == 0:
        changed += rng.bytes(int(rng.choice([1, 2, 4, 8])))
    return bytes(changed)


def case(seed: int, number: int, numbers: list[int]) -> bytes:
    """Return the frame of a case."""
    rng = np.random.default_rng([seed, number])
    frame = random_frame(rng, numbers)
    parsed = reference.parse(frame)
    if parsed.codec == reference.STORED or rng.integers(2):
        return frame
    tiles = list(parsed.tiles)
    filled = [i for i, tile in enumerate(tiles) if tile]
    for i in rng.choice(filled, int(rng.integers(1, 3))) if filled else ():
        tiles[i] = damaged(tiles[i], rng) if tiles[i] else b""
    return reference.build(dataclasses.replace(parsed, tiles=tuple(tiles)))


def difference(frame: bytes) -> str:
    """Say how library and reference differ on a frame; nothing where they do not."""
    try:
        expected: Array | None = reference.decode(frame)
    except (reference.Refused, struct.error):
        expected = None
    try:
        decoded: Array | None = np.asarray(h5lossy.decode(frame))
    except h5lossy.H5LossyError:
        decoded = None
    if expected is None or decoded is None:
        accepting = "the library" if expected is None else "the reference"
        return "" if expected is decoded else f"{accepting} alone accepts it"
    if decoded.tobytes() != expected.tobytes():
        places = np.flatnonzero(decoded.view("u1") != expected.view("u1")) // decoded.itemsize
        return f"{np.unique(places).size} values differ, the first at {places[0]}"
    start, stop = sorted(np.random.default_rng(len(frame)).integers(0, decoded.size + 1, 2))
    if np.asarray(h5lossy.decode(frame, start, stop)).tobytes() != decoded[start:stop].tobytes():
        return f"values {start} to {stop} differ from those of the whole frame"
    return ""


def run(arguments: argparse.Namespace, first: int, findings: Path, report: int) -> None:
    """Run cases in this process; write the number of each before it, and ! behind a finding."""
    for number in range(first, first + CASES):
        os.write(report, struct.pack("<q?", number, False))
        frame = case(arguments.seed, number, arguments.codec)
        said = difference(frame)
        if said:
            findings.mkdir(parents=True, exist_ok=True)
            (findings / f"{arguments.seed}-{number}.frame").write_bytes(frame)
            print(f"seed {arguments.seed}, case {number}: {said}", flush=True)
            os.write(report, struct.pack("<q?", number, True))


def runs(arguments: argparse.Namespace) -> Iterator[int]:
    """Go through the first numbers of the runs until the time is over."""
    if arguments.case is not None:
        yield arguments.case
        return
    end = time.monotonic() + arguments.seconds
    for first in itertools.count(0, CASES):
        if time.monotonic() >= end:
            return
        yield first


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare decoders on random frames.")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", type=int, help="begin with this case, and run it and a few more")
    parser.add_argument("--codec", type=int, nargs="+", default=sorted(reference.CODECS))
    parser.add_argument("--findings", type=Path, default=Path("build/fuzz/frames"))
    arguments = parser.parse_args()
    found = cases = 0
    for first in runs(arguments):
        reader, writer = os.pipe()
        process = os.fork()
        if process == 0:
            os.close(reader)
            run(arguments, first, arguments.findings, writer)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            reports = list(struct.iter_unpack("<q?", pipe.read()))
        _, status = os.waitpid(process, 0)
        cases += sum(not is_finding for _, is_finding in reports)
        numbers = [number for number, is_finding in reports if is_finding]
        if status:
            last = reports[-1][0] if reports else first
            print(f"seed {arguments.seed}, case {last}: status {status}", flush=True)
            numbers.append(last)
        for number in numbers:
            print(f"python -P tests/fuzz/frames.py --seed {arguments.seed} --case {number}")
        found += len(numbers)
    backend = next(name for name, is_there in _native.backends().items() if is_there)
    print(f"{cases} frames, {found} findings ({os.environ.get('H5LOSSY_BACKEND', backend)})")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())

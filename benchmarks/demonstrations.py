# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""
What happens to data that is not simply written once: ensembles, masks, appending, overwriting.

    H5LOSSY_CORPUS=... python benchmarks/demonstrations.py [--only Interp PFPL]

ensemble
    Ten members of a field of (level, y, x), made: a common flow and a perturbation of each member.
mask
    A surface temperature on an ocean that covers half of the field, made; land is NaN or 1e20.
series
    100 steps of a field appended one by one, the file opened and closed for each. A chunk spans ten
    steps, so each of them is decoded and encoded nine times before it is full.
boxes
    Part of one chunk overwritten ten times, the file opened and closed for each: boxes of a quarter
    of each extent, which hold the original shifted by three bounds, up and down in turn.

Bounds are 1e-2 and 1e-3 of the range. All data goes through HDF5, except for the SZ3s of pysz (see
_sz3.py), whose chunks are kept in memory and treated as HDF5 would. A value is *moved* when it
reads differently after a write elsewhere in its chunk. If a peer does not support masks, masked
values are set to the smallest valid one. Results go to results/demonstrations.json; --only measures
some codecs, and keeps existing results of the others.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import _sz3
import h5py
import hdf5plugin
import numpy as np
from _common import (
    SZ3_FILTER,
    Stored,
    is_peer,
    load_if_there,
    real_fields,
    save,
    through_hdf5,
)

import h5lossy

if TYPE_CHECKING:
    from collections.abc import Callable

SCALES = (1e-2, 1e-3)
CODECS: dict[str, Callable[[float], Any]] = {
    "Interp": lambda bound: h5lossy.Interp(absolute=bound),
    "Interp rewritable": lambda bound: h5lossy.Interp(absolute=bound, rewritable=True),
    "PFPL": lambda bound: h5lossy.PFPL(absolute=bound),
    SZ3_FILTER: lambda bound: hdf5plugin.SZ3(absolute=bound),
    "SPERR": lambda bound: hdf5plugin.Sperr(absolute=bound, swap=True),
    "ZFP": lambda bound: hdf5plugin.Zfp(accuracy=bound),
}
NAMES = (*CODECS, *_sz3.ALGORITHMS)
Row = dict[str, Any]
STEPS, STEPS_IN_CHUNK, BOXES = 100, 10, 10


def smooth(shape: tuple[int, ...], slope: float, rng: np.random.Generator) -> np.ndarray:
    """Make a periodic random field, E(k) ~ k^-slope; mean 0, standard deviation 1."""
    squares: Any = 0
    for axis, n in enumerate(shape):
        waves = np.fft.fftfreq(n, 1 / n) if axis < len(shape) - 1 else np.fft.rfftfreq(n, 1 / n)
        places = [1] * len(shape)
        places[axis] = -1
        squares = squares + waves.reshape(places) ** 2
    amplitude = (squares + 1) ** (-(slope + len(shape) - 1) / 4)
    spectrum = np.fft.rfftn(rng.standard_normal(shape)) * amplitude
    field = np.fft.irfftn(spectrum, s=shape, axes=range(len(shape)))
    return (field - field.mean()) / field.std()


def ensemble() -> np.ndarray:
    """Make (member, level, y, x): wind that grows with height."""
    rng = np.random.default_rng(1)
    members, shape = 10, (20, 96, 144)
    common = smooth(shape, 3, rng)
    strength = np.linspace(5, 40, shape[0])[:, None, None]
    parts = [(common + 0.1 * smooth(shape, 2.5, rng)) * strength for _ in range(members)]
    return np.asarray(parts, np.float32)


def ocean() -> tuple[np.ndarray, np.ndarray]:
    """Make (time, y, x) and its mask: temperature falls off to the poles; half is land."""
    rng = np.random.default_rng(2)
    shape = (24, 180, 360)
    land = smooth(shape[1:], 3, rng) > 0
    latitude = np.linspace(-90, 90, shape[1])[None, :, None]
    season = np.sin(2 * np.pi * np.arange(shape[0]) / 12)[:, None, None] * latitude / 90
    detail = smooth(shape[1:], 3, rng) + 0.3 * smooth(shape, 3, rng)
    values = 28 * np.cos(np.radians(latitude)) + 4 * season + 2 * detail
    return values.astype(np.float32), np.broadcast_to(land, shape)


def outcome(what: str, name: str, scale: float, ratio: float, **others: Any) -> Row:
    """Make a row, and print it."""
    row = {"what": what, "name": name, "scale": scale, "ratio": ratio} | others
    print(", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()))
    return row


def largest_error(data: np.ndarray, back: np.ndarray, bound: float) -> float:
    """Give the largest error as a part of the bound."""
    return float(np.abs(data.astype(np.float64) - back).max()) / bound


def store(
    name: str, data: np.ndarray, chunk: tuple[int, ...], bound: float, fill_value: Any = None
) -> Stored:
    """Write all at once, and read."""
    if name in _sz3.ALGORITHMS:
        return _sz3.store(data, chunk, bound, name)
    return through_hdf5(data, chunk, fill_value, {"compression": CODECS[name](bound)})


def store_ensemble(names: list[str]) -> list[Row]:
    """Write an ensemble in chunks of all members, and of one."""
    data, rows = ensemble(), []
    chunks = {
        "chunks of 10 × 2 × 96 × 144": (10, 2, 96, 144),
        "chunks of 1 × 20 × 96 × 144": (1, 20, 96, 144),
    }
    for scale in SCALES:
        bound = scale * float(np.ptp(data))
        for what, chunk in chunks.items():
            for name in names:
                if name == "SPERR" and chunk[0] > 1:
                    continue  # it takes two or three axes
                stored = store(name, data, chunk, bound)
                error = largest_error(data, stored.values, bound)
                rows.append(outcome(what, name, scale, data.nbytes / stored.bytes, error=error))
    return rows


def store_ocean(names: list[str]) -> list[Row]:
    """Write a field that is half mask, and the same without one."""
    values, land = ocean()
    chunk, rows = (8, 180, 180), []
    fills = {"land is NaN": np.nan, "land is 1e20": np.float32(1e20), "no land": None}
    for scale in SCALES:
        bound = scale * float(np.ptp(values[~land]))
        for what, fill in fills.items():
            for name in names:
                if is_peer(name) and what == "land is 1e20":
                    continue  # the same as with NaN, since both are replaced
                data = values if fill is None else np.where(land, np.float32(fill), values)
                if fill is not None and is_peer(name):
                    data = np.where(land, values[~land].min(), values)
                stored = store(name, data, chunk, bound, None if is_peer(name) else fill)
                ratio = data.nbytes / stored.bytes
                error = largest_error(values[~land], stored.values[~land], bound)
                kept = stored.values[land].tobytes() == data[land].tobytes()
                if fill is not None and not is_peer(name) and not kept:
                    raise SystemExit(f"{name} changed the mask")
                rows.append(outcome(what, name, scale, ratio, error=error))
    return rows


class Rewritable(Protocol):
    """Stored data of which parts can be rewritten; it grows along the first axis."""

    def put(self, place: tuple[slice, ...], values: np.ndarray) -> None:
        """Write a part, and let the data grow as far as it reaches."""

    def get(self) -> np.ndarray:
        """Read all."""

    def bytes(self) -> int:
        """Count the bytes of all chunks."""


class InFile:
    """An HDF5 dataset whose file is opened and closed for each access."""

    def __init__(self, path: Path, data: np.ndarray, chunk: tuple[int, ...], codec: Any) -> None:
        self.path = path
        with h5py.File(path, "w") as file:
            limits = (None, *data.shape[1:])
            file.create_dataset("x", data=data, maxshape=limits, chunks=chunk, compression=codec)

    def put(self, place: tuple[slice, ...], values: np.ndarray) -> None:
        """Write a part, and let the dataset grow as far as it reaches."""
        with h5py.File(self.path, "r+") as file:
            dataset = file["x"]
            dataset.resize(max(len(dataset), place[0].stop), axis=0)
            dataset[place] = values

    def get(self) -> np.ndarray:
        """Read all."""
        with h5py.File(self.path) as file:
            return file["x"][...]

    def bytes(self) -> int:
        """Count the bytes of all chunks."""
        with h5py.File(self.path) as file:
            return file["x"].id.get_storage_size()


class InMemory:
    """Frames of an SZ3 in memory, of chunks that hold all of every axis but the first."""

    def __init__(self, data: np.ndarray, chunk: tuple[int, ...], name: str, bound: float) -> None:
        self.settings = _sz3.config(bound, _sz3.ALGORITHMS[name])
        self.length = 0
        self.empty = np.zeros(chunk, data.dtype)
        self.frames: list[np.ndarray] = []
        if len(data):
            self.put(tuple(map(slice, (0,) * data.ndim, data.shape)), data)

    def put(self, place: tuple[slice, ...], values: np.ndarray) -> None:
        """Decode and encode the chunks that a part lies in."""
        first, *others = place
        step = len(self.empty)
        self.length = max(self.length, first.stop)
        for i in range(first.start // step, -(-first.stop // step)):
            is_new = i == len(self.frames)
            part = self.empty.copy() if is_new else _sz3.decode(self.frames[i], self.empty)
            begin, end = max(first.start, i * step), min(first.stop, (i + 1) * step)
            inside = (slice(begin - i * step, end - i * step), *others)
            part[inside] = values[begin - first.start : end - first.start]
            self.frames[i:] = [_sz3.encode(part, self.settings), *self.frames[i + 1 :]]

    def get(self) -> np.ndarray:
        """Decode all."""
        parts = [_sz3.decode(frame, self.empty) for frame in self.frames]
        return np.concatenate([self.empty[:0], *parts])[: self.length]

    def bytes(self) -> int:
        """Count the bytes of all chunks."""
        return sum(frame.nbytes for frame in self.frames)


def rewritable(
    name: str, path: Path, data: np.ndarray, chunk: tuple[int, ...], bound: float
) -> Rewritable:
    """Store what is there at first."""
    if name in _sz3.ALGORITHMS:
        return InMemory(data, chunk, name, bound)
    return InFile(path, data, chunk, CODECS[name](bound))


def rewrite(
    stored: Rewritable,
    data: np.ndarray,
    writes: list[tuple[tuple[slice, ...], np.ndarray]],
    *,
    is_growing: bool,
) -> tuple[float, np.ndarray, int, int]:
    """
    Write part by part; give the ratio, what is read in the end, and how many values moved.

    The last two numbers: moved at all, counted once for each time; and after the first reading
    until the end.
    """
    before = stored.get()
    at_first, moved = data.copy(), 0
    at_first[: len(before)] = before
    for place, values in writes:
        stored.put(place, values)
        now = stored.get()
        differs = now[: len(before)] != before
        if not is_growing:
            differs[place] = False
        moved += int(np.count_nonzero(differs))
        at_first[place] = now[place]
        before = now
    ratio = before.nbytes / stored.bytes()
    return ratio, before, moved, int(np.count_nonzero(before != at_first))


def append(folder: Path, field: np.ndarray, names: list[str]) -> list[Row]:
    """Append steps one by one, over as many openings of the file."""
    data, rows = np.ascontiguousarray(field[:STEPS]), []
    chunk = (STEPS_IN_CHUNK, *data.shape[1:])
    writes = [((slice(t, t + 1),), data[t : t + 1]) for t in range(len(data))]
    for scale in SCALES:
        bound = scale * float(np.ptp(data))
        for name in names:
            once = store(name, data, chunk, bound)
            stored = rewritable(name, folder / "series.h5", data[:0], chunk, bound)
            ratio, back, moved, final = rewrite(stored, data, writes, is_growing=True)
            rows.append(
                outcome(
                    f"{len(writes)} openings",
                    name,
                    scale,
                    ratio,
                    once=data.nbytes / once.bytes,
                    error=largest_error(data, back, bound),
                    moved=moved,
                    moved_in_the_end=final,
                )
            )
    return rows


def overwrite(
    folder: Path, fields: dict[str, tuple[float, np.ndarray]], names: list[str]
) -> list[Row]:
    """Overwrite boxes in one chunk."""
    rows = []
    for field, (extent, data) in fields.items():
        for scale in SCALES:
            bound = scale * extent
            rng = np.random.default_rng(1)
            exact, writes = data.copy(), []
            for i in range(BOXES):
                sizes = [max(1, n // 4) for n in data.shape]
                corner = [
                    int(rng.integers(n - k + 1)) for n, k in zip(data.shape, sizes, strict=True)
                ]
                place = tuple(slice(at, at + k) for at, k in zip(corner, sizes, strict=True))
                exact[place] += np.asarray(3 * bound * (-1) ** i, data.dtype)
                writes.append((place, exact[place].copy()))
            for name in names:
                once = store(name, data, data.shape, bound)
                stored = rewritable(name, folder / "boxes.h5", data, data.shape, bound)
                ratio, back, moved, final = rewrite(stored, data, writes, is_growing=False)
                rows.append(
                    outcome(
                        f"{field}, {BOXES} boxes",
                        name,
                        scale,
                        ratio,
                        once=data.nbytes / once.bytes,
                        error=largest_error(exact, back, bound),
                        moved=moved,
                        moved_in_the_end=final,
                    )
                )
    return rows


def merged(before: list[Row], rows: list[Row]) -> list[Row]:
    """Replace older rows of the same case, and add new rows after their kind."""
    every = {(row["what"], row["scale"], row["name"]): row for row in (*before, *rows)}
    kinds = list(dict.fromkeys(key[:2] for key in every))
    return [every[key] for key in sorted(every, key=lambda key: kinds.index(key[:2]))]


def main() -> None:
    """Run all, write results/demonstrations.json."""
    parser = argparse.ArgumentParser(description=__doc__.strip().partition("\n\n")[0])
    parser.add_argument("--only", nargs="+", choices=NAMES, default=list(NAMES))
    names = parser.parse_args().only
    corpus = {name: values for name, values, _ in real_fields()}
    trefht, convection = corpus["climate/trefht"], corpus["turbulence/convection_u"]
    parts = {
        "trefht": (float(np.ptp(trefht)), np.ascontiguousarray(trefht[:24, :, :64])),
        "convection_u": (
            float(np.ptp(convection)),
            np.ascontiguousarray(convection[:24, :50]),
        ),
    }
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        results = {
            "ensemble": store_ensemble(names),
            "mask": store_ocean(names),
            "series": append(folder, trefht, names),
            "boxes": overwrite(folder, parts, names),
        }
    before = load_if_there("demonstrations") or {}
    save(
        "demonstrations",
        {part: merged(before.get(part, []), rows) for part, rows in results.items()},
    )


if __name__ == "__main__":
    main()

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Speed of reading and writing HDF5 files, and of many threads.

    H5LOSSY_CORPUS=... python benchmarks/hdf5.py [--size MIB] [--memory MIB] [--runs N] ...

Three questions, a section of the table each:

pipeline
    HDF5's own way, one chunk after another: no filter, h5lossy's, and hdf5plugin's. The results
    also have the CPU time of the filter alone: that of the whole write, less that of writing the
    same chunks with direct chunk writes.
batched
    `h5lossy.write` and `h5lossy.read` on 1, 2, 4, ... threads, against the pipeline with the same
    filter and against a plain file of the same bytes.
memory
    The library's batches on arrays in memory, against a copy by as many threads.

The field is the turbulence vorticity of the corpus, repeated to the size; float32, chunks of 64 x
64 x 64 (1 MiB), 1e-3 of the range; the first section has other bounds too. Speeds count original
bytes: medians, of CPU time in the first section and of wall-clock time in the others. The cases of
a section take turns. Every value that is read back is checked.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import shutil
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
from _common import FIELD, PEERS, SPEED_SCALE, SZ3_FILTER, FilterRow, Timing, field_for_speed, save
from readme import SECTIONS, show

import h5lossy
from h5lossy import _native

try:
    import hdf5plugin
except ImportError:
    hdf5plugin = None

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

CHUNK = (64, 64, 64)
CHUNK_BYTES = 1 << 20
MIB = 1 << 20


# ------------------------------------------------------------------------------------------------
# Time and memory
# ------------------------------------------------------------------------------------------------


Row = FilterRow | dict[str, Any]
Times = dict[str, list[float]]
"""Seconds of each run, by each clock."""

CLOCKS = {"wall": time.perf_counter_ns, "cpu": time.process_time_ns}


def take_turns(cases: Mapping[str, Callable[[], object]], runs: int) -> dict[str, Times]:
    """Call each case once to warm up, then all in turn."""
    for run in cases.values():
        run()
    seconds: dict[str, Times] = {name: {clock: [] for clock in CLOCKS} for name in cases}
    for _ in range(runs):
        for name, run in cases.items():
            begin = {clock: now() for clock, now in CLOCKS.items()}
            run()
            for clock, now in CLOCKS.items():
                seconds[name][clock].append((now() - begin[clock]) / 1e9)
    return seconds


def speed(seconds: list[float], size: int) -> dict[str, float]:
    """Give GB/s (10^9 bytes)."""
    return Timing(statistics.median(seconds), min(seconds), max(seconds)).as_speed(size)


def affordable(wanted: int, *, copies: float, folder: Path | None = None) -> int:
    """Give `wanted` bytes, or as many as memory (and a folder) can hold `copies` of, with room."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if folder is not None:
        free = min(free, 2 * shutil.disk_usage(folder).free)
    return min(wanted, int(free * 0.8 / copies) // MIB * MIB)


def tiled(field: np.ndarray, size: int) -> np.ndarray:
    """Repeat a field along its axes to about `size` bytes in whole chunks."""
    layers = max(1, size // (16 * CHUNK_BYTES))
    shape = (CHUNK[0] * layers, 4 * CHUNK[1], 4 * CHUNK[2])
    places = [np.arange(n) % extent for n, extent in zip(shape, field.shape, strict=True)]
    return np.ascontiguousarray(field[np.ix_(*places)], np.float32)


# ------------------------------------------------------------------------------------------------
# The sections
# ------------------------------------------------------------------------------------------------


def judge(data: np.ndarray, back: np.ndarray, bound: float) -> float:
    """Give the largest error as a fraction of the bound."""
    return h5lossy.largest_error(data, back, h5lossy.PFPL(absolute=bound).bound).fraction


def filters(bound: float, *, and_lossless: bool) -> tuple[dict[str, Any], list[str]]:
    """Give the filters that are available, and a message about those that are not."""
    found: dict[str, Any] = {"no filter": None} if and_lossless else {}
    found |= {
        "PFPL": h5lossy.PFPL(absolute=bound),
        "cuSZp2-O": h5lossy.CuSZp2(absolute=bound),
        "AATROX": h5lossy.AATROX(absolute=bound),
        "Interp": h5lossy.Interp(absolute=bound),
        "auto": h5lossy.Auto(absolute=bound),
    }
    if hdf5plugin is None:
        return found, ["no hdf5plugin here, so no peers"]
    peers: dict[str, Callable[[], Any]] = {
        "ZFP": lambda: hdf5plugin.Zfp(accuracy=bound),
        SZ3_FILTER: lambda: hdf5plugin.SZ3(absolute=bound),
        "SPERR": lambda: hdf5plugin.Sperr(absolute=bound, swap=True),
    }
    if and_lossless:
        peers["Blosc2"] = hdf5plugin.Blosc2
    notes = []
    for name, make in peers.items():
        try:
            found[name] = make()
        except (AttributeError, TypeError, ValueError) as error:
            notes.append(f"{name} is missing: {error}")
    return found, notes


def create(file: h5py.File, data: np.ndarray, codec: Any) -> h5py.Dataset:
    """Create a dataset for `data`, without values."""
    return file.create_dataset("x", data.shape, data.dtype, chunks=CHUNK, compression=codec)


def write_file(path: Path, data: np.ndarray, codec: Any) -> None:
    """Write data to the dataset x of a new file."""
    with h5py.File(path, "w") as file:
        create(file, data, codec)[...] = data


def read_file(path: Path, out: np.ndarray) -> None:
    """Read the dataset x of a file."""
    with h5py.File(path) as file:
        file["x"].read_direct(out)


def measure_pipeline(
    data: np.ndarray, bound: float, scale: float, folder: Path, runs: int
) -> tuple[list[Row], list[str]]:
    """Write and read through HDF5's pipeline with each filter."""
    codecs, notes = filters(bound, and_lossless=scale == SPEED_SCALE)
    out = np.empty_like(data)

    def path(name: str) -> Path:
        return folder / f"{name.partition(' ')[0]}.h5"

    def rewrite(name: str) -> Callable[[], None]:
        with h5py.File(path(name)) as file:
            chunks = stored_chunks(file["x"])

        def run() -> None:
            with h5py.File(folder / "again.h5", "w") as file:
                dataset = create(file, data, codecs[name])
                for place, frame in chunks:
                    dataset.id.write_direct_chunk(place, frame)

        return run

    for name in list(codecs):
        try:
            write_file(path(name), data, codecs[name])
        except (OSError, RuntimeError, ValueError) as error:
            notes.append(f"{name} failed: {error}")
            del codecs[name]
    writes = take_turns(
        {name: partial(write_file, path(name), data, codec) for name, codec in codecs.items()}, runs
    )
    reads = take_turns({name: partial(read_file, path(name), out) for name in codecs}, runs)
    rewrites = take_turns({name: rewrite(name) for name in codecs}, runs)
    rows = []
    for name in codecs:
        read_file(path(name), out)
        with h5py.File(path(name)) as file:
            ratio = data.nbytes / file["x"].id.get_storage_size()
        is_lossless = name in {"no filter", "Blosc2"}
        row: Row = {
            "section": "pipeline",
            "clock": "cpu",
            "name": name,
            "is_peer": name in PEERS,
            "way": "pipeline",
            "threads": 1,
            "scale": None if is_lossless else scale,
            "bytes": data.nbytes,
            "ratio": ratio,
            "error_fraction": None if is_lossless else judge(data, out, bound),
            "write": speed(writes[name]["cpu"], data.nbytes),
            "read": speed(reads[name]["cpu"], data.nbytes),
        }
        if name != "no filter":
            whole, direct = (statistics.median(all_[name]["cpu"]) for all_ in (writes, rewrites))
            row["filter_cpu_s_per_gb"] = (whole - direct) / (data.nbytes / 1e9)
        rows.append(row)
    flat = data.reshape(-1, CHUNK_BYTES // data.itemsize)
    for row in rows:
        if row["scale"] is None or row["is_peer"]:
            continue
        codec = codecs[row["name"]]
        alone = take_turns({"": lambda codec=codec: [h5lossy.encode(c, codec) for c in flat]}, runs)
        row["encode_cpu_s_per_gb"] = statistics.median(alone[""]["cpu"]) / (data.nbytes / 1e9)
    return rows, notes


def stored_chunks(dataset: h5py.Dataset) -> list[tuple[tuple[int, ...], bytes]]:
    """Give the place and the bytes of each chunk in the file."""
    places: list[tuple[int, ...]] = []
    dataset.id.chunk_iter(lambda chunk: places.append(chunk.chunk_offset))
    return [(place, bytes(dataset.id.read_direct_chunk(place)[1])) for place in places]


def measure_batched(
    data: np.ndarray, bound: float, folder: Path, runs: int, threads: list[int]
) -> list[Row]:
    """Write and read with h5lossy's functions."""
    codec = h5lossy.PFPL(absolute=bound)
    path, plain = folder / "batched.h5", folder / "plain"
    out = np.empty_like(data)

    def write(count: int) -> None:
        with h5py.File(path, "w") as file:
            h5lossy.write(create(file, data, codec), data, threads=count)

    def read(count: int) -> None:
        with h5py.File(path) as file:
            h5lossy.read(file["x"], out=out, threads=count)

    write_file(path, data, codec)
    content = path.read_bytes()
    read_file(path, out)
    expected = out.copy()
    error = judge(data, out, bound)
    counts = {f"batched {n}": n for n in threads}
    writes = take_turns(
        {
            "file": lambda: plain.write_bytes(content),
            "pipeline": partial(write_file, path, data, codec),
            **{name: partial(write, count) for name, count in counts.items()},
        },
        runs,
    )
    room = bytearray(len(content))

    def read_plain() -> None:
        with plain.open("rb", buffering=0) as file:
            file.readinto(room)

    reads = take_turns(
        {
            "file": read_plain,
            "pipeline": partial(read_file, path, out),
            **{name: partial(read, count) for name, count in counts.items()},
        },
        runs,
    )
    for count in threads:
        write(count)
        if path.read_bytes() != content:
            # The index may be elsewhere; the chunks must not differ.
            read_file(path, out)
            if not np.array_equal(out, expected):
                raise SystemExit(f"{count} threads wrote other values")
        out[...] = 0
        read(count)
        if not np.array_equal(out, expected):
            raise SystemExit(f"{count} threads read other values")
    return [
        {
            "section": "batched",
            "clock": "wall",
            "name": "PFPL",
            "is_peer": False,
            "way": case.split()[0],
            "threads": counts.get(case, 1),
            "scale": SPEED_SCALE,
            "bytes": data.nbytes,
            "ratio": data.nbytes / len(content),
            "error_fraction": error,
            "write": speed(writes[case]["wall"], data.nbytes),
            "read": speed(reads[case]["wall"], data.nbytes),
        }
        for case in writes
    ]


def measure_memory(data: np.ndarray, bound: float, runs: int, threads: list[int]) -> list[Row]:
    """Encode and decode arrays in memory."""
    flat, out = data.reshape(-1), np.zeros(data.size, data.dtype)
    values = CHUNK_BYTES // data.itemsize
    count = flat.size // values
    params = _native.Params(codec=1, bound=bound, value_bytes=data.itemsize, shape=(values,))
    starts = np.arange(count)[:, None] * values

    def parts(array: np.ndarray) -> _native.Parts:
        return _native.Parts(
            array=array,
            chunk=(values,),
            corners=starts,
            first=np.zeros_like(starts),
            extents=np.full_like(starts, values),
            padding=np.zeros((), array.dtype),
        )

    room = np.empty((count, _native.max_encoded_size(CHUNK_BYTES) + 24), np.uint8)
    frames = _native.encode_parts(params, parts(flat), room, max(threads))

    def copy(workers: int) -> None:
        edges = np.linspace(0, flat.size, workers + 1).astype(int)
        with ThreadPoolExecutor(workers) as pool:
            list(
                pool.map(
                    lambda i: np.copyto(out[slice(*i)], flat[slice(*i)]), itertools.pairwise(edges)
                )
            )

    copies = take_turns({str(n): lambda n=n: copy(n) for n in threads}, runs)
    encodes = take_turns(
        {str(n): lambda n=n: _native.encode_parts(params, parts(flat), room, n) for n in threads},
        runs,
    )
    decodes = take_turns(
        {str(n): lambda n=n: _native.decode_parts(params, parts(out), frames, n) for n in threads},
        runs,
    )
    ratio = data.nbytes / sum(map(len, frames))
    error = judge(flat, out, bound)
    return [
        {
            "section": "memory",
            "clock": "wall",
            "name": "memcpy" if way == "copy" else "PFPL",
            "is_peer": False,
            "way": way,
            "threads": n,
            "scale": None if way == "copy" else SPEED_SCALE,
            "bytes": data.nbytes,
            "ratio": None if way == "copy" else ratio,
            "error_fraction": None if way == "copy" else error,
            "write": speed(there[str(n)]["wall"], data.nbytes),
            "read": speed(back[str(n)]["wall"], data.nbytes),
        }
        for n in threads
        for way, there, back in (("copy", copies, copies), ("memory", encodes, decodes))
    ]


def powers_of_two(most: int) -> list[int]:
    """Give 1, 2, 4, ... and `most`."""
    return sorted({1 << n for n in range(most.bit_length())} | {most})


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--size", type=int, default=2048, help="MiB of the batched section")
    parser.add_argument("--pipeline", type=int, default=256, help="MiB of the pipeline section")
    parser.add_argument("--memory", type=int, default=4096, help="MiB of the memory section")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument(
        "--scales",
        type=float,
        nargs="*",
        default=[SPEED_SCALE, 1e-2, 1e-4],
        help="bounds of the pipeline section, as parts of the range",
    )
    parser.add_argument(
        "--threads", type=int, nargs="*", default=powers_of_two(_native.default_threads())
    )
    tmpfs = "/dev/shm"  # noqa: S108  # a folder of its own is made there
    parser.add_argument("--folder", default=tmpfs, help=f"where the files go (default: {tmpfs})")
    parser.add_argument("--sections", nargs="*", default=list(SECTIONS), choices=list(SECTIONS))
    return parser.parse_args()


def main() -> None:
    """Measure, print tables, write results/hdf5.json."""
    options = arguments()
    field = field_for_speed()
    extent = float(field.max()) - float(field.min())
    bound = SPEED_SCALE * extent
    rows: list[Row] = []
    notes: list[str] = []

    def sized(wanted: int, *, copies: float, folder: Path | None = None) -> np.ndarray:
        size = affordable(wanted * MIB, copies=copies, folder=folder)
        if size < wanted * MIB:
            notes.append(f"{size // MIB} MiB instead of {wanted}: memory is short")
        return tiled(field, size)

    with contextlib.ExitStack() as stack:
        temporary = stack.enter_context(tempfile.TemporaryDirectory(dir=options.folder))
        folder = Path(temporary)
        if "pipeline" in options.sections:
            data = sized(options.pipeline, copies=12, folder=folder)
            for scale in options.scales:
                found, said = measure_pipeline(data, scale * extent, scale, folder, options.runs)
                rows, notes = rows + found, notes + said
                for path in folder.iterdir():
                    path.unlink()
        if "batched" in options.sections:
            data = sized(options.size, copies=6, folder=folder)
            rows += measure_batched(data, bound, folder, options.runs, options.threads)
            for path in folder.iterdir():
                path.unlink()
    if "memory" in options.sections:
        data = sized(options.memory, copies=4)
        rows += measure_memory(data, bound, options.runs, options.threads)
    results = {"field": FIELD, "runs": options.runs, "notes": [*dict.fromkeys(notes)], "rows": rows}
    show("hdf5", results)
    save("hdf5", results)


if __name__ == "__main__":
    main()

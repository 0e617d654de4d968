# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Ratio and speed on integers, halves and complex numbers, compared with other projects' codecs.

    H5LOSSY_CORPUS=... python benchmarks/number_types.py [--runs N] [--backends avx2]

The fields of the corpus are cut into equal chunks of at most 1 MiB, whole trailing slices as far as
they fit; what is left over is cropped. No value is a fill value. Each field is stored losslessly;
integers within 2 counts, and within the square root of each (noise=1); halves and complex numbers
within 1e-3 of the range. Labels and masks are stored losslessly only.

Bitshuffle with Zstd (level 3) or LZ4 and SZ3 are hdf5plugin's, through HDF5 without its chunk
cache, from a file in memory; h5lossy is measured in this way, too, and in memory. pcodec (level 8)
and JPEG-LS of imagecodecs are in memory, and so are newer SZ3s, those of pysz (see _sz3.py). Types
If a peer does not support a type, it gets another type that has all of its values, or its bits, and
results are clipped and rounded to the type again; that is not timed.

All codecs of a field take turns; CPU time of the process, which has one thread, medians, along with
a memcpy of 1 and of 256 MiB. Every value is checked. Each backend has its own process, with h5lossy
and Bitshuffle+LZ4 only, except the best backend; all have to write the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import _sz3
import h5py
import hdf5plugin
import imagecodecs
import ml_dtypes  # noqa: F401  # makes bfloat16 a name that NumPy knows
import numpy as np
import pcodec
from _common import (
    SPEED_SCALE,
    STREAMING_BYTES,
    SZ3_FILTER,
    geometric_mean,
    memcpy_speed,
    real_fields,
    run_backend,
    save,
)
from fields import CHUNK_BYTES, chunk_shape
from hdf5 import speed, take_turns
from interp_speed import cut
from readme import show
from rich.console import Console
from rich.progress import track

import h5lossy
from h5lossy import _native
from h5lossy._frames import chunk_params

if TYPE_CHECKING:
    from collections.abc import Callable

FAMILIES = (
    *("detector", "microscopy", "medical", "signals", "earth", "packed"),
    *("labels", "half", "complex"),
)
"""Values of the attribute `family` of the corpus."""

COUNTS = 2
"""The absolute bound of integers."""
LOSSLESS, NOISE, RANGE = "lossless", "noise 1", f"{SPEED_SCALE:g} of the range"
ABSOLUTE = f"±{COUNTS}"

LZ4, ZSTD = "Bitshuffle+LZ4", "Bitshuffle+Zstd"
OURS, OURS_HDF5, INTERP = "PFPL", "PFPL, through HDF5", "Interp"
JPEG_LS = "JPEG-LS"
PACKAGES = ("h5py", "hdf5plugin", "imagecodecs", "pcodec", "pysz")
ROW = 1000
"""Length of a row of the image that JPEG-LS gets for a signal."""


class Coder(NamedTuple):
    """A codec with the chunks of a field: two calls to time, and their results."""

    encode: Callable[[], object]
    decode: Callable[[], object]
    size: Callable[[], int]
    """Bytes of all chunks."""
    decoded: Callable[[], list[np.ndarray]]
    frames: Callable[[], list[bytes]] = list


def in_memory(
    parts: list[np.ndarray],
    encode: Callable[[np.ndarray], Any],
    decode: Callable[[Any, np.ndarray], np.ndarray],
) -> Coder:
    """Take calls for a chunk; `decode` is told what the result is like, and may write there."""
    frames: list[Any] = []
    decoded: list[np.ndarray] = [np.empty_like(part) for part in parts]

    def encode_all() -> None:
        frames[:] = [encode(part) for part in parts]

    def decode_all() -> None:
        decoded[:] = [decode(*pair) for pair in zip(frames, decoded, strict=True)]

    return Coder(
        encode_all,
        decode_all,
        lambda: sum(memoryview(frame).nbytes for frame in frames),
        lambda: decoded,
        lambda: [bytes(frame) for frame in frames],
    )


def of_ours(parts: list[np.ndarray], codec: h5lossy.Codec) -> Coder:
    """Call the library without HDF5, with memory that is allocated before."""
    params = chunk_params(codec, parts[0].dtype, parts[0].shape, None)
    rooms = {id(part): np.zeros(h5lossy.max_encoded_size(part.nbytes), "u1") for part in parts}

    def encode(part: np.ndarray) -> np.ndarray:
        room = rooms[id(part)]
        return room[: _native.encode_into(params, part, room)]

    def decode(frame: np.ndarray, out: np.ndarray) -> np.ndarray:
        _native.decode(frame, out)
        return out

    return in_memory(parts, encode, decode)


def of_filter(parts: list[np.ndarray], compression: Any) -> Coder:
    """Have HDF5 call a filter: a dataset of one chunk for each chunk."""
    # Without a chunk cache, so that each write encodes and each read decodes.
    file = h5py.File.in_memory(rdcc_nbytes=0)
    datasets = [
        file.create_dataset(str(i), part.shape, part.dtype, chunks=part.shape, **compression)
        for i, part in enumerate(parts)
    ]
    decoded = [np.empty_like(part) for part in parts]

    def encode() -> None:
        for dataset, part in zip(datasets, parts, strict=True):
            dataset.id.write(h5py.h5s.ALL, h5py.h5s.ALL, part)

    def decode() -> None:
        for dataset, out in zip(datasets, decoded, strict=True):
            dataset.id.read(h5py.h5s.ALL, h5py.h5s.ALL, out)

    return Coder(
        encode,
        decode,
        lambda: sum(dataset.id.get_storage_size() for dataset in datasets),
        lambda: decoded,
    )


def of_pcodec(parts: list[np.ndarray]) -> Coder:
    """Call pcodec, which takes one dimension."""
    settings = pcodec.ChunkConfig(enable_8_bit=True)

    def decode(frame: bytes, out: np.ndarray) -> np.ndarray:
        pcodec.standalone.simple_decompress_into(frame, out.reshape(-1))
        return out

    return in_memory(
        parts,
        lambda part: pcodec.standalone.simple_compress(part.reshape(-1), settings),
        decode,
    )


def of_jpeg_ls(parts: list[np.ndarray], near: int) -> Coder:
    """Call JPEG-LS, which takes images: all axes but the last one are merged."""
    images = [part.reshape(-1, ROW if part.ndim == 1 else part.shape[-1]) for part in parts]
    coder = in_memory(
        images,
        lambda image: imagecodecs.jpegls_encode(image, level=near),
        lambda frame, _: imagecodecs.jpegls_decode(frame),
    )
    return coder._replace(
        decoded=lambda: [
            image.reshape(part.shape) for image, part in zip(coder.decoded(), parts, strict=True)
        ]
    )


def of_pysz(parts: list[np.ndarray], bound: float, name: str) -> Coder:
    """Call SZ3 without HDF5."""
    settings = _sz3.config(bound, _sz3.ALGORITHMS[name])
    return in_memory(parts, lambda part: _sz3.encode(part, settings), _sz3.decode)


def converted(
    parts: list[np.ndarray],
    make: Callable[[list[np.ndarray]], Coder],
    there: Callable[[np.ndarray], np.ndarray],
    back: Callable[[np.ndarray], np.ndarray],
) -> Coder:
    """Give a peer chunks of another type, and convert its results to their own type."""
    coder = make([there(part) for part in parts])
    return coder._replace(
        decoded=lambda: [
            back(values).reshape(part.shape)
            for values, part in zip(coder.decoded(), parts, strict=True)
        ]
    )


def as_bits(
    parts: list[np.ndarray], dtype: str, make: Callable[[list[np.ndarray]], Coder]
) -> Coder:
    """Give the bits of values as those of another type."""
    own = parts[0].dtype
    return converted(parts, make, lambda part: part.view(dtype), lambda x: x.view(own))


def as_wider(
    parts: list[np.ndarray], dtype: str, make: Callable[[list[np.ndarray]], Coder]
) -> Coder:
    """Give values in another type that has all of them; take them back within their own."""
    own = parts[0].dtype

    def back(values: np.ndarray) -> np.ndarray:
        if own.kind in "iu":
            values = np.clip(values, np.iinfo(own).min, np.iinfo(own).max)
        return values.astype(own)

    return converted(parts, make, lambda part: part.astype(dtype), back)


def offset_binary(parts: list[np.ndarray], near: int) -> Coder:
    """Give JPEG-LS signed integers as unsigned ones in the same order."""
    own = parts[0].dtype
    bits = f"u{own.itemsize}"
    top = np.array(1 << 8 * own.itemsize - 1, bits)
    return converted(
        parts,
        lambda others: of_jpeg_ls(others, near),
        lambda part: part.view(bits) ^ top,
        lambda values: (values ^ top).view(own),
    )


def lossless_peers(parts: list[np.ndarray]) -> dict[str, Coder]:
    """Give the lossless peers."""
    dtype = parts[0].dtype
    filters = {ZSTD: hdf5plugin.Bitshuffle(cname="zstd"), LZ4: hdf5plugin.Bitshuffle(cname="lz4")}
    is_bfloat16 = dtype == "bfloat16"
    found = {}
    for name, compression in filters.items():
        found[name] = (
            as_bits(parts, "u2", lambda bits, use=compression: of_filter(bits, use))
            if is_bfloat16
            else of_filter(parts, compression)
        )
    if is_bfloat16:
        found["pcodec"] = as_bits(parts, "u2", of_pcodec)
    elif dtype.kind == "c":
        found["pcodec"] = as_bits(parts, f"f{dtype.itemsize // 2}", of_pcodec)
    else:
        found["pcodec"] = of_pcodec(parts)
    return found | jpeg_ls(parts, 0)


def jpeg_ls(parts: list[np.ndarray], near: int) -> dict[str, Coder]:
    """Give JPEG-LS, if it supports the type."""
    dtype = parts[0].dtype
    if dtype.kind not in "iu" or dtype.itemsize > 2:
        return {}
    make = of_jpeg_ls if dtype.kind == "u" else offset_binary
    return {JPEG_LS: make(parts, near)}


def sz3s(parts: list[np.ndarray], bound: float) -> dict[str, Coder]:
    """Give all SZ3s."""
    dtype = parts[0].dtype
    compression = hdf5plugin.SZ3(absolute=bound)
    found: dict[str, Callable[[list[np.ndarray]], Coder]] = {
        SZ3_FILTER: lambda others: of_filter(others, compression)
    }
    for name in _sz3.ALGORITHMS:
        found[name] = lambda others, name=name: of_pysz(others, bound, name)
    if dtype.kind == "c":
        # The components are one more axis; the same bytes for all of them, and the same shape.
        wide = f"f{dtype.itemsize // 2}"
        return {
            name: converted(
                parts,
                make,
                lambda part: part[..., np.newaxis].view(wide),
                lambda values: values.view(dtype),
            )
            for name, make in found.items()
        }
    if dtype.kind not in "iu":
        return {name: as_wider(parts, "f4", make) for name, make in found.items()}
    return {
        name: make(parts) if name == SZ3_FILTER or dtype == "i4" else as_wider(parts, "i4", make)
        for name, make in found.items()
    }


def cases(values: np.ndarray, family: str) -> dict[str, dict[str, Any]]:
    """Give the bounds of a field, as arguments of a codec."""
    found: dict[str, dict[str, Any]] = {LOSSLESS: {"lossless": True}}
    if family == "labels":
        return found
    if values.dtype.kind in "iu":
        return found | {ABSOLUTE: {"absolute": COUNTS}, NOISE: {"noise": 1}}
    resolved = h5lossy.PFPL(range_relative=SPEED_SCALE).resolve(values)
    return found | {RANGE: {"absolute": resolved.bound.value}}


def coders(
    parts: list[np.ndarray], case: str, bound: dict[str, Any], *, and_peers: bool
) -> dict[str, Coder]:
    """Give all that is compared for one field and bound."""
    codec = h5lossy.PFPL(**bound)
    found = {OURS: of_ours(parts, codec)}
    dtype = parts[0].dtype
    if dtype != "bfloat16":  # h5py does not have it
        found[OURS_HDF5] = of_filter(parts, codec)
    if not and_peers:
        lossless = lossless_peers(parts) if case == LOSSLESS else {}
        return found | {name: coder for name, coder in lossless.items() if name == LZ4}
    if dtype.kind != "c" or case != LOSSLESS:
        found[INTERP] = of_ours(parts, h5lossy.Interp(**bound))
    if case == LOSSLESS:
        return found | lossless_peers(parts)
    if case == ABSOLUTE:
        found |= jpeg_ls(parts, COUNTS)
    return found | (sz3s(parts, bound["absolute"]) if case != NOISE else {})


def measure(
    parts: list[np.ndarray], codecs: dict[str, Coder], bound: dict[str, Any], runs: int
) -> dict[str, Any]:
    """Time codecs in turn, and check every value."""
    size = sum(part.nbytes for part in parts)
    writes = take_turns({name: coder.encode for name, coder in codecs.items()}, runs)
    reads = take_turns({name: coder.decode for name, coder in codecs.items()}, runs)
    error_bound = h5lossy.PFPL(**bound).bound
    found = {}
    for name, coder in codecs.items():
        summaries = [
            h5lossy.largest_error(part, decoded, error_bound, None)
            for part, decoded in zip(parts, coder.decoded(), strict=True)
        ]
        fraction = max(summary.fraction for summary in summaries)
        found[name] = {
            "ratio": size / coder.size(),
            "error_fraction": fraction if np.isfinite(fraction) else None,
            "broken": sum(summary.violations + summary.special_changed for summary in summaries),
            "encode": speed(writes[name]["cpu"], size),
            "decode": speed(reads[name]["cpu"], size),
        }
        if name.startswith(OURS) and found[name]["broken"]:
            raise SystemExit(f"{name} violated {error_bound}: {found[name]}")
    frames = b"".join(codecs[OURS].frames())
    found[OURS]["frames_sha256"] = hashlib.sha256(frames).hexdigest()
    return found


def work(runs: int, *, and_peers: bool) -> None:
    """Measure with the backend of this process; write JSON to the standard output."""
    memcpy = {str(size): memcpy_speed(size) for size in (CHUNK_BYTES, STREAMING_BYTES)}
    results: dict[str, Any] = {"load": os.getloadavg(), "memcpy": memcpy}
    families = {name: family for family in FAMILIES for name, *_ in real_fields(family=family)}
    rows = []
    backend = h5lossy.get_config().backend
    console = Console(stderr=True)
    for name, values, _ in track(list(real_fields()), backend, console=console, transient=True):
        # As few chunks as the size allows, all of the same size.
        counts = [-(-n // c) for n, c in zip(values.shape, chunk_shape(values), strict=True)]
        chunks = tuple(n // count for n, count in zip(values.shape, counts, strict=True))
        whole = tuple(slice(n // c * c) for n, c in zip(values.shape, chunks, strict=True))
        parts = cut(values[whole], chunks)
        row = {
            "field": name,
            "family": families[name],
            "dtype": str(values.dtype),
            "shape": values.shape,
            "chunks": chunks,
            "bytes": sum(part.nbytes for part in parts),
            "cases": {},
        }
        for case, bound in cases(values, families[name]).items():
            codecs = coders(parts, case, bound, and_peers=and_peers)
            row["cases"][case] = {"bound": bound, "codecs": measure(parts, codecs, bound, runs)}
        rows.append(row)
    json.dump(results | {"rows": rows}, sys.stdout)


def check_frames(runs: dict[str, Any]) -> None:
    """Refuse results of backends that write different bytes."""
    first, *others = runs.values()
    for run in others:
        for row, other in zip(first["rows"], run["rows"], strict=True):
            for case, found in row["cases"].items():
                own, theirs = (x["codecs"][OURS] for x in (found, other["cases"][case]))
                if own["frames_sha256"] != theirs["frames_sha256"]:
                    raise SystemExit(f"backends write different frames of {row['field']}, {case}")


def compared(rows: list[dict[str, Any]], own: str) -> dict[str, dict[str, Any]]:
    """Give the ratio of a codec divided by that of each other codec that kept the bound."""
    summary: dict[str, dict[str, Any]] = {}
    for case in (LOSSLESS, ABSOLUTE, RANGE):
        found = {row["field"]: row["cases"][case]["codecs"] for row in rows if case in row["cases"]}
        names = dict.fromkeys(name for codecs in found.values() for name in codecs)
        summary[case] = {}
        for name in names:
            if name in {own, OURS_HDF5}:
                continue
            times = {
                field: codecs[own]["ratio"] / codecs[name]["ratio"]
                for field, codecs in found.items()
                if own in codecs and name in codecs and not codecs[name]["broken"]
            }
            of_these = [codecs[name] for codecs in found.values() if name in codecs]
            summary[case][name] = {
                "fields": len(times),
                "smaller_on": sum(x > 1 for x in times.values()),
                "mean": geometric_mean(times.values()) if times else None,
                "least_on": min(times, key=lambda x: times[x]) if times else None,
                "least": min(times.values()) if times else None,
                "broken_on": sum(bool(codec["broken"]) for codec in of_these),
            }
    return summary


def is_frame(row: dict[str, Any]) -> bool:
    """Say whether a field is 16-bit data of cameras and detectors."""
    return row["dtype"] == "uint16" and row["family"] in {"detector", "microscopy"}


GROUPS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "16-bit frames": is_frame,
    "integers": lambda row: np.dtype(row["dtype"]).kind in "iu",
}
"""The groups that speeds are summed over."""


def speeds(runs: dict[str, Any]) -> list[dict[str, Any]]:
    """Give the speed over all fields of a group: their bytes by the sum of the median times."""
    found = []
    for group, is_in in GROUPS.items():
        for backend, run in runs.items():
            memcpy = run["memcpy"][str(STREAMING_BYTES)]["gb_per_s"]
            rows = list(filter(is_in, run["rows"]))
            lossless = summed(rows, LOSSLESS, LZ4)
            names = dict.fromkeys(
                (case, name)
                for row in rows
                for case, of_case in row["cases"].items()
                for name in of_case["codecs"]
            )
            for case, name in names:
                line = {"group": group, "backend": backend, "case": case, "codec": name}
                for way, gb_per_s in summed(rows, case, name).items():
                    line[way] = {
                        "gb_per_s": gb_per_s,
                        "of_memcpy": gb_per_s / memcpy,
                        "of_lz4": gb_per_s / lossless[way],
                    }
                found.append(line)
    return found


def summed(rows: list[dict[str, Any]], case: str, name: str) -> dict[str, float]:
    """Give GB/s over all fields that a codec takes."""
    found = {}
    for way in ("encode", "decode"):
        sizes, seconds = [], []
        for row in rows:
            if name in (codecs := row["cases"].get(case, {"codecs": {}})["codecs"]):
                sizes.append(row["bytes"] / 1e9)
                seconds.append(sizes[-1] / codecs[name][way]["gb_per_s"])
        found[way] = sum(sizes) / sum(seconds)
    return found


def main() -> None:
    """Measure, print tables, write results/types.json."""
    there = [name for name, is_usable in _native.backends().items() if is_usable]
    parser = argparse.ArgumentParser(description=__doc__.strip().partition("\n\n")[0])
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--backends", nargs="+", choices=there, default=there)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--peers", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work(given.runs, and_peers=given.peers)
        return
    runs = {
        name: run_backend(__file__, name, ["--runs", str(given.runs), *["--peers"] * (i == 0)])
        for i, name in enumerate(given.backends)
    }
    check_frames(runs)
    rows = next(iter(runs.values()))["rows"]
    results = {
        "packages": {name: importlib.metadata.version(name) for name in PACKAGES},
        "runs": given.runs,
        "summary": {own: compared(rows, own) for own in (OURS, INTERP)},
        "speeds": speeds(runs),
        "backends": runs,
    }
    show("types", results)
    if given.backends != there:
        print("not everything was measured: results/types.json is left as it is")
        return
    save("types", results)


if __name__ == "__main__":
    main()

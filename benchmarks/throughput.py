# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Speed of the bare codecs on one thread, with every backend of this machine, and of memcpy.

    H5LOSSY_CORPUS=... python benchmarks/throughput.py [--quick] [--codecs PFPL] [--backends avx2]

The field is the turbulence vorticity of the corpus, repeated to the chunk's size. GB/s counts the
original bytes, from memory to memory that is already allocated; x is the ratio to a streaming copy
of 256 MiB in the same process. Every value of every frame is checked, and the frames of all
backends are compared. Only a full run replaces results/throughput.json.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from _common import (
    FIELD,
    SPEED_SCALE,
    STREAMING_BYTES,
    cpu_time,
    field_for_speed,
    memcpy_speed,
    run_backend,
    save,
)
from readme import show
from rich.console import Console
from rich.progress import track

import h5lossy
from h5lossy import _native

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CODECS: dict[str, Callable[..., h5lossy.Codec]] = {
    "PFPL": h5lossy.PFPL,
    "cuSZp2-P": lambda **bound: h5lossy.CuSZp2(mode="plain", **bound),
    "cuSZp2-O": h5lossy.CuSZp2,
    "cuSZp2-O 2-D": lambda **bound: h5lossy.CuSZp2(dimensions=2, **bound),
    "cuSZp2-O 3-D": lambda **bound: h5lossy.CuSZp2(dimensions=3, **bound),
    "AATROX": h5lossy.AATROX,
    "Interp": h5lossy.Interp,
    "auto": h5lossy.Auto,
}
SCALES = (1e-1, 1e-2, 1e-3, 1e-4)
ALL_BOUNDS_BYTES = 1 << 20
CHUNK_BYTES = (64 << 10, ALL_BOUNDS_BYTES, 4 << 20, STREAMING_BYTES)
DTYPES = ("float32", "float64")
ROWS = 128
"""Number of rows, of the field's own length, in a slice of the chunk."""


@dataclasses.dataclass(frozen=True)
class Case:
    """One codec, bound, type and chunk size. The bound is a fraction of the range, or other."""

    codec: str
    bound: str
    dtype: str
    chunk_bytes: int

    @property
    def runs(self) -> int:
        """How often it is timed."""
        return 9 if self.chunk_bytes == STREAMING_BYTES else 15

    def setting(self, extent: float) -> h5lossy.Codec:
        """Give the codec with its bound."""
        if self.bound == "lossless":
            return CODECS[self.codec](lossless=True)
        if self.bound.startswith("pointwise"):
            return CODECS[self.codec](pointwise_relative=float(self.bound.split()[1]))
        return CODECS[self.codec](absolute=float(self.bound) * extent)


def cases(codecs: list[str], *, quick: bool) -> Iterator[Case]:
    """Give the cases: every bound with one size, every size with one bound."""
    for dtype in DTYPES[:1] if quick else DTYPES:
        for size in (ALL_BOUNDS_BYTES,) if quick else CHUNK_BYTES:
            for codec in codecs:
                bounds = [f"{SPEED_SCALE:g}"]
                if size == ALL_BOUNDS_BYTES and not quick:
                    bounds = [*(f"{scale:g}" for scale in SCALES), "pointwise 0.001"]
                    bounds += ["lossless"] * (codec == "PFPL")
                for bound in bounds:
                    yield Case(codec, bound, dtype, size)


def measure(case: Case, field: np.ndarray, streaming: float) -> dict[str, Any]:
    """Encode and decode one chunk; check the error, and time both."""
    extent = float(field.max()) - float(field.min())
    count = case.chunk_bytes // np.dtype(case.dtype).itemsize
    rows = min(ROWS, count // field.shape[-1])
    data = np.resize(field.astype(case.dtype), count).reshape(-1, rows, field.shape[-1])
    setting = case.setting(extent)
    params = dataclasses.replace(
        setting.params(), value_bytes=data.itemsize, shape=tuple(n for n in data.shape if n != 1)
    )
    room = np.zeros(_native.max_encoded_size(data.nbytes), np.uint8)
    frame = room[: _native.encode_into(params, data, room)].copy()
    decoded = np.zeros_like(data)
    _native.decode(frame, decoded)
    summary = h5lossy.largest_error(data, decoded, setting.bound)
    if not summary.holds:
        raise SystemExit(f"{setting} broke its bound: {summary}")
    row = dataclasses.asdict(case) | {
        "setting": repr(setting),
        "frame_codec": h5lossy.inspect(frame).codec,
        "frame_sha256": hashlib.sha256(frame).hexdigest(),
        "ratio": data.nbytes / len(frame),
        "error_fraction": summary.fraction,
    }
    ways = {
        "compress": lambda: _native.encode_into(params, data, room),
        "decompress": lambda: _native.decode(frame, decoded),
    }
    for way, run in ways.items():
        copies = max(1, ALL_BOUNDS_BYTES // data.nbytes)  # a small chunk is too short for the clock

        def several(run: Callable[[], object] = run, copies: int = copies) -> None:
            for _ in range(copies):
                run()

        speed = cpu_time(several, runs=case.runs).as_speed(data.nbytes * copies)
        row[way] = speed | {"of_memcpy": speed["gb_per_s"] / streaming}
    return row


def work(codecs: list[str], *, quick: bool) -> None:
    """Measure with the backend of this process; write JSON to the standard output."""
    field = field_for_speed()
    todo = list(cases(codecs, quick=quick))
    memcpy = {
        str(size): memcpy_speed(size)
        for size in sorted({case.chunk_bytes for case in todo} | {STREAMING_BYTES})
    }
    streaming = memcpy[str(STREAMING_BYTES)]["gb_per_s"]
    console = Console(stderr=True)
    backend = h5lossy.get_config().backend
    rows = [
        measure(case, field, streaming) | {"backend": backend}
        for case in track(todo, backend, console=console, transient=True)
    ]
    json.dump({"memcpy": memcpy, "rows": rows}, sys.stdout)


def check_frames(rows: list[dict[str, Any]]) -> None:
    """Refuse results of backends that write different bytes."""
    frames: dict[tuple[str, ...], str] = {}
    for row in rows:
        case = (row["setting"], row["dtype"], str(row["chunk_bytes"]))
        if frames.setdefault(case, row["frame_sha256"]) != row["frame_sha256"]:
            raise SystemExit(f"{row['backend']} writes another frame than the first: {case}")


def main() -> None:
    """Measure, print tables, write results/throughput.json."""
    there = [name for name, is_usable in _native.backends().items() if is_usable]
    parser = argparse.ArgumentParser(description="Speed of the bare codecs on one thread.")
    parser.add_argument("--codecs", nargs="+", choices=CODECS, default=[*CODECS])
    parser.add_argument("--backends", nargs="+", choices=there, default=there)
    parser.add_argument("--quick", action="store_true", help="float32, 1 MiB, one bound")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work(given.codecs, quick=given.quick)
        return
    options = ["--codecs", *given.codecs, *["--quick"] * given.quick]
    runs = {name: run_backend(__file__, name, options) for name in given.backends}
    # The backends of one case side by side.
    rows = [
        row for group in zip(*(run["rows"] for run in runs.values()), strict=True) for row in group
    ]
    check_frames(rows)
    memcpy = {name: run["memcpy"] for name, run in runs.items()}
    results = {"field": FIELD, "backends": given.backends, "memcpy": memcpy, "rows": rows}
    show("throughput", results)
    if given.quick or given.codecs != [*CODECS] or given.backends != there:
        print("not everything was measured: results/throughput.json is left as it is")
        return
    save("throughput", results)


if __name__ == "__main__":
    main()

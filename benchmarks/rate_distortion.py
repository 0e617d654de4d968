# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Rate and distortion on real fields: Interp, h5lossy's other codecs and other projects' codecs.

    H5LOSSY_CORPUS=... python benchmarks/rate_distortion.py [--only Interp SPERR] [--repeats N]

Each field is written through HDF5 (in memory) with an absolute bound of 1e-2 to 1e-5 of the range
of its valid values, and read back; every value is checked. A chunk is the whole field, its longest
axis halved until there are at most 300 000 values; the field is cropped to whole chunks, so that
nothing is padded.

Other projects' codecs run in a separate process, since some fields crash them. They do not support
missing values, so these are set to the smallest valid value for them; h5lossy gets the field
unchanged. SPERR and ZFP are hdf5plugin's. SPERR takes two or three axes: if there are more, the
first ones are merged. SZ3 is measured three times: hdf5plugin's, and both predictors of that in
pysz (see _sz3.py), chunk by chunk in memory, without a container; the best of them counts for each
field and bound. EBCC is measured if numcodecs-wasm-ebcc is installed, in memory, too: float32, in
slices of at least 32 × 32.

The same fields are compared at equal distortion: the bits that Interp and SPERR need for 60, 80 and
100 dB, with bounds that are searched for. SPERR is also measured with a PSNR instead of a bound.

--only measures some codecs, and keeps the others' results in results/rate_distortion.json; without
names, it measures nothing and only compares again.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import statistics
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, NamedTuple

import _sz3
import hdf5plugin
import numpy as np
from _common import (
    BEST_SZ3,
    SZ3_FILTER,
    Stored,
    add_best_sz3,
    chunk_by_chunk,
    geometric_mean,
    load_if_there,
    machine,
    real_fields,
    save,
    through_hdf5,
)
from readme import show
from rich.console import Console

import h5lossy

try:
    from numcodecs_wasm_ebcc import Ebcc
except ImportError:
    Ebcc = None

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CHUNK_VALUES = 300_000
SCALES = (1e-2, 1e-3, 1e-4, 1e-5)
PACKAGES = ("h5py", "hdf5plugin", "numcodecs-wasm-ebcc", "pysz")

OURS: dict[str, Callable[[float], Any]] = {
    "Interp": lambda bound: h5lossy.Interp(absolute=bound),
    "Interp rewritable": lambda bound: h5lossy.Interp(absolute=bound, rewritable=True),
    "PFPL": lambda bound: h5lossy.PFPL(absolute=bound),
    "cuSZp2-O": lambda bound: h5lossy.CuSZp2(absolute=bound),
    "AATROX": lambda bound: h5lossy.AATROX(absolute=bound),
    "auto": lambda bound: h5lossy.Auto(absolute=bound),
}
FILTERS: dict[str, Callable[[float], Any]] = {
    SZ3_FILTER: lambda bound: hdf5plugin.SZ3(absolute=bound),
    "SPERR": lambda bound: hdf5plugin.Sperr(absolute=bound, swap=True),
    "ZFP": lambda bound: hdf5plugin.Zfp(accuracy=bound),
}
NAMES = (*OURS, *FILTERS, *_sz3.ALGORITHMS, "EBCC")

TARGETS = (60, 80, 100)
"""dB at which bits are compared."""
TOLERANCE = 0.05
"""A search may end this many dB above its target."""
MOST_STEPS = 20
TIGHTER = (0.1, 0.2, 0.4)
"""A search tries once more this many dB beyond its end."""
SPERR_BY_PSNR = "SPERR by PSNR"
COMPARED_WITH = {"Interp": "Interp", "SPERR": "SPERR", SPERR_BY_PSNR: "SPERR"}
"""What is searched for the targets, and the name in --only that it belongs to."""


class Field(NamedTuple):
    """A field cropped to whole chunks."""

    name: str
    values: np.ndarray
    chunks: tuple[int, ...]
    fill_value: Any
    valid: np.ndarray
    extent: float

    def without_mask(self) -> np.ndarray:
        """Give the values with invalid ones replaced by the smallest valid one."""
        return np.where(self.valid, self.values, self.values[self.valid].min())


def chunk_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Halve the longest axis until a chunk has at most `CHUNK_VALUES` values."""
    chunk = list(shape)
    while math.prod(chunk) > CHUNK_VALUES:
        chunk[chunk.index(max(chunk))] //= 2
    return tuple(chunk)


def fields() -> Iterator[Field]:
    """Yield the fields of the corpus."""
    for name, values, fill_value in real_fields():
        chunks = chunk_shape(values.shape)
        whole = tuple(slice(n // c * c) for n, c in zip(values.shape, chunks, strict=True))
        cropped = np.ascontiguousarray(values[whole])
        valid = np.isfinite(cropped)
        if fill_value is not None:
            valid &= cropped != fill_value
        extent = float(cropped[valid].max()) - float(cropped[valid].min())
        yield Field(name, cropped, chunks, fill_value, valid, extent)


def through_ebcc(values: np.ndarray, chunks: tuple[int, ...], bound: float) -> Stored:
    """Encode and decode chunk by chunk in memory."""
    # The search for the residual's bound starts from the base layer: with EBCC's default, 100,
    # tight bounds are off by a factor of up to 96 instead of up to 1.5.
    ratio = 30.0 if bound >= 0.5 * SCALES[0] * np.ptp(values) else 10.0
    codec = Ebcc(residual="absolute", error=bound, base_cr=ratio)
    return chunk_by_chunk(
        values,
        chunks,
        lambda part: np.asarray(codec.encode(part.reshape((1,) * (3 - part.ndim) + part.shape))),
        lambda frame, part: np.asarray(codec.decode(frame)).reshape(part.shape),
    )


def unfit(name: str, field: Field) -> str | None:
    """Say why a codec does not support a field."""
    values, chunks = field.values, field.chunks
    if name == "EBCC" and Ebcc is None:
        return "not installed"
    if name == "EBCC" and (values.dtype != np.float32 or values.ndim < 2 or min(chunks[-2:]) < 32):
        return "takes float32 in slices of at least 32 x 32"
    if name in {"SPERR", SPERR_BY_PSNR} and values.ndim == 1:
        return "takes two or three axes"
    if name in {"SPERR", SPERR_BY_PSNR} and chunks[1:-2] != values.shape[1:-2]:
        return "the chunks' first axes cannot be merged"
    return None


def store(name: str, field: Field, bound: float) -> Stored:
    """Compress a field with one codec; for `SPERR_BY_PSNR`, the bound is a PSNR in dB."""
    values, chunks, fill_value = field.values, field.chunks, field.fill_value
    if name not in OURS:
        values, fill_value = field.without_mask(), None
    if name == "EBCC":
        return through_ebcc(values, chunks, bound)
    if name in _sz3.ALGORITHMS:
        return _sz3.store(values, chunks, bound, name)
    if name in {"SPERR", SPERR_BY_PSNR} and values.ndim > 3:
        values = values.reshape(-1, *values.shape[-2:])
        chunks = (math.prod(chunks[:-2]), *chunks[-2:])
    if name == SPERR_BY_PSNR:
        codec = hdf5plugin.Sperr(peak_signal_to_noise_ratio=bound, swap=True)
    else:
        codec = (OURS.get(name) or FILTERS[name])(bound)
    stored = through_hdf5(values, chunks, fill_value, {"compression": codec})
    return stored._replace(values=stored.values.reshape(field.values.shape))


def measure(name: str, field: Field, bound: float, repeats: int) -> dict[str, Any]:
    """Compress a field, and check every value."""
    if reason := unfit(name, field):
        return {"ratio": None, "failed": reason}
    runs = [store(name, field, bound) for _ in range(1 if name == "EBCC" else repeats)]
    exact = field.values[field.valid].astype(np.float64)
    error = np.abs(runs[0].values[field.valid].astype(np.float64) - exact)
    largest = float(error.max())
    mean_square = float(np.mean(error**2))
    kept = runs[0].values[~field.valid].tobytes() == field.values[~field.valid].tobytes()
    is_number = math.isfinite(largest)
    return {
        "bytes": runs[0].bytes,
        "ratio": field.values.nbytes / runs[0].bytes,
        "bits": 8 * runs[0].bytes / field.values.size,
        "error_fraction": largest / bound if is_number else None,
        "broken": int(np.count_nonzero(~(error <= bound))) + (name in OURS and not kept),
        "psnr": 10 * math.log10(field.extent**2 / mean_square)
        if is_number and mean_square > 0
        else None,
        "write_s": statistics.median(run.write_s for run in runs),
        "read_s": statistics.median(run.read_s for run in runs),
    }


class Apart:
    """Another process, restarted after a crash."""

    def __init__(self) -> None:
        self.pool: ProcessPoolExecutor | None = None

    def measure(self, *case: Any) -> dict[str, Any]:
        """Call `measure` there."""
        if self.pool is None:
            self.pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
        try:
            return self.pool.submit(measure, *case).result(timeout=600)
        except BrokenProcessPool:
            self.pool = None
            return {"ratio": None, "failed": "crashed"}
        except (OSError, RuntimeError, TypeError, ValueError) as error:
            return {"ratio": None, "failed": f"{type(error).__name__}: {error}"}


def bits_at(
    target: float, name: str, field: Field, run: Callable[..., dict[str, Any]]
) -> dict[str, Any]:
    """
    Search for the bound at which a codec reaches a PSNR, and give the fewest bits per value.

    The search starts from the PSNR for uniformly distributed values. Bits may jump where steps
    coincide with those of the numbers themselves, so slightly tighter bounds are tried, too.
    """
    level, low, high = target, -math.inf, math.inf
    reached: list[dict[str, Any]] = []

    def attempt() -> float:
        bound = field.extent * math.sqrt(3) * 10 ** (-level / 20)
        result = run(name, field, level if name == SPERR_BY_PSNR else bound, 1)
        psnr = result.get("psnr") or math.inf
        if result["ratio"] is not None and psnr >= target:
            bits = {"bits": result["bits"], "psnr": result["psnr"]}
            reached.append(
                bits if name == SPERR_BY_PSNR else bits | {"scale": bound / field.extent}
            )
        return psnr if result["ratio"] is not None else math.nan

    for _ in range(MOST_STEPS):
        psnr = attempt()
        if math.isnan(psnr):
            break
        if psnr >= target:
            high = level
        else:
            low = level
        if target <= psnr <= target + TOLERANCE or high - low < TOLERANCE / 10:
            break
        level += target + TOLERANCE / 2 - psnr
        if not low < level < high:
            level = (low + high) / 2 if math.isfinite(high - low) else max(low + 6, high - 6)
    for tighter in TIGHTER if reached else ():
        level = high + tighter
        attempt()
    if not reached:
        return {"bits": None, "failed": unfit(name, field) or "the PSNR was not reached"}
    return min(reached, key=lambda result: result["bits"])


def summary(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Compare every codec with the best SZ3, for each bound, on the fields that it supports."""
    found: dict[str, dict[str, Any]] = {}
    for i, scale in enumerate(SCALES):
        found[f"{scale:g}"] = {}
        every = [row["bounds"][i]["codecs"] for row in rows]
        for name in dict.fromkeys(name for codecs in every for name in codecs):
            factors = {
                row["field"]: codecs[name]["ratio"] / codecs[BEST_SZ3]["ratio"]
                for row, codecs in zip(rows, every, strict=True)
                if BEST_SZ3 in codecs and codecs[name]["ratio"] is not None
            }
            if factors:
                worst = min(factors, key=lambda field: factors[field])
                found[f"{scale:g}"][name] = {
                    "fields": len(factors),
                    "of_best_sz3": geometric_mean(factors.values()),
                    "above_best_sz3": sum(factor > 1 for factor in factors.values()),
                    "worst": worst,
                    "worst_of_best_sz3": factors[worst],
                }
    return found


def psnr_summary(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Compare the bits of Interp with those of SPERR, for each target."""
    found: dict[str, dict[str, Any]] = {}
    for target in map(str, TARGETS):
        found[target] = {}
        for name in COMPARED_WITH:
            factors = {
                row["field"]: own / other
                for row in rows
                if (own := row["equal_psnr"][target].get("Interp", {}).get("bits"))
                and (other := row["equal_psnr"][target].get(name, {}).get("bits"))
            }
            if factors and name != "Interp":
                worst = max(factors, key=lambda field: factors[field])
                found[target][name] = {
                    "fields": len(factors),
                    "bits_of_interp": geometric_mean(factors.values()),
                    "median": statistics.median(factors.values()),
                    "more": sum(factor > 1 for factor in factors.values()),
                    "worst": worst,
                    "worst_bits_of_interp": factors[worst],
                }
    return found


def versions() -> dict[str, str]:
    """Give the versions of other projects' packages."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def main() -> None:
    """Measure, print tables, write results/rate_distortion.json."""
    parser = argparse.ArgumentParser(description=__doc__.strip().partition("\n\n")[0])
    parser.add_argument("--only", nargs="*", choices=NAMES, default=list(NAMES))
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    before = load_if_there("rate_distortion")
    known = {row["field"]: row for row in before["rows"]} if before else {}
    apart, console, rows = Apart(), Console(stderr=True), []
    for field in fields():
        old = known.get(field.name, {})
        row = {
            "field": field.name,
            "dtype": str(field.values.dtype),
            "shape": field.values.shape,
            "chunks": field.chunks,
            "masked": 1 - float(field.valid.mean()),
            "extent": field.extent,
            "bounds": [],
            "equal_psnr": {},
        }
        for i, scale in enumerate(SCALES):
            bound = scale * field.extent
            codecs = dict(old["bounds"][i]["codecs"]) if old else {}
            for name in options.only:
                run = measure if name in OURS else apart.measure
                codecs[name] = run(name, field, bound, options.repeats)
                if name in OURS and codecs[name]["broken"]:
                    raise SystemExit(f"{name} violated its bound on {field.name}: {codecs[name]}")
            add_best_sz3(codecs)
            row["bounds"].append({"scale": scale, "bound": bound, "codecs": codecs})
        for target in TARGETS:
            found = dict(old.get("equal_psnr", {}).get(str(target), {}))
            for name, codec in COMPARED_WITH.items():
                if codec in options.only:
                    run = measure if codec in OURS else apart.measure
                    found[name] = bits_at(target, name, field, run)
            row["equal_psnr"][str(target)] = found
        rows.append(row)
        console.print(
            field.name,
            *(
                f"{bound['codecs'].get('Interp', {}).get('ratio', 0):.2f}"
                for bound in row["bounds"]
            ),
        )
    measured = {} if before is None else before["measured"]
    here = {"commit": machine()["commit"], "packages": versions(), "repeats": options.repeats}
    measured |= dict.fromkeys(options.only, here)
    results = {
        "measured": measured,
        "summary": summary(rows),
        "psnr_summary": psnr_summary(rows),
        "rows": rows,
    }
    show("rate_distortion", results)
    save("rate_distortion", results)


if __name__ == "__main__":
    main()

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""
How fast the GPU encodes and decodes, compared with a copy on the device.

    python benchmarks/gpu.py [--quick] [--commit NAME] [--json FILE]

Times are CUDA events around whole calls, from the first kernel's start to the last one's end:
memory is allocated before, and nothing is copied to the host. "graph" is the same call, captured
into a CUDA graph: no kernel waits for the host to launch it. GB/s are 10^9 original bytes a second.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import platform
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cupy
import h5py
import numpy as np
from synthetic import grf

import h5lossy
from h5lossy import _native
from h5lossy._frames import chunk_params

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MIB = 1 << 20

WAYS = ("encode", "decode")

CODECS = {
    "pfpl": h5lossy.PFPL,
    "cuszp2-plain": lambda **bound: h5lossy.CuSZp2(mode="plain", **bound),
    "cuszp2-outlier": lambda **bound: h5lossy.CuSZp2(mode="outlier", **bound),
    "aatrox": h5lossy.AATROX,
}

#: The chunks of the data that `real_data` makes: 1 MiB of float32.
CUBE = (64, 64, 64)


def event_times(run: Callable[[], None], runs: int = 15, warmups: int = 5) -> list[float]:
    """Return seconds of each run."""
    seconds = []
    for i in range(warmups + runs):
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        run()
        end.record()
        end.synchronize()
        if i >= warmups:
            seconds.append(cupy.cuda.get_elapsed_time(begin, end) / 1e3)
    return seconds


def graph_of(run: Callable[[], None]) -> Callable[[], None]:
    """Return what a call starts, as a graph."""
    stream = cupy.cuda.get_current_stream()
    stream.begin_capture()
    run()
    graph = stream.end_capture()
    return lambda: graph.launch(stream)


def copy_speed(field: Any) -> dict[str, float]:
    """Measure a copy on the device, between several places, since the speed depends on them."""
    seconds, places = [], []
    for _ in range(3):
        source, target = field.copy(), cupy.empty_like(field)
        places += [source, target]
        seconds += event_times(lambda a=source, b=target: cupy.copyto(b, a))  # type: ignore[misc]
    return speed(field.nbytes, seconds)


def speed(size: int, seconds: list[float]) -> dict[str, float]:
    """Give GB/s, median and range."""
    return {
        "gb_per_s": size / 1e9 / statistics.median(seconds),
        "gb_per_s_min": size / 1e9 / max(seconds),
        "gb_per_s_max": size / 1e9 / min(seconds),
    }


class Batch:
    """Chunks of a field on the device, with everything that a call needs."""

    def __init__(
        self,
        field: Any,
        chunk_values: int,
        codec: Any,
        *,
        shape: tuple[int, ...] = (),
        fill: Any = None,
    ) -> None:
        self.field = field
        self.count = field.size // chunk_values
        item = field.dtype.itemsize
        self.raw_bytes = chunk_values * item
        self.bytes = self.count * self.raw_bytes
        self.frame_stride = -(-(self.raw_bytes + 40) // 256) * 256
        self.frames = cupy.empty(self.count * self.frame_stride, cupy.uint8)
        self.sizes = cupy.zeros(self.count, cupy.uint64)
        self.statuses = cupy.zeros(self.count, cupy.uint32)
        self.out = cupy.empty_like(field)
        self.params = chunk_params(codec, field.dtype, shape or (chunk_values,), fill)
        stream = cupy.cuda.get_current_stream().ptr
        self.batch = _native.DeviceBatch(
            count=self.count,
            raw_bytes=self.raw_bytes,
            raw=field.data.ptr,
            raw_stride=self.raw_bytes,
            frames=self.frames.data.ptr,
            frame_stride=self.frame_stride,
            frame_bytes=self.sizes.data.ptr,
            stream=stream,
        )
        self._reserve(_native.device_encode_workspace(self.params, self.batch))
        self.encode()
        header = self.frames[:64].get().tobytes()
        self.info = _native.inspect_header(header, int(self.sizes[0]))
        needed = _native.device_decode_workspace(self.info, self.batch)
        self._reserve(max(needed, self.workspace.nbytes))
        self.decode_batch = dataclasses.replace(self.batch, raw=self.out.data.ptr)

    def _reserve(self, size: int) -> None:
        self.workspace = cupy.empty(size, cupy.uint8)
        self.batch = dataclasses.replace(
            self.batch, workspace=self.workspace.data.ptr, workspace_bytes=size
        )

    def encode(self) -> None:
        """Start to encode all chunks."""
        _native.device_encode(self.params, self.batch)

    def decode(self, first: int = 0, values: int | None = None) -> None:
        """Start to decode all chunks, or a range of the values of each."""
        count = self.raw_bytes // self.field.dtype.itemsize if values is None else values
        _native.device_decode(self.info, self.decode_batch, first, count, self.statuses.data.ptr)

    def check(self, bound: float) -> dict[str, float]:
        """Return ratio and largest error, after checking that all values keep the bound.

        Chunks that the kernels leave to the host are only counted.
        """
        self.out.fill(0)
        self.decode()
        done = (self.sizes != 0) & (self.statuses == 0)
        left = self.count - int(done.sum())
        assert left < self.count, self.statuses
        before, after = (v.reshape(self.count, -1)[done] for v in (self.field, self.out))
        errors = cupy.abs(before.astype("f8") - after.astype("f8"))
        errors[before == after] = 0  # infinities
        errors[(before != before) & (after != after)] = 0  # noqa: PLR0124  # NaN
        error = float(errors.max())
        assert error <= bound, (error, bound)
        ratio = before.nbytes / int(self.sizes[done].sum())
        return {"ratio": ratio, "error_of_bound": error / (bound or 1), "left_to_host": left}


def measure(field: Any, chunk_values: int, name: str, bound: float) -> dict[str, Any]:
    """Measure one codec on chunks of one size."""
    batch = Batch(field, chunk_values, CODECS[name](absolute=bound))
    quality = batch.check(bound)
    return {
        "codec": name,
        "chunk_bytes": batch.raw_bytes,
        "chunks": batch.count,
        **quality,
        "encode": speed(batch.bytes, event_times(batch.encode)),
        "decode": speed(batch.bytes, event_times(batch.decode)),
        "encode_graph": speed(batch.bytes, event_times(graph_of(batch.encode))),
        "decode_graph": speed(batch.bytes, event_times(graph_of(batch.decode))),
    }


def real_data(cube: Any, span: float, *, quick: bool) -> Iterator[dict[str, Any]]:
    """Measure data other than a clean field of float32: 256 chunks of 1 MiB in one call."""
    count = 256
    clean = in_chunks(cube)[:count]
    smooth = in_chunks(grf(cube.shape, 3.0, seed=1))[:count]
    is_filled = smooth > float(cupy.quantile(smooth[::4], 0.61))
    del smooth
    rng = cupy.random.default_rng(2)
    some_nan = cupy.where(rng.random(clean.shape, "f4") < 1e-4, cupy.float32("nan"), clean)
    filled = cupy.where(is_filled, cupy.float32(1e20), clean)
    noise = rng.standard_normal(clean.shape, "f4")
    counts = cupy.clip(1000 + 200 * clean + 30 * noise, 0, 65535).astype("u2")
    counts = counts.reshape(-1)[: count << 19].reshape(count, -1)  # 512 x 1024 in each
    fields = {
        "clean": (clean, CUBE, None),
        "one NaN in 10,000": (some_nan, CUBE, None),
        "39 % fill values": (filled, CUBE, 1e20),
        "float64": (clean[: count // 2].astype("f8"), CUBE, None),
        "uint16 with noise": (counts, (512, 1024), None),
    }
    codecs = {**CODECS, "interp": h5lossy.Interp}
    cases = [("interp", "clean", bound) for bound in ([1e-3] if quick else [1e-2, 1e-3, 1e-4])]
    names = ["pfpl", "interp"] if quick else [*codecs]
    cases += [
        (codec, data, 1e-3)
        for data in ("one NaN in 10,000", "39 % fill values", "float64")
        for codec in names
        if codec != "cuszp2-plain"
    ]
    cases += [
        (codec, "uint16 with noise", bound) for codec in ("pfpl", "interp") for bound in (0, 2)
    ]
    for name, data, bound in cases:
        field, shape, fill = fields[data]
        absolute = bound if data.startswith("uint") else bound * span
        codec = codecs[name](**({"absolute": absolute} if bound else {"lossless": True}))
        batch = Batch(field.reshape(-1), field.shape[1], codec, shape=shape, fill=fill)
        yield {
            "data": data,
            "codec": name,
            "bound": bound,
            "chunk_bytes": batch.raw_bytes,
            "chunks": batch.count,
            **batch.check(absolute),
            "encode": speed(batch.bytes, event_times(batch.encode, 7)),
            "decode": speed(batch.bytes, event_times(batch.decode)),
        }


def in_chunks(cube: Any) -> Any:
    """Return a row of values for each chunk of `CUBE`."""
    parts = [part for n, c in zip(cube.shape, CUBE, strict=True) for part in (n // c, c)]
    rows = cube.reshape(parts).transpose(0, 2, 4, 1, 3, 5)
    return cupy.ascontiguousarray(rows).reshape(-1, int(np.prod(CUBE)))


def measure_auto(field: Any, chunk_values: int, bound: float) -> dict[str, Any]:
    """Measure encoding that picks each chunk's codec; decoding is that of the picked codecs."""
    batch = Batch(field, chunk_values, h5lossy.Auto(absolute=bound))
    return {
        "codec": "auto",
        "chunk_bytes": batch.raw_bytes,
        "chunks": batch.count,
        "ratio": batch.bytes / int(batch.sizes.sum()),
        "encode": speed(batch.bytes, event_times(batch.encode)),
    }


def random_access(field: Any, name: str, bound: float) -> dict[str, Any]:
    """Time one range of 4096 values, from the call until the host sees its end."""
    batch = Batch(field, field.size, CODECS[name](absolute=bound))
    stream = cupy.cuda.get_current_stream()
    empty = cupy.RawKernel('extern "C" __global__ void nothing() {}', "nothing")
    times: dict[str, list[float]] = {"range": [], "empty_launch": []}
    rng = np.random.default_rng(0)
    for _ in range(200):
        first = int(rng.integers(field.size // 4096)) * 4096
        stream.synchronize()
        begin = time.perf_counter()
        batch.decode(first, 4096)
        stream.synchronize()
        times["range"].append(time.perf_counter() - begin)
        begin = time.perf_counter()
        empty((1,), (1,), ())
        stream.synchronize()
        times["empty_launch"].append(time.perf_counter() - begin)
    return {
        "codec": name,
        "chunk_bytes": batch.raw_bytes,
        **{f"{key}_us": 1e6 * statistics.median(value[20:]) for key, value in times.items()},
    }


def wall_time(run: Callable[[], object], runs: int = 7) -> float:
    """Return the median of wall-clock seconds, after a warm-up."""
    seconds = []
    for _ in range(runs + 1):
        begin = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds[1:])


def files(field: Any, name: str, bound: float, folder: Path) -> dict[str, Any]:
    """Time whole datasets: from the GPU to a file and back, beside h5py and a plain file."""
    path, plain = folder / "h5lossy-gpu.h5", folder / "h5lossy-gpu.bin"
    cube = field.reshape(512, 512, 512)
    codec = CODECS[name](absolute=bound)
    host = cube.get()

    def fresh() -> Any:
        file = h5py.File(path, "w", libver="latest")
        return file, file.create_dataset(
            "a", cube.shape, "f4", chunks=(4, 256, 256), compression=codec
        )

    def write_gpu() -> None:
        file, dataset = fresh()
        h5lossy.write(dataset, cube)
        file.close()

    def write_h5py() -> None:
        file, dataset = fresh()
        dataset[...] = cube.get()
        file.close()

    out = cupy.empty_like(cube)

    def read_gpu() -> None:
        with h5py.File(path) as file:
            h5lossy.read(file["a"], out=out)
        cupy.cuda.get_current_stream().synchronize()

    def read_h5py() -> None:
        with h5py.File(path) as file:
            out.set(file["a"][...])
        cupy.cuda.get_current_stream().synchronize()

    times = {"write_h5py": wall_time(write_h5py, 1), "write_gpu": wall_time(write_gpu)}
    blob = bytes(path.stat().st_size)
    times["write_plain"] = wall_time(lambda: plain.write_bytes(blob))
    times["read_plain"] = wall_time(plain.read_bytes)
    times["read_gpu"] = wall_time(read_gpu)
    assert float(np.abs(out.get() - host).max()) <= bound * (1 + 1e-6)
    times["read_h5py"] = wall_time(read_h5py, 1)
    ratio = host.nbytes / len(blob)
    path.unlink()
    plain.unlink()
    return {
        "codec": name,
        "ratio": ratio,
        "chunk_bytes": 4 * 256 * 256 * 4,
        **{f"{key}_gb_per_s": host.nbytes / 1e9 / value for key, value in times.items()},
    }


def main() -> None:
    """Measure, print a table, and write the numbers as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--field", type=Path, help="a .npy file in place of the field that is made")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--commit", default="unknown", help="of the library, for the record")
    arguments = parser.parse_args()
    field = cupy.asarray(np.load(arguments.field)) if arguments.field else grf((512, 512, 512))
    field = field.ravel()
    span = float(field.max() - field.min())
    copy = copy_speed(field)
    device = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    print(f"{device}: device copy {copy['gb_per_s']:.0f} GB/s one way", flush=True)
    results: dict[str, Any] = {
        "commit": arguments.commit,
        "device": device,
        "python": platform.python_version(),
        "cupy": cupy.__version__,
        "driver": cupy.cuda.runtime.driverGetVersion(),
        "field_bytes": field.nbytes,
        "copy": copy,
        "kernels": [],
        "auto": [],
        "data": [],
        "random_access": [],
        "files": [],
    }
    bounds = [1e-3] if arguments.quick else [1e-2, 1e-3, 1e-4]
    sizes = (
        [field.nbytes, MIB]
        if arguments.quick
        else [field.nbytes, 4 * MIB, MIB, MIB // 4, MIB // 16]
    )
    for relative in bounds:
        for name in CODECS:
            for size in sizes:
                # A batch is half the field, as one with 1 MiB chunks is: 256 of them.
                part = field if size == field.nbytes else field[: field.size // 2]
                chunk = min(size, part.nbytes) // field.dtype.itemsize
                row = {"bound": relative, **measure(part, chunk, name, relative * span)}
                results["kernels"].append(row)
                encode, decode = (
                    f"{way['gb_per_s']:6.0f} ({way['gb_per_s_min']:.0f}-{way['gb_per_s_max']:.0f})"
                    for way in (row[way] for way in WAYS)
                )
                chunks = f"{row['chunks']:5} x {row['chunk_bytes'] / MIB:8.3f} MiB"
                ratio = f"ratio {row['ratio']:7.2f}"
                graphs = " ".join(f"{row[f'{way}_graph']['gb_per_s']:.0f}" for way in WAYS)
                print(
                    f"{name:15} {relative:g} {chunks}  {ratio}  encode {encode}  decode {decode}"
                    f"  graphs {graphs}",
                    flush=True,
                )
    for size in (MIB,) if arguments.quick else (field.nbytes, MIB, MIB // 16):
        part = field if size == field.nbytes else field[: field.size // 2]
        row = measure_auto(part, size // field.dtype.itemsize, 1e-3 * span)
        results["auto"].append(row)
        line = f"ratio {row['ratio']:.2f}, encode {row['encode']['gb_per_s']:.0f}"
        print(f"auto {row['chunks']} x {row['chunk_bytes'] / MIB:.3f} MiB  {line}", flush=True)
    if field.size == 512**3:
        for row in real_data(field.reshape(512, 512, 512), span, quick=arguments.quick):
            results["data"].append(row)
            ways = ", ".join(f"{way} {row[way]['gb_per_s']:.0f}" for way in WAYS)
            left = f", {row['left_to_host']} left to the host"
            print(
                f"{row['codec']:15} {row['data']} {row['bound']:g} ratio {row['ratio']:.2f}: "
                f"{ways}{left if row['left_to_host'] else ''}",
                flush=True,
            )
    for name in CODECS:
        row = random_access(field[: MIB // 4], name, 1e-3 * span)
        results["random_access"].append(row)
        line = f"{row['range_us']:.1f} us, empty launch {row['empty_launch_us']:.1f} us"
        print(f"{name:15} 4096 values: {line}", flush=True)
    for name in ["pfpl"] if arguments.quick else CODECS:
        if field.size != 512**3:
            continue
        row = files(field, name, 1e-3 * span, Path("/dev/shm"))  # noqa: S108
        results["files"].append(row)
        rounded = {key: round(v, 2) if isinstance(v, float) else v for key, v in row.items()}
        print(rounded, flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    with cupy.cuda.Stream(non_blocking=True):  # the default one cannot be captured
        sys.exit(main())

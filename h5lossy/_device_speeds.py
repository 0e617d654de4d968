# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Speeds at which the CPU and the GPU process chunks: from the library's table, and measured here.

A process has one device and one backend, so each is measured in a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from h5lossy import _native
from h5lossy._codecs import CODECS
from h5lossy._frames import decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable

_CHUNK_BYTES = 1 << 20
_ROUNDS = 15

#: GB/s by codec and direction, "encode" or "decode".
Speeds = dict[str, dict[str, float]]


def expected_speedups() -> dict[tuple[str, str], float]:
    """Return how many times as fast as this CPU a GPU is by the library's table, where it says."""
    speedups = {
        (cls.codec_name, direction): _native.gpu_speedup(number, decode=direction == "decode")
        for number, cls in CODECS.items()
        for direction in ("encode", "decode")
    }
    return {key: speedup for key, speedup in speedups.items() if speedup > 0}


def measure(device: str, backend: str | None = None) -> Speeds:
    """Return the speeds of "cpu" or "gpu", with a backend or the best, from a new process."""
    environment = {**os.environ, "H5LOSSY_DEVICE": device}
    if backend is not None:
        environment["H5LOSSY_BACKEND"] = backend
    command = [sys.executable, "-P", "-m", "h5lossy._device_speeds"]
    done = subprocess.run(  # noqa: S603
        command, env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    speeds: Speeds = json.loads(done.stdout)
    return speeds


def _gb_per_s(work: Callable[[], object]) -> float:
    """Return the median speed of some work on a chunk."""
    times = []
    for _ in range(_ROUNDS):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return _CHUNK_BYTES / 1e9 / float(np.median(times))


def _measure_here() -> Speeds:
    """Return the speeds of the device of this process."""
    noise = np.random.default_rng(46412).normal(0, 1e-2, _CHUNK_BYTES // 4)
    chunk = (np.sin(np.linspace(0, 60, noise.size)) + noise).astype(np.float32)
    speeds: Speeds = {}
    for cls in CODECS.values():
        codec = cls(absolute=1e-3)
        params = codec.params()
        if not all(_native.has_kernels(params, decode=way) for way in (False, True)):
            continue
        frame = encode(chunk, codec)
        speeds[cls.codec_name] = {
            "encode": _gb_per_s(partial(encode, chunk, codec)),
            "decode": _gb_per_s(partial(decode, frame)),
        }
    return speeds


if __name__ == "__main__":
    print(json.dumps(_measure_here()))  # noqa: T201

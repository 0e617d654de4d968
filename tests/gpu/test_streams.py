# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Calls for data on a GPU go to the caller's stream, wait for nobody, and can be captured."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import gpu_data as data
import h5lossy
from matrix import BOUNDS, KERNEL_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable

cupy: Any = pytest.importorskip("cupy")

from device_batches import Batch  # noqa: E402  # needs CuPy

CHUNKS, VALUES = 5, 70_001


def chunks_of(seed: int, dtype: str = "f4") -> np.ndarray[Any, Any]:
    return np.stack([data.make("rough", (VALUES,), dtype, 10 * seed + i) for i in range(CHUNKS)])


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("setting", KERNEL_SETTINGS)
def test_a_captured_graph_does_its_work_again(setting: str, bound: str, dtype: str) -> None:
    codec = KERNEL_SETTINGS[setting](**BOUNDS[bound])
    check_captured_graph(codec, dtype, lambda seed: chunks_of(seed, dtype))


@pytest.mark.parametrize("dtype", ["u1", "u2", "i4", "i8"])
@pytest.mark.parametrize("bound", [{"lossless": True}, {"absolute": 3}, {"range_relative": 1e-2}])
@pytest.mark.parametrize("codec", [h5lossy.PFPL, h5lossy.Interp])
def test_a_captured_graph_of_integers_does_its_work_again(
    codec: Any, bound: dict[str, Any], dtype: str
) -> None:
    def counts(seed: int) -> np.ndarray[Any, Any]:
        rng = np.random.default_rng(seed)
        # One chunk has numbers that are far from each other, which other kernels encode.
        far = np.array([[1], [1], [1], [1], [2000]]) if np.dtype(dtype).itemsize > 2 else 1
        waves = 130 + 60 * np.sin(np.arange(VALUES) / (50.0 + seed))
        return ((waves + rng.normal(0, 6, (CHUNKS, VALUES))) * far).astype(dtype)

    check_captured_graph(codec(**bound), dtype, counts)


def check_captured_graph(codec: Any, dtype: str, make: Callable[[int], Any]) -> None:
    """Capture the encoding and decoding of chunks, and repeat it with others."""
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        batch = Batch(codec, CHUNKS, VALUES, dtype, stream.ptr)
        first = make(0)
        batch.raw.set(first)
        batch.encode()  # loads the kernels
        like = batch.frames[0, : int(batch.sizes[0])].get().tobytes()
        batch.decode(like)
        stream.synchronize()
        batch.check(first)
        batch.check_decoded(like)
        # The strictest mode: what allocates or waits, anywhere in the process, ends the capture.
        stream.begin_capture(0)
        batch.encode()
        batch.decode(like)
        graph = stream.end_capture()
        for seed in (1, 2):
            chunks = make(seed)
            batch.raw.set(chunks)
            batch.out.fill(0)
            batch.statuses.fill(7)
            graph.launch(stream)
            stream.synchronize()
            batch.check(chunks)
            batch.check_decoded(like)


def test_nobody_waits() -> None:
    slow = cupy.RawKernel(data.SLOW, "slow")
    chunks = chunks_of(3)
    for setting in ("pfpl", "auto-speed"):
        codec = KERNEL_SETTINGS[setting](absolute=1e-3)
        for stream in (
            cupy.cuda.Stream(non_blocking=True),
            cupy.cuda.Stream(),
            cupy.cuda.Stream.null,
        ):
            with stream:
                batch = Batch(codec, CHUNKS, VALUES, "f4", stream.ptr)
                batch.raw.fill(0)
                batch.encode()
                source = cupy.asarray(chunks)
                stream.synchronize()
                slow((1,), (1,), (np.int64(400_000_000),))
                batch.raw[...] = source  # after the slow one, before the encoder
                batch.encode()
                end = cupy.cuda.Event(disable_timing=True)
                end.record()
                assert not end.done, "the call waited"
                end.synchronize()
                batch.check(chunks)


def test_streams_at_the_same_time() -> None:
    def work(seed: int) -> None:
        cupy.cuda.Device(0).use()
        name = list(KERNEL_SETTINGS)[seed % len(KERNEL_SETTINGS)]
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            batch = Batch(KERNEL_SETTINGS[name](absolute=1e-3), CHUNKS, VALUES, "f4", stream.ptr)
            for again in range(3):
                chunks = chunks_of(seed + 100 * again)
                batch.raw.set(chunks)
                batch.encode()
                stream.synchronize()
                batch.check(chunks)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(16)))

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Broken frames on a GPU raise what they raise on the host, and never harm the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import gpu_data as data
import h5lossy
from matrix import DECODED_SETTINGS, KERNEL_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.mark.parametrize("kind", ["rough", "special", "random_bits"])
@pytest.mark.parametrize("setting", DECODED_SETTINGS)
def test_damage(setting: str, kind: str) -> None:
    cupy = pytest.importorskip("cupy")
    rng = np.random.default_rng(5)
    codec = DECODED_SETTINGS[setting](absolute=1e-3, checksum=False)
    values = data.make(kind, (20, 30, 40), "f4")
    frame = h5lossy.encode(values, codec)
    data.check_damage(frame, rng)
    assert h5lossy.decode(cupy.asarray(np.frombuffer(frame, np.uint8))).get().tobytes() == (
        h5lossy.decode(frame).tobytes()
    )


def damaged(frame: bytes, rng: np.random.Generator) -> Iterator[bytes]:
    """Yield the frame with each bit of its header changed, and damaged in other ways."""
    info = h5lossy.inspect(frame)
    table = range(info.header_bytes, info.header_bytes + 4 * info.tiles)
    payload = range(table.stop, len(frame))
    places = [(byte, bit) for byte in range(info.header_bytes) for bit in range(8)]
    for part in (table, payload):
        if part:
            chosen = rng.integers(part.start, part.stop, 60)
            places += [(int(byte), int(rng.integers(8))) for byte in chosen]
    for byte, bit in places:
        broken = bytearray(frame)
        broken[byte] ^= 1 << bit
        yield bytes(broken)
    for field in range(0, info.header_bytes, 4):
        for value in (0, 0xFFFFFFFF, 1, int(rng.integers(2**32))):
            yield frame[:field] + value.to_bytes(4, "little") + frame[field + 4 :]
    sizes = {0, 1, 3, 4, 39, 40, 41, 51, 52, 63, 64, 65, 4095, 4096, 4097, len(frame) - 1}
    for size in sizes | {table.stop, table.stop - 1, *rng.integers(len(frame), size=20).tolist()}:
        yield frame[: max(0, min(size, len(frame)))]
    for at in (0, 12, info.header_bytes, table.stop, len(frame), *rng.integers(len(frame), size=9)):
        for more in (1, 4, 4096):
            yield frame[:at] + bytes(more) + frame[at:]
    yield frame
    yield b""


def outcome(frame: Any, arguments: dict[str, Any]) -> Any:
    """Return what a frame is decoded to, or the exception's type and text."""
    try:
        values = h5lossy.decode(frame, **arguments)
    except h5lossy.H5LossyError as error:
        return type(error), str(error)
    values = values if isinstance(values, np.ndarray) else values.get()
    return values.shape, values.astype(values.dtype.newbyteorder("=")).tobytes()


@pytest.mark.parametrize("dtype", ["<f4", ">f8"])
@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("setting", DECODED_SETTINGS)
def test_the_gpu_says_what_the_host_says(setting: str, checksum: bool, dtype: str) -> None:
    cupy = pytest.importorskip("cupy")
    rng = np.random.default_rng(11)
    # The first has a tile table of more than 4 KiB where tiles are small, the second is stored.
    shapes: list[tuple[str, tuple[int, ...]]] = [("rough", (40, 60, 50)), ("random_bits", (700,))]
    if dtype == "<f4" and checksum:
        shapes.append(("sparse", (4_300_000,)))
    calls: list[dict[str, Any]] = [
        {},
        {"start": 3, "stop": 40},
        {"start": 5, "stop": 5},
        {"shape": (-1, 7)},
    ]
    for kind, shape in shapes:
        values = data.make(kind, shape, dtype)
        frame = h5lossy.encode(values, DECODED_SETTINGS[setting](absolute=1e-3, checksum=checksum))
        for i, broken in enumerate(damaged(frame, rng)):
            if len(frame) > 1_000_000 and i % 16:
                continue
            on_gpu = cupy.asarray(np.frombuffer(broken, np.uint8))
            arguments = calls[i % len(calls)]
            assert outcome(on_gpu, arguments) == outcome(broken, arguments), (kind, i, arguments)


def test_a_frame_of_no_values() -> None:
    cupy = pytest.importorskip("cupy")
    empty = h5lossy.encode(np.empty(0, "f4"), h5lossy.PFPL(absolute=1e-3))
    full = h5lossy.encode(np.zeros(4096, "f4"), h5lossy.PFPL(absolute=1e-3))
    claims_none = full[:12] + bytes(4) + full[16:]
    for frame in (empty, claims_none, empty + b"x", empty[:-1], empty[:20] + b"x" + empty[21:]):
        on_gpu = cupy.asarray(np.frombuffer(frame, np.uint8))
        for arguments in ({}, {"start": 0, "stop": 0}, {"shape": (0, 3)}):
            assert outcome(on_gpu, arguments) == outcome(frame, arguments)
    with pytest.raises(h5lossy.CorruptFrameError):
        h5lossy.decode(cupy.asarray(np.frombuffer(claims_none, np.uint8)))


@pytest.mark.parametrize("setting", KERNEL_SETTINGS)
def test_statuses_are_set_where_no_values_are_wanted(setting: str) -> None:
    cupy = pytest.importorskip("cupy")
    batches: Any = pytest.importorskip("device_batches")  # needs CuPy
    batch = batches.Batch(KERNEL_SETTINGS[setting](absolute=1e-3), 3, 9001, "f4", 0)
    batch.raw.set(np.stack([data.make("rough", (9001,), "f4")] * 3))
    batch.encode()
    batch.frames[1, 30] ^= 1  # of the bound, which only the checksum covers
    like = batch.frames[0, : int(batch.sizes[0])].get().tobytes()
    batch.decode(like, 0)
    assert batch.statuses.get().tolist() == [0, 2, 0]
    assert not cupy.any(batch.out)

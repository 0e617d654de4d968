# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Encoding the chunks of an array on a GPU.

Chunks are cut out, padded and encoded on the GPU, a batch at a time; only their frames are copied.
While the caller stores the frames of one batch, those of the next one are copied, and the batch
after that is encoded.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from h5lossy import _native
from h5lossy._batched.gpu import GpuChunks

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from h5lossy._arrays import DeviceMemory

#: Packed frames begin at multiples of this.
_ALIGNMENT = 16


class _EncodeSlot:
    """The frames of one batch."""

    def __init__(self, chunks: GpuChunks) -> None:
        self.packed = chunks.empty(chunks.most * chunks.frame_stride)
        self.sizes = chunks.empty(8 * chunks.most)
        self.host_sizes = chunks.library.pinned(8 * chunks.most)
        self.host_frames: Any = np.empty(0, np.uint8)
        self.begins = np.zeros(1, np.int64)
        self.frame_bytes = np.zeros(0, np.int64)
        self.host_made: dict[int, npt.NDArray[np.uint8]] = {}
        self.encoded: Any = None
        self.copied: Any = None

    def frames(self) -> _native.Frames:
        """Return the frames that were copied, and those that the host made."""
        addresses = (self.host_frames.ctypes.data + self.begins[:-1]).astype(np.uintp)
        sizes = self.frame_bytes.astype(np.uintp)
        for k, frame in self.host_made.items():
            addresses[k], sizes[k] = frame.ctypes.data, len(frame)
        return _native.Frames(addresses, sizes, (self.host_frames, self.host_made))


def _encode_on_host(
    work: GpuChunks,
    params: _native.Params,
    batch: _native.DeviceBatch,
    first: int,
    sizes: npt.NDArray[np.int64],
) -> dict[int, npt.NDArray[np.uint8]]:
    """Encode the chunks of a batch whose frames have no size: the GPU left them to the host."""
    left = np.flatnonzero(sizes == 0).tolist()
    if not left:
        return {}
    values = work.empty(len(sizes) * work.chunk_bytes)
    own = dataclasses.replace(batch, count=len(sizes), raw=values.address)
    _native.device_gather(work.array, first, own)
    host = work.library.to_host(values).reshape(len(sizes), -1)
    return {k: np.frombuffer(_native.encode(params, host[k]), np.uint8) for k in left}


def encode(
    memory: DeviceMemory, params: _native.Params, chunks: tuple[int, ...], padding: int
) -> Iterator[_native.Frames]:
    """Yield the frames of all chunks, in C order, a batch at a time; valid until the next one."""
    work = GpuChunks(memory, chunks, (0,) * len(chunks), padding)
    copies = work.library.stream(work.device)
    batches = work.batches()
    slots = [_EncodeSlot(work) for _ in range(min(3, len(batches)))]
    frames = work.empty(work.most * work.frame_stride)
    probe = work.batch(work.most, frames, slots[0].sizes)
    workspace = work.empty(_native.device_encode_workspace(params, probe))

    def start(i: int) -> None:
        """Start to encode a batch."""
        if i >= len(batches):
            return
        slot, (first, count) = slots[i % len(slots)], batches[i]
        batch = work.batch(count, frames, slot.sizes, workspace)
        _native.device_gather(work.array, first, batch)
        _native.device_encode(params, batch)
        _native.device_pack(batch, slot.packed.address)
        work.copy(slot.host_sizes.ctypes.data, slot.sizes.address, 8 * count)
        slot.encoded = work.mark()

    def fetch(i: int) -> None:
        """Start to copy the frames of a batch to the host, once they are encoded."""
        if i >= len(batches):
            return
        slot, (_, count) = slots[i % len(slots)], batches[i]
        slot.encoded.synchronize()
        sizes = slot.host_sizes.view(np.int64)[:count]
        slot.begins = np.zeros(count + 1, np.int64)
        np.cumsum(-(-sizes // _ALIGNMENT) * _ALIGNMENT, out=slot.begins[1:])
        slot.frame_bytes = sizes.copy()
        slot.host_made = _encode_on_host(work, params, probe, batches[i][0], sizes)
        packed_bytes = int(slot.begins[-1])
        if packed_bytes > len(slot.host_frames):
            slot.host_frames = work.library.pinned(packed_bytes + packed_bytes // 4)
        work.copy(slot.host_frames.ctypes.data, slot.packed.address, packed_bytes, copies)
        slot.copied = work.mark(copies)

    try:
        start(0)
        start(1)
        fetch(0)
        for i in range(len(batches)):
            start(i + 2)
            fetch(i + 1)
            slot = slots[i % len(slots)]
            slot.copied.synchronize()
            yield slot.frames()
    finally:  # no copy may still be running when this memory is freed
        work.mark().synchronize()
        work.mark(copies).synchronize()

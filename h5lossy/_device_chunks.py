# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""All chunks of an array on a GPU, to frames and back: the values themselves never leave the GPU.

Chunks are cut out, padded and encoded on the GPU, many at a time; only frames are copied. While the
caller has the frames of one batch, those of the next one are copied, and the one behind it is
encoded.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from h5lossy import _native
from h5lossy._arrays import device_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from h5lossy._arrays import DeviceMemory

#: Values of a batch, in bytes: enough to fill a GPU, and little beside its memory.
_BATCH_BYTES = 64 << 20

_HEADER_BYTES = 64


def is_possible(memory: DeviceMemory, params: _native.Params) -> bool:
    """Return whether an array's chunks can be encoded and decoded here."""
    is_native = memory.dtype.isnative and memory.dtype.itemsize == params.value_bytes
    codec_known = params.codec != 0 or params.bound_kind == _native.BOUND_LOSSLESS
    few_axes = 0 < len(memory.shape) <= _native.MAX_RANK
    return is_native and not params.big_endian and codec_known and few_axes and memory.size > 0


class _Work:
    """What encoding and decoding have in common."""

    def __init__(self, memory: DeviceMemory, chunks: tuple[int, ...], padding: int) -> None:
        self.memory = memory
        self.library: Any = memory.library
        self.device = device_of(memory)
        self.chunk_bytes = math.prod(chunks) * memory.dtype.itemsize
        self.counts = [-(-n // c) for n, c in zip(memory.shape, chunks, strict=True)]
        self.total = math.prod(self.counts)
        self.most = max(1, min(_BATCH_BYTES // self.chunk_bytes, self.total, 4096))
        self.frame_stride = -(-_native.max_encoded_size(self.chunk_bytes) // 256) * 256
        self.array = _native.DeviceArray(
            data=memory.address,
            value_bytes=memory.dtype.itemsize,
            strides=memory.strides,
            shape=memory.shape,
            chunk=chunks,
            padding=padding,
        )
        self.raw = self.empty(self.most * self.chunk_bytes)
        self.stream = self.library.current_stream(self.device)

    def empty(self, size: int) -> DeviceMemory:
        memory: DeviceMemory = self.library.empty((size,), np.uint8, self.device)
        return memory

    def batch(self, count: int, frames: DeviceMemory, sizes: DeviceMemory) -> _native.DeviceBatch:
        return _native.DeviceBatch(
            count=count,
            raw_bytes=self.chunk_bytes,
            raw=self.raw.address,
            raw_stride=self.chunk_bytes,
            frames=frames.address,
            frame_stride=self.frame_stride,
            frame_bytes=sizes.address,
            stream=self.stream,
        )

    def firsts(self) -> list[int]:
        return list(range(0, self.total, self.most))

    def count(self, first: int) -> int:
        return min(self.most, self.total - first)


class _EncodeSlot:
    def __init__(self, work: _Work) -> None:
        self.frames = work.empty(work.most * work.frame_stride)
        self.sizes = work.empty(8 * work.most)
        self.host_sizes = work.library.pinned(8 * work.most)
        self.room: Any = np.empty(0, np.uint8)
        self.count = 0
        self.ends: list[int] = []
        self.encoded: Any = None
        self.copied: Any = None


def encode(
    memory: DeviceMemory, params: _native.Params, chunks: tuple[int, ...], padding: int
) -> Iterator[list[npt.NDArray[np.uint8]]]:
    """Yield the frames of all chunks, in C order, some at a time; valid until the next ones."""
    work = _Work(memory, chunks, padding)
    library = work.library
    copies = library.stream(work.device)
    firsts = work.firsts()
    slots = [_EncodeSlot(work) for _ in range(min(3, len(firsts)))]
    probe = work.batch(work.most, slots[0].frames, slots[0].sizes)
    needed = _native.device_encode_workspace(params, probe)
    workspace = work.empty(needed)

    def start(i: int) -> None:
        if i >= len(firsts):
            return
        slot = slots[i % len(slots)]
        slot.count = work.count(firsts[i])
        batch = dataclasses.replace(
            work.batch(slot.count, slot.frames, slot.sizes),
            workspace=workspace.address,
            workspace_bytes=needed,
        )
        _native.device_gather(work.array, firsts[i], batch)
        _native.device_encode(params, batch)
        library.copy(slot.host_sizes.ctypes.data, slot.sizes.address, 8 * slot.count)
        slot.encoded = library.mark()

    def fetch(i: int) -> None:
        if i >= len(firsts):
            return
        slot = slots[i % len(slots)]
        slot.encoded.synchronize()
        sizes = slot.host_sizes.view(np.uint64)[: slot.count]
        slot.ends = np.cumsum(sizes).tolist()
        if slot.ends[-1] > len(slot.room):
            slot.room = library.pinned(slot.ends[-1] + slot.ends[-1] // 4)
        begin = 0
        for k, end in enumerate(slot.ends):
            source = slot.frames.address + k * work.frame_stride
            library.copy(slot.room.ctypes.data + begin, source, end - begin, copies)
            begin = end
        slot.copied = library.mark(copies)

    start(0)
    start(1)
    fetch(0)
    for i in range(len(firsts)):
        start(i + 2)
        fetch(i + 1)
        slot = slots[i % len(slots)]
        slot.copied.synchronize()
        yield [slot.room[a:b] for a, b in zip([0, *slot.ends], slot.ends, strict=False)]


class _DecodeSlot:
    def __init__(self, work: _Work) -> None:
        self.room = work.library.pinned(work.most * work.frame_stride)
        self.small = work.library.pinned(16 * work.most)  # sizes, then statuses
        self.frames = work.empty(work.most * work.frame_stride)
        self.sizes = work.empty(8 * work.most)
        self.statuses = work.empty(4 * work.most)
        self.first = 0
        self.chunks: list[int] = []
        self.done: Any = None


def decode(
    memory: DeviceMemory,
    chunks: tuple[int, ...],
    read_frame: Callable[[int, npt.NDArray[np.uint8]], Any],
) -> Iterator[tuple[int, list[int]]]:
    """Decode all chunks into an array.

    `read_frame(chunk, room)` returns the frame of chunk number `chunk`, in `room` or elsewhere;
    None where there is none. Yields, after each batch, how many chunks have been tried, and the
    numbers of those that the host has to read.
    """
    work = _Work(memory, chunks, 0)
    firsts = work.firsts()
    slots = [_DecodeSlot(work) for _ in range(min(2, len(firsts)))]
    state = _DecodeState(work)
    for i, first in enumerate(firsts):
        slot = slots[i % len(slots)]
        if slot.done is not None:
            yield firsts[i - len(slots)] + work.most, state.finish(slot)
        state.start(slot, first, work.count(first), read_frame)
    for i in range(max(0, len(firsts) - len(slots)), len(firsts)):
        yield firsts[i] + work.count(firsts[i]), state.finish(slots[i % len(slots)])


class _DecodeState:
    def __init__(self, work: _Work) -> None:
        self._work = work
        self._workspace: Any = None

    def start(
        self,
        slot: _DecodeSlot,
        first: int,
        count: int,
        read_frame: Callable[[int, npt.NDArray[np.uint8]], Any],
    ) -> None:
        work, library = self._work, self._work.library
        info = None
        sizes = slot.small.view(np.uint64)[: work.most]
        for k in range(count):
            room = slot.room[k * work.frame_stride : (k + 1) * work.frame_stride]
            frame = read_frame(first + k, room)
            sizes[k] = 0
            if frame is None or len(frame) > len(room):
                continue
            view = np.frombuffer(frame, np.uint8)
            if view.ctypes.data != room.ctypes.data:
                room[: len(view)] = view
            sizes[k] = len(view)
            library.copy(slot.frames.address + k * work.frame_stride, room.ctypes.data, len(view))
            if info is None or info.codec == 0:
                info = self._info(room, len(view)) or info
        slot.first = first
        slot.chunks = list(range(first, first + count))
        statuses = slot.small[8 * work.most :].view(np.uint32)
        statuses[:] = 2
        if info is not None:
            library.copy(slot.sizes.address, slot.small.ctypes.data, 8 * count)
            batch = work.batch(count, slot.frames, slot.sizes)
            needed = _native.device_decode_workspace(info, batch)
            if self._workspace is None or self._workspace.nbytes < needed:
                self._workspace = work.empty(needed)
            batch = dataclasses.replace(
                batch, workspace=self._workspace.address, workspace_bytes=needed
            )
            values = work.chunk_bytes // work.memory.dtype.itemsize
            _native.device_decode(info, batch, 0, values, slot.statuses.address)
            _native.device_scatter(work.array, first, batch)
            library.copy(statuses.ctypes.data, slot.statuses.address, 4 * count)
        slot.done = library.mark()

    def finish(self, slot: _DecodeSlot) -> list[int]:
        slot.done.synchronize()
        slot.done = None
        statuses = slot.small[8 * self._work.most :].view(np.uint32)
        return [chunk for chunk, status in zip(slot.chunks, statuses, strict=False) if status]

    def _info(self, room: npt.NDArray[np.uint8], size: int) -> _native.FrameFields | None:
        """Return what a frame says, if it is one for this array."""
        work = self._work
        try:
            info = _native.inspect_header(room[: min(size, _HEADER_BYTES)].tobytes(), size)
        except _native.FRAME_ERRORS:
            return None
        is_ours = info.raw_bytes == work.chunk_bytes and not info.big_endian
        return info if is_ours and info.value_bytes == work.memory.dtype.itemsize else None

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The chunks of an array on a GPU, to frames and back: the values themselves never leave the GPU.

Chunks are cut out, padded and encoded on the GPU, many at a time; only frames are copied, those of
a batch at once. While the caller has the frames of one batch, those of the next one are copied, and
the one behind it is encoded.
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

#: A frame's header, at least.
_LEAST_FRAME_BYTES = 40

#: Packed frames begin at multiples of this.
_ALIGNMENT = 16

#: Frames of so many codecs and modes are decoded in one batch; those of more the host decodes.
_MOST_KINDS = 8


def is_possible(memory: DeviceMemory, params: _native.Params | None) -> bool:
    """Return whether an array's chunks can be encoded and decoded here."""
    if params is None:
        return False
    is_native = memory.dtype.isnative and memory.dtype.itemsize == params.value_bytes
    few_axes = 0 < len(memory.shape) <= _native.MAX_RANK
    return is_native and not params.big_endian and few_axes and memory.size > 0


class _Work:
    """What encoding and decoding have in common."""

    def __init__(
        self,
        memory: DeviceMemory,
        chunks: tuple[int, ...],
        start: tuple[int, ...],
        padding: int = 0,
    ) -> None:
        self.memory = memory
        self.library: Any = memory.library
        self.device = device_of(memory)
        self.chunk_bytes = math.prod(chunks) * memory.dtype.itemsize
        counts = (-(-(at + n) // c) for at, n, c in zip(start, memory.shape, chunks, strict=True))
        self.total = math.prod(counts)
        self.most = max(1, min(_BATCH_BYTES // self.chunk_bytes, self.total, 4096))
        self.frame_stride = -(-_native.max_encoded_size(self.chunk_bytes) // 256) * 256
        self.array = _native.DeviceArray(
            data=memory.address,
            value_bytes=memory.dtype.itemsize,
            strides=memory.strides,
            shape=memory.shape,
            chunk=chunks,
            start=start,
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

    def wait(self, other_stream: Any = None) -> None:
        """Wait for all that was started: whoever gets this memory next must find no copies."""
        for stream in (None, other_stream):
            self.library.mark(self.device, stream).synchronize()

    def firsts(self) -> list[int]:
        return list(range(0, self.total, self.most))

    def count(self, first: int) -> int:
        return min(self.most, self.total - first)


class _EncodeSlot:
    def __init__(self, work: _Work) -> None:
        self.packed = work.empty(work.most * work.frame_stride)
        self.sizes = work.empty(8 * work.most)
        self.host_sizes = work.library.pinned(8 * work.most)
        self.room: Any = np.empty(0, np.uint8)
        self.count = 0
        self.begins = np.zeros(1, np.int64)
        self.encoded: Any = None
        self.copied: Any = None

    @property
    def frame_bytes(self) -> npt.NDArray[np.int64]:
        """Size of each frame, once the batch has been encoded."""
        sizes: npt.NDArray[np.int64] = self.host_sizes.view(np.int64)[: self.count]
        return sizes


def encode(
    memory: DeviceMemory, params: _native.Params, chunks: tuple[int, ...], padding: int
) -> Iterator[list[npt.NDArray[np.uint8]]]:
    """Yield the frames of all chunks, in C order, some at a time; valid until the next ones.

    The array begins where a chunk does.
    """
    work = _Work(memory, chunks, (0,) * len(chunks), padding)
    library = work.library
    copies = library.stream(work.device)
    firsts = work.firsts()
    slots = [_EncodeSlot(work) for _ in range(min(3, len(firsts)))]
    unpacked = work.empty(work.most * work.frame_stride)
    probe = work.batch(work.most, unpacked, slots[0].sizes)
    needed = _native.device_encode_workspace(params, probe)
    workspace = work.empty(needed)

    def start(i: int) -> None:
        if i >= len(firsts):
            return
        slot = slots[i % len(slots)]
        slot.count = work.count(firsts[i])
        batch = dataclasses.replace(
            work.batch(slot.count, unpacked, slot.sizes),
            workspace=workspace.address,
            workspace_bytes=needed,
        )
        _native.device_gather(work.array, firsts[i], batch)
        _native.device_encode(params, batch)
        _native.device_pack(batch, slot.packed.address)
        library.copy(work.device, slot.host_sizes.ctypes.data, slot.sizes.address, 8 * slot.count)
        slot.encoded = library.mark(work.device)

    def fetch(i: int) -> None:
        if i >= len(firsts):
            return
        slot = slots[i % len(slots)]
        slot.encoded.synchronize()
        slot.begins = np.zeros(slot.count + 1, np.int64)
        np.cumsum(-(-slot.frame_bytes // _ALIGNMENT) * _ALIGNMENT, out=slot.begins[1:])
        size = int(slot.begins[-1])
        if size > len(slot.room):
            slot.room = library.pinned(size + size // 4)
        library.copy(work.device, slot.room.ctypes.data, slot.packed.address, size, copies)
        slot.copied = library.mark(work.device, copies)

    try:
        start(0)
        start(1)
        fetch(0)
        for i in range(len(firsts)):
            start(i + 2)
            fetch(i + 1)
            slot = slots[i % len(slots)]
            slot.copied.synchronize()
            ends = slot.begins[:-1] + slot.frame_bytes
            begins = slot.begins.tolist()
            yield [slot.room[a:b] for a, b in zip(begins, ends.tolist(), strict=False)]
    finally:
        work.wait(copies)


class _DecodeSlot:
    def __init__(self, work: _Work) -> None:
        self.room = work.library.pinned(work.most * work.frame_stride)
        # Sizes, then statuses: of all frames as frames of one kind, then of the next kind.
        self.small = work.library.pinned((8 + 4 * _MOST_KINDS) * work.most)
        self.frames = work.empty(work.most * work.frame_stride)
        self.sizes = work.empty(8 * work.most)
        self.statuses = work.empty(4 * _MOST_KINDS * work.most)
        self.kinds = 0
        self.chunks: list[int] = []
        self.done: Any = None


def decode(
    memory: DeviceMemory,
    chunks: tuple[int, ...],
    start: tuple[int, ...],
    read_frame: Callable[[int, npt.NDArray[np.uint8]], Any],
) -> Iterator[tuple[int, list[int]]]:
    """Decode all chunks that an array has part of, into the array.

    Its first value lies at `start` in its chunk. `read_frame(chunk, room)` returns the frame of
    chunk number `chunk`, in C order, in `room` or elsewhere; None where there is none. Yields,
    after each batch, how many chunks have been tried, and the numbers of those that the host has to
    read.
    """
    work = _Work(memory, chunks, start)
    firsts = work.firsts()
    slots = [_DecodeSlot(work) for _ in range(min(2, len(firsts)))]
    state = _DecodeState(work)
    try:
        for i, first in enumerate(firsts):
            slot = slots[i % len(slots)]
            if slot.done is not None:
                yield firsts[i - len(slots)] + work.most, state.finish(slot)
            state.start(slot, first, work.count(first), read_frame)
        for i in range(max(0, len(firsts) - len(slots)), len(firsts)):
            yield firsts[i] + work.count(firsts[i]), state.finish(slots[i % len(slots)])
    finally:
        work.wait()


class _DecodeState:
    def __init__(self, work: _Work) -> None:
        self._work = work
        self._workspace: Any = None
        self._values = _wanted_values(work.array)

    def start(
        self,
        slot: _DecodeSlot,
        first: int,
        count: int,
        read_frame: Callable[[int, npt.NDArray[np.uint8]], Any],
    ) -> None:
        work, library = self._work, self._work.library
        sizes = slot.small.view(np.int64)[:count]
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
            library.copy(
                work.device,
                slot.frames.address + k * work.frame_stride,
                room.ctypes.data,
                len(view),
            )
        slot.chunks = list(range(first, first + count))
        kinds = self._kinds(slot, sizes)
        slot.kinds = len(kinds)
        if kinds:
            library.copy(work.device, slot.sizes.address, slot.small.ctypes.data, 8 * count)
            begin, values = self._values
            for i, info in enumerate(kinds):
                batch = work.batch(count, slot.frames, slot.sizes)
                batch = dataclasses.replace(
                    batch, raw=batch.raw + begin * work.memory.dtype.itemsize
                )
                needed = _native.device_decode_workspace(info, batch)
                if self._workspace is None or self._workspace.nbytes < needed:
                    self._workspace = work.empty(needed)
                batch = dataclasses.replace(
                    batch, workspace=self._workspace.address, workspace_bytes=needed
                )
                statuses = slot.statuses.address + 4 * i * work.most
                _native.device_decode(info, batch, begin, values, statuses)
            _native.device_scatter(work.array, first, work.batch(count, slot.frames, slot.sizes))
            library.copy(
                work.device,
                slot.small.ctypes.data + 8 * work.most,
                slot.statuses.address,
                4 * len(kinds) * work.most,
            )
        slot.done = library.mark(work.device)

    def finish(self, slot: _DecodeSlot) -> list[int]:
        slot.done.synchronize()
        slot.done = None
        most = self._work.most
        statuses = slot.small[8 * most :].view(np.uint32)[: slot.kinds * most]
        # A frame of another kind than was asked for is untouched, and may be fine as another.
        failed = statuses.reshape(slot.kinds, most).all(axis=0)
        return [chunk for chunk, bad in zip(slot.chunks, failed.tolist(), strict=False) if bad]

    def _kinds(self, slot: _DecodeSlot, sizes: npt.NDArray[np.int64]) -> list[_native.FrameFields]:
        """Return what the frames of a batch are, with one of each kind."""
        rooms = slot.room.reshape(self._work.most, self._work.frame_stride)[: len(sizes)]
        codec, bound, mode = (rooms[:, i].astype(np.int64) for i in (6, 8, 9))
        bound[bound == _native.BOUND_RANGE_RELATIVE] = _native.BOUND_ABSOLUTE  # decoded alike
        key = codec << 16 | bound << 8 | mode
        # Stored frames, and lossless ones, are fine as any kind.
        key[(codec == 0) | (bound == _native.BOUND_LOSSLESS)] = -1
        key[sizes < _LEAST_FRAME_BYTES] = -2
        found, where = np.unique(key, return_index=True)
        has_others = bool(found[-1] >= 0)
        infos = [
            self._info(rooms[at], int(sizes[at]))
            for one, at in zip(found.tolist(), where.tolist(), strict=True)
            if one >= 0 or (one == -1 and not has_others)
        ]
        return [info for info in infos if info is not None][:_MOST_KINDS]

    def _info(self, room: npt.NDArray[np.uint8], size: int) -> _native.FrameFields | None:
        """Return what a frame says, if it is one for this array."""
        work = self._work
        try:
            info = _native.inspect_header(room[: min(size, _HEADER_BYTES)].tobytes(), size)
        except _native.FRAME_ERRORS:
            return None
        is_ours = info.raw_bytes == work.chunk_bytes and not info.big_endian
        return info if is_ours and info.value_bytes == work.memory.dtype.itemsize else None


def _wanted_values(array: _native.DeviceArray) -> tuple[int, int]:
    """Return the values that are wanted of any chunk: their first, and how many to the last."""
    first, last = 0, 0
    for at, extent, chunk in zip(array.start, array.shape, array.chunk, strict=True):
        is_one = at + extent <= chunk  # one chunk along this axis
        first = first * chunk + (at if is_one else 0)
        last = last * chunk + (at + extent if is_one else chunk) - 1
    return first, last + 1 - first

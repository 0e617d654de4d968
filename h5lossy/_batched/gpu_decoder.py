# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Decoding frames into an array on a GPU, to which only the frames are copied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from h5lossy import _native
from h5lossy._batched.gpu import GpuChunks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from h5lossy._arrays import DeviceMemory

_HEADER_BYTES = 80

#: Frames whose first bytes agree up to this number are taken to be of one kind; the host decodes a
#: frame that turns out to be of another kind.
_ALIKE_BYTES = 16

#: Buffer size for frames that are copied to the GPU at once, each as if it were as long as the
#: longest of them.
_COPIED_BYTES = 8 << 20

#: Most combinations of codec, bound and mode that are decoded in one batch; the host decodes the
#: frames of any others.
_MOST_KINDS = 8


class _DecodeSlot:
    """The frames of one batch."""

    def __init__(self, chunks: GpuChunks) -> None:
        self.host_frames = chunks.library.pinned(chunks.most * chunks.frame_stride)
        # Sizes, then statuses: of all frames as frames of one kind, then of the next kind.
        self.host_small = chunks.library.pinned((8 + 4 * _MOST_KINDS) * chunks.most)
        self.frames = chunks.empty(chunks.most * chunks.frame_stride)
        self.sizes = chunks.empty(8 * chunks.most)
        self.statuses = chunks.empty(4 * _MOST_KINDS * chunks.most)
        self.kinds = self.first = self.count = 0
        self.done: Any = None


def decode(
    memory: DeviceMemory,
    chunks: tuple[int, ...],
    start: tuple[int, ...],
    read: Callable[[int, npt.NDArray[np.uint8]], npt.NDArray[np.int64]],
) -> Iterator[tuple[int, list[int]]]:
    """Decode all chunks that an array intersects into the array; `start` is in the first chunk.

    `read(chunk, buffers)` reads the frames of this chunk and the next ones to the beginnings of the
    buffers, one to each, and returns their sizes: 0 for those that it leaves out. After each batch,
    yields how many chunks have been tried, and the numbers of those that were not decoded.
    """
    work = GpuChunks(memory, chunks, start)
    batches = work.batches()
    decoder = _Decoder(work, read)
    slots = [_DecodeSlot(work) for _ in range(min(2, len(batches)))]
    try:
        for i, (first, count) in enumerate(batches):
            slot = slots[i % len(slots)]
            if slot.done is not None:
                yield slot.first + slot.count, decoder.finish(slot)
            decoder.start(slot, first, count)
        for i in range(max(0, len(batches) - len(slots)), len(batches)):
            slot = slots[i % len(slots)]
            yield slot.first + slot.count, decoder.finish(slot)
    finally:
        work.mark().synchronize()


class _Decoder:
    """Decodes batches: `start` begins one, and `finish` waits for it after the next `start`."""

    def __init__(
        self,
        chunks: GpuChunks,
        read: Callable[[int, npt.NDArray[np.uint8]], npt.NDArray[np.int64]],
    ) -> None:
        self._chunks = chunks
        self._read_frames = read
        self._workspace: DeviceMemory | None = None
        self._wanted = _wanted_values(chunks.array)

    def start(self, slot: _DecodeSlot, first: int, count: int) -> None:
        """Read the frames of a batch, and start to decode them."""
        work = self._chunks
        slot.first, slot.count = first, count
        buffers = slot.host_frames.reshape(work.most, work.frame_stride)[:count]
        sizes = slot.host_small.view(np.int64)[:count]
        sizes[:] = self._read_frames(first, buffers)
        at_once = max(1, _COPIED_BYTES // work.frame_stride)
        for begin in range(0, count, at_once):
            offset = begin * work.frame_stride
            longest = int(sizes[begin : begin + at_once].max())
            if longest:
                source = slot.host_frames.ctypes.data + offset
                to = slot.frames.address + offset
                work.copy_frames(to, source, min(at_once, count - begin), longest)
        kinds = self._kinds(buffers, sizes)
        slot.kinds = len(kinds)
        if kinds:
            work.copy(slot.sizes.address, slot.host_small.ctypes.data, 8 * count)
            for i, info in enumerate(kinds):
                self._decode(info, slot, slot.statuses.address + 4 * i * work.most)
            batch = work.batch(count, slot.frames, slot.sizes)
            _native.device_scatter(work.array, first, batch)
            statuses = slot.host_small.ctypes.data + 8 * work.most
            work.copy(statuses, slot.statuses.address, 4 * len(kinds) * work.most)
        slot.done = work.mark()

    def finish(self, slot: _DecodeSlot) -> list[int]:
        """Wait for a batch; return the chunks that were not decoded."""
        slot.done.synchronize()
        slot.done = None
        most = self._chunks.most
        statuses = slot.host_small[8 * most :].view(np.uint32)[: slot.kinds * most]
        # A frame of another kind than the requested one is untouched, and may be intact.
        failed = statuses.reshape(slot.kinds, most)[:, : slot.count].all(axis=0)
        return [slot.first + int(k) for k in np.flatnonzero(failed)]

    def _decode(self, info: _native.FrameFields, slot: _DecodeSlot, statuses: int) -> None:
        """Start to decode the frames of a kind."""
        work, (begin, values) = self._chunks, self._wanted
        batch = work.batch(slot.count, slot.frames, slot.sizes, self._workspace, begin)
        needed = _native.device_decode_workspace(info, batch)
        if batch.workspace_bytes < needed:
            self._workspace = work.empty(needed)
            batch = work.batch(slot.count, slot.frames, slot.sizes, self._workspace, begin)
        _native.device_decode(info, batch, begin, values, statuses)

    def _kinds(
        self, buffers: npt.NDArray[np.uint8], sizes: npt.NDArray[np.int64]
    ) -> list[_native.FrameFields]:
        """Return the header of one frame of each kind."""
        kinds: dict[tuple[int, int, int] | None, _native.FrameFields] = {}
        read = np.flatnonzero(sizes)
        heads = np.ascontiguousarray(buffers[read, :_ALIKE_BYTES]).view(f"V{_ALIKE_BYTES}")
        # Look at only one of several frames that begin alike.
        _, which = np.unique(heads, return_index=True)
        for k in read[np.sort(which)].tolist():
            info = self._info(buffers[k], int(sizes[k]))
            how = 0 if info is None else _native.has_kernels(info, decode=True)
            if info is None or not how:
                continue
            bound = info.bound_kind
            if bound == _native.BOUND_RANGE_RELATIVE:
                bound = _native.BOUND_ABSOLUTE  # decoded alike
            # Stored frames, and lossless frames of floats, are decoded like any kind; all frames of
            # integers are one kind.
            has_integers = info.dtype.kind in "iu" or info.dtype.itemsize == 2
            is_any = info.codec == 0 or (bound == _native.BOUND_LOSSLESS and not has_integers)
            if has_integers:
                bound = _native.BOUND_LOSSLESS
            mode = info.mode if how == 1 else 0  # otherwise all modes are decoded together
            kinds.setdefault(None if is_any else (info.codec, bound, mode), info)
            if len(kinds) > _MOST_KINDS:
                break
        if len(kinds) > 1:
            kinds.pop(None, None)
        return list(kinds.values())[:_MOST_KINDS]

    def _info(self, buffer: npt.NDArray[np.uint8], size: int) -> _native.FrameFields | None:
        """Return the header of a frame, if it is one for this array."""
        work = self._chunks
        try:
            info = _native.inspect_header(buffer[: min(size, _HEADER_BYTES)].tobytes(), size)
        except _native.FRAME_ERRORS:
            return None
        is_ours = info.raw_bytes == work.chunk_bytes and info.dtype == work.dtype
        return info if is_ours else None


def _wanted_values(array: _native.DeviceArray) -> tuple[int, int]:
    """Return the first value that any chunk needs, and how many there are to the last."""
    first, last = 0, 0
    for at, extent, chunk in zip(array.start, array.shape, array.chunk, strict=True):
        is_one = at + extent <= chunk  # one chunk along this axis
        first = first * chunk + (at if is_one else 0)
        last = last * chunk + (at + extent if is_one else chunk) - 1
    return first, last + 1 - first

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The chunks of an array on a GPU, whose values never leave the GPU."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from h5lossy import _native
from h5lossy._arrays import DeviceMemory, device_of
from h5lossy._values import real_dtype

#: Values of a batch, in bytes: enough to fill a GPU, and little of its memory.
_BATCH_BYTES = 64 << 20


def is_possible(memory: DeviceMemory, params: _native.Params | None, *, decode: bool) -> bool:
    """Return whether the chunks of an array can be encoded, or decoded, here."""
    if params is None or not params.value_bytes or params.dtype != memory.dtype:
        return False
    if not memory.dtype.isnative or not _native.has_kernels(params, decode=decode):
        return False
    rank = len(memory.shape) + (memory.dtype.kind == "c")
    return 0 < rank <= _native.MAX_RANK and memory.size > 0


def _as_reals(memory: DeviceMemory) -> DeviceMemory:
    """Describe complex numbers as pairs of reals."""
    real = real_dtype(memory.dtype)
    return dataclasses.replace(
        memory,
        shape=(*memory.shape, 2),
        strides=(*memory.strides, real.itemsize),
        dtype=real,
    )


class GpuChunks:
    """The chunks of an array on a GPU, and a buffer for the values of a batch."""

    def __init__(
        self,
        memory: DeviceMemory,
        chunks: tuple[int, ...],
        start: tuple[int, ...],
        padding: int = 0,
    ) -> None:
        self.library: Any = memory.library
        self.device = device_of(memory)
        self.dtype = memory.dtype
        if memory.dtype.kind == "c":  # the components are one more axis
            memory = _as_reals(memory)
            chunks, start = (*chunks, 2), (*start, 0)
        self.value_bytes = memory.dtype.itemsize
        self.chunk_bytes = math.prod(chunks) * self.value_bytes
        counts = (-(-(at + n) // c) for at, n, c in zip(start, memory.shape, chunks, strict=True))
        self.total = math.prod(counts)
        #: Chunks of a batch, at most.
        self.most = max(1, min(_BATCH_BYTES // self.chunk_bytes, self.total, 4096))
        self.frame_stride = -(-_native.max_encoded_size(self.chunk_bytes) // 256) * 256
        self.array = _native.DeviceArray(
            data=memory.address,
            value_bytes=self.value_bytes,
            strides=memory.strides,
            shape=memory.shape,
            chunk=chunks,
            start=start,
            padding=padding,
        )
        self._values = self.empty(self.most * self.chunk_bytes)
        self._stream = self.library.current_stream(self.device)

    def empty(self, size: int) -> DeviceMemory:
        """Return fresh bytes of the GPU."""
        memory: DeviceMemory = self.library.empty((size,), np.uint8, self.device)
        return memory

    def batch(
        self,
        count: int,
        frames: DeviceMemory,
        sizes: DeviceMemory,
        workspace: DeviceMemory | None = None,
        first_value: int = 0,
    ) -> _native.DeviceBatch:
        """Describe a batch, whose chunks are encoded or decoded from `first_value` on."""
        return _native.DeviceBatch(
            count=count,
            raw_bytes=self.chunk_bytes,
            raw=self._values.address + first_value * self.value_bytes,
            raw_stride=self.chunk_bytes,
            frames=frames.address,
            frame_stride=self.frame_stride,
            frame_bytes=sizes.address,
            workspace=workspace.address if workspace else 0,
            workspace_bytes=workspace.nbytes if workspace else 0,
            stream=self._stream,
        )

    def copy(self, to: int, source: int, size: int, stream: Any = None) -> None:
        """Start to copy bytes between the host and the GPU."""
        self.library.copy(self.device, to, source, size, stream)

    def copy_frames(self, to: int, source: int, count: int, size: int) -> None:
        """Start to copy frames, and of each so many bytes, to the GPU."""
        self.library.copy_rows(self.device, to, source, self.frame_stride, (count, size))

    def mark(self, stream: Any = None) -> Any:
        """Return an event that waits for the work that has been started so far."""
        return self.library.mark(self.device, stream)

    def batches(self) -> list[tuple[int, int]]:
        """Return the first chunk of each batch, and the number of its chunks."""
        firsts = range(0, self.total, self.most)
        return [(first, min(self.most, self.total - first)) for first in firsts]

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The C API for data on a GPU, with memory from CuPy; only these calls are used."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import cupy
import numpy as np

from h5lossy import _native

if TYPE_CHECKING:
    from h5lossy._codecs import Codec


_STORED = 0  # codec of a frame that holds the values as they are
_OTHER = 2  # status of a frame that is not what was asked for


def _any_kind_will_do(info: _native.FrameFields) -> bool:
    return info.codec == _STORED or info.bound_kind == _native.BOUND_LOSSLESS


class Batch:
    """Chunks of one type and size on the current GPU, and the memory to encode and decode them."""

    def __init__(self, codec: Codec, count: int, values: int, dtype: Any, stream: int) -> None:
        item = np.dtype(dtype).itemsize
        self.values = values
        self.raw = cupy.zeros((count, values), dtype)
        self.out = cupy.zeros((count, values), dtype)
        stride = -(-(values * item + 40) // 256) * 256
        self.frames = cupy.zeros((count, stride), cupy.uint8)
        self.packed = cupy.zeros(count * stride, cupy.uint8)
        self.sizes = cupy.zeros(count, cupy.uint64)
        self.statuses = cupy.full(count, 7, cupy.uint32)
        self.params = dataclasses.replace(
            codec.params(), **_native.type_fields(np.dtype(dtype)), shape=(values,)
        )
        self._batch = _native.DeviceBatch(
            count=count,
            raw_bytes=values * item,
            raw=self.raw.data.ptr,
            raw_stride=values * item,
            frames=self.frames.data.ptr,
            frame_stride=stride,
            frame_bytes=self.sizes.data.ptr,
            stream=stream,
        )
        needed = _native.device_encode_workspace(self.params, self._batch)
        self._workspace = cupy.empty(max(needed, 8192 * count), cupy.uint8)
        self._batch = dataclasses.replace(
            self._batch,
            workspace=self._workspace.data.ptr,
            workspace_bytes=self._workspace.nbytes,
        )

    def encode(self) -> None:
        """Start to encode all chunks and to pack their frames."""
        _native.device_encode(self.params, self._batch)
        _native.device_pack(self._batch, self.packed.data.ptr)

    def decode(self, like: bytes, values: int | None = None) -> None:
        """Start to decode the first values of all frames, which are of the same kind as `like`."""
        info = _native.inspect_header(like[:64], len(like))
        batch = dataclasses.replace(self._batch, raw=self.out.data.ptr)
        assert _native.device_decode_workspace(info, batch) <= batch.workspace_bytes
        count = self.values if values is None else values
        _native.device_decode(info, batch, 0, count, self.statuses.data.ptr)

    def check(self, chunks: np.ndarray[Any, Any]) -> None:
        """Compare the encoded frames with those that the CPU makes of the same chunks."""
        frames, packed = self.frames.get(), self.packed.get()
        begin = 0
        for i, size in enumerate(self.sizes.get().tolist()):
            expected = _native.encode(self.params, chunks[i])
            assert frames[i, :size].tobytes() == expected, i
            assert packed[begin : begin + size].tobytes() == expected, i
            begin += -(-size // 16) * 16

    def check_decoded(self, like: bytes) -> None:
        """Compare the decoded values with those that the CPU decodes from the frames.

        Codec auto picks a codec for each chunk. Frames of another codec than that of `like` are
        marked.
        """
        frames, sizes, out = self.frames.get(), self.sizes.get().tolist(), self.out.get()
        statuses = self.statuses.get().tolist()
        codec = _native.inspect_header(like[:64], len(like)).codec
        for i, size in enumerate(sizes):
            info = _native.inspect_header(frames[i, :64].tobytes(), size)
            is_other = info.codec != codec and not _any_kind_will_do(info)
            assert statuses[i] == (_OTHER if is_other else 0), i
            if is_other:
                continue
            expected = np.empty(self.values, out.dtype)
            _native.decode(frames[i, :size].tobytes(), expected)
            assert out[i].tobytes() == expected.tobytes(), i

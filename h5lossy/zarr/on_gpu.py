# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Chunks in Zarr's GPU mode: values stay in a GPU's memory, and only frames are copied."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np
from zarr.buffer.gpu import NDBuffer

from h5lossy import _device, _native
from h5lossy._arrays import cupy_memory, device_of
from h5lossy._batched import gpu_decoder, gpu_encoder
from h5lossy._batched.gpu import is_possible

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt


def is_on_gpu(prototype: Any) -> bool:
    """Return whether Zarr wants arrays on a GPU (`zarr.config.enable_gpu`)."""
    return issubclass(prototype.nd_buffer, NDBuffer)


def encode_chunks(chunks: Sequence[Any], params: _native.Params) -> list[Any] | None:
    """Return the frames of chunks of one shape and type, on their GPU; None if it can't encode."""
    cupy = importlib.import_module("cupy")
    with chunks[0].device:
        flat = cupy.stack(chunks).reshape(len(chunks), -1)
        memory = cupy_memory(flat)
        if not is_possible(memory, params, decode=False):
            return None
        frames: list[Any] = []
        for batch in gpu_encoder.encode(memory, params, (1, flat.shape[1]), 0):
            packed = cupy.asarray(np.concatenate([*batch]))
            frames += cupy.split(packed, np.cumsum(batch.sizes)[:-1].tolist())
    return frames


def decode_chunks(frames: Sequence[npt.NDArray[Any]], values: Any) -> list[int]:
    """Decode frames of chunks into a contiguous array on a GPU, one along its first axis.

    Returns the numbers of those that a GPU does not decode, or that are broken.
    """
    flat = values.reshape(len(frames), -1)  # so the number of axes does not matter
    if len(frames) == 1:
        memory = cupy_memory(flat[0])
        info = _native.inspect(frames[0])
        if not info.is_typed:
            return [0]
        try:
            _device.decode(memory.library.upload(frames[0], device_of(memory)), info, 0, memory)
        except _native.FRAME_ERRORS:
            return [0]
        return []

    def read(first: int, buffers: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        sizes = np.zeros(len(buffers), np.int64)
        for k, buffer in enumerate(buffers):
            frame = frames[first + k]
            if len(frame) <= len(buffer):
                buffer[: len(frame)] = frame
                sizes[k] = len(frame)
        return sizes

    batches = gpu_decoder.decode(cupy_memory(flat), (1, flat.shape[1]), (0, 0), read)
    return [k for _, failed in batches for k in failed]

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Chunks in Zarr's GPU mode: values stay in a GPU's memory, and only frames are copied to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zarr.buffer.gpu import NDBuffer

from h5lossy import _native
from h5lossy._arrays import cupy_memory
from h5lossy._batched import gpu, gpu_decoder

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt


def is_on_gpu(prototype: Any) -> bool:
    """Return whether Zarr wants arrays on a GPU (`zarr.config.enable_gpu`)."""
    return issubclass(prototype.nd_buffer, NDBuffer)


def decode_chunks(frames: Sequence[npt.NDArray[Any]], values: Any) -> list[int]:
    """Decode frames of equal shape and type into an array on a GPU, one along its first axis.

    Returns the numbers of those that a GPU does not decode, or that are broken.
    """
    memory = cupy_memory(values)
    info = _native.inspect_header(frames[0][:4096].tobytes(), len(frames[0]))
    if not info.is_typed or not gpu.is_possible(memory, info, decode=True):
        return list(range(len(frames)))

    def read(first: int, buffers: npt.NDArray[Any]) -> dict[int, Any]:
        return {k: frames[first + k] for k in range(len(buffers))}

    left: list[int] = []
    chunk = (1, *memory.shape[1:])
    for _, failed in gpu_decoder.decode(memory, chunk, (0,) * len(chunk), read):
        left += failed
    return left

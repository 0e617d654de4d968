# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Frames of arrays on a GPU: both stay in its memory."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from h5lossy import _native
from h5lossy._arrays import DeviceMemory, device_memory, device_of

if TYPE_CHECKING:
    from collections.abc import Callable


#: How much of a frame is copied for its header and tile table: enough for 16 MiB of values.
_FRONT_BYTES = 4096


def encode(array: Any, params_of: Callable[[DeviceMemory], _native.Params]) -> Any:
    """Encode an array on a GPU; `params_of` makes the parameters once its type is known."""
    memory = device_memory(array)
    params = params_of(memory)
    device = device_of(memory)
    library = memory.library

    def encode_on_host() -> Any:
        frame = _native.encode(params, np.ascontiguousarray(library.to_host(memory)))
        return library.upload(np.frombuffer(frame, np.uint8).copy(), device).owner

    if memory.size == 0 or not _native.has_kernels(params, decode=False):
        return encode_on_host()
    values = memory if memory.is_contiguous else library.contiguous(memory)
    room = library.empty((_native.max_encoded_size(values.nbytes) + 3,), np.uint8, device)
    size = library.empty((1,), np.uint64, device)
    batch = _native.DeviceBatch(
        count=1,
        raw_bytes=values.nbytes,
        raw=values.address,
        frames=room.address,
        frame_bytes=size.address,
        stream=library.current_stream(device),
    )
    needed = _native.device_encode_workspace(params, batch)
    workspace = library.empty((needed,), np.uint8, device)
    _native.device_encode(
        params,
        dataclasses.replace(batch, workspace=workspace.address, workspace_bytes=needed),
    )
    frame_bytes = int(library.to_host(size)[0])
    return library.copied(room, frame_bytes) if frame_bytes != 0 else encode_on_host()


def open_frame(frame: Any) -> tuple[DeviceMemory, _native.FrameFields]:
    """Return a frame on a GPU, as bytes, and its header."""
    memory = device_memory(frame)
    library = memory.library
    if not memory.is_contiguous or memory.address % 4:
        memory = library.upload(library.to_host(memory), device_of(memory))
    flat = device_memory(memory.owner.reshape(-1))

    # Checked on the host, by the code that checks all other frames: until then, not even the sizes
    # of header and tile table can be trusted.
    def front(size: int) -> bytes:
        start = device_memory(flat.owner[: -(-size // flat.dtype.itemsize)])
        return bytes(library.to_host(start).data)

    info = _native.inspect_header(front(_FRONT_BYTES), flat.nbytes)
    if info.front_bytes > _FRONT_BYTES:
        info = _native.inspect_header(front(info.front_bytes), flat.nbytes)
    return flat, info


def decode(memory: DeviceMemory, info: _native.FrameFields, first: int, flat: DeviceMemory) -> None:
    """Decode values of an opened frame into `flat`, from number `first` on, as many as it holds."""
    if flat.size == 0 and info.raw_bytes != 0:
        return
    library = memory.library
    device = device_of(memory)
    small = library.empty((2,), np.uint64, device)  # frame_bytes, status
    sizes = library.upload(np.array([memory.nbytes], np.int64), device)
    batch = _native.DeviceBatch(
        count=1,
        raw_bytes=info.raw_bytes,
        raw=flat.address,
        frames=memory.address,
        frame_bytes=sizes.address,
        stream=library.current_stream(device),
    )
    status = 2
    parts = info.dtype.itemsize // info.value_bytes  # of complex numbers, two
    has_kernels = info.is_typed and _native.has_kernels(info, decode=True)
    if flat.size != 0 and has_kernels:
        needed = _native.device_decode_workspace(info, batch)
        workspace = library.empty((needed,), np.uint8, device)
        _native.device_decode(
            info,
            dataclasses.replace(batch, workspace=workspace.address, workspace_bytes=needed),
            first * parts,
            flat.size * parts,
            small.address,
        )
        status = int(library.to_host(small)[0]) & 0xFFFFFFFF
    if status == 0:
        return
    # Corrupt, or of a kind that only the CPU can decode.
    host = library.to_host(memory).view(np.uint8)
    values = np.empty(flat.size, info.dtype)
    if flat.nbytes == info.raw_bytes:
        _native.decode(host, values)
    else:
        _native.decode_range(host, first, values)
    if flat.size != 0:
        library.assign(flat, values.astype(flat.dtype, copy=False))

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""GPUs of this machine, and chunks in their memory. ``h5lossy_device.h`` explains every field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from h5lossy._native.frames import Params
from h5lossy._native.library import Struct, call, ffi, lib, result, text

if TYPE_CHECKING:
    from h5lossy._native.frames import FrameFields


@dataclass(frozen=True, kw_only=True)
class Counts(Struct):
    """``h5l_counts``: how many chunks this process has encoded and decoded, on CPU and GPU."""

    cpu_encoded: int
    cpu_decoded: int
    gpu_encoded: int
    gpu_decoded: int


@dataclass(frozen=True, kw_only=True)
class DeviceBatch(Struct):
    """``h5l_device_batch``: chunks of one shape on a GPU. Addresses are numbers."""

    count: int
    raw_bytes: int
    raw: int = 0
    raw_stride: int = 0
    frames: int = 0
    frame_stride: int = 0
    frame_bytes: int = 0
    workspace: int = 0
    workspace_bytes: int = 0
    stream: int = 0

    def _derived(self) -> dict[str, Any]:
        return {"reserved": 0}


@dataclass(frozen=True, kw_only=True)
class DeviceArray(Struct):
    """``h5l_device_array``: an array on a GPU and how it is cut into chunks."""

    data: int
    value_bytes: int
    strides: tuple[int, ...]
    shape: tuple[int, ...]
    chunk: tuple[int, ...]
    start: tuple[int, ...]
    padding: int = 0

    def _derived(self) -> dict[str, Any]:
        return {"rank": len(self.shape)}


def counts() -> Counts:
    """Return how many chunks went through the CPU and the GPU so far."""
    found = ffi.new("h5l_counts *")
    lib.h5l_get_counts(found)
    return Counts.from_c(found)


def devices() -> list[tuple[str, str, str]]:
    """Return each GPU's name, where its kernels are from, and why it can't be used. Opens them."""
    found: list[tuple[str, str, str]] = []
    device = ffi.new("h5l_device *")
    while lib.h5l_device_at(len(found), device):
        found.append((text(device.name), text(device.kernels), text(device.problem)))
    return found


def device_selection() -> str:
    """Return where chunks go, and why, as lines of text. Opens the GPU."""
    lines = ffi.new("char[]", 1 + int(lib.h5l_describe_device_selection(ffi.NULL, 0)))
    lib.h5l_describe_device_selection(lines, len(lines))
    return text(lines).rstrip()


def gpu_speedup(codec: int, *, decode: bool) -> float:
    """Return how many times faster than this CPU a GPU is by the library's table; 0: unknown."""
    return float(lib.h5l_gpu_speedup(codec, decode))


def has_kernels(chunk: Params | FrameFields, *, decode: bool) -> int:
    """Return whether GPUs can encode such chunks, or decode such frames; 2: with any modes."""
    if isinstance(chunk, Params) and (chunk.wide or chunk.thresholds or chunk.valid_range):
        return 0
    found = lib.h5l_has_kernels(
        chunk.codec, chunk.mode, chunk.value_class, chunk.bound_kind, decode
    )
    return int(found)


def device_of(address: int) -> int:
    """Return the GPU that memory belongs to, -1 if to none."""
    return int(lib.h5l_device_of(ffi.cast("void *", address)))


def device_encode_workspace(params: Params, batch: DeviceBatch) -> int:
    """Return how many bytes `device_encode` needs."""
    return int(result("device_encode_workspace", params, batch)[0])


def device_encode(params: Params, batch: DeviceBatch) -> None:
    """Start to encode chunks."""
    call("device_encode", params, batch)


def device_decode_workspace(info: FrameFields, batch: DeviceBatch) -> int:
    """Return how many bytes `device_decode` needs."""
    return int(result("device_decode_workspace", info, batch)[0])


def device_decode(
    info: FrameFields, batch: DeviceBatch, first: int, values: int, statuses: int
) -> None:
    """Start to decode values of frames; `statuses` is an address, with a uint32 for each frame."""
    call("device_decode", info, batch, first, values, statuses)


def device_pack(batch: DeviceBatch, packed: int) -> None:
    """Start to copy frames to an address, each to the next multiple of 16 bytes."""
    call("device_pack", batch, packed)


def device_gather(array: DeviceArray, first: int, batch: DeviceBatch) -> None:
    """Start to copy chunks of an array to the batch."""
    call("device_gather", array, first, batch)


def device_scatter(array: DeviceArray, first: int, batch: DeviceBatch) -> None:
    """Start to copy chunks of the batch to an array."""
    call("device_scatter", array, first, batch)

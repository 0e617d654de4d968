# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Many chunks at a time, on several threads, straight from and to an array."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from h5lossy._native.library import Struct, attempt, call, exception, ffi, lib, readable, result

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from h5lossy._native.frames import Params


@dataclass(frozen=True, kw_only=True)
class Parts(Struct):
    """``h5l_parts``: parts of chunks that lie in an array.

    Attributes
    ----------
    array : numpy.ndarray
        Any strides; its type is that of the chunks.
    chunk : tuple of int
        Extents of a chunk.
    corners : numpy.ndarray
        Place of each part's first value in `array`: a row of integers for each part.
    first, extents : numpy.ndarray
        The same place in the part's chunk, and the part's extents.
    padding : numpy.ndarray
        One value, which an encoded chunk has where its part has nothing.
    """

    array: npt.NDArray[Any]
    chunk: tuple[int, ...]
    corners: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]
    extents: npt.NDArray[np.int64]
    padding: npt.NDArray[Any]

    def __post_init__(self) -> None:
        for name in ("first", "extents"):  # C-contiguous, for C
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), np.int64))

    def __len__(self) -> int:
        return len(self.corners)

    @property
    def chunk_bytes(self) -> int:
        """Bytes of a chunk."""
        return math.prod(self.chunk) * self.array.itemsize

    @property
    def addresses(self) -> npt.NDArray[np.uintp]:
        """Where each part begins in memory."""
        offsets = self.corners @ np.array(self.array.strides, np.int64)
        return (self.array.ctypes.data + offsets).astype(np.uintp)

    def _derived(self) -> dict[str, Any]:
        return {
            "rank": len(self.chunk),
            "strides": self.array.strides,
            "padding_bits": int.from_bytes(self.padding.tobytes(), "little"),
        }


def default_threads() -> int:
    """Return how many threads a batch gets where its caller names no number."""
    return int(result("default_threads")[0])


def encode_parts(
    params: Params, parts: Parts, room: npt.NDArray[np.uint8], threads: int
) -> list[npt.NDArray[np.uint8]]:
    """Encode chunks on several threads; raise for the first that fails.

    `room` has a row of `max_encoded_size` bytes for each chunk; the frames lie in there.
    """
    count, capacity = len(parts), room.shape[1]
    frame_bytes = np.empty(count, np.uintp)
    call(
        "encode_batch",
        params,
        parts,
        count,
        parts.addresses,
        np.full(count, parts.chunk_bytes, np.uintp),
        room.ctypes.data + np.arange(count, dtype=np.uintp) * room.strides[0],
        np.full(count, capacity, np.uintp),
        frame_bytes,
        np.empty(count, np.intc),  # statuses
        None,  # no message for each
        threads,
    )
    return [row[:size] for row, size in zip(room, frame_bytes.tolist(), strict=False)]


def decode_parts(
    params: Params, parts: Parts, frames: Sequence[Any], threads: int
) -> dict[int, Exception]:
    """Decode chunks on several threads; return what went wrong, by the frame's number.

    Of `params`, only the type of the values counts.
    """
    count = len(parts)
    views = [readable(frame) for frame in frames]
    statuses, messages = ffi.new("h5l_status[]", count), ffi.new("h5l_message[]", count)
    error = attempt(
        "decode_batch",
        params,
        parts,
        count,
        ffi.new("void *[]", views),
        ffi.new("size_t[]", list(map(len, views))),
        parts.addresses,
        np.full(count, parts.chunk_bytes, np.uintp),
        statuses,
        messages,
        threads,
    )
    if error is None:
        return {}
    return {
        i: exception(statuses[i], messages[i]) for i in range(count) if statuses[i] != lib.H5L_OK
    }

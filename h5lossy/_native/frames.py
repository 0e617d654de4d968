# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Chunks to frames and back, one or many at a time, cd_values, and facts about the library."""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from h5lossy._native.library import (
    Struct,
    attempt,
    call,
    exception,
    ffi,
    lib,
    optional_text,
    readable,
    result,
    text,
    writable,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

FILTER_ID: int = lib.H5L_FILTER_ID
MAX_RANK: int = lib.H5L_MAX_RANK
MAX_EXACT: int = lib.H5L_MAX_EXACT
MAX_THRESHOLDS: int = lib.H5L_MAX_THRESHOLDS
MAX_PART_RANK: int = lib.H5L_MAX_PART_RANK
CODEC_PFPL: int = lib.H5L_CODEC_PFPL
BOUND_ABSOLUTE: int = lib.H5L_BOUND_ABSOLUTE
BOUND_POINTWISE_RELATIVE: int = lib.H5L_BOUND_POINTWISE_RELATIVE
BOUND_RANGE_RELATIVE: int = lib.H5L_BOUND_RANGE_RELATIVE
BOUND_LOSSLESS: int = lib.H5L_BOUND_LOSSLESS
BOUND_NOISE: int = lib.H5L_BOUND_NOISE

#: NumPy's letters for type classes, by ``H5L_CLASS_*``; NumPy itself has no bfloat16.
TYPE_LETTERS = "fuif"


def type_fields(dtype: np.dtype[Any]) -> dict[str, Any]:
    """Return the fields of `Params` that hold the type of a float or an integer."""
    size = dtype.itemsize
    if dtype.kind == "c":  # a value of the library is a component
        value_class: int = lib.H5L_CLASS_COMPLEX
        size //= 2
    elif is_bfloat16(dtype):
        value_class = lib.H5L_CLASS_BFLOAT
    elif dtype.kind == "f" and dtype.itemsize == 2:
        value_class = lib.H5L_CLASS_HALF
    else:
        value_class = TYPE_LETTERS.index(dtype.kind)
    return {
        "value_class": value_class,
        "value_bytes": size,
        "big_endian": dtype.newbyteorder("<") != dtype,
    }


def is_bfloat16(dtype: np.dtype[Any]) -> bool:
    """Return whether a type is that of ml_dtypes, which need not be installed."""
    return dtype.kind == "V" and dtype.name == "bfloat16"


def dtype_of(value_class: int, value_bytes: int, *, big_endian: bool) -> np.dtype[Any]:
    """Return the type that the library describes; without ml_dtypes, bfloat16 is two bytes."""
    if value_class == lib.H5L_CLASS_BFLOAT:
        try:
            bfloat16: np.dtype[Any] = np.dtype(importlib.import_module("ml_dtypes").bfloat16)
        except ImportError:
            return np.dtype("V2")
        return bfloat16.newbyteorder(">" if big_endian else "<")
    if value_class == lib.H5L_CLASS_COMPLEX:
        return np.dtype(f"{'>' if big_endian else '<'}c{2 * value_bytes}")
    return np.dtype(f"{'>' if big_endian else '<'}{TYPE_LETTERS[value_class]}{value_bytes}")


@dataclass(frozen=True, kw_only=True)
class Params(Struct):
    """``h5l_params``: how to encode a chunk of values. ``h5lossy.h`` explains every field."""

    codec: int = 0
    bound_kind: int = 0
    bound: float = 0.0
    mode: int = 0
    no_checksum: bool = False
    value_bytes: int = 0
    big_endian: bool = False
    fill_bits: int | None = None
    maybe_padded: bool = False
    shape: tuple[int, ...] = ()
    value_class: int = 0
    noise_floor: int = 0
    exact: tuple[int, ...] = ()
    wide: bool = False
    thresholds: tuple[float, ...] = ()
    valid_range: tuple[float, float] | None = None

    def _derived(self) -> dict[str, Any]:
        return {
            "exact_count": len(self.exact),
            "exact": [(number + 2**63) % 2**64 - 2**63 for number in self.exact],
            "threshold_count": len(self.thresholds),
            "has_valid_range": self.valid_range is not None,
            "valid_min": self.valid_range[0] if self.valid_range else 0.0,
            "valid_max": self.valid_range[1] if self.valid_range else 0.0,
            "has_fill": self.fill_bits is not None,
            "fill_bits": self.fill_bits or 0,
            "rank": len(self.shape),
        }

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values, which must be known."""
        return dtype_of(self.value_class, self.value_bytes, big_endian=self.big_endian)


@dataclass(frozen=True, kw_only=True)
class FrameFields(Struct):
    """``h5l_frame_info``: what a frame says about itself. ``h5lossy.h`` explains every field."""

    version: int
    codec: int
    bound_kind: int
    value_bytes: int
    big_endian: bool
    mode: int
    has_checksum: bool
    header_bytes: int
    raw_bytes: int
    frame_bytes: int
    tiles: int
    stored_tiles: int
    bound: float
    step: float
    dims: tuple[int, ...]
    value_class: int

    @property
    def is_typed(self) -> bool:
        """Whether the encoder knew the type of the values."""
        return self.value_bytes > 1 or self.value_class > 0

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values; ``uint8`` where the frame does not hold it."""
        if not self.is_typed:
            return np.dtype(np.uint8)
        return dtype_of(self.value_class, self.value_bytes, big_endian=self.big_endian)

    @property
    def front_bytes(self) -> int:
        """Size of header and tile table; the payload follows them."""
        return self.header_bytes + 4 * self.tiles

    def _derived(self) -> dict[str, Any]:
        return {"rank": len(self.dims)}


def version() -> str:
    """Return the library's version, such as "1.2.3"."""
    return text(lib.h5l_version())


def build() -> str:
    """Return the compiler and build type of the library: "GNU 12.2.0, Release"."""
    return text(lib.h5l_build())


def codec_name(codec: int) -> str | None:
    """Return the name of a frame's codec, or None if this build does not know the number."""
    return optional_text(lib.h5l_codec_name(codec))


def backend_name() -> str | None:
    """Return the name of the backend in use, or None if the self-test fails."""
    return optional_text(lib.h5l_backend_name())


def backends() -> dict[str, bool]:
    """Return the backends of this build, best first, and whether this machine can run each."""
    found: dict[str, bool] = {}
    usable = ffi.new("int *")
    while (name := optional_text(lib.h5l_backend_at(len(found), usable))) is not None:
        found[name] = bool(usable[0])
    return found


def self_test() -> None:
    """Check that this machine's arithmetic gives the bits that the format needs; raise if not."""
    call("self_test")


def plugin_info() -> int:
    """Return the address of the filter's ``H5Z_class2_t``, as ``H5Zregister`` takes it."""
    return int(ffi.cast("uintptr_t", lib.H5PLget_plugin_info()))


def max_encoded_size(raw_bytes: int) -> int:
    """Return the largest frame for `raw_bytes` of input; 0 if they do not fit into one frame."""
    return int(lib.h5l_max_encoded_size(raw_bytes))


def encode_into(params: Params, raw: npt.NDArray[Any], room: npt.NDArray[np.uint8]) -> int:
    """Encode as `encode` does, into `max_encoded_size` bytes; return how many the frame has."""
    with readable(raw) as data, writable(room) as to:
        return int(result("encode", params, data, raw.nbytes, to, room.nbytes)[0])


def encode(params: Params, raw: npt.NDArray[Any]) -> bytes:
    """Encode the bytes of a C-contiguous array, which must fit into one frame."""
    room = np.empty(max_encoded_size(raw.nbytes), np.uint8)
    return room[: encode_into(params, raw, room)].tobytes()


def inspect(frame: Any) -> FrameFields:
    """Read and check the header and tile table of a frame: any contiguous bytes-like object."""
    with readable(frame) as data:
        return _frame_fields(result("inspect", data, len(data)))


def inspect_header(header: bytes, frame_bytes: int) -> FrameFields:
    """Read the header from the first bytes of a frame, at least 64 of them.

    With `front_bytes` of them, everything that `inspect` checks is checked; with fewer, less.
    """
    with readable(header) as data:
        return _frame_fields(result("inspect_header", data, len(data), frame_bytes))


def _frame_fields(info: Any) -> FrameFields:
    return FrameFields.from_c(info, dims=tuple(info.dims[0 : info.rank]))


def decode(frame: Any, out: npt.NDArray[Any]) -> None:
    """Decode a whole frame into `out`, which has the frame's ``raw_bytes``."""
    with readable(frame) as data, writable(out) as room:
        call("decode", data, len(data), room, out.nbytes)


def decode_range(frame: Any, first: int, out: npt.NDArray[Any]) -> None:
    """Decode the values from number `first` on into `out`, as many as it holds."""
    components = 2 if out.dtype.kind == "c" else 1
    with readable(frame) as data, writable(out) as room:
        count = components * out.size
        call("decode_range", data, len(data), components * first, count, room, out.nbytes)


def pack_cd_values(params: Params) -> tuple[int, ...]:
    """Return the cd_values for `params`: 5 words or more."""
    words = ffi.new("uint32_t[]", lib.H5L_MAX_CD_VALUES)
    return tuple(words[0 : result("pack_cd_values", params, words)[0]])


def unpack_cd_values(words: Sequence[int]) -> Params:
    """Return what cd_values mean."""
    params = result("unpack_cd_values", ffi.new("uint32_t[]", words), len(words))
    is_unsigned = params.value_class == lib.H5L_CLASS_UNSIGNED
    exact = params.exact[0 : params.exact_count]
    return Params.from_c(
        params,
        exact=tuple(number % 2**64 if is_unsigned else number for number in exact),
        thresholds=tuple(params.thresholds[0 : params.threshold_count]),
        valid_range=(params.valid_min, params.valid_max) if params.has_valid_range else None,
        fill_bits=params.fill_bits if params.has_fill else None,
        shape=tuple(params.shape[0 : params.rank]),
    )


def value_range(
    params: Params, raw: npt.NDArray[Any], threads: int = 1
) -> tuple[float, float] | None:
    """Return (min, max) of the valid values in a C-contiguous array; None where there is none."""
    with readable(raw) as data:
        found = result("value_range", params, data, raw.nbytes, threads)
    return (found.min, found.max) if found.count else None


def absolute_bound(range_relative: float, smallest: float, largest: float) -> float:
    """Return the absolute bound for a range-relative one; 0 where only lossless will do."""
    return float(lib.h5l_absolute_bound(range_relative, smallest, largest))


@dataclass(frozen=True, kw_only=True)
class Parts(Struct):
    """``h5l_parts``: parts of chunks in an array; arrays here have a row for each part."""

    array: npt.NDArray[Any]  # any strides; its type is that of the chunks
    chunk: tuple[int, ...]  # extents of a chunk
    corners: npt.NDArray[np.int64]  # index of each part's first value in `array`
    first: npt.NDArray[np.int64]  # index of that value in the part's chunk
    extents: npt.NDArray[np.int64]  # of each part
    padding: npt.NDArray[Any]  # one value, which fills an encoded chunk outside of its part

    def __post_init__(self) -> None:
        for name in ("first", "extents"):  # C needs them C-contiguous
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), np.int64))
        # The library's values are components: complex numbers get one more axis.
        more: dict[str, Any] = {}
        if self.array.dtype.kind == "c":
            more = {
                "chunk": (*self.chunk, 2),
                "first": np.insert(self.first, len(self.chunk), 0, axis=1),
                "extents": np.insert(self.extents, len(self.chunk), 2, axis=1),
            }
        object.__setattr__(self, "_of_components", more)

    def __len__(self) -> int:
        return len(self.corners)

    def __getitem__(self, which: Any) -> Parts:
        """Return some of the parts, by a NumPy index."""
        rows = {name: getattr(self, name)[which] for name in ("corners", "first", "extents")}
        return replace(self, **rows)

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
        more, itemsize = vars(self)["_of_components"], self.array.itemsize
        one = self.padding.tobytes()
        return {
            "rank": len(self.chunk) + bool(more),
            "strides": (*self.array.strides, itemsize // 2) if more else self.array.strides,
            "padding_bits": int.from_bytes(one[: itemsize // 2] if more else one, "little"),
            **more,
        }


def default_threads() -> int:
    """Return how many threads a batch gets if its caller gives no number."""
    return int(result("default_threads")[0])


@dataclass(frozen=True)
class Frames:
    """Frames in memory, without an object for each one."""

    addresses: npt.NDArray[np.uintp]
    sizes: npt.NDArray[np.uintp]
    #: What keeps the memory.
    owner: Any

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, which: slice) -> Frames:
        return Frames(self.addresses[which], self.sizes[which], self.owner)

    def __iter__(self) -> Iterator[npt.NDArray[np.uint8]]:
        for address, size in zip(self.addresses.tolist(), self.sizes.tolist(), strict=True):
            yield np.frombuffer(ffi.buffer(ffi.cast("char *", address), size), np.uint8)


def encode_parts(params: Params, parts: Parts, room: npt.NDArray[np.uint8], threads: int) -> Frames:
    """Encode chunks on several threads; raise for the first that fails.

    `room` has a row of `max_encoded_size` bytes for each chunk, which gets the frame.
    """
    count, capacity = len(parts), room.shape[1]
    begins = room.ctypes.data + np.arange(count, dtype=np.uintp) * np.uintp(room.strides[0])
    frames = Frames(begins, np.empty(count, np.uintp), room)
    call(
        "encode_batch",
        params,
        parts,
        count,
        parts.addresses,
        np.full(count, parts.chunk_bytes, np.uintp),
        frames.addresses,
        np.full(count, capacity, np.uintp),
        frames.sizes,
        np.empty(count, np.intc),  # statuses
        None,  # no message for each
        threads,
    )
    return frames


def decode_parts(
    params: Params, parts: Parts, frames: Iterable[Any], threads: int
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

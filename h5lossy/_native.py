# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""libh5lossy for Python: its C API as typed functions, and its statuses as exceptions.

The library is opened by cffi in ABI mode, and cffi reads the declarations from ``h5lossy.h``
itself, so that there is no second list of functions and no compiled Python module. cffi has no type
information: `Any` ends at this module's functions. They release the GIL while C runs, and hold
nothing between calls: all of them are thread-safe.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cffi
import numpy as np

from h5lossy.errors import (
    CorruptFrameError,
    DeviceError,
    InvalidArgumentError,
    NativeError,
    TruncatedFrameError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

_PACKAGE = Path(__file__).resolve().parent

LIBRARY_PATH = _PACKAGE / "plugins" / "libh5lossy.so"

_HEADER_PATHS = (
    _PACKAGE / "include" / "h5lossy.h",  # installed
    _PACKAGE.parent / "native" / "include" / "h5lossy.h",  # source tree
)


def _declarations() -> str:
    for path in _HEADER_PATHS:
        if path.is_file():
            header = path.read_text(encoding="utf-8")
            declarations = header.partition("/* cffi: begin */")[2].partition("/* cffi: end */")[0]
            return declarations + "const void *H5PLget_plugin_info(void);"
    looked_for = " and ".join(map(str, _HEADER_PATHS))
    raise ImportError(
        f"h5lossy is not installed completely: there is no h5lossy.h (looked for {looked_for}). "
        "Install it with: pip install ."
    )


def _open_library(ffi: Any) -> Any:
    if sys.platform == "win32":
        raise ImportError("h5lossy does not run on Windows: its library is for Linux and macOS")
    if not LIBRARY_PATH.is_file():
        raise ImportError(
            f"h5lossy is not installed completely: there is no {LIBRARY_PATH}. "
            "To build it, in the source tree: pip install ."
        )
    # NODELETE: HDF5 closes files, and so calls the filter, as late as at exit, when Python has
    # dropped its modules.
    flags = ffi.RTLD_NOW | ffi.RTLD_LOCAL | ffi.RTLD_NODELETE
    try:
        return ffi.dlopen(str(LIBRARY_PATH), flags)
    except OSError as error:
        raise ImportError(
            f"h5lossy can't load its library: {error}. Build it for this machine: pip install ."
        ) from error


_ffi: Any = cffi.FFI()
_ffi.cdef(_declarations())
_lib: Any = _open_library(_ffi)

FILTER_ID: int = _lib.H5L_FILTER_ID
MAX_RANK: int = _lib.H5L_MAX_RANK
BOUND_ABSOLUTE: int = _lib.H5L_BOUND_ABSOLUTE
BOUND_POINTWISE_RELATIVE: int = _lib.H5L_BOUND_POINTWISE_RELATIVE
BOUND_RANGE_RELATIVE: int = _lib.H5L_BOUND_RANGE_RELATIVE
BOUND_LOSSLESS: int = _lib.H5L_BOUND_LOSSLESS
BOUND_NONE: int = _lib.H5L_BOUND_NONE
ASSESS_MAX_RANK: int = _lib.H5L_ASSESS_MAX_RANK
ASSESS_MAX_LAGS: int = _lib.H5L_ASSESS_MAX_LAGS
ASSESS_MAX_WINDOW: int = _lib.H5L_ASSESS_MAX_WINDOW
ASSESS_MAX_THRESHOLDS: int = _lib.H5L_ASSESS_MAX_THRESHOLDS

# A shortage of memory is MemoryError, which is what Python's own allocations on the way raise.
_EXCEPTIONS: dict[int, type[Exception]] = {
    _lib.H5L_INVALID_ARGUMENT: InvalidArgumentError,
    _lib.H5L_UNSUPPORTED: UnsupportedError,
    _lib.H5L_OUTPUT_TOO_SMALL: NativeError,
    _lib.H5L_TRUNCATED: TruncatedFrameError,
    _lib.H5L_CORRUPT: CorruptFrameError,
    _lib.H5L_OUT_OF_MEMORY: MemoryError,
    _lib.H5L_DEVICE_ERROR: DeviceError,
    _lib.H5L_INTERNAL: NativeError,
}


#: What is raised for a frame that cannot be decoded.
FRAME_ERRORS = (CorruptFrameError, TruncatedFrameError, UnsupportedError)


@dataclass(frozen=True, kw_only=True)
class Params:
    """``h5l_params``: what to do with a chunk of values. ``h5lossy.h`` explains every field."""

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


@dataclass(frozen=True, kw_only=True)
class FrameFields:
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

    @property
    def front_bytes(self) -> int:
        """Size of header and tile table; the payload follows them."""
        return self.header_bytes + 4 * self.tiles


@dataclass(frozen=True, kw_only=True)
class AssessParams:
    """``h5l_assess_params``: what to assess. ``h5lossy.h`` explains every field."""

    value_bytes: int
    original_big_endian: bool = False
    decoded_big_endian: bool = False
    fill_bits: int | None = None
    bound_kind: int = BOUND_NONE
    limit: tuple[float, float] = (0.0, 0.0)
    half_limit: tuple[float, float] = (0.0, 0.0)
    histogram_limit: float = 0.0
    pointwise_threshold: float = 0.0
    thresholds: tuple[float, ...] = ()
    threads: int = 0
    lags: int = 0
    stencils: bool = False
    window: int = 0
    step: int = 1
    shape: tuple[int, ...] = ()
    spacing: tuple[float, ...] = ()
    value_range: float = 0.0
    on_device: bool = False


@dataclass(frozen=True, kw_only=True)
class Piece:
    """``h5l_assess_piece``: a part of a field; its values are adjacent along the last axis."""

    original: npt.NDArray[Any]
    decoded: npt.NDArray[Any]
    mask: npt.NDArray[np.uint8] | None
    origin: tuple[int, ...]
    own_origin: tuple[int, ...]
    own_shape: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Point:
    """``h5l_assess_point``: a point's number in C order, and its values."""

    at: int
    original: float
    decoded: float


@dataclass(frozen=True, kw_only=True)
class PointsResult:
    """``h5l_assess_points_result``. ``h5lossy.h`` explains every field."""

    count: int
    valid: int
    masked: int
    special: dict[str, int]
    special_first: dict[str, int]
    original_min: float
    original_max: float
    decoded_min: float
    decoded_max: float
    error_min: float
    error_max: float
    error_min_abs: float
    worst: Point
    pointwise_min: float
    pointwise_max: float
    mean_original: float
    mean_error: float
    squares_original: float
    squares_error: float
    products: float
    sum_abs_error: float
    sum_pointwise: float
    zeros: int
    zeros_changed: int
    over_threshold: int
    threshold_crossings: tuple[int, ...]
    violations: int
    listed: tuple[Point, ...]
    grid_exponent: int
    log_bins: npt.NDArray[np.uint64]
    linear_bins: npt.NDArray[np.uint64]


@dataclass(frozen=True, kw_only=True)
class FieldResult:
    """``h5l_assess_field_result``. ``h5lossy.h`` explains every field."""

    interior: int
    slope_max: tuple[float, ...]
    slope_error_max: tuple[float, ...]
    slope_error_squares: tuple[float, ...]
    gradient_min: float
    gradient_max: float
    gradient_error_max: float
    gradient_error_squares: float
    laplacian_squares: float
    laplacian_error_max: float
    laplacian_error_squares: float
    error_squares: float
    pivot_error: float
    lag_pairs: npt.NDArray[np.float64]
    lag_products: npt.NDArray[np.float64]
    lag_sums: npt.NDArray[np.float64]
    windows: int
    window_sum: float
    window_worst: float
    window_at: tuple[int, ...]


#: What became of a special value, in the order of ``H5L_SPECIAL_*``.
SPECIAL_KINDS = (
    "nan_kept",
    "nan_changed",
    "nan_lost",
    "nan_introduced",
    "inf_kept",
    "inf_changed",
    "inf_introduced",
    "fill_kept",
    "fill_lost",
    "fill_introduced",
)

#: One box of `AssessState.boxes`.
BOX_DTYPE = np.dtype(
    [
        ("valid", np.uint64),
        ("special_failures", np.uint64),
        ("error_max_abs", np.float64),
        ("error_squares", np.float64),
    ]
)


def check(status: int, message: Any) -> None:
    """Raise the exception that a status stands for."""
    if status != _lib.H5L_OK:
        raise _exception(status, message)


def _exception(status: int, message: Any) -> Exception:
    name = _text(_lib.h5l_status_name(status))
    return _EXCEPTIONS.get(status, NativeError)(_text(message.text) or name)


def version() -> str:
    """Return the library's version, such as "1.2.3"."""
    return _text(_lib.h5l_version())


def build() -> str:
    """Return which compiler made the library, and how: "GNU 12.2.0, Release"."""
    return _text(_lib.h5l_build())


def codec_name(codec: int) -> str | None:
    """Return the name of a frame's codec, or None if this build does not know the number."""
    return _optional_text(_lib.h5l_codec_name(codec))


def backend_name() -> str | None:
    """Return the name of the backend in use, or None if the self-test fails."""
    return _optional_text(_lib.h5l_backend_name())


def backends() -> dict[str, bool]:
    """Return the backends of this build, best first, and whether this machine can run each."""
    found: dict[str, bool] = {}
    usable = _ffi.new("int *")
    while (name := _optional_text(_lib.h5l_backend_at(len(found), usable))) is not None:
        found[name] = bool(usable[0])
    return found


def self_test() -> None:
    """Check that this machine's arithmetic gives the bits that the format needs; raise if not."""
    message = _new_message()
    check(_lib.h5l_self_test(message), message)


def max_encoded_size(raw_bytes: int) -> int:
    """Return the largest frame for `raw_bytes` of input; 0 if they do not fit into one frame."""
    return int(_lib.h5l_max_encoded_size(raw_bytes))


def encode_into(params: Params, raw: npt.NDArray[Any], room: npt.NDArray[np.uint8]) -> int:
    """Encode as `encode` does, into `max_encoded_size` bytes; return how many the frame has."""
    frame_bytes, message = _ffi.new("size_t *"), _new_message()
    with _readable(raw) as data, _writable(room) as to:
        status = _lib.h5l_encode(
            _c_params(params), data, raw.nbytes, to, room.nbytes, frame_bytes, message
        )
        check(status, message)
    return int(frame_bytes[0])


def encode(params: Params, raw: npt.NDArray[Any]) -> bytes:
    """Encode the bytes of a C-contiguous array, which must fit into one frame."""
    room = np.empty(max_encoded_size(raw.nbytes), np.uint8)
    return room[: encode_into(params, raw, room)].tobytes()


def inspect(frame: Any) -> FrameFields:
    """Read and check the header and tile table of a frame: any contiguous bytes-like object."""
    info, message = _ffi.new("h5l_frame_info *"), _new_message()
    with _readable(frame) as data:
        check(_lib.h5l_inspect(data, len(data), info, message), message)
    return _fields(info)


def _fields(info: Any) -> FrameFields:
    return FrameFields(
        version=info.version,
        codec=info.codec,
        bound_kind=info.bound_kind,
        value_bytes=info.value_bytes,
        big_endian=bool(info.big_endian),
        mode=info.mode,
        has_checksum=bool(info.has_checksum),
        header_bytes=info.header_bytes,
        raw_bytes=info.raw_bytes,
        frame_bytes=info.frame_bytes,
        tiles=info.tiles,
        stored_tiles=info.stored_tiles,
        bound=info.bound,
        step=info.step,
        dims=tuple(info.dims[0 : info.rank]),
    )


def decode(frame: Any, out: npt.NDArray[Any]) -> None:
    """Decode a whole frame into `out`, which has the size that the frame says."""
    message = _new_message()
    with _readable(frame) as data, _writable(out) as room:
        check(_lib.h5l_decode(data, len(data), room, out.nbytes, message), message)


def decode_range(frame: Any, first: int, out: npt.NDArray[Any]) -> None:
    """Decode the values from number `first` on into `out`, as many as it holds."""
    message = _new_message()
    with _readable(frame) as data, _writable(out) as room:
        check(
            _lib.h5l_decode_range(data, len(data), first, out.size, room, out.nbytes, message),
            message,
        )


# ------------------------------------------------------------------------------------------------
# GPUs
# ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Counts:
    """``h5l_counts``: chunks that this process has encoded and decoded, and by whom."""

    cpu_encoded: int
    cpu_decoded: int
    gpu_encoded: int
    gpu_decoded: int


@dataclass(frozen=True, kw_only=True)
class DeviceBatch:
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


def counts() -> Counts:
    """Return how many chunks went through the CPU and the GPU so far."""
    c = _ffi.new("h5l_counts *")
    _lib.h5l_get_counts(c)
    return Counts(
        cpu_encoded=c.cpu_encoded,
        cpu_decoded=c.cpu_decoded,
        gpu_encoded=c.gpu_encoded,
        gpu_decoded=c.gpu_decoded,
    )


def describe_devices() -> str:
    """Return what GPUs there are and where chunks go, as lines of text. Opens the GPUs."""
    text = _ffi.new("char[]", 1 + int(_lib.h5l_describe_devices(_ffi.NULL, 0)))
    _lib.h5l_describe_devices(text, len(text))
    return _text(text)


def device_of(address: int) -> int:
    """Return the GPU that memory belongs to, -1 if to none."""
    return int(_lib.h5l_device_of(_ffi.cast("void *", address)))


def inspect_header(header: bytes, frame_bytes: int) -> FrameFields:
    """Read the header from the first bytes of a frame, at least 64 of them.

    With `front_bytes` of them, everything that `inspect` checks is checked; with fewer, less.
    """
    info, message = _ffi.new("h5l_frame_info *"), _new_message()
    with _readable(header) as data:
        check(_lib.h5l_inspect_header(data, len(data), frame_bytes, info, message), message)
    return _fields(info)


def device_encode_workspace(params: Params, batch: DeviceBatch) -> int:
    """Return how many bytes `device_encode` needs."""
    size, message = _ffi.new("uint64_t *"), _new_message()
    status = _lib.h5l_device_encode_workspace(_c_params(params), _c_batch(batch), size, message)
    check(status, message)
    return int(size[0])


def device_encode(params: Params, batch: DeviceBatch) -> None:
    """Start to encode chunks."""
    message = _new_message()
    check(_lib.h5l_device_encode(_c_params(params), _c_batch(batch), message), message)


def device_decode_workspace(info: FrameFields, batch: DeviceBatch) -> int:
    """Return how many bytes `device_decode` needs."""
    size, message = _ffi.new("uint64_t *"), _new_message()
    status = _lib.h5l_device_decode_workspace(_c_fields(info), _c_batch(batch), size, message)
    check(status, message)
    return int(size[0])


def device_decode(
    info: FrameFields, batch: DeviceBatch, first: int, values: int, statuses: int
) -> None:
    """Start to decode values of frames; `statuses` is an address, with a uint32 for each frame."""
    message = _new_message()
    status = _lib.h5l_device_decode(
        _c_fields(info), _c_batch(batch), first, values, _ffi.cast("uint32_t *", statuses), message
    )
    check(status, message)


@dataclass(frozen=True, kw_only=True)
class DeviceArray:
    """``h5l_device_array``: an array on a GPU and how it is cut into chunks."""

    data: int
    value_bytes: int
    strides: tuple[int, ...]
    shape: tuple[int, ...]
    chunk: tuple[int, ...]
    start: tuple[int, ...]
    padding: int = 0


def device_pack(batch: DeviceBatch, packed: int) -> None:
    """Start to copy frames to an address, each to the next multiple of 16 bytes."""
    message = _new_message()
    check(_lib.h5l_device_pack(_c_batch(batch), _ffi.cast("void *", packed), message), message)


def device_gather(array: DeviceArray, first: int, batch: DeviceBatch) -> None:
    """Start to copy chunks of an array to the batch."""
    message = _new_message()
    check(_lib.h5l_device_gather(_c_device_array(array), first, _c_batch(batch), message), message)


def device_scatter(array: DeviceArray, first: int, batch: DeviceBatch) -> None:
    """Start to copy chunks of the batch to an array."""
    message = _new_message()
    check(_lib.h5l_device_scatter(_c_device_array(array), first, _c_batch(batch), message), message)


def _c_device_array(array: DeviceArray) -> Any:
    c = _ffi.new("h5l_device_array *")
    c.data = _ffi.cast("void *", array.data)
    c.value_bytes = array.value_bytes
    c.rank = len(array.shape)
    c.strides[0 : len(array.shape)] = array.strides
    c.shape[0 : len(array.shape)] = array.shape
    c.chunk[0 : len(array.shape)] = array.chunk
    c.start[0 : len(array.shape)] = array.start
    c.padding = array.padding
    return c


def _c_batch(batch: DeviceBatch) -> Any:
    c = _ffi.new("h5l_device_batch *")
    c.count = batch.count
    c.raw_bytes = batch.raw_bytes
    c.raw = _ffi.cast("void *", batch.raw)
    c.raw_stride = batch.raw_stride
    c.frames = _ffi.cast("void *", batch.frames)
    c.frame_stride = batch.frame_stride
    c.frame_bytes = _ffi.cast("uint64_t *", batch.frame_bytes)
    c.workspace = _ffi.cast("void *", batch.workspace)
    c.workspace_bytes = batch.workspace_bytes
    c.stream = _ffi.cast("void *", batch.stream)
    return c


def _c_fields(info: FrameFields) -> Any:
    c = _ffi.new("h5l_frame_info *")
    c.codec = info.codec
    c.bound_kind = info.bound_kind
    c.value_bytes = info.value_bytes
    c.big_endian = info.big_endian
    c.mode = info.mode
    c.raw_bytes = info.raw_bytes
    c.rank = len(info.dims)
    c.dims[0 : len(info.dims)] = info.dims
    return c


def default_threads() -> int:
    """Return how many threads a batch gets where its caller names no number."""
    threads, message = _ffi.new("uint32_t *"), _new_message()
    check(_lib.h5l_default_threads(threads, message), message)
    return int(threads[0])


@dataclass(frozen=True, kw_only=True)
class Parts:
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

    def __len__(self) -> int:
        return len(self.corners)

    @property
    def chunk_bytes(self) -> int:
        """Bytes of a chunk."""
        return math.prod(self.chunk) * self.array.itemsize


def encode_parts(
    params: Params, parts: Parts, room: npt.NDArray[np.uint8], threads: int
) -> list[npt.NDArray[np.uint8]]:
    """Encode chunks on several threads; raise for the first that fails.

    `room` has a row of `max_encoded_size` bytes for each chunk; the frames lie in there.
    """
    c_parts, raw, raw_bytes = _c_parts(parts)
    frame_bytes = np.empty(len(parts), np.uintp)
    statuses, message = np.empty(len(parts), np.intc), _new_message()
    status = _lib.h5l_encode_batch(
        _c_params(params),
        c_parts.struct,
        len(parts),
        _c_array("void *[]", raw),
        _c_array("size_t[]", raw_bytes),
        _c_array("void *[]", _row_addresses(room, len(parts))),
        _c_array("size_t[]", np.full(len(parts), room.shape[1], np.uintp)),
        _c_array("size_t[]", frame_bytes),
        _c_array("h5l_status[]", statuses),
        _ffi.NULL,
        threads,
        message,
    )
    check(status, message)
    return [row[:size] for row, size in zip(room, frame_bytes.tolist(), strict=False)]


def decode_parts(
    params: Params, parts: Parts, frames: Sequence[Any], threads: int
) -> dict[int, Exception]:
    """Decode chunks on several threads; return what went wrong, by the frame's number.

    `params` says of what type the chunks are; nothing else in it counts.
    """
    c_parts, raw, raw_bytes = _c_parts(parts)
    views = [_readable(frame) for frame in frames]
    statuses = np.empty(len(parts), np.intc)
    messages, message = _ffi.new("h5l_message[]", len(parts)), _new_message()
    status = _lib.h5l_decode_batch(
        _c_params(params),
        c_parts.struct,
        len(parts),
        _ffi.new("void *[]", views),
        _ffi.new("size_t[]", list(map(len, views))),
        _c_array("void *[]", raw),
        _c_array("size_t[]", raw_bytes),
        _c_array("h5l_status[]", statuses),
        messages,
        threads,
        message,
    )
    if status == _lib.H5L_OK:
        return {}
    return {
        i: _exception(own, messages[i])
        for i, own in enumerate(statuses.tolist())
        if own != _lib.H5L_OK
    }


def pack_cd_values(params: Params) -> tuple[int, ...]:
    """Return the cd_values for `params`: 5 words, or all 16 where the type is known."""
    words, count, message = _ffi.new("uint32_t[16]"), _ffi.new("size_t *"), _new_message()
    check(_lib.h5l_pack_cd_values(_c_params(params), words, count, message), message)
    return tuple(words[0 : count[0]])


def unpack_cd_values(words: Sequence[int]) -> Params:
    """Return what cd_values say."""
    params, message = _ffi.new("h5l_params *"), _new_message()
    check(
        _lib.h5l_unpack_cd_values(_ffi.new("uint32_t[]", words), len(words), params, message),
        message,
    )
    return Params(
        codec=params.codec,
        bound_kind=params.bound_kind,
        bound=params.bound,
        mode=params.mode,
        no_checksum=bool(params.no_checksum),
        value_bytes=params.value_bytes,
        big_endian=bool(params.big_endian),
        fill_bits=params.fill_bits if params.has_fill else None,
        maybe_padded=bool(params.maybe_padded),
        shape=tuple(params.shape[0 : params.rank]),
    )


def value_range(params: Params, raw: npt.NDArray[Any]) -> tuple[float, float] | None:
    """Return (min, max) of the valid values in a C-contiguous array; None where there is none."""
    found, message = _ffi.new("h5l_range *"), _new_message()
    with _readable(raw) as data:
        check(_lib.h5l_value_range(_c_params(params), data, raw.nbytes, found, message), message)
    return (found.min, found.max) if found.count else None


def absolute_bound(range_relative: float, smallest: float, largest: float) -> float:
    """Return the absolute bound for a range-relative one; 0 where only lossless will do."""
    return float(_lib.h5l_absolute_bound(range_relative, smallest, largest))


class AssessState:
    """What an assessment knows so far: ``h5l_assess_begin`` and the calls that follow it.

    Parameters
    ----------
    params : AssessParams
        The same for all calls; a copy with another ``value_range`` may take its place.
    state : bytes, optional
        What another state's `to_bytes` gave.
    """

    def __init__(self, params: AssessParams, state: bytes | None = None) -> None:
        self.params = params
        size = int(_lib.h5l_assess_state_bytes())
        self._words = np.zeros(-(-size // 8), np.uint64)
        if state is None:
            message = _new_message()
            check(_lib.h5l_assess_begin(self._data, message), message)
        elif len(state) == self._words.nbytes:
            self._words[:] = np.frombuffer(state, np.uint64)
        else:
            raise InvalidArgumentError(
                f"a state has {self._words.nbytes} bytes in this version, got {len(state)}"
            )

    @property
    def _data(self) -> Any:
        return _ffi.cast("void *", self._words.ctypes.data)

    def to_bytes(self) -> bytes:
        """Give the state as bytes, for a machine of the same byte order."""
        return self._words.tobytes()

    def points(
        self,
        first: int,
        original: npt.NDArray[Any],
        decoded: npt.NDArray[Any],
        mask: npt.NDArray[np.uint8] | None,
    ) -> None:
        """Take points in C order from number `first` on; all arrays are C-contiguous."""
        message = _new_message()
        check(
            _lib.h5l_assess_points(
                _c_assess_params(self.params),
                self._data,
                first,
                original.size,
                _address(original),
                _address(decoded),
                _address(mask),
                message,
            ),
            message,
        )

    def field(self, piece: Piece) -> None:
        """Take stencils, lags and windows of a piece."""
        message = _new_message()
        check(
            _lib.h5l_assess_field(
                _c_assess_params(self.params), self._data, _c_piece(piece), message
            ),
            message,
        )

    def boxes(self, piece: Piece, extent: tuple[int, ...], boxes: npt.NDArray[Any]) -> None:
        """Add a piece to boxes of `BOX_DTYPE`."""
        message = _new_message()
        check(
            _lib.h5l_assess_boxes(
                _c_assess_params(self.params),
                _c_piece(piece),
                _ffi.new("uint64_t[4]", list(extent)),
                _ffi.cast("h5l_assess_box *", boxes.ctypes.data),
                boxes.size,
                message,
            ),
            message,
        )

    def merge(self, other: AssessState) -> None:
        """Add what another state knows of other points."""
        message = _new_message()
        check(
            _lib.h5l_assess_merge(_c_assess_params(other.params), self._data, other._data, message),
            message,
        )

    def points_result(self) -> PointsResult:
        """Give what is known of points so far."""
        points = _ffi.new("h5l_assess_points_result *")
        self._give(points, _ffi.NULL)
        return _points_result(points)

    def field_result(self) -> FieldResult:
        """Give what is known of stencils, lags and windows so far."""
        field = _ffi.new("h5l_assess_field_result *")
        self._give(_ffi.NULL, field)
        return _field_result(field)

    def _give(self, points: Any, field: Any) -> None:
        message = _new_message()
        check(
            _lib.h5l_assess_result(
                _c_assess_params(self.params), self._data, points, field, message
            ),
            message,
        )


def _c_assess_params(params: AssessParams) -> Any:
    c = _ffi.new("h5l_assess_params *")
    c.value_bytes = params.value_bytes
    c.original_big_endian = params.original_big_endian
    c.decoded_big_endian = params.decoded_big_endian
    c.has_fill = params.fill_bits is not None
    c.fill_bits = params.fill_bits or 0
    c.bound_kind = params.bound_kind
    c.threads = params.threads
    c.limit = params.limit
    c.half_limit = params.half_limit
    c.histogram_limit = params.histogram_limit
    c.pointwise_threshold = params.pointwise_threshold
    c.threshold_count = len(params.thresholds)
    c.thresholds[0 : len(params.thresholds)] = params.thresholds
    c.lags = params.lags
    c.stencils = params.stencils
    c.window = params.window
    c.step = params.step
    c.rank = len(params.shape)
    c.shape[0 : len(params.shape)] = params.shape
    c.spacing[0 : len(params.spacing)] = params.spacing
    c.value_range = params.value_range
    c.on_device = params.on_device
    return c


def _c_piece(piece: Piece) -> Any:
    c = _ffi.new("h5l_assess_piece *")
    rank = piece.original.ndim
    c.original = _address(piece.original)
    c.decoded = _address(piece.decoded)
    c.mask = _ffi.cast("uint8_t *", _address(piece.mask))
    c.original_strides[0:rank] = piece.original.strides
    c.decoded_strides[0:rank] = piece.decoded.strides
    c.origin[0:rank] = piece.origin
    c.extent[0:rank] = piece.original.shape
    c.own_origin[0:rank] = piece.own_origin
    c.own_extent[0:rank] = piece.own_shape
    if piece.mask is not None:
        c.mask_strides[0:rank] = piece.mask.strides
    return c


def _address(array: Any) -> Any:
    """Return where an array of NumPy's begins, or one of CuPy's."""
    if array is None:
        return _ffi.NULL
    on_host = isinstance(array, np.ndarray)
    return _ffi.cast("void *", array.ctypes.data if on_host else array.data.ptr)


def _point(c: Any) -> Point:
    return Point(at=c.at, original=c.original, decoded=c.decoded)


def _numbers(c_array: Any, dtype: type[np.generic]) -> npt.NDArray[Any]:
    return np.frombuffer(_ffi.buffer(c_array), dtype).copy()


def _plain_fields(of: type) -> tuple[str, ...]:
    """Return the fields that are numbers in C, too."""
    return tuple(name for name, kind in of.__annotations__.items() if kind in {"int", "float"})


_PLAIN_OF_POINTS = _plain_fields(PointsResult)
_PLAIN_OF_FIELD = _plain_fields(FieldResult)


def _points_result(c: Any) -> PointsResult:
    return PointsResult(
        **{name: getattr(c, name) for name in _PLAIN_OF_POINTS},
        special=dict(zip(SPECIAL_KINDS, c.special, strict=True)),
        special_first=dict(zip(SPECIAL_KINDS, c.special_first, strict=True)),
        worst=_point(c.worst),
        threshold_crossings=tuple(c.threshold_crossings),
        listed=tuple(_point(c.violation[i]) for i in range(c.listed)),
        log_bins=_numbers(c.log_bins, np.uint64),
        linear_bins=_numbers(c.linear_bins, np.uint64),
    )


def _field_result(c: Any) -> FieldResult:
    lags = (5, -1)
    return FieldResult(
        **{name: getattr(c, name) for name in _PLAIN_OF_FIELD},
        slope_max=tuple(c.slope_max),
        slope_error_max=tuple(c.slope_error_max),
        slope_error_squares=tuple(c.slope_error_squares),
        lag_pairs=_numbers(c.lag_pairs, np.float64).reshape(lags),
        lag_products=_numbers(c.lag_products, np.float64).reshape(lags),
        lag_sums=_numbers(c.lag_sums, np.float64).reshape(lags),
        window_at=tuple(c.window_at),
    )


def plugin_info() -> int:
    """Return the address of the filter's ``H5Z_class2_t``, as ``H5Zregister`` takes it."""
    return int(_ffi.cast("uintptr_t", _lib.H5PLget_plugin_info()))


def _new_message() -> Any:
    return _ffi.new("h5l_message *")


def _readable(buffer: Any) -> Any:
    return _ffi.from_buffer(memoryview(buffer))


def _writable(array: npt.NDArray[Any]) -> Any:
    return _ffi.from_buffer(array, require_writable=True)


@dataclass(frozen=True)
class _CParts:
    """What C gets of `Parts`; the struct points into the arrays."""

    struct: Any
    numbers: tuple[Any, Any]


def _c_parts(parts: Parts) -> tuple[_CParts, npt.NDArray[np.uintp], npt.NDArray[np.uintp]]:
    """Return C's struct, the address of each part's first value, and the bytes of each chunk."""
    c = _ffi.new("h5l_parts *")
    rank = len(parts.chunk)
    c.rank = rank
    c.chunk[0:rank] = parts.chunk
    c.strides[0:rank] = parts.array.strides
    c.padding_bits = int.from_bytes(parts.padding.tobytes(), "little")
    first, extents = (np.ascontiguousarray(n, np.uint64) for n in (parts.first, parts.extents))
    c.first, c.extents = _c_array("uint64_t[]", first), _c_array("uint64_t[]", extents)
    offsets = parts.corners @ np.array(parts.array.strides, np.int64)
    addresses = (parts.array.ctypes.data + offsets).astype(np.uintp)
    return _CParts(c, (first, extents)), addresses, np.full(len(parts), parts.chunk_bytes, np.uintp)


def _row_addresses(room: npt.NDArray[np.uint8], count: int) -> npt.NDArray[np.uintp]:
    first = room.ctypes.data
    return (first + np.arange(count) * room.strides[0]).astype(np.uintp)


def _c_array(ctype: str, array: npt.NDArray[Any]) -> Any:
    """Return a C-contiguous array as one of C's; it must stay alive meanwhile."""
    return _ffi.from_buffer(ctype, array)


def _c_params(params: Params) -> Any:
    c = _ffi.new("h5l_params *")
    c.codec = params.codec
    c.bound_kind = params.bound_kind
    c.bound = params.bound
    c.mode = params.mode
    c.no_checksum = params.no_checksum
    c.value_bytes = params.value_bytes
    c.big_endian = params.big_endian
    c.has_fill = params.fill_bits is not None
    c.fill_bits = params.fill_bits or 0
    c.maybe_padded = params.maybe_padded
    c.rank = len(params.shape)
    c.shape[0 : len(params.shape)] = params.shape
    return c


def _text(c_string: Any) -> str:
    return str(_ffi.string(c_string).decode("utf-8", "replace"))


def _optional_text(c_string: Any) -> str | None:
    return None if c_string == _ffi.NULL else _text(c_string)

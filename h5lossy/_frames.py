# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Arrays to frames and back, without HDF5.

A *frame* is what the filter stores in place of one chunk (``docs/format/frame.md``). It describes
itself, so decoding needs nothing but its bytes.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from h5lossy import _device, _native
from h5lossy._arrays import device_of, is_device_array
from h5lossy._bounds import BoundKind, ErrorBound
from h5lossy._codecs import CODECS, PFPL, Codec, checked_codec
from h5lossy._errors import (
    BoundError,
    CorruptFrameError,
    InvalidArgumentError,
    UnsupportedError,
)
from h5lossy._public import name_publicly
from h5lossy._ranges import prepared
from h5lossy._values import (
    checked_dtype,
    fill_bits,
    loaded,
    own_fill_value,
    unmasked,
)
from h5lossy._variables import as_stored

if TYPE_CHECKING:
    import numpy.typing as npt
    from typing_extensions import Buffer


@dataclass(frozen=True, kw_only=True)
class FrameInfo:
    """The contents of a frame's header (`inspect`).

    Attributes
    ----------
    version : int
        Format version.
    codec : str
        The codec that was used, "pfpl" and so on, or "stored" where the frame holds the chunk as it
        was. It may differ from the one that was requested: Auto picks one, and of floats only PFPL
        is lossless.
    bound : ErrorBound
        The bound as it was used. It is lossless where the requested one was too small for the
        codec.
    requested_bound : float
        The bound's value as it was requested; 0 for lossless.
    dtype : numpy.dtype
        Type of the values; ``uint8`` where the encoder did not know it.
    mode : int
        The codec's mode as a number; `settings` says what it means.
    checksum : bool
        Whether there is a checksum of the payload.
    header_bytes, raw_bytes, frame_bytes : int
        Size of the fixed fields, without the tile table; of the chunk; and of the frame.
    tiles, stored_tiles : int
        Number of tiles, and of those kept as they were.
    step : float
        Bin width if the bound is absolute or range-relative (of integers, 2 b + 1 for a bound of b
        counts); the largest width as a fraction of
        the value if it is pointwise-relative; else 0.
    dims : tuple of int
        Extents (z, y, x) or (w, z, y, x), where the codec's mode works in several dimensions; else
        empty.
    """

    version: int
    codec: str
    bound: ErrorBound
    requested_bound: float
    dtype: np.dtype[Any]
    mode: int
    checksum: bool
    header_bytes: int
    raw_bytes: int
    frame_bytes: int
    tiles: int
    stored_tiles: int
    step: float
    dims: tuple[int, ...]

    @property
    def count(self) -> int:
        """Number of values."""
        return self.raw_bytes // self.dtype.itemsize

    @property
    def settings(self) -> dict[str, Any]:
        """What `mode` means: the codec's own settings, such as ``{"mode": "outlier", ...}``."""
        classes = self._classes()
        return classes[0].chosen_by(self.mode & ~classes[0].exact_bit) if classes else {}

    @property
    def is_exact(self) -> bool:
        """Whether the values have their own lattice, with a step near `step`: none was moved."""
        return any(self.mode & cls.exact_bit for cls in self._classes())

    def _classes(self) -> list[type[Codec]]:
        """Return the class of the codec, if there is one."""
        return [cls for cls in CODECS.values() if cls.codec_name == self.codec]

    @property
    def ratio(self) -> float:
        """Raw bytes by frame bytes."""
        return self.raw_bytes / self.frame_bytes


def max_encoded_size(raw_bytes: int) -> int:
    """Return the size of the largest frame that so many bytes of values can need.

    4 GiB - 40 bytes or more do not fit into one frame, and raise `InvalidArgumentError`.

    Examples
    --------
    >>> max_encoded_size(1000)
    1040
    """
    count = operator.index(raw_bytes)
    size = _native.max_encoded_size(count) if 0 <= count < 2**32 else 0
    if size == 0:
        raise InvalidArgumentError(
            f"a frame takes less than 4 GiB - 40 bytes of values, got {raw_bytes}; encode parts"
        )
    return size


def encode(array: Any, codec: Codec, *, fill_value: Any = "auto", out: Any = None) -> Any:
    """Encode an array into one frame.

    Parameters
    ----------
    array : array_like
        float16, bfloat16 (of ml_dtypes), float32, float64, complex64, complex128 or integers of 8
        to 64 bits, of either byte order, any shape and memory layout, less than 4 GiB - 40 bytes.
        Integers and halves take PFPL, Interp or Auto; bounds of integers are in counts, rounded
        down, and below 1 lossless. Bounds of complex numbers are those of each component. The frame
        holds the values in C order. Masked points are encoded as the fill value. It may be on a GPU
        (all types but bfloat16): of CuPy, of PyTorch, or anything else with
        ``__cuda_array_interface__`` or DLPack.
    codec : Codec
        Codec and bound: ``PFPL(absolute=1e-3)`` and the like. A range-relative bound is taken over
        the whole array, zeros included, and what is no data excluded.
    fill_value : float, "auto" or None, optional
        Values with its bits come back bit for bit, no other value turns into it (unless it
        is +0.0), and a range-relative bound leaves it out of the range. "auto": that of a dataset,
        or of an array with masked points; none for other arrays.
    out : writable bytes-like, optional
        Memory for the frame: at least `max_encoded_size` bytes. For large arrays that saves a copy
        to new memory. Not for arrays on a GPU.

    Returns
    -------
    bytes, a memoryview of `out`, or an array of bytes on the GPU
        The frame; the same for the same values on every machine. That of an array on a GPU is there
        too, as an array of the same library (PyTorch, else CuPy).

    Raises
    ------
    UnsupportedError
        If the array has another type.
    InvalidArgumentError
        If the array is too large, its type can't hold the fill value, points are masked and there
        is no fill value, or `out` is too small.
    """
    checked_codec(codec)
    is_own = isinstance(fill_value, str)
    if is_device_array(array):
        _require_host(out)
        fill = None if is_own else fill_value
        return _device.encode(array, partial(frame_params, codec, fill))
    array, missing = prepared(array, fill_value, lossless=codec.lossless)
    max_encoded_size(_nbytes(array))  # refuses what does not fit into a frame, before it is read
    if missing.has_more:  # which the codec itself would take for data
        codec = codec.resolve(array, fill_value)
    with as_stored(array):
        values = loaded(array[...])
    fill = missing.fill  # in the array's type
    if fill is None:  # NaN is one, too, for masked points
        fill = own_fill_value(values) if is_own else fill_value
    values = np.asarray(unmasked(values, fill), dtype=array.dtype, order="C")
    params = frame_params(codec, fill, values)
    return _native.encode(params, values) if out is None else _encode_into(params, values, out)


def _encode_into(params: _native.Params, values: npt.NDArray[Any], out: Any) -> memoryview:
    """Encode into the caller's memory."""
    room, most = memoryview(out), _native.max_encoded_size(values.nbytes)
    if room.readonly or not room.c_contiguous or room.nbytes < most:
        raise InvalidArgumentError(
            f"out must be contiguous memory to write at least {most} bytes to, got "
            f"{'read-only ' if room.readonly else ''}memory of {room.nbytes}"
        )
    if np.asarray(room).dtype.hasobject:
        raise InvalidArgumentError("out must be memory of numbers, got an array of objects")
    memory = np.frombuffer(room, np.uint8)
    _check_apart(memory, values)
    size = _native.encode_into(params, values, memory)
    return memory.data[:size]


def _require_host(out: Any) -> None:
    """Raise if host memory is given for a result that stays on a GPU."""
    if out is not None:
        raise InvalidArgumentError("out is memory of the host, and what is on a GPU stays there")


def _nbytes(array: Any) -> int:
    """Return the bytes of an array's values; of dask, their number may be unknown."""
    values = math.prod(array.shape or ())
    return 0 if math.isnan(values) else values * array.dtype.itemsize


def frame_params(codec: Codec, fill_value: Any, values: Any) -> _native.Params:
    """Return how values become a frame; raise if their type or size is not allowed."""
    dtype = checked_dtype(values.dtype)
    max_encoded_size(values.nbytes)  # refuses what does not fit into a frame
    return chunk_params(codec, dtype, values.shape, fill_value)


def decode(
    frame: Any,
    start: int | None = None,
    stop: int | None = None,
    *,
    shape: tuple[int, ...] | None = None,
    out: npt.NDArray[Any] | None = None,
) -> Any:
    """Decode a frame, or some of its values.

    Parameters
    ----------
    frame : bytes-like
        The frame, contiguous in memory. It may come from anywhere: a broken one raises, and never
        does harm. But a frame of a few bytes may stand for up to 4 GiB of equal values: if the
        number of values is known, give `shape`, which is compared before anything is decoded; if
        not, `inspect` returns it. An array of bytes on a GPU is decoded there.
    start, stop : int, optional
        Decode the values from number `start` up to, but not including, number `stop`:
        ``0 <= start <= stop <= count``. Only the tiles that hold them are read, so the payload's
        checksum is not checked. Default: all values.
    shape : tuple of int, optional
        Shape of the result; one extent may be -1. Default: one dimension.
    out : numpy.ndarray, optional
        Array for the values, of any shape, in C order: as many as there are, of the frame's type.
        From about 64 MiB on, new memory takes as long as decoding, so give the same array for one
        frame after another. Not for a frame on a GPU.

    Returns
    -------
    numpy.ndarray
        `out`, or a new array of the type and byte order of the data that was encoded;
        ``uint8`` where the encoder did not know the type. Of a frame on a GPU, an array there, in
        the GPU's byte order.

    Raises
    ------
    TruncatedFrameError, CorruptFrameError, UnsupportedError
        If the frame ends too early, is broken in another way, or is of a later version.
    InvalidArgumentError
        If `start`, `stop`, `shape` or `out` does not fit the frame.

    Examples
    --------
    >>> import numpy as np
    >>> from h5lossy import PFPL
    >>> frame = encode(np.arange(6, dtype=np.float32), PFPL(absolute=0.5))
    >>> decode(frame, 4, shape=(2, 1)).tolist()
    [[4.0], [5.0]]
    """
    is_on_device = is_device_array(frame)
    memory, info = _device.open_frame(frame) if is_on_device else (None, _native.inspect(frame))
    dtype = info.dtype
    count = info.raw_bytes // dtype.itemsize
    first = 0 if start is None else operator.index(start)
    end = count if stop is None else operator.index(stop)
    if not 0 <= first <= end <= count:
        raise InvalidArgumentError(
            f"start and stop must be 0 <= start <= stop <= {count}, the frame's number of values, "
            f"got start={first}, stop={end}"
        )
    if memory is not None:
        _require_host(out)
        native = dtype.newbyteorder("=")  # GPUs support no other
        target = memory.library.empty((end - first,), native, device_of(memory))
        on_gpu = _shaped(target.owner, end - first, shape)
        _device.decode(memory, info, first, target)
        return on_gpu
    if out is None:
        flat = np.empty(end - first, dtype)
        values = _shaped(flat, end - first, shape)
    else:
        _check_out(out, end - first, dtype, shape)
        _check_apart(out, np.frombuffer(frame, np.uint8))
        flat = values = out
    if (first, end) == (0, count):
        _native.decode(frame, flat)
    else:
        _native.decode_range(frame, first, flat)
    return values


def _check_out(out: Any, count: int, dtype: np.dtype[Any], shape: Any) -> None:
    """Raise if `count` values can't be decoded into `out`."""
    if shape is not None:
        raise InvalidArgumentError("out has a shape of its own; give out or shape, not both")
    if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
        raise TypeError(f"out must be a NumPy array, got {type(out).__name__}")
    if out.size != count or out.dtype != dtype:
        raise InvalidArgumentError(
            f"out must hold {count} values of {dtype.str}, got {out.size} of {out.dtype.str}"
        )
    if not (out.flags.c_contiguous and out.flags.writeable):
        raise InvalidArgumentError("out must be writable, and in C order without gaps")


def _check_apart(out: npt.NDArray[Any], given: npt.NDArray[Any]) -> None:
    """Raise if writing to `out` may destroy data that is still to be read."""
    if np.may_share_memory(out, given):
        raise InvalidArgumentError("out must not be memory that holds what is encoded or decoded")


def _shaped(flat: Any, count: int, shape: tuple[int, ...] | None) -> Any:
    """Return values in the shape that the caller of `decode` gave."""
    try:
        return flat if shape is None else flat.reshape(shape)
    except (ValueError, RuntimeError):  # PyTorch's is the latter
        raise InvalidArgumentError(f"shape must hold {count} values, got {shape}") from None


def inspect(frame: Buffer) -> FrameInfo:
    """Read the header of a frame, without decoding the frame.

    Header and tile table are checked, the payload is not. The frame is whole, as `decode` takes
    it, and the errors are those of `decode`.

    Examples
    --------
    >>> import numpy as np
    >>> from h5lossy import PFPL
    >>> info = inspect(encode(np.zeros(1000, ">f4"), PFPL(absolute=0.5)))
    >>> info.codec, str(info.bound), info.count, info.dtype.str
    ('pfpl', 'absolute 0.5', 1000, '>f4')
    """
    info = _native.inspect(frame)
    kind = BoundKind.from_number(info.bound_kind)
    try:
        floor = int(info.step) // 2 if kind is BoundKind.NOISE else 0
        bound = ErrorBound(kind, 0.0 if kind is BoundKind.LOSSLESS else info.bound, floor)
    except BoundError as error:  # a stored frame is decoded without looking at its bound
        raise CorruptFrameError(f"the frame's bound is not allowed: {error}") from error
    own: dict[str, Any] = {
        "codec": _native.codec_name(info.codec) or "stored",
        "bound": bound,
        "requested_bound": info.bound,
        "checksum": info.has_checksum,
    }
    names = FrameInfo.__dataclass_fields__.keys() - own.keys()
    return FrameInfo(**own, **{name: getattr(info, name) for name in names})


def complete_filter_options(
    codec: Codec, dtype: np.dtype[Any], chunks: tuple[int, ...], fill_value: Any = None
) -> tuple[int, ...]:
    """Return all cd_values, as set_local would store them; raise if the chunks are too large."""
    words = _native.pack_cd_values(chunk_params(codec, dtype, chunks, fill_value))
    _native.unpack_cd_values(words)
    return words


def checked_for(codec: Codec, dtype: np.dtype[Any], fill_value: Any = None) -> np.dtype[Any]:
    """Return a type if a codec takes it with its bound; raise before anything is written."""
    complete_filter_options(codec, checked_dtype(dtype), (1,), fill_value)
    return dtype


def takes(codec: Codec, dtype: np.dtype[Any]) -> bool:
    """Return whether a class of codecs takes a type, whatever the bound."""
    try:
        checked_for(codec.with_bound(lossless=True), dtype)
    except UnsupportedError:
        return False
    return True


def taking(codec: Codec, dtype: np.dtype[Any]) -> Codec:
    """Return a codec, or PFPL with its bound where that does not take a type."""
    if takes(codec, dtype):
        return codec
    own = {field.name for field in codec.choices()}
    return PFPL(**{name: v for name, v in codec.get_config().items() if name not in own})


def chunk_params(
    codec: Codec, dtype: np.dtype[Any], shape: tuple[int, ...], fill_value: Any
) -> _native.Params:
    """Return everything that the library has to know about a chunk."""
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        for number in codec.params().exact:
            if not info.min <= number <= info.max:
                raise InvalidArgumentError(
                    f"the exact value {number} is none of {dtype.name}, which has numbers from "
                    f"{info.min} to {info.max}; give one that the data has"
                )
    return codec.params().replaced(
        **_native.type_fields(dtype),
        fill_bits=fill_bits(fill_value, dtype, lossless=codec.lossless),
        # The components of complex numbers are one more axis.
        shape=_frame_shape((*shape, 2) if dtype.kind == "c" else shape),
    )


def _frame_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape as the library takes it: no extents of 1, no more than it has room for."""
    if 0 in shape:
        return ()
    extents = tuple(n for n in shape if n != 1)
    surplus = len(extents) - _native.MAX_RANK
    if surplus > 0:
        extents = math.prod(extents[: surplus + 1]), *extents[surplus + 1 :]
    # The library has 32 bits for each, and refuses so many values.
    return tuple(min(n, 0xFFFFFFFF) for n in extents)


name_publicly(__name__)

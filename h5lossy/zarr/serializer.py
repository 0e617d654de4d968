# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The codecs for Zarr format 3."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import numpy as np
import zarr
from zarr.abc.codec import ArrayBytesCodec, ArrayBytesCodecPartialDecodeMixin, BytesBytesCodec
from zarr.buffer import cpu

from h5lossy import _device, _native
from h5lossy._arrays import cupy_memory
from h5lossy._codecs import FILTER_NAME, Codec
from h5lossy._errors import CorruptFrameError, InvalidArgumentError, UnsupportedError
from h5lossy._frames import checked_for
from h5lossy.zarr.compressor import (
    Compressor,
    arguments_of,
    codec_of,
    encoded,
    padded_params,
    words_of,
)
from h5lossy.zarr.on_gpu import decode_chunks, encode_chunks, is_on_gpu

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

#: Zarr's own types, which its releases import from different places.
Buffer: TypeAlias = Any
NDBuffer: TypeAlias = Any
ArraySpec: TypeAlias = Any


class _ZarrCodec:
    """The common part of the codecs: chunks are decoded in a thread, and frames have any size."""

    is_fixed_size: ClassVar[bool] = False
    codec_name: ClassVar[str]
    to_dict: Any
    _decode_sync: Any

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Return the codec that an entry of ``codecs`` in Zarr's metadata means."""
        configuration = data.get("configuration") if isinstance(data, dict) else None
        if not isinstance(configuration, dict) or "codec" not in configuration:
            raise InvalidArgumentError(
                f"the configuration of the codec {cls.codec_name} is like "
                f'{{"codec": "PFPL", "absolute": 0.001}}, got {configuration!r}'
            )
        return cls(**configuration)

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:
        """Not defined: the size of a frame depends on the values."""
        raise NotImplementedError

    async def _decode_single(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Any:
        return await asyncio.to_thread(self._decode_sync, chunk_data, chunk_spec)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({arguments_of(self.to_dict()['configuration'])})"


@dataclass(frozen=True, init=False, repr=False)
class Serializer(_ZarrCodec, ArrayBytesCodec, ArrayBytesCodecPartialDecodeMixin):  # type: ignore[misc]
    """The codec for Zarr format 3: ``serializer=``, with ``compressors=None``.

    The array's fill value, that of Zarr, comes back bit for bit, and no other value turns into it
    (unless it is +0.0). Of a chunk that is read in part, only the tiles that hold the part are
    decoded (on a GPU, all); the frame is read whole, and its checksum is checked.

    Parameters
    ----------
    codec : Codec or str
        Codec and bound: ``PFPL(absolute=1e-3)`` and the like, or the codec's name with its
        arguments as `settings`. A range-relative bound is taken over each chunk, zeros and the
        fill value left out.
    **settings
        The codec's arguments, if it is given by name.

    Examples
    --------
    >>> from h5lossy import PFPL
    >>> Serializer(PFPL(absolute=1e-3)).to_dict()
    {'name': 'h5lossy', 'configuration': {'codec': 'PFPL', 'absolute': 0.001}}
    """

    codec: Codec

    codec_name: ClassVar[str] = FILTER_NAME

    def __init__(self, codec: Codec | str, **settings: Any) -> None:
        object.__setattr__(self, "codec", codec_of(codec, settings))

    def to_dict(self) -> dict[str, Any]:
        """Return the entry for Zarr's metadata."""
        return {"name": self.codec_name, "configuration": words_of(self.codec)}

    def evolve_from_array_spec(self, array_spec: ArraySpec) -> Self:
        """Refuse arrays of types that have no such bound, or no such codec."""
        checked_for(self.codec, array_spec.dtype.to_native_dtype(), array_spec.fill_value)
        return self

    async def _encode_single(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> Buffer:
        return await asyncio.to_thread(self._encode_sync, chunk_data, chunk_spec)

    def _encode_sync(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> Buffer:
        on_gpu = is_on_gpu(chunk_spec.prototype)
        # On the host, Zarr hands on what it was given, which need not be an array of NumPy.
        values = chunk_data.as_ndarray_like() if on_gpu else chunk_data.as_numpy_array()
        self._check_type(values.dtype, chunk_spec)
        fill, buffer = chunk_spec.fill_value, chunk_spec.prototype.buffer
        if not on_gpu:
            return buffer.from_bytes(encoded(self.codec, fill, values))
        params_of = functools.partial(padded_params, self.codec, fill)
        return buffer.from_array_like(_device.encode(values, params_of))

    def _check_type(self, found: np.dtype[Any], chunk_spec: ArraySpec) -> None:
        """Raise if the values of a chunk are not of the array's type."""
        dtype = chunk_spec.dtype.to_native_dtype()
        if found.newbyteorder("=") != dtype.newbyteorder("="):
            raise UnsupportedError(
                f"a codec before {self.codec_name} turned {dtype} into {found} without "
                "telling Zarr, so that the chunk could not be read; leave that codec out"
            )

    def _decode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> NDBuffer:
        values = _decoded(chunk_data.as_numpy_array(), chunk_spec)
        return chunk_spec.prototype.nd_buffer.from_numpy_array(values)

    async def _decode_partial_single(
        self, byte_getter: Any, selection: Any, chunk_spec: ArraySpec
    ) -> NDBuffer | None:
        frame = await _frame(byte_getter, chunk_spec)
        if frame is None:
            return None
        with _named(byte_getter):
            values = await asyncio.to_thread(_selected, frame, selection, chunk_spec)
        return chunk_spec.prototype.nd_buffer.from_numpy_array(values)

    async def encode(self, chunks_and_specs: Any) -> list[Buffer | None]:
        """Encode chunks; on a GPU, all of ``codec_pipeline.batch_size`` at once."""
        batch = list(chunks_and_specs)
        if len(batch) == 1 or not _are_on_gpu(spec for _, spec in batch):
            return list(await super().encode(batch))
        for chunk, spec in batch:
            if chunk is not None:
                self._check_type(chunk.dtype, spec)
        frames: list[Buffer | None] = [None] * len(batch)
        for places in _alike(None if chunk is None else spec for chunk, spec in batch):
            chunks, spec = [batch[k][0] for k in places], batch[places[0]][1]
            params = padded_params(self.codec, spec.fill_value, chunks[0].as_ndarray_like())
            values = [chunk.as_ndarray_like() for chunk in chunks]
            encoded_there = await asyncio.to_thread(encode_chunks, values, params)
            if encoded_there is None:  # kernels do not encode this
                on_host = ((batch[k][0], batch[k][1]) for k in places)
                found = list(await super().encode(on_host))
            else:
                found = [spec.prototype.buffer.from_array_like(frame) for frame in encoded_there]
            for k, frame in zip(places, found, strict=True):
                frames[k] = frame
        return frames

    async def decode(self, chunks_and_specs: Any) -> list[NDBuffer | None]:
        """Decode chunks; on a GPU, all of ``codec_pipeline.batch_size`` at once."""
        batch = list(chunks_and_specs)
        if not _are_on_gpu(spec for _, spec in batch):
            return list(await super().decode(batch))
        frames = [None if chunk is None else chunk.as_numpy_array() for chunk, _ in batch]
        return await _decoded_on_gpu([None] * len(batch), frames, [spec for _, spec in batch])

    async def decode_partial(self, batch_info: Any) -> list[NDBuffer | None]:
        """Decode what is selected of chunks; on a GPU, all of ``codec_pipeline.batch_size``."""
        batch = list(batch_info)
        if not _are_on_gpu(spec for _, _, spec in batch):
            return list(await super().decode_partial(batch))
        limit = asyncio.Semaphore(zarr.config.get("async.concurrency"))

        async def get(byte_getter: Any, chunk_spec: ArraySpec) -> npt.NDArray[Any] | None:
            async with limit:
                return await _frame(byte_getter, chunk_spec)

        getters, selections, specs = zip(*batch, strict=True)
        frames = await asyncio.gather(*map(get, getters, specs))
        chunks = await _decoded_on_gpu(getters, frames, specs)
        return [
            None if chunk is None else chunk[selection]
            for chunk, selection in zip(chunks, selections, strict=True)
        ]


@dataclass(frozen=True, init=False, repr=False)
class FrameReader(_ZarrCodec, BytesBytesCodec):  # type: ignore[misc]
    """`Compressor` as a codec from bytes to bytes, with which VirtualiZarr reads HDF5 files.

    It takes the configurations of `Compressor.from_config`. It does not encode: bytes have neither
    type nor byte order, without which there is no bound.
    """

    compressor: Compressor

    codec_name: ClassVar[str] = f"numcodecs.{FILTER_NAME}"

    def __init__(self, **config: Any) -> None:
        config.pop("id", None)
        object.__setattr__(self, "compressor", Compressor.from_config(config))

    @property
    def codec_config(self) -> dict[str, Any]:
        """The configuration of the codec of numcodecs, as VirtualiZarr asks for it."""
        return self.compressor.get_config()

    def to_dict(self) -> dict[str, Any]:
        """Return the entry for Zarr's metadata."""
        config = self.codec_config
        del config["id"]
        return {"name": self.codec_name, "configuration": config}

    async def _encode_single(self, *_: Any) -> Buffer:
        raise UnsupportedError(
            f"{self.codec_name} only reads; to write, make an array with "
            f"serializer=h5lossy.zarr.{Serializer.__name__}(...) and compressors=None"
        )

    def _decode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> Buffer:
        frame = chunk_data.as_numpy_array()
        _dtype(frame, chunk_spec)  # refuses frames of other chunks
        values = self.compressor.decode(frame)
        return chunk_spec.prototype.buffer.from_bytes(values.view(np.uint8).data)


async def _frame(byte_getter: Any, chunk_spec: ArraySpec) -> npt.NDArray[Any] | None:
    """Return a chunk's frame in host memory, or None if there is none."""
    # Chunks of a shard take no other prototype than the array's.
    prototype = cpu.buffer_prototype if hasattr(byte_getter, "path") else chunk_spec.prototype
    frame = await byte_getter.get(prototype=prototype)
    return None if frame is None else frame.as_numpy_array()


@contextlib.contextmanager
def _named(byte_getter: Any) -> Iterator[None]:
    """Put the name of a chunk before what is wrong with its frame."""
    try:
        yield
    except _native.FRAME_ERRORS as error:
        if not hasattr(byte_getter, "path"):  # a chunk of a shard does not know its own name
            raise
        raise type(error)(f"{byte_getter}: {error}") from error


def _dtype(frame: npt.NDArray[Any], chunk_spec: ArraySpec) -> np.dtype[Any]:
    """Return the type of a frame's values; raise if it does not hold such a chunk."""
    info = _native.inspect(frame)
    dtype: np.dtype[Any] = chunk_spec.dtype.to_native_dtype()
    wanted = math.prod(chunk_spec.shape) * dtype.itemsize
    if info.raw_bytes != wanted:
        raise CorruptFrameError(
            f"the frame holds {info.raw_bytes} bytes of values, and a chunk of shape "
            f"{chunk_spec.shape} and type {dtype} has {wanted}"
        )
    if not info.is_typed:  # HDF5 did not tell the filter the type
        return dtype
    if info.dtype.newbyteorder("=") != dtype.newbyteorder("="):
        raise CorruptFrameError(f"the frame holds {info.dtype}, and the array is of {dtype}")
    return info.dtype


def _decoded(frame: npt.NDArray[Any], chunk_spec: ArraySpec) -> npt.NDArray[Any]:
    """Decode a chunk."""
    flat = np.empty(math.prod(chunk_spec.shape), _dtype(frame, chunk_spec))
    _native.decode(frame, flat)
    return flat.reshape(chunk_spec.shape)


def _are_on_gpu(specs: Iterable[ArraySpec]) -> bool:
    """Return whether all chunks of a batch are on a GPU."""
    places = {is_on_gpu(spec.prototype) for spec in specs}
    return places == {True}


def _alike(specs: Iterable[ArraySpec | None]) -> list[list[int]]:
    """Return the places of chunks of each shape and type together; those that are None are out."""
    places: dict[Any, list[int]] = {}
    for k, spec in enumerate(specs):
        if spec is not None:
            places.setdefault((spec.shape, spec.dtype), []).append(k)
    return list(places.values())


async def _decoded_on_gpu(
    byte_getters: Sequence[Any],
    frames: Sequence[npt.NDArray[Any] | None],
    specs: Sequence[ArraySpec],
) -> list[NDBuffer | None]:
    """Decode frames, each of which has the name of its byte getter; None stays None."""
    chunks: list[NDBuffer | None] = [None] * len(frames)
    pairs = zip(frames, specs, strict=True)
    for places in _alike(None if frame is None else spec for frame, spec in pairs):
        spec = specs[places[0]]
        named = [(byte_getters[k], frames[k]) for k in places]
        for k, chunk in zip(places, await _decoded_alike(named, spec), strict=True):
            chunks[k] = spec.prototype.nd_buffer.from_ndarray_like(chunk)
    return chunks


async def _decoded_alike(named: list[tuple[Any, Any]], chunk_spec: ArraySpec) -> Any:
    """Decode frames, each given with its byte getter, into an array with one more axis."""
    # In this thread, whose GPU Zarr's own arrays are on.
    shape, dtype = (len(named), *chunk_spec.shape), chunk_spec.dtype.to_native_dtype()
    values = chunk_spec.prototype.nd_buffer.create(shape=shape, dtype=dtype).as_ndarray_like()
    for byte_getter, frame in named:
        with _named(byte_getter):
            _dtype(frame, chunk_spec)  # refuses frames of other chunks

    async def on_host(byte_getter: Any, frame: npt.NDArray[Any]) -> npt.NDArray[Any]:
        with _named(byte_getter):
            return await asyncio.to_thread(_decoded, frame, chunk_spec)

    left = await asyncio.to_thread(decode_chunks, [frame for _, frame in named], values)
    host = await asyncio.gather(*(on_host(*named[k]) for k in left))
    for k, decoded in zip(left, host, strict=True):
        target = cupy_memory(values[k : k + 1])
        target.library.assign(target, decoded.astype(dtype, copy=False)[None])
    return values


def _selected(frame: npt.NDArray[Any], selection: Any, chunk_spec: ArraySpec) -> npt.NDArray[Any]:
    """Decode what is selected of a chunk."""
    box = _box(selection, chunk_spec.shape)
    if box is None or [len(side) for side in box] == list(chunk_spec.shape):
        return np.asanyarray(_decoded(frame, chunk_spec)[selection])
    values = np.empty([len(side) for side in box], _dtype(frame, chunk_spec))
    parts = _native.Parts(
        array=values,
        chunk=chunk_spec.shape,
        corners=np.zeros((1, len(box)), np.int64),
        first=np.array([[side.start for side in box]]),
        extents=np.array([values.shape]),
        padding=np.zeros((), values.dtype),
    )
    params = _native.Params(**_native.type_fields(values.dtype))
    for error in _native.decode_parts(params, parts, [frame], 1).values():
        raise error
    inside = tuple(
        slice(None, None, chosen.step) if isinstance(chosen, slice) else chosen - side.start
        for chosen, side in zip(selection, box, strict=True)
    )
    return np.asanyarray(values[inside])


def _box(selection: Any, shape: tuple[int, ...]) -> list[range] | None:
    """Return the smallest box that holds a selection; None where that is not worth a look."""
    if not isinstance(selection, tuple) or not 0 < len(selection) == len(shape):
        return None
    if len(shape) > _native.MAX_PART_RANK:
        return None
    box = []
    for chosen, extent in zip(selection, shape, strict=True):
        if isinstance(chosen, slice):
            places = range(*chosen.indices(extent))
            side = range(places[0], places[-1] + 1) if places else range(0)
        elif isinstance(chosen, int | np.integer):
            side = range(int(chosen), int(chosen) + 1)
        elif isinstance(chosen, np.ndarray) and chosen.dtype.kind in "iu" and chosen.size:
            side = range(int(chosen.min()), int(chosen.max()) + 1)
        else:
            return None
        if not side or side.start < 0 or side.stop > extent:
            return None
        box.append(side)
    return box

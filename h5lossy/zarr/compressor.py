# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The codec for Zarr format 2, and for everything else that uses codecs of numcodecs."""

from __future__ import annotations

import dataclasses
import inspect
import math
import operator
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numcodecs import abc
from numcodecs.compat import ensure_contiguous_ndarray

from h5lossy import _native
from h5lossy._codecs import (
    CODECS,
    FILTER_NAME,
    Codec,
    codec_from_params,
    from_filter_options,
    unpacked,
)
from h5lossy._errors import CorruptFrameError, InvalidArgumentError, UnsupportedError
from h5lossy._frames import checked_for, frame_params
from h5lossy._values import checked_dtype, fill_bits

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The codecs by the names that Zarr's metadata have.
_CLASSES = {cls.__name__: cls for cls in CODECS.values()}


class Compressor(abc.Codec):  # type: ignore[misc]
    """The codec for Zarr format 2, in its ``compressors=`` or as the last of its ``filters=``.

    Parameters
    ----------
    codec : Codec or str
        As for `Serializer`.
    **settings
        As for `Serializer`.
    fill_value : number, optional
        Comes back bit for bit, and no other value turns into it (unless it is +0.0): give what the
        array has as fill value, which Zarr does not pass on. NaN, infinities and 0 are kept anyway.
    dtype : dtype, optional
        The array's type, which Zarr does not pass on either.
    chunks : tuple of int, optional
        The shape of its chunks, likewise: give both, or neither. Frames of anything else are
        refused. Without them, a foreign frame may be read as values of another type, and one of a
        few bytes may take 4 GiB of memory.

    Examples
    --------
    >>> from h5lossy import PFPL
    >>> Compressor(PFPL(absolute=1e-3), dtype="f4", chunks=(64, 64)).get_config()
    {'id': 'h5lossy', 'codec': 'PFPL', 'absolute': 0.001, 'dtype': '<f4', 'chunks': [64, 64]}
    """

    codec_id: ClassVar[str] = FILTER_NAME

    def __init__(
        self,
        codec: Codec | str,
        *,
        fill_value: Any = None,
        dtype: Any = None,
        chunks: Sequence[int] | None = None,
        **settings: Any,
    ) -> None:
        self._codec = codec_of(codec, settings)
        self._dtype = None if dtype is None else checked_for(self._codec, np.dtype(dtype))
        self._chunks = () if chunks is None else _extents(chunks)
        if (dtype is None) != (chunks is None):
            raise InvalidArgumentError("give both of dtype and chunks, or neither")
        self._fill_value = None
        if isinstance(fill_value, list) and len(fill_value) == 2:  # a complex number in JSON
            fill_value = complex(*fill_value)
        # Without a type, the value has to fit that of each chunk that is encoded.
        of_type = self._dtype or np.asarray(fill_value).dtype
        if fill_bits(fill_value, of_type, lossless=self._codec.lossless):
            fill: Any = np.asarray(fill_value).item()  # for JSON
            if np.isfinite(fill):
                self._fill_value = fill

    def encode(self, buf: Any) -> bytes:
        """Return the frame of a chunk.

        `buf` is of a type that `h5lossy.encode` takes, of any shape, and less than 4 GiB - 40
        bytes. The frame holds the values in the order in which they are in memory.
        """
        values = np.asarray(buf)
        checked_dtype(values.dtype)
        if self._dtype is None and values.dtype == np.uint8 and not self._codec.lossless:
            raise UnsupportedError(
                "a buffer of uint8 may hold bytes of anything, which no bound suits; if they are "
                "numbers, give dtype='u1' and chunks"
            )
        self._check(values.dtype, values.nbytes, InvalidArgumentError, "the chunk")
        is_fortran = values.flags.f_contiguous and not values.flags.c_contiguous
        return encoded(self._codec, self._fill_value, values.T if is_fortran else values)

    def decode(self, buf: Any, out: Any = None) -> Any:
        """Decode a frame: into `out`, which has the values' size, or a new array of one dimension.

        The new array has the type and byte order of the data that was encoded (``uint8`` where the
        encoder did not know the type). A frame that is not a chunk of the array is corrupt.
        """
        frame = ensure_contiguous_ndarray(buf)
        info = _native.inspect(frame)
        known = info.dtype if info.is_typed else None
        self._check(known, info.raw_bytes, CorruptFrameError, "the frame")
        if out is None:
            values = np.empty(info.raw_bytes // info.dtype.itemsize, info.dtype)
        else:
            values = ensure_contiguous_ndarray(out)
            if values.nbytes != info.raw_bytes:
                raise CorruptFrameError(
                    f"the frame holds {info.raw_bytes} bytes of values, and out has {values.nbytes}"
                )
        _native.decode(frame, values)
        return values if out is None else out

    def _check(
        self, dtype: np.dtype[Any] | None, size: int, error: type[Exception], what: str
    ) -> None:
        """Raise unless values have the type and size of the array's chunks, where it is known."""
        if self._dtype is None:
            return
        if dtype is not None and dtype != self._dtype:
            raise error(f"{what} holds {dtype.str}, and the array is of {self._dtype.str}")
        expected = math.prod(self._chunks) * self._dtype.itemsize
        if size != expected:
            raise error(
                f"{what} holds {size} bytes of values, and a chunk of shape {self._chunks} and "
                f"type {self._dtype.str} has {expected}"
            )

    def get_config(self) -> dict[str, Any]:
        """Return what `from_config` makes this codec of, with the ``id``, for JSON."""
        words = {"id": self.codec_id} | words_of(self._codec)
        fill = self._fill_value
        words |= {
            "fill_value": [fill.real, fill.imag] if isinstance(fill, complex) else fill,
            "dtype": self._dtype and self._dtype.str,
            "chunks": [*self._chunks] or None,
        }
        return {name: word for name, word in words.items() if word is not None}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Return the codec that a configuration means.

        ``{"codec": "PFPL", "absolute": 0.001}``: the arguments of the class. Or
        ``{"cd_values": [...]}``: the filter's numbers in an HDF5 file.
        """
        config = dict(config)
        words = config.pop("cd_values", None)
        if words is None and "codec" not in config:
            raise InvalidArgumentError(
                'a configuration is like {"codec": "PFPL", "absolute": 0.001}, or '
                f'{{"cd_values": [...]}}, got {config!r}'
            )
        if words is None:
            return cls(**config)
        if config:
            raise InvalidArgumentError(
                f"cd_values say everything, but {', '.join(config)} came with them"
            )
        params = unpacked(words)
        if not params.value_bytes:  # as they were requested, without anything about the data
            return cls(codec_from_params(params))
        dtype = params.dtype
        fill = None
        chunks = params.shape
        if params.fill_bits is not None:
            bits = np.full(dtype.itemsize // params.value_bytes, params.fill_bits, "u8")
            bits = bits.astype(f"u{params.value_bytes}")
            fill = bits.view(dtype.newbyteorder("="))[0].item()
        if dtype.kind == "c":  # without the axis of components
            chunks = chunks[:-1] or (1,)
        return cls(codec_from_params(params), fill_value=fill, dtype=dtype, chunks=chunks)

    def __repr__(self) -> str:
        words = self.get_config()
        del words["id"]
        return f"{type(self).__name__}({arguments_of(words)})"


def codec_of(codec: Codec | str, settings: dict[str, Any]) -> Codec:
    """Return the codec that words mean; a `Codec` stands for itself."""
    if isinstance(codec, Codec):
        if settings:
            raise TypeError(f"{codec!r} has its settings, but {', '.join(settings)} came with it")
        return codec
    names = {name.lower(): cls for name, cls in _CLASSES.items()}
    cls = names.get(codec.lower()) if isinstance(codec, str) else None
    if cls is None:
        raise InvalidArgumentError(
            "codec must be a codec such as PFPL(absolute=1e-3), or the name of one "
            f"({', '.join(_CLASSES)}), got {codec!r}"
        )
    known = [*inspect.signature(cls.__init__).parameters][1:]
    unknown = [name for name in settings if name not in known]
    if unknown:
        raise InvalidArgumentError(
            f"{cls.__name__} has no setting {' or '.join(map(repr, unknown))}; it takes "
            f"{', '.join(known)}"
        )
    return cls(**settings)


def words_of(codec: Codec) -> dict[str, Any]:
    """Return the words for a codec: what `codec_of` takes, in JSON's types."""
    settings = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in codec.get_config().items()
    }
    return {"codec": type(codec).__name__} | settings


def arguments_of(words: dict[str, Any]) -> str:
    """Write words as the arguments of a call, for ``repr``."""
    return ", ".join(f"{name}={value!r}" for name, value in words.items())


def _extents(chunks: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of a chunk; raise if it is none."""
    try:
        extents = tuple(map(operator.index, chunks))
    except TypeError:
        extents = ()
    if not all(extent > 0 for extent in extents) or not extents:
        raise InvalidArgumentError(f"chunks must be extents such as (64, 64), got {chunks!r}")
    return extents


def padded_params(codec: Codec, fill_value: Any, values: Any) -> _native.Params:
    """Return how the filter would encode a chunk, which may be padded."""
    params = frame_params(codec, fill_value, values)
    # A fill value of +0.0 needs no care, and HDF5 has none then.
    return dataclasses.replace(params, fill_bits=params.fill_bits or None, maybe_padded=True)


def encoded(codec: Codec, fill_value: Any, values: np.ndarray[Any, Any]) -> bytes:
    """Return the frame that the filter would make of a chunk, with the values in C order."""
    return _native.encode(padded_params(codec, fill_value, values), np.asarray(values, order="C"))


def codec_from_filter(filter_id: int | str, cd_values: Sequence[int]) -> Compressor:
    """Return the numcodecs codec that decodes chunks of an HDF5 dataset.

    The arguments are those of `h5lossy.from_filter_options`, which says what they are.

    Examples
    --------
    >>> codec_from_filter(46412, (1, 0, 3539053052, 1062232653))
    Compressor(codec='PFPL', absolute=0.001)
    """
    from_filter_options(filter_id, cd_values)  # refuses other filters
    return Compressor.from_config({"cd_values": cd_values})

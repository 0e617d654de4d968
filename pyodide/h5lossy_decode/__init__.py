# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Decode frames of the HDF5 filter h5lossy in Pyodide, by its decoder in WebAssembly."""

from __future__ import annotations

import struct
from contextlib import contextmanager
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from js import Uint8Array, WebAssembly

if TYPE_CHECKING:
    from collections.abc import Buffer, Iterator

__all__ = ["FrameError", "FrameInfo", "decode", "inspect"]

# By their numbers in h5lossy_decode.h. Letters of classes are NumPy's, but for that of bfloat16.
_CODECS = ("stored", "PFPL", "cuSZp2", "AATROX", "Interp")
_BOUNDS = ("absolute", "pointwise_relative", "range_relative", "lossless", "noise")
_LETTERS = ("f", "u", "i", "f", "bf", "c")
_ORDERS = ("stored", "little", "big")
_OUT_OF_MEMORY = 6
_INFO = struct.Struct("<QQd6I4I")


class FrameError(ValueError):
    """Says what is wrong with a frame."""


class FrameInfo(NamedTuple):
    """What a frame is."""

    dtype: str | None
    """In NumPy's letters; "<bf2" and ">bf2" are bfloat16, None a type that was not known."""
    count: int
    nbytes: int
    """Of all values."""
    codec: str
    bound_kind: str
    bound: float
    """As it was asked for; 0 if lossless."""
    dims: tuple[int, ...]
    """Shape of the chunk, if the codec uses it."""


def inspect(frame: Buffer) -> FrameInfo:
    """
    Check the header of a frame, and say what the frame is.

    Parameters
    ----------
    frame
        What the filter has made of a chunk: any object that holds bytes.

    Returns
    -------
    FrameInfo

    Raises
    ------
    FrameError
        If it is no sound frame.
    """
    with _in_decoder(frame) as call:
        return call.inspect()


def decode(frame: Buffer, byteorder: Literal["stored", "little", "big"] = "stored") -> bytes:
    """
    Check and decode a frame.

    Parameters
    ----------
    frame
        What the filter has made of a chunk: any object that holds bytes.
    byteorder
        Of the values that are returned; "stored": that of the dataset, which `inspect` says.

    Returns
    -------
    bytes
        The chunk's values, in C order.

    Raises
    ------
    FrameError
        If it is no sound frame.
    """
    if byteorder not in _ORDERS:
        raise ValueError(f"byteorder is one of {', '.join(_ORDERS)}, got {byteorder!r}")
    with _in_decoder(frame) as call:
        return call.decode(_ORDERS.index(byteorder))


class _Call:
    """The decoder with a copy of a frame in its memory."""

    def __init__(self, frame: memoryview) -> None:
        self._library = _instance()
        self._taken: list[int] = []
        self._size = frame.nbytes
        self._frame = self._take(frame.nbytes)
        if frame.nbytes:
            self._view(self._frame, frame.nbytes).assign(frame)

    def inspect(self) -> FrameInfo:
        place = self._take(_INFO.size)
        self._check(self._library.h5ld_inspect(self._frame, self._size, place))
        fields = _INFO.unpack(self._view(place, _INFO.size).to_bytes())
        count, nbytes, bound, kind, codec, value_class, value_bytes, is_big, rank, *dims = fields
        letter = _LETTERS[value_class]
        order = "|" if value_bytes == 1 else ">" if is_big else "<"
        dtype = f"{order}{letter}{value_bytes * (2 if letter == 'c' else 1)}"
        return FrameInfo(
            None if dtype == "|f1" else dtype,
            count,
            nbytes,
            _CODECS[codec],
            _BOUNDS[kind],
            bound,
            tuple(dims[:rank]),
        )

    def decode(self, order: int) -> bytes:
        nbytes = self.inspect().nbytes
        values = self._take(nbytes)
        self._check(self._library.h5ld_decode(self._frame, self._size, order, values, nbytes))
        return self._view(values, nbytes).to_bytes()

    def free(self) -> None:
        for address in self._taken:
            self._library.free(address)
        if self._library.memory.buffer.byteLength > 1 << 26:  # it never shrinks
            _loaded.clear()

    def _take(self, nbytes: int) -> int:
        address = self._library.malloc(nbytes or 1) % 2**32 if nbytes < 2**32 else 0
        if address == 0:
            self._check(_OUT_OF_MEMORY)
        self._taken.append(address)
        return address

    def _view(self, address: int, nbytes: int) -> Any:
        return Uint8Array.new(self._library.memory.buffer, address, nbytes)

    def _check(self, status: int) -> None:
        if status != 0:
            start = self._library.h5ld_status_text(status)
            text = Uint8Array.new(self._library.memory.buffer, start)
            raise FrameError(text.subarray(0, text.indexOf(0)).to_bytes().decode())


_loaded: list[Any] = []


def _instance() -> Any:
    """Load the decoder, unless it is."""
    if not _loaded:
        code = Uint8Array.new((files(__name__) / "decoder.wasm").read_bytes())
        _loaded.append(WebAssembly.Instance.new(WebAssembly.Module.new(code)).exports)
        _loaded[0]._initialize()  # noqa: SLF001  # WebAssembly's own name
    return _loaded[0]


@contextmanager
def _in_decoder(frame: Buffer) -> Iterator[_Call]:
    call = _Call(memoryview(frame).cast("B"))
    try:
        yield call
    finally:
        call.free()

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Decoding the chunks of a dataset outside of HDF5, on the CPU or on a GPU."""

from __future__ import annotations

import operator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from h5lossy import _native
from h5lossy._arrays import cupy_memory
from h5lossy._batched.boxes import chunk_box
from h5lossy._batched.gpu_decoder import decode
from h5lossy._batched.pipeline import FrameBuffers, overlap
from h5lossy._blocks import for_each_chunk
from h5lossy._libhdf5 import stored_size
from h5lossy._values import unwritten_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    import h5py
    import numpy.typing as npt

    from h5lossy._batched.boxes import Pieces, Place, Selection
    from h5lossy._progress import Report
    from h5lossy._stored import StoredChunks


class ChunkReader:
    """Reads a box of a dataset into a target of its shape; a subclass decodes the frames."""

    def __init__(
        self,
        dataset: h5py.Dataset,
        chunks: StoredChunks,
        chosen: Selection,
        target: Any,
        report: Report,
    ) -> None:
        assert chunks.decoding is not None
        self._params = chunks.decoding
        self._dataset = dataset
        self._chunks = chunks
        self._target = target
        self._report = report
        self._chosen = chosen
        self._fill = unwritten_value(dataset)
        self._all_stored: npt.NDArray[np.bool_] | None = None
        self._done = 0

    def _assign(self, index: tuple[slice, ...], values: npt.NDArray[Any]) -> None:
        """Copy values of the host to a part of the target."""
        self._target[index] = values

    def _read_whole(self, place: Place, *, is_stored: bool) -> None:
        """Read a chunk that is not a good frame of ours; raise if it is broken."""
        chunk = chunk_box(place, self._chosen.chunks)
        box = chunk.intersection(self._chosen.box)
        if is_stored:
            values = self._chunks.values(place)[box.within(chunk).slices]
        else:
            values = np.broadcast_to(self._fill, box.shape)
        self._assign(box.within(self._chosen.box).slices, values)

    def _are_stored(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which chunks are stored: by HDF5's index for few, or by a list of all."""
        if self._all_stored is None:
            dataset = self._dataset.id.id
            if self._chosen.has_few_chunks and all(
                stored_size(dataset, tuple(place)) is not None for place in places.tolist()
            ):
                return np.ones(len(places), np.bool_)
            # None of `stored_size` may also be an error, which this raises.
            self._all_stored = self._list_chunks()
        at = places // self._chosen.chunks - self._chosen.first
        found: npt.NDArray[np.bool_] = self._all_stored[tuple(at.T)]
        return found

    def _list_chunks(self) -> npt.NDArray[np.bool_]:
        """Return which chunks of the selection are stored."""
        chosen = self._chosen
        stored = np.zeros(chosen.counts, np.bool_)  # a byte for each, as there may be millions

        def mark(chunk: Any) -> None:
            at = tuple(map(operator.floordiv, chunk.chunk_offset, chosen.chunks))
            inside = tuple(map(operator.sub, at, chosen.first))
            if all(0 <= i < n for i, n in zip(inside, chosen.counts, strict=True)):
                stored[inside] = True

        for_each_chunk(self._dataset, mark)
        return stored

    def _tell(self, done: int) -> None:
        """Report that `done` chunks have been read."""
        total = self._chosen.nbytes
        self._report(total * done // len(self._chosen), total)


class _Batch(NamedTuple):
    pieces: Pieces
    frames: dict[int, Any]


class HostReader(ChunkReader):
    """Batches go through `_fetch`, `_decode` and `_finish`, in this order."""

    def run(self, threads: int) -> None:
        """Read on at most so many threads."""
        overlap(self._fetch(threads), partial(self._decode, threads), self._finish)

    def _fetch(self, threads: int) -> Iterator[_Batch]:
        """Yield each batch and its frames by their number; read the chunks that have none."""
        buffers = FrameBuffers(self._chosen.chunk_bytes)
        for pieces in self._chosen.batches(threads):
            buffer = buffers.next(len(pieces))
            frames = {}
            for i, is_stored in enumerate(self._are_stored(pieces.places)):
                place = pieces.place(i)
                frame = self._chunks.frame_if_whole(place, buffer[i]) if is_stored else None
                if frame is None:
                    self._read_whole(place, is_stored=is_stored)
                else:
                    frames[i] = frame
            yield _Batch(pieces, frames)

    def _decode(self, threads: int, batch: _Batch) -> dict[int, Exception]:
        """Decode the frames of a batch; return what went wrong, by the frame's place in it."""
        if not batch.frames:
            return {}
        pieces, frames = batch.pieces[list(batch.frames)], list(batch.frames.values())
        start, chunk = self._chosen.box.start, self._chosen.chunks
        parts = pieces.in_array(self._target, start, chunk, self._fill)
        return _native.decode_parts(self._params, parts, frames, threads)

    def _finish(self, batch: _Batch, failures: dict[int, Exception]) -> None:
        """Read the chunks that were not decoded."""
        numbers = list(batch.frames)
        for i in failures:
            self._read_whole(batch.pieces.place(numbers[i]), is_stored=True)
        self._done += len(batch.pieces)
        self._tell(self._done)


class GpuReader(ChunkReader):
    """Only frames are copied to the GPU, which decodes them into the target."""

    def run(self) -> None:
        """Read, or raise MemoryError if the GPU has no memory for a batch."""
        chosen = self._chosen
        places = list(chosen.box.places(chosen.chunks))
        start = tuple(map(operator.mod, chosen.box.start, chosen.chunks))

        def read_frame(number: int, buffer: npt.NDArray[np.uint8]) -> Any:
            return self._chunks.frame_if_whole(places[number], buffer)

        for done, left in decode(self._target, chosen.chunks, start, read_frame):
            if left:
                others = [places[number] for number in left]
                for place, is_stored in zip(
                    others, self._are_stored(np.array(others)), strict=True
                ):
                    self._read_whole(place, is_stored=is_stored)
            self._tell(done)

    def _assign(self, index: tuple[slice, ...], values: npt.NDArray[Any]) -> None:
        part = cupy_memory(self._target.owner[index])
        part.library.assign(part, values)

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Decoding the chunks of a dataset outside of HDF5, on the CPU or on a GPU."""

from __future__ import annotations

import itertools
import operator
import os
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from h5lossy import _native
from h5lossy._arrays import cupy_memory
from h5lossy._batched.boxes import Pieces, Place, Selection, chunk_box
from h5lossy._batched.gpu_decoder import decode
from h5lossy._batched.pipeline import FrameBuffers, aligned, overlap
from h5lossy._blocks import batch_bytes, for_each_chunk
from h5lossy._frame_reads import opened_for_frames, read_frames
from h5lossy._libhdf5 import stored_size
from h5lossy._values import unwritten_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    import h5py
    import numpy.typing as npt

    from h5lossy._progress import Report
    from h5lossy._stored import StoredChunks


#: Placeholder for the bytes of a chunk.
_NOT_STORED = 2**32 - 1

#: Up to this many chunks, of this many bytes in all, batches cost more than they save.
_FEW_CHUNKS, _FEW_BYTES = 16, 256 << 10


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
        self._listed: npt.NDArray[np.uint32] | None = None
        #: Where the listed chunks are in the file, if frames can be read from there.
        self._offsets: npt.NDArray[np.uint64] | None = None
        self._file: int | None = None
        self._done = 0

    def close(self) -> None:
        """Release the memory that `_frames` reads from."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _assign(self, index: tuple[slice, ...], values: npt.NDArray[Any]) -> None:
        """Copy values of the host to a part of the target."""
        self._target[index] = values

    def _read_whole(self, place: Place, *, is_stored: bool) -> None:
        """Read a chunk that is not an intact frame of ours; raise if it is broken."""
        chunk = chunk_box(place, self._chosen.chunks)
        box = chunk.intersection(self._chosen.box)
        if is_stored:
            values = self._chunks.values(place)[box.within(chunk).slices]
        else:
            values = np.broadcast_to(self._fill, box.shape)
        self._assign(box.within(self._chosen.box).slices, values)

    def _read_each(self, places: list[Place]) -> None:
        """Read chunks one after another."""
        for place, size in zip(places, self._stored_bytes(np.array(places)), strict=True):
            self._read_whole(place, is_stored=size is not None)

    def _stored_bytes(self, places: npt.NDArray[np.int64]) -> list[int | None]:
        """Return the sizes of chunks in the file, looking up a few one by one; None: not stored."""
        if self._listed is None:
            if len(places) <= _FEW_CHUNKS or self._chosen.has_few_chunks:
                dataset = self._dataset.id.id
                sizes = [stored_size(dataset, place) for place in map(tuple, places.tolist())]
                if None not in sizes:
                    return sizes
            # `stored_size` also returns None for an error, which this call raises.
            self._listed = self._list_chunks()
        at = places // self._chosen.chunks - self._chosen.first
        return [None if n == _NOT_STORED else n for n in self._listed[tuple(at.T)].tolist()]

    def _list_chunks(self) -> npt.NDArray[np.uint32]:
        """Return the sizes of all chunks of the selection, and keep their offsets."""
        chosen = self._chosen
        stored = np.full(chosen.counts, _NOT_STORED, np.uint32)  # there may be millions
        self._file = opened_for_frames(self._dataset)
        offsets = None if self._file is None else np.zeros(chosen.counts, np.uint64)

        def mark(chunk: Any) -> None:
            at = tuple(map(operator.floordiv, chunk.chunk_offset, chosen.chunks))
            inside = tuple(map(operator.sub, at, chosen.first))
            if all(0 <= i < n for i, n in zip(inside, chosen.counts, strict=True)):
                stored[inside] = min(chunk.size, _NOT_STORED - 1)
                if offsets is not None and not chunk.filter_mask:
                    offsets[inside] = chunk.byte_offset

        for_each_chunk(self._dataset, mark)
        self._offsets = offsets
        return stored

    def _frames(
        self, places: npt.NDArray[np.int64], rows: dict[int, npt.NDArray[np.uint8]]
    ) -> dict[int, Any]:
        """Return the frames of chunks by row; chunks that are left out have to be read whole."""
        frames: dict[int, Any] = {}
        if self._offsets is not None and self._listed is not None and rows:
            assert self._file is not None
            at = tuple((places[[*rows]] // self._chosen.chunks - self._chosen.first).T)
            known = zip(rows, self._offsets[at].tolist(), self._listed[at].tolist(), strict=True)
            wanted = {
                i: (offset, rows[i][:size])
                for i, offset, size in known
                if offset and 0 < size <= len(rows[i])
            }
            is_read = read_frames(self._file, wanted.values())
            frames = {i: wanted[i][1] for i, ok in zip(wanted, is_read, strict=True) if ok}
        for i in rows.keys() - frames.keys():
            frame = self._chunks.frame_if_whole(tuple(places[i].tolist()), rows[i])
            if frame is not None:
                frames[i] = frame
        return frames

    def _tell(self, done: int) -> None:
        """Report that `done` chunks have been read."""
        total = self._chosen.nbytes
        self._report(total * done // len(self._chosen), total)


class _Batch(NamedTuple):
    pieces: Pieces
    frames: dict[int, Any]


class HostReader(ChunkReader):
    """Reads batches with `_fetch`, `_decode` and `_finish`, in this order."""

    @property
    def is_short(self) -> bool:
        """Whether `run_at_once` is faster than `run`."""
        count = len(self._chosen)
        return count <= _FEW_CHUNKS and count * self._chosen.chunk_bytes <= _FEW_BYTES

    def run_at_once(self) -> None:
        """Read one chunk after another."""
        places = list(self._chosen.box.places(self._chosen.chunks))
        self._read_each(places)
        self._tell(len(places))

    def run(self, threads: int) -> None:
        """Read on at most so many threads."""
        chunk_bytes = self._chosen.chunk_bytes
        is_one_batch = len(self._chosen) * chunk_bytes <= batch_bytes(chunk_bytes, threads)
        if threads == 1 or is_one_batch:
            for batch in self._fetch(threads, FrameBuffers(1)):  # nothing to overlap with
                self._finish(batch, self._decode(threads, batch))
        else:
            batches = self._fetch(threads, FrameBuffers())
            overlap(batches, partial(self._decode, threads), self._finish)

    def _fetch(self, threads: int, buffers: FrameBuffers) -> Iterator[_Batch]:
        """Yield each batch and its frames by number; read chunks without a frame at once."""
        most = _native.max_encoded_size(self._chosen.chunk_bytes)
        for pieces in self._chosen.batches(threads):
            sizes = self._stored_bytes(pieces.places)
            rooms = [aligned(size) if size is not None and size <= most else 0 for size in sizes]
            buffer = buffers.next(1, sum(rooms))[0]
            ends = itertools.accumulate(rooms)
            rows = {
                i: buffer[end - room : end]
                for i, (room, end) in enumerate(zip(rooms, ends, strict=True))
                if room
            }
            frames = self._frames(pieces.places, rows)
            for i, size in enumerate(sizes):
                if i not in frames:
                    self._read_whole(pieces.place(i), is_stored=size is not None)
            yield _Batch(pieces, frames)

    def _decode(self, threads: int, batch: _Batch) -> dict[int, Exception]:
        """Decode the frames of a batch; return the errors by the frame's place in it."""
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

        def read(first: int, buffers: npt.NDArray[np.uint8]) -> dict[int, Any]:
            wanted = np.array(places[first : first + len(buffers)])
            return self._frames(wanted, dict(enumerate(buffers)))

        if len(places) > _FEW_CHUNKS and not chosen.has_few_chunks:
            self._listed = self._list_chunks()
        for done, left in decode(self._target, chosen.chunks, start, read):
            if left:
                self._read_each([places[number] for number in left])
            self._tell(done)

    def _assign(self, index: tuple[slice, ...], values: npt.NDArray[Any]) -> None:
        part = cupy_memory(self._target.owner[index])
        part.library.assign(part, values)

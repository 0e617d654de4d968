# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Decoding the chunks of a dataset outside of HDF5, on the CPU or on a GPU."""

from __future__ import annotations

import itertools
import operator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from h5lossy import _native
from h5lossy._arrays import cupy_memory
from h5lossy._batched.boxes import Pieces, Place, Selection, chunk_box
from h5lossy._batched.gpu_decoder import decode
from h5lossy._batched.pipeline import FrameBuffers, aligned, overlap
from h5lossy._blocks import batch_bytes, listed_chunks
from h5lossy._frame_reads import FrameFile, opened_for_frames
from h5lossy._libhdf5 import stored_size
from h5lossy._values import unwritten_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
        self._threads = 1
        self._report = report
        self._chosen = chosen
        self._fill = unwritten_value(dataset)
        self._listed: npt.NDArray[np.uint32] | None = None
        #: Where the listed chunks are in the file, if frames can be read from there.
        self._offsets: npt.NDArray[np.int64] | None = None
        self._file: FrameFile | None = None
        self._done = 0

    def close(self) -> None:
        """Close the file that frames are read from."""
        if self._file is not None:
            self._file.close()
            self._file = None

    @property
    def is_short(self) -> bool:
        """Whether one chunk after another is faster than batches."""
        count = len(self._chosen)
        return count <= _FEW_CHUNKS and count * self._chosen.chunk_bytes <= _FEW_BYTES

    @property
    def _is_worth_listing(self) -> bool:
        """Whether listing all chunks is worthwhile: frames can be read from the file then."""
        return not (self.is_short or self._chosen.has_few_chunks)

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
            if not self._is_worth_listing:
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
        listed = listed_chunks(self._dataset)
        inside = listed.places // chosen.chunks - chosen.first
        is_chosen = ((inside >= 0) & (inside < chosen.counts)).all(axis=1)
        at = tuple(inside[is_chosen].T)
        stored[at] = np.minimum(listed.sizes[is_chosen], _NOT_STORED - 1)
        self._file = opened_for_frames(self._dataset, self._threads)
        if self._file is not None:
            self._offsets = np.zeros(chosen.counts, np.int64)
            offsets = np.where(listed.masks == 0, listed.addresses.astype(np.int64), 0)
            self._offsets[at] = offsets[is_chosen]
        return stored

    def _read_frames(
        self, places: npt.NDArray[np.int64], rows: Sequence[npt.NDArray[np.uint8]]
    ) -> npt.NDArray[np.int64]:
        """Read the frames of chunks to the beginnings of rows; return their sizes.

        A chunk with size 0 has to be read whole; so have those whose rows have no room.
        """
        found = np.zeros(len(rows), np.int64)
        rooms = np.fromiter(map(len, rows), np.int64)
        if self._file is not None:
            assert self._offsets is not None
            assert self._listed is not None
            at = tuple((places // self._chosen.chunks - self._chosen.first).T)
            offsets, sizes = self._offsets[at], self._listed[at].astype(np.int64)
            known = np.flatnonzero((offsets > 0) & (sizes <= rooms))
            offsets, sizes = offsets[known], sizes[known]
            is_read = self._file.read(offsets, sizes, [rows[i] for i in known.tolist()])
            found[known[is_read]] = sizes[is_read]
        for i in np.flatnonzero((found == 0) & (rooms > 0)).tolist():
            frame = self._chunks.frame_if_whole(tuple(places[i].tolist()), rows[i])
            if frame is not None:
                found[i] = len(frame)
                if isinstance(frame, bytes):  # elsewhere
                    rows[i][: len(frame)] = np.frombuffer(frame, np.uint8)
        return found

    def _tell(self, done: int) -> None:
        """Report that `done` chunks have been read."""
        total = self._chosen.nbytes
        self._report(total * done // len(self._chosen), total)


class _Batch(NamedTuple):
    pieces: Pieces
    frames: dict[int, Any]


class HostReader(ChunkReader):
    """Reads batches with `_fetch`, `_decode` and `_finish`, in this order."""

    def run_at_once(self) -> None:
        """Read one chunk after another."""
        places = list(self._chosen.box.places(self._chosen.chunks))
        self._read_each(places)
        self._tell(len(places))

    def run(self, threads: int) -> None:
        """Read on at most so many threads."""
        self._threads = threads
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
            rows = [buffer[end - room : end] for room, end in zip(rooms, ends, strict=True)]
            found = enumerate(self._read_frames(pieces.places, rows).tolist())
            frames = {i: rows[i][:frame_bytes] for i, frame_bytes in found if frame_bytes}
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

    def run(self, threads: int) -> None:
        """Read, or raise MemoryError if the GPU has no memory for a batch."""
        self._threads = threads
        chosen = self._chosen
        places = chosen.box.place_rows(chosen.chunks)
        start = tuple(map(operator.mod, chosen.box.start, chosen.chunks))

        def read(first: int, buffers: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
            return self._read_frames(places[first : first + len(buffers)], list(buffers))

        if self._is_worth_listing:
            self._listed = self._list_chunks()
        for done, left in decode(self._target, chosen.chunks, start, read):
            if left:
                self._read_each([tuple(place) for place in places[left].tolist()])
            self._tell(done)

    def _assign(self, index: tuple[slice, ...], values: npt.NDArray[Any]) -> None:
        part = cupy_memory(self._target.owner[index])
        part.library.assign(part, values)

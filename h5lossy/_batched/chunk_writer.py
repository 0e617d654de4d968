# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Encoding the chunks of a dataset outside of HDF5, on the CPU or on a GPU."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from h5py._objects import phil

from h5lossy import _native
from h5lossy._arrays import DeviceMemory, cupy_memory
from h5lossy._batched.boxes import Box, Pieces, Place, Selection, chunk_box
from h5lossy._batched.gpu import is_possible
from h5lossy._batched.gpu_encoder import encode
from h5lossy._batched.pipeline import FrameBuffers, overlap
from h5lossy._batched.regions import Region, bounded_parts, groups
from h5lossy._batched.sources import Source, as_stored
from h5lossy._batched.store import ChunkStore
from h5lossy._blocks import BLOCK_BYTES, MOST_CHUNKS
from h5lossy._errors import IncompleteWriteError
from h5lossy._values import as_bits, unwritten_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    import h5py
    import numpy.typing as npt

    from h5lossy._progress import Report
    from h5lossy._verification.recorder import Recorder


class _Batch(NamedTuple):
    pieces: Pieces
    values: npt.NDArray[Any]


class ChunkWriter:
    """One call of `write`."""

    def __init__(
        self,
        dataset: h5py.Dataset,
        params: _native.Params,
        source: Source,
        chosen: Selection,
        *,
        regions: list[Region],
        threads: int,
        report: Report,
    ) -> None:
        self._dtype = dataset.dtype
        self._name = dataset.name  # None if the file has been closed
        self._params = params
        self._regions = regions
        self._source = source
        self._chosen = chosen.cut_near(source.cuts)
        self._report = report
        self._threads = threads
        self._fill = unwritten_value(dataset)
        self._buffers = FrameBuffers(sparse=True)
        self._frame_bytes = _native.max_encoded_size(chosen.chunk_bytes)
        self._store = ChunkStore(dataset)
        self._recorder: Recorder | None = None
        #: The box of whole chunks that a GPU encodes: they are written before the others.
        self._first: Box | None = None

    def run(self, recorder: Recorder | None = None) -> None:
        """Write all chunks, checked first by a recorder; an error says which were written."""
        self._recorder = recorder
        try:
            try:
                self._write()
                self._source.finish()
                if recorder is not None:
                    with phil:  # other threads may add to the record, too
                        recorder.finish()
            finally:
                self._store.flush()
        except Exception as error:
            raise IncompleteWriteError(
                f"{self._state()}: {type(error).__name__}: {error}",
                tuple(itertools.islice(self._order(), self._store.done)),
                len(self._chosen),
            ) from error
        except BaseException as error:
            error.add_note(self._state())
            raise

    def _write(self) -> None:
        memory, whole = self._source.memory, self._chosen.whole
        is_plain = self._recorder is None and not self._regions
        if self._chosen.nbytes > BLOCK_BYTES:
            # What HDF5 holds for other datasets gets its room before this takes what is left.
            self._store.flush()
        if memory is not None and whole is not None and is_plain:
            memory = cupy_memory(memory.owner[self._chosen.with_all_axes])
            if memory.dtype == self._dtype and is_possible(memory, self._params, decode=False):
                self._first = whole
                try:
                    self._write_from_gpu(memory, whole)
                except MemoryError:
                    # The GPU has no memory for a batch.
                    if self._store.done:
                        raise
                    self._first = None
                else:
                    return
        if self._chosen.nbytes <= BLOCK_BYTES and len(self._chosen) <= MOST_CHUNKS:
            for batch in self._fetch():  # one batch, so there is nothing to overlap with
                self._put(batch, self._encode(batch))
        else:
            overlap(self._fetch(), self._encode, self._put)

    def _state(self) -> str:
        return f"{self._store.done} of {len(self._chosen)} chunks of {self._name} were written"

    def _order(self) -> Iterator[Place]:
        """Yield the chunks in the order in which they are written."""
        if self._first is not None:
            yield from self._first.places(self._chosen.chunks)
        for pieces in self._chosen.batches(self._threads):
            left = pieces.places if self._first is None else pieces.places[~pieces.whole]
            yield from map(tuple, left.tolist())

    def _tell(self) -> None:
        self._report(
            self._chosen.nbytes * self._store.done // len(self._chosen), self._chosen.nbytes
        )

    # --------------------------------------------------------------------------------------------
    # Encoded by the CPU
    # --------------------------------------------------------------------------------------------

    def _fetch(self) -> Iterator[_Batch]:
        for pieces in self._chosen.batches(self._threads):
            try:
                yield self._filled(pieces)
            except Exception:
                # Write the part of this batch whose values were read.
                rows = self._chosen.box.start[0] + self._source.held()
                come = pieces[pieces.stop[:, 0] <= rows]
                if self._chosen.kept[0] and len(come):
                    yield self._filled(come)
                raise

    def _filled(self, pieces: Pieces) -> _Batch:
        return _Batch(pieces, self._values(pieces.bounds))

    def _values(self, box: Box) -> npt.NDArray[Any]:
        """Return the values of a box in the dataset's type."""
        values = self._source.read(self._chosen.of_kept(box))
        return as_stored(values, self._dtype).reshape(box.shape)

    def _encode(self, batch: _Batch) -> _native.Frames:
        """Return the frames of the whole chunks, in the helper thread: no HDF5 here."""
        whole = batch.pieces[batch.pieces.whole]
        room = self._buffers.next(len(whole), self._frame_bytes)
        frames = _native.Frames(
            np.empty(len(whole), np.uintp), np.empty(len(whole), np.uintp), room
        )
        if not len(whole):
            return frames
        parts = whole.in_array(batch.values, batch.pieces.start[0], self._chosen.chunks, self._fill)
        grouped = groups(self._regions, whole)
        for region, which in grouped:
            params = self._params if region is None else region.params
            encoded = _native.encode_parts(params, parts[which], room[: len(which)], self._threads)
            room = room[len(which) :]
            frames.addresses[which], frames.sizes[which] = encoded.addresses, encoded.sizes
        if self._recorder is not None:  # the batch consists of whole chunks
            decoded = np.empty_like(batch.values)
            parts = dataclasses.replace(parts, array=decoded)
            for error in _native.decode_parts(self._params, parts, frames, self._threads).values():
                raise error
            self._recorder.add(batch.pieces.bounds.start, batch.values, decoded)
            self._recorder.check()
            for bound, box in bounded_parts(grouped, whole):
                part = box.within(batch.pieces.bounds).slices
                self._recorder.check_part(bound, box.start, batch.values[part], decoded[part])
        return frames

    def _put(self, batch: _Batch, frames: _native.Frames) -> None:
        """Write a batch."""
        pieces = batch.pieces
        begin = first = 0
        for part in [*np.flatnonzero(~pieces.whole).tolist(), len(pieces)]:
            whole = pieces.places[begin:part]
            self._store.put(whole, frames[first : first + len(whole)])
            begin, first = part + 1, first + len(whole)
            if part < len(pieces):
                box = pieces.box(part)
                values = batch.values[box.within(pieces.bounds).slices]
                self._store.put_part(pieces.place(part), box, values)
        self._tell()

    # --------------------------------------------------------------------------------------------
    # Encoded by a GPU
    # --------------------------------------------------------------------------------------------

    def _write_from_gpu(self, memory: DeviceMemory, whole: Box) -> None:
        """Write the box of whole chunks, copying only frames to the host, then the other chunks."""
        chunks = self._chosen.chunks
        part = cupy_memory(memory.owner[whole.within(self._chosen.box).slices])
        places = whole.place_rows(chunks)
        padding = int(as_bits(self._fill.real))  # the components of complex ones are equal
        for frames in encode(part, self._params, chunks, padding):
            done = self._store.done
            self._store.put(places[done : done + len(frames)], frames)
            self._tell()
        for place in itertools.islice(self._order(), len(places), None):
            box = chunk_box(place, chunks).intersection(self._chosen.box)
            self._store.put_part(place, box, self._values(box))
            self._tell()

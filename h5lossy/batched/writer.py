# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Writing and reading datasets on several threads.

HDF5 runs a filter for one chunk after another, under its lock. Here chunks are encoded and decoded
outside of HDF5, a batch at a time, and go to and from the file as they are (direct chunk I/O). The
file is the same as if HDF5 had done it.

All that touches HDF5 or the user's source stays in the calling thread: it may hold h5py's lock,
and another thread would wait for that for ever. The one helper thread does nothing but call the
library, which has threads of its own, so that one batch is encoded while the next one is fetched
and the one before goes to the file.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import operator
import warnings
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import h5py
import numpy as np
from h5py import h5d, h5p, h5z
from h5py._objects import phil

from h5lossy import _native
from h5lossy._arrays import (
    as_shown,
    cupy_memory,
    cupy_memory_to_fill,
    is_device_array,
    new_cupy_memory,
)
from h5lossy._blocks import BLOCK_BYTES, MOST_CHUNKS, for_each_chunk, grid_of
from h5lossy._libhdf5 import chunk_options, put_into_file, stored_size
from h5lossy._progress import reporting
from h5lossy._stored import StoredChunks, stored_chunks
from h5lossy._values import as_bits, is_big_endian, unwritten_value
from h5lossy.batched import gpu as _device_chunks
from h5lossy.batched.boxes import Grid, as_selection, chunk_box
from h5lossy.batched.sources import as_stored, check_at_once, make_source
from h5lossy.batched.store import Space
from h5lossy.bounds import BoundKind
from h5lossy.datasets import describe
from h5lossy.errors import H5LossyError, IncompleteWriteError, InvalidArgumentError
from h5lossy.missing import missing_of
from h5lossy.verification import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from h5lossy._arrays import DeviceMemory
    from h5lossy._progress import Report
    from h5lossy.batched.boxes import Box, Pieces, Place, Selection
    from h5lossy.batched.sources import Source

_Batch = TypeVar("_Batch")
_Result = TypeVar("_Result")

#: As in the library: what asks for more gets these.
_MOST_THREADS = 1024

#: A listing of all chunks costs about as much as looking for this many that may not be there.
_LISTING_FACTOR = 8


def write(
    dataset: h5py.Dataset,
    values: Any,
    selection: Any = ...,
    *,
    threads: int | None = None,
    verify: Literal["write"] | None = None,
    progress: Callable[[int, int], None] | bool | None = None,
) -> None:
    """Write into a dataset, as ``dataset[selection] = values`` does, on several threads.

    The bytes in the file are those that the filter would have written, whatever the number of
    threads. Datasets without h5lossy's filter, or with others beside it, are written as h5py does.

    Parameters
    ----------
    dataset : h5py.Dataset
        Open for writing.
    values : array-like, or iterable of arrays
        An array of the selection's shape, of any type that HDF5 converts to the dataset's, or one
        that broadcasts to it; ``numpy.memmap`` is fine. Or what can be cut like an array and has a
        shape, such as another dataset or a dask array: it is read part by part. Or a generator, or
        another iterable that is no list or tuple: its items are consecutive blocks along axis 0.
        Or an array on a GPU (CuPy, or anything with ``__cuda_array_interface__`` or DLPack): if it
        is of the dataset's type, the chunks that it covers are encoded there, and only their frames
        are copied to the host.
    selection : index, optional
        Numbers and slices, as in ``dataset[selection]``. Default: everything. Chunks that it
        covers in part are read, changed and written again by HDF5. Slices with steps, lists and
        masks are left to h5py altogether.
    threads : int, optional
        At most so many encode. Default: ``H5LOSSY_NUM_THREADS``, or as many as the process has
        CPUs. The calling thread moves data meanwhile.
    verify : "write", optional
        Decode each chunk before it goes to the file, judge every value by its original, and record
        what was found in attributes of the dataset, for `h5lossy.verify`. The selection has to
        cover whole chunks.
    progress : function or bool, optional
        Called as ``progress(bytes_done, bytes_in_all)`` after each batch, in the calling thread;
        not for what is left to h5py altogether. True shows a bar on standard error.

    Raises
    ------
    IncompleteWriteError
        If anything goes wrong after the start: the source raises, the disk is full. The file then
        holds whole chunks, and the exception says which are new. An exception that is no
        `Exception`, such as `KeyboardInterrupt`, passes through, with a note of how far it went.
    InvalidArgumentError
        If the values do not fit the selection, the file is closed or open for reading only,
        `threads` is not a number from 1 up, `progress` is no function, or what is written cannot be
        verified.

    Warns
    -----
    RuntimeWarning
        If the bound is range-relative, and attributes declare other values than the fill value
        missing or invalid: the filter takes the range of each chunk, and leaves out only the fill
        value.

    Notes
    -----
    A batch holds 32 MiB of values, or two chunks for each thread where that is more, and of small
    chunks 4096. In memory are at most the frames of two batches, a chunk for each thread, and,
    unless `values` is an array of the dataset's type, the values of two batches and what it takes
    to make a third. Blocks also stay until a whole row of chunks has been written.
    The file is flushed before and after, so that a full disk cannot cost more than
    what is being written.
    Several threads may read and write one file, or one dataset, at the same time: each chunk is
    read and written atomically, a whole call is not.

    Examples
    --------
    >>> import h5py, h5lossy, numpy as np
    >>> with h5py.File("a.h5", "w", driver="core", backing_store=False) as f:
    ...     codec = h5lossy.PFPL(absolute=0.5)
    ...     t = f.create_dataset("t", (100, 100), "f4", chunks=(64, 64), compression=codec)
    ...     h5lossy.write(t, np.full((100, 100), 7.0))
    ...     float(h5lossy.read(t, np.s_[99, 99]))
    7.0
    """
    count = _checked_threads(threads)
    _check_open(dataset)
    if dataset.file.mode == "r":
        raise InvalidArgumentError(
            f"{dataset.file.filename} is open for reading only; open it with mode 'r+'"
        )
    _warn_of_ranges(dataset)
    chosen = as_selection(selection, dataset.shape) if dataset.shape else None
    if verify not in {None, "write"}:
        raise InvalidArgumentError(f'verify must be "write" or None, got {verify!r}')
    values = as_shown(values)
    with reporting(progress, f"writing {dataset.name}") as report:
        if is_device_array(values):
            memory = cupy_memory(values)
            if (  # verification judges on the host
                verify is None
                and chosen is not None
                and _write_from_gpu(dataset, memory, chosen, threads=count, report=report)
            ):
                return
            values = memory.library.to_host(memory)
        if chosen is None:
            _require_chunks(dataset, whole=verify is None)
            check_at_once(values)
            dataset[selection] = values
            return
        source = make_source(values, chosen.shape, dataset.dtype)
        layout = _Layout.of(dataset)
        if layout is None:
            _require_chunks(dataset, whole=verify is None)
            _write_as_h5py_does(dataset, source, chosen, report)
            return
        recorder = Recorder(dataset, threads=count) if verify else None
        writer = _Writer(
            dataset, layout, source, chosen, threads=count, report=report, recorder=recorder
        )
        _require_chunks(dataset, whole=recorder is None or writer.covers_whole_chunks())
        writer.run()
        if recorder is not None:
            with phil:  # other threads may add to the record, too
                recorder.finish()


def _warn_of_ranges(dataset: h5py.Dataset) -> None:
    """Warn if the ranges of chunks would include missing values."""
    described = describe(dataset)
    if described is None or described.bound.kind is not BoundKind.RANGE_RELATIVE:
        return
    if missing_of(dataset).has_more:
        warnings.warn(
            f"{dataset.name} has values that are missing or not valid by its attributes, which the "
            "filter takes for data when it takes the range of a chunk, so that others may be lost; "
            "make the dataset with codec.resolve(values, missing_value=...)",
            RuntimeWarning,
            stacklevel=3,
        )


def read(
    dataset: h5py.Dataset,
    selection: Any = ...,
    *,
    out: Any = None,
    threads: int | None = None,
    progress: Callable[[int, int], None] | bool | None = None,
) -> Any:
    """Read from a dataset, as ``dataset[selection]`` does, on several threads.

    Parameters
    ----------
    dataset : h5py.Dataset
        With any filters; those other than h5lossy's alone are left to h5py.
    selection : index, optional
        Numbers and slices, as in ``dataset[selection]``. Default: everything. Slices with steps,
        lists and masks are left to h5py. Of a chunk of which the selection needs little, only the
        tiles with wanted values are decoded; the checksum of its payload is checked all the same.
    out : array or "cupy", optional
        Where the values go: an array of the selection's shape and the dataset's type, which may be
        on a GPU. "cupy": a new array on CuPy's current GPU. Only frames are copied there, where
        the dataset is in the machine's byte order.
    threads : int, optional
        At most so many decode. Default: as for `write`.
    progress : function or bool, optional
        Called as for `write`; once where h5py reads all.

    Returns
    -------
    numpy.ndarray, or a NumPy scalar
        `out`, or a new array; a scalar where the selection is a single value by its numbers.
        Chunks that nobody has written to hold the fill value.

    Raises
    ------
    CorruptFrameError
        If a chunk is broken. `out` then holds values of some chunks.
    InvalidArgumentError
        If `out` has another shape or type, the file is closed, `threads` is not a number from 1
        up, or `progress` is no function.

    Notes
    -----
    A batch is as large as in `write`. Beside the result, the frames of two batches and a chunk for
    each thread are in memory.
    Threads may read while others write: each chunk has its values before or after a write.

    Examples
    --------
    >>> import h5py, h5lossy, numpy as np
    >>> with h5py.File("a.h5", "w", driver="core", backing_store=False) as f:
    ...     codec = h5lossy.PFPL(absolute=0.5)
    ...     t = f.create_dataset("t", data=np.ones((9, 9)), chunks=(4, 4), compression=codec)
    ...     h5lossy.read(t, np.s_[7:, 3]).tolist()
    [1.0, 1.0]
    """
    count = _checked_threads(threads)
    _check_open(dataset)
    chosen = as_selection(selection, dataset.shape) if dataset.shape else None
    if isinstance(out, str) or is_device_array(out):
        with reporting(progress, f"reading {dataset.name}") as report:
            return _read_to_gpu(dataset, selection, chosen, out, threads=count, report=report)
    layout = _Layout.for_reading(dataset) if chosen is not None else None
    with reporting(progress, f"reading {dataset.name}") as report:
        if chosen is None or layout is None:
            return _read_as_h5py_does(dataset, selection, chosen, out, report)
        result = np.empty(chosen.shape, dataset.dtype) if out is None else out
        _check_out(result, chosen.shape, dataset.dtype)
        _Reader(dataset, layout, chosen, result, threads=count, report=report).run()
    return result[()] if out is None else result


def _require_chunks(dataset: h5py.Dataset, *, whole: bool) -> None:
    if not whole:
        raise InvalidArgumentError(
            f'verify="write" needs whole chunks of {dataset.name}, which h5lossy alone has '
            "compressed; write those, or leave it out and compare with h5lossy.assess"
        )


class _GpuWriter:
    """One call of `write` with an array on a GPU."""

    def __init__(
        self,
        dataset: h5py.Dataset,
        layout: _Layout,
        memory: DeviceMemory,
        chosen: Selection,
        *,
        threads: int,
        report: Report,
    ) -> None:
        self._dataset = dataset
        self._layout = layout
        self._memory = memory
        self._box = chosen.box
        self._threads = threads
        self._report = report
        self._grid = Grid(chosen.box, dataset.shape, layout.chunks)
        self._space = Space(dataset)
        self._name = dataset.name  # which it has no more when the file is closed meanwhile
        self._written: list[Place] = []

    def run(self) -> None:
        try:
            try:
                whole = self._grid.whole
                if whole is not None:
                    self._write_whole(whole)
                if whole != self._box:
                    self._write_others()
            finally:
                self._space.flush()
        except Exception as error:
            raise IncompleteWriteError(
                f"{self._state()}: {type(error).__name__}: {error}",
                tuple(self._written),
                len(self._grid),
            ) from error
        except BaseException as error:
            error.add_note(self._state())
            raise

    def _write_whole(self, box: Box) -> None:
        """Write the chunks that are covered: only their frames come to the host."""
        layout = self._layout
        part = self._part(box)
        padding = int(as_bits(layout.fill))
        batches = _device_chunks.encode(part, layout.params, layout.chunks, padding)
        places = box.places(layout.chunks)
        while True:
            try:
                frames = next(batches, None)
            except MemoryError:
                # The GPU has no room for a batch; nothing has been written.
                if not self._written:
                    self._write_by_way_of_the_host(box)
                    return
                raise
            if frames is None:
                return
            for frame in frames:
                place = next(places)
                _write_chunk(self._dataset, place, frame, self._space)
                self._written.append(place)
            self._tell()

    def _write_others(self) -> None:
        """Write the chunks that are covered in part: HDF5 reads and changes them."""
        layout = self._layout
        for pieces in self._grid.batches(layout.chunk_bytes, BLOCK_BYTES):
            for i in np.flatnonzero(~pieces.whole).tolist():
                place, box = pieces.place(i), pieces.box(i)
                _write_part(self._dataset, place, box, self._on_host(box), self._space)
                self._written.append(place)
            self._tell()

    def _write_by_way_of_the_host(self, box: Box) -> None:
        for part in Grid(box, self._dataset.shape, self._layout.chunks).boxes(
            self._layout.chunk_bytes, BLOCK_BYTES
        ):
            write(self._dataset, self._on_host(part), part.slices, threads=self._threads)
            self._written.extend(part.places(self._layout.chunks))
            self._tell()

    def _part(self, box: Box) -> DeviceMemory:
        return cupy_memory(self._memory.owner[box.within(self._box).slices])

    def _on_host(self, box: Box) -> npt.NDArray[Any]:
        return self._memory.library.to_host(self._part(box))

    def _state(self) -> str:
        return f"{len(self._written)} of {len(self._grid)} chunks of {self._name} were written"

    def _tell(self) -> None:
        total = self._memory.nbytes
        self._report(min(len(self._written) * total // len(self._grid), total), total)


def _write_from_gpu(
    dataset: h5py.Dataset,
    memory: DeviceMemory,
    chosen: Selection,
    *,
    threads: int,
    report: Report,
) -> bool:
    """Write from a GPU, where that is of use; return whether it was."""
    layout = _Layout.of(dataset)
    if layout is None or memory.shape != chosen.shape or memory.dtype != layout.dtype:
        return False
    memory = cupy_memory(memory.owner[chosen.with_all_axes])
    if not _device_chunks.is_possible(memory, layout.params):
        return False
    if Grid(chosen.box, dataset.shape, layout.chunks).whole is None:
        return False  # HDF5 does it all
    _GpuWriter(dataset, layout, memory, chosen, threads=threads, report=report).run()
    return True


def _read_to_gpu(
    dataset: h5py.Dataset,
    selection: Any,
    chosen: Selection | None,
    out: Any,
    *,
    threads: int,
    report: Report,
) -> Any:
    native = dataset.dtype.newbyteorder("=")
    shape = dataset[selection].shape if chosen is None else chosen.shape
    if isinstance(out, str):
        if out != "cupy":
            raise InvalidArgumentError(f'out must be an array or "cupy", got {out!r}')
        memory = new_cupy_memory(shape, native)
    else:
        memory = cupy_memory_to_fill(out)
        if memory.shape != shape or memory.dtype != native:
            raise InvalidArgumentError(
                f"out must be an array of {native} and shape {shape}, "
                f"got one of {memory.dtype} and shape {memory.shape}"
            )
    result = memory.owner if isinstance(out, str) else out
    layout = _Layout.of(dataset) if chosen is not None else None
    if chosen is not None and layout is not None:
        target = cupy_memory(memory.owner[chosen.with_all_axes])
        if _device_chunks.is_possible(target, layout.params):
            _decode_on_gpu(dataset, layout, chosen.box, target, threads=threads, report=report)
            return result
    values = np.ascontiguousarray(read(dataset, selection, threads=threads)).astype(native)
    memory.library.assign(memory, values.reshape(shape))
    report(memory.nbytes, memory.nbytes)
    return result


def _decode_on_gpu(
    dataset: h5py.Dataset,
    layout: _Layout,
    box: Box,
    target: DeviceMemory,
    *,
    threads: int,
    report: Report,
) -> None:
    """Read a box of a dataset into an array of its shape: only frames cross to the GPU."""
    places = list(box.places(layout.chunks))
    start = tuple(map(operator.mod, box.start, layout.chunks))

    def read_frame(number: int, room: npt.NDArray[np.uint8]) -> Any:
        return _read_chunk(dataset, places[number], room)

    def read_on_host(part: Box) -> None:
        values = read(dataset, part.slices, threads=threads).astype(target.dtype)
        view = cupy_memory(target.owner[part.within(box).slices])
        view.library.assign(view, values)

    done = 0
    try:
        for tried, left in _device_chunks.decode(target, layout.chunks, start, read_frame):
            for number in left:  # HDF5 has the chunk, or nobody, or it is broken and raises
                read_on_host(chunk_box(places[number], layout.chunks).intersection(box))
            done = tried
            report(done * target.nbytes // len(places), target.nbytes)
    except MemoryError:  # the GPU has no room for a batch
        if done:
            raise
        grid = Grid(box, dataset.shape, layout.chunks)
        for part in grid.boxes(layout.chunk_bytes, BLOCK_BYTES):
            read_on_host(part)
        report(target.nbytes, target.nbytes)


@dataclass(frozen=True)
class _Layout:
    """A dataset whose chunks are ours alone.

    Attributes
    ----------
    params : _native.Params
        What the filter makes of the stored cd_values.
    chunks : tuple of int
        Extents of a chunk.
    dtype : numpy.dtype
        Type of the values.
    fill : numpy.ndarray
        One value: that of chunks that are not there, and of what lies behind the dataset's edge.
    """

    params: _native.Params
    chunks: Place
    dtype: np.dtype[Any]
    fill: npt.NDArray[Any]

    @property
    def chunk_bytes(self) -> int:
        return math.prod(self.chunks) * self.dtype.itemsize

    def batch_bytes(self, threads: int) -> int:
        """Return the values of a batch: two chunks for a thread, so that none waits for long."""
        most_bytes = min(BLOCK_BYTES, MOST_CHUNKS * self.chunk_bytes)
        return max(most_bytes, 2 * threads * self.chunk_bytes)

    @classmethod
    def of(cls, dataset: h5py.Dataset) -> _Layout | None:
        """Return None where HDF5 has to do the work."""
        creation = dataset.id.get_create_plist()
        params = _params_of(creation)
        # Under MPI all processes have to write a filtered chunk together.
        if params is None or dataset.file.driver == "mpio":
            return None
        dtype, chunks = dataset.dtype, dataset.chunks
        described = params.value_bytes, params.value_bytes * math.prod(params.shape)
        actual = dtype.itemsize, dtype.itemsize * math.prod(chunks)
        if dtype.kind != "f" or described != actual or params.big_endian != is_big_endian(dtype):
            return None
        return cls._with(dataset, params)

    @classmethod
    def for_reading(cls, dataset: h5py.Dataset) -> _Layout | None:
        """As `of`, but also for cd_values that do not describe the frames."""
        layout = cls.of(dataset)
        chunks = stored_chunks(dataset) if layout is None else None
        if chunks is None or not chunks.are_ours_alone or dataset.file.driver == "mpio":
            return layout
        dtype = dataset.dtype
        params = _native.Params(value_bytes=dtype.itemsize, big_endian=is_big_endian(dtype))
        return cls._with(dataset, params)

    @classmethod
    def _with(cls, dataset: h5py.Dataset, params: _native.Params) -> _Layout:
        return cls(
            # The filter cannot tell padding from data.
            params=dataclasses.replace(params, maybe_padded=True),
            chunks=dataset.chunks,
            dtype=dataset.dtype,
            fill=unwritten_value(dataset),
        )


def _params_of(creation: h5p.PropDCID) -> _native.Params | None:
    """Return what our filter does with all chunks, if it is the only one and does it with all."""
    if creation.get_layout() != h5d.CHUNKED or creation.get_nfilters() != 1:
        return None
    number, flags, words, _ = creation.get_filter(0)
    # An optional filter has not been told the type, and encodes nothing. Chunks at the edge may be
    # exempt from filters (H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS).
    if number != _native.FILTER_ID or flags & h5z.FLAG_OPTIONAL or chunk_options(creation.id):
        return None
    try:
        return _native.unpack_cd_values([word & 0xFFFFFFFF for word in words])
    except H5LossyError:
        return None


class _Writer:
    """One call of `write`: batches go through `_fetch`, `_encode` and `_store`, in this order."""

    def __init__(
        self,
        dataset: h5py.Dataset,
        layout: _Layout,
        source: Source,
        chosen: Selection,
        *,
        threads: int,
        report: Report,
        recorder: Recorder | None = None,
    ) -> None:
        self._dataset = dataset
        self._layout = layout
        self._source = source
        self._chosen = chosen
        self._threads = threads
        self._report = report
        self._recorder = recorder
        self._grid = Grid(chosen.box, dataset.shape, layout.chunks)
        self._rooms = _Rooms(layout.chunk_bytes)
        self._space = Space(dataset)
        self._name = dataset.name  # which it has no more when the file is closed meanwhile
        self._done = 0
        self._done_bytes = 0

    def run(self) -> None:
        try:
            try:
                _overlap(self._fetch(), self._encode, self._store)
                self._source.finish()
            finally:
                self._space.flush()
        except Exception as error:
            raise IncompleteWriteError(
                f"{self._state()}: {type(error).__name__}: {error}",
                self._written(),
                len(self._grid),
            ) from error
        except BaseException as error:
            error.add_note(self._state())
            raise

    def covers_whole_chunks(self) -> bool:
        """Tell whether no chunk is written in part."""
        return all(bool(batch.whole.all()) for batch in self._batches())

    def _batches(self) -> Iterator[Pieces]:
        layout = self._layout
        return self._grid.batches(layout.chunk_bytes, layout.batch_bytes(self._threads))

    def _state(self) -> str:
        return f"{self._done} of {len(self._grid)} chunks of {self._name} were written"

    def _written(self) -> tuple[Place, ...]:
        places = itertools.chain.from_iterable(batch.places.tolist() for batch in self._batches())
        return tuple(map(tuple, itertools.islice(places, self._done)))

    def _fetch(self) -> Iterator[tuple[Pieces, npt.NDArray[Any]]]:
        for pieces in self._batches():
            try:
                yield pieces, self._read(pieces)
            except Exception:
                # What has come of this batch is written all the same.
                come = pieces.up_to(self._chosen.box.start[0] + self._source.held())
                if self._chosen.kept[0] and len(come):
                    yield come, self._read(come)
                raise

    def _read(self, pieces: Pieces) -> npt.NDArray[Any]:
        bounds = pieces.bounds
        values = self._source.read(self._chosen.of_kept(bounds))
        return as_stored(values, self._layout.dtype).reshape(bounds.shape)

    def _encode(self, batch: tuple[Pieces, npt.NDArray[Any]]) -> list[npt.NDArray[np.uint8]]:
        pieces, values = batch
        whole = pieces.whole
        if not whole.any():
            return []
        parts = _native.Parts(
            array=values,
            chunk=self._layout.chunks,
            corners=(pieces.start - pieces.start[0])[whole],
            first=(pieces.start - pieces.places)[whole],
            extents=pieces.extents[whole],
            padding=self._layout.fill,
        )
        room = self._rooms.next(len(parts))
        frames = _native.encode_parts(self._layout.params, parts, room, self._threads)
        if self._recorder is not None:
            self._verify(self._recorder, pieces, values, frames)
        return frames

    def _verify(
        self,
        recorder: Recorder,
        pieces: Pieces,
        values: npt.NDArray[Any],
        frames: list[npt.NDArray[np.uint8]],
    ) -> None:
        """Decode what was just encoded and judge it, before any of it goes to the file."""
        layout = self._layout
        for i, frame in enumerate(frames):
            chunk = np.empty(layout.chunks, layout.dtype)
            _native.decode(frame, chunk)
            box = pieces.box(i)
            recorder.add(
                pieces.place(i),
                values[box.within(pieces.bounds).slices],
                chunk[tuple(map(slice, box.shape))],
            )
        recorder.check()

    def _store(
        self, batch: tuple[Pieces, npt.NDArray[Any]], frames: list[npt.NDArray[np.uint8]]
    ) -> None:
        pieces, values = batch
        left = iter(frames)
        for i in range(len(pieces)):
            place, box = pieces.place(i), pieces.box(i)
            if pieces.whole[i]:
                _write_chunk(self._dataset, place, next(left), self._space)
            else:
                part = values[box.within(pieces.bounds).slices]
                _write_part(self._dataset, place, box, part, self._space)
            self._done += 1
        self._done_bytes += pieces.values * self._layout.dtype.itemsize
        self._report(self._done_bytes, _bytes_of(self._chosen, self._layout.dtype))


class _Reader:
    """One call of `read`: batches go through `_fetch`, `_decode` and `_finish`, in this order."""

    def __init__(
        self,
        dataset: h5py.Dataset,
        layout: _Layout,
        chosen: Selection,
        out: npt.NDArray[Any],
        *,
        threads: int,
        report: Report,
    ) -> None:
        self._dataset = dataset
        self._layout = layout
        self._chosen = chosen
        self._out = np.asarray(out)[chosen.with_all_axes]  # a matrix would keep two axes
        self._threads = threads
        self._report = report
        self._grid = Grid(chosen.box, dataset.shape, layout.chunks)
        self._rooms = _Rooms(layout.chunk_bytes)
        self._stored: npt.NDArray[np.bool_] | None = None
        self._chunks = StoredChunks(dataset)
        self._done_bytes = 0

    def run(self) -> None:
        _overlap(self._fetch(), self._decode, self._finish)

    def _list_chunks(self) -> npt.NDArray[np.bool_]:
        """Return which chunks of the grid are stored."""
        chunks, grid = self._layout.chunks, self._grid
        stored = np.zeros(grid.counts, np.bool_)  # a byte for each, as there may be millions

        def mark(chunk: Any) -> None:
            at = tuple(map(operator.floordiv, chunk.chunk_offset, chunks))
            inside = tuple(map(operator.sub, at, grid.first))
            if all(0 <= i < n for i, n in zip(inside, grid.counts, strict=True)):
                stored[inside] = True

        for_each_chunk(self._dataset, mark)
        return stored

    def _fetch(self) -> Iterator[tuple[Pieces, dict[int, Any]]]:
        """Yield the frames of each batch by the number of their piece; fill in what has none."""
        layout = self._layout
        for pieces in self._grid.batches(layout.chunk_bytes, layout.batch_bytes(self._threads)):
            room = self._rooms.next(len(pieces))
            stored = self._are_stored(pieces)
            frames = {}
            for i in range(len(pieces)):
                place = pieces.place(i)
                if not stored[i]:
                    as_bits(self._target(pieces, i))[...] = as_bits(layout.fill)
                    continue
                frame = _read_chunk(self._dataset, place, room[i])
                if frame is None:
                    self._read_whole(pieces, i)
                else:
                    frames[i] = frame
            yield pieces, frames

    def _are_stored(self, pieces: Pieces) -> npt.NDArray[np.bool_]:
        """Tell of which pieces the chunk is stored: by the index for few, or by a list of all."""
        is_few = len(self._grid) * _LISTING_FACTOR < math.prod(grid_of(self._dataset))
        if self._stored is None and is_few:
            look_up, dataset = stored_size, self._dataset.id.id
            if all(look_up(dataset, pieces.place(i)) is not None for i in range(len(pieces))):
                return np.ones(len(pieces), np.bool_)
        if self._stored is None:  # None of `stored_size` may also be an error, which this raises
            self._stored = self._list_chunks()
        at = pieces.places // self._layout.chunks - self._grid.first
        found: npt.NDArray[np.bool_] = self._stored[tuple(at.T)]
        return found

    def _read_whole(self, pieces: Pieces, i: int) -> None:
        """Read a chunk that is not a frame of ours; raise if it is broken."""
        place = pieces.place(i)
        values = self._chunks.values(place)
        box = pieces.box(i).within(chunk_box(place, self._layout.chunks))
        self._target(pieces, i)[...] = values[box.slices]

    def _target(self, pieces: Pieces, i: int) -> npt.NDArray[Any]:
        return self._out[pieces.box(i).within(self._chosen.box).slices]

    def _decode(self, batch: tuple[Pieces, dict[int, Any]]) -> dict[int, Exception]:
        pieces, frames = batch
        if not frames:
            return {}
        numbers = list(frames)
        start = pieces.start[numbers]
        parts = _native.Parts(
            array=self._out,
            chunk=self._layout.chunks,
            corners=start - self._chosen.box.start,
            first=start - pieces.places[numbers],
            extents=pieces.extents[numbers],
            padding=self._layout.fill,
        )
        frames_of_parts = list(frames.values())
        failures = _native.decode_parts(self._layout.params, parts, frames_of_parts, self._threads)
        return {numbers[n]: error for n, error in failures.items()}

    def _finish(self, batch: tuple[Pieces, dict[int, Any]], failures: dict[int, Exception]) -> None:
        pieces, _ = batch
        for i in failures:
            self._read_whole(pieces, i)
        self._done_bytes += pieces.values * self._layout.dtype.itemsize
        self._report(self._done_bytes, _bytes_of(self._chosen, self._layout.dtype))


class _Rooms:
    """Memory for the frames of two batches: one that is worked on, and the one before or behind.

    It is used again and again: fresh memory costs about as much time as encoding.
    """

    def __init__(self, chunk_bytes: int) -> None:
        # Rows that begin where cache lines do.
        self._row_bytes = -(-_native.max_encoded_size(chunk_bytes) // 64) * 64
        self._rooms = [np.empty((0, self._row_bytes), np.uint8)] * 2

    def next(self, count: int) -> npt.NDArray[np.uint8]:
        """Return a row for each of `count` frames. Those of the call before the last are lost."""
        room = self._rooms.pop(0)
        if len(room) < count:
            # Pages that no frame reaches are never touched, and cost address space only.
            room = np.empty((count, self._row_bytes), np.uint8)
        self._rooms.append(room)
        return room


@contextmanager
def _helper() -> Iterator[Callable[..., Future[Any]]]:
    """Give what has a function run by another thread; by this one, where none can be started.

    That is so when Python is about to end, as in what `atexit` calls, and where the system allows
    no more threads.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="h5lossy") as helper:
        submit: Callable[..., Future[Any]] = helper.submit
        try:
            submit(int)  # starts the thread
        except RuntimeError:
            submit = _run_at_once
        yield submit


def _run_at_once(work: Callable[[_Batch], _Result], batch: _Batch) -> Future[_Result]:
    future: Future[_Result] = Future()
    try:
        future.set_result(work(batch))
    except Exception as error:  # noqa: BLE001  # raised by result()
        future.set_exception(error)
    return future


def _overlap(
    batches: Iterator[_Batch],
    work: Callable[[_Batch], _Result],
    finish: Callable[[_Batch, _Result], None],
) -> None:
    """Do `work` on each batch in another thread, while the next is fetched and the last finished.

    Two batches exist at a time. If the next one cannot be fetched, those before it are finished all
    the same.
    """
    failure: Exception | None = None
    started: deque[tuple[_Batch, Future[_Result]]] = deque()
    with _helper() as submit:
        while True:
            try:
                batch = next(batches, None)
            except Exception as error:  # noqa: BLE001  # raised below
                batch, failure = None, error
            if batch is None:
                break
            started.append((batch, submit(work, batch)))
            if len(started) == 2:
                before, future = started.popleft()
                finish(before, future.result())
                del before, future  # their memory, before the next is fetched
        for before, future in started:
            finish(before, future.result())
    if failure is not None:
        raise failure


def _write_chunk(
    dataset: h5py.Dataset, place: Place, frame: npt.NDArray[np.uint8], space: Space
) -> None:
    with _replacing(dataset, place, len(frame), space):
        dataset.id.write_direct_chunk(place, frame)


def _write_part(
    dataset: h5py.Dataset, place: Place, box: Box, values: npt.NDArray[Any], space: Space
) -> None:
    """Write a part of the chunk at `place`, which HDF5 decodes and encodes again."""
    chunk_bytes = math.prod(dataset.chunks) * dataset.dtype.itemsize
    with _replacing(dataset, place, _native.max_encoded_size(chunk_bytes), space):
        dataset[box.slices] = values
        # Makes HDF5 write the chunk now: space has been reserved for this one only.
        put_into_file(dataset.id, place)


@contextmanager
def _replacing(dataset: h5py.Dataset, place: Place, size: int, space: Space) -> Iterator[None]:
    """Write a chunk such that at most this one is lost if the process is killed."""
    with phil:
        space.reserve(size)
        old = stored_size(dataset.id.id, place)
        yield
        if old not in {None, size}:
            # HDF5 may reuse the old chunk's space for the next one; before that, the index in the
            # file must no longer refer to it.
            space.flush()


def _read_chunk(dataset: h5py.Dataset, place: Place, room: npt.NDArray[np.uint8]) -> Any:
    """Return the frame of a stored chunk; None if it is not filtered, or can't be read."""
    try:
        with phil:
            try:
                mask, frame = dataset.id.read_direct_chunk(place, out=room)
            except TypeError:  # old h5py has no `out`
                if (stored_size(dataset.id.id, place) or 0) > len(room):
                    return None
                mask, frame = dataset.id.read_direct_chunk(place)
    except (OSError, RuntimeError, ValueError, KeyError):
        return None
    return None if mask or not len(frame) else frame


def _write_as_h5py_does(
    dataset: h5py.Dataset, source: Source, chosen: Selection, report: Report
) -> None:
    """Write part by part, so that a source that does not fit into memory need not."""
    done = 0
    for box in _parts_of(dataset, chosen):
        dataset[box.slices] = source.read(chosen.of_kept(box)).reshape(box.shape)
        done += math.prod(box.shape) * dataset.dtype.itemsize
        report(done, _bytes_of(chosen, dataset.dtype))
    source.finish()


def _read_as_h5py_does(
    dataset: h5py.Dataset, selection: Any, chosen: Selection | None, out: Any, report: Report
) -> Any:
    """Read at once, or part by part where there is a place for the parts."""
    chunks = stored_chunks(dataset)
    if chunks is not None:
        chunks.check_lengths(_touched_if_few(dataset, chosen))
    try:
        return _read_by_hdf5(dataset, selection, chosen, out, report)
    except OSError:
        if chunks is not None:
            chunks.raise_for_broken()
        raise


def _touched_if_few(dataset: h5py.Dataset, chosen: Selection | None) -> Iterator[Place] | None:
    """Return where the chunks of a selection begin, if that is faster than listing all chunks."""
    if chosen is None:
        return None
    touched = Grid(chosen.box, dataset.shape, dataset.chunks)
    if len(touched) * _LISTING_FACTOR >= math.prod(grid_of(dataset)):
        return None
    return chosen.box.places(dataset.chunks)


def _read_by_hdf5(
    dataset: h5py.Dataset, selection: Any, chosen: Selection | None, out: Any, report: Report
) -> Any:
    if chosen is None or out is None:
        values = dataset[selection]
        if out is not None:
            _check_out(out, np.shape(values), dataset.dtype)
            out[...] = values
        size = math.prod(np.shape(values) or ()) * dataset.dtype.itemsize
        report(size, size)
        return values if out is None else out
    _check_out(out, chosen.shape, dataset.dtype)
    target = np.asarray(out)[chosen.with_all_axes]
    done = 0
    for box in _parts_of(dataset, chosen):
        target[box.within(chosen.box).slices] = dataset[box.slices]
        done += math.prod(box.shape) * dataset.dtype.itemsize
        report(done, _bytes_of(chosen, dataset.dtype))
    return out


def _parts_of(dataset: h5py.Dataset, chosen: Selection) -> Iterator[Box]:
    """Return parts of a selection that take little memory, and split no chunk."""
    unit = dataset.chunks or (1,) * len(dataset.shape)
    grid = Grid(chosen.box, dataset.shape, unit)
    return grid.boxes(dataset.dtype.itemsize * math.prod(unit), BLOCK_BYTES)


def _bytes_of(chosen: Selection, dtype: np.dtype[Any]) -> int:
    return math.prod(chosen.box.shape) * dtype.itemsize


def _checked_threads(threads: Any) -> int:
    if threads is None:
        return _native.default_threads()
    if isinstance(threads, bool) or not isinstance(threads, int | np.integer) or threads < 1:
        raise InvalidArgumentError(f"threads must be a number from 1 up, got {threads!r}")
    return int(min(threads, _MOST_THREADS))


def _check_open(dataset: Any) -> None:
    if not isinstance(dataset, h5py.Dataset):
        raise TypeError(f"dataset must be an h5py.Dataset, got {type(dataset).__name__}")
    if not dataset:
        raise InvalidArgumentError("the dataset's file is closed")


def _check_out(out: Any, shape: Place, dtype: np.dtype[Any]) -> None:
    if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
        raise TypeError(f"out must be a NumPy array, got {type(out).__name__}")
    if out.shape != shape or out.dtype != dtype or not out.flags.writeable:
        given = "an array" if out.flags.writeable else "a read-only array"
        raise InvalidArgumentError(
            f"out must be a writable array of {dtype} and shape {shape}, "
            f"got {given} of {out.dtype} and shape {out.shape}"
        )

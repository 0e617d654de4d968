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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import h5py
import numpy as np
from h5py import h5d, h5z
from h5py._objects import phil

from h5lossy import _native
from h5lossy._blocks import BLOCK_BYTES, chunk_starts
from h5lossy._boxes import Box, Grid, Selection, as_selection
from h5lossy._libhdf5 import chunk_options
from h5lossy._progress import reporting
from h5lossy._sources import as_stored, make_source
from h5lossy._values import as_bits, is_big_endian
from h5lossy.errors import H5LossyError, IncompleteWriteError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy.typing as npt

    from h5lossy._boxes import Place
    from h5lossy._progress import Report
    from h5lossy._sources import Source

_Batch = TypeVar("_Batch")
_Result = TypeVar("_Result")

#: A listing of all chunks costs about as much as looking for this many that may not be there.
_LISTING_FACTOR = 8


def write(
    dataset: h5py.Dataset,
    values: Any,
    selection: Any = ...,
    *,
    threads: int | None = None,
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
    selection : index, optional
        Numbers and slices, as in ``dataset[selection]``. Default: everything. Chunks that it
        covers in part are read, changed and written again by HDF5. Slices with steps, lists and
        masks are left to h5py altogether.
    threads : int, optional
        At most so many encode. Default: ``H5LOSSY_NUM_THREADS``, or as many as the process has
        CPUs. The calling thread moves data meanwhile.
    progress : function or bool, optional
        Called as ``progress(bytes_done, bytes_in_all)`` after each batch, in the calling thread.
        True shows a bar on standard error.

    Raises
    ------
    IncompleteWriteError
        If anything goes wrong after the start: the source raises, the disk is full. The file then
        holds whole chunks, and the exception says which are new. An exception that is no
        `Exception`, such as `KeyboardInterrupt`, passes through, with a note of how far it went.
    InvalidArgumentError
        If the values do not fit the selection, or `threads` is not a number from 1 up.

    Notes
    -----
    A batch holds 32 MiB of values, or two chunks for each thread where that is more. At most two
    batches of values and two of frames are in memory, together four times as much. Blocks are kept
    until a whole row of chunks has been written.

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
    chosen = as_selection(selection, dataset.shape) if dataset.shape else None
    with reporting(progress, f"writing {dataset.name}") as report:
        if chosen is None:
            dataset[selection] = values
            return
        source = make_source(values, chosen.shape, dataset.dtype)
        layout = _Layout.of(dataset)
        if layout is None:
            _write_as_h5py_does(dataset, source, chosen, report)
        else:
            _Writer(dataset, layout, source, chosen, count, report).run()


def read(
    dataset: h5py.Dataset,
    selection: Any = ...,
    *,
    out: npt.NDArray[Any] | None = None,
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
        tiles with wanted values are decoded; the checksum of its payload is then not checked.
    out : numpy.ndarray, optional
        Where the values go: an array of the selection's shape and the dataset's type.
    threads : int, optional
        At most so many decode. Default: as for `write`.
    progress : function or bool, optional
        As for `write`.

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
        If `out` has another shape or type, or `threads` is not a number from 1 up.

    Notes
    -----
    Memory is bounded as in `write`.

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
    chosen = as_selection(selection, dataset.shape) if dataset.shape else None
    layout = _Layout.of(dataset) if chosen is not None else None
    with reporting(progress, f"reading {dataset.name}") as report:
        if chosen is None or layout is None:
            values = dataset[selection]
            if out is None:
                return values
            _check_out(out, np.shape(values), dataset.dtype)
            out[...] = values
            return out
        result = np.empty(chosen.shape, dataset.dtype) if out is None else out
        _check_out(result, chosen.shape, dataset.dtype)
        _Reader(dataset, layout, chosen, result, count, report).run()
    return result[()] if out is None else result


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
    fill, padding : numpy.ndarray
        One value each: of chunks that are not there, and behind the edge of the dataset.
    """

    params: _native.Params
    chunks: Place
    dtype: np.dtype[Any]
    fill: npt.NDArray[Any]
    padding: npt.NDArray[Any]

    @property
    def chunk_bytes(self) -> int:
        return math.prod(self.chunks) * self.dtype.itemsize

    def batch_bytes(self, threads: int) -> int:
        """Return the values of a batch: two chunks for a thread, so that none waits for long."""
        return max(BLOCK_BYTES, 2 * threads * self.chunk_bytes)

    @classmethod
    def of(cls, dataset: h5py.Dataset) -> _Layout | None:
        """Return None where HDF5 has to do the work."""
        creation = dataset.id.get_create_plist()
        if creation.get_layout() != h5d.CHUNKED or creation.get_nfilters() != 1:
            return None
        number, flags, words, _ = creation.get_filter(0)
        # An optional filter has not been told the type, and encodes nothing.
        if number != _native.FILTER_ID or flags & h5z.FLAG_OPTIONAL:
            return None
        # Chunks at the edge may be exempt from filters (H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS).
        if chunk_options(creation.id):
            return None
        try:
            params = _native.unpack_cd_values([word & 0xFFFFFFFF for word in words])
        except H5LossyError:
            return None
        dtype, chunks = dataset.dtype, dataset.chunks
        described = (params.value_bytes, params.value_bytes * math.prod(params.shape))
        bytes_of_chunk = math.prod(chunks) * dtype.itemsize
        if described != (dtype.itemsize, bytes_of_chunk) or dtype.kind != "f":
            return None
        if params.big_endian != is_big_endian(dtype):
            return None
        fill = np.zeros((), dtype)
        if creation.fill_value_defined() == h5d.FILL_VALUE_USER_DEFINED:
            creation.get_fill_value(fill)
        never = creation.get_fill_time() == h5d.FILL_TIME_NEVER
        return cls(
            # The filter cannot tell padding from data.
            params=dataclasses.replace(params, maybe_padded=True),
            chunks=chunks,
            dtype=dtype,
            fill=fill,
            padding=np.zeros((), dtype) if never else fill,
        )


@dataclass
class _WritePiece:
    place: Place
    box: Box
    values: npt.NDArray[Any]
    is_whole: bool


class _Writer:
    def __init__(
        self,
        dataset: h5py.Dataset,
        layout: _Layout,
        source: Source,
        chosen: Selection,
        threads: int,
        report: Report,
    ) -> None:
        self._dataset = dataset
        self._layout = layout
        self._source = source
        self._chosen = chosen
        self._threads = threads
        self._report = report
        self._grid = Grid(chosen.box, dataset.shape, layout.chunks)
        self._done = 0
        self._done_bytes = 0

    def run(self) -> None:
        try:
            _overlap(self._pieces(), self._encode, self._store)
            self._source.finish()
        except Exception as error:
            raise IncompleteWriteError(
                f"{self._state()}: {type(error).__name__}: {error}",
                self._written(),
                len(self._grid),
            ) from error
        except BaseException as error:
            error.add_note(self._state())
            raise

    def _batches(self) -> Iterator[list[Place]]:
        layout = self._layout
        return self._grid.batches(layout.chunk_bytes, layout.batch_bytes(self._threads))

    def _state(self) -> str:
        return f"{self._done} of {len(self._grid)} chunks of {self._dataset.name} were written"

    def _written(self) -> tuple[Place, ...]:
        places = itertools.chain.from_iterable(self._batches())
        return tuple(itertools.islice(places, self._done))

    def _pieces(self) -> Iterator[list[_WritePiece]]:
        for places in self._batches():
            bounds = self._grid.bounds(places)
            values = self._source.read(self._chosen.of_kept(bounds))
            values = as_stored(values, self._layout.dtype).reshape(bounds.shape)
            yield [self._piece(place, bounds, values) for place in places]

    def _piece(self, place: Place, bounds: Box, values: npt.NDArray[Any]) -> _WritePiece:
        whole = self._grid.whole(place)
        box = whole.intersection(self._grid.box)
        part = values[box.within(bounds).slices]
        if box != whole:
            return _WritePiece(place, box, part, is_whole=False)
        return _WritePiece(place, box, self._padded(part), is_whole=True)

    def _padded(self, part: npt.NDArray[Any]) -> npt.NDArray[Any]:
        chunks = self._layout.chunks
        if part.shape == chunks:
            return np.ascontiguousarray(part)  # no copy where it is contiguous already
        chunk = np.empty(chunks, self._layout.dtype)
        as_bits(chunk)[...] = as_bits(self._layout.padding)
        chunk[tuple(map(slice, part.shape))] = part
        return chunk

    def _encode(self, pieces: list[_WritePiece]) -> Iterable[npt.NDArray[np.uint8]]:
        chunks = [piece.values for piece in pieces if piece.is_whole]
        return _native.encode_batch(self._layout.params, chunks, self._threads) if chunks else ()

    def _store(self, pieces: list[_WritePiece], frames: Iterable[npt.NDArray[np.uint8]]) -> None:
        left = iter(frames)
        for piece in pieces:
            if piece.is_whole:
                _write_chunk(self._dataset, piece.place, next(left))
            else:
                self._dataset[piece.box.slices] = piece.values
            self._done += 1
            self._done_bytes += math.prod(piece.box.shape) * self._layout.dtype.itemsize
        self._report(self._done_bytes, _bytes_of(self._chosen, self._layout.dtype))


@dataclass
class _ReadPiece:
    place: Place
    box: Box
    frame: Any
    target: npt.NDArray[Any]


class _Reader:
    def __init__(
        self,
        dataset: h5py.Dataset,
        layout: _Layout,
        chosen: Selection,
        out: npt.NDArray[Any],
        threads: int,
        report: Report,
    ) -> None:
        self._dataset = dataset
        self._layout = layout
        self._chosen = chosen
        self._out = out[chosen.with_all_axes]
        self._threads = threads
        self._report = report
        self._grid = Grid(chosen.box, dataset.shape, layout.chunks)
        self._stored = self._list_chunks()

    def run(self) -> None:
        done = 0

        def finish(pieces: list[_ReadPiece], failures: dict[int, Exception]) -> None:
            nonlocal done
            for i, error in failures.items():
                self._read_after(error, pieces[i])
            done += len(pieces)
            all_bytes = _bytes_of(self._chosen, self._layout.dtype)
            self._report(all_bytes * done // len(self._grid), all_bytes)

        _overlap(self._pieces(), self._decode, finish)

    def _list_chunks(self) -> set[Place] | None:
        """Return which chunks are stored, where many are wanted; None where few are."""
        chunks = self._layout.chunks
        in_all = math.prod(-(-n // c) for n, c in zip(self._dataset.shape, chunks, strict=True))
        if len(self._grid) * _LISTING_FACTOR < in_all:
            return None
        return {tuple(map(int, start)) for start in chunk_starts(self._dataset)}

    def _pieces(self) -> Iterator[list[_ReadPiece]]:
        layout = self._layout
        for places in self._grid.batches(layout.chunk_bytes, layout.batch_bytes(self._threads)):
            yield [self._piece(place) for place in places]

    def _piece(self, place: Place) -> _ReadPiece:
        box = self._grid.whole(place).intersection(self._grid.box)
        target = self._out[box.within(self._chosen.box).slices]
        frame = None
        if self._stored is not None and place not in self._stored:
            as_bits(target)[...] = as_bits(self._layout.fill)
        else:
            frame = _read_chunk(self._dataset, place)
            if frame is None:
                target[...] = self._dataset[box.slices]
        return _ReadPiece(place, box, frame, target)

    def _decode(self, pieces: list[_ReadPiece]) -> dict[int, Exception]:
        numbers = [i for i, piece in enumerate(pieces) if piece.frame is not None]
        if not numbers:
            return {}
        firsts, outs = [], []
        for i in numbers:
            first, out = self._place_for(pieces[i])
            firsts.append(first)
            outs.append(out)
        frames = [pieces[i].frame for i in numbers]
        failures = _native.decode_batch(self._layout.params, frames, firsts, outs, self._threads)
        for i, first, out in zip(numbers, firsts, outs, strict=True):
            self._take(pieces[i], first, out)
            pieces[i].frame = None
        return {numbers[n]: error for n, error in failures.items()}

    def _place_for(self, piece: _ReadPiece) -> tuple[int, npt.NDArray[Any]]:
        """Return from which value of the chunk on to decode, and where to."""
        if piece.box.shape == self._layout.chunks and piece.target.flags.c_contiguous:
            return 0, piece.target
        count = math.prod(self._layout.chunks)
        first, end = self._in_chunk(piece).span(self._layout.chunks)
        if 2 * (end - first) > count:  # the whole costs little more, and has its checksum checked
            first, end = 0, count
        return first, np.empty(end - first, self._layout.dtype)

    def _take(self, piece: _ReadPiece, first: int, values: npt.NDArray[Any]) -> None:
        if values is piece.target:
            return
        begin, _ = self._in_chunk(piece).span(self._layout.chunks)
        strides = np.empty(self._layout.chunks, np.bool_).strides
        item = self._layout.dtype.itemsize
        piece.target[...] = np.ndarray(
            piece.box.shape,
            values.dtype,
            values,
            (begin - first) * item,
            tuple(item * stride for stride in strides),
        )

    def _in_chunk(self, piece: _ReadPiece) -> Box:
        return piece.box.within(Box(piece.place, piece.place))

    def _read_after(self, error: Exception, piece: _ReadPiece) -> None:
        """Let HDF5 try, which may have the chunk in its cache; if it can't either, say why."""
        try:
            piece.target[...] = self._dataset[piece.box.slices]
        except OSError:
            where = f"chunk {piece.place} of {self._dataset.name}"
            raise type(error)(f"{where}: {error}") from None


def _overlap(
    batches: Iterator[_Batch],
    work: Callable[[_Batch], _Result],
    finish: Callable[[_Batch, _Result], None],
) -> None:
    """Do `work` on each batch in another thread, while the next is fetched and the last finished.

    At most three batches exist at a time: one that is fetched, one in work, one that is finished
    before the next is fetched.
    """
    first = next(batches, None)
    second = next(batches, None) if first is not None else None
    if first is None:
        return
    if second is None:  # nothing to overlap with
        finish(first, work(first))
        return
    with ThreadPoolExecutor(1, thread_name_prefix="h5lossy") as helper:
        before, future = first, helper.submit(work, first)
        for batch in itertools.chain([second], batches):
            following = helper.submit(work, batch)
            finish(before, future.result())
            before, future = batch, following
        finish(before, future.result())


def _write_chunk(dataset: h5py.Dataset, place: Place, frame: npt.NDArray[np.uint8]) -> None:
    with phil:  # h5py up to 3.15 does not take it itself
        dataset.id.write_direct_chunk(place, frame)


def _read_chunk(dataset: h5py.Dataset, place: Place) -> Any:
    """Return a chunk's frame; None where HDF5 has to read it: not stored, or not filtered."""
    try:
        with phil:
            mask, frame = dataset.id.read_direct_chunk(place)
    except (OSError, RuntimeError, ValueError, KeyError):
        return None
    return None if mask or not len(frame) else frame


def _write_as_h5py_does(
    dataset: h5py.Dataset, source: Source, chosen: Selection, report: Report
) -> None:
    """Write part by part, so that a source that does not fit into memory need not."""
    item = dataset.dtype.itemsize
    unit = dataset.chunks or (1,) * len(dataset.shape)
    grid = Grid(chosen.box, dataset.shape, unit)
    done = 0
    for box in grid.blocks(item * math.prod(unit), BLOCK_BYTES):
        dataset[box.slices] = source.read(chosen.of_kept(box)).reshape(box.shape)
        done += math.prod(box.shape) * item
        report(done, _bytes_of(chosen, dataset.dtype))
    source.finish()


def _bytes_of(chosen: Selection, dtype: np.dtype[Any]) -> int:
    return math.prod(chosen.box.shape) * dtype.itemsize


def _checked_threads(threads: int | None) -> int:
    if threads is None:
        return _native.default_threads()
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise InvalidArgumentError(f"threads must be a number from 1 up, got {threads!r}")
    return min(threads, 2**31)


def _check_out(out: Any, shape: Place, dtype: np.dtype[Any]) -> None:
    if not isinstance(out, np.ndarray):
        raise TypeError(f"out must be a NumPy array, got {type(out).__name__}")
    if out.shape != shape or out.dtype != dtype or not out.flags.writeable:
        state = "" if out.flags.writeable else "read-only "
        raise InvalidArgumentError(
            f"out must be a writable array of {dtype} and shape {shape}, "
            f"got a {state}one of {out.dtype} and shape {out.shape}"
        )

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Reading a dataset: frames are decoded by CPU or GPU, and h5py reads all other datasets."""

from __future__ import annotations

import functools
import math
import os
import time
from contextlib import closing, nullcontext
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from h5lossy import _native
from h5lossy._arrays import (
    DeviceMemory,
    cupy_memory,
    cupy_memory_to_fill,
    is_device_array,
    new_cupy_memory,
)
from h5lossy._batched.boxes import Place, Selection, as_selection
from h5lossy._batched.chunk_readers import GpuReader, HostReader
from h5lossy._batched.gpu import is_possible
from h5lossy._errors import InvalidArgumentError
from h5lossy._progress import Progress, Report, reporting
from h5lossy._stored import StoredChunks, stored_chunks
from h5lossy._values import as_scalar, is_number
from h5lossy._variables import takes_variables

if TYPE_CHECKING:
    import h5py


#: The library starts at most this many.
_MOST_THREADS = 1024


@takes_variables
def read(
    dataset: h5py.Dataset,
    selection: Any = ...,
    *,
    out: Any = None,
    threads: int | None = None,
    progress: Progress = False,
) -> Any:
    """Read from a dataset, as ``dataset[selection]`` does, on several threads.

    Parameters
    ----------
    dataset : h5py.Dataset, or variable of h5netcdf or netCDF4
        With any filters; h5py reads what has others than h5lossy's alone. Variables are read as
        they are stored: nothing is masked or unpacked. A file of netCDF4 has to be open for
        reading, for it is opened a second time.
    selection : index, optional
        Numbers and slices, as in ``dataset[selection]``. Default: everything. h5py reads slices
        with steps, lists and masks. Of a chunk of which the selection needs less than half of the
        tiles, only those with wanted values are decoded; the checksum of its payload is checked all
        the same.
    out : array or "cupy", optional
        Where the values go: an array of the selection's shape and the dataset's type, which may be
        on a GPU. "cupy": a new array on CuPy's current GPU. Only frames are copied there, if the
        dataset is in the machine's byte order.
    threads : int, optional
        At most so many decode. Default: as for `write`.
    progress : function or bool, optional
        Called as for `write`.

    Returns
    -------
    numpy.ndarray, or a NumPy scalar
        `out`, or a new array; a scalar where the selection is a single value by its numbers.
        Chunks that are not stored hold the fill value.

    Raises
    ------
    CorruptFrameError
        If a chunk is broken. `out` then holds values of some chunks.
    InvalidArgumentError
        If `out` has another shape or type, the file is closed, `threads` is not a number from 1
        up, or `progress` is no function.

    Notes
    -----
    A batch is as large as in `write`. Beside the result, the frames of two batches are in memory,
    and where tiles are boxes a chunk for each thread. A call takes at least 0.1 ms of CPU time, so
    h5py is faster for single chunks below about 1 MiB.
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
    if threads is not None:
        threads = checked_threads(threads)
    chosen = as_selection(selection, dataset)
    what = f"reading {dataset.name}" if progress else ""
    with reporting(progress, what) as report:
        if isinstance(out, str) or (out is not None and is_device_array(out)):
            return _read_to_gpu(dataset, selection, chosen, out, threads=threads, report=report)
        chunks = stored_chunks(dataset)
        if chosen is None or chunks is None or chunks.decoding is None:
            return _read_by_h5py(dataset, chunks, selection, chosen, out=out, report=report)
        result = np.empty(chosen.shape, dataset.dtype) if out is None else out
        if out is not None:
            _check_out(out, chosen.shape, dataset.dtype)
        target = np.asarray(result)[chosen.with_all_axes]  # a matrix would keep two axes
        with closing(HostReader(dataset, chunks, chosen, target, report)) as reader:
            if reader.is_short:
                reader.run_at_once()
            else:
                reader.run(threads or checked_threads(None))
        return result[()] if out is None else result


def checked_threads(threads: Any) -> int:
    """Return the number of threads to use, or raise `InvalidArgumentError`."""
    if threads is None:
        return _default_threads(os.environ.get("H5LOSSY_NUM_THREADS"), int(time.monotonic()))
    count = as_scalar(threads)
    if not is_number(count, Integral) or count < 1:
        raise InvalidArgumentError(f"threads must be a number from 1 up, got {threads!r}")
    return min(int(count), _MOST_THREADS)


@functools.lru_cache(1)
def _default_threads(_setting: str | None, _second: int) -> int:
    """Return the number of threads, which the library reads in ten files: once a second."""
    return _native.default_threads()


def _read_to_gpu(
    dataset: h5py.Dataset,
    selection: Any,
    chosen: Selection | None,
    out: Any,
    *,
    threads: int | None,
    report: Report,
) -> Any:
    """Read into an array on a GPU, by way of the host where the GPU can't decode."""
    values: Any = read(dataset, selection, threads=threads) if chosen is None else None
    shape = np.shape(values) if chosen is None else chosen.shape
    dtype = dataset.dtype.newbyteorder("=")
    memory = _gpu_memory(out, shape, dtype)
    result = memory.owner if isinstance(out, str) else out
    if chosen is None:
        memory.library.assign(memory, np.asarray(values, dtype))
        report(memory.nbytes, memory.nbytes)
        return result
    target = cupy_memory(memory.owner[chosen.with_all_axes])
    chunks = stored_chunks(dataset)
    if chunks is not None and is_possible(target, chunks.decoding, decode=True):
        try:
            with closing(GpuReader(dataset, chunks, chosen, target, report)) as reader:
                reader.run(threads or checked_threads(None))
        except MemoryError:
            pass
        else:
            return result
    for box in chosen.boxes(report):
        part = cupy_memory(target.owner[box.within(chosen.box).slices])
        part.library.assign(part, read(dataset, box.slices, threads=threads).astype(dtype))
    return result


def _gpu_memory(out: Any, shape: Place, dtype: np.dtype[Any]) -> DeviceMemory:
    """Return the array on a GPU to read into, or raise."""
    if isinstance(out, str):
        if out != "cupy":
            raise InvalidArgumentError(f'out must be an array or "cupy", got {out!r}')
        return new_cupy_memory(shape, dtype)
    memory = cupy_memory_to_fill(out)
    if memory.shape != shape or memory.dtype != dtype:
        raise InvalidArgumentError(
            f"out must be an array of {dtype} and shape {shape}, "
            f"got one of {memory.dtype} and shape {memory.shape}"
        )
    return memory


def _read_by_h5py(
    dataset: h5py.Dataset,
    chunks: StoredChunks | None,
    selection: Any,
    chosen: Selection | None,
    *,
    out: Any,
    report: Report,
) -> Any:
    """Read at once, or part by part into `out`; errors name broken chunks."""
    touched = None
    if chosen is not None and chunks is not None:
        touched = chosen.box.places(chosen.chunks) if chosen.has_few_chunks else None
    with chunks.read_by_hdf5(touched) if chunks else nullcontext():
        if chosen is not None and out is not None:
            _check_out(out, chosen.shape, dataset.dtype)
            target = np.asarray(out)[chosen.with_all_axes]
            for box in chosen.boxes(report):
                target[box.within(chosen.box).slices] = dataset[box.slices]
            return out
        values = dataset[selection]
        if out is not None:
            _check_out(out, np.shape(values), dataset.dtype)
            out[...] = values
        nbytes = math.prod(np.shape(values) or ()) * dataset.dtype.itemsize
        report(nbytes, nbytes)
        return values if out is None else out


def _check_out(out: Any, shape: Place, dtype: np.dtype[Any]) -> None:
    """Raise if `out` can't take the values."""
    if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
        raise TypeError(f"out must be a NumPy array, got {type(out).__name__}")
    if out.shape != shape or out.dtype != dtype or not out.flags.writeable:
        given = "an array" if out.flags.writeable else "a read-only array"
        raise InvalidArgumentError(
            f"out must be a writable array of {dtype} and shape {shape}, "
            f"got {given} of {out.dtype} and shape {out.shape}"
        )

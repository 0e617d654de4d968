# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Writing a dataset: CPU or GPU encode its chunks, and h5py writes all other datasets."""

from __future__ import annotations

import dataclasses
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from h5py import h5f, h5i

from h5lossy._batched.boxes import Place, as_selection
from h5lossy._batched.chunk_writer import ChunkWriter
from h5lossy._batched.collective import BoxWriter, is_collective, tell_others, write_together
from h5lossy._batched.reader import checked_threads, read
from h5lossy._batched.regions import read_regions
from h5lossy._batched.sources import Source, all_at_once, make_source
from h5lossy._bounds import BoundKind
from h5lossy._chunking import small_chunks_text
from h5lossy._datasets import codec_of
from h5lossy._errors import InvalidArgumentError, UnsupportedError
from h5lossy._libhdf5 import is_parallel
from h5lossy._progress import Progress, Report, reporting
from h5lossy._stored import stored_chunks
from h5lossy._values import has_numbers, own_fill_value
from h5lossy._variables import dataset_to_write, require_open
from h5lossy._verification.recorder import Recorder
from h5lossy._warnings import warn
from h5lossy.missing import no_data, warn_of_zero

if TYPE_CHECKING:
    from collections.abc import Callable

    import h5py


def write(
    dataset: h5py.Dataset,
    values: Any,
    selection: Any = ...,
    *,
    threads: int | None = None,
    verify: bool = False,
    collective: bool = False,
    regions: Any = (),
    progress: Progress = False,
) -> None:
    """Write into a dataset, as ``dataset[selection] = values`` does, on several threads.

    The bytes in the file are those that the filter would have written, whatever the number of
    threads. h5py writes datasets without h5lossy's filter, or with others beside it.

    Parameters
    ----------
    dataset : h5py.Dataset, or variable of h5netcdf
        Open for writing.
    values : array_like, or iterable of arrays
        An array of the selection's shape, of any type that HDF5 converts to the dataset's, or one
        that broadcasts to it; ``numpy.memmap`` is fine. Or another dataset, a dask array, or
        anything else with a shape that takes an index of slices: it is read part by part, a dataset
        by `read`. Or a generator, or another iterable that is no list or tuple: its items are
        consecutive blocks along axis 0.
        Or an array on a GPU (CuPy, or anything with ``__cuda_array_interface__`` or DLPack): if it
        is of the dataset's type, the chunks that it covers are encoded there, and only their frames
        are copied to the host. Masked points are written as the dataset's fill value.
        Into integers, fractions are cut off. HDF5 takes the limit of the type for what is beyond
        it; in lists, tuples and numbers of Python that is refused.
    selection : index, optional
        Numbers and slices, as in ``dataset[selection]``. Default: everything. Chunks that it
        covers in part are read, changed and written again by HDF5: steps that are appended one by
        one to chunks that span many take longer, and with `Interp` more bytes, than whole chunks.
        h5py writes slices with steps, lists and masks.
    threads : int, optional
        At most so many encode. Default: ``H5LOSSY_NUM_THREADS``, or as many as the process has
        CPUs. The calling thread moves data meanwhile.
    verify : bool, optional
        Decode each chunk before it is written, compare every value with its original, converted to
        the dataset's type, and record the result in attributes of the dataset, for
        `h5lossy.verify`. The selection has to cover whole chunks.
    collective : bool, optional
        For parallel HDF5: all processes that have the file open make this call together, each with
        values of its own for whole chunks of one dataset. One without values gives an empty slice,
        and an array without values. If it fails in one process, it fails in all. HDF5 encodes the
        chunks, on one thread of each process unless ``H5LOSSY_NUM_THREADS`` says otherwise. True is
        implied in a block ``with dataset.collective``.
    regions : sequence of pairs, optional
        Where values are to be more exact: a place and a bound, as ``(np.s_[:, 10:20], 1e-5)`` or
        ``(mask, 0)``. The place is an index of the dataset, or a boolean array that broadcasts to
        its shape; the bound is one of the dataset's kind (for a modulus that of components, for
        digits a pointwise-relative one), and smaller, or 0 for lossless. Chunks that have a point
        of a region are encoded with its bound, all their values; with the smallest, if it is
        several regions. The CPU encodes them. The selection has to cover whole chunks.
    progress : function or bool, optional
        Called as ``progress(bytes_done, bytes_in_all)`` after each batch, in the calling thread;
        not for steps, lists and masks. True shows a bar on standard error.

    Raises
    ------
    IncompleteWriteError
        If anything goes wrong after the start: the source raises, the disk is full. The file then
        holds whole chunks, and the exception says which are new. An exception that is no
        `Exception`, such as `KeyboardInterrupt`, passes through, with a note of how far it went.
    InvalidArgumentError
        If the values do not fit the selection, the file is closed or open for reading only,
        `threads` is not a number from 1 up, `progress` is no function, or what is written cannot be
        verified, or points are masked and there is no fill value, or a list has numbers beyond the
        limits of the dataset's integers, or a region is no place in the dataset, or has no smaller
        bound. With ``collective=True``, if the
        file is not one of parallel HDF5, the chunks are not whole or not for one process each, or
        the call fails in another process; without it, if the file is one of parallel HDF5 and the
        dataset has filters.
    UnsupportedError
        If it is a variable of netCDF4, or what is verified are no numbers.

    Warns
    -----
    RuntimeWarning
        If the bound is range-relative, and attributes declare other values than the fill value
        missing or invalid: the filter takes the range of each chunk without the fill value, but
        with all others. If there are many chunks of less than 1 KiB: headers take much of the file.
        If the fill value is 0, which other values become. If the file is open with a page buffer,
        with which HDF5 loses chunks.

    Notes
    -----
    A batch has 32 MiB of values: at least two chunks for each thread, and at most 4096 chunks; of a
    dask array also at least one of its blocks for each thread, cut where chunks end.
    Memory holds the frames of two batches, a chunk for each thread and, unless `values` is an array
    of the dataset's type, the values of two batches and the parts of a third. Blocks are kept until
    a whole row of chunks has been written.
    The file is flushed afterwards, and room for what HDF5 then writes is set aside before, so that
    a full disk cannot cost more than the values that are being written. A file in memory
    (``driver="core"``) is not flushed.
    A call takes some tenths of a millisecond, however small: below about 1 MiB h5py is faster.
    The filter knows nothing of regions: a chunk that HDF5 writes again has the dataset's bound,
    around what it held before.
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
    try:
        dataset = dataset_to_write(dataset)
    except Exception as error:
        if collective:
            tell_others(error)
        raise
    together = collective or is_collective(dataset)
    with ExitStack() as stack:

        def prepare() -> tuple[Report, Callable[[Place], Source]]:
            """Check all but values and selection; return what takes the values."""
            count = checked_threads(threads)
            if values is None:  # of which NumPy makes NaN
                raise InvalidArgumentError("values must be numbers, got None")
            require_open(values, "the values")
            _check(dataset, together=together, verify=verify, has_regions=bool(regions))
            _warn(dataset)
            what = f"writing {dataset.name}" if progress else ""
            report = stack.enter_context(reporting(progress, what))
            read_dataset = partial(read, threads=count)
            return report, lambda shape: make_source(values, shape, dataset, read_dataset)

        if together:
            write_together(dataset, selection, prepare)
            return
        report, source_for = prepare()
        chosen = as_selection(selection, dataset, may_be_empty=True)
        chunks = stored_chunks(dataset)
        params = None if chunks is None else chunks.encoding
        is_empty = chosen is not None and 0 in chosen.box.shape
        is_whole = params is not None and chosen is not None and (is_empty or chosen.is_whole)
        if verify and not is_whole:
            raise InvalidArgumentError(
                f"verify=True needs whole chunks, compressed by h5lossy alone, in {dataset.name}; "
                "for others, write without, and compare with h5lossy.assess afterwards"
            )
        if regions and not is_whole:
            raise InvalidArgumentError(
                f"regions need whole chunks, compressed by h5lossy alone, in {dataset.name}; "
                "write whole chunks, or make the dataset with the smaller bound"
            )
        if chosen is None and dataset.shape is None:
            raise InvalidArgumentError(
                f"{dataset.name} has no shape (a null dataspace), so it holds no values; make a "
                "dataset with a shape"
            )
        if chosen is None or (is_empty and params is None):
            dataset[selection] = all_at_once(values, dataset)
            return
        source = source_for(chosen.shape)
        if is_empty:
            source.finish()
        elif params is None:
            BoxWriter(dataset, chosen, source, report).run()
        else:
            count = checked_threads(threads)
            writer = ChunkWriter(
                dataset,
                params,
                source,
                chosen,
                regions=read_regions(regions, dataset, params),
                threads=count,
                report=report,
            )
            target = chosen.box.slices
            writer.run(Recorder(dataset, threads=count, target=target) if verify else None)


def _check(dataset: h5py.Dataset, *, together: bool, verify: bool, has_regions: bool) -> None:
    """Raise if the dataset can't be written."""
    intent = h5i.get_file_id(dataset.id).get_intent()
    if not intent & h5f.ACC_RDWR:
        raise InvalidArgumentError(
            f"{dataset.file.filename} is open for reading only; open it with mode 'r+'"
        )
    if verify and intent & h5f.ACC_SWMR_WRITE:
        raise InvalidArgumentError(
            "verify=True records attributes, which HDF5 can't make in SWMR mode; write without, "
            "and compare with h5lossy.assess afterwards"
        )
    if verify and codec_of(dataset) is not None and not has_numbers(dataset):
        raise UnsupportedError(
            f"verify=True compares numbers, which {dataset.name} does not hold; write without, and "
            "compare with what h5lossy.read returns: of enums and bool it is what was written"
        )
    if together and verify:
        raise InvalidArgumentError(
            "verify=True records what one process wrote, and cannot be combined with "
            "collective=True; compare with h5lossy.assess afterwards"
        )
    if together and has_regions:
        raise InvalidArgumentError(
            "regions cannot be combined with collective=True, where HDF5 encodes all chunks with "
            "the dataset's bound"
        )
    if not together and is_parallel(dataset) and dataset.id.get_create_plist().get_nfilters():
        raise InvalidArgumentError(
            f"parallel HDF5 writes a dataset with filters, as {dataset.name} is, only in all "
            "processes together: call write(..., collective=True) in each of them"
        )


def _warn(dataset: h5py.Dataset) -> None:
    """Warn of a bound that missing values enlarge, of 0 as one of them, and of tiny chunks."""
    codec = codec_of(dataset)
    if codec is None:
        return
    fill = own_fill_value(dataset)
    if fill == 0 and "_FillValue" in dataset.attrs:  # else it means nothing to readers
        warn_of_zero(dataset.name, fill, codec)
    declared = no_data(dataset)
    exact = codec.params().exact
    others = [value for value in declared.values if value not in exact]
    is_more = dataclasses.replace(declared, values=tuple(others)).has_more
    if codec.bound.kind is BoundKind.RANGE_RELATIVE and is_more:
        warn(
            f"{dataset.name} has values that its attributes declare missing or invalid. The filter "
            "takes them for data when it takes the range of a chunk, so the bound may be too large "
            "for the others; make the dataset with codec.resolve(values, missing_value=...)"
        )
    small = small_chunks_text(dataset.shape, dataset.chunks, dataset.dtype.itemsize)
    if small:
        warn(
            f"{dataset.name} has {small}; make it with larger chunks, best of about 1 MiB, or "
            "rewrite the file with h5lossy repack --chunks auto"
        )

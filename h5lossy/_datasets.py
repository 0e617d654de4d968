# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""How a dataset is compressed, from its metadata; the filter need not be registered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from h5lossy._blocks import listed_chunks
from h5lossy._codecs import FILTER_ID, Codec, codec_from_params, unpacked
from h5lossy._errors import InvalidArgumentError, UnsupportedError
from h5lossy._libhdf5 import filters_in
from h5lossy._names import name_of
from h5lossy._per_dataset import once_per_dataset
from h5lossy._public import name_publicly
from h5lossy._values import own_fill_value
from h5lossy._variables import takes_variables

if TYPE_CHECKING:
    import h5py

    from h5lossy._bounds import ErrorBound


@dataclass(frozen=True, kw_only=True)
class DatasetInfo:
    """How a dataset is compressed (`describe`).

    Attributes
    ----------
    codec : str
        The codec that was requested: "pfpl" and so on, or "auto" where it is picked for each chunk;
        `inspect` returns the one of a frame.
    bound : ErrorBound
        The bound, exactly as it was requested.
    config : Codec
        The setting that makes such a dataset: ``PFPL(absolute=0.001)`` and the like.
    checksum : bool
        Whether frames carry a checksum of their payload.
    fill_value : numpy scalar or None
        The dataset's fill value, if a user defined one.
    other_filters : tuple of str
        Names of the other filters of the dataset, in the order in which they are applied.
    chunks_stored : int
        Number of chunks in the file; those that were never written are not.
    chunks_unfiltered : int
        Number of those that h5lossy did not encode: their filter mask has its bit set.
    raw_bytes, stored_bytes : int
        Size of the values in the stored chunks, without the padding of chunks at the edge, and what
        these chunks take in the file.
    """

    path: str
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: np.dtype[Any]
    codec: str
    bound: ErrorBound
    config: Codec
    checksum: bool
    fill_value: Any
    other_filters: tuple[str, ...]
    chunks_stored: int
    chunks_unfiltered: int
    raw_bytes: int
    stored_bytes: int

    @property
    def chunks_filtered(self) -> int:
        """Number of stored chunks that h5lossy encoded."""
        return self.chunks_stored - self.chunks_unfiltered

    @property
    def ratio(self) -> float | None:
        """Raw bytes by stored bytes; None where nothing is stored yet."""
        return self.raw_bytes / self.stored_bytes if self.stored_bytes else None


@takes_variables
def describe(dataset: h5py.Dataset) -> DatasetInfo | None:
    """Say how a dataset is compressed, from its metadata alone; None if it is not by h5lossy.

    It takes time in proportion to the number of chunks. HDF5 before 1.10.10, and 1.12 before
    1.12.3, can only look chunks up one by one, which is slow where there are many thousands.

    Parameters
    ----------
    dataset : h5py.Dataset, or variable of h5netcdf or netCDF4
        Any dataset of an open file; with netCDF4, of one that is open for reading.

    Raises
    ------
    UnsupportedError
        If a later version of h5lossy wrote it.
    InvalidArgumentError
        If the cd_values in the file are not h5lossy's (another program may have used its filter
        number), or the file is closed.
    CorruptFrameError
        If the file's index of the chunks is damaged.

    Examples
    --------
    >>> import h5py, h5lossy
    >>> with h5py.File("a.h5", "w", driver="core", backing_store=False) as f:
    ...     codec = h5lossy.PFPL(absolute=0.5)
    ...     t = f.create_dataset("t", (100, 100), "f8", chunks=(64, 64), compression=codec)
    ...     t[...] = 1
    ...     info = describe(t)
    >>> info.codec, str(info.bound), info.chunks_stored, info.raw_bytes
    ('pfpl', 'absolute 0.5', 4, 80000)
    """
    config = codec_of(dataset)
    if config is None:
        return None
    filters = filters_in(dataset.id.get_create_plist())
    index = [filter_id for filter_id, *_ in filters].index(FILTER_ID)
    shape, chunks, dtype = dataset.shape, dataset.chunks, dataset.dtype
    listed = listed_chunks(dataset)
    values = np.minimum(chunks, np.array(shape) - listed.places).prod(axis=1)
    return DatasetInfo(
        path=name_of(dataset),
        shape=shape,
        chunks=chunks,
        dtype=dtype,
        codec=config.codec_name,
        bound=config.bound,
        config=config,
        checksum=config.checksum,
        fill_value=own_fill_value(dataset),
        other_filters=tuple(
            name.decode("utf-8", "replace") or str(filter_id)
            for filter_id, _, _, name in filters[:index] + filters[index + 1 :]
        ),
        chunks_stored=len(listed.sizes),
        chunks_unfiltered=int(np.count_nonzero(listed.masks & np.uint64(1 << index))),
        raw_bytes=sum(values.tolist()) * dtype.itemsize,
        stored_bytes=sum(listed.sizes.tolist()),
    )


@once_per_dataset
def codec_of(dataset: h5py.Dataset) -> Codec | None:
    """Return the codec of a dataset, as `describe` does, without reading anything of its chunks."""
    for number, _, words, _ in filters_in(dataset.id.get_create_plist()):
        if number == FILTER_ID:
            try:
                return codec_from_params(unpacked(words))
            except (InvalidArgumentError, UnsupportedError) as error:
                raise type(error)(
                    f"{name_of(dataset)} has filter {FILTER_ID}, but {error}"
                ) from error
    return None


name_publicly(__name__)

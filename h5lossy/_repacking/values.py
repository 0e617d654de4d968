# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Copying values: as bytes, whatever their type, but references are made anew."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
from h5py import h5a, h5d, h5f, h5r, h5s, h5t

from h5lossy._blocks import Block, block_shape, stored_blocks
from h5lossy._errors import UnsupportedError
from h5lossy._repacking.objects import ObjectKey, object_key
from h5lossy._stored import stored_chunks
from h5lossy._variables import has_lists_of_regions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def types_to_read(
    holder: h5a.AttrID | h5d.DatasetID, *, as_objects: bool = False
) -> tuple[np.dtype[Any], h5t.TypeID]:
    """Return NumPy's and HDF5's types for values in memory: references as objects, else bytes.

    So every type can be copied, even one that NumPy does not have. h5py frees the memory that
    variable-length values point to after it has written them.
    """
    type_id = holder.get_type()
    if not as_objects and not type_id.detect_class(h5t.REFERENCE):
        return np.dtype(f"V{type_id.get_size()}"), type_id
    if has_lists_of_regions(type_id):
        raise UnsupportedError("it holds lists of region references, which h5py can't read")
    try:
        dtype: np.dtype[Any] = holder.dtype
    except (TypeError, ValueError) as error:  # see `dtype_of`
        raise UnsupportedError(
            f"it holds references, of a kind or in a type that h5py can't read ({error}), so they "
            "can't be made to point into the new file"
        ) from error
    return dtype, h5t.py_create(dtype)


def blocks_of(dataset: h5py.Dataset) -> Iterator[Block]:
    """Yield blocks of a dataset, except where its values are elsewhere or were never written."""
    if dataset.shape is None or dataset.is_virtual or dataset.external:
        return
    chunks = stored_chunks(dataset)
    if chunks is not None:
        chunks.check_lengths()
    # If there are chunks, one stored chunk at a time: a larger block may include unwritten ones,
    # and for variable-length data with a fill value, HDF5 can't read those from a file open for
    # reading.
    value_bytes = dataset.id.get_type().get_size()
    block = dataset.chunks or block_shape(dataset.shape, None, value_bytes)
    yield from stored_blocks(dataset, block)


def read_block(
    dataset: h5d.DatasetID, block: Block, dtype: np.dtype[Any], memory_type: h5t.TypeID
) -> tuple[np.ndarray[Any, Any], Any, Any]:
    """Read a block; return its values, and its dataspaces in memory and in the file."""
    extents = tuple(part.stop - part.start for part in block)
    memory = place = h5s.ALL
    if block:
        memory, place = h5s.create_simple(extents), dataset.get_space()
        place.select_hyperslab(tuple(part.start for part in block), extents)
    values = np.empty(extents, dtype)
    dataset.read(memory, place, values, memory_type)
    return values, memory, place


class ValueCopier:
    """Copies values, and makes each reference anew for the copy of its object."""

    def __init__(
        self, source: h5f.FileID, target: h5f.FileID, paths: Mapping[ObjectKey, bytes]
    ) -> None:
        #: How many references had no object in the source, and are null in the target.
        self.dangling = 0
        self._source = source
        self._target = target
        self._paths = paths

    def copy_attribute(self, attribute: h5a.AttrID, new: h5a.AttrID) -> None:
        """Copy the value of an attribute."""
        dtype, memory_type = types_to_read(attribute)
        values = np.empty(attribute.shape, dtype)
        attribute.read(values, memory_type)
        self._translate(values, values.dtype)
        new.write(values, memory_type)

    def copy_dataset(self, dataset: h5d.DatasetID, copy: h5d.DatasetID) -> None:
        """Copy the values of a dataset."""
        types = types_to_read(dataset)
        for block in blocks_of(h5py.Dataset(dataset)):
            values, memory, place = read_block(dataset, block, *types)
            self._translate(values, values.dtype)
            copy.write(memory, place, values, types[1])

    def _translate(self, values: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> None:
        """Replace every reference to an object of the source by one to its copy, in place."""
        base = h5py.check_vlen_dtype(dtype)
        if dtype.names:
            for name in dtype.names:
                self._translate(values[name], dtype[name].base)
        elif isinstance(base, np.dtype):
            for item in values.flat:
                self._translate(item, base)
        elif h5py.check_ref_dtype(dtype):
            for i in np.ndindex(values.shape):
                values[i] = self._target_reference(values[i])

    def _target_reference(self, reference: h5r.Reference) -> h5r.Reference:
        """Return a reference to the copy of a reference's object; null references stay null."""
        path = None
        if reference:
            with contextlib.suppress(KeyError, OSError, RuntimeError, ValueError):
                path = self._paths.get(object_key(h5r.dereference(reference, self._source)))
        if path is None:
            self.dangling += bool(reference)
            return type(reference)()
        if isinstance(reference, h5r.RegionReference):
            region = h5r.get_region(reference, self._source)
            return h5r.create(self._target, path, h5r.DATASET_REGION, region)
        return h5r.create(self._target, path, h5r.OBJECT)

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Copying an HDF5 file object by object, so that some of its datasets may change on the way.

`H5Ocopy` of a whole file can't change a filter, and copying objects one at a time with it would
tear apart what hangs together: objects with several names, references, shared datatypes. Hence
two passes. The first goes through the links in their own order and makes each object once. The
second copies what may point at any object: attributes, and datasets that hold references; every
reference is made anew for the object that it means.

What can't be kept, since HDF5 or h5py offers no way:

- the times in object headers, and holes in the file;
- comments (`H5Oset_comment`) on groups and changed datasets: h5py's function for them returns
  other memory;
- links of a user's own class, and references of HDF5 1.12's new kind (``H5T_STD_REF``), which
  h5py can't read: these are refused with `UnsupportedError`;
- the character set flag of attribute names (the names themselves are kept, byte for byte).
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import h5py
import numpy as np
from h5py import h5, h5a, h5d, h5f, h5g, h5l, h5o, h5p, h5r, h5s, h5t, h5z

from h5lossy import H5LossyError, UnsupportedError
from h5lossy._blocks import Block, block_shape, stored_blocks
from h5lossy._stored import stored_chunks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

#: An object of a file: the number that HDF5 gives the file, and the address of the object's header.
ObjectKey = tuple[int, int]

#: Makes a new dataset, without values and without a name: (target file, old dataset, its datatype
#: in the target).
MakeDataset = Callable[[h5f.FileID, h5d.DatasetID, h5t.TypeID], h5d.DatasetID]


def object_key(obj: h5py.h5g.GroupID | h5d.DatasetID | h5t.TypeID) -> ObjectKey:
    """Say which object this is, whatever path it was opened by.

    Parameters
    ----------
    obj : low-level h5py object
        A group, dataset or committed datatype.

    Returns
    -------
    ObjectKey
    """
    info = h5o.get_info(obj)
    return info.fileno, info.addr


def walk(file: h5py.File) -> Iterator[tuple[bytes, h5g.GroupID | h5d.DatasetID | h5t.TypeID]]:
    """Go through all objects, each once, the root first, in the order of `FileCopier`.

    Parameters
    ----------
    file : h5py.File

    Yields
    ------
    path : bytes
        The first path of the object.
    obj : low-level h5py object
    """
    root = h5g.open(file.id, b"/")
    seen = {object_key(root)}
    yield b"/", root
    groups = deque([(b"", root)])
    while groups:
        path, group = groups.popleft()
        for link in _links(group):
            if link.kind != h5l.TYPE_HARD:
                continue
            obj = h5o.open(group, link.name)
            key = object_key(obj)
            if key in seen:
                continue
            seen.add(key)
            yield path + b"/" + link.name, obj
            if isinstance(obj, h5g.GroupID):
                groups.append((path + b"/" + link.name, obj))


def create_like(source: h5py.File, path: Path) -> h5py.File:
    """Create a file with the creation properties of another one.

    That is the size of the user block, what the root group tracks, the free-space strategy, and
    the oldest HDF5 that may read it.

    Parameters
    ----------
    source : h5py.File
        The file to take after.
    path : Path
        The new file; must not exist.

    Returns
    -------
    h5py.File
        Open for writing. The user block has the right size and is empty; see `copy_user_block`.
    """
    creation = source.id.get_create_plist()
    # The root group is made with the file, but what was asked for it is not in the file's own list.
    root = h5g.open(source.id, b"/").get_create_plist()
    creation.set_link_creation_order(root.get_link_creation_order())
    creation.set_attr_creation_order(root.get_attr_creation_order())
    # Superblock 3 is HDF5 1.10's. In files below it 1.8 is the oldest that holds all that they
    # may hold: earlier formats have no room for an attribute of more than 64 KiB.
    oldest = h5f.LIBVER_V110 if creation.get_version()[0] >= 3 else h5f.LIBVER_V18
    access = h5p.create(h5p.FILE_ACCESS)
    access.set_fclose_degree(h5f.CLOSE_STRONG)
    access.set_libver_bounds(oldest, h5f.LIBVER_LATEST)
    return h5py.File(h5f.create(bytes(path), h5f.ACC_EXCL, creation, access))


def copy_user_block(source: Path, target: Path, size: int) -> None:
    """Copy the bytes in front of the HDF5 part of a file.

    Parameters
    ----------
    source, target : Path
        Two files, neither open for writing elsewhere.
    size : int
        The user block's size in bytes; may be 0.
    """
    if size:
        with source.open("rb") as old, target.open("r+b") as new:
            new.write(old.read(size))


def companions(obj: h5g.GroupID | h5d.DatasetID | h5t.TypeID) -> set[str]:
    """Name the other files that an object leads to.

    Parameters
    ----------
    obj : low-level h5py object

    Returns
    -------
    set of str
        Targets of a group's external links; source files of a virtual dataset; raw files of an
        externally stored one. As the file has them, so often relative.
    """
    if isinstance(obj, h5g.GroupID):
        links = (link for link in _links(obj) if link.kind == h5l.TYPE_EXTERNAL)
        return {_text(obj.links.get_val(link.name)[0]) for link in links}
    if not isinstance(obj, h5d.DatasetID):
        return set()
    creation = obj.get_create_plist()
    if creation.get_layout() == h5d.VIRTUAL:
        names = {creation.get_virtual_filename(i) for i in range(creation.get_virtual_count())}
        return names - {"."}
    return {_text(creation.get_external(i)[0]) for i in range(creation.get_external_count())}


def absent_filters(dataset: h5d.DatasetID) -> list[str]:
    """Name the filters that a dataset needs and that HDF5 does not find.

    Parameters
    ----------
    dataset : h5py.h5d.DatasetID

    Returns
    -------
    list of str
        Number and name of each.
    """
    creation = dataset.get_create_plist()
    filters = map(creation.get_filter, range(creation.get_nfilters()))
    return [
        f"{number} ({name.decode(errors='replace')})"
        for number, _, _, name in filters
        if not h5z.filter_avail(number)
    ]


class _Link(NamedTuple):
    name: bytes
    kind: int
    charset: int


class FileCopier:
    """Copies all of one file to a new one, but for the values of the datasets that change.

    Parameters
    ----------
    source, target : h5py.File
        The target is empty, from `create_like`.
    remake : mapping of ObjectKey to MakeDataset
        The datasets that change, and for each the function that makes the new one. Its values are
        left to the caller.
    copied : function
        Called with the number of bytes after each dataset that was copied as it is.

    Attributes
    ----------
    dangling : int
        How many references meant no object of the source. They are null references in the target.
    """

    def __init__(
        self,
        source: h5py.File,
        target: h5py.File,
        *,
        remake: Mapping[ObjectKey, MakeDataset],
        copied: Callable[[int], None],
    ) -> None:
        self.dangling = 0
        self._source = source.id
        self._target = target.id
        self._remake = remake
        self._copied = copied
        self._paths: dict[ObjectKey, bytes] = {}
        # HDF5 commits a datatype under a name only, but the link's own turn may come later, or
        # never (a datatype lives on without a name as long as a dataset uses it). So all get
        # their first name in a group that has none itself and vanishes with this object.
        self._nursery = h5g.create(self._target, None)
        self._types: dict[ObjectKey, tuple[h5t.TypeID, h5t.TypeID]] = {}
        self._with_references: list[bytes] = []

    def copy(self) -> None:
        """Copy everything.

        Raises
        ------
        H5LossyError
            If the file holds something that can't be copied; see the module's docstring.
        """
        self._copy_objects()
        for path in self._paths.values():
            with _naming(path):
                self._copy_attributes(h5o.open(self._source, path), h5o.open(self._target, path))
        for old, new in self._types.values():
            if object_key(old) not in self._paths:
                self._copy_attributes(old, new)
        for path in self._with_references:
            with _naming(path):
                self._copy_references(h5d.open(self._source, path), h5d.open(self._target, path))

    def _copy_objects(self) -> None:
        source, target = h5g.open(self._source, b"/"), h5g.open(self._target, b"/")
        self._paths[object_key(source)] = b"/"
        groups = deque([(b"", source, target)])
        while groups:
            path, group, copy = groups.popleft()
            for link in _links(group):
                new = self._copy_link(group, copy, path, link)
                if new is not None:
                    groups.append((path + b"/" + link.name, h5g.open(group, link.name), new))

    def _copy_link(
        self, group: h5g.GroupID, copy: h5g.GroupID, path: bytes, link: _Link
    ) -> h5g.GroupID | None:
        """Make a link and, where it is the first to its object, the object; return a new group."""
        naming = h5p.create(h5p.LINK_CREATE)
        naming.set_char_encoding(link.charset)
        if link.kind == h5l.TYPE_HARD:
            return self._copy_hard_link(group, copy, path + b"/" + link.name, naming)
        if link.kind == h5l.TYPE_SOFT:
            copy.links.create_soft(link.name, group.links.get_val(link.name), naming)
        elif link.kind == h5l.TYPE_EXTERNAL:
            copy.links.create_external(link.name, *group.links.get_val(link.name), naming)
        else:
            raise UnsupportedError(
                f"{_text(path + b'/' + link.name)} is a link of class {link.kind}, which only the "
                "program that made it understands; hard, soft and external links can be copied"
            )
        return None

    def _copy_hard_link(
        self, group: h5g.GroupID, copy: h5g.GroupID, path: bytes, naming: h5p.PropLCID
    ) -> h5g.GroupID | None:
        name = path.rpartition(b"/")[2]
        obj = h5o.open(group, name)
        key = object_key(obj)
        if key in self._paths:
            h5o.link(h5o.open(self._target, self._paths[key]), copy, name, naming)
            return None
        self._paths[key] = path
        if isinstance(obj, h5g.GroupID):
            return h5g.create(copy, name, naming, obj.get_create_plist())
        if isinstance(obj, h5d.DatasetID):
            with _naming(path):
                self._copy_dataset(obj, group, copy, path, naming)
        else:
            h5o.link(self._target_type(obj), copy, name, naming)
        return None

    def _copy_dataset(
        self,
        dataset: h5d.DatasetID,
        group: h5g.GroupID,
        copy: h5g.GroupID,
        path: bytes,
        naming: h5p.PropLCID,
    ) -> None:
        name = path.rpartition(b"/")[2]
        type_id = dataset.get_type()
        make = self._remake.get(object_key(dataset))
        if make is not None:
            h5o.link(make(self._target, dataset, self._target_type(type_id)), copy, name, naming)
            return
        as_it_is = _can_be_copied_by_hdf5(dataset, type_id)
        if not as_it_is or _has_variable_length(type_id):
            _require_filters(dataset)
        if as_it_is:
            # No filter runs, unless values have parts elsewhere in the file.
            without_attributes = h5p.create(h5p.OBJECT_COPY)
            without_attributes.set_copy_object(h5o.COPY_WITHOUT_ATTR_FLAG)
            h5o.copy(group, name, copy, name, without_attributes, naming)
        else:
            new = h5d.create(
                self._target,
                None,
                self._target_type(type_id),
                dataset.get_space(),
                dataset.get_create_plist(),
            )
            h5o.link(new, copy, name, naming)
            if type_id.detect_class(h5t.REFERENCE):
                self._with_references.append(path)
            else:
                _copy_bytes(h5py.Dataset(dataset), new)
        self._copied(dataset.get_storage_size())

    def _target_type(self, type_id: h5t.TypeID) -> h5t.TypeID:
        """Give the target's counterpart of a committed datatype; any other one as it is."""
        if not type_id.committed():
            return type_id
        key = object_key(type_id)
        if key not in self._types:
            new = type_id.copy()
            new.commit(self._nursery, str(len(self._types)).encode())
            self._types[key] = type_id, new
        return self._types[key][1]

    def _copy_attributes(self, obj: Any, copy: Any) -> None:
        for name in _attribute_names(obj):
            attribute = h5a.open(obj, name)
            type_id, space = attribute.get_type(), attribute.get_space()
            new = h5a.create(copy, name, self._target_type(type_id), space)
            if space.get_simple_extent_type() == h5s.NULL:
                continue
            if type_id.detect_class(h5t.REFERENCE):
                dtype = _reference_dtype(attribute)
                values = np.empty(attribute.shape, dtype)
                attribute.read(values, h5t.py_create(dtype))
                self._translate(values, values.dtype)
                new.write(values, h5t.py_create(dtype))
            else:
                # With the file's type on both sides every type is copied as it is, even one that
                # NumPy hasn't got. h5py frees what variable-length values point to when it has
                # written them.
                raw = np.empty(attribute.shape, f"V{type_id.get_size()}")
                attribute.read(raw, type_id)
                new.write(raw, type_id)

    def _copy_references(self, dataset: h5d.DatasetID, copy: h5d.DatasetID) -> None:
        dtype = _reference_dtype(dataset)
        memory_type = h5t.py_create(dtype)
        source = h5py.Dataset(dataset)
        for block in _blocks_of(source):
            memory, place = _select(dataset, block)
            values = np.empty(_extents(block), dtype)
            dataset.read(memory, place, values, memory_type)
            self._translate(values, values.dtype)
            copy.write(memory, place, values, memory_type)

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


def _can_be_copied_by_hdf5(dataset: h5d.DatasetID, type_id: h5t.TypeID) -> bool:
    """Tell whether H5Ocopy makes a faithful copy of one dataset.

    It makes a new datatype of a committed one and clears references. Of a fill value with parts of
    variable length it copies the address in the old file, and so ruins the new one (seen with HDF5
    2.0.0; netCDF gives such a fill value to every variable of strings).
    """
    fill_value = dataset.get_create_plist().fill_value_defined()
    return not (
        type_id.committed()
        or type_id.detect_class(h5t.REFERENCE)
        or (fill_value == h5d.FILL_VALUE_USER_DEFINED and _has_variable_length(type_id))
    )


def _has_variable_length(type_id: h5t.TypeID) -> bool:
    kind = type_id.get_class()
    if kind == h5t.STRING:
        return bool(type_id.is_variable_str())
    if kind == h5t.COMPOUND:
        members = map(type_id.get_member_type, range(type_id.get_nmembers()))
        return any(map(_has_variable_length, members))
    if kind == h5t.ARRAY:
        return _has_variable_length(type_id.get_super())
    return bool(kind == h5t.VLEN)


def _require_filters(dataset: h5d.DatasetID) -> None:
    filters = absent_filters(dataset)
    if filters:
        raise UnsupportedError(
            f"its values have to be decoded, and there is no filter {', '.join(filters)} here; "
            "set HDF5_PLUGIN_PATH to a folder that has it"
        )


def _copy_bytes(source: h5py.Dataset, copy: h5d.DatasetID) -> None:
    """Copy values without looking at them, the file's type on both sides."""
    type_id = source.id.get_type()
    for block in _blocks_of(source):
        memory, place = _select(source.id, block)
        raw = np.empty(_extents(block), f"V{type_id.get_size()}")
        source.id.read(memory, place, raw, type_id)
        copy.write(memory, place, raw, type_id)


def _blocks_of(dataset: h5py.Dataset) -> Iterator[Block]:
    """Blocks of a dataset, but none where its values are elsewhere or were never written."""
    if dataset.shape is None or dataset.is_virtual or dataset.external:
        return
    chunks = stored_chunks(dataset)
    if chunks is not None:
        chunks.check_lengths()
    # One stored chunk at a time where there are chunks: a larger block may hold unwritten ones, and
    # of variable-length data with a fill value HDF5 can't read those from a file open for reading.
    value_bytes = dataset.id.get_type().get_size()
    block = dataset.chunks or block_shape(dataset.shape, None, value_bytes)
    yield from stored_blocks(dataset, block)


def _select(dataset: h5d.DatasetID, block: Block) -> tuple[Any, Any]:
    """Give the dataspaces of a block, in memory and in the file."""
    if not block:
        return h5s.ALL, h5s.ALL
    place = dataset.get_space()
    place.select_hyperslab(tuple(part.start for part in block), _extents(block))
    return h5s.create_simple(_extents(block)), place


def _extents(block: Block) -> tuple[int, ...]:
    return tuple(part.stop - part.start for part in block)


def _reference_dtype(holder: h5a.AttrID | h5d.DatasetID) -> np.dtype[Any]:
    try:
        dtype: np.dtype[Any] = holder.dtype
    except TypeError as error:
        raise UnsupportedError(
            f"it holds references of a kind that h5py can't read ({error}), which therefore can't "
            "be made to point into the new file"
        ) from error
    return dtype


def _links(group: h5g.GroupID) -> list[_Link]:
    found: list[_Link] = []
    index, order = _sequence(group.get_create_plist().get_link_creation_order())
    # iterate() hands out the same `info` each time.
    group.links.iterate(
        lambda name, info: found.append(_Link(name, info.type, info.cset)),
        info=True,
        idx_type=index,
        order=order,
    )
    return found


def _attribute_names(obj: Any) -> list[bytes]:
    names: list[bytes] = []
    index, order = _sequence(obj.get_create_plist().get_attr_creation_order())
    h5a.iterate(obj, names.append, index_type=index, order=order)
    return names


def _sequence(tracking: int) -> tuple[int, int]:
    """Name the order of creation where it is known, else that in the file, as HDF5 does."""
    if tracking & h5p.CRT_ORDER_TRACKED:
        return h5.INDEX_CRT_ORDER, h5.ITER_INC
    return h5.INDEX_NAME, h5.ITER_NATIVE


@contextlib.contextmanager
def _naming(path: bytes) -> Iterator[None]:
    """Have errors say which object they are about."""
    try:
        yield
    except (H5LossyError, OSError, RuntimeError, TypeError, ValueError) as error:
        raise H5LossyError(f"{_text(path)} can't be copied: {error}") from error


def _text(path: bytes) -> str:
    return path.decode(errors="surrogateescape")

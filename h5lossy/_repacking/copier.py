# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Copying an HDF5 file object by object, so that some of its datasets may change on the way.

`H5Ocopy` of a whole file can't change a filter, and copying objects one at a time with it would
break connections between objects: several names, references, shared datatypes. So there are two
passes. The first follows the links in their own order and makes each object once. The second copies
everything that may refer to any object: attributes, and datasets that hold references; every
reference is made anew for the copy of its object.

These can't be kept, since HDF5 or h5py offers no way:

- the times in object headers, and holes in the file;
- comments (`H5Oset_comment`) on groups and changed datasets: h5py's function for them returns
  other memory;
- filters that compress the links of a group: h5py has no function for them;
- links of a user's own class, and references of HDF5 1.12's new kind (``H5T_STD_REF``), which
  h5py can't read: these are refused with `UnsupportedError`;
- the character set flag of attribute names (the names themselves are kept, byte for byte).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import h5py
from h5py import h5a, h5d, h5f, h5g, h5l, h5o, h5p, h5s, h5t

from h5lossy._errors import UnsupportedError
from h5lossy._names import path_text
from h5lossy._repacking.objects import (
    Link,
    ObjectKey,
    absent_filters,
    attribute_names,
    group_properties,
    has_variable_length,
    links,
    name_in_errors,
    object_key,
    set_group_properties,
)
from h5lossy._repacking.values import ValueCopier
from h5lossy._verification.records import ATTRIBUTES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: Makes a new dataset, without values and without a name: (target file, old dataset, its datatype
#: in the target).
MakeDataset = Callable[[h5f.FileID, h5d.DatasetID, h5t.TypeID], h5d.DatasetID]


_RECORDS = [name.encode() for name in ATTRIBUTES]


def create_like(source: h5py.File, path: Path) -> h5py.File:
    """Create a file with the creation properties of another one; the user block is empty."""
    creation = source.id.get_create_plist()
    # The root group is created with the file, but its properties are not in the file's own list.
    set_group_properties(creation, group_properties(h5g.open(source.id, b"/")))
    # Superblock 3 is HDF5 1.10's. For older files, 1.8 is the oldest version that can hold all of
    # their contents: earlier formats have no room for an attribute of more than 64 KiB.
    oldest = h5f.LIBVER_V110 if creation.get_version()[0] >= 3 else h5f.LIBVER_V18
    access = h5p.create(h5p.FILE_ACCESS)
    access.set_fclose_degree(h5f.CLOSE_STRONG)
    access.set_libver_bounds(oldest, h5f.LIBVER_LATEST)
    return h5py.File(h5f.create(bytes(path), h5f.ACC_EXCL, creation, access))


def copy_user_block(source: Path, target: Path, size: int) -> None:
    """Copy the bytes before the HDF5 part of a file, if there are any."""
    if size:
        with source.open("rb") as old, target.open("r+b") as new:
            new.write(old.read(size))


class FileCopier:
    """Copies a file to a new one, except the values of the datasets that change."""

    def __init__(
        self,
        source: h5py.File,
        target: h5py.File,
        *,
        remake: Mapping[ObjectKey, MakeDataset],
        copied: Callable[[int], object],
    ) -> None:
        self._source = source.id
        self._target = target.id
        self._remake = remake
        self._copied = copied
        self._paths: dict[ObjectKey, bytes] = {}
        self._values = ValueCopier(self._source, self._target, self._paths)
        # HDF5 commits a datatype only under a name, but its own link may be copied later, or never
        # (a datatype without a name lives as long as a dataset uses it). So each gets its first
        # name in a group that itself has no name and vanishes with this object.
        self._anonymous_group = h5g.create(self._target, None)
        self._types: dict[ObjectKey, tuple[h5t.TypeID, h5t.TypeID]] = {}
        self._with_references: list[bytes] = []

    @property
    def dangling(self) -> int:
        """How many references had no object in the source; they are null in the target."""
        return self._values.dangling

    def copy(self) -> None:
        """Copy everything."""
        self._copy_objects()
        for path in self._paths.values():
            with name_in_errors(path, "copied"):
                self._copy_attributes(h5o.open(self._source, path), h5o.open(self._target, path))
        for old, new in self._types.values():
            if object_key(old) not in self._paths:
                self._copy_attributes(old, new)
        for path in self._with_references:
            with name_in_errors(path, "copied"):
                old, new = (h5d.open(file, path) for file in (self._source, self._target))
                self._values.copy_dataset(old, new)

    def _copy_objects(self) -> None:
        """Copy groups, links, and datasets without references."""
        source, target = h5g.open(self._source, b"/"), h5g.open(self._target, b"/")
        self._paths[object_key(source)] = b"/"
        groups = deque([(b"", source, target)])
        while groups:
            path, group, copy = groups.popleft()
            for link in links(group):
                new = self._copy_link(group, copy, path, link)
                if new is not None:
                    groups.append((path + b"/" + link.name, h5g.open(group, link.name), new))

    def _copy_link(
        self, group: h5g.GroupID, copy: h5g.GroupID, path: bytes, link: Link
    ) -> h5g.GroupID | None:
        """Make a link, and the object if this is its first link; return a new group."""
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
                f"{path_text(path + b'/' + link.name)} is a link of class {link.kind}, which only "
                "the program that made it understands; hard, soft and external links can be copied"
            )
        return None

    def _copy_hard_link(
        self, group: h5g.GroupID, copy: h5g.GroupID, path: bytes, naming: h5p.PropLCID
    ) -> h5g.GroupID | None:
        """Make a hard link, and the object if this is its first link."""
        name = path.rpartition(b"/")[2]
        obj = h5o.open(group, name)
        key = object_key(obj)
        if key in self._paths:
            h5o.link(h5o.open(self._target, self._paths[key]), copy, name, naming)
            return None
        self._paths[key] = path
        if isinstance(obj, h5g.GroupID):
            # Not the source's own list: for many links it has the address of their heap, which HDF5
            # would copy to the new group.
            creation = h5p.create(h5p.GROUP_CREATE)
            set_group_properties(creation, group_properties(obj))
            return h5g.create(copy, name, naming, creation)
        if isinstance(obj, h5d.DatasetID):
            with name_in_errors(path, "copied"):
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
        """Make a dataset, and its values unless the caller writes them or they are references."""
        name = path.rpartition(b"/")[2]
        type_id = dataset.get_type()
        make = self._remake.get(object_key(dataset))
        if make is not None:
            h5o.link(make(self._target, dataset, self._target_type(type_id)), copy, name, naming)
            return
        as_it_is = _can_be_copied_by_hdf5(dataset, type_id)
        if not as_it_is or has_variable_length(type_id):
            _require_filters(dataset)
        if as_it_is:
            # No filter runs, unless values have parts elsewhere in the file.
            h5o.copy(group, name, copy, name, _without_attributes(), naming)
        else:
            # HDF5 removes the addresses from the list of a dataset, unlike that of a group.
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
                self._values.copy_dataset(dataset, new)
        self._copied(dataset.get_storage_size())

    def _target_type(self, type_id: h5t.TypeID) -> h5t.TypeID:
        """Return the target's counterpart of a committed datatype; other datatypes unchanged."""
        if not type_id.committed():
            return type_id
        key = object_key(type_id)
        if key not in self._types:
            name = str(len(self._types)).encode()
            h5o.copy(type_id, b".", self._anonymous_group, name, _without_attributes())
            self._types[key] = type_id, h5t.open(self._anonymous_group, name)
        return self._types[key][1]

    def _copy_attributes(self, obj: Any, copy: Any) -> None:
        """Copy all attributes of an object, except the records of an earlier compression."""
        stale = _RECORDS if object_key(obj) in self._remake else ()
        for name in attribute_names(obj):
            if name in stale:
                continue
            attribute = h5a.open(obj, name)
            space = attribute.get_space()
            new = h5a.create(copy, name, self._target_type(attribute.get_type()), space)
            if space.get_simple_extent_type() != h5s.NULL:
                self._values.copy_attribute(attribute, new)


def _without_attributes() -> h5p.PropCopyID:
    """Return the property list for H5Ocopy of an object alone."""
    properties = h5p.create(h5p.OBJECT_COPY)
    properties.set_copy_object(h5o.COPY_WITHOUT_ATTR_FLAG)
    return properties


def _can_be_copied_by_hdf5(dataset: h5d.DatasetID, type_id: h5t.TypeID) -> bool:
    """Return whether H5Ocopy makes a faithful copy of one dataset."""
    # It makes a committed datatype into a new one and clears references. If a fill value has parts
    # of variable length, it copies the address in the old file, and so corrupts the new one (seen
    # with HDF5 2.0.0; netCDF gives such a fill value to every variable of strings).
    fill_value = dataset.get_create_plist().fill_value_defined()
    return not (
        type_id.committed()
        or type_id.detect_class(h5t.REFERENCE)
        or (fill_value == h5d.FILL_VALUE_USER_DEFINED and has_variable_length(type_id))
    )


def _require_filters(dataset: h5d.DatasetID) -> None:
    """Raise if HDF5 lacks a filter that a dataset needs."""
    filters = absent_filters(dataset.get_create_plist())
    if filters:
        raise UnsupportedError(
            f"its values have to be decoded, and there is no filter {filters} here; "
            "set HDF5_PLUGIN_PATH to a folder that has it"
        )

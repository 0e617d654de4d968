# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The objects of an HDF5 file, and the links and references between them."""

from __future__ import annotations

import importlib
from collections import deque
from collections.abc import Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import h5py
from h5py import h5, h5a, h5d, h5g, h5l, h5o, h5p, h5t, h5z

from h5lossy._errors import H5LossyError
from h5lossy._libhdf5 import filters_in, link_storage, set_link_storage
from h5lossy._names import path_bytes, path_text
from h5lossy._printable import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Identifies an object of a file: the number that HDF5 gives the file, and the address of the
#: object's header, each in two parts.
ObjectKey = tuple[tuple[int, int], tuple[int, int]]


@contextmanager
def name_in_errors(path: bytes, what: str) -> Iterator[None]:
    """Name the object in an error about reading or copying it."""
    try:
        yield
    except (H5LossyError, OSError, RuntimeError, TypeError, ValueError, KeyError) as error:
        raise H5LossyError(f"{path_text(path)} can't be {what}: {one_line(error)}") from error


@contextmanager
def name_in_read_errors(path: str) -> Iterator[None]:
    """Name the dataset where HDF5 can't read its values; our own errors name it already."""
    try:
        yield
    except H5LossyError:
        raise
    except OSError as error:
        raise OSError(f"{path} can't be read: {one_line(error)}") from error


class Link(NamedTuple):
    """A link of a group: its name, ``h5py.h5l.TYPE_*``, and the character set of its name."""

    name: bytes
    kind: int
    charset: int


def object_key(obj: h5g.GroupID | h5d.DatasetID | h5t.TypeID) -> ObjectKey:
    """Return which object this is, whatever path opened it."""
    # h5o.get_info would read all of a dataset's chunk index to compute its size.
    info = h5g.get_objinfo(obj)
    return info.fileno, info.objno


def walk(file: h5py.File) -> Iterator[tuple[bytes, h5g.GroupID | h5d.DatasetID | h5t.TypeID]]:
    """Yield the path and the object of all objects, each once, in the order of `FileCopier`."""
    seen = set()
    for path, key, _ in _hard_links(file):
        if key not in seen:
            seen.add(key)
            with name_in_errors(path, "read"):
                obj = h5o.open(file.id, path)
            yield path, obj


def dataset_paths(file: h5py.File) -> list[tuple[str, ...]]:
    """Return the paths of each dataset, in the order of `walk`, whose path is the first.

    The others are those of its further hard links; groups count only by their first path. No
    dataset is opened, which would take longer.
    """
    found: dict[ObjectKey, list[bytes]] = {}
    for path, key, kind in _hard_links(file):
        if kind == h5g.DATASET:
            found.setdefault(key, []).append(path)
    return [tuple(map(path_text, paths)) for paths in found.values()]


def open_dataset(file: h5py.File, path: str) -> h5py.Dataset:
    """Open a dataset that `dataset_paths` has found."""
    place = path_bytes(path)
    with name_in_errors(place, "read"):
        return h5py.Dataset(h5o.open(file.id, place))


def _hard_links(file: h5py.File) -> Iterator[tuple[bytes, ObjectKey, int]]:
    """Yield the path of each hard link, and the object that it leads to, with its kind."""
    root = h5g.open(file.id, b"/")
    seen = {object_key(root)}
    yield b"/", object_key(root), h5g.GROUP
    groups = deque([(b"", root)])
    while groups:
        path, group = groups.popleft()
        with name_in_errors(path or b"/", "read"):
            found = links(group)
        for link in found:
            if link.kind != h5l.TYPE_HARD:
                continue
            place = path + b"/" + link.name
            with name_in_errors(place, "read"):
                info = h5g.get_objinfo(group, link.name)
                key = info.fileno, info.objno
                if info.type == h5g.GROUP and key not in seen:
                    groups.append((place, h5g.open(group, link.name)))
            yield place, key, info.type
            seen.add(key)


def links(group: h5g.GroupID) -> list[Link]:
    """Return the links of a group, in their own order."""
    found: list[Link] = []
    index, order = _sequence(group.get_create_plist().get_link_creation_order())
    # iterate() returns the same `info` object each time.
    group.links.iterate(
        lambda name, info: found.append(Link(name, info.type, info.cset)),
        info=True,
        idx_type=index,
        order=order,
    )
    return found


class GroupProperties(NamedTuple):
    """The creation properties of a group, by value."""

    link_order: int
    attribute_order: int
    attribute_storage: tuple[int, int]
    link_storage: list[int]
    has_times: bool


def group_properties(group: h5g.GroupID) -> GroupProperties:
    """Return the creation properties of a group."""
    creation = group.get_create_plist()
    return GroupProperties(
        creation.get_link_creation_order(),
        creation.get_attr_creation_order(),
        creation.get_attr_phase_change(),
        link_storage(creation.id),
        creation.get_obj_track_times(),
    )


def set_group_properties(creation: h5p.PropGCID | h5p.PropFCID, given: GroupProperties) -> None:
    """Set the creation properties of a group, or of the root group of a file."""
    creation.set_link_creation_order(given.link_order)
    creation.set_attr_creation_order(given.attribute_order)
    creation.set_attr_phase_change(*given.attribute_storage)
    creation.set_obj_track_times(given.has_times)
    set_link_storage(creation.id, given.link_storage)


def attribute_names(obj: Any) -> list[bytes]:
    """Return the names of an object's attributes, in their own order."""
    names: list[bytes] = []
    index, order = _sequence(obj.get_create_plist().get_attr_creation_order())
    h5a.iterate(obj, names.append, index_type=index, order=order)
    return names


def _sequence(tracking: int) -> tuple[int, int]:
    """Return the order of creation if it is known, else that in the file, like HDF5."""
    if tracking & h5p.CRT_ORDER_TRACKED:
        return h5.INDEX_CRT_ORDER, h5.ITER_INC
    return h5.INDEX_NAME, h5.ITER_NATIVE


def external_files(obj: h5g.GroupID | h5d.DatasetID | h5t.TypeID) -> set[str]:
    """Return the names of the files that an object refers to, unchanged and often relative."""
    if isinstance(obj, h5g.GroupID):
        external = (link for link in links(obj) if link.kind == h5l.TYPE_EXTERNAL)
        return {path_text(obj.links.get_val(link.name)[0]) for link in external}
    if not isinstance(obj, h5d.DatasetID):
        return set()
    creation = obj.get_create_plist()
    if creation.get_layout() == h5d.VIRTUAL:
        names = {creation.get_virtual_filename(i) for i in range(creation.get_virtual_count())}
        return names - {"."}
    return {path_text(creation.get_external(i)[0]) for i in range(creation.get_external_count())}


def absent_filters(creation: h5p.PropDCID) -> str:
    """Return numbers and names of the filters of a dataset that HDF5 does not find."""
    return ", ".join(
        f"{number} ({name.decode(errors='replace')})"
        for number, _, _, name in filters_in(creation)
        if not h5z.filter_avail(number)
    )


class Datasets(Mapping[str, h5py.Dataset]):
    """Datasets of a file by their paths, opened when they are asked for.

    HDF5 gives each open dataset a table for its chunk cache: of 64 KiB in HDF5 2.0.
    """

    def __init__(self, file: h5py.File, paths: Iterable[tuple[str, ...]]) -> None:
        self._file = file
        #: All paths of each, by the first.
        self.paths = {names[0]: names for names in paths}

    def __contains__(self, name: object) -> bool:  # opens nothing
        return name in self.paths

    def __getitem__(self, name: str) -> h5py.Dataset:
        if name not in self.paths:
            raise KeyError(name)
        return open_dataset(self._file, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.paths)

    def __len__(self) -> int:
        return len(self.paths)


def with_filters(dataset: h5py.Dataset) -> h5py.Dataset:
    """Return a dataset, with hdf5plugin's filters if HDF5 lacks one that it may need.

    A virtual dataset needs those of its sources, which are in other files.
    """
    if dataset.is_virtual or absent_filters(dataset.id.get_create_plist()):
        with suppress(ImportError):
            importlib.import_module("hdf5plugin")  # registers them
    return dataset


def has_variable_length(type_id: h5t.TypeID) -> bool:
    """Return whether values of a type have parts of variable length."""
    kind = type_id.get_class()
    if kind == h5t.STRING:
        return bool(type_id.is_variable_str())
    if kind == h5t.COMPOUND:
        members = map(type_id.get_member_type, range(type_id.get_nmembers()))
        return any(map(has_variable_length, members))
    if kind == h5t.ARRAY:
        return has_variable_length(type_id.get_super())
    return bool(kind == h5t.VLEN)

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Differences between a file and its copy, other than the values of the compressed datasets.

Compared are links and the identity of objects, types, extents, properties, attributes and
references. The values of datasets that HDF5 copied are not compared.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
from h5py import h5a, h5d, h5f, h5g, h5l, h5o, h5p, h5r, h5s, h5t

from h5lossy._errors import UnsupportedError
from h5lossy._libhdf5 import fill_bytes, filters_in
from h5lossy._names import path_text
from h5lossy._repacking.objects import (
    attribute_names,
    group_properties,
    has_variable_length,
    links,
    object_key,
)
from h5lossy._repacking.values import blocks_of, read_block, types_to_read
from h5lossy._verification.records import ATTRIBUTES, LOSS_ATTRIBUTES

if TYPE_CHECKING:
    from collections.abc import Collection

    from h5lossy._repacking.objects import ObjectKey

_OURS = {name.encode() for name in (*ATTRIBUTES, *LOSS_ATTRIBUTES)}

#: Most characters of a value in a message.
_MOST_TEXT = 100


class _DifferenceError(Exception):
    """Ends a comparison, with a text that describes the difference."""


def difference(source: h5py.File, target: h5py.File, remade: Collection[ObjectKey]) -> str:
    """Return the first difference; nothing if only the compression of `remade` differs."""
    try:
        _Comparison(source, target, remade).run()
    except _DifferenceError as found:
        return str(found)
    return ""


class _Comparison:
    """Compares the objects of two files, each pair once."""

    def __init__(self, source: h5py.File, target: h5py.File, remade: Collection[ObjectKey]) -> None:
        self._source, self._target = source.id, target.id
        self._remade = remade
        self._copies: dict[ObjectKey, ObjectKey] = {}
        self._originals: dict[ObjectKey, ObjectKey] = {}
        self._linked: dict[ObjectKey, ObjectKey] = {}

    def run(self) -> None:
        """Raise `_DifferenceError` at the first difference."""
        lists = (file.get_create_plist() for file in (self._source, self._target))
        before, after = (
            (a.get_userblock(), a.get_sizes(), a.get_file_space_strategy()) for a in lists
        )
        _require_equal(b"/", "the properties of the file", before, after)
        paths = self._compare_links()
        self._linked = dict(self._copies)
        for path in paths:
            try:
                self._compare_objects(path, *self._opened(path))
            except (KeyError, OSError, RuntimeError, TypeError, ValueError) as error:
                raise _DifferenceError(f"{path_text(path)} can't be compared: {error}") from error

    def _opened(self, path: bytes) -> tuple[Any, Any]:
        return h5o.open(self._source, path), h5o.open(self._target, path)

    def _compare_links(self) -> list[bytes]:
        """Compare the links of all groups; return the first path of each object."""
        roots = self._opened(b"/")
        self._pair(b"/", *roots)
        paths = [b"/"]
        groups = deque([(b"", *roots)])
        while groups:
            path, old, new = groups.popleft()
            is_ordered = _is_ordered(old.get_create_plist().get_link_creation_order())
            before, after = (
                found if is_ordered else sorted(found) for found in (links(old), links(new))
            )
            _require_equal(path or b"/", "the links", before, after)
            for link in before:
                place = path + b"/" + link.name
                if link.kind != h5l.TYPE_HARD:
                    meant = (group.links.get_val(link.name) for group in (old, new))
                    _require_equal(place, "the target of the link", *meant)
                    continue
                try:
                    first, second = h5o.open(old, link.name), h5o.open(new, link.name)
                except (KeyError, OSError) as error:
                    raise _DifferenceError(f"{path_text(place)}: {error}") from error
                _require_equal(place, "the kind of object", type(first), type(second))
                if self._pair(place, first, second):
                    paths.append(place)
                    if isinstance(first, h5g.GroupID):
                        groups.append((place, first, second))
        return paths

    def _pair(self, path: bytes, old: Any, new: Any) -> bool:
        """Record that objects correspond, unless one has another counterpart; return if new."""
        before, after = object_key(old), object_key(new)
        if self._copies.get(before, after) != after or self._originals.get(after, before) != before:
            raise _DifferenceError(f"{path_text(path)} is not the same object as other links mean")
        self._originals[after] = before
        return self._copies.setdefault(before, after) is after

    def _compare_objects(self, path: bytes, old: Any, new: Any) -> None:
        """Compare two objects, but not the objects that they link to."""
        if isinstance(old, h5g.GroupID):
            _require_equal(path, "the properties", *map(group_properties, (old, new)))
            order = old.get_create_plist().get_attr_creation_order()
        else:
            lists = [obj.get_create_plist() for obj in (old, new)]
            order, _ = orders = [one.get_attr_creation_order() for one in lists]
            _require_equal(path, "the order of attributes", *orders)
            storage = (one.get_attr_phase_change() for one in lists)
            _require_equal(path, "the storage of attributes", *storage)
        is_remade = object_key(old) in self._remade
        if isinstance(old, h5d.DatasetID):
            self._compare_datasets(path, old, new, is_remade=is_remade)
        names = (
            [n for n in attribute_names(obj) if not (is_remade and n in _OURS)]
            for obj in (old, new)
        )
        before, after = names if _is_ordered(order) else map(sorted, names)
        _require_equal(path, "the attributes", before, after)
        for name in before:
            self._compare_attributes(path, h5a.open(old, name), h5a.open(new, name))

    def _compare_types(self, path: bytes, what: str, old: h5t.TypeID, new: h5t.TypeID) -> None:
        if not old.equal(new):
            raise _DifferenceError(f"{path_text(path)}: {what} has another type")
        named = (type_id.committed() for type_id in (old, new))
        _require_equal(path, f"whether the type of {what} has a name", *named)
        if old.committed() and self._pair(path, old, new):
            self._compare_objects(path, old, new)

    def _compare_attributes(self, path: bytes, old: h5a.AttrID, new: h5a.AttrID) -> None:
        what = f"attribute {path_text(old.name)}"
        type_id = old.get_type()
        self._compare_types(path, what, type_id, new.get_type())
        _require_equal(path, f"the shape of {what}", *map(_extents, (old, new)))
        if old.shape is None:
            return
        try:
            dtype, memory_type = types_to_read(old, as_objects=has_variable_length(type_id))
        except UnsupportedError:
            if type_id.detect_class(h5t.REFERENCE):
                raise
            return  # NumPy has no such type: values can be copied, but not compared
        values = [np.empty(old.shape, dtype) for _ in (old, new)]
        try:
            old.read(values[0], memory_type)
        except (KeyError, OSError, RuntimeError, TypeError, ValueError):
            if type_id.detect_class(h5t.REFERENCE):
                raise
            return  # h5py has no conversion, as for lists of opaque values
        new.read(values[1], memory_type)
        if not self._is_same(dtype, *values):
            raise _DifferenceError(f"{path_text(path)}: {what} has another value")

    def _compare_datasets(
        self, path: bytes, old: h5d.DatasetID, new: h5d.DatasetID, *, is_remade: bool
    ) -> None:
        type_id = old.get_type()
        self._compare_types(path, "the dataset", type_id, new.get_type())
        _require_equal(path, "the shape", *map(_extents, (old, new)))
        lists = [obj.get_create_plist() for obj in (old, new)]
        before = lists[0]
        _require_equal(path, "the fill time", *(one.get_fill_time() for one in lists))
        is_filled = before.fill_value_defined() == h5d.FILL_VALUE_USER_DEFINED
        if is_filled or not is_remade:  # a compressed dataset may get a new one
            states = (one.fill_value_defined() for one in lists)
            _require_equal(path, "whether there is a fill value", *states)
        if is_filled and not type_id.detect_class(h5t.REFERENCE):
            _require_equal(path, "the fill value", *map(_fill_value, (old, new)))
        if is_remade:
            return
        storage = [*map(_storage, (old, new), lists)]
        for what in storage[0]:
            _require_equal(path, what, *(one[what] for one in storage))
        if type_id.detect_class(h5t.REFERENCE):
            types = types_to_read(old)
            for block in blocks_of(h5py.Dataset(old)):
                values = (read_block(obj, block, *types)[0] for obj in (old, new))
                if not self._is_same(types[0], *values):
                    raise _DifferenceError(f"{path_text(path)} has other references")

    def _is_same(self, dtype: np.dtype[Any], before: Any, after: Any) -> bool:
        """Return whether values are equal, where references must mean an object and its copy."""
        dtype = dtype.base  # the values of an array type have its axes
        base = h5py.check_vlen_dtype(dtype)
        if not dtype.hasobject:
            return bool(before.tobytes() == after.tobytes())
        if dtype.names:
            return all(self._is_same(dtype[n], before[n], after[n]) for n in dtype.names)
        pairs = zip(np.ravel(before), np.ravel(after), strict=True)
        if isinstance(base, np.dtype):
            return all(len(a) == len(b) and self._is_same(base, a, b) for a, b in pairs)
        if h5py.check_ref_dtype(dtype):
            return all(self._is_same_reference(a, b) for a, b in pairs)
        return all(a == b for a, b in pairs)

    def _is_same_reference(self, before: h5r.Reference, after: h5r.Reference) -> bool:
        referred = _object_of(before, self._source)
        wanted = None if referred is None else self._linked.get(referred)
        found = _object_of(after, self._target)
        if wanted is None or found is None:
            return wanted is found
        if found != wanted:
            return False
        if not isinstance(before, h5r.RegionReference):
            return True
        first, second = h5r.get_region(before, self._source), h5r.get_region(after, self._target)
        return _selected(first) == _selected(second)


def _object_of(reference: h5r.Reference, file: h5f.FileID) -> ObjectKey | None:
    """Return the object that a reference means; None if it was deleted, or if there is none.

    In files with addresses of 4 bytes (H5Pset_sizes), HDF5 may read a null reference as another one
    that means nothing.
    """
    try:
        return object_key(h5r.dereference(reference, file)) if reference else None
    except (KeyError, OSError, RuntimeError, ValueError):
        return None


def _selected(space: h5s.SpaceID) -> tuple[Any, ...]:
    """Return a selection in a form that does not depend on the encoding of old files."""
    kind = space.get_select_type()
    places: Any = None
    if _is_unlimited(space):
        places = space.get_regular_hyperslab()
    elif kind == h5s.SEL_HYPERSLABS:
        places = sorted(block.tobytes() for block in space.get_select_hyper_blocklist())
    elif kind == h5s.SEL_POINTS:
        places = space.get_select_elem_pointlist().tobytes()
    return kind, places


def _is_unlimited(space: h5s.SpaceID) -> bool:
    """Return whether a selection of a virtual dataset grows with the dataset."""
    if space.get_select_type() != h5s.SEL_HYPERSLABS or not space.is_regular_hyperslab():
        return False
    _, _, counts, blocks = space.get_regular_hyperslab()
    return h5s.UNLIMITED in (*counts, *blocks)


def _fill_value(dataset: h5d.DatasetID) -> Any:
    """Return the fill value; None where it has parts of variable length, but for strings."""
    type_id = dataset.get_type()
    if not has_variable_length(type_id):
        return fill_bytes(dataset.get_create_plist(), type_id)
    is_text = type_id.get_class() == h5t.STRING
    return h5py.Dataset(dataset).fillvalue if is_text else None


def _storage(dataset: h5d.DatasetID, creation: h5p.PropDCID) -> dict[str, Any]:
    """Return how the values of a dataset that is not compressed are stored, by property name."""
    layout = creation.get_layout()
    filters = filters_in(creation)
    others = [creation.get_external(i) for i in range(creation.get_external_count())]
    if layout == h5d.VIRTUAL:
        others = [
            (
                creation.get_virtual_filename(i),
                creation.get_virtual_dsetname(i),
                _selected(creation.get_virtual_vspace(i)),
                _selected(creation.get_virtual_srcspace(i)),
            )
            for i in range(creation.get_virtual_count())
        ]
    return {
        "the chunk shape": creation.get_chunk() if layout == h5d.CHUNKED else None,
        "the layout": layout,
        "the filters": filters,
        "the allocation time": creation.get_alloc_time(),
        "the files that hold its values": others,
        # Filters that run again may give other sizes.
        "the size": None if filters or layout == h5d.VIRTUAL else dataset.get_storage_size(),
    }


def _extents(holder: h5a.AttrID | h5d.DatasetID) -> tuple[Any, ...]:
    """Return the current and the maximal extents of a dataset or an attribute."""
    space = holder.get_space()
    kind = space.get_simple_extent_type()
    if kind == h5s.NULL:
        return (kind,)
    now, most = space.get_simple_extent_dims(), space.get_simple_extent_dims(1)
    return kind, None if _follows_its_sources(holder) else now, most


def _follows_its_sources(holder: h5a.AttrID | h5d.DatasetID) -> bool:
    """Return whether HDF5 takes the extents from other files, which it may not find for a copy."""
    if not isinstance(holder, h5d.DatasetID):
        return False
    creation = holder.get_create_plist()
    if creation.get_layout() != h5d.VIRTUAL:
        return False
    spaces = map(creation.get_virtual_vspace, range(creation.get_virtual_count()))
    return any(map(_is_unlimited, spaces))


def _is_ordered(tracking: int) -> bool:
    return bool(tracking & h5p.CRT_ORDER_TRACKED)


def _require_equal(path: bytes, what: str, before: Any, after: Any) -> None:
    """Raise if something was not kept."""
    if before == after:
        return
    if isinstance(before, list) and isinstance(after, list):  # names: show the difference
        before, after = (
            [one for one in some if one not in others]
            for some, others in ((before, after), (after, before))
        )
    texts = (f"{str(value)[:_MOST_TEXT]}" for value in (before, after))
    raise _DifferenceError(f"{path_text(path)}: {what} changed from {' to '.join(texts)}")

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""A description of an HDF5 file in plain Python, to compare a file with its copy.

It shares no code with the package: objects are named by their shortest path, everything is read by
h5py's own classes, and references are replaced by their targets.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
from h5py import h5, h5a, h5d, h5l, h5o, h5p, h5s, h5t

from h5lossy import FILTER_ID

if TYPE_CHECKING:
    from pathlib import Path

Description = dict[str, Any]

#: Attributes that repack writes.
OURS = {
    "h5lossy",
    "h5lossy_report",
    "h5lossy_hashes",
    "lossy_compression",
    "lossy_compression_maximum_absolute_error",
    "lossy_compression_maximum_relative_error",
}


def described(path: Path) -> dict[bytes, Description]:
    """Describe all objects of a file, by their shortest path."""
    with h5py.File(path) as file:
        return _File(file).described()


def assert_same_objects(source: Path, target: Path) -> set[bytes]:
    """Assert that a copy differs only in the compression of datasets, and return these."""
    before, after = described(source), described(target)
    assert list(after) == list(before)
    compressed = {
        name
        for name, new in after.items()
        if any(one[0] == FILTER_ID for one in new.get("filters", ()))
    }
    for name, old in before.items():
        new = after[name]
        if name in compressed:
            for one in (old, new):
                one["attributes"] = {k: v for k, v in one["attributes"].items() if k not in OURS}
                for storage in ("layout", "chunks", "filters", "allocated", "values"):
                    del one[storage]
            if old["fill"] is None:
                del old["fill"], new["fill"]
        assert new.keys() == old.keys()
        for key, value in old.items():
            assert new[key] == value, f"{name!r}: {key}"
            if isinstance(value, dict):
                order = list(value)
                assert not old["ordered"].get(key) or list(new[key]) == order, f"{name!r}: {key}"
    return compressed


class _File:
    """Describes one open file."""

    def __init__(self, file: h5py.File) -> None:
        self._file = file
        self._names: dict[int, bytes] = {}

    def described(self) -> dict[bytes, Description]:
        objects: dict[bytes, Any] = {b"/": self._file["/"]}
        self._names[_address(self._file["/"].id)] = b"/"
        queue = deque([b"/"])
        while queue:
            path = queue.popleft()
            group = objects[path]
            for name in sorted(_link_names(group)):
                if group.id.links.get_info(name).type != h5l.TYPE_HARD:
                    continue
                child = group[name]
                if _address(child.id) in self._names:
                    continue
                place = path.rstrip(b"/") + b"/" + name
                self._names[_address(child.id)] = place
                objects[place] = child
                if isinstance(child, h5py.Group):
                    queue.append(place)
        return {path: self._describe(obj) for path, obj in objects.items()}

    def _describe(self, obj: Any) -> Description:
        creation = obj.id.get_create_plist()
        order = creation.get_attr_creation_order()
        found: Description = {
            "kind": type(obj).__name__,
            "attribute order": order,
            "attribute storage": creation.get_attr_phase_change(),
            "ordered": {"attributes": order & h5p.CRT_ORDER_TRACKED},
            "attributes": self._attributes(obj, tracked=bool(order)),
        }
        if isinstance(obj, h5py.Group):
            order = creation.get_link_creation_order()
            found["link order"] = order
            found["ordered"]["links"] = order & h5p.CRT_ORDER_TRACKED
            found["links"] = {name: self._link(obj, name) for name in _link_names(obj)}
        elif isinstance(obj, h5py.Dataset):
            found |= self._dataset(obj, creation)
        else:
            found["type"] = _type_text(obj.id)
        return found

    def _attributes(self, obj: Any, *, tracked: bool) -> dict[str, Any]:
        names: list[bytes] = []
        index = h5.INDEX_CRT_ORDER if tracked else h5.INDEX_NAME
        h5a.iterate(obj.id, names.append, index_type=index)
        found = {}
        for name in names:
            attribute = h5a.open(obj.id, name)
            try:
                value = None if attribute.shape is None else obj.attrs[name]
            except (TypeError, ValueError, OSError) as error:  # a type that NumPy does not have
                value = type(error)
            shape = attribute.shape
            kind = self._type(attribute.get_type())
            found[name.decode(errors="surrogateescape")] = kind, shape, self._meaning(value)
        return found

    def _link(self, group: h5py.Group, name: bytes) -> Any:
        info = group.id.links.get_info(name)
        if info.type == h5l.TYPE_HARD:
            return "hard", info.cset, self._names[_address(group[name].id)]
        return info.type, info.cset, group.id.links.get_val(name)

    def _type(self, type_id: h5t.TypeID) -> Any:
        named = self._names.get(_address(type_id), "no link") if type_id.committed() else None
        return _type_text(type_id), named

    def _dataset(self, dataset: h5py.Dataset, creation: h5p.PropDCID) -> Description:
        space = dataset.id.get_space()
        found: Description = {
            "type": self._type(dataset.id.get_type()),
            "shape": dataset.shape,
            "maxshape": None if space.get_simple_extent_type() == h5s.NULL else dataset.maxshape,
            "layout": creation.get_layout(),
            "chunks": dataset.chunks,
            "filters": [creation.get_filter(i) for i in range(creation.get_nfilters())],
            "fill": None,
            "fill time": creation.get_fill_time(),
            "allocated": dataset.is_virtual or dataset.id.get_storage_size() > 0,
            "external": dataset.external,
            "virtual": [
                (v.vspace.encode(), v.file_name, v.dset_name, v.src_space.encode())
                for v in (dataset.virtual_sources() if dataset.is_virtual else ())
            ],
            "values": None,
        }
        if creation.fill_value_defined() == h5d.FILL_VALUE_USER_DEFINED:
            try:
                found["fill"] = str(dataset.fillvalue)
            except (TypeError, ValueError, RuntimeError) as error:
                found["fill"] = type(error)
        if dataset.shape is not None and not dataset.external and not dataset.is_virtual:
            try:
                found["values"] = self._meaning(dataset[()])
            except (TypeError, ValueError, OSError) as error:
                found["values"] = type(error)
        return found

    def _meaning(self, value: Any) -> Any:
        """Replace references by names and selections, and arrays by what can be compared."""
        if isinstance(value, h5py.Reference):
            return self._referenced(value)
        if isinstance(value, np.ndarray | np.void) and value.dtype.hasobject:
            if value.dtype.names and not value.shape:
                return [self._meaning(value[name]) for name in value.dtype.names]
            return [self._meaning(one) for one in np.ravel(value)]
        if isinstance(value, np.ndarray | np.generic):
            return value.dtype.str, value.shape, value.tobytes()
        return value

    def _referenced(self, reference: h5py.Reference) -> Any:
        try:
            name = self._names.get(_address(self._file[reference].id)) if reference else None
        except (ValueError, KeyError, OSError, RuntimeError):
            name = None
        if name is None or not isinstance(reference, h5py.RegionReference):
            return name
        region = h5py.h5r.get_region(reference, self._file.id)
        is_simple = region.get_simple_extent_type() == h5s.SIMPLE
        return name, _numbers_in(region) if is_simple else region.get_simple_extent_type()


def _numbers_in(region: h5s.SpaceID) -> list[int]:
    """Return the numbers of the selected points, counted in C order."""
    with h5py.File("numbers", "w", driver="core", backing_store=False) as file:
        numbers = file.create_dataset(
            "n", data=np.arange(np.prod(region.shape)).reshape(region.shape)
        )
        found = np.empty(region.get_select_npoints(), numbers.dtype)
        numbers.id.read(h5s.create_simple(found.shape), region, found)
    return list(map(int, found))


def _type_text(type_id: h5t.TypeID) -> str:
    try:
        dtype = type_id.dtype
    except (TypeError, ValueError):
        return repr(type_id.encode())
    return f"{type_id.get_size()} bytes, {dtype!r}, {dtype.metadata}"


def _address(identifier: Any) -> int:
    return int(h5o.get_info(identifier).addr)


def _link_names(group: h5py.Group) -> list[bytes]:
    names: list[bytes] = []
    tracked = group.id.get_create_plist().get_link_creation_order() & h5p.CRT_ORDER_TRACKED
    group.id.links.iterate(names.append, idx_type=h5.INDEX_CRT_ORDER if tracked else h5.INDEX_NAME)
    return names

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Variables of netCDF4 and h5netcdf as h5py datasets, and attributes of any library's objects.

h5netcdf opens its files with h5py, so the h5py dataset is available. netCDF4 has its own HDF5
library: its files are opened a second time, which HDF5's file locks allow for reading only. If both
packages share one library, as in conda, the second file is the first one. Attributes may have types
that NumPy lacks.
"""

from __future__ import annotations

import contextlib
import functools
import os
import posixpath
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import h5py
import numpy as np
from h5py import h5t

from h5lossy._errors import InvalidArgumentError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping

Function = TypeVar("Function", bound="Callable[..., Any]")


def takes_variables(function: Function) -> Function:
    """Make a function that reads a dataset, its first argument, take variables as well."""

    @functools.wraps(function)
    def call(dataset: Any, *args: Any, **kwargs: Any) -> Any:
        if type(dataset) is h5py.Dataset:  # most are; a context costs as much as a small chunk
            return function(_own_dataset(dataset), *args, **kwargs)
        with dataset_of(dataset) as opened:
            return function(opened, *args, **kwargs)

    return cast("Function", call)


@contextmanager
def dataset_of(given: Any) -> Iterator[h5py.Dataset]:
    """Give the dataset that a variable is in the file, for reading; datasets are unchanged."""
    if not is_netcdf4_variable(given):
        yield _own_dataset(given)
        return
    path = netcdf4_file(given)
    try:
        if not _is_open_here(path):
            raise UnsupportedError(
                f"{path} is not the file that the variable {given.name} of netCDF4 is in: that is "
                "in memory, or was replaced; save it, and open it again"
            )
        file = h5py.File(path, "r")
    except BlockingIOError as error:
        raise UnsupportedError(
            f"{path} is open for writing in netCDF4, whose HDF5 library locks it; close it first, "
            "and open it for reading, with netCDF4, h5netcdf or h5py"
        ) from error
    except OSError as error:
        raise UnsupportedError(
            f"the variable {given.name} of netCDF4 can't be read from its file, {path}: {error}; "
            "files in memory or on a server have to be saved first"
        ) from error
    with file:
        yield dataset_named(file[given.group().path], given.name)


def dataset_named(group: h5py.Group, name: str) -> Any:
    """Return what a variable of netCDF is in its group; None if nothing has its name."""
    # netCDF-C prefixes the name of a variable that has the name of a dimension but is not its
    # coordinate; the object with the name itself is then the dimension.
    return group.get(f"_nc4_non_coord_{name}", group.get(name))


def dataset_to_write(given: Any) -> h5py.Dataset:
    """Return the dataset of an h5netcdf variable; raise for one of netCDF4."""
    if is_netcdf4_variable(given):
        raise UnsupportedError(
            f"h5lossy.write can't write the variable {given.name} of netCDF4, whose HDF5 library "
            f"has the file; {given.name}[...] = values is compressed, too, on one thread. For many "
            "threads, close the file, and write with h5py.File(path, 'r+') or h5netcdf"
        )
    return _own_dataset(given)


@contextmanager
def as_stored(values: Any) -> Iterator[None]:
    """Read a netCDF4 variable as stored, without masking and scaling; other types always are."""
    if not hasattr(values, "set_auto_maskandscale"):
        yield
        return
    mask, scale = values.mask, values.scale
    values.set_auto_maskandscale(False)
    try:
        yield
    finally:
        values.set_auto_mask(mask)
        values.set_auto_scale(scale)


def attribute_of(data: Any, name: str) -> Any:
    """Return an attribute of a dataset or variable of any library; None if there is none."""
    try:
        if hasattr(data, "ncattrs"):  # netCDF4
            return data.getncattr(name) if name in data.ncattrs() else None
        attributes: Any = getattr(data, "attrs", None)
        is_here = isinstance(attributes, h5py.AttributeManager) and name in attributes
        if is_here and has_lists_of_regions(attributes.get_id(name).get_type()):
            raise TypeError("h5py can't read lists of region references")  # noqa: TRY301
        get: Callable[[str], Any] | None = getattr(attributes, "get", None)
        return None if get is None else get(name)
    # HDF5 has types that NumPy does not have, such as times.
    except (OSError, RuntimeError, TypeError, ValueError) as error:
        raise UnsupportedError(f"attribute {name} can't be read: {error}") from error


def has_lists_of_regions(type_id: h5t.TypeID, *, in_list: bool = False) -> bool:
    """Return whether values have lists of region references, on which h5py (3.16) crashes."""
    kind = type_id.get_class()
    if kind == h5t.REFERENCE:
        return in_list and not type_id.equal(h5t.STD_REF_OBJ)
    if kind == h5t.COMPOUND:
        members = map(type_id.get_member_type, range(type_id.get_nmembers()))
        return any(has_lists_of_regions(member, in_list=in_list) for member in members)
    is_list = kind == h5t.VLEN
    has_elements = is_list or kind == h5t.ARRAY
    return has_elements and has_lists_of_regions(type_id.get_super(), in_list=in_list or is_list)


def text_attribute(data: Any, name: str) -> str | None:
    """Return an attribute that is text, by whatever type of string; None if it is none."""
    content = attribute_of(data, name)
    if isinstance(content, np.ndarray) and content.size == 1:
        content = content.item()
    if isinstance(content, bytes):
        content = content.decode("utf-8", "replace")
    return content if isinstance(content, str) else None


#: Attributes of the CF conventions that name variables describing the grid: bounds of cells,
#: vertical coordinates and the like. xarray has these among the data variables.
_CF_REFERENCES = (
    "bounds",
    "cell_measures",
    "climatology",
    "coordinates",
    "formula_terms",
    "geometry",
    "grid_mapping",
    "node_coordinates",
)


def referred_to(data: Any) -> set[str]:
    """Return the names that a variable's attributes of the CF conventions refer to."""
    texts: list[str] = []
    for attribute in _CF_REFERENCES:
        with contextlib.suppress(UnsupportedError):
            texts.append(text_attribute(data, attribute) or "")
    # In "area: areacella" and the like, a word with a colon describes the next one, but "crs: x y"
    # refers to a variable crs.
    return {name.removesuffix(":") for text in texts for name in text.split()}


def paths_referred_to(datasets: Mapping[str, Any]) -> set[str]:
    """Return the paths of those datasets or variables that others refer to by the CF conventions.

    A name is looked for in the dataset's own group, and then in those around it; a path begins at
    the root or at the dataset's group.
    """
    return {
        found
        for path, dataset in datasets.items()
        for name in referred_to(dataset)
        if (found := _nearest(name, posixpath.dirname(path), datasets)) not in (None, path)
    }


def _nearest(name: str, group: str, paths: Container[str]) -> str | None:
    """Return the path that a name means in a group; None if there is no such dataset."""
    while True:
        path = posixpath.normpath(posixpath.join("/", group, name))
        if path in paths:
            return path
        if group in ("", "/") or "/" in name:
            return None
        group = posixpath.dirname(group)


def is_netcdf4_variable(given: Any) -> bool:
    """Return whether this is a variable of netCDF4, without importing that."""
    return _is_instance(given, "netCDF4", "Variable")


def is_h5netcdf_variable(given: Any) -> bool:
    """Return whether this is a variable of h5netcdf, without importing that."""
    return _is_instance(given, "h5netcdf.core", "BaseVariable")


def netcdf4_file(variable: Any) -> str:
    """Return the path of a netCDF4 variable's file; raise if that is closed, or not HDF5."""
    group = variable.group()
    try:
        while group.parent is not None:
            group = group.parent
        is_open = group.isopen()
    except ReferenceError:  # keepweakref=True
        is_open = False
    if not is_open:
        raise InvalidArgumentError("the variable's file is closed")
    if not group.data_model.startswith("NETCDF4"):
        raise UnsupportedError(
            f"{group.filepath()} is of netCDF's format {group.data_model}, which has no filters; "
            "convert it with nccopy -k nc4, or make it with format='NETCDF4'"
        )
    return str(group.filepath())


def _own_dataset(given: Any) -> h5py.Dataset:
    """Return a dataset, or the one of a variable of h5netcdf, in the file that is open already."""
    dataset = given
    if is_h5netcdf_variable(given):
        try:
            dataset = given._h5ds  # noqa: SLF001 - it has no public name
        except (AttributeError, ValueError) as error:  # it refers to its file weakly
            raise InvalidArgumentError("the variable's file is closed") from error
    if not isinstance(dataset, h5py.Dataset):
        raise TypeError(
            "dataset must be an h5py.Dataset, or a variable of netCDF4 or h5netcdf, "
            f"got {type(dataset).__name__}"
        )
    require_open(dataset)
    return dataset


def require_open(data: Any, name: str = "the dataset") -> None:
    """Raise for an object of h5py whose file is closed."""
    if isinstance(data, h5py.HLObject) and not data:
        raise InvalidArgumentError(f"the file of {name} is closed")


def _is_open_here(path: str) -> bool:
    """Return whether this process has a file open."""
    wanted = Path(path).stat()
    for descriptor in _descriptors():
        with contextlib.suppress(OSError):  # closed meanwhile
            if os.path.samestat(wanted, os.fstat(descriptor)):
                return True
    return False


def _descriptors() -> Iterable[int]:
    """Return the file descriptors that may be open; Windows' C library has at most 8192."""
    if sys.platform == "win32":
        return range(8192)
    return (int(path.name) for path in Path("/dev/fd").iterdir())


def _is_instance(given: Any, module: str, name: str) -> bool:
    """Return whether this is of a class of a module, if that is imported."""
    cls = getattr(sys.modules.get(module), name, None)
    return isinstance(cls, type) and isinstance(given, cls)

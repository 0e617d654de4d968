# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Registering the filter in every HDF5 library of the process.

- `import h5lossy` registers the filter in all that are loaded by then, and
- a finder on `sys.meta_path` does so again right after one of the packages of `_HAVE_HDF5` is
  imported later. It finds nothing itself: it calls the other finders, and makes the loader that
  they return call `register` once the module has been executed.

For a library that comes in another way, call `h5lossy.register()`.

Registering calls ``H5Zregister`` directly, and ``H5Zget_filter_info`` to see whether there is a
filter already. Neither makes HDF5 search for plugins. ``H5Zfilter_avail`` would, and the first
search fixes ``HDF5_PLUGIN_PATH`` for good, so that an import of h5lossy would decide where other
filters are looked for. The environment is left alone for the same reason: netCDF4 sets that
variable to its own plugins only if it is not set.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from typing import TYPE_CHECKING, Any

from h5lossy._errors import H5LossyError, NativeError
from h5lossy._libraries import LoadedHDF5, loaded_libraries
from h5lossy._public import name_publicly
from h5lossy._warnings import warn

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


#: Modules that load an HDF5 library of their own when they are imported, and VTK's package, which
#: puts a finder of its own first.
_HAVE_HDF5 = frozenset(
    {
        "h5py",
        "netCDF4",
        "osgeo",
        "rasterio",
        "tables",
        "vtkmodules",
        "vtkmodules.vtkIOExodus",
        "vtkmodules.vtkIOHDF",
        "vtkmodules.vtkIONetCDF",
        "vtkmodules.vtkIOXdmf2",
    }
)

#: The filter's functions take 64-bit identifiers, which HDF5 has since this version.
_OLDEST_HDF5 = (1, 10, 0)


def register(
    filters: int | str | Sequence[int | str] = "h5lossy", *, force: bool = True
) -> tuple[str, ...]:
    """Register the filter in every HDF5 library that is loaded, and return the paths of these.

    `import h5lossy` has done so already, and does so for h5py, netCDF4, PyTables, GDAL, rasterio
    and VTK's readers whenever they are imported. Call it after anything else has loaded an HDF5 of
    its own. No other thread should use that HDF5 meanwhile, unless it was built to be thread-safe;
    h5py's is guarded by its lock.

    Parameters
    ----------
    filters : int, str or sequence of them, optional
        "h5lossy" or 46412, which is all that there is: for code that was written for hdf5plugin.
    force : bool
        True replaces a filter of this number that is registered already. False leaves it, even
        if it is not h5lossy's.

    Raises
    ------
    InvalidArgumentError
        If it is another filter. (A ValueError.)
    NativeError
        If an HDF5 library refuses the filter; the others have it all the same.
    """
    importlib.import_module("h5lossy._codecs").get_filters(filters)  # refuses others
    return _register_in(loaded_libraries(), force=force)


def install() -> None:
    """Register the filter now, and whenever a package with its own HDF5 library is imported."""
    # A library that refuses the filter must not keep the others from being used: this raises only
    # where h5lossy itself is not complete.
    _register_quietly()
    _put_finder_first()


def _put_finder_first() -> None:
    """Put a new finder first, and remove any other: this module may be loaded a second time."""
    sys.meta_path[:] = [
        finder for finder in sys.meta_path if type(finder).__name__ != _RegisterAfterImport.__name__
    ]
    sys.meta_path.insert(0, _RegisterAfterImport())


def _register_in(libraries: Sequence[LoadedHDF5], *, force: bool) -> tuple[str, ...]:
    """Register the filter in all libraries that can have it, then raise for those that refused."""
    paths, refused = [], []
    native: Any = importlib.import_module("h5lossy._native") if libraries else None
    for library in libraries:
        if library.version < _OLDEST_HDF5:
            continue
        if force or not library.has_filter(native.FILTER_ID):
            try:
                library.register_filter(native.plugin_info())
            except NativeError as error:
                refused.append(str(error))
                continue
        paths.append(library.path)
    if refused:
        raise NativeError("; ".join(refused))
    return tuple(paths)


def _register_quietly(*others: type[Exception]) -> None:
    """Register the filter where it is missing, and warn where HDF5 or one of `others` fails."""
    failures: tuple[type[Exception], ...] = (H5LossyError, OSError, *others)
    try:
        # Libraries that have our filter are left out: a call into h5py's waits for its lock, and
        # the thread that holds it may be waiting for the import that runs this.
        _register_in([lib for lib in loaded_libraries() if not lib.has_ours], force=False)
    except failures as error:
        # Where warnings are errors, this one must not break an import either.
        with contextlib.suppress(Warning):
            warn(
                f"h5lossy could not register its filter: {error}. "
                "h5lossy.get_config() shows where it is missing"
            )


class _RegisterAfterImport:
    """Finds what the other finders find, and has the filter registered once that is imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _HAVE_HDF5:
            return None
        for finder in sys.meta_path:
            find_spec = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find_spec(fullname, path, target) if find_spec else None
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    _register_after(spec.loader)
                return spec
        return None


def _register_after(loader: Any) -> None:
    """Make a loader register the filter after it has executed its next module."""

    def exec_module(module: ModuleType) -> None:
        attributes.pop("exec_module", None)
        loader.exec_module(module)
        _register_quietly(ImportError)  # which would be taken for one of the module's
        _put_finder_first()

    # It shadows the method until it is called, so that the loader of an imported module is as it
    # always was. Loaders that take no attributes are left alone.
    attributes = getattr(loader, "__dict__", {})
    attributes["exec_module"] = exec_module


name_publicly(__name__)

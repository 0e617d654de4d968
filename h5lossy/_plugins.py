# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Making the filter known to every HDF5 library in the process, and saying how that went.

Each of h5py, netCDF4, PyTables and others has an HDF5 library of its own, with its own list of
filters. So

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
import importlib.abc
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from h5lossy import _native
from h5lossy._errors import H5LossyError, NativeError
from h5lossy._libhdf5 import LoadedHDF5, loaded_libraries
from h5lossy._warnings import warn

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

PLUGIN_PATH: str = str(_native.LIBRARY_PATH.parent)
"""Folder of the plugin: the ``HDF5_PLUGIN_PATH`` for programs such as h5repack."""

#: Modules that load an HDF5 library of their own when they are imported, and VTK's package, which
#: puts a finder of its own first.
_HAVE_HDF5 = frozenset(
    {
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


@dataclass(frozen=True, kw_only=True)
class LibHDF5:
    """An HDF5 library of this process.

    Attributes
    ----------
    path : str
        The file that holds it.
    version : str
        Such as "1.14.6".
    registered_by : {"h5lossy", "other", "none"}
        What registered filter 46412 there: this package; something else, such as HDF5 itself when
        it found the plugin by ``HDF5_PLUGIN_PATH``; or nothing yet.
    """

    path: str
    version: str
    registered_by: Literal["h5lossy", "other", "none"]


@dataclass(frozen=True, kw_only=True)
class Device:
    """A GPU of this machine.

    Attributes
    ----------
    name : str
        Such as "NVIDIA H100 PCIe"; empty where it cannot be used.
    kernels : str
        Where its kernels are from: "built in", or compiled by NVRTC. Empty where it cannot be used.
    problem : str
        Why it cannot be used; empty where it can.
    """

    name: str
    kernels: str
    problem: str


@dataclass(frozen=True, kw_only=True)
class Config:
    """What h5lossy consists of in this process (`get_config`).

    Attributes
    ----------
    version : str
        Version of h5lossy.
    build : str
        Compiler and build type of the library.
    plugin_path : str
        Folder of the plugin.
    backend : str or None
        The backend in use; None where the self-test of its arithmetic fails.
    backends : dict of str to bool
        The backends in this build, best first, and whether this machine can run each.
    devices : tuple of Device
        The GPUs of this machine; none without the CUDA driver.
    device_selection : str
        Whether chunks go to a GPU or the CPU (``H5LOSSY_DEVICE``), and why, as lines of text.
    libhdf5s : tuple of LibHDF5
        The HDF5 libraries that are loaded, h5py's first.
    """

    version: str
    build: str
    plugin_path: str
    backend: str | None
    backends: dict[str, bool]
    devices: tuple[Device, ...]
    device_selection: str
    libhdf5s: tuple[LibHDF5, ...]


def register(*, force: bool = True) -> tuple[str, ...]:
    """Register the filter in every HDF5 library that is loaded.

    `import h5lossy` has done so already, and does so for netCDF4, PyTables, GDAL, rasterio and
    VTK's readers whenever they are imported. Call it after anything else has loaded an HDF5 of its
    own. No other thread should use that HDF5 meanwhile, unless it was built to be thread-safe;
    h5py's is guarded by its lock.

    Parameters
    ----------
    force : bool
        True replaces a filter of this number that is registered already. False leaves it, even
        if it is not h5lossy's.

    Returns
    -------
    tuple of str
        Paths of the HDF5 libraries in which the filter is registered now.

    Raises
    ------
    NativeError
        If an HDF5 library refuses the filter; the others have it all the same.

    Examples
    --------
    >>> import h5lossy
    >>> paths = h5lossy.register()
    """
    return _register_in(loaded_libraries(), force=force)


def get_config() -> Config:
    """Return what h5lossy consists of in this process.

    Returns
    -------
    Config

    Examples
    --------
    >>> get_config().libhdf5s[0].registered_by
    'h5lossy'
    """
    return Config(
        version=_native.version(),
        build=_native.build(),
        plugin_path=PLUGIN_PATH,
        backend=_native.backend_name(),
        backends=_native.backends(),
        devices=tuple(
            Device(name=name, kernels=kernels, problem=problem)
            for name, kernels, problem in _native.devices()
        ),
        device_selection=_native.device_selection(),
        libhdf5s=tuple(
            LibHDF5(
                path=library.path,
                version=".".join(map(str, library.version)),
                registered_by=_registered_by(library),
            )
            for library in loaded_libraries()
        ),
    )


def install() -> None:
    """Register the filter now, and whenever a package with its own HDF5 library is imported.

    This is the import's side effect. It never raises: a library that refuses the filter must not
    keep the others from being used.
    """
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
    for library in libraries:
        if library.version < _OLDEST_HDF5:
            continue
        if force or not library.has_filter(_native.FILTER_ID):
            try:
                library.register_filter(_native.plugin_info())
            except NativeError as error:
                refused.append(str(error))
                continue
        paths.append(library.path)
    if refused:
        raise NativeError("; ".join(refused))
    return tuple(paths)


def _registered_by(library: LoadedHDF5) -> Literal["h5lossy", "other", "none"]:
    """Return what registered the filter in a library."""
    if not library.has_filter(_native.FILTER_ID):
        return "none"
    return "h5lossy" if library.has_ours else "other"


def _register_quietly() -> None:
    """Register the filter where it is missing, and warn where that fails."""
    try:
        # Libraries that have our filter are left out: a call into h5py's waits for its lock, and
        # the thread that holds it may be waiting for the import that runs this.
        _register_in([lib for lib in loaded_libraries() if not lib.has_ours], force=False)
    except (H5LossyError, OSError) as error:
        # Where warnings are errors, this one must not break an import either.
        with contextlib.suppress(Warning):
            warn(
                f"h5lossy could not register its filter: {error}. "
                "h5lossy.get_config() shows where it is missing"
            )


class _RegisterAfterImport(importlib.abc.MetaPathFinder):
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
                if isinstance(spec.loader, importlib.abc.Loader):
                    _register_after(spec.loader)
                return spec
        return None


def _register_after(loader: importlib.abc.Loader) -> None:
    """Make a loader register the filter after it has executed its next module.

    An attribute of the instance shadows the method, and is deleted by the first call, so that the
    loader of an imported module is as it always was. Loaders that take no attributes are left
    alone.
    """

    def exec_module(module: ModuleType) -> None:
        attributes.pop("exec_module", None)
        loader.exec_module(module)
        _register_quietly()
        _put_finder_first()

    attributes = getattr(loader, "__dict__", {})
    attributes["exec_module"] = exec_module

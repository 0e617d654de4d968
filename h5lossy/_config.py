# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Facts about h5lossy in this process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import h5py  # noqa: F401  # its HDF5 comes first

from h5lossy import _native
from h5lossy._libraries import LoadedHDF5, loaded_libraries
from h5lossy._public import PLUGIN_PATH, name_publicly


@dataclass(frozen=True, kw_only=True)
class LibHDF5:
    """An HDF5 library of this process, and the file that holds it.

    `registered_by` says what registered filter 46412 there: this package; something else, such as
    HDF5 itself when it found the plugin by ``HDF5_PLUGIN_PATH``; or nothing yet.
    """

    path: str
    version: str
    registered_by: Literal["h5lossy", "other", "none"]


@dataclass(frozen=True, kw_only=True)
class Device:
    """A GPU of this machine, such as "NVIDIA H100 PCIe".

    `kernels` says where its kernels are from: "built in", or compiled by NVRTC. Where it cannot be
    used, `problem` says why, and `name` and `kernels` are empty.
    """

    name: str
    kernels: str
    problem: str


@dataclass(frozen=True, kw_only=True)
class Config:
    """Facts about h5lossy in this process (`get_config`).

    Attributes
    ----------
    build : str
        Compiler and build type of the library.
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


def get_config() -> Config:
    """Return facts about h5lossy in this process."""
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


def _registered_by(library: LoadedHDF5) -> Literal["h5lossy", "other", "none"]:
    """Return what registered the filter in a library."""
    if not library.has_filter(_native.FILTER_ID):
        return "none"
    return "h5lossy" if library.has_ours else "other"


name_publicly(__name__)

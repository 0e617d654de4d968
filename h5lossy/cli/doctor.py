# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""``h5lossy doctor``: what works here, and what to do about what doesn't."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import os
import platform
from importlib import metadata
from pathlib import Path

import click
import h5py
import numpy as np

from h5lossy import (
    PLUGIN_PATH,
    Config,
    H5LossyError,
    get_config,
    largest_error,
)
from h5lossy._device_speeds import expected_speedups, measure
from h5lossy.cli._console import error_text, print_table, say
from h5lossy.codecs import CODECS, Codec

_LIBRARIES = ("netCDF4", "tables")

#: A speedup that was measured here may be so many times as large as the library's table says, or
#: as small.
_MOST_DEVIATION = 2


@click.command()
@click.option(
    "--import/--no-import",
    "import_libraries",
    default=True,
    help="Import netCDF4 and PyTables where installed, to see their HDF5. [default: import]",
)
def doctor(*, import_libraries: bool) -> None:
    """Print what h5lossy finds here, and try it out.

    Shows versions, every HDF5 library in the process and whether it has the filter, the backends,
    and the environment variables that matter; then writes and reads a dataset in memory with each
    codec. The exit code is 1 if something is broken, and the last lines say what to do.
    """
    environment = {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith(("H5LOSSY_", "HDF5_PLUGIN_"))
    }  # before netCDF4 adds to it
    broken = _import_others() if import_libraries else []
    config = get_config()
    _print_versions(config)
    broken += _print_libraries(config)
    broken += _print_backends(config)
    _print_devices(config)
    _print_environment(environment)
    for cls in CODECS.values():
        broken += _try_filter(cls(absolute=1e-3))
    if broken:
        raise click.ClickException("; ".join(broken))
    say("all is well")


def _import_others() -> list[str]:
    """Import packages with an HDF5 library of their own."""
    broken = []
    for name in _LIBRARIES:
        if importlib.util.find_spec(name) is None:
            continue
        try:
            importlib.import_module(name)
        except (ImportError, OSError, RuntimeError) as error:
            broken.append(f"{name} is installed, but import {name} fails: {error}")
    return broken


def _print_versions(config: Config) -> None:
    say(f"h5lossy {config.version}, plugin in {config.plugin_path}")
    others = [f"Python {platform.python_version()}", platform.platform(), f"NumPy {np.__version__}"]
    for name in ("h5py", "cffi", *_LIBRARIES, "h5netcdf", "xarray", "hdf5plugin"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            others.append(f"{name} {metadata.version(name)}")
    say(", ".join(others))


def _print_libraries(config: Config) -> list[str]:
    print_table(
        ("HDF5", "registered by", "library"),
        [(lib.version, lib.registered_by, lib.path) for lib in config.libhdf5s],
    )
    return [
        f"the filter is not registered in {lib.path} (HDF5 {lib.version}; it needs 1.10 or later): "
        "call h5lossy.register() after the import that loads this library"
        for lib in config.libhdf5s
        if lib.registered_by == "none"
    ]


def _print_backends(config: Config) -> list[str]:
    print_table(
        ("backend", "usable here", "in use"),
        [
            (name, "yes" if usable else "no", "yes" if name == config.backend else "")
            for name, usable in config.backends.items()
        ],
    )
    if config.backend is not None:
        return []
    wanted = os.environ.get("H5LOSSY_BACKEND")
    return [
        f"there is no usable backend {wanted!r}: unset H5LOSSY_BACKEND, or set it to "
        f"{' or '.join(config.backends)}"
        if wanted
        else "this machine's arithmetic does not give the bits that the format needs; "
        "please report it"
    ]


def _print_devices(config: Config) -> None:
    """Print the GPUs, where chunks go, and how the two compare here."""
    if config.devices:
        print_table(
            ("GPU", "kernels", "problem"), [(d.name, d.kernels, d.problem) for d in config.devices]
        )
    is_usable = any(not device.problem for device in config.devices)
    say(config.device_selection)
    if is_usable and config.backend is not None:
        _compare_devices()


def _compare_devices() -> None:
    """Measure the CPU beside the GPU, and check the table that ``H5LOSSY_DEVICE=auto`` goes by."""
    on_cpu, on_gpu = measure("cpu"), measure("gpu")
    rows, wrong = [], []
    for (codec, direction), expected in expected_speedups().items():
        cpu, gpu = on_cpu[codec][direction], on_gpu[codec][direction]
        numbers = f"{cpu:.1f}", f"{gpu:.1f}", f"{gpu / cpu:.2f}", f"{expected:.2f}"
        rows.append((codec, direction, *numbers))
        if not 1 / _MOST_DEVIATION <= gpu / cpu / expected <= _MOST_DEVIATION:
            wrong.append(f"{codec} {direction}")
    header = ("chunks of 1 MiB", "", "CPU GB/s", "GPU GB/s", "GPU/CPU", "expected")
    print_table(header, rows)
    if wrong:
        say(
            f"the speeds that H5LOSSY_DEVICE=auto goes by are wrong here for {', '.join(wrong)}: "
            "set it to cpu or gpu, whichever is faster"
        )


def _print_environment(environment: dict[str, str]) -> None:
    for name, value in environment.items():
        say(f"{name}={value}")
    if "HDF5_PLUGIN_PATH" not in environment:
        say("HDF5_PLUGIN_PATH is not set, which is fine in Python")
    folders = environment.get("HDF5_PLUGIN_PATH", "").split(os.pathsep)
    if not any(folder and Path(folder).resolve() == Path(PLUGIN_PATH) for folder in folders):
        say("for h5repack, h5dump and the like: export HDF5_PLUGIN_PATH=$(h5lossy plugin-path)")


def _try_filter(codec: Codec) -> list[str]:
    """Write and read a small dataset, in memory."""
    values = np.sin(np.linspace(0, 60, 50_000, dtype=np.float32)).reshape(200, 250)
    values[3, 5:9] = np.nan
    memory = io.BytesIO()
    try:
        with h5py.File(memory, "w") as file:
            file.create_dataset("x", data=values, chunks=(64, 100), compression=codec)
        with h5py.File(memory, "r") as file:
            ratio = values.nbytes / file["x"].id.get_storage_size()
            summary = largest_error(values, file["x"][...], codec.bound)
    except (H5LossyError, OSError, RuntimeError, ValueError) as error:
        return [f"writing and reading with {codec!r} fails: {' '.join(str(error).split())}"]
    if not summary.holds:
        return [f"{codec!r} violates its bound: {'; '.join(summary.problems)}; please report it"]
    say(
        f"tried {codec!r}: {summary.count} values within {error_text(summary)} of the bound, "
        f"NaN kept, ratio {ratio:.1f}"
    )
    return []

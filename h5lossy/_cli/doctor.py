# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""``h5lossy doctor``: what works here, and what to do about what doesn't."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import importlib.util
import io
import os
import platform
import subprocess
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import h5py
import numpy as np

from h5lossy import PLUGIN_PATH, Config, H5LossyError, get_config, largest_error
from h5lossy._cli._console import error_text, print_table, say, say_json
from h5lossy._cli._files import FAILED, Ended, for_each_file, no_verdict, raise_failures
from h5lossy._cli._needs import needs_of
from h5lossy._cli._options import files_argument, json_option
from h5lossy._cli._repair import repair as mend
from h5lossy._cli._system import SET_PLUGIN_PATH
from h5lossy._codecs import CODECS, Codec
from h5lossy._device_speeds import expected_speedups, measure
from h5lossy._printable import one_line, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

_LIBRARIES = ("netCDF4", "tables")

#: A speedup that was measured here may be so many times as large as the library's table says, or
#: as small.
_MOST_DEVIATION = 2


@click.command()
@files_argument("paths", "[FILE]...", required=False)
@click.option(
    "--import/--no-import",
    "import_libraries",
    default=True,
    help="Import netCDF4 and PyTables where installed, to see their HDF5. [default: import]",
)
@click.option(
    "--repair",
    is_flag=True,
    help="Mend each FILE that can't be opened since its writer was killed.",
)
@json_option
def doctor(paths: Sequence[Path], *, import_libraries: bool, repair: bool, as_json: bool) -> None:
    """Print what h5lossy finds here, and try it out; or what is needed to read each FILE.

    Without FILE: shows versions, every HDF5 library in the process and whether it has the filter,
    the backends, and the environment variables that matter; then writes and reads a dataset in
    memory with each codec. The last lines say what to do about what is broken.

    With FILE: shows the filters of its datasets, codecs and format version of those that h5lossy
    compressed, and other files that it takes values from; whether all of these are here, and what
    to install if not. Nothing is decoded.

    With --repair: repairs what a killed writer leaves of a file: a length below the one that the
    file states ("truncated file"), and the mark that a writer has it open (as h5clear -s does).
    Only free space is added; a file that lacks values or objects is refused, and not changed.

    Exit codes: 0 all is here and works; 1 something is broken or missing; 2 wrong usage, or a file
    that can't be read.
    """
    if repair and not paths:
        raise click.UsageError("--repair takes the files that are to be mended")
    if paths:
        found: list[dict[str, Any]] = []
        work = partial(_repair if repair else _examine, found=found, as_json=as_json)
        failed = for_each_file(paths, work)
        if as_json:
            say_json({"files": found})
        raise_failures(failed, len(paths))
        return
    environment = {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith(("H5LOSSY_", "HDF5_PLUGIN_"))
    }  # before netCDF4 adds to it
    broken = _import_others() if import_libraries else []
    config = get_config()
    broken += _problems(config)
    if not as_json:
        _print_versions(config)
        _print_devices(config)
        _print_environment(environment)
    trials = [_try_filter(cls(absolute=1e-3)) for cls in CODECS.values()]
    broken += [problem for *_, problem in trials if problem]
    if as_json:
        plain: dict[str, Any] = dataclasses.asdict(config)
        plain |= {"packages": _packages(), "environment": environment}
        plain["tried"] = [
            {"codec": cls.codec_name, "ratio": ratio, "ok": not problem}
            for cls, (ratio, _, problem) in zip(CODECS.values(), trials, strict=True)
        ]
        say_json(plain | {"problems": broken})
    else:
        for _, text, problem in trials:
            if not problem:
                say(text)
    if broken:
        raise click.ClickException("; ".join(broken))
    if not as_json:
        say("all is well")


def _examine(path: Path, *, found: list[dict[str, Any]], as_json: bool) -> None:
    """Say what is needed to read a file."""
    with no_verdict():
        needs = needs_of(path)
    if as_json:
        found.append({"file": str(path), **needs.plain()})
    else:
        say(printable(str(path)))
        needs.show()
    if needs.missing:
        raise Ended(f"{path} needs what is not here: {'; '.join(needs.missing)}", FAILED)
    if not as_json:
        say("all that is needed is here")


def _repair(path: Path, *, found: list[dict[str, Any]], as_json: bool) -> None:
    """Mend a file, and say what was done."""
    changes = mend(path)
    found.append({"file": str(path), "changes": changes})
    if not as_json:
        say(f"{printable(str(path))}: {', '.join(changes) or 'nothing to mend'}")


def _import_others() -> list[str]:
    """Import packages with an HDF5 library of their own."""
    broken = []
    for name in _LIBRARIES:
        if importlib.util.find_spec(name) is None:
            continue
        try:
            importlib.import_module(name)
        except Exception as error:  # noqa: BLE001 - NumPy of another version: ValueError, for one
            broken.append(f"{name} is installed, but import {name} fails: {error}")
    return broken


def _print_versions(config: Config) -> None:
    say(f"h5lossy {config.version}, plugin in {config.plugin_path}")
    packages = [f"{name} {version}" for name, version in _packages().items()]
    say(", ".join([f"Python {platform.python_version()}", platform.platform(), *packages]))
    print_table(
        ("HDF5", "registered by", "library"),
        [(lib.version, lib.registered_by, lib.path) for lib in config.libhdf5s],
    )


def _packages() -> dict[str, str]:
    """Return the versions of the packages that matter."""
    found = {"NumPy": np.__version__}
    for name in ("h5py", "cffi", *_LIBRARIES, "h5netcdf", "xarray", "hdf5plugin"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def _problems(config: Config) -> list[str]:
    """Return what is wrong with the libraries and the backend."""
    broken = [
        f"the filter is not registered in {lib.path} (HDF5 {lib.version}; it needs 1.10 or later): "
        "call h5lossy.register() after the import that loads this library"
        for lib in config.libhdf5s
        if lib.registered_by == "none"
    ]
    if config.backend is not None:
        return broken
    wanted = os.environ.get("H5LOSSY_BACKEND")
    broken.append(
        f"there is no usable backend {wanted!r}: unset H5LOSSY_BACKEND, or set it to "
        f"{' or '.join(config.backends)}"
        if wanted
        else "this machine's arithmetic does not give the bits that the format needs; "
        "please report it"
    )
    return broken


def _print_devices(config: Config) -> None:
    """Print the backends and the GPUs, where chunks go, and how the two compare here."""
    print_table(
        ("backend", "usable here", "in use"),
        [
            (name, "yes" if usable else "no", "yes" if name == config.backend else "")
            for name, usable in config.backends.items()
        ],
    )
    if config.devices:
        print_table(
            ("GPU", "kernels", "problem"), [(d.name, d.kernels, d.problem) for d in config.devices]
        )
    is_usable = any(not device.problem for device in config.devices)
    say(config.device_selection)
    if is_usable and config.backend is not None:
        try:
            _compare_devices()
        except (subprocess.SubprocessError, OSError, ValueError, KeyError) as error:
            say(f"the speeds of CPU and GPU could not be compared: {one_line(error)}")


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
        say(f"for h5repack, h5dump and the like: {SET_PLUGIN_PATH}")


def _try_filter(codec: Codec) -> tuple[float | None, str, str]:
    """Write and read a small dataset, in memory; return the ratio, what to say, and the problem."""
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
        return None, "", f"writing and reading with {codec!r} fails: {one_line(error)}"
    text = (
        f"tried {codec!r}: {summary.count} values within {error_text(summary)} of the bound, "
        f"NaN kept, ratio {ratio:.1f}"
    )
    problems = "; ".join(summary.problems)
    violated = f"{codec!r} violates its bound: {problems}; please report it"
    return ratio, text, "" if summary.holds else violated

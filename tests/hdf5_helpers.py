# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Helpers shared by the tests of the filter: data, datasets, other processes, HDF5's programs."""

from __future__ import annotations

import ctypes
import inspect
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest
from click.testing import CliRunner
from h5py import h5d, h5p, h5s, h5t, h5z
from h5py._hl.dataset import make_new_dset

import h5lossy
from h5lossy import FILTER_ID, BoundKind, _native
from h5lossy._cli import main

if TYPE_CHECKING:
    from collections.abc import Iterable

    from click.testing import Result

    from h5lossy._codecs import Codec

#: For `create_dataset`: HDF5 writes no fill values. h5py before 3.9 has no such argument.
FILL_NEVER: dict[str, Any] = (
    {"fill_time": "never"} if "fill_time" in inspect.signature(make_new_dset).parameters else {}
)

#: Long enough for a busy machine; a process that takes longer is reported as hanging.
PROCESS_SECONDS = 120

#: Python without the current folder in its path: in the source tree, that folder contains a package
#: without a library.
PYTHON = (sys.executable, "-P")

MAGIC = b"H5LY"

BYTES_TYPE_CODE = 1
"""The value size in a frame whose encoder was not told the type."""


# ------------------------------------------------------------------------------------------------
# Data
# ------------------------------------------------------------------------------------------------


def field(shape: tuple[int, ...], dtype: Any = "f4", *, seed: int = 0) -> np.ndarray[Any, Any]:
    """Make smooth data with a little noise, from about 250 to 350, that no chunk shape divides."""
    rng = np.random.default_rng(seed)
    at = np.linspace(0, 9, math.prod(shape))
    values = 300 + 40 * np.sin(at) + 5 * np.cos(17 * at) + rng.normal(0, 0.05, at.shape)
    return values.reshape(shape).astype(dtype)


def padded(values: np.ndarray[Any, Any], shape: tuple[int, ...], fill: Any) -> Any:
    """Return values as HDF5 passes a chunk at the edge of a dataset to a filter."""
    whole = np.full(shape, fill, values.dtype)
    whole[tuple(map(slice, values.shape))] = values
    return whole


def bound_of(codec: Codec) -> dict[str, Any]:
    """Return a codec's bound as `checks` takes it."""
    return {name: value for name, value in codec.get_config().items() if name in [*BoundKind]}


# ------------------------------------------------------------------------------------------------
# Datasets, at the level below h5py's own
# ------------------------------------------------------------------------------------------------


def filters(dataset: h5py.Dataset) -> list[tuple[int, int, tuple[int, ...], bytes]]:
    """Return (number, flags, cd_values, name) of each filter, as the file has them."""
    creation = dataset.id.get_create_plist()
    return [creation.get_filter(i) for i in range(creation.get_nfilters())]


def cd_values(dataset: h5py.Dataset) -> tuple[int, ...]:
    """Return the stored cd_values of h5lossy."""
    [words] = [words for number, _, words, _ in filters(dataset) if number == FILTER_ID]
    return tuple(int(word) for word in words)


def frames(dataset: h5py.Dataset) -> dict[tuple[int, ...], bytes]:
    """Return the bytes of each stored chunk by its place; fail if one was not filtered."""
    found = {}
    for chunk in stored_chunks(dataset):
        mask, frame = dataset.id.read_direct_chunk(chunk.chunk_offset)
        assert mask == 0, f"chunk {chunk.chunk_offset} went around a filter (mask {mask})"
        found[tuple(map(int, chunk.chunk_offset))] = bytes(frame)
    return found


def codecs_in(path: Path) -> dict[str, Codec]:
    """Return the codec of each dataset of a file that h5lossy compressed, by its path."""
    found: dict[str, Codec] = {}
    with h5py.File(path) as file:

        def look(name: str, obj: Any) -> None:
            if isinstance(obj, h5py.Dataset) and (info := h5lossy.describe(obj)):
                found[f"/{name}"] = info.config

        file.visititems(look)
    return found


def stored_chunks(dataset: h5py.Dataset) -> list[Any]:
    """Return what HDF5 says about each stored chunk."""
    return [dataset.id.get_chunk_info(i) for i in range(dataset.id.get_num_chunks())]


def creation_list(
    chunks: tuple[int, ...],
    words: Iterable[int],
    *,
    flags: int = h5z.FLAG_OPTIONAL,
    fill: np.ndarray[Any, Any] | None = None,
) -> h5p.PropDCID:
    """Make a dataset creation property list with our filter."""
    creation = h5p.create(h5p.DATASET_CREATE)
    creation.set_chunk(chunks)
    if fill is not None:
        creation.set_fill_value(fill)
    creation.set_filter(FILTER_ID, flags, tuple(words))
    return creation


def leave_partial_chunks_unfiltered(creation: h5p.PropDCID) -> None:
    """Call ``H5Pset_chunk_opts``, which h5py does not wrap."""
    libhdf5 = ctypes.CDLL(h5lossy.get_config().libhdf5s[0].path)
    assert libhdf5.H5Pset_chunk_opts(ctypes.c_int64(creation.id), ctypes.c_uint(2)) >= 0


def create(
    file: h5py.File,
    name: str,
    shape: tuple[int, ...],
    type_id: h5t.TypeID | Any,
    creation: h5p.PropDCID,
    *,
    maxshape: tuple[int | None, ...] | None = None,
) -> h5py.Dataset:
    """Create a dataset from a creation list, and any HDF5 or NumPy type."""
    if not isinstance(type_id, h5t.TypeID):
        type_id = h5t.py_create(np.dtype(type_id), logical=True)
    most = tuple(h5s.UNLIMITED if n is None else n for n in maxshape or shape)
    space = h5s.create_simple(shape, most)
    return h5py.Dataset(h5d.create(file.id, name.encode(), type_id, space, creation))


def edit_cd_values(path: Path, words: dict[int, int] | None = None, *, count: int = 16) -> None:
    """Change stored cd_values of dataset "x" in the file itself, or cut them off.

    The file must be of the oldest format, whose object headers have no checksums.
    """
    with h5py.File(path) as file:
        [(_, _, stored, name)] = filters(file["x"])
    old = np.array(stored, "<u4").tobytes()
    content = path.read_bytes()
    assert content.count(old) == 1
    place = content.index(old)
    # In front: filter number, size of the name, flags, number of cd_values; and the name, with NULs
    # to a multiple of 8 bytes.
    name_size = len(name) // 8 * 8 + 8
    count_at = place - name_size - 2
    assert content[count_at:place].startswith(b"\x10\0" + name)
    new = np.array([(words or {}).get(i, word) for i, word in enumerate(stored)], "<u4").tobytes()
    path.write_bytes(
        content[:count_at]
        + count.to_bytes(2, "little")
        + content[count_at + 2 : place]
        + new
        + content[place + len(new) :]
    )


# ------------------------------------------------------------------------------------------------
# The filter itself, as HDF5 has it
# ------------------------------------------------------------------------------------------------

_FILTER = ctypes.CFUNCTYPE(
    ctypes.c_size_t,
    ctypes.c_uint,
    ctypes.c_size_t,
    ctypes.POINTER(ctypes.c_uint),
    ctypes.c_size_t,
    ctypes.POINTER(ctypes.c_size_t),
    ctypes.POINTER(ctypes.c_void_p),
)
_ASK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


class FilterClass(ctypes.Structure):
    """``H5Z_class2_t``."""

    _fields_ = (
        ("version", ctypes.c_int),
        ("id", ctypes.c_int),
        ("encoder_present", ctypes.c_uint),
        ("decoder_present", ctypes.c_uint),
        ("name", ctypes.c_char_p),
        ("can_apply", _ASK),
        ("set_local", _ASK),
        ("filter", _FILTER),
    )


def filter_class() -> FilterClass:
    """Return the filter class that the plugin gives to HDF5."""
    return FilterClass.from_address(_native.plugin_info())


_libc = ctypes.CDLL(None)
_libc.malloc.restype = ctypes.c_void_p
_libc.malloc.argtypes = (ctypes.c_size_t,)
_libc.free.argtypes = (ctypes.c_void_p,)


def call_filter(words: Iterable[int], data: bytes, *, reverse: bool = False) -> bytes | None:
    """Call the filter as HDF5 does, with a buffer from malloc; None if it fails."""
    values = tuple(words)
    count = len(values)
    buffer = ctypes.c_void_p(_libc.malloc(max(1, len(data))))
    assert buffer.value
    ctypes.memmove(buffer.value, data, len(data))
    capacity = ctypes.c_size_t(len(data))
    before = buffer.value
    try:
        written = filter_class().filter(
            0x100 if reverse else 0,
            count,
            (ctypes.c_uint * max(1, count))(*values),
            len(data),
            ctypes.byref(capacity),
            ctypes.byref(buffer),
        )
        if written == 0:
            assert (buffer.value, capacity.value) == (before, len(data)), "a failure touched these"
            return None
        assert capacity.value >= written
        assert buffer.value
        return ctypes.string_at(buffer.value, written)
    finally:
        _libc.free(buffer)


# ------------------------------------------------------------------------------------------------
# Other processes
# ------------------------------------------------------------------------------------------------


def environment(**changes: str | None) -> dict[str, str]:
    """Return the environment with changes, without variables that affect the search for plugins."""
    ours = {name: v for name, v in os.environ.items() if not name.startswith("HDF5_")}
    ours["LC_ALL"] = "C.UTF-8"
    for name, value in changes.items():
        ours.pop(name, None)
        if value is not None:
            ours[name] = value
    return ours


def with_plugin() -> dict[str, str]:
    """Return an environment in which HDF5's programs find the plugin."""
    return environment(HDF5_PLUGIN_PATH=h5lossy.PLUGIN_PATH)


def run(
    *command: str | Path,
    env: dict[str, str] | None = None,
    cwd: Path | None = None,
    status: int | None = 0,
    text: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; fail unless its exit status is `status` (None: any, no signal)."""
    done = subprocess.run(
        [str(part) for part in command],
        env=environment() if env is None else env,
        cwd=cwd,
        input=text,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=PROCESS_SECONDS,
        check=False,
    )
    said = f"{command}\n-- stdout --\n{done.stdout}\n-- stderr --\n{done.stderr}"
    assert done.returncode >= 0, f"killed by signal {-done.returncode}: {said}"
    assert status is None or done.returncode == status, f"status {done.returncode}: {said}"
    return done


def run_python(
    code: str,
    *arguments: str | Path,
    env: dict[str, str] | None = None,
    cwd: Path | None = None,
    status: int | None = 0,
) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process of its own."""
    return run(*PYTHON, "-c", code, *arguments, env=env, cwd=cwd, status=status)


def h5lossy_command(*arguments: Any, status: int | None = 0) -> Result:
    """Run the command line in this process; fail unless it returns `status` (None: any)."""
    said = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert status is None or said.exit_code == status, said.output + repr(said.exception)
    return said


def cd_values_printed(*options: str) -> dict[str, list[str]]:
    """Return the lines that ``h5lossy cd-values`` prints for each tool or language."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in h5lossy_command("cd-values", *options).output.splitlines():
        name = line[:10].strip() or name
        found.setdefault(name, []).append(line[10:])
    return found


def h5lossy_program(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own, where that matters: it takes half a second."""
    return run(*command_line(*arguments), **options)


def command_line(*arguments: str | Path) -> list[str]:
    """Return the command that runs ``h5lossy ARGUMENTS`` with this copy of the package."""
    start = "from h5lossy._cli import main; main(prog_name='h5lossy')"
    return [*PYTHON, "-c", start, *map(str, arguments)]


def on_terminal(columns: int, *arguments: Any) -> str:
    """Return what ``h5lossy ARGUMENTS`` prints on a terminal, without colours, or skip."""
    if not Path("/usr/bin/script").exists():
        pytest.skip("script, which makes a terminal, is not installed (Debian: bsdutils)")
    ours = f"stty cols {columns}; {shlex.join(command_line(*arguments))}"
    said = run("script", "-qec", ours, "/dev/null", env=environment(TERM="xterm", COLUMNS=None))
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said.stdout)


def message_without_plugin(program: str) -> str:
    """Return the message of a program, from the row of docs/errors.md that names it."""
    page = (Path(__file__).parents[1] / "docs" / "errors.md").read_text("utf-8")
    section = page.partition("## Reading without the plugin")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| [^|`]*`([^`]+)`", section, re.MULTILINE)
    [message] = [message for programs, message in rows if program in programs.split(", ")]
    return str(message)


def tool(name: str) -> str:
    """Return the path of a program, or skip."""
    path = shutil.which(name)
    if path is None:
        packages = {"h5": "hdf5-tools", "nc": "netcdf-bin", "nm": "binutils", "cd": "cdo"}
        others = {"ncks": "nco", "ncra": "nco", "h5cc": "libhdf5-dev", "h5fc": "libhdf5-dev"}
        others |= {"nc-config": "libnetcdf-dev", "nf-config": "libnetcdff-dev", "cc": "gcc"}
        others |= {name: name for name in ("gfortran", "pkg-config", "cmake", "ninja")}
        others["ctest"] = "cmake"
        package = others.get(name) or packages[name[:2]]
        pytest.skip(f"{name} is not installed (Debian: {package})")
    return path

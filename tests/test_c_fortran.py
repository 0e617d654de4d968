# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Programs in C and Fortran: the examples, and the lines that ``h5lossy cd-values`` prints."""

from __future__ import annotations

import os
import re
import struct
import textwrap
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest

import h5lossy
from hdf5_helpers import (
    cd_values,
    cd_values_printed,
    environment,
    h5lossy_command,
    run,
    tool,
    with_plugin,
)

FOLDER = Path(__file__).parents[1] / "examples" / "c_fortran"

#: What each program needs, the file and the variable that it writes, and its model.
PROGRAMS = {
    "hdf5.c": (("h5cc",), "a.h5", "t", None),
    "netcdf.c": (("cc", "pkg-config", "nc-config"), "a.nc", "tas", "NETCDF4_CLASSIC"),
    "hdf5.f90": (("gfortran", "h5fc"), "a.h5", "t", None),
    "netcdf.f90": (("gfortran", "nf-config"), "a.nc", "tas", "NETCDF4_CLASSIC"),
}


def test_every_program_is_tested() -> None:
    names = {path.name for path in FOLDER.iterdir()} - {"CMakeLists.txt"}
    assert names == {*PROGRAMS}


def check_program(program: Path, name: str, folder: Path) -> None:
    """Run a program, and check what it wrote; without the plugin, it reports what is missing."""
    _, file_name, variable, model = PROGRAMS[name]
    said = run(program, file_name, cwd=folder, env=with_plugin()).stdout
    assert re.search(r"largest error +0?\.000\d+", said)
    with h5py.File(folder / file_name) as file:
        described = h5lossy.describe(file[variable])
        assert described.config == h5lossy.PFPL(absolute=1e-3)
        assert described.fill_value in {-999, np.float32(1e20)}
        assert described.chunks_unfiltered == 0
        assert described.ratio > 2
    if model:
        with netCDF4.Dataset(folder / file_name) as file:
            assert file.data_model == model
            assert file[variable][0].mask.sum() == (20 if "f90" not in name else 19) * (
                50 if "f90" not in name else 49
            )
    said = run(program, "b", cwd=folder, status=1).stderr
    assert "HDF5_PLUGIN_PATH=$(h5lossy plugin-path)" in said or "undefined filter" in said


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_line_in_the_example_builds_it(name: str, tmp_path: Path) -> None:
    for needed in PROGRAMS[name][0]:
        tool(needed)
    source = (FOLDER / name).read_text()
    build, start = re.findall(r"^(?://|!)   (.+)$", source, re.MULTILINE)
    (tmp_path / name).write_text(source)

    run("sh", "-e", "-c", build, cwd=tmp_path)

    program = re.search(r" (\./\w+) ", start)
    check_program(tmp_path / program[1], name, tmp_path)


@pytest.mark.slow
def test_cmake_builds_all_examples(tmp_path: Path) -> None:
    for needed in ("cmake", "ninja", "gfortran", "h5fc", "pkg-config", "nf-config"):
        tool(needed)
    build = tmp_path / "build"
    run(tool("cmake"), "-S", FOLDER, "-B", build, "-G", "Ninja")
    run(tool("cmake"), "--build", build)
    for name in PROGRAMS:
        (tmp_path / name).mkdir()
        program = name.replace(".c", "_c").replace(".f90", "_fortran")
        check_program(build / program, name, tmp_path / name)


# ------------------------------------------------------------------------------------------------
# The page
# ------------------------------------------------------------------------------------------------

PAGE = (FOLDER.parents[1] / "docs" / "howto" / "c-fortran.md").read_text("utf-8")

C_API_PROGRAM = """
#include "h5lossy.h"
#include <stdio.h>

int main(void) {
  puts(h5l_codec_name(H5L_CODEC_PFPL));
  return 0;
}
"""


def blocks(language: str) -> list[str]:
    """Return the page's blocks of code in a language, without their indentation."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```$", PAGE, re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(code) for _, code in found]


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """Return an environment with the command h5lossy, and a folder laid out as installed."""
    root = tmp_path / "installed"
    for folder in ("plugins", "bin"):
        (root / folder).mkdir(parents=True)
    (root / "include").symlink_to(FOLDER.parents[1] / "native" / "include")
    library = root / "plugins" / "libh5lossy.so"
    library.symlink_to(Path(h5lossy.PLUGIN_PATH) / library.name)
    script = root / "bin" / "h5lossy"
    script.write_text(f"#!/bin/sh\necho '{root}/plugins'\n")
    script.chmod(0o755)
    return environment(PATH=f"{script.parent}:{os.environ['PATH']}")


def test_the_pages_cmake_links_the_c_api(tmp_path: Path, installed: dict[str, str]) -> None:
    for needed in ("cmake", "ninja", "cc"):
        tool(needed)
    tests, library = blocks("cmake")
    (tmp_path / "my_program.c").write_text(C_API_PROGRAM)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(my_program LANGUAGES C)\nenable_testing()\n"
        "add_executable(my_program my_program.c)\n"
        "add_test(NAME my_test COMMAND my_program)\n" + tests + library
    )
    run(tool("cmake"), "-S", tmp_path, "-B", tmp_path / "build", "-G", "Ninja", env=installed)
    run(tool("cmake"), "--build", tmp_path / "build")
    assert run(tmp_path / "build" / "my_program").stdout == "pfpl\n"
    assert "100% tests passed" in run(tool("ctest"), "--test-dir", tmp_path / "build").stdout
    set_for_tests = (tmp_path / "build" / "CTestTestfile.cmake").read_text()
    assert f"HDF5_PLUGIN_PATH={tmp_path}/installed/plugins" in set_for_tests


def test_the_pages_compiler_line_links_the_c_api(tmp_path: Path, installed: dict[str, str]) -> None:
    tool("cc")
    (tmp_path / "program.c").write_text(C_API_PROGRAM)
    run("sh", "-e", "-c", blocks("sh")[-1], cwd=tmp_path, env=installed)
    assert run(tmp_path / "program").stdout == "pfpl\n"


def test_the_pages_words_are_those_of_cd_values() -> None:
    for language, page_name in (("C", "c"), ("Fortran", "fortran")):
        declared = cd_values_printed("--absolute", "1e-3")[language][0]
        assert declared in "".join(blocks(page_name))


# ------------------------------------------------------------------------------------------------
# cd-values
# ------------------------------------------------------------------------------------------------

#: Prints and uses the lines; chunks of 16 x 64 in C order, with fill value -999.
C_PROGRAM = """
#include <hdf5.h>

static float values[64 * 256];

int main(int count, char** arguments) {
  const hsize_t extents[] = {64, 256}, chunk[] = {16, 64};
  const float fill = -999;
  const hid_t file = H5Fcreate(arguments[count - 1], H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t space = H5Screate_simple(2, extents, NULL), dcpl = H5Pcreate(H5P_DATASET_CREATE);
  for (int i = 0; i < 64 * 256; ++i) values[i] = i < 5000 ? fill : (float)(i % 1000) * 0.37f;
  H5Pset_chunk(dcpl, 2, chunk);
  H5Pset_fill_value(dcpl, H5T_NATIVE_FLOAT, &fill);
LINES
  const hid_t x = H5Dcreate2(file, "x", H5T_IEEE_F32LE, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
  if (H5Dwrite(x, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0) return 1;
  return H5Dclose(x) < 0 || H5Pclose(dcpl) < 0 || H5Sclose(space) < 0 || H5Fclose(file) < 0;
}
"""

FORTRAN_PROGRAM = """
program write_x
  use hdf5
  implicit none
  integer(hsize_t), parameter :: extents(2) = [256, 64], chunk(2) = [64, 16]
DECLARED
  real :: values(256 * 64)
  integer(hid_t) :: file, space, dcpl, x
  integer :: i, hdferr
  character(len=4096) :: path

  call get_command_argument(1, path)
  values = [(merge(-999.0, mod(i, 1000) * 0.37, i < 5000), i = 0, size(values) - 1)]
  call h5open_f(hdferr)
  call h5fcreate_f(trim(path), H5F_ACC_TRUNC_F, file, hdferr)
  call h5screate_simple_f(2, extents, space, hdferr)
  call h5pcreate_f(H5P_DATASET_CREATE_F, dcpl, hdferr)
  call h5pset_chunk_f(dcpl, 2, chunk, hdferr)
  call h5pset_fill_value_f(dcpl, H5T_NATIVE_REAL, -999.0, hdferr)
LINES
  if (hdferr < 0) stop 2
  call h5dcreate_f(file, "x", H5T_IEEE_F32LE, space, x, hdferr, dcpl)
  if (hdferr < 0) stop 3
  call h5dwrite_f(x, H5T_NATIVE_REAL, values, extents, hdferr)
  if (hdferr < 0) stop 4
  call h5dclose_f(x, hdferr)
  call h5fclose_f(file, hdferr)
  if (hdferr < 0) stop 5
end program write_x
"""

#: A bound whose lower word is the one number that Fortran can't write.
AWKWARD = struct.unpack("<d", struct.pack("<II", 0x80000000, 0x3F500000))[0]

COMPLETE = ("--dtype", "f4", "--chunks", "16x64", "--fill-value", "-999")


def c_program(folder: Path, options: list[str], *, static: bool) -> Path:
    lines = [line for line in cd_values_printed(*options)["C"] if not line.startswith("nc_")]
    (folder / "x.c").write_text(C_PROGRAM.replace("LINES", "\n".join(lines)))
    run(tool("h5cc"), *([] if static else ["-shlib"]), "-o", "program", "x.c", cwd=folder)
    return folder / "program"


def fortran_program(folder: Path, options: list[str], *, static: bool) -> Path:
    tool("gfortran")
    lines = [line for line in cd_values_printed(*options)["Fortran"] if "nf90_" not in line]
    source = FORTRAN_PROGRAM.replace("DECLARED", "\n".join(lines[:-1])).replace("LINES", lines[-1])
    assert max(map(len, source.splitlines())) <= 132
    (folder / "x.f90").write_text(source)
    run(tool("h5fc"), *([] if static else ["-shlib"]), "-o", "program", "x.f90", cwd=folder)
    return folder / "program"


MAKERS = {"C": c_program, "Fortran": fortran_program}


def compressed_by(program: Path, folder: Path) -> tuple[h5lossy.DatasetInfo, tuple[int, ...], Any]:
    """Run a program, and return the settings, the cd_values and the values that it wrote."""
    said = run(program, folder / "x.h5", env=with_plugin())
    assert said.stderr == ""
    with h5py.File(folder / "x.h5") as file:
        described = h5lossy.describe(file["x"])
        assert described is not None
        return described, cd_values(file["x"]), file["x"][...].reshape(-1)


@pytest.mark.parametrize(
    ("static", "complete"),
    # Without all words, a program with a static HDF5 stores chunks, and says so: test_static_hdf5.
    [(False, False), (False, True), (True, True)],
    ids=["shared, requested", "shared, complete", "static, complete"],
)
@pytest.mark.parametrize("language", MAKERS)
def test_printed_lines_compress(
    language: str, tmp_path: Path, *, static: bool, complete: bool
) -> None:
    options = ["--absolute", repr(AWKWARD), *(COMPLETE if complete else ())]
    program = MAKERS[language](tmp_path, options, static=static)
    linked = run("ldd", program).stdout
    if static and "libhdf5" in linked:
        pytest.skip("HDF5's compiler script links the shared library here")
    assert static or "libhdf5" in linked
    described, words, values = compressed_by(program, tmp_path)

    assert described.config == h5lossy.PFPL(absolute=AWKWARD)
    assert described.chunks_unfiltered == 0
    assert described.ratio > 1.5
    assert len(words) == 16
    expected = (np.arange(64 * 256) % 1000).astype("f4") * np.float32(0.37)
    is_fill = np.arange(64 * 256) < 5000
    assert ((values == -999) == is_fill).all()
    assert np.abs(values.astype("f8") - expected)[~is_fill].max() <= AWKWARD


@pytest.mark.parametrize("fill", [None, -999.0, 0.0])
@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", ">f8"])
@pytest.mark.parametrize("chunks", [(5,), (1, 64, 1, 256), (2, 1, 2, 2, 2, 2, 2, 2, 2, 2)], ids=str)
def test_all_words_are_those_that_the_filter_stores(
    tmp_path: Path, chunks: tuple[int, ...], dtype: str, fill: float | None
) -> None:
    options = ["--digits", "3", "--codec", "interp", "--axes", "-2,-1", "--no-checksum"]
    options += ["--dtype", dtype, "--chunks", "x".join(map(str, chunks))]
    options += [] if fill is None else ["--fill-value", repr(fill)]
    h5repack, _ = cd_values_printed(*options)["h5repack"]
    number, flag, count, *words = map(int, re.findall(r"\d+", h5repack.partition("UD=")[2])[:19])

    codec = h5lossy.Interp(significant_digits=3, axes=(-2, -1), checksum=False)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        x = file.create_dataset("x", chunks, dtype, chunks=chunks, fillvalue=fill, **codec)
        assert tuple(words) == cd_values(x)
    assert (number, flag, count) == (46412, 0, 16)


@pytest.mark.parametrize(("dtype", "bound"), [("f4", 0.01), ("uint16", 3)])
def test_h5repack_takes_all_words(tmp_path: Path, dtype: str, bound: float) -> None:
    x = np.arange(64 * 256, dtype=dtype).reshape(64, 256)
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file["x"] = x
    options = ("--absolute", str(bound), "--dtype", dtype, "--chunks", "64x256")
    command, check = cd_values_printed(*options)["h5repack"]
    tool("h5repack")
    run("sh", "-c", command, cwd=tmp_path, env=with_plugin())
    assert check.startswith("h5lossy info out.h5")
    with h5py.File(tmp_path / "out.h5") as file:
        assert h5lossy.describe(file["x"]).config == h5lossy.PFPL(absolute=bound)
        assert h5lossy.largest_error(x, file["x"], h5lossy.ErrorBound("absolute", bound)).holds


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--dtype", "f4"], "both of --dtype and --chunks"),
        (["--chunks", "4x4"], "both of --dtype and --chunks"),
        (["--fill-value", "3"], "goes with --dtype and --chunks"),
        (["--dtype", "f4", "--chunks", "auto"], "takes extents such as 64x256, got 'auto'"),
        (["--dtype", "f4", "--chunks", "4x"], "takes extents such as 64x256, got '4x'"),
        (["--dtype", "c4", "--chunks", "4"], "'c4' is not one of 'float16', 'f2'"),
        (["--dtype", "f4", "--chunks", "65536x65536"], "more than 4294967255 bytes"),
        (["--var", "a,b"], "cannot take 'a,b'"),
        (["--dtype", "f4", "--chunks", "99999999999"], "more than 4294967255 bytes"),
        (["--dtype", "f4", "--chunks", "4", "--fill-value", "1e40"], "a float32 value, got 1e+40"),
    ],
    ids=str,
)
def test_wrong_types_and_chunks_are_wrong_usage(options: list[str], message: str) -> None:
    said = h5lossy_command("cd-values", "--lossless", *options, status=2)
    assert message in said.stderr
    assert said.stdout == ""

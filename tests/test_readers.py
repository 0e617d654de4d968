# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The code in docs/howto/other-programs.md, run by those programs: they read what h5py reads."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import pytest

from checks import assert_kept, assert_same_bits
from h5lossy import PFPL, Interp
from hdf5_helpers import (
    bound_of,
    cd_values,
    environment,
    field,
    frames,
    message_without_plugin,
    run,
    with_plugin,
)

PAGE = (Path(__file__).parents[1] / "docs" / "howto" / "other-programs.md").read_text("utf-8")

FILL = -999

#: What the script in R makes of missing values.
MISSING = 12345.0


class Reader(NamedTuple):
    """How a program runs the lines of a section of the page."""

    section: str
    package: str
    #: Ends with an error where something is not installed.
    installed: str
    command: tuple[str, ...]
    #: For each variable: the page's lines, and what writes its values as doubles to NAME.bin.
    lines: str
    #: What is around all of them.
    script: str = "LINES"
    #: Whether it knows which values are missing.
    masks: bool = False


R = ("Rscript", "--vanilla", "script")
WRITE_IN_R = 'writeBin(as.double(NAME), "NAME.bin")'
JAR = "/usr/share/java/sis-jhdf5.jar"
WITH_VTK = """\
from vtkmodules.util.numpy_support import vtk_to_numpy
LINES
"""
WRITE_WITH_VTK = 'vtk_to_numpy(NAME).astype("f8").tofile("NAME.bin")'

#: By the name in the table of messages.
READERS = {
    "R (hdf5r)": Reader(
        "hdf5r", "r-cran-hdf5r", "Rscript -e 'library(hdf5r)'", R, f"LINES\n{WRITE_IN_R}"
    ),
    "R (ncdf4)": Reader(
        "ncdf4",
        "r-cran-ncdf4",
        "Rscript -e 'library(ncdf4)'",
        R,
        f"LINES\nNAME[is.na(NAME) & !is.nan(NAME)] <- {MISSING}\n{WRITE_IN_R}",
        masks=True,
    ),
    "R (rhdf5)": Reader(
        "rhdf5", "r-bioc-rhdf5", "Rscript -e 'library(rhdf5)'", R, f"LINES\n{WRITE_IN_R}"
    ),
    "Octave": Reader(
        "Octave",
        "octave",
        "command -v octave-cli",
        ("octave-cli", "--norc", "script"),
        'LINES\nout = fopen("NAME.bin", "w"); fwrite(out, NAME, "double"); fclose(out);',
    ),
    "Java (JHDF5)": Reader(
        "Java",
        "libsis-jhdf5-java, default-jdk-headless",
        f"command -v javac && ls {JAR}",
        ("java", "-cp", JAR, "--source", "11", "script"),
        """{
            LINES
            var bytes = ByteBuffer.allocate(8 * NAME.size()).order(ByteOrder.nativeOrder());
            bytes.asDoubleBuffer().put(NAME.getAsFlatArray());
            Files.write(Path.of("NAME.bin"), bytes.array());
        }""",
        """
        import ch.systemsx.cisd.hdf5.HDF5Factory;
        import java.nio.*;
        import java.nio.file.*;
        class Script {
            public static void main(String[] arguments) throws Exception {
                LINES
            }
        }
        """,
    ),
    "GDL": Reader(
        "GDL",
        "gnudatalanguage",
        "command -v gdl",
        ("gdl", "-quiet", "script"),
        'LINES\nopenw, 1, "NAME.bin"\nwriteu, 1, double(NAME)\nclose, 1',
        "LINES\nexit\n",
    ),
    "VTK": Reader(
        "VTK and ParaView",
        "python3-vtk9",
        f"{sys.executable} -P -c 'import vtkmodules'",
        (sys.executable, "-P", "script"),
        f"LINES\n{WRITE_WITH_VTK}",
        WITH_VTK,
    ),
    "ParaView": Reader(
        "VTK and ParaView",
        "python3-paraview",
        "command -v pvpython",
        # With the packages of its own Python.
        ("env", "-u", "PYTHONPATH", "pvpython", "script"),
        f"LINES\n{WRITE_WITH_VTK}",
        WITH_VTK,
    ),
}


def shown(section: str) -> list[str]:
    """Return the blocks of code in a section of the page."""
    text = re.split(r"\n##+ ", PAGE.partition(f"# {section}\n")[2])[0]
    return re.findall(r"^```\w+\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def require(reader: Reader) -> None:
    if run("sh", "-c", reader.installed, status=None).returncode != 0:
        pytest.skip(f"{reader.section} is not installed (Debian: {reader.package})")


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Write a netCDF-4 file with partial chunks; return what h5py reads from it."""
    t = field((50, 70))
    t[3:5, 60:] = FILL
    u = field((50, 70), "f8", seed=1)
    u[7, :9] = np.nan
    with h5py.File(tmp_path / "run.nc", "w") as file:
        for axis, size in (("lat", 50), ("lon", 70)):
            file[axis] = np.arange(size, dtype="f8")
            file[axis].make_scale(axis)
        for name, values, codec, fill in (
            ("pfpl_f4", t, PFPL(absolute=1e-3), FILL),
            ("interp_f4", t, Interp(absolute=1e-3), FILL),
            ("pfpl_f8", u, PFPL(pointwise_relative=1e-4), None),
            ("interp_f8", u, Interp(absolute=1e-3), None),
            ("pfpl_i4", t.astype("i4"), PFPL(absolute=3), FILL),
            ("interp_i2", t.astype("i2"), Interp(lossless=True), FILL),
        ):
            options = {"chunks": (32, 32), "compression": codec, "fillvalue": fill}
            dataset = file.create_dataset(name, data=values, **options)
            dataset.dims[0].attach_scale(file["lat"])
            dataset.dims[1].attach_scale(file["lon"])
            if fill is not None:
                dataset.attrs["_FillValue"] = np.array([fill], values.dtype)
        return {name: file[name][...] for name in file if "_" in name}


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_values_are_those_of_h5py(
    tmp_path: Path, variables: dict[str, np.ndarray[Any, Any]], name: str
) -> None:
    reader = READERS[name]
    require(reader)
    lines = "\n".join(
        reader.lines.replace("LINES", shown(reader.section)[0])
        .replace("temperature", variable)
        .replace("NAME", variable)
        for variable in variables
    )
    (tmp_path / "script").write_text(reader.script.replace("LINES", lines), encoding="utf-8")

    nowhere = environment(HDF5_PLUGIN_PATH=str(tmp_path / "nowhere"))
    said = run(*reader.command, cwd=tmp_path, env=nowhere, status=None)
    assert message_without_plugin(name) in said.stdout + said.stderr

    said = run(*reader.command, cwd=tmp_path, env=with_plugin())
    assert message_without_plugin(name) not in said.stdout + said.stderr
    for variable, values in variables.items():
        expected = values.astype("f8").ravel()
        if reader.masks:
            expected[expected == FILL] = MISSING
        assert_same_bits(np.fromfile(tmp_path / f"{variable}.bin"), expected)


def test_hdf5r_writes_what_h5py_writes(tmp_path: Path) -> None:
    require(READERS["R (hdf5r)"])
    values = field((50, 70))
    values.astype("f8").tofile(tmp_path / "values.bin")
    _, block = shown("hdf5r")
    # R has the first axis of HDF5 as its last.
    given = 'temperature <- matrix(readBin("values.bin", "double", 3500), 70, 50)'
    (tmp_path / "script").write_text(f"library(hdf5r)\n{given}\n{block}", encoding="utf-8")
    run(*R, cwd=tmp_path, env=with_plugin())

    codec = PFPL(absolute=1e-3)
    with h5py.File(tmp_path / "new.h5") as new, h5py.File(tmp_path / "own.h5", "w") as own:
        expected = own.create_dataset("x", data=values, chunks=(32, 32), compression=codec)
        written = new["temperature"]
        assert frames(written) == frames(expected)
        assert cd_values(written) == cd_values(expected)
        assert_kept(values, written[...], bound_of(codec))

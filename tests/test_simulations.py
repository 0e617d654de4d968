# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The code in docs/howto/simulations.md, with the packages that simulations use for writing."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import h5lossy
from checks import assert_kept
from h5lossy import PFPL, Interp
from hdf5_helpers import bound_of, field, frames, h5lossy_command, run, run_python, with_plugin

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "howto" / "simulations.md").read_text("utf-8")
SHAPE = (40, 100, 128)


def block(language: str, first_word: str) -> str:
    """Return the page's block of code with this beginning."""
    blocks = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    [found] = [code for code in blocks if code.startswith(first_word)]
    return found


@pytest.fixture
def values(tmp_path: Path) -> np.ndarray[Any, Any]:
    """Return the values that are written, which processes find in x.npy."""
    data = field(SHAPE)
    np.save(tmp_path / "x.npy", data)
    return data


def require(package: str) -> Path:
    """Skip where a package is missing, without importing it: it may bring an HDF5 of its own."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        pytest.skip(f"{package} is not installed")
    return Path(found.origin).parent


def test_the_json_of_the_page_is_what_the_command_prints() -> None:
    said = h5lossy_command("cd-values", "--absolute", "1e-3").output
    assert json.loads(said.partition("openPMD")[2]) == json.loads(block("json", "{"))


def test_openpmd_writes_and_reads(tmp_path: Path, values: np.ndarray[Any, Any]) -> None:
    require("openpmd_api")
    command = re.search(r"^h5lossy (cd-values .*--dtype .*)$", PAGE, re.MULTILINE)
    assert command
    words = json.loads(h5lossy_command(*command[1].split(), "--json").output)["cd_values"]
    code = f"""
import json, openpmd_api, numpy as np
x, cd_values = np.load("x.npy"), {words}
{block("python", "options")}
mesh = series.iterations[0].meshes["E"]
mesh.reset_dataset(openpmd_api.Dataset(x.dtype, x.shape))
mesh.store_chunk(x)
series.close()
series = openpmd_api.Series("run.h5", openpmd_api.Access.read_only)
y = series.iterations[0].meshes["E"].load_chunk()
series.flush()
np.save("y.npy", y)
"""
    run_python(code, cwd=tmp_path, env=with_plugin())
    assert_kept(values, np.load(tmp_path / "y.npy"), bound_of(PFPL(absolute=1e-3)))
    with h5py.File(tmp_path / "run.h5") as file:
        assert {h5lossy.inspect(f).codec for f in frames(file["data/0/meshes/E"]).values()} == {
            "pfpl"
        }


@pytest.mark.slow
def test_adios2_writes_and_reads(tmp_path: Path, values: np.ndarray[Any, Any]) -> None:
    adios2 = require("adios2")
    if shutil.which("g++") is None:
        pytest.skip("there is no g++")
    # The headers are beside the package where it is installed, and in the source otherwise.
    headers = Path(h5lossy.__file__).parent / "include"
    if not headers.is_dir():
        headers = ROOT / "native" / "include"
    build = block("sh", "h5lossy=").partition("\n")[2]
    variables = f"h5lossy={Path(h5lossy.PLUGIN_PATH).parent} ADIOS2={adios2} CPATH={headers}"
    source = ROOT / "examples" / "adios2" / "h5lossy_operator.cpp"
    run("sh", "-ec", f"export {variables}; cp {source} .; {build}", cwd=tmp_path)
    code = f"""
import os, sys, adios2 as package, numpy as np
os.environ["ADIOS2_PLUGIN_PATH"] = os.getcwd()
x, adios = np.load("x.npy"), package.Adios()
io = adios.declare_io("run")
types = ["f4", "f8", "i4"]
whole = x.shape, [0, 0, 0], x.shape, True
variable = io.define_variable("f4", x, *whole)
{block("python", "operator")}
for dtype in types[1:]:
    io.define_variable(dtype, x.astype(dtype), *whole).add_operation(operator)
engine = io.open("run.bp", package.bindings.Mode.Write)
engine.begin_step()
for dtype in types:
    engine.put(io.inquire_variable(dtype), x.astype(dtype), package.bindings.Mode.Sync)
engine.end_step()
engine.close()
with package.FileReader("run.bp") as file:
    np.savez("y.npz", **{{dtype: file.read(dtype) for dtype in types}})
for given in ({{}}, {{"absolute": "x"}}, {{"bound": "1"}}, {{"absolute": "1", "codec": "zip"}}):
    parameters = {{"PluginName": "h5lossy", "PluginLibrary": "h5lossy_operator", **given}}
    try:
        other = adios.define_operator(f"with {{given}}", "plugin", parameters)
        v = io.define_variable(f"of {{given}}", x, *whole)
        v.add_operation(other)
        io.open("bad.bp", package.bindings.Mode.Write).put(v, x, package.bindings.Mode.Sync)
    except ValueError as error:
        print(str(error).splitlines()[-1])
sys.stdout.flush()
os._exit(0)  # the last file has no end
"""
    said = run_python(code, cwd=tmp_path).stdout
    decoded = np.load(tmp_path / "y.npz")
    for dtype in ("f4", "f8"):
        assert_kept(values.astype(dtype), decoded[dtype], bound_of(PFPL(absolute=1e-3)))
    assert (decoded["i4"] == values.astype("i4")).all()
    written = sum(path.stat().st_size for path in (tmp_path / "run.bp").iterdir())
    assert written < values.nbytes * 4 / 2
    for words in ("give a bound", "absolute is a number, got x", "got bound", "got zip"):
        assert words in said


@pytest.mark.slow
def test_mdanalysis_writes_and_reads(tmp_path: Path) -> None:
    require("MDAnalysis")
    data = np.random.default_rng(1).normal(size=(200, 50, 3)).cumsum(axis=0).astype("f4")
    np.save(tmp_path / "x.npy", data)
    begin = "import warnings\nwarnings.simplefilter('ignore')\nimport numpy as np\n"
    code = f"""{begin}import MDAnalysis
universe = MDAnalysis.Universe.empty(50, trajectory=True)
universe.load_new(np.load("x.npy"), dt=1.0)
universe.trajectory.units = {{"time": "ps", "length": "Angstrom"}}
{block("python", "import h5lossy")}"""
    run_python(code, cwd=tmp_path)
    # Another process: in this one, HDF5 may have the chunks in its cache as they were given.
    code = f"""{begin}import h5lossy, MDAnalysis
universe = MDAnalysis.Universe.empty(50, trajectory=False)
universe.load_new("run.h5md")
np.save("y.npy", [step.positions.copy() for step in universe.trajectory])
"""
    run_python(code, cwd=tmp_path)
    assert_kept(data, np.load(tmp_path / "y.npy"), bound_of(Interp(absolute=1e-3)))
    with h5py.File(tmp_path / "run.h5md") as file:
        described = h5lossy.describe(file["particles/trajectory/position/value"])
        assert described.config == Interp(absolute=1e-3)

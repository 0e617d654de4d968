# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The code on pages of the documentation works, and the tests that they name exist."""

from __future__ import annotations

import os
import re
import shlex
import textwrap
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import h5lossy
from hdf5_helpers import command_line, field, h5lossy_command, run, with_plugin

TESTS = Path(__file__).parent
ROOT = TESTS.parent
PAGES = ROOT / "docs"

#: What blocks of a page need that is not here, or is not for a test: other tests run these.
ELSEWHERE = re.compile(
    r"t_on_gpu|enable_gpu|mpi4py|example\.org|references\.py|reference://|SCHEDULER"  # Python
    r"|pip install|cmake|npm|apt |openssl|g\+\+|cc program|mpiexec|H5LOSSY_DEVICE|--repair"  # sh
)

#: Axes as CF has them: units and standard name.
AXES = {
    "time": ("days since 2000-01-01", "time"),
    "lat": ("degrees_north", "latitude"),
    "lon": ("degrees_east", "longitude"),
}

#: Pages whose blocks belong together: the packages that they need, and the files they begin with.
PYTHON_PAGES = {
    "../README.md": ("", ""),
    "index.md": ("", ""),
    "howto/assess.md": (
        "matplotlib skimage xarray",
        "orig.h5 packed.h5 orig.nc packed.nc rules.toml",
    ),
    "howto/choose-a-codec.md": ("", ""),
    "howto/chunks.md": ("", ""),
    "howto/dask.md": ("dask distributed zarr", ""),
    "howto/integers.md": ("", ""),
    "howto/netcdf.md": ("netCDF4", "run.nc"),
    "howto/parallel.md": ("", "raw/1.npy raw/2.npy"),
    "howto/safeguards.md": ("", ""),
    "howto/verify.md": ("", ""),
    "howto/xarray.md": ("xarray h5netcdf dask compression_recommendations", "run.nc run_1.nc"),
    "howto/zarr.md": ("zarr xarray", ""),
}
SHELL_PAGES = {
    "../README.md": "in.h5",
    "howto/assess.md": "orig.h5 packed.h5 originals/one.h5 packed/one.h5 rules.toml",
    "howto/c-fortran.md": "",
    "howto/choose-a-codec.md": "old.h5",
    "howto/collections.md": "model/first.nc model/second.nc rules.toml",
    "howto/command-line.md": "in.h5",
    "howto/first-bounds.md": "in.h5",
    "howto/from-other-compressors.md": "old.h5",
    "howto/h5repack.md": "in.h5 in.nc",
    "howto/integers.md": "raw.nxs era.nc",
    "howto/netcdf.md": "plain.nc",
    "howto/parallel.md": "in.h5",
    "howto/safeguards.md": "in.h5",
    "howto/simulations.md": "run.h5md",
    "howto/verify.md": "packed.h5",
}


def blocks_of(page: str, language: str) -> list[str]:
    """Return the blocks of a page that can run here."""
    text = (PAGES / page).read_text(encoding="utf-8")
    found = re.findall(rf"^ *```{language}\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(block) for block in found if not ELSEWHERE.search(block)]


def write_file(path: Path, page: str) -> None:
    """Write a file with which a page begins; those of the same kind have the same values."""
    path.parent.mkdir(exist_ok=True)
    values = field((8, 128, 128)) - 200
    if path.suffix == ".toml":
        [rules] = blocks_of(page, "toml")
        path.write_text(rules)
        return
    if path.suffix == ".npy":
        np.save(path, field((1, 512, 512)))
        return
    with h5py.File(path, "w") as file:
        write_variables(file, values, page)
        if path.stem == "run_1":
            write_variables(file.create_group("forecast"), values, page)
        if path.suffix != ".nc":
            file["cloud"] = (values - values.min()) / np.ptp(values)
            file["storm_mask"] = (values > 100).astype("u1")
            if "simulations" in page:
                file["position/value"] = field((100, 5000, 3))
            if "integers" in page:
                file["entry/detector/data"] = (values * 10).astype("u4")
    if {path.stem, path.parent.name} & {"packed", "run_1"}:
        plain = path.rename(path.with_suffix(".plain"))
        h5lossy_command("repack", "--range-relative", "1e-5", plain, path)
        plain.unlink()


def write_variables(group: h5py.Group, values: np.ndarray[Any, Any], page: str) -> None:
    """Write the variables that a page names, as netCDF has them."""
    text = (PAGES / page).read_text(encoding="utf-8")
    for (name, (units, meaning)), extent in zip(AXES.items(), values.shape, strict=True):
        group[name] = np.linspace(-80, 80, extent)
        group[name].make_scale(name)
        group[name].attrs.update(units=units, standard_name=meaning)
    names = "t t2m tas pr density zg orog ocean/salt time_bnds temperature grid/area lat_bounds"
    for name in [*names.split(), "counts", "msl"]:
        if not any(re.search(rf"\b{part}\b", text) for part in re.split("/|lat", name)):
            continue
        group[name] = values.astype("i2") if name == "counts" else values
        for i, axis in enumerate(AXES):
            group[name].dims[i].attach_scale(group[axis])
        if name == "msl":
            meaning = "air_pressure_at_mean_sea_level"
            group[name].attrs.update(standard_name=meaning, units="Pa")


def named_values(page: str, folder: Path) -> dict[str, Any]:
    """Return the objects that readers of a page have themselves, by their names on the page."""
    values = field((2, 512, 512))
    counts = np.abs(values).astype("u2")
    file = h5py.File(folder / "mine.h5", "w")
    stored = {"chunks": (1, 512, 512), "compression": h5lossy.PFPL(absolute=1e-2)}
    dataset = file.create_dataset("x", values.shape, "f4", **stored)
    made: dict[str, Any] = {
        "t": values,
        "values": values,
        "dataset": dataset,
        "shape": values.shape,
        "original": values,
        "decoded": values.round(2),
        "land": values[0, :128, :128] > 300,
        "is_storm": values[0] > 300,
        "steps": [(layer[np.newaxis], layer[np.newaxis].round(3)) for layer in values],
        "f": file,
        "frames": counts,
        "counts": counts,
        "stack": counts,
        "nuclei": counts[0],
        "half": values[0].astype("f2"),
        "coils": 2,
        "kspace": values[:, :256, :256] + 1j * values[:, 256:, 256:],
        "samples": values[:, :256, :256].astype("c8"),
        "recording": np.zeros((60000, 32), "i2"),
    }
    if "dask" in page:
        da = pytest.importorskip("dask.array")
        made["array"] = da.from_array(values, (1, 512, 512))
        made |= {"original": made["array"], "decoded": made["array"] + 1e-4, "path": "run.h5"}
        made |= {"shape": (6, 9, 9), "block_shape": (6, 9, 9), "chunks": made["array"].chunks}
        made["client"] = pytest.importorskip("distributed").Client(
            processes=False, n_workers=1, dashboard_address=None
        )
        made["tasks"] = [pytest.importorskip("dask").delayed((0, "part.h5"))]
    elif "netcdf" in page:
        made["values"] = values[0]
    elif "zarr" in page:
        xarray = pytest.importorskip("xarray")
        made["ds"] = xarray.Dataset({"t": (("time", "lat", "lon"), values)})
    return made


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.filterwarnings("ignore:Consolidated metadata")  # of Zarr, where xarray writes
@pytest.mark.filterwarnings("ignore:no bound is recommended")  # as the page says
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.slow if page.endswith("assess.md") else ())
        for page in PYTHON_PAGES
    ],
)
def test_python_of_a_page_can_be_pasted_in_order(page: str, folder: Path) -> None:
    packages, files = PYTHON_PAGES[page]
    for package in packages.split():
        pytest.importorskip(package)
    for name in files.split():
        write_file(folder / name, page)
    names = named_values(page, folder)
    blocks = blocks_of(page, "python")
    assert blocks
    with names["f"]:
        for i, block in enumerate(blocks):
            exec(compile(block, f"block {i} of {page}", "exec"), names)


@pytest.mark.slow
@pytest.mark.parametrize("page", SHELL_PAGES)
def test_commands_of_a_page_can_be_pasted_in_order(page: str, folder: Path) -> None:
    for name in SHELL_PAGES[page].split():
        write_file(folder / name, page)
    programs = folder / "bin"
    programs.mkdir()
    script = programs / "h5lossy"
    script.write_text(f'#!/bin/sh\nexec {shlex.join(command_line())} "$@"\n')
    script.chmod(0o755)
    env = with_plugin()
    env["PATH"] = f"{programs}{os.pathsep}{env['PATH']}"
    blocks = blocks_of(page, "sh")
    assert blocks
    for block in blocks:
        run("bash", "-euc", block, cwd=folder, env=env)


def test_the_tutorial_can_be_pasted_block_by_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = blocks_of("tutorial.md", "python")
    assert len(blocks) >= 8
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "tutorial.md", "exec"), names)
    said = capsys.readouterr().out.split("\n")
    assert float(said[0]) <= 1e-3
    assert any(line.startswith("PFPL(absolute=") for line in said)
    assert names["mask"].sum() == 64 * 50 * 256


def test_codecs_that_pages_show_can_be_made() -> None:
    shown = [
        (page.name, expression)
        for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
        for expression in re.findall(
            r"h5lossy\.((?:PFPL|CuSZp2|AATROX|Interp|Auto)\([^()]*\))",
            page.read_text(encoding="utf-8"),
        )
        if "..." not in expression and "…" not in expression
    ]
    assert len(shown) > 30
    for page, expression in shown:
        codec = eval(expression, {name: getattr(h5lossy, name) for name in h5lossy.__all__})
        assert isinstance(codec, h5lossy.Codec), (page, expression)


@pytest.mark.parametrize("page", ["design/ecosystem.md", "design/reliability.md", "readers.md"])
def test_tests_that_a_page_names_exist(page: str) -> None:
    text = (PAGES / page).read_text(encoding="utf-8")
    named = re.findall(
        r"`((?:gpu/|native/|js/test/)?[\w.]+\.(?:py|cpp|cmake|c|js))(?:::(\w+))?`", text
    )
    assert len(named) >= 20
    missing = [
        f"{file}::{test}"
        for file, test in named
        if not ((ROOT if file.startswith("js/") else TESTS) / file).is_file()
        or (test and f"\ndef {test}(" not in (TESTS / file).read_text(encoding="utf-8"))
    ]
    assert not missing


def test_the_documentation_shows_the_comments_of_fields() -> None:
    griffe = pytest.importorskip("griffe", reason="griffe, which reads the source, is not there")
    extensions = griffe.load_extensions("dataclasses", str(ROOT / "docs" / "griffe_extension.py"))
    package = griffe.GriffeLoader(search_paths=[ROOT], extensions=extensions).load("h5lossy")
    schema = package["assessment.schema"]
    for name, text in (
        ("Errors.mse", "Mean of the squares, in the unit's square."),  # behind the field
        ("Errors.psnr", "20 log10(range of the original / RMSE), in dB."),  # of its row
        (
            "Climate.dssim_min_at",
            "The worst slice, by its place along the other axes longer than 1.",
        ),
        ("Special.missing_introduced", "From `missing_kept` on: points that hold a missing value"),
    ):
        assert schema[name].docstring.value.startswith(text)
    assert schema["Values.min"].docstring is None

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""HDF5 files of earlier releases can be read, by h5py, by h5lossy and by other programs."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import h5py
import numpy as np
import pytest

import h5lossy
from checks import assert_kept, assert_same_bits
from golden import digest, files
from golden.__main__ import add_file
from hdf5_helpers import run, run_python, tool, with_plugin
from matrix import SETTINGS
from reference import frame as reference

if TYPE_CHECKING:
    from pathlib import Path

GOLDEN = files.load()

each = pytest.mark.parametrize("golden_file", GOLDEN, ids=str)

READ_WITH_NETCDF4 = """
import hashlib, json, sys
import netCDF4
found = {}
for path in sys.argv[1:]:
    with netCDF4.Dataset(path) as file:
        file["x"].set_auto_maskandscale(False)
        values = file["x"][...]
    values = values.astype(values.dtype.newbyteorder("<"))
    found[path] = hashlib.sha256(values.tobytes()).hexdigest()
print(json.dumps(found))
"""

READ_WITH_PYTABLES = (
    READ_WITH_NETCDF4.replace("netCDF4.Dataset(", "tables.open_file(")
    .replace(
        """        file["x"].set_auto_maskandscale(False)
        values = file["x"][...]
""",
        """        values = file.root.x.read()
""",
    )
    .replace("import netCDF4", "import tables")
)


@each
def test_h5py_reads_a_file_of_the_past_as_ever(golden_file: files.GoldenFile) -> None:
    assert files.contents(golden_file.path) == {
        key: value for key, value in golden_file.holds.items() if key != "input_sha256"
    }


@each
def test_h5lossy_reads_a_file_of_the_past_as_ever(golden_file: files.GoldenFile) -> None:
    with h5py.File(golden_file.path) as file:
        values = h5lossy.read(file["x"], threads=2)
        part = h5lossy.read(file["x"], np.s_[1:3, ..., -2:] if values.ndim > 1 else np.s_[60:70])
    assert digest(files.in_little_endian(values)) == golden_file.holds["values_sha256"]
    wanted = values[1:3, ..., -2:] if values.ndim > 1 else values[60:70]
    assert_same_bits(part, np.ascontiguousarray(wanted))


@each
def test_the_reference_reads_the_chunks_of_the_past(golden_file: files.GoldenFile) -> None:
    recipe = golden_file.recipe
    with h5py.File(golden_file.path) as file:
        expected = np.full(recipe.shape, file["x"].fillvalue, recipe.dtype)
        for place, (mask, data) in files.stored(file["x"]).items():
            frame = data[:-4] if recipe.fletcher32 else data
            raw = reference.decode(frame) if mask == 0 else np.frombuffer(frame, recipe.dtype)
            inside = tuple(
                slice(first, min(first + extent, end))
                for first, extent, end in zip(place, recipe.chunks, recipe.shape, strict=True)
            )
            cut = tuple(slice(0, along.stop - along.start) for along in inside)
            expected[inside] = raw.reshape(recipe.chunks)[cut]
        assert_same_bits(file["x"][...], expected)


@each
def test_the_promise_of_the_past_was_kept(golden_file: files.GoldenFile) -> None:
    recipe = golden_file.recipe
    values = recipe.make_values()
    assert digest(values) == golden_file.holds["input_sha256"], "a piece was changed"
    with h5py.File(golden_file.path) as file:
        decoded, fill_value = file["x"][...], recipe.fill_value()
        if "range_relative" not in recipe.bound:
            assert_kept(values, decoded, recipe.bound, fill_value)
        chunks = list(file["x"].iter_chunks())
    for place in chunks:  # each has a range of its own
        assert_kept(values[place], decoded[place], recipe.bound, fill_value, maybe_padded=True)


@each
def test_the_values_of_the_past_are_written_to_the_same_chunks(
    golden_file: files.GoldenFile, tmp_path: Path
) -> None:
    golden_file.recipe.write(tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5") as new, h5py.File(golden_file.path) as old:
        assert files.stored(new["x"]) == files.stored(old["x"])


@each
def test_the_setting_of_the_past_is_understood(golden_file: files.GoldenFile) -> None:
    words = golden_file.holds["cd_values"]
    assert h5lossy.from_filter_options(h5lossy.FILTER_ID, words) == golden_file.recipe.make_codec()


@each
def test_h5dump_reads_a_file_of_the_past_as_ever(
    golden_file: files.GoldenFile, tmp_path: Path
) -> None:
    written = tmp_path / "x"
    run(
        *(tool("h5dump"), "-d", "/x", "-b", "LE", "-o", written, golden_file.path),
        env=with_plugin(),
    )
    values = np.frombuffer(written.read_bytes(), f"<f{np.dtype(golden_file.recipe.dtype).itemsize}")
    assert digest(values) == golden_file.holds["values_sha256"]


@pytest.mark.parametrize(
    ("module", "code"), [("netCDF4", READ_WITH_NETCDF4), ("tables", READ_WITH_PYTABLES)]
)
def test_other_libraries_read_the_files_of_the_past_as_ever(
    module: str, code: str, tmp_path: Path
) -> None:
    pytest.importorskip(module)
    copies = {str(shutil.copy(found.path, tmp_path)): found for found in GOLDEN}
    said = run_python(code, *copies, env=with_plugin()).stdout
    assert json.loads(said) == {
        path: found.holds["values_sha256"] for path, found in copies.items()
    }


def test_every_codec_in_every_mode_has_a_file() -> None:
    found = {
        repr(type(own.recipe.make_codec())(absolute=1, **own.recipe.settings)) for own in GOLDEN
    }
    assert {repr(make(absolute=1)) for make in SETTINGS.values()} <= found


def test_what_hdf5_has_is_spread_over_the_files() -> None:
    recipes = [found.recipe for found in GOLDEN]
    kinds = {*h5lossy.BoundKind} - {"modulus"}  # stored as the absolute bound that it becomes
    assert {next(iter(recipe.bound)) for recipe in recipes} == kinds
    assert {recipe.dtype for recipe in recipes} == {"<f4", ">f4", "<f8", ">f8", "<u2", ">i4"}
    assert {recipe.libver for recipe in recipes} == {"earliest", "v110"}
    assert {len(recipe.shape) for recipe in recipes} == {1, 2, 3, 4}
    indexes = set()
    for found in GOLDEN:
        with h5py.File(found.path) as file:
            unlimited = sum(extent is None for extent in file["x"].maxshape)
            one = file["x"].chunks >= file["x"].shape
        indexes.add("b-tree 1" if found.recipe.libver == "earliest" else (unlimited, one))
    assert indexes == {"b-tree 1", (0, False), (0, True), (1, False), (2, False)}
    assert any(found.holds["chunks_unfiltered"] for found in GOLDEN)
    assert any(recipe.written is not None for recipe in recipes)


def test_every_file_has_a_description_and_is_small() -> None:
    names = {found.path.stem for found in GOLDEN}
    assert {path.name for path in files.FOLDER.iterdir()} == {
        f"{name}.{kind}" for name in names for kind in ("h5", "json")
    }
    sizes = [path.stat().st_size for path in files.FOLDER.iterdir()]
    assert max(sizes) < 20_000
    assert sum(sizes) < 400_000


def test_a_golden_file_is_made_once_only(tmp_path: Path) -> None:
    recipe = tmp_path / "auto.json"
    [before] = [found for found in GOLDEN if str(found) == "auto"]
    recipe.write_text(before.path.with_suffix(".json").read_text(encoding="utf-8"), "utf-8")
    add_file("auto", tmp_path)
    [made] = files.load(tmp_path)
    assert (made.recipe, made.holds) == (before.recipe, before.holds)
    with pytest.raises(SystemExit, match=r"auto\.h5 exists, and what is golden is never changed"):
        add_file("auto", tmp_path)
    with pytest.raises(SystemExit, match="there is no recipe for abc"):
        add_file("abc", tmp_path)

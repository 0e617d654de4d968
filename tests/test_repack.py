# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""`h5lossy repack`: what it compresses, what it keeps, and that it leaves no incomplete file."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib
import json
import math
import os
import re
import signal
import stat
import struct
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest
from h5py import h5a, h5d, h5f, h5p, h5s, h5t, h5z

import h5lossy
from checks import assert_kept, assert_same_bits
from h5lossy import AATROX, FILTER_ID, PFPL, Auto, CuSZp2, Interp
from h5lossy._blocks import block_shape
from h5lossy._cli import _new_file
from h5lossy._verification.bound_checker import BoundChecker
from hdf5_helpers import (
    PROCESS_SECONDS,
    PYTHON,
    bound_of,
    cd_values,
    codecs_in,
    edit_cd_values,
    environment,
    field,
    filters,
    frames,
    h5lossy_command,
    run,
    run_python,
    stored_chunks,
    tool,
    with_plugin,
)
from hdf5_objects import assert_same_objects
from matrix import SETTINGS, codec_options

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

    from h5lossy._codecs import Codec

ABSOLUTE = PFPL(absolute=1e-3)


def repack(*arguments: str | Path, status: int = 0) -> Result:
    """Run the command in this process."""
    return h5lossy_command("repack", *arguments, status=status)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "a.h5"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "b.h5"


def write(path: Path, **datasets: np.ndarray[Any, Any]) -> None:
    """Write contiguous datasets; two underscores in a name stand for a slash."""
    with h5py.File(path, "w") as file:
        for name, values in datasets.items():
            file[name.replace("__", "/")] = values


# ------------------------------------------------------------------------------------------------
# What it compresses
# ------------------------------------------------------------------------------------------------


def test_every_value_is_within_the_bound(
    source: Path, target: Path, bound: dict[str, Any], dtype: np.dtype[Any]
) -> None:
    data = field((70, 90), dtype)
    data[::5, ::7] = -999
    data[1, 1:4] = np.nan, np.inf, -np.inf
    with h5py.File(source, "w") as file:
        file.create_dataset("x", data=data, chunks=(32, 32), fillvalue=-999.0, compression="gzip")
    [(kind, value)] = bound.items()
    option = f"--{kind.replace('_', '-')}"

    said = repack(source, target, option, *([] if kind == "lossless" else [value])).output

    with h5py.File(target) as file:
        decoded = file["x"][...]
        assert file["x"].dtype == dtype
        assert file["x"].chunks == (32, 32)
        assert [number for number, *_ in filters(file["x"])] == [FILTER_ID]
        assert len(frames(file["x"])) == 9
    assert_kept(data, decoded, bound, dtype.type(-999))
    valid = np.count_nonzero(np.isfinite(data) & (data != -999))
    assert f"checked {valid} values, each within its bound" in said


@pytest.mark.parametrize("fill", [None, -999.0, np.nan], ids=["no fill", "-999", "NaN"])
def test_a_range_relative_bound_is_that_of_the_whole_array(
    source: Path, target: Path, dtype: np.dtype[Any], fill: float | None
) -> None:
    # The chunks' own ranges are much smaller, and the fill value is far outside of the range.
    data = np.sort(field((90, 70), dtype).ravel()).reshape(90, 70).astype(dtype)
    data[::5, ::7] = 300 if fill is None else fill
    data[2, 2] = np.inf
    with h5py.File(source, "w") as file:
        file.create_dataset("x", data=data, chunks=(16, 16), fillvalue=fill)

    repack(source, target, "--range-relative", "1e-3")

    expected = PFPL(range_relative=1e-3).resolve(data, fill)
    assert expected.absolute is not None
    with h5py.File(target) as file:
        assert h5lossy.describe(file["x"]).config == expected
        record = json.loads(file["x"].attrs["h5lossy"])
        decoded = file["x"][...]
    assert record["requested"] == {"range_relative": 1e-3}
    assert record["stored"] == {"absolute": expected.absolute}
    assert record["h5lossy"] == h5lossy.__version__
    assert_kept(data, decoded, {"range_relative": 1e-3}, None if fill is None else dtype.type(fill))


def test_the_range_is_taken_over_all_blocks(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Blocks of one row of chunks each, of which only the last holds the largest value.
    monkeypatch.setattr("h5lossy._blocks.BLOCK_BYTES", 16 * 70 * 4)
    data = np.linspace(0, 1, 90 * 70, dtype="f4").reshape(90, 70)
    with h5py.File(source, "w") as file:
        file.create_dataset("x", data=data, chunks=(16, 70))

    repack(source, target, "--range-relative", "1e-3")

    with h5py.File(target) as file:
        assert h5lossy.describe(file["x"]).config == PFPL(range_relative=1e-3).resolve(data)
        assert_kept(data, file["x"][...], {"range_relative": 1e-3})


def test_a_constant_field_is_lossless_where_the_bound_is_range_relative(
    source: Path, target: Path
) -> None:
    write(source, x=np.full((70, 90), 273.15))

    repack(source, target, "--range-relative", "1e-3")

    with h5py.File(target) as file:
        assert json.loads(file["x"].attrs["h5lossy"])["stored"] == {"lossless": True}
        assert_same_bits(file["x"][...], np.full((70, 90), 273.15))


def test_small_blocks_give_the_same_file(
    tmp_path: Path, source: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = field((50, 70, 3))
    with h5py.File(source, "w") as file:
        file.create_dataset("x", data=data, chunks=(7, 16, 2))
        file["contiguous"] = data
    repack(source, target, "--absolute", "1e-3", "--chunks", "16x16x3")
    monkeypatch.setattr("h5lossy._blocks.BLOCK_BYTES", 5000)

    repack(source, tmp_path / "c.h5", "--absolute", "1e-3", "--chunks", "16x16x3")

    with h5py.File(target) as one, h5py.File(tmp_path / "c.h5") as other:
        for name in ("x", "contiguous"):
            assert frames(one[name]) == frames(other[name])
            assert_kept(data, other[name][...], bound_of(ABSOLUTE))


RULES: dict[str, tuple[str, dict[str, dict[str, Any]]]] = {
    "one dataset": ("--dataset /sea/t:absolute=1e-3", {"/sea/t": {"absolute": 1e-3}}),
    "by its name": (
        "--dataset t:absolute=1e-3",
        {"/sea/t": {"absolute": 1e-3}, "/sea/deep/t": {"absolute": 1e-3}},
    ),
    "one level": (
        "--dataset /sea/*:lossless",
        {"/sea/t": {"lossless": True}, "/sea/salt": {"lossless": True}},
    ),
    "all levels": (
        "--dataset /sea/**:absolute=2",
        {"/sea/t": {"absolute": 2}, "/sea/salt": {"absolute": 2}, "/sea/deep/t": {"absolute": 2}},
    ),
    "a default and a rule": (
        "--pointwise-relative 1e-4 --dataset salt:absolute=5",
        {
            "/air": {"pointwise_relative": 1e-4},
            "/sea/t": {"pointwise_relative": 1e-4},
            "/sea/salt": {"absolute": 5},
            "/sea/deep/t": {"pointwise_relative": 1e-4},
        },
    ),
    "the last rule wins": (
        "--dataset **:absolute=1 --dataset t:absolute=2 --dataset deep/t:lossless",
        {
            "/air": {"absolute": 1},
            "/sea/t": {"absolute": 2},
            "/sea/salt": {"absolute": 1},
            "/sea/deep/t": {"lossless": True},
        },
    ),
    "digits": (
        "--digits 4 --dataset salt:digits=2 --skip /sea/**/t",
        {
            "/air": {"pointwise_relative": PFPL(significant_digits=4).pointwise_relative},
            "/sea/salt": {"pointwise_relative": PFPL(significant_digits=2).pointwise_relative},
        },
    ),
    "both spellings": (
        "--dataset air:pointwise_relative=1e-3 --dataset salt:pointwise-relative=1e-3",
        {"/air": {"pointwise_relative": 1e-3}, "/sea/salt": {"pointwise_relative": 1e-3}},
    ),
    "skip": ("--absolute 1 --skip /sea/** --dataset /sea/t:absolute=3", {"/air": {"absolute": 1}}),
}


@pytest.mark.parametrize(("options", "expected"), RULES.values(), ids=RULES)
def test_rules_choose_datasets_and_bounds(
    source: Path, target: Path, options: str, expected: dict[str, dict[str, Any]]
) -> None:
    names = ("air", "sea__t", "sea__salt", "sea__deep__t")
    write(source, **{name: field((70, 90)) for name in names})

    repack(source, target, *options.split())

    assert codecs_in(target) == {name: PFPL(**bound) for name, bound in expected.items()}
    with h5py.File(target) as file:
        for name, bound in expected.items():
            assert_kept(field((70, 90)), file[name][...], bound)
            assert json.loads(file[name].attrs["h5lossy"])["requested"] == bound
        for name in {"/air", "/sea/t", "/sea/salt", "/sea/deep/t"} - set(expected):
            assert_same_bits(file[name][...], field((70, 90)))
            assert "h5lossy" not in file[name].attrs


@pytest.mark.parametrize("make", SETTINGS.values(), ids=SETTINGS)
def test_every_codec_in_every_mode_may_be_asked_for(
    source: Path, target: Path, make: Callable[..., Codec]
) -> None:
    data = field((70, 90))
    codec = make(range_relative=1e-4)
    write(source, x=data, y=data)

    repack(
        source,
        target,
        *("--range-relative", "1e-4", *codec_options(codec)),
        *("--dataset", "y:chunks=8x8"),
    )

    resolved = codec.resolve(data)
    assert codecs_in(target) == {"/x": resolved, "/y": resolved}
    with h5py.File(target) as file:
        for name in ("x", "y"):
            record = json.loads(file[name].attrs["h5lossy"])
            assert record["codec"] == codec.codec_name
            assert type(codec)(**record["requested"]) == codec
            assert type(codec)(**record["stored"]) == resolved
            assert_kept(data, file[name][...], {"range_relative": 1e-4})


CODEC_RULES: dict[str, tuple[str, dict[str, Codec]]] = {
    "codec and bound": (
        "--dataset x:codec=cuszp2,mode=plain,absolute=1e-3",
        {"/x": CuSZp2(absolute=1e-3, mode="plain")},
    ),
    "the bound of another option": (
        "--absolute 2 --dataset y:codec=aatrox",
        {"/x": PFPL(absolute=2), "/y": AATROX(absolute=2)},
    ),
    "axes and a flag": (
        "--absolute 2 --dataset y:codec=interp,axes=-1,-2,rewritable,chunks=8x8",
        {"/x": PFPL(absolute=2), "/y": Interp(absolute=2, axes=(-2, -1), rewritable=True)},
    ),
    "one axis": (
        "--absolute 2 --dataset y:axes=-3,codec=interp",
        {"/x": PFPL(absolute=2), "/y": Interp(absolute=2, axes=-3)},
    ),
    "the codec of another option": (
        "--codec auto --dataset y:absolute=2",
        {"/y": Auto(absolute=2)},
    ),
    "what a codec prefers": (
        "--codec auto --prefer size --absolute 1 --dataset y:absolute=2",
        {"/x": Auto(absolute=1, prefer="size"), "/y": Auto(absolute=2, prefer="size")},
    ),
    "another bound, and the codec stays": (
        "--codec cuszp2 --dimensions 2 --absolute 1 --dataset y:absolute=2",
        {"/x": CuSZp2(absolute=1, dimensions=2), "/y": CuSZp2(absolute=2, dimensions=2)},
    ),
    "another codec, and its settings go with it": (
        "--codec cuszp2 --dimensions 2 --absolute 1 -d y:codec=cuszp2,mode=fixed -d x:codec=PFPL",
        {"/x": PFPL(absolute=1), "/y": CuSZp2(absolute=1, mode="fixed")},
    ),
    "the last rule wins": (
        "-d **:absolute=1,codec=aatrox -d y:codec=cuszp2,dimensions=3 -d y:codec=auto",
        {"/x": AATROX(absolute=1), "/y": Auto(absolute=1)},
    ),
    "a codec for what has a bound": (
        "--dataset *:codec=auto --dataset y:absolute=1",
        {"/y": Auto(absolute=1)},
    ),
}


@pytest.mark.parametrize(("options", "expected"), CODEC_RULES.values(), ids=CODEC_RULES)
def test_rules_choose_codecs(
    source: Path, target: Path, options: str, expected: dict[str, Codec]
) -> None:
    write(source, x=field((70, 90)), y=field((70, 90)))

    said = repack(source, target, *options.split()).output

    assert codecs_in(target) == expected
    with h5py.File(target) as file:
        for name, codec in expected.items():
            assert type(codec).__name__ in said
            assert_kept(field((70, 90)), file[name][...], bound_of(codec))


CHUNKS: dict[str, tuple[str, tuple[int, ...], tuple[int, ...] | None]] = {
    "keep": ("", (30, 40), None),
    "keep, said": ("--chunks keep", (30, 40), None),
    "given": ("--chunks 64x64", (64, 64), (64, 64)),
    "given, too long": ("--chunks 1000x8", (70, 8), (70, 8)),
    "of another rank": ("--chunks 8x8x8", (30, 40), None),
    "auto": ("--chunks auto", (70, 90), (70, 90)),
    "auto by a rule": ("--dataset *:chunks=auto:series", (70, 90), (70, 90)),
    "by a rule": ("--dataset *:chunks=8x16", (8, 16), (8, 16)),
    "by the last rule": ("--dataset *:chunks=8x16 --dataset x:chunks=4x4", (4, 4), (8, 16)),
    "rule against the option": ("--chunks 64x64 --dataset /x:chunks=keep", (30, 40), (64, 64)),
}


@pytest.mark.parametrize(("options", "chunked", "contiguous"), CHUNKS.values(), ids=CHUNKS)
def test_chunk_shapes(
    source: Path,
    target: Path,
    options: str,
    chunked: tuple[int, ...],
    contiguous: tuple[int, ...] | None,
) -> None:
    data = field((70, 90))
    with h5py.File(source, "w") as file:
        file.create_dataset("x", data=data, chunks=(30, 40))
        file["y"] = data

    repack(source, target, "--absolute", "1e-3", *options.split())

    with h5py.File(target) as file:
        assert file["x"].chunks == chunked
        assert file["y"].chunks == (contiguous or (70, 90))
        assert_kept(data, file["x"][...], bound_of(ABSOLUTE))
        assert_kept(data, file["y"][...], bound_of(ABSOLUTE))


def test_small_chunks_are_noted(source: Path, target: Path) -> None:
    with h5py.File(source, "w") as file:
        file.create_dataset("x", data=np.arange(30000.0), chunks=(20,))
        file.create_dataset("few", data=np.arange(2000.0), chunks=(200,))

    said = repack(source, target, "--absolute", "1e-3")

    note = "chunks below 16 KiB compress less well than those of --chunks auto: /x (20)"
    assert f"note: {note}\n" in said.stdout
    size = target.stat().st_size
    said = repack(source, target, "--absolute", "1e-3", "--chunks", "auto", "--force")
    assert "note:" not in said.output
    assert target.stat().st_size < size / 2


@pytest.mark.parametrize("access", ["maps", "series", "balanced"])
def test_automatic_chunks_are_those_of_chunks_for(source: Path, target: Path, access: str) -> None:
    shape, most = (10, 2000, 2000), (None, 2000, None)  # nothing is written: only shapes count
    with h5py.File(source, "w") as file:
        file.create_dataset("x", shape, "f4", chunks=(1, 1, 2000), maxshape=most)

    repack(source, target, "--absolute", "1", "--chunks", f"auto:{access}")

    with h5py.File(target) as file:
        assert file["x"].chunks == h5lossy.chunks_for(shape, "f4", access)
        assert file["x"].maxshape == most


def test_what_was_never_written_is_not_written(source: Path, target: Path) -> None:
    # 400 MB of which two chunks are there, in the first block and in the last.
    with h5py.File(source, "w") as file:
        dataset = file.create_dataset(
            "x", (100_000, 1000), "f4", chunks=(64, 1000), maxshape=(None, 1000), fillvalue=-999.0
        )
        dataset[3, :5] = 300
        dataset[-1, -1] = 301

    repack(source, target, "--range-relative", "1e-3")

    with h5py.File(source) as old, h5py.File(target) as new:
        assert new["x"].maxshape == (None, 1000)
        places = {chunk.chunk_offset for chunk in stored_chunks(old["x"])}
        assert len(places) == 2
        assert places <= set(frames(new["x"]))
        assert len(frames(new["x"])) < 1563 / 3
        for rows in (slice(0, 70), slice(-70, None)):
            before, after = old["x"][rows], new["x"][rows]
            assert_kept(before, after, {"absolute": 1e-3}, np.float32(-999))


def test_unwritten_strings_stay_unwritten(source: Path, target: Path) -> None:
    # HDF5 can't read them from a file that is open for reading only: it would write the fill value.
    with h5py.File(source, "w") as file:
        file["x"] = field((70, 90))
        strings = file.create_dataset(
            "strings", (9,), h5py.string_dtype(), chunks=(2,), fillvalue="none"
        )
        strings[4] = "x"

    repack(source, target, "--absolute", "1e-3")

    with h5py.File(target, "r+") as file:
        assert [chunk.chunk_offset for chunk in stored_chunks(file["strings"])] == [(4,)]
        assert list(file["strings"][...]) == [b"none"] * 4 + [b"x"] + [b"none"] * 4


def test_a_resizable_dataset_without_values_can_be_appended_to(source: Path, target: Path) -> None:
    with h5py.File(source, "w") as file:
        file.create_dataset("x", (0, 40), "f4", maxshape=(None, 40))

    repack(source, target, "--absolute", "1e-3")

    with h5py.File(target, "r+") as file:
        assert h5lossy.describe(file["x"]) is not None
        file["x"].resize(3, axis=0)
        file["x"][...] = field((3, 40))
    with h5py.File(target) as file:
        assert_kept(field((3, 40)), file["x"][...], bound_of(ABSOLUTE))


def test_compressing_again_within_the_same_bound_changes_no_value(
    tmp_path: Path, source: Path, target: Path
) -> None:
    write(source, x=field((70, 90)))
    repack(source, target, "--absolute", "1e-3")

    said = repack(target, tmp_path / "c.h5", "--absolute", "1e-3", "--chunks", "16x16").output

    assert "errors add up" not in said
    with h5py.File(target) as once, h5py.File(tmp_path / "c.h5") as twice:
        assert_same_bits(twice["x"][...], once["x"][...])


@pytest.mark.parametrize("make", SETTINGS.values(), ids=SETTINGS)
def test_another_codec_with_the_same_bound_adds_no_error(
    source: Path, target: Path, make: Callable[..., Codec]
) -> None:
    # All but Interp have the same bins. So a file may be compressed anew with a codec that suits it
    # better.
    data = field((20, 30, 40))
    codec = make(absolute=1e-3)
    with h5py.File(source, "w") as file:
        file.create_dataset("x", data=data, chunks=(16, 16, 16), compression=codec)

    said = repack(source, target, "--absolute", "1e-3").output

    if codec.step_share != 1:
        assert f"the errors add up: /x ({type(codec).__name__}, absolute 0.001)" in said
        return
    assert "errors add up" not in said
    with h5py.File(source) as old, h5py.File(target) as new:
        once, twice = old["x"][...], new["x"][...]
    assert_kept(data, twice, {"absolute": 1e-3})
    changed = once != twice  # only what the first codec stored as it was
    assert_same_bits(once[changed], data[changed])


def test_errors_add_up_where_a_safeguard_is_dropped(
    tmp_path: Path, source: Path, target: Path
) -> None:
    """Values that the safeguard moved move again, further from the original than the bound."""
    noise = np.random.default_rng(3).normal(0, 0.05, 256000)
    data = (0.3 * np.sin(np.arange(256000) / 300) + noise).reshape(500, 512)
    write(source, x=data)
    settings = ("--absolute", "0.1", "--codec", "interp")
    repack(source, target, *settings, "--threshold", "0")
    for again, adds in ((("--threshold", "0"), False), ((), True)):
        said = repack(target, tmp_path / "c.h5", *settings, *again, "--force").output
        assert ("the errors add up: /x (Interp, absolute 0.1)" in said) == adds
        assert ("safeguards of SRC are not kept" in said) == adds
        assert ("ask for them: /x (threshold 0)" in said) == adds
        with h5py.File(tmp_path / "c.h5") as file:
            stated = file["x"].attrs["lossy_compression_maximum_absolute_error"]
            found = np.abs(file["x"][...] - data).max()
        assert stated == (0.2 if adds else 0.1)
        assert found <= stated
        assert (found > 0.1) == adds
    repack(source, target, *settings, "--force")
    said = repack(target, tmp_path / "c.h5", *settings, "--threshold", "0", "--force").output
    assert "errors add up" not in said


def test_compressing_again_within_another_bound_is_told_and_recorded(
    tmp_path: Path, source: Path, target: Path
) -> None:
    write(source, x=field((70, 90)))
    repack(source, target, "--absolute", "1e-3")

    said = repack(target, tmp_path / "c.h5", "--range-relative", "1e-3").output

    assert "the errors add up: /x (PFPL, absolute 0.001)" in said
    with h5py.File(tmp_path / "c.h5") as file:
        record = json.loads(file["x"].attrs["h5lossy"])
    assert record["requested"] == {"range_relative": 1e-3}
    assert record["earlier"]["requested"] == {"absolute": 1e-3}


@pytest.mark.parametrize("options", [["--absolute", "1e-3"], ["--lossless"]])
def test_coordinates_and_small_datasets_stay_exact_unless_a_rule_names_them(
    source: Path, target: Path, options: list[str]
) -> None:
    with h5py.File(source, "w") as file:
        file["t"] = field((2000, 30))
        file["time"] = np.linspace(0, 1, 2000)
        file["small"] = field((32, 32))  # 4 KiB
        file["less_small"] = field((32, 33))
        file["time"].make_scale("time")
        file["t"].dims[0].attach_scale(file["time"])

    repack(source, target, *options)
    assert codecs_in(target).keys() == {"/t", "/less_small"}

    repack(source, target, "--force", *options, "--dataset", "/time:lossless")
    assert codecs_in(target).keys() == {"/t", "/less_small", "/time"}

    repack(source, target, "--force", *options, "--dataset", "small:lossless")
    assert codecs_in(target).keys() == {"/t", "/less_small", "/small"}


def test_what_describes_other_variables_stays_exact_unless_a_rule_names_it(
    source: Path, target: Path
) -> None:
    with h5py.File(source, "w") as file:
        groups = [file, file.create_group("north"), file.create_group("north/deep")]
        for group in groups:
            group["t"] = field((2000, 30))
        for path in ("time_bnds", "area", "north/lat", "lat", "unused", "given"):
            file[path] = field((2000, 2))
        file["t"].attrs["bounds"] = "time_bnds absent"
        file["north/deep/t"].attrs["cell_measures"] = "area: area"
        file["north/deep/t"].attrs["coordinates"] = np.bytes_("lat t ../../given")
        file["unused"].attrs["coordinates"] = np.array(["unused", "t"], h5py.string_dtype())
    fields = {"/t", "/north/t", "/north/deep/t", "/unused", "/lat"}

    said = repack(source, target, "--absolute", "1e-3", "-d", "/**:absolute=0.01").stdout

    assert codecs_in(target).keys() == fields
    assert "coordinate, bounds or the like of others), 4" in said

    repack(source, target, "--force", "--absolute", "1e-3", "-d", "/area:absolute=0.01")
    assert codecs_in(target).keys() == fields | {"/area"}

    repack(source, target, "--force", "--lossless")
    assert codecs_in(target).keys() == fields | {"/time_bnds", "/area", "/north/lat", "/given"}


# ------------------------------------------------------------------------------------------------
# What it keeps
# ------------------------------------------------------------------------------------------------


def fill_rich_file(file: h5py.File, folder: Path) -> None:
    """Write a file with an object of every kind."""
    data = field((70, 90))
    file.create_dataset("x", data=data, chunks=(32, 32), maxshape=(None, 90), fillvalue=-999.0)
    file.create_dataset("group/y", data=data.astype(">f8"), compression="gzip", shuffle=True)
    file.create_group("group/empty")
    ordered = file.create_group("ordered", track_order=True)
    for name in ("zebra", "ape", "mole"):
        ordered.create_group(name, track_order=True)
        ordered.attrs[name] = name

    # Other datasets
    file["int"] = np.arange(2000)
    file.create_dataset("int_gzip", data=np.arange(5000), chunks=(100,), compression="gzip")
    file.create_dataset("scale_offset", data=np.arange(5000), chunks=(100,), scaleoffset=0)
    file["half"] = np.arange(2000, dtype="f2")
    file["long_double"] = np.arange(2000, dtype=np.longdouble)
    file["complex"] = np.arange(2000) * (1 + 2j)
    file["bool"] = np.arange(2000) % 3 == 0
    file["compound"] = np.array([(1, 2.5)] * 500, [("a", "i4"), ("b", "f8")])
    file["fixed"] = np.array([b"abc", b"de"])
    file.create_dataset("text", data=["größe", "", "x" * 5000], dtype=h5py.string_dtype())
    # HDF5's own copy of such a fill value is an address in the old file.
    filled = file.create_dataset("filled", (9,), h5py.string_dtype(), chunks=(2,), fillvalue="none")
    filled[...] = [f"{i}" for i in range(9)]
    file.create_dataset("ragged", (3,), h5py.vlen_dtype("f4"))[1] = np.arange(5, dtype="f4")
    file.create_dataset("enum", data=[0, 1, 0], dtype=h5py.enum_dtype({"no": 0, "yes": 1}, "i1"))
    file.create_dataset("array", data=np.ones((500, 3)), dtype="f4")
    file["scalar"] = 2.5
    compact = h5p.create(h5p.DATASET_CREATE)
    compact.set_layout(h5d.COMPACT)
    space = h5s.create_simple((2000,))
    for name, type_id in ((b"compact", h5t.IEEE_F32LE), (b"compact_int", h5t.STD_I32LE)):
        h5py.Dataset(h5d.create(file.id, name, type_id, space, compact))[...] = np.arange(2000)
    file["null"] = h5py.Empty("f4")
    file.create_dataset("nothing", (0, 5), "f4")
    file.create_dataset("opaque", data=np.array([b"\0\1\2\xff"] * 3, "V4"))

    # Links
    file["again"] = file["x"]
    file["group/root"] = file["/"]
    file["soft"] = h5py.SoftLink("/group/y")
    file["soft_to_nothing"] = h5py.SoftLink("/no/where")
    file["external"] = h5py.ExternalLink("other.h5", "/path")
    file[b"not UTF-8 \xff"] = np.arange(3)

    # Datatypes with a name
    file["type"] = np.dtype([("a", "f4"), ("b", "i8")])
    file["type"].attrs["note"] = "of a type"
    file.create_dataset("typed", data=np.ones(500, file["type"].dtype), dtype=file["type"])
    file["float_type"] = np.dtype("f4")
    file.create_dataset("typed_float", (70, 90), dtype=file["float_type"])[...] = data

    # References
    refs = file.create_dataset("refs", (4,), h5py.ref_dtype)
    refs[0], refs[1], refs[2] = file["x"].ref, file["group"].ref, file["type"].ref
    file["region"] = np.array([file["x"].regionref[2:5, ::3]], h5py.regionref_dtype)
    pair = np.zeros(2, [("n", "i4"), ("ref", h5py.ref_dtype)])
    pair["ref"] = [file["group/y"].ref, file["again"].ref]
    file["pairs"] = pair

    # Dimension scales
    for i, n in enumerate((70, 90)):
        scale = file.create_dataset(f"scale{i}", data=np.linspace(0, 1, n))
        scale.make_scale(f"the name of {i}")
        file["x"].dims[i].attach_scale(scale)
        file["x"].dims[i].label = f"label {i}"

    # Values that are elsewhere
    layout = h5py.VirtualLayout((2, 90), "f4")
    layout[0] = h5py.VirtualSource(".", "x", (70, 90), maxshape=(None, 90))[0]
    layout[1] = h5py.VirtualSource(".", "x", (70, 90), maxshape=(None, 90))[1]
    file.create_virtual_dataset("virtual", layout, fillvalue=-1)
    (folder / "raw.bin").write_bytes(np.arange(1000, dtype="<f8").tobytes())
    file.create_dataset("outside", (1000,), "<f8", external=[("raw.bin", 0, h5f.UNLIMITED)])

    # Attributes, on the root, on a compressed dataset, and on another one
    for obj in (file, file["x"], file["int"], file["group"]):
        obj.attrs["int"] = 7
        obj.attrs["float"] = np.float32(0.1)
        obj.attrs["big_endian"] = np.arange(3, dtype=">i2")
        obj.attrs["text"] = "größe"
        obj.attrs["bytes"] = np.bytes_(b"fixed")
        obj.attrs["texts"] = ["a", "bb", "größe"]
        obj.attrs["matrix"] = np.arange(6.0).reshape(2, 3)
        obj.attrs["empty"] = h5py.Empty("f8")
        obj.attrs["nothing"] = np.zeros((0,), "i4")
        obj.attrs["bool"] = True
        obj.attrs["complex"] = 1 + 2j
        obj.attrs["compound"] = np.array([(1, 2.5)], [("a", "i4"), ("b", "f8")])
        obj.attrs.create("enum", 1, dtype=h5py.enum_dtype({"no": 0, "yes": 1}, "i1"))
        obj.attrs.create("typed", np.ones(2, file["type"].dtype), dtype=file["type"])
        ragged = np.empty(2, object)
        ragged[:] = [np.arange(3), np.arange(1)]
        obj.attrs.create("ragged", ragged, dtype=h5py.vlen_dtype("i4"))
        obj.attrs["large"] = np.arange(40_000.0)  # more than 64 KiB
        obj.attrs["ref"] = file["x"].ref
        obj.attrs["refs"] = np.array([file["group/y"].ref, file["refs"].ref], h5py.ref_dtype)
        obj.attrs["region"] = file["x"].regionref[1:3, 5]
        obj.attrs["größe"] = 1


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a file with an object of every kind, and repack's copy of it."""
    folder = tmp_path_factory.mktemp("rich")
    source, target = folder / "a.h5", folder / "b.h5"
    before = os.getcwd()  # noqa: PTH109 - the external file's name is relative to it
    os.chdir(folder)
    try:
        with h5py.File(source, "w", userblock_size=512, libver=("v108", "latest")) as file:
            fill_rich_file(file, folder)
        with source.open("r+b") as raw:
            raw.write(b"#!/bin/sh\n")
        repack(source, target, "--absolute", "1e-3")
    finally:
        os.chdir(before)
    return source, target


def test_everything_but_the_compression_is_kept(rich: tuple[Path, Path]) -> None:
    integers = {b"/int", b"/int_gzip", b"/compact_int"}
    expected = {b"/again", b"/array", b"/compact", b"/complex", b"/group/y", b"/typed_float"}
    expected |= integers
    assert assert_same_objects(*rich) == expected
    assert rich[1].read_bytes()[:512] == rich[0].read_bytes()[:512]
    assert rich[1].read_bytes().startswith(b"#!/bin/sh\n")
    with h5py.File(rich[0]) as old, h5py.File(rich[1]) as new:
        for name in map(bytes.decode, integers):
            np.testing.assert_array_equal(new[name], old[name])
            assert h5lossy.describe(new[name]).config == PFPL(lossless=True)
        for name in ("x", "group/y", "array", "compact", "typed_float"):
            fill = np.float32(-999) if name == "x" else None
            assert_kept(old[name][...], new[name][...], bound_of(ABSOLUTE), fill)
            assert json.loads(new[name].attrs["h5lossy"])["requested"] == {"absolute": 1e-3}


def test_chunks_of_other_datasets_are_copied_as_they_are(rich: tuple[Path, Path]) -> None:
    with h5py.File(rich[0]) as old, h5py.File(rich[1]) as new:
        before, after = stored_chunks(old["scale_offset"]), stored_chunks(new["scale_offset"])
        assert len(after) == len(before) == 50
        for one, other in zip(before, after, strict=True):
            assert old["scale_offset"].id.read_direct_chunk(one.chunk_offset) == (
                new["scale_offset"].id.read_direct_chunk(other.chunk_offset)
            )


def test_virtual_and_external_values_go_on_meaning_what_they_meant(
    rich: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(rich[0].parent)
    with h5py.File(rich[1]) as new:
        assert new["virtual"].is_virtual
        np.testing.assert_array_equal(new["virtual"][...], new["x"][:2])
        assert new["outside"].external == [("raw.bin", 0, h5f.UNLIMITED)]
        np.testing.assert_array_equal(new["outside"][...], np.arange(1000.0))


def test_the_source_is_not_changed(source: Path, target: Path) -> None:
    write(source, x=field((70, 90)))
    before = source.read_bytes(), source.stat().st_mtime_ns

    repack(source, target, "--absolute", "1e-3")

    assert (source.read_bytes(), source.stat().st_mtime_ns) == before


def test_a_reference_to_nothing_is_told_and_null(source: Path, target: Path) -> None:
    with h5py.File(source, "w") as file:
        file["x"] = field((70, 90))
        file["y"] = field((70, 90))
        file.attrs["ref"] = file["y"].ref
        del file["y"]

    said = repack(source, target, "--absolute", "1e-3").output

    assert "dangling references were written as null: 1" in said
    with h5py.File(target) as file:
        assert not file.attrs["ref"]


def test_null_references_in_files_with_small_addresses(source: Path, target: Path) -> None:
    """HDF5 2.0 reads some of them as references that mean nothing."""
    creation = h5p.create(h5p.FILE_CREATE)
    creation.set_sizes(4, 4)
    with h5py.File(h5f.create(bytes(source), h5f.ACC_TRUNC, creation)) as file:
        x = file.create_dataset("x", data=field((70, 90)))
        file.create_dataset("refs", (3,), h5py.regionref_dtype)[0] = x.regionref[2:5, 7]
    repack(source, target, "--absolute", "1e-3")
    with h5py.File(target) as file:
        assert file[file["refs"][0]] == file["x"]


def test_what_h5py_cannot_convert_is_copied(source: Path, target: Path) -> None:
    with h5py.File(source, "w") as file:
        x = file.create_dataset("x", data=field((70, 90)))
        opaque = h5t.create(h5t.OPAQUE, 1)
        opaque.set_tag(b"tag")
        listed = h5t.vlen_create(opaque)
        h5a.create(x.id, b"lists", listed, h5s.create_simple((2,)))
    repack(source, target, "--absolute", "1e-3")
    with h5py.File(target) as file:
        assert h5a.open(file["x"].id, b"lists").get_type().equal(listed)


def test_an_old_file_is_not_made_one_for_new_hdf5s_only(source: Path, target: Path) -> None:
    # HDF5 1.10.8's h5dump reads it.
    write(source, x=field((70, 90)))

    repack(source, target, "--absolute", "1e-3")

    run(tool("h5dump"), "-d", "/x", target, env=with_plugin())


def test_a_netcdf_file_stays_one(tmp_path: Path) -> None:
    ncgen, ncdump = tool("ncgen"), tool("ncdump")
    cdl = """netcdf a { dimensions: time = UNLIMITED ; x = 3000 ; variables:
        double time(time) ; time:units = "days" ;
        float x(x) ; float t(time, x) ; t:_FillValue = -999.f ; t:coordinates = "x" ;
        data: time = 1, 2, 3 ; x = 1, 2 ; t = 1.5, 2.5, _, 4.5 ;
        group: deep { variables: double u(time, x) ; u:missing = 1., 2. ; } }"""
    (tmp_path / "a.cdl").write_text(cdl)
    source, target = tmp_path / "a.nc", tmp_path / "b.nc"
    run(ncgen, "-4", "-o", source, tmp_path / "a.cdl")

    repack(source, target, "--absolute", "1e-3")

    assert codecs_in(target).keys() == {"/t", "/deep/u"}
    before = run(ncdump, "-n", "a", source).stdout
    after = run(ncdump, "-n", "a", target, env=with_plugin()).stdout
    added = re.compile(r":(h5lossy|lossy_compression)")
    ours = [line for line in after.splitlines() if not added.search(line)]
    assert ours == before.splitlines()
    assert len(ours) == len(after.splitlines()) - 10


def test_a_dataset_whose_filter_is_missing_is_copied_as_it_is(source: Path, target: Path) -> None:
    # A filter that no one has, with chunks that were written directly.
    with h5py.File(source, "w") as file:
        file["x"] = field((70, 90))
        creation = h5p.create(h5p.DATASET_CREATE)
        creation.set_chunk((70, 90))
        creation.set_deflate(1)
        space, float32 = h5s.create_simple((70, 90)), h5t.IEEE_F32LE
        y = h5py.Dataset(h5d.create(file.id, b"y", float32, space, creation))
        y.id.write_direct_chunk((0, 0), b"made by gzip, they say", filter_mask=0)
    content = source.read_bytes()
    # Filter 1 becomes 256 + 1, in its message: number, name's size, flags, one value, "deflate\\0".
    place = content.index(b"deflate\0") - 8
    assert content[place : place + 2] == b"\1\0"
    source.write_bytes(content[: place + 1] + b"\1" + content[place + 2 :])

    said = repack(source, target, "--absolute", "1e-3").output

    assert "copied unchanged (no filter 257 (deflate) here), 1: /y" in said
    with h5py.File(target) as file:
        assert codecs_in(target).keys() == {"/x"}
        [(number, *_)] = filters(file["y"])
        assert number == 257
        assert file["y"].id.read_direct_chunk((0, 0)) == (0, b"made by gzip, they say")


# ------------------------------------------------------------------------------------------------
# --dry-run, and what it refuses
# ------------------------------------------------------------------------------------------------


def test_a_dry_run_says_what_would_be_done_and_does_nothing(source: Path, target: Path) -> None:
    data = {"number": np.arange(5000), "flags": np.arange(5000) % 3 == 0}
    write(source, x=field((70, 90)), **data, deep__small=field((3, 3)))
    before = source.read_bytes()

    said = repack(source, target, "--range-relative", "1e-3", "--dry-run").output

    assert [line.split() for line in said.splitlines() if line.strip().startswith("/")] == [
        ["/flags", "bool", "5000", "copy", "-", "-", "-"],
        ["/number", "int64", "5000", "compress", "PFPL", "lossless", "5000"],
        ["/x", "float32", "70x90", "compress", "PFPL", "range_relative", "0.001", "70x90"],
        ["/deep/small", "float32", "3x3", "copy", "-", "-", "-"],
    ]
    assert "copied unchanged (an enumeration), 1: /flags" in said
    assert "copied unchanged (small), 1: /deep/small" in said
    assert list(source.parent.iterdir()) == [source]
    assert source.read_bytes() == before


WRONG_USAGE = {
    "no bound": ("", "give a bound for all datasets"),
    "rules without a bound": ("--dataset x:chunks=8x8", "give a bound for all datasets"),
    "two bounds": ("--absolute 1 --lossless", "give one bound, not 2"),
    "two bounds in a rule": ("--dataset x:absolute=1,lossless", "give one bound, not 2"),
    "bound 0": ("--absolute 0", "absolute must be greater than 0"),
    "bound 0 in a rule": ("--dataset x:absolute=0", "absolute must be greater than 0"),
    "no number in a rule": ("--dataset x:absolute=small", "absolute takes a number"),
    "no setting": ("--dataset x:", "expected 'GLOB:SETTING,...', got 'x:'"),
    "no colon": ("--dataset x", "expected 'GLOB:SETTING,...', got 'x'"),
    "unknown setting": ("--dataset x:level=3", "'level=3' is no setting"),
    "a codec and no bound": ("--codec auto", "give a bound for all datasets"),
    "a rule with a codec and no bound": ("--dataset x:codec=auto", "give a bound for all datasets"),
    "a rule with a codec for what has no bound": (
        "--dataset x:codec=auto --dataset y:absolute=1",
        "--dataset 'x' names a codec, but no option gives its datasets a bound; add one",
    ),
    "no codec of that name": (
        "--dataset x:lossless,codec=sz3",
        "codec must be one of pfpl, cuszp2, aatrox, interp, auto, got 'sz3'",
    ),
    "no mode of that name": (
        "--dataset x:lossless,codec=cuszp2,mode=best",
        "mode of cuszp2 must be one of plain, outlier, fixed, got 'best'",
    ),
    "no number of dimensions": (
        "--dataset x:lossless,codec=cuszp2,dimensions=4",
        "dimensions of cuszp2 must be one of 1, 2, 3, got '4'",
    ),
    "no such axis": (
        "--dataset x:lossless,codec=interp,axes=1",
        "axes of interp must be one of auto; -4; -3; -2; -1; -4,-3; ",
    ),
    "a flag of another codec": (
        "--dataset x:lossless,codec=aatrox,rewritable",
        "rewritable is a setting of codec interp, and not of aatrox",
    ),
    "a setting of another codec": (
        "--dataset x:lossless,codec=aatrox,mode=plain",
        "mode is a setting of codec cuszp2, and not of aatrox",
    ),
    "a setting without its codec": (
        "--lossless --codec cuszp2 --dataset x:mode=plain",
        "mode is a setting of codec cuszp2, and not of pfpl, the default; name the codec, too",
    ),
    "chunks of 0": ("--lossless --chunks 0x8", "a chunk shape is .* got '0x8'"),
    "chunks of words": ("--lossless --chunks big", "a chunk shape is .* got 'big'"),
    "chunks of another rank": (
        "--lossless --dataset /x:chunks=8",
        "gives chunks of 1 dimensions to /x, which has 2",
    ),
}


@pytest.mark.parametrize(("options", "message"), WRONG_USAGE.values(), ids=WRONG_USAGE)
def test_wrong_usage_is_refused(source: Path, target: Path, options: str, message: str) -> None:
    write(source, x=field((70, 90)), y=field((70, 90)))

    said = repack(source, target, *options.split(), status=2)

    words = " ".join(said.stderr.split())
    assert re.search(message, words), words
    assert list(source.parent.iterdir()) == [source]


@pytest.mark.parametrize("option", ["--dataset", "--skip"])
def test_a_glob_that_names_nothing_is_refused(source: Path, target: Path, option: str) -> None:
    write(source, x=field((70, 90)))
    glob = "/y*" + (":lossless" if option == "--dataset" else "")

    said = repack(source, target, "--absolute", "1", option, glob, status=1)

    assert f"{option} '/y*' names no dataset here; there are: /x" in said.stderr
    assert not target.exists()


def test_a_dataset_has_a_path_by_each_hard_link(tmp_path: Path) -> None:
    source, target = tmp_path / "a.h5", tmp_path / "b.h5"
    with h5py.File(source, "w") as file:
        file["a/x"] = file["b/y"] = np.linspace(0, 1, 9000)
        file["b/x"] = file["a/x"]
        file["b/loop"] = file["/"]

    def found(*options: str) -> dict[str, Any]:
        h5lossy_command("repack", source, target, "--force", *options)
        with h5py.File(target) as file:
            assert file["a/x"] == file["b/x"]
            return {name: h5lossy.describe(file[name]) for name in ("a/x", "b/y")}

    for options, x, y in (
        (("-d", "/b/x:absolute=0.1"), 0.1, None),
        (("-d", "/b/*:absolute=0.1"), 0.1, 0.1),
        (("-d", "/b/x:absolute=0.1", "-d", "/a/*:absolute=0.2"), 0.2, None),
        (("--absolute", "0.1", "--skip", "b/x"), None, 0.1),
        (("--absolute", "0.1", "--region", "/b/x", "[:9]", "0.01"), 0.1, 0.1),
    ):
        bounds = {name: one and one.bound.value for name, one in found(*options).items()}
        assert bounds == {"a/x": x, "b/y": y}
    said = h5lossy_command("repack", source, target, "-d", "/b/z:absolute=1", status=1).stderr
    assert "'/b/z' names no dataset here; there are: /a/x, /b/x, /b/y" in said
    for command in ("info", "verify"):
        assert "/a/x" in h5lossy_command(command, target, "-d", "/b/x").stdout
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\ndataset = "/b/x"\nabsolute = 1e-9\n')
    assess = "assess", source, target, "--absolute", "1", "--rules", rules
    assert "/a/x" in h5lossy_command(*assess, status=1).stdout
    reports = h5lossy.assess_all(source, target, absolute=1, rules={"/b/x": {"absolute": 1e-9}})
    assert (reports["/a/x"].ok, reports["/b/y"].ok) == (False, True)
    assert [*h5lossy.assess_all(source, target, absolute=1, variables="/b/x")] == ["/a/x"]


@pytest.mark.parametrize("how", ["same", "relative", "symbolic link", "hard link"])
def test_it_never_overwrites_its_input(
    source: Path, target: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(source, x=field((70, 90)))
    before = source.read_bytes()
    monkeypatch.chdir(source.parent)
    if how == "symbolic link":
        target.symlink_to(source)
    elif how == "hard link":
        target.hardlink_to(source)
    name = {"same": source, "relative": f"./../{source.parent.name}/a.h5"}.get(how, target)

    said = repack(source, name, "--absolute", "1", "--force", status=2)

    assert "repack never overwrites its input" in said.stderr
    assert source.read_bytes() == before
    assert not source.is_symlink()


def test_it_never_overwrites_a_file_that_its_input_takes_values_from(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(source.parent)
    write(target, y=field((70, 90)))
    before = target.read_bytes()
    layout = h5py.VirtualLayout((70, 90), "f4")
    layout[...] = h5py.VirtualSource("b.h5", "y", (70, 90))
    with h5py.File(source, "w") as file:
        file["x"] = field((70, 90))
        file.create_virtual_dataset("virtual", layout)

    said = repack(source, target, "--absolute", "1", "--force", status=2)

    assert "takes values from" in said.stderr
    assert target.read_bytes() == before


def test_another_file_is_replaced_only_by_force(source: Path, target: Path) -> None:
    write(source, x=field((70, 90)))
    target.write_text("mine")

    said = repack(source, target, "--absolute", "1", status=1)
    why = "is not an HDF5 file; give another name, or --force to replace it"
    assert f"{target} exists, and {why}" in " ".join(said.stderr.split())
    assert target.read_text() == "mine"

    repack(source, target, "--absolute", "1", "--force")
    assert codecs_in(target).keys() == {"/x"}


def edit(change: Callable[[h5py.File], object]) -> Callable[[Path, Path], object]:
    """Change the new file by a function of it."""

    def edited(_source: Path, target: Path) -> None:
        with h5py.File(target, "r+") as file:
            change(file)

    return edited


NOT_DONE: dict[str, tuple[str, Callable[[Path, Path], object], str]] = {
    "another bound": ("--absolute 2", edit(list), "/x has another bound or codec: PFPL(abs"),
    "another codec": ("--codec interp", edit(list), "/x has another bound or codec: PFPL("),
    "other chunks": ("--chunks 8x8", edit(list), "/x is not compressed, or in other chunks"),
    "more is compressed": ("-d /small:lossless", edit(list), "/small is not compressed"),
    "less is compressed": (
        "--skip x",
        edit(list),
        "differs from SRC: /x: the chunk shape changed from None to (70, 90); give",
    ),
    "not checked": (
        "",
        edit(lambda f: f["x"].attrs.pop("h5lossy_report")),
        "/x was not checked when it was written",
    ),
    "checked, but without hashes": (
        "",
        edit(lambda f: f["x"].attrs.pop("h5lossy_hashes")),
        "/x was not checked when it was written",
    ),
    "a newer source": ("", lambda source, _: os.utime(source), "is older than SRC"),
    "another structure": ("", edit(lambda f: f.pop("small")), "/: the links changed from"),
    "other values": (
        "--check-existing",
        edit(lambda f: f["x"].__setitem__((3, 4), 1000)),
        "/x does not hold the values of SRC within the bound",
    ),
    "no records": (
        "--range-relative 1e-3",
        edit(lambda f: f["x"].attrs.pop("h5lossy")),
        "/x has no record of the bound that was requested",
    ),
}


@pytest.mark.parametrize(("options", "change", "why"), NOT_DONE.values(), ids=NOT_DONE)
def test_only_the_copy_that_would_be_written_counts_as_done(
    source: Path,
    target: Path,
    options: str,
    change: Callable[[Path, Path], object],
    why: str,
) -> None:
    write(source, x=field((70, 90)), y=field((70, 90)), small=field((3, 3)))
    first = (options if "--range-relative" in options else "--absolute 1").split()
    repack(source, target, *first)
    for check in ([], ["--check-existing"]):
        assert "done before" in repack(source, target, *first, *check).stdout
    change(source, target)
    before = target.read_bytes()

    said = repack(source, target, *first, *options.split(), status=1)

    assert f"{target} exists, and " in said.stderr
    assert why in said.stderr
    assert "--force to replace it" in said.stderr
    assert target.read_bytes() == before


def test_a_source_that_cannot_be_compared_is_no_fault_of_the_copy(
    source: Path, target: Path
) -> None:
    x = field((70, 90))
    x[:3] = 1e20
    write(source, x=x)
    repack(source, target, "--range-relative", "1e-3", "--confirm-range")
    said = repack(source, target, "--range-relative", "1e-3", "--check-existing", status=1)
    assert f"{target} exists, and can't be compared with SRC: /x: range_relative" in said.stderr


def test_a_folder_that_does_not_exist_is_told(source: Path) -> None:
    write(source, x=field((70, 90)))

    said = repack(source, source.parent / "no" / "b.h5", "--absolute", "1", status=1)

    assert "there is no folder" in said.stderr


def test_the_current_folder_may_have_been_deleted(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(source, x=field((70, 90)))
    with h5py.File(source, "a") as file:
        file["link"] = h5py.ExternalLink("c.h5", "/x")
    folder = source.parent / "deleted"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()

    repack(source, target, "--absolute", "1")
    assert target.exists()
    said = repack(source, "b.h5", "--absolute", "1", status=1)
    assert "the current folder was deleted, so there is no b.h5" in said.stderr
    said = h5lossy_command("doctor", source, status=1)
    assert "other file c.h5, is MISSING" in said.stdout


# ------------------------------------------------------------------------------------------------
# A complete file or none
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f4", "i4"])
def test_a_broken_source_leaves_all_files_as_they_were(
    source: Path, target: Path, dtype: str
) -> None:
    with h5py.File(source, "w") as file:
        file["other"] = field((70, 90))
        values = field((70, 90)).astype(dtype)
        file.create_dataset("g/x", data=values, chunks=(35, 90), compression="gzip")
        file["g/x"].id.write_direct_chunk((35, 0), b"no gzip")

    said = repack(source, target, "--absolute", "1", status=1)

    assert said.stderr.startswith("Error: /g/x can't be read: ")
    assert list(source.parent.iterdir()) == [source]

    target.write_text("mine")
    repack(source, target, "--absolute", "1", "--force", status=1)
    assert target.read_text() == "mine"
    assert sorted(source.parent.iterdir()) == [source, target]


def test_a_broken_bound_leaves_no_file(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = BoundChecker.add
    monkeypatch.setattr(BoundChecker, "add", lambda checker, at, x, y: add(checker, at, x, y + 1))
    write(source, x=field((70, 90)))

    said = repack(source, target, "--absolute", "1e-3", status=1)
    assert (
        "nothing was written, since /x violates its bound: 6300 of 6300 values are off by more"
        in said.stderr
    )
    assert list(source.parent.iterdir()) == [source]

    said = repack(source, target, "--absolute", "1e-3", "--no-verify")
    assert "nothing was checked" in said.stdout
    assert codecs_in(target).keys() == {"/x"}


def start_and_send(
    source: Path,
    target: Path,
    number: signal.Signals,
    *options: str,
    first: Path | None = None,
) -> tuple[int, str]:
    """Start a real process, and send it a signal as soon as it has begun to write.

    With `first`, another source goes before this one, into the folder of `target`.
    """
    # Background jobs of a shell, and programs under nohup, inherit signals that are ignored.
    start = (
        "import signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
        "from h5lossy._cli import main\n"
        "main()"
    )
    files = [source, target] if first is None else [first, source, target.parent]
    process = subprocess.Popen(
        [*PYTHON, "-c", start, "repack", "--lossless", *options, *files],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + PROCESS_SECONDS
    while not (
        (first is None or (target.parent / first.name).exists())
        and any(path.stat().st_size for path in target.parent.glob(".h5lossy-*/file"))
    ):
        assert process.poll() is None, f"it ended first: {process.communicate()}"
        assert time.monotonic() < deadline
        time.sleep(0.001)
    process.send_signal(number)
    _, said = process.communicate(timeout=PROCESS_SECONDS)
    return process.returncode, said


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file that takes a second or more, nearly all of it after the first byte."""
    path = tmp_path_factory.mktemp("large") / "a.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.tile(field((1024, 1024), "f8"), (20, 1))
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "force"), [(signal.SIGINT, False), (signal.SIGTERM, True), (signal.SIGHUP, False)]
)
def test_interrupted_it_leaves_nothing_under_the_final_name(
    large: Path, target: Path, number: signal.Signals, force: bool
) -> None:
    digest = hashlib.sha256(large.read_bytes()).digest()
    if force:
        target.write_text("mine")

    status, said = start_and_send(large, target, number, *(["--force"] if force else []))

    assert (status, said) == (128 + number, "interrupted\n")
    assert [path.name for path in target.parent.iterdir()] == (["b.h5"] if force else [])
    assert not force or target.read_text() == "mine"
    assert hashlib.sha256(large.read_bytes()).digest() == digest


def test_interrupted_among_several_files_it_keeps_those_that_are_complete(
    large: Path, tmp_path: Path
) -> None:
    folder, small = tmp_path / "out", tmp_path / "small.h5"
    folder.mkdir()
    write(small, x=field((70, 90)))

    status, said = start_and_send(large, folder / large.name, signal.SIGTERM, first=small)

    assert (status, said) == (128 + signal.SIGTERM, "interrupted\n")
    assert [path.name for path in folder.iterdir()] == ["small.h5"]
    assert codecs_in(folder / "small.h5").keys() == {"/x"}


def test_killed_it_leaves_nothing_under_the_final_name(large: Path, target: Path) -> None:
    status, _ = start_and_send(large, target, signal.SIGKILL)

    assert status == -signal.SIGKILL
    [left] = target.parent.iterdir()
    assert left.name.startswith(".h5lossy-")
    assert left.stat().st_mode & 0o777 == 0o700

    small = target.parent / "small.h5"
    write(small, x=field((70, 90)))
    repack(small, target, "--absolute", "1")
    assert sorted(target.parent.iterdir()) == [target, small]


def test_a_copy_that_is_done_needs_no_folder_that_can_be_flushed(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flush = os.fsync

    def flush_files(fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        flush(fd)

    write(source, x=field((70, 90)))
    monkeypatch.setattr(os, "fsync", flush_files)
    h5lossy_command("repack", source, target, "--absolute", "1")
    assert sorted(target.parent.iterdir()) == [source, target]


def test_a_copy_that_is_taken_away_at_once_is_done(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(source, x=field((70, 90)))
    result = importlib.import_module("h5lossy._cli.repack")._Result
    monkeypatch.setattr(result, "add_notes", lambda *_: target.unlink())
    said = h5lossy_command("repack", source, target, "--absolute", "1").output
    assert f"file: {source}" in said


def test_what_others_are_at_work_on_stays(source: Path, target: Path) -> None:
    write(source, x=field((70, 90)))
    strange = target.parent / f"{_new_file._PREFIX}0123456789abcde.tmp"
    strange.mkdir()
    with _new_file.complete_or_absent(target, replace=False, like=source) as temporary:
        temporary.write_text("in work")
        repack(source, target.parent / "other.h5", "--absolute", "1")
        assert temporary.read_text() == "in work"
    assert target.read_text() == "in work"
    names = {path.name for path in target.parent.iterdir()}
    assert names == {"a.h5", "b.h5", "other.h5", strange.name}


def test_processes_that_start_at_once_leave_each_other_alone(source: Path) -> None:
    def make(number: int) -> None:
        for i in range(100):
            path = source.parent / f"{number}-{i}"
            with _new_file.complete_or_absent(path, replace=False, like=source) as temporary:
                temporary.write_text(path.name)

    source.write_text("")
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(make, range(4)))
    found = {path.name for path in source.parent.iterdir()}
    assert found == {source.name} | {f"{n}-{i}" for n in range(4) for i in range(100)}


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_permissions_are_those_of_the_source_or_of_what_is_replaced(
    source: Path, target: Path, mode: int
) -> None:
    write(source, x=field((70, 90)))
    source.chmod(mode)
    repack(source, target, "--absolute", "1")
    assert target.stat().st_mode & 0o7777 == mode

    source.chmod(0o644)
    repack(source, target, "--absolute", "1", "--force")
    assert target.stat().st_mode & 0o7777 == mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_owner_and_group_are_those_of_the_source_or_of_what_is_replaced(
    source: Path, target: Path
) -> None:
    write(source, x=field((70, 90)))
    os.chown(source, 1234, 2345)
    repack(source, target, "--absolute", "1")
    assert (target.stat().st_uid, target.stat().st_gid) == (1234, 2345)

    os.chown(source, 0, 0)
    target.chmod(0o600)
    repack(source, target, "--absolute", "1", "--force")
    assert (target.stat().st_uid, target.stat().st_gid) == (1234, 2345)
    assert target.stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="root becomes another user")
def test_who_may_not_give_a_file_to_its_group_gives_the_group_nothing(source: Path) -> None:
    folder = source.parent / "theirs"
    folder.mkdir()
    write(source, x=field((70, 90)))
    source.chmod(0o664)
    os.chown(folder, 1234, 1234)
    for path in [source.parent, *source.parent.parents]:
        if path.stat().st_uid == 0 and path != path.parent:
            path.chmod(path.stat().st_mode | 0o011)
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from h5lossy._cli._new_file import complete_or_absent\n"
        "os.setgroups([]); os.setgid(1234); os.setuid(1234)\n"
        "path = Path(sys.argv[2])\n"
        "with complete_or_absent(path, replace=False, like=Path(sys.argv[1])) as new:\n"
        "    new.write_text('new')\n"
    )
    run_python(code, source, folder / "b.h5")
    assert (folder / "b.h5").stat().st_mode & 0o777 == 0o644


def test_an_access_list_is_kept(source: Path, target: Path) -> None:
    write(source, x=field((70, 90)))
    # Version 2; the owner rw, user 1234 r, the group nothing, at most r, others nothing.
    entries = [(1, 6, 2**32 - 1), (2, 4, 1234), (4, 0, 2**32 - 1), (16, 4, 2**32 - 1)]
    content = struct.pack("<I", 2) + b"".join(
        struct.pack("<HHI", *entry) for entry in [*entries, (32, 0, 2**32 - 1)]
    )
    try:
        os.setxattr(source, "system.posix_acl_access", content)
    except OSError:
        pytest.skip("this file system has no access lists")
    repack(source, target, "--absolute", "1")
    assert os.getxattr(target, "system.posix_acl_access") == content


def test_only_regular_files_are_replaced(source: Path, tmp_path: Path) -> None:
    write(source, x=field((70, 90)))
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("fifo")
    names = ["fifo", "link"]
    with contextlib.suppress(PermissionError):  # only root makes devices; this one is /dev/null
        os.mknod(tmp_path / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        names.append("null")
    before = {name: (tmp_path / name).stat().st_ino for name in names}
    for name in names:
        for force in ([], ["--force"]):
            said = repack(source, tmp_path / name, "--absolute", "1", *force, status=1)
            assert "is not a regular file, so it is never replaced" in said.stderr
    assert {name: (tmp_path / name).stat().st_ino for name in names} == before


def test_a_link_stays_one(source: Path, target: Path, tmp_path: Path) -> None:
    write(source, x=field((70, 90)))
    link = tmp_path / "link"
    link.symlink_to(target)
    repack(source, link, "--absolute", "1")
    assert link.is_symlink()
    assert codecs_in(target).keys() == {"/x"}


def test_a_full_disk_is_told(source: Path, small_disk: Path) -> None:
    rng = np.random.default_rng(0)
    write(source, x=rng.normal(size=(400, 128, 128)).astype("f4"))
    options = ("--absolute", "1e-6", "--chunks", "1x128x128")
    said = repack(source, small_disk / "b.h5", *options, status=1)
    assert "No space left on device" in said.stderr
    assert list(small_disk.iterdir()) == []


def test_a_full_disk_is_told_of_each_file(source: Path, small_disk: Path) -> None:
    rng = np.random.default_rng(0)
    small, last = source.with_name("0.h5"), source.with_name("z.h5")
    write(source, x=rng.normal(size=(2000, 1000)).astype("f4"))
    for path in (small, last):
        write(path, x=field((70, 90)))

    said = repack(small, source, last, small_disk, "--absolute", "1e-6", status=1)

    assert said.stderr.startswith(f"Error: 1 of 3 files failed:\n{source}: ")
    assert "No space left on device" in said.stderr
    assert sorted(path.name for path in small_disk.iterdir()) == ["0.h5", "z.h5"]


def test_the_filter_is_mandatory_and_words_are_complete(source: Path, target: Path) -> None:
    write(source, x=field((70, 90)))

    repack(source, target, "--absolute", "1e-3")

    with h5py.File(target) as file:
        [(_, flags, words, _)] = filters(file["x"])
        assert flags == h5z.FLAG_MANDATORY
        assert words == cd_values(file["x"])
        assert words[5:8] == (0x02000401, 70, 90)


def test_a_file_with_nothing_to_compress_is_not_written(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["wave"] = np.zeros(5000, np.longdouble)
    for more in ((), ("--dry-run",)):
        result = repack(tmp_path / "a.h5", tmp_path / "b.h5", "--absolute=1", *more, status=1)
        assert "has nothing to compress, so DST is not written" in result.output
        assert "copied unchanged (not IEEE floats of 16, 32 or 64 bits), 1" in result.output
        assert not (tmp_path / "b.h5").exists()


def test_a_rule_for_what_cannot_be_compressed_says_why(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["n"] = np.arange(5000) % 3 == 0
    result = repack(tmp_path / "a.h5", tmp_path / "b.h5", "--dataset=n:absolute=1", status=1)
    assert "names nothing that is compressed (/n: an enumeration)" in result.output


def test_what_nobody_can_describe_is_repacked_all_the_same(source: Path, target: Path) -> None:
    with h5py.File(source, "w", libver="earliest") as file:
        values = np.linspace(0, 1, 4096, dtype="f4")
        file.create_dataset("x", data=values, chunks=(512,), compression=PFPL(lossless=True))
    edit_cd_values(source, {5: 0x02000821})  # of a layout that is not known
    with h5py.File(source) as file, pytest.raises(h5lossy.UnsupportedError):
        h5lossy.describe(file["x"])
    repack(source, target, "--lossless")
    with h5py.File(target) as file:
        np.testing.assert_array_equal(file["x"][...], values)


def test_a_chunk_without_bytes_is_broken_and_not_empty(source: Path, target: Path) -> None:
    with h5py.File(source, "w", libver="earliest") as file:
        values = np.linspace(0, 1, 4096, dtype="f4")
        file.create_dataset("x", data=values, chunks=(4096,), compression=PFPL(lossless=True))
        size = file["x"].id.get_storage_size()
    content, key = source.read_bytes(), struct.Struct("<IIQ")  # size, filter mask, place
    assert content.count(key.pack(size, 0, 0)) == 1
    source.write_bytes(content.replace(key.pack(size, 0, 0), key.pack(0, 0, 0)))
    with h5py.File(source) as file, pytest.raises(OSError, match="filter"):
        file["x"][...]
    repack(source, target, "--lossless", status=1)
    assert not target.exists()


@pytest.mark.parametrize("chunks", ["keep", "300"])
def test_of_a_sparse_dataset_the_chunks_that_are_there_are_copied(
    source: Path, target: Path, chunks: str
) -> None:
    values = np.linspace(0, 1, 3000, dtype="f4")
    places = (0, 5 << 20, (1 << 36) - 3000)
    with h5py.File(source, "w", libver="earliest") as file:
        codec = PFPL(lossless=True)
        x = file.create_dataset("x", (1 << 36,), "f4", chunks=(1000,), compression=codec)
        for place in places:
            x[place : place + 3000] = values
        written = x.id.get_num_chunks()
    repack(source, target, "--lossless", f"--chunks={chunks}")
    with h5py.File(target) as file:
        x = file["x"]
        for place in places:
            np.testing.assert_array_equal(x[place : place + 3000], values)
        if chunks == "keep":
            assert x.id.get_num_chunks() == written
        else:
            assert x.id.get_num_chunks() <= 5 * written
    h5lossy_command("verify", target)


def test_an_index_that_no_disk_can_hold_is_refused(source: Path, target: Path) -> None:
    with h5py.File(source, "w", libver="earliest") as file:
        file.create_dataset("x", (40, 40), "f4", chunks=(8, 8), maxshape=(40, 1 << 62))[...] = 1
    said = h5lossy_command("repack", source, target, "--absolute", "1", status=1)
    assert "/x" in said.stderr
    assert "maximal extents (40, 4611686018427387904)" in said.stderr
    assert not target.exists()


def test_a_block_has_few_of_small_chunks() -> None:
    assert block_shape((1 << 20, 1 << 20), (1, 24), 8) == (1, 24 * 4096)
    assert block_shape((1 << 30,), (1 << 20,), 4, cover=(16,)) == (1 << 20,)
    assert math.prod(block_shape((1 << 30,), (1000,), 4, cover=(1500,))) * 4 > 8 << 20


def test_settings_of_others_are_kept_as_text(tmp_path: Path) -> None:
    source, target = tmp_path / "a.h5", tmp_path / "b.h5"
    text = "[" * 50_000
    with h5py.File(source, "w") as file:
        made = file.create_dataset("t", (2000,), "f4", chunks=(500,), compression=PFPL(absolute=1))
        made.attrs["h5lossy"] = text
    for _ in range(2):  # the second one finds that it is done
        repack(source, target, "--absolute", "2")
    with h5py.File(target) as file:
        assert json.loads(file["t"].attrs["h5lossy"])["earlier"] == text

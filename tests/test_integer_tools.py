# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Integers in measuring, records, repacking and searches: everything except codec and filter."""

from __future__ import annotations

import json
import pickle
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import h5lossy
from h5lossy import AATROX, PFPL, ErrorBound, UnsupportedError
from h5lossy._verification.records import PROVENANCE_ATTRIBUTE
from h5lossy.assessment import Assessor
from hdf5_helpers import codecs_in, h5lossy_program
from hdf5_helpers import h5lossy_command as command
from test_integers import each_type, numbers

if TYPE_CHECKING:
    from pathlib import Path

    from checks import Array


def counts(dtype: str, shape: tuple[int, ...] = (40, 60), seed: int = 0) -> Array:
    """Return values near the upper end of a type, where float64 rounds those of 64 bits."""
    below = np.random.default_rng(seed).integers(0, 100, shape).astype("u8")
    return (np.uint64(np.iinfo(dtype).max) - below).astype(dtype)


# ------------------------------------------------------------------------------------------------
# The range, and the comparison with the original
# ------------------------------------------------------------------------------------------------


@each_type
def test_a_range_relative_bound_is_resolved_in_exact_integers(dtype: str) -> None:
    info = np.iinfo(dtype)
    values = np.array([info.min, info.max, 0, 5], dtype)
    bound = 0.3
    found = PFPL(range_relative=bound).resolve(values).absolute
    exact = Fraction(bound) * (int(info.max) - int(info.min))
    assert found <= exact < found + max(1, 2**-52 * exact) + 1
    assert PFPL(range_relative=1e-30).resolve(values) == PFPL(lossless=True)
    assert PFPL(range_relative=0.5).resolve(values[2:]) == PFPL(absolute=2)
    assert PFPL(range_relative=0.5).resolve(values[1:], info.max) == PFPL(absolute=2)
    masked = np.ma.array(values, mask=[1, 1, 0, 0], fill_value=info.max)
    assert PFPL(range_relative=0.5).resolve(masked) == PFPL(absolute=2)
    assert PFPL(range_relative=0.5).resolve(masked, 7) == PFPL(absolute=2)
    with h5py.File("a.h5", "w", driver="core", backing_store=False) as file:
        dataset = file.create_dataset("x", data=values[1:], fillvalue=info.max)
        assert PFPL(range_relative=0.5).resolve(dataset) == PFPL(absolute=2)
        whole = PFPL(range_relative=0.5).resolve(values[1:])
        assert PFPL(range_relative=0.5).resolve(dataset, None) == whole


@each_type
def test_one_value_beyond_the_bound_is_found(dtype: str) -> None:
    x = counts(dtype)
    y = h5lossy.decode(h5lossy.encode(x, PFPL(absolute=3)), shape=x.shape)
    bound = ErrorBound("absolute", 3.5)
    assert h5lossy.largest_error(x, y, bound).holds
    assert h5lossy.assess(x, y, bound=bound).ok
    y[3, 4] = x[3, 4] - 4
    found = h5lossy.largest_error(x, y, bound)
    assert (found.violations, found.max_error) == (1, 4)
    assert f"first at (3, 4): {x[3, 4]} became {y[3, 4]}" in found.problems[0]
    report = h5lossy.assess(x, y, bound=bound)
    assert (report.bound.violations, report.bound.listed[0].at) == (1, (3, 4))
    assert report.error.max_abs == 4
    assert not h5lossy.largest_error(x, y, ErrorBound("lossless")).holds


@each_type
def test_the_fill_value_is_compared_bit_for_bit(dtype: str) -> None:
    x = counts(dtype)
    fill = x[0, 0]
    bound = ErrorBound("absolute", 200)
    assert h5lossy.largest_error(x, x, bound, fill).count == np.count_nonzero(x != fill)
    for at, other in ((tuple(np.argwhere(x == fill)[0]), fill - 1), ((5, 7), fill)):
        y = x.copy()
        y[at] = other
        assert (x[at] == fill) != (other == fill)
        assert h5lossy.largest_error(x, y, bound, fill).special_changed == 1
        assert sum(h5lossy.assess(x, y, bound=bound, fill_value=fill).special.failed.values()) == 1
    mark = x[5, 7] - 1  # a further missing value
    assert h5lossy.largest_error(x, x, bound, fill, mark).special_changed == 0
    y = x.copy()
    y[5, 7] = mark
    assert h5lossy.largest_error(x, y, bound, fill, mark).special_changed == 1
    assert h5lossy.assess(
        y, x, bound=bound, fill_value=fill, missing_value=mark
    ).special.failed == {"missing_lost": 1}


wide = st.integers(0, 2**64 - 1)


@given(st.lists(st.tuples(wide, st.integers(-5, 5) | st.integers(-(2**64), 2**64)), min_size=1))
def test_errors_of_64_bits_are_exact(pairs: list[tuple[int, int]]) -> None:
    for dtype in ("<u8", ">i8"):
        info = np.iinfo(dtype)
        x = np.array([int(info.min) + a for a, _ in pairs], dtype)
        y = np.array([min(max(int(info.min) + a + e, info.min), info.max) for a, e in pairs], dtype)
        errors = [b - a for a, b in zip(numbers(x), numbers(y), strict=True)]
        sizes = [*map(abs, errors)]
        limit = sorted(sizes)[len(sizes) // 2]
        bound = ErrorBound("absolute", float(limit) + 0.5)
        allowed = int(Fraction(bound.value))
        report = h5lossy.assess(x, y, bound=bound, metrics="standard")
        assert report.bound.violations == sum(size > allowed for size in sizes)
        first = [i for i, size in enumerate(sizes) if size > allowed][:16]
        assert [violation.at for violation in report.bound.listed] == [(i,) for i in first]
        assert report.error.max_abs == float(max(sizes))
        assert report.error.max_at == (sizes.index(max(sizes)),)
        assert report.error.max_original == numbers(x)[sizes.index(max(sizes))]
        assert (report.error.min, report.error.max) == (float(min(errors)), float(max(errors)))
        assert report.error.mean_abs == pytest.approx(sum(sizes) / len(sizes), rel=1e-14)
        found = h5lossy.largest_error(x, y, bound)
        assert found.violations == report.bound.violations
        assert h5lossy.assess(x, y, lossless=True).ok == (not any(errors))


def test_assessors_of_64_bits_are_merged_and_pickled() -> None:
    x = counts("i8", (40, 60))
    y = x.copy()
    y[::3] -= 1
    y[5, 5], y[30, 2] = x[5, 5] - 7, x[30, 2] - 7
    whole = h5lossy.assess(x, y, absolute=3, metrics="per_chunk")
    parts = [Assessor(x.shape, ">i8", planes=p, absolute=3) for p in ((0, 20), (20, 40))]
    for part in parts:
        planes = slice(*part.wanted)
        part.update(x[planes], y[planes])
    one, other = parts
    for pair in ((one, other), (other, one)):
        merged = pickle.loads(pickle.dumps(pair[0]))
        merged.merge(pair[1])
        report = merged.result()
        assert report.bound == whole.bound
        assert (report.error.max_abs, report.error.max_at) == (7, (5, 5))
        assert report.error.rmse == pytest.approx(whole.error.rmse, rel=1e-14)


def test_errors_of_each_chunk_are_exact_for_64_bits(tmp_path: Path) -> None:
    x = counts("u8", (8, 6))
    y = x.copy()
    y[5, 4] -= np.uint64(9)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = file.create_dataset("x", data=y, chunks=(4, 3), fillvalue=x[0, 0])
        report = h5lossy.assess(x, dataset, metrics="per_chunk")
    assert report.per_chunk.max_abs == (0, 0, 0, 9)


# ------------------------------------------------------------------------------------------------
# Datasets: write and verify, netCDF4
# ------------------------------------------------------------------------------------------------


@each_type
@pytest.mark.parametrize("codec", [PFPL(absolute=3), PFPL(lossless=True)], ids=str)
def test_what_is_written_is_verified(tmp_path: Path, dtype: str, codec: PFPL) -> None:
    x = counts(dtype)
    fill = x[0, 0]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = file.create_dataset(
            "x", x.shape, dtype, chunks=(16, 32), compression=codec, fillvalue=fill
        )
        h5lossy.write(dataset, x, verify=True)
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        found = h5lossy.verify(file["x"], against=x)
        assert (found.ok, found.recorded) == (True, 6)
        assert found.record["found"]["max_abs"] == (0 if codec.lossless else 3)
        assert found.record["found"]["valid"] == np.count_nonzero(x != fill)
        h5lossy.write(file["x"], x[:16, :32] - 9, np.s_[:16, :32])
        assert [problem.chunk for problem in h5lossy.verify(file["x"]).outdated] == [(0, 0)]
        assert h5lossy.verify(file["x"], against=x).is_damaged


@pytest.mark.parametrize("dtype", ["u1", "i2", "u2", "i4", "u8"])
def test_netcdf4_variables_take_the_filter(tmp_path: Path, dtype: str) -> None:
    netcdf = pytest.importorskip("netCDF4")
    from h5lossy.netcdf4 import def_var_filter  # noqa: PLC0415

    x = counts(dtype)
    with netcdf.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("y", 40)
        file.createDimension("x", 60)
        for name in ("a", "b"):
            variable = file.createVariable(name, dtype, ("y", "x"), chunksizes=(20, 60))
            variable.set_auto_maskandscale(False)
            if name == "b":
                for codec, why in (
                    (AATROX(absolute=3), "give a bound in counts"),
                    (PFPL(pointwise_relative=0.1), "take no pointwise-relative bound"),
                    (PFPL(noise=1), "noise is a bound of integers of up to 32 bits"),
                )[: 3 if dtype == "u8" else 2]:
                    with pytest.raises(UnsupportedError, match=why):
                        def_var_filter(variable, codec)
            def_var_filter(variable, PFPL(absolute=3) if name == "a" else PFPL(lossless=True))
            variable[...] = x
    with h5py.File(tmp_path / "a.nc") as file:
        assert h5lossy.largest_error(x, file["a"], ErrorBound("absolute", 3), None).max_error == 3
        np.testing.assert_array_equal(file["b"], x)


# ------------------------------------------------------------------------------------------------
# The command line
# ------------------------------------------------------------------------------------------------


@each_type
def test_cd_values_are_those_that_a_dataset_stores(dtype: str) -> None:
    fill = np.iinfo(dtype).max
    with h5py.File("a.h5", "w", driver="core", backing_store=False) as file:
        dataset = file.create_dataset(
            "x", (9, 9), dtype, chunks=(4, 5), compression=PFPL(absolute=3.5), fillvalue=fill
        )
        _, _, stored, _ = dataset.id.get_create_plist().get_filter(0)
    names = [np.dtype(dtype).name] if dtype[0] != ">" else []
    for name in (dtype, *names):
        options = ("--dtype", name, "--chunks", "4x5", "--fill-value", fill, "--json")
        found = json.loads(command("cd-values", "--absolute", "3.5", *options).output)
        assert found["cd_values"] == [word & 0xFFFFFFFF for word in stored]
    options = ("--absolute", "3", "--chunks", "4x5", "--dtype", dtype)
    said = command("cd-values", *options, "--codec", "aatrox", status=2).output
    assert "give a bound in counts" in said
    said = command("cd-values", *options, "--fill-value", "1.5", status=2).output
    assert "fill_value must be a" in said


def packed(x: Array, scale: Any = 0.01, offset: float = 250.0) -> Array:
    return np.round((x - offset) / float(scale))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Make a file with integers of most kinds."""
    y, x = np.mgrid[:256, :256]
    frames = np.random.default_rng(3).poisson(1000 + 400 * np.sin(x / 30), (4, 256, 256))
    frames[:, 100:103] = 65535
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("frames", data=frames.astype("u2"), chunks=(1, 256, 256))
        temperature = packed(280 + 20 * np.sin(x / 50)).astype("i2")
        temperature[5, 5] = -32768
        for name, scale in (("t2m", 0.01), ("t_f4", np.float32(0.01)), ("t_minus", -0.01)):
            t2m = file.create_dataset(name, data=temperature, chunks=(64, 256), fillvalue=-32768)
            t2m.attrs["scale_factor"], t2m.attrs["add_offset"] = scale, 250.0
            t2m.attrs["_FillValue"] = np.int16(-32768)
        byte = file.create_dataset("byte", data=(100 + x // 2).astype("u1").view("i1"))
        byte.attrs["scale_factor"], byte.attrs["_Unsigned"] = 0.5, "true"
        labels = (x // 40 + y // 40 * 7).astype("u2")
        file.create_dataset(
            "labels", data=labels, chunks=(256, 256), compression="gzip", shuffle=True
        )
        file.create_dataset("plain", data=labels)
        file.create_dataset("flag", data=labels > 5)
        file["time"] = np.arange(5000) * 10**9 + 1_700_000_000_000_000_000
        file["float"] = (280 + 20 * np.sin(x / 50)).astype("f4")
    return tmp_path / "a.h5"


def test_only_what_is_packed_gets_a_bound_that_was_given_for_all(source: Path) -> None:
    target = source.with_name("b.h5")
    said = command("repack", source, target, "--absolute", "0.055", "--codec", "aatrox").output
    lossless = dict.fromkeys(("/byte", "/frames", "/plain", "/time"), PFPL(lossless=True))
    assert codecs_in(target) == lossless | {
        "/float": AATROX(absolute=0.055),
        **dict.fromkeys(("/t2m", "/t_f4", "/t_minus"), PFPL(absolute=5)),
    }
    assert "±5 counts, 0.05 unpacked (for 0.055)" in said
    assert "copied unchanged (an enumeration), 1: /flag" in said
    assert "copied unchanged (smaller as it is than losslessly), 1: /labels" in said
    assert "not named for a bound): /frames, /plain, /time" in said
    assert "_Unsigned makes other numbers of them, for which a bound would not hold): /byte" in said
    with h5py.File(source) as old, h5py.File(target) as new:
        for name in (*lossless, "flag", "labels"):
            np.testing.assert_array_equal(new[name], old[name])
        t2m = new["t2m"]
        assert np.abs(t2m[...].astype(int) - old["t2m"][...]).max() == 5
        assert np.argwhere(t2m[...] == -32768).tolist() == [[5, 5]]
        settings = json.loads(t2m.attrs["h5lossy"])
        assert settings["requested"] == {"absolute": 0.055}
        assert settings["stored"] == {"absolute": 5.0}
        assert (
            b"5.0 of the numbers packed with scale_factor 0.01" in t2m.attrs[PROVENANCE_ATTRIBUTE]
        )
        # The bound of the file is one of the stored numbers, a given one is of the values.
        assert h5lossy.assess(old["t2m"], t2m).error.max_abs == 5
        report = h5lossy.assess(old["t2m"], t2m, absolute=0.055)
        assert report.ok
        assert report.error.max_abs == pytest.approx(0.05)
    assert command("verify", target, "--against", source).output.count("PASS") == 8
    assert (
        "done before"
        in command("repack", source, target, "--absolute", "0.055", "--codec", "aatrox").output
    )


def test_the_bound_of_packed_values_is_never_exceeded(source: Path) -> None:
    # 0.3 / 0.1 is below 3 in exact arithmetic, and 0.05 / float32's 0.01 above 5.
    target = source.with_name("b.h5")
    with h5py.File(source, "r+") as file:
        file["t2m"].attrs["scale_factor"] = 0.1
    rules = ("-d", "t2m:absolute=0.3", "-d", "t_f4:absolute=0.05", "-d", "t_minus:absolute=0.009")
    said = command("repack", source, target, *rules).output
    assert codecs_in(target) == {
        "/t2m": PFPL(absolute=2), "/t_f4": PFPL(absolute=5), "/t_minus": PFPL(lossless=True)
    }  # fmt: skip
    assert "±2 counts, 0.2 unpacked (for 0.3)" in said
    assert "lossless (for 0.009)" in said


def test_packed_units_are_the_stored_numbers(source: Path) -> None:
    for options in (("--absolute", 7, "--packed-units"), ("-d", "t*:absolute=7,packed-units")):
        target = source.with_name("b.h5")
        said = command("repack", source, target, *options, "--force").output
        assert codecs_in(target)["/t2m"] == PFPL(absolute=7)
        assert "±7 counts, 0.07 unpacked " in said
    said = command(
        "repack", source, target, "--lossless", "-d", "t2m:packed-units", status=2
    ).output
    assert "packed-units goes with a bound" in said
    rules = source.with_name("rules.toml")
    rules.write_text('[[rule]]\ndataset = "/t2m"\nabsolute = 3\npacked-units = true\n')
    command("repack", source, target, "--rules", rules, "--force")
    assert codecs_in(target) == {"/t2m": PFPL(absolute=3)}


def test_a_range_is_taken_in_counts(source: Path) -> None:
    target = source.with_name("b.h5")
    rule = ("-d", "frames:range-relative=1e-3")
    options = ("--range-relative", "1e-3", *rule, "--missing-value", "65535")
    said = command("repack", source, target, *options).output
    with h5py.File(source) as file:
        frames, t2m = file["frames"][...], file["t2m"][...].astype(int)
    frames = frames[frames != 65535].astype(int)
    found = codecs_in(target)
    assert found["/frames"] == PFPL(absolute=(frames.max() - frames.min()) // 1000)
    t2m = t2m[t2m != -32768]
    assert found["/t2m"] == PFPL(absolute=(t2m.max() - t2m.min()) // 1000)
    assert f"±{found['/t2m'].absolute:.0f} counts, 0.0" in said


def test_marks_that_are_moved_are_named(source: Path) -> None:
    target = source.with_name("b.h5")
    said = command("repack", source, target, "-d", "frames:absolute=3").output
    assert "name it with --missing-value: /frames (3072 times 65535)" in said
    said = command(
        "repack", source, target, "-d", "frames:absolute=3", "--missing-value", 65535, "--force"
    ).output
    assert "the largest integer" not in said
    with h5py.File(source) as old, h5py.File(target) as new:
        np.testing.assert_array_equal(new["frames"][...] == 65535, old["frames"][...] == 65535)
        assert new["frames"].fillvalue == 65535


def test_a_second_missing_value_stays_exact_or_stops_the_copy(tmp_path: Path) -> None:
    x = np.random.default_rng(0).integers(1000, 3000, (100, 200)).astype("i2")
    x[3], x[4] = -9999, -32768
    target = tmp_path / "b.h5"
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = file.create_dataset("x", data=x, fillvalue=-32768)
        dataset.attrs["missing_value"] = np.int16(-9999)
    for bound in ("absolute=20", "noise=1,absolute=3", "range-relative=0.1"):
        command("repack", tmp_path / "a.h5", target, "-d", f"x:{bound}", "--force")
        assert codecs_in(target)["/x"].exact == (-9999,)
        with h5py.File(target) as file:
            for mark in (-9999, -32768):
                np.testing.assert_array_equal(file["x"][...] == mark, x == mark)
    # With a third one, 0, they are exact only if bins are centred on them.
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        file["x"].attrs["missing_value"] = np.array([-9999, 0], "i2")
    # -9999 = -9 * 11 * 101: of 41 bins none is centred on it, and of 33 one is.
    said = command("repack", tmp_path / "a.h5", target, "-d", "x:absolute=16.5", "--force").output
    assert codecs_in(target) == {"/x": PFPL(absolute=16.5)}
    command("repack", tmp_path / "a.h5", target, "-d", "x:absolute=51", "--force")
    assert codecs_in(target) == {"/x": PFPL(absolute=50)}
    for bound in (16.5, 51):
        command("repack", tmp_path / "a.h5", target, "-d", f"x:absolute={bound}", "--force")
        with h5py.File(target) as file:
            np.testing.assert_array_equal(file["x"][3:5], x[3:5])
    said = command(
        "repack", tmp_path / "a.h5", target, "-d", "x:absolute=20", "--force", status=1
    ).output
    assert "-9999 at (3, 0) would no longer be missing" in said


def test_files_that_bitshuffle_compressed_are_repacked_and_compared(tmp_path: Path) -> None:
    hdf5plugin = pytest.importorskip("hdf5plugin")
    x = np.random.default_rng(3).poisson(9, (6, 128, 128)).astype("u4")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, filters in (("lz4", hdf5plugin.Bitshuffle()), ("zstd", hdf5plugin.Zstd())):
            file.create_dataset(name, data=x, chunks=(1, 128, 128), **filters)
    options = ("-d", "lz4:absolute=2", "-d", "zstd:lossless")
    # In a process that has not imported hdf5plugin.
    h5lossy_program("repack", tmp_path / "a.h5", tmp_path / "b.h5", *options)
    assert codecs_in(tmp_path / "b.h5") == {"/lz4": PFPL(absolute=2), "/zstd": PFPL(lossless=True)}
    with h5py.File(tmp_path / "b.h5") as file:
        assert h5lossy.largest_error(x, file["lz4"], ErrorBound("absolute", 2)).max_error == 2
        np.testing.assert_array_equal(file["zstd"], x)
    layout = h5py.VirtualLayout(x.shape, x.dtype)
    layout[...] = h5py.VirtualSource("a.h5", "lz4", x.shape)
    with h5py.File(tmp_path / "virtual.h5", "w") as file:
        file.create_virtual_dataset("lz4", layout)
    with h5py.File(tmp_path / "links.h5", "w") as file:
        file["lz4"] = h5py.ExternalLink("a.h5", "lz4")
    h5lossy_program("verify", tmp_path / "b.h5", "--against", tmp_path / "a.h5")
    for name in ("a.h5", "virtual.h5", "links.h5"):
        original = f"{tmp_path / name}:/lz4"
        h5lossy_program("assess", original, f"{tmp_path / 'b.h5'}:/lz4", "--absolute", "2")
    h5lossy_program("tune", tmp_path / "a.h5", "-d", "zstd", "--ratio", "2", "--codecs", "pfpl")
    h5lossy_program("sweep", tmp_path / "a.h5", "-d", "zstd", "--codecs", "pfpl", "--bounds", "1")


def test_a_scale_factor_that_is_no_number_keeps_integers_lossless(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(9999)
        file["x"].attrs["scale_factor"] = "tenth"
    said = command("repack", tmp_path / "a.h5", tmp_path / "b.h5", "-d", "x:absolute=3").output
    assert "kept losslessly (attribute scale_factor must be one number, got 'tenth'): /x" in said
    assert codecs_in(tmp_path / "b.h5") == {"/x": PFPL(lossless=True)}


@pytest.mark.slow
def test_sweep_and_tune_take_whole_counts(source: Path) -> None:
    options = ("-d", "frames", "--json", "--missing-value", 65535)
    found = json.loads(
        command("sweep", source, *options, "--kind", "absolute", "--bounds", "0.5,3.5").output
    )["settings"]
    assert [(row["codec"], row["max_error"]) for row in found] == [
        ("pfpl", 0), ("pfpl", 3), ("interp", 0), ("interp", 3), ("auto-size", 0), ("auto-size", 3)
    ]  # fmt: skip
    said = command("sweep", source, *options, "--codecs", "cuszp2,aatrox", status=2).output
    assert "none of --codecs takes uint16" in said
    best = json.loads(command("tune", source, *options, "--require", "psnr>=50").output)["best"]
    assert best["absolute"] == int(best["absolute"]) > 0
    assert best["measures"]["psnr"] >= 50
    found = json.loads(command("tune", source, *options, "--require", "psnr>=inf").output)
    assert found["best"]["absolute"] == 0
    assert "frames:lossless,codec=" in found["command"]


@pytest.mark.slow
def test_tune_writes_rules_in_the_units_of_packed_data(source: Path) -> None:
    rules, target = source.with_name("rules.toml"), source.with_name("b.h5")
    said = command("tune", source, "--all", "--require", "psnr>=50", "--rules", rules).output
    tuned = {line for line in said.splitlines() if line.startswith("/")}
    assert tuned == {"/float", "/t2m", "/t_f4", "/t_minus"}  # all others might be labels
    command("repack", source, target, "--rules", rules)
    found = codecs_in(target)
    assert found.keys() == tuned
    bound = found["/t2m"].absolute
    assert bound == int(bound) >= 1
    assert f"±{bound:.0f} count" in command("info", target).output
    with h5py.File(source) as old, h5py.File(target) as new:
        psnr = h5lossy.assess(old["t2m"], new["t2m"]).error.psnr
    assert psnr >= 50

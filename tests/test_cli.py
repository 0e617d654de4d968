# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The command line, except `h5lossy repack`, which has its own file."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import json
import math
import os
import re
import shlex
import subprocess
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import pytest

import h5lossy
from checks import assert_kept
from h5lossy import AATROX, PFPL, Auto, CuSZp2
from h5lossy._cli import main
from h5lossy._cli._options import DEFAULT_CODEC
from h5lossy._codecs import CODECS
from h5lossy._device_speeds import expected_speedups, measure
from h5lossy._verification.bound_checker import BoundChecker
from hdf5_helpers import (
    bound_of,
    cd_values,
    cd_values_printed,
    command_line,
    create,
    creation_list,
    environment,
    field,
    frames,
    h5lossy_command,
    h5lossy_program,
    on_terminal,
    run,
    run_python,
    stored_chunks,
    tool,
    with_plugin,
)
from matrix import SETTINGS, codec_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from h5lossy._codecs import Codec


ABSOLUTE = PFPL(absolute=1e-3)

# ------------------------------------------------------------------------------------------------
# All commands
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "which"),
    [
        (["verify", ""], "the argument behind 'verify'"),
        (["verify", "a.h5", "--against", ""], "the argument behind '--against'"),
        (["verify", "a.h5", "--against="], "--against"),
        (["assess", "", "a.h5"], "the argument behind 'assess'"),
        (["repack", "a.h5", ""], "the argument behind 'a.h5'"),
        (["info", ""], "the argument behind 'info'"),
        (["tune", "a.h5", "-d", "", "--ratio", "5"], "the argument behind '-d'"),
    ],
)
def test_an_empty_argument_is_not_the_current_folder(arguments: list[str], which: str) -> None:
    said = h5lossy_command(*arguments, status=2)
    assert f"{which} is empty; is a variable of the shell not set?" in said.output


def test_the_version_is_the_packages() -> None:
    assert h5lossy_command("--version").output == f"h5lossy, version {h5lossy.__version__}\n"


@pytest.mark.parametrize("command", main.commands)
def test_every_command_explains_itself(command: str) -> None:
    for option in ("-h", "--help"):
        assert h5lossy_command(command, option).output.startswith(f"Usage: main {command}")


def test_the_installed_program_is_this_command_line() -> None:
    try:
        metadata.version("h5lossy")
    except metadata.PackageNotFoundError:
        pytest.skip("h5lossy is not installed: it runs from its source tree")
    [program] = metadata.entry_points(group="console_scripts", name="h5lossy")
    assert program.load() is main


def test_a_pipe_that_nobody_reads_is_no_error(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for i in range(1000):
            file.create_dataset(f"{i}", (8,), "f4", chunks=(4,), compression=ABSOLUTE)
    ours = shlex.join(command_line("info", tmp_path / "a.h5"))

    done = run("bash", "-o", "pipefail", "-c", f"{ours} | head -n 1", status=None)

    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "utf-8"])
def test_what_standard_output_has_no_character_for_fails_no_command(
    tmp_path: Path, encoding: str
) -> None:
    old, new, env = tmp_path / "a.h5", tmp_path / "b.h5", environment(PYTHONIOENCODING=encoding)
    with h5py.File(old, "w") as file:
        file["\N{GREEK SMALL LETTER THETA}"] = field((100, 100)).astype("i4")
    said = h5lossy_program("repack", old, new, "--dataset", "/*:noise=2", env=env).stdout
    assert new.exists()
    assert f"file: {old}" in said
    shown = h5lossy_program("info", new, env=env).stdout
    assert "√" in shown if encoding == "utf-8" else r"\u221ax counts" in shown


# ------------------------------------------------------------------------------------------------
# cd-values
# ------------------------------------------------------------------------------------------------

BOUND_OPTIONS = {
    "absolute": (["--absolute", "1e-3"], PFPL(absolute=1e-3)),
    "pointwise-relative": (["--pointwise-relative", "1e-4"], PFPL(pointwise_relative=1e-4)),
    "range-relative": (["--range-relative", "1e-5"], PFPL(range_relative=1e-5)),
    "digits": (["--digits", "3"], PFPL(significant_digits=3)),
    "lossless": (["--lossless"], PFPL(lossless=True)),
    "no checksum": (["--absolute", "0.1", "--no-checksum"], PFPL(absolute=0.1, checksum=False)),
    "lossless, no checksum": (["--lossless", "--no-checksum"], PFPL(lossless=True, checksum=False)),
    "auto": (["--absolute", "0.1", "--codec", "auto"], Auto(absolute=0.1)),
    "aatrox": (["--codec", "aatrox", "--range-relative", "0.1"], AATROX(range_relative=0.1)),
    "cuszp2": (["--absolute", "0.1", "--codec", "cuszp2"], CuSZp2(absolute=0.1)),
    "cuszp2, fixed, 3": (
        ["--absolute", "0.1", "--codec", "cuszp2", "--mode", "fixed", "--dimensions", "3"],
        CuSZp2(absolute=0.1, mode="fixed", dimensions=3),
    ),
    "cuszp2, plain, no checksum": (
        ["--no-checksum", "--lossless", "--codec", "CuSZp2", "--mode", "plain"],
        CuSZp2(lossless=True, mode="plain", checksum=False),
    ),
}


@pytest.mark.parametrize(("options", "codec"), BOUND_OPTIONS.values(), ids=BOUND_OPTIONS)
def test_cd_values_for_h5py_are_arguments(tmp_path: Path, options: list[str], codec: PFPL) -> None:
    number_and_words, with_class = cd_values_printed(*options)["h5py"]

    for arguments in (number_and_words, with_class):
        given = eval(f"dict({arguments})", {"h5lossy": h5lossy})
        with h5py.File(tmp_path / "a.h5", "w") as file:
            dataset = file.create_dataset("x", (8,), "f4", chunks=(4,), **given)
            assert cd_values(dataset)[:5] == (*codec.filter_options, 0)[:5]


@pytest.mark.parametrize(("options", "codec"), BOUND_OPTIONS.values(), ids=BOUND_OPTIONS)
def test_cd_values_for_h5repack_are_a_command(
    tmp_path: Path, options: list[str], codec: Codec
) -> None:
    tool("h5repack")
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file.create_dataset("my data", data=field((40, 40)), chunks=(16, 16))
        file.create_dataset("other", data=field((40, 40)), chunks=(16, 16))

    command, check = cd_values_printed(*options, "--var", "my data")["h5repack"]
    run("sh", "-c", command, cwd=tmp_path, env=with_plugin())

    [name, *arguments] = shlex.split(check, comments=True)
    assert name == "h5lossy"
    assert (
        "/my data"
        in h5lossy_command(*(str(tmp_path / a) if "." in a else a for a in arguments)).stdout
    )
    with h5py.File(tmp_path / "out.h5") as file:
        assert cd_values(file["my data"])[:5] == (*codec.filter_options, 0)[:5]
        assert file["other"].id.get_create_plist().get_nfilters() == 0


def netcdf_file(folder: Path, line: str = "") -> Path:
    cdl = f"netcdf in {{ dimensions: x = 3000 ; variables: float t(x) ; {line} data: t = 1, 2 ; }}"
    (folder / "in.cdl").write_text(cdl)
    path = folder / "in.nc"
    run(tool("ncgen"), "-4", "-o", path, folder / "in.cdl", env=with_plugin())
    return path


#: Bounds that nccopy, which reads them as text, must not round.
TYPED = [0.1, 1 / 3, 1e-5, 1e16, 123456.789, 5e-324, 1.7976931348623157e308, 0.5]


@pytest.mark.parametrize(
    ("options", "codec"),
    [*BOUND_OPTIONS.values(), *((["--absolute", repr(x)], PFPL(absolute=x)) for x in TYPED)],
    ids=[*BOUND_OPTIONS, *map(repr, TYPED)],
)
def test_cd_values_for_nccopy_are_a_command(
    tmp_path: Path, options: list[str], codec: Codec
) -> None:
    tool("nccopy")
    netcdf_file(tmp_path)

    [command] = cd_values_printed(*options, "--var", "t")["nccopy"]
    run("sh", "-c", command, cwd=tmp_path, env=with_plugin())

    with h5py.File(tmp_path / "out.nc") as file:
        assert cd_values(file["t"])[:5] == (*codec.filter_options, 0)[:5]


@pytest.mark.parametrize(("options", "codec"), BOUND_OPTIONS.values(), ids=BOUND_OPTIONS)
def test_cd_values_for_ncgen_are_an_attribute(
    tmp_path: Path, options: list[str], codec: Codec
) -> None:
    [line] = cd_values_printed(*options, "--var", "t")["ncgen"]

    path = netcdf_file(tmp_path, line)

    with h5py.File(path) as file:
        fill_value_of_netcdf = 1 << 8
        words = list(cd_values(file["t"])[:5])
        words[4] &= ~fill_value_of_netcdf
        assert tuple(words) == (*codec.filter_options, 0)[:5]


@pytest.mark.parametrize("name", ["my data(2)", "2m", 'a"b', "t-é", "it's $x"])
def test_cd_values_escape_names_for_ncgen(tmp_path: Path, name: str) -> None:
    [line] = cd_values_printed("--lossless", "--var", name)["ncgen"]
    cdl_name = line.partition(":_Filter")[0]
    netcdf_file(tmp_path, f"float {cdl_name}(x) ; {line}")

    with h5py.File(tmp_path / "in.nc") as file:
        assert h5lossy.describe(file[name]).codec == "pfpl"


def test_cd_values_quote_names_for_the_shell(tmp_path: Path) -> None:
    command, _ = cd_values_printed("--lossless", "--var", "it's $HOME")["h5repack"]

    done = run("sh", "-c", f"printf '%s\\n' {command.removeprefix('h5repack ')}")

    assert done.stdout.splitlines()[1].startswith("it's $HOME:UD=")


WRONG_BOUNDS = {
    "none": ([], "give a bound"),
    "two": (["--absolute", "1", "--lossless"], "give one bound, not 2"),
    "zero": (["--absolute", "0"], "absolute must be greater than 0 and finite, got 0"),
    "negative": (["--range-relative=-1"], "range_relative must be greater than 0"),
    "infinite": (["--absolute", "inf"], "absolute must be greater than 0 and finite"),
    "NaN": (["--absolute", "nan"], "absolute must be greater than 0 and finite"),
    "pointwise 1": (["--pointwise-relative", "1"], "pointwise_relative must be .* less than 1"),
    "no number": (["--absolute", "small"], "'small' is not a valid float"),
    "no digits": (["--digits", "0"], "Error: digits must be from 1 to 15, got 0"),
    "half a digit": (["--digits", "2.5"], "'2.5' is not a valid integer"),
    "two bounds": (["--digits", "3", "--absolute", "1"], "one bound, not 2 .absolute, sig"),
    "a codec and no bound": (["--codec", "cuszp2"], "give a bound"),
    "no codec of that name": (["--lossless", "--codec", "sz3"], "'sz3' is not one of 'pfpl', "),
    "no mode of that name": (
        ["--lossless", "--codec", "cuszp2", "--mode", "best"],
        "'best' is not one of 'plain', 'outlier', 'fixed'",
    ),
}


@pytest.mark.parametrize(("options", "message"), WRONG_BOUNDS.values(), ids=WRONG_BOUNDS)
def test_wrong_bounds_are_wrong_usage(options: list[str], message: str) -> None:
    said = h5lossy_command("cd-values", *options, status=2)

    assert re.search(message, said.stderr)
    assert said.stdout == ""


@pytest.mark.parametrize("make", SETTINGS.values(), ids=SETTINGS)
def test_every_codec_in_every_mode_has_options(make: Callable[..., Codec]) -> None:
    codec = make(absolute=1e-3)

    found = cd_values_printed("--absolute", "1e-3", *codec_options(codec))

    assert f"compression=h5lossy.{codec!r}" in found["h5py"]
    assert f"compression_opts=({', '.join(map(str, codec.filter_options))})" in found["h5py"][0]


def test_the_options_of_one_codec_are_refused_with_another(codec: type[Codec]) -> None:
    theirs = {own.name: cls for cls in CODECS.values() for own in cls.choices()}
    assert theirs
    for name, owner in theirs.items():
        default = next(own.default for own in owner.choices() if own.name == name)
        option = [f"--{name.replace('_', '-')}", *([] if default is False else [str(default)])]
        message = f"{name} is a setting of codec {owner.codec_name}, and not of "
        if name not in [own.name for own in codec.choices()]:
            options = ["--lossless", "--codec", codec.codec_name, *option]
            assert (
                message + codec.codec_name
                in h5lossy_command("cd-values", *options, status=2).stderr
            )
        if name not in [own.name for own in DEFAULT_CODEC.choices()]:
            said = h5lossy_command("cd-values", "--lossless", *option, status=2).stderr
            assert f"{message}{DEFAULT_CODEC.codec_name}, the default; name the codec" in said


@pytest.mark.parametrize("command", ["demo", "repack", "cd-values"])
def test_every_command_that_takes_a_bound_takes_every_codec(command: str) -> None:
    said = " ".join(h5lossy_command(command, "--help").output.split())

    assert f"--codec [{'|'.join(cls.codec_name for cls in CODECS.values())}]" in said
    for cls in CODECS.values():
        for own in cls.choices():
            choices = "|".join(map(str, own.metadata["choices"]))
            value = "" if own.default is False else f" [{choices}]"
            if len(own.metadata["choices"]) > 8:
                value = f" {own.name.upper()}"
            assert f"--{own.name}{value} " in said
            default = "" if own.default is False else f" [default: {own.default}]"
            assert f"Of {cls.codec_name}: {own.metadata['help']}{default}" in said


# ------------------------------------------------------------------------------------------------
# plugin-path, doctor
# ------------------------------------------------------------------------------------------------


def test_plugin_path_prints_the_folder_and_nothing_else() -> None:
    said = h5lossy_program("plugin-path")

    assert (said.stdout, said.stderr) == (f"{h5lossy.PLUGIN_PATH}\n", "")
    assert (Path(h5lossy.PLUGIN_PATH) / "libh5lossy.so").is_file()


def test_doctor_finds_this_machine_well() -> None:
    said = h5lossy_program("doctor").stdout

    assert said.splitlines()[0].startswith(f"h5lossy {h5lossy.__version__}")
    assert h5py.version.hdf5_version in said
    assert "scalar" in said
    for cls in CODECS.values():
        assert f"tried {cls(absolute=1e-3)!r}: 49996 values within 0." in said
    assert said.splitlines()[-1] == "all is well"


def test_doctor_measures_what_the_table_of_speeds_has() -> None:
    speeds = measure("cpu", "scalar")
    measured = {(codec, direction) for codec in speeds for direction in speeds[codec]}

    assert all(speed > 0 for codec in speeds.values() for speed in codec.values())
    assert set(expected_speedups()) <= measured


def test_doctor_lists_every_hdf5_library() -> None:
    code = "import netCDF4; print(netCDF4.__hdf5libversion__)"
    other = run_python(code, status=None)
    if other.returncode:
        pytest.skip("netCDF4 is not installed")

    rows = [line for line in h5lossy_program("doctor").stdout.splitlines() if "libhdf5" in line]
    alone = h5lossy_program("doctor", "--no-import").stdout

    assert any(row.split()[:2] == [other.stdout.strip(), "h5lossy"] for row in rows)
    assert sum("libhdf5" in line for line in alone.splitlines()) == 1


def test_doctor_shows_the_variables_that_matter() -> None:
    said = h5lossy_program("doctor", "--no-import", env=with_plugin()).stdout
    assert f"HDF5_PLUGIN_PATH={h5lossy.PLUGIN_PATH}" in said

    said = h5lossy_program("doctor", "--no-import", env=environment(H5LOSSY_DEVICE="cpu")).stdout
    assert "export HDF5_PLUGIN_PATH=$(h5lossy plugin-path)" in said
    assert "chunks go to the CPU (H5LOSSY_DEVICE)" in said


def test_doctor_says_what_is_wrong_and_ends_with_status_1() -> None:
    said = h5lossy_program("doctor", env=environment(H5LOSSY_BACKEND="turbo"), status=1)

    assert "H5LOSSY_BACKEND=turbo" in said.stdout
    assert "no usable backend 'turbo': unset H5LOSSY_BACKEND, or set it to " in said.stderr


def test_doctor_goes_on_where_a_package_cannot_be_imported(tmp_path: Path) -> None:
    (tmp_path / "tables.py").write_text("raise ValueError('numpy.dtype size changed')\n")
    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    said = h5lossy_program("doctor", env=environment(PYTHONPATH=path), status=1)

    assert "tables is installed, but import tables fails: numpy.dtype size changed" in said.stderr
    assert f"tried {ABSOLUTE!r}: 49996 values" in said.stdout


def test_doctor_goes_on_where_the_speed_of_a_gpu_cannot_be_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(device: str) -> None:
        raise subprocess.CalledProcessError(-6, ["measure", device])

    module = importlib.import_module("h5lossy._cli.doctor")
    monkeypatch.setattr(module, "measure", fail)
    gpu = h5lossy.Device(name="a GPU", kernels="built in", problem="")
    module._print_devices(dataclasses.replace(h5lossy.get_config(), devices=(gpu,)))

    assert "could not be compared: Command '['measure', 'cpu']' died" in capsys.readouterr().out


def test_doctor_finds_a_filter_that_is_not_registered() -> None:
    code = """
import h5py, h5lossy
from h5lossy._cli import main
h5py.h5z.unregister_filter(h5lossy.FILTER_ID)
main(["doctor", "--no-import"])
"""
    said = run_python(code, env=environment(), status=1)

    assert "the filter is not registered in" in said.stderr
    assert "h5lossy.register()" in said.stderr


# ------------------------------------------------------------------------------------------------
# demo
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "codec"), list(BOUND_OPTIONS.values())[:4], ids=list(BOUND_OPTIONS)[:4]
)
def test_demo_keeps_its_promise_with_every_codec(
    tmp_path: Path, options: list[str], codec: PFPL
) -> None:
    said = h5lossy_command("demo", "--size", "1", "--keep", tmp_path / "new", *options).output

    with h5py.File(tmp_path / "new" / "demo.h5") as file:
        data = file["gzip"][...]
    assert data.nbytes >= 1_000_000
    for cls in CODECS.values():
        with h5py.File(tmp_path / "new" / "demo.h5") as file:
            dataset = file[cls.codec_name]
            assert len(frames(dataset)) == 4
            decoded = dataset[...]
            stored = h5lossy.describe(dataset)
        assert_kept(data, decoded, bound_of(codec))
        assert stored.codec == cls.codec_name
        row = table_row(said, cls.__name__)
        assert row["checked"] == str(data.size)
        assert row["broken"] == "0"
        assert row["ratio"] == f"{stored.ratio:.2f}"
        assert row["bound"] == str(stored.bound)
        if codec.lossless:
            assert row["error/bound"] == "0 (exact)"
        else:
            summary = h5lossy.largest_error(data, decoded, stored.bound)
            assert row["error/bound"] == f"{math.floor(summary.fraction * 1e4) / 1e4:.4f}"


def test_demo_shows_the_codec_that_was_named(tmp_path: Path) -> None:
    options = ["--codec", "cuszp2", "--mode", "plain", "--dimensions", "2"]
    said = h5lossy_command("demo", "--size", "1", "--keep", tmp_path, *options).output

    assert table_row(said, "CuSZp2(mode=plain, dimensions=2)")["bound"] == "absolute 0.01"
    assert [path.name for path in tmp_path.iterdir()] == ["demo.h5"]
    with h5py.File(tmp_path / "demo.h5") as file:
        assert set(file) == {"cuszp2", "gzip"}
        codec = h5lossy.describe(file["cuszp2"]).config
    assert codec == CuSZp2(absolute=0.01, mode="plain", dimensions=2)


def table_row(said: str, name: str) -> dict[str, str]:
    """Return a row of a printed table by its headings."""
    lines = [re.split(r"  +", line.strip()) for line in said.splitlines() if "  " in line.strip()]
    [headings] = [line for line in lines if {"ratio", "bound"} <= set(line)]
    [row] = [line for line in lines if line[0] == name]
    return dict(zip(headings, row, strict=True))


def test_demo_compares_with_gzip_and_shows_speeds() -> None:
    said = h5lossy_command("demo", "--size", "1").output

    ours = [cls.__name__ for cls in CODECS.values()]
    gzip = "shuffle + gzip 4"
    for name in (*ours, gzip):
        row = table_row(said, name)
        assert row["broken"] == "0"
        assert float(row["write MB/s"]) > 0
        assert float(row["read MB/s"]) > 0
    for name in ours:
        assert float(table_row(said, name)["ratio"]) > float(table_row(said, gzip)["ratio"])
    assert "absolute 0.01" in said


def test_demo_leaves_nothing_behind(tmp_path: Path) -> None:
    h5lossy_program("demo", "--size", "1", env=environment(TMPDIR=str(tmp_path)))

    assert list(tmp_path.iterdir()) == []


def test_demo_writes_at_least_64_mb() -> None:
    said = h5lossy_command("demo", "--help").output

    assert re.search(r"--size MB .*default: 64", " ".join(said.split()))


def test_demo_shows_a_progress_bar_on_a_terminal() -> None:
    said = on_terminal(200, "demo", "--size", "1")

    assert "━━━" in said
    ways = len(CODECS) + 1
    assert f"/{ways * 2 * 4.194304:.1f} MB" in said  # written and read, in so many ways


def test_a_long_name_leaves_the_numbers_of_the_progress_bar_their_room(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("group/" * 9 + "temperature", data=field((64, 64)), chunks=(8, 64))
    said = on_terminal(80, "repack", "--absolute", "1e-3", tmp_path / "a.h5", tmp_path / "b.h5")

    assert re.search(r"checking …\S*/temperature ━+.* [\d.]+/[\d.]+ .?B", said)


def test_without_a_terminal_there_is_no_progress_bar() -> None:
    said = h5lossy_program("demo", "--size", "1")

    assert said.stderr == ""
    assert "\x1b" not in said.stdout


def test_demo_ends_with_status_1_where_a_value_breaks_its_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add = BoundChecker.add
    monkeypatch.setattr(BoundChecker, "add", lambda checker, at, x, y: add(checker, at, x, y + 1))

    said = h5lossy_command("demo", "--size", "1", status=1)

    assert "are off by more than absolute 0.01" in said.stderr


# ------------------------------------------------------------------------------------------------
# info
# ------------------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a file with compressed and other datasets."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        options: dict[str, Any] = {"chunks": (32, 32), "compression": ABSOLUTE}
        file.create_dataset("x", data=field((50, 70)), fillvalue=-999.0, **options)
        file.create_dataset("deep/er/y", data=field((50, 70), ">f8"), **options)
        options["compression"] = PFPL(range_relative=1e-4, checksum=False)
        file.create_dataset("deep/z", data=field((50, 70)), **options)
        file.create_dataset("unwritten", (50, 70), "f4", **options)
        file.create_dataset("gzip", data=field((50, 70)), compression="gzip")
        file["plain"] = field((50, 70))
        file["scalar"] = 1.0
        file["text"] = "text"
    return path


def test_info_prints_a_row_for_each_compressed_dataset(path: Path) -> None:
    said = h5lossy_command("info", path).output

    with h5py.File(path) as file:
        for name in ("/x", "/deep/er/y", "/deep/z"):
            described = h5lossy.describe(file[name])
            row = table_row(said, name)
            assert row["codec"] == "pfpl"
            assert row["bound"] == str(described.bound)
            assert row["type"] == str(described.dtype)
            assert row["chunks"] == "32x32"
            assert row["ratio"] == f"{described.ratio:.2f}"
            assert row["chunks stored"] == "6"
            assert row["skipped"] == "0"
    assert table_row(said, "/x")["fill"] == "-999.0"
    assert table_row(said, "/unwritten")["ratio"] == "-"
    assert "not compressed by h5lossy: 4 datasets" in said


def test_info_prints_json(path: Path) -> None:
    said = json.loads(h5lossy_command("info", "--json", "--frames", path).output)

    others = sorted(other["path"] for other in said["others"])
    assert others == ["/gzip", "/plain", "/scalar", "/text"]
    found = {dataset["path"]: dataset for dataset in said["datasets"]}
    with h5py.File(path) as file:
        stored = frames(file["deep/er/y"])
    y = found["/deep/er/y"]
    assert y["dtype"] == ">f8"
    assert y["codec"] == "pfpl"
    assert y["bound"] == {"kind": "absolute", "value": 1e-3}
    assert y["stored_bytes"] == sum(map(len, stored.values()))
    assert y["raw_bytes"] == 50 * 70 * 8
    assert y["frames"]["looked_at"] == 6
    assert y["frames"]["codecs"] == {"pfpl": 6}
    assert found["/deep/z"]["checksum"] is False
    assert found["/x"]["fill_value"] == -999.0
    assert found["/unwritten"]["chunks_stored"] == 0


def test_info_shows_what_each_codec_was_asked_for_and_what_came_of_it(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    data = field((12, 40, 50))
    with h5py.File(path, "w") as file:
        for name, make in SETTINGS.items():
            codec = make(absolute=1e-3)
            file.create_dataset(name, data=data, chunks=(6, 20, 50), compression=codec)

    rows = h5lossy_command("info", "--frames", path).output
    said = json.loads(h5lossy_command("info", "--frames", "--json", path).output)

    found = {dataset["path"][1:]: dataset for dataset in said["datasets"]}
    assert set(found) == set(SETTINGS)
    for name, make in SETTINGS.items():
        codec = make(absolute=1e-3)
        changed = [
            f"{own.name}={getattr(codec, own.name)}"
            for own in codec.choices()
            if getattr(codec, own.name) != own.default
        ]
        label = codec.codec_name + (f"({', '.join(changed)})" if changed else "")
        row, dataset = table_row(rows, f"/{name}"), found[name]
        assert row["codec"] == label
        assert dataset["codec"] == codec.codec_name
        settings = {own.name: getattr(codec, own.name) for own in codec.choices()}
        assert dataset["settings"] == json.loads(json.dumps(settings))
        assert sum(dataset["frames"]["codecs"].values()) == 4
        if not isinstance(codec, Auto):
            assert dataset["frames"]["codecs"] == {codec.codec_name: 4}
            if settings.get("axes") != "auto":  # the encoder's choice is not known here
                assert dataset["frames"]["modes"] == {label: 4}
                assert row["frames"].startswith(f"4 {label}, ")


def test_info_counts_the_codecs_that_auto_picked(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    data = field((64, 64))
    picked = [PFPL, CuSZp2, CuSZp2, functools.partial(CuSZp2, dimensions=2), AATROX, PFPL, CuSZp2]
    with h5py.File(path, "w") as file:
        options = {"chunks": (1, 64, 64), "compression": Auto(absolute=1e-3)}
        dataset = file.create_dataset("x", (8, 64, 64), "f4", **options)
        for i, codec in enumerate(picked):
            frame = h5lossy.encode(data, codec(absolute=1e-3))
            dataset.id.write_direct_chunk((i, 0, 0), frame)
        # Too small to be worth a codec.
        dataset.id.write_direct_chunk((7, 0, 0), h5lossy.encode(data[0, :1], PFPL(absolute=1e-3)))

    row = table_row(h5lossy_command("info", "--frames", path).output, "/x")
    said = json.loads(h5lossy_command("info", "--frames", "--json", path).output)["datasets"][0]

    assert row["codec"] == "auto"
    counts = "3 cuszp2, 2 pfpl, 1 cuszp2(dimensions=2), 1 aatrox, 1 stored, 0 of "
    assert row["frames"].startswith(counts)
    assert said["frames"]["codecs"] == {"pfpl": 2, "cuszp2": 4, "aatrox": 1, "stored": 1}
    assert said["codec"] == "auto"


def test_info_works_where_the_filter_is_not_registered(path: Path) -> None:
    code = """
import sys, h5py, h5lossy
from h5lossy._cli import main
h5py.h5z.unregister_filter(h5lossy.FILTER_ID)
assert not h5py.h5z.filter_avail(h5lossy.FILTER_ID)
main(["info", sys.argv[1]])
"""
    missing = run_python(code, path, env=environment())

    assert missing.stdout == h5lossy_program("info", path, env=environment()).stdout
    assert table_row(missing.stdout, "/x")["bound"] == "absolute 0.001"


def test_info_counts_chunks_that_went_around_the_filter(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        file["x"].id.write_direct_chunk((0, 32), field((32, 32)).tobytes(), filter_mask=1)

    assert table_row(h5lossy_command("info", path).output, "/x")["skipped"] == "1"


def test_info_finds_frames_that_are_broken(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        chunk = stored_chunks(file["x"])[3]
        file["x"].id.write_direct_chunk(chunk.chunk_offset, b"nonsense")

    assert "BROKEN" not in h5lossy_command("info", path).output  # it looks at the first one only
    assert "1 BROKEN" in table_row(h5lossy_command("info", "--frames", path).output, "/x")["frames"]


def test_info_says_where_a_bound_was_too_small_to_help(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        codec = PFPL(absolute=5e-324)
        file.create_dataset("x", data=field((50, 70)), chunks=(50, 70), compression=codec)

    row = table_row(h5lossy_command("info", path).output, "/x")

    assert row["bound"] == "absolute 5e-324"
    assert "1 lossless" in row["frames"]


def test_info_does_not_look_into_what_another_filter_made(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    creation = creation_list((32, 32), ABSOLUTE.filter_options)
    creation.set_deflate(1)
    with h5py.File(path, "w") as file:
        create(file, "x", (50, 70), "f4", creation)[...] = field((50, 70))

    row = table_row(h5lossy_command("info", path).output, "/x")

    assert (row["codec"], row["frames"]) == ("pfpl", "-")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("x", {"/x"}),
        ("z", {"/deep/z"}),
        ("/z", None),
        ("deep/*", {"/deep/z"}),
        ("/deep/**", {"/deep/z", "/deep/er/y"}),
        ("**", {"/x", "/deep/z", "/deep/er/y", "/unwritten"}),
        ("[xy]", {"/x", "/deep/er/y"}),
        ("?", {"/x", "/deep/z", "/deep/er/y"}),
    ],
)
def test_info_takes_globs(path: Path, pattern: str, expected: set[str] | None) -> None:
    if expected is None:
        said = h5lossy_command("info", "--dataset", pattern, path, status=2)
        assert f"--dataset {pattern!r} names no dataset here" in said.stderr
        return
    said = h5lossy_command("info", "--json", "--dataset", pattern, path).output
    assert {dataset["path"] for dataset in json.loads(said)["datasets"]} == expected


def test_info_shows_a_dataset_with_two_names_once(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        file["deep/again"] = file["x"]

    said = json.loads(h5lossy_command("info", "--json", path).output)

    assert len(said["datasets"]) == 4


def test_info_prints_names_that_a_terminal_would_obey_as_escapes(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    names = [b"red\x1b[31m", b"two\nlines", b"not UTF-8 \xff", "größe".encode(), b"[bold]"]
    with h5py.File(path, "w") as file:
        for name in names:
            file.create_dataset(name, (8,), "f4", chunks=(4,), compression=ABSOLUTE)

    said = h5lossy_command("info", path).output

    assert "\x1b" not in said
    for shown in (r"/red\x1b[31m", r"/two\nlines", "/größe", "/[bold]"):
        assert table_row(said, shown)["codec"] == "pfpl"


@pytest.mark.filterwarnings("always")
@pytest.mark.parametrize("command", ["repack", "assess", "tune"])
def test_a_warning_is_a_line_on_standard_error_and_prints_names_as_escapes(
    tmp_path: Path, command: str
) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["red\x1b[31m"] = field((50, 70))
        file["red\x1b[31m"].attrs["missing_value"] = "none"
    more = {
        "repack": ("--absolute", "1e-3", tmp_path / "b.h5"),
        "assess": (path,),
        "tune": ("--require", "psnr>=40"),
    }[command]

    said = h5lossy_command(command, path, *more)

    wanted = r"Warning: /red\x1b[31m: attribute missing_value is ignored, since it is not a number"
    assert any(line.startswith(wanted) for line in said.stderr.splitlines())
    assert "\x1b" not in said.output
    assert ".py" not in said.stderr


def test_info_of_a_file_with_nothing_of_ours(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = field((50, 70))

    said = h5lossy_command("info", tmp_path / "a.h5").output

    assert said == "not compressed by h5lossy: 1 datasets\n"


def test_info_leaves_the_file_alone(path: Path) -> None:
    before = path.read_bytes()

    h5lossy_command("info", "--frames", path)

    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The command line with many files, with files of rules, and what all commands share."""

from __future__ import annotations

import importlib
import json
import os
import re
import shlex
import signal
from pathlib import Path
from typing import Any

import click
import h5py
import numpy as np
import pytest

import h5lossy
from checks import assert_kept
from h5lossy import AATROX, PFPL, CuSZp2, Interp
from h5lossy._cli import main
from h5lossy._cli._files import for_each_file
from h5lossy._cli._interrupts import InterruptedBySignal, interruptible
from h5lossy._cli._options import _OWN_FIELDS, BOUND_VALUES
from h5lossy._cli._patterns import _SETTINGS
from hdf5_helpers import (
    codecs_in,
    command_line,
    edit_cd_values,
    environment,
    field,
    h5lossy_program,
    on_terminal,
    run,
    run_python,
)
from hdf5_helpers import h5lossy_command as cli

ROOT = Path(__file__).parents[1]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def sources(tmp_path: Path) -> list[Path]:
    """Return three files; the second one has a dataset that the others lack."""
    folder = tmp_path / "in"
    folder.mkdir()
    for i, name in enumerate("abc"):
        with h5py.File(folder / f"{name}.h5", "w") as file:
            file["temp"] = field((60, 70), seed=i)
            file["ocean/salt"] = field((60, 70), seed=i + 10)
            file["count"] = np.arange(2000) % 2 == 0
            if name == "b":
                file["extra"] = field((60, 70))
    return sorted(folder.iterdir())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "out"
    path.mkdir()
    return path


# ------------------------------------------------------------------------------------------------
# repack SRC... FOLDER
# ------------------------------------------------------------------------------------------------


def test_each_source_is_copied_into_the_folder(sources: list[Path], folder: Path) -> None:
    said = cli("repack", *sources, folder, "--absolute", "1e-3").stdout

    assert names(folder) == ["a.h5", "b.h5", "c.h5"]
    for source in sources:
        with h5py.File(source) as old, h5py.File(folder / source.name) as new:
            for name in ("temp", "ocean/salt"):
                assert_kept(old[name][...], new[name][...], {"absolute": 1e-3})
        assert re.search(rf"^{source} .* -> {folder / source.name} ", said, re.MULTILINE)
    values = 7 * 60 * 70
    assert "3 files: " in said
    assert f"; {values} values checked, each within its bound" in said


@pytest.mark.parametrize("slash", ["", "/"])
def test_one_source_goes_into_a_folder_too(sources: list[Path], folder: Path, slash: str) -> None:
    cli("repack", sources[0], f"{folder}{slash}", "--absolute", "1e-3")
    assert names(folder) == ["a.h5"]


@pytest.mark.parametrize("count", [1, 2])
def test_a_folder_has_to_exist(sources: list[Path], tmp_path: Path, count: int) -> None:
    said = cli("repack", *sources[:count], f"{tmp_path}/new/", "--absolute", "1", status=2)
    assert "must be an existing folder" in " ".join(said.stderr.split())
    assert not (tmp_path / "new").exists()


def test_several_sources_do_not_go_into_one_file(sources: list[Path], tmp_path: Path) -> None:
    target = tmp_path / "x.h5"
    target.write_text("mine")
    cli("repack", *sources, target, "--absolute", "1", "--force", status=2)
    assert target.read_text() == "mine"


def test_sources_of_one_name_are_refused(sources: list[Path], folder: Path) -> None:
    other = sources[0].parent / "more" / "a.h5"
    other.parent.mkdir()
    other.write_bytes(sources[0].read_bytes())
    for two in ([sources[0], other], [sources[0], sources[0]]):
        said = cli("repack", *two, sources[1], folder, "--absolute", "1", status=2).stderr
        assert "would both be a.h5 in" in " ".join(said.split())
    assert names(folder) == []


@pytest.mark.parametrize("how", ["there", "symbolic link", "hard link", "link in the folder"])
def test_a_source_in_the_folder_is_refused(sources: list[Path], folder: Path, how: str) -> None:
    into, source = folder, sources[1]
    if how == "there":
        into = source.parent
    elif how == "symbolic link":
        source = folder / "b.h5"
        source.symlink_to(sources[1])
    elif how == "hard link":
        (folder / "b.h5").hardlink_to(source)
    else:
        (folder / "b.h5").symlink_to(source)
    before = sources[1].read_bytes()
    present = names(into)

    said = cli("repack", sources[0], source, into, "--absolute", "1", "--force", status=2)

    assert "repack never overwrites its input" in " ".join(said.stderr.split())
    assert sources[1].read_bytes() == before
    assert names(into) == present


def test_what_another_source_takes_values_from_is_not_overwritten(
    sources: list[Path], folder: Path
) -> None:
    old = folder / "c.h5"
    old.write_bytes(sources[2].read_bytes())
    before = old.read_bytes()
    layout = h5py.VirtualLayout((60, 70), "f8")
    layout[...] = h5py.VirtualSource("../out/c.h5", "temp", (60, 70))
    with h5py.File(sources[0], "r+") as file:
        file.create_virtual_dataset("virtual", layout)

        file["link"] = h5py.ExternalLink("long" * 1000, "/x")
    said = cli("repack", *sources, folder, "--absolute", "1", "--force", status=2).stderr

    assert "takes values from" in " ".join(said.split())
    assert names(folder) == ["c.h5"]
    assert old.read_bytes() == before


def test_two_sources_that_a_link_leads_to_one_file_are_refused(
    sources: list[Path], folder: Path
) -> None:
    (folder / "a.h5").symlink_to(folder / "c.h5")
    said = cli("repack", *sources, folder, "--absolute", "1", "--force", status=2).stderr
    assert f"would both be written to {folder}/c.h5" in " ".join(said.split())
    assert names(folder) == ["a.h5"]


def test_pipes_are_no_hdf5_files(packed: list[Path], tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    said = cli("verify", pipe, packed[0], status=2).stderr.splitlines()
    assert said[1:] == [f"{pipe}: is not an HDF5 file"]


def test_a_file_that_fails_does_not_stop_the_others(sources: list[Path], folder: Path) -> None:
    bad, empty = sources[0].parent / "0.h5", sources[0].parent / "bb.h5"
    bad.write_text("no HDF5")
    with h5py.File(empty, "w") as file:
        file["n"] = np.arange(9)
    (folder / "c.h5").write_text("mine")
    everything = [bad, sources[0], sources[1], empty, sources[2]]

    said = cli("repack", *everything, folder, "--absolute", "1e-3", status=1)

    advice = "give another name, or --force to replace it"
    assert said.stderr.splitlines() == [
        "Error: 3 of 5 files failed:",
        f"{bad}: is not an HDF5 file",
        f"{empty}: has nothing to compress, so DST is not written",
        f"{sources[2]}: {folder}/c.h5 exists, and is not an HDF5 file; {advice}",
    ]
    assert names(folder) == ["a.h5", "b.h5", "c.h5"]
    assert "2 files: " in said.stdout
    (folder / "c.h5").unlink()
    assert "1 of 2 files" in cli("repack", bad, sources[2], folder, "--absolute=1", status=2).stderr
    assert (folder / "c.h5").exists()


def test_files_that_are_complete_count_as_done(
    sources: list[Path], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = ("--absolute", "1")
    cli("repack", sources[0], folder, *wanted)
    before = (folder / "a.h5").stat()
    monkeypatch.chdir(folder.parent)

    said = cli("repack", *sources, folder.name, *wanted)

    assert f"{sources[0]} (" in said.stdout
    [line] = [line for line in said.stdout.splitlines() if line.endswith("done before")]
    assert f"-> {folder.name}/a.h5 (" in line
    assert "3 files (1 done before): " in said.stdout
    assert (folder / "a.h5").stat().st_mtime_ns == before.st_mtime_ns
    said = cli("repack", *sources, folder, *wanted, "--check-existing", "--json")
    plain = json.loads(said.stdout)
    assert [one["existed"] for one in plain["files"]] == [True] * 3


def test_a_folder_is_no_source(sources: list[Path], folder: Path) -> None:
    said = cli("repack", sources[0].parent, folder, "--absolute", "1", status=2).stderr
    assert "is a directory" in said
    assert names(folder) == []


def test_numbers_of_all_files_are_json(sources: list[Path], folder: Path) -> None:
    bad = sources[0].parent / "bad.h5"
    bad.write_text("no HDF5")

    out = cli("repack", *sources, bad, folder, "--range-relative=1e-3", "--json", status=2).stdout

    found = {Path(one["source"]).name: one for one in json.loads(out)["files"]}
    assert found.pop("bad.h5")["error"] == f"{bad} is not an HDF5 file"
    for name, one in found.items():
        target = folder / name
        assert one["target_bytes"] == target.stat().st_size
        assert one["source_bytes"] == Path(one["source"]).stat().st_size
        assert one["kept"] == [{"path": "/count", "why": "an enumeration"}]
        datasets = {dataset["path"]: dataset for dataset in one["datasets"]}
        assert datasets.keys() == codecs_in(target).keys()
        with h5py.File(target) as file, h5py.File(one["source"]) as old:
            for path, dataset in datasets.items():
                info = h5lossy.describe(file[path])
                assert dataset["bound"] == {"kind": "absolute", "value": info.bound.value}
                assert dataset["requested"] == {"kind": "range_relative", "value": 1e-3}
                assert dataset["stored_bytes"] == info.stored_bytes
                assert dataset["checked"] == 60 * 70
                error = np.abs(file[path][...].astype("f8") - old[path][...]).max()
                assert dataset["max_error"] == error


def test_a_dry_run_of_several_files_writes_nothing(sources: list[Path], folder: Path) -> None:
    said = cli("repack", *sources, folder, "--absolute", "1", "--dry-run").stdout
    assert said.count(" -> ") == 3
    assert said.count("compress ") == 7
    options = ("--absolute=1", "--dry-run", "--json")
    plain = json.loads(cli("repack", *sources, folder, *options).stdout)
    assert [len(one["datasets"]) for one in plain["files"]] == [2, 3, 2]
    assert names(folder) == []


def test_quiet_prints_nothing_but_errors(sources: list[Path], folder: Path) -> None:
    assert cli("repack", *sources, folder, "--absolute", "1", "--quiet").output == ""
    said = cli("repack", *sources, folder, "--absolute", "2", "-q", status=1)
    assert said.stdout == ""
    assert "3 of 3 files failed" in said.stderr


def test_a_table_shows_the_datasets_that_take_the_most_room(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for i in range(120):
            file[f"x{i}"] = field((40, 40 + i))
    said = cli("repack", tmp_path / "a.h5", tmp_path / "b.h5", "--lossless").stdout
    shown = re.findall(r"^ +/x(\d+) ", said, re.MULTILINE)
    assert len(shown) == 100
    assert "119" in shown
    assert "0" not in shown
    assert "20 smaller ones (--json has all)" in said


def test_a_signal_between_files_ends_the_command(tmp_path: Path) -> None:
    done = []

    def work(path: Path) -> None:
        with interruptible():
            os.kill(os.getpid(), signal.SIGTERM)
            done.append(path)

    try:
        with pytest.raises(InterruptedBySignal):
            for_each_file([tmp_path / "a", tmp_path / "b"], work)
    finally:
        with interruptible():  # forgets the signal
            pass
    assert done == [tmp_path / "a"]


# ------------------------------------------------------------------------------------------------
# Rules
# ------------------------------------------------------------------------------------------------


def write_rules(folder: Path, text: str) -> Path:
    path = folder / "rules.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_last_rule_that_names_a_dataset_counts(sources: list[Path], folder: Path) -> None:
    rules = write_rules(
        folder.parent,
        """
        [[rule]]
        dataset = ["/ocean/salt", "temp"]
        skip = true
        [[rule]]
        dataset = "**"
        digits = 2
        codec = "interp"
        axes = [-1]
        rewritable = false
        [[rule]]
        dataset = "/ocean/salt"
        codec = "cuszp2"
        mode = "plain"
        dimensions = 2
        chunks = [20, 30]
        [[rule]]
        dataset = "salt"
        absolute = 1e-3
        [[rule]]
        dataset = ["extra", "count*"]
        skip = true
        """,
    )

    cli("repack", sources[1], folder, "--rules", rules)

    assert codecs_in(folder / "b.h5") == {
        "/ocean/salt": CuSZp2(absolute=1e-3, mode="plain", dimensions=2),
        "/temp": Interp(significant_digits=2, axes=(-1,)),
    }
    with h5py.File(folder / "b.h5") as file:
        assert file["ocean/salt"].chunks == (20, 30)


def test_options_go_before_the_rules_of_a_file(sources: list[Path], folder: Path) -> None:
    rules = write_rules(folder.parent, '[[rule]]\ndataset = "temp"\ncodec = "interp"\n')
    options = ("--rules", rules, "--absolute", "0.5", "--dataset", "salt:absolute=0.1")
    cli("repack", sources[0], folder, *options)
    assert codecs_in(folder / "a.h5") == {
        "/temp": Interp(absolute=0.5),
        "/ocean/salt": PFPL(absolute=0.1),
    }
    cli("repack", sources[0], folder, *options, "--force", "-d", "temp:lossless,codec=pfpl")
    assert codecs_in(folder / "a.h5")["/temp"] == PFPL(lossless=True)
    later = folder.parent / "later.toml"
    later.write_text('[[rule]]\ndataset = "temp"\ncodec = "aatrox"\n')
    cli("repack", sources[0], folder, "--force", "--rules", rules, "--rules", later, *options[2:])
    assert codecs_in(folder / "a.h5")["/temp"] == AATROX(absolute=0.5)
    skipping = write_rules(folder.parent, '[[rule]]\ndataset = "**"\nskip = true\n')
    cli("repack", sources[0], folder, "--rules", skipping, "--force", "-d", "temp:absolute=0.5")
    assert codecs_in(folder / "a.h5") == {"/temp": PFPL(absolute=0.5)}


@pytest.mark.parametrize("how", ["--rules", "--dataset", "--skip"])
def test_a_rule_has_to_name_a_dataset_of_one_of_the_files(
    sources: list[Path], folder: Path, how: str
) -> None:
    def options(pattern: str) -> list[Any]:
        if how == "--rules":
            text = f'[[rule]]\ndataset = "temp"\nabsolute = 1\n\n[[rule]]\ndataset = "{pattern}"\n'
            return [how, write_rules(folder.parent, f"{text}absolute = 2\n")]
        return ["--absolute=1", how, f"{pattern}:absolute=2" if how == "--dataset" else pattern]

    said = cli("repack", *sources, folder, *options("/extr"), status=1).stderr
    where = "rules.toml, line 5:" if how == "--rules" else how
    assert f"{where} '/extr' names no dataset here; there are: " in said
    assert names(folder) == []

    cli("repack", *sources, folder, *options("/extra"))
    expected = {"/extra"} if how != "--skip" else set()
    assert {p for p, c in codecs_in(folder / "b.h5").items() if c == PFPL(absolute=2)} == expected


WRONG_RULES = {
    "no TOML": ("[[rule]]\ndataset = x\n", r"rules.toml is not TOML: .*line 2"),
    "too many digits": (f"[[rule]]\nabsolute = {'1' * 5000}\n", "rules.toml is not TOML"),
    "too deep": (f"x = {'[' * 5000}", "rules.toml is not TOML"),
    "nothing": ("", r"rules.toml has no \[\[rule\]\]"),
    "a table": ('[rule]\ndataset = "x"\n', r"has no \[\[rule\]\]"),
    "another table": ("[[rules]]\n", r"has rules; only \[\[rule\]\] is allowed"),
    "no glob": ("[[rule]]\nabsolute = 1\n", "line 1: dataset must be a glob"),
    "no globs": ("[[rule]]\ndataset = []\nabsolute = 1\n", "line 1: dataset must be a glob"),
    "a number": ("[[rule]]\ndataset = [3]\nabsolute = 1\n", "line 1: dataset must be a glob"),
    "a flag that is none": (
        '[[rule]]\ndataset = "x"\nabsolute = 1\nchecksum = false\n',
        "line 1: 'checksum=false' is no setting",
    ),
    "a bound that is off": ('[[rule]]\ndataset = "x"\nlossless = false\n', "is never false"),
    "only a flag": ('[[rule]]\ndataset = "x"\nrewritable = false\n', "the rule has no settings"),
    "no setting": ('[[rule]]\ndataset = "x"\n', "the rule has no settings"),
    "skip and more": (
        '[[rule]]\ndataset = "x"\nskip = true\nabsolute = 1\n',
        "a rule that skips has no other setting, got absolute",
    ),
    "skip with a number": (
        '[[rule]]\ndataset = "x"\nskip = 1\n',
        "skip must be true or false, got 1",
    ),
    "unknown": (
        '# one\n[[rule]]\ndataset = "x"\nabsolute = 1\n\n[[rule]]\ndataset = "y"\nlevel = 3\n',
        "rules.toml, line 6: 'level=3' is no setting; there are absolute=B",
    ),
    "two bounds": ('[[rule]]\ndataset = "x"\nabsolute = 1\nlossless = true\n', "give one bound"),
    "bound 0": ('[[rule]]\ndataset = "x"\nabsolute = 0\n', "must be greater than 0"),
    "a text": ('[[rule]]\ndataset = "x"\nabsolute = "big"\n', "absolute takes a number"),
    "true": ('[[rule]]\ndataset = "x"\nabsolute = true\n', "absolute takes a number"),
    "a date": ('[[rule]]\ndataset = "x"\nabsolute = 2020-01-01\n', "absolute takes a number"),
    "chunks": ('[[rule]]\ndataset = "x"\nchunks = [0, 4]\n', "a chunk shape is .* got '0x4'"),
    "codec": ('[[rule]]\ndataset = "x"\ncodec = "zip"\n', "codec must be one of pfpl"),
}


#: Values as in a file of rules, what is said of them, and the keys that take them.
WRONG_VALUES: dict[str, tuple[str, set[str]]] = {
    "true": ("true", {"lossless", "packed-units", "rewritable", "skip"}),
    "false": ("false", {"rewritable", "skip"}),
    "2020-01-01": ("2020-01-01", set()),
    "12:00:00": ("12:00:00", set()),
    "{a = 1}": ("{'a': 1}", set()),
    "[[1]]": (r"\[?\[1\]", set()),
    "[true, 1]": ("true|.?True", set()),
    "[]": (r"''|\[\]|nothing", set()),
    "nan": ("nan", set()),
    "inf": ("inf", set()),
    "-0.5": ("-0.5", {"threshold"}),
    f"1{'0' * 400}": ("1000", {"absolute", "range-relative", "modulus", "chunks"}),
    '""': (r"''|\"\"|nothing", set()),
    '"Nonsense"': ("Nonsense", {"dataset"}),
}


@pytest.mark.parametrize("key", ["dataset", "skip", *(s.partition("=")[0] for s in _SETTINGS)])
def test_wrong_values_in_rules_are_named(tmp_path: Path, key: str) -> None:
    source, target = tmp_path / "a.h5", tmp_path / "b.h5"
    with h5py.File(source, "w") as file:
        file["x"] = np.zeros((8, 8), "f4")
    others = {"dataset": '"x"', "absolute": "1"}
    if key in _OWN_FIELDS:
        others["codec"] = f'"{_OWN_FIELDS[key][0][0].codec_name}"'
    if key.replace("-", "_") in {*BOUND_VALUES, "digits", "lossless"}:
        del others["absolute"]
    for value, (given, takes_it) in WRONG_VALUES.items():
        if key in takes_it:
            continue
        settings = {**others, key: value}
        rules = write_rules(tmp_path, "[[rule]]\n" + "\n".join(map(" = ".join, settings.items())))
        said = cli("repack", source, target, "--rules", rules, status=2).stderr
        said = " ".join(said.split()).partition("rules.toml, line 1: ")[2]
        assert re.match("(a )?" + key.removesuffix("s").replace("-", "[-_]"), said), (value, said)
        assert re.search(f"is never false|got .?({given})", said), (value, said)


def test_a_setting_is_given_once(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.zeros((8, 8), "f4")
    text = '[[rule]]\ndataset = "x"\nvalid-range = [0, 1]\nvalid_range = [0, 2]\nabsolute = 1\n'
    for options in (
        ("--rules", write_rules(tmp_path, text)),
        ("--dataset", "x:absolute=1,absolute=2"),
    ):
        said = cli("repack", tmp_path / "a.h5", tmp_path / "b.h5", *options, status=2).stderr
        assert re.search("(valid_range|absolute) is given twice", " ".join(said.split()))


def test_a_bound_that_float64_lacks_is_rounded_down(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.zeros((64, 64), "f4")
    number = 2**53 + 3
    for options in (("--absolute", number), ("--dataset", f"x:absolute={number}")):
        cli("repack", "--force", tmp_path / "a.h5", tmp_path / "b.h5", *options)
        assert codecs_in(tmp_path / "b.h5")["/x"] == PFPL(absolute=2**53 + 2)


@pytest.mark.parametrize(("text", "message"), WRONG_RULES.values(), ids=WRONG_RULES)
def test_wrong_rules_are_wrong_usage(
    sources: list[Path], folder: Path, text: str, message: str
) -> None:
    rules = write_rules(folder.parent, text)
    said = cli("repack", *sources, folder, "--rules", rules, "--absolute", "1", status=2).stderr
    assert re.search(message, " ".join(said.split())), said
    assert names(folder) == []


def test_rules_that_cannot_be_read_are_wrong_usage(sources: list[Path], folder: Path) -> None:
    path = folder.parent / "rules.toml"
    cli("repack", *sources, folder, "--rules", path, status=2)
    cli("repack", *sources, folder, "--rules", folder, status=2)
    path.write_bytes(b'[[rule]]\ndataset = "\xff"\n')
    said = cli("repack", *sources, folder, "--rules", path, status=2).stderr
    assert "is not UTF-8" in said


def test_the_rules_of_the_guide_work(tmp_path: Path) -> None:
    guide = (ROOT / "docs/howto/collections.md").read_text(encoding="utf-8")
    [text] = re.findall(r"```toml\n(.*?)```", guide, re.DOTALL)
    rules = write_rules(tmp_path, text)
    with h5py.File(tmp_path / "a.nc", "w") as file:
        for path in ("grid/area", "lat_bounds", "ocean/salt", "tas", "other"):
            file[path] = field((3, 70, 80))

    cli("repack", tmp_path / "a.nc", tmp_path / "b.nc", "--rules", rules)

    found = codecs_in(tmp_path / "b.nc")
    assert found.keys() == {"/ocean/salt", "/tas"}
    assert found["/ocean/salt"] == Interp(absolute=1e-3)
    with h5py.File(tmp_path / "b.nc") as file:
        assert file["ocean/salt"].chunks == (1, 64, 64)


ODD_NAMES = [
    b"plain",
    b"a*b",
    b"[x]?",
    "größe/温度".encode(),
    b"quote\"s and \\ it's",
    b"two\nlines\x7f\x1b",
    b"not UTF-8 \xff",
    b" a:b=1,c ",
]


def test_tune_says_that_integers_have_to_be_named(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["counts"] = np.arange(5000)
    said = cli("tune", tmp_path / "a.h5", "--all", "--ratio", "2", status=2).stderr
    assert "nothing to compress; integers that are not packed" in said
    assert "named with -d" in said


@pytest.mark.slow
def test_what_tune_writes_is_what_repack_reads(tmp_path: Path) -> None:
    source, rules, target = tmp_path / "a.h5", tmp_path / "r.toml", tmp_path / "b.h5"
    with h5py.File(source, "w") as file:
        for i, name in enumerate(ODD_NAMES):
            file[name] = (10.0**i * field((40, 50), seed=i)).astype("f4")
        file["tiny"] = field((3, 3))
        file["scale"] = field((2000,))
        file["scale"].make_scale()
        file["count"] = np.arange(2000) % 2 == 0
    options = ("--require", "psnr>=60", "--codecs", "pfpl,aatrox")

    said = cli("tune", source, "--all", *options, "--rules", rules).stdout

    cli("repack", "--rules", rules, source, target)
    found = codecs_in(target)
    assert len(found) == len(ODD_NAMES)
    with h5py.File(source) as old, h5py.File(target) as new:
        for name in ODD_NAMES:
            assert h5lossy.assess(old[name], new[name], require="psnr>=60").ok
    assert f"h5lossy repack {source} OUT.h5 --rules {rules}" in said
    # Without a file, the command has the rules.
    plain = json.loads(cli("tune", source, "--all", *options, "--json").stdout)
    command = shlex.split(plain["command"], posix=True)
    cli(*command[1:3], target, *command[4:], "--force")
    assert codecs_in(target) == found
    assert len(plain["datasets"]) == len(found)


def test_rules_that_were_found_stay_after_an_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, rules = tmp_path / "a.h5", tmp_path / "r.toml"
    with h5py.File(source, "w") as file:
        file["a"], file["b"] = field((40, 50)), field((40, 50))
    module = importlib.import_module("h5lossy._cli.tune")
    answers = iter([module.Search])

    def interrupted(*arguments: Any, **options: Any) -> Any:
        if (search := next(answers, None)) is None:
            raise KeyboardInterrupt
        return search(*arguments, **options)

    monkeypatch.setattr(module, "Search", interrupted)
    options = ["--require", "psnr>=60", "--codecs", "pfpl", "--all", "--rules", rules]

    cli("tune", source, *options, status=130)

    assert re.findall("^dataset.*", rules.read_text(), re.MULTILINE) == ['dataset = "/a"']


@pytest.mark.slow
def test_a_dataset_that_nothing_fits_gets_no_rule(tmp_path: Path) -> None:
    source, rules = tmp_path / "a.h5", tmp_path / "r.toml"
    with h5py.File(source, "w") as file:
        file["x"] = field((40, 50))
        file["constant"] = np.ones(5000, "f4")
        file["noise"] = np.random.default_rng(0).normal(size=5000).astype("f4")
    options = ("--require", "ratio>=4, psnr>=60", "--codecs", "pfpl", "--all", "--rules", rules)

    said = cli("tune", source, *options, status=1).stdout

    assert "no rule for /noise: no bound meets" in said
    assert "no rule for /constant: the data has no range" in said
    assert re.findall("^dataset.*|^# /[a-z]+:", rules.read_text(), re.MULTILINE) == [
        "# /constant:",
        "# /noise:",
        'dataset = "/x"',
    ]
    cli("tune", source, *options, "-d", "x")
    cli("tune", source, *options, "-d", "y", status=2)
    chunks = ("--chunks", "20x25")
    cli("tune", source, "-d", "x", *options[:4], "--rules", rules, *chunks)
    assert 'chunks = "20x25"' in rules.read_text()


# ------------------------------------------------------------------------------------------------
# info, verify and doctor of several files
# ------------------------------------------------------------------------------------------------


@pytest.fixture
def packed(sources: list[Path], folder: Path) -> list[Path]:
    cli("repack", *sources, folder, "--absolute", "1e-2")
    return sorted(folder.iterdir())


def test_info_shows_several_files(packed: list[Path], tmp_path: Path) -> None:
    bad = tmp_path / "bad.h5"
    bad.write_text("no HDF5")

    said = cli("info", packed[0], bad, packed[1], "-d", "temp", status=2)

    lines = said.stdout.splitlines()
    assert [line for line in lines if line in map(str, [*packed, bad])] == [*map(str, packed[:2])]
    assert said.stdout.count("/temp ") == 2
    assert said.stderr == f"Error: 1 of 3 files failed:\n{bad}: is not an HDF5 file\n"
    plain = json.loads(cli("info", *packed, bad, "--json", status=2).stdout)
    assert {(one["file"], one["path"]) for one in plain["datasets"]} == {
        (str(path), name) for path in packed for name in codecs_in(path)
    }
    assert plain["others"] == [{"file": str(path), "path": "/count"} for path in packed]
    [failed] = plain["unreadable"]
    assert (failed["file"], failed["path"]) == (str(bad), None)


def test_verify_checks_several_files(sources: list[Path], packed: list[Path]) -> None:
    originals = sources[0].parent
    said = cli("verify", *packed).stdout
    assert said.endswith("verified 3 files: 3 OK\n")
    cli("verify", *packed, "--against", originals, "-q")

    with h5py.File(packed[1], "r+") as file:
        file["temp"][3, 4] += 7  # outdated, as the checksum is right
    said = cli("verify", *packed, status=4).stdout
    assert said.splitlines()[-2:] == [
        "verified 3 files: 2 OK",
        f"{packed[1]}: 1 record outdated",
    ]
    cli("verify", *packed, "--against", originals, "-q", status=1)
    packed[2].write_text("no HDF5")
    said = cli("verify", *packed, status=2)
    assert said.stderr == f"Error: 1 of 3 files failed:\n{packed[2]}: is not an HDF5 file\n"
    plain = json.loads(cli("verify", *packed, "--json", status=2).stdout)
    assert {one["file"] for one in plain["datasets"]} == {str(path) for path in packed[:2]}
    assert [one["file"] for one in plain["datasets"] if not one["ok"]] == [str(packed[1])]
    assert [one["file"] for one in plain["unreadable"]] == [str(packed[2])]


def test_verify_takes_folders(sources: list[Path], packed: list[Path], tmp_path: Path) -> None:
    for folder, files in (("x", sources), ("y", packed)):
        (tmp_path / folder / "sub").mkdir(parents=True)
        for name, file in (("one.h5", files[0]), ("sub/two.h5", files[1])):
            (tmp_path / folder / name).write_bytes(file.read_bytes())
    y = tmp_path / "y"
    (y / "notes.txt").write_text("no HDF5 file")
    assert cli("verify", y).stdout.endswith("verified 2 files: 2 OK\n")
    assert cli("verify", y, packed[2]).stdout.endswith("verified 3 files: 3 OK\n")
    cli("verify", y, "--against", tmp_path / "x", "-q")
    (tmp_path / "x/sub/two.h5").unlink()
    said = cli("verify", y, "--against", tmp_path / "x", status=2).stderr
    assert f"{y / 'sub/two.h5'}: {tmp_path / 'x/sub/two.h5'} does not exist" in said
    (tmp_path / "empty").mkdir()
    said = cli("verify", tmp_path / "empty", status=2).stderr
    assert said == f"Error: {tmp_path / 'empty'} has no HDF5 file\n"


def test_several_files_have_their_originals_in_a_folder(
    sources: list[Path], packed: list[Path]
) -> None:
    said = cli("verify", *packed, "--against", sources[0], status=2).stderr
    assert "--against FOLDER" in said
    sources[2].unlink()
    said = cli("verify", *packed, "--against", sources[0].parent, status=2).stderr
    assert f"{packed[2]}: {sources[2]} does not exist" in said


def test_doctor_says_what_a_file_needs(packed: list[Path]) -> None:
    where = "in Python import h5lossy, elsewhere export HDF5_PLUGIN_PATH=$(h5lossy plugin-path)"
    said = cli("doctor", packed[1]).stdout.splitlines()
    assert said == [
        str(packed[1]),
        "filter 46412, h5lossy, is here; of 3 datasets: /extra, /temp, /ocean/salt",
        "   codecs: 3 pfpl; format version of the frames: 1",
        f"   to read it: pip install h5lossy; {where}",
        "no filter; 1 dataset: /count",
        "all that is needed is here",
    ]


def test_doctor_names_what_is_missing(tmp_path: Path, packed: list[Path]) -> None:
    pytest.importorskip("hdf5plugin")
    path = tmp_path / "zstd.h5"
    make = (
        "import sys, h5py, hdf5plugin, numpy as np\n"
        "with h5py.File(sys.argv[1], 'w') as file:\n"
        "    file.create_dataset('z', data=np.ones(99), chunks=(9,), **hdf5plugin.Zstd())\n"
        "    file['link'] = h5py.ExternalLink('elsewhere.h5', '/x')\n"
        "    layout = h5py.VirtualLayout((9,), 'f8')\n"
        f"    layout[:] = h5py.VirtualSource({str(packed[0])!r}, 'temp', (60, 70))[0, :9]\n"
        "    file.create_virtual_dataset('virtual', layout)\n"
    )
    run_python(make, path)

    done = h5lossy_program("doctor", packed[0], path, status=1)

    assert "filter 32015, HDF5 zstd filter, is MISSING; of 1 dataset: /z" in done.stdout
    assert "to read it: in Python import hdf5plugin" in done.stdout
    assert f"other file {packed[0]}, is here" in done.stdout
    assert "other file elsewhere.h5, is MISSING" in done.stdout
    missing = "filter 32015 (HDF5 zstd filter); file elsewhere.h5"
    assert done.stderr.splitlines() == [
        "Error: 1 of 2 files failed:",
        f"{path}: needs what is not here: {missing}",
    ]
    found = json.loads(h5lossy_program("doctor", packed[0], path, "--json", status=1).stdout)
    [ours, other] = found["files"]
    assert ours["filters"][0]["here"]
    assert ours["format_versions"] == {"1": 2}
    assert other["filters"] == [
        {
            "id": 32015,
            "name": "HDF5 zstd filter",
            "here": False,
            "source": "in Python import hdf5plugin",
        }
    ]
    assert {one["name"]: one["here"] for one in other["other_files"]} == {
        "elsewhere.h5": False,
        str(packed[0]): True,
    }


def test_doctor_finds_what_a_newer_version_wrote(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver=("earliest", "v108")) as file:
        for name, rows in (("x", 20), ("y", 30)):
            file.create_dataset(
                name, data=field((40, 40)), chunks=(rows, 40), compression=PFPL(absolute=0.5)
            )
    edit_cd_values(path, {0: 77})

    said = cli("doctor", path, status=1)

    assert re.search("not here: /x: .*codec 77", said.stderr)
    assert "codecs: 1 pfpl" in said.stdout
    path.write_text("no HDF5")
    cli("doctor", path, status=2)


def test_doctor_prints_json() -> None:
    found = json.loads(cli("doctor", "--json").stdout)
    assert found["version"] == h5lossy.__version__
    assert found["problems"] == []
    assert all(one["ok"] and one["ratio"] > 1 for one in found["tried"])
    assert all(one["registered_by"] != "none" for one in found["libhdf5s"])


def test_cd_values_are_json() -> None:
    found = json.loads(cli("cd-values", "--absolute", "0.1", "--codec", "interp", "--json").stdout)
    codec = Interp(absolute=0.1)
    assert found == {
        "filter": 46412,
        "cd_values": [*codec.filter_options],
        "h5py": "Interp(absolute=0.1)",
    }


# ------------------------------------------------------------------------------------------------
# What all commands have alike
# ------------------------------------------------------------------------------------------------


def test_the_list_of_commands_is_not_cut_off() -> None:
    said = cli("--help").output.partition("Commands:")[2]
    assert "..." not in said
    assert all(f"  {name} " in said for name in main.commands)


def options(command: str) -> set[str]:
    parameters = main.commands[command].params
    return {opt for one in parameters if isinstance(one, click.Option) for opt in one.opts}


def test_options_have_one_name() -> None:
    for command in main.commands:
        found = options(command)
        assert ("--dataset" in found) == ("-d" in found), command
        assert ("--quiet" in found) == ("-q" in found), command
    assert {c for c in main.commands if "-d" in options(c)} == {
        "assess",
        "info",
        "repack",
        "sweep",
        "tune",
        "verify",
    }
    assert {c for c in main.commands if "--json" not in options(c)} == {"demo", "plugin-path"}


@pytest.mark.parametrize("command", ["repack", "tune"])
def test_threads_are_set_for_the_command_only(
    sources: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    arguments = {
        "repack": (sources[0], tmp_path / "new.h5", "--absolute", "1", "--force"),
        "tune": (sources[0], "-d", "temp", "--require", "psnr>=60", "--codecs", "pfpl"),
    }[command]
    monkeypatch.setenv("H5LOSSY_NUM_THREADS", "many")  # which is refused where it is looked at
    assert "H5LOSSY_NUM_THREADS" in cli(command, *arguments, status=None).output
    cli(command, *arguments, "--threads", "2")
    assert os.environ["H5LOSSY_NUM_THREADS"] == "many"
    monkeypatch.delenv("H5LOSSY_NUM_THREADS")
    cli(command, *arguments, "--threads", "2")
    assert "H5LOSSY_NUM_THREADS" not in os.environ
    cli(command, *arguments, "--threads", "0", status=2)


def test_tables_fit_the_terminal(packed: list[Path]) -> None:
    wide = on_terminal(200, "info", packed[0]).splitlines()
    assert not any(line.startswith("Left out") for line in wide)
    assert len(max(wide, key=len)) > 120
    narrow = on_terminal(80, "info", packed[0]).splitlines()
    assert len(max(narrow, key=len)) <= 80
    assert any(re.match(r" +/ocean/salt +.* absolute 0.01 ", line) for line in narrow)
    assert any(line.startswith("Left out: ") for line in narrow)
    folded = on_terminal(30, "info", packed[0], "-d", "salt").splitlines()[3]
    assert len(folded) <= 30


def test_a_long_path_is_folded_and_not_cut(tmp_path: Path) -> None:
    path = "/".join(f"group{i:02}" for i in range(15))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset(path, (8,), "f4", chunks=(4,), compression=PFPL(absolute=1))
    said = on_terminal(80, "info", tmp_path / "a.h5").splitlines()
    assert len(max(said, key=len)) <= 80
    cells = [line[1:].split("  ")[0].strip() or line.split()[0] for line in said if "group" in line]
    assert f"/{path}" in "".join(cell.split()[0] for cell in cells)


def test_a_shell_can_complete() -> None:
    def complete(**variables: str) -> str:
        return run(*command_line(), env=environment(**variables)).stdout

    assert "complete -o nosort -F" in complete(_H5LOSSY_COMPLETE="bash_source")
    words = {"COMP_WORDS": "h5lossy rep", "COMP_CWORD": "1", "_H5LOSSY_COMPLETE": "bash_complete"}
    assert complete(**words).split() == ["plain,repack"]


def test_rules_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.zeros((60, 70))
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\ndataset = "x"\nabsolute = 1.0\n', encoding="utf-8-sig")

    h5lossy_program("repack", "--rules", rules, tmp_path / "a.h5", tmp_path / "b.h5")
    h5lossy_program("assess", "--rules", rules, tmp_path / "a.h5", tmp_path / "b.h5")

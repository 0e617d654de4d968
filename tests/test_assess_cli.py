# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The commands assess, verify, sweep and tune, with their exit codes."""

from __future__ import annotations

import csv
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

import h5lossy
from h5lossy import PFPL
from h5lossy.assessment import parse_requirements, tuning
from h5lossy.assessment.tradeoff import Field
from h5lossy.assessment.tuning import Goal, Search
from h5lossy.missing import Missing
from hdf5_helpers import edit_cd_values, h5lossy_command, on_terminal
from matrix import CODEC_NAMES

if TYPE_CHECKING:
    from click.testing import Result

TRIED = [*CODEC_NAMES.values(), "auto-size"]
"""The codecs that sweep and tune try by default."""


def run(*arguments: Any, code: int = 0) -> Result:
    return h5lossy_command(*arguments, status=code)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Make an original and its compressed copy: two lossy datasets and one that is not."""
    rng = np.random.default_rng(0)
    original, packed = tmp_path / "orig.h5", tmp_path / "packed.h5"
    with h5py.File(original, "w") as file:
        for name in ("a", "g/b"):
            x = rng.normal(size=(24, 30, 40)).cumsum(axis=2).astype(np.float32)
            file.create_dataset(name, data=x, chunks=(8, 30, 40))
        file["mask"] = np.arange(2000) % 2 == 0
    run("repack", original, packed, "--absolute", 0.01)
    return original, packed


def damage(path: Path, name: str = "a") -> None:
    with h5py.File(path, "r+") as file:
        file[name][3, 4, 5] += 7


def test_assess_passes_a_sound_file(files: tuple[Path, Path]) -> None:
    out = run("assess", *files).output
    assert out.count("PASS") == 2
    assert out.endswith("2 of 2 without a failure\n")
    assert "|e| <= 0.01 (absolute)" in run("assess", *files, "-d", "a").output


def test_assess_says_1_where_a_check_fails(files: tuple[Path, Path]) -> None:
    damage(files[1])
    out = run("assess", *files, "-d", "a", code=1).output
    assert "at (3, 4, 5)" in out
    assert "FAIL" in out


def test_the_exit_code_is_2_where_it_cannot_tell(files: tuple[Path, Path], tmp_path: Path) -> None:
    x, y = files
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = 1
    for words in (
        f"assess {x} nothing.h5",
        f"assess {x} {y} -d nothing",
        f"assess {x} {y} --absolute 1 --lossless",
        f"assess {x} {y} --metrics nice",
        f"assess {x}:/a {y} -d a",
        f"assess {x}:/no {y}:/a",
        "verify nothing.h5",
        f"verify {y} -d nothing",
        f"verify {y} --against {tmp_path}/other.h5",
        f"sweep {x} -d a --bounds much",
        f"sweep {x} -d a --bounds 1..inf",
        f"sweep {x} -d a --codecs zip",
        "tune nothing.h5 --require psnr>=60",
        f"tune {x} -d a --require psnr=60",
        f"tune {x} -d a --require psnr>=60 --codecs zip",
    ):
        run(*words.split(), code=2)


@pytest.mark.parametrize("path", ["", ":/a"])
def test_a_file_that_is_missing_is_named(files: tuple[Path, Path], path: str) -> None:
    for pair in ((f"{files[0]}{path}", f"nope.h5{path}"), (f"nope.h5{path}", f"{files[1]}{path}")):
        assert run("assess", *pair, code=2).stderr == "Error: nope.h5 does not exist\n"
    with pytest.raises(FileNotFoundError, match=r"^nope\.h5 does not exist$"):
        h5lossy.assess("nope.h5:/a", f"{files[1]}:/a")


def test_names_that_are_not_utf8_stop_nothing(tmp_path: Path) -> None:
    for file_name in ("x.h5", "y.h5"):
        with h5py.File(tmp_path / file_name, "w") as file:
            for name in (b"a\xff", b"b"):
                file.create_dataset(name, data=np.arange(9.0))
    pair = tmp_path / "x.h5", tmp_path / "y.h5"
    assert "/a\\udcff" in run("assess", *pair, "--absolute", 1).output
    assert len(json.loads(run("assess", *pair, "--json").output)["reports"]) == 2


def test_assess_takes_folders(files: tuple[Path, Path], tmp_path: Path) -> None:
    x, y = tmp_path / "x", tmp_path / "y"
    for folder, file in ((x, files[0]), (y, files[1])):
        (folder / "sub").mkdir(parents=True)
        for name in ("one.h5", "sub/two.h5"):
            (folder / name).write_bytes(file.read_bytes())
    (y / "notes.txt").write_text("no HDF5 file")
    assert run("assess", x, y).output.count("PASS") == 4
    assert run("assess", x, y / "one.h5").output.count("PASS") == 2
    damage(y / "one.h5")
    found = json.loads(run("assess", x, y, "--json", code=1).output)["reports"]
    assert [report["ok"] for report in found] == [False, True, True, True]
    assert found[2]["provenance"]["original"] == f"{x / 'sub/two.h5'}:/a"
    (x / "one.h5").unlink()
    said = run("assess", x, y, code=2)
    assert said.output.count("PASS") == 2  # the other file is compared all the same
    assert f"1 of 2 files failed:\n{y / 'one.h5'}: {x / 'one.h5'} does not exist" in said.stderr
    (tmp_path / "empty").mkdir()
    assert "has no HDF5 file" in run("assess", x, tmp_path / "empty", code=2).stderr


@pytest.mark.slow
def test_many_variables_have_one_page_with_theirs_behind_it(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    damage(files[1], "g/b")
    page = tmp_path / "all.html"
    out = run("assess", *files, "--html", page, code=1).output
    lines = out.splitlines()
    assert re.search(r"packed.h5:/g/b +FAIL .*bound: wanted", lines[1])  # the worst first
    assert "PASS" in lines[2]
    assert lines[-1] == "1 of 2 failed"
    written = page.read_text(encoding="utf-8")
    links = re.findall(r'href="([^"]+)"', written)
    assert links == ["all_pages/002-g-b.html", "all_pages/001-a.html"]
    for link, verdict in zip(links, ("FAIL", "PASS"), strict=True):
        text = (tmp_path / link).read_text(encoding="utf-8")
        assert f"<title>{verdict}: " in text
        assert 'href="../all.html"' in text
    # The page of one dataset is that page.
    run("assess", *files, "-d", "a", "--html", page)
    assert "href=" not in page.read_text(encoding="utf-8").partition("<figure")[0]


def test_rules_give_each_dataset_its_own_thresholds(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(
        """
        [[rule]]
        dataset = "**"
        require = "psnr>=20"
        [[rule]]
        dataset = ["/g/*", "nothing*"]
        absolute = 0.001
        require = "error.quantiles.p99<=0.0001"
        """
    )
    said = run("assess", *files, "--rules", rules, code=2).stderr
    assert "rules name no variable here: nothing*" in said
    rules.write_text(rules.read_text().replace(', "nothing*"', ""))
    found = json.loads(run("assess", *files, "--rules", rules, "--json", code=1).output)
    assert [report["ok"] for report in found["reports"]] == [True, False]
    assert [f["check"] for f in found["reports"][1]["failures"]] == [
        "bound",
        "error.quantiles.p99",
    ]
    rules.write_text('[[rule]]\ndataset = "/g/*"\nskip = true\n')
    assert run("assess", *files, "--rules", rules).output.count("PASS") == 1
    for text, why in (
        ('[[rule]]\ndataset = "a"\nexact = 1', "a rule for 'a' has exact; there are"),
        ('[[rule]]\ndataset = "a"\nrequire = "pnsr>=3"', "did you mean psnr"),
        ('[[rule]]\ndataset = "a"', "rules.toml, line 1: the rule has no options"),
        ("x = 1", "only [[rule]] is allowed"),
        ("x", "is not TOML"),
    ):
        rules.write_text(text)
        assert why in run("assess", *files, "--rules", rules, code=2).stderr


def test_assess_says_how_a_place_in_a_file_is_given(files: tuple[Path, Path]) -> None:
    original, decoded = files
    said = run("assess", f"{original}:a", f"{decoded}:a", code=2).stderr
    assert f"{original}:a does not exist; a dataset of a file is given as {original}:/a" in said


def test_assess_says_3_where_nothing_can_be_compared(files: tuple[Path, Path]) -> None:
    run("assess", f"{files[0]}:/mask", f"{files[1]}:/a", code=3)
    with h5py.File(files[0], "r+") as file:
        file["wave"] = np.ones(9, np.longdouble)
    out = run("assess", f"{files[0]}:/wave", f"{files[0]}:/wave", code=3).output
    assert "must hold floats of 16, 32 or 64 bits, complex numbers of two such" in out


def test_assess_takes_places_in_files(files: tuple[Path, Path]) -> None:
    out = run("assess", f"{files[0]}:/g/b", files[1], "--require", "psnr>=1", "--json").output
    [report] = json.loads(out)["reports"]
    assert report["ok"]
    assert h5lossy.Report.from_json(json.dumps(report)).shape == (24, 30, 40)


def test_assess_is_quiet_when_asked(files: tuple[Path, Path]) -> None:
    damage(files[1])
    assert run("assess", *files, "-q", code=1).output == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_costs_the_page_but_not_the_numbers(files: tuple[Path, Path]) -> None:
    out = run("assess", *files, "-d", "/g/b", "--html", "/dev/full", code=2).output
    assert "PSNR" in out
    assert "No space left on device: '/dev/full'" in out


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("option", ["--csv", "--plot"])
def test_a_full_disk_costs_the_file_but_not_the_table(
    files: tuple[Path, Path], tmp_path: Path, option: str
) -> None:
    full = tmp_path / "full.svg"
    full.symlink_to("/dev/full")
    bounds = ("--codecs", "pfpl", "--bounds", "0.1,0.01")
    out = run("sweep", f"{files[0]}:/a", *bounds, option, full, code=1).output
    assert "pfpl" in out
    assert f"No space left on device: '{full}'" in out


def test_assess_writes_markdown_and_html(files: tuple[Path, Path], tmp_path: Path) -> None:
    page = tmp_path / "r.html"
    out = run("assess", *files, "-d", "/g/b", "--markdown", "--html", page).output
    assert out.startswith("# PASS")
    assert "slice with the largest error" in page.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("assess", "{0}", "{1}", "-d", "a", "--metrics", "standard, climate"),
        ("verify", "{1}", "-d", "a", "--against", "{0}"),
        ("tune", "{0}", "-d", "a", "--require", "psnr>=60"),
        ("sweep", "{0}", "-d", "a"),
    ],
    ids=lambda words: words[0],
)
def test_bars_count_the_bytes_of_the_original(
    words: tuple[str, ...], files: tuple[Path, Path]
) -> None:
    said = on_terminal(200, *(word.format(*files) for word in words))
    assert "━" in said
    raw_bytes = 24 * 30 * 40 * 4
    if words[0] != "tune":  # nobody knows beforehand how often it will try
        times = {"assess": 3, "verify": 2, "sweep": 4 * len(TRIED)}[words[0]]
        total = f"{times * raw_bytes / (1e3 if times < 9 else 1e6):.1f}"
        assert f"{total}/{total} " in said


def test_a_page_that_cannot_be_written_is_refused_at_once(files: tuple[Path, Path]) -> None:
    for words in (
        ("assess", *files, "-d", "a", "--html", "no/folder/x.html"),
        ("sweep", files[0], "-d", "a", "--csv", "no/folder/x.csv"),
        ("sweep", files[0], "-d", "a", "--plot", files[0].parent),
    ):
        out = run(*words, code=2).output
        assert "no folder 'no/folder'" in out or "is a directory" in out
        assert "pfpl" not in out


def test_assess_takes_its_options(files: tuple[Path, Path], tmp_path: Path) -> None:
    with h5py.File(tmp_path / "mask.h5", "w") as file:
        file["m"] = np.ones((24, 30, 40), bool)
        file["m"][:, :15] = False
    options = (
        "--window 3,5,4 --step 2 --lags 3 --spacing 1,2,3 --threshold-crossings zero=0 "
        "--data-range 4"
    )
    out = run(
        "assess",
        f"{files[0]}:/a",
        f"{files[1]}:/a",
        *options.split(),
        "--mask",
        f"{tmp_path / 'mask.h5'}:/m",
        "--json",
    ).output
    [report] = json.loads(out)["reports"]
    assert report["masked"] == 24 * 15 * 40
    assert (report["ssim"]["sides"], report["ssim"]["value_range"]) == ([3, 5, 4], 4)
    assert report["derivatives"]["spacing"] == [1, 2, 3]
    assert len(report["autocorrelation"][0]["values"]) == 3
    assert report["threshold_crossings"][0]["name"] == "zero"


def test_verify_passes_what_repack_wrote(files: tuple[Path, Path]) -> None:
    out = run("verify", files[1]).output
    assert out.count("decoded hash matches the one written") == 2
    assert "nothing to verify" in out
    run("verify", files[1], "--against", files[0])


def test_verify_finds_what_was_changed(files: tuple[Path, Path]) -> None:
    damage(files[1], "g/b")
    out = run("verify", files[1], code=4).output
    assert "/g/b" in out
    assert "chunk (0, 0, 0) differs from the record" in out
    assert out.endswith("1 record outdated\n")
    found = json.loads(run("verify", files[1], "--json", code=4).output)["datasets"]
    assert {d["path"]: d["ok"] for d in found} == {"/a": True, "/g/b": False}
    assert run("verify", files[1], "-q", "-d", "a").output == ""


def test_verify_finds_damage(files: tuple[Path, Path]) -> None:
    with h5py.File(files[1], "r+") as file:
        _, frame = file["a"].id.read_direct_chunk((0, 0, 0))
        file["a"].id.write_direct_chunk((0, 0, 0), frame[:-1] + bytes([frame[-1] ^ 1]))
    damage(files[1], "g/b")
    out = run("verify", files[1], code=1).output
    assert "1 of 2 lossy datasets failed, 1 record outdated" in out


def test_one_dataset_that_cannot_be_read_does_not_stop_the_others(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    path = tmp_path / "x.h5"
    with h5py.File(path, "w", libver=("earliest", "v108")) as file:
        for name, rows in (("x", 30), ("y", 40)):
            file.create_dataset(
                name, data=np.ones((40, 40)), chunks=(rows, 40), compression=PFPL(absolute=0.5)
            )
    edit_cd_values(path, {0: 77})
    for command in ("verify", "info"):
        out = run(command, path, code=2).output
        assert re.search(r"/y +(float64|pfpl)", out)
        assert re.search(r"/x.* codec 77", out)
        found = json.loads(run(command, path, "--json", code=2).stdout)
        assert [(d["file"], d["path"]) for d in found["datasets"]] == [(str(path), "/y")]
        assert [(d["file"], d["path"]) for d in found["unreadable"]] == [(str(path), "/x")]
        run(command, path, "-d", "y")


@pytest.mark.filterwarnings("default:(?s).*has chunks of 100 bytes:RuntimeWarning")
@pytest.mark.parametrize(
    "arguments",
    [
        ("info", "FILE"),
        ("info", "FILE", "--dataset", "nope"),
        ("verify", "FILE"),
        ("verify", "FILE", "-d", "nope"),
        ("verify", "FILE", "--against", "OTHER"),
        ("assess", "FILE", "FILE"),
        ("assess", "FILE", "FILE", "-d", "nope"),
        ("assess", "FILE", "OTHER"),
        ("assess", "OTHER", "FILE"),
        ("assess", "FILE", "FILE", "--markdown"),
        ("sweep", "FILE"),
        ("sweep", "FILE", "-d", "nope"),
        ("tune", "FILE", "--require", "psnr>=10"),
        ("tune", "FILE", "--require", "psnr>=10", "-d", "nope"),
        ("repack", "FILE", "DST", "--absolute", "0.1", "--dataset", "nope:absolute=1"),
        ("repack", "FILE", "DST", "--absolute", "0.1", "--skip", "nope"),
        ("repack", "FILE", "DST", "--dataset", "**:codec=pfpl"),
        ("repack", "FILE", "DST", "--absolute", "0.1", "--chunks", "5x5"),
        ("repack", "FILE", "DST", "--absolute", "0.1"),
    ],
    ids=" ".join,
)
def test_names_from_files_do_nothing_to_a_terminal(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    name = "\x1b]0;owned\x07\x1b[31m\n\u202e"
    with h5py.File(tmp_path / "FILE", "w") as file:
        for i in range(2):
            t = file.create_dataset(
                f"{name}{i}", (40, 40), "f4", chunks=(20, 20), compression=PFPL(absolute=0.5)
            )
            h5lossy.write(t, np.arange(1600).reshape(40, 40), verify=True)
        _, frame = t.id.read_direct_chunk((0, 0))
        t.id.write_direct_chunk((0, 0), frame[:-1] + bytes([frame[-1] ^ 1]))
        bad = file.create_dataset(f"{name}bad", data=np.arange(5))
        bad.attrs["h5lossy_report"] = name
    with h5py.File(tmp_path / "OTHER", "w") as file:
        file.create_dataset("t", data=np.zeros((40, 40)))
    places = {word: tmp_path / word for word in ("FILE", "OTHER", "DST")}
    result = h5lossy_command(*(places.get(word, word) for word in arguments), status=None)
    assert isinstance(result.exception, SystemExit | None)
    assert not [c for c in result.output if not c.isprintable() and c != "\n"]


def test_what_is_no_hdf5_file_is_called_so(tmp_path: Path) -> None:
    text = tmp_path / "text.h5"
    text.write_text("x" * 5000)
    for arguments in (
        ("info", text),
        ("verify", text),
        ("assess", text, text),
        ("sweep", text),
        ("tune", text, "--require", "psnr>=1"),
        ("repack", text, tmp_path / "out.h5", "--absolute", 1),
    ):
        assert f"{text} is not an HDF5 file" in run(*arguments, code=2).output


@pytest.mark.parametrize(("name", "head"), [("x.png", b"\x89PNG"), ("x.PDF", b"%PDF")])
def test_sweep_draws_what_matplotlib_writes(
    files: tuple[Path, Path], tmp_path: Path, name: str, head: bytes
) -> None:
    options = ("-d", "a", "--codecs", "pfpl", "--bounds", "1e-2,1e-3")
    run("sweep", files[0], *options, "--plot", tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(head)
    out = run("sweep", files[0], *options, "--plot", tmp_path / "x.zip", code=2).output
    assert re.search(r"--plot writes (\.\w+, )*\.svg, ", out)
    assert "got 'x.zip'" in out


def test_verify_against_the_original_finds_errors_without_a_record(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    bare = tmp_path / "bare.h5"
    run("repack", files[0], bare, "--absolute", 0.01, "--no-verify")
    assert "there is no record" in run("verify", bare).output
    damage(bare)
    run("verify", bare)  # a sound frame of other values: only the original can tell
    assert "FAIL" in run("verify", bare, "--against", files[0], code=1).output


def test_verify_says_where_there_is_nothing_to_verify(files: tuple[Path, Path]) -> None:
    assert run("verify", files[0]).output.endswith("nothing was verified\n")


def test_repacking_a_record_makes_it_anew(files: tuple[Path, Path], tmp_path: Path) -> None:
    run("repack", files[1], tmp_path / "again.h5", "--absolute", 0.1)
    run("verify", tmp_path / "again.h5")
    run("repack", files[1], tmp_path / "bare.h5", "--absolute", 0.1, "--no-verify")
    assert run("verify", tmp_path / "bare.h5").output.count("there is no record") == 2


def test_sweep_prints_writes_and_draws(files: tuple[Path, Path], tmp_path: Path) -> None:
    table, plot = tmp_path / "rd.csv", tmp_path / "rd.svg"
    out = run(
        "sweep", files[0], "-d", "a", "--bounds", "1e-1..1e-3", "--csv", table, "--plot", plot
    ).output
    assert "*" in out
    rows = [*csv.DictReader(table.read_text(encoding="utf-8").splitlines())]
    assert len(rows) == 3 * len(TRIED)
    assert {row["codec"] for row in rows} == set(TRIED)
    assert all(float(row["max_error"]) > 0 for row in rows)
    assert ET.parse(plot).getroot().tag.endswith("}svg")
    texts = re.findall("<!-- (.*) -->", plot.read_text(encoding="utf-8"))
    assert {"bits per value", "PSNR (dB)", "pfpl", "cuszp2", "aatrox"} <= set(texts)


def test_sweep_gives_what_the_filter_gives(files: tuple[Path, Path]) -> None:
    options = ("--codecs", "pfpl", "--bounds", "0.01", "--kind", "absolute", "--json")
    [row] = json.loads(run("sweep", f"{files[0]}:/a", *options).output)["settings"]
    with h5py.File(files[1]) as packed, h5py.File(files[0]) as original:
        report = h5lossy.assess(original["a"], packed["a"])
    assert row["max_error"] == report.error.max_abs
    assert row["ratio"] == pytest.approx(report.size.ratio, rel=1e-3)


def test_a_dataset_that_can_not_be_compared_does_not_stop_assess(
    files: tuple[Path, Path],
) -> None:
    with h5py.File(files[1], "r+") as file:
        file["a"].attrs["scale_factor"] = "x"
    for damaged, code in ((False, 3), (True, 1)):  # the smallest code but 0
        if damaged:
            damage(files[1], "g/b")
        result = run("assess", *files, "--json", code=code)
        assert "1 of 2 datasets can't be compared:\n/a: attribute scale_factor" in result.stderr
        [report] = json.loads(result.stdout)["reports"]
        assert report["ok"] != damaged


def test_infinities_are_text_where_json_is_asked_for(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["t"] = np.arange(200.0)
    name = tmp_path / "a.h5"
    options = ("--codecs", "pfpl", "--bounds", "1e-300", "--kind", "absolute")
    [row] = json.loads(run("sweep", name, *options, "--json").output, parse_constant=pytest.fail)[
        "settings"
    ]
    assert row["psnr"] == "inf"
    assert " inf " in run("sweep", name, *options, "--csv", tmp_path / "a.csv").output
    assert ",inf," in (tmp_path / "a.csv").read_text(encoding="utf-8")
    assert "nothing to draw" in run("sweep", name, *options, "--plot", "x.svg", code=1).output
    found = run("tune", name, "--require", "psnr>=inf", "--codecs", "pfpl", "--json").output
    assert json.loads(found, parse_constant=pytest.fail)["best"]["measures"] == {"psnr": "inf"}


def test_sweep_wants_one_dataset(files: tuple[Path, Path]) -> None:
    assert "/a, /g/b" in run("sweep", files[0], code=2).output


@pytest.mark.slow
@pytest.mark.parametrize("require", ["psnr>=60", "psnr>=50, ssim>=0.9999", "max_error<=0.05"])
def test_tune_proposes_what_meets_the_thresholds(
    files: tuple[Path, Path], tmp_path: Path, require: str
) -> None:
    found = json.loads(run("tune", files[0], "-d", "a", "--require", require, "--json").output)
    rule = f"a:absolute={found['best']['absolute']!r},codec={found['best']['codec']}"
    assert rule.partition(":")[2] in found["command"]
    run("repack", files[0], tmp_path / "tuned.h5", "--dataset", rule)
    run("assess", files[0], tmp_path / "tuned.h5", "-d", "a", "--require", require)
    # A bound twice as loose would not have done.
    loose = rule.replace(
        f"absolute={found['best']['absolute']!r}", f"absolute={2 * found['best']['absolute']!r}"
    )
    run("repack", files[0], tmp_path / "loose.h5", "--dataset", loose)
    run("assess", files[0], tmp_path / "loose.h5", "-d", "a", "--require", require, code=1)


def test_tune_proposes_the_chunks_that_it_tried(files: tuple[Path, Path], tmp_path: Path) -> None:
    options = ("-d", "a", "--require", "psnr>=60", "--codecs", "aatrox", "--chunks", "5x30x40")
    found = json.loads(run("tune", files[0], *options, "--json").output)
    rule = found["command"].split()[-1]
    run("repack", files[0], tmp_path / "tuned.h5", "--dataset", rule)
    with h5py.File(tmp_path / "tuned.h5") as file:
        assert file["a"].chunks == (5, 30, 40)
        ratio = h5lossy.assess(f"{files[0]}:/a", file["a"]).size.ratio
    assert ratio == pytest.approx(found["best"]["ratio"], rel=1e-3)


def test_what_auto_prefers_is_tried_and_proposed(files: tuple[Path, Path], tmp_path: Path) -> None:
    options = ("-d", "a", "--require", "psnr>=60", "--codecs", "auto-size")
    found = json.loads(run("tune", files[0], *options, "--json").output)
    assert (found["best"]["codec"], found["best"]["settings"]) == ("auto", {"prefer": "size"})
    rule = found["command"].split()[-1]
    assert rule.endswith(",codec=auto,prefer=size")
    run("repack", files[0], tmp_path / "tuned.h5", "--dataset", rule)
    with h5py.File(tmp_path / "tuned.h5") as file:
        assert h5lossy.describe(file["a"]).config == h5lossy.Auto(
            absolute=found["best"]["absolute"], prefer="size"
        )
    rows = json.loads(run("sweep", files[0], "-d", "a", "--bounds", "1e-3", "--json").output)
    assert [row["codec"] for row in rows["settings"]] == TRIED
    assert rows["settings"][-1]["ratio"] >= max(row["ratio"] for row in rows["settings"]) / 1.001


@pytest.mark.slow
@pytest.mark.parametrize(
    "goal",
    [
        Goal(requirements=parse_requirements("psnr>=50")),
        Goal(requirements=parse_requirements("ssim>=0.999")),
        Goal(requirements=parse_requirements("rmse<=0.01")),
        Goal(ratio=9.0),
    ],
    ids=str,
)
def test_a_sample_is_not_the_last_word(monkeypatch: pytest.MonkeyPatch, goal: Goal) -> None:
    # Both parts of the sample vary, and half of all other planes do not.
    rng = np.random.default_rng(0)
    x = np.zeros((400, 12, 14), np.float32)
    x[:32], x[184:216], x[-32:] = rng.normal(size=(3, 32, 12, 14))
    field = Field(values=x, chunks=(40, 12, 14), missing=Missing(x.dtype))
    for name in ("_LOOSER", "_TIGHTER"):  # they only take time here
        monkeypatch.setattr(tuning, name, 0)
    whole = Search(field, [h5lossy.PFPL]).run(goal)
    monkeypatch.setattr(tuning, "_SAMPLE_VALUES", 1 << 13)
    found = Search(field, [h5lossy.PFPL]).run(goal)
    assert len(whole.tried) == 1 < len(found.tried)
    assert found.limits == whole.limits
    assert not goal.failures(found.best)
    assert found.best.size.stored_bytes == pytest.approx(whole.best.size.stored_bytes, rel=0.01)


@pytest.mark.parametrize("sample", [np.nan, 0, 1])
@pytest.mark.parametrize("require", ["nines>=5", "p99<=0", "ssim>=1", "rmse<=1e300"])
def test_what_can_be_met_is_found_though_the_sample_is_unlike_the_field(
    monkeypatch: pytest.MonkeyPatch, sample: float, require: str
) -> None:
    rng = np.random.default_rng(0)
    x = np.zeros((400, 12, 14), np.float32)
    x[:80] = x[160:240] = x[-80:] = sample * rng.integers(0, 2, (80, 12, 14))
    x[100:140] = rng.normal(size=(40, 12, 14))
    for name in ("_LOOSER", "_TIGHTER"):
        monkeypatch.setattr(tuning, name, 0)
    monkeypatch.setattr(tuning, "_SAMPLE_VALUES", 1 << 13)
    goal = Goal(requirements=parse_requirements(require))
    field = Field(values=x, chunks=(40, 12, 14), missing=Missing(x.dtype))
    found = Search(field, [h5lossy.PFPL]).run(goal)
    assert not goal.failures(found.best)
    loosest = "the loosest bound, an eighth of the range"
    assert found.limits == ((loosest,) if require == "rmse<=1e300" else (require,))


def test_a_sample_takes_its_ssim_from_the_range_of_the_field(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = np.random.default_rng(0).normal(size=(400, 12, 14)).astype(np.float32)
    x[100, :2, :2] = 100  # no part of the sample
    monkeypatch.setattr(tuning, "_SAMPLE_VALUES", 1 << 13)
    field = Field(values=x, chunks=(40, 12, 14), missing=Missing(x.dtype))
    goal = Goal(requirements=parse_requirements("ssim>=0.99"))
    found = Search(field, [h5lossy.PFPL]).run(goal)
    assert len(found.tried) <= 2
    assert not goal.failures(found.best)
    # The report is that of an assessment without a given range.
    assert found.best.report.ssim.value_range == float(x.max()) - float(x.min())


def test_sweep_and_tune_take_what_repack_takes(tmp_path: Path) -> None:
    values = np.sin(np.linspace(0, 9, 1500)).reshape(30, 50).astype("f4")
    numbers = (values * (1 + 1j)).astype("c8")
    numbers[3, :4] = 3 + 3j
    with h5py.File(tmp_path / "a.h5", "w") as file:
        large = {"maxshape": (None, None), "chunks": (64, 64)}
        file.create_dataset("t", data=values, **large)
        file.create_dataset("none", (0, 50), "f4", **large)
        file.create_dataset("equal", data=numbers, fillvalue=3 + 3j)
        file.create_dataset("unequal", data=numbers, fillvalue=3 + 4j)
        file.create_dataset("flag", data=values > 0)
    wanted = ("--require", "psnr>=60", "--codecs", "pfpl")
    for name, code, text in (
        ("t", 0, "repack"),
        ("equal", 0, "repack"),
        ("none", 2, "/none has no values: its shape is (0, 50)"),
        ("unequal", 2, "must have equal real and imaginary parts"),
        ("flag", 2, "no dataset there has numbers that can have a bound"),
    ):
        tuned = run("tune", tmp_path / "a.h5", "-d", name, *wanted, code=code).output
        assert text in tuned
        assert "Warning" not in tuned
        bounds = ("--bounds", "1e-3", "--codecs", "pfpl")
        swept = run("sweep", tmp_path / "a.h5", "-d", name, *bounds, code=code).output
        assert (text if code else "pfpl") in swept


@pytest.mark.parametrize(("ratio", "is_noise_in_sample"), [(15, False), (40, True)])
def test_a_sample_unlike_the_field_is_replaced(ratio: float, is_noise_in_sample: bool) -> None:
    rng = np.random.default_rng(0)
    along = np.linspace(0, 9, 80)
    x = np.sin(along + np.arange(400)[:, None, None] / 30) * np.cos(along[:, None])
    x = x.astype(np.float32)
    field = Field(values=x, chunks=(1, 80, 80), missing=Missing(x.dtype))
    sampled = (x == tuning._sample_of(field).values[:, None]).all(axis=(-2, -1)).any(axis=0)
    assert 40 <= sampled.sum() <= 200
    noisy = np.flatnonzero(sampled == is_noise_in_sample)[:40]
    x[noisy] += rng.normal(0, 0.3, (len(noisy), 80, 80)).astype(np.float32)
    found = Search(field, [h5lossy.Interp]).run(Goal(ratio=ratio))
    assert found.best.size.ratio >= ratio
    # A sample of runs of planes led to a quarter of the ratio, and then to a half of the room.
    assert found.best.size.ratio <= 1.02 * ratio
    assert len(found.tried) <= 5


@pytest.mark.slow
def test_tune_says_what_it_tries(files: tuple[Path, Path]) -> None:
    out = run("tune", files[0], "-d", "a", "--require", "psnr>=60").output
    assert "ok\n" in out
    assert "limited by: psnr>=60\nuse: h5lossy repack" in out
    assert (
        "no bound meets"
        in run(
            "tune", files[0], "-d", "a", "--require", "ratio>=1e9", "--codecs", "pfpl", code=1
        ).output
    )


@pytest.mark.slow
@pytest.mark.parametrize("ratio", [3.0, 7.5])
def test_tune_finds_the_best_quality_at_a_ratio(
    files: tuple[Path, Path], tmp_path: Path, ratio: float
) -> None:
    options = ("-d", "a", "--codecs", "pfpl,aatrox", "--ratio", ratio)
    found = json.loads(run("tune", files[0], *options, "--json").output)
    best = found["best"]
    assert ratio <= best["ratio"]
    rule = f"a:absolute={best['absolute']!r},codec={best['codec']}"
    run("repack", files[0], tmp_path / "tuned.h5", "--dataset", rule)
    run("assess", files[0], tmp_path / "tuned.h5", "-d", "a", "--require", f"ratio>={ratio}")
    # A bound that is tighter by a quarter of an octave has not the ratio, or more error elsewhere.
    tight = rule.replace(f"{best['absolute']!r}", f"{best['absolute'] * 0.8!r}")
    run("repack", files[0], tmp_path / "tight.h5", "--dataset", tight)
    run(
        "assess", files[0], tmp_path / "tight.h5", "-d", "a", "--require", f"ratio>={ratio}", code=1
    )
    with_psnr = run("tune", files[0], *options, "--require", "psnr>=500", code=1).output
    assert f"no bound meets psnr>=500, ratio>={ratio:g}" in with_psnr


@pytest.mark.parametrize("ratio", ["nan", "inf", "0.5", "much"])
def test_ratios_that_are_none_are_refused(files: tuple[Path, Path], ratio: str) -> None:
    said = run("tune", files[0], "-d", "a", "--ratio", ratio, code=2).output
    assert "--ratio" in said
    assert ratio in said


@pytest.mark.parametrize("size", ["0", "0.4", "1e999", "much"])
def test_sizes_that_are_none_are_refused(files: tuple[Path, Path], size: str) -> None:
    said = run("tune", files[0], "-d", "a", "--size", size, code=2).output
    assert "--size must be a number of bytes, at least 1" in said


def test_rules_that_were_found_survive_a_full_disk(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    resource = pytest.importorskip("resource", reason="only POSIX limits the size of files")
    rules = tmp_path / "rules.toml"
    options = ["--all", "--codecs", "pfpl", "--require", "psnr>=40", "--rules", rules]
    run("tune", files[0], *options)
    whole = rules.read_text()
    second = whole.index("\n# ratio", whole.index("[[rule]]"))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    inside = whole.index("absolute = ", second) + len("absolute = ") + 1
    resource.setrlimit(resource.RLIMIT_FSIZE, (inside, limits[1]))
    try:
        said = run("tune", files[0], *options, code=2).output
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert f"{rules} can't be written: [Errno 27] File too large" in " ".join(said.split())
    assert rules.read_text() == whole[:second]  # no part of a number


@pytest.mark.slow
def test_all_datasets_share_a_size(files: tuple[Path, Path]) -> None:
    options = ("--all", "--codecs", "pfpl", "--json")
    found = json.loads(run("tune", files[0], *options, "--size", 40_000).output)["datasets"]
    assert [one["limited_by"] for one in found] == [["size"], ["size"]]
    sizes = [24 * 30 * 40 * 4 / one["best"]["ratio"] for one in found]
    assert 0.98 * 40_000 <= sum(sizes) <= 40_000
    one, other = (one["best"]["rmse"] / one["best"]["absolute"] for one in found)
    assert one == pytest.approx(other, rel=0.1)
    assert (
        "no bound meets size<=2.0 kB"
        in run("tune", files[0], *options, "--size", 2000, code=1).output
    )


def test_datasets_without_a_number_leave_a_shared_size_to_the_others(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(30, 40)).cumsum(axis=0).astype(np.float32)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a"] = x
        file["complex"] = x.astype("c8")
        file["constant\nno rule for /a"] = np.ones_like(x)
    options = ("--all", "--codecs", "pfpl", "--require", "ssim>=0.9", "--size", "1 MiB")
    said = run("tune", tmp_path / "a.h5", *options, code=1).output
    assert "no rule for /complex: ssim is not defined for this data" in said
    assert r"no rule for /constant\nno rule for /a: the data has no range" in said
    assert "use: h5lossy repack" in said
    assert "limited by" not in said  # everything fits
    assert said.count("ok\n") == 1


def test_relative_thresholds_get_relative_bounds(files: tuple[Path, Path]) -> None:
    require = "error.pointwise.max<=1e-3"
    options = ("-d", "a", "--codecs", "pfpl,cuszp2", "--require", require)
    found = run("tune", files[0], *options).output
    assert "pointwise-relative=0.00" in found
    assert f"limited by: {require.replace('1e-3', '0.001')}" in found


def test_tune_says_before_any_try_what_is_not_defined(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["t"] = np.random.default_rng(0).normal(size=(5, 300))
    name = tmp_path / "a.h5"
    said = run("tune", name, "--require", "psnr>=40, ssim>=0.9", code=2)
    assert (
        "ssim is not defined for this data: an axis is shorter than the window of 7" in said.stderr
    )
    assert not said.stdout
    said = run("tune", name, "--require", "pnsr>=40", code=2)
    assert "got 'pnsr', did you mean psnr?" in said.stderr
    assert "give --require, or --ratio or --size, or both" in run("tune", name, code=2).stderr

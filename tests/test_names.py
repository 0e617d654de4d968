# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Names of datasets and files, attributes of odd types, and globs: the same for all commands."""

from __future__ import annotations

import itertools
import json
import random
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest
from h5py import h5a, h5d, h5g, h5o, h5s, h5t

from h5lossy import PFPL
from h5lossy._globs import matches
from h5lossy._names import path_text
from h5lossy._repacking.objects import has_variable_length
from hdf5_helpers import field, h5lossy_command

if TYPE_CHECKING:
    from pathlib import Path

NAMES = {
    "control": b"red\x1b[31m\n\r\x00"[:-1],
    "not UTF-8": b"\xff\xfe t\xe9",
    "long": b"n" * 5000,
    "space": b" ",
    "dots": b"..",
    "glob": b"[*]?",
    "markup": b"[bold]<b>&`|$(x)'\"",
    "in a group": b"gr\xffup/sub\x07/t",
    "right to left": "\u202etxt".encode(),
    "colon": b"a:/b:lossless",
}

#: Each command, with files A (plain) and B (compressed), and whether it prints JSON.
COMMANDS: dict[str, tuple[list[str], bool]] = {
    "info": (["info", "B"], False),
    "info --frames": (["info", "--frames", "A", "B"], False),
    "info --json": (["info", "--json", "B"], True),
    "verify": (["verify", "B"], False),
    "verify --json": (["verify", "--json", "B"], True),
    "verify --against": (["verify", "B", "--against", "A"], False),
    "assess": (["assess", "--metrics", "bound", "A", "B"], False),
    "assess --json": (["assess", "--metrics", "bound", "--json", "A", "B"], True),
    "doctor": (["doctor", "B"], False),
    "doctor --json": (["doctor", "--json", "B"], True),
    "repack": (["repack", "--absolute", "1e-3", "A", "C"], False),
    "repack --json": (["repack", "--json", "--absolute", "1e-3", "A", "C"], True),
    "sweep": (["sweep", "A", "--bounds", "1e-2"], False),
    "tune --json": (["tune", "--json", "A", "--require", "psnr>=40"], True),
}

SLOW = {"tune --json": pytest.mark.slow}


def run_command(folder: Path, arguments: list[str]) -> Any:
    """Run a command on the files that stand for A, B and C; a traceback fails the test."""
    files = {"A": folder / "a.h5", "B": folder / "b.h5", "C": folder / "c.h5"}
    result = h5lossy_command(*(files.get(one, one) for one in arguments), status=None)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def make_files(folder: Path, name: bytes) -> None:
    for file_name, options in (("a.h5", {}), ("b.h5", {"compression": PFPL(absolute=1e-3)})):
        with h5py.File(folder / file_name, "w") as file:
            group, _, last = name.rpartition(b"/")
            for i in range(group.count(b"/") + 1 if group else 0):  # h5py takes only UTF-8 here
                h5g.create(file.id, b"/".join(group.split(b"/")[: i + 1]))
            parent = h5py.Group(h5o.open(file.id, group or b"/"))
            parent.create_dataset(last, data=field((48, 60)), chunks=(16, 60), **options)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "command",
    [pytest.param(command, marks=SLOW.get(command, ())) for command in COMMANDS],
)
def test_every_command_takes_every_name(tmp_path: Path, command: str, name: str) -> None:
    make_files(tmp_path, NAMES[name])
    arguments, is_json = COMMANDS[command]

    result = run_command(tmp_path, arguments)

    assert result.exit_code == 0, result.output
    assert not set(result.output) & {*map(chr, range(32)), "\x7f", "\u202e"} - {"\n"}
    result.output.encode()  # lone surrogates could not be printed
    if is_json:
        said = json.loads(result.stdout)
        assert json.dumps(f"/{path_text(NAMES[name])}")[1:-1] in json.dumps(said)


ATTRIBUTES = ("missing_value", "valid_min", "scale_factor", "add_offset", "units", "h5lossy")
RECORDS = ("lossy_compression", "h5lossy_report", "h5lossy_hashes")


def _compound(name: bytes, field_type: h5t.TypeID) -> h5t.TypeID:
    made = h5t.create(h5t.COMPOUND, field_type.get_size())
    made.insert(name, 0, field_type)
    return made


def _enum(name: bytes) -> h5t.TypeID:
    made = h5t.enum_create(h5t.STD_I16LE)
    made.enum_insert(name, 0)
    return made


def _wide_exponent() -> h5t.TypeID:
    """Return a float of 4 bytes, for which h5py takes 8."""
    made = h5t.IEEE_F32LE.copy()
    made.set_fields(31, 20, 11, 0, 20)
    made.set_ebias(1023)
    return made


TYPES = {
    "time": h5t.UNIX_D32LE,
    "bit field": h5t.STD_B8LE,
    "opaque": h5t.create(h5t.OPAQUE, 3),
    "24 bits": h5t.STD_I32LE.copy(),
    "field not UTF-8": _compound(b"\xff", h5t.IEEE_F32LE),
    "word not UTF-8": _enum(b"\xff"),
    "text in a field not UTF-8": _compound(b"\xff", h5t.py_create(h5py.string_dtype())),
    "field larger in memory": _compound(b"a", _wide_exponent()),
}
TYPES["24 bits"].set_size(3)


@pytest.mark.filterwarnings("ignore:.*is ignored")
@pytest.mark.parametrize("attribute", ATTRIBUTES + RECORDS)
@pytest.mark.parametrize("kind", TYPES)
def test_no_attribute_ends_a_command_with_a_traceback(
    tmp_path: Path, attribute: str, kind: str
) -> None:
    make_files(tmp_path, b"x")
    for file_name in ("a.h5", "b.h5"):
        with h5py.File(tmp_path / file_name, "r+") as file:
            h5a.create(file["x"].id, attribute.encode(), TYPES[kind], h5s.create(h5s.SCALAR))
    for command in ("info", "verify", "assess", "repack", "doctor"):
        result = run_command(tmp_path, COMMANDS[command][0])
        may_fail = attribute in {"scale_factor", "add_offset", *RECORDS}
        assert result.exit_code == 0 or may_fail, (command, result.output)


@pytest.mark.parametrize("kind", TYPES)
def test_what_h5py_refuses_ends_no_command_with_a_traceback(tmp_path: Path, kind: str) -> None:
    make_files(tmp_path, b"x")
    type_id = TYPES[kind]
    content = np.arange(1, 1 + 3 * type_id.get_size(), dtype="u1").reshape(3, -1)
    is_text = has_variable_length(type_id)
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        y = h5d.create(file.id, b"y", type_id, h5s.create_simple((3,)))
        if not is_text:
            y.write(h5s.ALL, h5s.ALL, content, type_id)
    for command in (["doctor", "A"], ["info", "A"], ["assess", "A", "A"], ["sweep", "A"]):
        result = run_command(tmp_path, command)
        assert result.exit_code == 0, (command, result.output)
    result = run_command(tmp_path, ["repack", "A", "C", "--absolute", "1"])
    assert result.exit_code == 0, result.output
    with h5py.File(tmp_path / "c.h5") as file:
        copy = h5d.open(file.id, b"y")
        found = np.zeros_like(content)
        if not is_text:
            copy.read(h5s.ALL, h5s.ALL, found, type_id)
            np.testing.assert_array_equal(found, content)
        assert copy.get_type().equal(type_id)
    region = ["--region", "/x", "/y", "0.5"]  # a mask of a type that NumPy may lack
    result = run_command(tmp_path, ["repack", "A", "C", "--force", "--absolute", "1", *region])
    assert (result.exit_code, result.output.startswith("Error: ")) == (1, True), result.output


def matches_slowly(path: str, pattern: str) -> bool:
    """Try every way to share the names of a path among the parts of a pattern."""

    def match(names: list[str], wanted: list[str]) -> bool:
        if not wanted:
            return not names
        if wanted[0] == "**":
            return any(match(names[i:], wanted[1:]) for i in range(len(names) + 1))
        return bool(names) and fnmatchcase(names[0], wanted[0]) and match(names[1:], wanted[1:])

    wanted = pattern.split("/")[1:] if pattern.startswith("/") else ["**", *pattern.split("/")]
    return match(path.split("/")[1:], wanted)


def test_globs_match_what_trying_all_ways_matches() -> None:
    rng = random.Random(5)
    found = set()
    for _ in range(5000):
        path = "/" + "/".join(rng.choices(["a", "b", "ab", "*"], k=rng.randrange(1, 7)))
        parts = rng.choices(["a", "b", "?", "a*", "*", "**", "[ab]"], k=rng.randrange(1, 6))
        pattern = rng.choice(["", "/"]) + "/".join(parts)
        expected = matches_slowly(path, pattern)
        if set("*?[") & set(pattern):
            assert matches(path, pattern) is expected, (path, pattern)
            found.add((expected, min(2, pattern.count("**"))))
    assert found == set(itertools.product([True, False], [0, 1, 2]))


def test_many_stars_are_no_more_work_than_names_times_parts() -> None:
    path = "/" + "/".join(["aaa"] * 200)
    assert not matches(path, "/" + "**/a*/" * 60 + "z")  # to try all ways would never end
    assert matches(path, "/" + "**/a*/" * 60 + "a*")


def test_datasets_are_open_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with h5py.File(tmp_path / "b.h5", "w") as file:
        for i in range(50):
            x = file.create_dataset(f"{i}", (8,), "f4", chunks=(4,), compression=PFPL(absolute=1))
            x[...] = np.arange(8)
    counts = []
    original = h5py.Dataset.__init__

    def count(self: h5py.Dataset, *arguments: Any, **options: Any) -> None:
        original(self, *arguments, **options)
        counts.append(h5py.h5f.get_obj_count(self.file.id, h5py.h5f.OBJ_DATASET))

    monkeypatch.setattr(h5py.Dataset, "__init__", count)
    for arguments in (["info", "B"], ["verify", "B"], ["verify", "-d", "/5", "B"]):
        counts.clear()
        assert run_command(tmp_path, arguments).exit_code == 0
        assert 0 < max(counts) <= 3

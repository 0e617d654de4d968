# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""I/O that fails, and processes that are killed: the result is an error or the right values.

H5LOSSY_IO_CASES is how many calls of each kind are tried, out of up to a few hundred.
"""

from __future__ import annotations

import collections
import errno
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from hdf5_helpers import PYTHON, environment, h5lossy_command, run, tool

CASES = os.environ.get("H5LOSSY_IO_CASES", "2")
FOLDER = Path(__file__).parent / "failing_io"
WRITE, TRUNCATE, SYNC, RESERVE, RENAME = range(5)


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the library that intercepts system calls."""
    compiler = shutil.which("cc")
    if compiler is None or not Path("/proc/self/fd").exists():
        pytest.skip("takes a C compiler and Linux")
    library = tmp_path_factory.mktemp("shim") / "failing_io.so"
    run(compiler, "-shared", "-fPIC", "-o", library, FOLDER / "failing_io.c", "-ldl")
    return library


def cases(shim: Path, *arguments: str | Path) -> list[Any]:
    """Run cases.py and return its result for each case."""
    done = subprocess.run(
        [*PYTHON, FOLDER / "cases.py", *arguments],
        env=environment(LD_PRELOAD=str(shim)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


FAILURES = {
    "once": f"once {errno.EIO}",
    "lasting": f"lasting {errno.EIO}",
    "full": f"lasting {errno.ENOSPC}",
    "short": "lasting 0",  # which is no failure
}


@pytest.mark.slow
@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_a_write_that_fails_says_so(shim: Path, tmp_path: Path, failure: str, libver: str) -> None:
    for case in cases(shim, "fail", tmp_path, "write", libver, failure, CASES):
        found = case["found"]
        if case["status"] == 0:
            assert set(found) == {"written: new", "other: old"}, case
            continue
        assert failure != FAILURES["short"], case
        assert "Error" in case["said"]
        # HDF5 itself crashes at the end of a process that could not close a file.
        assert case["status"] == 1 or failure.startswith("lasting"), case
        assert not {kind for kind in found if kind.endswith(("wrong", "crash"))}, case
        assert not {"other: absent", "other: new"} & set(found), case


@pytest.mark.slow
@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_a_repack_that_fails_leaves_nothing(shim: Path, tmp_path: Path, failure: str) -> None:
    for case in cases(shim, "fail", tmp_path, "repack", "earliest", failure, CASES):
        if case["status"] == 0:
            assert set(case["found"]) == {"written: old", "other: old"}, case
        else:
            assert failure != FAILURES["short"], case
            assert case["status"] == 1, case
            said = [line for line in case["said"].splitlines() if not line.startswith("Warning: ")]
            assert said[0].startswith("Error: "), case
            assert case["found"] is None, case
        assert not case["left"], case


def test_a_repack_is_on_the_disk_before_it_has_its_name(shim: Path, tmp_path: Path) -> None:
    [kinds] = cases(shim, "order", tmp_path)
    assert WRITE in kinds
    assert kinds[-2:] == [SYNC, RENAME]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["larger", "smaller", "swmr"])
@pytest.mark.parametrize("index", ["fixed", "one unlimited", "two unlimited"])
@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_what_a_killed_write_leaves(
    shim: Path, tmp_path: Path, libver: str, index: str, how: str
) -> None:
    tool("h5clear")
    if how == "swmr" and libver == "earliest":
        pytest.skip("older files know no SWMR")
    said = cases(shim, "kill", tmp_path, index, libver, how, CASES)
    kinds = collections.Counter(kind for case in said for kind in case["found"])
    assert set(kinds) <= {
        "other: old",
        "other: unreadable",
        "written: old",
        "written: new",
        "written: absent",
        "written: unreadable",
    }, said


@pytest.mark.slow
def test_no_call_leaves_a_file_that_is_shorter_than_it_states(shim: Path, tmp_path: Path) -> None:
    said = cases(shim, "shrink", tmp_path, str(10 * int(CASES)))
    assert sum(case["shrunk"] for case in said) > 0
    assert not [case for case in said if case["cut"]]


@pytest.mark.slow
@pytest.mark.parametrize("libver", ["earliest", "v108", "latest"])
def test_what_hdf5_leaves_is_repaired(shim: Path, tmp_path: Path, libver: str) -> None:
    """What h5py writes up to some call, after some of which a file is shorter than it states."""
    tool("h5clear")
    said = cases(shim, "kill", tmp_path, "fixed", libver, "h5py", CASES)
    assert any("file cannot be opened" in case["found"] for case in said)
    for case in said:
        assert case["status"] == 0, case
        assert case["repaired"].get("other: old"), case
        kinds = {kind for kind in case["repaired"] if kind.startswith("written")}
        assert kinds <= {"written: old", "written: new", "written: unreadable"}, case


def doctored(*paths: Path) -> Any:
    return h5lossy_command("doctor", "--repair", *paths, status=None)


@pytest.mark.parametrize("userblock", [0, 1024])
@pytest.mark.parametrize("libver", ["earliest", "v108", "v110", "latest"])
def test_repair(tmp_path: Path, libver: str, userblock: int) -> None:
    path = tmp_path / "x.h5"
    with h5py.File(path, "w", libver=libver, userblock_size=userblock) as file:
        file["x"] = np.arange(1000)
        file.flush()
        as_if_killed = path.read_bytes()
        file["gone"] = np.arange(1000)
        file.flush()
        with_space = path.read_bytes()
        del file["gone"]
    whole = path.read_bytes()
    assert doctored(path).stdout.endswith("nothing to mend\n")
    assert path.read_bytes() == whole

    path.write_bytes(as_if_killed)
    said = doctored(path)
    marked = libver in {"v110", "latest"}
    assert ("no longer marked as open for writing" in said.stdout) == marked, said
    with h5py.File(path) as file:
        assert (file["x"][...] == np.arange(1000)).all()

    # Values are missing, not free space only: refused, and not changed.
    path.write_bytes(with_space[:-100])
    said = doctored(path)
    assert said.exit_code == 2, said
    assert "its last 100 bytes are missing" in said.stderr, said
    assert path.read_bytes() == with_space[:-100]


@pytest.mark.parametrize("missing", [1000, 9000])
@pytest.mark.parametrize("holder", ["dataset", "attribute"])
def test_a_file_that_lacks_strings_is_refused(tmp_path: Path, holder: str, missing: int) -> None:
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(1000)
        if holder == "dataset":
            file["text"] = ["a text" * 20] * 60
        else:
            file["x"].attrs["text"] = ["a text" * 20] * 60
        file.flush()
    whole = path.read_bytes()
    assert whole.rindex(b"GCOL") + 8000 < len(whole)  # the last of the file
    cut = whole[:-missing]
    path.write_bytes(cut)
    said = doctored(path)
    assert said.exit_code == 2, said
    assert f"its last {missing} bytes are missing" in said.stderr, said
    assert path.read_bytes() == cut


def test_attributes_behind_the_stated_end_come_back(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(1000)
        file.attrs["late"] = np.arange(2000)
    content = bytearray(path.read_bytes())
    content[40:48] = (len(content) - 100).to_bytes(8, "little")  # of a superblock of version 0
    path.write_bytes(content)
    assert "raised by 100 bytes" in doctored(path).stdout
    with h5py.File(path) as file:
        assert file.attrs["late"][-1] == 1999


def test_what_cannot_be_repaired(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    with h5py.File(path, "w", libver="latest") as file:
        file["x"] = 1
        file.flush()
        assert "another program has it open" in doctored(path).stderr
    damaged = bytearray(path.read_bytes())
    damaged[30] ^= 1
    for content in (b"", b"no HDF5", bytes(damaged), damaged[:20]):
        path.write_bytes(content)
        said = doctored(path)
        assert said.exit_code == 2, said
        assert "no superblock of HDF5 that is whole" in said.stderr, said
        assert path.read_bytes() == content
    assert "--repair takes the files" in doctored().stderr


def test_a_file_that_cannot_be_locked_is_not_repaired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lock(_: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("h5lossy._cli._repair.lock", lock)
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["x"] = 1
    said = doctored(path)
    assert said.exit_code == 2, said
    assert f"{path} can't be repaired, and was not changed: it can't be locked" in said.stderr


@pytest.mark.parametrize("end", [1 << 60, (1 << 64) - 2])
def test_a_file_is_not_extended_beyond_the_room_on_the_disk(tmp_path: Path, end: int) -> None:
    path = tmp_path / "x.h5"
    with h5py.File(path, "w", libver="earliest") as file:
        file["x"] = 1
    damaged = bytearray(path.read_bytes())  # superblock 0 has no checksum
    damaged[40:48] = end.to_bytes(8, "little")
    path.write_bytes(damaged)
    said = doctored(path)
    assert said.exit_code == 2, said
    assert f"it states a length of {end} bytes" in said.stderr, said
    assert path.read_bytes() == damaged

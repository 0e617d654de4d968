# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The fuzzer of whole files: a short run, and a check that it detects the intended faults."""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING

import h5py
import numpy as np
import pytest

import h5lossy
from fuzz import files, mutations, oracle, seeds
from hdf5_helpers import PYTHON, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from fuzz.seeds import Seed

CASES = 60


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[Seed]:
    """Make the files that are damaged."""
    return seeds.make_seeds(tmp_path_factory.mktemp("seeds"))


def case_of(
    made: list[Seed], folder: Path, *names: str, number: int = 0, readers: str = "look h5py read"
) -> files.Case:
    """Make the case of one seed, and read it."""
    (folder / "case").mkdir()
    case = files.make_case(made, 1, number, folder / "case", names)
    for reader in readers.split():
        case.outcomes[reader] = files.READERS[reader](case)
    return case


def kinds(case: files.Case) -> set[tuple[str, str]]:
    return {(finding.reader, finding.kind) for finding in files.judge(case)}


@pytest.mark.slow
def test_every_reader_returns_what_the_bytes_stand_for_or_an_error(tmp_path: Path) -> None:
    done = run(
        *PYTHON,
        files.__file__,
        *("--cases", str(CASES), "--seconds", "90", "--findings", tmp_path / "findings"),
        status=None,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{CASES} cases" in done.stdout


def test_the_seeds_are_of_every_kind(made: list[Seed]) -> None:
    names = " ".join(seed.name for seed in made)
    for part in [*seeds.INDEXES, *seeds.SETTINGS, *seeds.BOUNDS, *seeds.DTYPES, *seeds.BEHIND]:
        assert part in names
    for index in seeds.INDEXES:
        with_index = [seed for seed in made if f"-{index}" in seed.name]
        assert {seed.record for seed in with_index} == {True, False}
        assert any(seed.name.endswith(("-gzip", "-fletcher32")) for seed in with_index)
    assert {seed.record for seed in made} == {seed.checksum for seed in made} == {True, False}


@pytest.mark.parametrize("reader", ["h5py", "read"])
def test_a_wrong_value_is_seen(made: list[Seed], tmp_path: Path, reader: str) -> None:
    case = case_of(made, tmp_path)
    assert kinds(case) == set()
    values = case.outcomes[reader].values
    values[36, 49] = np.nextafter(values[36, 49], np.float32(0))
    assert (reader, "other values") in kinds(case)


def test_values_of_a_broken_chunk_are_seen(made: list[Seed], tmp_path: Path) -> None:
    case = case_of(made, tmp_path, "flip_frame")
    assert "checksum" in case.expected.broken
    assert kinds(case) == set()
    case.outcomes["read"] = files.Outcome("values", values=case.patient.seed.decoded)
    assert kinds(case) == {
        ("read", "content with what is broken"),
    }


@pytest.mark.parametrize("command", ["verify", "repack", "assess"])
def test_a_command_that_is_content_is_seen(made: list[Seed], tmp_path: Path, command: str) -> None:
    case = case_of(made, tmp_path, "flip_frame")
    case.outcomes[command] = files.Outcome("exit 0")
    assert (command, "content with what is broken") in kinds(case)


def test_other_values_than_were_recorded_are_seen(made: list[Seed], tmp_path: Path) -> None:
    number = next(i for i, seed in enumerate(made) if seed.record)
    case = case_of(made, tmp_path, number=number)
    case.patient.notes.append("of a test")
    assert case.outcomes["h5py"].values is not None
    case.outcomes["h5py"].values[0, 0] += 1
    case.outcomes["verify"] = files.Outcome("exit 0")
    assert ("verify", "content with other values than were recorded") in kinds(case)


def test_the_single_chunk_of_a_dataset_that_claims_more_is_read_for_every_place(
    made: list[Seed], tmp_path: Path
) -> None:
    number = next(i for i, seed in enumerate(made) if "-single" in seed.name)
    (tmp_path / "case").mkdir()
    case = files.make_case(made, 1, number, tmp_path / "case")
    image = mutations.Image(case.path)
    assert len(image.chunks) == 1
    extents = struct.pack("<2Q", *image.shape)
    at = image.bytes.find(extents, image.header)
    while at >= 0:  # the current extents, and the largest ones
        image.set(at, struct.pack("<2Q", *(3 * n for n in image.shape)))
        at = image.bytes.find(extents, at + 1)
    image.save()
    for reader in ("look", "h5py", "read"):
        case.outcomes[reader] = files.READERS[reader](case)
    values = case.outcomes["read"].values
    assert values.shape == tuple(3 * n for n in image.shape)
    assert kinds(case) == set()
    values[-1, -1] += 1  # of a place that HDF5 does not list
    assert kinds(case) == {("read", "other values"), ("read", "other values than h5py's")}


CRASHES: dict[str, str] = {
    "signal.raise_signal(signal.SIGSEGV)": "SIGSEGV",
    "ctypes.memset(ctypes.create_string_buffer(400 << 20), 1, 400 << 20)": "memory",
    "exec('raise AssertionError')": "exit 1: AssertionError",
}


@pytest.mark.slow
@pytest.mark.parametrize("what", CRASHES)
def test_what_a_reader_must_not_do_is_seen(tmp_path: Path, what: str) -> None:
    code = f"""
import ctypes, signal, sys
sys.path.insert(0, {str(files.TESTS)!r})
from pathlib import Path
from fuzz import files, seeds
folder = Path(sys.argv[1])
(folder / "case").mkdir()
made = [seeds._sparse(folder)]
files.READERS = {{"look": files._look, "read": lambda case: ({what}, files._h5lossy(case))[1]}}
make = lambda: files.make_case(made, 1, 0, folder / "case")
story, _ = files.examine(make, folder / "case", said=folder / "said")
print([(one.reader, one.kind) for one in story.found])
"""
    done = run(*PYTHON, "-c", code, tmp_path)
    assert f"('read', '{CRASHES[what]}" in done.stdout


@pytest.mark.parametrize("index", seeds.INDEXES)
def test_hdf5_reads_changed_bytes_without_complaint(
    made: list[Seed], tmp_path: Path, index: str
) -> None:
    seed = next(seed for seed in made if f"-{index}" in seed.name)
    path = tmp_path / "a.h5"
    path.write_bytes(seed.content)
    patient = mutations.Patient(seed, path, random.Random(1))
    image = mutations.Image(path)
    # Bit 9 of the flags: frames have no checksum. It matters to nobody who reads.
    image.set(image.words + 17, bytes([image.bytes[image.words + 17] ^ 2]))
    image.save()
    assert patient.path.read_bytes() != seed.content
    with h5py.File(path) as file:
        assert oracle.same(file[seeds.NAME][...], seed.decoded)


@pytest.mark.parametrize(
    "change", [lambda f: f, lambda f: f[:16] + b"\0" * 8 + f[24:]], ids=["as it is", "without"]
)
def test_a_sealed_frame_has_right_checksums(
    made: list[Seed], tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    for seed in made:
        path = tmp_path / "a.h5"
        path.write_bytes(seed.content)
        with h5py.File(path) as file:
            dataset = file[seeds.NAME]
            stored = bytes(dataset.id.read_direct_chunk((0,) * len(dataset.shape))[1])
            frame = mutations.unwrapped(dataset, stored)
            assert mutations.seal(change(frame)) == frame, seed.name


# ------------------------------------------------------------------------------------------------
# What it found
# ------------------------------------------------------------------------------------------------


def test_a_chunk_that_is_listed_and_nowhere_has_the_fill_value(
    made: list[Seed], tmp_path: Path
) -> None:
    number = next(i for i, seed in enumerate(made) if "v2-btree" in seed.name and seed.record)
    case = case_of(made, tmp_path, number=number, readers="")
    image = mutations.Image(case.path)
    address = struct.pack("<Q", image.chunks[3].byte_offset)
    assert image.bytes.count(address) == 1
    image.set(image.bytes.index(address), b"\xff" * 8)
    image.save()
    for reader in ("look", "h5py", "read", "repack"):
        case.outcomes[reader] = files.READERS[reader](case)
        assert case.outcomes[reader].is_content
    assert kinds(case) == set()


def test_a_chunk_of_more_bytes_than_there_can_be_is_an_error(
    made: list[Seed], tmp_path: Path
) -> None:
    number = next(i for i, seed in enumerate(made) if "fixed-array" in seed.name and seed.record)
    case = case_of(made, tmp_path, number=number, readers="")
    image = mutations.Image(case.path)
    entry = struct.pack("<QQ", image.chunks[3].byte_offset, image.chunks[3].size)
    if image.bytes.count(entry) == 0:
        pytest.skip("HDF5 before 2.0 has no room for such a size")
    image.set(image.bytes.index(entry) + 15, b"\xff")
    image.save()
    with h5py.File(case.path) as file, pytest.raises(h5lossy.CorruptFrameError, match="more bytes"):
        h5lossy.read(file[seeds.NAME])
    assert files.READERS["verify"](case).status == "exit 1"

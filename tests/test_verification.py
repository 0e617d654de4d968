# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Values that are verified when they are written can be checked later, without the original."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

import file_attacks
import h5lossy
from file_attacks import lose_chunk
from h5lossy import BoundViolationError, IncompleteWriteError, InvalidArgumentError
from h5lossy._verification import recorder, records
from h5lossy._verification.hashes import Hashes, hash_chunks
from h5lossy._verification.recorder import Recorder
from h5lossy._verification.records import HASH_ATTRIBUTE, REPORT_ATTRIBUTE
from hdf5_helpers import (
    create,
    creation_list,
    h5lossy_command,
    leave_partial_chunks_unfiltered,
    stored_chunks,
)
from matrix import slow_but

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ABSOLUTE = h5lossy.PFPL(absolute=0.01)

CODECS = [
    ABSOLUTE,
    h5lossy.CuSZp2(pointwise_relative=1e-3),
    h5lossy.AATROX(absolute=0.01),
    h5lossy.Auto(absolute=0.01),
    h5lossy.PFPL(range_relative=1e-3),
    h5lossy.PFPL(lossless=True),
]


def field(dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 60)).cumsum(axis=1).astype(dtype)
    x[3, 4], x[10, 10], x[20, :3] = np.nan, np.inf, -999
    return x


def record_of(dataset: h5py.Dataset, original: Any) -> dict[str, Any]:
    """Make the record of a dataset that has been written without one."""
    dataset.flush()
    recorder = Recorder(dataset)
    for start in (chunk.chunk_offset for chunk in stored_chunks(dataset)):
        inside = tuple(slice(s, s + n) for s, n in zip(start, dataset.chunks, strict=True))
        values = h5lossy.read(dataset, inside)  # HDF5 has it in its cache, not encoded
        shape = tuple(slice(s, s + n) for s, n in zip(start, values.shape, strict=True))
        recorder.add(start, original[shape], values)
    return recorder.finish()


@pytest.fixture(params=CODECS, ids=repr)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        t = file.create_dataset(
            "t", (50, 60), "f4", chunks=(16, 16), compression=request.param, fillvalue=-999
        )
        h5lossy.write(t, field(), verify=True)
    return tmp_path / "a.h5"


# Records are alike for all codecs.
of_one_codec = pytest.mark.parametrize("path", CODECS[:1], indirect=True, ids=repr)


def test_what_was_written_is_what_is_read(path: Path) -> None:
    with h5py.File(path) as file:
        found = h5lossy.verify(file["t"], against=field())
    assert found.ok
    assert (found.chunks, found.recorded) == (16, 16)
    assert found.report.ok
    recorded = found.record["found"]
    assert recorded["max_abs"] == found.report.error.max_abs
    assert recorded["rmse"] == pytest.approx(found.report.error.rmse, rel=1e-12)
    assert recorded["special"] == {"nan_kept": 1, "inf_kept": 1, "fill_kept": 3}


def test_the_record_is_small(path: Path) -> None:
    with h5py.File(path) as file:
        attributes = file["t"].attrs
        assert len(attributes[REPORT_ATTRIBUTE]) < 2000
        assert len(attributes[HASH_ATTRIBUTE]) == len("sum64 0:") + 16 * 16


def test_the_record_is_in_the_file_when_the_call_returns(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "b.h5"
    with h5py.File(path, "r+") as file:
        h5lossy.write(file["t"], 2 * field(), verify=True)
        shutil.copy(path, copy)  # what is left if the process is killed now
    with h5py.File(copy) as file:
        found = h5lossy.verify(file["t"])
    assert found.ok
    assert found.recorded == 16


def test_a_value_that_was_changed_later_is_found(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        file["t"][20, 40] += 1
    with h5py.File(path) as file:
        found = h5lossy.verify(file["t"])
    assert not found.ok
    assert not found.is_damaged  # somebody wrote it, and its checksum is right
    assert [problem.chunk for problem in found.outdated] == [(1, 2)]
    assert "differs from the record" in found.outdated[0].why
    assert found.recorded == 15


def test_a_damaged_frame_is_found(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        mask, frame = file["t"].id.read_direct_chunk((16, 16))
        broken = bytearray(frame)
        broken[-1] ^= 1
        file["t"].id.write_direct_chunk((16, 16), bytes(broken), mask)
    with h5py.File(path) as file:
        found = h5lossy.verify(file["t"])
        both = h5lossy.verify(file["t"], against=field())
    assert [problem.chunk for problem in found.problems] == [(1, 1)]
    assert [problem.chunk for problem in both.problems] == [(1, 1), None]
    assert "not compared" in both.problems[1].why
    assert both.report is None


def test_a_frame_with_a_looser_bound_is_found(tmp_path: Path) -> None:
    x = field()[:16, :16].copy()
    with h5py.File(tmp_path / "a.h5", "w") as file:
        t = file.create_dataset("t", data=x, chunks=(16, 16), **ABSOLUTE)
        file.flush()
        t.id.write_direct_chunk((0, 0), h5lossy.encode(x, h5lossy.PFPL(absolute=0.5)))
        found = h5lossy.verify(t, against=x)
    assert "the dataset says absolute 0.01" in found.problems[0].why
    assert found.report.bound.violations > 0


def test_without_a_record_checksums_are_what_is_checked(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        t = file.create_dataset("t", data=field(), **ABSOLUTE)
        file.flush()
        found = h5lossy.verify(t)
    assert found.ok
    assert found.record is None
    assert found.recorded == 0


def test_other_datasets_have_nothing_to_verify(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        found = h5lossy.verify(file.create_dataset("t", data=field(), compression="gzip"))
    assert found.ok
    assert found.codec is None


def test_a_dataset_can_grow_and_be_verified_piece_by_piece(tmp_path: Path) -> None:
    x = field()
    with h5py.File(tmp_path / "a.h5", "w") as file:
        t = file.create_dataset(
            "t", (0, 60), "f4", maxshape=(None, 60), chunks=(16, 16), **ABSOLUTE
        )
        for start in range(0, 48, 16):
            t.resize(start + 16, axis=0)
            h5lossy.write(t, x[start : start + 16], np.s_[start : start + 16], verify=True)
    with h5py.File(tmp_path / "a.h5") as file:
        found = h5lossy.verify(file["t"])
    assert found.ok
    assert (found.chunks, found.recorded) == (12, 12)


@pytest.mark.parametrize("beside", [(), (16,)])
def test_records_follow_a_dataset_of_few_chunks_that_is_resized_by_far(
    tmp_path: Path, beside: tuple[int, ...]
) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        t = file.create_dataset(
            "t", (16, *beside), "f4", maxshape=(None, *beside), chunks=(16, *beside), **ABSOLUTE
        )
        # The last is too long for a tuple, or a step, for each place that a chunk may have.
        for i, extent in enumerate([16, 1 << 16, 64, 1 << 56, 1 << 56]):
            t.resize((extent, *beside))
            values = np.ones((16, *beside))
            h5lossy.write(t, values, np.s_[16 * i : 16 * i + 16, ...], verify=True)
            file.flush()
            found = h5lossy.verify(t)
            assert found.ok
            assert (found.chunks, found.recorded) == (i + 1, i + 1)


def test_many_chunks_share_hashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "MOST_HASH_BYTES", 90)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        t = file.create_dataset("t", (50, 60), "f4", chunks=(16, 16), **ABSOLUTE)
        h5lossy.write(t, field(), verify=True)
        assert len(t.attrs[HASH_ATTRIBUTE]) == len("sum64 0:") + 4 * 16
        file.flush()
        assert h5lossy.verify(t).recorded == 16
        t[49, 59] = 5
        file.flush()
        [problem] = h5lossy.verify(t).outdated
        lose_chunk(t, (0, 16))
        file.flush()
        found = h5lossy.verify(file["t"])
    assert problem.chunk == (3, 0)
    assert "or one of the 3 after it" in problem.why
    assert found.is_damaged
    assert "lost: at least 1 of 16" in found.problems[0].why


@pytest.mark.parametrize("most_bytes", [100, 40_000])
@pytest.mark.parametrize("seed", range(3))
def test_records_follow_a_dataset_that_grows_and_is_rewritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, most_bytes: int
) -> None:
    monkeypatch.setattr(recorder, "MOST_HASH_BYTES", most_bytes)
    rng = np.random.default_rng(seed)
    unlimited = [(None, 24), (None, None), (60, None)][seed % 3]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        t = file.create_dataset("t", (3, 10), "f4", maxshape=unlimited, chunks=(4, 8), **ABSOLUTE)

        def write(*axes: slice, verify: bool = True) -> None:
            shape = [n.stop - n.start for n in axes]
            values = rng.normal(size=shape) * rng.integers(2)  # zeros count as not written
            h5lossy.write(t, values, axes, verify=verify)

        write(slice(0, 3), slice(0, 10))
        for _ in range(12):
            axis = int(rng.integers(2))
            if rng.random() < 0.6:  # grow, and write all chunks that have other extents now
                before = t.shape[axis]
                t.resize(min(before + int(rng.integers(1, 14)), unlimited[axis] or 99), axis)
                begin = before // t.chunks[axis] * t.chunks[axis]
            else:
                begin = int(rng.integers(t.shape[axis])) // t.chunks[axis] * t.chunks[axis]
            if begin < t.shape[axis]:
                whole = [slice(0, n) for n in t.shape]
                whole[axis] = slice(begin, t.shape[axis])
                write(*whole)
            file.flush()
            found = h5lossy.verify(t)
            assert (found.problems, found.outdated) == ((), ())
            assert found.recorded == found.chunks
        chunks = stored_chunks(t)
        for chunk in chunks[:: 1 + len(chunks) // 9]:
            before = t.id.read_direct_chunk(chunk.chunk_offset)[1]
            value = t[chunk.chunk_offset]
            t[chunk.chunk_offset] = value + 1
            file.flush()
            assert not h5lossy.verify(t).ok
            t.id.write_direct_chunk(chunk.chunk_offset, before)
            assert h5lossy.verify(t).ok


def test_other_chunks_that_were_resized_or_are_new_have_no_hash(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        t = file.create_dataset(
            "t", (50, 60), "f4", maxshape=(None, None), chunks=(16, 16), **ABSOLUTE
        )
        h5lossy.write(t, field(), verify=True)
        t.resize((70, 60))
        t[66, 0] = 1
        h5lossy.write(t, field()[:16], np.s_[:16], verify=True)
        file.flush()
        found = h5lossy.verify(t)
        assert (found.ok, found.chunks, found.recorded) == (True, 17, 12)
        t[40, 40] += 1
        file.flush()
        assert not h5lossy.verify(t).ok


@pytest.mark.slow
def test_appending_takes_the_same_space_for_each_chunk(tmp_path: Path) -> None:
    sizes = []
    for verify in (False, True):
        with h5py.File(tmp_path / "a.h5", "w") as file:
            t = file.create_dataset(
                "t", (0, 8), "f4", maxshape=(None, 8), chunks=(1, 8), **ABSOLUTE
            )
            for i in range(400):
                t.resize(i + 1, axis=0)
                h5lossy.write(t, np.full((1, 8), i), np.s_[i : i + 1], verify=verify)
        sizes.append((tmp_path / "a.h5").stat().st_size)
    assert sizes[1] - sizes[0] < 400 * 16 * 5  # were the attributes made anew each time: 1.4 MB


def test_an_append_reads_no_list_of_all_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    original = recorder.listed_chunks
    monkeypatch.setattr(
        recorder,
        "listed_chunks",
        lambda dataset, most: asked.append(most) or original(dataset, most),
    )
    monkeypatch.setattr(recorder, "MOST_HASH_BYTES", 200)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        t = file.create_dataset("t", (64, 8), "f4", maxshape=(None, 8), chunks=(1, 8), **ABSOLUTE)
        h5lossy.write(t, np.ones((64, 8)), verify=True)
        for i in range(64, 96):
            asked.clear()
            t.resize(i + 1, axis=0)
            h5lossy.write(t, np.full((1, 8), i), np.s_[i : i + 1], verify=True)
            assert sum(asked) <= 2
        assert h5lossy.verify(t).recorded == 96


@pytest.mark.parametrize("size", [1, 4])
def test_hashes_are_read_as_they_were_written(size: int) -> None:
    rng = np.random.default_rng(size)
    hashes, sums = Hashes(size), dict[int, int]()
    numbers = [*rng.integers(40, size=30).tolist(), 1 << 70, (1 << 70) + size]
    for number in numbers:
        change = int(rng.integers(1 << 63))
        hashes.add(number, change)
        sums[number // size] = (sums.get(number // size, 0) + change) % (1 << 64)
    again = Hashes.read(hashes.text(), size)
    for one in (hashes, again):
        assert dict(one.items()) == sums
        assert all(one.get(number) == sums[number // size] for number in numbers)
    assert len(again.text()) <= len(hashes.text())
    cut = again.cut(150)
    assert len(cut.text()) <= 150
    assert sum(value for _, value in cut.items()) % (1 << 64) == sum(sums.values()) % (1 << 64)


def test_parts_of_chunks_cannot_be_verified(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        t = file.create_dataset("t", (50, 60), "f4", chunks=(16, 16), **ABSOLUTE)
        with pytest.raises(InvalidArgumentError, match="whole chunks"):
            h5lossy.write(t, np.zeros((3, 60)), np.s_[:3], verify=True)
        assert t.id.get_num_chunks() == 0
        other = file.create_dataset("u", (50, 60), "f4", chunks=(16, 16), compression="gzip")
        with pytest.raises(InvalidArgumentError, match="whole chunks"):
            h5lossy.write(other, field(), verify=True)


def test_a_file_in_swmr_mode_gets_no_record(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(64, 64)).astype("f4")
    codec = h5lossy.PFPL(absolute=0.1)
    with h5py.File(tmp_path / "a.h5", "w", libver="latest") as file:
        z = file.create_dataset("z", (64, 64), "f4", chunks=(16, 16), compression=codec)
        file.swmr_mode = True
        with pytest.raises(InvalidArgumentError, match="SWMR"):
            h5lossy.write(z, values, verify=True)
        h5lossy.write(z, values)
    with h5py.File(tmp_path / "a.h5") as file:
        assert not file["z"].attrs
        assert np.abs(file["z"][...] - values).max() <= 0.1


def test_a_broken_promise_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A decoder that is off by one in one value: there is no real one to be had.
    right = h5lossy._native.decode_parts

    def wrong(params: Any, parts: Any, frames: Any, threads: int) -> Any:
        failures = right(params, parts, frames, threads)
        parts.array.flat[7] += 1
        return failures

    monkeypatch.setattr("h5lossy._native.decode_parts", wrong)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        t = file.create_dataset("t", (16, 16), "f4", chunks=(16, 16), **ABSOLUTE)
        with pytest.raises(IncompleteWriteError, match=r"off by more than .* at \(0, 7\)") as info:
            h5lossy.write(t, field()[:16, :16], verify=True)
        assert isinstance(info.value.__cause__, BoundViolationError)
        assert t.id.get_num_chunks() == 0
        assert REPORT_ATTRIBUTE not in t.attrs


def test_a_record_can_be_made_afterwards(tmp_path: Path) -> None:
    x = field()
    with h5py.File(tmp_path / "a.h5", "w") as file:
        t = file.create_dataset("t", data=x, chunks=(16, 16), **ABSOLUTE)
        found = record_of(t, x)
        assert found["found"]["violations"] == 0
        assert h5lossy.verify(t).recorded == 16
        with pytest.raises(BoundViolationError, match="off by more than"):
            record_of(t, x + 1)


@of_one_codec
@pytest.mark.parametrize("text", ["", "[]", "[" * 60_000, "{}", '{"schema": 9}', 5, np.arange(3)])
def test_a_record_that_makes_no_sense_is_a_problem(path: Path, text: Any) -> None:
    with h5py.File(path, "r+") as file:
        file["t"].attrs[REPORT_ATTRIBUTE] = text
    with h5py.File(path) as file:
        found = h5lossy.verify(file["t"])
    assert found.is_damaged
    assert found.problems[0].chunk is None


@of_one_codec
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("chunks_per_hash", 0),
        ("chunks_per_hash", "1"),
        ("written", None),
        ("complete", 1),
        ("dataset", []),
        ("dataset", {"type": "<f4", "unwritten": "x"}),
        ("dataset", {"type": "no type", "unwritten": "00000000"}),
        ("dataset", {"type": "<f8", "unwritten": "00000000"}),
        ("dataset", {"type": "<f4", "unwritten": "00000000", "chunks": [1, 1], "shape": [[1], 5]}),
        ("found", []),
        ("found", {"max_abs": "1"}),
        ("strides", [4, 0]),
        ("strides", [1]),
        ("strides", "ab"),
    ],
)
def test_a_record_of_nonsense_under_a_right_digest_is_a_problem(
    path: Path, name: str, content: Any
) -> None:
    with h5py.File(path, "r+") as file:
        attributes = file["t"].attrs
        record = json.loads(attributes[REPORT_ATTRIBUTE]) | {name: content}
        record["digest"] = records.digest(record, attributes[HASH_ATTRIBUTE].decode())
        attributes[REPORT_ATTRIBUTE] = np.bytes_(json.dumps(record))
    result = h5lossy_command("verify", path, status=1)
    assert "record can't be read" in result.output


@pytest.mark.parametrize(("shape", "grown"), [((16, 64), (0, 64)), ((16, 64), (16, 64))])
def test_a_forged_hash_is_a_lost_chunk(tmp_path: Path, shape: Any, grown: Any) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        t = file.create_dataset(
            "x",
            shape,
            "f4",
            chunks=(16, 64),
            maxshape=(None, 64),
            compression=h5lossy.PFPL(absolute=1e-3),
        )
        h5lossy.write(t, np.ones(shape), verify=True)
        t.resize(grown)
        record = records.read_record(t)
        record.report["dataset"]["shape"] = list(grown)
        record.hashes.add(7, 1)
        record.write(t)
        file.flush()
        [*_, problem] = h5lossy.verify(t).problems
    assert (problem.chunk, problem.why) == ((7, 0), "lost: not in the file")


@pytest.mark.parametrize("number", [1, 9])
def test_a_record_of_another_version_is_no_damage(path: Path, number: int) -> None:
    with h5py.File(path, "r+") as file:
        file["t"].attrs[REPORT_ATTRIBUTE] = f'{{"schema": "h5lossy.verification/{number}"}}'
    with h5py.File(path) as file:
        found = h5lossy.verify(file["t"])
    assert not found.ok
    assert not found.is_damaged
    assert "another version of h5lossy" in found.outdated[0].why


def _edited(part: str, name: str, value: Any) -> Callable[[Any, bytes], None]:
    """Return what changes a number of the report."""

    def edit(attributes: Any, _: bytes) -> None:
        report = json.loads(attributes[REPORT_ATTRIBUTE])
        report[part][name] = value
        attributes[REPORT_ATTRIBUTE] = np.bytes_(json.dumps(report))

    return edit


EDITS: dict[str, Callable[[Any, bytes], None]] = {
    "no hashes": lambda attributes, _: attributes.pop(HASH_ATTRIBUTE),
    "fewer hashes": lambda attributes, text: attributes.update({HASH_ATTRIBUTE: text[:61]}),
    "a hash of zeros": lambda attributes, text: attributes.update(
        {HASH_ATTRIBUTE: text[:8] + b"0" * 16 + text[24:]}
    ),
    "another shape": _edited("dataset", "shape", [50, 61]),
    "a smaller error": _edited("found", "max_abs", 1e-9),
}


@of_one_codec
@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_a_record_that_was_edited_is_a_problem(path: Path, edit: Any) -> None:
    with h5py.File(path, "r+") as file:
        edit(file["t"].attrs, file["t"].attrs[HASH_ATTRIBUTE])
    with h5py.File(path) as file:
        found = h5lossy.verify(file["t"])
    assert found.is_damaged
    assert "record" in found.problems[0].why


def test_hashes_do_not_depend_on_the_byte_order() -> None:
    x, places = field(), np.arange(50, dtype=np.uint64)[:, None]
    for dtype in ("f4", "f8"):
        hashes = hash_chunks(x.astype(f"<{dtype}"), places, np.float32(-999))
        np.testing.assert_array_equal(
            hashes, hash_chunks(x.astype(f">{dtype}"), places, np.float32(-999))
        )
        assert len(set(hashes.tolist())) == 50


def mix(number: int) -> int:
    mask = (1 << 64) - 1
    number = (number + 0x9E3779B97F4A7C15) & mask
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & mask
    number = (number ^ number >> 27) * 0x94D049BB133111EB & mask
    return number ^ number >> 31


@pytest.mark.parametrize("dtype", ["<f4", ">f8"])
def test_hashes_are_what_the_page_says(dtype: str) -> None:
    """docs/howto/verify.md, in plain Python."""
    x = np.random.default_rng(3).normal(size=2**14 + 3).astype(dtype)
    unwritten, place = np.array(-999, dtype), (5, 2**40)
    bits = x.view(f"{dtype[0]}u{x.itemsize}") ^ unwritten.view(f"{dtype[0]}u{x.itemsize}")
    total = 0
    for number, value in enumerate(bits.tolist()):
        block, i = divmod(number, 2**14)
        low, high = value & 0xFFFFFFFF, value >> 32
        in_block = low * (mix(i) | 1) + high * (mix(2**32 + i) | 1)
        total += in_block * (mix(2**32 * (2 + block)) | 1)
    value_hash = total % 2**64
    for coordinate in place:
        value_hash = mix((value_hash + coordinate) % 2**64)
    rows = np.stack([x, np.full_like(x, unwritten)])
    found = hash_chunks(rows, np.array([place, place], np.uint64), unwritten, threads=2)
    assert found.tolist() == [value_hash, 0]


def test_the_form_of_a_record_is_known(path: Path) -> None:
    """A change of the record requires another number in the schema."""
    with h5py.File(path) as file:
        attributes = file["t"].attrs
        record = json.loads(attributes[REPORT_ATTRIBUTE])
        texts = [attributes.get_id(name) for name in (REPORT_ATTRIBUTE, HASH_ATTRIBUTE)]
        # What all netCDF models, and programs without variable-length data, can hold.
        assert {text.get_type().get_class() for text in texts} == {h5py.h5t.STRING}
        assert not any(text.get_type().is_variable_str() for text in texts)
        assert {text.get_type().get_cset() for text in texts} == {h5py.h5t.CSET_ASCII}
    assert set(record) == {
        "schema",
        "h5lossy",
        "bound",
        "dataset",
        "strides",
        "written",
        "complete",
        "chunks_per_hash",
        "found",
        "digest",
    }
    assert set(record["dataset"]) == {"type", "shape", "chunks", "bound", "unwritten"}


def test_sparse_datasets_take_time_by_the_chunks_that_are_there(tmp_path: Path) -> None:
    """2**38 values in 2**28 chunks, of which three are stored."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        t = file.create_dataset("t", (2**19, 2**19), "f4", chunks=(32, 32), **ABSOLUTE)
        for start in [(0, 0), (2**18, 320), (2**19 - 32, 2**19 - 32)]:
            block = np.s_[start[0] : start[0] + 32, start[1] : start[1] + 32]
            h5lossy.write(t, field()[:32, :32], block, verify=True)
        assert len(t.attrs[HASH_ATTRIBUTE]) < 128
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        found = h5lossy.verify(file["t"])
        assert (found.ok, found.chunks, found.recorded) == (True, 3, 3)
        file["t"][2**18, 330] += 1
        file.flush()
        assert [one.chunk for one in h5lossy.verify(file["t"]).outdated] == [(2**13, 10)]


@pytest.mark.slow
def test_hashes_fit_into_an_attribute_of_an_old_file(tmp_path: Path) -> None:
    x = np.arange(5000, dtype="f4")
    with h5py.File(tmp_path / "a.h5", "w", libver=("earliest", "v108")) as file:
        t = file.create_dataset("t", (5000,), "f4", chunks=(1,), **ABSOLUTE)
        h5lossy.write(t, x, verify=True)
        assert len(t.attrs[HASH_ATTRIBUTE]) < 2**16
        # Scattered, so that most hashes have their place beside them.
        u = file.create_dataset("u", (2**60,), "f4", chunks=(1,), **ABSOLUTE)
        for place in range(2**40, 2**60, 2**48 + 2**46):
            u[place] = 1
        file.flush()
        record_of(u, _Ones(u.shape))
    with h5py.File(tmp_path / "a.h5") as file:
        assert h5lossy.verify(file["t"]).recorded == 5000
        assert h5lossy.verify(file["u"]).ok


class _Ones:
    """An array too large for memory."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape

    def __getitem__(self, selection: tuple[slice, ...]) -> np.ndarray[Any, Any]:
        return np.ones([axis.stop - axis.start for axis in selection], "f4")


def test_chunks_at_the_edge_that_are_exempt_from_filters_are_read(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w", libver="latest") as file:
        creation = creation_list((16, 16), ABSOLUTE.filter_options)
        leave_partial_chunks_unfiltered(creation)
        t = create(file, "t", (50, 60), "f4", creation)
        t[...] = field()
        file.flush()
        found = h5lossy.verify(t, against=field())
        assert found.ok
        assert found.chunks == 16
    said = h5lossy_command("info", "--frames", "--json", tmp_path / "a.h5", status=None).output
    frames = json.loads(said)["datasets"][0]["frames"]
    assert (frames["looked_at"], frames["broken"]) == (9, 0)


def test_a_chunk_that_was_lost_is_damage(path: Path) -> None:
    for start in [(0, 0), (48, 48)]:
        with h5py.File(path, "r+") as file:
            lose_chunk(file["t"], start)
        with h5py.File(path) as file:
            found = h5lossy.verify(file["t"])
        assert found.is_damaged
        assert "lost" in found.problems[-1].why


def test_fill_values_need_not_be_in_the_file(tmp_path: Path) -> None:
    """Programs that copy a dataset write all chunks, or leave out empty ones."""
    x = field()
    x[16:32] = -999
    with h5py.File(tmp_path / "a.h5", "w") as file:
        t = file.create_dataset("t", (50, 60), "f4", chunks=(16, 16), fillvalue=-999, **ABSOLUTE)
        t[:16], t[32:] = x[:16], x[32:]
        record_of(t, x)
        assert h5lossy.verify(t).chunks == 12
        t[16:32] = -999
        file.flush()
        found = h5lossy.verify(t)
    assert found.ok
    assert (found.chunks, found.recorded) == (16, 16)


def test_a_record_is_not_of_data_that_was_compressed_again(path: Path) -> None:
    """As when xarray saves it, with all attributes."""
    with h5py.File(path, "r+") as file:
        values, attributes = file["t"][...], dict(file["t"].attrs)
        for name, how in {
            "other bound": {"compression": h5lossy.PFPL(absolute=0.5)},
            "gzip": {"compression": "gzip"},
        }.items():
            other = file.create_dataset(name, data=values, chunks=(16, 16), fillvalue=-999, **how)
            other.attrs.update(attributes)
            file.flush()
            found = h5lossy.verify(other)
            assert not found.ok
            assert not found.is_damaged
            assert "of other data" in found.outdated[0].why or "of another" in found.outdated[0].why


def test_a_resized_dataset_is_other_data(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        grown = file.create_dataset(
            "u", (16, 60), "f4", maxshape=(None, 60), chunks=(16, 16), **ABSOLUTE
        )
        h5lossy.write(grown, field()[:16], verify=True)
        grown.resize(32, axis=0)
        file.flush()
        found = h5lossy.verify(grown)
    assert not found.is_damaged
    assert "shape [16, 60], now [32, 60]" in found.outdated[0].why


@pytest.fixture(
    scope="module", params=slow_but(file_attacks.CODECS, list(file_attacks.CODECS)[::3])
)
def sound(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sound") / "x.h5"
    file_attacks.write_file(path, file_attacks.CODECS[request.param])
    assert file_attacks.is_verified(path)
    return path


@pytest.mark.parametrize("attack", file_attacks.ATTACKS)
def test_what_is_verified_is_what_hdf5_reads(tmp_path: Path, sound: Path, attack: str) -> None:
    path = tmp_path / "x.h5"
    values = file_attacks.what_hdf5_reads(sound)
    rng = np.random.default_rng(len(attack))
    for _ in range(2):
        shutil.copy(sound, path)
        file_attacks.ATTACKS[attack](path, rng)
        verdict = file_attacks.is_verified(path)
        if path.read_bytes() == sound.read_bytes() or attack in file_attacks.HARMLESS:
            assert verdict
        elif verdict:
            assert file_attacks.what_hdf5_reads(path) == values
            assert attack not in file_attacks.TAMPERING

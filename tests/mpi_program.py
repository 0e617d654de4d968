# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The program that `test_mpi.py` runs under mpiexec: cases that all ranks run, one by one.

    mpiexec -n RANKS python -P mpi_program.py FOLDER

After each case, rank 0 writes to FOLDER/found.json what went wrong in it, by its name.
"""

from __future__ import annotations

import json
import sys
import traceback
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
from h5py import h5d

import h5lossy
from h5lossy import _blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CODEC = h5lossy.PFPL(absolute=1e-2)
CHUNKS = (4, 20, 20)
PLANES = 8  # of each rank

CASES: dict[str, Callable[..., None]] = {}
#: Those in which two ranks are at odds.
NEED_TWO_RANKS: set[str] = set()


def case(function: Callable[..., None]) -> Callable[..., None]:
    CASES[function.__name__] = function
    return function


def case_of_two(function: Callable[..., None]) -> Callable[..., None]:
    NEED_TWO_RANKS.add(function.__name__)
    return case(function)


def field(ranks: int, dtype: str = "f4") -> np.ndarray:
    """Return the values of all ranks; the chunks divide only the first axis."""
    shape = (PLANES * ranks, 50, 47)
    return np.random.default_rng(ranks).normal(size=shape).cumsum(axis=0).astype(dtype)


def part_of(rank: int) -> tuple[slice]:
    return (slice(PLANES * rank, PLANES * (rank + 1)),)


def opened(comm: Any, path: Path, mode: str = "w") -> h5py.File:
    return h5py.File(path, mode, driver="mpio", comm=comm)


def dataset(file: h5py.File, shape: tuple[int, ...], name: str = "t", **options: Any) -> Any:
    options = {"dtype": "f4", "chunks": CHUNKS, "compression": CODEC, **options}
    return file.create_dataset(name, shape, **options)


def frames(data: h5py.Dataset) -> dict[tuple[int, ...], bytes]:
    places = (data.id.get_chunk_info(i).chunk_offset for i in range(data.id.get_num_chunks()))
    return {place: data.id.read_direct_chunk(place) for place in places}


def check_file(comm: Any, path: Path, values: np.ndarray, name: str = "t") -> None:
    """Compare, without MPI, with the file that a single process would have written."""
    comm.Barrier()
    failure = ""
    if comm.rank == 0:
        try:
            with h5py.File(path) as file, h5py.File(path.with_suffix(".one"), "w") as alone:
                like = file[name].id
                other = h5py.Dataset(
                    h5d.create(
                        alone.id, b"t", like.get_type(), like.get_space(), like.get_create_plist()
                    )
                )
                h5lossy.write(other, values)
                assert frames(other) == frames(file[name])
                assert np.array_equal(h5lossy.read(file[name]), other[...], equal_nan=True)
        except Exception:  # noqa: BLE001  # the others must not wait
            failure = traceback.format_exc()
    failure = comm.bcast(failure)
    assert not failure, failure


def refusal(call: Callable[[], object], kind: type[Exception] = h5lossy.H5LossyError) -> Any:
    try:
        call()
    except kind as error:
        return error
    raise AssertionError("it was not refused")


@case
def each_rank_writes_chunks_of_its_own(comm: Any, path: Path) -> None:
    values = field(comm.size)
    with opened(comm, path) as file:
        data = dataset(file, values.shape)
        own = part_of(comm.rank)
        said: list[tuple[int, int]] = []
        h5lossy.write(
            data, values[own], own, collective=True, progress=lambda *now: said.append(now)
        )
        assert said == [(values[own].nbytes,) * 2]
        # What another one wrote can be read at once.
        other = part_of((comm.rank + 1) % comm.size)
        assert h5lossy._stored.stored_chunks(data).decoding is not None
        got = h5lossy.read(data, other)
        assert np.array_equal(got, data[other])
        assert abs(got.astype("f8") - values[other]).max() <= 1e-2
    check_file(comm, path, values)


@case
def parts_across_the_last_axis_end_at_the_edge(comm: Any, path: Path) -> None:
    values = np.ones((5, 33, 20 * comm.size - 7), "f4") * np.arange(33, dtype="f4")[:, None]
    with opened(comm, path) as file:
        data = dataset(file, values.shape, chunks=(4, 20, 10))
        own = np.s_[..., 20 * comm.rank : 20 * (comm.rank + 1)]
        h5lossy.write(data, values[own], own, collective=True)
    check_file(comm, path, values)


@case
def an_index_of_numbers(comm: Any, path: Path) -> None:
    values = field(comm.size)[: comm.size]
    with opened(comm, path) as file:
        data = dataset(file, values.shape, chunks=(1, 50, 47))
        h5lossy.write(data, values[comm.rank], comm.rank, collective=True)
    check_file(comm, path, values)


@case
def ranks_without_values_take_part(comm: Any, path: Path) -> None:
    values = field(comm.size)
    with opened(comm, path) as file:
        data = dataset(file, values.shape)
        for writer in {0, comm.size - 1}:
            own = np.s_[:] if comm.rank == writer else np.s_[len(values) :]
            h5lossy.write(data, values[own] + writer, own, collective=True)
        nothing = np.empty((0, 50, 47), "f4")
        h5lossy.write(data, nothing, np.s_[:0], collective=True)
    check_file(comm, path, values + (comm.size - 1))


@case
def ranks_may_need_unequal_numbers_of_transfers(comm: Any, path: Path) -> None:
    # The last rank has all chunks but one of each other rank.
    values = field(comm.size)
    at = [4 * rank for rank in range(comm.size)]
    own = slice(at[comm.rank], 4 * (comm.rank + 1) if comm.rank + 1 < comm.size else len(values))
    usual, _blocks.BLOCK_BYTES = _blocks.BLOCK_BYTES, 6400
    try:
        with opened(comm, path) as file:
            data = dataset(file, values.shape)
            planes = (values[i : i + 1] for i in range(own.start, own.stop))
            h5lossy.write(data, planes, own, collective=True)
            out = np.empty((2 + comm.rank, 50, 47), "f4")
            with data.collective:  # in one call of HDF5's for each rank
                h5lossy.read(data, np.s_[: 2 + comm.rank], out=out)
            assert abs(out - values[: len(out)]).max() <= 1.0001e-2
    finally:
        _blocks.BLOCK_BYTES = usual
    check_file(comm, path, values)


@case
def one_rank_reads_many_chunks_alone(comm: Any, path: Path) -> None:
    if comm.rank == 0:
        with h5py.File(path, "w") as file:
            values = field(comm.size)
            dataset(file, values.shape, chunks=(1, 10, 10))[...] = values
    comm.Barrier()
    with opened(comm, path, "r") as file:
        data = file["t"]
        if comm.rank == comm.size - 1:
            np.testing.assert_array_equal(h5lossy.read(data), data[...])
        comm.Barrier()


@case
def a_block_with_collective_implies_it(comm: Any, path: Path) -> None:
    values = field(comm.size)
    own = part_of(comm.rank)
    with opened(comm, path) as file:
        data = dataset(file, values.shape)
        error = refusal(lambda: h5lossy.write(data, values[own], own))
        assert "call write(..., collective=True) in each of them" in str(error)
        with data.collective:
            h5lossy.write(data, values[own], own)
    check_file(comm, path, values)


@case
def values_are_converted_on_their_rank(comm: Any, path: Path) -> None:
    values = field(comm.size).round()
    own = part_of(comm.rank)
    kinds = ["f8", "i4", "f4", ">f4"]
    with opened(comm, path) as file:
        for dtype in ("f4", ">f8"):
            data = dataset(file, values.shape, dtype, dtype=dtype)
            mine = values[own].astype(kinds[comm.rank % 4])
            h5lossy.write(data, mine if comm.rank else mine.tolist(), own, collective=True)
    check_file(comm, path, values, "f4")
    check_file(comm, path, values.astype("f8"), ">f8")


@case
def integers_are_written_within_counts(comm: Any, path: Path) -> None:
    values = (100 * field(comm.size)).round().astype("i2")
    own = part_of(comm.rank)
    with opened(comm, path) as file:
        for dtype in ("i2", ">u8"):
            codec = h5lossy.PFPL(absolute=3)
            data = dataset(file, values.shape, dtype, dtype=dtype, compression=codec)
            h5lossy.write(data, np.abs(values[own]).astype(dtype), own, collective=True)
            part = h5lossy.read(data, own).astype(int)
            assert np.abs(part - np.abs(values[own].astype(int))).max() == 3
    check_file(comm, path, np.abs(values), "i2")
    check_file(comm, path, np.abs(values).astype(">u8"), ">u8")


@case
def chunks_are_replaced(comm: Any, path: Path) -> None:
    values = field(comm.size)
    own = part_of(comm.rank)
    noise = np.random.default_rng(3).normal(size=values.shape).astype("f4")
    with opened(comm, path) as file:
        data = dataset(file, values.shape)
        for again in (values * 0, noise * 1e6, values):
            h5lossy.write(data, again[own], own, collective=True)
            # HDF5 itself may show what it had read of the chunk before it was replaced.
            other = part_of((comm.rank + 1) % comm.size)
            error = abs(h5lossy.read(data, other).astype("f8") - again[other]).max()
            assert error <= 1e-2, error
    check_file(comm, path, values)


@case
def a_dataset_grows(comm: Any, path: Path) -> None:
    values = field(comm.size)
    with opened(comm, path) as file:
        data = dataset(file, (0, 50, 47), maxshape=(None, 50, 47))
    for step in range(2):
        with opened(comm, path, "r+") as file:
            data = file["t"]
            data.resize(4 * comm.size * (step + 1), axis=0)
            first = 4 * comm.size * step + 4 * comm.rank
            own = slice(first, first + 4)
            h5lossy.write(data, values[own], own, collective=True)
    check_file(comm, path, values)


@case
def fill_values_are_kept(comm: Any, path: Path) -> None:
    values = field(comm.size)
    values[::3, 5:9] = 1e20
    values[1, 1, 1] = np.nan
    own = part_of(comm.rank)
    with opened(comm, path) as file:
        data = dataset(file, values.shape, fillvalue=1e20)
        assert (data[...] == np.float32(1e20)).all()
        own = own if comm.rank % 2 == 0 else np.s_[:0]
        h5lossy.write(data, values[own], own, collective=True)
        for rank in range(comm.size):
            got, expected = h5lossy.read(data, part_of(rank)), values[part_of(rank)]
            if rank % 2:
                assert (got == np.float32(1e20)).all()
            else:
                is_fill = expected == np.float32(1e20)
                assert np.array_equal(got == np.float32(1e20), is_fill)
                assert np.array_equal(np.isnan(got), np.isnan(expected))
                assert np.nanmax(abs(got[~is_fill].astype("f8") - expected[~is_fill])) <= 1e-2


@case
def every_codec(comm: Any, path: Path) -> None:
    values = field(comm.size)
    own = part_of(comm.rank)
    codecs = [codec(absolute=1e-2) for codec in (h5lossy.CuSZp2, h5lossy.Interp, h5lossy.Auto)]
    codecs.append(h5lossy.PFPL(range_relative=1e-3))  # of each chunk
    with opened(comm, path) as file:
        for i, codec in enumerate(codecs):
            data = dataset(file, values.shape, str(i), compression=codec)
            h5lossy.write(data, values[own], own, collective=True)
    for i in range(len(codecs)):
        check_file(comm, path, values, str(i))


@case
def other_filters_and_none(comm: Any, path: Path) -> None:
    values = field(comm.size).round(1)
    own = part_of(comm.rank)
    with opened(comm, path) as file:
        for name, options in {
            "gzip": {"compression": "gzip"},
            "checked": {"fletcher32": True},
            "plain": {"compression": None},
            "contiguous": {"compression": None, "chunks": None},
        }.items():
            data = dataset(file, values.shape, name, **options)
            h5lossy.write(data, values[own], own, collective=True)
            assert h5lossy.read(data).shape == values.shape
        independent = dataset(file, values.shape, "independent", compression=None)
        if comm.rank == 0:
            h5lossy.write(independent, values)
    comm.Barrier()
    with h5py.File(path) as file:
        for name in ("gzip", "plain", "contiguous", "independent"):
            assert np.array_equal(file[name], values), name
        assert abs(file["checked"][...] - values).max() <= 1.0001e-2


def all_refuse(comm: Any, path: Path, message: str, *arguments: Any, **options: Any) -> None:
    """Expect the same error on all ranks, an unchanged file, and that it can still be used."""
    values = field(comm.size)
    with opened(comm, path) as file:
        data = dataset(file, values.shape)
        call = partial(h5lossy.write, data, *arguments, collective=True, **options)
        error = refusal(call, ValueError)
        assert message in str(error), str(error)
        assert not data[...].any()
        own = part_of(comm.rank)
        h5lossy.write(data, values[own], own, collective=True)
    check_file(comm, path, values)


@case
def a_shape_that_does_not_fit_on_one_rank(comm: Any, path: Path) -> None:
    own = part_of(comm.rank)
    rows = PLANES - (comm.rank == comm.size - 1)
    all_refuse(
        comm,
        path,
        f"({PLANES - 1}, 50, 47) do not fit a selection of shape ({PLANES}, 50, 47)",
        np.zeros((rows, 50, 47), "f4"),
        own,
    )


@case
def values_that_are_no_numbers_on_one_rank(comm: Any, path: Path) -> None:
    own = part_of(comm.rank)
    values: Any = np.zeros((PLANES, 50, 47), "f4")
    if comm.rank == 0:
        values = np.full(values.shape, "abc").tolist()
    all_refuse(comm, path, "could not convert string to float", values, own)


@case
def steps_on_one_rank(comm: Any, path: Path) -> None:
    own: Any = part_of(comm.rank)
    if comm.rank == comm.size - 1:
        own = np.s_[::2]
    all_refuse(comm, path, "slice(None, None, 2)", 0.0, own)


@case
def a_wrong_option_on_one_rank(comm: Any, path: Path) -> None:
    own = part_of(comm.rank)
    for name, value, said in (
        ("threads", 0, "threads must be"),
        ("verify", True, "verify=True records"),
        ("progress", 5, "progress must be"),
    ):
        given = {name: value} if comm.rank == 0 else {}
        all_refuse(comm, path, said, 0.0, own, **given)


@case_of_two
def no_dataset_of_the_file_on_one_rank(comm: Any, path: Path) -> None:
    values = field(comm.size)
    own = part_of(comm.rank)
    with (
        opened(comm, path) as file,
        h5py.File(f"own-{comm.rank}", "w", driver="core", backing_store=False) as memory,
    ):
        data = dataset(file, values.shape)
        for wrong, kind, said in (
            (None, TypeError, "dataset must be an h5py.Dataset"),
            (dataset(memory, values.shape), ValueError, "driver='mpio'"),
        ):
            given, expected = (wrong, kind) if comm.rank == 1 else (data, ValueError)
            call = partial(h5lossy.write, given, 0.0, own, collective=True)
            error = refusal(call, expected)
            assert said in str(error), str(error)
        h5lossy.write(data, values[own], own, collective=True)
    check_file(comm, path, values)


@case
def parts_of_chunks(comm: Any, path: Path) -> None:
    first = PLANES * comm.rank
    all_refuse(comm, path, "whole chunks", 0.0, np.s_[first : first + 6])


@case_of_two
def two_ranks_that_share_a_chunk(comm: Any, path: Path) -> None:
    # The first two ranks have halves of the first chunk; the others have nothing.
    own = np.s_[2 * comm.rank : 2 * comm.rank + 2] if comm.rank < 2 else np.s_[:0]
    all_refuse(comm, path, "must begin and end at multiples of the chunk (4, 20, 20)", 0.0, own)


@case_of_two
def two_ranks_that_overlap(comm: Any, path: Path) -> None:
    own = part_of(min(comm.rank, comm.size - 2))
    first = PLANES * (comm.size - 2)
    message = f"both write [{first}:{first + PLANES}, 0:50, 0:47]"
    all_refuse(comm, path, message, 0.0, own)


@case_of_two
def two_datasets(comm: Any, path: Path) -> None:
    values = field(comm.size)
    own = part_of(comm.rank)
    with opened(comm, path) as file:
        both = [dataset(file, values.shape, name) for name in "ab"]
        given = both[comm.rank % 2]
        error = refusal(lambda: h5lossy.write(given, values[own], own, collective=True))
        assert "all processes must write one dataset" in str(error), error
        for data in both:
            h5lossy.write(data, values[own], own, collective=True)
    check_file(comm, path, values, "a")
    check_file(comm, path, values, "b")


@case
def a_source_that_fails_on_one_rank(comm: Any, path: Path) -> None:
    values = field(comm.size)
    own = part_of(comm.rank)

    def planes() -> Iterator[np.ndarray]:
        for i, plane in enumerate(values[own]):
            if comm.rank == comm.size - 1 and i == 5:
                raise RuntimeError("it has diverged")
            yield plane[None]

    usual, _blocks.BLOCK_BYTES = _blocks.BLOCK_BYTES, 6400 * 9  # a row of chunks at a time
    try:
        with opened(comm, path) as file:
            data = dataset(file, values.shape)
            error = refusal(lambda: h5lossy.write(data, planes(), own, collective=True))
            assert isinstance(error, h5lossy.IncompleteWriteError), error
            assert "RuntimeError: it has diverged" in str(error), error
            failed_here = comm.rank == comm.size - 1
            assert isinstance(error.__cause__, RuntimeError) == failed_here
            first = PLANES * comm.rank
            assert error.total == 18
            assert error.written == tuple(
                (first, row, column) for row in (0, 20, 40) for column in (0, 20, 40)
            )
    finally:
        _blocks.BLOCK_BYTES = usual
    comm.Barrier()
    with h5py.File(path) as file:
        got = h5lossy.read(file["t"]).reshape(comm.size, 2, 4, 50, 47)
    expected = values.reshape(got.shape)
    assert abs(got[:, 0] - expected[:, 0]).max() <= 1.0001e-2
    assert not got[:, 1].any()


@case
def too_many_blocks_on_one_rank(comm: Any, path: Path) -> None:
    own = part_of(comm.rank)
    count = PLANES + (comm.rank == 0)
    with opened(comm, path) as file:
        data = dataset(file, (PLANES * comm.size, 50, 47))
        blocks = (np.zeros((1, 50, 47), "f4") for _ in range(count))
        error = refusal(lambda: h5lossy.write(data, blocks, own, collective=True))
        assert "the blocks have more than the 8 rows" in str(error), error


@case
def progress_that_fails_on_one_rank(comm: Any, path: Path) -> None:
    def fail(_done: int, _total: int) -> None:
        if comm.rank == 0:
            raise KeyError("progress")

    own = part_of(comm.rank)
    values = field(comm.size)
    with opened(comm, path) as file:
        data = dataset(file, values.shape)
        error = refusal(
            lambda: h5lossy.write(data, values[own], own, collective=True, progress=fail)
        )
        assert isinstance(error, h5lossy.IncompleteWriteError), error
        assert "KeyError: 'progress'" in str(error), error


@case
def an_interrupt_on_one_rank(comm: Any, path: Path) -> None:
    class Interrupting:
        shape, dtype = (PLANES, 50, 47), np.dtype("f4")

        def __getitem__(self, index: Any) -> Any:
            if comm.rank == 0:
                raise KeyboardInterrupt
            return np.zeros(self.shape, "f4")[index]

    own = part_of(comm.rank)
    with opened(comm, path) as file:
        data = dataset(file, (PLANES * comm.size, 50, 47))
        kind: Any = KeyboardInterrupt if comm.rank == 0 else h5lossy.IncompleteWriteError
        refusal(lambda: h5lossy.write(data, Interrupting(), own, collective=True), kind)


@case
def a_file_for_reading(comm: Any, path: Path) -> None:
    with opened(comm, path) as file:
        dataset(file, (PLANES, 50, 47))
    with opened(comm, path, "r") as file:
        error = refusal(lambda: h5lossy.write(file["t"], 0.0, collective=True))
        assert "is open for reading only" in str(error), error


@case
def a_scalar(comm: Any, path: Path) -> None:
    with opened(comm, path) as file:
        data = file.create_dataset("s", (), "f4")
        error = refusal(lambda: h5lossy.write(data, 1.0, collective=True))
        assert "s is a scalar, which processes cannot share" in str(error), error
        if comm.rank == 0:
            h5lossy.write(data, 1.0)
    with h5py.File(path) as file:
        assert file["s"][()] == 1


@case
def a_communicator_of_some_ranks(comm: Any, path: Path) -> None:
    half = comm.Split(comm.rank % 2)
    values = field(half.size)
    own = part_of(half.rank)
    path = path.with_stem(f"{path.stem}_{comm.rank % 2}")  # and so with the file beside it
    with opened(half, path) as file:
        data = dataset(file, values.shape)
        for _ in range(50):  # communicators are given back: there are some thousands
            h5lossy.write(data, values[own], own, collective=True)
    check_file(half, path, values)
    half.Free()


@case
def files_that_are_damaged_are_named(comm: Any, path: Path) -> None:
    values = field(comm.size)
    own = part_of(comm.rank)
    with opened(comm, path) as file:
        data = dataset(file, values.shape)
        h5lossy.write(data, values[own], own, collective=True)
    comm.Barrier()
    if comm.rank == 0:
        with h5py.File(path) as file:
            info = file["t"].id.get_chunk_info(0)
        with path.open("r+b") as raw:
            raw.seek(info.byte_offset + info.size - 2)
            raw.write(b"\x55\xaa")
    comm.Barrier()
    with opened(comm, path, "r") as file:
        error = refusal(lambda: h5lossy.read(file["t"]), h5lossy.CorruptFrameError)
        assert "chunk (0, 0, 0) of /t in " in str(error), error


@case
def assessors_are_merged_in_a_tree(comm: Any, path: Path) -> None:
    x = field(comm.size)
    y = x.round(1)
    options = {"absolute": 0.06, "data_range": float(np.ptp(x))}
    planes = (PLANES * comm.rank, PLANES * (comm.rank + 1))
    mine = h5lossy.Assessor(x.shape, "f4", planes=planes, **options)
    own = slice(*mine.wanted)
    mine.update(x[own], y[own])

    def merged(one: Any, other: Any) -> Any:
        one.merge(other)
        return one

    found = comm.reduce(mine, op=merged)
    if comm.rank == 0:
        found = found.result()
        groups = ["ssim", "derivatives", "autocorrelation"]
        alone = h5lossy.assess(x, y, metrics=groups, **options)
        assert (found.ok, found.points, found.bound) == (True, x.size, alone.bound)
        assert found.error.max_abs == alone.error.max_abs
        sums = [
            (one.error.rmse, one.error.mean, one.ssim.mean, one.derivatives.gradient_psnr)
            for one in (found, alone)
        ]
        np.testing.assert_allclose(*sums, rtol=1e-12)


def main(folder: Path) -> None:
    from mpi4py import MPI  # noqa: PLC0415  # the names of the cases can be had without

    comm = MPI.COMM_WORLD
    found: dict[str, Any] = {}
    for name, function in CASES.items():
        if name in NEED_TWO_RANKS and comm.size < 2:
            continue
        found[name] = "it did not come to an end"
        if comm.rank == 0:
            (folder / "found.json").write_text(json.dumps(found))
        failure = ""
        try:
            function(comm, folder / f"{name}.h5")
        except BaseException:  # noqa: BLE001
            failure = f"rank {comm.rank}:\n{traceback.format_exc()}"
        found[name] = "\n".join(filter(None, comm.allgather(failure)))
    if comm.rank == 0:
        (folder / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

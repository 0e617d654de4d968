# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""`h5lossy.write` and `h5lossy.read` do what h5py does through the filter, byte for byte."""

from __future__ import annotations

import errno
import gc
import io
import itertools
import math
import re
import threading
import tracemalloc
from array import array
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import h5py
import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import h5lossy
from h5lossy import (
    PFPL,
    CorruptFrameError,
    IncompleteWriteError,
    InvalidArgumentError,
    _blocks,
    _native,
)
from h5lossy._batched import chunk_readers
from h5lossy._batched.chunk_readers import HostReader
from h5lossy._batched.chunk_writer import ChunkWriter
from h5lossy._batched.store import ChunkStore
from h5lossy._blocks import chunk_starts
from h5lossy._libhdf5 import stored_size
from hdf5_helpers import FILL_NEVER, create, creation_list, environment, field, frames, run_python

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CODEC = PFPL(absolute=1e-2)


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make batches of a few small chunks, so that even small datasets take many batches."""
    monkeypatch.setattr(_blocks, "BLOCK_BYTES", 8 << 10)
    monkeypatch.setattr(chunk_readers, "_FEW_BYTES", 0)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[h5py.File]:
    with h5py.File(tmp_path / "x.h5", "w") as opened:
        yield opened


def twins(
    file: h5py.File, shape: tuple[int, ...], dtype: Any = "f4", **options: Any
) -> tuple[h5py.Dataset, h5py.Dataset]:
    """Make two equal datasets: one for h5py, and one for h5lossy."""
    options = {"compression": CODEC, **options}
    number = len(file) // 2
    made = [
        file.create_dataset(f"{who}{number}", shape, dtype, **options) for who in ("h5py", "ours")
    ]
    return made[0], made[1]


class Slices:
    """An array of another library, from which slices can be taken."""

    def __init__(self, values: Any) -> None:
        self._values, self.shape, self.dtype = values, values.shape, values.dtype

    def __getitem__(self, index: Any) -> Any:
        return self._values[index]


def bits(values: Any) -> bytes:
    return np.ascontiguousarray(values).tobytes()


def stored(dataset: h5py.Dataset) -> dict[tuple[int, ...], tuple[int, bytes]]:
    """Return (filter mask, bytes) of each chunk in the file."""
    dataset.flush()
    found = {}
    for i in range(dataset.id.get_num_chunks()):
        place = dataset.id.get_chunk_info(i).chunk_offset
        mask, data = dataset.id.read_direct_chunk(place)
        found[place] = mask, bytes(data)
    return found


def assert_alike(theirs: h5py.Dataset, ours: h5py.Dataset) -> None:
    assert stored(ours) == stored(theirs)
    assert bits(ours[...]) == bits(theirs[...])
    assert bits(h5lossy.read(ours)) == bits(theirs[...])


# ------------------------------------------------------------------------------------------------
# Against h5py, on whatever there is
# ------------------------------------------------------------------------------------------------


@st.composite
def indexes(draw: st.DrawFn, shape: tuple[int, ...], *, steps: bool) -> Any:
    """Draw an index that h5py accepts."""
    parts: list[Any] = []
    for extent in shape:
        first, last = sorted(draw(st.tuples(*[st.integers(0, extent)] * 2)))
        step = draw(st.integers(1, 3)) if steps else 1
        choices = [slice(None), slice(first, last, step), slice(first - extent or None, None)]
        if extent:
            choices += [draw(st.integers(-extent, extent - 1))]
        parts.append(draw(st.sampled_from(choices)))
    if draw(st.booleans()):
        at = draw(st.integers(0, len(parts)))
        drop = draw(st.integers(0, len(parts) - at))
        parts[at : at + drop] = [...]
    return parts[0] if len(parts) == 1 and draw(st.booleans()) else tuple(parts)


@st.composite
def datasets(draw: st.DrawFn) -> dict[str, Any]:
    """Draw the arguments of `create_dataset`."""
    rank = draw(st.integers(1, 4))
    shape = draw(st.tuples(*[st.integers(0, 40 if rank < 3 else 11)] * rank))
    chunks = draw(st.tuples(*[st.integers(1, 17 if rank < 3 else 6)] * rank))
    resizable = draw(st.booleans())
    if not resizable:
        shape = tuple(max(n, c) for c, n in zip(chunks, shape, strict=True))
    dtype = draw(st.sampled_from(["<f4", ">f4", "<f8", ">f8"]))
    fill = draw(st.sampled_from([None, 0.0, -999.0, 1e20, np.nan, -0.0]))
    options: dict[str, Any] = {"shape": shape, "chunks": chunks, "dtype": dtype}
    if fill is not None:
        options |= {"fillvalue": fill}
        if draw(st.booleans()):
            options |= FILL_NEVER
    if resizable:
        options |= {"maxshape": (None,) * rank}
    return options


@hypothesis.given(
    data=st.data(), options=datasets(), libver=st.sampled_from(["earliest", "latest"])
)
def test_all_is_as_h5py_does_it(data: st.DataObject, options: Any, libver: str) -> None:
    shape, seed = options["shape"], itertools.count()
    with h5py.File("any", "w", driver="core", backing_store=False, libver=libver) as file:
        theirs, ours = twins(file, **options)
        for _ in range(data.draw(st.integers(0, 3))):
            index = data.draw(indexes(shape, steps=data.draw(st.booleans())))
            part = np.empty(shape)[index]
            values = field(part.shape, seed=next(seed)).astype(
                data.draw(st.sampled_from(["f4", ">f8", options["dtype"], "i2"]))
            )
            if values.dtype.kind == "f" and values.size and data.draw(st.booleans()):
                values.flat[:: data.draw(st.integers(1, 50))] = data.draw(
                    st.sampled_from([np.nan, np.inf, options.get("fillvalue", 0.0)])
                )
            theirs[index] = values
            h5lossy.write(ours, values, index, threads=data.draw(st.integers(1, 3)))
            assert stored(ours) == stored(theirs)
        index = data.draw(indexes(shape, steps=data.draw(st.booleans())))
        expected = theirs[index]
        few_bytes = data.draw(st.sampled_from([0, 256 << 10]))
        with mock.patch.object(chunk_readers, "_FEW_BYTES", few_bytes):
            got = h5lossy.read(ours, index, threads=data.draw(st.integers(1, 3)))
        assert type(got) is type(expected)
        assert got.dtype == expected.dtype
        assert got.shape == expected.shape
        assert bits(got) == bits(expected)


def test_every_codec_and_bound(
    file: h5py.File, setting: Callable[..., Any], bound: dict[str, Any], dtype: np.dtype[Any]
) -> None:
    theirs, ours = twins(
        file, (20, 33, 31), dtype, chunks=(7, 16, 16), compression=setting(**bound)
    )
    values = field((20, 33, 31), dtype)
    theirs[...] = values
    h5lossy.write(ours, values)
    assert_alike(theirs, ours)


@pytest.mark.parametrize("threads", [1, 2, 3, 8, 5000])
def test_the_number_of_threads_does_not_matter(file: h5py.File, threads: int) -> None:
    theirs, ours = twins(file, (300, 301), chunks=(32, 32))
    values = field((300, 301))
    theirs[...] = values
    h5lossy.write(ours, values, threads=threads)
    assert_alike(theirs, ours)
    assert bits(h5lossy.read(ours, threads=threads)) == bits(theirs[...])


@pytest.mark.parametrize("codec", [PFPL, h5lossy.Interp])
def test_threads_that_share_a_chunk_find_the_same_range(
    file: h5py.File, codec: type[h5lossy.PFPL]
) -> None:
    values = field((1500, 1501))
    made = [
        file.create_dataset(
            None, values.shape, "f4", chunks=values.shape, compression=codec(range_relative=1e-3)
        )
        for _ in range(2)
    ]
    for dataset, threads in zip(made, (1, 5), strict=True):
        h5lossy.write(dataset, values, threads=threads)
    assert_alike(*made)


@pytest.mark.parametrize("threads", [0, -1, True, 1.5, "2"])
def test_a_wrong_number_of_threads_is_named(file: h5py.File, threads: Any) -> None:
    _, ours = twins(file, (4, 4), chunks=(2, 2))
    with pytest.raises(InvalidArgumentError, match=f"from 1 up, got {threads!r}"):
        h5lossy.write(ours, 1.0, threads=threads)
    with pytest.raises(InvalidArgumentError, match="from 1 up"):
        h5lossy.read(ours, threads=threads)


# ------------------------------------------------------------------------------------------------
# Chunks as HDF5 may have them
# ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize(
    ("shape", "maxshape", "chunks"),
    [
        ((50, 60), None, (50, 60)),  # latest: a single chunk
        ((50, 60), None, (7, 8)),  # a fixed array
        ((50, 60), (50, 60), (7, 8)),
        ((50, 60), (None, 60), (7, 8)),  # an extensible array
        ((50, 60), (None, None), (7, 8)),  # a B-tree of version 2
        ((5000, 2), (None, 2), (2, 2)),  # paged
    ],
)
def test_every_index_of_chunks(
    tmp_path: Path, libver: str, shape: Any, maxshape: Any, chunks: Any
) -> None:
    values = field(shape)
    with h5py.File(tmp_path / "x.h5", "w", libver=libver) as file:
        theirs, ours = twins(file, shape, maxshape=maxshape, chunks=chunks)
        theirs[...] = values
        h5lossy.write(ours, values)
        assert_alike(theirs, ours)
    with h5py.File(tmp_path / "x.h5") as file:
        assert_alike(file["h5py0"], file["ours0"])


def test_chunks_that_nobody_wrote_hold_the_fill_value(file: h5py.File) -> None:
    theirs, ours = twins(file, (100, 100), chunks=(16, 16), fillvalue=-999.0)
    for dataset in (theirs, ours):
        dataset[20:30, 50:90] = 1
    assert_alike(theirs, ours)
    assert h5lossy.read(ours, np.s_[99, 99]) == -999  # few chunks: looked for one by one


def test_chunks_that_went_around_the_filter(file: h5py.File) -> None:
    _, ours = twins(file, (40, 40), chunks=(10, 10))
    values = field((40, 40))
    h5lossy.write(ours, values)
    expected = ours[...]
    raw = np.ascontiguousarray(values[10:20, 20:30])
    ours.id.write_direct_chunk((10, 20), raw.tobytes(), filter_mask=1)
    expected[10:20, 20:30] = raw
    assert bits(h5lossy.read(ours)) == bits(expected)
    h5lossy.write(ours, values[15:], np.s_[15:])  # and is read, changed and written by HDF5
    assert bits(ours[15:]) == bits(expected[15:]) or np.allclose(ours[15:], values[15:], atol=1e-2)
    assert bits(h5lossy.read(ours)) == bits(ours[...])


def test_chunks_in_hdf5s_cache(file: h5py.File) -> None:
    _, ours = twins(file, (40, 40), chunks=(10, 10))
    ours[:25] = 5.0  # not flushed
    assert (h5lossy.read(ours)[:25] == 5).all()
    assert (ours[...][:25] == 5).all()
    h5lossy.write(ours, np.full((40, 40), 7.0))
    assert (ours[...] == 7).all()  # not what the cache had
    ours[3] = 9.0
    h5lossy.write(ours, np.full((40, 15), 8.0), np.s_[:, :15])
    assert (ours[:, :15] == 8).all()
    assert (ours[3, 15:] == 9).all()


def test_a_dataset_that_was_resized(file: h5py.File) -> None:
    theirs, ours = twins(file, (25, 25), chunks=(10, 10), maxshape=(None, None), fillvalue=3.0)
    for values, shape in [(1.0, (25, 25)), (2.0, (43, 9)), (4.0, (11, 30))]:
        for dataset in (theirs, ours):
            dataset.resize(shape)
        theirs[...] = values
        h5lossy.write(ours, values)
        assert_alike(theirs, ours)


def test_big_chunks_and_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # batches as they are
    values = field((9, 600, 700))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        theirs, ours = twins(file, values.shape, chunks=(5, 600, 700))  # 8 MiB: threads share one
        theirs[...] = values
        h5lossy.write(ours, values, threads=4)
        assert_alike(theirs, ours)
        assert bits(h5lossy.read(ours, np.s_[2:8, 5:9], threads=4)) == bits(theirs[2:8, 5:9])


# ------------------------------------------------------------------------------------------------
# Datasets that are not ours, or not ours alone
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "gzip", "shuffle": True},
        {"compression": None, "chunks": (8, 8)},
        {"compression": None, "chunks": None},
        {"fletcher32": True, "chunks": (8, 8)},
        {"compression": "lzf", "dtype": "i4"},
    ],
    ids=str,
)
def test_other_filters_are_left_to_hdf5(file: h5py.File, options: dict[str, Any]) -> None:
    theirs, ours = twins(file, (50, 60), **options)
    values = field((50, 60))
    theirs[...] = values
    h5lossy.write(ours, iter(np.array_split(values, 7)))
    if theirs.chunks:
        assert stored(ours) == stored(theirs)
    assert bits(h5lossy.read(ours)) == bits(theirs[...])
    assert bits(h5lossy.read(ours, np.s_[3, 5:])) == bits(theirs[3, 5:])


def test_an_optional_filter_is_left_to_hdf5(file: h5py.File) -> None:
    words = h5lossy._native.pack_cd_values(h5lossy._native.Params(codec=1, bound=1e-2))
    creation = creation_list((8, 8), words)
    dataset = create(file, "x", (20, 20), "f4", creation)
    h5lossy.write(dataset, field((20, 20)))
    assert bits(h5lossy.read(dataset)) == bits(dataset[...])


def test_datasets_without_chunks(file: h5py.File) -> None:
    scalar = file.create_dataset("scalar", data=3.5)
    h5lossy.write(scalar, 4.5)
    assert h5lossy.read(scalar) == 4.5
    null = file.create_dataset("null", data=h5py.Empty("f4"))
    assert isinstance(h5lossy.read(null), h5py.Empty)
    _, ours = twins(file, (0, 5), chunks=(3, 3), maxshape=(None, 5))
    h5lossy.write(ours, np.empty((0, 5)))
    assert h5lossy.read(ours).shape == (0, 5)


@pytest.mark.parametrize(
    "index",
    [np.s_[::3, ::2], np.s_[[1, 5, 30], 2:9], np.s_[:, [0, 7]], np.s_[5:5], np.s_[..., 3]],
    ids=str,
)
def test_every_selection_of_h5pys(file: h5py.File, index: Any) -> None:
    theirs, ours = twins(file, (50, 60), chunks=(9, 9))
    values = field(np.empty((50, 60))[index].shape)
    theirs[index] = values
    h5lossy.write(ours, values, index)
    assert_alike(theirs, ours)
    assert bits(h5lossy.read(ours, index)) == bits(theirs[index])
    mask = np.zeros((50, 60), bool)
    mask[7, ::3] = True
    assert bits(h5lossy.read(ours, mask)) == bits(theirs[mask])


@pytest.mark.parametrize("index", [50, -51, np.s_[0, 0, 0], "name", np.s_[::-1], 1.5], ids=str)
def test_a_wrong_selection_is_h5pys_error(file: h5py.File, index: Any) -> None:
    theirs, ours = twins(file, (50, 60), chunks=(9, 9))
    with pytest.raises(Exception) as expected:  # noqa: PT011  # h5py's choice
        theirs[index]
    with pytest.raises(expected.type, match=re.escape(str(expected.value))):
        h5lossy.read(ours, index)


# ------------------------------------------------------------------------------------------------
# Sources
# ------------------------------------------------------------------------------------------------


def sources(values: np.ndarray[Any, Any], folder: Path) -> dict[str, Callable[[], Any]]:
    """Return ways to pass the same values; those of rows 42 to 56 are 3."""
    np.save(folder / "values.npy", values)
    with h5py.File(folder / "source.h5", "w") as file:
        file["x"] = values
        for compression in ("gzip", PFPL(lossless=True)):
            x = file.create_dataset(
                f"compressed{len(file)}",
                values.shape,
                ">f4",
                chunks=(14, 11, 5),
                fillvalue=3,
                compression=compression,
            )
            x[:42], x[56:] = values[:42], values[56:]
    opened = h5py.File(folder / "source.h5")

    def uneven() -> Iterator[np.ndarray[Any, Any]]:
        at = 0
        for rows in itertools.cycle([1, 0, 7, 30]):
            if at >= len(values):
                return
            yield values[at : at + rows]
            at += rows

    return {
        "array": lambda: values,
        "list": values.tolist,
        "fortran": lambda: np.asfortranarray(values),
        "backwards": lambda: values[::-1].copy()[::-1],
        "unaligned": lambda: np.frombuffer(b"x" + values.tobytes(), values.dtype, offset=1).reshape(
            values.shape
        ),
        "read-only": lambda: np.broadcast_to(values, values.shape),
        "memmap": lambda: np.load(folder / "values.npy", mmap_mode="r"),
        "dataset": lambda: opened["x"],
        "gzip, some chunks missing": lambda: opened["compressed1"],
        "ours, some chunks missing": lambda: opened["compressed2"],
        "blocks": lambda: iter(np.array_split(values, 9)),
        "uneven blocks": uneven,
        "extra axis": lambda: values[None],
    }


def test_sources(file: h5py.File, tmp_path: Path) -> None:
    values = field((70, 40, 9))
    values[42:56] = 3
    ways = sources(values, tmp_path)
    for make in ways.values():
        theirs, ours = twins(file, values.shape, chunks=(16, 16, 4))
        theirs[...] = values
        h5lossy.write(ours, make())
        assert stored(ours) == stored(theirs)


def test_arrays_that_are_not_numpys(file: h5py.File) -> None:
    numbers = range(3, 23)
    for values in (numbers, array("d", numbers), memoryview(array("f", numbers))):
        theirs, ours = twins(file, (20,), chunks=(6,))
        theirs[...] = numbers
        h5lossy.write(ours, values)
        assert stored(ours) == stored(theirs)


@pytest.mark.parametrize("dtype", ["f2", "f4", ">f4", "f8", ">f8", "i1", "u8", "?", "g"])
def test_types_are_converted_as_hdf5_does(file: h5py.File, dtype: str) -> None:
    values = field((50, 60)).astype(dtype)
    if dtype in {"f8", ">f8"}:
        values[3, 4], values[5, 6], values[7, 8] = 1e300, -1e39, 1e-320
    for stored_as in ("<f4", ">f4", "<f8", ">f8"):
        theirs, ours = twins(file, (50, 60), stored_as, chunks=(9, 9))
        if dtype == "?":
            theirs[...] = values.astype("f4")  # h5py can't
            values = values.astype("f4")
        else:
            theirs[...] = values
        h5lossy.write(ours, values)
        assert stored(ours) == stored(theirs)


@pytest.mark.parametrize("stored_as", ["i2", ">i2", "u1", "i4", "u8"])
@pytest.mark.parametrize("dtype", ["i8", "u8", "f4", "f8"])
def test_numbers_beyond_the_limits_become_the_same_from_every_source(
    file: h5py.File, dtype: str, stored_as: str
) -> None:
    limits = np.iinfo("i8" if dtype == "i8" else "u8")
    whole = [limits.min, limits.max, 70000, 300, 200, 5]
    values = np.array(
        whole if dtype in {"i8", "u8"} else [1e30, -1e10, -1.5, 7e4, np.inf, 2.9], dtype
    )
    theirs = file.create_dataset("theirs", (6,), stored_as)
    theirs[...] = values
    sources: dict[str, Any] = {
        "array": values,
        "dataset": file.create_dataset("source", data=values),
        "compressed": file.create_dataset(
            "packed", data=values, chunks=(4,), compression=h5lossy.PFPL(lossless=True)
        ),
        "slices": Slices(values),
        "memory": memoryview(values),
        "blocks": iter([values[:1], values[1:]]),
    }
    for name, source in sources.items():
        ours = file.create_dataset(
            f"by {name}", (6,), stored_as, chunks=(4,), compression=h5lossy.PFPL(lossless=True)
        )
        h5lossy.write(ours, source)
        assert ours[...].tobytes() == theirs[...].tobytes(), name


def test_numbers_of_python_are_not_rounded_or_wrapped(file: h5py.File) -> None:
    large = [2**64 - 1, 2**63 + 5, 3]  # NumPy makes float64 of them
    for values in (large, tuple(large), iter([large[:1], large[1:]])):
        ours = file.create_dataset(None, (3,), "u8", chunks=(2,), **h5lossy.PFPL(absolute=1))
        h5lossy.write(ours, values)
        assert h5lossy.read(ours).tolist() == large
    for stored_as, value in (("i2", 70000), ("u8", -1), ("u1", 2**70), ("i4", 1e10)):
        ours = file.create_dataset(None, (3,), stored_as, chunks=(2,), **h5lossy.PFPL(absolute=1))
        for wrong in (value, [1, 2, value]):
            with pytest.raises(
                h5lossy.InvalidArgumentError, match=f"can't be written as {ours.dtype}"
            ):
                h5lossy.write(ours, wrong)
        with pytest.raises(h5lossy.IncompleteWriteError, match="can't be written as"):
            h5lossy.write(ours, iter([[1, 2, value]]))
        assert h5lossy.read(ours).tolist() == [0, 0, 0]


@pytest.mark.parametrize("selection", [np.s_[:], np.s_[::2]], ids=["box", "steps"])
def test_what_lists_hold_is_not_wrapped_either(file: h5py.File, selection: slice) -> None:
    for stored_as, value in (("i2", 7e4), ("u1", -1.0), ("i4", np.nan), ("i8", 1e30), ("u8", -5)):
        ours = file.create_dataset(None, (4,), stored_as, chunks=(2,), **h5lossy.PFPL(absolute=1))
        count = len(range(4)[selection])
        values = np.ones(count, type(value))
        values[1] = value
        for wrong in (
            [*values],
            [values[:1].reshape(()), *values[1:]],
            [np.ma.array(number) for number in values],
            tuple(values.astype(object)),
        ):
            with pytest.raises(InvalidArgumentError, match=f"can't be written as {ours.dtype}"):
                h5lossy.write(ours, wrong, selection)
        assert not ours[...].any()
        h5lossy.write(ours, [np.array(2.9), np.float32(3.5), 4, 5.5][:count], selection)
        assert ours[selection].tolist() == [2, 3, 4, 5][:count]


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64])
def test_numbers_of_numpy_are_converted_like_arrays(file: h5py.File, kind: Any) -> None:
    for value in map(kind, (70000, -70000)):
        theirs, ours = (
            file.create_dataset(None, (3,), "i2", chunks=(2,), **codec)
            for codec in ({}, h5lossy.PFPL(absolute=1))
        )
        theirs[...] = np.full(3, value)
        for given in (value, np.array(value), np.full(3, value), iter([np.full(3, value)])):
            h5lossy.write(ours, given)
            assert ours[...].tolist() == theirs[...].tolist()


@pytest.mark.parametrize("stored_as", ["i2", "f4"])
def test_imaginary_parts_are_not_dropped(file: h5py.File, stored_as: str) -> None:
    values = np.array([1 + 2j, 3])
    _, ours = twins(file, (2,), stored_as, chunks=(2,))
    for source in (values, values.tolist(), file.create_dataset("c", data=values), Slices(values)):
        with pytest.raises(h5lossy.InvalidArgumentError, match="give their real and imaginary"):
            h5lossy.write(ours, source)


@pytest.mark.parametrize("values", [5.0, 7, np.float32(3), [1.0] * 6, np.ones((5, 1))], ids=str)
def test_values_are_broadcast(file: h5py.File, values: Any) -> None:
    _, ours = twins(file, (5, 6), chunks=(2, 4))
    h5lossy.write(ours, values)
    assert (h5lossy.read(ours) == np.broadcast_to(values, (5, 6))).all()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.ones((5, 7)), r"values of shape \(5, 7\) do not fit a selection of shape \(5, 6\)"),
        (lambda: iter([np.ones((4, 6))]), "the blocks end after 4 of 5 rows"),
        (lambda: iter([np.ones((4, 6))] * 2), "more than the 5 rows"),
        (lambda: iter([np.ones((5, 6)), np.ones((1, 6))]), "more than the 5 rows"),
        (lambda: iter([np.ones((4, 5))]), r"must have the shape \(any, 6\), got \(4, 5\)"),
        (lambda: iter([1.0]), r"must have the shape \(any, 6\), got \(\)"),
    ],
)
def test_values_that_do_not_fit(file: h5py.File, values: Any, message: str) -> None:
    _, ours = twins(file, (5, 6), chunks=(2, 4))
    with pytest.raises((InvalidArgumentError, IncompleteWriteError), match=message):
        h5lossy.write(ours, values() if callable(values) else values)


def of_netcdf(values: Any, path: Path) -> Any:
    file = pytest.importorskip("netCDF4").Dataset(path, "w")
    for axis, extent in zip("xy", values.shape, strict=True):
        file.createDimension(axis, extent)
    file.createVariable("t", "f8", ("x", "y"))[...] = values
    return file["t"]


@pytest.mark.parametrize("selection", [..., np.s_[::2], [0, 2]], ids=["all", "steps", "list"])
@pytest.mark.parametrize(
    "given",
    [
        lambda values, _: values,
        lambda values, _: list(values),
        lambda values, _: [list(row) for row in values],
        lambda values, _: (values[0], *values.filled(-1)[1:]),
        lambda values, _: pytest.importorskip("dask.array").from_array(values, chunks=4),
        of_netcdf,
    ],
    ids=["array", "rows", "values", "tuple", "dask", "netCDF4"],
)
def test_masks_are_found_in_all_that_is_written(
    file: h5py.File, tmp_path: Path, selection: Any, given: Any
) -> None:
    theirs, ours = twins(file, (6, 6), chunks=(2, 4), fillvalue=-1)
    values = np.ma.masked_less(np.arange(36.0).reshape(6, 6)[selection], 4)
    theirs[selection] = values.filled(-1)
    h5lossy.write(ours, given(values, tmp_path / "a.nc"), selection)
    assert np.array_equal(ours[...], theirs[...])
    _, ours = twins(file.create_group("no fill value"), (6, 6), chunks=(2, 4))
    message = r"values are masked, .* fillvalue="
    with pytest.raises((InvalidArgumentError, IncompleteWriteError), match=message):
        h5lossy.write(ours, given(values, tmp_path / "b.nc"), selection)
    h5lossy.write(ours, np.ma.array(values.data), selection)


def test_a_fill_value_is_not_rounded_to_the_type_of_masked_values(file: h5py.File) -> None:
    made = file.create_dataset(
        "x", (3,), "f8", fillvalue=1e20, chunks=3, compression=PFPL(absolute=1)
    )
    blocks = (
        np.ma.array([1, 2, 3], "f4", mask=[0, 1, 0]),
        np.ma.array([1, 2, 3], "i2", mask=[1, 0, 0]),
    )
    for values in blocks:
        h5lossy.write(made, values)
        h5lossy.write(made, iter([values]))
        assert (made[...] == 1e20).tolist() == values.mask.tolist()


def test_a_fill_value_of_zero_is_warned_of_where_readers_know_it(file: h5py.File) -> None:
    made = file.create_dataset(
        "x", (9,), "f4", fillvalue=-0.0, chunks=(9,), compression=PFPL(absolute=1)
    )
    h5lossy.write(made, np.ones(9))
    made.attrs["_FillValue"] = np.float32(-0.0)
    with pytest.warns(RuntimeWarning, match=r"/x: its fill value is -0\.0, .* become 0") as caught:
        h5lossy.write(made, np.ones(9))
    assert caught[0].filename == __file__


def test_blocks_need_a_box(file: h5py.File) -> None:
    _, ours = twins(file, (5, 6), chunks=(2, 4))
    with pytest.raises(InvalidArgumentError, match="slices without steps"):
        h5lossy.write(ours, iter([np.ones((3, 6))]), np.s_[::2])


#: What `write` may take, in batches: two of values and two of frames (room for the worst case), and
#: the blocks that become the next one, singly and joined, which may be of a type twice as wide.
PEAKS = {"f4": 6.5, "f8": 8.5}


@pytest.mark.parametrize("dtype", PEAKS)
def test_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    batch = 2 << 20
    monkeypatch.setattr(_blocks, "BLOCK_BYTES", batch)
    rows = np.ones((64, 4096), dtype)  # half a batch's worth

    def blocks() -> Iterator[np.ndarray[Any, Any]]:
        for _ in range(30):
            yield rows.copy()

    with h5py.File(tmp_path / "x.h5", "w") as file:
        _, ours = twins(file, (30 * 64, 4096), chunks=(16, 1024))
        with peak_memory() as peak:
            h5lossy.write(ours, blocks(), threads=2)
        assert peak() < PEAKS[dtype] * batch
        with peak_memory() as peak:
            h5lossy.write(ours, np.broadcast_to(rows[0], ours.shape), threads=2)
        assert peak() < 5.5 * batch
        out = np.empty(ours.shape, "f4")
        with peak_memory() as peak:
            h5lossy.read(ours, out=out, threads=2)
        assert peak() < 3 * batch


@pytest.mark.slow
def test_memory_is_bounded_for_small_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_blocks, "BLOCK_BYTES", 32 << 20)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        _, ours = twins(file, (1 << 19,), chunks=(16,))
        out = np.empty(ours.shape, "f4")
        for call in (lambda: h5lossy.write(ours, out), lambda: h5lossy.read(ours, out=out)):
            with peak_memory() as peak:
                call()
            assert peak() < 16 << 20


def test_memory_is_bounded_where_h5py_does_all(file: h5py.File) -> None:
    dataset = file.create_dataset("plain", (100_000, 2, 2), "f4")
    out = np.ones(dataset.shape, "f4")
    for call in (lambda: h5lossy.write(dataset, out), lambda: h5lossy.read(dataset, out=out)):
        with peak_memory() as peak:
            call()
        assert peak() < 1 << 20
    assert (dataset[...] == 1).all()


def test_a_few_values_of_a_huge_chunk_take_little_memory(tmp_path: Path) -> None:
    shape = (32768, 32767)  # 4 GiB - 128 KiB
    values = np.zeros(shape, "f4")
    values[:7, 5], values[-1, -9:] = np.arange(1, 8), np.arange(9)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        dataset = file.create_dataset("x", shape, "f4", chunks=shape, compression=CODEC)
        dataset.id.write_direct_chunk((0, 0), h5lossy.encode(values, CODEC))
    done = run_python(
        """
import resource, sys, h5py, h5lossy, numpy as np
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
with h5py.File(sys.argv[1]) as file:
    for index in (np.s_[1:6, 5], np.s_[-1, -5:], np.s_[3, 5]):
        print(h5lossy.read(file["x"], index).round().tolist())
""",
        tmp_path / "x.h5",
    )
    assert done.stdout.splitlines() == [
        "[2.0, 3.0, 4.0, 5.0, 6.0]",
        "[4.0, 5.0, 6.0, 7.0, 8.0]",
        "4.0",
    ]


@pytest.mark.parametrize("order", ["<", ">"])
def test_boxes_of_every_codec_are_slices(
    file: h5py.File, codec: type[h5lossy.Codec], order: str
) -> None:
    shape = (24, 70, 90)
    options: dict[str, Any] = {"chunks": shape, "compression": codec(absolute=1e-2)}
    dataset = file.create_dataset("x", shape, f"{order}f4", **options)
    h5lossy.write(dataset, field(shape))
    expected = dataset[...]
    rng = np.random.default_rng(7)
    for _ in range(40):
        lengths = [int(rng.integers(1, n + 1)) if rng.random() < 0.5 else 1 for n in shape]
        starts = [int(rng.integers(0, n - k + 1)) for n, k in zip(shape, lengths, strict=True)]
        index = tuple(slice(at, at + k) for at, k in zip(starts, lengths, strict=True))
        assert bits(h5lossy.read(dataset, index)) == bits(expected[index])


@pytest.mark.parametrize("few_bytes", [0, 256 << 10])
@pytest.mark.parametrize("threads", [1, 2])
def test_one_batch_and_one_thread_start_no_helper(
    file: h5py.File, monkeypatch: pytest.MonkeyPatch, few_bytes: int, threads: int
) -> None:
    monkeypatch.setattr(chunk_readers, "_FEW_BYTES", few_bytes)
    monkeypatch.setattr(_blocks, "BLOCK_BYTES", 32 << 20)
    _, ours = twins(file, (50, 60), chunks=(9, 9))
    h5lossy.write(ours, field((50, 60)))

    def started(_self: threading.Thread) -> None:
        raise AssertionError("a thread was started")

    monkeypatch.setattr(threading.Thread, "start", started)
    assert bits(h5lossy.read(ours, threads=threads)) == bits(ours[...])
    assert bits(h5lossy.read(ours, 7, threads=threads)) == bits(ours[7])
    monkeypatch.setattr(_blocks, "BLOCK_BYTES", 1 << 10)
    assert bits(h5lossy.read(ours, threads=1)) == bits(ours[...])


def test_a_huge_number_of_threads_makes_no_huge_batch(file: h5py.File) -> None:
    _, ours = twins(file, (16 * 5000,), chunks=(16,))
    said: list[int] = []
    h5lossy.write(ours, 1.0, threads=10**9, progress=lambda done, _total: said.append(done))
    assert len(said) == 3  # of 2048 chunks, for the 1024 threads that there are at most


@contextmanager
def peak_memory() -> Iterator[Callable[[], int]]:
    """Return a function that afterwards tells the peak memory in bytes while the block ran."""
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    found = 0
    try:
        yield lambda: found
        found = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


# ------------------------------------------------------------------------------------------------
# Where values go
# ------------------------------------------------------------------------------------------------


def test_out_may_be_any_array(file: h5py.File) -> None:
    _, ours = twins(file, (50, 60), chunks=(9, 9))
    h5lossy.write(ours, field((50, 60)))
    expected = ours[2:, 3:33]
    for out in (
        np.empty((48, 30), "f4"),
        np.empty((48, 30), "f4", order="F"),
        np.empty((96, 90), "f4")[::2, ::-3],
        np.empty(1 + 48 * 30 * 4, "u1")[1:].view("f4").reshape(48, 30),
    ):
        assert h5lossy.read(ours, np.s_[2:, 3:33], out=out) is out
        assert bits(out) == bits(expected)
    out = np.empty((30,), "f4")
    h5lossy.read(ours, np.s_[5, 3:33], out=out)
    assert bits(out) == bits(ours[5, 3:33])
    out = np.empty((25, 60), "f4")
    h5lossy.read(ours, np.s_[::2], out=out)
    assert bits(out) == bits(ours[::2])


def test_a_wrong_out_is_named(file: h5py.File) -> None:
    _, ours = twins(file, (5, 6), chunks=(2, 4))
    read_only = np.empty((5, 6), "f4")
    read_only.flags.writeable = False
    for out, error, message in [
        (
            np.empty((5, 5), "f4"),
            InvalidArgumentError,
            r"shape \(5, 6\), got an array of .*\(5, 5\)",
        ),
        (np.empty((5, 6), "f8"), InvalidArgumentError, "float32.*float64"),
        (read_only, InvalidArgumentError, "read-only"),
        ([0.0], TypeError, "NumPy array, got list"),
        (np.ma.zeros((5, 6), "f4"), TypeError, "NumPy array, got MaskedArray"),
    ]:
        with pytest.raises(error, match=message):
            h5lossy.read(ours, out=out)


# ------------------------------------------------------------------------------------------------
# When something goes wrong
# ------------------------------------------------------------------------------------------------


def test_a_source_that_fails(tmp_path: Path) -> None:
    values = field((100, 50))

    def blocks() -> Iterator[np.ndarray[Any, Any]]:
        yield values[:40]
        yield values[40:70]
        raise OSError("the sensor is gone")

    with h5py.File(tmp_path / "x.h5", "w") as file:
        theirs, ours = twins(file, values.shape, chunks=(10, 25))
        theirs[...] = values
        with pytest.raises(IncompleteWriteError, match=r"of 20 chunks of /ours0.*sensor") as caught:
            h5lossy.write(ours, blocks())
        assert isinstance(caught.value.__cause__, OSError)
        assert caught.value.written == tuple(
            (row, column) for row in range(0, 70, 10) for column in (0, 25)
        )
        assert caught.value.total == 20
        assert stored(ours) == {
            place: chunk for place, chunk in stored(theirs).items() if place in caught.value.written
        }
    with h5py.File(tmp_path / "x.h5") as file:
        assert len(stored(file["ours0"])) == len(caught.value.written)


@pytest.mark.parametrize("rows", [1, 7, 10, 35, 100])
@pytest.mark.parametrize("batch", [1, 1 << 30], ids=["small", "large"])
def test_what_came_before_a_failure_is_written(
    file: h5py.File, monkeypatch: pytest.MonkeyPatch, rows: int, batch: int
) -> None:
    values = field((90, 50))

    def blocks() -> Iterator[np.ndarray[Any, Any]]:
        for at in range(0, 64, rows):
            yield values[at : min(at + rows, 64)]
        raise ZeroDivisionError

    monkeypatch.setattr(_blocks, "BLOCK_BYTES", batch)
    _, ours = twins(file, (100, 50), chunks=(10, 25))
    with pytest.raises(IncompleteWriteError) as caught:
        h5lossy.write(ours, blocks(), np.s_[5:95])
    # Rows 5 to 68 of the dataset: the first chunks in part, the last ones not at all.
    assert len(caught.value.written) == 12
    assert np.abs(ours[5:60] - values[:55]).max() <= 1e-2
    assert not ours[60:].any()


def test_an_interrupt_passes_with_a_note(file: h5py.File) -> None:
    def blocks() -> Iterator[np.ndarray[Any, Any]]:
        yield np.ones((30, 50))
        raise KeyboardInterrupt

    _, ours = twins(file, (100, 50), chunks=(10, 25))
    with pytest.raises(KeyboardInterrupt) as caught:
        h5lossy.write(ours, blocks())
    assert any("of 20 chunks" in note for note in caught.value.__notes__)


class _FailingFile(io.BytesIO):
    """A file-like object that raises an error once, after some more calls that read or write."""

    def __init__(self, failure: BaseException) -> None:
        super().__init__()
        self.failure = failure
        self.left = math.inf

    def _count(self) -> None:
        self.left -= 1
        if self.left < 0:
            self.left = math.inf  # HDF5 cannot close a file that it could not flush
            raise self.failure

    def readinto(self, into: Any) -> int:
        self._count()
        return super().readinto(into)

    def write(self, data: Any) -> int:
        self._count()
        return super().write(data)


@pytest.mark.parametrize("kind", [OSError, KeyboardInterrupt])
def test_what_a_file_like_object_raises_is_passed_on(kind: type[BaseException]) -> None:
    failure = kind("no network")
    opened = _FailingFile(failure)
    values = field((100, 50))
    with h5py.File(opened, "w") as file:
        data = file.create_dataset("x", values.shape, "f4", chunks=(10, 25), compression=CODEC)
        opened.left = 7
        with pytest.raises((IncompleteWriteError, KeyboardInterrupt)) as caught:
            h5lossy.write(data, values)
        if isinstance(caught.value, IncompleteWriteError):
            assert len(caught.value.written) == 7
            assert caught.value.__cause__ is failure
        else:
            assert any(note.startswith("7 of 20 chunks") for note in caught.value.__notes__)
        assert len(chunk_starts(data)) == 7
        h5lossy.write(data, values)

    for read in (chunk_starts, lambda data: stored_size(data.id.id, (0, 0))):
        with h5py.File(opened, "r") as file:
            data = file["x"]
            opened.left = 0
            with pytest.raises((OSError, CorruptFrameError, KeyboardInterrupt)) as found:
                read(data)
        assert failure in {found.value, found.value.__cause__}


def test_a_file_that_is_closed_meanwhile(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        _, ours = twins(file, (300, 100), chunks=(16, 16))
        with pytest.raises(IncompleteWriteError, match="of 133 chunks of /ours0"):
            h5lossy.write(ours, 1.0, progress=lambda _done, _total: file.close())


@pytest.mark.parametrize("errors", [{}, {"errno = 28, error message": errno.ENOSPC}])
def test_what_hdf5_says_of_a_chunk_is_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, errors: dict[str, int]
) -> None:
    frame = np.frombuffer(h5lossy.encode(field((4, 4)), CODEC), np.uint8)
    addresses = np.full(3, frame.ctypes.data, np.uintp)
    batch = _native.Frames(addresses, np.full(3, len(frame), np.uintp), frame)
    for said in errors:
        monkeypatch.setattr("h5lossy._native.chunks.text", lambda _, said=said: said)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        x = file.create_dataset("x", (16, 4), "f4", chunks=(4, 4), compression=CODEC)
        store = ChunkStore(x)
        with pytest.raises(OSError, match=next(iter(errors), "boundary")) as caught:
            store.put(np.array([[0, 0], [3, 0], [8, 0]]), batch)
        assert caught.value.errno == next(iter(errors.values()), None)
        assert store.done == x.id.get_num_chunks() == 1


FULL = """
import sys
import h5py, numpy as np
import h5lossy
path, shape, chunks, columns, options = sys.argv[1], *map(eval, sys.argv[2:6])
if len(sys.argv) > 6:
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[6]),) * 2)
values = np.random.default_rng(0).normal(size=shape).astype("f4")
with h5py.File(path, "w", **options) as file:
    file["other"] = np.arange(10)
    x = file.create_dataset("x", shape, "f4", chunks=chunks, maxshape=(None, *shape[1:]),
                            compression=h5lossy.PFPL(absolute=1e-6))
    try:
        h5lossy.write(x, values[:, :, :columns], np.s_[:, :, :columns])
    except h5lossy.IncompleteWriteError as error:
        written = len(error.written)
        print(written, error.total, error.__cause__.errno)
        assert error.written == tuple((i, 0, 0) for i in range(written))
with h5py.File(path) as file:
    assert (file["other"][...] == np.arange(10)).all()
    x = file["x"]
    assert x.id.get_num_chunks() == written > 0
    assert abs(h5lossy.read(x) - values)[:written, :, :columns].max() <= 1e-6
    assert not x[:, :, columns:].any()
    assert not x[written:].any()
"""
FULL_SHAPES = {
    "large chunks": ((100, 128, 128), (1, 128, 128), 128),
    "small": ((20000, 16, 16), (1, 16, 16), 16),
    "in part": ((100, 128, 128), (1, 128, 128), 120),
}
FULL_FILES: dict[str, dict[str, Any]] = {
    "earliest": {"libver": "earliest"},
    "latest": {"libver": "latest"},
    "pages": {"fs_strategy": "page", "fs_page_size": 256 << 10},
    "aligned": {"alignment_threshold": 1, "alignment_interval": 256 << 10},
}


@pytest.mark.slow
@pytest.mark.parametrize("options", FULL_FILES.values(), ids=list(FULL_FILES))
@pytest.mark.parametrize("shapes", FULL_SHAPES.values(), ids=list(FULL_SHAPES))
def test_a_full_disk_leaves_a_readable_file(small_disk: Path, shapes: Any, options: Any) -> None:
    done = run_python(FULL, small_disk / "x.h5", *map(repr, shapes), repr(options))
    _, total, code = map(int, done.stdout.split())
    assert (total, code) == (shapes[0][0], errno.ENOSPC)


@pytest.mark.slow
@pytest.mark.parametrize("options", FULL_FILES.values(), ids=list(FULL_FILES))
@pytest.mark.parametrize("shapes", FULL_SHAPES.values(), ids=list(FULL_SHAPES))
def test_a_limit_of_the_files_size(tmp_path: Path, shapes: Any, options: Any) -> None:
    done = run_python(FULL, tmp_path / "x.h5", *map(repr, shapes), repr(options), str(4 << 20))
    _, total, code = map(int, done.stdout.split())
    assert (total, code) == (shapes[0][0], errno.EFBIG)


ALIGNED = """
import resource, sys
import h5py, numpy as np
import h5lossy
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
noise = np.random.default_rng(0).normal(size=30_000).astype("f4")
options = {"alignment_threshold": 100 << 10, "alignment_interval": 1 << 20}
outcomes = set()
for limit in range(512 << 10, 5 << 20, 256 << 10):
    with h5py.File(sys.argv[1], "w", libver="latest", **options) as file:
        file["other"] = np.arange(10)
        file.flush()
        x = file.create_dataset("x", (10_000, 30_000), "f4", chunks=(1, 30_000),
                                compression=h5lossy.PFPL(lossless=True))
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))
        written = 1
        try:
            h5lossy.write(x, noise[None], np.s_[:1])
        except h5lossy.IncompleteWriteError as error:
            written = len(error.written)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    with h5py.File(sys.argv[1]) as file:
        assert file["other"][9] == 9
        assert (file["x"][0] == (noise if written else 0)).all(), limit
    outcomes.add(written)
assert outcomes == {0, 1}
"""


@pytest.mark.slow
def test_a_large_index_is_aligned_too(tmp_path: Path) -> None:
    run_python(ALIGNED, tmp_path / "x.h5")


CACHED = """
import resource, sys
import h5py, numpy as np
import h5lossy
resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 20,) * 2)
noise = np.random.default_rng(0).normal(size=(160, 256, 256)).astype("f4")
with h5py.File(sys.argv[1], "w") as file:
    x = file.create_dataset("x", noise.shape, "f4", chunks=(1, 256, 256),
                            compression=h5lossy.PFPL(absolute=1e-3))
    other = file.create_dataset("other", (2, 256, 256), "f4", chunks=(2, 256, 256))
    other[...] = noise[:2]
    try:
        h5lossy.write(x, noise)
    except h5lossy.IncompleteWriteError as error:
        written = len(error.written)
with h5py.File(sys.argv[1]) as file:
    assert (file["other"][...] == noise[:2]).all()
    assert abs(file["x"][...] - noise)[:written].max() <= 1e-3
    print(written)
"""


@pytest.mark.slow
def test_what_others_wrote_before_has_room_before(tmp_path: Path) -> None:
    assert int(run_python(CACHED, tmp_path / "x.h5").stdout) > 0


@pytest.mark.slow
def test_where_room_is_only_looked_for_what_was_flushed_needs_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.h5"
    monkeypatch.setattr("h5lossy._batched.store._fallocate", lambda *_: errno.EOPNOTSUPP)
    disk = mock.Mock(side_effect=lambda _: mock.Mock(free=(28 << 20) - path.stat().st_size))
    monkeypatch.setattr("shutil.disk_usage", disk)
    values = np.zeros((160, 256, 256), "f4")
    with h5py.File(path, "w", rdcc_nbytes=64 << 20) as file:
        x = file.create_dataset("x", values.shape, "f4", chunks=(1, 256, 256), compression=CODEC)
        other = file.create_dataset("other", (64, 256, 256), "f4", chunks=(64, 256, 256))
        other[...] = values[:64]
        h5lossy.write(x, values)
        assert disk.called
        monkeypatch.setattr(disk, "side_effect", lambda _: mock.Mock(free=0))
        y = file.create_dataset("y", values.shape, "f4", chunks=(1, 256, 256), compression=CODEC)
        with pytest.raises(IncompleteWriteError, match="No space left"):
            h5lossy.write(y, values)


@pytest.mark.parametrize("columns", [64, 40])  # whole chunks, and parts
def test_a_file_in_memory_goes_to_the_disk_when_it_is_closed(tmp_path: Path, columns: int) -> None:
    path, values = tmp_path / "x.h5", field((32, 64))[:, :columns]
    with h5py.File(path, "w", driver="core") as file:
        x = file.create_dataset("x", (32, 64), "f4", chunks=(4, 64), compression=CODEC)
        x[...] = 0
        file.flush()
        before = path.read_bytes()
        h5lossy.write(x, values, np.s_[:, :columns])
        assert path.read_bytes() == before
    with h5py.File(path) as file:
        assert abs(file["x"][:, :columns] - values).max() <= CODEC.bound.value


@pytest.mark.parametrize("driver", [None, "core", "stdio"])
def test_a_page_buffer_is_warned_of(tmp_path: Path, driver: str | None) -> None:
    options = {"fs_strategy": "page", "page_buf_size": 1 << 20}
    with h5py.File(tmp_path / "x.h5", "w", driver=driver, **options) as file:
        x = file.create_dataset("x", (32, 64), "f4", chunks=(4, 64), compression=CODEC)
        with pytest.warns(RuntimeWarning, match="page_buf_size"):
            h5lossy.write(x, field((32, 64)))


def test_no_more_of_the_disk_is_taken_than_the_file_needs(tmp_path: Path) -> None:
    sizes = []
    for name, write in {
        "h5py": lambda x, values: x.__setitem__(..., values),
        "ours": h5lossy.write,
    }.items():
        path = tmp_path / f"{name}.h5"
        with h5py.File(path, "w") as file:
            x = file.create_dataset("x", (64, 4096), "f4", chunks=(1, 4096), compression=CODEC)
            write(x, field((64, 4096)))
        sizes.append((path.stat().st_size, path.stat().st_blocks))
    assert sizes[1][0] == sizes[0][0]
    assert sizes[1][1] * 512 <= sizes[0][1] * 512 + (128 << 10)


@pytest.mark.parametrize("libver", ["earliest", "v110"])
def test_room_for_many_chunks_takes_nothing_of_the_disk(tmp_path: Path, libver: str) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver=libver) as file:
        extents = {"shape": (1 << 40, 16), "maxshape": (None, 16), "chunks": (1, 16)}
        x = file.create_dataset("x", dtype="f4", compression=CODEC, **extents)
        h5lossy.write(x, np.ones((2, 16)), np.s_[:2])
        assert path.stat().st_blocks * 512 < 1 << 20


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("most", [(40, 40), (None, 40), (None, None)])
def test_what_is_stored_of_a_chunk_is_found_by_the_index(
    tmp_path: Path, most: Any, libver: str
) -> None:
    with h5py.File(tmp_path / "x.h5", "w", libver=libver) as file:
        x = file.create_dataset(
            "x", (40, 40), "f4", chunks=(4, 4), maxshape=most, compression=CODEC
        )
        assert stored_size(x.id.id, (0, 0)) is None
        x[4:8] = field((4, 40))
        x[20, 9] = 1
        infos = {
            place: x.id.get_chunk_info_by_coord(place)
            for place in itertools.product(range(0, 40, 4), repeat=2)
        }
        for place, info in infos.items():
            size = stored_size(x.id.id, place)
            assert size == (None if info.byte_offset is None else info.size)
        for few in (np.s_[4, :], np.s_[2:5, 9], np.s_[20, 9:12], np.s_[30, 30]):
            np.testing.assert_array_equal(h5lossy.read(x, few), x[few])


def test_a_broken_chunk_is_named(file: h5py.File) -> None:
    _, ours = twins(file, (40, 40), chunks=(10, 10))
    h5lossy.write(ours, field((40, 40)))
    frame = bytearray(frames(ours)[20, 10])
    frame[-1] ^= 1
    ours.id.write_direct_chunk((20, 10), bytes(frame))
    named = r"chunk \(20, 10\) of /ours0 in .*: .*checksum"
    with pytest.raises(h5lossy.CorruptFrameError, match=named):
        h5lossy.read(ours)
    with pytest.raises(h5lossy.CorruptFrameError, match=named):
        h5lossy.read(ours, np.s_[20, 10])
    assert bits(h5lossy.read(ours, np.s_[:20])) == bits(ours[:20])
    other = h5lossy.encode(np.ones(50, "f4"), CODEC)
    ours.id.write_direct_chunk((20, 10), other)
    with pytest.raises(h5lossy.CorruptFrameError, match="holds 200 bytes, and a chunk has 400"):
        h5lossy.read(ours)
    ours.id.write_direct_chunk((20, 10), b"not a frame")
    with pytest.raises(h5lossy.CorruptFrameError):
        h5lossy.read(ours)


def test_files_that_cannot_be_written(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        _, ours = twins(file, (5, 6), chunks=(2, 4))
    bound = h5lossy.ErrorBound("absolute", 1)
    for use in (
        lambda: h5lossy.write(ours, 1.0),
        lambda: h5lossy.read(ours),
        lambda: h5lossy.describe(ours),
        lambda: h5lossy.verify(ours),
        lambda: h5lossy.encode(ours, CODEC),
        lambda: h5lossy.PFPL(range_relative=1).resolve(ours),
        lambda: h5lossy.largest_error(np.zeros((5, 6), "f4"), ours, bound),
        lambda: h5lossy.missing.no_data(ours),
    ):
        with pytest.raises(InvalidArgumentError, match="the file of the dataset is closed"):
            use()
    values = np.zeros((5, 6), "f4")
    assessor = h5lossy.Assessor((5, 6), "f4")
    for use, what in (
        (lambda: h5lossy.assess(ours, values), "original"),
        (lambda: h5lossy.assess(values, ours), "decoded"),
        (lambda: h5lossy.assess(values, values, mask=ours), "mask"),
        (lambda: h5lossy.assess(values, values, weights=ours), "weights"),
        (lambda: h5lossy.assess_divergence([values, ours], [values, values]), "original"),
        (lambda: h5lossy.assess_all(file, tmp_path), "original"),
        (lambda: h5lossy.assess_all(tmp_path, file), "decoded"),
        (lambda: assessor.update(values, ours), "decoded"),
    ):
        with pytest.raises(InvalidArgumentError, match=f"the file of {what} is closed"):
            use()
    failed = h5lossy.assess_all({"a": values, "b": ours}, {"a": ours, "b": values}).failed
    assert failed == {
        "a": "the file of decoded is closed",
        "b": "the file of original is closed",
    }
    with h5py.File(tmp_path / "x.h5", "r+") as file:
        with pytest.raises(InvalidArgumentError, match="the file of the values is closed"):
            h5lossy.write(file["ours0"], ours)
        with pytest.raises(InvalidArgumentError, match="the file of the region is closed"):
            h5lossy.write(file["ours0"], values, regions=[(ours, 0)])
        with pytest.raises(IncompleteWriteError, match="the file of the block is closed"):
            h5lossy.write(file["ours0"], iter([ours]))
        with pytest.raises(TypeError, match=r"must be of one kind .*, got File and \w+Path"):
            h5lossy.assess_all(file, tmp_path / "x.h5")
    with h5py.File(tmp_path / "x.h5") as file:
        with pytest.raises(InvalidArgumentError, match=r"x\.h5 is open for reading only"):
            h5lossy.write(file["ours0"], 1.0)
        assert not h5lossy.read(file["ours0"]).any()
    with pytest.raises(TypeError, match=r"h5py\.Dataset, or .*, got ndarray"):
        h5lossy.write(np.empty((5, 6)), 1.0)


def test_a_file_that_others_read(tmp_path: Path) -> None:
    values = field((40, 8))
    with h5py.File(tmp_path / "x.h5", "w", libver="latest") as file:
        x = file.create_dataset(
            "x", (0, 8), "f4", chunks=(10, 8), maxshape=(None, 8), compression=CODEC
        )
        file.swmr_mode = True
        with h5py.File(tmp_path / "x.h5", swmr=True) as reader:
            for rows in (10, 25, 40):
                x.resize(rows, axis=0)
                h5lossy.write(x, values[:rows])
                reader["x"].refresh()
                assert np.abs(h5lossy.read(reader["x"]) - values[:rows]).max() <= 1e-2


# ------------------------------------------------------------------------------------------------
# Threads and processes
# ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_threads_at_different_files(tmp_path: Path) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            values = field((200, 90), seed=number)
            with h5py.File(tmp_path / f"{number}.h5", "w") as file:
                theirs, ours = twins(file, values.shape, chunks=(16, 16))
                for _ in range(3):
                    h5lossy.write(ours, values, threads=3)
                    theirs[...] = values
                    assert_alike(theirs, ours)
        except BaseException as error:  # noqa: BLE001  # for the main thread
            failures.append(error)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures


COUNT = """
def count():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("Threads"))
"""
needs_proc = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="/proc counts the threads"
)


@needs_proc
def test_filter_calls_have_threads_only_when_asked(tmp_path: Path) -> None:
    code = COUNT + (
        "import sys, numpy, h5py, hashlib\n"
        "before = count()\n"
        "import h5lossy\n"
        "assert count() == before\n"
        "x = numpy.linspace(0, 1, 3 << 20).astype('f4')\n"  # 12 MiB
        "with h5py.File(sys.argv[1], 'w') as file:\n"
        "    file.create_dataset('x', data=x, chunks=x.shape,"
        " compression=h5lossy.PFPL(absolute=1e-4))\n"
        "with h5py.File(sys.argv[1]) as file:\n"
        "    y = file['x'][...]\n"
        "    frame = file['x'].id.read_direct_chunk((0,))[1]\n"
        "print(count() - before, hashlib.sha256(frame).hexdigest(), abs(x - y).max() <= 1e-4)\n"
    )
    said = {}
    for threads in (None, "", "1", "3", "none"):
        env = environment(H5LOSSY_NUM_THREADS=threads)
        env |= {"OPENBLAS_NUM_THREADS": "1"}
        started, *rest = run_python(code, tmp_path / "x.h5", env=env).stdout.split()
        assert int(started) == (2 if threads == "3" else 0), threads
        said[threads] = rest
    assert len({tuple(rest) for rest in said.values()}) == 1
    assert said["3"][1] == "True"


def test_a_wrong_environment_is_named(file: h5py.File, monkeypatch: pytest.MonkeyPatch) -> None:
    _, ours = twins(file, (5, 6), chunks=(2, 4))
    monkeypatch.setenv("H5LOSSY_NUM_THREADS", "many")
    with pytest.raises(InvalidArgumentError, match='H5LOSSY_NUM_THREADS is "many"'):
        h5lossy.write(ours, 1.0)
    h5lossy.write(ours, 1.0, threads=2)


def test_after_a_fork() -> None:
    code = (
        "import os, threading, warnings\n"
        "import h5py, numpy as np, h5lossy\n"
        "warnings.simplefilter('ignore', DeprecationWarning)\n"  # of fork beside threads
        "values = np.random.default_rng(0).normal(size=(512, 512)).astype('f4')\n"
        "def work():\n"
        "    with h5py.File('any', 'w', driver='core', backing_store=False) as file:\n"
        "        x = file.create_dataset('x', values.shape, 'f4', chunks=(64, 64),"
        " compression=h5lossy.PFPL(absolute=1e-2))\n"
        "        h5lossy.write(x, values, threads=4)\n"
        "        assert abs(h5lossy.read(x, threads=4) - values).max() <= 1e-2\n"
        "work()\n"
        "for _ in range(5):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        work()\n"
        "        os._exit(0)\n"
        "    assert os.waitpid(child, 0)[1] == 0\n"
        "work()\n"
    )
    run_python(code)


AT_EXIT = """
import atexit
import h5py, h5lossy, numpy as np

def save():
    with h5py.File("x", "w", driver="core", backing_store=False) as file:
        codec = h5lossy.PFPL(absolute=0.1)
        t = file.create_dataset("t", (99, 99), "f4", chunks=(7, 7), compression=codec)
        h5lossy.write(t, np.full((99, 99), 7.0), threads=3)
        print(float(h5lossy.read(t, threads=3).min()))
        assert h5lossy.assess(t, t, absolute=1).ok and not h5lossy.verify(t).problems

atexit.register(save)
"""


def test_at_exit() -> None:
    """At that point, Python can't start threads any more."""
    assert float(run_python(AT_EXIT).stdout) == pytest.approx(7, abs=0.1)


# ------------------------------------------------------------------------------------------------
# Progress
# ------------------------------------------------------------------------------------------------


def test_progress_goes_up_to_all(file: h5py.File) -> None:
    _, ours = twins(file, (300, 100), chunks=(16, 16))
    for call in (
        lambda report: h5lossy.write(ours, field((250, 100)), np.s_[50:], progress=report),
        lambda report: h5lossy.read(ours, np.s_[50:], progress=report),
    ):
        said: list[tuple[int, int]] = []
        call(lambda *numbers, said=said: said.append(numbers))
        assert len(said) > 3
        assert said == sorted(said)
        assert {total for _, total in said} == {250 * 100 * 4}
        assert said[-1][0] == 250 * 100 * 4


def test_a_bar_goes_to_standard_error(file: h5py.File, capfd: pytest.CaptureFixture[str]) -> None:
    _, ours = twins(file, (30, 10), chunks=(16, 5))
    h5lossy.write(ours, 1.0, progress=True)
    h5lossy.read(ours, progress=True)
    out, err = capfd.readouterr()
    assert not out
    assert "writing /ours0" in err
    assert "reading /ours0" in err


@pytest.mark.parametrize("index", [np.s_[:], np.s_[3:, 2], np.s_[::2]], ids=str)
@pytest.mark.parametrize("has_out", [False, True])
def test_progress_where_h5py_reads(file: h5py.File, index: Any, has_out: bool) -> None:
    values = field((300, 100))
    plain = file.create_dataset("plain", data=values)
    expected = values[index]
    out = np.empty_like(expected) if has_out else None
    said: list[tuple[int, int]] = []
    found = h5lossy.read(plain, index, out=out, progress=lambda *numbers: said.append(numbers))
    assert bits(found) == bits(expected)
    assert found is out or not has_out
    assert said == sorted(said)
    assert said[-1] == (expected.nbytes, expected.nbytes)


@pytest.mark.parametrize("progress", [3, "yes", pytest.param(object(), id="object")], ids=str)
def test_a_wrong_progress_is_named(file: h5py.File, progress: Any) -> None:
    _, ours = twins(file, (30, 10), chunks=(16, 5))
    for call in (
        lambda **how: h5lossy.read(ours, **how),
        lambda **how: h5lossy.write(ours, 1, **how),
    ):
        with pytest.raises(
            InvalidArgumentError, match="progress must be a function of two numbers"
        ):
            call(progress=progress)


def test_progress_that_fails_ends_the_write(file: h5py.File) -> None:
    _, ours = twins(file, (300, 100), chunks=(16, 16))

    def report(_done: int, _total: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(IncompleteWriteError, match="ZeroDivisionError"):
        h5lossy.write(ours, 1.0, progress=report)


def test_a_call_leaves_nothing_to_the_garbage_collector(tmp_path: Path) -> None:
    """Buffers of tens of MiB in reference cycles would accumulate in a loop of calls."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        t = file.create_dataset("t", (64, 64), "f4", chunks=(16, 16), compression=CODEC)
        gc.collect()
        gc.disable()
        try:
            h5lossy.write(t, np.ones((64, 64)))
            h5lossy.read(t)
            assert not [o for o in gc.get_objects() if isinstance(o, ChunkWriter | HostReader)]
        finally:
            gc.enable()


@pytest.mark.parametrize("driver", ["core", None])
def test_a_file_of_one_process_cannot_be_written_collectively(
    tmp_path: Path, driver: str | None
) -> None:
    with h5py.File(tmp_path / "x.h5", "w", driver=driver) as file:
        _, ours = twins(file, (50, 60), chunks=(9, 9))
        with pytest.raises(InvalidArgumentError, match=r"driver='mpio', and .*x\.h5 is open with"):
            h5lossy.write(ours, field((50, 60)), collective=True)
        assert not ours.id.get_num_chunks()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros(6, "c8"), "complex64 can't be written as float32; give their real"),
        ([1j] * 6, "can't be written as float32"),
        (iter([np.zeros(6, "c16")]), "complex128 can't be written"),
        (np.array(["a"] * 6), "type <U1 can't be written as float32"),
        ({0: 1.0}, "values of type dict can't be written as float32"),
        ({1.0}, "values of type set can't be written as float32"),
        (None, "values must be numbers, got None"),
    ],
    ids=["complex", "complex list", "complex blocks", "text", "dict", "set", "None"],
)
@pytest.mark.parametrize("selection", [np.s_[:], np.s_[::2]], ids=["all", "steps"])
def test_values_that_are_no_floats(
    file: h5py.File, values: Any, message: str, selection: Any
) -> None:
    x = file.create_dataset("floats", (6,), "f4", chunks=(4,), compression=PFPL(absolute=1e-3))
    if selection == np.s_[:]:
        with pytest.raises((InvalidArgumentError, IncompleteWriteError), match=re.escape(message)):
            h5lossy.write(x, values, selection)
    else:
        with pytest.raises((InvalidArgumentError, TypeError, OSError)):
            h5lossy.write(x, values, selection)
    assert not x[...].any()


def test_nothing_to_write(file: h5py.File) -> None:
    options = {"maxshape": (None, 4), "chunks": (2, 4), "compression": PFPL(absolute=1e-3)}
    x = file.create_dataset("none", (0, 4), "f4", **options)
    y = file.create_dataset("some", (6, 4), "f4", **options)
    for verify in (False, True):
        h5lossy.write(x, np.zeros((0, 4)), verify=verify)
        h5lossy.write(x, iter([]), verify=verify)
        h5lossy.write(y, np.zeros((0, 4)), np.s_[3:3], verify=verify)
        with pytest.raises(InvalidArgumentError, match="do not fit"):
            h5lossy.write(y, np.zeros((1, 3)), np.s_[3:3], verify=verify)
    assert y.id.get_num_chunks() == 0
    null = file.create_dataset("null", data=h5py.Empty("f4"))
    with pytest.raises(InvalidArgumentError, match="null dataspace"):
        h5lossy.write(null, 1.0)


@pytest.mark.parametrize("libver", ["earliest", "v110"])
@pytest.mark.parametrize("most", [(None,), (20_000,)])
def test_the_index_is_not_walked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, libver: str, most: Any
) -> None:
    """What goes through all chunks of a dataset is not called to write one of them."""
    with h5py.File(tmp_path / "x.h5", "w", libver=libver) as file:
        x = file.create_dataset(
            "x", (20_000,), "f4", maxshape=most, chunks=(4,), compression=PFPL(absolute=1e-3)
        )
        h5lossy.write(x, np.zeros(8), np.s_[:8])

        class Identifier(h5py.h5d.DatasetID):
            def get_storage_size(self) -> int:
                raise AssertionError

            get_num_chunks = chunk_iter = get_chunk_info = get_storage_size

        monkeypatch.setattr(x, "_id", Identifier(x.id.id))
        h5lossy.write(x, np.ones(4), np.s_[4:8])
        h5lossy.write(x, np.ones(4), np.s_[100:104])
        assert x[4:8].all()

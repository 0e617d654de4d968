# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Chunks are found where they are, though HDF5 lists those of extensible arrays elsewhere.

A dataset of the newer formats with one unlimited axis that is not the first has such an index.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

import h5lossy
from h5lossy import PFPL, _native
from h5lossy._blocks import chunk_starts, grid_of
from h5lossy._libhdf5 import rows_looked_up, rows_of_chunks
from hdf5_helpers import h5lossy_command

if TYPE_CHECKING:
    from pathlib import Path

#: The shape at first, the shape, the chunks, the largest shape.
LAYOUTS: dict[str, tuple[Any, Any, Any, Any]] = {
    "last": ((5, 8, 2), (5, 8, 11), (5, 5, 1), (5, 8, None)),
    "middle": ((2, 3, 5), (4, 7, 5), (2, 2, 2), (4, None, 5)),
    "axes that may grow": ((1, 1, 2), (3, 5, 4), (1, 2, 2), (5, None, 7)),
    "last, and others that may grow": ((1, 1, 2), (3, 5, 4), (1, 2, 2), (5, 9, None)),
    "first": ((2, 3, 4), (7, 3, 4), (2, 2, 2), (None, 3, 4)),
    "two": ((2, 3, 4), (7, 3, 6), (2, 2, 2), (None, 3, None)),
}


def made(path: Path, layout: str, libver: str) -> Any:
    """Write a dataset that grows once, leave out one of its chunks, and return its values."""
    first, shape, chunks, maxshape = LAYOUTS[layout]
    values = np.arange(np.prod(shape), dtype="f4").reshape(shape)
    with h5py.File(path, "w", libver=libver) as file:
        data = file.create_dataset(
            "t", first, "f4", chunks=chunks, maxshape=maxshape, compression=PFPL(absolute=0.25)
        )
        data[...] = 0
        data.resize(shape)
        for where in data.iter_chunks():
            if any(axis.stop < extent for axis, extent in zip(where, shape, strict=True)):
                data[where] = values[where]
            elif any(axis.start >= extent for axis, extent in zip(where, first, strict=True)):
                values[where] = 0  # the last one, unless it was there at first
    return values


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_everything_finds_them(tmp_path: Path, layout: str, libver: str) -> None:
    path, copy = tmp_path / "a.h5", tmp_path / "b.h5"
    values = made(path, layout, libver)
    with h5py.File(path) as file:
        data = file["t"]
        by_lookup = [
            tuple(axis.start for axis in where)
            for where in data.iter_chunks()
            if _is_stored(data, tuple(axis.start for axis in where))
        ]
        assert 0 < len(by_lookup) < np.prod(grid_of(data))
        assert sorted(chunk_starts(data)) == by_lookup
        np.testing.assert_allclose(h5lossy.read(data), values, rtol=0, atol=0.25)
        np.testing.assert_array_equal(h5lossy.read(data), data[...])
        assert not h5lossy.verify(data).problems
        report = h5lossy.assess(values, data)
        assert report.to_dict()["error"]["max_abs"] <= 0.25
    h5lossy_command("repack", "--codec", "interp", "--absolute", "0.5", path, copy)
    h5lossy_command("verify", copy)
    with h5py.File(copy) as file:
        np.testing.assert_allclose(file["t"][...], values, rtol=0, atol=0.75)


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_older_hdf5_lists_the_same(tmp_path: Path, layout: str, libver: str) -> None:
    made(tmp_path / "a.h5", layout, libver)
    with h5py.File(tmp_path / "a.h5") as file:
        data, rank = file["t"], file["t"].ndim
        one_by_one = rows_looked_up(data.id, rank, 1000)
        for most in (1, 3, 1000):
            np.testing.assert_array_equal(rows_of_chunks(data, most), one_by_one[:most])
            np.testing.assert_array_equal(rows_looked_up(data.id, rank, most), one_by_one[:most])


def _is_stored(data: h5py.Dataset, place: tuple[int, ...]) -> bool:
    """Return whether a chunk is in the file, by reading it."""
    try:
        data.id.read_direct_chunk(place)
    except (OSError, RuntimeError, ValueError):
        return False
    return True


def test_chunks_without_an_address_do_not_count() -> None:
    nowhere = (1 << 64) - 1  # HADDR_UNDEF, which a damaged index may have
    visited = ctypes.CFUNCTYPE(
        ctypes.c_int,
        ctypes.POINTER(ctypes.c_uint64),
        ctypes.c_uint,
        *(ctypes.c_uint64, ctypes.c_uint64, ctypes.c_void_p),
    )

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64, ctypes.c_int64, visited, ctypes.c_void_p)
    def iterate(_dataset: int, _transfer: int, visit: Any, data: int) -> int:
        for start, address in ((0, nowhere), (5, 4096), (10, 8192)):
            if visit((ctypes.c_uint64 * 1)(start), 0, address, 100, data):
                break
        return 0

    names = list(_native.HDF5_FUNCTIONS)
    addresses = [0] * len(names)
    addresses[names.index("iterate_chunks")] = ctypes.cast(iterate, ctypes.c_void_p).value or 0
    hdf5 = _native.HDF5(addresses)
    assert hdf5.list_chunks(0, 1, 1).tolist() == [[5, 0, 4096, 100]]
    assert hdf5.list_chunks(0, 1, 9).tolist() == [[5, 0, 4096, 100], [10, 0, 8192, 100]]

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Files that lie about their chunks: each read is an error, and no memory is handed out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

import h5lossy
from h5lossy import PFPL, CorruptFrameError
from h5lossy._stored import StoredChunks
from hdf5_helpers import call_filter, field

if TYPE_CHECKING:
    from pathlib import Path

CODEC = PFPL(absolute=0.5)


def bytes_frame(raw: bytes) -> bytes:
    """Encode as the filter does where it was told nothing."""
    frame = call_filter((), raw)
    assert frame is not None
    return frame


def frame_of(count: int, dtype: Any = "<f4") -> bytes:
    """Encode some values."""
    return bytes(h5lossy.encode(np.full(count, 7, dtype), CODEC))


def one_chunk(path: Path, stored: bytes, mask: int = 0) -> Path:
    """Make a dataset of 2 x 2 chunks of 40 float32, one of them stored as told."""
    with h5py.File(path, "w") as file:  # to be opened anew: HDF5 keeps the mask that it had before
        x = file.create_dataset("x", (20, 8), "<f4", chunks=(10, 4), compression=CODEC)
        x.id.write_direct_chunk((10, 4), stored, mask)
    return path


@pytest.mark.parametrize(
    ("stored", "mask", "why"),
    [
        (frame_of(39), 0, "holds 156 bytes, and a chunk has 160"),
        (frame_of(41), 0, "holds 164 bytes, and a chunk has 160"),
        (frame_of(20, "<f8"), 0, "type is not the dataset's"),
        (frame_of(40, ">f4"), 0, "type is not the dataset's"),
        (bytes_frame(bytes(8)), 0, "holds 8 bytes, and a chunk has 160"),
        (frame_of(40)[:-1], 0, ""),
        (b"\0" * 8, 0, ""),
        (bytes(159), 1, "without filters as 159 bytes, and has 160"),
        (bytes(161), 1, "without filters as 161 bytes, and has 160"),
    ],
)
def test_a_chunk_is_compared_with_the_datasets_header(
    tmp_path: Path, stored: bytes, mask: int, why: str
) -> None:
    with h5py.File(one_chunk(tmp_path / "x.h5", stored, mask)) as file:
        dataset = file["x"]
        place = r"chunk \(10, 4\) of /x in .*x\.h5: .*"
        with pytest.raises(CorruptFrameError, match=place + why):
            StoredChunks(dataset).values((10, 4))
        with pytest.raises(CorruptFrameError, match=place + why):
            h5lossy.read(dataset)
        with pytest.raises(CorruptFrameError, match=place + why):
            h5lossy.read(dataset, np.s_[::3])


def test_chunks_that_are_right_are_given(tmp_path: Path) -> None:
    data = field((10, 4), "<f4")
    exact = bytes(h5lossy.encode(data, PFPL(lossless=True)))
    for stored, mask in ((exact, 0), (bytes_frame(data.tobytes()), 0), (data.tobytes(), 1)):
        with h5py.File(one_chunk(tmp_path / "x.h5", stored, mask)) as file:
            dataset = file["x"]
            np.testing.assert_array_equal(StoredChunks(dataset).values((10, 4)), data)
            np.testing.assert_array_equal(h5lossy.read(dataset)[10:, 4:], data)
            np.testing.assert_array_equal(dataset[10:, 4:], data)

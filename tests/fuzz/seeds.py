# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Small whole files for the file fuzzer to damage, and what is in them."""

from __future__ import annotations

import ctypes
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

import h5lossy
from h5lossy._libraries import loaded_libraries
from hdf5_helpers import create, creation_list, field
from matrix import BOUNDS, DTYPES, SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy.typing as npt

#: The dataset of each file.
NAME = "x"

SHAPE, CHUNKS = (37, 50), (8, 24)

#: How HDF5 finds chunks, with the versions of the file format and the extents that make it do so.
#: (An implicit index is for chunks without filters only.)
INDEXES: dict[str, tuple[str, tuple[int | None, int | None]]] = {
    "v1-btree": ("earliest", SHAPE),
    "single": ("latest", SHAPE),
    "fixed-array": ("latest", SHAPE),
    "extensible-array": ("latest", (None, SHAPE[1])),
    "v2-btree": ("latest", (None, None)),
}

#: Filters behind ours.
BEHIND = ("", "gzip", "", "fletcher32", "")

#: HDF5's H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS, which h5py does not know.
DONT_FILTER_PARTIAL_CHUNKS = 0x0002

#: h5py's HDF5, for what h5py does not wrap.
LIBHDF5 = ctypes.CDLL(loaded_libraries()[0].path)


@dataclass(frozen=True, kw_only=True)
class Seed:
    """A file, and what each reader has to make of it."""

    name: str  # what it is made of
    content: bytes  # the file
    # What was written, and what h5py reads; None where that is more than fits into memory.
    original: npt.NDArray[Any] | None
    decoded: npt.NDArray[Any] | None
    checksum: bool  # whether any change of a frame's bytes has to be noticed
    record: bool  # whether the values can be verified later


def make_seeds(folder: Path) -> list[Seed]:
    """Make one file for each codec and mode, over which all other choices are spread; and others.

    They are the same in every run.
    """
    return [*_usual(folder), _with_unfiltered_edges(folder), _sparse(folder)]


def _usual(folder: Path) -> Iterator[Seed]:
    indexes, bounds = itertools.cycle(INDEXES), list(BOUNDS)
    # Twice, with other choices. Each index comes with each of the filters behind.
    for number, (name, make) in enumerate([*SETTINGS.items(), *SETTINGS.items()]):
        index = next(indexes)
        behind = BEHIND[(number + number // len(INDEXES)) % len(BEHIND)]
        kind = bounds[(number + number // 4) % len(bounds)]
        dtype = np.dtype(DTYPES[(number // 3) % len(DTYPES)])
        fill = None if number % 3 == 0 else np.array(-999, dtype)
        yield _make(
            folder / "seed.h5",
            name="-".join(filter(None, [name, kind, dtype.str[0:], index, behind])),
            codec=make(**BOUNDS[kind], checksum=number % 4 != 3),
            dtype=dtype,
            index=index,
            behind=behind,
            fill=fill,
            seed=number,
        )


def _make(
    path: Path,
    *,
    name: str,
    codec: Any,
    dtype: np.dtype[Any],
    index: str,
    behind: str,
    fill: Any,
    seed: int,
) -> Seed:
    libver, most = INDEXES[index]
    chunks = SHAPE if index == "single" else CHUNKS
    original = field(SHAPE, dtype, seed=seed)
    original[3, 4], original[10, 10] = np.nan, np.inf
    if fill is not None:
        original[20, :30] = fill
    creation = creation_list(chunks, codec.filter_options, fill=fill)
    if behind == "gzip":
        creation.set_deflate(1)
    if behind == "fletcher32":
        creation.set_fletcher32()
    is_sparse = seed % 7 == 3 and index != "single"
    record = not behind and not is_sparse
    with h5py.File(path, "w", libver=libver) as file:
        dataset = create(file, NAME, SHAPE, dtype, creation, maxshape=most)
        if is_sparse:
            dataset[:8] = original[:8]
            original[8:] = 0 if fill is None else fill
        else:
            h5lossy.write(dataset, original, verify=record, threads=1)
    return Seed(
        name=name,
        content=path.read_bytes(),
        original=original,
        decoded=_decoded(path),
        checksum=codec.checksum or bool(behind),
        record=record,
    )


def _decoded(path: Path) -> npt.NDArray[Any]:
    """Read what the file holds; HDF5 keeps what is written in its cache as long as it is open."""
    with h5py.File(path) as file:
        values: npt.NDArray[Any] = file[NAME][...]
    return values


def _with_unfiltered_edges(folder: Path) -> Seed:
    """Make a file whose chunks at the edge HDF5 keeps from the filter."""
    codec = h5lossy.PFPL(absolute=1e-3)
    creation = creation_list(CHUNKS, codec.filter_options)
    set_options = LIBHDF5.H5Pset_chunk_opts
    set_options.argtypes = (ctypes.c_int64, ctypes.c_uint)
    assert set_options(creation.id, DONT_FILTER_PARTIAL_CHUNKS) >= 0
    original = field(SHAPE, "f4", seed=100)
    path = folder / "seed.h5"
    with h5py.File(path, "w", libver="latest") as file:
        create(file, NAME, SHAPE, "f4", creation)[...] = original
    return Seed(
        name="pfpl-unfiltered-edges",
        content=path.read_bytes(),
        original=original,
        decoded=_decoded(path),
        checksum=False,
        record=False,
    )


def _sparse(folder: Path) -> Seed:
    """Make a file with one chunk of many million."""
    path = folder / "seed.h5"
    creation = creation_list((1 << 10,), h5lossy.AATROX(absolute=1e-3).filter_options)
    # The index of another format has room for all of them, and HDF5 itself looks at each.
    with h5py.File(path, "w", libver="earliest") as file:
        create(file, NAME, (1 << 38,), "f4", creation)[:1000] = field((1000,), seed=101)
    return Seed(
        name="aatrox-sparse",
        content=path.read_bytes(),
        original=None,
        decoded=None,
        checksum=True,
        record=False,
    )


def write_original(seed: Seed, path: Path) -> None:
    """Write what a seed was made of, uncompressed, to compare with."""
    with h5py.File(path, "w") as file:
        file.create_dataset(NAME, data=seed.original)

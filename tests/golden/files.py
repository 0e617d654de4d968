# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""HDF5 files that are kept for ever, as `golden` keeps frames: each with one dataset ``x``.

``files/v1/NAME.h5`` was written by the version that ``files/v1/NAME.json`` names, which also says
what is in it and how its values are made. ``python -m tests.golden add-file NAME`` makes the file
from a recipe in the JSON file, once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

import h5lossy
from golden import CLASSES, digest, make_values

if TYPE_CHECKING:
    from golden import Array

FOLDER = Path(__file__).parent / "files" / "v1"


@dataclass(frozen=True)
class FileRecipe:
    """What a file is made of. The bound and the settings are arguments of the codec's class.

    `libver` is the oldest version of HDF5's format that may be used, up to that of HDF5 1.10; with
    `maxshape` it says how HDF5 finds chunks. Of the slowest axis, `written` rows are written. The
    chunk at `unfiltered` goes around the filter, and its filter mask says so.
    """

    description: str
    codec: str
    dtype: str
    bound: dict[str, Any]
    values: list[dict[str, Any]]
    shape: list[int]
    chunks: list[int]
    settings: dict[str, Any] = field(default_factory=dict)
    fill_bits: str | None = None
    checksum: bool = True
    libver: str = "earliest"
    maxshape: list[int | None] | None = None
    fletcher32: bool = False
    written: int | None = None
    unfiltered: list[int] | None = None

    def fill_value(self) -> Any:
        """Return the fill value, or None."""
        if self.fill_bits is None:
            return None
        return make_values([{"piece": "patterns", "words": [self.fill_bits]}], self.dtype)[0]

    def make_values(self) -> Array:
        """Return the values, with the fill value, or 0, where nothing is written."""
        values = make_values(self.values, self.dtype).reshape(self.shape)
        if self.written is not None:
            values[self.written :] = 0 if self.fill_bits is None else self.fill_value()
        return values

    def make_codec(self) -> h5lossy.Codec:
        """Return the setting."""
        return CLASSES[self.codec](**self.bound, **self.settings, checksum=self.checksum)

    def write(self, path: Path) -> None:
        """Write the file, through the filter."""
        values = self.make_values()
        with h5py.File(path, "w", libver=(self.libver, "v110")) as file:
            dataset = file.create_dataset(
                "x",
                self.shape,
                self.dtype,
                chunks=tuple(self.chunks),
                maxshape=None if self.maxshape is None else tuple(self.maxshape),
                fillvalue=self.fill_value(),
                fletcher32=self.fletcher32,
                compression=self.make_codec(),
            )
            dataset[: self.written] = values[: self.written]
            if self.unfiltered is not None:
                file.flush()
                place = tuple(map(slice, self.unfiltered, np.add(self.unfiltered, self.chunks)))
                dataset.id.write_direct_chunk(tuple(self.unfiltered), values[place].tobytes(), 1)


def in_little_endian(values: Array) -> Array:
    """Return the same values in the byte order in which `GoldenFile.holds` has their digest."""
    return values.astype(values.dtype.newbyteorder("<"))


def stored(dataset: h5py.Dataset) -> dict[tuple[int, ...], tuple[int, bytes]]:
    """Return filter mask and bytes of each stored chunk, by its place."""
    places = [dataset.id.get_chunk_info(i).chunk_offset for i in range(dataset.id.get_num_chunks())]
    return {tuple(map(int, at)): dataset.id.read_direct_chunk(at) for at in sorted(places)}


def contents(path: Path) -> dict[str, Any]:
    """Say what a file holds, versions aside."""
    with h5py.File(path) as file:
        dataset = file["x"]
        creation = dataset.id.get_create_plist()
        [words] = [
            creation.get_filter(i)[2]
            for i in range(creation.get_nfilters())
            if creation.get_filter(i)[0] == h5lossy.FILTER_ID
        ]
        info = h5lossy.describe(dataset)
        return {
            "values_sha256": digest(in_little_endian(dataset[...])),
            "cd_values": list(map(int, words)),
            "config": str(info.config),
            "bound": str(info.bound),
            "dtype": info.dtype.str,
            "other_filters": list(info.other_filters),
            "chunks_stored": info.chunks_stored,
            "chunks_unfiltered": info.chunks_unfiltered,
            "stored_bytes": info.stored_bytes,
        }


@dataclass(frozen=True)
class GoldenFile:
    """A file of the past, and what is known about it."""

    path: Path
    recipe: FileRecipe
    written_by: dict[str, str]
    holds: dict[str, Any]

    def __str__(self) -> str:
        return self.path.stem


def load(folder: Path = FOLDER) -> list[GoldenFile]:
    """Return all files of the past."""
    found = []
    for path in sorted(folder.glob("*.json")):
        kept = json.loads(path.read_text(encoding="utf-8"))
        recipe = FileRecipe(**kept["made_of"])
        made = path.with_suffix(".h5")
        found.append(GoldenFile(made, recipe, kept["written_by"], kept["holds"]))
    return found

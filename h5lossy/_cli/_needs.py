# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""What a program needs to read a file, and where to get it."""

from __future__ import annotations

import glob
import importlib.util
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import h5py
from h5py import h5z

from h5lossy import FILTER_ID, H5LossyError, describe, inspect
from h5lossy._blocks import listed_chunks
from h5lossy._cli._console import say, some_names
from h5lossy._cli._files import filters_of, folders_of_other_files, open_file
from h5lossy._cli._system import SET_PLUGIN_PATH
from h5lossy._names import path_text
from h5lossy._printable import one_line, printable
from h5lossy._repacking.objects import external_files, walk
from h5lossy._stored import StoredChunks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

#: HDF5's built-in filters; an HDF5 library may be built without zlib or szip.
_OF_HDF5 = {1: "gzip", 2: "shuffle", 3: "fletcher32", 4: "szip", 5: "nbit", 6: "scaleoffset"}

_LZF = 32000

#: The filters of hdf5plugin: bzip2, Blosc, LZ4, Bitshuffle, zfp, zstd, SZ, FCIDECOMP, SZ3, Blosc2
#: and SPERR.
_OF_HDF5PLUGIN = {307, 32001, 32004, 32008, 32013, 32015, 32017, 32018, 32024, 32026, 32028}


@dataclass(frozen=True, kw_only=True)
class Filter:
    """A filter that datasets of a file use."""

    number: int
    name: str  # the name in the file
    is_here: bool  # whether the HDF5 library of this process has it

    @property
    def source(self) -> str:
        """Where to get it."""
        if self.number == FILTER_ID:
            return f"pip install h5lossy; in Python import h5lossy, elsewhere {SET_PLUGIN_PATH}"
        if self.number in _OF_HDF5PLUGIN:
            is_there = importlib.util.find_spec("hdf5plugin") is not None
            return f"{'' if is_there else 'pip install hdf5plugin; '}in Python import hdf5plugin"
        if self.number in _OF_HDF5:
            return f"an HDF5 library that was built with {_OF_HDF5[self.number]}"
        if self.number == _LZF:
            return "h5py has it"
        return f"look for {self.number} in The HDF Group's list of registered filters"


@dataclass(kw_only=True)
class Needs:
    """What is needed to read a file."""

    #: The filters of each dataset, by its path.
    datasets: dict[str, list[Filter]] = field(default_factory=dict)
    #: How many datasets each codec of h5lossy has.
    codecs: Counter[str] = field(default_factory=Counter)
    #: Number of datasets whose first frame has each format version.
    versions: Counter[int] = field(default_factory=Counter)
    #: Why this h5lossy can't read a dataset, by its path.
    problems: dict[str, str] = field(default_factory=dict)
    #: Whether each of the other files exists that the file takes values from, by its name.
    others: dict[str, bool] = field(default_factory=dict)

    @property
    def filters(self) -> dict[Filter, list[str]]:
        """The paths of the datasets that use each filter."""
        found: dict[Filter, list[str]] = {}
        for path, filters in self.datasets.items():
            for one in filters:
                found.setdefault(one, []).append(path)
        return found

    @property
    def missing(self) -> list[str]:
        """What is missing."""
        return [
            *(f"filter {one.number} ({one.name})" for one in self.filters if not one.is_here),
            *(f"file {name}" for name, is_there in self.others.items() if not is_there),
            *(f"{path}: {why}" for path, why in self.problems.items()),
        ]

    def plain(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return {
            "datasets": [
                {"path": path, "filters": [{"id": f.number, "name": f.name} for f in filters]}
                for path, filters in self.datasets.items()
            ],
            "filters": [
                {"id": f.number, "name": f.name, "here": f.is_here, "source": f.source}
                for f in self.filters
            ],
            "codecs": dict(self.codecs),
            "format_versions": {str(version): n for version, n in self.versions.items()},
            "problems": [{"path": path, "why": why} for path, why in self.problems.items()],
            "other_files": [{"name": name, "here": is_} for name, is_ in self.others.items()],
        }

    def show(self) -> None:
        """Print it."""
        for one, paths in self.filters.items():
            state = "is here" if one.is_here else "is MISSING"
            name = "h5lossy" if one.number == FILTER_ID else printable(one.name)
            say(f"filter {one.number}, {name}, {state}; of {_some(paths)}")
            if one.number == FILTER_ID:
                codecs = ", ".join(f"{n} {name}" for name, n in self.codecs.most_common())
                versions = ", ".join(map(str, self.versions)) or "none yet"
                say(f"   codecs: {codecs or '-'}; format version of the frames: {versions}")
            if not one.is_here or one.number == FILTER_ID:
                say(f"   to read it: {one.source}")
        without = [path for path, filters in self.datasets.items() if not filters]
        if without:
            say(f"no filter; {_some(without)}")
        for name, is_there in self.others.items():
            say(f"other file {printable(name)}, {'is here' if is_there else 'is MISSING'}")
        for path, why in self.problems.items():
            say(f"{printable(path)}: {printable(why)}")


def needs_of(path: Path) -> Needs:
    """Find out what is needed to read a file. No value is decoded."""
    needs = Needs()
    with open_file(path) as file:
        for name, obj in walk(file):
            for other in external_files(obj):
                needs.others[other] = _is_there(other, path)
            if isinstance(obj, h5py.h5d.DatasetID):
                _look_at(path_text(name), h5py.Dataset(obj), needs)
    return needs


def _look_at(path: str, dataset: h5py.Dataset, needs: Needs) -> None:
    """Add what one dataset needs."""
    filters = [
        Filter(number=number, name=name, is_here=bool(h5z.filter_avail(number)))
        for number, name in filters_of(dataset)
    ]
    needs.datasets[path] = filters
    if FILTER_ID not in {one.number for one in filters}:
        return
    try:
        described = describe(dataset)
        assert described is not None
        needs.codecs[described.codec] += 1
        if described.other_filters or not described.chunks_filtered:
            return
        for start in listed_chunks(dataset, 1).places.tolist():
            frame = StoredChunks(dataset).frame(tuple(start))
            if frame is not None:
                needs.versions[inspect(frame).version] += 1
    except H5LossyError as error:
        needs.problems[path] = one_line(error)


def _is_there(name: str, path: Path) -> bool:
    """Return whether HDF5 would find another file by its name, where "%b" is a number."""
    pattern = re.sub(r"%\d*b", "*", glob.escape(name))
    # Path.glob takes no absolute names.
    return any(
        glob.glob(pattern, root_dir=folder)  # noqa: PTH207
        for folder in folders_of_other_files(path)
    )


def _some(paths: Sequence[str]) -> str:
    """Name some datasets."""
    return f"{len(paths)} dataset{'' if len(paths) == 1 else 's'}: {some_names(paths)}"

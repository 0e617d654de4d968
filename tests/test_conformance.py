# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Data on which lossy filters are known to fail: one row per trap, with all kinds of bounds.

Other filters lose NaN, read big-endian data as noise, let the padding of edge chunks decide about a
bound, or take the process with them. Here a row ends in one of three ways, and the row says which:

- *kept*: the bound holds for every value; NaN, infinities and the fill value keep their bits;
- *stored*: the chunks are stored unchanged, inside of frames;
- *refused*: a Python exception when the dataset is created.

The rows run in a separate process (this file with an argument), since the worst outcome is the end
of the process, by a signal or by an exit without a message.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

import h5lossy

if TYPE_CHECKING:
    from collections.abc import Callable

Array = np.ndarray[Any, Any]

KINDS = {
    "absolute": {"absolute": 0.013},  # -999 lies in the middle of a bin of 0.01's
    "pointwise_relative": {"pointwise_relative": 1e-3},
    "range_relative": {"range_relative": 1e-3},
    "lossless": {"lossless": True},
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One trap.

    Attributes
    ----------
    make : function
        Makes the data.
    fill : float, optional
        The dataset's fill value, if it has one of its own.
    chunks : tuple of int
        The chunk shape; (32, 32) unless the row is about another.
    by_row : bool
        Whether the rows are appended one by one, each by a separate program.
    expected : str
        The outcome of the row.
    """

    make: Callable[[], Array]
    fill: float | None = None
    chunks: tuple[int, ...] = (32, 32)
    by_row: bool = False
    expected: str = "kept"


def walk(shape: tuple[int, ...] = (64, 64), dtype: Any = "f4") -> Array:
    """Make a 2-D random walk, the data of the measurements that found the traps."""
    steps = np.random.default_rng(0).normal(size=shape)
    for axis in range(len(shape)):
        steps = np.cumsum(steps, axis)
    return (280 + steps).astype(dtype)


def walk_with(value: float, dtype: Any = "f4", *, where: float = 0.28) -> Array:
    """Make a random walk in which some values are replaced by another one."""
    data = walk(dtype=dtype)
    data[np.random.default_rng(1).random(data.shape) < where] = value
    return data


def compound() -> Array:
    data = np.zeros((64, 64), [("a", "f4"), ("b", "f8")])
    data["a"], data["b"] = walk(), walk()
    return data


ROWS = {
    "float32": Row(make=walk),
    "float64": Row(make=lambda: walk(dtype="f8")),
    "big-endian float32": Row(make=lambda: walk(dtype=">f4")),
    "big-endian float64": Row(make=lambda: walk(dtype=">f8")),
    "float16": Row(make=lambda: walk(dtype="f2")),
    "NaN present": Row(make=lambda: walk_with(np.nan, where=0.01)),
    "NaN present, big-endian float64": Row(make=lambda: walk_with(np.nan, ">f8", where=0.01)),
    "infinity": Row(make=lambda: walk_with(np.inf, where=0.003)),
    "minus infinity": Row(make=lambda: walk_with(-np.inf, "f8", where=0.003)),
    "fill value 1e20 inside": Row(make=lambda: walk_with(1e20), fill=1e20),
    "1e20 inside, which is no fill value": Row(make=lambda: walk_with(1e20)),
    "fill value of netCDF inside": Row(
        make=lambda: walk_with(9.969209968386869e36), fill=9.969209968386869e36
    ),
    "fill value of netCDF inside, float64": Row(
        make=lambda: walk_with(9.969209968386869e36, "f8"), fill=9.969209968386869e36
    ),
    "fill value -999 is kept exactly": Row(make=lambda: walk_with(-999), fill=-999),
    "fill value -999 is kept exactly, big-endian": Row(
        make=lambda: walk_with(-999, ">f4"), fill=-999
    ),
    "NaN fill and edge chunks, as xarray writes": Row(make=lambda: walk((50, 50)), fill=np.nan),
    "five dimensions": Row(make=lambda: walk((6, 5, 7, 8, 9)), chunks=(4, 5, 3, 8, 4)),
    "compound": Row(make=compound, expected="refused"),
    "long double": Row(make=lambda: walk(dtype=np.longdouble), expected="refused"),
    "one element": Row(make=lambda: walk((1,)), chunks=(1,), expected="stored"),
    "one element a chunk": Row(make=lambda: walk((4, 4)), chunks=(1, 1), expected="stored"),
    "append row by row, reopening": Row(make=walk, by_row=True),
    "append row by row, reopening, fill value": Row(
        make=lambda: walk_with(-999), fill=-999, by_row=True
    ),
    "edge chunks, fill value 1e20 not in the data": Row(make=lambda: walk((50, 50)), fill=1e20),
    "edge chunks, no fill value": Row(make=lambda: walk((50, 50))),
    "edge chunks, fill value 0": Row(make=lambda: walk((50, 50)), fill=0),
    "edge chunks, big-endian float64, fill value 1e20": Row(
        make=lambda: walk((50, 50), ">f8"), fill=1e20
    ),
    "zeros inside": Row(make=lambda: walk_with(0)),
}


def codec_for(row: Row, kind: str) -> h5lossy.PFPL:
    codec = h5lossy.PFPL(**KINDS[kind])
    # Chunk by chunk, a range grows with the rows: docs/limitations.md says to resolve it first.
    return codec.resolve(row.make(), row.fill) if row.by_row else codec


def run_case(row: Row, kind: str, folder: Path) -> str:
    """Write and read, in this process; return the outcome."""
    data = row.make()
    options: dict[str, Any] = {"chunks": row.chunks, "compression": codec_for(row, kind)}
    if row.fill is not None:
        options["fillvalue"] = row.fill
    path = folder / "a.h5"
    try:
        with h5py.File(path, "w") as file:
            if row.by_row:
                shape = (0, *data.shape[1:])
                maxshape = (None, *data.shape[1:])
                file.create_dataset("x", shape, data.dtype, maxshape=maxshape, **options)
            else:
                file.create_dataset("x", data=data, **options)
    except ValueError as error:
        return f"refused: {error}"
    for i in range(len(data) if row.by_row else 0):
        with h5py.File(path, "r+") as file:
            file["x"].resize(i + 1, axis=0)
            file["x"][i] = data[i]

    with h5py.File(path) as file:
        dataset = file["x"]
        np.save(folder / "decoded.npy", dataset[...])
        codecs = set()
        for i in range(dataset.id.get_num_chunks()):
            place = dataset.id.get_chunk_info(i).chunk_offset
            mask, frame = dataset.id.read_direct_chunk(place)
            codecs.add(h5lossy.inspect(frame).codec if mask == 0 else "unfiltered")
        [(_, _, words, _)] = [dataset.id.get_create_plist().get_filter(0)]
        stored = h5lossy.from_filter_options(h5lossy.FILTER_ID, words)
    (folder / "codec.json").write_text(json.dumps(stored.get_config()))
    return "stored" if codecs == {"stored"} else "kept" if codecs == {"pfpl"} else f"{codecs}"


if __name__ == "__main__":
    for row_name, one in ROWS.items():
        for bound_kind in KINDS:
            (case := Path(sys.argv[1], row_name, bound_kind)).mkdir(parents=True)
            print(row_name, run_case(one, bound_kind, case), sep="\t", flush=True)
else:
    import pytest

    from checks import assert_kept, assert_same_bits
    from hdf5_helpers import run

    @pytest.fixture(scope="module")
    def matrix(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
        folder = tmp_path_factory.mktemp("matrix")
        return folder, run(sys.executable, __file__, folder).stdout.splitlines()

    @pytest.mark.parametrize("name", ROWS)
    def test_row_of_the_matrix(name: str, matrix: tuple[Path, list[str]]) -> None:
        row, (folder, lines) = ROWS[name], matrix
        ends = [line.partition("\t")[2] for line in lines if line.startswith(f"{name}\t")]

        for kind, end in zip(KINDS, ends, strict=True):
            assert end.partition(":")[0] == row.expected, end
            if row.expected == "refused":
                assert "h5lossy: only float32, float64 and integers" in end
                continue
            data, decoded = row.make(), np.load(folder / name / kind / "decoded.npy")
            if row.expected == "stored":
                assert_same_bits(decoded, data)
            fill = None if row.fill is None else data.dtype.type(row.fill)
            assert_kept(data, decoded, KINDS[kind], fill)
            # "Stored bound readable back": exactly what was asked for.
            stored = json.loads((folder / name / kind / "codec.json").read_text())
            assert stored == codec_for(row, kind).get_config()

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The package for JavaScript, in Node and in Chromium: its own tests."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import h5lossy

JS = Path(__file__).parents[1] / "js"


def times(extents: tuple[int, ...]) -> str:
    """Write extents as the viewer does."""
    return " × ".join(map(str, extents))


def number(value: float) -> str:
    """Write a number as the viewer does, as far as it is between 1 and 1000."""
    return f"{value:.7g}" if np.isfinite(value) else "NaN"


def shown(dataset: h5py.Dataset) -> dict[str, Any]:
    """Say what the viewer has to show of a dataset, by what h5py and `describe` say of it."""
    info = h5lossy.describe(dataset)
    shape = times(dataset.shape)
    facts = {"Type": dataset.dtype.name, "Shape": shape, "Compression": "none"}
    if info is not None:
        chunks = int(np.prod([-(-n // c) for n, c in zip(info.shape, info.chunks, strict=True)]))
        empty = chunks - info.chunks_stored
        bound = (
            "lossless"
            if info.bound.kind == "lossless"
            else f"{info.bound.kind} {info.bound.value:g}"
        )
        facts |= {
            "Shape": f"{shape}, in chunks of {times(info.chunks)}",
            "Compression": "h5lossy",
            "Codec": {"CuSZp2": "cuSZp2"}.get(name := type(info.config).__name__, name),
            "Bound": bound.replace("_", "-"),
            "Ratio": f"{info.ratio:.2f}",
            "Chunks": f"{chunks} of {chunks} read" + f", {empty} without a frame" * bool(empty),
        }
    about = [facts["Type"], shape] + ["h5lossy"] * (info is not None)
    result: dict[str, Any] = {"about": " · ".join(about), "facts": facts, "trouble": "^$"}
    if dataset.dtype.kind == "c":
        result["trouble"] = "^Not drawn: the values are no numbers$"
    elif dataset.ndim == 1:  # every other value
        last = (dataset.size - 1) // 2 * 2
        ends = [f"[{i}] {number(dataset[i])}" for i in (0, last)]
        result["line"] = {"pointed": ends}
    else:
        values = dataset[(-1,) * (dataset.ndim - 2)].astype("f8")
        values[values == dataset.attrs.get("_FillValue")] = np.nan
        ends = [
            f"[{i}, {j}] {number(values[i, j])}" for i, j in ((0, 0), np.array(values.shape) - 1)
        ]
        least, most, missing = np.nanmin(values), np.nanmax(values), np.isnan(values).sum()
        result["image"] = {
            "size": values.shape,
            "values": [None if np.isnan(value) else value for value in values.flat],
            "pointed": ends,
            "label": f"{number(least)} to {number(most)}, {missing} missing",
        }
    return result


@pytest.fixture(scope="module")
def viewed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with files for the viewer, and with what it has to show of one of them."""
    folder = tmp_path_factory.mktemp("viewed")
    y, x = np.mgrid[0:48, 0:64]
    t = (280 + 10 * np.sin(y / 9) * np.cos(x / 11)).astype("f4")
    t[3, 5] = np.nan
    marked = t.astype(">f8")
    marked[20:30, 10:40] = -999
    counts = (np.arange(1500) // 2 * 2).astype("u2")
    with h5py.File(folder / "viewed.h5", "w") as file:
        for name, values, chunks, codec in (
            ("plain", t, None, None),
            ("counts", counts, (400,), h5lossy.PFPL(lossless=True)),
            ("ocean/temperature", t, (24, 32), h5lossy.PFPL(absolute=1e-3)),
            (
                "ocean/deep/cube",
                np.stack([t, t + 1, t + 2]),
                (1, 48, 50),
                h5lossy.Interp(pointwise_relative=1e-3),
            ),
            ("ocean/marked", marked, (48, 64), h5lossy.AATROX(range_relative=1e-4)),
            ("ocean/waves", (t + 1j * t).astype("c8"), (24, 64), h5lossy.CuSZp2(absolute=0.01)),
        ):
            fill = -999 if name == "ocean/marked" else None
            file.create_dataset(name, data=values, chunks=chunks, compression=codec, fillvalue=fill)
        file["ocean/marked"].attrs["_FillValue"] = np.array([-999.0])
        file.create_dataset(
            "sparse", (96, 64), "f4", chunks=(48, 64), compression=h5lossy.PFPL(absolute=0.5)
        )
        file["sparse"][:48] = t
        paths: list[str] = []
        file.visit(
            lambda path: paths.append(path) if isinstance(file[path], h5py.Dataset) else None
        )
        expected = {f"/{path}": shown(file[path]) for path in paths}
    (folder / "viewed.json").write_text(json.dumps(expected), encoding="utf-8")

    with h5py.File(folder / "damaged.h5", "w") as file:
        dataset = file.create_dataset(
            "x", data=t, chunks=(24, 32), compression=h5lossy.PFPL(absolute=1e-3)
        )
        chunk = dataset.id.get_chunk_info(1)
        place = chunk.byte_offset + chunk.size - 1
    damaged = bytearray((folder / "damaged.h5").read_bytes())
    damaged[place] ^= 1
    (folder / "damaged.h5").write_bytes(damaged)
    (folder / "text.h5").write_text("not HDF5", encoding="utf-8")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(JS.glob("test/*.test.js")), ids=lambda path: path.stem)
def test_javascript(path: Path, viewed: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no Node here")
    for name in ("decoder.js", "plugin.js", "node_modules", "../build/pyodide"):
        if not (JS / name).exists():
            pytest.skip(f"there is no js/{name}; js/README.md says how all are made")
    ran = subprocess.run(
        [node, "--test", path],
        env={**os.environ, "H5LOSSY_VIEWED": str(viewed)},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr

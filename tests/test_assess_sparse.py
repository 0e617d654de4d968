# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Chunks that were never written are assessed as the fill value, and counted without reading."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import h5py
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given, settings

from h5lossy import InvalidArgumentError, assess
from h5lossy.assessment import _fields, _walk
from reports import assert_same

if TYPE_CHECKING:
    from pathlib import Path

SHAPES = {
    (60_000,): (512,),
    (1500, 40): (16, 8),
    (12, 5000): (12, 64),
    (90, 30, 36): (4, 10, 12),
    (5, 900, 40): (2, 16, 16),
    (40, 5, 6, 7): (2, 5, 3, 7),
}

#: Numbers that tell how values were read.
WHERE = re.compile(r"provenance|size|bound\.source|undefined\.size")


@pytest.fixture(autouse=True)
def sparse_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make datasets of any size count as sparse, and slabs as thin as possible."""
    monkeypatch.setattr(_fields, "_LARGE", 1)
    monkeypatch.setattr(_walk, "_BYTES_AT_ONCE", 1)
    monkeypatch.setattr(_walk, "_TIMES_KEPT", 0)


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(
    st.sampled_from(list(SHAPES)),
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 2.5, math.nan]),
    st.sampled_from([0.0, 2.5, 2.75]),
    st.booleans(),
    st.sampled_from([1, 2, 5]),
    st.booleans(),
)
@example((90, 30, 36), 0, 2.5, 2.75, True, 1, True)
@example((5, 900, 40), 0, 2.5, 2.75, True, 1, True)
@example((60_000,), 1, 0.0, 0.0, False, 2, False)
def test_what_was_never_written_counts_as_if_it_were_read(  # noqa: PLR0917
    shape: tuple[int, ...],
    seed: int,
    fill_x: float,
    fill_y: float,
    has_mask: bool,
    step: int,
    columns: bool,
) -> None:
    rng = np.random.default_rng(seed)
    chunks = SHAPES[shape]
    with (
        h5py.File("a.h5", "w", driver="core", backing_store=False) as file,
        pytest.MonkeyPatch.context() as patch,
    ):
        if columns:
            patch.setattr(_walk, "_OF_LIMIT", 1e-4)
        pair = [
            file.create_dataset(name, shape, "f4", chunks=chunks, fillvalue=fill, track_times=False)
            for name, fill in (("x", fill_x), ("y", fill_y))
        ]
        mask = file.create_dataset("m", shape, "u1", chunks=chunks) if has_mask else None
        for _ in range(rng.integers(0, 4)):
            at = tuple(slice(s, s + c) for s, c in zip(rng.integers(0, shape), chunks, strict=True))
            values = rng.normal(size=pair[0][at].shape)
            pair[0][at], pair[1][at] = values, values + rng.uniform(-0.1, 0.1, values.shape)
            if mask is not None and rng.random() < 0.5:
                mask[at] = 1
        options: dict[str, Any] = {
            "absolute": 0.2,
            "metrics": ["ssim", "derivatives", "autocorrelation", "per_chunk", "pointwise"],
            "ssim": {"step": step},
            "threshold_crossings": {"a": 2.6},
            "missing_value": [-7.0],
            "data_range": 3.0,
            "fill_value": None if seed % 2 else "auto",
        }
        sparse = assess(*pair, mask=mask, **options)
        patch.setattr(_fields, "_LARGE", 1 << 60)
        assert_same(sparse, assess(*pair, mask=mask, **options), WHERE, near=1e-11)


@pytest.mark.parametrize(
    ("shape", "chunked"),
    [((1 << 50,), True), ((3, 1 << 40), True), ((1 << 20, 1 << 24), False)],
    ids=str,
)
def test_time_is_taken_by_what_is_stored(
    tmp_path: Path, shape: tuple[int, ...], chunked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading all of these datasets would take years."""
    monkeypatch.undo()
    chunks = tuple(min(n, 1 << 16 // len(shape)) for n in shape) if chunked else None
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name in "xy":
            dataset = file.create_dataset(
                name, shape, "f4", chunks=chunks, maxshape=chunks and (None,) * len(shape)
            )
            if chunked:
                dataset[(slice(0, 9),) * len(shape)] = 1.5
                dataset[tuple(slice(n // 2, n // 2 + 9) for n in shape)] = 2.0
        report = assess(file["x"], file["y"], absolute=0.5, metrics="full", slices=True)
    assert report.ok
    assert report.points == report.valid == math.prod(shape)
    assert report.original.max == (2.0 if chunked else 0.0)
    assert report.derivatives.points == math.prod(n - 2 for n in shape)
    assert report.ssim is not None
    if chunked and min(shape) >= 7:
        assert report.ssim.windows == math.prod(n - 6 for n in shape)
    assert report.climate.dssim_mean is None


def test_many_axes_are_cut_where_one_plane_does_not_fit(tmp_path: Path) -> None:
    """Half of all values are 8 GiB of the first field, and 4 MiB of the second."""
    chunks = (1,) * 8 + (2,) * 12
    rng = np.random.default_rng(3)
    x = rng.normal(size=(2,) * 20).astype("f4")
    y = x + rng.normal(size=x.shape).astype("f4")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        never = [file.create_dataset(n, (2,) * 32, "f4", chunks=(1,) * 12 + chunks) for n in "ab"]
        assert assess(*never, absolute=1e-3).valid == 1 << 32
        pair = [file.create_dataset(n, data=v, chunks=chunks) for n, v in (("x", x), ("y", y))]
        in_parts = assess(*pair, memory_limit=1 << 20)
    assert_same(in_parts, assess(x, y), WHERE, near=1e-12)


def test_metrics_of_your_own_read_every_value(tmp_path: Path) -> None:
    class Own:
        name, halo = "own", 0

        def update(self, block: Any) -> None:
            raise AssertionError(block)

        def result(self) -> None:
            return None

    with h5py.File(tmp_path / "a.h5", "w") as file:
        x = file.create_dataset("x", (1 << 40,), "f4", chunks=(1024,), maxshape=(None,))
        with pytest.raises(InvalidArgumentError, match="most of 1099511627776 values"):
            assess(x, x, metrics=[Own()])

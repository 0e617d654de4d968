# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""What attributes say, as a number, of how far values are off: of all losses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

import h5lossy
from hdf5_helpers import h5lossy_command

if TYPE_CHECKING:
    from pathlib import Path

ABSOLUTE = "lossy_compression_maximum_absolute_error"
RELATIVE = "lossy_compression_maximum_relative_error"


def repack(source: Path, target: Path, *options: object) -> None:
    h5lossy_command("repack", source, target, *options)


def stated(path: Path) -> dict[str, float]:
    with h5py.File(path) as file:
        attributes = file["x"].attrs
        for name in {ABSOLUTE, RELATIVE} & {*attributes}:
            assert attributes.get_id(name).dtype == np.dtype("f8")
            assert attributes.get_id(name).shape == ()
        return {name: attributes[name] for name in (ABSOLUTE, RELATIVE) if name in attributes}


def values(path: Path) -> np.ndarray[Any, Any]:
    with h5py.File(path) as file:
        x = file["x"]
        return np.asarray(x[()] * x.attrs.get("scale_factor", 1.0), np.float64)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.random.default_rng(5).normal(50, 9, 5000).cumsum()
    return path


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (["--absolute 0.5"], {ABSOLUTE: 0.5}),
        (["--pointwise-relative 0.25"], {RELATIVE: 0.25}),
        (["--lossless"], {}),
        (["--absolute 0.5", "--lossless"], {ABSOLUTE: 0.5}),
        (["--absolute 0.5", "--absolute 0.5"], {ABSOLUTE: 0.5}),
        (["--absolute 0.5", "--absolute 0.5 --codec cuszp2"], {ABSOLUTE: 0.5}),
        (["--absolute 0.5", "--absolute 2"], {ABSOLUTE: 2.5}),
        (["--absolute 2", "--lossless", "--absolute 0.5"], {ABSOLUTE: 2.5}),
        (["--pointwise-relative 0.25", "--pointwise-relative 0.125"], {RELATIVE: 0.40625}),
        (["--absolute 0.5", "--pointwise-relative 0.25"], {}),
        (["--absolute 0.5", "--pointwise-relative 0.25", "--absolute 1"], {}),
        (["--absolute 0.5", "--absolute 2 --no-attributes"], {}),
        (["--absolute 0.5 --no-attributes", "--absolute 2"], {ABSOLUTE: 2.5}),
    ],
)
def test_the_number_is_that_of_all_losses(
    source: Path, tmp_path: Path, steps: list[str], expected: dict[str, float]
) -> None:
    original, path = values(source), source
    for i, options in enumerate(steps):
        repack(path, tmp_path / f"{i}.h5", *options.split())
        path = tmp_path / f"{i}.h5"
    assert stated(path) == expected
    error = np.abs(values(path) - original)
    assert all(error <= expected.get(ABSOLUTE, np.inf))
    assert all(error <= expected.get(RELATIVE, np.inf) * np.abs(original))


def test_a_range_is_resolved(source: Path, tmp_path: Path) -> None:
    repack(source, tmp_path / "b.h5", "--range-relative", 1e-4)
    with h5py.File(tmp_path / "b.h5") as file:
        assert stated(tmp_path / "b.h5") == {ABSOLUTE: h5lossy.describe(file["x"]).bound.value}


@pytest.mark.parametrize("dtype", ["i2", "f4"])
def test_the_number_is_of_the_values_that_packed_numbers_stand_for(
    tmp_path: Path, dtype: str
) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = (np.arange(5000) * 7 % 1000).astype(dtype)
        file["x"].attrs["scale_factor"] = -0.25
        file["x"].attrs["add_offset"] = 100.0
    repack(tmp_path / "a.h5", tmp_path / "b.h5", "--absolute", 3.3)
    bound = 3.25 if dtype == "i2" else 3.3 * 0.25  # packed floats have a bound of what is stored
    assert stated(tmp_path / "b.h5") == {ABSOLUTE: bound}
    assert np.abs(values(tmp_path / "b.h5") - values(tmp_path / "a.h5")).max() <= bound
    if dtype == "f4":
        repack(tmp_path / "a.h5", tmp_path / "c.h5", "--digits", 3)
        assert not stated(tmp_path / "c.h5")


def test_an_unknown_earlier_loss_has_no_number(source: Path, tmp_path: Path) -> None:
    with h5py.File(source, "r+") as file:
        file["x"].attrs["lossy_compression"] = "by another program"
        file["x"].attrs[RELATIVE] = 0.1
    repack(source, tmp_path / "b.h5", "--absolute", 0.5)
    assert not stated(tmp_path / "b.h5")


def test_verify_finds_a_number_that_promises_too_much(source: Path, tmp_path: Path) -> None:
    path = tmp_path / "b.h5"
    repack(source, path, "--absolute", 0.5)
    repack(path, tmp_path / "c.h5", "--absolute", 2)
    for file in (path, tmp_path / "c.h5"):
        with h5py.File(file) as opened:
            assert h5lossy.verify(opened["x"]).ok
    with h5py.File(path, "r+") as file:
        file["x"].attrs[ABSOLUTE] = 0.125
        found = h5lossy.verify(file["x"])
    assert not found.is_damaged
    assert [problem.why for problem in found.outdated] == [
        f"{ABSOLUTE} is 0.125, but the bound is 0.5"
    ]

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Write and read through h5py, and see for yourself that the bound holds.

    python 01_h5py.py [FOLDER]

Without FOLDER the file goes to a temporary one.
"""

import sys
import tempfile
from pathlib import Path

import h5py
import numpy as np

import h5lossy


def make_temperature() -> np.ndarray:
    """A week of hourly temperatures on a grid, with a hole where there is no sensor."""
    rng = np.random.default_rng(1)
    hour, y, x = np.ogrid[:168, :120, :160]
    t = 285 + 6 * np.sin(2 * np.pi * hour / 24) + 4 * np.cos(y / 25) * np.sin(x / 30)
    t += rng.normal(scale=0.05, size=t.shape)
    t[:, 40:60, 70:100] = np.nan
    return t.astype(np.float32)


def write_and_check(path: Path, t: np.ndarray) -> None:
    # The bound is the only setting: no value will be off by more than 0.01 K.
    codec = h5lossy.PFPL(absolute=0.01)
    with h5py.File(path, "w") as f:
        # The first axis may grow, for append_hours. Chunks of 100 KiB to a few MiB are fine.
        f.create_dataset(
            "t", data=t, chunks=(24, 60, 80), maxshape=(None, *t.shape[1:]), compression=codec
        )

    with h5py.File(path) as f:
        back = f["t"][...]
        stored = f["t"].id.get_storage_size()

    # The difference in float64: in float32 it would be rounded itself.
    error = np.nanmax(np.abs(back.astype(np.float64) - t.astype(np.float64)))
    assert error <= 0.01
    assert np.array_equal(np.isnan(back), np.isnan(t))
    print(f"{codec}: ratio {t.nbytes / stored:.1f}, largest error {error:.9f}, every NaN in place")


def show_what_the_file_says(path: Path) -> None:
    with h5py.File(path) as f:
        info = h5lossy.describe(f["t"])
    print(f"the file says: {info.codec}, {info.bound}, {info.chunks_stored} chunks")
    assert info.config == h5lossy.PFPL(absolute=0.01)


def append_hours(path: Path) -> None:
    """Appending decodes chunks that are half full, and encodes them again; nothing drifts."""
    with h5py.File(path, "r+") as f:
        t = f["t"]
        before = t[...]
        for hour in range(5):
            t.resize(t.shape[0] + 1, axis=0)
            t[-1] = 285 + hour
        after = t[: before.shape[0]]
    assert np.array_equal(before, after, equal_nan=True)
    print("five hours appended, and not a bit of the others has changed")


def choose_a_fraction_of_the_range(path: Path, t: np.ndarray) -> None:
    # A filter sees one chunk at a time. `resolve` looks at all of the data.
    codec = h5lossy.PFPL(range_relative=1e-4).resolve(t)
    with h5py.File(path, "r+") as f:
        f.create_dataset("fine", data=t, chunks=(24, 60, 80), compression=codec)
        summary = h5lossy.largest_error(t, f["fine"], codec.bound)
    assert summary.holds
    print(f"1e-4 of the range is {codec}; largest error {summary.fraction:.4f} of that")


def main(folder: Path) -> None:
    path = folder / "temperature.h5"
    t = make_temperature()
    write_and_check(path, t)
    show_what_the_file_says(path)
    append_hours(path)
    choose_a_fraction_of_the_range(path, t)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))

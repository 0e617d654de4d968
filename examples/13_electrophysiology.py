# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Write the int16 samples of an extracellular recording second by second, and look for its spikes.

    python 13_electrophysiology.py [FOLDER]

Without FOLDER the file goes to a temporary one.
"""

import sys
import tempfile
from pathlib import Path

import h5py
import numpy as np

import h5lossy

SECONDS, RATE, CHANNELS = 3, 30_000, 16
MICROVOLTS = 0.195  # of a count
NOISE = 40  # counts
BOUND = NOISE // 8


def second(number: int) -> np.ndarray:
    """Return the samples of one second: slow waves that channels share, spikes, and noise."""
    rng = np.random.default_rng(number)
    time = np.arange(RATE) / RATE
    counts = 300 * np.sin(2 * np.pi * (8 * time[:, None] + np.arange(CHANNELS) / 40))
    counts += rng.normal(0, NOISE, (RATE, CHANNELS))
    shape = -np.diff(np.exp(-((np.arange(31) - 12) ** 2) / 20)) * 2000
    for start in rng.integers(0, RATE - 30, 60):
        near = np.exp(-np.abs(np.arange(CHANNELS) - rng.integers(CHANNELS)))
        counts[start : start + 30] += shape[:, None] * near
    return counts.round().astype(np.int16)


def spikes(samples: np.ndarray) -> np.ndarray:
    """Return where channels fall below five times their noise, once slow waves are taken off."""
    sums = samples.cumsum(axis=0, dtype=float)
    quick = samples[100:-100] - (sums[200:] - sums[:-200]) / 200
    below = quick < -5 * np.median(np.abs(quick), axis=0) / 0.6745
    return np.argwhere(below[1:] & ~below[:-1])


def main(folder: Path) -> None:
    path = folder / "recording.h5"
    with h5py.File(path, "w") as file:
        raw = file.create_dataset(
            "raw",
            (0, CHANNELS),
            np.int16,
            chunks=(RATE, CHANNELS),
            maxshape=(None, CHANNELS),
            compression=h5lossy.PFPL(absolute=BOUND),
        )
        raw.attrs["microvolts_per_count"] = MICROVOLTS
        for number in range(SECONDS):
            raw.resize((number + 1) * RATE, axis=0)
            h5lossy.write(raw, second(number), np.s_[number * RATE :], verify=True)
    original = np.concatenate([second(number) for number in range(SECONDS)])
    with h5py.File(path) as file:
        raw = file["raw"]
        assert h5lossy.verify(raw).ok
        back, info = h5lossy.read(raw), h5lossy.describe(raw)
    error = np.abs(back.astype(int) - original).max()
    assert error <= BOUND
    found, wanted = ({tuple(place) for place in spikes(x).tolist()} for x in (back, original))
    print(
        f"ratio {info.ratio:.2f}, largest error {error} counts ({error * MICROVOLTS:.2f} µV); of "
        f"{len(wanted)} crossings of the threshold {len(wanted & found)} are where they were"
    )
    assert len(wanted & found) > 0.8 * len(wanted)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))

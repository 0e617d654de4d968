# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Write a microscope's volume slice by slice, with the cells found in it as labels.

    python 14_microscope.py [FOLDER]

Without FOLDER the file goes to a temporary one.
"""

import sys
import tempfile
from pathlib import Path

import h5py
import numpy as np

import h5lossy

SHAPE = 12, 256, 256
CHUNKS = 4, 256, 256
GAIN = 2.0  # counts for an electron
BLACK, SATURATED = 100, 4095  # what the camera adds to each pixel, and its largest number


def cells() -> np.ndarray:
    """Return a number for each pixel: that of its cell, or 0."""
    rng = np.random.default_rng(1)
    z, y, x = np.indices(SHAPE)
    labels = np.zeros(SHAPE, np.uint16)
    for number in range(1, 60):
        at, radius = rng.random(3) * SHAPE, rng.uniform(8, 16)
        distance = (4 * (z - at[0])) ** 2 + (y - at[1]) ** 2 + (x - at[2]) ** 2
        labels[distance < radius**2] = number
    return labels


def photographed(labels: np.ndarray) -> np.ndarray:
    """Return what a camera of 12 bits makes of them: noise grows with the root of the signal."""
    rng = np.random.default_rng(2)
    brightness = np.append(20, rng.uniform(100, 2020, 60))[labels]
    counts = GAIN * rng.poisson(brightness)
    return counts.clip(0, SATURATED - BLACK).astype(np.uint16)


def main(folder: Path) -> None:
    labels = cells()
    counts = photographed(labels)
    path = folder / "volume.h5"
    with h5py.File(path, "w") as file:
        # Half a standard deviation of the noise. Saturated pixels stay what they are.
        codec = h5lossy.Interp(noise=0.5 * GAIN**0.5, exact=SATURATED - BLACK)
        volume = file.create_dataset("volume", SHAPE, "u2", chunks=CHUNKS, compression=codec)
        volume.attrs["black_level"] = BLACK  # was taken off: the noise bound is that of the signal
        for first in range(0, SHAPE[0], CHUNKS[0]):
            part = np.s_[first : first + CHUNKS[0]]
            h5lossy.write(volume, counts[part], part, verify=True)
        codec = h5lossy.Interp(lossless=True)
        kept = file.create_dataset("labels", SHAPE, "u2", chunks=CHUNKS, compression=codec)
        h5lossy.write(kept, labels)
    with h5py.File(path) as file:
        assert h5lossy.verify(file["volume"]).ok
        back = h5lossy.read(file["volume"]).astype(int)
        assert (h5lossy.read(file["labels"]) == labels).all()
        ratios = [h5lossy.describe(file[name]).ratio for name in ("volume", "labels")]
    saturated = counts == SATURATED - BLACK
    assert ((back == SATURATED - BLACK) == saturated).all()
    error = np.abs(back - counts)
    means = [np.bincount(labels.ravel(), x.ravel()) for x in (counts, back)]
    change = np.abs(means[1] / means[0] - 1).max()
    print(
        f"ratio {ratios[0]:.2f}, of labels {ratios[1]:.0f}; largest error {error.max()} counts; "
        f"no cell is brighter or darker by more than {change:.2%}; {saturated.sum()} saturated "
        "pixels are what they were"
    )
    assert (error <= 0.5 * np.sqrt(GAIN * counts)).all()
    assert change < 0.01


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))

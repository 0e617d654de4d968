# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Compress the complex samples of an MRI scan, and look at the image that they make.

    python 12_kspace.py [FOLDER]

Without FOLDER the file goes to a temporary one.
"""

import sys
import tempfile
from pathlib import Path

import h5py
import numpy as np

import h5lossy

COILS, SIZE = 4, 256
NOISE = 0.05  # of a component of a sample


def phantom() -> np.ndarray:
    """Return the image: ellipses of several intensities."""
    y, x = np.mgrid[-1 : 1 : SIZE * 1j, -1 : 1 : SIZE * 1j]
    image = np.zeros((SIZE, SIZE))
    for value, height, width, y0, x0 in (
        (1.0, 0.9, 0.7, 0, 0),
        (-0.6, 0.8, 0.6, 0, 0),
        (0.3, 0.25, 0.15, -0.1, 0.25),
        (0.4, 0.1, 0.1, 0.4, -0.1),
    ):
        image[((y - y0) / height) ** 2 + ((x - x0) / width) ** 2 < 1] += value
    return image


def samples(image: np.ndarray) -> np.ndarray:
    """Return what each coil measures: the transform of what it sees, with noise."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[-1 : 1 : SIZE * 1j, -1 : 1 : SIZE * 1j]
    seen = [
        image * np.exp(-((y - np.cos(a)) ** 2 + (x - np.sin(a)) ** 2) / 2 + 1j * a)
        for a in np.arange(COILS) * 2 * np.pi / COILS
    ]
    k = np.fft.fftshift(np.fft.fft2(seen, norm="ortho"), axes=(1, 2))
    noise = rng.normal(0, NOISE, (2, *k.shape))
    return (k + noise[0] + 1j * noise[1]).astype(np.complex64)


def image_of(k: np.ndarray) -> np.ndarray:
    """Return the image: the root of the sum of squares of all coils."""
    coils = np.fft.ifft2(np.fft.ifftshift(k, axes=(1, 2)), norm="ortho")
    return np.sqrt((np.abs(coils) ** 2).sum(axis=0))


def main(folder: Path) -> None:
    k = samples(phantom())
    bound = NOISE / 2  # of the modulus of an error
    path = folder / "kspace.h5"
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset(
            "kspace",
            k.shape,
            k.dtype,
            chunks=(1, SIZE, SIZE),
            compression=h5lossy.Interp(modulus=bound),
        )
        h5lossy.write(dataset, k, verify=True)
    with h5py.File(path) as file:
        dataset = file["kspace"]
        back = h5lossy.read(dataset)
        ratio = h5lossy.describe(dataset).ratio
        assert h5lossy.verify(dataset).ok
    report = h5lossy.assess(k, back, modulus=bound)
    assert report.ok
    change = image_of(back) - image_of(k)
    print(f"ratio {ratio:.1f}, largest error {report.error.max_modulus:.4f} of {bound}")
    print(f"the image changed by {change.std():.4f}, and has a noise of about {NOISE}")
    assert change.std() < NOISE / 2


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))

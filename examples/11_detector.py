# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Write the frames of a photon-counting detector as NeXus has them: uint16, with gaps and a mask.

    python 11_detector.py [FOLDER]

Without FOLDER the files go to a temporary one.
"""

import sys
import tempfile
from pathlib import Path

import h5py
import numpy as np

import h5lossy

FRAMES, SHAPE = 6, (514, 515)
BAD = 65535  # what the detector writes where there is no pixel, or a dead one
BOUND = 2  # counts


def pixel_mask() -> np.ndarray:
    """Return the mask as NXdetector defines it: bit 0 for gaps, and bit 1 for dead pixels."""
    mask = np.zeros(SHAPE, np.uint32)
    mask[251:263] = mask[:, 254:261] = 1
    mask.ravel()[:: SHAPE[1] * 7 + 11] |= 2
    return mask


def frame(number: int, mask: np.ndarray) -> np.ndarray:
    """Return one frame: rings on a background that falls off, and the noise of counting."""
    y, x = np.mgrid[: SHAPE[0], : SHAPE[1]]
    radius = np.hypot(y - 256, x - 250 - number)
    expected = 60 * np.exp(-radius / 150) + 900 * np.exp(-(((radius % 60 - 30) / 1.5) ** 2))
    counts = np.random.default_rng(number).poisson(expected).astype(np.uint16)
    counts[mask != 0] = BAD
    return counts


def write(path: Path, codec: h5lossy.PFPL, mask: np.ndarray) -> None:
    """Write the frames one by one, each checked before it is in the file."""
    with h5py.File(path, "w") as file:
        for name, kind in (("entry", "NXentry"), ("entry/detector", "NXdetector")):
            file.create_group(name).attrs["NX_class"] = kind
        detector = file["entry/detector"]
        # Masks, like indices and labels, are kept exactly.
        detector.create_dataset(
            "pixel_mask", data=mask, chunks=SHAPE, compression=h5lossy.PFPL(lossless=True)
        )
        data = detector.create_dataset(
            "data",
            (0, *SHAPE),
            np.uint16,
            chunks=(1, *SHAPE),
            maxshape=(None, *SHAPE),
            fillvalue=BAD,  # comes back as it is, and no count becomes it
            compression=codec,
        )
        for number in range(FRAMES):
            data.resize(number + 1, axis=0)
            h5lossy.write(data, frame(number, mask)[None], np.s_[number : number + 1], verify=True)
        file["entry/data"] = data


def main(folder: Path) -> None:
    mask = pixel_mask()
    original = np.stack([frame(number, mask) for number in range(FRAMES)]).astype(int)
    good = original != BAD
    for codec, name in (
        (h5lossy.PFPL(lossless=True), "exact.nxs"),
        (h5lossy.PFPL(absolute=BOUND), "detector.nxs"),
    ):
        write(folder / name, codec, mask)
        with h5py.File(folder / name) as file:
            data = file["entry/data"]
            info = h5lossy.describe(data)
            back = h5lossy.read(data).astype(int)
            assert h5lossy.verify(data).ok  # what was checked when it was written
            assert np.array_equal(file["entry/detector/pixel_mask"], mask)
        error = np.abs(back - original)
        assert np.array_equal(back == BAD, ~good)
        assert error.max() <= (codec.absolute or 0)
        # Counts of up to BOUND become 0: frames with hardly a photon a pixel need lossless.
        change = (back[good].sum() - original[good].sum()) / original[good].sum()
        print(
            f"{codec}: ratio {info.ratio:.2f}, largest error {error.max()} counts, "
            f"the sum of all counts changed by {change:+.1e}"
        )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))

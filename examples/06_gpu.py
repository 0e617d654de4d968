# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Write an array that is on a GPU, and read it back to there; the values never leave the GPU.

    python 06_gpu.py [FOLDER]

It takes a CUDA GPU and CuPy. Without FOLDER the file goes to a temporary one.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import h5py

import h5lossy

try:
    import cupy
except ImportError:
    cupy = None


def what_is_missing() -> str:
    """The reason why this cannot run here; empty if it can."""
    if cupy is None:
        return "CuPy is not installed here: pip install h5lossy[cuda13], or [cuda12]"
    try:
        cupy.cuda.Device(0).use()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"there is no GPU here ({error}); h5lossy doctor says more"
    return ""


def pressure() -> Any:
    """A smooth field on the GPU."""
    z, y, x = cupy.meshgrid(
        cupy.linspace(0, 3, 64), cupy.linspace(0, 2, 128), cupy.linspace(0, 4, 130), indexing="ij"
    )
    return (1e5 + 200 * cupy.sin(3 * x + z) * cupy.cos(5 * y)).astype("f4")


def write_and_read(path: Path, p: Any) -> None:
    """Chunks are encoded and decoded on the GPU, and only their frames are copied."""
    with h5py.File(path, "w") as f:
        dataset = f.create_dataset(
            "p", p.shape, p.dtype, chunks=(16, 64, 130), compression=h5lossy.CuSZp2(absolute=0.01)
        )
        h5lossy.write(dataset, p)
    with h5py.File(path) as f:
        decoded = h5lossy.read(f["p"], out="cupy")
        part = h5lossy.read(f["p"], (slice(10, 20), 7), out="cupy")
        ratio = p.nbytes / f["p"].id.get_storage_size()
    assert bool((part == decoded[10:20, 7]).all())
    largest = float(abs(decoded.astype("f8") - p).max())
    print(f"largest error {largest:.6f}, of 0.01 allowed; {ratio:.1f} times smaller")
    assert largest <= 0.01


def encode_and_decode(p: Any) -> None:
    """A frame is an array of bytes on the GPU, the same bytes that the CPU makes."""
    codec = h5lossy.CuSZp2(absolute=0.01)
    frame = h5lossy.encode(p, codec)
    assert frame.get().tobytes() == h5lossy.encode(p.get(), codec)
    assert h5lossy.decode(frame, 5000, 5010).shape == (10,)
    print(f"a frame of {frame.nbytes} bytes on the GPU, the same as the CPU's")


def main(folder: Path) -> None:
    p = pressure()
    write_and_read(folder / "pressure.h5", p)
    encode_and_decode(p)


if __name__ == "__main__":
    if missing := what_is_missing():
        print(missing)
    elif len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))

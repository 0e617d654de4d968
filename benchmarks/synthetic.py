# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Generated fields: of any size, and the same on every run."""

from __future__ import annotations

from typing import Any

import cupy


def grf(shape: tuple[int, ...], slope: float = 5 / 3, *, seed: int = 0) -> Any:
    """Make a periodic Gaussian random field of float32 on the GPU.

    The energy of waves of length 1/k is E(k) ~ k^-slope, summed over all directions and in any
    number of dimensions: 5/3 is turbulence. k counts waves per longest axis; below 1 the spectrum
    is flat. Mean 0, standard deviation 1.
    """
    longest, rank = max(shape), len(shape)
    axes = [cupy.fft.fftfreq(extent) for extent in shape[:-1]] + [cupy.fft.rfftfreq(shape[-1])]
    squares: Any = 0
    for i, axis in enumerate(axes):
        squares = squares + ((axis * longest) ** 2).reshape((-1,) + (1,) * (rank - 1 - i))
    amplitude = (squares + 1) ** (-(slope + rank - 1) / 4)
    amplitude[(0,) * rank] = 0
    rng = cupy.random.default_rng(seed)
    spectrum = rng.standard_normal(squares.shape) + 1j * rng.standard_normal(squares.shape)
    spectrum *= amplitude
    field = cupy.fft.irfftn(spectrum, s=shape)
    field = ((field - field.mean()) / field.std()).astype(cupy.float32)
    del spectrum, squares, amplitude
    cupy.get_default_memory_pool().free_all_blocks()
    return field

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Broken frames on a GPU raise what they raise on the host, and never harm the GPU."""

from __future__ import annotations

import numpy as np
import pytest

import gpu_data as data
import h5lossy
from matrix import SETTINGS


@pytest.mark.parametrize("kind", ["rough", "special", "random_bits"])
@pytest.mark.parametrize("setting", SETTINGS)
def test_damage(setting: str, kind: str) -> None:
    cupy = pytest.importorskip("cupy")
    rng = np.random.default_rng(5)
    codec = SETTINGS[setting](absolute=1e-3, checksum=False)
    values = data.make(kind, (20, 30, 40), "f4")
    frame = h5lossy.encode(values, codec)
    for i in range(60):
        broken = np.frombuffer(frame, np.uint8).copy()
        first = 0 if i % 3 == 0 else h5lossy.inspect(frame).header_bytes
        for _ in range(1 + i % 3):
            broken[rng.integers(first, len(broken))] ^= np.uint8(1 << rng.integers(8))
        if i % 5 == 4:
            broken = broken[: rng.integers(len(broken))]
        on_gpu = cupy.asarray(broken)
        try:
            expected = h5lossy.decode(broken.tobytes())
        except h5lossy.H5LossyError as error:
            with pytest.raises(type(error)):
                h5lossy.decode(on_gpu)
        else:
            assert h5lossy.decode(on_gpu).get().tobytes() == expected.tobytes()
    assert h5lossy.decode(cupy.asarray(np.frombuffer(frame, np.uint8))).get().tobytes() == (
        h5lossy.decode(frame).tobytes()
    )

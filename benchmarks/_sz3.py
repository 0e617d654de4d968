# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""
SZ3 in memory, by PyPI's pysz: newer versions than that of hdf5plugin, which have no HDF5 filter.

The output of a wheel shows which SZ3 it contains: pysz 1.1.0 has SZ3 3.4.0, pysz 1.0.3 has SZ3
3.3.2. Results are named by the version, so those of one version stay when another is measured:

    pip install --no-deps --target old pysz==1.0.3
    PYTHONPATH=old python benchmarks/rate_distortion.py --only 'SZ3 3.3.2 interp'
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _common import Stored, chunk_by_chunk

try:
    import pysz
except ImportError:
    pysz = None

VERSION_AT = slice(4, 8)
"""Offset of the version in a stream: its parts by decreasing weight, the last byte first."""


def config(bound: float, algorithm: str) -> Any:
    """Make the settings of an absolute bound."""
    settings = pysz.szConfig()
    settings.errorBoundMode = pysz.szErrorBoundMode.ABS
    settings.absErrorBound = bound
    settings.cmprAlgo = getattr(pysz.szAlgorithm, algorithm)
    return settings


def encode(part: np.ndarray, settings: Any) -> np.ndarray:
    """Encode an array of up to four axes."""
    return pysz.sz.compress(part, settings)[0]


def decode(frame: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Decode to an array like another."""
    return pysz.sz.decompress(frame, like.dtype, like.shape)[0]


def version() -> str:
    """Determine the SZ3 version of the wheel from its output."""
    frame = encode(np.zeros((64, 64), np.float32), config(1.0, "INTERP_LORENZO"))
    *_, patch, minor, major = frame[VERSION_AT].tolist()
    return f"{major}.{minor}.{patch}"


VERSION = None if pysz is None else version()
ALGORITHMS = (
    {}
    if pysz is None
    else {
        f"SZ3 {VERSION} interp": "INTERP_LORENZO",
        f"SZ3 {VERSION} Lorenzo": "LORENZO_REG",
    }
)
"""What SZ3 calls its two predictors, of which the first is its default."""


def store(
    values: np.ndarray, chunks: tuple[int, ...], bound: float, name: str, *, padding: float = 0
) -> Stored:
    """
    Encode and decode chunk by chunk in memory, without a container.

    Edge chunks are padded, as HDF5 pads them.
    """
    missing = [(0, -n % c) for n, c in zip(values.shape, chunks, strict=True)]
    padded = np.pad(values, missing, constant_values=padding)
    settings = config(bound, ALGORITHMS[name])
    stored = chunk_by_chunk(padded, chunks, lambda part: encode(part, settings), decode)
    return stored._replace(values=stored.values[tuple(map(slice, values.shape))])

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""h5lossy for Zarr, kerchunk and VirtualiZarr; needs ``pip install 'h5lossy[zarr]'``.

`Serializer` is for Zarr format 3, `Compressor` for format 2. Both store a chunk as the same frame
as the filter in HDF5, with the same promises for the bound, NaN, infinities and the fill value.

Zarr and numcodecs find these codecs by themselves if h5lossy is installed: reading needs no import.

>>> import numpy as np, zarr
>>> from h5lossy import PFPL
>>> from h5lossy.zarr import Serializer
>>> a = zarr.create_array(
...     {}, shape=(100, 100), chunks=(50, 50), dtype="f4",
...     serializer=Serializer(PFPL(absolute=1e-3)), compressors=None,
... )
>>> a[...] = np.linspace(270, 310, 10_000).reshape(100, 100)
"""

from __future__ import annotations

import re

try:
    import numcodecs
    import zarr
    import zarr.registry
except ImportError as error:
    raise ImportError(f"h5lossy.zarr needs zarr ({error}): pip install 'h5lossy[zarr]'") from error

# Before 3.1.6, Zarr assembled some selections wrongly if a codec reads parts of chunks.
if tuple(map(int, re.findall(r"\d+", zarr.__version__)[:3])) < (3, 1, 6):
    raise ImportError(
        f"h5lossy.zarr needs zarr 3.1.6 or later, and this is {zarr.__version__}: "
        "pip install 'h5lossy[zarr]'"
    )

from h5lossy.zarr.compressor import Compressor, codec_from_filter
from h5lossy.zarr.readers import register_kerchunk, register_virtualizarr
from h5lossy.zarr.serializer import FrameReader, Serializer

__all__ = [
    "Compressor",
    "FrameReader",
    "Serializer",
    "codec_from_filter",
    "register_kerchunk",
    "register_virtualizarr",
]

# For source trees, which have no entry points.
numcodecs.register_codec(Compressor)
zarr.registry.register_codec(Serializer.codec_name, Serializer)
zarr.registry.register_codec(FrameReader.codec_name, FrameReader)

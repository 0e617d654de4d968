# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Dimension scales of HDF5.

HDF5's own functions for them (1.10 to 2.0) read the attributes CLASS, DIMENSION_LIST and
DIMENSION_LABELS into room for the values that these should have, and take the values for pointers.
Attributes of these names with another type or shape crash the process.
"""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np
from h5py import h5a, h5ds, h5t

from h5lossy._variables import attribute_of

#: Size of the only text that CLASS has in a scale, with its NUL.
_CLASS_BYTES = 16


def is_scale(dataset: h5py.Dataset) -> bool:
    """Return whether a dataset is a dimension scale."""
    if not h5a.exists(dataset.id, b"CLASS"):
        return False
    attribute = h5a.open(dataset.id, b"CLASS")
    type_id = attribute.get_type()
    is_text = type_id.get_class() == h5t.STRING and type_id.get_size() == _CLASS_BYTES
    # Else HDF5 reads more than it has room for, or nothing.
    is_one = attribute.get_space().get_simple_extent_npoints() == 1
    return is_text and is_one and bool(h5ds.is_scale(dataset.id))


def labels_of(dataset: h5py.Dataset) -> list[str]:
    """Return the label of each axis; empty texts for axes without."""
    texts = _one_per_axis(dataset, "DIMENSION_LABELS")
    return [
        text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text or "")
        for text in texts
    ]


def scales_of(dataset: h5py.Dataset) -> list[h5py.Dataset | None]:
    """Return the first scale of each axis; None for axes without."""
    lists = _one_per_axis(dataset, "DIMENSION_LIST")
    return [dataset.file[one[0]] if np.ndim(one) == 1 and len(one) else None for one in lists]


def _one_per_axis(dataset: h5py.Dataset, name: str) -> list[Any]:
    """Return the values of an attribute that should have one for each axis; else None for each."""
    values = attribute_of(dataset, name)
    is_fit = isinstance(values, np.ndarray) and values.shape == (dataset.ndim,)
    return list(values) if is_fit else [None] * dataset.ndim

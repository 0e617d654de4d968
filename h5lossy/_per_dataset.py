# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Facts about a dataset that are found out once, since HDF5 never changes them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Callable

    import h5py

Found = TypeVar("Found")


def once_per_dataset(find: Callable[[h5py.Dataset], Found]) -> Callable[[h5py.Dataset], Found]:
    """Call a function once for each open dataset; its result must not refer to the dataset."""
    known: WeakKeyDictionary[h5py.h5d.DatasetID, Found] = WeakKeyDictionary()

    @functools.wraps(find)
    def call(dataset: h5py.Dataset) -> Found:
        identifier = dataset.id
        try:
            return known[identifier]
        except KeyError:
            found = known[identifier] = find(dataset)
            return found

    return call

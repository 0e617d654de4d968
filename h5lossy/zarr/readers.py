# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""HDF5 files through kerchunk and VirtualiZarr, which have fixed lists of filters."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from h5lossy._codecs import FILTER_ID
from h5lossy._errors import UnsupportedError
from h5lossy.zarr.compressor import codec_from_filter

if TYPE_CHECKING:
    from collections.abc import Callable


def register_kerchunk() -> None:
    """Have kerchunk translate HDF5 datasets that are compressed with h5lossy.

    Call it once in a process that makes references, before ``SingleHdf5ToZarr``. The references can
    then be read wherever h5lossy is installed, without this function.

    kerchunk has no way to register filters: this replaces a private method, which still handles all
    other filters. A version without that method raises `UnsupportedError`.
    """
    from kerchunk.hdf import SingleHdf5ToZarr  # noqa: PLC0415

    def taught(original: Callable[..., list[Any]], translator: Any, dataset: Any) -> list[Any]:
        filters = getattr(dataset, "_filters", {})
        names = list(filters)
        if str(FILTER_ID) not in names:
            return original(translator, dataset)
        place = names.index(str(FILTER_ID))
        before, after = (
            original(translator, _WithFilters(dataset, {name: filters[name] for name in some}))
            for some in (names[:place], names[place + 1 :])
        )
        return [*before, codec_from_filter(FILTER_ID, filters[str(FILTER_ID)]), *after]

    _replace(SingleHdf5ToZarr, "_decode_filters", taught)


def register_virtualizarr() -> None:
    """Have VirtualiZarr's parser for HDF5 take datasets that are compressed with h5lossy.

    Call it once in a process that opens virtual datasets, before ``open_virtual_dataset`` with
    ``HDFParser``. All else is as with `register_kerchunk`.
    """
    from virtualizarr.parsers.hdf import filters  # noqa: PLC0415

    def taught(original: Callable[..., Any], filter_id: str, properties: Any = None) -> Any:
        if str(filter_id) == str(FILTER_ID):
            return codec_from_filter(FILTER_ID, properties)
        return original(filter_id, properties)

    _replace(filters, "_filter_to_codec", taught)


class _WithFilters:
    """A dataset of h5py, as if it had only some of its filters."""

    def __init__(self, dataset: Any, filters: dict[str, Any]) -> None:
        self._dataset = dataset
        self._filters = filters

    @property
    def shuffle(self) -> bool:
        """Whether these filters include shuffle."""
        return "shuffle" in self._filters

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dataset, name)


def _replace(owner: Any, name: str, taught: Callable[..., Any]) -> None:
    """Replace a function by another one, which is called with the original; only once."""
    original = getattr(owner, name, None)
    if original is None:
        raise UnsupportedError(
            f"h5lossy does not know how to teach this version of {owner.__name__}: it has no "
            f"{name}; see contrib/ in h5lossy's source for what has to change there"
        )
    if getattr(original, "taught_by_h5lossy", False):
        return

    @functools.wraps(original)
    def replacement(*arguments: Any) -> Any:
        return taught(original, *arguments)

    replacement.taught_by_h5lossy = True  # type: ignore[attr-defined]
    setattr(owner, name, replacement)

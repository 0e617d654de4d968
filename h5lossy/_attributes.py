# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Reading attributes, which may be of types that NumPy does not have, and writing text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from h5lossy._errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable


def attribute_of(data: Any, name: str) -> Any:
    """Return an attribute of a dataset or variable of any library; None if there is none."""
    try:
        if hasattr(data, "ncattrs"):  # netCDF4
            return data.getncattr(name) if name in data.ncattrs() else None
        attributes = getattr(data, "attrs", None)
        get: Callable[[str], Any] | None = getattr(attributes, "get", None)
        return None if get is None else get(name)
    # HDF5 has types that NumPy does not have, such as times.
    except (OSError, RuntimeError, TypeError, ValueError) as error:
        raise UnsupportedError(f"attribute {name} can't be read: {error}") from error


def text_attribute(data: Any, name: str) -> str | None:
    """Return an attribute that is text, by whatever type of string; None if it is none."""
    content = attribute_of(data, name)
    if isinstance(content, np.ndarray) and content.size == 1:
        content = content.item()
    if isinstance(content, bytes):
        content = content.decode("utf-8", "replace")
    return content if isinstance(content, str) else None

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""libh5lossy for Python: its C API as typed functions, and its statuses as exceptions.

The functions release the GIL while C code runs, and keep no state between calls, so all of them are
thread-safe.
"""

# ruff: noqa: F403  # all that these modules define is for the rest of the package

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from h5lossy._native.chunks import *
from h5lossy._native.device import *
from h5lossy._native.frames import *
from h5lossy._native.library import FRAME_ERRORS as FRAME_ERRORS
from h5lossy._native.library import LIBRARY_PATH as LIBRARY_PATH

if TYPE_CHECKING:
    from h5lossy._native.assess import *
else:

    def __getattr__(name: str) -> Any:
        """Return what `h5lossy._native.assess` defines, which is loaded when it is used."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(importlib.import_module("h5lossy._native.assess"), name)

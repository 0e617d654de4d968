# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""What cffi has to know of C functions and structs: modules made by the build.

They spare each import the parsing of the headers (``native/make_declarations.py``): "library" is
``h5lossy.h``, ``h5lossy_device.h`` and ``h5lossy_chunks.h``, "assess" ``h5lossy_assess.h``, and
"process" some functions that every process has.
"""

from __future__ import annotations

import importlib
from typing import Any


def ffi_of(name: str) -> Any:
    """Return cffi's FFI with the declarations of a module."""
    try:
        return importlib.import_module(f"{__name__}.{name}").ffi
    except ModuleNotFoundError as error:
        raise ImportError(
            f"h5lossy is not installed completely: {error}. Install it with: pip install ."
        ) from error

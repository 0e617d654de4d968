# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Show the signatures of codecs as callers write them."""

from __future__ import annotations

from typing import Any

import griffe


class CodecSignatures(griffe.Extension):
    """Show the type in an InitVar."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Change the codecs, once their ``__init__`` is there."""
        for codec in pkg["_codecs"].classes.values():
            initializer = codec.members.get("__init__")
            if not isinstance(initializer, griffe.Function):
                continue
            for parameter in initializer.parameters:
                annotation = parameter.annotation
                if (
                    isinstance(annotation, griffe.ExprSubscript)
                    and str(annotation.left) == "InitVar"
                ):
                    parameter.annotation = annotation.slice

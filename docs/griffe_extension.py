# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Show the signatures of codecs as callers write them, and comments of fields."""

from __future__ import annotations

import ast
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


class FieldComments(griffe.Extension):
    """Show what ``shown(...)`` and ``#:`` say of a field, behind it or in the lines above it."""

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """Make the comment of an attribute without a docstring its docstring, and its meaning."""
        if attr.docstring is not None or attr.lineno is None or attr.endlineno is None:
            return
        meaning = ""
        if isinstance(attr.value, griffe.ExprCall) and str(attr.value.function) == "shown":
            texts = [ast.literal_eval(one) for one in attr.value.arguments if isinstance(one, str)]
            meaning, attr.value = (*texts, "")[2], None
        lines = attr.lines_collection[attr.filepath]
        comment = [lines[attr.endlineno - 1].partition("  #: ")[2]]
        for line in reversed(lines[: attr.lineno - 1]):
            if not line.lstrip().startswith("#: "):
                break
            comment.insert(0, line.lstrip().removeprefix("#: "))
        if said := " ".join(filter(None, (meaning, *comment))):
            attr.docstring = griffe.Docstring(said, parent=attr)

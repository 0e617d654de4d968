# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Put the C headers into the C API page: each comment as text, each declaration as code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

INCLUDE = Path(__file__).parent.parent / "native" / "include"
MARK = re.compile(r"^<!-- header: (\w+\.h) -->$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace ``<!-- header: NAME -->`` by what the header declares."""
    return MARK.sub(lambda mark: header_page((INCLUDE / mark[1]).read_text()), markdown)


def header_page(text: str) -> str:
    """Give the part of a header between its two cffi lines as Markdown."""
    declared = text.partition("/* cffi: begin */")[2].partition("/* cffi: end */")[0]
    if not declared:
        raise ValueError("a header has no part between its cffi lines")
    parts = re.split(r"(?m)^(?=/\*)", declared.strip())
    lines = []
    for part in parts:
        comment, code = re.fullmatch(r"(?s)(?:/\*(.*?)\*/)?(.*)", part).groups()  # type: ignore[union-attr]
        text = re.sub(r"\n \* ?", "\n", (comment or "").strip())
        lines += [
            text.replace("*", r"\*"),
            "",
            *(["```c", code.strip(), "```", ""] if code.strip() else []),
        ]
    return "\n".join(lines)

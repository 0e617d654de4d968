# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Put the C headers into the C API page: each comment as text, each declaration as code.

Where a docstring or a header names a page, link to it. Give pages of wide tables or code the room
of their table of contents, and keep what is short in a cell on one line. Make lists of the options
of commands, which come as text of 80 columns.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

INCLUDE = Path(__file__).parent.parent / "native" / "include"
MARK = re.compile(r"^<!-- header: (\w+\.h) -->$", re.MULTILINE)
WIDE = ("benchmarks.md", "readers.md", "reference/c-api.md")
SHORT = re.compile(r"<td>(?=[^<]{0,12}</td>)")
PAGE = re.compile(r"docs/[\w/-]+\.md")
OPTIONS = re.compile(
    r"<div[^>]*><pre>(?:<span></span>)?<code>(  -.*?)</code></pre></div>", re.DOTALL
)
OPTION = re.compile(r"^  (-\S.*?)(?:   *(.*(?:\n {6}.*)*)|\n((?: {6}.*\n?)+))$", re.MULTILINE)
NAMED = re.compile(r"<code>docs/([\w/-]+\.md)</code>")


def on_page_content(html: str, *, page: Page, files: Files, **_: Any) -> str:
    """Replace ``docs/PATH.md`` by a link with the title of that page."""

    def link(mark: re.Match[str]) -> str:
        named = files.get_file_from_path(mark[1])
        if named is None:
            raise ValueError(f"{page.file.src_uri} names {mark[0]}, and there is no such page")
        title = named.content_string.partition("\n")[0].removeprefix("# ")
        return f'<a href="{named.url_relative_to(page.file)}">{title}</a>'

    html = NAMED.sub(link, html)
    html = OPTIONS.sub(lambda found: option_list(found[1]), html)
    if page.file.src_uri in WIDE:
        cells = SHORT.sub('<td class="short">', html)
        html = f'<div class="wide">{cells}</div>'
    return html


def option_list(text: str) -> str:
    """Give the options that click has written in two columns as a list."""
    options = []
    for names, beside, below in OPTION.findall(text):
        words = " ".join(re.sub(r"(?<=\w-)\n +", "", beside or below).split())
        options.append(f"<dt><code>{names}</code></dt><dd>{words}</dd>")
    if len(options) != len(re.findall(r"^  -", text, re.MULTILINE)):
        raise ValueError(f"not all options were found in {text}")
    return f'<dl class="options">{"".join(options)}</dl>'


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Replace ``<!-- header: NAME -->`` by what the header declares."""
    if page.file.src_uri in WIDE:
        page.meta["hide"] = ["toc"]
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
            PAGE.sub(r"`\g<0>`", text.replace("*", r"\*")),
            "",
            *(["```c", code.strip(), "```", ""] if code.strip() else []),
        ]
    return "\n".join(lines)

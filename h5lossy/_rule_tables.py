# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Files of rules in TOML: ``[[rule]]`` tables, each with a line ``dataset = "/ocean/*"``."""

from __future__ import annotations

import json
import re
import tomllib
from typing import TYPE_CHECKING, Any

from h5lossy._errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_HEADING = re.compile(r"\s*\[\[\s*rule\s*\]\]")


def read_rule_tables(path: Path) -> Iterator[tuple[str, list[str], dict[str, Any]]]:
    """Yield where each rule of a file is (``rules.toml, line 3:``), its globs and its settings.

    Raise `InvalidArgumentError` if it is no such file, or OSError.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")  # Windows's editors begin with a mark
        content = tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(f"{path} is not UTF-8: {error}") from None
    except (ValueError, RecursionError) as error:  # syntax errors have a line
        raise InvalidArgumentError(f"{path} is not TOML: {error}") from None
    tables = content.pop("rule", None)
    if content:
        raise InvalidArgumentError(f"{path} has {', '.join(content)}; only [[rule]] is allowed")
    if not isinstance(tables, list) or not tables or not all(isinstance(t, dict) for t in tables):
        raise InvalidArgumentError(f"{path} has no [[rule]] with a line dataset = ...")
    lines = [i for i, line in enumerate(text.splitlines(), 1) if _HEADING.match(line)]
    is_plain = len(lines) == len(tables)
    for i, table in enumerate(tables):
        where = f"{path.name}, " + (f"line {lines[i]}:" if is_plain else f"rule {i + 1}:")
        given = table.pop("dataset", None)
        globs = [given] if isinstance(given, str) else given
        is_list = isinstance(globs, list) and all(isinstance(one, str) and one for one in globs)
        if not globs or not is_list:
            raise InvalidArgumentError(
                f'{where} dataset must be a glob such as "/ocean/*", or a list of globs'
                + ("" if given is None else f", got {toml_text(given)}")
            )
        yield where, globs, table


def toml_text(value: Any) -> str:
    """Write a number or text as TOML. JSON's texts are TOML's, except for one character."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value).lower() if isinstance(value, bool) else str(value)

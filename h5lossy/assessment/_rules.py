# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Bounds, thresholds and other options by variable.

::

    [[rule]]
    dataset = "/ocean/*"
    absolute = 1e-3
    require = "ssim>=0.9999"
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from h5lossy._bounds import BoundKind
from h5lossy._errors import InvalidArgumentError
from h5lossy._globs import has_wildcards, names_one
from h5lossy._rule_tables import read_rule_tables
from h5lossy.assessment._options import AssessOptions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from os import PathLike

_BOUNDS = {*BoundKind, "bound"}
_OPTIONS = {field.name for field in dataclasses.fields(AssessOptions) if field.init}


class Rules:
    """The options for variables whose paths match globs; later rules take precedence.

    `given` is a file of rules, or a mapping of globs to options; with "skip" a variable is left
    out.
    """

    def __init__(self, given: str | PathLike[str] | Mapping[str, Mapping[str, Any]] | None) -> None:
        self._rules: list[tuple[str, dict[str, Any]]] = []  # globs and options
        for where, glob, options in _given(given):
            options_of = {name.replace("-", "_"): value for name, value in options.items()}
            unknown = options_of.keys() - _OPTIONS - {"skip"}
            if unknown:
                raise InvalidArgumentError(
                    f"{where} a rule for {glob!r} has {', '.join(sorted(unknown))}; there are "
                    f"skip, {', '.join(sorted(_OPTIONS))}"
                )
            try:
                _check(**options_of)
            except (InvalidArgumentError, TypeError) as error:
                raise InvalidArgumentError(f"{where} rule for {glob!r}: {error}") from None
            if len(options_of) < len(options):
                raise InvalidArgumentError(f"{where} rule for {glob!r}: an option is given twice")
            self._rules.append((glob, options_of))
        self._unused = {glob for glob, _ in self._rules}

    def options(self, paths: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the options for a variable; None if it is skipped."""
        found = dict(options)
        for glob, more in self._rules:
            if not _matches(paths, glob):
                continue
            self._unused.discard(glob)
            if _BOUNDS & more.keys():  # it replaces the previous bound
                found = {name: value for name, value in found.items() if name not in _BOUNDS}
            found |= more
        return None if found.pop("skip", False) else found

    def names(self, paths: Sequence[str]) -> bool:
        """Return whether a rule names exactly this variable."""
        return any(not has_wildcards(glob) and _matches(paths, glob) for glob, _ in self._rules)

    def check_used(self) -> None:
        """Raise if a rule matched nothing: most likely it has a typo."""
        if self._unused:
            raise InvalidArgumentError(
                f"rules name no variable here: {', '.join(sorted(self._unused))}"
            )


def _given(rules: Any) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield where each rule is, its glob and its options."""
    if isinstance(rules, Mapping):
        for glob, options in rules.items():
            if not isinstance(options, Mapping):
                raise InvalidArgumentError(
                    f"a rule for {glob!r} is a dict of options, got {options!r}"
                )
            yield "rules:", str(glob), options
    elif rules is not None:
        for where, globs, options in read_rule_tables(Path(rules)):
            if not options:
                raise InvalidArgumentError(f"{where} the rule has no options")
            yield from ((where, glob, options) for glob in globs)


def _check(*, skip: Any = False, **options: Any) -> None:
    """Raise if a rule is wrong for any variable."""
    if not isinstance(skip, bool):
        raise InvalidArgumentError(f"skip must be true or false, got {skip!r}")
    AssessOptions(**options)


def _matches(paths: Sequence[str], glob: str) -> bool:
    return names_one((path if path.startswith("/") else f"/{path}" for path in paths), glob)

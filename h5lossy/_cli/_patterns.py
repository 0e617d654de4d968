# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The per-dataset rules of ``h5lossy repack``."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from h5lossy._bounds import BoundKind
from h5lossy._chunking import access_of
from h5lossy._cli._options import (
    BOUND_VALUES,
    BOUNDS,
    DIGITS,
    FLAGS,
    OWN_SETTINGS,
    Request,
    read_number,
)
from h5lossy._globs import has_wildcards, matching

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

#: Extents, "keep", or what `h5lossy._chunking.access_of` reads.
Chunks = tuple[int, ...] | str

_SETTINGS = (
    *(f"{kind.replace('_', '-')}=B" for kind in BOUND_VALUES if kind != DIGITS),
    "digits=N",
    "lossless",
    "packed-units",
    "codec=NAME",
    *(name.replace("_", "-") + ("" if name in FLAGS else "=VALUE") for name in OWN_SETTINGS),
    "threshold=T",
    "valid-range=LOW..HIGH",
    "chunks=SHAPE",
)

_PACKED_UNITS = "packed_units"

#: The settings that take one number, and what kind.
_NUMBERS: dict[str, str] = {
    **{str(kind): "a number" for kind in BOUND_VALUES if kind != DIGITS},
    "digits": "a whole number",
}

#: The settings that take no value.
NO_VALUE: frozenset[str] = frozenset({BoundKind.LOSSLESS, _PACKED_UNITS, *FLAGS})


def _number(name: str, text: str) -> Any:
    """Read the number of a setting."""
    try:
        return int(text) if name == "digits" else read_number(text)
    except ValueError:
        what = _NUMBERS.get(name, "a number")
        given = repr(text) if text else "nothing"
        raise click.BadParameter(f"{name} takes {what}, got {given}") from None


def require_match(option: str, pattern: str, paths: Collection[str]) -> None:
    """Refuse a pattern that matches nothing: most likely it is a typo."""
    if not matching(paths, pattern):
        some = ", ".join([*paths][:5]) + (", ..." if len(paths) > 5 else "")
        raise click.ClickException(
            f"{option} {pattern!r} names no dataset here; there are: {some or 'none'}"
        )


def parse_chunks(text: str) -> Chunks:
    """Read a chunk shape."""
    if text == "keep":
        return text
    with contextlib.suppress(ValueError):
        access_of(text)
        return text
    try:
        extents = tuple(map(int, text.split("x")))
    except ValueError:
        extents = ()
    if not extents or min(extents) < 1:
        raise click.BadParameter(
            "a chunk shape is 'keep', 'auto', 'auto:maps', 'auto:series', 'auto:balanced' or "
            f"extents of at least 1 such as 64x64, got {text!r}"
        )
    return extents


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A rule: ``--dataset 'GLOB:absolute=1e-3,chunks=64x64'``, or a rule of a file."""

    pattern: str
    request: Request
    chunks: Chunks | None  # None if not given
    packed_units: bool = False  # whether the bound of packed values is in stored counts
    skip: bool = False  # only in files of rules: copy the datasets unchanged
    where: str = "--dataset"  # for messages

    @property
    def is_literal(self) -> bool:
        """Whether the pattern is a name without wildcards."""
        return not has_wildcards(self.pattern)

    @classmethod
    def parse(cls, text: str) -> Rule:
        """Read a rule as typed."""
        found = re.fullmatch(r"(.+)(?<!chunks=auto):((?:[^:]|(?<=chunks=auto):)+)", text, re.DOTALL)
        if found is None:
            raise click.BadParameter(f"expected 'GLOB:SETTING,...', got {text!r}")
        # A comma before a negative number belongs to the value: axes=-2,-1.
        return cls.of(found[1], re.split(r",(?!\s*-\d)", found[2]))

    @classmethod
    def of(cls, pattern: str, settings: Iterable[str]) -> Rule:
        """Make a rule of settings such as ``absolute=1e-3``."""
        typed: dict[str, Any] = {}
        chunks: Chunks | None = None
        seen: set[str] = set()
        for setting in settings:
            name, _, value = setting.strip().partition("=")
            name = name.replace("-", "_")
            if name in seen and name != "threshold":
                raise click.BadParameter(f"{name} is given twice")
            seen.add(name)
            if name in NO_VALUE and not value:
                typed[name] = True
            elif name in _NUMBERS:
                typed[DIGITS if name == "digits" else name] = _number(name, value)
            elif name == "threshold":
                numbers = tuple(_number(name, text) for text in value.split(","))
                typed["thresholds"] = (*typed.get("thresholds", ()), *numbers)
            elif name == "valid_range":  # a list in a file of rules
                typed[name] = tuple(_number(name, text) for text in re.split(r",|\.\.", value))
            elif name == "codec" or name in OWN_SETTINGS:
                typed[name] = value
            elif name == "chunks":
                chunks = parse_chunks(value)
            else:
                raise click.BadParameter(
                    f"{setting!r} is no setting; there are {', '.join(_SETTINGS)}"
                )
        packed_units = typed.pop(_PACKED_UNITS, False)
        if packed_units and not {*BOUNDS} & {*typed}:
            raise click.BadParameter("packed-units goes with a bound, such as absolute=5")
        request = Request.parse(typed)
        return cls(pattern=pattern, request=request, chunks=chunks, packed_units=packed_units)

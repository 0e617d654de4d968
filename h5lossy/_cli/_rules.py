# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""What the options of ``repack`` mean for each dataset, and files of rules.

``tune --rules`` writes such files, and ``repack --rules`` reads them:

::

    [[rule]]
    dataset = "/ocean/*"
    absolute = 1e-3
    codec = "interp"
"""

from __future__ import annotations

import glob
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from h5lossy._bounds import BoundKind
from h5lossy._cli._options import DEFAULT_CODEC, FLAGS, Request
from h5lossy._cli._patterns import NO_VALUE, Chunks, Rule, require_match
from h5lossy._errors import InvalidArgumentError
from h5lossy._globs import matching, names_one
from h5lossy._packing import Packing
from h5lossy._printable import one_line
from h5lossy._ranges import Extent
from h5lossy._recommendations import COMMUNITY, Recommendations
from h5lossy._repacking.planning import NO_BOUND, OBJECTIONS, Wish
from h5lossy._rule_tables import read_rule_tables, toml_text
from h5lossy.missing import missing_when_stored

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import h5py

    from h5lossy._recommendations import Recommendation


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The options of the command: bound, codec and chunks of all datasets, and exceptions."""

    request: Request
    packed_units: bool = False
    chunks: Chunks = "keep"
    rules: Sequence[Rule] = ()  # those of the --rules files, then the --dataset options
    skip: Sequence[str] = ()
    regions: Sequence[tuple[str, str, float]] = ()  # a glob, a place, a bound
    recommendations: Recommendations | None = None
    missing_value: Sequence[float] = ()

    def wish(self, paths: Sequence[str], dataset: h5py.Dataset) -> Wish:
        """Return what is requested for a dataset."""
        rules = [rule for rule in self.rules if names_one(paths, rule.pattern)]
        skipped = bool(rules) and rules[-1].skip
        skipped = skipped or any(names_one(paths, pattern) for pattern in self.skip)
        bounds = [rule for rule in rules if rule.request.bound]
        recommended = None if bounds or skipped else self._recommended(dataset)
        request = self.request
        if recommended:
            codec = DEFAULT_CODEC if BoundKind.LOSSLESS in recommended.arguments else None
            request = Request(bound=recommended.arguments, codec=codec).or_else(request)
        for rule in rules:
            request = rule.request.or_else(request)
        return Wish(
            codec=request.make(),
            chunks=self._chunks(paths[0], dataset.ndim, [rule for rule in rules if rule.chunks]),
            is_skipped=skipped,
            recommended=recommended,
            regions=tuple((at, b) for glob, at, b in self.regions if names_one(paths, glob)),
            has_rule=bool(bounds) or bool(recommended and recommended.bound),
            is_named=any(rule.is_literal for rule in bounds),
            in_counts=self.packed_units or (bool(bounds) and bounds[-1].packed_units),
        )

    def _recommended(self, dataset: h5py.Dataset) -> Recommendation | None:
        """Return the recommendation for a dataset; None if not requested, or for coordinates."""
        if self.recommendations is None or dataset.dtype.kind not in "fiu":
            return None

        def extent() -> tuple[float, float] | None:
            ends = Extent.of(dataset, missing_when_stored(dataset, self.missing_value)).ends
            packing = Packing.of(dataset, dataset.dtype)
            if ends is None or packing is None:
                return ends
            low, high = (end * packing.scale + packing.offset for end in ends)
            return min(low, high), max(low, high)

        return self.recommendations.of(dataset, extent)

    def _chunks(self, path: str, rank: int, rules: Sequence[Rule]) -> Chunks:
        """Return the chunks of the last rule that has any; chunks of another rank do not count."""
        wanted = rules[-1].chunks if rules else self.chunks
        if isinstance(wanted, tuple) and rank and len(wanted) != rank:
            if rules and rules[-1].is_literal:
                raise click.UsageError(
                    f"{rules[-1].where} {rules[-1].pattern!r} gives chunks of {len(wanted)} "
                    f"dimensions to {path}, which has {rank}"
                )
            return "keep"
        return wanted or "keep"

    def check(self, datasets: Sequence[tuple[str, str]]) -> None:
        """Refuse a rule without effect; `datasets` are paths, and why each is not compressed."""
        kept: dict[str, list[str]] = {}
        for path, why in datasets:
            kept.setdefault(path, []).append(why)
        named = []
        for rule in self.rules:
            require_match(rule.where, rule.pattern, kept)
            found = [(path, why) for path in matching(kept, rule.pattern) for why in kept[path]]
            named.append((rule, [why for _, why in found]))
            if not rule.skip and all(why and why not in OBJECTIONS for _, why in found):
                raise _names_nothing(f"{rule.where} {rule.pattern!r}", found)
        for pattern in self.skip:
            require_match("--skip", pattern, kept)
        for pattern, *_ in self.regions:
            require_match("--region", pattern, kept)
            found = [(path, why) for path in matching(kept, pattern) for why in kept[path]]
            if all(why for _, why in found):
                raise _names_nothing(f"--region {pattern!r}", found)
        for rule, reasons in named:
            if rule.request.codec and NO_BOUND in reasons and all(reasons):
                raise click.UsageError(
                    f"{rule.where} {rule.pattern!r} names a codec, but no option gives its "
                    "datasets a bound; add one, such as absolute=1e-3"
                )


def _names_nothing(what: str, found: Sequence[tuple[str, str]]) -> click.ClickException:
    text = ", ".join(f"{path}: {why}" for path, why in found[:5])
    return click.ClickException(f"{what} names nothing that is compressed ({text})")


class RulesFile(click.Path):
    """A file of rules, which becomes a list of `Rule`."""

    def __init__(self) -> None:
        super().__init__(exists=True, dir_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the rules."""
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        found: list[Rule] = []
        where = str(path)
        try:
            for where, globs, settings in read_rule_tables(path):
                found += [replace(one, where=where) for one in _rules(globs, settings)]
        except OSError as error:
            self.fail(f"{path} can't be read: {one_line(error)}", param, ctx)
        except InvalidArgumentError as error:
            self.fail(str(error), param, ctx)
        except click.UsageError as error:
            why = error.format_message().removeprefix("Invalid value: ")
            self.fail(f"{where} {why}", param, ctx)
        return found


class RecommendationsFile(click.Path):
    """A file of recommendations, or the word for the installed package's file."""

    def __init__(self) -> None:
        super().__init__(exists=True, dir_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the recommendations."""
        if value != COMMUNITY:
            value = os.fsdecode(super().convert(value, param, ctx))
        try:
            return Recommendations.load(value)
        except (OSError, ImportError, InvalidArgumentError) as error:
            self.fail(one_line(error), param, ctx)


def rule_text(path: str, settings: Mapping[str, Any]) -> str:
    """Write the rule for one dataset."""
    lines = [f"{name} = {toml_text(value)}" for name, value in settings.items()]
    return "\n".join(["[[rule]]", f"dataset = {toml_text(exact_pattern(path))}", *lines, ""])


def exact_pattern(path: str) -> str:
    """Return the glob that names one dataset; "?" stands for bytes that are not UTF-8.

    Examples
    --------
    >>> exact_pattern("/a*b/c")
    '/a[*]b/c'
    """
    return re.sub("[\\ud800-\\udfff]", "?", glob.escape(path))


def _rules(globs: Sequence[str], given: dict[str, Any]) -> list[Rule]:
    """Read the settings of one table, as a rule for each of its globs."""
    skip = given.pop("skip", False)
    if not isinstance(skip, bool):
        raise click.UsageError(f"skip must be true or false, got {toml_text(skip)}")
    if skip and given:
        raise click.UsageError(f"a rule that skips has no other setting, got {', '.join(given)}")
    found = (_setting(key, value) for key, value in given.items())
    settings = [setting for setting in found if setting is not None]
    if not skip and not settings:
        raise click.UsageError("the rule has no settings; give a bound, or skip = true")
    return [replace(Rule.of(one, settings), skip=skip) for one in globs]


def _setting(name: str, value: Any) -> str | None:
    """Return a setting in the form of --dataset; None for a codec's flag that is off."""
    key = name.replace("-", "_")
    if key in NO_VALUE:
        if not isinstance(value, bool):
            raise click.UsageError(f"{name} must be true or false, got {toml_text(value)}")
        if not value and key not in FLAGS:
            raise click.UsageError(f"{name} is never false; leave it out")
        return name if value else None
    values = value if isinstance(value, list) else [value]
    return f"{name}={('x' if key == 'chunks' else ',').join(map(_typed, values))}"


def _typed(value: Any) -> str:
    return value if isinstance(value, str) else toml_text(value)

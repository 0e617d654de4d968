# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""``h5lossy tune``: the smallest data that meets thresholds, for one dataset or for each."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import click

from h5lossy import BoundKind
from h5lossy._cli._console import printable, say, say_json, shape_text
from h5lossy._cli._field import (
    Choice,
    Field,
    candidate_name,
    choice_options,
    own_settings,
    plain_number,
    taking,
)
from h5lossy._cli._files import FAILED, UNREADABLE, no_verdict, why_of
from h5lossy._cli._options import FileToWrite, json_option, threads_option
from h5lossy._cli._progress import progress_bar
from h5lossy._cli._rules import exact_pattern, rule_text
from h5lossy.assessment import MEASURES, Requirement, parse_requirements
from h5lossy.assessment.render.text import number
from h5lossy.assessment.tradeoff import Tradeoff, Tuned
from h5lossy.assessment.tradeoff import tune as search

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from h5lossy._codecs import Codec


@dataclass(frozen=True, kw_only=True)
class _Outcome:
    """What was found for one dataset; `why` says where nothing was."""

    file: str
    path: str
    found: Tuned | None = None
    settings: dict[str, float | str | bool] = field(default_factory=dict)
    why: str = ""

    @property
    def option(self) -> str:
        """The rule as `repack` takes it on the command line."""
        settings = ",".join(
            name if value is True else f"{name}={value}" for name, value in self.settings.items()
        )
        return f"--dataset {shlex.quote(f'{exact_pattern(self.path)}:{settings}')}"


@click.command()
@choice_options
@click.option(
    "--require",
    default="",
    metavar="THRESHOLDS",
    help=f"Such as 'psnr>=70, ssim>=0.9999'. There are: {', '.join(MEASURES)}.",
)
@click.option(
    "--ratio",
    type=click.FloatRange(min=1),
    metavar="R",
    help="Find the best quality (the smallest RMSE) at this ratio, instead of the smallest data.",
)
@click.option(
    "--all",
    "every",
    is_flag=True,
    help="Each dataset of floats or packed integers that h5lossy repack would compress, or those "
    "that -d names.",
)
@click.option(
    "--rules",
    "rules_path",
    type=FileToWrite(".toml"),
    metavar="FILE.toml",
    help="Write what was found as rules for h5lossy repack --rules.",
)
@threads_option
@json_option
def tune(
    choice: Choice,
    *,
    require: str,
    ratio: float | None,
    every: bool,
    rules_path: Path | None,
    as_json: bool,
) -> None:
    """Find the codec and the absolute bound that make one dataset of FILE smallest, or each one.

    With --ratio, those that are most exact at that ratio. The result meets all thresholds: the
    whole dataset has been encoded, decoded and assessed with it. A large dataset is first searched
    in three samples. Bounds and errors of integers are in counts, also of packed ones. With --all,
    a dataset that nothing fits does not stop the others; it gets no rule.

    Exit codes: 0 found; 1 for a dataset there is nothing that meets them; 2 wrong usage, or a file
    that can't be read.
    """

    def tune_one(field: Field) -> _Outcome:
        def on_candidate(one: Tradeoff, fits: bool) -> None:  # noqa: FBT001
            if not as_json:
                say(_line(one, requirements, fits=fits))

        def on_try(codec: Codec, raw_bytes: int) -> None:
            advance(raw_bytes, f"{candidate_name(codec)} {codec.bound}")

        found = search(
            field.values,
            requirements,
            taking(candidates, field.values.dtype),
            chunks=field.chunks,
            missing=field.missing,
            confirm_range=choice.confirm_range,
            on_candidate=on_candidate,
            on_try=on_try,
            ratio=ratio,
        )
        one = _Outcome(file=field.file, path=field.path, found=found)
        if found.best is None:
            return replace(one, why=f"no bound meets {', '.join(wanted)}")
        codec = found.best.codec
        lossless = codec.bound.kind is BoundKind.LOSSLESS
        settings: dict[str, float | str | bool] = {
            **({"lossless": True} if lossless else {"absolute": codec.bound.value}),
            **({"packed-units": True} if field.is_packed and not lossless else {}),
            "codec": codec.codec_name,
            **own_settings(codec),
        }
        if choice.chunks != "keep":
            settings["chunks"] = shape_text(field.chunks)
        return replace(one, settings=settings)

    outcomes: list[_Outcome] = []

    def add(one: _Outcome) -> None:
        outcomes.append(one)
        if rules_path is not None:  # each at once: the next dataset may take hours
            rules_path.write_text(_rules_text(outcomes, wanted), encoding="utf-8")

    with no_verdict(), progress_bar(None) as advance:
        if not (require or ratio):
            raise click.UsageError("give --require, --ratio or both")
        requirements = parse_requirements(require) if require else ()
        wanted = [*map(str, requirements), *([] if ratio is None else [f"ratio>={ratio:g}"])]
        candidates = choice.candidates
        if every:
            with choice.each() as fields:
                if not fields:
                    raise click.ClickException(f"{choice.place} has nothing to compress")
                for path, read in fields.items():
                    if not as_json:
                        say(printable(path))
                    try:
                        one = tune_one(read())
                    except (click.ClickException, *UNREADABLE) as error:
                        one = _Outcome(file=choice.place, path=path, why=why_of(error))
                    add(one)
        else:
            add(tune_one(choice.read()))
    command = _command(outcomes, rules_path, choice.missing_value)
    if as_json:
        datasets = [_plain(one, requirements) for one in outcomes]
        plain = {"datasets": datasets} if every else datasets[0]
        say_json({**plain, "command": command})
    else:
        _say_end(outcomes, command, every=every)
    if not all(one.settings for one in outcomes):
        click.get_current_context().exit(FAILED)


def _say_end(outcomes: Sequence[_Outcome], command: str | None, *, every: bool) -> None:
    """Print what was found in all, and what was not."""
    tries = sum(one.found.tries for one in outcomes if one.found)
    failed = [one for one in outcomes if not one.settings]
    names = "".join(f"\nno rule for {one.path}: {one.why}" for one in failed)
    if not every and failed:
        names = f": {failed[0].why}"
    say(f"tries {tries}{names}")
    if command:
        say(f"use: {printable(command)}")


def _command(
    outcomes: Sequence[_Outcome], rules_path: Path | None, missing_value: Sequence[float]
) -> str | None:
    """Return the `repack` command that does what was found."""
    found = [one for one in outcomes if one.settings]
    if not found:
        return None
    if rules_path is None:
        rules = " ".join(one.option for one in found)
    else:
        rules = f"--rules {shlex.quote(str(rules_path))}"
    missing = "".join(f" --missing-value {value!r}" for value in missing_value)
    return f"h5lossy repack {shlex.quote(found[0].file)} OUT.h5 {rules}{missing}"


def _rules_text(outcomes: Sequence[_Outcome], wanted: Sequence[str]) -> str:
    """Write what was found as a file of rules; what got none is a comment."""
    parts = [f"# h5lossy tune: {', '.join(wanted)}\n"]
    for one in outcomes:
        if one.settings and one.found and one.found.best:
            ratio = one.found.best.size.ratio
            comment = "" if ratio is None else f"# ratio {ratio:.4g}\n"
            parts.append(comment + rule_text(one.path, one.settings))
        else:
            parts.append(f"# {printable(one.path)}: {printable(one.why)}\n")
    return "\n".join(parts)


def _plain(one: _Outcome, requirements: Sequence[Requirement]) -> dict[str, Any]:
    """Return the result for one dataset as JSON can hold it."""
    best = one.found.best if one.found else None
    plain = best and {
        "codec": best.codec.codec_name,
        "settings": own_settings(best.codec),
        "absolute": best.codec.absolute or 0.0,
        "ratio": best.size.ratio,
        "rmse": plain_number(best.report.error.rmse),
        "measures": {n.name: plain_number(n.got(best.report)) for n in requirements},
    }
    tries = one.found.tries if one.found else 0
    return {"path": one.path, "tries": tries, "best": plain, "why": one.why or None}


def _line(one: Tradeoff, requirements: tuple[Requirement, ...], *, fits: bool) -> str:
    """Write a candidate, its numbers and whether it meets the thresholds."""
    values = {n.name: n.got(one.report) for n in requirements} or {"rmse": one.report.error.rmse}
    numbers = "   ".join(f"{name} {number(got, 9)}" for name, got in values.items())
    failed = [n.name for n in requirements if not n.holds(one.report)]
    failed = failed or ["its ratio" if one.report.ok else "its bound"]
    verdict = "ok" if fits else f"-> fails on {', '.join(failed)}"
    return (
        f"{candidate_name(one.codec)} {one.codec.bound}   "
        f"ratio {number(one.size.ratio, 4)}   {numbers}   {verdict}"
    )

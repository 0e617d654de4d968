# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""``h5lossy tune``: the smallest data that meets thresholds, for one dataset or for each."""

from __future__ import annotations

import math
import os
import shlex
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import click

from h5lossy import BoundKind
from h5lossy._cli._console import say, say_json, shape_text
from h5lossy._cli._field import (
    Choice,
    Dataset,
    candidate_name,
    choice_options,
    plain_number,
    taking,
)
from h5lossy._cli._files import FAILED, UNREADABLE, no_verdict, why_of
from h5lossy._cli._options import FileToWrite, json_option, own_settings, threads_option
from h5lossy._cli._progress import progress_bar
from h5lossy._cli._rules import exact_pattern, rule_text
from h5lossy._codecs import choice_text
from h5lossy._printable import bytes_text, one_line, printable
from h5lossy.assessment import MEASURES, Requirement, number_of_bytes, parse_requirements
from h5lossy.assessment.render.text import number
from h5lossy.assessment.tuning import Goal, Search, Tuned, share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from h5lossy._codecs import Codec
    from h5lossy.assessment.tradeoff import Tradeoff


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


@dataclass(frozen=True, kw_only=True)
class _Wanted:
    """The thresholds, and the ratio or the size in bytes at which quality is to be best."""

    requirements: tuple[Requirement, ...]
    ratio: float | None
    size: int | None

    @classmethod
    def parse(cls, require: str, ratio: float | None, size: str | None) -> _Wanted:
        """Check what was typed."""
        if (ratio and size) or not (require or ratio or size):
            raise click.UsageError("give --require, or --ratio or --size, or both")
        if ratio and not math.isfinite(ratio):  # click takes NaN for a number from 1 up
            raise click.UsageError(f"--ratio must be a finite number from 1 up, got {ratio}")
        return cls(
            requirements=parse_requirements(require) if require else (),
            ratio=ratio,
            size=None if size is None else number_of_bytes("--size", size),
        )

    @property
    def texts(self) -> list[str]:
        """What is wanted, as it is shown."""
        ratio = [] if self.ratio is None else [f"ratio>={self.ratio:g}"]
        size = [] if self.size is None else [f"size<={bytes_text(self.size)}"]
        return [*map(str, self.requirements), *ratio, *size]

    def goal(self, field: Dataset) -> Goal:
        """Return the goal for one dataset."""
        ratio = self.ratio if self.size is None else field.nbytes / self.size
        return Goal(requirements=self.requirements, ratio=ratio)


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
    "--size",
    metavar="SIZE",
    help="Find the best quality at this size, such as '200 MiB'. With --all, that of all datasets "
    "together: each gets its own bound, and all have one PSNR.",
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
    size: str | None,
    every: bool,
    rules_path: Path | None,
    as_json: bool,
) -> None:
    """Find the codec and the bound that make one dataset of FILE smallest, or each one.

    With --ratio or --size, find the most exact ones instead. All codecs are tried, with their
    dimensions and modes, and with absolute and pointwise-relative bounds. The result meets all
    thresholds: the whole dataset has been encoded, decoded and assessed with it. A large dataset is
    first searched in a sample of its chunks. The output says what limits the result. Bounds and
    errors of integers are in counts, even for packed ones. With --all, a dataset without a result
    does not stop the others; it gets no rule.

    Exit codes: 0 found; 1 nothing meets the thresholds, for at least one dataset; 2 wrong usage, or
    a file that can't be read.
    """
    with no_verdict():
        wanted = _Wanted.parse(require, ratio, size)

    def search_in(field: Dataset) -> Search:
        def on_candidate(one: Tradeoff, failed: Sequence[str]) -> None:
            if not as_json:
                say(_line(one, wanted.requirements, failed))

        def on_try(codec: Codec, raw_bytes: int) -> None:
            advance(raw_bytes, f"{candidate_name(codec)} {codec.bound}")

        return Search(
            field,
            taking(choice.candidates, field.values.dtype),
            on_candidate=on_candidate,
            on_try=on_try,
        )

    outcomes: list[_Outcome] = []
    with no_verdict(), progress_bar(None) as advance:
        for one in _found(choice, wanted, search_in, every=every, show=not as_json):
            if rules_path is not None:  # each at once: the next dataset may take hours
                head = "" if outcomes else f"# h5lossy tune: {', '.join(wanted.texts)}\n"
                before = rules_path.stat().st_size if outcomes else 0
                try:
                    with rules_path.open("a" if outcomes else "w", encoding="utf-8") as file:
                        file.write(f"{head}\n{_rule_text(one)}")
                except OSError as error:
                    with suppress(OSError):  # half a rule may be one of another bound
                        os.truncate(rules_path, before)
                    raise click.ClickException(
                        f"{rules_path} can't be written: {one_line(error)}"
                    ) from error
            outcomes.append(one)
    command = _command(outcomes, rules_path, choice.missing_value)
    if as_json:
        datasets = [_plain(one, wanted.requirements) for one in outcomes]
        plain = {"datasets": datasets} if every else datasets[0]
        say_json({**plain, "command": command})
    else:
        _say_end(outcomes, command, every=every)
    if not all(one.settings for one in outcomes):
        click.get_current_context().exit(FAILED)


def _found(
    choice: Choice,
    wanted: _Wanted,
    search_in: Callable[[Dataset], Search],
    *,
    every: bool,
    show: bool,
) -> Iterator[_Outcome]:
    """Yield what is found for each dataset."""
    if not every:
        with choice.one() as field:
            yield _outcome(field, search_in(field).run(wanted.goal(field)), choice, wanted)
        return
    with choice.each() as fields:
        if not fields:
            raise click.ClickException(
                f"{choice.place} has nothing to compress; integers that are not packed, which may "
                "be indices or labels, have to be named with -d"
            )
        searches: list[tuple[Dataset, Search]] = []
        for path, read in fields.items():
            if show:
                say(printable(path))
            try:
                field = read()
                search = search_in(field)
                if wanted.size is not None:  # which all share, as they do the PSNR
                    of_all = (*wanted.requirements, Requirement("psnr", ">=", 0))
                    search.check_defined(Goal(requirements=of_all))
                    searches.append((field, search))
                    continue
                one = _outcome(field, search.run(wanted.goal(field)), choice, wanted)
            except (click.ClickException, *UNREADABLE) as error:
                one = _Outcome(file=choice.place, path=path, why=why_of(error))
            yield one
        if wanted.size is not None and searches:
            shared = share([one for _, one in searches], wanted.requirements, wanted.size)
            for (field, _), found in zip(searches, shared, strict=True):
                yield _outcome(field, found, choice, wanted)


def _outcome(field: Dataset, found: Tuned, choice: Choice, wanted: _Wanted) -> _Outcome:
    """Return the settings that `repack` needs for what was found."""
    one = _Outcome(file=field.file, path=field.path, found=found)
    if found.best is None:
        return replace(one, why=f"no bound meets {', '.join(wanted.texts)}")
    codec = found.best.codec
    lossless = codec.bound.kind is BoundKind.LOSSLESS
    kind = codec.bound.kind.replace("_", "-")
    settings: dict[str, float | str | bool] = {
        **({"lossless": True} if lossless else {kind: codec.bound.value}),
        **({"packed-units": True} if field.is_packed and not lossless else {}),
        "codec": codec.codec_name,
        **{name: choice_text(value) for name, value in own_settings(codec).items()},
    }
    if choice.chunks != "keep":
        settings["chunks"] = shape_text(field.chunks)
    return replace(one, settings=settings)


def _say_end(outcomes: Sequence[_Outcome], command: str | None, *, every: bool) -> None:
    """Print what was found in all, and what was not."""
    tries = sum(one.found.tries for one in outcomes if one.found)
    failed = [one for one in outcomes if not one.settings]
    names = "".join(f"\nno rule for {printable(one.path)}: {one.why}" for one in failed)
    if not every and failed:
        names = f": {failed[0].why}"
    say(f"tries {tries}{names}")
    for one in outcomes:
        if one.found and one.found.limits:
            place = f" {printable(one.path)}" if every else ""
            say(f"limited by{place}: {', '.join(one.found.limits)}")
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


def _rule_text(one: _Outcome) -> str:
    """Write what was found as a rule of a file; where nothing was, as a comment."""
    if not (one.settings and one.found and one.found.best):
        return f"# {printable(one.path)}: {printable(one.why)}\n"
    ratio = one.found.best.size.ratio
    limits = "".join(f", limited by {one_limit}" for one_limit in one.found.limits)
    comment = "" if ratio is None else f"# ratio {ratio:.4g}{limits}\n"
    return comment + rule_text(one.path, one.settings)


def _plain(one: _Outcome, requirements: Sequence[Requirement]) -> dict[str, Any]:
    """Return the result for one dataset as JSON can hold it."""
    best = one.found.best if one.found else None
    plain = best and {
        "codec": best.codec.codec_name,
        "settings": own_settings(best.codec),
        **(
            {str(kind): best.codec.bound.value}
            if (kind := best.codec.bound.kind) is BoundKind.POINTWISE_RELATIVE
            else {"absolute": best.codec.absolute or 0.0}
        ),
        "ratio": best.size.ratio,
        "rmse": plain_number(best.report.error.rmse),
        "measures": {n.name: plain_number(n.got(best.report)) for n in requirements},
    }
    tries = one.found.tries if one.found else 0
    limits = one.found.limits if one.found else ()
    return {
        "path": one.path,
        "tries": tries,
        "best": plain,
        "limited_by": limits,
        "why": one.why or None,
    }


def _line(one: Tradeoff, requirements: Sequence[Requirement], failed: Sequence[str]) -> str:
    """Write a candidate, its numbers and what it does not meet."""
    values = {n.name: n.got(one.report) for n in requirements} or {"rmse": one.report.error.rmse}
    numbers = "   ".join(f"{name} {number(got, 9)}" for name, got in values.items())
    verdict = f"-> fails on {', '.join(failed)}" if failed else "ok"
    return (
        f"{candidate_name(one.codec)} {one.codec.bound}   "
        f"ratio {number(one.size.ratio, 4)}   {numbers}   {verdict}"
    )

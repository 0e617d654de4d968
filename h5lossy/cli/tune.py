# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""``h5lossy tune``: the smallest data that meets thresholds."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

import click

from h5lossy.assessment import MEASURES, parse_requirements
from h5lossy.assessment.tradeoff import Tradeoff
from h5lossy.assessment.tradeoff import tune as search
from h5lossy.cli._console import printable, say, shape_text
from h5lossy.cli._field import codecs_named, field_options, plain_number, read_field
from h5lossy.cli._files import FAILED, no_verdict
from h5lossy.cli._progress import progress_bar

if TYPE_CHECKING:
    from h5lossy.assessment import Requirement
    from h5lossy.codecs import Codec


@click.command()
@field_options
@click.option(
    "--require",
    required=True,
    metavar="THRESHOLDS",
    help=f"Such as 'psnr>=70, ssim>=0.9999'. There are: {', '.join(MEASURES)}.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def tune(
    place: str,
    *,
    pattern: str | None,
    require: str,
    codecs: str,
    chunks: str,
    missing_value: tuple[float, ...],
    confirm_range: bool,
    as_json: bool,
) -> None:
    """Find the codec and the absolute bound that make one dataset of FILE smallest.

    The result meets all thresholds: the whole dataset has been encoded, decoded and assessed with
    it. A large dataset is first searched in three samples.

    Exit codes: 0 found; 1 nothing meets them; 2 wrong usage, or a file that can't be read.
    """
    with no_verdict(), progress_bar(None) as advance:
        requirements = parse_requirements(require)
        classes = codecs_named(codecs)
        field = read_field(place, pattern, chunks, missing_value)

        def on_candidate(one: Tradeoff, fits: bool) -> None:  # noqa: FBT001
            if not as_json:
                say(_line(one, requirements, fits=fits))

        def on_try(codec: Codec, raw_bytes: int) -> None:
            advance(raw_bytes, f"{codec.codec_name} {codec.bound}")

        found = search(
            field.values,
            requirements,
            classes,
            chunks=field.chunks,
            missing=field.missing,
            confirm_range=confirm_range,
            on_candidate=on_candidate,
            on_try=on_try,
        )
    best = found.best
    command = None
    if best is not None:
        rule = f"{field.path}:absolute={best.codec.bound.value!r},codec={best.codec.codec_name}"
        if chunks != "keep":
            rule += f",chunks={shape_text(field.chunks)}"
        command = f"h5lossy repack {shlex.quote(field.file)} OUT.h5 --dataset {shlex.quote(rule)}"
        command += "".join(f" --missing-value {value!r}" for value in missing_value)
    if as_json:
        plain = best and {
            "codec": best.codec.codec_name,
            "absolute": best.codec.bound.value,
            "ratio": best.size.ratio,
            "measures": {n.name: plain_number(n.got(best.report)) for n in requirements},
        }
        click.echo(json.dumps({"tries": found.tries, "best": plain, "command": command}, indent=2))
    elif command is None:
        say(f"tries {found.tries}: no bound meets {', '.join(map(str, requirements))}")
    else:
        say(f"tries {found.tries}\nuse: {printable(command)}")
    if best is None:
        click.get_current_context().exit(FAILED)


def _line(one: Tradeoff, requirements: tuple[Requirement, ...], *, fits: bool) -> str:
    """Write a candidate, its numbers and whether it meets the thresholds."""
    numbers = "   ".join(
        f"{n.name} {'-' if (got := n.got(one.report)) is None else format(got, '.9g')}"
        for n in requirements
    )
    failed = [n.name for n in requirements if not n.holds(one.report)]
    verdict = "ok" if fits else f"-> fails on {', '.join(failed) or 'its bound'}"
    ratio = "-" if one.size.ratio is None else f"{one.size.ratio:.4g}"
    return (
        f"{one.codec.codec_name} absolute {one.codec.bound.value:.6g}   ratio {ratio}   "
        f"{numbers}   {verdict}"
    )

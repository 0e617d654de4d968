# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""``h5lossy sweep``: rate and distortion of codecs and bounds for one dataset."""

from __future__ import annotations

import csv
import math
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from h5lossy._bounds import FLOAT_BOUNDS, BoundKind, ErrorBound, require_comparable
from h5lossy._cli._console import print_table, say, say_json
from h5lossy._cli._field import Choice, candidate_name, choice_options, plain_number, taking
from h5lossy._cli._files import no_verdict
from h5lossy._cli._options import FileToWrite, json_option
from h5lossy._cli._progress import progress_bar
from h5lossy._printable import naming, printable
from h5lossy.assessment.render.figure import new_figure, save
from h5lossy.assessment.render.text import number
from h5lossy.assessment.tradeoff import Tradeoff, front, measure

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.figure import Figure

#: What bounds may limit.
_KINDS = (*FLOAT_BOUNDS, BoundKind.NOISE, BoundKind.MODULUS)

#: A dataset up to this size is read at once; parts of a larger one, when they are needed.
_MOST_IN_MEMORY = 1 << 28

#: What the table shows of a setting: heading, name in JSON and CSV, digits.
_NUMBERS = (
    ("ratio", "ratio", 4),
    ("bits/val", "bits_per_value", 4),
    ("PSNR dB", "psnr", 5),
    ("1-SSIM", "one_minus_ssim", 3),
    ("max err", "max_error", 4),
    ("gain", "accuracy_gain", 3),
)


def parse_bounds(text: str) -> list[float]:
    """Read bounds: a list, or a range of powers of ten in steps of one.

    Examples
    --------
    >>> parse_bounds("1e-1..1e-3"), parse_bounds("0.5,0.25")
    ([0.1, 0.01, 0.001], [0.5, 0.25])
    """
    try:
        if ".." in text:
            first, last = (math.log10(float(part)) for part in text.split(".."))
            steps = round(abs(last - first))
            sign = 1 if last > first else -1
            lead = float(text.split("..", maxsplit=1)[0])
            return [float(f"{lead * 10.0 ** (sign * i):.12g}") for i in range(steps + 1)]
        return [float(part) for part in text.split(",")]
    except (ValueError, OverflowError):  # a range to infinity
        raise click.UsageError(
            f"--bounds takes numbers as 1e-1,1e-2 or a range as 1e-1..1e-4, got {text!r}"
        ) from None


@click.command()
@choice_options
@click.option(
    "--bounds",
    default="1e-2..1e-5",
    show_default=True,
    metavar="BOUNDS",
    help="Numbers separated by commas, or powers of ten as 1e-1..1e-4.",
)
@click.option(
    "--kind",
    type=click.Choice([kind.replace("_", "-") for kind in _KINDS]),
    default="range-relative",
    show_default=True,
    help="What the bounds limit.",
)
@click.option("--csv", "csv_path", type=FileToWrite(), metavar="FILE", help="Write the table.")
@click.option(
    "--plot",
    type=FileToWrite(),
    metavar="FILE",
    help="Draw PSNR over bits per value: .svg, .png, .pdf, or what else matplotlib writes.",
)
@json_option
def sweep(
    choice: Choice,
    *,
    bounds: str,
    kind: str,
    csv_path: Path | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Encode one dataset of FILE with several codecs and bounds, and print the results.

    Nothing is written to FILE. Speeds are for one thread, for orientation. A star marks the front:
    no other setting has fewer bits and a smaller RMSE.

    Exit codes: 0 done; 1 there is nothing to draw; 2 wrong usage, or a file that can't be read.
    """
    figure = None if plot is None else _empty_figure(plot)
    candidates, values = choice.candidates, parse_bounds(bounds)
    argument = kind.replace("-", "_")
    bounded: list[dict[str, Any]] = [{argument: value} for value in values]
    found: list[Tradeoff] = []
    with ExitStack() as stack:
        with no_verdict():
            field = stack.enter_context(choice.one())
            dtype, shape = field.values.dtype, field.values.shape
            require_comparable(ErrorBound(BoundKind(argument), values[0]), dtype)
            if field.nbytes <= _MOST_IN_MEMORY:  # it is read several times for each setting
                field = replace(field, values=field.values[...])
        candidates = taking(candidates, dtype)
        settings = [make(**bound) for make in candidates for bound in bounded]
        with progress_bar(field.nbytes * len(settings)) as advance:
            for codec in settings:
                advance(0, f"{candidate_name(codec)} {codec.bound.value:g}")
                found.append(measure(field, codec, timed=True))
                advance(field.nbytes)
    requested = values * len(candidates)
    rows = [
        _row(one, value, on_front=best)
        for one, value, best in zip(found, requested, front(found), strict=True)
    ]
    try:
        if csv_path is not None:
            with naming(csv_path), csv_path.open("w", encoding="utf-8", newline="") as out:
                table = csv.DictWriter(out, rows[0], lineterminator="\n")
                table.writeheader()
                table.writerows(rows)
        if plot is not None and figure is not None:
            _draw(rows, figure, f"{printable(field.path)}, {kind} bounds {bounds}")
            with naming(plot):
                save(figure, plot, _format(plot))
    finally:  # what was found is shown even if a file can't be written
        if as_json:
            say_json({"path": field.path, "kind": argument, "settings": rows})
        else:
            say(f"{printable(field.path)}  {dtype} {shape}  chunks {field.chunks}")
            print_table(
                ("codec", kind, *(heading for heading, *_ in _NUMBERS), "MB/s enc/dec", ""),
                [
                    (
                        row["codec"],
                        f"{row['bound']:.3g}",
                        *(
                            row[name] if isinstance(row[name], str) else number(row[name], digits)
                            for _, name, digits in _NUMBERS
                        ),
                        f"{row['encode_mb_s']:.0f} / {row['decode_mb_s']:.0f}",
                        "*" if row["front"] else "",
                    )
                    for row in rows
                ],
                optional=("gain", "1-SSIM", "MB/s enc/dec"),
            )


def _empty_figure(path: Path) -> Figure:
    """Make the figure to draw in, before any work is done."""
    try:
        figure = new_figure(8, 4.5)
    except ImportError as error:
        raise click.ClickException(str(error)) from None
    formats = figure.canvas.get_supported_filetypes()
    if _format(path) not in formats:
        raise click.UsageError(f"--plot writes .{', .'.join(sorted(formats))}; got {path.name!r}")
    return figure


def _format(path: Path) -> str:
    return path.suffix[1:].lower()


def _row(one: Tradeoff, bound: float, *, on_front: bool) -> dict[str, Any]:
    """Return the columns of one setting."""
    report, size = one.report, one.size
    megabytes = size.raw_bytes / 1e6
    plain = {
        "ratio": size.ratio,
        "bits_per_value": size.bits_per_value,
        "psnr": report.error.psnr,
        "one_minus_ssim": report.ssim.one_minus_mean if report.ssim else None,
        "max_error": report.error.max_abs,
        "rmse": report.error.rmse,
        "encode_mb_s": megabytes / max(one.encode_seconds, 1e-9),
        "decode_mb_s": megabytes / max(one.decode_seconds, 1e-9),
        "accuracy_gain": size.accuracy_gain,
    }
    found = {name: plain_number(value) for name, value in plain.items()}
    return {"codec": candidate_name(one.codec), "bound": bound, **found, "front": on_front}


def _draw(rows: Sequence[dict[str, Any]], figure: Figure, title: str) -> None:
    """Draw PSNR over bits per value: a line for each codec, stars on the front."""
    drawn = [r for r in rows if isinstance(r["psnr"], float) and r["bits_per_value"] is not None]
    if not drawn:
        raise click.ClickException("there is nothing to draw: no setting has a finite PSNR")
    drawn.sort(key=lambda row: row["bits_per_value"])
    axes = figure.subplots()
    for i, codec in enumerate(dict.fromkeys(row["codec"] for row in rows)):
        own = [row for row in drawn if row["codec"] == codec]
        best = [row for row in own if row["front"]]
        points, stars = (
            ([row["bits_per_value"] for row in some], [row["psnr"] for row in some])
            for some in (own, best)
        )
        style = "-" if i % 2 == 0 else (0, (4, 3))  # two codecs may give the same
        [line] = axes.plot(*points, marker="o", markersize=3, linestyle=style, label=codec)
        axes.plot(*stars, color=line.get_color(), marker="*", linestyle="", markersize=9)
    front = "the front: no setting has\nfewer bits and a smaller RMSE"
    axes.plot([], [], color="0.4", marker="*", linestyle="", markersize=9, label=front)
    axes.set(xlim=(0, None), xlabel="bits per value", ylabel="PSNR (dB)")
    axes.set_title(title, parse_math=False)
    axes.grid(color="0.9")
    figure.legend(loc="outside right upper", frameon=False)

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""``h5lossy sweep``: rate and distortion of codecs and bounds for one dataset."""

from __future__ import annotations

import csv
import io
import json
import math
from typing import TYPE_CHECKING, Any

import click

from h5lossy import BoundKind
from h5lossy.assessment.tradeoff import Tradeoff, front, measure
from h5lossy.cli._console import print_table, printable, say
from h5lossy.cli._field import codecs_named, plain_number, read_field
from h5lossy.cli._options import FileToWrite, range_options
from h5lossy.cli._progress import progress_bar

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from h5lossy.codecs import Codec

_COLUMNS = (
    "codec",
    "bound",
    "ratio",
    "bits_per_value",
    "psnr",
    "one_minus_ssim",
    "max_error",
    "rmse",
    "encode_mb_s",
    "decode_mb_s",
    "accuracy_gain",
    "front",
)


def parse_bounds(text: str) -> list[float]:
    """Read bounds: a list, or a range of powers of ten in steps of one.

    Parameters
    ----------
    text : str

    Returns
    -------
    list of float

    Raises
    ------
    click.UsageError
        If it can't be read.

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
    except ValueError:
        raise click.UsageError(
            f"--bounds takes numbers as 1e-1,1e-2 or a range as 1e-1..1e-4, got {text!r}"
        ) from None


@click.command()
@click.argument("place", metavar="FILE")
@click.option(
    "-d", "--dataset", "pattern", metavar="GLOB", help="The dataset, if there are several."
)
@click.option(
    "--codecs",
    default="pfpl,cuszp2,aatrox",
    show_default=True,
    metavar="NAMES",
    help="Which codecs, separated by commas.",
)
@click.option(
    "--bounds",
    default="1e-2..1e-5",
    show_default=True,
    metavar="BOUNDS",
    help="Numbers separated by commas, or powers of ten as 1e-1..1e-4.",
)
@click.option(
    "--kind",
    type=click.Choice([kind.replace("_", "-") for kind in BoundKind if kind != "lossless"]),
    default="range-relative",
    show_default=True,
    help="What the bounds limit.",
)
@click.option("--chunks", default="keep", show_default=True, help="Chunk shape, as for repack.")
@range_options
@click.option(
    "--csv",
    "csv_path",
    type=FileToWrite(),
    metavar="FILE",
    help="Write the table.",
)
@click.option(
    "--plot",
    type=FileToWrite(".svg"),
    metavar="FILE.svg",
    help="Draw PSNR over bits per value.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def sweep(
    place: str,
    *,
    pattern: str | None,
    codecs: str,
    bounds: str,
    kind: str,
    chunks: str,
    missing_value: tuple[float, ...],
    confirm_range: bool,
    csv_path: Path | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Encode one dataset of FILE with several codecs and bounds, and print what each gives.

    Nothing is written to FILE. The data is read into memory. Speeds are of one thread, for
    orientation. A star marks the front: no other setting has fewer bits and a smaller RMSE.
    """
    classes, values = codecs_named(codecs), parse_bounds(bounds)
    argument = kind.replace("-", "_")
    settings = [_setting(codec, argument, value) for codec in classes for value in values]
    field = read_field(place, pattern, chunks, missing_value)
    found: list[Tradeoff] = []
    with progress_bar(field.values.nbytes * len(settings)) as advance:
        for codec in settings:
            advance(0, f"{codec.codec_name} {codec.bound.value:g}")
            found.append(
                measure(
                    field.values,
                    codec,
                    chunks=field.chunks,
                    missing=field.missing,
                    confirm_range=confirm_range,
                )
            )
            advance(field.values.nbytes)
    requested = [codec.bound.value for codec in settings]
    rows = [
        _row(one, value, on_front=best)
        for one, value, best in zip(found, requested, front(found), strict=True)
    ]
    if csv_path is not None:
        csv_path.write_text(_csv(rows), encoding="utf-8")
    if plot is not None:
        plot.write_text(_svg(rows), encoding="utf-8")
    if as_json:
        click.echo(json.dumps({"path": field.path, "kind": argument, "settings": rows}, indent=2))
        return
    say(
        f"{printable(field.path)}  {field.values.dtype} {field.values.shape}  chunks {field.chunks}"
    )
    print_table(
        (
            "codec",
            kind,
            "ratio",
            "bits/val",
            "PSNR dB",
            "1-SSIM",
            "max err",
            "MB/s enc/dec",
            "gain",
            "",
        ),
        [
            (
                row["codec"],
                f"{row['bound']:.3g}",
                _number(row["ratio"], 4),
                _number(row["bits_per_value"], 4),
                _number(row["psnr"], 5),
                _number(row["one_minus_ssim"], 3),
                _number(row["max_error"], 4),
                f"{row['encode_mb_s']:.0f} / {row['decode_mb_s']:.0f}",
                _number(row["accuracy_gain"], 3),
                "*" if row["front"] else "",
            )
            for row in rows
        ],
    )


def _setting(codec: type[Codec], kind: str, value: float) -> Codec:
    bound: dict[str, Any] = {kind: value}
    return codec(**bound)


def _row(one: Tradeoff, bound: float, *, on_front: bool) -> dict[str, Any]:
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
    return {"codec": one.codec.codec_name, "bound": bound, **found, "front": on_front}


def _number(value: float | str | None, digits: int) -> str:
    return value if isinstance(value, str) else "-" if value is None else f"{value:.{digits}g}"


def _csv(rows: Sequence[dict[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _svg(rows: Sequence[dict[str, Any]]) -> str:
    """Draw PSNR over bits per value: a line for each codec."""
    width, height, left, right, top, bottom = 720, 440, 64, 24, 20, 52
    drawn = [r for r in rows if isinstance(r["psnr"], float) and r["bits_per_value"] is not None]
    if not drawn:
        raise click.ClickException("there is nothing to draw: no setting has a finite PSNR")
    x_end = 1.08 * max(r["bits_per_value"] for r in drawn)
    low, high = min(r["psnr"] for r in drawn), max(r["psnr"] for r in drawn)
    pad = 0.08 * (high - low) or 1.0
    low, high = low - pad, high + pad

    def x(value: float) -> float:
        return float(left + value / x_end * (width - left - right))

    def y(value: float) -> float:
        return float(top + (high - value) / (high - low) * (height - top - bottom))

    colours = ("#2f6fb0", "#d9722c", "#3a9d6e", "#8a5fb5", "#b0413e")
    parts = [
        f'<line x1="{left}" x2="{width - right}" y1="{y(value):.1f}" y2="{y(value):.1f}" '
        f'stroke="#dfe3e8"/><text x="{left - 8}" y="{y(value) + 4:.1f}" '
        f'text-anchor="end">{value:g}</text>'
        for value in _ticks(low, high)
    ]
    parts += [
        f'<text x="{x(value):.1f}" y="{height - bottom + 20}" text-anchor="middle">{value:g}</text>'
        for value in _ticks(0, x_end)
    ]
    for k, codec in enumerate(dict.fromkeys(r["codec"] for r in drawn)):
        colour = colours[k % len(colours)]
        own = sorted(
            (r for r in drawn if r["codec"] == codec), key=lambda r: float(r["bits_per_value"])
        )
        points = " ".join(f"{x(r['bits_per_value']):.1f},{y(r['psnr']):.1f}" for r in own)
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        parts += [
            f'<circle cx="{x(r["bits_per_value"]):.1f}" cy="{y(r["psnr"]):.1f}" '
            f'r="{5 if r["front"] else 3}" fill="{colour}"><title>{codec} {r["bound"]:g}</title>'
            "</circle>"
            for r in own
        ]
        parts.append(
            f'<text x="{left + 14}" y="{top + 18 + 18 * k}" fill="{colour}" '
            f'style="font-weight:600">{codec}</text>'
        )
    parts.append(
        f'<text x="{(left + width) / 2:.0f}" y="{height - 10}" text-anchor="middle">'
        "bits per value</text>"
        f'<text x="16" y="{height / 2:.0f}" text-anchor="middle" '
        f'transform="rotate(-90 16 {height / 2:.0f})">PSNR, dB</text>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="system-ui, sans-serif" font-size="13" fill="#3a4452">'
        f'<rect width="{width}" height="{height}" fill="#fff"/>{"".join(parts)}</svg>\n'
    )


def _ticks(low: float, high: float) -> list[float]:
    """Return round numbers of an interval, about four to ten of them.

    Examples
    --------
    >>> _ticks(2.1, 9.3)
    [3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]
    """
    power = 10.0 ** math.floor(math.log10((high - low) / 4))
    steps = (power / 2, power, 2 * power, 5 * power)  # the logarithm may have been rounded up
    step = max(s for s in steps if s <= (high - low) / 4)
    return [step * i for i in range(math.ceil(low / step), math.floor(high / step) + 1)]

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""``h5lossy assess``: compare decoded data with its original, with a verdict."""

from __future__ import annotations

import math
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

import h5lossy
from h5lossy._cli._console import printable, say, say_json
from h5lossy._cli._files import (
    FAILED,
    datasets_in,
    is_float,
    no_verdict,
    open_file,
)
from h5lossy._cli._options import (
    FileToWrite,
    bound_option,
    json_option,
    missing_option,
    quiet_option,
)
from h5lossy._cli._progress import progress_bar
from h5lossy._names import dataset_at, split_place
from h5lossy.assessment import GROUPS, PROFILES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import h5py

    from h5lossy import ErrorBound, Report


def _threshold(text: str) -> tuple[str, float]:
    """Read NAME=THRESHOLD."""
    name, separator, value = text.rpartition("=")
    try:
        number = float(value)
    except ValueError:
        number = float("nan")
    if not separator or math.isnan(number):
        raise click.UsageError(
            f"--threshold-crossings takes NAME=THRESHOLD, such as rain=1e-4, got {text!r}"
        )
    return name, number


@click.command()
@click.argument("original", metavar="ORIGINAL")
@click.argument("decoded", metavar="DECODED")
@click.option(
    "-d",
    "--dataset",
    "patterns",
    multiple=True,
    metavar="GLOB",
    help="Datasets to compare, of the same path in both files; a glob as in h5lossy repack. May be "
    "repeated. [default: all float datasets that DECODED has]",
)
@bound_option
@click.option(
    "--require",
    metavar="THRESHOLDS",
    help="More to meet, such as 'psnr>=70, ssim>=0.9999, max_error<=0.1'.",
)
@click.option(
    "--metrics",
    default="standard",
    show_default=True,
    metavar="NAMES",
    help=f"A profile ({', '.join(PROFILES)}), or groups separated by commas "
    f"({', '.join(sorted(GROUPS))}).",
)
@click.option("--data-range", type=float, metavar="R", help="Range for SSIM. [default: max - min]")
@click.option(
    "--fill-value",
    type=float,
    metavar="V",
    help="Leave these values out. [default: HDF5's fill value, or the attribute _FillValue]",
)
@missing_option
@click.option(
    "--mask", metavar="FILE:/PATH", help="Dataset that is not 0 where points are left out."
)
@click.option(
    "--spacing", metavar="H[,H...]", help="Distance of points, one or one an axis. [default: 1]"
)
@click.option("--window", default=7, show_default=True, help="Side of SSIM's windows, 2 to 16.")
@click.option("--step", default=1, show_default=True, help="Distance of SSIM's windows.")
@click.option("--lags", default=10, show_default=True, help="Lags of the autocorrelation, 0 to 16.")
@click.option(
    "--threshold-crossings",
    multiple=True,
    metavar="NAME=THRESHOLD",
    help="Count points that change from one side of a threshold to the other. May be repeated.",
)
@click.option("--threads", type=click.IntRange(min=1), help="At most so many. [default: all CPUs]")
@click.option(
    "--memory-limit",
    default="256 MiB",
    show_default=True,
    metavar="SIZE",
    help="For what is read from files.",
)
@json_option
@click.option("--markdown", is_flag=True, help="Print Markdown.")
@click.option(
    "--html",
    type=FileToWrite(),
    metavar="FILE",
    help="Write one HTML page with slices; for one dataset.",
)
@quiet_option
def assess(
    original: str,
    decoded: str,
    *,
    patterns: tuple[str, ...],
    bound: ErrorBound | None,
    html: Path | None,
    as_json: bool,
    markdown: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Compare DECODED with ORIGINAL: what was lost, and whether the bound holds.

    Both are HDF5 files, or datasets in them, as file.h5:/path. Without a bound the one that
    DECODED's datasets state is checked, if h5lossy compressed them. The documentation, "What each
    number means", defines all numbers.

    Exit codes: 0 all checks passed; 1 a check failed; 2 wrong usage, or a file that can't be read;
    3 fields that can't be compared.
    """
    reports: list[Report] = []
    with no_verdict():
        settings = _settings(options, bound) | {"slices": html is not None}
        pairs = list(_pairs(original, decoded, patterns))
        if html is not None and len(pairs) > 1:
            raise click.UsageError(
                f"--html is for one dataset, and {len(pairs)} are compared; choose one with -d"
            )
        for x, y in pairs:
            reports.append(_assess(x, y, settings))
            if not (as_json or quiet):
                say(reports[-1].to_markdown() if markdown else reports[-1].to_text())
        if html is not None:
            reports[0].to_html(html)
    if as_json:
        say_json({"reports": [report.to_dict() for report in reports]})
    if not all(report.ok for report in reports):
        click.get_current_context().exit(FAILED)


def _settings(options: dict[str, Any], bound: ErrorBound | None) -> dict[str, Any]:
    """Return the arguments of `h5lossy.assess`."""
    spacing = options["spacing"]
    settings = {
        "bound": bound,
        "require": options["require"],
        "metrics": [name.strip() for name in str(options["metrics"]).split(",")],
        "data_range": options["data_range"],
        "mask": options["mask"],
        "missing_value": options["missing_value"],
        "ssim": {"window": options["window"], "step": options["step"]},
        "lags": options["lags"],
        "threshold_crossings": dict(map(_threshold, options["threshold_crossings"])),
        "threads": options["threads"],
        "memory_limit": options["memory_limit"],
    }
    if options["fill_value"] is not None:
        settings["fill_value"] = options["fill_value"]
    if spacing is not None:
        try:
            settings["spacing"] = [float(part) for part in spacing.split(",")]
        except ValueError:
            raise click.UsageError(f"--spacing takes numbers, got {spacing!r}") from None
        if len(settings["spacing"]) == 1:
            [settings["spacing"]] = settings["spacing"]
    return settings


def _pairs(original: str, decoded: str, patterns: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield the places to compare."""
    (file_x, path_x), (file_y, path_y) = split_place(original), split_place(decoded)
    if path_x or path_y:
        if patterns:
            raise click.UsageError("give -d, or paths behind the files, but not both")
        yield (f"{file_x}:{path_x or path_y}", f"{file_y}:{path_y or path_x}")
        return
    with open_file(file_x) as x, open_file(file_y) as y:
        datasets = datasets_in(y, patterns)
        found = [name for name, dataset in datasets.items() if patterns or is_float(dataset)]
        missing = [name for name in found if dataset_at(x, name) is None]
    if missing:
        raise click.ClickException(f"{file_x} has no dataset {printable(', '.join(missing))}")
    if not found:
        raise click.ClickException(f"{file_y} has no float dataset to compare")
    for name in found:
        yield f"{file_x}:{name}", f"{file_y}:{name}"


def _assess(x: str, y: str, settings: dict[str, Any]) -> Report:
    """Compare one pair of datasets, with a progress bar."""
    mask = settings["mask"]
    with ExitStack() as stack:
        advance = stack.enter_context(progress_bar(None))
        if mask is not None:
            settings = settings | {"mask": _opened(mask, stack)}
        before = 0

        def progress(done: int, total: int) -> None:
            nonlocal before
            advance(done - before, f"assessing {printable(y)}", total)
            before = done

        return h5lossy.assess(x, y, **settings, progress=progress)


def _opened(mask: str, stack: ExitStack) -> h5py.Dataset:
    """Open the dataset of a mask."""
    file, path = split_place(mask)
    if path is None:
        raise click.UsageError(f"--mask takes FILE:/PATH, got {mask!r}")
    found = dataset_at(stack.enter_context(open_file(file)), path)
    if found is None:
        raise click.ClickException(f"there is no dataset {path} in {file}")
    return found

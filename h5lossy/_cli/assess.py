# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""``h5lossy assess``: compare decoded data with its original, with a verdict."""

from __future__ import annotations

import math
import re
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import h5lossy
from h5lossy._cli._console import say, say_json
from h5lossy._cli._files import (
    FAILED,
    Ended,
    dataset_in,
    datasets_in,
    for_each_file,
    no_verdict,
    open_file,
    raise_failures,
    why_of,
)
from h5lossy._cli._options import (
    FileToWrite,
    Number,
    bound_option,
    json_option,
    missing_option,
    quiet_option,
)
from h5lossy._cli._progress import progress_bar
from h5lossy._names import dataset_at, paired_files, split_place
from h5lossy._printable import printable
from h5lossy._values import has_numbers
from h5lossy.assessment import GROUPS, PROFILES
from h5lossy.assessment._many import assess_variable, coordinates_of, is_no_variable
from h5lossy.assessment._rules import Rules
from h5lossy.assessment.render.summary import Pages, of_coordinates
from h5lossy.assessment.reports import Reports

if TYPE_CHECKING:
    from collections.abc import Iterator

    import h5py

    from h5lossy import DivergenceReport, ErrorBound, Report


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
    "repeated. [default: all of floats and integers that DECODED has]",
)
@bound_option
@click.option(
    "--require",
    metavar="THRESHOLDS",
    help="More to meet, such as 'psnr>=70, ssim>=0.9999, max_error<=0.1'; of any number that a "
    "report has: 'error.quantiles.p99<=0.01'.",
)
@click.option(
    "--rules",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A TOML file of bounds, thresholds and other options by dataset; the documentation, "
    "'Measure what was lost', has an example.",
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
    type=Number(),
    metavar="V",
    help="Leave these values out. [default: HDF5's fill value, or the attribute _FillValue]",
)
@missing_option
@click.option(
    "--mask",
    metavar="FILE:/PATH",
    help="Dataset that is not 0 where points are left out; of all axes, or of the last ones.",
)
@click.option(
    "--weights",
    metavar="latitude|FILE:/PATH",
    help="Areas of points, for weighted means: of latitudes, or a dataset.",
)
@click.option(
    "--axes",
    metavar="NAMES",
    help="Axes that windows, derivatives, lags and spectra extend along, by name or number: "
    "lat,lon. [default: the horizontal ones, if dimension scales say so]",
)
@click.option(
    "--spacing", metavar="H[,H...]", help="Distance of points, one or one an axis. [default: 1]"
)
@click.option(
    "--window",
    default="7",
    show_default=True,
    metavar="N[,N...]",
    help="Sides of SSIM's windows, 2 to 16: one, or one for each of the axes.",
)
@click.option("--step", default=1, show_default=True, help="Distance of SSIM's windows.")
@click.option("--lags", default=10, show_default=True, help="Lags of the autocorrelation, 0 to 16.")
@click.option(
    "--threshold-crossings",
    multiple=True,
    metavar="NAME=THRESHOLD",
    help="Count points that change from one side of a threshold to the other. May be repeated.",
)
@click.option(
    "--divergence",
    metavar="NAME,NAME...",
    help="Components of a vector field, one for each of the axes, slowest first (v,u): what became "
    "of its divergence.",
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
    help="Write an HTML page with slices; of several datasets a page for all, worst first, and "
    "those of each behind it, in the folder FILE_pages.",
)
@quiet_option
def assess(
    original: str,
    decoded: str,
    *,
    patterns: tuple[str, ...],
    bound: ErrorBound | None,
    rules: Path | None,
    html: Path | None,
    as_json: bool,
    markdown: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Compare DECODED with ORIGINAL: what was lost, and whether the bound holds.

    Both are HDF5 files, datasets in them (file.h5:/path), or folders, of which files of the same
    name are compared. For a single dataset all numbers are printed; for several, one line each, the
    worst first. Without a bound, the one recorded in DECODED's datasets is checked, if h5lossy
    compressed them. The documentation, "What each number means", defines all numbers.

    Exit codes: 0 all checks passed; 1 a check failed; 2 wrong usage, or a file that can't be read;
    3 fields that can't be compared.
    """
    found: dict[str, Report] = {}
    unchanged: list[str] = []
    divergences: dict[str, DivergenceReport] = {}
    pages = None if html is None else Pages(html)
    failed: dict[Path, Exception] = {}
    with no_verdict(), ExitStack() as stack:
        settings = _settings(options, bound) | {"slices": html is not None}
        if options["mask"] is not None:
            settings["mask"] = dataset_in(*_opened(options["mask"], "--mask", stack))
        settings["weights"] = options["weights"]
        if options["weights"] not in {None, "latitude"}:
            settings["weights"] = dataset_in(*_opened(options["weights"], "--weights", stack))
        places = split_place(original), split_place(decoded)
        files = paired_files(*(Path(file) for file, _ in places))
        paths = tuple(path for _, path in places)
        checked = Rules(rules)

        def compare(path: Path) -> None:
            with no_verdict():
                both = files[path], path
                for name, report in _reports(both, paths, patterns, settings, checked):
                    if report is None:
                        unchanged.append(name)
                        continue
                    if pages is not None:
                        pages.add(name, report)
                    found[name] = replace(report, slices=None)
                if options["divergence"] is not None:
                    names = [name.strip() for name in options["divergence"].split(",")]
                    divergences[f"{path}: {', '.join(names)}"] = _divergence(both, names, settings)

        failed = for_each_file([*files], compare)
        checked.check_used()
        why = {str(path): why_of(error) for path, error in failed.items()}
        all_of_them = Reports(found, why, divergences, unchanged)
    if as_json and (found or not failed):
        say_json(all_of_them.to_dict())
    elif markdown and not quiet:
        say("\n".join(report.to_markdown() for report in found.values()))
    elif found and not quiet:
        if len(found) == len(files) == 1 and not divergences:
            say(
                "\n".join(
                    [next(iter(found.values())).to_text(), of_coordinates(unchanged)]
                ).rstrip()
            )
        else:  # why others were not compared is said below
            say(Reports(found, {}, divergences, unchanged).to_text())
    if pages is not None and found:  # at the end: a full disk must not cost the numbers
        with no_verdict():
            pages.write(all_of_them, why, unchanged)
    raise_failures(failed, len(files), 0 if Reports(found, {}).ok else FAILED)


def _reports(
    files: tuple[Path, Path],
    paths: tuple[str | None, ...],
    patterns: tuple[str, ...],
    settings: dict[str, Any],
    rules: Rules,
) -> Iterator[tuple[str, Report | None]]:
    """Compare the datasets of two files, each of which is open only once, one after another.

    Yield the name of each, and None for coordinates that are unchanged.
    """
    path_x, path_y = paths
    with ExitStack() as stack:
        x, y = (stack.enter_context(open_file(file)) for file in files)
        pairs = {path_y or path_x or "": path_x or path_y or ""}
        coordinates: set[str] = set()
        paths_of: dict[str, tuple[str, ...]] = {name: (name,) for name in pairs}
        if (path_x or path_y) and patterns:
            raise click.UsageError("give -d, or paths behind the files, but not both")
        if not (path_x or path_y):
            names = datasets_in(y, patterns)
            paths_of = names.paths
            pairs = {name: name for name in names if patterns or _is_compared(names[name])}
            coordinates = set() if patterns else coordinates_of(names)
            missing = [name for name in pairs if dataset_at(x, name) is None]
            if missing:
                raise click.ClickException(
                    f"{x.filename} has no dataset {printable(', '.join(missing))}"
                )
            if not pairs:
                raise click.ClickException(f"{y.filename} has no dataset of numbers to compare")
        wanted = {name: rules.options(paths_of[name], settings) for name in pairs}
        pairs = {name: other for name, other in pairs.items() if wanted[name] is not None}
        advance = stack.enter_context(progress_bar(None))
        finished = 0
        failed: dict[str, Ended] = {}
        for name_y, name_x in pairs.items():
            before = 0

            def progress(done: int, total: int, doing: str = f"assessing {name_y}") -> None:
                nonlocal before, finished
                advance(done - before, doing, finished - before + total)
                finished += done - before
                before = done

            try:
                with no_verdict():
                    pair = dataset_in(x, name_x), dataset_in(y, name_y)
                    report = assess_variable(
                        *pair,
                        **(wanted[name_y] or {}),
                        progress=progress,
                        is_coordinate=name_y in coordinates and not rules.names(paths_of[name_y]),
                    )
            except Ended as error:
                failed[name_y] = error
                continue
            shown = f"{y.filename}:{name_y}"
            if report is not None:
                first = f"{x.filename}:{name_x}"
                source = replace(report.provenance, original=first, decoded=shown)
                report = replace(report, provenance=source)
            yield shown, report
        if failed and len(pairs) == 1:
            raise next(iter(failed.values()))
        if failed:
            raise Ended(
                f"{len(failed)} of {len(pairs)} datasets can't be compared:",
                min(one.exit_code for one in failed.values()),
                *(f"{printable(name)}: {why_of(one)}" for name, one in failed.items()),
            )


def _is_compared(dataset: h5py.Dataset) -> bool:
    return has_numbers(dataset) and not is_no_variable(dataset)


def _divergence(
    files: tuple[Path, Path], names: list[str], settings: dict[str, Any]
) -> DivergenceReport:
    """Compare a vector field of two files."""
    taken = ("axes", "spacing", "mask", "memory_limit")
    with ExitStack() as stack:
        opened = [stack.enter_context(open_file(file)) for file in files]
        return h5lossy.assess_divergence(
            *([dataset_in(file, name) for name in names] for file in opened),
            **{name: settings[name] for name in taken if name in settings},
        )


def _settings(options: dict[str, Any], bound: ErrorBound | None) -> dict[str, Any]:
    """Return the arguments of `h5lossy.assess`."""
    spacing = options["spacing"]
    unchanged = ("require", "data_range", "missing_value", "lags", "threads", "memory_limit")
    settings = {name: options[name] for name in unchanged} | {
        "bound": bound,
        "metrics": [name.strip() for name in options["metrics"].split(",")],
        "ssim": {"window": _numbers("--window", options["window"], int), "step": options["step"]},
        "threshold_crossings": dict(map(_threshold, options["threshold_crossings"])),
    }
    if options["axes"] is not None:
        names = [name.strip() for name in options["axes"].split(",")]
        settings["axes"] = [int(n) if re.fullmatch(r"-?\d+", n) else n for n in names]
    if options["fill_value"] is not None:
        settings["fill_value"] = options["fill_value"]
    if spacing is not None:
        settings["spacing"] = _numbers("--spacing", spacing, float)
    return settings


def _numbers(option: str, text: str, kind: type[float]) -> float | list[float]:
    """Read one number, or several separated by commas."""
    try:
        found = [kind(part) for part in text.split(",")]
    except ValueError:
        raise click.UsageError(f"{option} takes numbers, got {text!r}") from None
    return found[0] if len(found) == 1 else found


def _opened(place: str, option: str, stack: ExitStack) -> tuple[h5py.File, str]:
    """Open the file of a place that an option gives."""
    file, path = split_place(place)
    if path is None:
        raise click.UsageError(f"{option} takes FILE:/PATH, got {place!r}")
    return stack.enter_context(open_file(file)), path

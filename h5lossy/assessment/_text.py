# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""A report as text for a terminal, and as Markdown."""

from __future__ import annotations

import html
import itertools
import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h5lossy.assessment.report import AxisCorrelation, Histogram, Report

_BAR = " .:-=+*#%@"
_COLUMNS = 40


def number(value: float | None, digits: int = 6) -> str:
    """Write a number for people."""
    if value is None:
        return "-"
    return f"{value:.{digits}g}"


def about(value: float | None) -> str:
    """Write a quantile, with as many digits as are known."""
    return number(value, 2)


def decibel(value: float | None) -> str:
    """Write a ratio in dB."""
    return "-" if value is None else f"{value:.2f} dB"


def lost(one_minus: float | None) -> str:
    """Write a similarity near 1 so that its digits are seen."""
    if one_minus is None:
        return "-"
    return "1" if one_minus == 0 else f"1 - {one_minus:.3g}"


def size(n: int) -> str:
    """Write a number of bytes."""
    if n < 1000:
        return f"{n} B"
    power = min((len(str(n)) - 1) // 3, 4)
    return f"{n / 1000**power:.2f} {' kMGT'[power]}B"


def place(at: tuple[int, ...] | None) -> str:
    """Write coordinates."""
    return "" if at is None else f"at ({', '.join(map(str, at))})"


def _short(value: object) -> str:
    """Write what a caller's metric gave, in one line."""
    text = number(value) if isinstance(value, float) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def verdict(report: Report) -> str:
    """Return PASS or FAIL; "measured" where nothing was promised."""
    if not report.ok:
        return "FAIL"
    return "PASS" if report.bound is not None or report.requirements else "measured"


def definitions(report: Report) -> str:
    """Return in one line what the numbers rest on."""
    parts = [f"definitions: {report.schema}"]
    if report.ssim is not None:
        side = "x".join([str(report.ssim.window)] * (sum(n != 1 for n in report.shape) or 1))
        parts.append(f"SSIM {side} uniform, step {report.ssim.step}, range of the original")
    return "; ".join(parts)


def whiteness(axes: tuple[AxisCorrelation, ...]) -> tuple[str, str, str]:
    """Return the correlation at lag 1 along each axis, its band, and how many lags are in it."""
    along = [axis for axis in axes if axis.axis is not None]
    first = " ".join("-" if a.values[0] is None else f"{a.values[0]:+.4f}" for a in along)
    bands = [a.band[0] for a in along if a.band[0] is not None]
    inside = [
        abs(value) <= band
        for axis in along
        for value, band in zip(axis.values, axis.band, strict=True)
        if value is not None and band is not None
    ]
    if not inside or not bands:
        return first, "", "not defined"
    return first, f"95% band +-{max(bands):.2g}", f"{sum(inside)} of {len(inside)} lags within"


def sketch(histogram: Histogram) -> str:
    """Draw the histogram in one line of characters."""
    counts = list(histogram.counts)
    out = histogram.below + histogram.above
    beyond = f"  {out} further out" if out else ""
    used = [i for i, count in enumerate(counts) if count]
    if histogram.bin_width is None or not used:
        return f"-{beyond}"
    reach = max(128 - used[0], used[-1] - 127)
    counts = counts[128 - reach : 128 + reach]
    columns = min(_COLUMNS, len(counts))
    edges = [round(i * len(counts) / columns) for i in range(columns + 1)]
    heights = [sum(counts[a:b]) / max(1, b - a) for a, b in itertools.pairwise(edges)]
    most = max(heights)
    drawn = "".join(_BAR[math.ceil(h / most * (len(_BAR) - 1))] for h in heights)
    end = reach * histogram.bin_width
    return f"{-end:.3g} |{drawn}| {end:+.3g}{beyond}"


def text(report: Report) -> str:
    """Write a report for a terminal."""
    return "\n".join(_lines(report))


def _lines(report: Report) -> Iterator[str]:
    yield f"{report.provenance.decoded}  {report.dtype} {report.shape}  {verdict(report)}"
    yield from _bound_lines(report)
    yield from _special_lines(report)
    yield from _unpacked_lines(report)
    yield from _error_lines(report)
    yield from _field_lines(report)
    for name, value in report.metrics.items():
        yield _line("metric", f"{name}: {_short(value)}")
    for crossing in report.threshold_crossings:
        yield _line(
            "crossings",
            f"{crossing.name} ({crossing.threshold:g}): {crossing.count} points cross it",
        )
    if report.size is not None:
        s = report.size
        yield _line(
            "size",
            f"{size(s.raw_bytes)} -> {size(s.stored_bytes)}   ratio {number(s.ratio, 4)}   "
            f"{number(s.bits_per_value, 3)} bits/value   gain {number(s.accuracy_gain, 3)}",
        )
    for failure in report.failures:
        if failure.check != "bound" and not hasattr(report.special, failure.check):
            yield _line("require", f"{failure.check} {failure.wanted}, got {failure.got}  FAIL")
    for name, why in report.undefined.items():
        yield _line("undefined", f"{name}: {why}")
    yield definitions(report)


def _bound_lines(report: Report) -> Iterator[str]:
    worst = f"max {number(report.error.max_abs, 9)} {place(report.error.max_at)}"
    bound = report.bound
    if bound is None:
        yield _line("bound", "none given", worst)
        return
    yield _line("bound", str(bound), worst)
    yield _line("", f"{bound.violations} of {report.valid} points over it")
    for violation in bound.listed[:4]:
        chunk = f"  chunk {violation.chunk}" if violation.chunk is not None else ""
        yield _line(
            "",
            f"{place(violation.at)}  x {violation.original!r}  y {violation.decoded!r}"
            f"  e {violation.error:.9g}{chunk}",
        )
    if bound.violations > 4:
        yield _line("", "...")


def _special_lines(report: Report) -> Iterator[str]:
    special = report.special
    nan = special.nan_kept + special.nan_changed + special.nan_lost
    inf = special.inf_kept + special.inf_changed
    fill = special.fill_kept + special.fill_lost
    missing = special.missing_kept + special.missing_lost - report.outside
    masked = f"   missing {missing}" if report.missing_values else ""
    masked += f"   not valid {report.outside}" if report.outside else ""
    masked += f"   masked {report.masked}" if report.masked else ""
    kept = "kept as they were" if not special.failed else ""
    yield _line("special", f"nan {nan}   inf {inf}   fill {fill}{masked}", kept)
    for name, count in special.failed.items():
        first = place(special.first.get(name))
        yield _line("", f"{name.replace('_', ' ')} {count} (first {first})  FAIL")


def _unpacked_lines(report: Report) -> Iterator[str]:
    for which in report.provenance.unpacked:
        yield _line("unpacked", which)


def _error_lines(report: Report) -> Iterator[str]:
    error, q = report.error, report.error.quantiles
    yield _line(
        "error",
        f"rmse {number(error.rmse)}   mean {number(error.mean, 3)}   "
        f"P50 {about(q.p50)}  P99 {about(q.p99)}  P99.9 {about(q.p99_9)}",
    )
    psnr, snr = decibel(error.psnr), decibel(error.snr)
    yield _line("", f"PSNR {psnr} (range)", f"SNR {snr} (variance)")
    pointwise = error.pointwise
    yield _line(
        "",
        f"relative {number(error.max_relative, 3)} of range {number(report.original.range)}",
        f"pointwise: mean {number(pointwise.mean, 3)}, max {number(pointwise.max, 3)}",
    )


def _field_lines(report: Report) -> Iterator[str]:
    correlation = report.correlation
    nines = f"({number(correlation.nines, 2)} nines)"
    similarity = f"pearson {lost(correlation.one_minus_pearson)} {nines}"
    windows = ""
    if report.ssim is not None:
        worst = lost(report.ssim.one_minus_min)
        windows = f"SSIM {lost(report.ssim.one_minus_mean)} (min {worst})"
    yield _line("similarity", similarity, windows)
    if report.derivatives is not None:
        d = report.derivatives
        yield _line(
            "gradient",
            f"PSNR {decibel(d.gradient_psnr)}, max {number(d.gradient_max_error, 3)}",
            f"Laplacian rmse {number(d.laplacian_rmse, 3)}",
        )
    if report.autocorrelation is not None:
        lag, band, within = whiteness(report.autocorrelation)
        yield _line("whiteness", f"lag 1: {lag}  ({band})" if band else "", within)
    exact = report.error.max_abs == 0
    yield _line("histogram", "all errors are 0" if exact else sketch(report.histogram))
    if report.climate is not None:
        c = report.climate
        yield _line("climate", f"DSSIM min {number(c.dssim_min)}, mean {number(c.dssim_mean)}")
    if report.spectrum is not None:
        s = report.spectrum
        yield _line("spectrum", f"P'/P off by {number(s.max_deviation, 3)} at most, k < {s.k_max}")


def _line(head: str, first: str, second: str = "") -> str:
    return f"  {head:<10} {first:<48} {second}".rstrip()


def rows(report: Report) -> list[tuple[str, str, str]]:
    """Return a table of what matters most: group, name, value."""
    error, special = report.error, report.special
    table = [
        ("data", "points", f"{report.valid} of {report.points} valid"),
        ("data", "range of the original", number(report.original.range)),
        ("error", "largest", f"{number(error.max_abs, 9)} {place(error.max_at)}".strip()),
        ("error", "RMSE", number(error.rmse, 9)),
        ("error", "mean (bias)", number(error.mean, 3)),
        (
            "error",
            "P50 / P99 / P99.9",
            " / ".join(
                about(v) for v in (error.quantiles.p50, error.quantiles.p99, error.quantiles.p99_9)
            ),
        ),
        ("error", "PSNR, 20 log10(range / RMSE)", decibel(error.psnr)),
        ("error", "SNR, 10 log10(variance / MSE)", decibel(error.snr)),
        ("error", "largest over range", number(error.max_relative, 4)),
        (
            "error",
            "pointwise relative, mean / max",
            f"{number(error.pointwise.mean, 3)} / {number(error.pointwise.max, 3)}",
        ),
        ("similarity", "Pearson", lost(report.correlation.one_minus_pearson)),
        ("similarity", "nines of Pearson", number(report.correlation.nines, 3)),
    ]
    if report.ssim is not None:
        table.append(("similarity", "SSIM, mean", lost(report.ssim.one_minus_mean)))
        table.append(
            (
                "similarity",
                "SSIM, worst window",
                f"{lost(report.ssim.one_minus_min)} {place(report.ssim.min_at)}".strip(),
            )
        )
    if report.derivatives is not None:
        d = report.derivatives
        table.append(("derivatives", "PSNR of the gradient", decibel(d.gradient_psnr)))
        table.append(("derivatives", "largest gradient error", number(d.gradient_max_error, 4)))
        table.append(("derivatives", "RMSE of the Laplacian", number(d.laplacian_rmse, 4)))
        table.append(("derivatives", "H1 error", number(d.h1_error, 4)))
    if report.autocorrelation is not None:
        first, band, within = whiteness(report.autocorrelation)
        table.append(("whiteness", f"autocorrelation at lag 1{', ' if band else ''}{band}", first))
        table.append(("whiteness", "autocorrelation, within the 95% band", within))
    if report.climate is not None:
        table.append(
            (
                "climate",
                "DSSIM, worst / mean slice",
                f"{number(report.climate.dssim_min)} / {number(report.climate.dssim_mean)}",
            )
        )
    if report.spectrum is not None:
        table.append(
            (
                "spectrum",
                f"power ratio off 1, k < {report.spectrum.k_max}",
                number(report.spectrum.max_deviation, 3),
            )
        )
    table += [
        (
            "threshold crossings",
            f"{crossing.name} ({crossing.threshold:g})",
            f"{crossing.count} points",
        )
        for crossing in report.threshold_crossings
    ]
    table += [("metrics", name, _short(value)) for name, value in report.metrics.items()]
    kept = special.nan_kept + special.inf_kept + special.fill_kept + special.missing_kept
    table.append(("special", "NaN, Inf, fill and missing values kept", str(kept)))
    table += [("special", name.replace("_", " "), str(n)) for name, n in special.failed.items()]
    table += [("data", "unpacked", which) for which in report.provenance.unpacked]
    if report.size is not None:
        s = report.size
        table.append(("size", "raw / stored", f"{size(s.raw_bytes)} / {size(s.stored_bytes)}"))
        table.append(("size", "ratio", number(s.ratio, 4)))
        table.append(("size", "bits per value", number(s.bits_per_value, 4)))
        table.append(("size", "accuracy gain, bits", number(s.accuracy_gain, 4)))
    return table


def printable(name: str | bytes) -> str:
    r"""Escape a name from a file for a terminal.

    Parameters
    ----------
    name : str or bytes
        May hold control characters, or bytes that are not UTF-8 (in a str, as lone surrogates).

    Returns
    -------
    str
        The name, with unprintable characters as escapes such as ``\x1b``.

    Examples
    --------
    >>> printable("/a\x1b[31m")
    '/a\\x1b[31m'
    """
    text = name.decode(errors="surrogateescape") if isinstance(name, bytes) else name
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


def _escaped(text: str) -> str:
    """Escape text for Markdown, on one line: names may hold anything."""
    return re.sub(r"([\\`*_\[\]|~])", r"\\\1", html.escape(printable(text), quote=False))


def markdown(report: Report) -> str:
    """Write a report as Markdown."""
    shape = " x ".join(map(str, report.shape)) or "scalar"
    lines = [
        f"# {verdict(report)}: {_escaped(report.provenance.decoded)}",
        "",
        f"Compared with {_escaped(report.provenance.original)}: {report.dtype}, {shape}.",
        "",
    ]
    if report.bound is not None:
        lines += [
            f"Bound {report.bound}: {report.bound.violations} of {report.valid} points over it.",
            "",
        ]
    for failure in report.failures:
        where = f" {place(failure.where)}" if failure.where is not None else ""
        found = _escaped(f"wanted {failure.wanted}, got {failure.got}{where}")
        lines.append(f"- **{_escaped(failure.check)}**: {found}")
    if report.failures:
        lines.append("")
    lines += ["| | | |", "|---|---|---|"]
    lines += [
        f"| {group} | {_escaped(name)} | {_escaped(value)} |" for group, name, value in rows(report)
    ]
    if report.undefined:
        lines += ["", "Not defined here:", ""]
        lines += [f"- {_escaped(f'{name}: {why}')}" for name, why in report.undefined.items()]
    lines += ["", f"{definitions(report)}. h5lossy {report.provenance.h5lossy}.", ""]
    return "\n".join(lines)

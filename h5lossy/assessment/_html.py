# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""A report as one HTML page that needs nothing else: no scripts, no fonts, no network."""

from __future__ import annotations

import base64
import math
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from h5lossy.assessment import _text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from h5lossy.assessment._slices import FieldSlice
    from h5lossy.assessment.report import Report

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5b6675; --line: #dfe3e8; --paper: #ffffff;
  --card: #f7f8fa; --good: #0a7d4f; --bad: #c0312b; --blue: #2f6fb0; --band: #e9b949; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --soft: #9aa5b4; --line: #323a45;
  --paper: #14181e; --card: #1b2129; --good: #3ecf8e; --bad: #ff6b61; --blue: #6fb1f0; --band: #d9a93a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 32px 24px 48px; }
header { display: flex; align-items: flex-start; gap: 20px; flex-wrap: wrap; margin-bottom: 20px; }
header div { flex: 1 1 420px; min-width: 0; }
h1 { font-size: 22px; line-height: 1.3; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 16px; margin: 36px 0 10px; }
p { margin: 4px 0; } .soft, figcaption, .note { color: var(--soft); font-size: 13px; }
.verdict { font-weight: 700; font-size: 20px; padding: 6px 18px; border-radius: 8px; color: #fff;
  letter-spacing: .04em; background: var(--soft); }
.verdict.pass { background: #0a7d4f; } .verdict.fail { background: #c0312b; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(126px, 1fr)); gap: 12px; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 10px 12px; }
.tile b { display: block; font-size: 16.5px; line-height: 1.25; font-variant-numeric: tabular-nums;
  white-space: nowrap; }
.tile span { color: var(--soft); font-size: 12.5px; }
.fails { border-left: 4px solid var(--bad); background: var(--card); padding: 10px 16px; margin: 18px 0 0; }
.fails li { margin: 2px 0; overflow-wrap: anywhere; } .fails ul { margin: 4px 0; padding-left: 18px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
td, th { text-align: left; padding: 5px 10px 5px 0; border-bottom: 1px solid var(--line);
  vertical-align: top; font-weight: 400; }
th { color: var(--soft); font-size: 13px; } td:last-child { text-align: right; padding-right: 0; }
.columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(420px, 1fr)); gap: 8px 40px; }
figure { margin: 0; } figcaption { margin-top: 4px; }
svg { width: 100%; height: auto; display: block; } svg text { fill: var(--soft); font-size: 12px; }
.panels { display: grid; grid-template-columns: repeat(3, 1fr); gap: 14px; margin-bottom: 18px; }
.panels img { width: 100%; image-rendering: pixelated; border: 1px solid var(--line); border-radius: 4px;
  display: block; background: var(--card); }
.scale { height: 8px; border-radius: 4px; margin-top: 6px; }
.ends { display: flex; justify-content: space-between; font-size: 12px; color: var(--soft); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 4px 18px; font-size: 13.5px; }
dt { font-weight: 600; } dd { margin: 0; color: var(--soft); }
footer { margin-top: 36px; border-top: 1px solid var(--line); padding-top: 10px; }
@media (max-width: 640px) { .columns { grid-template-columns: 1fr; } .panels { grid-template-columns: 1fr; }
  dl { grid-template-columns: 1fr; } }
"""

#: Colours from low to high; between them they are mixed. The first is viridis.
_SEQUENTIAL = ((68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37))
_DIVERGING = ((33, 78, 139), (126, 172, 214), (247, 247, 247), (236, 148, 118), (158, 32, 38))
_HEAT = ((255, 247, 228), (253, 205, 132), (240, 120, 60), (186, 36, 42), (84, 8, 32))
_NOTHING = (160, 166, 175)

_DEFINITIONS = (
    (
        "error e",
        (
            "decoded less original, in float64, at valid points: finite in both fields, not the "
            "fill value, not masked"
        ),
    ),
    ("bound", "judged in exact arithmetic against the number as it was typed"),
    ("PSNR", "20 log10(range of the original / RMSE)"),
    ("SNR", "10 log10(variance of the original / MSE)"),
    ("pointwise relative", "|e| / |x|, where x is not 0"),
    ("Pearson, nines", "correlation r of both fields; its nines are -log10(1 - r)"),
    (
        "SSIM",
        (
            "mean over uniform windows of valid points, population moments, C1 = (0.01 R)^2, "
            "C2 = (0.03 R)^2, R the range of the original"
        ),
    ),
    (
        "gradient, Laplacian",
        "central differences at points that have both neighbours along every axis",
    ),
    ("H1 error", "root of the mean of e^2 and the squares of its slopes"),
    (
        "autocorrelation",
        (
            "of the error along each axis, over all pairs so far apart; white noise stays "
            "within 1.96 / root(pairs) in 95 % of cases"
        ),
    ),
    ("DSSIM", "data SSIM of Baker, Pinard and Hammerling (2024), slices along the last two axes"),
    ("accuracy gain", "log2(standard deviation / RMSE) less the bits per value"),
)


def page(report: Report) -> str:
    """Write a report as one HTML page."""
    title = f"{_text.verdict(report)}: {report.provenance.decoded}"
    body = "\n".join(part for part in _parts(report) if part)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _parts(report: Report) -> Iterable[str]:
    yield _header(report)
    yield _tiles(report)
    yield _failures(report)
    yield '<div class="columns">'
    yield _section("Errors", _histogram(report))
    yield _section("Autocorrelation of the error", _autocorrelation(report))
    yield "</div>"
    for i, shown in enumerate(report.slices or ()):
        yield (_section("Slices", "") if i == 0 else "") + _panels(shown, report)
    yield '<div class="columns">'
    yield _section("Largest error of each chunk", _chunk_map(report))
    yield _section("Errors relative to the value", _relative(report))
    yield _section("Power spectrum, decoded over original", _spectrum(report))
    yield "</div>"
    yield _section("Numbers", _table(report))
    yield _section("Definitions", _definitions(report))
    yield _footer(report)


def _section(title: str, content: str) -> str:
    if title == "Slices":
        return "<h2>Slices</h2>"
    return f"<section><h2>{escape(title)}</h2>\n{content}\n</section>" if content else ""


def _header(report: Report) -> str:
    word = _text.verdict(report)
    shape = " × ".join(map(str, report.shape)) or "scalar"
    promise = "no bound was given"
    if report.bound is not None:
        promise = f"bound {report.bound}"
        if report.bound.source == "file":
            promise += ", as the file says"
    return (
        f"<header><div><h1>{escape(report.provenance.decoded)}</h1>"
        f'<p class="soft">compared with {escape(report.provenance.original)} · '
        f"{escape(report.dtype)} {shape} · {escape(promise)}</p></div>"
        f'<span class="verdict {word.lower()}">{word}</span></header>'
    )


def _tiles(report: Report) -> str:
    error = report.error
    tiles = [(_text.number(error.max_abs, 4), "largest error")]
    if report.bound is not None:
        tiles.append((f"{report.bound.violations:,}".replace(",", " "), "points over the bound"))
    tiles.append((_text.decibel(error.psnr), "PSNR"))
    if report.ssim is not None:
        tiles.append((_text.lost(report.ssim.one_minus_mean), "SSIM"))
    tiles.append((_text.number(report.correlation.nines, 2), "nines of Pearson"))
    if report.derivatives is not None:
        tiles.append((_text.decibel(report.derivatives.gradient_psnr), "PSNR of the gradient"))
    if report.size is not None:
        tiles.append((_text.number(report.size.ratio, 4), "ratio"))
    cells = "".join(
        f'<div class="tile"><b>{escape(value)}</b><span>{escape(name)}</span></div>'
        for value, name in tiles
    )
    return f'<div class="tiles">{cells}</div>'


def _failures(report: Report) -> str:
    if report.ok:
        return ""
    items = []
    for failure in report.failures:
        where = f" {_text.place(failure.where)}" if failure.where is not None else ""
        items.append(
            f"<li><b>{escape(failure.check.replace('_', ' '))}</b>: wanted {escape(failure.wanted)}, "
            f"got {escape(failure.got + where)}</li>"
        )
    table = ""
    if report.bound is not None and report.bound.listed:
        rows = "".join(
            f"<tr><td>{escape(str(v.at))}</td><td>{escape(str(v.chunk or '-'))}</td>"
            f"<td>{v.original!r}</td><td>{v.decoded!r}</td><td>{v.error:.9g}</td></tr>"
            for v in report.bound.listed
        )
        if len(report.bound.listed) < report.bound.violations:
            table = f'<p class="note">The first {len(report.bound.listed)} over the bound:</p>'
        table += (
            "<table><tr><th>point</th><th>chunk</th><th>original</th><th>decoded</th>"
            f"<th>error</th></tr>{rows}</table>"
        )
    return f'<div class="fails"><b>What failed</b><ul>{"".join(items)}</ul>{table}</div>'


# ------------------------------------------------------------------------------------------------
# Drawings
# ------------------------------------------------------------------------------------------------

_WIDTH, _HEIGHT = 480, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 12, 12, 30
_BOUND_LINE = 'stroke="var(--bad)" stroke-width="1.5" stroke-dasharray="5 3"'


def _svg(content: str, label: str, height: int = _HEIGHT) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(label)}">'
        f"{content}</svg>"
    )


def _axis_text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, style: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {style}/>'


def _histogram(report: Report) -> str:
    histogram = report.histogram
    counts = np.array(histogram.counts, np.float64)
    used = np.flatnonzero(counts)
    out = histogram.below + histogram.above
    beyond = f" {out} {'points are' if out > 1 else 'point is'} further out." if out else ""
    if histogram.bin_width is None or not used.size:
        note = beyond or (" Every error is 0." if report.valid else " There is no valid point.")
        return f'<p class="note">{note[1:]}</p>'
    width = histogram.bin_width
    limit = report.bound.limit if report.bound is not None else None
    reach = int(max(128 - used[0], used[-1] - 127))
    end = max(float(reach * width), limit or 0.0)
    end = min(end, 128 * width) * 1.06
    low = -end
    top = math.log10(counts.max()) if counts.max() > 1 else 1.0
    floor = -0.3  # a single count stands a little above the line

    def x(value: float) -> float:
        return _LEFT + (value - low) / (end - low) * (_WIDTH - _LEFT - _RIGHT)

    def y(log: float) -> float:
        return _HEIGHT - _BOTTOM - (log - floor) / (top * 1.05 - floor) * (_HEIGHT - _TOP - _BOTTOM)

    parts = []
    for power in range(int(top) + 1):
        if top > 6 and power % 2:
            continue
        parts.append(_line(_LEFT, y(power), _WIDTH - _RIGHT, y(power), 'stroke="var(--line)"'))
        parts.append(_axis_text(_LEFT - 6, y(power) + 4, f"1e{power}" if power else "1", "end"))
    for i in used:
        left = (int(i) - 128) * width
        x1, x2 = max(x(left), _LEFT), min(x(left + width), _WIDTH - _RIGHT)
        height = y(floor) - y(math.log10(counts[i]))
        parts.append(
            f'<rect x="{x1:.2f}" y="{y(math.log10(counts[i])):.2f}" width="{max(x2 - x1 - 0.3, 0.6):.2f}" '
            f'height="{height:.2f}" fill="var(--blue)"/>'
        )
    base = _HEIGHT - _BOTTOM
    parts.append(_line(_LEFT, base, _WIDTH - _RIGHT, base, 'stroke="var(--soft)"'))
    for sign in (-1, 1):
        if limit and limit <= end:
            at = x(sign * limit)
            parts.append(_line(at, _TOP, at, base, _BOUND_LINE))
            parts.append(_axis_text(at, _HEIGHT - 10, f"{sign * limit:+.4g}"))
        else:
            parts.append(
                _axis_text(x(sign * end / 1.06), _HEIGHT - 10, f"{sign * end / 1.06:+.3g}")
            )
    parts.append(_axis_text(x(0), _HEIGHT - 10, "0"))
    note = "Signed errors, counts on a log axis." + (" Red: the bound." if limit else "") + beyond
    return f"<figure>{_svg(''.join(parts), 'histogram of errors')}<figcaption>{note}</figcaption></figure>"


def _autocorrelation(report: Report) -> str:
    if not report.autocorrelation:
        return ""
    rows = [a for a in report.autocorrelation if any(v is not None for v in a.values)]
    if not rows:
        return '<p class="note">The error is the same everywhere.</p>'
    drawn = [a for a in rows if a.axis is not None]
    lags = len(rows[0].values)
    most = max(
        [abs(v) for a in drawn for v in a.values if v is not None]
        + [1.5 * b for a in drawn for b in a.band if b is not None]
    )
    most = min(1.0, most * 1.15)
    middle = (_TOP + _HEIGHT - _BOTTOM) / 2

    def y(value: float) -> float:
        return middle - value / most * (middle - _TOP)

    colours = ("#2f6fb0", "#d9722c", "#3a9d6e", "#8a5fb5")
    parts = []
    for tick in (most, most / 2, 0.0, -most / 2, -most):
        parts.append(_line(_LEFT, y(tick), _WIDTH - _RIGHT, y(tick), 'stroke="var(--line)"'))
        parts.append(_axis_text(_LEFT - 6, y(tick) + 4, f"{tick:+.2g}" if tick else "0", "end"))
    slot = (_WIDTH - _LEFT - _RIGHT) / lags
    bar = slot * 0.8 / len(drawn)
    for lag in range(lags):
        left = _LEFT + slot * (lag + 0.1)
        for k, row in enumerate(drawn):
            value, band = row.values[lag], row.band[lag]
            if value is None or band is None:
                continue
            x = left + k * bar
            tall = abs(y(0) - y(value))
            parts.append(
                f'<rect x="{x:.1f}" y="{min(y(value), y(0)):.2f}" width="{bar * 0.9:.1f}" '
                f'height="{max(tall, 0.7):.2f}" fill="{colours[k % 4]}"/>'
            )
            style = 'stroke="var(--band)" stroke-width="2"'
            parts += [_line(x, y(b), x + bar * 0.9, y(b), style) for b in (-band, band)]
        parts.append(_axis_text(left + slot * 0.4, _HEIGHT - 10, str(lag + 1)))
    parts.append(_line(_LEFT, y(0), _WIDTH - _RIGHT, y(0), 'stroke="var(--soft)"'))
    legend = " ".join(
        f'<span style="color:{colours[k % 4]}">■</span> axis {row.axis}'
        for k, row in enumerate(drawn)
    )
    return (
        f"<figure>{_svg(''.join(parts), 'autocorrelation')}<figcaption>By lag. {legend} "
        '<span style="color:var(--band)">▬</span> 95 % of white noise is within</figcaption></figure>'
    )


def _relative(report: Report) -> str:
    histogram = report.relative_histogram
    if histogram is None or histogram.first_octave is None:
        return ""
    counts = histogram.counts
    bound = report.bound if report.bound and report.bound.kind == "pointwise_relative" else None
    limit_at = 0.0
    if bound is not None:
        mantissa, octave = math.frexp(bound.value)
        limit_at = max(0.0, 8 * (octave - 1 - histogram.first_octave + 2 * mantissa - 1))
    shown = max(len(counts), math.ceil(limit_at) + 2)
    top = math.log10(max(counts)) if max(counts) > 1 else 1.0
    floor = -0.3
    width = (_WIDTH - _LEFT - _RIGHT) / shown
    base = _HEIGHT - _BOTTOM

    def y(log: float) -> float:
        return base - (log - floor) / (top * 1.05 - floor) * (base - _TOP)

    parts = []
    for power in range(0, int(top) + 1, 2 if top > 6 else 1):
        parts.append(_line(_LEFT, y(power), _WIDTH - _RIGHT, y(power), 'stroke="var(--line)"'))
        parts.append(_axis_text(_LEFT - 6, y(power) + 4, f"1e{power}" if power else "1", "end"))
    for i, count in enumerate(counts):
        if count:
            at = y(math.log10(count))
            parts.append(
                f'<rect x="{_LEFT + i * width:.2f}" y="{at:.2f}" width="{max(width * 0.95, 0.6):.2f}" '
                f'height="{base - at:.2f}" fill="var(--blue)"/>'
            )
    parts.append(_line(_LEFT, base, _WIDTH - _RIGHT, base, 'stroke="var(--soft)"'))
    if bound is not None:
        at = _LEFT + limit_at * width
        parts.append(_line(at, _TOP, at, base, _BOUND_LINE))
    octaves = shown // 8
    for octave in range(0, octaves + 1, max(1, -(-octaves // 6))):
        label, at = f"2^{histogram.first_octave + octave}", _LEFT + 8 * octave * width
        anchor = "end" if at > _WIDTH - 2 * _RIGHT else "middle"
        parts.append(_axis_text(at, _HEIGHT - 10, label, anchor))
    note = f"|e| / |x| where x is not 0, both axes logarithmic. Points without an error: {histogram.exact}."
    note += "" if bound is None else " Red: the bound."
    return (
        f"<figure>{_svg(''.join(parts), 'histogram of relative errors')}"
        f"<figcaption>{note}</figcaption></figure>"
    )


def _spectrum(report: Report) -> str:
    if report.spectrum is None or not report.spectrum.ratio:
        return ""
    ratios = report.spectrum.ratio
    off = max([abs(r - 1) for r in ratios if r is not None] + [0.012])
    high, low = 1 + off * 1.1, 1 - off * 1.1

    def x(k: int) -> float:
        return _LEFT + (k - 1) / max(1, len(ratios) - 1) * (_WIDTH - _LEFT - _RIGHT)

    def y(value: float) -> float:
        return _TOP + (high - value) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)

    points = " ".join(f"{x(k):.1f},{y(r):.2f}" for k, r in enumerate(ratios, 1) if r is not None)
    parts = [
        (
            f'<rect x="{_LEFT}" y="{y(1.01):.1f}" width="{_WIDTH - _LEFT - _RIGHT}" '
            f'height="{y(0.99) - y(1.01):.1f}" fill="var(--band)" opacity=".25"/>'
        ),
        _line(_LEFT, y(1), _WIDTH - _RIGHT, y(1), 'stroke="var(--soft)"'),
        f'<polyline points="{points}" fill="none" stroke="var(--blue)" stroke-width="2"/>',
        _axis_text(_LEFT - 6, y(1) + 4, "1", "end"),
        _axis_text(_LEFT - 6, y(high) + 10, f"{high:.3g}", "end"),
        _axis_text(_LEFT - 6, y(low), f"{low:.3g}", "end"),
        _axis_text(x(1), _HEIGHT - 10, "1"),
        _axis_text(x(len(ratios)), _HEIGHT - 10, f"k = {len(ratios)}", "end"),
    ]
    return (
        f"<figure>{_svg(''.join(parts), 'spectrum')}<figcaption>By wavenumber. Shaded: 1 % off."
        "</figcaption></figure>"
    )


def _palette(colours: Sequence[tuple[int, int, int]]) -> npt.NDArray[np.uint8]:
    """Mix 255 colours; the last of 256 is for what is not there."""
    at = np.linspace(0, len(colours) - 1, 255)
    channels = [np.interp(at, range(len(colours)), [c[i] for c in colours]) for i in range(3)]
    mixed = np.round(np.stack(channels, axis=1)).astype(np.uint8)
    return np.concatenate([mixed, np.array([_NOTHING], np.uint8)])


def _image(
    values: npt.NDArray[np.float64],
    low: float,
    high: float,
    colours: Sequence[tuple[int, int, int]],
) -> str:
    """Return an image as a data URI: a bitmap with a palette, which every browser reads."""
    with np.errstate(all="ignore"):
        span = high / 2 - low / 2  # halves do not overflow
        scaled = (values / 2 - low / 2) / span if span > 0 else np.zeros_like(values)
    index = np.full(values.shape, 255, np.uint8)
    there = np.isfinite(scaled)
    index[there] = np.clip(np.round(scaled[there] * 254), 0, 254).astype(np.uint8)
    rows, columns = values.shape[:2]
    padded = np.zeros((rows, -(-columns // 4) * 4), np.uint8)
    padded[:, :columns] = index
    palette = np.zeros((256, 4), np.uint8)
    palette[:, :3] = _palette(colours)[:, ::-1]

    def number(value: int, size: int) -> bytes:
        return value.to_bytes(size, "little")

    start = 14 + 40 + palette.nbytes
    header = b"BM" + number(start + padded.nbytes, 4) + number(0, 4) + number(start, 4)
    header += number(40, 4) + number(columns, 4) + number(rows, 4) + number(1, 2) + number(8, 2)
    header += number(0, 4) + number(padded.nbytes, 4) + number(2835, 4) * 2 + number(256, 4) * 2
    data = header + palette.tobytes() + padded[::-1].tobytes()
    return "data:image/bmp;base64," + base64.b64encode(data).decode("ascii")


def _gradient(colours: Sequence[tuple[int, int, int]]) -> str:
    return "linear-gradient(90deg, " + ", ".join(f"rgb{c}" for c in colours) + ")"


def _panel(
    values: npt.NDArray[np.float64],
    ends: tuple[float, float],
    colours: Sequence[tuple[int, int, int]],
    caption: str,
    labels: tuple[str, str],
) -> str:
    # Very flat or very tall slices are stretched, so that something is to be seen.
    rows, columns = values.shape
    ratio = min(max(rows / columns, 0.4), 1.6)
    source = _image(values, *ends, colours)
    return (
        f'<figure><img alt="{escape(caption)}" style="aspect-ratio: {1 / ratio:.4f}" src="{source}">'
        f'<div class="scale" style="background: {_gradient(colours)}"></div>'
        f'<div class="ends"><span>{escape(labels[0])}</span><span>{escape(labels[1])}</span></div>'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def _panels(shown: FieldSlice, report: Report) -> str:
    if shown.original.ndim == 1:
        return _curves(shown, report)
    there = shown.original[np.isfinite(shown.original)]
    if not there.size:
        return ""
    low, high = float(there.min()), float(there.max())
    limit = report.bound.limit if report.bound is not None else None
    worst = float(np.nanmax(np.abs(shown.error)))
    unit = limit or worst or 1.0
    reach = max(1.0, worst / unit) if limit else 1.0
    values = (f"{low:.4g}", f"{high:.4g}")
    what = "error in units of the bound" if limit else "error"
    name = (f"{-reach:.3g}", f"{reach:.3g}") if limit else (f"{-unit:.3g}", f"{unit:.3g}")
    return (
        f'<p class="soft">{escape(shown.title)}</p><div class="panels">'
        + _panel(shown.original, (low, high), _SEQUENTIAL, "original", values)
        + _panel(shown.decoded, (low, high), _SEQUENTIAL, "decoded", values)
        + _panel(shown.error / unit, (-reach, reach), _DIVERGING, what, name)
        + "</div>"
    )


def _curves(shown: FieldSlice, report: Report) -> str:
    """Draw a field with one axis: both fields, and the error. Lines break where a point is not valid."""
    limit = report.bound.limit if report.bound is not None else None
    height = 170
    drawings = []
    for values, label, colour in (
        (shown.original, "original", "var(--blue)"),
        (shown.decoded, "decoded", "var(--blue)"),
        (shown.error, "error, in units of the bound" if limit else "error", "var(--bad)"),
    ):
        there = np.isfinite(values)
        if not there.any():
            continue
        scale = limit if limit and values is shown.error else 1.0
        low, high = float(values[there].min()), float(values[there].max())
        spread = high / 2 - low / 2 or 1.0  # halves do not overflow
        xs = np.linspace(_LEFT, _WIDTH - _RIGHT, max(2, len(values)))[: len(values)]
        ys = _TOP + (high / 2 - values / 2) / spread * (height - 2 * _TOP)
        lines = "".join(
            f'<polyline points="{points}" fill="none" stroke="{colour}"/>'
            for points in _runs(xs, ys)
        )
        ends = _axis_text(_LEFT - 6, _TOP + 4, f"{high / scale:.3g}", "end") + _axis_text(
            _LEFT - 6, height - _TOP + 4, f"{low / scale:.3g}", "end"
        )
        drawings.append(
            f"<figure>{_svg(lines + ends, label, height)}<figcaption>{label}</figcaption></figure>"
        )
    return f'<div class="columns">{"".join(drawings)}</div>'


def _runs(xs: npt.NDArray[np.float64], ys: npt.NDArray[np.float64]) -> Iterable[str]:
    """Give the points of each line; a point without neighbours makes a short one."""
    there = np.flatnonzero(np.isfinite(ys))
    for run in np.split(there, np.flatnonzero(np.diff(there) > 1) + 1):
        points = [f"{x:.1f},{y:.1f}" for x, y in zip(xs[run], ys[run], strict=True)]
        if len(points) == 1:
            points.append(f"{xs[run[0]] + 1:.1f},{ys[run[0]]:.1f}")
        yield " ".join(points)


def chunk_grid(report: Report) -> tuple[npt.NDArray[Any], npt.NDArray[Any], str]:
    """Return the largest error of each chunk, where a special value broke, and along which axes.

    Two dimensions: the largest along all others.
    """
    chunks = report.per_chunk
    assert chunks is not None
    grid = np.array(chunks.max_abs).reshape(chunks.grid)
    broken = np.array(chunks.special).reshape(chunks.grid) > 0
    long = [axis for axis, n in enumerate(chunks.grid) if n > 1]
    axes = long[-2:]
    others = tuple(axis for axis in range(grid.ndim) if axis not in axes)
    along = " and ".join(f"axis {axis}" for axis in axes) or "one"
    if len(long) > 2:
        along += "; the largest along the other axes"
    return (
        np.atleast_2d(np.amax(grid, axis=others)),
        np.atleast_2d(np.asarray(np.any(broken, axis=others))),
        along,
    )


def _chunk_map(report: Report) -> str:
    chunks = report.per_chunk
    if chunks is None:
        return ""
    grid, broken, along = chunk_grid(report)
    limit = report.bound.limit if report.bound is not None else None
    high = max(float(grid.max()), limit or 0.0) or 1.0
    rows, columns = len(grid), grid.shape[-1]
    cell = min((_WIDTH - 4) / columns, 44.0, max(6.0, 420 / rows))
    palette = _palette(_HEAT)
    parts = []
    for i in range(rows):
        for j in range(columns):
            r, g, b = palette[round(min(1.0, grid[i, j] / high) * 254)]
            over = broken[i, j] or (limit is not None and grid[i, j] > limit)
            edge = ' stroke="var(--bad)" stroke-width="2"' if over else ""
            parts.append(
                f'<rect x="{j * cell + 2:.1f}" y="{i * cell + 2:.1f}" width="{cell - 1:.1f}" '
                f'height="{cell - 1:.1f}" rx="1.5" fill="rgb({r},{g},{b})"{edge}>'
                f"<title>{grid[i, j]:.4g}</title></rect>"
            )
    box = "×".join(map(str, chunks.box))
    svg = (
        f'<svg viewBox="0 0 {columns * cell + 4:.0f} {rows * cell + 4:.0f}" role="img" '
        f'aria-label="largest error of each chunk" style="max-width: {columns * cell + 4:.0f}px">'
        f"{''.join(parts)}</svg>"
    )
    return (
        f'<figure>{svg}<div class="scale" style="max-width: 240px; background: {_gradient(_HEAT)}"></div>'
        f'<div class="ends" style="max-width: 240px"><span>0</span><span>{high:.4g}</span></div>'
        f"<figcaption>Boxes of {box} points, by {along}. Framed in red: the bound or a special "
        "value broke.</figcaption></figure>"
    )


def _table(report: Report) -> str:
    rows = _text.rows(report)
    half = -(-len(rows) // 2)

    def one(part: list[tuple[str, str, str]]) -> str:
        body = "".join(
            f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>" for _, name, value in part
        )
        return f"<table>{body}</table>"

    table = f'<div class="columns">{one(rows[:half])}{one(rows[half:])}</div>'
    if not report.undefined:
        return table
    items = "".join(
        f"<li>{escape(name)}: {escape(why)}</li>" for name, why in report.undefined.items()
    )
    return f'{table}<p class="note">Not defined here:</p><ul class="note">{items}</ul>'


def _definitions(report: Report) -> str:
    del report
    return (
        "<dl>"
        + "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in _DEFINITIONS)
        + "</dl>"
    )


def _footer(report: Report) -> str:
    provenance = report.provenance
    return (
        f'<footer class="soft">h5lossy {escape(provenance.h5lossy)} · {escape(_text.definitions(report))}'
        "</footer>"
    )

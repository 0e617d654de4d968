# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Draw ratio against speed from results/*.json, for docs/benchmarks.md.

    pip install '.[plot]'
    python benchmarks/plots.py

A figure without results is left out, with a message.
"""

from __future__ import annotations

import argparse
import statistics
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from _common import (
    BEST_SZ3,
    DOCS,
    PEERS,
    SPEED_SCALE,
    STREAMING_BYTES,
    SZ3_FILTER,
    geometric_mean,
    is_sz3,
    load_if_there,
    scale_of,
)
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

STYLE = {
    # Give the same bytes for the same results, and selectable text.
    "svg.hashsalt": "h5lossy",
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "0.9",
    "legend.frameon": False,
}
PLAIN_SIZE = 1 << 20

NAMES = ("PFPL", "cuSZp2-O", "AATROX", "cuSZp2-O 3-D", "auto", "cuSZp2-P", "cuSZp2-O 2-D")
NAMES += PEERS
COLOURS = {name: f"C{i}" if i < 7 else f"{0.1 * (i - 6):.1f}" for i, name in enumerate(NAMES)}
COLOURS |= {"Interp": "C9", "Interp rewritable": "C8", BEST_SZ3: COLOURS[SZ3_FILTER]}
"""A codec has one colour in all figures; peers are grey."""

Points = list[tuple[float, float, float]]
"""Ratio, GB/s, and the size of the bound, which sorts them."""


def with_best_sz3(names: Iterable[str]) -> list[str]:
    """Give the names with the best SZ3 in place of all of them."""
    return list(dict.fromkeys(BEST_SZ3 if is_sz3(name) else name for name in names))


def draw_line(axes: Axes, points: Points, colour: str, *, dashed: bool, label: str | None) -> None:
    """Draw one codec, from the tightest to the loosest bound."""
    points = sorted(points, key=lambda point: point[2])
    axes.plot(
        [ratio for ratio, _, _ in points],
        [speed for _, speed, _ in points],
        color=colour,
        marker="s" if dashed else "o",
        markersize=4,
        markerfacecolor="white" if dashed else colour,
        linestyle="--" if dashed else "-",
        linewidth=1,
        label=label,
    )


def draw_level(axes: Axes, speed: float, text: str) -> None:
    """Draw a speed that has no ratio, with its name in the legend."""
    axes.axhline(speed, color="0.4", linewidth=0.8, linestyle=":", label=text)


def set_numbers(axis: Axis) -> None:
    """Write plain numbers, at 1, 2, 5 and 10, on a logarithmic axis."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())


def new_figure(headings: Iterable[str]) -> tuple[Figure, list[Axes]]:
    """Make two panels with logarithmic axes."""
    figure = Figure(figsize=(8.5, 4), layout="constrained")
    panels = list(figure.subplots(1, 2, sharex=True, sharey=True))
    for axes, heading in zip(panels, headings, strict=True):
        axes.set_title(heading)
        axes.set_xlabel("compression ratio")
        axes.set_xscale("log")
        axes.set_yscale("log")
        set_numbers(axes.xaxis)
        set_numbers(axes.yaxis)
    panels[0].set_ylabel("GB/s of original data")
    return figure, panels


def save_figure(figure: Figure, name: str, *, columns: int = 6) -> None:
    """Write docs/benchmarks/NAME.svg, with the legend below."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns)
    DOCS.mkdir(exist_ok=True)
    with mpl.rc_context(STYLE):
        figure.savefig(DOCS / f"{name}.svg", metadata={"Date": None})
    print(f"wrote docs/benchmarks/{name}.svg")


def plot_throughput(results: dict[str, Any]) -> None:
    """Draw the bare codecs: the best backend and scalar."""
    best, plain = results["backends"][0], results["backends"][-1]
    rows = [
        row
        for row in results["rows"]
        if row["dtype"] == "float32" and row["chunk_bytes"] == PLAIN_SIZE
    ]
    codecs = list(dict.fromkeys(row["codec"] for row in rows))
    with mpl.rc_context(STYLE):
        figure, panels = new_figure(("compress", "decompress"))
        for axes, way in zip(panels, ("compress", "decompress"), strict=True):
            for backend in dict.fromkeys((best, plain)):
                for codec in codecs:
                    points = [
                        (row["ratio"], row[way]["gb_per_s"], scale)
                        for row in rows
                        if (row["codec"], row["backend"]) == (codec, backend)
                        and (scale := scale_of(row["bound"])) is not None
                    ]
                    label = codec if backend == best else None
                    draw_line(axes, points, COLOURS[codec], dashed=backend != best, label=label)
            copy = results["memcpy"][best][str(STREAMING_BYTES)]["gb_per_s"]
            draw_level(axes, copy, "memcpy of 256 MiB")
        save_figure(figure, "throughput")


def plot_hdf5(results: dict[str, Any]) -> None:
    """Draw the speeds of HDF5's users, with the peers."""
    rows = [row for row in results["rows"] if row["section"] == "pipeline"]
    names = list(dict.fromkeys(row["name"] for row in rows if row["name"] != "no filter"))
    with mpl.rc_context(STYLE):
        figure, panels = new_figure(("write through HDF5", "read through HDF5"))
        for axes, way in zip(panels, ("write", "read"), strict=True):
            for name in names:
                of_name = [row for row in rows if row["name"] == name]
                points = [
                    (row["ratio"], row[way]["gb_per_s"], row["scale"] or 0.0) for row in of_name
                ]
                is_peer = of_name[0]["is_peer"]
                draw_line(axes, points, COLOURS[name], dashed=is_peer, label=name)
            for row in rows:
                if row["name"] == "no filter":
                    draw_level(axes, row[way]["gb_per_s"], "no filter")
        save_figure(figure, "hdf5")


def plot_fields(results: dict[str, Any]) -> None:
    """Draw the ratio on every core field, with the peers."""
    rows = [row for row in results["rows"] if row["core"]]
    scale = next(i for i, bound in enumerate(rows[0]["bounds"]) if bound["scale"] == SPEED_SCALE)
    names = with_best_sz3(rows[0]["bounds"][scale]["codecs"])
    rows.sort(key=lambda row: row["bounds"][scale]["codecs"][names[0]]["ratio"])
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8.5, 0.28 * len(rows) + 1.4), layout="constrained")
        axes = figure.subplots()
        for name in names:
            found = [
                (result["ratio"], place)
                for place, row in enumerate(rows)
                if not (result := row["bounds"][scale]["codecs"][name]).get("broken")
                and result["ratio"] is not None
            ]
            # A peer is held to the same rule, and left out where it broke its bound.
            marker = "x" if name in PEERS else "o"
            axes.plot(
                *zip(*found, strict=True), marker, color=COLOURS[name], markersize=4, label=name
            )
        axes.set_yticks(range(len(rows)), [row["field"] for row in rows])
        axes.set_xscale("log")
        set_numbers(axes.xaxis)
        axes.set_xlabel(f"compression ratio at {SPEED_SCALE:g} of the range")
        save_figure(figure, "fields")


SHOWN_FIELDS = (
    "climate/trefht",
    "climate/foam_v_current",
    "turbulence/vorticity",
    "turbulence/convection_u",
    "cfd/post_q",
)
MARKERS = {BEST_SZ3: "s", "SPERR": "^", "ZFP": "v", "EBCC": "D"}


def plot_rate_distortion(results: dict[str, Any]) -> None:
    """Draw PSNR against bits per value: means over the fields, and some fields."""
    rows, names = results["rows"], with_best_sz3(results["measured"])
    # A mean is over the same fields for all codecs, so a codec with few fields has none.
    whole = [
        name
        for name in names
        if sum(row["bounds"][0]["codecs"][name]["ratio"] is None for row in rows) <= 3
    ]
    common = [
        row
        for row in rows
        if all(bound["codecs"][name].get("psnr") for bound in row["bounds"] for name in whole)
    ]
    panels: list[tuple[str, list[dict[str, Any]], list[str]]] = [
        (f"mean of {len(common)} fields", common, whole)
    ]
    panels += [(row["field"], [row], names) for row in rows if row["field"] in SHOWN_FIELDS]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8.5, 6.5), layout="constrained")
        grid = figure.subplots(2, 3).flat
        for axes, (heading, shown, drawn) in zip(grid, panels, strict=True):
            for name in names:
                points = []
                for i in range(len(rows[0]["bounds"])):
                    found = [row["bounds"][i]["codecs"].get(name, {}) for row in shown]
                    if name in drawn and all(result.get("psnr") for result in found):
                        bits = geometric_mean(result["bits"] for result in found)
                        points.append((bits, statistics.fmean(x["psnr"] for x in found)))
                axes.plot(
                    *(zip(*points, strict=True) if points else ((), ())),
                    color=COLOURS[name],
                    marker=MARKERS.get(name, "o"),
                    markersize=3,
                    markerfacecolor="white" if name in PEERS else COLOURS[name],
                    linestyle="--" if name in PEERS else "-",
                    linewidth=1,
                    label=name,
                )
            axes.set_title(heading)
            axes.set_xscale("log")
            set_numbers(axes.xaxis)
            axes.set_xlabel("bits per value")
            axes.set_ylabel("PSNR, dB")
        save_figure(figure, "rate_distortion")


FRONT_FIELD = "climate/glosea_surface_temperature"
"""A familiar field that all codecs support."""
FRONT_NAMES = ("Interp", "PFPL", "auto", "cuSZp2-O", "AATROX", *MARKERS)
FRONT_LINES = {"auto": (0, (2, 2)), "AATROX": (0, (2, 2))}
"""Dashed, since they coincide with those of the names before."""


def plot_front(results: dict[str, Any]) -> None:
    """Draw PSNR against bits per value on one field, for the first page of the documentation."""
    [row] = [row for row in results["rows"] if row["field"] == FRONT_FIELD]
    with mpl.rc_context(STYLE | {"font.size": 11}):
        figure = Figure(figsize=(5.6, 4.8), layout="constrained")  # legible on a telephone, too
        axes = figure.subplots()
        violated: list[tuple[float, float]] = []
        for name in FRONT_NAMES:
            is_peer = name in PEERS
            found = [bound["codecs"][name] for bound in row["bounds"]]
            points = [(result["bits"], result["psnr"]) for result in found]
            violated += [(x["bits"], x["psnr"]) for x in found if x["broken"]]
            axes.plot(
                *zip(*points, strict=True),
                color=COLOURS[name],
                marker=MARKERS.get(name, "o"),
                markersize=5,
                markerfacecolor="white" if is_peer else COLOURS[name],
                linestyle="--" if is_peer else FRONT_LINES.get(name, "-"),
                linewidth=1 if is_peer else 2,
                label=name,
            )
        if violated:
            axes.plot(*zip(*violated, strict=True), "x", color="C3", label="bound violated")
        axes.set_xscale("log")
        set_numbers(axes.xaxis)
        axes.set_xlabel("bits per value: fewer are better")
        axes.set_ylabel("PSNR in dB: more is better")
        save_figure(figure, "front", columns=3)


FIGURES = {
    "throughput": plot_throughput,
    "hdf5": plot_hdf5,
    "fields": plot_fields,
    "rate_distortion": plot_rate_distortion,
    "front": plot_front,
}
"""The figures. Each is named like its results, unless `DRAWN_FROM` says otherwise."""
DRAWN_FROM = {"front": "rate_distortion"}


def main() -> None:
    """Draw all figures that have results."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    for name, plot in FIGURES.items():
        source = DRAWN_FROM.get(name, name)
        results = load_if_there(source)
        if results is None:
            print(f"no results/{source}.json: docs/benchmarks/{name}.svg is not drawn")
            (DOCS / f"{name}.svg").unlink(missing_ok=True)
        else:
            plot(results)


if __name__ == "__main__":
    main()

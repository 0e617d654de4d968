# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Write README's table, docs/benchmarks.md and results on other pages from results/*.json.

So that no number is typed by hand:

    python benchmarks/readme.py [--check]

Parts without benchmark results are left out.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from _common import (
    BEST_SZ3,
    DOCS,
    SPEED_SCALE,
    STREAMING_BYTES,
    SZ3_FILTER,
    geometric_mean,
    is_peer,
    is_sz3,
    load,
    load_if_there,
    machine,
    scale_of,
)
from rich.console import Console
from rich.markdown import Markdown

if TYPE_CHECKING:
    from collections.abc import Iterable

README = Path(__file__).parent.parent / "README.md"
PAGE = DOCS.with_suffix(".md")
FRONT = DOCS.parent / "index.md"
INTEGERS = DOCS.parent / "howto" / "integers.md"
SIMULATIONS = DOCS.parent / "howto" / "simulations.md"
BEGIN, END = "<!-- results: written by benchmarks/readme.py -->", "<!-- results end -->"

WAYS = ("compress", "decompress")
GPU_WAYS = ("encode", "decode")
SHOWN_BYTES = 1 << 20
NONE = "—"

Results = dict[str, Any]


def table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Give the lines of a table in Markdown."""
    headings = list(headings)
    lines = [headings, ["---"] * len(headings), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def sentences(text: str) -> str:
    """Put each sentence on its own line."""
    return text.replace(". ", ".\n")


def size_name(size: int) -> str:
    """Give 64 KiB, 1 MiB and so on."""
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def where(results: Results) -> str:
    """Say what something was measured on."""
    found = results["machine"]
    cpu = f"{found['cpu']}, {found['cores']} cores, shared"
    return f"{cpu}; {found['build']}; {found['commit']}"


# --------------------------------------------------------------------------------------------------
# What the tables show
# --------------------------------------------------------------------------------------------------


def speed(throughput: Results, codec: str, way: str) -> str:
    """Give GB/s of a codec with the best backend, for float32, 1 MiB and `SPEED_SCALE`."""
    case = {"dtype": "float32", "chunk_bytes": SHOWN_BYTES, "bound": f"{SPEED_SCALE:g}"}
    case |= {"codec": codec, "backend": throughput["backends"][0]}
    for row in throughput["rows"]:
        if all(row[name] == value for name, value in case.items()):
            return f"{row[way]['gb_per_s']:.1f}"
    return NONE


def memcpy(throughput: Results) -> str:
    """Give GB/s of the streaming copy, in the process of the best backend."""
    copy = throughput["memcpy"][throughput["backends"][0]][str(STREAMING_BYTES)]
    return f"{copy['gb_per_s']:.1f} GB/s"


def filter_row(hdf5: Results, name: str) -> Results | None:
    """Find the results of a filter in HDF5, on one thread with the bound `SPEED_SCALE`."""
    for row in hdf5["rows"]:
        if (row["name"], row["section"]) == (name, "pipeline") and (
            row["scale"] in {SPEED_SCALE, None}
        ):
            return row
    return None


def filter_speeds(hdf5: Results, name: str) -> list[str]:
    """Give GB/s of writing and reading."""
    row = filter_row(hdf5, name)
    return (
        [NONE, NONE]
        if row is None
        else [f"{row[way]['gb_per_s']:.2f}" for way in ("write", "read")]
    )


def worst_error(fields: Results) -> float:
    """Give the largest error of any of our codecs, as a fraction of the bound."""
    return max(
        result["error_fraction"]
        for row in fields["rows"]
        for bound in row["bounds"]
        for name, result in bound["codecs"].items()
        if not is_peer(name)
    )


def bound_violations(fields: Results) -> Counter[str]:
    """Count the cases in which each codec violated the bound, changed NaNs or failed."""
    return Counter(
        name
        for row in fields["rows"]
        for bound in row["bounds"]
        for name, result in bound["codecs"].items()
        if result.get("broken") or result.get("failed") or (result["error_fraction"] or 0) > 1
    )


# --------------------------------------------------------------------------------------------------
# README
# --------------------------------------------------------------------------------------------------


SHOWN = {
    "PFPL": "pfpl",
    "cuSZp2-O": "cuszp2-outlier",
    "AATROX": "aatrox",
    "Interp": "interp",
    "auto": "auto",
}
"""README's rows besides SZ3's: the name on a CPU, and the name on a GPU."""

SZ3S = (
    "*SZ3 (hdf5plugin)* is hdf5plugin's filter, an older SZ3. Newer ones have no HDF5 filter on "
    "PyPI: they are those of pysz, chunk by chunk in memory, with the predictors INTERP_LORENZO, "
    "which is SZ3's default (*interp*), and LORENZO_REG (*Lorenzo*). *Best SZ3* is the smallest of "
    "all of them for each field and bound."
)
"""Explains which SZ3 is meant."""


def gpu_speed(gpu: Results, name: str, way: str) -> str:
    """Give GB/s on a GPU, of chunks of 1 MiB at `SPEED_SCALE`."""
    clean = [row for row in gpu.get("data", []) if row["data"] == "clean"]  # for Interp
    for row in [*gpu["kernels"], *gpu.get("auto", []), *clean]:
        case = (row["codec"], row["chunk_bytes"], row.get("bound", SPEED_SCALE))
        if case == (name, SHOWN_BYTES, SPEED_SCALE) and way in row:
            return f"{row[way]['gb_per_s']:.0f}"
    return NONE


def interp_cells(results: Results) -> dict[str, list[str]]:
    """Give the speeds of Interp and of SZ3s in memory, which have a run of their own."""
    cells = {
        name: [f"{mean[way]:.2f}¹" for way in ("write_gb_per_s", "read_gb_per_s")] + [NONE, NONE]
        for name, mean in results["memory"][0]["means"].items()
    }
    ways = interp_through_hdf5(results)
    cells["Interp"][2:] = [f"{ways[way]['gb_per_s']:.2f}¹" for way in ("write", "read")]
    return cells


def interp_through_hdf5(results: Results) -> Results:
    """Find Interp in HDF5, with the best backend."""
    found = next(iter(results["backends"].values()))
    return next(row for row in found["rows"] if row["name"] == "Interp")


def interp_beside_sz3(results: Results) -> str:
    """Compare speeds of Interp's own run, in two sentences."""
    memory = results["memory"][0]
    beside = " and ".join(
        f"{mean['write_of_interp']:.1f} and {mean['read_of_interp']:.1f} times {name}'s speed"
        for name, mean in memory["means"].items()
        if is_sz3(name)
    )
    backend = next(iter(results["backends"]))
    ways = interp_through_hdf5(results)
    return (
        f"¹ In a run of their own, means over {len(memory['rows'])} fields ({backend}; "
        f"{where(results)}; load {memory['load'][0]:.0f}). In memory, Interp compresses and "
        f"decompresses at {beside}. Through HDF5, it writes and reads at "
        f"{ways['write']['of_sz3']:.1f} and {ways['read']['of_sz3']:.1f} times that of "
        f"{SZ3_FILTER}."
    )


def results_table() -> str:
    """Give the table for README and two pages."""
    fields, throughput, hdf5, gpu = map(load, ("fields", "throughput", "hdf5", "gpu"))
    means, scale = fields["geometric_mean"], f"{SPEED_SCALE:g}"
    violations = bound_violations(fields)
    apart = interp_cells(load("interp_speed"))
    headings = ["", f"ratio at {scale}", "bound violated", "compress", "decompress"]
    headings += ["write", "read", "compress, GPU", "decompress, GPU"]
    sz3s = [name for name in means[scale] if is_sz3(name) or name == BEST_SZ3]
    rows = [
        [
            name,
            f"{means[scale][name]:.2f}",
            f"{violations[name]} of {len(fields['rows']) * len(means)}",
            *(
                apart.get(name)
                or [*(speed(throughput, name, way) for way in WAYS), *filter_speeds(hdf5, name)]
            ),
            *(gpu_speed(gpu, on_gpu, way) for way in GPU_WAYS),
        ]
        for name, on_gpu in (SHOWN | dict.fromkeys(sz3s, "")).items()
        if name in means[scale]
    ]
    return "\n".join(table(headings, rows))


def ratios_and_violations() -> str:
    """Explain the table's first columns."""
    fields = load("fields")
    core = sum(row["core"] for row in fields["rows"])
    cases = f"{len(fields['rows'])} fields and {len(fields['geometric_mean'])} bounds"
    return (
        f"Ratios are geometric means over {core} real fields, with an absolute bound of "
        f"{SPEED_SCALE:g} of the range. *Bound violated* counts the cases, of {cases}, in which a "
        "value was off by more than the bound, a NaN changed, or the filter failed."
    )


def summary() -> str:
    """Give the table, and its conditions."""
    fields, throughput, hdf5, gpu = map(load, ("fields", "throughput", "hdf5", "gpu"))
    copy = f"a device copy in the same run: {gpu['copy']['gb_per_s']:.0f} GB/s; {gpu['commit']}"
    speeds = (
        "Speeds are GB/s of float32 data in chunks of 1 MiB. *Compress* and *decompress*: the "
        f"codec alone on one core ({where(throughput)}; memcpy in the same run: "
        f"{memcpy(throughput)}). *Write* and *read*: an HDF5 dataset on tmpfs, one core "
        f"({where(hdf5)})."
    )
    conditions = (
        ratios_and_violations(),
        f"The largest error of h5lossy was {worst_error(fields):.6f} of the bound.",
        SZ3S,
        speeds,
        interp_beside_sz3(load("interp_speed")),
        f"*GPU*: {gpu['device']}, in its memory ({copy}).",
        types_sentence(),
    )
    listed = (f"- {sentences(condition)}".replace("\n", "\n  ") for condition in conditions)
    return "\n".join([results_table(), "", *listed])


def front_page() -> str:
    """Give the table, and what is needed to read it."""
    gpu = load("gpu")["device"]
    text = (
        f"{ratios_and_violations()} Speeds are GB/s of float32 data: of the codec alone and of an "
        f"HDF5 dataset on one core, and on an {gpu} in its memory. ¹ In a run of their own, under "
        "load. [Which SZ3s, which machines, and all other results](benchmarks.md)."
    )
    return f"{results_table()}\n\n{sentences(text)}"


def gpu_conditions(gpu: Results) -> str:
    """Say how and on what the GPU's numbers were measured."""
    return (
        f"{gpu['device']}, float32, {gpu['field_bytes'] >> 20} MiB like turbulence "
        "(E(k) ~ k^-5/3), absolute bound as a part of the range; from memory to memory on the "
        "device, whole calls, median of 15. GB/s of original data; × the device's own copy, "
        f"{gpu['copy']['gb_per_s']:.0f} GB/s one way in the same run; {gpu['commit']}"
    )


def gpu_cell(gpu: Results, row: Results, way: str) -> str:
    """Give GB/s and how that compares with a copy."""
    if way not in row:
        return NONE
    found = row[way]["gb_per_s"]
    return f"{found:.0f} ({found / gpu['copy']['gb_per_s']:.2f} ×)"


def between_marks(path: Path, results: str) -> str:
    """Give a file with the results inserted between the marks."""
    before, _, rest = path.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    if not rest or not after:
        raise SystemExit(f"{path.name} has no {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n{results}\n{END}{after}"


def linked(page: str) -> str:
    """Give the summary, and a link to the whole page."""
    return f"{summary()}\n\n[All results, with their spread]({page})."


# --------------------------------------------------------------------------------------------------
# Integers, halves and complex numbers
# --------------------------------------------------------------------------------------------------


LZ4, ZSTD, JPEG_LS = "Bitshuffle+LZ4", "Bitshuffle+Zstd", "JPEG-LS"
LOSSLESS, ABSOLUTE, NOISE, RANGE = "lossless", "±2", "noise 1", f"{SPEED_SCALE:g} of the range"
SHOWN_CASES = {
    LOSSLESS: "",
    ABSOLUTE: "Integers but labels, within 2 counts; JPEG-LS with its NEAR of 2.",
    NOISE: "Integers but labels, within the square root of each value: a bound that no other codec "
    "here has.",
    RANGE: "Halves, and complex numbers by their components. SZ3 gets halves as float32, which "
    "have to be rounded to halves again: that is what breaks its bound.",
}
"""The parts of results/types.json that are shown, with their texts."""


def short(field: str) -> str:
    """Give the name of a field without its file."""
    return field.partition("/")[2]


def best_rows(types: Results) -> list[Results]:
    """Give the rows of the backend that was measured along with all other codecs."""
    return next(iter(types["backends"].values()))["rows"]


def type_speed(types: Results, group: str, case: str, codec: str, backend: str = "") -> Results:
    """Find the speed of a codec over all fields of a group, by default with the best backend."""
    backend = backend or next(iter(types["backends"]))
    wanted = {"group": group, "case": case, "codec": codec, "backend": backend}
    return next(
        row for row in types["speeds"] if all(row[key] == value for key, value in wanted.items())
    )


def behind(types: Results, case: str, own: str, codec: str, most: int = 3) -> str:
    """Name the fields on which a codec is farthest behind another one, with both ratios."""
    found = []
    for row in best_rows(types):
        codecs = row["cases"].get(case, {"codecs": {}})["codecs"]
        if own in codecs and codec in codecs and not codecs[codec]["broken"]:
            x, y = (codecs[name]["ratio"] for name in (own, codec))
            if x < y:
                found.append((x / y, f"{short(row['field'])} ({x:.2f} against {y:.2f})"))
    return ", ".join(text for _, text in sorted(found)[:most])


def times_as_small(types: Results, case: str, own: str, codec: str) -> str:
    """Say how a codec's ratio compares with another one's."""
    found = types["summary"][own][case][codec]
    return (
        f"{found['mean']:.2f} times that of {codec} (larger on {found['smaller_on']} of "
        f"{found['fields']} fields)"
    )


def violated_by(types: Results, case: str) -> str:
    """Name the codecs that violated a bound, with the number of fields."""
    found = [
        f"{name} on {codec['broken_on']}"
        for name, codec in types["summary"]["PFPL"][case].items()
        if codec["broken_on"]
    ]
    return ", ".join(found) or "none"


def small_and_fast() -> str:
    """Describe ratio and speed on integers, and where other codecs are better."""
    types = load("types")
    backend = next(iter(types["backends"]))
    sz3s = [name for name in types["summary"]["PFPL"][ABSOLUTE] if is_sz3(name)]

    def times(codec: str, than: str) -> str:
        own, other = (type_speed(types, "integers", LOSSLESS, name) for name in (codec, than))
        ways = (own[way]["gb_per_s"] / other[way]["gb_per_s"] for way in GPU_WAYS)
        return " and ".join(f"{ratio:.1f}" for ratio in ways)

    def lossless(own: str) -> str:
        peers = (ZSTD, LZ4, "pcodec", JPEG_LS)
        return "; ".join(times_as_small(types, LOSSLESS, own, name) for name in peers)

    def lossy(own: str) -> str:
        return "; ".join(times_as_small(types, ABSOLUTE, own, x) for x in (JPEG_LS, *sz3s))

    def far_behind(own: str) -> str:
        fields = {name: behind(types, LOSSLESS, own, name) for name in (ZSTD, "pcodec", JPEG_LS)}
        return "; ".join(f"{name} on {text}" for name, text in fields.items() if text)

    hdf5 = "PFPL, through HDF5"
    return f"""\
On {len(best_rows(types))} real fields (geometric means over those that both codecs take), the \
ratio of `PFPL` is losslessly {lossless("PFPL")}.
It is farthest behind {far_behind("PFPL")}.
Within {ABSOLUTE[1:]} counts it is {lossy("PFPL")}.

The ratio of `Interp` is losslessly {lossless("Interp")}.
It is farthest behind {far_behind("Interp")}.
Within {ABSOLUTE[1:]} counts it is {lossy("Interp")}.
Halves that no neighbour predicts, such as the weights of a network, it stores as they are.

Losslessly through HDF5, with {backend}, `PFPL` writes and reads {times(hdf5, LZ4)} times as fast \
as {LZ4} and {times(hdf5, ZSTD)} times as fast as {ZSTD}.
In memory it encodes and decodes {times("PFPL", "pcodec")} times as fast as pcodec and \
{times("PFPL", JPEG_LS)} times as fast as {JPEG_LS}; `Interp` \
{times("Interp", "pcodec")} times as fast as pcodec and {times("Interp", JPEG_LS)} times as fast \
as {JPEG_LS}.
The bound of integers was violated by {violated_by(types, ABSOLUTE)}, that of halves and complex \
numbers by {violated_by(types, RANGE)} of {sum(RANGE in row["cases"] for row in best_rows(types))} \
fields.
[Every field, and how it was measured](../benchmarks.md#integers-halves-and-complex-numbers)."""


def types_sentence() -> str:
    """Summarize types other than floats for README."""
    types = load("types")

    def ratios(own: str) -> str:
        first, second, third = (
            times_as_small(types, LOSSLESS, own, name) for name in (ZSTD, "pcodec", JPEG_LS)
        )
        return f"{first}, {second}, and {third}"

    return (
        f"Integers and halves, losslessly: PFPL's ratio is {ratios('PFPL')}.\n"
        f"Interp's is {ratios('Interp')}; it is farthest behind {JPEG_LS} on "
        f"{behind(types, LOSSLESS, 'Interp', JPEG_LS, 1)}."
    )


def types_section(types: Results) -> list[str]:
    """Describe ratio and speed on integers, halves and complex numbers."""
    versions = ", ".join(f"{name} {version}" for name, version in types["packages"].items())
    backends = types["backends"]
    copies = "; ".join(
        f"{name}: {run['memcpy'][str(SHOWN_BYTES)]['gb_per_s']:.1f} and "
        f"{run['memcpy'][str(STREAMING_BYTES)]['gb_per_s']:.1f} GB/s, load {run['load'][0]:.0f}"
        for name, run in backends.items()
    )
    conditions = (
        "`benchmarks/number_types.py`: equal chunks of at most 1 MiB, every value checked; no "
        "value is a fill value. Bitshuffle and SZ3 (hdf5plugin) through HDF5, all others in "
        "memory, chunk by chunk. Where a peer does not take a type it gets another one that has "
        "all its values. "
        f"{versions}. {where(types)}."
    )
    lines = ["## Integers, halves and complex numbers", "", conditions, ""]
    summary = [
        [
            case,
            own,
            name,
            NONE if found["mean"] is None else f"{found['mean']:.2f}",
            f"{found['smaller_on']} of {found['fields']}",
            NONE if found["least"] is None else f"{short(found['least_on'])}, {found['least']:.2f}",
            str(found["broken_on"]),
        ]
        for own, cases in types["summary"].items()
        for case, codecs in cases.items()
        for name, found in codecs.items()
    ]
    headings = ["bound", "our codec", "the other", "our ratio / its", "ours is smaller on", "least"]
    headings += ["fields with the bound violated"]
    text = "Geometric means over the fields that both take, where the bound was kept."
    lines += [text, "", *table(headings, summary), ""]
    for case, text in SHOWN_CASES.items():
        rows = [row for row in best_rows(types) if case in row["cases"]]
        names = dict.fromkeys(name for row in rows for name in row["cases"][case]["codecs"])
        names.pop("PFPL, through HDF5")
        cells = [
            [
                f"{row['field']}, {' × '.join(map(str, row['chunks']))}",
                row["dtype"],
                *(type_cell(row, case, name) for name in names),
            ]
            for row in rows
        ]
        lines += [f"### Types: {case}", "", *([text, ""] if text else [])]
        lines += [*table(("field, chunk", "type", *names), cells), ""]
    text = (
        f"GB/s of original data, CPU time, one thread, median of {types['runs']} in turns: bytes "
        "of all fields of a group that a codec takes, by the sum of their times. *16-bit frames*: "
        "uint16 of detectors and microscopes. In brackets × memcpy of 256 MiB, and × "
        f"{LZ4} (lossless) in the same process. memcpy of 1 MiB and of 256 MiB: {copies}."
    )
    rows = [
        [
            *(row[key] for key in ("group", "backend", "case", "codec")),
            *(
                f"{row[way]['gb_per_s']:.2f} ({row[way]['of_memcpy']:.3f} ×, "
                f"{row[way]['of_lz4']:.2f} ×)"
                for way in GPU_WAYS
            ),
        ]
        for row in types["speeds"]
    ]
    headings = ("fields", "backend", "bound", "codec", *WAYS)
    return [*lines, "### Types: speed", "", text, "", *table(headings, rows), ""]


def type_cell(row: Results, case: str, codec: str) -> str:
    """Give a ratio; if the bound was not kept, how many values exceeded it."""
    found = row["cases"][case]["codecs"].get(codec)
    if found is None:
        return NONE
    if not found["broken"]:
        return f"{found['ratio']:.2f}"
    return f"violated ({100 * found['broken'] / math.prod(row['shape']):.2g} % of the values)"


# --------------------------------------------------------------------------------------------------
# docs/benchmarks.md
# --------------------------------------------------------------------------------------------------


def figure(name: str, text: str) -> list[str]:
    """Show a figure of plots.py, if it was drawn."""
    return [f"![{text}](benchmarks/{name}.svg)", ""] if (DOCS / f"{name}.svg").exists() else []


def speed_section(throughput: Results) -> list[str]:
    """Describe the speed of the bare codecs."""
    codecs = list(dict.fromkeys(row["codec"] for row in throughput["rows"]))
    backends = throughput["backends"]
    lines = [
        "## Codecs from memory to memory",
        "",
        f"{throughput['field']}, one thread, CPU time, in GB/s of original data: median, and × the "
        "speed of a memcpy of 256 MiB in the same process. The memcpy itself: "
        + ", ".join(
            f"{copies[str(STREAMING_BYTES)]['gb_per_s']:.1f} GB/s ({name})"
            for name, copies in throughput["memcpy"].items()
        )
        + f". {where(throughput)}; options as `native/CMakeLists.txt` sets them.",
        "",
        *figure("throughput", "Ratio against speed of the codecs; dashed: the scalar backend"),
    ]
    cases = dict.fromkeys(
        (row["dtype"], row["chunk_bytes"], row["bound"])
        for row in throughput["rows"]
        if scale_of(row["bound"]) in {SPEED_SCALE, None}
    )
    for way in ("compress", "decompress"):
        rows = []
        for dtype, size, bound in cases:
            for codec in codecs:
                of_case = {
                    row["backend"]: row
                    for row in throughput["rows"]
                    if (row["dtype"], row["chunk_bytes"], row["bound"], row["codec"])
                    == (dtype, size, bound, codec)
                }
                if not of_case:
                    continue
                any_row = of_case[backends[0]]
                cells = [size_name(size), dtype, bound, codec, f"{any_row['ratio']:.2f}"]
                cells.append(f"{any_row['error_fraction']:.6f}")
                cells += [
                    f"{row['gb_per_s']:.2f} ({row['of_memcpy']:.2f} ×)"
                    for row in (of_case[name][way] for name in backends)
                ]
                rows.append(cells)
        headings = ["chunk", "type", "bound", "codec", "ratio", "error / bound", *backends]
        lines += [f"### {way.capitalize()}", "", *table(headings, rows), ""]
    return lines


SECTIONS = {
    "pipeline": "HDF5 calls the filter, one chunk after another; CPU time of the process.",
    "batched": "`h5lossy.write` and `h5lossy.read` on several threads, HDF5's pipeline, and the "
    "compressed bytes as a plain file; in wall-clock time.",
    "memory": "Batches of chunks in memory, and copies of the values by as many threads; in "
    "wall-clock time.",
}
"""What the sections of results/hdf5.json show."""


def hdf5_section(hdf5: Results) -> list[str]:
    """Describe the speed through HDF5."""
    headings = ("", "bound", "way", "threads", "ratio", "error / bound", "write", "read")
    conditions = (
        f"{hdf5['field']}, float32, repeated; chunks of 1 MiB, files on tmpfs. GB/s of original "
        f"data, median of {hdf5['runs']}. {where(hdf5)}."
    )
    lines = [
        "## Through HDF5",
        "",
        conditions,
        "",
        *figure("hdf5", "Ratio against speed through HDF5; dashed: other filters"),
    ]
    for section, text in SECTIONS.items():
        own = [row for row in hdf5["rows"] if row["section"] == section]
        if not own:
            continue
        rows = [
            [
                row["name"],
                NONE if row["scale"] is None else f"{row['scale']:g}",
                row["way"],
                str(row["threads"]),
                NONE if row["ratio"] is None else f"{row['ratio']:.2f}",
                NONE if row["error_fraction"] is None else f"{row['error_fraction']:.6f}",
                f"{row['write']['gb_per_s']:.2f}",
                f"{row['read']['gb_per_s']:.2f}",
            ]
            for row in own
        ]
        size = own[0]["bytes"] >> 20
        lines += [f"{text} {size} MiB.", "", *table(headings, rows), ""]
    return [*lines, *(f"{note}." for note in hdf5["notes"]), *([""] if hdf5["notes"] else [])]


def gpu_section(gpu: Results) -> list[str]:
    """Describe the speed of the codecs on a GPU."""
    graphs = (
        "**CUDA graph**: the same call, captured before, so that no kernel waits for the host to "
        "launch it"
    )
    lines = ["## On a GPU", "", f"{gpu_conditions(gpu)}. {graphs}.", ""]
    rows = []
    for row in [*gpu["kernels"], *gpu.get("auto", [])]:
        scale = row.get("bound", SPEED_SCALE)
        cells = [f"{row['chunks']} × {size_name(row['chunk_bytes'])}", f"{scale:g}", row["codec"]]
        cells += [f"{row['ratio']:.2f}"]
        cells += [gpu_cell(gpu, row, way + how) for how in ("", "_graph") for way in GPU_WAYS]
        rows.append(cells)
    headings = ["chunks", "bound", "codec", "ratio", "compress", "decompress"]
    headings += ["compress, CUDA graph", "decompress, CUDA graph"]
    lines += [*table(headings, rows), ""]
    if "data" in gpu:
        lines += gpu_data(gpu)
    for row in gpu["random_access"]:
        lines.append(
            f"- {row['codec']}: 4096 values of a frame of {size_name(row['chunk_bytes'])}, from "
            f"the call until the host sees that it has ended: {row['range_us']:.0f} µs "
            f"(an empty launch: {row['empty_launch_us']:.0f} µs)"
        )
    headings = ["", "ratio", "write", "plain write", "h5py", "read", "plain read", "h5py"]
    ways = [f"{way}_{who}" for way in ("write", "read") for who in ("gpu", "plain", "h5py")]
    rows = [
        [
            row["codec"],
            f"{row['ratio']:.2f}",
            *(f"{row[f'{way}_gb_per_s']:.1f}" for way in ways),
        ]
        for row in gpu["files"]
    ]
    text = (
        "A dataset of 512 MiB in chunks of 1 MiB, from a CuPy array to a file on tmpfs and back, "
        "in wall-clock time. *Plain*: a file with as many bytes as the dataset takes. "
        "*h5py*: its own pipeline, with the values copied from and to the device."
    )
    return [*lines, "", text, "", *table(headings, rows), ""]


def gpu_data(gpu: Results) -> list[str]:
    """Describe the speed on a GPU for data other than a clean field of float32."""
    text = (
        "256 chunks of 1 MiB in one call: of 64 × 64 × 64 values, or 512 × 1024 of uint16. "
        "*Fill values* are where a smoother field exceeds a threshold. Bounds are parts of the "
        "range, of uint16 counts. Chunks that the kernels leave to the host are counted, and are "
        "not in the ratio."
    )
    rows = [
        [
            row["data"],
            f"{row['bound']:g}" if row["bound"] else "lossless",
            row["codec"],
            f"{row['ratio']:.2f}",
            *(gpu_cell(gpu, row, way) for way in GPU_WAYS),
            f"{row['left_to_host']}",
        ]
        for row in gpu["data"]
    ]
    headings = ["data", "bound", "codec", "ratio", "compress", "decompress", "left to the host"]
    return [text, "", *table(headings, rows), ""]


def fields_section(fields: Results) -> list[str]:
    """Describe the ratio on every field."""
    names = list(fields["rows"][0]["bounds"][0]["codecs"])
    conditions = (
        "Absolute bound as a part of the range, chunks of about 1 MiB, every value checked. Core "
        "fields have a \\*. An exclamation mark: the bound was violated or NaNs were changed. "
        f"{where(fields)}."
    )
    lines = [
        "## Ratio on real fields",
        "",
        conditions,
        "",
        *figure("fields", "Ratio on each core field"),
    ]
    for i, scale in enumerate(fields["geometric_mean"]):
        means = fields["geometric_mean"][scale]
        rows = []
        for row in fields["rows"]:
            results = row["bounds"][i]["codecs"]
            ratios = (
                "failed"
                if results[name]["ratio"] is None
                else f"{results[name]['ratio']:.2f}" + "!" * bool(results[name].get("broken"))
                for name in names
            )
            rows.append([row["field"] + " \\*" * row["core"], *ratios])
        mean = (f"{means[name]:.2f}" if name in means else NONE for name in names)
        rows.append(["geometric mean of \\*", *mean])
        lines += [f"### {scale} of the range", "", *table(("field", *names), rows), ""]
    return lines


BELOW_SZ3 = {
    "climate/foam_v_current": "half of the values are land: the mask is kept bit for bit, and SZ3 "
    "gets one constant instead",
}
"""Why a field compresses worse than with SZ3."""


def rate_section(results: Results) -> list[str]:
    """Describe rate and distortion on every field, along with other projects' codecs."""
    rows, scales = results["rows"], list(results["summary"])
    sz3s = [SZ3_FILTER, *filter(is_newer_sz3, results["measured"]), BEST_SZ3]
    every = [name for name in results["measured"] if not is_sz3(name)]
    every[every.index("PFPL") : every.index("PFPL")] = sz3s
    # In the tables of fields, only the newest pysz is shown; versions sort as text so far.
    newest = max((name.split()[1] for name in sz3s if is_newer_sz3(name)), default="")
    names = [name for name in every if not is_newer_sz3(name) or name.split()[1] == newest]
    packages: dict[str, dict[str, None]] = {}
    for run in results["measured"].values():
        for name, version in run["packages"].items():
            packages.setdefault(name, {})[version] = None
    versions = ", ".join(f"{name} {' and '.join(found)}" for name, found in packages.items())
    wheels = {
        name.split()[1]: run["packages"]["pysz"]
        for name, run in results["measured"].items()
        if is_newer_sz3(name)
    }
    of_pysz = ", ".join(f"SZ3 {sz3} is in pysz {wheel}" for sz3, wheel in wheels.items())
    conditions = (
        "`benchmarks/rate_distortion.py`: an absolute bound as a part of the range of the valid "
        "values; a chunk is the field with its longest axis halved until there are at most "
        "300 000 values, and fields are cropped to whole chunks. Missing values are set to the "
        "smallest valid one for SZ3, SPERR, ZFP and EBCC; the others keep them bit for bit. SPERR "
        "takes no fields with one axis; of those with more than three, the first ones are merged. "
        "No package on PyPI has an HDF5 filter for EBCC: numcodecs-wasm-ebcc is used, for "
        "float32 slices of at least 32 × 32, chunk by chunk in memory. "
        f"{SZ3S} {of_pysz}. {versions}. {where(results)}."
    )
    compared = (
        "Ratio divided by that of the best SZ3: geometric mean over the fields that a codec takes; "
        "the number of fields on which it is above 1; the field on which it is least."
    )
    lines = ["## Rate and distortion", "", conditions, ""]
    lines += figure("rate_distortion", "PSNR against bits per value, on all fields and on some")
    lines += [compared, ""]
    cases = [bound["codecs"] for row in rows for bound in row["bounds"]]
    summary = []
    for name in every:
        cells = [name]
        for scale in scales:
            found = results["summary"][scale].get(name)
            cells.append(
                NONE
                if found is None
                else f"**{found['of_best_sz3']:.3f}**, {found['above_best_sz3']} of "
                f"{found['fields']}, {found['worst'].partition('/')[2]} "
                f"{found['worst_of_best_sz3']:.2f}"
            )
        found = [codecs[name] for codecs in cases if codecs.get(name, {}).get("ratio")]
        cells.append(f"{sum(bool(result['broken']) for result in found)} of {len(found)}")
        errors = [result["error_fraction"] for result in found]
        cells.append(NONE if None in errors else f"{max(errors):.4f}")
        summary.append(cells)
    headings = ("", *scales, "bound violated", "largest error / bound")
    lines += [*table(headings, summary), ""]
    lines += [*below_sz3(rows), ""]
    lines += psnr_section(results)
    for i, scale in enumerate(scales):
        values = []
        for row in rows:
            codecs = row["bounds"][i]["codecs"]
            chunk = " × ".join(map(str, row["chunks"]))
            values.append(
                [
                    f"{row['field']}, {chunk}" + ", f64" * (row["dtype"] == "float64"),
                    *(rate_cell(codecs.get(name, {})) for name in names),
                ]
            )
        text = "Ratio, and PSNR in dB; an exclamation mark: the bound was violated."
        lines += [f"### {scale} of the range, against distortion", "", text, ""]
        lines += [*table(("field, chunk", *names), values), ""]
    return lines


def is_newer_sz3(name: str) -> bool:
    """Say whether a name is an SZ3 of pysz."""
    return is_sz3(name) and name != SZ3_FILTER


def psnr_section(results: Results) -> list[str]:
    """Describe the bits that Interp and SPERR need for the same PSNR."""
    rows, targets = results["rows"], results["psnr_summary"]
    compared = [
        f"At {target} dB Interp needs {found['bits_of_interp']:.2f} times the bits of {name} "
        f"(geometric mean of {found['fields']} fields; median {found['median']:.2f}), and more on "
        f"{found['more']} of them, the most on {found['worst'].partition('/')[2]}: "
        f"{found['worst_bits_of_interp']:.2f} times."
        for target, others in targets.items()
        for name, found in others.items()
    ]
    cells = []
    for row in rows:
        line = [row["field"]]
        for target in targets:
            found = row["equal_psnr"][target]
            own = found["Interp"]["bits"]
            line.append(f"{own:.4f}")
            for name in targets[target]:
                bits = found[name]["bits"]
                line.append(NONE if bits is None else f"{bits:.4f} ({own / bits:.2f} ×)")
        cells.append(line)
    headings = [
        f"{name}, {target} dB" for target, names in targets.items() for name in ("Interp", *names)
    ]
    text = (
        "Bits per value with the bound that a search found for the PSNR of the whole field; × is "
        "Interp's bits as a multiple of them. *SPERR by PSNR* is given a PSNR instead of a bound, "
        "so that it keeps none. Where no bound gives the PSNR to 0.05 dB, what is above it counts."
    )
    return [
        "### At equal PSNR, beside SPERR",
        "",
        text,
        "",
        *(f"- {line}" for line in compared),
        "",
        *table(("field", *headings), cells),
        "",
    ]


def rate_cell(result: Results) -> str:
    """Give ratio and PSNR of a field."""
    if result.get("ratio") is None:
        return NONE
    psnr = "exact" if result["psnr"] is None else f"{result['psnr']:.1f}"
    return f"{result['ratio']:.2f}" + "!" * bool(result["broken"]) + f" ({psnr})"


def below_sz3(rows: list[Results]) -> list[str]:
    """List the cases in which Interp's ratio is below the best SZ3's, with the reason if known."""
    cases = []
    for row in rows:
        for bound in row["bounds"]:
            best = bound["codecs"][BEST_SZ3]
            interp, sz3 = bound["codecs"]["Interp"]["ratio"], best["ratio"]
            if interp < sz3:
                reason = BELOW_SZ3.get(row["field"], "")
                cells = [row["field"], f"{bound['scale']:g}", f"{interp:.2f}", f"{sz3:.2f}"]
                cases.append([*cells, f"{interp / sz3:.3f}", best["of"], reason])
    count = sum(len(row["bounds"]) for row in rows)
    text = f"Interp is below the best SZ3 in {len(cases)} of {count} cases:"
    headings = ("field", "bound", "Interp", "best SZ3", "Interp / SZ3", "which SZ3", "why")
    return [text, "", *table(headings, cases)]


def memory_speed_section(results: Results) -> list[str]:
    """Compare the speed of Interp with that of pysz's SZ3s, in memory."""
    copies = ", ".join(f"{found['memcpy']['gb_per_s']:.1f}" for found in results["memory"])
    loads = ", ".join(f"{found['load'][0]:.1f}" for found in results["memory"])
    text = (
        "`benchmarks/interp_speed.py`: one core, the chunks of every field as for rate and "
        f"distortion, {results['scale']:g} of the range; Interp's native calls and those of pysz "
        f"in turn, median of {results['runs']} in CPU time. GB/s of original data, geometric means "
        "over the fields; × is how many times as fast Interp is in the same process. Each version "
        f"of SZ3 has a process of its own, with a memcpy of 256 MiB: {copies} GB/s; the machine's "
        f"load at their start: {loads}. {where(results)}."
    )
    rows = []
    for found in results["memory"]:
        for name, mean in found["means"].items():
            cells = [found["backend"] if name == "Interp" else "", name, f"{mean['ratio']:.2f}"]
            cells.append(f"{mean['error_fraction']:.6f}")
            cells += [
                f"{mean[f'{way}_gb_per_s']:.3f}"
                + f" ({mean[f'{way}_of_interp']:.2f} ×)" * (name != "Interp")
                for way in ("write", "read")
            ]
            rows.append(cells)
    headings = ("backend", "", "ratio", "error / bound", "compress", "decompress")
    lines = ["## Interp beside SZ3, in memory", "", text, "", *table(headings, rows), ""]
    found = results["memory"][0]
    names, fields = list(found["means"]), []
    for row in found["rows"]:
        own, cells = row["codecs"]["Interp"], [row["field"]]
        for way in ("write", "read"):
            for name in names:
                speed = row["codecs"][name][way]["gb_per_s"]
                times = f" ({own[way]['gb_per_s'] / speed:.1f} ×)" * (name != "Interp")
                cells.append(f"{speed:.3f}{times}")
        fields.append(cells)
    headings = [f"{name}, {word}" for word in ("compress", "decompress") for name in names]
    return [*lines, *table(("field", *headings), fields), ""]


def interp_speed_section(results: Results) -> list[str]:
    """Compare the speed of Interp with that of SZ3, in memory and through HDF5."""
    backends, rows = results["backends"], []
    for backend, found in backends.items():
        for row in found["rows"]:
            cells = [backend, row["name"], f"{row['ratio']:.2f}"]
            for way in ("write", "read"):
                speed, codec = row.get(way), row.get("codec")
                cells.append(
                    NONE if speed is None else f"{speed['gb_per_s']:.2f} ({speed['of_sz3']:.1f} ×)"
                )
                cells.append(NONE if codec is None else f"{codec[way]['gb_per_s']:.2f}")
            rows.append(cells)
    copies = ", ".join(
        f"{found['memcpy']['gb_per_s']:.1f} GB/s ({name})" for name, found in backends.items()
    )
    loads = ", ".join(f"{found['load'][0]:.1f}" for found in backends.values())
    size = next(iter(backends.values()))["rows"][0]["bytes"] >> 20
    text = (
        f"`benchmarks/interp_speed.py`: {results['field']}, float32, repeated to {size} MiB, "
        f"chunks of {size_name(results['chunk_bytes'])}, {results['scale']:g} of the range; files "
        "on tmpfs. "
        "GB/s of original data by the CPU time of the process, opening and closing the file "
        f"included: median of {results['runs']}, and × {SZ3_FILTER}'s speed in the same process "
        f"(hdf5plugin {results['hdf5plugin']}). *Codec*: encoding and decoding the same chunks in "
        f"memory, without HDF5. memcpy of 256 MiB in the same processes: {copies}; the machine's "
        f"load at their start: {loads}. {where(results)}."
    )
    headings = ("backend", "", "ratio", "write", "codec", "read", "codec")
    through_hdf5 = ["## Interp beside SZ3, through HDF5", "", text, "", *table(headings, rows), ""]
    return [*memory_speed_section(results), *through_hdf5]


DEMONSTRATIONS = {
    "ensemble": "An ensemble of (member, level, y, x) = 10 × 20 × 96 × 144, synthetic: a common "
    "flow and a perturbation of each member. SPERR takes no chunks with four axes.",
    "mask": "A sea surface temperature of (time, y, x) = 24 × 180 × 360, synthetic, of which half "
    "is land; h5lossy keeps NaN or 1e20 there bit for bit, the others get the smallest valid "
    "value. Chunks of 8 × 180 × 180.",
    "series": "climate/trefht appended step by step, with the file opened and closed for each; a "
    "chunk of 10 × 64 × 128 spans ten steps. *Once*: the ratio if all is written at once. "
    "*Moved*: how often a value that had been written before reads differently after a later "
    "step; in brackets, how many values differ in the end from what was read first.",
    "boxes": "Ten boxes of a quarter of each extent overwritten in one chunk, with the file opened "
    "and closed for each. *Moved*: values outside the boxes.",
}
"""Explains the parts of results/demonstrations.json."""


def demonstrations_section(results: Results) -> list[str]:
    """Describe what happens to data that is not simply written once."""
    text = (
        "`benchmarks/demonstrations.py`, all through HDF5, but for the SZ3s of pysz: what HDF5 "
        f"would do with their chunks was done in memory. {where(results)}."
    )
    lines = ["## Ensembles, masks, appending and overwriting", "", text, ""]
    for part, text in DEMONSTRATIONS.items():
        rows, is_rewritten = results[part], part in {"series", "boxes"}
        cells = []
        for row in rows:
            line = [row["what"], f"{row['scale']:g}", row["name"]]
            if is_rewritten:
                line.append(f"{row['once']:.2f}")
            line += [f"{row['ratio']:.2f}", f"{row['error']:.3f}"]
            if is_rewritten:
                line.append(f"{row['moved']} ({row['moved_in_the_end']})")
            cells.append(line)
        headings = ["", "bound", "codec", *["once"] * is_rewritten, "ratio", "error / bound"]
        lines += [text, "", *table([*headings, *["moved"] * is_rewritten], cells), ""]
    return lines


def trajectories() -> str:
    """Give the ratios of a trajectory by axes, frames per chunk and codec."""
    results = load("trajectories")
    names = ("Interp", "PFPL", BEST_SZ3)
    scales = dict.fromkeys(row["scale"] for row in results["rows"])
    cases: dict[tuple[str, int], dict[str, list[str]]] = {}
    for row in results["rows"]:
        ratios = cases.setdefault((row["layout"], row["frames"]), {name: [] for name in names})
        for name in names:
            ratios[name].append(f"{row['codecs'][name]['ratio']:.2f}")
    cells = [
        [layout, str(frames), *(" / ".join(ratios[name]) for name in names)]
        for (layout, frames), ratios in cases.items()
        if frames > 1 or layout.startswith("frame")  # same as the other one
    ]
    text = (
        f"Ratios of {' × '.join(map(str, results['shape']))} float32 (frame, particle, xyz), with "
        f"absolute bounds of {', '.join(f'{scale:g}' for scale in scales)} of the range. *Best "
        "SZ3*: the smallest of hdf5plugin's and SZ3 3.4.0's, for each bound. "
        f"`benchmarks/trajectories.py`; {where(results)}."
    )
    headings = ("axes", "frames in a chunk", *names)
    return "\n".join([*table(headings, cells), "", sentences(text)])


def climate_section(results: Results) -> list[str]:
    """Describe ClimateBenchPress's metrics on climate fields."""
    rows = []
    for scale in results["scales"]:
        found = [row["codecs"] for row in results["rows"] if row["scale"] == scale]
        for codecs in found:
            sizes = [codecs[name] for name in codecs if is_sz3(name)]
            codecs[BEST_SZ3] = max(sizes, key=lambda one: one["ratio"])
        for name in ("Interp", "PFPL", BEST_SZ3, "SPERR", "ZFP"):
            of = [codecs[name] for codecs in found if "ratio" in codecs[name]]
            largest = max(one["max_error"] for one in of)
            rows.append(
                [
                    f"{scale:g}",
                    name,
                    f"{geometric_mean(one['ratio'] for one in of):.1f}",
                    f"{largest:.4f}{'!' * (largest > 1)}",
                    f"{mean_of(of, 'mean_error'):.2f}",
                    f"{mean_of(of, 'psnr'):.1f}",
                    f"{mean_of(of, 'dssim'):.4f}",
                    f"{mean_of(of, 'spectrum'):.1e}",
                ]
            )
    fields = dict.fromkeys(row["name"] for row in results["rows"])
    text = (
        f"The metrics of ClimateBenchPress on {len(fields)} climate fields, with its bounds for "
        "variables of unknown spread, which are parts of the range. Ratios are geometric means; "
        "*largest error* is that of all fields, and an exclamation mark means that it is beyond "
        "the bound; all others are arithmetic means. *Spectrum*: how far the power at wavenumbers "
        "below 10 is off, as a part of it. SPERR and ZFP spend bits on smaller errors than the "
        f"bound allows. `benchmarks/climate.py`; {where(results)}."
    )
    headings = ["bound", "codec", "ratio", "largest error / bound", "mean error / bound"]
    headings += ["PSNR, dB", "data SSIM", "spectrum"]
    return ["## Climate", "", sentences(text), "", *table(headings, rows), ""]


def mean_of(found: list[dict[str, Any]], key: str) -> float:
    """Give the mean of the defined values."""
    return statistics.fmean(one[key] for one in found if one[key] is not None)


def assess_rows(results: Results) -> list[list[str]]:
    """Give speeds in GB/s of original data, each with its range."""

    def text(speed: float) -> str:
        return f"{speed:.0f}" if speed >= 100 else f"{speed:.3g}"

    return [
        [
            name,
            text(found["gb_per_s"]),
            f"{text(found['gb_per_s_min'])} to {text(found['gb_per_s_max'])}",
        ]
        for name, found in results["speeds"].items()
    ]


def assess_section(cpu: Results) -> list[str]:
    """Describe the speed of the assessment, on one core and on a GPU."""
    gpu = load_if_there("gpu_assess")

    def shape(results: Results) -> str:
        return " × ".join(map(str, results["shape"]))

    headings = ("what", "GB/s of original", "range")
    text = (
        f"{where(cpu)}; backend {cpu['machine']['backend']}. One thread, {shape(cpu)} values of "
        "float32 with uniform errors, CPU time of the thread, median of 9 (scikit-image: of 3, on "
        "float64, as it needs to be right)."
    )
    lines = ["## Assessment", "", text, "", *table(headings, assess_rows(cpu)), ""]
    if files := cpu.get("files"):
        text = (
            f"A pair of HDF5 datasets of {files['gib_each']:g} GiB each: {files['seconds']:.0f} s "
            f"on {files['cores']} cores, with {files['peak_mib']:.0f} MiB at the peak in the whole "
            f"process ({files['before_mib']:.0f} before)."
        )
        lines += [text, ""]
    if gpu is not None:
        text = (
            f"{gpu['device']}: {shape(gpu)} values of float32 in its memory, whole calls in "
            "wall-clock time, median of 9."
        )
        lines += [text, "", *table(headings, assess_rows(gpu)), ""]
    return lines


def mpi_section(results: Results) -> list[str]:
    """Describe how parallel HDF5 scales."""
    ways = list(results["rows"][0]["speeds"])
    rows = [
        [
            str(row["ranks"]),
            *(
                f"{found['gb_per_s']:.2f} ({found['gb_per_s_min']:.2f} to "
                f"{found['gb_per_s_max']:.2f})"
                for found in (row["speeds"][way] for way in ways)
            ),
            f"{row['ratio']:.2f}",
            f"{row['error']:.4f}",
        ]
        for row in results["rows"]
    ]
    where_and_how = (
        f"{where(results)}; HDF5 {results['hdf5']}. {results['mib_each']} MiB of float32 for each "
        f"rank, chunks of {results['chunk_mib']} MiB, PFPL, one thread for each rank; GB/s of all "
        "ranks by the slowest of them, in wall-clock time, median of 9 (and range). The machine "
        f"has {results['machine']['cores']} cores, which other programs used meanwhile: four ranks "
        "show that it works, and not how it scales. [What to expect](howto/mpi.md#how-it-scales)."
    )
    headings = ("ranks", *ways, "ratio", "error/bound")
    return ["## Parallel HDF5", "", where_and_how, "", *table(headings, rows), ""]


PARTS = {
    "throughput": speed_section,
    "hdf5": hdf5_section,
    "gpu": gpu_section,
    "assess": assess_section,
    "mpi_scaling": mpi_section,
    "fields": fields_section,
    "types": types_section,
    "rate_distortion": rate_section,
    "interp_speed": interp_speed_section,
    "demonstrations": demonstrations_section,
    "climate": climate_section,
}
"""The parts of the page, by the names of their results."""


def show(name: str, results: Results) -> None:
    """Print new results as the page will have them."""
    text = "\n".join(PARTS[name]({"machine": machine(), **results}))
    Console(width=160).print(Markdown(text))


def page() -> str:
    """Give docs/benchmarks.md."""
    parts = {name: load_if_there(name) for name in PARTS}
    others = ("rate_distortion", "interp_speed", "demonstrations", "climate")
    introduction = [
        "The machines were shared, so only ratios within one run mean something.",
        "The JSON files in `benchmarks/results/` have the spread, too.",
        "To measure on another machine:",
    ]
    lines = [
        "<!-- Written by benchmarks/readme.py from benchmarks/results/. -->",
        "",
        "# Benchmarks",
        "",
        summary(),
        "",
        "## Conditions",
        "",
        *introduction,
        "",
        "```sh",
        "pip install '.[test,plot]' pysz imagecodecs pcodec",
        "export H5LOSSY_CORPUS=/path/to/fields",
        *(f"python benchmarks/{name}.py" for name in ("fields", "throughput", "hdf5", *others)),
        "H5LOSSY_CORPUS=/path/to/integers python benchmarks/number_types.py",
        "python benchmarks/plots.py && python benchmarks/readme.py",
        "```",
        "",
        *(line for name, found in parts.items() if found for line in PARTS[name](found)),
    ]
    return "\n".join(lines).rstrip("\n") + "\n"


def main() -> None:
    """Write everything, or compare everything."""
    parser = argparse.ArgumentParser(description="Write the results into README and docs.")
    parser.add_argument("--check", action="store_true", help="only say whether they are as written")
    check = parser.parse_args().check
    for path, text in (
        (README, between_marks(README, linked("docs/benchmarks.md"))),
        (FRONT, between_marks(FRONT, front_page())),
        (INTEGERS, between_marks(INTEGERS, small_and_fast())),
        (SIMULATIONS, between_marks(SIMULATIONS, trajectories())),
        (PAGE, page()),
    ):
        if not check:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            raise SystemExit(f"{path.name} is not what the results say: run benchmarks/readme.py")


if __name__ == "__main__":
    main()

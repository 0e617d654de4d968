# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""``h5lossy info``: what a file says about its compressed datasets."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from h5lossy import DatasetInfo, ErrorBound, H5LossyError, describe, inspect
from h5lossy._blocks import chunk_starts
from h5lossy._stored import StoredChunks
from h5lossy.cli._console import (
    bytes_text,
    one_line,
    print_table,
    printable,
    ratio_text,
    say,
    shape_text,
)
from h5lossy.cli._files import UNREADABLE, datasets_in, open_file
from h5lossy.cli._options import codec_text, frame_codec_text

if TYPE_CHECKING:
    import h5py


@click.command()
@click.argument(
    "path", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option(
    "--dataset",
    "patterns",
    multiple=True,
    metavar="GLOB",
    help="Only these datasets; a glob as in h5lossy repack. May be repeated.",
)
@click.option(
    "--frames",
    "all_frames",
    is_flag=True,
    help="Look into the frames of all chunks, not of the first one only.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def info(path: Path, patterns: tuple[str, ...], *, all_frames: bool, as_json: bool) -> None:
    """Print codec, bound and ratio of the datasets in FILE.

    Those are shown that h5lossy compressed. Nothing is decoded, and the filter need not be
    registered. "skipped" counts the chunks that HDF5 stored without the filter. "frames" is what
    the frames themselves say: the codec and the bound that were really used ("stored" is a chunk
    kept as it was; lossless, and then pfpl, takes the place of a bound that is too small to help),
    and how many of the tiles were kept as they were. Where the codec is auto, each chunk has one of
    its own: --frames counts them all.
    """
    with open_file(path) as file:
        datasets = datasets_in(file, patterns)
        reports, unreadable = {}, {}
        for name, dataset in datasets.items():
            try:
                described = describe(dataset)
                if described is not None:
                    frames = _look_into(dataset, described, everything=all_frames)
                    reports[name] = described, frames
            except UNREADABLE as error:
                unreadable[name] = one_line(error)
    others = [name for name in datasets if name not in reports and name not in unreadable]
    if as_json:
        _print_json(reports, others, unreadable)
    else:
        _print_table(reports)
        if others:
            say(f"not compressed by h5lossy: {len(others)} datasets")
    if unreadable:
        which = "\n".join(f"{printable(name)}: {why}" for name, why in unreadable.items())
        raise click.ClickException(f"{len(unreadable)} of {len(datasets)} can't be read:\n{which}")


@dataclass(kw_only=True)
class _Frames:
    """The headers of some chunks' frames, summed up."""

    looked_at: int = 0
    codecs: Counter[str] = field(default_factory=Counter)
    modes: Counter[str] = field(default_factory=Counter)
    bounds: Counter[str] = field(default_factory=Counter)
    checksums: int = 0
    tiles: int = 0
    stored_tiles: int = 0
    broken: int = 0

    def add(self, frame: bytes) -> None:
        self.looked_at += 1
        try:
            found = inspect(frame)
        except H5LossyError:
            self.broken += 1
            return
        self.codecs[found.codec] += 1
        self.modes[frame_codec_text(found)] += 1
        self.bounds[str(found.bound)] += 1
        self.checksums += found.checksum
        self.tiles += found.tiles
        self.stored_tiles += found.stored_tiles

    def text(self, requested: ErrorBound) -> str:
        """Write it in one line; a bound is named where it is not the requested one."""
        if not self.looked_at:
            return "-"
        counts = [f"{n} {mode}" for mode, n in self.modes.most_common()]
        counts += [f"{n} {bound}" for bound, n in self.bounds.items() if bound != str(requested)]
        counts.append(f"{self.stored_tiles} of {self.tiles} tiles stored")
        if self.broken:
            counts.append(f"{self.broken} BROKEN")
        return ", ".join(counts)

    def plain(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        counters = {name: dict(getattr(self, name)) for name in ("codecs", "modes", "bounds")}
        return vars(self) | counters


_Report = tuple[DatasetInfo, _Frames]


def _look_into(dataset: h5py.Dataset, described: DatasetInfo, *, everything: bool) -> _Frames:
    """Inspect the frames of all chunks, or of the first one."""
    frames = _Frames()
    if described.other_filters:  # what stands in the file is their output
        return frames
    starts, stored = chunk_starts(dataset), StoredChunks(dataset)
    for start in starts if everything else starts[:1]:
        found = stored.frame(start)
        if found is not None:
            frames.add(found)
    return frames


def _print_table(reports: dict[str, _Report]) -> None:
    if not reports:
        return
    print_table(
        (
            "dataset",
            "type",
            "shape",
            "chunks",
            "codec",
            "bound",
            "fill",
            "raw",
            "stored",
            "ratio",
            "chunks stored",
            "skipped",
            "frames",
        ),
        [
            (
                printable(name),
                str(described.dtype),
                shape_text(described.shape),
                shape_text(described.chunks),
                codec_text(described.config, described.codec),
                str(described.bound),
                "-" if described.fill_value is None else str(described.fill_value),
                bytes_text(described.raw_bytes),
                bytes_text(described.stored_bytes),
                ratio_text(described.raw_bytes, described.stored_bytes),
                str(described.chunks_stored),
                str(described.chunks_unfiltered),
                frames.text(described.bound),
            )
            for name, (described, frames) in reports.items()
        ],
    )


def _print_json(reports: dict[str, _Report], others: list[str], unreadable: dict[str, str]) -> None:
    datasets = [
        {"path": name, **_plain(described), "frames": frames.plain()}
        for name, (described, frames) in reports.items()
    ]
    found = {"datasets": datasets, "others": others, "unreadable": unreadable}
    click.echo(json.dumps(found, indent=2))


def _plain(described: DatasetInfo) -> dict[str, Any]:
    """Return a description as JSON can hold it. JSON has no NaN: that fill value is text."""
    config = described.config
    fill_value = None if described.fill_value is None else float(described.fill_value)
    finite = fill_value is None or math.isfinite(fill_value)
    return {
        "shape": described.shape,
        "chunks": described.chunks,
        "dtype": described.dtype.str,
        "codec": described.codec,
        "settings": {own.name: getattr(config, own.name) for own in config.choices()},
        "bound": {"kind": str(described.bound.kind), "value": described.bound.value},
        "checksum": described.checksum,
        "fill_value": fill_value if finite else str(fill_value),
        "other_filters": described.other_filters,
        "chunks_stored": described.chunks_stored,
        "chunks_unfiltered": described.chunks_unfiltered,
        "raw_bytes": described.raw_bytes,
        "stored_bytes": described.stored_bytes,
        "ratio": described.ratio,
    }

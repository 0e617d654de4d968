# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""``h5lossy info``: what a file says about its compressed datasets."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from h5lossy import DatasetInfo, ErrorBound, H5LossyError, describe, inspect
from h5lossy._blocks import listed_chunks
from h5lossy._cli._console import print_table, ratio_text, say, say_json, shape_text
from h5lossy._cli._files import (
    NO_VERDICT,
    UNREADABLE,
    Ended,
    datasets_in,
    for_each_file,
    no_verdict,
    open_file,
    raise_failures,
    why_of,
)
from h5lossy._cli._options import (
    bound_text,
    codec_text,
    dataset_option,
    files_argument,
    frame_codec_text,
    json_option,
)
from h5lossy._printable import bytes_text, one_line, printable
from h5lossy._stored import StoredChunks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import h5py

    from h5lossy._repacking.objects import Datasets


#: Columns that a narrow terminal does not show, the first ones first.
_OPTIONAL = (
    "exact",
    "safeguards",
    "fill",
    "skipped",
    "chunks stored",
    "raw",
    "type",
    "chunks",
    "shape",
)


@click.command()
@files_argument("paths", "FILE...")
@dataset_option
@click.option(
    "--frames",
    "all_frames",
    is_flag=True,
    help="Look into the frames of all chunks, not of the first one only.",
)
@json_option
def info(
    paths: Sequence[Path], *, patterns: tuple[str, ...], all_frames: bool, as_json: bool
) -> None:
    """Print codec, bound and ratio of the datasets in each FILE.

    Only datasets that h5lossy compressed are shown. Nothing is decoded, and the filter need not be
    registered. "skipped" counts the chunks that HDF5 stored without the filter. "frames" shows what
    the frames themselves contain: the codec and the bound that were really used ("stored" means a
    chunk that was not made smaller; a bound that is too small to help is replaced by lossless, and
    the codec then is pfpl), and how many tiles are stored. With codec auto, each chunk has its own
    codec: --frames counts them all.

    Exit codes: 0 done; 2 wrong usage, or a file or dataset that can't be read.
    """
    found: dict[str, list[dict[str, Any]]] = {"datasets": [], "others": [], "unreadable": []}

    def work(path: Path) -> None:
        with no_verdict(), open_file(path) as file:
            datasets = datasets_in(file, patterns)
            reports, unreadable = _look_at(datasets, all_frames=all_frames)
            others = [name for name in datasets if name not in reports and name not in unreadable]
            if as_json:
                place = {"file": str(path)}
                found["datasets"] += [
                    {**place, "path": name, **_plain(described), "frames": frames.plain()}
                    for name, (described, frames) in reports.items()
                ]
                found["others"] += [{**place, "path": name} for name in others]
                found["unreadable"] += [
                    {**place, "path": name, "why": why} for name, why in unreadable.items()
                ]
            else:
                if len(paths) > 1:
                    say(printable(str(path)))
                _print_table(reports, keep_frames=all_frames)
                if others:
                    say(f"not compressed by h5lossy: {len(others)} datasets")
            if unreadable:
                which = [f"{printable(name)}: {why}" for name, why in unreadable.items()]
                text = f"{len(unreadable)} of {len(datasets)} datasets can't be read:"
                raise Ended(text, NO_VERDICT, *which)

    failed = for_each_file(paths, work)
    if as_json:
        found["unreadable"] += [
            {"file": str(path), "path": None, "why": why_of(error)}
            for path, error in failed.items()
            if str(path) not in {one["file"] for one in found["unreadable"]}
        ]
        say_json(found)
    raise_failures(failed, len(paths))


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


def _look_at(datasets: Datasets, *, all_frames: bool) -> tuple[dict[str, _Report], dict[str, str]]:
    """Describe the datasets that h5lossy compressed, and say why others can't be read."""
    reports, unreadable = {}, {}
    for name, dataset in datasets.items():
        try:
            described = describe(dataset)
            if described is not None:
                reports[name] = described, _look_into(dataset, described, everything=all_frames)
        except UNREADABLE as error:
            unreadable[name] = one_line(error)
    return reports, unreadable


def _look_into(dataset: h5py.Dataset, described: DatasetInfo, *, everything: bool) -> _Frames:
    """Inspect the frames of all chunks, or of the first one."""
    frames = _Frames()
    if described.other_filters:  # what stands in the file is their output
        return frames
    stored = StoredChunks(dataset)
    listed = listed_chunks(dataset) if everything else listed_chunks(dataset, 1)
    for start in listed.places.tolist():
        found = stored.frame(tuple(start))
        if found is not None:
            frames.add(found)
    return frames


def _print_table(reports: dict[str, _Report], *, keep_frames: bool) -> None:
    rows = [
        {
            "dataset": printable(name),
            "type": str(described.dtype),
            "shape": shape_text(described.shape),
            "chunks": shape_text(described.chunks),
            "codec": codec_text(described.config, described.codec),
            "bound": bound_text(described.bound, described.dtype),
            "exact": ", ".join(map(str, described.config.params().exact)) or "-",
            "safeguards": str(described.config.safeguards) or "-",
            "fill": "-" if described.fill_value is None else str(described.fill_value),
            "raw": bytes_text(described.raw_bytes),
            "stored": bytes_text(described.stored_bytes),
            "ratio": ratio_text(described.raw_bytes, described.stored_bytes),
            "chunks stored": str(described.chunks_stored),
            "skipped": str(described.chunks_unfiltered),
            "frames": frames.text(described.bound),
        }
        for name, (described, frames) in reports.items()
    ]
    if rows:
        optional = _OPTIONAL if keep_frames else (*_OPTIONAL, "frames")
        print_table([*rows[0]], [[*row.values()] for row in rows], optional=optional)


def _plain(described: DatasetInfo) -> dict[str, Any]:
    """Return a description as JSON can hold it."""
    config = described.config
    fill_value: Any = described.fill_value
    if fill_value is not None:
        fill_value = fill_value.item()
        # What JSON has no number for is text.
        if isinstance(fill_value, complex) or not math.isfinite(fill_value):
            fill_value = str(fill_value)
    return {
        "shape": described.shape,
        "chunks": described.chunks,
        "dtype": described.dtype.str,
        "codec": described.codec,
        "settings": {own.name: getattr(config, own.name) for own in config.choices()},
        "bound": described.bound.plain(),
        "exact": config.params().exact,
        "wide": config.wide,
        **config.safeguards._asdict(),
        "checksum": described.checksum,
        "fill_value": fill_value,
        "other_filters": described.other_filters,
        "chunks_stored": described.chunks_stored,
        "chunks_unfiltered": described.chunks_unfiltered,
        "raw_bytes": described.raw_bytes,
        "stored_bytes": described.stored_bytes,
        "ratio": described.ratio,
    }

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""``h5lossy repack``: a copy of a file with its float datasets compressed within a bound."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import h5py
import numpy as np
from h5py import h5d, h5f, h5o, h5t, h5z

from h5lossy import (
    FILTER_ID,
    BoundKind,
    ErrorSummary,
    H5LossyError,
    __version__,
    describe,
    read,
)
from h5lossy._blocks import block_shape, stored_blocks
from h5lossy._values import own_fill_value
from h5lossy.bounds import Extent, LoneExtremes
from h5lossy.cli._check import Tally, error_text, verdict
from h5lossy.cli._console import bytes_text, print_table, printable, ratio_text, say, shape_text
from h5lossy.cli._files import open_file
from h5lossy.cli._new_file import complete_or_absent, discarded_on_failure
from h5lossy.cli._options import Request, codec_text, range_options, request_option
from h5lossy.cli._patterns import Chunks, Rule, parse_chunks
from h5lossy.cli._plan import Plan, Wishes, make_plans
from h5lossy.cli._progress import Advance, progress_bar
from h5lossy.frames import keeping_missing
from h5lossy.missing import missing_when_stored
from h5lossy.repacking.copier import (
    FileCopier,
    companions,
    copy_user_block,
    create_like,
    object_key,
    walk,
)
from h5lossy.verification import HASH_ATTRIBUTE, REPORT_ATTRIBUTE, Recorder, write_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from h5lossy.codecs import Codec

#: The attribute that a compressed dataset gets: what was asked for, and what that came to.
RECORD = "h5lossy"

#: A fixed array, the index of datasets whose extents are limited, takes about 24 bytes for each.
_MOST_CHUNKS = 1 << 30

#: HDF5's cache for chunks of the source that stretch over several blocks.
_CACHE_BYTES = 64 << 20


@click.command()
@click.argument(
    "source", metavar="SRC", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.argument("target", metavar="DST", type=click.Path(dir_okay=False, path_type=Path))
@request_option
@click.option(
    "--dataset",
    "rules",
    multiple=True,
    metavar="GLOB:SETTINGS",
    callback=lambda _ctx, _option, texts: [Rule.parse(text) for text in texts],
    help="Settings of some datasets, such as '/ocean/*:absolute=1e-3,chunks=64x64' or "
    "'salt:codec=cuszp2,mode=plain'. May be repeated; where several rules name a dataset, the last "
    "one that gives a setting decides it. A codec's own settings go with the codec.",
)
@click.option(
    "--skip",
    multiple=True,
    metavar="GLOB",
    help="Datasets that are kept as they are, whatever the rules say. May be repeated.",
)
@click.option(
    "--chunks",
    default="keep",
    show_default=True,
    metavar="SHAPE",
    callback=lambda _ctx, _option, text: parse_chunks(text),
    help="Chunk shape of what is compressed: 'keep' (as in SRC, and auto where SRC has no "
    "chunks), 'auto' (about 1 MiB), or extents such as 64x64 for all datasets of that rank.",
)
@click.option(
    "--verify/--no-verify",
    default=True,
    help="Read everything back and check every value before DST gets its name; what is found is "
    "recorded for h5lossy verify. [default: verify]",
)
@range_options
@click.option(
    "--attributes/--no-attributes",
    default=True,
    help="Record the bounds and the results of the check in attributes. [default: attributes]",
)
@click.option("--force", is_flag=True, help="Replace DST if it exists.")
@click.option("--dry-run", is_flag=True, help="Print what would be done, and do nothing.")
def repack(
    source: Path,
    target: Path,
    *,
    request: Request,
    rules: Sequence[Rule],
    skip: Sequence[str],
    chunks: Chunks,
    verify: bool,
    attributes: bool,
    missing_value: Sequence[float],
    confirm_range: bool,
    force: bool,
    dry_run: bool,
) -> None:
    """Copy SRC to DST with its float datasets compressed.

    The bound options hold for every float32 and float64 dataset of the HDF5 file SRC; without
    one, only datasets that a --dataset rule gives a bound are compressed. --codec holds for all
    that are compressed, unless a rule names another. A range-relative bound is taken over the
    whole dataset and stored as the absolute one that it comes to. Each compressed dataset records
    both in its attribute "h5lossy". Records are plain ASCII, which every netCDF model supports.

    A GLOB that starts with "/" is matched against a dataset's whole path, any other against the
    path's end: "salt", "ocean/s*". A "*" stays within one name, "**" stands for any number of
    names. Of a dataset with several hard links the first path counts.

    Missing values (HDF5's fill value, the attributes _FillValue and missing_value, and
    --missing-value) are restored bit for bit. Values that valid_min, valid_max or valid_range make
    invalid stay invalid, and no other value becomes missing or invalid. If the bound does not allow
    that, nothing is written.

    All else is kept: attributes, groups, links of every kind, references, dimension scales,
    datatypes, fill values, the user block, and other datasets with the filters that they have.
    Datasets of 4 KiB or less, and dimension scales (coordinates must be exact to be found again),
    are compressed only if a --dataset rule without wildcards gives them a bound. Virtual and
    externally stored datasets never are; like links to other files, they go on meaning those
    files.

    Not kept are the times of objects, and HDF5's comments on groups and on what is compressed.
    Links of a program's own class and references of HDF5 1.12's new kind are refused.

    DST appears under its name when it is complete and checked, or not at all. It gets the owner,
    group and permissions of the file that it replaces, or those of SRC, as far as your rights
    allow. Only regular files are replaced. SRC is never written to. If there is nothing to
    compress, nothing is written, and the exit code is 1.
    """
    if not request.bound and not any(rule.request.bound for rule in rules):
        raise click.UsageError(
            "give a bound for all float datasets, for example --range-relative 1e-4, "
            "or for some: --dataset 'GLOB:absolute=1e-3'"
        )
    target = target.resolve()
    if target.exists() and target.samefile(source):
        raise click.UsageError("SRC and DST are the same file; repack never overwrites its input")
    wishes = Wishes(request=request, chunks=chunks, rules=rules, skip=skip)
    with open_file(source, rdcc_nbytes=_CACHE_BYTES, rdcc_w0=1.0) as file:
        plans = make_plans(file, wishes)
        jobs = [
            _Job(plan, plan.codec, missing_value, confirm_range=confirm_range)
            for plan in plans
            if plan.codec
        ]
        notes = _other_files(file, source, target)
        if dry_run:
            _print_plans(plans)
        elif jobs:
            with complete_or_absent(target, replace=force, like=source) as temporary:
                notes += _write(file, temporary, plans, jobs, verify=verify, attributes=attributes)
            _print_results(jobs, verified=verify)
            say(f"file: {_file_size(source)} -> {_file_size(target)}")
        _print_kept(plans)
        for note in [*notes, *_compressed_before(jobs)]:
            say(f"note: {note}")
    if not jobs:
        raise click.ClickException(
            f"{printable(str(source))} has nothing to compress, so DST is not written"
        )


class _Job:
    """One dataset that is compressed, and how that went."""

    def __init__(
        self,
        plan: Plan,
        requested: Codec,
        missing_value: Sequence[float] = (),
        *,
        confirm_range: bool = False,
    ) -> None:
        self.plan = plan
        self.requested = requested
        self.codec = requested
        self.raw_bytes = 0
        self.stored_bytes = 0
        self.summary: ErrorSummary | None = None
        self._missing = missing_when_stored(plan.dataset, missing_value)
        self._confirm_range = confirm_range

    def resolve(self, advance: Advance) -> None:
        """Resolve a range-relative bound, and adjust the bound so that missing values are kept."""
        if self.requested.bound.kind is BoundKind.RANGE_RELATIVE:
            self._take_range(advance)
        self.codec = keeping_missing(self.codec, self._missing)

    def _take_range(self, advance: Advance) -> None:
        dataset = self.plan.dataset
        extent = Extent(self._missing)
        for block in self._blocks("range of", advance):
            extent.add(read(dataset, block))
        if extent.ends is not None and extent.may_be_lone and not self._confirm_range:
            lone = LoneExtremes(self._missing, extent.ends)
            for block in self._blocks("range of", lambda *_: None):
                lone.add(read(dataset, block))
            try:
                lone.check(self.requested.bound)
            except H5LossyError as error:
                raise H5LossyError(f"{self.plan.path}: {error}") from error
        self.codec = self.requested.resolved_for(extent.ends)

    def create(self, file: h5f.FileID, old: h5d.DatasetID, type_id: h5t.TypeID) -> h5d.DatasetID:
        """Make the new dataset, as `FileCopier` wants it."""
        most = self.plan.dataset.maxshape
        if None not in most:
            chunks = math.prod(-(-m // c) for m, c in zip(most, self.plan.chunks, strict=True))
            if chunks > _MOST_CHUNKS:
                raise H5LossyError(
                    f"its maximal extents {most} hold {chunks} chunks of {self.plan.chunks}, and "
                    f"at most {_MOST_CHUNKS} are possible, as HDF5 makes an index for all of them: "
                    "give larger --chunks, or make an extent unlimited"
                )
        creation = old.get_create_plist()
        creation.remove_filter(h5z.FILTER_ALL)
        creation.set_chunk(self.plan.chunks)
        creation.set_alloc_time(h5d.ALLOC_TIME_INCR)
        if self._missing.fill is not None and own_fill_value(self.plan.dataset) is None:
            creation.set_fill_value(np.asarray(self._missing.fill))
        creation.set_filter(FILTER_ID, h5z.FLAG_MANDATORY, self.codec.filter_options)
        return h5d.create(file, None, type_id, old.get_space(), creation)

    def write(self, file: h5py.File, advance: Advance, *, attributes: bool) -> None:
        """Compress the values."""
        old = self.plan.dataset
        new = h5py.Dataset(h5o.open(file.id, self.plan.name))
        for block in self._blocks("compressing", advance):
            new[block] = read(old, block)
        for stale in (RECORD, REPORT_ATTRIBUTE, HASH_ATTRIBUTE):  # copied from the source
            if stale in new.attrs:
                del new.attrs[stale]
        if attributes:
            write_text(new, RECORD, json.dumps(self._record(old)))
        new.flush()
        result = describe(new)
        assert result is not None
        self.raw_bytes, self.stored_bytes = result.raw_bytes, result.stored_bytes

    def check(self, file: h5py.File, advance: Advance, *, attributes: bool) -> None:
        """Read the values back, judge every one, and record what was found for `verify`.

        Raises
        ------
        H5LossyError
            If the bound does not hold.
        """
        old = self.plan.dataset
        new = h5py.Dataset(h5o.open(file.id, self.plan.name))
        tally = Tally(self.codec.bound, self._missing)
        recorder = Recorder(new, self.codec.bound, missing=self._missing) if attributes else None
        for block in self._blocks("checking", advance):
            values, decoded = read(old, block), new[block]
            self._check_missing(block, values, decoded)
            tally.add(values, decoded)
            if recorder is not None:
                recorder.add_block(block, values, decoded)
        self.summary = tally.summary
        if not self.summary.holds:
            raise H5LossyError(
                f"nothing was written, since {self.plan.path} breaks its bound: "
                f"{verdict(self.summary)}. This is a fault of h5lossy or of this machine; "
                "please report it"
            )
        if recorder is not None:
            recorder.finish()

    def _check_missing(
        self, block: tuple[slice, ...], values: np.ndarray[Any, Any], decoded: np.ndarray[Any, Any]
    ) -> None:
        """Raise if a reader would see other points as missing than before.

        The filter keeps only HDF5's fill value.
        """
        if not self._missing.has_more:
            return
        changes = self._missing.changes(values, decoded)
        changed = changes.lost | changes.made
        if not changed.any():
            return
        inside = tuple(np.argwhere(changed)[0])
        at = tuple(int(s.start + i) for s, i in zip(block, inside, strict=True))
        of_original, of_decoded = values[inside], decoded[inside]
        what = (
            "would not be left out as missing or not valid any more, or not with the same bits"
            if changes.lost[inside]
            else "is data, and would be taken for missing or not valid"
        )
        raise H5LossyError(
            f"nothing was written: {self.plan.path} has values that mean missing, or limits of "
            f"what is valid, and its bound does not keep them. The value {of_original!s} at {at} "
            f"{what}: it would become {of_decoded!s}. Give this dataset another bound "
            f"(--dataset '{self.plan.path}:lossless' always holds), leave it as it is (--skip), or "
            "make its missing value the fill value that HDF5 knows"
        )

    def bound_text(self) -> str:
        """Write the bound to six digits, and what was asked for where that is another one."""
        bound = self.codec.bound
        lossless = bound.kind is BoundKind.LOSSLESS
        text = str(bound.kind) if lossless else f"{bound.kind} {bound.value:.6g}"
        if self.codec == self.requested:
            return text
        requested = self.requested.bound
        if requested.kind is bound.kind:
            return f"{text} (for {requested.value:.6g}, with missing values exact)"
        return f"{text} ({requested.value:.6g} of the range)"

    def _blocks(self, doing: str, advance: Advance) -> Iterator[tuple[slice, ...]]:
        """Go through the dataset, and count each block when it is done."""
        dataset, unit = self.plan.dataset, self.plan.chunks
        left = dataset.nbytes
        block = block_shape(dataset.shape, unit, dataset.dtype.itemsize, cover=dataset.chunks)
        advance(0, f"{doing} {printable(self.plan.path)}")
        # Chunks of DST that no chunk of SRC reaches into are not written, either.
        piece = block_shape(dataset.chunks or dataset.shape, unit, dataset.dtype.itemsize)
        for part in stored_blocks(dataset, block, piece):
            yield part
            done = math.prod(axis.stop - axis.start for axis in part) * dataset.dtype.itemsize
            advance(done)
            left -= done
        advance(left)

    def _record(self, old: h5py.Dataset) -> dict[str, Any]:
        """Say what the dataset's attribute says; an earlier record is kept within it."""
        record: dict[str, Any] = {
            "codec": self.codec.codec_name,
            "requested": self.requested.get_config(),
            "stored": self.codec.get_config(),
            "h5lossy": __version__,
        }
        earlier = old.attrs.get(RECORD)
        if earlier is not None:
            try:
                record["earlier"] = json.loads(earlier)
            except (TypeError, ValueError):  # not ours, but not to be lost either
                record["earlier"] = _as_text(earlier)
        return record


def _as_text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _write(
    old: h5py.File,
    path: Path,
    plans: list[Plan],
    jobs: list[_Job],
    *,
    verify: bool,
    attributes: bool,
) -> list[str]:
    """Write the new file and check it. Return notes for the user."""
    total = sum(
        job.plan.dataset.nbytes
        * (1 + verify + (job.requested.bound.kind is BoundKind.RANGE_RELATIVE))
        for job in jobs
    )
    total += sum(plan.dataset.id.get_storage_size() for plan in plans if plan.kept)
    with progress_bar(total) as advance:
        for job in jobs:
            job.resolve(advance)
        with discarded_on_failure(create_like(old, path)) as new:
            copier = FileCopier(
                old,
                new,
                remake={object_key(job.plan.dataset.id): job.create for job in jobs},
                copied=lambda done: advance(done, "copying"),
            )
            copier.copy()
            for job in jobs:
                job.write(new, advance, attributes=attributes)
        copy_user_block(Path(old.filename), path, old.userblock_size)
        if verify:
            with discarded_on_failure(h5py.File(path, "r+")) as new:
                for job in jobs:
                    job.check(new, advance, attributes=attributes)
    if not copier.dangling:
        return []
    return [f"references that meant no object of SRC, and are null in DST: {copier.dangling}"]


def _other_files(file: h5py.File, source: Path, target: Path) -> list[str]:
    """Warn of names of other files that will be looked for elsewhere."""
    names = sorted({name for _, obj in walk(file) for name in companions(obj)})
    folders = (source.resolve().parent, Path.cwd())
    for path in (folder / name for name in names for folder in folders):
        if target.exists() and path.exists() and target.samefile(path):
            raise click.UsageError(f"DST is {path}, which SRC takes values from")
    relative = [printable(name) for name in names if not Path(name).is_absolute()]
    if not relative or target.parent == folders[0]:
        return []
    return [
        "DST is in another folder, and the other files that it names count from there: "
        + ", ".join(relative)
    ]


def _compressed_before(jobs: list[_Job]) -> list[str]:
    """Warn of errors that add up."""
    again = []
    for job in jobs:
        try:
            before = describe(job.plan.dataset)
        except H5LossyError:  # cd_values of a later version, which reading does not need
            continue
        if before is not None and before.bound != job.codec.bound:
            again.append(f"{printable(job.plan.path)} ({before.bound})")
    if not again:
        return []
    return [
        "compressed within another bound already, so that the errors add up: " + ", ".join(again)
    ]


def _print_plans(plans: list[Plan]) -> None:
    print_table(
        ("dataset", "type", "shape", "what", "codec", "bound", "chunks"),
        [
            (
                printable(plan.path),
                _type_text(plan.dataset),
                shape_text(plan.dataset.shape),
                "compress" if plan.codec else "keep",
                codec_text(plan.codec) if plan.codec else "-",
                str(plan.codec.bound) if plan.codec else "-",
                shape_text(plan.chunks),
            )
            for plan in plans
        ],
    )


def _print_results(jobs: list[_Job], *, verified: bool) -> None:
    raw, stored = sum(job.raw_bytes for job in jobs), sum(job.stored_bytes for job in jobs)
    rows = [
        (
            printable(job.plan.path),
            _type_text(job.plan.dataset),
            shape_text(job.plan.chunks),
            codec_text(job.codec),
            job.bound_text(),
            bytes_text(job.stored_bytes),
            ratio_text(job.raw_bytes, job.stored_bytes),
            error_text(job.summary),
        )
        for job in jobs
    ]
    rows.append(("total", "", "", "", "", bytes_text(stored), ratio_text(raw, stored), ""))
    print_table(
        ("dataset", "type", "chunks", "codec", "bound", "stored", "ratio", "error/bound"),
        rows,
    )
    checked = sum(job.summary.count for job in jobs if job.summary)
    if verified:
        say(
            f"checked {checked} values, each within its bound; NaN, Inf, fill and missing "
            "values unchanged"
        )
    else:
        say("nothing was checked (--no-verify)")


def _print_kept(plans: list[Plan]) -> None:
    kept = defaultdict(list)
    for plan in plans:
        if plan.kept:
            kept[plan.kept].append(printable(plan.path))
    for reason, paths in kept.items():
        some = ", ".join(paths[:4]) + (", ..." if len(paths) > 4 else "")
        say(f"kept ({reason}): {len(paths)}: {some}")


def _type_text(dataset: h5py.Dataset) -> str:
    try:
        return str(dataset.dtype)
    except TypeError:  # NumPy has no such type
        return "-"


def _file_size(path: Path) -> str:
    return f"{printable(str(path))} ({bytes_text(path.stat().st_size)})"

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""``h5lossy repack``: a copy of a file with its float datasets compressed within a bound."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
import h5py

from h5lossy import BoundKind, H5LossyError
from h5lossy.cli._console import (
    bytes_text,
    error_text,
    print_table,
    printable,
    ratio_text,
    say,
    shape_text,
)
from h5lossy.cli._files import open_file
from h5lossy.cli._new_file import complete_or_absent, discarded_on_failure
from h5lossy.cli._options import Request, codec_text, range_options, request_option
from h5lossy.cli._patterns import Chunks, Rule, parse_chunks
from h5lossy.cli._plan import RepackOptions, make_plans
from h5lossy.cli._progress import progress_bar
from h5lossy.datasets import codec_of
from h5lossy.repacking.compressing import CompressedCopy, Plan
from h5lossy.repacking.copier import FileCopier, copy_user_block, create_like
from h5lossy.repacking.objects import external_files, object_key, walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from h5lossy.codecs import Codec

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
    both in its attribute "h5lossy", and the bound in words in "lossy_compression". Records are
    plain ASCII, which every netCDF model supports.

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
    options = RepackOptions(request=request, chunks=chunks, rules=rules, skip=skip)
    with open_file(source, rdcc_nbytes=_CACHE_BYTES, rdcc_w0=1.0) as file:
        plans = make_plans(file, options)
        copies = [
            CompressedCopy(plan, missing_value, confirm_range=confirm_range)
            for plan in plans
            if plan.codec
        ]
        notes = _other_files(file, source, target)
        if dry_run:
            _print_plans(plans)
        elif copies:
            with complete_or_absent(target, replace=force, like=source) as temporary:
                notes += _write(
                    file, temporary, plans, copies, verify=verify, attributes=attributes
                )
            _print_results(copies, verified=verify)
            say(f"file: {_file_size(source)} -> {_file_size(target)}")
        _print_kept(plans)
        for note in [*notes, *_compressed_before(copies)]:
            say(f"note: {note}")
    if not copies:
        raise click.ClickException(
            f"{printable(str(source))} has nothing to compress, so DST is not written"
        )


def _write(
    old: h5py.File,
    path: Path,
    plans: list[Plan],
    copies: list[CompressedCopy],
    *,
    verify: bool,
    attributes: bool,
) -> list[str]:
    """Write the new file and check it. Return notes for the user."""
    total = sum(
        copy.plan.dataset.nbytes
        * (1 + verify + (copy.requested.bound.kind is BoundKind.RANGE_RELATIVE))
        for copy in copies
    )
    total += sum(plan.dataset.id.get_storage_size() for plan in plans if plan.kept)
    with progress_bar(total) as advance:
        for copy in copies:
            copy.resolve(advance)
        with discarded_on_failure(create_like(old, path)) as new:
            copier = FileCopier(
                old,
                new,
                remake={object_key(copy.plan.dataset.id): copy.create for copy in copies},
                copied=lambda done: advance(done, "copying"),
            )
            copier.copy()
            for copy in copies:
                copy.write(new, advance, attributes=attributes)
        copy_user_block(Path(old.filename), path, old.userblock_size)
        if verify:
            with discarded_on_failure(h5py.File(path, "r+")) as new:
                for copy in copies:
                    copy.check(new, advance, attributes=attributes)
    if not copier.dangling:
        return []
    return [f"references that meant no object of SRC, and are null in DST: {copier.dangling}"]


def _other_files(file: h5py.File, source: Path, target: Path) -> list[str]:
    """Warn of names of other files that will be looked for elsewhere."""
    names = sorted({name for _, obj in walk(file) for name in external_files(obj)})
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


def _compressed_before(copies: list[CompressedCopy]) -> list[str]:
    """Warn of errors that add up."""
    again = []
    for copy in copies:
        try:
            before = codec_of(copy.plan.dataset)
        except H5LossyError:  # cd_values of a later version, which reading does not need
            continue
        if before is not None and not _has_same_bins(before, copy.codec):
            name = f"{before.codec_name}, " if before.bound == copy.codec.bound else ""
            again.append(f"{printable(copy.plan.path)} ({name}{before.bound})")
    if not again:
        return []
    return ["compressed with other bins already, so that the errors add up: " + ", ".join(again)]


def _has_same_bins(before: Codec, codec: Codec) -> bool:
    """Return whether values that a codec decoded are values that another one keeps."""
    is_absolute = before.bound.kind in {BoundKind.ABSOLUTE, BoundKind.RANGE_RELATIVE}
    return before.bound == codec.bound and (
        before.step_share == codec.step_share or not is_absolute
    )


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


def _print_results(copies: list[CompressedCopy], *, verified: bool) -> None:
    raw, stored = sum(copy.raw_bytes for copy in copies), sum(copy.stored_bytes for copy in copies)
    rows = [
        (
            printable(copy.plan.path),
            _type_text(copy.plan.dataset),
            shape_text(copy.plan.chunks),
            codec_text(copy.codec),
            _bound_text(copy),
            bytes_text(copy.stored_bytes),
            ratio_text(copy.raw_bytes, copy.stored_bytes),
            error_text(copy.summary),
        )
        for copy in copies
    ]
    rows.append(("total", "", "", "", "", bytes_text(stored), ratio_text(raw, stored), ""))
    print_table(
        ("dataset", "type", "chunks", "codec", "bound", "stored", "ratio", "error/bound"),
        rows,
    )
    checked = sum(copy.summary.count for copy in copies if copy.summary)
    if verified:
        say(
            f"checked {checked} values, each within its bound; NaN, Inf, fill and missing "
            "values unchanged"
        )
    else:
        say("nothing was checked (--no-verify)")


def _bound_text(copy: CompressedCopy) -> str:
    """Write the bound to six digits, and the requested one if it is another."""
    bound, requested = copy.codec.bound, copy.requested.bound
    lossless = bound.kind is BoundKind.LOSSLESS
    text = str(bound.kind) if lossless else f"{bound.kind} {bound.value:.6g}"
    if copy.codec == copy.requested:
        return text
    if requested.kind is bound.kind:
        return f"{text} (for {requested.value:.6g}, with missing values exact)"
    return f"{text} ({requested.value:.6g} of the range)"


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

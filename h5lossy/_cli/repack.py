# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""``h5lossy repack``: a copy of a file with its float datasets compressed within a bound."""

from __future__ import annotations

import itertools
import os
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import h5py

from h5lossy import BoundKind, H5LossyError
from h5lossy._cli._console import (
    bytes_text,
    error_text,
    print_table,
    printable,
    ratio_text,
    say,
    say_json,
    shape_text,
)
from h5lossy._cli._files import UNREADABLE, for_each_file, open_file, raise_failures, why_of
from h5lossy._cli._new_file import complete_or_absent, discarded_on_failure
from h5lossy._cli._options import (
    Request,
    codec_text,
    json_option,
    quiet_option,
    range_options,
    request_option,
    threads_option,
)
from h5lossy._cli._patterns import Chunks, Rule, parse_chunks
from h5lossy._cli._plan import RepackOptions, check_rules, make_plans
from h5lossy._cli._progress import progress_bar
from h5lossy._cli._rules import RulesFile
from h5lossy._datasets import codec_of
from h5lossy._repacking.comparison import difference
from h5lossy._repacking.compressing import CompressedCopy, Plan
from h5lossy._repacking.copier import FileCopier, copy_user_block, create_like
from h5lossy._repacking.objects import external_files, object_key, walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from h5lossy._codecs import Codec

#: HDF5's cache for chunks of the source that stretch over several blocks.
_CACHE_BYTES = 64 << 20


#: Most datasets of one file that the table shows; of more, those that take the most room.
_MOST_ROWS = 100


@click.command()
@click.argument(
    "sources",
    metavar="SRC...",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@click.argument("target", metavar="DST")
@request_option
@click.option(
    "-d",
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
    "--rules",
    "file_rules",
    type=RulesFile(),
    multiple=True,
    metavar="FILE.toml",
    help="Rules for datasets from a file, as h5lossy tune --rules writes it. --dataset rules count "
    "as if they came after them. May be repeated.",
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
@threads_option
@json_option
@quiet_option
def repack(
    sources: Sequence[Path],
    target: str,
    *,
    request: Request,
    rules: Sequence[Rule],
    file_rules: Sequence[Sequence[Rule]],
    skip: Sequence[str],
    chunks: Chunks,
    verify: bool,
    attributes: bool,
    missing_value: Sequence[float],
    confirm_range: bool,
    force: bool,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Copy SRC to DST with its float datasets compressed.

    DST is a file, or a folder, where each of several SRC gets its own name. One that fails does
    not stop the others; at the end all that failed are listed.

    The bound options hold for every float32 and float64 dataset of the HDF5 file SRC; without
    one, only datasets that a --dataset rule gives a bound are compressed. --codec holds for all
    that are compressed, unless a rule names another. A range-relative bound is taken over the
    whole dataset and stored as the absolute one that it comes to. Each compressed dataset records
    both in its attribute "h5lossy", and the bound in words in "lossy_compression". Records are
    plain ASCII, which every netCDF model supports.

    A GLOB that starts with "/" is matched against a dataset's whole path, any other against the
    path's end: "salt", "ocean/s*". A "*" stays within one name, "**" stands for any number of
    names. Of a dataset with several hard links the first path counts. A GLOB that names nothing in
    any SRC is refused. What is said of --dataset rules holds for those of --rules, too.

    Missing values (HDF5's fill value, the attributes _FillValue and missing_value, and
    --missing-value) are restored bit for bit. Values that valid_min, valid_max or valid_range make
    invalid stay invalid, and no other value becomes missing or invalid. If the bound does not allow
    that, nothing is written.

    All else is kept: attributes, groups, links of every kind, references, dimension scales,
    datatypes, fill values, the user block, and other datasets with the filters that they have.
    Datasets of 4 KiB or less, and dimension scales (coordinates must be exact to be found again),
    are compressed only if a rule without wildcards gives them a bound. Virtual and externally
    stored datasets never are; like links to other files, they go on meaning those files.

    Not kept are the times of objects, and HDF5's comments on groups and on what is compressed.
    Links of a program's own class and references of HDF5 1.12's new kind are refused.

    DST appears under its name when it is complete and checked, or not at all. It gets the owner,
    group and permissions of the file that it replaces, or those of SRC, as far as your rights
    allow. Only regular files are replaced. SRC is never written to. If there is nothing to
    compress, nothing is written, and the exit code is 1.
    """
    rules = [*itertools.chain(*file_rules), *rules]
    if not request.bound and not any(rule.request.bound for rule in rules):
        raise click.UsageError(
            "give a bound for all float datasets, for example --range-relative 1e-4, "
            "or for some: --dataset 'GLOB:absolute=1e-3'"
        )
    targets = _targets(sources, target)
    options = RepackOptions(request=request, chunks=chunks, rules=rules, skip=skip)
    is_alone = len(sources) == 1
    if not is_alone and (datasets := _survey(targets, options)):
        check_rules(options, datasets)
    results: dict[Path, dict[str, Any]] = {}

    def work(source: Path) -> None:
        result = _Result(source, targets[source])
        results[source] = result.plain
        with open_file(source, rdcc_nbytes=_CACHE_BYTES, rdcc_w0=1.0) as file:
            result.plans = make_plans(file, options)
            if is_alone:
                check_rules(options, [(plan.path, plan.kept) for plan in result.plans])
            result.copies = [
                CompressedCopy(plan, missing_value, confirm_range=confirm_range)
                for plan in result.plans
                if plan.codec
            ]
            result.notes = _other_files(file, source, result.target)
            if result.copies and not dry_run:
                with complete_or_absent(result.target, replace=force, like=source) as temporary:
                    result.notes += _write(
                        file,
                        temporary,
                        result.plans,
                        result.copies,
                        verify=verify,
                        attributes=attributes,
                    )
            result.notes += _compressed_before(result.copies)
            result.describe(written=not dry_run)
            if not (as_json or quiet):
                if dry_run and not is_alone:
                    say(f"{printable(str(source))} -> {printable(str(result.target))}")
                result.show(dry_run=dry_run, verified=verify, in_full=is_alone or dry_run)
        if not result.copies:
            raise click.ClickException(
                f"{printable(str(source))} has nothing to compress, so DST is not written"
            )

    failed = for_each_file(sources, work)
    if as_json:
        for source, error in failed.items():
            results[source]["error"] = why_of(error)
        say_json({"files": [*results.values()]})
    elif not (quiet or is_alone or dry_run):
        _print_sum([one for source, one in results.items() if source not in failed])
    raise_failures(failed, len(sources))


def _targets(sources: Sequence[Path], text: str) -> dict[Path, Path]:
    """Return the name of each new file; refuse what would overwrite a source or another target."""
    if not text:
        raise click.UsageError("DST is empty; give a file or a folder")
    target = Path(text).resolve()
    is_folder = target.is_dir()
    if (len(sources) > 1 or text.endswith("/")) and not is_folder:
        raise click.UsageError(
            f"{text} is no folder; several SRC, and a DST that ends with /, need one that exists"
        )
    by_name: dict[str, Path] = {}
    inputs = set()
    for source in sources:
        if source.name in by_name:
            raise click.UsageError(
                f"{by_name[source.name]} and {source} would both be {source.name} in {text}"
            )
        by_name[source.name] = source
        inputs.add(_identity(source))
    targets = {s: (target / s.name).resolve() if is_folder else target for s in sources}
    by_target: dict[Path, Path] = {}
    for source, new in targets.items():
        if by_target.setdefault(new, source) is not source:
            raise click.UsageError(f"{by_target[new]} and {source} would both be written to {new}")
        if new.exists() and _identity(new) in inputs:
            which = f"{printable(str(source))} goes to {printable(str(new))}. " * (len(sources) > 1)
            raise click.UsageError(
                f"{which}SRC and DST are the same file; repack never overwrites its input"
            )
    return targets


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def _survey(targets: Mapping[Path, Path], options: RepackOptions) -> list[tuple[str, str]]:
    """Return what `check_rules` needs of all files; what can't be read is reported later on."""
    datasets = []
    for source in targets:
        names: list[str] = []
        with suppress(click.ClickException, *UNREADABLE), open_file(source) as file:
            names = _names_of_others(file)
            datasets += [(plan.path, plan.kept) for plan in make_plans(file, options)]
        _require_unused(source, names, targets.values())
    return datasets


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
        with discarded_on_failure(h5py.File(path, "r+")) as new:
            if verify:
                for copy in copies:
                    copy.check(new, advance, attributes=attributes)
            differs = difference(old, new, {object_key(copy.plan.dataset.id) for copy in copies})
            if differs:
                raise H5LossyError(
                    f"nothing was written, since the copy differs from SRC: {differs}. This is a "
                    "fault of h5lossy or HDF5; please report it"
                )
    if not copier.dangling:
        return []
    return [f"references that meant no object of SRC, and are null in DST: {copier.dangling}"]


def _other_files(file: h5py.File, source: Path, target: Path) -> list[str]:
    """Warn of names of other files that will be looked for elsewhere."""
    names = _names_of_others(file)
    _require_unused(source, names, [target])
    relative = [printable(name) for name in names if not Path(name).is_absolute()]
    if not relative or target.parent == source.resolve().parent:
        return []
    return [
        "DST is in another folder, and the other files that it names count from there: "
        + ", ".join(relative)
    ]


def _names_of_others(file: h5py.File) -> list[str]:
    """Return the names of the other files that a file refers to."""
    return sorted({name for _, obj in walk(file) for name in external_files(obj)})


def _require_unused(source: Path, names: Sequence[str], targets: Iterable[Path]) -> None:
    """Refuse to overwrite another file that a source takes values from."""
    folders = (source.resolve().parent, Path.cwd())
    # Path.exists raises where a name is too long.
    used = [p for name in names for folder in folders if os.path.exists(p := folder / name)]  # noqa: PTH110
    for target in targets:
        for path in used:
            if target.exists() and target.samefile(path):
                raise click.UsageError(
                    f"DST is {printable(str(path))}, which SRC {printable(str(source))} takes "
                    "values from"
                )


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


class _Result:
    """What became of one file: as JSON can hold it in `plain`, and as text."""

    def __init__(self, source: Path, target: Path) -> None:
        self.source, self.target = source, target
        self.plans: list[Plan] = []
        self.copies: list[CompressedCopy] = []
        self.notes: list[str] = []
        self.plain: dict[str, Any] = {"source": str(source), "target": str(target)}

    def describe(self, *, written: bool) -> None:
        """Fill `plain`. The source is open."""
        self.plain["datasets"] = [_plain(copy, written=written) for copy in self.copies]
        self.plain["kept"] = [{"path": p.path, "why": p.kept} for p in self.plans if p.kept]
        self.plain["notes"] = self.notes
        if written and self.copies:
            self.plain["source_bytes"] = self.source.stat().st_size
            self.plain["target_bytes"] = self.target.stat().st_size

    def show(self, *, dry_run: bool, verified: bool, in_full: bool) -> None:
        """Print the datasets, or one line for all of them. The source is open."""
        if dry_run:
            _print_plans(self.plans)
        elif self.copies:
            sizes = f"{_file_size(self.source)} -> {_file_size(self.target)}"
            if in_full:
                _print_results(self.copies, verified=verified)
                say(f"file: {sizes}")
            else:
                say(f"{sizes}, {len(self.copies)} of {len(self.plans)} datasets compressed")
        if in_full:
            _print_kept(self.plans)
        for note in self.notes:
            say(f"note: {note}")


def _plain(copy: CompressedCopy, *, written: bool) -> dict[str, Any]:
    """Return what was done with a dataset as JSON can hold it."""
    dataset, codec, summary = copy.plan.dataset, copy.codec, copy.summary
    requested = copy.requested.bound
    plain: dict[str, Any] = {
        "path": copy.plan.path,
        "dtype": dataset.dtype.str,
        "shape": dataset.shape,
        "chunks": copy.plan.chunks,
        "codec": codec.codec_name,
        "settings": {own.name: getattr(codec, own.name) for own in codec.choices()},
        "requested": {"kind": str(requested.kind), "value": requested.value},
    }
    if written:
        plain["bound"] = {"kind": str(codec.bound.kind), "value": codec.bound.value}
        plain["raw_bytes"], plain["stored_bytes"] = copy.raw_bytes, copy.stored_bytes
        plain["checked"] = summary.count if summary else 0
        plain["max_error"] = summary.max_error if summary else None
    return plain


def _print_sum(results: Sequence[dict[str, Any]]) -> None:
    """Print what all files come to."""
    if not results:
        return
    old, new = (sum(one[f"{which}_bytes"] for one in results) for which in ("source", "target"))
    datasets = [dataset for one in results for dataset in one["datasets"]]
    count = sum(dataset["checked"] for dataset in datasets)
    checked = f"{count} values checked, each within its bound" if count else "nothing was checked"
    say(
        f"{len(results)} files: {bytes_text(old)} -> {bytes_text(new)}, ratio "
        f"{ratio_text(old, new)}; {checked}"
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
        optional=("type", "chunks", "shape"),
    )


def _print_results(copies: list[CompressedCopy], *, verified: bool) -> None:
    raw, stored = sum(copy.raw_bytes for copy in copies), sum(copy.stored_bytes for copy in copies)
    shown = copies
    if len(copies) > _MOST_ROWS:
        smallest = sorted(copy.stored_bytes for copy in copies)[-_MOST_ROWS]
        shown = [copy for copy in copies if copy.stored_bytes >= smallest][:_MOST_ROWS]
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
        for copy in shown
    ]
    if shown is not copies:
        rest = f"{len(copies) - len(shown)} smaller ones (--json has all)"
        rows.append((rest, "", "", "", "", "", "", ""))
    rows.append(("total", "", "", "", "", bytes_text(stored), ratio_text(raw, stored), ""))
    print_table(
        ("dataset", "type", "chunks", "codec", "bound", "stored", "ratio", "error/bound"),
        rows,
        optional=("type", "chunks", "codec", "error/bound"),
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

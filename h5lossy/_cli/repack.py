# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""``h5lossy repack``: a copy of a file with its datasets compressed within a bound."""

from __future__ import annotations

import itertools
import math
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from h5lossy import BoundKind
from h5lossy._chunking import SMALL_CHUNK_BYTES
from h5lossy._cli._console import (
    error_text,
    print_table,
    ratio_text,
    say,
    say_json,
    shape_text,
    some_names,
)
from h5lossy._cli._files import (
    UNREADABLE,
    folders_of_other_files,
    for_each_file,
    open_file,
    raise_failures,
    why_of,
)
from h5lossy._cli._new_file import complete_or_absent
from h5lossy._cli._options import (
    Number,
    Request,
    bound_text,
    codec_text,
    files_argument,
    json_option,
    quiet_option,
    range_options,
    request_option,
    threads_option,
)
from h5lossy._cli._patterns import Chunks, Rule, parse_chunks
from h5lossy._cli._progress import progress_bar
from h5lossy._cli._rules import RecommendationsFile, Rules, RulesFile
from h5lossy._printable import bytes_text, printable
from h5lossy._repacking.compressing import CompressedCopy
from h5lossy._repacking.planning import Plan, make_plans
from h5lossy._repacking.repacking import Repacking, names_of_other_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from h5lossy._codecs import Codec
    from h5lossy._recommendations import Recommendations

#: HDF5's cache for chunks of the source that stretch over several blocks.
_CACHE_BYTES = 64 << 20

#: Most datasets of one file that the table shows; of more, those that take the most room.
_MOST_ROWS = 100


@click.command()
@files_argument("sources", "SRC...")
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
    "--recommendations",
    type=RecommendationsFile(),
    metavar="FILE.yaml",
    help="Bounds for variables by their standard_name, from a file of the format of the package "
    "compression-recommendations; 'community' is the one that this package has. They go before "
    "the bound for all datasets, and after that of --rules and --dataset.",
)
@click.option(
    "--skip",
    multiple=True,
    metavar="GLOB",
    help="Datasets that are copied unchanged, whatever the rules say. May be repeated.",
)
@click.option(
    "--region",
    "regions",
    multiple=True,
    type=(str, str, Number()),
    metavar="GLOB PLACE BOUND",
    help="A smaller bound, of the same kind, for all chunks with a point in a place: an index, as "
    "'[:, 10:20]', or the path of a dataset of SRC that is not 0 there, as /land_mask. 0 means "
    "lossless. May be repeated; a chunk in several places gets the smallest bound.",
)
@click.option(
    "--chunks",
    default="keep",
    show_default=True,
    metavar="SHAPE",
    callback=lambda _ctx, _option, text: parse_chunks(text),
    help="Chunk shape of what is compressed: 'keep' (as in SRC, and auto where SRC has no "
    "chunks), 'auto' (about 1 MiB) for the access to 'auto:maps' (the default), 'auto:series' or "
    "'auto:balanced' parts, or extents such as 64x64 for all datasets of that rank.",
)
@click.option(
    "--verify/--no-verify",
    default=True,
    help="Read everything back and check every value before DST gets its name; what is found is "
    "recorded for h5lossy verify. [default: verify]",
)
@range_options
@click.option(
    "--packed-units",
    is_flag=True,
    help="Absolute bounds and thresholds of packed integers (attributes scale_factor, add_offset) "
    "are of the stored numbers, and not of the values that these stand for.",
)
@click.option(
    "--attributes/--no-attributes",
    default=True,
    help="Record the bounds and the results of the check in attributes. [default: attributes]",
)
@click.option("--force", is_flag=True, help="Replace DST if it exists.")
@click.option(
    "--check-existing",
    is_flag=True,
    help="Compare all values of a DST that exists, not only its structure and settings, before it "
    "counts as done.",
)
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
    recommendations: Recommendations | None,
    skip: Sequence[str],
    regions: Sequence[tuple[str, str, float]],
    chunks: Chunks,
    verify: bool,
    attributes: bool,
    missing_value: Sequence[float],
    confirm_range: bool,
    packed_units: bool,
    force: bool,
    check_existing: bool,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Copy SRC to DST with its numbers compressed: floats, complex numbers and integers.

    DST is a file, or a folder, where each of several SRC gets its own name. A SRC that fails does
    not stop the others; at the end all failures are listed.

    The bound options apply to every dataset of floats or complex numbers in the HDF5 file SRC;
    without one, only datasets that get a bound from a --dataset rule or --recommendations are
    compressed. --codec applies to all compressed datasets, unless a rule names another. A
    range-relative bound is taken over the whole dataset and stored as the resulting absolute bound.
    Each compressed dataset records both in its attribute "h5lossy", and the bound in words in
    "lossy_compression" and, if one number can express it, in
    "lossy_compression_maximum_absolute_error" or "lossy_compression_maximum_relative_error".
    Records are plain ASCII and numbers, which every netCDF model supports.

    A GLOB that starts with "/" is matched against a dataset's whole path, any other against the
    path's end: "salt", "ocean/s*". "*" matches within one name, "**" any number of names. A dataset
    with several hard links has several paths, and is printed with the first. A GLOB that matches
    nothing in any SRC is refused. The same applies to the rules of --rules.

    Integers are compressed losslessly, unless they are packed (attribute scale_factor) or a
    --dataset rule gives them a bound, which is in counts and rounded down. An absolute bound of
    packed integers is in the units of their values; both bounds are printed. Integers that another
    filter made smaller than h5lossy would are copied unchanged, and so are enumerations.

    Missing values (HDF5's fill value, the attributes _FillValue and missing_value, and
    --missing-value) are restored bit for bit. Values that valid_min, valid_max or valid_range make
    invalid stay invalid, and no other value becomes missing or invalid. If the bound does not allow
    that, nothing is written.

    Everything else is kept: attributes, groups, links of every kind, references, dimension scales,
    datatypes, fill values, the user block, and other datasets with the filters that they have. The
    copy is compared with SRC in all of these. Datasets of 4 KiB or less that cannot grow,
    and coordinates, which must stay exact for lookups, are compressed only if a rule without
    wildcards gives them a bound. Coordinates are dimension scales, and under a lossy bound also
    variables to which others refer by attributes of the CF conventions (bounds, coordinates,
    cell_measures and the like). Virtual and externally stored datasets never are compressed; like
    links to other files, they continue to refer to those files.

    Not kept are the times of objects, HDF5's comments on groups and on what is compressed, and
    filters for the links of a group. Links of a program's own class and references of HDF5 1.12's
    new kind are refused.

    DST appears under its name when it is complete and checked, or not at all. It gets the owner,
    group and permissions of the file that it replaces, or those of SRC, as far as your rights
    allow. Only regular files are replaced. SRC is never written to. If there is nothing to
    compress, nothing is written, and the exit code is 1.

    An existing DST counts as done if it is newer than SRC and matches the copy that would be
    written, in its structure and the settings of its datasets. Any other is replaced only with
    --force.
    """
    rules = [*itertools.chain(*file_rules), *rules]
    if not (request.bound or recommendations or any(rule.request.bound for rule in rules)):
        raise click.UsageError(
            "give a bound for all datasets, for example --range-relative 1e-4, "
            "or for some: --dataset 'GLOB:absolute=1e-3', --recommendations community"
        )
    targets = _targets(sources, target)
    wishes = Rules(
        request=request,
        packed_units=packed_units,
        chunks=chunks,
        rules=rules,
        skip=skip,
        regions=regions,
        recommendations=recommendations,
        missing_value=missing_value,
    )
    is_alone = len(sources) == 1
    if not is_alone and (datasets := _survey(targets, wishes)):
        wishes.check(datasets)
    results: dict[Path, _Result] = {}

    def work(source: Path) -> None:
        result = results[source] = _Result(source, targets[source])
        with open_file(source, rdcc_nbytes=_CACHE_BYTES, rdcc_w0=1.0) as file:
            plans = make_plans(file, wishes.wish)
            if is_alone:
                wishes.check(_paths_of(plans))
            copies = [
                CompressedCopy(plan, missing_value, confirm_range=confirm_range)
                for plan in plans
                if plan.codec
            ]
            work = result.work = Repacking(
                source=file, plans=plans, copies=copies, verify=verify, attributes=attributes
            )
            others = names_of_other_files(file)
            _require_unused(source, others, [result.path])
            if copies and not dry_run:
                if not force and result.path.is_file():
                    result.require_done(values=check_existing)
                else:
                    with (
                        complete_or_absent(result.path, replace=force, like=source) as temporary,
                        progress_bar(work.work_bytes) as advance,
                    ):
                        result.dangling = work.write(temporary, advance)
                        result.note_sizes(temporary)
            result.add_notes(others)
            result.describe(written=not dry_run)
        if not (as_json or quiet):
            result.show(dry_run=dry_run, in_full=is_alone or dry_run, is_alone=is_alone)
        if not copies:
            raise click.ClickException(
                f"{printable(str(source))} has nothing to compress, so DST is not written"
            )

    failed = for_each_file(sources, work)
    if as_json:
        for source, error in failed.items():
            results[source].plain["error"] = why_of(error)
        say_json({"files": [one.plain for one in results.values()]})
    elif not (quiet or is_alone or dry_run):
        _print_sum([one.plain for source, one in results.items() if source not in failed])
    raise_failures(failed, len(sources))


def _targets(sources: Sequence[Path], text: str) -> dict[Path, Path]:
    """Return the name of each new file; refuse what would overwrite a source or another target."""
    is_folder = Path(text).is_dir()
    if (len(sources) > 1 or text.endswith("/")) and not is_folder:
        raise click.UsageError(
            f"{text} is not a folder; with several SRC, or a / at its end, DST must be an existing "
            "folder"
        )
    by_name: dict[str, Path] = {}
    for source in sources:
        if by_name.setdefault(source.name, source) is not source:
            raise click.UsageError(
                f"{by_name[source.name]} and {source} would both be {source.name} in {text}"
            )
    inputs = {_identity(source) for source in sources}
    targets: dict[Path, Path] = {}
    by_path: dict[Path, Path] = {}
    for source in sources:
        name = Path(text) / source.name if is_folder else Path(text)
        try:
            targets[source], path = name, name.resolve()
        except FileNotFoundError as error:  # os.getcwd names nothing
            raise click.ClickException(
                f"the current folder was deleted, so there is no {name}; give a path from / for DST"
            ) from error
        if by_path.setdefault(path, source) is not source:
            raise click.UsageError(f"{by_path[path]} and {source} would both be written to {name}")
        if path.exists() and _identity(path) in inputs:
            which = f"{printable(str(source))} goes to {printable(str(name))}. "
            raise click.UsageError(
                f"{which * (len(sources) > 1)}SRC and DST are the same file; repack never "
                "overwrites its input"
            )
    return targets


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def _survey(targets: Mapping[Path, Path], wishes: Rules) -> list[tuple[str, str]]:
    """Return what `Rules.check` needs of all files; what can't be read is reported later on."""
    datasets = []
    for source in targets:
        names: list[str] = []
        with suppress(click.ClickException, *UNREADABLE), open_file(source) as file:
            names = names_of_other_files(file)
            datasets += _paths_of(make_plans(file, wishes.wish))
        _require_unused(source, names, [target.resolve() for target in targets.values()])
    return datasets


def _paths_of(plans: Sequence[Plan]) -> list[tuple[str, str]]:
    """Return all paths of datasets, and why each is not compressed, as `Rules.check` takes them."""
    return [(path, plan.kept) for plan in plans for path in plan.paths]


def _require_unused(source: Path, names: Sequence[str], targets: Iterable[Path]) -> None:
    """Refuse to overwrite another file that a source takes values from."""
    folders = folders_of_other_files(source)
    # Path.exists raises where a name is too long.
    used = [p for name in names for folder in folders if os.path.exists(p := folder / name)]  # noqa: PTH110
    for target in targets:
        for path in used:
            if target.exists() and target.samefile(path):
                raise click.UsageError(
                    f"DST is {printable(str(path))}, which SRC {printable(str(source))} takes "
                    "values from"
                )


class _Result:
    """What became of one file: as JSON can hold it in `plain`, and as text."""

    work: Repacking

    def __init__(self, source: Path, target: Path) -> None:
        self.source, self.target, self.path = source, target, target.resolve()
        self.notes: list[str] = []
        self.dangling = 0
        self.existed = False
        self.plain: dict[str, Any] = {"source": str(source), "target": str(target)}

    def require_done(self, *, values: bool) -> None:
        """Take a file that exists for done, or raise."""
        with progress_bar(None) as advance:
            why = self.work.why_not_done(self.path, advance, values=values)
        if why:
            raise click.ClickException(
                f"{self.target} exists, and {why}; give another name, or --force to replace it"
            )
        self.note_sizes(self.path)
        self.existed = True

    def note_sizes(self, written: Path) -> None:
        """Note the sizes of both files, while nobody else knows the new one."""
        self.plain["source_bytes"] = self.source.stat().st_size
        self.plain["target_bytes"] = written.stat().st_size

    def _note(self, what: str, concerned: str) -> None:
        """Note what concerns something, if there is any."""
        if concerned:
            self.notes.append(f"{what}: {concerned}")

    def add_notes(self, other_files: Sequence[str]) -> None:
        """Note what a user should know of other files and of the datasets."""
        if self.path.parent != self.source.resolve().parent:
            self._note(
                "DST is in another folder, from which relative paths to other files are resolved "
                "now",
                ", ".join(printable(name) for name in other_files if not Path(name).is_absolute()),
            )
        self._note("dangling references were written as null", str(self.dangling or ""))
        plans, copies = self.work.plans, self.work.copies
        before = [(printable(copy.plan.path), copy, copy.earlier) for copy in copies]
        again = [
            f"{path} ({type(earlier).__name__}, {earlier.bound})"
            for path, copy, earlier in before
            if copy.adds_error and earlier is not None
        ]
        self._note(
            "already compressed with another bound, codec or safeguard, so the errors add up",
            ", ".join(again),
        )
        dropped = [
            f"{path} ({earlier.safeguards})"
            for path, copy, earlier in before
            if earlier is not None and not copy.codec.lossless
            if not copy.codec.safeguards.include(earlier.safeguards)
        ]
        self._note(
            "safeguards of SRC are not kept; --threshold and --valid-range, or a rule, ask for "
            "them",
            ", ".join(dropped),
        )
        recommended = [(plan.path, plan.recommended) for plan in plans if plan.recommended]
        for path, one in recommended:
            self._note(printable(path), printable(str(one)) if one.bound else "")
        lacking = _by_reason((one.why, path) for path, one in recommended if not one.bound)
        for why, paths in lacking.items():
            self._note(f"no bound is recommended ({printable(why)})", some_names(paths))
        for why, paths in _by_reason((copy.plan.note, copy.plan.path) for copy in copies).items():
            self._note(f"kept losslessly ({printable(why)})", some_names(paths))
        marks = [
            f"{copy.plan.path} ({copy.moved_marks} times {np.iinfo(copy.plan.dtype).max})"
            for copy in copies
            if copy.moved_marks
        ]
        self._note(
            "the largest integer of its type was data, and moved by the bound; if it marks what is "
            "no data, name it with --missing-value",
            some_names(marks),
        )
        small = [
            f"{copy.plan.path} ({shape_text(copy.plan.chunks)})"
            for copy in copies
            if copy.plan.has_small_chunks
        ]
        kib = SMALL_CHUNK_BYTES >> 10
        self._note(
            f"chunks below {kib} KiB compress less well than those of --chunks auto",
            some_names(small),
        )

    def describe(self, *, written: bool) -> None:
        """Fill `plain`."""
        self.plain["datasets"] = [
            _plain(copy, written=written and not self.existed) for copy in self.work.copies
        ]
        self.plain["kept"] = [{"path": p.path, "why": p.kept} for p in self.work.plans if p.kept]
        self.plain["notes"] = self.notes
        if written and self.work.copies:
            self.plain["existed"] = self.existed

    def show(self, *, dry_run: bool, in_full: bool, is_alone: bool) -> None:
        """Print the datasets, or one line for all of them."""
        plans, copies = self.work.plans, self.work.copies
        source, target = printable(str(self.source)), printable(str(self.target))
        if dry_run:
            if not is_alone:
                say(f"{source} -> {target}")
            _print_plans(plans)
        elif copies:
            old, new = (bytes_text(self.plain[f"{which}_bytes"]) for which in ("source", "target"))
            sizes = f"{source} ({old}) -> {target} ({new})"
            if self.existed:
                say(f"{sizes}, done before")
            elif in_full:
                _print_results(copies, verified=self.work.verify)
                say(f"file: {sizes}")
            else:
                say(f"{sizes}, {len(copies)} of {len(plans)} datasets compressed")
        if in_full and not self.existed:
            for reason, paths in _by_reason((plan.kept, plan.path) for plan in plans).items():
                say(f"copied unchanged ({printable(reason)}), {len(paths)}: {some_names(paths)}")
        for note in self.notes:
            say(f"note: {note}")


def _by_reason(found: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Group paths by reason, without those that have none."""
    paths: dict[str, list[str]] = {}
    for reason, path in found:
        if reason:
            paths.setdefault(reason, []).append(path)
    return paths


def _plain(copy: CompressedCopy, *, written: bool) -> dict[str, Any]:
    """Return what was done with a dataset as JSON can hold it."""
    plan, codec, summary = copy.plan, copy.codec, copy.summary
    requested = copy.requested.bound
    plain: dict[str, Any] = {
        "path": plan.path,
        "dtype": None if plan.dtype is None else plan.dtype.str,
        "shape": plan.shape,
        "chunks": plan.chunks,
        "codec": codec.codec_name,
        "settings": {own.name: getattr(codec, own.name) for own in codec.choices()},
        "requested": requested.plain(),
        "recommended": plan.recommended and str(plan.recommended),
        "scale_factor": plan.packing and plan.packing.scale,
        "packed_units": plan.in_counts,
        "regions": plan.regions,
    }
    if written:
        plain["bound"] = codec.bound.plain()
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
    count = sum(dataset.get("checked", 0) for dataset in datasets)
    existed = sum(one["existed"] for one in results)
    checked = f"{count} values checked, each within its bound" if count else "nothing was checked"
    done = f" ({existed} done before)" if existed else ""
    say(
        f"{len(results)} files{done}: {bytes_text(old)} -> {bytes_text(new)}, ratio "
        f"{ratio_text(old, new)}; {checked}"
    )


def _print_plans(plans: Sequence[Plan]) -> None:
    print_table(
        ("dataset", "type", "shape", "what", "codec", "bound", "chunks"),
        [
            (
                printable(plan.path),
                "-" if plan.dtype is None else str(plan.dtype),
                shape_text(plan.shape),
                "compress" if plan.codec else "copy",
                codec_text(plan.codec) if plan.codec else "-",
                _bound_text(plan, plan.stored_codec) if plan.stored_codec else "-",
                shape_text(plan.chunks),
            )
            for plan in plans
        ],
        optional=("type", "chunks", "shape"),
    )


def _print_results(copies: Sequence[CompressedCopy], *, verified: bool) -> None:
    raw, stored = sum(copy.raw_bytes for copy in copies), sum(copy.stored_bytes for copy in copies)
    shown = copies
    if len(copies) > _MOST_ROWS:
        smallest = sorted(copy.stored_bytes for copy in copies)[-_MOST_ROWS]
        shown = [copy for copy in copies if copy.stored_bytes >= smallest][:_MOST_ROWS]
    rows = [
        (
            printable(copy.plan.path),
            str(copy.plan.dtype),
            shape_text(copy.plan.chunks),
            codec_text(copy.codec),
            _bound_text(copy.plan, copy.codec),
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


def _bound_text(plan: Plan, codec: Codec) -> str:
    """Write the bound to six digits, and the requested one if it is another."""
    assert plan.codec is not None
    assert plan.dtype is not None
    bound, requested = codec.bound, plan.codec.bound
    text = bound_text(bound, plan.dtype, f"{bound.value:.6g}")
    of_values = ""
    if plan.packing is not None and bound.kind is BoundKind.ABSOLUTE:
        unpacked = math.floor(bound.value) * abs(plan.packing.scale)
        of_values = f", {unpacked:.6g} unpacked"
    if codec == plan.codec:
        return text + of_values
    if requested.kind is BoundKind.RANGE_RELATIVE:
        return f"{text}{of_values} ({requested.value:.6g} of the range)"
    if plan.stored_codec == codec:  # in counts
        return f"{text}{of_values} (for {requested.value:.6g})"
    return f"{text}{of_values} (for {requested.value:.6g}, with missing values exact)"

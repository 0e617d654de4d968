# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""``h5lossy verify``: whether a file still holds what was verified when it was written."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import h5lossy
from h5lossy import NotComparableError, Verification, describe
from h5lossy._cli._console import say, say_json
from h5lossy._cli._files import (
    FAILED,
    NO_VERDICT,
    NOT_COMPARABLE,
    OUTDATED,
    UNREADABLE,
    dataset_in,
    datasets_in,
    filters_of,
    for_each_file,
    no_verdict,
    open_file,
    raise_failures,
    why_of,
)
from h5lossy._cli._options import dataset_option, json_option, quiet_option
from h5lossy._cli._progress import Advance, progress_bar
from h5lossy._names import hdf5_files_in
from h5lossy._printable import one_line, printable
from h5lossy._repacking.objects import Datasets, with_filters
from h5lossy._safeguards import promises

if TYPE_CHECKING:
    from collections.abc import Sequence

    import h5py


@click.command()
@click.argument(
    "paths",
    metavar="FILE...",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path),
)
@dataset_option
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    metavar="ORIGINAL",
    help="Compare every value with this file's dataset of the same path, too; bounds are FILE's. "
    "A folder has the originals of several FILE, and of those in folders, under the same names.",
)
@json_option
@quiet_option
def verify(
    paths: Sequence[Path],
    *,
    patterns: tuple[str, ...],
    against: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Decode all that h5lossy compressed in each FILE, and compare it with the records.

    A folder means the HDF5 files in it and in its subfolders.

    Checksums are checked, and every chunk is decoded as HDF5 would read it. If the data was
    verified when it was written (by h5lossy repack, or h5lossy.write with verify=True), the
    decoded values are compared with the recorded hashes: if these match, the values are bit for bit
    those that were compared with the original. No original is needed. With --against, there is a
    full comparison, as by h5lossy assess.

    A record is OUTDATED if the data is intact, but was edited, compressed again, resized or
    replaced since. A record is not a signature: whoever can write FILE can write it, too.

    Exit codes, the first that applies: 1 something is damaged; 2 wrong usage, or something can't be
    read; 3 fields can't be compared; 4 a record is outdated; 0 all is well.
    """
    with no_verdict():
        names = {
            file: file.relative_to(path) if path.is_dir() else Path(file.name)
            for path in paths
            for file in (hdf5_files_in(path) if path.is_dir() else [path])
        }
    if against is not None and len(names) > 1 and not against.is_dir():
        raise click.UsageError("several FILE have their originals in a folder: --against FOLDER")
    runs: dict[Path, _Run] = {}

    def work(path: Path) -> None:
        run = _Run()
        other = against / names[path] if against is not None and against.is_dir() else against
        with no_verdict(), open_file(path) as file, ExitStack() as stack:
            datasets = datasets_in(file, patterns)
            original = None if other is None else stack.enter_context(open_file(other))
            run.verify_all(datasets, original)
            if not (as_json or quiet):
                if len(names) > 1:
                    say(printable(str(path)))
                run.show()
        runs[path] = run

    failed = for_each_file([*names], work)
    if as_json:
        say_json(_plain_runs(runs, failed))
    codes = [run.code for run in runs.values() if run.code]
    if len(names) > 1 and not (as_json or quiet):
        say(f"verified {_count(len(names), 'file')}: {len(runs) - len(codes)} OK")
        for path, run in runs.items():
            if run.code:
                say(f"{printable(str(path))}: {run.summary()}")
    raise_failures(failed, len(names), min(codes, default=0))


def _plain_runs(runs: dict[Path, _Run], failed: dict[Path, Exception]) -> dict[str, Any]:
    """Return the results of all files as JSON can hold them."""
    unreadable: list[dict[str, Any]] = [
        {"file": str(path), "path": name, "why": why}
        for path, run in runs.items()
        for name, (why, _) in run.failed.items()
    ]
    unreadable += [{"file": str(p), "path": None, "why": why_of(e)} for p, e in failed.items()]
    datasets = [
        {"file": str(path), **_plain(one)} for path, run in runs.items() for one in run.found
    ]
    return {"datasets": datasets, "unreadable": unreadable}


class _Run:
    """The results for one file; a dataset that can't be read does not stop the others."""

    def __init__(self) -> None:
        self.found: list[Verification] = []
        self.others: dict[str, str] = {}
        self.failed: dict[str, tuple[str, int]] = {}

    def verify_all(self, datasets: Datasets, original: h5py.File | None) -> None:
        """Verify the datasets of the file, also against those of the original, if there is one."""
        sizes = {name: self.size(name, dataset) for name, dataset in datasets.items()}
        total = sum(filter(None, sizes.values())) * (1 if original is None else 2)
        with progress_bar(total) as advance:
            for name, dataset in datasets.items():
                if name not in self.failed:
                    other = None
                    if original is not None and sizes[name] is not None:
                        other = dataset_in(original, name)
                    self.verify(name, with_filters(dataset), other, advance)

    def show(self) -> None:
        """Print what was found."""
        for one in self.found:
            _print(one)
        for name, filters in self.others.items():
            say(f"{printable(name)}   {filters}   -")
        for name, (why, _) in self.failed.items():
            say(f"{printable(name)}   {printable(why)}   UNREADABLE")
        say(self.summary())

    def size(self, name: str, dataset: h5py.Dataset) -> int | None:
        """Return the number of bytes to decode; None if there are none."""
        try:
            described = None if dataset.shape is None else describe(dataset)
        except UNREADABLE as error:
            self._fail(name, error)
            return None
        return None if described is None else described.raw_bytes

    def verify(self, name: str, dataset: h5py.Dataset, original: Any, advance: Advance) -> None:
        """Verify one dataset, and store the result."""
        before = 0

        def report_bytes(done: int, _total: int) -> None:
            nonlocal before
            advance(done - before, f"verifying {name}")
            before = done

        try:
            one = h5lossy.verify(dataset, against=original, progress=report_bytes)
        except UNREADABLE as error:
            self._fail(name, error)
            return
        if one.codec is None and one.ok:
            filters = printable(", ".join(filter_name for _, filter_name in filters_of(dataset)))
            self.others[name] = f"{filters or 'not compressed'}, nothing to verify"
        else:
            self.found.append(one)

    def _fail(self, name: str, error: Exception) -> None:
        code = NOT_COMPARABLE if isinstance(error, NotComparableError) else NO_VERDICT
        self.failed[name] = one_line(error), code

    @property
    def code(self) -> int:
        """The command's exit code."""
        if any(one.is_damaged for one in self.found):
            return FAILED
        if self.failed:
            return min(code for _, code in self.failed.values())
        return 0 if all(one.ok for one in self.found) else OUTDATED

    def summary(self) -> str:
        """Summarize the results in one line."""
        lossy = [one for one in self.found if one.codec is not None]
        wrong = sum(one.is_damaged for one in self.found)
        outdated = sum(not one.ok and not one.is_damaged for one in self.found)
        counts = [
            f"{wrong} of {_count(len(lossy), 'lossy dataset')} failed" if wrong else "",
            f"{_count(outdated, 'record')} outdated" if outdated else "",
            f"{_count(len(self.failed), 'dataset')} not read" if self.failed else "",
        ]
        if any(counts):
            return ", ".join(filter(None, counts))
        if not lossy:
            return "nothing in this file was compressed by h5lossy: nothing was verified"
        return f"verified {_count(len(lossy), 'dataset')}: OK"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def _print(one: Verification) -> None:
    promise = ", ".join(filter(None, (str(one.bound), promises(one.safeguards, one.exact))))
    how = "" if one.codec is None else f"{one.codec} {promise}   {_count(one.chunks, 'chunk')}   "
    head = f"{printable(one.path)}   {how}"
    for problems, label in ((one.problems, "FAIL"), (one.outdated, "OUTDATED")):
        for problem in problems[:8]:
            where = "" if problem.chunk is None else f"chunk {problem.chunk} "
            say(f"{head}{where}{printable(problem.why)}   {label}")
        if len(problems) > 8:
            say(f"{head}{len(problems) - 8} more   {label}")
    if one.recorded and not (one.problems or one.outdated):
        some = "" if one.recorded == one.chunks else f" ({one.recorded} of them have one)"
        say(f"{head}decoded hash matches the one written{some}{_found(one)}   OK")
    elif not (one.problems or one.outdated):
        say(f"{head}decoded; there is no record to compare with   OK")
    if one.report is not None:
        say(one.report.to_text())


def _found(one: Verification) -> str:
    found = (one.record or {}).get("found")
    if not found or found.get("max_abs") is None:
        return ""
    return f"; max |e| {found['max_abs']:.6g} when written"


def _plain(one: Verification) -> dict[str, Any]:
    bound = one.bound
    return {
        "path": one.path,
        "ok": one.ok,
        "codec": one.codec,
        "bound": bound and bound.plain(),
        **one.safeguards._asdict(),
        "exact": one.exact,
        "chunks": one.chunks,
        "recorded": one.recorded,
        "problems": [{"chunk": p.chunk, "why": p.why} for p in one.problems],
        "outdated": [{"chunk": p.chunk, "why": p.why} for p in one.outdated],
        "record": one.record,
        "report": None if one.report is None else one.report.to_dict(),
    }

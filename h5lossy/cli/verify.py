# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""``h5lossy verify``: whether a file still holds what was verified when it was written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import h5py

import h5lossy
from h5lossy import describe
from h5lossy.cli._console import printable, say
from h5lossy.cli._judging import FAILED, datasets_in, no_verdict
from h5lossy.cli._progress import progress_bar
from h5lossy.cli.assess import printable_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from h5lossy import Verification


@click.command()
@click.argument("path", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "-d",
    "--dataset",
    "patterns",
    multiple=True,
    metavar="GLOB",
    help="Only these datasets; a glob as in h5lossy repack. May be repeated.",
)
@click.option(
    "--against",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="ORIGINAL",
    help="Compare every value with this file's dataset of the same path, too; bounds are FILE's.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing; the exit code is the verdict.")
def verify(
    path: Path, *, patterns: tuple[str, ...], against: Path | None, as_json: bool, quiet: bool
) -> None:
    """Decode all that h5lossy compressed in FILE, and compare it with the records.

    Checksums are checked and every chunk is decoded. If the data was verified when it was written
    (h5lossy repack does, and h5lossy.write with verify="write"), the decoded values are compared
    with the recorded hashes: they are then, bit for bit, those that were judged by their originals.
    Needs no original. With --against there is a full comparison, as h5lossy assess makes it.

    Exit codes: 0 all is well; 1 something is wrong; 2 wrong usage, or a file that can't be read;
    3 fields that can't be compared.
    """
    found: list[Verification] = []
    with no_verdict(), h5py.File(path, "r") as file:
        datasets = datasets_in(file, patterns)
        lossy = [d for d in datasets.values() if d.shape is not None and describe(d) is not None]
        others = {name: d for name, d in datasets.items() if d not in lossy}
        original = None if against is None else h5py.File(against, "r")
        try:
            times = 1 if against is None else 2
            with progress_bar(times * sum(d.nbytes for d in lossy)) as advance:
                for dataset in lossy:
                    advance(0, f"verifying {printable(dataset.name)}")
                    found.append(
                        h5lossy.verify(
                            dataset, against=_counterpart(original, dataset.name), progress=advance
                        )
                    )
        finally:
            if original is not None:
                original.close()
        if not (as_json or quiet):
            for one in found:
                _print(one)
            for name, dataset in others.items():
                say(f"{printable(name)}   {_filters(dataset)}   -")
            say(_summary(found))
    if as_json:
        click.echo(json.dumps({"datasets": [_plain(one) for one in found]}, indent=2))
    if not all(one.ok for one in found):
        click.get_current_context().exit(FAILED)


def _counterpart(original: h5py.File | None, name: str) -> Any:
    if original is None:
        return None
    found = original.get(name)
    if not isinstance(found, h5py.Dataset):
        raise click.ClickException(f"{original.filename} has no dataset {printable(name)}")
    return found


def _filters(dataset: h5py.Dataset) -> str:
    creation = dataset.id.get_create_plist()
    count = creation.get_nfilters()
    names = [
        creation.get_filter(i)[3].decode("utf-8", "replace").partition(";")[0] or "filter"
        for i in range(count)
    ]
    return f"{printable(', '.join(names)) or 'not compressed'}, nothing to verify"


def _summary(found: Sequence[Verification]) -> str:
    wrong = sum(not one.ok for one in found)
    if not found:
        return "h5lossy compressed nothing here: nothing was verified"
    if wrong:
        return f"{wrong} of {_count(len(found), 'lossy dataset')} failed"
    return f"{_count(len(found), 'lossy dataset')}, all as they should be"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def _print(one: Verification) -> None:
    head = f"{printable(one.path)}   {one.codec} {one.bound}   {_count(one.chunks, 'chunk')}"
    if one.problems:
        for problem in one.problems[:8]:
            where = "" if problem.chunk is None else f"chunk {problem.chunk} "
            say(f"{head}   {where}{printable(problem.why)}   FAIL")
        if len(one.problems) > 8:
            say(f"{head}   {len(one.problems) - 8} more   FAIL")
    elif one.recorded:
        some = "" if one.recorded == one.chunks else f" ({one.recorded} of them have one)"
        say(f"{head}   decoded hash matches the one written{some}{_found(one)}   OK")
    else:
        say(f"{head}   decoded; there is no record to compare with   OK")
    if one.report is not None:
        say(printable_lines(one.report))


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
        "bound": bound and {"kind": str(bound.kind), "value": bound.value},
        "chunks": one.chunks,
        "recorded": one.recorded,
        "problems": [{"chunk": p.chunk, "why": p.why} for p in one.problems],
        "record": one.record,
        "report": None if one.report is None else one.report.to_dict(),
    }

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Opening files, finding datasets in them, and the exit codes of commands that check them."""

from __future__ import annotations

import itertools
from contextlib import contextmanager, suppress
from os import R_OK, PathLike, access, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import h5py

from h5lossy import H5LossyError, NotComparableError
from h5lossy._cli._interrupts import raise_if_interrupted
from h5lossy._cli._patterns import require_match
from h5lossy._globs import names_one
from h5lossy._libhdf5 import filters_in
from h5lossy._names import dataset_at
from h5lossy._printable import one_line, printable
from h5lossy._repacking.objects import Datasets, dataset_paths, with_filters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

#: A check failed; a check could not be made; fields can't be compared; a record is outdated.
FAILED, NO_VERDICT, NOT_COMPARABLE, OUTDATED = 1, 2, 3, 4

#: Exceptions for a dataset that can't be read.
UNREADABLE = (H5LossyError, OSError, MemoryError, RuntimeError, ValueError, KeyError, TypeError)


@contextmanager
def no_verdict() -> Iterator[None]:
    """Turn errors that keep a check from being made into its exit codes."""
    try:
        yield
    except NotComparableError as error:
        raise Ended(one_line(error), NOT_COMPARABLE) from error
    except Ended:
        raise
    except click.ClickException as error:
        raise Ended(error.format_message(), NO_VERDICT) from error
    except UNREADABLE as error:
        raise Ended(one_line(error), NO_VERDICT) from error


class Ended(click.ClickException):
    """Ends the command with a message of one or more lines, and an exit code."""

    def __init__(self, text: str, code: int, *more_lines: str) -> None:
        super().__init__("\n".join(" ".join(line.split()) for line in (text, *more_lines)))
        self._code = code

    @property
    def exit_code(self) -> int:  # type: ignore[override]
        """What click ends the process with."""
        return self._code


def for_each_file(paths: Sequence[Path], work: Callable[[Path], None]) -> dict[Path, Exception]:
    """Do the work for every file; continue after failures, and return them."""
    failed: dict[Path, Exception] = {}
    for i, path in enumerate(paths):
        if i:
            raise_if_interrupted()
        try:
            work(path)
        except BrokenPipeError:  # the reader of the output is gone
            raise
        except (click.ClickException, *UNREADABLE) as error:
            failed[path] = error
    return failed


def raise_failures(failed: Mapping[Path, Exception], count: int, code: int = 0) -> None:
    """End the command if some of `count` files failed, or if an exit code is already set."""
    if not failed and not code:
        return
    if not failed:
        click.get_current_context().exit(code)
    only = next(iter(failed.values()))
    if count == 1 and not code and isinstance(only, click.ClickException):
        raise only
    lines = [  # a message need not repeat the file's name
        f"{printable(str(path))}: {why_of(error).removeprefix(f'{path} ')}"
        for path, error in failed.items()
    ]
    codes = [getattr(error, "exit_code", FAILED) for error in failed.values()]
    first = f"{len(failed)} of {count} files failed:"
    if count == 1:
        first, *lines = why_of(only).splitlines()
    raise Ended(first, min(filter(None, [*codes, code])), *lines)


def why_of(error: Exception) -> str:
    """Return the message of a failure."""
    return error.format_message() if isinstance(error, click.ClickException) else one_line(error)


def open_file(path: str | PathLike[str], **options: Any) -> h5py.File:
    """Open an HDF5 file for reading; end with a message that says why if that fails."""
    try:
        if Path(path).is_fifo():  # opening it would wait for a writer
            raise Ended(f"{fspath(path)} is not an HDF5 file", NO_VERDICT)
        return h5py.File(path, "r", **options)
    except FileNotFoundError:
        why = "does not exist"
        file, _, name = fspath(path).rpartition(":")
        if Path(file).is_file():
            why += f"; a dataset of a file is given as {file}:/{name}"
    except OSError as error:
        is_other = access(path, R_OK) and not h5py.is_hdf5(path)
        why = _kind_of(path) if is_other else f"can't be opened: {one_line(error)}"
    raise Ended(f"{fspath(path)} {why}", NO_VERDICT)


def _kind_of(path: str | PathLike[str]) -> str:
    """Return what a file is that is not of HDF5."""
    with suppress(OSError), Path(path).open("rb") as file:
        if file.read(4) in {b"CDF\1", b"CDF\2", b"CDF\5"}:
            return (
                "is a netCDF file of a classic format, and only netCDF-4 files are HDF5 files; "
                "convert it with nccopy -k nc4 (or -k nc7, which keeps the classic model)"
            )
    return "is not an HDF5 file"


def folders_of_other_files(path: Path) -> list[Path]:
    """Return where HDF5 looks for other files that a file names."""
    folders = [path.resolve().parent]
    with suppress(FileNotFoundError):  # the current folder was deleted
        folders.append(Path.cwd())
    return folders


def dataset_in(file: h5py.File, path: str) -> h5py.Dataset:
    """Return a dataset of a file, to read it; end with a message if there is none."""
    found = dataset_at(file, path)
    if found is None:
        raise click.ClickException(f"{file.filename} has no dataset {printable(path)}")
    return with_filters(found)


def datasets_in(file: h5py.File, patterns: Sequence[str]) -> Datasets:
    """Return the datasets that globs name; all datasets without a glob."""
    found = dataset_paths(file)
    names = dict.fromkeys(itertools.chain.from_iterable(found))
    for pattern in patterns:
        require_match("--dataset", pattern, names)
    return Datasets(
        file,
        (
            paths
            for paths in found
            if not patterns or any(names_one(paths, one) for one in patterns)
        ),
    )


def filters_of(dataset: h5py.Dataset) -> list[tuple[int, str]]:
    """Return number and name of a dataset's filters; a name ends at a semicolon."""
    return [
        (number, name.decode("utf-8", "replace").partition(";")[0] or "filter")
        for number, _, _, name in filters_in(dataset.id.get_create_plist())
    ]

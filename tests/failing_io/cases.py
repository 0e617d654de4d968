# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Writes and repacks whose I/O fails, and what killed writes leave. Runs with failing_io.c.

    cases.py fail FOLDER WORK LIBVER FAILURE MOST
    cases.py kill FOLDER INDEX LIBVER HOW MOST
    cases.py shrink FOLDER COUNT
    cases.py order FOLDER

Each case is a process of its own, so that what HDF5 does at its end counts, and a line of JSON.
"""

from __future__ import annotations

import collections
import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

import h5lossy
from h5lossy._cli import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CODEC = h5lossy.PFPL(absolute=1e-3)
SHAPE, CHUNKS = (64, 64), (4, 16)

#: Rows that are there from the start, and rows that are written: some chunks in part.
PRESENT, WRITTEN = slice(0, 48), slice(18, 58)

INDEXES: dict[str, Any] = {
    "fixed": None,
    "one unlimited": (None, SHAPE[1]),
    "two unlimited": (None, None),
}

KINDS = WRITE, TRUNCATE, SYNC, RESERVE, RENAME = range(5)


def values(seed: int, scale: float = 1) -> Any:
    return (np.random.default_rng(seed).normal(size=SHAPE) * scale).astype("f4")


OTHER = values(0)
OLD = np.where(np.arange(SHAPE[0])[:, None] < PRESENT.stop, values(1), np.float32(0))
NEW = OLD.copy()
NEW[WRITTEN] = values(2, 100)[WRITTEN]

#: Rows whose frames become much smaller, those of the last chunk in the file among them.
SHRUNK = slice(8, 48)
SMALL = np.where(np.arange(SHAPE[0])[:, None] < SHRUNK.start, OLD, np.float32(0))
SMALL[SHRUNK] = 7


def make(path: Path, libver: str, index: str = "fixed") -> None:
    with h5py.File(path, "w", libver=libver) as file:
        options = {"chunks": CHUNKS, "compression": CODEC}
        file.create_dataset("other", SHAPE, "f4", **options)[...] = OTHER
        x = file.create_dataset("g/x", SHAPE, "f4", maxshape=INDEXES[index], **options)
        x[PRESENT] = OLD[PRESENT]


def write(path: Path, libver: str, how: str = "larger") -> None:
    """Write larger or smaller frames, also with SWMR, or the smaller ones without h5lossy.write."""
    with h5py.File(path, "r+", libver=libver) as file:
        if how == "swmr":
            file.swmr_mode = True
        x = file["g/x"]
        if how == "smaller":
            h5lossy.write(x, SMALL[SHRUNK], SHRUNK)
        elif how == "h5py":
            for row in range(SHRUNK.start, SHRUNK.stop, CHUNKS[0]):
                x[row : row + CHUNKS[0]] = SMALL[row : row + CHUNKS[0]]
                file.flush()
        else:
            h5lossy.write(x, NEW[WRITTEN], WRITTEN)


def repack(source: Path, target: Path) -> None:
    main(["repack", "--absolute", "1e-3", str(source), str(target)], prog_name="h5lossy")


def repair(path: Path) -> None:
    main(["doctor", "--repair", str(path)], prog_name="h5lossy")


def judge(path: Path, new: Any = NEW) -> dict[str, int]:
    """Count chunks by what they hold, separately for those that are written and the others."""
    found: collections.Counter[str] = collections.Counter()
    try:
        file = h5py.File(path)
    except OSError:
        return {"file cannot be opened": 1}
    with file:
        for name, old, wanted in (("other", OTHER, OTHER), ("g/x", OLD, new)):
            for row, column in np.ndindex(SHAPE[0] // CHUNKS[0], SHAPE[1] // CHUNKS[1]):
                part = np.s_[row * 4 : row * 4 + 4, column * 16 : column * 16 + 16]
                whose = "other" if (old[part] == wanted[part]).all() else "written"
                try:
                    chunk = file[name][part]
                except (OSError, KeyError, RuntimeError):
                    kind = "unreadable"
                else:
                    kind = (
                        "old"
                        if np.abs(chunk - old[part]).max() <= 1e-3
                        else "new"
                        if np.abs(chunk - wanted[part]).max() <= 1e-3
                        else "wrong"
                        if chunk.any()
                        else "absent"
                    )
                found[f"{whose}: {kind}"] += 1
    return dict(found)


def in_child(said: Path, work: Callable[..., Any], *arguments: Any, **environment: str) -> int:
    """Call a function in a process of its own; return its exit code, or minus the signal."""
    child = os.fork()
    if child == 0:
        file = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 1)
        os.dup2(file, 2)
        os.environ.update(environment)
        work(*arguments)
        sys.exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def judged(folder: Path, path: Path, new: Any = NEW) -> dict[str, int]:
    """Judge in a process of its own, which a broken file may crash."""
    result = folder / "judged"
    status = in_child(folder / "said", lambda: result.write_text(json.dumps(judge(path, new))))
    found: dict[str, int] = json.loads(result.read_text()) if status == 0 else {"crash": 1}
    return found


def calls_in(log: Path) -> Iterator[tuple[int, int, bytes]]:
    """Yield kind, offset and bytes of each call."""
    content = log.read_bytes()
    at = 0
    while at < len(content):
        kind, size, offset = struct.unpack_from("=IIQ", content, at)
        at += struct.calcsize("=IIQ")
        yield kind, offset, content[at : at + size]
        at += size


def some(count: int, most: int) -> list[int]:
    """Choose at most `most` of the numbers below `count`, including the first and the last."""
    return sorted({round(i) for i in np.linspace(0, count - 1, min(count, most)).tolist()})


def fail(folder: Path, work: str, libver: str, failure: str, most: str) -> None:
    """Make the n-th call fail ("once ERRNO"), or all from the n-th one on ("lasting ERRNO")."""
    lasting, errno = failure.split()
    original, path, said = folder / "original.h5", folder / "x.h5", folder / "said"
    make(original, libver)

    def run(**environment: str) -> int:
        path.unlink(missing_ok=True)
        if work == "write":
            path.write_bytes(original.read_bytes())
            return in_child(said, write, path, libver, **environment)
        return in_child(said, repack, original, path, **environment)

    meant = {"FAILING_IO_PATH": str(path if work == "write" else folder / ".h5lossy-")}
    count_file = folder / "count"
    assert run(**meant, FAILING_IO_COUNT=str(count_file)) == 0, said.read_text()
    for first in some(int(count_file.read_text()), int(most)):
        status = run(
            **meant,
            FAILING_IO_FIRST=str(first),
            FAILING_IO_LAST=str(10**9 if lasting == "lasting" else first),
            FAILING_IO_ERRNO=errno,
        )
        case = {
            "first": first,
            "status": status,
            "said": said.read_text(),
            "found": judged(folder, path) if path.exists() else None,
            "left": [found.name for found in folder.iterdir() if found.name.startswith(".")],
        }
        print(json.dumps(case), flush=True)


def kill(folder: Path, index: str, libver: str, how: str, most: str) -> None:
    """Apply the first n calls that change a file to what was there before.

    For "h5py" those that leave a file shorter than it states, too, and each file is repaired.
    """
    path, log, said = folder / "x.h5", folder / "log", folder / "said"
    make(path, libver, index)
    image = bytearray(path.read_bytes())
    meant = {"FAILING_IO_PATH": str(path), "FAILING_IO_LOG": str(log)}
    status = in_child(said, lambda: write(path, libver, how), **meant)
    assert status == 0, said.read_text()
    calls = [call for call in calls_in(log) if call[0] in {WRITE, TRUNCATE}]
    chosen = some(len(calls) + 1, int(most))
    new = NEW if how in {"larger", "swmr"} else SMALL
    for done in range(len(calls) + 1):
        if done in chosen or (how == "h5py" and is_cut(image)):
            path.write_bytes(image)
            # What users have to do: a file of the newer format is marked as open for writing.
            subprocess.run(["h5clear", "-s", path], capture_output=True, check=False)
            case = {"first": done, "found": judged(folder, path, new)}
            if how == "h5py":
                path.write_bytes(image)
                case["status"] = in_child(said, repair, path)
                case["said"] = said.read_text()
                case["repaired"] = judged(folder, path, new)
            print(json.dumps(case), flush=True)
        for call in calls[done : done + 1]:
            apply(image, call)


def apply(image: bytearray, call: tuple[int, int, bytes]) -> None:
    """Do what a call does to a file."""
    kind, offset, content = call
    end = offset + len(content)
    image.extend(bytes(max(0, end - len(image))))
    image[offset:end] = content
    if kind == TRUNCATE:
        del image[offset:]


def is_cut(image: bytearray) -> bool:
    """Return whether HDF5 would refuse a file for its length; its user block is empty."""
    at = 0 if image[:4] == b"\x89HDF" else 512
    end_at = 28 if image[at + 8] >= 2 else 40
    return int.from_bytes(image[at + end_at : at + end_at + 8], "little") > len(image)


def shrink(folder: Path, count: str) -> None:
    """Write frames of all sizes; count calls that leave a file shorter than it states."""
    for seed in range(int(count)):
        shrink_one(folder, seed)


def shrink_one(folder: Path, seed: int) -> None:
    path, log, said = folder / "x.h5", folder / "log", folder / "said"
    choose = np.random.default_rng(seed).choice
    strategy = choose([{}, {}, {"fs_strategy": "page"}, {"userblock_size": 512}])
    libver = str(choose(["earliest", "v108", "latest"]))
    index = INDEXES[str(choose(list(INDEXES)))]
    codec = {"chunks": (8, int(choose([16, 64]))), "compression": CODEC}
    with h5py.File(path, "w", libver=libver, **strategy) as file:
        file["a"] = OTHER[: choose(64)]
        file.create_dataset("x", SHAPE, "f4", maxshape=index, **codec)[: choose(64)] = choose(
            [0, 1]
        )
        file["b"] = OTHER[: choose(64)]

    def work() -> None:
        with h5py.File(path, "r+", libver=libver) as file:
            for i in range(choose(8) + 1):
                rows, columns = (slice(*sorted(choose(65, 2, replace=False))) for _ in "ab")
                if choose(2):
                    rows, columns = slice(rows.start // 8 * 8, -(-rows.stop // 8) * 8), slice(None)
                new = values(i, choose([0, 1, 30, 1000]))[rows, columns]
                h5lossy.write(file["x"], new, (rows, columns))
                if choose(4) == 0:
                    new = file.create_dataset(f"n{i}", SHAPE, "f4", **codec)
                    h5lossy.write(new, np.zeros(SHAPE))
                if choose(4) == 0:
                    file.attrs[f"a{i}"] = np.arange(choose(400))

    image = bytearray(path.read_bytes())
    meant = {"FAILING_IO_PATH": str(path), "FAILING_IO_LOG": str(log)}
    assert in_child(said, work, **meant) == 0, said.read_text()
    shrunk = cut = 0
    for call in calls_in(log):
        length = len(image)
        apply(image, call)
        shrunk += len(image) < length
        cut += is_cut(image)
    log.unlink()
    print(json.dumps({"shrunk": shrunk, "cut": cut, "seed": seed}))


def order(folder: Path) -> None:
    """Print what `repack` does with its new file, call by call."""
    source, target, log, said = (folder / name for name in ("a.h5", "b.h5", "log", "said"))
    make(source, "earliest")
    meant = {"FAILING_IO_PATH": str(folder / ".h5lossy-"), "FAILING_IO_LOG": str(log)}
    assert in_child(said, repack, source, target, **meant) == 0, said.read_text()
    print(json.dumps([kind for kind, _, _ in calls_in(log)]))


if __name__ == "__main__":
    command, where, *rest = sys.argv[1:]
    {"fail": fail, "kill": kill, "shrink": shrink, "order": order}[command](Path(where), *rest)

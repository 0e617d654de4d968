# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Damages small HDF5 files, and has everything that reads files read them.

``python -P tests/fuzz/files.py --seconds 60`` takes the package that is installed. With
``--sanitized build/libh5lossy.so``, a library built by Clang with -DH5L_SANITIZE=ON, its copy has
that library, and all runs under the address sanitizer: it also sees HDF5 read past what the filter
gave it. Without, the heap is filled with a pattern, which then shows among values.

A case is a number: what it is follows from ``--seed`` and the number alone. Each runs in a process
forked from this one, which has imported all it takes. What a reader does has to be one of two:
return the values that `oracle` works out, or fail with an error. It must not crash, take long, take
memory out of proportion, or end with an exception that nobody meant. And no reader may be content
with what another one cannot read.

Findings go to the folder ``--findings``: the file, what was done to it, what came of it, and the
command that repeats it. The exit code is 1 if there is one.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import importlib
import importlib.util
import json
import os
import pkgutil
import random
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

TESTS = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path.insert(0, str(TESTS))

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import h5py
    import numpy.typing as npt

    from fuzz.mutations import Patient
    from fuzz.oracle import Expected
    from fuzz.seeds import Seed

#: CPU seconds of one case, and seconds on a clock: a busy machine is no finding.
CPU_SECONDS, WALL_SECONDS = 30, 300

#: Bytes that any case may take beside what this process has; the sanitizer takes more.
MEMORY_BYTES = {False: 320 << 20, True: 640 << 20}

#: A process with more is ended at once, for the machine's sake.
MOST_RESIDENT_BYTES = 2 << 30

#: Set in the environment of the process that has the right one.
_PREPARED = "H5LOSSY_FUZZ_FILES_PREPARED"

_ASAN_OPTIONS = (
    "detect_leaks=0:allocator_may_return_null=1:quarantine_size_mb=32:"
    "max_malloc_fill_size=1048576:malloc_fill_byte=165:detect_odr_violation=0:exitcode=99"
)

#: What h5py and HDF5 raise where a file is broken, and what we raise.
_ERRORS = (OSError, RuntimeError, ValueError, KeyError, MemoryError)


@dataclass
class Outcome:
    """What one reader made of a file."""

    status: str  # "values", "error", or for a command "exit N"
    text: str = ""  # what the error said
    values: npt.NDArray[Any] | None = None

    @property
    def is_content(self) -> bool:
        return self.status in {"values", "exit 0"}


@dataclass
class Case:
    """A damaged file, and what the readers said so far."""

    patient: Patient
    folder: Path
    original: Path | None
    expected: Expected | None = None
    is_cut: bool = False  # the dataset is so large that a corner of it is read
    outcomes: dict[str, Outcome] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        return self.patient.path


# ------------------------------------------------------------------------------------------------
# Readers
# ------------------------------------------------------------------------------------------------


def _read(path: Path, read: Callable[[h5py.Dataset, Any], Any]) -> Outcome:
    import h5py  # noqa: PLC0415

    from fuzz import oracle, seeds  # noqa: PLC0415

    try:
        with h5py.File(path) as file:
            dataset = file[seeds.NAME]
            return Outcome("values", values=read(dataset, oracle.window(dataset)))
    except _ERRORS as error:
        return Outcome("error", f"{type(error).__name__}: {error}")
    except Exception as error:  # noqa: BLE001 -- h5py has more; what it raises, `read` may too
        return Outcome("unmeant", f"{type(error).__name__}: {error}")


def _command(*arguments: Any) -> Outcome:
    """Run a command of the command line in this process."""
    from h5lossy._cli import main  # noqa: PLC0415

    try:
        main([str(argument) for argument in arguments], prog_name="h5lossy")
    except SystemExit as end:
        return Outcome(f"exit {end.code or 0}")
    except Exception as error:  # noqa: BLE001 -- it is the finding
        return Outcome("unmeant", f"{type(error).__name__}: {error}")
    return Outcome("exit 0")


def _look(case: Case) -> Outcome:
    """Have HDF5 show what is in the file, without any filter: where that fails, it is HDF5's."""
    import h5py  # noqa: PLC0415

    from fuzz import oracle, seeds  # noqa: PLC0415

    def look(file: h5py.File) -> None:
        dataset = file[seeds.NAME]
        for name in dataset.attrs:
            with contextlib.suppress(*_ERRORS, TypeError):
                dataset.attrs[name]
        window = oracle.window(dataset)
        case.is_cut = any(
            part.stop < extent for part, extent in zip(window, dataset.shape, strict=True)
        )
        case.expected = oracle.expect(dataset)

    try:
        with h5py.File(case.path) as file:
            file.visititems(lambda _name, _item: None)
            look(file)
    except Exception as error:  # noqa: BLE001 -- h5py's
        return Outcome("error", f"{type(error).__name__}: {error}")
    return Outcome("values", case.expected.broken, case.expected.values)


def _h5py(case: Case) -> Outcome:
    return _read(case.path, lambda dataset, window: dataset[window])


def _h5lossy(case: Case) -> Outcome:
    import h5lossy  # noqa: PLC0415

    return _read(case.path, lambda dataset, window: h5lossy.read(dataset, window, threads=2))


def _verify(case: Case) -> Outcome:
    return _command("verify", case.path)


def _info(case: Case) -> Outcome:
    return _command("info", "--frames", case.path)


def _repack(case: Case) -> Outcome:
    if case.is_cut and case.patient.notes:
        # It works on tens of MiB around each stored chunk, which for chunks of 1 kB takes a minute.
        return Outcome("exit 2", "not tried: the extents have become large")
    target = case.folder / "repacked.h5"
    outcome = _command("repack", case.path, target, "--lossless")
    if outcome.status == "exit 0":
        outcome.values = _read(target, lambda dataset, window: dataset[window]).values
        target.unlink()
    left = [
        entry.name for entry in case.folder.iterdir() if entry.name not in {case.path.name, "said"}
    ]
    if left:
        outcome = Outcome("unmeant", f"{outcome.status}, and left {left}")
        for name in left:
            _remove(case.folder / name)
    return outcome


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def _assess(case: Case) -> Outcome:
    if case.original is None:
        return Outcome("exit 2", "nothing to compare with")
    return _command("assess", case.original, case.path)


READERS: dict[str, Callable[[Case], Outcome]] = {
    "look": _look,
    "h5py": _h5py,
    "read": _h5lossy,
    "verify": _verify,
    "info": _info,
    "repack": _repack,
    "assess": _assess,
}


# ------------------------------------------------------------------------------------------------
# Verdict
# ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Finding:
    """Something that must not be."""

    reader: str
    kind: str  # what sort of thing it is, in a few words
    text: str = ""


def judge(case: Case) -> Iterator[Finding]:
    """Compare what the readers said with what may be said, and with each other.

    A reader that crashed has no outcome.
    """
    from fuzz import oracle  # noqa: PLC0415

    expected, outcomes, patient = case.expected, case.outcomes, case.patient
    h5py_said = outcomes.get("h5py", Outcome("error"))
    for reader, outcome in outcomes.items():
        if outcome.status == "unmeant" and (
            reader not in {"h5py", "read"} or (h5py_said.status != "unmeant" and reader == "read")
        ):
            yield Finding(reader, "unmeant", outcome.text)
        if not outcome.is_content or reader in {"look", "info"}:
            continue
        h5py_is_blind = reader == "h5py" and expected is not None and expected.unseen
        if expected is not None and expected.broken and not h5py_is_blind:
            yield Finding(reader, "content with what is broken", expected.broken)
        elif (
            h5py_said.status == "error"
            and reader != "h5py"
            # A file without lossy data has nothing to verify.
            and (patient.seed.record or expected is None or not expected.foreign)
            # What is no float is copied as it is.
            and not (reader == "repack" and outcome.values is None)
        ):
            yield Finding(reader, "content with what h5py cannot read", h5py_said.text)
        if outcome.values is None:
            continue
        if (
            expected is not None
            and expected.values is not None
            and not h5py_is_blind
            and not oracle.same(outcome.values, expected.values)
        ):
            yield Finding(reader, "other values")
        seeds_values = patient.seed.decoded
        if (
            patient.must_be_noticed
            and seeds_values is not None
            and not oracle.same(outcome.values, seeds_values)
        ):
            yield Finding(reader, "damage that a checksum covers was not noticed")
        if (
            reader == "read"
            and h5py_said.values is not None
            and not oracle.same(outcome.values, h5py_said.values)
            and not (expected is None or expected.unseen)
        ):
            yield Finding(reader, "other values than h5py's")
    verified = outcomes.get("verify")
    if (
        verified is not None
        and verified.is_content
        and patient.seed.record
        and not any(note.startswith("edit_record") for note in patient.notes)
        and h5py_said.values is not None
        and not oracle.same(h5py_said.values, patient.seed.decoded)
    ):
        yield Finding("verify", "content with other values than were recorded")
    if not patient.notes:
        for reader, outcome in outcomes.items():
            may_differ = reader == "assess" or (
                reader == "repack" and patient.seed.original is None
            )
            if not outcome.is_content and not may_differ:
                yield Finding(reader, "refuses a file that is in order", outcome.text)


# ------------------------------------------------------------------------------------------------
# One case, in a process of its own
# ------------------------------------------------------------------------------------------------


def make_case(
    seeds: list[Seed], run: int, number: int, folder: Path, names: tuple[str, ...] | None = None
) -> Case:
    """Make a case in an empty folder: the first are the seeds as they are.

    Without `names`, the mutations are chosen at random.
    """
    from fuzz.mutations import Patient, damage  # noqa: PLC0415
    from fuzz.seeds import write_original  # noqa: PLC0415

    rng = random.Random(f"{run}:{number}")
    seed = seeds[number] if number < len(seeds) else rng.choice(seeds)
    path = folder / "case.h5"
    path.write_bytes(seed.content)
    patient = Patient(seed, path, rng)
    if number >= len(seeds) or names:
        damage(patient, names)
    original = None
    if seed.original is not None:
        original = folder.parent / f"original-{seeds.index(seed)}.h5"
        if not original.exists():
            write_original(seed, original)
    return Case(patient, folder, original)


def _in_child(case_of: Callable[[], Case], skip: set[str], tell: Any) -> None:
    """Go through the readers; tell the parent what is on, and at the end what was found."""
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    tell({"reader": "making"})
    case = case_of()
    tell({"notes": case.patient.notes, "seed": case.patient.seed.name})
    found = []
    limit = MEMORY_BYTES["LD_PRELOAD" in os.environ]
    for reader, read in READERS.items():
        if reader in skip:
            continue
        tell({"reader": reader})
        outcome = case.outcomes[reader] = read(case)
        tell({"said": f"{reader}: {outcome.status} {outcome.text}"[:500]})
        if reader == "look":
            known = case.expected
            tell({"unseen": known is None or known.unseen, "foreign": known and known.foreign})
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base) << 10
        if grown > limit:
            foreign = case.expected is not None and case.expected.foreign
            whose = "HDF5" if reader == "look" or foreign else reader
            found.append(Finding(whose, "memory", f"{grown >> 20} MiB"))
            limit = 2 * grown
    found.extend(judge(case))
    tell({"found": [[one.reader, one.kind, one.text] for one in found]})


@dataclass
class _Story:
    """What the parent heard of one process."""

    reader: str = ""
    seed: str = ""
    unseen: bool = False
    foreign: bool = False
    notes: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    found: list[Finding] | None = None
    end: str = ""


def _fork(case_of: Callable[[], Case], skip: set[str], said: Path) -> _Story:
    """Run a case in a new process."""
    end_to_read, end_to_write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(end_to_read)
            output = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 5))

            def tell(what: Any) -> None:
                os.write(end_to_write, json.dumps(what).encode() + b"\n")

            _in_child(case_of, skip, tell)
            sys.stdout.flush()
            status = 0
        finally:
            if status:
                import traceback  # noqa: PLC0415

                traceback.print_exc()
                sys.stderr.flush()
            os._exit(status)
    os.close(end_to_write)
    story = _Story()
    deadline = time.monotonic() + WALL_SECONDS
    heard = b""
    with open(end_to_read, "rb", buffering=0) as pipe:  # noqa: PTH123 -- a descriptor
        while True:
            ready, _, _ = select.select([pipe], [], [], 0.2)
            if not ready:
                if _resident(child) > MOST_RESIDENT_BYTES:
                    story.end = f"takes more than {MOST_RESIDENT_BYTES >> 20} MiB"
                elif time.monotonic() > deadline:
                    story.end = f"takes more than {WALL_SECONDS} s"
                if not story.end:
                    continue
                os.kill(child, signal.SIGKILL)
                break
            part = pipe.read(1 << 16)
            if not part:
                break
            heard += part
    _, status = os.waitpid(child, 0)
    for line in heard.splitlines():
        what = json.loads(line)
        story.said.extend([what.pop("said")] if "said" in what else [])
        if "found" in what:
            what["found"] = [Finding(*one) for one in what["found"]]
        for name, value in what.items():
            setattr(story, name, value)
    if story.found is None and not story.end:
        number = os.waitstatus_to_exitcode(status)
        name = signal.Signals(-number).name if number < 0 else f"exit {number}"
        story.end = f"takes more than {CPU_SECONDS} s of CPU" if name == "SIGXCPU" else name
    return story


def _resident(process: int) -> int:
    """Return the bytes of memory that a process has."""
    with contextlib.suppress(OSError, IndexError):
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
        return pages * resource.getpagesize()
    return 0


def examine(case_of: Callable[[], Case], folder: Path, *, said: Path) -> tuple[_Story, str]:
    """Run a case; again without the reader that crashed, until one run gets to its end.

    Give all that was found, and what was printed at the end, and where something crashed.
    """
    skip: set[str] = set()
    crashes: list[Finding] = []
    printed = ""
    while True:
        for entry in folder.iterdir():
            _remove(entry)
        story = _fork(case_of, skip, said)
        output = said.read_text(errors="replace")
        if story.found is not None:
            story.found = crashes + story.found
            return story, printed or output
        printed += output
        reader = story.reader
        # Nothing of ours has been called, or HDF5 did not show it what is wrong.
        is_hdf5s = reader == "look" or (reader == "h5py" and story.unseen) or story.foreign
        kind = f"{story.end}: {_headline(output)}"
        crashes.append(Finding("HDF5" if is_hdf5s else reader, kind, reader))
        if reader in skip | {"making", "look"}:
            story.found = crashes
            return story, printed
        skip.add(reader)


def _headline(output: str) -> str:
    """Return what a sanitizer says in one line."""
    for line in output.splitlines():
        if "ERROR: AddressSanitizer" in line or "runtime error:" in line:
            return line.partition("AddressSanitizer: ")[2].partition(" on ")[0] or line.strip()
    lines = output.strip().splitlines()
    return lines[-1][:200] if lines else ""


# ------------------------------------------------------------------------------------------------
# Many cases
# ------------------------------------------------------------------------------------------------


def fuzz(arguments: argparse.Namespace) -> int:
    """Run cases until the time is over; return the exit code."""
    import h5lossy  # noqa: PLC0415
    from fuzz import mutations  # noqa: F401, PLC0415
    from fuzz.seeds import make_seeds  # noqa: PLC0415

    # What is imported now, no case has to import.
    for module in pkgutil.walk_packages(h5lossy.__path__, "h5lossy."):
        importlib.import_module(module.name)
    counts: collections.Counter[str] = collections.Counter()
    begin = time.monotonic()
    findings: Path = arguments.findings
    numbers = iter([arguments.case]) if arguments.case is not None else _count(arguments, begin)
    done = 0
    with tempfile.TemporaryDirectory(prefix="h5lossy-fuzz-") as name:
        folder = Path(name)
        seeds = make_seeds(folder)
        work = folder / "case"
        work.mkdir()
        for number in numbers:
            story, printed = examine(
                lambda number=number: make_case(seeds, arguments.seed, number, work),
                work,
                said=folder / "said",
            )
            done += 1
            kinds = {f"{one.reader}: {one.kind}" for one in story.found or ()}
            counts.update(kinds)
            for kind in kinds:
                if arguments.case is None and (kind.startswith("HDF5") or counts[kind] > 3):
                    continue
                stem = f"{arguments.seed}-{number}-{kind.partition(':')[0]}"
                _keep(findings / stem, arguments, number, story, printed)
                if (work / "case.h5").exists():
                    shutil.copy(work / "case.h5", findings / f"{stem}.h5")
            if arguments.case is not None:
                print(*story.notes, *story.said, printed, *(story.found or ()), sep="\n")
    cpu = sum(resource.getrusage(who).ru_utime + resource.getrusage(who).ru_stime for who in _WHO)
    print(f"{done} cases in {time.monotonic() - begin:.0f} s, {cpu:.0f} s of CPU")
    for kind, count in counts.most_common():
        print(f"{count:7} {kind}")
    return 1 if any(not kind.startswith("HDF5") for kind in counts) else 0


_WHO = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)


def _count(arguments: argparse.Namespace, begin: float) -> Iterator[int]:
    number = arguments.first
    while number < arguments.first + arguments.cases:
        if time.monotonic() - begin > arguments.seconds:
            return
        yield number
        number += 1


def _keep(
    stem: Path, arguments: argparse.Namespace, number: int, story: _Story, printed: str
) -> None:
    stem.parent.mkdir(parents=True, exist_ok=True)
    sanitized = f" --sanitized {arguments.sanitized}" if arguments.sanitized else ""
    command = f"python -P tests/fuzz/files.py --seed {arguments.seed} --case {number}{sanitized}"
    lines = [
        command,
        f"seed: {story.seed}",
        *story.notes,
        "",
        *(f"{one.reader}: {one.kind} ({one.text})" for one in story.found or ()),
        "",
        *story.said,
        "",
        printed,
    ]
    stem.with_suffix(".txt").write_text("\n".join(lines), encoding="utf-8")


def prepare(arguments: argparse.Namespace) -> int:
    """Run this program once more, where memory is watched; return its exit code."""
    environment = dict(os.environ, **{_PREPARED: "1"}, H5LOSSY_DEVICE="cpu", PYTHONHASHSEED="0")
    with tempfile.TemporaryDirectory(prefix="h5lossy-fuzz-") as name:
        if arguments.sanitized:
            environment.update(_sanitized(arguments.sanitized.resolve(), Path(name)))
        else:
            environment["MALLOC_PERTURB_"] = "90"
        command = [sys.executable, "-P", __file__, *sys.argv[1:]]
        return subprocess.run(command, env=environment, check=False).returncode


def _sanitized(library: Path, folder: Path) -> dict[str, str]:
    """Copy the package with another library in it; return the environment that has it loaded."""
    spec = importlib.util.find_spec("h5lossy")
    assert spec is not None
    assert spec.submodule_search_locations
    installed, package = Path(spec.submodule_search_locations[0]), folder / "h5lossy"
    shutil.copytree(
        installed,
        package,
        ignore=shutil.ignore_patterns("__pycache__", "libh5lossy.so"),
    )
    header = installed.parent / "native/include"  # where the package is in the source tree
    if header.is_dir():
        shutil.copytree(header, package / "include", dirs_exist_ok=True)
    (package / "plugins").mkdir(exist_ok=True)
    shutil.copy(library, package / "plugins" / "libh5lossy.so")
    runtime = subprocess.run(
        ["clang++", f"-print-file-name=libclang_rt.asan-{os.uname().machine}.so"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    return {
        "LD_PRELOAD": runtime,
        "ASAN_OPTIONS": _ASAN_OPTIONS,
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONPATH": str(folder),
        "PYTHONMALLOC": "malloc",
    }


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60, help="how long (default: 60)")
    parser.add_argument("--cases", type=int, default=1 << 40, help="how many cases at most")
    parser.add_argument("--seed", type=int, default=1, help="of the run (default: 1)")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--case", type=int, help="run one case, and print all there is to say")
    parser.add_argument("--sanitized", type=Path, metavar="LIBRARY", help="see above")
    parser.add_argument("--findings", type=Path, default=Path("build/fuzz/files"))
    arguments = parser.parse_args()
    return fuzz(arguments) if os.environ.get(_PREPARED) else prepare(arguments)


if __name__ == "__main__":
    sys.exit(main())

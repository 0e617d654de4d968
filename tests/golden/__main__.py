# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Makes golden frames, each once, in the project's folder: ``python -m tests.golden add NAME``.

The recipe is the entry ``made_of`` of ``v1/NAME.json``, which is written by hand, like those beside
it; the rest of that file is added here. ``python -m tests.golden add-file NAME`` makes golden files
from ``files/v1/NAME.json``.
``python -m tests.golden export FOLDER`` writes what a machine without Python needs to make and read
them all again.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py

import h5lossy

# As pytest does, which finds this package and the reference there.
sys.path.insert(0, str(Path(__file__).parents[1]))

from golden import FOLDER, Recipe, contents, digest, files, load
from golden.files import FileRecipe
from reference import frame as reference

if TYPE_CHECKING:
    from collections.abc import Sequence


def read_recipe(name: str, made: Path) -> tuple[Path, dict[str, Any]]:
    """Return the JSON file of a name and its recipe, or end the program if `made` exists."""
    path = made.with_suffix(".json")
    if made.exists():
        raise SystemExit(f"{made} exists, and what is golden is never changed")
    if not path.exists():
        raise SystemExit(f"there is no recipe for {name}: write one to {path}, as those beside it")
    return path, json.loads(path.read_text(encoding="utf-8"))["made_of"]


def add_file(name: str, folder: Path = files.FOLDER) -> None:
    """Make one file, unless there is one of this name."""
    made = folder / f"{name}.h5"
    path, made_of = read_recipe(name, made)
    recipe = FileRecipe(**made_of)
    recipe.write(made)
    kept = {
        "made_of": made_of,
        "written_by": {"h5lossy": h5lossy.__version__, "hdf5": h5py.version.hdf5_version},
        "holds": {"input_sha256": digest(recipe.make_values())} | files.contents(made),
    }
    path.write_text(json.dumps(kept) + "\n", encoding="utf-8")


def add(name: str, folder: Path = FOLDER) -> None:
    """Make one frame, unless there is one of this name."""
    made = folder / f"{name}.frame"
    path, made_of = read_recipe(name, made)
    recipe = Recipe(**made_of)
    frame = recipe.encode()
    if digest(reference.decode(frame)) != digest(h5lossy.decode(frame)):
        raise SystemExit(f"{name}: library and reference do not agree")
    holds = {"input_sha256": digest(recipe.make_values())} | contents(frame)
    made.write_bytes(frame)
    path.write_text(json.dumps({"made_of": made_of, "holds": holds}) + "\n", encoding="utf-8")


def export(folder: Path) -> None:
    """Write all golden frames with their values, for tests/native/golden_frames_come_out.cpp."""
    folder.mkdir(parents=True, exist_ok=True)
    for frame in load():
        if frame.recipe.encode() != frame.frame:
            raise SystemExit(f"{frame.name} is written in another way than it was")
        (folder / f"{frame.name}.case").write_bytes(frame.recipe.case())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    commands = parser.add_subparsers(required=True)
    for command, what, make in (("add", "frames", add), ("add-file", "files", add_file)):
        adding = commands.add_parser(command, help=f"make {what} of recipes, unless they exist")
        adding.add_argument("names", nargs="+", metavar="NAME")
        adding.set_defaults(run=lambda given, make=make: [make(name) for name in given.names])
    exporting = commands.add_parser("export", help="write the cases of golden_frames_come_out")
    exporting.add_argument("folder", type=Path)
    exporting.set_defaults(run=lambda given: export(given.folder))
    given = parser.parse_args(arguments)
    given.run(given)


if __name__ == "__main__":
    main()

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""What is written in several places for a release is the same everywhere."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RECIPE = (ROOT / "contrib/conda/recipe.yaml").read_text()


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.MULTILINE)
    assert match, pattern
    return match[1]


def test_the_version_is_the_same_everywhere() -> None:
    cmake = (ROOT / "native/CMakeLists.txt").read_text()
    citation = (ROOT / "CITATION.cff").read_text()
    version = _found(r"^set\(H5L_VERSION ([\d.]+(?:rc\d+)?)\)$", cmake)
    assert _found(r"^version: (.+)$", citation) == version
    assert _found(r'^  version: "(.+)"$', RECIPE) == version
    for name in ("package.json", "package-lock.json"):  # semantic versions have "-rc.1"
        package = json.loads((ROOT / "js" / name).read_text())
        assert package["version"].replace("-rc.", "rc") == version


def test_the_conda_recipe_asks_for_what_the_package_needs() -> None:
    run = _found(r"^  run:\n((?:    - .*\n)+)", RECIPE)
    asked = {line.removeprefix("    - ").replace(" ", "") for line in run.splitlines()}
    assert asked == {f"python{PROJECT['requires-python']}", *PROJECT["dependencies"]}

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The package for JavaScript, in Node and in Chromium: its own tests."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

JS = Path(__file__).parents[1] / "js"


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(JS.glob("test/*.test.js")), ids=lambda path: path.stem)
def test_javascript(path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no Node here")
    for name in ("decoder.js", "plugin.js", "node_modules"):
        if not (JS / name).exists():
            pytest.skip(f"there is no js/{name}; js/README.md says how it is made")
    ran = subprocess.run(
        [node, "--test", path], capture_output=True, text=True, check=False, timeout=900
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr

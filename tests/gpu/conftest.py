# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Tests that need a GPU: all of them are marked ``gpu``, and skipped without one."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import h5lossy

HERE = Path(__file__).parent


def _missing() -> str | None:
    config = h5lossy.get_config()
    if not config.devices or config.devices[0].problem:
        return config.devices[0].problem if config.devices else config.device_selection
    if importlib.util.find_spec("cupy") is None:
        return "CuPy is not installed"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    own = [item for item in items if HERE in item.path.parents]
    if not own:
        return
    missing = _missing()
    for item in own:
        item.add_marker(pytest.mark.gpu)
        if missing is not None:
            item.add_marker(pytest.mark.skip(reason=f"no GPU to test: {missing}"))

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures: each codec, backend, kind of bound and type (`matrix`), and each real field.

Nothing here needs an optional package.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import numpy as np
import pytest

import h5lossy
from h5lossy import _native
from h5lossy.codecs import CODECS, Codec
from matrix import BACKENDS, BOUNDS, CODEC_NAMES, DTYPES, SETTINGS, corpus_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

for name, examples in {"default": 120, "ci": 120, "thorough": 3000}.items():
    hypothesis.settings.register_profile(
        name,
        max_examples=examples,
        deadline=None,  # the machine may be busy
        derandomize=name == "ci",
        print_blob=True,
        # Arrays of several tiles are slow to make.
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_report_header() -> list[str]:
    """Say what is tested, and where it came from."""
    return [
        f"h5lossy {h5lossy.__version__}: {_native.LIBRARY_PATH}",
        f"codecs: {', '.join(CODEC_NAMES.values())}; backends: {', '.join(BACKENDS)}",
        f"in use: {_native.backend_name()}; corpus: {os.environ.get('H5LOSSY_CORPUS', 'none')}",
    ]


@pytest.fixture(
    scope="session", params=CODECS.values(), ids=[cls.codec_name for cls in CODECS.values()]
)
def codec(request: pytest.FixtureRequest) -> type[Codec]:
    """Give the class of each codec, auto included."""
    cls: type[Codec] = request.param
    return cls


@pytest.fixture(scope="session", params=SETTINGS.values(), ids=SETTINGS)
def setting(request: pytest.FixtureRequest) -> Callable[..., Codec]:
    """Give each codec in each mode, to be called with a bound."""
    make: Callable[..., Codec] = request.param
    return make


@pytest.fixture(scope="session", params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """Give the name of each backend; H5LOSSY_BACKEND chooses it, once for a process."""
    return str(request.param)


@pytest.fixture(scope="session", params=DTYPES)
def dtype(request: pytest.FixtureRequest) -> np.dtype[Any]:
    """Give each type that can be encoded."""
    return np.dtype(request.param)


@pytest.fixture(scope="session", params=list(BOUNDS.values()), ids=list(BOUNDS))
def bound(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Give one bound of each kind, as arguments of a codec."""
    return dict(request.param)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test that takes `corpus_field` every real field, or skip it."""
    if "corpus_field" not in metafunc.fixturenames:
        return
    folder = os.environ.get("H5LOSSY_CORPUS")
    fields: list[Any]
    if folder:
        fields = corpus_fields(Path(folder))
        if not fields:
            raise pytest.UsageError(f"H5LOSSY_CORPUS={folder} holds no *.h5 with float datasets")
    else:
        skip = pytest.mark.skip(reason="H5LOSSY_CORPUS names no folder of real fields")
        fields = [pytest.param(None, marks=skip, id="none")]
    metafunc.parametrize("corpus_field", fields, ids=str, scope="session")


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Give the folder of real fields, or skip."""
    folder = os.environ.get("H5LOSSY_CORPUS")
    if not folder:
        pytest.skip("H5LOSSY_CORPUS names no folder of real fields")
    return Path(folder)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Give a file system of 4 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system takes root's rights")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)

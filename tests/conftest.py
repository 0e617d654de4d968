# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The parameters of tests: every codec, backend, kind of bound and type, and each real field.

Nothing here needs an optional package.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import numpy as np
import pytest

import h5lossy
from h5lossy import _native
from h5lossy._codecs import CODECS
from matrix import BACKENDS, BOUNDS, CODEC_NAMES, DECODER, EXAMPLES, FLOATS, corpus_fields

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

for name, examples in {"default": 10, "ci": 15, "thorough": 3000}.items():
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


PARAMETERS: dict[str, Mapping[str, Any]] = {
    "codec": {cls.codec_name: cls for cls in CODECS.values()},
    "setting": EXAMPLES,
    "backend": {name: name for name in BACKENDS},
    "dtype": {name: np.dtype(name) for name in FLOATS},
    "bound": BOUNDS,
}
"""The values that a test gets for each of its arguments with one of these names.

codec: the class of each codec, auto included.
setting: a codec in some mode, to be called with a bound.
backend: its name; H5LOSSY_BACKEND chooses it, once for a process.
dtype: each type that can be encoded, in this machine's byte order.
bound: one of each kind, as arguments of a codec.
"""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test its `PARAMETERS`, unless it lists values itself, and every real field."""
    own = {
        name.strip()
        for mark in metafunc.definition.iter_markers("parametrize")
        for name in (mark.args[0].split(",") if isinstance(mark.args[0], str) else mark.args[0])
    }
    for name, values in PARAMETERS.items():
        if name in metafunc.fixturenames and name not in own:
            metafunc.parametrize(name, list(values.values()), ids=list(values))
    if "corpus_field" in metafunc.fixturenames:
        metafunc.parametrize("corpus_field", _corpus_fields(), ids=str)


def _corpus_fields() -> list[Any]:
    folder = os.environ.get("H5LOSSY_CORPUS")
    if not folder:
        skip = pytest.mark.skip(reason="H5LOSSY_CORPUS names no folder of real fields")
        return [pytest.param(None, marks=skip, id="none")]
    fields = corpus_fields(Path(folder))
    if not fields:
        raise pytest.UsageError(f"H5LOSSY_CORPUS={folder} holds no *.h5 with float datasets")
    return list(fields)


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Return the folder of real fields, or skip."""
    folder = os.environ.get("H5LOSSY_CORPUS")
    if not folder:
        pytest.skip("H5LOSSY_CORPUS names no folder of real fields")
    return Path(folder)


@pytest.fixture(scope="session")
def decoder() -> Any:
    """Return the module that is next to the format's pages."""
    spec = importlib.util.spec_from_file_location("decoder", DECODER)
    module = sys.modules["decoder"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return the path of a file system of 4 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system takes root's rights")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)

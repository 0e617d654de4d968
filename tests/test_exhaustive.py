# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Every float32 value keeps its bound: ``pytest -m exhaustive``.

It takes about a minute of one core for each setting. The work is done by tests/native/sweep.cpp,
which is built here; or ``H5L_SWEEP`` names the program.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

SETTINGS = [
    ("absolute", "1e-3"),
    ("absolute", "0.1"),
    ("absolute", "1.5"),
    ("absolute", "1e-30"),
    ("absolute", "1.7632415262334313e-38"),  # 1.5 * 2^-126: hardly above the smallest that has bins
    ("absolute", "1e37"),
    ("pointwise-relative", "1e-1"),
    ("pointwise-relative", "1e-3"),
    ("pointwise-relative", "3.1e-5"),
    ("pointwise-relative", "1.2e-7"),
    ("pointwise-relative", "0.999"),
    ("range-relative", "1e-3"),
    ("range-relative", "1e-5"),
    ("absolute", "1e-3", "c479c000"),  # fill value -999
    ("absolute", "1e-3", "80000000"),  # -0.0
    ("absolute", "1e-3", "00000fff"),  # a subnormal number
    ("lossless", "0"),
]
# The quantizers are the same for all codecs; what is made of exceptions is not.
SETTINGS += [
    (*setting, "--codec", codec)
    for codec in ("cuszp2", "aatrox", "interp", "auto")
    for setting in [
        ("absolute", "1e-3"),
        ("absolute", "1e37"),
        ("pointwise-relative", "1e-3"),
        ("pointwise-relative", "1.2e-7"),
        ("absolute", "1e-3", "c479c000"),
        ("pointwise-relative", "1e-1", "80000000"),
    ]
]
# cuSZp2 without differences, without outliers, and in several dimensions.
SETTINGS += [
    ("absolute", "0.1", "c479c000", "--codec", "cuszp2", "--mode", mode)
    for mode in ("0x12", "0x10", "0x21", "0x31")
]
# Interp has quantizers of its own for absolute bounds; its axes are picked by itself, or given.
SETTINGS += [
    (*setting, "--codec", "interp", "--mode", mode)
    for setting in [
        ("absolute", "0.1"),
        ("absolute", "1e-30"),
        ("absolute", "3.7615819226313200e-37"),  # 2^-121: the smallest that has bins
        ("range-relative", "1e-3"),
        ("absolute", "1e-3", "80000000"),
        ("absolute", "1e-3", "00000fff"),
    ]
    for mode in ("0", "0x07", "0x11")
]


@pytest.fixture(scope="session")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The program: the one that ``H5L_SWEEP`` names, or one built from the source tree."""
    if given := os.environ.get("H5L_SWEEP"):
        return given
    cmake = shutil.which("cmake")
    if cmake is None:
        pytest.skip("needs cmake, or H5L_SWEEP with the path of the program")
    build = tmp_path_factory.mktemp("build")
    configure = [cmake, "-S", str(ROOT / "native"), "-B", str(build), "-DH5L_BUILD_TESTS=ON"]
    for command in (configure, [cmake, "--build", str(build), "--target", "sweep"]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return str(build / "tests" / "sweep")


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("setting", SETTINGS, ids=" ".join)
def test_every_float32_keeps_its_bound(sweep: str, setting: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sweep, *setting, "-j", str(os.cpu_count() or 1)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout, end="")
    values, worst = re.search(r": (\d+) values, worst error ([\d.]+) of", done.stdout).groups()
    assert int(values) == 2**32
    assert float(worst) <= 1
    # The bound is used up; but where pointwise-relative bounds end, at 0.5.
    assert float(worst) == 0 if setting[0] == "lossless" else float(worst) > 0.45

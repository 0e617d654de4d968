# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Run the test suites of packages that share HDF5 with h5lossy: without it, then with it.

    python tests/peers/run.py [PEER...]

A test that fails with h5lossy alone is a finding, and ends this with 1; so does a suite of which
nothing passes. Suites are those that the packages have in them. A weekly workflow runs all of them.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

#: Where each suite is, and what of it has to do with files and codecs. netCDF4's, Zarr's and
#: kerchunk's wheels come without theirs.
PEERS = {
    "h5py": ("h5py.tests",),
    "h5netcdf": ("h5netcdf.tests",),
    "hdf5plugin": ("hdf5plugin.test",),
    "numcodecs": ("numcodecs.tests",),
    "dask": ("dask.array.tests.test_array_core", "-k", "store or hdf5 or zarr"),
    "xarray": ("xarray.tests.test_backends", "-k", "NetCDF4 or H5NetCDF or Zarr"),
}

#: pytest imports what it is told to take for a plugin.
WITH = ("-p", "h5lossy")


def outcomes(folder: Path, *arguments: str) -> tuple[set[str], int]:
    """Run tests; return the names of those that failed, and the number of those that passed."""
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    options = ("-q", "-o", "addopts=", "-p", "no:cacheprovider", f"--junitxml={report}")
    subprocess.run((sys.executable, "-m", "pytest", *options, *arguments), cwd=folder, check=False)
    failed, passed = set(), 0
    if not report.exists():  # pytest has found no test, and said so
        return failed, passed
    for case in ElementTree.parse(report).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed.add(f"{case.get('classname')}::{case.get('name')}")
        elif case.find("skipped") is None:
            passed += 1
    return failed, passed


def main() -> None:
    """Run the suites that are named, or all."""
    findings = []
    for package in sys.argv[1:] or PEERS:
        place, *others = PEERS[package]
        suite = ("--pyargs", place, *others)
        with tempfile.TemporaryDirectory() as folder:
            alone, _ = outcomes(Path(folder), *suite)
            together, passed = outcomes(Path(folder), *WITH, *suite)
        print(
            f"{package}: {passed} passed, {len(alone)} failed without h5lossy as well", flush=True
        )
        findings += [f"{package}: {name}" for name in sorted(together - alone)]
        if not passed:
            findings.append(f"{package}: nothing passed")
    if findings:
        raise SystemExit("\n".join(findings))


if __name__ == "__main__":
    main()

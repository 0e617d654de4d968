# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Run the test suites of packages that share HDF5 or Zarr with h5lossy: without it, then with it.

    python tests/peers/run.py [PEER...]

Some are also run with h5lossy in place of the package's default (`in_place.py`). A test that fails
with h5lossy alone is a finding, and ends this with 1; so does a suite of which nothing passes. The
suites are those of the installed releases; h5lossy has to be installed, too, or Zarr does not find
it in other processes. A weekly workflow runs all of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree


@dataclass(frozen=True)
class Suite:
    """A package's tests.

    Attributes
    ----------
    tests
        What pytest runs, and its options.
    source
        Where the tests come from: nothing for the installed package, "sdist" for its source
        distribution, or the address of a Git repository that has a tag for each release.
    differs_in_place
        Patterns of tests that cannot pass with h5lossy in place, since they look at the codec or at
        sizes instead of values; None if it is not tried.
    """

    tests: tuple[str, ...]
    source: str = ""
    differs_in_place: tuple[str, ...] | None = None


#: What of each suite has to do with files and codecs.
PEERS = {
    "h5py": Suite(("--pyargs", "h5py.tests")),
    "h5netcdf": Suite(("--pyargs", "h5netcdf.tests")),
    "hdf5plugin": Suite(("--pyargs", "hdf5plugin.test")),
    "numcodecs": Suite(("tests",), source="sdist"),
    "dask": Suite(
        ("--pyargs", "dask.array.tests.test_array_core", "-k", "store or hdf5 or zarr"),
    ),
    "xarray": Suite(
        ("--pyargs", "xarray.tests.test_backends", "-k", "NetCDF4 or H5NetCDF or Zarr"),
    ),
    "netCDF4": Suite(
        ("test", "-o", "pythonpath=test", "--ignore=test/test_dap.py"),  # test_dap: a server
        source="sdist",
        differs_in_place=("*test_compression*",),  # compare sizes with those of uncompressed files
    ),
    "zarr": Suite(
        (
            *("tests/test_api", "tests/test_api.py", "tests/test_array.py", "tests/test_codecs"),
            *("tests/test_chunk_transform.py", "tests/test_codec_pipeline.py"),
            *("tests/test_codec_pipeline_suite.py", "tests/test_fused_pipeline.py"),
            *("tests/test_indexing.py", "tests/test_info.py", "tests/test_pipeline_parity.py"),
            "tests/test_resize.py",
        ),
        source="sdist",
        differs_in_place=(
            "*TestInfo*",  # shows the codec
            "*test_delete_empty_shards*",  # knows the size of a shard
            # These write chunks as the bytes of numbers.
            *("*test_decode_int_widened_path*", "*test_decode_rejects_integer_overflow*"),
            "*test_integer_decode_rejects_non_exact_division*",
            "*test_generic_filter_bitround*",  # the filter changes the type unsaid: refused
            "*test_roundtrip_numcodecs*",  # names the codecs
            "*test_bulk_decode_engagement*",  # of the codec `bytes` alone
        ),
    ),
    "kerchunk": Suite(
        ("kerchunk/tests/test_hdf.py", "kerchunk/tests/test_netcdf.py"),
        source="https://github.com/fsspec/kerchunk",
        differs_in_place=(),
    ),
}  # fmt: skip

#: pytest imports what it is told to take for a plugin.
WITH = ("-p", "h5lossy")


def fetch(package: str, source: str, folder: Path) -> Path:
    """Put the source of a package's installed release into a folder, and return its root."""
    release = version(package)
    if source != "sdist":
        clone = ("git", "clone", "--quiet", "--depth=1", f"--branch={release}", source, "source")
        subprocess.run(clone, cwd=folder, check=True)
        return folder / "source"
    wanted = ("--no-deps", f"--no-binary={package}", f"{package}=={release}")
    download = (sys.executable, "-m", "pip", "download", "--quiet", *wanted)
    subprocess.run(download, cwd=folder, check=True)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    (root,) = (path for path in folder.iterdir() if path.is_dir())
    return root


def outcomes(folder: Path, *arguments: str) -> tuple[set[str], int, int]:
    """Run tests in a folder.

    Return the names of those that failed, the number of those that passed, and the number of arrays
    that had h5lossy in place.
    """
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    options = ("-q", "-o", "addopts=", "-p", "no:cacheprovider", f"--junitxml={report}")
    subprocess.run(
        (sys.executable, "-P", "-m", "pytest", *options, *arguments),
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(own_path())},
        check=False,
    )
    failed, passed = set(), 0
    if not report.exists():  # pytest has found no test, and said so
        return failed, passed, 0
    root = ElementTree.parse(report)
    for case in root.iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed.add(f"{case.get('classname')}::{case.get('name')}")
        elif case.find("skipped") is None:
            passed += 1
    in_use = sum(int(one.get("value", 0)) for one in root.iterfind(".//property[@name='in use']"))
    return failed, passed, in_use


def own_path() -> list[str]:
    """Return PYTHONPATH with the folder of the plugin `in_place`."""
    given = os.environ.get("PYTHONPATH")
    return [str(Path(__file__).resolve().parent), *([given] if given else [])]


def findings_of(package: str) -> list[str]:
    """Run a package's suite, print what came of it, and return what went wrong with h5lossy."""
    suite = PEERS[package]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if suite.source:
            folder = fetch(package, suite.source, folder)
        alone, _, _ = outcomes(folder, *suite.tests)
        together, passed, _ = outcomes(folder, *WITH, *suite.tests)
        said = f"{package} {version(package)}: {passed} passed, "
        said += f"{len(alone)} failed without h5lossy as well"
        findings = {*together} - alone
        if not passed:
            findings.add("nothing passed")
        if suite.differs_in_place is not None:
            place = ("-p", "in_place", f"--in-place={package}")
            failed, passed, in_use = outcomes(folder, *place, *suite.tests)
            differs = {
                name for name in failed - alone
                if any(fnmatch(name, pattern) for pattern in suite.differs_in_place)
            }  # fmt: skip
            said += f"; in place for {in_use} arrays: {passed} passed, {len(differs)} differ"
            findings |= {f"{name} (in place)" for name in failed - alone - differs}
            if not in_use:
                findings.add("h5lossy was not put in place")
    print(said, flush=True)
    return [f"{package}: {finding}" for finding in sorted(findings)]


def main() -> None:
    """Run the suites that are named, or all."""
    findings = [found for package in sys.argv[1:] or PEERS for found in findings_of(package)]
    if findings:
        raise SystemExit("\n".join(findings))


if __name__ == "__main__":
    main()

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Who may know whom, held by reading the `#include` and `import` lines.

::

    filter  -> dispatch -> codecs -> portable.h
       \\---> format <-----/
    h5lossy/*.py -> _native.py -> native/include/h5lossy.h
"""

from __future__ import annotations

import ast
import graphlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NATIVE = ROOT / "native"
PACKAGE = ROOT / "h5lossy"
KERNELS = ROOT / "kernels"

SOURCES = sorted(
    path
    for folder in (NATIVE, ROOT / "kernels")
    for path in folder.rglob("*")
    if path.suffix in {".h", ".cpp", ".cu", ".cuh", ".def"}
)
MODULES = sorted(PACKAGE.rglob("*.py"))

# What kernels know of the host: plain data, and what a value is to the assessment.
PLAIN_HEADERS = {"gpu/plans.h", "gpu/assess_plans.h", "assess/slopes.h", "assess/values.h"}

# What the assessment's host and device parts tell each other; it knows no CUDA.
ASSESS_HEADERS = {"assess/kernels.h", "assess/state.h"}

# What each folder of native/ may include, besides files of its own.
MAY_INCLUDE = {
    "include": set(),
    "codecs": {"simd"},  # but not its headers, see below
    "simd": {"codecs"},
    "format": {"codecs", "include"},  # of the codecs, only the checksum, see below
    "gpu": {"codecs", "format", "include"},
    "dispatch": {"codecs", "format", "gpu", "include"},
    "assess": {"codecs", "dispatch", "format", "gpu", "include"},
    "filter": {"dispatch", "format", "include"},
    ".": {"dispatch", "filter", "format", "gpu", "include"},  # api.cpp
}


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def includes(path: Path) -> list[str]:
    """Return what a file includes: "codecs/bits.h" or "<cstdint>"."""
    lines = re.findall(r'^\s*#\s*include\s*("[^"]+"|<[^>]+>)', path.read_text(), re.MULTILINE)
    return [line.strip('"') for line in lines]


def imports(path: Path) -> set[str]:
    """Return the modules that a Python file imports anywhere, also for types only."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name(path)}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def importers(*packages: str, among: list[Path]) -> set[str]:
    """Return the files that import one of the packages, or a part of it."""
    return {
        name(path)
        for path in among
        if any(module.split(".")[0] in packages for module in imports(path))
    }


# ------------------------------------------------------------------------------------------------
# native/
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(KERNELS.iterdir()), ids=name)
def test_a_kernel_includes_kernels_codecs_and_plans_only(path: Path) -> None:
    for included in includes(path):
        if included == "emulated_gpu.h":  # of tests/native: a CPU in place of a GPU
            assert path.name == "vocabulary.cuh"
            continue
        beside = (KERNELS / included).is_file()
        codec = included.startswith("codecs/") and (NATIVE / included).is_file()
        assert beside or codec or included in PLAIN_HEADERS, included


@pytest.mark.parametrize("path", [p for p in SOURCES if NATIVE in p.parents], ids=name)
def test_a_native_file_includes_only_what_its_folder_may_know(path: Path) -> None:
    folder = path.relative_to(NATIVE).parts[0] if len(path.relative_to(NATIVE).parts) > 1 else "."
    for included in includes(path):
        if included.startswith("<"):
            continue
        theirs = included.rpartition("/")[0] or "include"
        assert (NATIVE / theirs / Path(included).name).is_file(), f"{included} by its full path"
        is_plain = folder == "gpu" and included in ASSESS_HEADERS
        assert theirs == folder or theirs in MAY_INCLUDE[folder] or is_plain, (
            f"{included} in native/{folder}"
        )


def is_for_a_cpu(path: Path) -> bool:
    """Whether a codec header says at its head that kernels have no use for it."""
    return " on a CPU" in path.read_text(encoding="utf-8").split("#pragma once")[0]


HEADERS_OF_CODECS = sorted((NATIVE / "codecs").glob("*.h"))


def test_the_headers_for_a_cpu_are_known_to_no_kernel() -> None:
    ours = {f"codecs/{path.name}" for path in HEADERS_OF_CODECS if is_for_a_cpu(path)}
    assert ours == {"codecs/block_tiles.h", "codecs/groups.h"}
    for path in [*HEADERS_OF_CODECS, *SOURCES]:
        is_kernel = path.suffix in {".cu", ".cuh"} or (path.parent.name == "kernels")
        if is_kernel or (path in HEADERS_OF_CODECS and not is_for_a_cpu(path)):
            assert not ours.intersection(includes(path)), name(path)


@pytest.mark.parametrize("path", [p for p in HEADERS_OF_CODECS if not is_for_a_cpu(p)], ids=name)
def test_a_codec_header_can_be_read_by_nvrtc(path: Path) -> None:
    # NVRTC has no standard headers, and only portable.h asks which compiler is reading.
    text = path.read_text(encoding="utf-8")
    if path.name == "portable.h":
        return
    assert not [included for included in includes(path) if included.startswith(("<", "simd/"))]
    assert "std::" not in text
    assert not re.findall(r"__(?:CUDA|NVCC|GNUC|clang|AVX|SSE|ARM)\w*", text)


@pytest.mark.parametrize(
    "path",
    # Not those that hold nothing but types.
    [p for p in (NATIVE / "codecs").glob("*.h") if p.name not in {"codec.h", "range.h"}],
    ids=name,
)
def test_a_codec_header_stands_in_the_namespace_of_its_backend(path: Path) -> None:
    # The linker merges inline functions of one name, whatever instructions they hold.
    assert re.search(r"namespace (h5lossy::)?H5L_TARGET", path.read_text(encoding="utf-8"))


def test_the_frame_knows_no_codec() -> None:
    known = {
        included
        for path in (NATIVE / "format").iterdir()
        for included in includes(path)
        if included.startswith("codecs/")
    }
    assert known == {"codecs/checksum.h"}


@pytest.mark.parametrize("path", sorted((NATIVE / "simd").glob("*.h")), ids=name)
def test_vector_code_stands_in_the_namespace_of_its_backend(path: Path) -> None:
    assert "namespace h5lossy::H5L_TARGET::simd" in path.read_text(encoding="utf-8")


def test_nothing_needs_the_headers_of_hdf5_or_cuda() -> None:
    headers = {included for path in SOURCES for included in includes(path)}
    foreign = {header for header in headers if not (NATIVE / header).is_file()}
    assert not {header for header in foreign if re.search(r"hdf5|H5\w*\.h|cuda|nvrtc", header)}


def test_hdf5_is_met_in_the_filter_only() -> None:
    # Its function names begin with H5 and one or two capitals; our own are H5L_ macros.
    pattern = re.compile(r"\bH5(?!L_|LY)[A-Z]{1,2}[a-z]\w+")
    knowing = {
        name(path)
        for path in SOURCES
        if pattern.search(re.sub(r"//.*|/\*.*?\*/", "", path.read_text(), flags=re.DOTALL))
        and "native/filter/" not in name(path)
    }
    assert knowing == set()


def test_no_codec_stands_outside_codecs_and_the_registry() -> None:
    codecs = re.findall(r"H5L_CODEC\(\d+, (\w+)\)", (NATIVE / "dispatch/codecs.def").read_text())
    assert codecs
    for path in SOURCES:
        folder = path.parent.name
        named = {codec for codec in codecs if re.search(rf"\b{codec}(::|_codec)", path.read_text())}
        assert not named or folder in {"codecs", "simd", "kernels", "gpu"}, f"{name(path)}: {named}"


# ------------------------------------------------------------------------------------------------
# h5lossy/
# ------------------------------------------------------------------------------------------------


def test_one_module_opens_the_library() -> None:
    assert importers("cffi", among=MODULES) == {
        "h5lossy/_libhdf5.py",
        "h5lossy/_native.py",
        "h5lossy/batched/store.py",  # libc's fallocate
    }
    assert importers("ctypes", among=MODULES) == set()


def test_cupy_is_imported_in_one_module_at_most() -> None:
    assert importers("cupy", among=MODULES) <= {"h5lossy/_arrays.py"}


def test_python_never_reads_the_bytes_of_a_frame() -> None:
    assert importers("struct", "zlib", among=MODULES) == set()
    assert not [name(path) for path in MODULES if "H5LY" in path.read_text(encoding="utf-8")]


def test_the_command_line_is_known_to_nobody() -> None:
    library = [path for path in MODULES if PACKAGE / "cli" not in path.parents]
    assert importers("click", among=library) == set()
    assert importers("matplotlib", among=library) == {"h5lossy/assessment/_plot.py"}
    assert importers("rich", among=library) == {"h5lossy/_progress.py"}
    assert not [p for p in library if any(m.startswith("h5lossy.cli") for m in imports(p))]


def test_the_command_line_does_not_call_the_library_itself() -> None:
    commands = sorted((PACKAGE / "cli").glob("*.py"))
    assert commands
    assert not [path for path in commands if any("_native" in m for m in imports(path))]


def test_imports_of_the_package_have_no_circle() -> None:
    library = [path for path in MODULES if PACKAGE / "cli" not in path.parents]
    dotted = {name(path).removesuffix(".py").removesuffix("/__init__"): path for path in library}
    files = {module.replace("/", "."): path for module, path in dotted.items()}

    def module_of(imported: str) -> str:
        while imported and imported not in files:
            imported = imported.rpartition(".")[0]
        in_assessment = imported.startswith("h5lossy.assessment.")
        return "h5lossy.assessment" if in_assessment else imported

    known: dict[str, set[str]] = {}
    for module, path in files.items():
        known.setdefault(module_of(module), set()).update(map(module_of, imports(path)))
    order = graphlib.TopologicalSorter(
        {module: theirs - {module, "h5lossy"} for module, theirs in known.items()}
    )
    assert set(order.static_order()) > {"h5lossy.batched.reader", "h5lossy.verification"}


@pytest.mark.parametrize("file", ["checks.py", "reference"])
def test_judge_and_reference_know_nothing_of_the_library(file: str) -> None:
    path = ROOT / "tests" / file
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    assert files
    for one in files:
        text = one.read_text(encoding="utf-8")
        assert not re.findall(r"^\s*(?:from|import) h5lossy", text, re.MULTILINE)


@pytest.mark.parametrize("path", [*SOURCES, *MODULES], ids=name)
def test_every_source_file_says_whose_it_is(path: Path) -> None:
    head = path.read_text(encoding="utf-8").split("\n")[:2]
    assert head[0].endswith("SPDX-FileCopyrightText: The h5lossy authors")
    assert head[1].endswith("SPDX-License-Identifier: BSD-3-Clause")

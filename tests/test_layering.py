# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Which parts may depend on which, checked by the `#include` and `import` lines.

::

    api -> filter -> offload -> chunk, gpu -> runtime -> frame -> codecs (and their folders)
    filter, gpu, offload, runtime -> platform
    decode -> chunk, runtime (interfaces), frame, codecs; a library of its own
    assess (and assess/cpu, assess/gpu) -> gpu, runtime, frame, codecs; a library of its own
    h5lossy/*.py -> _native/*.py -> native/include/h5lossy.h
"""

from __future__ import annotations

import ast
import functools
import graphlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

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
MADE = {*PACKAGE.glob("_declarations/*.py")} - {PACKAGE / "_declarations/__init__.py"}
MODULES = sorted({*PACKAGE.rglob("*.py")} - MADE)

# What kernels may include of native/: codec headers, plain data, the header of a frame, and what a
# value is to the assessment.
PLAIN_HEADERS = {
    "assess/gpu/plans.h",
    "assess/slopes.h",
    "assess/values.h",
    "frame/header.h",
    "gpu/plans.h",
}

# What each folder of native/ may include, besides files of its own.
MAY_INCLUDE = {
    "include": set(),
    "platform": set(),
    "codecs": {"codecs/simd"},  # but not its headers, see below
    "codecs/simd": {"codecs"},
    "codecs/interp": {"codecs", "codecs/interp/simd", "codecs/simd"},
    "codecs/interp/simd": {"codecs", "codecs/interp", "codecs/simd"},
    "frame": {"codecs", "include"},  # of the codecs, only the checksum, see below
    "gpu": {"codecs", "frame", "include", "platform", "runtime"},
    "runtime": {"codecs", "frame", "include", "platform"},
    "chunk": {"codecs", "frame", "include", "runtime"},
    "decode": {"chunk", "codecs", "frame", "include", "runtime"},
    "offload": {"chunk", "codecs", "frame", "gpu", "include", "platform", "runtime"},
    "assess/cpu": {"assess", "codecs"},
    "assess/gpu": {"assess", "codecs", "frame", "gpu", "include"},
    "assess": {"assess/gpu", "codecs", "frame", "gpu", "include", "runtime"},
    "filter": {"chunk", "frame", "include", "offload", "platform", "runtime"},
    "api": {"chunk", "filter", "frame", "gpu", "include", "offload", "runtime"},
}


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def includes(path: Path) -> list[str]:
    """Return what a file includes: "codecs/bits.h" or "<cstdint>"."""
    lines = re.findall(r'^\s*#\s*include\s*("[^"]+"|<[^>]+>)', path.read_text(), re.MULTILINE)
    return [line.strip('"') for line in lines]


@functools.cache
def imports(path: Path) -> frozenset[str]:
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


def offenders(folder: Path, may_include: Callable[[Path, str], bool]) -> list[str]:
    """Return the includes that are not allowed, as "file includes header"."""
    paths = [path for path in SOURCES if folder in path.parents]
    assert paths
    return [
        f"{name(path)} includes {included}"
        for path in paths
        for included in includes(path)
        if not may_include(path, included)
    ]


def kernel_may_include(path: Path, included: str) -> bool:
    if included == "emulated_gpu.h":  # of tests/native: a CPU in place of a GPU
        return path.name == "device_primitives.cuh"
    made = included in {"kernels/codecs/all.cuh", "kernels/codecs/all.def"}  # by CMakeLists.txt
    kernel = made or (included.startswith("kernels/") and (ROOT / included).is_file())
    codec = included.startswith("codecs/") and (NATIVE / included).is_file()
    return kernel or codec or included in PLAIN_HEADERS


def native_file_may_include(path: Path, included: str) -> bool:
    folder = str(path.relative_to(NATIVE).parent)
    theirs = included.rpartition("/")[0] or "include"
    by_full_path = (NATIVE / theirs / Path(included).name).is_file()
    return included.startswith("<") or (
        by_full_path and (theirs == folder or theirs in MAY_INCLUDE[folder])
    )


def test_a_kernel_includes_kernels_codecs_and_plans_only() -> None:
    assert not offenders(KERNELS, kernel_may_include)


def test_a_native_file_includes_only_what_its_folder_may_know() -> None:
    assert not offenders(NATIVE, native_file_may_include)


def is_for_a_cpu(path: Path) -> bool:
    """Whether a header says at its top that kernels do not use it, or its codec has none."""
    codec = path.stem.partition("_")[0]
    has_none = codec in codecs() and not (KERNELS / "codecs" / f"{codec}.def").is_file()
    return has_none or " on a CPU" in path.read_text(encoding="utf-8").split("#pragma once")[0]


def codecs() -> list[str]:
    """Return the names of all codecs."""
    return re.findall(r"H5L_CODEC\(\d+, (\w+)\)", (NATIVE / "runtime/codecs.def").read_text())


HEADERS_OF_CODECS = sorted((NATIVE / "codecs").glob("*.h"))


def test_the_headers_for_a_cpu_are_known_to_no_kernel() -> None:
    ours = {f"codecs/{path.name}" for path in HEADERS_OF_CODECS if is_for_a_cpu(path)}
    assert ours >= {"codecs/block_tiles.h", "codecs/groups.h"}
    for path in [*HEADERS_OF_CODECS, *SOURCES]:
        is_kernel = KERNELS in path.parents
        if is_kernel or (path in HEADERS_OF_CODECS and not is_for_a_cpu(path)):
            assert not ours.intersection(includes(path)), name(path)


def test_a_codec_header_can_be_read_by_nvrtc() -> None:
    # NVRTC has no standard headers, and only portable.h asks which compiler is reading.
    foreign = re.compile(r"std::|__(?:CUDA|NVCC|GNUC|clang|AVX|SSE|ARM)\w*")
    for path in HEADERS_OF_CODECS:
        if path.name == "portable.h" or is_for_a_cpu(path):
            continue
        found = [line for line in includes(path) if line.startswith(("<", "codecs/simd/"))]
        found += foreign.findall(path.read_text(encoding="utf-8"))
        assert not found, name(path)


def test_codec_headers_and_vector_code_stand_in_the_namespace_of_their_backend() -> None:
    # The linker merges inline functions of one name, whatever instructions they hold. Two headers
    # hold nothing but types.
    for path in (NATIVE / "codecs").rglob("*.h"):
        if path.name in {"codec.h", "range.h"}:
            continue
        inner = r"::\w+" if path.parent.name == "simd" else ""
        pattern = rf"namespace (h5lossy::)?H5L_TARGET{inner}"
        assert re.search(pattern, path.read_text()), name(path)


def test_vector_code_is_in_a_file_for_each_instruction_set() -> None:
    # CMakeLists.txt tells a backend's code what it is for; SSE2 and NEON are in every processor.
    asked = re.compile(r"__(?:AVX\w*|FMA|GFNI|BMI2?|LZCNT|POPCNT|SSE[34]\w*|ARM_\w+)__")
    assert not [name(path) for path in SOURCES if asked.search(path.read_text(encoding="utf-8"))]
    vectors = [path for path in SOURCES if {"<immintrin.h>", "<arm_neon.h>"} & set(includes(path))]
    assert vectors
    assert all(re.search(r"_(avx512|avx2|neon)$", path.stem) for path in vectors)


def test_a_native_file_is_short_enough_to_be_read() -> None:
    ours = [path for path in SOURCES if NATIVE in path.parents]
    assert not [name(path) for path in ours if len(path.read_text().splitlines()) > 600]


def test_comments_have_no_more_columns_than_code() -> None:
    # clang-format leaves comments as they are.
    long = [
        f"{name(path)}:{number}"
        for path in SOURCES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > 120
    ]
    assert not long


def test_the_frame_knows_no_codec() -> None:
    known = {
        included
        for path in (NATIVE / "frame").iterdir()
        for included in includes(path)
        if included.startswith("codecs/")
    }
    assert known == {"codecs/checksum.h"}


def test_nothing_needs_the_headers_of_hdf5_or_cuda() -> None:
    headers = {included for path in SOURCES for included in includes(path)}
    foreign = {header for header in headers if not (NATIVE / header).is_file()}
    assert not {header for header in foreign if re.search(r"hdf5|H5\w*\.h|cuda|nvrtc", header)}


def test_systems_differ_in_the_platform_only() -> None:
    asked = re.compile(r"_WIN32|__linux__|__APPLE__|getenv|<(?:windows|unistd|dlfcn|pthread)\.h>")
    knowing = {path for path in SOURCES if asked.search(path.read_text(encoding="utf-8"))}
    assert knowing == {NATIVE / "platform/posix.cpp", NATIVE / "platform/windows.cpp"}


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


# Where a codec is named besides its own files, which have it in their names; of tests and documents
# see CONTRIBUTING.md, "Add a codec".
LISTS_OF_CODECS = {
    "native/include/h5lossy.h",  # for callers in C
    "native/runtime/codecs.def",
    "native/runtime/device_speeds.def",  # measured
    "h5lossy/_codecs.py",
    "h5lossy/_public.py",
    "h5lossy/__init__.py",
}
MENTIONS_OF_CODECS = {
    ("native/codecs/bounds.h", "pfpl"),  # the rules for bins are on that codec's page
    ("tests/reference/frame.py", "pfpl"),
    ("tests/reference/blocks.py", "pfpl"),
    ("tests/reference/integers.py", "pfpl"),  # the last stages are on that codec's page
    ("native/chunk/params.cpp", "pfpl"),  # named in its messages
    ("native/chunk/params.cpp", "interp"),
    ("h5lossy/_cli/repack.py", "cuszp2"),  # an example in its help
}
DEFAULT_CODEC = "pfpl"  # an example has to be of some codec: in h5lossy/ it may be this one


@functools.cache
def code_of(path: Path) -> str:
    """Return a file's text; for Python, without docstrings and comments."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return text
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value = ast.Constant(None)
    return ast.unparse(tree)


def test_a_codec_is_named_in_its_own_files_and_the_lists_only() -> None:
    assert codecs()
    tests = [*(ROOT / "tests/reference").glob("*.py"), ROOT / "tests/conftest.py"]
    mentions = {
        (name(path), codec)
        for path in [*SOURCES, NATIVE / "CMakeLists.txt", *MODULES, *tests]
        for codec in codecs()
        if codec not in f"{path.parent.name}/{path.parent.parent.name}/{path.name}"
        if name(path) not in LISTS_OF_CODECS
        if codec != DEFAULT_CODEC or PACKAGE not in path.parents
        if re.search(rf"(?i)(?<![a-z0-9]){codec}(?![a-z0-9])", code_of(path))
    }
    assert mentions == MENTIONS_OF_CODECS


def test_the_c_header_has_the_number_of_each_codec() -> None:
    known = re.findall(r"H5L_CODEC\((\d+), (\w+)\)", (NATIVE / "runtime/codecs.def").read_text())
    stated = re.findall(
        r"#define H5L_CODEC_(?!AUTO|STORED)(\w+) (\d+)", (NATIVE / "include/h5lossy.h").read_text()
    )
    assert [(number, codec.upper()) for number, codec in known] == [(n, c) for c, n in stated]


# ------------------------------------------------------------------------------------------------
# h5lossy/
# ------------------------------------------------------------------------------------------------


def test_headers_are_parsed_by_the_build_only() -> None:
    parsers = ("_cffi_backend", "cffi", "pycparser", "ctypes")
    assert importers(*parsers, among=MODULES) == set()


def test_one_module_warns_so_that_warnings_point_to_lines_of_users() -> None:
    assert importers("warnings", among=MODULES) == {
        "h5lossy/_warnings.py",
        "h5lossy/_cli/__init__.py",  # which shows them
    }


def test_cupy_is_imported_in_one_module_at_most() -> None:
    assert importers("cupy", among=MODULES) <= {"h5lossy/_arrays.py"}


def test_python_never_reads_the_bytes_of_a_frame() -> None:
    # The superblock is HDF5's.
    assert importers("struct", "zlib", among=MODULES) == {"h5lossy/_superblock.py"}
    assert not [name(path) for path in MODULES if "H5LY" in path.read_text(encoding="utf-8")]


def test_the_command_line_is_known_to_nobody() -> None:
    library = [path for path in MODULES if PACKAGE / "_cli" not in path.parents]
    assert importers("click", among=library) == set()
    assert importers("matplotlib", among=library) == {"h5lossy/assessment/render/figure.py"}
    assert importers("rich", among=library) == {"h5lossy/_progress.py"}
    assert not [p for p in library if any(m.startswith("h5lossy._cli") for m in imports(p))]


def test_the_command_line_does_not_call_the_library_itself() -> None:
    commands = sorted((PACKAGE / "_cli").glob("*.py"))
    assert commands
    assert not [path for path in commands if any("_native" in m for m in imports(path))]


def graph_of(modules: dict[str, list[Path]]) -> dict[str, set[str]]:
    """Return which modules each one imports in any of its files; the longest name counts."""

    def owner(imported: str) -> set[str]:
        parts = imported.split(".")
        names = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
        return {next((known for known in names if known in modules), "")} - {""}

    return {
        module: set[str]().union(*(owner(m) for path in paths for m in imports(path))) - {module}
        for module, paths in modules.items()
    }


def test_imports_of_the_package_have_no_circle() -> None:
    """Neither between files, nor between folders when each is taken as one module."""
    files = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): [path]
        for path in MODULES
    }
    del files["h5lossy"]
    folders = {f"h5lossy.{path.stem}": [path] for path in PACKAGE.glob("*.py")} | {
        f"h5lossy.{path.parent.name}": sorted(path.parent.rglob("*.py"))
        for path in PACKAGE.glob("*/__init__.py")
    }
    for modules in (files, folders):
        order = graphlib.TopologicalSorter(graph_of(modules)).static_order()
        assert set(order) == set(modules)


@pytest.mark.parametrize("file", ["checks.py", "reference"])
def test_judge_and_reference_know_nothing_of_the_library(file: str) -> None:
    path = ROOT / "tests" / file
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    assert files
    for one in files:
        text = one.read_text(encoding="utf-8")
        assert not re.findall(r"^\s*(?:from|import) h5lossy", text, re.MULTILINE)


def test_every_source_file_says_whose_it_is() -> None:
    for path in (*SOURCES, *MODULES):
        head = path.read_text(encoding="utf-8").split("\n")[:2]
        assert head[0].endswith("SPDX-FileCopyrightText: The h5lossy authors"), name(path)
        assert head[1].endswith("SPDX-License-Identifier: BSD-3-Clause"), name(path)


def test_what_is_not_public_has_an_underscore() -> None:
    public = {"assessment", "dask", "missing", "netcdf4", "xarray", "zarr"}
    entries = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    entries -= {"py", "plugins", "lib", "include"}  # py.typed, and what the build puts there
    assert {entry for entry in entries if not entry.startswith("_")} == public

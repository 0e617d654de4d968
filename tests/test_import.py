# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""`import h5lossy` registers the filter, and does nothing else."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest

import h5lossy
from h5lossy import _native
from h5lossy._public import NAMES
from hdf5_helpers import PYTHON, environment, field, run, run_python


def test_it_registers_the_filter() -> None:
    code = """
import h5py
before = h5py.h5z.filter_avail(46412)
import h5lossy
print(before, h5py.h5z.filter_avail(46412))
"""
    # Asking is a search for plugins, which finds none.
    assert run_python(code, env=environment()).stdout == "False True\n"


def test_it_prints_nothing_and_warns_of_nothing() -> None:
    done = run(*PYTHON, "-W", "error", "-c", "import h5lossy", env=environment())

    assert (done.stdout, done.stderr) == ("", "")


def test_it_leaves_the_process_as_it_was() -> None:
    code = """
import locale, os, signal, sys, threading, warnings
import h5py
def state():
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    return (dict(os.environ), os.getcwd(), handlers, threading.active_count(), sys.excepthook,
            list(warnings.filters), locale.setlocale(locale.LC_ALL), h5py.get_config().track_order)
before = state()
import h5lossy
assert state() == before
"""
    run_python(code, env=environment())


def test_it_registers_the_filter_in_an_h5py_that_is_imported_later(tmp_path: Path) -> None:
    code = """
import sys
import h5lossy
print("h5py" in sys.modules)
import h5py
with h5py.File(sys.argv[1], "w") as file:
    file.create_dataset("x", data=range(1000), dtype="f4", chunks=(100,), compression=46412,
                        compression_opts=(1, 3))
print(h5lossy.get_config().libhdf5s[0].registered_by)
"""
    said = run_python(code, tmp_path / "a.h5", env=environment()).stdout
    assert said == "False\nh5lossy\n"


def test_it_waits_for_an_h5py_that_another_thread_imports() -> None:
    code = """
import sys, threading
class Pause:
    done = False
    def find_spec(self, name, *_):
        if name.startswith("h5py.") and not self.done:
            self.done = True
            other.start()
            other.join(2)
            print(other.is_alive(), "h5py.h5z" in sys.modules)
other = threading.Thread(target=lambda: __import__("h5lossy"))
sys.meta_path.insert(0, Pause())
import h5py
other.join()
print(h5py.h5z.filter_avail(46412))
"""
    assert run_python(code, env=environment()).stdout == "True False\nTrue\n"


def test_names_are_imported_when_they_are_used() -> None:
    code = """
import sys
import h5lossy
print([name for name in ("numpy", "h5py", "cffi", "pycparser") if name in sys.modules])
h5lossy.PFPL(absolute=1.0)
late = ("h5lossy.assessment", "h5lossy._verification", "h5lossy._native.assess", "pycparser")
print([name for name in late if name in sys.modules])
print(h5lossy.assess.__module__, h5lossy.assessment.AssessOptions.__name__)
"""
    assert run_python(code, env=environment()).stdout == "[]\n[]\nh5lossy AssessOptions\n"


def test_plugin_path_and_help_need_neither_numpy_nor_h5py() -> None:
    for arguments in ("plugin-path", "--help"):
        code = f"""
import sys
from h5lossy._cli import main
main([{arguments!r}], standalone_mode=False)
print([name for name in ("numpy", "h5py", "rich") if name in sys.modules])
"""
        assert run_python(code, env=environment()).stdout.endswith("\n[]\n")


def test_type_checkers_see_the_names_that_are_imported_late() -> None:
    tree = ast.parse(Path(h5lossy.__file__).read_text(encoding="utf-8"))
    [typed, *_] = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        (node.module, alias.name, alias.asname)
        for node in typed.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == {
        (f"h5lossy.{home}", name, name) for home, names in NAMES.items() for name in names
    }


def test_every_public_object_has_its_public_name() -> None:
    for name in h5lossy.__all__:
        assert getattr(getattr(h5lossy, name), "__module__", "h5lossy") == "h5lossy"
    code = """
from h5lossy._errors import BoundError
print(BoundError)
"""
    assert run_python(code, env=environment()).stdout == "<class 'h5lossy.BoundError'>\n"


def test_it_imports_nothing_that_only_the_command_line_needs() -> None:
    code = """
import sys
import h5lossy
h5lossy.read, h5lossy.PFPL
names = ("rich", "click", "netCDF4", "h5netcdf", "tables", "hdf5plugin", "xarray", "cupy", "zarr",
         "numcodecs", "kerchunk", "dask", "distributed", "mpi4py", "matplotlib", "h5lossy._cli",
         "h5lossy.xarray", "h5lossy.netcdf4", "h5lossy.zarr", "h5lossy.dask")
print([name for name in names if name in sys.modules])
"""
    assert run_python(code, env=environment()).stdout == "[]\n"


def test_it_loads_one_library_and_no_cuda() -> None:
    code = """
import h5py, cffi, numpy
def libraries():
    with open("/proc/self/maps") as maps:
        paths = {line.split()[-1] for line in maps if ".so" in line}
    return {path for path in paths if "python" not in path.rpartition("/")[2]}
before = libraries()
import h5lossy
print(*sorted(path.rpartition("/")[2] for path in libraries() - before))
"""
    if not Path("/proc/self/maps").exists():
        pytest.skip("this system does not list a process's libraries in /proc")
    loaded = run_python(code, env=environment()).stdout.split()
    assert "libh5lossy.so" in loaded
    assert "libh5lossy_assess.so" not in loaded
    assert not [name for name in loaded if "cuda" in name or "nvidia" in name or "hdf5" in name]


def test_the_assessment_is_loaded_when_something_is_assessed() -> None:
    code = """
import h5lossy, numpy
def is_loaded():
    with open("/proc/self/maps") as maps:
        return "libh5lossy_assess.so" in maps.read()
x = numpy.linspace(0, 1, 100, dtype="f4")
frame = h5lossy.encode(x, h5lossy.PFPL(absolute=1e-3))
decoded = h5lossy.decode(frame)
print(is_loaded())
h5lossy.assess(x, decoded)
print(is_loaded())
"""
    if not Path("/proc/self/maps").exists():
        pytest.skip("this system does not list a process's libraries in /proc")
    assert run_python(code, env=environment()).stdout.split() == ["False", "True"]


def test_it_does_not_fix_where_hdf5_looks_for_plugins(tmp_path: Path) -> None:
    # HDF5 reads HDF5_PLUGIN_PATH once, at its first search for a plugin.
    if importlib.util.find_spec("hdf5plugin") is None:
        pytest.skip("hdf5plugin is not installed")
    write = """
import sys, h5py, numpy, hdf5plugin
with h5py.File(sys.argv[1], "w") as file:
    file.create_dataset("x", data=numpy.arange(1000.0), chunks=(100,), **hdf5plugin.Zstd())
print(hdf5plugin.PLUGIN_PATH)
"""
    plugins = run_python(write, tmp_path / "a.h5", env=environment()).stdout.strip()
    read = """
import os, sys, h5py, h5lossy
os.environ["HDF5_PLUGIN_PATH"] = sys.argv[2]
print(h5py.File(sys.argv[1])["x"][...].sum())
"""
    said = run_python(read, tmp_path / "a.h5", plugins, env=environment()).stdout
    assert said == "499500.0\n"


def test_it_may_be_imported_again(tmp_path: Path) -> None:
    # As test runners and notebooks do that throw modules away.
    code = """
import sys, h5py
for _ in range(3):
    import h5lossy
    for name in [name for name in sys.modules if name.partition(".")[0] == "h5lossy"]:
        del sys.modules[name]
import h5lossy
finders = [finder for finder in sys.meta_path if type(finder).__module__.startswith("h5lossy")]
assert len(finders) == 1, finders
with h5py.File(sys.argv[1], "w") as file:
    file.create_dataset("x", data=range(1000), dtype="f4", chunks=(100,),
                        compression=h5lossy.PFPL(absolute=0.5))
print(h5py.File(sys.argv[1])["x"][...].sum())
"""
    said = run_python(code, tmp_path / "a.h5", env=environment()).stdout
    assert said == "499500.0\n"


def test_the_finder_leaves_imports_as_they_are() -> None:
    code = """
import importlib.util, sys
before = importlib.util.find_spec("tables")
import h5lossy
assert importlib.util.find_spec("no_such_module_46412") is None
assert importlib.util.find_spec("tables").origin == before.origin
import tables
assert tables.__spec__.origin == before.origin
assert "exec_module" not in vars(tables.__spec__.loader)
assert tables.__loader__ is tables.__spec__.loader
"""
    if importlib.util.find_spec("tables") is None:
        pytest.skip("tables is not installed")
    run_python(code, env=environment())


def test_all_names_are_there() -> None:
    for name in h5lossy.__all__:
        assert getattr(h5lossy, name) is not None


def test_submodules_for_other_packages_say_how_they_are_imported() -> None:
    run_python(
        """
import h5lossy
for name in ("dask", "netcdf4", "xarray", "zarr", "h5py"):
    try:
        getattr(h5lossy, name)
    except AttributeError as error:
        assert str(error).endswith(f"yet: import h5lossy.{name}") == (name != "h5py"), error
    else:
        raise AssertionError(name)
"""
    )


def test_the_version_is_the_librarys() -> None:
    assert h5lossy.__version__ == _native.version()
    assert len(h5lossy.__version__.split(".")) == 3


# ------------------------------------------------------------------------------------------------
# Installations that are not complete
# ------------------------------------------------------------------------------------------------


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """Return a copy of the package, as it is when installed."""
    package = tmp_path / "site" / "h5lossy"
    original = Path(h5lossy.__file__).parent
    shutil.copytree(original, package, ignore=shutil.ignore_patterns("__pycache__"))
    # In an installation that CMake does not make in place, they are apart from the sources.
    for name in ("process", "library", "assess"):
        made = importlib.import_module(f"h5lossy._declarations.{name}").__file__
        shutil.copy(made, package / "_declarations")
    return package


def import_copy(package: Path, *, status: int) -> str:
    """Import the copy; return the last line of Python's output."""
    env = environment(PYTHONPATH=str(package.parent))
    code = "import h5py, h5lossy; print(h5lossy.__file__, h5lossy.PLUGIN_PATH)"
    done = run(*PYTHON, "-c", code, env=env, status=status)
    return (done.stdout + done.stderr).strip().splitlines()[-1]


def test_a_complete_copy_works(copied: Path) -> None:
    assert import_copy(copied, status=0) == f"{copied / '__init__.py'} {copied / 'plugins'}"


def test_without_its_library_the_import_says_what_to_do(copied: Path) -> None:
    library = copied / "plugins" / "libh5lossy.so"
    library.unlink()

    said = import_copy(copied, status=1)

    assert said.startswith("ImportError: h5lossy is not installed completely")
    assert str(library) in said
    assert "pip install ." in said


@pytest.mark.parametrize("module", ["process", "library"])
def test_without_its_declarations_the_import_says_what_to_do(copied: Path, module: str) -> None:
    (copied / "_declarations" / f"{module}.py").unlink()

    said = import_copy(copied, status=1)

    assert said == (
        "ImportError: h5lossy is not installed completely: No module named "
        f"'h5lossy._declarations.{module}'. Install it with: pip install ."
    )


def test_an_import_of_h5py_does_not_fail_because_h5lossy_is_not_complete(copied: Path) -> None:
    (copied / "plugins" / "libh5lossy.so").unlink()
    code = """
import warnings
import h5lossy
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import h5py
print(*(w.message for w in caught))
"""
    said = run(*PYTHON, "-c", code, env=environment(PYTHONPATH=str(copied.parent))).stdout
    assert said.startswith("h5lossy could not register its filter: h5lossy is not installed")


def test_a_library_of_another_machine_is_an_import_error(copied: Path) -> None:
    (copied / "plugins" / "libh5lossy.so").write_bytes(b"\x7fELF of another kind")

    said = import_copy(copied, status=1)

    assert said.startswith("ImportError: h5lossy can't load its library")


def test_the_plugin_can_be_used_from_a_copy(copied: Path, tmp_path: Path) -> None:
    # Nothing in the library depends on where it lies.
    data = field((40, 40))
    np.save(tmp_path / "x.npy", data)
    code = """
import sys, h5py, numpy
with h5py.File(sys.argv[1], "w") as file:
    file.create_dataset("x", data=numpy.load(sys.argv[2]), chunks=(16, 16), compression=46412,
                        compression_opts=(1, 3))
"""
    env = environment(HDF5_PLUGIN_PATH=str(copied / "plugins"))
    run_python(code, tmp_path / "a.h5", tmp_path / "x.npy", env=env)

    with h5py.File(tmp_path / "a.h5") as file:
        np.testing.assert_array_equal(file["x"][...], data)

# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The part of the package for Windows that can be tested elsewhere: finding loaded HDF5s."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from h5lossy import _loader_windows as loader
from h5lossy._native.library import file_name

ffi = loader.ffi


class Kernel:
    """The Windows loader, with an extension module linked to one library, and these two loaded."""

    def __init__(self) -> None:
        self.image = ffi.new("char[]", 4096)  # of the module: headers, and what it imports
        numbers = {0x3C: 0x80, 0x80 + 24 + 112 + 8: 0x800, 0x800 + 12: 0x900}
        for at, number in numbers.items():
            ffi.buffer(self.image)[at : at + 4] = number.to_bytes(4, "little")
        ffi.buffer(self.image)[0x900:0x909] = b"hdf5.dll\0"
        self.library = ffi.new("char[]", 4096)
        self.loaded = {"C:\\h5z.pyd": self.image, "C:\\hdf5.dll": self.library}
        self.pinned: list[Any] = []

    def GetModuleHandleW(self, name: Any) -> Any:  # noqa: N802
        found = [at for path, at in self.loaded.items() if name in {path, path[3:]}]
        return ffi.cast("void *", found[0]) if found else ffi.NULL

    def GetProcAddress(self, handle: Any, name: bytes) -> Any:  # noqa: N802
        is_there = handle == ffi.cast("void *", self.library) and name.startswith(b"H5")
        return handle + 16 if is_there else ffi.NULL

    def GetModuleHandleExW(self, flags: int, where: Any, found: Any) -> int:  # noqa: N802
        if flags & 1:
            self.pinned.append(where)
        found[0] = ffi.cast("void *", self.library)
        return 1

    def GetModuleFileNameW(self, handle: Any, text: Any, _size: int) -> int:  # noqa: N802
        path = next(p for p, at in self.loaded.items() if ffi.cast("void *", at) == handle)
        for i, letter in enumerate(path):
            text[i] = letter
        return len(path)

    def GetCurrentProcess(self) -> Any:  # noqa: N802
        return ffi.NULL

    def K32EnumProcessModules(self, *given: Any) -> int:  # noqa: N802
        _process, handles, _size, needed = given
        needed[0] = len(self.loaded) * ffi.sizeof("void *")
        for i, at in enumerate(self.loaded.values()):
            handles[i] = at
        return 1


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    fake = Kernel()
    monkeypatch.setattr(loader, "kernel", lambda: fake)
    return fake


def test_functions_are_found_in_what_a_module_is_linked_to(kernel: Kernel) -> None:
    expected = [ffi.cast("void *", kernel.library) + 16]
    for path in kernel.loaded:
        assert loader.addresses_in(path, ["H5get_libversion"]) == expected
    assert kernel.pinned == 2 * expected
    assert loader.addresses_in("C:\\h5z.pyd", ["H5get_libversion", "nc_open"]) is None
    assert loader.addresses_in("C:\\other.dll", ["H5get_libversion"]) is None


def test_loaded_files_are_listed(kernel: Kernel) -> None:
    assert list(loader.loaded_files()) == list(kernel.loaded)
    assert loader.file_of(ffi.cast("void *", kernel.library)) == "C:\\hdf5.dll"


def test_a_library_is_kept(kernel: Kernel) -> None:
    loader.keep_loaded("C:\\h5lossy.dll")
    assert [ffi.string(path) for path in kernel.pinned] == ["C:\\h5lossy.dll"]


def test_libraries_have_the_names_that_the_build_gives_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert file_name("h5lossy") == "h5lossy.dll"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert file_name("h5lossy") == "libh5lossy.so"

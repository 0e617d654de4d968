# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Make the modules of h5lossy/_declarations: what cffi needs to call C, parsed once for all.

python native/make_declarations.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import cffi

HEADERS = Path(__file__).parent / "include"

# The plugin's entry point, which HDF5's headers declare.
ENTRY = "const void *H5PLget_plugin_info(void);"

# Functions of the C library and of the dynamic loaders: POSIX's, two of Apple's, and Windows'.
PROCESS = """
    int fallocate(int file, int mode, int64_t offset, int64_t size);
    void *dlopen(const char *path, int flags);
    void *dlsym(void *handle, const char *name);
    int dlclose(void *handle);
    typedef struct {
        const char *dli_fname;
        void *dli_fbase;
        const char *dli_sname;
        void *dli_saddr;
    } Dl_info;
    int dladdr(const void *address, Dl_info *info);
    uint32_t _dyld_image_count(void);
    const char *_dyld_get_image_name(uint32_t i);
    void *GetCurrentProcess(void);
    int K32EnumProcessModules(void *process, void **modules, uint32_t bytes, uint32_t *needed);
    void *GetModuleHandleW(const wchar_t *name);
    int GetModuleHandleExW(uint32_t flags, const void *address, void **module);
    uint32_t GetModuleFileNameW(void *module, wchar_t *path, uint32_t size);
    void *GetProcAddress(void *module, const char *name);
"""

HEAD = """\
# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
# Made by native/make_declarations.py.
"""


def declared(header: str) -> str:
    """Return what a header declares between its two cffi lines."""
    text = (HEADERS / header).read_text(encoding="utf-8")
    return text.partition("/* cffi: begin */")[2].partition("/* cffi: end */")[0]


def make(folder: Path, name: str, *declarations: str, base: cffi.FFI | None = None) -> cffi.FFI:
    """Write a module that has `ffi`; it knows the types of `base`, too."""
    ffi = cffi.FFI()
    if base is not None:
        ffi.include(base)
    for declaration in declarations:
        ffi.cdef(declaration)
    ffi.set_source(f"h5lossy._declarations.{name}", None)
    path = folder / f"{name}.py"
    ffi.emit_python_code(str(path))
    path.write_text(HEAD + path.read_text(encoding="utf-8"), encoding="utf-8")
    return ffi


def main() -> None:
    """Make all modules."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    make(folder, "process", PROCESS)
    headers = ("h5lossy.h", "h5lossy_device.h", "h5lossy_chunks.h")
    library = make(folder, "library", *map(declared, headers), ENTRY)
    make(folder, "assess", declared("h5lossy_assess.h"), base=library)


if __name__ == "__main__":
    main()

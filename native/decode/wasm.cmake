# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause

# Toolchain of native/decode for WebAssembly: Clang and a C library as `pip install ziglang` brings them.
#
#   cmake -S native/decode -B build/wasm --toolchain wasm.cmake && cmake --build build/wasm

set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR wasm32)
find_program(H5LD_ZIG NAMES zig python-zig REQUIRED)
set(CMAKE_CXX_COMPILER ${H5LD_ZIG} c++)
set(CMAKE_CXX_COMPILER_TARGET wasm32-wasi)
set(CMAKE_CXX_COMPILER_LAUNCHER "")  # Zig has a cache of its own
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES H5LD_ZIG)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)  # a program would take minutes, as Zig makes its libraries first

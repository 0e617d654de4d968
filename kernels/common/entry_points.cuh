// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Expands a line of a kernels.def: an extern "C" kernel that calls the function, and the sizes of its shared memory and
// thread blocks for the host.
//
// With H5L_SINGLE_KERNELS, only the kernels whose H5L_WANTED_<name> is defined as `~, 1` are expanded: NVRTC compiles
// one at a time (native/gpu/modules.cpp).
#pragma once

#include "kernels/common/device_primitives.cuh"

#define H5L_DEFINE_KERNEL(name, Plan, Shared, blocks, function)              \
  extern "C" __global__ void __launch_bounds__(kThreadsWith<Shared>, blocks) \
      h5l_##name(const __grid_constant__ gpu::Plan plan) {                   \
    function(plan);                                                          \
  }                                                                          \
  extern "C" __device__ const u32 h5l_##name##_sizes[2] = {sizeof(Shared), kThreadsWith<Shared>};

#if defined(H5L_SINGLE_KERNELS)
#define H5L_SECOND(first, second, ...) second
#define H5L_SECOND_OF(...) H5L_SECOND(__VA_ARGS__)
#define H5L_JOIN(a, b) a##b
#define H5L_JOINED(a, b) H5L_JOIN(a, b)
#define H5L_KERNEL_0(...)
#define H5L_KERNEL_1(...) H5L_DEFINE_KERNEL(__VA_ARGS__)
#define H5L_KERNEL(name, ...) H5L_JOINED(H5L_KERNEL_, H5L_SECOND_OF(H5L_WANTED_##name, 0, ~))(name, __VA_ARGS__)
#else
#define H5L_KERNEL H5L_DEFINE_KERNEL
#endif

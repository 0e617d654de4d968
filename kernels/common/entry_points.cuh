// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Expands a line of a kernels.def: an extern "C" kernel that calls the function, and the sizes of its shared memory and
// thread blocks for the host.
#pragma once

#include "kernels/common/device_primitives.cuh"

#define H5L_KERNEL(name, Plan, Shared, blocks, function)                     \
  extern "C" __global__ void __launch_bounds__(kThreadsWith<Shared>, blocks) \
      h5l_##name(const __grid_constant__ gpu::Plan plan) {                   \
    function(plan);                                                          \
  }                                                                          \
  extern "C" __device__ const u32 h5l_##name##_sizes[2] = {sizeof(Shared), kThreadsWith<Shared>};

// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Measured speeds of CPUs and GPUs (device_speeds.def).
#pragma once

#include <cstdint>

#include "runtime/chunk_counts.h"

namespace h5lossy {

// GPU speed divided by CPU speed for chunks in host memory; 0 if the table has no entry.
double gpu_speedup(Direction direction, std::uint32_t codec);

// Whether the table has an entry for this codec on any CPU. A codec without one is faster on CPUs.
bool has_gpu_speed(Direction direction, std::uint32_t codec);

}  // namespace h5lossy

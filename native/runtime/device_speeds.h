// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// How fast CPUs and GPUs are, as it was measured (device_speeds.def).
#pragma once

#include <cstdint>

#include "runtime/chunk_counts.h"

namespace h5lossy {

// How many times as fast as this CPU a GPU is at chunks in the host's memory; 0: the table does not say.
double gpu_speedup(Direction direction, std::uint32_t codec);

}  // namespace h5lossy

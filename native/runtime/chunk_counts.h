// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The numbers of chunks that this process has encoded and decoded on the CPU and on the GPU. With H5LOSSY_COUNTS=1 they
// are printed to stderr when the process ends or HDF5 unloads the plugin, so that users of h5repack and similar tools
// see them.
#pragma once

#include <cstdint>

namespace h5lossy {

enum class Direction : std::uint32_t { encode = 0, decode = 1 };

struct Counts {
  std::uint64_t cpu[2];  // chunks, by Direction
  std::uint64_t gpu[2];
};
Counts counts();

// Whether H5LOSSY_COUNTS is 1.
bool prints_counts();

void count_chunk(Direction direction, bool is_on_gpu);

}  // namespace h5lossy

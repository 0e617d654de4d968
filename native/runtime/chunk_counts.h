// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// How many chunks the CPU and the GPU have had in this process. With H5LOSSY_COUNTS=1, one line on standard error says it
// at the end of the process, or of the library, if HDF5 unloads its plugins before: h5repack and its like have no other way.
#pragma once

#include <cstdint>

namespace h5lossy {

enum class Direction : std::uint32_t { encode = 0, decode = 1 };

struct Counts {
  std::uint64_t cpu[2];  // chunks, by Direction
  std::uint64_t gpu[2];
};
Counts counts();

// Whether H5LOSSY_COUNTS asks for lines.
bool prints_counts();

// One more chunk is done.
void count_chunk(Direction direction, bool is_on_gpu);

}  // namespace h5lossy

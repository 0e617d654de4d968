// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "runtime/chunk_counts.h"

#include <atomic>
#include <cstdio>
#include <cstring>

#include "platform/platform.h"

namespace h5lossy {
namespace {

// Trivially destructible, because HDF5 also calls filters at exit.
constinit std::atomic<std::uint64_t> chunk_counts[2][2] = {};  // CPU and GPU, by Direction

struct ExitReport {
  const bool is_enabled = prints_counts();
  ~ExitReport() {
    if (!is_enabled) return;
    const Counts all = counts();
    std::fprintf(stderr, "h5lossy: chunks encoded: GPU %llu, CPU %llu; decoded: GPU %llu, CPU %llu\n",
                 static_cast<unsigned long long>(all.gpu[0]), static_cast<unsigned long long>(all.cpu[0]),
                 static_cast<unsigned long long>(all.gpu[1]), static_cast<unsigned long long>(all.cpu[1]));
  }
};

}  // namespace

Counts counts() {
  const auto& [cpu, gpu] = chunk_counts;
  return {{cpu[0].load(), cpu[1].load()}, {gpu[0].load(), gpu[1].load()}};
}

bool prints_counts() {
  const platform::Variable value("H5LOSSY_COUNTS");
  return value.text() != nullptr && std::strcmp(value.text(), "1") == 0;
}

void count_chunk(Direction direction, bool is_on_gpu) {
  static const ExitReport report;
  chunk_counts[is_on_gpu ? 1 : 0][static_cast<std::size_t>(direction)].fetch_add(1, std::memory_order_relaxed);
}

}  // namespace h5lossy

// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Reductions over points: leaves that are complete are added to the state, in a fixed order.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "assess/gpu/sequences.h"
#include "assess/kernels.h"
#include "assess/state.h"
#include "h5lossy_assess.h"

namespace h5lossy::assess {

// Thrown if the GPU fails.
struct DeviceFailure {
  std::string what;
};

// What each thread counts errors in, made when it needs it first.
class ThreadCounters {
 public:
  explicit ThreadCounters(std::uint32_t threads) : each_(threads) {}

  Counters& of(std::uint32_t worker) {
    if (each_[worker] == nullptr) each_[worker] = std::make_unique<Counters>();  // all zeros
    return *each_[worker];
  }

 private:
  std::vector<std::unique_ptr<Counters>> each_;
};

struct PointsCall {
  const h5l_assess_params& params;
  const Kernels& kernels;
  const void* x;
  const void* y;
  const std::uint8_t* mask;
  std::uint32_t threads;
  gpu::AssessDevice* device;  // holds the values; null if they are in host memory
  ThreadCounters& counters;
};

// Adds the points of the incomplete leaf.
void flush_pending(const h5l_assess_params& params, const Kernels& kernels, Counters& counters, State& state);

void add_points(const PointsCall& call, std::uint64_t first, std::uint64_t count, State& state);

// Whether all points so far are valid, including those of the incomplete leaf.
bool all_valid(const h5l_assess_params& params, const State& state);

void finalize_points(const State& state, h5l_assess_points_result& result);

}  // namespace h5lossy::assess

// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The assessment of values that are on a GPU: which kernels it takes, and what comes back to the host. Knows no CUDA: an
// AssessDevice starts the kernels. The results are those of the CPU's kernels, bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "assess/kernels.h"
#include "assess/state.h"
#include "gpu/sequences.h"

namespace h5lossy::gpu {

class AssessDevice {
 public:
  virtual ~AssessDevice() = default;
  virtual Launcher& launcher() = 0;
  // Memory of the device, aligned to 256 bytes, for what is started until the next call of it; null: there is not enough.
  virtual std::uint8_t* reserve(std::size_t bytes) = 0;
  // Starts to copy to the host; what is there may be read after `wait`, or by what is called then.
  virtual bool download(void* to, const void* from, std::size_t bytes) = 0;
  // Calls a function once all copies that have been started are there, in `wait` at the latest; in the order of the calls.
  virtual void then(std::function<void()> function) = 0;
  virtual bool wait() = 0;
  // What was wrong.
  [[nodiscard]] virtual std::string error() const = 0;
};

// Values in memory of the device, adjacent and aligned.
struct PointsInput {
  const std::uint8_t* x;
  const std::uint8_t* y;
  const std::uint8_t* mask;  // may be null
};

// Whole leaves of points from number `first` on, a multiple of kLeafValues.
[[nodiscard]] bool add_leaves(AssessDevice& device, const h5l_assess_params& params, const PointsInput& input,
                              std::uint64_t first, std::uint64_t leaves, assess::State& state);

// Part of a field: what its owner counts, from `first` to before `end`.
struct FieldInput {
  std::uint32_t value_bytes;
  const assess::View& view;
  const assess::Rules& rules;
  const assess::FieldPlan& field;
  std::uint64_t first[4], end[4];
  std::uint64_t cell_rows, cell_columns;
};

// Both only start the work: the state has it after the device's `wait`, and lives until then.
[[nodiscard]] bool add_stencils(AssessDevice& device, const FieldInput& input, assess::State& state);
[[nodiscard]] bool add_windows(AssessDevice& device, const FieldInput& input, assess::State& state);

}  // namespace h5lossy::gpu

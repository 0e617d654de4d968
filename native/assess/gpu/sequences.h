// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The assessment of values on a GPU: the sequences of kernels, and the results copied to the host. Independent of CUDA:
// an AssessDevice starts the kernels. The results equal the CPU's bit for bit.
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
  // Device memory, aligned to 256 bytes, valid for kernels started before the next call. Null if out of memory.
  virtual std::uint8_t* reserve(std::size_t bytes) = 0;
  // Starts a copy to the host. It may be read after `wait`, or in a function passed to `then`.
  virtual bool download(void* to, const void* from, std::size_t bytes) = 0;
  // Calls a function when the copies started so far are complete, at the latest in `wait`. Functions are called in
  // order.
  virtual void then(std::function<void()> function) = 0;
  virtual bool wait() = 0;
  // The last error.
  [[nodiscard]] virtual std::string error() const = 0;
};

// Values in device memory, contiguous and aligned.
struct PointsInput {
  const std::uint8_t* x;
  const std::uint8_t* y;
  const std::uint8_t* mask;  // may be null
};

// Adds whole leaves. `first` is the index of the first point, a multiple of kLeafValues.
[[nodiscard]] bool add_leaves(AssessDevice& device, const h5l_assess_params& params, const PointsInput& input,
                              std::uint64_t first, std::uint64_t leaves, assess::State& state);

// Part of a field: the owned points [first, end).
struct FieldInput {
  std::uint32_t value_bytes;
  const assess::View& view;
  const assess::Rules& rules;
  const assess::FieldPlan& field;
  std::uint64_t first[4], end[4];
  std::uint64_t cell_rows, cell_columns;
};

// Both only start the kernels. The results are added to the state in the device's `wait`, so the state must outlive it.
[[nodiscard]] bool add_stencils(AssessDevice& device, const FieldInput& input, assess::State& state);
[[nodiscard]] bool add_windows(AssessDevice& device, const FieldInput& input, assess::State& state);

}  // namespace h5lossy::gpu

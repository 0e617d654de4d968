// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Whether the GPU or the CPU works on a chunk in the host's memory, and who did so far. H5LOSSY_DEVICE is "auto" (the
// default), "cpu", "gpu", or "gpu:N". With "auto" the faster one does: both are tried, per codec and size of chunk, once a
// process has had so many bytes that opening the GPU is worth it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "gpu/device.h"

namespace h5lossy {

enum class Direction : std::uint32_t { encode = 0, decode = 1 };

struct Counts {
  std::uint64_t cpu[2];  // chunks, by Direction
  std::uint64_t gpu[2];
};
Counts counts();

// One chunk: who is to work on it, and then how long that took.
class Turn {
 public:
  Turn(Direction direction, std::uint32_t codec, std::uint32_t value_bytes, std::size_t raw_bytes);

  // Null: the CPU's turn.
  [[nodiscard]] gpu::Device* device() const { return device_; }

  // The GPU could not; the CPU does it.
  void give_up();

  // The chunk is done.
  void finish();

 private:
  Direction direction_;
  std::size_t raw_bytes_;
  std::size_t slot_;
  gpu::Device* device_ = nullptr;
  bool is_timed_ = false;
  std::chrono::steady_clock::time_point begin_;
};

// What H5LOSSY_DEVICE asks for, what there is, and what was measured: lines for people.
std::string describe_device_selection();

}  // namespace h5lossy

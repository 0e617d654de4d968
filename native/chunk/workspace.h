// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Temporary memory of one call, allocated once for all tiles or all chunks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "chunk/memory.h"

namespace h5lossy {

// The alignment of codecs' workspaces: a cache line.
inline constexpr std::size_t kWorkspaceAlignment = 64;

constexpr std::size_t round_to_alignment(std::size_t bytes) {
  return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
}

class Workspace {
 public:
  explicit Workspace(std::size_t bytes)
      : is_empty_(bytes == 0), memory_(is_empty_ ? nullptr : allocate<std::uint8_t>(bytes + kWorkspaceAlignment)) {}
  [[nodiscard]] bool ok() const { return is_empty_ || memory_ != nullptr; }
  [[nodiscard]] std::uint8_t* data() const {
    return memory_.get() + (-reinterpret_cast<std::uintptr_t>(memory_.get()) % kWorkspaceAlignment);
  }

 private:
  bool is_empty_;
  Array<std::uint8_t> memory_;
};

// A thread's buffer for chunks of one size that are not contiguous in memory, allocated when it is first needed.
class Scratch {
 public:
  // Null if out of memory.
  std::uint8_t* get(std::size_t bytes) {
    if (memory_ == nullptr) memory_ = allocate<std::uint8_t>(bytes);
    return memory_.get();
  }

 private:
  Array<std::uint8_t> memory_;
};

}  // namespace h5lossy

// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Memory that one call needs beside its input and output; one allocation for each thread, never one for a tile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace h5lossy {

// A line of the cache, and what codecs' workspaces are aligned to.
inline constexpr std::size_t kWorkspaceAlignment = 64;

constexpr std::size_t round_to_alignment(std::size_t bytes) {
  return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
}

class Workspace {
 public:
  // Of no bytes needs no memory.
  explicit Workspace(std::size_t bytes)
      : is_empty_(bytes == 0),
        memory_(is_empty_ ? nullptr : new (std::nothrow) std::uint8_t[bytes + kWorkspaceAlignment]) {}
  [[nodiscard]] bool ok() const { return is_empty_ || memory_ != nullptr; }
  [[nodiscard]] std::uint8_t* data() const {
    return memory_.get() + (-reinterpret_cast<std::uintptr_t>(memory_.get()) % kWorkspaceAlignment);
  }

 private:
  bool is_empty_;
  std::unique_ptr<std::uint8_t[]> memory_;
};

}  // namespace h5lossy

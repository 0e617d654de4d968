// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Memory that one call needs beside its input and output; one allocation, never one for a tile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace h5lossy {

class Workspace {
 public:
  explicit Workspace(std::size_t size) : memory_(new (std::nothrow) std::uint8_t[size]) {}
  [[nodiscard]] bool ok() const { return memory_ != nullptr; }
  [[nodiscard]] std::uint8_t* data() const { return memory_.get(); }

 private:
  std::unique_ptr<std::uint8_t[]> memory_;
};

}  // namespace h5lossy

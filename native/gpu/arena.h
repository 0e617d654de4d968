// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Allocates consecutive pieces of a buffer. Without a buffer, it only computes the required size.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace h5lossy::gpu {

class Arena {
 public:
  explicit Arena(std::uint8_t* memory, std::size_t alignment = 16) : memory_(memory), alignment_(alignment) {}

  template <class T>
  T* take(std::size_t count) {
    T* const piece = memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + bytes_);
    bytes_ += (count * sizeof(T) + alignment_ - 1) / alignment_ * alignment_;
    return piece;
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

  // Reserves the memory that `other`, a copy of this arena, has allocated since. Several copies may use it in turn.
  void pass(const Arena& other) { bytes_ = std::max(bytes_, other.bytes_); }

 private:
  std::uint8_t* memory_;
  std::size_t alignment_;
  std::size_t bytes_ = 0;
};

}  // namespace h5lossy::gpu

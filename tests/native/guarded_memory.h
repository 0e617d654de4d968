// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Memory between two pages that must not be touched, so that one byte read or written too far ends the program, with or
// without a sanitizer.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "check.h"

namespace h5lossy::test {

class GuardedMemory {
 public:
  // Room for any size up to `capacity`.
  explicit GuardedMemory(std::size_t capacity) {
    const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    inside_ = (capacity + page - 1) / page * page;
    mapped_ = inside_ + 2 * page;
    void* const memory = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED, "no memory for %zu bytes", mapped_);
    base_ = static_cast<std::uint8_t*>(memory);
    begin_ = base_ + page;
    CHECK(inside_ == 0 || mprotect(begin_, inside_, PROT_READ | PROT_WRITE) == 0, "mprotect of %zu bytes", inside_);
  }
  ~GuardedMemory() { munmap(base_, mapped_); }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  // The first `size` bytes: a guard page lies right in front of them.
  [[nodiscard]] std::span<std::uint8_t> at_front(std::size_t size) const { return {begin_, checked(size)}; }

  // The last `size` bytes: a guard page lies right behind them.
  [[nodiscard]] std::span<std::uint8_t> at_end(std::size_t size) const {
    return {begin_ + inside_ - checked(size), size};
  }

 private:
  [[nodiscard]] std::size_t checked(std::size_t size) const {
    CHECK(size <= inside_, "room for %zu bytes, %zu are needed", inside_, size);
    return size;
  }

  std::uint8_t* base_ = nullptr;
  std::uint8_t* begin_ = nullptr;
  std::size_t inside_ = 0;
  std::size_t mapped_ = 0;
};

}  // namespace h5lossy::test

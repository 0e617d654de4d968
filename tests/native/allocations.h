// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Counts the library's allocations, and makes them fail on demand. A program that links allocations.cpp has operator
// new replaced, and malloc and its like wrapped by the linker (CMakeLists.txt).
#pragma once

#include <atomic>
#include <cstddef>

namespace h5lossy::test {

// What happened since watch().
struct Allocations {
  std::atomic<bool> watched{false};  // else nothing is counted and nothing fails
  std::atomic<long> count{0};
  std::atomic<std::size_t> bytes{0};
  std::atomic<long> fail_at{-1};  // this allocation fails, counted from 0, and all later ones; -1: none

  void watch(long failing) {
    count = 0;
    bytes = 0;
    fail_at = failing;
    watched = true;
  }
  void stop() { watched = false; }

  // False: this allocation is to fail.
  bool allow(std::size_t size) {
    if (!watched) return true;
    bytes += size;
    const long number = count++;
    return fail_at < 0 || number < fail_at;
  }
};

extern Allocations allocations;

}  // namespace h5lossy::test

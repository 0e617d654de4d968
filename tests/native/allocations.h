// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Counts the library's allocations, and makes them fail on demand. A program that links allocations.cpp has operator
// new replaced, and malloc and its like wrapped by the linker (CMakeLists.txt).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

namespace h5lossy::test {

// What happened since watch().
struct Allocations {
  std::atomic<bool> watched{false};  // else nothing is counted and nothing fails
  std::atomic<long> count{0};
  std::atomic<long> held{0};       // bytes, by what the allocator gave
  std::atomic<long> most_held{0};  // at one time
  std::atomic<long> fail_at{-1};   // this allocation fails, counted from 0, and all later ones; -1: none

  void watch(long failing) {
    count = 0;
    held = 0;
    most_held = 0;
    fail_at = failing;
    watched = true;
  }
  void stop() { watched = false; }

  // False if this allocation must fail.
  bool allow() {
    if (!watched) return true;
    const long number = count++;
    return fail_at < 0 || number < fail_at;
  }

  // What was given, and what is given back.
  void hold(long bytes) {
    if (!watched) return;
    held += bytes;
    most_held = std::max(most_held.load(), held.load());
  }
};

extern Allocations allocations;

}  // namespace h5lossy::test

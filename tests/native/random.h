// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Random numbers that are the same on every machine: the tests do the same each time.
#pragma once

#include <cstdint>

namespace h5lossy::test {

// How many of so many random cases a test tries, and its step through cases that it tries in turn.
#ifdef H5L_FEW_CASES
constexpr int cases(int count) { return (count + 9) / 10; }
inline constexpr unsigned kCaseStep = 11;
#else
constexpr int cases(int count) { return count; }
inline constexpr unsigned kCaseStep = 1;
#endif

// SplitMix64 (Steele, Lea, Flood 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

  // From 0 to limit - 1; limit is far below 2^64, so the bias does not matter.
  std::uint64_t below(std::uint64_t limit) { return next() % limit; }

  // From low to high, both included.
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low) + 1));
  }

  bool one_in(std::uint64_t n) { return below(n) == 0; }

  // From 0 to below 1.
  double fraction() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

}  // namespace h5lossy::test

// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Test data: smooth fields, and among them the values that break error-bounded compressors.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <vector>

#include "promise.h"
#include "random.h"

namespace h5lossy::test {

// The bound kinds and bounds that most tests go through: ordinary ones, and those at the limits of the rules.
struct Setting {
  std::uint32_t kind;
  double bound;
};

template <class T>
std::vector<Setting> settings() {
  constexpr double smallest_normal = std::numeric_limits<T>::min();
  constexpr double half_ulp = std::numeric_limits<T>::epsilon() / 2;
  return {
      {H5L_BOUND_ABSOLUTE, 1e-3},
      {H5L_BOUND_ABSOLUTE, 0.5},  // a power of two: the mid-points between bins are numbers
      {H5L_BOUND_ABSOLUTE, 1.5},
      {H5L_BOUND_ABSOLUTE, smallest_normal},          // the smallest that has bins
      {H5L_BOUND_ABSOLUTE, smallest_normal * 0.999},  // becomes lossless
      {H5L_BOUND_ABSOLUTE, std::numeric_limits<double>::max()},
      {H5L_BOUND_POINTWISE_RELATIVE, 1e-1},
      {H5L_BOUND_POINTWISE_RELATIVE, 1e-3},
      {H5L_BOUND_POINTWISE_RELATIVE, 2.5 * half_ulp},  // E = 1: the narrowest bins
      {H5L_BOUND_POINTWISE_RELATIVE, half_ulp},        // E = 0: becomes lossless
      {H5L_BOUND_POINTWISE_RELATIVE, 0.999},
      {H5L_BOUND_RANGE_RELATIVE, 1e-2},
      {H5L_BOUND_RANGE_RELATIVE, 1e-5},
      {H5L_BOUND_LOSSLESS, 0},
  };
}

// Values of type T, as bits, for one setting.
template <class T>
class Values {
 public:
  // One value in `hostile_one_in` is hostile; 0 means none.
  Values(Random& random, const Setting& setting, std::uint64_t hostile_one_in)
      : random_(random), setting_(setting), hostile_one_in_(hostile_one_in) {
    bound_ = static_cast<T>(std::fmin(setting.bound, static_cast<double>(std::numeric_limits<T>::max()) / 16));
    if (static_cast<double>(bound_) > setting.bound) bound_ = std::nextafter(bound_, T{0});
    level_ = setting.kind == H5L_BOUND_ABSOLUTE ? 1000 * static_cast<double>(bound_) : 1000;
    // Around zero, numbers are fine enough to lie anywhere in a bin.
    if (setting.kind == H5L_BOUND_RANGE_RELATIVE && random.one_in(2)) level_ = 0;
    if (!std::isfinite(level_) || level_ > static_cast<double>(std::numeric_limits<T>::max())) level_ = 1;
  }

  std::vector<Bits<T>> make(std::size_t count) {
    std::vector<Bits<T>> values(count);
    for (Bits<T>& bits : values) {
      const bool is_hostile = hostile_one_in_ != 0 && random_.one_in(hostile_one_in_);
      bits = is_hostile ? hostile() : smooth();
    }
    return values;
  }

  Bits<T> hostile() {
    switch (random_.below(7)) {
      case 0:
        return static_cast<Bits<T>>(random_.next());  // any pattern
      case 1:
        return special();
      case 2:
        return near(border_between_bins());
      case 3:  // bound * 2^k
        return near(
            bits_of(std::ldexp(bound_, static_cast<int>(random_.between(-kMantissa<T> - 3, kMantissa<T> + 3)))));
      case 4:  // a bin near the largest one
        return near(bits_of(
            static_cast<T>((std::ldexp(T{1}, kMantissa<T> - 1) - static_cast<T>(random_.below(4))) * 2 * bound_)));
      case 5:  // a whole number
        return with_any_sign(bits_of(static_cast<T>(random_.below(std::uint64_t{1} << random_.below(kMantissa<T>)))));
      default:  // a value like that of a neighbour, but of any sign
        return with_any_sign(smooth());
    }
  }

 private:
  static Bits<T> bits_of(T x) { return std::bit_cast<Bits<T>>(x); }

  Bits<T> with_any_sign(Bits<T> bits) { return random_.one_in(2) ? bits : bits ^ kSign<T>; }

  // At most four ulp away.
  Bits<T> near(Bits<T> bits) {
    return with_any_sign(static_cast<Bits<T>>(bits + static_cast<Bits<T>>(random_.between(-4, 4))));
  }

  // A random walk in steps of a few bins.
  Bits<T> smooth() {
    const double step = setting_.kind == H5L_BOUND_ABSOLUTE ? static_cast<double>(bound_) : 1;
    walk_ += (random_.fraction() - 0.5) * 8;
    return bits_of(static_cast<T>(level_ + walk_ * step));
  }

  Bits<T> border_between_bins() {
    if (setting_.kind == H5L_BOUND_POINTWISE_RELATIVE) {
      const Bits<T> half_width = static_cast<Bits<T>>(std::ldexp(setting_.bound, kMantissa<T>));
      const Bits<T> scale = 2 * half_width + 1;
      const Bits<T> bins = static_cast<Bits<T>>(random_.below(kInf<T> / scale));
      return bits_of(T{1}) % scale + bins * scale + half_width;
    }
    const int magnitude = static_cast<int>(random_.below(kMantissa<T>));
    const T bin = static_cast<T>(random_.below(std::uint64_t{1} << magnitude));
    return bits_of((bin + static_cast<T>(0.5)) * 2 * bound_);
  }

  Bits<T> special() {
    constexpr Bits<T> one = 1, quiet = one << (kMantissa<T> - 1), smallest_normal = one << kMantissa<T>;
    const Bits<T> patterns[] = {
        0,                       // zero
        1,                       // smallest subnormal
        smallest_normal - 1,     // largest subnormal
        smallest_normal,         //
        smallest_normal + 1,     //
        kInf<T> - 1,             // largest number
        kInf<T>,                 //
        kInf<T> | 1,             // signalling NaN
        kInf<T> | quiet,         // quiet NaN; with a sign it is what 0/0 gives
        kInf<T> | quiet | 0x2A,  // NaN with a payload
        static_cast<Bits<T>>(~kSign<T>),
        bits_of(T{1}),
        bits_of(T{1}) - 1,
        bits_of(static_cast<T>(0.5)),
    };
    return with_any_sign(patterns[random_.below(std::size(patterns))]);
  }

  Random& random_;
  Setting setting_;
  std::uint64_t hostile_one_in_;
  T bound_;
  double level_;
  double walk_ = 0;
};

// The values' bytes as a caller has them in memory.
template <class T>
std::vector<std::uint8_t> to_bytes(std::span<const Bits<T>> values, bool big_endian) {
  std::vector<std::uint8_t> bytes(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  if (big_endian) {
    for (auto at = bytes.begin(); at != bytes.end(); at += sizeof(T)) std::reverse(at, at + sizeof(T));
  }
  return bytes;
}

template <class T>
std::vector<Bits<T>> to_values(std::span<const std::uint8_t> bytes, bool big_endian) {
  std::vector<Bits<T>> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  if (big_endian) {
    for (Bits<T>& bits : values) {
      std::uint8_t turned[sizeof(T)];
      std::memcpy(turned, &bits, sizeof(T));
      std::reverse(std::begin(turned), std::end(turned));
      std::memcpy(&bits, turned, sizeof(T));
    }
  }
  return values;
}

}  // namespace h5lossy::test

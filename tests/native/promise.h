// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The promise (docs/design/bound.md), checked in exact arithmetic against the bound that the user gave. It uses nothing
// of the library, so that no mistake is shared.
#pragma once

#include <bit>
#include <cinttypes>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include "check.h"
#include "h5lossy.h"

namespace h5lossy::test {

template <class T>
using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

template <class T>
inline constexpr Bits<T> kSign = Bits<T>{1} << (8 * sizeof(T) - 1);

template <class T>
inline constexpr int kMantissa = std::numeric_limits<T>::digits - 1;

// Bits of infinity.
template <class T>
inline constexpr Bits<T> kInf = std::bit_cast<Bits<T>>(std::numeric_limits<T>::infinity());

template <class T>
bool is_finite(Bits<T> bits) {
  return (bits & ~kSign<T>) < kInf<T>;
}

template <class T>
bool is_zero(Bits<T> bits) {
  return (bits & ~kSign<T>) == 0;
}

// Below the smallest normal number, zero included.
template <class T>
bool is_subnormal(Bits<T> bits) {
  return (bits & ~kSign<T>) < Bits<T>{1} << kMantissa<T>;
}

// IEEE binary128: 113 bits hold the product of two doubles, and exponents to spare.
#if defined(__SIZEOF_FLOAT128__)
__extension__ using Quad = __float128;
#else
using Quad = long double;
static_assert(std::numeric_limits<Quad>::digits == 113,
              "long double is too short, as on Apple's AArch64: check the promise elsewhere");
#endif

// |a - b| <= limit for doubles. Exact: the difference is rounded to s, and Knuth's two-sum gives what the rounding
// lost.
inline bool differ_by_at_most(double a, double b, double limit) {
  const double s = a - b;
  if (!std::isfinite(s)) return false;
  const double a_part = s + b;
  const double lost = (a - a_part) - (b - (a_part - s));
  const double magnitude = std::abs(s), more = std::signbit(s) ? -lost : lost;
  return magnitude < limit || (magnitude == limit && more <= 0);
}

// |x - x'| <= bound * min(|x|, |x'|) for two numbers of one sign. Exact where it may be true: then they are within a
// factor of two, so that their difference has at most 54 bits; the product has 106.
inline bool differ_by_at_most_a_share(double x, double decoded, double bound) {
  const Quad difference = static_cast<Quad>(x) - static_cast<Quad>(decoded);
  const double smaller = std::fmin(std::abs(x), std::abs(decoded));
  const Quad limit = static_cast<Quad>(bound) * static_cast<Quad>(smaller);
  return difference <= limit && -difference <= limit;
}

// |x - x'| <= bound * (max - min). Differences and product may need more than 113 bits, so this asks for a little more
// than was promised, by a factor that is far below the encoder's own safety margin of 2^-53.
inline bool differ_by_at_most_a_share_of_range(double x, double decoded, double bound, double min, double max) {
  const Quad difference = static_cast<Quad>(x) - static_cast<Quad>(decoded);
  const Quad limit = static_cast<Quad>(bound) * (static_cast<Quad>(max) - static_cast<Quad>(min));
  const Quad magnitude = difference < 0 ? -difference : difference;
  return magnitude + magnitude * static_cast<Quad>(0x1p-100) <= limit;
}

// Whether encoding what was decoded gives the same frame again, and not just the same values.
inline bool repeats_its_frames(std::uint32_t codec, std::uint32_t mode) {
  return codec != H5L_CODEC_INTERP && !(codec == H5L_CODEC_AUTO && mode == H5L_AUTO_SIZE);
}

struct Promise {
  std::uint32_t kind = H5L_BOUND_LOSSLESS;
  double bound = 0;
  bool has_fill = false;
  std::uint64_t fill_bits = 0;
  double min = 0;  // of the values that count; for range-relative
  double max = 0;
};

// Smallest and largest of the values that count.
template <class T>
void measure_range(std::span<const Bits<T>> values, bool maybe_padded, Promise& promise) {
  bool any = false;
  for (const Bits<T> bits : values) {
    if (!is_finite<T>(bits) || (promise.has_fill && bits == promise.fill_bits)) continue;
    if (maybe_padded && is_zero<T>(bits)) continue;
    const double x = static_cast<double>(std::bit_cast<T>(bits));
    promise.min = any ? std::fmin(promise.min, x) : x;
    promise.max = any ? std::fmax(promise.max, x) : x;
    any = true;
  }
}

// The part of the promise that is violated if `bits` decode to `decoded`, or null.
template <class T>
const char* broken(const Promise& promise, Bits<T> bits, Bits<T> decoded) {
  if (decoded == bits) return nullptr;
  if (!is_finite<T>(bits)) return "NaN and infinity come back bit for bit";
  if (!is_finite<T>(decoded)) return "a finite value stays finite";
  if (promise.has_fill && bits == promise.fill_bits) return "the fill value comes back bit for bit";
  // Many values become +0.0: the documented exception.
  if (promise.has_fill && decoded == promise.fill_bits && decoded != 0) return "no value turns into the fill value";

  const double x = static_cast<double>(std::bit_cast<T>(bits));
  const double y = static_cast<double>(std::bit_cast<T>(decoded));
  switch (promise.kind) {
    case H5L_BOUND_ABSOLUTE:
      return differ_by_at_most(x, y, promise.bound) ? nullptr : "|x - x'| <= bound";
    case H5L_BOUND_POINTWISE_RELATIVE:
      if (is_zero<T>(bits)) return decoded == 0 ? nullptr : "zero comes back as zero";
      if (is_subnormal<T>(bits)) return "a subnormal value comes back bit for bit";
      if (((bits ^ decoded) & kSign<T>) != 0) return "the sign stays";
      return differ_by_at_most_a_share(x, y, promise.bound) ? nullptr : "|x - x'| <= bound * min(|x|, |x'|)";
    case H5L_BOUND_RANGE_RELATIVE:
      return differ_by_at_most_a_share_of_range(x, y, promise.bound, promise.min, promise.max)
                 ? nullptr
                 : "|x - x'| <= bound * (max - min)";
    default:
      return "lossless: every value comes back bit for bit";
  }
}

// Whether a value and what it came back as are on different sides of a threshold, or of an end of the valid range.
inline bool is_side_changed(const h5l_params& params, double x, double y) {
  bool changed = false;
  for (std::uint32_t i = 0; i < params.threshold_count; ++i) {
    const double at = params.thresholds[i];
    changed |= (x < at) != (y < at) || (x > at) != (y > at);
  }
  if (params.has_valid_range == 0) return changed;
  return changed || (x >= params.valid_min) != (y >= params.valid_min) ||
         (x <= params.valid_max) != (y <= params.valid_max);
}

// Fails unless each value of a chunk came back as its parameters promise.
template <class T>
void check_promise(const char* name, const h5l_params& params, std::span<const Bits<T>> values,
                   std::span<const Bits<T>> decoded) {
  Promise promise = {params.bound_kind, params.bound, params.has_fill != 0, params.fill_bits};
  measure_range<T>(values, params.maybe_padded != 0, promise);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const char* rule = broken<T>(promise, values[i], decoded[i]);
    if (is_side_changed(params, static_cast<double>(std::bit_cast<T>(values[i])),
                        static_cast<double>(std::bit_cast<T>(decoded[i])))) {
      rule = "no value changes sides";
    }
    CHECK(rule == nullptr,
          "%s, %s: value %zu of %zu is 0x%" PRIx64 " and came back as 0x%" PRIx64
          " (float%zu, kind %u, bound %.17g, fill %d 0x%" PRIx64 ", range %.17g to %.17g)",
          name, rule, i, values.size(), std::uint64_t{values[i]}, std::uint64_t{decoded[i]}, 8 * sizeof(T),
          promise.kind, promise.bound, promise.has_fill ? 1 : 0, promise.fill_bits, promise.min, promise.max);
  }
}

// What was decoded and encoded again, perhaps in other tiles: a value is as it was, or was held exactly and has moved now.
template <class T>
void check_stays(const char* name, const h5l_params& params, std::span<const Bits<T>> values,
                 std::span<const Bits<T>> decoded, std::span<const Bits<T>> again) {
  check_promise<T>(name, params, values, again);
  for (std::size_t i = 0; i < values.size(); ++i) {
    CHECK(again[i] == decoded[i] || decoded[i] == values[i],
          "%s: value %zu of %zu is 0x%" PRIx64 ", came back as 0x%" PRIx64 ", and then as 0x%" PRIx64, name, i,
          values.size(), std::uint64_t{values[i]}, std::uint64_t{decoded[i]}, std::uint64_t{again[i]});
  }
}

}  // namespace h5lossy::test

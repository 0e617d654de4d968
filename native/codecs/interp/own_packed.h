// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The lattice of unpacked values, k·h + c: finds step and offset from some of the values. The rules are in
// docs/design/interp-encoder.md, "The step of the data".
#pragma once

#include "codecs/interp/format.h"
#include "codecs/interp/own_samples.h"

namespace h5lossy::H5L_TARGET::interp {

inline constexpr u32 kFitPlaces = 2048;
inline constexpr u32 kLeastFitted = 64;  // the least number of ordinary values that is conclusive
// Of the fitted values, this many may be near no point: half as many again as is_worth_it allows in a chunk.
H5L_FN bool are_too_many(u32 far, u32 fitted) { return 32 * far > fitted; }

// A zero may be a mask value that happens to be near a point.
template <class T>
H5L_FN bool may_be_packed(const Quantizer& quantizer, Word<T> bits) {
  return is_ordinary<T>(quantizer, bits) && (bits & ~kSignBit<T>) != 0;
}

// Values as points of a lattice that contains the largest sample.
struct PackedLine {
  double origin, step;  // of 24 bits, so that its multiples are exact
  double steps;         // number of steps in the longest distance
  double rest_of_step;
  double reach;

  // `rest` is how much farther a value is from the origin than `number` steps. False if it is near no point.
  H5L_FN bool find(double x, double& number, double& rest) const {
    const double distance = subtract(x, origin), back = subtract(x, distance);
    const double rounding = add(subtract(x, add(distance, back)), subtract(back, origin));
    number = steps_of(distance, step);
    rest = add(subtract(distance, multiply(number, step)), rounding);
    return magnitude(subtract(rest, multiply(number, rest_of_step))) <= reach;
  }
};

// `rounding` is how far values may be off before they are rounded.
H5L_FN PackedLine packed_line(const OwnSamples& samples, double step, double rounding) {
  const double longest = samples.count < 2 ? 0 : samples.numbers[samples.count - 2];
  const double short_step = static_cast<double>(static_cast<float>(step));
  const double steps = short_step == 0 ? 0 : steps_of(longest, short_step);
  return {samples.largest, short_step, steps, subtract(step, short_step), 8 * add(samples.half_ulp, rounding)};
}

// The corrections (a, b) of step and offset with which the points of values are rounded to the values. They form a
// convex polygon, since each value allows the corrections between two parallel lines.
struct Corrections {
  static constexpr u32 kMost = 24;
  double a[kMost], b[kMost];
  u32 count;
  double least_number, greatest_number;

  // Keeps the corrections with sign·(t·a + b - limit) >= 0; all if there are none.
  H5L_FN void cut(double t, double limit, double sign) {
    double heights[kMost];
    u32 below = 0;
    for (u32 i = 0; i < count; ++i) {
      heights[i] = multiply(sign, subtract(add(multiply(t, a[i]), b[i]), limit));
      below += heights[i] < 0 ? 1 : 0;
    }
    if (below == 0 || below == count || count == kMost) return;
    const Corrections before = *this;
    count = 0;
    for (u32 i = 0; i < before.count; ++i) {
      const u32 next = i + 1 == before.count ? 0 : i + 1;
      if (heights[i] >= 0) push(before.a[i], before.b[i]);
      if ((heights[i] < 0) == (heights[next] < 0)) continue;
      const double part = heights[i] / subtract(heights[i], heights[next]);
      push(add(before.a[i], multiply(part, subtract(before.a[next], before.a[i]))),
           add(before.b[i], multiply(part, subtract(before.b[next], before.b[i]))));
    }
  }

  H5L_FN double mean(const double (&numbers)[kMost]) const {
    double sum = 0;
    for (u32 i = 0; i < count; ++i) sum = add(sum, numbers[i]);
    return sum / count;
  }

 private:
  H5L_FN void push(double new_a, double new_b) {
    if (count == kMost) return;
    a[count] = new_a;
    b[count++] = new_b;
  }
};

// `bits_at(i)` returns bits of a value of the chunk. Returns none if few values may be packed, or too many are near no
// point.
template <class T, class F>
H5L_FN Corrections fit(const Quantizer& quantizer, const PackedLine& line, double rounding, u64 count, F bits_at) {
  const double a = multiply(line.rest_of_step, line.steps), b = line.reach;
  Corrections all = {{a - b, a + b, a + b, a - b}, {-b, -b, b, b}, 4, 0, 0};
  u32 fitted = 0, far = 0;
  for (u32 n = 1; n <= kFitPlaces; ++n) {
    const Word<T> bits = bits_at(sample_place(n, count));
    if (!may_be_packed<T>(quantizer, bits)) continue;
    ++fitted;
    const T x = bit_cast<T>(bits);
    double number, rest;
    if (!line.find(static_cast<double>(x), number, rest)) {
      if (are_too_many(++far, kFitPlaces)) return {};
      continue;
    }
    const double half = add(half_ulp(x), rounding);
    all.cut(number / line.steps, add(rest, half), -1);
    all.cut(number / line.steps, subtract(rest, half), 1);
    all.least_number = number < all.least_number ? number : all.least_number;
    all.greatest_number = number > all.greatest_number ? number : all.greatest_number;
  }
  return fitted < kLeastFitted || are_too_many(far, fitted) ? Corrections{} : all;
}

// Packed values that were computed as doubles and then rounded to float: step and offset must be accurate to a small
// fraction of this rounding.
template <class T, class F>
H5L_FN OwnLattice fitted_lattice(const Quantizer& quantizer, const OwnSamples& samples, double step, u64 count,
                                 F bits_at) {
  const PackedLine line = packed_line(samples, step, 0);
  if (sizeof(T) != 4 || line.steps < 1) return {};
  const Corrections all = fit<T>(quantizer, line, 0, count, bits_at);
  if (all.count == 0) return {};
  return {1 / add(line.step, all.mean(all.a) / line.steps), add(line.origin, all.mean(all.b))};
}

// ---------------------------------------------------------------------------------------------------------------------
// Packed values that were rounded twice, fl(fl(k·h) + c): h and c must be the exact numbers, and k counts from c. So
// each candidate step is tried with every number that the largest sample can have; each value then narrows the range of
// c.

inline constexpr u32 kProductSteps = 9;
inline constexpr double kLeastPacked = -32768, kMostPacked = 65535;  // 16 bits, with a sign or without
inline constexpr u32 kProductPlaces = 8192;
inline constexpr u32 kNumbersAtOnce = 512;
inline constexpr u64 kMostLooks = u64{1} << 22;  // at samples, for all numbers together
inline constexpr u32 kChecked = 4;               // number of samples between checks

template <class T>
struct Products {
  PackedLine line;
  T middle, low, high;  // steps
  double first, last;   // numbers of the largest sample

  H5L_FN bool exist() const { return line.steps >= 1 && first <= last; }
  // The steps from the middle outwards; 0 if there is none.
  H5L_FN T step(u32 i) const {
    const Word<T> bits = bit_cast<Word<T>>(middle), away = (i + 1) / 2;
    const T step = bit_cast<T>(static_cast<Word<T>>(i % 2 != 0 ? bits + away : bits - away));
    return step >= low && step <= high ? step : T{0};
  }
};

template <class T, class F>
H5L_FN Products<T> products(const Quantizer& quantizer, const OwnSamples& samples, double step, u64 count, F bits_at) {
  const double rounding = half_ulp(static_cast<T>(multiply(-kLeastPacked, step)));
  Products<T> found = {packed_line(samples, step, rounding), 0, 0, 0, 0, -1};
  if (found.line.steps < 1) return found;
  const Corrections all = fit<T>(quantizer, found.line, rounding, count, bits_at);
  if (all.count == 0) return found;
  const auto step_of = [&](double a) { return static_cast<T>(add(found.line.step, a / found.line.steps)); };
  found.middle = found.low = found.high = step_of(all.mean(all.a));
  for (u32 i = 0; i < all.count; ++i) {
    const T corner = step_of(all.a[i]);
    found.low = corner < found.low ? corner : found.low;
    found.high = corner > found.high ? corner : found.high;
  }
  found.first = subtract(kLeastPacked, all.least_number);
  found.last = subtract(kMostPacked, all.greatest_number);
  return found;
}

// The range of c: from `low` to `high`, both relative to `start`.
struct OffsetRange {
  double start, low, high;
};

// The range that follows from the largest sample alone, if it has this number.
template <class T>
H5L_FN OffsetRange offset_range(double largest, T step, double number) {
  return {subtract(largest, static_cast<double>(multiply(static_cast<T>(number), step))), -0x1p1000, 0x1p1000};
}

// Intersects the range with what a value that has this number allows.
template <class T>
H5L_FN void narrow(OffsetRange& range, double x, double half, T step, double number) {
  const double product = static_cast<double>(multiply(static_cast<T>(number), step));
  const double difference = subtract(x, product), back = subtract(x, difference);
  const double rounding = add(subtract(x, add(difference, back)), subtract(back, product));
  const double middle = add(subtract(difference, range.start), rounding);
  const double low = subtract(middle, half), high = add(middle, half);
  range.low = low > range.low ? low : range.low;
  range.high = high < range.high ? high : range.high;
}

// Half the width of the interval that is rounded to a value. If the value is odd, two points halfway to its neighbours
// do not belong to it.
template <class T>
H5L_FN double half_of(T x) {
  const double half = half_ulp(x);
  return (bit_cast<Word<T>>(x) & 1) != 0 ? multiply(half, 1 - 0x1p-26) : half;
}

template <class T>
H5L_FN T offset_of(const OffsetRange& range) {
  return static_cast<T>(add(range.start, add(range.low, range.high) / 2));
}
template <class T>
H5L_FN bool has_offset(const OffsetRange& range) {
  const double offset = subtract(static_cast<double>(offset_of<T>(range)), range.start);
  return offset >= range.low && offset <= range.high;
}

// Calls visit(x, half, number) for each sample near a point, and check() after every few, which may stop the loop.
template <class T, class F, class V, class C>
H5L_FN void visit_packed(const Quantizer& quantizer, const PackedLine& line, u64 count, F bits_at, V visit, C check) {
  for (u32 n = 1; n <= kProductPlaces; ++n) {
    const Word<T> bits = bits_at(sample_place(n, count));
    double number, rest;
    const T x = bit_cast<T>(bits);
    if (may_be_packed<T>(quantizer, bits) && line.find(static_cast<double>(x), number, rest)) {
      visit(static_cast<double>(x), half_of(x), number);
    }
    if (n % kChecked == 0 && !check()) return;
  }
}

#if !defined(__CUDACC__)
// The first step that has a c for all samples, and the least number for which it has one.
template <class T, class F>
OwnLattice product_lattice(const Quantizer& quantizer, const Products<T>& found, u64 count, F bits_at) {
  constexpr u32 some = kNumbersAtOnce;
  u64 looks = 0;
  if (!found.exist()) return {};
  for (u32 i = 0; i < kProductSteps; ++i) {
    const T step = found.step(i);
    if (step == 0) continue;
    for (double first = found.first; first <= found.last; first += some) {
      double numbers[some], starts[some], lows[some], highs[some];
      u32 left = 0;
      for (; left < some && first + left <= found.last; ++left) {
        const OffsetRange range = offset_range(found.line.origin, step, first + left);
        numbers[left] = first + left;
        starts[left] = range.start;
        lows[left] = range.low;
        highs[left] = range.high;
      }
      const auto visit = [&](double x, double half, double number) {
        for (u32 k = 0; k < left; ++k) {
          OffsetRange range = {starts[k], lows[k], highs[k]};
          narrow(range, x, half, step, numbers[k] + number);
          lows[k] = range.low;
          highs[k] = range.high;
        }
      };
      const auto check = [&] {
        looks += kChecked * left;
        Word<double> are_left[some];
        for (u32 k = 0; k < left; ++k) are_left[k] = has_offset<T>({starts[k], lows[k], highs[k]}) ? 1 : 0;
        u32 kept = 0;
        for (u32 k = 0; k < left; ++k) {
          numbers[kept] = numbers[k];
          starts[kept] = starts[k];
          lows[kept] = lows[k];
          highs[kept] = highs[k];
          kept += static_cast<u32>(are_left[k]);
        }
        left = kept;
        return left != 0;
      };
      visit_packed<T>(quantizer, found.line, count, bits_at, visit, check);
      if (left != 0)
        return {-static_cast<double>(step), static_cast<double>(offset_of<T>({starts[0], lows[0], highs[0]}))};
      if (looks > kMostLooks) return {};
    }
  }
  return {};
}
#endif

}  // namespace h5lossy::H5L_TARGET::interp

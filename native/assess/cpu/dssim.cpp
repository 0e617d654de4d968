// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Data SSIM of a slice (Baker, Pinard, Hammerling 2024, doi 10.1109/TVCG.2023.3332843), with the settings of ldcpy:
// values as 256 levels, means by a Gaussian of 11 x 11 points. Each row of a cell is read once, into a ring.

#include "assess/cpu/lanes.h"
#include "assess/kernels.h"

namespace h5lossy::H5L_TARGET {
namespace {

using assess::kDssimColumns;
using assess::kDssimTaps;
using assess::Rules;
using assess::View;

constexpr double kSteps = 255;
constexpr u32 kReach = kDssimTaps / 2;
constexpr u32 kStride = kDssimColumns + kSumLanes;  // holds the columns of a cell and those around them
static_assert(kDssimTaps - 1 <= kSumLanes && kDssimColumns % kSumLanes == 0);

// exp(-k^2 / (2 1.5^2)) for k = 0 to 5, over the sum for k = -5 to 5.
constexpr double kGaussian[kReach + 1] = {0.26601172486179436, 0.2130055377112537,   0.10936068950970002,
                                          0.03600077212843083, 0.007598758135239185, 0.00102838008447911};

// The quantities whose means are taken: levels of both fields, their squares, their product, and validity.
enum Quantity : u32 { kOriginal, kDecoded, kSquares, kProduct, kValid, kQuantities };
struct Levels {
  alignas(64) double of[kQuantities][kStride];
  bool all_valid;
};

// Values of a row, 0 beyond its end, and whether each is valid.
template <class T>
void read_both(const View& view, const Rules& rules, const u64* at, u32 count, double* x, double* y, double* valid) {
  read_row<T>(address(view.original, view.original_strides, at, view.origin), rules.original_big_endian, count, x);
  read_row<T>(address(view.decoded, view.decoded_strides, at, view.origin), rules.decoded_big_endian, count, y);
  const u8* const mask = view.mask == nullptr ? nullptr : address(view.mask, view.mask_strides, at, view.origin);
  for (u32 i = 0; i < count; ++i) valid[i] = mask == nullptr || mask[i] == 0 ? 1 : 0;
  for (u32 i = count; i < padded(count); ++i) x[i] = y[i] = valid[i] = 0;
  const double fill = fill_of<T>(rules);
  for (u32 i = 0; i < count; i += kDoubles) {
    const Vector<double> one = load_doubles(valid + i);
    store_doubles(valid + i, counted(load_doubles(x + i), load_doubles(y + i), one, fill) ? one : Vector<double>{});
  }
}

void read_both(u32 value_bytes, const View& view, const Rules& rules, const u64* at, u32 count, double* x, double* y,
               double* valid) {
  (value_bytes == sizeof(float) ? read_both<float> : read_both<double>)(view, rules, at, count, x, y, valid);
}

// The nearest of the levels that 255 steps from `low` to low + range make.
Vector<double> level_of(Vector<double> value, double low, double range) {
  constexpr double kRounder = 0x1.8p52;  // the sum with it is an integer
  return (value - low) / range * kSteps + kRounder - kRounder;
}

// Replaces values by levels, and adds the quantities that follow from them.
void set_levels(double low, double range, u32 count, Levels& row) {
  constexpr Vector<double> none = {};
  row.all_valid = true;
  for (u32 i = 0; i < padded(count); i += kDoubles) {
    const Vector<double> valid = load_doubles(row.of[kValid] + i);
    const auto level = [&](u32 which) {
      return valid != 0.0 ? level_of(load_doubles(row.of[which] + i), low, range) : none;
    };
    const Vector<double> a = level(kOriginal), b = level(kDecoded);
    store_doubles(row.of[kOriginal] + i, a);
    store_doubles(row.of[kDecoded] + i, b);
    store_doubles(row.of[kSquares] + i, fused_multiply_add(a, a, b * b));
    store_doubles(row.of[kProduct] + i, a * b);
    const Vector<double> least = columns_below(count, i, valid, none + 1.0);
    for (u32 k = 0; k < kDoubles; ++k) row.all_valid = row.all_valid & (least[k] != 0);
  }
}

// The Gaussian mean of 11 vectors.
template <class At>
H5L_INLINE Vector<double> smooth(At at) {
  Vector<double> sum = kGaussian[0] * at(kReach);
#pragma GCC unroll 5
  for (u32 k = 1; k <= kReach; ++k) {
    sum = fused_multiply_add(Vector<double>{} + kGaussian[k], at(kReach - k) + at(kReach + k), sum);
  }
  return sum;
}

// Adds the data SSIM at the points in the middle of 11 rows. `columns` excludes the points around.
template <bool kAllValid>
void add_scores(const Levels* const (&rows)[kDssimTaps], u32 columns, Levels& means, Lanes& sum, Lanes& points) {
  constexpr Vector<double> none = {};
  constexpr double kC = 1e-8 * kSteps * kSteps;
  constexpr u32 kUsed = kAllValid ? kValid : kQuantities;
  for (u32 i = 0; i < padded(columns + kDssimTaps - 1); i += kDoubles) {
#pragma GCC unroll 5
    for (u32 q = 0; q < kUsed; ++q) {
      store_doubles(means.of[q] + i, smooth([&](u32 k) { return load_doubles(rows[k]->of[q] + i); }));
    }
  }
  for (u32 i = 0; i < columns; i += kDoubles) {
    Vector<double> mean[kQuantities];
#pragma GCC unroll 5
    for (u32 q = 0; q < kUsed; ++q) {
      mean[q] = smooth([&](u32 k) { return load_doubles(means.of[q] + i + k); });
    }
    Vector<double> valid = columns_below(columns, i, none + 1.0);
    if constexpr (!kAllValid) {
      valid *= load_doubles(rows[kReach]->of[kValid] + i + kReach);
      for (u32 q = 0; q < kValid; ++q) mean[q] /= mean[kValid];
    }
    const Vector<double> product = mean[kOriginal] * mean[kDecoded];
    const Vector<double> squares = mean[kOriginal] * mean[kOriginal] + mean[kDecoded] * mean[kDecoded];
    const Vector<double> top = (2.0 * product + kC) * (2.0 * (mean[kProduct] - product) + kC);
    const Vector<double> score = top / ((squares + kC) * (mean[kSquares] - squares + kC));
    double* const lane = sum.lane + i % kSumLanes;
    store_doubles(lane, load_doubles(lane) + (valid != 0.0 ? score : none));
    double* const counted = points.lane + i % kSumLanes;
    store_doubles(counted, load_doubles(counted) + valid);
  }
}

}  // namespace

void range(u32 value_bytes, const View& view, const Rules& rules, const u64 row[4], u64 count,
           h5l_assess_slice& slice) {
  alignas(64) double both[2][kStride];
  alignas(64) double valid[kStride];
  Vector<double> low = Vector<double>{} + slice.low, high = Vector<double>{} + slice.high;
  u64 at[4] = {row[0], row[1], row[2], row[3]};
  for (u64 end = row[3] + count; at[3] < end; at[3] += kDssimColumns) {
    const u32 columns = static_cast<u32>(end - at[3] < kDssimColumns ? end - at[3] : kDssimColumns);
    read_both(value_bytes, view, rules, at, columns, both[kOriginal], both[kDecoded], valid);
    for (u32 i = 0; i < columns; i += kDoubles) {
      const Vector<double> counts = load_doubles(valid + i);
      for (u32 q = kOriginal; q <= kDecoded; ++q) {
        const Vector<double> value = load_doubles(both[q] + i);
        low = smaller(counts != 0.0 ? value : low, low);
        high = larger(counts != 0.0 ? value : high, high);
      }
    }
  }
  slice.low = smallest(low);
  slice.high = largest(high);
}

void dssim(u32 value_bytes, const View& view, const Rules& rules, const u64 first[4], u32 rows, u32 columns,
           h5l_assess_slice& slice) {
  Levels ring[kDssimTaps], means = {};
  Lanes sum, points;
  u64 at[4] = {first[0], first[1], first[2], first[3]};
  for (u32 read = 0; read < rows + kDssimTaps - 1; ++read, ++at[2]) {
    Levels& row = ring[read % kDssimTaps];
    const u32 count = columns + kDssimTaps - 1;
    read_both(value_bytes, view, rules, at, count, row.of[kOriginal], row.of[kDecoded], row.of[kValid]);
    set_levels(slice.low, slice.high - slice.low, count, row);
    if (read < kDssimTaps - 1) continue;
    const Levels* ordered[kDssimTaps];
    bool all_valid = true;
    for (u32 k = 0; k < kDssimTaps; ++k) {
      ordered[k] = &ring[(read + 1 + k) % kDssimTaps];
      all_valid = all_valid && ordered[k]->all_valid;
    }
    (all_valid ? add_scores<true> : add_scores<false>)(ordered, columns, means, sum, points);
  }
  slice.sum = total(sum);
  slice.points = static_cast<u64>(total(points));
}

}  // namespace h5lossy::H5L_TARGET

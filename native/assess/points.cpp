// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Reductions over all points in one sweep (pattern I): special values, extrema, moments, histograms, and the bound in
// exact arithmetic.

#include <math.h>

#include "assess/kernels.h"
#include "assess/lanes.h"
#include "assess/values.h"

namespace h5lossy::H5L_TARGET {
namespace {

using assess::kFinestGrid;
using assess::kFirstLinear;
using assess::kLeafValues;
using assess::kLinearBins;
using assess::kNoGrid;
using assess::kWidestGrid;
using assess::log_bin_of;
using assess::Moments;
using assess::PointsPart;

// Values that are turned into float64 at a time; these copies stay in the nearest cache.
constexpr u32 kStripe = 256;

struct Stripe {
  alignas(64) double x[kStripe], e[kStripe], from_pivot_x[kStripe], from_pivot_e[kStripe], pointwise[kStripe];
  alignas(64) i32 bin[kStripe];
};

// Sums of a leaf, about its pivots.
struct LeafSums {
  Lanes x, xx, e, ee, xe, abs_e, pointwise;
};

// Whether every point of a leaf is valid and none became the fill value.
template <class T>
bool is_plain(const T* x, const T* y, u32 count, const h5l_assess_params& params) {
  const auto* const of_x = reinterpret_cast<const Word<T>*>(x);
  const auto* const of_y = reinterpret_cast<const Word<T>*>(y);
  const Word<T> fill = params.has_fill != 0 ? static_cast<Word<T>>(params.fill_bits) : kExponent<T>;
  Word<T> found = 0;
  for (u32 i = 0; i < count; ++i) {
    Word<T> a;
    Word<T> b;
    memcpy(&a, of_x + i, sizeof a);
    memcpy(&b, of_y + i, sizeof b);
    const bool special =
        ((a & kExponent<T>) == kExponent<T>) | ((b & kExponent<T>) == kExponent<T>) | (a == fill) | (b == fill);
    found |= static_cast<Word<T>>(special);
  }
  return found == 0;
}

void count_special(PointsPart& part, u32 kind, u64 at) {
  if (part.special[kind]++ == 0) part.special_first[kind] = at;
}

// Copies the valid points of a leaf and their numbers in the leaf, and counts the others. Returns how many there are.
template <class T>
u32 keep_valid(const h5l_assess_params& params, u64 first, const T* x, const T* y, const u8* mask, u32 count,
               T* valid_x, T* valid_y, u16* number, PointsPart& part) {
  u32 kept = 0;
  for (u32 i = 0; i < count; ++i) {
    if (mask != nullptr && mask[i] != 0) {
      ++part.masked;
      continue;
    }
    const Word<T> a = bit_cast<Word<T>>(x[i]);
    const Word<T> b = bit_cast<Word<T>>(y[i]);
    const u32 kind = kind_of<T>(a, b, params);
    // As the format has it, other values may turn into a fill value of +0.0.
    const bool is_fill = params.has_fill != 0 && a == params.fill_bits;
    if (params.has_fill != 0 && params.fill_bits != 0 && !is_fill && b == params.fill_bits && is_finite<T>(a)) {
      count_special(part, H5L_SPECIAL_FILL_MADE, first + i);
    }
    if (kind != H5L_SPECIAL_KINDS) {
      count_special(part, kind, first + i);
      continue;
    }
    valid_x[kept] = x[i];
    valid_y[kept] = y[i];
    number[kept] = static_cast<u16>(i);
    ++kept;
  }
  return kept;
}

// Makes the bins of a grid wide enough for errors up to `most` in size: two bins become one each time, and the lowest
// ones logarithmic.
void widen_grid(PointsPart& part, double most) {
  if (!(most > 0)) return;
  int exponent = kWidestGrid + 7;
  if (most < HUGE_VAL) static_cast<void>(frexp(most, &exponent));  // most < 2^exponent
  i32 wanted = exponent - 7;                                       // 128 bins for each sign
  wanted = wanted < kFinestGrid ? kFinestGrid : wanted > kWidestGrid ? kWidestGrid : wanted;
  if (part.grid_exponent == kNoGrid) part.grid_exponent = wanted;  // errors of 0 are in a logarithmic bin
  for (; part.grid_exponent < wanted; ++part.grid_exponent) {
    for (auto& bins : part.bins) {
      for (u32 sign = 0; sign < 2; ++sign) {
        u32* const linear = bins + sign * 128;
        u32* const log = bins + kLinearBins + sign * 2048;
        for (u32 i = kFirstLinear; i < 2 * kFirstLinear; ++i) log[log_bin_of(part.grid_exponent, i)] += linear[i];
        for (u32 i = 0; i < 64; ++i) linear[i] = i < kFirstLinear ? 0 : linear[2 * i] + linear[2 * i + 1];
        for (u32 i = 64; i < 128; ++i) linear[i] = 0;
      }
    }
  }
}

// Values of the next leaf, while this one is summed. They may be behind the end: nothing is read.
template <class T>
void prefetch(const T* values, u32 count) {
  const auto* const bytes = reinterpret_cast<const u8*>(values);
  for (u32 at = 0; at < count * sizeof(T); at += 64) __builtin_prefetch(bytes + at);
}

// One stripe as float64, in whole groups of lanes; what is behind `count` adds nothing.
template <class T>
void fill_stripe(const T* x, const T* y, u32 count, double pivot_x, double pivot_e, Stripe& s) {
  for (u32 i = 0; i < count; ++i) {
    const double a = static_cast<double>(x[i]);
    const double e = static_cast<double>(y[i]) - a;
    s.x[i] = a;
    s.e[i] = e;
    s.from_pivot_x[i] = a - pivot_x;
    s.from_pivot_e[i] = e - pivot_e;
    s.pointwise[i] = a == 0 ? 0 : fabs(e) / fabs(a);
  }
  for (u32 i = count; i < padded(count); ++i) {
    s.x[i] = s.e[i] = s.from_pivot_x[i] = s.from_pivot_e[i] = s.pointwise[i] = 0;
  }
}

void sum_stripe(const Stripe& s, u32 count, LeafSums& sums) {
  const u32 n = padded(count);
  add_lanes<2>(n, &sums.x, [&](u32 i, Vector<double>* terms) {
    terms[0] = load_doubles(s.from_pivot_x + i);
    terms[1] = terms[0] * terms[0];
  });
  add_lanes<2>(n, &sums.e, [&](u32 i, Vector<double>* terms) {
    terms[0] = load_doubles(s.from_pivot_e + i);
    terms[1] = terms[0] * terms[0];
  });
  add_lanes<3>(n, &sums.xe, [&](u32 i, Vector<double>* terms) {
    terms[0] = load_doubles(s.from_pivot_x + i) * load_doubles(s.from_pivot_e + i);
    terms[1] = magnitude(load_doubles(s.e + i));
    terms[2] = load_doubles(s.pointwise + i);
  });
}

struct Extrema {
  double x_min, x_max, e_min, e_max, y_min, y_max, e_min_abs, pointwise_min, pointwise_max;
};

template <class T>
void find_extrema(const T* y, u32 count, Stripe& s, Extrema& found) {
  for (u32 i = 1; i < kDoubles && count % kDoubles != 0; ++i) {  // repeat the last value up to a whole vector
    if (count - 1 + i >= kStripe) break;
    s.x[count - 1 + i] = s.x[count - 1];
    s.e[count - 1 + i] = s.e[count - 1];
    s.pointwise[count - 1 + i] = s.pointwise[count - 1];
  }
  using V = Vector<double>;
  const V zero = {};
  V x_min = zero + found.x_min, x_max = zero + found.x_max, e_min = zero + found.e_min, e_max = zero + found.e_max;
  V abs_min = zero + found.e_min_abs, p_max = zero + found.pointwise_max, p_min = zero + found.pointwise_min;
  for (u32 i = 0; i < count; i += kDoubles) {
    const V a = load_doubles(s.x + i);
    const V e = load_doubles(s.e + i);
    const V p = load_doubles(s.pointwise + i);
    x_min = smaller(a, x_min);
    x_max = larger(a, x_max);
    e_min = smaller(e, e_min);
    e_max = larger(e, e_max);
    abs_min = smaller(magnitude(e), abs_min);
    p_max = larger(p, p_max);
    p_min = smaller(a == 0 ? p_min : p, p_min);
  }
  T y_min = y[0];
  T y_max = y[0];
  constexpr u32 kOfType = kLanes<T>;
  if (count >= kOfType) {
    const auto take = [&](u32 i) { return load<Vector<T>>(reinterpret_cast<const u8*>(y + i)); };
    Vector<T> low = take(0);
    Vector<T> high = low;
    for (u32 i = 0; i + kOfType <= count; i += kOfType) {
      const Vector<T> v = take(i);
      low = v < low ? v : low;
      high = v > high ? v : high;
    }
    const Vector<T> last = take(count - kOfType);
    low = last < low ? last : low;
    high = last > high ? last : high;
    for (u32 i = 0; i < kOfType; ++i) {
      y_min = low[i] < y_min ? low[i] : y_min;
      y_max = high[i] > y_max ? high[i] : y_max;
    }
  } else {
    for (u32 i = 0; i < count; ++i) {
      y_min = y[i] < y_min ? y[i] : y_min;
      y_max = y[i] > y_max ? y[i] : y_max;
    }
  }
  const auto down = [](V v, double least) {
    for (u32 i = 0; i < kDoubles; ++i) least = v[i] < least ? v[i] : least;
    return least;
  };
  const auto up = [](V v, double most) {
    for (u32 i = 0; i < kDoubles; ++i) most = v[i] > most ? v[i] : most;
    return most;
  };
  found.x_min = down(x_min, found.x_min);
  found.x_max = up(x_max, found.x_max);
  found.e_min = down(e_min, found.e_min);
  found.e_max = up(e_max, found.e_max);
  found.e_min_abs = down(abs_min, found.e_min_abs);
  found.pointwise_max = up(p_max, found.pointwise_max);
  found.pointwise_min = down(p_min, found.pointwise_min);
  const double low = static_cast<double>(y_min);
  const double high = static_cast<double>(y_max);
  found.y_min = low < found.y_min ? low : found.y_min;
  found.y_max = high > found.y_max ? high : found.y_max;
}

void count_bins(Stripe& s, u32 count, PointsPart& part) {
  using Index [[gnu::vector_size(kDoubles * sizeof(i32))]] = i32;
  using V = Vector<double>;
  using Bits = Vector<i64>;
  // Without a grid nothing is in a linear bin.
  const double bins_per_unit = part.grid_exponent == kNoGrid ? 0.0 : ldexp(1.0, -part.grid_exponent);
  for (u32 i = 0; i < count; i += kDoubles) {
    const Bits bits = bit_cast<Bits>(load_doubles(s.e + i));
    V at = magnitude(load_doubles(s.e + i)) * bins_per_unit;
    at = smaller(at, V{} + 128.0);
    // Sign 1, exponent 11 and mantissa 3 bits: the exponent is made float32's.
    Bits log = ((bits >> 49) & 0x3FFF) - 896 * 8;
    log = log < 0 ? Bits{} : log;
    log = log > 2047 ? Bits{} + 2047 : log;
    log += kLinearBins + ((bits >> 52) & 2048);
    const Bits linear_base = (bits >> 56) & 128;
    const Index linear = __builtin_convertvector(at, Index) + __builtin_convertvector(linear_base, Index);
    const Index is_linear = __builtin_convertvector((at >= static_cast<double>(kFirstLinear)) & (at < 128.0), Index);
    const Index bin = is_linear ? linear : __builtin_convertvector(log, Index);
    memcpy(s.bin + i, &bin, sizeof bin);
  }
  for (u32 i = 0; i + 1 < count; i += 2) {
    ++part.bins[0][s.bin[i]];
    ++part.bins[1][s.bin[i + 1]];
  }
  if (count % 2 != 0) ++part.bins[0][s.bin[count - 1]];
}

// Lists and counts the points of a leaf that break the bound, where any may.
template <class T>
void judge(const h5l_assess_params& params, u64 first, const T* x, const T* y, const u16* number, u32 count,
           const Extrema& found, u64 zeros_changed, PointsPart& part) {
  const double most = -found.e_min > found.e_max ? -found.e_min : found.e_max;
  switch (params.bound_kind) {
    case H5L_BOUND_ABSOLUTE:
      if (most < params.limit[0]) return;
      break;
    case H5L_BOUND_POINTWISE_RELATIVE:
      // A quotient is off by a rounding or two.
      if (zeros_changed == 0 && params.limit[0] > 1e-280 && found.pointwise_max < params.limit[0] * (1 - 0x1p-50))
        return;
      break;
    case H5L_BOUND_LOSSLESS:
      break;
    default:
      return;
  }
  for (u32 i = 0; i < count; ++i) {
    if (!breaks(params, x[i], y[i])) continue;
    ++part.violations;
    if (part.listed < H5L_ASSESS_LISTED) {
      part.violation[part.listed++] = {first + (number == nullptr ? i : number[i]), static_cast<double>(x[i]),
                                       static_cast<double>(y[i])};
    }
  }
}

template <class T>
void add_valid(const h5l_assess_params& params, u64 first, const T* x, const T* y, const u16* number, u32 count,
               PointsPart& part, Moments& leaf) {
  leaf = {};
  if (count == 0) return;
  Stripe s;
  LeafSums sums;
  Extrema found{part.x_min, part.x_max,     part.e_min,         part.e_max,        part.y_min,
                part.y_max, part.e_min_abs, part.pointwise_min, part.pointwise_max};
  if (part.valid == 0) {
    const double a = static_cast<double>(x[0]);
    const double b = static_cast<double>(y[0]);
    const double e = b - a;
    found = {a, a, e, e, b, b, fabs(e), HUGE_VAL, 0.0};
  }
  Extrema own = found;  // those of the leaf decide whether the bound may be broken
  own.e_min = own.e_max = static_cast<double>(y[0]) - static_cast<double>(x[0]);
  own.pointwise_max = 0;
  const double pivot_x = static_cast<double>(x[0]);
  const double pivot_e = own.e_min;
  u64 zeros_changed = 0;
  for (u32 start = 0; start < count; start += kStripe) {
    const u32 n = count - start < kStripe ? count - start : kStripe;
    prefetch(x + start + kLeafValues, n);
    prefetch(y + start + kLeafValues, n);
    fill_stripe(x + start, y + start, n, pivot_x, pivot_e, s);
    sum_stripe(s, n, sums);
    find_extrema(y + start, n, s, own);
    u32 zeros = 0;
    u32 changed = 0;
    for (u32 i = 0; i < n; ++i) zeros += s.x[i] == 0 ? 1 : 0;
    if (zeros != 0) {
      for (u32 i = 0; i < n; ++i) changed += (s.x[i] == 0 && s.e[i] != 0) ? 1 : 0;
    }
    part.zeros += zeros;
    zeros_changed += changed;
    if (params.pointwise_threshold > 0) {
      u32 over = changed;
      for (u32 i = 0; i < n; ++i) over += s.pointwise[i] > params.pointwise_threshold ? 1 : 0;
      part.over_threshold += over;
    }
    for (u32 f = 0; f < params.flip_count; ++f) {
      u32 flipped = 0;
      const double side = params.flips[f];
      for (u32 i = 0; i < n; ++i) {
        flipped += (s.x[i] >= side) != (static_cast<double>(y[start + i]) >= side) ? 1 : 0;
      }
      part.flipped[f] += flipped;
    }
    const double most = -own.e_min > own.e_max ? -own.e_min : own.e_max;
    widen_grid(part, params.histogram_limit > 0 ? params.histogram_limit : most);
    count_bins(s, n, part);
  }
  part.zeros_changed += zeros_changed;
  judge(params, first, x, y, number, count, own, zeros_changed, part);

  const double most = -own.e_min > own.e_max ? -own.e_min : own.e_max;
  if (part.valid == 0 || most > fabs(part.worst.decoded - part.worst.original)) {
    for (u32 i = 0; i < count; ++i) {
      const double a = static_cast<double>(x[i]);
      const double b = static_cast<double>(y[i]);
      if (fabs(b - a) != most) continue;
      part.worst = {first + (number == nullptr ? i : number[i]), a, b};
      break;
    }
  }
  part.x_min = own.x_min;
  part.x_max = own.x_max;
  part.y_min = own.y_min;
  part.y_max = own.y_max;
  part.e_min = own.e_min < found.e_min ? own.e_min : found.e_min;
  part.e_max = own.e_max > found.e_max ? own.e_max : found.e_max;
  part.e_min_abs = own.e_min_abs;
  part.pointwise_min = own.pointwise_min;
  part.pointwise_max = own.pointwise_max > found.pointwise_max ? own.pointwise_max : found.pointwise_max;
  part.valid += count;

  const double n = count;
  const double x_off = total(sums.x) / n;
  const double e_off = total(sums.e) / n;
  const double xx = total(sums.xx) - x_off * x_off * n;
  const double ee = total(sums.ee) - e_off * e_off * n;
  leaf.count = n;
  leaf.mean_x = pivot_x + x_off;
  leaf.mean_e = pivot_e + e_off;
  leaf.squares_x = xx > 0 ? xx : 0;
  leaf.squares_e = ee > 0 ? ee : 0;
  leaf.products = total(sums.xe) - x_off * e_off * n;
  leaf.sum_abs_error = total(sums.abs_e);
  leaf.sum_pointwise = total(sums.pointwise);
}

template <class T>
void add_leaves(const h5l_assess_params& params, u64 first, const T* x, const T* y, const u8* mask, u32 count,
                PointsPart& part) {
  for (u32 start = 0; start < count; start += kLeafValues) {
    const u32 n = count - start < kLeafValues ? count - start : kLeafValues;
    Moments& leaf = part.leaves[part.leaf_count++];
    if (mask == nullptr && is_plain(x + start, y + start, n, params)) {
      add_valid<T>(params, first + start, x + start, y + start, nullptr, n, part, leaf);
      continue;
    }
    T valid_x[kLeafValues];
    T valid_y[kLeafValues];
    u16 number[kLeafValues];
    const u32 kept = keep_valid(params, first + start, x + start, y + start, mask == nullptr ? nullptr : mask + start,
                                n, valid_x, valid_y, number, part);
    add_valid<T>(params, first + start, valid_x, valid_y, number, kept, part, leaf);
  }
}

void points(const h5l_assess_params& params, u64 first, const void* x, const void* y, const u8* mask, u32 count,
            PointsPart& part) {
  if (params.value_bytes == 4) {
    add_leaves(params, first, static_cast<const float*>(x), static_cast<const float*>(y), mask, count, part);
  } else {
    add_leaves(params, first, static_cast<const double*>(x), static_cast<const double*>(y), mask, count, part);
  }
}

// A segment of a row, all of it in one box. Eight lanes: a box may be narrow.
template <class T>
void add_segment(const assess::View& view, const assess::Rules& rules, const u64* at, u32 count, h5l_assess_box& box) {
  constexpr u32 kBoxLanes = 8;
  const u8* const original = address(view.original, view.original_strides, at, view.origin);
  const u8* const decoded = address(view.decoded, view.decoded_strides, at, view.origin);
  const u8* const mask = view.mask == nullptr ? nullptr : address(view.mask, view.mask_strides, at, view.origin);
  double squares[kBoxLanes] = {};
  double most[kBoxLanes] = {};
  u64 valid = 0;
  const auto add = [&](u32 i, double x, double y) {
    const double size = fabs(y - x);
    squares[i % kBoxLanes] += size * size;
    most[i % kBoxLanes] = size > most[i % kBoxLanes] ? size : most[i % kBoxLanes];
    ++valid;
  };
  const bool plain = rules.all_valid && !rules.original_big_endian && !rules.decoded_big_endian;
  u32 i = 0;
  if (plain) {
    for (; i + kBoxLanes <= count; i += kBoxLanes) {
      for (u32 k = 0; k < kBoxLanes; ++k) {
        const double size = fabs(static_cast<double>(load<T>(decoded + (i + k) * sizeof(T))) -
                                 static_cast<double>(load<T>(original + (i + k) * sizeof(T))));
        squares[k] += size * size;
        most[k] = size > most[k] ? size : most[k];
      }
    }
    valid += i;
  }
  h5l_assess_params params = {};
  params.has_fill = rules.has_fill ? 1 : 0;
  params.fill_bits = rules.fill_bits;
  for (; i < count; ++i) {
    if (mask != nullptr && mask[i] != 0) continue;
    const Word<T> x = word_at<T>(original, i, rules.original_big_endian);
    const Word<T> y = word_at<T>(decoded, i, rules.decoded_big_endian);
    const u32 kind = kind_of<T>(x, y, params);
    if (kind != H5L_SPECIAL_KINDS) {
      box.special_failures +=
          kind != H5L_SPECIAL_NAN_KEPT && kind != H5L_SPECIAL_INF_KEPT && kind != H5L_SPECIAL_FILL_KEPT ? 1 : 0;
      continue;
    }
    if (rules.has_fill && rules.fill_bits != 0 && y == rules.fill_bits) ++box.special_failures;
    add(i, static_cast<double>(bit_cast<T>(x)), static_cast<double>(bit_cast<T>(y)));
  }
  for (u32 width = kBoxLanes / 2; width != 0; width /= 2) {
    for (u32 k = 0; k < width; ++k) {
      squares[k] += squares[k + width];
      most[k] = most[k + width] > most[k] ? most[k + width] : most[k];
    }
  }
  box.valid += valid;
  box.error_squares += squares[0];
  box.error_max_abs = most[0] > box.error_max_abs ? most[0] : box.error_max_abs;
}

void boxes(u32 value_bytes, const assess::View& view, const assess::Rules& rules, const u64 row[4], u64 count,
           u64 box_columns, h5l_assess_box* boxes) {
  u64 at[4] = {row[0], row[1], row[2], row[3]};
  const u64 end = row[3] + count;
  while (at[3] < end) {
    const u64 box = at[3] / box_columns;
    const u64 most = (box + 1) * box_columns < end ? (box + 1) * box_columns : end;
    const u64 longest = at[3] + 0x40000000u;
    const u64 stop = most < longest ? most : longest;
    const u32 n = static_cast<u32>(stop - at[3]);
    if (value_bytes == 4) {
      add_segment<float>(view, rules, at, n, boxes[box]);
    } else {
      add_segment<double>(view, rules, at, n, boxes[box]);
    }
    at[3] = stop;
  }
}

}  // namespace

extern const assess::Kernels assess_kernels;

extern bool stencils(u32 value_bytes, const assess::View& view, const assess::Rules& rules,
                     const assess::FieldPlan& plan, const assess::Column& column, assess::StencilCell* cells);
extern bool windows(u32 value_bytes, const assess::View& view, const assess::Rules& rules,
                    const assess::FieldPlan& plan, const assess::Column& column, assess::WindowCell* cells);

const assess::Kernels assess_kernels = {points, stencils, windows, boxes};

}  // namespace h5lossy::H5L_TARGET

// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Reductions over all points in one sweep (pattern I): special values, extrema, moments, histograms, and the bound in
// exact arithmetic.

#include <math.h>

#include <utility>

#include "assess/cpu/lanes.h"
#include "assess/cpu/point_sums.h"
#include "assess/kernels.h"
#include "assess/values.h"

namespace h5lossy::H5L_TARGET {
namespace {

// Fills in the table of a part, and clears the counters. The bins' width is chosen for errors of up to `most` in size.
void make_table(Counters& counters, double most, PointsPart& part) {
  if (most > 0) {
    int exponent = kWidestGrid + 7;
    if (most < HUGE_VAL) static_cast<void>(frexp(most, &exponent));  // most < 2^exponent
    const i32 wanted = exponent - 7;                                 // 128 bins for each sign
    part.grid_exponent = wanted < kFinestGrid ? kFinestGrid : wanted > kWidestGrid ? kWidestGrid : wanted;
  }
  for (u32 sign = 0; sign < 2; ++sign) {
    u32* const linear = part.bins + sign * 128;
    u32* const log = part.bins + kLinearBins + sign * (H5L_ASSESS_LOG_BINS / 2);
    for (u32 octave = 0; octave < 256; ++octave) {
      u32* const from[2] = {counters.count[0] + sign * kCounters + octave * kCountersOfOctave,
                            counters.count[1] + sign * kCounters + octave * kCountersOfOctave};
      u32 count[kCountersOfOctave];
      u32 any = 0;
      for (u32 i = 0; i < kCountersOfOctave; ++i) any |= count[i] = from[0][i] + from[1][i];
      if (any == 0) continue;
      for (u32* const own : from) memset(own, 0, sizeof count);
      // The octave begins at 2^above widths.
      const i32 above = part.grid_exponent == kNoGrid ? -1 : static_cast<i32>(octave) - 127 - part.grid_exponent;
      for (u32 i = 0; i < kCountersOfOctave; ++i) {
        if (above >= 3 && above < 7) {
          linear[(kCountersOfOctave + i) >> (6 - above)] += count[i];
        } else {
          log[octave * 8 + i / 8] += count[i];
        }
      }
    }
  }
}

// Extrema of a leaf.
struct LeafExtrema {
  double e_min, e_max, abs_min, abs_max, pointwise_min, pointwise_max;
};

LeafExtrema extrema_of(const LaneSums& sums) {
  const auto least = [](const Lanes& lanes) {
    double found = lanes.lane[0];
    for (const double value : lanes.lane) found = smaller(value, found);
    return found;
  };
  const auto most = [](const Lanes& lanes) {
    double found = lanes.lane[0];
    for (const double value : lanes.lane) found = larger(value, found);
    return found;
  };
  const double e_min = least(sums.e_min);
  const double e_max = most(sums.e_max);
  return {e_min,
          e_max,
          least(sums.abs_min),
          -e_min > e_max ? -e_min : e_max,
          least(sums.pointwise_min),
          most(sums.pointwise_max)};
}

void add_extrema(PointsPart& part, const LeafExtrema& found, double x_min, double x_max, double y_min, double y_max) {
  const bool is_first = part.valid == 0;
  const auto down = [is_first](double& least, double other) { least = is_first || other < least ? other : least; };
  const auto up = [is_first](double& most, double other) { most = is_first || other > most ? other : most; };
  down(part.original_min, x_min);
  up(part.original_max, x_max);
  down(part.decoded_min, y_min);
  up(part.decoded_max, y_max);
  down(part.error_min, found.e_min);
  up(part.error_max, found.e_max);
  down(part.error_min_abs, found.abs_min);
  down(part.pointwise_min, found.pointwise_min);
  up(part.pointwise_max, found.pointwise_max);
}

// Lists and counts the points of a leaf that violate the bound, unless the extrema show that there are none.
template <class T>
void check_bound(const h5l_assess_params& params, u64 first, const T* x, const T* y, const u16* number, u32 count,
                 const LeafExtrema& found, u64 zeros_changed, PointsPart& part) {
  const double limit = params.limit[0];
  switch (params.bound_kind) {
    case H5L_BOUND_ABSOLUTE:
      if (found.abs_max < limit) return;
      break;
    case H5L_BOUND_POINTWISE_RELATIVE:
      // The margin covers the quotients' rounding errors.
      if (zeros_changed == 0 && limit > 1e-280 && found.pointwise_max < limit * (1 - 0x1p-50)) return;
      break;
    case H5L_BOUND_LOSSLESS:
      if (memcmp(x, y, count * sizeof(T)) == 0) return;
      break;
    default:
      return;
  }
  for (u32 start = 0; start < count; start += kRun) {
    const u32 end = count - start < kRun ? count : start + kRun;
    if (params.bound_kind == H5L_BOUND_ABSOLUTE) {  // few errors are near the bound
      u64 near = 0;
      for (u32 i = start; i < end; ++i) {
        near |= static_cast<u64>(!(fabs(static_cast<double>(y[i]) - static_cast<double>(x[i])) < limit));
      }
      if (near == 0) continue;
    }
    for (u32 i = start; i < end; ++i) {
      if (!breaks(params, x[i], y[i])) continue;
      ++part.violations;
      if (part.listed < H5L_ASSESS_LISTED) {
        part.violation[part.listed++] = {first + (number == nullptr ? i : number[i]), static_cast<double>(x[i]),
                                         static_cast<double>(y[i])};
      }
    }
  }
}

template <class T>
void add_valid(const h5l_assess_params& params, u64 first, const T* x, const T* y, const Survey<T>& seen,
               const u16* number, u32 count, Counters& counters, PointsPart& part, Moments& leaf) {
  const double x0 = static_cast<double>(x[0]);
  const double e0 = static_cast<double>(y[0]) - x0;
  const Reference reference{x0, e0, params.pointwise_threshold > 0 ? params.pointwise_threshold : HUGE_VAL};
  LaneSums sums;
  for (u32 i = 0; i < kSumLanes; ++i) {
    sums.e_min.lane[i] = sums.e_max.lane[i] = e0;
    sums.abs_min.lane[i] = fabs(e0);
    sums.pointwise_min.lane[i] = HUGE_VAL;
  }
  for (u32 start = 0; start < count; start += kBlock<T>) {
    const u32 n = count - start < kBlock<T> ? count - start : kBlock<T>;
    if (seen.has_zeros) {
      add_block<true>(x + start, y + start, n, reference, sums, counters);
    } else {
      add_block<false>(x + start, y + start, n, reference, sums, counters);
    }
  }
  const LeafExtrema found = extrema_of(sums);
  u64 zeros_changed = 0;
  u64 over = 0;
  for (u32 i = 0; i < kSumLanes; ++i) {
    zeros_changed += static_cast<u64>(sums.changed[i]);
    over += static_cast<u64>(sums.over[i]);
  }
  part.zeros_changed += zeros_changed;
  if (seen.has_zeros) {
    u64 zeros = 0;
    for (u32 i = 0; i < count; ++i) zeros += x[i] == 0 ? 1 : 0;
    part.zeros += zeros;
  }
  if (params.pointwise_threshold > 0) part.over_threshold += over + zeros_changed;
  for (u32 f = 0; f < params.threshold_count; ++f) {
    const double side = params.thresholds[f];
    u32 crossings = 0;
    for (u32 i = 0; i < count; ++i) {
      crossings += (static_cast<double>(x[i]) >= side) != (static_cast<double>(y[i]) >= side) ? 1 : 0;
    }
    part.threshold_crossings[f] += crossings;
  }
  check_bound(params, first, x, y, number, count, found, zeros_changed, part);
  add_extrema(part, found, static_cast<double>(seen.x_min), static_cast<double>(seen.x_max),
              static_cast<double>(seen.y_min), static_cast<double>(seen.y_max));
  if (part.valid == 0 || found.abs_max > fabs(part.worst.decoded - part.worst.original)) {
    for (u32 i = 0; i < count; ++i) {
      const double a = static_cast<double>(x[i]);
      const double b = static_cast<double>(y[i]);
      if (fabs(b - a) != found.abs_max) continue;
      part.worst = {first + (number == nullptr ? i : number[i]), a, b};
      break;
    }
  }
  part.valid += count;

  leaf = moments_of(count, x0, e0,
                    {total(sums.x), total(sums.e), total(sums.xx), total(sums.ee), total(sums.xe), total(sums.abs_e),
                     total(sums.pointwise)});
}

template <class T>
void add_leaves(const h5l_assess_params& params, u64 first, const T* x, const T* y, const u8* mask, u32 count,
                Counters& counters, PointsPart& part) {
  for (u32 start = 0; start < count; start += kLeafValues) {
    const u32 n = count - start < kLeafValues ? count - start : kLeafValues;
    Moments& leaf = part.leaves[part.leaf_count++];
    const u8* const own_mask = mask == nullptr || is_clear(mask + start, n) ? nullptr : mask + start;
    const Run<T> run{x + start, y + start, own_mask, first + start, n};
    if (own_mask == nullptr) {
      const Survey<T> seen = survey(run.x, run.y, n);
      if (seen.all_finite && (params.has_fill == 0 || is_plain(params, run))) {
        add_valid<T>(params, run.first, run.x, run.y, seen, nullptr, n, counters, part, leaf);
        continue;
      }
    }
    Kept<T> kept;
    kept.count = 0;
    for (u32 at = 0; at < n; at += kRun) {
      const u32 size = n - at < kRun ? n - at : kRun;
      const u8* const of_run = own_mask == nullptr || is_clear(own_mask + at, size) ? nullptr : own_mask + at;
      keep_valid<T>(params, {run.x + at, run.y + at, of_run, run.first + at, size}, at, kept, part);
    }
    leaf = {};
    if (kept.count == 0) continue;
    const Survey<T> seen = survey(kept.x, kept.y, kept.count);
    add_valid<T>(params, run.first, kept.x, kept.y, seen, kept.number, kept.count, counters, part, leaf);
  }
}

void points(const h5l_assess_params& params, u64 first, const void* x, const void* y, const u8* mask, u32 count,
            Counters& counters, PointsPart& part) {
  if (params.value_bytes == 4) {
    add_leaves(params, first, static_cast<const float*>(x), static_cast<const float*>(y), mask, count, counters, part);
  } else {
    add_leaves(params, first, static_cast<const double*>(x), static_cast<const double*>(y), mask, count, counters,
               part);
  }
  if (part.valid == 0) return;
  const double most = -part.error_min > part.error_max ? -part.error_min : part.error_max;
  make_table(counters, params.histogram_limit > 0 ? params.histogram_limit : most, part);
}

// Adds a segment of a row that lies in one box. Only eight lanes, because boxes may be narrow.
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
                     const assess::FieldPlan& plan, const assess::Column& column, assess::Scratch& scratch,
                     assess::StencilCell* cells);
extern bool windows(u32 value_bytes, const assess::View& view, const assess::Rules& rules,
                    const assess::FieldPlan& plan, const assess::Column& column, assess::Scratch& scratch,
                    assess::WindowCell* cells);

extern void range(u32 value_bytes, const assess::View& view, const assess::Rules& rules, const u64 row[4], u64 count,
                  h5l_assess_slice& slice);
extern void dssim(u32 value_bytes, const assess::View& view, const assess::Rules& rules, const u64 first[4], u32 rows,
                  u32 columns, h5l_assess_slice& slice);

const assess::Kernels assess_kernels = {points, stencils, windows, boxes, range, dssim};

}  // namespace h5lossy::H5L_TARGET

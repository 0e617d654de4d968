// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "assess/state.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "assess/values.h"

namespace h5lossy::assess {
namespace {

double size_of(const h5l_assess_point& point) { return std::fabs(point.decoded - point.original); }

// Doubles the width of the linear bins by merging pairs.
void widen(std::uint64_t* bins) {
  for (int sign = 0; sign < 2; ++sign) {
    std::uint64_t* const own = bins + sign * 128;
    for (int i = 0; i < 64; ++i) own[i] = own[2 * i] + own[2 * i + 1];
    std::fill(own + 64, own + 128, std::uint64_t{0});
  }
}

void add_linear_bins(h5l_assess_points_result& all, std::int32_t exponent, std::uint64_t* bins) {
  if (exponent != kNoGrid && all.grid_exponent != kNoGrid) {
    for (; all.grid_exponent < exponent; ++all.grid_exponent) widen(all.linear_bins);
    for (; exponent < all.grid_exponent; ++exponent) widen(bins);
  }
  all.grid_exponent = std::max(all.grid_exponent, exponent);
  for (int i = 0; i < H5L_ASSESS_LINEAR_BINS; ++i) all.linear_bins[i] += bins[i];
}

// Adds a part's table to both histograms.
void add_bins(h5l_assess_points_result& all, const PointsPart& part) {
  constexpr u32 kPerSign = H5L_ASSESS_LOG_BINS / 2;
  const i32 exponent = part.grid_exponent;
  std::uint64_t linear_bins[H5L_ASSESS_LINEAR_BINS] = {};
  for (u32 sign = 0; sign < 2; ++sign) {
    std::uint64_t* const linear = linear_bins + sign * 128;
    std::uint64_t* const log = all.log_bins + sign * kPerSign;
    for (u32 i = 0; i < kPerSign; ++i) {
      const std::uint64_t count = part.bins[kLinearBins + sign * kPerSign + i];
      if (count == 0) continue;
      log[i] += count;
      // The octave begins at 2^above widths of a linear bin.
      const i32 above = exponent == kNoGrid ? -1 : static_cast<i32>(i / 8) - 127 - exponent;
      if (above < 0) {
        linear[0] += count;
      } else if (above < 3) {
        linear[(8 + i % 8) << above >> 3] += count;
      } else {
        linear_bins[kLinearBins + sign] += count;  // larger than all
      }
    }
    for (u32 i = kFirstLinear; i < 128; ++i) {
      const std::uint64_t count = part.bins[sign * 128 + i];
      if (count == 0) continue;
      linear[i] += count;
      u32 octave = 3;
      while ((i >> octave) >= 2) ++octave;
      log[static_cast<u32>(exponent + static_cast<i32>(octave) + 127) * 8 + ((i >> (octave - 3)) & 7)] += count;
    }
  }
  add_linear_bins(all, exponent, linear_bins);
}

// Merges two lists in the order of the points and keeps the first ones.
void add_violations(h5l_assess_points_result& all, const h5l_assess_point* more, std::uint32_t count) {
  h5l_assess_point merged[2 * H5L_ASSESS_LISTED];
  const auto earlier = [](const h5l_assess_point& a, const h5l_assess_point& b) { return a.at < b.at; };
  const h5l_assess_point* const end =
      std::merge(all.violation, all.violation + all.listed, more, more + count, merged, earlier);
  all.listed = std::min<std::uint32_t>(static_cast<std::uint32_t>(end - merged), H5L_ASSESS_LISTED);
  std::copy(merged, merged + all.listed, all.violation);
}

// Adds the totals of a part, or of another state.
template <class Totals>
void add_totals(h5l_assess_points_result& all, const Totals& more) {
  all.masked += more.masked;
  for (int kind = 0; kind < H5L_SPECIAL_KINDS; ++kind) {
    if (more.special[kind] == 0) continue;
    all.special_first[kind] = all.special[kind] == 0
                                  ? more.special_first[kind]
                                  : std::min<std::uint64_t>(all.special_first[kind], more.special_first[kind]);
    all.special[kind] += more.special[kind];
  }
  all.zeros += more.zeros;
  all.zeros_changed += more.zeros_changed;
  all.over_threshold += more.over_threshold;
  all.violations += more.violations;
  for (int i = 0; i < H5L_ASSESS_MAX_THRESHOLDS; ++i) all.threshold_crossings[i] += more.threshold_crossings[i];
  if (more.valid == 0) return;
  const bool first = all.valid == 0;
  all.valid += more.valid;
  const auto down = [first](double& least, double other) { least = first || other < least ? other : least; };
  const auto up = [first](double& most, double other) { most = first || other > most ? other : most; };
  down(all.original_min, more.original_min);
  up(all.original_max, more.original_max);
  down(all.decoded_min, more.decoded_min);
  up(all.decoded_max, more.decoded_max);
  down(all.error_min, more.error_min);
  up(all.error_max, more.error_max);
  down(all.error_min_abs, more.error_min_abs);
  down(all.pointwise_min, more.pointwise_min);
  up(all.pointwise_max, more.pointwise_max);
  const double size = size_of(more.worst);
  if (first || size > size_of(all.worst) || (size == size_of(all.worst) && more.worst.at < all.worst.at)) {
    all.worst = more.worst;
  }
}

// Whether a window is worse than another, or as bad and earlier. What is negative is no window.
bool is_worse(double lost, const u64* at, double other_lost, const u64* other_at) {
  const bool earlier = std::lexicographical_compare(at, at + 4, other_at, other_at + 4);
  return lost > other_lost || (lost == other_lost && lost >= 0 && earlier);
}

}  // namespace

Moments together(const Moments& a, const Moments& b) { return scalar::joined(a, b); }

StencilSums together(const StencilSums& a, const StencilSums& b) {
  static_assert(sizeof(StencilSums) % sizeof(double) == 0);
  constexpr std::size_t kCount = sizeof(StencilSums) / sizeof(double);
  double x[kCount];
  double y[kCount];
  std::memcpy(x, &a, sizeof x);
  std::memcpy(y, &b, sizeof y);
  for (std::size_t i = 0; i < kCount; ++i) x[i] += y[i];
  StencilSums sum;
  std::memcpy(&sum, x, sizeof sum);
  return sum;
}

StencilCell together(const StencilCell& a, const StencilCell& b) {
  StencilCell both = {together(a.sums, b.sums), a.extrema};
  add_extrema(both.extrema, b.extrema);
  return both;
}

WindowSums together(const WindowSums& a, const WindowSums& b) { return {a.windows + b.windows, a.sum + b.sum}; }

WindowCell together(const WindowCell& a, const WindowCell& b) {
  WindowCell both = is_worse(b.worst, b.at, a.worst, a.at) ? b : a;
  both.sums = together(a.sums, b.sums);
  return both;
}

void clear(State& state) {
  std::memset(static_cast<void*>(&state), 0, sizeof state);
  restart(state);
}

void restart(State& state) {
  state.next = 0;
  static_cast<FieldEnds&>(state) = {};
  state.extrema.gradient_min = HUGE_VAL;
  state.window_worst = -1;
  state.points = {};
  state.points.grid_exponent = kNoGrid;
  state.moments.depth = 0;
  state.pending.count = state.pending.has_mask = 0;
  state.stencils.depth = 0;
  state.windows.depth = 0;
}

void take_pivot(State& state, double original, double decoded) {
  if (state.has_pivot != 0) return;
  const double error = decoded - original;
  state.has_pivot = 1;
  state.pivot_x = original;
  state.pivot_e = std::isfinite(error) ? error : 0;
}

void add_part(State& state, const PointsPart& part) {
  for (u32 i = 0; i < part.leaf_count; ++i) state.moments.push(part.leaves[i]);
  h5l_assess_points_result& all = state.points;
  add_totals(all, part);
  add_violations(all, part.violation, part.listed);
  add_bins(all, part);
}

void add_extrema(StencilExtrema& all, const StencilExtrema& more) {
  for (int axis = 0; axis < 4; ++axis) {
    all.slope[axis] = std::max(all.slope[axis], more.slope[axis]);
    all.slope_error[axis] = std::max(all.slope_error[axis], more.slope_error[axis]);
    all.curvature[axis] = std::max(all.curvature[axis], more.curvature[axis]);
    all.curvature_error[axis] = std::max(all.curvature_error[axis], more.curvature_error[axis]);
  }
  all.gradient_min = std::min(all.gradient_min, more.gradient_min);
  all.gradient_max = std::max(all.gradient_max, more.gradient_max);
  all.gradient_error = std::max(all.gradient_error, more.gradient_error);
  all.laplacian_error = std::max(all.laplacian_error, more.laplacian_error);
}

void add_worst_window(State& state, double lost, const u64* at) {
  if (!is_worse(lost, at, state.window_worst, state.window_at)) return;
  state.window_worst = lost;
  std::copy(at, at + 4, state.window_at);
}

void move_pivot(StencilSums& sums, double by) {
  for (u32 axis = 0; axis < kLagAxes; ++axis) {
    for (int lag = 0; lag < H5L_ASSESS_MAX_LAGS; ++lag) {
      const double pairs = sums.lag_pairs[axis][lag];
      sums.lag_products[axis][lag] += by * (sums.lag_sums[axis][lag] + by * pairs);
      sums.lag_sums[axis][lag] += 2 * by * pairs;
    }
  }
}

void add_state(State& state, const State& other) {
  const h5l_assess_points_result& more = other.points;
  h5l_assess_points_result& all = state.points;
  all.count += more.count;
  add_totals(all, more);
  add_violations(all, more.violation, more.listed);
  for (int i = 0; i < H5L_ASSESS_LOG_BINS; ++i) all.log_bins[i] += more.log_bins[i];
  std::uint64_t bins[H5L_ASSESS_LINEAR_BINS];
  std::copy(more.linear_bins, more.linear_bins + H5L_ASSESS_LINEAR_BINS, bins);
  add_linear_bins(all, more.grid_exponent, bins);
  state.moments.push(other.moments.total());
  FieldTotal total = {};
  take_field_total(other, total);
  add_field_total(state, total);
}

void take_field_total(const State& state, FieldTotal& total) {
  static_cast<FieldEnds&>(total) = state;
  total.has_stencils = state.stencils.depth;
  if (total.has_stencils != 0) total.stencils = state.stencils.total();
  total.has_windows = state.windows.depth;
  if (total.has_windows != 0) total.windows = state.windows.total();
}

void add_field_total(State& state, const FieldTotal& more) {
  if (state.has_pivot == 0) {
    state.has_pivot = more.has_pivot;
    state.pivot_x = more.pivot_x;
    state.pivot_e = more.pivot_e;
  }
  if (more.has_stencils != 0) {
    StencilSums sums = more.stencils;
    move_pivot(sums, more.pivot_e - state.pivot_e);
    state.stencils.push(sums);
    add_extrema(state.extrema, more.extrema);
  }
  if (more.has_windows != 0) state.windows.push(more.windows);
  add_worst_window(state, more.window_worst, more.window_at);
}

}  // namespace h5lossy::assess

// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Reductions over all points in one pass (pattern I). A warp takes a leaf, lane i the values i, i + 32, ..., so that all
// sums are those of native/assess, addition by addition. Extrema, counts and histograms have no order.
//
// Where all values of some rows count, each goes to the lane that loads it. From the first one on that does not, the values
// that do are handed on to the lanes that they belong to, as if the others were not there.
#pragma once

#include "assess/values.h"
#include "gpu/assess_plans.h"
#include "vocabulary.cuh"

namespace h5lossy::H5L_TARGET {

using assess::kLeafValues;
using assess::Moments;
using gpu::BlockTotals;
using gpu::kBlockBins;
using gpu::kFineBins;
using gpu::kFineOctaves;
using gpu::PointsPlan;
using gpu::WarpList;

inline constexpr double kInfinite = __builtin_bit_cast(double, 0x7FF0000000000000ull);

H5L_DEVICE double least(double a, double b) { return a < b ? a : b; }
H5L_DEVICE double most(double a, double b) { return a > b ? a : b; }

inline constexpr u32 kRowsAhead = 8;  // that are on their way while others are summed

struct PointsShared {
  u32 table[kBlockBins];
  BlockTotals totals;
  double handed[kWarps][2][kWarpThreads];
  alignas(16) u8 ahead[kWarps][2][kRowsAhead * kWarpThreads * sizeof(double)];
};

// A number's bits in its order, without sign; and back. 0 is for none: ordered numbers of doubles are above it.
H5L_DEVICE u64 ordered(double value) {
  const u64 bits = bit_cast<u64>(value);
  return (bits >> 63) != 0 ? ~bits : bits | u64{1} << 63;
}
H5L_DEVICE double from_ordered(u64 number) {
  return bit_cast<double>((number >> 63) != 0 ? number & ~(u64{1} << 63) : ~number);
}

// The octave of the lowest fine bins. Where the grid is known, they begin with the lowest octave that has linear bins of
// its own, and otherwise so that errors may come to be 16 times the largest one that is known of.
H5L_DEVICE i32 lowest_fine_octave(const PointsPlan& plan) {
  if (plan.is_limited != 0) return plan.grid_exponent + 3;
  const i32 octave = static_cast<i32>(*plan.largest >> 52) - 1023;
  const i32 grid = octave - 6;
  return (grid < assess::kFinestGrid   ? assess::kFinestGrid
          : grid > assess::kWidestGrid ? assess::kWidestGrid
                                       : grid) +
         3;
}

// Where an error is counted in a block's table. `base` is the high word of the lowest fine error.
H5L_DEVICE u32 bin_of(double e, u32 base) {
  const u32 high = static_cast<u32>(bit_cast<u64>(e) >> 32);
  const u32 sign = high >> 31, size = high & 0x7FFFFFFFu;
  const u32 above = size - base;
  if (above < kFineOctaves << 20) return sign * kFineBins + (above >> 14);
  const i32 log = static_cast<i32>(size >> 17) - 896 * 8;
  return 2 * kFineBins + sign * 2048 + static_cast<u32>(log < 0 ? 0 : log > 2047 ? 2047 : log);
}

// a / b, correctly rounded, without branches: b has the 24 bits of a float, and neither is near the limits of float64, or a
// is 0. The reciprocal is right to 2^-52, so `quotient` is off by a few units in its last place at most, and `rest` is
// exact. What is added to the quotient before it is rounded is off by 2^-50 of its last place; since b has 24 bits, a / b
// is further than that, 2^-25, from any midpoint of two neighbours.
H5L_DEVICE double divide_by_float(double a, double b) {
  const double estimate = reciprocal_estimate(b);
  const double lack = fused_multiply_add(-b, estimate, 1.0);
  const double reciprocal = fused_multiply_add(estimate, fused_multiply_add(lack, lack, lack), estimate);
  const double quotient = a * reciprocal;
  const double rest = fused_multiply_add(-b, quotient, a);
  return fused_multiply_add(rest, reciprocal, quotient);
}
H5L_DEVICE double divide(double a, float b) { return divide_by_float(a, static_cast<double>(b)); }
H5L_DEVICE double divide(double a, double b) { return a / b; }

// What a thread knows of all its values.
struct ThreadExtrema {
  double e_min = kInfinite, e_max = -kInfinite, e_min_abs = kInfinite, pointwise_min = kInfinite, pointwise_max = 0;
  u32 zeros = 0, zeros_changed = 0, over_threshold = 0;
};

// No value within these is an extremum that a warp does not have, or may break the bound.
struct Known {
  double e_min, e_max, e_min_abs, pointwise_min, pointwise_max;
};

// Lane sums of a leaf, and what decides whether the bound may be broken in it.
struct LeafSums {
  double x = 0, xx = 0, e = 0, ee = 0, xe = 0, abs_e = 0, pointwise = 0;
  double e_size = 0, pointwise_max = 0;
  u32 zeros_changed = 0;
};

template <class T>
class Points {
 public:
  H5L_DEVICE explicit Points(const PointsPlan& plan)
      : plan_(plan),
        shared_(*reinterpret_cast<PointsShared*>(shared_memory())),
        is_aligned_(((reinterpret_cast<u64>(plan.x) | reinterpret_cast<u64>(plan.y)) & 15) == 0),
        fine_base_(static_cast<u32>(lowest_fine_octave(plan) + 1023) << 20),
        threshold_(plan.params.pointwise_threshold > 0 ? plan.params.pointwise_threshold : kInfinite) {}

  H5L_DEVICE void run() {
    for (u32 i = thread(); i < kBlockBins; i += kThreads) shared_.table[i] = 0;
    u64* const words = reinterpret_cast<u64*>(&shared_.totals);
    for (u32 i = thread(); i < sizeof(BlockTotals) / 8; i += kThreads) words[i] = 0;
    sync_block();
    if (thread() < H5L_SPECIAL_KINDS) shared_.totals.special_first[thread()] = ~u64{0};
    begin_known();
    sync_block();
    const u64 leaves_at_once = u64{grid_blocks()} * kWarps;
    u64 leaf = u64{block_number()} * kWarps + warp();
    if (leaf < plan_.leaves) fetch(leaf, 0);
    for (; leaf < plan_.leaves; leaf += leaves_at_once) add_leaf(leaf, leaf + leaves_at_once);
    finish();
  }

 private:
  static constexpr u32 kRows = kRowsAhead;
  static constexpr u32 kLeafRows = kLeafValues / kWarpThreads;

  // Starts to bring some rows of a leaf.
  H5L_DEVICE void fetch(u64 leaf, u32 row) {
    constexpr u32 kBytes = kRows * kWarpThreads * sizeof(T);
    const u64 offset = (leaf * kLeafValues + row * kWarpThreads) * sizeof(T);
    H5L_UNROLL for (u32 which = 0; which < 2; ++which) {
      const u8* const from = (which == 0 ? plan_.x : plan_.y) + offset;
      u8* const to = shared_.ahead[warp()][which];
      if (is_aligned_) {
        H5L_UNROLL for (u32 at = 0; at < kBytes; at += 16 * kWarpThreads) {
          copy_async<16>(to + at + 16 * lane(), from + at + 16 * lane());
        }
      } else {
        constexpr u32 kValue = sizeof(T);
        H5L_UNROLL for (u32 at = 0; at < kBytes; at += kValue * kWarpThreads) {
          copy_async<kValue>(to + at + kValue * lane(), from + at + kValue * lane());
        }
      }
    }
  }

  H5L_DEVICE void add_leaf(u64 leaf, u64 next_leaf) {
    const u64 start = leaf * kLeafValues;
    const u8* const x = shared_.ahead[warp()][0] + lane() * sizeof(T);
    const u8* const y = shared_.ahead[warp()][1] + lane() * sizeof(T);
    kept_ = 0;
    sums_ = {};
    H5L_NO_UNROLL for (u32 row = 0; row < kLeafRows; row += kRows) {
      T a[kRows], b[kRows];
      wait_for_copies();
      sync_warp();
      H5L_UNROLL for (u32 r = 0; r < kRows; ++r) {
        a[r] = value(x + r * (kWarpThreads * sizeof(T)), plan_.params.original_big_endian);
        b[r] = value(y + r * (kWarpThreads * sizeof(T)), plan_.params.decoded_big_endian);
      }
      sync_warp();
      const bool is_last = row + kRows == kLeafRows;
      if (!is_last || next_leaf < plan_.leaves) fetch(is_last ? next_leaf : leaf, is_last ? 0 : row + kRows);
      T x_min = a[0], x_max = a[0], y_min = b[0], y_max = b[0];
      bool has_zero = a[0] == 0;
      H5L_UNROLL for (u32 r = 1; r < kRows; ++r) {
        x_min = smaller_or_nan(a[r], x_min);
        x_max = larger_or_nan(a[r], x_max);
        y_min = smaller_or_nan(b[r], y_min);
        y_max = larger_or_nan(b[r], y_max);
        has_zero = has_zero | (a[r] == 0);
      }
      // False for NaN, too.
      const T infinite = static_cast<T>(kInfinite);
      bool is_plain = (x_min > -infinite) & (x_max < infinite) & (y_min > -infinite) & (y_max < infinite) &
                      (kept_ == row * kWarpThreads) & (plan_.mask == nullptr);
      if (plan_.params.has_fill != 0) {
        const auto fill = static_cast<Word<T>>(plan_.params.fill_bits);
        H5L_UNROLL for (u32 r = 0; r < kRows; ++r) {
          is_plain = is_plain & (bit_cast<Word<T>>(a[r]) != fill) & (bit_cast<Word<T>>(b[r]) != fill);
        }
      }
      if (!any_in_warp(!is_plain)) {
        if (row == 0) set_pivots(shuffle(a[0], 0), shuffle(b[0], 0));
        x_min_ = x_min < x_min_ ? x_min : x_min_;
        x_max_ = x_max > x_max_ ? x_max : x_max_;
        y_min_ = y_min < y_min_ ? y_min : y_min_;
        y_max_ = y_max > y_max_ ? y_max : y_max_;
        if (!any_in_warp(has_zero) && plan_.params.flip_count == 0) {
          add_plain(a, b);
        } else {
          H5L_NO_UNROLL for (u32 r = 0; r < kRows; ++r) add(pick(a, r), pick(b, r));
        }
        kept_ += kRows * kWarpThreads;
      } else {
        H5L_NO_UNROLL for (u32 r = 0; r < kRows; ++r) {
          add_some(start + u64{row + r} * kWarpThreads + lane(), pick(a, r), pick(b, r));
        }
      }
    }
    finish_leaf(leaf);
  }

  // Element r without an index that the compiler would need memory for.
  static H5L_DEVICE T pick(const T (&values)[kRows], u32 r) {
    T picked = values[0];
    H5L_UNROLL for (u32 i = 1; i < kRows; ++i) picked = r == i ? values[i] : picked;
    return picked;
  }

  static H5L_DEVICE T value(const u8* from, u32 is_swapped) {
    const auto word = *reinterpret_cast<const Word<T>*>(from);
    return bit_cast<T>(is_swapped != 0 ? swapped(word) : word);
  }

  H5L_DEVICE void set_pivots(T x, T y) {
    pivot_x_ = static_cast<double>(x);
    pivot_e_ = static_cast<double>(y) - pivot_x_;
  }

  struct Point {
    double x, y, e, size;
  };

  // Sums and the table, but for pointwise errors.
  H5L_DEVICE Point sum(T original, T decoded) {
    const double x = static_cast<double>(original), y = static_cast<double>(decoded);
    const double e = y - x, size = fabs(e);
    const double from_x = x - pivot_x_, from_e = e - pivot_e_;
    sums_.x += from_x;
    sums_.xx += from_x * from_x;
    sums_.e += from_e;
    sums_.ee += from_e * from_e;
    sums_.xe += from_x * from_e;
    sums_.abs_e += size;
    atomic_add(&shared_.table[bin_of(e, fine_base_)], 1u);
    return {x, y, e, size};
  }

  H5L_DEVICE void track(double e, double size) {
    own_.e_min = least(e, own_.e_min);
    own_.e_max = most(e, own_.e_max);
    own_.e_min_abs = least(size, own_.e_min_abs);
    sums_.e_size = most(size, sums_.e_size);
  }
  H5L_DEVICE void track_pointwise(double pointwise) {
    sums_.pointwise_max = most(pointwise, sums_.pointwise_max);
    own_.pointwise_min = least(pointwise, own_.pointwise_min);
  }

  // Rows of valid points, none of them 0, without thresholds of flips. Extrema are looked at only where there are new ones.
  H5L_DEVICE void add_plain(const T (&a)[kRows], const T (&b)[kRows]) {
    bool is_new = false;
    H5L_UNROLL for (u32 r = 0; r < kRows; ++r) {
      const Point point = sum(a[r], b[r]);
      const double pointwise = divide(point.size, fabs(a[r]));
      sums_.pointwise += pointwise;
      own_.over_threshold += pointwise > threshold_ ? 1 : 0;
      is_new = is_new | (point.e < known_.e_min) | (point.e > known_.e_max) | (point.size < known_.e_min_abs) |
               (pointwise < known_.pointwise_min) | (pointwise > known_.pointwise_max);
    }
    if (!any_in_warp(is_new)) return;
    H5L_NO_UNROLL for (u32 r = 0; r < kRows; ++r) {
      const double x = static_cast<double>(pick(a, r)), e = static_cast<double>(pick(b, r)) - x;
      track(e, fabs(e));
      track_pointwise(fabs(e) / fabs(x));
    }
    learn();
  }

  // Any other valid point.
  H5L_DEVICE void add(T original, T decoded) {
    const Point point = sum(original, decoded);
    track(point.e, point.size);
    if (point.x == 0) {
      ++own_.zeros;
      if (point.e != 0) {
        ++sums_.zeros_changed;
        own_.over_threshold += threshold_ < kInfinite ? 1 : 0;
      }
    } else {
      const double pointwise = point.size / fabs(point.x);
      sums_.pointwise += pointwise;
      own_.over_threshold += pointwise > threshold_ ? 1 : 0;
      track_pointwise(pointwise);
    }
    for (u32 f = 0; f < plan_.params.flip_count; ++f) {
      const double side = plan_.params.flips[f];
      if ((point.x >= side) != (point.y >= side)) atomic_add(&shared_.totals.flipped[f], u64{1});
    }
  }

  // What some leaves have: most values are not beyond. Values that are as far are still looked at, once in each warp, so
  // that the first leaf with the largest error is found.
  H5L_DEVICE void begin_known() {
    const gpu::Seeds& seeds = *plan_.seeds;
    // Behind an infinite one is none: there is nothing to look for, or nothing has been found.
    const auto above = [](u64 seed) { return seed == 0 ? kInfinite : least(from_ordered(~seed + 1), kInfinite); };
    const auto below = [](u64 seed) { return seed == 0 ? -kInfinite : most(from_ordered(seed - 1), -kInfinite); };
    known_.e_min = above(seeds.e_min);
    known_.e_min_abs = above(seeds.e_min_abs);
    known_.pointwise_min = above(seeds.pointwise_min);
    known_.e_max = below(seeds.e_max);
    known_.pointwise_max = below(seeds.pointwise_max);
    limit_known();
  }

  H5L_DEVICE void limit_known() {
    const h5l_assess_params& params = plan_.params;
    if (params.bound_kind == H5L_BOUND_ABSOLUTE) {
      const double below = from_ordered(ordered(params.limit[0]) - 1);
      known_.e_max = least(below, known_.e_max);
      known_.e_min = most(-below, known_.e_min);
    }
    if (params.bound_kind == H5L_BOUND_POINTWISE_RELATIVE) {
      const double limit = pointwise_limit();
      known_.pointwise_max = least(from_ordered(ordered(limit) - 1), known_.pointwise_max);
    }
  }

  // Below it pointwise errors are within the bound: a quotient is off by a rounding or two.
  H5L_DEVICE double pointwise_limit() const {
    const double limit = plan_.params.limit[0];
    return limit > 1e-280 ? limit * (1 - 0x1p-50) : 0;
  }

  H5L_DEVICE void learn() {
    known_.e_min = least(least_of_warp(own_.e_min), known_.e_min);
    known_.e_max = most(most_of_warp(own_.e_max), known_.e_max);
    known_.e_min_abs = least(least_of_warp(own_.e_min_abs), known_.e_min_abs);
    known_.pointwise_min = least(least_of_warp(own_.pointwise_min), known_.pointwise_min);
    known_.pointwise_max = most(most_of_warp(most(sums_.pointwise_max, own_.pointwise_max)), known_.pointwise_max);
    limit_known();
  }

  // A row of points, of which some may not count. `at` is the number of the lane's among the launch's.
  H5L_DEVICE void add_some(u64 at, T x, T y) {
    const bool is_masked = plan_.mask != nullptr && plan_.mask[at] != 0;
    const auto x_bits = bit_cast<Word<T>>(x), y_bits = bit_cast<Word<T>>(y);
    const h5l_assess_params& params = plan_.params;
    u32 kind = H5L_SPECIAL_KINDS;
    if (is_masked) {
      atomic_add(&shared_.totals.masked, u64{1});
    } else {
      kind = kind_of<T>(x_bits, y_bits, params);
      // As the format has it, other values may turn into a fill value of +0.0.
      if (params.has_fill != 0 && params.fill_bits != 0 && x_bits != params.fill_bits && y_bits == params.fill_bits &&
          is_finite<T>(x_bits)) {
        count_special(H5L_SPECIAL_FILL_MADE, at);
      }
      if (kind != H5L_SPECIAL_KINDS) count_special(kind, at);
    }
    const bool is_valid = !is_masked && kind == H5L_SPECIAL_KINDS;
    const u32 valid = ballot(is_valid);
    const u32 count = ones(valid);
    double (&handed)[2][kWarpThreads] = shared_.handed[warp()];
    if (is_valid) {
      const u32 to = (kept_ + ones(valid & lanes_below())) % kWarpThreads;
      handed[0][to] = static_cast<double>(x);
      handed[1][to] = static_cast<double>(y);
    }
    sync_warp();
    if (kept_ == 0 && count != 0) set_pivots(static_cast<T>(handed[0][0]), static_cast<T>(handed[1][0]));
    if ((lane() - kept_) % kWarpThreads < count) {
      const T a = static_cast<T>(handed[0][lane()]), b = static_cast<T>(handed[1][lane()]);
      x_min_ = a < x_min_ ? a : x_min_;
      x_max_ = a > x_max_ ? a : x_max_;
      y_min_ = b < y_min_ ? b : y_min_;
      y_max_ = b > y_max_ ? b : y_max_;
      add(a, b);
    }
    sync_warp();
    kept_ += count;
  }

  H5L_DEVICE void count_special(u32 kind, u64 at) {
    atomic_add(&shared_.totals.special[kind], u64{1});
    atomic_min(&shared_.totals.special_first[kind], plan_.first + at);
  }

  H5L_DEVICE void finish_leaf(u64 leaf) {
    Moments moments = {};
    if (kept_ != 0) {
      moments = moments_of(kept_, pivot_x_, pivot_e_,
                           {sum_of_warp(sums_.x), sum_of_warp(sums_.e), sum_of_warp(sums_.xx), sum_of_warp(sums_.ee),
                            sum_of_warp(sums_.xe), sum_of_warp(sums_.abs_e), sum_of_warp(sums_.pointwise)});
      own_.pointwise_max = most(sums_.pointwise_max, own_.pointwise_max);
      own_.zeros_changed += sums_.zeros_changed;
      valid_ += kept_;
      if (any_in_warp(sums_.e_size > worst_size_)) {
        worst_size_ = most_of_warp(sums_.e_size);
        worst_leaf_ = leaf;
      }
      if (any_in_warp(may_break())) judge(leaf);
    }
    if (lane() == 0) plan_.moments[leaf] = moments;
  }

  H5L_DEVICE bool may_break() const {
    const h5l_assess_params& params = plan_.params;
    switch (params.bound_kind) {
      case H5L_BOUND_ABSOLUTE:
        return sums_.e_size >= params.limit[0];
      case H5L_BOUND_POINTWISE_RELATIVE:
        return sums_.zeros_changed != 0 || sums_.pointwise_max >= pointwise_limit();
      default:
        return params.bound_kind == H5L_BOUND_LOSSLESS;
    }
  }

  // Counts and lists the points of a leaf that break the bound.
  H5L_DEVICE void judge(u64 leaf) {
    WarpList& list = plan_.lists[block_number() * kWarps + warp()];
    H5L_NO_UNROLL for (u32 row = 0; row < kLeafValues / kWarpThreads; ++row) {
      const u64 at = leaf * kLeafValues + row * kWarpThreads + lane();
      const T x = value(plan_.x + at * sizeof(T), plan_.params.original_big_endian);
      const T y = value(plan_.y + at * sizeof(T), plan_.params.decoded_big_endian);
      const bool is_valid = is_valid_point<T>(plan_, at, x, y);
      const u32 broken = ballot(is_valid && breaks<T>(plan_.params, x, y));
      if (broken == 0) continue;
      const u32 place = listed_ + ones(broken & lanes_below());
      if ((broken >> lane() & 1) != 0 && place < H5L_ASSESS_LISTED) {
        list.point[place] = {plan_.first + at, static_cast<double>(x), static_cast<double>(y)};
      }
      listed_ = listed_ + ones(broken) < H5L_ASSESS_LISTED ? listed_ + ones(broken) : H5L_ASSESS_LISTED;
      violations_ += ones(broken);
    }
  }

 public:
  template <class V>
  static H5L_DEVICE bool is_valid_point(const PointsPlan& plan, u64 at, V x, V y) {
    if (plan.mask != nullptr && plan.mask[at] != 0) return false;
    return kind_of<V>(bit_cast<Word<V>>(x), bit_cast<Word<V>>(y), plan.params) == H5L_SPECIAL_KINDS;
  }
  static H5L_DEVICE T value_at(const u8* values, u64 at, u32 is_swapped) {
    return value(values + at * sizeof(T), is_swapped);
  }

 private:
  template <class Better>
  static H5L_DEVICE double best_of_warp(double own, Better better) {
    for (u32 by = kWarpThreads / 2; by != 0; by /= 2) own = better(shuffle_xor(own, by), own);
    return own;
  }
  static H5L_DEVICE double most_of_warp(double own) { return best_of_warp(own, most); }
  static H5L_DEVICE double least_of_warp(double own) { return best_of_warp(own, least); }

  H5L_DEVICE void finish() {
    if (lane() == 0) plan_.lists[block_number() * kWarps + warp()].count = listed_;
    // All warps' results, one behind the other, where the values that were handed on stood.
    ThreadExtrema all = own_;
    const double x_min = least_of_warp(static_cast<double>(x_min_));
    const double y_min = least_of_warp(static_cast<double>(y_min_));
    const double x_max = most_of_warp(static_cast<double>(x_max_));
    const double y_max = most_of_warp(static_cast<double>(y_max_));
    all.e_min = least_of_warp(all.e_min);
    all.e_min_abs = least_of_warp(all.e_min_abs);
    all.pointwise_min = least_of_warp(all.pointwise_min);
    all.e_max = most_of_warp(all.e_max);
    all.pointwise_max = most_of_warp(all.pointwise_max);
    all.zeros = sum_of_warp(all.zeros);
    all.zeros_changed = sum_of_warp(all.zeros_changed);
    all.over_threshold = sum_of_warp(all.over_threshold);
    BlockTotals& totals = shared_.totals;
    for (u32 w = 0; w < kWarps; ++w) {
      sync_block();
      if (w != warp() || lane() != 0) continue;
      const bool first = w == 0;
      totals.x_min = first ? x_min : least(x_min, totals.x_min);
      totals.y_min = first ? y_min : least(y_min, totals.y_min);
      totals.e_min = first ? all.e_min : least(all.e_min, totals.e_min);
      totals.e_min_abs = first ? all.e_min_abs : least(all.e_min_abs, totals.e_min_abs);
      totals.pointwise_min = first ? all.pointwise_min : least(all.pointwise_min, totals.pointwise_min);
      totals.x_max = first ? x_max : most(x_max, totals.x_max);
      totals.y_max = first ? y_max : most(y_max, totals.y_max);
      totals.e_max = first ? all.e_max : most(all.e_max, totals.e_max);
      totals.pointwise_max = first ? all.pointwise_max : most(all.pointwise_max, totals.pointwise_max);
      totals.zeros += all.zeros;
      totals.zeros_changed += all.zeros_changed;
      totals.over_threshold += all.over_threshold;
      totals.valid += valid_;
      totals.violations += violations_;
      if (first || worst_size_ > totals.worst_size ||
          (worst_size_ == totals.worst_size && worst_leaf_ < totals.worst_leaf)) {
        totals.worst_size = worst_size_;
        totals.worst_leaf = worst_leaf_;
      }
    }
    sync_block();
    const u64* const from = reinterpret_cast<const u64*>(&totals);
    u64* const to = reinterpret_cast<u64*>(plan_.totals + block_number());
    for (u32 i = thread(); i < sizeof(BlockTotals) / 8; i += kThreads) to[i] = from[i];
    for (u32 i = thread(); i < kBlockBins; i += kThreads) {
      plan_.tables[u64{block_number()} * kBlockBins + i] = shared_.table[i];
    }
  }

  const PointsPlan& plan_;
  PointsShared& shared_;
  const bool is_aligned_;
  const u32 fine_base_;
  const double threshold_;
  T x_min_ = static_cast<T>(kInfinite), x_max_ = static_cast<T>(-kInfinite);
  T y_min_ = static_cast<T>(kInfinite), y_max_ = static_cast<T>(-kInfinite);
  Known known_;
  ThreadExtrema own_;
  LeafSums sums_;
  double pivot_x_ = 0, pivot_e_ = 0;
  double worst_size_ = -1;
  u64 worst_leaf_ = ~u64{0};
  u64 valid_ = 0, violations_ = 0;
  u32 kept_ = 0, listed_ = 0;
};

template <class T>
H5L_DEVICE void add_points(const PointsPlan& plan) {
  Points<T>(plan).run();
}

// Extrema of some values at the start of each block's share of the leaves.
inline constexpr u32 kSampledValues = 1024;

template <class T>
H5L_DEVICE void sample_errors(const PointsPlan& plan) {
  gpu::Seeds found = {};
  double largest = 0;
  const u64 stride = plan.leaves / grid_blocks();
  for (u32 i = thread(); i < kSampledValues; i += kThreads) {
    const u64 at = block_number() * stride * kLeafValues + i;
    const T a = Points<T>::value_at(plan.x, at, plan.params.original_big_endian);
    const T b = Points<T>::value_at(plan.y, at, plan.params.decoded_big_endian);
    if (!Points<T>::is_valid_point(plan, at, a, b)) continue;
    const double x = static_cast<double>(a), e = static_cast<double>(b) - x;
    const auto raise = [](u64& most, u64 number) { most = number > most ? number : most; };
    raise(found.e_min, ~ordered(e));
    raise(found.e_max, ordered(e));
    raise(found.e_min_abs, ~ordered(fabs(e)));
    largest = most(fabs(e), largest);
    if (x == 0) continue;
    raise(found.pointwise_min, ~ordered(fabs(e) / fabs(x)));
    raise(found.pointwise_max, ordered(fabs(e) / fabs(x)));
  }
  const auto publish = [](u64* to, u64 own) {
    for (u32 by = kWarpThreads / 2; by != 0; by /= 2) {
      const u64 other = shuffle_xor(own, by);
      own = other > own ? other : own;
    }
    if (lane() == 0) atomic_max(to, own);
  };
  publish(plan.largest, bit_cast<u64>(largest));
  publish(&plan.seeds->e_min, found.e_min);
  publish(&plan.seeds->e_max, found.e_max);
  publish(&plan.seeds->e_min_abs, found.e_min_abs);
  publish(&plan.seeds->pointwise_min, found.pointwise_min);
  publish(&plan.seeds->pointwise_max, found.pointwise_max);
}

// ---------------------------------------------------------------------------------------------------------------------
// All thread blocks' results as one part. One thread block: a thread for each field of the totals.

struct MergeShared {
  BlockTotals totals;
  u64 next[kWarps];
};

H5L_DEVICE u64 lowest_of_block(u64 lowest, MergeShared& shared) {
  for (u32 by = kWarpThreads / 2; by != 0; by /= 2) {
    const u64 other = shuffle_xor(lowest, by);
    lowest = other < lowest ? other : lowest;
  }
  sync_block();
  if (lane() == 0) shared.next[warp()] = lowest;
  sync_block();
  for (u32 w = 0; w < kWarps; ++w) lowest = shared.next[w] < lowest ? shared.next[w] : lowest;
  return lowest;
}

// Calls fold(word) for words that are `stride` apart. Several are on their way at a time.
template <class Word, class Fold>
H5L_DEVICE void for_each_word(const Word* words, u32 count, u32 stride, Fold fold) {
  constexpr u32 kAtOnce = 8;
  for (u32 start = 0; start < count; start += kAtOnce) {
    Word some[kAtOnce];
    H5L_UNROLL for (u32 k = 0; k < kAtOnce; ++k) {
      if (start + k < count) some[k] = words[u64{start + k} * stride];
    }
    H5L_UNROLL for (u32 k = 0; k < kAtOnce; ++k) {
      if (start + k < count) fold(some[k]);
    }
  }
}

template <class T>
H5L_DEVICE void merge_totals(const PointsPlan& plan) {
  MergeShared& shared = *reinterpret_cast<MergeShared*>(shared_memory());
  constexpr u32 kFields = sizeof(BlockTotals) / 8;
  constexpr u32 kFirsts = __builtin_offsetof(BlockTotals, special_first) / 8,
                kLeasts = __builtin_offsetof(BlockTotals, x_min) / 8;
  constexpr u32 kMosts = __builtin_offsetof(BlockTotals, x_max) / 8,
                kWorst = __builtin_offsetof(BlockTotals, worst_size) / 8;
  static_assert(kFields <= kThreads && kFields == kWorst + 2);
  const u64* const fields = reinterpret_cast<const u64*>(plan.totals);
  u64* const merged = reinterpret_cast<u64*>(&shared.totals);
  const u32 field = thread();
  const auto for_each = [&](auto fold) { for_each_word(fields + field, plan.blocks, kFields, fold); };
  if (field < kFirsts) {
    u64 sum = 0;
    for_each([&](u64 found) { sum += found; });
    merged[field] = sum;
  } else if (field < kLeasts) {
    u64 lowest = ~u64{0};
    for_each([&](u64 found) { lowest = found < lowest ? found : lowest; });
    merged[field] = lowest;
  } else if (field < kWorst) {
    double best = bit_cast<double>(fields[field]);
    for_each([&](u64 found) {
      best = field < kMosts ? least(bit_cast<double>(found), best) : most(bit_cast<double>(found), best);
    });
    merged[field] = bit_cast<u64>(best);
  }
  sync_warp();
  if (warp() == kWarps - 1) {
    double size = -1;
    u64 leaf = ~u64{0};
    const auto take = [&](double other, u64 other_leaf) {
      if (other < size || (other == size && other_leaf >= leaf)) return;
      size = other;
      leaf = other_leaf;
    };
    for (u32 b = lane(); b < plan.blocks; b += kWarpThreads) {
      take(plan.totals[b].worst_size, plan.totals[b].worst_leaf);
    }
    for (u32 by = kWarpThreads / 2; by != 0; by /= 2) {
      const double other = shuffle_xor(size, by);
      const u64 other_leaf = shuffle_xor(leaf, by);
      take(other, other_leaf);
    }
    if (lane() == 0) {
      shared.totals.worst_size = size;
      shared.totals.worst_leaf = leaf;
    }
  }
  sync_block();

  const BlockTotals& all = shared.totals;
  assess::PointsPart& part = *plan.part;
  if (thread() == 0) {
    part.valid = all.valid;
    part.masked = all.masked;
    part.zeros = all.zeros;
    part.zeros_changed = all.zeros_changed;
    part.over_threshold = all.over_threshold;
    part.violations = all.violations;
    for (u32 k = 0; k < H5L_SPECIAL_KINDS; ++k) {
      part.special[k] = all.special[k];
      part.special_first[k] = all.special_first[k];
    }
    for (u32 f = 0; f < H5L_ASSESS_MAX_FLIPS; ++f) part.flipped[f] = all.flipped[f];
    part.x_min = all.x_min;
    part.x_max = all.x_max;
    part.y_min = all.y_min;
    part.y_max = all.y_max;
    part.e_min = all.e_min;
    part.e_max = all.e_max;
    part.e_min_abs = all.e_min_abs;
    part.pointwise_min = all.pointwise_min;
    part.pointwise_max = all.pointwise_max;
    part.grid_exponent = assess::kNoGrid;
    const double size = all.worst_size;
    if (plan.is_limited != 0) {
      if (all.valid != 0) part.grid_exponent = plan.grid_exponent;
    } else if (size > 0) {
      // As in native/assess: size < 2^exponent.
      i32 exponent = assess::kWidestGrid + 7;
      if (size < kInfinite) static_cast<void>(frexp(size, &exponent));
      const i32 wanted = exponent - 7;
      part.grid_exponent = wanted < assess::kFinestGrid   ? assess::kFinestGrid
                           : wanted > assess::kWidestGrid ? assess::kWidestGrid
                                                          : wanted;
      const i32 lowest = lowest_fine_octave(plan);
      const bool reaches =
          part.grid_exponent + 3 >= lowest && part.grid_exponent + 7 <= lowest + static_cast<i32>(kFineOctaves);
      if (!reaches) {
        *plan.too_narrow = 1;
        atomic_max(plan.largest, bit_cast<u64>(size));
      }
    }
  }
  // The first point with the largest error, in the leaf that is known.
  u64 worst_at = ~u64{0};
  if (all.worst_leaf < plan.leaves) {
    H5L_UNROLL for (u32 i = 0; i < kLeafValues / kThreads; ++i) {
      const u64 at = all.worst_leaf * kLeafValues + i * kThreads + thread();
      const T x = Points<T>::value_at(plan.x, at, plan.params.original_big_endian);
      const T y = Points<T>::value_at(plan.y, at, plan.params.decoded_big_endian);
      const bool is_it = Points<T>::is_valid_point(plan, at, x, y) &&
                         fabs(static_cast<double>(y) - static_cast<double>(x)) == all.worst_size;
      worst_at = is_it && at < worst_at ? at : worst_at;
    }
  }
  worst_at = lowest_of_block(worst_at, shared);
  if (worst_at != ~u64{0} && thread() == 0) {
    part.worst = {plan.first + worst_at,
                  static_cast<double>(Points<T>::value_at(plan.x, worst_at, plan.params.original_big_endian)),
                  static_cast<double>(Points<T>::value_at(plan.y, worst_at, plan.params.decoded_big_endian))};
  }
  // The first points that break the bound: each list is in order, so take the lowest head again and again.
  if (all.violations == 0) return;
  const u32 lists = plan.blocks * kWarps;
  u64 taken = 0;  // numbers below it
  H5L_NO_UNROLL for (u32 i = 0; i < H5L_ASSESS_LISTED; ++i) {
    u64 next = ~u64{0};
    const h5l_assess_point* found = nullptr;
    for (u32 l = thread(); l < lists; l += kThreads) {
      const WarpList& list = plan.lists[l];
      for (u32 k = 0; k < list.count; ++k) {
        if (list.point[k].at < taken) continue;
        if (list.point[k].at < next) {
          next = list.point[k].at;
          found = &list.point[k];
        }
        break;
      }
    }
    const u64 lowest = lowest_of_block(next, shared);
    if (lowest == ~u64{0}) break;
    if (next == lowest) {
      part.violation[i] = *found;
      part.listed = i + 1;
    }
    taken = lowest + 1;
  }
}

// All thread blocks' tables as the part's. A thread for each bin, after merge_totals.
H5L_DEVICE void merge_tables(const PointsPlan& plan) {
  const u32 bin = block_number() * kThreads + thread();
  if (bin >= kBlockBins) return;
  u32 count = 0;
  for_each_word(plan.tables + bin, plan.blocks, kBlockBins, [&](u32 found) { count += found; });
  if (count == 0) return;
  assess::PointsPart& part = *plan.part;
  u32* const bins = part.bins;
  if (bin >= 2 * kFineBins) {
    atomic_add(bins + assess::kLinearBins + (bin - 2 * kFineBins), count);
    return;
  }
  const u32 sign = bin / kFineBins, fine = bin % kFineBins;
  const i32 octave = lowest_fine_octave(plan) + static_cast<i32>(fine / 64);
  const i32 above = octave - part.grid_exponent;  // the octave begins at 2^above widths of linear bins
  if (part.grid_exponent != assess::kNoGrid && above >= 3 && above < 7) {
    atomic_add(bins + sign * 128 + ((64 + fine % 64) >> (6 - above)), count);
    return;
  }
  const i32 log = (octave + 127) * 8 + static_cast<i32>(fine % 64 / 8);
  atomic_add(bins + assess::kLinearBins + sign * 2048 + static_cast<u32>(log < 0 ? 0 : log > 2047 ? 2047 : log), count);
}

// ---------------------------------------------------------------------------------------------------------------------
// Moments of kGroup leaves: a warp for each group, as the state's tree adds them up.

H5L_DEVICE void group_moments(const gpu::GroupPlan& plan) {
  static_assert(gpu::kGroup == 2 * kWarpThreads);
  for (u64 group = u64{block_number()} * kWarps + warp(); group < plan.groups; group += u64{grid_blocks()} * kWarps) {
    const auto* const leaves = reinterpret_cast<const Moments*>(plan.parts) + group * gpu::kGroup;
    Moments own = joined(leaves[2 * lane()], leaves[2 * lane() + 1]);
    for (u32 by = 1; by < kWarpThreads; by *= 2) {
      Moments next;
      next.count = shuffle_xor(own.count, by);
      next.mean_x = shuffle_xor(own.mean_x, by);
      next.mean_e = shuffle_xor(own.mean_e, by);
      next.squares_x = shuffle_xor(own.squares_x, by);
      next.squares_e = shuffle_xor(own.squares_e, by);
      next.products = shuffle_xor(own.products, by);
      next.sum_abs_error = shuffle_xor(own.sum_abs_error, by);
      next.sum_pointwise = shuffle_xor(own.sum_pointwise, by);
      own = (lane() & by) == 0 ? joined(own, next) : joined(next, own);
    }
    if (lane() == 0) reinterpret_cast<Moments*>(plan.sums)[group] = own;
  }
}

}  // namespace h5lossy::H5L_TARGET

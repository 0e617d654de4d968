// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Reductions over all points in one pass (pattern I). A warp takes a leaf, lane i the values i, i + 32, ..., so that
// all sums are those of native/assess, addition by addition. Extrema, counts and histograms do not depend on the order.
//
// While all values are valid, a lane adds the values that it loads. From the first row with an invalid value on, valid
// values are compacted: they are passed on to the lanes that would have them without the invalid ones.
#pragma once

#include "assess/gpu/plans.h"
#include "assess/values.h"
#include "kernels/common/device_primitives.cuh"

namespace h5lossy::H5L_TARGET {

using assess::kLeafValues;
using assess::Moments;
using gpu::kBlockBins;
using gpu::kFineBins;
using gpu::kFineOctaves;
using gpu::PointsPlan;
using gpu::PointsTotals;
using gpu::WarpList;

inline constexpr double kInfinite = __builtin_bit_cast(double, 0x7FF0000000000000ull);

H5L_DEVICE double least(double a, double b) { return a < b ? a : b; }
H5L_DEVICE double most(double a, double b) { return a > b ? a : b; }

// Rows that are summed while as many (float32: twice as many) are prefetched into shared memory.
inline constexpr u32 kRowsAhead = 8;
template <class T>
inline constexpr u32 kTimesAhead = 8 / sizeof(T);

// Values within these are no new extrema of the warp, and do not violate the bound.
struct Known {
  double e_min, e_max, e_min_abs, pointwise_min, pointwise_max;
};

// The state of a warp.
struct WarpNotes {
  Known known;
  double leaf_size, leaf_pointwise;  // the largest |e| and |e / x| of the leaf, if beyond `known`
  double worst_size;                 // largest |e| of its leaves; below 0: none
  u64 worst_leaf;                    // the first leaf with worst_size
  u32 listed;                        // listed violations
};

template <class T>
struct PointsShared {
  u32 table[kBlockBins];
  PointsTotals totals;
  WarpNotes notes[kWarps];
  double compacted[kWarps][2][kWarpThreads];
  alignas(16) u8 ahead[kWarps][kTimesAhead<T>][2][kRowsAhead * kWarpThreads * sizeof(T)];
};

// An unsigned integer in the order of doubles, and back. 0 means none: doubles map to larger numbers.
H5L_DEVICE u64 ordered(double value) {
  const u64 bits = bit_cast<u64>(value);
  return (bits >> 63) != 0 ? ~bits : bits | u64{1} << 63;
}
H5L_DEVICE double from_ordered(u64 number) {
  return bit_cast<double>((number >> 63) != 0 ? number & ~(u64{1} << 63) : ~number);
}

// Decodes numbers of PointsTotals and Seeds; `none` if there is none.
H5L_DEVICE double highest(u64 number, double none) { return number == 0 ? none : from_ordered(number); }
H5L_DEVICE double lowest(u64 number, double none) { return number == 0 ? none : from_ordered(~number); }

template <class Found>
H5L_DEVICE double largest_error(const Found& all) {
  return most(-lowest(all.e_min, 0.0), highest(all.e_max, 0.0));
}

H5L_DEVICE void raise(u64& most, u64 number) { most = number > most ? number : most; }

// The octave of the lowest fine bins: eight below the lowest octave that has linear bins. If the grid is not known yet,
// it follows from the largest error so far, whose bits are `largest`, and fine bins reach up to 16 times that error.
H5L_DEVICE i32 lowest_fine_octave(const PointsPlan& plan, u64 largest) {
  constexpr i32 kFirstLinearOctave = 3;
  i32 grid = plan.grid_exponent;
  if (plan.is_limited == 0) {
    const i32 octave = static_cast<i32>(largest >> 52) - 1023;
    grid = octave - 6 < assess::kFinestGrid   ? assess::kFinestGrid
           : octave - 6 > assess::kWidestGrid ? assess::kWidestGrid
                                              : octave - 6;
  }
  return grid + kFirstLinearOctave - 8;
}

H5L_DEVICE u32 high_word(double value) { return static_cast<u32>(bit_cast<u64>(value) >> 32); }
inline constexpr u32 kNoSign = 0x7FFFFFFFu;

// Counts an error in the fine bins: by its sign, four bits of the exponent and six of the mantissa.
H5L_DEVICE void count_fine(u32* table, u32 high) {
  static_assert(kFineOctaves == 16);
  // Drops the lowest byte, and replicates the sign into the upper bytes.
  const u32 bits = permute_signed(high, 0, 0xBB21) & 0x1FFC0;
  atomic_add(reinterpret_cast<u32*>(reinterpret_cast<u8*>(table) + (bits >> 4)), 1u);
}
// `base` is the high word of the lowest error in the fine bins.
H5L_DEVICE bool is_fine(u32 high, u32 base) { return (high & kNoSign) - base < kFineOctaves << 20; }

// The logarithmic bin of any error.
H5L_DEVICE u32 log_bin(u32 high) {
  const i32 log = static_cast<i32>((high & kNoSign) >> 17) - 896 * 8;
  return 2 * kFineBins + (high >> 31) * 2048 + static_cast<u32>(log < 0 ? 0 : log > 2047 ? 2047 : log);
}

H5L_DEVICE void count_error(u32* table, u32 high, u32 base) {
  is_fine(high, base) ? count_fine(table, high) : atomic_add(table + log_bin(high), 1u);
}

// |e| / |x|. A float32 has few bits, so that a short division suffices.
H5L_DEVICE double divide(double size, double x, float) { return divide_by_short(size, fabs(x)); }
H5L_DEVICE double divide(double size, double x, double) { return size / fabs(x); }

// Extrema of some values; empty minima are +infinity, maxima below all values.
struct Extrema {
  double e_min = kInfinite, e_max = -kInfinite, size_min = kInfinite, size_max = -1;
  double pointwise_min = kInfinite, pointwise_max = -1;

  H5L_DEVICE void add(double e) {
    const double size = fabs(e);
    e_min = least(e, e_min);
    e_max = most(e, e_max);
    size_min = least(size, size_min);
    size_max = most(size, size_max);
  }
  H5L_DEVICE void add_pointwise(double pointwise) {
    pointwise_min = least(pointwise, pointwise_min);
    pointwise_max = most(pointwise, pointwise_max);
  }
};

// High words of `Known`, rounded so that numbers within them are within `Known`.
struct KnownWords {
  i32 top, smallest, pointwise_least, pointwise_most;  // of the largest error; the smallest |e|; |e / x|
  u32 bottom;                                          // of the lowest error
};

// A lane's sums over a leaf.
struct LeafSums {
  double x = 0, xx = 0, e = 0, ee = 0, xe = 0, abs_e = 0, pointwise = 0;
};

// Where a leaf's moments are stored: those of whole groups are added up on the device.
H5L_DEVICE Moments* moments_at(const PointsPlan& plan, u64 leaf) {
  if (leaf < plan.head) return plan.rest + leaf;
  const u64 grouped = plan.groups * gpu::kLeafGroup;
  return leaf - plan.head < grouped ? plan.moments + (leaf - plan.head) : plan.rest + (leaf - grouped);
}

H5L_DEVICE void take_worse(gpu::BlockWorst& worst, const gpu::BlockWorst& other) {
  if (other.size > worst.size || (other.size == worst.size && other.leaf < worst.leaf)) worst = other;
}

H5L_DEVICE void raise_seeds(gpu::Seeds& seeds, const gpu::Seeds& others) {
  raise(seeds.e_min, others.e_min);
  raise(seeds.e_min_abs, others.e_min_abs);
  raise(seeds.pointwise_min, others.pointwise_min);
  raise(seeds.e_max, others.e_max);
  raise(seeds.pointwise_max, others.pointwise_max);
}

H5L_DEVICE void max_over_warp(gpu::Seeds& seeds) {
  for (u32 by = kWarpThreads / 2; by != 0; by /= 2) {
    raise_seeds(seeds,
                {shuffle_xor(seeds.e_min, by), shuffle_xor(seeds.e_min_abs, by), shuffle_xor(seeds.pointwise_min, by),
                 shuffle_xor(seeds.e_max, by), shuffle_xor(seeds.pointwise_max, by)});
  }
}

template <class T>
class Points {
 public:
  H5L_DEVICE explicit Points(const PointsPlan& plan)
      : plan_(plan),
        shared_(*reinterpret_cast<PointsShared<T>*>(shared_memory())),
        notes_(shared_.notes[warp()]),
        threshold_(plan.params.pointwise_threshold > 0 ? plan.params.pointwise_threshold : kInfinite) {}

  H5L_DEVICE void run() {
    plan_.is_simple != 0 ? add_leaves<true>() : add_leaves<false>();
    finish();
  }

  template <class V>
  static H5L_DEVICE bool is_valid_point(const PointsPlan& plan, u64 at, V x, V y) {
    if (plan.mask != nullptr && plan.mask[at] != 0) return false;
    return kind_of<V>(bit_cast<Word<V>>(x), bit_cast<Word<V>>(y), plan.params) == H5L_SPECIAL_KINDS;
  }
  static H5L_DEVICE T value_at(const u8* values, u64 at, u32 is_swapped) {
    const auto word = *reinterpret_cast<const Word<T>*>(values + at * sizeof(T));
    return bit_cast<T>(is_swapped != 0 ? swapped(word) : word);
  }

 private:
  static constexpr u32 kRows = kRowsAhead, kTimes = kTimesAhead<T>;
  static constexpr u32 kLeafRows = kLeafValues / kWarpThreads;
  static constexpr u32 kRowBytes = kWarpThreads * sizeof(T), kGroupBytes = kRows * kRowBytes;

  // Processes the warp's leaves. kSimple is described in PointsPlan.
  template <bool kSimple>
  H5L_DEVICE void add_leaves() {
    const u32 leaves = static_cast<u32>(plan_.leaves), leaves_at_once = grid_blocks() * kWarps;
    u32 leaf = block_number() * kWarps + warp();
    go_to<kSimple>(leaf);
    for (u32 i = 0; i < kTimes; ++i) fetch<kSimple>(i, leaf < leaves);
    begin();
    for (; leaf < leaves; leaf += leaves_at_once) {
      add_leaf<kSimple>(leaf, leaf + leaves_at_once < leaves ? leaf + leaves_at_once : leaf);
    }
  }

  H5L_DEVICE void begin() {
    for (u32 i = thread(); i < kBlockBins; i += kThreads) shared_.table[i] = 0;
    u64* const words = reinterpret_cast<u64*>(&shared_.totals);
    for (u32 i = thread(); i < sizeof(PointsTotals) / 8; i += kThreads) words[i] = 0;
    begin_notes();
    sync_block();
  }

  // The thread's offset in the rows that it copies to shared memory.
  template <bool kSimple>
  static H5L_DEVICE u32 own_share() {
    return lane() * (kSimple ? 16 : static_cast<u32>(sizeof(T)));
  }

  // Continues with the first rows of a leaf.
  template <bool kSimple>
  H5L_DEVICE void go_to(u32 leaf) {
    const u64 offset = u64{leaf} * (kLeafValues * sizeof(T)) + own_share<kSimple>();
    next_x_ = plan_.x + offset;
    next_y_ = plan_.y + offset;
  }

  // Starts to copy the next rows, if there are any.
  template <bool kSimple>
  H5L_DEVICE void fetch(u32 time, bool is_there) {
    if (is_there) {
      u8* const to = shared_.ahead[warp()][time][0] + own_share<kSimple>();
      if constexpr (kSimple) {
        H5L_UNROLL for (u32 at = 0; at < kGroupBytes; at += 16 * kWarpThreads) {
          copy_async_of_run(to + at, next_x_ + at);
          copy_async_of_run(to + kGroupBytes + at, next_y_ + at);
        }
      } else {
        H5L_NO_UNROLL for (u32 at = 0; at < kGroupBytes; at += kRowBytes) {
          copy_async<sizeof(T)>(to + at, next_x_ + at);
          copy_async<sizeof(T)>(to + kGroupBytes + at, next_y_ + at);
        }
      }
      next_x_ += kGroupBytes;
      next_y_ += kGroupBytes;
    }
    group_copies();
  }

  // Byte-swaps the thread's values of the rows in shared memory.
  static H5L_DEVICE void swap_rows(u8* own) {
    H5L_NO_UNROLL for (u32 r = 0; r < kRows; ++r) {
      auto& word = *reinterpret_cast<Word<T>*>(own + r * kRowBytes);
      word = swapped(word);
    }
  }

  // `next` is the leaf after this one; `leaf` itself if there is none.
  template <bool kSimple>
  H5L_DEVICE void add_leaf(u32 leaf, u32 next) {
    kept_ = 0;
    sums_ = {};
    const u32 changed_before = zeros_changed_;
    H5L_NO_UNROLL for (u32 row = 0; row < kLeafRows; row += kRows) {
      T a[kRows], b[kRows];
      const u32 time = row / kRows % kTimes;
      u8* const x = shared_.ahead[warp()][time][0] + lane() * sizeof(T);
      u8* const y = x + kGroupBytes;
      wait_for_copies_but<kTimes - 1>();
      sync_warp();
      if (!kSimple && plan_.params.original_big_endian != 0) swap_rows(x);
      if (!kSimple && plan_.params.decoded_big_endian != 0) swap_rows(y);
      H5L_UNROLL for (u32 r = 0; r < kRows; ++r) {
        a[r] = *reinterpret_cast<const T*>(x + r * kRowBytes);
        b[r] = *reinterpret_cast<const T*>(y + r * kRowBytes);
      }
      sync_warp();
      if (row + kTimes * kRows == kLeafRows) go_to<kSimple>(next);
      fetch<kSimple>(time, row + kTimes * kRows < kLeafRows || next != leaf);
      T x_min = a[0], x_max = a[0], y_min = b[0], y_max = b[0];
      H5L_UNROLL for (u32 r = 1; r < kRows; ++r) {
        x_min = smaller_or_nan(a[r], x_min);
        x_max = larger_or_nan(a[r], x_max);
        y_min = smaller_or_nan(b[r], y_min);
        y_max = larger_or_nan(b[r], y_max);
      }
      // False for NaN as well.
      const T infinite = static_cast<T>(kInfinite);
      bool is_plain = (x_min > -infinite) & (x_max < infinite) & (y_min > -infinite) & (y_max < infinite) &
                      (kept_ == row * kWarpThreads) & (kSimple || plan_.mask == nullptr);
      if (!kSimple && plan_.params.has_fill != 0) {
        const auto fill = static_cast<Word<T>>(plan_.params.fill_bits);
        H5L_UNROLL for (u32 r = 0; r < kRows; ++r) {
          is_plain = is_plain & (bit_cast<Word<T>>(a[r]) != fill) & (bit_cast<Word<T>>(b[r]) != fill);
        }
      }
      if (!any_in_warp(!is_plain)) {
        if (row == 0) set_pivots(shuffle(a[0], 0), shuffle(b[0], 0));
        x_min_ = smaller_or_nan(x_min, x_min_);
        x_max_ = larger_or_nan(x_max, x_max_);
        y_min_ = smaller_or_nan(y_min, y_min_);
        y_max_ = larger_or_nan(y_max, y_max_);
        if (kSimple || plan_.params.threshold_count == 0) {
          add_plain(a, b);
        } else {
          H5L_NO_UNROLL for (u32 r = 0; r < kRows; ++r) note(add(pick(a, r), pick(b, r)));
        }
        kept_ += kRows * kWarpThreads;
      } else {
        H5L_NO_UNROLL for (u32 r = 0; r < kRows; ++r) {
          add_some(u64{leaf} * kLeafValues + (row + r) * kWarpThreads + lane(), pick(a, r), pick(b, r));
        }
      }
    }
    finish_leaf(leaf, zeros_changed_ != changed_before);
  }

  // Element r, without a dynamic index, which would move the array to local memory.
  static H5L_DEVICE T pick(const T (&values)[kRows], u32 r) {
    T picked = values[0];
    H5L_UNROLL for (u32 i = 1; i < kRows; ++i) picked = r == i ? values[i] : picked;
    return picked;
  }

  H5L_DEVICE void set_pivots(T x, T y) {
    pivot_x_ = static_cast<double>(x);
    pivot_e_ = static_cast<double>(y) - pivot_x_;
  }

  struct Point {
    double x, y, e, size;
  };

  // Adds a point to all sums but the pointwise ones.
  H5L_DEVICE Point sum(T original, T decoded) {
    const double x = static_cast<double>(original), y = static_cast<double>(decoded);
    const double e = y - x, size = fabs(e);
    const double from_x = x - pivot_x_, from_e = e - pivot_e_;
    sums_.x += from_x;
    sums_.xx = fused_multiply_add(from_x, from_x, sums_.xx);
    sums_.e += from_e;
    sums_.ee = fused_multiply_add(from_e, from_e, sums_.ee);
    sums_.xe = fused_multiply_add(from_x, from_e, sums_.xe);
    sums_.abs_e += size;
    return {x, y, e, size};
  }

  // Adds rows of valid points, without thresholds. The largest and smallest high words of a group tell whether one of
  // its rare cases may have occurred: errors outside the fine bins, new extrema, division by 0.
  H5L_DEVICE void add_plain(const T (&a)[kRows], const T (&b)[kRows]) {
    i32 top = -2147483647 - 1;
    u32 bottom = 0, smallest = ~0u, pointwise_least = ~0u, pointwise_most = 0;
    u32 high[kRows];  // of errors
    const double pointwise_before = sums_.pointwise;
    const u32 over_threshold_before = over_threshold_;
    H5L_UNROLL for (u32 r = 0; r < kRows; r += 2) {
      u32 of_pointwise[2];
      H5L_UNROLL for (u32 i = 0; i < 2; ++i) {
        const Point point = sum(a[r + i], b[r + i]);
        const double pointwise = divide(point.size, point.x, T{});
        sums_.pointwise += pointwise;
        count_above(over_threshold_, pointwise, threshold_);
        high[r + i] = high_word(point.e);
        of_pointwise[i] = high_word(pointwise);
      }
      top = highest_of(top, static_cast<i32>(high[r]), static_cast<i32>(high[r + 1]));
      bottom = highest_of(bottom, high[r], high[r + 1]);
      smallest = lowest_of(smallest, high[r] & kNoSign, high[r + 1] & kNoSign);
      pointwise_least = lowest_of(pointwise_least, of_pointwise[0], of_pointwise[1]);
      pointwise_most = highest_of(pointwise_most, of_pointwise[0], of_pointwise[1]);
    }
    const u32 fine_end = fine_base_ + (kFineOctaves << 20);
    const bool is_outside =
        (smallest < fine_base_) | (top >= static_cast<i32>(fine_end)) | (bottom >= (fine_end | ~kNoSign));
    const bool may_be_new =
        (top >= words_.top) | (bottom >= words_.bottom) | (static_cast<i32>(smallest) <= words_.smallest);
    // Also if a quotient is NaN.
    const bool may_be_new_pointwise = (static_cast<i32>(pointwise_least) <= words_.pointwise_least) |
                                      (pointwise_most >= static_cast<u32>(words_.pointwise_most));
    if (!any_in_warp(is_outside | may_be_new | may_be_new_pointwise)) {
      H5L_UNROLL for (u32 r = 0; r < kRows; ++r) count_fine(shared_.table, high[r]);
      return;
    }
    H5L_UNROLL for (u32 r = 0; r < kRows; ++r) count_error(shared_.table, high[r], fine_base_);
    if (!any_in_warp(may_be_new | may_be_new_pointwise)) return;
    Extrema own;
    H5L_UNROLL for (u32 r = 0; r < kRows; ++r) own.add(static_cast<double>(b[r]) - static_cast<double>(a[r]));
    if (any_in_warp(may_be_new_pointwise)) {
      sums_.pointwise = pointwise_before;
      over_threshold_ = over_threshold_before;
      H5L_NO_UNROLL for (u32 r = 0; r < kRows; ++r) {
        const double x = static_cast<double>(pick(a, r)), e = static_cast<double>(pick(b, r)) - x;
        add_pointwise(x, e, own);
      }
    }
    note(own);
  }

  // Adds the pointwise error e / x.
  H5L_DEVICE void add_pointwise(double x, double e, Extrema& own) {
    if (x == 0) {
      ++zeros_;
      if (e != 0) {
        ++zeros_changed_;
        over_threshold_ += threshold_ < kInfinite ? 1 : 0;
      }
    } else {
      const double pointwise = fabs(e) / fabs(x);
      sums_.pointwise += pointwise;
      count_above(over_threshold_, pointwise, threshold_);
      own.add_pointwise(pointwise);
    }
  }

  // Adds any other valid point.
  H5L_DEVICE Extrema add(T original, T decoded) {
    const Point point = sum(original, decoded);
    count_error(shared_.table, high_word(point.e), fine_base_);
    Extrema own;
    own.add(point.e);
    add_pointwise(point.x, point.e, own);
    for (u32 f = 0; f < plan_.params.threshold_count; ++f) {
      const double side = plan_.params.thresholds[f];
      if ((point.x >= side) != (point.y >= side)) atomic_add(&shared_.totals.threshold_crossings[f], u64{1});
    }
    return own;
  }

  // Starts from extrema of samples: few values are beyond them. Values equal to them are examined once per warp, to
  // find the first leaf with the largest error.
  H5L_DEVICE void begin_notes() {
    gpu::Seeds seeds = {};
    for (u32 i = lane(); i < plan_.samples; i += kWarpThreads) raise_seeds(seeds, plan_.seeds[i]);
    max_over_warp(seeds);
    // A second launch starts from the first one's extrema.
    u64 largest = load_relaxed(plan_.largest);
    raise(largest, bit_cast<u64>(largest_error(seeds)));
    if (block_number() == 0 && thread() == 0) atomic_max(plan_.largest, largest);
    fine_base_ = static_cast<u32>(lowest_fine_octave(plan_, largest) + 1023) << 20;
    if (lane() == 0) {
      // Infinite extrema cannot be exceeded.
      const auto above = [](u64 seed) { return seed == 0 ? kInfinite : least(from_ordered(~seed + 1), kInfinite); };
      const auto below = [](u64 seed) { return seed == 0 ? -kInfinite : most(from_ordered(seed - 1), -kInfinite); };
      Known& known = notes_.known;
      known.e_min = above(seeds.e_min);
      known.e_min_abs = above(seeds.e_min_abs);
      known.pointwise_min = above(seeds.pointwise_min);
      known.e_max = below(seeds.e_max);
      known.pointwise_max = below(seeds.pointwise_max);
      limit_known();
      notes_.leaf_size = notes_.leaf_pointwise = 0;
      notes_.worst_size = -1;
      notes_.worst_leaf = ~u64{0};
      notes_.listed = 0;
    }
    sync_warp();
    set_words();
  }

  H5L_DEVICE void limit_known() {
    const h5l_assess_params& params = plan_.params;
    Known& known = notes_.known;
    if (params.bound_kind == H5L_BOUND_ABSOLUTE) {
      const double below = from_ordered(ordered(params.limit[0]) - 1);
      known.e_max = least(below, known.e_max);
      known.e_min = most(-below, known.e_min);
    }
    if (params.bound_kind == H5L_BOUND_POINTWISE_RELATIVE) {
      known.pointwise_max = least(from_ordered(ordered(pointwise_limit()) - 1), known.pointwise_max);
    }
  }

  // A limit below which pointwise errors are within the bound, despite the rounding of the quotient.
  H5L_DEVICE double pointwise_limit() const {
    const double limit = plan_.params.limit[0];
    return limit > 1e-280 ? limit * (1 - 0x1p-50) : 0;
  }

  H5L_DEVICE void set_words() {
    // For positive numbers: differences and quotients of float32 have nonzero high words.
    constexpr i32 kLowest = sizeof(T) == 4 ? 1 : 0;
    const auto high = [](double value) { return static_cast<i32>(high_word(value)); };
    const auto at_least = [](i32 word) { return word < kLowest ? kLowest : word; };
    const Known& known = notes_.known;
    words_.top = known.e_max >= 0 ? at_least(high(known.e_max)) : -2147483647 - 1;
    words_.bottom = known.e_min <= 0 ? static_cast<u32>(at_least(high(-known.e_min))) | ~kNoSign : 0;
    words_.smallest = known.e_min_abs > 0 ? high(known.e_min_abs) : -1;
    words_.pointwise_least = known.pointwise_min > 0 ? high(known.pointwise_min) : -1;
    words_.pointwise_most = at_least(high(known.pointwise_max));
  }

  // Updates the warp's extrema with those of its threads.
  H5L_DEVICE void note(Extrema found) {
    const Known known = notes_.known;
    const bool is_new = (found.e_min < known.e_min) | (found.e_max > known.e_max) | (found.size_min < known.e_min_abs) |
                        (found.pointwise_min < known.pointwise_min) | (found.pointwise_max > known.pointwise_max);
    if (!any_in_warp(is_new)) return;
    found.e_min = least_of_warp(found.e_min);
    found.e_max = most_of_warp(found.e_max);
    found.size_min = least_of_warp(found.size_min);
    found.size_max = most_of_warp(found.size_max);
    found.pointwise_min = least_of_warp(found.pointwise_min);
    found.pointwise_max = most_of_warp(found.pointwise_max);
    sync_warp();
    if (lane() == 0) {
      notes_.known = {least(found.e_min, known.e_min), most(found.e_max, known.e_max),
                      least(found.size_min, known.e_min_abs), least(found.pointwise_min, known.pointwise_min),
                      most(found.pointwise_max, known.pointwise_max)};
      limit_known();
      notes_.leaf_size = most(found.size_max, notes_.leaf_size);
      notes_.leaf_pointwise = most(found.pointwise_max, notes_.leaf_pointwise);
      PointsTotals& totals = shared_.totals;
      atomic_max(&totals.e_min, ~ordered(found.e_min));
      atomic_max(&totals.e_max, ordered(found.e_max));
      atomic_max(&totals.e_min_abs, ~ordered(found.size_min));
      atomic_max(&totals.pointwise_min, ~ordered(found.pointwise_min));
      if (found.pointwise_max >= 0) atomic_max(&totals.pointwise_max, ordered(found.pointwise_max));
    }
    sync_warp();
    set_words();
  }

  // Adds a row of points, some of which may be invalid. `at` is the lane's point in the launch.
  H5L_DEVICE void add_some(u64 at, T x, T y) {
    const bool is_masked = plan_.mask != nullptr && plan_.mask[at] != 0;
    const auto x_bits = bit_cast<Word<T>>(x), y_bits = bit_cast<Word<T>>(y);
    const h5l_assess_params& params = plan_.params;
    u32 kind = H5L_SPECIAL_KINDS;
    if (is_masked) {
      atomic_add(&shared_.totals.masked, u64{1});
    } else {
      kind = kind_of<T>(x_bits, y_bits, params);
      // The format allows values to become a fill value of +0.0.
      if (params.has_fill != 0 && params.fill_bits != 0 && x_bits != params.fill_bits && y_bits == params.fill_bits &&
          is_finite<T>(x_bits)) {
        count_special(H5L_SPECIAL_FILL_INTRODUCED, at);
      }
      if (kind != H5L_SPECIAL_KINDS) count_special(kind, at);
    }
    const bool is_valid = !is_masked && kind == H5L_SPECIAL_KINDS;
    const u32 valid = ballot(is_valid);
    const u32 count = ones(valid);
    double (&compacted)[2][kWarpThreads] = shared_.compacted[warp()];
    if (is_valid) {
      const u32 to = (kept_ + ones(valid & lanes_below())) % kWarpThreads;
      compacted[0][to] = static_cast<double>(x);
      compacted[1][to] = static_cast<double>(y);
    }
    sync_warp();
    if (kept_ == 0 && count != 0) set_pivots(static_cast<T>(compacted[0][0]), static_cast<T>(compacted[1][0]));
    Extrema own;
    if ((lane() - kept_) % kWarpThreads < count) {
      const T a = static_cast<T>(compacted[0][lane()]), b = static_cast<T>(compacted[1][lane()]);
      x_min_ = a < x_min_ ? a : x_min_;
      x_max_ = a > x_max_ ? a : x_max_;
      y_min_ = b < y_min_ ? b : y_min_;
      y_max_ = b > y_max_ ? b : y_max_;
      own = add(a, b);
    }
    sync_warp();
    note(own);
    kept_ += count;
  }

  H5L_DEVICE void count_special(u32 kind, u64 at) {
    atomic_add(&shared_.totals.special[kind], u64{1});
    atomic_max(&shared_.totals.special_first[kind], ~(plan_.first + at));
  }

  H5L_DEVICE void finish_leaf(u32 leaf, bool changed_zeros) {
    Moments moments = {};
    if (kept_ != 0) {
      moments = moments_of(kept_, pivot_x_, pivot_e_,
                           {sum_of_warp(sums_.x), sum_of_warp(sums_.e), sum_of_warp(sums_.xx), sum_of_warp(sums_.ee),
                            sum_of_warp(sums_.xe), sum_of_warp(sums_.abs_e), sum_of_warp(sums_.pointwise)});
      if (any_in_warp(may_break(changed_zeros))) check_bound(leaf);
    }
    sync_warp();
    if (lane() == 0) {
      *moments_at(plan_, leaf) = moments;
      if (kept_ != 0) {
        atomic_add(&shared_.totals.valid, u64{kept_});
        if (notes_.leaf_size > notes_.worst_size) {
          notes_.worst_size = notes_.leaf_size;
          notes_.worst_leaf = leaf;
        }
      }
      notes_.leaf_size = notes_.leaf_pointwise = 0;
    }
    sync_warp();
  }

  H5L_DEVICE bool may_break(bool changed_zeros) const {
    const h5l_assess_params& params = plan_.params;
    switch (params.bound_kind) {
      case H5L_BOUND_ABSOLUTE:
        return notes_.leaf_size >= params.limit[0];
      case H5L_BOUND_POINTWISE_RELATIVE:
        return changed_zeros || notes_.leaf_pointwise >= pointwise_limit();
      default:
        return params.bound_kind == H5L_BOUND_LOSSLESS;
    }
  }

  // Counts and lists the points of a leaf that violate the bound.
  H5L_DEVICE void check_bound(u32 leaf) {
    WarpList& list = plan_.lists[block_number() * kWarps + warp()];
    u32 listed = notes_.listed;
    u64 violations = 0;
    H5L_NO_UNROLL for (u32 row = 0; row < kLeafValues / kWarpThreads; ++row) {
      const u64 at = u64{leaf} * kLeafValues + row * kWarpThreads + lane();
      const T x = value_at(plan_.x, at, plan_.params.original_big_endian);
      const T y = value_at(plan_.y, at, plan_.params.decoded_big_endian);
      const bool is_valid = is_valid_point<T>(plan_, at, x, y);
      const u32 broken = ballot(is_valid && breaks<T>(plan_.params, x, y));
      if (broken == 0) continue;
      const u32 place = listed + ones(broken & lanes_below());
      if ((broken >> lane() & 1) != 0 && place < H5L_ASSESS_LISTED) {
        list.point[place] = {plan_.first + at, static_cast<double>(x), static_cast<double>(y)};
      }
      listed = listed + ones(broken) < H5L_ASSESS_LISTED ? listed + ones(broken) : H5L_ASSESS_LISTED;
      violations += ones(broken);
    }
    sync_warp();
    if (lane() != 0) return;
    notes_.listed = listed;
    atomic_add(&shared_.totals.violations, violations);
  }

  template <class Better>
  static H5L_DEVICE double best_of_warp(double own, Better better) {
    for (u32 by = kWarpThreads / 2; by != 0; by /= 2) own = better(shuffle_xor(own, by), own);
    return own;
  }
  static H5L_DEVICE double most_of_warp(double own) { return best_of_warp(own, most); }
  static H5L_DEVICE double least_of_warp(double own) { return best_of_warp(own, least); }

  // Adds the thread block's results to the device's.
  H5L_DEVICE void finish() {
    PointsTotals& totals = shared_.totals;
    const double x_min = least_of_warp(static_cast<double>(x_min_)), x_max = most_of_warp(static_cast<double>(x_max_));
    const double y_min = least_of_warp(static_cast<double>(y_min_)), y_max = most_of_warp(static_cast<double>(y_max_));
    const u32 zeros = sum_of_warp(zeros_), zeros_changed = sum_of_warp(zeros_changed_);
    const u32 over_threshold = sum_of_warp(over_threshold_);
    if (lane() == 0) {
      plan_.lists[block_number() * kWarps + warp()].count = notes_.listed;
      atomic_max(&totals.x_min, ~ordered(x_min));
      atomic_max(&totals.x_max, ordered(x_max));
      atomic_max(&totals.y_min, ~ordered(y_min));
      atomic_max(&totals.y_max, ordered(y_max));
      atomic_add(&totals.zeros, u64{zeros});
      atomic_add(&totals.zeros_changed, u64{zeros_changed});
      atomic_add(&totals.over_threshold, u64{over_threshold});
    }
    sync_block();
    if (thread() == 0) {
      gpu::BlockWorst worst = {-1.0, ~u64{0}};
      for (const WarpNotes& notes : shared_.notes) take_worse(worst, {notes.worst_size, notes.worst_leaf});
      plan_.worst[block_number()] = worst;
    }
    constexpr u32 kFields = sizeof(PointsTotals) / 8, kSums = word_of(&PointsTotals::special_first);
    static_assert(kFields <= kThreads);
    if (thread() < kFields) {
      const u64 own = reinterpret_cast<const u64*>(&totals)[thread()];
      u64* const all = reinterpret_cast<u64*>(plan_.totals) + thread();
      if (thread() < kSums) {
        if (own != 0) atomic_add(all, own);
      } else if (own > load_relaxed(all)) {
        atomic_max(all, own);
      }
    }
    for (u32 i = thread(); i < kBlockBins; i += kThreads) {
      if (shared_.table[i] != 0) atomic_add(plan_.table + i, shared_.table[i]);
    }
  }

  const PointsPlan& plan_;
  PointsShared<T>& shared_;
  WarpNotes& notes_;
  u32 fine_base_ = 0;  // high word of the lowest error in the fine bins
  const double threshold_;
  T x_min_ = static_cast<T>(kInfinite), x_max_ = static_cast<T>(-kInfinite);
  T y_min_ = static_cast<T>(kInfinite), y_max_ = static_cast<T>(-kInfinite);
  KnownWords words_;
  LeafSums sums_;
  double pivot_x_ = 0, pivot_e_ = 0;
  const u8 *next_x_ = nullptr, *next_y_ = nullptr;  // next values to copy
  u32 zeros_ = 0, zeros_changed_ = 0, over_threshold_ = 0;
  u32 kept_ = 0;
};

template <class T>
H5L_DEVICE void add_points(const PointsPlan& plan) {
  Points<T>(plan).run();
}

struct MergeShared {
  u64 next[kWarps];
  PointsTotals totals;
  Moments moments[kWarps];
  gpu::Seeds seeds[kWarps];
};

// Extrema of some values at the start of each block's share of the leaves. Also clears the words that start at 0.
inline constexpr u32 kSampledValues = 1024;

template <class T>
H5L_DEVICE void sample_errors(const PointsPlan& plan) {
  constexpr u32 kEach = kSampledValues / kThreads;
  const u64 first = block_number() * (plan.leaves / grid_blocks()) * kLeafValues + thread();
  T a[kEach], b[kEach];
  H5L_UNROLL for (u32 i = 0; i < kEach; ++i) {
    a[i] = Points<T>::value_at(plan.x, first + i * kThreads, plan.params.original_big_endian);
    b[i] = Points<T>::value_at(plan.y, first + i * kThreads, plan.params.decoded_big_endian);
  }
  for (u64 i = block_number() * kThreads + thread(); i <= plan.cleared; i += grid_blocks() * kThreads) {
    plan.largest[i] = 0;
  }
  gpu::Seeds found = {};
  H5L_UNROLL for (u32 i = 0; i < kEach; ++i) {
    if (!Points<T>::is_valid_point(plan, first + i * kThreads, a[i], b[i])) continue;
    const double x = static_cast<double>(a[i]), e = static_cast<double>(b[i]) - x;
    raise(found.e_min, ~ordered(e));
    raise(found.e_max, ordered(e));
    raise(found.e_min_abs, ~ordered(fabs(e)));
    if (x == 0) continue;
    raise(found.pointwise_min, ~ordered(fabs(e) / fabs(x)));
    raise(found.pointwise_max, ordered(fabs(e) / fabs(x)));
  }
  max_over_warp(found);
  gpu::Seeds(&of_warps)[kWarps] = reinterpret_cast<MergeShared*>(shared_memory())->seeds;
  if (lane() == 0) of_warps[warp()] = found;
  sync_block();
  if (thread() != 0) return;
  for (u32 w = 1; w < kWarps; ++w) raise_seeds(found, of_warps[w]);
  plan.seeds[block_number()] = found;
}

// ---------------------------------------------------------------------------------------------------------------------
// The results for the host, from one kernel: one thread block writes the totals, one the largest error, some write the
// histogram, and the others add up moments.

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

H5L_DEVICE i32 grid_of_errors(const PointsPlan& plan, const PointsTotals& all) {
  if (all.valid == 0) return assess::kNoGrid;
  if (plan.is_limited != 0) return plan.grid_exponent;
  const double size = largest_error(all);
  if (!(size > 0)) return assess::kNoGrid;
  // As in native/assess: |e| < 2^exponent.
  i32 exponent = assess::kWidestGrid + 7;
  if (size < kInfinite) static_cast<void>(frexp(size, &exponent));
  const i32 wanted = exponent - 7;
  return wanted < assess::kFinestGrid   ? assess::kFinestGrid
         : wanted > assess::kWidestGrid ? assess::kWidestGrid
                                        : wanted;
}

// The number of the first valid point of a leaf that passes a test, or ~0.
template <class T, class Test>
H5L_DEVICE u64 first_point(const PointsPlan& plan, u64 leaf, MergeShared& shared, Test test) {
  constexpr u32 kEach = kLeafValues / kThreads;
  const u64 first = leaf * kLeafValues + thread();
  T x[kEach], y[kEach];
  H5L_UNROLL for (u32 i = 0; i < kEach; ++i) {
    x[i] = Points<T>::value_at(plan.x, first + i * kThreads, plan.params.original_big_endian);
    y[i] = Points<T>::value_at(plan.y, first + i * kThreads, plan.params.decoded_big_endian);
  }
  u64 found = ~u64{0};
  H5L_UNROLL for (u32 i = kEach; i-- != 0;) {
    const bool is_it = test(static_cast<double>(x[i]), static_cast<double>(y[i])) &&
                       Points<T>::is_valid_point(plan, first + i * kThreads, x[i], y[i]);
    found = is_it ? first + i * kThreads : found;
  }
  return lowest_of_block(found, shared);
}

template <class T>
H5L_DEVICE h5l_assess_point point_at(const PointsPlan& plan, u64 at) {
  return {plan.first + at, static_cast<double>(Points<T>::value_at(plan.x, at, plan.params.original_big_endian)),
          static_cast<double>(Points<T>::value_at(plan.y, at, plan.params.decoded_big_endian))};
}

template <class T>
H5L_DEVICE void finalize_totals(const PointsPlan& plan) {
  MergeShared& shared = *reinterpret_cast<MergeShared*>(shared_memory());
  const PointsTotals& all = shared.totals;
  if (thread() < sizeof all / 8) {
    reinterpret_cast<u64*>(&shared.totals)[thread()] = reinterpret_cast<const u64*>(plan.totals)[thread()];
  }
  sync_block();
  assess::PointsPart& part = plan.outcome->part;
  if (thread() == 0) {
    part.valid = all.valid;
    part.masked = all.masked;
    part.zeros = all.zeros;
    part.zeros_changed = all.zeros_changed;
    part.over_threshold = all.over_threshold;
    part.violations = all.violations;
    part.original_min = lowest(all.x_min, kInfinite);
    part.original_max = highest(all.x_max, -kInfinite);
    part.decoded_min = lowest(all.y_min, kInfinite);
    part.decoded_max = highest(all.y_max, -kInfinite);
    part.error_min = lowest(all.e_min, kInfinite);
    part.error_max = highest(all.e_max, -kInfinite);
    part.error_min_abs = lowest(all.e_min_abs, kInfinite);
    part.pointwise_min = lowest(all.pointwise_min, kInfinite);
    part.pointwise_max = highest(all.pointwise_max, 0.0);
    part.grid_exponent = grid_of_errors(plan, all);
    if (plan.is_limited == 0 && part.grid_exponent != assess::kNoGrid) {
      const i32 octave = lowest_fine_octave(plan, load_relaxed(plan.largest));
      const bool reaches =
          part.grid_exponent + 3 >= octave && part.grid_exponent + 7 <= octave + static_cast<i32>(kFineOctaves);
      if (!reaches) {
        plan.outcome->too_narrow = 1;
        atomic_max(plan.largest, bit_cast<u64>(largest_error(all)));
      }
    }
  }
  if (thread() < H5L_SPECIAL_KINDS) {
    part.special[thread()] = all.special[thread()];
    part.special_first[thread()] = ~all.special_first[thread()];
  }
  if (thread() < H5L_ASSESS_MAX_THRESHOLDS) part.threshold_crossings[thread()] = all.threshold_crossings[thread()];
  if (all.valid == 0) return;

  // The first valid point.
  u64 leaf = ~u64{0};
  for (u64 start = 0; leaf == ~u64{0} && start < plan.leaves; start += kThreads) {
    const u64 own = start + thread();
    leaf = lowest_of_block(own < plan.leaves && moments_at(plan, own)->count != 0 ? own : ~u64{0}, shared);
  }
  const u64 first = first_point<T>(plan, leaf, shared, [](double, double) { return true; });
  if (thread() == 0 && first != ~u64{0}) plan.outcome->first = point_at<T>(plan, first);
  // The first violations: each list is sorted, so merge them by their heads.
  if (all.violations == 0) return;
  const u32 lists = plan.blocks * kWarps;
  u64 taken = 0;  // all points below it are merged
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
    const u64 lowest_one = lowest_of_block(next, shared);
    if (lowest_one == ~u64{0}) break;
    if (next == lowest_one) {
      part.violation[i] = *found;
      part.listed = i + 1;
    }
    taken = lowest_one + 1;
  }
}

// The first point with the largest error, in the first leaf that has it.
template <class T>
H5L_DEVICE void finalize_worst(const PointsPlan& plan) {
  MergeShared& shared = *reinterpret_cast<MergeShared*>(shared_memory());
  gpu::BlockWorst worst = {-1.0, ~u64{0}};
  for (u32 b = lane(); b < plan.blocks; b += kWarpThreads) take_worse(worst, plan.worst[b]);
  for (u32 by = kWarpThreads / 2; by != 0; by /= 2) {
    const gpu::BlockWorst other = {shuffle_xor(worst.size, by), shuffle_xor(worst.leaf, by)};
    take_worse(worst, other);
  }
  if (worst.leaf >= plan.leaves) return;  // no valid point
  const u64 at =
      first_point<T>(plan, worst.leaf, shared, [=](double x, double y) { return fabs(y - x) == worst.size; });
  if (thread() == 0 && at != ~u64{0}) plan.outcome->part.worst = point_at<T>(plan, at);
}

// Converts a bin of the device's table to the part's histogram.
H5L_DEVICE void finalize_bin(const PointsPlan& plan, u32 bin) {
  const u32 count = bin < kBlockBins ? plan.table[bin] : 0;
  if (count == 0) return;
  u32* const bins = plan.outcome->part.bins;
  if (bin >= 2 * kFineBins) {
    atomic_add(bins + assess::kLinearBins + (bin - 2 * kFineBins), count);
    return;
  }
  const u32 sign = bin / kFineBins, fine = bin % kFineBins;
  // If another block has raised it meanwhile, the results of this launch are discarded.
  const i32 lowest = lowest_fine_octave(plan, load_relaxed(plan.largest));
  const i32 grid = grid_of_errors(plan, *plan.totals);
  const i32 octave = lowest + static_cast<i32>((fine / 64 - static_cast<u32>(lowest + 1023)) % kFineOctaves);
  const i32 above = octave - grid;  // the octave begins at 2^above linear bins
  if (grid != assess::kNoGrid && above >= 3 && above < 7) {
    atomic_add(bins + sign * 128 + ((64 + fine % 64) >> (6 - above)), count);
    return;
  }
  const i32 log = (octave + 127) * 8 + static_cast<i32>(fine % 64 / 8);
  atomic_add(bins + assess::kLinearBins + sign * 2048 + static_cast<u32>(log < 0 ? 0 : log > 2047 ? 2047 : log), count);
}

// Adds the moments of a group of leaves in the order of the state's tree.
H5L_DEVICE void group_moments(const PointsPlan& plan, u64 group) {
  static_assert(gpu::kLeafGroup == 2 * kThreads && kWarps == 4);
  const Moments* const leaves = plan.moments + group * gpu::kLeafGroup + warp() * (2 * kWarpThreads);
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
  Moments(&of_warps)[kWarps] = reinterpret_cast<MergeShared*>(shared_memory())->moments;
  if (lane() == 0) of_warps[warp()] = own;
  sync_block();
  if (thread() == 0) plan.sums[group] = joined(joined(of_warps[0], of_warps[1]), joined(of_warps[2], of_warps[3]));
}

template <class T>
H5L_DEVICE void finalize_points(const PointsPlan& plan) {
  const u32 block = block_number();
  if (block == 0) {
    finalize_totals<T>(plan);
  } else if (block == 1) {
    finalize_worst<T>(plan);
  } else if (block < 2 + gpu::kBinBlocks) {
    finalize_bin(plan, (block - 2) * kThreads + thread());
  } else {
    group_moments(plan, block - 2 - gpu::kBinBlocks);
  }
}

// Writes words to mapped host memory; for few words that is faster than a copy.
H5L_DEVICE void copy_to_host(const gpu::CopyPlan& plan) {
  for (u64 i = block_number() * kThreads + thread(); i < plan.words; i += grid_blocks() * kThreads) {
    plan.to[i] = plan.from[i];
  }
}

}  // namespace h5lossy::H5L_TARGET

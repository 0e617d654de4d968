// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// What points.cpp counts and adds up. It is in an unnamed namespace, since no other file includes this one.
#pragma once

#include <math.h>

#include <utility>

#include "assess/cpu/lanes.h"
#include "assess/kernels.h"
#include "assess/values.h"

namespace h5lossy::H5L_TARGET {
namespace {

using assess::Counters;
using assess::kCounters;
using assess::kCountersOfOctave;
using assess::kFinestGrid;
using assess::kLeafValues;
using assess::kLinearBins;
using assess::kNoCounter;
using assess::kNoGrid;
using assess::kWidestGrid;
using assess::Moments;
using assess::PointsPart;

// Values that are summed while they are in the L1 cache.
template <class T>
constexpr u32 kBlock = 16384 / sizeof(T);

// Points that are checked together for validity and bound, before single ones are.
constexpr u32 kRun = 64;

// Rounds of all lanes that are processed together: the upper halves of two vectors fill one vector.
constexpr u32 kRounds = 2;

// Results of the first pass over a leaf. Extrema are correct only if all values are finite.
template <class T>
struct Survey {
  T x_min, x_max, y_min, y_max;
  bool all_finite, has_zeros;  // of x
};

template <class T>
Survey<T> survey(const T* x, const T* y, u32 count) {
  constexpr Word<T> kNoSign = ~(Word<T>{1} << (8 * sizeof(T) - 1));
  T low[2] = {x[0], y[0]};
  T high[2] = {x[0], y[0]};
  Word<T> least = bit_cast<Word<T>>(x[0]) & kNoSign;
  Word<T> most = 0;
  const auto include = [&](u32 which, T value) {
    const Word<T> size = bit_cast<Word<T>>(value) & kNoSign;
    low[which] = value < low[which] ? value : low[which];
    high[which] = value > high[which] ? value : high[which];
    least = which == 0 && size < least ? size : least;
    most = size > most ? size : most;
  };
  using V = Vector<T>;
  using W = Vector<SignedWord<T>>;  // sizes are below 2^31 or 2^63
  constexpr u32 kStep = kLanes<T>;
  if (count >= kStep) {
    const auto take = [](const T* from) { return load<V>(reinterpret_cast<const u8*>(from)); };
    V x_min = take(x), x_max = x_min, y_min = take(y), y_max = y_min;
    W x_least = bit_cast<W>(x_min) & static_cast<SignedWord<T>>(kNoSign);
    W all_most = {};
    const auto add = [&](u32 i) {
      const V a = take(x + i);
      const V b = take(y + i);
      const W of_a = bit_cast<W>(a) & static_cast<SignedWord<T>>(kNoSign);
      const W of_b = bit_cast<W>(b) & static_cast<SignedWord<T>>(kNoSign);
      x_min = smaller(a, x_min);
      x_max = larger(a, x_max);
      y_min = smaller(b, y_min);
      y_max = larger(b, y_max);
      x_least = smaller(of_a, x_least);
      all_most = larger(larger(of_a, of_b), all_most);
    };
    for (u32 i = 0; i + kStep <= count; i += kStep) add(i);
    add(count - kStep);
    for (u32 i = 0; i < kStep; ++i) {
      low[0] = x_min[i] < low[0] ? x_min[i] : low[0];
      high[0] = x_max[i] > high[0] ? x_max[i] : high[0];
      low[1] = y_min[i] < low[1] ? y_min[i] : low[1];
      high[1] = y_max[i] > high[1] ? y_max[i] : high[1];
      const auto of_x = static_cast<Word<T>>(x_least[i]);
      const auto of_both = static_cast<Word<T>>(all_most[i]);
      least = of_x < least ? of_x : least;
      most = of_both > most ? of_both : most;
    }
  } else {
    for (u32 i = 0; i < count; ++i) {
      include(0, x[i]);
      include(1, y[i]);
    }
  }
  return {low[0], high[0], low[1], high[1], most < kExponent<T>, least == 0};
}

void count_special(PointsPart& part, u32 kind, u64 at, u32 count) {
  if (part.special[kind] == 0) part.special_first[kind] = at;
  part.special[kind] += count;
}

bool is_clear(const u8* mask, u32 count) {
  u8 any = 0;
  for (u32 i = 0; i < count; ++i) any |= mask[i];
  return any == 0;
}

// Some consecutive points of a leaf.
template <class T>
struct Run {
  const T* x;
  const T* y;
  const u8* mask;  // null: none of them is masked
  u64 first;
  u32 count;
};

template <class T>
bool counts(const h5l_assess_params& params, Word<T> x, Word<T> y) {
  const auto fill = static_cast<Word<T>>(params.fill_bits);
  const bool has_fill = params.has_fill != 0;
  const bool is_special = ((x & kExponent<T>) == kExponent<T>) | ((y & kExponent<T>) == kExponent<T>) |
                          (has_fill & ((x == fill) | (y == fill)));
  return !is_special;
}

// Whether all points of a run are valid, and none became the fill value.
template <class T>
bool is_plain(const h5l_assess_params& params, const Run<T>& run) {
  Word<T> found = 0;
  for (u32 i = 0; i < run.count; ++i) {
    found |= static_cast<Word<T>>(!counts<T>(params, bit_cast<Word<T>>(run.x[i]), bit_cast<Word<T>>(run.y[i])));
  }
  return found == 0 && run.mask == nullptr;
}

// Whether all points of a run have the same value in both fields, as in regions without data.
template <class T>
bool is_constant(const Run<T>& run) {
  const auto value = bit_cast<Word<T>>(run.x[0]);
  Word<T> found = 0;
  for (u32 i = 0; i < run.count; ++i) {
    found |= (bit_cast<Word<T>>(run.x[i]) ^ value) | (bit_cast<Word<T>>(run.y[i]) ^ value);
  }
  return found == 0 && run.mask == nullptr;
}

// The valid points of a leaf and their indices in it.
template <class T>
struct Kept {
  T x[kLeafValues];
  T y[kLeafValues];
  u16 number[kLeafValues];
  u32 count;
};

// Appends the valid points of a run to `kept`, and counts the others. The run begins at index `start` of the leaf.
template <class T>
void keep_valid(const h5l_assess_params& params, const Run<T>& run, u32 start, Kept<T>& kept, PointsPart& part) {
  if (is_plain(params, run)) {
    for (u32 i = 0; i < run.count; ++i) {
      kept.x[kept.count + i] = run.x[i];
      kept.y[kept.count + i] = run.y[i];
      kept.number[kept.count + i] = static_cast<u16>(start + i);
    }
    kept.count += run.count;
    return;
  }
  if (is_constant(run)) {  // all points are special in the same way
    const auto value = bit_cast<Word<T>>(run.x[0]);
    count_special(part, kind_of<T>(value, value, params), run.first, run.count);
    return;
  }
  u32 count = kept.count;  // in a register
  const auto keep = [&](u32 i) {
    kept.x[count] = run.x[i];
    kept.y[count] = run.y[i];
    kept.number[count] = static_cast<u16>(start + i);
    ++count;
  };
  for (u32 i = 0; i < run.count; ++i) {
    if (run.mask != nullptr && run.mask[i] != 0) {
      ++part.masked;
      continue;
    }
    const Word<T> a = bit_cast<Word<T>>(run.x[i]);
    const Word<T> b = bit_cast<Word<T>>(run.y[i]);
    if (counts<T>(params, a, b)) {
      keep(i);
      continue;
    }
    // The format allows other values to decode to +0.0, even if that is the fill value.
    if (params.has_fill != 0 && params.fill_bits != 0 && a != params.fill_bits && b == params.fill_bits &&
        is_finite<T>(a)) {
      count_special(part, H5L_SPECIAL_FILL_INTRODUCED, run.first + i, 1);
    }
    const u32 kind = kind_of<T>(a, b, params);
    if (kind == H5L_SPECIAL_KINDS) {
      keep(i);
    } else {
      count_special(part, kind, run.first + i, 1);
    }
  }
  kept.count = count;
}

// The pivots of a leaf's sums, and the threshold for relative errors.
struct Reference {
  double pivot_x, pivot_e, threshold;
};

// Sums and extrema of one lane or, with vectors, of several.
template <class V, class Count>
struct Sums {
  V x, xx, e, ee, xe, abs_e, pointwise;  // about the pivots
  V e_min, e_max, abs_min, pointwise_min, pointwise_max;
  Count over, changed;
};

// Adds points and returns their errors. Without kZeros, no original value may be 0.
template <bool kZeros, class V, class Count>
H5L_INLINE V add_errors(V a, V b, const Reference& reference, Sums<V, Count>& s) {
  const V e = b - a;
  const V size = magnitude(e);
  const V from_x = a - reference.pivot_x;
  const V from_e = e - reference.pivot_e;
  V pointwise = size / magnitude(a);
  if constexpr (kZeros) {
    s.pointwise_min = smaller(a == 0 ? s.pointwise_min : pointwise, s.pointwise_min);
    s.changed = a == 0 ? (e != 0 ? s.changed + 1 : s.changed) : s.changed;
    pointwise = a == 0 ? V{} : pointwise;
  } else {
    s.pointwise_min = smaller(pointwise, s.pointwise_min);
  }
  s.pointwise_max = larger(pointwise, s.pointwise_max);
  s.over = pointwise > reference.threshold ? s.over + 1 : s.over;
  s.e_min = smaller(e, s.e_min);
  s.e_max = larger(e, s.e_max);
  s.abs_min = smaller(size, s.abs_min);
  s.x += from_x;
  s.xx = fused_multiply_add(from_x, from_x, s.xx);
  s.e += from_e;
  s.ee = fused_multiply_add(from_e, from_e, s.ee);
  s.xe = fused_multiply_add(from_x, from_e, s.xe);
  s.abs_e += size;
  s.pointwise += pointwise;
  return e;
}

// The counter of an error, from the upper half of its bits.
template <class W>
H5L_INLINE W counter_of(W high) {
  constexpr i32 kFirst = (1023 - 127) * kCountersOfOctave;
  W at = (high & 0x7FFFFFFF) >> 14;
  at = at > kFirst ? at - kFirst : at - at;
  at = at < static_cast<i32>(kCounters) ? at : at - at + static_cast<i32>(kCounters - 1);
  return at | ((high >> 17) & static_cast<i32>(kCounters));
}

// The upper halves of the words of two vectors, in some order.
template <int... kAt>
H5L_INLINE Vector<i32> upper_halves(Vector<i32> a, Vector<i32> b, std::integer_sequence<int, kAt...> /*order*/) {
  constexpr int kCount = sizeof...(kAt);
  return __builtin_shufflevector(a, b, ((kAt / 4 * 4 + kAt % 2 * 2 + 1) + (kAt % 4 / 2) * kCount)...);
}

// The sums of all lanes in memory.
struct LaneSums {
  Lanes x, xx, e, ee, xe, abs_e, pointwise;
  Lanes e_min, e_max, abs_min, pointwise_min, pointwise_max;
  alignas(64) i64 over[kSumLanes] = {};
  alignas(64) i64 changed[kSumLanes] = {};
};

template <class To, class From>
H5L_INLINE To load_from(const From* from) {
  To value;
  memcpy(&value, from, sizeof value);
  return value;
}

// Loads the sums of some lanes, from `lane` on. By value and separately, so that they stay in registers.
template <class V, class Count>
H5L_INLINE Sums<V, Count> load_sums(const LaneSums& all, u32 lane) {
  const auto of = [lane](const Lanes& lanes) { return load_from<V>(lanes.lane + lane); };
  return {of(all.x),
          of(all.xx),
          of(all.e),
          of(all.ee),
          of(all.xe),
          of(all.abs_e),
          of(all.pointwise),
          of(all.e_min),
          of(all.e_max),
          of(all.abs_min),
          of(all.pointwise_min),
          of(all.pointwise_max),
          load_from<Count>(all.over + lane),
          load_from<Count>(all.changed + lane)};
}

template <class V, class Count>
H5L_INLINE void store_sums(const Sums<V, Count>& s, u32 lane, LaneSums& all) {
  const auto give = [lane](V value, Lanes& lanes) { memcpy(lanes.lane + lane, &value, sizeof value); };
  const auto give_count = [lane](Count value, i64* counts) { memcpy(counts + lane, &value, sizeof value); };
  give(s.x, all.x), give(s.xx, all.xx), give(s.e, all.e), give(s.ee, all.ee), give(s.xe, all.xe);
  give(s.abs_e, all.abs_e), give(s.pointwise, all.pointwise), give(s.e_min, all.e_min), give(s.e_max, all.e_max);
  give(s.abs_min, all.abs_min), give(s.pointwise_min, all.pointwise_min), give(s.pointwise_max, all.pointwise_max);
  give_count(s.over, all.over), give_count(s.changed, all.changed);
}

// Prefetches the next leaf evenly into the L2 cache while this one is summed: both do not fit in the L1 cache.
// Prefetching beyond the end is harmless.
template <class T>
H5L_INLINE void prefetch_ahead(const T* values, u32 lane, u32 round) {
  const auto* const bytes = reinterpret_cast<const u8*>(values + kLeafValues + round + lane * kRounds);
  for (u32 at = 0; at < kDoubles * kRounds * sizeof(T); at += 64) __builtin_prefetch(bytes + at, 0, 2);
}

// Delays the counting of two vectors' errors by two steps, so that loading the indices does not wait for storing them.
class DelayedCounts {
 public:
  DelayedCounts() {  // different ones: incrementing the same counter twice in a row stalls
    for (auto& step : at_) {
      for (u32 k = 0; k < kLanes<i32>; ++k) step[k] = kNoCounter + k;
    }
  }

  H5L_INLINE void count_and_keep(Vector<double> first, Vector<double> second, Counters& counters) {
    using Halves = Vector<i32>;
    u32* const at = at_[next_];
    count(at, counters);
    const Halves index = counter_of(upper_halves(bit_cast<Halves>(first), bit_cast<Halves>(second),
                                                 std::make_integer_sequence<int, kLanes<i32>>()));
    memcpy(at, &index, sizeof index);
    asm volatile("" : "+m"(at_));  // through memory: taking a vector apart is slower
    next_ ^= 1;
  }

  void count_rest(Counters& counters) const {
    for (const auto& at : at_) count(at, counters);
  }

 private:
  H5L_INLINE static void count(const u32* at, Counters& counters) {
#pragma GCC unroll 16
    for (u32 k = 0; k < kLanes<i32>; ++k) ++counters.count[k % 2][at[k]];
  }

  alignas(64) u32 at_[2][kLanes<i32>];
  u32 next_ = 0;
};

// Adds `count` points, starting in lane 0. Only as many lanes as fit in registers are processed at a time, so the
// values are read several times.
template <bool kZeros, class T>
void add_block(const T* x, const T* y, u32 count, const Reference& reference, LaneSums& all, Counters& counters) {
  constexpr u32 kStep = kRounds * kSumLanes;
  const u32 whole = count / kStep * kStep;
  DelayedCounts waiting;
  for (u32 lane = 0; lane < kSumLanes && whole != 0; lane += kDoubles) {
    auto sums = load_sums<Vector<double>, Vector<i64>>(all, lane);
    for (u32 round = 0; round < whole; round += kStep) {
      prefetch_ahead(x, lane, round);
      prefetch_ahead(y, lane, round);
      const u32 i = round + lane;
      const Vector<double> first =
          add_errors<kZeros>(load_as_doubles<T>(x + i), load_as_doubles<T>(y + i), reference, sums);
      const Vector<double> second = add_errors<kZeros>(load_as_doubles<T>(x + i + kSumLanes),
                                                       load_as_doubles<T>(y + i + kSumLanes), reference, sums);
      waiting.count_and_keep(first, second, counters);
    }
    store_sums(sums, lane, all);
  }
  waiting.count_rest(counters);
  for (u32 i = whole; i < count; ++i) {
    auto sums = load_sums<double, i64>(all, i % kSumLanes);
    const double e = add_errors<kZeros>(static_cast<double>(x[i]), static_cast<double>(y[i]), reference, sums);
    ++counters.count[0][counter_of(static_cast<i32>(bit_cast<u64>(e) >> 32))];
    store_sums(sums, i % kSumLanes, all);
  }
}

}  // namespace
}  // namespace h5lossy::H5L_TARGET

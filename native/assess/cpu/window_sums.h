// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Sums along one axis for windows.cpp, which explains them. They are in its unnamed namespace, since no other file
// includes this one.
#pragma once

#include <utility>

#include "assess/cpu/lanes.h"
#include "assess/kernels.h"

namespace h5lossy::H5L_TARGET {
namespace {

using assess::Column;
using assess::FieldPlan;
using assess::kLineColumns;
using assess::kWindowCellsAcross;
using assess::kWindowColumns;
using assess::kWindowRows;
using assess::reserve;
using assess::Rules;
using assess::Scratch;
using assess::View;
using assess::WindowCell;

constexpr u32 kMaxWindow = H5L_ASSESS_MAX_WINDOW;
enum Axis : u32 { kW, kZ, kY, kX };

// The summed quantities, with s = x + y - 2 pivot and d = y - x: s, d, their squares, and the number of valid points.
constexpr u32 kQuantities = 5;

// The windows in a group, and the position of the i-th window.
constexpr u32 kWindowGroup = 2 * kDoubles;
constexpr u32 in_group(u32 i) { return i / kWindowGroup * kWindowGroup + i % 2 * kDoubles + i % kWindowGroup / 2; }

template <bool kSquares>
H5L_INLINE Vector<double> added(Vector<double> term, Vector<double> sum) {
  if constexpr (kSquares) return fused_multiply_add(term, term, sum);
  return term + sum;
}

// Sums of `side` rows, or of their squares, for positions [first, last) of a block; rows[0] is the block's first row.
// `count` is rounded up to whole vectors, so rows are read beyond their end. Inlined with constants, it keeps all sums
// in registers.
template <bool kSquares>
H5L_INLINE void add_block_of(u32 side, u32 first, u32 last, const double* const* rows, u32 count, double* const* to) {
  struct {
    const double* row[2 * kMaxWindow - 1];
    double* to[kMaxWindow];
  } own;  // local copies, which stores cannot alias
#pragma GCC unroll 32
  for (u32 k = first; k < last + side - 1; ++k) own.row[k] = rows[k];
#pragma GCC unroll 16
  for (u32 k = first; k < last; ++k) own.to[k] = to[k];
  for (u32 i = 0; i < count; i += kDoubles) {
    Vector<double> lower[kMaxWindow];
    lower[side - 1] = load_doubles(own.row[side - 1] + i);
    if (kSquares) lower[side - 1] *= lower[side - 1];
#pragma GCC unroll 16
    for (u32 k = side - 1; k > first; --k) lower[k - 1] = added<kSquares>(load_doubles(own.row[k - 1] + i), lower[k]);
    if (first == 0) store_doubles(own.to[0] + i, lower[0]);
    if (last == 1) continue;
    Vector<double> upper = load_doubles(own.row[side] + i);
    if (kSquares) upper *= upper;
    if (first <= 1) store_doubles(own.to[1] + i, lower[1] + upper);
#pragma GCC unroll 16
    for (u32 k = 2; k < last; ++k) {
      upper = added<kSquares>(load_doubles(own.row[side + k - 1] + i), upper);
      if (k >= first) store_doubles(own.to[k] + i, lower[k] + upper);
    }
  }
}

template <u32 kSide, bool kSquares>
void add_block(const double* const* rows, u32 count, double* const* to) {
  add_block_of<kSquares>(kSide, 0, kSide, rows, count, to);
}

template <bool kSquares>
void add_part_of_block(u32 side, u32 first, u32 last, const double* const* rows, u32 count, double* const* to) {
  add_block_of<kSquares>(side, first, last, rows, count, to);
}

// Two rows in memory whose points are all valid and in native byte order.
struct PlainRow {
  const u8 *original, *decoded;
};

// The same for the four quantities of such rows at once: to[k] are their rows for position k.
template <class T>
H5L_INLINE void add_plain_block_of(u32 side, u32 first, u32 last, const PlainRow* rows, u32 count,
                                   double* const (*to)[4], double pivot) {
  using V = Vector<double>;
  for (u32 i = 0; i < count; i += kDoubles) {
    // Adds a row.
    const auto take = [&](u32 k, bool is_first, V* sums) {
      const V x = load_as_doubles<T>(rows[k].original + i * sizeof(T));
      const V d = load_as_doubles<T>(rows[k].decoded + i * sizeof(T)) - x;
      const V s = x + x + d - pivot;
      sums[0] = is_first ? s : s + sums[0];
      sums[1] = is_first ? d : d + sums[1];
      sums[2] = is_first ? s * s : fused_multiply_add(s, s, sums[2]);
      sums[3] = is_first ? d * d : fused_multiply_add(d, d, sums[3]);
    };
    V lower[kMaxWindow][4];
    take(side - 1, true, lower[side - 1]);
#pragma GCC unroll 16
    for (u32 k = side - 1; k > first; --k) {
#pragma GCC unroll 4
      for (u32 q = 0; q < 4; ++q) lower[k - 1][q] = lower[k][q];
      take(k - 1, false, lower[k - 1]);
    }
    V upper[4] = {};
#pragma GCC unroll 16
    for (u32 k = 0; k < last; ++k) {
      if (k != 0) take(side + k - 1, k == 1, upper);
#pragma GCC unroll 4
      for (u32 q = 0; q < 4; ++q) {
        if (k >= first) store_doubles(to[k][q] + i, k == 0 ? lower[0][q] : lower[k][q] + upper[q]);
      }
    }
  }
}

template <class T, u32 kSide>
void add_plain_block(const PlainRow* rows, u32 count, double* const (*to)[4], double pivot) {
  add_plain_block_of<T>(kSide, 0, kSide, rows, count, to, pivot);
}

template <class T>
void add_part_of_plain_block(u32 side, u32 first, u32 last, const PlainRow* rows, u32 count, double* const (*to)[4],
                             double pivot) {
  add_plain_block_of<T>(side, first, last, rows, count, to, pivot);
}

constexpr u32 lower_power(u32 n) {
  u32 power = 1;
  while (2 * power < n) power *= 2;
  return power;
}

// The vector that begins at element kPlaces of consecutive vectors.
template <u32 kPlaces, int... kAt>
H5L_INLINE Vector<double> shifted(const Vector<double>* from, std::integer_sequence<int, kAt...> /*places*/) {
  constexpr int kShift = kPlaces % kDoubles;
  if constexpr (kShift == 0) {
    return from[kPlaces / kDoubles];
  } else {
    return __builtin_shufflevector(from[kPlaces / kDoubles], from[kPlaces / kDoubles + 1], (kAt + kShift)...);
  }
}

template <u32 kPlaces>
H5L_INLINE Vector<double> shifted(const Vector<double>* from) {
  return shifted<kPlaces>(from, std::make_integer_sequence<int, kDoubles>());
}

// The elements at even (kFirst 0) or odd positions of two vectors.
template <int kFirst, int... kAt>
H5L_INLINE Vector<double> every_other(Vector<double> low, Vector<double> high,
                                      std::integer_sequence<int, kAt...> /*places*/) {
  return __builtin_shufflevector(low, high, (2 * kAt + kFirst)...);
}

template <int kFirst>
H5L_INLINE Vector<double> every_other(const double* from) {
  return every_other<kFirst>(load_doubles(from), load_doubles(from + kDoubles),
                             std::make_integer_sequence<int, kDoubles>());
}

// The sum of kPairs consecutive pairs as a tree.
template <u32 kPairs, u32 kFrom = 0>
H5L_INLINE Vector<double> tree_of(const Vector<double>* pairs) {
  if constexpr (kPairs == 1) {
    return shifted<kFrom>(pairs);
  } else {
    constexpr u32 kFirst = lower_power(kPairs);
    return tree_of<kFirst, kFrom>(pairs) + tree_of<kPairs - kFirst, kFrom + kFirst>(pairs);
  }
}

// The most elements that are read after the last window of a group, or written after the end of a row.
constexpr u32 kReadAhead = kSumLanes + kMaxWindow;

// Sums of kTerms neighbours in a row, for groups of windows. Elements at even and odd positions are kept in separate
// vectors; pair i is the i-th odd element and the element after it.
template <u32 kTerms>
void add_along(const double* row, u32 count, double* to) {
  constexpr u32 kPairs = kTerms / 2;
  constexpr u32 kAhead = (kPairs + kDoubles - 1) / kDoubles + 1;
  static_assert(kAhead * kWindowGroup <= kReadAhead);
  Vector<double> even[kAhead + 1];
  Vector<double> odd[kAhead + 1];
  Vector<double> pairs[kAhead];
#pragma GCC unroll 32
  for (u32 k = 0; k < kAhead; ++k) {
    even[k + 1] = every_other<0>(row + k * kWindowGroup);
    odd[k + 1] = every_other<1>(row + k * kWindowGroup);
  }
#pragma GCC unroll 32
  for (u32 k = 0; k + 1 < kAhead; ++k) pairs[k + 1] = odd[k + 1] + shifted<1>(even + k + 1);
  for (u32 i = 0; i < count; i += kWindowGroup) {
#pragma GCC unroll 32
    for (u32 k = 0; k < kAhead; ++k) {
      even[k] = even[k + 1];
      odd[k] = odd[k + 1];
    }
    even[kAhead] = every_other<0>(row + i + kAhead * kWindowGroup);
    odd[kAhead] = every_other<1>(row + i + kAhead * kWindowGroup);
#pragma GCC unroll 32
    for (u32 k = 0; k + 1 < kAhead; ++k) pairs[k] = pairs[k + 1];
    pairs[kAhead - 1] = odd[kAhead - 1] + shifted<1>(even + kAhead - 1);
    Vector<double> from_even = even[0];
    Vector<double> from_odd = odd[0];
    if constexpr (kTerms % 2 == 0) {
      if constexpr (kPairs != 1) from_even = from_even + tree_of<kPairs - 1>(pairs);
      from_even = from_even + shifted<kPairs - 1>(odd);
      from_odd = tree_of<kPairs>(pairs);
    } else if constexpr (kPairs != 0) {
      const Vector<double> both = tree_of<kPairs>(pairs);
      from_even = from_even + both;
      from_odd = both + shifted<kPairs>(odd);
    }
    store_doubles(to + i, from_even);
    store_doubles(to + i + kDoubles, from_odd);
  }
}

// Windows of common sides have code of their own for whole blocks. The others share loops of variable length: instances
// for every side took a third of this file's compile time.
template <class Call>
bool with_common_side(u32 side, const Call& call) {
  if (side == 7) return call.template operator()<7>(), true;
  if (side == 8) return call.template operator()<8>(), true;
  if (side == 11) return call.template operator()<11>(), true;
  return false;
}

using AddAlong = void (*)(const double*, u32, double*);

template <u32... kTerms>
constexpr auto all_add_along(std::integer_sequence<u32, kTerms...> /*terms*/) {
  struct {
    AddAlong of[sizeof...(kTerms) + 1];
  } table = {{nullptr, add_along<kTerms + 1>...}};
  return table;
}

constexpr auto kAddAlong = all_add_along(std::make_integer_sequence<u32, kMaxWindow>());

template <class T>
void add_plain_rows_up(u32 side, u32 first, u32 last, const PlainRow* rows, u32 count, double* const (*to)[4],
                       double pivot) {
  const auto whole = [&]<u32 kSide>() { add_plain_block<T, kSide>(rows, count, to, pivot); };
  if (first != 0 || last != side || !with_common_side(side, whole)) {
    add_part_of_plain_block<T>(side, first, last, rows, count, to, pivot);
  }
}

template <bool kSquares>
void add_rows(u32 side, u32 first, u32 last, const double* const* rows, u32 count, double* const* to) {
  const auto whole = [&]<u32 kSide>() { add_block<kSide, kSquares>(rows, count, to); };
  if (first != 0 || last != side || !with_common_side(side, whole)) {
    add_part_of_block<kSquares>(side, first, last, rows, count, to);
  }
}

}  // namespace
}  // namespace h5lossy::H5L_TARGET

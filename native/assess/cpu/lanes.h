// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Sums in a fixed number of lanes, and rows of a field converted to float64 and padded with zeros to whole groups of
// lanes.
#pragma once

#include <math.h>

#include "assess/kernels.h"
#include "assess/values.h"
#include "codecs/portable.h"

#if defined(H5L_AVX512)
#include "assess/cpu/lanes_avx512.h"
#elif defined(H5L_AVX2)
#include "assess/cpu/lanes_avx2.h"
#else
#include "assess/cpu/lanes_plain.h"
#endif

namespace h5lossy::H5L_TARGET {

using assess::kSumLanes;

inline constexpr u32 kDoubles = kLanes<double>;
inline constexpr u32 kGroup = kSumLanes / kDoubles;  // vectors that hold all lanes

struct alignas(64) Lanes {
  double lane[kSumLanes] = {};
};

// Rounds up to whole groups of lanes.
inline u32 padded(u32 count) { return (count + kSumLanes - 1) / kSumLanes * kSumLanes; }

// a b + c with one rounding on every machine; uses the C library if the CPU has no such instruction.
inline double fused_multiply_add(double a, double b, double c) { return __builtin_fma(a, b, c); }

inline Vector<double> load_doubles(const double* from) {
  Vector<double> vector;
  memcpy(&vector, from, sizeof vector);
  return vector;
}

inline void store_doubles(double* to, Vector<double> vector) { memcpy(to, &vector, sizeof vector); }

// For normal numbers. GPUs have faster versions of these.
inline Vector<double> square_root_of_normal(Vector<double> of) { return square_root(of); }
inline Vector<double> reciprocal_of_normal(Vector<double> of) { return 1.0 / of; }

// The elements of `vector`, which begins at column `from`, for columns below `count`, and those of `other` beyond.
inline Vector<double> columns_below(u32 count, u32 from, Vector<double> vector,
                                    Vector<double> other = Vector<double>{}) {
  if (from + kDoubles <= count) return vector;
  Vector<i64> column;
  for (u32 i = 0; i < kDoubles; ++i) column[i] = from + i;
  return column < static_cast<i64>(count) ? vector : other;
}

// For numbers and vectors. Returns b if both are equal or one is NaN.
template <class V>
H5L_INLINE V smaller(V a, V b) {
  return a < b ? a : b;
}
template <class V>
H5L_INLINE V larger(V a, V b) {
  return a > b ? a : b;
}

inline double magnitude(double value) { return __builtin_fabs(value); }
inline Vector<double> magnitude(Vector<double> value) {
  return bit_cast<Vector<double>>(bit_cast<Vector<u64>>(value) & 0x7FFFFFFFFFFFFFFFu);
}

template <u32 kCount>
inline double total(const double (&sums)[kCount]) {
  double lane[kCount];
  memcpy(lane, sums, sizeof lane);
  for (u32 width = kCount / 2; width != 0; width /= 2) {
    for (u32 i = 0; i < width; ++i) lane[i] += lane[i + width];
  }
  return lane[0];
}
inline double total(const Lanes& sums) { return total(sums.lane); }

inline double smallest(Vector<double> values) {
  double least = values[0];
  for (u32 i = 1; i < kDoubles; ++i) least = smaller(values[i], least);
  return least;
}

inline double largest(Vector<double> values) {
  double most = values[0];
  for (u32 i = 1; i < kDoubles; ++i) most = larger(values[i], most);
  return most;
}

template <class T>
using SignedWord = Select<sizeof(T) == 8, i64, i32>;

template <class T>
inline Word<T> word_at(const u8* row, u64 i, bool big_endian) {
  const auto word = load<Word<T>>(row + i * sizeof(T));
  return big_endian ? swapped(word) : word;
}

// Loads kDoubles values and converts them to float64.
template <class T>
H5L_INLINE Vector<double> load_as_doubles(const void* from) {
  using Narrow [[gnu::vector_size(kDoubles * sizeof(T))]] = T;
  Narrow values;
  memcpy(&values, from, sizeof values);
  if constexpr (sizeof(T) == 4) return to_doubles(values);
  return __builtin_convertvector(values, Vector<double>);
}

// Converts a row to float64.
template <class T>
inline void read_row(const u8* row, bool big_endian, u32 count, double* to) {
  if (big_endian) {
    for (u32 i = 0; i < count; ++i) to[i] = static_cast<double>(bit_cast<T>(word_at<T>(row, i, true)));
  } else {
    for (u32 i = 0; i < count; ++i) to[i] = static_cast<double>(load<T>(row + i * sizeof(T)));
  }
}

// Original, error and validity (1 or 0) of a row of points. Points that are not valid, and the padding to whole groups
// of lanes, are 0.
struct Row {
  double* x;
  double* e;
  double* valid;
};

// Whether points are finite in both fields, not the fill value and not masked (`valid` is 0 for masked points).
H5L_INLINE Vector<i64> counted(Vector<double> x, Vector<double> y, Vector<double> valid, double fill) {
  using Bits = Vector<i64>;
  constexpr auto kAllOnes = static_cast<i64>(kExponent<double>);
  const Bits x_bits = bit_cast<Bits>(x);
  const Bits y_bits = bit_cast<Bits>(y);
  return ((x_bits & kAllOnes) != kAllOnes) & ((y_bits & kAllOnes) != kAllOnes) & (x_bits != bit_cast<i64>(fill)) &
         (valid != 0.0);
}

// The fill value, or a number that is never valid if there is none.
template <class T>
inline double fill_of(const assess::Rules& rules) {
  return rules.has_fill ? static_cast<double>(bit_cast<T>(static_cast<Word<T>>(rules.fill_bits))) : HUGE_VAL;
}

// Replaces decoded values (row.e) by errors, and points that do not count by zeros.
inline void leave_out(double fill, u32 count, Row row) {
  for (u32 i = 0; i < count; i += kDoubles) {
    const Vector<double> x = load_doubles(row.x + i);
    const Vector<double> y = load_doubles(row.e + i);
    const Vector<double> valid = load_doubles(row.valid + i);
    const Vector<i64> counts = counted(x, y, valid, fill);
    store_doubles(row.valid + i, counts ? valid : Vector<double>{});
    store_doubles(row.e + i, counts ? y - x : Vector<double>{});
    store_doubles(row.x + i, counts ? x : Vector<double>{});
  }
}

inline constexpr i64 kRowsAhead = 3;

inline const u8* address(const u8* base, const i64* strides, const u64* at, const u64* origin) {
  i64 offset = 0;
  for (u32 axis = 0; axis < 4; ++axis) offset += strides[axis] * static_cast<i64>(at[axis] - origin[axis]);
  return base + offset;
}

// Rows are short and far apart, so hardware prefetchers do not load the next one.
template <class T>
inline void prefetch_rows(const assess::View& view, const u8* original, const u8* decoded, u32 count) {
  for (u32 byte = 0; byte < count * sizeof(T); byte += 64) {
    __builtin_prefetch(original + kRowsAhead * view.original_strides[2] + byte);
    __builtin_prefetch(decoded + kRowsAhead * view.decoded_strides[2] + byte);
  }
}

template <class T>
inline void read_points(const assess::View& view, const assess::Rules& rules, const u64* at, u32 count, Row row) {
  const u8* const original = address(view.original, view.original_strides, at, view.origin);
  const u8* const decoded = address(view.decoded, view.decoded_strides, at, view.origin);
  prefetch_rows<T>(view, original, decoded, count);
  read_row<T>(original, rules.original_big_endian, count, row.x);
  read_row<T>(decoded, rules.decoded_big_endian, count, row.e);
  const u32 end = padded(count);
  for (u32 i = count; i < end; ++i) row.x[i] = row.e[i] = 0;
  if (rules.all_valid) {
    for (u32 i = 0; i < end; ++i) row.e[i] -= row.x[i];
  } else {
    if (view.mask == nullptr) {
      for (u32 i = 0; i < count; ++i) row.valid[i] = 1;
    } else {
      const u8* const mask = address(view.mask, view.mask_strides, at, view.origin);
      for (u32 i = 0; i < count; ++i) row.valid[i] = mask[i] == 0 ? 1 : 0;
    }
    for (u32 i = count; i < end; ++i) row.valid[i] = 0;
    leave_out(fill_of<T>(rules), end, row);
  }
}

}  // namespace h5lossy::H5L_TARGET

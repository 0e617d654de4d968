// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Sums in a fixed number of lanes, and rows of float64 made from the values of a field. Rows are padded with zeros to
// whole groups of lanes.
#pragma once

#include "assess/kernels.h"
#include "assess/values.h"
#include "codecs/portable.h"

namespace h5lossy::H5L_TARGET {

using assess::kSumLanes;

inline constexpr u32 kDoubles = kLanes<double>;
inline constexpr u32 kGroup = kSumLanes / kDoubles;  // vectors that hold all lanes

struct alignas(64) Lanes {
  double lane[kSumLanes] = {};
};

// Up to whole groups of lanes.
inline u32 padded(u32 count) { return (count + kSumLanes - 1) / kSumLanes * kSumLanes; }

inline Vector<double> load_doubles(const double* from) {
  Vector<double> vector;
  memcpy(&vector, from, sizeof vector);
  return vector;
}

inline void store_doubles(double* to, Vector<double> vector) { memcpy(to, &vector, sizeof vector); }

inline Vector<double> smaller(Vector<double> a, Vector<double> b) { return a < b ? a : b; }
inline Vector<double> larger(Vector<double> a, Vector<double> b) { return a > b ? a : b; }

inline Vector<double> magnitude(Vector<double> value) {
  return bit_cast<Vector<double>>(bit_cast<Vector<u64>>(value) & 0x7FFFFFFFFFFFFFFFu);
}

// Adds kSums numbers for each i below `count`, a multiple of kSumLanes: of(i, terms) gives vectors of them. Unrolled, so
// that the lanes stay in registers.
template <u32 kSums, class Of>
inline void add_lanes(u32 count, Lanes* sums, Of of) {
  Vector<double> lanes[kSums][kGroup];
#pragma GCC unroll 8
  for (u32 s = 0; s < kSums; ++s) {
#pragma GCC unroll 16
    for (u32 g = 0; g < kGroup; ++g) lanes[s][g] = load_doubles(sums[s].lane + g * kDoubles);
  }
  for (u32 i = 0; i < count; i += kSumLanes) {
#pragma GCC unroll 16
    for (u32 g = 0; g < kGroup; ++g) {
      Vector<double> terms[kSums];
      of(i + g * kDoubles, terms);
#pragma GCC unroll 8
      for (u32 s = 0; s < kSums; ++s) lanes[s][g] += terms[s];
    }
  }
#pragma GCC unroll 8
  for (u32 s = 0; s < kSums; ++s) {
#pragma GCC unroll 16
    for (u32 g = 0; g < kGroup; ++g) store_doubles(sums[s].lane + g * kDoubles, lanes[s][g]);
  }
}

inline void add_row(const double* row, u32 count, Lanes& sum) {
  add_lanes<1>(count, &sum, [=](u32 i, Vector<double>* terms) { terms[0] = load_doubles(row + i); });
}

inline void add_squares(const double* row, u32 count, Lanes& sum) {
  add_lanes<1>(count, &sum, [=](u32 i, Vector<double>* terms) {
    const Vector<double> value = load_doubles(row + i);
    terms[0] = value * value;
  });
}

inline double total(const Lanes& sums) {
  double lane[kSumLanes];
  memcpy(lane, sums.lane, sizeof lane);
  for (u32 width = kSumLanes / 2; width != 0; width /= 2) {
    for (u32 i = 0; i < width; ++i) lane[i] += lane[i + width];
  }
  return lane[0];
}

// Smallest and largest of a row and what is there already; `count` is a multiple of kDoubles.
inline double smallest(const double* row, u32 count, double least) {
  Vector<double> found = Vector<double>{} + least;
  for (u32 i = 0; i < count; i += kDoubles) found = smaller(load_doubles(row + i), found);
  for (u32 i = 0; i < kDoubles; ++i) least = found[i] < least ? found[i] : least;
  return least;
}

inline double largest(const double* row, u32 count, double most) {
  Vector<double> found = Vector<double>{} + most;
  for (u32 i = 0; i < count; i += kDoubles) found = larger(load_doubles(row + i), found);
  for (u32 i = 0; i < kDoubles; ++i) most = found[i] > most ? found[i] : most;
  return most;
}

inline double largest_magnitude(const double* row, u32 count, double most) {
  Vector<double> found = Vector<double>{} + most;
  for (u32 i = 0; i < count; i += kDoubles) found = larger(magnitude(load_doubles(row + i)), found);
  for (u32 i = 0; i < kDoubles; ++i) most = found[i] > most ? found[i] : most;
  return most;
}

template <class T>
inline Word<T> word_at(const u8* row, u64 i, bool big_endian) {
  const auto word = load<Word<T>>(row + i * sizeof(T));
  return big_endian ? swapped(word) : word;
}

// Values of a row as float64.
template <class T>
inline void read_row(const u8* row, bool big_endian, u32 count, double* to) {
  if (big_endian) {
    for (u32 i = 0; i < count; ++i) to[i] = static_cast<double>(bit_cast<T>(word_at<T>(row, i, true)));
  } else {
    for (u32 i = 0; i < count; ++i) to[i] = static_cast<double>(load<T>(row + i * sizeof(T)));
  }
}

// Original, error and validity (1 or 0) of a row of points, with zeros where a point does not count and behind the row
// up to whole groups of lanes. Null pointers: not wanted.
struct Row {
  double* x;
  double* e;
  double* valid;
};

inline constexpr i64 kRowsAhead = 3;

inline const u8* address(const u8* base, const i64* strides, const u64* at, const u64* origin) {
  i64 offset = 0;
  for (u32 axis = 0; axis < 4; ++axis) offset += strides[axis] * static_cast<i64>(at[axis] - origin[axis]);
  return base + offset;
}

template <class T>
inline void read_points(const assess::View& view, const assess::Rules& rules, const u64* at, u32 count, Row row) {
  const u8* const original = address(view.original, view.original_strides, at, view.origin);
  const u8* const decoded = address(view.decoded, view.decoded_strides, at, view.origin);
  // Rows are short, and lie far apart: the processor does not see the next one coming.
  for (u32 byte = 0; byte < count * sizeof(T); byte += 64) {
    __builtin_prefetch(original + kRowsAhead * view.original_strides[2] + byte);
    __builtin_prefetch(decoded + kRowsAhead * view.decoded_strides[2] + byte);
  }
  read_row<T>(original, rules.original_big_endian, count, row.x);
  read_row<T>(decoded, rules.decoded_big_endian, count, row.e);
  const u32 end = padded(count);
  for (u32 i = count; i < end; ++i) row.x[i] = row.e[i] = 0;
  if (rules.all_valid) {
    for (u32 i = 0; i < end; ++i) row.e[i] -= row.x[i];
  } else {
    const u8* const mask = view.mask == nullptr ? nullptr : address(view.mask, view.mask_strides, at, view.origin);
    for (u32 i = 0; i < count; ++i) {
      const Word<T> x = word_at<T>(original, i, rules.original_big_endian);
      const Word<T> y = word_at<T>(decoded, i, rules.decoded_big_endian);
      const bool counts = is_finite<T>(x) && is_finite<T>(y) && !(rules.has_fill && x == rules.fill_bits) &&
                          (mask == nullptr || mask[i] == 0);
      row.valid[i] = counts ? 1.0 : 0.0;
      row.e[i] = counts ? row.e[i] - row.x[i] : 0.0;
      row.x[i] = counts ? row.x[i] : 0.0;
    }
    for (u32 i = count; i < end; ++i) row.valid[i] = 0;
  }
}

}  // namespace h5lossy::H5L_TARGET

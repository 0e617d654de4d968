// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The parts of block_rows.h that AVX-512 and AVX2 share.
#pragma once

#if defined(H5L_AVX512)
#include "codecs/simd/block_rows_avx512.h"
#else
#include "codecs/simd/block_rows_avx2.h"
#endif

namespace h5lossy::H5L_TARGET::simd {

template <class W>
H5L_INLINE Vector<W> from_sign_last(Vector<W> word) {
  const Vector<W> ones = Vector<W>{} - (word & 1);
  return ((word >> 1) ^ ones) - ones;
}

template <u32 n, class W>
H5L_INLINE Rows<n, W> load_rows(const void* words) {
  Rows<n, W> rows;
#pragma GCC unroll 16
  for (u32 r = 0; r < rows.count; ++r) {
    memcpy(&rows.at[r], static_cast<const u8*>(words) + r * kVectorBytes, kVectorBytes);
  }
  return rows;
}

template <u32 n, class W>
H5L_INLINE void store_rows(const Rows<n, W>& rows, void* words) {
#pragma GCC unroll 16
  for (u32 r = 0; r < rows.count; ++r) memcpy(static_cast<u8*>(words) + r * kVectorBytes, &rows.at[r], kVectorBytes);
}

template <u32 n, class W>
H5L_INLINE Rows<n, W> all_words(W word) {
  Rows<n, W> rows;
#pragma GCC unroll 16
  for (u32 r = 0; r < rows.count; ++r) rows.at[r] = all_lanes<W>(word);
  return rows;
}

template <u32 n, class W>
H5L_INLINE W first_of(const Rows<n, W>& rows) {
  return rows.at[0][0];
}

template <u32 n, class W>
H5L_INLINE W word_at(const Rows<n, W>& rows, u32 i) {
  return load<W>(reinterpret_cast<const u8*>(&rows) + i * sizeof(W));
}

template <u32 n, class W>
H5L_INLINE Rows<n, W> with_first(Rows<n, W> rows, W first) {
  Vector<W> others = ~Vector<W>{};
  others[0] = 0;
  rows.at[0] = (rows.at[0] & others) | Vector<W>{first};
  return rows;
}

template <u32 n, class W>
H5L_INLINE Rows<n, W> with_more(Rows<n, W> rows, W first) {
  rows.at[0] |= Vector<W>{first};
  return rows;
}

template <u32 n, class W>
H5L_INLINE W any_bits(const Rows<n, W>& rows) {
  Vector<W> any = rows.at[0];
#pragma GCC unroll 16
  for (u32 r = 1; r < rows.count; ++r) any |= rows.at[r];
  return any_bits_of_lanes<W>(any);
}

template <u32 n, class W>
H5L_INLINE bool all_are(const Rows<n, W>& rows, W word) {
  Vector<W> any = {};
#pragma GCC unroll 16
  for (u32 r = 0; r < rows.count; ++r) any |= rows.at[r] ^ word;
  return any_bits_of_lanes<W>(any) == 0;
}

template <u32 n, class W>
H5L_INLINE bool all_are_equal(const Rows<n, W>& a, const Rows<n, W>& b) {
  Vector<W> any = {};
#pragma GCC unroll 16
  for (u32 r = 0; r < Rows<n, W>::count; ++r) any |= a.at[r] ^ b.at[r];
  return any_bits_of_lanes<W>(any) == 0;
}

template <u32 n, class W>
H5L_INLINE Rows<n, W> either(Rows<n, W> a, const Rows<n, W>& b) {
#pragma GCC unroll 16
  for (u32 r = 0; r < Rows<n, W>::count; ++r) a.at[r] |= b.at[r];
  return a;
}

template <u32 r = 0, u32 n, class W>
H5L_INLINE Rows<n, W> keep(Rows<n, W> rows, u64 mask) {
  rows.at[r] = keep_lanes<r, W>(rows.at[r], mask);
  if constexpr (r + 1 < Rows<n, W>::count) return keep<r + 1>(rows, mask);
  return rows;
}

template <class W>
H5L_INLINE Edge<W> edge_of(W word) {
  return all_lanes<W>(word);
}

template <u32 n, class W>
H5L_INLINE Edge<W> last_of(const Rows<n, W>& rows) {
  return rows.at[rows.count - 1];
}

template <class W>
H5L_INLINE W word_of(Edge<W> edge) {
  return edge[kLanes<W> - 1];
}

// The position, in an earlier row, that predicts lane 0 of row r. (Row 0 is predicted from the edge, like row 1 from
// row 0.)
template <auto before, class W>
constexpr u32 before_row(u32 r) {
  return before((r == 0 ? 1 : r) * kLanes<W>);
}

// Within a row, all lanes but lane 0 are predicted from the same row, in the same way for all rows.
template <auto before, class W>
constexpr u32 before_lane(u32 lane) {
  return before(lane);
}

template <auto before, class W, u32 lane_of_other_row>
inline constexpr Places<W> kBefore =
    places<W>([](u32 lane) { return lane == 0 ? kLanes<W> + lane_of_other_row : before_lane<before, W>(lane); });

template <auto before, u32 r = 0, u32 n, class W>
H5L_INLINE void differences_from(const Rows<n, W>& bins, Edge<W> edge, Rows<n, W>& words) {
  constexpr u32 from = before_row<before, W>(r);
  const Vector<W> other = r == 0 ? edge : bins.at[from / kLanes<W>];
  words.at[r] = to_sign_last<W>(bins.at[r] - permute<W>(kBefore<before, W, from % kLanes<W>>, bins.at[r], other));
  if constexpr (r + 1 < Rows<n, W>::count) differences_from<before, r + 1>(bins, edge, words);
}

// Differences of a block, signs last.
template <auto before, u32 n, class W>
H5L_INLINE void differences(const Rows<n, W>& bins, Edge<W> edge, Rows<n, W>& words) {
  differences_from<before>(bins, edge, words);
}

template <u32 n, class W>
H5L_INLINE void signs_last(const Rows<n, W>& numbers, Rows<n, W>& words) {
#pragma GCC unroll 16
  for (u32 r = 0; r < words.count; ++r) words.at[r] = to_sign_last<W>(numbers.at[r]);
}

template <u32 n, class W>
H5L_INLINE W any_bits_behind_first(const Rows<n, W>& rows) {
  return any_bits(with_first(rows, W{0}));
}

template <auto before, u32 group = 1, class W>
H5L_INLINE Vector<W> sum_row(Vector<W> row) {
  if constexpr (group == kLanes<W>) {
    return row;
  } else if constexpr (2 * group * sizeof(W) <= 16) {
    const Register from = bit_cast<Register>(kEntriesInQuarters<before, W, group>);
    return sum_row<before, 2 * group, W>(row + row_of<W>(shuffle_in_quarters(raw<W>(row), from)));
  } else {
    return sum_row<before, 2 * group, W>(row + entries_of_halves<before, group, W>(row));
  }
}

template <auto before, u32 r = 1, u32 n, class W>
H5L_INLINE void carry_rows(const Rows<n, W>& sums, Rows<n, W>& carries) {
  if constexpr (r < Rows<n, W>::count) {
    // Uses the row's own sums, so that the dependency from row to row is one addition.
    constexpr u32 from = before_row<before, W>(r);
    constexpr u32 other = from / kLanes<W>;
    carries.at[r] = carries.at[other] + spread_lane<from % kLanes<W>, W>(sums.at[other]);
    carry_rows<before, r + 1>(sums, carries);
  }
}

// Bins from differences. `edge` has one word in all lanes, and is updated for the next block of a run.
template <auto before, u32 n, class W>
H5L_INLINE void sum_rows(Rows<n, W>& rows, Edge<W>& edge) {
  Rows<n, W> carries;
#pragma GCC unroll 16
  for (u32 r = 0; r < rows.count; ++r) rows.at[r] = sum_row<before, 1, W>(rows.at[r]);
  carries.at[0] = edge;
  carry_rows<before>(rows, carries);
  constexpr u32 last = Rows<n, W>::count - 1;
  edge = carries.at[last] + spread_lane<kLanes<W> - 1, W>(rows.at[last]);
#pragma GCC unroll 16
  for (u32 r = 0; r < rows.count; ++r) rows.at[r] += carries.at[r];
}

}  // namespace h5lossy::H5L_TARGET::simd

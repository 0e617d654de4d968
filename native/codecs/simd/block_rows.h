// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The words of a fixed-length block, in registers from its values to its planes and back: differences and their sums
// for any prediction, and signs. With AVX-512 or AVX2; otherwise arrays and plain loops, which are also the definition.
//
// `before` is a prediction: a constexpr function from a position above 0 to the position that predicts it. Position 0
// is predicted from the word before the block, the *edge*.
#pragma once

#include "codecs/blocks.h"
#include "codecs/portable.h"
#include "codecs/simd/lanes.h"
#include "codecs/simd/sums.h"

#if defined(__AVX512VBMI__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__GFNI__)
#define H5L_ROWS_AVX512 1
#elif defined(__AVX2__) && !defined(__AVX512F__)
#define H5L_ROWS_AVX2 1
#endif

#if defined(H5L_ROWS_AVX512) || defined(H5L_ROWS_AVX2)
#define H5L_ROWS_VECTOR 1
#include <immintrin.h>
#endif

// A block stays in registers only if everything is inlined into one function.
#define H5L_ROWS_FN [[gnu::always_inline]] inline

namespace h5lossy::H5L_TARGET::simd {

#if defined(H5L_ROWS_VECTOR)
inline constexpr bool kRowsAreRegisters = true;
#else
inline constexpr bool kRowsAreRegisters = false;
#endif

#if defined(H5L_ROWS_VECTOR)

template <u32 n, class W>
struct Rows {
  static constexpr u32 count = n / kLanes<W>;
  Vector<W> at[count];
};

// The words before a block; the last lane is used.
template <class W>
using Edge = Vector<W>;

// ---------------------------------------------------------------------------------------------------------------------
// What differs between the instruction sets

#if defined(H5L_ROWS_AVX512)
using Register = __m512i;
#else
using Register = __m256i;
#endif

template <class W>
H5L_ROWS_FN Register raw(Vector<W> row) {
  return bit_cast<Register>(row);
}

template <class W>
H5L_ROWS_FN Vector<W> row_of(Register row) {
  return bit_cast<Vector<W>>(row);
}

#if defined(H5L_ROWS_AVX512)

// The source lane, in the concatenation of two rows, of each lane.
template <class W>
struct Places {
  alignas(64) W at[kLanes<W>];
};

template <class W, class Source>
constexpr Places<W> places(Source source) {
  Places<W> result = {};
  for (u32 i = 0; i < kLanes<W>; ++i) result.at[i] = static_cast<W>(source(i));
  return result;
}

template <class W>
H5L_ROWS_FN Vector<W> permute(const Places<W>& places, Vector<W> a, Vector<W> b) {
  const Register from = _mm512_load_si512(places.at);
  if constexpr (sizeof(W) == 4) return row_of<W>(_mm512_permutex2var_epi32(raw<W>(a), from, raw<W>(b)));
  return row_of<W>(_mm512_permutex2var_epi64(raw<W>(a), from, raw<W>(b)));
}

template <u32 lane, class W>
H5L_ROWS_FN Vector<W> spread_lane(Vector<W> row) {
  const Register from = raw<W>(all_lanes<W>(lane));
  if constexpr (sizeof(W) == 2) return row_of<W>(_mm512_permutexvar_epi16(from, raw<W>(row)));
  if constexpr (sizeof(W) == 4) return row_of<W>(_mm512_permutexvar_epi32(from, raw<W>(row)));
  return row_of<W>(_mm512_permutexvar_epi64(from, raw<W>(row)));
}

H5L_ROWS_FN Register shuffle_in_quarters(Register row, Register from) { return _mm512_shuffle_epi8(row, from); }

// In each group of 2 * group lanes, gives lanes of the upper half a lane of the lower half; zeros elsewhere.
template <u32 group, class W>
H5L_ROWS_FN Vector<W> from_lower_half(Vector<W> row, const Places<W>& from) {
  constexpr u64 upper = [] {
    u64 mask = 0;
    for (u32 lane = 0; lane < kLanes<W>; ++lane) mask |= u64{(lane & group) != 0} << lane;
    return mask;
  }();
  const Register places = _mm512_load_si512(from.at);
  if constexpr (sizeof(W) == 2) {
    return row_of<W>(_mm512_maskz_permutexvar_epi16(static_cast<__mmask32>(upper), places, raw<W>(row)));
  }
  if constexpr (sizeof(W) == 4) {
    return row_of<W>(_mm512_maskz_permutexvar_epi32(static_cast<__mmask16>(upper), places, raw<W>(row)));
  }
  return row_of<W>(_mm512_maskz_permutexvar_epi64(static_cast<__mmask8>(upper), places, raw<W>(row)));
}

template <class W>
H5L_ROWS_FN Vector<W> to_sign_last(Vector<W> difference) {
  const Register d = raw<W>(difference);
  if constexpr (sizeof(W) == 4) return row_of<W>(_mm512_shldi_epi32(_mm512_abs_epi32(d), d, 1));
  return row_of<W>(_mm512_shldi_epi64(_mm512_abs_epi64(d), d, 1));
}

// Keeps the lanes of row `r` that are in a mask of positions; zeros elsewhere.
template <u32 r, class W>
H5L_ROWS_FN Vector<W> keep_lanes(Vector<W> row, u64 mask) {
  if constexpr (sizeof(W) == 4) {
    return row_of<W>(_mm512_maskz_mov_epi32(static_cast<__mmask16>(mask >> (16 * r)), raw<W>(row)));
  }
  return row_of<W>(_mm512_maskz_mov_epi64(static_cast<__mmask8>(mask >> (8 * r)), raw<W>(row)));
}

template <class W>
H5L_ROWS_FN W any_bits_of_lanes(Vector<W> row) {
  const __m256i half = _mm256_or_si256(_mm512_castsi512_si256(raw<W>(row)), _mm512_extracti64x4_epi64(raw<W>(row), 1));
  const __m128i quarter = _mm_or_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  const u64 bits = static_cast<u64>(_mm_cvtsi128_si64(_mm_or_si128(quarter, _mm_unpackhi_epi64(quarter, quarter))));
  return sizeof(W) == 8 ? static_cast<W>(bits) : static_cast<W>(bits | bits >> 32);
}

#else

template <class W>
struct Places {
  alignas(32) u32 at[8];  // of halves, if a word has two; the highest bit selects the second row
};

template <class W, class Source>
constexpr Places<W> places(Source source) {
  constexpr u32 size = sizeof(W) / 4;
  Places<W> result = {};
  for (u32 i = 0; i < 8; ++i) {
    const u32 lane = source(i / size);
    result.at[i] = (lane % kLanes<W> * size + i % size) | (lane < kLanes<W> ? 0 : 0x80000000u);
  }
  return result;
}

template <class W>
H5L_ROWS_FN Vector<W> permute(const Places<W>& places, Vector<W> a, Vector<W> b) {
  const Register from = _mm256_load_si256(reinterpret_cast<const __m256i*>(places.at));
  const __m256 x = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(raw<W>(a), from));
  const __m256 y = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(raw<W>(b), from));
  return row_of<W>(_mm256_castps_si256(_mm256_blendv_ps(x, y, _mm256_castsi256_ps(from))));
}

template <u32 lane, class W>
H5L_ROWS_FN Vector<W> spread_lane(Vector<W> row) {
  if constexpr (sizeof(W) == 8) return row_of<W>(_mm256_permute4x64_epi64(raw<W>(row), 0x55 * lane));
  if constexpr (sizeof(W) == 4) return row_of<W>(_mm256_permutevar8x32_epi32(raw<W>(row), _mm256_set1_epi32(lane)));
  const Register four = _mm256_permute4x64_epi64(raw<W>(row), 0x55 * (lane / 4));
  return row_of<W>(_mm256_shuffle_epi8(four, _mm256_set1_epi16(0x0100 + lane % 4 * 0x0202)));
}

H5L_ROWS_FN Register shuffle_in_quarters(Register row, Register from) { return _mm256_shuffle_epi8(row, from); }

template <class W>
H5L_ROWS_FN Vector<W> to_sign_last(Vector<W> difference) {
  const Vector<W> sign = difference >> (kWordBits<W> - 1);
  Vector<W> magnitude;
  if constexpr (sizeof(W) == 4) {
    magnitude = row_of<W>(_mm256_abs_epi32(raw<W>(difference)));
  } else {
    const Vector<W> ones = Vector<W>{} - sign;
    magnitude = (difference ^ ones) - ones;
  }
  return (magnitude + magnitude) | sign;
}

template <u32 r, class W>
H5L_ROWS_FN Vector<W> keep_lanes(Vector<W> row, u64 mask) {
  Vector<W> bits;
  for (u32 i = 0; i < kLanes<W>; ++i) bits[i] = W{1} << i;
  const Vector<W> set = all_lanes(static_cast<W>(mask >> (kLanes<W> * r))) & bits;
  if constexpr (sizeof(W) == 4) return row & row_of<W>(_mm256_cmpeq_epi32(raw<W>(set), raw<W>(bits)));
  return row & row_of<W>(_mm256_cmpeq_epi64(raw<W>(set), raw<W>(bits)));
}

template <class W>
H5L_ROWS_FN u32 nonzero_lanes(Vector<W> row) {
  const Register zero = _mm256_setzero_si256();
  if constexpr (sizeof(W) == 4) {
    const Register zeros = _mm256_cmpeq_epi32(raw<W>(row), zero);
    return 0xFFu & ~static_cast<u32>(_mm256_movemask_ps(_mm256_castsi256_ps(zeros)));
  }
  return 0xFu & ~static_cast<u32>(_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(raw<W>(row), zero))));
}

template <class W>
H5L_ROWS_FN W any_bits_of_lanes(Vector<W> row) {
  const __m128i half = _mm_or_si128(_mm256_castsi256_si128(raw<W>(row)), _mm256_extracti128_si256(raw<W>(row), 1));
  const u64 bits = static_cast<u64>(_mm_cvtsi128_si64(_mm_or_si128(half, _mm_unpackhi_epi64(half, half))));
  return sizeof(W) == 8 ? static_cast<W>(bits) : static_cast<W>(bits | bits >> 32);
}

#endif

// ---------------------------------------------------------------------------------------------------------------------
// Common to both

template <class W>
H5L_ROWS_FN Vector<W> from_sign_last(Vector<W> word) {
  const Vector<W> ones = Vector<W>{} - (word & 1);
  return ((word >> 1) ^ ones) - ones;
}

template <u32 n, class W>
H5L_ROWS_FN Rows<n, W> load_rows(const void* words) {
  Rows<n, W> rows;
#pragma GCC unroll 16
  for (u32 r = 0; r < rows.count; ++r) {
    memcpy(&rows.at[r], static_cast<const u8*>(words) + r * kVectorBytes, kVectorBytes);
  }
  return rows;
}

template <u32 n, class W>
H5L_ROWS_FN void store_rows(const Rows<n, W>& rows, void* words) {
#pragma GCC unroll 16
  for (u32 r = 0; r < rows.count; ++r) memcpy(static_cast<u8*>(words) + r * kVectorBytes, &rows.at[r], kVectorBytes);
}

template <u32 n, class W>
H5L_ROWS_FN Rows<n, W> all_words(W word) {
  Rows<n, W> rows;
#pragma GCC unroll 16
  for (u32 r = 0; r < rows.count; ++r) rows.at[r] = all_lanes<W>(word);
  return rows;
}

template <u32 n, class W>
H5L_ROWS_FN W first_of(const Rows<n, W>& rows) {
  return rows.at[0][0];
}

template <u32 n, class W>
H5L_ROWS_FN W word_at(const Rows<n, W>& rows, u32 i) {
  return load<W>(reinterpret_cast<const u8*>(&rows) + i * sizeof(W));
}

template <u32 n, class W>
H5L_ROWS_FN Rows<n, W> with_first(Rows<n, W> rows, W first) {
  Vector<W> others = ~Vector<W>{};
  others[0] = 0;
  rows.at[0] = (rows.at[0] & others) | Vector<W>{first};
  return rows;
}

template <u32 n, class W>
H5L_ROWS_FN Rows<n, W> with_more(Rows<n, W> rows, W first) {
  rows.at[0] |= Vector<W>{first};
  return rows;
}

template <u32 n, class W>
H5L_ROWS_FN W any_bits(const Rows<n, W>& rows) {
  Vector<W> any = rows.at[0];
#pragma GCC unroll 16
  for (u32 r = 1; r < rows.count; ++r) any |= rows.at[r];
  return any_bits_of_lanes<W>(any);
}

template <u32 n, class W>
H5L_ROWS_FN bool all_are(const Rows<n, W>& rows, W word) {
  Vector<W> any = {};
#pragma GCC unroll 16
  for (u32 r = 0; r < rows.count; ++r) any |= rows.at[r] ^ word;
  return any_bits_of_lanes<W>(any) == 0;
}

template <u32 n, class W>
H5L_ROWS_FN bool all_are_equal(const Rows<n, W>& a, const Rows<n, W>& b) {
  Vector<W> any = {};
#pragma GCC unroll 16
  for (u32 r = 0; r < Rows<n, W>::count; ++r) any |= a.at[r] ^ b.at[r];
  return any_bits_of_lanes<W>(any) == 0;
}

template <u32 n, class W>
H5L_ROWS_FN Rows<n, W> either(Rows<n, W> a, const Rows<n, W>& b) {
#pragma GCC unroll 16
  for (u32 r = 0; r < Rows<n, W>::count; ++r) a.at[r] |= b.at[r];
  return a;
}

template <u32 r = 0, u32 n, class W>
H5L_ROWS_FN Rows<n, W> keep(Rows<n, W> rows, u64 mask) {
  rows.at[r] = keep_lanes<r, W>(rows.at[r], mask);
  if constexpr (r + 1 < Rows<n, W>::count) return keep<r + 1>(rows, mask);
  return rows;
}

template <class W>
H5L_ROWS_FN Edge<W> edge_of(W word) {
  return all_lanes<W>(word);
}

template <u32 n, class W>
H5L_ROWS_FN Edge<W> last_of(const Rows<n, W>& rows) {
  return rows.at[rows.count - 1];
}

template <class W>
H5L_ROWS_FN W word_of(Edge<W> edge) {
  return edge[kLanes<W> - 1];
}

// The position, in an earlier row, that predicts lane 0 of row r. (Row 0 is predicted from the edge, like row 1 from
// row 0.)
template <auto before, class W>
constexpr u32 before_row(u32 r) {
  return before((r == 0 ? 1 : r) * kLanes<W>);
}

// Within a row, all lanes but lane 0 are predicted from the same row, and all rows alike.
template <auto before, class W>
constexpr u32 before_lane(u32 lane) {
  return before(lane);
}

template <auto before, class W, u32 lane_of_other_row>
inline constexpr Places<W> kBefore =
    places<W>([](u32 lane) { return lane == 0 ? kLanes<W> + lane_of_other_row : before_lane<before, W>(lane); });

template <auto before, u32 r = 0, u32 n, class W>
H5L_ROWS_FN void differences_from(const Rows<n, W>& bins, Edge<W> edge, Rows<n, W>& words) {
  constexpr u32 from = before_row<before, W>(r);
  const Vector<W> other = r == 0 ? edge : bins.at[from / kLanes<W>];
  words.at[r] = to_sign_last<W>(bins.at[r] - permute<W>(kBefore<before, W, from % kLanes<W>>, bins.at[r], other));
  if constexpr (r + 1 < Rows<n, W>::count) differences_from<before, r + 1>(bins, edge, words);
}

// Differences of a block, signs last.
template <auto before, u32 n, class W>
H5L_ROWS_FN void differences(const Rows<n, W>& bins, Edge<W> edge, Rows<n, W>& words) {
  differences_from<before>(bins, edge, words);
}

template <u32 n, class W>
H5L_ROWS_FN void signs_last(const Rows<n, W>& numbers, Rows<n, W>& words) {
#pragma GCC unroll 16
  for (u32 r = 0; r < words.count; ++r) words.at[r] = to_sign_last<W>(numbers.at[r]);
}

template <u32 n, class W>
H5L_ROWS_FN W any_bits_behind_first(const Rows<n, W>& rows) {
  return any_bits(with_first(rows, W{0}));
}

// Sums along the predictions within a row, of 2, 4, 8, ... neighbours, each from the sums of half as many. A lane of an
// upper half adds the sum of the lane at which its chain of predictions enters the lower half.
template <auto before>
constexpr u32 entry(u32 lane, u32 group) {
  const u32 upper = lane / group * group;
  while (lane >= upper) lane = before(lane);
  return lane;
}

// Bytes of a row, each from one of the same 16 bytes; 0x80 gives zero.
struct QuarterPlaces {
  alignas(kVectorBytes) u8 at[kVectorBytes];
};

template <auto before, class W, u32 group>
constexpr QuarterPlaces quarter_places() {
  QuarterPlaces result = {};
  for (u32 i = 0; i < kVectorBytes; ++i) {
    const u32 lane = i / sizeof(W), byte = i % sizeof(W);
    result.at[i] = (lane & group) == 0 ? 0x80 : static_cast<u8>((entry<before>(lane, group) * sizeof(W) + byte) % 16);
  }
  return result;
}

template <auto before, class W, u32 group>
inline constexpr QuarterPlaces kEntriesInQuarters = quarter_places<before, W, group>();

#if defined(H5L_ROWS_AVX512)
template <auto before, class W, u32 group>
inline constexpr Places<W> kEntries =
    places<W>([](u32 lane) { return (lane & group) == 0 ? 0 : entry<before>(lane, group); });
#endif

template <auto before, u32 group = 1, class W>
H5L_ROWS_FN Vector<W> sum_row(Vector<W> row) {
  if constexpr (group == kLanes<W>) {
    return row;
  } else if constexpr (2 * group * sizeof(W) <= 16) {
    const Register from = bit_cast<Register>(kEntriesInQuarters<before, W, group>);
    return sum_row<before, 2 * group, W>(row + row_of<W>(shuffle_in_quarters(raw<W>(row), from)));
  } else {
#if defined(H5L_ROWS_AVX512)
    return sum_row<before, 2 * group, W>(row + from_lower_half<group, W>(row, kEntries<before, W, group>));
#else
    const Register from = bit_cast<Register>(kEntriesInQuarters<before, W, group>);
    const Register lower = _mm256_permute2x128_si256(raw<W>(row), raw<W>(row), 0x08);
    return sum_row<before, 2 * group, W>(row + row_of<W>(shuffle_in_quarters(lower, from)));
#endif
  }
}

template <auto before, u32 r = 1, u32 n, class W>
H5L_ROWS_FN void carry_rows(const Rows<n, W>& sums, Rows<n, W>& carries) {
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
H5L_ROWS_FN void sum_rows(Rows<n, W>& rows, Edge<W>& edge) {
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

#if defined(H5L_ROWS_AVX512)

// Fills lanes of row `r` that are in `holes` with the nearest earlier word that is not, or with `last`.
template <u32 r, u32 n, class W>
H5L_ROWS_FN void fill_rows_forward(u64 holes, Vector<W> last, Rows<n, W>& rows) {
  constexpr u32 lanes = kLanes<W>;
  constexpr static auto up_to = places<W>([](u32 lane) { return (2u << lane) - 1; });
  const u32 kept = static_cast<u32>(~holes >> (r * lanes)) & static_cast<u32>(blocks::first_bits(lanes));
  const Register here = raw<W>(all_lanes(static_cast<W>(kept))) & _mm512_load_si512(up_to.at);
  Register row = raw<W>(rows.at[r]);
  if constexpr (sizeof(W) == 4) {  // the index of the last kept word up to the lane
    const Register number = _mm512_sub_epi32(_mm512_popcnt_epi32(here), _mm512_set1_epi32(1));
    row = _mm512_maskz_compress_epi32(static_cast<__mmask16>(kept), row);
    row = _mm512_mask_permutexvar_epi32(raw<W>(last), _mm512_test_epi32_mask(here, here), number, row);
  } else {
    const Register number = _mm512_sub_epi64(_mm512_popcnt_epi64(here), _mm512_set1_epi64(1));
    row = _mm512_maskz_compress_epi64(static_cast<__mmask8>(kept), row);
    row = _mm512_mask_permutexvar_epi64(raw<W>(last), _mm512_test_epi64_mask(here, here), number, row);
  }
  rows.at[r] = row_of<W>(row);
  if constexpr (r + 1 < Rows<n, W>::count)
    fill_rows_forward<r + 1>(holes, spread_lane<lanes - 1, W>(row_of<W>(row)), rows);
}

template <u32 n, class W>
H5L_ROWS_FN void fill_forward(u64 holes, W last, Rows<n, W>& rows) {
  fill_rows_forward<0>(holes, all_lanes(last), rows);
}

#endif

#else

template <u32 n, class W>
struct Rows {
  W at[n];
};

template <class W>
using Edge = W;

template <u32 n, class W>
H5L_ROWS_FN Rows<n, W> load_rows(const void* words) {
  Rows<n, W> rows;
  memcpy(rows.at, words, sizeof rows.at);
  return rows;
}

template <u32 n, class W>
H5L_ROWS_FN void store_rows(const Rows<n, W>& rows, void* words) {
  memcpy(words, rows.at, sizeof rows.at);
}

template <u32 n, class W>
H5L_ROWS_FN Rows<n, W> all_words(W word) {
  Rows<n, W> rows;
  for (u32 i = 0; i < n; ++i) rows.at[i] = word;
  return rows;
}

template <u32 n, class W>
H5L_ROWS_FN W word_at(const Rows<n, W>& rows, u32 i) {
  return rows.at[i];
}

template <u32 n, class W>
H5L_ROWS_FN W first_of(const Rows<n, W>& rows) {
  return rows.at[0];
}

template <u32 n, class W>
H5L_ROWS_FN Rows<n, W> with_first(Rows<n, W> rows, W first) {
  rows.at[0] = first;
  return rows;
}

template <u32 n, class W>
H5L_ROWS_FN W any_bits(const Rows<n, W>& rows) {
  W any = 0;
  for (u32 i = 0; i < n; ++i) any |= rows.at[i];
  return any;
}

template <u32 n, class W>
H5L_ROWS_FN bool all_are(const Rows<n, W>& rows, W word) {
  W any = 0;
  for (u32 i = 0; i < n; ++i) any |= rows.at[i] ^ word;
  return any == 0;
}

template <u32 n, class W>
H5L_ROWS_FN bool all_are_equal(const Rows<n, W>& a, const Rows<n, W>& b) {
  W any = 0;
  for (u32 i = 0; i < n; ++i) any |= a.at[i] ^ b.at[i];
  return any == 0;
}

template <u32 n, class W>
H5L_ROWS_FN Rows<n, W> either(Rows<n, W> a, const Rows<n, W>& b) {
  for (u32 i = 0; i < n; ++i) a.at[i] |= b.at[i];
  return a;
}

template <u32 n, class W>
H5L_ROWS_FN Rows<n, W> keep(Rows<n, W> rows, u64 mask) {
  for (u32 i = 0; i < n; ++i) rows.at[i] = (mask >> i & 1) != 0 ? rows.at[i] : 0;
  return rows;
}

template <class W>
H5L_ROWS_FN Edge<W> edge_of(W word) {
  return word;
}

template <u32 n, class W>
H5L_ROWS_FN Edge<W> last_of(const Rows<n, W>& rows) {
  return rows.at[n - 1];
}

template <class W>
H5L_ROWS_FN W word_of(Edge<W> edge) {
  return edge;
}

template <auto before, u32 n, class W>
H5L_ROWS_FN void differences(const Rows<n, W>& bins, Edge<W> edge, Rows<n, W>& words) {
  words.at[0] = blocks::to_sign_last(static_cast<W>(bins.at[0] - edge));
  for (u32 i = 1; i < n; ++i) words.at[i] = blocks::to_sign_last(static_cast<W>(bins.at[i] - bins.at[i - 1]));
#pragma GCC unroll 64
  for (u32 i = 1; i < n; ++i) {  // separate from the others, so that those are vectorized
    if (before(i) == i - 1) continue;
    words.at[i] = blocks::to_sign_last(static_cast<W>(bins.at[i] - bins.at[before(i)]));
  }
}

template <u32 n, class W>
H5L_ROWS_FN void signs_last(const Rows<n, W>& numbers, Rows<n, W>& words) {
  for (u32 i = 0; i < n; ++i) words.at[i] = blocks::to_sign_last(numbers.at[i]);
}

template <u32 n, class W>
H5L_ROWS_FN W any_bits_behind_first(const Rows<n, W>& rows) {
  W any = 0;
  for (u32 i = 1; i < n; ++i) any |= rows.at[i];
  return any;
}

// Not inlined: GCC would interleave several blocks, with more shuffles than sums.
template <auto before, u32 n, class W>
[[gnu::noinline]] void sum_rows(Rows<n, W>& rows, Edge<W>& edge) {
  constexpr bool is_run = [] {
    for (u32 i = 1; i < n; ++i) {
      if (before(i) != i - 1) return false;
    }
    return true;
  }();
  if constexpr (is_run) {
    edge = running_sums(rows.at, n, edge);
  } else {
    rows.at[0] += edge;
#pragma GCC unroll 64
    for (u32 i = 1; i < n; ++i) rows.at[i] += rows.at[before(i)];
    edge = rows.at[n - 1];
  }
}

#endif

#if !defined(H5L_ROWS_AVX512)

// Fills positions of `holes` with the word before them, the first ones with `last`.
template <u32 n, class W>
void fill_forward(u64 holes, W last, Rows<n, W>& rows) {
  if (holes == blocks::first_bits(n)) {
    rows = all_words<n>(last);
    return;
  }
  W words[n];
  store_rows(rows, words);
#pragma GCC unroll 8
  for (u32 i = 0; i < n; ++i, holes >>= 1) {  // branch-free: holes are unpredictable
    const W is_hole = W{0} - static_cast<W>(holes & 1);
    words[i] = last = (last & is_hole) | (words[i] & ~is_hole);
  }
  rows = load_rows<n, W>(words);
}

#endif

}  // namespace h5lossy::H5L_TARGET::simd

// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// block_rows.h for AVX2.
#pragma once

#include <immintrin.h>

#include "codecs/portable.h"
#include "codecs/simd/block_rows_registers.h"
#include "codecs/simd/lanes.h"

namespace h5lossy::H5L_TARGET::simd {

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
H5L_INLINE Vector<W> permute(const Places<W>& places, Vector<W> a, Vector<W> b) {
  const Register from = _mm256_load_si256(reinterpret_cast<const __m256i*>(places.at));
  const __m256 x = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(raw<W>(a), from));
  const __m256 y = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(raw<W>(b), from));
  return row_of<W>(_mm256_castps_si256(_mm256_blendv_ps(x, y, _mm256_castsi256_ps(from))));
}

template <u32 lane, class W>
H5L_INLINE Vector<W> spread_lane(Vector<W> row) {
  if constexpr (sizeof(W) == 8) return row_of<W>(_mm256_permute4x64_epi64(raw<W>(row), 0x55 * lane));
  if constexpr (sizeof(W) == 4) return row_of<W>(_mm256_permutevar8x32_epi32(raw<W>(row), _mm256_set1_epi32(lane)));
  const Register four = _mm256_permute4x64_epi64(raw<W>(row), 0x55 * (lane / 4));
  return row_of<W>(_mm256_shuffle_epi8(four, _mm256_set1_epi16(0x0100 + lane % 4 * 0x0202)));
}

H5L_INLINE Register shuffle_in_quarters(Register row, Register from) { return _mm256_shuffle_epi8(row, from); }

template <class W>
H5L_INLINE Vector<W> to_sign_last(Vector<W> difference) {
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
H5L_INLINE Vector<W> keep_lanes(Vector<W> row, u64 mask) {
  Vector<W> bits;
  for (u32 i = 0; i < kLanes<W>; ++i) bits[i] = W{1} << i;
  const Vector<W> set = all_lanes(static_cast<W>(mask >> (kLanes<W> * r))) & bits;
  if constexpr (sizeof(W) == 4) return row & row_of<W>(_mm256_cmpeq_epi32(raw<W>(set), raw<W>(bits)));
  return row & row_of<W>(_mm256_cmpeq_epi64(raw<W>(set), raw<W>(bits)));
}

template <class W>
H5L_INLINE u32 bits_of(Mask<W> row) {
  const Register zero = _mm256_setzero_si256();
  if constexpr (sizeof(W) == 4) {
    const Register zeros = _mm256_cmpeq_epi32(raw<W>(row), zero);
    return 0xFFu & ~static_cast<u32>(_mm256_movemask_ps(_mm256_castsi256_ps(zeros)));
  }
  return 0xFu & ~static_cast<u32>(_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(raw<W>(row), zero))));
}

template <class W>
H5L_INLINE W any_bits_of_lanes(Vector<W> row) {
  const __m128i half = _mm_or_si128(_mm256_castsi256_si128(raw<W>(row)), _mm256_extracti128_si256(raw<W>(row), 1));
  const u64 bits = static_cast<u64>(_mm_cvtsi128_si64(_mm_or_si128(half, _mm_unpackhi_epi64(half, half))));
  return sizeof(W) == 8 ? static_cast<W>(bits) : static_cast<W>(bits | bits >> 32);
}

template <auto before, u32 group, class W>
H5L_INLINE Vector<W> entries_of_halves(Vector<W> row) {
  const Register from = bit_cast<Register>(kEntriesInQuarters<before, W, group>);
  const Register lower = _mm256_permute2x128_si256(raw<W>(row), raw<W>(row), 0x08);
  return row_of<W>(shuffle_in_quarters(lower, from));
}

}  // namespace h5lossy::H5L_TARGET::simd

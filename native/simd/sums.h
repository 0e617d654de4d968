// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Running sums: each word becomes the sum of all up to it. With AVX-512 a vector at a time; else one by one, which
// compilers leave as it is.
#pragma once

#include "codecs/portable.h"

#if defined(__AVX512BW__)
#include <immintrin.h>
#endif

namespace h5lossy::H5L_TARGET::simd {

#if defined(__AVX512BW__)
// Sums within a vector, in steps that double.
inline __m512i sum_lanes(__m512i x, u32) {
  const __m512i zero = _mm512_setzero_si512();
  x = _mm512_add_epi32(x, _mm512_alignr_epi32(x, zero, 15));
  x = _mm512_add_epi32(x, _mm512_alignr_epi32(x, zero, 14));
  x = _mm512_add_epi32(x, _mm512_alignr_epi32(x, zero, 12));
  return _mm512_add_epi32(x, _mm512_alignr_epi32(x, zero, 8));
}

inline __m512i sum_lanes(__m512i x, u64) {
  const __m512i zero = _mm512_setzero_si512();
  x = _mm512_add_epi64(x, _mm512_alignr_epi64(x, zero, 7));
  x = _mm512_add_epi64(x, _mm512_alignr_epi64(x, zero, 6));
  return _mm512_add_epi64(x, _mm512_alignr_epi64(x, zero, 4));
}

inline __m512i add_lanes(__m512i x, __m512i y, u32) { return _mm512_add_epi32(x, y); }
inline __m512i add_lanes(__m512i x, __m512i y, u64) { return _mm512_add_epi64(x, y); }
inline __m512i last_lane(__m512i x, u32) { return _mm512_permutexvar_epi32(_mm512_set1_epi32(15), x); }
inline __m512i last_lane(__m512i x, u64) { return _mm512_permutexvar_epi64(_mm512_set1_epi64(7), x); }
inline __m512i all_lanes(u32 word) { return _mm512_set1_epi32(static_cast<i32>(word)); }
inline __m512i all_lanes(u64 word) { return _mm512_set1_epi64(static_cast<i64>(word)); }
#endif

// Starts from `sum`, and returns the last one.
template <class W>
inline W running_sums(W* words, u32 count, W sum) {
  u32 i = 0;
#if defined(__AVX512BW__)
  constexpr u32 lanes = 64 / sizeof(W);
  __m512i before = all_lanes(sum);
  for (; i + lanes <= count; i += lanes) {
    // The chain from vector to vector is one addition and one shuffle.
    const __m512i sums = sum_lanes(_mm512_loadu_si512(words + i), W{});
    _mm512_storeu_si512(words + i, add_lanes(sums, before, W{}));
    before = add_lanes(before, last_lane(sums, W{}), W{});
  }
  if (i != 0) sum = words[i - 1];
#endif
#pragma GCC unroll 32
  for (; i < count; ++i) words[i] = sum += words[i];
  return sum;
}

}  // namespace h5lossy::H5L_TARGET::simd

// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// lanes.h for AVX2.
#pragma once

#include <immintrin.h>

#include "codecs/portable.h"
#include "codecs/simd/lanes_common.h"

namespace h5lossy::H5L_TARGET::simd {

using Register = __m256i;

// All bits set in lanes for which it is true.
template <class W>
using Mask = Vector<W>;

template <class W>
inline bool all(Vector<W> mask) {
  return _mm256_movemask_epi8((__m256i)mask) == -1;
}
template <class W>
inline Vector<W> invert(Vector<W> mask) {
  return ~mask;
}

inline Vector<u32> is_above(Vector<u32> a, Vector<u32> b) {
  return (Vector<u32>)_mm256_cmpgt_epi32((__m256i)a, (__m256i)b);
}
inline Vector<u64> is_above(Vector<u64> a, Vector<u64> b) {
  return (Vector<u64>)_mm256_cmpgt_epi64((__m256i)a, (__m256i)b);
}
inline Vector<u32> is_less(Vector<u32> a, Vector<u32> b) { return is_above(b ^ (1u << 31), a ^ (1u << 31)); }
inline Vector<u64> is_less(Vector<u64> a, Vector<u64> b) { return is_above(b ^ (1ull << 63), a ^ (1ull << 63)); }
inline Vector<u32> is_equal(Vector<u32> a, Vector<u32> b) {
  return (Vector<u32>)_mm256_cmpeq_epi32((__m256i)a, (__m256i)b);
}
inline Vector<u64> is_equal(Vector<u64> a, Vector<u64> b) {
  return (Vector<u64>)_mm256_cmpeq_epi64((__m256i)a, (__m256i)b);
}
inline Vector<u32> is_at_most(Vector<float> a, Vector<float> b) { return (Vector<u32>)_mm256_cmp_ps(a, b, _CMP_LE_OQ); }
inline Vector<u64> is_at_most(Vector<double> a, Vector<double> b) {
  return (Vector<u64>)_mm256_cmp_pd(a, b, _CMP_LE_OQ);
}

template <class V>
inline V choose(V mask, V yes, V no) {
  return (V)_mm256_blendv_epi8((__m256i)no, (__m256i)yes, (__m256i)mask);
}

// AVX2 cannot convert between integers and doubles: a number below 2^51 in magnitude appears in the low bits of its sum
// with this one. Sums of larger numbers and NaN differ in higher bits, so they are out of the range of bins, too.
inline constexpr double kIntegerInMantissa = 0x1.8p52;

inline Vector<u32> truncated(Vector<float> x) { return (Vector<u32>)_mm256_cvttps_epi32(x); }
inline Vector<u64> truncated(Vector<double> x) {
  const Vector<double> whole = _mm256_round_pd(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
  return (Vector<u64>)(whole + kIntegerInMantissa) - bit_cast<u64>(kIntegerInMantissa);
}

// Correctly rounded: the two halves of the number are exact as doubles, as is the sum of the upper one and the
// constants, so only the last sum rounds.
inline Vector<float> to_float(Vector<u32> x) { return _mm256_cvtepi32_ps((__m256i)x); }
inline Vector<double> to_float(Vector<u64> x) {
  const __m256i low = _mm256_blend_epi32((__m256i)x, _mm256_set1_epi64x(bit_cast<i64>(0x1p52)), 0xAA);
  const Vector<u64> high = (x >> 32) ^ bit_cast<u64>(0x1p84 + 0x1p63);
  return (Vector<double>)low + ((Vector<double>)high - (0x1p84 + 0x1p63 + 0x1p52));
}
inline Vector<float> bin_to_float(Vector<u32> bin) { return to_float(bin); }
inline Vector<double> bin_to_float(Vector<u64> bin) {
  return (Vector<double>)(bin + bit_cast<u64>(kIntegerInMantissa)) - kIntegerInMantissa;
}

inline Vector<u32> shift_in(Vector<u32> before, Vector<u32> x) {
  const __m256i between = _mm256_permute2x128_si256((__m256i)before, (__m256i)x, 0x21);
  return (Vector<u32>)_mm256_alignr_epi8((__m256i)x, between, 12);
}
inline Vector<u64> shift_in(Vector<u64> before, Vector<u64> x) {
  const __m256i between = _mm256_permute2x128_si256((__m256i)before, (__m256i)x, 0x21);
  return (Vector<u64>)_mm256_alignr_epi8((__m256i)x, between, 8);
}

template <class V>
inline V unzigzag_lanes(V x) {
  return (x >> 1) ^ -(x & 1);
}

inline Vector<u32> last_lane(Vector<u32> x) {
  return (Vector<u32>)_mm256_permutevar8x32_epi32((__m256i)x, _mm256_set1_epi32(7));
}
inline Vector<u64> last_lane(Vector<u64> x) { return (Vector<u64>)_mm256_permute4x64_epi64((__m256i)x, 0xFF); }

inline Vector<u32> sum_lanes(Vector<u32> x) {
  x += (Vector<u32>)_mm256_slli_si256((__m256i)x, 4);
  x += (Vector<u32>)_mm256_slli_si256((__m256i)x, 8);
  const __m256i lower_half = _mm256_permute2x128_si256((__m256i)x, (__m256i)x, 0x08);
  return x + (Vector<u32>)_mm256_shuffle_epi32(lower_half, 0xFF);
}
inline Vector<u64> sum_lanes(Vector<u64> x) {
  x += (Vector<u64>)_mm256_slli_si256((__m256i)x, 8);
  const __m256i lower_half = _mm256_permute2x128_si256((__m256i)x, (__m256i)x, 0x08);
  return x + (Vector<u64>)_mm256_unpackhi_epi64(lower_half, lower_half);
}

// Stores a vector with non-temporal stores; `stores` is not plain.
template <class V>
inline void stream_lanes(void* to, V lanes, Stores stores) {
  __m128i* const pieces = static_cast<__m128i*>(to);
  const __m256i all = (__m256i)lanes;
  if (stores == Stores::non_temporal) {
    _mm256_stream_si256(static_cast<__m256i*>(to), all);
  } else {
    _mm_stream_si128(pieces, _mm256_castsi256_si128(all));
    _mm_stream_si128(pieces + 1, _mm256_extracti128_si256(all, 1));
  }
}

}  // namespace h5lossy::H5L_TARGET::simd

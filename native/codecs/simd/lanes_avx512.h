// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// lanes.h for AVX-512.
#pragma once

#include <immintrin.h>

#include "codecs/portable.h"
#include "codecs/simd/lanes_common.h"

namespace h5lossy::H5L_TARGET::simd {

using Register = __m512i;

// One bit per lane.
template <class W>
using Mask = u32;

template <class W>
inline bool all(u32 mask) {
  return mask == (1u << kLanes<W>)-1;
}
template <class W>
inline u32 invert(u32 mask) {
  return ~mask & ((1u << kLanes<W>)-1);
}

// Unsigned.
inline u32 is_less(Vector<u32> a, Vector<u32> b) { return _mm512_cmplt_epu32_mask((__m512i)a, (__m512i)b); }
inline u32 is_less(Vector<u64> a, Vector<u64> b) { return _mm512_cmplt_epu64_mask((__m512i)a, (__m512i)b); }
inline u32 is_equal(Vector<u32> a, Vector<u32> b) { return _mm512_cmpeq_epi32_mask((__m512i)a, (__m512i)b); }
inline u32 is_equal(Vector<u64> a, Vector<u64> b) { return _mm512_cmpeq_epi64_mask((__m512i)a, (__m512i)b); }

// Signed.
inline u32 is_above(Vector<u32> a, Vector<u32> b) { return _mm512_cmpgt_epi32_mask((__m512i)a, (__m512i)b); }
inline u32 is_above(Vector<u64> a, Vector<u64> b) { return _mm512_cmpgt_epi64_mask((__m512i)a, (__m512i)b); }

// False for NaN.
inline u32 is_at_most(Vector<float> a, Vector<float> b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
inline u32 is_at_most(Vector<double> a, Vector<double> b) { return _mm512_cmp_pd_mask(a, b, _CMP_LE_OQ); }

inline Vector<u32> choose(u32 mask, Vector<u32> yes, Vector<u32> no) {
  return (Vector<u32>)_mm512_mask_mov_epi32((__m512i)no, static_cast<__mmask16>(mask), (__m512i)yes);
}
inline Vector<u64> choose(u32 mask, Vector<u64> yes, Vector<u64> no) {
  return (Vector<u64>)_mm512_mask_mov_epi64((__m512i)no, static_cast<__mmask8>(mask), (__m512i)yes);
}

// Truncates; undefined for NaN and for numbers out of range.
inline Vector<u32> truncated(Vector<float> x) { return (Vector<u32>)_mm512_cvttps_epi32(x); }
inline Vector<u64> truncated(Vector<double> x) { return (Vector<u64>)_mm512_cvttpd_epi64(x); }

// Signed, correctly rounded.
inline Vector<float> to_float(Vector<u32> x) { return (Vector<float>)_mm512_cvtepi32_ps((__m512i)x); }
inline Vector<double> to_float(Vector<u64> x) { return (Vector<double>)_mm512_cvtepi64_pd((__m512i)x); }

// The same for bins; undefined for other numbers.
inline Vector<float> bin_to_float(Vector<u32> bin) { return to_float(bin); }
inline Vector<double> bin_to_float(Vector<u64> bin) { return to_float(bin); }

// Moves the lanes up by one; lane 0 becomes the last lane of `before`.
inline Vector<u32> shift_in(Vector<u32> before, Vector<u32> x) {
  return (Vector<u32>)_mm512_alignr_epi32((__m512i)x, (__m512i)before, 15);
}
inline Vector<u64> shift_in(Vector<u64> before, Vector<u64> x) {
  return (Vector<u64>)_mm512_alignr_epi64((__m512i)x, (__m512i)before, 7);
}

// See unzigzag().
inline Vector<u32> unzigzag_lanes(Vector<u32> x) {
  const __mmask16 odd = _mm512_test_epi32_mask((__m512i)x, _mm512_set1_epi32(1));
  const __m512i half = _mm512_srli_epi32((__m512i)x, 1);
  return (Vector<u32>)_mm512_mask_ternarylogic_epi32(half, odd, half, half, 0x55);
}
inline Vector<u64> unzigzag_lanes(Vector<u64> x) {
  const __mmask8 odd = _mm512_test_epi64_mask((__m512i)x, _mm512_set1_epi64(1));
  const __m512i half = _mm512_srli_epi64((__m512i)x, 1);
  return (Vector<u64>)_mm512_mask_ternarylogic_epi64(half, odd, half, half, 0x55);
}

inline Vector<u32> last_lane(Vector<u32> x) {
  return (Vector<u32>)_mm512_permutexvar_epi32(_mm512_set1_epi32(15), (__m512i)x);
}
inline Vector<u64> last_lane(Vector<u64> x) {
  return (Vector<u64>)_mm512_permutexvar_epi64(_mm512_set1_epi64(7), (__m512i)x);
}

// Prefix sums, in doubling steps: the last lane of the lower half of each 2, 4, 8 lanes is added to the upper half.
inline Vector<u32> sum_lanes(Vector<u32> x) {
  const __m512i third = _mm512_set1_epi64(0x0000000300000003), eleventh = _mm512_set1_epi64(0x0000000B0000000B);
  const __m512i last_of_fours = _mm512_inserti64x4(third, _mm512_castsi512_si256(eleventh), 1);
  x += (Vector<u32>)_mm512_slli_epi64((__m512i)x, 32);
  x += (Vector<u32>)_mm512_maskz_shuffle_epi32(0xCCCC, (__m512i)x, _MM_PERM_BBBB);
  x += (Vector<u32>)_mm512_maskz_permutexvar_epi32(0xF0F0, last_of_fours, (__m512i)x);
  return x + (Vector<u32>)_mm512_maskz_permutexvar_epi32(0xFF00, _mm512_set1_epi32(7), (__m512i)x);
}
inline Vector<u64> sum_lanes(Vector<u64> x) {
  x += (Vector<u64>)_mm512_maskz_unpacklo_epi64(0xAA, (__m512i)x, (__m512i)x);
  x += (Vector<u64>)_mm512_maskz_permutex_epi64(0xCC, (__m512i)x, 0x55);
  return x + (Vector<u64>)_mm512_maskz_permutexvar_epi64(0xF0, _mm512_set1_epi64(3), (__m512i)x);
}

// Stores a vector with non-temporal stores; `stores` is not plain.
template <class V>
inline void stream_lanes(void* to, V lanes, Stores stores) {
  __m128i* const pieces = static_cast<__m128i*>(to);
  const __m512i all = (__m512i)lanes;
  if (stores == Stores::non_temporal) {
    _mm512_stream_si512(static_cast<__m512i*>(to), all);
  } else {
    _mm_stream_si128(pieces, _mm512_castsi512_si128(all));
    _mm_stream_si128(pieces + 1, _mm512_extracti32x4_epi32(all, 1));
    _mm_stream_si128(pieces + 2, _mm512_extracti32x4_epi32(all, 2));
    _mm_stream_si128(pieces + 3, _mm512_extracti32x4_epi32(all, 3));
  }
}

}  // namespace h5lossy::H5L_TARGET::simd

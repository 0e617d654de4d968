// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Operations that a Vector (codecs/portable.h) has no operators for: comparisons to masks, conversions, and moves
// between lanes. For backends with AVX-512 or AVX2.
#pragma once

#include "codecs/bounds.h"
#include "codecs/portable.h"

#if defined(__AVX512BW__) && defined(__AVX512DQ__)
#include <immintrin.h>
#define H5L_HAS_LANES 1

namespace h5lossy::H5L_TARGET::simd {

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

}  // namespace h5lossy::H5L_TARGET::simd

#elif defined(__AVX2__) && !defined(__AVX512F__)
#include <immintrin.h>
#define H5L_HAS_LANES 1

namespace h5lossy::H5L_TARGET::simd {

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

// There is no instruction between integers and doubles: a number below 2^51 in magnitude appears in the low bits of its
// sum with this one. Sums of larger numbers and NaN differ in higher bits, so that they are no bins either.
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

}  // namespace h5lossy::H5L_TARGET::simd

#else
#define H5L_HAS_LANES 0
#endif

#if H5L_HAS_LANES

namespace h5lossy::H5L_TARGET::simd {

// The same number in all lanes.
template <class T>
inline Vector<T> all_lanes(T number) {
  return Vector<T>{} + number;
}

template <class W>
inline Vector<W> load_lanes(const void* from) {
  Vector<W> lanes;
  memcpy(&lanes, from, sizeof lanes);
  return lanes;
}

template <class V>
inline void store_lanes(void* to, V lanes) {
  memcpy(to, &lanes, sizeof lanes);
}

// How to store vectors from an address on. Non-temporal stores must be aligned: as whole vectors, or in pieces of 16
// bytes, which is the alignment of memory from an allocator.
enum class Stores { plain, non_temporal, non_temporal_16 };

inline Stores non_temporal_stores(const void* to) {
  const auto address = reinterpret_cast<__UINTPTR_TYPE__>(to);
  if (address % 64 == 0) return Stores::non_temporal;
  return address % 16 == 0 ? Stores::non_temporal_16 : Stores::plain;
}

template <class V>
inline void store_lanes(void* to, V lanes, Stores stores) {
  if (stores == Stores::plain) [[likely]] {
    store_lanes(to, lanes);
    return;
  }
  __m128i* const pieces = static_cast<__m128i*>(to);
#if defined(__AVX512F__)
  const __m512i all = (__m512i)lanes;
  if (stores == Stores::non_temporal) {
    _mm512_stream_si512(static_cast<__m512i*>(to), all);
  } else {
    _mm_stream_si128(pieces, _mm512_castsi512_si128(all));
    _mm_stream_si128(pieces + 1, _mm512_extracti32x4_epi32(all, 1));
    _mm_stream_si128(pieces + 2, _mm512_extracti32x4_epi32(all, 2));
    _mm_stream_si128(pieces + 3, _mm512_extracti32x4_epi32(all, 3));
  }
#else
  const __m256i all = (__m256i)lanes;
  if (stores == Stores::non_temporal) {
    _mm256_stream_si256(static_cast<__m256i*>(to), all);
  } else {
    _mm_stream_si128(pieces, _mm256_castsi256_si128(all));
    _mm_stream_si128(pieces + 1, _mm256_extracti128_si256(all, 1));
  }
#endif
}

// The bits that are set in some lane.
template <class W>
inline W bits_in_any(Vector<W> x) {
  W bits = 0;
  for (u32 i = 0; i < kLanes<W>; ++i) bits |= x[i];
  return bits;
}

}  // namespace h5lossy::H5L_TARGET::simd

#endif

// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Blocks of pfpl_integers.h for AVX2.
#pragma once

#include <immintrin.h>

#include "codecs/portable.h"

namespace h5lossy::H5L_TARGET::simd {

// One instruction takes the highest bit of each byte, eight times in all; the first value of a group goes to the
// highest bit.
inline void block_to_planes(const u8 (&bytes)[64], u32 stride, u8* planes) {
  const __m256i last_first = _mm256_set1_epi64x(0x0001020304050607ll);
  const __m256i in_lane =
      _mm256_add_epi8(last_first, _mm256_set_epi64x(0x0808080808080808ll, 0, 0x0808080808080808ll, 0));
  __m256i low = _mm256_load_si256(reinterpret_cast<const __m256i*>(bytes));
  __m256i high = _mm256_load_si256(reinterpret_cast<const __m256i*>(bytes + 32));
  low = _mm256_shuffle_epi8(low, in_lane);
  high = _mm256_shuffle_epi8(high, in_lane);
  // Stored from registers, since loading a vector from bytes that were just stored one by one stalls.
  for (u32 j = 0; j < 8; ++j, planes += stride) {
    store(planes, static_cast<u32>(_mm256_movemask_epi8(low)));
    store(planes + 4, static_cast<u32>(_mm256_movemask_epi8(high)));
    low = _mm256_add_epi8(low, low);
    high = _mm256_add_epi8(high, high);
  }
}

// transpose_eight, for four groups.
template <int k>
inline __m256i swapped_bits(__m256i groups, i64 low) {
  const __m256i other = _mm256_xor_si256(groups, _mm256_srli_epi64(groups, k));
  const __m256i swapped = _mm256_and_si256(other, _mm256_set1_epi64x(low));
  return _mm256_xor_si256(groups, _mm256_xor_si256(swapped, _mm256_slli_epi64(swapped, k)));
}

inline __m256i bytes_of_groups(__m256i groups) {
  groups = swapped_bits<9>(groups, 0x0055005500550055ll);
  groups = swapped_bits<18>(groups, 0x0000333300003333ll);
  return swapped_bits<36>(groups, 0x000000000F0F0F0Fll);
}

inline void block_from_planes(const u8* planes, u32 stride, u8 (&bytes)[64]) {
  const auto plane = [&](u32 j) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(planes + j * stride)); };
  __m128i pairs[4];
  for (u32 i = 0; i < 4; ++i) pairs[i] = _mm_unpacklo_epi8(plane(2 * i), plane(2 * i + 1));
  const __m128i first = _mm_unpacklo_epi16(pairs[0], pairs[1]), second = _mm_unpackhi_epi16(pairs[0], pairs[1]);
  const __m128i third = _mm_unpacklo_epi16(pairs[2], pairs[3]), fourth = _mm_unpackhi_epi16(pairs[2], pairs[3]);
  const __m256i low = _mm256_set_m128i(_mm_unpackhi_epi32(first, third), _mm_unpacklo_epi32(first, third));
  const __m256i high = _mm256_set_m128i(_mm_unpackhi_epi32(second, fourth), _mm_unpacklo_epi32(second, fourth));
  _mm256_store_si256(reinterpret_cast<__m256i*>(bytes), bytes_of_groups(low));
  _mm256_store_si256(reinterpret_cast<__m256i*>(bytes + 32), bytes_of_groups(high));
}

inline Vector<u8> average_lanes(Vector<u8> a, Vector<u8> b) {
  return (Vector<u8>)_mm256_avg_epu8((__m256i)a, (__m256i)b);
}
inline Vector<u16> average_lanes(Vector<u16> a, Vector<u16> b) {
  return (Vector<u16>)_mm256_avg_epu16((__m256i)a, (__m256i)b);
}

// The lanes of two concatenated vectors, from lane `first` on.
template <class W, u32 first>
inline Vector<W> lanes_from(Vector<W> a, Vector<W> b) {
  constexpr u32 bytes = first * sizeof(W);
  const __m256i between = _mm256_permute2x128_si256((__m256i)a, (__m256i)b, 0x21);
  if constexpr (bytes < 16) {
    return (Vector<W>)_mm256_alignr_epi8(between, (__m256i)a, bytes);
  } else {
    return (Vector<W>)_mm256_alignr_epi8((__m256i)b, between, bytes - 16);
  }
}

// Prefix sums: within each half of a vector, then the last sum of the lower half is added to the whole upper half.
inline Vector<u8> sum_lanes(Vector<u8> x) {
  x += (Vector<u8>)_mm256_slli_si256((__m256i)x, 1);
  x += (Vector<u8>)_mm256_slli_si256((__m256i)x, 2);
  x += (Vector<u8>)_mm256_slli_si256((__m256i)x, 4);
  x += (Vector<u8>)_mm256_slli_si256((__m256i)x, 8);
  const __m256i lower_half = _mm256_permute2x128_si256((__m256i)x, (__m256i)x, 0x08);
  return x + (Vector<u8>)_mm256_shuffle_epi8(lower_half, _mm256_set1_epi8(15));
}
inline Vector<u16> sum_lanes(Vector<u16> x) {
  x += (Vector<u16>)_mm256_slli_si256((__m256i)x, 2);
  x += (Vector<u16>)_mm256_slli_si256((__m256i)x, 4);
  x += (Vector<u16>)_mm256_slli_si256((__m256i)x, 8);
  const __m256i lower_half = _mm256_permute2x128_si256((__m256i)x, (__m256i)x, 0x08);
  return x + (Vector<u16>)_mm256_shuffle_epi8(lower_half, _mm256_set1_epi16(0x0F0E));
}
inline Vector<u8> last_lane(Vector<u8> x) {
  const __m256i upper_half = _mm256_permute4x64_epi64((__m256i)x, 0xFF);
  return (Vector<u8>)_mm256_shuffle_epi8(upper_half, _mm256_set1_epi8(15));
}
inline Vector<u16> last_lane(Vector<u16> x) {
  const __m256i upper_half = _mm256_permute4x64_epi64((__m256i)x, 0xFF);
  return (Vector<u16>)_mm256_shuffle_epi8(upper_half, _mm256_set1_epi16(0x0F0E));
}

}  // namespace h5lossy::H5L_TARGET::simd

// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// block_planes.h for AVX2.
#pragma once

#include <immintrin.h>

#include "codecs/portable.h"
#include "codecs/simd/block_rows.h"

namespace h5lossy::H5L_TARGET::simd {

// 16-bit words of a block.
template <u32 n>
using ShortRows = Rows<n, u16>;

// In each eight bytes, bit b of byte j goes to bit 7 - j of byte 7 - b. Its own inverse. Works on squares as
// transpose_level does.
H5L_INLINE __m256i transpose_eights(__m256i bytes) {
  Vector<u64> x = row_of<u64>(bytes);
  Vector<u64> swapped = (x ^ x >> 9) & 0x0055005500550055ull;
  x ^= swapped ^ swapped << 9;
  swapped = (x ^ x >> 18) & 0x0000333300003333ull;
  x ^= swapped ^ swapped << 18;
  swapped = (x ^ x >> 36) & 0x000000000F0F0F0Full;
  x ^= swapped ^ swapped << 36;
  return raw<u64>(x);
}

H5L_INLINE void store_half(u8* out, __m128i half) { _mm_storeu_si128(reinterpret_cast<__m128i*>(out), half); }

// In each half of 16 bytes, interleaves the bytes of its two eights, last ones first.
H5L_INLINE __m256i mix_eights(__m256i bytes) {
  return _mm256_shuffle_epi8(
      bytes, _mm256_broadcastsi128_si256(_mm_setr_epi8(7, 15, 6, 14, 5, 13, 4, 12, 3, 11, 2, 10, 1, 9, 0, 8)));
}

// Stores eight planes of a block's bytes.
H5L_INLINE void store_eight(const __m256i (&bytes)[1], u8* out) {
  const __m256i pairs = mix_eights(transpose_eights(bytes[0]));
  const __m128i low = _mm256_castsi256_si128(pairs), high = _mm256_extracti128_si256(pairs, 1);
  store_half(out, _mm_unpacklo_epi16(low, high));
  store_half(out + 16, _mm_unpackhi_epi16(low, high));
}

H5L_INLINE void store_eight(const __m256i (&bytes)[2], u8* out) {
  __m128i fours[2][2];
#pragma GCC unroll 2
  for (u32 i = 0; i < 2; ++i) {
    const __m256i pairs = mix_eights(transpose_eights(bytes[i]));
    const __m128i low = _mm256_castsi256_si128(pairs), high = _mm256_extracti128_si256(pairs, 1);
    fours[i][0] = _mm_unpacklo_epi16(low, high);
    fours[i][1] = _mm_unpackhi_epi16(low, high);
  }
#pragma GCC unroll 2
  for (u32 i = 0; i < 2; ++i) {
    store_half(out + 32 * i, _mm_unpacklo_epi32(fours[0][i], fours[1][i]));
    store_half(out + 32 * i + 16, _mm_unpackhi_epi32(fours[0][i], fours[1][i]));
  }
}

// Writes `planes` planes from `first` on, up to first + 15; may write more.
template <u32 first, u32 n>
H5L_INLINE void store_sixteen(const Rows<n, u32>& words, u32 planes, u8* out) {
  const __m256i low_byte = _mm256_set1_epi16(0xFF);
  const __m256i in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  __m256i bytes[n / 32], upper[n / 32];
#pragma GCC unroll 2
  for (u32 i = 0; i < n / 32; ++i) {
    __m256i shorts[4];
#pragma GCC unroll 4
    for (u32 j = 0; j < 4; ++j) {
      const Vector<u32> word = words.at[4 * i + j];
      shorts[j] = raw<u32>(first == 0 ? word & 0xFFFF : word >> 16);
    }
    const __m256i a = _mm256_packus_epi32(shorts[0], shorts[1]), b = _mm256_packus_epi32(shorts[2], shorts[3]);
    bytes[i] = _mm256_permutevar8x32_epi32(
        _mm256_packus_epi16(_mm256_and_si256(a, low_byte), _mm256_and_si256(b, low_byte)), in_order);
    upper[i] =
        _mm256_permutevar8x32_epi32(_mm256_packus_epi16(_mm256_srli_epi16(a, 8), _mm256_srli_epi16(b, 8)), in_order);
  }
  store_eight(bytes, out);
  if (planes > first + 8) store_eight(upper, out + n);
}

H5L_INLINE __m256i load_words(const u8* from, u32 words) {
  const __m256i kept =
      _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<i32>(words)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  return _mm256_maskload_epi32(reinterpret_cast<const int*>(from), kept);
}

// Loads the bytes of a block from up to eight planes; in each vector, the four eights are in the order 0, 2, 1, 3.
H5L_INLINE void load_eight(const u8* from, u32 planes, __m256i (&bytes)[1]) {
  const __m256i columns = _mm256_shuffle_epi8(
      load_words(from, planes),
      _mm256_broadcastsi128_si256(_mm_setr_epi8(12, 8, 4, 0, 13, 9, 5, 1, 14, 10, 6, 2, 15, 11, 7, 3)));
  bytes[0] = transpose_eights(_mm256_permutevar8x32_epi32(columns, _mm256_setr_epi32(4, 0, 6, 2, 5, 1, 7, 3)));
}

H5L_INLINE void load_eight(const u8* from, u32 planes, __m256i (&bytes)[2]) {
  const __m256i mixed =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(8, 0, 9, 1, 10, 2, 11, 3, 12, 4, 13, 5, 14, 6, 15, 7));
  __m128i low[2], high[2];
#pragma GCC unroll 2
  for (u32 i = 0; i < 2; ++i) {
    const u32 left = planes < 4 * i ? 0 : planes - 4 * i;
    const __m256i pairs = _mm256_shuffle_epi8(load_words(from + 32 * i, 2 * left), mixed);
    const __m128i first = _mm256_castsi256_si128(pairs), second = _mm256_extracti128_si256(pairs, 1);
    low[i] = _mm_unpacklo_epi16(second, first);
    high[i] = _mm_unpackhi_epi16(second, first);
  }
#pragma GCC unroll 2
  for (u32 i = 0; i < 2; ++i) {
    const __m128i lower = i == 0 ? low[0] : high[0], upper = i == 0 ? low[1] : high[1];
    const __m256i pairs = _mm256_set_m128i(_mm_unpackhi_epi32(upper, lower), _mm_unpacklo_epi32(upper, lower));
    bytes[i] = transpose_eights(_mm256_permute4x64_epi64(pairs, 0xD8));
  }
}

// Loads up to 16 planes.
template <u32 n>
H5L_INLINE ShortRows<n> load_sixteen(const u8* from, u32 planes) {
  ShortRows<n> rows;
  __m256i bytes[n / 32], upper[n / 32] = {};
  load_eight(from, planes < 8 ? planes : 8, bytes);
  if (planes > 8) load_eight(from + n, planes < 16 ? planes - 8 : 8, upper);
#pragma GCC unroll 2
  for (u32 i = 0; i < n / 32; ++i) {
    rows.at[2 * i] = row_of<u16>(_mm256_unpacklo_epi8(bytes[i], upper[i]));
    rows.at[2 * i + 1] = row_of<u16>(_mm256_unpackhi_epi8(bytes[i], upper[i]));
  }
  return rows;
}

template <u32 n>
H5L_INLINE ShortRows<n> from_sign_last(ShortRows<n> rows, bool keep_first) {
#pragma GCC unroll 4
  for (u32 r = 0; r < rows.count; ++r) rows.at[r] = from_sign_last<u16>(rows.at[r]);
  return keep_first ? rows : with_first(rows, u16{0});
}

template <u32 half, class W>
H5L_INLINE __m128i half_of(Vector<W> row) {
  return half == 0 ? _mm256_castsi256_si128(raw<W>(row)) : _mm256_extracti128_si256(raw<W>(row), 1);
}

// Widens one half of a row to words of twice the size.
template <u32 half>
H5L_INLINE Vector<u32> sign_extend(Vector<u16> row) {
  return row_of<u32>(_mm256_cvtepi16_epi32(half_of<half, u16>(row)));
}
template <u32 half>
H5L_INLINE Vector<u64> sign_extend(Vector<u32> row) {
  return row_of<u64>(_mm256_cvtepi32_epi64(half_of<half, u32>(row)));
}
template <u32 half>
H5L_INLINE Vector<u32> zero_extend(Vector<u16> row) {
  return row_of<u32>(_mm256_cvtepu16_epi32(half_of<half, u16>(row)));
}
template <u32 half>
H5L_INLINE Vector<u64> zero_extend(Vector<u32> row) {
  return row_of<u64>(_mm256_cvtepu32_epi64(half_of<half, u32>(row)));
}

template <u32 half>
H5L_INLINE Vector<u32> halves(Vector<u64> a, Vector<u64> b) {
  const __m256 x = _mm256_castsi256_ps(raw<u64>(a)), y = _mm256_castsi256_ps(raw<u64>(b));
  const __m256 both = _mm256_shuffle_ps(x, y, half == 0 ? 0x88 : 0xDD);
  return row_of<u32>(_mm256_permute4x64_epi64(_mm256_castps_si256(both), 0xD8));
}

template <u32 n>
H5L_INLINE void store_words(const Rows<n, u32>& words, u32 first, u32 planes, u8* out) {
  const Rows<n, u32> all = with_more(words, first);
  store_sixteen<0>(all, planes, out);
  if (planes > 16) store_sixteen<16>(all, planes, out + 2 * n);
}

}  // namespace h5lossy::H5L_TARGET::simd

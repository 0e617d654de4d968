// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// block_planes.h for AVX-512.
#pragma once

#include <immintrin.h>

#include "codecs/portable.h"
#include "codecs/simd/block_rows.h"
#include "codecs/simd/permute_avx512.h"

namespace h5lossy::H5L_TARGET::simd {

// 16-bit words of a block.
template <u32 n>
using ShortRows = Rows<n, u16>;

// The two lowest bytes of each of 32 words: first all lowest ones, then the others.
inline constexpr Permutation kBytePairs = permutation([](u32 i) { return i % 32 * 4 + i / 32; });

// From matrices of eight words to planes, for 32 words with 16 planes and 64 words with 8; and back. GFNI numbers the
// bytes of a matrix from the last one.
template <u32 n>
inline constexpr Permutation kPlanesOfEights = permutation([](u32 i) {
  const u32 plane = i / (n / 8), eight = i % (n / 8);
  return (plane / 8 * (n / 8) + eight) * 8 + plane % 8;
});

template <u32 n>
inline constexpr Permutation kEightsOfPlanes = permutation([](u32 i) {
  const u32 eight = i / 8 % (n / 8), plane = i / n * 8 + 7 - i % 8;
  return plane * (n / 8) + eight;
});

// Interleaves bytes i and 32 + i, or with two vectors i and 64 + i.
inline constexpr Permutation kHalvesMixed = permutation([](u32 i) { return i / 2 + i % 2 * 32; });
inline constexpr Permutation kLowMixed = permutation([](u32 i) { return i / 2 + i % 2 * 64; });
inline constexpr Permutation kHighMixed = permutation([](u32 i) { return 32 + i / 2 + i % 2 * 64; });

// `first` is or-ed into the first word.
template <u32 n>
H5L_INLINE void store_matrices(__m512i bytes, u32 first, u8* out) {
  const __m512i identity = _mm512_set1_epi64(static_cast<i64>(0x8040201008040201ull));
  const __m512i rows = permute(kPlanesOfEights<n>, _mm512_gf2p8affine_epi64_epi8(identity, bytes, 0));
  const __m512i first_bit = _mm512_set1_epi64(0x80);
  if constexpr (n == 32) {
    const __m512i first_bits = _mm512_or_si512(first_bit, _mm512_slli_epi64(first_bit, 32));
    _mm512_storeu_si512(out, _mm512_mask_or_epi32(rows, static_cast<__mmask16>(first), rows, first_bits));
  } else {
    _mm512_storeu_si512(out, _mm512_mask_or_epi64(rows, static_cast<__mmask8>(first), rows, first_bit));
  }
}

// Writes all of the planes first to first + 15.
template <u32 first, u32 n>
H5L_INLINE void store_sixteen(const Rows<n, u32>& words, u32 first_word, u8* out) {
  const u32 more = first_word >> first;
  const __m512i from = _mm512_add_epi8(_mm512_load_si512(kBytePairs.sources), _mm512_set1_epi8(first / 8));
  const __m512i bytes = _mm512_permutex2var_epi8(raw<u32>(words.at[0]), from, raw<u32>(words.at[1]));
  if constexpr (n == 32) {
    store_matrices<n>(bytes, more, out);
  } else {
    const __m512i others = _mm512_permutex2var_epi8(raw<u32>(words.at[2]), from, raw<u32>(words.at[3]));
    store_matrices<n>(_mm512_inserti64x4(bytes, _mm512_castsi512_si256(others), 1), more, out);
    store_matrices<n>(_mm512_shuffle_i64x2(bytes, others, 0xEE), more >> 8, out + 64);
  }
}

template <u32 n>
H5L_INLINE __m512i load_matrices(const u8* from, u32 planes) {
  const __m512i mirror = _mm512_set1_epi64(static_cast<i64>(0x0102040810204080ull));
  __m512i rows;
  if constexpr (n == 32) {
    rows = _mm512_maskz_loadu_epi32(static_cast<__mmask16>(_bzhi_u32(0xFFFF, planes)), from);
  } else {
    rows = _mm512_maskz_loadu_epi64(static_cast<__mmask8>(_bzhi_u32(0xFF, planes)), from);
  }
  return _mm512_gf2p8affine_epi64_epi8(mirror, permute(kEightsOfPlanes<n>, rows), 0);
}

// Loads up to 16 planes.
template <u32 n>
H5L_INLINE ShortRows<n> load_sixteen(const u8* from, u32 planes) {
  ShortRows<n> rows;
  const __m512i bytes = load_matrices<n>(from, planes);
  if constexpr (n == 32) {
    rows.at[0] = row_of<u16>(permute(kHalvesMixed, bytes));
  } else {
    const __m512i upper = load_matrices<n>(from + 64, planes < 8 ? 0 : planes - 8);
    rows.at[0] = row_of<u16>(_mm512_permutex2var_epi8(bytes, _mm512_load_si512(kLowMixed.sources), upper));
    rows.at[1] = row_of<u16>(_mm512_permutex2var_epi8(bytes, _mm512_load_si512(kHighMixed.sources), upper));
  }
  return rows;
}

// Clears the first word if `keep_first` is false.
template <u32 n>
H5L_INLINE ShortRows<n> from_sign_last(ShortRows<n> rows, bool keep_first) {
#pragma GCC unroll 4
  for (u32 r = 0; r < rows.count; ++r) {
    const __mmask32 kept = r == 0 ? ~__mmask32{0} << (keep_first ? 0 : 1) : ~__mmask32{0};
    const __m512i word = raw<u16>(rows.at[r]);
    const __mmask32 negative = _mm512_test_epi16_mask(word, _mm512_set1_epi16(1));
    const __m512i magnitude = _mm512_maskz_srli_epi16(kept, word, 1);
    rows.at[r] = row_of<u16>(_mm512_mask_sub_epi16(magnitude, negative, _mm512_setzero_si512(), magnitude));
  }
  return rows;
}

template <u32 half, class W>
H5L_INLINE __m256i half_of(Vector<W> row) {
  return half == 0 ? _mm512_castsi512_si256(raw<W>(row)) : _mm512_extracti64x4_epi64(raw<W>(row), 1);
}

// Widens one half of a row to words of twice the size.
template <u32 half>
H5L_INLINE Vector<u32> sign_extend(Vector<u16> row) {
  return row_of<u32>(_mm512_cvtepi16_epi32(half_of<half, u16>(row)));
}
template <u32 half>
H5L_INLINE Vector<u64> sign_extend(Vector<u32> row) {
  return row_of<u64>(_mm512_cvtepi32_epi64(half_of<half, u32>(row)));
}
template <u32 half>
H5L_INLINE Vector<u32> zero_extend(Vector<u16> row) {
  return row_of<u32>(_mm512_cvtepu16_epi32(half_of<half, u16>(row)));
}
template <u32 half>
H5L_INLINE Vector<u64> zero_extend(Vector<u32> row) {
  return row_of<u64>(_mm512_cvtepu32_epi64(half_of<half, u32>(row)));
}

// The lower (0) or upper (1) halves of two rows.
template <u32 half>
H5L_INLINE Vector<u32> halves(Vector<u64> a, Vector<u64> b) {
  constexpr static auto from = places<u32>([](u32 lane) { return 2 * lane + half; });
  return permute<u32>(from, row_of<u32>(raw<u64>(a)), row_of<u32>(raw<u64>(b)));
}

template <u32 n>
H5L_INLINE void store_words(const Rows<n, u32>& words, u32 first, u32 planes, u8* out) {
  store_sixteen<0>(words, first, out);
  if (planes > 16) store_sixteen<16>(words, first, out + 2 * n);
}

}  // namespace h5lossy::H5L_TARGET::simd

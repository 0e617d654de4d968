// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The planes of a block (codecs/blocks.h), in a few instructions where the backend has AVX-512 VBMI and GFNI; else the
// definition itself.
#pragma once

#include "codecs/blocks.h"
#include "codecs/portable.h"

#if defined(__AVX512VBMI__) && defined(__AVX512BW__) && defined(__GFNI__)
#include <immintrin.h>

#include "simd/permute.h"

namespace h5lossy::H5L_TARGET::simd {

// Bytes of n values, eight by eight, and of eight planes of n bits. The rest of the vector is not looked at.
template <u32 n>
inline constexpr Permutation kPlanesOfEights = permutation([](u32 i) { return i % (n / 8) * 8 + i / (n / 8) % 8; });

// Highest plane first: GFNI counts the bytes of a matrix from the last one.
template <u32 n>
inline constexpr Permutation kEightsOfPlanes =
    permutation([](u32 i) { return (7 - i % 8) * (n / 8) + i / 8 % (n / 8); });

// Byte i * size of two vectors.
template <u32 size>
inline constexpr Permutation kEachOf = permutation([](u32 i) { return i * size % 128; });

// Bytes first / 8 of n words, together in the lowest n bytes.
template <u32 n, class W>
inline __m512i bytes_of_words(const W* words, u32 first) {
  constexpr u32 size = sizeof(W), pair_bytes = 128 / size;
  const __m512i places =
      _mm512_add_epi8(_mm512_load_si512(kEachOf<size>.sources), _mm512_set1_epi8(static_cast<char>(first / 8)));
  __m512i parts[n / pair_bytes];
  for (u32 i = 0; i < n / pair_bytes; ++i) {
    const W* const pair = words + i * pair_bytes;
    parts[i] = _mm512_permutex2var_epi8(_mm512_loadu_si512(pair), places, _mm512_loadu_si512(pair + 64 / size));
  }
  if constexpr (n / pair_bytes == 1) {
    return parts[0];
  } else if constexpr (pair_bytes == 32) {
    return _mm512_inserti64x4(parts[0], _mm512_castsi512_si256(parts[1]), 1);
  } else {
    __m512i bytes = _mm512_inserti32x4(parts[0], _mm512_castsi512_si128(parts[1]), 1);
    if constexpr (n / pair_bytes == 4) {
      bytes = _mm512_inserti32x4(bytes, _mm512_castsi512_si128(parts[2]), 2);
      bytes = _mm512_inserti32x4(bytes, _mm512_castsi512_si128(parts[3]), 3);
    }
    return bytes;
  }
}

template <u32 n, class W>
inline u8* store_planes(const W* words, W first_mask, u32 planes, u8* out) {
  const __m512i identity = _mm512_set1_epi64(static_cast<i64>(0x8040201008040201ull));
  for (u32 first = 0; first < planes; first += 8) {
    const __m512i counts = _mm512_mask_set1_epi8(_mm512_set1_epi8(-1), 1, static_cast<char>(first_mask >> first));
    const __m512i bytes = _mm512_and_si512(bytes_of_words<n>(words, first), counts);
    const __m512i eights = _mm512_gf2p8affine_epi64_epi8(identity, bytes, 0);
    const __m512i rows = permute(kPlanesOfEights<n>, eights);
    if constexpr (n == 32) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm512_castsi512_si256(rows));
    } else {
      _mm512_storeu_si512(out, rows);
    }
    const u32 end = planes - first < 8 ? planes - first : 8;
    out += end * (n / 8);
  }
  return out;
}

// `bytes` gets the bytes of the words: n for each 8 planes or less.
template <u32 n>
inline const u8* load_planes(const u8* from, u32 planes, blocks::Plane<n>* bytes) {
  const __m512i mirror = _mm512_set1_epi64(static_cast<i64>(0x0102040810204080ull));
  for (u32 first = 0; first < planes; first += 8, bytes += 8) {
    const u32 size = (planes - first < 8 ? planes - first : 8) * (n / 8);
    const __m512i rows = _mm512_maskz_loadu_epi8(blocks::first_bits(size), from);
    const __m512i eights = _mm512_gf2p8affine_epi64_epi8(mirror, permute(kEightsOfPlanes<n>, rows), 0);
    _mm512_mask_storeu_epi8(bytes, blocks::first_bits(n), eights);
    from += size;
  }
  return from;
}

template <u32 n, class W>
inline void words_of_rows(const blocks::Plane<n>* rows, u32 planes, W* words) {
  u8 bytes[n];
  memcpy(bytes, rows, n);
  for (u32 i = 0; i < n; ++i) words[i] = bytes[i];
  for (u32 first = 8; first < planes; first += 8) {
    rows += 8;
    memcpy(bytes, rows, n);
    for (u32 i = 0; i < n; ++i) words[i] |= static_cast<W>(bytes[i]) << first;
  }
}

}  // namespace h5lossy::H5L_TARGET::simd

#else

namespace h5lossy::H5L_TARGET::simd {
using blocks::load_planes;
using blocks::store_planes;
using blocks::words_of_rows;
}  // namespace h5lossy::H5L_TARGET::simd

#endif

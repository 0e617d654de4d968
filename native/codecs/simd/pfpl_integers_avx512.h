// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Blocks of pfpl_integers.h for AVX-512.
#pragma once

#include <immintrin.h>

#include "codecs/portable.h"

namespace h5lossy::H5L_TARGET::simd {

// Byte c of quadword r comes from byte r of quadword c, or from byte 7 - r.
template <u32 flip>
inline __m512i transposed_bytes(__m512i rows) {
  alignas(64) static constexpr auto source = [] {
    struct Sources {
      u8 of[64];
    } sources = {};
    for (u32 i = 0; i < 64; ++i) sources.of[i] = static_cast<u8>(i % 8 * 8 + ((i / 8) ^ flip));
    return sources;
  }();
  return _mm512_permutexvar_epi8(_mm512_load_si512(source.of), rows);
}

// The instruction multiplies each byte of its first operand's quadword by the second's square of bits. With the values
// as the square, byte i of a unit matrix picks a plane; the bits of a plane come out in the order of the values.
inline __m512i bits_of_groups(__m512i groups) {
  return _mm512_gf2p8affine_epi64_epi8(_mm512_set1_epi64(static_cast<i64>(0x8040201008040201ull)), groups, 0);
}

// Byte `shift` / 8 of 64 words. They stay in registers: a vector that two stores have written is loaded late.
template <class W, u32 shift>
inline __m512i byte_of_words(const W* words) {
  if constexpr (sizeof(W) == 1) {
    return _mm512_loadu_si512(words);
  } else {
    constexpr u32 of_two = 128 / sizeof(W);  // words in two vectors
    alignas(64) static constexpr auto source = [] {
      struct Sources {
        u8 of[64];
      } sources = {};
      for (u32 i = 0; i < 64; ++i) sources.of[i] = static_cast<u8>(i % of_two * sizeof(W) + shift / 8);
      return sources;
    }();
    __m512i bytes = _mm512_setzero_si512();
    for (u32 i = 0; i < 64; i += of_two) {
      const __m512i first = _mm512_loadu_si512(words + i), second = _mm512_loadu_si512(words + i + of_two / 2);
      const __m512i taken = _mm512_permutex2var_epi8(first, _mm512_load_si512(source.of), second);
      bytes = _mm512_mask_mov_epi8(bytes, (~u64{0} >> (64 - of_two)) << i, taken);
    }
    return bytes;
  }
}

template <class W, u32 shift>
inline void transpose_byte(const W* words, u64 (&planes)[8]) {
  _mm512_storeu_si512(planes, transposed_bytes<7>(bits_of_groups(byte_of_words<W, shift>(words))));
}

// Planes are gathered in a register, for the same reason.
inline void restore_bytes(const u8* planes, u32 groups, u32 stride, u8 (&bytes)[64]) {
  __m512i block;
  if (groups == kBlockGroups) [[likely]] {
    const __m512i number = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
    block = _mm512_i64gather_epi64(_mm512_mullo_epi64(number, _mm512_set1_epi64(stride)), planes, 1);
  } else {
    u64 part[8];
    load_block(planes, groups, stride, part);
    block = _mm512_loadu_si512(part);
  }
  // The inverse of the permutation, and a square with its rows the other way round.
  const __m512i square = _mm512_set1_epi64(static_cast<i64>(0x0102040810204080ull));
  _mm512_store_si512(bytes, _mm512_gf2p8affine_epi64_epi8(square, transposed_bytes<0>(block), 0));
}

// Prefix sums within quarters of a vector, and then the sums of the quarters before. `last` picks the last element of a
// quarter.
inline __m512i sums_of_quarters_before(__m512i sums, __m512i last, auto add) {
  const __m512i total = _mm512_shuffle_epi8(sums, last);
  sums = add(sums, _mm512_maskz_shuffle_i64x2(0xFC, total, total, 0x90));
  sums = add(sums, _mm512_maskz_shuffle_i64x2(0xF0, total, total, 0x40));
  return add(sums, _mm512_maskz_shuffle_i64x2(0xC0, total, total, 0x00));
}

inline Vector<u8> sum_lanes(Vector<u8> x) {
  x += (Vector<u8>)_mm512_bslli_epi128((__m512i)x, 1);
  x += (Vector<u8>)_mm512_bslli_epi128((__m512i)x, 2);
  x += (Vector<u8>)_mm512_bslli_epi128((__m512i)x, 4);
  x += (Vector<u8>)_mm512_bslli_epi128((__m512i)x, 8);
  return (Vector<u8>)sums_of_quarters_before((__m512i)x, _mm512_set1_epi8(15),
                                             [](__m512i a, __m512i b) { return _mm512_add_epi8(a, b); });
}
inline Vector<u16> sum_lanes(Vector<u16> x) {
  x += (Vector<u16>)_mm512_bslli_epi128((__m512i)x, 2);
  x += (Vector<u16>)_mm512_bslli_epi128((__m512i)x, 4);
  x += (Vector<u16>)_mm512_bslli_epi128((__m512i)x, 8);
  return (Vector<u16>)sums_of_quarters_before((__m512i)x, _mm512_set1_epi16(0x0F0E),
                                              [](__m512i a, __m512i b) { return _mm512_add_epi16(a, b); });
}
inline Vector<u8> last_lane(Vector<u8> x) {
  return (Vector<u8>)_mm512_permutexvar_epi8(_mm512_set1_epi8(63), (__m512i)x);
}
inline Vector<u16> last_lane(Vector<u16> x) {
  return (Vector<u16>)_mm512_permutexvar_epi16(_mm512_set1_epi16(31), (__m512i)x);
}

}  // namespace h5lossy::H5L_TARGET::simd

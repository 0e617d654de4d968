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

inline void transpose_block(const u8 (&bytes)[64], u64 (&planes)[8]) {
  const __m512i groups = bits_of_groups(_mm512_load_si512(bytes));
  _mm512_storeu_si512(planes, transposed_bytes<7>(groups));
}

inline void restore_block(const u64 (&planes)[8], u8 (&bytes)[64]) {
  // The inverse of the permutation, and a square with its rows the other way round.
  const __m512i groups = transposed_bytes<0>(_mm512_loadu_si512(planes));
  const __m512i square = _mm512_set1_epi64(static_cast<i64>(0x0102040810204080ull));
  _mm512_store_si512(bytes, _mm512_gf2p8affine_epi64_epi8(square, groups, 0));
}

}  // namespace h5lossy::H5L_TARGET::simd

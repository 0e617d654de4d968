// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// 64 bytes of pfpl_zero_removal.h for AVX-512.
#pragma once

#include <immintrin.h>

#include "codecs/portable.h"

namespace h5lossy::H5L_TARGET::simd {

// Bit i: byte i is nonzero.
inline u64 nonzero_bytes(const u8* piece) {
  const __m512i bytes = _mm512_loadu_si512(piece);
  return _mm512_test_epi8_mask(bytes, bytes);
}

// Bit i: byte i differs from the previous one.
inline u64 changed_bytes(const u8* piece) {
  return _mm512_cmpneq_epi8_mask(_mm512_loadu_si512(piece), _mm512_loadu_si512(piece - 1));
}

// Packs the bytes selected by `kept`. Writes 64 bytes.
inline void pack(const u8* piece, u64 kept, u8* out) {
  // In a register: compressing to memory takes a hundred cycles on some processors.
  _mm512_storeu_si512(out, _mm512_maskz_compress_epi8(kept, _mm512_loadu_si512(piece)));
}

// Inverse of pack, with zeros between. Reads 64 bytes.
inline void unpack(const u8* packed, u64 kept, u8* piece) {
  _mm512_storeu_si512(piece, _mm512_maskz_expand_epi8(kept, _mm512_loadu_si512(packed)));
}

// For each bit of a mask, the number of ones up to and including it.
inline __m512i running_ones(u64 mask) {
  const __m512i byte_of_lane =
      _mm512_set_epi64(0x0707070707070707, 0x0606060606060606, 0x0505050505050505, 0x0404040404040404,
                       0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0);
  const __m512i up_to_lane = _mm512_set1_epi64(static_cast<i64>(0xFF7F3F1F0F070301ull));
  const __m512i in_byte = _mm512_popcnt_epi8(
      _mm512_and_si512(_mm512_permutexvar_epi8(byte_of_lane, _mm512_set1_epi64(static_cast<i64>(mask))), up_to_lane));
  // The number of ones in each byte of the mask, summed over the preceding bytes.
  u64 ones = mask - (mask >> 1 & 0x5555555555555555ull);
  ones = (ones & 0x3333333333333333ull) + (ones >> 2 & 0x3333333333333333ull);
  ones = (ones + (ones >> 4)) & 0x0F0F0F0F0F0F0F0Full;
  const u64 in_front = (ones * 0x0101010101010101ull) << 8;
  return _mm512_add_epi8(in_byte, _mm512_permutexvar_epi8(byte_of_lane, _mm512_set1_epi64(static_cast<i64>(in_front))));
}

// Inverse of pack, repeating the previous byte between; `last` is the byte before the piece. Reads 64 bytes.
inline void unpack_repeats(const u8* packed, u64 kept, u8 last, u8* piece) {
  // Lane j takes the byte with its running number, counted from 1; 0 is `last`.
  const __m512i number = running_ones(kept);
  const __m512i taken =
      _mm512_permutexvar_epi8(_mm512_sub_epi8(number, _mm512_set1_epi8(1)), _mm512_loadu_si512(packed));
  const __m512i before = _mm512_set1_epi8(static_cast<char>(last));
  _mm512_storeu_si512(piece, _mm512_mask_mov_epi8(before, _mm512_test_epi8_mask(number, number), taken));
}

}  // namespace h5lossy::H5L_TARGET::simd

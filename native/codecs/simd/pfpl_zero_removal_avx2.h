// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// 64 bytes of pfpl_zero_removal.h for AVX2.
#pragma once

#include <immintrin.h>

#include "codecs/portable.h"
#include "codecs/simd/shuffles.h"

namespace h5lossy::H5L_TARGET::simd {

inline __m128i load_eight(const u8* from) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)); }
inline __m256i load_half(const u8* from) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)); }

inline void store_shuffled(__m128i bytes, const Shuffles& shuffles, u64 mask, u8* out) {
  _mm_storel_epi64(reinterpret_cast<__m128i*>(out), _mm_shuffle_epi8(bytes, load_eight(shuffles.sources[mask])));
}

inline u64 equal_bytes(const u8* a, __m256i low, __m256i high) {
  const u32 first = static_cast<u32>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(load_half(a), low)));
  const u32 second = static_cast<u32>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(load_half(a + 32), high)));
  return first | u64{second} << 32;
}

inline u64 nonzero_bytes(const u8* piece) {
  return ~equal_bytes(piece, _mm256_setzero_si256(), _mm256_setzero_si256());
}

inline u64 changed_bytes(const u8* piece) { return ~equal_bytes(piece, load_half(piece - 1), load_half(piece + 31)); }

// Most pieces of planes are kept as a whole, or not at all.
inline void pack(const u8* piece, u64 kept, u8* out) {
  if (kept == 0) return;
  if (kept == ~u64{0}) {
    memcpy(out, piece, 64);
    return;
  }
  for (u32 i = 0; i < 64; i += 8, kept >>= 8) {
    store_shuffled(load_eight(piece + i), kPacked, kept & 0xFF, out);
    out += count_ones(kept & 0xFF);
  }
}

inline void unpack(const u8* packed, u64 kept, u8* piece) {
  if (kept == 0) {
    memset(piece, 0, 64);
    return;
  }
  if (kept == ~u64{0}) {
    memcpy(piece, packed, 64);
    return;
  }
  for (u32 i = 0; i < 64; i += 8, kept >>= 8) {
    store_shuffled(load_eight(packed), kUnpacked, kept & 0xFF, piece + i);
    packed += count_ones(kept & 0xFF);
  }
}

inline void unpack_repeats(const u8* packed, u64 kept, u8 last, u8* piece) {
  for (u32 i = 0; i < 64; i += 8, kept >>= 8) {
    const __m128i bytes = _mm_insert_epi8(_mm_slli_si128(load_eight(packed), 1), last, 0);
    store_shuffled(bytes, kRepeated, kept & 0xFF, piece + i);
    const u32 count = count_ones(kept & 0xFF);
    if (count != 0) last = packed[count - 1];
    packed += count;
  }
}

}  // namespace h5lossy::H5L_TARGET::simd

// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The bits of one byte of 64 words to eight bytes of each of eight planes, and back: by vector code if the backend has
// AVX-512 or AVX2, otherwise by the definition.
#pragma once

#include "codecs/pfpl_integers.h"
#include "codecs/portable.h"

namespace h5lossy::H5L_TARGET::simd {

inline constexpr u32 kBlockBytes = 64, kBlockGroups = kBlockBytes / pfpl::kGroupOfIntegers;

// Returns whether any bit is set. Not inlined: it would be there for each byte of each type, and what decodes alone has
// to be small.
[[gnu::noinline]] inline bool load_block(const u8* planes, u32 groups, u32 stride, u64 (&block)[8]) {
  u64 used = 0;
  for (u32 j = 0; j < 8; ++j, planes += stride) {
    if (groups == kBlockGroups) {
      block[j] = load<u64>(planes);
    } else {
      block[j] = 0;
      memcpy(&block[j], planes, groups);
    }
    used |= block[j];
  }
  return used != 0;
}

}  // namespace h5lossy::H5L_TARGET::simd

#if defined(H5L_AVX512)
#include "codecs/simd/pfpl_integers_avx512.h"
#elif defined(H5L_AVX2)
#include "codecs/simd/pfpl_integers_avx2.h"
#else

namespace h5lossy::H5L_TARGET::simd {

// Byte c of row r goes to byte r of row c.
inline void transpose_bytes(u64 (&rows)[8]) {
  const auto swap = [&](u32 r, u32 k, u64 low) {
    const u64 swapped = ((rows[r] >> (8 * k)) ^ rows[r + k]) & low;
    rows[r] ^= swapped << (8 * k);
    rows[r + k] ^= swapped;
  };
  for (u32 r = 0; r < 8; r += 2) swap(r, 1, 0x00FF00FF00FF00FFull);
  for (u32 r = 0; r < 8; r += r % 4 == 1 ? 3 : 1) swap(r, 2, 0x0000FFFF0000FFFFull);
  for (u32 r = 0; r < 4; ++r) swap(r, 4, 0x00000000FFFFFFFFull);
}

inline void transpose_block(const u8 (&bytes)[64], u64 (&planes)[8]) {
  memcpy(planes, bytes, sizeof planes);
  for (u64& group : planes) group = pfpl::transpose_eight(group);
  transpose_bytes(planes);
}

inline void restore_block(u64 (&planes)[8], u8 (&bytes)[64]) {
  transpose_bytes(planes);
  for (u64& group : planes) group = pfpl::transpose_eight(group);
  memcpy(bytes, planes, sizeof planes);
}

}  // namespace h5lossy::H5L_TARGET::simd

#endif

#if !defined(H5L_AVX512)

namespace h5lossy::H5L_TARGET::simd {

// Of the bits of a word from `shift` on.
template <class W, u32 shift>
inline void transpose_byte(const W* words, u64 (&planes)[8]) {
  alignas(64) u8 bytes[kBlockBytes];
  for (u32 v = 0; v < kBlockBytes; ++v) bytes[v] = static_cast<u8>(words[v] >> shift);
  transpose_block(bytes, planes);
}

// The inverse, of planes that have `stride` bytes each, of which `groups` are those of the block.
inline void restore_bytes(const u8* planes, u32 groups, u32 stride, u8 (&bytes)[kBlockBytes]) {
  u64 block[8];
  if (load_block(planes, groups, stride, block)) {
    restore_block(block, bytes);
  } else {
    memset(bytes, 0, sizeof bytes);
  }
}

}  // namespace h5lossy::H5L_TARGET::simd

#endif

// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// 64 bytes of pfpl_zero_removal.h for NEON.
#pragma once

#include <arm_neon.h>

#include "codecs/portable.h"
#include "codecs/simd/shuffles.h"

namespace h5lossy::H5L_TARGET::simd {

// Bit i: byte i of the piece is true, from four vectors of 0 and 0xFF.
inline u64 mask_of(const uint8x16_t (&is_true)[4]) {
  const uint8x16_t bits = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201ull));
  uint8x16_t masked[4];
  for (u32 i = 0; i < 4; ++i) masked[i] = vandq_u8(is_true[i], bits);
  const uint8x16_t sums = vpaddq_u8(vpaddq_u8(masked[0], masked[1]), vpaddq_u8(masked[2], masked[3]));
  return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(sums, sums)), 0);
}

inline u64 nonzero_bytes(const u8* piece) {
  uint8x16_t is_true[4];
  for (u32 i = 0; i < 4; ++i) {
    const uint8x16_t bytes = vld1q_u8(piece + 16 * i);
    is_true[i] = vtstq_u8(bytes, bytes);
  }
  return mask_of(is_true);
}

inline u64 changed_bytes(const u8* piece) {
  uint8x16_t is_equal[4];
  for (u32 i = 0; i < 4; ++i) is_equal[i] = vceqq_u8(vld1q_u8(piece + 16 * i), vld1q_u8(piece + 16 * i - 1));
  return ~mask_of(is_equal);
}

// Byte i: the number of ones in the mask's bytes before byte i.
inline u64 ones_before(u64 mask) {
  return vget_lane_u64(vreinterpret_u64_u8(vcnt_u8(vcreate_u8(mask))), 0) * 0x0101010101010100ull;
}

inline uint8x8_t sources_of(const Shuffles& shuffles, u64 mask) { return vld1_u8(shuffles.sources[mask & 0xFF]); }

inline void pack(const u8* piece, u64 kept, u8* out) {
  u64 before = ones_before(kept);
  for (u32 i = 0; i < 64; i += 8, kept >>= 8, before >>= 8) {
    vst1_u8(out + (before & 0xFF), vtbl1_u8(vld1_u8(piece + i), sources_of(kPacked, kept)));
  }
}

inline void unpack(const u8* packed, u64 kept, u8* piece) {
  u64 before = ones_before(kept);
  for (u32 i = 0; i < 64; i += 8, kept >>= 8, before >>= 8) {
    vst1_u8(piece + i, vtbl1_u8(vld1_u8(packed + (before & 0xFF)), sources_of(kUnpacked, kept)));
  }
}

inline void unpack_repeats(const u8* packed, u64 kept, u8 last, u8* piece) {
  u64 before = ones_before(kept);
  for (u32 i = 0; i < 64; i += 8, kept >>= 8, before >>= 8) {
    const u8* const from = packed + (before & 0xFF);
    const uint8x16_t bytes = vextq_u8(vdupq_n_u8(last), vcombine_u8(vld1_u8(from), vdup_n_u8(0)), 15);
    const uint8x8_t restored = vqtbl1_u8(bytes, sources_of(kRepeated, kept));
    vst1_u8(piece + i, restored);
    last = vget_lane_u8(restored, 7);
  }
}

}  // namespace h5lossy::H5L_TARGET::simd

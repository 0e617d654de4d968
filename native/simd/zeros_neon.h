// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Zero removal and its inverse with NEON: eight bytes are moved by one look-up of bytes, which a table gives for each of
// the 256 ways to keep some of them.
#pragma once

#include <arm_neon.h>

#include "codecs/bits.h"
#include "codecs/portable.h"

namespace h5lossy::H5L_TARGET::simd {

struct ByteMoves {
  // Eight numbers of bytes for each mask, the first in the lowest bits; 0xFF gives a zero.
  alignas(64) u64 to_front[256];  // the bytes that the mask names, in order
  alignas(64) u64 apart[256];     // byte i of those in front to the i-th place that the mask names
  u8 count[256];                  // of ones
};

constexpr ByteMoves byte_moves() {
  ByteMoves moves = {};
  for (u32 mask = 0; mask < 256; ++mask) {
    u64 to_front = 0, apart = ~u64{0};
    u32 kept = 0;
    for (u32 i = 0; i < 8; ++i) {
      if ((mask >> i & 1) == 0) continue;
      to_front |= u64{i} << (8 * kept);
      apart ^= u64{0xFF ^ kept} << (8 * i);
      ++kept;
    }
    moves.to_front[mask] = to_front;
    moves.apart[mask] = apart;
    moves.count[mask] = static_cast<u8>(kept);
  }
  return moves;
}

inline constexpr ByteMoves kByteMoves = byte_moves();

inline u64 look_up(u64 bytes, u64 numbers) {
  return vget_lane_u64(vreinterpret_u64_u8(vtbl1_u8(vcreate_u8(bytes), vcreate_u8(numbers))), 0);
}

struct LookedUpMoves {
  static u32 compact(u64 word, u32 kept, u8* out) {
    store(out, look_up(word, kByteMoves.to_front[kept]));
    return kByteMoves.count[kept];
  }

  static u64 spread(const u8* kept, u32 present, u64 readable) {
    if (readable < 8) return spread_bytes(kept, present);
    return look_up(load<u64>(kept), kByteMoves.apart[present]);
  }
};

inline u32 remove_zeros(const u8* stream, u32 size, u8* out) {
  return H5L_TARGET::remove_zeros<LookedUpMoves>(stream, size, out);
}

inline bool restore_zeros(const u8* payload, u32 payload_bytes, u8* stream, u32 size) {
  return H5L_TARGET::restore_zeros<LookedUpMoves>(payload, payload_bytes, stream, size);
}

}  // namespace h5lossy::H5L_TARGET::simd

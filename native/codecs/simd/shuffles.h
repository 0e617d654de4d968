// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Zero removal of eight bytes by a byte shuffle from a table, for backends that have one (AVX2, NEON).
#pragma once

#include "codecs/portable.h"

namespace h5lossy::H5L_TARGET::simd {

// For each of the 256 masks of eight bytes, the sources of a byte shuffle; 0x80 gives zero.
struct Shuffles {
  alignas(64) u8 sources[256][8];
};

// Packs the bytes in the mask; the rest is undefined.
inline constexpr Shuffles kPacked = [] {
  Shuffles shuffles = {};
  for (u32 mask = 0; mask < 256; ++mask) {
    u32 kept = 0;
    for (u32 i = 0; i < 8; ++i) {
      if ((mask >> i & 1) != 0) shuffles.sources[mask][kept++] = static_cast<u8>(i);
    }
  }
  return shuffles;
}();

inline constexpr Shuffles kUnpacked = [] {
  Shuffles shuffles = {};
  for (u32 mask = 0; mask < 256; ++mask) {
    u32 kept = 0;
    for (u32 i = 0; i < 8; ++i) shuffles.sources[mask][i] = static_cast<u8>((mask >> i & 1) != 0 ? kept++ : 0x80);
  }
  return shuffles;
}();

// From nine bytes, the first of which is the previous byte.
inline constexpr Shuffles kRepeated = [] {
  Shuffles shuffles = {};
  for (u32 mask = 0; mask < 256; ++mask) {
    u32 kept = 0;
    for (u32 i = 0; i < 8; ++i) shuffles.sources[mask][i] = static_cast<u8>(kept += mask >> i & 1);
  }
  return shuffles;
}();

}  // namespace h5lossy::H5L_TARGET::simd

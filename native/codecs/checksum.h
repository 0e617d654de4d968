// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The frame's checksum (docs/format/frame.md): a sum over words, each mixed with its tile's number and its place, so
// that tiles can be summed in any order, and words in vectors.
#pragma once

#include "codecs/portable.h"

namespace h5lossy {

// The share of one tile; shares add up. `first_word` is the word at which `bytes` begin in their tile, for tiles that
// are summed in parts.
using ChecksumFunction = u32 (*)(const u8* bytes, u32 size, u32 tile, u32 first_word);

namespace H5L_TARGET {

// The finalizer of MurmurHash3: a bijection, so any change of one word changes the sum.
H5L_FN constexpr u32 mix(u32 h) {
  h ^= h >> 16;
  h *= 0x85EBCA6Bu;
  h ^= h >> 13;
  h *= 0xC2B2AE35u;
  return h ^ (h >> 16);
}

// Added to words before they are mixed, for the tile's number and the word's number in the tile.
inline constexpr u32 kTileSalt = 0x85EBCA77u;
inline constexpr u32 kWordSalt = 0x9E3779B9u;
H5L_FN constexpr u32 salt_of(u32 tile, u32 word) { return tile * kTileSalt + (word + 1) * kWordSalt; }

// The share of one word.
H5L_FN constexpr u32 checksum_share(u32 bits, u32 tile, u32 word) { return mix(bits + salt_of(tile, word)); }

H5L_FN u32 checksum(const u8* bytes, u32 size, u32 tile, u32 first_word) {
  const u32 seed = salt_of(tile, first_word);
  const u32 words = size / 4;
  u32 sum = 0;
  for (u32 i = 0; i < words; ++i) sum += mix(load<u32>(bytes + u64{4} * i) + i * kWordSalt + seed);
  if (size % 4 != 0) {
    u32 last = 0;
    for (u32 i = 0; i < size % 4; ++i) last |= u32{bytes[u64{4} * words + i]} << (8 * i);
    sum += mix(last + words * kWordSalt + seed);
  }
  return sum;
}

}  // namespace H5L_TARGET
}  // namespace h5lossy

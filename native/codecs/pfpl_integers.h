// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// PFPL for integers: boxes, predictors, and planes of groups of eight. The format is in docs/format/integers.md.
#pragma once

#include "codecs/bits.h"
#include "codecs/codec.h"
#include "codecs/pfpl_zero_removal.h"
#include "codecs/portable.h"

namespace h5lossy::H5L_TARGET::pfpl {

// Values whose bits are transposed together: one byte of each plane.
inline constexpr u32 kGroupOfIntegers = 8;

// Predictors, with their numbers in the payload.
enum class Predictor : u8 { none = 0, x = 1, y = 2, three = 3, xy = 4 };
inline constexpr u32 kPredictors = 5;

// The encoder chooses from samples of a tile. A band has the fewest rows that hold kFewSampled words; one of each
// kBandsApart bands, the middle one, is a sample, or the kMostSampled words in the middle of it.
inline constexpr u32 kBandsApart = 13;
inline constexpr u32 kFewSampled = 64, kMostSampled = 1024;

// Samples of `count` words each; `first` is the first word, in raster order, of the first one.
struct Samples {
  u32 number, first, apart, count;

  H5L_FN Samples(u32 rows, u32 length) {
    const u32 needed = (kFewSampled + length - 1) / length, band_rows = needed < rows ? needed : rows;
    const u32 bands = rows / band_rows, middle = kBandsApart / 2, band = bands > middle ? middle : bands - 1;
    const u32 words = band_rows * length;
    number = (bands - 1 - band) / kBandsApart + 1;
    count = words < kMostSampled ? words : kMostSampled;
    first = band * words + (words - count) / 2;
    apart = kBandsApart * words;
  }
};

// (a + b + 1) / 2, without wrapping.
template <class W>
H5L_FN W average(W a, W b) {
  if constexpr (sizeof(W) <= 2) {
    return static_cast<W>((u32{a} + u32{b} + 1) >> 1);  // compilers recognize this form as one instruction
  } else {
    return static_cast<W>((a | b) - static_cast<W>(static_cast<W>(a ^ b) >> 1));
  }
}

// A box of whole slices, or a part of one slice, of at most kStreamBytes.
H5L_FN TileLayout integer_layout(u32 value_bytes, const u32 (&dims)[kAxes]) {
  const u64 most = kStreamBytes / value_bytes;
  u64 extents[2] = {dims[2], dims[3]}, parts[2] = {1, 1};
  const auto at_least_one = [](u64 n) { return static_cast<u32>(n == 0 ? 1 : n); };
  const u64 slice = extents[0] * extents[1];
  if (slice != 0 && 2 * slice <= most) {
    const u64 together = most / slice, layers = (dims[1] + together - 1) / together;
    const u64 slices = layers == 0 ? 1 : (dims[1] + layers - 1) / layers;
    return {.box = {1, at_least_one(slices), at_least_one(extents[0]), at_least_one(extents[1])}};
  }
  while (extents[0] * extents[1] > most) {
    const u32 larger = extents[0] >= extents[1] ? 0 : 1;
    parts[larger] *= 2;
    extents[larger] = (dims[2 + larger] + parts[larger] - 1) / parts[larger];
  }
  return {.box = {1, 1, at_least_one(extents[0]), at_least_one(extents[1])}};
}

// Transposes the bytes of eight values, the first in the lowest byte, to one byte of each of eight planes, with the
// most significant plane in the lowest byte and the first value in the highest bit. Its own inverse.
H5L_FN u64 transpose_eight(u64 bytes) {
  u64 swapped = (bytes ^ (bytes >> 9)) & 0x0055005500550055ull;
  bytes ^= swapped ^ (swapped << 9);
  swapped = (bytes ^ (bytes >> 18)) & 0x0000333300003333ull;
  bytes ^= swapped ^ (swapped << 18);
  swapped = (bytes ^ (bytes >> 36)) & 0x000000000F0F0F0Full;
  return bytes ^ swapped ^ (swapped << 36);
}

}  // namespace h5lossy::H5L_TARGET::pfpl

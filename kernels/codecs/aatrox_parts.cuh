// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// AATROX's tiles are too large for a thread block, so the encoder works on parts of 4096 values, four iteration layers.
// A part is summarized in one word; the words of a tile's eight parts determine its size, and the place of each part's
// data. The format is in docs/format/aatrox.md.
#pragma once

#include "codecs/aatrox.h"
#include "kernels/common/block_rows.cuh"

namespace h5lossy::H5L_TARGET::aatrox {

using namespace blocks;
using gpu::kPartValues;

inline constexpr u32 kTileParts = kTileValues / kPartValues;
inline constexpr u32 kPartLayers = kPartValues / (kLayerBlocks * kBlockValues);
static_assert(kTileParts == 8 && kPartLayers == kWarps && kPartValues == kThreads * kThreadValues);

// A part's word, from the lowest bit up.
struct PartWord {
  u32 planes;  // words of planes: 13 bits
  u32 layers;  // layers with codes: 4
  u32 groups;  // groups with exceptions: 4; a group is an iteration layer
  u32 masks;   // masks in the section of exceptions: 8
  u32 bits;    // values in that section: 13
  bool has_ordinary;
  bool only_common;      // all values are exceptions with the bits `common`
  bool initial_is_zero;  // of a tile's first part with ordinary values
};

H5L_DEVICE u64 pack(const PartWord& part) {
  return kPublished | part.planes | u64{part.layers} << 13 | u64{part.groups} << 17 | u64{part.masks} << 21 |
         u64{part.bits} << 29 | u64{part.has_ordinary} << 42 | u64{part.only_common} << 43 |
         u64{part.initial_is_zero} << 44;
}

H5L_DEVICE PartWord unpack(u64 word) {
  return {static_cast<u32>(word) & 0x1FFF,
          static_cast<u32>(word >> 13) & 0xF,
          static_cast<u32>(word >> 17) & 0xF,
          static_cast<u32>(word >> 21) & 0xFF,
          static_cast<u32>(word >> 29) & 0x1FFF,
          (word >> 42 & 1) != 0,
          (word >> 43 & 1) != 0,
          (word >> 44 & 1) != 0};
}

// Data of a part with exceptions that other parts of the tile may need. Written before its word.
struct PartRecord {
  u64 common;       // bits of its first exception
  u64 first, last;  // bins of its first and last ordinary values, as numbers of the value's type
};

enum class Form : u32 { full, constant_bin, constant_bits, stored };

// A tile's layout, from the words of its parts.
struct TileLayout {
  Form form;
  u32 bytes;  // of the payload
  u32 layers, groups;
  u32 planes, masks, bits;                       // totals
  u32 planes_before, masks_before, bits_before;  // of the parts before one
  u32 codes_bytes;
};

// Blocks of iteration layer `layer` in a tile of `blocks` blocks.
H5L_DEVICE u32 layer_blocks(u32 blocks, u32 layer) {
  const u32 left = blocks - layer * kLayerBlocks;
  return left < kLayerBlocks ? left : kLayerBlocks;
}

// Called by all threads of a warp. Each group of eight lanes works on one tile, and each lane has the word of one part
// (0: none). `before` is the part for which the *_before counts are.
template <class T>
H5L_DEVICE TileLayout layout_of(u64 word, u32 values, u32 before) {
  const PartWord part = unpack(word);
  const u32 number = lane() % kTileParts;
  u64 counts = u64{part.planes} | u64{part.masks} << 20 | u64{part.bits} << 40;
  u64 counts_before = number < before ? counts : 0;
  u32 layers = part.layers << (kPartLayers * number), groups = part.groups << (kPartLayers * number);
  u32 others = word != 0 && !part.only_common ? 1 : 0;
  others |= number == 0 && !part.initial_is_zero ? 2 : 0;
  for (u32 by = 1; by < kTileParts; by *= 2) {
    counts += shuffle_xor(counts, by);
    counts_before += shuffle_xor(counts_before, by);
    layers |= shuffle_xor(layers, by);
    groups |= shuffle_xor(groups, by);
    others |= shuffle_xor(others, by);
  }
  TileLayout tile = {};
  tile.layers = layers;
  tile.groups = groups;
  tile.planes = static_cast<u32>(counts & 0xFFFFF);
  tile.masks = static_cast<u32>(counts >> 20 & 0xFFFFF);
  tile.bits = static_cast<u32>(counts >> 40);
  tile.planes_before = static_cast<u32>(counts_before & 0xFFFFF);
  tile.masks_before = static_cast<u32>(counts_before >> 20 & 0xFFFFF);
  tile.bits_before = static_cast<u32>(counts_before >> 40);
  const u32 blocks = (values + kBlockValues - 1) / kBlockValues;
  tile.codes_bytes = 4 + kLayerBlocks * ones(layers);
  const u32 last_layer = (blocks - 1) / kLayerBlocks;
  if ((layers >> last_layer & 1) != 0) tile.codes_bytes -= kLayerBlocks - layer_blocks(blocks, last_layer);
  const u32 raw_bytes = values * static_cast<u32>(sizeof(T));
  tile.form = Form::full;
  tile.bytes = padded(tile.codes_bytes) + static_cast<u32>(sizeof(T)) + 4 * tile.planes;
  if (groups != 0) {
    tile.bytes +=
        4 + static_cast<u32>(sizeof(T)) + 12 * ones(groups) + 4 * tile.masks + tile.bits * static_cast<u32>(sizeof(T));
  }
  if (groups == 0 && layers == 0) {
    tile.form = Form::constant_bin;
    tile.bytes = (others & 2) == 0 ? 0 : static_cast<u32>(sizeof(T));
  } else if (groups != 0 && (others & 1) == 0) {
    tile.form = Form::constant_bits;
    tile.bytes = static_cast<u32>(sizeof(T));
  }
  if (tile.bytes >= raw_bytes) {
    tile.form = Form::stored;
    tile.bytes = raw_bytes;
  }
  return tile;
}

// The size of a tile follows from one word, the sum over its parts. From the lowest bits up, it has the payload words,
// whether the first bin is not 0, and the numbers of parts with exceptions, of parts with nothing else, and of all
// parts. The last count reaches the highest bit when the sum is complete.
inline constexpr u32 kWordsBits = 17, kInitialAt = 19, kExceptionsAt = 20, kOnlyCommonAt = 24, kPartsAt = 28;
static_assert(u32{1} << kPartsAt == kComplete / kTileParts);

template <class T>
H5L_DEVICE u32 summand_of(const PartWord& part, bool is_first) {
  const u32 section = 3 * ones(part.groups) + part.masks + part.bits * static_cast<u32>(sizeof(T) / 4);
  const u32 words = part.planes + kLayerBlocks / 4 * ones(part.layers) + section;
  return words | (is_first && !part.initial_is_zero ? 1u << kInitialAt : 0) |
         (part.groups != 0 ? 1u << kExceptionsAt : 0) | (part.only_common ? 1u << kOnlyCommonAt : 0) | 1u << kPartsAt;
}

// The size that layout_of computes.
template <class T>
H5L_DEVICE u32 bytes_of_sum(u32 sum) {
  constexpr u32 value = static_cast<u32>(sizeof(T)), raw_bytes = kTileValues * value;
  static_assert(kTileValues / kBlockValues * (kMaxWidth<T> + 1) + raw_bytes / 4 + 2048 < 1u << kWordsBits);
  const u32 words = sum % (1u << kWordsBits);
  const bool has_exceptions = (sum >> kExceptionsAt) % 16 != 0;
  if (words == 0 && !has_exceptions) return (sum >> kInitialAt & 1) != 0 ? value : 0;
  if ((sum >> kOnlyCommonAt) % 16 == kTileParts) return value;
  const u32 bytes = 4 + value + 4 * words + (has_exceptions ? 4 + value : 0);
  return bytes < raw_bytes ? bytes : raw_bytes;
}

}  // namespace h5lossy::H5L_TARGET::aatrox

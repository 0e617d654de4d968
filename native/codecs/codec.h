// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// What a codec is to the rest of the library: a table of functions on tiles, one table for each backend. These types
// are shared by all backends, so they stand outside the backends' namespaces and hold plain data only.
#pragma once

#include "codecs/portable.h"

namespace h5lossy {

// The numbers are those of the frame and of cd_values.
enum class BoundKind : u32 { absolute = 0, pointwise_relative = 1, range_relative = 2, lossless = 3 };

// How the values of one chunk become integers (docs/format/pfpl.md, "Encoding a tile"). Numbers of the value's own type
// are held as double, which is exact. A decoder reads kind, step and scale only.
struct Quantizer {
  BoundKind kind = BoundKind::lossless;
  bool has_fill = false;
  u64 fill_bits = 0;
  double bound = 0;         // B: absolute and range-relative
  double step = 0;          // 2 B
  double inverse_step = 0;  // 1 / step, rounded to the value's type
  u64 scale = 0;            // S: pointwise-relative
};

// What encode answers where a tile has to be stored: it would not shrink, or the codec has no words for it.
inline constexpr u32 kStoreTile = 0xFFFFFFFFu;

// What frame_mode answers for a mode that the codec does not have.
inline constexpr u32 kNoMode = 0xFFFFFFFFu;

// How a mode cuts a chunk into tiles.
struct Blocking {
  u32 tile_values;  // of a full tile; with blocks in several dimensions, its positions
  u32 extents[3];   // z, y, x of such a block; {0, 0, 0}: a tile is a run of values
};

inline constexpr u32 kMaxTileBoxes = 64;  // blocks of a tile in several dimensions; such a block has 64 positions

// One tile, whose values stand in the order in which a stored tile holds them: with blocks in several dimensions block
// by block, only the positions that are inside of the data.
struct Tile {
  u32 count;          // values
  u32 boxes;          // blocks in several dimensions; 0 in a run of values
  const u64* inside;  // bit e of entry b: position e of box b is inside of the data
  // The values to be decoded are part of so much that nobody will find them in a cache: a codec that can writes them past
  // the caches.
  bool is_streamed = false;
};

// One codec for one type of value, in one backend. `mode` is the frame's; `values` are little-endian, at any address.
struct TileFunctions {
  // Writes the payload and returns its size, always below that of the values, or kStoreTile. `payload` has room for a
  // full tile and the codec's spare_bytes.
  u32 (*encode)(const Quantizer& quantizer, u32 mode, const Tile& tile, const u8* values, u8* payload);

  // Reads a payload of a size that is neither 0 nor that of the values. False: corrupt. Any payload is safe.
  bool (*decode)(const Quantizer& quantizer, u32 mode, const Tile& tile, const u8* payload, u32 payload_bytes,
                 u8* values);
};

inline constexpr u32 kMaxAutoModes = 3;

struct Codec {
  u32 spare_bytes;    // room that encode needs behind a full tile's raw bytes
  bool has_lossless;  // whether kind lossless is among its bounds
  // The mode of a frame for a requested one (0 is the default) and a chunk with `rank` extents other than 1, or kNoMode.
  u32 (*frame_mode)(u32 requested, u32 rank);
  // False: frames have no such mode. Of value_bytes that are neither 4 nor 8 anything may be made.
  bool (*blocking)(u32 mode, u32 value_bytes, Blocking& blocking);
  // The requested modes that codec 0 (auto) compares (docs/format/auto.md), in their order.
  u32 auto_modes[kMaxAutoModes];
  u32 auto_mode_count;
  TileFunctions float32;
  TileFunctions float64;
};

}  // namespace h5lossy

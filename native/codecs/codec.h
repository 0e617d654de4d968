// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// What a codec is to the rest of the library: a table of functions on tiles, one table for each backend. These types
// are shared by all backends, so they stand outside the backends' namespaces and hold plain data only.
#pragma once

#include "codecs/portable.h"

namespace h5lossy {

// The numbers are those of the frame and of cd_values.
enum class BoundKind : u32 { absolute = 0, pointwise_relative = 1, range_relative = 2, lossless = 3 };

// How the values of one chunk become integers (codecs/bounds.h). Numbers of the value's own type
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

// What a codec answers for a mode that it does not have.
inline constexpr u32 kNoMode = 0xFFFFFFFFu;

// Axes of a chunk, as codecs see it: w, z, y, x, of which x is the fastest.
inline constexpr u32 kAxes = 4;

inline constexpr u32 kMaxTileValues = 32768;
inline constexpr u32 kMaxTileBoxes = 64;

// How a mode cuts a chunk into tiles: each is a group of boxes that follow each other in raster order.
struct TileLayout {
  u32 box[kAxes];  // extents of a box that the chunk's end does not cut: {1, 1, 1, n} is a run of n values
  u32 boxes = 1;   // of a tile
  // What the host has to know to start the mode's GPU kernels.
  bool is_split = false;           // several thread blocks work on a tile
  const char* kernel_suffix = "";  // of their names
};

// The extents of one box, inside of the chunk.
struct Box {
  u16 extents[kAxes];
};

// One tile. Its values stand box by box, those of a box in raster order; positions outside of the chunk have none.
struct Tile {
  u32 count;  // values
  u32 box_count;
  const Box* boxes;
  // The values to be decoded are part of so much that nobody will find them in a cache: a codec that can writes them past
  // the caches.
  bool is_streamed = false;
};

// A chunk for which a mode is chosen.
struct Chunk {
  u32 dims[kAxes];  // of more than four axes, the first ones count as one; without a shape {1, 1, 1, count}
  u32 rank;         // extents that are not 1, at least 1
  u32 value_bytes;
  bool big_endian;  // what `values` are
  const Quantizer& quantizer;
  const u8* values;  // null: on a GPU
};

// One codec for one type of value, in one backend. `mode` is the frame's; `values` are little-endian, at any address.
// `workspace` has workspace_bytes, aligned to 64; nothing in it lasts.
struct TileFunctions {
  u32 workspace_bytes;

  // Writes the payload and returns its size, always below that of the values, or kStoreTile. `payload` has room for a
  // full tile and the codec's spare_bytes.
  u32 (*encode)(const Quantizer& quantizer, u32 mode, const Tile& tile, const u8* values, u8* payload, u8* workspace);

  // Reads a payload of a size that is neither 0 nor that of the values. False: corrupt. Any payload is safe.
  bool (*decode)(const Quantizer& quantizer, u32 mode, const Tile& tile, const u8* payload, u32 payload_bytes,
                 u8* values, u8* workspace);
};

inline constexpr u32 kMaxAutoModes = 3;

struct Codec {
  u32 spare_bytes;    // room that encode needs behind a full tile's raw bytes
  bool has_lossless;  // whether kind lossless is among its bounds
  // Whether a request may name this mode; 0 is the default.
  bool (*has_mode)(u32 requested);
  // The mode of a chunk's frame for a requested one. kNoMode: the chunk's values are needed, and are not there.
  u32 (*choose_mode)(const Chunk& chunk, u32 requested, u8* workspace);
  u32 choice_bytes;  // of that workspace
  // How many of the dims, the last ones, the header of a frame with this mode holds: 0, 3 or 4. With 0 the chunk counts as
  // one run of values. kNoMode: frames have no such mode.
  u32 (*header_dims)(u32 mode);
  // For a mode that frames have, and a chunk of these dims (with those that the header does not hold multiplied into the
  // next one).
  TileLayout (*layout)(u32 mode, u32 value_bytes, const u32 (&dims)[kAxes]);
  // The requested modes that codec 0 (auto) compares (docs/format/auto.md), in their order.
  u32 auto_modes[kMaxAutoModes];
  u32 auto_mode_count;
  TileFunctions float32;
  TileFunctions float64;
};

}  // namespace h5lossy

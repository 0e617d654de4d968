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

// What encode_tile answers where a tile has to be stored: it would not shrink, or the codec has no words for it.
inline constexpr u32 kStoreTile = 0xFFFFFFFFu;

// One codec for one type of value, in one backend. `values` are `count` little-endian values at any address.
struct TileFunctions {
  // Writes the payload and returns its size, always below that of the values, or kStoreTile. `payload` has room for the
  // codec's max_payload_bytes.
  u32 (*encode)(const Quantizer& quantizer, const u8* values, u32 count, u8* payload);

  // Reads a payload of a size that is neither 0 nor that of the values. False: corrupt. Any payload is safe.
  bool (*decode)(const Quantizer& quantizer, const u8* payload, u32 payload_bytes, u32 count, u8* values);
};

struct Codec {
  u32 tile_bytes;         // raw bytes of a full tile
  u32 max_payload_bytes;  // room that encode needs, whatever it returns
  TileFunctions float32;
  TileFunctions float64;
};

}  // namespace h5lossy

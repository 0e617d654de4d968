// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Interp on a CPU: modes, and the pieces that a chunk is cut into. Tiles are stored for now. Compiled once for each backend.

#include "codecs/interp.h"

#include "codecs/codec.h"

namespace h5lossy::H5L_TARGET {
namespace {

using namespace interp;

inline constexpr u32 kModeMask = kAxesMask | kRewritable;

bool has_mode(u32 requested) {
  return (requested & ~kModeMask) == 0 && count_ones(requested & kAxesMask) <= kMaxActiveAxes;
}

u32 choose_mode(const Chunk& chunk, u32 requested, u8*) {
  if ((requested & kAxesMask) != 0) return requested;
  u32 axes = 0;
  for (u32 axis = kAxes; axis-- > 0;) {
    if (chunk.dims[axis] > 1 && count_ones(axes) < kMaxActiveAxes) axes |= axis_bit(axis);
  }
  if (axes != 0 && chunk.values == nullptr) return kNoMode;
  return requested | (axes == 0 ? axis_bit(kAxes - 1) : axes);
}

u32 header_dims(u32 mode) { return has_mode(mode) && (mode & kAxesMask) != 0 ? kAxes : kNoMode; }

// Halves a piece until it has at most a tile's values: along the longest axis that is not interpolated, or, once these are
// all 1, along the longest that is. Safe for any dims, since headers are laid out before their dims have been checked.
TileLayout layout(u32 mode, u32, const u32 (&dims)[kAxes]) {
  u64 parts[kAxes] = {1, 1, 1, 1};
  TileLayout result = {.box = {}};
  for (u32 axis = 0; axis < kAxes; ++axis) result.box[axis] = dims[axis] == 0 ? 1 : dims[axis];
  for (;;) {
    u64 values = 1;
    u32 free = kAxes, interpolated = kAxes;  // the longest axis of each sort
    for (u32 axis = 0; axis < kAxes; ++axis) {
      const u32 extent = result.box[axis];
      u32& longest = (mode & axis_bit(axis)) != 0 ? interpolated : free;
      if (extent > 1 && (longest == kAxes || extent > result.box[longest])) longest = axis;
      if (values <= kTileValues) values *= extent;  // both factors are below 2^32
    }
    if (values <= kTileValues) return result;
    const u32 axis = free != kAxes ? free : interpolated;
    parts[axis] *= 2;
    result.box[axis] = static_cast<u32>((dims[axis] + parts[axis] - 1) / parts[axis]);
  }
}

template <class T>
u32 encode(const Quantizer&, u32, const Tile&, const u8*, u8*, u8*) {
  return kStoreTile;
}

template <class T>
bool decode(const Quantizer&, u32, const Tile&, const u8*, u32, u8*, u8*) {
  return false;
}

}  // namespace

extern const Codec interp_codec;
const Codec interp_codec = {
    .spare_bytes = 0,
    .has_kernels = false,
    .step_rule = {.share = 4057.0 / 4096, .least_bound = 32},
    .has_mode = has_mode,
    .choose_mode = choose_mode,
    .choice_bytes = 0,
    .header_dims = header_dims,
    .layout = layout,
    .auto_mode_count = 0,
    .float32 = {0, encode<float>, decode<float>},
    .float64 = {0, encode<double>, decode<double>},
};

}  // namespace h5lossy::H5L_TARGET

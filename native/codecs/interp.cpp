// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Interp on a CPU: modes, the pieces that a chunk is cut into, and a stand-in for the format. Compiled once for each backend.

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

// A stand-in for the format: constant tiles, tiles of bins that fit into 16 bits, and tiles that end in zeros. Others are
// stored.
template <class T>
bool find_bin(const Lattice<T>& lattice, Word<T> bits, i32& bin) {
  if (lattice.has_fill && bits == lattice.fill_bits) return false;
  const T x = bit_cast<T>(bits), steps = multiply(x, lattice.inverse_step);
  if (!(magnitude(steps) < T{32767})) return false;
  bin = static_cast<i32>(add(steps, steps < 0 ? T(-0.5) : T(0.5)));
  const T rebuilt = add(multiply(static_cast<T>(bin), lattice.step), T{0});
  if (lattice.has_fill && bit_cast<Word<T>>(rebuilt) == lattice.fill_bits) return false;
  return magnitude(subtract(x, rebuilt)) < lattice.bound;
}

template <class T>
u32 encode(const Quantizer& quantizer, u32, const Tile& tile, const u8* values, u8* payload, u8*) {
  if (tile.count < 2) return kStoreTile;
  u32 kept = tile.count;
  while (kept != 0 && load<Word<T>>(values + (kept - 1) * sizeof(T)) == 0) --kept;
  if (kept == 0) return 0;
  const Word<T> first = load<Word<T>>(values);
  bool is_constant = true;
  for (u32 i = 0; i < tile.count; ++i) is_constant &= load<Word<T>>(values + i * sizeof(T)) == first;
  if (is_constant) {
    store(payload, first);
    return sizeof(T);
  }
  const Lattice<T> lattice = lattice_of<T>(quantizer);
  const u32 bins_end = 4 + 2 * tile.count;
  u32 size = bins_end;
  if (quantizer.kind != BoundKind::pointwise_relative) {
    constexpr u32 entry = 2 + sizeof(T);  // of an exception
    for (u32 i = 0; i < tile.count && size + entry < tile.count * sizeof(T); ++i) {
      i32 bin = 0;
      const Word<T> bits = load<Word<T>>(values + i * sizeof(T));
      if (!find_bin<T>(lattice, bits, bin)) {
        store(payload + size, static_cast<u16>(i));
        store(payload + size + 2, bits);
        size += entry;
        bin = 0;
      }
      store(payload + 4 + 2 * i, static_cast<u16>(bin));
    }
    store(payload, 0xFFFFFFFFu);
    if (size + entry < tile.count * sizeof(T)) return size;
  }
  if constexpr (sizeof(T) == 8) {
    if (quantizer.kind == BoundKind::pointwise_relative && quantizer.scale >> 17 != 0) {
      for (u32 i = 0; i < tile.count; ++i) {
        const u64 bits = load<u64>(values + 8 * i), cut = bits >> 16 << 16;
        const bool is_plain =
            magnitude(bit_cast<double>(bits)) >= 0x1p-1000 && magnitude(bit_cast<double>(bits)) < 1e300;
        if ((!is_plain && bits != cut) || (quantizer.has_fill && cut != bits && cut == quantizer.fill_bits) ||
            (quantizer.has_fill && bits == quantizer.fill_bits && cut != bits)) {
          return kStoreTile;
        }
        const u32 middle = static_cast<u32>(cut >> 16);
        const u16 top = static_cast<u16>(cut >> 48);
        memcpy(payload + 4 + 6 * i, &middle, 4);
        memcpy(payload + 8 + 6 * i, &top, 2);
      }
      store(payload, 0xFFFFFFFEu);
      return 4 + 6 * tile.count < 8 * tile.count ? 4 + 6 * tile.count : kStoreTile;
    }
  }
  store(payload, kept);
  size = 4 + kept * static_cast<u32>(sizeof(T));
  if (size >= tile.count * sizeof(T) || size == sizeof(T)) return kStoreTile;
  memcpy(payload + 4, values, kept * sizeof(T));
  return size;
}

template <class T>
bool decode(const Quantizer& quantizer, u32, const Tile& tile, const u8* payload, u32 payload_bytes, u8* values, u8*) {
  if (payload_bytes == sizeof(T)) {
    for (u32 i = 0; i < tile.count; ++i) memcpy(values + i * sizeof(T), payload, sizeof(T));
    return true;
  }
  if (payload_bytes < 4) return false;
  const u32 kept = load<u32>(payload);
  if (kept < tile.count && payload_bytes == 4 + kept * sizeof(T)) {
    memset(values, 0, tile.count * sizeof(T));
    memcpy(values, payload + 4, kept * sizeof(T));
    return true;
  }
  if constexpr (sizeof(T) == 8) {
    if (kept == 0xFFFFFFFEu && payload_bytes == 4 + 6 * tile.count) {
      for (u32 i = 0; i < tile.count; ++i) {
        store(values + 8 * i, u64{load<u32>(payload + 4 + 6 * i)} << 16 | u64{load<u16>(payload + 8 + 6 * i)} << 48);
      }
      return true;
    }
  }
  const u32 bins_end = 4 + 2 * tile.count;
  if (kept != 0xFFFFFFFFu || payload_bytes < bins_end || (payload_bytes - bins_end) % (2 + sizeof(T)) != 0)
    return false;
  for (u32 i = 0; i < tile.count; ++i) {
    const T bin = static_cast<T>(static_cast<short>(load<u16>(payload + 4 + 2 * i)));
    store(values + i * sizeof(T), bit_cast<Word<T>>(add(multiply(bin, static_cast<T>(quantizer.step)), T{0})));
  }
  for (u32 at = bins_end; at < payload_bytes; at += 2 + sizeof(T)) {
    const u32 i = load<u16>(payload + at);
    if (i >= tile.count) return false;
    memcpy(values + i * sizeof(T), payload + at + 2, sizeof(T));
  }
  return true;
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

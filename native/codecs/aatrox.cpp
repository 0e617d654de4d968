// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// AATROX on a CPU: the loop over the blocks of one tile. Compiled once for each backend.

#include "codecs/aatrox.h"

#include "codecs/block_tiles.h"
#include "codecs/codec.h"
#include "simd/block_planes.h"
#include "simd/sums.h"

namespace h5lossy::H5L_TARGET {
namespace {

using namespace blocks;
using namespace aatrox;

inline constexpr u32 n = kBlockValues;

// Writes the codes of the iteration layers in which there is one that is not 0, and pads them. Returns their end.
u8* write_codes(const u8* widths, u32 blocks, u8* out) {
  u8* next = out + 4;
  u32 layers = 0;
  for (u32 first = 0; first < blocks; first += kLayerBlocks) {
    const u32 count = blocks - first < kLayerBlocks ? blocks - first : kLayerBlocks;
    if (is_zero(widths + first, count)) continue;
    layers |= u32{1} << (first / kLayerBlocks);
    memcpy(next, widths + first, count);
    next += count;
  }
  store(out, layers);
  for (; (next - out) % 4 != 0; ++next) *next = 0;
  return next;
}

// Undoes write_codes. Null: they contradict themselves or the tile.
const u8* read_codes(const u8* payload, u32 payload_bytes, u32 blocks, u32 max_width, u8* widths) {
  if (payload_bytes < 4) return nullptr;
  const u32 layers = load<u32>(payload);
  if ((layers & ~first_bits((blocks + kLayerBlocks - 1) / kLayerBlocks)) != 0) return nullptr;
  u32 at = 4;
  for (u32 first = 0; first < blocks; first += kLayerBlocks) {
    const u32 count = blocks - first < kLayerBlocks ? blocks - first : kLayerBlocks;
    memset(widths + first, 0, count);
    if ((layers >> (first / kLayerBlocks) & 1) == 0) continue;
    if (payload_bytes - at < count || is_zero(payload + at, count)) return nullptr;
    for (u32 i = 0; i < count; ++i) {
      widths[first + i] = payload[at + i];
      if (widths[first + i] > max_width) return nullptr;
    }
    at += count;
  }
  if (payload_bytes < padded(at) || !is_zero(payload + at, padded(at) - at)) return nullptr;
  return payload + padded(at);
}

template <class T, class Q>
u32 encode_tile(const Q& q, const Tile& tile, const u8* values, u8* payload) {
  using W = Word<T>;
  const u32 blocks = count_blocks<n>(tile);
  // Planes are written behind the longest codes that there can be, and then moved to where they belong.
  u8 widths[kMaxBlocks];
  u8* const first_planes = payload + 4 + padded(blocks) + sizeof(W);
  u8* planes = first_planes;
  Exceptions<T, n, kMaxBlocks> exceptions;
  W initial = 0, last = 0;
  bool has_initial = false;  // false as long as there were exceptions only
  bool is_constant = true;

  alignas(64) W bins_behind_one[kAlign + kBatchValues];
  W* const bins = bins_behind_one + kAlign;
  alignas(64) W words[kBatchValues];
  for (u32 first = 0; first < blocks; first += kBatchBlocks<n>) {
    const u32 batch = blocks - first < kBatchBlocks<n> ? blocks - first : kBatchBlocks<n>;
    bins[-1] = last;
    for (u32 b = 0; b < batch; ++b) {
      const u32 left = tile.count - (first + b) * n;
      const u32 count = left < n ? left : n;
      W* const block = bins + b * n;
      const u64 mask = quantize_block<n, T>(q, values + (first + b) * n * sizeof(T), count, block);
      if (!has_initial && mask != first_bits(count)) {
        initial = block[lowest_bit(~mask)];
        for (W* bin = bins - 1; bin != block; ++bin) *bin = initial;
        has_initial = true;
      }
      if (mask != 0) {
        fill_forward(mask, count, block[-1], block);
        exceptions.add(mask, count);
      } else {
        exceptions.add_none(count);
      }
      for (u32 i = count; i < n; ++i) block[i] = block[i - 1];
    }
    const W* const before = bins - 1;
    for (u32 i = 0; i < batch * n; ++i) words[i] = to_sign_last(static_cast<W>(bins[i] - before[i]));
    last = bins[batch * n - 1];
    for (u32 b = 0; b < batch; ++b) {
      const W* const block = words + b * n;
      W any = 0;
      for (u32 i = 0; i < n; ++i) any |= block[i];
      const u32 width = width_of<W>(any >> 1);
      widths[first + b] = static_cast<u8>(width);
      if (width == 0) continue;
      is_constant = false;
      planes = simd::store_planes<n>(block, ~W{0}, width + 1, planes);
    }
  }

  if (exceptions.count() == 0 && is_constant) return write_constant<T>(bits_of(q, initial), tile.count, payload);
  if (exceptions.is_all() && all_equal<W>(values, tile.count)) {
    return write_constant<T>(load<W>(values), tile.count, payload);
  }
  u8* const initial_at = write_codes(widths, blocks, payload);
  const u32 planes_size = static_cast<u32>(planes - first_planes);
  const u32 size = static_cast<u32>(initial_at - payload) + static_cast<u32>(sizeof(W)) + planes_size +
                   exceptions.measure(tile, values);
  if (size >= tile.count * sizeof(T)) return kStoreTile;
  store(initial_at, initial);
  memmove(initial_at + sizeof(W), first_planes, planes_size);
  exceptions.write(tile, values, initial_at + sizeof(W) + planes_size);
  return size;
}

template <class T, class Q>
bool decode_tile(const Q& q, const Tile& tile, const u8* payload, u32 payload_bytes, u8* values) {
  using W = Word<T>;
  if (payload_bytes == sizeof(T)) {
    read_constant<W>(payload, tile.count, values);
    return true;
  }
  if (payload_bytes % 4 != 0) return false;
  const u32 blocks = count_blocks<n>(tile);
  u8 widths[kMaxBlocks];
  const u8* const initial_at = read_codes(payload, payload_bytes, blocks, kMaxWidth<T>, widths);
  if (initial_at == nullptr) return false;
  u32 least_bytes = static_cast<u32>(initial_at + sizeof(W) - payload);
  for (u32 b = 0; b < blocks; ++b) least_bytes += planes_bytes<n>(widths[b]);
  if (payload_bytes < least_bytes) return false;
  const u8* const section = payload + least_bytes;
  const u8* planes = initial_at + sizeof(W);

  W last = load<W>(initial_at);
  alignas(64) Plane<n> rows[kBatchBlocks<n>][kMaxRows<kMaxWidth<T>>];
  alignas(64) W words[kBatchValues];
  for (u32 first = 0; first < blocks; first += kBatchBlocks<n>) {
    const u32 batch = blocks - first < kBatchBlocks<n> ? blocks - first : kBatchBlocks<n>;
    const u8* const batch_widths = widths + first;
    for (u32 b = 0; b < batch; ++b) {
      if (batch_widths[b] != 0) planes = simd::load_planes<n>(planes, batch_widths[b] + 1u, rows[b]);
    }
    for (u32 b = 0; b < batch; ++b) {
      if (batch_widths[b] == 0) {
        memset(words + b * n, 0, n * sizeof(W));
      } else {
        simd::words_of_rows<n>(rows[b], batch_widths[b] + 1u, words + b * n);
      }
    }
    for (u32 i = 0; i < batch * n; ++i) words[i] = from_sign_last(words[i]);
    last = simd::running_sums(words, batch * n, last);
    for (u32 b = 0; b < batch; ++b) {
      const u32 left = tile.count - (first + b) * n;
      values_of_bins<n, T>(q, words + b * n, left < n ? left : n, values + (first + b) * n * sizeof(T));
    }
  }
  const u32 section_bytes = payload_bytes - least_bytes;
  return section_bytes == 0 || restore_exceptions<T, n>(tile, section, section_bytes, values);
}

template <class T>
u32 encode(const Quantizer& quantizer, u32, const Tile& tile, const u8* values, u8* payload) {
  if (tile.count == 0) return kStoreTile;
  return with_quantizer<T>(quantizer, [&](const auto& q) { return encode_tile<T>(q, tile, values, payload); });
}

template <class T>
bool decode(const Quantizer& quantizer, u32, const Tile& tile, const u8* payload, u32 payload_bytes, u8* values) {
  return with_quantizer<T>(quantizer,
                           [&](const auto& q) { return decode_tile<T>(q, tile, payload, payload_bytes, values); });
}

u32 frame_mode(u32 requested, u32) { return requested == 0 ? 0 : kNoMode; }

bool blocking(u32 mode, u32, Blocking& blocking) {
  blocking = {kTileValues, {}};
  return mode == 0;
}

}  // namespace

extern const Codec aatrox_codec;
const Codec aatrox_codec = {
    kPlanesOverrun,  // a block's code and planes always take less than its values
    false,          frame_mode, blocking, {0}, 1, {encode<float>, decode<float>}, {encode<double>, decode<double>},
};

}  // namespace h5lossy::H5L_TARGET

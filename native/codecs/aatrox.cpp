// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// AATROX on a CPU: the loop over the blocks of one tile. Compiled once for each backend.

#include "codecs/aatrox.h"

#include <new>

#include "codecs/block_tiles.h"
#include "codecs/codec.h"
#include "codecs/simd/block_planes.h"
#include "codecs/simd/block_rows.h"

namespace h5lossy::H5L_TARGET::aatrox {
namespace {

using namespace blocks;

inline constexpr u32 n = kBlockValues;

// Writes the codes of the iteration layers that have a nonzero code, and the padding. Returns their end.
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

// Inverse of write_codes. Null if the codes are inconsistent with each other or with the tile.
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

// Planes of a block: one per bit of its magnitudes, and one for the signs.
u32 planes_of_width(u32 width) { return width == 0 ? 0 : width + 1; }

// Quantizes a block that is not full or has exceptions: its bins, by position, and its exceptions. `last` and `initial`
// are the tile's last and first bins so far; they are undefined while `has_initial` is false.
template <class W, class Bins>
[[gnu::noinline]] u64 quantize_part(const Bins& quantizer, const u8* values, u64 inside, W last, bool& has_initial,
                                    W& initial, simd::Rows<n, W>& bins) {
  const u64 exceptions = quantize_any<n>(quantizer, values, inside, bins);
  const u64 ordinary = inside & ~exceptions;
  if (!has_initial && ordinary != 0) {
    has_initial = true;
    last = initial = simd::word_at(bins, lowest_bit(ordinary));
  }
  simd::fill_forward(first_bits(n) & ~ordinary, last, bins);
  return exceptions;
}

// The encoder's workspace for a tile.
template <class T>
struct Found {
  u8 widths[kMaxBlocks];
  Exceptions<T, n, kMaxBlocks> exceptions;
};

template <class T, class Q>
u32 encode_tile(const Q& q, const Tile& tile, const u8* values, u8* payload, u8* workspace) {
  using W = Word<T>;
  const Insides<n> insides(tile.count);
  const u32 blocks = insides.blocks();
  // Planes are written after the longest possible codes, and then moved to their place.
  Found<T>& found = *new (workspace) Found<T>;
  u8* const widths = found.widths;
  Exceptions<T, n, kMaxBlocks>& exceptions = found.exceptions;
  u8* const first_planes = payload + 4 + padded(blocks) + sizeof(W);
  u8* planes = first_planes;
  W initial = 0;
  bool has_initial = false;  // false as long as all values were exceptions
  u32 any_width = 0;

  const simd::Bins<T, Q> quantizer(q);
  simd::Rows<n, W> bins[1 + kBatchBlocks<n>];  // the first one is the last of the previous batch
  simd::Rows<n, W> words[kBatchBlocks<n>];
  bins[0] = simd::all_words<n>(W{0});
  for (u32 first = 0; first < blocks; first += kBatchBlocks<n>) {
    const u32 batch = batch_at<n>(first, blocks);
    for_batch<n>(batch, [&](u32 b) {
      const u8* const block_values = values + (first + b) * n * sizeof(T);
      const u64 inside = insides[first + b];
      const bool is_easy = inside == first_bits(n) && quantizer.from_values(block_values, bins[b + 1]);
      const bool starts = !has_initial;
      if (__builtin_expect(is_easy, 1)) {
        if (starts) initial = simd::first_of(bins[b + 1]);
        has_initial = true;
      } else {
        simd::Rows<n, W> block;  // not bins[b + 1], whose address would force it out of registers
        const W last = simd::word_of<W>(simd::last_of(bins[b]));
        const u64 mask = quantize_part<W>(quantizer, block_values, inside, last, has_initial, initial, block);
        bins[b + 1] = block;
        if (mask != 0) exceptions.add(first + b, mask, inside);
      }
      if (__builtin_expect(starts, 0)) {
        for (u32 i = 0; i <= b; ++i) bins[i] = simd::all_words<n>(initial);
      }
    });
    for_batch<n>(batch,
                 [&](u32 b) { simd::differences<before_in_run>(bins[b + 1], simd::last_of(bins[b]), words[b]); });
    bins[0] = bins[batch];
    for_batch<n>(batch, [&](u32 b) {
      const u32 count = width_of<W>(simd::any_bits(words[b]));  // of planes
      const u32 width = count == 0 ? 0 : count - 1;
      widths[first + b] = static_cast<u8>(width);
      any_width |= width;
    });
    for_batch<n>(batch,
                 [&](u32 b) { planes = simd::store_planes<n>(words[b], planes_of_width(widths[first + b]), planes); });
  }

  if (exceptions.count() == 0 && any_width == 0) return write_constant<T>(bits_of(q, initial), tile.count, payload);
  if (exceptions.count() == tile.count && all_equal<W>(values, tile.count)) {
    return write_constant<T>(load<W>(values), tile.count, payload);
  }
  u8* const initial_at = write_codes(widths, blocks, payload);
  const u32 planes_size = static_cast<u32>(planes - first_planes);
  const u32 size = static_cast<u32>(initial_at - payload) + static_cast<u32>(sizeof(W)) + planes_size +
                   exceptions.measure(insides, values);
  if (size >= tile.count * sizeof(T)) return kStoreTile;
  store(initial_at, initial);
  if (initial_at + sizeof(W) != first_planes) memmove(initial_at + sizeof(W), first_planes, planes_size);
  exceptions.write(insides, values, initial_at + sizeof(W) + planes_size);
  return size;
}

template <class T, class Q>
bool decode_tile(const Q& q, const Tile& tile, const u8* payload, u32 payload_bytes, u8* values, u8* widths) {
  using W = Word<T>;
  if (payload_bytes == sizeof(T)) {
    read_constant<W>(payload, tile.count, values);
    return true;
  }
  if (payload_bytes % 4 != 0) return false;
  const Insides<n> insides(tile.count);
  const u32 blocks = insides.blocks();
  const u8* const initial_at = read_codes(payload, payload_bytes, blocks, kMaxWidth<T>, widths);
  if (initial_at == nullptr) return false;
  u32 least_bytes = static_cast<u32>(initial_at + sizeof(W) - payload);
  for (u32 b = 0; b < blocks; ++b) least_bytes += planes_bytes<n>(widths[b]);
  if (payload_bytes < least_bytes) return false;
  const u8* const section = payload + least_bytes;
  const u8* planes = initial_at + sizeof(W);

  const simd::Bins<T, Q> quantizer(q);
  simd::Edge<W> edge = simd::edge_of(load<W>(initial_at));
  simd::LoadedPlanes<n, W> loaded[kBatchBlocks<n>];
  simd::Rows<n, W> bins[kBatchBlocks<n>];
  for (u32 first = 0; first < blocks; first += kBatchBlocks<n>) {
    const u32 batch = batch_at<n>(first, blocks);
    for_batch<n>(batch, [&](u32 b) {
      const u32 count = planes_of_width(widths[first + b]);
      loaded[b].load(planes, count);
      planes += count * (n / 8);
    });
    for_batch<n>(batch, [&](u32 b) { loaded[b].template bins<before_in_run>(true, edge, bins[b]); });
    for_batch<n>(batch, [&](u32 b) {
      u8* const block_values = values + (first + b) * n * sizeof(T);
      const u64 inside = insides[first + b];
      if (__builtin_expect(inside == first_bits(n), 1)) {
        quantizer.to_values(bins[b], block_values);
      } else {
        const simd::Rows<n, W> block = bins[b];
        store_inside<n>(quantizer, block, inside, block_values);
      }
    });
  }
  const u32 section_bytes = payload_bytes - least_bytes;
  return section_bytes == 0 || restore_exceptions<T, n>(insides, section, section_bytes, values);
}

template <class T>
u32 encode(const Quantizer& quantizer, u32, const Tile& tile, const u8* values, u8* payload, u8* workspace) {
  if (tile.count == 0) return kStoreTile;
  return with_quantizer<T>(quantizer,
                           [&](const auto& q) { return encode_tile<T>(q, tile, values, payload, workspace); });
}

template <class T>
bool decode(const Quantizer& quantizer, u32, const Tile& tile, const u8* payload, u32 payload_bytes, u8* values,
            u8* workspace) {
  return with_quantizer<T>(
      quantizer, [&](const auto& q) { return decode_tile<T>(q, tile, payload, payload_bytes, values, workspace); });
}

bool has_mode(u32 requested) { return requested == 0; }
u32 choose_mode(const Chunk&, u32, u8*) { return 0; }
u32 header_dims(u32 mode) { return mode == 0 ? 0 : kNoMode; }
TileLayout layout(u32, u32, const u32 (&)[kAxes]) { return {.box = {1, 1, 1, kTileValues}, .is_split = true}; }

}  // namespace

extern const Codec codec;
const Codec codec = {
    .spare_bytes = simd::kPlanesOverrun,  // a block's code and planes never exceed its values
    .has_mode = has_mode,
    .choose_mode = H5L_ENCODER(choose_mode),
    .header_dims = header_dims,
    .layout = layout,
    .float32 = {sizeof(Found<float>), H5L_ENCODER(encode<float>), decode<float>},
    .float64 = {sizeof(Found<double>), H5L_ENCODER(encode<double>), decode<double>},
};

}  // namespace h5lossy::H5L_TARGET::aatrox

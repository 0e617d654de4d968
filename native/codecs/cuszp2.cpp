// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// cuSZp2 on a CPU: the loop over the blocks of one tile. Compiled once for each backend.

#include "codecs/cuszp2.h"

#include "codecs/block_tiles.h"
#include "codecs/codec.h"
#include "simd/block_planes.h"
#include "simd/sums.h"

namespace h5lossy::H5L_TARGET {
namespace {

using namespace blocks;
using namespace cuszp2;

// How a block's values are predicted: not at all (mode fixed), or along so many dimensions.
inline constexpr u32 kNoPrediction = 0;

// Differences of a whole block, signs last. Reads the bin in front of the block.
template <u32 n, u32 prediction, class W>
void differences(const W* bins, W* words) {
  if constexpr (prediction == kNoPrediction) {
    for (u32 i = 0; i < n; ++i) words[i] = to_sign_last(bins[i]);
    return;
  }
  const W* const left = bins - 1;
  for (u32 i = 0; i < n; ++i) words[i] = to_sign_last(static_cast<W>(bins[i] - left[i]));
  words[0] = to_sign_last(bins[0]);
  if constexpr (prediction > 1) {
    constexpr u32 row = prediction == 2 ? 8 : 4;
    for (u32 i = row; i < n; i += row) words[i] = to_sign_last(static_cast<W>(bins[i] - bins[before<prediction>(i)]));
  }
}

// Not inlined: GCC would do several blocks at once, with more shuffles than sums.
template <u32 n, u32 prediction, class W>
[[gnu::noinline]] void undo_differences(W* words) {
  if constexpr (prediction == 1) {
    simd::running_sums(words, n, W{0});
    return;
  }
  constexpr u32 row = prediction == 2 ? 8 : 4;
  for (u32 first = 0; first < n; first += row) {
    W bin = words[first];
    if (first != 0) words[first] = bin += words[before<prediction>(first)];
#pragma GCC unroll 32
    for (u32 i = 1; i < row; ++i) words[first + i] = bin += words[first + i];
  }
}

// Moves the bins of values to their positions, zeros between, and back.
template <u32 n, class W>
void spread(u64 inside, u32 count, W* bins) {
  for (u32 e = n; e-- > 0;) bins[e] = (inside >> e & 1) != 0 ? bins[--count] : 0;
}

template <u32 n, class W>
void gather(u64 inside, W* bins) {
  u32 count = 0;
  for (u32 e = 0; e < n; ++e) {
    if ((inside >> e & 1) != 0) bins[count++] = bins[e];
  }
}

template <u32 n, u32 prediction, class T, class Q>
u32 encode_tile(const Q& q, bool may_be_outlier, const Tile& tile, const u8* values, u8* payload) {
  using W = Word<T>;
  constexpr u32 max_blocks = kTileValues / n;
  const u32 blocks = count_blocks<n>(tile);
  u8* next_code = payload;
  u8* planes = payload + padded(blocks * kCodeBytes<T>);
  u8 first_residuals[max_blocks * sizeof(W)];
  u8* next_first = first_residuals;
  Exceptions<T, n, max_blocks> exceptions;
  bool is_constant = true;
  W constant = 0;

  const u8* next = values;
  alignas(64) W bins_behind_one[kAlign + kBatchValues];
  W* const bins = bins_behind_one + kAlign;
  alignas(64) W words[kBatchValues];
  bins[-1] = 0;
  for (u32 first = 0; first < blocks; first += kBatchBlocks<n>) {
    const u32 batch = blocks - first < kBatchBlocks<n> ? blocks - first : kBatchBlocks<n>;
    for (u32 b = 0; b < batch; ++b) {
      const u64 inside = inside_of<n>(tile, first + b);
      const u32 count = inside == first_bits(n) ? n : count_ones(inside);
      W* const block = bins + b * n;
      if (const u64 mask = quantize_block<n, T>(q, next, count, block); mask != 0) {
        fill_forward(mask, count, mask == first_bits(count) ? W{0} : block[lowest_bit(~mask)], block);
        exceptions.add(mask, count);
      } else {
        exceptions.add_none(count);
      }
      next += count * sizeof(T);
      if (first + b == 0) constant = block[0];
      for (u32 i = 0; is_constant && i < count; ++i) is_constant = block[i] == constant;
      if (count != n) spread<n>(inside, count, block);
    }
    for (u32 b = 0; b < batch; ++b) {
      differences<n, prediction>(bins + b * n, words + b * n);
      const u64 inside = inside_of<n>(tile, first + b);
      if (inside == first_bits(n)) continue;
      for (u32 e = 0; e < n; ++e) words[b * n + e] = (inside >> e & 1) != 0 ? words[b * n + e] : 0;
    }
    for (u32 b = 0; b < batch; ++b) {
      const W* const block = words + b * n;
      W rest = 0;
      for (u32 i = 1; i < n; ++i) rest |= block[i];
      const W first_residual = block[0] >> 1;
      Code code = {width_of<W>((rest | block[0]) >> 1), 0};
      if (may_be_outlier) {
        const Code outlier = {width_of<W>(rest >> 1), first_size_of(first_residual)};
        if (planes_bytes<n>(outlier) + outlier.first_size < planes_bytes<n>(code)) {
          code = outlier;
          store(next_first, first_residual);
          next_first += code.first_size;
        }
      }
      const W first_mask = code.first_size == 0 ? ~W{0} : W{1};
      if (planes_bytes<n>(code) != 0) planes = simd::store_planes<n>(block, first_mask, code.width + 1, planes);
      const u32 packed = pack_code<T>(code);
      memcpy(next_code, &packed, kCodeBytes<T>);
      next_code += kCodeBytes<T>;
    }
  }

  if (exceptions.count() == 0 && is_constant) return write_constant<T>(bits_of(q, constant), tile.count, payload);
  if (exceptions.is_all() && all_equal<W>(values, tile.count)) {
    return write_constant<T>(load<W>(values), tile.count, payload);
  }
  const u32 first_bytes = static_cast<u32>(next_first - first_residuals);
  const u32 size = static_cast<u32>(planes - payload) + exceptions.measure(tile, values) + padded(first_bytes);
  if (size >= tile.count * sizeof(T)) return kStoreTile;
  memset(next_code, 0, padded(blocks * kCodeBytes<T>) - blocks * kCodeBytes<T>);
  u8* const end = exceptions.write(tile, values, planes);
  memcpy(end, first_residuals, first_bytes);
  memset(end + first_bytes, 0, padded(first_bytes) - first_bytes);
  return size;
}

template <u32 n, u32 prediction, class T, class Q>
bool decode_tile(const Q& q, bool may_be_outlier, const Tile& tile, const u8* payload, u32 payload_bytes, u8* values) {
  using W = Word<T>;
  if (payload_bytes == sizeof(T)) {
    read_constant<W>(payload, tile.count, values);
    return true;
  }
  const u32 blocks = count_blocks<n>(tile);
  const u32 codes_bytes = blocks * kCodeBytes<T>;
  if (payload_bytes % 4 != 0 || payload_bytes < padded(codes_bytes)) return false;
  if (!is_zero(payload + codes_bytes, padded(codes_bytes) - codes_bytes)) return false;

  Code codes[kTileValues / n];
  u32 planes_size = 0, first_bytes = 0;
  for (u32 b = 0; b < blocks; ++b) {
    u32 packed = 0;
    memcpy(&packed, payload + b * kCodeBytes<T>, kCodeBytes<T>);
    if (!unpack_code<T>(packed, may_be_outlier, max_width<T>(prediction != kNoPrediction), codes[b])) return false;
    planes_size += planes_bytes<n>(codes[b]);
    first_bytes += codes[b].first_size;
  }
  const u32 least_bytes = padded(codes_bytes) + planes_size + padded(first_bytes);
  if (payload_bytes < least_bytes) return false;
  const u8* planes = payload + padded(codes_bytes);
  const u8* const section = planes + planes_size;
  const u32 section_bytes = payload_bytes - least_bytes;
  const u8* next_first = section + section_bytes;
  if (!is_zero(next_first + first_bytes, padded(first_bytes) - first_bytes)) return false;

  u8* next = values;
  alignas(64) Plane<n> rows[kBatchBlocks<n>][kMaxRows<max_width<T>(true)>];
  alignas(64) W words[kBatchValues];
  for (u32 first = 0; first < blocks; first += kBatchBlocks<n>) {
    const u32 batch = blocks - first < kBatchBlocks<n> ? blocks - first : kBatchBlocks<n>;
    for (u32 b = 0; b < batch; ++b) {
      const Code code = codes[first + b];
      if (planes_bytes<n>(code) != 0) planes = simd::load_planes<n>(planes, code.width + 1, rows[b]);
    }
    for (u32 b = 0; b < batch; ++b) {
      const Code code = codes[first + b];
      W* const block = words + b * n;
      if (planes_bytes<n>(code) == 0) {
        memset(block, 0, n * sizeof(W));
        continue;
      }
      simd::words_of_rows<n>(rows[b], code.width + 1, block);
      if (code.first_size != 0) {
        W first_residual = 0;
        for (u32 i = 0; i < code.first_size; ++i) first_residual |= static_cast<W>(next_first[i]) << (8 * i);
        next_first += code.first_size;
        block[0] = static_cast<W>(first_residual << 1 | (block[0] & 1));
      }
    }
    for (u32 i = 0; i < batch * n; ++i) words[i] = from_sign_last(words[i]);
    if constexpr (prediction != kNoPrediction) {
      for (u32 b = 0; b < batch; ++b) undo_differences<n, prediction>(words + b * n);
    }
    for (u32 b = 0; b < batch; ++b) {
      const u64 inside = inside_of<n>(tile, first + b);
      const u32 count = inside == first_bits(n) ? n : count_ones(inside);
      if (count != n) gather<n>(inside, words + b * n);
      values_of_bins<n, T>(q, words + b * n, count, next);
      next += count * sizeof(T);
    }
  }
  return section_bytes == 0 || restore_exceptions<T, n>(tile, section, section_bytes, values);
}

template <u32 value>
struct Constant {
  constexpr operator u32() const { return value; }
};

// Calls `run` with the size of a block and its prediction, as constants.
template <class Run>
auto with_blocks(const Mode& mode, Run run) {
  const bool is_fixed = mode.selection == Selection::fixed;
  if (mode.dimensions == 1 && is_fixed) return run(Constant<32>{}, Constant<kNoPrediction>{});
  if (mode.dimensions == 1) return run(Constant<32>{}, Constant<1>{});
  if (is_fixed) return run(Constant<64>{}, Constant<kNoPrediction>{});
  if (mode.dimensions == 2) return run(Constant<64>{}, Constant<2>{});
  return run(Constant<64>{}, Constant<3>{});
}

template <class T>
u32 encode(const Quantizer& quantizer, u32 mode_byte, const Tile& tile, const u8* values, u8* payload) {
  Mode mode;
  if (tile.count == 0 || !unpack_mode(mode_byte, mode)) return kStoreTile;
  return with_quantizer<T>(quantizer, [&](const auto& q) {
    return with_blocks(mode, [&](auto n, auto prediction) {
      return encode_tile<n, prediction, T>(q, mode.selection == Selection::outlier, tile, values, payload);
    });
  });
}

template <class T>
bool decode(const Quantizer& quantizer, u32 mode_byte, const Tile& tile, const u8* payload, u32 payload_bytes,
            u8* values) {
  Mode mode;
  if (!unpack_mode(mode_byte, mode)) return false;
  return with_quantizer<T>(quantizer, [&](const auto& q) {
    return with_blocks(mode, [&](auto n, auto prediction) {
      return decode_tile<n, prediction, T>(q, mode.selection == Selection::outlier, tile, payload, payload_bytes,
                                           values);
    });
  });
}

u32 frame_mode(u32 requested, u32 rank) {
  Mode mode = {Selection::outlier, 1};
  if (requested != 0 && !unpack_mode(requested, mode)) return kNoMode;
  if (mode.dimensions > rank) mode.dimensions = rank == 0 ? 1 : rank;
  return pack_mode(mode);
}

bool blocking(u32 mode_byte, u32, Blocking& blocking) {
  Mode mode;
  if (!unpack_mode(mode_byte, mode)) return false;
  blocking = {kTileValues, {}};
  if (mode.dimensions == 2) blocking = {kTileValues, {1, 8, 8}};
  if (mode.dimensions == 3) blocking = {kTileValues, {4, 4, 4}};
  return true;
}

}  // namespace

extern const Codec cuszp2_codec;
const Codec cuszp2_codec = {
    kPlanesOverrun,  // a block's code and planes always take less than its values
    false,
    frame_mode,
    blocking,
    {pack_mode({Selection::outlier, 1}), pack_mode({Selection::outlier, 2}), pack_mode({Selection::outlier, 3})},
    3,
    {encode<float>, decode<float>},
    {encode<double>, decode<double>},
};

}  // namespace h5lossy::H5L_TARGET

// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// cuSZp2 on a CPU: the loop over the blocks of one tile. Compiled once for each backend.

#include "codecs/cuszp2.h"

#include "codecs/block_tiles.h"
#include "codecs/codec.h"
#include "codecs/simd/block_planes.h"
#include "codecs/simd/block_rows.h"

namespace h5lossy::H5L_TARGET::cuszp2 {
namespace {

using namespace blocks;

// A prediction: none (mode fixed), or along this number of dimensions.
inline constexpr u32 kNoPrediction = 0;

// Differences of a block, signs last; the bins themselves without a prediction.
template <u32 prediction, u32 n, class W>
H5L_INLINE void words_of(const simd::Rows<n, W>& bins, simd::Rows<n, W>& words) {
  if constexpr (prediction == kNoPrediction) {
    simd::signs_last(bins, words);
  } else {
    simd::differences<before<prediction>>(bins, simd::edge_of(W{0}), words);
  }
}

// `prediction` is a constant or a runtime number. For a number, the block size n tells one dimension from more.
template <u32 n, class W, class Prediction>
H5L_INLINE void bins_of(const simd::LoadedPlanes<n, W>& planes, Prediction prediction, bool keep_first, W first,
                        simd::Rows<n, W>& bins) {
  simd::Edge<W> edge = simd::edge_of(first);
  if (prediction == kNoPrediction) {
    planes.differences(true, bins);
  } else if constexpr (n == 32) {
    planes.template bins<before<1>>(keep_first, edge, bins);
  } else if (prediction == 2) {
    planes.template bins<before<2>>(keep_first, edge, bins);
  } else {
    planes.template bins<before<3>>(keep_first, edge, bins);
  }
}

// Planes of a block, from the bits set in any of its words. A word is never 1, which would be a sign without a
// magnitude.
template <class W>
H5L_INLINE u32 planes_of_bits(W any) {
  return width_of<W>(any | 1) - static_cast<u32>(any == 0);
}

// Quantizes a block that is not full or has exceptions: its bins and exceptions, by position.
template <u32 n, class W, class Bins>
[[gnu::noinline]] u64 quantize_run(const Bins& quantizer, const u8* values, u64 inside, simd::Rows<n, W>& bins) {
  const u64 exceptions = quantize_any<n>(quantizer, values, inside, bins);
  const u64 ordinary = inside & ~exceptions;
  const W first = ordinary == 0 ? W{0} : simd::word_at(bins, lowest_bit(ordinary));
  simd::fill_forward(first_bits(n) & ~ordinary, first, bins);
  return exceptions;
}

// A box is a block: bit i of its mask is its i-th position in raster order.
u64 mask_of(u32 dimensions, const Box& box) {
  const auto [w, z, y, x] = box.extents;
  if (dimensions == 2) return first_bits(x) * (first_bits(8 * u32{y}) & 0x0101010101010101u);
  const u64 slice = first_bits(x) * (first_bits(4 * u32{y}) & 0x1111u);
  return slice * (first_bits(16 * u32{z}) & 0x0001000100010001u);
}

// Blocks of 32 values are runs, and boxes inside the chunk are whole: masks are needed only where the chunk ends inside
// a tile.
template <u32 n>
Insides<n> insides_of(u32 dimensions, const Tile& tile, u64 (&masks)[kMaxTileBoxes]) {
  if (n == 32 || tile.count == tile.box_count * n) return Insides<n>(tile.count);
  for (u32 b = 0; b < tile.box_count; ++b) masks[b] = mask_of(dimensions, tile.boxes[b]);
  return {tile.box_count, masks};
}

template <u32 n, u32 prediction, bool may_be_outlier, class T, class Q>
u32 encode_tile(const Q& q, u32 dimensions, const Tile& tile, const u8* values, u8* payload) {
  using W = Word<T>;
  constexpr u32 max_blocks = kTileValues / n;
  u64 masks[kMaxTileBoxes];
  const Insides<n> insides = insides_of<n>(dimensions, tile, masks);
  const u32 blocks = insides.blocks();
  const u32 codes_bytes = blocks * kCodeBytes<T>;
  u8* planes = payload + padded(codes_bytes);
  u8 first_residuals[(max_blocks + 1) * sizeof(W)];
  u8* next_first = first_residuals;
  Exceptions<T, n, max_blocks> exceptions;
  bool is_constant = true;
  W constant = 0;

  const simd::Bins<T, Q> quantizer(q);
  const u8* next = values;
  simd::Rows<n, W> bins[kBatchBlocks<n>], words[kBatchBlocks<n>];
  u64 is_inside[kBatchBlocks<n>];
  for (u32 first = 0; first < blocks; first += kBatchBlocks<n>) {
    const u32 batch = batch_at<n>(first, blocks);
    for_batch<n>(batch, [&](u32 b) {
      const u64 inside = is_inside[b] = insides[first + b];
      if (__builtin_expect(inside == first_bits(n) && quantizer.from_values(next, bins[b]), 1)) {
        next += n * sizeof(T);
      } else {
        simd::Rows<n, W> block;  // not bins[b], whose address would force it out of registers
        const u64 mask = quantize_run<n>(quantizer, next, inside, block);
        bins[b] = block;
        if (mask != 0) exceptions.add(first + b, mask, inside);
        next += count_ones(inside) * sizeof(T);
      }
    });
    if (__builtin_expect(is_constant, 0)) {
      if (first == 0) constant = simd::first_of(bins[0]);
      for (u32 b = 0; b < batch; ++b) is_constant &= simd::all_are(bins[b], constant);
    }

    for_batch<n>(batch, [&](u32 b) { words_of<prediction>(bins[b], words[b]); });
    for_batch<n>(batch, [&](u32 b) {
      if (__builtin_expect(is_inside[b] != first_bits(n), 0)) words[b] = simd::keep(words[b], is_inside[b]);
    });

    for_batch<n>(batch, [&](u32 b) {
      const W first_word = simd::first_of(words[b]);
      const W rest = simd::any_bits_behind_first(words[b]);
      u32 count = planes_of_bits<W>(rest | first_word);
      u32 first_size = 0;
      [[maybe_unused]] W first_mask = ~W{0};  // masks the first word
      if constexpr (may_be_outlier) {         // branch-free, since which one is smaller is unpredictable
        const u32 outlier_count = width_of<W>(rest | 1);
        const u32 size = first_size_of<W>(first_word >> 1);
        const u32 picked = u32{0} - static_cast<u32>(outlier_count * (n / 8) + size < count * (n / 8));
        store(next_first, static_cast<W>(first_word >> 1));
        first_size = size & picked;
        next_first += first_size;
        count ^= (count ^ outlier_count) & picked;
        first_mask = static_cast<W>(~(W{0} - (picked & 1)) | 1);
      }
      if constexpr (may_be_outlier) {
        planes = simd::store_planes_masked<n>(words[b], first_mask, count, planes);
      } else {
        planes = simd::store_planes<n>(words[b], count, planes);
      }
      const u32 packed = pack_code<T>({count - static_cast<u32>(count != 0), first_size});
      memcpy(payload + (first + b) * kCodeBytes<T>, &packed, kCodeBytes<T>);
    });
  }

  if (exceptions.count() == 0 && is_constant) return write_constant<T>(bits_of(q, constant), tile.count, payload);
  if (exceptions.count() == tile.count && all_equal<W>(values, tile.count)) {
    return write_constant<T>(load<W>(values), tile.count, payload);
  }
  const u32 first_bytes = static_cast<u32>(next_first - first_residuals);
  const u32 size = static_cast<u32>(planes - payload) + exceptions.measure(insides, values) + padded(first_bytes);
  if (size >= tile.count * sizeof(T)) return kStoreTile;
  memset(payload + codes_bytes, 0, padded(codes_bytes) - codes_bytes);
  u8* const end = exceptions.write(insides, values, planes);
  memcpy(end, first_residuals, first_bytes);
  memset(end + first_bytes, 0, padded(first_bytes) - first_bytes);
  return size;
}

template <class T>
u32 load_code(const u8* codes, u32 block) {
  if constexpr (kCodeBytes<T> == 1) return codes[block];
  return load<u16>(codes + kCodeBytes<T> * block);
}

// `prediction` and `may_be_outlier` are constants, or a runtime number and bool.
template <u32 n, class T, class Q, class Prediction, class Bool>
bool decode_tile(const Q& q, u32 dimensions, Prediction prediction, Bool may_be_outlier, const Tile& tile,
                 const u8* payload, u32 payload_bytes, u8* values) {
  using W = Word<T>;
  if (payload_bytes == sizeof(T)) {
    read_constant<W>(payload, tile.count, values);
    return true;
  }
  constexpr u32 max_blocks = kTileValues / n;
  u64 masks[kMaxTileBoxes];
  const Insides<n> insides = insides_of<n>(dimensions, tile, masks);
  const u32 blocks = insides.blocks();
  const u32 codes_bytes = blocks * kCodeBytes<T>;
  if (payload_bytes % 4 != 0 || payload_bytes < padded(codes_bytes)) return false;
  if (!is_zero(payload + codes_bytes, padded(codes_bytes) - codes_bytes)) return false;

  bool is_good = true;
  u32 planes_size = 0, first_bytes = 0;
  for (u32 b = 0; b < blocks; ++b) {  // branch-free, so that compilers vectorize it
    Code code;
    is_good &=
        unpack_code<T>(load_code<T>(payload, b), may_be_outlier, max_width<T>(prediction != kNoPrediction), code);
    planes_size += planes_bytes<n>(code);
    first_bytes += code.first_size;
  }
  if (!is_good) return false;
  const u32 least_bytes = padded(codes_bytes) + planes_size + padded(first_bytes);
  if (payload_bytes < least_bytes) return false;
  const u8* planes = payload + padded(codes_bytes);
  const u8* const section = planes + planes_size;
  const u32 section_bytes = payload_bytes - least_bytes;
  const u8* const first_section = section + section_bytes;
  if (!is_zero(first_section + first_bytes, padded(first_bytes) - first_bytes)) return false;
  u8 first_residuals[(max_blocks + 1) * sizeof(W)] = {};  // one more, since whole words are read
  memcpy(first_residuals, first_section, first_bytes);
  const u8* next_first = first_residuals;

  const simd::Bins<T, Q> quantizer(q);
  u8* next = values;
  simd::LoadedPlanes<n, W> loaded[kBatchBlocks<n>];
  simd::Rows<n, W> bins[kBatchBlocks<n>];
  bool is_plain[kBatchBlocks<n>];
  W firsts[kBatchBlocks<n>];
  for (u32 start = 0; start < blocks; start += kBatchBlocks<n>) {
    const u32 batch = batch_at<n>(start, blocks);
    for_batch<n>(batch, [&](u32 b) {
      Code code;
      unpack_code<T>(load_code<T>(payload, start + b), may_be_outlier, max_width<T>(prediction != kNoPrediction), code);
      is_plain[b] = code.first_size == 0;
      const u32 count = is_plain[b] && code.width == 0 ? 0 : code.width + 1;
      firsts[b] = 0;
      if (may_be_outlier) {
        // Zero for a plain block; otherwise the sign is position 0's in the first plane.
        const W magnitude = load<W>(next_first) & static_cast<W>(first_bits(8 * code.first_size));
        const bool is_negative = !is_plain[b] && *planes >> 7 != 0;
        firsts[b] = is_negative ? W{0} - magnitude : magnitude;
        next_first += code.first_size;
      }
      loaded[b].load(planes, count);
      planes += count * (n / 8);
    });
    for_batch<n>(batch, [&](u32 b) { bins_of(loaded[b], prediction, is_plain[b], firsts[b], bins[b]); });
    for_batch<n>(batch, [&](u32 b) {
      const u64 inside = insides[start + b];
      if (__builtin_expect(inside == first_bits(n), 1)) {
        quantizer.to_values(bins[b], next);
        next += n * sizeof(T);
      } else {
        const simd::Rows<n, W> block = bins[b];
        store_inside<n>(quantizer, block, inside, next);
        next += count_ones(inside) * sizeof(T);
      }
    });
  }
  return section_bytes == 0 || restore_exceptions<T, n>(insides, section, section_bytes, values);
}

template <auto value>
struct Constant {
  constexpr operator decltype(value)() const { return value; }
};

// Calls `run` with the block size and prediction as constants.
template <class Run>
auto with_blocks(const Mode& mode, Run run) {
  const bool is_fixed = mode.selection == Selection::fixed;
  if (mode.dimensions == 1 && is_fixed) return run(Constant<32u>{}, Constant<kNoPrediction>{});
  if (mode.dimensions == 1) return run(Constant<32u>{}, Constant<1u>{});
  if (is_fixed) return run(Constant<64u>{}, Constant<kNoPrediction>{});
  if (mode.dimensions == 2) return run(Constant<64u>{}, Constant<2u>{});
  return run(Constant<64u>{}, Constant<3u>{});
}

template <class T>
u32 encode(const Quantizer& quantizer, u32 mode_byte, const Tile& tile, const u8* values, u8* payload, u8*) {
  Mode mode;
  if (tile.count == 0 || !unpack_mode(mode_byte, mode)) return kStoreTile;
  return with_quantizer<T>(quantizer, [&](const auto& q) {
    return with_blocks(mode, [&](auto n, auto prediction) {
      if constexpr (prediction != kNoPrediction) {
        if (mode.selection == Selection::outlier) {
          return encode_tile<n, prediction, true, T>(q, mode.dimensions, tile, values, payload);
        }
      }
      return encode_tile<n, prediction, false, T>(q, mode.dimensions, tile, values, payload);
    });
  });
}

template <class T>
bool decode(const Quantizer& quantizer, u32 mode_byte, const Tile& tile, const u8* payload, u32 payload_bytes,
            u8* values, u8*) {
  Mode mode;
  if (!unpack_mode(mode_byte, mode)) return false;
  return with_quantizer<T>(quantizer, [&](const auto& q) {
    const bool may_be_outlier = mode.selection == Selection::outlier;
    if constexpr (!kEncodes) {  // one loop for all cases has a quarter of the code size
      const u32 prediction = mode.selection == Selection::fixed ? kNoPrediction : mode.dimensions;
      return mode.dimensions == 1
                 ? decode_tile<32, T>(q, 1, prediction, may_be_outlier, tile, payload, payload_bytes, values)
                 : decode_tile<64, T>(q, mode.dimensions, prediction, may_be_outlier, tile, payload, payload_bytes,
                                      values);
    }
    return with_blocks(mode, [&](auto n, auto prediction) {
      const auto run = [&](auto is_outlier) {
        return decode_tile<n, T>(q, mode.dimensions, prediction, is_outlier, tile, payload, payload_bytes, values);
      };
      if constexpr (prediction != kNoPrediction) {
        if (may_be_outlier) return run(Constant<true>{});
      }
      return run(Constant<false>{});
    });
  });
}

bool has_mode(u32 requested) {
  Mode mode;
  return requested == 0 || unpack_mode(requested, mode);
}

u32 choose_mode(const Chunk& chunk, u32 requested, u8*) {
  Mode mode = {Selection::outlier, 1};
  if (requested != 0) unpack_mode(requested, mode);
  if (mode.dimensions > chunk.rank) mode.dimensions = chunk.rank;
  return pack_mode(mode);
}

u32 header_dims(u32 mode_byte) {
  Mode mode;
  if (!unpack_mode(mode_byte, mode)) return kNoMode;
  return mode.dimensions == 1 ? 0 : 3;
}

TileLayout layout(u32 mode_byte, u32, const u32 (&)[kAxes]) {
  Mode mode;
  unpack_mode(mode_byte, mode);
  if (mode.dimensions == 1) return {.box = {1, 1, 1, kTileValues}, .kernel_suffix = "_1d"};
  if (mode.dimensions == 2) return {.box = {1, 1, 8, 8}, .boxes = kTileBoxes, .kernel_suffix = "_2d"};
  return {.box = {1, 4, 4, 4}, .boxes = kTileBoxes, .kernel_suffix = "_3d"};
}

}  // namespace

extern const Codec codec;
const Codec codec = {
    .spare_bytes = simd::kPlanesOverrun,  // a block's code and planes never exceed its values
    .has_mode = has_mode,
    .choose_mode = H5L_ENCODER(choose_mode),
    .header_dims = header_dims,
    .layout = layout,
    .auto_modes = {pack_mode({Selection::outlier, 1}), pack_mode({Selection::outlier, 2}),
                   pack_mode({Selection::outlier, 3})},
    .auto_mode_count = 3,
    .float32 = {0, H5L_ENCODER(encode<float>), decode<float>},
    .float64 = {0, H5L_ENCODER(encode<double>), decode<double>},
};

}  // namespace h5lossy::H5L_TARGET::cuszp2

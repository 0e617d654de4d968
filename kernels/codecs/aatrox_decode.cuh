// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// AATROX's decoder: a thread block per part of a tile, a warp per iteration layer, a thread per block of 32 values.
// Each thread block reads all codes of its tile. Each warp publishes the sum of its layer's differences, which follows
// from population counts of the planes, before they are transposed. Thread blocks may start in any order, so a warp
// that has waited for an earlier layer's sum too long computes it itself.
#pragma once

#include "kernels/codecs/aatrox_parts.cuh"
#include "kernels/common/block_reading.cuh"

namespace h5lossy::H5L_TARGET::aatrox {

// Blocks of a tile per thread: a run of consecutive ones.
inline constexpr u32 kRunBlocks = kMaxBlocks / kThreads;
inline constexpr u32 kLayerRuns = kLayerBlocks / kRunBlocks;
static_assert(kRunBlocks % 4 == 0);

inline constexpr u32 kTileLayers = kTileParts * kPartLayers;
static_assert(kTileLayers == kWarpThreads && kLayerBlocks == kWarpThreads);

template <class T>
struct alignas(16) DecodeShared {
  u8 rows[kPartValues * sizeof(T)];
  u32 layers[kTileLayers];  // planes before each layer, counted from the first of its group of eight
  u32 bits[kThreads];       // exception bits before each run
  u32 masks[kGroupBlocks];  // masks before each group
  Quad totals;              // planes of eight layers each
  u32 more_totals[kWarps];
};

template <class T, class Q>
class Decoder {
  using W = Word<T>;
  using Shared = DecodeShared<T>;
  static constexpr u32 kValueWords = sizeof(T) / 4;

 public:
  H5L_DEVICE Decoder(const DecodePlan& plan, const DecodeJob& job, Shared& shared)
      : plan_(plan), job_(job), shared_(shared) {}

  H5L_DEVICE void decode(u32 tile, u32 part, const TileSpan& span) {
    const u32 left = plan_.shape.count - tile * kTileValues;
    count_ = left < kTileValues ? left : kTileValues;
    blocks_ = (count_ + kBlockValues - 1) / kBlockValues;
    part_ = part;
    const u32 first = part * kPartValues;
    if (first >= count_) return;
    const u32 part_count = count_ - first < kPartValues ? count_ - first : kPartValues;
    const u32 raw_bytes = count_ * static_cast<u32>(sizeof(T));
    if (!span.is_valid || span.bytes > raw_bytes || span.begin % 4 != 0 || span.bytes % 4 != 0)
      return report_corrupt(plan_);
    payload_ = reinterpret_cast<const u32*>(payloads_of(plan_, job_) + span.begin);
    prefetch_share(payloads_of(plan_, job_) + span.begin, span.bytes, part, kTileParts);
    words_ = span.bytes / 4;
    section_words_ = 0;
    PayloadSum sum(plan_, job_, tile);

    W bits[kThreadValues];
    if (span.bytes == raw_bytes) {
      sum.add_words(payload_, kValueWords * first, kValueWords * (first + part_count));
      sum.finish();
      return copy_values<W>(plan_, u64{tile} * kTileValues + first, part_count,
                            [&](u32 i) { return load_constant(payload_ + kValueWords * first + i); });
    } else if (span.bytes == 0 || span.bytes == sizeof(T)) {
      if (part == 0) sum.add_words(payload_, 0, words_);
      sum.finish();
      const W constant = span.bytes == 0 ? W{0} : value_at<W>(payload_);
      H5L_UNROLL for (u32 i = 0; i < kThreadValues; ++i) bits[i] = constant;
    } else {
      if (!read_codes()) return report_corrupt(plan_);
      const Q q = quantizer_of<T, Q>(job_);
      W bins[kThreadValues];
      // Sums published by the tile's warps.
      u64* const published =
          plan_.published + (u64{block_row()} * plan_.tiles + (tile - job_.tiles.first)) * kTileLayers * kValueWords;
      read_bins(sum, bins, published);
      H5L_UNROLL for (u32 i = 0; i < kThreadValues; ++i) bits[i] = bits_of_bin(q, bins[i]);
    }
    store_row<kRowBytes<T>>(shared_.rows, bits);
    if (section_words_ != 0 && any_in_block(!restore_exceptions())) return report_corrupt(plan_);
    finish_values<kRowBytes<T>, W>(plan_, shared_.rows, u64{tile} * kTileValues + first, part_count);
  }

 private:
  // Byte offset of a layer's codes; 0 if the layer has none.
  [[nodiscard]] H5L_DEVICE u32 codes_at(u32 layer) const {
    return (layers_ >> layer & 1) == 0 ? 0 : 4 + kLayerBlocks * ones(layers_ & ((u32{1} << layer) - 1));
  }

  H5L_DEVICE static bool are_widths(u32 codes) {
    constexpr u32 to_sign = (0x7F - kMaxWidth<T>)*0x01010101u;
    return ((codes | (codes + to_sign)) & 0x80808080u) == 0;
  }
  // Total planes of four blocks: width + 1 for each nonzero width.
  H5L_DEVICE static u32 planes_of(u32 codes) {
    return (codes * 0x01010101u >> 24) + ones((codes + 0x7F7F7F7Fu) & 0x80808080u);
  }

  // The codes that a thread reads: those of its run, four per word, and that of its own block. They are 0 for blocks
  // without a code and past the end.
  struct Codes {
    u32 at;  // the word of the first code; 0: none
    u32 words[kRunBlocks / 4];
    u32 own;
  };
  [[nodiscard]] H5L_DEVICE Codes load_codes() const {
    Codes codes = {};
    const u32 of_layer = codes_at(thread() / kLayerRuns);
    if (of_layer != 0) codes.at = of_layer / 4 + thread() % kLayerRuns * (kRunBlocks / 4);
    H5L_UNROLL for (u32 i = 0; i < kRunBlocks / 4; ++i) {
      if (has_codes(codes, i)) codes.words[i] = load_constant(payload_ + codes.at + i);
    }
    codes.own = code_of_lane(part_ * kPartLayers + warp());
    return codes;
  }
  [[nodiscard]] H5L_DEVICE bool has_codes(const Codes& codes, u32 i) const {
    return codes.at != 0 && thread() * kRunBlocks + 4 * i < blocks_ && codes.at + i < words_;
  }
  [[nodiscard]] H5L_DEVICE u32 code_of_lane(u32 layer) const {
    const u32 at = codes_at(layer);
    if (at == 0 || layer * kLayerBlocks + lane() >= blocks_ || at + lane() >= 4 * words_) return 0;
    return load_constant(reinterpret_cast<const u8*>(payload_) + at + lane());
  }

  // False, in all threads, if the codes are inconsistent with each other or with the payload's size.
  H5L_DEVICE bool read_codes() {
    // Nearly all layers have codes: load them before the layer mask has arrived.
    layers_ = ~u32{0};
    codes_ = load_codes();
    const u32 layers = load_constant(payload_);
    if (layers != layers_) {
      layers_ = layers;
      codes_ = load_codes();
    }
    const u32 layers_there = (blocks_ + kLayerBlocks - 1) / kLayerBlocks;
    if (layers_there < 32 && layers_ >> layers_there != 0) return false;
    u32 codes_bytes = 4 + kLayerBlocks * ones(layers_);
    if ((layers_ >> (layers_there - 1) & 1) != 0) codes_bytes -= kLayerBlocks - layer_blocks(blocks_, layers_there - 1);
    const u32 codes_words = padded(codes_bytes) / 4;
    if (words_ < codes_words + kValueWords) return false;
    planes_begin_ = codes_words + kValueWords;
    initial_ = value_at<W>(payload_ + codes_words);

    bool is_fine = true;
    u32 planes = 0, any = codes_.at == 0 ? 1 : 0;
    H5L_UNROLL for (u32 i = 0; i < kRunBlocks / 4; ++i) {
      is_fine = is_fine && are_widths(codes_.words[i]);
      planes += planes_of(codes_.words[i]);
      any |= codes_.words[i];
    }
    for (u32 by = 1; by < kLayerRuns; by *= 2) any |= shuffle_xor(any, by);
    is_fine = is_fine && any != 0;
    if (!is_fine) planes = 0;
    const u32 with_own = scan_of_warp(planes);
    if (thread() % kLayerRuns == 0) shared_.layers[thread() / kLayerRuns] = with_own - planes;
    if (lane() == kWarpThreads - 1) reinterpret_cast<u32*>(&shared_.totals)[warp()] = with_own;
    planes_ = planes_of_code(codes_.own);
    planes_at_ = scan_of_warp(planes_) - planes_;
    const bool any_wrong = any_in_block(!is_fine);
    planes_at_ += layer_at(part_ * kPartLayers + warp());
    section_at_ = planes_begin_ + planes_before(kWarps);
    if (any_wrong || words_ < section_at_) return false;
    section_words_ = words_ - section_at_;
    // Padding after the codes must be 0, like codes of blocks without planes.
    return codes_bytes % 4 == 0 || load_constant(payload_ + codes_words - 1) >> (8 * (codes_bytes % 4)) == 0;
  }

  // The part's share of the checksum, except planes: the codes of its layers, a share of the exceptions, and, for the
  // first part, everything before and after the codes.
  H5L_DEVICE void add_others(PayloadSum& sum) const {
    if (!sum.is_enabled()) return;
    if (thread() / (kThreads / kTileParts) == part_) {
      H5L_UNROLL for (u32 i = 0; i < kRunBlocks / 4; ++i) sum.add(codes_.words[i], codes_.at + i, has_codes(codes_, i));
    }
    if (part_ == 0 && thread() <= kValueWords) {
      const u32 number = thread() == 0 ? 0 : planes_begin_ - thread();
      sum.add(load_constant(payload_ + number), number);
    }
    const u32 parts = (count_ + kPartValues - 1) / kPartValues;
    sum.add_words(payload_, section_at_, words_, part_ * kThreads + thread(), parts * kThreads);
  }

  // Planes of the first `warps` groups of eight layers.
  [[nodiscard]] H5L_DEVICE u32 planes_before(u32 warps) const {
    const Quad totals = shared_.totals;
    return (warps > 0 ? totals.x : 0) + (warps > 1 ? totals.y : 0) + (warps > 2 ? totals.z : 0) +
           (warps > 3 ? totals.w : 0);
  }

  // The word at which a layer's planes begin.
  [[nodiscard]] H5L_DEVICE u32 layer_at(u32 layer) const {
    return planes_begin_ + planes_before(layer * kLayerRuns / kWarpThreads) + shared_.layers[layer];
  }
  H5L_DEVICE static u32 planes_of_code(u32 width) { return width == 0 ? 0 : width + 1; }

  // The sum of another layer's differences, if its warp has not published it in time. A plane contributes its
  // population count times its weight; negative differences are subtracted.
  H5L_DEVICE W sum_of_layer(u32 layer) const {
    const u32 planes = planes_of_code(code_of_lane(layer)), at = layer_at(layer) + scan_of_warp(planes) - planes;
    const u32 signs = planes == 0 ? 0 : load_constant(payload_ + at);
    W sum = 0;
    H5L_NO_UNROLL for (u32 j = 1; j < planes; ++j) {
      const u32 plane = load_constant(payload_ + at + j);
      sum += (static_cast<W>(ones(plane)) - static_cast<W>(2 * ones(plane & signs))) << (j - 1);
    }
    return sum_of_warp(sum);
  }

  // The sum of the differences of all layers before `layer`. `published` are the tile's; 0 is not published yet.
  H5L_DEVICE W sum_before(u32 layer, const u64* published) const {
    W sum = 0;
    bool is_published = lane() >= layer;
    H5L_NO_UNROLL for (u32 i = 0; i < kMaxPolls && !is_published; ++i) {
      if (i != 0) wait_a_little();
      sum = 0;
      is_published = true;
      H5L_UNROLL for (u32 w = 0; w < kValueWords; ++w) {
        const u64 word = load_relaxed(published + lane() * kValueWords + w);
        is_published = is_published && (word & kPublished) != 0;
        sum |= static_cast<W>(static_cast<u32>(word)) << (kValueWords == 1 ? 0 : 32 * w);
      }
    }
    if (!is_published) sum = 0;
    sum = sum_of_warp(sum);
    for (u32 missing = ballot(!is_published); missing != 0; missing &= missing - 1) {
      sum += sum_of_layer(lowest_one(missing));
    }
    return sum;
  }

  H5L_DEVICE void read_bins(PayloadSum& sum, W (&bins)[kThreadValues], u64* published) {
    const u32 layer = part_ * kPartLayers + warp();
    W carry = initial_, own = 0;
    load_differences<kMaxWidth<T> + 1>(
        [&](u32 i) { return load_constant(payload_ + planes_at_ + i); }, planes_,
        [&](const EightPlanes& eight) {
          H5L_UNROLL for (u32 c = 0; c < 8; ++c) own += W{ones(eight.restored[c])} << (eight.first - 1 + c);
          if (eight.are_last) {
            own -= W{ones(eight.above)} << (eight.first + 7);
            const W total = sum_of_warp(own);
            if (lane() < kValueWords)
              store_relaxed(published + layer * kValueWords + lane(),
                            kPublished | static_cast<u32>(total >> (32 * lane())));
            carry += scan_of_warp(own) - own;
          }
          add_planes(sum, eight, planes_, planes_at_, 1);  // overlaps with the other warps' publishing
        },
        bins);
    add_others(sum);
    sum.finish();
    if (layer != 0) carry += sum_before(layer, published);
    bins[0] += carry;
    H5L_UNROLL for (u32 i = 1; i < kThreadValues; ++i) bins[i] += bins[i - 1];
  }

  [[nodiscard]] H5L_DEVICE u32 inside_of_block(u32 block) const {
    const u32 left = count_ - block * kBlockValues;
    return static_cast<u32>(first_bits(left < kBlockValues ? left : kBlockValues));
  }

  // A group's part of the section of exceptions.
  struct Group {
    u32 present, full, uniform;
  };
  [[nodiscard]] H5L_DEVICE Group group(const u32* section, u32 groups, u32 number) const {
    if ((groups >> number & 1) == 0) return {0, 0, 0};
    const u32* const words = section + 1 + kValueWords + 3 * ones(groups & ((u32{1} << number) - 1));
    return {load_constant(words), load_constant(words + 1), load_constant(words + 2)};
  }

  // Writes the part's exceptions into the rows. False if the section is inconsistent with itself or with the tile.
  H5L_DEVICE bool restore_exceptions() {
    constexpr u32 head = 1 + kValueWords;
    const u32* const section = payload_ + section_at_;
    if (section_words_ < head) return false;
    const u32 groups = load_constant(section);
    const u32 all_groups = (blocks_ + kGroupBlocks - 1) / kGroupBlocks;
    if (groups == 0 || (all_groups < 32 && groups >> all_groups != 0)) return false;
    const W common = value_at<W>(section + 1);
    if (section_words_ - head < 3 * ones(groups)) return false;
    const u32 masks_at = head + 3 * ones(groups);

    const Group own = group(section, groups, lane());  // of the lane's group
    const bool is_set = (groups >> lane() & 1) != 0;
    const u32 in_group = blocks_ - lane() * kGroupBlocks;
    bool is_fine = !is_set || (own.present != 0 && ((own.full | own.uniform) & ~own.present) == 0 &&
                               (in_group >= kGroupBlocks || own.present >> in_group == 0));
    const u32 masks = ones(own.present & ~own.full);
    const u32 masks_with = scan_of_warp(masks);
    const u32 all_masks = shuffle(masks_with, 31);
    if (warp() == 0) shared_.masks[lane()] = masks_with - masks;
    if (any_in_block(!is_fine) || section_words_ < masks_at + all_masks) return false;

    // Exception bits of each run.
    const u32 run_group = thread() / kLayerRuns;
    const Group of_run = group(section, groups, run_group);
    u32 bits = 0;
    H5L_NO_UNROLL for (u32 i = 0; i < kRunBlocks; ++i) {
      const u32 block = thread() * kRunBlocks + i;
      if (block >= blocks_) break;
      const u32 mask = mask_of(section + masks_at, of_run, run_group, block, is_fine);
      if ((of_run.uniform >> (block % kGroupBlocks) & 1) == 0) bits += ones(mask);
    }
    u32 total = 0;
    shared_.bits[thread()] = scan_of_block(bits, shared_.more_totals, total);
    const u32 bits_at = masks_at + all_masks;
    if (any_in_block(!is_fine) || bits_at + kValueWords * total != section_words_) return false;

    const u32 block = part_ * kThreads + thread();
    if (block >= blocks_) return true;
    const u32 number = block / kGroupBlocks, run = block / kRunBlocks;
    const Group of_block = group(section, groups, number);
    u32 next = bits_at + kValueWords * shared_.bits[run];
    for (u32 b = run * kRunBlocks; b < block; ++b) {
      if ((of_block.uniform >> (b % kGroupBlocks) & 1) == 0) {
        next += kValueWords * ones(mask_of(section + masks_at, of_block, number, b, is_fine));
      }
    }
    const bool is_uniform = (of_block.uniform >> (block % kGroupBlocks) & 1) != 0;
    u32 mask = mask_of(section + masks_at, of_block, number, block, is_fine);
    if (is_uniform) {
      constexpr u32 at_once = kPieceBytes / sizeof(T);
      H5L_NO_UNROLL for (u32 piece = 0; mask != 0; ++piece, mask >>= at_once) {
        W words[at_once];
        load_piece<kRowBytes<T>>(shared_.rows, piece, words);
        H5L_UNROLL for (u32 k = 0; k < at_once; ++k) words[k] = (mask >> k & 1) != 0 ? common : words[k];
        store_piece<kRowBytes<T>>(shared_.rows, piece, words);
      }
      return true;
    }
    for (; mask != 0; mask &= mask - 1, next += kValueWords) {
      *value_in_rows<kRowBytes<T>, W>(shared_.rows, thread(), lowest_one(mask)) = value_at<W>(section + next);
    }
    return true;
  }

  // Mask of a block's exceptions; clears `is_fine` if no encoder would write this mask.
  H5L_DEVICE u32 mask_of(const u32* masks, const Group& of_block, u32 number, u32 block, bool& is_fine) const {
    const u32 bit = block % kGroupBlocks;
    if ((of_block.present >> bit & 1) == 0) return 0;
    const u32 inside = inside_of_block(block);
    if ((of_block.full >> bit & 1) != 0) return inside;
    const u32 mask =
        load_constant(masks + shared_.masks[number] + ones(of_block.present & ~of_block.full & ((u32{1} << bit) - 1)));
    is_fine = is_fine && mask != 0 && (mask & ~inside) == 0 && mask != inside;
    return mask;
  }

  const DecodePlan& plan_;
  const DecodeJob& job_;
  Shared& shared_;
  const u32* payload_ = nullptr;
  u32 words_ = 0;
  u32 count_ = 0, blocks_ = 0, part_ = 0;
  u32 layers_ = 0, planes_begin_ = 0;
  Codes codes_ = {};
  u32 planes_ = 0, planes_at_ = 0;  // of the thread's block
  W initial_ = 0;
  u32 section_at_ = 0, section_words_ = 0;
};

template <class T, class Q>
H5L_DEVICE void decode(const DecodePlan& plan) {
  auto& shared = *reinterpret_cast<DecodeShared<T>*>(shared_memory());
  const DecodeJob job = plan.jobs[block_row()];
  for_own_items<kTileParts, false>(plan, job, kTileValues * sizeof(T), [&](u32 tile, u32 part, const TileSpan& span) {
    Decoder<T, Q>(plan, job, shared).decode(tile, part, span);
  });
}

}  // namespace h5lossy::H5L_TARGET::aatrox

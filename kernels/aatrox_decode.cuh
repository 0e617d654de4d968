// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// AATROX's decoder: a thread block for a part of a tile, a thread for a block of 32 values. Each part reads all codes of its
// tile, and tells the later ones what its differences add up to. Thread blocks may start in any order, so nobody relies on
// being told: after a while a part adds up the differences before it by itself, from their planes, which counting ones does
// without transposing them.
#pragma once

#include "aatrox_parts.cuh"
#include "block_reading.cuh"

namespace h5lossy::H5L_TARGET::aatrox {

// All blocks of a tile, a run of consecutive ones for each thread.
inline constexpr u32 kRunBlocks = kMaxBlocks / kThreads;
inline constexpr u32 kLayerRuns = kLayerBlocks / kRunBlocks;
static_assert(kRunBlocks % 4 == 0);

// What every part needs of a tile's payload: its codes.
inline constexpr u32 kHeadBytes = 4 + kMaxBlocks + 12;

template <class T>
struct alignas(16) DecodeShared {
  u8 rows[kPartValues * sizeof(T)];
  PayloadShared<kHeadBytes> payloads;
  u32 runs[kThreads];       // planes before each run
  u32 bits[kThreads];       // bits of exceptions before each run
  u32 masks[kGroupBlocks];  // masks before each group
  u32 totals[kWarps];
  u32 more_totals[kWarps];
  u64 sums[kWarps];
};

template <class T, class Q>
class Decoder {
  using W = Word<T>;
  using Shared = DecodeShared<T>;
  static constexpr u32 kValueWords = sizeof(T) / 4;

 public:
  H5L_DEVICE Decoder(const DecodePlan& plan, Shared& shared)
      : plan_(plan), job_(shared.payloads.job), shared_(shared) {}

  // `head` is the beginning of the tile's payload, whose place in the frame is `span`; `told` is where the tile's parts tell
  // their sums.
  H5L_DEVICE void decode(u32 tile, u32 part, const TileSpan& span, const u8* head, u64* told) {
    const u32 left = job_.shape.count - tile * kTileValues;
    count_ = left < kTileValues ? left : kTileValues;
    blocks_ = (count_ + kBlockValues - 1) / kBlockValues;
    part_ = part;
    const u32 first = part * kPartValues;
    if (first >= count_) return;
    const u32 part_count = count_ - first < kPartValues ? count_ - first : kPartValues;
    const u32 raw_bytes = count_ * static_cast<u32>(sizeof(T));
    if (!span.is_sane || span.bytes > raw_bytes || span.begin % 4 != 0 || span.bytes % 4 != 0)
      return report_corrupt(plan_);
    payload_ = reinterpret_cast<const u32*>(job_.payload + span.begin);
    head_ = reinterpret_cast<const u32*>(head);
    words_ = span.bytes / 4;
    section_words_ = 0;

    W bits[kThreadValues];
    if (span.bytes == raw_bytes) {
      sum_share(tile);
      H5L_UNROLL for (u32 i = 0; i < kThreadValues; ++i) {
        const u32 number = first + thread() * kThreadValues + i;
        bits[i] = number < count_ ? value_of_payload(kValueWords * number) : 0;
      }
    } else if (span.bytes == 0 || span.bytes == sizeof(T)) {
      sum_share(tile);
      const W constant = span.bytes == 0 ? W{0} : value_of_payload(0);
      H5L_UNROLL for (u32 i = 0; i < kThreadValues; ++i) bits[i] = constant;
    } else {
      if (any_in_block(!read_codes())) return report_corrupt(plan_);
      const Q q = quantizer_as<T, Q>(job_.quantizer);
      W bins[kThreadValues];
      read_bins(tile, bins, told);
      H5L_UNROLL for (u32 i = 0; i < kThreadValues; ++i) bits[i] = bits_of_bin(q, bins[i]);
    }
    store_row<kRowBytes<T>>(shared_.rows, bits);
    if (section_words_ != 0 && any_in_block(!restore_exceptions())) return report_corrupt(plan_);
    finish_values<kRowBytes<T>, W>(job_, shared_.rows, u64{tile} * kTileValues + first, part_count);
  }

 private:
  // The part's share of the payload's checksum.
  H5L_DEVICE void sum_share(u32 tile) const {
    const u32 parts = (count_ + kPartValues - 1) / kPartValues;
    const u32 share = (words_ + parts - 1) / parts, share_at = part_ * share;
    sum_payload<4>(plan_, job_, tile, share_at, share_at + share < words_ ? share_at + share : words_,
                   [&](u32 i) { return load_constant(payload_ + i); });
  }

  [[nodiscard]] H5L_DEVICE W value_of_payload(u32 word) const {
    if constexpr (sizeof(T) == 4) {
      return load_constant(payload_ + word);
    } else {
      return load_constant(payload_ + word) | static_cast<W>(load_constant(payload_ + word + 1)) << 32;
    }
  }

  // Where the codes of a run stand, a multiple of 4; 0: its layer has none.
  [[nodiscard]] H5L_DEVICE u32 codes_at(u32 run) const {
    const u32 layer = run / kLayerRuns;
    if (run * kRunBlocks >= blocks_ || (layers_ >> layer & 1) == 0) return 0;
    return 4 + kLayerBlocks * ones(layers_ & ((u32{1} << layer) - 1)) + run % kLayerRuns * kRunBlocks;
  }

  // Codes are taken four at once, as the bytes of a word.
  struct Codes {
    u32 words[kRunBlocks / 4];
  };
  // Those of a run; 0 for blocks that have none, or are not there.
  [[nodiscard]] H5L_DEVICE Codes codes_of_run(u32 run) const {
    Codes codes = {};
    const u32 at = codes_at(run);
    H5L_UNROLL for (u32 i = 0; i < kRunBlocks / 4; ++i) {
      if (at != 0 && run * kRunBlocks + 4 * i < blocks_) codes.words[i] = head_[at / 4 + i];
    }
    return codes;
  }
  H5L_DEVICE static bool are_widths(u32 codes) {
    constexpr u32 to_sign = (0x7F - kMaxWidth<T>)*0x01010101u;
    return ((codes | (codes + to_sign)) & 0x80808080u) == 0;
  }
  // The planes of four blocks: one more than a width that is not 0.
  H5L_DEVICE static u32 planes_of(u32 codes) {
    return (codes * 0x01010101u >> 24) + ones((codes + 0x7F7F7F7Fu) & 0x80808080u);
  }

  // False: they contradict themselves or the payload's size.
  H5L_DEVICE bool read_codes() {
    const u32 layers_there = (blocks_ + kLayerBlocks - 1) / kLayerBlocks;
    layers_ = head_[0];
    if (layers_there < 32 && layers_ >> layers_there != 0) return false;
    u32 codes_bytes = 4 + kLayerBlocks * ones(layers_);
    if ((layers_ >> (layers_there - 1) & 1) != 0) codes_bytes -= kLayerBlocks - layer_blocks(blocks_, layers_there - 1);
    const u32 codes_words = padded(codes_bytes) / 4;
    if (words_ < codes_words + kValueWords) return false;
    // What pads the codes must be 0, as the codes of blocks would be.
    bool is_fine = true;
    if (thread() < padded(codes_bytes) - codes_bytes) {
      is_fine = reinterpret_cast<const u8*>(head_)[codes_bytes + thread()] == 0;
    }
    const Codes codes = codes_of_run(thread());
    u32 planes = 0, any = codes_at(thread()) == 0 ? 1 : 0;
    H5L_UNROLL for (u32 i = 0; i < kRunBlocks / 4; ++i) {
      is_fine = is_fine && are_widths(codes.words[i]);
      planes += planes_of(codes.words[i]);
      any |= codes.words[i];
    }
    for (u32 by = 1; by < kLayerRuns; by *= 2) any |= shuffle_xor(any, by);
    is_fine = is_fine && any != 0;
    u32 total = 0;
    shared_.runs[thread()] = scan_of_block(is_fine ? planes : 0, shared_.totals, total);
    planes_begin_ = codes_words + kValueWords;
    if (any_in_block(!is_fine) || words_ < planes_begin_ + total) return false;
    section_at_ = planes_begin_ + total;
    section_words_ = words_ - section_at_;
    return true;
  }

  // Planes of a block, and where they begin.
  H5L_DEVICE u32 find_planes(u32 block, u32& at) const {
    const u32 run = block / kRunBlocks;
    const Codes codes = codes_of_run(run);
    at = planes_begin_ + shared_.runs[run];
    u32 width = 0;
    H5L_UNROLL for (u32 i = 0; i < kRunBlocks / 4; ++i) {
      const u32 number = block % kRunBlocks - 4 * i;  // among these four, or behind them; above all where it is before
      const u32 before = static_cast<i32>(number) <= 0 ? 0 : number >= 4 ? ~0u : (u32{1} << (8 * number)) - 1;
      at += planes_of(codes.words[i] & before);
      if (number < 4) width = codes.words[i] >> (8 * number) & 0xFF;
    }
    return width == 0 ? 0 : width + 1;
  }

  // The sum of a part's differences, where it has told nothing, by one warp. Each plane counts as often as it has ones, those
  // of negative differences against it.
  H5L_DEVICE W count_differences(u32 part) const {
    W sum = 0;
    H5L_NO_UNROLL for (u32 b = lane(); b < kThreads; b += kWarpThreads) {
      u32 at = 0;
      const u32 planes = find_planes(part * kThreads + b, at);
      const u32 signs = planes == 0 ? 0 : load_constant(payload_ + at);
      H5L_NO_UNROLL for (u32 j = 1; j < planes; ++j) {
        const u32 plane = load_constant(payload_ + at + j);
        sum += (static_cast<W>(ones(plane)) - static_cast<W>(2 * ones(plane & signs))) << (j - 1);
      }
    }
    return sum_of_warp(sum);
  }

  // What the differences of the parts before this one add up to. `told` is for the tile's parts, 0 where nothing was told.
  H5L_DEVICE W sum_before(const u64* told) const {
    W sum = 0;
    bool is_told = lane() >= part_;
    H5L_NO_UNROLL for (u32 i = 0; i < kPatience && !is_told; ++i) {
      if (i != 0) wait_a_little();
      sum = 0;
      is_told = true;
      H5L_UNROLL for (u32 w = 0; w < kValueWords; ++w) {
        const u64 word = load_relaxed(told + lane() * kValueWords + w);
        is_told = is_told && (word & kPublished) != 0;
        sum |= static_cast<W>(static_cast<u32>(word)) << (kValueWords == 1 ? 0 : 32 * w);
      }
    }
    if (!is_told) sum = 0;
    sum = sum_of_warp(sum);
    for (u32 missing = ballot(!is_told); missing != 0; missing &= missing - 1)
      sum += count_differences(lowest_one(missing));
    return sum;
  }

  H5L_DEVICE void read_bins(u32 tile, W (&bins)[kThreadValues], u64* told) {
    u32 at = 0;
    const u32 planes = find_planes(part_ * kThreads + thread(), at);
    load_differences<kMaxWidth<T> + 1>([&](u32 i) { return load_constant(payload_ + at + i); }, planes, bins);
    H5L_UNROLL for (u32 i = 1; i < kThreadValues; ++i) bins[i] += bins[i - 1];
    W total = 0;
    W carry = scan_of_block(bins[kThreadValues - 1], reinterpret_cast<W*>(shared_.sums), total);
    if (thread() < kValueWords) {
      store_relaxed(told + part_ * kValueWords + thread(), kPublished | static_cast<u32>(total >> (32 * thread())));
    }
    carry += head_[planes_begin_ - kValueWords];
    if constexpr (sizeof(T) == 8) carry += static_cast<W>(head_[planes_begin_ - 1]) << 32;
    sum_share(tile);  // while others tell their sums
    if (part_ != 0) carry += sum_before(told);
    H5L_UNROLL for (u32 i = 0; i < kThreadValues; ++i) bins[i] += carry;
  }

  [[nodiscard]] H5L_DEVICE u32 inside_of_block(u32 block) const {
    const u32 left = count_ - block * kBlockValues;
    return static_cast<u32>(first_bits(left < kBlockValues ? left : kBlockValues));
  }

  // What the section says of one group.
  struct Group {
    u32 present, full, uniform;
  };
  [[nodiscard]] H5L_DEVICE Group group(const u32* section, u32 groups, u32 number) const {
    if ((groups >> number & 1) == 0) return {0, 0, 0};
    const u32* const words = section + 1 + kValueWords + 3 * ones(groups & ((u32{1} << number) - 1));
    return {words[0], words[1], words[2]};
  }

  // Puts the exceptions of the part into the rows. False: the section contradicts itself or the tile.
  H5L_DEVICE bool restore_exceptions() {
    constexpr u32 head = 1 + kValueWords;
    const u32* const section = payload_ + section_at_;
    if (section_words_ < head) return false;
    const u32 groups = section[0];
    const u32 all_groups = (blocks_ + kGroupBlocks - 1) / kGroupBlocks;
    if (groups == 0 || (all_groups < 32 && groups >> all_groups != 0)) return false;
    W common = section[1];
    if constexpr (sizeof(T) == 8) common |= static_cast<W>(section[2]) << 32;
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

    // Bits of the exceptions of each run.
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
    for (; mask != 0; mask &= mask - 1) {
      W value = common;
      if (!is_uniform) {
        value = section[next];
        if constexpr (sizeof(T) == 8) value |= static_cast<W>(section[next + 1]) << 32;
        next += kValueWords;
      }
      *value_in_rows<kRowBytes<T>, W>(shared_.rows, thread(), lowest_bit(u64{mask})) = value;
    }
    return true;
  }

  // Which values of a block are exceptions; a mask that no encoder writes clears `is_fine`.
  H5L_DEVICE u32 mask_of(const u32* masks, const Group& of_block, u32 number, u32 block, bool& is_fine) const {
    const u32 bit = block % kGroupBlocks;
    if ((of_block.present >> bit & 1) == 0) return 0;
    const u32 inside = inside_of_block(block);
    if ((of_block.full >> bit & 1) != 0) return inside;
    const u32 mask = masks[shared_.masks[number] + ones(of_block.present & ~of_block.full & ((u32{1} << bit) - 1))];
    is_fine = is_fine && mask != 0 && (mask & ~inside) == 0 && mask != inside;
    return mask;
  }

  const DecodePlan& plan_;
  const DecodeJob& job_;
  Shared& shared_;
  const u32* payload_ = nullptr;
  const u32* head_ = nullptr;  // what is in shared memory of it
  u32 words_ = 0;
  u32 count_ = 0, blocks_ = 0, part_ = 0;
  u32 layers_ = 0, planes_begin_ = 0;
  u32 section_at_ = 0, section_words_ = 0;
};

template <class T, class Q>
H5L_DEVICE void decode(const DecodePlan& plan) {
  auto& shared = *reinterpret_cast<DecodeShared<T>*>(shared_memory());
  using OfParts = Payloads<kHeadBytes, kHeadBytes, kTileParts>;
  for (OfParts payloads(plan, shared.payloads, kTileValues * sizeof(T)); payloads.has_item(); payloads.go_on()) {
    payloads.wait();
    const u32 item = payloads.item(), part = item % kTileParts;
    u64* const told = plan.told + (block_row() * plan.items_per_frame + item - part) * (sizeof(T) / 4);
    Decoder<T, Q>(plan, shared)
        .decode(payloads.tile(), part, payloads.span(), payloads.area() + payloads.shift(), told);
  }
}

}  // namespace h5lossy::H5L_TARGET::aatrox

// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// cuSZp2's decoder: a thread block per tile, a thread per 32 positions.
#pragma once

#include "codecs/cuszp2.h"
#include "kernels/codecs/cuszp2_boxes.cuh"
#include "kernels/common/block_reading.cuh"
#include "kernels/common/block_rows.cuh"

namespace h5lossy::H5L_TARGET::cuszp2 {

using namespace blocks;

template <class T>
struct alignas(16) DecodeShared {
  u8 rows[kTileValues * sizeof(T)];
  u32 totals[kWarps];
  u32 more_totals[kWarps];
};

template <class T, class Q, u32 dimensions>
class Decoder {
  using W = Word<T>;
  using Shared = DecodeShared<T>;
  static constexpr u32 n = dimensions == 1 ? 32 : 64;
  static constexpr u32 kBlockThreads = n / kThreadValues;
  static constexpr u32 kValueWords = sizeof(T) / 4;

 public:
  H5L_DEVICE Decoder(const DecodePlan& plan, const DecodeJob& job, Shared& shared)
      : plan_(plan), job_(job), shared_(shared), selection_(static_cast<Selection>(plan.mode & 3)) {}

  H5L_DEVICE void decode(u32 tile, const TileSpan& span) {
    const Place<T, dimensions> place(plan_.shape, tile);
    inside_ = place.inside();
    blocks_ = place.blocks();
    const u32 raw_bytes = place.count() * static_cast<u32>(sizeof(T));
    if (!span.is_valid || span.bytes > raw_bytes || span.begin % 4 != 0 || span.bytes % 4 != 0)
      return report_corrupt(plan_);
    payload_ = reinterpret_cast<const u32*>(payloads_of(plan_, job_) + span.begin);
    prefetch_share(payloads_of(plan_, job_) + span.begin, span.bytes, 0, 1);
    words_ = span.bytes / 4;
    section_words_ = 0;
    PayloadSum sum(plan_, job_, tile);

    W bits[kThreadValues];
    if (span.bytes == raw_bytes || span.bytes == 0 || span.bytes == sizeof(T)) {
      sum.add_words(payload_, 0, words_);
      sum.finish();
      if (span.bytes == raw_bytes) {
        if constexpr (dimensions == 1) {
          return copy_values<W>(plan_, place.first(), place.count(),
                                [&](u32 i) { return load_constant(payload_ + i); });
        } else {
          stored(bits);
        }
      } else {
        const W constant = span.bytes == 0 ? W{0} : value_of_payload(0);
        H5L_UNROLL for (u32 i = 0; i < kThreadValues; ++i) bits[i] = constant;
      }
    } else {
      if (!read_codes(sum)) return report_corrupt(plan_);
      const Q q = quantizer_of<T, Q>(job_);
      W bins[kThreadValues];
      read_bins(sum, bins);
      sum.add_words(payload_, section_at_, words_);
      sum.finish();
      H5L_UNROLL for (u32 i = 0; i < kThreadValues; ++i) bits[i] = bits_of_bin(q, bins[i]);
    }
    store_row<kRowBytes<T>>(shared_.rows, bits);
    if (section_words_ != 0 && any_in_block(!restore_exceptions())) return report_corrupt(plan_);
    if constexpr (dimensions == 1) {
      finish_values<kRowBytes<T>, W>(plan_, shared_.rows, place.first(), place.count());
    } else {
      finish_box(place);
    }
  }

 private:
  [[nodiscard]] H5L_DEVICE W value_of_payload(u32 word) const { return value_at<W>(payload_ + word); }

  H5L_DEVICE void stored(W (&bits)[kThreadValues]) {
    u32 total = 0;
    u32 next = scan_of_block(ones(inside_), shared_.totals, total);
    H5L_UNROLL for (u32 i = 0; i < kThreadValues; ++i) {
      bits[i] = 0;
      if ((inside_ >> i & 1) != 0) bits[i] = value_of_payload(kValueWords * next++);
    }
  }

  // False, in all threads, if the codes are inconsistent with each other or with the payload's size.
  H5L_DEVICE bool read_codes(PayloadSum& sum) {
    const u32 codes_bytes = blocks_ * kCodeBytes<T>;
    const u32 codes_words = padded(codes_bytes) / 4;
    if (words_ < codes_words) return false;
    const u8* const bytes = reinterpret_cast<const u8*>(payload_);
    const u32 b = thread() / kBlockThreads;
    const bool is_leader = thread() % kBlockThreads == 0;
    bool is_fine = true;
    code_ = {};
    if (b < blocks_) {
      u32 packed = load_constant(bytes + b * kCodeBytes<T>);
      if constexpr (sizeof(T) == 8) packed |= load_constant(bytes + 2 * b + 1) << 8;
      is_fine =
          unpack_code<T>(packed, selection_ == Selection::outlier, max_width<T>(selection_ != Selection::fixed), code_);
    }
    if (thread() < codes_words && sum.is_enabled()) sum.add(load_constant(payload_ + thread()), thread());
    planes_ = is_fine && (code_.first_size != 0 || code_.width != 0) ? code_.width + 1 : 0;
    u32 totals = 0;
    const u32 own = is_leader && is_fine ? planes_ * kBlockThreads | code_.first_size << 16 : 0;
    bool any_wrong = false;
    u32 before = scan_of_block(own, shared_.totals, totals, !is_fine, any_wrong);
    if constexpr (kBlockThreads == 2) before = shuffle(before, lane() & ~1u);
    const u32 firsts_bytes = totals >> 16;
    const u32 planes_end = codes_words + (totals & 0xFFFF);
    const u32 least = planes_end + padded(firsts_bytes) / 4;
    if (any_wrong || words_ < least) return false;
    planes_at_ = codes_words + (before & 0xFFFF) + thread() % kBlockThreads;
    section_at_ = planes_end;
    section_words_ = words_ - least;
    const u32 firsts_at = 4 * (words_ - padded(firsts_bytes) / 4);
    first_at_ = firsts_at + (before >> 16);
    return is_padded(codes_words, codes_bytes) && is_padded(words_, firsts_bytes);
  }

  // Whether the padding after `bytes` bytes, up to word `end` of the payload, is 0. All threads get the same answer.
  [[nodiscard]] H5L_DEVICE bool is_padded(u32 end, u32 bytes) const {
    return bytes % 4 == 0 || load_constant(payload_ + end - 1) >> (8 * (bytes % 4)) == 0;
  }

  H5L_DEVICE void read_bins(PayloadSum& sum, W (&bins)[kThreadValues]) {
    // Its load is issued before the planes are decoded.
    W first = 0;
    bool has_first = false;
    if (selection_ == Selection::outlier) {
      has_first = code_.first_size != 0 && thread() % kBlockThreads == 0;
      const u8* const bytes = reinterpret_cast<const u8*>(payload_) + first_at_;
      H5L_UNROLL for (u32 i = 0; i < sizeof(T) - 1; ++i) {
        if (has_first && i < code_.first_size) first |= static_cast<W>(load_constant(bytes + i)) << (8 * i);
      }
    }
    const u32* const planes = payload_ + planes_at_;
    u32 signs = 0;
    load_differences<max_width<T>(true) + 1>([&](u32 i) { return load_constant(planes + i * kBlockThreads); }, planes_,
                                             [&](const EightPlanes& eight) {
                                               signs = eight.signs;
                                               add_planes(sum, eight, planes_, planes_at_, kBlockThreads);
                                             },
                                             bins);
    // The planes hold only its sign.
    if (has_first) bins[0] = (signs >> 7 & 1) != 0 ? W{0} - first : first;
    if (selection_ == Selection::fixed) return;
    H5L_UNROLL for (u32 i = 1; i < kThreadValues; ++i) bins[i] += bins[before<dimensions>(i)];
    if constexpr (dimensions > 1) {
      const W other = shuffle_up(bins[dimensions == 2 ? 24 : 16], 1);
      if (thread() % 2 != 0) {
        H5L_UNROLL for (u32 i = 0; i < kThreadValues; ++i) bins[i] += other;
      }
    }
  }

  // Writes the exceptions into the thread's row. False if the section is inconsistent with itself or with the tile.
  H5L_DEVICE bool restore_exceptions() {
    constexpr u32 head = 1 + kValueWords;
    const u32* const section = payload_ + section_at_;
    if (section_words_ < head) return false;
    const u32 groups = load_constant(section);
    const u32 all_groups = (blocks_ + kGroupBlocks - 1) / kGroupBlocks;
    if (groups == 0 || groups >> all_groups != 0) return false;
    const W common = value_at<W>(section + 1);
    if (section_words_ - head < 3 * ones(groups)) return false;

    const u32 b = thread() / kBlockThreads;
    const u32 bit = b % kGroupBlocks;
    u32 present = 0, full = 0, uniform = 0, masks = 0, mask_at = 0;
    bool is_fine = true;
    for (u32 g = 0, next = head; g < all_groups; ++g) {
      if ((groups >> g & 1) == 0) continue;
      const u32 in_group = blocks_ - g * kGroupBlocks;
      const u32 p = load_constant(section + next), f = load_constant(section + next + 1);
      const u32 u = load_constant(section + next + 2);
      next += 3;
      is_fine = is_fine && p != 0 && ((f | u) & ~p) == 0 && (in_group >= kGroupBlocks || p >> in_group == 0);
      if (g == b / kGroupBlocks) {
        present = p >> bit & 1;
        full = f >> bit & 1;
        uniform = u >> bit & 1;
        mask_at = masks + ones(p & ~f & ((u32{1} << bit) - 1));
      }
      masks += ones(p & ~f);
    }
    const u32 behind_masks = head + 3 * ones(groups) + masks * kBlockThreads;
    if (!is_fine || section_words_ < behind_masks) return false;

    u32 mask = present != 0 ? inside_ : 0;
    const bool has_mask = present != 0 && full == 0;
    if (has_mask) {
      mask = load_constant(section + head + 3 * ones(groups) + mask_at * kBlockThreads + thread() % kBlockThreads);
    }
    u32 state = (mask != 0 ? 1u : 0) | (mask != inside_ ? 2u : 0);
    if constexpr (kBlockThreads == 2) state |= shuffle_xor(state, 1);
    if (has_mask) is_fine = state == 3 && (mask & ~inside_) == 0;
    u32 total = 0;
    u32 bits_at = behind_masks + kValueWords * scan_of_block(uniform != 0 ? 0 : ones(mask), shared_.more_totals, total);
    if (any_in_block(!is_fine) || behind_masks + kValueWords * total != section_words_) return false;
    for (; mask != 0; mask &= mask - 1) {
      W bits = common;
      if (uniform == 0) {
        bits = value_at<W>(section + bits_at);
        bits_at += kValueWords;
      }
      *value_in_rows<kRowBytes<T>, W>(shared_.rows, thread(), lowest_bit(u64{mask})) = bits;
    }
    return true;
  }

  // Stores the thread's values that are in the requested range.
  H5L_DEVICE void finish_box(const Place<T, dimensions>& place) const {
    constexpr u32 row = dimensions == 2 ? 8 : 4;
    W bits[kThreadValues];
    load_row<kRowBytes<T>>(shared_.rows, bits);
    H5L_UNROLL for (u32 k = 0; k < kThreadValues / row; ++k) {
      if (!place.has_row(k)) continue;
      const u64 first = place.number(k * row);
      W* const to = reinterpret_cast<W*>(raw_of(plan_)) + (first - plan_.first);
      const bool is_wanted = first >= plan_.first && first + row <= plan_.first + plan_.wanted;
      if (is_wanted && place.row_values() == row && reinterpret_cast<u64>(to) % 16 == 0) {
        constexpr u32 in_quad = 16 / sizeof(T);
        H5L_UNROLL for (u32 i = 0; i < row; i += in_quad) {
          Quad quad;
          if constexpr (sizeof(T) == 4) {
            quad = {bits[k * row + i], bits[k * row + i + 1], bits[k * row + i + 2], bits[k * row + i + 3]};
          } else {
            const u64 low = bits[k * row + i], high = bits[k * row + i + 1];
            quad = {static_cast<u32>(low), static_cast<u32>(low >> 32), static_cast<u32>(high),
                    static_cast<u32>(high >> 32)};
          }
          store_streaming(reinterpret_cast<Quad*>(to + i), quad);
        }
        continue;
      }
      H5L_UNROLL for (u32 i = 0; i < row; ++i) {
        const u64 number = first + i;
        if (i < place.row_values() && number >= plan_.first && number < plan_.first + plan_.wanted)
          to[i] = bits[k * row + i];
      }
    }
  }

  const DecodePlan& plan_;
  const DecodeJob& job_;
  Shared& shared_;
  const Selection selection_;
  const u32* payload_ = nullptr;
  u32 words_ = 0;
  u32 inside_ = 0, blocks_ = 0;
  Code code_ = {};
  u32 planes_ = 0, planes_at_ = 0, first_at_ = 0;
  u32 section_at_ = 0, section_words_ = 0;
};

template <class T, class Q, u32 dimensions>
H5L_DEVICE void decode(const DecodePlan& plan) {
  auto& shared = *reinterpret_cast<DecodeShared<T>*>(shared_memory());
  const DecodeJob job = plan.jobs[block_row()];
  for_own_items<1, false>(plan, job, kTileValues * sizeof(T), [&](u32 tile, u32, const TileSpan& span) {
    Decoder<T, Q, dimensions>(plan, job, shared).decode(tile, span);
  });
}

}  // namespace h5lossy::H5L_TARGET::cuszp2

// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// cuSZp2's decoder: a thread block for every n-th tile of a frame, a thread for 32 positions.
#pragma once

#include "block_reading.cuh"
#include "block_rows.cuh"
#include "codecs/cuszp2.h"
#include "cuszp2_boxes.cuh"

namespace h5lossy::H5L_TARGET::cuszp2 {

using namespace blocks;

template <class T>
struct alignas(16) DecodeShared {
  u8 rows[kTileValues * sizeof(T)];
  PayloadShared<kTileValues * sizeof(T) / 2> payloads;
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
  H5L_DEVICE Decoder(const DecodePlan& plan, Shared& shared)
      : plan_(plan), job_(shared.payloads.job), shared_(shared), selection_(static_cast<Selection>(plan.mode & 3)) {}

  // `payload` are the bytes of a tile's, whose place in the frame is `span`.
  H5L_DEVICE void decode(u32 tile, const TileSpan& span, const u8* payload) {
    const Place<T, dimensions> place(job_.shape, tile);
    inside_ = place.inside();
    blocks_ = place.blocks();
    const u32 raw_bytes = place.count() * static_cast<u32>(sizeof(T));
    if (!span.is_sane || span.bytes > raw_bytes || span.begin % 4 != 0 || span.bytes % 4 != 0)
      return report_corrupt(plan_);
    payload_ = reinterpret_cast<const u32*>(payload);
    words_ = span.bytes / 4;
    section_words_ = 0;
    sum_payload<4>(plan_, job_, tile, 0, words_, [&](u32 i) { return payload_[i]; });

    W bits[kThreadValues];
    if (span.bytes == raw_bytes) {
      stored(bits);
    } else if (span.bytes == 0 || span.bytes == sizeof(T)) {
      const W constant = span.bytes == 0 ? W{0} : value_of_payload(0);
      H5L_UNROLL for (u32 i = 0; i < kThreadValues; ++i) bits[i] = constant;
    } else {
      if (any_in_block(!read_codes())) return report_corrupt(plan_);
      const Q q = quantizer_as<T, Q>(job_.quantizer);
      W bins[kThreadValues];
      read_bins(bins);
      H5L_UNROLL for (u32 i = 0; i < kThreadValues; ++i) bits[i] = bits_of_bin(q, bins[i]);
    }
    store_row<kRowBytes<T>>(shared_.rows, bits);
    if (section_words_ != 0 && any_in_block(!restore_exceptions())) return report_corrupt(plan_);
    if constexpr (dimensions == 1) {
      finish_values<kRowBytes<T>, W>(job_, shared_.rows, place.first(), place.count());
    } else {
      finish_box(place);
    }
  }

 private:
  [[nodiscard]] H5L_DEVICE W value_of_payload(u32 word) const {
    if constexpr (sizeof(T) == 4) {
      return payload_[word];
    } else {
      return payload_[word] | static_cast<W>(payload_[word + 1]) << 32;
    }
  }

  H5L_DEVICE void stored(W (&bits)[kThreadValues]) {
    u32 total = 0;
    u32 next = scan_of_block(ones(inside_), shared_.totals, total);
    H5L_UNROLL for (u32 i = 0; i < kThreadValues; ++i) {
      bits[i] = 0;
      if ((inside_ >> i & 1) != 0) bits[i] = value_of_payload(kValueWords * next++);
    }
  }

  // False: they contradict themselves or the payload's size.
  H5L_DEVICE bool read_codes() {
    const u32 codes_bytes = blocks_ * kCodeBytes<T>;
    const u32 codes_words = padded(codes_bytes) / 4;
    if (words_ < codes_words) return false;
    bool is_fine = true;
    const u8* const bytes = reinterpret_cast<const u8*>(payload_);
    const u32 b = thread() / kBlockThreads;
    const bool is_leader = thread() % kBlockThreads == 0;
    code_ = {};
    if (b < blocks_) {
      u32 packed = bytes[b * kCodeBytes<T>];
      if constexpr (sizeof(T) == 8) packed |= u32{bytes[2 * b + 1]} << 8;
      is_fine =
          unpack_code<T>(packed, selection_ == Selection::outlier, max_width<T>(selection_ != Selection::fixed), code_);
    }
    if (thread() < padded(codes_bytes) - codes_bytes) is_fine = is_fine && bytes[codes_bytes + thread()] == 0;
    planes_ = is_fine && (code_.first_size != 0 || code_.width != 0) ? code_.width + 1 : 0;
    u32 totals = 0;
    const u32 own = is_leader && is_fine ? planes_ * kBlockThreads | code_.first_size << 16 : 0;
    u32 before = scan_of_block(own, shared_.totals, totals);
    if constexpr (kBlockThreads == 2) before = shuffle(before, lane() & ~1u);
    const u32 firsts_bytes = totals >> 16;
    const u32 planes_end = codes_words + (totals & 0xFFFF);
    const u32 least = planes_end + padded(firsts_bytes) / 4;
    if (words_ < least) return false;
    planes_at_ = codes_words + (before & 0xFFFF) + thread() % kBlockThreads;
    section_at_ = planes_end;
    section_words_ = words_ - least;
    const u32 firsts_at = 4 * (words_ - padded(firsts_bytes) / 4);
    if (thread() < padded(firsts_bytes) - firsts_bytes)
      is_fine = is_fine && bytes[firsts_at + firsts_bytes + thread()] == 0;
    first_at_ = firsts_at + (before >> 16);
    return is_fine;
  }

  H5L_DEVICE void read_bins(W (&bins)[kThreadValues]) {
    const u32* const planes = payload_ + planes_at_;
    load_differences<max_width<T>(true) + 1>([&](u32 i) { return planes[i * kBlockThreads]; }, planes_, bins);
    if (code_.first_size != 0 && thread() % kBlockThreads == 0) {
      const u8* const bytes = reinterpret_cast<const u8*>(payload_) + first_at_;
      W magnitude = 0;
      H5L_UNROLL for (u32 i = 0; i < sizeof(T) - 1; ++i) {
        if (i < code_.first_size) magnitude |= static_cast<W>(bytes[i]) << (8 * i);
      }
      // What the planes have in its place counts for nothing but the sign.
      const bool is_negative = (planes[0] >> 7 & 1) != 0;
      bins[0] = is_negative ? W{0} - magnitude : magnitude;
    }
    if (selection_ == Selection::fixed) return;
    H5L_UNROLL for (u32 i = 1; i < kThreadValues; ++i) bins[i] += bins[before<dimensions>(i)];
    if constexpr (dimensions > 1) {
      const W other = shuffle_up(bins[dimensions == 2 ? 24 : 16], 1);
      if (thread() % 2 != 0) {
        H5L_UNROLL for (u32 i = 0; i < kThreadValues; ++i) bins[i] += other;
      }
    }
  }

  // Puts the exceptions into the thread's row. False: the section contradicts itself or the tile.
  H5L_DEVICE bool restore_exceptions() {
    constexpr u32 head = 1 + kValueWords;
    const u32* const section = payload_ + section_at_;
    if (section_words_ < head) return false;
    const u32 groups = section[0];
    const u32 all_groups = (blocks_ + kGroupBlocks - 1) / kGroupBlocks;
    if (groups == 0 || groups >> all_groups != 0) return false;
    W common = section[1];
    if constexpr (sizeof(T) == 8) common |= static_cast<W>(section[2]) << 32;
    if (section_words_ - head < 3 * ones(groups)) return false;

    const u32 b = thread() / kBlockThreads;
    const u32 bit = b % kGroupBlocks;
    u32 present = 0, full = 0, uniform = 0, masks = 0, mask_at = 0;
    bool is_fine = true;
    for (u32 g = 0, next = head; g < all_groups; ++g) {
      if ((groups >> g & 1) == 0) continue;
      const u32 in_group = blocks_ - g * kGroupBlocks;
      const u32 p = section[next], f = section[next + 1], u = section[next + 2];
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
    if (has_mask) mask = section[head + 3 * ones(groups) + mask_at * kBlockThreads + thread() % kBlockThreads];
    u32 state = (mask != 0 ? 1u : 0) | (mask != inside_ ? 2u : 0);
    if constexpr (kBlockThreads == 2) state |= shuffle_xor(state, 1);
    if (has_mask) is_fine = state == 3 && (mask & ~inside_) == 0;
    u32 total = 0;
    u32 bits_at = behind_masks + kValueWords * scan_of_block(uniform != 0 ? 0 : ones(mask), shared_.more_totals, total);
    if (any_in_block(!is_fine) || behind_masks + kValueWords * total != section_words_) return false;
    for (; mask != 0; mask &= mask - 1) {
      W bits = common;
      if (uniform == 0) {
        bits = section[bits_at];
        if constexpr (sizeof(T) == 8) bits |= static_cast<W>(section[bits_at + 1]) << 32;
        bits_at += kValueWords;
      }
      *value_in_rows<kRowBytes<T>, W>(shared_.rows, thread(), lowest_bit(u64{mask})) = bits;
    }
    return true;
  }

  // Stores the thread's values to their places, as far as they are wanted.
  H5L_DEVICE void finish_box(const Place<T, dimensions>& place) const {
    constexpr u32 row = dimensions == 2 ? 8 : 4;
    W bits[kThreadValues];
    load_row<kRowBytes<T>>(shared_.rows, bits);
    H5L_UNROLL for (u32 k = 0; k < kThreadValues / row; ++k) {
      if (!place.has_row(k)) continue;
      const u64 first = place.number(k * row);
      W* const to = reinterpret_cast<W*>(job_.raw) + (first - job_.first);
      const bool is_wanted = first >= job_.first && first + row <= job_.first + job_.wanted;
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
        if (i < place.row_values() && number >= job_.first && number < job_.first + job_.wanted)
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
  constexpr u32 tile_bytes = kTileValues * sizeof(T);
  using OfTiles = Payloads<tile_bytes / 2, tile_bytes>;
  for (OfTiles payloads(plan, shared.payloads, tile_bytes); payloads.has_item(); payloads.go_on()) {
    payloads.wait();
    Decoder<T, Q, dimensions>(plan, shared)
        .decode(payloads.tile(), payloads.span(), payloads.area() + payloads.shift());
  }
}

}  // namespace h5lossy::H5L_TARGET::cuszp2

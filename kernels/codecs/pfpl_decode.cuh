// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// PFPL's decoder: a thread block per tile, a thread per 128 bytes of its values.
#pragma once

#include "codecs/pfpl.h"
#include "kernels/codecs/pfpl_restore.cuh"
#include "kernels/codecs/pfpl_words.cuh"
#include "kernels/common/tile_io.cuh"

namespace h5lossy::H5L_TARGET::pfpl {

using DecodeShared = RestoreShared<kTileBytes + 32>;

template <class T, class Q>
class Decoder : ZeroRestorer<DecodeShared> {
  using W = Word<T>;
  static constexpr u32 kRowBytes = kTileBytes / kThreads;
  static constexpr u32 kValues = kRowBytes / sizeof(T);

 public:
  H5L_DEVICE Decoder(const DecodePlan& plan, const DecodeJob& job, DecodeShared& shared)
      : ZeroRestorer<DecodeShared>(plan, job, shared) {}

  H5L_DEVICE void decode(u32 tile, const TileSpan& span) {
    const u32 left = plan_.shape.raw_bytes - tile * kTileBytes;
    raw_bytes_ = left < kTileBytes ? left : kTileBytes;
    if (!span.is_valid || span.bytes > raw_bytes_) return report_corrupt(plan_);
    bytes_ = span.bytes;
    load(span);
    wait_for_copies();
    sync_block();
    const bool is_full = bytes_ != 0 && bytes_ != raw_bytes_;
    // The first warp restores the upper bitmaps, which all others need; these compute the checksum meanwhile.
    if (warp() == 0) {
      if (is_full) restore_upper_bitmaps(bytes_);
    } else {
      add_up_payload(tile);
    }
    const u64 first = u64{tile} * kTileValues<T>;
    const u32 count = raw_bytes_ / static_cast<u32>(sizeof(T));
    if (bytes_ == raw_bytes_) [[unlikely]]
      return copy_values<W>(plan_, first, count, [&](u32 i) { return word_at(4 * i); });
    W words[kValues];
    if (is_full) {
      if (!restore_bitmaps<sizeof(T) == 4>()) return report_corrupt(plan_);
      restore_words(words);
      const Q q = quantizer_of<T, Q>(job_);
      values_of_words(q, words);
    } else {
      H5L_UNROLL for (u32 v = 0; v < kValues; ++v) words[v] = 0;
    }
    store_row<kRowBytes>(shared_.area, words);
    finish_values<kRowBytes, W>(plan_, shared_.area, first, count);
  }

 private:
  // Eight planes, from bit 8 s on, as bytes of the thread's values. Branch-free if all eight are used or the call is
  // rare, so that the loads overlap.
  template <bool is_seldom>
  H5L_DEVICE void restore_bytes(u32 s, u32 (&rows)[8]) const {
    const u32 used = planes_used_ >> (24 - 8 * s) & 0xFF;  // the lowest plane first
    const auto plane = [&](u32 c) { return stream_word((31 - 8 * s - c) * (kThreads / 8) + thread() / 8); };
    H5L_UNROLL for (u32 c = 0; c < 8; ++c) rows[c] = 0;
    if (used == 0) return;
    if constexpr (is_seldom) {
      // In most warps, high planes are 0: only the exceptions of other warps use them.
      const u32 own = (31 - 8 * s - lane() / 4) * (kThreads / 8) + 4 * warp() + lane() % 4;
      if (!any_in_warp(shared_.pieces[own].flags != 0)) return;
    }
    if (is_seldom || used == 0xFF) {
      H5L_UNROLL for (u32 c = 0; c < 8; ++c) rows[c] = plane(c);
    } else {
      H5L_UNROLL for (u32 c = 0; c < 8; ++c) {
        if ((used & (0xFF >> c)) == 0) break;  // and neither are higher ones
        rows[c] = plane(c);
      }
    }
    transpose_bytes(rows);
  }

  // Restores the words of the thread's values. Called after a barrier.
  H5L_DEVICE void restore_words(W (&words)[kValues]) {
    constexpr u32 group_values = kGroupValues<T>;
    const u32 count = raw_bytes_ / static_cast<u32>(sizeof(T));
    const u32 groups = count / group_values;
    const u32 first = thread() * kValues;
    const u32 group = first / group_values;
    W total = 0;
    W* const totals = reinterpret_cast<W*>(shared_.word_totals);
    if (sizeof(T) == 4 && raw_bytes_ == kTileBytes) [[likely]] {
      if constexpr (sizeof(T) == 4) {
        if ((planes_used_ & 0xFFFF) == 0) [[likely]] {
          u32 low[8], high[8];
          restore_bytes<false>(0, low);
          restore_bytes<false>(1, high);
          add_up_halves(low, high, words);
          return;
        }
        H5L_UNROLL for (u32 s = 0; s < 4; ++s) {
          u32 rows[8];
          restore_bytes<true>(s, rows);
          H5L_UNROLL for (u32 r = 0; r < 8; ++r) words[31 - 8 * s - r] = rows[r];
        }
        join_bytes(words);
      }
    } else {
      restore_stream<sizeof(T) == 4>();  // of float32, at most one tile of a frame
      const u32* const stream = reinterpret_cast<const u32*>(shared_.area);
      if (first + kValues <= groups * group_values) {
        if constexpr (sizeof(T) == 4) {
          H5L_UNROLL for (u32 s = 0; s < 4; ++s) {
            u32 rows[8];
            H5L_UNROLL for (u32 c = 0; c < 8; ++c) rows[c] = stream[(31 - 8 * s - c) * groups + group];
            transpose_bytes(rows);
            H5L_UNROLL for (u32 r = 0; r < 8; ++r) words[31 - 8 * s - r] = rows[r];
          }
          join_bytes(words);
        } else {
          from_pieces(shared_.area + group * 8 + (48 - first % group_values) / 8, groups * 8, words);
        }
      } else {
        H5L_UNROLL for (u32 v = 0; v < kValues; ++v) {
          words[v] = first + v < count ? reinterpret_cast<const W*>(stream)[first + v] : 0;
        }
      }
    }
    H5L_UNROLL for (u32 v = 0; v < kValues; ++v) {
      words[v] = from_negabinary<W>(words[v]);
      if (v > 0) words[v] += words[v - 1];
    }
    const W before = scan_of_block(words[kValues - 1], totals, total);  // its barrier also protects the stream
    H5L_UNROLL for (u32 v = 0; v < kValues; ++v) words[v] += before;
  }

  // Prefix sums of 16-bit residuals, as words. Two residuals share a register, and are added from there.
  H5L_DEVICE void add_up_halves(const u32 (&low)[8], const u32 (&high)[8], u32 (&words)[32]) {
    constexpr u32 bias = 0xAAAA;  // the excess of negabinary numbers with these bits flipped
    u32 pairs[16];                // number r: residuals 31 - r and 23 - r; number 8 + r: residuals 15 - r and 7 - r
    u32 own = 0;
    H5L_UNROLL for (u32 r = 0; r < 8; ++r) {
      pairs[r] = permute(low[r], high[r], 0x5140) ^ bias * 0x10001;
      pairs[8 + r] = permute(low[r], high[r], 0x7362) ^ bias * 0x10001;
      own = add_halves(pairs[r], 0x0101, add_halves(pairs[8 + r], 0x0101, own));
    }
    u32 total = 0;
    u32 sum = scan_of_block(own - 32 * bias, shared_.word_totals, total);
    H5L_UNROLL for (u32 v = 0; v < 32; ++v) {
      const u32 pair = pairs[v < 16 ? 15 - v % 8 : 7 - v % 8];
      sum = add_halves(pair, v / 8 % 2 == 0 ? 0x0100 : 0x0001, sum);
      words[v] = sum - (v + 1) * bias;
    }
  }

  // Byte s of value 8 i + 7 - r is in words[31 - 8 s - r], from the highest i down.
  H5L_DEVICE static void join_bytes(u32 (&words)[32]) {
    H5L_UNROLL for (u32 r = 0; r < 8; ++r) {
      u32 &a = words[31 - r], &b = words[23 - r], &c = words[15 - r], &d = words[7 - r];
      const u32 low01 = permute(a, b, 0x5140), high01 = permute(a, b, 0x7362);
      const u32 low23 = permute(c, d, 0x5140), high23 = permute(c, d, 0x7362);
      a = permute(low01, low23, 0x5410);
      b = permute(low01, low23, 0x7632);
      c = permute(high01, high23, 0x5410);
      d = permute(high01, high23, 0x7632);
    }
  }

  // 64 planes of 16 values, two bytes each, `stride` bytes apart.
  H5L_DEVICE void from_pieces(const u8* pieces, u32 stride, u64 (&words)[16]) const {
    u32 bytes[4][8];
    H5L_UNROLL for (u32 pair = 0; pair < 4; ++pair) {
      H5L_UNROLL for (u32 c = 0; c < 8; ++c) {
        const u32 low = *reinterpret_cast<const u16*>(pieces + (63 - (16 * pair + c)) * stride);
        const u32 high = *reinterpret_cast<const u16*>(pieces + (63 - (16 * pair + 8 + c)) * stride);
        bytes[pair][c] = low | high << 16;
      }
      transpose_bytes(bytes[pair]);
    }
    H5L_UNROLL for (u32 r = 0; r < 8; ++r) {
      words[15 - r] = u64{permute(bytes[0][r], bytes[1][r], 0x6420)} | u64{permute(bytes[2][r], bytes[3][r], 0x6420)}
                                                                           << 32;
      words[7 - r] = u64{permute(bytes[0][r], bytes[1][r], 0x7531)} | u64{permute(bytes[2][r], bytes[3][r], 0x7531)}
                                                                          << 32;
    }
  }
};

// The kernel for lossless frames also finishes a call: it copies stored frames and compares the checksums.
template <class T, class Q>
H5L_DEVICE void decode(const DecodePlan& plan) {
  DecodeShared& shared = *reinterpret_cast<DecodeShared*>(shared_memory());
  const DecodeJob job = plan.jobs[block_row()];
  for_own_items<1, kIsLosslessQuantizer<Q>>(plan, job, kTileBytes, [&](u32 tile, u32, const TileSpan& span) {
    Decoder<T, Q>(plan, job, shared).decode(tile, span);
  });
  if constexpr (kIsLosslessQuantizer<Q>) {
    if (job.form == FrameForm::stored) copy_stored(plan, job);
    check_sums(plan, job);
  }
}

}  // namespace h5lossy::H5L_TARGET::pfpl

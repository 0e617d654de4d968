// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// PFPL's decoder: a thread block per tile, a thread per 128 bytes of its values.
#pragma once

#include "codecs/pfpl.h"
#include "kernels/codecs/pfpl_words.cuh"
#include "kernels/common/tile_io.cuh"

namespace h5lossy::H5L_TARGET::pfpl {

// Eight words of the stream of planes: which of their bytes are nonzero, and the place of the first nonzero one in the
// area.
struct StreamPiece {
  u32 flags, place;
};

struct alignas(16) DecodeShared {
  // The payload with the bytes around it, 16-byte aligned; later the stream of planes, or rows of values.
  u8 area[kTileBytes + 32];
  StreamPiece pieces[kStreamBytes / 32];
  u32 bitmap1[kBitmap1Bytes / 4];
  u16 kept1[kThreads];  // kept bytes of bitmap0 before each two bytes of bitmap1
  u8 planes_used[32];
  u32 totals[kWarps];
  u32 word_totals[2 * kWarps];
  u32 kept0_at;
  u32 is_valid;
};

template <class T, class Q>
class Decoder {
  using W = Word<T>;
  static constexpr u32 kRowBytes = kTileBytes / kThreads;
  static constexpr u32 kValues = kRowBytes / sizeof(T);

 public:
  H5L_DEVICE Decoder(const DecodePlan& plan, const DecodeJob& job, DecodeShared& shared)
      : plan_(plan), job_(job), shared_(shared) {
    u32 rank = 0;
    H5L_UNROLL for (u32 i = 0; i < 4; ++i) {
      const u32 is_set = thread() >> i & 1;
      selector_ |= (is_set != 0 ? rank : 4u) << (4 * i);
      rank += is_set;
    }
  }

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
      if (is_full) restore_upper_bitmaps();
    } else {
      add_up_payload(tile);
    }
    const u64 first = u64{tile} * kTileValues<T>;
    const u32 count = raw_bytes_ / static_cast<u32>(sizeof(T));
    if (bytes_ == raw_bytes_) [[unlikely]]
      return copy_values<W>(plan_, first, count, [&](u32 i) { return word_at(4 * i); });
    W words[kValues];
    if (is_full) {
      if (!restore_bitmaps()) return report_corrupt(plan_);
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
  // Starts to copy a payload into the area, extended to multiples of 16 bytes within the frame.
  H5L_DEVICE void load(const TileSpan& span) {
    const u8* const from = payloads_of(plan_) + span.begin;
    shift_ = static_cast<u32>(reinterpret_cast<u64>(from)) & 15;
    const u32 end = shift_ + bytes_;
    const u32 left = job_.payload_bytes - span.begin + shift_;  // bytes left in the frame
    H5L_NO_UNROLL for (u32 at = thread() * 16; at < end; at += kThreads * 16) {
      if (at + 16 <= left) {
        copy_async<16>(shared_.area + at, from - shift_ + at);
      } else {
        H5L_NO_UNROLL for (u32 i = at; i < left; ++i) shared_.area[i] =
            static_cast<u8>(load_constant(from - shift_ + i));
      }
    }
  }

  // Four bytes of the payload; undefined past its end.
  H5L_DEVICE u32 word_at(u32 at) const { return word_in_area(shift_ + at); }
  // The same, at an offset in the area.
  H5L_DEVICE u32 word_in_area(u32 place) const {
    const u32* const words = reinterpret_cast<const u32*>(shared_.area + (place & ~3u));
    return funnel_right(words[0], words[1], 8 * place);
  }
  H5L_DEVICE u32 byte_at(u32 at) const { return shared_.area[shift_ + at]; }

  // Adds up the payload's checksum, in all warps but the first.
  H5L_DEVICE void add_up_payload(u32 tile) {
    PayloadSum sum(plan_, job_, tile);
    if (!sum.is_enabled() || bytes_ == 0) return;
    const u32 words = bytes_ / 4;
    // Four words at a time, from the four words of the area in which they begin, and the next one.
    const u32 skipped = shift_ / 4;  // words of the area before the payload's first
    H5L_NO_UNROLL for (u32 i = 4 * (thread() - kWarpThreads); i < skipped + words; i += 4 * (kThreads - kWarpThreads)) {
      const Quad quad = *reinterpret_cast<const Quad*>(shared_.area + 4 * i);
      const u32 next = *reinterpret_cast<const u32*>(shared_.area + 4 * i + 16);
      const u32 number = i - skipped;  // wraps to a huge number before the payload
      sum.add(funnel_right(quad.x, quad.y, 8 * shift_), number, number < words);
      sum.add(funnel_right(quad.y, quad.z, 8 * shift_), number + 1, number + 1 < words);
      sum.add(funnel_right(quad.z, quad.w, 8 * shift_), number + 2, number + 2 < words);
      sum.add(funnel_right(quad.w, next, 8 * shift_), number + 3, number + 3 < words);
    }
    if (bytes_ % 4 != 0 && thread() == kWarpThreads) {
      sum.add(word_at(4 * words) & ((u32{1} << (8 * (bytes_ % 4))) - 1), words);
    }
    sum.finish();
  }

  // The last kept byte after `kept` bytes have been kept.
  H5L_DEVICE u32 kept_byte(u32 first, u32 kept) const { return kept == 0 ? 0 : byte_at(first + kept - 1); }

  // Restores bitmaps 3, 2 and 1. Called by one warp.
  H5L_DEVICE void restore_upper_bitmaps() {
    u32 left = bytes_;
    bool is_valid = left >= kBitmap3Bytes;
    u32 bitmap3 = 0, byte2 = 0;
    if (is_valid) {
      left -= kBitmap3Bytes;
      bitmap3 = word_at(left);
      is_valid = left >= ones(bitmap3);
    }
    if (is_valid) {
      left -= ones(bitmap3);
      byte2 = kept_byte(left, ones(bitmap3 & (lanes_below() << 1 | 1)));
    }
    const u32 kept = scan_of_warp(ones(byte2));
    const u32 all_kept = shuffle(kept, 31);
    is_valid = is_valid && left >= all_kept;
    u32 bytes1[8] = {};
    if (is_valid) {
      left -= all_kept;
      const u32 before = kept - ones(byte2);
      H5L_UNROLL for (u32 b = 0; b < 8; ++b) bytes1[b] = kept_byte(left, before + ones(byte2 & ((2u << b) - 1)));
    }
    // Each lane has the bytes of four threads.
    const u32 low = bytes1[0] | bytes1[1] << 8 | bytes1[2] << 16 | bytes1[3] << 24;
    const u32 high = bytes1[4] | bytes1[5] << 8 | bytes1[6] << 16 | bytes1[7] << 24;
    shared_.bitmap1[2 * lane()] = low;
    shared_.bitmap1[2 * lane() + 1] = high;
    const u32 changes = ones(low) + ones(high), with_own = scan_of_warp(changes);
    const u32 before = with_own - changes;
    shared_.kept1[4 * lane()] = static_cast<u16>(before);
    shared_.kept1[4 * lane() + 1] = static_cast<u16>(before + ones(low & 0xFFFF));
    shared_.kept1[4 * lane() + 2] = static_cast<u16>(before + ones(low));
    shared_.kept1[4 * lane() + 3] = static_cast<u16>(before + ones(low) + ones(high & 0xFFFF));
    is_valid = is_valid && left >= with_own;
    if (lane() == kWarpThreads - 1) {
      shared_.kept0_at = left - with_own;
      shared_.is_valid = is_valid ? 1 : 0;
    }
  }

  // False, in all threads, if the bitmaps are inconsistent.
  H5L_DEVICE bool restore_bitmaps() {
    sync_block();
    if (shared_.is_valid == 0) return false;
    const u32 kept0_at = shared_.kept0_at;

    // Each thread has two bytes of bitmap1, hence 16 of bitmap0.
    const u32 byte1 = shared_.bitmap1[thread() / 2] >> (16 * (thread() % 2)) & 0xFFFF;
    u32 so_far = shared_.kept1[thread()];
    u32 words[4];
    if (byte1 == 0) {
      words[0] = words[1] = words[2] = words[3] = kept_byte(kept0_at, so_far) * 0x01010101u;
    } else {
      H5L_UNROLL for (u32 i = 0; i < 4; ++i) {
        words[i] = 0;
        H5L_UNROLL for (u32 b = 0; b < 4; ++b) {
          so_far += byte1 >> (4 * i + b) & 1;
          words[i] |= kept_byte(kept0_at, so_far) << (8 * b);
        }
      }
    }
    u32 nonzero = 0;
    bool is_behind = false;  // flags a byte past the tile's end
    H5L_UNROLL for (u32 i = 0; i < 4; ++i) {
      nonzero += ones(words[i]);
      const u32 first = (4 * thread() + i) * 32;
      if (first + 32 > raw_bytes_) {
        is_behind |= first >= raw_bytes_ ? words[i] != 0 : words[i] >> (raw_bytes_ - first) != 0;
      }
    }
    // In a full tile of float32, four threads have the bitmap of a plane.
    const u32 with_bits = ballot(nonzero != 0);
    if (lane() < 8) shared_.planes_used[8 * warp() + lane()] = (with_bits >> (4 * lane()) & 15) != 0 ? 1 : 0;
    u32 total = 0;
    bool any_behind = false;
    u32 place = shift_ + scan_of_block(nonzero, shared_.totals, total, is_behind, any_behind);
    H5L_UNROLL for (u32 i = 0; i < 4; ++i) {
      shared_.pieces[4 * thread() + i] = {words[i], place};
      place += ones(words[i]);
    }
    planes_used_ = ballot(shared_.planes_used[lane()] != 0);
    sync_block();
    return total == kept0_at && !any_behind;
  }

  // Word thread() % 8 of a piece of the stream. Called by all threads of a warp; lane i provides the selector for the
  // flags i.
  H5L_DEVICE u32 stream_word(u32 number) const {
    const StreamPiece piece = shared_.pieces[number];
    const u32 shift = 4 * (thread() % 8);
    const u32 bytes = word_in_area(piece.place + ones(piece.flags & ((u32{1} << shift) - 1)));
    return permute_signed(bytes, 0, shuffle(selector_, piece.flags >> shift));
  }

  // Eight planes, from bit 8 s on, as bytes of the thread's values. Branch-free if all eight are used or the call is
  // rare, so that their loads overlap.
  template <bool is_seldom>
  H5L_DEVICE void restore_bytes(u32 s, u32 (&rows)[8]) const {
    const u32 used = planes_used_ >> (24 - 8 * s) & 0xFF;  // the lowest plane first
    const auto plane = [&](u32 c) { return stream_word((31 - 8 * s - c) * (kThreads / 8) + thread() / 8); };
    H5L_UNROLL for (u32 c = 0; c < 8; ++c) rows[c] = 0;
    if (used == 0) return;
    if constexpr (is_seldom) {
      // In most warps, high planes are 0: they belong to the exceptions of other warps.
      const u32 own = (31 - 8 * s - lane() / 4) * (kThreads / 8) + 4 * warp() + lane() % 4;
      if (!any_in_warp(shared_.pieces[own].flags != 0)) return;
    }
    if (is_seldom || used == 0xFF) {
      H5L_UNROLL for (u32 c = 0; c < 8; ++c) rows[c] = plane(c);
    } else {
      H5L_UNROLL for (u32 c = 0; c < 8; ++c) {
        if ((used & (0xFF >> c)) == 0) break;  // nor are higher ones
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
      u32* const stream = reinterpret_cast<u32*>(shared_.area);
      u32 own[kRowBytes / 4];  // the stream overwrites the payload
      if constexpr (sizeof(T) == 8) {
        H5L_UNROLL for (u32 i = 0; i < kRowBytes / 4; ++i) own[i] = stream_word((i * kThreads + thread()) / 8);
        sync_block();
        H5L_UNROLL for (u32 i = 0; i < kRowBytes / 4; ++i) stream[i * kThreads + thread()] = own[i];
      } else {  // at most one tile of a frame: short code rather than fast
        H5L_NO_UNROLL for (u32 i = 0; i < kRowBytes / 4; ++i) own[i] = stream_word((i * kThreads + thread()) / 8);
        sync_block();
        H5L_NO_UNROLL for (u32 i = 0; i < kRowBytes / 4; ++i) stream[i * kThreads + thread()] = own[i];
      }
      sync_block();
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

  const DecodePlan& plan_;
  const DecodeJob& job_;
  DecodeShared& shared_;
  u32 raw_bytes_ = 0, bytes_ = 0;
  u32 planes_used_ = 0;  // bit j: plane j of a full tile of float32 is nonzero
  u32 shift_ = 0;        // offset of the payload in the area
  u32 selector_ = 0;     // of permute: spreads a word's nonzero bytes, for the lane's lowest four bits as flags
};

// The kernel for lossless frames also ends a call: it copies stored frames and compares the checksums.
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

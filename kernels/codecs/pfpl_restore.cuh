// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The first part of PFPL's decoders: from the payload to the stream of planes.
#pragma once

#include "codecs/pfpl_zero_removal.h"
#include "kernels/common/tile_io.cuh"

namespace h5lossy::H5L_TARGET::pfpl {

// Eight words of the stream of planes: which of their bytes are nonzero, and the place of the first nonzero one in the
// area.
struct StreamPiece {
  u32 flags, place;
};

// The area has `area_bytes`, at least 32 more than the stream.
template <u32 area_bytes>
struct alignas(16) RestoreShared {
  // The payload with the bytes around it, 16-byte aligned; later the stream of planes, or values.
  u8 area[area_bytes];
  StreamPiece pieces[kStreamBytes / 32 + 1];  // the last one is for stream_words alone
  u32 bitmap1[kBitmap1Bytes / 4];
  u16 kept1[kThreads];  // kept bytes of bitmap0 before each two bytes of bitmap1
  u8 planes_used[32];
  u32 totals[kWarps];
  u32 word_totals[2 * kWarps];
  u32 kept0_at;
  u32 is_valid;
};

template <class Shared>
class ZeroRestorer {
 protected:
  H5L_DEVICE ZeroRestorer(const DecodePlan& plan, const DecodeJob& job, Shared& shared)
      : plan_(plan), job_(job), shared_(shared) {
    u32 rank = 0;
    H5L_UNROLL for (u32 i = 0; i < 4; ++i) {
      const u32 is_set = thread() >> i & 1;
      selector_ |= (is_set != 0 ? rank : 4u) << (4 * i);
      rank += is_set;
    }
  }

  // Starts to copy a payload into the area, extended to multiples of 16 bytes within the frame.
  H5L_DEVICE void load(const TileSpan& span) {
    const u8* const from = payloads_of(plan_, job_) + span.begin;
    shift_ = static_cast<u32>(reinterpret_cast<u64>(from)) & 15;
    const u32 end = shift_ + bytes_;
    const u32 left = job_.payload_bytes - span.begin + shift_;  // bytes left in the frame
    const u32 in_pieces = left & ~15u, most = end < in_pieces ? end : in_pieces;
    H5L_NO_UNROLL for (u32 at = thread() * 16; at < most; at += kThreads * 16) {
      copy_async<16>(shared_.area + at, from - shift_ + at);
    }
    if (end > in_pieces) {
      const u32 at = in_pieces + thread();
      if (at < left) shared_.area[at] = static_cast<u8>(load_constant(from - shift_ + at));
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

  // Restores bitmaps 3, 2 and 1, which end at byte `left` of the payload. Called by one warp.
  H5L_DEVICE void restore_upper_bitmaps(u32 left) {
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
  template <bool finds_planes>
  H5L_DEVICE bool restore_bitmaps() {
    sync_block();
    if (shared_.is_valid == 0) return false;
    const u32 kept0_at = shared_.kept0_at;

    // Each thread has two bytes of bitmap1, hence 16 of bitmap0, in words of four. A word's bytes are kept ones or the
    // last byte of the word before; lane i provides the selector for the flags i.
    u32 selector = 0, rank = 0;
    H5L_UNROLL for (u32 i = 0; i < 4; ++i) {
      rank += thread() >> i & 1;
      selector |= (rank != 0 ? rank - 1 : 7) << (4 * i);
    }
    u32 flags = shared_.bitmap1[thread() / 2] >> (16 * (thread() % 2)) & 0xFFFF;
    u32 so_far = shared_.kept1[thread()];
    u32 words[4];
    u32 before = kept_byte(kept0_at, so_far) << 24;
    H5L_UNROLL for (u32 i = 0; i < 4; ++i) {
      before = words[i] = permute(word_at(kept0_at + so_far), before, shuffle(selector, flags));
      so_far += ones(flags & 15);
      flags >>= 4;
    }
    u32 nonzero = 0;
    H5L_UNROLL for (u32 i = 0; i < 4; ++i) nonzero += ones(words[i]);
    bool is_behind = false;  // flags a byte past the tile's end
    if (raw_bytes_ < kStreamBytes) {
      H5L_UNROLL for (u32 i = 0; i < 4; ++i) {
        const u32 first = (4 * thread() + i) * 32;
        if (first + 32 > raw_bytes_) {
          is_behind |= first >= raw_bytes_ ? words[i] != 0 : words[i] >> (raw_bytes_ - first) != 0;
        }
      }
    }
    if constexpr (finds_planes) {
      // In a full tile of float32, four threads have the bitmap of a plane.
      const u32 with_bits = ballot(nonzero != 0);
      if (lane() < 8) shared_.planes_used[8 * warp() + lane()] = (with_bits >> (4 * lane()) & 15) != 0 ? 1 : 0;
    }
    u32 total = 0;
    bool any_behind = false;
    u32 place = shift_ + scan_of_block(nonzero, shared_.totals, total, is_behind, any_behind);
    H5L_UNROLL for (u32 i = 0; i < 4; ++i) {
      shared_.pieces[4 * thread() + i] = {words[i], place};
      place += ones(words[i]);
    }
    if constexpr (finds_planes) planes_used_ = ballot(shared_.planes_used[lane()] != 0);
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

  // Up to four words of the stream, from byte `at` on. Nonzero bytes of a piece follow those of the piece before.
  template <u32 n>
  H5L_DEVICE void stream_words(u32 at, u32 (&words)[n]) const {
    const StreamPiece piece = shared_.pieces[at / 32];
    u32 flags = funnel_right(piece.flags, shared_.pieces[at / 32 + 1].flags, at);
    u32 place = piece.place + ones(piece.flags & ~funnel_left(0, ~u32{0}, at));
    H5L_UNROLL for (u32 k = 0; k < n; ++k) {
      words[k] = permute_signed(word_in_area(place), 0, shuffle(selector_, flags));
      place += ones(flags & 15);
      flags >>= 4;
    }
  }

  // Replaces the payload in the area by the stream of planes. If it is seldom needed, short code is better than fast
  // code.
  template <bool is_seldom>
  H5L_DEVICE void restore_stream() {
    constexpr u32 own_words = kStreamBytes / 4 / kThreads;
    u32* const stream = reinterpret_cast<u32*>(shared_.area);
    u32 own[own_words];
    if constexpr (is_seldom) {
      H5L_NO_UNROLL for (u32 i = 0; i < own_words; ++i) own[i] = stream_word((i * kThreads + thread()) / 8);
      sync_block();
      H5L_NO_UNROLL for (u32 i = 0; i < own_words; ++i) stream[i * kThreads + thread()] = own[i];
    } else {
      H5L_UNROLL for (u32 i = 0; i < own_words; ++i) own[i] = stream_word((i * kThreads + thread()) / 8);
      sync_block();
      H5L_UNROLL for (u32 i = 0; i < own_words; ++i) stream[i * kThreads + thread()] = own[i];
    }
    sync_block();
  }

  const DecodePlan& plan_;
  const DecodeJob& job_;
  Shared& shared_;
  u32 raw_bytes_ = 0, bytes_ = 0;  // of the tile and of its payload
  u32 planes_used_ = 0;            // bit j: plane j of a full tile of float32 is nonzero
  u32 shift_ = 0;                  // offset of the payload in the area
  u32 selector_ = 0;  // of permute: spreads a word's nonzero bytes, for the lane's lowest four bits as flags
};

}  // namespace h5lossy::H5L_TARGET::pfpl

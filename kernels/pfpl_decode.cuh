// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// PFPL's decoder: a thread block for every n-th tile of a frame, a thread for 128 bytes of its values.
#pragma once

#include "codecs/pfpl.h"
#include "quantizing.cuh"
#include "reading.cuh"

namespace h5lossy::H5L_TARGET::pfpl {

struct alignas(16) DecodeShared {
  u8 rows[kTileBytes];  // the stream of planes, then rows of values
  PayloadShared<kTileBytes / 2> payloads;
  u32 bitmap0[kStreamBytes / 32];
  u16 places[kStreamBytes / 32];  // of the first byte that a word of bitmap0 tells of, in the payload's area
  u8 bitmap1[kBitmap1Bytes];
  u8 planes_used[32];
  u32 selectors[16];  // of permute: where the non-zero bytes of a word go
  u32 totals[kWarps];
  u32 more_totals[kWarps];
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
  H5L_DEVICE Decoder(const DecodePlan& plan, DecodeShared& shared)
      : plan_(plan), job_(shared.payloads.job), shared_(shared) {
    if (thread() < 16) {
      u32 selector = 0, rank = 0;
      for (u32 i = 0; i < 4; ++i) selector |= ((thread() >> i & 1) != 0 ? rank++ : 4u) << (4 * i);
      shared.selectors[thread()] = selector;
    }
  }

  // A tile's payload, whose place in the frame is `span`, begins `shift` bytes behind `area`.
  H5L_DEVICE void decode(u32 tile, const TileSpan& span, const u8* area, u32 shift) {
    const u32 left = job_.shape.raw_bytes - tile * kTileBytes;
    raw_bytes_ = left < kTileBytes ? left : kTileBytes;
    if (!span.is_sane || span.bytes > raw_bytes_) return report_corrupt(plan_);
    bytes_ = span.bytes;
    area_ = area;
    shift_ = shift;
    sum_payload<2>(plan_, job_, tile, 0, bytes_ / 4, [&](u32 i) { return word_at(4 * i); });
    if (job_.check_sum != 0 && bytes_ % 4 != 0 && thread() == 0) {  // the last word, padded with zeros
      const u32 own = word_at(bytes_ & ~3u) & ((u32{1} << (8 * (bytes_ % 4))) - 1);
      atomic_add(plan_.sums + block_row(), mix(own + tile * 0x85EBCA77u + (bytes_ / 4 + 1) * 0x9E3779B9u));
    }
    W words[kValues];
    if (bytes_ == raw_bytes_) {
      stored(words);
    } else if (bytes_ == 0) {
      H5L_UNROLL for (u32 v = 0; v < kValues; ++v) words[v] = 0;
    } else {
      if (any_in_block(!restore_bitmaps())) return report_corrupt(plan_);
      restore_words(words);
      const Q q = quantizer_as<T, Q>(job_.quantizer);
      values_of_words(q, words);
    }
    store_row<kRowBytes>(shared_.rows, words);
    finish_values<kRowBytes, W>(job_, shared_.rows, u64{tile} * kTileValues<T>,
                                raw_bytes_ / static_cast<u32>(sizeof(T)));
  }

 private:
  // Four bytes of the payload; what is behind its end is anything.
  H5L_DEVICE u32 word_at(u32 at) const { return word_in_area(shift_ + at); }
  // The same, from the beginning of the area on.
  H5L_DEVICE u32 word_in_area(u32 place) const {
    const u32* const words = reinterpret_cast<const u32*>(area_ + (place & ~3u));
    return funnel_right(words[0], words[1], 8 * place);
  }
  H5L_DEVICE u32 byte_at(u32 at) const { return area_[shift_ + at]; }

  H5L_DEVICE void stored(W (&words)[kValues]) const {
    H5L_UNROLL for (u32 v = 0; v < kValues; ++v) {
      const u32 at = thread() * kRowBytes + v * static_cast<u32>(sizeof(T));
      words[v] = 0;
      if (at >= raw_bytes_) continue;
      words[v] = word_at(at);
      if constexpr (sizeof(T) == 8) words[v] |= static_cast<W>(word_at(at + 4)) << 32;
    }
  }

  // The byte that is the latest kept one where `kept` have been kept so far.
  H5L_DEVICE u32 kept_byte(u32 first, u32 kept) const { return kept == 0 ? 0 : byte_at(first + kept - 1); }

  // False: they contradict themselves.
  H5L_DEVICE bool restore_bitmaps() {
    if (warp() == 0) {
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
      u32 changes = 0;
      if (is_valid) {
        left -= all_kept;
        u32 so_far = kept - ones(byte2);
        H5L_NO_UNROLL for (u32 b = 0; b < 8; ++b) {
          so_far += byte2 >> b & 1;
          const u32 byte1 = kept_byte(left, so_far);
          shared_.bitmap1[8 * lane() + b] = static_cast<u8>(byte1);
          changes += ones(byte1);
        }
      }
      changes = sum_of_warp(changes);
      is_valid = is_valid && left >= changes;
      if (lane() == 0) {
        shared_.kept0_at = left - changes;
        shared_.is_valid = is_valid ? 1 : 0;
      }
    }
    sync_block();
    if (shared_.is_valid == 0) return false;
    const u32 kept0_at = shared_.kept0_at;

    // Each thread: two bytes of bitmap1, so 16 of bitmap0.
    const u32 byte1 = reinterpret_cast<const u16*>(shared_.bitmap1)[thread()];
    u32 total = 0;
    u32 so_far = scan_of_block(ones(byte1), shared_.totals, total);
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
    bool is_behind = false;  // of a byte that the tile does not have
    H5L_UNROLL for (u32 i = 0; i < 4; ++i) {
      shared_.bitmap0[4 * thread() + i] = words[i];
      nonzero += ones(words[i]);
      const u32 first = (4 * thread() + i) * 32;
      if (first + 32 > raw_bytes_) {
        is_behind |= first >= raw_bytes_ ? words[i] != 0 : words[i] >> (raw_bytes_ - first) != 0;
      }
    }
    // Of a full tile of float32, four threads have the bitmap of a plane.
    const u32 with_bits = ballot(nonzero != 0);
    if (lane() < 8) shared_.planes_used[8 * warp() + lane()] = (with_bits >> (4 * lane()) & 15) != 0 ? 1 : 0;
    u32 place = shift_ + scan_of_block(nonzero, shared_.more_totals, total);
    H5L_UNROLL for (u32 i = 0; i < 4; ++i) {
      shared_.places[4 * thread() + i] = static_cast<u16>(place);
      place += ones(words[i]);
    }
    planes_used_ = ballot(shared_.planes_used[lane()] != 0);
    return total == kept0_at && !is_behind;
  }

  // Word w of the stream of planes.
  H5L_DEVICE u32 stream_word(u32 w) const {
    const u32 flags = shared_.bitmap0[w / 8];
    const u32 shift = 4 * (w % 8);
    const u32 bytes = word_in_area(shared_.places[w / 8] + ones(flags & ((u32{1} << shift) - 1)));
    return permute(bytes, 0, shared_.selectors[flags >> shift & 15]);
  }

  // The words of the thread's values, after a barrier.
  H5L_DEVICE void restore_words(W (&words)[kValues]) {
    constexpr u32 group_values = kGroupValues<T>;
    const u32 count = raw_bytes_ / static_cast<u32>(sizeof(T));
    const u32 groups = count / group_values;
    const u32 first = thread() * kValues;
    const u32 group = first / group_values;
    W total = 0;
    W* const totals = reinterpret_cast<W*>(shared_.word_totals);
    if (sizeof(T) == 4 && raw_bytes_ == kTileBytes) {
      if constexpr (sizeof(T) == 4) {
        H5L_UNROLL for (u32 s = 0; s < 4; ++s) {
          u32 rows[8];
          H5L_UNROLL for (u32 c = 0; c < 8; ++c) rows[c] = 0;
          if ((planes_used_ >> (24 - 8 * s) & 0xFF) != 0) {
            H5L_UNROLL for (u32 c = 0; c < 8; ++c) {
              const u32 j = 31 - 8 * s - c;
              if ((planes_used_ >> j & 1) != 0) rows[c] = stream_word(j * kThreads + thread());
            }
            transpose_bytes(rows);
          }
          H5L_UNROLL for (u32 r = 0; r < 8; ++r) words[31 - 8 * s - r] = rows[r];
        }
        if ((planes_used_ & 0xFFFF) == 0) {
          add_up_halves(words);
          return;
        }
        join_bytes(words);
      }
    } else {
      u32* const stream = reinterpret_cast<u32*>(shared_.rows);
      H5L_NO_UNROLL for (u32 w = thread(); w < kStreamBytes / 4; w += kThreads) stream[w] = stream_word(w);
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
          from_pieces(shared_.rows + group * 8 + (48 - first % group_values) / 8, groups * 8, words);
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
    const W before = scan_of_block(words[kValues - 1], totals, total);  // also: the stream has been read
    H5L_UNROLL for (u32 v = 0; v < kValues; ++v) words[v] += before;
  }

  // Residuals of 16 bits, whose bytes are where join_bytes takes them, to words. Two stay in one register, and are added
  // from there.
  H5L_DEVICE void add_up_halves(u32 (&words)[32]) {
    constexpr u32 bias = 0xAAAA;  // what negabinary numbers, with these bits changed, are too large by
    u32 pairs[16];                // number r: residuals 31 - r and 23 - r; number 8 + r: residuals 15 - r and 7 - r
    u32 own = 0;
    H5L_UNROLL for (u32 r = 0; r < 8; ++r) {
      const u32 a = words[31 - r], b = words[23 - r];
      pairs[r] = permute(a, b, 0x5140) ^ bias * 0x10001;
      pairs[8 + r] = permute(a, b, 0x7362) ^ bias * 0x10001;
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

  // Bytes s of the values 8 i + 7 - r are those of words[31 - 8 s - r], from the highest i on.
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
  u32 planes_used_ = 0;  // bit j: plane j of a full tile of float32 has bits
  const u8* area_ = nullptr;
  u32 shift_ = 0;  // where the payload begins in its area
};

template <class T, class Q>
H5L_DEVICE void decode(const DecodePlan& plan) {
  DecodeShared& shared = *reinterpret_cast<DecodeShared*>(shared_memory());
  Decoder<T, Q> decoder(plan, shared);
  using OfTiles = Payloads<kTileBytes / 2, kTileBytes>;
  for (OfTiles payloads(plan, shared.payloads, kTileBytes); payloads.has_item(); payloads.go_on()) {
    payloads.wait();
    decoder.decode(payloads.tile(), payloads.span(), payloads.area(), payloads.shift());
  }
}

}  // namespace h5lossy::H5L_TARGET::pfpl

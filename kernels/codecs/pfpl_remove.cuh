// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The last part of PFPL's encoders: from the stream of planes to the payload.
#pragma once

#include "codecs/pfpl_zero_removal.h"
#include "kernels/common/lookback.cuh"

namespace h5lossy::H5L_TARGET::pfpl {

inline constexpr u32 kRowBytes = kStreamBytes / kThreads;  // values of a thread
inline constexpr u32 kBitmap0Words = kBitmap0Bytes / 4;

// Bytes of the ring of payloads. A tile that may need more than its size plus the last bitmaps is stored.
inline constexpr u32 kRoom = kStreamBytes + 512;

template <u32 input_bytes>
struct alignas(16) RemoveShared {
  u8 input[input_bytes];  // values; in some tiles, later the stream of planes
  u8 staged[kRoom];
  u32 before_bitmap0[4];  // zeros
  u32 bitmap0[kBitmap0Words];
  u16 places[kBitmap0Words];  // of the first byte described by a word of bitmap0, relative to its eight planes
  u8 bitmap1[kBitmap1Bytes];
  u32 totals[kWarps];
  u32 warp_ends[2 * kWarps];  // last word of each warp
  LoopShared<TilePlaces> loop;
};

// nonzero_bytes of a word of 32 bits, in fewer instructions: in the highest bits, or alone.
H5L_DEVICE u32 flags_of_bytes(u32 word) {
  constexpr u32 low7 = 0x7F7F7F7F;
  return ((((word & low7) + low7) | word) & ~low7) * 0x00204081u;
}
H5L_DEVICE u32 nonzero_bytes_of_word(u32 word) { return flags_of_bytes(word) >> 28; }

template <class Shared>
class ZeroRemover {
 protected:
  H5L_DEVICE explicit ZeroRemover(Shared& shared) : shared_(shared) {
    if (thread() < 4) shared.before_bitmap0[thread()] = 0;
  }

  // Loads the thread's words of the stream, laid out like words of planes, and builds bitmap0.
  H5L_DEVICE void take_stream() {
    const u32* const stream = reinterpret_cast<const u32*>(shared_.input);
    u8* const bytes = reinterpret_cast<u8*>(shared_.bitmap0);
    planes_used_ = kIsStream;
    H5L_UNROLL for (u32 j = 0; j < kWords; ++j) {
      const u32 w = j * kThreads + thread();
      words_[j] = stream[w];
      const u32 flags = nonzero_bytes_of_word(words_[j]);
      const u32 next = shuffle_xor(flags, 1);
      if (lane() % 2 == 0) bytes[w / 2] = static_cast<u8>(flags | next << 4);
    }
  }

  // Bit i: byte i of a bitmap's word differs from the byte before it; `before` is the previous word.
  H5L_DEVICE static u32 changes_of(u32 word, u32 before) {
    return nonzero_bytes_of_word(word ^ funnel_left(before, word, 8));
  }

  // Computes the size of the payload; valid in the first thread.
  H5L_DEVICE u32 measure_bitmaps() {
    // Each thread has 16 bytes of bitmap0, hence two of bitmap1.
    const Quad words = *reinterpret_cast<const Quad*>(shared_.bitmap0 + 4 * thread());
    const u32 before = *(shared_.bitmap0 + 4 * thread() - 1);
    const u32 changes0 = changes_of(words.x, before) | changes_of(words.y, words.x) << 4 |
                         changes_of(words.z, words.y) << 8 | changes_of(words.w, words.z) << 12;
    reinterpret_cast<u16*>(shared_.bitmap1)[thread()] = static_cast<u16>(changes0);
    const u32 counts[4] = {ones(words.x), ones(words.y), ones(words.z), ones(words.w)};
    const u32 own = (counts[0] + counts[1] + counts[2] + counts[3]) | ones(changes0) << 16;
    const u32 inclusive = scan_of_warp(own);
    if (lane() == kWarpThreads - 1) shared_.totals[warp()] = inclusive;
    u32 place = (inclusive - own) & 0xFFFF;
    H5L_UNROLL for (u32 i = 0; i < 4; ++i) {
      shared_.places[4 * thread() + i] = static_cast<u16>(place);
      place += counts[i];
    }
    sync_block();
    u32 before_it = inclusive - own, totals = 0;
    H5L_UNROLL for (u32 w = 0; w < kWarps; ++w) {
      if (w < warp()) before_it += shared_.totals[w];
      totals += shared_.totals[w];
    }
    const u32 nonzero_bytes_there = totals & 0xFFFF;
    kept0_ = (nonzero_bytes_there + (before_it >> 16)) | changes0 << 16;
    const u32 kept1_at = nonzero_bytes_there + (totals >> 16);
    constexpr u32 most_behind = kBitmap1Bytes + kBitmap1Bytes / 8 + kBitmap3Bytes;
    room_ = nonzero_bytes_there == 0 ? 0 : (kept1_at + most_behind + 15) / 16 * 16;
    if (warp() != 0) return 0;
    // Each thread has eight bytes of bitmap1, hence one of bitmap2.
    const u64 word = reinterpret_cast<const u64*>(shared_.bitmap1)[lane()];
    u32 last = static_cast<u32>(word >> 56);
    last = shuffle_up(last, 1);
    const u32 changes1 = nonzero_bytes(word ^ (word << 8 | (lane() == 0 ? 0 : last)));
    const u32 byte_before = shuffle_up(changes1, 1);
    const u32 changes2 = ballot(changes1 != (lane() == 0 ? 0 : byte_before));
    const u32 kept = scan_of_warp(ones(changes1));
    kept1_ = (kept1_at + kept - ones(changes1)) | changes1 << 16;
    const u32 kept2_at = kept1_at + shuffle(kept, kWarpThreads - 1);
    return nonzero_bytes_there == 0 ? 0 : kept2_at + ones(changes2) + kBitmap3Bytes;
  }

  // Writes the kept bytes of bitmaps 1 and 2, and bitmap 3. Called by the first warp.
  H5L_DEVICE void write_last_bitmaps(u8* payload) const {
    const u32 changes1 = kept1_ >> 16;
    u8* out = payload + (kept1_ & 0xFFFF);
    for (u32 changes = changes1; changes != 0; changes &= changes - 1) {
      *out++ = shared_.bitmap1[8 * lane() + lowest_one(changes)];
    }
    const u32 byte_before = shuffle_up(changes1, 1);
    const u32 changes2 = ballot(changes1 != (lane() == 0 ? 0 : byte_before));
    out = payload + shuffle((kept1_ & 0xFFFF) + ones(changes1), kWarpThreads - 1);
    if ((changes2 >> lane() & 1) != 0) out[ones(changes2 & lanes_below())] = static_cast<u8>(changes1);
    out += ones(changes2);
    if (lane() < kBitmap3Bytes) out[lane()] = static_cast<u8>(changes2 >> (8 * lane()));
  }

  // Writes the nonzero bytes of word w of the stream. `bytes` is the place of the first one of its eight planes.
  H5L_DEVICE void write_bytes(u8* bytes, u32 w, u32 word) const {
    const u32 flags = shared_.bitmap0[w / 8];
    const u32 shift = 4 * (w % 8);
    u8* out = bytes + shared_.places[w / 8] + ones(flags & ((u32{1} << shift) - 1));
    const u32 own = flags >> shift;
    if ((own & 1) != 0) *out++ = static_cast<u8>(word);
    if ((own & 2) != 0) *out++ = static_cast<u8>(word >> 8);
    if ((own & 4) != 0) *out++ = static_cast<u8>(word >> 16);
    if ((own & 8) != 0) *out = static_cast<u8>(word >> 24);
  }

  // Writes the kept bytes of all bitmaps of the measured payload.
  H5L_DEVICE void write_bitmaps(u8* out) const {
    const u8* const bitmap0 = reinterpret_cast<const u8*>(shared_.bitmap0) + 16 * thread();
    u8* kept = out + (kept0_ & 0xFFFF);
    for (u32 changes = kept0_ >> 16; changes != 0; changes &= changes - 1) *kept++ = bitmap0[lowest_one(changes)];
    if (warp() == 0) write_last_bitmaps(out);
  }

  // Writes the nonzero bytes of the stream.
  H5L_DEVICE void write_planes(u8* bytes) const {
    // Each warp writes the bitmap of eight planes.
    static_assert(kWords == 8 * kWarps);
    H5L_UNROLL for (u32 w = 0; w < kWarps; ++w) {
      if ((planes_used_ << (8 * w) >> 24) != 0) {
        H5L_UNROLL for (u32 j = 8 * w; j < 8 * w + 8; ++j) {
          // A plane whose bytes are all zero in this warp has nothing to write.
          if ((planes_used_ >> (31 - j) & 1) != 0) write_bytes(bytes, j * kThreads + thread(), words_[j]);
        }
      }
      bytes += shared_.totals[w] & 0xFFFF;
    }
  }

  static constexpr u32 kWords = kRowBytes / 4;  // words of the stream per thread
  static constexpr u32 kIsStream = ~u32{0};

  Shared& shared_;
  u32 words_[kWords];    // of the stream of planes: number i * kThreads + thread()
  u32 planes_used_ = 0;  // flags of planes, in a full tile of float64 of four planes each; kIsStream: of all
  u32 room_ = 0;         // 0: nothing to write
  u32 kept0_ = 0;        // place of the thread's kept bytes of bitmap0, and from bit 16 on their flags
  u32 kept1_ = 0;        // the first warp's, for bitmap1
};

}  // namespace h5lossy::H5L_TARGET::pfpl

// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// PFPL's encoder: a thread block per tile of 16 KiB, a thread per 128 bytes of it. The format is in
// docs/format/pfpl.md, the reasons for this design in docs/design/gpu.md.
#pragma once

#include "codecs/pfpl.h"
#include "kernels/codecs/pfpl_remove.cuh"
#include "kernels/codecs/pfpl_words.cuh"

namespace h5lossy::H5L_TARGET::pfpl {

using EncodeShared = RemoveShared<kTileBytes>;

template <class T, class Q>
class Encoder : ZeroRemover<EncodeShared> {
  using W = Word<T>;
  static constexpr u32 kValues = kRowBytes / sizeof(T);
  static constexpr W kBias = static_cast<W>(kWordBias<Q>);  // not part of differences

 public:
  static constexpr bool kIsLossless = kIsLosslessQuantizer<Q>;
  using Places = TilePlaces;
  static constexpr u32 kRoom = pfpl::kRoom;
  static constexpr u32 kMostWaiting = 2;

  H5L_DEVICE Encoder(EncodeShared& shared, const EncodePlan& plan) : ZeroRemover<EncodeShared>(shared), plan_(plan) {}

  // Finds a tile's values.
  H5L_DEVICE void find_values(OwnTile& tile) const {
    const u32 left = plan_.shape.raw_bytes - tile.work.index * kTileBytes;
    tile.values = raw_of(plan_, tile.work.chunk) + u64{tile.work.index} * kTileBytes;
    tile.raw_bytes = left < kTileBytes ? left : kTileBytes;
  }

  H5L_DEVICE void start(const OwnTile& tile) {
    start_rows<kRowBytes, sizeof(T)>(shared_.input, tile.values, tile.raw_bytes);
  }

  // Returns the size of the payload, or that of the values if the tile is stored; valid in the first thread.
  H5L_DEVICE u32 measure(const OwnTile& tile) {
    const Q q = quantizer_as<T, Q>(quantizer_of(plan_, tile.work.chunk));
    const u32 raw_bytes = tile.raw_bytes;
    finish_start<kRowBytes>(tile.values, raw_bytes);
    W words[kValues];
    bool has_words = words_of_row(q, raw_bytes, words);
    residuals_of(words);
    // Both branches define all of words_ after their barriers; otherwise the previous tile's words would occupy
    // registers.
    if (raw_bytes == kTileBytes) {
      planes_in_registers(words);
      has_words = !any_in_block(!has_words);  // also: bitmap0 is complete
    } else {
      planes_in_shared_memory(raw_bytes, words);
      has_words = !any_in_block(!has_words);  // also: the stream is complete
      take_stream();
      sync_block();
    }
    const u32 size = measure_bitmaps();
    if (!has_words || room_ > kRoom) room_ = 0;
    return has_words && size < raw_bytes ? size : raw_bytes;
  }

  // An upper bound of the payload's size, since most threads do not know the exact size yet.
  [[nodiscard]] H5L_DEVICE u32 room() const { return room_ == 0 ? 16 : room_; }

  // Keeps the words in the rows of values while another tile is copied out.
  H5L_DEVICE void stash() { store_row<kRowBytes>(shared_.input, words_); }
  H5L_DEVICE void unstash() { load_row<kRowBytes>(shared_.input, words_); }

  // Writes the measured payload to the ring, at byte `at`.
  H5L_DEVICE void write(const OwnTile&, u32 at) {
    if (room_ == 0) return;
    u8* const out = shared_.staged + at;
    write_bitmaps(out);
    if constexpr (sizeof(T) == 8) {
      if (planes_used_ != kIsStream) return write_quarters(out);
    }
    write_planes(out);
  }

  H5L_DEVICE void publish(OwnTile& tile, u32 bytes) const { publish_size(plan_, tile, bytes); }

  // Copies a payload to the frame.
  H5L_DEVICE u32 emit(const OwnTile& tile, u32& table_sum) const {
    const u32 begin = shared_.loop.places.begin;
    u8* const to = place_tile(plan_, tile.work.chunk, tile.work.index, begin, begin + tile.bytes, table_sum);
    if (to == nullptr) return 0;
    if (tile.bytes == tile.raw_bytes) return h5lossy::H5L_TARGET::emit(to, tile, tile.values);
    return h5lossy::H5L_TARGET::emit(to, tile, shared_.staged + tile.at);
  }

 private:
  // Computes the words of the thread's values. False if a value has none.
  H5L_DEVICE bool words_of_row(const Q& q, u32 raw_bytes, W (&words)[kValues]) {
    load_row<kRowBytes>(shared_.input, words);
    if constexpr (kIsLossless) {
      return true;
    } else {
      const u32 first = thread() * kValues * static_cast<u32>(sizeof(T));
      const u32 count = raw_bytes <= first ? 0 : (raw_bytes - first) / static_cast<u32>(sizeof(T));
      const bool is_good = zigzags_of(q, words);
      if (count >= kValues && is_good) return true;
      const bool has_words = repeat_words<kRowBytes>(q, shared_.input, count < kValues ? count : kValues);
      load_row<kRowBytes>(shared_.input, words);
      return has_words;
    }
  }

  // Differences of neighbouring words, in negabinary.
  H5L_DEVICE void residuals_of(W (&words)[kValues]) {
    W* const warp_ends = reinterpret_cast<W*>(shared_.warp_ends);
    if (lane() == kWarpThreads - 1) warp_ends[warp()] = words[kValues - 1];
    W before = shuffle_up(words[kValues - 1], 1);
    sync_block();  // also: the input is free
    if (lane() == 0) before = warp() == 0 ? kBias : warp_ends[warp() - 1];
    H5L_UNROLL for (u32 v = kValues - 1; v > 0; --v) words[v] = to_negabinary(static_cast<W>(words[v] - words[v - 1]));
    words[0] = to_negabinary(static_cast<W>(words[0] - before));
  }

  // A full tile of float32: thread t transposes group t, and then holds word t of every plane.
  H5L_DEVICE void planes_in_registers(const u32 (&row)[32]) {
    u32(&words)[32] = words_;
    H5L_UNROLL for (u32 v = 0; v < 32; ++v) words[v] = row[v];
    // Flags of nonzero bytes per plane: byte b of a plane's word holds values 31 - 8 b - 7 to 31 - 8 b.
    u32 used[4];
    H5L_UNROLL for (u32 b = 0; b < 4; ++b) {
      used[b] = words[24 - 8 * b];
      H5L_UNROLL for (u32 i = 1; i < 8; ++i) used[b] |= words[24 - 8 * b + i];
    }
    planes_used_ = or_of_warp(used[0] | used[1] | used[2] | used[3]);
    bitmap_of_flags(used);
    // Bytes s of four values make a row of eight planes.
    if (planes_used_ >> 16 == 0) {
      H5L_UNROLL for (u32 r = 0; r < 8; ++r) {
        const u32 low = permute(words[31 - r], words[23 - r], 0x5410),
                  high = permute(words[15 - r], words[7 - r], 0x5410);
        words[31 - r] = permute(low, high, 0x6420);
        words[23 - r] = permute(low, high, 0x7531);
      }
    } else {
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
    H5L_UNROLL for (u32 s = 0; s < 4; ++s) {
      if (((planes_used_ >> (8 * s)) & 0xFF) == 0) continue;
      u32 rows[8];
      H5L_UNROLL for (u32 r = 0; r < 8; ++r) rows[r] = words[31 - 8 * s - r];
      transpose_bytes(rows);
      H5L_UNROLL for (u32 c = 0; c < 8; ++c) words[31 - 8 * s - c] = rows[c];
    }
  }

  // A full tile of float64: the four threads of a group share its 64 planes. Each holds every fourth plane, from the
  // lowest bits up.
  H5L_DEVICE void planes_in_registers(const u64 (&row)[16]) {
    u64 used = 0;
    H5L_UNROLL for (const u64 word : row) used |= word;
    const u32 halves_used[2] = {or_of_warp(static_cast<u32>(used)), or_of_warp(static_cast<u32>(used >> 32))};
    const u32 own = lane() % 4;
    // Two threads exchange one of two planes with 16 bits each, and have 32 bits of the other; so do two pairs.
    const bool is_odd = own % 2 != 0, is_later = own >= 2;
    const u32 low_selector = is_odd ? 0x1054 : 0x5410, high_selector = is_odd ? 0x3276 : 0x7632;
    u8* const flags = reinterpret_cast<u8*>(shared_.bitmap0) + thread() / 4;
    planes_used_ = 0;
    H5L_UNROLL for (u32 s = 0; s < 8; s += 2) {  // 16 planes at a time
      const bool are_used = (halves_used[s / 4] >> (8 * (s % 4)) & 0xFFFF) != 0;
      if (are_used) {
        u32 rows[8];
        H5L_UNROLL for (u32 r = 0; r < 8; ++r) {
          rows[r] = permute(half_of(row[15 - r], s), half_of(row[7 - r], s), s % 4 == 0 ? 0x5140 : 0x7362);
        }
        transpose_bytes(rows);
        u32 pairs[2][4];
        H5L_UNROLL for (u32 i = 0; i < 4; ++i) {
          const u32 a = rows[2 * i], b = rows[2 * i + 1];
          const u32 other = shuffle_xor(is_odd ? a : b, 1), mine = is_odd ? b : a;
          pairs[0][i] = permute(other, mine, low_selector);
          pairs[1][i] = permute(other, mine, high_selector);
        }
        H5L_UNROLL for (u32 k = 0; k < 4; ++k) {
          const u32 a = pairs[k / 2][k % 2 * 2], b = pairs[k / 2][k % 2 * 2 + 1];
          const u32 other = shuffle_xor(is_later ? a : b, 2), mine = is_later ? b : a;
          words_[4 * s + 2 * k] = is_later ? mine : other;
          words_[4 * s + 2 * k + 1] = is_later ? other : mine;
        }
        planes_used_ |= 0xFu << (2 * s);
      }
      H5L_UNROLL for (u32 k = 0; k < 4; ++k) {
        if (!are_used) words_[4 * s + 2 * k] = words_[4 * s + 2 * k + 1] = 0;
        const u64 word = u64{words_[4 * s + 2 * k]} | u64{words_[4 * s + 2 * k + 1]} << 32;
        flags[(63 - 4 * (2 * s + k) - own) * (kThreads / 4)] = static_cast<u8>(nonzero_bytes(word));
      }
    }
  }

  // Builds bitmap0 from flags: bit k of used[b] is the flag of byte b of the thread's word in plane 31 - k. A word of
  // bitmap0 combines four flags from each of eight threads, all of one plane.
  H5L_DEVICE void bitmap_of_flags(const u32 (&used)[4]) {
    // Bytes 0 to 3 of result m belong to group m of eight planes: bit 8 b + i is plane bit 8 m + i. Words 1 and 2 are
    // swapped, which the last steps undo.
    const u32 low01 = permute(used[0], used[2], 0x5140), high01 = permute(used[0], used[2], 0x7362);
    const u32 low23 = permute(used[1], used[3], 0x5140), high23 = permute(used[1], used[3], 0x7362);
    u32 nibbles[4] = {permute(low01, low23, 0x5410), permute(low01, low23, 0x7632), permute(high01, high23, 0x5410),
                      permute(high01, high23, 0x7632)};
    const u32 in_eight = lane() % 8;
    H5L_UNROLL for (u32 m = 0; m < 4; ++m) {
      u32 word = 0;
      if (((planes_used_ >> (8 * m)) & 0xFF) != 0) {
        word = swap_bits<4, 2>(nibbles[m]);
        word = swap_bits<3, 1>(word);
        word = swap_bits<2, 0>(word);
        // Now four bits per plane. Eight threads exchange them: thread i gets those of plane bit 8 m + i.
        u32 other = shuffle_xor(word, 4);
        word = permute(word, other, (in_eight & 4) != 0 ? 0x3276 : 0x5410);
        other = shuffle_xor(word, 2);
        word = permute(word, other, (in_eight & 2) != 0 ? 0x3715 : 0x6240);
        other = shuffle_xor(word, 1);
        word = (in_eight & 1) != 0 ? merge<0xF0F0F0F0u>(word, other >> 4) : merge<0x0F0F0F0Fu>(word, other << 4);
      }
      shared_.bitmap0[(31 - (8 * m + in_eight)) * (kThreads / 8) + thread() / 8] = word;
    }
  }

  // Swaps bits i and j, i > j, of the bit numbers in a word.
  template <u32 i, u32 j>
  H5L_DEVICE static u32 swap_bits(u32 word) {
    constexpr u32 distance = (1u << i) - (1u << j);
    constexpr u32 mask = [] {
      u32 bits = 0;
      for (u32 n = 0; n < 32; ++n) {
        if ((n >> i & 1) == 0 && (n >> j & 1) == 1) bits |= 1u << n;
      }
      return bits;
    }();
    const u32 swapped = (word ^ (word >> distance)) & mask;
    return word ^ swapped ^ (swapped << distance);
  }

  // All other tiles: the stream of planes in shared memory.
  H5L_DEVICE void planes_in_shared_memory(u32 raw_bytes, const W (&words)[kValues]) {
    constexpr u32 group_values = kGroupValues<T>;
    u8* const stream = shared_.input;
    const u32 count = raw_bytes / static_cast<u32>(sizeof(T));
    const u32 groups = count / group_values;
    const u32 first = thread() * kValues;
    if (first + kValues <= groups * group_values) {
      const u32 group = first / group_values, in_group = first % group_values;
      if constexpr (sizeof(T) == 4) {
        H5L_UNROLL for (u32 s = 0; s < 4; ++s) {
          u32 rows[8];
          H5L_UNROLL for (u32 r = 0; r < 8; ++r) {
            rows[r] = gather_bytes(words[31 - r], words[23 - r], words[15 - r], words[7 - r], s);
          }
          transpose_bytes(rows);
          H5L_UNROLL for (u32 c = 0; c < 8; ++c) {
            reinterpret_cast<u32*>(stream)[(31 - (8 * s + c)) * groups + group] = rows[c];
          }
        }
      } else {
        // 16 values fill two bytes of a plane's word; twice eight planes are transposed at once.
        u8* const bytes = stream + group * 8 + (48 - in_group) / 8;
        H5L_UNROLL for (u32 s = 0; s < 8; s += 2) {
          u32 rows[8];
          H5L_UNROLL for (u32 r = 0; r < 8; ++r) {
            const u32 a = half_of(words[15 - r], s), b = half_of(words[7 - r], s);
            rows[r] = permute(a, b, s % 4 == 0 ? 0x5140 : 0x7362);
          }
          transpose_bytes(rows);
          H5L_UNROLL for (u32 c = 0; c < 8; ++c) {
            *reinterpret_cast<u16*>(bytes + (63 - (8 * s + c)) * groups * 8) = static_cast<u16>(rows[c]);
            *reinterpret_cast<u16*>(bytes + (63 - (8 * s + 8 + c)) * groups * 8) = static_cast<u16>(rows[c] >> 16);
          }
        }
      }
    } else {
      // Values past the last whole group follow unchanged, then zeros.
      H5L_UNROLL for (u32 v = 0; v < kValues; ++v) {
        if (first + v >= groups * group_values) {
          reinterpret_cast<W*>(stream)[first + v] = first + v < count ? words[v] : W{0};
        }
      }
    }
  }

  // The same for a full tile of float64, as planes_in_registers() leaves it.
  H5L_DEVICE void write_quarters(u8* bytes) const {
    H5L_UNROLL for (u32 w = 0; w < kWarps; ++w) {  // each warp has measured 16 planes
      H5L_UNROLL for (u32 k = 4 * (kWarps - w) - 1; k + 1 > 4 * (kWarps - 1 - w); --k) {
        if ((planes_used_ >> k & 1) == 0) continue;
        const u32 word = (63 - 4 * k - lane() % 4) * (kThreads / 2) + thread() / 4 * 2;
        write_bytes(bytes, word, words_[2 * k]);
        write_bytes(bytes, word + 1, words_[2 * k + 1]);
      }
      bytes += shared_.totals[w] & 0xFFFF;
    }
  }

  const EncodePlan& plan_;
};

// Encodes this thread block's tiles.
template <class T, class Q>
H5L_DEVICE void encode(const EncodePlan& plan) {
  auto& shared = *reinterpret_cast<EncodeShared*>(shared_memory());
  Encoder<T, Q> encoder(shared, plan);
  encode_tiles<Encoder<T, Q>::kIsLossless>(plan, encoder, shared.loop);
}

}  // namespace h5lossy::H5L_TARGET::pfpl

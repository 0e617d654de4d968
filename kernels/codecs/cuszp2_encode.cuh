// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// cuSZp2's encoder: a thread block per tile, a thread per 32 positions: a block in one dimension, half a block in two
// or three. The format is in docs/format/cuszp2.md.
#pragma once

#include "codecs/cuszp2.h"
#include "kernels/codecs/cuszp2_boxes.cuh"
#include "kernels/common/block_rows.cuh"

namespace h5lossy::H5L_TARGET::cuszp2 {

using namespace blocks;

// The section of exceptions, of a thread and of the tile. It is in shared memory: in registers it would slow down the
// common tiles without exceptions.
template <class T>
struct Section {
  Word<T> common;
  u32 bytes, groups, masks_total;
};

template <class T>
struct alignas(16) EncodeShared {
  u8 input[kTileValues * sizeof(T)];           // rows of values
  u8 staged[kTileValues * sizeof(T) * 9 / 8];  // ring of payloads; any single one fits
  alignas(16) u32 totals[kWarps];
  T firsts[kWarps];  // the first bin of each warp
  Word<T> constant;  // bits of the values of a constant tile
  u32 first_exceptions[kWarps];
  u32 groups[4][3];                        // present, full, uniform
  alignas(16) u32 section_totals[kWarps];  // aligned, so that they are loaded together
  Section<T> section;
  ThreadExceptions exceptions[kThreads];
  LoopShared<TilePlaces> loop;
};

template <class T, class Q, u32 dimensions>
class Encoder {
  using W = Word<T>;
  using Shared = EncodeShared<T>;
  static constexpr u32 n = dimensions == 1 ? 32 : 64;
  static constexpr u32 kBlockThreads = n / kThreadValues;
  static constexpr u32 kValueWords = sizeof(T) / 4;
  static constexpr u32 kNone = 32 * kThreads;

  enum class Form : u32 { full, constant, stored };

  // Fields of a sum over blocks: words of planes, bytes of first residuals, warps with exceptions, and warps with more
  // than one bin.
  static constexpr u32 kFirstsAt = 13, kExceptionsAt = 23, kVariedAt = 26;

 public:
  using Places = TilePlaces;
  static constexpr u32 kRoom = sizeof(Shared::staged);
  static constexpr u32 kMostWaiting = 3;

  H5L_DEVICE Encoder(Shared& shared, const EncodePlan& plan) : shared_(shared), plan_(plan) {}

  // Finds a tile's values; with blocks in two or three dimensions, those of its chunk.
  H5L_DEVICE void find_values(OwnTile& tile) const {
    const u8* const chunk = raw_of(plan_, tile.work.chunk);
    tile.values = chunk;
    tile.raw_bytes = 0;
    if constexpr (dimensions == 1) {
      const Place<T, dimensions> place(plan_.shape, tile.work.index);
      tile.values = chunk + place.first() * sizeof(T);
      tile.raw_bytes = place.count() * static_cast<u32>(sizeof(T));
    }
  }

  H5L_DEVICE void start(const OwnTile& tile) {
    if constexpr (dimensions == 1) {
      start_rows<kRowBytes<T>, sizeof(T)>(shared_.input, tile.values, tile.raw_bytes);
    } else {
      Place<T, dimensions>(plan_.shape, tile.work.index).start_row(tile.values, shared_.input);
    }
  }

  // Returns the size of the payload.
  H5L_DEVICE u32 measure(const OwnTile& tile) {
    const Q q = quantizer_as<T, Q>(quantizer_of(plan_, tile.work.chunk));
    const Place<T, dimensions> place(plan_.shape, tile.work.index);
    const u32 inside = place.inside();
    if constexpr (dimensions == 1) {
      finish_start<kRowBytes<T>>(tile.values, tile.raw_bytes);
      if (inside != ~0u) clear_outside<T>(shared_.input, inside);
    } else {
      wait_for_copies();  // each thread waits for its own copies
    }
    T bins[kThreadValues];
    const u32 exceptions = bins_of_thread(q, inside, bins);
    const T first_bin = bins[0];
    W rest = 0, first = 0;
    words_of_bins(inside, bins, rest, first);
    const bool is_same = code_of_block(place.blocks(), inside, rest, first);

    // Everything that threads exchange about a tile.
    const T warp_first = shuffle(first_bin, 0);
    const bool has_exceptions = any_in_warp(exceptions != 0);
    const bool is_varied = any_in_warp(inside != 0 && !(is_same && first_bin == warp_first));
    const bool is_leader = thread() % kBlockThreads == 0;
    const u32 own = is_leader ? planes_words() | code_.first_size << kFirstsAt : 0;
    const u32 inclusive = scan_of_warp(own);
    if (lane() == kWarpThreads - 1) {
      shared_.totals[warp()] =
          inclusive | (has_exceptions ? 1u << kExceptionsAt : 0) | (is_varied ? 1u << kVariedAt : 0);
      shared_.firsts[warp()] = warp_first;
    }
    sync_block();
    before_ = inclusive - own;
    H5L_UNROLL for (u32 w = 0; w < kWarps - 1; ++w) before_ += w < warp() ? shared_.totals[w] : 0;
    if constexpr (kBlockThreads == 2) before_ = shuffle(before_, lane() & ~1u);

    const u32 totals = this->totals();
    form_ = Form::full;
    section_bytes_ = 0;
    if (totals >> kExceptionsAt == 0) {
      bool is_constant = true;
      H5L_UNROLL for (u32 w = 1; w < kWarps; ++w) {
        const bool has_values = place.blocks() > w * (kWarpThreads / kBlockThreads);
        is_constant &= !has_values || shared_.firsts[w] == shared_.firsts[0];
      }
      if (is_constant) return constant(bits_of(q, bin_of_number(shared_.firsts[0])), place.count());
    } else if ((totals >> kExceptionsAt) % 8 != 0) {
      if (measure_section(inside, exceptions)) return constant(shared_.section.common, place.count());
      section_bytes_ = shared_.section.bytes;
    }
    u32 bytes = split(totals, place.blocks()) + section_bytes_ + padded(firsts_in(totals));
    const u32 raw_bytes = place.count() * static_cast<u32>(sizeof(T));
    if (bytes >= raw_bytes) {
      form_ = Form::stored;
      bytes = raw_bytes;
    }
    // A stored tile in one dimension is not staged: it is copied from the input.
    room_ = form_ == Form::stored && dimensions == 1 ? 16 : (bytes + 15) / 16 * 16;
    return bytes;
  }

  // Bytes that the payload takes in the ring.
  [[nodiscard]] H5L_DEVICE u32 room() const { return room_; }

  // Keeps the words in the rows of values while another tile is copied out.
  H5L_DEVICE void stash() { store_row<kRowBytes<T>>(shared_.input, words_); }
  H5L_DEVICE void unstash() { load_row<kRowBytes<T>>(shared_.input, words_); }

  // Writes the measured payload to the ring, at byte `at`.
  H5L_DEVICE void write(const OwnTile& tile, u32 at) {
    u8* const out = shared_.staged + at;
    if (form_ == Form::stored) {
      if constexpr (dimensions > 1) write_values(tile, reinterpret_cast<W*>(out));
      return;
    }
    if (form_ == Form::constant) {
      if (thread() == 0) *reinterpret_cast<W*>(out) = shared_.constant;
      return;
    }
    const u32 blocks = Place<T, dimensions>(plan_.shape, tile.work.index).blocks(), totals = this->totals();
    const u32 b = thread() / kBlockThreads;
    const bool is_leader = thread() % kBlockThreads == 0;
    const u32 section_at = split(totals, blocks);
    const u32 firsts_at = section_at + section_bytes_, firsts_bytes = firsts_in(totals);
    if (is_leader && b < blocks) {
      const u32 packed = pack_code<T>(code_);
      if constexpr (sizeof(T) == 4) {
        out[b] = static_cast<u8>(packed);
      } else {
        reinterpret_cast<u16*>(out)[b] = static_cast<u16>(packed);
      }
      u8* const firsts = out + firsts_at + firsts_in(before_);
      const W magnitude = (words_[0] & kDifferenceBits<T>) >> 1;
      H5L_UNROLL for (u32 i = 0; i < sizeof(T) - 1; ++i) {
        if (i < code_.first_size) firsts[i] = static_cast<u8>(magnitude >> (8 * i));
      }
    }
    const u32 codes_bytes = blocks * kCodeBytes<T>;
    if (thread() < padded(codes_bytes) - codes_bytes) out[codes_bytes + thread()] = 0;
    if (thread() < padded(firsts_bytes) - firsts_bytes) out[firsts_at + firsts_bytes + thread()] = 0;
    const bool is_outlier = is_leader && code_.first_size != 0;
    if (is_outlier) words_[0] &= 1;
    u32* const planes = reinterpret_cast<u32*>(out + padded(codes_bytes));
    store_planes<max_width<T>(true) + 1>(words_, planes_words() / kBlockThreads, kBlockThreads,
                                         is_outlier ? kFirstInPlane : 0,
                                         planes + planes_in(before_) + thread() % kBlockThreads);
    if (section_bytes_ != 0) write_section(tile, reinterpret_cast<u32*>(out + section_at));
  }

  H5L_DEVICE void publish(OwnTile& tile, u32 bytes) const { publish_size(plan_, tile, bytes); }

  // Copies a payload to the frame.
  H5L_DEVICE u32 emit(const OwnTile& tile, u32& table_sum) const {
    const u32 begin = shared_.loop.places.begin;
    u8* const to = place_tile(plan_, tile.work.chunk, tile.work.index, begin, begin + tile.bytes, table_sum);
    if (to == nullptr) return 0;
    if (dimensions == 1 && tile.bytes == tile.raw_bytes) return h5lossy::H5L_TARGET::emit(to, tile, tile.values);
    return h5lossy::H5L_TARGET::emit(to, tile, shared_.staged + tile.at);
  }

 private:
  H5L_DEVICE u32 planes_words() const {
    if (code_.first_size == 0 && code_.width == 0) return 0;
    return (code_.width + 1) * kBlockThreads;
  }

  // The sum over all blocks of the tile measured last.
  [[nodiscard]] H5L_DEVICE u32 totals() const {
    return shared_.totals[0] + shared_.totals[1] + shared_.totals[2] + shared_.totals[3];
  }
  H5L_DEVICE static u32 planes_in(u32 sum) { return sum % (1u << kFirstsAt); }
  H5L_DEVICE static u32 firsts_in(u32 sum) { return (sum >> kFirstsAt) % (1u << (kExceptionsAt - kFirstsAt)); }

  // Bytes of codes and planes.
  H5L_DEVICE static u32 split(u32 totals, u32 blocks) { return padded(blocks * kCodeBytes<T>) + 4 * planes_in(totals); }

  H5L_DEVICE u32 constant(W bits, u32 count) {
    if (thread() == 0) shared_.constant = bits;
    form_ = count == 1 && bits != 0 ? Form::stored : Form::constant;
    room_ = 16;
    return bits == 0 ? 0 : static_cast<u32>(sizeof(T));  // also for a stored one
  }

  // Quantizes the thread's values; returns its exceptions.
  H5L_DEVICE u32 bins_of_thread(const Q& q, u32 inside, T (&bins)[kThreadValues]) {
    T values[kThreadValues];
    load_row<kRowBytes<T>>(shared_.input, values);
    bool is_fine = !is_near_fill(q, values);
    is_fine &= bins_of_row(q, values, bins);
    if (!any_in_warp(!is_fine)) return 0;
    const u32 exceptions = is_fine ? 0 : repeat_bins(q, shared_.input, inside, bins);
    if (!any_in_warp(exceptions != 0)) return 0;
    const u32 ordinary = inside & ~exceptions;
    const RowEnds<T> ends = ends_of(bins, ordinary);
    T start = ends.first;
    if constexpr (kBlockThreads == 2) {
      const bool other_has = shuffle_xor(ordinary != 0 ? 1u : 0u, 1) != 0;
      const T other_first = shuffle_xor(ends.first, 1), other_last = shuffle_xor(ends.last, 1);
      const bool is_second = thread() % 2 != 0;
      if (is_second && other_has) start = other_last;
      if (!is_second && ordinary == 0) start = other_first;
    }
    fill_forward(bins, ordinary, exceptions, start);
    return exceptions;
  }

  // Computes differences, signs last. `rest` collects the bits of all but the block's first, `first` those of the
  // first.
  H5L_DEVICE void words_of_bins(u32 inside, const T (&bins)[kThreadValues], W& rest, W& first) {
    T before_thread = 0;  // predicts the thread's first bin
    if constexpr (dimensions > 1) {
      const T other = shuffle_up(bins[dimensions == 2 ? 24 : 16], 1);
      if (thread() % 2 != 0) before_thread = other;
    }
    if (selection() == Selection::fixed) {
      // Adding 0 clears the signs of zeros, since the words are compared.
      H5L_UNROLL for (u32 i = 0; i < kThreadValues; ++i) words_[i] = word_of_difference(add(bins[i], T{0}));
    } else {
      words_[0] = word_of_difference(subtract(bins[0], before_thread));
      H5L_UNROLL for (u32 i = 1; i < kThreadValues; ++i) {
        words_[i] = word_of_difference(subtract(bins[i], bins[before<dimensions>(i)]));
      }
    }
    if (inside != ~0u) {
      H5L_UNROLL for (u32 i = 0; i < kThreadValues; ++i) {
        if ((inside >> i & 1) == 0) words_[i] = 0;
      }
    }
    rest = 0;
    H5L_UNROLL for (u32 i = 1; i < kThreadValues; ++i) rest |= words_[i];
    first = words_[0];
    if constexpr (dimensions > 1) {
      if (thread() % 2 != 0) rest |= first;
      rest |= shuffle_xor(rest, 1);
      first = shuffle(first, lane() & ~1u);
    }
    rest &= kDifferenceBits<T>;
    first &= kDifferenceBits<T>;
  }

  // Determines the block's code. Returns whether all its bins are equal.
  H5L_DEVICE bool code_of_block(u32 blocks, u32 inside, W rest, W first) {
    code_ = {width_of(static_cast<W>((rest | first) >> 1)), 0};
    if (selection() == Selection::outlier && thread() / kBlockThreads < blocks) {
      const W magnitude = first >> 1;
      const Code outlier = {width_of(static_cast<W>(rest >> 1)), first_size_of(magnitude)};
      if (cuszp2::planes_bytes<n>(outlier) + outlier.first_size < cuszp2::planes_bytes<n>(code_)) code_ = outlier;
    }
    if (selection() != Selection::fixed) return rest >> 1 == 0;
    W differs = 0;
    const W block_first = dimensions == 1 ? words_[0] & kDifferenceBits<T> : first;
    H5L_UNROLL for (u32 i = 0; i < kThreadValues; ++i) {
      if ((inside >> i & 1) != 0) differs |= (words_[i] & kDifferenceBits<T>)^block_first;
    }
    return differs == 0;
  }

  // Determines the contents and size of the section of exceptions. Returns whether all values are exceptions with the
  // same bits.
  H5L_DEVICE bool measure_section(u32 inside, u32 exceptions) {
    const u32 first = least_of_warp(exceptions == 0 ? kNone : thread() * 32 + lowest_one(exceptions));
    if (lane() == 0) shared_.first_exceptions[warp()] = first;
    sync_block();
    u32 least = kNone;
    H5L_UNROLL for (u32 w = 0; w < kWarps; ++w) {
      least = shared_.first_exceptions[w] < least ? shared_.first_exceptions[w] : least;
    }
    const W common = *value_in_rows<kRowBytes<T>, W>(shared_.input, least / 32, least % 32);
    bool is_uniform = are_all<T>(shared_.input, exceptions, common);
    const bool has_others = !is_uniform || exceptions != inside;
    bool is_present = exceptions != 0, is_full = exceptions == inside;
    if constexpr (kBlockThreads == 2) {
      const u32 mine = (is_present ? 1u : 0) | (is_full ? 0u : 2) | (is_uniform ? 0u : 4);
      const u32 both = mine | shuffle_xor(mine, 1);
      is_present = (both & 1) != 0;
      is_full = (both & 2) == 0;
      is_uniform = (both & 4) == 0;
    }
    const bool has_mask = is_present && !is_full, has_bits = is_present && !is_uniform;
    const u32 own = (has_mask ? 1u : 0) | (has_bits ? ones(exceptions) : 0) << 16;
    const u32 present = group_bits(is_present);
    const u32 full = group_bits(is_present && is_full);
    const u32 uniform = group_bits(is_present && is_uniform);
    if (lane() == 0) {
      if constexpr (kBlockThreads == 1) {
        shared_.groups[warp()][0] = present;
        shared_.groups[warp()][1] = full;
        shared_.groups[warp()][2] = uniform;
      } else {  // half of a group
        u16* const half = reinterpret_cast<u16*>(shared_.groups[warp() / 2]) + warp() % 2;
        half[0] = static_cast<u16>(present);
        half[2] = static_cast<u16>(full);
        half[4] = static_cast<u16>(uniform);
      }
    }
    u32 totals = 0;
    bool any_others = false;
    const u32 before = scan_of_block(own, shared_.section_totals, totals, has_others, any_others);
    shared_.exceptions[thread()] = {exceptions, static_cast<u16>(before >> 16), static_cast<u8>(before),
                                    static_cast<u8>(has_mask ? 1 : 0), static_cast<u8>(has_bits ? 1 : 0)};
    if (thread() == 0) {
      u32 groups = 0;
      H5L_UNROLL for (u32 g = 0; g < kWarps / kBlockThreads; ++g) groups |= shared_.groups[g][0] != 0 ? 1u << g : 0;
      const u32 masks = totals & 0xFFFF;
      const u32 bytes = 4 + static_cast<u32>(sizeof(T)) + 12 * ones(groups) + 4 * masks +
                        (totals >> 16) * static_cast<u32>(sizeof(T));
      shared_.section = {common, bytes, groups, masks};
    }
    sync_block();
    return !any_others;
  }

  // One bit per block of the warp.
  H5L_DEVICE static u32 group_bits(bool flag) {
    u32 bits = ballot(flag);
    if constexpr (kBlockThreads == 2) {
      bits &= 0x55555555u;
      bits = (bits | bits >> 1) & 0x33333333u;
      bits = (bits | bits >> 2) & 0x0F0F0F0Fu;
      bits = (bits | bits >> 4) & 0x00FF00FFu;
      bits = (bits | bits >> 8) & 0x0000FFFFu;
    }
    return bits;
  }

  H5L_DEVICE void write_section(const OwnTile& tile, u32* out) const {
    constexpr u32 head = 1 + kValueWords;
    const Section<T>& section = shared_.section;
    const ThreadExceptions own = shared_.exceptions[thread()];
    if (thread() == 0) {
      out[0] = section.groups;
      put_value(out + 1, section.common);
    }
    if (thread() < kWarps / kBlockThreads && (section.groups >> thread() & 1) != 0) {
      u32* const group = out + head + 3 * ones(section.groups & lanes_below());
      for (u32 i = 0; i < 3; ++i) group[i] = shared_.groups[thread()][i];
    }
    u32* const masks = out + head + 3 * ones(section.groups);
    if (own.has_mask != 0) masks[own.mask_at] = own.exceptions;
    if (own.has_bits == 0) return;
    const Place<T, dimensions> place(plan_.shape, tile.work.index);
    const u8* const chunk = raw_of(plan_, tile.work.chunk);
    u32* next = masks + section.masks_total + own.bits_at * kValueWords;
    for (u32 mask = own.exceptions; mask != 0; mask &= mask - 1, next += kValueWords) {
      put_value(next, *place.value(chunk, lowest_bit(u64{mask})));
    }
  }

  // Stores a value at a word-aligned address.
  H5L_DEVICE static void put_value(u32* out, u32 bits) { *out = bits; }
  H5L_DEVICE static void put_value(u32* out, u64 bits) {
    out[0] = static_cast<u32>(bits);
    out[1] = static_cast<u32>(bits >> 32);
  }

  // Writes a stored tile with blocks in two or three dimensions.
  H5L_DEVICE void write_values(const OwnTile& tile, W* out) const {
    const Place<T, dimensions> place(plan_.shape, tile.work.index);
    const u8* const chunk = raw_of(plan_, tile.work.chunk);
    const u32 inside = place.inside();
    u32 total = 0;
    u32 next = scan_of_block(ones(inside), shared_.section_totals, total);
    H5L_NO_UNROLL for (u32 i = 0; i < kThreadValues; ++i) {
      if ((inside >> i & 1) != 0) out[next++] = *place.value(chunk, i);
    }
  }

  [[nodiscard]] H5L_DEVICE Selection selection() const { return static_cast<Selection>(plan_.mode & 3); }

  Shared& shared_;
  const EncodePlan& plan_;
  W words_[kThreadValues];
  Code code_ = {};
  u32 before_ = 0;  // the sum over the blocks before the thread's
  Form form_ = Form::full;
  u32 section_bytes_ = 0;
  u32 room_ = 0;
};

template <class T, class Q, u32 dimensions>
H5L_DEVICE void encode(const EncodePlan& plan) {
  auto& shared = *reinterpret_cast<EncodeShared<T>*>(shared_memory());
  Encoder<T, Q, dimensions> encoder(shared, plan);
  encode_tiles<false>(plan, encoder, shared.loop);
}

}  // namespace h5lossy::H5L_TARGET::cuszp2

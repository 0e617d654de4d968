// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// cuSZp2's encoder: a thread block for a tile, a thread for 32 positions: a block in one dimension, half of one in several.
// docs/format/cuszp2.md is the format.
#pragma once

#include "block_rows.cuh"
#include "codecs/cuszp2.h"
#include "cuszp2_boxes.cuh"

namespace h5lossy::H5L_TARGET::cuszp2 {

using namespace blocks;

template <class T>
struct alignas(16) EncodeShared {
  u8 input[kTileValues * sizeof(T)];   // rows of values
  u8 staged[kTileValues * sizeof(T)];  // a payload that waits for its place
  u32 totals[kWarps];
  u32 more_totals[kWarps];
  u32 flags[kWarps];
  T firsts[kWarps];  // the first bin of each warp
  u32 first_exceptions[kWarps];
  u32 groups[4][3];  // present, full, uniform
};

template <class T, class Q, u32 dimensions>
class Encoder {
  using W = Word<T>;
  using Shared = EncodeShared<T>;
  static constexpr u32 n = dimensions == 1 ? 32 : 64;
  static constexpr u32 kBlockThreads = n / kThreadValues;
  static constexpr u32 kValueWords = sizeof(T) / 4;
  static constexpr u32 kNone = 32 * kThreads;

  enum Flag : u32 { kAnyException = 1, kNotOnlyExceptions = 2, kNotConstant = 4 };
  enum class Form { full, constant, stored };

 public:
  H5L_DEVICE Encoder(Shared& shared, const EncodePlan& plan)
      : shared_(shared), plan_(plan), selection_(static_cast<Selection>(plan.mode & 3)) {}

  H5L_DEVICE void start(const Spot& spot) {
    const Place<T, dimensions> place(plan_.shape, spot.index);
    const u8* const chunk = raw_of(plan_, spot.chunk);
    if constexpr (dimensions == 1) {
      start_rows<kRowBytes<T>, sizeof(T)>(shared_.input, chunk + place.first() * sizeof(T),
                                          place.count() * static_cast<u32>(sizeof(T)));
    } else {
      place.start_row(chunk, shared_.input);
    }
  }

  // Bytes of the payload.
  H5L_DEVICE u32 measure(const Spot& spot) {
    const Q q = quantizer_as<T, Q>(quantizer_of(plan_, spot.chunk));
    const Place<T, dimensions> place(plan_.shape, spot.index);
    chunk_ = raw_of(plan_, spot.chunk);
    tile_ = spot.index;
    inside_ = place.inside();
    blocks_ = place.blocks();
    if constexpr (dimensions == 1) {
      finish_start<kRowBytes<T>>(chunk_ + place.first() * sizeof(T), place.count() * static_cast<u32>(sizeof(T)));
      if (inside_ != ~0u) clear_outside<T>(shared_.input, inside_);
    } else {
      wait_for_copies();  // a thread brings its own
    }
    T bins[kThreadValues];
    bins_of_thread(q, bins);
    first_bin_ = bins[0];
    W rest = 0, first = 0;
    words_of_bins(bins, rest, first);
    const bool is_same = code_of_block(rest, first);

    // Everything of the tile that the threads have to tell each other.
    const bool is_idle = inside_ == 0;
    const T warp_first = shuffle(first_bin_, 0);
    u32 flags = 0;
    if (any_in_warp(exceptions_ != 0)) flags |= kAnyException;
    if (any_in_warp(exceptions_ != inside_)) flags |= kNotOnlyExceptions;
    if (any_in_warp(!is_idle && !(is_same && first_bin_ == warp_first))) flags |= kNotConstant;
    if (any_in_warp(!is_idle)) flags |= 8;
    if (lane() == 0) {
      shared_.flags[warp()] = flags;
      shared_.firsts[warp()] = warp_first;
    }
    const bool is_leader = thread() % kBlockThreads == 0;
    u32 totals = 0;
    const u32 own = is_leader ? planes_words() | code_.first_size << 16 : 0;
    u32 before = scan_of_block(own, shared_.totals, totals);
    if constexpr (kBlockThreads == 2) before = shuffle(before, lane() & ~1u);
    planes_at_ = before & 0xFFFF;
    firsts_at_ = before >> 16;
    planes_total_ = totals & 0xFFFF;
    firsts_total_ = totals >> 16;

    flags = 0;
    H5L_UNROLL for (u32 w = 0; w < kWarps; ++w) {
      flags |= shared_.flags[w];
      if ((shared_.flags[w] & 8) != 0 && shared_.firsts[w] != shared_.firsts[0]) flags |= kNotConstant;
    }
    has_exceptions_ = (flags & kAnyException) != 0;
    section_bytes_ = 0;
    const u32 count = place.count();
    raw_bytes_ = count * static_cast<u32>(sizeof(T));
    form_ = Form::full;
    if (!has_exceptions_ && (flags & kNotConstant) == 0) {
      return constant(bits_of(q, bin_of_number(shared_.firsts[0])), count);
    }
    if (has_exceptions_) {
      bool is_uniform = measure_section(place);
      if ((flags & kNotOnlyExceptions) == 0 && is_uniform) return constant(common_, count);
    }
    const u32 bytes = split() + section_bytes_ + padded(firsts_total_);
    if (bytes >= raw_bytes_) form_ = Form::stored;
    return bytes < raw_bytes_ ? bytes : raw_bytes_;
  }

  // Whether the payload can wait for its place in shared memory (or where its values are) while the next tile is begun.
  [[nodiscard]] H5L_DEVICE bool can_wait() const {
    return form_ == Form::constant || (form_ == Form::full ? !has_exceptions_ : dimensions == 1);
  }

  // Writes the payload that was measured, without the section of exceptions.
  H5L_DEVICE void write() {
    if (form_ == Form::stored) return;
    if (form_ == Form::constant) {
      if (thread() == 0) *reinterpret_cast<W*>(shared_.staged) = constant_;
      return;
    }
    const u32 b = thread() / kBlockThreads;
    const bool is_leader = thread() % kBlockThreads == 0;
    if (is_leader && b < blocks_) {
      const u32 packed = pack_code<T>(code_);
      if constexpr (sizeof(T) == 4) {
        shared_.staged[b] = static_cast<u8>(packed);
      } else {
        reinterpret_cast<u16*>(shared_.staged)[b] = static_cast<u16>(packed);
      }
      u8* const firsts = shared_.staged + split() + firsts_at_;
      const W magnitude = (words_[0] & kDifferenceBits<T>) >> 1;
      for (u32 i = 0; i < code_.first_size; ++i) firsts[i] = static_cast<u8>(magnitude >> (8 * i));
    }
    const u32 codes_bytes = blocks_ * kCodeBytes<T>;
    if (thread() < padded(codes_bytes) - codes_bytes) shared_.staged[codes_bytes + thread()] = 0;
    if (thread() < padded(firsts_total_) - firsts_total_) shared_.staged[split() + firsts_total_ + thread()] = 0;
    if (is_leader && code_.first_size != 0) words_[0] &= 1;
    u32* const planes = reinterpret_cast<u32*>(shared_.staged + padded(codes_bytes));
    const bool has_planes = planes_words() != 0;
    store_planes<max_width<T>(true) + 1>(words_, has_planes ? code_.width + 1 : 0, kBlockThreads,
                                         planes + planes_at_ + thread() % kBlockThreads);
  }

  // A payload that cannot wait, in its place.
  H5L_DEVICE u32 emit_at_once(u8* to) const {
    WordWriter writer(to, tile_);
    if (form_ == Form::stored) {
      emit_values(writer);
      return writer.sum();
    }
    const u32* const staged = reinterpret_cast<const u32*>(shared_.staged);
    const u32 before = split() / 4, behind = padded(firsts_total_) / 4;
    for (u32 i = thread(); i < before; i += kThreads) writer.put(i, staged[i]);
    for (u32 i = thread(); i < behind; i += kThreads) writer.put(before + section_bytes_ / 4 + i, staged[before + i]);
    emit_section(writer, before);
    return writer.sum();
  }

  H5L_DEVICE u32 staged_word(u32 i) const { return reinterpret_cast<const u32*>(shared_.staged)[i]; }

 private:
  H5L_DEVICE u32 planes_words() const {
    if (code_.first_size == 0 && code_.width == 0) return 0;
    return (code_.width + 1) * kBlockThreads;
  }

  // Bytes of codes and planes.
  H5L_DEVICE u32 split() const { return padded(blocks_ * kCodeBytes<T>) + 4 * planes_total_; }

  H5L_DEVICE u32 constant(W bits, u32 count) {
    constant_ = bits;
    form_ = count == 1 && bits != 0 ? Form::stored : Form::constant;
    if (form_ == Form::stored) return raw_bytes_;
    return bits == 0 ? 0 : static_cast<u32>(sizeof(T));
  }

  H5L_DEVICE void bins_of_thread(const Q& q, T (&bins)[kThreadValues]) {
    T values[kThreadValues];
    load_row<kRowBytes<T>>(shared_.input, values);
    const bool is_fine = bins_of_row(q, shared_.input, values, bins);
    exceptions_ = 0;
    if (!any_in_warp(!is_fine)) return;
    RowBins<T> found;
    found.first = bins[0];
    found.last = bins[kThreadValues - 1];
    if (!is_fine) found = bins_one_by_one<T>(q, shared_.input, inside_);
    exceptions_ = found.exceptions;
    T start = found.has_ordinary ? found.first : T{0};
    if constexpr (kBlockThreads == 2) {
      // A half without values has no ordinary one; bins of one that was fine are read where they are.
      if (is_fine) found = ends_of(bins);
      const bool other_has = shuffle_xor(found.has_ordinary ? 1u : 0u, 1) != 0;
      const T other_first = shuffle_xor(found.first, 1), other_last = shuffle_xor(found.last, 1);
      const bool is_second = thread() % 2 != 0;
      if (is_second && other_has) start = other_last;
      if (!is_second && !found.has_ordinary) start = other_has ? other_first : T{0};
    }
    if (is_fine) return;
    if (exceptions_ != 0) fill_forward<T>(shared_.input, inside_, exceptions_, start);
    load_row<kRowBytes<T>>(shared_.input, bins);
  }

  // First and last bin inside of a half whose values are all ordinary.
  H5L_DEVICE RowBins<T> ends_of(const T (&bins)[kThreadValues]) const {
    RowBins<T> found;
    found.has_ordinary = inside_ != 0;
    found.first = bins[0];
    H5L_UNROLL for (u32 i = 0; i < kThreadValues; ++i) {
      if ((inside_ >> i & 1) != 0) found.last = bins[i];
    }
    return found;
  }

  // Differences with their signs last; `rest` is what all but the block's first have, `first` is the first.
  H5L_DEVICE void words_of_bins(const T (&bins)[kThreadValues], W& rest, W& first) {
    const bool is_fixed = selection_ == Selection::fixed;
    T before_thread = 0;  // the bin that the thread's first one is predicted from
    if constexpr (dimensions > 1) {
      const T other = shuffle_up(bins[dimensions == 2 ? 24 : 16], 1);
      if (thread() % 2 != 0) before_thread = other;
    }
    if (is_fixed) {
      H5L_UNROLL for (u32 i = 0; i < kThreadValues; ++i) words_[i] = word_of_difference(bins[i]);
    } else {
      words_[0] = word_of_difference(subtract(bins[0], before_thread));
      H5L_UNROLL for (u32 i = 1; i < kThreadValues; ++i) {
        words_[i] = word_of_difference(subtract(bins[i], bins[before<dimensions>(i)]));
      }
    }
    if (inside_ != ~0u) {
      H5L_UNROLL for (u32 i = 0; i < kThreadValues; ++i) {
        if ((inside_ >> i & 1) == 0) words_[i] = 0;
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

  // Finds the code. Whether all bins of the block are the same.
  H5L_DEVICE bool code_of_block(W rest, W first) {
    code_ = {width_of(static_cast<W>((rest | first) >> 1)), 0};
    if (selection_ == Selection::outlier && inside_any()) {
      const W magnitude = first >> 1;
      const Code outlier = {width_of(static_cast<W>(rest >> 1)), first_size_of(magnitude)};
      if (cuszp2::planes_bytes<n>(outlier) + outlier.first_size < cuszp2::planes_bytes<n>(code_)) code_ = outlier;
    }
    if (selection_ != Selection::fixed) return rest >> 1 == 0;
    W differs = 0;
    const W block_first = dimensions == 1 ? words_[0] & kDifferenceBits<T> : first;
    H5L_UNROLL for (u32 i = 0; i < kThreadValues; ++i) {
      if ((inside_ >> i & 1) != 0) differs |= (words_[i] & kDifferenceBits<T>) ^ block_first;
    }
    return differs == 0;
  }

  // Whether the thread's block is one of the tile.
  H5L_DEVICE bool inside_any() const { return thread() / kBlockThreads < blocks_; }

  H5L_DEVICE const W* value_at(u32 of_thread, u32 i) const {
    return Place<T, dimensions>(plan_.shape, tile_, of_thread).value(chunk_, i);
  }

  // Finds out what the section of exceptions holds, and its size. Whether all exceptions have the same bits.
  H5L_DEVICE bool measure_section(const Place<T, dimensions>& place) {
    const u32 first = exceptions_ == 0 ? kNone : thread() * 32 + lowest_bit(u64{exceptions_});
    u32 least = first;
    for (u32 by = 16; by != 0; by /= 2) {
      const u32 other = shuffle_xor(least, by);
      least = other < least ? other : least;
    }
    if (lane() == 0) shared_.first_exceptions[warp()] = least;
    sync_block();
    least = kNone;
    H5L_UNROLL for (u32 w = 0; w < kWarps; ++w) {
      least = shared_.first_exceptions[w] < least ? shared_.first_exceptions[w] : least;
    }
    common_ = *value_at(least / 32, least % 32);

    bool is_uniform = true;
    for (u32 mask = exceptions_; mask != 0; mask &= mask - 1) {
      is_uniform &= *place.value(chunk_, lowest_bit(u64{mask})) == common_;
    }
    const bool all_uniform = !any_in_block(!is_uniform);
    bool is_present = exceptions_ != 0, is_full = exceptions_ == inside_;
    if constexpr (kBlockThreads == 2) {
      const u32 mine = (is_present ? 1u : 0) | (is_full ? 0u : 2) | (is_uniform ? 0u : 4);
      const u32 both = mine | shuffle_xor(mine, 1);
      is_present = (both & 1) != 0;
      is_full = (both & 2) == 0;
      is_uniform = (both & 4) == 0;
    }
    has_mask_ = is_present && !is_full;
    has_bits_ = is_present && !is_uniform;
    const u32 own = (has_mask_ ? 1u : 0) | (has_bits_ ? ones(exceptions_) : 0) << 16;
    u32 totals = 0;
    const u32 before = scan_of_block(own, shared_.totals, totals);
    mask_at_ = before & 0xFFFF;
    bits_at_ = before >> 16;
    masks_total_ = totals & 0xFFFF;
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
    sync_block();
    groups_ = 0;
    H5L_UNROLL for (u32 g = 0; g < kWarps / kBlockThreads; ++g) groups_ |= shared_.groups[g][0] != 0 ? 1u << g : 0;
    section_bytes_ = 4 + static_cast<u32>(sizeof(T)) + 12 * ones(groups_) + 4 * masks_total_ +
                     (totals >> 16) * static_cast<u32>(sizeof(T));
    return all_uniform;
  }

  // One bit for each block of the warp.
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

  H5L_DEVICE void emit_section(WordWriter& writer, u32 at) const {
    constexpr u32 head = 1 + kValueWords;
    if (thread() == 0) {
      writer.put(at, groups_);
      writer.put_value(at + 1, common_);
    }
    if (thread() < kWarps / kBlockThreads && (groups_ >> thread() & 1) != 0) {
      const u32 place = at + head + 3 * ones(groups_ & lanes_below());
      for (u32 i = 0; i < 3; ++i) writer.put(place + i, shared_.groups[thread()][i]);
    }
    const u32 masks = at + head + 3 * ones(groups_);
    if (has_mask_) writer.put(masks + mask_at_, exceptions_);
    if (!has_bits_) return;
    const Place<T, dimensions> place(plan_.shape, tile_);
    u32 next = masks + masks_total_ + bits_at_ * kValueWords;
    for (u32 mask = exceptions_; mask != 0; mask &= mask - 1, next += kValueWords) {
      writer.put_value(next, *place.value(chunk_, lowest_bit(u64{mask})));
    }
  }

  // A stored tile with blocks in several dimensions.
  H5L_DEVICE void emit_values(WordWriter& writer) const {
    const Place<T, dimensions> place(plan_.shape, tile_);
    u32 total = 0;
    u32 next = scan_of_block(ones(inside_), shared_.totals, total);
    H5L_NO_UNROLL for (u32 i = 0; i < kThreadValues; ++i) {
      if ((inside_ >> i & 1) != 0) writer.put_value(kValueWords * next++, *place.value(chunk_, i));
    }
  }

  Shared& shared_;
  const EncodePlan& plan_;
  const Selection selection_;
  const u8* chunk_ = nullptr;
  u32 tile_ = 0, blocks_ = 0, raw_bytes_ = 0;
  u32 inside_ = 0;      // which of the thread's positions are inside of the data
  u32 exceptions_ = 0;  // which of them are exceptions
  W words_[kThreadValues];
  T first_bin_ = 0;
  Code code_ = {};
  u32 planes_at_ = 0, planes_total_ = 0;  // in words
  u32 firsts_at_ = 0, firsts_total_ = 0;  // in bytes
  Form form_ = Form::full;
  W constant_ = 0;
  bool has_exceptions_ = false;
  // Of the section of exceptions:
  u32 section_bytes_ = 0, groups_ = 0, masks_total_ = 0, mask_at_ = 0, bits_at_ = 0;
  bool has_mask_ = false, has_bits_ = false;
  W common_ = 0;
};

template <class T, class Q, u32 dimensions>
H5L_DEVICE void encode(const EncodePlan& plan) {
  auto& shared = *reinterpret_cast<EncodeShared<T>*>(shared_memory());
  Encoder<T, Q, dimensions> encoder(shared, plan);
  TilePlaces places;
  const Walk walk(plan);
  Spot waiting = {};
  u32 waiting_bytes = 0;
  bool is_waiting = false;

  // Finds the place of a payload and calls emit_payload(place), which returns its checksum.
  const auto place_item = [&](const Spot& spot, u32 bytes, auto emit_payload) {
    const u32 begin = places.begin_of(plan, spot, shared.more_totals);
    places.remember(spot.item, begin + bytes);
    u8* const to = place_tile(plan, spot.chunk, spot.index, begin, begin + bytes);
    add_checksum(plan, spot.chunk, to == nullptr ? 0 : emit_payload(to));
  };
  const auto place_waiting = [&] {
    place_item(waiting, waiting_bytes, [&](u8* to) {
      u32 sum = 0;
      if constexpr (dimensions == 1) {
        const Place<T, dimensions> place(plan.shape, waiting.index);
        if (waiting_bytes == place.count() * sizeof(T)) {
          const u32* const values = reinterpret_cast<const u32*>(raw_of(plan, waiting.chunk) + place.first() * sizeof(T));
          emit(to, waiting_bytes, 0, waiting.index, sum, [&](u32 i) { return values[i]; });
          return sum;
        }
      }
      emit(to, waiting_bytes, 0, waiting.index, sum, [&](u32 i) { return encoder.staged_word(i); });
      return sum;
    });
  };

  Spot spot = walk.first<false>(plan);
  if (spot.chunk < plan.chunks) encoder.start(spot);
  while (spot.chunk < plan.chunks) {
    const u32 bytes = encoder.measure(spot);
    if (thread() == 0) store_relaxed(plan.sizes + spot.item, kPublishedSize | bytes);
    const Spot next = walk.next<false>(plan, spot);
    if (next.chunk < plan.chunks) encoder.start(next);
    if (is_waiting) place_waiting();
    sync_block();
    encoder.write();
    is_waiting = encoder.can_wait();
    if (is_waiting) {
      waiting = spot;
      waiting_bytes = bytes;
    } else {
      sync_block();
      place_item(spot, bytes, [&](u8* to) { return encoder.emit_at_once(to); });
    }
    spot = next;
  }
  if (!is_waiting) return;
  sync_block();
  place_waiting();
}

}  // namespace h5lossy::H5L_TARGET::cuszp2

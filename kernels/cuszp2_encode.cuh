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

// Most bytes of codes, planes and first residuals, all of which have a thread for 32 values at least.
template <class T>
inline constexpr u32 kMostStagedBytes = kThreads * (kCodeBytes<T> + 4 * (max_width<T>(true) + 1) + sizeof(T));

template <class T>
struct alignas(16) EncodeShared {
  u8 input[kTileValues * sizeof(T)];           // rows of values
  alignas(16) u8 staged[kMostStagedBytes<T>];  // a payload that waits for its place
  u32 totals[kWarps];
  u32 more_totals[kWarps];
  u32 flags[kWarps];
  T firsts[kWarps];  // the first bin of each warp
  Word<T> constant;  // what a constant tile's values are
  u32 first_exceptions[kWarps];
  u32 groups[4][3];  // present, full, uniform
  Spot waiting;      // what is staged
  u32 waiting_bytes;
};

template <class T, class Q, u32 dimensions>
class Encoder {
  using W = Word<T>;
  using Shared = EncodeShared<T>;
  static constexpr u32 n = dimensions == 1 ? 32 : 64;
  static constexpr u32 kBlockThreads = n / kThreadValues;
  static constexpr u32 kValueWords = sizeof(T) / 4;
  static constexpr u32 kNone = 32 * kThreads;

  enum Flag : u32 { kAnyException = 1, kNotOnlyExceptions = 2, kNotConstant = 4, kAnyValue = 8 };
  enum class Form { full, constant, stored };

  // What a thread keeps of a tile with exceptions. It stands in the thread's row of values, which nobody needs once the tile
  // has been measured, and not in registers, which would be missing for the usual tiles.
  struct Section {
    u32 exceptions;  // which of the thread's positions
    u32 bytes, groups, masks_total;
    u32 mask_at, bits_at;
    bool has_mask, has_bits;
    W common;
  };

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
    const u8* const chunk = raw_of(plan_, spot.chunk);
    const u32 inside = place.inside();
    if constexpr (dimensions == 1) {
      finish_start<kRowBytes<T>>(chunk + place.first() * sizeof(T), place.count() * static_cast<u32>(sizeof(T)));
      if (inside != ~0u) clear_outside<T>(shared_.input, inside);
    } else {
      wait_for_copies();  // a thread brings its own
    }
    T bins[kThreadValues];
    const u32 exceptions = bins_of_thread(q, inside, bins);
    const T first_bin = bins[0];
    W rest = 0, first = 0;
    words_of_bins(inside, bins, rest, first);
    const bool is_same = code_of_block(place.blocks(), inside, rest, first);

    // Everything of the tile that the threads have to tell each other.
    const bool is_idle = inside == 0;
    const T warp_first = shuffle(first_bin, 0);
    u32 flags = 0;
    if (any_in_warp(exceptions != 0)) flags |= kAnyException;
    if (any_in_warp(exceptions != inside)) flags |= kNotOnlyExceptions;
    if (any_in_warp(!is_idle && !(is_same && first_bin == warp_first))) flags |= kNotConstant;
    if (any_in_warp(!is_idle)) flags |= kAnyValue;
    if (lane() == 0) {
      shared_.flags[warp()] = flags;
      shared_.firsts[warp()] = warp_first;
    }
    const bool is_leader = thread() % kBlockThreads == 0;
    before_ = scan_of_block(is_leader ? planes_words() | code_.first_size << 16 : 0, shared_.totals, totals_);
    if constexpr (kBlockThreads == 2) before_ = shuffle(before_, lane() & ~1u);

    flags = 0;
    H5L_UNROLL for (u32 w = 0; w < kWarps; ++w) flags |= shared_.flags[w];
    has_exceptions_ = (flags & kAnyException) != 0;
    form_ = Form::full;
    if (!has_exceptions_ && (flags & kNotConstant) == 0) {
      bool is_constant = true;
      H5L_UNROLL for (u32 w = 1; w < kWarps; ++w) {
        is_constant &= (shared_.flags[w] & kAnyValue) == 0 || shared_.firsts[w] == shared_.firsts[0];
      }
      if (is_constant) return constant(bits_of(q, bin_of_number(shared_.firsts[0])), place.count());
    }
    u32 section_bytes = 0;
    if (has_exceptions_) {
      Section section = {};
      section.exceptions = exceptions;
      const bool is_uniform = measure_section(spot, place, chunk, inside, section);
      if ((flags & kNotOnlyExceptions) == 0 && is_uniform) return constant(section.common, place.count());
      section_bytes = section.bytes;
      this->section() = section;
    }
    const u32 bytes = split(place.blocks()) + section_bytes + padded(firsts_total());
    const u32 raw_bytes = place.count() * static_cast<u32>(sizeof(T));
    if (bytes >= raw_bytes) form_ = Form::stored;
    return bytes < raw_bytes ? bytes : raw_bytes;
  }

  // Whether the payload can wait for its place in shared memory (or where its values are) while the next tile is begun.
  // If not, the rows of values are in use until it has been written.
  [[nodiscard]] H5L_DEVICE bool can_wait() const {
    return form_ == Form::constant || (form_ == Form::full ? !has_exceptions_ : dimensions == 1);
  }

  // Writes the payload that was measured, without the section of exceptions.
  H5L_DEVICE void write(const Spot& spot) {
    if (form_ == Form::stored) return;
    if (form_ == Form::constant) {
      if (thread() == 0) *reinterpret_cast<W*>(shared_.staged) = shared_.constant;
      return;
    }
    const u32 blocks = Place<T, dimensions>(plan_.shape, spot.index).blocks();
    const u32 b = thread() / kBlockThreads;
    const bool is_leader = thread() % kBlockThreads == 0;
    const u32 firsts_at = split(blocks);
    if (is_leader && b < blocks) {
      const u32 packed = pack_code<T>(code_);
      if constexpr (sizeof(T) == 4) {
        shared_.staged[b] = static_cast<u8>(packed);
      } else {
        reinterpret_cast<u16*>(shared_.staged)[b] = static_cast<u16>(packed);
      }
      u8* const firsts = shared_.staged + firsts_at + (before_ >> 16);
      const W magnitude = (words_[0] & kDifferenceBits<T>) >> 1;
      H5L_UNROLL for (u32 i = 0; i < sizeof(T) - 1; ++i) {
        if (i < code_.first_size) firsts[i] = static_cast<u8>(magnitude >> (8 * i));
      }
    }
    const u32 codes_bytes = blocks * kCodeBytes<T>;
    if (thread() < padded(codes_bytes) - codes_bytes) shared_.staged[codes_bytes + thread()] = 0;
    if (thread() < padded(firsts_total()) - firsts_total()) shared_.staged[firsts_at + firsts_total() + thread()] = 0;
    if (is_leader && code_.first_size != 0) words_[0] &= 1;
    u32* const planes = reinterpret_cast<u32*>(shared_.staged + padded(codes_bytes));
    store_planes<max_width<T>(true) + 1>(words_, planes_words() / kBlockThreads, kBlockThreads,
                                         planes + (before_ & 0xFFFF) + thread() % kBlockThreads);
  }

  // A payload that cannot wait, in its place.
  H5L_DEVICE u32 emit_at_once(u8* to, const Spot& spot) const {
    WordWriter writer(to, spot.index);
    const Place<T, dimensions> place(plan_.shape, spot.index);
    const u8* const chunk = raw_of(plan_, spot.chunk);
    if (form_ == Form::stored) {
      emit_values(writer, place, chunk);
      return writer.sum();
    }
    const u32* const staged = reinterpret_cast<const u32*>(shared_.staged);
    const u32 before = split(place.blocks()) / 4, behind = padded(firsts_total()) / 4;
    H5L_NO_UNROLL for (u32 i = thread(); i < before; i += kThreads) writer.put(i, staged[i]);
    H5L_NO_UNROLL for (u32 i = thread(); i < behind; i += kThreads) {
      writer.put(before + section().bytes / 4 + i, staged[before + i]);
    }
    emit_section(writer, before, place, chunk);
    return writer.sum();
  }

  H5L_DEVICE u32 staged_word(u32 i) const { return reinterpret_cast<const u32*>(shared_.staged)[i]; }

 private:
  H5L_DEVICE u32 planes_words() const {
    if (code_.first_size == 0 && code_.width == 0) return 0;
    return (code_.width + 1) * kBlockThreads;
  }

  // Bytes of codes and planes.
  H5L_DEVICE u32 split(u32 blocks) const { return padded(blocks * kCodeBytes<T>) + 4 * (totals_ & 0xFFFF); }
  H5L_DEVICE u32 firsts_total() const { return totals_ >> 16; }

  H5L_DEVICE Section& section() const {
    static_assert(sizeof(Section) <= kRowBytes<T>);
    return *reinterpret_cast<Section*>(shared_.input + thread() * kRowBytes<T>);
  }

  H5L_DEVICE u32 constant(W bits, u32 count) {
    if (thread() == 0) shared_.constant = bits;
    form_ = count == 1 && bits != 0 ? Form::stored : Form::constant;
    return bits == 0 ? 0 : static_cast<u32>(sizeof(T));  // of a stored one too
  }

  // Which of the values are exceptions.
  H5L_DEVICE u32 bins_of_thread(const Q& q, u32 inside, T (&bins)[kThreadValues]) {
    T values[kThreadValues];
    load_row<kRowBytes<T>>(shared_.input, values);
    const bool is_fine = bins_of_row(q, shared_.input, values, bins);
    if (!any_in_warp(!is_fine)) return 0;
    RowBins<T> found;
    found.first = bins[0];
    found.last = bins[kThreadValues - 1];
    if (!is_fine) found = bins_one_by_one<T>(q, shared_.input, inside);
    T start = found.has_ordinary ? found.first : T{0};
    if constexpr (kBlockThreads == 2) {
      // A half without values has no ordinary one; bins of one that was fine are read where they are.
      if (is_fine) found = ends_of(inside, bins);
      const bool other_has = shuffle_xor(found.has_ordinary ? 1u : 0u, 1) != 0;
      const T other_first = shuffle_xor(found.first, 1), other_last = shuffle_xor(found.last, 1);
      const bool is_second = thread() % 2 != 0;
      if (is_second && other_has) start = other_last;
      if (!is_second && !found.has_ordinary) start = other_has ? other_first : T{0};
    }
    if (is_fine) return 0;
    if (found.exceptions != 0) fill_forward<T>(shared_.input, inside, found.exceptions, start);
    load_row<kRowBytes<T>>(shared_.input, bins);
    return found.exceptions;
  }

  // First and last bin inside of a half whose values are all ordinary.
  H5L_DEVICE static RowBins<T> ends_of(u32 inside, const T (&bins)[kThreadValues]) {
    RowBins<T> found;
    found.has_ordinary = inside != 0;
    found.first = bins[0];
    H5L_UNROLL for (u32 i = 0; i < kThreadValues; ++i) {
      if ((inside >> i & 1) != 0) found.last = bins[i];
    }
    return found;
  }

  // Differences with their signs last; `rest` is what all but the block's first have, `first` is the first.
  H5L_DEVICE void words_of_bins(u32 inside, const T (&bins)[kThreadValues], W& rest, W& first) {
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

  // Finds the code. Whether all bins of the block are the same.
  H5L_DEVICE bool code_of_block(u32 blocks, u32 inside, W rest, W first) {
    code_ = {width_of(static_cast<W>((rest | first) >> 1)), 0};
    if (selection_ == Selection::outlier && thread() / kBlockThreads < blocks) {
      const W magnitude = first >> 1;
      const Code outlier = {width_of(static_cast<W>(rest >> 1)), first_size_of(magnitude)};
      if (cuszp2::planes_bytes<n>(outlier) + outlier.first_size < cuszp2::planes_bytes<n>(code_)) code_ = outlier;
    }
    if (selection_ != Selection::fixed) return rest >> 1 == 0;
    W differs = 0;
    const W block_first = dimensions == 1 ? words_[0] & kDifferenceBits<T> : first;
    H5L_UNROLL for (u32 i = 0; i < kThreadValues; ++i) {
      if ((inside >> i & 1) != 0) differs |= (words_[i] & kDifferenceBits<T>)^block_first;
    }
    return differs == 0;
  }

  // Finds out what the section of exceptions holds, and its size. Whether all exceptions have the same bits.
  H5L_DEVICE bool measure_section(const Spot& spot, const Place<T, dimensions>& place, const u8* chunk, u32 inside,
                                  Section& section) {
    const u32 exceptions = section.exceptions;
    const u32 first = exceptions == 0 ? kNone : thread() * 32 + lowest_bit(u64{exceptions});
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
    section.common = *Place<T, dimensions>(plan_.shape, spot.index, least / 32).value(chunk, least % 32);

    bool is_uniform = true;
    for (u32 mask = exceptions; mask != 0; mask &= mask - 1) {
      is_uniform &= *place.value(chunk, lowest_bit(u64{mask})) == section.common;
    }
    const bool all_uniform = !any_in_block(!is_uniform);
    bool is_present = exceptions != 0, is_full = exceptions == inside;
    if constexpr (kBlockThreads == 2) {
      const u32 mine = (is_present ? 1u : 0) | (is_full ? 0u : 2) | (is_uniform ? 0u : 4);
      const u32 both = mine | shuffle_xor(mine, 1);
      is_present = (both & 1) != 0;
      is_full = (both & 2) == 0;
      is_uniform = (both & 4) == 0;
    }
    section.has_mask = is_present && !is_full;
    section.has_bits = is_present && !is_uniform;
    const u32 own = (section.has_mask ? 1u : 0) | (section.has_bits ? ones(exceptions) : 0) << 16;
    u32 totals = 0;
    const u32 before = scan_of_block(own, shared_.totals, totals);
    section.mask_at = before & 0xFFFF;
    section.bits_at = before >> 16;
    section.masks_total = totals & 0xFFFF;
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
    section.groups = 0;
    H5L_UNROLL for (u32 g = 0; g < kWarps / kBlockThreads; ++g) section.groups |=
        shared_.groups[g][0] != 0 ? 1u << g : 0;
    section.bytes = 4 + static_cast<u32>(sizeof(T)) + 12 * ones(section.groups) + 4 * section.masks_total +
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

  H5L_DEVICE void emit_section(WordWriter& writer, u32 at, const Place<T, dimensions>& place, const u8* chunk) const {
    constexpr u32 head = 1 + kValueWords;
    const Section& section = this->section();
    if (thread() == 0) {
      writer.put(at, section.groups);
      writer.put_value(at + 1, section.common);
    }
    if (thread() < kWarps / kBlockThreads && (section.groups >> thread() & 1) != 0) {
      const u32 group_at = at + head + 3 * ones(section.groups & lanes_below());
      for (u32 i = 0; i < 3; ++i) writer.put(group_at + i, shared_.groups[thread()][i]);
    }
    const u32 masks = at + head + 3 * ones(section.groups);
    if (section.has_mask) writer.put(masks + section.mask_at, section.exceptions);
    if (!section.has_bits) return;
    u32 next = masks + section.masks_total + section.bits_at * kValueWords;
    for (u32 mask = section.exceptions; mask != 0; mask &= mask - 1, next += kValueWords) {
      writer.put_value(next, *place.value(chunk, lowest_bit(u64{mask})));
    }
  }

  // A stored tile with blocks in several dimensions.
  H5L_DEVICE void emit_values(WordWriter& writer, const Place<T, dimensions>& place, const u8* chunk) const {
    const u32 inside = place.inside();
    u32 total = 0;
    u32 next = scan_of_block(ones(inside), shared_.totals, total);
    H5L_NO_UNROLL for (u32 i = 0; i < kThreadValues; ++i) {
      if ((inside >> i & 1) != 0) writer.put_value(kValueWords * next++, *place.value(chunk, i));
    }
  }

  Shared& shared_;
  const EncodePlan& plan_;
  const Selection selection_;
  W words_[kThreadValues];
  Code code_ = {};
  // Words of planes in the lower half, bytes of first residuals in the upper one.
  u32 before_ = 0, totals_ = 0;
  Form form_ = Form::full;
  bool has_exceptions_ = false;
};

template <class T, class Q, u32 dimensions>
H5L_DEVICE void encode(const EncodePlan& plan) {
  auto& shared = *reinterpret_cast<EncodeShared<T>*>(shared_memory());
  Encoder<T, Q, dimensions> encoder(shared, plan);
  TilePlaces places;
  const Spot& waiting = shared.waiting;  // there, and not in registers
  const u32& waiting_bytes = shared.waiting_bytes;
  bool is_waiting = false;

  // Takes a payload to its place: emit_payload(place) returns its checksum.
  const auto emit_item = [&](const Spot& spot, u32 begin, u32 bytes, auto emit_payload) {
    u8* const to = place_tile(plan, spot.chunk, spot.index, begin, begin + bytes);
    add_checksum(plan, spot.chunk, to == nullptr ? 0 : emit_payload(to));
  };
  const auto emit_waiting = [&](u32 begin) {
    emit_item(waiting, begin, waiting_bytes, [&](u8* to) {
      u32 sum = 0;
      if constexpr (dimensions == 1) {
        const Place<T, dimensions> place(plan.shape, waiting.index);
        if (waiting_bytes == place.count() * sizeof(T)) {
          const u32* const values =
              reinterpret_cast<const u32*>(raw_of(plan, waiting.chunk) + place.first() * sizeof(T));
          emit(to, waiting_bytes, 0, waiting.index, sum, [&](u32 i) { return values[i]; });
          return sum;
        }
      }
      emit(to, waiting_bytes, 0, waiting.index, sum, [&](u32 i) { return encoder.staged_word(i); });
      return sum;
    });
  };

  Spot spot = first_spot<false>(plan);
  if (spot.chunk < plan.chunks) encoder.start(spot);
  while (spot.chunk < plan.chunks) {
    const u32 bytes = encoder.measure(spot);
    if (thread() == 0) store_relaxed(plan.sizes + spot.item, kPublishedSize | bytes);
    const Spot next = next_spot<false>(plan, spot);
    const bool has_next = next.chunk < plan.chunks, can_wait = encoder.can_wait();
    if (can_wait && has_next) encoder.start(next);
    if (is_waiting) emit_waiting(places.begin_of(plan, waiting, waiting_bytes, shared.more_totals));
    sync_block();
    encoder.write(spot);
    if (can_wait) {
      if (thread() == 0) {
        shared.waiting = spot;
        shared.waiting_bytes = bytes;
      }
    } else {
      sync_block();
      const u32 own_begin = places.begin_of(plan, spot, bytes, shared.more_totals);
      emit_item(spot, own_begin, bytes, [&](u8* to) { return encoder.emit_at_once(to, spot); });
      sync_block();
      if (has_next) encoder.start(next);
    }
    is_waiting = can_wait;
    spot = next;
  }
  if (!is_waiting) return;
  sync_block();
  emit_waiting(places.begin_of(plan, waiting, waiting_bytes, shared.more_totals));
}

}  // namespace h5lossy::H5L_TARGET::cuszp2

// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// AATROX's encoder: a thread block for a part of a tile, a thread for a block of 32 values.
#pragma once

#include "aatrox_parts.cuh"

namespace h5lossy::H5L_TARGET::aatrox {

template <class T>
struct alignas(16) EncodeShared {
  u8 input[kPartValues * sizeof(T)];          // rows of values
  u32 staged[kThreads * (kMaxWidth<T> + 1)];  // planes that wait for their place
  u8 staged_codes[kThreads];                  // and their codes
  T staged_initial;
  alignas(16) u8 value_before[16];  // the value in front of the part
  T warp_ends[kWarps];
  T firsts[kThreads], lasts[kThreads];  // ordinary bins of each thread
  u8 has_ordinary[kThreads];
  T initial;  // the part's first bin
  T bin_before;
  u32 has_bin_before;
  u64 common;
  u32 totals[kWarps];
  u32 more_totals[kWarps];
  u32 has_codes[kWarps];  // of each layer
  u32 first_exceptions[kWarps];
  u32 groups[kWarps][3];  // present, full, uniform
  Spot waiting;           // what is staged
  u32 waiting_planes;
};

template <class T, class Q>
class Encoder {
  using W = Word<T>;
  using Shared = EncodeShared<T>;
  static constexpr u32 kValueWords = sizeof(T) / 4;
  static constexpr u32 kNone = 32 * kThreads;

  // What a thread keeps of a part with exceptions. It stands in the thread's row of values, which nobody needs once the part
  // has been measured, and not in registers, which would be missing for the usual parts.
  struct Section {
    u32 exceptions;  // which of the thread's values
    u32 mask_at, bits_at;
    bool has_mask, has_bits;
    bool has_ordinary;  // the part
    W common;
  };

 public:
  H5L_DEVICE Encoder(Shared& shared, const EncodePlan& plan) : shared_(shared), plan_(plan) {}

  // Where the values of an item are, and how many.
  H5L_DEVICE const u8* values_of(const Spot& spot) const {
    return raw_of(plan_, spot.chunk) + u64{spot.index} * (kPartValues * sizeof(T));
  }
  H5L_DEVICE u32 count_of(const Spot& spot) const {
    const u32 left = plan_.shape.count - spot.index * kPartValues;
    return left < kPartValues ? left : kPartValues;
  }
  H5L_DEVICE static u32 part_of(const Spot& spot) { return spot.index % kTileParts; }

  H5L_DEVICE void start(const Spot& spot) {
    const u8* const values = values_of(spot);
    start_rows<kRowBytes<T>, sizeof(T)>(shared_.input, values, count_of(spot) * static_cast<u32>(sizeof(T)));
    if (thread() == 0 && part_of(spot) != 0) copy_async<sizeof(T)>(shared_.value_before, values - sizeof(T));
  }

  // The part's word; not yet published.
  H5L_DEVICE u64 measure(const Spot& spot) {
    const Q q = quantizer_as<T, Q>(quantizer_of(plan_, spot.chunk));
    const u32 count = count_of(spot), part_number = part_of(spot);
    const u32 begin = thread() * kThreadValues;
    const u32 inside = begin >= count ? 0 : static_cast<u32>(first_bits(count - begin < 32 ? count - begin : 32));
    finish_start<kRowBytes<T>>(values_of(spot), count * static_cast<u32>(sizeof(T)));
    if (inside != ~0u) clear_outside<T>(shared_.input, inside);

    T bins[kThreadValues];
    load_row<kRowBytes<T>>(shared_.input, bins);
    T values[kThreadValues];
    H5L_UNROLL for (u32 i = 0; i < kThreadValues; ++i) values[i] = bins[i];
    bool is_fine = bins_of_row(q, shared_.input, values, bins);
    u32 exceptions = 0;
    T before = bins[0];  // of the thread's first bin
    bool has_before = true;
    if (thread() == 0 && part_number != 0) {
      W bin = 0;
      has_before = bin_of(q, *reinterpret_cast<const W*>(shared_.value_before), bin);
      if (has_before) before = number_of_bin<T>(bin);
    }
    if (lane() == kWarpThreads - 1) shared_.warp_ends[warp()] = bins[kThreadValues - 1];
    if (any_in_block(!is_fine || !has_before)) {
      exceptions = bins_with_exceptions(q, spot, inside, is_fine, has_before, before, bins);
    }
    const T other = shuffle_up(bins[kThreadValues - 1], 1);
    if (lane() != 0) before = other;
    if (lane() == 0 && warp() != 0) before = shared_.warp_ends[warp() - 1];
    if (thread() == 0) {
      shared_.initial = bins[0];
      if (part_number == 0) before = bins[0];
    }

    H5L_UNROLL for (u32 i = 0; i < kThreadValues; ++i) {
      words_[i] = word_of_difference(subtract(bins[i], i == 0 ? before : bins[i == 0 ? 0 : i - 1]));
    }
    if (inside != ~0u) {
      H5L_UNROLL for (u32 i = 0; i < kThreadValues; ++i) {
        if ((inside >> i & 1) == 0) words_[i] = 0;
      }
    }
    W any = 0;
    H5L_UNROLL for (u32 i = 0; i < kThreadValues; ++i) any |= words_[i];
    width_ = width_of(static_cast<W>((any & kDifferenceBits<T>) >> 1));

    PartWord part = {};
    const u32 own = (width_ == 0 ? 0 : width_ + 1) | (exceptions != 0 ? 1u << 16 : 0);
    const bool has_codes = any_in_warp(width_ != 0);
    if (lane() == 0) shared_.has_codes[warp()] = has_codes ? 1 : 0;
    u32 totals = 0;
    planes_at_ = scan_of_block(own, shared_.totals, totals) & 0xFFFF;
    part.planes = totals & 0xFFFF;
    H5L_UNROLL for (u32 w = 0; w < kWarps; ++w) part.layers |= shared_.has_codes[w] << w;
    part.has_ordinary = true;
    has_exceptions_ = totals >> 16 != 0;
    if (thread() == 0) part.initial_is_zero = shared_.initial == T{0};
    if (has_exceptions_) {
      Section section = {};
      section.exceptions = exceptions;
      measure_section(spot, inside, section, part);
      this->section() = section;
    }
    return pack(part);
  }

  // Whether the part's shares can wait for their places in shared memory while the next part is begun. If not, the rows of
  // values are in use until they have been written.
  [[nodiscard]] H5L_DEVICE bool can_wait() const { return !has_exceptions_; }

  // Stages the part's shares of the payload.
  H5L_DEVICE void write() {
    shared_.staged_codes[thread()] = static_cast<u8>(width_);
    if (thread() == 0) shared_.staged_initial = shared_.initial;
    store_planes<kMaxWidth<T> + 1>(words_, width_ == 0 ? 0 : width_ + 1, 1, shared_.staged + planes_at_);
  }

  // Writes what is staged, of an item of a tile, in the tile's place. Returns the checksum.
  H5L_DEVICE u32 emit_staged(u8* to, const Spot& spot, u32 tile, const TileLayout& layout, u32 planes) const {
    const u32 part = part_of(spot);
    const Q q = quantizer_as<T, Q>(quantizer_of(plan_, spot.chunk));
    u32 sum = 0;
    if (layout.form == Form::stored) {
      const u32 bytes = count_of(spot) * static_cast<u32>(sizeof(T));
      const u32 first = part * kPartValues * static_cast<u32>(sizeof(T));
      const u32* const words = reinterpret_cast<const u32*>(values_of(spot));
      emit(to + first, bytes, first / 4, tile, sum, [&](u32 i) { return words[i]; });
      return sum;
    }
    WordWriter writer(to, tile);
    if (layout.form != Form::full) {
      if (layout.form == Form::constant_bin && layout.bytes != 0 && part == 0 && thread() == 0) {
        writer.put_value(0, bits_of(q, bin_of_number(shared_.staged_initial)));
      }
      return writer.sum();
    }
    // Codes of the part's layers.
    const u32 own_layers = layout.layers >> (kPartLayers * part) & 0xF;
    const u32 first_code = 1 + kLayerBlocks / 4 * ones(layout.layers & ((u32{1} << (kPartLayers * part)) - 1));
    const u32 codes = count_of(spot);
    if (thread() < kThreads / 4) {
      const u32 layer = thread() / 8;
      if ((own_layers >> layer & 1) != 0 && thread() * 4 * kBlockValues < codes) {
        const u32 at = first_code + 8 * ones(own_layers & ((u32{1} << layer) - 1)) + thread() % 8;
        writer.put(at, reinterpret_cast<const u32*>(shared_.staged_codes)[thread()]);
      }
    }
    const u32 initial_at = padded(layout.codes_bytes) / 4;
    if (part == 0 && thread() == 0) {
      writer.put(0, layout.layers);
      writer.put_value(initial_at, bin_of_number(shared_.staged_initial));
    }
    const u32 planes_at = initial_at + kValueWords + layout.planes_before;
    emit(to + 4 * planes_at, 4 * planes, planes_at, tile, sum, [&](u32 i) { return shared_.staged[i]; });
    return sum + writer.sum();
  }

  // The part's shares of the section of exceptions.
  H5L_DEVICE u32 emit_section(u8* to, const Spot& spot, u32 tile, const TileLayout& layout) const {
    WordWriter writer(to, tile);
    const Section& section = this->section();
    const u32 part = part_of(spot);
    if (layout.form == Form::constant_bits) {
      if (part == 0 && thread() == 0) writer.put_value(0, section.common);
      return writer.sum();
    }
    if (layout.form != Form::full) return 0;
    const u32 at = padded(layout.codes_bytes) / 4 + kValueWords + layout.planes;
    constexpr u32 head = 1 + kValueWords;
    const u32 groups_before = layout.groups & ((u32{1} << (kPartLayers * part)) - 1);
    const u32 own_groups = layout.groups >> (kPartLayers * part) & 0xF;
    if (groups_before == 0 && thread() == 0) {
      writer.put(at, layout.groups);
      writer.put_value(at + 1, section.common);
    }
    if (thread() < kPartLayers && (own_groups >> thread() & 1) != 0) {
      const u32 place = at + head + 3 * (ones(groups_before) + ones(own_groups & lanes_below()));
      for (u32 i = 0; i < 3; ++i) writer.put(place + i, shared_.groups[thread()][i]);
    }
    const u32 masks = at + head + 3 * ones(layout.groups);
    if (section.has_mask) writer.put(masks + layout.masks_before + section.mask_at, section.exceptions);
    if (section.has_bits) {
      u32 next = masks + layout.masks + (layout.bits_before + section.bits_at) * kValueWords;
      for (u32 mask = section.exceptions; mask != 0; mask &= mask - 1, next += kValueWords) {
        writer.put_value(next, own_value(spot, lowest_bit(u64{mask})));
      }
    }
    return writer.sum();
  }

  // Stages the first bin of the tile, where the first part has exceptions only. By its first thread, once all parts' words
  // are there.
  H5L_DEVICE void find_initial(const Spot& spot, u32 parts) {
    const u32 item = spot.item;
    const Q q = quantizer_as<T, Q>(quantizer_of(plan_, spot.chunk));
    T& initial = shared_.staged_initial;
    initial = 0;
    for (u32 i = 1; i < parts; ++i) {
      const PartWord part = unpack(wait_for(plan_.parts + item + i));
      if (!part.has_ordinary) continue;
      if (part.groups != 0) {
        fence();
        initial = number_of_record(records()[item + i].first);
      } else {
        W bin = 0;
        bin_of(q, *reinterpret_cast<const W*>(values_of(spot) + u64{i} * (kPartValues * sizeof(T))), bin);
        initial = number_of_bin<T>(bin);
      }
      return;
    }
  }

  [[nodiscard]] H5L_DEVICE bool lacks_initial(const Spot& spot) const {
    return part_of(spot) == 0 && !section().has_ordinary;
  }

 private:
  H5L_DEVICE Section& section() const {
    static_assert(sizeof(Section) <= kRowBytes<T>);
    return *reinterpret_cast<Section*>(shared_.input + thread() * kRowBytes<T>);
  }
  H5L_DEVICE PartRecord* records() const {
    return reinterpret_cast<PartRecord*>(plan_.parts + plan_.chunks * plan_.items_per_chunk);
  }
  H5L_DEVICE static T number_of_record(u64 word) { return bit_cast<T>(static_cast<W>(word)); }
  [[nodiscard]] H5L_DEVICE W own_value(const Spot& spot, u32 i) const {
    return reinterpret_cast<const W*>(values_of(spot))[thread() * kThreadValues + i];
  }

  // Exceptions take the bin of the value before them in the tile, or else of the first one behind them that is ordinary.
  // Which of the thread's values are exceptions.
  H5L_DEVICE u32 bins_with_exceptions(const Q& q, const Spot& spot, u32 inside, bool is_fine, bool has_before,
                                      T& before, T (&bins)[kThreadValues]) {
    const u32 item = spot.item, part_number = part_of(spot);
    RowBins<T> found;
    found.has_ordinary = inside != 0;
    found.first = found.last = bins[0];
    H5L_UNROLL for (u32 i = 0; i < kThreadValues; ++i) {
      if ((inside >> i & 1) != 0) found.last = bins[i];
    }
    if (!is_fine) found = bins_one_by_one<T>(q, shared_.input, inside);
    if (thread() == 0) {
      if (part_number == 0) has_before = false;
      if (part_number != 0 && !has_before) {
        for (u32 i = 1; i <= part_number && !has_before; ++i) {
          const PartWord part = unpack(wait_for(plan_.parts + item - i));
          if (!part.has_ordinary) continue;
          fence();
          before = number_of_record(records()[item - i].last);
          has_before = true;
        }
      }
      shared_.bin_before = before;
      shared_.has_bin_before = has_before ? 1 : 0;
    }
    shared_.firsts[thread()] = found.first;
    shared_.lasts[thread()] = found.last;
    shared_.has_ordinary[thread()] = found.has_ordinary ? 1 : 0;
    sync_block();
    T start = found.first;
    bool has_start = false;
    for (u32 t = thread(); t > 0 && !has_start; --t) {
      has_start = shared_.has_ordinary[t - 1] != 0;
      if (has_start) start = shared_.lasts[t - 1];
    }
    if (!has_start && shared_.has_bin_before != 0) {
      has_start = true;
      start = shared_.bin_before;
    }
    if (!has_start) {
      start = 0;
      for (u32 t = thread(); t < kThreads && !has_start; ++t) {
        has_start = shared_.has_ordinary[t] != 0;
        if (has_start) start = shared_.firsts[t];
      }
    }
    if (!is_fine) {
      if (found.exceptions != 0) fill_forward<T>(shared_.input, inside, found.exceptions, start);
      load_row<kRowBytes<T>>(shared_.input, bins);
    }
    if (lane() == kWarpThreads - 1) shared_.warp_ends[warp()] = bins[kThreadValues - 1];
    if (thread() == 0 && !has_before) before = bins[0];
    sync_block();
    return found.exceptions;
  }

  H5L_DEVICE void measure_section(const Spot& spot, u32 inside, Section& section, PartWord& part) {
    const u32 item = spot.item, exceptions = section.exceptions;
    u32 least = exceptions == 0 ? kNone : thread() * 32 + lowest_bit(u64{exceptions});
    for (u32 by = 16; by != 0; by /= 2) {
      const u32 other = shuffle_xor(least, by);
      least = other < least ? other : least;
    }
    if (lane() == 0) shared_.first_exceptions[warp()] = least;
    sync_block();
    if (thread() == 0) {
      least = kNone;
      for (u32 w = 0; w < kWarps; ++w)
        least = shared_.first_exceptions[w] < least ? shared_.first_exceptions[w] : least;
      W common = reinterpret_cast<const W*>(values_of(spot))[least];
      for (u32 i = part_of(spot); i > 0; --i) {
        if (unpack(wait_for(plan_.parts + item - i)).groups == 0) continue;
        fence();
        common = static_cast<W>(records()[item - i].common);
        break;
      }
      shared_.common = common;
    }
    sync_block();
    section.common = static_cast<W>(shared_.common);
    bool is_uniform = true;
    for (u32 mask = exceptions; mask != 0; mask &= mask - 1) {
      is_uniform &= own_value(spot, lowest_bit(u64{mask})) == section.common;
    }
    const bool is_present = exceptions != 0, is_full = exceptions == inside;
    section.has_ordinary = any_in_block(!is_full);
    part.only_common = !any_in_block(!is_full || !is_uniform);
    part.has_ordinary = section.has_ordinary;
    section.has_mask = is_present && !is_full;
    section.has_bits = is_present && !is_uniform;
    const u32 own = (section.has_mask ? 1u : 0) | (section.has_bits ? ones(exceptions) : 0) << 16;
    u32 totals = 0;
    const u32 before = scan_of_block(own, shared_.totals, totals);
    section.mask_at = before & 0xFFFF;
    section.bits_at = before >> 16;
    part.masks = totals & 0xFFFF;
    part.bits = totals >> 16;
    const u32 present = ballot(is_present), full = ballot(is_present && is_full),
              uniform = ballot(is_present && is_uniform);
    if (lane() == 0) {
      shared_.groups[warp()][0] = present;
      shared_.groups[warp()][1] = full;
      shared_.groups[warp()][2] = uniform;
    }
    sync_block();
    H5L_UNROLL for (u32 g = 0; g < kWarps; ++g) part.groups |= shared_.groups[g][0] != 0 ? 1u << g : 0;
    if (thread() != 0) return;
    PartRecord record = {section.common, 0, 0};
    for (u32 t = 0; t < kThreads; ++t) {
      if (shared_.has_ordinary[t] == 0) continue;
      record.last = bit_cast<W>(shared_.lasts[t]);
    }
    for (u32 t = 0; t < kThreads; ++t) {
      if (shared_.has_ordinary[t] == 0) continue;
      record.first = bit_cast<W>(shared_.firsts[t]);
      break;
    }
    records()[item] = record;
    fence();
  }

  Shared& shared_;
  const EncodePlan& plan_;
  W words_[kThreadValues];
  u32 width_ = 0, planes_at_ = 0;
  bool has_exceptions_ = false;
};

// The places of a thread block's items, where an item is a part of a tile.
template <class T>
class PartPlaces {
 public:
  // Where an item's tile begins in its chunk's payload, and its layout. All threads call it.
  H5L_DEVICE u32 begin_of(const EncodePlan& plan, const Spot& spot, TileLayout& layout, u32* totals) {
    const u32 first = spot.item - spot.index;
    const u32 tile = spot.index / kTileParts;
    const bool knows = known_chunk_ == first + 1 && known_tile_ <= tile;
    u32 sum = 0;
    for (u32 t = (knows ? known_tile_ : 0) + warp() * 4; t < tile; t += kWarps * 4) {
      const u32 own = t + lane() / kTileParts;
      const u64 word = own < tile ? word_of(plan, first, own) : 0;
      u32 bytes = bytes_of_usual(word);
      const bool is_usual = own >= tile || (bytes != 0 && bytes < kTileValues * sizeof(T));
      if (any_in_warp(!is_usual)) bytes = layout_of<T>(word, kTileValues, 0).bytes;
      if (own < tile && lane() % kTileParts == 0) sum += bytes;
    }
    layout = layout_of<T>(word_of(plan, first, tile), values_of(plan, tile), spot.index % kTileParts);
    sum = sum_of_warp(sum);
    if (lane() == 0) totals[warp()] = sum;
    sync_block();
    u32 begin = knows ? known_end_ : 0;
    H5L_UNROLL for (u32 w = 0; w < kWarps; ++w) begin += totals[w];
    known_chunk_ = first + 1;
    known_tile_ = tile + 1;
    known_end_ = begin + layout.bytes;
    return begin;
  }

 private:
  // What layout_of says of the bytes of a whole tile without exceptions that is not constant; 0: not such a tile.
  H5L_DEVICE static u32 bytes_of_usual(u64 word) {
    const PartWord part = unpack(word);
    constexpr u32 unusual = 1u << 24;
    u32 words = part.planes + kLayerBlocks / 4 * ones(part.layers) + (part.groups != 0 ? unusual : 0);
    for (u32 by = 1; by < kTileParts; by *= 2) words += shuffle_xor(words, by);
    return words == 0 || words >= unusual ? 0 : 4 + static_cast<u32>(sizeof(T)) + 4 * words;
  }

  // The word of the lane's part of a tile.
  H5L_DEVICE static u64 word_of(const EncodePlan& plan, u32 first, u32 tile) {
    const u32 in_chunk = tile * kTileParts + lane() % kTileParts;
    return in_chunk < plan.items_per_chunk ? wait_for(plan.parts + first + in_chunk) : 0;
  }
  H5L_DEVICE static u32 values_of(const EncodePlan& plan, u32 tile) {
    const u32 left = plan.shape.count - tile * kTileValues;
    return tile * kTileValues >= plan.shape.count ? 1 : left < kTileValues ? left : kTileValues;
  }

  u32 known_chunk_ = 0;  // the first item of a chunk and 1; 0: none is known
  u32 known_tile_ = 0, known_end_ = 0;
};

template <class T, class Q>
H5L_DEVICE void encode(const EncodePlan& plan) {
  auto& shared = *reinterpret_cast<EncodeShared<T>*>(shared_memory());
  Encoder<T, Q> encoder(shared, plan);
  PartPlaces<T> places;
  const Spot& waiting = shared.waiting;  // there, and not in registers
  const u32& waiting_planes = shared.waiting_planes;
  bool is_waiting = false;

  const auto place_item = [&](const Spot& spot, u32 planes, bool with_exceptions) {
    TileLayout layout;
    const u32 begin = places.begin_of(plan, spot, layout, shared.more_totals);
    const u32 tile = spot.index / kTileParts, part = spot.index % kTileParts;
    if (with_exceptions && encoder.lacks_initial(spot)) {
      if (thread() == 0) {
        const u32 left = plan.items_per_chunk - tile * kTileParts;
        encoder.find_initial(spot, left < kTileParts ? left : kTileParts);
      }
      sync_block();
    }
    u8* const to = place_tile(plan, spot.chunk, tile, begin, begin + layout.bytes, part == 0);
    u32 sum = 0;
    if (to != nullptr) {
      sum = encoder.emit_staged(to, spot, tile, layout, planes);
      if (with_exceptions) sum += encoder.emit_section(to, spot, tile, layout);
    }
    add_checksum(plan, spot.chunk, sum);
  };

  Spot spot = first_spot<false>(plan);
  if (spot.chunk < plan.chunks) encoder.start(spot);
  while (spot.chunk < plan.chunks) {
    const u64 word = encoder.measure(spot);
    if (thread() == 0) store_relaxed(plan.parts + spot.item, word);
    const Spot next = next_spot<false>(plan, spot);
    const bool has_next = next.chunk < plan.chunks, can_wait = encoder.can_wait();
    if (can_wait && has_next) encoder.start(next);
    if (is_waiting) place_item(waiting, waiting_planes, false);
    sync_block();
    encoder.write();
    if (can_wait) {
      if (thread() == 0) {
        shared.waiting = spot;
        shared.waiting_planes = unpack(word).planes;
      }
    } else {
      sync_block();
      place_item(spot, unpack(word).planes, true);
      sync_block();
      if (has_next) encoder.start(next);
    }
    is_waiting = can_wait;
    spot = next;
  }
  if (!is_waiting) return;
  sync_block();
  place_item(waiting, waiting_planes, false);
}

}  // namespace h5lossy::H5L_TARGET::aatrox

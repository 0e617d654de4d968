// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// AATROX's encoder: a thread block per part of a tile, a thread per block of 32 values.
#pragma once

#include "kernels/codecs/aatrox_parts.cuh"

namespace h5lossy::H5L_TARGET::aatrox {

// Finds the offsets of a thread block's items, which are parts of tiles. Called by one warp.
template <class T>
class PartPlaces {
 public:
  struct Shared {
    u32 known_chunk;  // one past the first item of the chunk placed last; 0: none
    u32 known_tile, known_end;
    u32 begin;  // offset of the last item's tile
    TileLayout layout;
  };

  H5L_DEVICE explicit PartPlaces(Shared& shared) : shared_(shared) {
    if (thread() == 0) shared_.known_chunk = 0;
  }

  H5L_DEVICE void prefetch(const EncodePlan& plan, const WorkItem& work) {
    const u64* const own = own_word(plan, work);
    own_ = own == nullptr ? kPublished : load_relaxed(own);
    sum_ = load_sum(plan, work, known_tile(work) + lane());
  }

  // Computes the tile's offset in its chunk's payload, and its layout.
  H5L_DEVICE void find(const EncodePlan& plan, const OwnTile& part) {
    const WorkItem& work = part.work;
    const u32 first_tile = known_tile(work), tile = work.index / kTileParts;
    u32 bytes = 0;
    constexpr u32 in_flight = 4;
    for (u32 t = first_tile + lane(); t < tile + lane(); t += in_flight * kWarpThreads) {
      u32 found[in_flight];
      H5L_UNROLL for (u32 k = 0; k < in_flight; ++k) {
        const bool is_prefetched = k == 0 && t == first_tile + lane();
        found[k] = is_prefetched ? sum_ : load_sum(plan, work, t + k * kWarpThreads);
      }
      H5L_UNROLL for (u32 k = 0; k < in_flight; ++k) {
        while ((found[k] & kComplete) == 0) {
          wait_a_little();
          found[k] = load_sum(plan, work, t + k * kWarpThreads);
        }
        if (t + k * kWarpThreads < tile) bytes += bytes_of_sum<T>(found[k]);
      }
    }
    const u64* const own = own_word(plan, work);
    if (own != nullptr) own_ = wait_for(own, own_);
    const u32 left = plan.shape.count - tile * kTileValues, values = left < kTileValues ? left : kTileValues;
    const TileLayout layout = layout_of<T>(own == nullptr ? 0 : own_, values, work.index % kTileParts);
    const u32 begin = (first_tile == 0 ? 0 : shared_.known_end) + sum_of_warp(bytes);
    sync_warp();  // all lanes have read the state
    if (lane() != 0) return;
    shared_.begin = begin;
    shared_.layout = layout;
    shared_.known_chunk = work.item - work.index + 1;
    shared_.known_tile = tile + 1;
    shared_.known_end = begin + layout.bytes;
  }

 private:
  // The first tile of the chunk whose end has not been computed yet.
  [[nodiscard]] H5L_DEVICE u32 known_tile(const WorkItem& work) const {
    const bool is_same_chunk =
        shared_.known_chunk == work.item - work.index + 1 && shared_.known_tile <= work.index / kTileParts;
    return is_same_chunk ? shared_.known_tile : 0;
  }

  // The word of the lane's part of the item's tile; null if there is no such part.
  H5L_DEVICE static const u64* own_word(const EncodePlan& plan, const WorkItem& work) {
    const u32 part = work.index / kTileParts * kTileParts + lane() % kTileParts;
    return part < plan.items_per_chunk ? plan.parts + (work.item - work.index) + part : nullptr;
  }

  // The published sum of an earlier tile.
  H5L_DEVICE static u32 load_sum(const EncodePlan& plan, const WorkItem& work, u32 tile) {
    if (tile >= work.index / kTileParts) return kComplete;
    return load_relaxed(plan.group_sums + work.chunk * plan.groups_per_chunk + tile);
  }

  Shared& shared_;
  u64 own_ = kPublished;
  u32 sum_ = kComplete;
};

// Exceptions of a part and of each thread. They are in shared memory: in registers they would slow down the common
// parts without exceptions.
struct alignas(16) Exceptions {
  ThreadExceptions threads[kThreads];
  u64 common;
  u32 groups[kWarps][3];  // present, full, uniform
  u32 any_ordinary;       // whether the part has values that are no exceptions
};

// A part in the ring: this head, its exceptions if any, and its planes.
struct alignas(16) StagedHead {
  u8 codes[kThreads];
  u64 initial;  // bits of the part's first bin
  u32 has_exceptions;
};
H5L_FN constexpr u32 staged_bytes(u32 planes_words, bool has_exceptions) {
  return static_cast<u32>(sizeof(StagedHead)) + (has_exceptions ? static_cast<u32>(sizeof(Exceptions)) : 0) +
         (4 * planes_words + 15) / 16 * 16;
}

template <class T>
struct alignas(16) EncodeShared {
  u8 input[kPartValues * sizeof(T)];           // rows of values
  u8 staged[kPartValues * sizeof(T) * 9 / 8];  // ring of parts; any single one fits
  alignas(16) u8 value_before[16];             // the value before the part
  alignas(16) u32 totals[kWarps];
  T warp_ends[kWarps];
  T firsts[kThreads], lasts[kThreads];  // first and last bins of each thread, without exceptions
  u32 ordinary[kWarps];                 // bit per thread: whether it has ordinary values
  T initial;                            // the part's first bin
  T bin_before;
  u32 has_bin_before;
  u64 common;
  u32 section_totals[kWarps];
  u32 first_exceptions[kWarps];
  Exceptions exceptions;
  LoopShared<PartPlaces<T>> loop;
};

template <class T, class Q>
class Encoder {
  using W = Word<T>;
  using Shared = EncodeShared<T>;
  static constexpr u32 kValueWords = sizeof(T) / 4;
  static constexpr u32 kNone = 32 * kThreads;

  // Fields of the sum over blocks: words of planes, warps with exceptions, and from kLayersAt on one bit per warp for a
  // layer with codes.
  static constexpr u32 kExceptionsAt = 16, kLayersAt = 24;

 public:
  using Places = PartPlaces<T>;
  static constexpr u32 kRoom = sizeof(Shared::staged);
  static constexpr u32 kMostWaiting = 3;
  static_assert(staged_bytes(kThreads*(kMaxWidth<T> + 1), true) <= kRoom);

  H5L_DEVICE Encoder(Shared& shared, const EncodePlan& plan) : shared_(shared), plan_(plan) {}

  // Finds an item's values.
  H5L_DEVICE void find_values(OwnTile& part) const {
    const u32 left = plan_.shape.count - part.work.index * kPartValues;
    part.values = raw_of(plan_, part.work.chunk) + u64{part.work.index} * (kPartValues * sizeof(T));
    part.raw_bytes = (left < kPartValues ? left : kPartValues) * static_cast<u32>(sizeof(T));
  }
  H5L_DEVICE static u32 part_of(const OwnTile& part) { return part.work.index % kTileParts; }

  H5L_DEVICE void start(const OwnTile& part) {
    start_rows<kRowBytes<T>, sizeof(T)>(shared_.input, part.values, part.raw_bytes);
    if (thread() == 0 && part_of(part) != 0) copy_async<sizeof(T)>(shared_.value_before, part.values - sizeof(T));
  }

  // Computes the part's word; valid in the first thread.
  H5L_DEVICE u64 measure(const OwnTile& tile) {
    const Q q = quantizer_as<T, Q>(quantizer_of(plan_, tile.work.chunk));
    const u32 count = tile.raw_bytes / static_cast<u32>(sizeof(T)), part_number = part_of(tile);
    const u32 begin = thread() * kThreadValues;
    const u32 inside = begin >= count ? 0 : static_cast<u32>(first_bits(count - begin < 32 ? count - begin : 32));
    finish_start<kRowBytes<T>>(tile.values, tile.raw_bytes);
    if (inside != ~0u) clear_outside<T>(shared_.input, inside);

    T values[kThreadValues], bins[kThreadValues];
    load_row<kRowBytes<T>>(shared_.input, values);
    bool is_fine = !is_near_fill(q, values);
    is_fine &= bins_of_row(q, values, bins);
    u32 exceptions = 0;
    T before = bins[0];  // predicts the thread's first bin
    bool has_before = true;
    if (thread() == 0 && part_number != 0) {
      W bin = 0;
      has_before = bin_of(q, *reinterpret_cast<const W*>(shared_.value_before), bin);
      if (has_before) before = number_of_bin<T>(bin);
    }
    if (lane() == kWarpThreads - 1) shared_.warp_ends[warp()] = bins[kThreadValues - 1];
    if (any_in_block(!is_fine || !has_before)) {
      exceptions = bins_with_exceptions(q, tile, inside, is_fine, has_before, before, bins);
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

    const u32 own = width_ == 0 ? 0 : width_ + 1;
    const u32 inclusive = scan_of_warp(own);
    const bool has_codes = any_in_warp(width_ != 0), has_exceptions = any_in_warp(exceptions != 0);
    if (lane() == kWarpThreads - 1) {
      shared_.totals[warp()] =
          inclusive | (has_exceptions ? 1u << kExceptionsAt : 0) | (has_codes ? 1u << (kLayersAt + warp()) : 0);
    }
    sync_block();
    planes_at_ = inclusive - own;
    u32 totals = 0;
    H5L_UNROLL for (u32 w = 0; w < kWarps; ++w) {
      if (w < warp()) planes_at_ += shared_.totals[w] % (1u << kExceptionsAt);
      totals += shared_.totals[w];
    }
    PartWord part = {};
    part.planes = totals % (1u << kExceptionsAt);
    part.layers = totals >> kLayersAt;
    part.has_ordinary = true;
    part.initial_is_zero = shared_.initial == T{0};
    has_exceptions_ = (totals >> kExceptionsAt) % 8 != 0;
    room_ = staged_bytes(part.planes, has_exceptions_);
    if (has_exceptions_) measure_section(tile, inside, exceptions, part);
    return pack(part);
  }

  H5L_DEVICE void publish(OwnTile& tile, u64 word) const {
    const PartWord part = unpack(word);
    const WorkItem& work = tile.work;
    tile.bytes = 4 * part.planes;
    store_relaxed(plan_.parts + work.item, word);
    atomic_add(plan_.group_sums + work.chunk * plan_.groups_per_chunk + work.index / kTileParts,
               summand_of<T>(part, part_of(tile) == 0));
  }

  // Bytes that the part takes in the ring.
  [[nodiscard]] H5L_DEVICE u32 room() const { return room_; }

  // Keeps the words in the rows of values while another part is copied out.
  H5L_DEVICE void stash() { store_row<kRowBytes<T>>(shared_.input, words_); }
  H5L_DEVICE void unstash() { load_row<kRowBytes<T>>(shared_.input, words_); }

  // Writes the part's shares of the payload to the ring.
  H5L_DEVICE void write(const OwnTile&, u32 at) {
    u8* const out = shared_.staged + at;
    auto& head = *reinterpret_cast<StagedHead*>(out);
    head.codes[thread()] = static_cast<u8>(width_);
    if (thread() == 0) {
      head.initial = bit_cast<W>(shared_.initial);
      head.has_exceptions = has_exceptions_ ? 1 : 0;
    }
    u32* const planes = planes_of(out, has_exceptions_);
    store_planes<kMaxWidth<T> + 1>(words_, width_ == 0 ? 0 : width_ + 1, 1, 0, planes + planes_at_);
    if (!has_exceptions_) return;
    static_assert(sizeof(Exceptions) % 16 == 0);
    const Quad* const from = reinterpret_cast<const Quad*>(&shared_.exceptions);
    Quad* const to = reinterpret_cast<Quad*>(out + sizeof(StagedHead));
    for (u32 i = thread(); i < sizeof(Exceptions) / 16; i += kThreads) to[i] = from[i];
  }

  // Copies the part's shares of the payload to the frame.
  H5L_DEVICE u32 emit(const OwnTile& part, u32& table_sum) const {
    const TileLayout& layout = shared_.loop.places.layout;
    const u32 begin = shared_.loop.places.begin, tile = part.work.index / kTileParts;
    StagedHead& head = *reinterpret_cast<StagedHead*>(shared_.staged + part.at);
    const auto& exceptions = *reinterpret_cast<const Exceptions*>(shared_.staged + part.at + sizeof(StagedHead));
    const bool has_exceptions = head.has_exceptions != 0;
    if (has_exceptions && part_of(part) == 0 && exceptions.any_ordinary == 0) {
      if (thread() == 0) find_initial(part, head);
      sync_block();
    }
    u8* const to = place_tile(plan_, part.work.chunk, tile, begin, begin + layout.bytes, table_sum, part_of(part) == 0);
    if (to == nullptr) return 0;
    const u32 sum = emit_shares(to, part, tile, layout, head);
    return has_exceptions ? sum + emit_section(to, part, tile, layout, exceptions) : sum;
  }

 private:
  // The place of the planes in the ring.
  H5L_DEVICE static u32* planes_of(u8* staged, bool has_exceptions) {
    return reinterpret_cast<u32*>(staged + sizeof(StagedHead) + (has_exceptions ? sizeof(Exceptions) : 0));
  }

  H5L_DEVICE u32 emit_shares(u8* to, const OwnTile& tile_part, u32 tile, const TileLayout& layout,
                             const StagedHead& head) const {
    const u32 part = part_of(tile_part);
    if (layout.form == Form::stored) {
      const u32 first = part * kPartValues * static_cast<u32>(sizeof(T));
      const u32* const words = reinterpret_cast<const u32*>(tile_part.values);
      return h5lossy::H5L_TARGET::emit(to + first, words, tile_part.raw_bytes, first / 4, tile);
    }
    const T initial = bit_cast<T>(static_cast<W>(head.initial));
    WordWriter writer(to, tile);
    if (layout.form != Form::full) {
      if (layout.form == Form::constant_bin && layout.bytes != 0 && part == 0 && thread() == 0) {
        const Q q = quantizer_as<T, Q>(quantizer_of(plan_, tile_part.work.chunk));
        writer.put_value(0, bits_of(q, bin_of_number(initial)));
      }
      return writer.sum();
    }
    // Codes of the part's layers.
    const u32 own_layers = layout.layers >> (kPartLayers * part) & 0xF;
    const u32 first_code = 1 + kLayerBlocks / 4 * ones(layout.layers & ((u32{1} << (kPartLayers * part)) - 1));
    const u32 codes = tile_part.raw_bytes / static_cast<u32>(sizeof(T));
    if (thread() < kThreads / 4) {
      const u32 layer = thread() / 8;
      if ((own_layers >> layer & 1) != 0 && thread() * 4 * kBlockValues < codes) {
        const u32 at = first_code + 8 * ones(own_layers & ((u32{1} << layer) - 1)) + thread() % 8;
        writer.put(at, reinterpret_cast<const u32*>(head.codes)[thread()]);
      }
    }
    const u32 initial_at = padded(layout.codes_bytes) / 4;
    if (part == 0 && thread() == 0) {
      writer.put(0, layout.layers);
      writer.put_value(initial_at, bin_of_number(initial));
    }
    const u32 planes_at = initial_at + kValueWords + layout.planes_before;
    const u32* const planes = planes_of(shared_.staged + tile_part.at, head.has_exceptions != 0);
    const u32 sum = h5lossy::H5L_TARGET::emit(to + 4 * planes_at, planes, tile_part.bytes, planes_at, tile);
    return sum + writer.sum();
  }

  // Copies the part's shares of the section of exceptions.
  H5L_DEVICE u32 emit_section(u8* to, const OwnTile& tile_part, u32 tile, const TileLayout& layout,
                              const Exceptions& exceptions) const {
    WordWriter writer(to, tile);
    const ThreadExceptions own = exceptions.threads[thread()];
    const W common = static_cast<W>(exceptions.common);
    const u32 part = part_of(tile_part);
    if (layout.form == Form::constant_bits) {
      if (part == 0 && thread() == 0) writer.put_value(0, common);
      return writer.sum();
    }
    if (layout.form != Form::full) return 0;
    const u32 at = padded(layout.codes_bytes) / 4 + kValueWords + layout.planes;
    constexpr u32 head = 1 + kValueWords;
    const u32 groups_before = layout.groups & ((u32{1} << (kPartLayers * part)) - 1);
    const u32 own_groups = layout.groups >> (kPartLayers * part) & 0xF;
    if (groups_before == 0 && thread() == 0) {
      writer.put(at, layout.groups);
      writer.put_value(at + 1, common);
    }
    if (thread() < kPartLayers && (own_groups >> thread() & 1) != 0) {
      const u32 place = at + head + 3 * (ones(groups_before) + ones(own_groups & lanes_below()));
      for (u32 i = 0; i < 3; ++i) writer.put(place + i, exceptions.groups[thread()][i]);
    }
    const u32 masks = at + head + 3 * ones(layout.groups);
    if (own.has_mask != 0) writer.put(masks + layout.masks_before + own.mask_at, own.exceptions);
    if (own.has_bits != 0) {
      u32 next = masks + layout.masks + (layout.bits_before + own.bits_at) * kValueWords;
      for (u32 mask = own.exceptions; mask != 0; mask &= mask - 1, next += kValueWords) {
        writer.put_value(next, own_value(tile_part, lowest_bit(u64{mask})));
      }
    }
    return writer.sum();
  }

  // Finds the first bin of the tile if its first part has only exceptions. Called by one thread, after all parts' words
  // are published.
  H5L_DEVICE void find_initial(const OwnTile& tile_part, StagedHead& head) const {
    const WorkItem& work = tile_part.work;
    const u32 item = work.item, left = plan_.items_per_chunk - work.index,
              parts = left < kTileParts ? left : kTileParts;
    const Q q = quantizer_as<T, Q>(quantizer_of(plan_, work.chunk));
    head.initial = 0;  // the bits of T{0}
    for (u32 i = 1; i < parts; ++i) {
      const PartWord part = unpack(wait_for(plan_.parts + item + i));
      if (!part.has_ordinary) continue;
      const T first = border_bin(q, part, reinterpret_cast<const W*>(tile_part.values) + i * kPartValues,
                                 &records()[item + i].first);
      head.initial = bit_cast<W>(first);
      return;
    }
  }

  // The bin of a part's first or last ordinary value; the part may be another thread block's. It is `recorded` if the
  // part has exceptions, else computed from the `value` at the part's end.
  H5L_DEVICE static T border_bin(const Q& q, const PartWord& part, const W* value, const u64* recorded) {
    if (part.groups != 0) {
      fence();
      return bit_cast<T>(static_cast<W>(*recorded));
    }
    W bin = 0;
    bin_of(q, *value, bin);
    return number_of_bin<T>(bin);
  }

  H5L_DEVICE PartRecord* records() const {
    return reinterpret_cast<PartRecord*>(plan_.parts + plan_.chunks * plan_.items_per_chunk);
  }
  [[nodiscard]] H5L_DEVICE W own_value(const OwnTile& part, u32 i) const {
    return reinterpret_cast<const W*>(part.values)[thread() * kThreadValues + i];
  }

  // Gives exceptions the bin of the preceding ordinary value in the tile, or of the first one after them. Returns the
  // thread's exceptions.
  H5L_DEVICE u32 bins_with_exceptions(const Q& q, const OwnTile& tile, u32 inside, bool is_fine, bool has_before,
                                      T& before, T (&bins)[kThreadValues]) {
    const u32 item = tile.work.item, part_number = part_of(tile);
    const u32 exceptions = is_fine ? 0 : repeat_bins(q, shared_.input, inside, bins);
    const u32 ordinary = inside & ~exceptions;
    const RowEnds<T> ends = ends_of(bins, ordinary);
    shared_.firsts[thread()] = ends.first;
    shared_.lasts[thread()] = ends.last;
    const u32 threads = ballot(ordinary != 0);
    const u32 least = least_of_warp(exceptions == 0 ? kNone : thread() * 32 + lowest_one(exceptions));
    if (lane() == 0) {
      shared_.ordinary[warp()] = threads;
      shared_.first_exceptions[warp()] = least;
    }
    sync_block();
    if (thread() == 0) {
      if (part_number == 0) has_before = false;
      // If the part has no ordinary values, all its differences are 0, whatever precedes it.
      const bool is_waiting = part_number != 0 && !has_before && next_ordinary(0) != kThreads;
      for (u32 i = 1; is_waiting && i <= part_number && !has_before; ++i) {
        const PartWord part = unpack(wait_for(plan_.parts + item - i));
        if (!part.has_ordinary) continue;
        before = border_bin(q, part, reinterpret_cast<const W*>(tile.values) - ((i - 1) * kPartValues + 1),
                            &records()[item - i].last);
        has_before = true;
      }
      shared_.bin_before = before;
      shared_.has_bin_before = has_before ? 1 : 0;
    }
    sync_block();
    if (exceptions != 0) {
      T start = 0;
      if (const u32 last = last_ordinary(thread()); last != kThreads) {
        start = shared_.lasts[last];
      } else if (shared_.has_bin_before != 0) {
        start = shared_.bin_before;
      } else if (const u32 next = next_ordinary(thread()); next != kThreads) {
        start = shared_.firsts[next];
      }
      fill_forward(bins, ordinary, exceptions, start);
    }
    if (lane() == kWarpThreads - 1) shared_.warp_ends[warp()] = bins[kThreadValues - 1];
    if (thread() == 0 && !has_before) before = bins[0];
    sync_block();
    return exceptions;
  }

  // The last thread before `end`, or the first one from `begin` on, with ordinary values; kThreads if there is none.
  [[nodiscard]] H5L_DEVICE u32 last_ordinary(u32 end) const {
    for (u32 w = (end + kWarpThreads - 1) / kWarpThreads; w-- > 0;) {
      const u32 below = end - w * kWarpThreads;
      const u32 found = shared_.ordinary[w] & (below >= kWarpThreads ? ~0u : (u32{1} << below) - 1);
      if (found != 0) return w * kWarpThreads + (width_of(found) - 1);
    }
    return kThreads;
  }
  [[nodiscard]] H5L_DEVICE u32 next_ordinary(u32 begin) const {
    for (u32 w = begin / kWarpThreads; w < kWarps; ++w) {
      const u32 skipped = begin > w * kWarpThreads ? begin - w * kWarpThreads : 0;
      const u32 found = shared_.ordinary[w] >> skipped << skipped;
      if (found != 0) return w * kWarpThreads + lowest_one(found);
    }
    return kThreads;
  }

  H5L_DEVICE void measure_section(const OwnTile& tile, u32 inside, u32 exceptions, PartWord& part) {
    const u32 item = tile.work.item;
    if (warp() == 0) {
      const u32 first_part = first_part_with_exceptions(tile);
      if (lane() == 0 && first_part < part_of(tile)) {
        fence();
        shared_.common = records()[item - part_of(tile) + first_part].common;
      } else if (lane() == 0) {
        u32 least = kNone;
        for (u32 w = 0; w < kWarps; ++w) least = lowest_of(least, shared_.first_exceptions[w], kNone);
        shared_.common = *value_in_rows<kRowBytes<T>, W>(shared_.input, least / 32, least % 32);
      }
    }
    sync_block();
    const W common = static_cast<W>(shared_.common);
    const bool is_uniform = are_all<T>(shared_.input, exceptions, common);
    const bool is_present = exceptions != 0, is_full = exceptions == inside;
    part.has_ordinary = next_ordinary(0) != kThreads;
    const bool has_mask = is_present && !is_full, has_bits = is_present && !is_uniform;
    const u32 own = (has_mask ? 1u : 0) | (has_bits ? ones(exceptions) : 0) << 16;
    u32 totals = 0;
    bool any_others = false;
    const u32 before = scan_of_block(own, shared_.section_totals, totals, !is_full || !is_uniform, any_others);
    part.only_common = !any_others;
    shared_.exceptions.threads[thread()] = {exceptions, static_cast<u16>(before >> 16), static_cast<u8>(before),
                                            static_cast<u8>(has_mask ? 1 : 0), static_cast<u8>(has_bits ? 1 : 0)};
    if (thread() == 0) {
      shared_.exceptions.common = common;
      shared_.exceptions.any_ordinary = part.has_ordinary ? 1 : 0;
    }
    part.masks = totals & 0xFFFF;
    part.bits = totals >> 16;
    const u32 present = ballot(is_present), full = ballot(is_present && is_full),
              uniform = ballot(is_present && is_uniform);
    if (lane() == 0) {
      shared_.exceptions.groups[warp()][0] = present;
      shared_.exceptions.groups[warp()][1] = full;
      shared_.exceptions.groups[warp()][2] = uniform;
    }
    sync_block();
    H5L_UNROLL for (u32 g = 0; g < kWarps; ++g) part.groups |= shared_.exceptions.groups[g][0] != 0 ? 1u << g : 0;
    if (thread() != 0) return;
    PartRecord record = {common, 0, 0};
    if (part.has_ordinary) {
      record.first = bit_cast<W>(shared_.firsts[next_ordinary(0)]);
      record.last = bit_cast<W>(shared_.lasts[last_ordinary(kThreads)]);
    }
    records()[item] = record;
    fence();
  }

  // The first part of the tile with exceptions, from 0 to the part itself. Called by a warp; waits for the parts before
  // it, but not for later ones.
  [[nodiscard]] H5L_DEVICE u32 first_part_with_exceptions(const OwnTile& tile) const {
    const u32 before = part_of(tile);
    const u64* const words = plan_.parts + tile.work.item - before;
    u64 word = 0;
    while (true) {
      if (lane() < before && (word & kPublished) == 0) word = load_relaxed(words + lane());
      const u32 unpublished = ballot(lane() < before && (word & kPublished) == 0);
      const u32 found = ballot(lane() < before && unpack(word).groups != 0) | u32{1} << before;
      if (unpublished == 0 || lowest_one(found) < lowest_one(unpublished)) return lowest_one(found);
      wait_a_little();
    }
  }

  Shared& shared_;
  const EncodePlan& plan_;
  W words_[kThreadValues];
  u32 width_ = 0, planes_at_ = 0, room_ = 0;
  bool has_exceptions_ = false;
};

template <class T, class Q>
H5L_DEVICE void encode(const EncodePlan& plan) {
  auto& shared = *reinterpret_cast<EncodeShared<T>*>(shared_memory());
  Encoder<T, Q> encoder(shared, plan);
  encode_tiles<false>(plan, encoder, shared.loop);
}

}  // namespace h5lossy::H5L_TARGET::aatrox

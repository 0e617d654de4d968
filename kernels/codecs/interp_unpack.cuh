// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The first kernel of Interp's decoder: a warp per tile takes a payload apart, into masks of exceptions and steps from
// predictions to integers. Nothing in a payload is trusted; what is wrong with one shows in the record of its stage.
//
// A coder of fewer than 32 lanes runs several times side by side: thread t has the state of lane t % L, and keeps the
// symbols that are its own.
#pragma once

#include "codecs/interp/masks.h"
#include "codecs/interp/tables.h"
#include "codecs/interp/units.h"
#include "kernels/codecs/interp_stage.cuh"

namespace h5lossy::H5L_TARGET {
namespace interp {

struct UnpackShared {
  union {
    struct {
      u32 mask[kMaxMaskWords], others[kMaxMaskWords];
    } masks;
    struct {
      u8 symbols[kSymbolTables][kFrequencySum];  // of each slot
      u32 rates[kSymbolTables][kSymbols];        // frequency, and in the upper half the sum of those before
    } tables;
  };
  u16 class_sums[kClassContexts][kClasses];  // of the frequencies before
  u8 classes[kMaxBlocks];
  u32 end;               // of a mask, in the payload; 0: corrupt
  u32 last_escaped[64];  // bit i: residual i is an escape, of the blocks whose last planes are in the states
};

}  // namespace interp

template <>
inline constexpr u32 kThreadsWith<interp::UnpackShared> = kWarpThreads;

namespace interp {

// Two halves that were loaded together; they are put together when they are needed, so that nothing waits before.
struct Halves {
  u32 lower, upper;

  Halves() = default;
  // Number 2 i and 2 i + 1 of `count`; those behind them are 0.
  H5L_DEVICE Halves(const u8* from, u32 count, u32 i)
      : lower(2 * i < count ? half_at(from + 4 * i) : 0), upper(2 * i + 1 < count ? half_at(from + 4 * i + 2) : 0) {}
  [[nodiscard]] H5L_DEVICE u32 word() const { return lower | upper << 16; }
};

// The sequence of words that all lanes take theirs from. The next ones are in the warp's registers, those behind the
// payload's end as zeros.
class WarpWords {
 public:
  H5L_DEVICE WarpWords(const u8* words, u32 count, u32 lanes)
      : words_(words),
        count_(count),
        of_lanes_(static_cast<u32>(blocks::first_bits(lanes))),
        below_(of_lanes_ & ((1u << lane() % lanes) - 1)),
        now_(Halves(words, count, lane()).word()),
        ahead_(words, count, kHalfWarp + lane()) {}

  // The threads of a lane that needs a word get it. Called by all of them.
  H5L_DEVICE u32 take(bool needs) {
    const u32 needed = ballot(needs) & of_lanes_;
    if (needed == 0) return 0;
    const u32 at = place_ + ones(needed & below_);
    const u32 pair = shuffle(now_, at / 2);
    place_ += ones(needed);
    if (place_ >= kWarpThreads) {
      place_ -= kWarpThreads;
      first_ += kHalfWarp;
      const u32 moved = shuffle(now_, lane() + kHalfWarp);
      now_ = lane() < kHalfWarp ? moved : ahead_.word();
      ahead_ = Halves(words_, count_, first_ + kHalfWarp + lane());
    }
    return at % 2 == 0 ? pair & 0xFFFF : pair >> 16;
  }
  [[nodiscard]] H5L_DEVICE u32 taken() const { return 2 * first_ + place_; }

 private:
  static constexpr u32 kHalfWarp = kWarpThreads / 2;

  const u8* const words_;
  const u32 count_, of_lanes_;
  const u32 below_;  // lanes before the thread's own
  u32 now_;          // words of number 2 i and 2 i + 1, where i is first_ + lane()
  Halves ahead_;     // in the upper half of the warp, those 32 further on
  u32 first_ = 0;
  u32 place_ = 0;  // of the next word, from number 2 first_ on
};

// The sequence of raw planes. The next 64 are in the warp's registers; halves that are in states are 0.
class WarpPlanes {
 public:
  H5L_DEVICE WarpPlanes(const u8* planes, u32 stored)
      : planes_(planes),
        stored_(stored),
        now_(Halves(planes, stored, lane()).word()),
        next_(planes, stored, kWarpThreads + lane()) {}

  // All threads get the next plane.
  H5L_DEVICE u32 take() {
    const u32 plane = shuffle(now_, place_);
    if (++place_ == kWarpThreads) {
      place_ = 0;
      first_ += kWarpThreads;
      now_ = next_.word();
      next_ = Halves(planes_, stored_, first_ + kWarpThreads + lane());
    }
    return plane;
  }

 private:
  const u8* const planes_;
  const u32 stored_;  // halves
  u32 now_;           // the thread's plane of 32
  Halves next_;       // and of the next 32
  u32 first_ = 0;     // number of the first one in `now_`
  u32 place_ = 0;
};

template <class T>
class Unpacker {
 public:
  H5L_DEVICE Unpacker(const u8* payload, u32 bytes, const Shape& shape, const Stage& stage, UnpackShared& shared)
      : payload_(payload), bytes_(bytes), shape_(shape), stage_(stage), shared_(shared) {}

  H5L_DEVICE void run() {
    StageRecord record = {};
    record.is_fine = unpack(record) ? 1 : 0;
    if (lane() == 0) stage_.record() = record;
  }

 private:
  using Wide = typename FloatTraits<T>::Int;  // narrow tiles have 32 bits

  H5L_DEVICE bool unpack(StageRecord& record) {
    Head& head = record.head;
    const u8* const codes = read_head<T>(payload_, payload_ + bytes_, shape_.active, head);
    if (codes == nullptr) return false;
    u32 at = static_cast<u32>(codes - payload_);
    if (head.has_exceptions && !read_exceptions(record, at)) return false;
    record.patches_at = at;
    if (bytes_ - at < patches_bytes(head.patches)) return false;
    at += patches_bytes(head.patches);
    const bool has_patches =
        for_patches_by_warp(payload_ + record.patches_at, head.patches, shape_.count, [](u32, i32) {});
    if (!has_patches) return false;
    const bool is_narrow = sizeof(T) == 4 || head.is_narrow, has_all = head.lanes == kWarpThreads;
    if (is_narrow) return has_all ? read_codes<i32, true>(record, at) : read_codes<i32, false>(record, at);
    return read_codes<Wide, false>(record, at);
  }

  // One thread reads a mask: each of its decisions depends on the one before. Returns its end, or 0 if it is corrupt.
  H5L_DEVICE u32 read_mask_at(u32 at, u32* mask) {
    if (lane() == 0) {
      const u8* const end =
          read_mask(mask_neighbours_of(shape_.extents), shape_.count, payload_ + at, payload_ + bytes_, mask);
      shared_.end = end == nullptr ? 0 : static_cast<u32>(end - payload_);
    }
    sync_warp();
    return shared_.end;
  }

  // Moves `at` behind the exceptions.
  H5L_DEVICE bool read_exceptions(StageRecord& record, u32& at) {
    constexpr u32 head = sizeof(T) + 2;
    if (bytes_ - at < head) return false;
    record.common = load<Word<T>>(payload_ + at);
    const u32 flags = half_at(payload_ + at + sizeof(T)), words = mask_words(shape_.count);
    if (flags > 3 || flags == kOthersAreAlike) return false;
    at = read_mask_at(at + head, shared_.masks.mask);
    if (at == 0) return false;
    for (u32 w = lane(); w < words; w += kWarpThreads) stage_.mask()[w] = shared_.masks.mask[w];
    if ((flags & kHasOthers) == 0) {
      for (u32 w = lane(); w < words; w += kWarpThreads) stage_.others()[w] = 0;
      return true;
    }
    sync_warp();
    at = read_mask_at(at, shared_.masks.others);
    if (at == 0) return false;
    u32 before = 0;
    bool is_inside = true;
    for (u32 first = 0; first < words; first += kWarpThreads) {
      const u32 w = first + lane();
      const u32 others = w < words ? shared_.masks.others[w] : 0;
      const u32 sum = before + scan_of_warp(ones(others));
      before = shuffle(sum, kWarpThreads - 1);
      if (w >= words) continue;
      is_inside = is_inside && (others & ~shared_.masks.mask[w]) == 0;
      stage_.others()[w] = others;
      stage_.ranks()[w] = static_cast<u16>(sum - ones(others));
    }
    const bool are_alike = (flags & kOthersAreAlike) != 0;
    const u32 bytes = (are_alike ? 1 : before) * static_cast<u32>(sizeof(T));
    if (any_in_warp(!is_inside) || bytes_ - at < bytes) return false;
    record.others_at = at;
    record.others_stride = are_alike ? 0 : sizeof(T);
    at += bytes;
    return true;
  }

  // The coder's part of the payload begins at `at`. Most coders have as many lanes as a warp.
  template <class I, bool has_all>
  H5L_DEVICE bool read_codes(const StageRecord& record, u32 at) {
    using U = Unsigned<I>;
    const Head& head = record.head;
    if (head.raw_planes > kMostRawPlanes<I> || head.escape_bytes > sizeof(I)) return false;
    const u32 blocks = blocks_of(shape_.count), lanes = has_all ? kWarpThreads : head.lanes,
              words_at = at + lanes * kStateBytes;
    if (bytes_ < words_at) return false;
    const u8* const state_at = payload_ + at + lane() % lanes * kStateBytes;
    u32 state = half_at(state_at) | half_at(state_at + 2) << 16;
    WarpWords words(payload_ + words_at, (bytes_ - words_at) / kWordBytes, lanes);
    sync_warp();  // the masks are not needed any more
    u32 used = 1u << table_of(1);
    if (head.has_own_table) {
      for (u32 b = lane(); b < blocks; b += kWarpThreads) shared_.classes[b] = 1;
    } else {
      used = read_classes(head, lanes, blocks, state, words);
    }
    make_tables(head, used);

    u32 planes = 0;
    for (u32 b = lane(); b < blocks; b += kWarpThreads) planes += head.raw_planes + raw_planes_of(shared_.classes[b]);
    planes = sum_of_warp(planes);
    // Halves of raw planes: of all, of those in states, and of those in the payload.
    const u32 halves = 2 * planes, lent = borrowed_halves(planes, lanes), stored = halves - lent;
    if (bytes_ - words_at < kHalfBytes * stored) return false;
    const u32 planes_at = bytes_ - kHalfBytes * stored;
    WarpPlanes raw(payload_ + planes_at, stored);

    I* const steps = stage_.steps<I>();
    const Units units = units_of(shape_, head.unit_code);
    const auto unit_bits_of = [&](u32 b) { return head.is_closed ? units.bits_at(b * kBlockCodes + lane()) : 0; };
    u32 half = 0, escapes = 0, last_blocks = 0;
    bool is_fine = true;
    u32 next_class = shared_.classes[0];
    H5L_NO_UNROLL for (u32 b = 0; b < blocks; ++b) {
      const u32 c = next_class, count = head.raw_planes + raw_planes_of(c);
      next_class = shared_.classes[(b + 1) % kMaxBlocks];
      u32 symbol = 0;
      if (c != 0) symbol = read_symbol(table_of(c), lanes, state, words);
      U number = static_cast<U>(symbol) << count;
      H5L_NO_UNROLL for (u32 p = 0; p < count; ++p) number |= static_cast<U>(raw.take() >> lane() & 1) << p;
      const u32 unit_bits = unit_bits_of(b);
      I step = static_cast<I>(unzigzag(number) << unit_bits);
      const u32 escaped = ballot(symbol == kEscape);
      if (escaped != 0) {
        const u32 behind = (escapes + ones(escaped & lanes_below()) + 1) * head.escape_bytes;
        escapes += ones(escaped);
        if (symbol == kEscape && behind <= planes_at - words_at) {
          step = static_cast<I>(unzigzag(read_item<U>(planes_at - behind, head.escape_bytes)) << unit_bits);
        } else if (symbol == kEscape) {
          is_fine = false;
        }
      }
      half += 2 * count;
      if (half > stored && count != 0) {
        if (lane() == 0) shared_.last_escaped[last_blocks % 64] = escaped;
        ++last_blocks;
      }
      steps[b * kBlockCodes + lane()] = step;
    }
    const bool is_last = lane() % lanes < lent ? state >> 16 == 1 : state == kFirstState;
    if (any_in_warp(!is_fine || !is_last)) return false;
    // Both factors are below 2^18, so nothing wraps.
    if (escapes * head.escape_bytes + words.taken() * kWordBytes != planes_at - words_at) return false;
    sync_warp();
    add_last_planes(head, unit_bits_of, blocks, stored, halves, state, steps);

    const u32 last = (blocks - 1) * kBlockCodes + lane();
    if (any_in_warp(last >= shape_.count && steps[last] != 0)) return false;
    if (lane() == 0) steps[0] = 0;  // it is not used
    sync_warp();
    if (!head.is_closed) return true;
    for_patches_by_warp(payload_ + record.patches_at, head.patches, shape_.count, [&](u32 place, i32 delta) {
      if (place != 0) steps[place] = static_cast<I>(static_cast<U>(steps[place]) + static_cast<U>(I{delta}));
    });
    return true;
  }

  // Returns the tables that the classes need, a bit each.
  H5L_DEVICE u32 read_classes(const Head& head, u32 lanes, u32 blocks, u32& state, WarpWords& words) {
    if (lane() < kClassContexts) {
      u32 sum = 0;
      for (u32 c = 0; c < kClasses; ++c) {
        shared_.class_sums[lane()][c] = static_cast<u16>(sum);
        sum += kClassFrequencies[head.model][lane()][c];
      }
    }
    sync_warp();
    const u32 share = (blocks + lanes - 1) / lanes;
    u32 context = kClassContexts - 1, used = 0;
    H5L_NO_UNROLL for (u32 j = 0; j < share; ++j) {
      const u32 b = lane() % lanes * share + j;
      const bool has_block = b < blocks;
      const u16(&sums)[kClasses] = shared_.class_sums[context];
      const u32 slot = state & (kFrequencySum - 1);
      u32 c = 0;
      if (slot >= sums[1]) {
        H5L_UNROLL for (u32 by = kClasses / 2; by != 0; by /= 2) c += sums[c + by] <= slot ? by : 0;
      }
      const u32 frequency = (c + 1 < kClasses ? sums[c + 1] : kFrequencySum) - sums[c];
      const u32 after = frequency * (state >> kFrequencyBits) + slot - sums[c];
      const bool is_empty = has_block && after < kFirstState;
      const u32 word = words.take(is_empty);
      if (!has_block) continue;
      state = is_empty ? after << 16 | word : after;
      context = c;
      if (c != 0) used |= 1u << table_of(c);
      if (lane() < lanes) shared_.classes[b] = static_cast<u8>(c);
    }
    sync_warp();
    return or_of_warp(used);
  }

  // The symbol of each slot, for the tables that are used.
  H5L_DEVICE void make_tables(const Head& head, u32 used) {
    constexpr u32 slots = kFrequencySum / kWarpThreads;  // of a thread
    H5L_NO_UNROLL for (u32 t = 0; t < kSymbolTables; ++t) {
      if ((used >> t & 1) == 0) continue;
      const u16(&frequencies)[kSymbols] = head.has_own_table ? head.own_table : kSymbolFrequencies[head.set][t];
      const u32 frequency = lane() < kSymbols ? frequencies[lane()] : 0;
      const u32 before = scan_of_warp(frequency) - frequency;
      if (lane() < kSymbols) shared_.tables.rates[t][lane()] = frequency | before << 16;
      sync_warp();
      u32 s = 0, end = shared_.tables.rates[t][0] & 0xFFFF;
      H5L_NO_UNROLL for (u32 slot = lane() * slots; slot < (lane() + 1) * slots; ++slot) {
        while (slot >= end) end += shared_.tables.rates[t][++s] & 0xFFFF;
        shared_.tables.symbols[t][slot] = static_cast<u8>(s);
      }
    }
    sync_warp();
  }

  // The thread's symbol of a block.
  H5L_DEVICE u32 read_symbol(u32 table, u32 lanes, u32& state, WarpWords& words) {
    const u8* const symbols = shared_.tables.symbols[table];
    const u32* const rates = shared_.tables.rates[table];
    u32 own = 0;
    H5L_NO_UNROLL for (u32 first = 0; first < kBlockCodes; first += lanes) {
      const u32 slot = state & (kFrequencySum - 1);
      const u32 symbol = symbols[slot], rate = rates[symbol];
      const u32 after = (rate & 0xFFFF) * (state >> kFrequencyBits) + slot - (rate >> 16);
      const u32 word = words.take(after < kFirstState);
      state = after < kFirstState ? after << 16 | word : after;
      if (lane() - first < lanes) own = symbol;
    }
    return own;
  }

  template <class U>
  H5L_DEVICE U read_item(u32 at, u32 bytes) const {
    u64 item = 0;
    for (u32 i = 0; i < bytes; i += 2) item |= u64{half_at(payload_ + at + i)} << (8 * i);
    return static_cast<U>(item);
  }

  // Adds the raw bits that are in the last states. Bit 0 of a zigzag number flips all bits of its residual, and each
  // other bit flips the one below; so it is in products with a power of two. A thread has its own steps.
  template <class I, class UnitBits>
  H5L_DEVICE void add_last_planes(const Head& head, UnitBits unit_bits_of, u32 blocks, u32 stored, u32 halves,
                                  u32 state, I* steps) {
    using U = Unsigned<I>;
    const auto planes_of = [&](u32 b) { return head.raw_planes + raw_planes_of(shared_.classes[b]); };
    u32 b = blocks, half = halves, number = 0;
    while (half > stored) half -= 2 * planes_of(--b);
    H5L_NO_UNROLL for (; b < blocks; ++b) {
      const u32 count = planes_of(b);
      if (count == 0) continue;
      const bool is_escape = (shared_.last_escaped[number++ % 64] >> lane() & 1) != 0;
      const U unit = U{1} << unit_bits_of(b);
      U step = static_cast<U>(steps[b * kBlockCodes + lane()]);
      H5L_NO_UNROLL for (u32 p = 0; p < count; ++p, half += 2) {
        const u32 own = half + lane() / 16;
        const u32 plane = shuffle(state, own - stored) & 0xFFFF;
        const U flipped = p == 0 ? U{0} - unit : static_cast<U>(unit << (p - 1));
        if (own >= stored && !is_escape && (plane >> lane() % 16 & 1) != 0) step ^= flipped;
      }
      steps[b * kBlockCodes + lane()] = static_cast<I>(step);
    }
  }

  const u8* const payload_;
  const u32 bytes_;
  const Shape& shape_;
  const Stage& stage_;
  UnpackShared& shared_;
};

template <class T>
H5L_DEVICE void unpack(const DecodePlan& plan) {
  auto& shared = *reinterpret_cast<UnpackShared*>(shared_memory());
  const DecodeJob job = plan.jobs[block_row()];
  if (job.form != plan.form) return;
  const u32 tile = plan.first_tile + block_number();
  const TilePlace place = place_of(plan.shape, plan.mode, tile);
  const u32 raw_bytes = place.shape.count * static_cast<u32>(sizeof(T));
  const TileSpan span = span_of(plan, job, tile, raw_bytes);
  // The second kernel reads these by itself, or reports what is wrong.
  const bool has_codes = span.is_valid && (span.begin | span.bytes) % 2 == 0 && span.bytes != 0 &&
                         span.bytes != sizeof(T) && span.bytes != raw_bytes;
  if (!has_codes) return;
  Unpacker<T>(payloads_of(plan) + span.begin, span.bytes, place.shape, Stage(plan, tile, place), shared).run();
}

}  // namespace interp
}  // namespace h5lossy::H5L_TARGET

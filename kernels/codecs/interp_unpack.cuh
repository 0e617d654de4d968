// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The first kernel of Interp's decoder: two warps per tile split a payload into masks of exceptions and steps from
// predictions to integers. Nothing in a payload is trusted; errors are noted in the record of the tile's stage.
//
// The first warp decodes classes and symbols in one chain, in which each symbol depends on the previous one, so it does
// nothing else. Meanwhile the second warp decodes the mask of exceptions, which is another chain, and whose end is
// known beforehand. Then both warps share the rest: raw planes, escapes, and turning numbers into steps.
//
// A coder of L < 32 lanes runs several times side by side: thread t has the state of lane t % L, and keeps its own
// symbols.
#pragma once

#include "codecs/interp/tables.h"
#include "codecs/interp/units.h"
#include "kernels/codecs/interp_masks.cuh"

namespace h5lossy::H5L_TARGET {
namespace interp {

inline constexpr u32 kUnpackWarps = 2;
inline constexpr u32 kBufferedWords = 256;

// Where the parts of a coder's payload are, in bytes, and the number of halves of its raw planes.
struct CodesPlan {
  u32 words_at, planes_at;
  u32 halves;  // in total
  u32 lent;    // of these, stored in states
  bool is_fine;
  [[nodiscard]] H5L_DEVICE u32 stored() const { return halves - lent; }
};

struct UnpackShared {
  union {  // used one after the other
    MaskOdds odds_of_others;
    u16 class_sums[kClassContexts][kClasses];  // of the frequencies of the classes before
    struct {
      u8 symbols[kSymbolTables][kFrequencySum];  // the symbol of each slot
      u32 rates[kSymbolTables][kSymbols];        // frequency, and in the upper half the sum of the frequencies before
    } tables;
  };
  MaskOdds odds;
  alignas(4) u8 classes[kMaxBlocks];
  union {
    u16 words[kBufferedWords];
    u32 planes[kUnpackWarps][kWarpThreads];
  };
  u32 chain_warp;
  u32 mask_at, others_at;  // in the payload; 0 if there is none
  bool is_mask_fine;
  Head head;
  CodesPlan plan;
  u32 escapes[kUnpackWarps];  // up to the end of each warp's share
  bool is_fine[kUnpackWarps];
};

// A function, since the compiler cannot tell which memory a reference stored in an object refers to.
H5L_DEVICE UnpackShared& unpack_shared() { return *reinterpret_cast<UnpackShared*>(shared_memory()); }

}  // namespace interp

template <>
inline constexpr u32 kThreadsWith<interp::UnpackShared> = interp::kUnpackWarps * kWarpThreads;

namespace interp {

// The sequence of words that all lanes share. The next words are in shared memory; past the end of the payload, they
// are 0.
class WarpWords {
 public:
  H5L_DEVICE WarpWords(const u8* words, u32 count, u32 lanes)
      : words_(words),
        count_(count),
        of_lanes_(static_cast<u32>(blocks::first_bits(lanes))),
        below_(of_lanes_ & ((1u << lane() % lanes) - 1)) {
    fill();
  }

  // Gives a word to the threads of each lane that needs one. Called by all threads.
  H5L_DEVICE u32 take(bool needs) {
    const u32 needed = ballot(needs) & of_lanes_;
    const u32 word = buffer()[place_ + ones(needed & below_)];
    place_ += ones(needed);
    if (place_ > kBuffered - kWarpThreads) fill();
    return word;
  }
  [[nodiscard]] H5L_DEVICE u32 taken() const { return first_ + place_; }

 private:
  static constexpr u32 kBuffered = kBufferedWords;

  H5L_DEVICE static u16* buffer() { return unpack_shared().words; }
  H5L_DEVICE void fill() {
    first_ += place_;
    place_ = 0;
    sync_warp();
    H5L_UNROLL for (u32 k = 0; k < kBuffered; k += kWarpThreads) {
      const u32 i = first_ + k + lane();
      buffer()[k + lane()] = static_cast<u16>(i < count_ ? half_at(words_ + kWordBytes * i) : 0);
    }
    sync_warp();
  }

  const u8* const words_;
  const u32 count_, of_lanes_;
  const u32 below_;  // the lanes before the thread's own
  u32 first_ = 0;    // number of the first word in the buffer
  u32 place_ = 0;    // of the next word in the buffer
};

template <class T, bool has_words>
class Unpacker {
 public:
  H5L_DEVICE Unpacker(const u8* payload, u32 bytes, const Shape& shape, const Stage& stage)
      : payload_(payload), bytes_(bytes), shape_(shape), stage_(stage) {}

  H5L_DEVICE void run() {
    StageRecord record = {};
    // The chain is not in warp 0 of every thread block, since these would share two of the four schedulers.
    if (thread() == 0) shared().chain_warp = warp_slot() / 4 % kUnpackWarps;
    sync_block();
    u32 at = 0;
    if (role() == 0) {
      u32 mask_at = 0, others_at = 0;
      at = open_head(record, mask_at, others_at);
      if (lane() == 0) {
        shared().mask_at = at != 0 ? mask_at : 0;
        shared().others_at = at != 0 ? others_at : 0;
      }
    }
    sync_block();
    const bool is_mask_fine = read_own_mask();
    if constexpr (has_words) {
      // Many exceptions have no codes. So their mask is needed before the codes are read.
      if (shared().mask_at != 0) sync_block();
      codes_ = record.codes = count_codes();
    }
    if (role() == 0) {
      const bool is_fine = at != 0 && is_mask_fine && open_codes(record, at);
      if (lane() == 0) {
        shared().head = record.head;
        shared().plan.is_fine = is_fine;
      }
    } else if (lane() == 0) {
      shared().is_mask_fine = is_mask_fine;
    }
    sync_block();
    if (shared().plan.is_fine && shared().is_mask_fine && has_all_others()) {
      if (sizeof(T) == 4 || shared().head.is_narrow) {
        record.is_fine = make_steps<i32>(record);
      } else {
        record.is_fine = make_steps<typename FloatTraits<T>::Int>(record);
      }
    }
    if (role() == 0 && lane() == 0) stage_.record() = record;
  }

 private:
  H5L_DEVICE static UnpackShared& shared() { return unpack_shared(); }
  // 0 in the warp that runs the chain.
  H5L_DEVICE static u32 role() { return warp() ^ shared().chain_warp; }
  static_assert(kUnpackWarps == 2);

  // Returns where the patches begin or, if there are any, the bits of exceptions that are not `common`; 0 if the
  // payload is corrupt. Called by the first warp.
  H5L_DEVICE u32 open_head(StageRecord& record, u32& mask_at, u32& others_at) {
    const u8* const end = payload_ + bytes_;
    const u8* at = read_head(payload_, end, shape_.active, sizeof(T), record.head);
    if (at == nullptr || !record.head.has_exceptions) return at == nullptr ? 0 : static_cast<u32>(at - payload_);
    constexpr u32 head = sizeof(T) + 2;
    if (end - at < head) return 0;
    record.common = load<Word<T>>(at);
    const u32 flags = half_at(at + sizeof(T));
    if (flags > 3 || flags == kOthersAreAlike) return 0;
    record.others_stride = (flags & kOthersAreAlike) != 0 ? 0 : sizeof(T);
    at += head;
    mask_at = static_cast<u32>(at - payload_);
    at = mask_end(at, end);
    if (at != nullptr && (flags & kHasOthers) != 0) {
      others_at = static_cast<u32>(at - payload_);
      at = mask_end(at, end);
    }
    return at == nullptr ? 0 : static_cast<u32>(at - payload_);
  }

  // The second warp reads the mask of exceptions; the first one reads the mask of those whose bits are not `common`.
  H5L_DEVICE bool read_own_mask() {
    const bool is_first = role() == 0;
    u32* const mask = is_first ? stage_.others() : stage_.mask();
    MaskOdds& odds = is_first ? shared().odds_of_others : shared().odds;
    const u32 at = is_first ? shared().others_at : shared().mask_at;
    if (at != 0) return read_mask_by_warp(mask_neighbours_of(shape_.extents), shape_.count, payload_ + at, odds, mask);
    for (u32 w = lane(); is_first && shared().mask_at != 0 && w < mask_words(shape_.count); w += kWarpThreads)
      mask[w] = 0;
    return true;
  }

  // The number of codes of integers, whatever the mask is.
  H5L_DEVICE u32 count_codes() const {
    if (shared().mask_at == 0) return shape_.count;
    u32 exceptions = 0;
    for (u32 w = lane(); w < mask_words(shape_.count); w += kWarpThreads) exceptions += ones(stage_.mask()[w]);
    exceptions = sum_of_warp(exceptions);
    return are_left_out(exceptions, shape_.count) ? shape_.count - exceptions + (stage_.mask()[0] & 1) : shape_.count;
  }
  [[nodiscard]] H5L_DEVICE u32 codes() const {
    if constexpr (has_words) return codes_;
    return shape_.count;
  }

  // Reads everything from the bits of exceptions to the symbols. Called by the first warp.
  H5L_DEVICE bool open_codes(StageRecord& record, u32 at) {
    const Head& head = record.head;
    if (shared().others_at != 0 && !find_others(record, at)) return false;
    record.patches_at = at;
    if (bytes_ - at < patches_bytes(head.patches)) return false;
    at += patches_bytes(head.patches);
    const bool has_patches =
        for_patches_by_warp(payload_ + record.patches_at, head.patches, shape_.count, [](u32, i32) {});
    if (!has_patches) return false;
    const bool is_narrow = sizeof(T) == 4 || head.is_narrow;
    const u32 most_planes = is_narrow ? kMostRawPlanes<i32> : kMostRawPlanes<typename FloatTraits<T>::Int>;
    if (head.raw_planes > most_planes || head.escape_bytes > (is_narrow ? sizeof(i32) : sizeof(T))) return false;
    return head.lanes == kWarpThreads ? read_symbols<true>(head, at) : read_symbols<false>(head, at);
  }

  // Counts the exceptions that are not `common`. Their bits begin at `at`, which is moved past them.
  H5L_DEVICE bool find_others(StageRecord& record, u32& at) const {
    const u32 words = mask_words(shape_.count);
    u32 before = 0;
    sync_warp();
    for (u32 first = 0; first < words; first += kWarpThreads) {
      const u32 w = first + lane();
      const u32 others = w < words ? stage_.others()[w] : 0;
      const u32 sum = before + scan_of_warp(ones(others));
      before = shuffle(sum, kWarpThreads - 1);
      if (w < words) stage_.ranks()[w] = static_cast<u16>(sum - ones(others));
    }
    const u32 bytes = (record.others_stride == 0 ? 1 : before) * static_cast<u32>(sizeof(T));
    if (bytes_ - at < bytes) return false;
    record.others_at = at;
    at += bytes;
    return true;
  }

  // Whether the mask of those that are not `common` marks exceptions only. Called by the whole thread block.
  H5L_DEVICE bool has_all_others() const {
    if (shared().others_at == 0) return true;
    bool is_inside = true;
    for (u32 w = thread(); w < mask_words(shape_.count); w += kUnpackWarps * kWarpThreads) {
      is_inside = is_inside && (stage_.others()[w] & ~stage_.mask()[w]) == 0;
    }
    return !any_in_block(!is_inside);
  }

  // The coder's part of the payload begins at `at`. Most coders have 32 lanes.
  template <bool has_all>
  H5L_DEVICE bool read_symbols(const Head& head, u32 at) {
    const u32 blocks = blocks_of(codes()), lanes = has_all ? kWarpThreads : head.lanes,
              words_at = at + lanes * kStateBytes;
    if (bytes_ < words_at) return false;
    const u8* const state_at = payload_ + at + lane() % lanes * kStateBytes;
    u32 state = half_at(state_at) | half_at(state_at + 2) << 16;
    WarpWords words(payload_ + words_at, (bytes_ - words_at) / kWordBytes, lanes);
    sync_warp();  // the masks are no longer needed
    u32 used = 1u << table_of(1);
    if (head.has_own_table) {
      for (u32 b = lane(); b < blocks; b += kWarpThreads) shared().classes[b] = 1;
    } else {
      used = read_classes(head, lanes, blocks, state, words);
    }
    make_tables(head, used);

    u32 planes = 0;
    for (u32 b = lane(); b < blocks; b += kWarpThreads) planes += head.raw_planes + raw_planes_of(shared().classes[b]);
    planes = sum_of_warp(planes);
    const u32 lent = borrowed_halves(planes, lanes), stored = 2 * planes - lent;
    if (bytes_ - words_at < kHalfBytes * stored) return false;
    const u32 planes_at = bytes_ - kHalfBytes * stored;

    u32* symbols = stage_.symbols() + lane();
    H5L_NO_UNROLL for (u32 b = 0; b < blocks; b += kSymbolsAtOnce, symbols += kWarpThreads) {
      const u32 classes = classes_from(b);
      u32 own = 0;
      H5L_UNROLL for (u32 k = 0; k < kSymbolsAtOnce; ++k) {
        const u32 c = classes >> (8 * k) & 0xFF;
        if (c != 0) own |= read_symbol(table_of(c), lanes, state, words) << (8 * k);
      }
      *symbols = own;
    }
    state_ = state;
    taken_ = words.taken();
    const bool is_last = lane() % lanes < lent ? state >> 16 == 1 : state == kFirstState;
    if (lane() == 0) shared().plan = {words_at, planes_at, 2 * planes, lent, false};
    return !any_in_warp(!is_last);
  }

  // The classes of kSymbolsAtOnce blocks from `block` on, a byte each; 0 for blocks that do not exist.
  [[nodiscard]] H5L_DEVICE u32 classes_from(u32 block) const {
    const u32 word = reinterpret_cast<const u32*>(shared().classes)[block / kSymbolsAtOnce];
    const u32 left = blocks_of(codes()) - block;
    return left >= kSymbolsAtOnce ? word : word & ((1u << (8 * left)) - 1);
  }
  [[nodiscard]] H5L_DEVICE u32 planes_of(u32 block) const {
    return shared().head.raw_planes + raw_planes_of(shared().classes[block]);
  }

  // Computes the steps from symbols, raw planes and escapes. Called by both warps; only the result of the first one
  // counts.
  template <class I>
  H5L_DEVICE bool make_steps(const StageRecord& record) {
    using U = Unsigned<I>;
    const Head& head = shared().head;
    const CodesPlan plan = shared().plan;
    const u32 blocks = blocks_of(codes()), escape_bytes = head.escape_bytes;
    const Units units = head.is_closed ? units_of(shape_, head.unit_code, head.grade) : Units{};
    const u32 unit_bits = head.unit_bits();
    const auto unit_bits_of = [&](u32 b) { return unit_bits == 0 ? 0 : units.bits_at(b * kBlockCodes + lane()); };
    const u32* const symbols = stage_.symbols();
    I* const steps = stage_.steps<I>();

    // A share begins where the planes and escapes of those before it end.
    constexpr u32 at_once = kSymbolsAtOnce;
    const u32 words = (blocks + at_once - 1) / at_once, share = (words + kUnpackWarps - 1) / kUnpackWarps;
    const u32 begin = role() * share, end = begin + share < words ? begin + share : words;
    u32 plane = 0, escapes = 0;
    for (u32 b = lane(); b < begin * at_once && b < blocks; b += kWarpThreads) plane += planes_of(b);
    H5L_NO_UNROLL for (u32 i = 0; i < begin; ++i) {
      const u32 own = symbols[i * kWarpThreads + lane()];
      escapes += ones(own & own >> 1 & own >> 2 & own >> 3 & 0x01010101);
    }
    plane = sum_of_warp(plane);
    escapes = sum_of_warp(escapes);

    bool is_fine = true;
    u32* const buffer = shared().planes[role()];
    u32 buffered = plane, own = begin < end ? symbols[begin * kWarpThreads + lane()] : 0;
    if (begin < end) fill_planes(plan, buffered, buffer);
    H5L_NO_UNROLL for (u32 i = begin; i < end; ++i) {
      const u32 now = own, classes = classes_from(i * at_once);
      if (i + 1 < end) own = symbols[(i + 1) * kWarpThreads + lane()];
      H5L_UNROLL for (u32 k = 0; k < at_once; ++k) {
        const u32 b = i * at_once + k, count = head.raw_planes + raw_planes_of(classes >> (8 * k) & 0xFF);
        if (k != 0 && b >= blocks) break;
        const u32 symbol = now >> (8 * k) & 0xFF;
        U number = symbol;
        if (sizeof(I) == 4) {
          if (plane + count > buffered + kWarpThreads) fill_planes(plan, buffered = plane, buffer);
          H5L_NO_UNROLL for (u32 p = plane - buffered + count; p-- > plane - buffered;) {
            number = with_bit(number, buffer[p]);
          }
        } else {  // a block may have more planes than the buffer holds
          H5L_NO_UNROLL for (u32 p = count; p-- > 0;) number = with_bit(number, plane_at(plan, plane + p));
        }
        plane += count;
        const u32 escaped = ballot(symbol == kEscape);
        if (escaped != 0) {
          const u32 behind = (escapes + ones(escaped & lanes_below()) + 1) * escape_bytes;
          escapes += ones(escaped);
          if (symbol == kEscape && behind <= plan.planes_at - plan.words_at) {
            number = read_item<U>(plan.planes_at - behind, escape_bytes);
          } else if (symbol == kEscape) {
            is_fine = false;
          }
        }
        steps[b * kBlockCodes + lane()] = static_cast<I>(unzigzag(number) << unit_bits_of(b));
      }
    }
    is_fine = !any_in_warp(!is_fine);
    if (lane() == 0) {
      shared().is_fine[role()] = is_fine;
      shared().escapes[role()] = escapes;
    }
    sync_block();
    if (role() != 0) return false;
    for (u32 w = 0; w < kUnpackWarps; ++w) is_fine = is_fine && shared().is_fine[w];
    // Both factors are below 2^18, so nothing wraps.
    const u32 items = shared().escapes[kUnpackWarps - 1] * escape_bytes;
    if (!is_fine || items + taken_ * kWordBytes != plan.planes_at - plan.words_at) return false;
    add_last_planes(plan, unit_bits_of, blocks, steps);

    const u32 last = (blocks - 1) * kBlockCodes + lane();
    if (any_in_warp(last >= codes() && steps[last] != 0)) return false;
    if (lane() == 0) steps[0] = 0;  // not used
    sync_warp();
    if (!head.is_closed) return true;
    for_patches_by_warp(payload_ + record.patches_at, head.patches, shape_.count, [&](u32 place, i32 delta) {
      if (place != 0) steps[place] = static_cast<I>(static_cast<U>(steps[place]) + static_cast<U>(I{delta}));
    });
    return true;
  }

  // A raw plane, with 0 for bits that are stored in states.
  [[nodiscard]] H5L_DEVICE u32 plane_at(const CodesPlan& plan, u32 plane) const {
    const u8* const at = payload_ + plan.planes_at + kHalfBytes * 2 * plane;
    const u32 stored = plan.stored();
    const u32 lower = 2 * plane < stored ? half_at(at) : 0,
              upper = 2 * plane + 1 < stored ? half_at(at + kHalfBytes) : 0;
    return lower | upper << 16;
  }
  // Loads kWarpThreads raw planes from `first` on.
  H5L_DEVICE void fill_planes(const CodesPlan& plan, u32 first, u32* buffer) const {
    sync_warp();
    buffer[lane()] = plane_at(plan, first + lane());
    sync_warp();
  }
  // Appends the thread's bit of a plane to a number.
  H5L_DEVICE static u32 with_bit(u32 number, u32 plane) {
    return funnel_left(plane << (kWarpThreads - 1 - lane()), number, 1);
  }
  H5L_DEVICE static u64 with_bit(u64 number, u32 plane) { return number << 1 | (plane >> lane() & 1); }

  // Returns the tables that the classes use, as a set of bits.
  H5L_DEVICE u32 read_classes(const Head& head, u32 lanes, u32 blocks, u32& state, WarpWords& words) {
    if (lane() < kClassContexts) {
      u32 sum = 0;
      for (u32 c = 0; c < kClasses; ++c) {
        shared().class_sums[lane()][c] = static_cast<u16>(sum);
        sum += kClassFrequencies[head.model][lane()][c];
      }
    }
    sync_warp();
    const u32 share = (blocks + lanes - 1) / lanes;
    u32 context = kClassContexts - 1, used = 0;
    H5L_NO_UNROLL for (u32 j = 0; j < share; ++j) {
      const u32 b = lane() % lanes * share + j;
      const bool has_block = b < blocks;
      const u16(&sums)[kClasses] = shared().class_sums[context];
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
      if (lane() < lanes) shared().classes[b] = static_cast<u8>(c);
    }
    sync_warp();
    return or_of_warp(used);
  }

  // Makes the symbol of each slot, for the tables in use.
  H5L_DEVICE void make_tables(const Head& head, u32 used) {
    constexpr u32 slots = kFrequencySum / kWarpThreads;  // of a thread
    H5L_NO_UNROLL for (u32 t = 0; t < kSymbolTables; ++t) {
      if ((used >> t & 1) == 0) continue;
      const u16(&frequencies)[kSymbols] = head.has_own_table ? head.own_table : kSymbolFrequencies[head.set][t];
      const u32 frequency = lane() < kSymbols ? frequencies[lane()] : 0;
      const u32 before = scan_of_warp(frequency) - frequency;
      if (lane() < kSymbols) shared().tables.rates[t][lane()] = frequency | before << 16;
      sync_warp();
      u32 s = 0, end = shared().tables.rates[t][0] & 0xFFFF;
      H5L_NO_UNROLL for (u32 slot = lane() * slots; slot < (lane() + 1) * slots; ++slot) {
        while (slot >= end) end += shared().tables.rates[t][++s] & 0xFFFF;
        shared().tables.symbols[t][slot] = static_cast<u8>(s);
      }
    }
    sync_warp();
  }

  // Reads the thread's symbol of a block.
  H5L_DEVICE u32 read_symbol(u32 table, u32 lanes, u32& state, WarpWords& words) {
    const u8* const symbols = shared().tables.symbols[table];
    const u32* const rates = shared().tables.rates[table];
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

  // Adds the raw bits that are stored in the last states. Bit 0 of a zigzag number flips all bits of its residual, and
  // each other bit flips the bit below it; the same is true for products with a power of two. Each thread changes its
  // own steps.
  template <class I, class UnitBits>
  H5L_DEVICE void add_last_planes(const CodesPlan& plan, UnitBits unit_bits_of, u32 blocks, I* steps) {
    using U = Unsigned<I>;
    const u32 stored = plan.stored();
    u32 b = blocks, half = plan.halves;
    while (half > stored) half -= 2 * planes_of(--b);
    H5L_NO_UNROLL for (; b < blocks; ++b) {
      const u32 count = planes_of(b), at = b * kBlockCodes + lane();
      const u32 symbols = stage_.symbols()[b / kSymbolsAtOnce * kWarpThreads + lane()];
      const bool is_escape = (symbols >> (8 * (b % kSymbolsAtOnce)) & 0xFF) == kEscape;
      const U unit = U{1} << unit_bits_of(b);
      U step = static_cast<U>(steps[at]);
      H5L_NO_UNROLL for (u32 p = 0; p < count; ++p, half += 2) {
        const u32 own = half + lane() / 16;
        const u32 plane = shuffle(state_, own - stored) & 0xFFFF;
        const U flipped = p == 0 ? U{0} - unit : static_cast<U>(unit << (p - 1));
        if (own >= stored && !is_escape && (plane >> lane() % 16 & 1) != 0) step ^= flipped;
      }
      steps[at] = static_cast<I>(step);
    }
  }

  const u8* const payload_;
  const u32 bytes_;
  const Shape& shape_;
  const Stage& stage_;
  u32 state_ = 0;  // the final state of the lane
  u32 taken_ = 0;  // words taken
  u32 codes_ = 0;  // of integers
};

template <class T, bool has_words = false>
H5L_DEVICE void unpack(const DecodePlan& plan) {
  const DecodeJob job = plan.jobs[block_row()];
  if (job.form != plan.form) return;
  if (block_number() >= job.tiles.wanted) return;
  const u32 tile = job.tiles.first + block_number();
  const TilePlace place = place_of(plan, job, tile);
  const u32 raw_bytes = place.shape.count * value_bytes_of<T, has_words>(plan);
  const TileSpan span = span_of(plan, job, tile, raw_bytes);
  if (!has_codes<T>(span, raw_bytes)) return;
  const u8* const payload = payloads_of(plan, job) + span.begin;
  for (u32 at = thread() * kLineBytes; at < span.bytes; at += kUnpackWarps * kWarpThreads * kLineBytes) {
    prefetch(payload + at);
  }
  Unpacker<T, has_words>(payload, span.bytes, place.shape, Stage(plan, job, tile, place)).run();
}

}  // namespace interp
}  // namespace h5lossy::H5L_TARGET

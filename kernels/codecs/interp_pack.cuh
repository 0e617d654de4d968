// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The third kernel of Interp's encoder: a thread block per tile betters the classes of its best form, and writes its
// payload, in two pieces; one warp does the rANS, which is a chain of steps from the last code to the first.
#pragma once

#include "codecs/interp/mask_value.h"
#include "codecs/interp/masks.h"
#include "kernels/codecs/interp_plan.cuh"

namespace h5lossy::H5L_TARGET::interp {

struct PackShared {
  PlanShared<kWarps> plan;
  CodePlan before;  // without the path of classes
  union {
    struct {
      u64 code_costs[kCostRows][kCostSizes];
      u64 block_costs[kMaxBlocks];  // of the candidates, 16 bits each
      u16 class_costs[kClassContexts][kClasses];
      u8 from[kMaxBlocks][kCandidates];
      u8 classes[kMaxBlocks];
    } path;
    struct {
      u8 symbols[kTileValues];
      u8 escapes[kMaxBlocks];   // of each block
      u32 planes_at[kThreads];  // of the blocks of each thread: planes and escapes before
      u32 escapes_at[kThreads];
      Rate rates[kSymbolTables][kSymbols];
      Rate class_rates[kClassContexts][kClasses];
    } codes;
  };
  u32 totals[kWarps];
  u32 front;  // bytes of the first piece, so far
};

template <class T, class Q>
class Packer {
  using W = Word<T>;

 public:
  H5L_DEVICE Packer(const StagedPlan& plan, u32 chunk, u32 tile, const TilePlace& place, const Quantizer& quantizer,
                    PackShared& shared)
      : shape_(place.shape),
        blocks_(blocks_of(place.shape.count)),
        q_(quantizer_as<T, Q>(quantizer)),
        values_(raw_of(plan.finish.encode, chunk), plan.finish.encode.shape.dims, place),
        stage_(plan, chunk, tile),
        payload_(stage_.payload()),
        end_(stage_.values * static_cast<u32>(sizeof(T)) + kPayloadSpare),
        shared_(shared) {}

  // Returns the size of the tile's payload, in all threads.
  H5L_DEVICE u32 run() {
    const TileRecord& record = stage_.record();
    const u32 raw_bytes = shape_.count * static_cast<u32>(sizeof(T));
    if (record.kind == TileKind::stored) return raw_bytes;
    if (record.kind == TileKind::constant) return record.constant == 0 ? 0 : static_cast<u32>(sizeof(T));
    const u32 slot = record.slot;
    if constexpr (sizeof(T) == 8) {
      if (record.is_wide != 0) return pack(stage_.template codes<i64>(slot), slot, raw_bytes);
    }
    return pack(stage_.template codes<i32>(slot), slot, raw_bytes);
  }

 private:
  template <class I>
  H5L_DEVICE u32 pack(const I* codes, u32 slot, u32 raw_bytes) {
    shorten(codes);
    write_front(slot);
    const u32 rest_end = write_planes(codes);
    const u32 rest_begin = write_words();
    TileRecord& record = stage_.record();
    const u32 front = shared_.front, size = front + rest_end - rest_begin;
    if (thread() == 0) {
      record.front_bytes = front;
      record.rest_begin = rest_begin;
      record.rest_end = rest_end;
      if (size >= raw_bytes) record.kind = TileKind::stored;
    }
    return size < raw_bytes ? size : raw_bytes;
  }

  // -------------------------------------------------------------------------------------------------------------------
  // Classes

  template <class I>
  H5L_DEVICE void shorten(const I* codes) {
    PlanShared<kWarps>& plan = shared_.plan;
    for (u32 b = thread(); b < blocks_; b += kThreads) {
      plan.classes[b] = stage_.classes()[b];
      plan.candidates[b] = stage_.candidates()[b];
    }
    if (thread() == 0) plan.plan = shared_.before = stage_.record().plan;
    sync_block();
    cost_candidates(codes);
    sync_block();
    if (warp() == 0) find_path();
    sync_block();
    exchange_classes();
    Planner<I, kWarps> planner(codes, shape_.count, plan);
    planner.add_up(plan.plan.raw_planes);
    if (plan.plan.cost >= shared_.before.cost) {
      sync_block();
      exchange_classes();
      if (thread() == 0) plan.plan = shared_.before;
      sync_block();
    }
    planner.try_own_table();
  }

  H5L_DEVICE void exchange_classes() const {
    for (u32 b = thread(); b < blocks_; b += kThreads) {
      const u8 c = shared_.path.classes[b];
      shared_.path.classes[b] = shared_.plan.classes[b];
      shared_.plan.classes[b] = c;
    }
    sync_block();
  }

  // What the candidates of each block cost.
  template <class I>
  H5L_DEVICE void cost_candidates(const I* codes) {
    using U = Unsigned<I>;
    auto& path = shared_.path;
    const CodePlan& plan = shared_.plan.plan;
    for (u32 i = thread(); i < kCostRows * kCostSizes; i += kThreads) {
      path.code_costs[i / kCostSizes][i % kCostSizes] = code_costs(plan.set, i / kCostSizes, i % kCostSizes);
    }
    for (u32 i = thread(); i < kClassContexts * kClasses; i += kThreads) {
      path.class_costs[i / kClasses][i % kClasses] =
          static_cast<u16>(4 * kCosts.classes[plan.model][i / kClasses][i % kClasses]);
    }
    sync_block();
    H5L_NO_UNROLL for (u32 b = warp(); b < blocks_; b += kWarps) {
      const u32 first = shared_.plan.candidates[b];
      u64 costs = path.code_costs[0][0] * kBlockCodes;
      if (first != 0) {
        const U number = zigzag(static_cast<U>(codes[b * kBlockCodes + lane()]));
        const U rest = number >> (plan.raw_planes + raw_planes_of(first));
        const u64 own = path.code_costs[cost_row(first)][rest < kCostSizes ? static_cast<u32>(rest) : kCostSizes - 1];
        // Sums of 16 bits do not overflow.
        const u32 low = sum_of_warp(static_cast<u32>(own)), high = sum_of_warp(static_cast<u32>(own >> 32));
        costs = (u64{low} | u64{high} << 32) + plane_costs(first);
      }
      if (lane() == 0) path.block_costs[b] = costs;
    }
  }

  // The classes, each one of its block's candidates, whose costs add up to the least with those of classes. Thread i
  // has four times the least cost of a path to candidate i mod 4, and in the low bits i, for which of equals the first
  // is taken.
  H5L_DEVICE void find_path() const {
    auto& path = shared_.path;
    const u8* const candidates = shared_.plan.candidates;
    const u32 i = lane() % kCandidates;
    const auto own_cost = [&](u32 b) { return 4 * (static_cast<u32>(path.block_costs[b] >> 16 * i) & 0xFFFF); };
    u32 before = candidates[0];
    u32 best = i + path.class_costs[kClassContexts - 1][before + i] + own_cost(0);
    H5L_NO_UNROLL for (u32 b = 1; b < blocks_; ++b) {
      const u32 here = candidates[b];
      u32 least = ~u32{0};
      H5L_UNROLL for (u32 k = 0; k < kCandidates; ++k) {
        const u32 through = shuffle(best, k) + path.class_costs[before + k][here + i];
        least = through < least ? through : least;
      }
      if (lane() < kCandidates) path.from[b][i] = static_cast<u8>(least & 3);
      best = (least & ~3u) + i + own_cost(b);
      before = here;
    }
    u32 last = 0;
    u32 cost = shuffle(best, 0);
    H5L_UNROLL for (u32 k = 1; k < kCandidates; ++k) {
      const u32 other = shuffle(best, k);
      if (other < cost) {
        cost = other;
        last = k;
      }
    }
    sync_warp();
    if (lane() != 0) return;
    H5L_NO_UNROLL for (u32 b = blocks_; b-- > 0;) {
      path.classes[b] = static_cast<u8>(candidates[b] + last);
      last = path.from[b][last];
    }
  }

  // -------------------------------------------------------------------------------------------------------------------
  // The parts before the codes

  H5L_DEVICE void write_front(u32 slot) {
    const TileRecord& record = stage_.record();
    if (thread() == 0) {
      Head head = record.head;
      const CodePlan& plan = shared_.plan.plan;
      head.lanes = plan.lanes;
      head.model = plan.model;
      head.set = plan.set;
      head.escape_bytes = plan.escape_bytes;
      head.raw_planes = plan.raw_planes;
      head.has_own_table = plan.has_own_table;
      for (u32 s = 0; s < kSymbols; ++s) head.own_table[s] = plan.own_table[s];
      u8* next = write_head<T>(head, payload_);
      if (head.has_exceptions) next = write_masks(record, slot, next);
      shared_.front = static_cast<u32>(next - payload_);
    }
    sync_block();
    if (warp() == 0) {
      if (record.head.has_exceptions && (record.exception_flags & kHasOthers) != 0) write_others(record);
      if (record.head.patches != 0) write_patches(slot);
    }
    sync_block();
  }

  H5L_DEVICE W stored(W bits) const {
    const TileRecord& record = stage_.record();
    const MaskValue<T> mask = {static_cast<W>(record.mask), static_cast<W>(record.masked_as)};
    return mask.stored_bits(q_, record.head.is_fine, bits);
  }

  // By one thread: each decision of a mask depends on those before.
  H5L_DEVICE u8* write_masks(const TileRecord& record, u32 slot, u8* out) const {
    const MaskNeighbours neighbours = mask_neighbours_of(shape_.extents);
    const W common = static_cast<W>(record.common);
    u8* const scratch = reinterpret_cast<u8*>(stage_.template codes<Int<T>>(slot ^ 1));
    store<W>(out, stored(common));
    store(out + sizeof(T), static_cast<u16>(record.exception_flags));
    u32* const mask = stage_.mask();
    out = write_mask(neighbours, shape_.count, mask, scratch, out + sizeof(T) + 2);
    if ((record.exception_flags & kHasOthers) == 0) return out;
    u32* const others = stage_.others();
    for (u32 w = 0; w < mask_words(shape_.count); ++w) {
      u32 word = 0;
      for (u32 left = mask[w]; left != 0; left &= left - 1) {
        const u32 bit = lowest_one(left);
        word |= values_.bits(w * kMaskBits + bit) != common ? 1u << bit : 0;
      }
      others[w] = word;
    }
    return write_mask(neighbours, shape_.count, others, scratch, out);
  }

  // The bits of exceptions that have not the common ones.
  H5L_DEVICE void write_others(const TileRecord& record) {
    const bool are_alike = (record.exception_flags & kOthersAreAlike) != 0;
    const u32* const others = stage_.others();
    u32 before = 0;
    H5L_NO_UNROLL for (u32 first = 0; first < mask_words(shape_.count); first += kWarpThreads) {
      const u32 w = first + lane();
      u32 left = w < mask_words(shape_.count) ? others[w] : 0;
      const u32 end = before + scan_of_warp(ones(left));
      u32 number = end - ones(left);
      for (; left != 0; left &= left - 1, ++number) {
        if (are_alike && number != 0) break;
        const W bits = stored(values_.bits(w * kMaskBits + lowest_one(left)));
        store<W>(payload_ + shared_.front + number * sizeof(T), bits);
      }
      before = shuffle(end, kWarpThreads - 1);
    }
    sync_warp();
    if (lane() == 0) shared_.front += (are_alike ? 1 : before) * static_cast<u32>(sizeof(T));
    sync_warp();
  }

  // Entries of patches; a thread has those of a word of 32 places.
  H5L_DEVICE void write_patches(u32 slot) {
    const u32* const patched = stage_.patched();
    const i8* const deltas = stage_.deltas(slot);
    u8* const out = payload_ + shared_.front;
    u32 next = 0, entries = 0;  // one past the last patch before, and entries before
    H5L_NO_UNROLL for (u32 first = 0; first < mask_words(shape_.count); first += kWarpThreads) {
      const u32 w = first + lane();
      const u32 bits = w < mask_words(shape_.count) ? patched[w] : 0;
      u32 ends = bits == 0 ? 0 : w * 32 + 32 - count_leading_zeros(bits);  // the last one up to this word
      for (u32 by = 1; by < kWarpThreads; by *= 2) {
        const u32 before = shuffle_up(ends, by);
        ends = before > ends ? before : ends;
      }
      u32 begin = shuffle_up(ends, 1);
      if (lane() == 0) begin = 0;
      begin = begin > next ? begin : next;
      const u32 skips = bits == 0 ? 0 : (w * 32 + lowest_one(bits) - begin) / kSkipped;
      const u32 end = entries + scan_of_warp(ones(bits) + skips);
      u32 at = end - ones(bits) - skips;
      for (u32 k = 0; k < skips; ++k, ++at) store(out + 2 * at, static_cast<u16>(kSkip));
      begin += skips * kSkipped;
      for (u32 left = bits; left != 0; left &= left - 1, ++at) {
        const u32 place = w * 32 + lowest_one(left);
        store(out + 2 * at, entry_of(place - begin, deltas[place]));
        begin = place + 1;
      }
      entries = shuffle(end, kWarpThreads - 1);
      const u32 last = shuffle(ends, kWarpThreads - 1);
      next = last > next ? last : next;
    }
    sync_warp();
    if (lane() == 0) shared_.front += patches_bytes(entries);
    sync_warp();
  }

  // -------------------------------------------------------------------------------------------------------------------
  // Codes

  // Symbols to shared memory, raw planes and escapes to their places. Returns where the payload ends.
  template <class I>
  H5L_DEVICE u32 write_planes(const I* codes) {
    using U = Unsigned<I>;
    auto& out = shared_.codes;
    const CodePlan& plan = shared_.plan.plan;
    const auto planes_of = [&](u32 b) { return plan.raw_planes + raw_planes_of(shared_.plan.classes[b]); };
    H5L_NO_UNROLL for (u32 b = warp(); b < blocks_; b += kWarps) {
      const u32 c = shared_.plan.classes[b];
      if (c == 0) {
        if (lane() == 0) out.escapes[b] = 0;
        continue;
      }
      const U rest = zigzag(static_cast<U>(codes[b * kBlockCodes + lane()])) >> planes_of(b);
      const u32 symbol = rest < kEscape ? static_cast<u32>(rest) : kEscape;
      out.symbols[b * kBlockCodes + lane()] = static_cast<u8>(symbol);
      const u32 escapes = ones(ballot(symbol == kEscape));
      if (lane() == 0) out.escapes[b] = static_cast<u8>(escapes);
    }
    make_rates();
    sync_block();
    // A thread has some blocks in a row.
    constexpr u32 each = kMaxBlocks / kThreads;
    u32 planes = 0, escapes = 0, unused = 0;
    for (u32 b = thread() * each; b < (thread() + 1) * each && b < blocks_; ++b) {
      planes += planes_of(b);
      escapes += out.escapes[b];
    }
    out.planes_at[thread()] = scan_of_block(planes, shared_.totals, unused);
    sync_block();
    out.escapes_at[thread()] = scan_of_block(escapes, shared_.totals, unused);
    sync_block();
    const u32 planes_begin = end_ - 4 * plan.raw_words;
    H5L_NO_UNROLL for (u32 b = warp(); b < blocks_; b += kWarps) {
      const u32 c = shared_.plan.classes[b], count = planes_of(b);
      if (count == 0 && out.escapes[b] == 0) continue;
      u32 at = out.planes_at[b / each], number = out.escapes_at[b / each];
      for (u32 other = b / each * each; other < b; ++other) {
        at += planes_of(other);
        number += out.escapes[other];
      }
      U own = zigzag(static_cast<U>(codes[b * kBlockCodes + lane()]));
      const bool is_escape = c != 0 && out.symbols[b * kBlockCodes + lane()] == kEscape;
      const u32 escaped = ballot(is_escape);
      if (is_escape) {
        const u32 place = number + ones(escaped & lanes_below());
        u8* const item = payload_ + planes_begin - (place + 1) * plan.escape_bytes;
        for (u32 i = 0; i < plan.escape_bytes; i += 2) {
          *reinterpret_cast<u16*>(item + i) = static_cast<u16>(u64{own} >> (8 * i));
        }
        own = 0;
      }
      H5L_NO_UNROLL for (u32 p = 0; p < count; ++p) {
        const u32 plane = ballot((own >> p & 1) != 0);
        if (lane() == 0) *reinterpret_cast<u32*>(payload_ + planes_begin + 4 * (at + p)) = plane;
      }
    }
    sync_block();
    return end_ - kHalfBytes * borrowed_halves(plan.raw_words, plan.lanes);
  }

  H5L_DEVICE void make_rates() {
    auto& out = shared_.codes;
    const CodePlan& plan = shared_.plan.plan;
    for (u32 row = thread(); row < kSymbolTables + kClassContexts; row += kThreads) {
      const bool is_class = row >= kSymbolTables;
      const u16(&frequencies)[kSymbols] = is_class             ? kClassFrequencies[plan.model][row - kSymbolTables]
                                          : plan.has_own_table ? plan.own_table
                                                               : kSymbolFrequencies[plan.set][row];
      interp::make_rates(frequencies, is_class ? out.class_rates[row - kSymbolTables] : out.rates[row]);
    }
  }

  // rANS by one warp, backwards: words are put in front of the escapes. Returns where they begin; the states come
  // behind what is in front.
  H5L_DEVICE u32 write_words() {
    const auto& in = shared_.codes;
    const CodePlan& plan = shared_.plan.plan;
    const u32 words_end = end_ - 4 * plan.raw_words - plan.escapes * plan.escape_bytes;
    if (warp() == 0) {
      const u32 lanes = plan.lanes, halves = borrowed_halves(plan.raw_words, lanes);
      u16* words = reinterpret_cast<u16*>(payload_ + words_end);
      u32 state = kFirstState;
      if (lane() < halves) state |= *reinterpret_cast<const u16*>(payload_ + end_ - kHalfBytes * (halves - lane()));
      const auto push = [&](const Rate& rate, bool is_there) {
        const bool is_full = is_there && state >= rate.limit;
        const u32 full = ballot(is_full);
        words -= ones(full);
        if (is_full) {
          words[ones(full & lanes_below())] = static_cast<u16>(state);
          state >>= 16;
        }
        if (is_there) {
          state += rate.sum + static_cast<u32>(state * rate.reciprocal >> 43) * (kFrequencySum - rate.frequency);
        }
      };
      H5L_NO_UNROLL for (u32 b = blocks_; b-- > 0;) {
        const u32 c = shared_.plan.classes[b];
        if (c == 0) continue;
        const Rate(&rates)[kSymbols] = in.rates[table_of(c)];
        H5L_NO_UNROLL for (u32 end = kBlockCodes; end != 0; end -= lanes) {
          const u32 i = b * kBlockCodes + end - lanes + lane() % lanes;
          push(rates[in.symbols[i]], lane() < lanes);
        }
      }
      if (!plan.has_own_table) {
        const u32 share = (blocks_ + lanes - 1) / lanes;
        H5L_NO_UNROLL for (u32 j = share; j-- > 0;) {
          const u32 b = lane() * share + j;
          const bool is_there = lane() < lanes && b < blocks_;
          const u32 context = is_there && j != 0 ? shared_.plan.classes[b - 1] : kClassContexts - 1;
          push(in.class_rates[context][is_there ? shared_.plan.classes[b] : 0], is_there);
        }
      }
      if (lane() < lanes) {
        u16* const to = reinterpret_cast<u16*>(payload_ + shared_.front + kStateBytes * lane());
        to[0] = static_cast<u16>(state);
        to[1] = static_cast<u16>(state >> 16);
      }
      if (lane() == 0) shared_.totals[0] = static_cast<u32>(reinterpret_cast<u8*>(words) - payload_);
    }
    sync_block();
    const u32 begin = shared_.totals[0];
    sync_block();
    if (thread() == 0) shared_.front += plan.lanes * kStateBytes;
    sync_block();
    return begin;
  }

  const Shape shape_;
  const u32 blocks_;
  const Q q_;
  const TileValues<T> values_;
  const TileStage<T> stage_;
  u8* const payload_;
  const u32 end_;  // of its memory
  PackShared& shared_;
};

template <class T, class Q>
H5L_DEVICE void pack_tiles(const StagedPlan& plan) {
  auto& shared = *reinterpret_cast<PackShared*>(shared_memory());
  for_tiles(plan, [&](u32 chunk, u32 tile, const TilePlace& place, const Quantizer& quantizer, u32) {
    const u32 size = Packer<T, Q>(plan, chunk, tile, place, quantizer, shared).run();
    if (thread() == 0) plan.sizes[chunk * plan.most_tiles + tile] = size;
  });
}

}  // namespace h5lossy::H5L_TARGET::interp

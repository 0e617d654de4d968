// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The sixth kernel of Interp's encoder: a thread block per tile improves the classes of its best form, and writes its
// payload in two pieces. Masks are written by interp_mask.cuh; the words of the coder by interp_code.cuh, for which
// this kernel leaves the symbols.
#pragma once

#include "codecs/interp/mask_value.h"
#include "kernels/codecs/interp_plan.cuh"
#include "kernels/codecs/interp_words.cuh"

namespace h5lossy::H5L_TARGET {
namespace interp {

inline constexpr u32 kPackThreads = 256, kPackWarps = kPackThreads / kWarpThreads;

// The number of blocks in a share of the path of classes. Each of the first threads has one share.
inline constexpr u32 kPathShare = kMaxBlocks / kThreads;

struct PackShared {
  PlanShared<kPackWarps> plan;
  CodePlan before;                      // before the path of classes is applied
  alignas(16) u8 numbers[kTileValues];  // zigzags of the codes; in the end their symbols
  bool are_wide[kMaxBlocks];  // whether some numbers of a block need more than a byte, and so are not in `numbers`
  bool are_short;             // whether the codes in the stage are 16-bit
  union {
    struct {
      union {
        u64 code_costs[kCostRows][kCostSizes];
        // The costs of paths through a share, from each candidate to each; then, in the first row, the costs of the
        // best paths to the end of the share.
        u32 through[kThreads][kCandidates][kCandidates];
      };
      u64 block_costs[kMaxBlocks];  // of the candidates, 16 bits each
      u16 class_costs[kClassContexts][kClasses];
      u8 from[kThreads];  // where the best paths to the end of a share come from, 2 bits each
      u8 last[kThreads];  // the candidate at the end of a share
      u8 classes[kMaxBlocks];
    } path;
    struct {
      u32 planes_at[kMaxBlocks];  // planes and escapes before each block
      u16 escapes_at[kMaxBlocks];
      u8 escapes[kMaxBlocks];  // of each block
    } codes;
  };
  u32 totals[kPackWarps];
  u32 front;  // the end of the first piece so far
};

// A function, since the compiler cannot tell which memory a reference stored in an object refers to.
H5L_DEVICE PackShared& pack_shared() { return *reinterpret_cast<PackShared*>(shared_memory()); }

struct PackPlan {
  u32 wide_end = 0;  // one past the last block with numbers that need more than a byte
  static constexpr u32 kWarpsHere = kPackWarps;
  H5L_DEVICE static PlanShared<kPackWarps>& shared() { return pack_shared().plan; }
  template <class I>
  H5L_DEVICE Unsigned<I> number(const I* codes, u32 b) const {
    if (b >= wide_end || !pack_shared().are_wide[b]) return pack_shared().numbers[b * kBlockCodes + lane()];
    return pack_shared().are_short ? number_of_code<I>(reinterpret_cast<const i16*>(codes), b)
                                   : number_of_code<I>(codes, b);
  }
};

}  // namespace interp

template <>
inline constexpr u32 kThreadsWith<interp::PackShared> = interp::kPackThreads;

namespace interp {

template <class T, class Q>
class Packer {
  using W = Word<T>;

 public:
  H5L_DEVICE Packer(const StagedPlan& plan, u32 chunk, u32 tile, const TilePlace& place, const Quantizer& quantizer)
      : shape_(place.shape),
        q_(quantizer_as<T, Q>(quantizer)),
        values_(encoded_of<kHasWords<Q>>(plan, chunk), plan.finish.encode.shape.dims, place),
        stage_(plan, chunk, tile),
        codes_(kHasWords<Q> ? stage_.record().codes : place.shape.count),
        blocks_(blocks_of(codes_)),
        payload_(stage_.payload()),
        end_(stage_.payload_bytes()) {}

  H5L_DEVICE void run() {
    const TileRecord& record = stage_.record();
    if (record.kind != TileKind::coded) return;
    const u32 slot = record.slot;
    if constexpr (sizeof(T) == 8) {
      if (record.code_bytes == 8) return pack(stage_.template codes<i64>(slot), slot);
    }
    pack(stage_.template codes<i32>(slot), slot);
  }

 private:
  template <class I>
  H5L_DEVICE void pack(const I* codes, u32 slot) {
    shorten(codes);
    write_front(slot);
    write_planes(codes);
    Quad* const symbols = reinterpret_cast<Quad*>(stage_.symbols(slot));
    for (u32 i = thread(); i < blocks_ * kBlockCodes / sizeof(Quad); i += kPackThreads) {
      symbols[i] = reinterpret_cast<const Quad*>(shared().numbers)[i];
    }
    for (u32 b = thread(); b < blocks_; b += kPackThreads) stage_.classes()[b] = shared().plan.classes[b];
    if (thread() != 0) return;
    stage_.record().front_end = shared().front;
    stage_.record().plan = shared().plan.plan;
  }

  H5L_DEVICE static PackShared& shared() { return pack_shared(); }

  template <class I, class Wanted, class Visit>
  H5L_DEVICE void for_numbers(const I* codes, Wanted is_wanted, Visit visit) const {
    const PackPlan numbers = numbers_;
    for_blocks<kPackWarps>(blocks_, 1, [=](u32 b) { return numbers.number(codes, b); }, is_wanted, visit);
  }

  // -------------------------------------------------------------------------------------------------------------------
  // Classes

  template <class I>
  H5L_DEVICE void shorten(const I* codes) {
    PlanShared<kPackWarps>& plan = shared().plan;
    for (u32 b = thread(); b < blocks_; b += kPackThreads) {
      plan.classes[b] = stage_.classes()[b];
      plan.candidates[b] = stage_.candidates()[b];
    }
    if (thread() == 0) {
      plan.plan = shared().before = stage_.record().plan;
      shared().are_short = stage_.record().code_bytes == 2;
    }
    sync_block();
    u32 wide_end = 0;
    const auto keep = [&](u32 b, Unsigned<I> number) {
      shared().numbers[b * kBlockCodes + lane()] = static_cast<u8>(number);
      const bool is_wide = any_in_warp(number > 0xFF);
      if (lane() == 0) shared().are_wide[b] = is_wide;
      if (is_wide) wide_end = b + 1;
    };
    const auto for_stored = [&](auto number_of) {
      for_blocks<kPackWarps>(blocks_, 1, number_of, [](u32) { return true; }, keep);
    };
    if (shared().are_short) {
      for_stored([&](u32 b) { return number_of_code<I>(reinterpret_cast<const i16*>(codes), b); });
    } else {
      for_stored([&](u32 b) { return number_of_code<I>(codes, b); });
    }
    if (lane() == 0) shared().totals[warp()] = wide_end;
    sync_block();
    for (const u32 end : shared().totals) numbers_.wide_end = end > numbers_.wide_end ? end : numbers_.wide_end;
    cost_candidates(codes);
    sync_block();
    find_path();
    exchange_classes();
    Planner<I, PackPlan> planner(codes, codes_, numbers_);
    planner.add_up(plan.plan.raw_planes);
    if (plan.plan.cost >= shared().before.cost) {
      sync_block();
      exchange_classes();
      if (thread() == 0) plan.plan = shared().before;
      sync_block();
    }
    planner.try_own_table();
  }

  H5L_DEVICE void exchange_classes() const {
    for (u32 b = thread(); b < blocks_; b += kPackThreads) {
      const u8 c = shared().path.classes[b];
      shared().path.classes[b] = shared().plan.classes[b];
      shared().plan.classes[b] = c;
    }
    sync_block();
  }

  // What the candidates of each block cost.
  template <class I>
  H5L_DEVICE void cost_candidates(const I* codes) {
    using U = Unsigned<I>;
    auto& path = shared().path;
    const CodePlan& plan = shared().plan.plan;
    for (u32 i = thread(); i < kCostRows * kCostSizes; i += kPackThreads) {
      path.code_costs[i / kCostSizes][i % kCostSizes] = code_costs(plan.set, i / kCostSizes, i % kCostSizes);
    }
    for (u32 i = thread(); i < kClassContexts * kClasses; i += kPackThreads) {
      path.class_costs[i / kClasses][i % kClasses] =
          static_cast<u16>(4 * kCosts.classes[plan.model][i / kClasses][i % kClasses]);
    }
    sync_block();
    for_numbers(
        codes, [](u32) { return true; },
        [&](u32 b, U number) {
          const u32 first = shared().plan.candidates[b];
          u64 costs = path.code_costs[0][0] * kBlockCodes;
          if (first != 0) {
            const U rest = number >> (plan.raw_planes + raw_planes_of(first));
            const u64 own =
                path.code_costs[cost_row(first)][rest < kCostSizes ? static_cast<u32>(rest) : kCostSizes - 1];
            // The 16-bit sums do not overflow.
            const u32 low = sum_of_warp(static_cast<u32>(own)), high = sum_of_warp(static_cast<u32>(own >> 32));
            costs = (u64{low} | u64{high} << 32) + plane_costs(first);
          }
          if (lane() == 0) path.block_costs[b] = costs;
        });
  }

  // Finds the classes, each of them a candidate of its block, with the least total cost including that of the classes
  // themselves; the first of equals. Costs are multiplied by four, with the number of a candidate in the low bits where
  // ties have to be broken. A thread has a share of the blocks. First it finds the cost of paths through the share from
  // any candidate; once the least costs of paths to the share are known, the best paths; and once it is known where the
  // path continues, the classes.
  H5L_DEVICE void find_path() const {
    auto& path = shared().path;
    const u8* const candidates = shared().plan.candidates;
    const u32 own = thread(), begin = own == 0 ? 1 : own * kPathShare;
    const bool has_share = own < kThreads;
    const u32 end = (own + 1) * kPathShare < blocks_ ? (own + 1) * kPathShare : blocks_;
    const auto own_cost = [&](u32 b, u32 i) { return 4 * (static_cast<u32>(path.block_costs[b] >> 16 * i) & 0xFFFF); };
    // Calls visit(b, costs of classes from each candidate of the block before to each of its own) for the blocks of the
    // share.
    const auto for_share = [&](auto visit) {
      u32 before = begin < end ? candidates[begin - 1] : 0;
      H5L_NO_UNROLL for (u32 b = begin; b < end; ++b) {
        const u32 here = candidates[b];
        u32 costs[kCandidates][kCandidates];
        H5L_UNROLL for (u32 k = 0; k < kCandidates; ++k) {
          H5L_UNROLL for (u32 i = 0; i < kCandidates; ++i) costs[k][i] = path.class_costs[before + k][here + i];
        }
        visit(b, costs);
        before = here;
      }
    };
    constexpr u32 kFar = 1u << 30;  // more than any path costs
    u32 through[kCandidates][kCandidates];
    H5L_UNROLL for (u32 from = 0; from < kCandidates; ++from) {
      H5L_UNROLL for (u32 i = 0; i < kCandidates; ++i) through[from][i] = from == i ? 0 : kFar;
    }
    for_share([&](u32 b, const u32(&costs)[kCandidates][kCandidates]) {
      H5L_UNROLL for (u32 from = 0; from < kCandidates; ++from) {
        u32 next[kCandidates];
        H5L_UNROLL for (u32 i = 0; i < kCandidates; ++i) {
          u32 least = through[from][0] + costs[0][i];
          H5L_UNROLL for (u32 k = 1; k < kCandidates; ++k) {
            const u32 other = through[from][k] + costs[k][i];
            least = other < least ? other : least;
          }
          next[i] = least + own_cost(b, i);
        }
        H5L_UNROLL for (u32 i = 0; i < kCandidates; ++i) through[from][i] = next[i];
      }
    });
    if (has_share) {
      H5L_UNROLL for (u32 from = 0; from < kCandidates; ++from) {
        H5L_UNROLL for (u32 i = 0; i < kCandidates; ++i) path.through[own][from][i] = through[from][i];
      }
    }
    sync_block();
    const u32 first = candidates[0];
    const auto first_cost = [&](u32 i) { return path.class_costs[kClassContexts - 1][first + i] + own_cost(0, i); };
    if (warp() == 0) {
      const u32 i = lane() % kCandidates;
      u32 best = first_cost(i);
      H5L_NO_UNROLL for (u32 share = 0; share < kThreads; ++share) {
        u32 least = ~u32{0};
        H5L_UNROLL for (u32 k = 0; k < kCandidates; ++k) {
          const u32 cost = shuffle(best, k) + path.through[share][k][i];
          least = cost < least ? cost : least;
        }
        best = least;
        sync_warp();  // all lanes have read it
        if (lane() < kCandidates) path.through[share][0][i] = best;
      }
    }
    sync_block();
    u32 best[kCandidates];
    H5L_UNROLL for (u32 i = 0; i < kCandidates; ++i) best[i] =
        own == 0 || !has_share ? first_cost(i) : path.through[own - 1][0][i];
    u64 all_from = 0;       // 2 bits per candidate, a byte per block, the last block lowest
    u32 share_from = 0xE4;  // candidate i comes from candidate i
    for_share([&](u32 b, const u32(&costs)[kCandidates][kCandidates]) {
      u32 next[kCandidates], from = 0, again = 0;
      H5L_UNROLL for (u32 i = 0; i < kCandidates; ++i) {
        u32 least = ~u32{0};
        H5L_UNROLL for (u32 k = 0; k < kCandidates; ++k) {
          const u32 cost = best[k] + k + costs[k][i];
          least = cost < least ? cost : least;
        }
        from |= (least & 3) << 2 * i;
        again |= (share_from >> 2 * (least & 3) & 3) << 2 * i;
        next[i] = (least & ~3u) + own_cost(b, i);
      }
      H5L_UNROLL for (u32 i = 0; i < kCandidates; ++i) best[i] = next[i];
      all_from = all_from << 8 | from;
      share_from = again;
    });
    static_assert(kPathShare <= sizeof all_from);
    if (has_share) path.from[own] = static_cast<u8>(share_from);
    sync_block();
    if (warp() == 0) {
      const u32(&costs)[kCandidates] = path.through[kThreads - 1][0];
      u32 last = 0;
      H5L_UNROLL for (u32 k = 1; k < kCandidates; ++k) last = costs[k] < costs[last] ? k : last;
      H5L_NO_UNROLL for (u32 share = kThreads; share-- > 0;) {
        if (lane() == 0) path.last[share] = static_cast<u8>(last);
        last = path.from[share] >> 2 * last & 3;
      }
      if (lane() == 0) path.classes[0] = static_cast<u8>(first + last);
    }
    sync_block();
    u32 last = has_share ? path.last[own] : 0;
    H5L_NO_UNROLL for (u32 b = end; b-- > begin; all_from >>= 8) {
      path.classes[b] = static_cast<u8>(candidates[b] + last);
      last = static_cast<u32>(all_from) >> 2 * last & 3;
    }
    sync_block();
  }

  // -------------------------------------------------------------------------------------------------------------------
  // The parts before the codes

  H5L_DEVICE void write_front(u32 slot) {
    const TileRecord& record = stage_.record();
    if (thread() == 0) {
      Head head = record.head;
      const CodePlan& plan = shared().plan.plan;
      head.lanes = plan.lanes;
      head.model = plan.model;
      head.set = plan.set;
      head.escape_bytes = plan.escape_bytes;
      head.raw_planes = plan.raw_planes;
      head.has_own_table = plan.has_own_table;
      for (u32 s = 0; s < kSymbols; ++s) head.own_table[s] = plan.own_table[s];
      u8* at = payload_;
      if (head.has_exceptions) {
        // In front of the masks, since the size of a head is known only once it is written.
        constexpr u32 common_bytes = sizeof(T) + 2;
        at += kMasksAt - common_bytes - (write_head<T>(head, payload_) - payload_);
        store<W>(payload_ + kMasksAt - common_bytes, stored(static_cast<W>(record.common)));
        store(payload_ + kMasksAt - 2, static_cast<u16>(record.exception_flags));
      }
      const u8* const end = write_head<T>(head, at);
      stage_.record().front_begin = static_cast<u32>(at - payload_);
      shared().front = head.has_exceptions ? record.masks_end : static_cast<u32>(end - payload_);
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

  // Writes the bits of exceptions that differ from the common ones.
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
        store<W>(payload_ + shared().front + number * sizeof(T), bits);
      }
      before = shuffle(end, kWarpThreads - 1);
    }
    sync_warp();
    if (lane() == 0) shared().front += (are_alike ? 1 : before) * static_cast<u32>(sizeof(T));
    sync_warp();
  }

  // Writes the entries of patches; a thread has those of a word of 32 places.
  H5L_DEVICE void write_patches(u32 slot) {
    const u32* const patched = stage_.patched();
    const i8* const deltas = stage_.deltas(slot);
    u8* const out = payload_ + shared().front;
    u32 next = 0, entries = 0;  // one past the previous patch, and the number of entries before
    H5L_NO_UNROLL for (u32 first = 0; first < mask_words(shape_.count); first += kWarpThreads) {
      const u32 w = first + lane();
      const u32 bits = w < mask_words(shape_.count) ? patched[w] : 0;
      u32 ends = bits == 0 ? 0 : w * 32 + 32 - count_leading_zeros(bits);  // one past the last patch up to this word
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
    if (lane() == 0) shared().front += patches_bytes(entries);
    sync_warp();
  }

  // -------------------------------------------------------------------------------------------------------------------
  // Codes

  // Writes raw planes and escapes to their places, and turns the numbers into symbols.
  template <class I>
  H5L_DEVICE void write_planes(const I* codes) {
    using U = Unsigned<I>;
    auto& out = shared().codes;
    const CodePlan& plan = shared().plan.plan;
    const auto planes_of = [&](u32 b) { return plan.raw_planes + raw_planes_of(shared().plan.classes[b]); };
    const auto symbol_of = [&](U number, u32 planes) {
      const U rest = number >> planes;
      return rest < kEscape ? static_cast<u32>(rest) : kEscape;
    };
    for_numbers(
        codes, [&](u32 b) { return shared().plan.classes[b] != 0; },
        [&](u32 b, U number) {
          const u32 escapes = ones(ballot(symbol_of(number, planes_of(b)) == kEscape));
          if (lane() == 0) out.escapes[b] = static_cast<u8>(escapes);
        });
    sync_block();
    // A thread has consecutive blocks.
    constexpr u32 each = kMaxBlocks / kThreads;
    const auto for_own_blocks = [&](auto visit) {
      for (u32 b = thread() * each; b < (thread() + 1) * each && b < blocks_; ++b) {
        visit(b, planes_of(b), shared().plan.classes[b] == 0 ? 0u : u32{out.escapes[b]});
      }
    };
    u32 planes = 0, escapes = 0, unused = 0;
    for_own_blocks([&](u32, u32 own_planes, u32 own_escapes) {
      planes += own_planes;
      escapes += own_escapes;
    });
    planes = scan_of_block(planes, shared().totals, unused);
    sync_block();
    escapes = scan_of_block(escapes, shared().totals, unused);
    for_own_blocks([&](u32 b, u32 own_planes, u32 own_escapes) {
      out.planes_at[b] = planes;
      out.escapes_at[b] = static_cast<u16>(escapes);
      planes += own_planes;
      escapes += own_escapes;
    });
    sync_block();
    const u32 planes_begin = end_ - 4 * plan.raw_words;
    const auto has_rest = [&](u32 b) {
      return planes_of(b) != 0 || (shared().plan.classes[b] != 0 && out.escapes[b] != 0);
    };
    for_numbers(codes, has_rest, [&](u32 b, U own) {
      const u32 c = shared().plan.classes[b], count = planes_of(b), at = out.planes_at[b];
      const u32 symbol = symbol_of(own, count);
      const bool is_escape = c != 0 && symbol == kEscape;
      shared().numbers[b * kBlockCodes + lane()] = static_cast<u8>(symbol);
      const u32 escaped = ballot(is_escape);
      if (is_escape) {
        const u32 place = out.escapes_at[b] + ones(escaped & lanes_below());
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
    });
    sync_block();
  }

  const Shape shape_;
  const Q q_;
  const TileValues<T> values_;
  const TileStage<T> stage_;
  const u32 codes_, blocks_;
  u8* const payload_;
  const u32 end_;  // of the tile's memory
  PackPlan numbers_;
};

template <class T, class Q>
H5L_DEVICE void pack_tiles(const StagedPlan& plan) {
  for_tiles<kHasWords<Q>>(plan, [&](u32 chunk, u32 tile, const TilePlace& place, const Quantizer& quantizer, u32) {
    Packer<T, Q>(plan, chunk, tile, place, quantizer).run();
  });
}

}  // namespace interp
}  // namespace h5lossy::H5L_TARGET

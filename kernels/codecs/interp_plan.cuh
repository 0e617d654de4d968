// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Plans the codes of a tile by a thread block, with a warp per block of 32 codes (on a CPU:
// codecs/interp/tile_codes.h).
#pragma once

#include "codecs/interp/own_table.h"
#include "kernels/codecs/interp_tile.cuh"

namespace h5lossy::H5L_TARGET::interp {

template <u32 warps>
struct PlanShared {
  u8 classes[kMaxBlocks], candidates[kMaxBlocks];
  u32 counts[kSymbolTables][kSymbols];  // of symbols
  u32 pairs[kClassContexts][kClasses];  // how often a class follows another
  u32 model_costs[kClassModels];
  u32 set_costs[kTableSets];
  u32 sums[4 * warps];
  u64 wide_sums[2 * warps];
  CodePlan plan;
};

// Calls visit(b, number_of(b)) for each of the `used` blocks b = 0, `step`, 2 `step`, ... for which is_wanted(b) is
// true; a warp per block. Several loads are in flight at once, since a load takes longer than processing what it loads.
template <u32 warps, class Number, class Wanted, class Visit>
H5L_DEVICE void for_blocks(u32 used, u32 step, Number number_of, Wanted is_wanted, Visit visit) {
  constexpr u32 at_once = 4;
  H5L_NO_UNROLL for (u32 first = warp(); first < used; first += at_once * warps) {
    decltype(number_of(0)) own[at_once];
    H5L_UNROLL for (u32 k = 0; k < at_once; ++k) {
      const u32 i = first + k * warps;
      own[k] = number_of((i < used ? i : first) * step);
    }
    H5L_UNROLL for (u32 k = 0; k < at_once; ++k) {
      const u32 i = first + k * warps;
      if (i < used && is_wanted(i * step)) visit(i * step, own[k]);
    }
  }
}

// The zigzag of the thread's code of a block, as one of I.
template <class I, class Code>
H5L_DEVICE Unsigned<I> number_of_code(const Code* codes, u32 b) {
  return zigzag(static_cast<Unsigned<I>>(I{codes[b * kBlockCodes + lane()]}));
}

// `Where` gives the number of warps, the shared memory for planning (by a function, since the compiler cannot tell
// which memory a reference stored in an object refers to), and the zigzags of codes.
template <class I, class Where, class Code = I>
class Planner {
  using U = Unsigned<I>;
  static constexpr u32 warps = Where::kWarpsHere, kThreadsHere = warps * kWarpThreads;

 public:
  H5L_DEVICE Planner(const Code* codes, u32 count, Where where = {})
      : codes_(codes), count_(count), blocks_(blocks_of(count)), where_(where) {}

  // All functions are called by the whole thread block, and end with a barrier.

  // Makes the first plan; it is in shared memory, as are the classes.
  H5L_CALLED void plan() {
    u32 raw_planes = 0;
    U all = find_candidates(0);
    if ((u64{all} >> 32) != 0 || static_cast<u32>(all) > kMeanLimit) {
      raw_planes = choose_raw_planes();
      find_candidates(raw_planes);
    }
    if (thread() == 0) {
      shared().plan.raw_planes = raw_planes;
      shared().plan.has_own_table = false;
    }
    add_up(raw_planes);
  }

  // Computes what follows from the classes.
  H5L_CALLED void add_up(u32 raw_planes) {
    for (u32 i = thread(); i < kSymbolTables * kSymbols; i += kThreadsHere) (&shared().counts[0][0])[i] = 0;
    for (u32 i = thread(); i < kClassContexts * kClasses; i += kThreadsHere) (&shared().pairs[0][0])[i] = 0;
    sync_block();
    u32 planes = 0;
    for (u32 b = thread(); b < blocks_; b += kThreadsHere) {
      const u32 c = shared().classes[b], context = b == 0 ? kClassContexts - 1 : shared().classes[b - 1];
      atomic_add(&shared().pairs[context][c], 1);
      planes += raw_planes_of(c);
    }
    U items = 0;
    const auto has_symbols = [](u32 b) { return shared().classes[b] != 0; };
    for_numbers(blocks_, 1, has_symbols, [&](u32 b, U number) {
      const u32 c = shared().classes[b];
      const U rest = number >> (raw_planes + raw_planes_of(c));
      const u32 symbol = rest < kEscape ? static_cast<u32>(rest) : kEscape;
      if (symbol == kEscape) items |= number;
      const u32 own = lanes_with(symbol, lane());
      if (lane() < kSymbols && own != 0) atomic_add(&shared().counts[table_of(c)][lane()], ones(own));
    });
    u32 sums[1] = {planes};
    sum_over_block<warps>(sums, shared().sums);  // includes a barrier, so counts are complete
    const u64 all_items = or_over_block(u64{items});
    H5L_NO_UNROLL for (u32 task = warp(); task < kClassModels + kTableSets; task += warps) {
      u32 cost = 0;
      if (task < kClassModels) {
        const u16* const costs = &kCosts.classes[task][0][0];
        for (u32 i = lane(); i < kClassContexts * kClasses; i += kWarpThreads) {
          cost += (&shared().pairs[0][0])[i] * costs[i];
        }
      } else {
        const u16* const costs = &kCosts.symbols[task - kClassModels][0][0];
        for (u32 i = lane(); i < kSymbolTables * kSymbols; i += kWarpThreads) {
          cost += (&shared().counts[0][0])[i] * costs[i];
        }
      }
      cost = sum_of_warp(cost);
      if (lane() == 0)
        (task < kClassModels ? shared().model_costs[task] : shared().set_costs[task - kClassModels]) = cost;
    }
    sync_block();
    if (thread() == 0) {
      CodePlan& plan = shared().plan;
      plan.raw_words = blocks_ * raw_planes + sums[0];
      plan.model = plan.set = 0;
      for (u32 m = 1; m < kClassModels; ++m) {
        if (shared().model_costs[m] < shared().model_costs[plan.model]) plan.model = m;
      }
      for (u32 set = 1; set < kTableSets; ++set) {
        if (shared().set_costs[set] < shared().set_costs[plan.set]) plan.set = set;
      }
      plan.escapes = 0;
      for (u32 t = 0; t < kSymbolTables; ++t) plan.escapes += shared().counts[t][kEscape];
      plan.escape_bytes = escape_bytes_of(all_items);
      const u64 coded = u64{shared().model_costs[plan.model]} + shared().set_costs[plan.set];
      plan.lanes = choose_lanes(coded);
      plan.cost = coded + 16 * (u64{32} * plan.raw_words + u64{8} * plan.escape_bytes * plan.escapes +
                                lane_bits(plan.raw_words, plan.lanes));
    }
    sync_block();
  }

  // Tries a table of the tile's own, which is used if it lowers the total cost.
  H5L_DEVICE void try_own_table() {
    const CodePlan plan = shared().plan;
    if (plan.lanes < kLeastOwnLanes) return;
    u32 frequency;
    if (!is_promising(best_own_table(kOwnStep, plan.raw_planes, frequency).cost, plan.cost)) return;
    const OwnTable own = best_own_table(1, plan.raw_planes, frequency);
    const u64 cost = cost_with(own, blocks_, plan.cost);
    if (cost == kNoTable) return;
    sync_block();
    for (u32 b = thread(); b < blocks_; b += kThreadsHere) shared().classes[b] = 1;
    if (thread() == 0) {
      static_cast<Totals&>(shared().plan) = totals_with(own, blocks_, cost);
      shared().plan.raw_planes = own.raw_planes;
      shared().plan.has_own_table = true;
    }
    if (thread() < kSymbols) shared().plan.own_table[thread()] = static_cast<u16>(frequency);
    sync_block();
  }

 private:
  // The lanes whose symbol is `wanted`, which differs between threads.
  H5L_DEVICE static u32 lanes_with(u32 symbol, u32 wanted) {
    u32 lanes = ~0u;
    H5L_UNROLL for (u32 bit = 0; bit < 4; ++bit) {
      const u32 set = ballot((symbol >> bit & 1) != 0);
      lanes &= (wanted >> bit & 1) != 0 ? set : ~set;
    }
    return lanes;
  }

  H5L_DEVICE u64 or_over_block(u64 bits) {
    bits = u64{or_of_warp(static_cast<u32>(bits))} | u64{or_of_warp(static_cast<u32>(bits >> 32))} << 32;
    sync_block();
    if (lane() == 0) shared().wide_sums[warp()] = bits;
    sync_block();
    u64 all = 0;
    H5L_UNROLL for (u32 w = 0; w < warps; ++w) all |= shared().wide_sums[w];
    return all;
  }

  H5L_DEVICE static PlanShared<warps>& shared() { return Where::shared(); }

  H5L_DEVICE static bool is_any(u32) { return true; }
  template <class Wanted, class Visit>
  H5L_DEVICE void for_numbers(u32 used, u32 step, Wanted is_wanted, Visit visit) const {
    const Code* const codes = codes_;
    const Where where = where_;
    for_blocks<warps>(used, step, [=](u32 b) { return where.template number<I>(codes, b); }, is_wanted, visit);
  }

  // Finds candidates and classes of all blocks. Returns the OR of all sizes.
  H5L_DEVICE U find_candidates(u32 raw_planes) {
    U all = 0;
    for_numbers(blocks_, 1, is_any, [&](u32 b, U number) {
      const U size = number >> raw_planes;
      all |= size;
      const u32 halves = sum_of_warp((static_cast<u32>(size) + 1) >> 1);
      const bool is_zero = !any_in_warp(size != 0);
      const u32 reached = thresholds_reached(halves);
      if (lane() != 0) return;
      shared().candidates[b] = static_cast<u8>(is_zero ? 0 : first_candidate(reached));
      shared().classes[b] = static_cast<u8>(is_zero ? 0 : reached + 1);
    });
    return static_cast<U>(or_over_block(u64{all}));
  }

  H5L_DEVICE u32 choose_raw_planes() {
    u64 sums[2] = {};
    for_numbers(blocks_, 1, is_any, [&](u32, U number) {
      sums[0] += u64{number} >> 32;
      sums[1] += number & 0xFFFFFFFF;
    });
    sum_over_block<warps>(sums, shared().wide_sums);
    return least_raw_planes(sums[0], sums[1], count_);
  }

  // Finds the best table as best_own_table (codecs/interp/own_table.h) does. Its frequencies are returned in
  // `frequency`: thread s of each warp gets that of symbol s.
  H5L_CALLED OwnTable best_own_table(u32 step, u32 least, u32& frequency) {
    u32* const sizes = &shared().counts[0][0];
    static_assert(kSizes <= kSymbolTables * kSymbols && kSymbols <= kWarpThreads);
    const u32 used = (blocks_ + step - 1) / step, total = used * kBlockCodes;
    u64 sums[1] = {};
    U items = 0;
    for_numbers(used, step, is_any, [&](u32, U number) {
      sums[0] += number >> least;
      items |= number;
    });
    sum_over_block<warps>(sums, shared().wide_sums);
    const u64 all_items = or_over_block(u64{items});
    const u32 planes = least_own_planes(sums[0], total, least);
    OwnTable best;
    frequency = 0;
    if (planes > kMostRawPlanes<I>) return best;
    if (thread() < kSizes) sizes[thread()] = 0;
    sync_block();
    for_numbers(used, step, is_any, [&](u32, U number) {
      const U size = number >> planes;
      atomic_add(&sizes[size < kSizes ? static_cast<u32>(size) : kSizes - 1], 1);
    });
    sync_block();
    H5L_NO_UNROLL for (u32 more = 0; more < kPlaneChoices && planes + more <= kMostRawPlanes<I>; ++more) {
      u32 count = 0;
      for (u32 i = 0; lane() < kEscape && i < 1u << more; ++i) count += sizes[(lane() << more) + i];
      const u32 escapes = total - sum_of_warp(count);
      if (lane() == kEscape) count = escapes;
      // The same as fit_frequencies.
      const u32 share = (count * kFrequencySum + total / 2) / total;
      u32 own = lane() >= kSymbols ? 0 : share == 0 ? 1 : share;
      const u32 lack = kFrequencySum - sum_of_warp(own);
      if (lane() == lowest_one(ballot(own == largest_of_warp(own)))) own += lack;
      OwnTable table;
      table.raw_planes = planes + more;
      table.escapes = escapes;
      table.escape_bytes = escape_bytes_of(all_items);
      table.coded = sum_of_warp(count * kFrequencyCosts.of[own]);
      table.cost = table.coded + 16 * (u64{32} * used * table.raw_planes + u64{8} * table.escape_bytes * escapes);
      if (table.cost >= best.cost) continue;
      best = table;
      frequency = own;
    }
    sync_block();
    return best;
  }
  const Code* const codes_;
  const u32 count_, blocks_;
  const Where where_;
};

}  // namespace h5lossy::H5L_TARGET::interp

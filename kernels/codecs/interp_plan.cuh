// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The plan of a tile's codes by a thread block, a warp for each block of 32 (codecs/interp/tile_codes.h on a CPU).
#pragma once

#include "codecs/interp/own_table.h"
#include "kernels/codecs/interp_tile.cuh"

namespace h5lossy::H5L_TARGET::interp {

template <u32 warps>
struct PlanShared {
  u8 classes[kMaxBlocks], candidates[kMaxBlocks];
  u32 counts[warps][kSymbolTables][kSymbols];
  u32 pairs[kClassContexts][kClasses];  // how often a class follows another one
  u32 model_costs[kClassModels];
  u32 set_costs[kTableSets];
  u32 sums[4 * warps];
  u64 wide_sums[2 * warps];
  CodePlan plan;
};

template <class I, u32 warps>
class Planner {
  using U = Unsigned<I>;
  static constexpr u32 kThreadsHere = warps * kWarpThreads;

 public:
  H5L_DEVICE Planner(const I* codes, u32 count, PlanShared<warps>& shared)
      : codes_(codes), count_(count), blocks_(blocks_of(count)), shared_(shared) {}

  // All functions are called by the whole thread block, which meets at their ends.

  // The plan at first; it is in shared memory, with the classes.
  H5L_CALLED void plan() {
    u32 raw_planes = 0;
    U all = find_candidates(0);
    if ((u64{all} >> 32) != 0 || static_cast<u32>(all) > kMeanLimit) {
      raw_planes = choose_raw_planes();
      find_candidates(raw_planes);
    }
    if (thread() == 0) {
      shared_.plan.raw_planes = raw_planes;
      shared_.plan.has_own_table = false;
    }
    add_up(raw_planes);
  }

  // What follows from the classes.
  H5L_CALLED void add_up(u32 raw_planes) {
    for (u32 i = thread(); i < warps * kSymbolTables * kSymbols; i += kThreadsHere) (&shared_.counts[0][0][0])[i] = 0;
    for (u32 i = thread(); i < kClassContexts * kClasses; i += kThreadsHere) (&shared_.pairs[0][0])[i] = 0;
    sync_block();
    u32 planes = 0;
    for (u32 b = thread(); b < blocks_; b += kThreadsHere) {
      const u32 c = shared_.classes[b], context = b == 0 ? kClassContexts - 1 : shared_.classes[b - 1];
      atomic_add(&shared_.pairs[context][c], 1);
      planes += raw_planes_of(c);
    }
    U items = 0;
    H5L_NO_UNROLL for (u32 b = warp(); b < blocks_; b += warps) {
      const u32 c = shared_.classes[b];
      if (c == 0) continue;
      const U number = zigzag(static_cast<U>(codes_[b * kBlockCodes + lane()]));
      const U rest = number >> (raw_planes + raw_planes_of(c));
      const u32 symbol = rest < kEscape ? static_cast<u32>(rest) : kEscape;
      if (symbol == kEscape) items |= number;
      const u32 own = lanes_with(symbol, lane());
      if (lane() < kSymbols) shared_.counts[warp()][table_of(c)][lane()] += ones(own);
    }
    u32 sums[1] = {planes};
    sum_over_block<warps>(sums, shared_.sums);  // the thread block meets, so counts are complete
    const u64 all_items = or_over_block(u64{items});
    for (u32 i = thread(); i < kSymbolTables * kSymbols; i += kThreadsHere) {
      u32 sum = 0;
      for (u32 w = 0; w < warps; ++w) sum += (&shared_.counts[w][0][0])[i];
      (&shared_.counts[0][0][0])[i] = sum;
    }
    sync_block();
    H5L_NO_UNROLL for (u32 task = warp(); task < kClassModels + kTableSets; task += warps) {
      u32 cost = 0;
      if (task < kClassModels) {
        const u16* const costs = &kCosts.classes[task][0][0];
        for (u32 i = lane(); i < kClassContexts * kClasses; i += kWarpThreads) {
          cost += (&shared_.pairs[0][0])[i] * costs[i];
        }
      } else {
        const u16* const costs = &kCosts.symbols[task - kClassModels][0][0];
        for (u32 i = lane(); i < kSymbolTables * kSymbols; i += kWarpThreads) {
          cost += (&shared_.counts[0][0][0])[i] * costs[i];
        }
      }
      cost = sum_of_warp(cost);
      if (lane() == 0)
        (task < kClassModels ? shared_.model_costs[task] : shared_.set_costs[task - kClassModels]) = cost;
    }
    sync_block();
    if (thread() == 0) {
      CodePlan& plan = shared_.plan;
      plan.raw_words = blocks_ * raw_planes + sums[0];
      plan.model = plan.set = 0;
      for (u32 m = 1; m < kClassModels; ++m) {
        if (shared_.model_costs[m] < shared_.model_costs[plan.model]) plan.model = m;
      }
      for (u32 set = 1; set < kTableSets; ++set) {
        if (shared_.set_costs[set] < shared_.set_costs[plan.set]) plan.set = set;
      }
      plan.escapes = 0;
      for (u32 t = 0; t < kSymbolTables; ++t) plan.escapes += shared_.counts[0][t][kEscape];
      plan.escape_bytes = escape_bytes_of(all_items);
      const u64 coded = u64{shared_.model_costs[plan.model]} + shared_.set_costs[plan.set];
      plan.lanes = choose_lanes(coded);
      plan.cost = coded + 16 * (u64{32} * plan.raw_words + u64{8} * plan.escape_bytes * plan.escapes +
                                lane_bits(plan.raw_words, plan.lanes));
    }
    sync_block();
  }

  // A table of the tile's own, if the whole becomes cheaper.
  H5L_DEVICE void try_own_table() {
    const CodePlan plan = shared_.plan;
    if (plan.lanes < kLeastOwnLanes) return;
    if (!is_promising(best_own_table(kOwnStep, plan.raw_planes).cost, plan.cost)) return;
    const OwnTable own = best_own_table(1, plan.raw_planes);
    const u64 cost = cost_with(own, blocks_, plan.cost);
    if (cost == kNoTable) return;
    sync_block();
    for (u32 b = thread(); b < blocks_; b += kThreadsHere) shared_.classes[b] = 1;
    if (thread() == 0) {
      static_cast<Totals&>(shared_.plan) = totals_with(own, blocks_, cost);
      shared_.plan.raw_planes = own.raw_planes;
      shared_.plan.has_own_table = true;
      for (u32 s = 0; s < kSymbols; ++s) shared_.plan.own_table[s] = own.frequencies[s];
    }
    sync_block();
  }

 private:
  // The lanes whose symbol is `wanted`, another one for each thread.
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
    if (lane() == 0) shared_.wide_sums[warp()] = bits;
    sync_block();
    u64 all = 0;
    H5L_UNROLL for (u32 w = 0; w < warps; ++w) all |= shared_.wide_sums[w];
    return all;
  }

  // Candidates and classes of all blocks. Returns the bits of all sizes.
  H5L_DEVICE U find_candidates(u32 raw_planes) {
    U all = 0;
    H5L_NO_UNROLL for (u32 b = warp(); b < blocks_; b += warps) {
      const U size = zigzag(static_cast<U>(codes_[b * kBlockCodes + lane()])) >> raw_planes;
      all |= size;
      const u32 halves = sum_of_warp((static_cast<u32>(size) + 1) >> 1);
      const bool is_zero = !any_in_warp(size != 0);
      const u32 reached = thresholds_reached(halves);
      if (lane() != 0) continue;
      shared_.candidates[b] = static_cast<u8>(is_zero ? 0 : first_candidate(reached));
      shared_.classes[b] = static_cast<u8>(is_zero ? 0 : reached + 1);
    }
    return static_cast<U>(or_over_block(u64{all}));
  }

  H5L_DEVICE u32 choose_raw_planes() {
    u64 sums[2] = {};
    H5L_NO_UNROLL for (u32 i = thread(); i < count_; i += kThreadsHere) {
      const u64 number = zigzag(static_cast<U>(codes_[i]));
      sums[0] += number >> 32;
      sums[1] += number & 0xFFFFFFFF;
    }
    sum_over_block<warps>(sums, shared_.wide_sums);
    return least_raw_planes(sums[0], sums[1], count_);
  }

  H5L_CALLED OwnTable best_own_table(u32 step, u32 least) {
    u32(&sizes)[kSizes] = *reinterpret_cast<u32(*)[kSizes]>(&shared_.counts[0][0][0]);
    const u32 used = (blocks_ + step - 1) / step;
    u64 sums[1] = {};
    U items = 0;
    H5L_NO_UNROLL for (u32 b = warp(); b < used; b += warps) {
      const U number = zigzag(static_cast<U>(codes_[b * step * kBlockCodes + lane()]));
      sums[0] += number >> least;
      items |= number;
    }
    sum_over_block<warps>(sums, shared_.wide_sums);
    const u64 all_items = or_over_block(u64{items});
    const u32 planes = least_own_planes(sums[0], used * kBlockCodes, least);
    if (planes > kMostRawPlanes<I>) return {};
    if (thread() < kSizes) sizes[thread()] = 0;
    sync_block();
    H5L_NO_UNROLL for (u32 b = warp(); b < used; b += warps) {
      const U size = zigzag(static_cast<U>(codes_[b * step * kBlockCodes + lane()])) >> planes;
      atomic_add(&sizes[size < kSizes ? size : kSizes - 1], 1);
    }
    sync_block();
    return interp::best_own_table(sizes, used, planes, kMostRawPlanes<I>, escape_bytes_of(all_items));
  }

  const I* const codes_;
  const u32 count_, blocks_;
  PlanShared<warps>& shared_;
};

}  // namespace h5lossy::H5L_TARGET::interp

// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// A table of symbols that is a tile's own, in place of classes: for residuals that are alike everywhere in a tile, but
// not distributed as any set of tables says (docs/design/interp-encoder.md, "A table of the tile's own").
#pragma once

#include "codecs/interp/coding.h"

namespace h5lossy::H5L_TARGET::interp {

// The cost where a table would need more raw planes than there may be.
inline constexpr u64 kNoTable = ~u64{0};

struct OwnTable {
  u16 frequencies[kSymbols];
  u32 raw_planes;  // of every block
  u32 escapes;
  u32 escape_bytes;
  u64 coded;            // what the symbols cost
  u64 cost = kNoTable;  // and raw planes and escapes
};

// Frequencies in proportion to `counts`, which sum to `total`, but at least 1. What the sum is off by is made good in
// the largest, which has room: it is at least 128, and the others are too large by less than 24 together.
inline void fit_frequencies(const u32 (&counts)[kSymbols], u32 total, u16 (&frequencies)[kSymbols]) {
  u32 sum = 0, most = 0;
  for (u32 s = 0; s < kSymbols; ++s) {
    const u32 frequency = (counts[s] * kFrequencySum + total / 2) / total;
    frequencies[s] = static_cast<u16>(frequency == 0 ? 1 : frequency);
    sum += frequencies[s];
    most = frequencies[s] > frequencies[most] ? s : most;
  }
  frequencies[most] = static_cast<u16>(frequencies[most] + kFrequencySum - sum);
}

// The best table for every `step`-th block, with `least` raw planes at least.
template <class I>
inline OwnTable best_own_table(const I* codes, u32 blocks, u32 step, u32 least) {
  constexpr u32 kChoices = 3;                         // of numbers of raw planes
  constexpr u32 kSizes = kSymbols << (kChoices - 1);  // that are told apart; larger ones are like the last
  const u32 used = (blocks + step - 1) / step, total = used * kBlockCodes;
  const auto for_numbers = [&](auto visit) {
    for (u32 b = 0; b < blocks; b += step) {
      const I* const block = codes + u64{b} * kBlockCodes;
      for (u32 i = 0; i < kBlockCodes; ++i) visit(i, zigzag(static_cast<Unsigned<I>>(block[i])));
    }
  };
  u64 sum = 0;
  Unsigned<I> all = 0;
  for_numbers([&](u32, Unsigned<I> number) {
    sum += number >> least;
    all |= number;
  });
  u32 planes = least;  // one less than leave at most 3 of the mean; then that many, and one more
  for (; sum > u64{3} * total; sum >>= 1) ++planes;
  if (planes > least) --planes;
  OwnTable best;
  if (planes > kMostRawPlanes<I>) return best;
  u32 counts[4][kSizes] = {};  // four, so that counting need not wait for the count before
  for_numbers([&](u32 i, Unsigned<I> number) {
    const Unsigned<I> size = number >> planes;
    ++counts[i % 4][size < kSizes ? size : kSizes - 1];
  });
  const u32 escape_bytes = all >> 16 == 0 ? 2 : u64{all} >> 32 == 0 ? 4 : 8;
  for (u32 more = 0; more < kChoices && planes + more <= kMostRawPlanes<I>; ++more) {
    u32 symbols[kSymbols] = {};
    for (u32 size = 0; size < kSizes; ++size) {
      const u32 symbol = size >> more < kEscape ? size >> more : kEscape;
      for (const auto& part : counts) symbols[symbol] += part[size];
    }
    OwnTable own;
    fit_frequencies(symbols, total, own.frequencies);
    own.raw_planes = planes + more;
    own.escapes = symbols[kEscape];
    own.escape_bytes = escape_bytes;
    own.coded = 0;
    for (u32 s = 0; s < kSymbols; ++s) own.coded += u64{symbols[s]} * kFrequencyCosts.of[own.frequencies[s]];
    own.cost = own.coded + 16 * (u64{32} * used * own.raw_planes + u64{8} * escape_bytes * own.escapes);
    if (own.cost < best.cost) best = own;
  }
  return best;
}

// Takes a table of the tile's own if the whole becomes cheaper, by more than costs may be wrong. All blocks have the
// class 1 then.
template <class I>
inline void try_own_table(const I* codes, u32 blocks, Coding& plan) {
  constexpr u32 kStep = 8;  // of blocks that are looked at first
  if (plan.lanes < kLeastOwnLanes) return;
  const u64 some = best_own_table(codes, blocks, kStep, plan.raw_planes).cost;
  if (some == kNoTable || kStep * some > plan.cost + plan.cost / 32) return;
  const OwnTable own = best_own_table(codes, blocks, 1, plan.raw_planes);
  if (own.cost == kNoTable) return;
  const u32 lanes = choose_lanes(own.coded), raw_words = blocks * own.raw_planes;
  const u64 cost = own.cost + 16 * (u64{8} * kOwnTableBytes + lane_bits(raw_words, lanes));
  if (lanes < kLeastOwnLanes || cost + cost / 256 >= plan.cost) return;
  plan.has_own_table = true;
  memcpy(plan.own_table, own.frequencies, sizeof plan.own_table);
  memset(plan.classes, 1, blocks);
  plan.raw_planes = own.raw_planes;
  static_cast<Totals&>(plan) = {.set = 0,
                                .model = 0,
                                .lanes = lanes,
                                .escape_bytes = own.escapes == 0 ? 2 : own.escape_bytes,
                                .raw_words = raw_words,
                                .escapes = own.escapes,
                                .cost = cost};
}

}  // namespace h5lossy::H5L_TARGET::interp

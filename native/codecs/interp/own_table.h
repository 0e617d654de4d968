// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// A table of symbols of a tile's own, in place of classes: for residuals whose distribution is the same everywhere in a
// tile, but is not that of any set of tables (docs/design/interp-encoder.md, "A table of the tile's own").
#pragma once

#include "codecs/interp/coding.h"

namespace h5lossy::H5L_TARGET::interp {

// The cost if a table would need more raw planes than allowed.
inline constexpr u64 kNoTable = ~u64{0};

struct OwnTable {
  u16 frequencies[kSymbols];
  u32 raw_planes = 0;  // of every block
  u32 escapes = 0;
  u32 escape_bytes = 0;
  u64 coded = 0;        // the cost of the symbols
  u64 cost = kNoTable;  // including raw planes and escapes
};

// Frequencies in proportion to `counts`, whose sum is `total`, but at least 1. The largest frequency absorbs the error
// of the sum. It has room for that: it is at least 128, and the others together are too large by less than 24.
H5L_FN void fit_frequencies(const u32 (&counts)[kSymbols], u32 total, u16 (&frequencies)[kSymbols]) {
  u32 sum = 0, most = 0;
  for (u32 s = 0; s < kSymbols; ++s) {
    const u32 frequency = (counts[s] * kFrequencySum + total / 2) / total;
    frequencies[s] = static_cast<u16>(frequency == 0 ? 1 : frequency);
    sum += frequencies[s];
    most = frequencies[s] > frequencies[most] ? s : most;
  }
  frequencies[most] = static_cast<u16>(frequencies[most] + kFrequencySum - sum);
}

inline constexpr u32 kPlaneChoices = 3;                         // for the number of raw planes
inline constexpr u32 kSizes = kSymbols << (kPlaneChoices - 1);  // that are distinguished; larger ones are like the last

// The least number of raw planes that is tried if the zigzags of `total` codes, without `least` planes, have this sum:
// one less than the number that reduces the mean to at most 3.
H5L_FN u32 least_own_planes(u64 sum, u32 total, u32 least) {
  u32 planes = least;
  for (; sum > u64{3} * total; sum >>= 1) ++planes;
  return planes > least ? planes - 1 : planes;
}

// The bytes of an escape; `all` is the OR of all zigzags.
H5L_FN u32 escape_bytes_of(u64 all) { return all >> 16 == 0 ? 2 : all >> 32 == 0 ? 4 : 8; }

// The best table for `blocks` blocks whose codes have these sizes; `planes` raw planes are already removed.
H5L_FN OwnTable best_own_table(const u32 (&sizes)[kSizes], u32 blocks, u32 planes, u32 most_planes, u32 escape_bytes) {
  OwnTable best;
  for (u32 more = 0; more < kPlaneChoices && planes + more <= most_planes; ++more) {
    u32 symbols[kSymbols] = {};
    for (u32 size = 0; size < kSizes; ++size) symbols[size >> more < kEscape ? size >> more : kEscape] += sizes[size];
    OwnTable own;
    fit_frequencies(symbols, blocks * kBlockCodes, own.frequencies);
    own.raw_planes = planes + more;
    own.escapes = symbols[kEscape];
    own.escape_bytes = escape_bytes;
    for (u32 s = 0; s < kSymbols; ++s) own.coded += u64{symbols[s]} * kFrequencyCosts.of[own.frequencies[s]];
    const u64 plane_bits = u64{32} * blocks * (planes + more), escape_bits = u64{8} * escape_bytes * symbols[kEscape];
    own.cost = own.coded + 16 * (plane_bits + escape_bits);
    if (own.cost < best.cost) best = own;
  }
  return best;
}

// Whether the table for every kOwnStep-th block suggests that one for all blocks pays.
inline constexpr u32 kOwnStep = 8;
H5L_FN bool is_promising(u64 some, u64 cost) { return some != kNoTable && kOwnStep * some <= cost + cost / 32; }

// The cost of the tile with a table of its own; kNoTable if it is not less than `before` by more than the error of
// costs.
H5L_FN u64 cost_with(const OwnTable& own, u32 blocks, u64 before) {
  if (own.cost == kNoTable) return kNoTable;
  const u32 lanes = choose_lanes(own.coded), raw_words = blocks * own.raw_planes;
  const u64 cost = own.cost + 16 * (u64{8} * kOwnTableBytes + lane_bits(raw_words, lanes));
  return lanes < kLeastOwnLanes || cost + cost / 256 >= before ? kNoTable : cost;
}

// The totals of a plan with such a table.
H5L_FN Totals totals_with(const OwnTable& own, u32 blocks, u64 cost) {
  return {.set = 0,
          .model = 0,
          .lanes = choose_lanes(own.coded),
          .escape_bytes = own.escapes == 0 ? 2 : own.escape_bytes,
          .raw_words = blocks * own.raw_planes,
          .escapes = own.escapes,
          .cost = cost};
}

// Sizes that are treated alike in all choices have the same number, below this.
inline constexpr u32 kSizeNumbers = 32;
H5L_FN constexpr u32 number_of_size(u32 size) { return size < 16 ? size : size < 32 ? size / 2 + 8 : size / 4 + 16; }
static_assert(kSymbols == 16 && kPlaneChoices == 3 && number_of_size(kSizes - 1) == kSizeNumbers - 1);

#if !defined(__CUDACC__)

// Counts how often each number occurs in some blocks. It compares several numbers at a time, since incrementing
// counters would stall.
inline void count_numbers(const u8* numbers, u32 blocks, u32 (&counts)[kSizeNumbers]) {
  constexpr u32 width = kVectorBytes < kBlockCodes ? kVectorBytes : kBlockCodes, together = 4, most = 255 * width;
  using Bytes [[gnu::vector_size(width)]] = u8;
  for (u32 first = 0, count = blocks * kBlockCodes; first < count; first += most) {
    const u32 end = count - first < most ? count : first + most;
    for (u32 n = 0; n < kSizeNumbers; n += together) {
      Bytes found[together] = {};
      for (u32 i = first; i < end; i += width) {
        Bytes some;
        memcpy(&some, numbers + i, sizeof some);
        for (u32 k = 0; k < together; ++k) found[k] -= static_cast<Bytes>(some == static_cast<u8>(n + k));
      }
      for (u32 k = 0; k < together; ++k) {
        for (u32 i = 0; i < width; ++i) counts[n + k] += found[k][i];
      }
    }
  }
}

// Counts every `step`-th block, with at least `least` raw planes. `scratch` has kTileValues bytes.
template <class I>
inline OwnTable best_own_table(const I* codes, u32 blocks, u32 step, u32 least, u8* scratch) {
  const u32 used = (blocks + step - 1) / step, total = used * kBlockCodes;
  const u32 run = step == 1 ? total : kBlockCodes;
  u64 sum = 0;
  Unsigned<I> all = 0;
  for (u32 first = 0; first < blocks * kBlockCodes; first += step * run) {
    for (u32 i = 0; i < run; ++i) {  // vectorized
      const Unsigned<I> number = zigzag(static_cast<Unsigned<I>>(codes[first + i]));
      sum += number >> least;
      all |= number;
    }
  }
  const u32 planes = least_own_planes(sum, total, least);
  if (planes > kMostRawPlanes<I>) return {};
  u8* numbers = scratch;
  for (u32 b = 0; b < blocks; b += step, numbers += kBlockCodes) {
    for (u32 i = 0; i < kBlockCodes; ++i) {  // vectorized
      const Unsigned<I> size = zigzag(static_cast<Unsigned<I>>(codes[u64{b} * kBlockCodes + i])) >> planes;
      numbers[i] = static_cast<u8>(number_of_size(static_cast<u32>(size < kSizes ? size : kSizes - 1)));
    }
  }
  u32 counts[kSizeNumbers] = {}, sizes[kSizes] = {};
  count_numbers(scratch, used, counts);
  for (u32 size = 0; size < kSizes; size += size < 16 ? 1 : size < 32 ? 2 : 4) {
    sizes[size] = counts[number_of_size(size)];
  }
  return best_own_table(sizes, used, planes, kMostRawPlanes<I>, escape_bytes_of(all));
}

// Switches to a table of the tile's own if that lowers the total cost. All blocks then have class 1. `scratch` has
// kTileValues bytes.
template <class I>
inline void try_own_table(const I* codes, u32 blocks, Coding& plan, u8* scratch) {
  if (plan.lanes < kLeastOwnLanes) return;
  if (!is_promising(best_own_table(codes, blocks, kOwnStep, plan.raw_planes, scratch).cost, plan.cost)) return;
  const OwnTable own = best_own_table(codes, blocks, 1, plan.raw_planes, scratch);
  const u64 cost = cost_with(own, blocks, plan.cost);
  if (cost == kNoTable) return;
  plan.has_own_table = true;
  memcpy(plan.own_table, own.frequencies, sizeof plan.own_table);
  memset(plan.classes, 1, blocks);
  plan.raw_planes = own.raw_planes;
  static_cast<Totals&>(plan) = totals_with(own, blocks, cost);
}

#endif

}  // namespace h5lossy::H5L_TARGET::interp

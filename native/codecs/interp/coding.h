// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The data structures of Interp's coder: its tables, and the plan of a tile's codes (see coder.h).
#pragma once

#include "codecs/bits.h"
#include "codecs/interp/format.h"
#include "codecs/interp/tables.h"
#include "codecs/portable.h"

namespace h5lossy::H5L_TARGET::interp {

// 32-bit codes never need more: 20 raw planes reduce any mean to at most 5000.
template <class I>
inline constexpr u32 kMostRawPlanes = sizeof(I) == 4 ? 20 : kMaxRawPlanes;

inline constexpr u32 kEscape = kSymbols - 1;  // the symbol, and the smallest number that is escaped
inline constexpr u32 kMostClassPlanes = raw_planes_of(kClasses - 1);
inline constexpr u32 kMostPlanes = kMaxRawPlanes + kMostClassPlanes;
inline constexpr u32 kStateBytes = 4;
inline constexpr u32 kFirstState = 1u << 16;
inline constexpr u32 kWordBytes = 2;
inline constexpr u32 kHalfBytes = 2;  // half a state, and half a word of raw planes

// The number of lanes whose first state begins with half a raw plane in its low half, which may have any value.
H5L_FN constexpr u32 borrowed_halves(u32 raw_words, u32 lanes) { return 2 * raw_words < lanes ? 2 * raw_words : lanes; }

// The cost of states, except for the raw planes in them.
H5L_FN constexpr u32 lane_bits(u32 raw_words, u32 lanes) { return 24 * lanes - 16 * borrowed_halves(raw_words, lanes); }

// The number of planes that a block of a tile has at most; `of` is a Head or a Coding.
template <class Of>
constexpr u32 most_planes(const Of& of) {
  return of.raw_planes + (of.has_own_table ? 0 : kMostClassPlanes);
}

H5L_FN constexpr u32 blocks_of(u32 count) { return (count + kBlockCodes - 1) / kBlockCodes; }

// For each block, this many consecutive classes are compared.
inline constexpr u32 kCandidates = 4;

// What follows from the classes of a tile's blocks.
struct Totals {
  u32 set;  // of symbol tables
  u32 model;
  u32 lanes;
  u32 escape_bytes;
  u32 raw_words;
  u32 escapes;
  u64 cost;  // in 1/16 bit, of everything that write_codes writes
};

// A plan that plan_coding makes, shorten_coding improves, and write_codes follows.
struct Coding : Totals {
  u32 raw_planes;      // R, the same for all blocks
  bool has_own_table;  // if true, all blocks have class 1, and classes are not coded
  u16 own_table[kSymbols];
  u8 classes[kMaxBlocks];
  u8 candidates[kMaxBlocks];  // the first candidate of each block
  u64 costs[kMaxBlocks];      // of the candidates, 16 bits each: their symbols and raw planes
};

// At most one word per symbol and class.
inline constexpr u32 kMaxWords = kTileValues + kMaxBlocks;

// Bytes of scratch memory. Words are made from last to first, and vectors reach a little before them.
inline constexpr u32 kWriteScratchBytes = 64 + kMaxWords * kWordBytes;
inline constexpr u32 kShortenBytes = kTileValues;  // for shorten_coding
static_assert(kShortenBytes >= (kCandidates + 1) * kMaxBlocks);

// The room that write_codes needs in `out`. Words need little more than their cost: a state is at least 32 times the
// frequency of the symbol that it takes, so rounding makes it at most 33/32 times too large, which is 0.045 bit; and a
// rounded cost is at most 1/32 bit too small. A tile has at most 33792 symbols and classes, so this adds 322 bytes. A
// state costs 3 bytes and takes 4, which adds 32 bytes.
constexpr u32 room_of(const Coding& plan) { return static_cast<u32>(plan.cost / 128) + 384; }

// ---------------------------------------------------------------------------------------------------------------------
// Tables

// How to code a symbol: a state x, below 2^21 times the frequency, becomes
//   (x / frequency << 11) + x % frequency + sum = x + sum + x / frequency * (2048 - frequency).
struct Rate {
  u64 reciprocal;
  u32 limit;  // from this state on, a word is written first
  u16 frequency;
  u16 sum;  // of the frequencies before it
};

H5L_FN constexpr void make_rates(const u16 (&frequencies)[kSymbols], Rate (&rates)[kSymbols]) {
  u32 sum = 0;
  for (u32 s = 0; s < kSymbols; ++s) {
    const u32 frequency = frequencies[s];
    rates[s] = {reciprocal_of(frequency), frequency << (32 - kFrequencyBits), static_cast<u16>(frequency),
                static_cast<u16>(sum)};
    sum += frequency;
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Planning

// The coder measures codes by *size*: the zigzag of a code without the planes that are raw in every block.

// Which classes are compared depends on the sum of half the sizes, each rounded up: on how many of these thresholds it
// reaches. The mean of a class is near 0.1 times a power of two.
inline constexpr u32 kClassThresholds = kClasses - kCandidates;
struct Thresholds {
  u32 at[kClassThresholds];
};
H5L_FN constexpr Thresholds make_thresholds() {
  Thresholds thresholds = {};
  for (u32 j = 0; j < kClassThresholds; ++j) thresholds.at[j] = ((4525u << j) + 999) / 1000;
  return thresholds;
}
H5L_TABLE Thresholds kThresholds = make_thresholds();

H5L_FN u32 thresholds_reached(u32 halves) {
  // Each threshold is between 4 and 8 times its power of two. No branches, since they would often be mispredicted.
  constexpr u32 last = kClassThresholds - 1;
  const u32 j = 29 - count_leading_zeros(halves | 4);
  const u32 reached = j + (halves >= kThresholds.at[j < last ? j : last] ? 1 : 0);
  return reached < kClassThresholds ? reached : kClassThresholds;
}

// The first class that is compared for a block that is not all zeros.
H5L_FN constexpr u32 first_candidate(u32 reached) { return reached > 1 ? reached : 1; }

// The cost of raw planes in the four candidates from `first` on, 16 bits each.
H5L_FN constexpr u64 plane_costs(u32 first) {
  u64 costs = 0;
  for (u32 i = 0; i < kCandidates; ++i) {
    const u64 cost = u64{16} * kBlockCodes * raw_planes_of(first + i);
    costs |= cost << 16 * i;
  }
  return costs;
}

inline constexpr u32 kMeanLimit = 5000;      // of sizes
inline constexpr u32 kEscapeCost = 16 * 16;  // the cost of an escape in the comparison of classes

// The costs of one code in four classes at once, 16 bits each; in a block they sum to less than 2^16. The size is
// shifted by the least number of raw planes among the four. From class 5 on, each four differ from the next only by
// this shift. Row 0 is for blocks of zeros, in which class 0 costs nothing.
inline constexpr u32 kCostRows = 6;
inline constexpr u32 kCostSizes = 128;  // larger sizes cost the same as the last
H5L_FN constexpr u32 cost_row(u32 first) { return first < kCostRows ? first : kCostRows - 1; }

H5L_FN constexpr u64 code_costs(u32 set, u32 row, u32 size) {
  u64 costs = 0;
  for (u32 c = row == 0 ? 1 : row; c < row + kCandidates; ++c) {
    const u32 rest = size >> (raw_planes_of(c) - raw_planes_of(row));
    const u16(&symbols)[kSymbols] = kCosts.symbols[set][table_of(c)];
    const u64 cost = rest < kEscape ? symbols[rest] : symbols[kEscape] + kEscapeCost;
    costs |= cost << 16 * (c - row);
  }
  return costs;
}

static_assert((kCostSizes - 1) >> (kCandidates - 1) >= kEscape);

// Escapes of a tile.
template <class I>
struct Tally {
  u32 escapes = 0;
  Unsigned<I> items = 0;  // the OR of the zigzags of all escapes
};

// Counts the escapes of a block with this many raw planes.
template <class I>
inline void count_escapes(const I* codes, u32 planes, Tally<I>& tally) {
  for (u32 i = 0; i < kBlockCodes; ++i) {
    const Unsigned<I> number = zigzag(static_cast<Unsigned<I>>(codes[i]));
    if (number >> planes < kEscape) continue;
    tally.items |= number;
    ++tally.escapes;
  }
}

// The least R for which the sum of all zigzags, high * 2^32 + low, is at most 5000 * count * 2^R.
H5L_FN u32 least_raw_planes(u64 high, u64 low, u32 count) {
  u32 planes = 0;
  for (; high >> 16 != 0; ++planes) {  // half of it, rounded up
    low = (low >> 1) + (low & 1) + ((high & 1) << 31);
    high >>= 1;
  }
  u64 sum = (high << 32) + low;
  for (; sum > u64{kMeanLimit} * count; ++planes) sum -= sum >> 1;
  return planes < kMaxRawPlanes ? planes : kMaxRawPlanes;
}

template <class I>
inline u32 choose_raw_planes(const I* codes, u32 count) {
  u64 high = 0, low = 0;
  for (u32 i = 0; i < count; ++i) {
    const u64 number = zigzag(static_cast<Unsigned<I>>(codes[i]));
    high += number >> 32;
    low += number & 0xFFFFFFFF;
  }
  return least_raw_planes(high, low, count);
}

// The set with the least cost of symbols; the first of equals.
H5L_FN u32 choose_set(const u64 (&costs)[kTableSets]) {
  u32 best = 0;
  for (u32 set = 1; set < kTableSets; ++set) best = costs[set] < costs[best] ? set : best;
  return best;
}

// The largest number of lanes that adds at most 2 % to the words.
H5L_FN u32 choose_lanes(u64 coded) {
  u32 lanes = kMaxLanes;
  while (lanes > 1 && u64{16384} * lanes > coded) lanes = lanes == 32 ? 16 : lanes / 4;
  return lanes;
}

}  // namespace h5lossy::H5L_TARGET::interp

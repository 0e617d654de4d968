// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// What Interp's coder works with: its tables, and the plan of a tile's codes (see coder.h).
#pragma once

#include "codecs/bits.h"
#include "codecs/interp/format.h"
#include "codecs/interp/tables.h"
#include "codecs/portable.h"

namespace h5lossy::H5L_TARGET::interp {

// Codes of 32 bits never need more: 20 planes leave at most 5000 of any mean.
template <class I>
inline constexpr u32 kMostRawPlanes = sizeof(I) == 4 ? 20 : kMaxRawPlanes;

inline constexpr u32 kEscape = kSymbols - 1;  // the symbol, and the least number that is one
inline constexpr u32 kMostClassPlanes = raw_planes_of(kClasses - 1);
inline constexpr u32 kStateBytes = 4;
inline constexpr u32 kFirstState = 1u << 16;
inline constexpr u32 kWordBytes = 2;

constexpr u32 blocks_of(u32 count) { return (count + kBlockCodes - 1) / kBlockCodes; }

// What plan_coding finds, and write_codes follows.
struct Coding {
  u8 classes[kMaxBlocks];
  u32 raw_planes;  // of every block: R
  u32 set;         // of symbol tables
  u32 model;
  u32 lanes;
  u32 escape_bytes;
  u32 raw_words;
  u32 escapes;
  u64 cost;  // in 1/16 bit, of all that write_codes writes
};

// At most one word for each symbol and class.
inline constexpr u32 kMaxWords = kTileValues + kMaxBlocks;

// Bytes of scratch memory. Words are made from the last to the first, and vectors reach a little in front of them.
inline constexpr u32 kWriteScratchBytes = 64 + kMaxWords * kWordBytes;
inline constexpr u32 kReadScratchBytes = kMaxBlocks;

// Room that write_codes needs in `out`. Words need little more than what they cost: a state is at least 32 times the
// frequency of the symbol that it takes, so rounding makes it at most 33/32 times too large, by 0.045 bit; and a
// rounded cost is at most 1/32 bit too small. A tile has at most 33792 symbols and classes: 322 bytes. A state costs 3
// bytes and takes 4, which is 32 bytes more, and there are up to 6 of padding.
constexpr u32 room_of(const Coding& plan) { return static_cast<u32>(plan.cost / 128) + 384; }

// ---------------------------------------------------------------------------------------------------------------------
// Tables

// How to code a symbol: a state x, below 2^21 times the frequency, becomes
//   (x / frequency << 11) + x % frequency + sum = x + sum + x / frequency * (2048 - frequency).
// The quotient is x * reciprocal >> 43: the reciprocal is 2^43 / frequency, rounded up by less than 1, so the product
// is too large by less than x, and x is below 2^43 / frequency. It stays below 2^64.
struct Rate {
  u64 reciprocal;
  u32 limit;  // states from here on put out a word first
  u16 frequency;
  u16 sum;  // of the frequencies before
};

struct Rates {
  Rate symbols[kTableSets][kSymbolTables][kSymbols];
  Rate classes[kClassModels][kClassContexts][kClasses];
};

constexpr void make_rates(const u16 (&frequencies)[kSymbols], Rate (&rates)[kSymbols]) {
  u32 sum = 0;
  for (u32 s = 0; s < kSymbols; ++s) {
    const u32 frequency = frequencies[s];
    rates[s] = {((u64{1} << 43) + frequency - 1) / frequency, frequency << (32 - kFrequencyBits),
                static_cast<u16>(frequency), static_cast<u16>(sum)};
    sum += frequency;
  }
}

constexpr Rates make_rates() {
  Rates rates = {};
  for (u32 set = 0; set < kTableSets; ++set) {
    for (u32 t = 0; t < kSymbolTables; ++t) make_rates(kSymbolFrequencies[set][t], rates.symbols[set][t]);
  }
  for (u32 m = 0; m < kClassModels; ++m) {
    for (u32 c = 0; c < kClassContexts; ++c) make_rates(kClassFrequencies[m][c], rates.classes[m][c]);
  }
  return rates;
}
inline constexpr Rates kRates = make_rates();

constexpr bool frequencies_are_complete() {
  for (const auto& set : kRates.symbols) {
    for (const auto& table : set) {
      if (table[kSymbols - 1].sum + table[kSymbols - 1].frequency != kFrequencySum) return false;
    }
  }
  for (const auto& model : kRates.classes) {
    for (const auto& table : model) {
      if (table[kClasses - 1].sum + table[kClasses - 1].frequency != kFrequencySum) return false;
    }
  }
  return true;
}
static_assert(frequencies_are_complete());

// What the decoder needs of each slot's symbol, in one word: bits 0-11 the frequency, 12-15 the symbol, 16-31 the
// slot's place among the symbol's.
struct SlotTables {
  u32 slots[kTableSets][kSymbolTables][kFrequencySum];
};

constexpr SlotTables make_slot_tables() {
  SlotTables tables = {};
  for (u32 set = 0; set < kTableSets; ++set) {
    for (u32 t = 0; t < kSymbolTables; ++t) {
      u32 slot = 0;
      for (u32 s = 0; s < kSymbols; ++s) {
        const u32 frequency = kSymbolFrequencies[set][t][s];
        for (u32 i = 0; i < frequency; ++i) tables.slots[set][t][slot++] = frequency | s << 12 | i << 16;
      }
    }
  }
  return tables;
}
inline constexpr SlotTables kSlots = make_slot_tables();

// Sums of the frequencies of classes before each class, for searches.
struct ClassSums {
  alignas(32) u16 before[kClassModels][kClassContexts][kClasses];
};

constexpr ClassSums make_class_sums() {
  ClassSums sums = {};
  for (u32 m = 0; m < kClassModels; ++m) {
    for (u32 c = 0; c < kClassContexts; ++c) {
      for (u32 s = 0; s < kClasses; ++s) sums.before[m][c][s] = kRates.classes[m][c][s].sum;
    }
  }
  return sums;
}
inline constexpr ClassSums kClassSums = make_class_sums();

// ---------------------------------------------------------------------------------------------------------------------
// Planning

// Codes are measured in *sizes*: their zigzag without the planes that every block leaves raw.

// The sum of the sizes' halves, rounded up, decides which three classes are compared: by how many of these thresholds
// it reaches. The mean of a class is near 0.1 times a power of two.
inline constexpr u32 kClassThresholds = 14;
struct Thresholds {
  u32 at[kClassThresholds];
};
inline constexpr Thresholds kThresholds = [] {
  Thresholds thresholds = {};
  for (u32 j = 0; j < kClassThresholds; ++j) thresholds.at[j] = ((4525u << j) + 999) / 1000;
  return thresholds;
}();

inline u32 thresholds_reached(u32 halves) {
  // Each lies between 4 and 8 times its power of two.
  if (halves < 4) return 0;
  const u32 j = 29 - count_leading_zeros(halves);
  return j >= kClassThresholds ? kClassThresholds : j + (halves >= kThresholds.at[j]);
}

struct Candidates {
  u32 classes[3];
  u32 planes[3];        // raw ones, of a class
  u64 costs_of_planes;  // in a block, 16 bits each
};
struct AllCandidates {
  Candidates reached[kClassThresholds + 1];
};
inline constexpr AllCandidates kCandidates = [] {
  AllCandidates all = {};
  for (u32 k = 0; k <= kClassThresholds; ++k) {
    Candidates& candidates = all.reached[k];
    candidates.classes[0] = k > 1 ? k : 1;
    candidates.classes[1] = k + 1;
    candidates.classes[2] = k + 2 < kClasses ? k + 2 : kClasses - 1;
    for (u32 i = 0; i < 3; ++i) {
      candidates.planes[i] = raw_planes_of(candidates.classes[i]);
      candidates.costs_of_planes |= u64{16} * kBlockCodes * candidates.planes[i] << 16 * i;
    }
  }
  return all;
}();

inline constexpr u32 kMeanLimit = 5000;      // of sizes
inline constexpr u32 kEscapeCost = 16 * 16;  // what an escape counts in the comparison of classes

// Costs of one code in three classes at once, 16 bits for each: they sum to less than 2^16 in a block. The size is
// shifted by the least number of raw planes of the three. From five thresholds on the three differ from the next three
// only by this shift, but at the end.
inline constexpr u32 kCostShifts = 7;
inline constexpr u32 kCostSizes = 64;  // more are like the last
constexpr u32 cost_row(u32 reached) { return reached == kClassThresholds ? 6 : reached < 5 ? reached : 5; }

struct BlockCosts {
  u64 three[kCostShifts][kCostSizes];
};

constexpr BlockCosts make_block_costs() {
  BlockCosts costs = {};
  for (u32 row = 0; row < kCostShifts; ++row) {
    const u32 reached = row == 6 ? kClassThresholds : row;
    const Candidates& candidates = kCandidates.reached[reached];
    for (u32 size = 0; size < kCostSizes; ++size) {
      for (u32 i = 0; i < 3; ++i) {
        const u32 c = candidates.classes[i];
        const u32 rest = size >> (candidates.planes[i] - candidates.planes[0]);
        const u16(&symbols)[kSymbols] = kUsualCosts[table_of(c)];
        const u64 cost = rest < kEscape ? symbols[rest] : symbols[kEscape] + kEscapeCost;
        costs.three[row][size] |= cost << 16 * i;
      }
    }
  }
  return costs;
}
inline constexpr BlockCosts kBlockCosts = make_block_costs();
static_assert((kCostSizes - 1) >> 2 >= kEscape);

// The class of the three with the least cost, the first of equals. `symbol_costs` are three sums of 16 bits.
inline u32 least_of_three(const Candidates& candidates, u64 symbol_costs) {
  const u64 costs = symbol_costs + candidates.costs_of_planes;
  const u32 ranked[] = {static_cast<u32>(costs & 0xFFFF) << 2, static_cast<u32>(costs >> 16 & 0xFFFF) << 2 | 1,
                        static_cast<u32>(costs >> 32) << 2 | 2};
  u32 best = ranked[0] < ranked[1] ? ranked[0] : ranked[1];
  best = best < ranked[2] ? best : ranked[2];
  return candidates.classes[best & 3];
}

// What the blocks of a tile add up to.
template <class I>
struct Tally {
  u32 class_planes = 0;
  u32 escapes = 0;
  Unsigned<I> items = 0;  // bits that are set in some escape's item
};

template <class I>
inline Unsigned<I> item_of(I code, i32 unit) {
  using U = Unsigned<I>;
  return zigzag(static_cast<U>(static_cast<U>(code) * static_cast<U>(unit)));
}

// Counts the escapes of a block, if `all_sizes`, the bits set in some size, say that there can be some.
template <class I>
inline void count_escapes(const I* codes, i32 unit, u32 raw_planes, u32 symbol_class, u32 all_sizes, Tally<I>& tally) {
  if (all_sizes >> raw_planes_of(symbol_class) < kEscape) return;
  const u32 planes = raw_planes + raw_planes_of(symbol_class);
  for (u32 i = 0; i < kBlockCodes; ++i) {
    if (zigzag(static_cast<Unsigned<I>>(codes[i])) >> planes < kEscape) continue;
    tally.items |= item_of(codes[i], unit);
    ++tally.escapes;
  }
}

// The least R for which the sum of all zigzags, high * 2^32 + low, is at most 5000 * count * 2^R.
inline u32 least_raw_planes(u64 high, u64 low, u32 count) {
  u32 planes = 0;
  for (; high >> 16 != 0; ++planes) {  // halves, rounded up
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

// The set whose symbols cost the least, the first of equals.
inline u32 choose_set(const u64 (&costs)[kTableSets]) {
  u32 best = 0;
  for (u32 set = 1; set < kTableSets; ++set) best = costs[set] < costs[best] ? set : best;
  return best;
}

struct ModelCosts {
  u32 models[kClassContexts][kClasses][kClassModels];
};

constexpr ModelCosts make_model_costs() {
  ModelCosts costs = {};
  for (u32 m = 0; m < kClassModels; ++m) {
    for (u32 context = 0; context < kClassContexts; ++context) {
      for (u32 c = 0; c < kClasses; ++c) costs.models[context][c][m] = kCosts.classes[m][context][c];
    }
  }
  return costs;
}
inline constexpr ModelCosts kModelCosts = make_model_costs();

// The model whose classes cost the least, the first of equals; and their cost.
inline u32 choose_model(const u8* classes, u32 blocks, u64& cost) {
  u32 costs[kClassModels] = {};
  u32 context = kClassContexts - 1;
  for (u32 b = 0; b < blocks; ++b) {
    const u32 c = classes[b];
    for (u32 m = 0; m < kClassModels; ++m) costs[m] += kModelCosts.models[context][c][m];
    context = c;
  }
  u32 best = 0;
  for (u32 m = 1; m < kClassModels; ++m) best = costs[m] < costs[best] ? m : best;
  cost = costs[best];
  return best;
}

// The largest that costs at most 2 % of the words.
inline u32 choose_lanes(u64 coded) {
  u32 lanes = kMaxLanes;
  while (lanes > 1 && u64{16384} * lanes > coded) lanes = lanes == 32 ? 16 : lanes / 4;
  return lanes;
}

}  // namespace h5lossy::H5L_TARGET::interp

// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Tables of simd/coder.h for AVX-512 and AVX2.
#pragma once

#include "codecs/interp/coder.h"

namespace h5lossy::H5L_TARGET::interp::simd {

// How to encode symbols in 32-bit lanes (compare Rate). The quotient is x * reciprocal >> 32 >> shift, where the
// reciprocal is 2^(32 + shift) / frequency, rounded up by `excess / frequency`. The product is right for all states
// below the limit if each of them times the excess is below 2^(32 + shift). A frequency of 1 would need 33 bits: its
// quotient comes out as x - 1, for which the sum compensates.
struct alignas(64) LaneRates {
  u32 reciprocals[kSymbols];
  u32 shifts[kSymbols];
  u32 limits[kSymbols];
  u32 complements[kSymbols];
  u32 sums[kSymbols];
  bool are_exact;  // in a table of the tile's own, a quotient may be too large by 1
};

constexpr void make_lane_rates(const u16 (&frequencies)[kSymbols], LaneRates& to) {
  Rate rates[kSymbols] = {};
  make_rates(frequencies, rates);
  to = {};
  to.are_exact = true;
  for (u32 s = 0; s < kSymbols; ++s) {
    const Rate& rate = rates[s];
    const u32 frequency = rate.frequency;
    u32 shift = 0;
    while (u32{2} << shift < frequency) ++shift;
    const u64 power = u64{1} << (32 + shift);
    const u64 reciprocal = (power + frequency - 1) / frequency;
    to.reciprocals[s] = static_cast<u32>(frequency == 1 ? reciprocal - 1 : reciprocal);
    to.shifts[s] = shift;
    to.limits[s] = rate.limit;
    to.complements[s] = kFrequencySum - frequency;
    to.sums[s] = rate.sum + (frequency == 1 ? kFrequencySum - 1 : 0);
    const u64 excess = reciprocal * frequency - power;
    to.are_exact = to.are_exact && (frequency == 1 || (rate.limit - 1) * excess < power);
  }
}
inline constexpr auto kLaneRates = make_tables(kSymbolFrequencies, make_lane_rates);

// For finding the symbol of a slot in 16-bit lanes: the one that begins nearest at or before the slot. 32 times the
// distance, modulo 2^16, is larger for symbols that begin after the slot than for symbol 0, so the minimum is the right
// one; its low five bits tell the symbol. The search has two steps: first among the symbols 0, 4, 8 and 12, then among
// the one found and the next three.
struct Nearest {
  // At n - 1, twice: symbol 4n.
  u32 quarters[3];
  // AVX-512 permutes words by a number of words, AVX2 by a number of bytes.
  static constexpr u32 kPlaces = kVectorBytes == 64 ? 4 : 2;
  // Row j - 1, at kPlaces times n: symbol 4n + j.
  alignas(32) u16 symbols[3][kSymbols];
  alignas(32) u16 frequencies[kSymbols];
  // As bytes.
  alignas(16) u8 low_frequencies[kSymbols];
  alignas(16) u8 high_frequencies[kSymbols];
};

constexpr void make_nearest(const u16 (&frequencies)[kSymbols], Nearest& to) {
  Rate rates[kSymbols] = {};
  make_rates(frequencies, rates);
  to = {};
  const auto place_of = [&](u32 s) { return static_cast<u16>(s - 2 * kSymbols * rates[s].sum); };
  for (u32 n = 1; n < 4; ++n) to.quarters[n - 1] = place_of(4 * n) * 0x10001u;
  for (u32 j = 1; j < 4; ++j) {
    for (u32 n = 0; n < 4; ++n) to.symbols[j - 1][Nearest::kPlaces * n] = place_of(4 * n + j);
  }
  for (u32 s = 0; s < kSymbols; ++s) {
    to.frequencies[s] = rates[s].frequency;
    to.low_frequencies[s] = static_cast<u8>(rates[s].frequency);
    to.high_frequencies[s] = static_cast<u8>(rates[s].frequency >> 8);
  }
}
inline constexpr auto kNearest = make_tables(kSymbolFrequencies, make_nearest);

// A table of the tile's own, for reading.
struct OwnNearest : OwnSlots {
  Nearest nearest[1];
};

inline void prepare_own(const u16 (&frequencies)[kSymbols], OwnNearest& own) {
  make_nearest(frequencies, own.nearest[0]);
  Definition::prepare(frequencies, own);
}

// Costs of symbols as bytes, stored twice.
struct SetCosts {
  alignas(64) u8 costs[kSymbolTables][kTableSets][2 * kSymbols];
};
inline constexpr SetCosts kSetCosts = [] {
  SetCosts all = {};
  for (u32 t = 0; t < kSymbolTables; ++t) {
    for (u32 set = 0; set < kTableSets; ++set) {
      for (u32 s = 0; s < 2 * kSymbols; ++s) {
        all.costs[t][set][s] = static_cast<u8>(kCosts.symbols[set][t][s % kSymbols]);
      }
    }
  }
  return all;
}();

// With up to this many planes per block, numbers that are not escapes fit in 16 bits.
inline constexpr u32 kMostSmallPlanes = 12;

}  // namespace h5lossy::H5L_TARGET::interp::simd

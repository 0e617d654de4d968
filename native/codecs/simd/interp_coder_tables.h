// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Tables of simd/interp_coder.h for AVX-512 and AVX2.
#pragma once

#include <immintrin.h>

#include "codecs/interp_coder.h"

namespace h5lossy::H5L_TARGET::interp::simd {

// How to code symbols in lanes of 32 bits (compare Rate). The quotient is x * reciprocal >> 32 >> shift: the reciprocal
// is 2^(32 + shift) / frequency, rounded up by `excess / frequency`, and the product is right for all states below
// the limit if these times the excess are below 2^(32 + shift). A frequency of 1 would need 33 bits: its quotient comes
// out as x - 1, which the sum makes good.
struct alignas(64) LaneRates {
  u32 reciprocals[kSymbols];
  u32 shifts[kSymbols];
  u32 limits[kSymbols];
  u32 complements[kSymbols];
  u32 sums[kSymbols];
};

struct AllLaneRates {
  LaneRates tables[kTableSets][kSymbolTables];
  bool are_exact;
};

constexpr AllLaneRates make_lane_rates() {
  AllLaneRates rates = {};
  rates.are_exact = true;
  for (u32 set = 0; set < kTableSets; ++set) {
    for (u32 t = 0; t < kSymbolTables; ++t) {
      for (u32 s = 0; s < kSymbols; ++s) {
        const Rate& rate = kRates.symbols[set][t][s];
        const u32 frequency = rate.frequency;
        u32 shift = 0;
        while (u32{2} << shift < frequency) ++shift;
        const u64 power = u64{1} << (32 + shift);
        const u64 reciprocal = (power + frequency - 1) / frequency;
        LaneRates& to = rates.tables[set][t];
        to.reciprocals[s] = static_cast<u32>(frequency == 1 ? reciprocal - 1 : reciprocal);
        to.shifts[s] = shift;
        to.limits[s] = rate.limit;
        to.complements[s] = kFrequencySum - frequency;
        to.sums[s] = rate.sum + (frequency == 1 ? kFrequencySum - 1 : 0);
        const u64 excess = reciprocal * frequency - power;
        rates.are_exact = rates.are_exact && (frequency == 1 || (rate.limit - 1) * excess < power);
      }
    }
  }
  return rates;
}
inline constexpr AllLaneRates kLaneRates = make_lane_rates();
static_assert(kLaneRates.are_exact);

// For finding the symbol of a slot in lanes of 16 bits, as the one that begins nearest at or before it. 32 times the
// distance, modulo 2^16, is larger for symbols that begin behind the slot than for symbol 0, so that the least of all
// is right; the low five bits say whose it is. In two steps: first among the symbols 0, 4, 8 and 12, then among the one
// found and the next three.
struct Nearest {
  // By n - 1, twice: symbol 4n.
  u32 quarters[3];
  // AVX-512 moves words by a number of words, AVX2 by a number of bytes.
  static constexpr u32 kPlaces = kVectorBytes == 64 ? 4 : 2;
  // Row j - 1, at kPlaces times n: symbol 4n + j.
  alignas(32) u16 symbols[3][kSymbols];
  alignas(32) u16 frequencies[kSymbols];
  // In bytes.
  alignas(16) u8 low_frequencies[kSymbols];
  alignas(16) u8 high_frequencies[kSymbols];
};

struct NearestTables {
  Nearest tables[kTableSets][kSymbolTables];
};

constexpr Nearest make_nearest(const Rate (&rates)[kSymbols]) {
  Nearest to = {};
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
  return to;
}

constexpr NearestTables make_nearest() {
  NearestTables nearest = {};
  for (u32 set = 0; set < kTableSets; ++set) {
    for (u32 t = 0; t < kSymbolTables; ++t) nearest.tables[set][t] = make_nearest(kRates.symbols[set][t]);
  }
  return nearest;
}
inline constexpr NearestTables kNearest = make_nearest();

// Costs of the symbols of a class as in the comparison of classes, twice.
struct CostTables {
  alignas(64) u16 classes[kClasses][2 * kSymbols];
};

constexpr CostTables make_cost_tables() {
  CostTables tables = {};
  for (u32 c = 1; c < kClasses; ++c) {
    for (u32 s = 0; s < 2 * kSymbols; ++s) {
      const u32 cost = kUsualCosts[table_of(c)][s % kSymbols];
      tables.classes[c][s] = static_cast<u16>(s % kSymbols == kEscape ? cost + kEscapeCost : cost);
    }
  }
  return tables;
}
inline constexpr CostTables kCostTables = make_cost_tables();

// Costs of symbols as bytes, twice.
struct SetCosts {
  alignas(32) u8 costs[kSymbolTables][kTableSets][2 * kSymbols];
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

// Definition::add_symbol_costs, 32 symbols at a time.
inline void add_symbol_costs(const i32* codes, u32 blocks, const Coding& plan, u64 (&costs)[kTableSets]) {
  const __m256i last = _mm256_set1_epi32(kEscape), zero = _mm256_setzero_si256();
  __m256i sums[kTableSets] = {};
  for (u32 b = 0; b < blocks; ++b, codes += kBlockCodes) {
    const u32 c = plan.classes[b];
    if (c == 0) continue;
    const __m128i planes = _mm_cvtsi32_si128(static_cast<int>(plan.raw_planes + raw_planes_of(c)));
    const auto eight = [&](u32 first) {
      const __m256i code = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + first));
      const __m256i number = _mm256_xor_si256(_mm256_slli_epi32(code, 1), _mm256_srai_epi32(code, 31));
      return _mm256_min_epu32(_mm256_srl_epi32(number, planes), last);
    };
    // In any order.
    const __m256i symbols =
        _mm256_packus_epi16(_mm256_packus_epi32(eight(0), eight(8)), _mm256_packus_epi32(eight(16), eight(24)));
    const auto& tables = kSetCosts.costs[table_of(c)];
    for (u32 set = 0; set < kTableSets; ++set) {
      const __m256i table = _mm256_load_si256(reinterpret_cast<const __m256i*>(tables[set]));
      sums[set] = _mm256_add_epi64(sums[set], _mm256_sad_epu8(_mm256_shuffle_epi8(table, symbols), zero));
    }
  }
  for (u32 set = 0; set < kTableSets; ++set) {
    const __m128i two = _mm_add_epi64(_mm256_castsi256_si128(sums[set]), _mm256_extracti128_si256(sums[set], 1));
    costs[set] += static_cast<u64>(_mm_cvtsi128_si64(_mm_add_epi64(two, _mm_unpackhi_epi64(two, two))));
  }
}

inline void add_symbol_costs(const i64* codes, u32 blocks, const Coding& plan, u64 (&costs)[kTableSets]) {
  Definition::add_symbol_costs(codes, blocks, plan, costs);
}

// Up to this many planes of a block, numbers that are no escapes fit in 16 bits.
inline constexpr u32 kMostSmallPlanes = 12;

}  // namespace h5lossy::H5L_TARGET::interp::simd

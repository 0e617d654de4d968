// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Interp's coder (codecs/interp_coder.h) for AVX-512 and AVX2: a block of 32 codes at a time, and 16 or 32 lanes at a time.
// Otherwise the definition.
#pragma once

#include "codecs/interp_coder.h"

#if defined(__AVX512VBMI2__) && defined(__AVX512VBMI__) && defined(__AVX512BW__) && defined(__GFNI__)
#define H5L_CODER_AVX512 1
#endif

#if defined(__AVX2__) && !defined(__AVX512F__)
#define H5L_CODER_AVX2 1
#endif

#if defined(H5L_CODER_AVX512) || defined(H5L_CODER_AVX2)
#include <immintrin.h>
#endif

namespace h5lossy::H5L_TARGET::interp::simd {

#if defined(H5L_CODER_AVX512) || defined(H5L_CODER_AVX2)

// ---------------------------------------------------------------------------------------------------------------------
// Tables

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
  LaneRates tables[kSymbolTables];
  bool are_exact;
};

constexpr AllLaneRates make_lane_rates() {
  AllLaneRates rates = {};
  rates.are_exact = true;
  for (u32 t = 0; t < kSymbolTables; ++t) {
    for (u32 s = 0; s < kSymbols; ++s) {
      const Rate& rate = kRates.symbols[t][s];
      const u32 frequency = rate.frequency;
      u32 shift = 0;
      while (u32{2} << shift < frequency) ++shift;
      const u64 power = u64{1} << (32 + shift);
      const u64 reciprocal = (power + frequency - 1) / frequency;
      LaneRates& to = rates.tables[t];
      to.reciprocals[s] = static_cast<u32>(frequency == 1 ? reciprocal - 1 : reciprocal);
      to.shifts[s] = shift;
      to.limits[s] = rate.limit;
      to.complements[s] = kFrequencySum - frequency;
      to.sums[s] = rate.sum + (frequency == 1 ? kFrequencySum - 1 : 0);
      const u64 excess = reciprocal * frequency - power;
      rates.are_exact = rates.are_exact && (frequency == 1 || (rate.limit - 1) * excess < power);
    }
  }
  return rates;
}
inline constexpr AllLaneRates kLaneRates = make_lane_rates();
static_assert(kLaneRates.are_exact);

// For finding the symbol of a slot in lanes of 16 bits, as the one that begins nearest at or before it. 32 times the
// distance, modulo 2^16, is larger for symbols that begin behind the slot than for symbol 0, so that the least of all is
// right; the low five bits say whose it is. In two steps: first among the symbols 0, 4, 8 and 12, then among the one found
// and the next three.
struct Nearest {
  // By n - 1, twice: symbol 4n.
  u32 quarters[3];
#if defined(H5L_CODER_AVX512)
  static constexpr u32 kPlaces = 4;  // words are moved by a number of words
#else
  static constexpr u32 kPlaces = 2;  // by a number of bytes
#endif
  // Row j - 1, at kPlaces times n: symbol 4n + j.
  alignas(32) u16 symbols[3][kSymbols];
  alignas(32) u16 frequencies[kSymbols];
  // In bytes.
  alignas(16) u8 low_frequencies[kSymbols];
  alignas(16) u8 high_frequencies[kSymbols];
};

struct NearestTables {
  Nearest tables[kSymbolTables];
};

constexpr NearestTables make_nearest() {
  NearestTables nearest = {};
  for (u32 t = 0; t < kSymbolTables; ++t) {
    const Rate(&rates)[kSymbols] = kRates.symbols[t];
    Nearest& to = nearest.tables[t];
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
      const u32 cost = kCosts.symbols[table_of(c)][s % kSymbols];
      tables.classes[c][s] = static_cast<u16>(s % kSymbols == kEscape ? cost + kEscapeCost : cost);
    }
  }
  return tables;
}
inline constexpr CostTables kCostTables = make_cost_tables();

inline void store_half(void* to, __m256i vector) { _mm256_storeu_si256(static_cast<__m256i*>(to), vector); }

// Up to this many planes of a block, numbers that are no escapes fit in 16 bits.
inline constexpr u32 kMostSmallPlanes = 12;

#endif

#if defined(H5L_CODER_AVX512)

// ---------------------------------------------------------------------------------------------------------------------
// AVX-512

inline __m512i zigzag_lanes(__m512i codes, i32) {
  return _mm512_xor_si512(_mm512_slli_epi32(codes, 1), _mm512_srai_epi32(codes, 31));
}
inline __m512i zigzag_lanes(__m512i codes, i64) {
  return _mm512_xor_si512(_mm512_slli_epi64(codes, 1), _mm512_srai_epi64(codes, 63));
}

// The zigzags of a block, without the lowest planes, in lanes of 32 bits. Larger ones become 2^32 - 1.
struct Sizes {
  __m512i low, high;
};

inline Sizes sizes_of(const i32* codes, u32 raw_planes) {
  const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(raw_planes));
  return {_mm512_srl_epi32(zigzag_lanes(_mm512_loadu_si512(codes), i32{}), shift),
          _mm512_srl_epi32(zigzag_lanes(_mm512_loadu_si512(codes + 16), i32{}), shift)};
}

inline Sizes sizes_of(const i64* codes, u32 raw_planes) {
  const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(raw_planes));
  __m256i parts[4];
  for (u32 i = 0; i < 4; ++i) {
    const __m512i numbers = zigzag_lanes(_mm512_loadu_si512(codes + 8 * i), i64{});
    parts[i] = _mm512_cvtusepi64_epi32(_mm512_srl_epi64(numbers, shift));
  }
  return {_mm512_inserti64x4(_mm512_castsi256_si512(parts[0]), parts[1], 1),
          _mm512_inserti64x4(_mm512_castsi256_si512(parts[2]), parts[3], 1)};
}

// The zigzags of a block in lanes of 16 bits; larger ones become 65535.
inline __m512i small_numbers(const i32* codes) {
  const __m256i low = _mm512_cvtusepi32_epi16(zigzag_lanes(_mm512_loadu_si512(codes), i32{}));
  const __m256i high = _mm512_cvtusepi32_epi16(zigzag_lanes(_mm512_loadu_si512(codes + 16), i32{}));
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

inline __m512i small_numbers(const i64* codes) {
  __m128i parts[4];
  for (u32 i = 0; i < 4; ++i) {
    parts[i] = _mm512_cvtusepi64_epi16(zigzag_lanes(_mm512_loadu_si512(codes + 8 * i), i64{}));
  }
  const __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(parts[0]), parts[1], 1);
  const __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(parts[2]), parts[3], 1);
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

// Transposes squares of 8 x 8 bits, whose rows are bytes and come in reverse order: gf2p8affine takes the data as matrix.
inline __m512i transpose_squares(__m512i squares) {
  const __m512i identity = _mm512_set1_epi64(static_cast<i64>(0x8040201008040201ull));
  return _mm512_gf2p8affine_epi64_epi8(identity, squares, 0);
}

struct Bytes64 {
  alignas(64) u8 sources[64];
};
// Moves of bytes for that, by destination. Halves: in each 16 bytes, the low bytes of 8 numbers, then their high bytes.
inline constexpr Bytes64 kHalvesOfNumbers = [] {
  Bytes64 bytes = {};
  for (u32 i = 0; i < 64; ++i) bytes.sources[i] = static_cast<u8>(2 * (7 - i % 8) + i % 16 / 8);
  return bytes;
}();
inline constexpr Bytes64 kPlanesOfHalves = [] {
  Bytes64 bytes = {};
  for (u32 i = 0; i < 64; ++i) bytes.sources[i] = static_cast<u8>(16 * (i % 4) + i / 4);
  return bytes;
}();
inline constexpr Bytes64 kHalvesOfPlanes = [] {
  Bytes64 bytes = {};
  for (u32 i = 0; i < 64; ++i) bytes.sources[i] = static_cast<u8>(4 * (8 * (i % 16 / 8) + 7 - i % 8) + i / 16);
  return bytes;
}();
inline constexpr Bytes64 kNumbersOfHalves = [] {
  Bytes64 bytes = {};
  for (u32 i = 0; i < 64; ++i) bytes.sources[i] = static_cast<u8>(i % 16 / 2 + 8 * (i % 2));
  return bytes;
}();

// 16 planes of 32 numbers of 16 bits.
inline __m512i to_planes(__m512i numbers) {
  const __m512i squares = _mm512_shuffle_epi8(numbers, _mm512_load_si512(kHalvesOfNumbers.sources));
  return _mm512_permutexvar_epi8(_mm512_load_si512(kPlanesOfHalves.sources), transpose_squares(squares));
}

inline __m512i from_planes(__m512i planes) {
  const __m512i squares = _mm512_permutexvar_epi8(_mm512_load_si512(kHalvesOfPlanes.sources), planes);
  return _mm512_shuffle_epi8(transpose_squares(squares), _mm512_load_si512(kNumbersOfHalves.sources));
}

// The least size that is an escape, by class and twice; in class 0, none is.
struct EscapesFrom {
  u32 sizes[kClasses];
};
inline constexpr EscapesFrom kEscapesFrom = [] {
  EscapesFrom from = {};
  for (u32 c = 0; c < kClasses; ++c) from.sizes[c] = (kEscape << raw_planes_of(c)) * 0x10001u;
  return from;
}();

// What kCandidates says, and the thresholds, by the number of thresholds reached.
struct CandidateLanes {
  alignas(64) u32 thresholds[16];
  alignas(64) u32 classes[3][16];
  alignas(64) u32 costs_of_planes[3][16];
};
inline constexpr CandidateLanes kCandidateLanes = [] {
  CandidateLanes lanes = {};
  for (u32 k = 0; k <= kClassThresholds; ++k) {
    lanes.thresholds[k] = k < kClassThresholds ? kThresholds.at[k] : ~0u;
    for (u32 i = 0; i < 3; ++i) {
      lanes.classes[i][k] = kCandidates.reached[k].classes[i];
      lanes.costs_of_planes[i][k] = 16 * kBlockCodes * kCandidates.reached[k].planes[i];
    }
  }
  return lanes;
}();

// Lane i: the sum of the lanes of vector i.
inline __m512i sums_of_vectors(const __m512i (&vectors)[16]) {
  __m512i eight[8], four[4];
  for (u32 i = 0; i < 8; ++i) {
    const __m512i a = vectors[i], b = vectors[i + 8];
    eight[i] = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
  }
  for (u32 i = 0; i < 4; ++i) {
    const __m512i a = eight[i], b = eight[i + 4];
    four[i] = _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
  }
  const auto add_quarters = [](__m512i a, __m512i b) {
    return _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xDD));
  };
  const __m512i sums = add_quarters(add_quarters(four[0], four[1]), add_quarters(four[2], four[3]));
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 2, 6, 10, 14, 1, 5, 9, 13, 3, 7, 11, 15);
  return _mm512_permutexvar_epi32(order, sums);
}

struct Avx512 {
  static constexpr u32 kGroup = 16;

  // Sixteen blocks at a time, so that sums across a vector are made for all of them together: first to find the blocks that
  // are not 0 and their candidates, then for these blocks to choose one.
  template <class I>
  static u32 choose_classes(const I* codes, u32 blocks, i32 unit, Coding& plan, Tally<I>& tally) {
    alignas(64) u16 used[kMaxBlocks + kGroup];  // blocks times 16, and how many thresholds they reach
    u32 count = 0;
    const __m512i ones = _mm512_set1_epi32(1);
    __m512i all = _mm512_setzero_si512();
    __m512i places = _mm512_setr_epi32(0, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240);
    for (u32 first = 0; first < blocks; first += kGroup) {
      __m512i sums[kGroup];
      for (u32 i = 0; i < kGroup; ++i) {
        sums[i] = _mm512_setzero_si512();
        if (first + i >= blocks) continue;
        const Sizes block = sizes_of(codes + u64{first + i} * kBlockCodes, plan.raw_planes);
        all = _mm512_ternarylogic_epi32(all, block.low, block.high, 0xFE);
        sums[i] = _mm512_add_epi32(_mm512_srli_epi32(_mm512_add_epi32(block.low, ones), 1),
                                   _mm512_srli_epi32(_mm512_add_epi32(block.high, ones), 1));
      }
      const __m512i halves = sums_of_vectors(sums);
      const __mmask16 is_used = _mm512_test_epi32_mask(halves, halves);
      const __m512i entries = _mm512_or_si512(places, thresholds_reached(halves));
      store_half(used + count, _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(is_used, entries)));
      count += count_ones(is_used);
      places = _mm512_add_epi32(places, _mm512_set1_epi32(16 * kGroup));
    }
    memset(plan.classes, 0, blocks);
    for (u32 first = 0; first < count; first += kGroup) {
      choose_some(codes, used + first, count - first < kGroup ? count - first : kGroup, unit, plan, tally);
    }
    return static_cast<u32>(_mm512_reduce_or_epi32(all));
  }

  template <class I>
  static void choose_some(const I* codes, const u16* used, u32 count, i32 unit, Coding& plan, Tally<I>& tally) {
    __m512i sizes[kGroup], two[kGroup], third[kGroup];
    for (u32 i = 0; i < kGroup; ++i) {
      two[i] = third[i] = _mm512_setzero_si512();
      if (i >= count) continue;
      const Sizes block = sizes_of(codes + u64{used[i] / 16u} * kBlockCodes, plan.raw_planes);
      sizes[i] = _mm512_packus_epi32(block.low, block.high);  // in any order, and at most 65535
      const Candidates& candidates = kCandidates.reached[used[i] % 16];
      const auto costs_in = [&](u32 candidate) {
        const __m512i planes = _mm512_set1_epi32(static_cast<int>(candidates.planes[candidate] * 0x10001));
        const __m512i symbols = _mm512_min_epu16(_mm512_srlv_epi16(sizes[i], planes), _mm512_set1_epi16(kEscape));
        const __m512i table = _mm512_load_si512(kCostTables.classes[candidates.classes[candidate]]);
        return _mm512_madd_epi16(_mm512_permutexvar_epi16(symbols, table), _mm512_set1_epi16(1));
      };
      two[i] = _mm512_add_epi32(costs_in(0), _mm512_slli_epi32(costs_in(1), 16));
      third[i] = costs_in(2);
    }
    const __mmask16 is_used = static_cast<__mmask16>((1u << count) - 1);
    const __m512i entries = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(is_used, used));
    const __m512i reached = _mm512_and_si512(entries, _mm512_set1_epi32(15));
    const auto rank = [&](u32 candidate, __m512i symbols) {
      const __m512i of_planes = _mm512_load_si512(kCandidateLanes.costs_of_planes[candidate]);
      const __m512i cost = _mm512_add_epi32(symbols, _mm512_permutexvar_epi32(reached, of_planes));
      return _mm512_or_si512(_mm512_slli_epi32(cost, 2), _mm512_set1_epi32(static_cast<int>(candidate)));
    };
    const __m512i firsts = sums_of_vectors(two);
    const __m512i best = _mm512_min_epu32(_mm512_min_epu32(rank(0, _mm512_and_si512(firsts, _mm512_set1_epi32(0xFFFF))),
                                                           rank(1, _mm512_srli_epi32(firsts, 16))),
                                          rank(2, sums_of_vectors(third)));
    const auto class_of = [&](u32 candidate) {
      return _mm512_permutexvar_epi32(reached, _mm512_load_si512(kCandidateLanes.classes[candidate]));
    };
    __m512i chosen = class_of(0);
    chosen = _mm512_mask_mov_epi32(chosen, _mm512_test_epi32_mask(best, _mm512_set1_epi32(1)), class_of(1));
    chosen = _mm512_mask_mov_epi32(chosen, _mm512_test_epi32_mask(best, _mm512_set1_epi32(2)), class_of(2));
    const __m512i planes = _mm512_sub_epi32(_mm512_max_epi32(chosen, _mm512_set1_epi32(4)), _mm512_set1_epi32(4));
    tally.cost += static_cast<u32>(_mm512_mask_reduce_add_epi32(is_used, _mm512_srli_epi32(best, 2)));
    tally.class_planes += static_cast<u32>(_mm512_mask_reduce_add_epi32(is_used, planes));
    alignas(64) u32 classes[kGroup];
    _mm512_store_si512(classes, chosen);
    for (u32 i = 0; i < count; ++i) {
      const u32 b = used[i] / 16u, c = classes[i];
      plan.classes[b] = static_cast<u8>(c);
      const __m512i least = _mm512_set1_epi32(static_cast<int>(kEscapesFrom.sizes[c]));
      if (_mm512_cmpge_epu16_mask(sizes[i], least) == 0) continue;
      count_escapes(codes + u64{b} * kBlockCodes, unit, plan.raw_planes, c, ~0u, tally);
    }
  }

  static __m512i thresholds_reached(__m512i halves) {
    // The exponent is exact below 2^24; above, all thresholds are reached.
    const __m512i exponents = _mm512_srli_epi32(_mm512_castps_si512(_mm512_cvtepi32_ps(halves)), 23);
    const __m512i above_4 = _mm512_sub_epi32(exponents, _mm512_set1_epi32(127 + 2));
    const __m512i j =
        _mm512_min_epi32(_mm512_max_epi32(above_4, _mm512_setzero_si512()), _mm512_set1_epi32(kClassThresholds));
    const __m512i thresholds = _mm512_permutexvar_epi32(j, _mm512_load_si512(kCandidateLanes.thresholds));
    const __mmask16 is_above = _mm512_cmpge_epu32_mask(halves, thresholds);
    // Not more than there are: sums that mean nothing, of sizes that are too large, may be anything.
    return _mm512_min_epu32(_mm512_mask_add_epi32(j, is_above, j, _mm512_set1_epi32(1)),
                            _mm512_set1_epi32(kClassThresholds));
  }

  // One symbol of 16 lanes; puts the words of lanes that are full in front.
  static void push_lanes(const LaneRates& rates, __m512i symbols, __m512i& states, u8*& words) {
    const auto look_up = [symbols](const u32(&table)[kSymbols]) {
      return _mm512_permutexvar_epi32(symbols, _mm512_load_si512(table));
    };
    __m512i x = states;
    const __mmask16 is_full = _mm512_cmpge_epu32_mask(x, look_up(rates.limits));
    const u32 count = count_ones(is_full);
    words -= count * kWordBytes;
    _mm256_mask_storeu_epi16(words, static_cast<__mmask16>((1u << count) - 1),
                             _mm256_maskz_compress_epi16(is_full, _mm512_cvtepi32_epi16(x)));
    x = _mm512_mask_srli_epi32(x, is_full, x, 16);
    const __m512i reciprocals = look_up(rates.reciprocals);
    const __m512i even = _mm512_srli_epi64(_mm512_mul_epu32(x, reciprocals), 32);
    const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(x, 32), _mm512_srli_epi64(reciprocals, 32));
    const __m512i quotients = _mm512_srlv_epi32(_mm512_mask_mov_epi32(even, 0xAAAA, odd), look_up(rates.shifts));
    states = _mm512_add_epi32(_mm512_add_epi32(x, look_up(rates.sums)),
                              _mm512_mullo_epi32(quotients, look_up(rates.complements)));
  }

  template <u32 lanes, class I>
  static void write_blocks(const I* codes, u32 blocks, i32 unit, const Coding& plan, u32* states, Output& out) {
    if (plan.raw_planes + kMostClassPlanes > kMostSmallPlanes) {
      Definition::write_blocks<lanes>(codes, blocks, unit, plan, states, out);
      return;
    }
    u32 x[lanes];
    memcpy(x, states, sizeof x);
    __m512i low = {}, high = {};
    if constexpr (lanes >= 16) low = _mm512_loadu_si512(states);
    if constexpr (lanes == 32) high = _mm512_loadu_si512(states + 16);
    u8* words = out.words;
    u8* plane_words = out.planes;
    for (u32 b = blocks; b-- > 0;) {
      const u32 c = plan.classes[b];
      const u32 planes = plan.raw_planes + raw_planes_of(c);
      if (c == 0 && planes == 0) continue;
      const I* const block = codes + u64{b} * kBlockCodes;
      __m512i numbers = small_numbers(block);
      if (c != 0) {
        const __m512i symbols = _mm512_min_epu16(_mm512_srl_epi16(numbers, _mm_cvtsi32_si128(static_cast<int>(planes))),
                                                 _mm512_set1_epi16(kEscape));
        if constexpr (lanes >= 16) {
          const LaneRates& rates = kLaneRates.tables[table_of(c)];
          const __m512i first = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(symbols));
          const __m512i second = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(symbols, 1));
          push_lanes(rates, second, lanes == 32 ? high : low, words);
          push_lanes(rates, first, low, words);
        } else {
          alignas(64) u16 each[kBlockCodes];
          _mm512_store_si512(each, symbols);
          Definition::push_symbols<lanes>(kRates.symbols[table_of(c)], each, x, words);
        }
        u32 escaped = _mm512_cmpeq_epi16_mask(symbols, _mm512_set1_epi16(kEscape));
        if (escaped != 0) [[unlikely]] {
          numbers = _mm512_maskz_mov_epi16(~escaped, numbers);
          for (; escaped != 0; escaped &= ~(1u << (31 - count_leading_zeros(escaped)))) {
            const I code = block[31 - count_leading_zeros(escaped)];
            out.escapes = write_escape(item_of(code, unit), plan.escape_bytes, out.escapes);
          }
        }
      }
      plane_words -= 4 * planes;
      _mm512_mask_storeu_epi32(plane_words, static_cast<__mmask16>((1u << planes) - 1), to_planes(numbers));
    }
    out.words = words;
    out.planes = plane_words;
    if constexpr (lanes < 16) memcpy(states, x, sizeof x);
    if constexpr (lanes >= 16) _mm512_storeu_si512(states, low);
    if constexpr (lanes == 32) _mm512_storeu_si512(states + 16, high);
  }

  static u32 find_class(const u16 (&before)[kClasses], u32 slot) {
    const __m256i sums = _mm256_load_si256(reinterpret_cast<const __m256i*>(before));
    return count_ones(_mm256_cmple_epu16_mask(sums, _mm256_set1_epi16(static_cast<short>(slot)))) - 1;
  }

  // The states of up to 32 lanes, in halves.
  struct States {
    __m512i low, high;
  };

  template <u32 lanes>
  static States split(const u32* states) {
    alignas(64) u16 low[32] = {}, high[32] = {};
    for (u32 i = 0; i < lanes; ++i) {
      low[i] = static_cast<u16>(states[i]);
      high[i] = static_cast<u16>(states[i] >> 16);
    }
    return {_mm512_load_si512(low), _mm512_load_si512(high)};
  }

  template <u32 lanes>
  static void join(const States& halves, u32* states) {
    alignas(64) u16 low[32], high[32];
    _mm512_store_si512(low, halves.low);
    _mm512_store_si512(high, halves.high);
    for (u32 i = 0; i < lanes; ++i) states[i] = low[i] | u32{high[i]} << 16;
  }

  // One symbol of each lane.
  template <u32 lanes>
  static __m512i take_symbols(const Nearest& nearest, States& states, const u8*& next) {
    const __m512i start = _mm512_slli_epi16(states.low, 5);  // without the state's higher bits
    const auto quarter = [&](u32 i) {
      return _mm512_add_epi16(start, _mm512_set1_epi32(static_cast<int>(nearest.quarters[i])));
    };
    const __m512i four =
        _mm512_min_epu16(_mm512_min_epu16(start, quarter(0)), _mm512_min_epu16(quarter(1), quarter(2)));
    const auto look_up = [](__m512i at, const u16(&table)[kSymbols]) {
      const __m256i row = _mm256_load_si256(reinterpret_cast<const __m256i*>(table));
      return _mm512_permutexvar_epi16(at, _mm512_broadcast_i64x4(row));
    };
    const auto next_three = [&](u32 i) { return _mm512_add_epi16(start, look_up(four, nearest.symbols[i])); };
    const __m512i found =
        _mm512_min_epu16(_mm512_min_epu16(four, next_three(0)), _mm512_min_epu16(next_three(1), next_three(2)));
    const __m512i frequency = look_up(found, nearest.frequencies);
    const __m512i in_symbol = _mm512_srli_epi16(found, 5);  // slot - sum
    // frequency * (x >> 11) + slot - sum, in halves.
    const __m512i x_low = _mm512_or_si512(_mm512_slli_epi16(states.high, 5), _mm512_srli_epi16(states.low, 11));
    const __m512i x_high = _mm512_srli_epi16(states.high, 11);
    const __m512i low = _mm512_add_epi16(_mm512_mullo_epi16(frequency, x_low), in_symbol);
    const __m512i product_high =
        _mm512_add_epi16(_mm512_mulhi_epu16(frequency, x_low), _mm512_mullo_epi16(frequency, x_high));
    const __mmask32 carries = _mm512_cmplt_epu16_mask(low, in_symbol);
    const __m512i high = _mm512_mask_add_epi16(product_high, carries, product_high, _mm512_set1_epi16(1));
    __mmask32 is_empty = _kandn_mask32(carries, _mm512_testn_epi16_mask(product_high, product_high));
    if constexpr (lanes < 32) is_empty &= (1u << lanes % 32) - 1;
    __m512i words;
    if constexpr (lanes == 32) {
      words = _mm512_loadu_si512(next);
    } else {
      words = _mm512_zextsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(next)));
    }
    states.low = _mm512_mask_expand_epi16(low, is_empty, words);
    states.high = _mm512_mask_mov_epi16(high, is_empty, low);
    next += count_ones(is_empty) * kWordBytes;
    return _mm512_and_si512(found, _mm512_set1_epi16(15));
  }

  static void store_steps(__m512i differences, u32 unit_bits, i32* steps) {
    const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(unit_bits));
    const __m512i low = _mm512_cvtepi16_epi32(_mm512_castsi512_si256(differences));
    const __m512i high = _mm512_cvtepi16_epi32(_mm512_extracti64x4_epi64(differences, 1));
    _mm512_storeu_si512(steps, _mm512_sll_epi32(low, shift));
    _mm512_storeu_si512(steps + 16, _mm512_sll_epi32(high, shift));
  }

  static void store_steps(__m512i differences, u32 unit_bits, i64* steps) {
    const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(unit_bits));
    const __m128i parts[4] = {_mm512_castsi512_si128(differences), _mm512_extracti32x4_epi32(differences, 1),
                              _mm512_extracti32x4_epi32(differences, 2), _mm512_extracti32x4_epi32(differences, 3)};
    for (u32 i = 0; i < 4; ++i) {
      _mm512_storeu_si512(steps + 8 * i, _mm512_sll_epi64(_mm512_cvtepi16_epi64(parts[i]), shift));
    }
  }

  template <u32 lanes, class I>
  static bool read_blocks(const Head& head, const u8* classes, u32 blocks, u32* states, Words& words, Input& in,
                          I* steps) {
    if (head.raw_planes + kMostClassPlanes > kMostSmallPlanes) {
      return Definition::read_blocks<lanes>(head, classes, blocks, states, words, in, steps);
    }
    const u32 unit_bits = head.is_closed ? 4 : 0;
    u32 x[lanes];
    memcpy(x, states, sizeof x);
    States halves = split<lanes>(states);
    const u8* plane_words = in.planes;
    const u8* next = words.next();
    EscapeList escapes;
    I* const first_steps = steps;
    for (u32 b = 0; b < blocks; ++b, steps += kBlockCodes) {
      const u32 c = classes[b];
      const u32 planes = head.raw_planes + raw_planes_of(c);
      __m512i numbers = _mm512_setzero_si512();
      u32 escaped = 0;
      if (c == 0 && planes == 0) {
        store_steps(numbers, 0, steps);
        continue;
      }
      if (c != 0) {
        next = words.next(next);
        if (next == nullptr) return false;
        const u32 t = table_of(c);
        __m512i symbols;
        if constexpr (lanes == 32) {
          symbols = take_symbols<32>(kNearest.tables[t], halves, next);
        } else if constexpr (lanes == 16) {
          const __m512i first = take_symbols<16>(kNearest.tables[t], halves, next);
          const __m512i second = take_symbols<16>(kNearest.tables[t], halves, next);
          symbols = _mm512_inserti64x4(first, _mm512_castsi512_si256(second), 1);
        } else {
          alignas(64) u16 each[kBlockCodes];
          Definition::read_symbols<lanes>(kSlots.slots[t], x, next, each);
          symbols = _mm512_load_si512(each);
        }
        escaped = _mm512_cmpeq_epi16_mask(symbols, _mm512_set1_epi16(kEscape));
        numbers = _mm512_sll_epi16(symbols, _mm_cvtsi32_si128(static_cast<int>(planes)));
      }
      const __m512i raw = _mm512_maskz_loadu_epi32(static_cast<__mmask16>((1u << planes) - 1), plane_words);
      plane_words += 4 * planes;
      numbers = _mm512_or_si512(numbers, from_planes(raw));
      const __m512i signs = _mm512_sub_epi16(_mm512_setzero_si512(), _mm512_and_si512(numbers, _mm512_set1_epi16(1)));
      store_steps(_mm512_xor_si512(_mm512_srli_epi16(numbers, 1), signs), unit_bits, steps);
      escapes.add(b, escaped);
    }
    words.take(next);
    if (!Definition::read_escapes(escapes, head.escape_bytes, in, first_steps)) return false;
    if constexpr (lanes < 16) {
      memcpy(states, x, sizeof x);
    } else {
      join<lanes>(halves, states);
    }
    in.planes = plane_words;
    return words.next() != nullptr;
  }
};

using Blocks = Avx512;

#elif defined(H5L_CODER_AVX2)

// ---------------------------------------------------------------------------------------------------------------------
// AVX2

inline __m256i load_half(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
inline __m128i load_quarter(const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); }

// The zigzags of a block without the lowest planes, in order, in lanes of 32 bits. Larger ones become 2^32 - 1.
inline void numbers_of(const i32* codes, u32 raw_planes, __m256i (&numbers)[4]) {
  const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(raw_planes));
  for (u32 i = 0; i < 4; ++i) {
    const __m256i code = load_half(codes + 8 * i);
    numbers[i] = _mm256_srl_epi32(_mm256_xor_si256(_mm256_slli_epi32(code, 1), _mm256_srai_epi32(code, 31)), shift);
  }
}

inline void numbers_of(const i64* codes, u32 raw_planes, __m256i (&numbers)[4]) {
  const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(raw_planes));
  const __m256i zero = _mm256_setzero_si256();
  for (u32 i = 0; i < 4; ++i) {
    __m256 parts[2];
    for (u32 j = 0; j < 2; ++j) {
      const __m256i code = load_half(codes + 8 * i + 4 * j);
      const __m256i number = _mm256_xor_si256(_mm256_slli_epi64(code, 1), _mm256_cmpgt_epi64(zero, code));
      parts[j] = _mm256_castsi256_ps(_mm256_srl_epi64(number, shift));
    }
    const __m256i low = _mm256_castps_si256(_mm256_shuffle_ps(parts[0], parts[1], 0x88));
    const __m256i high = _mm256_castps_si256(_mm256_shuffle_ps(parts[0], parts[1], 0xDD));
    const __m256i is_large = _mm256_xor_si256(_mm256_cmpeq_epi32(high, zero), _mm256_set1_epi32(-1));
    numbers[i] = _mm256_permute4x64_epi64(_mm256_or_si256(low, is_large), 0xD8);
  }
}

// Costs of symbols as bytes, and what is missing in that of an escape.
struct ByteCosts {
  alignas(16) u8 costs[kSymbols];
  alignas(16) u8 missing[kSymbols];
};
struct AllByteCosts {
  ByteCosts tables[kSymbolTables];
};
constexpr AllByteCosts make_byte_costs() {
  AllByteCosts all = {};
  for (u32 t = 0; t < kSymbolTables; ++t) {
    for (u32 s = 0; s < kSymbols; ++s) all.tables[t].costs[s] = static_cast<u8>(kCosts.symbols[t][s]);
    const u32 escape = kCosts.symbols[t][kEscape] + kEscapeCost;
    all.tables[t].costs[kEscape] = static_cast<u8>(escape / 2);
    all.tables[t].missing[kEscape] = static_cast<u8>(escape - escape / 2);
  }
  return all;
}
inline constexpr AllByteCosts kByteCosts = make_byte_costs();

// For each mask of eight words of 16 bits: a byte shuffle that moves those in the mask to the end, and its inverse from
// the beginning, with zeros between.
struct WordShuffles {
  alignas(64) u8 sources[256][16];
};
inline constexpr WordShuffles kToEnd = [] {
  WordShuffles shuffles = {};
  for (u32 mask = 0; mask < 256; ++mask) {
    u32 to = 8;
    for (u32 i = 8; i-- > 0;) {
      if ((mask >> i & 1) == 0) continue;
      --to;
      shuffles.sources[mask][2 * to] = static_cast<u8>(2 * i);
      shuffles.sources[mask][2 * to + 1] = static_cast<u8>(2 * i + 1);
    }
  }
  return shuffles;
}();
inline constexpr WordShuffles kExpanded = [] {
  WordShuffles shuffles = {};
  for (u32 mask = 0; mask < 256; ++mask) {
    u32 from = 0;
    for (u32 i = 0; i < 8; ++i) {
      const bool is_taken = (mask >> i & 1) != 0;
      shuffles.sources[mask][2 * i] = static_cast<u8>(is_taken ? 2 * from : 0x80);
      shuffles.sources[mask][2 * i + 1] = static_cast<u8>(is_taken ? 2 * from + 1 : 0x80);
      from += is_taken ? 1 : 0;
    }
  }
  return shuffles;
}();

// Tables of 32 bits as four of bytes.
struct ByteRates {
  alignas(16) u8 reciprocals[4][kSymbols];
  alignas(16) u8 others[4][kSymbols];  // frequency << 21 | shift << 12 | sum
};
struct AllByteRates {
  ByteRates tables[kSymbolTables];
};
constexpr AllByteRates make_byte_rates() {
  AllByteRates all = {};
  for (u32 t = 0; t < kSymbolTables; ++t) {
    const LaneRates& rates = kLaneRates.tables[t];
    for (u32 s = 0; s < kSymbols; ++s) {
      const u32 other = rates.limits[s] | rates.shifts[s] << 12 | rates.sums[s];
      for (u32 i = 0; i < 4; ++i) {
        all.tables[t].reciprocals[i][s] = static_cast<u8>(rates.reciprocals[s] >> 8 * i);
        all.tables[t].others[i][s] = static_cast<u8>(other >> 8 * i);
      }
    }
  }
  return all;
}
inline constexpr AllByteRates kByteRates = make_byte_rates();

inline __m256i twice(const u8 (&table)[kSymbols]) {
  return _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(table)));
}

// The numbers of 32 bits of 32 symbols, eight in a vector. The symbols are bytes, of which those of even vectors are in
// the lower half.
inline void look_up(const u8 (&table)[4][kSymbols], __m256i symbols, __m256i (&numbers)[4]) {
  __m256i bytes[4];
  for (u32 i = 0; i < 4; ++i) bytes[i] = _mm256_shuffle_epi8(twice(table[i]), symbols);
  const __m256i low01 = _mm256_unpacklo_epi8(bytes[0], bytes[1]), low23 = _mm256_unpacklo_epi8(bytes[2], bytes[3]);
  const __m256i high01 = _mm256_unpackhi_epi8(bytes[0], bytes[1]), high23 = _mm256_unpackhi_epi8(bytes[2], bytes[3]);
  numbers[0] = _mm256_unpacklo_epi16(low01, low23);
  numbers[1] = _mm256_unpackhi_epi16(low01, low23);
  numbers[2] = _mm256_unpacklo_epi16(high01, high23);
  numbers[3] = _mm256_unpackhi_epi16(high01, high23);
}

struct Avx2 {
  template <class I>
  static u32 choose_classes(const I* codes, u32 blocks, i32 unit, Coding& plan, Tally<I>& tally) {
    const __m256i ones = _mm256_set1_epi32(1), last = _mm256_set1_epi16(kEscape);
    __m256i all = _mm256_setzero_si256();
    for (u32 b = 0; b < blocks; ++b, codes += kBlockCodes) {
      __m256i sizes[4];
      numbers_of(codes, plan.raw_planes, sizes);
      const __m256i any = _mm256_or_si256(_mm256_or_si256(sizes[0], sizes[1]), _mm256_or_si256(sizes[2], sizes[3]));
      all = _mm256_or_si256(all, any);
      plan.classes[b] = 0;
      if (_mm256_testz_si256(any, any) != 0) continue;
      __m256i halves = _mm256_setzero_si256();
      for (const __m256i& size : sizes) {
        halves = _mm256_add_epi32(halves, _mm256_srli_epi32(_mm256_add_epi32(size, ones), 1));
      }
      __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
      sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4E));
      sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xB1));
      const u32 reached = thresholds_reached(static_cast<u32>(_mm_cvtsi128_si32(sum)));
      const Candidates& candidates = kCandidates.reached[reached];
      // In any order.
      const __m256i first = _mm256_packus_epi32(sizes[0], sizes[1]), second = _mm256_packus_epi32(sizes[2], sizes[3]);
      __m256i costs = _mm256_setzero_si256();
      for (u32 i = 3; i-- > 0;) {
        const u32 c = candidates.classes[i];
        const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(candidates.planes[i]));
        const __m256i symbols = _mm256_packus_epi16(_mm256_min_epu16(_mm256_srl_epi16(first, shift), last),
                                                    _mm256_min_epu16(_mm256_srl_epi16(second, shift), last));
        const ByteCosts& table = kByteCosts.tables[table_of(c)];
        const __m256i zero = _mm256_setzero_si256();
        const __m256i most = _mm256_sad_epu8(_mm256_shuffle_epi8(twice(table.costs), symbols), zero);
        const __m256i missing = _mm256_sad_epu8(_mm256_shuffle_epi8(twice(table.missing), symbols), zero);
        costs = _mm256_add_epi64(_mm256_slli_epi64(costs, 16), _mm256_add_epi64(most, missing));
      }
      __m128i three = _mm_add_epi64(_mm256_castsi256_si128(costs), _mm256_extracti128_si256(costs, 1));
      three = _mm_add_epi64(three, _mm_unpackhi_epi64(three, three));
      u32 cost;
      const u32 c = least_of_three(candidates, static_cast<u64>(_mm_cvtsi128_si64(three)), cost);
      plan.classes[b] = static_cast<u8>(c);
      tally.cost += cost;
      tally.class_planes += raw_planes_of(c);
      const __m256i above = _mm256_subs_epu16(_mm256_max_epu16(first, second),
                                              _mm256_set1_epi16(static_cast<short>((kEscape << raw_planes_of(c)) - 1)));
      if (_mm256_testz_si256(above, above) == 0) count_escapes(codes, unit, plan.raw_planes, c, ~0u, tally);
    }
    u32 bits = 0;
    for (u32 i = 0; i < kLanes<u32>; ++i) bits |= bit_cast<Vector<u32>>(all)[i];
    return bits;
  }

  // One symbol of eight lanes.
  static void push_lanes(__m256i reciprocals, __m256i others, __m256i& states, u8*& words) {
    __m256i x = states;
    const __m256i frequencies = _mm256_srli_epi32(others, 21);
    const __m256i fits = _mm256_cmpgt_epi32(frequencies, _mm256_srli_epi32(x, 21));
    const u32 full = static_cast<u32>(~_mm256_movemask_ps(_mm256_castsi256_ps(fits))) & 0xFF;
    const __m256i low = _mm256_and_si256(x, _mm256_set1_epi32(0xFFFF));
    const __m128i packed = _mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(words - 16),
                     _mm_shuffle_epi8(packed, load_quarter(kToEnd.sources[full])));
    words -= count_ones(full) * kWordBytes;
    x = _mm256_blendv_epi8(_mm256_srli_epi32(x, 16), x, fits);
    const __m256i even = _mm256_srli_epi64(_mm256_mul_epu32(x, reciprocals), 32);
    const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(x, 32), _mm256_srli_epi64(reciprocals, 32));
    const __m256i shifts = _mm256_and_si256(_mm256_srli_epi32(others, 12), _mm256_set1_epi32(15));
    const __m256i quotients = _mm256_srlv_epi32(_mm256_blend_epi32(even, odd, 0xAA), shifts);
    const __m256i sums = _mm256_and_si256(others, _mm256_set1_epi32(0xFFF));
    const __m256i complements = _mm256_sub_epi32(_mm256_set1_epi32(kFrequencySum), frequencies);
    states = _mm256_add_epi32(_mm256_add_epi32(x, sums), _mm256_mullo_epi32(quotients, complements));
  }

  template <u32 lanes, class I>
  static void write_blocks(const I* codes, u32 blocks, i32 unit, const Coding& plan, u32* states, Output& out) {
    if (plan.raw_planes + kMostClassPlanes > kMostSmallPlanes) {
      Definition::write_blocks<lanes>(codes, blocks, unit, plan, states, out);
      return;
    }
    u32 x[lanes];
    memcpy(x, states, sizeof x);
    constexpr u32 parts = lanes < 16 ? 1 : lanes / 8;
    __m256i vectors[parts] = {};
    if constexpr (lanes >= 16) {
      for (u32 i = 0; i < parts; ++i) vectors[i] = load_half(states + 8 * i);
    }
    const __m256i most = _mm256_set1_epi32(0xFFFF), last = _mm256_set1_epi16(kEscape);
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    u8* words = out.words;
    u8* plane_words = out.planes;
    for (u32 b = blocks; b-- > 0;) {
      const u32 c = plan.classes[b];
      const u32 planes = plan.raw_planes + raw_planes_of(c);
      if (c == 0 && planes == 0) continue;
      const I* const block = codes + u64{b} * kBlockCodes;
      __m256i all[4];
      numbers_of(block, 0, all);
      for (__m256i& numbers : all) numbers = _mm256_min_epu32(numbers, most);
      // In the order 0-3, 8-11, 4-7, 12-15.
      const __m256i first = _mm256_packus_epi32(all[0], all[1]), second = _mm256_packus_epi32(all[2], all[3]);
      u32 escaped = 0;
      if (c != 0) {
        const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(planes));
        // 0-3, 8-11, 16-19, 24-27, 4-7, 12-15, 20-23, 28-31.
        const __m256i symbols = _mm256_packus_epi16(_mm256_min_epu16(_mm256_srl_epi16(first, shift), last),
                                                    _mm256_min_epu16(_mm256_srl_epi16(second, shift), last));
        const __m256i in_order = _mm256_permutevar8x32_epi32(symbols, order);
        if constexpr (lanes >= 16) {
          const ByteRates& rates = kByteRates.tables[table_of(c)];
          __m256i reciprocals[4], others[4];
          look_up(rates.reciprocals, symbols, reciprocals);
          look_up(rates.others, symbols, others);
          for (u32 i = 4; i-- > 0;) push_lanes(reciprocals[i], others[i], vectors[i % parts], words);
        } else {
          u8 each[kBlockCodes];
          store_half(each, in_order);
          Definition::push_symbols<lanes>(kRates.symbols[table_of(c)], each, x, words);
        }
        escaped = static_cast<u32>(
            _mm256_movemask_epi8(_mm256_cmpeq_epi8(in_order, _mm256_set1_epi8(static_cast<char>(kEscape)))));
        for (u32 rest = escaped; rest != 0; rest &= ~(1u << (31 - count_leading_zeros(rest)))) [[unlikely]] {
          const I code = block[31 - count_leading_zeros(rest)];
          out.escapes = write_escape(item_of(code, unit), plan.escape_bytes, out.escapes);
        }
      }
      if (planes == 0) continue;
      plane_words -= 4 * planes;
      const __m256i bytes = _mm256_set1_epi16(0xFF);
      const __m256i low = _mm256_permutevar8x32_epi32(
          _mm256_packus_epi16(_mm256_and_si256(first, bytes), _mm256_and_si256(second, bytes)), order);
      for (u32 p = 0; p < planes && p < 8; ++p) {
        const __m256i bits = _mm256_sll_epi16(low, _mm_cvtsi32_si128(static_cast<int>(7 - p)));
        store(plane_words + u64{4} * p, static_cast<u32>(_mm256_movemask_epi8(bits)) & ~escaped);
      }
      if (planes <= 8) continue;
      const __m256i high = _mm256_permutevar8x32_epi32(
          _mm256_packus_epi16(_mm256_srli_epi16(first, 8), _mm256_srli_epi16(second, 8)), order);
      for (u32 p = 8; p < planes; ++p) {
        const __m256i bits = _mm256_sll_epi16(high, _mm_cvtsi32_si128(static_cast<int>(15 - p)));
        store(plane_words + u64{4} * p, static_cast<u32>(_mm256_movemask_epi8(bits)) & ~escaped);
      }
    }
    out.words = words;
    out.planes = plane_words;
    if constexpr (lanes < 16) {
      memcpy(states, x, sizeof x);
    } else {
      for (u32 i = 0; i < parts; ++i) store_half(states + 8 * i, vectors[i]);
    }
  }

  static u32 find_class(const u16 (&before)[kClasses], u32 slot) {
    const __m256i sums = _mm256_load_si256(reinterpret_cast<const __m256i*>(before));
    const __m256i is_behind = _mm256_cmpgt_epi16(sums, _mm256_set1_epi16(static_cast<short>(slot)));
    return kClasses - 1 - count_ones(static_cast<u32>(_mm256_movemask_epi8(is_behind))) / 2;
  }

  // The states of 16 lanes, in halves.
  struct States {
    __m256i low, high;
  };

  static States split(const u32* states) {
    alignas(32) u16 low[16], high[16];
    for (u32 i = 0; i < 16; ++i) {
      low[i] = static_cast<u16>(states[i]);
      high[i] = static_cast<u16>(states[i] >> 16);
    }
    return {load_half(low), load_half(high)};
  }

  static void join(const States& halves, u32* states) {
    alignas(32) u16 low[16], high[16];
    store_half(low, halves.low);
    store_half(high, halves.high);
    for (u32 i = 0; i < 16; ++i) states[i] = low[i] | u32{high[i]} << 16;
  }

  // Gives 16 lanes their words. Bits 0-7 and 16-23 of the mask say which.
  static void refill(u32 mask, States& states, const u8*& next) {
    const auto eight = [&next](u32 which) {
      const __m128i words = _mm_shuffle_epi8(load_quarter(next), load_quarter(kExpanded.sources[which]));
      next += count_ones(which) * kWordBytes;
      return words;
    };
    const __m128i low = eight(mask & 0xFF), high = eight(mask >> 16 & 0xFF);
    states.low = _mm256_or_si256(states.low, _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1));
  }

  // The symbol of each slot, with 32 times the slot's place among the symbol's.
  [[gnu::always_inline]] static inline __m256i find_symbols(const Nearest& nearest, __m256i states_low) {
    const __m256i start = _mm256_slli_epi16(states_low, 5);  // without the state's higher bits
    const auto quarter = [&](u32 i) {
      return _mm256_add_epi16(start, _mm256_set1_epi32(static_cast<int>(nearest.quarters[i])));
    };
    const __m256i four =
        _mm256_min_epu16(_mm256_min_epu16(start, quarter(0)), _mm256_min_epu16(quarter(1), quarter(2)));
    // Where the bytes of its next three are: 4n, 4n + 1.
    const __m256i twice =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 10, 10, 12, 12, 14, 14));
    const __m256i low_bytes = _mm256_shuffle_epi8(four, twice);
    const __m256i places =
        _mm256_or_si256(_mm256_and_si256(low_bytes, _mm256_set1_epi8(15)), _mm256_set1_epi16(0x0100));
    const auto next_three = [&](u32 i) {
      const __m256i row = _mm256_broadcastsi128_si256(load_quarter(nearest.symbols[i]));
      return _mm256_add_epi16(start, _mm256_shuffle_epi8(row, places));
    };
    return _mm256_min_epu16(_mm256_min_epu16(four, next_three(0)), _mm256_min_epu16(next_three(1), next_three(2)));
  }

  // One symbol of each lane, of one or two times 16.
  template <u32 kHalves>
  [[gnu::always_inline]] static inline void take_symbols(const Nearest& nearest, States (&states)[kHalves],
                                                         __m256i* symbols, const u8*& next) {
    constexpr u32 last = kHalves - 1;
    const __m256i zero = _mm256_setzero_si256();
    __m256i found[kHalves], frequencies[2], is_empty[kHalves];
    for (u32 i = 0; i < kHalves; ++i) {
      found[i] = find_symbols(nearest, states[i].low);
      symbols[i] = _mm256_and_si256(found[i], _mm256_set1_epi16(15));
    }
    const __m256i bytes = _mm256_packs_epi16(symbols[0], symbols[last]);
    const auto look_up = [bytes](const u8(&table)[kSymbols]) {
      return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(load_quarter(table)), bytes);
    };
    const __m256i low_bytes = look_up(nearest.low_frequencies), high_bytes = look_up(nearest.high_frequencies);
    frequencies[0] = _mm256_unpacklo_epi8(low_bytes, high_bytes);
    frequencies[1] = _mm256_unpackhi_epi8(low_bytes, high_bytes);
    for (u32 i = 0; i < kHalves; ++i) {
      // frequency * (x >> 11) + slot - sum, in halves.
      const __m256i frequency = frequencies[i], in_symbol = _mm256_srli_epi16(found[i], 5);
      const __m256i x_low = _mm256_or_si256(_mm256_slli_epi16(states[i].high, 5), _mm256_srli_epi16(states[i].low, 11));
      const __m256i x_high = _mm256_srli_epi16(states[i].high, 11);
      const __m256i low = _mm256_add_epi16(_mm256_mullo_epi16(frequency, x_low), in_symbol);
      const __m256i product_high =
          _mm256_add_epi16(_mm256_mulhi_epu16(frequency, x_low), _mm256_mullo_epi16(frequency, x_high));
      // The low half overflows if it is below the last summand.
      const __m256i has_no_carry = _mm256_cmpeq_epi16(_mm256_subs_epu16(in_symbol, low), zero);
      const __m256i high = _mm256_add_epi16(_mm256_add_epi16(product_high, _mm256_set1_epi16(1)), has_no_carry);
      is_empty[i] = _mm256_cmpeq_epi16(high, zero);
      states[i].low = _mm256_andnot_si256(is_empty[i], low);
      states[i].high = _mm256_or_si256(high, _mm256_and_si256(is_empty[i], low));
    }
    const u32 mask = static_cast<u32>(_mm256_movemask_epi8(_mm256_packs_epi16(is_empty[0], is_empty[last])));
    for (u32 i = 0; i < kHalves; ++i) refill(mask >> 8 * i, states[i], next);
  }

  // The raw bits of a block as bytes: those of the planes from `first` on, at most 8.
  static __m256i plane_bytes(const u8* plane_words, u32 first, u32 end) {
    const __m256i spread = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i each = _mm256_set1_epi64x(static_cast<i64>(0x8040201008040201ull));
    __m256i bytes = _mm256_setzero_si256();
    for (u32 p = end; p-- > first;) {
      const __m256i word = _mm256_set1_epi32(static_cast<int>(load<u32>(plane_words + u64{4} * p)));
      const __m256i bits = _mm256_and_si256(_mm256_shuffle_epi8(word, spread), each);
      bytes = _mm256_sub_epi8(_mm256_add_epi8(bytes, bytes), _mm256_cmpeq_epi8(bits, each));
    }
    return bytes;
  }

  static void store_steps(const __m256i (&numbers)[2], u32 unit_bits, i32* steps) {
    const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(unit_bits));
    for (u32 i = 0; i < 2; ++i) {
      const __m256i low = _mm256_cvtepi16_epi32(_mm256_castsi256_si128(numbers[i]));
      const __m256i high = _mm256_cvtepi16_epi32(_mm256_extracti128_si256(numbers[i], 1));
      store_half(steps + 16 * i, _mm256_sll_epi32(low, shift));
      store_half(steps + 16 * i + 8, _mm256_sll_epi32(high, shift));
    }
  }

  static void store_steps(const __m256i (&numbers)[2], u32 unit_bits, i64* steps) {
    const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(unit_bits));
    for (u32 i = 0; i < 2; ++i) {
      const __m128i halves[2] = {_mm256_castsi256_si128(numbers[i]), _mm256_extracti128_si256(numbers[i], 1)};
      for (u32 j = 0; j < 2; ++j) {
        i64* const to = steps + 16 * i + 8 * j;
        store_half(to, _mm256_sll_epi64(_mm256_cvtepi16_epi64(halves[j]), shift));
        store_half(to + 4, _mm256_sll_epi64(_mm256_cvtepi16_epi64(_mm_srli_si128(halves[j], 8)), shift));
      }
    }
  }

  template <u32 lanes, class I>
  static bool read_blocks(const Head& head, const u8* classes, u32 blocks, u32* states, Words& words, Input& in,
                          I* steps) {
    if (head.raw_planes + kMostClassPlanes > kMostSmallPlanes) {
      return Definition::read_blocks<lanes>(head, classes, blocks, states, words, in, steps);
    }
    const u32 unit_bits = head.is_closed ? 4 : 0;
    u32 x[lanes];
    memcpy(x, states, sizeof x);
    constexpr u32 halves = lanes == 32 ? 2 : 1;
    States parts[halves];
    for (u32 i = 0; i < halves && lanes >= 16; ++i) parts[i] = split(states + 16 * i);
    const u8* plane_words = in.planes;
    const u8* next = words.next();
    EscapeList escapes;
    I* const first_steps = steps;
    for (u32 b = 0; b < blocks; ++b, steps += kBlockCodes) {
      const u32 c = classes[b];
      const u32 planes = head.raw_planes + raw_planes_of(c);
      if (c == 0 && planes == 0) {
        memset(steps, 0, kBlockCodes * sizeof(I));
        continue;
      }
      __m256i numbers[2] = {};
      u32 escaped = 0;
      if (c != 0) {
        next = words.next(next);
        if (next == nullptr) return false;
        const u32 t = table_of(c);
        if constexpr (lanes == 32) {
          take_symbols(kNearest.tables[t], parts, numbers, next);
        } else if constexpr (lanes == 16) {
          take_symbols(kNearest.tables[t], parts, numbers, next);
          take_symbols(kNearest.tables[t], parts, numbers + 1, next);
        } else {
          alignas(32) u16 each[kBlockCodes];
          Definition::read_symbols<lanes>(kSlots.slots[t], x, next, each);
          numbers[0] = load_half(each);
          numbers[1] = load_half(each + 16);
        }
        const __m256i is_escape = _mm256_permute4x64_epi64(_mm256_packs_epi16(numbers[0], numbers[1]), 0xD8);
        escaped = static_cast<u32>(
            _mm256_movemask_epi8(_mm256_cmpeq_epi8(is_escape, _mm256_set1_epi8(static_cast<char>(kEscape)))));
      }
      if (planes != 0) {
        const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(planes));
        const __m256i low = plane_bytes(plane_words, 0, planes < 8 ? planes : 8);
        const __m256i high = plane_bytes(plane_words, 8, planes);
        const __m256i low_bytes = _mm256_permute4x64_epi64(low, 0xD8),
                      high_bytes = _mm256_permute4x64_epi64(high, 0xD8);
        numbers[0] = _mm256_or_si256(_mm256_sll_epi16(numbers[0], shift), _mm256_unpacklo_epi8(low_bytes, high_bytes));
        numbers[1] = _mm256_or_si256(_mm256_sll_epi16(numbers[1], shift), _mm256_unpackhi_epi8(low_bytes, high_bytes));
        plane_words += 4 * planes;
      }
      for (__m256i& number : numbers) {
        const __m256i signs = _mm256_sub_epi16(_mm256_setzero_si256(), _mm256_and_si256(number, _mm256_set1_epi16(1)));
        number = _mm256_xor_si256(_mm256_srli_epi16(number, 1), signs);
      }
      store_steps(numbers, unit_bits, steps);
      escapes.add(b, escaped);
    }
    words.take(next);
    if (!Definition::read_escapes(escapes, head.escape_bytes, in, first_steps)) return false;
    if constexpr (lanes < 16) {
      memcpy(states, x, sizeof x);
    } else {
      for (u32 i = 0; i < halves; ++i) join(parts[i], states + 16 * i);
    }
    in.planes = plane_words;
    return words.next() != nullptr;
  }
};

using Blocks = Avx2;
#else
using Blocks = Definition;
#endif

template <class I>
inline void plan_coding(const I* codes, u32 count, i32 unit, Coding& plan) {
  plan_coding_with<Blocks>(codes, count, unit, plan);
}

template <class I>
inline u32 write_codes(const I* codes, u32 count, i32 unit, const Coding& plan, u8* out, u8* scratch) {
  return write_codes_with<Blocks>(codes, count, unit, plan, out, scratch);
}

template <class I>
inline bool read_codes(const Head& head, const u8* in, u32 bytes, u32 count, I* steps, u8* scratch) {
  return read_codes_with<Blocks>(head, in, bytes, count, steps, scratch);
}

}  // namespace h5lossy::H5L_TARGET::interp::simd

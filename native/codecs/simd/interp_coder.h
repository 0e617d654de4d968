// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Interp's coder (codecs/interp_coder.h) for AVX-512 and AVX2: a block of 32 codes at a time, and 16 or 32 lanes at a time.
// Otherwise the definition.
#pragma once

#include "codecs/interp_coder.h"

#if defined(__AVX512VBMI2__) && defined(__AVX512VBMI__) && defined(__AVX512BW__) && defined(__GFNI__)
#define H5L_CODER_AVX512 1
#endif

#if defined(H5L_CODER_AVX512)
#include <immintrin.h>
#endif

namespace h5lossy::H5L_TARGET::interp::simd {

#if defined(H5L_CODER_AVX512)

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

// For finding the symbol of a slot in lanes of 16 bits: sums of frequencies before the symbols 4, 8 and 12; and, by j,
// those before the symbols 4n + j, for n from 0 to 3, times 16 and with the symbol in the low bits. 2048 stands behind
// the last one.
struct Search {
  u32 quarters[3];  // twice, and inverted
  alignas(16) u16 sums[5][8];
};

struct Searches {
  Search tables[kSymbolTables];
};

constexpr Searches make_searches() {
  Searches searches = {};
  for (u32 t = 0; t < kSymbolTables; ++t) {
    const Rate(&rates)[kSymbols] = kRates.symbols[t];
    for (u32 i = 0; i < 3; ++i) {
      const u32 slots = kSymbols * (kFrequencySum - 1 - rates[4 * i + 4].sum);  // slots are inverted, too
      searches.tables[t].quarters[i] = (0x8000u + slots) * 0x10001u;
    }
    for (u32 j = 0; j < 5; ++j) {
      for (u32 n = 0; n < 4; ++n) {
        const u32 s = 4 * n + j;
        searches.tables[t].sums[j][n] =
            static_cast<u16>(s < kSymbols ? kSymbols * rates[s].sum + s : kSymbols * kFrequencySum);
      }
    }
  }
  return searches;
}
inline constexpr Searches kSearches = make_searches();

// Costs of the symbols as in the comparison of classes, twice.
struct CostTables {
  alignas(64) u16 costs[kSymbolTables][2 * kSymbols];
};

constexpr CostTables make_cost_tables() {
  CostTables tables = {};
  for (u32 t = 0; t < kSymbolTables; ++t) {
    for (u32 s = 0; s < 2 * kSymbols; ++s) {
      const u32 cost = kCosts.symbols[t][s % kSymbols];
      tables.costs[t][s] = static_cast<u16>(s % kSymbols == kEscape ? cost + kEscapeCost : cost);
    }
  }
  return tables;
}
inline constexpr CostTables kCostTables = make_cost_tables();

inline u32 thresholds_reached(u32 halves) {
  // A threshold lies between 4 and 8 times each power of two.
  if (halves < 4) return 0;
  const u32 j = 29 - count_leading_zeros(halves);
  return j >= kClassThresholds ? kClassThresholds : j + (halves >= class_threshold(j));
}

// ---------------------------------------------------------------------------------------------------------------------
// AVX-512

inline __m512i zigzag_lanes(__m512i codes, i32) {
  return _mm512_xor_si512(_mm512_slli_epi32(codes, 1), _mm512_srai_epi32(codes, 31));
}
inline __m512i zigzag_lanes(__m512i codes, i64) {
  return _mm512_xor_si512(_mm512_slli_epi64(codes, 1), _mm512_srai_epi64(codes, 63));
}

// The zigzags of a block, without the lowest planes, in lanes of 32 bits: they are below 2^30.
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
    parts[i] = _mm512_cvtepi64_epi32(_mm512_srl_epi64(numbers, shift));
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

// Up to this many planes of a block, numbers that are no escapes fit in 16 bits.
inline constexpr u32 kMostSmallPlanes = 12;

// A transposed square of bits: gf2p8affine takes the data as matrix.
inline __m512i transpose_squares(__m512i squares) {
  const __m512i identity = _mm512_set1_epi64(static_cast<i64>(0x8040201008040201ull));
  return _mm512_gf2p8affine_epi64_epi8(identity, squares, 0);
}

struct Bytes64 {
  alignas(64) u8 sources[64];
};
// In each 16 bytes: the squares' rows come in reverse order.
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

inline __m512i to_planes(__m512i numbers) {
  const __m512i squares = _mm512_shuffle_epi8(numbers, _mm512_load_si512(kHalvesOfNumbers.sources));
  return _mm512_permutexvar_epi8(_mm512_load_si512(kPlanesOfHalves.sources), transpose_squares(squares));
}

inline __m512i from_planes(__m512i planes) {
  const __m512i squares = _mm512_permutexvar_epi8(_mm512_load_si512(kHalvesOfPlanes.sources), planes);
  return _mm512_shuffle_epi8(transpose_squares(squares), _mm512_load_si512(kNumbersOfHalves.sources));
}

struct Avx512 {
  template <class I>
  static void choose_classes(const I* codes, u32 blocks, i32 unit, Coding& plan, Tally<I>& tally) {
    const __m512i ones = _mm512_set1_epi32(1), last = _mm512_set1_epi16(kEscape);
    for (u32 b = 0; b < blocks; ++b, codes += kBlockCodes) {
      const Sizes sizes = sizes_of(codes, plan.raw_planes);
      const __m512i any = _mm512_or_si512(sizes.low, sizes.high);
      plan.classes[b] = 0;
      if (_mm512_test_epi32_mask(any, any) == 0) continue;
      const __m512i halves = _mm512_add_epi32(_mm512_srli_epi32(_mm512_add_epi32(sizes.low, ones), 1),
                                              _mm512_srli_epi32(_mm512_add_epi32(sizes.high, ones), 1));
      const u32 reached = thresholds_reached(static_cast<u32>(_mm512_reduce_add_epi32(halves)));
      const Candidates candidates = candidates_of(reached);
      // In any order.
      const __m512i small = _mm512_packus_epi32(sizes.low, sizes.high);
      __m512i costs[3];
      for (u32 i = 0; i < 3; ++i) {
        const u32 c = candidates.classes[i];
        const __m512i rest = _mm512_srl_epi16(small, _mm_cvtsi32_si128(static_cast<int>(raw_planes_of(c))));
        const __m512i table = _mm512_load_si512(kCostTables.costs[table_of(c)]);
        costs[i] =
            _mm512_madd_epi16(_mm512_permutexvar_epi16(_mm512_min_epu16(rest, last), table), _mm512_set1_epi16(1));
      }
      const __m512i two = _mm512_add_epi32(costs[0], _mm512_slli_epi32(costs[1], 16));
      const __m512i pairs =
          _mm512_add_epi32(_mm512_unpacklo_epi32(two, costs[2]), _mm512_unpackhi_epi32(two, costs[2]));
      u32 cost;
      const u32 c = least_of_three(candidates, static_cast<u64>(_mm512_reduce_add_epi64(pairs)), cost);
      plan.classes[b] = static_cast<u8>(c);
      tally.cost += cost;
      tally.class_planes += raw_planes_of(c);
      const __m512i escape = _mm512_set1_epi16(static_cast<short>(kEscape << raw_planes_of(c)));
      if (_mm512_cmpge_epu16_mask(small, escape) != 0) count_escapes(codes, unit, plan.raw_planes, c, ~0u, tally);
    }
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
          for (u32 i = kBlockCodes; i-- > 0;) push(kRates.symbols[table_of(c)][each[i]], x[i % lanes], words);
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

  // One symbol of each lane. Sums and slots are in multiples of 16.
  template <u32 lanes>
  static __m512i take_symbols(const Search& search, States& states, Words& words) {
    constexpr __mmask32 used = lanes == 32 ? ~0u : (1u << lanes % 32) - 1;
    const __m512i x = states.low;
    // -1 - slot
    const __m512i inverted = _mm512_ternarylogic_epi32(_mm512_slli_epi16(x, 4), _mm512_set1_epi16(0x7FF0),
                                                       _mm512_set1_epi16(static_cast<short>(0x8000)), 0xAE);
    const auto quarter = [&search](u32 i) { return _mm512_set1_epi32(static_cast<int>(search.quarters[i])); };
    const __m512i two = _mm512_set1_epi16(0x0202);
    __m512i place = _mm512_set1_epi16(0x0100);
    const __mmask32 is_4 = _mm512_cmple_epu16_mask(inverted, quarter(0));
    const __mmask32 is_8 = _mm512_cmple_epu16_mask(inverted, quarter(1));
    const __mmask32 is_12 = _mm512_cmple_epu16_mask(inverted, quarter(2));
    place = _mm512_mask_add_epi16(place, is_4, place, two);
    place = _mm512_mask_add_epi16(place, is_8, place, two);
    place = _mm512_mask_add_epi16(place, is_12, place, two);
    // Distances from the slot: 16 * (sum - slot - 1) + symbol, negative for sums up to the slot.
    const auto distance = [&](u32 j) {
      const __m128i* const sums = reinterpret_cast<const __m128i*>(search.sums[j]);
      const __m512i table = _mm512_broadcast_i32x4(_mm_load_si128(sums));
      return _mm512_add_epi16(_mm512_shuffle_epi8(table, place), inverted);
    };
    const __m512i d0 = distance(0), d1 = distance(1), d2 = distance(2), d3 = distance(3), d4 = distance(4);
    const __m512i before = _mm512_max_epu16(_mm512_max_epu16(d0, d1), _mm512_max_epu16(d2, d3));
    const __m512i behind = _mm512_min_epu16(_mm512_min_epu16(d1, d2), _mm512_min_epu16(d3, d4));
    const __m512i from_sum = _mm512_srai_epi16(before, 4);  // sum - slot - 1
    const __m512i frequency = _mm512_sub_epi16(_mm512_srai_epi16(behind, 4), from_sum);
    // frequency * (x >> 11) + slot - sum: the part of the state's low half has 16 bits.
    const __m512i upper = _mm512_slli_epi16(frequency, 5);
    const __m512i product_low = _mm512_mullo_epi16(upper, states.high);
    const __m512i product_high = _mm512_mulhi_epu16(upper, states.high);
    const __m512i part = _mm512_sub_epi16(_mm512_mullo_epi16(frequency, _mm512_srli_epi16(x, 11)),
                                          _mm512_add_epi16(from_sum, _mm512_set1_epi16(1)));
    const __m512i low = _mm512_add_epi16(product_low, part);
    const __mmask32 carries = _mm512_cmplt_epu16_mask(low, part);
    const __m512i high = _mm512_mask_add_epi16(product_high, carries, product_high, _mm512_set1_epi16(1));
    const __mmask32 is_empty = _mm512_mask_testn_epi16_mask(~carries & used, product_high, product_high);
    __m512i next;
    if constexpr (lanes == 32) {
      next = _mm512_loadu_si512(words.next());
    } else {
      next = _mm512_zextsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(words.next())));
    }
    states.low = _mm512_mask_expand_epi16(low, is_empty, next);
    states.high = _mm512_mask_mov_epi16(high, is_empty, low);
    words.skip(count_ones(is_empty));
    return _mm512_and_si512(before, _mm512_set1_epi16(15));
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
        if (!words.reserve()) return false;
        const u32 t = table_of(c);
        __m512i symbols;
        if constexpr (lanes == 32) {
          symbols = take_symbols<32>(kSearches.tables[t], halves, words);
        } else if constexpr (lanes == 16) {
          const __m512i first = take_symbols<16>(kSearches.tables[t], halves, words);
          const __m512i second = take_symbols<16>(kSearches.tables[t], halves, words);
          symbols = _mm512_inserti64x4(first, _mm512_castsi512_si256(second), 1);
        } else {
          alignas(64) u16 each[kBlockCodes];
          for (u32 i = 0; i < kBlockCodes; ++i) {
            u32& state = x[i % lanes];
            each[i] = kSlots.symbols[t][state & (kFrequencySum - 1)];
            const u32 next = after(kRates.symbols[t][each[i]], state);
            state = words.take(next, next < kFirstState);
          }
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
      if (escaped != 0 && !Definition::read_escapes(escaped, head.escape_bytes, in, steps)) return false;
    }
    if constexpr (lanes < 16) {
      memcpy(states, x, sizeof x);
    } else {
      join<lanes>(halves, states);
    }
    in.planes = plane_words;
    return words.reserve();
  }
};

using Blocks = Avx512;
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

// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// simd/coder.h for AVX2 and AVX-512: the costs of classes and of sets of tables.
#pragma once

#include <immintrin.h>

#include "codecs/interp/simd/coder_tables.h"

namespace h5lossy::H5L_TARGET::interp::simd {

inline void store_half(void* to, __m256i vector) { _mm256_storeu_si256(static_cast<__m256i*>(to), vector); }

inline __m256i load_half(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
inline __m128i load_quarter(const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); }

// The zigzags of a block without the lowest planes, in order, in 32-bit lanes. Larger ones become 2^32 - 1.
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

// Costs of symbols as bytes, and by how much the byte of an escape is too small.
struct ByteCosts {
  alignas(16) u8 costs[kSymbols];
  alignas(16) u8 missing[kSymbols];
};
inline constexpr auto kByteCosts =
    make_tables<ByteCosts>(kSymbolFrequencies, [](const u16 (&frequencies)[kSymbols], ByteCosts& to) {
      for (u32 s = 0; s < kSymbols; ++s) to.costs[s] = static_cast<u8>(cost_of(frequencies[s]));
      const u32 escape = cost_of(frequencies[kEscape]) + kEscapeCost;
      to.costs[kEscape] = static_cast<u8>(escape / 2);
      to.missing[kEscape] = static_cast<u8>(escape - escape / 2);
    });

inline __m256i twice(const u8 (&table)[kSymbols]) {
  return _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(table)));
}

// Functions that are not here are just as fast as plain loops, which compilers vectorize.
struct VectorCosts : Definition {
  using OwnReading = OwnNearest;
  static void prepare(const u16 (&frequencies)[kSymbols], OwnReading& own) { prepare_own(frequencies, own); }

  template <class I>
  static void cost_candidates(const I* codes, u32 blocks, u32 set, Coding& plan) {
    const __m256i last = _mm256_set1_epi16(kEscape), zero = _mm256_setzero_si256();
    for (u32 b = 0; b < blocks; ++b, codes += kBlockCodes) {
      const u32 first_class = plan.candidates[b];
      plan.costs[b] = zero_costs(set);
      if (first_class == 0) continue;
      __m256i sizes[4];
      numbers_of(codes, plan.raw_planes, sizes);
      // In any order.
      const __m256i first = _mm256_packus_epi32(sizes[0], sizes[1]), second = _mm256_packus_epi32(sizes[2], sizes[3]);
      __m256i costs = zero;
      for (u32 i = kCandidates; i-- > 0;) {
        const u32 c = first_class + i;
        const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(raw_planes_of(c)));
        const __m256i symbols = _mm256_packus_epi16(_mm256_min_epu16(_mm256_srl_epi16(first, shift), last),
                                                    _mm256_min_epu16(_mm256_srl_epi16(second, shift), last));
        const ByteCosts& table = kByteCosts.of[set][table_of(c)];
        const __m256i most = _mm256_sad_epu8(_mm256_shuffle_epi8(twice(table.costs), symbols), zero);
        const __m256i missing = _mm256_sad_epu8(_mm256_shuffle_epi8(twice(table.missing), symbols), zero);
        costs = _mm256_add_epi64(_mm256_slli_epi64(costs, 16), _mm256_add_epi64(most, missing));
      }
      __m128i four = _mm_add_epi64(_mm256_castsi256_si128(costs), _mm256_extracti128_si256(costs, 1));
      four = _mm_add_epi64(four, _mm_unpackhi_epi64(four, four));
      plan.costs[b] = static_cast<u64>(_mm_cvtsi128_si64(four)) + kPlaneCosts.costs[first_class];
    }
  }

  template <class I>
  static void add_symbol_costs(const I* codes, u32 blocks, const Coding& plan, u64 (&costs)[kTableSets],
                               Tally<I>& tally) {
    const __m256i last = _mm256_set1_epi32(kEscape), zero = _mm256_setzero_si256();
    __m256i sums[kTableSets] = {}, items = zero;
    for (u32 b = 0; b < blocks; ++b, codes += kBlockCodes) {
      const u32 c = plan.classes[b];
      if (c == 0) continue;
      const u32 planes = plan.raw_planes + raw_planes_of(c);
      __m256i rests[4];
      numbers_of(codes, planes, rests);
      const __m256i most = _mm256_max_epu32(_mm256_max_epu32(rests[0], rests[1]), _mm256_max_epu32(rests[2], rests[3]));
      for (__m256i& rest : rests) rest = _mm256_min_epu32(rest, last);
      // In any order.
      const __m256i symbols =
          _mm256_packus_epi16(_mm256_packus_epi32(rests[0], rests[1]), _mm256_packus_epi32(rests[2], rests[3]));
      const __m256i is_escape = _mm256_cmpeq_epi8(symbols, _mm256_set1_epi8(static_cast<char>(kEscape)));
      if constexpr (sizeof(I) == 4) {  // no branch, since escapes are unpredictable; the highest bits of items suffice
        const __m256i is_item = _mm256_cmpeq_epi32(_mm256_min_epu32(most, last), last);
        const __m256i some = _mm256_sll_epi32(most, _mm_cvtsi32_si128(static_cast<int>(planes)));
        items = _mm256_or_si256(items, _mm256_and_si256(is_item, some));
        tally.escapes += count_ones(static_cast<u32>(_mm256_movemask_epi8(is_escape)));
      } else if (_mm256_testz_si256(is_escape, is_escape) == 0) {
        count_escapes(codes, planes, tally);
      }
      const auto& tables = kSetCosts.costs[table_of(c)];
      for (u32 set = 0; set < kTableSets; ++set) {
        const __m256i table = _mm256_load_si256(reinterpret_cast<const __m256i*>(tables[set]));
        sums[set] = _mm256_add_epi64(sums[set], _mm256_sad_epu8(_mm256_shuffle_epi8(table, symbols), zero));
      }
    }
    u32 each[8];
    store_half(each, items);
    for (const u32 item : each) tally.items |= item;
    for (u32 set = 0; set < kTableSets; ++set) {
      const __m128i two = _mm_add_epi64(_mm256_castsi256_si128(sums[set]), _mm256_extracti128_si256(sums[set], 1));
      costs[set] += static_cast<u64>(_mm_cvtsi128_si64(_mm_add_epi64(two, _mm_unpackhi_epi64(two, two))));
    }
  }
};

}  // namespace h5lossy::H5L_TARGET::interp::simd

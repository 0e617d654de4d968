// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Costs of a tile's symbols in each set of tables, for simd/coder.h. With AVX2, also in the backend of AVX-512.
#pragma once

#include <immintrin.h>

#include "codecs/interp/coder.h"

namespace h5lossy::H5L_TARGET::interp::simd {

// Definition::add_symbol_costs, 32 symbols at a time.
inline void add_symbol_costs(const i32* codes, u32 blocks, const Coding& plan, u64 (&costs)[kTableSets],
                             Tally<i32>& tally) {
  const __m256i last = _mm256_set1_epi32(kEscape), zero = _mm256_setzero_si256();
  __m256i sums[kTableSets] = {};
  for (u32 b = 0; b < blocks; ++b, codes += kBlockCodes) {
    const u32 c = plan.classes[b];
    if (c == 0) continue;
    const u32 raw_planes = plan.raw_planes + raw_planes_of(c);
    const __m128i planes = _mm_cvtsi32_si128(static_cast<int>(raw_planes));
    const auto eight = [&](u32 first) {
      const __m256i code = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + first));
      const __m256i number = _mm256_xor_si256(_mm256_slli_epi32(code, 1), _mm256_srai_epi32(code, 31));
      return _mm256_min_epu32(_mm256_srl_epi32(number, planes), last);
    };
    // In any order.
    const __m256i symbols =
        _mm256_packus_epi16(_mm256_packus_epi32(eight(0), eight(8)), _mm256_packus_epi32(eight(16), eight(24)));
    const __m256i is_escape = _mm256_cmpeq_epi8(symbols, _mm256_set1_epi8(static_cast<char>(kEscape)));
    if (_mm256_testz_si256(is_escape, is_escape) == 0) count_escapes(codes, raw_planes, tally);
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

inline void add_symbol_costs(const i64* codes, u32 blocks, const Coding& plan, u64 (&costs)[kTableSets],
                             Tally<i64>& tally) {
  Definition::add_symbol_costs(codes, blocks, plan, costs, tally);
}

}  // namespace h5lossy::H5L_TARGET::interp::simd

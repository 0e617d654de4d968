// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// simd/coder.h for AVX-512.
#pragma once

#include "codecs/interp/simd/coder_costs_avx2.h"

namespace h5lossy::H5L_TARGET::interp::simd {

inline __m512i zigzag_lanes(__m512i codes, i32) {
  return _mm512_xor_si512(_mm512_slli_epi32(codes, 1), _mm512_srai_epi32(codes, 31));
}
inline __m512i zigzag_lanes(__m512i codes, i64) {
  return _mm512_xor_si512(_mm512_slli_epi64(codes, 1), _mm512_srai_epi64(codes, 63));
}

// The zigzags of a block in 16-bit lanes; larger ones become 65535.
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

// Transposes squares of 8 x 8 bits, whose rows are bytes in reverse order: gf2p8affine takes the data as its matrix.
inline __m512i transpose_squares(__m512i squares) {
  const __m512i identity = _mm512_set1_epi64(static_cast<i64>(0x8040201008040201ull));
  return _mm512_gf2p8affine_epi64_epi8(identity, squares, 0);
}

struct Bytes64 {
  alignas(64) u8 sources[64];
};
// The moves of bytes for this, by destination. Halves: of each 16 bytes, the low bytes of 8 numbers, then their high
// bytes.
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

// The 16 planes of 32 16-bit numbers.
inline __m512i to_planes(__m512i numbers) {
  const __m512i squares = _mm512_shuffle_epi8(numbers, _mm512_load_si512(kHalvesOfNumbers.sources));
  return _mm512_permutexvar_epi8(_mm512_load_si512(kPlanesOfHalves.sources), transpose_squares(squares));
}

inline __m512i from_planes(__m512i planes) {
  const __m512i squares = _mm512_permutexvar_epi8(_mm512_load_si512(kHalvesOfPlanes.sources), planes);
  return _mm512_shuffle_epi8(transpose_squares(squares), _mm512_load_si512(kNumbersOfHalves.sources));
}

struct Avx512 : VectorCosts {
  // Encodes one symbol for each of 16 lanes; writes the words of lanes that are full before the existing ones.
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
    __m512i quotients = _mm512_srlv_epi32(_mm512_mask_mov_epi32(even, 0xAAAA, odd), look_up(rates.shifts));
    const __m512i complements = look_up(rates.complements);
    if (!rates.are_exact) [[unlikely]] {
      const __m512i frequencies = _mm512_sub_epi32(_mm512_set1_epi32(kFrequencySum), complements);
      const __m512i rests = _mm512_sub_epi32(x, _mm512_mullo_epi32(quotients, frequencies));
      quotients = _mm512_add_epi32(quotients, _mm512_srai_epi32(rests, 31));
    }
    states = _mm512_add_epi32(_mm512_add_epi32(x, look_up(rates.sums)), _mm512_mullo_epi32(quotients, complements));
  }

  template <u32 lanes, class I>
  static void write_blocks(const I* codes, u32 blocks, const Coding& plan, u32* states, Output& out) {
    if (most_planes(plan) > kMostSmallPlanes) {
      Definition::write_blocks<lanes>(codes, blocks, plan, states, out);
      return;
    }
    LaneRates own[1];
    if (plan.has_own_table) make_lane_rates(plan.own_table, own[0]);
    const LaneRates* const tables = plan.has_own_table ? own : kLaneRates.of[plan.set];
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
          const LaneRates& rates = tables[table_of(c)];
          const __m512i first = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(symbols));
          const __m512i second = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(symbols, 1));
          push_lanes(rates, second, lanes == 32 ? high : low, words);
          push_lanes(rates, first, low, words);
        } else {
          alignas(64) u16 each[kBlockCodes];
          _mm512_store_si512(each, symbols);
          Definition::push_symbols<lanes>(kRates.of[plan.set][table_of(c)], each, x, words);
        }
        u32 escaped = _mm512_cmpeq_epi16_mask(symbols, _mm512_set1_epi16(kEscape));
        if (escaped != 0) [[unlikely]] {
          numbers = _mm512_maskz_mov_epi16(~escaped, numbers);
          for (; escaped != 0; escaped &= ~(1u << (31 - count_leading_zeros(escaped)))) {
            const I code = block[31 - count_leading_zeros(escaped)];
            out.escapes = write_escape(zigzag(static_cast<Unsigned<I>>(code)), plan.escape_bytes, out.escapes);
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

  // The states of up to 32 lanes, as halves.
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

  // Decodes one symbol for each lane.
  template <u32 lanes>
  static __m512i take_symbols(const Nearest& nearest, States& states, const u8*& next) {
    const __m512i start = _mm512_slli_epi16(states.low, 5);  // drops the higher bits of the state
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
  static bool read_blocks(const Head& head, const OwnReading& own, const u8* classes, u32 first, u32 end, u32 unit_bits,
                          u32* states, Words& words, Input& in, I* steps, EscapeList& escapes) {
    if (most_planes(head) > kMostSmallPlanes) {
      return Definition::read_blocks<lanes>(head, own, classes, first, end, unit_bits, states, words, in, steps,
                                            escapes);
    }
    const Nearest* const tables = head.has_own_table ? own.nearest : kNearest.of[head.set];
    u32 x[lanes];
    memcpy(x, states, sizeof x);
    States halves = split<lanes>(states);
    const u8* plane_words = in.planes;
    const u8* next = words.next();
    steps += u64{first} * kBlockCodes;
    for (u32 b = first; b < end; ++b, steps += kBlockCodes) {
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
        const Nearest& nearest = tables[table_of(c)];
        __m512i symbols;
        if constexpr (lanes == 32) {
          symbols = take_symbols<32>(nearest, halves, next);
        } else if constexpr (lanes == 16) {
          const __m512i front = take_symbols<16>(nearest, halves, next);
          const __m512i back = take_symbols<16>(nearest, halves, next);
          symbols = _mm512_inserti64x4(front, _mm512_castsi512_si256(back), 1);
        } else {
          alignas(64) u16 each[kBlockCodes];
          Definition::read_symbols<lanes>(kSlots.of[head.set][table_of(c)], x, next, each);
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

}  // namespace h5lossy::H5L_TARGET::interp::simd

// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// simd/coder.h for AVX2.
#pragma once

#include "codecs/interp/simd/coder_costs_avx2.h"

namespace h5lossy::H5L_TARGET::interp::simd {

// For each mask of eight 16-bit words: a byte shuffle that moves the words in the mask to the end, and its inverse,
// which takes them from the beginning and puts zeros between them.
struct WordShuffles {
  alignas(64) u8 to_end[256][16], expanded[256][16];
};
inline constexpr WordShuffles kWordShuffles = [] {
  WordShuffles shuffles = {};
  for (u32 mask = 0; mask < 256; ++mask) {
    u32 taken = 0, to = 8;
    for (u32 i = 0; i < 8; ++i) to -= mask >> i & 1;
    for (u32 i = 0; i < 8; ++i) {
      const bool is_taken = (mask >> i & 1) != 0;
      for (u32 byte = 0; byte < 2; ++byte) {
        if (is_taken) shuffles.to_end[mask][2 * (to + taken) + byte] = static_cast<u8>(2 * i + byte);
        shuffles.expanded[mask][2 * i + byte] = static_cast<u8>(is_taken ? 2 * taken + byte : 0x80);
      }
      taken += is_taken ? 1 : 0;
    }
  }
  return shuffles;
}();

// Tables of 32-bit numbers, each as four tables of bytes.
struct ByteRates {
  alignas(16) u8 reciprocals[4][kSymbols];
  alignas(16) u8 others[4][kSymbols];  // frequency << 21 | shift << 12 | sum
  bool are_exact;
};
constexpr void make_byte_rates(const u16 (&frequencies)[kSymbols], ByteRates& to) {
  LaneRates rates = {};
  make_lane_rates(frequencies, rates);
  to.are_exact = rates.are_exact;
  for (u32 s = 0; s < kSymbols; ++s) {
    const u32 other = rates.limits[s] | rates.shifts[s] << 12 | rates.sums[s];
    for (u32 i = 0; i < 4; ++i) {
      to.reciprocals[i][s] = static_cast<u8>(rates.reciprocals[s] >> 8 * i);
      to.others[i][s] = static_cast<u8>(other >> 8 * i);
    }
  }
}
inline constexpr auto kByteRates = make_tables(kSymbolFrequencies, make_byte_rates);

// Looks up the 32-bit numbers of 32 symbols, eight per vector. The symbols are bytes; those of even vectors are in the
// lower half.
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

struct Avx2 : VectorCosts {
  // Encodes one symbol for each of eight lanes.
  static void push_lanes(__m256i reciprocals, __m256i others, bool are_exact, __m256i& states, u8*& words) {
    __m256i x = states;
    const __m256i frequencies = _mm256_srli_epi32(others, 21);
    const __m256i fits = _mm256_cmpgt_epi32(frequencies, _mm256_srli_epi32(x, 21));
    const u32 full = static_cast<u32>(~_mm256_movemask_ps(_mm256_castsi256_ps(fits))) & 0xFF;
    const __m256i low = _mm256_and_si256(x, _mm256_set1_epi32(0xFFFF));
    const __m128i packed = _mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(words - 16),
                     _mm_shuffle_epi8(packed, load_quarter(kWordShuffles.to_end[full])));
    words -= count_ones(full) * kWordBytes;
    x = _mm256_blendv_epi8(_mm256_srli_epi32(x, 16), x, fits);
    const __m256i even = _mm256_srli_epi64(_mm256_mul_epu32(x, reciprocals), 32);
    const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(x, 32), _mm256_srli_epi64(reciprocals, 32));
    const __m256i shifts = _mm256_and_si256(_mm256_srli_epi32(others, 12), _mm256_set1_epi32(15));
    __m256i quotients = _mm256_srlv_epi32(_mm256_blend_epi32(even, odd, 0xAA), shifts);
    if (!are_exact) [[unlikely]] {
      const __m256i rests = _mm256_sub_epi32(x, _mm256_mullo_epi32(quotients, frequencies));
      quotients = _mm256_add_epi32(quotients, _mm256_srai_epi32(rests, 31));
    }
    const __m256i sums = _mm256_and_si256(others, _mm256_set1_epi32(0xFFF));
    const __m256i complements = _mm256_sub_epi32(_mm256_set1_epi32(kFrequencySum), frequencies);
    states = _mm256_add_epi32(_mm256_add_epi32(x, sums), _mm256_mullo_epi32(quotients, complements));
  }

  template <u32 lanes, class I>
  static void write_blocks(const I* codes, u32 blocks, const Coding& plan, u32* states, Output& out) {
    if (most_planes(plan) > kMostSmallPlanes) {
      Definition::write_blocks<lanes>(codes, blocks, plan, states, out);
      return;
    }
    ByteRates own[1];
    if (plan.has_own_table) make_byte_rates(plan.own_table, own[0]);
    const ByteRates* const tables = plan.has_own_table ? own : kByteRates.of[plan.set];
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
          const ByteRates& rates = tables[table_of(c)];
          __m256i reciprocals[4], others[4];
          look_up(rates.reciprocals, symbols, reciprocals);
          look_up(rates.others, symbols, others);
          for (u32 i = 4; i-- > 0;) push_lanes(reciprocals[i], others[i], rates.are_exact, vectors[i % parts], words);
        } else {
          u8 each[kBlockCodes];
          store_half(each, in_order);
          Definition::push_symbols<lanes>(kRates.of[plan.set][table_of(c)], each, x, words);
        }
        escaped = static_cast<u32>(
            _mm256_movemask_epi8(_mm256_cmpeq_epi8(in_order, _mm256_set1_epi8(static_cast<char>(kEscape)))));
        for (u32 rest = escaped; rest != 0; rest &= ~(1u << (31 - count_leading_zeros(rest)))) [[unlikely]] {
          const I code = block[31 - count_leading_zeros(rest)];
          out.escapes = write_escape(zigzag(static_cast<Unsigned<I>>(code)), plan.escape_bytes, out.escapes);
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

  // The states of 16 lanes, as halves.
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

  // Gives 16 lanes their next words. Bits 0-7 and 16-23 of the mask tell which lanes.
  static void refill(u32 mask, States& states, const u8*& next) {
    const auto eight = [&next](u32 which) {
      const __m128i words = _mm_shuffle_epi8(load_quarter(next), load_quarter(kWordShuffles.expanded[which]));
      next += count_ones(which) * kWordBytes;
      return words;
    };
    const __m128i low = eight(mask & 0xFF), high = eight(mask >> 16 & 0xFF);
    states.low = _mm256_or_si256(states.low, _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1));
  }

  // The symbol of each slot, and 32 times the position of the slot among those of the symbol.
  H5L_INLINE static __m256i find_symbols(const Nearest& nearest, __m256i states_low) {
    const __m256i start = _mm256_slli_epi16(states_low, 5);  // drops the higher bits of the state
    const auto quarter = [&](u32 i) {
      return _mm256_add_epi16(start, _mm256_set1_epi32(static_cast<int>(nearest.quarters[i])));
    };
    const __m256i four =
        _mm256_min_epu16(_mm256_min_epu16(start, quarter(0)), _mm256_min_epu16(quarter(1), quarter(2)));
    // The byte positions of the next three symbols: 4n, 4n + 1.
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

  // Decodes one symbol for each lane; there are 16 or 32.
  template <u32 kHalves>
  H5L_INLINE static void take_symbols(const Nearest& nearest, States (&states)[kHalves], __m256i* symbols,
                                      const u8*& next) {
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

  // The raw bits of a block as bytes: those of at most 8 planes from `first` on.
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
  static bool read_blocks(const Head& head, const OwnReading& own, const u8* classes, u32 first, u32 end, u32 unit_bits,
                          u32* states, Words& words, Input& in, I* steps, EscapeList& escapes) {
    if (most_planes(head) > kMostSmallPlanes) {
      return Definition::read_blocks<lanes>(head, own, classes, first, end, unit_bits, states, words, in, steps,
                                            escapes);
    }
    const Nearest* const tables = head.has_own_table ? own.nearest : kNearest.of[head.set];
    u32 x[lanes];
    memcpy(x, states, sizeof x);
    constexpr u32 halves = lanes == 32 ? 2 : 1;
    States parts[halves];
    for (u32 i = 0; i < halves && lanes >= 16; ++i) parts[i] = split(states + 16 * i);
    const u8* plane_words = in.planes;
    const u8* next = words.next();
    steps += u64{first} * kBlockCodes;
    for (u32 b = first; b < end; ++b, steps += kBlockCodes) {
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
        const Nearest& nearest = tables[table_of(c)];
        if constexpr (lanes == 32) {
          take_symbols(nearest, parts, numbers, next);
        } else if constexpr (lanes == 16) {
          take_symbols(nearest, parts, numbers, next);
          take_symbols(nearest, parts, numbers + 1, next);
        } else {
          alignas(32) u16 each[kBlockCodes];
          Definition::read_symbols<lanes>(kSlots.of[head.set][table_of(c)], x, next, each);
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

}  // namespace h5lossy::H5L_TARGET::interp::simd

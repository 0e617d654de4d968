// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// A block's words (simd/block_rows.h) to planes (codecs/blocks.h), and planes to bins, sixteen planes at a time; words
// of float64 are two halves of 32 bits. A difference rarely has more than 16 bits, so that case is the fast path.
#pragma once

#include "codecs/blocks.h"
#include "codecs/portable.h"
#include "codecs/simd/block_rows.h"

#if defined(H5L_ROWS_AVX512)
#include "codecs/simd/permute.h"
#endif

namespace h5lossy::H5L_TARGET::simd {

#if defined(H5L_ROWS_VECTOR)

// 16-bit words of a block.
template <u32 n>
using ShortRows = Rows<n, u16>;

#if defined(H5L_ROWS_AVX512)

// The two lowest bytes of each of 32 words: first all lowest ones, then the others.
inline constexpr Permutation kBytePairs = permutation([](u32 i) { return i % 32 * 4 + i / 32; });

// From matrices of eight words to planes, for 32 words with 16 planes and 64 words with 8; and back. GFNI numbers the
// bytes of a matrix from the last one.
template <u32 n>
inline constexpr Permutation kPlanesOfEights = permutation([](u32 i) {
  const u32 plane = i / (n / 8), eight = i % (n / 8);
  return (plane / 8 * (n / 8) + eight) * 8 + plane % 8;
});

template <u32 n>
inline constexpr Permutation kEightsOfPlanes = permutation([](u32 i) {
  const u32 eight = i / 8 % (n / 8), plane = i / n * 8 + 7 - i % 8;
  return plane * (n / 8) + eight;
});

// Interleaves bytes i and 32 + i, or with two vectors i and 64 + i.
inline constexpr Permutation kHalvesMixed = permutation([](u32 i) { return i / 2 + i % 2 * 32; });
inline constexpr Permutation kLowMixed = permutation([](u32 i) { return i / 2 + i % 2 * 64; });
inline constexpr Permutation kHighMixed = permutation([](u32 i) { return 32 + i / 2 + i % 2 * 64; });

// `first` is or-ed into the first word.
template <u32 n>
H5L_ROWS_FN void store_matrices(__m512i bytes, u32 first, u8* out) {
  const __m512i identity = _mm512_set1_epi64(static_cast<i64>(0x8040201008040201ull));
  const __m512i rows = permute(kPlanesOfEights<n>, _mm512_gf2p8affine_epi64_epi8(identity, bytes, 0));
  const __m512i first_bit = _mm512_set1_epi64(0x80);
  if constexpr (n == 32) {
    const __m512i first_bits = _mm512_or_si512(first_bit, _mm512_slli_epi64(first_bit, 32));
    _mm512_storeu_si512(out, _mm512_mask_or_epi32(rows, static_cast<__mmask16>(first), rows, first_bits));
  } else {
    _mm512_storeu_si512(out, _mm512_mask_or_epi64(rows, static_cast<__mmask8>(first), rows, first_bit));
  }
}

// Writes all of the planes first to first + 15.
template <u32 first, u32 n>
H5L_ROWS_FN void store_sixteen(const Rows<n, u32>& words, u32 first_word, u8* out) {
  const u32 more = first_word >> first;
  const __m512i from = _mm512_add_epi8(_mm512_load_si512(kBytePairs.sources), _mm512_set1_epi8(first / 8));
  const __m512i bytes = _mm512_permutex2var_epi8(raw<u32>(words.at[0]), from, raw<u32>(words.at[1]));
  if constexpr (n == 32) {
    store_matrices<n>(bytes, more, out);
  } else {
    const __m512i others = _mm512_permutex2var_epi8(raw<u32>(words.at[2]), from, raw<u32>(words.at[3]));
    store_matrices<n>(_mm512_inserti64x4(bytes, _mm512_castsi512_si256(others), 1), more, out);
    store_matrices<n>(_mm512_shuffle_i64x2(bytes, others, 0xEE), more >> 8, out + 64);
  }
}

template <u32 n>
H5L_ROWS_FN __m512i load_matrices(const u8* from, u32 planes) {
  const __m512i mirror = _mm512_set1_epi64(static_cast<i64>(0x0102040810204080ull));
  __m512i rows;
  if constexpr (n == 32) {
    rows = _mm512_maskz_loadu_epi32(static_cast<__mmask16>(_bzhi_u32(0xFFFF, planes)), from);
  } else {
    rows = _mm512_maskz_loadu_epi64(static_cast<__mmask8>(_bzhi_u32(0xFF, planes)), from);
  }
  return _mm512_gf2p8affine_epi64_epi8(mirror, permute(kEightsOfPlanes<n>, rows), 0);
}

// Loads up to 16 planes.
template <u32 n>
H5L_ROWS_FN ShortRows<n> load_sixteen(const u8* from, u32 planes) {
  ShortRows<n> rows;
  const __m512i bytes = load_matrices<n>(from, planes);
  if constexpr (n == 32) {
    rows.at[0] = row_of<u16>(permute(kHalvesMixed, bytes));
  } else {
    const __m512i upper = load_matrices<n>(from + 64, planes < 8 ? 0 : planes - 8);
    rows.at[0] = row_of<u16>(_mm512_permutex2var_epi8(bytes, _mm512_load_si512(kLowMixed.sources), upper));
    rows.at[1] = row_of<u16>(_mm512_permutex2var_epi8(bytes, _mm512_load_si512(kHighMixed.sources), upper));
  }
  return rows;
}

// Clears the first word if `keep_first` is false.
template <u32 n>
H5L_ROWS_FN ShortRows<n> from_sign_last(ShortRows<n> rows, bool keep_first) {
#pragma GCC unroll 4
  for (u32 r = 0; r < rows.count; ++r) {
    const __mmask32 kept = r == 0 ? ~__mmask32{0} << (keep_first ? 0 : 1) : ~__mmask32{0};
    const __m512i word = raw<u16>(rows.at[r]);
    const __mmask32 negative = _mm512_test_epi16_mask(word, _mm512_set1_epi16(1));
    const __m512i magnitude = _mm512_maskz_srli_epi16(kept, word, 1);
    rows.at[r] = row_of<u16>(_mm512_mask_sub_epi16(magnitude, negative, _mm512_setzero_si512(), magnitude));
  }
  return rows;
}

template <u32 half, class W>
H5L_ROWS_FN __m256i half_of(Vector<W> row) {
  return half == 0 ? _mm512_castsi512_si256(raw<W>(row)) : _mm512_extracti64x4_epi64(raw<W>(row), 1);
}

// Widens one half of a row to words of twice the size.
template <u32 half>
H5L_ROWS_FN Vector<u32> sign_extend(Vector<u16> row) {
  return row_of<u32>(_mm512_cvtepi16_epi32(half_of<half, u16>(row)));
}
template <u32 half>
H5L_ROWS_FN Vector<u64> sign_extend(Vector<u32> row) {
  return row_of<u64>(_mm512_cvtepi32_epi64(half_of<half, u32>(row)));
}
template <u32 half>
H5L_ROWS_FN Vector<u32> zero_extend(Vector<u16> row) {
  return row_of<u32>(_mm512_cvtepu16_epi32(half_of<half, u16>(row)));
}
template <u32 half>
H5L_ROWS_FN Vector<u64> zero_extend(Vector<u32> row) {
  return row_of<u64>(_mm512_cvtepu32_epi64(half_of<half, u32>(row)));
}

// The lower (0) or upper (1) halves of two rows.
template <u32 half>
H5L_ROWS_FN Vector<u32> halves(Vector<u64> a, Vector<u64> b) {
  constexpr static auto from = places<u32>([](u32 lane) { return 2 * lane + half; });
  return permute<u32>(from, row_of<u32>(raw<u64>(a)), row_of<u32>(raw<u64>(b)));
}

#else

// In each eight bytes, bit b of byte j goes to bit 7 - j of byte 7 - b. Its own inverse. Works on squares as
// transpose_level does.
H5L_ROWS_FN __m256i transpose_eights(__m256i bytes) {
  Vector<u64> x = row_of<u64>(bytes);
  Vector<u64> swapped = (x ^ x >> 9) & 0x0055005500550055ull;
  x ^= swapped ^ swapped << 9;
  swapped = (x ^ x >> 18) & 0x0000333300003333ull;
  x ^= swapped ^ swapped << 18;
  swapped = (x ^ x >> 36) & 0x000000000F0F0F0Full;
  x ^= swapped ^ swapped << 36;
  return raw<u64>(x);
}

H5L_ROWS_FN void store_half(u8* out, __m128i half) { _mm_storeu_si128(reinterpret_cast<__m128i*>(out), half); }

// In each half of 16 bytes, interleaves the bytes of its two eights, last ones first.
H5L_ROWS_FN __m256i mix_eights(__m256i bytes) {
  return _mm256_shuffle_epi8(
      bytes, _mm256_broadcastsi128_si256(_mm_setr_epi8(7, 15, 6, 14, 5, 13, 4, 12, 3, 11, 2, 10, 1, 9, 0, 8)));
}

// Stores eight planes of a block's bytes.
H5L_ROWS_FN void store_eight(const __m256i (&bytes)[1], u8* out) {
  const __m256i pairs = mix_eights(transpose_eights(bytes[0]));
  const __m128i low = _mm256_castsi256_si128(pairs), high = _mm256_extracti128_si256(pairs, 1);
  store_half(out, _mm_unpacklo_epi16(low, high));
  store_half(out + 16, _mm_unpackhi_epi16(low, high));
}

H5L_ROWS_FN void store_eight(const __m256i (&bytes)[2], u8* out) {
  __m128i fours[2][2];
#pragma GCC unroll 2
  for (u32 i = 0; i < 2; ++i) {
    const __m256i pairs = mix_eights(transpose_eights(bytes[i]));
    const __m128i low = _mm256_castsi256_si128(pairs), high = _mm256_extracti128_si256(pairs, 1);
    fours[i][0] = _mm_unpacklo_epi16(low, high);
    fours[i][1] = _mm_unpackhi_epi16(low, high);
  }
#pragma GCC unroll 2
  for (u32 i = 0; i < 2; ++i) {
    store_half(out + 32 * i, _mm_unpacklo_epi32(fours[0][i], fours[1][i]));
    store_half(out + 32 * i + 16, _mm_unpackhi_epi32(fours[0][i], fours[1][i]));
  }
}

// Writes `planes` planes from `first` on, up to first + 15; may write more.
template <u32 first, u32 n>
H5L_ROWS_FN void store_sixteen(const Rows<n, u32>& words, u32 planes, u8* out) {
  const __m256i low_byte = _mm256_set1_epi16(0xFF);
  const __m256i in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  __m256i bytes[n / 32], upper[n / 32];
#pragma GCC unroll 2
  for (u32 i = 0; i < n / 32; ++i) {
    __m256i shorts[4];
#pragma GCC unroll 4
    for (u32 j = 0; j < 4; ++j) {
      const Vector<u32> word = words.at[4 * i + j];
      shorts[j] = raw<u32>(first == 0 ? word & 0xFFFF : word >> 16);
    }
    const __m256i a = _mm256_packus_epi32(shorts[0], shorts[1]), b = _mm256_packus_epi32(shorts[2], shorts[3]);
    bytes[i] = _mm256_permutevar8x32_epi32(
        _mm256_packus_epi16(_mm256_and_si256(a, low_byte), _mm256_and_si256(b, low_byte)), in_order);
    upper[i] =
        _mm256_permutevar8x32_epi32(_mm256_packus_epi16(_mm256_srli_epi16(a, 8), _mm256_srli_epi16(b, 8)), in_order);
  }
  store_eight(bytes, out);
  if (planes > first + 8) store_eight(upper, out + n);
}

H5L_ROWS_FN __m256i load_words(const u8* from, u32 words) {
  const __m256i kept =
      _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<i32>(words)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  return _mm256_maskload_epi32(reinterpret_cast<const int*>(from), kept);
}

// Loads the bytes of a block from up to eight planes; in each vector, the four eights are in the order 0, 2, 1, 3.
H5L_ROWS_FN void load_eight(const u8* from, u32 planes, __m256i (&bytes)[1]) {
  const __m256i columns = _mm256_shuffle_epi8(
      load_words(from, planes),
      _mm256_broadcastsi128_si256(_mm_setr_epi8(12, 8, 4, 0, 13, 9, 5, 1, 14, 10, 6, 2, 15, 11, 7, 3)));
  bytes[0] = transpose_eights(_mm256_permutevar8x32_epi32(columns, _mm256_setr_epi32(4, 0, 6, 2, 5, 1, 7, 3)));
}

H5L_ROWS_FN void load_eight(const u8* from, u32 planes, __m256i (&bytes)[2]) {
  const __m256i mixed =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(8, 0, 9, 1, 10, 2, 11, 3, 12, 4, 13, 5, 14, 6, 15, 7));
  __m128i low[2], high[2];
#pragma GCC unroll 2
  for (u32 i = 0; i < 2; ++i) {
    const u32 left = planes < 4 * i ? 0 : planes - 4 * i;
    const __m256i pairs = _mm256_shuffle_epi8(load_words(from + 32 * i, 2 * left), mixed);
    const __m128i first = _mm256_castsi256_si128(pairs), second = _mm256_extracti128_si256(pairs, 1);
    low[i] = _mm_unpacklo_epi16(second, first);
    high[i] = _mm_unpackhi_epi16(second, first);
  }
#pragma GCC unroll 2
  for (u32 i = 0; i < 2; ++i) {
    const __m128i lower = i == 0 ? low[0] : high[0], upper = i == 0 ? low[1] : high[1];
    const __m256i pairs = _mm256_set_m128i(_mm_unpackhi_epi32(upper, lower), _mm_unpacklo_epi32(upper, lower));
    bytes[i] = transpose_eights(_mm256_permute4x64_epi64(pairs, 0xD8));
  }
}

// Loads up to 16 planes.
template <u32 n>
H5L_ROWS_FN ShortRows<n> load_sixteen(const u8* from, u32 planes) {
  ShortRows<n> rows;
  __m256i bytes[n / 32], upper[n / 32] = {};
  load_eight(from, planes < 8 ? planes : 8, bytes);
  if (planes > 8) load_eight(from + n, planes < 16 ? planes - 8 : 8, upper);
#pragma GCC unroll 2
  for (u32 i = 0; i < n / 32; ++i) {
    rows.at[2 * i] = row_of<u16>(_mm256_unpacklo_epi8(bytes[i], upper[i]));
    rows.at[2 * i + 1] = row_of<u16>(_mm256_unpackhi_epi8(bytes[i], upper[i]));
  }
  return rows;
}

template <u32 n>
H5L_ROWS_FN ShortRows<n> from_sign_last(ShortRows<n> rows, bool keep_first) {
#pragma GCC unroll 4
  for (u32 r = 0; r < rows.count; ++r) rows.at[r] = from_sign_last<u16>(rows.at[r]);
  return keep_first ? rows : with_first(rows, u16{0});
}

template <u32 half, class W>
H5L_ROWS_FN __m128i half_of(Vector<W> row) {
  return half == 0 ? _mm256_castsi256_si128(raw<W>(row)) : _mm256_extracti128_si256(raw<W>(row), 1);
}

// Widens one half of a row to words of twice the size.
template <u32 half>
H5L_ROWS_FN Vector<u32> sign_extend(Vector<u16> row) {
  return row_of<u32>(_mm256_cvtepi16_epi32(half_of<half, u16>(row)));
}
template <u32 half>
H5L_ROWS_FN Vector<u64> sign_extend(Vector<u32> row) {
  return row_of<u64>(_mm256_cvtepi32_epi64(half_of<half, u32>(row)));
}
template <u32 half>
H5L_ROWS_FN Vector<u32> zero_extend(Vector<u16> row) {
  return row_of<u32>(_mm256_cvtepu16_epi32(half_of<half, u16>(row)));
}
template <u32 half>
H5L_ROWS_FN Vector<u64> zero_extend(Vector<u32> row) {
  return row_of<u64>(_mm256_cvtepu32_epi64(half_of<half, u32>(row)));
}

template <u32 half>
H5L_ROWS_FN Vector<u32> halves(Vector<u64> a, Vector<u64> b) {
  const __m256 x = _mm256_castsi256_ps(raw<u64>(a)), y = _mm256_castsi256_ps(raw<u64>(b));
  const __m256 both = _mm256_shuffle_ps(x, y, half == 0 ? 0x88 : 0xDD);
  return row_of<u32>(_mm256_permute4x64_epi64(_mm256_castps_si256(both), 0xD8));
}

#endif

// ---------------------------------------------------------------------------------------------------------------------
// To planes

// Planes are written up to 16 at a time: this many bytes after the last one may be overwritten.
inline constexpr u32 kPlanesOverrun = 128;

template <u32 n>
H5L_ROWS_FN void store_words(const Rows<n, u32>& words, u32 first, u32 planes, u8* out) {
#if defined(H5L_ROWS_AVX512)
  store_sixteen<0>(words, first, out);
  if (planes > 16) store_sixteen<16>(words, first, out + 2 * n);
#else
  const Rows<n, u32> all = with_more(words, first);
  store_sixteen<0>(all, planes, out);
  if (planes > 16) store_sixteen<16>(all, planes, out + 2 * n);
#endif
}

template <u32 half, u32 n, u32 r = 0>
H5L_ROWS_FN void halves(const Rows<n, u64>& words, Rows<n, u32>& result) {
  result.at[r] = halves<half>(words.at[2 * r], words.at[2 * r + 1]);
  if constexpr (r + 1 < Rows<n, u32>::count) halves<half, n, r + 1>(words, result);
}

template <u32 n>
H5L_ROWS_FN u8* store_planes(const Rows<n, u32>& words, u32 first, u32 planes, u8* out) {
  store_words(words, first, planes, out);
  return out + planes * (n / 8);
}

template <u32 n>
H5L_ROWS_FN u8* store_planes(const Rows<n, u64>& words, u64 first, u32 planes, u8* out) {
  Rows<n, u32> part;
  halves<0>(words, part);
  store_words(part, static_cast<u32>(first), planes, out);
  if (planes > 32) {
    halves<1>(words, part);
    store_words(part, static_cast<u32>(first >> 32), planes - 32, out + 4 * n);
  }
  return out + planes * (n / 8);
}

// Writes the lowest `planes` bits of the words as planes; returns their end.
template <u32 n, class W>
H5L_ROWS_FN u8* store_planes(const Rows<n, W>& words, u32 planes, u8* out) {
  return store_planes<n>(words, W{0}, planes, out);
}

// The same, with the first word masked by `first_mask`, which is applied last because it is computed last.
template <u32 n, class W>
H5L_ROWS_FN u8* store_planes_masked(const Rows<n, W>& words, W first_mask, u32 planes, u8* out) {
  return store_planes<n>(with_first(words, W{0}), static_cast<W>(first_of(words) & first_mask), planes, out);
}

// ---------------------------------------------------------------------------------------------------------------------
// From planes

// Half is u16 for u32, or u32 for u64.
template <u32 r = 0, u32 n, class Half, class W>
H5L_ROWS_FN void sign_extend_rows(const Rows<n, Half>& from, Rows<n, W>& rows) {
  rows.at[r] = sign_extend<r % 2>(from.at[r / 2]);
  if constexpr (r + 1 < Rows<n, W>::count) sign_extend_rows<r + 1>(from, rows);
}

template <u32 r = 0, u32 n, class Half, class W>
H5L_ROWS_FN void join_rows(const Rows<n, Half>& low, const Rows<n, Half>& high, Rows<n, W>& rows) {
  rows.at[r] = zero_extend<r % 2>(low.at[r / 2]) | zero_extend<r % 2>(high.at[r / 2]) << kWordBits<Half>;
  if constexpr (r + 1 < Rows<n, W>::count) join_rows<r + 1>(low, high, rows);
}

// Loads the words of up to 32 planes.
template <u32 n>
H5L_ROWS_FN Rows<n, u32> load_words(const u8* from, u32 planes) {
  Rows<n, u32> rows;
  const ShortRows<n> low = load_sixteen<n>(from, planes),
                     high = load_sixteen<n>(from + 2 * n, planes < 16 ? 0 : planes - 16);
  join_rows(low, high, rows);
  return rows;
}

template <u32 n, class W>
H5L_ROWS_FN Rows<n, W> from_sign_last(Rows<n, W> rows, bool keep_first) {
#pragma GCC unroll 16
  for (u32 r = 0; r < rows.count; ++r) rows.at[r] = from_sign_last<W>(rows.at[r]);
  return keep_first ? rows : with_first(rows, W{0});
}

template <u32 n>
H5L_ROWS_FN Rows<n, u32> load_differences(const u8* from, u32 planes, bool keep_first, u32) {
  if (__builtin_expect(planes > 16, 0)) return from_sign_last(load_words<n>(from, planes), keep_first);
  Rows<n, u32> rows;
  sign_extend_rows(from_sign_last(load_sixteen<n>(from, planes), keep_first), rows);
  return rows;
}

template <u32 n>
H5L_ROWS_FN Rows<n, u64> load_differences(const u8* from, u32 planes, bool keep_first, u64) {
  Rows<n, u64> rows;
  if (__builtin_expect(planes <= 32, 1)) {
    sign_extend_rows(load_differences<n>(from, planes, keep_first, u32{}), rows);
    return rows;
  }
  join_rows(load_words<n>(from, 32), load_words<n>(from + 4 * n, planes - 32), rows);
  return from_sign_last(rows, keep_first);
}

// Loads differences (without the first one if `keep_first` is false), and the bins that they sum to.
template <u32 n, class W>
H5L_ROWS_FN Rows<n, W> load_differences(const u8* from, u32 planes, bool keep_first) {
  return load_differences<n>(from, planes, keep_first, W{});
}

// Bins from the sums of differences in words of half the size.
template <u32 n, class Half, class W>
H5L_ROWS_FN void bins_of_sums(const Rows<n, Half>& sums, Vector<Half> last, Edge<W>& edge, Rows<n, W>& bins) {
  sign_extend_rows(sums, bins);
#pragma GCC unroll 16
  for (u32 r = 0; r < bins.count; ++r) bins.at[r] += edge;
  edge += sign_extend<0>(last);
}

template <auto before, u32 n>
H5L_ROWS_FN void load_bins(const u8* from, u32 planes, bool keep_first, Edge<u32>& edge, Rows<n, u32>& bins) {
  // Sums of differences of 11 planes along 32 positions fit into 16 bits; predictions in more dimensions have shorter
  // chains.
  if (__builtin_expect(planes > 11, 0)) {
    bins = load_differences<n, u32>(from, planes, keep_first);
    sum_rows<before>(bins, edge);
    return;
  }
  Edge<u16> last = {};
  ShortRows<n> sums = from_sign_last(load_sixteen<n>(from, planes), keep_first);
  sum_rows<before>(sums, last);
  bins_of_sums<n, u16, u32>(sums, last, edge, bins);
}

template <auto before, u32 n>
H5L_ROWS_FN void load_bins(const u8* from, u32 planes, bool keep_first, Edge<u64>& edge, Rows<n, u64>& bins) {
  // Likewise 27 planes in 32 bits.
  if (__builtin_expect(planes > 27, 0)) {
    bins = load_differences<n, u64>(from, planes, keep_first);
    sum_rows<before>(bins, edge);
    return;
  }
  Edge<u32> last = {};
  Rows<n, u32> sums;
  load_bins<before, n>(from, planes, keep_first, last, sums);
  bins_of_sums<n, u32, u64>(sums, last, edge, bins);
}

// The planes of a block, and its differences or bins. The memory passed to load() may be read later.
template <u32 n, class W>
class LoadedPlanes {
 public:
  H5L_ROWS_FN void load(const u8* from, u32 planes) {
    from_ = from;
    planes_ = planes;
  }

  // Clears the first difference if `keep_first` is false.
  H5L_ROWS_FN void differences(bool keep_first, Rows<n, W>& words) const {
    words = load_differences<n, W>(from_, planes_, keep_first);
  }

  template <auto before>
  H5L_ROWS_FN void bins(bool keep_first, Edge<W>& edge, Rows<n, W>& bins) const {
    load_bins<before, n>(from_, planes_, keep_first, edge, bins);
  }

 private:
  const u8* from_;
  u32 planes_;
};

#else

using blocks::kPlanesOverrun;

template <u32 n, class W>
u8* store_planes_masked(const Rows<n, W>& words, W first_mask, u32 planes, u8* out) {
  return blocks::store_planes<n>(words.at, first_mask, planes, out);
}

template <u32 n, class W>
u8* store_planes(const Rows<n, W>& words, u32 planes, u8* out) {
  return blocks::store_planes<n>(words.at, ~W{0}, planes, out);
}

template <u32 n, class W>
class LoadedPlanes {
 public:
  void load(const u8* from, u32 planes) {
    if (planes == 0) {
      words_ = {};
      return;
    }
    blocks::Plane<n> bytes[blocks::kMaxRows<kWordBits<W> - 1>];
    blocks::load_planes<n>(from, planes, bytes);
    blocks::words_of_rows<n>(bytes, planes, words_.at);
  }

  void differences(bool keep_first, Rows<n, W>& words) const {
    for (u32 i = 0; i < n; ++i) words.at[i] = blocks::from_sign_last(words_.at[i]);
    if (!keep_first) words.at[0] = 0;
  }

  template <auto before>
  void bins(bool keep_first, Edge<W>& edge, Rows<n, W>& bins) const {
    differences(keep_first, bins);
    sum_rows<before>(bins, edge);
  }

 private:
  Rows<n, W> words_;
};

#endif

}  // namespace h5lossy::H5L_TARGET::simd

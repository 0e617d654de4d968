// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Blocks of pfpl_integers.h for AVX-512.
#pragma once

#include <immintrin.h>

#include "codecs/bits.h"
#include "codecs/pfpl_integers.h"
#include "codecs/portable.h"
#include "codecs/simd/permute_avx512.h"
#include "codecs/simd/pfpl_planes_avx512.h"

namespace h5lossy::H5L_TARGET::simd {

// Eight pieces of 64 values, so that each plane gets 64 bytes.
inline constexpr u32 kValuesAtOnce = 512, kGroupsAtOnce = kValuesAtOnce / pfpl::kGroupOfIntegers;

inline void transpose_lanes(__m512i (&)[1]) {}
inline void transpose_lanes(__m512i (&rows)[2]) {  // lanes of 256 bits
  const __m512i low = _mm512_shuffle_i64x2(rows[0], rows[1], 0x44);
  rows[1] = _mm512_shuffle_i64x2(rows[0], rows[1], 0xEE);
  rows[0] = low;
}

// Byte c of quadword r comes from byte r of quadword c, or from byte 7 - r.
template <u32 flip>
inline constexpr Permutation kBytesTransposed = permutation([](u32 i) { return i % 8 * 8 + ((i / 8) ^ flip); });

// The instruction multiplies each byte of its first operand's quadword by the bit matrix in the second's. With the
// values as the matrix, byte i of a unit matrix selects a plane; the bits of a plane come out in the order of the
// values.
inline __m512i planes_of_groups(__m512i groups) {
  return _mm512_gf2p8affine_epi64_epi8(_mm512_set1_epi64(static_cast<i64>(0x8040201008040201ull)), groups, 0);
}
inline __m512i planes_of_piece(__m512i values) { return permute(kBytesTransposed<7>, planes_of_groups(values)); }

// The inverse of the permutation, and a matrix with its rows reversed.
inline __m512i piece_of_planes(__m512i planes) {
  const __m512i square = _mm512_set1_epi64(static_cast<i64>(0x0102040810204080ull));
  return _mm512_gf2p8affine_epi64_epi8(square, permute(kBytesTransposed<0>, planes), 0);
}

template <class W>
inline void batch_to_planes(const W* residuals, u32 stride, u8* planes) {
  constexpr u32 n = kWordBytes<W>;
  __m512i pieces[n][8];  // byte of the word, the lowest one first
  Vector<W> used = {};
  for (u32 p = 0; p < 8; ++p) {
    __m512i rows[n];
    for (u32 r = 0; r < n; ++r) {
      const auto words = load_lanes<W>(residuals + (p * n + r) * kLanes<W>);
      used |= words;
      rows[r] = n == 1 ? (__m512i)words : permute(kBytesTogether<n>, (__m512i)words);
    }
    transpose_lanes(rows);
    for (u32 k = 0; k < n; ++k) pieces[k][p] = rows[k];
  }
  const W used_bits = bits_in_any<W>(used);
  for (u32 k = 0; k < n; ++k) {
    u8* const highest = planes + 8 * (n - 1 - k) * stride;
    __m512i rows[8] = {};
    if ((used_bits >> (8 * k) & 0xFF) != 0) {
      for (u32 p = 0; p < 8; ++p) rows[p] = planes_of_piece(pieces[k][p]);
      transpose_lanes(rows);
    }
    for (u32 j = 0; j < 8; ++j) _mm512_storeu_si512(highest + j * stride, rows[j]);
  }
}

template <class W>
inline void batch_from_planes(const u8* planes, u32 stride, W* residuals) {
  constexpr u32 n = kWordBytes<W>;
  __m512i pieces[n][8];
  for (u32 k = 0; k < n; ++k) {
    const u8* const highest = planes + 8 * (n - 1 - k) * stride;
    __m512i rows[8], used = _mm512_setzero_si512();
    for (u32 j = 0; j < 8; ++j) {
      rows[j] = _mm512_loadu_si512(highest + j * stride);
      used = _mm512_or_si512(used, rows[j]);
    }
    if (_mm512_test_epi64_mask(used, used) != 0) {
      transpose_lanes(rows);
      for (u32 p = 0; p < 8; ++p) rows[p] = piece_of_planes(rows[p]);
    }
    for (u32 p = 0; p < 8; ++p) pieces[k][p] = rows[p];
  }
  for (u32 p = 0; p < 8; ++p) {
    __m512i rows[n];
    for (u32 k = 0; k < n; ++k) rows[k] = pieces[k][p];
    transpose_lanes(rows);
    for (u32 r = 0; r < n; ++r) {
      const __m512i words = n == 1 ? rows[r] : permute(kBytesApart<n>, rows[r]);
      store_lanes(residuals + (p * n + r) * kLanes<W>, words);
    }
  }
}

// Quadword q has byte q % n of the words of a group.
template <u32 n>
inline constexpr Permutation kBytesOfGroups =
    permutation([](u32 i) { return (i / 8 / n * 8 + i % 8) * n + i / 8 % n; });

template <class W>
inline u32 count_plane_bytes(const W* residuals, u32 count) {
  u64 sum = 0;
  for (u32 i = 0; i < count; i += kLanes<W>) {
    const __m512i bytes = permute(kBytesOfGroups<kWordBytes<W>>, _mm512_loadu_si512(residuals + i));
    const __m512i planes = planes_of_groups(bytes);
    sum += count_ones(u64{_mm512_test_epi8_mask(planes, planes)});
  }
  return static_cast<u32>(sum);
}

inline Vector<u8> average_lanes(Vector<u8> a, Vector<u8> b) {
  return (Vector<u8>)_mm512_avg_epu8((__m512i)a, (__m512i)b);
}
inline Vector<u16> average_lanes(Vector<u16> a, Vector<u16> b) {
  return (Vector<u16>)_mm512_avg_epu16((__m512i)a, (__m512i)b);
}

// Prefix sums within quarters of a vector, to which the sums of the earlier quarters are added. `last` selects the last
// element of a quarter.
inline __m512i sums_of_quarters_before(__m512i sums, __m512i last, auto add) {
  const __m512i total = _mm512_shuffle_epi8(sums, last);
  sums = add(sums, _mm512_maskz_shuffle_i64x2(0xFC, total, total, 0x90));
  sums = add(sums, _mm512_maskz_shuffle_i64x2(0xF0, total, total, 0x40));
  return add(sums, _mm512_maskz_shuffle_i64x2(0xC0, total, total, 0x00));
}

inline Vector<u8> sum_lanes(Vector<u8> x) {
  x += (Vector<u8>)_mm512_bslli_epi128((__m512i)x, 1);
  x += (Vector<u8>)_mm512_bslli_epi128((__m512i)x, 2);
  x += (Vector<u8>)_mm512_bslli_epi128((__m512i)x, 4);
  x += (Vector<u8>)_mm512_bslli_epi128((__m512i)x, 8);
  return (Vector<u8>)sums_of_quarters_before((__m512i)x, _mm512_set1_epi8(15),
                                             [](__m512i a, __m512i b) { return _mm512_add_epi8(a, b); });
}
inline Vector<u16> sum_lanes(Vector<u16> x) {
  x += (Vector<u16>)_mm512_bslli_epi128((__m512i)x, 2);
  x += (Vector<u16>)_mm512_bslli_epi128((__m512i)x, 4);
  x += (Vector<u16>)_mm512_bslli_epi128((__m512i)x, 8);
  return (Vector<u16>)sums_of_quarters_before((__m512i)x, _mm512_set1_epi16(0x0F0E),
                                              [](__m512i a, __m512i b) { return _mm512_add_epi16(a, b); });
}
inline Vector<u8> last_lane(Vector<u8> x) {
  return (Vector<u8>)_mm512_permutexvar_epi8(_mm512_set1_epi8(63), (__m512i)x);
}
inline Vector<u16> last_lane(Vector<u16> x) {
  return (Vector<u16>)_mm512_permutexvar_epi16(_mm512_set1_epi16(31), (__m512i)x);
}

}  // namespace h5lossy::H5L_TARGET::simd

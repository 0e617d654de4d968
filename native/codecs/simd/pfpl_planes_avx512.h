// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// pfpl_planes.h for AVX-512.
#pragma once

#include <immintrin.h>

#include <utility>

#include "codecs/bits.h"
#include "codecs/portable.h"
#include "codecs/simd/lanes.h"
#include "codecs/simd/permute_avx512.h"

namespace h5lossy::H5L_TARGET::simd {

// Swaps register and lane: lane b of row a goes to lane a of row b.
inline void transpose_lanes(__m512i (&rows)[4]) {  // lanes of 128 bits
  const __m512i a = _mm512_shuffle_i64x2(rows[0], rows[1], 0x44), b = _mm512_shuffle_i64x2(rows[0], rows[1], 0xEE);
  const __m512i c = _mm512_shuffle_i64x2(rows[2], rows[3], 0x44), d = _mm512_shuffle_i64x2(rows[2], rows[3], 0xEE);
  rows[0] = _mm512_shuffle_i64x2(a, c, 0x88);
  rows[1] = _mm512_shuffle_i64x2(a, c, 0xDD);
  rows[2] = _mm512_shuffle_i64x2(b, d, 0x88);
  rows[3] = _mm512_shuffle_i64x2(b, d, 0xDD);
}

inline void transpose_lanes(__m512i (&rows)[8]) {  // lanes of 64 bits
  __m512i even[4], odd[4];
  for (u32 i = 0; i < 4; ++i) {
    even[i] = _mm512_unpacklo_epi64(rows[2 * i], rows[2 * i + 1]);
    odd[i] = _mm512_unpackhi_epi64(rows[2 * i], rows[2 * i + 1]);
  }
  transpose_lanes(even);
  transpose_lanes(odd);
  for (u32 i = 0; i < 4; ++i) {
    rows[2 * i] = even[i];
    rows[2 * i + 1] = odd[i];
  }
}

template <class W>
inline constexpr u32 kWordBytes = static_cast<u32>(sizeof(W));

// Groups that are transposed together, so that each plane gets 64 bytes.
template <class W>
inline constexpr u32 kBatchGroups = 64 / kWordBytes<W>;

// For vectors of words of n bytes, `lane` words each, and pieces of 64 words, eight of which are a batch.
template <u32 n, u32 lane = 64 / n>
inline constexpr Permutation kBytesTogether = permutation([](u32 i) { return i % lane * n + i / lane; });

template <u32 n, u32 lane = 64 / n>
inline constexpr Permutation kBytesApart = permutation([](u32 i) { return i % n * lane + i / n; });

// Which eight values of a piece are in byte t of a plane's eight bytes: planes are words with value 0 in the highest
// bit.
template <u32 n>
constexpr u32 eight_of_byte(u32 t) {
  return t / n * n + (n - 1 - t % n);
}

template <u32 n>
inline constexpr Permutation kPlanesTogether = permutation([](u32 i) { return eight_of_byte<n>(i % 8) * 8 + i / 8; });

// Highest plane first: GFNI numbers the bytes of a matrix from the last one.
template <u32 n>
inline constexpr Permutation kPlanesApart = permutation([](u32 i) {
  const u32 eight = i / 8;  // eight_of_byte is its own inverse
  return (7 - i % 8) * 8 + eight_of_byte<n>(eight);
});

// Writes the planes of the whole batches in `groups` groups; returns the number of groups written. source.next() gives
// the words in order.
template <class W, class Residuals>
inline u32 to_planes(u32 groups, Residuals& source, W* planes) {
  constexpr u32 n = kWordBytes<W>, bits = kWordBits<W>, batch = kBatchGroups<W>;
  Residuals residuals = source;  // a local copy can stay in registers
  const __m512i identity = _mm512_set1_epi64(static_cast<i64>(0x8040201008040201ull));
  u32 first = 0;
  for (; first + batch <= groups; first += batch) {
    __m512i pieces[n][8];  // byte of the word; eight pieces of 64 words
    Vector<W> used = {};
    for (u32 p = 0; p < 8; ++p) {
      Vector<W> words[n];
      residuals.next(words);
      __m512i rows[n];
      for (u32 r = 0; r < n; ++r) {
        used |= words[r];
        rows[r] = permute(kBytesTogether<n>, (__m512i)words[r]);
      }
      transpose_lanes(rows);
      for (u32 k = 0; k < n; ++k) pieces[k][p] = rows[k];
    }
    const W used_bits = bits_in_any<W>(used);
    for (u32 k = 0; k < n; ++k) {
      W* const lowest = planes + (bits - 1 - 8 * k) * groups + first;
      if ((used_bits >> (8 * k) & 0xFF) == 0) {
        for (u32 r = 0; r < 8; ++r) _mm512_storeu_si512(lowest - r * groups, _mm512_setzero_si512());
        continue;
      }
      __m512i rows[8];
      for (u32 p = 0; p < 8; ++p) {
        const __m512i transposed = _mm512_gf2p8affine_epi64_epi8(identity, pieces[k][p], 0);
        rows[p] = permute(kPlanesTogether<n>, transposed);
      }
      transpose_lanes(rows);
      for (u32 r = 0; r < 8; ++r) _mm512_storeu_si512(lowest - r * groups, rows[r]);
    }
  }
  source = residuals;
  return first;
}

// Byte r * lane + i / n of a piece, for word i / n of row r, in each of its bytes.
template <u32 n, u32 r, u32 lane = 64 / n>
inline constexpr Permutation kByteSpread = permutation([](u32 i) { return r * lane + i / n; });

// The bytes of words whose planes are zero: kNegabinaryMask flipped.
inline constexpr int kFlippedByte = 0xAA;

// Passes on the words of pieces in which only the lowest `used` bytes are nonzero, permuting each byte on its own: for
// few bytes that is faster than transposing.
template <u32 used, class W, class Values, u32 n, u32... r>
inline void take_spread(const __m512i (&pieces)[n][8], Values& values, std::integer_sequence<u32, r...>) {
  for (u32 p = 0; p < 8; ++p) {
    __m512i rows[n];
    for (u32 i = 0; i < n; ++i) rows[i] = _mm512_set1_epi8(static_cast<char>(kFlippedByte));
    for (u32 k = 0; k < used; ++k) {
      const __mmask64 byte = (n == 4 ? 0x1111111111111111ull : 0x0101010101010101ull) << k;
      ((rows[r] =
            _mm512_mask_permutexvar_epi8(rows[r], byte, _mm512_load_si512(kByteSpread<n, r>.sources), pieces[k][p])),
       ...);
    }
    Vector<W> words[n];
    for (u32 i = 0; i < n; ++i) words[i] = (Vector<W>)rows[i];
    values.take(words);
  }
}

template <class W, class Values, u32 n>
inline void take_transposed(const __m512i (&pieces)[n][8], Values& values) {
  for (u32 p = 0; p < 8; ++p) {
    __m512i rows[n];
    for (u32 k = 0; k < n; ++k) rows[k] = pieces[k][p];
    transpose_lanes(rows);
    Vector<W> words[n];
    for (u32 r = 0; r < n; ++r) words[r] = (Vector<W>)permute(kBytesApart<n>, rows[r]);
    values.take(words);
  }
}

// Inverse of to_planes: passes the words of whole batches to target.take(), in order. kNegabinaryMask is already
// flipped, which GFNI does for free.
template <class W, class Values>
inline u32 from_planes(const W* planes, u32 groups, Values& target) {
  constexpr u32 n = kWordBytes<W>, bits = kWordBits<W>, batch = kBatchGroups<W>;
  const __m512i mirror = _mm512_set1_epi64(static_cast<i64>(0x0102040810204080ull));
  Values values = target;  // a local copy can stay in registers
  u32 first = 0;
  for (; first + batch <= groups; first += batch) {
    __m512i pieces[n][8];
    u32 used_bytes = 0;
    for (u32 k = 0; k < n; ++k) {
      const W* const lowest = planes + (bits - 1 - 8 * k) * groups + first;
      __m512i rows[8], used = _mm512_setzero_si512();
      for (u32 r = 0; r < 8; ++r) {
        rows[r] = _mm512_loadu_si512(lowest - r * groups);
        used = _mm512_or_si512(used, rows[r]);
      }
      if (_mm512_test_epi64_mask(used, used) == 0) {
        for (u32 p = 0; p < 8; ++p) pieces[k][p] = _mm512_set1_epi8(static_cast<char>(kFlippedByte));
        continue;
      }
      used_bytes = k + 1;
      transpose_lanes(rows);
      for (u32 p = 0; p < 8; ++p) {
        const __m512i apart = permute(kPlanesApart<n>, rows[p]);
        pieces[k][p] = _mm512_gf2p8affine_epi64_epi8(mirror, apart, kFlippedByte);
      }
    }
    constexpr auto rows = std::make_integer_sequence<u32, n>();
    switch (used_bytes) {
      case 0:
      case 1:
        take_spread<1, W>(pieces, values, rows);
        break;
      case 2:
        take_spread<2, W>(pieces, values, rows);
        break;
      default:
        take_transposed<W>(pieces, values);
    }
  }
  target = values;
  return first;
}

}  // namespace h5lossy::H5L_TARGET::simd

// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// pfpl_planes.h for AVX2.
#pragma once

#include <immintrin.h>

#include "codecs/bits.h"
#include "codecs/portable.h"
#include "codecs/simd/lanes.h"

namespace h5lossy::H5L_TARGET::simd {

// Swaps register and lane.
inline void transpose_lanes(Vector<u32> (&rows)[8]) {
  __m256i pairs[8], fours[8];
  for (u32 i = 0; i < 8; i += 2) {
    pairs[i] = _mm256_unpacklo_epi32((__m256i)rows[i], (__m256i)rows[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_epi32((__m256i)rows[i], (__m256i)rows[i + 1]);
  }
  for (u32 i = 0; i < 8; i += 4) {
    fours[i] = _mm256_unpacklo_epi64(pairs[i], pairs[i + 2]);
    fours[i + 1] = _mm256_unpackhi_epi64(pairs[i], pairs[i + 2]);
    fours[i + 2] = _mm256_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
    fours[i + 3] = _mm256_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
  }
  for (u32 i = 0; i < 4; ++i) {
    rows[i] = (Vector<u32>)_mm256_permute2x128_si256(fours[i], fours[i + 4], 0x20);
    rows[i + 4] = (Vector<u32>)_mm256_permute2x128_si256(fours[i], fours[i + 4], 0x31);
  }
}

inline void transpose_lanes(Vector<u64> (&rows)[4]) {
  __m256i pairs[4];
  for (u32 i = 0; i < 4; i += 2) {
    pairs[i] = _mm256_unpacklo_epi64((__m256i)rows[i], (__m256i)rows[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_epi64((__m256i)rows[i], (__m256i)rows[i + 1]);
  }
  for (u32 i = 0; i < 2; ++i) {
    rows[i] = (Vector<u64>)_mm256_permute2x128_si256(pairs[i], pairs[i + 2], 0x20);
    rows[i + 2] = (Vector<u64>)_mm256_permute2x128_si256(pairs[i], pairs[i + 2], 0x31);
  }
}

// Each lane has a group, so a batch has as many groups as a vector has lanes.
template <class W, class Residuals>
inline u32 to_planes(u32 groups, Residuals& source, W* planes) {
  constexpr u32 bits = kWordBits<W>, lanes = kLanes<W>;
  Residuals residuals = source;
  u32 first = 0;
  for (; first + lanes <= groups; first += lanes) {
    Vector<W> words[bits], rows[bits];  // in order; and with lane i of row j for word j of group i
    Vector<W> used = {};
    for (u32 i = 0; i < bits; i += 4) {
      Vector<W> some[4];
      residuals.next(some);
      for (u32 j = 0; j < 4; ++j) used |= words[i + j] = some[j];
    }
    for (u32 i = 0; i < bits / lanes; ++i) {
      Vector<W> square[lanes];
      for (u32 j = 0; j < lanes; ++j) square[j] = words[j * (bits / lanes) + i];
      transpose_lanes(square);
      for (u32 j = 0; j < lanes; ++j) rows[i * lanes + j] = square[j];
    }
    const W used_bits = bits_in_any<W>(used);
    const u32 zero_rows = used_bits == 0 ? bits : count_leading_zeros(used_bits);
    if (used_bits != 0) transpose_to_planes<W>(rows, zero_rows);
    for (u32 j = 0; j < bits; ++j) store_lanes(planes + j * groups + first, rows[j]);
  }
  source = residuals;
  return first;
}

template <class W, class Values>
inline u32 from_planes(const W* planes, u32 groups, Values& target) {
  constexpr u32 bits = kWordBits<W>, lanes = kLanes<W>;
  Values values = target;
  u32 first = 0;
  for (; first + lanes <= groups; first += lanes) {
    Vector<W> words[bits], rows[bits];
    u32 zero_rows = 0;  // in eights
    for (u32 j = 0; j < bits; j += 8) {
      Vector<W> used = {};
      for (u32 i = j; i < j + 8; ++i) {
        rows[i] = load_lanes<W>(planes + i * groups + first);
        used |= rows[i];
      }
      if (zero_rows == j && all<W>(is_equal(used, Vector<W>{}))) zero_rows += 8;
    }
    if (zero_rows < bits) transpose_from_planes<W>(rows, zero_rows);
    for (u32 i = 0; i < bits / lanes; ++i) {
      Vector<W> square[lanes];
      for (u32 j = 0; j < lanes; ++j) square[j] = rows[i * lanes + j];
      transpose_lanes(square);
      for (u32 j = 0; j < lanes; ++j) words[j * (bits / lanes) + i] = square[j];
    }
    for (u32 i = 0; i < bits; i += 4) {
      Vector<W> flipped[4];
      for (u32 j = 0; j < 4; ++j) flipped[j] = words[i + j] ^ kNegabinaryMask<W>;
      values.take(flipped);
    }
  }
  target = values;
  return first;
}

}  // namespace h5lossy::H5L_TARGET::simd

// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The integer stages: zigzag, negabinary, bit transpose. This scalar code is the definition; vector code in simd/ and
// kernels/ gives the same results.
#pragma once

#include "codecs/portable.h"

namespace h5lossy::H5L_TARGET {

template <class W>
inline constexpr u32 kWordBits = static_cast<u32>(8 * sizeof(W));

// 0, -1, 1, -2 become 0, 1, 2, 3. `bin` is a signed number in an unsigned word, to avoid undefined overflow.
template <class W>
H5L_FN W zigzag(W bin) {
  return static_cast<W>((bin << 1) ^ (W{0} - (bin >> (kWordBits<W> - 1))));
}

template <class W>
H5L_FN W unzigzag(W word) {
  return static_cast<W>((word >> 1) ^ (W{0} - (word & 1)));
}

// Base -2: small residuals of either sign have leading zeros.
template <class W>
inline constexpr W kNegabinaryMask = static_cast<W>(0xAAAAAAAAAAAAAAAAull);

template <class W>
H5L_FN W to_negabinary(W difference) {
  constexpr W mask = kNegabinaryMask<W>;
  return (difference + mask) ^ mask;
}

template <class W, class Row>  // a word, or a Vector of words
H5L_FN Row from_negabinary(const Row& word) {
  constexpr W mask = kNegabinaryMask<W>;
  return (word ^ mask) - mask;
}

template <u32 k, class W>
inline constexpr W kLowHalves =
    static_cast<W>(static_cast<W>(~W{0}) / ((W{1} << k) + 1));  // in each 2k bits, the lower k

// Swaps the upper right k x k bits of a 2k x 2k square with the lower left ones, for one row of each half.
template <u32 k, class W, class Row>
H5L_FN void swap_quarters(Row& upper, Row& lower) {
  const Row swapped = (upper ^ (lower >> k)) & kLowHalves<k, W>;
  upper ^= swapped;
  lower ^= swapped << k;
}

// One level of the bit transpose: swaps the off-diagonal quarters of the squares of 2k rows, from row `first` (a
// multiple of 2k) on.
template <u32 k, class W, class Row>
H5L_FN void transpose_level(Row* rows, u32 first) {
  for (u32 base = first; base < kWordBits<W>; base += 2 * k) {
    for (u32 i = base; i < base + k; ++i) swap_quarters<k, W>(rows[i], rows[i + k]);
  }
}

// The levels k and k / 2 together: four rows at a time stay in registers between them.
template <u32 k, class W, class Row>
H5L_FN void transpose_two_levels(Row* rows, u32 first) {
  constexpr u32 half = k / 2;
  for (u32 base = first; base < kWordBits<W>; base += 2 * k) {
    for (u32 i = base; i < base + half; ++i) {
      Row a = rows[i], b = rows[i + half], c = rows[i + k], d = rows[i + k + half];
      swap_quarters<k, W>(a, c);
      swap_quarters<k, W>(b, d);
      swap_quarters<half, W>(a, b);
      swap_quarters<half, W>(c, d);
      rows[i] = a, rows[i + half] = b, rows[i + k] = c, rows[i + k + half] = d;
    }
  }
}

// Transposes a square of bits in place: bit c of row r, counted from the most significant, goes to bit r of row c. A
// row is a word W, or a Vector of words from several squares. The levels permute different bits of the index, so they
// may run in any order, and rows known to be zero can be skipped:
// - to planes: the first `zero_rows` rows of the result are zero. Large squares go first, so that zeros stay on top.
// - from planes: the first `zero_rows` rows of the input are zero. Small squares go first.
// `zero_rows` = 0 is always correct.
template <class W, class Row>
H5L_FN void transpose_to_planes(Row* rows, u32 zero_rows) {
  if constexpr (kWordBits<W> == 64) transpose_level<32, W>(rows, 0);
  transpose_level<16, W>(rows, zero_rows / 32 * 32);
  transpose_two_levels<8, W>(rows, zero_rows / 16 * 16);
  transpose_two_levels<2, W>(rows, zero_rows / 4 * 4);
}

template <class W, class Row>
H5L_FN void transpose_from_planes(Row* rows, u32 zero_rows) {
  transpose_two_levels<2, W>(rows, zero_rows / 4 * 4);
  transpose_two_levels<8, W>(rows, zero_rows / 16 * 16);
  transpose_level<16, W>(rows, zero_rows / 32 * 32);
  if constexpr (kWordBits<W> == 64) transpose_level<32, W>(rows, 0);
}

}  // namespace h5lossy::H5L_TARGET

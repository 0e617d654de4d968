// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// A tile of integers in shared memory, in raster order. The format is in docs/format/integers.md.
#pragma once

#include "codecs/pfpl_integers.h"
#include "kernels/common/integers.cuh"
#include "kernels/common/tile_io.cuh"

namespace h5lossy::H5L_TARGET::pfpl {

// A thread transposes values in units of four groups (64 bits: two).
template <class W>
struct Units {
  static constexpr u32 values = sizeof(W) == 8 ? 16 : 32;
  static constexpr u32 words = values * sizeof(W) / 4;
  static constexpr u32 groups = values / kGroupOfIntegers;
  static constexpr u32 of_thread = kStreamBytes / kThreads / 4 / words;
};

// The type in which words are added up, modulo 2^W.
template <class W>
using SumOf = Select<sizeof(W) == 8, u64, u32>;

// Several adjacent values in a word: arithmetic on all of them at once, modulo 2^W each.
template <class W>
struct SingleLane {
  using Word = W;
  H5L_DEVICE static W repeat(W value) { return value; }
  H5L_DEVICE static W last(W word) { return word; }
  // Values of two adjacent words, from value `by` of the first one on.
  H5L_DEVICE static W shifted(W low, W, u32 /*by*/) { return low; }
  // Flags of values, and a mask of those in word m.
  H5L_DEVICE static u32 flag(u32 value) { return u32{1} << value; }
  H5L_DEVICE static W mask(u32 flags, u32 m) { return static_cast<W>(W{0} - (flags >> m & 1)); }
  static constexpr u32 values = 1;
  // The values to the left or to the right, given the next word; at the ends of a row the value itself. `ends` is how
  // many values of the word end the row, or 0.
  H5L_DEVICE static W left_of(W word, W left, bool is_first = false) { return is_first ? word : left; }
  H5L_DEVICE static W right_of(W word, W right, u32 ends = 0) { return ends != 0 ? word : right; }
  H5L_DEVICE static W add(W a, W b) { return static_cast<W>(a + b); }
  H5L_DEVICE static W subtract(W a, W b) { return static_cast<W>(a - b); }
  H5L_DEVICE static W average(W a, W b) { return pfpl::average(a, b); }
  H5L_DEVICE static W lower_average(W a, W b) { return static_cast<W>((a & b) + (static_cast<W>(a ^ b) >> 1)); }
  H5L_DEVICE static W multiply_add(W a, W b, W sum) { return static_cast<W>(sum + product(a, b)); }
  H5L_DEVICE static bool has_zero(W a) { return a == 0; }
  H5L_DEVICE static W to_negabinary(W a) { return static_cast<W>(h5lossy::H5L_TARGET::to_negabinary<W>(a)); }
  H5L_DEVICE static W residual(W own, W predicted) { return to_negabinary(subtract(own, predicted)); }
  H5L_DEVICE static W any(W word) { return word; }  // OR of all values
  H5L_DEVICE static W from_negabinary(W a) { return static_cast<W>(h5lossy::H5L_TARGET::from_negabinary<W>(a)); }
};
template <class W>
struct NarrowLanes {
  using Word = u32;
  static constexpr u32 bits = 8 * sizeof(W), ones = ~u32{0} / ((u32{1} << bits) - 1), high = ones << (bits - 1);
  static constexpr u32 negabinary = kNegabinaryMask<u32>;
  static constexpr u32 values = 4 / sizeof(W);
  static constexpr bool has_two = values == 2;
  H5L_DEVICE static u32 repeat(W value) { return value * ones; }
  H5L_DEVICE static W last(u32 word) { return static_cast<W>(word >> (32 - bits)); }
  H5L_DEVICE static u32 shifted(u32 low, u32 high, u32 by) { return funnel_right(low, high, bits * by); }
  H5L_DEVICE static u32 flag(u32 value) { return u32{1} << (value % (32 / bits) * bits + value / (32 / bits)); }
  H5L_DEVICE static u32 mask(u32 flags, u32 m) {  // the highest bit of each lane, repeated
    return permute_signed(flags << (bits - 1 - m), 0, bits == 8 ? 0xBA98 : 0xBB99);
  }
  H5L_DEVICE static u32 left_of(u32 word, u32 left, bool is_first = false) {
    return permute(left, word, has_two ? (is_first ? 0x5454 : 0x5432) : (is_first ? 0x6544 : 0x6543));
  }
  H5L_DEVICE static u32 right_of(u32 word, u32 right, u32 ends = 0) {
    const u32 two = ends == 0 ? 0x5432 : ends == 1 ? 0x1010 : 0x3232;
    const u32 four = ends == 0 ? 0x4321 : ends == 1 ? 0x0000 : ends == 2 ? 0x1111 : ends == 3 ? 0x2221 : 0x3321;
    return permute(word, right, has_two ? two : four);
  }
  H5L_DEVICE static u32 add(u32 a, u32 b) {
    return has_two ? add_pairs(a, b) : ((a & ~high) + (b & ~high)) ^ ((a ^ b) & high);
  }
  H5L_DEVICE static u32 subtract(u32 a, u32 b) {
    return has_two ? subtract_pairs(a, b) : ((a | high) - (b & ~high)) ^ ((a ^ ~b) & high);
  }
  H5L_DEVICE static u32 average(u32 a, u32 b) { return (a | b) - (((a ^ b) & ~ones) >> 1); }
  // The same, rounded down: one instruction fewer.
  H5L_DEVICE static u32 lower_average(u32 a, u32 b) { return (a & b) + (((a ^ b) & ~ones) >> 1); }
  // sum + a * b
  H5L_DEVICE static u32 multiply_add(u32 a, W b, W sum) {
    u32 sums[values];
    H5L_UNROLL for (u32 k = 0; k < values; ++k) sums[k] = (a >> (k * bits)) * b + sum;
    if constexpr (has_two) {
      return permute(sums[0], sums[1], 0x5410);
    } else {
      return permute(permute(sums[0], sums[1], 0x0040), permute(sums[2], sums[3], 0x0040), 0x5410);
    }
  }
  H5L_DEVICE static bool has_zero(u32 a) { return ((a - ones) & ~a & high) != 0; }
  H5L_DEVICE static u32 to_negabinary(u32 a) { return add(a, negabinary) ^ negabinary; }
  H5L_DEVICE static u32 residual(u32 own, u32 predicted) { return to_negabinary(subtract(own, predicted)); }
  H5L_DEVICE static W any(u32 word) {
    H5L_UNROLL for (u32 distance = 16; distance >= bits; distance /= 2) word |= word >> distance;
    return static_cast<W>(word);
  }
  H5L_DEVICE static u32 from_negabinary(u32 a) { return subtract(a ^ negabinary, negabinary); }
};
template <class W>
struct LanesOf : SingleLane<W> {};
template <>
struct LanesOf<u8> : NarrowLanes<u8> {};
template <>
struct LanesOf<u16> : NarrowLanes<u16> {};

// Flags of the first `count` values, up to 32, in words of n values.
template <u32 n>
H5L_DEVICE u32 flags_below(u32 count) {
  u64 flags = 0;
  H5L_UNROLL for (u32 k = 0; k < n; ++k) flags |= ((u64{1} << (count + n - 1 - k) / n) - 1) << (k * (32 / n));
  return static_cast<u32>(flags);
}

// Sixteen bytes of values.
template <class W>
H5L_DEVICE void unpack_piece(const Quad& piece, W (&values)[kPieceBytes / sizeof(W)]) {
  const u32 words[4] = {piece.x, piece.y, piece.z, piece.w};
  H5L_UNROLL for (u32 k = 0; k < kPieceBytes / sizeof(W); ++k) {
    if constexpr (sizeof(W) == 8) {
      values[k] = words[2 * k] | u64{words[2 * k + 1]} << 32;
    } else {
      values[k] = static_cast<W>(words[k * sizeof(W) / 4] >> (8 * (k * sizeof(W) % 4)));
    }
  }
}
template <class W>
H5L_DEVICE Quad pack_piece(const W (&values)[kPieceBytes / sizeof(W)]) {
  u32 words[4] = {};
  H5L_UNROLL for (u32 k = 0; k < kPieceBytes / sizeof(W); ++k) {
    if constexpr (sizeof(W) == 8) {
      words[2 * k] = static_cast<u32>(values[k]);
      words[2 * k + 1] = static_cast<u32>(values[k] >> 32);
    } else {
      words[k * sizeof(W) / 4] |= u32{values[k]} << (8 * (k * sizeof(W) % 4));
    }
  }
  return {words[0], words[1], words[2], words[3]};
}

// Converts values to ranks, or ranks to values; `zero` is the rank of 0.
template <class W>
H5L_DEVICE Quad flip_signs(const Quad& piece, W zero) {
  u32 even = 0, odd = 0;
  if constexpr (sizeof(W) == 8) {
    odd = static_cast<u32>(zero >> 32);
  } else {
    even = odd = LanesOf<W>::repeat(zero);
  }
  return {piece.x ^ even, piece.y ^ odd, piece.z ^ even, piece.w ^ odd};
}

// Byte q of a unit, in words of the transposed bits: byte s of value v of a group is in bytes[s][7 - v].
template <class W>
H5L_DEVICE u32 row_of_byte(const u32 (&bytes)[sizeof(W)][8], u32 q) {
  return bytes[q % sizeof(W)][7 - q / sizeof(W) % 8];
}

}  // namespace h5lossy::H5L_TARGET::pfpl

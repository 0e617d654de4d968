// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// A tile of integers in shared memory, in raster order. The format is in docs/format/integers.md.
#pragma once

#include "codecs/pfpl_integers.h"
#include "kernels/common/integers.cuh"
#include "kernels/common/tile_io.cuh"

namespace h5lossy::H5L_TARGET::pfpl {

// A thread transposes values in units of four groups (64 bits: two). A gap after each unit avoids bank conflicts
// between threads that access the same word of their units.
template <class W>
struct Units {
  static constexpr u32 values = sizeof(W) == 8 ? 16 : 32;
  static constexpr u32 words = values * sizeof(W) / 4;
  static constexpr u32 groups = values / kGroupOfIntegers;
  static constexpr u32 of_thread = kStreamBytes / kThreads / 4 / words;
  static constexpr u32 gap = sizeof(W) == 8 ? 8 : 4;

  // The byte offset of a value.
  H5L_DEVICE static u32 place(u32 i) { return i * static_cast<u32>(sizeof(W)) + i / values * gap; }
};
inline constexpr u32 kUnitsBytes = kStreamBytes + kStreamBytes / 32 * 4;  // for 8-bit values, which have the most gaps

template <class W>
H5L_DEVICE W* value_in_units(u8* area, u32 i) {
  return reinterpret_cast<W*>(area + Units<W>::place(i));
}

// The type of an attribute that 64-bit types do not use.
template <class T>
struct NumberOf {
  using Type = T;
};
template <>
struct NumberOf<void> {
  using Type = float;
};

// The type in which words are added up, modulo 2^W.
template <class W>
struct SumOf {
  using Type = u32;
};
template <>
struct SumOf<u64> {
  using Type = u64;
};

// Several adjacent values in a word: arithmetic on all of them at once, modulo 2^W each.
template <class W>
struct SingleLane {
  using Word = W;
  H5L_DEVICE static W repeat(W value) { return value; }
  H5L_DEVICE static W first(W word) { return word; }
  H5L_DEVICE static W last(W word) { return word; }
  // The values shifted by one to the left or to the right, with another value moved in.
  H5L_DEVICE static W before(W, W left) { return left; }
  H5L_DEVICE static W behind(W, W right) { return right; }
  H5L_DEVICE static W add(W a, W b) { return static_cast<W>(a + b); }
  H5L_DEVICE static W subtract(W a, W b) { return static_cast<W>(a - b); }
  H5L_DEVICE static W average(W a, W b) { return pfpl::average(a, b); }
  H5L_DEVICE static W to_negabinary(W a) { return static_cast<W>(h5lossy::H5L_TARGET::to_negabinary<W>(a)); }
  H5L_DEVICE static W from_negabinary(W a) { return static_cast<W>(h5lossy::H5L_TARGET::from_negabinary<W>(a)); }
};
template <class W>
struct NarrowLanes {
  using Word = u32;
  static constexpr u32 bits = 8 * sizeof(W), ones = ~u32{0} / ((u32{1} << bits) - 1), high = ones << (bits - 1);
  static constexpr u32 negabinary = kNegabinaryMask<u32>;
  H5L_DEVICE static u32 repeat(W value) { return value * ones; }
  H5L_DEVICE static W first(u32 word) { return static_cast<W>(word); }
  H5L_DEVICE static W last(u32 word) { return static_cast<W>(word >> (32 - bits)); }
  H5L_DEVICE static u32 before(u32 word, W left) { return word << bits | left; }
  H5L_DEVICE static u32 behind(u32 word, W right) { return word >> bits | u32{right} << (32 - bits); }
  H5L_DEVICE static u32 add(u32 a, u32 b) { return ((a & ~high) + (b & ~high)) ^ ((a ^ b) & high); }
  H5L_DEVICE static u32 subtract(u32 a, u32 b) { return ((a | high) - (b & ~high)) ^ ((a ^ ~b) & high); }
  H5L_DEVICE static u32 average(u32 a, u32 b) { return (a | b) - (((a ^ b) >> 1) & ~high); }
  H5L_DEVICE static u32 to_negabinary(u32 a) { return add(a, negabinary) ^ negabinary; }
  H5L_DEVICE static u32 from_negabinary(u32 a) { return subtract(a ^ negabinary, negabinary); }
};
template <class W>
struct LanesOf : SingleLane<W> {};
template <>
struct LanesOf<u8> : NarrowLanes<u8> {};
template <>
struct LanesOf<u16> : NarrowLanes<u16> {};

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

H5L_DEVICE void copy_lattice(const WordLattice* from, WordLattice& to) {
  constexpr u32 words = sizeof(WordLattice) / 4;
  static_assert(words <= kThreads);
  if (thread() < words) reinterpret_cast<u32*>(&to)[thread()] = reinterpret_cast<const u32*>(from)[thread()];
}

// Converts values to words, as ranks. Keeps a reference to the lattice.
template <class W>
class ValueWords {
 public:
  H5L_DEVICE explicit ValueWords(const WordLattice& lattice) : lattice_(lattice), zero_(static_cast<W>(lattice.zero)) {
    ranks_.mask = static_cast<W>(~W{0});
    ranks_.step = static_cast<W>(lattice.step);
    ranks_.shift = static_cast<W>(lattice.shift);
    ranks_.first = static_cast<W>(lattice.first);
    if constexpr (sizeof(W) != 8) {
      ahead_ = static_cast<Number>(static_cast<W>(ranks_.shift)) + Number{0.5};
      inverse_ = 1 / static_cast<Number>(static_cast<W>(ranks_.step));
    }
  }

  // Whether words are the values themselves.
  [[nodiscard]] H5L_DEVICE bool are_values() const { return ranks_.step == 1 && lattice_.exact_count == 0; }

  // Replaces values by their words.
  template <u32 n>
  H5L_DEVICE void to_words(W (&values)[n]) const {
    W ranks[n];
    H5L_UNROLL for (u32 k = 0; k < n; ++k) {
      ranks[k] = static_cast<W>(values[k] ^ zero_);
      values[k] = bin_of(ranks[k]);
    }
    for (u32 j = 0; j < lattice_.exact_count; ++j) {
      const gpu::WordOfExact& exact = lattice_.exact[j];
      const W value = static_cast<W>(exact.value), word = static_cast<W>(exact.word), bin = static_cast<W>(exact.bin);
      const W below = static_cast<W>(exact.below), above = static_cast<W>(exact.above);
      H5L_UNROLL for (u32 k = 0; k < n; ++k) {
        const W beside = ranks[k] > value ? above : below;
        values[k] = ranks[k] == value ? word : values[k] == bin ? beside : values[k];
      }
    }
  }

 private:
  // Ignores exact values.
  H5L_DEVICE W bin_of(W rank) const {
    if (ranks_.step == 1) return rank;
    if constexpr (sizeof(W) == 8) {
      u64 place;
      return ranks_.divide(rank, place);
    } else {
      const Number steps = multiply(add(static_cast<Number>(rank), ahead_), inverse_);
      return static_cast<W>(ranks_.first + static_cast<W>(static_cast<u32>(steps)));
    }
  }

  using Wide = typename QuotientOf<W>::Type;
  using Number = typename NumberOf<Wide>::Type;
  const WordLattice& lattice_;
  Lattice ranks_;  // for values that are ranks
  W zero_;
  Number ahead_ = 0, inverse_ = 0;
};

// Divides numbers up to 2^14 into rows.
struct RowDivider {
  u32 length, inverse;

  H5L_DEVICE explicit RowDivider(u32 row_length) : length(row_length), inverse(~u32{0} / row_length + 1) {}
  [[nodiscard]] H5L_DEVICE u32 row(u32 i) const {
    return inverse == 0 ? i : static_cast<u32>(u64{i} * inverse >> 32);  // 0: rows of one value
  }
};

// Byte q of a unit, in words of the transposed bits: byte s of value v of a group is in bytes[s][7 - v].
template <class W>
H5L_DEVICE u32 row_of_byte(const u32 (&bytes)[sizeof(W)][8], u32 q) {
  return bytes[q % sizeof(W)][7 - q / sizeof(W) % 8];
}

}  // namespace h5lossy::H5L_TARGET::pfpl

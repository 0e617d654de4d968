// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Masks that are numbers: a value that marks missing data, such as the 0 on land of an ocean model without a fill
// value, is far from the neighbouring values, and costs less as an exception than as a number. The rules are in
// docs/design/interp-encoder.md, "Masks that are numbers".
#pragma once

#include "codecs/interp/bins.h"
#include "codecs/interp/survey.h"

namespace h5lossy::H5L_TARGET::interp {

// Exceptions of an own lattice keep their bits, except -0.0, which may be a point of the lattice in the next form.
template <class T>
H5L_FN Word<T> bits_beside_points(const Lattice<T>& lattice, Word<T> bits) {
  return bits == kSignBit<T> && lattice.fill_bits != bits && lattice.fill_bits != 0 ? Word<T>{0} : bits;
}

template <class T>
H5L_FN OwnLattice own_lattice_of(const Lattice<T>& lattice) {
  return lattice.own;
}
template <class T>
H5L_FN OwnLattice own_lattice_of(const blocks::FoldedQuantizer<T>&) {
  return {};
}
template <class T>
H5L_FN Word<T> bits_beside_points(const blocks::FoldedQuantizer<T>&, Word<T> bits) {
  return bits;
}

// The word from which integers are counted; null if values are not words.
template <class T>
H5L_FN const Word<T>* origin_of_words(const Lattice<T>& lattice) {
  return lattice.has_words ? &lattice.origin : nullptr;
}
template <class T>
H5L_FN const Word<T>* origin_of_words(const blocks::FoldedQuantizer<T>&) {
  return nullptr;
}

// A value that may be coded as an exception, and the bits to which it then decodes. If there is none, both are a NaN,
// which is an exception anyway and decodes to the same bits.
template <class T>
struct MaskValue {
  Word<T> bits = kNoMask<T>;
  Word<T> stored = kNoMask<T>;

  H5L_FN bool exists() const { return bits != kNoMask<T>; }
  // The bits that an exception is stored as: see exception_bits. `lattice` has no mask value.
  template <class Q>
  H5L_FN Word<T> stored_bits(const Q& lattice, bool is_fine, Word<T> exception) const {
    if (origin_of_words<T>(lattice) != nullptr) return exception;
    if (own_lattice_of(lattice).exists()) return bits_beside_points<T>(lattice, exception);
    return exception == bits ? stored : is_fine ? exception_bits<T>(lattice, exception) : exception;
  }
};

// Masks cover wide areas, so values that equal the next one are looked for, at this many places of a tile.
inline constexpr u32 kMaskPlaces = 128;
inline constexpr u32 kLeastRepeated = 2;
inline constexpr u32 kLeastRepeatedInside = 16;  // for integers, unless no other value is less, or none is greater

H5L_FN u32 mask_place(u32 n, u32 count) {
  return static_cast<u32>(u64{(n + 1) * kSpread[kAxes - 1]} * (count - 1) >> 32);
}

// Whether a value is repeated and would not be an exception anyway.
template <class T>
H5L_FN bool is_repeated(const Lattice<T>& lattice, Word<T> bits, Word<T> next) {
  return bits == next && (bits & ~kSignBit<T>) < kInfinity<T> && bits != fill_of(lattice);
}

// The mask value decodes to what it would decode to on bins without a mask, so that decoded data does not depend on
// masking.
template <class T>
H5L_FN MaskValue<T> mask_value_of(const Lattice<T>& lattice, Word<T> bits) {
  const PositionLimits<T> limits = position_limits(lattice);
  bool is_kept;
  T bin;
  const i32 position = find_position<true>(lattice, limits, bits, is_kept);
  const bool has_bin = find_bin(lattice, limits.fill, bits, position, bin);
  return {bits, bit_cast<Word<T>>(has_bin && !is_kept ? value_of(bin, lattice.step) : add(bit_cast<T>(bits), T{0}))};
}

// Whether adjacent words, as numbers, differ by more than 1; those without a number are far from all others.
template <class T>
H5L_FN bool is_jump(Word<T> bits, Word<T> next) {
  const T difference = subtract(bit_cast<T>(bits), bit_cast<T>(next));
  return bits != next && !(difference <= 1 && difference >= -1);
}

// Whether words may be labels: at half of the places above, the word equals the next one, and at half of the others,
// they differ by more than 1.
H5L_FN bool may_be_labels(u32 repeated, u32 jumps) {
  return 2 * repeated >= kMaskPlaces && 2 * jumps >= kMaskPlaces - repeated;
}

#if !defined(__CUDACC__)
template <class T>
bool may_be_labels(const u8* numbers, u32 count) {
  u32 repeated = 0, jumps = 0;
  for (u32 n = 0; n < kMaskPlaces; ++n) {
    const u8* const place = numbers + mask_place(n, count) * sizeof(T);
    const auto bits = load<Word<T>>(place), next = load<Word<T>>(place + sizeof(T));
    repeated += bits == next ? 1 : 0;
    jumps += is_jump<T>(bits, next) ? 1 : 0;
  }
  return may_be_labels(repeated, jumps);
}

// Whether no value at these places is less than it, or none is greater.
template <class T>
bool is_at_an_end(const u8* values, u32 count, T value) {
  bool has_less = false, has_greater = false;
  for (u32 n = 0; n < kMaskPlaces; ++n) {
    const auto other = bit_cast<T>(load<Word<T>>(values + mask_place(n, count) * sizeof(T)));
    has_less = has_less || other < value;
    has_greater = has_greater || other > value;
  }
  return !has_less || !has_greater;
}

// The most frequent of the repeated values.
template <class T>
MaskValue<T> find_mask_value(const Lattice<T>& lattice, const u8* values, u32 count) {
  Word<T> repeated[kMaskPlaces], mask = 0;
  u32 found = 0, most = 0;
  for (u32 n = 0; n < kMaskPlaces; ++n) {
    const u8* const place = values + mask_place(n, count) * sizeof(T);
    repeated[found] = load<Word<T>>(place);
    found += is_repeated(lattice, repeated[found], load<Word<T>>(place + sizeof(T))) ? 1 : 0;
  }
  for (u32 n = 0; n < found; ++n) {
    u32 equal = 0;
    for (u32 i = 0; i < found; ++i) equal += repeated[i] == repeated[n] ? 1 : 0;
    if (equal > most) mask = repeated[n];
    most = equal > most ? equal : most;
  }
  const bool may_be_few = !lattice.has_words || is_at_an_end(values, count, bit_cast<T>(mask));
  return most < (may_be_few ? kLeastRepeated : kLeastRepeatedInside) ? MaskValue<T>() : mask_value_of(lattice, mask);
}
#endif

}  // namespace h5lossy::H5L_TARGET::interp

// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Lattices of integers (docs/format/integers.md): what a value is coded as, and what it comes back as, in integer
// arithmetic only. Numbers of signed types are in two's complement in unsigned words, so that nothing overflows.
#pragma once

#include "codecs/bits.h"
#include "codecs/codec.h"
#include "codecs/portable.h"

namespace h5lossy::H5L_TARGET {

// The words of one type. Values are also compared as `rank`s: unsigned numbers in the order of the values.
template <class W, bool is_signed>
struct IntegerType {
  using Word = W;
  static constexpr W sign = is_signed ? static_cast<W>(W{1} << (kWordBits<W> - 1)) : W{0};
  static constexpr W least = sign;  // of all values
  static constexpr W largest = static_cast<W>(~W{0} ^ sign);
};

// The type in which (u + r + 0.5) / s is computed: its result, truncated, is the exact quotient, since it is at least
// 0.5 / s from an integer, and the two roundings move it by less than (u + r + 1) / s * 2^-22 (float, for words of 16
// bits) or 2^-51 (double, 32 bits). No type does it for 64 bits.
template <class W>
struct QuotientOf {
  using Type = void;
};
template <>
struct QuotientOf<u8> {
  using Type = float;
};
template <>
struct QuotientOf<u16> {
  using Type = float;
};
template <>
struct QuotientOf<u32> {
  using Type = double;
};

// A word that does not come back as origin + word * step.
template <class W>
struct SpecialWord {
  W word, value;
};

// The values origin + k * step, and the bins of step values around them. With step 1, words are values.
template <class T>
struct Lattice {
  using W = typename T::Word;
  static constexpr u32 kMostSpecial = 5;

  W step = 1;
  W origin = 0;  // the value of word 0
  W first = 0;   // the word of the type's least value
  W shift = 0;   // k = first + floor((rank + shift) / step)
  W last = 0;    // the word of the type's largest value
  u32 special_count = 0;
  SpecialWord<W> special[kMostSpecial] = {};
  const WordBins* bins = nullptr;  // in place of step, origin, first and shift
  bool has_exact = false;
  bool splits = false;  // the exact value is what its bin would come back as
  W exact = 0, exact_bin = 0;

  H5L_FN W rank_of(W value) const { return static_cast<W>(value ^ T::sign); }

  // The word of a value, and its place in the bin, counted from the first.
  H5L_FN W divide(W value, W& place) const {
    const W rank = rank_of(value);
    const W quotient = static_cast<W>(rank / step), rest = static_cast<W>(rank % step);
    const bool carries = rest >= static_cast<W>(step - shift) && shift != 0;
    place = static_cast<W>(carries ? rest - (step - shift) : rest + shift);
    return static_cast<W>(first + quotient + (carries ? 1 : 0));
  }

  H5L_FN void add_special(W word, W value) {
    for (u32 i = 0; i < special_count; ++i) {
      if (special[i].word != word) continue;
      special[i].value = value;
      return;
    }
    special[special_count++] = {word, value};
  }
};

// Values of the same leading bits have the same key. Keys rise with the values.
inline constexpr u32 kBinKeys = 33 * 128;
H5L_FN u32 bin_key(u32 value) {
  return static_cast<u32>((bit_cast<u64>(static_cast<double>(value) + 1.0) >> 45) - (u64{1023} << 7));
}

H5L_FN u32 find_bin(const WordBins& bins, u32 value) {
  const u32 key = bin_key(value);
  u32 low = bins.starts[key], high = bins.starts[key + 1];
  while (low < high) {
    const u32 middle = high - (high - low) / 2;
    if (bins.first[middle] <= value) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

// The word of a value in bins, and the value of a word.
template <class T>
H5L_FN u32 word_in_bins(const WordBins& bins, u32 value) {
  const bool is_negative = (value & T::sign) != 0;
  const u32 bin = find_bin(bins, is_negative ? u32{0} - value : value);
  return is_negative ? u32{0} - bin : bin;
}

template <class T>
H5L_FN u32 value_from_bins(const WordBins& bins, u32 word) {
  const bool is_negative = (word & T::sign) != 0;
  const u32 bin = is_negative ? u32{0} - word : word, last = bins.count - 1;
  const u32 middle = bins.middle[bin < last ? bin : last];
  return is_negative ? u32{0} - middle : middle <= T::largest ? middle : T::largest;
}

// The exact value has a word of its own, behind all others. Where it is what its bin would come back as, the values on
// its two sides come back as its neighbours.
template <class T>
H5L_FN void take_out(Lattice<T>& lattice, typename T::Word exact, typename T::Word bin, bool splits) {
  using W = typename T::Word;
  lattice.has_exact = true;
  lattice.exact = exact;
  lattice.exact_bin = bin;
  lattice.splits = splits;
  lattice.add_special(static_cast<W>(lattice.last + 1), exact);
  if (!splits) return;
  if (exact != T::least) lattice.add_special(bin, static_cast<W>(exact - 1));
  if (exact != T::largest) lattice.add_special(static_cast<W>(lattice.last + 2), static_cast<W>(exact + 1));
}

// The lattice of lossless values: all are `base` more than a multiple of `stride`.
template <class T>
H5L_FN void place_bins(Lattice<T>& lattice, typename T::Word step, typename T::Word ahead, bool borrows) {
  using W = typename T::Word;
  // The least value plus the offset of the bins, in steps: -quotient * step - rest + ahead, less a step if it borrows.
  const W quotient = static_cast<W>(T::sign / step), rest = static_cast<W>(T::sign % step);
  const bool is_behind = ahead < rest;
  lattice.step = step;
  lattice.shift = static_cast<W>(is_behind ? step - (rest - ahead) : ahead - rest);
  lattice.first = static_cast<W>(W{0} - quotient - (is_behind ? 1 : 0) - (borrows ? 1 : 0));
}

template <class T>
H5L_RARE H5L_FN Lattice<T> lattice_of(const Quantizer& quantizer) {
  using W = typename T::Word;
  Lattice<T> lattice;
  if constexpr (sizeof(W) == 4) {
    if (quantizer.bins != nullptr) {
      const WordBins& bins = *quantizer.bins;
      lattice.bins = &bins;
      lattice.last = word_in_bins<T>(bins, T::largest);
      const u32 exact = static_cast<u32>(quantizer.fill_bits), bin = word_in_bins<T>(bins, exact);
      if (quantizer.has_fill) take_out(lattice, exact, bin, value_from_bins<T>(bins, bin) == exact);
      return lattice;
    }
  }
  if (quantizer.kind == BoundKind::lossless) {
    if (quantizer.stride <= 1) return lattice;
    const W stride = static_cast<W>(quantizer.stride), base = static_cast<W>(quantizer.base);
    lattice.origin = base;
    place_bins(lattice, stride, base == 0 ? W{0} : static_cast<W>(stride - base), base != 0);
    return lattice;
  }
  const W step = static_cast<W>(quantizer.scale), bound = static_cast<W>(step / 2);
  place_bins(lattice, step, bound, false);
  // The outermost bins may have their middle outside of the type.
  W place = 0;
  if (lattice.shift > bound) lattice.add_special(lattice.first, T::least);
  lattice.last = lattice.divide(T::largest, place);
  if (place < bound) lattice.add_special(lattice.last, T::largest);
  if (!quantizer.has_fill) return lattice;
  const W exact = static_cast<W>(quantizer.fill_bits), bin = lattice.divide(exact, place);
  const bool splits = place == bound || (exact == T::least && place > bound) || (exact == T::largest && place < bound);
  take_out(lattice, exact, bin, splits);
  return lattice;
}

// The largest integer that is not above a number times an integer, at most 2^64 - 1.
H5L_FN u64 floor_of_product(double number, u64 integer) {
  const u64 bits = bit_cast<u64>(number);
  const u32 raised = static_cast<u32>(bits >> 52);  // the sign bit is 0
  const u64 mantissa = (bits & ((u64{1} << 52) - 1)) | (raised == 0 ? 0 : u64{1} << 52);
  i32 exponent = static_cast<i32>(raised == 0 ? 1 : raised) - 1075;  // number = mantissa * 2^exponent
  constexpr u64 low_half = 0xFFFFFFFFu;
  const u64 low = (mantissa & low_half) * (integer & low_half);
  const u64 first = (mantissa >> 32) * (integer & low_half) + (low >> 32);
  const u64 second = (mantissa & low_half) * (integer >> 32) + (first & low_half);
  u64 words[2] = {(low & low_half) | second << 32, (mantissa >> 32) * (integer >> 32) + (first >> 32) + (second >> 32)};
  if (exponent <= -128) return 0;
  for (; exponent < 0; ++exponent) {
    words[0] = words[0] >> 1 | words[1] << 63;
    words[1] >>= 1;
  }
  if (words[1] != 0) return ~u64{0};
  if (words[0] == 0) return 0;
  return exponent <= static_cast<i32>(count_leading_zeros(words[0])) ? words[0] << exponent : ~u64{0};
}

// The bound in counts for a range-relative one, from the least and the largest rank of valid values.
H5L_FN u64 bound_of_integer_range(double bound, u64 least, u64 largest, u32 value_bytes) {
  if (least >= largest) return 0;
  const u64 most = ~u64{0} >> (65 - 8 * value_bytes), counts = floor_of_product(bound, largest - least);
  return counts < most ? counts : most;
}

// Notes the stride of lossless values, of which one has this rank: a rank is `sign` more than its value.
template <class W>
H5L_FN void take_stride(Quantizer& quantizer, W stride, W a_rank, W sign_bit) {
  if (stride <= 1) return;
  const W rank = static_cast<W>(a_rank % stride), sign = static_cast<W>(sign_bit % stride);
  const W base = static_cast<W>(rank >= sign ? rank - sign : rank + (stride - sign));
  if (sizeof(W) == 8 && base != 0) return;  // the header has no room for it
  quantizer.stride = stride;
  quantizer.base = base;
}

// The word of a value: the definition, where there are no bins.
template <class T>
H5L_FN typename T::Word word_of(const Lattice<T>& lattice, typename T::Word value) {
  using W = typename T::Word;
  W place;
  const W word = lattice.divide(value, place);
  if (!lattice.has_exact) return word;
  if (value == lattice.exact) return static_cast<W>(lattice.last + 1);
  const bool is_above = lattice.rank_of(value) > lattice.rank_of(lattice.exact);
  return lattice.splits && is_above && word == lattice.exact_bin ? static_cast<W>(lattice.last + 2) : word;
}

// The value of a word: the definition. Words of corrupt frames have any value.
template <class T>
H5L_FN typename T::Word value_of(const Lattice<T>& lattice, typename T::Word word) {
  using W = typename T::Word;
  for (u32 i = 0; i < lattice.special_count; ++i) {
    if (word == lattice.special[i].word) return lattice.special[i].value;
  }
  return static_cast<W>(lattice.origin + word * lattice.step);
}

}  // namespace h5lossy::H5L_TARGET

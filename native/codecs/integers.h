// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Lattices of integers (docs/format/integers.md): the word of a value, and the value of a word, in integer arithmetic
// only. Signed numbers are in two's complement in unsigned words, so that overflow is defined.
#pragma once

#include "codecs/bits.h"
#include "codecs/codec.h"
#include "codecs/portable.h"

namespace h5lossy::H5L_TARGET {

// A product modulo 2^W. Narrow words would be promoted to signed integers, which may overflow.
template <class W>
H5L_FN W product(W a, W b) {
  return static_cast<W>((a + 0u) * (b + 0u));
}

// The words of one type. Values are also compared as `rank`s: unsigned numbers in the order of the values.
template <class W, bool is_signed>
struct IntegerType {
  using Word = W;
  static constexpr W sign = is_signed ? static_cast<W>(W{1} << (kWordBits<W> - 1)) : W{0};
};

// The type in which (u + r + 0.5) / s is computed. The truncated result is the exact quotient, since the exact value is
// at least 0.5 / s from an integer, and the two roundings move it by less than (u + r + 1) / s * 2^-22 (float, for
// words of 16 bits) or 2^-51 (double, 32 bits). No type does this for 64 bits.
template <class W>
using Quotient = Select<sizeof(W) <= 2, float, Select<sizeof(W) == 4, double, void>>;

// A word that does not decode to origin + word * step.
struct SpecialWord {
  u64 word, value;
};

// An exact value, its word, and the words of the other values in its bin, on either side of it.
struct ExactValue {
  u64 value, word, bin, below, above;
};

// The values origin + k * step, and the bins of `step` values around them. With step 1, words are values. One struct
// serves all types: words are numbers up to `mask`.
struct Lattice {
  u64 mask = 0;
  u64 sign = 0;  // the bit of a signed type's sign
  u64 step = 1;
  u64 origin = 0;                  // the value of word 0
  u64 first = 0;                   // the word of the type's least value
  u64 shift = 0;                   // k = first + floor((rank + shift) / step)
  u64 last = 0;                    // the word of the type's largest value
  const WordBins* bins = nullptr;  // instead of step, origin, first and shift
  u32 exact_count = 0;
  ExactValue exact[kMostExact] = {};
  u32 special_count = 0;
  SpecialWord special[2 + 3 * kMostExact] = {};  // of equal words, the last one counts

  H5L_FN u64 rank_of(u64 value) const { return value ^ sign; }
  H5L_FN u64 least() const { return sign; }
  H5L_FN u64 largest() const { return mask ^ sign; }
  H5L_FN void add_special(u64 word, u64 value) { special[special_count++] = {word, value}; }

  // The word of a value, and its place in the bin, counted from the first.
  H5L_FN u64 divide(u64 value, u64& place) const {
    const u64 rank = rank_of(value), quotient = rank / step, rest = rank % step;
    const bool carries = rest >= step - shift && shift != 0;
    place = carries ? rest - (step - shift) : rest + shift;
    return (first + quotient + (carries ? 1 : 0)) & mask;
  }
};

// Values with the same leading bits have the same key. Keys rise with the values.
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

// The word of a value in bins, and the value of a word. `sign` is the sign bit of the type.
H5L_FN u32 word_in_bins(const WordBins& bins, u32 sign, u32 value) {
  const bool is_negative = (value & sign) != 0;
  const u32 bin = find_bin(bins, is_negative ? u32{0} - value : value);
  return is_negative ? u32{0} - bin : bin;
}

H5L_FN u32 value_from_bins(const WordBins& bins, u32 sign, u32 word) {
  const bool is_negative = (word & sign) != 0;
  const u32 bin = is_negative ? u32{0} - word : word, last = bins.count - 1, largest = ~sign;
  const u32 middle = bins.middle[bin < last ? bin : last];
  return is_negative ? u32{0} - middle : middle <= largest ? middle : largest;
}

H5L_FN bool is_exact(const Quantizer& quantizer, u64 value) {
  for (u32 i = 0; i < quantizer.exact_count; ++i) {
    if (quantizer.exact[i] == value) return true;
  }
  return false;
}

// Makes a word decode to the nearest value that is not exact, from an exact one towards an end of the type (`next` is
// 1, or -1 as a word). If all values up to that end are exact, the word has no special meaning.
H5L_RARE H5L_FN void decode_to_neighbour(const Quantizer& quantizer, u64 word, u64 exact, u64 next, u64 end,
                                         Lattice& lattice) {
  u64 value = exact;
  while (value != end && is_exact(quantizer, value)) value = (value + next) & lattice.mask;
  if (!is_exact(quantizer, value)) lattice.add_special(word, value);
}

// Gives an exact value the word behind those of all bins (docs/format/integers.md, "Exact values"). `bin` is the word
// of its bin. If the bin decodes to the exact value itself, the other values of the bin are told apart: those below
// keep the bin's word, those above get another one behind all bins, and both decode to the nearest value on their side
// that is not exact. 0 keeps the word 0, so that tiles of zeros stay empty, and the values below it get the word that
// would be its own.
H5L_RARE H5L_FN void give_own_word(const Quantizer& quantizer, u32 number, u64 bin, bool bin_decodes_to_it,
                                   Lattice& lattice) {
  const u64 value = quantizer.exact[number], mask = lattice.mask;
  const u64 own = (lattice.last + 1 + number) & mask;
  ExactValue& exact = lattice.exact[lattice.exact_count++];
  exact = {value, value == 0 ? bin : own, bin, bin, bin};
  if (bin_decodes_to_it) {
    exact.below = value == 0 ? own : bin;
    exact.above = (own + quantizer.exact_count) & mask;
    decode_to_neighbour(quantizer, exact.below, value, mask, lattice.least(), lattice);
    decode_to_neighbour(quantizer, exact.above, value, 1, lattice.largest(), lattice);
  }
  lattice.add_special(exact.word, value);
}

// Gives the value v the word floor((v + ahead) / step): bins of `step` values, of which that of word 0 begins `ahead`
// values before 0; ahead < step.
H5L_FN void set_bins(Lattice& lattice, u64 step, u64 ahead) {
  // In terms of ranks, which are v + sign: with sign = quotient * step + rest, the word is
  // floor((rank + ahead - rest) / step) - quotient. `shift` is ahead - rest, plus a step if that is negative.
  const u64 quotient = lattice.sign / step, rest = lattice.sign % step;
  const bool is_negative = ahead < rest;
  lattice.step = step;
  lattice.shift = is_negative ? step - (rest - ahead) : ahead - rest;
  lattice.first = (u64{0} - quotient - (is_negative ? 1 : 0)) & lattice.mask;
}

// `mask` has all bits of a word, and `sign` the sign bit of the type.
H5L_RARE H5L_FN Lattice lattice_of(const Quantizer& quantizer, u64 mask, u64 sign) {
  Lattice lattice = {.mask = mask, .sign = sign};
  if (quantizer.bins != nullptr) {
    const WordBins& bins = *quantizer.bins;
    const auto short_sign = static_cast<u32>(sign);
    lattice.bins = &bins;
    lattice.last = word_in_bins(bins, short_sign, static_cast<u32>(lattice.largest()));
    for (u32 i = 0; i < quantizer.exact_count; ++i) {
      const auto exact = static_cast<u32>(quantizer.exact[i]);
      const u32 bin = word_in_bins(bins, short_sign, exact);
      give_own_word(quantizer, i, bin, value_from_bins(bins, short_sign, bin) == exact, lattice);
    }
    return lattice;
  }
  if (quantizer.kind == BoundKind::lossless) {
    if (quantizer.stride <= 1) return lattice;
    const u64 stride = quantizer.stride, base = quantizer.base;
    lattice.origin = base;
    // floor((v - base) / stride) is one less than floor((v + stride - base) / stride).
    set_bins(lattice, stride, base == 0 ? 0 : stride - base);
    if (base != 0) lattice.first = (lattice.first - 1) & mask;
    return lattice;
  }
  const u64 bound = quantizer.scale / 2;
  set_bins(lattice, quantizer.scale, bound);
  // The middle of the outermost bins may be outside the type's range.
  u64 place = 0;
  if (lattice.shift > bound) lattice.add_special(lattice.first, lattice.least());
  lattice.last = lattice.divide(lattice.largest(), place);
  if (place < bound) lattice.add_special(lattice.last, lattice.largest());
  for (u32 i = 0; i < quantizer.exact_count; ++i) {
    const u64 exact = quantizer.exact[i], bin = lattice.divide(exact, place);
    const bool bin_decodes_to_it =
        place == bound || (exact == lattice.least() && place > bound) || (exact == lattice.largest() && place < bound);
    give_own_word(quantizer, i, bin, bin_decodes_to_it, lattice);
  }
  return lattice;
}

// The largest integer that is not above number * integer, at most 2^64 - 1.
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

// The bound in counts for a range-relative one, from the smallest and the largest rank of valid values.
H5L_FN u64 bound_of_integer_range(double bound, u64 least, u64 largest, u32 value_bytes) {
  if (least >= largest) return 0;
  const u64 most = ~u64{0} >> (65 - 8 * value_bytes), counts = floor_of_product(bound, largest - least);
  return counts < most ? counts : most;
}

// Sets the stride of lossless values, given the rank of one of them. A rank is its value plus `sign`.
H5L_FN void take_stride(Quantizer& quantizer, u64 stride, u64 a_rank, u64 sign, u32 value_bytes) {
  if (stride <= 1) return;
  const u64 rank = a_rank % stride, shift = sign % stride;
  const u64 base = rank >= shift ? rank - shift : rank + (stride - shift);
  if (value_bytes == 8 && base != 0) return;  // the header has no room for a base
  quantizer.stride = stride;
  quantizer.base = base;
}

}  // namespace h5lossy::H5L_TARGET

// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Interp's values and integers: the position of a value on the lattice, the integer that represents it, and the way
// back. The rules are in docs/design/interp-encoder.md, "What a value is", their proofs in docs/design/bound.md.
//
// All functions work on any part of a tile. They are plain loops without branches, so that compilers can vectorize
// them. To round, or to convert doubles to 64-bit integers, they use no library functions and no casts, since many
// instruction sets have no instruction for that. Instead, a number is added to a large one with the right exponent:
// this rounds it to nearest, ties to even, and it appears as an integer in the low bits of the sum.
#pragma once

#include "codecs/blocks.h"
#include "codecs/bounds.h"
#include "codecs/interp/format.h"
#include "codecs/portable.h"
#if !defined(__CUDACC__)
#include "codecs/block_tiles.h"
#include "codecs/simd/block_bins.h"
#endif

namespace h5lossy::H5L_TARGET::interp {

template <class T>
using Int = typename FloatTraits<T>::Int;
using i8 = signed char;

// Batch size; a batch falls back to the scalar loop if it has an exception.
inline constexpr u32 kBatch = 64;

H5L_FN u32 batch_of(u32 first, u32 count) { return count - first < kBatch ? count - first : kBatch; }

// The position of the lowest bit that is set in a word that is not 0.
template <class W>
H5L_FN u32 lowest_bit(W word) {
  return 8 * static_cast<u32>(sizeof(W)) - 1 - count_leading_zeros(static_cast<W>(word & (~word + 1)));
}

// ---------------------------------------------------------------------------------------------------------------------
// One value

// Rounds numbers of a magnitude below 2^(m - 1) to integers.
template <class T>
inline constexpr T kRounding = static_cast<T>(u64{3} << (kMantissaBits<T> - 1));
// Rounds to parts, which are fractions of the distance between fine points.
template <class T>
inline constexpr T kRoundingParts = kRounding<T> / kParts;
// Rounds to multiples of 8 fine points.
template <class T>
inline constexpr T kRoundingEights = kRounding<T> * 8;

// The bits of these: separate constants, since nvcc has no memory for numbers to which a function could refer.
template <class T>
inline constexpr Word<T> kRoundingBits = __builtin_bit_cast(Word<T>, kRounding<T>);
template <class T>
inline constexpr Word<T> kRoundingPartsBits = __builtin_bit_cast(Word<T>, kRoundingParts<T>);
template <class T>
inline constexpr Word<T> kRoundingEightsBits = __builtin_bit_cast(Word<T>, kRoundingEights<T>);

// If there is no fill value, the bits of a NaN, which no number has and which is an exception anyway.
template <class T>
H5L_FN Word<T> fill_of(const Lattice<T>& lattice) {
  return lattice.has_fill ? lattice.fill_bits : static_cast<Word<T>>(~Word<T>{0});
}

// The grade of a position: 2 to this power is the distance of fine points there.
template <class T>
H5L_FN u32 grade_of(i32 position) {
  const u32 p = static_cast<u32>(position), size = (position < 0 ? 0 - p : p) / kParts;  // of kNone, too
  u32 grade = 0;
  for (u32 g = 0; g < kMostGrade<T>; ++g) grade += size >> (kPlainBits + g) != 0 ? 1 : 0;
  return grade;
}

// The multiple of a power of two that is nearest to a position, in fine points.
H5L_FN i32 nearest_point(i32 position, u32 distance) {
  return static_cast<i32>(static_cast<u32>(position) + kParts / 2 * distance) >> 6 & -static_cast<i32>(distance);
}

// The nearest fine point. That of a kept value's position is the value (docs/design/bound.md).
template <class T>
H5L_FN i32 fine_point_of(i32 position) {
  return nearest_point(position, 1u << grade_of<T>(position));
}
H5L_FN i32 bin_of(i32 position) { return static_cast<i32>(static_cast<u32>(position) + kUnit * kParts / 2) >> 10; }
static_assert(kParts == 1 << 6 && kUnit * kParts == 1 << 10);

// Whether a fine point at this position is not on a bin.
H5L_FN bool is_beside_bin(i32 position) { return (position & (kUnit * kParts - 1)) != 0; }

// Whether `rebuilt` may stand for x. The subtraction rounds, yet the test is safe: if the difference exceeded the
// bound, which is a number of this type, it would not be rounded to less than the bound.
template <class T>
H5L_FN bool is_close(const Lattice<T>& lattice, T x, T rebuilt) {
  return magnitude(subtract(x, rebuilt)) < lattice.bound;
}

// The number of a value's point in an own lattice, as a value; a NaN if it is not a point, or has the bits `fill`.
template <class T>
H5L_RARE_FN Word<T> number_of(OwnLattice own, Word<T> fill, Word<T> bits) {
  const T x = bit_cast<T>(bits);
  const double s = multiply(subtract(static_cast<double>(x), own.offset), own.points_per_unit());
  const double number = subtract(add(s, kRounding<double>), kRounding<double>);
  const T point = own.template value_of<T>(number);
  const bool is_point = magnitude(s) < static_cast<double>(kInterpBinLimit<T> - 1) && point == x && bits != fill &&
                        bit_cast<Word<T>>(point) != fill;
  return is_point ? bit_cast<Word<T>>(static_cast<T>(number)) : kNoMask<T>;
}

// The number of a word of integers, as a value; a NaN if it has none.
template <class T>
H5L_FN Word<T> number_of_word(const Lattice<T>& lattice, Word<T> word) {
  constexpr Word<T> limit = kInterpBinLimit<T> - 1;
  const Word<T> distance = word - lattice.origin;
  const bool has_number = (distance + limit <= 2 * limit) & (word - lattice.exact >= lattice.exact_count);
  const T number = subtract(bit_cast<T>(static_cast<Word<T>>(kRoundingBits<T> + distance)), kRounding<T>);
  return has_number ? bit_cast<Word<T>>(number) : kNoMask<T>;
}

// The bin of a value, as a floating-point integer: the nearest one or, if rounding puts that out of reach, its
// neighbour on the value's side. False if the value has no bin.
template <class T>
H5L_FN bool find_bin(const Lattice<T>& lattice, Word<T> fill, Word<T> bits, i32 position, T& bin) {
  constexpr T limit = static_cast<T>(kInterpBinLimit<T>);
  const T x = bit_cast<T>(bits);
  const T s = multiply(x, lattice.inverse_step);
  const bool has_position = position != kNone<i32>;
  const T nearest = has_position ? static_cast<T>(bin_of(position)) : subtract(add(s, kRounding<T>), kRounding<T>);
  const T rebuilt = value_of(nearest, lattice.step);
  const bool close = is_close(lattice, x, rebuilt), gives_fill = bit_cast<Word<T>>(rebuilt) == fill;
  const bool is_good = close & !gives_fill;
  const T other = nearest + (x < rebuilt ? T{-1} : T{1});
  const T rebuilt_other = value_of(other, lattice.step);
  const bool other_close = is_close(lattice, x, rebuilt_other),
             other_gives_fill = bit_cast<Word<T>>(rebuilt_other) == fill;
  const bool other_is_good = !has_position & other_close & !other_gives_fill;
  bin = is_good ? nearest : other;
  const T size = magnitude(s), bin_size = magnitude(bin);
  const bool in_range = has_position | ((size < limit) & (bin_size < limit));
  return in_range & (is_good | other_is_good) & (bits != fill) & (bits != lattice.mask_bits);
}

// Whether an exception of forms on bins has a nearest bin nevertheless: no bin is good for it, but it is a number
// within their range.
template <class T>
H5L_FN bool has_nearest_bin(const Lattice<T>& lattice, Word<T> fill, Word<T> bits) {
  const T s = multiply(bit_cast<T>(bits), lattice.inverse_step);
  return (magnitude(s) < static_cast<T>(kInterpBinLimit<T>)) & (bits != fill) & (bits != lattice.mask_bits);
}

// The value that is encoded: the value itself, or the number of its point in an own lattice, or a NaN if it is not a
// point.
template <class T>
H5L_FN Word<T> encoded_as(const Lattice<T>& lattice, Word<T> bits) {
  return lattice.own.exists() ? number_of<T>(lattice.own, lattice.fill_bits, bits) : bits;
}

// A bin as an integer.
template <class T>
H5L_FN Word<T> integer_of(T bin) {
  return bit_cast<Word<T>>(add(bin, kRounding<T>)) - kRoundingBits<T>;
}

// ---------------------------------------------------------------------------------------------------------------------
// Positions: values measured in parts

// A summary of the values of a tile; for parts of a tile, summaries add up.
struct Summary {
  u32 exceptions = 0;          // neither a bin nor a fine point represents it
  u32 without_fine = 0;        // other values that no fine point represents
  u32 beside_bins = 0;         // kept values (fine points) that are not on a bin
  bool may_be_graded = false;  // some positions may be of a grade above 0
};

// Closed forms may choose fine points up to eight away. So only kept values may be larger than this, or closer than
// that to the fill value.
template <class T>
H5L_FN T largest_free(const Lattice<T>& lattice) {
  const T of_lattice = multiply(static_cast<T>(kFineLimit<T> - 8), lattice.fine);
  const T of_type = bit_cast<T>(static_cast<Word<T>>(kInfinity<T> - 1)) - 16 * lattice.fine;
  return of_lattice < of_type ? of_lattice : of_type;
}
inline constexpr i32 kNearFill = 9 * kParts;
inline constexpr i32 kFarFill = 1 << 30;

// A number of fine points, not much larger than the limit, in parts: rounded to nearest, ties to even. What is left of
// it beside a multiple of 8 is exact.
template <class T>
H5L_FN i32 parts_of(T t) {
  const T shifted = add(t, kRoundingEights<T>), rest = subtract(t, subtract(shifted, kRoundingEights<T>));
  const auto eights = static_cast<u32>(bit_cast<Word<T>>(shifted) - kRoundingEightsBits<T>);
  const auto parts = static_cast<u32>(bit_cast<Word<T>>(add(rest, kRoundingParts<T>)) - kRoundingPartsBits<T>);
  return static_cast<i32>(eights * (8 * kParts) + parts);
}

// The position of the fill value; kFarFill, which is far from all positions, if it is not near a fine point.
template <class T>
H5L_FN i32 fill_position(const Lattice<T>& lattice) {
  const T t = multiply(bit_cast<T>(fill_of(lattice)), lattice.inverse_fine);
  return magnitude(t) < static_cast<T>(kFineLimit<T> + 16) ? parts_of(t) : kFarFill;
}

// What the position of a value depends on besides the lattice.
template <class T>
struct PositionLimits {
  Word<T> fill;
  T largest;
  u32 near_fill;
};
template <class T>
H5L_FN PositionLimits<T> position_limits(const Lattice<T>& lattice) {
  return {fill_of(lattice), largest_free(lattice), static_cast<u32>(fill_position(lattice)) - kNearFill};
}

// The position of a value; kNone if no fine point represents it. `has_special` tells whether a position may be that of
// the fill value or of a mask value.
template <bool has_special, class T>
H5L_FN i32 find_position(const Lattice<T>& l, const PositionLimits<T>& limits, Word<T> bits, bool& is_kept) {
  using W = Word<T>;
  constexpr u32 limit = kFineLimit<T>;
  const T x = bit_cast<T>(bits), t = multiply(x, l.inverse_fine);
  const i32 position = parts_of(t), fine = fine_point_of<T>(position);
  const T rebuilt = multiply(static_cast<T>(fine), l.fine);
  const bool is_equal = rebuilt == x;
  const i32 place = is_equal ? static_cast<i32>(static_cast<u32>(fine) * kParts) : position | 1;
  const bool close = is_close(l, x, rebuilt), in_reach = magnitude(t) < static_cast<T>(limit + 1),
             in_limit = static_cast<u32>(fine) + limit <= 2 * limit, is_free = magnitude(rebuilt) <= limits.largest;
  bool found = in_reach & in_limit & close & (is_equal | is_free);
  if constexpr (has_special) {
    const bool is_far = is_equal | (static_cast<u32>(position) - limits.near_fill > 2 * kNearFill);
    found &= (bits != limits.fill) & (bits != l.mask_bits) & (bit_cast<W>(add(rebuilt, T{0})) != limits.fill) & is_far;
  }
  is_kept = found & is_equal;
  const i32 kept = -static_cast<i32>(found);  // a mask: GCC does not vectorize a condition here
  return (place & kept) | (kNone<i32> & ~kept);
}

template <bool has_special, class T>
u32 find_positions(const Lattice<T>& lattice, const u8* values, u32 count, i32* positions, u32& beside_bins) {
  using W = Word<T>;
  const Lattice<T> l = lattice;
  const PositionLimits<T> limits = position_limits(l);
  W missing = 0, beside = 0;
  for (u32 i = 0; i < count; ++i) {  // vectorized
    bool is_kept;
    const i32 position = find_position<has_special>(l, limits, load<W>(values + i * sizeof(T)), is_kept);
    missing += position == kNone<i32> ? 1 : 0;
    beside += (is_kept & is_beside_bin(position)) ? 1 : 0;
    positions[i] = position;
  }
  beside_bins += static_cast<u32>(beside);
  return static_cast<u32>(missing);
}

// The same for values that all have a position, of grade 0, and do not exceed largest_free. False if there are other
// values; the positions are then meaningless. No position is that of the fill value.
template <class T>
bool find_usual_positions(const Lattice<T>& lattice, const u8* values, u32 count, i32* positions, u32& beside_bins) {
  using W = Word<T>;
  constexpr W most = (kPlainLimit<T> - 8) * kParts;
  const Lattice<T> l = lattice;
  W others = 0, beside = 0;
  for (u32 i = 0; i < count; ++i) {  // vectorized
    const T x = bit_cast<T>(load<W>(values + i * sizeof(T)));
    const T shifted = add(multiply(x, l.inverse_fine), kRoundingParts<T>);
    const W from_zero = bit_cast<W>(shifted) - kRoundingPartsBits<T>;
    const i32 position = static_cast<i32>(static_cast<u32>(from_zero));
    const T rebuilt = multiply(static_cast<T>(nearest_point(position, 1)), l.fine);
    const bool is_kept = rebuilt == x;
    others += (is_close(l, x, rebuilt) & (from_zero + most <= 2 * most)) ? 0 : 1;
    beside += (is_kept & ((from_zero & (kUnit * kParts - 1)) != 0)) ? 1 : 0;  // is_beside_bin, in words
    positions[i] = static_cast<i32>(static_cast<u32>(is_kept ? from_zero : from_zero | 1));
  }
  if (others == 0) beside_bins += static_cast<u32>(beside);
  return others == 0;
}

// How many values are not numbers, or are the fill value, or are masked.
template <class T>
u32 count_masked(const Lattice<T>& lattice, const u8* values, u32 count) {
  const Word<T> fill = fill_of(lattice), mask = lattice.mask_bits;
  Word<T> masked = 0;
  for (u32 i = 0; i < count; ++i) {  // vectorized
    const Word<T> bits = load<Word<T>>(values + i * sizeof(T));
    masked += (((bits & ~kSignBit<T>) >= kInfinity<T>) | (bits == fill) | (bits == mask)) ? 1 : 0;
  }
  return static_cast<u32>(masked);
}

// `missing` values have no position.
template <class T>
u32 count_exceptions(const Lattice<T>& lattice, const u8* values, const i32* positions, u32 count, u32 missing) {
  const Lattice<T> l = lattice;
  const Word<T> fill = fill_of(l);
  if (count_masked<T>(l, values, count) == missing) return missing;
  Word<T> found = 0;
  for (u32 i = 0; i < count; ++i) {  // vectorized
    T bin;
    const bool has_bin = find_bin(l, fill, load<Word<T>>(values + i * sizeof(T)), kNone<i32>, bin);
    found += ((positions[i] == kNone<i32>)&!has_bin) ? 1 : 0;
  }
  return static_cast<u32>(found);
}

// Whether a word has a number, which then is its bin, and is not masked.
template <class T>
H5L_FN bool is_bin_of_words(const Lattice<T>& lattice, Word<T> bits) {
  return ((bits & ~kSignBit<T>) < kInfinity<T>)&(bits != lattice.mask_bits);
}

// The same as find_positions below, for numbers of words, which are bins. Compares bits, which compilers vectorize.
template <class T>
void classify_words(const Lattice<T>& lattice, const u8* values, u32 count, i32* positions, Summary& summary) {
  const Word<T> largest = bit_cast<Word<T>>(static_cast<T>(kFineLimit<T> >> kUnitBits));
  const Lattice<T> l = lattice;
  Word<T> none = 0, missing = 0;
  for (u32 i = 0; i < count; ++i) {  // vectorized
    const auto bits = load<Word<T>>(values + i * sizeof(T));
    const bool is_bin = is_bin_of_words(l, bits), has_fine = is_bin & ((bits & ~kSignBit<T>) <= largest);
    none += is_bin ? 0 : 1;
    missing += has_fine ? 0 : 1;
    const Word<T> kept = Word<T>{0} - has_fine;  // a mask: GCC does not vectorize conditions here
    const auto position = static_cast<u32>(integer_of(bit_cast<T>(bits & kept))) * kUnit * kParts;
    positions[i] = static_cast<i32>(position | (static_cast<u32>(kNone<i32>) & ~static_cast<u32>(kept)));
  }
  summary.exceptions += static_cast<u32>(none);
  summary.without_fine += static_cast<u32>(missing - none);
}

// The position of each value that a fine point represents, and kNone for the others. It is a multiple of kParts only if
// the value equals that fine point.
template <class T>
void classify(const Lattice<T>& lattice, const u8* values, u32 count, i32* positions, Summary& summary) {
  if (lattice.has_words) return classify_words(lattice, values, count, positions, summary);
  constexpr u32 some = 8 * kBatch;
  // Otherwise no position is that of the fill value, or of a mask value.
  const bool has_special = fill_position(lattice) != kFarFill || lattice.mask_bits != kNoMask<T>;
  bool is_usual = !has_special && largest_free(lattice) >= multiply(static_cast<T>(kPlainLimit<T> - 8), lattice.fine);
  for (u32 first = 0; first < count; first += some) {
    const u8* const from = values + first * sizeof(T);
    const u32 n = count - first < some ? count - first : some;
    is_usual = is_usual && find_usual_positions(lattice, from, n, positions + first, summary.beside_bins);
    if (is_usual) continue;
    summary.may_be_graded = kMostGrade<T> != 0;
    const u32 missing = has_special ? find_positions<true>(lattice, from, n, positions + first, summary.beside_bins)
                                    : find_positions<false>(lattice, from, n, positions + first, summary.beside_bins);
    if (missing == 0) continue;
    const u32 exceptions = count_exceptions(lattice, from, positions + first, n, missing);
    summary.exceptions += exceptions;
    summary.without_fine += missing - exceptions;
  }
}

// Counts the values that have these bits.
template <class T>
u32 count_equal(const u8* values, u32 count, Word<T> bits) {
  Word<T> equal = 0;
  for (u32 i = 0; i < count; ++i) equal += load<Word<T>>(values + i * sizeof(T)) == bits ? 1 : 0;  // vectorized
  return static_cast<u32>(equal);
}

// Sets the position of these values.
template <class T>
void place_equal(const u8* values, u32 count, Word<T> bits, i32 position, i32* positions) {
  for (u32 i = 0; i < count; ++i) {  // vectorized
    positions[i] = load<Word<T>>(values + i * sizeof(T)) == bits ? position : positions[i];
  }
}

// Fine points relative to `base`, for a form that is not closed.
template <class T>
void fine_points(const i32* positions, u32 count, i32 base, i32* integers) {
  for (u32 i = 0; i < count; ++i) {  // vectorized
    integers[i] = positions[i] == kNone<i32> ? kNone<i32> : fine_point_of<T>(positions[i]) - base;
  }
}

#if !defined(__CUDACC__)

// ---------------------------------------------------------------------------------------------------------------------
// Decoding

// Converts an integer to a correctly rounded number. The two halves of a 64-bit integer are exact as doubles, as is the
// sum of the upper half and the constants, so only the last sum rounds.
template <class Number>
H5L_FN Number number_of_integer(u32 integer) {
  return static_cast<Number>(static_cast<i32>(integer));
}
template <class Number>
H5L_FN Number number_of_integer(u64 integer) {
  if constexpr (kConvertsIntegers) return static_cast<double>(static_cast<i64>(integer));
  const double low = bit_cast<double>((integer & 0xFFFFFFFFu) | bit_cast<u64>(0x1p52));
  const double high = bit_cast<double>((integer >> 32) ^ bit_cast<u64>(0x1p84 + 0x1p63));
  return add(low, subtract(high, 0x1p84 + 0x1p63 + 0x1p52));
}

// Computes the values that integers, which are relative to `base`, represent. give(integer) takes all of them. All
// arithmetic wraps, modulo 2^32 for float and 2^64 for double.
template <class T, class I, class F>
H5L_INLINE void store_values(const I* integers, u32 count, i64 base, u8* values, F give) {
  static_assert(sizeof(I) <= sizeof(T));
  using W = Word<T>;
  const W offset = static_cast<W>(base);
  for (u32 i = 0; i < count; ++i) {  // vectorized
    store(values + i * sizeof(T), give(static_cast<W>(static_cast<Int<T>>(integers[i])) + offset));
  }
}

template <class T, class I>
void to_values(const Lattice<T>& lattice, const I* integers, u32 count, i64 base, bool is_fine, u8* values) {
  const T unit = is_fine ? lattice.fine : lattice.step;
  store_values<T>(integers, count, base, values,
                  [unit](Word<T> integer) { return value_of(number_of_integer<T>(integer), unit); });
}

template <class T, class I>
void to_values(const OwnLattice& own, const I* integers, u32 count, i64 base, u8* values) {
  store_values<T>(integers, count, base, values, [lattice = own](Word<T> integer) {
    return lattice.template value_of<T>(number_of_integer<double>(integer));
  });
}

// Words of integers are the integers themselves.
template <class T, class I>
void to_words(const I* integers, u32 count, i64 base, u8* words) {
  store_values<T>(integers, count, base, words, [](Word<T> integer) { return integer; });
}

template <class T, class I>
void to_values(const blocks::FoldedQuantizer<T>& q, const I* integers, u32 count, i64 base, bool, u8* values) {
  using W = Word<T>;
  constexpr u32 some = 32;
  const simd::Bins<T, blocks::FoldedQuantizer<T>> lanes(q);
  const W offset = static_cast<W>(base);
  for (u32 first = 0; first < count; first += some) {
    const u32 n = count - first < some ? count - first : some;
    u8* const to = values + first * sizeof(T);
    W words[some];
    for (u32 i = 0; i < n; ++i) words[i] = static_cast<W>(static_cast<Int<T>>(integers[first + i])) + offset;
    if (n == some) {
      lanes.template to_values<some>(simd::load_rows<some, W>(words), to);
    } else {
      for (u32 i = 0; i < n; ++i) store(to + i * sizeof(T), blocks::bits_of(q, words[i]));
    }
  }
}

#endif

}  // namespace h5lossy::H5L_TARGET::interp

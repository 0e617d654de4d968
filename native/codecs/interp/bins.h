// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Interp's forms on bins: the integers of values, and the integers that stand in for values without a bin. Plain loops,
// as in values.h.
#pragma once

#include "codecs/interp/values.h"

namespace h5lossy::H5L_TARGET::interp {

struct BinSummary {
  u32 exceptions = 0;  // of forms on bins: values without a bin
  u32 placed = 0;      // exceptions that have a nearest bin
  bool is_narrow = true;
};

// Bits above the lowest kNarrowBits of the distance of an integer from the base; 0 for distances below 2^22.
template <class W>
H5L_FN W narrow_excess(W difference) {
  constexpr W limit = W{1} << kNarrowBits;
  return (difference + limit) | (difference + (limit - 1));
}
template <class W>
H5L_FN bool is_narrow_excess(W excess) {
  return excess >> (kNarrowBits + 1) == 0;
}

// Whether bins of values that have a position are good without a check, and their differences from `base` narrow. A bin
// is at most this far from the value: 8 fine points, plus 1/128 of one for the rounding of positions, plus three
// roundings of a number of up to 2^18 fine points. That is less than 8.06, and the bound is 8.07. But a bin may still
// be the fill value, unless the fill value is far from all bins, or exceed the largest number.
template <class T>
H5L_FN bool bins_are_plain(const Lattice<T>& lattice, i64 base) {
  constexpr Int<T> whole = kFineLimit<T> / kUnit;
  constexpr T largest_bin = static_cast<T>(whole + 1);
  const bool all_finite = bit_cast<Word<T>>(multiply(largest_bin, lattice.step)) < kInfinity<T>;
  constexpr i64 near = i64{1} << (kNarrowBits - 1);
  return all_finite && fill_position(lattice) == kFarFill && base > -near && base < near;
}

// The same as find_bins below, for numbers of words.
template <class T, class I>
void find_bins_of_words(const Lattice<T>& lattice, const u8* values, u32 count, i64 base, I* bins,
                        BinSummary& summary) {
  using W = Word<T>;
  const Lattice<T> l = lattice;
  const W offset = static_cast<W>(base);
  W excess = 0, none = 0;
  for (u32 i = 0; i < count; ++i) {  // vectorized
    const W bits = load<W>(values + i * sizeof(T));
    const bool is_bin = is_bin_of_words(l, bits);
    const W difference = integer_of(bit_cast<T>(bits)) - offset;
    excess |= is_bin ? narrow_excess(difference) : 0;
    none += is_bin ? 0 : 1;
    bins[i] = is_bin ? static_cast<I>(difference) : kNone<I>;
  }
  summary.is_narrow &= is_narrow_excess(excess);
  summary.exceptions += static_cast<u32>(none);
}

// Bins relative to `base`; kNone for values that have none. With 32-bit integers the bins are only right if the result
// is narrow.
template <class T, class I>
void find_bins(const Lattice<T>& lattice, const u8* values, const i32* positions, u32 count, i64 base, I* bins,
               BinSummary& summary) {
  if (lattice.has_words) return find_bins_of_words(lattice, values, count, base, bins, summary);
  using W = Word<T>;
  constexpr u32 some = 8 * kBatch;
  const Lattice<T> l = lattice;
  const W fill = fill_of(l), offset = static_cast<W>(base);
  const bool is_plain = bins_are_plain(l, base);
  for (u32 first = 0; first < count; first += some) {
    const u32 end = count - first < some ? count : first + some;
    u32 missing = 0;
    if (is_plain) {
      const i32 near = static_cast<i32>(base);
      for (u32 i = first; i < end; ++i) {  // vectorized
        const bool has_position = positions[i] != kNone<i32>;
        missing += has_position ? 0 : 1;
        bins[i] = has_position ? static_cast<I>(bin_of(positions[i]) - near) : kNone<I>;
      }
      if (missing == 0) continue;
      if (count_masked<T>(l, values + first * sizeof(T), end - first) == missing) {
        summary.exceptions += missing;
        continue;
      }
    }
    W excess = 0, none = 0;
    for (u32 i = first; i < end; ++i) {  // vectorized
      T bin;
      const bool has_bin = find_bin(l, fill, load<W>(values + i * sizeof(T)), positions[i], bin);
      const W difference = integer_of(bin) - offset;
      excess |= has_bin ? narrow_excess(difference) : 0;
      none += has_bin ? 0 : 1;
      bins[i] = has_bin ? static_cast<I>(difference) : kNone<I>;
    }
    summary.is_narrow &= is_narrow_excess(excess);
    if (none == 0) continue;
    summary.exceptions += static_cast<u32>(none);
    W placed = 0;
    for (u32 i = first; i < end; ++i) {  // vectorized
      const bool is_placed = (bins[i] == kNone<I>)&has_nearest_bin(l, fill, load<W>(values + i * sizeof(T)));
      placed += is_placed ? 1 : 0;
    }
    summary.placed += static_cast<u32>(placed);
  }
}

// Gives exceptions their nearest bins as integers, from which other values are then predicted; in narrow tiles, only
// bins that are narrow. The first value's integer is always base.
template <class T, class I>
void place_exceptions(const Lattice<T>& lattice, const u8* values, u32 count, i64 base, bool is_narrow, I* bins) {
  using W = Word<T>;
  const Lattice<T> l = lattice;
  const W fill = fill_of(l), offset = static_cast<W>(base);
  for (u32 i = 1; i < count; ++i) {  // vectorized
    const W bits = load<W>(values + i * sizeof(T));
    const T s = multiply(bit_cast<T>(bits), l.inverse_step);
    const W difference = integer_of(subtract(add(s, kRounding<T>), kRounding<T>)) - offset;
    const bool is_near = !is_narrow | is_narrow_excess(narrow_excess(difference));
    const bool is_placed = (bins[i] == kNone<I>)&has_nearest_bin(l, fill, bits) & is_near;
    bins[i] = is_placed ? static_cast<I>(difference) : bins[i];
  }
}

// The fine point of the first value that has one; 0 if none has.
template <class T>
i32 first_fine_point(const i32* positions, u32 count) {
  for (u32 i = 0; i < count; ++i) {
    if (positions[i] != kNone<i32>) return fine_point_of<T>(positions[i]);
  }
  return 0;
}

#if !defined(__CUDACC__)

// Pointwise-relative: no fine points, so no positions either.
template <class T, class I>
void find_bins(const blocks::FoldedQuantizer<T>& q, const u8* values, const i32*, u32 count, i64 base, I* bins,
               BinSummary& summary) {
  using W = Word<T>;
  constexpr u32 some = 32;
  const simd::Bins<T, blocks::FoldedQuantizer<T>> lanes(q);
  const W offset = static_cast<W>(base);
  W excess = 0;
  for (u32 first = 0; first < count; first += some) {
    const u8* const from = values + first * sizeof(T);
    const u32 n = count - first < some ? count - first : some;
    W words[some];
    u32 exceptions = 0;
    if (n == some) {
      simd::Rows<some, W> rows;
      if (!lanes.template from_values<some>(from, rows)) {
        exceptions = static_cast<u32>(lanes.template exceptions<some>(from, rows));
      }
      simd::store_rows(rows, words);
    } else {
      for (u32 i = 0; i < n; ++i) {
        if (!blocks::bin_of(q, load<W>(from + i * sizeof(T)), words[i])) exceptions |= 1u << i;
      }
    }
    summary.exceptions += count_ones(exceptions);
    I* const to = bins + first;
    for (u32 i = 0; i < n; ++i) {                                                // vectorized
      const W has_bin = (exceptions >> i & 1) - W{1}, word = words[i] - offset;  // a mask
      excess |= narrow_excess(word) & has_bin;
      to[i] = has_bin != 0 ? static_cast<I>(word) : kNone<I>;
    }
  }
  summary.is_narrow &= is_narrow_excess(excess);
}

// The bin of the first value that has one; 0 if none has. Many values before it may have none, so whole batches are
// searched.
template <template <class> class Q, class T>
i64 first_bin(const Q<T>& q, const u8* values, const i32* positions, u32 count) {
  Int<T> bins[kBatch];
  for (u32 first = 0; first < count; first += kBatch) {
    const u32 n = batch_of(first, count);
    BinSummary summary;
    const i32* const places = positions == nullptr ? nullptr : positions + first;
    find_bins<T>(q, values + first * sizeof(T), places, n, 0, bins, summary);
    for (u32 i = 0; summary.exceptions != n && i < n; ++i) {
      if (bins[i] != kNone<Int<T>>) return bins[i];
    }
  }
  return 0;
}

// Whether all values have the same bin, `base`. Stops at the first batch that shows otherwise.
template <class T, class Q>
bool all_in_bin(const Q& q, const u8* values, const i32* positions, u32 count, i64 base) {
  Int<T> bins[kBatch];
  for (u32 first = 0; first < count; first += kBatch) {
    const u32 n = batch_of(first, count);
    BinSummary summary;
    const i32* const places = positions == nullptr ? nullptr : positions + first;
    find_bins<T>(q, values + first * sizeof(T), places, n, base, bins, summary);
    Int<T> any = 0;
    for (u32 i = 0; i < n; ++i) any |= bins[i];
    if (any != 0 || summary.exceptions != 0) return false;
  }
  return true;
}

#endif

template <class T>
H5L_FN Word<T> bits_of_bin(const Lattice<T>& lattice, i64 bin) {
  if (lattice.has_words) return static_cast<Word<T>>(static_cast<Word<T>>(bin) + lattice.origin);
  if (lattice.own.exists()) return bit_cast<Word<T>>(lattice.own.template value_of<T>(static_cast<double>(bin)));
  return bit_cast<Word<T>>(value_of(static_cast<T>(bin), lattice.step));
}
template <class T>
H5L_FN Word<T> bits_of_bin(const blocks::FoldedQuantizer<T>& q, i64 bin) {
  return blocks::bits_of(q, static_cast<Word<T>>(bin));
}

// Whether a value is an exception in every form. That is so if it is so near a cut that a form might move it to the
// other side, unless it is a fine point or a bin, which decode exactly.
template <class T>
H5L_FN bool is_guarded(const Lattice<T>& lattice, Word<T> bits) {
  const T x = bit_cast<T>(bits);
  if (!is_near_cut(lattice.cuts, x)) return false;
  bool is_kept;
  T bin;
  find_position<true>(lattice, position_limits(lattice), bits, is_kept);
  return !is_kept && !(find_bin(lattice, fill_of(lattice), bits, kNone<i32>, bin) && value_of(bin, lattice.step) == x);
}

// The bits that an exception of a form on fine points is stored as. If it has a bin, and is not kept, they are those
// that the bin decodes to, so that it stays the same in whatever form it is encoded next. Not used in forms on bins:
// there, fine points are exceptions if their bin is the fill value or infinite. The next bin might be within the bound,
// but fine points must not move.
template <class T>
H5L_FN Word<T> exception_bits(const Lattice<T>& lattice, Word<T> bits) {
  bool is_kept;
  T bin;
  const PositionLimits<T> limits = position_limits(lattice);
  const i32 position = find_position<true>(lattice, limits, bits, is_kept);
  const bool is_moved = !is_kept && find_bin(lattice, limits.fill, bits, position, bin) && !is_guarded(lattice, bits);
  return is_moved ? bit_cast<Word<T>>(value_of(bin, lattice.step)) : bits;
}
template <class T>
H5L_FN Word<T> exception_bits(const blocks::FoldedQuantizer<T>&, Word<T> bits) {
  return bits;
}

#if !defined(__CUDACC__)

// Whether the whole tile decodes to the same bits, so that it needs no form: it has more than one value, and all are
// equal exceptions, or all have one bin and none of them is kept beside it. `values` may be numbers of points, of which
// `originals` are the values. `exceptions` counts the values with neither a bin nor a fine point.
template <class T, class Q>
bool find_constant(const Q& q, const u8* values, const u8* originals, const i32* positions, u32 count, u32 exceptions,
                   u32 beside_bins, Word<T>& bits) {
  if (count < 2) return false;
  if (exceptions == count) {
    bits = load<Word<T>>(originals);
    return blocks::all_equal<Word<T>>(originals, count);
  }
  if (exceptions != 0 || beside_bins != 0) return false;
  const i64 bin = first_bin(q, values, positions, 1);
  bits = bits_of_bin(q, bin);
  return all_in_bin<T>(q, values, positions, count, bin);
}

#endif

}  // namespace h5lossy::H5L_TARGET::interp

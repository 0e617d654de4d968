// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The quantizers of codecs/bounds.h for whole rows, with few instructions and no conversions. They work if every value
// of a row passes with its first candidate; otherwise repeat_row() or the functions of bounds.h process the row again.
#pragma once

#include "codecs/blocks.h"
#include "codecs/bounds.h"
#include "kernels/common/device_primitives.cuh"

namespace h5lossy::H5L_TARGET {

// The kernel's quantizer, from the chunk's Quantizer.
template <class T, class Q>
struct QuantizerAs;
template <class T>
struct QuantizerAs<T, AbsoluteQuantizer<T>> {
  H5L_DEVICE static AbsoluteQuantizer<T> make(const Quantizer& q) { return absolute_quantizer<T>(q); }
};
template <class T>
struct QuantizerAs<T, PointwiseQuantizer<T>> {
  H5L_DEVICE static PointwiseQuantizer<T> make(const Quantizer& q) { return pointwise_quantizer<T>(q); }
};
template <class T>
struct QuantizerAs<T, blocks::FoldedQuantizer<T>> {
  H5L_DEVICE static blocks::FoldedQuantizer<T> make(const Quantizer& q) { return blocks::folded_quantizer<T>(q); }
};
template <class T, class Q>
H5L_DEVICE Q quantizer_as(const Quantizer& q) {
  return QuantizerAs<T, Q>::make(q);
}

// 2^m. Added to a smaller number, it leaves the integer part in the mantissa.
template <class T>
inline constexpr Word<T> kWholeBits = Word<T>{FloatTraits<T>::bias + kMantissaBits<T>} << kMantissaBits<T>;

// Whether one of a row's values may be the fill value or decode to it: its distance is at most the bound. Most fill
// values cannot be reached by a bin, and then need no tests: values equal to them fail anyway.
template <class Q, class T, u32 n>
H5L_DEVICE bool is_near_fill(const Q&, const T (&)[n]) {
  return false;  // these rows are quantized value by value
}
template <class T, u32 n>
H5L_DEVICE bool is_near_fill(const AbsoluteQuantizer<T>& q, const T (&values)[n]) {
  const T fill = bit_cast<T>(q.fill_bits);
  // Two more than the limit: the product is off by less than one. NaN is out of reach, too.
  const T reach = static_cast<T>(kBinLimit<T> + 2);
  if (!q.has_fill || !(without_sign(multiply(fill, q.inverse_step)) < reach)) return false;
  bool is_near = false;
  H5L_UNROLL for (u32 i = 0; i < n; ++i) is_near |= without_sign(subtract(values[i], fill)) <= q.bound;
  return is_near;
}

// Quantizes a row. Bins are numbers of the value's type; 0 has the sign of its value. False if a value fails with its
// first candidate.
//
// Rounding half away from zero is symmetric, so magnitudes suffice: rounded toward zero, the sum with 2^m holds the
// integer part. The largest error replaces a chain of tests; there are four, to shorten the dependency chain. A maximum
// ignores NaN, but NaN shows in the bits of the sums, as a bin beyond the limit does.
template <class T, u32 n>
H5L_DEVICE bool bins_of_row(const AbsoluteQuantizer<T>& q, const T (&values)[n], T (&bins)[n]) {
  using W = Word<T>;
  constexpr W whole_bits = kWholeBits<T>;
  constexpr W half_bits = FloatTraits<T>::below_half;
  const T whole = bit_cast<T>(whole_bits), half = bit_cast<T>(half_bits);
  T errors[4] = {};
  W used = 0;
  H5L_UNROLL for (u32 i = 0; i < n; ++i) {
    T& error = errors[i % 4];
    const T x = values[i], size = without_sign(x);
    const T sum = add_toward_zero(add(multiply(size, q.inverse_step), half), whole);
    const T bin = subtract(sum, whole);
    used |= bit_cast<W>(sum);
    error = larger(error, without_sign(subtract(size, multiply(bin, q.step))));
    bins[i] = bit_cast<T>(static_cast<W>(bit_cast<W>(bin) | (bit_cast<W>(x) & kSignBit<T>)));
  }
  const T error = larger(larger(errors[0], errors[1]), larger(errors[2], errors[3]));
  return error <= q.bound && used < whole_bits + kBinLimit<T>;
}

template <class Q, class T, u32 n>
H5L_DEVICE bool bins_of_row(const Q&, const T (&values)[n], T (&bins)[n]) {
  H5L_UNROLL for (u32 i = 0; i < n; ++i) bins[i] = values[i];
  return false;
}

// Quantizes the thread's row again after one of its values has failed. In the row, a value with a bin is replaced by
// ordinary(bin), and an exception by exceptional(its bits). Returns the exceptions: bit i is value i.
//
// A first candidate beyond the limit, or a value that is the fill value, is an exception whatever the second candidate;
// NaN is beyond the limit, too. The few other values that fail are left to bounds.h.
template <u32 row_bytes, class T, class Ordinary, class Exceptional>
H5L_DEVICE u32 repeat_row(const AbsoluteQuantizer<T>& q, u8* rows, u32 inside, Ordinary ordinary,
                          Exceptional exceptional) {
  using W = Word<T>;
  constexpr u32 at_once = kPieceBytes / sizeof(T);
  constexpr W half_bits = FloatTraits<T>::below_half, beyond = kWholeBits<T> + kBinLimit<T>;
  const T whole = bit_cast<T>(kWholeBits<T>), half = bit_cast<T>(half_bits), fill = bit_cast<T>(q.fill_bits);
  u32 exceptions = 0, unknown = 0;
  H5L_NO_UNROLL for (u32 piece = 0; piece < row_bytes / kPieceBytes; ++piece) {
    W words[at_once];
    u32 certain = 0, failed = 0;  // bit k: words[k]
    load_piece<row_bytes>(rows, piece, words);
    H5L_UNROLL for (u32 k = 0; k < at_once; ++k) {
      const W bits = words[k];
      const T size = without_sign(bit_cast<T>(bits));
      const T sum = add_toward_zero(add(multiply(size, q.inverse_step), half), whole);
      const T bin = subtract(sum, whole), rebuilt = multiply(bin, q.step);
      const W sign = bits & kSignBit<T>;
      const bool is_fill = q.has_fill && bits == q.fill_bits;
      const bool is_exception = is_fill || bit_cast<W>(sum) > beyond;
      const bool is_good = without_sign(subtract(size, rebuilt)) <= q.bound && bit_cast<W>(sum) < beyond && !is_fill &&
                           !(q.has_fill && bit_cast<T>(static_cast<W>(bit_cast<W>(rebuilt) | sign)) == fill);
      const W word = ordinary(bit_cast<T>(static_cast<W>(bit_cast<W>(bin) | sign)));
      words[k] = is_good ? word : is_exception ? exceptional(bits) : bits;
      certain |= is_exception ? 1u << k : 0;
      failed |= is_good ? 0 : 1u << k;
    }
    store_piece<row_bytes>(rows, piece, words);
    exceptions |= certain << (piece * at_once);
    unknown |= (failed & ~certain) << (piece * at_once);
  }
  for (u32 left = unknown & inside; left != 0; left &= left - 1) {
    const u32 i = lowest_one(left);
    W* const value = value_in_rows<row_bytes, W>(rows, thread(), i);
    W bin = 0;
    const bool has_bin = quantize(q, *value, bin);
    *value = has_bin ? ordinary(static_cast<T>(static_cast<typename FloatTraits<T>::Int>(bin))) : exceptional(*value);
    exceptions |= has_bin ? 0 : 1u << i;
  }
  return exceptions & inside;
}

// What a bin decodes to. The bin comes from an integer and is never -0.0, so the +0.0 of rebuild() in bounds.h is not
// needed.
template <class T>
H5L_DEVICE Word<T> bits_of_bin(const AbsoluteQuantizer<T>& q, Word<T> bin) {
  return bit_cast<Word<T>>(multiply(static_cast<T>(static_cast<typename FloatTraits<T>::Int>(bin)), q.step));
}
template <class T>
H5L_DEVICE Word<T> bits_of_bin(const blocks::FoldedQuantizer<T>& q, Word<T> bin) {
  return blocks::bits_of(q, bin);
}

}  // namespace h5lossy::H5L_TARGET

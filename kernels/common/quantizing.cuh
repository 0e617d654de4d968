// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The quantizers of codecs/bounds.h for whole rows, with few instructions and no conversions. They work if every value
// of a row passes with its first candidate; otherwise the row is repeated value by value with the functions of
// bounds.h.
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

// Whether one of the thread's values may be the fill value or decode to it: its distance is at most the bound. Called
// before the row is loaded, to save registers.
template <u32 row_bytes, class Q>
H5L_DEVICE bool is_near_fill(const Q&, const u8*) {
  return false;  // these rows are quantized value by value
}
template <u32 row_bytes, class T>
H5L_DEVICE bool is_near_fill(const AbsoluteQuantizer<T>& q, const u8* rows) {
  if (!q.has_fill) return false;
  const T fill = bit_cast<T>(q.fill_bits);
  bool is_near = false;
  H5L_NO_UNROLL for (u32 i = 0; i < row_bytes / sizeof(T); ++i) {
    const T value = *value_in_rows<row_bytes, T>(const_cast<u8*>(rows), thread(), i);
    is_near |= without_sign(subtract(value, fill)) <= q.bound;
  }
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

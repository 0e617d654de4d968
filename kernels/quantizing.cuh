// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The quantizers on the GPU: those of codecs/bounds.h for whole rows of values that are all good at the first try, with
// few instructions and none that converts. A row with any other value says so, and is done again value by value with the
// functions of bounds.h.
#pragma once

#include "codecs/blocks.h"
#include "codecs/bounds.h"
#include "codecs/pfpl.h"
#include "vocabulary.cuh"

namespace h5lossy::H5L_TARGET {

// The quantizer that a kernel works with, from what the host says of a chunk.
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
template <class T>
struct QuantizerAs<T, pfpl::NoQuantizer<T>> {
  H5L_DEVICE static pfpl::NoQuantizer<T> make(const Quantizer&) { return {}; }
};

template <class T, class Q>
H5L_DEVICE Q quantizer_as(const Quantizer& q) {
  return QuantizerAs<T, Q>::make(q);
}

template <class Q>
inline constexpr bool kIsLosslessQuantizer = false;
template <class T>
inline constexpr bool kIsLosslessQuantizer<pfpl::NoQuantizer<T>> = true;

// 2^m: added to a number below it, this leaves the whole part in the mantissa.
template <class T>
inline constexpr Word<T> kWholeBits = Word<T>{FloatTraits<T>::bias + kMantissaBits<T>} << kMantissaBits<T>;

// The bins of a row, as numbers of the value's type, none of them -0.0. False: a value is not good at the first try.
//
// Rounding half away from zero is symmetric, so the work is done on magnitudes: toward zero, the sum with 2^m is the whole
// part of a value in steps. A largest error does without a chain of tests; it passes over NaN, which the bits of the sums
// show, as they show a bin that is too large.
template <class T, u32 n>
H5L_DEVICE bool bins_of_row(const AbsoluteQuantizer<T>& q, const T (&values)[n], T (&bins)[n]) {
  using W = Word<T>;
  constexpr W whole_bits = kWholeBits<T>;
  const T whole = bit_cast<T>(whole_bits);
  const T half = bit_cast<T>(static_cast<W>(FloatTraits<T>::below_half));
  T error = 0;
  W used = 0;
  bool is_fill = false;
  H5L_UNROLL for (u32 i = 0; i < n; ++i) {
    const T x = values[i];
    const T sum = add_toward_zero(add(multiply(magnitude(x), q.inverse_step), half), whole);
    const T bin = subtract(sum, whole);
    used |= bit_cast<W>(sum);
    const T rebuilt = multiply(bin, q.step);
    error = larger(error, magnitude(subtract(magnitude(x), rebuilt)));
    const W sign = bit_cast<W>(x) & kSignBit<T>;
    if (q.has_fill) {
      is_fill |= bit_cast<W>(x) == q.fill_bits;
      is_fill |= bit_cast<W>(add(bit_cast<T>(static_cast<W>(bit_cast<W>(rebuilt) | sign)), T{0})) == q.fill_bits;
    }
    bins[i] = add(bit_cast<T>(static_cast<W>(bit_cast<W>(bin) | sign)), T{0});
  }
  return error <= q.bound && used < kWholeBits<T> + kBinLimit<T> && !is_fill;
}

template <class Q, class T, u32 n>
H5L_DEVICE bool bins_of_row(const Q&, const T (&)[n], T (&)[n]) {
  return false;
}

// PFPL's words of a row, in its place.
template <class T, class W, u32 n>
H5L_DEVICE bool zigzags_of(const AbsoluteQuantizer<T>& q, W (&words)[n]) {
  T values[n], bins[n];
  H5L_UNROLL for (u32 i = 0; i < n; ++i) values[i] = bit_cast<T>(words[i]);
  if (!bins_of_row(q, values, bins)) return false;
  // |2 bin + 1/2| is the zigzag number and a half; the mantissa of the sum with 2^m - 1/2 holds it.
  constexpr W whole_bits = kWholeBits<T>;
  const T whole = subtract(bit_cast<T>(whole_bits), T(0.5));
  H5L_UNROLL for (u32 i = 0; i < n; ++i) {
    const T twice = add(add(bins[i], bins[i]), T(0.5));
    words[i] = bit_cast<W>(add(magnitude(twice), whole)) & kMantissaMask<T>;
  }
  return true;
}

template <class Q, class W, u32 n>
H5L_DEVICE bool zigzags_of(const Q&, W (&)[n]) {
  return false;
}

}  // namespace h5lossy::H5L_TARGET

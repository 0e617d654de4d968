// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// PFPL's words (codecs/pfpl.h) for whole rows, with few instructions and no conversions, and back. They work if every
// value of a row passes with its first candidate.
#pragma once

#include "codecs/pfpl.h"
#include "kernels/common/quantizing.cuh"

namespace h5lossy::H5L_TARGET {

template <class T>
struct QuantizerAs<T, pfpl::NoQuantizer<T>> {
  H5L_DEVICE static pfpl::NoQuantizer<T> make(const Quantizer&) { return {}; }
};

namespace pfpl {

template <class Q>
inline constexpr bool kIsLosslessQuantizer = false;
template <class T>
inline constexpr bool kIsLosslessQuantizer<pfpl::NoQuantizer<T>> = true;

// The words of a row, each with kWordBias added. `words` are the values' bits on entry.
template <class Q>
inline constexpr u64 kWordBias = 0;
template <class T>
inline constexpr u64 kWordBias<AbsoluteQuantizer<T>> = kWholeBits<T>;

template <class T, class W, u32 n>
H5L_DEVICE bool zigzags_of(const AbsoluteQuantizer<T>& q, W (&words)[n]) {
  constexpr W whole_bits = kWholeBits<T>;
  T values[n], bins[n];
  H5L_UNROLL for (u32 i = 0; i < n; ++i) values[i] = bit_cast<T>(words[i]);
  const bool is_good = bins_of_row(q, values, bins);
  // |2 bin + 1/2| is the zigzag number plus a half; the sum with 2^m - 1/2 holds it in the mantissa.
  const T whole = subtract(bit_cast<T>(whole_bits), T(0.5));
  H5L_UNROLL for (u32 i = 0; i < n; ++i) {
    words[i] = bit_cast<W>(add(without_sign(multiply_add_exact(bins[i], T(2), T(0.5))), whole));
  }
  return is_good;
}

template <class Q, class W, u32 n>
H5L_DEVICE bool zigzags_of(const Q&, W (&)[n]) {
  return false;
}

// Decodes words in place. If all are codes, they are the bits of subnormal numbers, and need no conversion: the zigzag
// number plus a half, signed, is twice the bin plus a half. All operations but the last multiplication are exact. Rows
// with other words are rare and go through the thread's row in shared memory, to keep the code short.
template <u32 row_bytes, class T, class W, u32 n>
H5L_DEVICE void values_of_words(const AbsoluteQuantizer<T>& q, u8* rows, W (&words)[n]) {
  constexpr u32 m = kMantissaBits<T>, bias = FloatTraits<T>::bias;
  W used = 0;
  H5L_UNROLL for (u32 i = 0; i < n; ++i) used |= words[i];
  if (any_in_warp(used > kMantissaMask<T>)) [[unlikely]] {
    store_row<row_bytes>(rows, words);
    H5L_NO_UNROLL for (u32 i = 0; i < n; ++i) {
      W* const word = value_in_rows<row_bytes, W>(rows, thread(), i);
      *word = bits_of(q, *word);
    }
    load_row<row_bytes>(rows, words);
    return;
  }
  constexpr W up_bits = W{2 * bias} << m;        // scales by 2^(1 - m)
  constexpr W half_bits = W{bias - m} << m;      // a half, at that scale
  constexpr W down_bits = W{bias + m - 2} << m;  // scales back, and halves
  H5L_UNROLL for (u32 i = 0; i < n; ++i) {
    const T and_half = multiply_add_exact(bit_cast<T>(words[i]), bit_cast<T>(up_bits), bit_cast<T>(half_bits));
    const W signed_down = (words[i] << (8 * sizeof(W) - 1)) + down_bits;  // adds the sign bit
    words[i] = bit_cast<W>(multiply(multiply_add_exact(and_half, bit_cast<T>(signed_down), T(-0.25)), q.step));
  }
}

template <u32 row_bytes, class Q, class W, u32 n>
H5L_DEVICE void values_of_words(const Q& q, u8*, W (&words)[n]) {
  H5L_UNROLL for (u32 i = 0; i < n; ++i) words[i] = bits_of(q, words[i]);
}

}  // namespace pfpl

}  // namespace h5lossy::H5L_TARGET

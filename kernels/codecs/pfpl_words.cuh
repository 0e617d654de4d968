// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// PFPL's words (codecs/pfpl.h) for whole rows, with few instructions and no conversions, and back. Works if every value
// of a row passes with its first candidate.
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

// The word of a bin that is given as a floating-point number.
template <class T>
H5L_DEVICE Word<T> zigzag_of_number(T bin) {
  // |2 bin + 1/2| is the zigzag number plus a half; the sum with 2^m - 1/2 holds it in the mantissa.
  const T whole = subtract(bit_cast<T>(kWholeBits<T>), T(0.5));
  return bit_cast<Word<T>>(add(without_sign(multiply_add_exact(bin, T(2), T(0.5))), whole));
}

template <class T, class W, u32 n>
H5L_DEVICE bool zigzags_of(const AbsoluteQuantizer<T>& q, W (&words)[n]) {
  T values[n], bins[n];
  H5L_UNROLL for (u32 i = 0; i < n; ++i) values[i] = bit_cast<T>(words[i]);
  const bool is_near = is_near_fill(q, values);
  const bool is_good = bins_of_row(q, values, bins);
  H5L_UNROLL for (u32 i = 0; i < n; ++i) words[i] = zigzag_of_number(bins[i]);
  return is_good && !is_near;
}

template <class Q, class W, u32 n>
H5L_DEVICE bool zigzags_of(const Q&, W (&)[n]) {
  return false;
}

// Replaces the first `count` values of the thread's row by their words, each with kWordBias added, and the others by
// the word 0. False if a value has no word.
template <u32 row_bytes, class T>
H5L_DEVICE bool repeat_words(const AbsoluteQuantizer<T>& q, u8* rows, u32 count) {
  using W = Word<T>;
  constexpr W bias = static_cast<W>(kWordBias<AbsoluteQuantizer<T>>);
  constexpr u32 n = row_bytes / sizeof(T);
  bool has_words = true;
  const u32 inside = count < 32 ? (u32{1} << count) - 1 : ~u32{0};
  const auto word_of_exception = [&](W bits) { return static_cast<W>(bits + bias); };
  u32 exceptions =
      repeat_row<row_bytes>(q, rows, inside, [](T bin) { return zigzag_of_number(bin); }, word_of_exception);
  // Bits that would be read as a code are an exception only if the fill value has such bits, or is 0.
  if (!q.has_fill || !is_code<T>(q.fill_bits)) exceptions = 0;
  for (; exceptions != 0; exceptions &= exceptions - 1) {
    const W bits = *value_in_rows<row_bytes, W>(rows, thread(), lowest_one(exceptions)) - bias;
    has_words &= bits == 0 || !is_code<T>(bits);
  }
  H5L_NO_UNROLL for (u32 v = count; v < n; ++v) * value_in_rows<row_bytes, W>(rows, thread(), v) = bias;
  return has_words;
}

template <u32 row_bytes, class Q>
H5L_DEVICE bool repeat_words(const Q& q, u8* rows, u32 count) {
  using W = decltype(q.fill_bits);
  bool has_words = true;
  H5L_NO_UNROLL for (u32 v = 0; v < row_bytes / sizeof(W); ++v) {
    W* const value = value_in_rows<row_bytes, W>(rows, thread(), v);
    W word = 0;
    if (v < count) has_words &= word_of(q, *value, word);
    *value = word + static_cast<W>(kWordBias<Q>);
  }
  return has_words;
}

// Decodes a code: it has the bits of a subnormal number, and needs no conversion. The zigzag number plus a half,
// signed, is twice the bin plus a half. All operations but the last multiplication are exact.
template <class T>
H5L_DEVICE Word<T> value_of_code(const AbsoluteQuantizer<T>& q, Word<T> word) {
  using W = Word<T>;
  constexpr u32 m = kMantissaBits<T>, bias = FloatTraits<T>::bias;
  constexpr W up_bits = W{2 * bias} << m;        // scales by 2^(1 - m)
  constexpr W half_bits = W{bias - m} << m;      // a half, at that scale
  constexpr W down_bits = W{bias + m - 2} << m;  // scales back, and halves
  const T and_half = multiply_add_exact(bit_cast<T>(word), bit_cast<T>(up_bits), bit_cast<T>(half_bits));
  const W signed_down = (word << (8 * sizeof(W) - 1)) + down_bits;  // adds the sign bit
  return bit_cast<W>(multiply(multiply_add_exact(and_half, bit_cast<T>(signed_down), T(-0.25)), q.step));
}

// Decodes words in place. Rows with words that are not codes are rare; all other rows need no tests.
template <class T, class W, u32 n>
H5L_DEVICE void values_of_words(const AbsoluteQuantizer<T>& q, W (&words)[n]) {
  W used = 0;
  H5L_UNROLL for (u32 i = 0; i < n; ++i) used |= words[i];
  if (any_in_warp(used > kMantissaMask<T>)) [[unlikely]] {
    H5L_UNROLL for (u32 i = 0; i < n; ++i) words[i] = is_code<T>(words[i]) ? value_of_code(q, words[i]) : words[i];
  } else {
    H5L_UNROLL for (u32 i = 0; i < n; ++i) words[i] = value_of_code(q, words[i]);
  }
}

template <class Q, class W, u32 n>
H5L_DEVICE void values_of_words(const Q& q, W (&words)[n]) {
  H5L_UNROLL for (u32 i = 0; i < n; ++i) words[i] = bits_of(q, words[i]);
}

}  // namespace pfpl

}  // namespace h5lossy::H5L_TARGET

// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// PFPL (Fallin et al., IPDPS 2025): the words of values, and sizes. The format is in docs/format/pfpl.md.
#pragma once

#include "codecs/bits.h"
#include "codecs/bounds.h"
#include "codecs/pfpl_zero_removal.h"
#include "codecs/portable.h"

namespace h5lossy::H5L_TARGET::pfpl {

inline constexpr u32 kTileBytes = 16384;
static_assert(kTileBytes == kStreamBytes, "a tile is what zero removal takes at once");

template <class T>
inline constexpr u32 kTileValues = kTileBytes / static_cast<u32>(sizeof(T));

// Values whose bits are transposed together, one per bit of a word.
template <class T>
inline constexpr u32 kGroupValues = kWordBits<Word<T>>;

// ---------------------------------------------------------------------------------------------------------------------
// Absolute: a bin is a zigzag number with sign and exponent zero. These are the bits of positive subnormal numbers,
// which are never exceptions, since they are within any bound that is not lossless.

template <class T>
H5L_FN bool is_code(Word<T> word) {
  return word <= kMantissaMask<T>;
}

// The word of a value. False if it has none, because its own bits would be read as a code; its tile is then stored.
template <class T>
H5L_FN bool word_of(const AbsoluteQuantizer<T>& q, Word<T> bits, Word<T>& word) {
  Word<T> bin;
  if (quantize(q, bits, bin)) {
    word = zigzag(bin);
    return true;
  }
  word = bits;
  return word == 0 || !is_code<T>(word);
}

template <class T>
H5L_FN Word<T> bits_of(const AbsoluteQuantizer<T>& q, Word<T> word) {
  const Word<T> rebuilt = bit_cast<Word<T>>(rebuild(q, unzigzag(word)));  // unconditional, so that loops have no branch
  return is_code<T>(word) ? rebuilt : word;
}

// ---------------------------------------------------------------------------------------------------------------------
// Pointwise-relative: codes use the bits of negative NaNs.

template <class T>
inline constexpr Word<T> kCodeMask = static_cast<Word<T>>(~kMantissaMask<T>);  // M: sign and exponent

// The NaN of 0/0 on x86. It is common, so it has a word of its own: pattern 0, which no exception has.
template <class T>
inline constexpr Word<T> kDefaultNegativeNan =
    static_cast<Word<T>>(kCodeMask<T> | (Word<T>{1} << (kMantissaBits<T> - 1)));

template <class T>
H5L_FN Word<T> word_of_pattern(Word<T> pattern) {
  const Word<T> difference = pattern ^ kCodeMask<T>;
  return difference - 1;
}

template <class T>
H5L_FN bool word_of(const PointwiseQuantizer<T>& q, Word<T> bits, Word<T>& word) {
  const Word<T> sign = bits >> (8 * sizeof(T) - 1);
  const bool is_fill = q.has_fill && bits == q.fill_bits;
  Word<T> bin;
  if ((bits & ~kSignBit<T>) == 0 && !is_fill) {
    word = word_of_pattern<T>(kCodeMask<T> | 1);
    return true;
  }
  if (quantize(q, bits, bin)) {
    word = word_of_pattern<T>(kCodeMask<T> | ((zigzag(bin) + 1) << 1) | sign);
    return true;
  }
  word = word_of_pattern<T>(bits == kDefaultNegativeNan<T> ? 0 : bits);
  return bits <= kCodeMask<T> || bits == kDefaultNegativeNan<T>;  // other negative NaNs would be read as codes
}

template <class T>
H5L_FN Word<T> bits_of(const PointwiseQuantizer<T>& q, Word<T> word) {
  const Word<T> pattern = (word + 1) ^ kCodeMask<T>;
  if (pattern <= kCodeMask<T>) return pattern == 0 ? kDefaultNegativeNan<T> : pattern;
  const Word<T> code = pattern & kMantissaMask<T>;
  if (code == 1) return 0;
  const Word<T> sign = (code & 1) << (8 * sizeof(T) - 1);
  return sign | rebuild(q, unzigzag(static_cast<Word<T>>((code >> 1) - 1)));
}

// ---------------------------------------------------------------------------------------------------------------------
// Lossless: unchanged bits.

template <class T>
struct NoQuantizer {};

template <class T>
H5L_FN bool word_of(const NoQuantizer<T>&, Word<T> bits, Word<T>& word) {
  word = bits;
  return true;
}

template <class T>
H5L_FN Word<T> bits_of(const NoQuantizer<T>&, Word<T> word) {
  return word;
}

// ---------------------------------------------------------------------------------------------------------------------

// Calls `run` with the quantizer for the bound kind.
template <class T, class Run>
H5L_FN auto with_quantizer(const Quantizer& quantizer, Run run) {
  switch (quantizer.kind) {
    case BoundKind::absolute:
    case BoundKind::range_relative:
      return run(absolute_quantizer<T>(quantizer));
    case BoundKind::pointwise_relative:
      return run(pointwise_quantizer<T>(quantizer));
    case BoundKind::lossless:
    case BoundKind::noise:  // integers only
      break;
  }
  return run(NoQuantizer<T>{});
}

}  // namespace h5lossy::H5L_TARGET::pfpl

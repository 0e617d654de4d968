// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// PFPL (Fallin et al., IPDPS 2025): what a value's word is, and how large things are. docs/format/pfpl.md is the
// format.
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

// Values whose bits are transposed together: as many as a word has bits.
template <class T>
inline constexpr u32 kGroupValues = kWordBits<Word<T>>;

// ---------------------------------------------------------------------------------------------------------------------
// Absolute: a bin is a zigzag number with sign and exponent zero, the room of the positive subnormals, none of which
// can be an exception because all are within any bound that is not lossless.

template <class T>
H5L_FN bool is_code(Word<T> word) {
  return word <= kMantissaMask<T>;
}

// The word of a value. False: it has none (its own bits would read as a code), so its tile is stored.
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
  const Word<T> rebuilt = bit_cast<Word<T>>(rebuild(q, unzigzag(word)));  // always, so that loops have no branch
  return is_code<T>(word) ? rebuilt : word;
}

// ---------------------------------------------------------------------------------------------------------------------
// Pointwise-relative: codes take the room of the negative NaNs.

template <class T>
inline constexpr Word<T> kCodeMask = static_cast<Word<T>>(~kMantissaMask<T>);  // M: sign and exponent

// 0/0 on x86. Common, so it has a word of its own: that of the pattern 0, which no exception has.
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
  return bits <= kCodeMask<T> || bits == kDefaultNegativeNan<T>;  // another negative NaN would read as a code
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
// Lossless: the bits as they are.

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

// Calls `run` with the quantizer that the bound kind asks for.
template <class T, class Run>
H5L_FN auto with_quantizer(const Quantizer& quantizer, Run run) {
  switch (quantizer.kind) {
    case BoundKind::absolute:
    case BoundKind::range_relative:
      return run(absolute_quantizer<T>(quantizer));
    case BoundKind::pointwise_relative:
      return run(pointwise_quantizer<T>(quantizer));
    case BoundKind::lossless:
      break;
  }
  return run(NoQuantizer<T>{});
}

}  // namespace h5lossy::H5L_TARGET::pfpl

// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Quantizes whole groups of values on a CPU, for all codecs. Equal to quantize() of bounds.h for each value, in a form
// that compilers vectorize.
#pragma once

#include "codecs/bounds.h"
#include "codecs/portable.h"

namespace h5lossy::H5L_TARGET {

// Quantizes n values if each passes with its first candidate, as nearly all do. Otherwise returns false: the bins are
// then undefined, and quantize() decides.
template <bool has_fill, u32 n, class T>
bool bins_of_group(const AbsoluteQuantizer<T>& q, const u8* values, Word<T>* bins) {
  Word<T> doubtful = 0;
  for (u32 i = 0; i < n; ++i) {
    const Word<T> bits = load<Word<T>>(values + i * sizeof(T));
    const T x = bit_cast<T>(bits);
    const T t = steps_to_truncate(q, x);
    const bool fits = magnitude(t) < static_cast<T>(kBinLimit<T>);
    const Word<T> bin = static_cast<Word<T>>(static_cast<typename FloatTraits<T>::Int>(fits ? t : T{0}));
    const T rebuilt = rebuild(q, bin);
    const bool close = magnitude(subtract(x, rebuilt)) <= q.bound;
    bool good = fits & close;
    if constexpr (has_fill) good &= (bits != q.fill_bits) & (bit_cast<Word<T>>(rebuilt) != q.fill_bits);
    doubtful |= good ? Word<T>{0} : Word<T>{1};
    bins[i] = bin;
  }
  return doubtful == 0;
}

template <u32 n, class T>
bool bins_of_group(const AbsoluteQuantizer<T>& q, const u8* values, Word<T>* bins) {
  bool good = q.has_fill ? bins_of_group<true, n>(q, values, bins) : bins_of_group<false, n>(q, values, bins);
  if (q.cuts == nullptr) return good;
  for (u32 i = 0; good && i < n; ++i) {
    good = !is_cut_off(q.cuts, bit_cast<T>(load<Word<T>>(values + i * sizeof(T))), rebuild(q, bins[i]));
  }
  return good;
}

}  // namespace h5lossy::H5L_TARGET

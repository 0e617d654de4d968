// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The words of a fixed-length block, kept in registers from its values to its planes and back: differences and their
// sums for any prediction, and signs. Uses AVX-512 or AVX2; otherwise arrays and plain loops, which are also the
// definition.
//
// `before` is a prediction: a constexpr function from a position above 0 to the position that predicts it. Position 0
// is predicted from the word before the block, the *edge*.
#pragma once
#pragma once

#include "codecs/blocks.h"
#include "codecs/portable.h"

#if defined(H5L_AVX512) || defined(H5L_AVX2)
#include "codecs/simd/block_rows_vectors.h"
#else
#include "codecs/simd/block_rows_arrays.h"
#endif

#if !defined(H5L_AVX512)

namespace h5lossy::H5L_TARGET::simd {

// Fills positions of `holes` with the word before them, the first ones with `last`.
template <u32 n, class W>
void fill_forward(u64 holes, W last, Rows<n, W>& rows) {
  if (holes == blocks::first_bits(n)) {
    rows = all_words<n>(last);
    return;
  }
  W words[n];
  store_rows(rows, words);
#pragma GCC unroll 8
  for (u32 i = 0; i < n; ++i, holes >>= 1) {  // branch-free: holes are unpredictable
    const W is_hole = W{0} - static_cast<W>(holes & 1);
    words[i] = last = (last & is_hole) | (words[i] & ~is_hole);
  }
  rows = load_rows<n, W>(words);
}

}  // namespace h5lossy::H5L_TARGET::simd

#endif

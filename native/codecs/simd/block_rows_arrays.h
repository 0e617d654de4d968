// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// block_rows.h in arrays and plain loops: the definition.
#pragma once

#include "codecs/blocks.h"
#include "codecs/portable.h"
#include "codecs/simd/sums.h"

namespace h5lossy::H5L_TARGET::simd {

inline constexpr bool kRowsAreRegisters = false;

template <u32 n, class W>
struct Rows {
  W at[n];
};

template <class W>
using Edge = W;

template <u32 n, class W>
H5L_INLINE Rows<n, W> load_rows(const void* words) {
  Rows<n, W> rows;
  memcpy(rows.at, words, sizeof rows.at);
  return rows;
}

template <u32 n, class W>
H5L_INLINE void store_rows(const Rows<n, W>& rows, void* words) {
  memcpy(words, rows.at, sizeof rows.at);
}

template <u32 n, class W>
H5L_INLINE Rows<n, W> all_words(W word) {
  Rows<n, W> rows;
  for (u32 i = 0; i < n; ++i) rows.at[i] = word;
  return rows;
}

template <u32 n, class W>
H5L_INLINE W word_at(const Rows<n, W>& rows, u32 i) {
  return rows.at[i];
}

template <u32 n, class W>
H5L_INLINE W first_of(const Rows<n, W>& rows) {
  return rows.at[0];
}

template <u32 n, class W>
H5L_INLINE Rows<n, W> with_first(Rows<n, W> rows, W first) {
  rows.at[0] = first;
  return rows;
}

template <u32 n, class W>
H5L_INLINE W any_bits(const Rows<n, W>& rows) {
  W any = 0;
  for (u32 i = 0; i < n; ++i) any |= rows.at[i];
  return any;
}

template <u32 n, class W>
H5L_INLINE bool all_are(const Rows<n, W>& rows, W word) {
  W any = 0;
  for (u32 i = 0; i < n; ++i) any |= rows.at[i] ^ word;
  return any == 0;
}

template <u32 n, class W>
H5L_INLINE bool all_are_equal(const Rows<n, W>& a, const Rows<n, W>& b) {
  W any = 0;
  for (u32 i = 0; i < n; ++i) any |= a.at[i] ^ b.at[i];
  return any == 0;
}

template <u32 n, class W>
H5L_INLINE Rows<n, W> either(Rows<n, W> a, const Rows<n, W>& b) {
  for (u32 i = 0; i < n; ++i) a.at[i] |= b.at[i];
  return a;
}

template <u32 n, class W>
H5L_INLINE Rows<n, W> keep(Rows<n, W> rows, u64 mask) {
  for (u32 i = 0; i < n; ++i) rows.at[i] = (mask >> i & 1) != 0 ? rows.at[i] : 0;
  return rows;
}

template <class W>
H5L_INLINE Edge<W> edge_of(W word) {
  return word;
}

template <u32 n, class W>
H5L_INLINE Edge<W> last_of(const Rows<n, W>& rows) {
  return rows.at[n - 1];
}

template <class W>
H5L_INLINE W word_of(Edge<W> edge) {
  return edge;
}

template <auto before, u32 n, class W>
H5L_INLINE void differences(const Rows<n, W>& bins, Edge<W> edge, Rows<n, W>& words) {
  words.at[0] = blocks::to_sign_last(static_cast<W>(bins.at[0] - edge));
  for (u32 i = 1; i < n; ++i) words.at[i] = blocks::to_sign_last(static_cast<W>(bins.at[i] - bins.at[i - 1]));
#pragma GCC unroll 64
  for (u32 i = 1; i < n; ++i) {  // separate from the others, so that those are vectorized
    if (before(i) == i - 1) continue;
    words.at[i] = blocks::to_sign_last(static_cast<W>(bins.at[i] - bins.at[before(i)]));
  }
}

template <u32 n, class W>
H5L_INLINE void signs_last(const Rows<n, W>& numbers, Rows<n, W>& words) {
  for (u32 i = 0; i < n; ++i) words.at[i] = blocks::to_sign_last(numbers.at[i]);
}

template <u32 n, class W>
H5L_INLINE W any_bits_behind_first(const Rows<n, W>& rows) {
  W any = 0;
  for (u32 i = 1; i < n; ++i) any |= rows.at[i];
  return any;
}

// Not inlined: GCC would interleave several blocks, with more shuffles than sums.
template <auto before, u32 n, class W>
[[gnu::noinline]] void sum_rows(Rows<n, W>& rows, Edge<W>& edge) {
  constexpr bool is_run = [] {
    for (u32 i = 1; i < n; ++i) {
      if (before(i) != i - 1) return false;
    }
    return true;
  }();
  if constexpr (is_run) {
    edge = running_sums(rows.at, n, edge);
  } else {
    rows.at[0] += edge;
#pragma GCC unroll 64
    for (u32 i = 1; i < n; ++i) rows.at[i] += rows.at[before(i)];
    edge = rows.at[n - 1];
  }
}

}  // namespace h5lossy::H5L_TARGET::simd

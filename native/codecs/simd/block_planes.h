// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// A block's words (simd/block_rows.h) to planes (codecs/blocks.h), and planes to bins, sixteen planes at a time; words
// of float64 are two halves of 32 bits. A difference rarely has more than 16 bits, so that case is the fast path.
#pragma once

#include "codecs/blocks.h"
#include "codecs/portable.h"
#include "codecs/simd/block_rows.h"

#if defined(H5L_AVX512)
#include "codecs/simd/block_planes_avx512.h"
#elif defined(H5L_AVX2)
#include "codecs/simd/block_planes_avx2.h"
#endif

namespace h5lossy::H5L_TARGET::simd {

#if defined(H5L_AVX512) || defined(H5L_AVX2)

// ---------------------------------------------------------------------------------------------------------------------
// To planes

// Planes are written up to 16 at a time: this many bytes after the last one may be overwritten.
inline constexpr u32 kPlanesOverrun = 128;

template <u32 half, u32 n, u32 r = 0>
H5L_INLINE void halves(const Rows<n, u64>& words, Rows<n, u32>& result) {
  result.at[r] = halves<half>(words.at[2 * r], words.at[2 * r + 1]);
  if constexpr (r + 1 < Rows<n, u32>::count) halves<half, n, r + 1>(words, result);
}

template <u32 n>
H5L_INLINE u8* store_planes(const Rows<n, u32>& words, u32 first, u32 planes, u8* out) {
  store_words(words, first, planes, out);
  return out + planes * (n / 8);
}

template <u32 n>
H5L_INLINE u8* store_planes(const Rows<n, u64>& words, u64 first, u32 planes, u8* out) {
  Rows<n, u32> part;
  halves<0>(words, part);
  store_words(part, static_cast<u32>(first), planes, out);
  if (planes > 32) {
    halves<1>(words, part);
    store_words(part, static_cast<u32>(first >> 32), planes - 32, out + 4 * n);
  }
  return out + planes * (n / 8);
}

// Writes the lowest `planes` bits of the words as planes; returns their end.
template <u32 n, class W>
H5L_INLINE u8* store_planes(const Rows<n, W>& words, u32 planes, u8* out) {
  return store_planes<n>(words, W{0}, planes, out);
}

// The same, with the first word masked by `first_mask`, which is applied last because it is computed last.
template <u32 n, class W>
H5L_INLINE u8* store_planes_masked(const Rows<n, W>& words, W first_mask, u32 planes, u8* out) {
  return store_planes<n>(with_first(words, W{0}), static_cast<W>(first_of(words) & first_mask), planes, out);
}

// ---------------------------------------------------------------------------------------------------------------------
// From planes

// Half is u16 for u32, or u32 for u64.
template <u32 r = 0, u32 n, class Half, class W>
H5L_INLINE void sign_extend_rows(const Rows<n, Half>& from, Rows<n, W>& rows) {
  rows.at[r] = sign_extend<r % 2>(from.at[r / 2]);
  if constexpr (r + 1 < Rows<n, W>::count) sign_extend_rows<r + 1>(from, rows);
}

template <u32 r = 0, u32 n, class Half, class W>
H5L_INLINE void join_rows(const Rows<n, Half>& low, const Rows<n, Half>& high, Rows<n, W>& rows) {
  rows.at[r] = zero_extend<r % 2>(low.at[r / 2]) | zero_extend<r % 2>(high.at[r / 2]) << kWordBits<Half>;
  if constexpr (r + 1 < Rows<n, W>::count) join_rows<r + 1>(low, high, rows);
}

// Loads the words of up to 32 planes.
template <u32 n>
H5L_INLINE Rows<n, u32> load_words(const u8* from, u32 planes) {
  Rows<n, u32> rows;
  const ShortRows<n> low = load_sixteen<n>(from, planes),
                     high = load_sixteen<n>(from + 2 * n, planes < 16 ? 0 : planes - 16);
  join_rows(low, high, rows);
  return rows;
}

template <u32 n, class W>
H5L_INLINE Rows<n, W> from_sign_last(Rows<n, W> rows, bool keep_first) {
#pragma GCC unroll 16
  for (u32 r = 0; r < rows.count; ++r) rows.at[r] = from_sign_last<W>(rows.at[r]);
  return keep_first ? rows : with_first(rows, W{0});
}

template <u32 n>
H5L_INLINE Rows<n, u32> load_differences(const u8* from, u32 planes, bool keep_first, u32) {
  if (__builtin_expect(planes > 16, 0)) return from_sign_last(load_words<n>(from, planes), keep_first);
  Rows<n, u32> rows;
  sign_extend_rows(from_sign_last(load_sixteen<n>(from, planes), keep_first), rows);
  return rows;
}

template <u32 n>
H5L_INLINE Rows<n, u64> load_differences(const u8* from, u32 planes, bool keep_first, u64) {
  Rows<n, u64> rows;
  if (__builtin_expect(planes <= 32, 1)) {
    sign_extend_rows(load_differences<n>(from, planes, keep_first, u32{}), rows);
    return rows;
  }
  join_rows(load_words<n>(from, 32), load_words<n>(from + 4 * n, planes - 32), rows);
  return from_sign_last(rows, keep_first);
}

// Loads differences (without the first one if `keep_first` is false), and the bins that they sum to.
template <u32 n, class W>
H5L_INLINE Rows<n, W> load_differences(const u8* from, u32 planes, bool keep_first) {
  return load_differences<n>(from, planes, keep_first, W{});
}

// Bins from the sums of differences in words of half the size.
template <u32 n, class Half, class W>
H5L_INLINE void bins_of_sums(const Rows<n, Half>& sums, Vector<Half> last, Edge<W>& edge, Rows<n, W>& bins) {
  sign_extend_rows(sums, bins);
#pragma GCC unroll 16
  for (u32 r = 0; r < bins.count; ++r) bins.at[r] += edge;
  edge += sign_extend<0>(last);
}

template <auto before, u32 n>
H5L_INLINE void load_bins(const u8* from, u32 planes, bool keep_first, Edge<u32>& edge, Rows<n, u32>& bins) {
  // Sums of differences of 11 planes along 32 positions fit into 16 bits; predictions in more dimensions have shorter
  // chains.
  if (__builtin_expect(planes > 11, 0)) {
    bins = load_differences<n, u32>(from, planes, keep_first);
    sum_rows<before>(bins, edge);
    return;
  }
  Edge<u16> last = {};
  ShortRows<n> sums = from_sign_last(load_sixteen<n>(from, planes), keep_first);
  sum_rows<before>(sums, last);
  bins_of_sums<n, u16, u32>(sums, last, edge, bins);
}

template <auto before, u32 n>
H5L_INLINE void load_bins(const u8* from, u32 planes, bool keep_first, Edge<u64>& edge, Rows<n, u64>& bins) {
  // Likewise 27 planes in 32 bits.
  if (__builtin_expect(planes > 27, 0)) {
    bins = load_differences<n, u64>(from, planes, keep_first);
    sum_rows<before>(bins, edge);
    return;
  }
  Edge<u32> last = {};
  Rows<n, u32> sums;
  load_bins<before, n>(from, planes, keep_first, last, sums);
  bins_of_sums<n, u32, u64>(sums, last, edge, bins);
}

// The planes of a block, and its differences or bins. The memory passed to load() may be read later.
template <u32 n, class W>
class LoadedPlanes {
 public:
  H5L_INLINE void load(const u8* from, u32 planes) {
    from_ = from;
    planes_ = planes;
  }

  // Clears the first difference if `keep_first` is false.
  H5L_INLINE void differences(bool keep_first, Rows<n, W>& words) const {
    words = load_differences<n, W>(from_, planes_, keep_first);
  }

  template <auto before>
  H5L_INLINE void bins(bool keep_first, Edge<W>& edge, Rows<n, W>& bins) const {
    load_bins<before, n>(from_, planes_, keep_first, edge, bins);
  }

 private:
  const u8* from_;
  u32 planes_;
};

#else

using blocks::kPlanesOverrun;

template <u32 n, class W>
u8* store_planes_masked(const Rows<n, W>& words, W first_mask, u32 planes, u8* out) {
  return blocks::store_planes<n>(words.at, first_mask, planes, out);
}

template <u32 n, class W>
u8* store_planes(const Rows<n, W>& words, u32 planes, u8* out) {
  return blocks::store_planes<n>(words.at, ~W{0}, planes, out);
}

template <u32 n, class W>
class LoadedPlanes {
 public:
  void load(const u8* from, u32 planes) {
    if (planes == 0) {
      words_ = {};
      return;
    }
    blocks::Plane<n> bytes[blocks::kMaxRows<kWordBits<W> - 1>];
    blocks::load_planes<n>(from, planes, bytes);
    blocks::words_of_rows<n>(bytes, planes, words_.at);
  }

  void differences(bool keep_first, Rows<n, W>& words) const {
    for (u32 i = 0; i < n; ++i) words.at[i] = blocks::from_sign_last(words_.at[i]);
    if (!keep_first) words.at[0] = 0;
  }

  template <auto before>
  void bins(bool keep_first, Edge<W>& edge, Rows<n, W>& bins) const {
    differences(keep_first, bins);
    sum_rows<before>(bins, edge);
  }

 private:
  Rows<n, W> words_;
};

#endif

}  // namespace h5lossy::H5L_TARGET::simd

// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// block_rows.h for AVX-512.
#pragma once

#include <immintrin.h>

#include "codecs/blocks.h"
#include "codecs/portable.h"
#include "codecs/simd/block_rows_registers.h"
#include "codecs/simd/lanes.h"

namespace h5lossy::H5L_TARGET::simd {

// The source lane, in the concatenation of two rows, of each lane.
template <class W>
struct Places {
  alignas(64) W at[kLanes<W>];
};

template <class W, class Source>
constexpr Places<W> places(Source source) {
  Places<W> result = {};
  for (u32 i = 0; i < kLanes<W>; ++i) result.at[i] = static_cast<W>(source(i));
  return result;
}

template <class W>
H5L_INLINE Vector<W> permute(const Places<W>& places, Vector<W> a, Vector<W> b) {
  const Register from = _mm512_load_si512(places.at);
  if constexpr (sizeof(W) == 4) return row_of<W>(_mm512_permutex2var_epi32(raw<W>(a), from, raw<W>(b)));
  return row_of<W>(_mm512_permutex2var_epi64(raw<W>(a), from, raw<W>(b)));
}

template <u32 lane, class W>
H5L_INLINE Vector<W> spread_lane(Vector<W> row) {
  const Register from = raw<W>(all_lanes<W>(lane));
  if constexpr (sizeof(W) == 2) return row_of<W>(_mm512_permutexvar_epi16(from, raw<W>(row)));
  if constexpr (sizeof(W) == 4) return row_of<W>(_mm512_permutexvar_epi32(from, raw<W>(row)));
  return row_of<W>(_mm512_permutexvar_epi64(from, raw<W>(row)));
}

H5L_INLINE Register shuffle_in_quarters(Register row, Register from) { return _mm512_shuffle_epi8(row, from); }

// In each group of 2 * group lanes, gives lanes of the upper half a lane of the lower half; zeros elsewhere.
template <u32 group, class W>
H5L_INLINE Vector<W> from_lower_half(Vector<W> row, const Places<W>& from) {
  constexpr u64 upper = [] {
    u64 mask = 0;
    for (u32 lane = 0; lane < kLanes<W>; ++lane) mask |= u64{(lane & group) != 0} << lane;
    return mask;
  }();
  const Register places = _mm512_load_si512(from.at);
  if constexpr (sizeof(W) == 2) {
    return row_of<W>(_mm512_maskz_permutexvar_epi16(static_cast<__mmask32>(upper), places, raw<W>(row)));
  }
  if constexpr (sizeof(W) == 4) {
    return row_of<W>(_mm512_maskz_permutexvar_epi32(static_cast<__mmask16>(upper), places, raw<W>(row)));
  }
  return row_of<W>(_mm512_maskz_permutexvar_epi64(static_cast<__mmask8>(upper), places, raw<W>(row)));
}

template <class W>
H5L_INLINE Vector<W> to_sign_last(Vector<W> difference) {
  const Register d = raw<W>(difference);
  if constexpr (sizeof(W) == 4) return row_of<W>(_mm512_shldi_epi32(_mm512_abs_epi32(d), d, 1));
  return row_of<W>(_mm512_shldi_epi64(_mm512_abs_epi64(d), d, 1));
}

// Keeps the lanes of row `r` that are in a mask of positions; zeros elsewhere.
template <u32 r, class W>
H5L_INLINE Vector<W> keep_lanes(Vector<W> row, u64 mask) {
  if constexpr (sizeof(W) == 4) {
    return row_of<W>(_mm512_maskz_mov_epi32(static_cast<__mmask16>(mask >> (16 * r)), raw<W>(row)));
  }
  return row_of<W>(_mm512_maskz_mov_epi64(static_cast<__mmask8>(mask >> (8 * r)), raw<W>(row)));
}

template <class W>
H5L_INLINE W any_bits_of_lanes(Vector<W> row) {
  const __m256i half = _mm256_or_si256(_mm512_castsi512_si256(raw<W>(row)), _mm512_extracti64x4_epi64(raw<W>(row), 1));
  const __m128i quarter = _mm_or_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  const u64 bits = static_cast<u64>(_mm_cvtsi128_si64(_mm_or_si128(quarter, _mm_unpackhi_epi64(quarter, quarter))));
  return sizeof(W) == 8 ? static_cast<W>(bits) : static_cast<W>(bits | bits >> 32);
}

template <class W>
H5L_INLINE u32 bits_of(Mask<W> mask) {
  return mask;
}

template <auto before, class W, u32 group>
inline constexpr Places<W> kEntries =
    places<W>([](u32 lane) { return (lane & group) == 0 ? 0 : entry<before>(lane, group); });

// The addends of each lane of an upper half of 2 * group lanes (see entry), for more than 16 bytes; zeros elsewhere.
template <auto before, u32 group, class W>
H5L_INLINE Vector<W> entries_of_halves(Vector<W> row) {
  return from_lower_half<group, W>(row, kEntries<before, W, group>);
}

// Fills the lanes of row `r` that are in `holes` with the nearest earlier word outside of `holes`, or with `last`.
template <u32 r, u32 n, class W>
H5L_INLINE void fill_rows_forward(u64 holes, Vector<W> last, Rows<n, W>& rows) {
  constexpr u32 lanes = kLanes<W>;
  constexpr static auto up_to = places<W>([](u32 lane) { return (2u << lane) - 1; });
  const u32 kept = static_cast<u32>(~holes >> (r * lanes)) & static_cast<u32>(blocks::first_bits(lanes));
  const Register here = raw<W>(all_lanes(static_cast<W>(kept))) & _mm512_load_si512(up_to.at);
  Register row = raw<W>(rows.at[r]);
  if constexpr (sizeof(W) == 4) {  // the index of the last kept word up to the lane
    const Register number = _mm512_sub_epi32(_mm512_popcnt_epi32(here), _mm512_set1_epi32(1));
    row = _mm512_maskz_compress_epi32(static_cast<__mmask16>(kept), row);
    row = _mm512_mask_permutexvar_epi32(raw<W>(last), _mm512_test_epi32_mask(here, here), number, row);
  } else {
    const Register number = _mm512_sub_epi64(_mm512_popcnt_epi64(here), _mm512_set1_epi64(1));
    row = _mm512_maskz_compress_epi64(static_cast<__mmask8>(kept), row);
    row = _mm512_mask_permutexvar_epi64(raw<W>(last), _mm512_test_epi64_mask(here, here), number, row);
  }
  rows.at[r] = row_of<W>(row);
  if constexpr (r + 1 < Rows<n, W>::count)
    fill_rows_forward<r + 1>(holes, spread_lane<lanes - 1, W>(row_of<W>(row)), rows);
}

template <u32 n, class W>
H5L_INLINE void fill_forward(u64 holes, W last, Rows<n, W>& rows) {
  fill_rows_forward<0>(holes, all_lanes(last), rows);
}

}  // namespace h5lossy::H5L_TARGET::simd

// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Transposes a batch of residuals to bytes of all planes, `stride` bytes apart, and back: with vector code if the
// backend has AVX2 or AVX-512, otherwise by the definition. Also averages and neighbours of all words of a vector.
#pragma once

#include <type_traits>
#include <utility>

#include "codecs/pfpl_integers.h"
#include "codecs/portable.h"
#include "codecs/simd/lanes_common.h"

namespace h5lossy::H5L_TARGET::simd {

template <class V>
inline V average_lanes(V a, V b) {
  return (a | b) - ((a ^ b) >> 1);
}

template <class W, class Function>
inline auto with_lanes(Function function) {
  return [&]<u32... i>(std::integer_sequence<u32, i...>) {
    return function(std::integral_constant<u32, i>()...);
  }(std::make_integer_sequence<u32, kLanes<W>>());
}

// All bits of one lane.
template <class W>
inline Vector<W> only_lane(u32 lane) {
  const Vector<W> numbers = with_lanes<W>([](auto... i) { return Vector<W>{static_cast<W>(i)...}; });
  return (Vector<W>)(numbers == all_lanes(static_cast<W>(lane)));
}

}  // namespace h5lossy::H5L_TARGET::simd

#if !defined(H5L_AVX2)

namespace h5lossy::H5L_TARGET::simd {

// The lanes of two concatenated vectors, from lane `first` on.
template <class W, u32 first>
inline Vector<W> lanes_from(Vector<W> a, Vector<W> b) {
  return with_lanes<W>([&](auto... i) -> Vector<W> {
#if defined(__clang__)
    return __builtin_shufflevector(a, b, (first + i)...);
#else
    return __builtin_shuffle(a, b, Vector<W>{static_cast<W>(first + i)...});
#endif
  });
}

}  // namespace h5lossy::H5L_TARGET::simd

#endif

#if defined(H5L_AVX512)
#include "codecs/simd/pfpl_integers_avx512.h"
#else

#if defined(H5L_AVX2)
#include "codecs/simd/pfpl_integers_avx2.h"
#else

namespace h5lossy::H5L_TARGET::simd {

// Byte c of row r goes to byte r of row c.
inline void transpose_bytes(u64 (&rows)[8]) {
  const auto swap = [&](u32 r, u32 k, u64 low) {
    const u64 swapped = ((rows[r] >> (8 * k)) ^ rows[r + k]) & low;
    rows[r] ^= swapped << (8 * k);
    rows[r + k] ^= swapped;
  };
  for (u32 r = 0; r < 8; r += 2) swap(r, 1, 0x00FF00FF00FF00FFull);
  for (u32 r = 0; r < 8; r += r % 4 == 1 ? 3 : 1) swap(r, 2, 0x0000FFFF0000FFFFull);
  for (u32 r = 0; r < 4; ++r) swap(r, 4, 0x00000000FFFFFFFFull);
}

inline void block_to_planes(const u8 (&bytes)[64], u32 stride, u8* planes) {
  u64 rows[8];
  memcpy(rows, bytes, sizeof rows);
  for (u64& group : rows) group = pfpl::transpose_eight(group);
  transpose_bytes(rows);
  for (u32 j = 0; j < 8; ++j) store(planes + j * stride, rows[j]);
}

inline void block_from_planes(const u8* planes, u32 stride, u8 (&bytes)[64]) {
  u64 rows[8];
  for (u32 j = 0; j < 8; ++j) rows[j] = load<u64>(planes + j * stride);
  transpose_bytes(rows);
  for (u64& group : rows) group = pfpl::transpose_eight(group);
  memcpy(bytes, rows, sizeof rows);
}

}  // namespace h5lossy::H5L_TARGET::simd

#endif

namespace h5lossy::H5L_TARGET::simd {

inline constexpr u32 kValuesAtOnce = 64, kGroupsAtOnce = kValuesAtOnce / pfpl::kGroupOfIntegers;

// Byte `i` of words, counted from the most significant, is in planes 8 i to 8 i + 7. The shift that extracts a byte is
// a constant, since compilers find no narrow vector shift by a variable.
template <class W, u32 i>
inline void byte_to_planes(const W* residuals, W used, u32 stride, u8* planes) {
  constexpr u32 shift = static_cast<u32>(8 * (sizeof(W) - 1 - i));
  if (used >> shift == 0) {
    for (u32 j = 0; j < 8; ++j) store(planes + (8 * i + j) * stride, u64{0});
  } else {
    alignas(64) u8 bytes[kValuesAtOnce];
    for (u32 v = 0; v < kValuesAtOnce; ++v) bytes[v] = static_cast<u8>(residuals[v] >> shift);
    block_to_planes(bytes, stride, planes + 8 * i * stride);
  }
  if constexpr (i + 1 < sizeof(W)) byte_to_planes<W, i + 1>(residuals, used, stride, planes);
}

template <class W>
inline void batch_to_planes(const W* residuals, u32 stride, u8* planes) {
  W used = 0;
  for (u32 v = 0; v < kValuesAtOnce; ++v) used |= residuals[v];
  byte_to_planes<W, 0>(residuals, used, stride, planes);
}

// Counts the bytes of planes that are not zero. After the residuals there must be zeros, up to the end of a group and
// of a vector.
template <class W>
inline u32 count_plane_bytes(const W* residuals, u32 count) {
  const u8* bytes = reinterpret_cast<const u8*>(residuals);
  u32 sum = 0;
  for (u32 i = 0; i < count; i += pfpl::kGroupOfIntegers) {
    u64 used = 0;
    for (u32 j = 0; j < sizeof(W); ++j, bytes += sizeof(u64)) used |= load<u64>(bytes);
    for (u32 distance = 32; distance >= kWordBits<W>; distance /= 2) used |= used >> distance;
    sum += count_ones(u64{static_cast<W>(used)});
  }
  return sum;
}

// Not inlined, to keep the decode-only library small: there would be a copy for each byte of each type.
[[gnu::noinline]] inline void restore_bytes(const u8* planes, u32 stride, u8 (&bytes)[kValuesAtOnce]) {
  u64 used = 0;
  for (u32 j = 0; j < 8; ++j) used |= load<u64>(planes + j * stride);
  if (used != 0) {
    block_from_planes(planes, stride, bytes);
  } else {
    memset(bytes, 0, sizeof bytes);
  }
}

template <class W>
inline void batch_from_planes(const u8* planes, u32 stride, W* residuals) {
  alignas(64) u8 bytes[sizeof(W)][kValuesAtOnce];
  for (u32 i = 0; i < sizeof(W); ++i) restore_bytes(planes + 8 * i * stride, stride, bytes[i]);
  for (u32 v = 0; v < kValuesAtOnce; ++v) {
    W word = bytes[0][v];
    for (u32 i = 1; i < sizeof(W); ++i) word = static_cast<W>(static_cast<W>(word << 8) | bytes[i][v]);
    residuals[v] = word;
  }
}

}  // namespace h5lossy::H5L_TARGET::simd

#endif

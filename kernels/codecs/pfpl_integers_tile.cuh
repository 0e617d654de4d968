// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// A tile of integers in shared memory, in raster order. The format is in docs/format/integers.md.
#pragma once

#include "codecs/pfpl_integers.h"
#include "kernels/common/integers.cuh"
#include "kernels/common/tile_io.cuh"

namespace h5lossy::H5L_TARGET::pfpl {

// A thread transposes values in units of four groups (64 bits: two). Behind each unit is a gap, so that threads that
// access the same word of their units have no bank conflicts.
template <class W>
struct Units {
  static constexpr u32 values = sizeof(W) == 8 ? 16 : 32;
  static constexpr u32 words = values * sizeof(W) / 4;
  static constexpr u32 groups = values / kGroupOfIntegers;
  static constexpr u32 of_thread = kStreamBytes / kThreads / 4 / words;
  static constexpr u32 gap = sizeof(W) == 8 ? 8 : 4;

  // The byte at which a value is.
  H5L_DEVICE static u32 place(u32 i) { return i * static_cast<u32>(sizeof(W)) + i / values * gap; }
};
inline constexpr u32 kUnitsBytes = kStreamBytes + kStreamBytes / 32 * 4;  // of values of 8 bits, which have most gaps

template <class W>
H5L_DEVICE W* value_in_units(u8* area, u32 i) {
  return reinterpret_cast<W*>(area + Units<W>::place(i));
}

// What words are added up in, modulo 2^W.
template <class W>
struct SumOf {
  using Type = u32;
};
template <>
struct SumOf<u64> {
  using Type = u64;
};

// Byte q of a unit, in words of the transposed bits: byte s of value v of a group is in bytes[s][7 - v].
template <class W>
H5L_DEVICE u32 row_of_byte(const u32 (&bytes)[sizeof(W)][8], u32 q) {
  return bytes[q % sizeof(W)][7 - q / sizeof(W) % 8];
}

}  // namespace h5lossy::H5L_TARGET::pfpl

// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The parts of block_rows.h for rows in registers that do not depend on the instruction set.
#pragma once

#include "codecs/portable.h"
#include "codecs/simd/lanes.h"

namespace h5lossy::H5L_TARGET::simd {

inline constexpr bool kRowsAreRegisters = true;

template <u32 n, class W>
struct Rows {
  static constexpr u32 count = n / kLanes<W>;
  Vector<W> at[count];
};

// The words before a block; the last lane is used.
template <class W>
using Edge = Vector<W>;

template <class W>
H5L_INLINE Register raw(Vector<W> row) {
  return bit_cast<Register>(row);
}

template <class W>
H5L_INLINE Vector<W> row_of(Register row) {
  return bit_cast<Vector<W>>(row);
}

// Sums along the predictions within a row, of 2, 4, 8, ... neighbours, each from the sums of half as many. A lane of an
// upper half adds the sum of the lane at which its chain of predictions enters the lower half.
template <auto before>
constexpr u32 entry(u32 lane, u32 group) {
  const u32 upper = lane / group * group;
  while (lane >= upper) lane = before(lane);
  return lane;
}

// Bytes of a row, each from one of the same 16 bytes; 0x80 gives zero.
struct QuarterPlaces {
  alignas(kVectorBytes) u8 at[kVectorBytes];
};

template <auto before, class W, u32 group>
constexpr QuarterPlaces quarter_places() {
  QuarterPlaces result = {};
  for (u32 i = 0; i < kVectorBytes; ++i) {
    const u32 lane = i / sizeof(W), byte = i % sizeof(W);
    result.at[i] = (lane & group) == 0 ? 0x80 : static_cast<u8>((entry<before>(lane, group) * sizeof(W) + byte) % 16);
  }
  return result;
}

template <auto before, class W, u32 group>
inline constexpr QuarterPlaces kEntriesInQuarters = quarter_places<before, W, group>();

}  // namespace h5lossy::H5L_TARGET::simd

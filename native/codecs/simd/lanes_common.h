// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The parts of lanes.h that AVX-512 and AVX2 share.
#pragma once

#include "codecs/portable.h"

namespace h5lossy::H5L_TARGET::simd {

// The same number in all lanes.
template <class T>
inline Vector<T> all_lanes(T number) {
  return Vector<T>{} + number;
}

template <class W>
inline Vector<W> load_lanes(const void* from) {
  Vector<W> lanes;
  memcpy(&lanes, from, sizeof lanes);
  return lanes;
}

template <class V>
inline void store_lanes(void* to, V lanes) {
  memcpy(to, &lanes, sizeof lanes);
}

// How to store vectors from an address on. Non-temporal stores must be aligned, either to whole vectors or to 16 bytes,
// the alignment that allocators give.
enum class Stores { plain, non_temporal, non_temporal_16 };

inline Stores non_temporal_stores(const void* to) {
  const auto address = reinterpret_cast<__UINTPTR_TYPE__>(to);
  if (address % 64 == 0) return Stores::non_temporal;
  return address % 16 == 0 ? Stores::non_temporal_16 : Stores::plain;
}

}  // namespace h5lossy::H5L_TARGET::simd

// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Operations that a Vector (codecs/portable.h) has no operators for: comparisons to masks, conversions, and moves
// between lanes. For backends with AVX-512 or AVX2.
#pragma once

#include "codecs/bounds.h"
#include "codecs/portable.h"
#include "codecs/simd/lanes_common.h"

#if defined(H5L_AVX512)
#include "codecs/simd/lanes_avx512.h"
#elif defined(H5L_AVX2)
#include "codecs/simd/lanes_avx2.h"
#endif

#if defined(H5L_AVX512) || defined(H5L_AVX2)

namespace h5lossy::H5L_TARGET::simd {

template <class V>
inline void store_lanes(void* to, V lanes, Stores stores) {
  if (stores == Stores::plain) [[likely]] {
    store_lanes(to, lanes);
  } else {
    stream_lanes(to, lanes, stores);
  }
}

// The bits that are set in some lane.
template <class W>
inline W bits_in_any(Vector<W> x) {
  W bits = 0;
  for (u32 i = 0; i < kLanes<W>; ++i) bits |= x[i];
  return bits;
}

}  // namespace h5lossy::H5L_TARGET::simd

#endif

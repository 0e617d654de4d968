// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Prefix sums, a vector at a time on backends with lanes.h; otherwise one by one, which compilers do not vectorize.
#pragma once

#include "codecs/portable.h"
#include "codecs/simd/lanes.h"

namespace h5lossy::H5L_TARGET::simd {

// Starts from `sum`, and returns the last one.
template <class W>
inline W running_sums(W* words, u32 count, W sum) {
  u32 i = 0;
#if defined(H5L_AVX512) || defined(H5L_AVX2)
  Vector<W> before = all_lanes(sum);
  for (; i + kLanes<W> <= count; i += kLanes<W>) {
    const Vector<W> sums = sum_lanes(load_lanes<W>(words + i));
    store_lanes(words + i, sums + before);
    before += last_lane(sums);  // the loop-carried dependency is one addition
  }
  if (i != 0) sum = words[i - 1];
#endif
#pragma GCC unroll 32
  for (; i < count; ++i) words[i] = sum += words[i];
  return sum;
}

}  // namespace h5lossy::H5L_TARGET::simd

// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// PFPL's bit planes (docs/format/pfpl.md) and running sums, in whole vectors on backends with AVX-512 or AVX2.
// Remainders, and everything on other backends, are in codecs/pfpl.cpp.
#pragma once

#include "codecs/portable.h"
#include "codecs/simd/lanes.h"  // needed here, too: the amalgamated decoder includes each header once

#if defined(H5L_AVX512)
#include "codecs/simd/pfpl_planes_avx512.h"
#elif defined(H5L_AVX2)
#include "codecs/simd/pfpl_planes_avx2.h"
#else

namespace h5lossy::H5L_TARGET::simd {

template <class W, class Residuals>
inline u32 to_planes(u32, Residuals&, W*) {
  return 0;
}

template <class W, class Values>
inline u32 from_planes(const W*, u32, Values&) {
  return 0;
}

}  // namespace h5lossy::H5L_TARGET::simd

#endif

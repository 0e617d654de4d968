// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Operations of lanes.h for processors without AVX2; vectorization is left to the compiler.
#pragma once

#include <math.h>

#include "codecs/portable.h"

namespace h5lossy::H5L_TARGET {

inline Vector<double> fused_multiply_add(Vector<double> a, Vector<double> b, Vector<double> c) {
  for (u32 i = 0; i < kLanes<double>; ++i) c[i] = __builtin_fma(a[i], b[i], c[i]);
  return c;
}

inline Vector<double> square_root(Vector<double> of) {
  for (u32 i = 0; i < kLanes<double>; ++i) of[i] = sqrt(of[i]);
  return of;
}

template <class V>
inline Vector<double> to_doubles(V floats) {
  return __builtin_convertvector(floats, Vector<double>);
}

}  // namespace h5lossy::H5L_TARGET

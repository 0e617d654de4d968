// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Operations of lanes.h for AVX-512.
#pragma once

#include <immintrin.h>

#include "codecs/portable.h"

namespace h5lossy::H5L_TARGET {

inline Vector<double> fused_multiply_add(Vector<double> a, Vector<double> b, Vector<double> c) {
  return _mm512_fmadd_pd(a, b, c);
}

inline Vector<double> square_root(Vector<double> of) { return _mm512_sqrt_pd(of); }

// g++ 12 would convert halves.
template <class V>
inline Vector<double> to_doubles(V floats) {
  return bit_cast<Vector<double>>(_mm512_cvtps_pd(bit_cast<__m256>(floats)));
}

}  // namespace h5lossy::H5L_TARGET

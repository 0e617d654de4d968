// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Operations of lanes.h for AVX2.
#pragma once

#include <immintrin.h>

#include "codecs/portable.h"

namespace h5lossy::H5L_TARGET {

inline Vector<double> fused_multiply_add(Vector<double> a, Vector<double> b, Vector<double> c) {
  return _mm256_fmadd_pd(a, b, c);
}

inline Vector<double> square_root(Vector<double> of) { return _mm256_sqrt_pd(of); }

template <class V>
inline Vector<double> to_doubles(V floats) {
  return bit_cast<Vector<double>>(_mm256_cvtps_pd(bit_cast<__m128>(floats)));
}

}  // namespace h5lossy::H5L_TARGET
